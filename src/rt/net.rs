//! Making sockets: listening, accepting, connecting.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::ring::Watch;
use super::stream::Stream;
use super::turn::sleep;

/// How a listening socket is made.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u16,
    /// SO_SNDBUF in bytes, inherited by accepted sockets; the kernel's own sizing if absent.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes, likewise.
    pub recv_buffer_bytes: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 4096,
            send_buffer_bytes: None,
            recv_buffer_bytes: None,
        }
    }
}

/// A port found to be free, and held by a bound socket until this is dropped. Sockets of
/// [`listen`] may share it; keep it until they are made.
#[derive(Debug)]
pub struct PortProbe {
    /// The port: the one asked for, or the one that the kernel chose when that was 0.
    pub port: u16,
    _socket: Socket,
}

/// Finds out whether nobody listens on `addr`. Sockets with SO_REUSEPORT of the same user may
/// share a port, so without this a second server would start without an error and take half of
/// the connections of the first.
///
/// # Errors
/// `AddrInUse` when somebody listens there, or whatever else forbids it.
pub fn probe_bind(addr: SocketAddr) -> io::Result<PortProbe> {
    // SO_REUSEADDR only passes over connections of an ended server that the kernel still keeps.
    let socket = bind_dual_stack(addr, |_| Ok(()))?;
    let port = canonical(&socket.local_addr()?)?.port();
    Ok(PortProbe {
        port,
        _socket: socket,
    })
}

/// Makes a listening socket that shares its port with others of this call, so that each core
/// can have one: the kernel spreads the connections among them. Accepted sockets have
/// TCP_NODELAY. An IPv4 or IPv6 wildcard address listens on both, as Java does, or on IPv4 alone
/// where the host has no IPv6.
///
/// # Errors
/// The address is taken, not ours, or the options are refused.
pub fn listen(addr: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = bind_dual_stack(addr, |socket| {
        socket.set_reuse_port(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(bytes) = options.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = options.recv_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    })?;
    socket.listen(i32::from(options.backlog))?;
    Ok(socket.into())
}

fn bind_dual_stack(
    addr: SocketAddr,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let bind = |addr: SocketAddr| {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(!addr.ip().is_unspecified())?;
        }
        socket.set_reuse_address(true)?;
        prepare(&socket)?;
        socket.bind(&SockAddr::from(addr))?;
        Ok(socket)
    };
    if !addr.is_ipv4() || !addr.ip().is_unspecified() {
        return bind(addr);
    }
    let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), addr.port());
    match bind(both) {
        Err(error) if lacks_ipv6(&error) => bind(addr),
        bound => bound,
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

/// A listening socket on a core.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    watch: Watch,
}

impl Listener {
    /// Takes a socket made by [`listen`] into this core.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    ///
    /// # Panics
    /// When this thread is not a core.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        SockRef::from(&fd).set_nonblocking(true)?;
        let watch = Watch::new(fd.as_fd());
        Ok(Self { fd, watch })
    }

    /// Waits for a connection. Dropping the future loses none. The socket is close-on-exec and
    /// can be given to any core; [`Stream::from_fd`] takes it.
    ///
    /// While connections wait this returns without giving the thread back: call
    /// [`yield_if_needed`](super::yield_if_needed) in between.
    ///
    /// # Errors
    /// No descriptor left, above all, and then at once and every time: sleep before trying
    /// again. A connection that ended before it was accepted is no error.
    pub async fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            match accept_now(&self.fd) {
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.readable().await?,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(error),
                },
                accepted => return accepted,
            }
        }
    }

    /// Waits until there may be something to accept, after there was nothing.
    async fn readable(&self) -> io::Result<()> {
        self.watch.emptied();
        poll_fn(|cx| {
            if let Some(error) = self.watch.refused() {
                return Poll::Ready(Err(error));
            }
            if self.watch.is_readable() {
                return Poll::Ready(Ok(()));
            }
            self.watch.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// The address on which it listens; a dual-stack one is shown as `[::]`.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        canonical(&SockRef::from(&self.fd).local_addr()?)
    }
}

fn accept_now(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let no_address = std::ptr::null_mut();
    // SAFETY: the descriptor is open, and no address is asked for.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), no_address, no_address.cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects to `addr`, from the address `source` if given, with TCP_NODELAY.
///
/// # Errors
/// Refused, unreachable, or no port left. Without an answer the kernel gives up after about two
/// minutes: see [`connect_within`].
///
/// # Panics
/// When this thread is not a core.
pub async fn connect(addr: SocketAddr, source: Option<IpAddr>) -> io::Result<Stream> {
    let mut stream = start_connect(addr, source)?;
    poll_fn(|cx| stream.poll_connected(cx)).await?;
    Ok(stream)
}

/// As [`connect`], but gives up after `limit`.
///
/// # Errors
/// Those of [`connect`], and `TimedOut`.
///
/// # Panics
/// When this thread is not a core.
pub async fn connect_within(
    addr: SocketAddr,
    source: Option<IpAddr>,
    limit: Duration,
) -> io::Result<Stream> {
    let mut stream = start_connect(addr, source)?;
    let mut alarm = std::pin::pin!(sleep(limit));
    poll_fn(|cx| match stream.poll_connected(cx) {
        Poll::Pending => alarm
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into())),
        connected => connected,
    })
    .await?;
    Ok(stream)
}

fn start_connect(addr: SocketAddr, source: Option<IpAddr>) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        bind_address_only(&socket)?;
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    match socket.connect(&SockAddr::from(addr)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(Stream::from_fd(socket.into())),
    }
}

/// Leaves the port to `connect`, which can share one among connections to different servers.
fn bind_address_only(socket: &Socket) -> io::Result<()> {
    let one: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&one)).unwrap_or(0);
    // SAFETY: the pointer and `size` describe `one`, which the kernel only reads.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const one).cast(),
            size,
        )
    };
    if refused == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An internet address, with IPv4 in its own form where it came wrapped in IPv6.
pub(super) fn canonical(addr: &SockAddr) -> io::Result<SocketAddr> {
    let addr = addr.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
}
