//! The worked examples of the protocol.

use super::*;

/// E1: the whole request of client-go.
#[test]
fn e1_a_route_request_of_client_go_is_read() {
    let header = concat!(
        r#"{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","#,
        r#""extFields":{"topic":"T"}}"#,
    );
    let input = [&[0, 0, 0, 0x68, 0, 0, 0, 0x64][..], header.as_bytes()].concat();
    let frame = cut(&input, &LIMITS).unwrap().unwrap();
    assert_eq!((frame.total_bytes, frame.body.len()), (0x6c, 0));
    let read = Header::parse(&frame, &LIMITS).unwrap();
    assert_eq!(
        (read.code, read.version, read.opaque, read.flag),
        (105, 317, 1, 0)
    );
    assert_eq!(read.serialize, JSON);
    assert_eq!(pairs(&read), [("topic", "T")]);
    assert_eq!(read.ext.raw, br#"{"topic":"T"}"#);
    assert!(!read.is_response() && !read.is_oneway());
}

type Pairs = &'static [(&'static str, &'static str)];

const BROKER: Pairs = &[
    ("brokerId", "0"),
    ("clusterName", "C"),
    ("brokerAddr", "10.0.0.1:10911"),
    ("brokerName", "a"),
];
const MASTER: Pairs = &[
    ("brokerId", "0"),
    ("bodyCrc32", "865161605"),
    ("clusterName", "C"),
    ("brokerAddr", "10.0.0.1:10911"),
    ("enableActingMaster", "false"),
    ("haServerAddr", "10.0.0.1:10912"),
    ("compressed", "false"),
    ("brokerName", "a"),
];
const SLAVE: Pairs = &[
    ("brokerId", "1"),
    ("bodyCrc32", "1379016815"),
    ("clusterName", "C"),
    ("brokerAddr", "10.0.0.2:10911"),
    ("haServerAddr", "10.0.0.2:10912"),
    ("compressed", "true"),
    ("brokerName", "a"),
];
const HEARTBEAT: Pairs = &[
    ("brokerAddr", "10.0.0.1:10911"),
    ("brokerName", "a"),
    ("clusterName", "C"),
];
const LEAVER: Pairs = &[
    ("brokerId", "1"),
    ("clusterName", "C"),
    ("brokerAddr", "10.0.0.2:10911"),
    ("brokerName", "a"),
];
const NEW_MINIMUM: Pairs = &[
    ("offlineBrokerAddr", "10.0.0.1:10911"),
    ("minBrokerAddr", "10.0.0.2:10911"),
    ("minBrokerId", "1"),
];

/// First 8 bytes, code, version, opaque, flag, ext fields, bytes of the body.
type Row = ([u8; 8], i32, i32, i32, i32, Option<Pairs>, usize);

#[test]
fn java_requests_are_written_and_read_as_in_the_examples() {
    let rows: [Row; 11] = [
        (
            [0, 0, 0, 0x75, 0, 0, 0, 0x71],
            9999,
            479,
            2,
            0,
            Some(&[]),
            0,
        ),
        (
            [0, 0, 3, 0x70, 0, 0, 1, 0x29],
            103,
            479,
            3,
            0,
            Some(MASTER),
            579,
        ),
        (
            [0, 0, 1, 0x58, 0, 0, 1, 0x0c],
            103,
            409,
            4,
            0,
            Some(SLAVE),
            72,
        ),
        (
            [0, 0, 0, 0x7f, 0, 0, 0, 0x7b],
            105,
            479,
            6,
            0,
            Some(&[("topic", "T")]),
            0,
        ),
        (
            [0, 0, 0, 0xfb, 0, 0, 0, 0xbf],
            322,
            479,
            8,
            0,
            Some(BROKER),
            56,
        ),
        (
            [0, 0, 0, 0xb4, 0, 0, 0, 0xb0],
            904,
            479,
            9,
            2,
            Some(HEARTBEAT),
            0,
        ),
        ([0, 0, 0, 0x66, 0, 0, 0, 0x62], 106, 479, 10, 0, None, 0),
        (
            [0, 0, 0, 0x97, 0, 0, 0, 0x93],
            901,
            479,
            11,
            0,
            Some(&[("clusterName", "C"), ("brokerName", "a")]),
            0,
        ),
        (
            [0, 0, 0, 0x8e, 0, 0, 0, 0x8a],
            101,
            479,
            13,
            0,
            Some(&[("namespace", "N"), ("key", "K")]),
            0,
        ),
        (
            [0, 0, 0, 0xc4, 0, 0, 0, 0xc0],
            104,
            479,
            14,
            0,
            Some(LEAVER),
            0,
        ),
        (
            [0, 0, 0, 0xcb, 0, 0, 0, 0xc7],
            905,
            479,
            8,
            2,
            Some(NEW_MINIMUM),
            0,
        ),
    ];
    for (head, code, version, opaque, flag, ext, body_bytes) in rows {
        let fields = HeaderFields {
            code,
            version,
            opaque,
            flag,
            remark: None,
            ext,
        };
        let body = vec![b'x'; body_bytes];
        let mut out = Vec::new();
        encode_request(&mut out, JSON, &fields, &body).unwrap();
        assert_eq!(out[..8], head, "code {code}");
        let frame = cut(&out, &LIMITS).unwrap().unwrap();
        assert_eq!(frame.body, body);
        let read = Header::parse(&frame, &LIMITS).unwrap();
        assert_eq!(
            (read.code, read.version, read.opaque, read.flag),
            (code, version, opaque, flag)
        );
        assert_eq!(pairs(&read), ext.unwrap_or_default());
        assert_eq!(read.is_oneway(), flag == 2);
    }
}

#[test]
fn e15_the_notice_to_brokers_is_javas_text() {
    let fields = HeaderFields {
        code: codes::request::NOTIFY_MIN_BROKER_ID_CHANGE,
        version: codes::version::V5_3_3,
        opaque: 8,
        flag: codes::FLAG_ONEWAY,
        remark: None,
        ext: Some(NEW_MINIMUM),
    };
    let mut out = Vec::new();
    encode_request(&mut out, JSON, &fields, b"").unwrap();
    let text = concat!(
        r#"{"code":905,"extFields":{"offlineBrokerAddr":"10.0.0.1:10911","minBrokerAddr":"#,
        r#""10.0.0.2:10911","minBrokerId":"1"},"flag":2,"language":"JAVA","opaque":8,"#,
        r#""serializeTypeCurrentRPC":"JSON","version":479}"#,
    );
    assert_eq!(out[8..], *text.as_bytes());
}

#[test]
fn e12_client_cpp_ends_its_header_with_a_line_feed() {
    let header = concat!(
        r#"{"code":105,"extFields":{"AccessKey":"","OnsChannel":"","Signature":"","#,
        r#""topic":"T"},"flag":0,"language":"CPP","opaque":12,"remark":"","version":333}"#,
        "\n",
    );
    assert_eq!(header.len(), 0x95);
    let read = json(header.as_bytes()).unwrap();
    assert_eq!((read.code, read.version, read.opaque), (105, 333, 12));
    let expected = [
        ("AccessKey", ""),
        ("OnsChannel", ""),
        ("Signature", ""),
        ("topic", "T"),
    ];
    assert_eq!(pairs(&read), expected);
}

#[test]
fn e7_a_binary_route_request_is_read() {
    let input = [
        &[0, 0, 0, 0x25, 1, 0, 0, 0x21, 0, 0x69, 9, 1, 0x3d, 0, 0, 0][..],
        &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0c, 0, 5],
        b"topic\0\0\0\x01X",
    ]
    .concat();
    let frame = cut(&input, &LIMITS).unwrap().unwrap();
    let read = Header::parse(&frame, &LIMITS).unwrap();
    assert_eq!(
        (read.code, read.version, read.opaque, read.flag),
        (105, 317, 7, 0)
    );
    assert_eq!(
        (read.serialize, pairs(&read)),
        (BINARY, vec![("topic", "X")])
    );
    assert_eq!(read.ext.raw, b"\0\x05topic\0\0\0\x01X");
    // Java writes the same bytes but for the language.
    let fields = HeaderFields {
        code: 105,
        version: 317,
        opaque: 7,
        ext: Some(&[("topic", "X")]),
        ..HeaderFields::default()
    };
    let mut out = Vec::new();
    encode_request(&mut out, BINARY, &fields, b"").unwrap();
    out[10] = 9;
    assert_eq!(out, input);
}
