//! The observed rows of the description: golden answers, forms of a route, and what follows
//! from registering. Also the helpers of the other tests.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Conn, Oracle};
use crate::support::answer::{Answer, Remark};
use crate::support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// An oracle with a clock and one connection.
pub(super) struct World {
    pub(super) oracle: Oracle,
    pub(super) conn: Conn,
    pub(super) now: u64,
}

impl World {
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        let mut oracle = Oracle::new(settings);
        let conn = oracle.connect();
        Self {
            oracle,
            conn,
            now: 1000,
        }
    }

    pub(super) fn ask(&mut self, req: &Request) -> Answer {
        self.ask_on(self.conn, req)
    }

    pub(super) fn ask_on(&mut self, conn: Conn, req: &Request) -> Answer {
        let answer = self.oracle.request(conn, req, self.now).unwrap();
        self.oracle.check();
        answer
    }

    /// The body of an answer that must be a success.
    pub(super) fn text(&mut self, req: &Request) -> String {
        let answer = self.ask(req);
        assert_eq!(answer.code, 0, "{answer}");
        String::from_utf8(answer.body.unwrap_or_default()).unwrap()
    }

    pub(super) fn route(&mut self, topic: &str) -> String {
        self.text(&route(topic))
    }

    pub(super) fn info(&mut self) -> String {
        self.text(&Request::new(106))
    }

    /// The perm of a topic at the only broker that has it; none for code 17.
    pub(super) fn perm(&mut self, topic: &str) -> Option<i32> {
        let answer = self.ask(&route(topic));
        if answer.code == 17 {
            return None;
        }
        let route: serde_json::Value = serde_json::from_slice(&answer.body.unwrap()).unwrap();
        let queues = route["queueDatas"].as_array().unwrap();
        assert_eq!(queues.len(), 1);
        Some(queues[0]["perm"].as_i64().unwrap() as i32)
    }
}

pub(super) fn route(topic: &str) -> Request {
    Request::new(105).with("topic", topic)
}

pub(super) fn topic(name: &str) -> TopicSpec {
    let (key, name) = (name.to_owned(), name.to_owned());
    TopicSpec {
        key,
        name,
        read: 8,
        write: 8,
        perm: 6,
        sys_flag: 0,
    }
}

pub(super) fn version(counter: i64) -> VersionSpec {
    VersionSpec {
        state: 0,
        counter,
        timestamp: Some(1000),
    }
}

pub(super) fn body(topics: &[&str]) -> RegisterSpec {
    RegisterSpec {
        form: RegisterForm::V5,
        topics: topics.iter().map(|name| topic(name)).collect(),
        data_version: Some(version(1)),
        mappings: Vec::new(),
        filters: FilterSpec::List(Vec::new()),
    }
}

/// A 103 of cluster C1 with address 10.0.0.N:10911 and DataVersion (1, 0, 1000).
pub(super) fn register(name: &str, id: i64, n: u8, body: RegisterSpec) -> Request {
    let mut req = Request::new(103)
        .with("brokerName", name)
        .with("brokerId", &id.to_string())
        .with("brokerAddr", &addr(n))
        .with("clusterName", "C1")
        .with("haServerAddr", &format!("10.0.0.{n}:10912"))
        .with("enableActingMaster", "false");
    req.body = Body::Register(body);
    req
}

/// The same request with another value for one of its fields, or without it.
pub(super) fn set(mut req: Request, key: &str, value: Option<&str>) -> Request {
    req.ext.retain(|(k, _)| k != key);
    match value {
        Some(value) => req.with(key, value),
        None => req,
    }
}

pub(super) fn acting(name: &str, id: i64, n: u8, body: RegisterSpec) -> Request {
    set(
        register(name, id, n, body),
        "enableActingMaster",
        Some("true"),
    )
}

pub(super) fn unregister(name: &str, id: i64, n: u8) -> Request {
    Request::new(104)
        .with("brokerName", name)
        .with("brokerId", &id.to_string())
        .with("brokerAddr", &addr(n))
        .with("clusterName", "C1")
}

pub(super) fn addr(n: u8) -> String {
    format!("10.0.0.{n}:10911")
}

/// A master ba with T1 and T2, and its slave.
pub(super) fn pair() -> World {
    let mut world = World::new(&[]);
    let accepted = Answer::success().ext(&[]);
    assert_eq!(
        world.ask(&register("ba", 0, 1, body(&["T1", "T2"]))),
        accepted
    );
    let answer = world.ask(&register("ba", 1, 2, body(&["T1", "T2"])));
    let master = [
        ("haServerAddr", "10.0.0.1:10912"),
        ("masterAddr", "10.0.0.1:10911"),
    ];
    assert_eq!(answer, Answer::success().ext(&master));
    world
}

fn query_version(n: u8, version: Option<VersionSpec>) -> Request {
    let mut req = Request::new(322)
        .with("clusterName", "C1")
        .with("brokerAddr", &addr(n));
    req.body = version.map_or(Body::None, Body::DataVersion);
    req
}

pub(super) fn put(namespace: &str, key: &str, value: &str) -> Request {
    Request::new(100)
        .with("namespace", namespace)
        .with("key", key)
        .with("value", value)
}

#[test]
fn golden_answers() {
    let mut world = pair();
    let info = r#"{"brokerAddrTable":{"ba":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"ba","cluster":"C1","enableActingMaster":false}},"clusterAddrTable":{"C1":["ba"]}}"#;
    assert_eq!(world.info(), info);
    assert_eq!(
        world.text(&Request::new(206)),
        r#"{"topicList":["T1","T2"]}"#
    );
    let system = r#"{"brokerAddr":"10.0.0.1:10911","topicList":["C1","ba"]}"#;
    assert_eq!(world.text(&Request::new(304)), system);
    let stored = r#"{"counter":1,"stateVersion":0,"timestamp":1000}"#;
    let answer = |changed| Answer::success().ext(&[("changed", changed)]);
    let ask = query_version(1, Some(version(1)));
    assert_eq!(world.ask(&ask), answer("false").body(stored));
    assert_eq!(
        world.ask(&query_version(1, Some(version(2)))),
        answer("true").body(stored)
    );
    assert_eq!(
        world.ask(&query_version(1, None)),
        answer("true").body(stored)
    );
    assert_eq!(
        world.ask(&query_version(9, Some(version(1)))),
        answer("true")
    );
    let wiped = Answer::success().ext(&[("wipeTopicCount", "2")]);
    assert_eq!(
        world.ask(&Request::new(205).with("brokerName", "ba")),
        wiped
    );
    let added = Answer::success().ext(&[("addTopicCount", "2")]);
    assert_eq!(
        world.ask(&Request::new(327).with("brokerName", "ba")),
        added
    );
    let none = Answer::success().ext(&[("addTopicCount", "0")]);
    assert_eq!(world.ask(&Request::new(327)), none);
    let ask = Request::new(901)
        .with("clusterName", "C1")
        .with("brokerName", "ba");
    let group = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"ba","cluster":"C1"}}"#;
    let answer = world.ask(&ask);
    assert_eq!(
        answer.remark,
        Remark::Text("not set any response code".to_owned())
    );
    assert_eq!(answer.body.unwrap(), group.as_bytes());
    let nobody = r#"{"brokerMemberGroup":{"brokerAddrs":{}}}"#;
    assert_eq!(world.text(&Request::new(901)), nobody);
}

#[test]
fn both_forms_of_a_route() {
    let mut world = pair();
    let tail = r#""brokerName":"ba","cluster":"C1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"ba","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#;
    let bare = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"#;
    let quoted = r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"#;
    let mut ask = route("T1");
    for (version, form) in [
        (479, quoted),
        (401, quoted),
        (400, bare),
        (317, bare),
        (-1, bare),
    ] {
        ask.version = version;
        assert_eq!(world.text(&ask), format!("{form}{tail}"));
    }
    let ask = ask.with("acceptStandardJsonOnly", "True");
    assert_eq!(world.text(&ask), format!("{quoted}{tail}"));
    let missing = world.ask(&Request::new(105));
    let text = "No topic route info in name server for the topic: null\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!(missing, Answer::failure(17, text));
}

#[test]
fn escapes_of_both_forms() {
    let mut world = World::new(&[]);
    let odd = "a/é\u{7f}\u{85}\u{2028}\u{1F600}\"\\\n\u{1}";
    world.ask(&register(odd, 0, 1, body(&["T1", "T2"])));
    let plain = "\"a/é\\u007F\\u0085\\u2028\u{1F600}\\\"\\\\\\n\\u0001\"";
    let browser = "\"a\\/\\u00E9\\u007F\\u0085\\u2028\\uD83D\\uDE00\\\"\\\\\\n\\u0001\"";
    assert!(world.info().contains(plain));
    assert!(world.route("T1").contains(browser));
    let mut ask = route("T1");
    ask.version = 0;
    assert!(world.text(&ask).contains(plain));
}

#[test]
fn who_contributes_topics() {
    // 4.x slave only: visible as a group, its topics are not
    let mut world = World::new(&[]);
    world.ask(&set(
        register("ba", 1, 1, body(&["T1", "T2"])),
        "enableActingMaster",
        None,
    ));
    assert_eq!(world.perm("T1"), None);
    assert!(world.info().contains(r#"{1:"10.0.0.1:10911"}"#));
    // 5.x slave only, acting mode off: full perm, only key 1
    let mut world = World::new(&[]);
    world.ask(&register("ba", 1, 1, body(&["T1", "T2"])));
    assert_eq!(world.perm("T1"), Some(6));
    assert!(world.route("T1").contains(r#"{"1":"10.0.0.1:10911"}"#));
    // acting mode on: masked, and shown as master when the server supports it
    let mut world = World::new(&[("supportActingMaster", "true")]);
    world.ask(&acting(
        "ba",
        1,
        1,
        body(&["T1", "rmq_sys_SYNC_BROKER_MEMBER_ba"]),
    ));
    assert_eq!(world.perm("T1"), Some(4));
    assert!(world.route("T1").contains(r#"{"0":"10.0.0.1:10911"}"#));
    assert!(
        world
            .route("rmq_sys_SYNC_BROKER_MEMBER_ba")
            .contains(r#"{"1":"10.0.0.1:10911"}"#)
    );
    world.ask(&Request::new(327).with("brokerName", "ba"));
    assert!(world.route("T1").contains(r#"{"1":"10.0.0.1:10911"}"#));
}

#[test]
fn prime_slave_is_the_lowest_id() {
    let mut world = World::new(&[]);
    world.ask(&acting("ba", 3, 3, body(&["T1", "T2"])));
    world.ask(&acting("ba", 2, 2, body(&["T1", "T2", "T3"])));
    assert_eq!(world.perm("T3"), Some(4));
    world.ask(&acting("ba", 5, 5, body(&["T1", "T2", "T5"])));
    assert_eq!(world.perm("T5"), None);
    world.ask(&acting("ba", 0, 1, body(&["T1", "T2"])));
    assert_eq!((world.perm("T1"), world.perm("T3")), (Some(6), Some(4)));
    world.ask(&unregister("ba", 0, 1));
    assert_eq!(world.perm("T1"), Some(4));
    world.ask(&acting("ba", 0, 1, body(&["T1", "T2"])));
    assert_eq!(world.perm("T1"), Some(6));
    // an id below 0 is lower than the master, and no master
    world.ask(&acting("ba", -1, 7, body(&["T7", "T8"])));
    assert_eq!(world.perm("T7"), Some(4));
}

#[test]
fn equal_version_leaves_topics_alone() {
    let mut world = pair();
    let first = register("ba", 0, 1, body(&["T1", "T2"]));
    world.ask(&Request::new(205).with("brokerName", "ba"));
    world.ask(&first);
    assert_eq!(world.perm("T1"), Some(4));
    world.ask(&register("ba", 0, 1, body(&["T1", "T3"])));
    assert_eq!((world.perm("T1"), world.perm("T3")), (Some(4), Some(6)));
    let changed = RegisterSpec {
        data_version: Some(version(2)),
        ..body(&["T1"])
    };
    world.ask(&register("ba", 0, 1, changed));
    assert_eq!((world.perm("T1"), world.perm("T2")), (Some(6), Some(4)));
    let ask = query_version(1, Some(version(2)));
    assert_eq!(world.ask(&ask).ext.unwrap()[0].1, "false");
}

#[test]
fn single_topic_guard_changes_nothing() {
    let mut world = World::new(&[]);
    let one = register("ba", 0, 1, body(&["T1"]));
    let refused = Answer::failure(1, "register broker failed").ext(&[]);
    assert_eq!(world.ask(&one), refused);
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    assert_eq!(
        world.ask(&register("ba", 0, 1, body(&[]))),
        Answer::success().ext(&[])
    );
    assert_eq!(world.ask(&one), Answer::success().ext(&[]));
    assert_eq!(world.perm("T1"), Some(6));
    let slave = set(
        register("ba", 1, 1, body(&["T1"])),
        "enableActingMaster",
        Some("true"),
    );
    let before = world.info();
    assert_eq!(world.ask(&slave.with("__ZONE_NAME", "z")), refused);
    assert_eq!(world.info(), before);
}

#[test]
fn deletes_topics_that_a_registration_lacks() {
    let mut world = World::new(&[("deleteTopicWithBrokerRegistration", "true")]);
    world.ask(&register("ba", 0, 1, body(&["T1", "T2"])));
    world.ask(&register("bb", 0, 2, body(&["T2", "T3"])));
    world.ask(&register("ba", 0, 1, body(&["T1"])));
    assert_eq!(world.perm("T2"), Some(6)); // at bb only
    assert!(world.route("T2").contains(r#""brokerName":"bb""#));
    world.ask(&register("bb", 0, 2, body(&[])));
    assert_eq!(world.text(&Request::new(206)), r#"{"topicList":["T1"]}"#);
}

#[test]
fn forms_of_a_registration() {
    let mut world = World::new(&[]);
    let unit = TopicSpec {
        key: "other".to_owned(),
        sys_flag: 3,
        ..topic("T1")
    };
    let spec = RegisterSpec {
        topics: vec![unit, topic("T2")],
        data_version: Some(VersionSpec {
            state: 7,
            counter: 1,
            timestamp: None,
        }),
        filters: FilterSpec::List(vec!["f:1".to_owned()]),
        ..body(&[])
    };
    world.ask(&register("ba", 0, 1, spec.clone()));
    assert_eq!(world.text(&Request::new(311)), r#"{"topicList":["T1"]}"#);
    assert_eq!(world.text(&Request::new(312)), r#"{"topicList":["T1"]}"#);
    assert_eq!(world.text(&Request::new(313)), r#"{"topicList":[]}"#);
    let stored = r#"{"counter":1,"stateVersion":7,"timestamp":1000}"#;
    assert_eq!(world.text(&query_version(1, None)), stored);
    assert!(
        world
            .route("T1")
            .contains(r#""filterServerTable":{"10.0.0.1:10911":["f:1"]}"#)
    );
    // JSON of 4.x has no state version; null keeps the filter servers
    world.now = 2000;
    let four = RegisterSpec {
        form: RegisterForm::V4,
        filters: FilterSpec::Null,
        ..spec.clone()
    };
    world.ask(&register("ba", 0, 1, four));
    let stored = r#"{"counter":1,"stateVersion":0,"timestamp":2000}"#;
    assert_eq!(world.text(&query_version(1, None)), stored);
    assert!(world.route("T1").contains("f:1"));
    // compressed: no unit flag, no filter servers means none
    let zlib = RegisterSpec {
        form: RegisterForm::Zlib,
        filters: FilterSpec::Absent,
        ..spec
    };
    world.ask(&register("ba", 0, 1, zlib));
    assert_eq!(world.text(&Request::new(312)), r#"{"topicList":[]}"#);
    assert!(world.route("T1").contains(r#""filterServerTable":{}"#));
    // no body: no topics, DataVersion of zeros
    let none = Request {
        body: Body::None,
        ..register("ba", 0, 1, body(&[]))
    };
    assert_eq!(world.ask(&none), Answer::success().ext(&[]));
    let zeros = r#"{"counter":0,"stateVersion":0,"timestamp":0}"#;
    assert_eq!(world.text(&query_version(1, None)), zeros);
}

#[test]
fn dataversion_null_keeps_the_topics() {
    let mut world = World::new(&[]);
    let spec = RegisterSpec {
        data_version: None,
        ..body(&["T1", "T2"])
    };
    world.ask(&register("ba", 0, 1, spec));
    assert_eq!(world.perm("T1"), Some(6));
    let answer = world.ask(&query_version(1, None));
    assert_eq!(answer, Answer::success().ext(&[("changed", "true")]));
}

#[test]
fn refusals() {
    let mut world = World::new(&[]);
    let good = register("ba", 0, 1, body(&["T1", "T2"]));
    for key in ["brokerName", "brokerAddr", "clusterName", "brokerId"] {
        assert_eq!(world.ask(&set(good.clone(), key, None)), Answer::refused());
    }
    assert_eq!(
        world.ask(&set(good.clone(), "brokerId", Some("x"))),
        Answer::refused()
    );
    assert_eq!(
        world.ask(&Request {
            version: -1,
            ..good.clone()
        }),
        Answer::refused()
    );
    for raw in [
        "null",
        "[]",
        "{",
        "x",
        r#"{"topicConfigSerializeWrapper":null}"#,
    ] {
        let bad = Request {
            body: Body::Raw(raw.as_bytes().to_vec()),
            ..good.clone()
        };
        assert_eq!(world.ask(&bad), Answer::refused());
    }
    let wrong = world.ask(&good.clone().with("bodyCrc32", "1"));
    assert_eq!(wrong, Answer::failure(1, "crc32 not match").ext(&[]));
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    for crc in ["0", "junk", "3000000000"] {
        assert_eq!(
            world.ask(&good.clone().with("bodyCrc32", crc)),
            Answer::success().ext(&[])
        );
    }
    for code in [322, 904] {
        assert_eq!(
            world.ask(&Request::new(code).with("clusterName", "C1")),
            Answer::refused()
        );
    }
    let unknown = Answer::failure(3, " request type 9999 not supported");
    assert_eq!(world.ask(&Request::new(9999)), unknown);
    let oneway = Request {
        oneway: true,
        ..Request::new(9999)
    };
    assert_eq!(world.oracle.request(1, &oneway, 0), None);
}
