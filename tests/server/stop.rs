//! SIGTERM and SIGINT: everybody is told, nothing that was acknowledged is lost, and it is quick.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::harness::{PATIENCE, Server};
use crate::memory::{connect_with_small_buffer, register_large_route};
use crate::peer::{End, Peer};
use crate::requests::{Broker, accepted, get_kv, no_route, put_kv, route, value};
use crate::support::answer::Answer;

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};
/// A stop that waits for nobody takes half a second, on a machine that has time for it; one that
/// waits takes ten.
const QUICK: Duration = Duration::from_secs(5);

#[test]
fn idle_connections_see_the_end_and_the_status_is_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start();
        let mut peers: Vec<Peer> = (0..50).map(|_| server.connect()).collect();
        assert_eq!(peers[0].ask(&BROKER.register(1, &["t", "u"])), accepted());
        assert_eq!(peers[1].ask(&route("missing")), no_route("missing"));
        peers[2].send(&route("t").json_frame()[..20]);
        server.signal(signal);
        let status = server.wait_for_end(QUICK);
        assert_eq!(status.code(), Some(0), "{signal}");
        for peer in &mut peers {
            peer.is_closed_silently();
        }
        assert!(TcpStream::connect(server.address).is_err());
        assert_eq!(server.home.read("stderr"), "");
    }
}

#[test]
fn stop_right_after_the_boot_line_ends_with_0() {
    for _ in 0..5 {
        let mut server = Server::start();
        server.signal("TERM");
        assert_eq!(server.wait_for_end(QUICK).code(), Some(0));
    }
}

#[test]
fn requests_in_flight_are_answered_or_their_connection_is_closed() {
    let mut server = Server::start();
    let address = server.address;
    let (under_way, all) = std::sync::mpsc::channel();
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let under_way = under_way.clone();
            thread::spawn(move || {
                let (name, addr) = (format!("b{client}"), format!("10.0.0.{client}:10911"));
                let broker = Broker {
                    name: &name,
                    addr: &addr,
                };
                let mut peer = Peer::connect(address);
                for counter in 0.. {
                    let mut request = broker.register(counter, &["t", "u"]);
                    request.opaque = i32::try_from(counter).unwrap();
                    if std::io::Write::write_all(&mut peer.stream, &request.json_frame()).is_err() {
                        break;
                    }
                    match peer.answer_or_end() {
                        Some(answer) => assert_eq!(answer, (request.opaque, accepted())),
                        None => break,
                    }
                    if counter == 50 {
                        under_way.send(()).unwrap();
                    }
                }
                // Not a time-out: the connection has ended.
                assert_eq!(
                    peer.end(Duration::from_millis(100)),
                    (Vec::new(), End::Closed)
                );
            })
        })
        .collect();
    drop(under_way);
    assert_eq!(all.iter().take(clients.len()).count(), clients.len());
    server.signal("TERM");
    assert_eq!(server.wait_for_end(QUICK).code(), Some(0));
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
}

#[test]
fn puts_acknowledged_during_a_stop_are_kept() {
    let mut server = Server::start();
    let mut keys_with_puts = 0;
    for round in 0..5_u64 {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let mut peer = server.connect();
                thread::spawn(move || {
                    let key = format!("k{client}");
                    let mut acknowledged = 0;
                    for number in 1.. {
                        let mut request = put_kv("n", &key, &number.to_string());
                        request.opaque = number;
                        if std::io::Write::write_all(&mut peer.stream, &request.json_frame())
                            .is_err()
                        {
                            break;
                        }
                        match peer.answer_or_end() {
                            Some(answer) => assert_eq!(answer, (number, Answer::success())),
                            None => break,
                        }
                        acknowledged = number;
                    }
                    (key, acknowledged)
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(50 + 3 * round));
        server.signal("TERM");
        assert_eq!(server.wait_for_end(QUICK).code(), Some(0));
        let acknowledged: Vec<_> = clients.into_iter().map(|c| c.join().unwrap()).collect();
        server = Server::in_home(server.kill());
        let mut peer = server.connect();
        // On a busy machine a client may not get so far; its key then has an older value or none.
        for (key, number) in acknowledged.into_iter().filter(|(_, number)| *number > 0) {
            let kept = peer.ask(&get_kv("n", &key));
            let possible = [number, number + 1].map(|number| value(&number.to_string()));
            assert!(
                possible.contains(&kept),
                "{key}: {kept}, acknowledged {number}"
            );
            keys_with_puts += 1;
        }
    }
    assert!(keys_with_puts > 0);
}

#[test]
fn clients_that_keep_coming_do_not_hold_the_stop_up() {
    let mut server = Server::start();
    let (address, done) = (server.address, AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !done.load(Ordering::Relaxed) && kept.len() < 2000 {
                    kept.extend(TcpStream::connect(address));
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        thread::sleep(Duration::from_millis(200));
        server.signal("TERM");
        let start = Instant::now();
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            server.wait_for_end(PATIENCE)
        }));
        done.store(true, Ordering::Relaxed);
        assert_eq!(status.unwrap().code(), Some(0));
        assert!(start.elapsed() < QUICK, "{:?}", start.elapsed());
    });
}

/// A server that is told to stop while it waits for a reader that does not read.
fn held_up() -> (Server, Peer, Peer) {
    let server = Server::with(&[("serverSocketSndBufSize", "65536")]);
    let mut broker = server.connect();
    register_large_route(&mut broker, BROKER, 8 << 20);
    let mut reader = connect_with_small_buffer(&server);
    reader.send(&route("t").json_frame());
    thread::sleep(Duration::from_millis(300));
    server.signal("TERM");
    (server, broker, reader)
}

#[test]
fn reader_that_does_not_read_holds_the_stop_up_for_10_s_at_most() {
    let (mut server, _broker, _reader) = held_up();
    let start = Instant::now();
    assert_eq!(server.wait_for_end(PATIENCE).code(), Some(0));
    let took = start.elapsed();
    assert!(
        took > Duration::from_secs(9) && took < Duration::from_secs(20),
        "{took:?}"
    );
}

#[test]
fn reader_that_reads_gets_its_answer_during_the_stop() {
    let (mut server, _broker, mut reader) = held_up();
    SockRef::from(&reader.stream)
        .set_recv_buffer_size(4 << 20)
        .unwrap();
    let (_, answer) = reader.answer();
    assert_eq!(answer.code, 0);
    assert!(answer.body.unwrap().len() > 8 << 20);
    reader.is_closed_silently();
    assert_eq!(server.wait_for_end(QUICK).code(), Some(0));
}

#[test]
fn second_signal_ends_a_stop_that_waits() {
    for signal in ["TERM", "INT"] {
        let (mut server, _broker, _reader) = held_up();
        thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        server.signal(signal);
        server.wait_for_end(PATIENCE);
        assert!(start.elapsed() < QUICK, "{:?}", start.elapsed());
    }
}

#[test]
fn other_signals_change_nothing() {
    let server = Server::start();
    let mut peer = server.connect();
    server.signal("PIPE");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(peer.ask(&route("t")), no_route("t"));
}

/// A server that has been told to stop and goes on for five seconds more.
fn leaving() -> Server {
    let server = Server::with(&[
        ("enableShutdownGracefully", "true"),
        ("shutdownWaitTimeSeconds", "5"),
    ]);
    server.signal("TERM");
    server.wait_for_log(&["peers are told to go away"]);
    server
}

#[test]
fn graceful_stop_tells_newer_peers_to_go_away_and_serves_the_others() {
    let mut server = leaving();
    let start = Instant::now();
    let mut peer = server.connect();
    let go_away = Answer::failure(1500, "please go away");
    assert_eq!(peer.ask(&route("t")), go_away);
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), go_away);
    let mut old = route("t");
    old.version = 475;
    assert_eq!(peer.ask(&old), no_route("t"));
    assert_eq!(server.wait_for_end(PATIENCE).code(), Some(0));
    assert!(start.elapsed() > Duration::from_secs(4));
    peer.is_closed_silently();
}

#[test]
fn second_signal_ends_a_graceful_stop() {
    let mut server = leaving();
    let mut peer = server.connect();
    let start = Instant::now();
    server.signal("INT");
    assert_eq!(server.wait_for_end(PATIENCE).code(), Some(0));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    peer.is_closed_silently();
}
