//! The comparison itself: whatever is changed in an answer, it is seen.

use crate::compare::{check, read_any};
use crate::dialect::Dialect;
use crate::support::answer::Answer;
use crate::support::request::Request;

const HEADER: &str = r#"{"code":0,"extFields":{"haServerAddr":"h:1","masterAddr":"m:1"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#;
const ROUTE: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"a:1",1:"b:1"},"brokerName":"x","cluster":"C/é","enableActingMaster":false,"zoneName":"z"},{"brokerAddrs":{2:"c:1"},"brokerName":"y","cluster":"C","enableActingMaster":true}],"filterServerTable":{"a:1":["f:1","g:1"],"b:1":[]},"queueDatas":[{"brokerName":"x","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8},{"brokerName":"y","perm":4,"readQueueNums":4,"topicSysFlag":1,"writeQueueNums":4}]}"#;

/// Changes of the header: what becomes what.
const HEADERS: [(&str, &str); 16] = [
    (r#""code":0"#, r#""code":1"#),
    (r#""flag":1"#, r#""flag":3"#),
    (r#""opaque":7"#, r#""opaque":8"#),
    (r#""language":"JAVA""#, r#""language":"RUST""#),
    (r#""version":479"#, r#""version":478"#),
    (r#","flag""#, r#", "flag""#),
    (r#""serializeTypeCurrentRPC":"JSON","#, ""),
    (r#""opaque":7,"#, r#""opaque":7,"remark":"","#),
    (r#""opaque":7,"#, r#""opaque":7,"remark":null,"#),
    (r#""haServerAddr":"h:1","#, ""),
    (r#""masterAddr":"m:1""#, r#""masterAddr":"m:2""#),
    (r#""masterAddr":"m:1""#, r#""masterAddr":"m:1","x":"y""#),
    (
        r#""haServerAddr":"h:1","masterAddr":"m:1""#,
        r#""masterAddr":"m:1","haServerAddr":"h:1""#,
    ),
    (
        r#""extFields":{"haServerAddr":"h:1","masterAddr":"m:1"},"#,
        r#""extFields":{},"#,
    ),
    (
        r#""extFields":{"haServerAddr":"h:1","masterAddr":"m:1"},"#,
        "",
    ),
    (
        r#""flag":1,"language":"JAVA""#,
        r#""language":"JAVA","flag":1"#,
    ),
];
/// Changes of the body.
const BODIES: [(&str, &str); 17] = [
    // another style: quoted keys, escapes, blanks, nulls, order of a bean's fields
    (r#"{0:"a:1""#, r#"{"0":"a:1""#),
    ("C/é", r"C\/é"),
    ("C/é", r"C/\u00E9"),
    (r#""perm":6"#, r#""perm": 6"#),
    (r#""perm":6"#, r#""perm":"6""#),
    (r#""cluster":"C","#, r#""cluster":"C","zoneName":null,"#),
    (
        r#""perm":6,"readQueueNums":8"#,
        r#""readQueueNums":8,"perm":6"#,
    ),
    (r#","zoneName":"z""#, ""),
    // another content: values, members, elements, the order of a list
    (
        r#""enableActingMaster":true"#,
        r#""enableActingMaster":false"#,
    ),
    (r#""writeQueueNums":4"#, r#""writeQueueNums":5"#),
    (r#","b:1":[]"#, ""),
    (r#"1:"b:1""#, r#"1:"b:2""#),
    (r#"1:"b:1""#, r#"3:"b:1""#),
    (r#"["f:1","g:1"]"#, r#"["g:1","f:1"]"#),
    (r#"["f:1","g:1"]"#, r#"["f:1","g:1","g:1"]"#),
    (r#""queueDatas""#, r#""orderTopicConf":"","queueDatas""#),
    ("]}", "]} "),
];

/// The answer that is expected, of which every change is a difference.
fn expected() -> Answer {
    let ext = [("haServerAddr", "h:1"), ("masterAddr", "m:1")];
    Answer::success().ext(&ext).body(ROUTE)
}

/// What a server that sends this would be told.
fn verdict(name: &str, header: &str, body: &str) -> Result<(), String> {
    let dialect = Dialect::V5_3_3;
    let (opaque, answer) = read_any(&frame(0, header.as_bytes(), body), name == "Java", dialect)?;
    if opaque != 7 {
        return Err(format!("opaque {opaque}"));
    }
    check(name, &Request::new(105), &expected(), &answer, dialect)
}

fn frame(kind: u8, header: &[u8], body: &str) -> Vec<u8> {
    let mut frame = (4 + header.len() as u32 + body.len() as u32)
        .to_be_bytes()
        .to_vec();
    frame.extend((u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
    frame.extend(header.iter().copied().chain(body.bytes()));
    frame
}

#[test]
fn the_expected_answer_passes() {
    for name in ["Java", "namesrv"] {
        assert_eq!(verdict(name, HEADER, ROUTE), Ok(()));
    }
}

#[test]
fn hash_order_passes_at_java_only() {
    let swapped = [
        (r#"0:"a:1",1:"b:1""#, r#"1:"b:1",0:"a:1""#),
        (
            r#""a:1":["f:1","g:1"],"b:1":[]"#,
            r#""b:1":[],"a:1":["f:1","g:1"]"#,
        ),
    ];
    for (from, to) in swapped {
        assert!(ROUTE.contains(from));
        let body = ROUTE.replace(from, to);
        assert_eq!(verdict("Java", HEADER, &body), Ok(()), "{to}");
        assert!(verdict("namesrv", HEADER, &body).is_err(), "{to}");
    }
    let (start, rest) = ROUTE.split_at(ROUTE.find("\"queueDatas\":[").unwrap() + 14);
    let (first, second) = rest.strip_suffix("]}").unwrap().split_once("},").unwrap();
    let body = format!("{start}{second},{first}}}]}}");
    assert_eq!(verdict("Java", HEADER, &body), Ok(()));
    assert!(verdict("namesrv", HEADER, &body).is_err());
}

#[test]
fn every_other_change_is_seen() {
    for name in ["Java", "namesrv"] {
        for (from, to) in HEADERS {
            assert!(HEADER.contains(from), "{from}");
            let header = HEADER.replacen(from, to, 1);
            assert!(verdict(name, &header, ROUTE).is_err(), "{name}: {to}");
        }
        for (from, to) in BODIES {
            assert!(ROUTE.contains(from), "{from}");
            let at = ROUTE.rfind(from).unwrap();
            let body = format!("{}{to}{}", &ROUTE[..at], &ROUTE[at + from.len()..]);
            assert!(verdict(name, HEADER, &body).is_err(), "{name}: {to}");
        }
        assert!(verdict(name, HEADER, "").is_err(), "{name}: no body");
        for cut in 1..ROUTE.len() {
            if ROUTE.is_char_boundary(cut) {
                assert!(
                    verdict(name, HEADER, &ROUTE[..cut]).is_err(),
                    "{name}: cut at {cut}"
                );
            }
        }
    }
}

#[test]
fn an_exception_is_compared_by_its_code() {
    let req = Request::new(103);
    let dialect = Dialect::V5_3_3;
    let judge = |actual: &Answer| check("Java", &req, &Answer::refused(), actual, dialect);
    let exception = Answer::failure(1, "java.lang.NullPointerException, a.B.c(D.java:1)");
    assert_eq!(judge(&exception), Ok(()));
    assert!(judge(&Answer::success()).is_err());
    assert!(judge(&Answer::failure(17, "x")).is_err());
    assert!(judge(&exception.clone().ext(&[])).is_err());
    assert!(judge(&exception.body("x")).is_err());
}

/// What 4.9.4 is expected to say in 5.3.3's words, with the body it says it with.
const OLD: [(i32, &str, &str); 3] = [
    (
        105,
        r#"{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"x","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[]}"#,
        r#"{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"x","cluster":"C"}],"filterServerTable":{},"queueDatas":[]}"#,
    ),
    (
        322,
        r#"{"counter":1,"stateVersion":0,"timestamp":1000}"#,
        r#"{"counter":1,"timestamp":1000}"#,
    ),
    (
        219,
        r#"{"table":{"\"stateVersion\":0,":"1"}}"#,
        r#"{"table":{"\"stateVersion\":0,":"1"}}"#,
    ),
];

#[test]
fn an_answer_of_4_9_is_in_its_own_words() {
    let dialect = Dialect::V4_9_4;
    let judge = |code, expected: &Answer, frame: &[u8]| {
        let (opaque, answer) = read_any(frame, true, dialect)?;
        assert_eq!(opaque, 7);
        check("Java", &Request::new(code), expected, &answer, dialect)
    };
    let header = |version| {
        format!(
            r#"{{"code":0,"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":{version}}}"#
        )
    };
    // code, language, version, opaque, flag, no remark, no map
    let binary = b"\0\0\0\x01\x91\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0";
    for (code, new, old) in OLD {
        let expected = Answer::success().body(new);
        let frame = |version| frame(0, header(version).as_bytes(), old);
        assert_eq!(judge(code, &expected, &frame(401)), Ok(()), "{old}");
        assert!(judge(code, &expected, &frame(479)).is_err(), "{old}");
        assert_eq!(judge(code, &expected, &self::frame(1, binary, old)), Ok(()));
        if new != old {
            let new = self::frame(0, header(401).as_bytes(), new);
            assert!(judge(code, &expected, &new).is_err(), "{old}");
        }
    }
    let miss = |link: &str| Answer::failure(17, &format!("x\nSee {link} for further details."));
    let said = dialect.says(miss("https://rocketmq.apache.org/docs/bestPractice/06FAQ"));
    assert_eq!(said, miss("http://rocketmq.apache.org/docs/faq/"));
}
