//! Listeners, streams and connects.

use std::fs;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};

use namesrv::rt::{
    ListenOptions, Listener, Stream, connect, connect_within, listen, probe_bind, sleep,
    yield_to_io,
};
use namesrv::server::mailbox::mailbox;

use super::{
    PATIENCE, any_port, bound, bound_fd, core, echo, free_port, listener, on_core, pattern, recv,
    send_all, task, wait,
};

fn client(addr: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(addr).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

#[test]
fn many_connections_echo_on_two_cores_that_share_a_port() {
    const CLIENTS: usize = 128;
    const ROUNDS: usize = 20;
    let (addr, _probe) = free_port();
    let servers: Vec<_> = (0..2)
        .map(|n| {
            let (to_core, mut reader) = mailbox::<()>(1);
            let (up, ready) = channel();
            let handle = core(n, move || async move {
                let listener = listener(addr);
                up.send(()).unwrap();
                let accepting = async move {
                    loop {
                        task(echo(Stream::from_fd(listener.accept().await.unwrap())));
                    }
                };
                let mut accepting = pin!(accepting);
                poll_fn(|cx| match reader.poll_pop(cx) {
                    Poll::Pending => accepting.as_mut().poll(cx),
                    stop => stop,
                })
                .await;
            });
            wait(&ready);
            (handle, to_core)
        })
        .collect();
    let bytes = on_core(move || async move {
        let (done, results) = channel();
        for n in 0..CLIENTS {
            let done = done.clone();
            task(async move {
                let mut stream = connect(addr, None).await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), addr);
                let question = pattern(1 + n * 37);
                let mut buf = vec![0; 8192];
                for _ in 0..ROUNDS {
                    send_all(&mut stream, &question).await.unwrap();
                    let mut got = 0;
                    while got < question.len() {
                        got += recv(&mut stream, &mut buf[got..]).await.unwrap();
                    }
                    assert_eq!(buf[..got], question);
                }
                done.send(question.len() * ROUNDS).unwrap();
            });
        }
        let mut bytes = 0;
        let mut left = CLIENTS;
        while left > 0 {
            match results.try_recv() {
                Ok(sent) => (bytes, left) = (bytes + sent, left - 1),
                Err(_) => sleep(Duration::from_millis(1)).await,
            }
        }
        bytes
    });
    assert_eq!(bytes, ROUNDS * (CLIENTS + 37 * CLIENTS * (CLIENTS - 1) / 2));
    for (handle, to_core) in servers {
        assert_eq!(to_core.try_push(()), Ok(()));
        assert_eq!(handle.join(), Ok(()));
    }
}

#[test]
fn a_peer_that_has_ended_its_half_still_gets_the_answer() {
    let (addr, listener) = bound_fd();
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut stream = Stream::from_fd(listener.accept().await.unwrap());
        let mut buf = [0; 64];
        let mut got = 0;
        loop {
            match recv(&mut stream, &mut buf[got..]).await.unwrap() {
                0 => break,
                more => got += more,
            }
        }
        assert_eq!(&buf[..got], b"question");
        send_all(&mut stream, b"answer").await.unwrap();
    });
    let mut client = client(addr);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    assert_eq!(server.join(), Ok(()));
}

#[test]
fn our_half_can_end_first() {
    let (addr, listener) = bound_fd();
    let (send, heard) = channel();
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut stream = Stream::from_fd(listener.accept().await.unwrap());
        stream.shutdown_send().unwrap();
        let mut buf = [0; 16];
        let received = recv(&mut stream, &mut buf).await.unwrap();
        send.send(buf[..received].to_vec()).unwrap();
    });
    let mut client = client(addr);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    client.write_all(b"late").unwrap();
    assert_eq!(wait(&heard), b"late");
    assert_eq!(server.join(), Ok(()));
}

/// The peer reads nothing until the socket is full and the task waits; then it must be woken, and
/// every byte must arrive in order, from three slices of which each send takes a part.
#[test]
fn a_full_socket_waits_and_every_byte_arrives() {
    const BYTES: usize = 2 << 20;
    let (addr, _probe) = free_port();
    let options = ListenOptions {
        send_buffer_bytes: Some(64 << 10),
        ..ListenOptions::default()
    };
    let listener = listen(addr, &options).unwrap();
    let (send, full) = channel();
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut stream = Stream::from_fd(listener.accept().await.unwrap());
        let bytes = pattern(BYTES);
        let mut sent = 0;
        loop {
            match stream.try_send(&slices(&bytes[sent..])).unwrap() {
                0 => break,
                more => sent += more,
            }
        }
        assert!(sent > 0 && sent < BYTES);
        assert_eq!(stream.try_send(&[IoSlice::new(&bytes[sent..])]).unwrap(), 0);
        let mut waits = 0;
        while sent < BYTES {
            sent += poll_fn(|cx| {
                let polled = stream.poll_send(cx, &slices(&bytes[sent..]));
                if polled.is_pending() {
                    waits += 1;
                    if waits == 1 {
                        send.send(sent).unwrap();
                    }
                }
                polled
            })
            .await
            .unwrap();
        }
        assert!(waits >= 1);
    });
    let mut client = client(addr);
    let before = wait(&full);
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received.len() == BYTES && before < BYTES);
    assert!(received == pattern(BYTES), "bytes are out of order");
    assert_eq!(server.join(), Ok(()));
}

/// `bytes` as an empty slice, 5 bytes, and the rest.
fn slices(bytes: &[u8]) -> [IoSlice<'_>; 3] {
    let (head, tail) = bytes.split_at(bytes.len().min(5));
    [IoSlice::new(&[]), IoSlice::new(head), IoSlice::new(tail)]
}

/// More slices than one system call may carry: the rest is left to the next call.
#[test]
fn thousands_of_slices_are_sent_in_part() {
    let sent = on_core(|| async {
        let (addr, listener) = bound();
        let near = connect(addr, None).await.unwrap();
        let _far = listener.accept().await.unwrap();
        let many = vec![IoSlice::new(b"x"); 3_000];
        (near.try_send(&many).unwrap(), near.try_send(&[]).unwrap())
    });
    assert_eq!(sent, (1024, 0));
}

#[test]
fn a_waiting_receiver_keeps_a_shared_buffer_untouched() {
    on_core(|| async {
        let (addr, listener) = bound();
        let mut near = connect(addr, None).await.unwrap();
        let mut far = Stream::from_fd(listener.accept().await.unwrap());
        let mut buf = [7; 4];
        let waits = poll_fn(|cx| Poll::Ready(far.poll_recv(cx, &mut buf).is_pending())).await;
        send_all(&mut near, b"abcdef").await.unwrap();
        sleep(Duration::from_millis(5)).await;
        assert!(waits);
        assert_eq!(buf, [7; 4]);
        assert_eq!(recv(&mut far, &mut buf).await.unwrap(), 4);
        assert_eq!(&buf, b"abcd");
        assert_eq!(recv(&mut far, &mut buf).await.unwrap(), 2);
        assert_eq!(&buf, b"efcd");
    });
}

#[test]
fn a_broken_connection_is_an_error_and_no_signal() {
    let kinds = on_core(|| async {
        let (addr, listener) = bound();
        let near = connect(addr, None).await.unwrap();
        drop(listener.accept().await.unwrap());
        let mut kinds = Vec::new();
        while kinds.len() < 2 {
            match near.try_send(&[IoSlice::new(b"into the void")]) {
                Err(error) => kinds.push(error.kind()),
                Ok(_) => sleep(Duration::from_millis(1)).await,
            }
        }
        kinds
    });
    // the peer's RST is told once, as either of these; then the socket is just closed
    assert!(matches!(
        kinds[0],
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    ));
    assert_eq!(kinds[1], io::ErrorKind::BrokenPipe);
}

#[test]
fn shutdown_wakes_the_owner_and_tells_the_peer() {
    let (seen, by_peer) = on_core(|| async {
        let (addr, listener) = bound();
        let mut near = connect(addr, None).await.unwrap();
        let mut far = Stream::from_fd(listener.accept().await.unwrap());
        let mut told = false;
        let seen = poll_fn(|cx| {
            let polled = far.poll_recv(cx, &mut [0; 8]);
            if polled.is_pending() && !told {
                told = true;
                far.shutdown_both().unwrap();
            }
            polled
        })
        .await
        .unwrap();
        assert!(told);
        (seen, recv(&mut near, &mut [0; 8]).await.unwrap())
    });
    assert_eq!((seen, by_peer), (0, 0));
}

/// After the drop the core does not give its thread back before the peer has seen FIN.
#[test]
fn dropping_a_stream_sends_fin_at_once() {
    let (addr, listener) = bound_fd();
    let (send, seen) = channel();
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut stream = Stream::from_fd(listener.accept().await.unwrap());
        let waits = poll_fn(|cx| Poll::Ready(stream.poll_recv(cx, &mut [0; 8]).is_pending())).await;
        assert!(waits);
        sleep(Duration::from_millis(5)).await; // so that the ring holds the socket
        drop(stream);
        seen.recv_timeout(Duration::from_secs(5)).unwrap();
    });
    let mut client = client(addr);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    send.send(()).unwrap();
    assert_eq!(server.join(), Ok(()));
}

#[test]
fn a_connection_moves_to_another_core_with_its_unread_bytes() {
    let (addr, listener) = bound_fd();
    let (hand_over, mut reader) = mailbox(1);
    let first = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut stream = Stream::from_fd(listener.accept().await.unwrap());
        let mut buf = [0; 4];
        assert_eq!(recv(&mut stream, &mut buf).await.unwrap(), 4);
        assert_eq!(&buf, b"head");
        let fd = stream.into_fd().unwrap();
        assert!(is_close_on_exec(&fd));
        assert!(hand_over.try_push(fd).is_ok());
    });
    let second = core(1, move || async move {
        let fd = poll_fn(|cx| reader.poll_pop(cx)).await;
        echo(Stream::from_fd(fd)).await;
    });
    let mut client = client(addr);
    client.write_all(b"headtail").unwrap();
    let mut back = [0; 4];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"tail");
    assert_eq!(first.join(), Ok(()));
    client.write_all(b"more").unwrap();
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"more");
    drop(client);
    assert_eq!(second.join(), Ok(()));
}

#[test]
fn accepted_sockets_are_close_on_exec() {
    on_core(|| async {
        let (addr, listener) = bound();
        let listener = Rc::new(listener);
        // one that waits in the queue already, and one that comes while accept waits
        let _near = connect(addr, None).await.unwrap();
        assert!(is_close_on_exec(&listener.accept().await.unwrap()));
        let again = Rc::clone(&listener);
        let (done, result) = channel();
        task(async move {
            done.send(is_close_on_exec(&again.accept().await.unwrap()))
                .unwrap()
        });
        sleep(Duration::from_millis(5)).await;
        let _near = connect(addr, None).await.unwrap();
        sleep(Duration::from_millis(20)).await;
        assert!(result.try_recv().unwrap());
    });
}

fn is_close_on_exec(fd: &impl AsRawFd) -> bool {
    const O_CLOEXEC: u32 = 0o2_000_000;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
    let flags = info
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap() & O_CLOEXEC != 0
}

#[test]
fn a_dropped_accept_loses_no_connection() {
    on_core(|| async {
        let (addr, listener) = bound();
        {
            let mut accept = pin!(listener.accept());
            let waits = poll_fn(|cx| Poll::Ready(accept.as_mut().poll(cx).is_pending())).await;
            assert!(waits);
            sleep(Duration::from_millis(2)).await;
            let mut near = connect(addr, None).await.unwrap();
            send_all(&mut near, b"hello").await.unwrap();
            yield_to_io().await;
        }
        let mut far = Stream::from_fd(listener.accept().await.unwrap());
        let mut buf = [0; 8];
        assert_eq!(recv(&mut far, &mut buf).await.unwrap(), 5);
        assert_eq!(recv(&mut far, &mut buf).await.unwrap(), 0);
    });
}

#[test]
fn a_probe_finds_a_port_that_is_taken() {
    let taken = TcpListener::bind(any_port()).unwrap();
    let addr = taken.local_addr().unwrap();
    assert_eq!(
        probe_bind(addr).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, addr.port()));
    assert_eq!(
        probe_bind(everywhere).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    drop(taken);
    assert_eq!(probe_bind(addr).unwrap().port, addr.port());
}

#[test]
fn a_probe_finds_sockets_that_would_share_their_port() {
    let (addr, probe) = free_port();
    let options = ListenOptions::default();
    let first = listen(addr, &options).unwrap();
    let second = listen(addr, &options).unwrap();
    assert_eq!(
        probe_bind(addr).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    drop((probe, first));
    assert_eq!(
        probe_bind(addr).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    drop(second);
    assert!(probe_bind(addr).is_ok());
}

/// Connections of an ended server stay in the kernel for a minute and must not stop the next.
#[test]
fn a_probe_passes_over_connections_of_an_ended_server() {
    let (addr, probe) = free_port();
    let server = listen(addr, &ListenOptions::default()).unwrap();
    drop(probe);
    let server = TcpListener::from(server);
    let mut client = client(addr);
    drop(server.accept().unwrap());
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop(client);
    assert_eq!(probe_bind(addr).unwrap().port, addr.port());
}

#[test]
fn the_wildcard_listens_on_both_families_and_shows_plain_addresses() {
    let peers = on_core(|| async {
        let probe = probe_bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, probe.port));
        let listener = listener(everywhere);
        let mut peers = Vec::new();
        let has_ipv6 = listener.local_addr().unwrap().is_ipv6();
        for ip in ["127.0.0.1", "::1"]
            .into_iter()
            .take(1 + usize::from(has_ipv6))
        {
            let to = SocketAddr::new(ip.parse().unwrap(), probe.port);
            let near = connect(to, None).await.unwrap();
            let far = Stream::from_fd(listener.accept().await.unwrap());
            assert_eq!(far.peer_addr().unwrap(), near.local_addr().unwrap());
            assert_eq!(far.local_addr().unwrap(), to);
            peers.push(far.peer_addr().unwrap().ip().to_string());
        }
        peers
    });
    assert_eq!(peers[0], "127.0.0.1");
    assert!(peers.len() == 1 || peers[1] == "::1");
}

#[test]
fn a_connect_can_choose_its_source_and_is_told_of_a_refusal() {
    on_core(|| async {
        let (addr, _probe) = free_port();
        let refused = connect(addr, None).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = listener(addr);
        let source = IpAddr::from([127, 0, 0, 5]);
        let near = connect(addr, Some(source)).await.unwrap();
        let far = Stream::from_fd(listener.accept().await.unwrap());
        assert_eq!(far.peer_addr().unwrap().ip(), source);
        assert_eq!(near.local_addr().unwrap(), far.peer_addr().unwrap());
        let foreign = connect(addr, Some(IpAddr::from([192, 0, 2, 1])))
            .await
            .unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
    });
}

/// A listener whose queue is full answers nothing, like a host that is not there.
#[test]
fn a_connect_gives_up_after_its_limit() {
    on_core(|| async {
        let (addr, _probe) = free_port();
        let options = ListenOptions {
            backlog: 0,
            ..ListenOptions::default()
        };
        let _full = listen(addr, &options).unwrap();
        let limit = Duration::from_millis(50);
        let mut connected = Vec::new();
        let refused = loop {
            let start = Instant::now();
            match connect_within(addr, None, limit).await {
                Ok(stream) => connected.push(stream),
                Err(error) => break (error.kind(), start.elapsed() >= limit),
            }
            assert!(connected.len() < 10, "the queue never fills");
        };
        assert_eq!(refused, (io::ErrorKind::TimedOut, true));
        assert!(!connected.is_empty());
    });
}
