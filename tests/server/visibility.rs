//! What was acknowledged is seen by everybody: on every connection, and so on every core.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::harness::Server;
use crate::peer::Peer;
use crate::requests::{Broker, accepted, get_kv, no_route, put_kv, route, route_of, value};
use crate::support::answer::Answer;
use crate::support::request::{Body, Request};

/// Enough connections that each core has several.
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 2000;

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

fn connections(server: &Server) -> Vec<Peer> {
    (0..CONNECTIONS).map(|_| server.connect()).collect()
}

#[test]
fn read_after_an_acknowledged_registration_sees_it_on_any_connection() {
    let server = Server::start();
    let mut peers = connections(&server);
    let mut broker = server.connect();
    assert_eq!(broker.ask(&BROKER.register(0, &["a", "b"])), accepted());
    for round in 0..ROUNDS {
        // The new topic takes the place of nothing: topics only come while the broker lives.
        let topic = format!("t{round}");
        let register = BROKER.register(round as i64 + 1, &["a", &topic]);
        assert_eq!(broker.ask(&register), accepted());
        let reader = &mut peers[round % CONNECTIONS];
        assert_eq!(
            reader.ask(&route(&topic)),
            route_of(BROKER),
            "round {round}"
        );
    }
}

#[test]
fn read_after_an_acknowledged_unregistration_sees_it_on_any_connection() {
    let server = Server::start();
    let mut peers = connections(&server);
    for round in 0..ROUNDS / 4 {
        let writer = &mut peers[round % CONNECTIONS];
        assert_eq!(writer.ask(&BROKER.register(1, &["t", "u"])), accepted());
        let other = &mut peers[(round * 7 + 3) % CONNECTIONS];
        assert_eq!(other.ask(&route("t")), route_of(BROKER), "round {round}");
        assert_eq!(other.ask(&BROKER.unregister()), Answer::success());
        let third = &mut peers[(round * 5 + 1) % CONNECTIONS];
        assert_eq!(third.ask(&route("t")), no_route("t"), "round {round}");
    }
}

#[test]
fn read_after_an_acknowledged_kv_put_sees_it_on_any_connection() {
    let server = Server::start();
    let mut peers = connections(&server);
    let mut writer = server.connect();
    for round in 0..50 {
        let text = round.to_string();
        assert_eq!(writer.ask(&put_kv("n", "k", &text)), Answer::success());
        let reader = &mut peers[round % CONNECTIONS];
        assert_eq!(reader.ask(&get_kv("n", "k")), value(&text));
    }
}

#[test]
fn read_after_a_change_of_write_permission_sees_it_on_any_connection() {
    let server = Server::start();
    let mut peers = connections(&server);
    let mut broker = server.connect();
    assert_eq!(broker.ask(&BROKER.register(1, &["t", "u"])), accepted());
    for round in 0..100 {
        let (code, count, perm) = match round % 2 {
            0 => (205, "wipeTopicCount", "\"perm\":4"),
            _ => (327, "addTopicCount", "\"perm\":6"),
        };
        let request = Request::new(code).with("brokerName", "ba");
        assert_eq!(broker.ask(&request), Answer::success().ext(&[(count, "2")]));
        let body = peers[round % CONNECTIONS].ask(&route("t")).body.unwrap();
        let text = String::from_utf8(body).unwrap();
        assert!(text.contains(perm), "round {round}: {text}");
    }
}

/// Queues of the topic as the route of `BROKER` shows them.
fn queues(answer: &Answer) -> i64 {
    let text = String::from_utf8_lossy(answer.body.as_deref().unwrap());
    let (_, rest) = text.split_once("\"readQueueNums\":").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

fn register_queues(counter: i64) -> Request {
    let mut request = BROKER.register(counter, &["t", "u"]);
    if let Body::Register(spec) = &mut request.body {
        spec.topics[0].read = i32::try_from(counter).unwrap();
    }
    request
}

#[test]
fn answers_under_a_writer_are_never_older_than_what_was_acknowledged() {
    let server = Server::start();
    let mut broker = server.connect();
    assert_eq!(broker.ask(&register_queues(1)), accepted());
    let (acknowledged, done) = (AtomicI64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut reader = server.connect();
                let mut newest = 0;
                while !done.load(Ordering::Relaxed) {
                    let least = acknowledged.load(Ordering::SeqCst).max(newest);
                    newest = queues(&reader.ask(&route("t")));
                    assert!(newest >= least, "{newest} after {least} was acknowledged");
                }
            });
        }
        // Other writers, whose changes are published together with those of the first.
        for other in 0..2 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let (name, addr) = (format!("o{other}"), format!("10.0.1.{other}:10911"));
                let broker = Broker {
                    name: &name,
                    addr: &addr,
                };
                let mut peer = server.connect();
                let mut counter = 0;
                while !done.load(Ordering::Relaxed) {
                    counter += 1;
                    assert_eq!(peer.ask(&broker.register(counter, &["x", "y"])), accepted());
                }
            });
        }
        for counter in 2..500 {
            let answer = broker.ask(&register_queues(counter));
            if answer != accepted() {
                done.store(true, Ordering::Relaxed);
                panic!("{answer}");
            }
            acknowledged.store(counter, Ordering::SeqCst);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Made in slices, and one for all who ask while the one before is being made.
#[test]
fn lists_that_many_ask_for_are_never_older_than_what_was_acknowledged() {
    let server = Server::start();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for code in [106, 106, 106, 206, 206, 206] {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut reader = server.connect();
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(reader.ask(&Request::new(code)).code, 0);
                }
            });
        }
        let (mut writer, mut reader) = (server.connect(), server.connect());
        for round in 0..300 {
            let (name, addr) = (format!("b-{round}-"), format!("10.0.0.1:{}", 1000 + round));
            let topic = format!("t-{round}-");
            let broker = Broker {
                name: &name,
                addr: &addr,
            };
            assert_eq!(writer.ask(&broker.register(1, &["t", &topic])), accepted());
            for (code, wanted) in [(106, &name), (206, &topic)] {
                let body = reader.ask(&Request::new(code)).body.unwrap();
                let text = String::from_utf8(body).unwrap();
                assert!(text.contains(wanted.as_str()), "{code} in round {round}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
