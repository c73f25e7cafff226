//! Who may hold an id or an address, how members leave, and who is told.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::tests::{World, acting, addr, body, pair, register, route, set, unregister, version};
use crate::support::answer::Answer;
use crate::support::request::{FilterSpec, RegisterSpec, Request, VersionSpec};

fn with_state(state: i64, topics: &[&str]) -> RegisterSpec {
    let version = VersionSpec {
        state,
        counter: 9,
        timestamp: Some(1),
    };
    RegisterSpec {
        data_version: Some(version),
        ..body(topics)
    }
}

fn live(world: &mut World, n: u8) -> bool {
    let ask = Request::new(322)
        .with("clusterName", "C1")
        .with("brokerAddr", &addr(n));
    world.ask(&ask).body.is_some()
}

#[test]
fn an_address_has_one_id() {
    let mut world = pair();
    world.ask(&register("ba", 0, 2, body(&["T1", "T2"])));
    assert!(
        world
            .info()
            .contains(r#"{"brokerAddrs":{0:"10.0.0.2:10911"},"#)
    );
    assert!(!live(&mut world, 1));
    assert!(live(&mut world, 2));
}

#[test]
fn role_switch_compares_with_its_own_live_entry() {
    let mut world = pair();
    world.ask(&Request::new(205).with("brokerName", "ba"));
    // the id was held and the version is equal: as in Java, nothing is overwritten
    world.ask(&register("ba", 0, 2, body(&["T1", "T2"])));
    assert_eq!(world.perm("T1"), Some(4));
    // a new id always overwrites
    world.ask(&register("ba", 1, 2, body(&["T1", "T2"])));
    assert_eq!(world.perm("T1"), Some(6));
}

#[test]
fn higher_state_version_keeps_the_id() {
    let mut world = World::new(&[]);
    world.ask(&register("ba", 0, 1, with_state(5, &["T1", "T2"])));
    world.ask(&register("ba", 1, 2, with_state(4, &["T1", "T2"])));
    let loser = register("ba", 0, 2, with_state(4, &["T1", "T3"])).with("__ZONE_NAME", "z");
    assert_eq!(world.ask(&loser), Answer::success().ext(&[]));
    assert!(
        world
            .info()
            .contains(r#"{"brokerAddrs":{0:"10.0.0.1:10911"},"#)
    );
    assert!(world.info().contains(r#""zoneName":"z""#)); // S3 stays
    assert!(!live(&mut world, 2));
    assert_eq!(world.perm("T3"), None);
    // equal is enough
    world.ask(&register("ba", 0, 2, with_state(5, &["T1", "T3"])));
    assert_eq!(world.perm("T3"), Some(6));
    assert!(!live(&mut world, 1));
}

#[test]
fn an_expired_holder_loses_its_id() {
    let mut world = World::new(&[]);
    let old = register("ba", 0, 1, with_state(5, &["T1", "T2"]));
    world.ask(&old.with("heartbeatTimeoutMillis", "100"));
    let new = register("ba", 0, 2, with_state(1, &["T1", "T2"]));
    world.now = 1100;
    world.ask(&new);
    assert!(!live(&mut world, 2));
    assert!(live(&mut world, 1)); // and is refreshed
    world.now = 1201;
    world.ask(&new);
    assert!(live(&mut world, 2));
}

#[test]
fn a_renamed_broker_leaves_its_old_name() {
    let mut world = World::new(&[]);
    let spec = RegisterSpec {
        filters: FilterSpec::List(vec!["f".to_owned()]),
        ..body(&["T1", "T2"])
    };
    world.ask(&register("ba", 0, 1, spec));
    let spec = RegisterSpec {
        filters: FilterSpec::Null,
        ..body(&["T2", "T3"])
    };
    world.ask(&register("bb", 0, 1, spec));
    let info = r#"{"brokerAddrTable":{"bb":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"bb","cluster":"C1","enableActingMaster":false}},"clusterAddrTable":{"C1":["bb"]}}"#;
    assert_eq!(world.info(), info);
    assert_eq!(world.perm("T1"), None);
    assert!(
        world
            .route("T2")
            .contains(r#""filterServerTable":{"10.0.0.1:10911":["f"]}"#)
    );
}

#[test]
fn a_renamed_master_leaves_an_acting_group_read_only() {
    let mut world = World::new(&[]);
    world.ask(&acting("ba", 0, 1, body(&["T1", "T2"])));
    world.ask(&acting("ba", 1, 2, body(&["T1", "T2"])));
    world.ask(&acting("bb", 0, 1, body(&["T8", "T9"])));
    assert_eq!(world.perm("T1"), Some(4));
}

#[test]
fn one_name_in_two_clusters() {
    let mut world = pair();
    let guest = set(
        register("ba", 2, 1, body(&["T1", "T2"])),
        "clusterName",
        Some("C2"),
    );
    // same address: the id moves, and with it the live entry to the other cluster
    assert_eq!(world.ask(&guest), Answer::success().ext(&[]));
    assert!(
        world
            .info()
            .ends_with(r#""clusterAddrTable":{"C1":["ba"],"C2":["ba"]}}"#)
    );
    assert!(!live(&mut world, 1));
    world.ask(&register("ba", 0, 1, body(&["T1", "T2"])));
    let slave = set(
        register("ba", 3, 3, body(&["T1", "T2"])),
        "clusterName",
        Some("C2"),
    );
    assert_eq!(world.ask(&slave), Answer::success().ext(&[])); // no master in its cluster
    let conn = world.conn;
    world.oracle.close(conn);
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
}

#[test]
fn unregister_is_by_address() {
    for req in [
        unregister("ba", 7, 1),                        // wrong id
        set(unregister("ba", 0, 1), "brokerId", None), // no id
        set(unregister("ba", 0, 1), "clusterName", Some("C9")),
        set(unregister("ba", 0, 1), "clusterName", None),
        set(unregister("ba", 0, 1), "brokerName", Some("bx")),
        set(unregister("ba", 0, 1), "brokerName", None),
    ] {
        let mut world = pair();
        assert_eq!(world.ask(&req), Answer::success());
        assert!(
            world
                .info()
                .contains(r#"{"brokerAddrs":{1:"10.0.0.2:10911"},"#),
            "{req:?}"
        );
        assert!(!live(&mut world, 1));
    }
    for req in [
        unregister("ba", 0, 9), // unknown address
        set(unregister("ba", 0, 1), "brokerAddr", None),
        set(
            set(unregister("ba", 0, 1), "brokerName", None),
            "clusterName",
            None,
        ),
    ] {
        let mut world = pair();
        let before = world.info();
        assert_eq!(world.ask(&req), Answer::success());
        assert_eq!(world.info(), before);
    }
}

#[test]
fn last_member_takes_topics_and_cluster() {
    let mut world = pair();
    world.ask(&unregister("ba", 1, 2));
    assert_eq!(world.perm("T1"), Some(6));
    world.ask(&unregister("ba", 0, 1));
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    assert_eq!(world.text(&Request::new(304)), r#"{"topicList":[]}"#);
    assert_eq!(world.perm("T1"), None);
}

#[test]
fn close_takes_what_the_connection_registered_last() {
    let mut world = pair();
    let other = world.oracle.connect();
    world.ask(&register("bb", 0, 3, body(&["T1", "T2"])));
    world.ask_on(other, &register("ba", 0, 1, body(&["T1", "T2"])));
    world.oracle.close(world.conn);
    world.oracle.check();
    let info = world.info();
    assert!(info.contains(r#"{"brokerAddrs":{0:"10.0.0.1:10911"},"#) && !info.contains("bb"));
    world.oracle.close(other);
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
}

#[test]
fn expiry_uses_each_entrys_timeout() {
    let mut world = World::new(&[]);
    let other = world.oracle.connect();
    let short = register("ba", 0, 1, body(&["T1", "T2"])).with("heartbeatTimeoutMillis", "500");
    world.ask(&short);
    world.ask_on(other, &register("bb", 0, 2, body(&["T1", "T2"])));
    assert!(world.oracle.tick(1500).is_empty());
    world.now = 1500;
    world.ask(
        &Request::new(904)
            .with("clusterName", "C1")
            .with("brokerAddr", &addr(1)),
    );
    assert!(world.oracle.tick(2000).is_empty());
    assert_eq!(world.oracle.tick(2001), [world.conn].into());
    assert!(!live(&mut world, 1));
    world.ask(&short); // refresh by 322 even when changed
    world.now = 1900;
    assert!(live(&mut world, 1));
    assert!(world.oracle.tick(2400).is_empty());
    assert!(world.oracle.tick(121_000).len() == 1);
    assert_eq!(world.oracle.tick(121_001), [other].into());
    assert_eq!(
        world.info(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    // negative and huge timeouts
    let odd = |timeout| set(short.clone(), "heartbeatTimeoutMillis", Some(timeout));
    world.ask(&odd("9223372036854775807"));
    assert!(world.oracle.tick(u64::MAX / 4).is_empty());
    world.ask(&odd("-1"));
    assert_eq!(world.oracle.tick(world.now), [world.conn].into());
}

#[test]
fn a_shared_connection_survives_one_expiry() {
    let mut world = World::new(&[]);
    let short = register("ba", 0, 1, body(&["T1", "T2"])).with("heartbeatTimeoutMillis", "500");
    world.ask(&short);
    world.ask(&register("bb", 0, 2, body(&["T1", "T2"])));
    assert!(world.oracle.tick(2000).is_empty());
    assert!(!live(&mut world, 1));
}

#[test]
fn acting_master_after_a_loss() {
    let mut world = World::new(&[("supportActingMaster", "true")]);
    world.ask(&acting("ba", 0, 1, body(&["T1", "T2"])));
    world.ask(&acting("ba", 1, 2, body(&["T1", "T2"])));
    world.ask(&unregister("ba", 0, 1));
    assert!(
        world
            .route("T1")
            .contains(r#""brokerAddrs":{"0":"10.0.0.2:10911"}"#)
    );
    assert_eq!(world.perm("T1"), Some(4));
    // acting false: nothing is translated or masked
    let mut world = World::new(&[("supportActingMaster", "true")]);
    world.ask(&register("ba", 0, 1, body(&["T1", "T2"])));
    world.ask(&register("ba", 1, 2, body(&["T1", "T2"])));
    world.ask(&unregister("ba", 0, 1));
    assert!(
        world
            .route("T1")
            .contains(r#""brokerAddrs":{"1":"10.0.0.2:10911"}"#)
    );
    assert_eq!(world.perm("T1"), Some(6));
}

#[test]
fn acting_master_of_another_zone_is_filtered() {
    let mut world = World::new(&[("supportActingMaster", "true")]);
    world.ask(&acting("ba", 1, 1, body(&["T1", "T2"])).with("__ZONE_NAME", "east"));
    let ask = route("T1")
        .with("__ZONE_MODE", "true")
        .with("__ZONE_NAME", "west");
    assert!(world.text(&ask).starts_with(r#"{"brokerDatas":[],"#));
}

#[test]
fn notifications_of_the_lowest_id() {
    let mut world = World::new(&[("notifyMinBrokerIdChanged", "true")]);
    let told = |world: &mut World| -> Vec<(String, Vec<(&str, String)>)> {
        world
            .oracle
            .notifications()
            .into_iter()
            .map(|n| (n.to, n.ext))
            .collect()
    };
    world.ask(&acting("ba", 2, 2, body(&["T1", "T2"])));
    world.ask(&acting("ba", 3, 3, body(&["T1", "T2"])));
    assert_eq!(told(&mut world), []); // ids above 0 in an empty group are no change
    world.ask(&acting("ba", 1, 1, body(&["T1", "T2"])));
    let joined = vec![
        ("haBrokerAddr", "10.0.0.1:10912".to_owned()),
        ("minBrokerAddr", addr(1)),
        ("minBrokerId", "1".to_owned()),
    ];
    assert_eq!(
        told(&mut world),
        [(addr(2), joined.clone()), (addr(3), joined)]
    );
    world.ask(&unregister("ba", 1, 1));
    let left = vec![
        ("offlineBrokerAddr", addr(1)),
        ("minBrokerAddr", addr(2)),
        ("minBrokerId", "2".to_owned()),
    ];
    assert_eq!(told(&mut world), [(addr(2), left.clone()), (addr(3), left)]);
    world.ask(&unregister("ba", 3, 3));
    assert_eq!(told(&mut world), []);
    // a group of one is told itself; the acting flag counts only at a loss
    world.ask(&register("bb", -1, 9, body(&["T1", "T2"])));
    assert_eq!(told(&mut world)[0].0, addr(9));
    world.ask(&register("bb", 1, 8, body(&["T1", "T2"])));
    world.ask(&unregister("bb", -1, 9));
    assert_eq!(told(&mut world), []);
}

#[test]
fn counter_and_timestamp_decide_no_conflict() {
    let mut world = pair();
    let older = RegisterSpec {
        data_version: Some(version(0)),
        ..body(&["T1", "T2"])
    };
    world.ask(&register("ba", 0, 3, older));
    assert!(
        world
            .info()
            .contains(r#"{0:"10.0.0.3:10911",1:"10.0.0.2:10911"}"#)
    );
}
