//! What a binary header may be.

use super::*;

/// The first 13 bytes: code 105, language, version 479, opaque 7, flag 0.
const FIXED: &[u8] = &[0, 105, 0, 1, 0xdf, 0, 0, 0, 7, 0, 0, 0, 0];
const NO_REMARK: &[u8] = &[0; 4];

fn with_map(map: &[u8]) -> Vec<u8> {
    let map_bytes = u32::try_from(map.len()).unwrap().to_be_bytes();
    [FIXED, NO_REMARK, &map_bytes, map].concat()
}

fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let key_bytes = u16::try_from(key.len()).unwrap().to_be_bytes();
    let value_bytes = u32::try_from(value.len()).unwrap().to_be_bytes();
    [&key_bytes[..], key, &value_bytes, value].concat()
}

#[test]
fn numbers_are_signed_and_any_language_is_accepted() {
    let header = [
        &[
            0xff, 0xff, 0xee, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff, 0xff, 0xfe,
        ][..],
        &[0, 0, 0, 2, b'h', b'i', 0, 0, 0, 0],
    ]
    .concat();
    let read = binary(&header).unwrap();
    assert_eq!(
        (read.code, read.version, read.opaque, read.flag),
        (-1, -2, -3, -2)
    );
    assert!(read.ext.fields.is_empty() && read.ext.raw.is_empty());
}

#[test]
fn every_truncation_is_refused() {
    let map = [entry(b"topic", b"T"), entry(b"k", b"v")].concat();
    let header = [FIXED, &[0, 0, 0, 1], b"r", &[0, 0, 0, 20], &map].concat();
    assert_eq!(map.len(), 20);
    assert_eq!(
        pairs(&binary(&header).unwrap()),
        [("topic", "T"), ("k", "v")]
    );
    for end in 0..header.len() {
        assert_eq!(
            binary(&header[..end]),
            Err(HeaderError::Binary),
            "{end} bytes"
        );
    }
}

#[test]
fn lengths_stay_inside_their_block() {
    let ten = [0; 10];
    for lengths in [
        [FIXED, &[0xff, 0xff, 0xff, 0xff], &ten].concat(), // negative remark
        [FIXED, &[0, 0, 0, 11], &ten].concat(),            // remark beyond the header
        [FIXED, NO_REMARK, &[0, 0, 0, 11], &ten].concat(), // map beyond the header
        with_map(b"\xff\xffk\0\0\0\x01v"),                 // negative key
        with_map(b"\0\x01k\xff\xff\xff\xffv"),             // negative value
        with_map(b"\0\x09k\0\0\0\x01v"),                   // key beyond the map
        with_map(b"\0\x01k\0\0\0\x02v"),                   // value beyond the map
        [FIXED, NO_REMARK, &[0, 0, 0, 7], b"\0\x01k\0\0\0\x01v"].concat(),
    ] {
        assert_eq!(binary(&lengths), Err(HeaderError::Binary), "{lengths:02x?}");
    }
}

#[test]
fn a_negative_map_length_is_no_map_and_junk_behind_is_ignored() {
    let negative = [FIXED, NO_REMARK, &[0xff, 0xff, 0xff, 0xff]].concat();
    assert_eq!(pairs(&binary(&negative).unwrap()), []);
    let junk = [with_map(&entry(b"k", b"v")), b"junk".to_vec()].concat();
    let read = binary(&junk).unwrap();
    assert_eq!(
        (pairs(&read), read.ext.raw),
        (vec![("k", "v")], &b"\0\x01k\0\0\0\x01v"[..])
    );
}

#[test]
fn empty_texts_are_null_and_the_last_of_equal_keys_counts() {
    let map = [
        entry(b"a", b"1"),
        entry(b"", b"x"),
        entry(b"b", b""),
        entry(b"a", b"2"),
        entry(b"c", b"3"),
        entry(b"c", b""),
        entry(b"d", b""),
        entry(b"d", b"4"),
    ]
    .concat();
    let header = with_map(&map);
    let read = binary(&header).unwrap();
    assert_eq!(pairs(&read), [("a", "1"), ("a", "2"), ("d", "4")]);
    assert_eq!(read.ext.get("a"), Some("2"));
    assert_eq!(
        (read.ext.get("b"), read.ext.get(""), read.ext.get("c")),
        (None, None, None)
    );
    assert_eq!(read.ext.get("d"), Some("4"));
}

#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    let header = with_map(&entry(b"k", b"a\xffb"));
    assert_eq!(binary(&header).unwrap().ext.get("k"), Some("a\u{fffd}b"));
    let remark = [FIXED, &[0, 0, 0, 1, 0xff], &[0; 4]].concat();
    assert!(binary(&remark).is_ok());
}

#[test]
fn ext_fields_are_limited() {
    let limits = FrameLimits {
        ext_fields: 2,
        ..LIMITS
    };
    let two = with_map(&[entry(b"a", b"1"), entry(b"b", b"")].concat());
    assert!(header_binary::parse(&two, &limits).is_ok());
    let three = with_map(&[entry(b"a", b""), entry(b"b", b""), entry(b"c", b"")].concat());
    assert_eq!(
        header_binary::parse(&three, &limits),
        Err(HeaderError::ExtFields)
    );
}

#[test]
fn code_and_version_are_cut_to_sixteen_bits_when_written() {
    let fields = HeaderFields {
        code: 0x1_0069,
        version: 40_000,
        ..HeaderFields::default()
    };
    let mut out = Vec::new();
    encode_request(&mut out, BINARY, &fields, b"").unwrap();
    assert_eq!(out[8..13], [0, 0x69, 0, 0x9c, 0x40]);
    assert_eq!(binary(&out[8..]).unwrap().version, 40_000 - 65_536);
}

#[test]
fn what_cannot_be_written_appends_nothing() {
    let key = "k".repeat(32_768);
    let ext = [(key.as_str(), "v")];
    let fields = HeaderFields {
        ext: Some(&ext),
        ..HeaderFields::default()
    };
    let mut out = b"before".to_vec();
    let refused = encode_request(&mut out, BINARY, &fields, b"");
    assert_eq!(refused, Err(EncodeError::Key(32_768)));
    let body = vec![0; frame::MAX_LENGTH];
    let refused = encode_request(&mut out, JSON, &HeaderFields::default(), &body);
    assert_eq!(
        (refused, &out[..]),
        (Err(EncodeError::Frame), &b"before"[..])
    );
    assert_eq!(encode_request(&mut out, JSON, &fields, b""), Ok(()));
}
