//! Long work in slices, without a runtime.
//!
//! Parsing 16 MiB or applying 200,000 topics takes tens of milliseconds, and a core that did it in
//! one go would answer nobody meanwhile. Such work is an ordinary `async fn` that reports its
//! progress to a [`Pace`]; once a slice is used up it is pending exactly once, having woken itself,
//! and whoever drives it decides what runs in between. Progress is counted, not timed, so that the
//! pure layers stay deterministic.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Units of work in a slice of about 100 µs: one unit is about the work of lexing one byte.
pub const SLICE_UNITS: usize = 32 * 1024;

/// Counts work and says when a slice is used up.
#[derive(Debug)]
pub struct Pace {
    slice: usize,
    used: Cell<usize>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(SLICE_UNITS)
    }
}

impl Pace {
    /// A pace with slices of `slice` units.
    pub fn new(slice: usize) -> Self {
        Self {
            slice,
            used: Cell::new(0),
        }
    }

    /// Reports `units` of finished work; pending once when the slice is used up.
    #[inline]
    pub async fn step(&self, units: usize) {
        let used = self.used.get() + units;
        if used < self.slice {
            self.used.set(used);
            return;
        }
        self.used.set(0);
        let mut rested = false;
        std::future::poll_fn(|cx: &mut Context<'_>| {
            if rested {
                return Poll::Ready(());
            }
            rested = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// Drives paced work to its end without a pause: for tests, and where nothing else waits.
pub fn run_to_end<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut cx) {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_pauses_once_a_slice() {
        let pace = Pace::new(10);
        let mut work = pin!(async {
            for _ in 0..25 {
                pace.step(1).await;
            }
            "done"
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut cx).is_pending());
        assert!(work.as_mut().poll(&mut cx).is_pending());
        assert_eq!(work.as_mut().poll(&mut cx), Poll::Ready("done"));
    }
}
