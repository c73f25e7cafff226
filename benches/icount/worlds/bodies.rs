//! What brokers send every 30 seconds: a registration of 1,000 topics.

use bytes::Bytes;

use namesrv::session::{Next, Session};
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::register::{self, BodyLimits, RegisterInput};
use namesrv::wire::reply::Output;

use super::{gate, header_gate};
use crate::fixture::{Node, broker_addr, broker_name, topic_name};
use crate::registration::{registration, topic};
use crate::request::{RegisterForm, Request};

const REGISTER: i32 = 103;
const TOPICS: usize = 1000;

pub(super) fn gates() {
    header();
    let json = large(RegisterForm::V5).body_bytes();
    parse("json", RegisterForm::V5, &json);
    // As no Java broker writes it, and therefore token by token.
    let spaced = String::from_utf8_lossy(&json).replace(":{", ": {");
    parse("tokens", RegisterForm::V5, spaced.as_bytes());
    let zlib = large(RegisterForm::Zlib).body_bytes();
    parse("zlib", RegisterForm::Zlib, &zlib);
    unchanged();
    heartbeat();
}

/// A 5.3.3 broker's header, which has the most fields of all.
fn header() {
    let node = Node::new();
    let request = large(RegisterForm::V5);
    let frames = [
        ("json", request.json_frame()),
        ("binary", request.binary_frame()),
    ];
    for (kind, bytes) in frames {
        let read = header_gate(&format!("header/103/{kind}"), &bytes, &node.limits.frame);
        assert_eq!(read, Some((REGISTER, 8)));
    }
}

fn parse(kind: &str, form: RegisterForm, body: &[u8]) {
    let input = RegisterInput {
        version: Request::new(REGISTER).version,
        compressed: form == RegisterForm::Zlib,
        body,
        now_ms: 0,
    };
    let (limits, pace) = (BodyLimits::default(), Pace::default());
    let parsed = gate(&format!("parse/1000/{kind}"), || {
        run_to_end(register::parse(&input, &limits, &pace))
    });
    assert_eq!(parsed.map(|body| body.topics.len()), Ok(TOPICS));
}

/// The whole steady state of a broker: its frame comes again, and nothing has changed.
fn unchanged() {
    let mut node = Node::new();
    let mut session = Session::new(0, 1);
    let frame = Bytes::from(large(RegisterForm::V5).json_frame());
    assert!(
        (170_000..180_000).contains(&frame.len()),
        "{} bytes",
        frame.len()
    );
    register(&mut node, &mut session, &frame);
    let env = node.env();
    let mut out = Output::default();
    out.buf.reserve(1024);
    let next = gate("unchanged/1000", || {
        let fed = session.feed(&frame, &env, &mut out);
        assert!(matches!(fed.next, Next::Large(_)));
        session.large(&frame, &env, &mut out)
    });
    assert!(matches!(next, Next::Receive));
    assert!(String::from_utf8_lossy(&out.buf).contains("\"code\":0"));
}

/// A 904, of which 5.x brokers send one a second.
fn heartbeat() {
    let mut node = Node::new();
    let mut session = Session::new(0, 1);
    let frame = Bytes::from(large(RegisterForm::V5).json_frame());
    register(&mut node, &mut session, &frame);
    let beat = Request::new(904)
        .with("clusterName", "DefaultCluster")
        .with("brokerAddr", &broker_addr(7, 0))
        .with("brokerName", &broker_name(7))
        .json_frame();
    let env = node.env();
    let mut out = Output::default();
    out.buf.reserve(1024);
    let fed = gate("heartbeat", || session.feed(&beat, &env, &mut out));
    assert!(matches!(fed.next, Next::Receive) && fed.used == beat.len());
    assert!(String::from_utf8_lossy(&out.buf).contains("\"code\":0"));
}

/// Takes a registration through to its accepted outcome.
fn register(node: &mut Node, session: &mut Session, frame: &Bytes) {
    let mut out = Output::default();
    let mut next = session.large(frame, &node.env(), &mut out);
    loop {
        next = match next {
            Next::Run(job) => {
                let run = job.run(&node.keys, &node.limits, 0, &node.pace);
                let done = run_to_end(run);
                session.job_done(done, &node.env(), &mut out)
            }
            Next::Submit(envelope) => {
                let origin = envelope.origin;
                let outcome = node.apply(crate::fixture::LATE, envelope);
                node.publish();
                session.outcome(origin, outcome, &node.env(), &mut out);
                return;
            }
            other => panic!("a registration led to {other:?}"),
        };
    }
}

/// A request of 174 KB in the form of a 5.3.3 broker.
fn large(form: RegisterForm) -> Request {
    let topics = (0..TOPICS).map(|number| topic(topic_name(7, number)));
    registration(
        &broker_name(7),
        &broker_addr(7, 0),
        form,
        topics.collect(),
        17,
    )
}
