//! The life of topics, and their permissions.

use super::world::{World, change, register, route, version, versioned};
use crate::support::answer::Answer;
use crate::support::request::{MappingSpec, Request};

#[test]
fn f38_a_topic_that_a_broker_no_longer_sends_goes_only_if_so_configured() {
    for (switch, left) in [("false", vec!["b-1 6"]), ("true", vec![])] {
        let mut world = World::new(&[("deleteTopicWithBrokerRegistration", switch)]);
        let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
        world.join(&register("b-2", 0, 2, &["t2", "t3"]));
        world.join_on(conn, &versioned(register("b-1", 0, 1, &["t2"]), version(2)));
        assert_eq!(world.queues("t1"), left);
        assert_eq!(world.queues("t2"), ["b-1 6", "b-2 6"]);
        assert_eq!(world.queues("t3"), ["b-2 6"]);
    }
}

#[test]
fn f38_a_deleted_topic_returns_with_the_next_registration_of_its_broker() {
    let mut world = World::new(&[]);
    let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(
        world.ask(&Request::new(216).with("topic", "t1")),
        Answer::success()
    );
    assert_eq!(world.ask(&route("t1")).code, 17);
    world.join_on(conn, &register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.queues("t1"), ["b-1 6"]);
}

#[test]
fn f39_wiped_permissions_last_until_the_version_changes() {
    let mut world = World::new(&[]);
    let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let wipe = Request::new(205).with("brokerName", "b-1");
    let wiped = Answer::success().ext(&[("wipeTopicCount", "2")]);
    assert_eq!(world.ask(&wipe), wiped);
    assert_eq!(world.queues("t1"), ["b-1 4"]);
    world.join_on(conn, &register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.queues("t1"), ["b-1 4"]);
    // also when its connection is new, as after a restart of the network
    let again = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.queues("t1"), ["b-1 4"]);
    world.join_on(
        again,
        &versioned(register("b-1", 0, 1, &["t1", "t2"]), version(2)),
    );
    assert_eq!(world.queues("t1"), ["b-1 6"]);
}

#[test]
fn f40_write_permission_can_be_given_back() {
    let mut world = World::new(&[]);
    let broker = change(register("b-1", 0, 1, &["t1", "t2"]), |spec| {
        spec.topics[1].perm = 4
    });
    world.join(&broker);
    world.ask(&Request::new(205).with("brokerName", "b-1"));
    let add = Request::new(327).with("brokerName", "b-1");
    let added = Answer::success().ext(&[("addTopicCount", "2")]);
    assert_eq!(world.ask(&add), added);
    assert_eq!(world.queues("t1"), ["b-1 6"]);
    // Java sets 6 as well where the broker wants 4
    assert_eq!(world.queues("t2"), ["b-1 6"]);
}

#[test]
fn f41_a_new_broker_is_not_part_of_topics_it_does_not_have() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let before = world.text(&route("t1"));
    world.join(&register("b-2", 0, 2, &["t2", "t3"]));
    assert_eq!(world.text(&route("t1")), before);
    assert_eq!(world.queues("t2"), ["b-1 6", "b-2 6"]);
}

#[test]
fn f42_a_deleted_static_topic_leaves_no_mapping() {
    let mut world = World::new(&[]);
    let mapping = MappingSpec {
        topic: "t1".to_owned(),
        bname: "b-1".to_owned(),
        total_queues: 2,
        epoch: 1,
        ids: vec![(0, 0), (1, 1)],
    };
    let plain = register("b-1", 0, 1, &["t1", "t2"]);
    let fixed = change(plain.clone(), |spec| {
        spec.mappings.push(("t1".to_owned(), mapping))
    });
    let conn = world.join(&fixed);
    assert!(
        world
            .text(&route("t1"))
            .contains(r#""topicQueueMappingByBroker":{"b-1":{"#)
    );
    world.ask(&Request::new(216).with("topic", "t1"));
    assert!(world.node.snapshot().mappings("t1").is_none());
    world.join_on(conn, &versioned(plain, version(2)));
    let route_text = r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"b-1","cluster":"c1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-1","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#;
    assert_eq!(world.text(&route("t1")), route_text);
}
