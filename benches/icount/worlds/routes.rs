//! What clients ask for: bytes in, bytes out.

use namesrv::session::{Next, Session};
use namesrv::wire::frame::FrameLimits;
use namesrv::wire::reply::Output;

use super::{gate, header_gate};
use crate::fixture::{Node, wide, wide_topic};
use crate::request::Request;

const ROUTE: i32 = 105;
/// The last version that is answered in the legacy form, and the first in the standard one.
const FORMS: [(&str, i32); 2] = [("legacy", 400), ("standard", 479)];
const BROKERS: [usize; 3] = [16, 500, 5000];

pub(super) fn gates() {
    let node = wide(5000, &BROKERS);
    headers(&node.limits.frame);
    for brokers in BROKERS {
        for (form, version) in FORMS {
            let frame = request(brokers, version).json_frame();
            route(&node, &format!("route/{brokers}/{form}"), &frame, brokers);
        }
    }
    let binary = request(16, 479).binary_frame();
    route(&node, "route/16/binary-request", &binary, 16);
    pipelined(&node);
    miss(&node);
}

fn request(brokers: usize, version: i32) -> Request {
    let mut request = Request::new(ROUTE).with("topic", &wide_topic(brokers));
    request.version = version;
    request.opaque = 123_456;
    request
}

/// Cutting a frame and reading its header.
fn headers(limits: &FrameLimits) {
    let request = request(16, 479);
    let frames = [
        ("json", request.json_frame()),
        ("binary", request.binary_frame()),
    ];
    for (kind, bytes) in frames {
        let read = header_gate(&format!("header/105/{kind}"), &bytes, limits);
        assert_eq!(read, Some((ROUTE, 1)));
    }
}

/// One route, into a buffer that has held such an answer before.
fn route(node: &Node, name: &str, frame: &[u8], brokers: usize) {
    let env = node.env();
    let mut session = Session::new(0, 1);
    let mut out = Output::default();
    session.feed(frame, &env, &mut out);
    let first = std::mem::take(&mut out.buf);
    out.buf.reserve(first.len() * 2);
    let fed = gate(name, || session.feed(frame, &env, &mut out));
    assert!(matches!(fed.next, Next::Receive | Next::Send) && fed.used == frame.len());
    assert_eq!(out.buf, first);
    let names = String::from_utf8_lossy(&out.buf)
        .matches("\"perm\":6")
        .count();
    assert_eq!(names, brokers);
}

/// Sixteen requests that came with one receive.
fn pipelined(node: &Node) {
    let frames = request(16, 479).json_frame().repeat(16);
    let env = node.env();
    let mut session = Session::new(0, 1);
    let mut out = Output::default();
    session.feed(&frames, &env, &mut out);
    let bytes = out.len();
    out.clear();
    let fed = gate("route/16/standard-x16", || {
        session.feed(&frames, &env, &mut out)
    });
    assert!(matches!(fed.next, Next::Receive) && fed.used == frames.len());
    assert_eq!(out.len(), bytes);
}

/// A topic that does not exist: every client's first question about one.
fn miss(node: &Node) {
    let frame = request(17, 479).json_frame();
    let env = node.env();
    let mut session = Session::new(0, 1);
    let mut out = Output::default();
    out.buf.reserve(1024);
    let fed = gate("route/none", || session.feed(&frame, &env, &mut out));
    assert!(matches!(fed.next, Next::Receive) && fed.used == frame.len());
    assert!(String::from_utf8_lossy(&out.buf).contains("\"code\":17"));
}
