//! The only reader of time.

use std::time::Instant;

use crate::board::Nanos;

/// Counts nanoseconds from the beginning of the process; begins at 1, since 0 means never.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock {
    /// Now.
    #[must_use]
    pub fn now(&self) -> Nanos {
        u64::try_from(self.0.elapsed().as_nanos())
            .unwrap_or(Nanos::MAX)
            .saturating_add(1)
    }
}
