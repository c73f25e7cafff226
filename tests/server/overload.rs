//! More than the server takes at once: it says so, and everything else goes on.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Server, wait_until};
use crate::peer::{End, Peer};
use crate::requests::{
    Broker, accepted, busy, get_kv, no_route, oneway, put_kv, route, route_of, value,
};
use crate::support::answer::Answer;
use crate::support::request::{Body, Request};

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};
const FRAME_BYTES: usize = 16 << 20;
/// 256 MiB of memory for large frames, of which 64 MiB are kept for modest ones.
const HOLDERS: usize = 12;

/// A disk that stands still: the old KV file is a pipe that nobody writes into.
struct StuckDisk {
    path: PathBuf,
    content: Vec<u8>,
}

impl StuckDisk {
    /// Puts one value, so that there is a file, and replaces it.
    fn new(server: &Server) -> Self {
        assert_eq!(
            server.connect().ask(&put_kv("n", "old", "1")),
            Answer::success()
        );
        let path = server.home.path("kv/kvConfig.json");
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        Self { path, content }
    }

    /// Lets the write that waits go on.
    fn release(self) {
        fs::write(self.path, self.content).unwrap();
    }
}

fn is_silent(peer: &mut Peer) {
    let (answers, end) = peer.end(Duration::from_millis(100));
    assert_eq!((answers, end), (Vec::new(), End::Open));
}

#[test]
fn full_queue_is_answered_and_reads_go_on() {
    let server = Server::with(&[
        ("defaultThreadPoolQueueCapacity", "1"),
        ("namesrv.cores", "1"),
    ]);
    let disk = StuckDisk::new(&server);
    let mut waiting = server.connect();
    // It holds the only place until it is written.
    waiting.send(&put_kv("n", "k", "v").json_frame());
    is_silent(&mut waiting);
    let mut peer = server.connect();
    for request in [
        BROKER.register(1, &["t", "u"]),
        BROKER.unregister(),
        put_kv("n", "k", "other"),
        Request::new(205).with("brokerName", "ba"),
    ] {
        assert_eq!(peer.ask(&request), busy());
        peer.send(&oneway(request).json_frame());
    }
    is_silent(&mut peer);
    assert_eq!(peer.ask(&route("t")), no_route("t"));
    assert_eq!(peer.ask(&get_kv("n", "old")), value("1"));
    disk.release();
    assert_eq!(waiting.answer(), (1, Answer::success()));
    assert_eq!(peer.ask(&get_kv("n", "k")), value("v"));
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    assert_eq!(peer.ask(&route("t")), route_of(BROKER));
}

#[test]
fn disk_that_stands_still_delays_only_what_it_must_hold() {
    let server = Server::start();
    let disk = StuckDisk::new(&server);
    let mut waiting: Vec<Peer> = (0..4).map(|_| server.connect()).collect();
    for (i, peer) in waiting.iter_mut().enumerate() {
        peer.send(&put_kv("n", &format!("k{i}"), "v").json_frame());
    }
    let mut peer = server.connect();
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    assert_eq!(server.connect().ask(&route("t")), route_of(BROKER));
    // Not written, so not there, for nobody.
    assert_eq!(peer.ask(&get_kv("n", "k0")).code, 22);
    waiting.iter_mut().for_each(is_silent);
    disk.release();
    for (i, waiting) in waiting.iter_mut().enumerate() {
        assert_eq!(waiting.answer(), (1, Answer::success()));
        assert_eq!(peer.ask(&get_kv("n", &format!("k{i}"))), value("v"));
    }
}

#[test]
fn frames_behind_a_kv_put_wait_for_it_whatever_came_before() {
    let server = Server::start();
    let disk = StuckDisk::new(&server);
    let mut peer = server.connect();
    // The registration is answered while the put still waits for the disk.
    let requests = [
        BROKER.register(1, &["t", "u"]),
        put_kv("n", "k", "v"),
        get_kv("n", "k"),
    ];
    let frames: Vec<u8> = (1..)
        .zip(requests)
        .flat_map(|(opaque, mut request)| {
            request.opaque = opaque;
            request.json_frame()
        })
        .collect();
    peer.send(&frames);
    assert_eq!(peer.answer(), (1, accepted()));
    is_silent(&mut peer);
    disk.release();
    assert_eq!(peer.answer(), (2, Answer::success()));
    assert_eq!(peer.answer(), (3, value("v")));
}

/// A request with a body of blanks that fills the frame.
fn filled(mut request: Request, frame_bytes: usize) -> Vec<u8> {
    let empty = request.json_frame().len();
    request.body = Body::Raw(vec![b' '; frame_bytes - empty]);
    request.json_frame()
}

/// Connections that have announced frames of 16 MiB and send them no further.
fn holders(server: &Server) -> Vec<Peer> {
    let frame = filled(route("t"), FRAME_BYTES);
    let holders = (0..HOLDERS).map(|_| {
        let mut peer = server.connect();
        peer.send(&frame[..1000]);
        peer
    });
    holders.collect()
}

#[test]
fn large_frame_without_memory_is_answered_code_2_after_2_s() {
    let server = Server::start();
    let holders = holders(&server);
    let mut peer = server.connect();
    // Until every holder's announcement has been read this one could be first.
    std::thread::sleep(Duration::from_millis(300));
    let mut request = route("t");
    request.opaque = 5;
    let start = Instant::now();
    peer.send(&filled(request, FRAME_BYTES));
    assert_eq!(peer.answer(), (5, busy()));
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    // It was read to its end: what is behind it is understood.
    assert_eq!(peer.ask(&BROKER.heartbeat()), Answer::success());
    peer.send(&filled(oneway(route("t")), FRAME_BYTES));
    assert_eq!(peer.ask(&BROKER.heartbeat()), Answer::success());
    // Smaller ones have memory of their own.
    let start = Instant::now();
    let mut request = route("t");
    request.opaque = 6;
    peer.send(&filled(request, 1 << 20));
    assert_eq!(peer.answer(), (6, no_route("t")));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    drop(holders);
}

#[test]
fn large_frame_that_waits_is_read_once_memory_is_free() {
    let server = Server::start();
    let mut holders = holders(&server);
    let mut waiting = server.connect();
    std::thread::sleep(Duration::from_millis(300));
    let frame = filled(route("t"), FRAME_BYTES);
    let address = server.address;
    let waiter = std::thread::spawn(move || {
        waiting.send(&frame);
        waiting.answer()
    });
    std::thread::sleep(Duration::from_millis(500));
    holders.pop();
    assert_eq!(waiter.join().unwrap(), (1, no_route("t")));
    // All memory comes back in the end, by whatever way its holders go.
    drop(holders);
    for _ in 0..2 * HOLDERS {
        let mut peer = Peer::connect(address);
        peer.send(&filled(route("t"), FRAME_BYTES));
        assert_eq!(peer.answer(), (1, no_route("t")));
    }
}

#[test]
fn largest_frame_that_settings_allow_is_served() {
    const LARGEST: usize = 192 << 20;
    let largest = LARGEST.to_string();
    let settings = [("com.rocketmq.remoting.frameMaxLength", largest.as_str())];
    let server = Server::with(&settings);
    let mut peer = server.connect();
    peer.stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
    peer.stream.set_write_timeout(Some(2 * PATIENCE)).unwrap();
    for _ in 0..2 {
        peer.send(&filled(route("t"), LARGEST));
        assert_eq!(peer.answer(), (1, no_route("t")));
    }
    peer.send(&(LARGEST as u32 - 3).to_be_bytes());
    peer.is_closed_silently();
    // What could never be granted its memory cannot be asked for.
    let home = crate::harness::Home::new();
    let more = (LARGEST + 1).to_string();
    let file = home.write_settings(&[("com.rocketmq.remoting.frameMaxLength", &more)]);
    let ended = home.run(&["-c", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(255));
    let range = format!("must be a whole number from 4096 to {LARGEST}");
    assert!(ended.stderr.contains(&range), "{}", ended.stderr);
}

#[test]
fn connections_beyond_the_descriptors_are_refused_and_counted_out() {
    let home = crate::harness::Home::new();
    home.write_settings(&[]);
    let server = Server::in_shell(home, "ulimit -n 600; exec \"$0\" \"$@\"");
    // 256 of the descriptors are for other things.
    let most = 600 - 256;
    let mut peers: Vec<Peer> = (0..most).map(|_| server.connect()).collect();
    for peer in &mut peers {
        assert_eq!(peer.ask(&route("t")), no_route("t"));
    }
    for _ in 0..20 {
        server.connect().is_closed_silently();
    }
    peers.truncate(most - 10);
    wait_until("places are free", PATIENCE, || {
        server.descriptors() < most + 20
    });
    for _ in 0..10 {
        let mut peer = server.connect();
        assert_eq!(peer.ask(&route("t")), no_route("t"));
        peers.push(peer);
    }
    assert_eq!(peers[0].ask(&route("t")), no_route("t"));
}
