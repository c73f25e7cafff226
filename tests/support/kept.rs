//! Sequences that once failed, each named after what it showed.
//!
//! What a failing model test prints can be pasted here as it is.

use super::workload::Ask::*;
use super::workload::{Op, Place, Register, Send};

/// A name for the failure, and the steps to it.
pub(crate) fn sequences() -> Vec<(&'static str, Vec<Op>)> {
    vec![
        (
            "one notification for all members that go at once",
            loss_of_two_members(),
        ),
        (
            "a conflict leaves the clock of another group alone",
            conflict_over_a_shared_address(),
        ),
        (
            "a repetition that is not idempotent",
            map_keys_that_are_no_topics(),
        ),
        (
            "a mapping that somebody else registered as well",
            mapping_of_another_broker(),
        ),
        (
            "a mapping that another broker takes over is no longer its sender's",
            mapping_taken_over(),
        ),
        (
            "an id below 0 passes for a master",
            loss_beside_a_negative_id(),
        ),
    ]
}

fn loss_of_two_members() -> Vec<Op> {
    vec![
        Op::Send(Send {
            ask: Switch {
                switch: 2,
                on: true,
            },
            ..register(0, PLAIN)
        }),
        Op::Send(register(
            3,
            Register {
                name: 3,
                id: 0,
                at: at(3, 1),
                ..PLAIN
            },
        )),
        Op::Send(register(
            3,
            Register {
                name: 3,
                id: 1,
                at: at(4, 1),
                acting: 2,
                ..PLAIN
            },
        )),
        Op::Close(3),
    ]
}

/// The address that holds the id in b3 is alive under another cluster as b2.
fn conflict_over_a_shared_address() -> Vec<Op> {
    vec![
        Op::Send(register(
            3,
            Register {
                name: 3,
                at: at(3, 1),
                ..PLAIN
            },
        )),
        Op::Send(register(
            3,
            Register {
                name: 2,
                at: at(3, 0),
                state: 1,
                ..PLAIN
            },
        )),
        Op::Wait(119_000),
        Op::Wait(1001),
        Op::Send(register(
            0,
            Register {
                name: 3,
                at: at(0, 0),
                ..PLAIN
            },
        )),
        Op::Send(Send {
            ask: Heartbeat {
                at: at(3, 0),
                missing: 0,
            },
            ..register(0, PLAIN)
        }),
        Op::Tick,
    ]
}

/// Each repetition drops the topics and brings them again, and their mappings go with them.
fn map_keys_that_are_no_topics() -> Vec<Op> {
    let odd = Register {
        topics: 103,
        odd_keys: true,
        ..PLAIN
    };
    vec![
        Op::Send(Send {
            ask: Switch {
                switch: 3,
                on: true,
            },
            ..register(0, PLAIN)
        }),
        Op::Send(register(
            0,
            Register {
                topics: 0,
                mappings: 1,
                ..PLAIN
            },
        )),
        Op::Send(register(0, odd)),
        Op::Again { name: 0, id: 0 },
    ]
}

/// b2 sends a mapping that b1 owns. When b1 goes, b2's next repetition brings it back.
fn mapping_of_another_broker() -> Vec<Op> {
    let first = Register {
        name: 1,
        id: 1,
        at: at(1, 1),
        acting: 1,
        mappings: 1,
        ..PLAIN
    };
    let second = Register {
        name: 2,
        id: 1,
        at: at(4, 0),
        acting: 1,
        mappings: 2,
        ..PLAIN
    };
    vec![
        Op::Send(register(1, first)),
        Op::Send(register(0, second)),
        Op::Send(Send {
            ask: Unregister {
                name: 1,
                id: 1,
                at: at(1, 1),
                missing: 0,
            },
            ..register(0, PLAIN)
        }),
        Op::Send(register(1, first)),
        Op::Send(register(0, second)),
        Op::Send(register(
            1,
            Register {
                name: 3,
                at: at(1, 1),
                ..PLAIN
            },
        )),
        Op::Send(register(0, second)),
    ]
}

/// b1 sends a mapping, then b0 takes it over and expires: b1's next repetition brings it back.
fn mapping_taken_over() -> Vec<Op> {
    let other = Register {
        name: 0,
        id: 2,
        at: at(2, 0),
        acting: 1,
        timeout: 3,
        form: 2,
        topics: 5,
        mappings: 4,
        ..PLAIN
    };
    let sender = Register {
        name: 1,
        id: 1,
        at: at(1, 1),
        acting: 1,
        form: 2,
        topics: 33,
        mappings: 4,
        ..PLAIN
    };
    let holder = Register {
        name: 2,
        at: at(3, 0),
        topics: 17,
        ..PLAIN
    };
    vec![
        Op::Send(register(3, holder)),
        Op::Send(register(2, other)),
        Op::Tick,
        Op::Send(register(1, sender)),
        Op::Again { name: 0, id: 2 },
        Op::Tick,
        Op::Again { name: 1, id: 1 },
    ]
}

/// Java asks for a smallest id above 0 where it takes the right to write away.
fn loss_beside_a_negative_id() -> Vec<Op> {
    let negative = Register {
        id: -1,
        at: at(3, 0),
        acting: 2,
        topics: 0,
        ..PLAIN
    };
    let master = Register { acting: 2, ..PLAIN };
    vec![
        Op::Send(register(0, master)),
        Op::Send(register(3, negative)),
        Op::Close(0),
    ]
}

/// A master with two topics.
const PLAIN: Register = Register {
    name: 0,
    id: 0,
    at: Place {
        addr: 0,
        cluster: 0,
    },
    acting: 0,
    zone: 0,
    timeout: 0,
    version: 0,
    form: 0,
    topics: 3,
    shapes: 0,
    odd_keys: false,
    counter: 0,
    state: 0,
    stamp: 0,
    mappings: 0,
    filters: 0,
    fault: 0,
};

fn register(conn: u8, what: Register) -> Send {
    Send {
        conn,
        oneway: false,
        binary: false,
        ask: Register(what),
    }
}

fn at(addr: u8, cluster: u8) -> Place {
    Place { addr, cluster }
}
