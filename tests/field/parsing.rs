//! Hostile, foreign and odd input.

use super::world::{World, change, query, register, route, route_of, set, topic, version};
use crate::support::answer::{Answer, Remark};
use crate::support::request::{Body, RegisterForm, Request};
use namesrv::settings::limits::Limits;

/// A frame with this JSON header and no body.
fn framed(header: &str) -> Vec<u8> {
    let len = header.len() as u32;
    let head = [(4 + len).to_be_bytes(), len.to_be_bytes()];
    [head.concat(), header.as_bytes().to_vec()].concat()
}

fn crc(request: &Request) -> u32 {
    crc32fast::hash(&request.body_bytes())
}

#[test]
fn f48_short_and_untyped_frames_close_their_connection() {
    let mut world = World::new(&[]);
    for bytes in [
        &[0, 0, 0, 0][..],
        &[0, 0, 0, 1],
        &[0, 0, 0, 2],
        &[0, 0, 0, 3],
        &[0, 0, 0, 4, 0, 0, 0, 100],
        &[0, 0, 0, 4, 0, 0, 0, 0],
        &[0, 0, 0, 4, 1, 0, 0, 0],
        &[0, 0, 0, 4, 7, 0, 0, 0],
        &[0, 0, 0, 20, 0x80, 0, 0, 16],
    ] {
        assert!(!world.survives(bytes), "{bytes:?}");
    }
    assert!(world.survives(&[0, 0, 0]));
    assert_eq!(world.ask(&route("t1")).code, 17);
}

/// The first four bytes claim more than 1 GB.
#[test]
fn f49_http2_is_known_by_its_first_bytes() {
    let mut world = World::new(&[]);
    assert!(!world.survives(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    assert!(!world.survives(b"PRI "));
}

#[test]
fn f50_scanners_are_known_by_their_first_bytes() {
    let mut world = World::new(&[]);
    for bytes in [&b"\x03\x00\x00\x2f\x2a\xe0"[..], b"GET / HTTP/1.1\r\n\r\n"] {
        assert!(!world.survives(bytes));
        assert!(!world.survives(&bytes[..4]));
    }
}

#[test]
fn f51_any_language_is_served() {
    let mut world = World::new(&[]);
    for language in ["NODE_JS", "KLINGON", ""] {
        let header = format!(
            r#"{{"code":105,"extFields":{{"topic":"t1"}},"language":"{language}","opaque":1,"version":479}}"#
        );
        let answers = world.node.send(world.conn, &framed(&header), world.now);
        assert_eq!(super::world::one(&answers).code, 17);
    }
    let mut binary = route("t1").binary_frame();
    binary[10] = 200;
    let answers = world.node.send(world.conn, &binary, world.now);
    assert_eq!(super::world::one(&answers).code, 17);
}

/// The binary form has 16 signed bits for it, JSON has no limit.
#[test]
fn f52_a_long_key_is_never_a_negative_one() {
    let mut world = World::new(&[]);
    let long = |bytes| route("t1").with(&"k".repeat(bytes), "v");
    assert!(!world.survives(&long(32_768).binary_frame()));
    assert!(world.survives(&long(32_767).binary_frame()));
    assert_eq!(world.ask(&long(32_768)).code, 17);
}

#[test]
fn f53_a_request_without_fields_is_told_what_is_missing() {
    let mut world = World::new(&[]);
    let answer = world.ask(&Request::new(103));
    assert_eq!(answer, Answer::failure(1, "brokerName is missing"));
    for key in ["brokerName", "brokerAddr", "clusterName"] {
        let request = set(register("b-1", 0, 1, &["t1", "t2"]), key, None);
        assert_eq!(
            world.ask(&request),
            Answer::failure(1, &format!("{key} is missing"))
        );
    }
    assert!(world.brokers().is_empty());
    let remark = "No topic route info in name server for the topic: null\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!(world.ask(&Request::new(105)), Answer::failure(17, remark));
}

#[test]
fn f54_a_missing_body_changes_nothing() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    for request in [Request::new(217).with("topic", "t3"), Request::new(318)] {
        assert_eq!(world.ask(&request), Answer::success());
    }
    assert!(world.queues("t3").is_empty());
    let unnamed = Request {
        body: Body::Raw(b"{}".to_vec()),
        ..Request::new(217)
    };
    assert_eq!(world.ask(&unnamed), Answer::success());
}

/// A count that nothing follows, and plaintext that only grows.
#[test]
fn f55_a_compressed_body_cannot_take_the_memory() {
    let mut world = World::limited(Limits {
        inflated_bytes: 1 << 20,
        ..Limits::default()
    });
    let with = |body: Vec<u8>| Request {
        body: Body::Raw(body),
        ..register("b-1", 0, 1, &[]).with("compressed", "true")
    };
    let empty = change(register("b-1", 0, 1, &["t1", "t2"]), |spec| {
        spec.form = RegisterForm::Zlib;
    });
    let mut plain = inflated(&empty.body_bytes());
    let version_bytes = 4 + u32::from_be_bytes(plain[..4].try_into().unwrap()) as usize;
    plain.truncate(version_bytes);
    plain.extend(0x7FFF_FFFF_u32.to_be_bytes());
    let refused = "registration refused: more than 200000 entries in one table";
    assert_eq!(
        world.ask(&with(deflated(&plain))),
        Answer::failure(1, refused)
    );
    plain.truncate(version_bytes);
    plain.extend(2000_u32.to_be_bytes());
    let topic = [b"t 8 8 6 SINGLE_TAG ".to_vec(), vec![b'x'; 1000]].concat();
    for _ in 0..2000 {
        plain.extend((topic.len() as u32).to_be_bytes());
        plain.extend(&topic);
    }
    let bomb = deflated(&plain);
    assert!(bomb.len() < 20_000, "{} bytes are no bomb", bomb.len());
    let refused = "registration refused: more than 1048576 bytes inflated";
    assert_eq!(world.ask(&with(bomb)), Answer::failure(1, refused));
    assert!(world.brokers().is_empty());
    assert_eq!(world.ask(&empty.with("compressed", "true")).code, 0);
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut zlib = flate2::read::ZlibDecoder::new(bytes);
    std::io::Read::read_to_end(&mut zlib, &mut plain).unwrap();
    plain
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    std::io::Write::write_all(&mut zlib, plain).unwrap();
    zlib.finish().unwrap()
}

#[test]
fn f56_a_checksum_has_31_bits() {
    let mut world = World::new(&[]);
    let named = |n: usize| register("b-1", 0, 1, &["t1", &format!("topic-{n}")]);
    let request = (0..100).map(named).find(|r| crc(r) > 0x7FFF_FFFF).unwrap();
    let masked = crc(&request) & 0x7FFF_FFFF;
    let wrong = Answer::failure(1, "crc32 not match").ext(&[]);
    for sum in [masked ^ 1, 1] {
        let claimed = request.clone().with("bodyCrc32", &sum.to_string());
        assert_eq!(world.ask(&claimed), wrong);
    }
    let signed = (crc(&request) as i32).to_string();
    assert_eq!(
        world.ask(&request.clone().with("bodyCrc32", &signed)),
        wrong
    );
    assert!(world.brokers().is_empty());
    for sum in [masked, 0] {
        let claimed = request.clone().with("bodyCrc32", &sum.to_string());
        assert_eq!(world.ask(&claimed).code, 0);
    }
}

#[test]
fn f57_a_missing_version_is_no_crash() {
    let mut world = World::new(&[]);
    let request = change(register("b-1", 0, 1, &["t1", "t2"]), |spec| {
        spec.data_version = None
    });
    assert!(
        request
            .body_bytes()
            .windows(18)
            .any(|part| part == b"\"dataVersion\":null")
    );
    world.join(&request);
    assert_eq!(world.queues("t1"), ["b-1 6"]);
    let unknown = Answer::success().ext(&[("changed", "true")]);
    assert_eq!(world.ask(&query("b-1", 0, 1, version(1))), unknown);
    let wrapper = r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"t3":{"topicName":"t3"},"t4":{"topicName":"t4"}}}}"#;
    let absent = Request {
        body: Body::Raw(wrapper.as_bytes().to_vec()),
        ..register("b-2", 0, 2, &[])
    };
    world.join(&absent);
    assert_eq!(world.queues("t3"), ["b-2 6"]);
    let now = r#"{"counter":0,"stateVersion":0,"timestamp":1000}"#;
    let answer = world.ask(&query("b-2", 0, 2, version(1)));
    assert_eq!(answer, unknown.body(now));
}

#[test]
fn f58_versions_of_the_future_are_the_newest_known() {
    let mut world = World::new(&[]);
    for (n, version) in [500, 700, i32::MAX].into_iter().enumerate() {
        let name = format!("b-{n}");
        let zlib = change(register(&name, 0, n, &["t1", "t2"]), |spec| {
            spec.form = RegisterForm::Zlib;
        });
        // the form of 5.x, whose part for static topics would be missing in the older one
        let request = Request { version, ..zlib };
        assert_eq!(world.ask(&request.with("compressed", "true")).code, 0);
        let route = world.text(&route_of(version, "t1"));
        assert!(route.contains(r#"{"0":"10.0.0."#), "{route}");
    }
    assert_eq!(world.queues("t2").len(), 3);
    let negative = Request {
        version: -1,
        ..register("b-9", 0, 9, &["t1", "t2"])
    };
    let answer = world.ask(&negative);
    assert_eq!((answer.code, answer.ext.is_some()), (1, false));
    assert!(matches!(answer.remark, Remark::Text(text) if text.contains("-1")));
}

#[test]
fn f59_strict_json_for_whoever_asks_for_it() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &[topic("t1").name.as_str(), "t2"]));
    let info = |key| {
        format!(
            r#"{{"brokerAddrTable":{{"b-1":{{"brokerAddrs":{{{key}:"10.0.0.1:10911"}},"brokerName":"b-1","cluster":"c1","enableActingMaster":false}}}},"clusterAddrTable":{{"c1":["b-1"]}}}}"#
        )
    };
    let ask = Request::new(106);
    assert_eq!(world.text(&ask), info("0"));
    let strict = ask.with("acceptStandardJsonOnly", "true");
    assert_eq!(world.text(&strict), info("\"0\""));
}
