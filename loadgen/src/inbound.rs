//! Cuts a stream of received bytes into answers, and compares large bodies as they arrive.
//!
//! A body that is expected to equal a known one is never stored: each piece is compared with the
//! known bytes at its place. Only when a byte differs is the body collected, its equal front
//! copied from the known one. So 5,000 connections that each receive 0.7 MB need no buffers.
//!
//! Pure: bytes in, answers out. Invariant: any split of a stream gives the same answers.

use std::rc::Rc;

use namesrv::wire::frame::{FrameError, FrameLimits, HEAD_BYTES, cut_head};
use namesrv::wire::header::{Header, HeaderError};
use thiserror::Error;

/// What is read at most: larger than any NameServer sends, so that the size is judged elsewhere.
const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 256 << 20,
    header_bytes: 1 << 20,
    ext_fields: 1024,
};

/// Why nothing more can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InboundError {
    /// The frame is none.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Its header is none.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// It is a request.
    #[error("the server sent a request with code {0}")]
    Request(i32),
}

/// A complete answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Pairs it with its request.
    pub opaque: i32,
    /// Response code.
    pub code: i32,
    /// `changed` of 322.
    pub changed: Option<bool>,
    /// `masterAddr` of 103.
    pub master_addr: Option<String>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// Equal to the one that was expected.
    Same(Rc<[u8]>),
    /// Any other, or none.
    Other(Vec<u8>),
}

impl Body {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Same(bytes) => bytes,
            Self::Other(bytes) => bytes,
        }
    }
}

/// The receiving side of one connection.
#[derive(Debug, Default)]
pub struct Inbound {
    /// The beginning of a frame whose header is not complete.
    head: Vec<u8>,
    /// The frame whose body is arriving.
    current: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    answer: Answer,
    missing: usize,
    /// The known body, as long as all bytes were equal.
    expected: Option<(Rc<[u8]>, usize)>,
    collected: Vec<u8>,
}

impl Inbound {
    /// Takes bytes from `input` up to the end of the next answer. `None` when all were taken and
    /// no answer is complete. `expect` is asked once for each answer with a body, by its opaque,
    /// code and length, for a body that it probably equals.
    ///
    /// # Errors
    /// The stream makes no sense; nothing more can be read from it.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        expect: impl FnOnce(i32, i32, usize) -> Option<Rc<[u8]>>,
    ) -> Result<Option<Answer>, InboundError> {
        if self.current.is_none() {
            let Some(started) = self.start(input)? else {
                return Ok(None);
            };
            self.current = Some(started);
            if let Some(partial) = &mut self.current
                && partial.missing > 0
            {
                let answer = &partial.answer;
                let known = expect(answer.opaque, answer.code, partial.missing);
                // Of another length it cannot be equal.
                let known = known.filter(|bytes| bytes.len() == partial.missing);
                partial.expected = known.map(|bytes| (bytes, 0));
            }
        }
        if let Some(partial) = &mut self.current {
            partial.take(input);
            if partial.missing > 0 {
                return Ok(None);
            }
        }
        Ok(self.current.take().map(Partial::finish))
    }

    /// The stream may end here without a frame being cut.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.head.is_empty() && self.current.is_none()
    }

    fn start(&mut self, input: &mut &[u8]) -> Result<Option<Partial>, InboundError> {
        if self.head.is_empty() {
            if let Some((partial, used)) = read_head(input)? {
                *input = &input[used..];
                return Ok(Some(partial));
            }
            self.head.extend_from_slice(input);
            *input = &[];
            return Ok(None);
        }
        let before = self.head.len();
        self.head.extend_from_slice(input);
        let Some((partial, used)) = read_head(&self.head)? else {
            *input = &[];
            return Ok(None);
        };
        *input = &input[used - before..];
        self.head.clear();
        Ok(Some(partial))
    }
}

/// Reads everything in front of the body, and says how long that is.
fn read_head(input: &[u8]) -> Result<Option<(Partial, usize)>, InboundError> {
    let Some(frame) = cut_head(input, &LIMITS)? else {
        return Ok(None);
    };
    let header = Header::parse(&frame, &LIMITS)?;
    if !header.is_response() {
        return Err(InboundError::Request(header.code));
    }
    let used = HEAD_BYTES + frame.header.len();
    let answer = Answer {
        opaque: header.opaque,
        code: header.code,
        changed: header.ext.get("changed").map(|text| text == "true"),
        master_addr: header.ext.get("masterAddr").map(str::to_owned),
        body: Body::Other(Vec::new()),
    };
    let partial = Partial {
        answer,
        missing: frame.total_bytes - used,
        expected: None,
        collected: Vec::new(),
    };
    Ok(Some((partial, used)))
}

impl Partial {
    fn take(&mut self, input: &mut &[u8]) {
        let (piece, rest) = input.split_at(input.len().min(self.missing));
        *input = rest;
        self.missing -= piece.len();
        if let Some((known, equal)) = &mut self.expected {
            if known[*equal..*equal + piece.len()] == *piece {
                *equal += piece.len();
                return;
            }
            self.collected.reserve_exact(known.len());
            self.collected.extend_from_slice(&known[..*equal]);
            self.expected = None;
        }
        self.collected.extend_from_slice(piece);
    }

    fn finish(self) -> Answer {
        let body = match self.expected {
            Some((known, _)) => Body::Same(known),
            None => Body::Other(self.collected),
        };
        Answer {
            body,
            ..self.answer
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use namesrv::wire::frame::SerializeType;
    use namesrv::wire::reply::{Output, ReplyExt};

    use super::*;

    fn stream() -> Vec<u8> {
        let mut out = Output::default();
        let ext = ReplyExt::Fields(&[("changed", "true"), ("masterAddr", "10.0.0.1:10911")]);
        let _ = out.reply(SerializeType::Json, 1, 0, None, ext, |body| {
            body.extend_from_slice(b"known body");
        });
        let _ = out.reply(
            SerializeType::Json,
            2,
            17,
            Some("gone"),
            ReplyExt::None,
            |_| (),
        );
        let _ = out.reply(SerializeType::Json, 3, 0, None, ReplyExt::None, |body| {
            body.extend_from_slice(b"other body");
        });
        out.buf
    }

    fn read(bytes: &[u8], piece: usize) -> (Vec<Answer>, Inbound) {
        let known: Rc<[u8]> = Rc::from(&b"known body"[..]);
        let mut inbound = Inbound::default();
        let mut answers = Vec::new();
        for mut input in bytes.chunks(piece) {
            while !input.is_empty() {
                let expect = |_, code, _| (code == 0).then(|| Rc::clone(&known));
                answers.extend(inbound.next(&mut input, expect).unwrap());
            }
        }
        (answers, inbound)
    }

    #[test]
    fn any_split_of_a_stream_gives_the_same_answers() {
        let bytes = stream();
        let (whole, _) = read(&bytes, bytes.len());
        assert_eq!(whole.len(), 3);
        assert_eq!((whole[0].changed, whole[0].code), (Some(true), 0));
        assert_eq!(whole[0].master_addr.as_deref(), Some("10.0.0.1:10911"));
        assert!(matches!(&whole[0].body, Body::Same(bytes) if **bytes == *b"known body"));
        assert_eq!((whole[1].opaque, whole[1].code), (2, 17));
        assert_eq!(whole[1].body, Body::Other(Vec::new()));
        assert_eq!(whole[2].body, Body::Other(b"other body".to_vec()));
        for piece in 1..bytes.len() {
            let (answers, inbound) = read(&bytes, piece);
            assert_eq!(answers, whole, "{piece}");
            assert!(inbound.is_between_frames());
        }
    }

    #[test]
    fn a_cut_frame_is_noticed_wherever_it_is_cut() {
        let bytes = stream();
        let ends: Vec<usize> = (1..=bytes.len())
            .filter(|end| read(&bytes[..*end], 7).1.is_between_frames())
            .collect();
        assert_eq!(ends.len(), 3, "only between answers: {ends:?}");
        assert_eq!(ends.last(), Some(&bytes.len()));
    }

    #[test]
    fn nonsense_and_requests_are_refused() {
        let mut inbound = Inbound::default();
        let wrong = inbound.next(&mut &b"HTTP/1.1 400 Bad Request"[..], |_, _, _| None);
        assert!(matches!(wrong, Err(InboundError::Frame(_))), "{wrong:?}");
        let mut request = Vec::new();
        let fields = namesrv::wire::header::HeaderFields {
            code: 40,
            ..Default::default()
        };
        namesrv::wire::header::encode_request(&mut request, SerializeType::Json, &fields, b"")
            .unwrap();
        let wrong = Inbound::default().next(&mut request.as_slice(), |_, _, _| None);
        assert_eq!(wrong, Err(InboundError::Request(40)));
    }
}
