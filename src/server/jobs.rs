//! Runs the jobs of a core's connections in slices: registrations one at a time, and large
//! answers one at a time beside them, each for all who wait for the same.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::connection::Connection;
use super::core::Core;
use super::slices::in_slices;
use crate::session::jobs::{BodyJob, Job};
use crate::wire::pace::Pace;

/// The place of a job in its queue.
pub(super) type Ticket = u64;

/// Jobs of a core that wait for their turn. At most one for each connection, and none for a
/// connection that has ended: whoever comes and goes leaves nothing here.
#[derive(Default)]
pub(super) struct Jobs {
    registrations: Waiting<Job>,
    bodies: Waiting<BodyJob>,
    next_ticket: Cell<Ticket>,
}

struct Waiting<J> {
    jobs: RefCell<BTreeMap<Ticket, (Rc<Connection>, J)>>,
    waker: Cell<Option<Waker>>,
}

impl<J> Default for Waiting<J> {
    fn default() -> Self {
        Self {
            jobs: RefCell::default(),
            waker: Cell::default(),
        }
    }
}

impl Jobs {
    /// Queues a job of a connection.
    pub(super) fn push(&self, connection: Rc<Connection>, job: Job) {
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        connection.ticket.set(Some(ticket));
        match job {
            Job::Body(job) => self.bodies.push(ticket, connection, job),
            job => self.registrations.push(ticket, connection, job),
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

impl<J> Waiting<J> {
    fn push(&self, ticket: Ticket, connection: Rc<Connection>, job: J) {
        self.jobs.borrow_mut().insert(ticket, (connection, job));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn next(&self) -> (Rc<Connection>, J) {
        let (connection, job) = poll_fn(|cx| match self.jobs.borrow_mut().pop_first() {
            Some((_, next)) => Poll::Ready(next),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        connection.ticket.set(None);
        (connection, job)
    }
}

impl Waiting<BodyJob> {
    /// Takes out all that were queued before `end` and ask for the same.
    fn take_same(&self, wanted: &BodyJob, end: Ticket) -> Vec<(Rc<Connection>, BodyJob)> {
        let mut jobs = self.jobs.borrow_mut();
        let same = jobs.extract_if(..end, |_, (_, job)| job.asks_for_same(wanted));
        let same: Vec<_> = same.map(|(_, waiting)| waiting).collect();
        for (connection, _) in &same {
            connection.ticket.set(None);
        }
        same
    }
}

impl Core {
    /// Digests and parses registrations.
    pub(super) async fn parse_jobs(self: Rc<Self>) {
        let pace = Pace::default();
        loop {
            let (connection, job) = self.jobs.registrations.next().await;
            let shared = &self.shared;
            let wall_ms = self.now().wall_ms;
            let done = in_slices(job.run(&shared.keys, &shared.limits, wall_ms, &pace)).await;
            connection.finish_job(done);
        }
    }

    /// Makes large answers, each of them for all who asked for the same before it was begun. So
    /// it is made once at a time however many ask while the tables change, and whoever asks waits
    /// for the one that is being made and the next at most.
    pub(super) async fn body_jobs(self: Rc<Self>) {
        let pace = Pace::default();
        loop {
            let (connection, mut job) = self.jobs.bodies.next().await;
            let end = self.jobs.next_ticket.get();
            job.renew(self.with_snapshot(Arc::clone));
            let body = in_slices(job.make(&pace)).await;
            for (other, same) in self.jobs.bodies.take_same(&job, end) {
                other.finish_job(same.done(body.clone()));
            }
            connection.finish_job(job.done(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use ahash::RandomState;

    use super::*;
    use crate::route::Form;
    use crate::route::table::Table;
    use crate::session::jobs::BodyKind;
    use crate::settings::limits::Limits;

    fn job(kind: BodyKind) -> BodyJob {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let table = Table::new(hasher, Arc::default(), Arc::default(), &Limits::default());
        BodyJob::new(1, kind, Arc::new(table.snapshot()))
    }

    fn queue(jobs: &Jobs, conn: u64, kind: BodyKind) -> Rc<Connection> {
        let connection = Rc::new(Connection::new(conn, 0, 1000));
        jobs.push(Rc::clone(&connection), Job::Body(job(kind)));
        connection
    }

    #[test]
    fn an_answer_is_for_those_who_asked_before_it_was_begun() {
        let jobs = Jobs::default();
        let info = || BodyKind::ClusterInfo(Form::Standard);
        let first = queue(&jobs, 1, info());
        queue(&jobs, 2, BodyKind::TopicList);
        let third = queue(&jobs, 3, info());
        queue(&jobs, 4, BodyKind::ClusterInfo(Form::Legacy));
        let gone = queue(&jobs, 5, info());
        jobs.forget(&gone);
        let end = jobs.next_ticket.get();
        let late = queue(&jobs, 6, info());

        let same = jobs.bodies.take_same(&job(info()), end);
        let ids: Vec<_> = same.iter().map(|(connection, _)| connection.id).collect();
        assert_eq!(ids, [1, 3]);
        assert!(first.ticket.get().is_none() && third.ticket.get().is_none());
        assert!(late.ticket.get().is_some());
        let left = jobs.bodies.jobs.borrow();
        let ids: Vec<_> = left.values().map(|(connection, _)| connection.id).collect();
        assert_eq!(ids, [2, 4, 6]);
    }
}
