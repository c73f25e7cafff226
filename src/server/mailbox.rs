//! Bounded queues between cores, the writer and plain threads.
//!
//! It owns two kinds. A [`mailbox`] has many senders and one reader, and a full one refuses: the
//! way to the writer. An [`inbox`] has places that its owner reserves before it asks for
//! something, so that the answer always finds room: the way back to a core.
//!
//! Invariant: no wake is lost, and only the first push after the reader went to sleep pays for
//! one. With P the push, S the flag `asleep`, and a full fence on both sides between the two:
//!
//! ```text
//! sender                        reader
//! P: put the item               register the waker
//! fence                         S: asleep = true
//! if asleep: take it and wake   fence
//!                               pop again; only if there is nothing: sleep
//! ```
//!
//! The fences are ordered one way or the other. If the sender's comes first, the reader's second
//! pop finds the item. If the reader's comes first, the sender sees `asleep`, and one sender takes
//! the flag and calls the waker, which was registered before the flag was set. A reader that finds
//! something after all clears the flag; a sender that took it in between wakes for nothing, which
//! does no harm.
//!
//! Deliberately absent: closing (the end of the process ends everything), priorities, and ways to
//! wait for room (a full mailbox is answered, not waited for).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;

#[cfg(test)]
mod tests;

/// Makes a queue of `capacity` items with many senders and one reader.
///
/// # Panics
/// When `capacity` is 0.
#[must_use]
pub fn mailbox<T>(capacity: usize) -> (Mailbox<T>, MailboxReader<T>) {
    let shared = Arc::new(Shared::new(capacity));
    (
        Mailbox {
            shared: Arc::clone(&shared),
        },
        MailboxReader { shared },
    )
}

/// The end of a mailbox at which any core or thread may push.
#[derive(Debug)]
pub struct Mailbox<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Mailbox<T> {
    /// Adds an item at the end.
    ///
    /// # Errors
    /// The item, when the mailbox is full.
    pub fn try_push(&self, item: T) -> Result<(), T> {
        self.shared.push(item)
    }

    /// How many items wait, at some moment during the call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.queue.len()
    }

    /// Whether no item waits, at some moment during the call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.queue.is_empty()
    }
}

/// The end of a mailbox from which one task reads.
#[derive(Debug)]
pub struct MailboxReader<T> {
    shared: Arc<Shared<T>>,
}

impl<T> MailboxReader<T> {
    /// Takes the oldest item, or waits. Only `Pending` arranges a wake: a reader that stops
    /// while items may be left must come back by itself.
    pub fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.shared.poll_pop(cx)
    }

    /// Takes the oldest item if there is one. Arranges no wake.
    pub fn try_pop(&mut self) -> Option<T> {
        self.shared.pop()
    }

    /// How many items wait, at some moment during the call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.queue.len()
    }

    /// Whether no item waits, at some moment during the call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.queue.is_empty()
    }
}

/// Makes the inbox of a core, with `places` to reserve.
///
/// # Panics
/// When `places` is 0.
#[must_use]
pub fn inbox<T>(places: usize) -> (InboxSender<T>, Inbox<T>) {
    let shared = Arc::new(Shared::new(places));
    let sender = InboxSender {
        shared: Arc::clone(&shared),
    };
    (
        sender,
        Inbox {
            shared,
            reserved: Cell::new(0),
        },
    )
}

/// The end of an inbox at which answers are put.
#[derive(Debug)]
pub struct InboxSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for InboxSender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> InboxSender<T> {
    /// Puts the answer to something for which the core reserved a place.
    ///
    /// # Errors
    /// The item, when there is no room. That cannot happen unless something was sent without a
    /// place, or twice for one: the rules of the server are broken, and it must not go on.
    pub fn push(&self, item: T) -> Result<(), T> {
        self.shared.push(item)
    }
}

/// The end of an inbox that stays on its core, which knows how many places are promised.
///
/// Any task of the core may reserve; one task reads.
#[derive(Debug)]
pub struct Inbox<T> {
    shared: Arc<Shared<T>>,
    /// Places promised to answers that were not taken out yet: on their way, or waiting here.
    reserved: Cell<usize>,
}

impl<T> Inbox<T> {
    /// Promises a place for one answer, or says that all are promised. The place is free again
    /// when the answer is popped.
    #[must_use]
    pub fn reserve(&self) -> bool {
        let reserved = self.reserved.get();
        let free = reserved < self.shared.queue.capacity();
        if free {
            self.reserved.set(reserved + 1);
        }
        free
    }

    /// Takes back a promise, when what would have been answered was not sent after all.
    pub fn release(&self) {
        let reserved = self.reserved.get();
        debug_assert!(
            reserved > 0,
            "a place was released that nobody had reserved"
        );
        self.reserved.set(reserved.saturating_sub(1));
    }

    /// Places promised now.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.reserved.get()
    }

    /// Takes the oldest answer and frees its place, or waits. Only `Pending` arranges a wake,
    /// and only for the task that called last.
    pub fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<T> {
        let popped = self.shared.poll_pop(cx);
        if popped.is_ready() {
            self.release();
        }
        popped
    }

    /// Takes the oldest answer, if there is one, and frees its place. Arranges no wake.
    pub fn try_pop(&self) -> Option<T> {
        let popped = self.shared.pop();
        if popped.is_some() {
            self.release();
        }
        popped
    }
}

#[derive(Debug)]
struct Shared<T> {
    queue: ArrayQueue<T>,
    /// Set by the reader before it sleeps, taken by the one sender that will wake it. On a cache
    /// line of its own: every sender reads it on every push, and it changes only with sleep.
    asleep: CachePadded<AtomicBool>,
    waker: AtomicWaker,
}

impl<T> Shared<T> {
    fn new(capacity: usize) -> Self {
        Self {
            queue: ArrayQueue::new(capacity),
            asleep: CachePadded::new(AtomicBool::new(false)),
            waker: AtomicWaker::new(),
        }
    }

    fn push(&self, item: T) -> Result<(), T> {
        self.queue.push(item)?;
        fence(Ordering::SeqCst);
        // The plain load first: with an awake reader no sender writes the shared line. Acquire,
        // so that the waker registered before the flag was set is the one that is called.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Acquire) {
            self.waker.wake();
        }
        Ok(())
    }

    fn pop(&self) -> Option<T> {
        let item = self.queue.pop()?;
        if self.asleep.load(Ordering::Relaxed) {
            // Something else woke the reader: it is awake now and needs no wake.
            self.asleep.store(false, Ordering::Relaxed);
        }
        Some(item)
    }

    fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(item) = self.pop() {
            return Poll::Ready(item);
        }
        self.waker.register(cx.waker());
        self.asleep.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.pop() {
            Some(item) => Poll::Ready(item),
            None => Poll::Pending,
        }
    }
}
