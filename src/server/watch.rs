//! The watch: ends the process when a core or the writer neither ends nor goes on.
//!
//! A stuck core keeps its sockets, and the kernel keeps giving it connections: each of their
//! requests would wait for its whole time-out, where a refused connection makes a client take
//! another NameServer at once. A stuck writer answers reads that become older and older.
//!
//! Time is counted in looks, not by a clock: a machine or a process that stood still, this thread
//! with it, counts as one look. Being busy is not being stuck: what is watched runs before
//! connections, and raises its beat whenever it gets the core at all.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam::utils::CachePadded;

use super::shared::SharedRef;
use crate::rt;

/// How often what is watched runs at least.
pub(super) const BEAT: Duration = Duration::from_millis(250);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Looks without a beat, ten seconds, after which nothing is to be expected any more: longer than
/// a busy host takes the CPU away, shorter than four time-outs of a client.
const LOOKS: u32 = 20;

/// Rises while its owner goes on.
#[derive(Debug, Default)]
pub(super) struct Beat(CachePadded<AtomicU64>);

impl Beat {
    fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `task`, which wakes at least once in [`BEAT`], and beats whenever it does.
    pub(super) async fn of<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        poll_fn(|cx| {
            self.raise();
            task.as_mut().poll(cx)
        })
        .await
    }

    /// Beats for ever.
    pub(super) async fn keep(&self) {
        loop {
            self.raise();
            rt::sleep(BEAT).await;
        }
    }
}

/// Starts the watching thread, which ends with the process or once that is told to stop: a stop
/// has a limit of its own.
pub(super) fn start(shared: &SharedRef) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let mut cores = vec![Patience::default(); shared.cores.len()];
    let mut writer = Patience::default();
    let watch = move || {
        while !shared.is_stopping() {
            for (index, core) in cores.iter_mut().enumerate() {
                if core.is_over(shared.cores[index].beat.count()) {
                    give_up(&format!("core {index}"));
                }
            }
            if writer.is_over(shared.writer_beat.count()) {
                give_up("the writer");
            }
            thread::sleep(LOOK);
        }
    };
    thread::Builder::new()
        .name("namesrv-watch".to_owned())
        .spawn(watch)
        .map(drop)
}

fn give_up(what: &str) {
    let seconds = (LOOK * LOOKS).as_secs();
    super::fail(&format!(
        "{what} is stuck: it has done nothing for {seconds} s"
    ));
}

/// What was seen of one beat.
#[derive(Clone, Debug, Default)]
struct Patience {
    last: u64,
    /// Looks that found it unchanged.
    looks: u32,
}

impl Patience {
    fn is_over(&mut self, count: u64) -> bool {
        self.looks = if count == self.last {
            self.looks + 1
        } else {
            0
        };
        self.last = count;
        self.looks > LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_after_enough_looks_at_the_same_beat() {
        let mut patience = Patience::default();
        for count in 1..100 {
            assert!(!patience.is_over(count));
        }
        for _ in 0..LOOKS {
            assert!(!patience.is_over(99));
        }
        assert!(patience.is_over(99));
    }

    #[test]
    fn one_beat_in_time_renews_patience() {
        let mut patience = Patience::default();
        for count in 1..10 {
            for _ in 0..LOOKS {
                assert!(!patience.is_over(count));
            }
        }
    }

    #[test]
    fn a_core_that_never_began_is_stuck_too() {
        let mut patience = Patience::default();
        assert!((0..=LOOKS).any(|_| patience.is_over(0)));
    }
}
