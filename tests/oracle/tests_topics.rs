//! Topic operations, static topics, zones, key-values, and the worked frames of the wire.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::register::crc32;
use super::tests::{World, addr, body, pair, put, register, route, set, topic, unregister};
use crate::support::answer::{Answer, Remark, read_answers, read_notification};
use crate::support::request::{
    Body, FilterSpec, MappingSpec, QueueSpec, RegisterForm, RegisterSpec, Request, TopicSpec,
    VersionSpec,
};

#[test]
fn order_configuration() {
    let mut world = World::new(&[("orderMessageEnable", "true")]);
    world.ask(&put("ORDER_TOPIC_CONFIG", "T1", "ba:4"));
    let answer = world.ask(&register("ba", 0, 1, body(&["T1", "T2"])));
    assert_eq!(
        answer,
        Answer::success()
            .ext(&[])
            .body(r#"{"table":{"T1":"ba:4"}}"#)
    );
    let with = r#""filterServerTable":{},"orderTopicConf":"ba:4","queueDatas""#;
    assert!(world.route("T1").contains(with));
    assert!(!world.route("T2").contains("orderTopicConf"));
    world.ask(
        &Request::new(102)
            .with("namespace", "ORDER_TOPIC_CONFIG")
            .with("key", "T1"),
    );
    let again = register("ba", 0, 1, body(&["T1", "T2"]));
    assert_eq!(world.ask(&again).body.unwrap(), br#"{"table":{}}"#);
    world
        .oracle
        .set_switch("returnOrderTopicConfigToBroker", "false");
    assert_eq!(world.ask(&again), Answer::success().ext(&[]));
}

#[test]
fn key_values() {
    let mut world = World::new(&[]);
    let failure = Answer::failure(1, "namespace or key is null");
    assert_eq!(
        world.ask(&Request::new(100).with("namespace", "N")),
        failure
    );
    let list = Request::new(219).with("namespace", "N");
    assert_eq!(
        world.ask(&list),
        Answer::failure(22, "No config item, Namespace: N")
    );
    assert_eq!(world.ask(&put("N", "K", "v")), Answer::success());
    let get = Request::new(101).with("namespace", "N").with("key", "K");
    assert_eq!(world.ask(&get), Answer::success().ext(&[("value", "v")]));
    assert_eq!(
        world.ask(&set(put("N", "K", ""), "value", None)),
        Answer::success()
    );
    let miss = Answer::failure(22, "No config item, Namespace: N Key: K").ext(&[]);
    assert_eq!(world.ask(&get), miss);
    assert_eq!(world.text(&list), r#"{"table":{}}"#);
    let nulls = Answer::failure(22, "No config item, Namespace: null Key: null").ext(&[]);
    assert_eq!(world.ask(&Request::new(101)), nulls);
    assert_eq!(world.ask(&Request::new(102)), Answer::success());
}

#[test]
fn topic_operations() {
    let mut world = pair();
    world.ask(&register("bb", 0, 3, body(&["T1", "T2"])));
    let queue = |broker: &str| QueueSpec {
        broker: broker.to_owned(),
        read: 1,
        write: 1,
        perm: 4,
        sys_flag: 1,
    };
    let put = |topic: &str, queues: &[QueueSpec]| {
        let req = Request::new(217).with("topic", topic);
        Request {
            body: Body::Route(queues.to_vec()),
            ..req
        }
    };
    // an existing topic keeps what came before the unknown broker; a new one nothing
    world.ask(&put("T1", &[queue("ba"), queue("??"), queue("bb")]));
    let perms = |world: &mut World, topic: &str| {
        let body = world.route(topic);
        (
            body.matches("\"perm\":4").count(),
            body.matches("\"perm\":6").count(),
        )
    };
    assert_eq!(perms(&mut world, "T1"), (1, 1));
    world.ask(&put("N", &[queue("ba"), queue("??")]));
    assert_eq!(world.perm("N"), None);
    world.ask(&put("N", &[queue("ba"), queue("bb")]));
    assert_eq!(perms(&mut world, "N"), (2, 0));
    assert_eq!(world.text(&Request::new(313)), r#"{"topicList":[]}"#);
    assert_eq!(
        world.text(&Request::new(311)),
        r#"{"topicList":["N","T1"]}"#
    );
    let bad = Request {
        body: Body::Raw(b"{".to_vec()),
        ..put("N", &[])
    };
    assert_eq!(world.ask(&bad), Answer::refused());
    // deletion
    let delete = |topic: &str| Request::new(216).with("topic", topic);
    world.ask(&delete("N").with("clusterName", "unknown"));
    assert_eq!(perms(&mut world, "N"), (2, 0));
    world.ask(&delete("N").with("clusterName", "C1"));
    assert_eq!(world.perm("N"), None);
    world.ask(&delete("T1").with("clusterName", ""));
    assert_eq!(world.text(&Request::new(206)), r#"{"topicList":["T2"]}"#);
    assert_eq!(world.ask(&Request::new(216)), Answer::success());
    let lists = Request::new(224);
    assert_eq!(world.text(&lists), r#"{"topicList":[]}"#);
    assert_eq!(
        world.text(&lists.with("cluster", "C1")),
        r#"{"topicList":["T2"]}"#
    );
}

#[test]
fn disabled_lists_and_waiting() {
    let mut world = pair();
    world.oracle.set_switch("enableAllTopicList", "false");
    assert_eq!(world.ask(&Request::new(206)), Answer::failure(1, "disable"));
    let off = Body::Raw(b"enableTopicList=false\nneedWaitForService=true\n".to_vec());
    world.ask(&Request {
        body: off,
        ..Request::new(318)
    });
    for code in [224, 311, 312, 313] {
        assert_eq!(
            world.ask(&Request::new(code)),
            Answer::failure(1, "disable")
        );
    }
    assert_eq!(
        world.ask(&route("T1")),
        Answer::failure(1, "name server not ready")
    );
    world.now = 44_999;
    assert_eq!(world.ask(&route("T1")).code, 1);
    world.now = 45_000;
    assert_eq!(world.ask(&route("T1")).code, 0);
}

#[test]
fn static_topics_go_with_topic_and_broker() {
    let mut world = pair();
    let info = |bname: &str, epoch| MappingSpec {
        topic: "SA".to_owned(),
        bname: bname.to_owned(),
        total_queues: 4,
        epoch,
        ids: vec![(1, 1), (0, 0)],
    };
    let spec = |epoch| RegisterSpec {
        mappings: vec![("SA".to_owned(), info("st", epoch))],
        ..body(&["SA", "T9"])
    };
    world.ask(&register("st", 0, 3, spec(1)));
    let shown = r#""topicQueueMappingByBroker":{"st":{"bname":"st","currIdMap":{"0":0,"1":1},"dirty":false,"epoch":1,"scope":"__global__","topic":"SA","totalQueues":4}}}"#;
    assert!(world.route("SA").ends_with(shown), "{}", world.route("SA"));
    world.ask(&register("st", 0, 3, spec(2))); // equal version: kept
    assert!(world.route("SA").ends_with(shown));
    world.ask(&Request::new(216).with("topic", "SA"));
    world.ask(&register("st", 0, 3, spec(3))); // absent: added
    assert!(world.route("SA").contains(r#""epoch":3"#));
    world.ask(&unregister("st", 0, 3));
    world.ask(&register("st", 0, 3, body(&["SA", "T9"])));
    assert!(!world.route("SA").contains("Mapping"));
}

#[test]
fn zones() {
    let mut world = World::new(&[]);
    let in_zone = |n: u8, id, zone: &str| {
        let filters = FilterSpec::List(vec![format!("f:{n}")]);
        let spec = RegisterSpec {
            filters,
            ..body(&["T1", "T2"])
        };
        register(&format!("b{n}"), id, n, spec).with("__ZONE_NAME", zone)
    };
    world.ask(&in_zone(1, 0, "east"));
    world.ask(&in_zone(2, 0, "west"));
    world.ask(&in_zone(3, 1, "west")); // no master: kept whatever the zone
    let ask = |zone: &str| {
        route("T1")
            .with("__ZONE_MODE", "TRUE")
            .with("__ZONE_NAME", zone)
    };
    let body = world.text(&ask("EAST"));
    assert!(body.contains(r#""zoneName":"east""#) && body.contains(r#"{"0":"10.0.0.1:10911"}"#));
    assert!(!body.contains("b2") && !body.contains("f:2"));
    assert!(body.contains(r#""brokerName":"b3""#) && body.contains("f:3"));
    assert_eq!(world.text(&ask(" ")), world.route("T1"));
    world.ask(&unregister("b3", 1, 3));
    let nothing = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#;
    assert_eq!(world.text(&ask("north")), nothing);
}

#[test]
fn worked_frames() {
    let mut req = Request {
        opaque: 14,
        ..Request::new(104)
    };
    for (key, value) in [
        ("brokerId", "1"),
        ("clusterName", "C"),
        ("brokerAddr", &addr(2)),
        ("brokerName", "a"),
    ] {
        req = req.with(key, value);
    }
    let frame = req.json_frame();
    let header = r#"{"code":104,"extFields":{"brokerId":"1","clusterName":"C","brokerAddr":"10.0.0.2:10911","brokerName":"a"},"flag":0,"language":"JAVA","opaque":14,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(frame[..8], [0, 0, 0, 0xc4, 0, 0, 0, 0xc0]);
    assert_eq!(&frame[8..], header.as_bytes());
    let answer = r#"{"code":0,"flag":1,"language":"JAVA","opaque":14,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let bytes = [&[0, 0, 0, 0x64, 0, 0, 0, 0x60], answer.as_bytes()].concat();
    assert_eq!(read_answers(&bytes).unwrap(), [(14, Answer::success())]);
    let header = br#"{"code":905,"extFields":{"offlineBrokerAddr":"10.0.0.1:10911","minBrokerAddr":"10.0.0.2:10911","minBrokerId":"1"},"flag":2,"language":"JAVA","opaque":8,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let bytes = [&[0, 0, 0, 0xcb, 0, 0, 0, 0xc7], header.as_slice()].concat();
    let ext = [
        ("offlineBrokerAddr", "10.0.0.1:10911"),
        ("minBrokerAddr", "10.0.0.2:10911"),
        ("minBrokerId", "1"),
    ];
    assert_eq!(read_notification(&bytes, &ext), Ok(8));
    assert!(read_notification(&bytes, &ext[1..]).is_err());
}

#[test]
fn worked_binary_request_and_answer() {
    let ext = Request {
        version: 317,
        opaque: 7,
        ..route("X")
    };
    let mut frame = ext.binary_frame();
    let expected = b"\0\0\0\x25\x01\0\0\x21\0\x69\x09\x01\x3d\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x05topic\0\0\0\x01X";
    frame[10] = 9; // the example speaks GO
    assert_eq!(frame, expected);
    let mut bytes = vec![0, 0, 0, 0x21 + 4, 1, 0, 0, 0x21];
    bytes.extend(b"\0\x16\0\x01\xdf\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\x0c\0\x05value\0\0\0\x01v");
    let answer = Answer {
        remark: Remark::Absent,
        ..Answer::failure(22, "")
    };
    assert_eq!(
        read_answers(&bytes).unwrap(),
        [(7, answer.ext(&[("value", "v")]))]
    );
}

#[test]
fn worked_registration() {
    let topics = ["T", "U"].map(|name| TopicSpec {
        read: 4,
        write: 4,
        ..topic(name)
    });
    let version = VersionSpec {
        state: 0,
        counter: 1,
        timestamp: Some(1_700_000_000_000),
    };
    let spec = RegisterSpec {
        topics: topics.to_vec(),
        data_version: Some(version),
        ..body(&[])
    };
    let mut req = Request {
        body: Body::Register(spec),
        ..Request::new(103)
    };
    assert_eq!(req.body_bytes().len(), 579);
    assert_eq!(crc32(&req.body_bytes()) & 0x7fff_ffff, 865_161_605);
    let Body::Register(spec) = &mut req.body else {
        unreachable!()
    };
    spec.form = RegisterForm::Zlib;
    req.version = 409;
    let mut plain = Vec::new();
    let bytes = req.body_bytes();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&bytes[..]), &mut plain)
        .unwrap();
    assert_eq!(plain.len(), 97);
    assert!(plain.ends_with(b"\0\0\0\x12U 4 4 6 SINGLE_TAG\0\0\0\x02[]"));
}
