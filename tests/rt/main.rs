//! The fence around glommio: every promise of `namesrv::rt` that the server builds on, with real
//! sockets on loopback. Nothing here knows RocketMQ.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cores;
mod sockets;

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use namesrv::rt::{
    CoreHandle, ListenOptions, Listener, Panicked, PortProbe, Queue, Stream, listen, probe_bind,
    spawn, spawn_core, usable_cpus,
};

/// Longer than any step takes on a loaded machine: beyond it something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Loopback and whatever port is free.
fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// A free port of loopback, kept free of strangers by the probe.
fn free_port() -> (SocketAddr, PortProbe) {
    let probe = probe_bind(any_port()).unwrap();
    (SocketAddr::from((Ipv4Addr::LOCALHOST, probe.port)), probe)
}

/// A listening socket on a free port, for any core.
fn bound_fd() -> (SocketAddr, OwnedFd) {
    let (addr, _probe) = free_port();
    (addr, listen(addr, &ListenOptions::default()).unwrap())
}

/// A listener of this core on a free port.
fn bound() -> (SocketAddr, Listener) {
    let (addr, fd) = bound_fd();
    (addr, Listener::from_fd(fd).unwrap())
}

fn listener(addr: SocketAddr) -> Listener {
    Listener::from_fd(listen(addr, &ListenOptions::default()).unwrap()).unwrap()
}

/// A core on the `n`th usable CPU, counted round.
fn core<M, F>(n: usize, main: M) -> CoreHandle
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let cpus = usable_cpus().unwrap();
    spawn_core(cpus[n % cpus.len()], "test", main, |_| {}).unwrap()
}

/// Runs `main` on a core of its own and returns its result, failing when it takes too long.
fn on_core<M, F, T>(main: M) -> T
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let (send, result) = channel();
    let handle = core(0, move || async move {
        let _ = send.send(main().await);
    });
    let result = wait(&result);
    handle.join().unwrap();
    result
}

fn wait<T>(result: &Receiver<T>) -> T {
    result.recv_timeout(PATIENCE).unwrap()
}

/// Starts a task that must not panic.
fn task(future: impl Future<Output = ()> + 'static) {
    spawn(Queue::Default, future, |panicked: Panicked| {
        panic!("{panicked}")
    });
}

async fn recv(stream: &mut Stream, buf: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_recv(cx, buf)).await
}

async fn send_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| stream.poll_send(cx, &[IoSlice::new(bytes)])).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Sends back what comes in until the peer ends.
async fn echo(mut stream: Stream) {
    let mut buf = [0; 4096];
    while let Ok(received @ 1..) = recv(&mut stream, &mut buf).await {
        if send_all(&mut stream, &buf[..received]).await.is_err() {
            return;
        }
    }
}

/// Bytes that differ between neighbours and between blocks.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i % 251) as u8 ^ (i / 65_536) as u8)
        .collect()
}
