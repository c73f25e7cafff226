//! The binary in front of a production environment that does not work.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::world::{Client, Fake, Page, Reaction, Server, miss, nobody, register, route_of};
use crate::support::answer::Answer;
use crate::support::request::Request;

/// How long a question may take, and what a busy machine adds.
const ASK_LIMIT: Duration = Duration::from_millis(2500);
const SLACK: Duration = Duration::from_millis(1500);
/// Less than a question may take.
const AT_ONCE: Duration = Duration::from_millis(1500);

fn in_front_of_page(addr: SocketAddr) -> Server {
    let own = "clusterTest=true\nproductEnvName=prod\n";
    Server::start(&format!("{own}rocketmq.namesrv.domain={addr}\n"))
}

/// Asks for a topic that nobody knows; until the answer comes, others are served at once.
fn miss_while_others_are_served(server: &Server, limit: Duration) {
    let mut other = server.client();
    assert_eq!(other.call(&register("ba", &["T", "U"])).code, 0);
    let mut client = server.client();
    let start = Instant::now();
    client.send(&route_of("Q"));
    // On its own connection too: only the question waits.
    let known = Request {
        opaque: 2,
        ..route_of("T")
    };
    client.send(&known);
    for _ in 0..5 {
        let before = Instant::now();
        assert_eq!(other.call(&route_of("T")).code, 0);
        assert_eq!(other.call(&Request::new(206)).code, 0);
        assert!(before.elapsed() < AT_ONCE);
    }
    let mut answers = [client.receive(), client.receive()];
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    answers.sort_by_key(|(opaque, _)| *opaque);
    assert_eq!(answers[0], (1, miss("Q")));
    assert_eq!(answers[1].1.code, 0);
}

#[test]
fn no_page_server_is_a_miss_at_once() {
    let server = in_front_of_page(nobody());
    miss_while_others_are_served(&server, AT_ONCE);
}

/// Later the page is there, and is found without a restart.
#[test]
fn a_silent_page_is_a_miss_in_time_and_is_looked_at_again() {
    let fake = Fake::start(|_| Reaction::Answer(0, b"{}".to_vec()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = in_front_of_page(listener.local_addr().unwrap());
    miss_while_others_are_served(&server, ASK_LIMIT + SLACK);
    let text = fake.addr.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
    let page = thread::spawn(move || {
        // The first look-up gave up while its connection waited to be accepted.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all((head.clone() + &text).as_bytes());
        }
    });
    page.join().unwrap();
    let start = Instant::now();
    let mut client = server.client();
    while client.call(&route_of("P")) != Answer::success().body("{}") {
        assert!(start.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_silent_name_server_is_a_miss_in_time() {
    let fake = Fake::start(|_| Reaction::Silence);
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let start = Instant::now();
    miss_while_others_are_served(&server, ASK_LIMIT + SLACK);
    assert!(start.elapsed() >= ASK_LIMIT);
    assert_eq!(fake.questions.try_iter().count(), 1, "asked once");
}

#[test]
fn no_name_server_at_all_is_a_miss_at_once() {
    let page = Page::with(&format!("{};{}", nobody(), nobody()));
    let server = Server::in_front_of(&page);
    miss_while_others_are_served(&server, AT_ONCE);
}

#[test]
fn what_is_no_answer_is_a_miss_at_once() {
    for raw in [
        // A frame of 2 GiB, one that is too large by a byte, one of an unknown kind, bad JSON.
        &b"\x7f\xff\xff\xff\0\0\0\x02{}"[..],
        b"\x00\xff\xff\xfd\0\0\0\x02{}",
        b"\0\0\0\x06\x07\0\0\x02{}",
        b"\0\0\0\x06\0\0\0\x02}{",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ] {
        let fake = Fake::start(|_| Reaction::Raw(raw.to_vec()));
        let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
        let start = Instant::now();
        assert_eq!(server.client().call(&route_of("Q")), miss("Q"));
        assert!(start.elapsed() < AT_ONCE);
    }
}

#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let fake = Fake::start(|_| Reaction::AnswerAndClose(0, b"{}".to_vec()));
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let mut client = server.client();
    for _ in 0..5 {
        assert_eq!(client.call(&route_of("P")), Answer::success().body("{}"));
    }
    assert!(fake.connections.load(Ordering::Relaxed) >= 5);
}

#[test]
fn the_next_server_is_asked_when_one_falls_silent() {
    static SILENT: AtomicBool = AtomicBool::new(false);
    let start = |body: &'static [u8]| {
        Fake::start(move |_| match SILENT.load(Ordering::Relaxed) {
            true => Reaction::Silence,
            false => Reaction::Answer(0, body.to_vec()),
        })
    };
    let (first, second) = (start(b"{}"), start(b"{}"));
    let page = Page::with(&format!("{};{}", first.addr, second.addr));
    let server = Server::in_front_of(&page);
    let mut client = server.client();
    assert_eq!(client.call(&route_of("P")).code, 0);
    SILENT.store(true, Ordering::Relaxed);
    assert_eq!(client.call(&route_of("P")), miss("P"));
    SILENT.store(false, Ordering::Relaxed);
    assert_eq!(client.call(&route_of("P")).code, 0);
    let asked = [first, second].map(|fake| fake.questions.try_iter().count());
    assert!(asked == [2, 1] || asked == [1, 2], "{asked:?}");
}

/// 18 connections with as many questions as each may have, and a NameServer that says nothing:
/// 1,024 wait, at most 64 are under way, the others are refused at once and nobody waits longer
/// than a question may take.
#[test]
fn beyond_the_queue_questions_are_refused_at_once() {
    const CONNECTIONS: usize = 18;
    let fake = Fake::start(|_| Reaction::Silence);
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let start = Instant::now();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = server.client();
            for _ in 0..64 {
                client.send(&route_of("Q"));
            }
            thread::spawn(move || times_of_misses(client, start))
        })
        .collect();
    let joined = clients.into_iter().map(|client| client.join().unwrap());
    let times: Vec<Duration> = joined.flatten().collect();
    let at_once = times.iter().filter(|time| **time < ASK_LIMIT).count();
    assert!(at_once >= CONNECTIONS * 64 - 1024 - 64, "{at_once}");
    assert!(at_once <= CONNECTIONS * 64 - 1024, "{at_once}");
    // Those behind the first batch were late when their turn came.
    let last = times.iter().max().unwrap();
    assert!(*last < ASK_LIMIT + 2 * SLACK, "{last:?}");
}

fn times_of_misses(mut client: Client, start: Instant) -> Vec<Duration> {
    (0..64)
        .map(|_| {
            assert_eq!(client.receive(), (1, miss("Q")));
            start.elapsed()
        })
        .collect()
}

/// Four answers fill the memory; while nobody reads them there is none for a fifth.
#[test]
fn memory_in_answers_is_limited_until_they_are_read() {
    const LARGE: usize = 16_000_000;
    let fake = Fake::start(|_| Reaction::Answer(0, vec![b' '; LARGE]));
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let mut slow = server.client();
    for opaque in 0..4 {
        slow.send(&Request {
            opaque,
            ..route_of("P")
        });
    }
    let mut client = server.client();
    let start = Instant::now();
    // Until all four are held.
    while client.call(&route_of("P")) != miss("P") {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    for opaque in 0..4 {
        let (answered, answer) = slow.receive();
        assert_eq!(answered, opaque);
        assert_eq!((answer.code, answer.body.unwrap().len()), (0, LARGE));
    }
    let start = Instant::now();
    while client.call(&route_of("P")) == miss("P") {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
