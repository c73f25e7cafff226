//! Executors that run the plan over sockets: one thread, one executor, one CPU each.
//!
//! Each core owns its share of the brokers and clients, and everything about them but the board.
//! The main thread hears of a core by messages only: that it is ready, what it measured in a
//! second, that it has ended. Invariant: within a core one `RefCell` holds all state, and no
//! borrow of it lives across an await.

mod conn;
mod core;
mod react;
mod setup;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use namesrv::rt::{CoreHandle, Queue, sleep, spawn, spawn_core};

use crate::board::{Board, Nanos};
use crate::clock::Clock;
use crate::plan::{Phases, Plan};
use crate::record::Interval;

use self::core::Core;

/// How often a waiting core looks at the clock when nothing is due.
const IDLE_TURN: Duration = Duration::from_millis(5);
/// Between the last core's readiness and the start of the plan.
const LEAD: Nanos = 50_000_000;

/// What all cores share.
#[derive(Debug)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// Its phases.
    pub phases: Phases,
    /// The truth.
    pub board: Board,
    /// The time.
    pub clock: Clock,
    /// When the plan starts; 0 until that is known.
    start: AtomicU64,
    /// Somebody wants an early end.
    stop: AtomicU64,
}

impl Run {
    /// A run that has not begun.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            phases: plan.phases(),
            board: Board::new(&plan.topology),
            plan,
            clock: Clock::default(),
            start: AtomicU64::new(0),
            stop: AtomicU64::new(0),
        }
    }

    /// All cores start the plan shortly after this. Returns the instant.
    pub fn begin(&self) -> Nanos {
        let start = self.clock.now() + LEAD;
        self.start.store(start, Ordering::Release);
        start
    }

    /// All cores end as soon as they can.
    pub fn stop(&self) {
        self.stop.store(1, Ordering::Release);
    }

    fn started(&self) -> Option<Nanos> {
        Some(self.start.load(Ordering::Acquire)).filter(|start| *start > 0)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) != 0
    }
}

/// What a core tells.
#[derive(Debug)]
pub enum Message {
    /// So many seats more are connected and registered.
    Progress(usize),
    /// Everything is connected and registered: the plan may start.
    Ready,
    /// A second, or the rest of one, is over.
    Interval(Box<Interval>),
    /// It has ended.
    Ended,
    /// It cannot go on.
    Failed(String),
}

/// Starts a core on each of `cpus`.
///
/// # Errors
/// A core could not be started.
pub fn start(run: &Arc<Run>, cpus: &[usize]) -> io::Result<(Vec<CoreHandle>, Receiver<Message>)> {
    let (send, messages) = channel();
    let mut handles = Vec::new();
    for (number, cpu) in cpus.iter().enumerate() {
        let main = {
            let (run, send, cores) = (Arc::clone(run), send.clone(), cpus.len());
            move || run_core(run, number, cores, send)
        };
        let on_panic = {
            let send = send.clone();
            move |panicked: &namesrv::rt::Panicked| {
                // Nobody is there to hear it only when the process ends anyway.
                let _ = send.send(Message::Failed(panicked.to_string()));
            }
        };
        handles.push(spawn_core(*cpu, &format!("load-{number}"), main, on_panic)?);
    }
    Ok((handles, messages))
}

async fn run_core(run: Arc<Run>, number: usize, cores: usize, send: Sender<Message>) {
    let core = Rc::new(RefCell::new(Core::new(run, number, cores, send.clone())));
    core.borrow_mut().myself = Rc::downgrade(&core);
    let schedule = {
        let core = Rc::clone(&core);
        async move { keep_schedule(&core).await }
    };
    let failed = send.clone();
    spawn(Queue::Urgent, schedule, move |panicked| {
        let _ = failed.send(Message::Failed(panicked.to_string()));
    });
    while !core.borrow().is_over() {
        sleep(IDLE_TURN).await;
    }
    core.borrow_mut().close_all();
    // One more turn, so that the tasks of the connections end.
    sleep(IDLE_TURN).await;
    let _ = send.send(Message::Ended);
}

/// Fires what is due, and sleeps until the next event. Connections do the same whenever they
/// have something to do, so that a busy core is as punctual as an idle one.
async fn keep_schedule(core: &Rc<RefCell<Core>>) {
    loop {
        let wait = {
            let mut core = core.borrow_mut();
            if core.is_over() {
                return;
            }
            core.turn();
            core.until_next()
        };
        match wait {
            Some(nanos) => sleep(Duration::from_nanos(nanos).min(IDLE_TURN)).await,
            None => namesrv::rt::yield_if_needed().await,
        }
    }
}
