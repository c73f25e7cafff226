//! Operating it.

use std::collections::BTreeSet;

use namesrv::session::Next;
use serde_json::Value;

use super::world::{Hand, World, change, one, register, route, set, unregister};
use crate::support::answer::Answer;
use crate::support::request::{FilterSpec, Request};

#[test]
fn f76_an_unknown_cluster_is_empty() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let topics = |cluster| Request::new(224).with("cluster", cluster);
    assert_eq!(world.text(&topics("c1")), r#"{"topicList":["t1","t2"]}"#);
    let empty = Answer::success().body(r#"{"topicList":[]}"#);
    assert_eq!(world.ask(&topics("nope")), empty);
}

#[test]
fn f77_a_zone_sees_its_brokers_and_groups_without_a_master() {
    let mut world = World::new(&[]);
    for (name, id, n, zone) in [
        ("b-1", 0, 1, "Z1"),
        ("b-2", 0, 2, "z2"),
        ("b-3", 1, 3, "z2"),
    ] {
        let request = change(register(name, id, n, &["t1", "t2"]), |spec| {
            spec.filters = FilterSpec::List(vec![format!("f-{n}")]);
        });
        world.join(&request.with("__ZONE_NAME", zone));
    }
    let mut groups = |request: &Request| -> (Vec<String>, Vec<String>, Vec<String>) {
        let route: Value = serde_json::from_str(&world.text(request)).unwrap();
        let names = |key: &str| {
            let list = route[key].as_array().unwrap().iter();
            list.map(|item| item["brokerName"].as_str().unwrap().to_owned())
                .collect()
        };
        let servers = route["filterServerTable"].as_object().unwrap();
        (
            names("brokerDatas"),
            names("queueDatas"),
            servers.keys().cloned().collect(),
        )
    };
    let all = ["b-1", "b-2", "b-3"].map(str::to_owned).to_vec();
    assert_eq!(groups(&route("t1")).0, all);
    let zone = |mode, name| {
        route("t1")
            .with("__ZONE_MODE", mode)
            .with("__ZONE_NAME", name)
    };
    assert_eq!(groups(&zone("false", "z1")).0, all);
    let near = groups(&zone("true", "z1"));
    assert_eq!(near.0, ["b-1", "b-3"]);
    assert_eq!(near.1, ["b-1", "b-3"]);
    assert_eq!(near.2, ["10.0.0.1:10911", "10.0.0.3:10911"]);
    assert_eq!(groups(&zone("true", "Z2")).0, ["b-2", "b-3"]);
    assert_eq!(groups(&zone("true", "z9")).0, ["b-3"]);
}

#[test]
fn f79_not_ready_and_not_there_are_told_apart() {
    let mut world = World::new(&[("needWaitForService", "true")]);
    let waits = Answer::failure(1, "name server not ready");
    assert_eq!(world.ask(&route("t1")), waits);
    world.now = 45_000;
    let miss = "No topic route info in name server for the topic: t1\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!(world.ask(&route("t1")), Answer::failure(17, miss));
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    assert_eq!(world.ask(&route("t1")).code, 0);
}

#[test]
fn f81_cluster_info_is_of_one_moment() {
    let mut world = World::new(&[]);
    for n in 0..100 {
        world.join(&register(&format!("b-{n}"), 0, n, &["t1", "t2"]));
    }
    let snapshot = world.node.snapshot().clone();
    let mut hand = Hand::new();
    let fed = hand.feed(&snapshot, &Request::new(106).json_frame());
    let Next::Run(job) = fed.next else {
        panic!("{fed:?}");
    };
    // while the answer is made, half of the brokers leave and others come
    for n in 0..50 {
        world.join(&unregister(&format!("b-{n}"), 0, n));
        let other = register(&format!("c-{n}"), 0, 500 + n, &["t1", "t2"]);
        world.join(&set(other, "clusterName", Some("c2")));
        check_cluster_info(
            &world.text(&Request::new(106).with("acceptStandardJsonOnly", "true")),
            100,
        );
    }
    let now = world.node.snapshot().clone();
    hand.run(&now, job);
    let answer = one(&hand.sent());
    let body = String::from_utf8(answer.body.unwrap()).unwrap();
    assert_eq!(answer.code, 0);
    assert!(body.contains("\"b-0\"") && !body.contains("\"c-0\""));
    check_cluster_info(&body.replace("{0:", "{\"0\":"), 100);
}

/// Every name of a cluster has its group and the other way round.
fn check_cluster_info(body: &str, groups: usize) {
    let info: Value = serde_json::from_str(body).unwrap();
    let table = info["brokerAddrTable"].as_object().unwrap();
    let clusters = info["clusterAddrTable"].as_object().unwrap();
    let named: BTreeSet<&str> = clusters
        .values()
        .flat_map(|names| names.as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    let known: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    assert_eq!(named, known);
    assert_eq!(known.len(), groups);
}
