//! The record of a connection by which the rest of its core reaches the task that owns the
//! socket: outcomes and job results to take, an order to end, the state of a large frame, and
//! what the sweeper needs to know. Everything in it belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use super::jobs::Ticket;
use super::permits::Permit;
use super::shared::Answer;
use super::unsent::HeldBodies;
use crate::route::command::Envelope;
use crate::session::CloseReason;
use crate::session::elsewhere::Asked;
use crate::session::jobs::Done;
use crate::settings::limits::Limits;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The peer has ended it.
    Closed,
    /// The socket failed.
    Broken,
    /// A frame or header that cannot be read.
    Malformed(CloseReason),
    /// No complete frame and no completed answer for too long.
    Idle,
    /// A large frame came too slowly.
    LateFrame,
    /// The last broker on it has expired.
    Expired,
    /// It kept bytes longest when the process kept too many.
    Memory,
    /// The process stops.
    Stopping,
}

/// What others on the core know of a connection.
pub(super) struct Connection {
    pub(super) id: u64,
    waker: RefCell<Option<Waker>>,
    pub(super) outcomes: RefCell<VecDeque<Answer>>,
    pub(super) asked: RefCell<Vec<Asked>>,
    pub(super) job: Cell<Option<Done>>,
    /// By which its job is found while it waits for its turn.
    pub(super) ticket: Cell<Option<Ticket>>,
    pub(super) end: Cell<Option<EndReason>>,
    pub(super) permit: Cell<Permit>,
    /// When the large frame that is under way must be there.
    pub(super) deadline_ms: Cell<Option<u64>>,
    /// The last complete frame or completed answer.
    pub(super) active_ms: Cell<u64>,
    /// Silence is our own doing: we are not reading, and the peer is not to blame.
    pub(super) waits_for_us: Cell<bool>,
    idle_ms: u64,
    /// Since when it keeps bytes between turns, and how many.
    pub(super) kept: Cell<Option<(u64, usize)>>,
    /// Shared answers among the unsent ones.
    pub(super) bodies: HeldBodies,
    pub(super) farewell: RefCell<Option<Envelope>>,
}

impl Connection {
    pub(super) fn new(id: u64, now_ms: u64, idle_ms: u64) -> Self {
        Self {
            id,
            waker: RefCell::new(None),
            outcomes: RefCell::default(),
            asked: RefCell::default(),
            job: Cell::new(None),
            ticket: Cell::new(None),
            end: Cell::new(None),
            permit: Cell::new(Permit::None),
            deadline_ms: Cell::new(None),
            active_ms: Cell::new(now_ms),
            waits_for_us: Cell::new(false),
            idle_ms,
            kept: Cell::new(None),
            bodies: HeldBodies::default(),
            farewell: RefCell::new(None),
        }
    }

    /// Tells the connection to end; the first reason stays.
    pub(super) fn end(&self, reason: EndReason) {
        if self.end.get().is_none() {
            self.end.set(Some(reason));
            self.wake();
        }
    }

    /// Tells the connection to end at once, whatever it was told before.
    pub(super) fn end_for_memory(&self) {
        self.end.set(Some(EndReason::Memory));
        self.wake();
    }

    /// Brings an outcome from the writer.
    pub(super) fn bring(&self, answer: Answer) {
        self.outcomes.borrow_mut().push_back(answer);
        self.wake();
    }

    /// Brings what came of a question to the production environment.
    pub(super) fn bring_asked(&self, asked: Asked) {
        self.asked.borrow_mut().push(asked);
        self.wake();
    }

    /// Brings the result of a job.
    pub(super) fn finish_job(&self, done: Done) {
        self.job.set(Some(done));
        self.wake();
    }

    pub(super) fn permit(&self) -> Permit {
        self.permit.get()
    }

    pub(super) fn set_permit(&self, permit: Permit) {
        self.permit.set(permit);
    }

    /// A large frame of so many bytes may come, from now on without dawdling.
    pub(super) fn grant(&self, bytes: usize, now_ms: u64, limits: &Limits) {
        self.permit.set(Permit::Granted(bytes));
        let mib = (bytes >> 20) as u64;
        let within_ms = limits.delivery_ms + limits.delivery_ms_per_mib * mib;
        self.deadline_ms.set(Some(now_ms + within_ms));
    }

    /// Called from time to time: ends the connection if it is silent or late.
    pub(super) fn check(&self, now_ms: u64) {
        if self
            .deadline_ms
            .get()
            .is_some_and(|deadline| now_ms > deadline)
        {
            self.end(EndReason::LateFrame);
        }
        if self.waits_for_us.get() {
            self.active_ms.set(now_ms);
        } else if now_ms.saturating_sub(self.active_ms.get()) > self.idle_ms {
            self.end(EndReason::Idle);
        }
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    pub(super) fn register(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }
}
