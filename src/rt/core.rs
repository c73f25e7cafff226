//! Cores: one thread, one executor, one CPU; and the tasks that run on them.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use glommio::{Latency, LocalExecutor, LocalExecutorBuilder, Placement, Shares, TaskQueueHandle};

use super::{host, ring, turn};

/// Entries of each of the three rings of an executor. Every turn cancels a timer by searching a
/// hash whose size follows this depth, up to 4096. Sockets are in a ring of their own and no longer
/// in that hash; with glommio's streams the default of 128 made a request cost nine times as much
/// beside 19,500 idle connections.
pub(super) const RING_DEPTH: usize = 4096;

/// The weight of glommio's default queue, given to the urgent one too.
const FULL_SHARES: usize = 1000;

/// The weight of the background queue: when it competes without waiting it gets 5 %.
const LOW_SHARES: usize = 50;

/// Where a task runs. Every core has each of these queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Connections and everything else.
    Default,
    /// Tasks that other threads wake. Only for these does a wake from another thread interrupt
    /// a busy core; a task of another queue is found when the core next looks around. They run
    /// after at most 16 calls of [`yield_if_needed`](super::yield_if_needed) by other tasks.
    Urgent,
    /// Long work in slices. It must use [`yield_to_io`](super::yield_to_io) between its slices.
    Background,
}

/// A panic that was caught, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {message}")]
pub struct Panicked {
    /// What the panic said, or a fixed text when it carried something other than a string.
    pub message: String,
}

impl Panicked {
    fn from_payload(payload: &(dyn Any + Send)) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "without a message".to_owned()
        };
        Self { message }
    }
}

/// A running core.
#[derive(Debug)]
pub struct CoreHandle {
    thread: JoinHandle<Result<(), Panicked>>,
}

impl CoreHandle {
    /// Waits for the end of the core. Blocks, so it must not be called on a core.
    ///
    /// # Errors
    /// The panic that ended the core.
    pub fn join(self) -> Result<(), Panicked> {
        self.thread
            .join()
            .unwrap_or_else(|payload| Err(Panicked::from_payload(&*payload)))
    }

    /// Whether the core has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts a thread called `name` (the kernel keeps 15 bytes) on `cpu`, with an executor that
/// runs `main` in [`Queue::Default`] until it returns. Several cores may share one CPU.
///
/// When `main` returns, tasks that still wait are neither run nor dropped, and their sockets
/// stay open: end them first.
///
/// A panic of `main`, or within the executor, ends the core. `on_panic` is called first, on the
/// dying thread. The sockets of the core, its listener included, then stay open and unserved,
/// and the kernel keeps giving them connections; a server should end the process there.
///
/// # Errors
/// No such CPU, no thread, or no rings: see [`io_uring_status`](super::io_uring_status).
pub fn spawn_core<M, F, P>(cpu: usize, name: &str, main: M, on_panic: P) -> io::Result<CoreHandle>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
    P: FnOnce(&Panicked) + Send + 'static,
{
    let (ready, started) = sync_channel(1);
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run_core(cpu, &ready, main, on_panic))?;
    match started.recv() {
        Ok(Ok(())) => Ok(CoreHandle { thread }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other(
            "the thread ended before its executor was ready",
        )),
    }
}

fn run_core<M, F, P>(
    cpu: usize,
    ready: &SyncSender<io::Result<()>>,
    main: M,
    on_panic: P,
) -> Result<(), Panicked>
where
    M: FnOnce() -> F,
    F: Future<Output = ()> + 'static,
    P: FnOnce(&Panicked),
{
    // The starter waits for exactly one message, so sending cannot fail.
    let executor = match make_executor(cpu) {
        Ok(executor) => {
            let _ = ready.send(Ok(()));
            executor
        }
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let panicked = Cell::new(None);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        executor.run(async {
            create_queues();
            spawn(Queue::Default, turn::heartbeat(), |_| {});
            // Without it no socket is heard any more: a panic of it is one of the executor.
            spawn(Queue::Default, ring::drive(), |why| panic!("{why}"));
            Contained::new(main(), |why| panicked.set(Some(why))).await;
        });
    }));
    let why = match ended {
        Ok(()) => panicked.take(),
        Err(payload) => Some(Panicked::from_payload(&*payload)),
    };
    why.map_or(Ok(()), |why| {
        on_panic(&why);
        Err(why)
    })
}

/// Pins this thread and builds an executor on it.
///
/// The thread is pinned here and the placement left open, since glommio's fixed placement reads
/// the topology of the whole machine from `/sys` and panics where that is not mounted. What it
/// would add is spinning before sleep, which is not wanted.
fn make_executor(cpu: usize) -> io::Result<LocalExecutor> {
    host::pin_thread(cpu)?;
    ring::open()?;
    let build = || {
        LocalExecutorBuilder::new(Placement::Unbound)
            .ring_depth(RING_DEPTH)
            // becomes 64 KiB; the default of 10 MiB would be pinned in all three rings
            .io_memory(0)
            .preempt_timer(turn::NO_TIMER)
            .make()
    };
    match catch_unwind(build) {
        Ok(made) => made.map_err(io::Error::from),
        Err(payload) => Err(io::Error::other(Panicked::from_payload(&*payload))),
    }
}

thread_local! {
    /// The urgent and the background queue of this thread's core.
    static QUEUES: Cell<Option<(TaskQueueHandle, TaskQueueHandle)>> = const { Cell::new(None) };
}

fn create_queues() {
    let executor = glommio::executor();
    let full = Shares::Static(FULL_SHARES);
    let low = Shares::Static(LOW_SHARES);
    let urgent = executor.create_task_queue(full, Latency::Matters(turn::NO_TIMER), "urgent");
    let background = executor.create_task_queue(low, Latency::NotImportant, "background");
    QUEUES.set(Some((urgent, background)));
}

/// Starts a task on this core. It runs until its future returns.
///
/// When the future panics, while running or while being dropped, it is dropped (so its sockets
/// close), `on_panic` gets the message, and the core goes on. `on_panic` itself must not panic.
///
/// # Panics
/// When this thread is not a core.
pub fn spawn<F, P>(queue: Queue, future: F, on_panic: P)
where
    F: Future<Output = ()> + 'static,
    P: FnOnce(Panicked) + 'static,
{
    let Some((urgent, background)) = QUEUES.get() else {
        panic!("a task was started outside of a core");
    };
    let handle = match queue {
        Queue::Default => TaskQueueHandle::default(),
        Queue::Urgent => urgent,
        Queue::Background => background,
    };
    let task = Contained::new(future, on_panic);
    match glommio::spawn_local_into(task, handle) {
        Ok(task) => drop(task.detach()),
        Err(error) => panic!("a queue of this core is gone: {error}"),
    }
}

/// A future whose panics end here. It holds `future` once, unlike an async block around it, which
/// would keep two copies in every task.
struct Contained<F, P> {
    future: Option<F>,
    on_panic: Option<P>,
    /// It gave way at the end of its last poll, rather than waited for something.
    gave_way: bool,
}

impl<F, P> Contained<F, P> {
    fn new(future: F, on_panic: P) -> Self {
        Self {
            future: Some(future),
            on_panic: Some(on_panic),
            gave_way: false,
        }
    }
}

impl<F, P> Future for Contained<F, P>
where
    F: Future<Output = ()>,
    P: FnOnce(Panicked),
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` stays where it is: it is only polled through the pin made below, and
        // dropped in place by `Pin::set`. The other fields are not pinned, and there is no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above; `self` was pinned, so the field is too.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        let Some(running) = future.as_mut().as_pin_mut() else {
            return Poll::Ready(());
        };
        turn::begin(this.gave_way);
        let polled = catch_unwind(AssertUnwindSafe(|| running.poll(cx)));
        if matches!(polled, Ok(Poll::Pending)) {
            this.gave_way = turn::gave_way();
            return Poll::Pending;
        }
        let dropped = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        let failed = polled.err().or_else(|| dropped.err());
        if let Some(payload) = failed
            && let Some(on_panic) = this.on_panic.take()
        {
            on_panic(Panicked::from_payload(&*payload));
        }
        Poll::Ready(())
    }
}
