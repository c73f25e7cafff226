//! Brokers that are lost: their connection ends, or they fall silent.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Server, wait_until};
use crate::peer::{End, Peer};
use crate::requests::{Broker, CLUSTER_INFO, accepted, no_route, oneway, route, route_of};
use crate::support::answer::Answer;
use crate::support::request::Request;

const FIRST: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};
const SECOND: Broker<'_> = Broker {
    name: "bb",
    addr: "10.0.0.2:10911",
};
/// Far more than a closed connection takes to be noticed, far less than any time-out.
const AT_ONCE: Duration = Duration::from_secs(3);

fn empty_cluster() -> Answer {
    Answer::success().body("{\"brokerAddrTable\":{},\"clusterAddrTable\":{}}")
}

fn wait_for_no_route(peer: &mut Peer, topic: &str) {
    wait_until("the route is gone", AT_ONCE, || {
        peer.ask(&route(topic)) == no_route(topic)
    });
}

#[test]
fn routes_vanish_at_once_when_the_connection_closes() {
    let server = Server::start();
    let mut reader = server.connect();
    let mut broker = server.connect();
    assert_eq!(broker.ask(&FIRST.register(1, &["t", "u"])), accepted());
    assert_eq!(reader.ask(&route("t")), route_of(FIRST));
    drop(broker);
    wait_for_no_route(&mut reader, "t");
    assert_eq!(reader.ask(&route("u")), no_route("u"));
    assert_eq!(reader.ask(&Request::new(CLUSTER_INFO)), empty_cluster());
}

#[test]
fn routes_vanish_at_once_when_the_connection_is_reset() {
    let server = Server::start();
    let mut reader = server.connect();
    let mut broker = server.connect();
    assert_eq!(broker.ask(&FIRST.register(1, &["t", "u"])), accepted());
    broker.reset();
    wait_for_no_route(&mut reader, "t");
}

#[test]
fn all_brokers_of_a_closed_connection_vanish() {
    let server = Server::start();
    let mut reader = server.connect();
    let mut shared = server.connect();
    assert_eq!(shared.ask(&FIRST.register(1, &["t", "u"])), accepted());
    assert_eq!(shared.ask(&SECOND.register(1, &["v", "w"])), accepted());
    drop(shared);
    wait_for_no_route(&mut reader, "t");
    wait_for_no_route(&mut reader, "v");
    assert_eq!(reader.ask(&Request::new(CLUSTER_INFO)), empty_cluster());
}

#[test]
fn broker_that_moved_to_another_connection_survives_the_end_of_the_first() {
    let server = Server::start();
    let mut old = server.connect();
    let mut new = server.connect();
    for counter in 0..50 {
        assert_eq!(old.ask(&FIRST.register(counter, &["t", "u"])), accepted());
        assert_eq!(new.ask(&FIRST.register(counter, &["t", "u"])), accepted());
        drop(std::mem::replace(&mut old, server.connect()));
        assert_eq!(new.ask(&route("t")), route_of(FIRST));
    }
    sleep(Duration::from_millis(100));
    assert_eq!(new.ask(&route("t")), route_of(FIRST));
}

#[test]
fn registration_of_a_connection_that_ends_at_once_leaves_no_ghost() {
    let server = Server::start();
    let mut reader = server.connect();
    let frame = FIRST.register(1, &["t", "u"]).json_frame();
    // Whether FIN or a reset, and whether the answer can still be sent, changes from time to
    // time; a registration must be followed by its end each time.
    for i in 0..200 {
        let mut peer = server.connect();
        peer.send(&frame);
        if i % 2 == 0 {
            drop(peer);
        } else {
            peer.reset();
        }
    }
    wait_until("no ghost is left", AT_ONCE, || {
        reader.ask(&Request::new(CLUSTER_INFO)) == empty_cluster()
    });
    sleep(Duration::from_millis(300));
    assert_eq!(reader.ask(&Request::new(CLUSTER_INFO)), empty_cluster());
    assert_eq!(reader.ask(&route("t")), no_route("t"));
}

#[test]
fn ends_of_many_connections_pass_a_mailbox_with_one_place() {
    let server = Server::with(&[("defaultThreadPoolQueueCapacity", "1")]);
    let mut reader = server.connect();
    let mut brokers = Vec::new();
    for i in 0..200 {
        let (name, addr) = (format!("b{i}"), format!("10.0.0.1:{i}"));
        let broker = Broker {
            name: &name,
            addr: &addr,
        };
        let mut peer = server.connect();
        assert_eq!(peer.ask(&broker.register(1, &["t", "u"])), accepted());
        brokers.push(peer);
    }
    drop(brokers);
    // What finds no place is tried again at least four times a second.
    wait_until("all are gone", PATIENCE, || {
        reader.ask(&Request::new(CLUSTER_INFO)) == empty_cluster()
    });
}

#[test]
fn silent_broker_expires_with_its_connection() {
    let server = Server::with(&[("scanNotActiveBrokerInterval", "50")]);
    let mut reader = server.connect();
    let mut broker = server.connect();
    let register = FIRST
        .register(1, &["t", "u"])
        .with("heartbeatTimeoutMillis", "500");
    let start = Instant::now();
    assert_eq!(broker.ask(&register), accepted());
    assert_eq!(reader.ask(&route("t")), route_of(FIRST));
    broker.is_closed_silently();
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(reader.ask(&route("t")), no_route("t"));
    assert_eq!(reader.ask(&Request::new(CLUSTER_INFO)), empty_cluster());
}

#[test]
fn heartbeats_of_any_kind_keep_a_broker() {
    let server = Server::with(&[("scanNotActiveBrokerInterval", "50")]);
    let mut broker = server.connect();
    let mut other = server.connect();
    let register = FIRST
        .register(1, &["t", "u"])
        .with("heartbeatTimeoutMillis", "1500");
    assert_eq!(broker.ask(&register), accepted());
    // Longer than the time-out in each of the three ways.
    for i in 0..27 {
        sleep(Duration::from_millis(200));
        match i / 9 {
            0 => assert_eq!(broker.ask(&register), accepted()),
            1 => broker.send(&oneway(FIRST.heartbeat()).json_frame()),
            _ => assert_eq!(other.ask(&FIRST.heartbeat()), Answer::success()),
        }
    }
    assert_eq!(other.ask(&route("t")), route_of(FIRST));
    assert_eq!(broker.ask(&route("t")), route_of(FIRST));
}

#[test]
fn expiry_leaves_a_connection_on_which_another_broker_lives() {
    let server = Server::with(&[("scanNotActiveBrokerInterval", "50")]);
    let mut shared = server.connect();
    let short = FIRST
        .register(1, &["t", "u"])
        .with("heartbeatTimeoutMillis", "300");
    let longer = SECOND
        .register(1, &["v", "w"])
        .with("heartbeatTimeoutMillis", "2000");
    assert_eq!(shared.ask(&short), accepted());
    assert_eq!(shared.ask(&longer), accepted());
    wait_until("the first expires", PATIENCE, || {
        shared.ask(&route("t")) == no_route("t")
    });
    assert_eq!(shared.ask(&route("v")), route_of(SECOND));
    let (answers, end) = shared.end(Duration::from_millis(300));
    assert_eq!((answers, end), (Vec::new(), End::Open));
    // With the second one nothing is left on the connection.
    shared.is_closed_silently();
    assert_eq!(server.connect().ask(&route("v")), no_route("v"));
}
