//! Runs the jobs of a core's connections in slices: registrations one at a time, and large
//! answers one at a time beside them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::connection::Connection;
use super::core::Core;
use super::slices::in_slices;
use crate::session::jobs::Job;
use crate::wire::pace::Pace;

/// The place of a job in its queue.
pub(super) type Ticket = u64;

/// Jobs of a core that wait for their turn. At most one for each connection, and none for a
/// connection that has ended: whoever comes and goes leaves nothing here.
#[derive(Default)]
pub(super) struct Jobs {
    registrations: Waiting,
    bodies: Waiting,
    next_ticket: Cell<Ticket>,
}

#[derive(Default)]
struct Waiting {
    jobs: RefCell<BTreeMap<Ticket, (Rc<Connection>, Job)>>,
    waker: Cell<Option<Waker>>,
}

impl Jobs {
    /// Queues a job of a connection.
    pub(super) fn push(&self, connection: Rc<Connection>, job: Job) {
        let waiting = match job {
            Job::Digest(_) | Job::Parse(_) => &self.registrations,
            Job::Body(_) => &self.bodies,
        };
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        connection.ticket.set(Some(ticket));
        waiting.jobs.borrow_mut().insert(ticket, (connection, job));
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }

    /// Drops what waits for a connection that has ended.
    pub(super) fn forget(&self, connection: &Connection) {
        if let Some(ticket) = connection.ticket.take() {
            self.registrations.jobs.borrow_mut().remove(&ticket);
            self.bodies.jobs.borrow_mut().remove(&ticket);
        }
    }
}

impl Waiting {
    async fn next(&self) -> (Rc<Connection>, Job) {
        poll_fn(|cx| match self.jobs.borrow_mut().pop_first() {
            Some((_, next)) => Poll::Ready(next),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

impl Core {
    /// Digests and parses registrations.
    pub(super) async fn parse_jobs(self: Rc<Self>) {
        self.run_jobs(&self.jobs.registrations).await;
    }

    /// Makes large answers. The second who asks for the same finds it made.
    pub(super) async fn body_jobs(self: Rc<Self>) {
        self.run_jobs(&self.jobs.bodies).await;
    }

    async fn run_jobs(&self, waiting: &Waiting) {
        let pace = Pace::default();
        loop {
            let (connection, job) = waiting.next().await;
            connection.ticket.set(None);
            let shared = &self.shared;
            let wall_ms = self.now().wall_ms;
            let done = in_slices(job.run(&shared.keys, &shared.limits, wall_ms, &pace)).await;
            connection.finish_job(done);
        }
    }
}
