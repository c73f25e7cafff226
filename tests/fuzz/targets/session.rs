//! Sessions: whatever bytes come over several connections, the answers depend neither on how the
//! bytes are cut, nor on which frames count as large, nor on the rule for unchanged
//! registrations; each two-way request has one answer; and what has ended leaves nothing behind.
//!
//! The input is a list of steps, which [`steps`] reads: raw bytes, or requests that need no luck
//! to be well formed.

mod steps;

use namesrv::settings::limits::Limits;
use namesrv::wire::frame;
use namesrv::wire::header::Header;

use crate::support::answer::read_answers;
use crate::support::node::Node;
use steps::{Step, What, steps};

/// Connections at a time.
const CONNS: usize = 3;
const START_MS: u64 = 10_000;

/// Sends bytes over a connection, or what a self-test puts in its place.
pub(crate) type Send = fn(&mut Node, conn: u64, bytes: &[u8], now_ms: u64) -> Vec<u8>;

pub(crate) fn laws(data: &[u8]) {
    laws_of(Node::send, data);
}

pub(crate) fn laws_of(send: Send, data: &[u8]) {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let steps = steps(rest);
    let limits = limits(how & 1 == 1);
    let piece = 1 + usize::from(how >> 1);
    // all but the smallest frames are large, and each answer ends a turn
    let mut small = limits.clone();
    (small.large_frame_bytes, small.turn_bytes) = (64, 1);
    let whole = Server::new(true, limits.clone(), send).run(&steps, usize::MAX);
    let cut = Server::new(true, limits.clone(), send).run(&steps, piece);
    same(&whole, &cut, "in pieces");
    let large = Server::new(true, small, send).run(&steps, 1 + piece / 8);
    same(&whole, &large, "as large frames");
    let full = Server::new(false, limits, send).run(&steps, usize::MAX);
    same(
        &whole,
        &full,
        "without the rule for unchanged registrations",
    );
}

/// The limits of a server, or those of a very small one.
fn limits(tight: bool) -> Limits {
    let mut limits = Limits {
        inflated_bytes: 1 << 20,
        ..Limits::default()
    };
    if tight {
        limits.frame.frame_bytes = 2048;
        limits.frame.header_bytes = 512;
        limits.frame.ext_fields = 12;
        limits.inflated_bytes = 2048;
        limits.name_bytes = 24;
        limits.topics_in_registration = 4;
        limits.filter_servers_bytes = 64;
        limits.topics = 6;
        limits.pairs = 10;
        limits.brokers = 3;
        limits.kv_value_bytes = 32;
        limits.kv_namespace_bytes = 96;
        limits.kv_total_bytes = 128;
        limits.small_body_bytes = 64;
        limits.accepted_per_connection = 2;
        limits.outstanding_commands = 1;
    }
    limits
}

fn same(whole: &[Vec<u8>], other: &[Vec<u8>], what: &str) {
    for (step, (whole, other)) in whole.iter().zip(other).enumerate() {
        assert!(
            whole == other,
            "step {step}, {what}: {}\ninstead of {}",
            String::from_utf8_lossy(other),
            String::from_utf8_lossy(whole)
        );
    }
}

/// A node, its connections, and what each of them is owed.
struct Server {
    node: Node,
    limits: Limits,
    send: Send,
    now_ms: u64,
    conns: Vec<Conn>,
}

/// A connection as its peer sees it.
struct Conn {
    id: u64,
    /// Sent, and not the whole of a frame.
    rest: Vec<u8>,
}

impl Server {
    fn new(unchanged_rule: bool, limits: Limits, send: Send) -> Self {
        let mut node = Node::with_limits(&[], unchanged_rule, limits.clone());
        let conns = (0..CONNS).map(|_| Conn::open(&mut node)).collect();
        Self {
            node,
            limits,
            send,
            now_ms: START_MS,
            conns,
        }
    }

    /// The answers of each step, whose bytes are sent in pieces of this size.
    fn run(mut self, steps: &[Step], piece: usize) -> Vec<Vec<u8>> {
        let mut answers: Vec<_> = steps.iter().map(|step| self.step(step, piece)).collect();
        let notices = self.node.notifications();
        answers.push(notices.into_iter().flat_map(|(_, frame)| frame).collect());
        for conn in 0..CONNS {
            self.node.close(self.conns[conn].id, self.now_ms);
        }
        let (_, _, brokers) = self.node.snapshot().counts();
        assert_eq!(brokers, 0, "brokers of connections that have all ended");
        answers
    }

    fn step(&mut self, step: &Step, piece: usize) -> Vec<u8> {
        let place = usize::from(step.conn) % CONNS;
        match &step.what {
            What::Bytes(bytes) => self.bytes(place, bytes, piece),
            What::Close => {
                self.node.close(self.conns[place].id, self.now_ms);
                self.conns[place] = Conn::open(&mut self.node);
                Vec::new()
            }
            What::Wait(ms) => {
                self.now_ms += u64::from(*ms);
                self.node.tick(self.now_ms);
                for conn in &mut self.conns {
                    if !self.node.is_open(conn.id) {
                        *conn = Conn::open(&mut self.node);
                    }
                }
                Vec::new()
            }
        }
    }

    fn bytes(&mut self, place: usize, bytes: &[u8], piece: usize) -> Vec<u8> {
        let id = self.conns[place].id;
        let mut answers = Vec::new();
        for piece in bytes.chunks(piece) {
            answers.extend((self.send)(&mut self.node, id, piece, self.now_ms));
        }
        let (owed, closes) = self.conns[place].owed(bytes, &self.limits);
        let read = read_answers(&answers).expect("answers as Java writes them");
        let got: Vec<_> = read.into_iter().map(|(opaque, _)| opaque).collect();
        assert_eq!(
            got, owed,
            "opaques of the answers, and of the two-way requests"
        );
        assert_eq!(
            self.node.is_open(id),
            !closes,
            "whether the connection goes on"
        );
        if closes {
            self.conns[place] = Conn::open(&mut self.node);
        }
        answers
    }
}

impl Conn {
    fn open(node: &mut Node) -> Self {
        Self {
            id: node.connect(),
            rest: Vec::new(),
        }
    }

    /// Opaques of the two-way requests that these bytes complete, and whether something in them
    /// ends the connection.
    fn owed(&mut self, bytes: &[u8], limits: &Limits) -> (Vec<i32>, bool) {
        self.rest.extend_from_slice(bytes);
        let (mut owed, mut taken) = (Vec::new(), 0);
        loop {
            let frame = match frame::cut(&self.rest[taken..], &limits.frame) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return (owed, true),
            };
            taken += frame.total_bytes;
            match Header::parse(&frame, &limits.frame) {
                Ok(header) if header.flag & 3 == 0 => owed.push(header.opaque),
                Ok(_) => {}
                Err(_) => return (owed, true),
            }
        }
        self.rest.drain(..taken);
        (owed, false)
    }
}
