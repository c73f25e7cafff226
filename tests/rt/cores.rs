//! Cores, tasks, wakes between cores, and what the host allows.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};

use namesrv::rt::{
    IoUringStatus, Listener, MEMLOCK_NEEDED_BYTES, Panicked, Queue, Stream, io_uring_status,
    memlock_limit_bytes, prepare_process, raise_descriptor_limit, sleep, spawn, spawn_core,
    usable_cpus, yield_if_needed, yield_now, yield_to_io,
};
use namesrv::server::mailbox::{inbox, mailbox};

use super::{bound, bound_fd, core, on_core, recv, send_all, task, wait};

#[test]
fn this_machine_can_run_cores() {
    prepare_process();
    assert_eq!(io_uring_status(), IoUringStatus::Usable);
    let cpus = usable_cpus().unwrap();
    assert!(!cpus.is_empty() && cpus.is_sorted());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let weight = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed:"))
        .unwrap();
    let allowed: u32 = weight
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(u32::count_ones)
        .sum();
    assert_eq!(cpus.len(), allowed as usize);
    assert!(memlock_limit_bytes().unwrap() >= MEMLOCK_NEEDED_BYTES);
}

#[test]
fn the_descriptor_limit_is_raised_and_never_lowered() {
    let (soft, hard) = raise_descriptor_limit(0).unwrap();
    assert!(soft <= hard);
    assert_eq!(raise_descriptor_limit(soft).unwrap(), (soft, hard));
    assert_eq!(raise_descriptor_limit(u64::MAX).unwrap(), (hard, hard));
    assert_eq!(raise_descriptor_limit(64).unwrap(), (hard, hard));
}

#[test]
fn a_core_runs_on_its_cpu_under_its_name() {
    let cpu = *usable_cpus().unwrap().last().unwrap();
    let (send, seen) = channel();
    let main = move || async move {
        let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        send.send((comm, usable_cpus().unwrap())).unwrap();
    };
    let handle = spawn_core(cpu, "core-of-test", main, |_| {}).unwrap();
    assert_eq!(wait(&seen), ("core-of-test\n".to_owned(), vec![cpu]));
    assert_eq!(handle.join(), Ok(()));
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error() {
    let refused = spawn_core(8_000, "nowhere", pending::<()>, |_| {});
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_panic_of_the_main_future_ends_the_core_and_is_told_first() {
    let (send, told) = channel();
    let cpu = usable_cpus().unwrap()[0];
    let main = || async {
        sleep(Duration::from_millis(1)).await;
        panic!("main gave up after {} ms", 1);
    };
    let on_panic = move |panicked: &Panicked| send.send(panicked.clone()).unwrap();
    let handle = spawn_core(cpu, "doomed", main, on_panic).unwrap();
    let expected = Panicked {
        message: "main gave up after 1 ms".to_owned(),
    };
    assert_eq!(wait(&told), expected);
    assert_eq!(handle.join(), Err(expected));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[test]
fn a_panic_in_a_task_is_told_and_the_core_goes_on() {
    let messages = on_core(|| async {
        let told = Rc::new(RefCell::new(Vec::new()));
        let tell = |told: &Rc<RefCell<Vec<String>>>| {
            let told = Rc::clone(told);
            move |panicked: Panicked| told.borrow_mut().push(panicked.message)
        };
        let at_once = async { panic!("at once") };
        let later = async {
            yield_now().await;
            std::panic::panic_any(7)
        };
        let bomb = PanicsWhenDropped;
        let in_drop = async move {
            let _bomb = bomb;
            yield_now().await;
        };
        spawn(Queue::Default, at_once, tell(&told));
        spawn(Queue::Urgent, later, tell(&told));
        spawn(Queue::Background, in_drop, tell(&told));
        spawn(Queue::Default, async {}, tell(&told));
        sleep(Duration::from_millis(20)).await;
        let mut messages = told.take();
        messages.sort();
        messages
    });
    assert_eq!(messages, ["at once", "in drop", "without a message"]);
}

#[test]
fn a_panicking_task_closes_its_connection_and_the_core_serves_others() {
    let (addr, listener) = bound_fd();
    let (send, told) = channel();
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let mut first = Stream::from_fd(listener.accept().await.unwrap());
        let task = async move {
            let mut buf = [0; 16];
            let received = recv(&mut first, &mut buf).await.unwrap();
            panic!("cannot read {received} bytes");
        };
        spawn(Queue::Default, task, move |panicked| {
            send.send(panicked.message).unwrap()
        });
        let second = Stream::from_fd(listener.accept().await.unwrap());
        super::echo(second).await;
    });
    let mut first = TcpStream::connect(addr).unwrap();
    let mut second = TcpStream::connect(addr).unwrap();
    first.set_read_timeout(Some(super::PATIENCE)).unwrap();
    io::Write::write_all(&mut first, b"xyz").unwrap();
    assert_eq!(io::Read::read(&mut first, &mut [0; 1]).unwrap(), 0);
    assert_eq!(wait(&told), "cannot read 3 bytes");
    second.set_read_timeout(Some(super::PATIENCE)).unwrap();
    io::Write::write_all(&mut second, b"still here").unwrap();
    let mut back = [0; 10];
    io::Read::read_exact(&mut second, &mut back).unwrap();
    assert_eq!(&back, b"still here");
    drop(second);
    assert_eq!(server.join(), Ok(()));
}

/// A core sends numbers to another, which answers each plus one into reserved places.
#[test]
fn mailbox_and_inbox_go_round_between_two_cores() {
    const ROUNDS: u64 = 2_000;
    const AHEAD: usize = 8;
    let (to_writer, mut reader) = mailbox::<u64>(AHEAD);
    let (answers, inbox) = inbox::<u64>(AHEAD);
    let writer = core(1, move || async move {
        let (done, finished) = channel();
        let serve = async move {
            for _ in 0..ROUNDS {
                let number = poll_fn(|cx| reader.poll_pop(cx)).await;
                assert_eq!(answers.push(number + 1), Ok(()));
            }
            done.send(()).unwrap();
        };
        spawn(Queue::Urgent, serve, |panicked: Panicked| {
            panic!("{panicked}")
        });
        while finished.try_recv().is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    });
    let sum = on_core(move || async move {
        let (mut asked, mut answered, mut sum) = (0, 0, 0);
        while answered < ROUNDS {
            while asked < ROUNDS && inbox.reserve() {
                assert_eq!(to_writer.try_push(asked), Ok(()));
                asked += 1;
            }
            sum += poll_fn(|cx| inbox.poll_pop(cx)).await;
            answered += 1;
        }
        assert_eq!(inbox.reserved(), 0);
        sum
    });
    assert_eq!(sum, ROUNDS * (ROUNDS + 1) / 2);
    assert_eq!(writer.join(), Ok(()));
}

/// A task of the urgent queue is woken from a plain thread while another keeps the core busy.
#[test]
fn a_busy_core_hears_an_urgent_wake_soon() {
    const PINGS: usize = 20;
    let (to_core, mut reader) = mailbox::<Instant>(1);
    let stop = Arc::new(AtomicBool::new(false));
    let (send, delays) = channel();
    let busy = Arc::clone(&stop);
    let handle = core(0, move || async move {
        let listen = async move {
            for _ in 0..PINGS {
                let sent = poll_fn(|cx| reader.poll_pop(cx)).await;
                send.send(sent.elapsed()).unwrap();
            }
        };
        spawn(Queue::Urgent, listen, |panicked: Panicked| {
            panic!("{panicked}")
        });
        while !busy.load(Ordering::Relaxed) {
            yield_if_needed().await;
        }
    });
    let mut seen = Vec::new();
    for _ in 0..PINGS {
        assert!(to_core.try_push(Instant::now()).is_ok());
        seen.push(wait(&delays));
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(handle.join(), Ok(()));
    seen.sort();
    // 1.1 ms on a quiet machine; with glommio's own preempt timer it would be 100 to 200 ms
    assert!(
        seen[PINGS / 2] < Duration::from_millis(50),
        "median of {seen:?}"
    );
}

/// Two ends of one connection live on one core, beside a task of `queue` that never waits: steps
/// of 200 µs, each followed by `step`. Returns how many steps were taken between each send and
/// its arrival, ascending.
fn steps_per_message<F>(queue: Queue, step: fn() -> F) -> Vec<usize>
where
    F: Future<Output = ()> + 'static,
{
    const ROUNDS: usize = 50;
    let mut steps = on_core(move || async move {
        let (addr, listener) = bound();
        let mut near = namesrv::rt::connect(addr, None).await.unwrap();
        let mut far = Stream::from_fd(listener.accept().await.unwrap());
        let taken = Rc::new(Cell::new(0_usize));
        let done = Rc::new(Cell::new(false));
        let (count, end) = (Rc::clone(&taken), Rc::clone(&done));
        let work = async move {
            while !end.get() {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(200) {}
                count.set(count.get() + 1);
                step().await;
            }
        };
        spawn(queue, work, |panicked: Panicked| panic!("{panicked}"));
        let mut steps = Vec::new();
        for _ in 0..ROUNDS {
            let before = taken.get();
            send_all(&mut near, b"?").await.unwrap();
            assert_eq!(recv(&mut far, &mut [0; 8]).await.unwrap(), 1);
            steps.push(taken.get() - before);
        }
        done.set(true);
        steps
    });
    steps.sort_unstable();
    steps
}

#[test]
fn work_in_slices_lets_sockets_be_heard_in_between() {
    let steps = steps_per_message(Queue::Background, yield_to_io);
    assert!(steps[steps.len() / 2] <= 3, "{steps:?}");
}

/// 1 ms are 5 steps; one more may be under way, and one for each yield.
#[test]
fn a_task_that_never_waits_lets_sockets_be_heard_each_millisecond() {
    for steps in [
        steps_per_message(Queue::Default, yield_if_needed),
        steps_per_message(Queue::Default, yield_now),
        steps_per_message(Queue::Background, yield_if_needed),
    ] {
        assert!(steps[steps.len() / 2] <= 10, "{steps:?}");
    }
}

/// Three tasks that never wait keep the default queue full; one of the urgent queue is woken on
/// the same core, and must run after no more than 16 of their calls.
#[test]
fn an_urgent_task_woken_on_its_own_core_goes_first_soon() {
    const WAKES: usize = 30;
    let mut calls = on_core(|| async {
        let (to_urgent, mut reader) = mailbox::<usize>(1);
        let taken = Rc::new(Cell::new(0_usize));
        let seen = Rc::new(RefCell::new(Vec::new()));
        let (count, notes) = (Rc::clone(&taken), Rc::clone(&seen));
        let urgent = async move {
            loop {
                let at = poll_fn(|cx| reader.poll_pop(cx)).await;
                notes.borrow_mut().push(count.get() - at);
            }
        };
        spawn(Queue::Urgent, urgent, |panicked: Panicked| {
            panic!("{panicked}")
        });
        sleep(Duration::from_millis(1)).await;
        for _ in 0..3 {
            let (taken, seen) = (Rc::clone(&taken), Rc::clone(&seen));
            let to_urgent = to_urgent.clone();
            task(async move {
                while seen.borrow().len() < WAKES {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(10) {}
                    taken.set(taken.get() + 1);
                    let _ = to_urgent.try_push(taken.get());
                    yield_if_needed().await;
                }
            });
        }
        while seen.borrow().len() < WAKES {
            sleep(Duration::from_millis(1)).await;
        }
        seen.take()
    });
    calls.sort_unstable();
    assert!(calls[WAKES / 2] <= 18, "{calls:?}");
}

#[test]
fn yield_to_io_waits_once_and_comes_back() {
    let polls = on_core(|| async {
        let mut yielded = std::pin::pin!(yield_to_io());
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            let polled = yielded.as_mut().poll(cx);
            assert!(polls > 1 || polled == Poll::Pending);
            polled
        })
        .await;
        polls
    });
    assert!(polls >= 2);
}

/// The way in which a server ends: every connection has a flag and its waker; the flags are set,
/// the tasks end by themselves, and only then does the core return.
#[test]
fn a_hundred_idle_connections_are_told_to_end_and_see_fin() {
    const CONNECTIONS: usize = 100;
    let (addr, listener) = bound_fd();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let server = core(0, move || async move {
        let listener = Listener::from_fd(listener).unwrap();
        let open = Rc::new(Cell::new(CONNECTIONS));
        let wakers = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..CONNECTIONS {
            let mut stream = Stream::from_fd(listener.accept().await.unwrap());
            let (open, wakers, told) = (Rc::clone(&open), Rc::clone(&wakers), Arc::clone(&told));
            task(async move {
                poll_fn(|cx| {
                    if told.load(Ordering::Relaxed) {
                        return Poll::Ready(());
                    }
                    wakers.borrow_mut().push(cx.waker().clone());
                    assert!(stream.poll_recv(cx, &mut [0; 8]).is_pending());
                    Poll::Pending
                })
                .await;
                drop(stream);
                open.set(open.get() - 1);
            });
        }
        while !told.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
        wakers.take().into_iter().for_each(std::task::Waker::wake);
        while open.get() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    });
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(addr).unwrap())
        .collect();
    stop.store(true, Ordering::Relaxed);
    for client in &mut clients {
        client.set_read_timeout(Some(super::PATIENCE)).unwrap();
        assert_eq!(io::Read::read(client, &mut [0; 8]).unwrap(), 0);
    }
    assert_eq!(server.join(), Ok(()));
}
