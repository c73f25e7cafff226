//! The one reader of time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::route::Now;

/// The process's clocks. The monotonic one counts from the start of the server, because
/// `needWaitForService` does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts the monotonic clock.
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Both clocks. A wall clock before 1970 counts as 1970.
    pub(super) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ms = wall.map_or(0, |since| since.as_millis());
        Now {
            mono_ms: self.mono_ms(),
            wall_ms: i64::try_from(wall_ms).unwrap_or(i64::MAX),
        }
    }

    /// The monotonic clock alone.
    pub(super) fn mono_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
