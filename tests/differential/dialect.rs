//! Releases of Java, and what those that are not 5.3.3 are known to write in another way.
//!
//! 5.5.0 says that it is version 513, and has another JSON library (fastjson2): control
//! characters get lower-case digits, all else is raw, in the standard form too. Strings are
//! therefore compared by their characters there, and everything else as with 5.3.3.
//!
//! 4.9.4 says that it is version 401, answers in the form of the request's header, and knows
//! less; see [`crate::old`].

use crate::canon::{canonical, map_strings};
use crate::old;
use crate::oracle::{Oracle, Rules};
use crate::support::answer::{Answer, Remark};
use crate::support::fastjson;
use crate::support::request::{Body, Request};

/// A release of Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V4_9_4,
    V5_3_3,
    V5_5_0,
}

impl Dialect {
    pub(crate) fn of(number: &str) -> Option<Self> {
        match number {
            "4.9.4" => Some(Self::V4_9_4),
            "5.3.3" => Some(Self::V5_3_3),
            "5.5.0" => Some(Self::V5_5_0),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> &'static str {
        match self {
            Self::V4_9_4 => "4.9.4",
            Self::V5_3_3 => "5.3.3",
            Self::V5_5_0 => "5.5.0",
        }
    }

    /// An oracle that speaks for a Java of this release.
    pub(crate) fn oracle(self, rules: Rules) -> Oracle {
        match self {
            Self::V4_9_4 => Oracle::following_java_4_9(rules),
            Self::V5_3_3 | Self::V5_5_0 => Oracle::following_java(rules),
        }
    }

    /// Makes the request one that this release reads as 5.3.3 does; false if there is none.
    /// 5.5.0 refuses bare integer keys in what it does not know: the mappings of a sender that is
    /// older than mappings. It also refuses a body of blanks, or an empty array, for an object.
    pub(crate) fn adapt(self, req: &mut Request) -> bool {
        match self {
            Self::V4_9_4 => old::adapt(req),
            Self::V5_3_3 => true,
            Self::V5_5_0 => {
                let bare = matches!(&req.body, Body::Register(spec) if !spec.mappings.is_empty());
                let nothing = matches!(
                    &req.body,
                    Body::Raw(text) if text.starts_with(b" ") || text == b"[]" || text == b"[ ]"
                );
                !nothing && (req.version >= 37 || !bare)
            }
        }
    }

    /// Whether it does the same with such a request as 5.3.3, in the state of this oracle.
    pub(crate) fn suits(self, oracle: &Oracle, conn: u64, req: &Request, now_ms: u64) -> bool {
        self != Self::V4_9_4 || oracle.suits_4_9(conn, req, now_ms)
    }

    /// Whether it answers requests of this code; it may do so without knowing it.
    pub(crate) fn answers(self, code: i32) -> bool {
        self != Self::V4_9_4 || old::answers(code)
    }

    /// Whether it is a 5.x: a 104 is answered before it is applied, and a broker says after how
    /// long it expires.
    pub(crate) fn is_5(self) -> bool {
        self != Self::V4_9_4
    }

    /// Whether the answer to a request with a binary header has one too. Exceptions never do.
    pub(crate) fn mirrors(self, answer: &Answer) -> bool {
        self == Self::V4_9_4 && answer.remark != Remark::Any
    }

    /// What this release says where 5.3.3 says this.
    pub(crate) fn says(self, answer: Answer) -> Answer {
        match self {
            Self::V4_9_4 => old::says(answer),
            Self::V5_3_3 | Self::V5_5_0 => answer,
        }
    }

    /// A frame of this release with the header that 5.3.3 would have written.
    pub(crate) fn translate(self, frame: &[u8]) -> Result<Vec<u8>, String> {
        let version: i16 = match self {
            Self::V4_9_4 => 401,
            Self::V5_3_3 => return Ok(frame.to_vec()),
            Self::V5_5_0 => 513,
        };
        let word = frame.get(4..8).ok_or("cut off")?;
        let len = u32::from_be_bytes([0, word[1], word[2], word[3]]) as usize;
        let mut header = frame.get(8..8 + len).ok_or("cut off")?.to_vec();
        let body = &frame[8 + len..];
        if self == Self::V5_5_0 {
            header = map_strings(&header, reescape);
        }
        let wrong = || format!("not version {version}");
        if word[0] == 1 {
            let there = header.get_mut(3..5).ok_or("cut off")?;
            if there != version.to_be_bytes() {
                return Err(wrong());
            }
            there.copy_from_slice(&479_i16.to_be_bytes());
        } else {
            let end = format!("\"version\":{version}}}");
            let start = header.strip_suffix(end.as_bytes()).ok_or_else(wrong)?;
            header = [start, b"\"version\":479}"].concat();
        }
        let length = 4 + header.len() as u32 + body.len() as u32;
        let mut out = length.to_be_bytes().to_vec();
        out.extend((u32::from(word[0]) << 24 | header.len() as u32).to_be_bytes());
        out.extend(header);
        out.extend(body);
        Ok(out)
    }

    /// A body without hash order, and without what this release writes in another way.
    pub(crate) fn canonical(self, code: i32, body: &[u8]) -> Vec<u8> {
        match self {
            Self::V4_9_4 | Self::V5_3_3 => canonical(code, body).into_owned(),
            Self::V5_5_0 => canonical(code, &map_strings(body, reescape)).into_owned(),
        }
    }
}

/// A string literal in the default form of 5.3.3, whatever its escapes were.
fn reescape(literal: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<String>(literal) {
        Ok(text) => {
            let mut out = String::new();
            fastjson::push_plain(&mut out, &text);
            out.into_bytes()
        }
        Err(_) => literal.to_vec(),
    }
}
