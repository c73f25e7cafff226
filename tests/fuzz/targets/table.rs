//! The tables: any sequence of commands has the oracle's answers, with and without the rule for
//! unchanged registrations.
//!
//! The bytes are steps of the model test, read by [`ops`]; the first bit is the rule's.

use crate::model::replay;
use crate::support::node::Node;
use crate::support::workload::{
    ADDRS, Ask, CLUSTERS, CONNS, NAMES, NAMESPACES, Op, Place, Register, Send, TOPICS,
};

/// Steps of one input: as in the model test.
const STEPS: usize = 250;

/// A new node, or what a self-test puts in its place.
pub(crate) type NewNode = fn(unchanged_rule: bool) -> Node;

pub(crate) fn laws(data: &[u8]) {
    laws_of(|rule| Node::new(&[], rule), data);
}

pub(crate) fn laws_of(node: NewNode, data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let ops = ops(rest);
    if let Err(reason) = replay(node(first & 1 == 1), &ops) {
        panic!("{reason}\n{ops:#?}");
    }
}

/// Reads steps to the end of the bytes. Whatever the bytes, each is one that the model test could
/// draw; a step takes few bytes, so that a change of one byte changes one thing.
fn ops(data: &[u8]) -> Vec<Op> {
    let mut bytes = Bytes(data);
    let mut ops = Vec::new();
    while !bytes.0.is_empty() && ops.len() < STEPS {
        ops.push(bytes.op());
    }
    ops
}

/// What is left of the input; behind its end there are zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> u8 {
        (usize::from(self.byte()) % end) as u8
    }

    fn op(&mut self) -> Op {
        match self.below(16) {
            0..=8 => Op::Send(self.send()),
            9 => {
                let sends = [self.send(), self.send(), self.send()];
                let conn = sends[0].conn;
                Op::Burst(sends.map(|send| Send { conn, ..send }), self.byte())
            }
            10 | 11 => Op::Again {
                name: self.below(NAMES.len()),
                id: self.id(),
            },
            12 => Op::Close(self.below(CONNS.into())),
            13 => Op::Wait(match self.byte() {
                short @ 0..128 => u32::from(short) * 16,
                long => u32::from(long) * 1000,
            }),
            14 => Op::Tick,
            _ => Op::AskAll,
        }
    }

    fn send(&mut self) -> Send {
        let how = self.byte();
        Send {
            conn: how % CONNS,
            // seldom, since a silent request shows less
            oneway: how >= 224,
            binary: how & 0x18 == 0x18,
            ask: self.ask(),
        }
    }

    fn ask(&mut self) -> Ask {
        let topic = TOPICS.len();
        // one past the end is unknown
        let name = NAMES.len() + 1;
        match self.below(24) {
            0..=9 => Ask::Register(self.register()),
            10 | 11 => Ask::Unregister {
                name: self.below(NAMES.len()),
                id: self.id(),
                at: self.place(),
                missing: self.seldom(8),
            },
            12 => Ask::Heartbeat {
                at: self.place(),
                missing: self.seldom(4),
            },
            13 | 14 => Ask::Version {
                at: self.place(),
                counter: self.below(3),
                state: self.below(3),
                body: self.seldom(6),
                missing: self.seldom(4),
            },
            15 => Ask::DeleteTopic {
                topic: self.below(topic),
                cluster: self.below(CLUSTERS.len() + 2),
            },
            16 => Ask::RegisterTopic {
                topic: self.below(topic),
                brokers: [self.below(name), self.below(name)],
                shape: self.byte(),
                body: self.seldom(5),
            },
            17 => Ask::Wipe(self.below(name)),
            18 => Ask::Add(self.below(name)),
            19 => Ask::Put {
                namespace: self.below(NAMESPACES.len()),
                key: self.below(topic),
                value: self.below(4),
            },
            20 => Ask::Delete {
                namespace: self.below(NAMESPACES.len()),
                key: self.below(topic),
            },
            21 => {
                let how = self.byte();
                Ask::Switch {
                    switch: how >> 1 & 7,
                    on: how & 1 == 1,
                }
            }
            22 => Ask::WaitSeconds([0, 45, 2000][usize::from(self.below(3))]),
            _ => Ask::Unknown([0, 905, 9999, -7][usize::from(self.below(4))]),
        }
    }

    fn register(&mut self) -> Register {
        let (name, id) = (self.below(NAMES.len()), self.id());
        let at = self.place();
        let topics = self.byte();
        let (head, body, state) = (self.byte(), self.byte(), self.byte());
        Register {
            name,
            id,
            at,
            acting: head & 3,
            zone: head >> 2 & 3,
            timeout: self.seldom(6),
            version: self.seldom(8),
            form: body & 3,
            topics,
            shapes: body >> 2 & 3,
            odd_keys: body & 0xf0 == 0xf0,
            counter: state & 3,
            state: state >> 2 & 3,
            stamp: state >> 4 & 3,
            mappings: self.seldom(5),
            filters: self.seldom(5),
            fault: self.seldom(12),
        }
    }

    fn place(&mut self) -> Place {
        let byte = self.byte();
        Place {
            addr: byte % ADDRS.len() as u8,
            cluster: byte >> 4 & 1,
        }
    }

    /// -1 to 2
    fn id(&mut self) -> i8 {
        (self.byte() & 3) as i8 - 1
    }

    /// Mostly 0, else below `end`.
    fn seldom(&mut self, end: u8) -> u8 {
        self.byte().saturating_sub(192) % end
    }
}
