//! What a session asks elsewhere and makes of the answer.

use std::sync::Arc;

use bytes::Bytes;
use namesrv::route::Now;
use namesrv::route::command::{Command, Outcome};
use namesrv::route::snapshot::Snapshot;
use namesrv::session::elsewhere::{Ask, Asked, read_answer, write_question};
use namesrv::session::jobs::DigestKeys;
use namesrv::session::{Env, Next, Session};
use namesrv::settings::limits::Limits;
use namesrv::wire::frame;
use namesrv::wire::reply::Output;

use super::world::{miss, order_conf, register, route_of};
use crate::support::answer::{Answer, read_answers};
use crate::support::node::Node;
use crate::support::request::Request;

const LOCAL: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"ba","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"orderTopicConf":"ba:4","queueDatas":[{"brokerName":"ba","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;

fn node() -> Node {
    let mut node = Node::new(&[("clusterTest", "true")], true);
    let broker = node.connect();
    node.send(broker, &register("ba", &["T", "U"]).json_frame(), 0);
    node.send(broker, &order_conf("T", "ba:4").json_frame(), 0);
    let route = Bytes::from_static(b"{as it came:0}");
    node.production.insert("P".to_owned(), route.clone());
    node.production.insert("T".to_owned(), route);
    node
}

fn answer(node: &mut Node, request: &Request) -> Answer {
    let conn = node.connect();
    let answers = read_answers(&node.send(conn, &request.json_frame(), 0)).unwrap();
    assert_eq!(answers.len(), 1);
    answers[0].1.clone()
}

#[test]
fn a_known_topic_is_answered_from_the_tables_in_the_legacy_form() {
    let mut node = node();
    let new = route_of("T");
    let strict = route_of("T").with("acceptStandardJsonOnly", "true");
    let old = Request {
        version: 300,
        ..route_of("T")
    };
    for request in [new, strict, old] {
        assert_eq!(answer(&mut node, &request), Answer::success().body(LOCAL));
    }
    let without = LOCAL.replace(r#""orderTopicConf":"ba:4","#, "");
    let unordered = answer(&mut node, &route_of("U"));
    assert_eq!(unordered, Answer::success().body(without));
}

#[test]
fn an_unknown_topic_is_answered_with_the_bytes_of_the_production_environment() {
    let mut node = node();
    let passed_on = answer(&mut node, &route_of("P"));
    assert_eq!(passed_on, Answer::success().body("{as it came:0}"));
    assert_eq!(answer(&mut node, &route_of("Q")), miss("Q"));
}

#[test]
fn without_cluster_test_nothing_changes() {
    let mut node = Node::new(&[], true);
    let route = Bytes::from_static(b"{}");
    node.production.insert("P".to_owned(), route);
    let broker = node.connect();
    node.send(broker, &register("ba", &["T", "U"]).json_frame(), 0);
    node.send(broker, &order_conf("T", "ba:4").json_frame(), 0);
    assert_eq!(answer(&mut node, &route_of("P")), miss("P"));
    let standard = LOCAL
        .replace(r#""orderTopicConf":"ba:4","#, "")
        .replace("{0:", r#"{"0":"#);
    let known = answer(&mut node, &route_of("T"));
    assert_eq!(known, Answer::success().body(standard));
}

#[test]
fn other_requests_go_on_as_always() {
    let mut node = node();
    let unknown = answer(&mut node, &Request::new(999));
    assert_eq!(unknown.code, 3);
    assert_eq!(answer(&mut node, &Request::new(206)).code, 0);
}

/// A session whose questions nobody answers by himself.
struct Hand {
    session: Session,
    snapshot: Arc<Snapshot>,
    limits: Limits,
    keys: DigestKeys,
    out: Output,
}

impl Hand {
    fn new() -> Self {
        Self {
            session: Session::new(3, 77),
            snapshot: Arc::clone(node().snapshot()),
            limits: Limits::default(),
            keys: DigestKeys::new([1; 8]),
            out: Output::default(),
        }
    }

    fn feed(&mut self, request: &Request) -> Next {
        let frame = request.json_frame();
        self.call(|session, env, out| session.feed(&frame, env, out).next)
    }

    fn asked(&mut self, ask: Ask, body: Option<&'static [u8]>) {
        let body = body.map(Bytes::from_static);
        self.call(|session, env, out| session.asked(Asked { ask, body }, env, out));
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Session, &Env<'_>, &mut Output) -> T) -> T {
        let env = Env {
            snapshot: &self.snapshot,
            limits: &self.limits,
            keys: &self.keys,
            now: Now::default(),
            leaving: false,
            cluster_test: true,
            unchanged_rule: true,
        };
        call(&mut self.session, &env, &mut self.out)
    }

    fn sent(&mut self) -> Vec<(i32, Answer)> {
        let out = std::mem::take(&mut self.out);
        let slices = out.io_slices(0);
        let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        read_answers(&bytes).unwrap()
    }
}

fn ask_of(next: Next) -> Ask {
    match next {
        Next::Ask(ask) => ask,
        other => panic!("no question but {other:?}"),
    }
}

#[test]
fn nobody_is_asked_what_nobody_would_hear_or_is_known_beforehand() {
    let mut hand = Hand::new();
    let oneway = Request {
        oneway: true,
        ..route_of("Q")
    };
    assert!(matches!(hand.feed(&oneway), Next::Receive));
    assert_eq!(hand.sent(), []);

    let nameless = Request::new(105);
    assert!(matches!(hand.feed(&nameless), Next::Receive));
    assert_eq!(hand.sent(), [(1, miss("null"))]);

    let long = "x".repeat(1025);
    assert!(matches!(hand.feed(&route_of(&long)), Next::Receive));
    assert_eq!(hand.sent(), [(1, miss(&long))]);
    assert_eq!(hand.session.outstanding(), 0);

    let longest = "x".repeat(1024);
    assert_eq!(ask_of(hand.feed(&route_of(&longest))).topic, longest);
}

#[test]
fn a_question_of_another_test_environment_is_not_asked_again() {
    let mut question = Vec::new();
    write_question(&mut question, "Q", 9);
    let mut hand = Hand::new();
    let next = hand.call(|session, env, out| session.feed(&question, env, out).next);
    assert!(matches!(next, Next::Receive));
    assert_eq!(hand.sent(), [(9, miss("Q"))]);
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut hand = Hand::new();
    let mut ask = |opaque: i32, topic: &str| {
        let request = Request {
            opaque,
            ..route_of(topic)
        };
        ask_of(hand.feed(&request))
    };
    let (first, second) = (ask(-5, "A"), ask(6, "B"));
    assert_eq!((first.origin.core, first.origin.conn), (3, 77));
    assert_eq!((first.origin.opaque, &*first.topic), (-5, "A"));
    assert_eq!(hand.session.outstanding(), 2);
    hand.asked(second, Some(b"{}"));
    hand.asked(first, None);
    let sent = [(6, Answer::success().body("{}")), (-5, miss("A"))];
    assert_eq!(hand.sent(), sent);
    assert_eq!(hand.session.outstanding(), 0);
}

#[test]
fn a_connection_waits_when_enough_is_asked() {
    let mut hand = Hand::new();
    let asks: Vec<Ask> = (0..64).map(|_| ask_of(hand.feed(&route_of("Q")))).collect();
    assert!(matches!(hand.feed(&route_of("Q")), Next::Wait));
    for ask in asks.into_iter().take(1) {
        hand.asked(ask, None);
    }
    assert!(matches!(hand.feed(&route_of("Q")), Next::Ask(_)));
}

#[test]
fn an_answer_does_not_let_a_written_change_be_overtaken() {
    let mut hand = Hand::new();
    let ask = ask_of(hand.feed(&route_of("Q")));
    let Next::Submit(change) = hand.feed(&order_conf("T", "ba:5")) else {
        panic!("a change goes to the writer");
    };
    assert!(matches!(change.command, Command::Persist(_)));
    hand.asked(ask, Some(b"{}"));
    assert!(matches!(hand.feed(&route_of("T")), Next::Wait));
}

#[test]
fn a_written_change_does_not_wait_for_an_answer() {
    let mut hand = Hand::new();
    let ask = ask_of(hand.feed(&route_of("Q")));
    let Next::Submit(change) = hand.feed(&order_conf("T", "ba:5")) else {
        panic!("a change goes to the writer");
    };
    let origin = change.origin;
    hand.call(|session, env, out| session.outcome(origin, Outcome::Done, env, out));
    assert!(matches!(hand.feed(&route_of("T")), Next::Receive));
    hand.asked(ask, None);
    assert_eq!(hand.sent().len(), 3);
}

#[test]
fn a_question_claims_the_last_version_that_gets_the_legacy_form() {
    let mut question = b"before".to_vec();
    write_question(&mut question, "t\"%", i32::MAX);
    let header = br#"{"code":105,"extFields":{"topic":"t\"%","namesrvClusterTest":"true"},"flag":0,"language":"JAVA","opaque":2147483647,"serializeTypeCurrentRPC":"JSON","version":400}"#;
    let mut frame = b"before".to_vec();
    frame.extend((header.len() as u32 + 4).to_be_bytes());
    frame.extend((header.len() as u32).to_be_bytes());
    frame.extend(header);
    assert_eq!(question, frame, "{}", String::from_utf8_lossy(&question));
}

#[test]
fn only_success_with_a_body_is_a_route() {
    let limits = Limits::default().frame;
    let read = |header: &str, body: &str| {
        let mut bytes = ((4 + header.len() + body.len()) as u32)
            .to_be_bytes()
            .to_vec();
        bytes.extend((header.len() as u32).to_be_bytes());
        bytes.extend(header.bytes().chain(body.bytes()));
        let frame = frame::cut(&bytes, &limits).unwrap().unwrap();
        read_answer(&frame, &limits)
            .map(|answer| answer.map(|a| (a.opaque, a.route.map(<[u8]>::to_vec))))
    };
    let body = Some(b"{}".to_vec());
    let header = |code: i32, flag: i32| format!(r#"{{"code":{code},"flag":{flag},"opaque":7}}"#);
    assert_eq!(read(&header(0, 1), "{}"), Ok(Some((7, body))));
    assert_eq!(read(&header(0, 1), ""), Ok(Some((7, None))));
    assert_eq!(read(&header(17, 1), "{}"), Ok(Some((7, None))));
    assert_eq!(read(&header(1, 1), ""), Ok(Some((7, None))));
    assert_eq!(read(&header(0, 0), "{}"), Ok(None), "a request");
    assert!(read("{", "").is_err());
}
