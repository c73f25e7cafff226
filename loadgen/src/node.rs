//! A whole NameServer without sockets, on the caller's thread: the library's sessions and table.
//!
//! `self-test` drives it to find the tool's own ceiling, and tests put faults around it. It is
//! not the server: no batches, no limits on memory, and a change is published at once.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use namesrv::route::Now;
use namesrv::route::command::{Command, Effects, Envelope, Outcome};
use namesrv::route::snapshot::Snapshot;
use namesrv::route::table::Table;
use namesrv::session::jobs::DigestKeys;
use namesrv::session::{Env, Next, Session};
use namesrv::settings::Settings;
use namesrv::settings::limits::Limits;
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::reply::Output;

/// Answers to changes of files, which this server does not have.
const NO_FILES: Outcome = Outcome::Failed(1, std::borrow::Cow::Borrowed("no files here"));

/// The server.
pub struct Node {
    table: Table,
    snapshot: Arc<Snapshot>,
    peers: HashMap<u64, Peer>,
    last_peer: u64,
    limits: Limits,
    keys: DigestKeys,
    effects: Effects,
}

struct Peer {
    session: Session,
    input: Vec<u8>,
}

/// What comes after a part of the input.
enum Step {
    /// Handle the rest.
    Again,
    /// More input is needed.
    Wait,
    /// The session wants the end.
    End,
}

impl Default for Node {
    fn default() -> Self {
        let limits = Limits::default();
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let table = Table::new(
            hasher,
            Arc::new(Settings::default()),
            Arc::default(),
            &limits,
        );
        Self {
            snapshot: Arc::new(table.snapshot()),
            table,
            peers: HashMap::new(),
            last_peer: 0,
            limits,
            keys: DigestKeys::new([8, 7, 6, 5, 4, 3, 2, 1]),
            effects: Effects::default(),
        }
    }
}

impl Node {
    /// A new connection; returns its number.
    pub fn connect(&mut self) -> u64 {
        self.last_peer += 1;
        let peer = Peer {
            session: Session::new(0, self.last_peer),
            input: Vec::new(),
        };
        self.peers.insert(self.last_peer, peer);
        self.last_peer
    }

    /// Takes bytes of a connection at this millisecond and appends all answers to `out`. False
    /// when the connection has to be closed.
    pub fn receive(&mut self, peer: u64, bytes: &[u8], now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(mut of) = self.peers.remove(&peer) else {
            return false;
        };
        of.input.extend_from_slice(bytes);
        let now = Now {
            mono_ms: now_ms,
            wall_ms: now_ms as i64,
        };
        let mut output = Output::default();
        loop {
            let snapshot = Arc::clone(&self.snapshot);
            let fed = of
                .session
                .feed(&of.input, &self.env(&snapshot, now), &mut output);
            of.input.drain(..fed.used);
            let step = self.settle(&mut of, fed.next, now, &mut output);
            for slice in output.io_slices(0) {
                out.extend_from_slice(&slice);
            }
            output.clear();
            match step {
                Step::Again => {}
                Step::Wait => break,
                Step::End => {
                    self.gone(&of.session, now);
                    return false;
                }
            }
        }
        self.peers.insert(peer, of);
        true
    }

    /// The connection has ended.
    pub fn disconnect(&mut self, peer: u64, now_ms: u64) {
        if let Some(of) = self.peers.remove(&peer) {
            let now = Now {
                mono_ms: now_ms,
                wall_ms: now_ms as i64,
            };
            self.gone(&of.session, now);
        }
    }

    /// Forgets who has been silent for too long. Returns the connections to close.
    pub fn tick(&mut self, now_ms: u64) -> Vec<u64> {
        let now = Now {
            mono_ms: now_ms,
            wall_ms: now_ms as i64,
        };
        let pace = Pace::default();
        run_to_end(self.table.tick(now, 0, &mut self.effects, &pace));
        self.publish();
        std::mem::take(&mut self.effects.close)
    }

    fn settle(&mut self, of: &mut Peer, mut next: Next, now: Now, output: &mut Output) -> Step {
        loop {
            let snapshot = Arc::clone(&self.snapshot);
            next = match next {
                Next::Send | Next::Wait => return Step::Again,
                Next::Receive => return Step::Wait,
                // Nobody is asked anything without `clusterTest`, which is off here.
                Next::Close(_) | Next::Ask(_) => return Step::End,
                Next::Submit(envelope) => {
                    let origin = envelope.origin;
                    let outcome = self.apply(envelope, now);
                    let snapshot = Arc::clone(&self.snapshot);
                    of.session
                        .outcome(origin, outcome, &self.env(&snapshot, now), output);
                    return Step::Again;
                }
                Next::Run(job) => {
                    let pace = Pace::default();
                    let done = run_to_end(job.run(&self.keys, &self.limits, now.wall_ms, &pace));
                    of.session.job_done(done, &self.env(&snapshot, now), output)
                }
                Next::Large(total) if of.input.len() < total => return Step::Wait,
                Next::Large(total) => {
                    let frame: Vec<u8> = of.input.drain(..total).collect();
                    let frame = Bytes::from(frame);
                    of.session.large(&frame, &self.env(&snapshot, now), output)
                }
            };
            if matches!(next, Next::Receive) {
                return Step::Again;
            }
        }
    }

    fn apply(&mut self, envelope: Envelope, now: Now) -> Outcome {
        if matches!(envelope.command, Command::Persist(_)) {
            return NO_FILES;
        }
        let pace = Pace::default();
        let outcome = run_to_end(self.table.apply(now, envelope, &mut self.effects, &pace));
        self.effects.events.clear();
        self.effects.notices.clear();
        self.publish();
        outcome
    }

    fn gone(&mut self, session: &Session, now: Now) {
        if let Some(envelope) = session.end() {
            self.apply(envelope, now);
        }
    }

    fn publish(&mut self) {
        if let Some(snapshot) = self.table.publish() {
            self.snapshot = Arc::new(snapshot);
        }
    }

    fn env<'a>(&'a self, snapshot: &'a Arc<Snapshot>, now: Now) -> Env<'a> {
        Env {
            snapshot,
            limits: &self.limits,
            keys: &self.keys,
            now,
            leaving: false,
            cluster_test: false,
            unchanged_rule: true,
        }
    }
}
