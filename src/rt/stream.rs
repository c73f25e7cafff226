//! One TCP connection on a core.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use socket2::Socket;

use super::net::canonical;
use super::ring::Watch;

/// `sendmsg` fails with more slices than this; a shorter send is always legal.
const MAX_SLICES: usize = 1024;

/// A connected TCP socket, owned by one task of one core.
///
/// Reading and writing are independent and both may wait at once in one poll, on the same waker.
/// Dropping it closes both directions: FIN leaves at once, after the bytes that the kernel has
/// already taken.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    watch: Watch,
    /// Set when the socket lives on elsewhere, so that dropping this must not end it.
    handed_over: bool,
}

impl Stream {
    /// Takes a connected socket into this core. Blocking or not makes no difference.
    ///
    /// # Panics
    /// When this thread is not a core.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self {
            watch: Watch::new(fd.as_fd()),
            socket: fd.into(),
            handed_over: false,
        }
    }

    /// Gives the socket up, for another core. Bytes not yet received stay in it.
    ///
    /// # Errors
    /// No free descriptor (one more is needed for a moment); the connection is then closed.
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        let fd = self.socket.as_fd().try_clone_to_owned()?;
        self.handed_over = true;
        Ok(fd)
    }

    /// Receives into `buf`, which must not be empty: into its front, and only when this returns
    /// `Ready`, so that many connections may share one buffer. `Ok(0)` is the end of the stream.
    ///
    /// A result shorter than `buf` means that the socket was empty, so the next call will not
    /// ask the kernel before new bytes are there.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        debug_assert!(
            !buf.is_empty(),
            "an empty buffer would look like the end of the stream"
        );
        if self.watch.is_readable() {
            match receive(&self.socket, buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(error) = self.watch.refused() {
                        return Poll::Ready(Err(error));
                    }
                    self.watch.emptied();
                }
                received => {
                    if received.as_ref().is_ok_and(|n| (1..buf.len()).contains(n)) {
                        self.watch.emptied();
                    }
                    return Poll::Ready(received);
                }
            }
        }
        self.watch.wait(cx);
        Poll::Pending
    }

    /// Sends as much of `slices` as the kernel takes, with one system call that does not wait.
    /// Returns how many bytes were taken: `Ok(0)` when the socket is full (or nothing was given).
    ///
    /// # Errors
    /// The connection is broken. SIGPIPE is never raised.
    pub fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = match slices {
            [] => Ok(0),
            [slice] => self.socket.send_with_flags(slice, flags),
            _ => {
                let some = &slices[..slices.len().min(MAX_SLICES)];
                self.socket.send_vectored_with_flags(some, flags)
            }
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    /// Sends as [`try_send`](Self::try_send) does, but waits when the socket is full: the waker
    /// is called when it may take bytes again. Each poll of the owner calls this as long as
    /// something is unsent; what is given may differ from call to call.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = self.try_send(slices)?;
        if sent > 0 || slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(sent));
        }
        self.watch.wait_for_room(cx);
        Poll::Pending
    }

    /// Waits for the end of a connect that is under way.
    pub(super) fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.socket.take_error()? {
            Some(error) => Poll::Ready(Err(error)),
            None if self.socket.peer_addr().is_ok() => Poll::Ready(Ok(())),
            None => {
                self.watch.wait_for_room(cx);
                Poll::Pending
            }
        }
    }

    /// Ends both directions, leaving the socket to its owner: the peer gets FIN after the bytes
    /// already taken by the kernel, and the owner's next receive returns the bytes that were
    /// there and then `Ok(0)`, waking it if it waits.
    ///
    /// # Errors
    /// The connection is already gone, which can be ignored.
    pub fn shutdown_both(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Both)
    }

    /// Ends the sending direction only: the peer gets FIN, and may still be heard.
    ///
    /// # Errors
    /// The connection is already gone, which can be ignored.
    pub fn shutdown_send(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// The other end. An IPv4 peer of a dual-stack listener is shown as IPv4, as Java does.
    ///
    /// # Errors
    /// The connection is already gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        canonical(&self.socket.peer_addr()?)
    }

    /// Our end, shown in the same way.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        canonical(&self.socket.local_addr()?)
    }
}

/// Receives what is there, whether or not the socket is blocking.
fn receive(socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `recv_with_flags` writes no uninitialised bytes, so `buf` stays initialised.
    let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    socket.recv_with_flags(buf, libc::MSG_DONTWAIT)
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.handed_over {
            // The request in the ring holds the socket beyond `close`, and FIN would leave only
            // when that has ended. A connection that is already gone needs nothing.
            let _ = self.shutdown_both();
        }
    }
}
