//! Right answers pass, and each kind of damage is found and named.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};

use super::*;
use crate::config::{Config, RunArgs};
use crate::topology::{broker_addr, cluster_name, group_name};

const QUIET: Times = Times {
    sent: 1000,
    now: 1100,
};

fn truth<'a>(topology: &'a Topology, board: &'a Board, times: Times) -> Truth<'a> {
    Truth {
        topology,
        board,
        times,
    }
}

/// Eight brokers in four groups, all up since 500.
fn cluster() -> (Topology, Board) {
    let args = RunArgs {
        brokers: Some(8),
        topics: Some(20),
        ..RunArgs::default()
    };
    let topology = Topology::new(&Config::resolve(&args, 2));
    let board = Board::new(&topology);
    for broker in 0..8 {
        board.coming(broker, 400);
        board.came(broker, 500);
    }
    (topology, board)
}

fn broker_data(topology: &Topology, group: u32) -> Value {
    let addrs: serde_json::Map<String, Value> = topology
        .members(group)
        .map(|b| (topology.broker_id(b).to_string(), json!(broker_addr(b))))
        .collect();
    json!({
        "brokerAddrs": addrs, "brokerName": group_name(group),
        "cluster": cluster_name(topology.cluster(group)), "enableActingMaster": false,
    })
}

fn route_body(topology: &Topology, topic: u32) -> Value {
    let groups = topology.groups_of(topic);
    let shape = topology.shape(topic);
    let brokers: Vec<Value> = groups.iter().map(|g| broker_data(topology, *g)).collect();
    let queues: Vec<Value> = groups
        .iter()
        .map(|group| {
            json!({
                "brokerName": group_name(*group), "perm": shape.perm, "readQueueNums": shape.queues,
                "topicSysFlag": 0, "writeQueueNums": shape.queues,
            })
        })
        .collect();
    json!({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues})
}

fn cluster_body(topology: &Topology) -> Value {
    let brokers: serde_json::Map<String, Value> = (0..topology.groups)
        .map(|group| (group_name(group), broker_data(topology, group)))
        .collect();
    let names: Vec<String> = (0..topology.groups).map(group_name).collect();
    json!({"brokerAddrTable": brokers, "clusterAddrTable": {"cluster-0": names}})
}

fn other(body: &Value) -> Body {
    Body::Other(body.to_string().into_bytes())
}

fn judge(
    cluster: &(Topology, Board),
    topic: u32,
    code: i32,
    body: &Value,
) -> Result<Checked, Fault> {
    let (topology, board) = cluster;
    Checker::new(1000)
        .route(
            truth(topology, board, QUIET),
            topic,
            code,
            other(body),
            || QUIET.now,
        )
        .map_err(|finding| finding.fault)
}

fn judge_cluster(cluster: &(Topology, Board), body: &Value) -> Result<Shown, Fault> {
    let (topology, board) = cluster;
    let checked =
        Checker::new(1000).cluster(truth(topology, board, QUIET), 0, other(body), true, || 0);
    checked
        .map(|(_, shown)| shown.unwrap())
        .map_err(|finding| finding.fault)
}

#[test]
fn a_right_route_is_right_in_any_order() {
    let cluster = cluster();
    let mut body = route_body(&cluster.0, 0);
    assert_eq!(judge(&cluster, 0, 0, &body), Ok(Checked::InFull));
    body["brokerDatas"].as_array_mut().unwrap().reverse();
    assert_eq!(judge(&cluster, 0, 0, &body), Ok(Checked::InFull));
    let bare = body
        .to_string()
        .replace("\"0\":", "0:")
        .replace("\"1\":", "1:");
    let (topology, board) = &cluster;
    let body = Body::Other(bare.into_bytes());
    let checked = Checker::new(1000).route(truth(topology, board, QUIET), 0, 0, body, || 0);
    assert_eq!(checked, Ok(Checked::InFull));
}

#[test]
fn every_change_of_a_route_is_found_and_named() {
    let cluster = cluster();
    let right = route_body(&cluster.0, 0);
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut body = right.clone();
        edit(&mut body);
        judge(&cluster, 0, 0, &body)
    };
    let broker = |index: usize| format!("/brokerDatas/{index}");
    let put = |pointer: &str, value: Value| {
        change(&|body| *body.pointer_mut(pointer).unwrap() = value.clone())
    };
    for (pointer, value) in [
        (broker(0) + "/brokerAddrs/0", json!("10.0.0.9:10911")),
        (broker(0) + "/brokerAddrs/0", json!("10.0.0.2:10911")),
        (broker(0) + "/brokerAddrs/1", json!("10.0.0.0:10911")),
        (broker(1) + "/cluster", json!("cluster-1")),
        (broker(1) + "/brokerName", json!("broker-00003")),
        (broker(1) + "/enableActingMaster", json!(true)),
        ("/queueDatas/0/perm".to_owned(), json!(4)),
        ("/queueDatas/0/readQueueNums".to_owned(), json!(9)),
        ("/queueDatas/0/topicSysFlag".to_owned(), json!(1)),
        ("/queueDatas/0/brokerName".to_owned(), json!("broker-00001")),
        (
            "/filterServerTable".to_owned(),
            json!({"10.0.0.0:10911": []}),
        ),
    ] {
        assert_eq!(put(&pointer, value), Err(Fault::Wrong), "{pointer}");
    }
    assert_eq!(put("/brokerDatas", json!([])), Err(Fault::Wrong));
    assert_eq!(put("/queueDatas/0/perm", json!("x")), Err(Fault::Garbled));
    let lose_member = |body: &mut Value| {
        body["brokerDatas"][2]["brokerAddrs"]
            .as_object_mut()
            .unwrap()
            .remove("1");
    };
    assert_eq!(change(&lose_member), Err(Fault::Lost));
    let lose_group = |body: &mut Value| {
        body["brokerDatas"].as_array_mut().unwrap().remove(3);
        body["queueDatas"].as_array_mut().unwrap().remove(3);
    };
    assert_eq!(change(&lose_group), Err(Fault::Lost));
    let double = |body: &mut Value| {
        for key in ["brokerDatas", "queueDatas"] {
            let list = body[key].as_array_mut().unwrap();
            list.push(list[0].clone());
        }
    };
    assert_eq!(change(&double), Err(Fault::Wrong));
}

#[test]
fn the_route_of_another_topic_is_wrong() {
    let cluster = cluster();
    let (own, foreign) = (cluster.0.member_topic(0), cluster.0.member_topic(1));
    let body = route_body(&cluster.0, foreign);
    assert_eq!(judge(&cluster, own, 0, &body), Err(Fault::Wrong));
}

#[test]
fn codes_are_judged_by_what_must_be_there() {
    let cluster = cluster();
    let none = json!(null);
    assert_eq!(judge(&cluster, 0, 17, &none), Err(Fault::Lost));
    assert_eq!(judge(&cluster, 0, 1, &none), Err(Fault::Refused));
    assert_eq!(judge(&cluster, 0, 2, &none), Err(Fault::Overloaded));
    let own = cluster.0.member_topic(1);
    for broker in cluster.0.members(1) {
        cluster.1.leaving(broker, 600);
        cluster.1.left(broker, 700);
    }
    assert_eq!(judge(&cluster, own, 17, &none), Ok(Checked::InFull));
    let body = route_body(&cluster.0, own);
    assert_eq!(judge(&cluster, own, 0, &body), Err(Fault::Ghost));
    let mut checker = Checker::new(1000);
    assert_eq!(checker.no_route(17), Ok(Checked::InFull));
    assert_eq!(checker.no_route(0).unwrap_err().fault, Fault::Wrong);
}

#[test]
fn a_replaced_value_is_stale_and_an_invented_one_wrong() {
    let cluster = cluster();
    let (topology, board) = &cluster;
    let group = 2;
    let topic = topology.hot_topics(group).next().unwrap();
    for _ in 0..2 {
        let version = board.changing(topology.members(group).start, group, 0);
        board.changed(topology.members(group).start, group, 0, version, 600);
    }
    let place = topology.groups_of(topic).binary_search(&group).unwrap();
    let with_queues = |more: i32| {
        let mut body = route_body(topology, topic);
        for key in ["readQueueNums", "writeQueueNums"] {
            body["queueDatas"][place][key] = json!(topology.shape(topic).queues + more);
        }
        judge(&cluster, topic, 0, &body)
    };
    assert_eq!(with_queues(2), Ok(Checked::InFull));
    assert_eq!(with_queues(1), Err(Fault::Stale));
    assert_eq!(with_queues(0), Err(Fault::Stale));
    assert_eq!(with_queues(3), Err(Fault::Wrong));
}

#[test]
fn cluster_info_is_judged_as_strictly() {
    let cluster = cluster();
    let right = cluster_body(&cluster.0);
    let shown = judge_cluster(&cluster, &right).unwrap();
    assert!((0..8).all(|broker| shown.has(&cluster.0, broker)));
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut body = right.clone();
        edit(&mut body);
        judge_cluster(&cluster, &body).map(drop)
    };
    let lose = |body: &mut Value| {
        body["brokerAddrTable"]
            .as_object_mut()
            .unwrap()
            .remove("broker-00002");
    };
    assert_eq!(change(&lose), Err(Fault::Lost));
    let unlist = |body: &mut Value| {
        body["clusterAddrTable"]["cluster-0"]
            .as_array_mut()
            .unwrap()
            .pop();
    };
    assert_eq!(change(&unlist), Err(Fault::Wrong));
    let stranger = |body: &mut Value| {
        body["clusterAddrTable"]["cluster-0"]
            .as_array_mut()
            .unwrap()
            .push(json!("x"));
    };
    assert_eq!(change(&stranger), Err(Fault::Wrong));
    cluster.1.leaving(5, 600);
    assert!(
        judge_cluster(&cluster, &right).is_ok(),
        "it may still be there"
    );
    cluster.1.left(5, 700);
    assert_eq!(judge_cluster(&cluster, &right).map(drop), Err(Fault::Ghost));
}

#[test]
fn an_equal_body_is_read_once_for_each_state() {
    let cluster = cluster();
    let (topology, board) = &cluster;
    let mut checker = Checker::new(1000);
    let body = route_body(topology, 0);
    let mut judge = || {
        checker.route(truth(topology, board, QUIET), 0, 0, other(&body), || {
            QUIET.now
        })
    };
    assert_eq!(judge(), Ok(Checked::InFull));
    assert_eq!(judge(), Ok(Checked::Equal));
    board.leaving(6, 900);
    assert_eq!(judge(), Ok(Checked::InFull));
    assert_eq!(
        judge(),
        Ok(Checked::InFull),
        "nothing is certain while it leaves"
    );
    board.left(6, 950);
    assert_eq!(
        judge().unwrap_err().fault,
        Fault::Ghost,
        "an equal body in another state"
    );
}

#[test]
fn what_is_over_the_share_is_counted_as_unread() {
    let cluster = cluster();
    let (topology, board) = &cluster;
    let mut checker = Checker::new(100);
    let body = route_body(topology, 0);
    let mut judge = |now, took| {
        board.leaving(0, now);
        board.coming(0, now);
        let times = Times { sent: now, now };
        checker.route(truth(topology, board, times), 0, 0, other(&body), || {
            now + took
        })
    };
    let second = 1_000_000_000;
    assert_eq!(judge(second, second / 10), Ok(Checked::InFull));
    assert_eq!(judge(second + 1, 1), Ok(Checked::Unread));
    assert_eq!(judge(2 * second + 1, 1), Ok(Checked::InFull));
}
