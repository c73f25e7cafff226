//! Requests byte for byte, read back by other code than wrote them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::Read;

use namesrv::wire::frame::{FrameLimits, cut};
use namesrv::wire::header::Header;
use serde_json::Value;

use super::*;
use crate::config::RunArgs;

const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 1 << 24,
    header_bytes: 1 << 20,
    ext_fields: 100,
};

fn config(change: impl FnOnce(&mut RunArgs)) -> Config {
    let mut args = RunArgs {
        brokers: Some(8),
        topics: Some(20),
        ..RunArgs::default()
    };
    change(&mut args);
    Config::resolve(&args, 2)
}

fn encode(config: &Config, request: &Request, op: Op) -> (Topology, Vec<u8>) {
    let topology = Topology::new(config);
    let mut encoder = Encoder::default();
    encoder.encode(&topology, config, request, op, 7).unwrap();
    (topology, encoder.out)
}

fn register(part: Part) -> Request {
    Request::Register(Registration {
        broker: 3,
        versions: [0, 2, 0, 0],
        part,
    })
}

#[test]
fn a_registration_has_the_fields_and_the_body_of_a_5_3_3_broker() {
    let config = config(|_| ());
    let (topology, bytes) = encode(&config, &register(Part::Chunk(0)), Op::Register);
    let frame = cut(&bytes, &LIMITS).unwrap().unwrap();
    let header = Header::parse(&frame, &LIMITS).unwrap();
    assert_eq!(
        (header.code, header.version, header.opaque, header.flag),
        (103, 479, 7, 0)
    );
    for (key, value) in [
        ("brokerId", "1"),
        ("clusterName", "cluster-0"),
        ("brokerAddr", "10.0.0.3:10911"),
        ("brokerName", "broker-00001"),
        ("enableActingMaster", "false"),
        ("haServerAddr", "10.0.0.3:10912"),
        ("compressed", "false"),
    ] {
        assert_eq!(header.ext.get(key), Some(value), "{key}");
    }
    assert_eq!(header.ext.get("heartbeatTimeoutMillis"), None);
    let crc = crc32fast::hash(frame.body) & 0x7fff_ffff;
    assert_eq!(header.ext.get("bodyCrc32"), Some(crc.to_string().as_str()));

    let body: Value = serde_json::from_slice(frame.body).unwrap();
    assert_eq!(body["filterServerList"], serde_json::json!([]));
    let wrapper = &body["topicConfigSerializeWrapper"];
    assert_eq!(wrapper["dataVersion"]["counter"], 2);
    let table = wrapper["topicConfigTable"].as_object().unwrap();
    assert_eq!(table.len(), 20);
    let hot = topology.hot_topics(1).nth(1).unwrap();
    for topic in topology.topics_of(1) {
        let entry = &table[topology.topic_name(*topic)];
        let changes = if *topic == hot { 2 } else { 0 };
        let queues = topology.shape(*topic).queues + changes;
        assert_eq!(entry["readQueueNums"], queues);
        assert_eq!(entry["writeQueueNums"], queues);
        assert_eq!(entry["topicName"], topology.topic_name(*topic));
        assert_eq!(entry["perm"], topology.shape(*topic).perm);
    }
}

#[test]
fn a_change_carries_one_topic_and_the_version_of_all() {
    let config = config(|args| args.heartbeat_timeout = Some(std::time::Duration::from_secs(10)));
    let (topology, bytes) = encode(&config, &register(Part::One(1)), Op::Change);
    let frame = cut(&bytes, &LIMITS).unwrap().unwrap();
    let header = Header::parse(&frame, &LIMITS).unwrap();
    assert_eq!(header.ext.get("heartbeatTimeoutMillis"), Some("10000"));
    let body: Value = serde_json::from_slice(frame.body).unwrap();
    let table = body["topicConfigSerializeWrapper"]["topicConfigTable"]
        .as_object()
        .unwrap();
    let hot = topology.hot_topics(1).nth(1).unwrap();
    assert_eq!(table.keys().collect::<Vec<_>>(), [topology.topic_name(hot)]);
}

#[test]
fn chunks_together_carry_every_topic_once() {
    let config = config(|args| args.split = Some(8));
    let topology = Topology::new(&config);
    assert_eq!(chunks(&topology, &config, 1), 3);
    let mut names = Vec::new();
    for chunk in 0..3 {
        let (_, bytes) = encode(&config, &register(Part::Chunk(chunk)), Op::Register);
        let frame = cut(&bytes, &LIMITS).unwrap().unwrap();
        let body: Value = serde_json::from_slice(frame.body).unwrap();
        let wrapper = &body["topicConfigSerializeWrapper"];
        assert_eq!(wrapper["dataVersion"]["counter"], 2 + chunk);
        names.extend(
            wrapper["topicConfigTable"]
                .as_object()
                .unwrap()
                .keys()
                .cloned(),
        );
    }
    let mut expected: Vec<&str> = topology
        .topics_of(1)
        .iter()
        .map(|t| topology.topic_name(*t))
        .collect();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn a_compressed_body_has_the_five_parts_of_version_479() {
    let config = config(|args| args.compressed = true);
    let (topology, bytes) = encode(&config, &register(Part::Chunk(0)), Op::Register);
    let frame = cut(&bytes, &LIMITS).unwrap().unwrap();
    let header = Header::parse(&frame, &LIMITS).unwrap();
    assert_eq!(header.ext.get("compressed"), Some("true"));
    assert_eq!(&frame.body[..2], [0x78, 0xda]);
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(frame.body)
        .read_to_end(&mut plain)
        .unwrap();
    let mut rest = plain.as_slice();
    let number = |rest: &mut &[u8]| {
        let (word, tail) = rest.split_first_chunk::<4>().unwrap();
        *rest = tail;
        u32::from_be_bytes(*word) as usize
    };
    let length = number(&mut rest);
    let (data_version, tail) = rest.split_at(length);
    assert_eq!(
        data_version,
        br#"{"counter":2,"stateVersion":0,"timestamp":1700000000002}"#
    );
    rest = tail;
    assert_eq!(number(&mut rest), 20);
    for topic in topology.topics_of(1) {
        let length = number(&mut rest);
        let (text, tail) = rest.split_at(length);
        rest = tail;
        let text = std::str::from_utf8(text).unwrap();
        assert!(
            text.starts_with(&format!("{} ", topology.topic_name(*topic))),
            "{text}"
        );
        assert!(text.ends_with(" SINGLE_TAG {}"), "{text}");
    }
    assert_eq!(rest, b"\0\0\0\x02[]\0\0\0\0");
}

#[test]
fn small_requests_are_those_of_java() {
    let config = config(|_| ());
    let header = |request: &Request, op: Op| {
        let (_, bytes) = encode(&config, request, op);
        let frame = cut(&bytes, &LIMITS).unwrap().unwrap();
        let body = String::from_utf8(frame.body.to_vec()).unwrap();
        (String::from_utf8(frame.header.to_vec()).unwrap(), body)
    };
    let (text, body) = header(&Request::Cluster, Op::Cluster);
    let expected = concat!(
        r#"{"code":106,"flag":0,"language":"JAVA","opaque":7,"#,
        r#""serializeTypeCurrentRPC":"JSON","version":479}"#
    );
    assert_eq!((text.as_str(), body.as_str()), (expected, ""));
    let (text, body) = header(&Request::Version(3, [0, 2, 0, 0]), Op::Heartbeat);
    assert!(text.contains(r#""flag":2"#), "{text}");
    assert!(text.contains(r#""brokerId":"1""#), "{text}");
    assert_eq!(
        body,
        r#"{"counter":2,"stateVersion":0,"timestamp":1700000000002}"#
    );
    let (text, _) = header(&Request::NoRoute(5), Op::Route);
    assert!(text.contains(r#"{"topic":"no-such-topic-5"}"#), "{text}");
}
