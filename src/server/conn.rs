//! One connection: the task that owns its socket.
//!
//! A turn is one receive, all frames in it, one send. The task waits in a single poll for
//! whatever comes first: outcomes, bytes, room to send, memory for a large frame, the end of a
//! job, an order to end. What blocks, blocks reading: while answers are unsent, commands are
//! outstanding or a job runs, the peer's bytes stay in the kernel. Nothing is ever cancelled; a
//! connection is told to end and ends itself.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::cluster_test;
use super::connection::{Connection, EndReason};
use super::core::{Core, SCRATCH_BYTES};
use super::permits::Permit;
use super::shared::count;
use crate::route::Now;
use crate::route::command::{Command, Envelope};
use crate::rt::{self, Stream};
use crate::session::{Env, Next, Session};
use crate::wire::reply::Output;

/// Serves a connection until it ends.
pub(super) async fn serve(core: Rc<Core>, connection: Rc<Connection>, stream: Stream) {
    let mut session = Session::new(core.index, connection.id);
    if !core.may_administer(&stream) {
        session.forbid_admin();
    }
    let mut task = Task {
        guard: Guard { core, connection },
        stream,
        session,
        input: Vec::new(),
        blocked: false,
        large: None,
        unsent: Output::default(),
        sent: 0,
        job_runs: false,
        job_bytes: 0,
        at_end: false,
        closing: None,
        now: Now::default(),
    };
    let reason = loop {
        match poll_fn(|cx| task.turn(cx)).await {
            Some(reason) => break reason,
            None => rt::yield_if_needed().await,
        }
    };
    task.report(reason);
}

/// Cleans up however the task ends, also by a panic.
struct Guard {
    core: Rc<Core>,
    connection: Rc<Connection>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (shared, connection) = (&self.core.shared, &self.connection);
        // After a panic it may hold a part of an answer, which must not go to the next connection.
        self.core.out.borrow_mut().clear();
        if let Permit::Granted(bytes) = connection.permit.replace(Permit::None) {
            shared.release_large(bytes);
        }
        self.core.jobs.forget(connection);
        self.core.forget_kept(connection);
        self.core.remove(connection.id, connection.farewell.take());
    }
}

struct Task {
    guard: Guard,
    stream: Stream,
    session: Session,
    /// Received and not yet handled: the start of a frame, or frames that must wait.
    input: Vec<u8>,
    /// `input` holds something that can be handled once what is in the way is gone.
    blocked: bool,
    large: Option<Large>,
    /// Answers that the kernel has not taken, and how much of them it has.
    unsent: Output,
    sent: usize,
    job_runs: bool,
    /// Bytes of the request whose job waits or runs, unless a permit covers them.
    job_bytes: usize,
    /// The peer sends no more.
    at_end: bool,
    /// The session cannot go on; what it has answered is still sent.
    closing: Option<EndReason>,
    /// The time of this turn.
    now: Now,
}

/// A large frame on its way in.
struct Large {
    total: usize,
    /// Longer than what is filled: room for the next receive, made once.
    buf: Vec<u8>,
    filled: usize,
    /// Bytes of a refused frame that were thrown away.
    skipped: usize,
}

/// One receive of a large frame.
const LARGE_RECEIVE_BYTES: usize = 128 * 1024;

/// A turn that did something.
const AGAIN: Poll<Option<EndReason>> = Poll::Ready(None);

impl Task {
    /// One turn. `None`: there may be more to do.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Option<EndReason>> {
        self.guard.connection.register(cx.waker());
        self.now = self.guard.core.now();
        let told = self.told();
        if let Some(reason) = told.filter(|reason| *reason != EndReason::Stopping) {
            return Poll::Ready(Some(reason));
        }
        let stopping = told.is_some();
        let mut worked = self.take_outcomes();
        worked |= self.take_asked();
        worked |= self.take_job();
        worked |= self.resume();
        if self.flush(cx).is_err() {
            return Poll::Ready(Some(EndReason::Broken));
        }
        self.release_permit();
        if let Some(reason) = self.finished(stopping) {
            return Poll::Ready(Some(reason));
        }
        if !worked && self.may_receive(stopping) {
            match self.receive(cx) {
                Poll::Ready(Ok(())) => worked = true,
                Poll::Ready(Err(_)) => return Poll::Ready(Some(EndReason::Broken)),
                Poll::Pending => {}
            }
            if worked && self.flush(cx).is_err() {
                return Poll::Ready(Some(EndReason::Broken));
            }
        }
        self.account();
        if worked { AGAIN } else { Poll::Pending }
    }

    /// The order to end that is in force. One that came because the last broker expired waits for
    /// what is under way, and is void if that has brought a broker back.
    fn told(&self) -> Option<EndReason> {
        let told = self.guard.connection.end.get()?;
        if told == EndReason::Expired {
            if self.session.outstanding() > 0 || self.job_runs {
                return None;
            }
            if self.session.has_live_broker() {
                let stopping = self.guard.core.shared.is_stopping();
                let instead = stopping.then_some(EndReason::Stopping);
                self.guard.connection.end.set(instead);
                return instead;
            }
        }
        Some(told)
    }

    /// Nothing is left to do for a connection that has no future.
    fn finished(&self, stopping: bool) -> Option<EndReason> {
        if !self.unsent.is_empty() || self.job_runs || self.session.outstanding() > 0 {
            return None;
        }
        if self.closing.is_some() {
            return self.closing;
        }
        if self.blocked {
            return None;
        }
        if self.at_end {
            return Some(EndReason::Closed);
        }
        stopping.then_some(EndReason::Stopping)
    }

    fn take_outcomes(&mut self) -> bool {
        let mut any = false;
        loop {
            let next = self.guard.connection.outcomes.borrow_mut().pop_front();
            let Some((origin, outcome)) = next else {
                return any;
            };
            self.with_session(|session, env, out| session.outcome(origin, outcome, env, out));
            any = true;
        }
    }

    fn take_asked(&mut self) -> bool {
        let asked = self.guard.connection.asked.take();
        let any = !asked.is_empty();
        for asked in asked {
            self.with_session(|session, env, out| session.asked(asked, env, out));
        }
        any
    }

    fn take_job(&mut self) -> bool {
        let Some(done) = self.guard.connection.job.take() else {
            return false;
        };
        self.job_runs = false;
        self.job_bytes = 0;
        let next = self.with_session(|session, env, out| session.job_done(done, env, out));
        self.follow(next);
        true
    }

    /// Handles input that had to wait.
    fn resume(&mut self) -> bool {
        if !self.blocked || !self.may_handle() {
            return false;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.consume(&input);
        input.drain(..used);
        self.input = input;
        used > 0
    }

    /// Whether a further frame may be handled now.
    fn may_handle(&self) -> bool {
        !self.job_runs
            && self.closing.is_none()
            && !self.session.must_wait(&self.guard.core.shared.limits)
            && self.unsent_bytes() <= self.guard.core.shared.limits.unsent_bytes
            && self.guard.connection.permit() != Permit::Waiting
    }

    fn may_receive(&self, stopping: bool) -> bool {
        !stopping && !self.at_end && !self.blocked && self.may_handle()
    }

    /// One receive, and all frames in it.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let granted = matches!(self.guard.connection.permit(), Permit::Granted(_));
        if granted && self.large.is_some() && self.input.is_empty() {
            return self.receive_large(cx);
        }
        let core = Rc::clone(&self.guard.core);
        let mut scratch = core.scratch.borrow_mut();
        let kept = self.input.len();
        if scratch.len() < kept + SCRATCH_BYTES {
            scratch.resize(kept + SCRATCH_BYTES, 0);
        }
        let room = &mut scratch[kept..kept + SCRATCH_BYTES];
        let received = std::task::ready!(self.stream.poll_recv(cx, room))?;
        if received == 0 {
            self.at_end = true;
            return Poll::Ready(Ok(()));
        }
        scratch[..kept].copy_from_slice(&self.input);
        let input = &scratch[..kept + received];
        let used = self.consume(input);
        self.input.clear();
        if used < input.len() {
            self.input.extend_from_slice(&input[used..]);
        } else if kept > 0 {
            self.input = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// One receive of a large frame, straight into its buffer, which grows as bytes arrive: a
    /// length that is only claimed reserves nothing.
    fn receive_large(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let Some(large) = &mut self.large else {
            return Poll::Pending;
        };
        let wanted = large.total.min(large.filled + LARGE_RECEIVE_BYTES);
        if large.buf.len() < wanted {
            let twice = large.total.min(2 * wanted);
            large.buf.reserve_exact(twice - large.buf.len());
            large.buf.resize(wanted, 0);
        }
        let room = &mut large.buf[large.filled..wanted];
        let received = std::task::ready!(self.stream.poll_recv(cx, room))?;
        large.filled += received;
        if received == 0 {
            self.at_end = true;
        } else if large.filled == large.total {
            self.finish_large();
        }
        Poll::Ready(Ok(()))
    }

    /// Handles what can be handled of `input`; returns how much that was.
    fn consume(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        self.blocked = false;
        loop {
            if self.large.is_some() {
                used += self.collect(&input[used..]);
                if self.large.is_some() {
                    // More bytes are needed, or memory for them.
                    self.blocked = self.guard.connection.permit() == Permit::Waiting;
                    return used;
                }
            }
            if !self.may_handle() {
                self.blocked = used < input.len();
                return used;
            }
            let fed = self.with_session(|s, env, out| s.feed(&input[used..], env, out));
            if fed.used > 0 {
                used += fed.used;
                self.active();
            }
            match fed.next {
                Next::Receive => return used,
                Next::Send | Next::Wait => {
                    self.blocked = true;
                    return used;
                }
                Next::Large(total) if self.guard.connection.permit() == Permit::None => {
                    self.large = Some(Large {
                        total,
                        buf: Vec::new(),
                        filled: 0,
                        skipped: 0,
                    });
                    let core = &self.guard.core;
                    core.permits.ask(core, &self.guard.connection, total);
                }
                Next::Large(_) => {
                    // The frame before this one still holds its memory.
                    self.blocked = true;
                    return used;
                }
                next => self.follow(next),
            }
            if self.closing.is_some() {
                return input.len();
            }
        }
    }

    /// Does what the session asked for after a frame.
    fn follow(&mut self, next: Next) {
        match next {
            Next::Submit(envelope) => self.submit(envelope),
            Next::Run(job) => {
                self.job_runs = true;
                self.job_bytes = job.own_bytes();
                let connection = Rc::clone(&self.guard.connection);
                self.guard.core.jobs.push(connection, job);
            }
            Next::Ask(ask) => cluster_test::ask(&self.guard.core.shared, ask),
            Next::Close(reason) => self.closing = Some(EndReason::Malformed(reason)),
            Next::Receive | Next::Send | Next::Wait | Next::Large(_) => {}
        }
    }

    fn submit(&mut self, envelope: Envelope) {
        if matches!(envelope.command, Command::Register(_)) {
            self.guard.connection.farewell.replace(self.session.end());
        }
        if let Err(envelope) = self.guard.core.submit(envelope) {
            count(&self.guard.core.shared.counters.overloaded);
            let origin = envelope.origin;
            self.with_session(|session, env, out| session.overloaded(origin, env, out));
        }
    }

    /// Takes bytes of a large frame; returns how many. The frame is handled when it is complete.
    fn collect(&mut self, input: &[u8]) -> usize {
        let permit = self.guard.connection.permit();
        let Some(large) = &mut self.large else {
            return 0;
        };
        let missing = large.total - large.filled - large.skipped;
        let taken = missing.min(input.len());
        let kept = match permit {
            Permit::Waiting | Permit::None => return 0,
            Permit::Granted(_) => taken,
            // The start is kept: the answer needs the header.
            Permit::Refused => SCRATCH_BYTES.saturating_sub(large.filled).min(taken),
        };
        large.buf.truncate(large.filled);
        large.buf.extend_from_slice(&input[..kept]);
        large.filled += kept;
        large.skipped += taken - kept;
        if taken < missing {
            return taken;
        }
        self.finish_large();
        taken
    }

    /// Handles a large frame that is complete, or refuses one that was thrown away.
    fn finish_large(&mut self) {
        let Some(mut large) = self.large.take() else {
            return;
        };
        large.buf.truncate(large.filled);
        self.active();
        self.guard.connection.deadline_ms.set(None);
        let next = if self.guard.connection.permit() == Permit::Refused {
            self.guard.connection.set_permit(Permit::None);
            count(&self.guard.core.shared.counters.overloaded);
            self.with_session(|s, env, out| s.large_refused(&large.buf, env, out))
        } else {
            let frame = Bytes::from(large.buf);
            self.with_session(|s, env, out| s.large(&frame, env, out))
        };
        self.follow(next);
    }

    /// Gives the memory of a large frame back once its command has been applied.
    fn release_permit(&mut self) {
        if self.large.is_some() || self.job_runs || self.session.outstanding() > 0 {
            return;
        }
        if let Permit::Granted(bytes) = self.guard.connection.permit() {
            self.guard.connection.set_permit(Permit::None);
            self.guard.core.shared.release_large(bytes);
        }
    }

    /// Sends what there is, as far as the kernel takes it.
    fn flush(&mut self, cx: &mut Context<'_>) -> std::io::Result<()> {
        if self.unsent.is_empty() {
            let core = Rc::clone(&self.guard.core);
            let mut out = core.out.borrow_mut();
            if out.is_empty() {
                return Ok(());
            }
            let sent = self.stream.try_send(&out.io_slices(0));
            self.note_too_large(&mut out);
            match sent {
                Ok(sent) if sent == out.len() => {
                    out.clear();
                    self.active();
                    return Ok(());
                }
                Ok(sent) => self.unsent = out.take_unsent(sent),
                Err(error) => {
                    out.clear();
                    return Err(error);
                }
            }
        }
        while !self.unsent.is_empty() {
            let slices = self.unsent.io_slices(self.sent);
            let Poll::Ready(sent) = self.stream.poll_send(cx, &slices) else {
                break;
            };
            drop(slices);
            self.sent += sent?;
            self.active();
            if self.sent == self.unsent.len() {
                let (core, connection) = (&self.guard.core, &self.guard.connection);
                core.bodies
                    .release(&core.line().kept_bytes, &connection.bodies);
                self.unsent = Output::default();
                self.sent = 0;
            }
        }
        Ok(())
    }

    fn unsent_bytes(&self) -> usize {
        if self.unsent.is_empty() {
            0
        } else {
            self.unsent.len() - self.sent
        }
    }

    fn active(&self) {
        self.guard.connection.active_ms.set(self.now.mono_ms);
    }

    /// Notes whether the peer or we are to blame for silence, and what is kept until the next
    /// turn.
    fn account(&self) {
        let connection = &self.guard.connection;
        let peer_must_read = self.unsent_bytes() > 0;
        let ours = self.blocked
            || self.job_runs
            || self.session.outstanding() > 0
            || connection.permit() == Permit::Waiting;
        connection.waits_for_us.set(ours && !peer_must_read);
        let collected = match connection.permit() {
            Permit::Granted(_) => 0,
            _ => self.large.as_ref().map_or(0, |large| large.filled),
        };
        let bodies = &self.unsent.shared;
        let total = &self.guard.core.line().kept_bytes;
        self.guard
            .core
            .bodies
            .hold(total, &connection.bodies, bodies);
        let kept = self.input.len() + self.job_bytes + self.unsent.buf.len() + collected;
        let keeps = (kept > 0 || !bodies.is_empty()).then_some(kept);
        let before = connection.kept.get();
        if keeps == before.map(|(_, bytes)| bytes) {
            return;
        }
        total.fetch_add(kept, Ordering::Relaxed);
        total.fetch_sub(before.map_or(0, |(_, bytes)| bytes), Ordering::Relaxed);
        let since = before.map_or(self.now.mono_ms, |(since, _)| since);
        connection.kept.set(keeps.map(|bytes| (since, bytes)));
    }

    /// Calls the session with the newest snapshot and the buffer for answers.
    fn with_session<T>(
        &mut self,
        call: impl FnOnce(&mut Session, &Env<'_>, &mut Output) -> T,
    ) -> T {
        let core = &self.guard.core;
        let shared = &core.shared;
        core.with_snapshot(|snapshot| {
            let env = Env {
                snapshot,
                limits: &shared.limits,
                keys: &shared.keys,
                now: self.now,
                leaving: shared.leaving.load(Ordering::Relaxed),
                cluster_test: shared.production.is_some(),
                unchanged_rule: true,
            };
            if self.unsent.is_empty() {
                call(&mut self.session, &env, &mut core.out.borrow_mut())
            } else {
                call(&mut self.session, &env, &mut self.unsent)
            }
        })
    }

    fn note_too_large(&self, out: &mut Output) {
        let counter = &self.guard.core.shared.counters.too_large_answers;
        counter.fetch_add(std::mem::take(&mut out.too_large), Ordering::Relaxed);
    }

    fn report(&self, reason: EndReason) {
        let counters = &self.guard.core.shared.counters;
        match reason {
            EndReason::Malformed(_) => count(&counters.closed_malformed),
            EndReason::Idle => count(&counters.closed_idle),
            EndReason::LateFrame => count(&counters.closed_late_frames),
            EndReason::Memory => count(&counters.closed_for_memory),
            EndReason::Closed | EndReason::Broken | EndReason::Expired | EndReason::Stopping => {}
        }
        super::log::connection_ended(self.guard.connection.id, &self.stream, reason);
    }
}
