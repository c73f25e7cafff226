//! Peers that are cut off for what they do not do, and those that must not be.

use std::io::{ErrorKind, Read as _, Write as _};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Server, wait_until};
use crate::memory::{connect_with_small_buffer, register_large_route};
use crate::peer::{End, Peer};
use crate::requests::{
    Broker, accepted, get_kv, no_route, oneway, put_kv, route, update_settings, value,
};
use crate::support::answer::Answer;

const IDLE_ONE_SECOND: (&str, &str) = ("serverChannelMaxIdleTimeSeconds", "1");
const IDLE: Duration = Duration::from_secs(1);
const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

#[test]
fn silent_peer_is_cut_after_the_idle_time() {
    let server = Server::with(&[IDLE_ONE_SECOND]);
    let start = Instant::now();
    let mut peer = server.connect();
    peer.is_closed_silently();
    assert!(start.elapsed() >= IDLE, "{:?}", start.elapsed());
    server.wait_for_log(&["connection closed", "why=\"idle\""]);
}

#[test]
fn peer_is_cut_after_the_idle_time_since_its_last_frame() {
    let server = Server::with(&[IDLE_ONE_SECOND]);
    let mut peer = server.connect();
    sleep(Duration::from_millis(500));
    let last = Instant::now();
    assert_eq!(peer.ask(&route("t")), no_route("t"));
    peer.is_closed_silently();
    assert!(last.elapsed() >= IDLE, "{:?}", last.elapsed());
}

#[test]
fn dripping_peer_is_cut_because_only_frames_count() {
    let server = Server::with(&[IDLE_ONE_SECOND]);
    let mut peer = server.connect();
    let start = Instant::now();
    let frame = route("t").json_frame();
    let cut = frame.iter().any(|byte| {
        sleep(Duration::from_millis(100));
        peer.stream.write_all(&[*byte]).is_err()
    });
    assert!(cut, "a frame dripped for {:?} was taken", start.elapsed());
    assert!(start.elapsed() >= IDLE, "{:?}", start.elapsed());
}

#[test]
fn oneway_heartbeats_and_foreign_answers_keep_a_connection() {
    let server = Server::with(&[("serverChannelMaxIdleTimeSeconds", "2")]);
    let mut broker = server.connect();
    let mut answering = server.connect();
    let heartbeat = oneway(BROKER.heartbeat()).json_frame();
    let header = br#"{"code":0,"flag":1,"opaque":5}"#;
    let foreign = crate::frames::raw_frame(0, header, b"");
    for _ in 0..20 {
        sleep(Duration::from_millis(250));
        broker.send(&heartbeat);
        answering.send(&foreign);
    }
    assert_eq!(broker.ask(&route("t")), no_route("t"));
    assert_eq!(answering.ask(&route("t")), no_route("t"));
}

#[test]
fn peer_is_not_cut_while_we_do_not_read() {
    let server = Server::with(&[IDLE_ONE_SECOND]);
    let mut peer = server.connect();
    assert_eq!(peer.ask(&put_kv("n", "a", "1")), Answer::success());
    // A disk that stands still: reading the old file waits until somebody writes into the pipe.
    let path = server.home.path("kv/kvConfig.json");
    let old = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    // The second put and what follows wait for the disk.
    peer.send(&put_kv("n", "b", "2").json_frame());
    let (answers, end) = peer.end(3 * IDLE);
    assert_eq!((answers, end), (Vec::new(), End::Open));
    std::fs::write(&path, old).unwrap();
    assert_eq!(peer.answer(), (1, Answer::success()));
    assert_eq!(peer.ask(&get_kv("n", "b")), value("2"));
    peer.is_closed_silently();
}

/// A server with a route of so many bytes that cuts whoever connects from now on after a second.
fn server_with_large_route(bytes: usize) -> (Server, Peer) {
    let server = Server::with(&[("serverSocketSndBufSize", "65536")]);
    let mut broker = server.connect();
    register_large_route(&mut broker, BROKER, bytes);
    let settings = update_settings("serverChannelMaxIdleTimeSeconds=1");
    assert_eq!(broker.ask(&settings), Answer::success());
    (server, broker)
}

#[test]
fn reader_that_does_not_read_is_cut_after_the_idle_time() {
    let (server, mut broker) = server_with_large_route(8 << 20);
    let mut reader = connect_with_small_buffer(&server);
    let start = Instant::now();
    reader.send(&route("t").json_frame());
    server.wait_for_log(&["connection closed", "why=\"idle\""]);
    assert!(start.elapsed() >= IDLE, "{:?}", start.elapsed());
    // What the kernel had taken comes; the rest does not.
    let (received, end) = drain(&mut reader);
    assert!(end && received < 8 << 20, "{received} bytes, ended: {end}");
    assert_eq!(broker.ask(&route("missing")), no_route("missing"));
}

#[test]
fn reader_that_reads_slowly_is_not_cut() {
    let (server, _broker) = server_with_large_route(2 << 20);
    let mut reader = connect_with_small_buffer(&server);
    reader.send(&route("t").json_frame());
    let mut received = 0;
    let mut buf = vec![0; 64 * 1024];
    for _ in 0..24 {
        sleep(Duration::from_millis(100));
        received += reader.stream.read(&mut buf).unwrap();
    }
    let (rest, _) = drain(&mut reader);
    assert!(received + rest > 2 << 20, "{received} + {rest}");
}

#[test]
fn idle_time_of_a_running_server_can_be_changed_for_new_connections() {
    let server = Server::start();
    let mut old = server.connect();
    let settings = update_settings("serverChannelMaxIdleTimeSeconds=1");
    assert_eq!(old.ask(&settings), Answer::success());
    let mut new = server.connect();
    new.is_closed_silently();
    assert_eq!(old.end(Duration::from_millis(500)), (Vec::new(), End::Open));
}

#[test]
fn large_frame_that_comes_too_slowly_is_cut() {
    // 10 s and 2 s per MiB; the idle time is far longer.
    let server = Server::start();
    let mut peer = server.connect();
    let frame = vec![b' '; 100 * 1024];
    let start = Instant::now();
    peer.send(
        &[
            &(frame.len() as u32).to_be_bytes()[..],
            &[0, 0, 0, 2],
            b"{}",
        ]
        .concat(),
    );
    let mut cut = false;
    while !cut && start.elapsed() < PATIENCE {
        cut = peer.stream.write_all(b" ").is_err();
        sleep(Duration::from_millis(200));
    }
    assert!(cut);
    assert!(
        start.elapsed() >= Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    server.wait_for_log(&["connection closed", "why=\"a large frame came too slowly\""]);
}

#[test]
fn broker_is_lost_with_the_idle_connection() {
    let server = Server::with(&[IDLE_ONE_SECOND]);
    let mut broker = server.connect();
    assert_eq!(broker.ask(&BROKER.register(1, &["t", "u"])), accepted());
    broker.is_closed_silently();
    let mut reader = server.connect();
    wait_until("the route is gone", PATIENCE, || {
        reader.ask(&route("t")) == no_route("t")
    });
}

/// Reads to the end; returns the number of bytes and whether there was an end.
fn drain(peer: &mut Peer) -> (usize, bool) {
    let mut buf = vec![0; 64 * 1024];
    let mut received = 0;
    peer.stream.set_read_timeout(Some(2 * IDLE)).unwrap();
    loop {
        match peer.stream.read(&mut buf) {
            Ok(0) => return (received, true),
            Ok(count) => received += count,
            Err(error) => {
                return (received, error.kind() == ErrorKind::ConnectionReset);
            }
        }
    }
}
