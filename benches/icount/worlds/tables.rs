//! What the writer does, in tables of three sizes, and the index under them.

use namesrv::route::Now;
use namesrv::route::command::{Command, Outcome};
use namesrv::route::index::Index;
use namesrv::session::{Next, Session};
use namesrv::wire::pace::run_to_end;
use namesrv::wire::reply::Output;

use super::{change_gate, gate};
use crate::fixture::{
    LATE, Node, TOPICS_OF_FIRST, broker_name, clustered, envelope, expires, registration, shape,
    topic_name, topics_of,
};
use crate::request::Request;

const CLUSTER_INFO: i32 = 106;
/// A broker with 1,000 topics, and one with 200.
const BIG_BROKER: usize = 3;
const BROKER: usize = 21;
/// The table in which everything else is counted.
const LARGEST: usize = 5000;

pub(super) fn gates(brokers: usize) {
    let mut node = clustered(brokers);
    assert_eq!(node.snapshot.counts().1, brokers);
    change(&mut node, &change_gate(brokers), BROKER);
    change(
        &mut node,
        &format!("change/1-of-1000/{brokers}"),
        BIG_BROKER,
    );
    if brokers == LARGEST {
        publish_one(&mut node);
        cluster_info(&node);
        expire(&mut node);
    }
}

/// A broker registers all its topics anew, and one of them has other queues; to the publish.
fn change(node: &mut Node, name: &str, broker: usize) {
    let mut topics = topics_of(broker);
    let (all, changed) = (topics.len(), topics.len() / 2);
    topics[changed].shape = shape(16);
    let topic = topics[changed].name.clone();
    let envelope = envelope(broker, registration(broker, 0, topics, 2));
    let before = route(node, &topic);
    let outcome = gate(name, || {
        let outcome = node.apply(LATE, envelope);
        node.publish();
        outcome
    });
    assert!(matches!(outcome, Outcome::Registered(_)), "{all} topics");
    let after = route(node, &topic);
    assert_eq!(before.matches("\"readQueueNums\":8").count(), 16);
    assert_eq!(after.matches("\"readQueueNums\":8").count(), 15);
    assert_eq!(after.matches("\"readQueueNums\":16").count(), 1);
}

/// A 217 that gives one topic other queues at one broker, and its publish.
fn publish_one(node: &mut Node) {
    let topic = topic_name(40, 7);
    let command = Command::RegisterTopic {
        topic: topic.clone(),
        queues: vec![(broker_name(40 * 16), shape(4))],
    };
    let mut envelope = envelope(0, registration(0, 0, Vec::new(), 1));
    envelope.command = command;
    let outcome = gate("publish/1", || {
        let outcome = node.apply(LATE, envelope);
        node.publish();
        outcome
    });
    assert!(matches!(outcome, Outcome::Done));
    assert_eq!(
        route(node, &topic).matches("\"readQueueNums\":4").count(),
        1
    );
}

/// 106, which every 5.x broker polls: made once, then shared.
fn cluster_info(node: &Node) {
    let frame = Request::new(CLUSTER_INFO).json_frame();
    let env = node.env();
    let mut session = Session::new(0, 1);
    let mut out = Output::default();
    out.buf.reserve(1024);
    let next = gate("cluster-info/5000/built", || {
        match session.feed(&frame, &env, &mut out).next {
            Next::Run(job) => {
                let run = job.run(&node.keys, &node.limits, 0, &node.pace);
                session.job_done(run_to_end(run), &env, &mut out)
            }
            other => other,
        }
    });
    assert!(matches!(next, Next::Receive));
    let bytes = out.len();
    assert!((600_000..900_000).contains(&bytes), "{bytes} bytes");
    out.clear();
    let fed = gate("cluster-info/5000/shared", || {
        session.feed(&frame, &env, &mut out)
    });
    assert!(matches!(fed.next, Next::Send) && fed.used == frame.len());
    assert_eq!((out.len(), out.shared.len()), (bytes, 1));
}

/// One broker in five is silent for too long: a tick and its publish.
fn expire(node: &mut Node) {
    let now = Now {
        mono_ms: 130_000,
        ..LATE
    };
    node.effects = namesrv::route::command::Effects::default();
    gate("expire/1000-of-5000", || {
        node.tick(now);
        node.publish();
    });
    assert_eq!(node.effects.close.len(), 1000);
    assert_eq!(node.snapshot.counts().2, 4000);
    let left = (0..16).filter(|broker| !expires(*broker)).count();
    let first = route(node, &topic_name(0, TOPICS_OF_FIRST - 1));
    assert_eq!(first.matches("\"perm\":6").count(), left);
}

/// A topic's answer, to see what a change has done.
fn route(node: &Node, topic: &str) -> String {
    let frame = Request::new(105).with("topic", topic).json_frame();
    let mut out = Output::default();
    Session::new(0, 1).feed(&frame, &node.env(), &mut out);
    String::from_utf8_lossy(&out.buf).into_owned()
}

/// A thousand look-ups and a thousand changes of published entries among 100,000.
pub(super) fn index_gates() {
    const ENTRIES: u64 = 100_000;
    let hash = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut index = Index::default();
    for key in 0..ENTRIES {
        index.insert(hash(key), |(k, _)| *k == key, (key, 0));
    }
    let some = || (0..ENTRIES).step_by(100);
    let found = gate("index/100000/get-x1000", || {
        let hits = some().filter(|key| index.get(hash(*key), |(k, _)| k == key).is_some());
        hits.count()
    });
    assert_eq!(found, 1000);
    let published = index.clone();
    gate("index/100000/replace-x1000", || {
        for key in some() {
            index.insert(hash(key), |(k, _)| *k == key, (key, 1));
        }
    });
    let changed = |index: &Index<(u64, i32)>| index.iter().filter(|(_, v)| *v == 1).count();
    assert_eq!((changed(&published), changed(&index)), (0, 1000));
}
