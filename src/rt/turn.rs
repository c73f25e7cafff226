//! Taking turns on a core: giving way to other tasks, to sockets, and to the clock.
//!
//! glommio 0.9.0 looks at its preempt flag, which is raised by a timer and by urgent wakes from
//! other threads, before it runs any task. When the flag is up at that moment it runs none, takes
//! this for having nothing to do, and goes to sleep with runnable tasks until something else
//! happens. The timer raises it whenever the thread loses its CPU in just that place for a preempt
//! period, which a loaded or throttled machine does: with 2 ms, 64 connections that each waited
//! for an answer hung in 2 of 6 runs of 8 seconds beside three busy processes.
//!
//! So the timer is set to never ([`NO_TIMER`]), and tasks count their own turns here:
//! - one in 16 calls of [`yield_if_needed`] lets the other queues go first;
//! - tasks that do not wait in between, together, for 1 ms, wait until sockets were looked at.
//!
//! Urgent wakes can still raise the flag in that place, if the waker came before and the flag
//! after the look at them, some microseconds later. A heartbeat bounds what that costs.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use glommio::timer::Timer;

/// A preempt period that never ends in practice.
pub(super) const NO_TIMER: Duration = Duration::from_secs(3600);

/// How long a core may sleep with nothing to do, and by mistake (see above). Costs 0.2 % of an
/// otherwise idle CPU.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// Calls of [`yield_if_needed`], by all tasks of a core, after which another queue goes first.
/// A connection calls once for each batch of requests, some 10 µs.
const BATCHES_PER_QUEUE: u32 = 16;

/// How long tasks that never wait may keep a core from looking at its sockets.
const IO_PERIOD: Duration = Duration::from_millis(1);

/// A deadline that has passed when the executor, out of runnable tasks, looks at its timers. A
/// slice then costs about 10 µs; with 500 ns or more it often has not, the executor goes through
/// all of falling asleep, and a slice costs 35 to 50 µs.
const NEXT_TURN: Duration = Duration::from_nanos(100);

/// Wakes the core now and then. It never returns.
pub(super) async fn heartbeat() {
    loop {
        sleep(HEARTBEAT).await;
    }
}

/// Waits for at least `duration`; a busy core may add a few milliseconds.
pub async fn sleep(duration: Duration) {
    Timer::new(duration).await;
}

/// Lets the other runnable tasks of this queue go first, and once a millisecond everything else.
pub async fn yield_now() {
    if TURN.with(Turn::must_look_at_io) {
        look_at_io().await;
    } else {
        giving_way(futures_lite::future::yield_now()).await;
    }
}

/// Gives the thread back if something urgent came in or others have waited long enough;
/// otherwise costs a few nanoseconds. A task that can go on for long must call it between its
/// steps: while any task is runnable, sockets, timers and other threads are only looked at
/// because of such calls.
pub async fn yield_if_needed() {
    if TURN.with(Turn::must_look_at_io) {
        look_at_io().await;
    } else if TURN.with(Turn::must_switch_queue) {
        giving_way(glommio::executor().yield_task_queue_now()).await;
    } else {
        giving_way(glommio::yield_if_needed()).await;
    }
}

/// Gives the thread back until sockets, timers and other threads have been looked at, and what
/// they made runnable has had its turn.
///
/// Work in slices must use this. A task that gives way but stays runnable keeps the core from
/// looking at its sockets for a millisecond each time, whatever its queue's shares.
pub async fn yield_to_io() {
    let mut timer = Timer::new(NEXT_TURN);
    let mut waiting = false;
    poll_fn(|cx| {
        if waiting {
            return Pin::new(&mut timer).poll(cx).map(drop);
        }
        waiting = true;
        // It may have passed already, but the caller must not go on before others had a turn.
        while Pin::new(&mut timer).poll(cx).is_ready() {
            timer.reset(NEXT_TURN);
        }
        Poll::Pending
    })
    .await;
}

async fn look_at_io() {
    yield_to_io().await;
    TURN.with(|turn| turn.busy_since.set(None));
}

/// Waits for `step`, which stays runnable if it waits at all, and says so to [`gave_way`].
async fn giving_way(step: impl Future<Output = ()>) {
    TURN.with(|turn| turn.giving_way.set(true));
    step.await;
    TURN.with(|turn| turn.giving_way.set(false));
}

/// To be called before a task is polled; `goes_on` is what [`gave_way`] said after the last poll.
pub(super) fn begin(goes_on: bool) {
    TURN.with(|turn| {
        turn.calls.set(u32::from(goes_on));
        turn.giving_way.set(false);
    });
}

/// To be called after a task was polled and is not done: whether it is runnable still.
pub(super) fn gave_way() -> bool {
    TURN.with(|turn| turn.giving_way.get())
}

/// What a core knows about the turns of its tasks.
struct Turn {
    /// Calls by the running task since it last waited for something.
    calls: Cell<u32>,
    /// The running task is about to give way.
    giving_way: Cell<bool>,
    /// Calls by all tasks since the queue was last left on their behalf.
    batches: Cell<u32>,
    /// Since when tasks have been seen that do not wait; nothing right after a look at sockets.
    busy_since: Cell<Option<Instant>>,
}

thread_local! {
    static TURN: Turn = const {
        Turn {
            calls: Cell::new(0),
            giving_way: Cell::new(false),
            batches: Cell::new(0),
            busy_since: Cell::new(None),
        }
    };
}

impl Turn {
    /// Counts a call. The clock is only read for a task that did not wait before it.
    fn must_look_at_io(&self) -> bool {
        let calls = self.calls.get();
        self.calls.set(calls.saturating_add(1));
        if calls == 0 {
            return false;
        }
        let now = Instant::now();
        match self.busy_since.get() {
            Some(since) => now.duration_since(since) >= IO_PERIOD,
            None => {
                self.busy_since.set(Some(now));
                false
            }
        }
    }

    fn must_switch_queue(&self) -> bool {
        let batches = self.batches.get() + 1;
        let full = batches >= BATCHES_PER_QUEUE;
        self.batches.set(if full { 0 } else { batches });
        full
    }
}
