//! A core's own io_uring, which tells when sockets can be read or written.
//!
//! glommio watches a socket by a poll request that ends with its first event, and each of its
//! completions interrupts the thread: two thirds of what a request costs above the bare system
//! calls. Here each socket has one poll request that stays (multishot), in a ring that never
//! interrupts: the kernel adds completions while the thread is in a system call anyway. One task
//! of the core, [`drive`], reads them and wakes the tasks whose sockets they are about; only when
//! there is none does it wait, through glommio, for this ring to become readable.
//!
//! Invariants:
//! - The kernel gets no buffers, so a request may outlive its [`Watch`] without harm.
//! - An event is told once: who finds a socket empty calls [`Watch::emptied`], and events that
//!   come later set it readable again. An ended stream stays readable.
//! - A place of a watch is used again only after the kernel has ended all of its requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use futures_lite::io::AsyncRead;
use glommio::net::TcpStream;
use io_uring::opcode::{AsyncCancel, PollAdd};
use io_uring::{IoUring, cqueue, squeue, types};
use slab::Slab;

use super::turn::yield_now;

/// Requests that are handed over with one call at most.
const SUBMISSIONS: u32 = 256;

/// Events that may wait to be read. More wait in the kernel, and cost an allocation each.
const COMPLETIONS: u32 = 8192;

/// What a read request listens for. Errors are told without being asked for.
const READ: u32 = (libc::POLLIN | libc::POLLRDHUP) as u32;
const WRITE: u32 = libc::POLLOUT as u32;

/// After these nothing new will come: reading never waits again.
const ENDED: i32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;

/// The low bits of `user_data`: what a completion is about. The place stands above them.
const KIND_BITS: u32 = 2;
const KIND_READ: u64 = 0;
const KIND_WRITE: u64 = 1;
const KIND_CANCEL: u64 = 2;

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// Makes the ring of this thread.
///
/// # Errors
/// Those of `io_uring_setup`.
pub(super) fn open() -> io::Result<()> {
    RING.set(Some(Ring::new(make()?)));
    Ok(())
}

/// A ring for one thread, of the size in use.
///
/// # Errors
/// Those of `io_uring_setup`.
pub(super) fn make() -> io::Result<IoUring> {
    make_sized(SUBMISSIONS, COMPLETIONS)
}

/// Without interrupts where the kernel can do that: since Linux 5.19, and with a single thread
/// that submits since 6.0.
fn make_sized(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions);
    let plain = builder.clone();
    builder.setup_coop_taskrun().setup_taskrun_flag();
    let quiet = builder.clone();
    builder.setup_single_issuer();
    let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let mut made = builder.build(submissions);
    for older in [quiet, plain] {
        if made.as_ref().is_err_and(refused) {
            made = older.build(submissions);
        }
    }
    made
}

/// Reads events and wakes who waits for them. It never returns.
///
/// While there are events, the tasks that they woke run in between, and other queues and glommio's
/// own sockets have their turn as [`yield_now`] says.
pub(super) async fn drive() {
    let mut woken = Vec::new();
    loop {
        let fd = with(|ring| {
            ring.collect(&mut woken);
            ring.uring.as_raw_fd()
        });
        if woken.is_empty() {
            readable(fd).await;
        } else {
            // a task may end here, and with it sockets that need the ring
            woken.drain(..).for_each(Waker::wake);
            yield_now().await;
        }
    }
}

/// Waits until there are events in the ring.
///
/// glommio has no interface for this, but its streams can watch any descriptor: one made of a
/// duplicate waits for readiness, and then fails to receive, which is the signal.
async fn readable(ring: RawFd) {
    // SAFETY: the ring of this thread lives as long as the thread.
    let twin = unsafe { BorrowedFd::borrow_raw(ring) }.try_clone_to_owned();
    let Ok(twin) = twin else {
        // No descriptor is left: look again soon.
        super::turn::sleep(std::time::Duration::from_millis(1)).await;
        return;
    };
    // SAFETY: the duplicate is owned here and given away for good.
    let mut watch = unsafe { TcpStream::from_raw_fd(twin.into_raw_fd()) };
    poll_fn(|cx| Pin::new(&mut watch).poll_read(cx, &mut [0]).map(drop)).await;
}

fn with<T>(use_it: impl FnOnce(&mut Ring) -> T) -> T {
    RING.with_borrow_mut(|ring| match ring {
        Some(ring) => use_it(ring),
        None => panic!("a socket was used outside of a core"),
    })
}

struct Ring {
    uring: IoUring,
    /// Requests that did not fit, oldest first.
    waiting: VecDeque<squeue::Entry>,
    places: Slab<Rc<State>>,
}

/// What is known about a socket.
#[derive(Debug)]
struct State {
    fd: RawFd,
    place: usize,
    /// An event came since the socket was last found empty.
    readable: Cell<bool>,
    ended: Cell<bool>,
    /// The kernel refused to watch it, with this error number.
    refused: Cell<Option<i32>>,
    /// The kernel still listens. It ends a request when there is no room for its event.
    read_asked: Cell<bool>,
    write_asked: Cell<bool>,
    /// Requests that the kernel has not ended.
    requests: Cell<u32>,
    closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Ring {
    fn new(uring: IoUring) -> Self {
        Self {
            uring,
            waiting: VecDeque::new(),
            places: Slab::new(),
        }
    }

    fn ask(&mut self, entry: squeue::Entry) {
        self.waiting.push_back(entry);
        self.submit();
    }

    fn poll(&mut self, state: &State, kind: u64) {
        let fd = types::Fd(state.fd);
        let poll = if kind == KIND_READ {
            PollAdd::new(fd, READ).multi(true)
        } else {
            PollAdd::new(fd, WRITE)
        };
        state.requests.set(state.requests.get() + 1);
        let user_data = user_data(state.place, kind);
        self.ask(poll.build().user_data(user_data));
    }

    fn cancel(&mut self, place: usize, kind: u64) {
        let cancel = AsyncCancel::new(user_data(place, kind)).build();
        self.ask(cancel.user_data(KIND_CANCEL));
    }

    fn let_go(&mut self, state: &State) {
        let place = state.place;
        if state.requests.get() == 0 {
            self.places.remove(place);
            return;
        }
        self.cancel(place, KIND_READ);
        if state.write_asked.get() {
            self.cancel(place, KIND_WRITE);
        }
    }

    /// Hands over what waits. What the kernel has no room for now stays, and the driver, which
    /// makes that room, comes back to it.
    fn submit(&mut self) {
        loop {
            while let Some(entry) = self.waiting.front() {
                // SAFETY: no request has a buffer, and a descriptor that is closed by now is an
                // error of that request, or an event that nobody waits for.
                if unsafe { self.uring.submission().push(entry) }.is_err() {
                    break;
                }
                self.waiting.pop_front();
            }
            let submitted = self.uring.submit();
            if self.waiting.is_empty() || submitted.is_err() {
                return;
            }
        }
    }

    /// Takes all events there are; the wakers of who waits for them are added to `woken`.
    fn collect(&mut self, woken: &mut Vec<Waker>) {
        let submissions = self.uring.submission();
        let in_kernel = submissions.taskrun() || submissions.cq_overflow();
        let unsent = !submissions.is_empty();
        drop(submissions);
        if in_kernel || unsent || !self.waiting.is_empty() {
            self.submit();
        }
        loop {
            let event = self.uring.completion().next();
            let Some(event) = event else {
                return;
            };
            self.hear(&event, woken);
        }
    }

    fn hear(&mut self, event: &cqueue::Entry, woken: &mut Vec<Waker>) {
        let kind = event.user_data() & ((1 << KIND_BITS) - 1);
        let place = (event.user_data() >> KIND_BITS) as usize;
        if kind == KIND_CANCEL {
            return;
        }
        let Some(state) = self.places.get(place).cloned() else {
            return;
        };
        let goes_on = cqueue::more(event.flags());
        if !goes_on {
            state.requests.set(state.requests.get() - 1);
        }
        if state.closed.get() {
            if state.requests.get() == 0 {
                self.places.remove(place);
            }
            return;
        }
        if kind == KIND_WRITE {
            state.write_asked.set(false);
        } else {
            state.hear(event.result());
            state.read_asked.set(goes_on);
        }
        woken.extend(state.waker.take());
    }
}

fn user_data(place: usize, kind: u64) -> u64 {
    (place as u64) << KIND_BITS | kind
}

impl State {
    fn hear(&self, result: i32) {
        self.readable.set(true);
        if result < 0 {
            self.refused.set(Some(-result));
        } else if result & ENDED != 0 {
            self.ended.set(true);
        }
    }
}

/// One socket's place in the ring of its core, until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    state: Rc<State>,
}

impl Watch {
    /// Begins to listen for what can be read.
    ///
    /// # Panics
    /// When this thread is not a core.
    pub(super) fn new(fd: BorrowedFd<'_>) -> Self {
        with(|ring| {
            let place = ring.places.vacant_entry();
            let state = Rc::new(State {
                fd: fd.as_raw_fd(),
                place: place.key(),
                readable: Cell::new(false),
                ended: Cell::new(false),
                refused: Cell::new(None),
                read_asked: Cell::new(true),
                write_asked: Cell::new(false),
                requests: Cell::new(0),
                closed: Cell::new(false),
                waker: RefCell::new(None),
            });
            place.insert(Rc::clone(&state));
            ring.poll(&state, KIND_READ);
            Self { state }
        })
    }

    /// Whether there may be something to read.
    pub(super) fn is_readable(&self) -> bool {
        self.state.readable.get()
    }

    /// There was nothing more to read, or less than was asked for.
    pub(super) fn emptied(&self) {
        let state = &self.state;
        if state.ended.get() {
            return;
        }
        state.readable.set(false);
        // Not before: while there are bytes, each new request would fill the ring with its event.
        if !state.read_asked.replace(true) {
            with(|ring| ring.poll(state, KIND_READ));
        }
    }

    /// Why nothing will ever be told about this socket, if so.
    pub(super) fn refused(&self) -> Option<io::Error> {
        let refused = self.state.refused.get();
        refused.map(io::Error::from_raw_os_error)
    }

    /// Wakes the task with the next event.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        self.state.waker.replace(Some(cx.waker().clone()));
    }

    /// Wakes the task with the next event, and also when something can be written.
    pub(super) fn wait_for_room(&self, cx: &Context<'_>) {
        self.wait(cx);
        if !self.state.write_asked.replace(true) {
            with(|ring| ring.poll(&self.state, KIND_WRITE));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let state = &self.state;
        state.closed.set(true);
        state.waker.take();
        // At the end of the thread the ring may be gone already, and all requests with it.
        let _ = RING.try_with(|ring| {
            if let Ok(mut ring) = ring.try_borrow_mut()
                && let Some(ring) = ring.as_mut()
            {
                ring.let_go(state);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Far more sockets than a ring of this size has room for.
    const SOCKETS: usize = 100;

    /// Opens a ring of the smallest size on this thread, and pairs of sockets whose first halves
    /// are watched.
    fn tiny() -> Vec<(Watch, UnixStream, UnixStream)> {
        RING.set(Some(Ring::new(make_sized(1, 2).unwrap())));
        let pair = |_| {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            (Watch::new(near.as_fd()), near, far)
        };
        (0..SOCKETS).map(pair).collect()
    }

    fn collect() -> usize {
        let mut woken = Vec::new();
        with(|ring| ring.collect(&mut woken));
        woken.len()
    }

    #[test]
    fn a_ring_that_is_far_too_small_loses_no_event() {
        let mut sockets = tiny();
        collect();
        for _ in 0..3 {
            assert!(!sockets.iter().any(|(watch, ..)| watch.is_readable()));
            for (watch, _, far) in &mut sockets {
                watch.wait(&Context::from_waker(Waker::noop()));
                far.write_all(b"x").unwrap();
            }
            let mut woken = 0;
            for _ in 0..SOCKETS {
                woken += collect();
            }
            assert_eq!(woken, SOCKETS);
            for (watch, near, _) in &mut sockets {
                assert!(watch.is_readable());
                assert_eq!(near.read(&mut [0; 2]).unwrap(), 1);
                watch.emptied();
            }
        }
    }

    #[test]
    fn an_ended_stream_stays_readable() {
        let mut sockets = tiny();
        let (watch, near, mut far) = sockets.remove(0);
        far.write_all(b"last").unwrap();
        drop(far);
        collect();
        assert!(watch.is_readable());
        // bytes and end came as one event
        watch.emptied();
        assert!(watch.is_readable());
        drop(near);
    }

    #[test]
    fn a_full_socket_is_told_of_room_once() {
        let mut sockets = tiny();
        let (watch, mut near, mut far) = sockets.remove(0);
        far.set_nonblocking(true).unwrap();
        let full = [0; 65536];
        while near.write(&full).is_ok() {}
        watch.wait_for_room(&Context::from_waker(Waker::noop()));
        watch.wait_for_room(&Context::from_waker(Waker::noop()));
        assert_eq!(collect(), 0);
        let mut room = vec![0; 65536];
        while far.read(&mut room).is_ok() {}
        assert_eq!(collect(), 1);
        assert_eq!(collect(), 0);
        assert!(!watch.is_readable());
    }

    #[test]
    fn a_place_is_free_when_the_kernel_has_let_go() {
        let sockets = tiny();
        let places = || with(|ring| ring.places.len());
        assert_eq!(places(), SOCKETS);
        for (watch, near, _) in &sockets[..10] {
            while (&*near).write(&[0; 65536]).is_ok() {}
            watch.wait_for_room(&Context::from_waker(Waker::noop()));
        }
        drop(sockets);
        for _ in 0..2 * SOCKETS {
            collect();
        }
        assert_eq!(places(), 0);
    }

    #[test]
    fn what_cannot_be_watched_says_why() {
        RING.set(Some(Ring::new(make().unwrap())));
        let mut path = std::fs::OpenOptions::new();
        path.read(true).custom_flags(libc::O_PATH);
        let file = path.open("/").unwrap();
        let watch = Watch::new(file.as_fd());
        assert!(watch.refused().is_none());
        collect();
        assert!(watch.is_readable());
        assert!(watch.refused().is_some());
    }
}
