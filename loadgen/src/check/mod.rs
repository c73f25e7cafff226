//! Is every answer right? Bodies against the topology and the board.
//!
//! Invariant: a body is called right only if it was read in full, or if it equals, byte for byte,
//! one that was read in full in the same state. While much changes, reading all answers of 106 in
//! full would take more time than the answers themselves; what is beyond a share of the thread's
//! time is counted as unread, and shown.

mod cluster;
mod route;

use std::collections::HashMap;
use std::rc::Rc;

use namesrv::wire::codes::response;

use crate::board::{Board, Nanos};
use crate::inbound::Body;
use crate::json::BadJson;
use crate::topology::Topology;

pub use cluster::Shown;

/// Most bytes of known bodies; beyond it all are forgotten, which only costs time.
const KNOWN_BYTES: usize = 256 << 20;
/// The time over which the share of full checks is kept.
const BUDGET_PERIOD: Nanos = 1_000_000_000;

/// Everything that can be wrong with an answer, or with its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A broker or a topic that must be shown is not.
    Lost,
    /// A broker that must be gone is shown.
    Ghost,
    /// A value is shown that had been replaced, and acknowledged, before the request was sent.
    Stale,
    /// Something is shown that has never been registered so.
    Wrong,
    /// The answer cannot be read, or belongs to no request.
    Garbled,
    /// A code other than the one that must come.
    Refused,
    /// The connection ended within an answer.
    CutFrame,
    /// The server closed a connection that it should have kept.
    Closed,
    /// Code 2: the server has too much to do.
    Overloaded,
    /// The answer came after the time limit.
    Late,
    /// No answer came until the end.
    Unanswered,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Lost,
        Self::Ghost,
        Self::Stale,
        Self::Wrong,
        Self::Garbled,
        Self::Refused,
        Self::CutFrame,
        Self::Closed,
        Self::Overloaded,
        Self::Late,
        Self::Unanswered,
    ];

    /// A word for tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Ghost => "ghost",
            Self::Stale => "stale",
            Self::Wrong => "wrong",
            Self::Garbled => "garbled",
            Self::Refused => "refused",
            Self::CutFrame => "cut-frame",
            Self::Closed => "closed",
            Self::Overloaded => "overloaded",
            Self::Late => "late",
            Self::Unanswered => "unanswered",
        }
    }

    /// The server is wrong; otherwise it is only slow.
    #[must_use]
    pub const fn is_wrong(self) -> bool {
        !matches!(self, Self::Overloaded | Self::Late | Self::Unanswered)
    }
}

/// One thing that is wrong, for the reader of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub fault: Fault,
    /// What exactly.
    pub detail: String,
}

impl Finding {
    /// Made of both.
    pub fn new(fault: Fault, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { fault, detail }
    }
}

impl From<BadJson> for Finding {
    fn from(error: BadJson) -> Self {
        Self::new(Fault::Garbled, error.to_string())
    }
}

/// What an answer is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// What may be shown at all.
    pub topology: &'a Topology,
    /// What must be shown when.
    pub board: &'a Board,
    /// The time of the answer.
    pub times: Times,
}

/// What is known of the time of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When its request was handed to the socket.
    pub sent: Nanos,
    /// When it was complete.
    pub now: Nanos,
}

/// How an answer came to be called right.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every byte was read and judged.
    InFull,
    /// It equals one that was.
    Equal,
    /// It was not read, to leave time for the load; the code at least was right.
    Unread,
}

/// What a body describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The route of a topic.
    Route(u32),
    /// All brokers.
    Cluster,
}

/// The judge of one core.
#[derive(Debug)]
pub struct Checker {
    known: HashMap<Subject, Known>,
    known_bytes: usize,
    /// Share of the time that may go into full checks, in thousandths.
    share: u32,
    spent: Nanos,
    period_start: Nanos,
    settled: (u64, Nanos),
}

/// A body that was right in a certain state.
#[derive(Clone, Debug)]
struct Known {
    epoch: u64,
    body: Rc<[u8]>,
}

impl Checker {
    /// With a share of the thread's time, in thousandths, for full checks.
    #[must_use]
    pub fn new(share: u32) -> Self {
        Self {
            known: HashMap::new(),
            known_bytes: 0,
            share,
            spent: 0,
            period_start: 0,
            settled: (u64::MAX, 0),
        }
    }

    /// A body that an answer about `subject` probably equals.
    #[must_use]
    pub fn expected(&self, subject: Subject) -> Option<Rc<[u8]>> {
        self.known.get(&subject).map(|known| Rc::clone(&known.body))
    }

    /// Judges an answer of 105.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn route(
        &mut self,
        truth: Truth<'_>,
        topic: u32,
        code: i32,
        body: Body,
        clock: impl Fn() -> Nanos,
    ) -> Result<Checked, Finding> {
        let Truth {
            topology,
            board,
            times,
        } = truth;
        let subject = Subject::Route(topic);
        let summary = board.summary(topology, topology.groups_of(topic));
        let certain = summary.settled_at <= times.sent;
        if code == response::SUCCESS && certain && self.is_known(subject, summary.epoch, &body) {
            return Ok(Checked::Equal);
        }
        if !self.may_read(times.now) {
            return route::code_alone(code).map(|()| Checked::Unread);
        }
        route::check(truth, topic, code, body.bytes())?;
        if code == response::SUCCESS && certain {
            self.remember(subject, summary.epoch, body);
        }
        self.spent += clock().saturating_sub(times.now);
        Ok(Checked::InFull)
    }

    /// Judges an answer of 105 about a topic that no broker has.
    ///
    /// # Errors
    /// It is anything but code 17.
    pub fn no_route(&mut self, code: i32) -> Result<Checked, Finding> {
        match code {
            response::TOPIC_NOT_EXIST => Ok(Checked::InFull),
            response::SUCCESS => Err(Finding::new(
                Fault::Wrong,
                "a route of a topic that nobody has",
            )),
            other => Err(refused(other)),
        }
    }

    /// Judges an answer of 106. With `must_read` it is read whatever time that takes, and who is
    /// shown is returned; that may be absent otherwise.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn cluster(
        &mut self,
        truth: Truth<'_>,
        code: i32,
        body: Body,
        must_read: bool,
        clock: impl Fn() -> Nanos,
    ) -> Result<(Checked, Option<Shown>), Finding> {
        if code != response::SUCCESS {
            return Err(refused(code));
        }
        let Truth { board, times, .. } = truth;
        let epoch = board.epoch();
        let certain = self.all_settled_at(board, epoch) <= times.sent;
        if certain && !must_read && self.is_known(Subject::Cluster, epoch, &body) {
            return Ok((Checked::Equal, None));
        }
        if !must_read && !self.may_read(times.now) {
            return Ok((Checked::Unread, None));
        }
        let shown = cluster::check(truth, body.bytes())?;
        if certain {
            self.remember(Subject::Cluster, epoch, body);
        }
        self.spent += clock().saturating_sub(times.now);
        Ok((Checked::InFull, Some(shown)))
    }

    fn is_known(&self, subject: Subject, epoch: u64, body: &Body) -> bool {
        let known = self
            .known
            .get(&subject)
            .filter(|known| known.epoch == epoch);
        match (known, body) {
            (Some(known), Body::Same(same)) if Rc::ptr_eq(&known.body, same) => true,
            (Some(known), body) => *known.body == *body.bytes(),
            (None, _) => false,
        }
    }

    fn remember(&mut self, subject: Subject, epoch: u64, body: Body) {
        let body: Rc<[u8]> = match body {
            Body::Same(body) => body,
            Body::Other(bytes) => Rc::from(bytes),
        };
        if self.known_bytes + body.len() > KNOWN_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += body.len();
        if let Some(old) = self.known.insert(subject, Known { epoch, body }) {
            self.known_bytes -= old.body.len();
        }
    }

    /// From when on everybody's presence is certain; asked once for each epoch.
    fn all_settled_at(&mut self, board: &Board, epoch: u64) -> Nanos {
        if self.settled.0 != epoch {
            self.settled = (epoch, board.all_settled_at());
        }
        self.settled.1
    }

    fn may_read(&mut self, now: Nanos) -> bool {
        if now >= self.period_start + BUDGET_PERIOD {
            self.period_start = now;
            self.spent = 0;
        }
        self.spent < BUDGET_PERIOD / 1000 * u64::from(self.share)
    }
}

/// The finding for a code that must not come.
#[must_use]
pub fn refused(code: i32) -> Finding {
    let fault = if code == response::SYSTEM_BUSY {
        Fault::Overloaded
    } else {
        Fault::Refused
    };
    Finding::new(fault, format!("code {code}"))
}

#[cfg(test)]
mod tests;
