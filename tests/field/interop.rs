//! Other languages and versions.

use super::world::{World, change, put, register, route, route_of, set};
use crate::support::answer::Answer;
use crate::support::request::Request;

const PAIR: [(&str, i64, usize); 2] = [("b-1", 0, 1), ("b-1", 1, 2)];

#[test]
fn f60_route_keys_are_quoted_from_4_9_4_on_or_if_asked() {
    let mut world = World::new(&[]);
    for (name, id, n) in PAIR {
        world.join(&register(name, id, n, &["t1", "t2"]));
    }
    let body = |zero, one| {
        format!(
            r#"{{"brokerDatas":[{{"brokerAddrs":{{{zero}:"10.0.0.1:10911",{one}:"10.0.0.2:10911"}},"brokerName":"b-1","cluster":"c1","enableActingMaster":false}}],"filterServerTable":{{}},"queueDatas":[{{"brokerName":"b-1","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}}]}}"#
        )
    };
    let (bare, quoted) = (body("0", "1"), body("\"0\"", "\"1\""));
    for version in [0, 317, 399, 400] {
        assert_eq!(world.text(&route_of(version, "t1")), bare, "{version}");
        let strict = route_of(version, "t1").with("acceptStandardJsonOnly", "true");
        assert_eq!(world.text(&strict), quoted, "{version}");
        let lenient = route_of(version, "t1").with("acceptStandardJsonOnly", "1");
        assert_eq!(world.text(&lenient), bare, "{version}");
    }
    for version in [401, 413, 479] {
        assert_eq!(world.text(&route_of(version, "t1")), quoted, "{version}");
    }
}

#[test]
fn f61_flags_have_their_current_name() {
    let mut world = World::new(&[]);
    let request = change(register("b-1", 0, 1, &["t1", "t2"]), |spec| {
        spec.topics[0].sys_flag = 3;
    });
    world.join(&request);
    for version in [0, 479] {
        let text = world.text(&route_of(version, "t1"));
        assert!(
            text.contains(r#""topicSysFlag":3"#) && !text.contains("Syn"),
            "{text}"
        );
    }
}

#[test]
fn f62_order_configuration_is_returned_as_it_was_put() {
    let mut world = World::new(&[("orderMessageEnable", "true")]);
    let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    for value in ["b-1:", "b-1;;", "b-1:4;", ":::", " "] {
        world.join(&put("ORDER_TOPIC_CONFIG", "t1", value));
        let text = world.text(&route("t1"));
        assert!(
            text.contains(&format!("\"orderTopicConf\":\"{value}\",\"queueDatas\"")),
            "{text}"
        );
        let get = Request::new(101).with("namespace", "ORDER_TOPIC_CONFIG");
        let found = Answer::success().ext(&[("value", value)]);
        assert_eq!(world.ask(&get.with("key", "t1")), found);
        let answer = world.ask_on(conn, &register("b-1", 0, 1, &["t1", "t2"]));
        let table = format!("{{\"table\":{{\"t1\":\"{value}\"}}}}");
        assert_eq!(answer, Answer::success().ext(&[]).body(table));
    }
}

#[test]
fn f63_a_null_key_is_refused_and_reaches_no_broker() {
    let mut world = World::new(&[]);
    for key in ["namespace", "key"] {
        let request = set(put("ORDER_TOPIC_CONFIG", "t1", "b-1:4"), key, None);
        assert_eq!(
            world.ask(&request),
            Answer::failure(1, "namespace or key is null")
        );
    }
    let answer = world.ask(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(answer, Answer::success().ext(&[]));
    let list = Request::new(219).with("namespace", "ORDER_TOPIC_CONFIG");
    assert_eq!(world.ask(&list).code, 22);
}

#[test]
fn f64_addresses_are_never_taken_apart() {
    for addr in [
        "[2001:db8::1]:10911",
        "fe80::1%eth0:10911",
        "::1",
        "broker.example:10911",
        "x",
    ] {
        let mut world = World::new(&[]);
        let request = set(
            register("b-1", 0, 1, &["t1", "t2"]),
            "brokerAddr",
            Some(addr),
        );
        let conn = world.join(&request);
        assert_eq!(world.brokers(), [format!("b-1 0 {addr}")]);
        assert_eq!(world.route_members("t1"), [format!("b-1 0 {addr}")]);
        let slave = world.ask(&register("b-1", 1, 2, &["t1", "t2"]));
        let master = [("haServerAddr", "10.0.0.1:10912"), ("masterAddr", addr)];
        assert_eq!(slave, Answer::success().ext(&master));
        world.node.close(conn, world.now);
        assert_eq!(world.brokers(), ["b-1 1 10.0.0.2:10911"]);
    }
}
