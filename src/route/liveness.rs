//! The shared clock of each live broker: the one thing about a broker that serving cores change
//! themselves, so that heartbeats and unchanged registrations never reach the writer.
//!
//! A clock holds the monotonic millisecond at which its broker was last heard of, or DEAD.
//! Cores raise it by compare-and-swap from any value but DEAD; only the writer makes it DEAD, and
//! an expiry only from exactly the value that it judged. So either the heartbeat came first and
//! the expiry gives up, or the expiry came first and the sender of the heartbeat sees it.
//! DEAD is for ever: whatever registers next gets a clock of its own.

use std::sync::atomic::{AtomicU64, Ordering};

/// The broker of this clock has left the tables (or does so with the next publish).
const DEAD: u64 = u64::MAX;

/// When a broker was last heard of.
#[derive(Debug)]
pub struct Live {
    last_seen_ms: AtomicU64,
    /// The writer's own note: under which deadline this clock is filed.
    filed_under_ms: AtomicU64,
    /// Distinguishes the clocks of one address over time; never reused.
    pub serial: u64,
}

impl Live {
    /// A clock that was last touched at `now_ms` on the monotonic clock.
    pub fn new(serial: u64, now_ms: u64) -> Self {
        Self {
            last_seen_ms: AtomicU64::new(now_ms),
            filed_under_ms: AtomicU64::new(0),
            serial,
        }
    }

    /// The broker was heard of at `now_ms`. False if it is dead.
    ///
    /// The swap is written out because a plain maximum would make a dead clock's state depend on
    /// how large DEAD is; a clock never goes back.
    pub fn touch(&self, now_ms: u64) -> bool {
        // Relaxed suffices: the value carries no other memory with it, and a reader that misses a
        // concurrent DEAD is ordered before it.
        let step = |last| (last != DEAD).then_some(now_ms.max(last));
        self.last_seen_ms
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    /// Last touch in monotonic milliseconds; `None` when dead.
    pub fn last_seen_ms(&self) -> Option<u64> {
        let last = self.last_seen_ms.load(Ordering::Relaxed);
        (last != DEAD).then_some(last)
    }

    /// Whether the broker may still be heard of.
    pub fn is_alive(&self) -> bool {
        self.last_seen_ms().is_some()
    }

    /// Ends the clock whatever it shows: 104, replacement, closed connection.
    pub fn kill(&self) {
        self.last_seen_ms.store(DEAD, Ordering::Relaxed);
    }

    /// Ends the clock if it shows a time that `timeout_ms` has passed by at `now_ms`.
    /// False if the broker was heard of in time, also when that happens this very moment.
    pub fn kill_if_expired(&self, timeout_ms: i64, now_ms: u64) -> bool {
        let Some(last) = self.last_seen_ms() else {
            return true;
        };
        deadline_ms(last, timeout_ms) < now_ms
            && self
                .last_seen_ms
                .compare_exchange(last, DEAD, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether `timeout_ms` has passed by at `now_ms`, as far as the clock shows now.
    pub fn is_expired(&self, timeout_ms: i64, now_ms: u64) -> bool {
        let last = self.last_seen_ms();
        last.is_none_or(|last| deadline_ms(last, timeout_ms) < now_ms)
    }

    /// Moves the clock forward by `late_ms`, at most to `now_ms`: the time in which the machine
    /// stood still is not held against its brokers.
    pub fn forgive(&self, late_ms: u64, now_ms: u64) {
        let step =
            |last: u64| (last != DEAD).then(|| last.saturating_add(late_ms).min(now_ms).max(last));
        // A dead clock stays dead; nothing else can fail.
        let _ = self
            .last_seen_ms
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }

    pub(super) fn filed_under_ms(&self) -> u64 {
        self.filed_under_ms.load(Ordering::Relaxed)
    }

    pub(super) fn file_under_ms(&self, deadline_ms: u64) {
        self.filed_under_ms.store(deadline_ms, Ordering::Relaxed);
    }
}

/// The last millisecond at which a broker heard of at `last_ms` is still alive. Saturating, where
/// Java's sum overflows and expires a broker with a huge time-out at once.
pub fn deadline_ms(last_ms: u64, timeout_ms: i64) -> u64 {
    last_ms.saturating_add_signed(timeout_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_strictly_after_the_timeout() {
        let live = Live::new(1, 1000);
        assert!(!live.kill_if_expired(500, 1500));
        assert!(live.is_alive());
        assert!(live.kill_if_expired(500, 1501));
        assert!(!live.is_alive());
        assert!(!live.touch(9000), "a dead clock cannot be touched");
        assert!(!live.is_alive());
    }

    #[test]
    fn a_clock_never_goes_back() {
        let live = Live::new(1, 1000);
        assert!(live.touch(900));
        assert_eq!(live.last_seen_ms(), Some(1000));
        live.forgive(5000, 3000);
        assert_eq!(live.last_seen_ms(), Some(3000));
        live.forgive(5000, 2000);
        assert_eq!(live.last_seen_ms(), Some(3000));
        live.kill();
        live.forgive(1, 9999);
        assert_eq!(live.last_seen_ms(), None);
    }

    #[test]
    fn timeouts_saturate() {
        assert_eq!(deadline_ms(10, i64::MAX), 10 + i64::MAX as u64);
        assert_eq!(deadline_ms(u64::MAX - 5, 100), u64::MAX);
        assert_eq!(deadline_ms(10, -20), 0);
    }
}
