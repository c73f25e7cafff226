//! The compact binary header (`RocketMQSerializable`).
//!
//! ```text
//!  0      2      3         5        9      13          17
//!  +------+------+---------+--------+------+-----------+--------+--------+---------+
//!  | code | lang | version | opaque | flag | remarkLen | remark | extLen | ext map |
//!  +------+------+---------+--------+------+-----------+--------+--------+---------+
//!    i16    u8     i16       i32      i32    i32                  i32
//!  ext map: { keyLen i16, key, valueLen i32, value } until extLen bytes are used up
//! ```
//!
//! Invariant: every length stays inside the block that holds it; Java lets a wrong one reach
//! into the body and then reads a shifted body. A zero length means null (4.9.4 and later), so
//! an empty ext value counts as a missing field. Deliberately absent: the language, which the
//! NameServer never looks at and of which Java accepts any byte.

use std::borrow::Cow;

use super::frame::{FrameLimits, SerializeType};
use super::header::{ExtFields, FieldList, Header, HeaderError, HeaderFields};

/// Longest key: its length is a signed 16-bit number.
pub(super) const MAX_KEY_BYTES: usize = i16::MAX as usize;

/// `LanguageCode.JAVA`.
const LANGUAGE_JAVA: u8 = 0;

/// Reads a binary header that fills `bytes`. Bytes behind the map are ignored, as Java does when
/// the frame has no body.
pub(super) fn parse<'a>(bytes: &'a [u8], limits: &FrameLimits) -> Result<Header<'a>, HeaderError> {
    let mut header = Header::empty(SerializeType::RocketMq);
    let mut rest = bytes;
    header.code = take_i16(&mut rest)?.into();
    let _language = take::<1>(&mut rest)?;
    header.version = take_i16(&mut rest)?.into();
    header.opaque = take_i32(&mut rest)?;
    header.flag = take_i32(&mut rest)?;
    let remark_bytes = take_i32(&mut rest)?;
    let _remark = take_slice(&mut rest, i64::from(remark_bytes))?;
    // Java takes a negative length of the map, alone of all lengths, for "no map".
    let ext_bytes = take_i32(&mut rest)?.max(0);
    let map = take_slice(&mut rest, i64::from(ext_bytes))?;
    parse_ext(map, limits, &mut header.ext)?;
    Ok(header)
}

/// Writes a binary header. As in Java, code and version are cut to 16 bits, null and empty are
/// the same, and the language is `JAVA`. Keys must not be longer than [`MAX_KEY_BYTES`].
pub(super) fn write(out: &mut Vec<u8>, fields: &HeaderFields<'_>) {
    out.extend_from_slice(&(fields.code as i16).to_be_bytes());
    out.push(LANGUAGE_JAVA);
    out.extend_from_slice(&(fields.version as i16).to_be_bytes());
    out.extend_from_slice(&fields.opaque.to_be_bytes());
    out.extend_from_slice(&fields.flag.to_be_bytes());
    write_text(out, fields.remark.unwrap_or_default());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (key, value) in fields.ext.unwrap_or_default() {
        out.extend_from_slice(&(key.len() as i16).to_be_bytes());
        out.extend_from_slice(key.as_bytes());
        write_text(out, value);
    }
    let ext_bytes = (out.len() - length_at - 4) as i32;
    out[length_at..length_at + 4].copy_from_slice(&ext_bytes.to_be_bytes());
}

/// Lengths wrap only for a frame that [`super::frame::close`] then refuses.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn parse_ext<'a>(
    map: &'a [u8],
    limits: &FrameLimits,
    ext: &mut ExtFields<'a>,
) -> Result<(), HeaderError> {
    let mut fields = FieldList::new(ext, limits);
    let mut rest = map;
    while !rest.is_empty() {
        let key_bytes = take_i16(&mut rest)?;
        let key = take_slice(&mut rest, i64::from(key_bytes))?;
        let value_bytes = take_i32(&mut rest)?;
        let value = take_slice(&mut rest, i64::from(value_bytes))?;
        let is_missing = key.is_empty() || value.is_empty();
        fields.push(text(key), (!is_missing).then(|| text(value)))?;
    }
    fields.finish(map);
    Ok(())
}

/// Bytes that are not UTF-8 become U+FFFD, as in Java.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Checks whole words at a time, which the lossy reading does not.
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn take_i16(rest: &mut &[u8]) -> Result<i16, HeaderError> {
    Ok(i16::from_be_bytes(take(rest)?))
}

fn take_i32(rest: &mut &[u8]) -> Result<i32, HeaderError> {
    Ok(i32::from_be_bytes(take(rest)?))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], HeaderError> {
    let (first, tail) = rest.split_first_chunk::<N>().ok_or(HeaderError::Binary)?;
    *rest = tail;
    Ok(*first)
}

/// Refuses negative lengths and those beyond the block.
fn take_slice<'a>(rest: &mut &'a [u8], length: i64) -> Result<&'a [u8], HeaderError> {
    let length = usize::try_from(length).map_err(|_| HeaderError::Binary)?;
    let (first, tail) = rest.split_at_checked(length).ok_or(HeaderError::Binary)?;
    *rest = tail;
    Ok(first)
}
