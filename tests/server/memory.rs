//! What peers can make the server keep: bounded, whatever they do, and at no cost to others.
//!
//! The kernel counts physical memory; what is asserted leaves room for an allocator's habits.

use std::io::Read;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::harness::{PATIENCE, Server, measured, wait_until};
use crate::peer::Peer;
use crate::requests::{Broker, CLUSTER_INFO, accepted, busy, no_route, route};
use crate::support::request::{Body, FilterSpec, Request};

/// A filter server's name, so long that few are needed.
const NAME_BYTES: usize = 1000;
const TOPICS_OF_16_MIB: usize = 7_500;

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

/// Registers a broker whose topic `t` has a route of a little more than `bytes`.
pub(crate) fn register_large_route(peer: &mut Peer, broker: Broker<'_>, bytes: usize) {
    assert_eq!(peer.ask(&with_filters(broker, 1, bytes, "f")), accepted());
}

/// A registration with filter servers of so many bytes: they are a part of the routes.
pub(crate) fn with_filters(
    broker: Broker<'_>,
    counter: i64,
    bytes: usize,
    letter: &str,
) -> Request {
    let mut request = broker.register(counter, &["t", "u"]);
    if let Body::Register(spec) = &mut request.body {
        let name = letter.repeat(NAME_BYTES / letter.len());
        spec.filters = FilterSpec::List(vec![name; bytes / NAME_BYTES + 1]);
    }
    request
}

/// The start of a frame for a body of so many bytes that is sent behind it.
fn frame_head(request: &Request, body_bytes: usize) -> Vec<u8> {
    let mut head = request.json_frame();
    let length = (head.len() - 4 + body_bytes) as u32;
    head[..4].copy_from_slice(&length.to_be_bytes());
    head
}

/// A client that takes few bytes which it has not read.
pub(crate) fn connect_with_small_buffer(server: &Server) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.address.into()).unwrap();
    Peer::from_stream(TcpStream::from(socket))
}

/// Does something while a well-behaved client reads: it must hardly notice.
///
/// A slow answer counts as far as the server's threads worked for others in the meantime. On a
/// machine that has more to do than this test, the rest is waiting for a CPU.
pub(crate) fn beside_a_reader(server: &Server, act: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let mut reader = server.connect();
    let slowest = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let (start, before) = (Instant::now(), server.thread_times());
                assert_eq!(reader.ask(&route("missing")), no_route("missing"));
                let took = start.elapsed();
                let worked = server
                    .thread_times()
                    .iter()
                    .filter_map(|(thread, time)| Some(*time - *before.get(thread)?))
                    .max();
                slowest = slowest.max(worked.unwrap_or_default().min(took));
                thread::sleep(Duration::from_millis(1));
            }
            slowest
        });
        // The reader must end also when an assertion fails.
        let acted = catch_unwind(AssertUnwindSafe(act));
        done.store(true, Ordering::Relaxed);
        acted.unwrap();
        reading.join().unwrap()
    });
    measured(&format!(
        "{} MiB at most, slowest read {slowest:?}",
        server.peak_mib()
    ));
    assert!(
        slowest < Duration::from_secs(1),
        "a read waited for {slowest:?} of other work"
    );
}

#[test]
fn hundred_registrations_of_16_mib_at_once_fit() {
    let server = Server::start();
    // All of the same topics: what is kept for good is small beside what passes through.
    let names: Vec<String> = (0..TOPICS_OF_16_MIB)
        .map(|i| format!("{i:01000}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let body = BROKER.register(1, &names).body_bytes();
    assert!((15 << 20..16 << 20).contains(&body.len()), "{}", body.len());
    let taken = AtomicUsize::new(0);
    beside_a_reader(&server, || {
        thread::scope(|scope| {
            for i in 0..100 {
                let (server, body, taken) = (&server, &body, &taken);
                scope.spawn(move || {
                    let (name, addr) = (format!("b{i}"), format!("10.0.0.1:{i}"));
                    let broker = Broker {
                        name: &name,
                        addr: &addr,
                    };
                    let head = frame_head(&broker.register_body(Body::None), body.len());
                    let mut peer = server.connect();
                    peer.stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
                    peer.stream.set_write_timeout(Some(2 * PATIENCE)).unwrap();
                    peer.send(&head);
                    peer.send(body);
                    let (_, answer) = peer.answer();
                    if answer != busy() {
                        assert_eq!(answer, accepted());
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    });
    // Those for which there is memory at once; how many more depends on the machine.
    let taken = taken.into_inner();
    measured(&format!(
        "{taken} of 100 registrations of 16 MiB were taken"
    ));
    assert!(taken >= 12, "{taken} of 100");
    assert!(server.peak_mib() < 800, "{} MiB", server.peak_mib());
}

#[test]
fn unread_answers_to_106_are_one_body_for_all() {
    let server = Server::with(&[("serverSocketSndBufSize", "65536")]);
    let mut broker = server.connect();
    let body_bytes = register_long_names(&mut broker, 1000);
    let clients = (700 << 20) / body_bytes;
    let before = server.resident_mib();
    let frames = Request::new(CLUSTER_INFO).json_frame().repeat(50);
    beside_a_reader(&server, || {
        let _peers = send_and_do_not_read(&server, clients, |_| frames.clone());
        thread::sleep(Duration::from_millis(600));
        // All together are far below what the process may keep.
        assert!(!server.log().contains("connection closed"));
        let grown = server.resident_mib().saturating_sub(before);
        assert!(
            grown < 100,
            "{grown} MiB for {clients} x {body_bytes} bytes"
        );
    });
}

#[test]
fn unread_routes_beyond_512_mib_cost_the_oldest_connections() {
    let server = Server::with(&[("serverSocketSndBufSize", "65536")]);
    let mut broker = server.connect();
    register_large_route(&mut broker, BROKER, 8 << 20);
    let frame = route("t").json_frame();
    let _peers = send_and_do_not_read(&server, 75, |_| frame.clone());
    server.wait_for_log(&["connection closed", "kept bytes longest"]);
    assert!(server.peak_mib() < 900, "{} MiB", server.peak_mib());
}

#[test]
fn unread_lists_beyond_512_mib_cost_the_oldest_connections() {
    let server = Server::with(&[("serverSocketSndBufSize", "65536")]);
    let mut broker = server.connect();
    let topics: Vec<String> = (0..4000).map(|i| format!("{i:01000}")).collect();
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    assert_eq!(broker.ask(&BROKER.register(1, &names)), accepted());
    // This answer is made anew for who asks after it was begun, so each waits for its first byte.
    let frame = Request::new(224).with("cluster", "c").json_frame();
    let ask = |_| {
        let mut peer = connect_with_small_buffer(&server);
        peer.send(&frame);
        peer.stream.read_exact(&mut [0]).unwrap();
        peer
    };
    let _peers: Vec<Peer> = (0..145).map(ask).collect();
    server.wait_for_log(&["connection closed", "kept bytes longest"]);
    assert!(server.peak_mib() < 800, "{} MiB", server.peak_mib());
}

/// So many clients that each send a frame and read nothing.
fn send_and_do_not_read(
    server: &Server,
    count: usize,
    mut frame: impl FnMut(usize) -> Vec<u8>,
) -> Vec<Peer> {
    let send = |i| {
        let frame = frame(i);
        let mut peer = connect_with_small_buffer(server);
        peer.send(&frame);
        thread::sleep(Duration::from_millis(5));
        peer
    };
    (0..count).map(send).collect()
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let server = Server::start();
    let mut keep = server.connect();
    come_and_go(&server, 400);
    // What is opened at the first use is open now.
    wait_until("descriptors are closed", PATIENCE, || {
        server.descriptors() < 100
    });
    let (descriptors, resident_mib) = (server.descriptors(), server.resident_mib());
    for _ in 0..24 {
        come_and_go(&server, 400);
        wait_until("descriptors are closed", PATIENCE, || {
            server.descriptors() <= descriptors
        });
    }
    let grown = server.resident_mib().saturating_sub(resident_mib);
    measured(&format!("{grown} MiB more after 10,000 connections"));
    assert!(grown < 16, "{grown} MiB more");
    assert_eq!(keep.ask(&route("t")), no_route("t"));
}

/// Connections in every state that a peer can leave one in.
fn come_and_go(server: &Server, count: usize) {
    let mut peers: Vec<Peer> = (0..count).map(|_| server.connect()).collect();
    for (i, peer) in peers.iter_mut().enumerate() {
        match i % 4 {
            0 => {}
            1 => assert_eq!(peer.ask(&route("t")), no_route("t")),
            2 => peer.send(&route("t").json_frame()),
            _ => peer.send(b"\0\0\0"),
        }
    }
    for (i, peer) in peers.into_iter().enumerate() {
        if i % 8 < 4 {
            drop(peer);
        } else {
            peer.reset();
        }
    }
}

#[test]
fn silent_connections_cost_little() {
    let server = Server::start();
    let warm: Vec<Peer> = (0..100).map(|_| server.connect()).collect();
    thread::sleep(Duration::from_millis(300));
    let before = server.resident_mib();
    let silent: Vec<Peer> = (0..800).map(|_| server.connect()).collect();
    let mut last = server.connect();
    assert_eq!(last.ask(&route("t")), no_route("t"));
    let grown = server.resident_mib().saturating_sub(before);
    measured(&format!(
        "{grown} MiB for {} silent connections",
        silent.len()
    ));
    // Without optimization a task is larger than in a release.
    assert!(grown <= 16, "{grown} MiB for {} connections", silent.len());
    drop(warm);
}

/// Registers brokers whose names are long; returns how long the answer to 106 is now.
fn register_long_names(peer: &mut Peer, count: usize) -> usize {
    for i in 0..count {
        let name = format!("{i:01000}");
        let addr = format!("10.0.0.1:{i}");
        let broker = Broker {
            name: &name,
            addr: &addr,
        };
        assert_eq!(peer.ask(&broker.register(1, &[])), accepted());
    }
    let answer = peer.ask(&Request::new(CLUSTER_INFO));
    answer.body.unwrap().len()
}
