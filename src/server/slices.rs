//! Drives paced work on a core: a slice, then whatever else the core has to do.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::rt;

/// Runs `work` to its end. Its own wakes are not needed: it is pending only between slices.
pub(super) async fn in_slices<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(value) = work.as_mut().poll(&mut cx) {
            return value;
        }
        rt::yield_to_io().await;
    }
}
