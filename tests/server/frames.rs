//! Well-formed frames, however they are cut, gathered, and ended.

use std::thread::sleep;
use std::time::Duration;

use crate::harness::{PATIENCE, Server};
use crate::peer::End;
use crate::requests::{Broker, accepted, get_kv, no_route, oneway, put_kv, route, route_of, value};
use crate::support::answer::Answer;
use crate::support::request::Request;

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

fn numbered(mut request: Request, opaque: i32) -> Vec<u8> {
    request.opaque = opaque;
    request.json_frame()
}

#[test]
fn half_frame_then_close_disturbs_nobody() {
    let server = Server::start();
    let mut other = server.connect();
    let frame = BROKER.register(1, &["t", "u"]).json_frame();
    for cut in [1, 3, 4, 7, 8, 9, frame.len() / 2, frame.len() - 1] {
        let mut peer = server.connect();
        peer.send(&frame[..cut]);
        drop(peer);
        assert_eq!(other.ask(&route("t")), no_route("t"));
    }
}

#[test]
fn bytes_one_by_one_make_a_frame() {
    let server = Server::start();
    let mut peer = server.connect();
    for byte in numbered(BROKER.register(1, &["t", "u"]), 7) {
        peer.send(&[byte]);
    }
    assert_eq!(peer.answer(), (7, accepted()));
    for byte in numbered(route("t"), -8) {
        peer.send(&[byte]);
    }
    assert_eq!(peer.answer(), (-8, route_of(BROKER)));
}

#[test]
fn frames_in_one_write_are_answered_in_order() {
    let server = Server::start();
    let mut peer = server.connect();
    peer.ask(&BROKER.register(1, &["t", "u"]));
    let frames: Vec<u8> = (0..64)
        .flat_map(|i| {
            let topic = if i % 3 == 0 { "t" } else { "missing" };
            numbered(route(topic), i)
        })
        .collect();
    peer.send(&frames);
    for (i, answer) in (0..64).zip(peer.answers(64)) {
        let expected = if i % 3 == 0 {
            route_of(BROKER)
        } else {
            no_route("missing")
        };
        assert_eq!(answer, (i, expected));
    }
}

#[test]
fn commands_in_one_write_are_all_answered_and_applied_in_order() {
    let server = Server::start();
    let mut peer = server.connect();
    // More than may be outstanding at once; each changes what the next finds.
    let frames: Vec<u8> = (0..200)
        .flat_map(|i| {
            let request = match i % 2 {
                0 => BROKER.register(i.into(), &["t", "u"]),
                _ => BROKER.unregister(),
            };
            numbered(request, i)
        })
        .collect();
    peer.send(&frames);
    for (i, answer) in (0..200).zip(peer.answers(200)) {
        let expected = if i % 2 == 0 {
            accepted()
        } else {
            Answer::success()
        };
        assert_eq!(answer, (i, expected));
    }
    assert_eq!(peer.ask(&route("t")), no_route("t"));
}

#[test]
fn read_behind_a_kv_put_in_one_write_sees_it() {
    let server = Server::start();
    let mut peer = server.connect();
    let frames = [
        numbered(put_kv("n", "k", "1"), 1),
        numbered(get_kv("n", "k"), 2),
        numbered(put_kv("n", "k", "2"), 3),
        numbered(get_kv("n", "k"), 4),
    ];
    peer.send(&frames.concat());
    let expected = [
        (1, Answer::success()),
        (2, value("1")),
        (3, Answer::success()),
        (4, value("2")),
    ];
    assert_eq!(peer.answers(4), expected);
}

#[test]
fn oneway_requests_are_executed_and_not_answered() {
    let server = Server::start();
    let mut peer = server.connect();
    let silent = [
        oneway(BROKER.register(1, &["t", "u"])),
        oneway(BROKER.heartbeat()),
        oneway(route("t")),
        oneway(route("missing")),
        oneway(put_kv("n", "k", "v")),
        oneway(Request::new(31_999)),
        oneway(BROKER.register(1, &["t", "u"]).with("bodyCrc32", "5")),
    ];
    let frames: Vec<u8> = silent.iter().flat_map(Request::json_frame).collect();
    peer.send(&frames);
    assert_eq!(peer.ask(&get_kv("n", "k")), value("v"));
    assert_eq!(peer.ask(&route("t")), route_of(BROKER));
    let (answers, end) = peer.end(Duration::from_millis(100));
    assert_eq!((answers, end), (Vec::new(), End::Open));
}

#[test]
fn answers_of_others_are_ignored() {
    let server = Server::start();
    let mut peer = server.connect();
    for flag in [1, 3] {
        let header = format!("{{\"code\":0,\"flag\":{flag},\"opaque\":5,\"version\":479}}");
        peer.send(&raw_frame(0, header.as_bytes(), b"body"));
    }
    assert_eq!(peer.ask(&route("t")), no_route("t"));
}

#[test]
fn binary_header_is_answered_in_json() {
    let server = Server::start();
    let mut peer = server.connect();
    let mut request = route("t");
    request.opaque = 77;
    peer.send(&request.binary_frame());
    assert_eq!(peer.answer(), (77, no_route("t")));
}

#[test]
fn unknown_code_is_answered() {
    let server = Server::start();
    let expected = Answer::failure(3, " request type 31999 not supported");
    assert_eq!(server.connect().ask(&Request::new(31_999)), expected);
}

#[test]
fn frames_before_a_half_close_are_applied_and_answered() {
    let server = Server::start();
    let mut other = server.connect();
    let mut peer = server.connect();
    let frames = [
        numbered(put_kv("n", "k", "v"), 1),
        numbered(BROKER.register(1, &["t", "u"]), 2),
        numbered(get_kv("n", "k"), 3),
        numbered(route("t"), 4),
        b"\0\0".to_vec(),
    ];
    peer.send(&frames.concat());
    peer.finish_sending();
    let (mut answers, end) = peer.end(PATIENCE);
    answers.sort_by_key(|(opaque, _)| *opaque);
    assert_eq!(end, End::Closed);
    assert_eq!(answers.len(), 4);
    let expected = [(1, Answer::success()), (2, accepted()), (3, value("v"))];
    assert_eq!(answers[..3], expected);
    assert_eq!(other.ask(&get_kv("n", "k")), value("v"));
}

#[test]
fn no_half_frame_is_ever_applied() {
    let server = Server::start();
    let mut other = server.connect();
    let frame = put_kv("n", "k", "v").json_frame();
    let mut peer = server.connect();
    peer.send(&frame[..frame.len() - 1]);
    peer.finish_sending();
    peer.is_closed_silently();
    sleep(Duration::from_millis(20));
    assert_eq!(other.ask(&get_kv("n", "k")).code, 22);
}

/// A frame from its parts, right or wrong.
pub(crate) fn raw_frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let length = 4 + header.len() as u32 + body.len() as u32;
    let header_word = u32::from(kind) << 24 | header.len() as u32;
    [
        &length.to_be_bytes()[..],
        &header_word.to_be_bytes(),
        header,
        body,
    ]
    .concat()
}
