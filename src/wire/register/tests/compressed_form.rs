//! Compressed bodies.

use super::*;

/// A compressed body of version 479 with one topic text.
fn topic_text(text: &str) -> Result<RegisterBody, BodyError> {
    let blocks = plaintext("{}", &[text], "[]", Some(&[]));
    decode(479, true, &zlib(&blocks))
}

#[test]
fn topic_texts_have_five_parts_or_more() {
    for (text, name, expected) in [
        ("T 4 5 6 SINGLE_TAG", "T", shape(4, 5, 6, 0)),
        ("T 4 5 6 MULTI_TAG ", "T", shape(4, 5, 6, 0)),
        ("T 4 5 6 SINGLE_TAG {}", "T", shape(4, 5, 6, 0)),
        (
            "T +4 -5 6 SINGLE_TAG {\"+a\":\"b c\"} x",
            "T",
            shape(4, -5, 6, 0),
        ),
        ("T 4 5 6 SINGLE_TAG not json", "T", shape(4, 5, 6, 0)),
        (" 4 5 6 SINGLE_TAG", "", shape(4, 5, 6, 0)),
        ("%RETRY%é 4 5 6 SINGLE_TAG", "%RETRY%é", shape(4, 5, 6, 0)),
    ] {
        let body = topic_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let topic = TopicConfig {
            key: None,
            name: name.to_owned(),
            shape: expected,
        };
        assert_eq!(body.topics, [topic], "{text}");
    }
    for bad in [
        "",
        "T",
        "T 4 5 6",
        "T 4 5 6 ",
        "T  4 5 6 SINGLE_TAG",
        "T 4 5 6  SINGLE_TAG",
        "T x 5 6 SINGLE_TAG",
        "T 4 5 3000000000 SINGLE_TAG",
        "T 4 5 6.0 SINGLE_TAG",
        "T 4 5 6 single_tag",
        "T 4 5 6 NO_TAG",
        "T 4 5 6 {}",
    ] {
        assert_eq!(topic_text(bad), refused(Malformed::TopicText), "{bad}");
    }
}

#[test]
fn compressed_body_from_5_0_0_on_has_mappings() {
    let mapping = r#"{"bname":"b","currIdMap":{0:0},"topic":"T"}"#;
    let blocks = plaintext(
        "{\"counter\":1,\"timestamp\":2}",
        &[],
        "['a:1']",
        Some(&[mapping]),
    );
    let body = decode(413, false, &zlib(&blocks)).unwrap();
    assert_eq!(body.mappings[0].0, "T");
    assert_eq!(body.mappings[0].1.curr_id_map, Some(vec![(0, 0)]));
    assert_eq!(
        body.filter_servers,
        FilterServers::List(vec!["a:1".to_owned()])
    );
    // an older sender's are not looked at
    assert!(
        decode(412, true, &zlib(&blocks))
            .unwrap()
            .mappings
            .is_empty()
    );
    let none = plaintext("{}", &[], "[]", None);
    assert!(decode(412, true, &zlib(&none)).is_ok());
    assert_eq!(
        decode(413, true, &zlib(&none)),
        refused(InflateError::Early)
    );
    let nameless = plaintext("{}", &[], "[]", Some(&["{}"]));
    assert_eq!(
        decode(413, true, &zlib(&nameless)),
        refused(Malformed::Null("mapping topic"))
    );
    let longer = [blocks, b"more".to_vec()].concat();
    assert!(decode(413, true, &zlib(&longer)).is_ok());
}

#[test]
fn pieces_of_json_in_a_compressed_body() {
    let decode_blocks = |version: &str, list: &str| {
        decode(479, true, &zlib(&plaintext(version, &[], list, Some(&[]))))
    };
    assert_eq!(decode_blocks("null", "[]").unwrap().data_version, None);
    assert!(decode_blocks("{}", "[]").unwrap().version_defaulted);
    assert!(is_json_error(&decode_blocks("", "[]")));
    assert!(is_json_error(&decode_blocks("{}{}", "[]")));
    assert!(is_json_error(&decode_blocks("[]", "[]")));
    for bad in ["", "[", "{}", "[]x", "[{}]"] {
        assert_eq!(
            decode_blocks("{}", bad).unwrap().filter_servers,
            FilterServers::List(vec![])
        );
    }
    assert_eq!(
        decode_blocks("{}", "null").unwrap().filter_servers,
        FilterServers::Unchanged
    );
}

#[test]
fn damaged_streams() {
    let good = zlib(&plaintext("{}", &["T 4 4 6 SINGLE_TAG"], "[]", Some(&[])));
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 0x55;
    assert_eq!(decode(479, true, &wrong), refused(InflateError::Corrupt));
    // what an older server does not read, it does not check
    assert!(decode(409, true, &wrong).is_ok());
    assert!(decode(479, true, &good[..good.len() - 4]).is_ok());
    assert!(decode(479, true, &[&good[..], b"junk"].concat()).is_ok());
    assert_eq!(
        decode(479, true, &good[..good.len() / 2]),
        refused(InflateError::Early)
    );
    assert_eq!(
        decode(479, true, &good[2..]),
        refused(InflateError::Corrupt)
    );
}

#[test]
fn claims_are_checked_before_memory_is_reserved() {
    let int = |value: i32| value.to_be_bytes().to_vec();
    let version = [int(2), b"{}".to_vec()].concat();
    for (plain, error) in [
        (int(-1), Malformed::Length(-1)),
        (int(i32::MAX), Malformed::Length(i32::MAX)),
        (int(1000), InflateError::Early.into()),
        ([version.clone(), int(-1)].concat(), Malformed::Length(-1)),
        (
            [version.clone(), int(200_000)].concat(),
            InflateError::Early.into(),
        ),
        (
            [version.clone(), int(1), int(-5)].concat(),
            Malformed::Length(-5),
        ),
        (vec![0, 0], InflateError::Early.into()),
    ] {
        assert_eq!(decode(479, true, &zlib(&plain)), refused(error));
    }
    let many = [version, int(200_001)].concat();
    assert_eq!(
        decode(479, true, &zlib(&many)),
        Err(BodyError::TooManyEntries(200_000))
    );
}
