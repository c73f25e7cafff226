//! The request header: what of it the NameServer reads (`RemotingCommand`).

use std::borrow::Cow;

use smallvec::SmallVec;
use thiserror::Error;

use super::codes;
use super::frame::SerializeType;

/// A request header, borrowed from its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Request code.
    pub code: i32,
    /// `MQVersion` ordinal of the sender; 0 when missing.
    pub version: i32,
    /// Number that pairs an answer with its request; 0 when missing (Java: any).
    pub opaque: i32,
    /// Bit 0 answer, bit 1 one-way.
    pub flag: i32,
    /// How the header was written.
    pub serialize: SerializeType,
    /// The custom fields.
    pub ext: ExtFields<'a>,
}

impl Header<'_> {
    /// The frame is an answer, whatever bit 1 says: dropped in silence.
    pub fn is_response(&self) -> bool {
        self.flag & codes::FLAG_RESPONSE != 0
    }

    /// The sender wants no answer, whatever the outcome.
    pub fn is_oneway(&self) -> bool {
        self.flag & codes::FLAG_ONEWAY != 0
    }
}

/// `extFields`: text keys and values in the order of the wire; for equal keys the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtFields<'a> {
    /// Key and value of each field whose value is not null.
    pub fields: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 10]>,
    /// The bytes they were read from (JSON: the object with its braces; binary: the map block),
    /// for the digest of a registration. Empty when there are none.
    pub raw: &'a [u8],
}

impl ExtFields<'_> {
    /// The value of `key`, which is compared with its case.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }
}

/// Why a header cannot be read: the connection is closed, as Java closes it, without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Not a JSON object that fastjson would take.
    #[error("malformed JSON header")]
    Json,
    /// Not UTF-8.
    #[error("header is not UTF-8")]
    Utf8,
    /// `code`, `flag`, `opaque`, `version` or `language` has a value that Java refuses.
    #[error("header field {0} has a bad value")]
    Field(&'static str),
    /// More ext fields than allowed.
    #[error("too many ext fields")]
    ExtFields,
    /// Nested deeper than allowed.
    #[error("header nested too deeply")]
    Depth,
    /// The binary header ends early or has a length beyond its block.
    #[error("malformed binary header")]
    Binary,
}
