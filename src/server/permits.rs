//! Who may hold a large frame in memory. One budget for the process; each core grants in the
//! order of asking, modest frames apart from huge ones so that neither waits for the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use super::core::Core;
use crate::settings::limits::Limits;

/// Frames of a core that wait for memory.
#[derive(Default)]
pub(super) struct Permits {
    modest: RefCell<VecDeque<Waiter>>,
    huge: RefCell<VecDeque<Waiter>>,
}

struct Waiter {
    connection: Rc<Connection>,
    bytes: usize,
    since_ms: u64,
}

/// Where a large frame stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// No large frame is under way.
    None,
    /// It waits for memory; nothing is read meanwhile.
    Waiting,
    /// It may take so many bytes, until a deadline.
    Granted(usize),
    /// It waited too long: it is read, thrown away and answered with code 2.
    Refused,
}

impl Permits {
    /// Asks for memory: at once if nobody waits before.
    pub(super) fn ask(&self, core: &Core, connection: &Rc<Connection>, bytes: usize) {
        let shared = &core.shared;
        let now_ms = shared.clock.mono_ms();
        let (queue, reserve) = self.class(&shared.limits, bytes);
        if queue.borrow().is_empty() && shared.large_frames.take(bytes, reserve) {
            connection.grant(bytes, now_ms, &shared.limits);
            return;
        }
        connection.set_permit(Permit::Waiting);
        core.line().permit_waiters.fetch_add(1, Ordering::Relaxed);
        let connection = Rc::clone(connection);
        queue.borrow_mut().push_back(Waiter {
            connection,
            bytes,
            since_ms: now_ms,
        });
    }

    /// Grants what has become possible.
    pub(super) fn grant(&self, core: &Core) {
        let shared = &core.shared;
        let now_ms = shared.clock.mono_ms();
        for queue in [&self.modest, &self.huge] {
            let mut queue = queue.borrow_mut();
            while let Some(waiter) = queue.pop_front() {
                let (_, reserve) = self.class(&shared.limits, waiter.bytes);
                let gone = waiter.connection.permit() != Permit::Waiting;
                if !gone && !shared.large_frames.take(waiter.bytes, reserve) {
                    queue.push_front(waiter);
                    break;
                }
                core.line().permit_waiters.fetch_sub(1, Ordering::Relaxed);
                if !gone {
                    waiter
                        .connection
                        .grant(waiter.bytes, now_ms, &shared.limits);
                    waiter.connection.wake();
                }
            }
        }
    }

    /// Ends the waiting of those who have waited long enough.
    pub(super) fn expire(&self, core: &Core, now_ms: u64) {
        self.grant(core);
        for queue in [&self.modest, &self.huge] {
            let mut queue = queue.borrow_mut();
            while let Some(waiter) = queue.front()
                && now_ms.saturating_sub(waiter.since_ms) >= core.shared.limits.permit_wait_ms
            {
                if waiter.connection.permit() == Permit::Waiting {
                    waiter.connection.set_permit(Permit::Refused);
                    waiter.connection.wake();
                }
                queue.pop_front();
                core.line().permit_waiters.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The queue for a frame of this size and what it must leave for others.
    fn class(&self, limits: &Limits, bytes: usize) -> (&RefCell<VecDeque<Waiter>>, usize) {
        if bytes <= limits.modest_frame_bytes {
            (&self.modest, 0)
        } else {
            (&self.huge, limits.large_frames_reserve_bytes)
        }
    }
}
