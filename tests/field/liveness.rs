//! Liveness, identity, order: who is there, and under which name.

use namesrv::route::command::{Event, Leave};

use super::world::{
    Hand, World, addr, one, query, register, route, set, unregister, version, versioned,
};
use crate::support::answer::Answer;
use crate::support::request::{Request, VersionSpec};

const OVERLOAD: &str = "[OVERLOAD]system busy, start flow control for a while";

fn state(state: i64) -> VersionSpec {
    VersionSpec {
        state,
        ..version(1)
    }
}

#[test]
fn f20_what_was_thrown_away_is_never_a_success() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let mut hand = Hand::new();
    let snapshot = world.node.snapshot().clone();
    for request in [
        unregister("b-1", 0, 1),
        register("b-2", 0, 2, &["t1", "t2"]),
    ] {
        hand.overload(&snapshot, &request);
        assert_eq!(one(&hand.sent()), Answer::failure(2, OVERLOAD));
        let oneway = Request {
            oneway: true,
            ..request
        };
        hand.overload(&snapshot, &oneway);
        assert!(hand.sent().is_empty());
    }
    assert_eq!(world.brokers(), ["b-1 0 10.0.0.1:10911"]);
}

#[test]
fn f22_the_first_scan_takes_only_what_has_expired() {
    let mut world = World::new(&[]);
    world.now = 0;
    world.pass(5);
    assert!(world.node.events().is_empty());
    let short = register("b-1", 0, 1, &["t1", "t2"]).with("heartbeatTimeoutMillis", "1");
    world.join(&short);
    world.join(&register("b-2", 0, 2, &["t1", "t2"]));
    world.node.events();
    world.pass(1);
    assert!(world.node.events().is_empty());
    world.pass(1);
    assert_eq!(world.brokers(), ["b-2 0 10.0.0.2:10911"]);
    let left = world.node.events();
    let silent_ms = 2;
    assert!(
        matches!(&left[..], [Event::BrokerLeft(_, Leave::Expired { silent_ms: s })] if *s == silent_ms)
    );
}

#[test]
fn f23_an_incremental_registration_does_not_hide_the_other_topics() {
    let mut world = World::new(&[]);
    let conn = world.node.connect();
    let first = versioned(register("b-1", 0, 1, &["t1"]), version(7));
    let refused = Answer::failure(1, "register broker failed").ext(&[]);
    assert_eq!(world.ask_on(conn, &first), refused);
    assert!(world.brokers().is_empty());
    let full = versioned(register("b-1", 0, 1, &["t1", "t2", "t3"]), version(7));
    world.join_on(conn, &full);
    for topic in ["t1", "t2", "t3"] {
        assert_eq!(world.queues(topic), ["b-1 6"]);
    }
}

#[test]
fn f24_a_renamed_broker_leaves_its_old_name() {
    let mut world = World::new(&[]);
    let conn = world.join(&register("b-old", 0, 1, &["t1", "t2"]));
    world.join_on(conn, &register("b-new", 0, 1, &["t1", "t3"]));
    assert_eq!(world.brokers(), ["b-new 0 10.0.0.1:10911"]);
    assert_eq!(world.queues("t1"), ["b-new 6"]);
    assert!(world.queues("t2").is_empty());
    world.node.close(conn, world.now);
    assert!(world.brokers().is_empty());
}

#[test]
fn f25_one_name_in_two_clusters_is_as_in_java_but_not_silent() {
    let mut world = World::new(&[]);
    world.join(&register("b-a", 0, 1, &["t1", "t2"]));
    assert!(!world.node.events().iter().any(is_conflict));
    let other = set(
        register("b-a", 0, 2, &["t1", "t2"]),
        "clusterName",
        Some("c2"),
    );
    let conn = world.join(&other);
    let info = r#"{"brokerAddrTable":{"b-a":{"brokerAddrs":{0:"10.0.0.2:10911"},"brokerName":"b-a","cluster":"c1","enableActingMaster":false}},"clusterAddrTable":{"c1":["b-a"],"c2":["b-a"]}}"#;
    assert_eq!(world.text(&Request::new(106)), info);
    assert!(world.node.events().iter().any(is_conflict));
    world.node.close(conn, world.now);
    let nobody = r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#;
    assert_eq!(world.text(&Request::new(106)), nobody);
}

fn is_conflict(event: &Event) -> bool {
    matches!(event, Event::NameInTwoClusters { broker, group_cluster }
        if &*broker.cluster == "c2" && &**group_cluster == "c1")
}

#[test]
fn f26_the_last_of_equal_masters_counts() {
    let mut world = World::new(&[]);
    world.join(&versioned(register("b-1", 0, 1, &["t1", "t2"]), state(3)));
    world.join(&versioned(register("b-1", 0, 2, &["t1", "t2"]), state(3)));
    assert_eq!(world.brokers(), ["b-1 0 10.0.0.2:10911"]);
    world.join(&versioned(register("b-1", 0, 3, &["t1", "t2"]), state(4)));
    assert_eq!(world.brokers(), ["b-1 0 10.0.0.3:10911"]);
}

#[test]
fn f27_a_master_of_an_older_epoch_is_ignored() {
    let mut world = World::new(&[]);
    world.join(&versioned(register("b-1", 0, 1, &["t1", "t2"]), state(2)));
    world.node.events();
    let old = versioned(register("b-1", 0, 2, &["t1", "t2", "t3"]), state(1));
    let conn = world.node.connect();
    assert_eq!(world.ask_on(conn, &old), Answer::success().ext(&[]));
    assert_eq!(world.brokers(), ["b-1 0 10.0.0.1:10911"]);
    assert!(world.queues("t3").is_empty());
    // not in the live table: it has no version there
    let unknown = Answer::success().ext(&[("changed", "true")]);
    assert_eq!(world.ask(&query("b-1", 0, 2, state(1))), unknown);
    let told = world.node.events();
    assert!(told.iter().any(|event| matches!(event,
        Event::StateVersionConflict { holder, state_versions: (2, 1), .. }
            if **holder == addr(1))));
}

#[test]
fn f28_a_new_role_counts_under_an_equal_version() {
    let mut world = World::new(&[]);
    let conn = world.join(&register("b-1", 1, 1, &["t1", "t2"]));
    world.join_on(conn, &register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.brokers(), ["b-1 0 10.0.0.1:10911"]);
    world.join_on(conn, &register("b-1", 2, 1, &["t1", "t2"]));
    assert_eq!(world.brokers(), ["b-1 2 10.0.0.1:10911"]);
}

#[test]
fn f29_a_broker_that_moved_is_not_taken_along_by_its_old_address() {
    for id in [0, 1] {
        let mut world = World::new(&[]);
        let old = world.join(&register("b-1", id, 1, &["t1", "t2"]));
        world.pass(1000);
        let new = world.join(&register("b-1", id, 2, &["t1", "t2"]));
        let moved = [format!("b-1 {id} 10.0.0.2:10911")];
        assert_eq!(world.brokers(), moved);
        assert_eq!(world.route_members("t1"), moved);
        world.pass(119_000);
        let alive = query("b-1", id, 2, version(1));
        assert_eq!(world.ask_on(new, &alive).code, 0);
        world.pass(60_000);
        world.node.close(old, world.now);
        assert_eq!(world.brokers(), moved);
        assert_eq!(world.queues("t1"), ["b-1 6"]);
    }
}

#[test]
fn f30_an_address_has_one_id() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 1, 1, &["t1", "t2"]));
    world.join(&register("b-1", 2, 2, &["t1", "t2"]));
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(
        world.brokers(),
        ["b-1 0 10.0.0.1:10911", "b-1 2 10.0.0.2:10911"]
    );
}

#[test]
fn f31_a_route_without_its_master_says_so_or_waits() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 1, 1, &["t1", "t2"]));
    assert_eq!(world.route_members("t1"), ["b-1 1 10.0.0.1:10911"]);
    let mut world = World::new(&[("needWaitForService", "true")]);
    world.join(&register("b-1", 1, 1, &["t1", "t2"]));
    let waits = Answer::failure(1, "name server not ready");
    assert_eq!(world.ask(&route("t1")), waits);
    world.join(&register("b-1", 0, 2, &["t1", "t2"]));
    world.now = 45_000;
    assert_eq!(
        world.route_members("t1"),
        ["b-1 0 10.0.0.2:10911", "b-1 1 10.0.0.1:10911"]
    );
}

#[test]
fn f33_a_server_without_brokers_knows_it() {
    let mut world = World::new(&[]);
    assert_eq!(world.ask(&route("t1")).code, 17);
    assert_eq!(world.node.snapshot().counts(), (0, 0, 0));
    let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.node.snapshot().counts(), (2, 1, 1));
    world.node.close(conn, world.now);
    assert_eq!(world.node.snapshot().counts(), (0, 0, 0));
}

#[test]
fn f36_a_closed_connection_takes_its_broker_at_once() {
    let mut world = World::new(&[]);
    let conn = world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.queues("t1"), ["b-1 6"]);
    world.node.close(conn, world.now);
    assert_eq!(world.ask(&route("t1")).code, 17);
    assert!(world.brokers().is_empty());
}

#[test]
fn f37_a_closed_connection_takes_all_its_brokers() {
    let mut world = World::new(&[]);
    let shared = world.node.connect();
    for n in 1..=20 {
        world.join_on(shared, &register(&format!("b-{n}"), 0, n, &["t1", "t2"]));
    }
    // b-20 has registered over another connection since
    world.join(&register("b-20", 0, 20, &["t1", "t2"]));
    assert_eq!(world.queues("t1").len(), 20);
    world.node.close(shared, world.now);
    assert_eq!(world.brokers(), ["b-20 0 10.0.0.20:10911"]);
    assert_eq!(world.queues("t1"), ["b-20 6"]);
}
