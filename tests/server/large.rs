//! Large and inflated bodies through the socket.

use std::io::Write as _;

use crate::harness::Server;
use crate::memory::with_filters;
use crate::peer::Peer;
use crate::requests::{Broker, accepted, get_kv, put_kv, route, value};
use crate::support::answer::Answer;
use crate::support::request::{Body, Request};

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

#[test]
fn registration_of_10_mib_is_accepted_again_and_again() {
    let server = Server::start();
    let mut peer = server.connect();
    let topics: Vec<String> = (0..50_000).map(|i| format!("topic-{i:0>40}")).collect();
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let request = BROKER.register(1, &names);
    assert!(request.body_bytes().len() > 10 << 20);
    assert_eq!(peer.ask(&request), accepted());
    let mut reader = server.connect();
    for name in [names[0], names[25_000], names[49_999]] {
        assert_eq!(reader.ask(&route(name)), crate::requests::route_of(BROKER));
    }
    // The repetitions say nothing new.
    for _ in 0..3 {
        assert_eq!(peer.ask(&request), accepted());
    }
    assert_eq!(
        reader.ask(&route(names[0])),
        crate::requests::route_of(BROKER)
    );
}

#[test]
fn answer_over_16_mib_is_replaced() {
    let server = Server::start();
    let mut peer = server.connect();
    // Two bytes here, six in the standard form.
    let request = with_filters(BROKER, 1, 6 << 20, "é");
    assert_eq!(peer.ask(&request), accepted());
    assert_eq!(
        peer.ask(&route("t")),
        Answer::failure(1, "answer too large")
    );
    // The legacy form fits.
    let mut legacy = route("t");
    legacy.version = 400;
    let answer = peer.ask(&legacy);
    assert_eq!(answer.code, 0);
    assert!(answer.body.unwrap().len() > 6 << 20);
}

/// A compressed registration of so many topics, each with attributes of about 100 KB.
pub(crate) fn compressed(topics: usize) -> Request {
    let mut plain = Vec::new();
    let mut part = |text: &str| {
        plain.extend((text.len() as u32).to_be_bytes());
        plain.extend(text.as_bytes());
    };
    part("{\"counter\":1,\"stateVersion\":0,\"timestamp\":1000}");
    let mut table = (topics as u32).to_be_bytes().to_vec();
    let attributes = format!("{{\"+a\":\"{}\"}}", "x".repeat(100_000));
    for i in 0..topics {
        let text = format!("t{i} 8 8 6 SINGLE_TAG {attributes}");
        table.extend((text.len() as u32).to_be_bytes());
        table.extend(text.as_bytes());
    }
    plain.extend(table);
    plain.extend(2_u32.to_be_bytes());
    plain.extend(b"[]");
    plain.extend(0_u32.to_be_bytes());
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&plain).unwrap();
    let body = Body::Raw(zlib.finish().unwrap());
    BROKER.register_body(body).with("compressed", "true")
}

#[test]
fn inflation_bomb_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut peer = server.connect();
    assert_eq!(peer.ask(&compressed(100)), accepted());
    let topics = |peer: &mut Peer| peer.ask(&Request::new(206)).body.unwrap();
    let before = topics(&mut peer);
    let bomb = compressed(700);
    assert!(bomb.body_bytes().len() < 1 << 20);
    let expected = Answer::failure(
        1,
        &format!(
            "registration refused: more than {} bytes inflated",
            64 << 20
        ),
    );
    assert_eq!(peer.ask(&bomb), expected);
    assert_eq!(topics(&mut peer), before);
    assert!(server.peak_mib() < 300, "{} MiB", server.peak_mib());
}

#[test]
fn kv_value_over_512_kib_is_refused() {
    let server = Server::start();
    let mut peer = server.connect();
    let largest = "v".repeat(512 * 1024);
    assert_eq!(peer.ask(&put_kv("n", "k", &largest)), Answer::success());
    let answer = peer.ask(&put_kv("n", "k", &"w".repeat(512 * 1024 + 1)));
    assert!(Answer::refused().admits(&answer), "{answer}");
    assert_eq!(peer.ask(&get_kv("n", "k")), value(&largest));
}

#[test]
fn names_over_1024_bytes_are_refused() {
    let server = Server::start();
    let mut peer = server.connect();
    let (longest, longer) = ("x".repeat(1024), "x".repeat(1025));
    assert_eq!(peer.ask(&BROKER.register(1, &["t", &longest])), accepted());
    let refused = [
        BROKER.register(2, &["t", &longer]),
        Broker {
            name: &longer,
            ..BROKER
        }
        .register(1, &["t", "u"]),
        Broker {
            addr: &longer,
            ..BROKER
        }
        .register(1, &["t", "u"]),
        put_kv(&longer, "k", "v"),
        put_kv("n", &longer, "v"),
    ];
    for request in refused {
        let answer = peer.ask(&request);
        assert!(Answer::refused().admits(&answer), "{answer}");
    }
    assert_eq!(
        peer.ask(&route(&longest)),
        crate::requests::route_of(BROKER)
    );
}

#[test]
fn wrong_checksum_is_refused_and_the_connection_stays() {
    let server = Server::start();
    let mut peer = server.connect();
    let wrong = BROKER.register(1, &["t", "u"]).with("bodyCrc32", "12345");
    assert_eq!(
        peer.ask(&wrong),
        Answer::failure(1, "crc32 not match").ext(&[])
    );
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
}

#[test]
fn body_that_is_no_registration_is_refused_and_the_connection_stays() {
    let server = Server::start();
    let mut peer = server.connect();
    let bodies: [&[u8]; 6] = [
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"x\x9cgarbage",
        b"\0\0\0\0",
    ];
    for body in bodies {
        for compressed in ["false", "true"] {
            let request = BROKER.register_body(Body::Raw(body.to_vec()));
            let answer = peer.ask(&request.with("compressed", compressed));
            assert!(Answer::refused().admits(&answer), "{body:?}: {answer}");
        }
    }
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
}
