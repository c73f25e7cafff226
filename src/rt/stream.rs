//! One TCP connection on a core.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;
use socket2::SockRef;

use super::net::canonical;

/// `sendmsg` fails with more slices than this; a shorter send is always legal.
const MAX_SLICES: usize = 1024;

/// A connected TCP socket, owned by one task of one core.
///
/// Reading and writing are independent and both may wait at once in one poll, on the same waker.
/// Dropping it closes both directions: FIN leaves at once, after the bytes that the kernel has
/// already taken.
#[derive(Debug)]
pub struct Stream {
    inner: TcpStream,
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
        // SAFETY: the descriptor is owned here and given away for good.
        let inner = unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) };
        Self {
            inner,
            handed_over: false,
        }
    }

    /// Gives the socket up, for another core. Bytes not yet received stay in it.
    ///
    /// # Errors
    /// No free descriptor (one more is needed for a moment); the connection is then closed.
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        let fd = self.fd().try_clone_to_owned()?;
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
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }

    /// Sends as much of `slices` as the kernel takes, with one system call that does not wait.
    /// Returns how many bytes were taken: `Ok(0)` when the socket is full (or nothing was given).
    ///
    /// # Errors
    /// The connection is broken. SIGPIPE is never raised.
    pub fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let fd = self.fd();
        let socket = SockRef::from(&fd);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = match slices {
            [] => Ok(0),
            [slice] => socket.send_with_flags(slice, flags),
            _ => {
                let some = &slices[..slices.len().min(MAX_SLICES)];
                socket.send_vectored_with_flags(some, flags)
            }
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    /// Sends as [`try_send`](Self::try_send) does, but waits when the socket is full: the waker
    /// is called when it may take bytes again. There must be at least one byte in `slices`.
    ///
    /// There is no way to wait for room without sending: glommio watches for it only after a send
    /// of its own has failed. Each poll of the owner therefore calls this as long as something is
    /// unsent; what is given may differ from call to call.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = self.try_send(slices)?;
        if sent > 0 {
            return Poll::Ready(Ok(sent));
        }
        match slices.iter().find(|slice| !slice.is_empty()) {
            Some(first) => Pin::new(&mut self.inner).poll_write(cx, first),
            None => Poll::Ready(Ok(0)),
        }
    }

    /// Waits for the end of a connect that is under way.
    pub(super) fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Until the socket is connected even a send of nothing would block; after that it does
        // nothing, or says what went wrong.
        ready!(Pin::new(&mut self.inner).poll_write(cx, &[]))?;
        let fd = self.fd();
        match SockRef::from(&fd).take_error()? {
            None => Poll::Ready(Ok(())),
            Some(error) => Poll::Ready(Err(error)),
        }
    }

    /// Ends both directions, leaving the socket to its owner: the peer gets FIN after the bytes
    /// already taken by the kernel, and the owner's next receive returns the bytes that were
    /// there and then `Ok(0)`, waking it if it waits.
    ///
    /// # Errors
    /// The connection is already gone, which can be ignored.
    pub fn shutdown_both(&self) -> io::Result<()> {
        let fd = self.fd();
        SockRef::from(&fd).shutdown(Shutdown::Both)
    }

    /// Ends the sending direction only: the peer gets FIN, and may still be heard.
    ///
    /// # Errors
    /// The connection is already gone, which can be ignored.
    pub fn shutdown_send(&self) -> io::Result<()> {
        let fd = self.fd();
        SockRef::from(&fd).shutdown(Shutdown::Write)
    }

    /// The other end. An IPv4 peer of a dual-stack listener is shown as IPv4, as Java does.
    ///
    /// # Errors
    /// The connection is already gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let fd = self.fd();
        canonical(&SockRef::from(&fd).peer_addr()?)
    }

    /// Our end, shown in the same way.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let fd = self.fd();
        canonical(&SockRef::from(&fd).local_addr()?)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `inner` owns the descriptor and keeps it open for as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.inner.as_raw_fd()) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.handed_over {
            // A poll in the ring holds the socket beyond `close`, and FIN would leave only with
            // the executor's next turn. A connection that is already gone needs nothing.
            let _ = self.shutdown_both();
        }
    }
}
