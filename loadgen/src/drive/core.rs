//! One core: its seats, its schedule, and the turn of its connections.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Weak;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll};

use super::conn::{Conn, Flight, Link, Sender};
use super::{Message, Run};
use crate::actor::Broker;
use crate::board::Nanos;
use crate::check::{Checker, Fault, Finding};
use crate::encode::{Encoder, Request};
use crate::host::thread_cpu_nanos;
use crate::op::Op;
use crate::plan::Target;
use crate::record::{Clock, Instants, Recorder};
use crate::schedule::{Act, Event, Schedule, Seat, seats_of};
use crate::units::nanos;

/// Bytes of one receive.
const SCRATCH_BYTES: usize = 256 << 10;
/// Receives of one connection before others have their turn.
const RECEIVES_PER_TURN: usize = 4;
/// Bytes that a slow reader reads in a second.
const SLOW_BYTES: usize = 16 << 10;
/// Answers that a slow reader lets wait.
const SLOW_OUTSTANDING: usize = 16;
/// One interval of the records.
const INTERVAL: Nanos = 1_000_000_000;
/// Most events of one turn, so that sockets are served while the core catches up.
const EVENTS_PER_TURN: usize = 256;

/// Everything of one core.
pub(super) struct Core {
    pub(super) run: Arc<Run>,
    pub(super) myself: Weak<RefCell<Self>>,
    pub(super) conns: Vec<Conn>,
    pub(super) brokers: Vec<Broker>,
    pub(super) recorder: Recorder,
    pub(super) checker: Checker,
    /// Retries, in absolute time.
    pub(super) again: BinaryHeap<Reverse<(Nanos, Seat, Act)>>,
    /// For each broker the loss that the watcher has seen the end of; kept by core 0.
    pub(super) seen_gone: Vec<Nanos>,
    pub(super) connect_failures: u64,
    pub(super) seats: Vec<Seat>,
    core: usize,
    cores: usize,
    schedule: Schedule,
    encoder: Encoder,
    scratch: Vec<u8>,
    kept_bytes: usize,
    pub(super) send: mpsc::Sender<Message>,
    pub(super) stage: Stage,
    interval_at: Nanos,
    busy_at: Nanos,
}

/// Where the run is, as seen by this core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Seats come; `begun` of them have, and at `since` the last one became ready.
    Setup {
        begun: usize,
        ready: usize,
        since: Nanos,
    },
    /// Waiting for the other cores.
    Ready,
    /// The plan runs since then.
    Running(Nanos),
    /// Nothing is sent any more; what is outstanding has until then.
    Draining(Nanos),
    Over,
}

/// How a turn of a connection went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnTurn {
    /// There may be more to receive.
    More,
    /// The connection is no more.
    Ended,
}

impl Core {
    pub(super) fn new(
        run: Arc<Run>,
        core: usize,
        cores: usize,
        send: mpsc::Sender<Message>,
    ) -> Self {
        let config = &run.plan.config;
        let mut seats: Vec<Seat> = seats_of(config.brokers, core, cores)
            .map(Seat::Broker)
            .collect();
        seats.extend(seats_of(config.clients, core, cores).map(Seat::Client));
        seats.extend(seats_of(config.slow_readers, core, cores).map(Seat::Slow));
        if core == 0 {
            seats.push(Seat::Watcher);
        }
        let brokers = seats_of(config.brokers, core, cores)
            .map(Broker::new)
            .collect();
        let mut conns: Vec<Conn> = seats.iter().map(|_| Conn::default()).collect();
        for (conn, seat) in conns.iter_mut().zip(&seats) {
            conn.allowance = matches!(seat, Seat::Slow(_)).then_some(0);
        }
        let now = run.clock.now();
        Self {
            conns,
            brokers,
            recorder: Recorder::new(!config.closed),
            checker: Checker::new(config.check_share),
            again: BinaryHeap::new(),
            seen_gone: vec![0; config.brokers as usize],
            connect_failures: 0,
            seats,
            core,
            cores,
            schedule: Schedule::new(&run.plan, core, cores),
            encoder: Encoder::default(),
            scratch: vec![0; SCRATCH_BYTES],
            kept_bytes: 0,
            send,
            stage: Stage::Setup {
                begun: 0,
                ready: 0,
                since: now,
            },
            interval_at: now,
            busy_at: 0,
            myself: Weak::new(),
            run,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Does whatever is due.
    pub(super) fn turn(&mut self) {
        let now = self.run.clock.now();
        if self.run.is_stopped() && self.stage != Stage::Over {
            self.finish();
            return;
        }
        while let Some(Reverse((at, seat, act))) = self.again.peek().copied()
            && at <= now
        {
            self.again.pop();
            self.act(seat, act, at, 0);
        }
        match self.stage {
            Stage::Setup { .. } => self.set_up(now),
            Stage::Ready => {
                if let Some(start) = self.run.started() {
                    self.recorder.begin(&self.run.phases, start);
                    self.stage = Stage::Running(start);
                    self.open_closed_loop(start);
                }
            }
            Stage::Running(start) => {
                self.fire_due(now, start);
                if now >= start + self.run.phases.end {
                    let patience = nanos(self.run.plan.config.timeout);
                    self.stage = Stage::Draining(now + patience);
                }
            }
            Stage::Draining(until) => {
                if now >= until || self.conns.iter().all(|conn| conn.flights.is_empty()) {
                    self.count_unanswered(now);
                    self.finish();
                }
            }
            Stage::Over => {}
        }
        if now >= self.interval_at + INTERVAL && self.stage != Stage::Over {
            self.end_interval(now);
        }
    }

    /// Nanoseconds until something is due; `None` when it is due already.
    pub(super) fn until_next(&self) -> Option<Nanos> {
        let now = self.run.clock.now();
        let at = match self.stage {
            Stage::Running(start) => self.schedule.next_at().map(|at| start + at),
            _ => None,
        };
        let wait = at.unwrap_or(Nanos::MAX).saturating_sub(now);
        (wait > 0).then_some(wait)
    }

    /// Ends all connections.
    pub(super) fn close_all(&mut self) {
        for conn in &mut self.conns {
            conn.close(&mut self.kept_bytes);
        }
    }

    /// The turn of one connection. Ready when it has ended, or when others must have a turn.
    pub(super) fn poll_conn(
        &mut self,
        slot: usize,
        generation: u32,
        cx: &mut Context<'_>,
    ) -> Poll<ConnTurn> {
        if let Stage::Running(start) = self.stage {
            let now = self.run.clock.now();
            self.fire_due(now, start);
        }
        if self.conns[slot].generation != generation {
            return Poll::Ready(ConnTurn::Ended);
        }
        let waker = cx.waker();
        let known = &mut self.conns[slot].waker;
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
        if let Err(error) = self.flush_with(slot, Some(cx)) {
            self.disconnected(slot, &error.to_string());
            return Poll::Ready(ConnTurn::Ended);
        }
        for _ in 0..RECEIVES_PER_TURN {
            let limit = self.conns[slot]
                .allowance
                .unwrap_or(SCRATCH_BYTES)
                .min(SCRATCH_BYTES);
            if limit == 0 {
                return Poll::Pending;
            }
            let Link::Open(stream) = &mut self.conns[slot].link else {
                return Poll::Ready(ConnTurn::Ended);
            };
            let received = match stream.poll_recv(cx, &mut self.scratch[..limit]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(received) => received,
            };
            let problem = match received {
                Ok(0) => Some("the server closed it".to_owned()),
                Ok(bytes) => self.received(slot, bytes),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                self.disconnected(slot, &problem);
            }
            if self.conns[slot].generation != generation {
                return Poll::Ready(ConnTurn::Ended);
            }
        }
        Poll::Ready(ConnTurn::More)
    }

    fn received(&mut self, slot: usize, bytes: usize) -> Option<String> {
        self.recorder.now.bytes_in += bytes as u64;
        if let Some(allowance) = &mut self.conns[slot].allowance {
            *allowance -= bytes;
        }
        let generation = self.conns[slot].generation;
        let scratch = std::mem::take(&mut self.scratch);
        let mut input = &scratch[..bytes];
        let mut problem = None;
        while !input.is_empty() && self.conns[slot].generation == generation {
            match self.conns[slot].next_answer(&mut input, &self.checker) {
                Ok(Some(answer)) => self.answered(slot, answer),
                Ok(None) => {}
                Err(error) => {
                    let finding = Finding::new(Fault::Garbled, error.to_string());
                    self.recorder.now.fault(finding);
                    problem = Some(error.to_string());
                    break;
                }
            }
        }
        self.scratch = scratch;
        self.flush(slot);
        problem
    }

    pub(super) fn seat(&self, slot: usize) -> Seat {
        self.seats[slot]
    }

    pub(super) fn slot(&self, seat: Seat) -> usize {
        let brokers = self.brokers.len();
        let count = |all: u32| seats_of(all, self.core, self.cores).count();
        let config = &self.run.plan.config;
        match seat {
            Seat::Broker(broker) => broker as usize / self.cores,
            Seat::Client(client) => brokers + client as usize / self.cores,
            Seat::Slow(slow) => brokers + count(config.clients) + slow as usize / self.cores,
            Seat::Watcher => self.seats.len() - 1,
        }
    }

    /// Queues a request; [`flush`](Self::flush) sends it.
    pub(super) fn submit(
        &mut self,
        slot: usize,
        op: Op,
        request: Request,
        intended: Nanos,
        clock: Option<(Clock, Nanos)>,
    ) {
        let at = Instants {
            intended,
            submitted: self.run.clock.now(),
        };
        self.recorder.sent(op, at);
        self.conns[slot].submit(Flight {
            opaque: 0,
            op,
            request,
            at,
            clock,
            late: false,
        });
    }

    pub(super) fn flush(&mut self, slot: usize) {
        // A broken connection shows itself when it is read.
        let _ = self.flush_with(slot, None);
    }

    fn flush_with(&mut self, slot: usize, cx: Option<&mut Context<'_>>) -> std::io::Result<()> {
        let mut sender = Sender {
            plan: &self.run.plan,
            encoder: &mut self.encoder,
            kept_bytes: &mut self.kept_bytes,
            sent_bytes: &mut self.recorder.now.bytes_out,
        };
        self.conns[slot].flush(&mut sender, cx)
    }

    pub(super) fn close(&mut self, slot: usize) -> Vec<Flight> {
        self.conns[slot].close(&mut self.kept_bytes)
    }

    fn fire_due(&mut self, now: Nanos, start: Nanos) {
        let Some(elapsed) = now.checked_sub(start) else {
            return;
        };
        let run = Arc::clone(&self.run);
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.schedule.pop_due(&run.plan, elapsed) else {
                return;
            };
            let Event {
                at,
                seat,
                act,
                count,
            } = event;
            self.act(seat, act, start + at, count);
        }
    }

    pub(super) fn act(&mut self, seat: Seat, act: Act, intended: Nanos, count: u32) {
        let slot = self.slot(seat);
        match seat {
            Seat::Broker(_) => self.broker_acts(slot, act, intended, count),
            Seat::Client(client) => {
                self.open(slot);
                let topics = self.run.plan.config.client_topics.max(1);
                let index = match act {
                    Act::Poll(index) => index,
                    _ => count % topics,
                };
                self.read(slot, client, index, intended);
            }
            Seat::Watcher => {
                self.open(slot);
                self.submit(slot, Op::Watch, Request::Cluster, intended, None);
            }
            Seat::Slow(_) => {
                self.open(slot);
                let conn = &mut self.conns[slot];
                conn.allowance = Some(SLOW_BYTES);
                if let Some(waker) = &conn.waker {
                    waker.wake_by_ref();
                }
                if conn.flights.len() < SLOW_OUTSTANDING {
                    self.submit(slot, Op::Cluster, Request::Cluster, intended, None);
                }
            }
        }
        self.flush(slot);
    }

    pub(super) fn read(&mut self, slot: usize, client: u32, index: u32, intended: Nanos) {
        let request = match self.run.plan.client_target(client, index) {
            Target::Topic(topic) => Request::Route(topic),
            Target::Absent(number) => Request::NoRoute(number),
        };
        self.submit(slot, Op::Route, request, intended, None);
    }

    /// In a closed loop the answer to one read sends the next.
    pub(super) fn next_closed_read(&mut self, slot: usize, opaque: i32) {
        if let (Stage::Running(_), Seat::Client(client)) = (self.stage, self.seats[slot]) {
            let now = self.run.clock.now();
            let topics = self.run.plan.config.client_topics.max(1);
            self.read(slot, client, opaque as u32 % topics, now);
        }
    }

    fn open_closed_loop(&mut self, start: Nanos) {
        let config = &self.run.plan.config;
        if !config.closed {
            return;
        }
        let (pipeline, topics) = (config.pipeline, config.client_topics.max(1));
        for client in seats_of(config.clients, self.core, self.cores) {
            let slot = self.slot(Seat::Client(client));
            for number in 0..pipeline {
                self.read(slot, client, number % topics, start);
            }
            self.flush(slot);
        }
    }

    fn end_interval(&mut self, now: Nanos) {
        self.sweep(now);
        let busy = thread_cpu_nanos();
        let mut interval = self.recorder.take();
        interval.busy = busy.saturating_sub(self.busy_at);
        interval.wall = now.saturating_sub(self.interval_at);
        (self.busy_at, self.interval_at) = (busy, now);
        let _ = self.send.send(Message::Interval(Box::new(interval)));
    }

    /// Counts what has taken too long, once each.
    fn sweep(&mut self, now: Nanos) {
        for conn in self
            .conns
            .iter_mut()
            .filter(|conn| conn.allowance.is_none())
        {
            for flight in &mut conn.flights {
                let limit = self.run.plan.time_limit(flight.op);
                if !flight.late && now > flight.at.submitted + limit {
                    flight.late = true;
                    let text = format!("{} took over {} ms", flight.op.name(), limit / 1_000_000);
                    self.recorder.now.fault(Finding::new(Fault::Late, text));
                }
            }
        }
    }

    /// What is still outstanding has at least the time until now.
    fn count_unanswered(&mut self, now: Nanos) {
        for conn in self
            .conns
            .iter_mut()
            .filter(|conn| conn.allowance.is_none())
        {
            for flight in conn.flights.drain(..) {
                self.recorder.done(flight.op, flight.at, now, false);
                if !flight.late {
                    let text = format!("{} until the end", flight.op.name());
                    self.recorder
                        .now
                        .fault(Finding::new(Fault::Unanswered, text));
                }
            }
        }
    }

    pub(super) fn finish(&mut self) {
        self.end_interval(self.run.clock.now());
        self.stage = Stage::Over;
    }
}
