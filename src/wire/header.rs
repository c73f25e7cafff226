//! The header: what of it the NameServer reads and what it writes (`RemotingCommand`).
//!
//! Invariant: both kinds give the same [`Header`] with Java's map semantics for ext fields: for
//! equal keys the last counts, and a last one that is null counts as missing. What no request
//! of the NameServer is judged by (`language`, `remark`, the name of the serialize type) is
//! checked as Java checks it and not kept.

use std::borrow::Cow;

use smallvec::SmallVec;
use thiserror::Error;

use super::frame::{self, Frame, FrameLimits, SerializeType};
use super::{codes, header_binary, header_json};

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

impl<'a> Header<'a> {
    /// What stands for a header that names nothing.
    #[inline]
    pub(super) fn empty(serialize: SerializeType) -> Self {
        Self {
            code: 0,
            version: 0,
            opaque: 0,
            flag: 0,
            serialize,
            ext: ExtFields::default(),
        }
    }

    /// Reads the header of `frame`, of the kind that the frame names.
    #[inline]
    pub fn parse(frame: &Frame<'a>, limits: &FrameLimits) -> Result<Self, HeaderError> {
        match frame.serialize {
            SerializeType::Json => header_json::parse(frame.header, limits),
            SerializeType::RocketMq => header_binary::parse(frame.header, limits),
        }
    }

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
        self.fields
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, v)| &**v)
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

/// What goes into a header that is written; the language is always `JAVA`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderFields<'a> {
    /// Request or response code.
    pub code: i32,
    /// `MQVersion` ordinal of the writer.
    pub version: i32,
    /// Number that pairs an answer with its request.
    pub opaque: i32,
    /// Bit 0 answer, bit 1 one-way.
    pub flag: i32,
    /// `remark`; `None` writes nothing.
    pub remark: Option<&'a str>,
    /// `extFields` in the order given: `None` writes nothing, an empty list an empty object. The
    /// binary kind has the same bytes for both.
    pub ext: Option<&'a [(&'a str, &'a str)]>,
}

/// Why a request cannot be written; nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A key whose length does not fit into a binary header.
    #[error("ext key of {0} bytes is too long for a binary header")]
    Key(usize),
    /// Longer than Java peers read.
    #[error("frame is too long")]
    Frame,
}

/// Appends a request frame as Java writes it (code and version cut to 16 bits in the binary
/// kind). For the requests of this server to brokers, for tools and for tests.
pub fn encode_request(
    out: &mut Vec<u8>,
    serialize: SerializeType,
    fields: &HeaderFields<'_>,
    body: &[u8],
) -> Result<(), EncodeError> {
    if serialize == SerializeType::RocketMq {
        let mut keys = fields
            .ext
            .unwrap_or_default()
            .iter()
            .map(|(key, _)| key.len());
        if let Some(key_bytes) = keys.find(|bytes| *bytes > header_binary::MAX_KEY_BYTES) {
            return Err(EncodeError::Key(key_bytes));
        }
    }
    let start = frame::open(out);
    write_header(out, serialize, fields);
    let header_end = out.len();
    out.extend_from_slice(body);
    if frame::close(out, start, header_end, 0, serialize) {
        return Ok(());
    }
    out.truncate(start);
    Err(EncodeError::Frame)
}

/// Appends a header alone.
pub(super) fn write_header(out: &mut Vec<u8>, serialize: SerializeType, fields: &HeaderFields<'_>) {
    match serialize {
        SerializeType::Json => header_json::write(out, fields),
        SerializeType::RocketMq => header_binary::write(out, fields),
    }
}

/// Collects ext fields as Java's `HashMap` would hold them, but in the order of the wire; where
/// they stay, because so large a list costs more to move than to fill.
pub(super) struct FieldList<'f, 'a> {
    ext: &'f mut ExtFields<'a>,
    /// Keys with a null value, and how many fields stood before each.
    nulls: Vec<(Cow<'a, str>, usize)>,
    /// How many more entries are allowed.
    left: usize,
}

impl<'f, 'a> FieldList<'f, 'a> {
    /// Fills `ext`, which must be empty.
    pub(super) fn new(ext: &'f mut ExtFields<'a>, limits: &FrameLimits) -> Self {
        Self {
            ext,
            nulls: Vec::new(),
            left: limits.ext_fields,
        }
    }

    /// Adds an entry; `None` is null.
    #[inline]
    pub(super) fn push(
        &mut self,
        key: Cow<'a, str>,
        value: Option<Cow<'a, str>>,
    ) -> Result<(), HeaderError> {
        self.left = self.left.checked_sub(1).ok_or(HeaderError::ExtFields)?;
        match value {
            Some(value) => self.ext.fields.push((key, value)),
            None => self.nulls.push((key, self.ext.fields.len())),
        }
        Ok(())
    }

    /// Takes out the fields that a later null of the same key replaced.
    #[inline]
    pub(super) fn finish(mut self, raw: &'a [u8]) {
        if !self.nulls.is_empty() {
            self.drop_replaced_by_null();
        }
        self.ext.raw = raw;
    }

    #[cold]
    fn drop_replaced_by_null(&mut self) {
        let Self { ext, nulls, .. } = self;
        nulls.sort_unstable();
        let mut index = 0;
        ext.fields.retain(|(key, _)| {
            let here = index;
            index += 1;
            let end = nulls.partition_point(|(null_key, _)| null_key <= key);
            let last_null = end.checked_sub(1).map(|last| &nulls[last]);
            !last_null.is_some_and(|(null_key, before)| null_key == key && *before > here)
        });
    }
}

#[cfg(test)]
mod tests;
