//! Golden tests: what real brokers, clients and admin tools sent to a Java 5.3.3 NameServer is
//! sent to this one, which must answer with the same bytes.
//!
//! Requests go in one by one, each at the millisecond at which Java got it, over connections that
//! open and close as theirs did; the scan for expired brokers runs before each. An answer may
//! differ only by one of [`RULES`], and each rule says exactly which answer it excuses. No rule is
//! needed for what Java does late (104): whoever recorded waited longer than that takes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeMap;

use namesrv::settings::limits::Limits;
use namesrv::wire::frame;
use namesrv::wire::header::Header;

use support::answer::read_answers;
use support::node::Node;
use support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// One recording, and what the server had when it began.
struct Capture {
    name: &'static str,
    before: Before,
}

/// What happened on the recorded server without being in the recording.
enum Before {
    Nothing,
    /// The namespace of order topics is there, without a key.
    NoOrderTopic,
    /// One order topic, `CapOrder`, at this broker.
    OrderTopic(&'static str),
    /// The broker of `broker-5.3.3` with all its topics.
    Broker,
    /// The same; and after so many ms it registers a retry topic that a consumer made there.
    BrokerThenTopic(u64, &'static str),
}

const CAPTURES: [Capture; 10] = [
    capture("broker-4.9.4", Before::NoOrderTopic),
    capture("broker-5.3.3", Before::OrderTopic("b-494-31500:4")),
    capture("broker-5.3.3-acting", Before::OrderTopic("b-533-31500:4")),
    capture("broker-5.5.0-compressed", Before::Nothing),
    capture("client-cpp-via-python-0.4.4", Before::Broker),
    capture("client-go-2.1.2", Before::Broker),
    capture(
        "client-java-4.9.4",
        Before::BrokerThenTopic(1200, "%RETRY%gJ494"),
    ),
    capture(
        "client-java-5.3.3",
        Before::BrokerThenTopic(2000, "%RETRY%gJ533"),
    ),
    capture(
        "client-java-5.3.3-binary",
        Before::BrokerThenTopic(1600, "%RETRY%gJ533b"),
    ),
    capture("client-node-ali-ons-3.12.0", Before::Broker),
];

const fn capture(name: &'static str, before: Before) -> Capture {
    Capture { name, before }
}

/// A difference that was decided on.
struct Rule {
    name: &'static str,
    reason: &'static str,
    /// How often the recordings need it.
    uses: usize,
    excuses: fn(&Exchange<'_>) -> bool,
}

const RULES: [Rule; 3] = [
    Rule {
        name: "topics in ascending order",
        reason: "Java lists them in the order of its hash table, of which no client may rely",
        uses: 2,
        excuses: ascending_topics,
    },
    Rule {
        name: "zlib body of a broker that denies it",
        reason: "Java tests the header alone, and a 5.x broker with compressedRegister never registers",
        uses: 2,
        excuses: denied_compression,
    },
    Rule {
        name: "that broker is known",
        reason: "it was registered, so it is in the cluster's list",
        uses: 1,
        excuses: broker_of_denied_compression,
    },
];

/// One answer of Java, and ours to the same request.
struct Exchange<'a> {
    code: i32,
    opaque: i32,
    java: &'a [u8],
    ours: &'a [u8],
}

#[test]
fn every_frame_is_read() {
    let (mut requests, mut answers) = (0, 0);
    let limits = Limits::default().frame;
    for capture in &CAPTURES {
        for event in events(capture.name) {
            match event.what {
                What::Request(bytes) => {
                    let frame = frame::cut(&bytes, &limits).unwrap().unwrap();
                    assert_eq!(frame.total_bytes, bytes.len());
                    let header = Header::parse(&frame, &limits).unwrap();
                    assert!(!header.is_response(), "{}: {header:?}", capture.name);
                    requests += 1;
                }
                // the strict reader of all other tests reads what Java writes
                What::Answer(bytes) => {
                    assert_eq!(read_answers(&bytes).map(|read| read.len()), Ok(1));
                    answers += 1;
                }
                What::End => {}
            }
        }
    }
    assert_eq!((requests, answers), (187, 166));
}

#[test]
fn answers_are_those_of_java() {
    for unchanged_rule in [true, false] {
        for piece_bytes in [usize::MAX, 1] {
            let mut used = [0; RULES.len()];
            let mut equal = 0;
            for capture in &CAPTURES {
                let mut node = stage(capture, unchanged_rule);
                replay(capture, &mut node, piece_bytes, |exchange| {
                    if exchange.java == exchange.ours {
                        equal += 1;
                        return true;
                    }
                    let rule = RULES.iter().position(|rule| (rule.excuses)(exchange));
                    rule.is_some_and(|rule| {
                        used[rule] += 1;
                        true
                    })
                });
            }
            println!("{equal} answers have the bytes of Java's");
            for (rule, used) in RULES.iter().zip(used) {
                println!("{used} differ: {}, since {}", rule.name, rule.reason);
            }
            assert_eq!(used, RULES.map(|rule| rule.uses));
            assert_eq!(equal + used.iter().sum::<usize>(), 166);
        }
    }
}

/// Brokers send everything again every 10 seconds here. A 5.x broker stamps the body anew each
/// time, and still only what is news may cost the writer anything: not a changed KV value or
/// permission, but a deleted topic.
#[test]
fn repeated_registrations_do_not_reach_the_writer() {
    let rows: [(usize, &[i32], &[i32]); 4] = [
        (0, &[0, 6, 14, 18, 22, 36, 45], &[2, 30, 34, 37, 39]),
        (1, &[0, 8, 14, 16], &[2, 24, 30, 36, 42, 48, 54, 60]),
        (2, &[30], &[]),
        (3, &[0], &[3]),
    ];
    for (place, news, repeated) in rows {
        let capture = &CAPTURES[place];
        let mut node = stage(capture, true);
        let (mut reached, mut stayed) = (Vec::new(), Vec::new());
        let mut conns = BTreeMap::new();
        for event in events(capture.name) {
            let What::Request(bytes) = event.what else {
                continue;
            };
            let conn = *conns.entry(event.conn).or_insert_with(|| node.connect());
            let (code, opaque) = code_and_opaque(&bytes);
            let before = node.commands;
            node.send(conn, &bytes, event.ms);
            match node.commands - before {
                _ if code != 103 => {}
                0 => stayed.push(opaque),
                commands => {
                    assert_eq!(commands, 1);
                    reached.push(opaque);
                }
            }
        }
        assert_eq!(reached, news, "{}", capture.name);
        assert_eq!(stayed, repeated, "{}", capture.name);
    }
}

/// A server as the recorded one was when the recording began.
fn stage(capture: &Capture, unchanged_rule: bool) -> Node {
    let mut node = Node::new(&[], unchanged_rule);
    let order = |code| {
        Request::new(code)
            .with("namespace", "ORDER_TOPIC_CONFIG")
            .with("key", "CapOrder")
    };
    let mut done = |frame: &[u8]| {
        let conn = node.connect();
        let answers = read_answers(&node.send(conn, frame, 0)).unwrap();
        assert_eq!(answers[0].1.code, 0, "{}: {answers:?}", capture.name);
    };
    match capture.before {
        Before::Nothing => {}
        Before::NoOrderTopic => {
            done(&order(100).with("value", "").json_frame());
            done(&order(102).json_frame());
        }
        Before::OrderTopic(value) => done(&order(100).with("value", value).json_frame()),
        Before::Broker | Before::BrokerThenTopic(..) => done(&full_registration()),
    }
    node
}

/// The first 103 of `broker-5.3.3` that has the topics of the clients' recordings.
fn full_registration() -> Vec<u8> {
    let found = events("broker-5.3.3").into_iter().find_map(|event| {
        let What::Request(bytes) = event.what else {
            return None;
        };
        (event.conn == 1 && code_and_opaque(&bytes) == (103, 16)).then_some(bytes)
    });
    found.unwrap()
}

/// The retry topic of a consumer, as the broker of the clients' recordings registers it.
fn retry_topic(name: &str) -> Vec<u8> {
    let topic = TopicSpec {
        key: name.to_owned(),
        name: name.to_owned(),
        read: 1,
        write: 1,
        perm: 6,
        sys_flag: 0,
    };
    let request = Request {
        body: Body::Register(RegisterSpec {
            form: RegisterForm::V5,
            topics: vec![topic],
            data_version: Some(VersionSpec {
                state: 0,
                counter: 3,
                timestamp: Some(1),
            }),
            mappings: Vec::new(),
            filters: FilterSpec::List(Vec::new()),
        }),
        ..Request::new(103)
    };
    let fields = [
        ("brokerId", "0"),
        ("clusterName", "C1"),
        ("brokerAddr", "127.0.0.1:31500"),
        ("enableActingMaster", "false"),
        ("haServerAddr", "127.0.0.1:31501"),
        ("brokerName", "b-533-31500"),
    ];
    let with = |request: Request, (key, value): (&str, &str)| request.with(key, value);
    fields.into_iter().fold(request, with).json_frame()
}

/// Sends what was recorded, in pieces of at most `piece_bytes`, and has each pair judged.
fn replay(
    capture: &Capture,
    node: &mut Node,
    piece_bytes: usize,
    mut judge: impl FnMut(&Exchange<'_>) -> bool,
) {
    let name = capture.name;
    let mut added = match capture.before {
        Before::BrokerThenTopic(ms, topic) => Some((ms, topic)),
        _ => None,
    };
    let mut conns = BTreeMap::new();
    let mut codes = BTreeMap::new();
    let mut ours = BTreeMap::new();
    for event in events(name) {
        if let Some((ms, topic)) = added.take_if(|added| added.0 <= event.ms) {
            let conn = node.connect();
            node.send(conn, &retry_topic(topic), ms);
        }
        node.tick(event.ms);
        match event.what {
            What::Request(bytes) => {
                let conn = *conns.entry(event.conn).or_insert_with(|| node.connect());
                let (code, opaque) = code_and_opaque(&bytes);
                codes.insert((event.conn, opaque), code);
                for piece in bytes.chunks(piece_bytes) {
                    for answer in frames(&node.send(conn, piece, event.ms)) {
                        let place = (event.conn, code_and_opaque(&answer).1);
                        let twice = ours.insert(place, answer);
                        assert!(twice.is_none(), "{name}: two answers to {place:?}");
                    }
                }
            }
            What::Answer(java) => {
                let (_, opaque) = code_and_opaque(&java);
                let place = (event.conn, opaque);
                let own = ours.remove(&place);
                let own = own.unwrap_or_else(|| panic!("{name}: no answer to {place:?}"));
                let exchange = Exchange {
                    code: codes[&place],
                    opaque,
                    java: &java,
                    ours: &own,
                };
                assert!(
                    judge(&exchange),
                    "{name}, {place:?} at {} ms: Java\n{}\nanswered\n{}",
                    event.ms,
                    String::from_utf8_lossy(&java[8..]),
                    String::from_utf8_lossy(&own[8..])
                );
            }
            What::End => {
                if let Some(conn) = conns.get(&event.conn) {
                    node.close(*conn, event.ms);
                }
            }
        }
    }
    assert!(added.is_none(), "{name} ends too soon");
    assert!(
        ours.is_empty(),
        "{name}: Java did not answer {:?}",
        ours.keys()
    );
}

/// 206: the same header, the same topics, and ours ascend.
fn ascending_topics(exchange: &Exchange<'_>) -> bool {
    let (java, ours) = (parts(exchange.java), parts(exchange.ours));
    let topics = |body: &str| -> Option<Vec<String>> {
        let list = body
            .strip_prefix("{\"topicList\":[\"")?
            .strip_suffix("\"]}")?;
        Some(list.split("\",\"").map(str::to_owned).collect())
    };
    let (Some(mut theirs), Some(own)) = (topics(&java.1), topics(&ours.1)) else {
        return false;
    };
    theirs.sort_unstable();
    exchange.code == 206 && java.0 == ours.0 && theirs == own
}

/// 103: Java fails with its exception, we answer with a bare success.
fn denied_compression(exchange: &Exchange<'_>) -> bool {
    const EXCEPTION: &str = r#"java.lang.NullPointerException: Cannot invoke \"org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody.getTopicConfigSerializeWrapper()\" because \"registerBrokerBody\" is null, org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor.registerBroker(DefaultRequestProcessor.java:242)"#;
    let opaque = exchange.opaque;
    let refused = format!(
        "{{\"code\":1,\"flag\":1,\"language\":\"JAVA\",\"opaque\":{opaque},\"remark\":\"{EXCEPTION}\",\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}"
    );
    let accepted = format!(
        "{{\"code\":0,\"extFields\":{{}},\"flag\":1,\"language\":\"JAVA\",\"opaque\":{opaque},\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}"
    );
    exchange.code == 103
        && parts(exchange.java) == (refused, String::new())
        && parts(exchange.ours) == (accepted, String::new())
}

/// 106: what follows from the rule above.
fn broker_of_denied_compression(exchange: &Exchange<'_>) -> bool {
    const NOBODY: &str = r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#;
    const BROKER: &str = r#"{"brokerAddrTable":{"b-550-31500":{"brokerAddrs":{0:"127.0.0.1:31500"},"brokerName":"b-550-31500","cluster":"C1","enableActingMaster":false}},"clusterAddrTable":{"C1":["b-550-31500"]}}"#;
    let (java, ours) = (parts(exchange.java), parts(exchange.ours));
    exchange.code == 106 && java.0 == ours.0 && java.1 == NOBODY && ours.1 == BROKER
}

/// Something in a recording.
struct Event {
    ms: u64,
    conn: u64,
    what: What,
}

enum What {
    Request(Vec<u8>),
    Answer(Vec<u8>),
    /// The peer has closed; that the server then closes as well goes without saying.
    End,
}

fn events(name: &str) -> Vec<Event> {
    let path = format!("{}/tests/golden/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let read = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let what = match (line["dir"].as_str().unwrap(), line["hex"].as_str()) {
            (">", Some(hex)) => What::Request(bytes(hex)),
            ("<", Some(hex)) => What::Answer(bytes(hex)),
            (">", None) => What::End,
            _ => return None,
        };
        Some(Event {
            ms: line["ms"].as_u64().unwrap(),
            conn: line["conn"].as_u64().unwrap(),
            what,
        })
    };
    text.lines().filter_map(read).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn code_and_opaque(bytes: &[u8]) -> (i32, i32) {
    let limits = Limits::default().frame;
    let frame = frame::cut(bytes, &limits).unwrap().unwrap();
    let header = Header::parse(&frame, &limits).unwrap();
    (header.code, header.opaque)
}

/// The frames of a stream that holds nothing else.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let frame = frame::cut(bytes, &Limits::default().frame)
            .unwrap()
            .unwrap();
        let (whole, rest) = bytes.split_at(frame.total_bytes);
        frames.push(whole.to_vec());
        bytes = rest;
    }
    frames
}

/// Header and body of a frame with a JSON header.
fn parts(bytes: &[u8]) -> (String, String) {
    let frame = frame::cut(bytes, &Limits::default().frame)
        .unwrap()
        .unwrap();
    assert_eq!(bytes[4], 0);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(frame.header), text(frame.body))
}
