//! Floods: many peers that each do something cheap for themselves and dear for the server. The
//! memory stays below a bound, and a client that behaves well is answered all the time.

use std::io::Write as _;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use crate::harness::{PATIENCE, Server, measured, wait_until};
use crate::large::compressed;
use crate::memory::{beside_a_reader, connect_with_small_buffer};
use crate::peer::Peer;
use crate::requests::{Broker, no_route, route};
use crate::support::request::{Body, Request};

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

/// What the server has without any peer, with room for what an allocator keeps.
const IDLE_MIB: u64 = 64;

/// Sends as much as the server takes within a moment.
fn send_what_fits(peer: &mut Peer, bytes: &[u8]) {
    let moment = Some(Duration::from_millis(20));
    peer.stream.set_write_timeout(moment).unwrap();
    let mut rest = bytes;
    while let Ok(sent @ 1..) = peer.stream.write(rest) {
        rest = &rest[sent..];
    }
}

#[test]
fn requests_whose_answers_nobody_reads() {
    let server = Server::start();
    let frames = route("missing").json_frame().repeat(2_000);
    beside_a_reader(&server, || {
        let mut peers: Vec<Peer> = (0..100)
            .map(|_| connect_with_small_buffer(&server))
            .collect();
        peers
            .iter_mut()
            .for_each(|peer| send_what_fits(peer, &frames));
        thread::sleep(Duration::from_millis(500));
    });
    // 200,000 requests; each peer costs what stops its reading, twice for what a buffer grows by.
    let bound = IDLE_MIB + 100;
    assert!(server.peak_mib() < bound, "{} MiB", server.peak_mib());
}

#[test]
fn half_frames() {
    // Each a little less than what needs a permit; together more than 512 MiB.
    const BYTES: usize = 64_000;
    const PEERS: usize = 8_700;
    const TOO_MANY: usize = (PEERS * BYTES - (512 << 20)).div_ceil(BYTES);
    let (soft, _) = namesrv::rt::raise_descriptor_limit(20_000).unwrap();
    if soft < PEERS as u64 + 1_000 {
        return crate::harness::skipped("too few descriptors for half frames");
    }
    let server = Server::start();
    let frame = BROKER
        .register_body(Body::Raw(vec![b' '; BYTES]))
        .json_frame();
    let mut peers = Vec::new();
    let closed = || server.log().matches("kept bytes longest").count();
    beside_a_reader(&server, || {
        for _ in 0..PEERS {
            let mut peer = server.connect();
            peer.send(&frame[..BYTES]);
            peers.push(peer);
        }
        wait_until("the oldest are closed", PATIENCE, || closed() >= TOO_MANY);
        // The sweepers look again, several times.
        thread::sleep(Duration::from_secs(1));
    });
    let closed = closed();
    measured(&format!("{closed} of {PEERS} peers were closed"));
    // No more than is necessary, however many cores there are.
    assert!(closed < TOO_MANY + 20, "{closed} instead of {TOO_MANY}");
    assert!(
        server.peak_mib() < 512 + IDLE_MIB + 100,
        "{} MiB",
        server.peak_mib()
    );
    drop(peers);
    wait_until("all are gone", 2 * PATIENCE, || server.descriptors() < 100);
    assert_eq!(server.connect().ask(&route("t")), no_route("t"));
}

#[test]
fn inflation_bombs() {
    // 70 MB when inflated.
    let request = compressed(700);
    let server = Server::start();
    beside_a_reader(&server, || {
        let mut peers: Vec<Peer> = (0..6).map(|_| server.connect()).collect();
        let frame = request.json_frame();
        peers.iter_mut().for_each(|peer| peer.send(&frame));
        for peer in &mut peers {
            // Without optimization each takes seconds.
            let patience = Some(4 * PATIENCE);
            peer.stream.set_read_timeout(patience).unwrap();
            let remark = format!("{:?}", peer.answer().1.remark);
            assert!(remark.contains("bytes inflated"), "{remark}");
        }
    });
    // One at a time on each core, of 64 MiB at most, while a buffer grows by copying.
    let cores = thread::available_parallelism().unwrap().get() as u64;
    let bound = IDLE_MIB + 3 * 64 * cores;
    assert!(server.peak_mib() < bound, "{} MiB", server.peak_mib());
}

#[test]
fn giant_headers() {
    let server = Server::start();
    let mut request = Request::new(105).with("topic", "t");
    request.ext.push(("x".to_owned(), "y".repeat(1_000_000)));
    let frame = request.json_frame();
    beside_a_reader(&server, || {
        for _ in 0..5 {
            let mut peers: Vec<Peer> = (0..100).map(|_| server.connect()).collect();
            thread::scope(|scope| {
                for peer in &mut peers {
                    scope.spawn(|| peer.send(&frame));
                }
            });
            for peer in &mut peers {
                assert_eq!(peer.answer(), (1, no_route("t")));
                peer.stream.shutdown(Shutdown::Both).unwrap();
            }
        }
    });
    // Each has a permit of its size; an allocator may keep as much again.
    let bound = IDLE_MIB + 2 * 100;
    assert!(server.peak_mib() < bound, "{} MiB", server.peak_mib());
}
