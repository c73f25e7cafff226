//! Shared answers that connections have not wholly sent, as a part of what the process keeps.
//!
//! One body may be on its way to thousands of connections and takes its memory once, so each core
//! counts it once, as long as any of its connections has it; two cores count it twice. Without
//! this a peer that asks and does not read could keep any number of old versions alive.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::RandomState;
use bytes::Bytes;

/// The bodies of one core.
pub(super) struct UnsentBodies(RefCell<HashMap<usize, Holders, RandomState>>);

struct Holders {
    count: usize,
    bytes: usize,
}

/// The bodies of one connection.
#[derive(Default)]
pub(super) struct HeldBodies {
    keys: RefCell<Vec<usize>>,
}

impl UnsentBodies {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self(RefCell::new(HashMap::with_hasher(hasher)))
    }

    /// Notes that a connection holds `bodies`, of which the first were noted before, and adds what
    /// is new on this core to `total`.
    pub(super) fn hold(&self, total: &AtomicUsize, held: &HeldBodies, bodies: &[(usize, Bytes)]) {
        let mut keys = held.keys.borrow_mut();
        let Some(new) = bodies.get(keys.len()..).filter(|new| !new.is_empty()) else {
            return;
        };
        let mut known = self.0.borrow_mut();
        for (_, body) in new {
            let key = end_address(body);
            let holders = known.entry(key).or_insert_with(|| {
                total.fetch_add(body.len(), Ordering::Relaxed);
                Holders {
                    count: 0,
                    bytes: body.len(),
                }
            });
            holders.count += 1;
            keys.push(key);
        }
    }

    /// The connection holds none any more. To be called before they are dropped, so that no
    /// other body takes an address that is still noted.
    pub(super) fn release(&self, total: &AtomicUsize, held: &HeldBodies) {
        let mut known = self.0.borrow_mut();
        for key in held.keys.take() {
            let Some(holders) = known.get_mut(&key) else {
                continue;
            };
            holders.count -= 1;
            if holders.count == 0 {
                total.fetch_sub(holders.bytes, Ordering::Relaxed);
                known.remove(&key);
            }
        }
    }
}

/// Where a body ends: the same for all its holders, however much of its front they have sent.
fn end_address(body: &Bytes) -> usize {
    body.as_ptr() as usize + body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> (usize, Bytes) {
        (0, Bytes::from(vec![b'x'; bytes]))
    }

    /// What is left of an answer after some of it was sent.
    fn rest(answer: &(usize, Bytes), sent: usize) -> (usize, Bytes) {
        (0, answer.1.slice(sent..))
    }

    #[test]
    fn a_body_of_many_connections_counts_once_until_the_last_has_sent_it() {
        let (core, total) = (
            UnsentBodies::new(RandomState::with_seeds(1, 2, 3, 4)),
            AtomicUsize::new(7),
        );
        let (first, second) = (HeldBodies::default(), HeldBodies::default());
        let shared = answer(1000);
        core.hold(&total, &first, &[rest(&shared, 10)]);
        core.hold(&total, &second, &[rest(&shared, 400)]);
        assert_eq!(total.load(Ordering::Relaxed), 7 + 990);
        core.release(&total, &first);
        assert_eq!(total.load(Ordering::Relaxed), 7 + 990);
        core.release(&total, &second);
        core.release(&total, &second);
        assert_eq!(total.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn bodies_that_are_added_later_count_once_each() {
        let (core, total) = (
            UnsentBodies::new(RandomState::with_seeds(1, 2, 3, 4)),
            AtomicUsize::new(0),
        );
        let held = HeldBodies::default();
        let mut bodies = vec![answer(100)];
        core.hold(&total, &held, &bodies);
        core.hold(&total, &held, &bodies);
        bodies.push(answer(20));
        core.hold(&total, &held, &bodies);
        assert_eq!(total.load(Ordering::Relaxed), 120);
        core.release(&total, &held);
        assert_eq!(total.load(Ordering::Relaxed), 0);
        core.hold(&total, &held, &bodies[1..]);
        assert_eq!(total.load(Ordering::Relaxed), 20);
    }
}
