//! What the cores and the writer share: the published snapshot, the queues between them, the
//! budgets of the whole process, and what is counted.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use atomic_waker::AtomicWaker;
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam::utils::CachePadded;

use super::clock::Clock;
use super::cluster_test::Questions;
use super::mailbox::{InboxSender, Mailbox};
use super::watch::Beat;
use crate::route::command::{Envelope, Origin, Outcome};
use crate::route::snapshot::Snapshot;
use crate::session::elsewhere::Asked;
use crate::session::jobs::DigestKeys;
use crate::settings::limits::Limits;

/// An outcome on its way to the connection that asked.
pub(super) type Answer = (Origin, Outcome);

/// Shared by everything that runs.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) limits: Limits,
    pub(super) keys: DigestKeys,
    /// Stored by the writer alone, loaded by each core after each receive.
    pub(super) published: Arc<ArcSwap<Snapshot>>,
    /// To the writer.
    pub(super) mailbox: Mailbox<Envelope>,
    /// Shows that the writer goes on.
    pub(super) writer_beat: Beat,
    /// To each core.
    pub(super) cores: Vec<CoreLine>,
    /// Connections that may exist at once.
    pub(super) max_connections: usize,
    pub(super) connections: AtomicUsize,
    /// Memory in large frames.
    pub(super) large_frames: Budget,
    /// Commands on their way to the writer, at their parsed size.
    pub(super) parsed: Budget,
    /// To the thread that asks the production environment, with `clusterTest`.
    pub(super) production: Option<Questions>,
    /// Its answers that have not been sent on.
    pub(super) asked: Budget,
    /// The process will stop soon: newer peers are told to go away.
    pub(super) leaving: AtomicBool,
    /// The process has been told to stop: accept nothing, finish what was read.
    pub(super) stopping: AtomicBool,
    pub(super) counters: Counters,
}

/// How other threads reach a core.
pub(super) struct CoreLine {
    /// Outcomes, for which the core has reserved places.
    pub(super) inbox: InboxSender<Answer>,
    /// Connections to close. Not bounded by a number of its own: the writer orders a close when
    /// the last broker of a connection expires, so at most once per registration it accepted.
    pub(super) closing: SegQueue<u64>,
    /// What came of questions to the production environment: no more than may wait there.
    pub(super) asked: SegQueue<Asked>,
    /// Accepted sockets handed over for balance.
    pub(super) incoming: ArrayQueue<OwnedFd>,
    /// Woken after anything but an outcome was put here.
    pub(super) waker: AtomicWaker,
    /// Connections of the core.
    pub(super) connections: CachePadded<AtomicUsize>,
    /// Bytes that connections of the core keep between turns. Changed by the core alone.
    pub(super) kept_bytes: CachePadded<AtomicUsize>,
    /// Frames of the core that wait for a permit.
    pub(super) permit_waiters: AtomicUsize,
    /// Shows that the core goes on.
    pub(super) beat: Beat,
}

/// Sockets on their way to another core; more are kept where they were accepted.
const INCOMING_PLACES: usize = 256;

impl CoreLine {
    pub(super) fn new(inbox: InboxSender<Answer>) -> Self {
        Self {
            inbox,
            closing: SegQueue::new(),
            asked: SegQueue::new(),
            incoming: ArrayQueue::new(INCOMING_PLACES),
            waker: AtomicWaker::new(),
            connections: CachePadded::default(),
            kept_bytes: CachePadded::default(),
            permit_waiters: AtomicUsize::new(0),
            beat: Beat::default(),
        }
    }
}

impl Shared {
    /// Tells every core that the process is to stop.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for core in &self.cores {
            core.waker.wake();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Whether the process stops and no core has a connection, or one on its way to it.
    ///
    /// An acceptor counts a connection before it looks whether the process stops, and hands it to
    /// another core only if not. In the one order of all these, who sees no connection here will
    /// never be handed one.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopping() && self.connections.load(Ordering::SeqCst) == 0
    }

    /// Bytes that all connections keep between turns.
    pub(super) fn kept_bytes(&self) -> usize {
        let of_core = |core: &CoreLine| core.kept_bytes.load(Ordering::Relaxed);
        self.cores.iter().map(of_core).sum()
    }

    /// Gives memory of large frames back and wakes the cores where somebody waits for it.
    pub(super) fn release_large(&self, bytes: usize) {
        self.large_frames.give(bytes);
        for core in &self.cores {
            if core.permit_waiters.load(Ordering::Relaxed) > 0 {
                core.waker.wake();
            }
        }
    }
}

/// Bytes that may be in use at once, for the whole process.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    total: usize,
}

impl Budget {
    pub(super) fn new(total: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            total,
        }
    }

    /// Takes `bytes` if `reserve` would still be left.
    pub(super) fn take(&self, bytes: usize, reserve: usize) -> bool {
        let most = self.total.saturating_sub(reserve);
        let step = |used: usize| Some(used + bytes).filter(|sum| *sum <= most);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Gives `bytes` back.
    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What is counted, for the log and the metrics.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) refused_connections: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) closed_malformed: AtomicU64,
    pub(super) closed_idle: AtomicU64,
    pub(super) closed_late_frames: AtomicU64,
    pub(super) closed_for_memory: AtomicU64,
    pub(super) overloaded: AtomicU64,
    pub(super) too_large_answers: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) asked_elsewhere: AtomicU64,
    pub(super) refused_asks: AtomicU64,
    pub(super) dropped_notices: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Handle of everything shared.
pub(super) type SharedRef = Arc<Shared>;
