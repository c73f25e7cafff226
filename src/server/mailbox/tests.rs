#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;

/// A waker that counts, and unparks the thread that made it.
struct Counter {
    wakes: AtomicUsize,
    thread: thread::Thread,
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wakes: AtomicUsize::new(0),
            thread: thread::current(),
        })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future on this thread, sleeping only when it waits; returns the number of wakes too.
fn block_on<F: Future>(future: F) -> (F::Output, usize) {
    let counter = Counter::new();
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return (output, counter.wakes());
        }
        thread::park();
    }
}

/// Fails instead of hanging when a wake is lost.
fn within_a_minute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn items_leave_in_the_order_of_their_arrival() {
    let (mailbox, mut reader) = mailbox(3);
    assert!(mailbox.is_empty());
    for item in 1..=3 {
        assert_eq!(mailbox.try_push(item), Ok(()));
    }
    assert_eq!(mailbox.len(), 3);
    assert_eq!(mailbox.try_push(4), Err(4));
    assert_eq!(reader.try_pop(), Some(1));
    assert_eq!(mailbox.try_push(5), Ok(()));
    assert_eq!(reader.len(), 3);
    assert_eq!(
        [reader.try_pop(), reader.try_pop(), reader.try_pop()],
        [Some(2), Some(3), Some(5)]
    );
    assert_eq!(reader.try_pop(), None);
    assert!(reader.is_empty());
}

#[test]
fn only_the_first_push_of_a_burst_wakes() {
    let (mailbox, mut reader) = mailbox(8);
    let counter = Counter::new();
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);

    assert_eq!(mailbox.try_push(1), Ok(()));
    assert_eq!(counter.wakes(), 0, "a reader that never slept is not woken");
    assert_eq!(reader.poll_pop(&mut cx), Poll::Ready(1));
    assert_eq!(reader.poll_pop(&mut cx), Poll::Pending);
    for item in 2..=4 {
        assert_eq!(mailbox.try_push(item), Ok(()));
    }
    assert_eq!(counter.wakes(), 1);

    assert_eq!(reader.poll_pop(&mut cx), Poll::Ready(2));
    assert_eq!(mailbox.try_push(5), Ok(()));
    assert_eq!(counter.wakes(), 1, "an awake reader is not woken");
    for item in 3..=5 {
        assert_eq!(reader.poll_pop(&mut cx), Poll::Ready(item));
    }
    assert_eq!(reader.poll_pop(&mut cx), Poll::Pending);
    assert_eq!(mailbox.try_push(6), Ok(()));
    assert_eq!(counter.wakes(), 2);
}

#[test]
fn a_reader_woken_by_something_else_is_awake() {
    let (mailbox, mut reader) = mailbox(4);
    let counter = Counter::new();
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);

    assert_eq!(reader.poll_pop(&mut cx), Poll::Pending);
    assert_eq!(mailbox.try_push(1), Ok(()));
    assert_eq!(reader.poll_pop(&mut cx), Poll::Ready(1));
    assert_eq!(reader.poll_pop(&mut cx), Poll::Pending);
    assert_eq!(
        mailbox.shared.queue.push(2),
        Ok(()),
        "put there unseen: the flag stays set"
    );
    assert_eq!(reader.try_pop(), Some(2));
    assert_eq!(mailbox.try_push(3), Ok(()));
    assert_eq!(counter.wakes(), 1);
}

/// Pushes at the one moment at which a reader may be passed over: its last owner is the mailbox,
/// which drops it while it registers the next waker.
struct PushesWhenReplaced(Mailbox<u32>);

impl Wake for PushesWhenReplaced {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PushesWhenReplaced {
    fn drop(&mut self) {
        assert_eq!(self.0.try_push(2), Ok(()));
    }
}

#[test]
fn an_item_that_arrives_between_look_and_sleep_is_found() {
    let (mailbox, mut reader) = mailbox(4);
    let pushes = Waker::from(Arc::new(PushesWhenReplaced(mailbox.clone())));
    assert_eq!(
        reader.poll_pop(&mut Context::from_waker(&pushes)),
        Poll::Pending
    );
    drop(pushes);
    assert_eq!(
        mailbox.shared.queue.push(1),
        Ok(()),
        "put there unseen: the waker stays"
    );
    assert_eq!(reader.try_pop(), Some(1));

    let counter = Counter::new();
    let waker = Waker::from(Arc::clone(&counter));
    assert_eq!(
        reader.poll_pop(&mut Context::from_waker(&waker)),
        Poll::Ready(2)
    );
    assert_eq!(
        counter.wakes(),
        0,
        "the reader counted as awake when the item came"
    );
    assert_eq!(mailbox.try_push(3), Ok(()));
    assert_eq!(counter.wakes(), 0, "and still does");
}

#[test]
fn a_reader_that_moves_to_another_waker_is_woken_there() {
    let (mailbox, mut reader) = mailbox(4);
    let (first, second) = (Counter::new(), Counter::new());
    for counter in [&first, &second] {
        let waker = Waker::from(Arc::clone(counter));
        assert_eq!(
            reader.poll_pop(&mut Context::from_waker(&waker)),
            Poll::Pending
        );
    }
    assert_eq!(mailbox.try_push(1), Ok(()));
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
}

#[test]
fn many_senders_lose_nothing_and_keep_their_order() {
    const SENDERS: usize = 4;
    const EACH: usize = 30_000;
    let (received, _) = within_a_minute(|| {
        let (mailbox, mut reader) = mailbox(64);
        for sender in 0..SENDERS {
            let mailbox = mailbox.clone();
            thread::spawn(move || {
                for number in 0..EACH {
                    while mailbox.try_push((sender, number)).is_err() {
                        thread::yield_now();
                    }
                }
            });
        }
        block_on(async move {
            let mut next = [0; SENDERS];
            for _ in 0..SENDERS * EACH {
                let (sender, number) = poll_fn(|cx| reader.poll_pop(cx)).await;
                assert_eq!(number, next[sender], "from {sender}");
                next[sender] += 1;
            }
            assert_eq!(reader.try_pop(), None);
            next
        })
    });
    assert_eq!(received, [EACH; SENDERS]);
}

/// Every item needs a wake of its own here, each racing with the reader that goes to sleep.
#[test]
fn no_wake_is_lost_between_two_that_wait_for_each_other() {
    const ROUNDS: u32 = 20_000;
    let last = within_a_minute(|| {
        let (to_echo, mut echo) = mailbox::<u32>(1);
        let (sender, back) = inbox::<u32>(1);
        thread::spawn(move || {
            block_on(async move {
                loop {
                    let number = poll_fn(|cx| echo.poll_pop(cx)).await;
                    assert_eq!(sender.push(number + 1), Ok(()));
                }
            })
        });
        block_on(async move {
            let mut number = 0;
            for _ in 0..ROUNDS {
                assert!(back.reserve());
                assert_eq!(to_echo.try_push(number), Ok(()));
                number = poll_fn(|cx| back.poll_pop(cx)).await;
            }
            number
        })
    });
    assert_eq!(last.0, ROUNDS);
}

#[test]
fn an_inbox_promises_no_more_places_than_it_has() {
    let (sender, inbox) = inbox(2);
    assert_eq!(
        [inbox.reserve(), inbox.reserve(), inbox.reserve()],
        [true, true, false]
    );
    assert_eq!(sender.push('a'), Ok(()));
    assert_eq!(inbox.reserved(), 2);
    assert!(
        !inbox.reserve(),
        "an answer that waits still takes its place"
    );
    assert_eq!(inbox.try_pop(), Some('a'));
    assert_eq!(inbox.reserved(), 1);
    assert!(inbox.reserve());
    inbox.release();
    assert_eq!(inbox.reserved(), 1);

    assert_eq!(inbox.try_pop(), None);
    assert_eq!(inbox.reserved(), 1, "nothing popped, nothing freed");
    let waker = Waker::noop();
    let mut cx = Context::from_waker(waker);
    assert_eq!(inbox.poll_pop(&mut cx), Poll::Pending);
    assert_eq!(sender.push('b'), Ok(()));
    assert_eq!(inbox.poll_pop(&mut cx), Poll::Ready('b'));
    assert_eq!(inbox.reserved(), 0);
}

#[test]
fn an_answer_without_a_place_comes_back_when_there_is_no_room() {
    let (sender, inbox) = inbox(1);
    assert!(inbox.reserve());
    assert_eq!(sender.push(1), Ok(()));
    assert_eq!(sender.push(2), Err(2));
}

#[test]
fn items_left_behind_are_dropped_with_the_queue() {
    let item = Arc::new(());
    let (mailbox, reader) = mailbox(4);
    assert!(mailbox.try_push(Arc::clone(&item)).is_ok());
    assert!(mailbox.try_push(Arc::clone(&item)).is_ok());
    assert_eq!(Arc::strong_count(&item), 3);
    drop((mailbox, reader));
    assert_eq!(Arc::strong_count(&item), 1);
}
