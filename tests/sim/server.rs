//! The server minus sockets, taken apart at every point where the real one can be interrupted.
//!
//! Real sessions and the real table; the shell around them is this file. Several cores each hold
//! a snapshot, loaded after every receive and every wait. A turn may stop between the receive and
//! the handling. Commands wait in the mailbox, a batch is applied, later published, and then its
//! outcomes wait in the inboxes of the cores. Whoever drives decides when each of these happens;
//! what must happen some time is listed in [`Server::wants`].
//!
//! Everything that happened is listed in [`Server::facts`], in order, for the auditor. Faults can
//! be planted in this shell, to show that the auditor sees them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use namesrv::route::Now;
use namesrv::route::command::{
    Change, Command, Effects, Envelope, Event, MinBrokerIdNotice, Origin, Outcome,
};
use namesrv::route::snapshot::Snapshot;
use namesrv::route::staging::{split, stage_kv, stage_settings};
use namesrv::route::table::Table;
use namesrv::session::jobs::{DigestKeys, Job};
use namesrv::session::{Env, Next, Session};
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::reply::Output;

use super::setup::{Fact, Fault, Setup, Want};

/// Milliseconds on the wall clock at monotonic 0.
const WALL_MS: i64 = 1_700_000_000_000;

pub(crate) struct Server {
    pub(crate) now_ms: u64,
    pub(crate) facts: Vec<Fact>,
    pub(crate) wants: Vec<Want>,
    /// What would have been logged.
    pub(crate) events: Vec<Event>,
    /// 905s, once they may be sent.
    pub(crate) notices: Vec<MinBrokerIdNotice>,
    setup: Setup,
    keys: DigestKeys,
    table: Table,
    seq: u64,
    published: (Arc<Snapshot>, u64),
    /// All snapshots there were, to see that they are freed.
    past: Vec<Weak<Snapshot>>,
    cores: Vec<Core>,
    conns: BTreeMap<u64, Conn>,
    last_conn: u64,
    mailbox: VecDeque<Envelope>,
    /// What follows from the batch, or the tick, that is not published yet.
    batch: Option<Batch>,
}

#[derive(Default)]
struct Batch {
    answers: Vec<(Origin, Outcome)>,
    effects: Effects,
}

struct Core {
    snapshot: (Arc<Snapshot>, u64),
    loads: u64,
    /// Has received and not yet handled.
    half_turn: Option<u64>,
    inbox: VecDeque<(Origin, Outcome)>,
    /// Ends of connections that found the mailbox full.
    gone: VecDeque<Envelope>,
}

struct Conn {
    core: usize,
    session: Session,
    /// In the kernel.
    arrived: Vec<u8>,
    /// Received and not handled.
    input: Vec<u8>,
    handled: u64,
    job: Option<Job>,
    peer_ended: bool,
    /// The end of the stream has been received.
    at_end: bool,
    /// The writer wants it closed.
    told: bool,
}

impl Server {
    pub(crate) fn new(setup: Setup) -> Self {
        let keys = setup.keys;
        let hasher = ahash::RandomState::with_seeds(keys, keys + 1, keys + 2, keys + 3);
        let settings = Arc::new(setup.settings.clone());
        let table = Table::new(hasher, settings, Arc::default(), &setup.limits);
        let snapshot = Arc::new(table.snapshot());
        let core = |_| Core {
            snapshot: (Arc::clone(&snapshot), 0),
            loads: 0,
            half_turn: None,
            inbox: VecDeque::new(),
            gone: VecDeque::new(),
        };
        Self {
            now_ms: 0,
            facts: Vec::new(),
            wants: Vec::new(),
            events: Vec::new(),
            notices: Vec::new(),
            keys: DigestKeys::new([keys; 8]),
            cores: (0..setup.cores).map(core).collect(),
            setup,
            table,
            seq: 0,
            published: (snapshot, 0),
            past: Vec::new(),
            conns: BTreeMap::new(),
            last_conn: 0,
            mailbox: VecDeque::new(),
            batch: None,
        }
    }

    /// A new connection, which a core has accepted.
    pub(crate) fn connect(&mut self, core: usize) -> u64 {
        self.last_conn += 1;
        let conn = Conn {
            core,
            session: Session::new(core, self.last_conn),
            arrived: Vec::new(),
            input: Vec::new(),
            handled: 0,
            job: None,
            peer_ended: false,
            at_end: false,
            told: false,
        };
        self.conns.insert(self.last_conn, conn);
        self.last_conn
    }

    /// Bytes of the peer have reached the kernel.
    pub(crate) fn arrive(&mut self, conn: u64, bytes: &[u8]) {
        if let Some(c) = self.conns.get_mut(&conn) {
            c.arrived.extend_from_slice(bytes);
        }
    }

    /// The peer's end of the stream has reached the kernel, behind its bytes.
    pub(crate) fn arrive_end(&mut self, conn: u64) {
        if let Some(c) = self.conns.get_mut(&conn) {
            c.peer_ended = true;
        }
    }

    /// First half of a turn: the receive of up to `most` bytes, and the load of the snapshot.
    pub(crate) fn receive(&mut self, conn: u64, most: usize) {
        let Some(core) = self.conns.get(&conn).map(|c| c.core) else {
            return;
        };
        self.finish_turn(core);
        let Some(c) = self.conns.get_mut(&conn) else {
            return;
        };
        // What waits in front of the socket is handled first.
        if c.job.is_none() && !c.session.must_wait(&self.setup.limits) {
            let taken = most.min(c.arrived.len());
            c.input.extend(c.arrived.drain(..taken));
            c.at_end = c.peer_ended && c.arrived.is_empty();
        }
        self.load(conn, false);
        self.cores[core].half_turn = Some(conn);
    }

    /// Second half of the turn that the core has begun, if it has.
    pub(crate) fn finish_turn(&mut self, core: usize) {
        if let Some(conn) = self.cores[core].half_turn.take() {
            self.handle(conn);
        }
    }

    /// A job of the connection has run to its end.
    pub(crate) fn finish_job(&mut self, conn: u64) {
        let Some(core) = self.conns.get(&conn).map(|c| c.core) else {
            return;
        };
        self.finish_turn(core);
        let Some(job) = self.conns.get_mut(&conn).and_then(|c| c.job.take()) else {
            return;
        };
        let pace = Pace::default();
        let wall_ms = self.now().wall_ms;
        let done = run_to_end(job.run(&self.keys, &self.setup.limits, wall_ms, &pace));
        self.load(conn, false);
        let next = self.with_session(conn, |session, env, out| session.job_done(done, env, out));
        if let Some(next) = next {
            self.follow(conn, next);
            self.handle(conn);
            self.obey(conn);
        }
    }

    /// The writer applies up to `most` commands that wait.
    pub(crate) fn apply(&mut self, most: usize) {
        if self.mailbox.is_empty() {
            return;
        }
        self.publish();
        if self.setup.fault == Some(Fault::CommandsSwapped) && self.mailbox.len() > 1 {
            self.mailbox.swap(0, 1);
        }
        let mut batch = Batch::default();
        for _ in 0..most {
            let Some(envelope) = self.mailbox.pop_front() else {
                break;
            };
            self.apply_one(envelope, &mut batch);
        }
        self.batch = Some(batch);
        self.wants.push(Want::Publish);
        if self.setup.fault == Some(Fault::AnswerBeforePublish) {
            self.hand_out();
        }
    }

    /// The batch becomes visible, then its outcomes leave.
    pub(crate) fn publish(&mut self) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        let effects = std::mem::take(&mut batch.effects);
        self.store();
        self.hand_out();
        self.batch = None;
        self.perform(effects);
    }

    /// The oldest outcome in the core's inbox reaches its connection.
    pub(crate) fn deliver(&mut self, core: usize) {
        self.finish_turn(core);
        let Some((mut origin, outcome)) = self.cores[core].inbox.pop_front() else {
            return;
        };
        match self.setup.fault {
            Some(Fault::OutcomeLost) if origin.opaque % 16 == 0 => return,
            Some(Fault::OutcomeAstray) => {
                let own = |conn: &u64| self.conns[conn].core == core;
                let other = self.conns.range(origin.conn..).map(|(c, _)| *c).find(own);
                origin.conn = other.unwrap_or(origin.conn);
            }
            _ => {}
        }
        if !self.conns.contains_key(&origin.conn) {
            return;
        }
        self.load(origin.conn, true);
        let take = |session: &mut Session, env: &Env<'_>, out: &mut Output| {
            if session.outstanding() > 0 {
                session.outcome(origin, outcome, env, out);
            }
        };
        self.with_session(origin.conn, take);
        self.handle(origin.conn);
        self.obey(origin.conn);
    }

    /// The writer's tick, so much later than planned. What it removes is dead at once and visible
    /// with the next [`Server::publish`].
    pub(crate) fn tick(&mut self, late_ms: u64) {
        self.publish();
        self.seq += 1;
        let told_ms = match self.setup.fault {
            Some(Fault::LateTickBlamed) => 0,
            _ => late_ms,
        };
        let mut effects = Effects::default();
        if self.setup.fault != Some(Fault::TickSkipped) {
            let (now, pace) = (self.now(), Pace::default());
            run_to_end(self.table.tick(now, told_ms, &mut effects, &pace));
        }
        let seq = self.seq;
        self.facts.push(Fact::Ticked { late_ms, seq });
        self.batch = Some(Batch {
            answers: Vec::new(),
            effects,
        });
        self.wants.push(Want::Publish);
    }

    /// The order to close reaches the connection. It waits for what is under way, and is void if
    /// that has brought a broker back.
    pub(crate) fn close_if_idle(&mut self, conn: u64) {
        if let Some(c) = self.conns.get_mut(&conn) {
            c.told = true;
            self.obey(conn);
        }
    }

    fn obey(&mut self, conn: u64) {
        let Some(c) = self.conns.get_mut(&conn).filter(|c| c.told) else {
            return;
        };
        if self.setup.fault != Some(Fault::ClosedInUse) {
            if c.job.is_some() || c.session.outstanding() > 0 {
                return;
            }
            if c.session.has_live_broker() {
                c.told = false;
                return;
            }
        }
        self.forget(conn, true);
    }

    /// The connection ends, whatever it still has to do.
    pub(crate) fn end(&mut self, conn: u64) {
        self.forget(conn, false);
    }

    fn forget(&mut self, conn: u64, ordered: bool) {
        let Some(c) = self.conns.remove(&conn) else {
            return;
        };
        let core = &mut self.cores[c.core];
        if core.half_turn == Some(conn) {
            core.half_turn = None;
        }
        self.facts.push(Fact::Ended { conn, ordered });
        if let Some(farewell) = c.session.end() {
            core.gone.push_back(farewell);
            if self.setup.fault == Some(Fault::GoneDropped)
                && self.mailbox.len() >= self.setup.mailbox
            {
                self.cores[c.core].gone.clear();
            }
            self.flush_gone(c.core);
        }
    }

    /// What every core does now and then: no old snapshot stays, no end of a connection either.
    pub(crate) fn sweep(&mut self) {
        for core in 0..self.cores.len() {
            self.finish_turn(core);
            self.cores[core].snapshot = self.published.clone();
            self.flush_gone(core);
        }
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn is_open(&self, conn: u64) -> bool {
        self.conns.contains_key(&conn)
    }

    pub(crate) fn connections(&self) -> Vec<u64> {
        self.conns.keys().copied().collect()
    }

    /// The tables as a reader meets them who comes now.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.published.0
    }

    /// Snapshots that somebody still holds beside the newest.
    pub(crate) fn old_snapshots(&self) -> usize {
        self.past.iter().filter(|s| s.strong_count() > 0).count()
    }

    /// Commands that wait for the writer, and ends of connections that wait for room.
    pub(crate) fn waiting(&self) -> usize {
        let gone: usize = self.cores.iter().map(|c| c.gone.len()).sum();
        self.mailbox.len() + gone
    }

    fn now(&self) -> Now {
        Now {
            mono_ms: self.now_ms,
            wall_ms: WALL_MS + self.now_ms as i64,
        }
    }

    fn load(&mut self, conn: u64, fresh: bool) {
        let core = &mut self.cores[self.conns[&conn].core];
        core.loads += 1;
        let stale = self.setup.fault == Some(Fault::StaleSnapshot);
        if !stale || fresh || core.loads.is_multiple_of(4) {
            core.snapshot = self.published.clone();
        }
        let seq = core.snapshot.1;
        self.facts.push(Fact::Loaded { conn, seq });
    }

    /// Handles the frames that stand in the input, as far as nothing is in their way.
    fn handle(&mut self, conn: u64) {
        while let Some(c) = self.conns.get_mut(&conn) {
            if c.job.is_some() || c.session.must_wait(&self.setup.limits) {
                return;
            }
            let input = std::mem::take(&mut c.input);
            let Some((fed, answers)) = self.call(conn, |s, env, out| s.feed(&input, env, out))
            else {
                return;
            };
            if let Some(c) = self.conns.get_mut(&conn) {
                c.input = input[fed.used..].to_vec();
                c.handled += fed.used as u64;
                let bytes = c.handled;
                self.facts.push(Fact::Handled { conn, bytes });
            }
            self.wrote(conn, answers);
            if !self.follow(conn, fed.next) {
                break;
            }
        }
        let Some(c) = self.conns.get(&conn) else {
            return;
        };
        let idle = c.job.is_none() && c.session.outstanding() == 0;
        if c.at_end && idle {
            self.end(conn);
        } else if !c.arrived.is_empty() || c.peer_ended && !c.at_end {
            self.wants.push(Want::Turn(conn));
        }
    }

    /// Does what the session asked for. False if it is not to be fed again now.
    fn follow(&mut self, conn: u64, next: Next) -> bool {
        match next {
            Next::Receive | Next::Wait => return false,
            Next::Send => {}
            Next::Submit(envelope) => self.submit(conn, envelope),
            Next::Run(job) => {
                if let Some(c) = self.conns.get_mut(&conn) {
                    c.job = Some(job);
                }
                self.wants.push(Want::Job(conn));
                return false;
            }
            Next::Large(_) | Next::Ask(_) => {
                panic!("the simulation has no large frames and no other environment")
            }
            Next::Close(_) => {
                self.end(conn);
                return false;
            }
        }
        true
    }

    fn submit(&mut self, conn: u64, envelope: Envelope) {
        let core = self.conns[&conn].core;
        self.flush_gone(core);
        if self.mailbox.len() < self.setup.mailbox && self.cores[core].gone.is_empty() {
            self.mailbox.push_back(envelope);
            self.wants.push(Want::Apply);
        } else {
            let origin = envelope.origin;
            self.with_session(conn, |s, env, out| s.overloaded(origin, env, out));
        }
    }

    fn flush_gone(&mut self, core: usize) {
        while self.mailbox.len() < self.setup.mailbox
            && let Some(envelope) = self.cores[core].gone.pop_front()
        {
            match self.setup.fault {
                Some(Fault::GoneOvertakes) => self.mailbox.push_front(envelope),
                _ => self.mailbox.push_back(envelope),
            }
            self.wants.push(Want::Apply);
        }
    }

    fn apply_one(&mut self, envelope: Envelope, batch: &mut Batch) {
        let origin = envelope.origin;
        let gone = matches!(envelope.command, Command::Gone);
        let (now, pace) = (self.now(), Pace::default());
        let outcome = match envelope.command {
            Command::Persist(change) => self.persist(origin, change),
            command => {
                let envelope = Envelope { origin, command };
                run_to_end(self.table.apply(now, envelope, &mut batch.effects, &pace))
            }
        };
        self.seq += 1;
        let seq = self.seq;
        self.facts.push(Fact::Applied { origin, gone, seq });
        if !gone {
            batch.answers.push((origin, outcome));
        }
    }

    /// What the shell does around the writing of a file, which here takes no time.
    fn persist(&mut self, origin: Origin, change: Change) -> Outcome {
        let mut refused = match split(change) {
            Ok(change) => {
                let staged = stage_kv(self.table.kv(), [(origin, change)], &self.setup.limits);
                if let Some(kv) = staged.value {
                    self.table.set_kv(Arc::new(kv));
                }
                staged.refused
            }
            Err(body) => {
                let staged = stage_settings(self.table.settings(), [(origin, body)]);
                if let Some((settings, _)) = staged.value {
                    self.table.set_settings(Arc::new(settings));
                }
                staged.refused
            }
        };
        refused.pop().map_or(Outcome::Done, |(_, outcome)| outcome)
    }

    fn store(&mut self) {
        if let Some(snapshot) = self.table.publish() {
            self.past.push(Arc::downgrade(&self.published.0));
            self.published.0 = Arc::new(snapshot);
        }
        self.published.1 = self.seq;
    }

    fn hand_out(&mut self) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        for (origin, outcome) in std::mem::take(&mut batch.answers) {
            self.cores[origin.core].inbox.push_back((origin, outcome));
            self.wants.push(Want::Deliver(origin.core));
        }
    }

    fn perform(&mut self, effects: Effects) {
        self.events.extend(effects.events);
        self.notices.extend(effects.notices);
        for conn in effects.close {
            self.facts.push(Fact::OrderedClose { conn });
            self.wants.push(Want::Close(conn));
        }
    }

    fn with_session<T>(
        &mut self,
        conn: u64,
        call: impl FnOnce(&mut Session, &Env<'_>, &mut Output) -> T,
    ) -> Option<T> {
        let (result, bytes) = self.call(conn, call)?;
        self.wrote(conn, bytes);
        Some(result)
    }

    fn wrote(&mut self, conn: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.facts.push(Fact::Wrote { conn, bytes });
        }
    }

    /// Calls a session with the snapshot that its core holds.
    fn call<T>(
        &mut self,
        conn: u64,
        call: impl FnOnce(&mut Session, &Env<'_>, &mut Output) -> T,
    ) -> Option<(T, Vec<u8>)> {
        let now = self.now();
        let c = self.conns.get_mut(&conn)?;
        let env = Env {
            snapshot: &self.cores[c.core].snapshot.0,
            limits: &self.setup.limits,
            keys: &self.keys,
            now,
            leaving: false,
            cluster_test: false,
            unchanged_rule: self.setup.rule,
        };
        let mut out = Output::default();
        let result = call(&mut c.session, &env, &mut out);
        let bytes = out.io_slices(0).iter().flat_map(|s| s.to_vec()).collect();
        Some((result, bytes))
    }
}
