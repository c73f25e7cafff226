//! One serving core: accepts connections, keeps the list of them, brings outcomes to them, and
//! looks after those that are silent.
//!
//! Everything here runs on one thread. Connections are tasks of the default queue; what other
//! threads send comes in through one task of the urgent queue.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use ahash::RandomState;
use arc_swap::Cache;

use super::conn;
use super::connection::{Connection, EndReason};
use super::jobs::Jobs;
use super::mailbox::Inbox;
use super::permits::Permits;
use super::shared::{Answer, CoreLine, SharedRef, count};
use super::unsent::UnsentBodies;
use super::writer::parsed_bytes;
use crate::route::Now;
use crate::route::command::Envelope;
use crate::route::snapshot::Snapshot;
use crate::rt::{self, Listener, Queue, Stream};
use crate::wire::reply::Output;

/// One receive, behind the start of a frame that was left from the last.
pub(super) const SCRATCH_BYTES: usize = 64 * 1024;

/// Between two looks at idle connections; also how old a core's snapshot handle may get.
const SWEEP_MS: u64 = 250;
/// Connections are looked at once in so many sweeps.
const SWEEPS_PER_CHECK: u64 = 4;
/// Between two tries to hand ends of connections to a writer that had no place for them.
const RETRY_MS: u64 = 2;
/// A core hands a new connection over when its own count is above this much of the mean ...
const BALANCE_RATIO: f64 = 1.1;
/// ... and this many more.
const BALANCE_SLACK: f64 = 8.0;
/// Pause after an accept that failed: it would fail again at once, and for as long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

type Handle = Cache<Arc<arc_swap::ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// One core.
pub(super) struct Core {
    pub(super) index: usize,
    pub(super) shared: SharedRef,
    /// Buffer of all receives: only used within one poll.
    pub(super) scratch: RefCell<Vec<u8>>,
    /// Buffer of all answers: empty between polls.
    pub(super) out: RefCell<Output>,
    pub(super) jobs: Jobs,
    pub(super) permits: Permits,
    pub(super) bodies: UnsentBodies,
    inbox: Inbox<Answer>,
    snapshot: RefCell<Handle>,
    connections: RefCell<HashMap<u64, Rc<Connection>, RandomState>>,
    next_conn: Cell<u64>,
    sweeps: Cell<u64>,
    /// Wall clock less monotonic clock.
    wall_offset_ms: Cell<i64>,
    /// Ends of connections that found the mailbox full; they go before any other command.
    gone: RefCell<VecDeque<Envelope>>,
}

impl Core {
    pub(super) fn new(
        index: usize,
        shared: SharedRef,
        inbox: Inbox<Answer>,
        hasher: RandomState,
    ) -> Self {
        let snapshot = RefCell::new(Cache::new(Arc::clone(&shared.published)));
        Self {
            index,
            next_conn: Cell::new(index as u64 + shared.cores.len() as u64),
            sweeps: Cell::new(0),
            wall_offset_ms: Cell::new(shared.clock.now().wall_offset_ms()),
            scratch: RefCell::new(vec![0; 2 * SCRATCH_BYTES]),
            out: RefCell::default(),
            jobs: Jobs::default(),
            permits: Permits::default(),
            bodies: UnsentBodies::new(hasher.clone()),
            inbox,
            snapshot,
            connections: RefCell::new(HashMap::with_hasher(hasher)),
            gone: RefCell::default(),
            shared,
        }
    }

    /// Serves until the process is told to stop and every connection, on whatever core, has ended.
    pub(super) async fn serve(self: Rc<Self>, listener: OwnedFd) {
        let die = |what: &'static str| move |panic: rt::Panicked| super::die(what, &panic);
        let core = Rc::clone(&self);
        rt::spawn(Queue::Urgent, core.events(), die("the event task"));
        let core = Rc::clone(&self);
        let beat = async move { core.line().beat.keep().await };
        rt::spawn(Queue::Urgent, beat, die("the beat"));
        let core = Rc::clone(&self);
        rt::spawn(Queue::Background, core.parse_jobs(), die("the parser"));
        let core = Rc::clone(&self);
        rt::spawn(Queue::Background, core.body_jobs(), die("the body maker"));
        match Listener::from_fd(listener) {
            Ok(listener) => {
                let core = Rc::clone(&self);
                rt::spawn(Queue::Default, core.accept(listener), die("the acceptor"));
            }
            Err(error) => super::fail(&format!("a listening socket cannot be used: {error}")),
        }
        let mut next_sweep = self.shared.clock.mono_ms() + SWEEP_MS;
        loop {
            let some_wait = !self.gone.borrow().is_empty();
            let pause_ms = if some_wait { RETRY_MS } else { SWEEP_MS };
            rt::sleep(Duration::from_millis(pause_ms)).await;
            self.flush_gone();
            let now_ms = self.shared.clock.mono_ms();
            if now_ms < next_sweep {
                continue;
            }
            next_sweep = now_ms + SWEEP_MS;
            self.sweep();
            // Of all cores: others may still wait for the writer, which lives on one of them.
            if self.shared.is_over() {
                break;
            }
        }
        // One more turn of the ring, so that the last FINs leave.
        rt::sleep(Duration::from_millis(1)).await;
    }

    /// Calls with the newest snapshot. To be done after every receive and every wait, so that no
    /// answer is older than one that the peer already has.
    pub(super) fn with_snapshot<T>(&self, call: impl FnOnce(&Arc<Snapshot>) -> T) -> T {
        call(self.snapshot.borrow_mut().load())
    }

    /// Whether `namesrv.adminAllow` lets the peer administer: everybody when it is empty.
    pub(super) fn may_administer(&self, stream: &Stream) -> bool {
        self.with_snapshot(|snapshot| {
            let allowed = &snapshot.settings.admin_allow;
            let peer = || {
                stream
                    .peer_addr()
                    .is_ok_and(|peer| allowed.contains(peer.ip()))
            };
            allowed.0.is_empty() || peer()
        })
    }

    /// The time. The wall clock is read by the sweeper and carried on by the other one: what it is
    /// for, a missing time stamp, does not need it better than that.
    pub(super) fn now(&self) -> Now {
        let mono_ms = self.shared.clock.mono_ms();
        Now {
            mono_ms,
            wall_ms: self.wall_offset_ms.get() + mono_ms as i64,
        }
    }

    pub(super) fn line(&self) -> &CoreLine {
        &self.shared.cores[self.index]
    }

    /// Gives a command to the writer, after all ends of connections that wait here.
    pub(super) fn submit(&self, envelope: Envelope) -> Result<(), Envelope> {
        if !self.flush_gone() || !self.inbox.reserve() {
            return Err(envelope);
        }
        let parsed = parsed_bytes(&envelope);
        if !self.shared.parsed.take(parsed, 0) {
            self.inbox.release();
            return Err(envelope);
        }
        self.shared.mailbox.try_push(envelope).inspect_err(|_| {
            self.shared.parsed.give(parsed);
            self.inbox.release();
        })
    }

    /// A connection has ended; `farewell` is what the writer must hear of it.
    pub(super) fn remove(&self, conn: u64, farewell: Option<Envelope>) {
        self.connections.borrow_mut().remove(&conn);
        self.line().connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.connections.fetch_sub(1, Ordering::SeqCst);
        if let Some(envelope) = farewell {
            self.gone.borrow_mut().push_back(envelope);
            self.flush_gone();
        }
    }

    /// True when no end of a connection waits any more.
    fn flush_gone(&self) -> bool {
        let mut gone = self.gone.borrow_mut();
        while let Some(envelope) = gone.pop_front() {
            if let Err(envelope) = self.shared.mailbox.try_push(envelope) {
                gone.push_front(envelope);
                return false;
            }
        }
        true
    }

    async fn accept(self: Rc<Self>, listener: Listener) {
        let mut stop = std::pin::pin!(self.stopped());
        loop {
            let accepted = {
                let mut accept = std::pin::pin!(listener.accept());
                poll_fn(|cx| match stop.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => accept.as_mut().poll(cx).map(Some),
                })
                .await
            };
            match accepted {
                None => return,
                Some(Ok(fd)) => self.welcome(fd),
                Some(Err(error)) => {
                    super::log::accept_failed(&error);
                    rt::sleep(ACCEPT_PAUSE).await;
                }
            }
            rt::yield_if_needed().await;
        }
    }

    /// Ready once the process is told to stop.
    async fn stopped(&self) {
        while !self.shared.is_stopping() {
            rt::sleep(Duration::from_millis(SWEEP_MS)).await;
        }
    }

    /// Keeps a new connection, or hands it to the core that has fewest.
    fn welcome(self: &Rc<Self>, fd: OwnedFd) {
        count(&self.shared.counters.accepted);
        let total = self.shared.connections.fetch_add(1, Ordering::SeqCst);
        if total >= self.shared.max_connections {
            self.shared.connections.fetch_sub(1, Ordering::SeqCst);
            count(&self.shared.counters.refused_connections);
            return;
        }
        let cores = &self.shared.cores;
        let own = self.line().connections.load(Ordering::Relaxed);
        let mean = total as f64 / cores.len() as f64;
        let crowded = own as f64 > mean * BALANCE_RATIO + BALANCE_SLACK;
        // Once the process stops, another core may end: see `Shared::is_over`.
        if crowded && !self.shared.is_stopping() {
            let load = |line: &&CoreLine| line.connections.load(Ordering::Relaxed);
            if let Some(other) = cores.iter().min_by_key(load) {
                match other.incoming.push(fd) {
                    Ok(()) => {
                        other.connections.fetch_add(1, Ordering::Relaxed);
                        count(&self.shared.counters.handed_over);
                        return other.waker.wake();
                    }
                    Err(fd) => return self.adopt(fd),
                }
            }
        }
        self.adopt(fd);
    }

    fn adopt(self: &Rc<Self>, fd: OwnedFd) {
        self.line().connections.fetch_add(1, Ordering::Relaxed);
        self.start(fd);
    }

    fn start(self: &Rc<Self>, fd: OwnedFd) {
        let conn = self.next_conn.get();
        self.next_conn.set(conn + self.shared.cores.len() as u64);
        let idle = self.with_snapshot(|s| s.settings.server_channel_max_idle_time_seconds);
        let idle_ms = u64::from(idle) * 1000;
        let connection = Rc::new(Connection::new(conn, self.shared.clock.mono_ms(), idle_ms));
        self.connections
            .borrow_mut()
            .insert(conn, Rc::clone(&connection));
        if self.shared.is_stopping() {
            // The round in which all connections were told is over.
            connection.end(EndReason::Stopping);
        }
        let core = Rc::clone(self);
        let panics = Arc::clone(&self.shared);
        let on_panic = move |panic: rt::Panicked| {
            count(&panics.counters.panics);
            super::log::connection_panicked(conn, &panic);
        };
        let task = conn::serve(core, connection, Stream::from_fd(fd));
        rt::spawn(Queue::Default, task, on_panic);
    }

    /// Takes in what other threads send: outcomes, orders to close, sockets, freed memory.
    async fn events(self: Rc<Self>) {
        poll_fn(|cx| self.poll_events(cx)).await;
    }

    fn poll_events(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.line().waker.register(cx.waker());
        while let Some(conn) = self.line().closing.pop() {
            self.tell(conn, |c| c.end(EndReason::Expired));
        }
        while let Some(asked) = self.line().asked.pop() {
            self.tell(asked.ask.origin.conn, |c| c.bring_asked(asked));
        }
        while let Some(fd) = self.line().incoming.pop() {
            self.start(fd);
        }
        self.permits.grant(self);
        if self.shared.is_stopping() {
            for connection in self.connections.borrow().values() {
                connection.end(EndReason::Stopping);
            }
        }
        while let Poll::Ready((origin, outcome)) = self.inbox.poll_pop(cx) {
            self.tell(origin.conn, |c| c.bring((origin, outcome)));
        }
        Poll::Pending
    }

    /// Does something with a connection, unless it has ended.
    fn tell(&self, conn: u64, act: impl FnOnce(&Connection)) {
        if let Some(connection) = self.connections.borrow().get(&conn) {
            act(connection);
        }
    }

    /// Looks for connections that are silent or late, and moves on what waits for room.
    fn sweep(&self) {
        // An idle core must not pin an old snapshot.
        self.with_snapshot(|_| ());
        let now = self.shared.clock.now();
        self.wall_offset_ms.set(now.wall_offset_ms());
        let now_ms = now.mono_ms;
        self.permits.expire(self, now_ms);
        let sweeps = self.sweeps.replace(self.sweeps.get() + 1);
        if sweeps.is_multiple_of(SWEEPS_PER_CHECK) {
            for connection in self.connections.borrow().values() {
                connection.check(now_ms);
            }
        }
        self.close_hoarders();
    }

    /// While the process keeps too many bytes, closes connections that have kept theirs longest:
    /// each core of its own, as long as it has more than its part. So one core at least can act,
    /// those that keep little need not, and, because what is closed counts no more at once, all
    /// together close no more than is necessary.
    fn close_hoarders(&self) {
        let shared = &self.shared;
        let limit = shared.limits.kept_total_bytes;
        let part = limit / shared.cores.len();
        let own = &self.line().kept_bytes;
        let is_too_much = || shared.kept_bytes() > limit && own.load(Ordering::Relaxed) > part;
        if !is_too_much() {
            return;
        }
        let connections = self.connections.borrow();
        let mut keeping: Vec<_> = connections
            .values()
            .filter_map(|c| Some((c.kept.get()?.0, c)))
            .collect();
        keeping.sort_by_key(|(since_ms, _)| *since_ms);
        for (_, connection) in keeping {
            if !is_too_much() {
                break;
            }
            self.forget_kept(connection);
            connection.end_for_memory();
        }
    }

    /// What a connection keeps counts no more: it has ended, or will before it does anything.
    pub(super) fn forget_kept(&self, connection: &Connection) {
        let total = &self.line().kept_bytes;
        if let Some((_, bytes)) = connection.kept.take() {
            total.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.bodies.release(total, &connection.bodies);
    }
}
