//! Headers: both readers of JSON agree, and what was read can be written and read again, in
//! either kind and with the same meaning.
//!
//! The first byte chooses kind and limits; the rest is the header.

use std::collections::BTreeMap;

use namesrv::wire::frame::{self, Frame, FrameLimits, HEAD_BYTES, SerializeType};
use namesrv::wire::header::{EncodeError, Header, HeaderError, HeaderFields, encode_request};

/// [`Header::parse`], or what a self-test puts in its place.
pub(crate) type Parse = for<'a> fn(&Frame<'a>, &FrameLimits) -> Result<Header<'a>, HeaderError>;

pub(crate) fn laws(data: &[u8]) {
    laws_of(|frame, limits| Header::parse(frame, limits), data);
}

pub(crate) fn laws_of(parse: Parse, data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else {
        return;
    };
    let limits = FrameLimits {
        frame_bytes: 16 << 20,
        header_bytes: 1 << 20,
        ext_fields: if how & 2 == 0 { 1024 } else { 3 },
    };
    let serialize = if how & 1 == 0 {
        SerializeType::Json
    } else {
        SerializeType::RocketMq
    };
    let parsed = parse(&frame_of(serialize, bytes), &limits);
    if serialize == SerializeType::Json {
        the_lenient_reader_agrees(parse, bytes, &parsed, &limits);
    }
    let Ok(header) = parsed else {
        return;
    };
    assert_eq!(header.serialize, serialize);
    assert!(header.ext.fields.len() <= limits.ext_fields);
    assert!(bytes.as_ptr_range().contains(&header.ext.raw.as_ptr()) || header.ext.raw.is_empty());
    for (key, _) in &header.ext.fields {
        assert_eq!(header.ext.get(key), java_map(&header).get(&**key).copied());
    }
    writes_and_reads_again(parse, &header, &limits);
}

/// A leading comma, which fastjson skips and no peer writes, makes the scan give up; the lenient
/// reader must then find the same, also when it refuses.
fn the_lenient_reader_agrees(
    parse: Parse,
    bytes: &[u8],
    parsed: &Result<Header<'_>, HeaderError>,
    limits: &FrameLimits,
) {
    let Some(rest) = bytes.strip_prefix(b"{") else {
        return;
    };
    let unusual = [b"{,", rest].concat();
    let lenient = parse(&frame_of(SerializeType::Json, &unusual), limits);
    match (&lenient, parsed) {
        (Ok(lenient), Ok(parsed)) => {
            assert_eq!(numbers(lenient), numbers(parsed));
            assert_eq!(fields(lenient), fields(parsed));
            assert_eq!(lenient.ext.raw, parsed.ext.raw);
        }
        _ => assert_eq!(lenient.err(), parsed.as_ref().err().copied()),
    }
}

/// The header as a peer would write it, in both kinds.
fn writes_and_reads_again(parse: Parse, header: &Header<'_>, limits: &FrameLimits) {
    let ext = fields(header);
    let written = HeaderFields {
        code: header.code,
        version: header.version,
        opaque: header.opaque,
        flag: header.flag,
        remark: Some("\u{1}\"\\/\u{2028}é"),
        ext: Some(&ext),
    };
    let json = write(SerializeType::Json, &written).expect("it was read from less than a frame");
    let json = cut(&json, limits);
    let again = parse(&json, limits).expect("JSON that we wrote");
    assert_eq!(numbers(&again), numbers(header));
    assert_eq!(fields(&again), ext);
    assert!(serde_json::from_slice::<serde_json::Value>(json.header).is_ok());

    let binary = match write(SerializeType::RocketMq, &written) {
        Ok(binary) => binary,
        Err(error) => {
            assert!(matches!(error, EncodeError::Key(bytes) if bytes > i16::MAX as usize));
            return;
        }
    };
    let again = parse(&cut(&binary, limits), limits).expect("a binary header that we wrote");
    let (code, version) = (
        i32::from(header.code as i16),
        i32::from(header.version as i16),
    );
    assert_eq!(numbers(&again), (code, version, header.opaque, header.flag));
    // an empty text reads as null there, and a null counts as missing
    let mut expected = java_map(header);
    expected.retain(|key, value| !key.is_empty() && !value.is_empty());
    assert_eq!(java_map(&again), expected);
}

fn write(serialize: SerializeType, fields: &HeaderFields<'_>) -> Result<Vec<u8>, EncodeError> {
    let mut out = b"before".to_vec();
    let written = encode_request(&mut out, serialize, fields, b"body");
    assert_eq!(&out[..6], b"before");
    assert!(
        written.is_ok() || out.len() == 6,
        "bytes of a frame that was refused"
    );
    written.map(|()| out.split_off(6))
}

fn cut<'a>(bytes: &'a [u8], limits: &FrameLimits) -> Frame<'a> {
    let frame = frame::cut(bytes, limits)
        .expect("limits")
        .expect("a whole frame");
    assert_eq!(frame.total_bytes, bytes.len());
    assert_eq!(frame.body, b"body");
    frame
}

fn frame_of(serialize: SerializeType, header: &[u8]) -> Frame<'_> {
    Frame {
        serialize,
        header,
        body: &[],
        total_bytes: HEAD_BYTES + header.len(),
    }
}

fn numbers(header: &Header<'_>) -> (i32, i32, i32, i32) {
    (header.code, header.version, header.opaque, header.flag)
}

fn fields<'a>(header: &'a Header<'_>) -> Vec<(&'a str, &'a str)> {
    header
        .ext
        .fields
        .iter()
        .map(|(k, v)| (&**k, &**v))
        .collect()
}

/// The ext fields as Java's map has them: the last of equal keys.
fn java_map<'a>(header: &'a Header<'_>) -> BTreeMap<&'a str, &'a str> {
    fields(header).into_iter().collect()
}
