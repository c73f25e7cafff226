//! Releases of Java, and what those that are not 5.3.3 are known to write in another way.
//!
//! 5.5.0 says that it is version 513, and has another JSON library (fastjson2): control
//! characters get lower-case digits, all else is raw, in the standard form too. Strings are
//! therefore compared by their characters there, and everything else as with 5.3.3.

use crate::canon::{canonical, map_strings};
use crate::support::fastjson;
use crate::support::request::{Body, Request};

/// A release of Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V5_3_3,
    V5_5_0,
}

impl Dialect {
    pub(crate) fn of(number: &str) -> Option<Self> {
        match number {
            "5.3.3" => Some(Self::V5_3_3),
            "5.5.0" => Some(Self::V5_5_0),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> &'static str {
        match self {
            Self::V5_3_3 => "5.3.3",
            Self::V5_5_0 => "5.5.0",
        }
    }

    /// Whether this release reads the request as 5.3.3 does. 5.5.0 refuses bare integer keys in
    /// what it does not know: the mappings of a sender that is older than mappings.
    pub(crate) fn reads(self, req: &Request) -> bool {
        let old = req.version < 37 && self == Self::V5_5_0;
        !(old && matches!(&req.body, Body::Register(spec) if !spec.mappings.is_empty()))
    }

    /// A frame of this release with the header that 5.3.3 would have written.
    pub(crate) fn translate(self, frame: &[u8]) -> Result<Vec<u8>, String> {
        if self == Self::V5_3_3 {
            return Ok(frame.to_vec());
        }
        let word = frame.get(4..8).ok_or("cut off")?;
        let len = u32::from_be_bytes([0, word[1], word[2], word[3]]) as usize;
        let header = frame.get(8..8 + len).ok_or("cut off")?;
        let body = &frame[8 + len..];
        let header = map_strings(header, reescape);
        let ours = header
            .strip_suffix(b"\"version\":513}")
            .ok_or("not version 513")?;
        let header = [ours, b"\"version\":479}"].concat();
        let length = 4 + header.len() as u32 + body.len() as u32;
        let mut out = length.to_be_bytes().to_vec();
        out.extend((u32::from(word[0]) << 24 | header.len() as u32).to_be_bytes());
        out.extend(header);
        out.extend(body);
        Ok(out)
    }

    /// A body without hash order, and without what this release writes in another way.
    pub(crate) fn canonical(self, code: i32, body: &[u8]) -> Vec<u8> {
        if self == Self::V5_3_3 {
            return canonical(code, body).into_owned();
        }
        canonical(code, &map_strings(body, reescape)).into_owned()
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
