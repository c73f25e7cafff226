#![allow(clippy::unwrap_used, reason = "tests")]

mod compressed_form;
mod encode;
mod json_form;
mod laws;

use super::*;
use crate::wire::pace::run_to_end;
use encode::{plaintext, zlib};

const NOW_MS: i64 = 1_800_000_000_000;

/// E3 of the compatibility page: a 5.3.3 master with two topics.
const E3: &str = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4},"U":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"U","topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#;

/// E4: a 4.9.8 slave with the same topics, as Java's zlib wrote it.
const E4: [u8; 72] = [
    0x78, 0xda, 0x63, 0x60, 0x60, 0x50, 0xaf, 0x56, 0x4a, 0xce, 0x2f, 0xcd, 0x2b, 0x49, 0x2d, 0x52,
    0xb2, 0x32, 0xd4, 0x51, 0x2a, 0xc9, 0xcc, 0x4d, 0x2d, 0x2e, 0x49, 0xcc, 0x2d, 0x00, 0xf2, 0xcc,
    0x0d, 0x10, 0xa0, 0x96, 0x81, 0x81, 0x81, 0x09, 0x88, 0x85, 0x42, 0x14, 0x4c, 0x80, 0xd0, 0x4c,
    0x21, 0xd8, 0xd3, 0xcf, 0xdd, 0xc7, 0x35, 0x3e, 0xc4, 0xd1, 0x1d, 0x24, 0x1a, 0x8a, 0x4d, 0x94,
    0x29, 0x3a, 0x16, 0x00, 0x6b, 0xb6, 0x15, 0x84,
];

fn decode(version: i32, compressed: bool, body: &[u8]) -> Result<RegisterBody, BodyError> {
    let input = RegisterInput {
        version,
        compressed,
        body,
        now_ms: NOW_MS,
    };
    run_to_end(parse(&input, &BodyLimits::default(), &Pace::default()))
}

fn json(body: &str) -> Result<RegisterBody, BodyError> {
    decode(479, false, body.as_bytes())
}

fn shape(read_queues: i32, write_queues: i32, perm: i32, topic_sys_flag: i32) -> QueueShape {
    QueueShape {
        read_queues,
        write_queues,
        perm,
        topic_sys_flag,
    }
}

fn plain_topic(name: &str) -> TopicConfig {
    TopicConfig {
        key: None,
        name: name.to_owned(),
        shape: shape(4, 4, 6, 0),
    }
}

fn is_json_error(result: &Result<RegisterBody, BodyError>) -> bool {
    matches!(result, Err(BodyError::Undecodable(Malformed::Json(_))))
}

fn refused<T>(error: impl Into<Malformed>) -> Result<T, BodyError> {
    Err(BodyError::Undecodable(error.into()))
}

#[test]
fn master_of_5_3_3_with_two_topics() {
    assert_eq!(crc32fast::hash(E3.as_bytes()) & 0x7FFF_FFFF, 865_161_605);
    let version = DataVersion {
        state_version: 0,
        timestamp: 1_700_000_000_000,
        counter: 1,
    };
    let expected = RegisterBody {
        topics: vec![plain_topic("T"), plain_topic("U")],
        data_version: Some(version),
        version_defaulted: false,
        mappings: vec![],
        filter_servers: FilterServers::List(vec![]),
    };
    assert_eq!(json(E3), Ok(expected));
}

#[test]
fn slave_of_4_9_8_compressed() {
    assert_eq!(crc32fast::hash(&E4) & 0x7FFF_FFFF, 1_379_016_815);
    let version = DataVersion {
        state_version: 0,
        timestamp: 1_700_000_000_000,
        counter: 1,
    };
    let expected = RegisterBody {
        topics: vec![plain_topic("T"), plain_topic("U")],
        data_version: Some(version),
        version_defaulted: false,
        mappings: vec![],
        filter_servers: FilterServers::List(vec![]),
    };
    assert_eq!(decode(409, true, &E4).as_ref(), Ok(&expected));
    // 5.x brokers say that it is not compressed
    assert_eq!(decode(412, false, &E4).as_ref(), Ok(&expected));
    // from 5.0.0 on the mappings must follow
    assert_eq!(decode(413, true, &E4), refused(InflateError::Early));
    assert_eq!(decode(413, false, &E4), refused(InflateError::Early));
}

#[test]
fn body_of_a_broker_before_3_0_11_is_the_table_alone() {
    let text = r#"{"dataVersion":{"counter":3,"timestatmp":5},"topicConfigTable":{"T":{"topicName":"T"}},"topicQueueMappingInfoMap":{"T":null}}"#;
    let body = decode(36, true, text.as_bytes()).unwrap();
    assert_eq!(
        body.topics,
        [TopicConfig {
            shape: shape(16, 16, 6, 0),
            ..plain_topic("T")
        }]
    );
    assert_eq!(body.filter_servers, FilterServers::Unchanged);
    assert!(body.mappings.is_empty());
    let now = DataVersion {
        state_version: 0,
        timestamp: NOW_MS,
        counter: 3,
    };
    assert_eq!(
        (body.data_version, body.version_defaulted),
        (Some(now), true)
    );
    // the same text from a newer one registers nothing
    assert_eq!(decode(37, false, text.as_bytes()).unwrap().topics, []);
    for bad in [
        "null",
        "[]",
        " ",
        "{}x",
        "{\"topicConfigTable\":null}",
        "x\u{9c}",
    ] {
        assert!(decode(36, false, bad.as_bytes()).is_err(), "{bad}");
    }
    assert_eq!(decode(36, false, b"\xff{}"), refused(JsonError::Utf8(0)));
}

#[test]
fn no_body_is_an_empty_table_with_a_version_of_zeros() {
    for (version, filter_servers) in [
        (37, FilterServers::List(vec![])),
        (479, FilterServers::List(vec![])),
        (36, FilterServers::Unchanged),
    ] {
        for compressed in [false, true] {
            let expected = RegisterBody {
                data_version: Some(DataVersion::default()),
                filter_servers: filter_servers.clone(),
                ..RegisterBody::default()
            };
            assert_eq!(decode(version, compressed, b""), Ok(expected));
        }
    }
}

#[test]
fn negative_versions_are_refused() {
    let error = decode(-1, false, E3.as_bytes()).unwrap_err();
    assert_eq!(error, BodyError::NegativeVersion(-1));
    assert!(
        error
            .to_string()
            .starts_with("java.lang.ArrayIndexOutOfBoundsException")
    );
    assert!(decode(i32::MIN, false, b"").is_err());
    assert!(decode(612, false, E3.as_bytes()).is_ok());
    assert!(decode(i32::MAX, false, E3.as_bytes()).is_ok());
}

#[test]
fn limits_refuse_with_a_reason() {
    let limits = BodyLimits {
        inflated_bytes: 60,
        name_bytes: 5,
        topics: 2,
    };
    let decode = |body: &[u8]| {
        let input = RegisterInput {
            version: 479,
            compressed: false,
            body,
            now_ms: 0,
        };
        run_to_end(parse(&input, &limits, &Pace::default()))
    };
    let table = |names: &[&str]| {
        let entry = |(index, name): (usize, &&str)| format!("k{index}:{{topicName:\"{name}\"}}");
        let entries: Vec<_> = names.iter().enumerate().map(entry).collect();
        let table = entries.join(",");
        decode(
            format!("{{topicConfigSerializeWrapper:{{topicConfigTable:{{{table}}}}}}}").as_bytes(),
        )
    };
    assert_eq!(table(&["a", "bcdef"]).unwrap().topics.len(), 2);
    assert_eq!(table(&["a", "b", "c"]), Err(BodyError::TooManyEntries(2)));
    assert_eq!(table(&["abcdef"]), Err(BodyError::NameTooLong(5)));
    assert_eq!(
        table(&["\\u0061\\u0061\\u0061\\u0061\\u0061"])
            .unwrap()
            .topics[0]
            .name,
        "aaaaa"
    );
    assert_eq!(
        table(&["\\u0061\\u0061\\u0061\\u0061\\u0061a"]),
        Err(BodyError::NameTooLong(5))
    );
    for (body, error) in [
        ("{filterServerList:['abcdef']}", BodyError::NameTooLong(5)),
        ("{filterServerList:[1234567]}", BodyError::NameTooLong(5)),
        ("{filterServerList:[1,2,3]}", BodyError::TooManyEntries(2)),
        (
            "{topicConfigSerializeWrapper:{topicQueueMappingInfoMap:{a:{},b:{},c:{}}}}",
            BodyError::TooManyEntries(2),
        ),
        (
            "{topicConfigSerializeWrapper:{topicQueueMappingInfoMap:{abcdef:{}}}}",
            BodyError::NameTooLong(5),
        ),
        (
            "{topicConfigSerializeWrapper:{topicQueueMappingInfoMap:{a:{bname:'abcdef'}}}}",
            BodyError::NameTooLong(5),
        ),
        (
            "{topicConfigSerializeWrapper:{topicQueueMappingInfoMap:{a:{topic:123456}}}}",
            BodyError::NameTooLong(5),
        ),
        (
            "{topicConfigSerializeWrapper:{topicConfigTable:{a:{topicName:123456}}}}",
            BodyError::NameTooLong(5),
        ),
        (
            "{topicConfigSerializeWrapper:{topicQueueMappingInfoMap:{a:{currIdMap:{1:1,2:2,3:3}}}}}",
            BodyError::TooManyEntries(2),
        ),
    ] {
        assert_eq!(decode(body.as_bytes()), Err(error), "{body}");
    }
    let fits = plaintext("{}", &["a 4 4 6 SINGLE_TAG"], "[]", Some(&[]));
    assert_eq!(fits.len(), 42);
    assert!(decode(&zlib(&fits)).is_ok());
    let long = plaintext(
        "{}",
        &["a 4 4 6 SINGLE_TAG                    "],
        "[]",
        Some(&[]),
    );
    assert_eq!(decode(&zlib(&long)), Err(BodyError::InflatedTooLarge(60)));
    assert_eq!(
        BodyError::NameTooLong(5).to_string(),
        "registration refused: a name of more than 5 bytes"
    );
    let long_name = plaintext("{}", &["abcdef 4 4 6 SINGLE_TAG"], "[]", Some(&[]));
    assert_eq!(decode(&zlib(&long_name)), Err(BodyError::NameTooLong(5)));
}

#[test]
fn size_grows_with_what_is_held() {
    let empty = RegisterBody::default().size_bytes();
    assert_eq!(empty, size_of::<RegisterBody>());
    let body = json(E3).unwrap();
    let topics = body.topics.capacity() * size_of::<TopicConfig>();
    assert_eq!(body.size_bytes(), empty + topics + 2);
}
