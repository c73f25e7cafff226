//! A sequence of commands at the server's pure half and at the oracle, step by step.
//!
//! After each step the step's answers and notifications are compared, then everything that the
//! step may have touched; at the end, and where a step says so, every query there is.

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::Oracle;
use crate::support::answer::{Answer, read_answers, read_notification};
use crate::support::node::Node;
use crate::support::request::Request;
use crate::support::workload::{
    ADDRS, Ask, CLUSTERS, CONNS, NAMES, NAMESPACES, Op, Place, Send, TOPICS,
};

/// Not 0: what an answer says about "now" must not look like a default.
const START_MS: u64 = 10_000;

/// Runs a sequence at this node, which must be a new one, and asks everything at its end.
pub(crate) fn replay(node: Node, ops: &[Op]) -> Result<(), String> {
    let mut run = Run::new(node);
    for (number, op) in ops.iter().enumerate() {
        run.step(op)
            .map_err(|reason| format!("step {number}, {op:?}: {reason}"))?;
    }
    run.compare_everything()
        .map_err(|reason| format!("at the end: {reason}"))
}

/// One connection at the oracle and at the node.
#[derive(Clone, Copy)]
struct Line {
    oracle: u64,
    node: u64,
}

/// Both servers, their clients and their clock.
struct Run {
    oracle: Oracle,
    node: Node,
    now_ms: u64,
    opaque: i32,
    lines: Vec<Line>,
    /// Asks only, and never registers.
    observer: Line,
    /// The last 103 of each name and id.
    last: BTreeMap<(u8, i8), Send>,
}

impl Run {
    fn new(mut node: Node) -> Self {
        let mut oracle = Oracle::new(&[]);
        let mut open = || Line {
            oracle: oracle.connect(),
            node: node.connect(),
        };
        let lines = (0..CONNS).map(|_| open()).collect();
        let observer = open();
        let last = BTreeMap::new();
        Self {
            oracle,
            node,
            now_ms: START_MS,
            opaque: 0,
            lines,
            observer,
            last,
        }
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        let mut touched = Touched::default();
        match op {
            Op::Send(send) => self.send(std::slice::from_ref(send), 0, &mut touched)?,
            Op::Burst(sends, cut) => self.send(sends, *cut, &mut touched)?,
            Op::Again { name, id } => {
                if let Some(send) = self.last.get(&(*name, *id)).copied() {
                    self.send(&[send], 0, &mut touched)?;
                }
            }
            Op::Close(conn) => self.reopen(usize::from(*conn)),
            Op::AskAll => self.compare_everything()?,
            Op::Wait(ms) => self.now_ms += u64::from(*ms),
            Op::Tick => {
                let ended = self.oracle.tick(self.now_ms);
                self.node.tick(self.now_ms);
                for conn in 0..self.lines.len() {
                    if ended.contains(&self.lines[conn].oracle) {
                        self.reopen(conn);
                    }
                }
            }
        }
        self.oracle.check();
        self.compare_notifications()?;
        self.compare(&touched)
    }

    /// Sends these requests of one connection in one go, or in two.
    fn send(&mut self, sends: &[Send], cut: u8, touched: &mut Touched) -> Result<(), String> {
        let line = self.lines[usize::from(sends[0].conn)];
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for send in sends {
            if let Ask::Register(r) = &send.ask {
                self.last.insert((r.name, r.id), *send);
            }
            touched.add(&send.ask);
            self.opaque = self.opaque.wrapping_mul(31).wrapping_add(7);
            let req = send.request(self.opaque);
            bytes.extend(if send.binary {
                req.binary_frame()
            } else {
                req.json_frame()
            });
            let answer = self.oracle.request(line.oracle, &req, self.now_ms);
            expected.extend(answer.map(|answer| (self.opaque, answer)));
        }
        let (first, second) = bytes.split_at(bytes.len() * usize::from(cut) / 256);
        let mut actual = self.node.send(line.node, first, self.now_ms);
        actual.extend(self.node.send(line.node, second, self.now_ms));
        same_answers(&expected, &actual)
    }

    fn reopen(&mut self, conn: usize) {
        self.oracle.close(self.lines[conn].oracle);
        self.node.close(self.lines[conn].node, self.now_ms);
        self.lines[conn] = Line {
            oracle: self.oracle.connect(),
            node: self.node.connect(),
        };
    }

    fn ask(&mut self, mut req: Request) -> Result<(), String> {
        self.opaque = self.opaque.wrapping_add(1);
        req.opaque = self.opaque;
        let expected = self.oracle.request(self.observer.oracle, &req, self.now_ms);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|answer| (req.opaque, answer))
            .collect();
        let actual = self
            .node
            .send(self.observer.node, &req.json_frame(), self.now_ms);
        same_answers(&expected, &actual).map_err(|reason| format!("{req:?}: {reason}"))
    }

    fn compare_notifications(&mut self) -> Result<(), String> {
        let mut actual = self.node.notifications();
        for expected in self.oracle.notifications() {
            let ext: Vec<_> = expected
                .ext
                .iter()
                .map(|(key, v)| (*key, v.as_str()))
                .collect();
            let same = |(to, frame): &(String, Vec<u8>)| {
                *to == expected.to && read_notification(frame, &ext).is_ok()
            };
            let found = actual.iter().position(same);
            let place = found.ok_or_else(|| format!("no {expected:?} in {}", show(&actual)))?;
            actual.swap_remove(place);
        }
        if actual.is_empty() {
            Ok(())
        } else {
            Err(format!("sent as well: {}", show(&actual)))
        }
    }

    fn compare(&mut self, touched: &Touched) -> Result<(), String> {
        for topic in &touched.topics {
            for version in [317, 479] {
                self.ask(Request {
                    version,
                    ..Request::new(105).with("topic", topic)
                })?;
            }
        }
        self.ask(Request::new(106))?;
        for name in &touched.names {
            let ask = Request::new(901).with("brokerName", name);
            self.ask(ask.with("clusterName", CLUSTERS[0]))?;
        }
        for (addr, cluster) in &touched.places {
            let ask = Request::new(322).with("brokerAddr", addr);
            self.ask(ask.with("clusterName", cluster))?;
        }
        Ok(())
    }

    fn compare_everything(&mut self) -> Result<(), String> {
        self.compare(&Touched::everything())?;
        for topic in TOPICS.iter().chain(&["unknown"]) {
            let route = |version| Request {
                version,
                ..Request::new(105).with("topic", topic)
            };
            self.ask(route(0).with("acceptStandardJsonOnly", "true"))?;
            for (mode, zone) in [
                ("true", "east"),
                ("True", "WEST"),
                ("true", " "),
                ("1", "x"),
            ] {
                for version in [400, 401] {
                    let ask = route(version).with("__ZONE_MODE", mode);
                    self.ask(ask.with("__ZONE_NAME", zone))?;
                }
            }
            for namespace in NAMESPACES {
                let ask = Request::new(101).with("namespace", namespace);
                self.ask(ask.with("key", topic))?;
            }
        }
        for code in [105, 101, 206, 219, 224, 304, 311, 312, 313, 901] {
            self.ask(Request::new(code))?;
        }
        for namespace in NAMESPACES {
            self.ask(Request::new(219).with("namespace", namespace))?;
        }
        for cluster in CLUSTERS {
            self.ask(Request::new(224).with("cluster", cluster))?;
        }
        self.ask(Request::new(106).with("acceptStandardJsonOnly", "true"))?;
        for name in NAMES {
            let ask = Request::new(901).with("acceptStandardJsonOnly", "TRUE");
            self.ask(ask.with("brokerName", name))?;
        }
        Ok(())
    }
}

/// What a step may have changed.
#[derive(Default)]
struct Touched {
    topics: BTreeSet<&'static str>,
    names: BTreeSet<&'static str>,
    places: BTreeSet<(&'static str, &'static str)>,
}

impl Touched {
    fn add(&mut self, ask: &Ask) {
        match *ask {
            Ask::Register(r) => {
                self.broker(r.name, r.at);
                let sent = TOPICS
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| r.topics >> bit & 1 == 1);
                self.topics.extend(sent.map(|(_, topic)| topic));
            }
            Ask::Unregister { name, at, .. } => self.broker(name, at),
            Ask::Heartbeat { at, .. } | Ask::Version { at, .. } => self.place(at),
            Ask::DeleteTopic { topic, .. } | Ask::RegisterTopic { topic, .. } => {
                self.topics.insert(TOPICS[usize::from(topic)]);
            }
            Ask::Wipe(_) | Ask::Add(_) => self.topics.extend(TOPICS),
            Ask::Put { key, .. } | Ask::Delete { key, .. } => {
                self.topics.insert(TOPICS[usize::from(key)]);
            }
            Ask::Switch { .. } | Ask::WaitSeconds(_) | Ask::Unknown(_) => {
                self.topics.insert(TOPICS[0]);
            }
        }
    }

    fn broker(&mut self, name: u8, at: Place) {
        self.names.insert(NAMES[usize::from(name)]);
        self.place(at);
    }

    fn place(&mut self, at: Place) {
        self.places.insert((
            ADDRS[usize::from(at.addr)],
            CLUSTERS[usize::from(at.cluster)],
        ));
    }

    fn everything() -> Self {
        let places = ADDRS
            .iter()
            .flat_map(|addr| CLUSTERS.iter().map(|c| (*addr, *c)));
        Self {
            topics: TOPICS.into(),
            names: NAMES.into(),
            places: places.collect(),
        }
    }
}

fn same_answers(expected: &[(i32, Answer)], bytes: &[u8]) -> Result<(), String> {
    let actual = read_answers(bytes)?;
    let same = expected.len() == actual.len()
        && expected
            .iter()
            .zip(&actual)
            .all(|(e, a)| e.0 == a.0 && e.1.admits(&a.1));
    if same {
        return Ok(());
    }
    let show = |answers: &[(i32, Answer)]| {
        let lines = answers
            .iter()
            .map(|(opaque, answer)| format!("\n  {opaque}: {answer}"));
        lines.collect::<String>()
    };
    Err(format!(
        "expected{}\nanswered{}",
        show(expected),
        show(&actual)
    ))
}

fn show(notifications: &[(String, Vec<u8>)]) -> String {
    let text = |frame: &[u8]| String::from_utf8_lossy(&frame[8.min(frame.len())..]).into_owned();
    notifications
        .iter()
        .map(|(to, frame)| format!("\n  {to}: {}", text(frame)))
        .collect()
}
