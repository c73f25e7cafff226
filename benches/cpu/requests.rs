//! What is sent.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use crate::registration::{self, topic};
use crate::request::{RegisterForm, Request, TopicSpec};

const TOPIC: &str = "TopicTest_000017";
/// Topics of a large registration.
const TOPICS: usize = 1000;

/// 105, as Java 5.x clients send it.
pub(crate) fn route() -> Vec<u8> {
    let request = Request::new(105).with("topic", TOPIC);
    request.with("acceptStandardJsonOnly", "true").json_frame()
}

/// 106.
pub(crate) fn cluster_info() -> Vec<u8> {
    Request::new(106).json_frame()
}

/// A registration of 1,000 topics, one of which has as many queues as is said.
pub(crate) fn large(broker: usize, counter: usize, queues: usize) -> Vec<u8> {
    let topics = (0..TOPICS).map(|n| topic(format!("topic-{n:06}")));
    let mut topics: Vec<_> = topics.collect();
    topics[TOPICS / 2].read = i32::try_from(queues).unwrap();
    registration(broker, counter, topics)
}

/// Registers so many brokers, all with the topic that is read.
pub(crate) fn fill(port: u16, brokers: usize) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    for broker in 0..brokers {
        let topics = vec![topic(TOPIC.to_owned()), topic("other".to_owned())];
        stream.write_all(&registration(broker, 1, topics)).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("\"code\":0"), "{answer}");
    }
    if brokers > 0 {
        // What a connection registered goes with it.
        std::mem::forget(stream);
    }
}

fn registration(broker: usize, counter: usize, topics: Vec<TopicSpec>) -> Vec<u8> {
    let (high, middle, low) = (broker / 62_500, broker / 250 % 250, broker % 250);
    let addr = format!("10.{high}.{middle}.{low}:10911");
    let name = format!("broker-name-{broker:04}");
    let counter = i64::try_from(counter).unwrap();
    registration::registration(&name, &addr, RegisterForm::V5, topics, counter).json_frame()
}
