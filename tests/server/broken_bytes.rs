//! Bytes that are no frames: the connection ends without an answer, and no other notices.

use std::time::Duration;

use crate::frames::raw_frame;
use crate::harness::Server;
use crate::peer::End;
use crate::requests::{no_route, route};

/// Sends `bytes` alone and behind a good frame: the server must close both times.
fn closes(server: &Server, bytes: &[u8]) {
    let mut peer = server.connect();
    peer.send(bytes);
    peer.is_closed_silently();
    let mut peer = server.connect();
    assert_eq!(peer.ask(&route("t")), no_route("t"));
    peer.send(bytes);
    peer.is_closed_silently();
}

#[test]
fn length_over_the_limit_closes_before_the_frame_is_there() {
    let server = Server::start();
    for length in [16_777_213_u32, 17 << 20, 1 << 31, u32::MAX] {
        closes(&server, &length.to_be_bytes());
    }
    // The largest legal length just waits.
    let mut peer = server.connect();
    peer.send(&16_777_212_u32.to_be_bytes());
    assert_eq!(
        peer.end(Duration::from_millis(200)),
        (Vec::new(), End::Open)
    );
}

#[test]
fn frame_length_setting_is_the_limit() {
    let server = Server::with(&[("com.rocketmq.remoting.frameMaxLength", "5000")]);
    closes(&server, &4_997_u32.to_be_bytes());
    let mut peer = server.connect();
    let header = br#"{"code":105,"opaque":3,"extFields":{"topic":"t"}}"#;
    peer.send(&raw_frame(0, header, &vec![b' '; 4_996 - 4 - header.len()]));
    assert_eq!(peer.answer(), (3, no_route("t")));
}

#[test]
fn http_and_tls_close() {
    let server = Server::start();
    closes(&server, b"GET / HTTP/1.1\r\nHost: namesrv\r\n\r\n");
    closes(&server, b"POST /");
    closes(&server, b"SSH-2.0-OpenSSH_9.6\r\n");
}

#[test]
fn impossible_lengths_close() {
    let server = Server::start();
    for length in 0..4_u32 {
        closes(&server, &[&length.to_be_bytes()[..], &[0; 8]].concat());
    }
    closes(&server, &raw_frame(0, b"", b""));
    closes(&server, &raw_frame(1, b"", b""));
    // A header that is longer than its frame.
    closes(
        &server,
        &[8_u32.to_be_bytes(), 5_u32.to_be_bytes(), *b"{}  "].concat(),
    );
}

#[test]
fn unknown_header_forms_close() {
    let server = Server::start();
    for kind in [2, 7, 0x80, 0xff] {
        closes(&server, &raw_frame(kind, br#"{"code":105}"#, b""));
    }
}

#[test]
fn headers_that_are_no_objects_close() {
    let server = Server::start();
    let headers: [&[u8]; 12] = [
        b" ",
        b"null",
        b"true",
        b"\"text\"",
        b"7",
        b"[]",
        b"{\"code\":105",
        b"{\"code\":105} {}",
        b"{\"code\":3000000000}",
        b"{\"code\":105,\"opaque\":[]}",
        b"{\"code\":105,\"extFields\":[1]}",
        b"\xff\xff\xff\xff",
    ];
    for header in headers {
        closes(&server, &raw_frame(0, header, b""));
    }
}

#[test]
fn deeply_nested_header_closes() {
    let server = Server::start();
    let header = format!("{{\"a\":{}", "[".repeat(500_000));
    closes(&server, &raw_frame(0, header.as_bytes(), b""));
}

#[test]
fn binary_headers_that_lie_about_lengths_close() {
    let server = Server::start();
    let mut fixed = vec![0; 21];
    fixed[1] = 105;
    let with = |at: usize, word: i32| {
        let mut header = fixed.clone();
        header[at..at + 4].copy_from_slice(&word.to_be_bytes());
        header
    };
    closes(&server, &raw_frame(1, &fixed[..20], b""));
    for header in [
        with(13, i32::MAX),
        with(13, -1),
        with(17, i32::MAX),
        with(17, 100),
    ] {
        closes(&server, &raw_frame(1, &header, b""));
    }
    let negative_key = [&with(17, 2)[..], &[0xff, 0xff]].concat();
    closes(&server, &raw_frame(1, &negative_key, b""));
}

#[test]
fn answers_to_good_frames_before_a_bad_one_still_come() {
    let server = Server::start();
    let mut peer = server.connect();
    let mut frames = route("t").json_frame();
    frames.extend(b"GET / HTTP/1.1\r\n\r\n");
    peer.send(&frames);
    let (answers, end) = peer.end(crate::harness::PATIENCE);
    assert_eq!((answers, end), (vec![(1, no_route("t"))], End::Closed));
}

#[test]
fn giant_header_closes() {
    let server = Server::start();
    let padded = |bytes: usize| {
        let start = br#"{"code":105,"opaque":4,"extFields":{"topic":"t"}"#;
        let mut header = start.to_vec();
        header.resize(bytes - 1, b' ');
        header.push(b'}');
        raw_frame(0, &header, b"")
    };
    let mut peer = server.connect();
    peer.send(&padded(1 << 20));
    assert_eq!(peer.answer(), (4, no_route("t")));
    // The eight bytes that say so are enough.
    closes(&server, &padded((1 << 20) + 1)[..8]);
}

#[test]
fn too_many_ext_fields_close() {
    let server = Server::start();
    let with = |count: usize| {
        let mut request = route("t");
        for i in 1..count {
            request = request.with(&format!("x{i}"), "");
        }
        request
    };
    let mut peer = server.connect();
    assert_eq!(peer.ask(&with(1024)), no_route("t"));
    closes(&server, &with(1025).json_frame());
    closes(&server, &with(1025).binary_frame());
}
