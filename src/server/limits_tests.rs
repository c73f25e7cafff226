//! Limits of the whole process, hit by real connections: this server in a test's own process, so
//! that the limits are low and what is held can be counted.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::shared::SharedRef;
use super::start::{Plan, check, start};
use crate::route::kv::Kv;
use crate::rt::{self, CoreHandle};
use crate::settings::Settings;
use crate::settings::limits::Limits;
use crate::settings::values::Cores;
use crate::wire::codes::{remark, request, response};
use crate::wire::json;

const KIB: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
struct Running {
    shared: SharedRef,
    cores: Vec<CoreHandle>,
    addr: SocketAddr,
}

impl Running {
    /// With so many cores, all on one CPU.
    fn start(cores: usize, limits: Limits) -> Self {
        rt::prepare_process();
        let cpu = u16::try_from(rt::usable_cpus().unwrap()[0]).unwrap();
        let settings = Settings {
            bind_address: "127.0.0.1".to_owned(),
            listen_port: 0,
            cores: Cores::List(vec![cpu; cores]),
            ..Settings::default()
        };
        let kv = Kv::default();
        let plan = Plan {
            settings,
            limits,
            kv,
        };
        let checked = check(&plan).unwrap();
        let (shared, cores) = start(&plan, &checked).unwrap();
        let addr = checked.addr;
        Self {
            shared,
            cores,
            addr,
        }
    }

    fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer(stream)
    }

    /// A client of this core.
    fn connect_to(&self, core: usize) -> Peer {
        let on_core = || self.shared.cores[core].connections.load(Ordering::Relaxed);
        let before = on_core();
        loop {
            let mut peer = self.connect();
            peer.is_served();
            if on_core() > before {
                return peer;
            }
        }
    }

    fn counted(&self, counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Everything that was held is free again once the last peer has gone.
    fn holds_nothing(&self) {
        let shared = &self.shared;
        wait_until("the connections have ended", || {
            shared.connections.load(Ordering::Relaxed) == 0
        });
        assert_eq!(shared.kept_bytes(), 0);
        assert_eq!(shared.parsed.used(), 0);
        assert_eq!(shared.large_frames.used(), 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && !self.cores.iter().all(CoreHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client.
struct Peer(TcpStream);

impl Peer {
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Code and remark of the next answer.
    fn answer(&mut self) -> (i32, String) {
        self.answer_or_end().unwrap()
    }

    /// The same, or nothing when the connection ends before it.
    fn answer_or_end(&mut self) -> Option<(i32, String)> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut rest = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut rest).unwrap();
        let header_end = 4 + u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let header = json::parse(std::str::from_utf8(&rest[4..header_end]).unwrap()).unwrap();
        let code = json::int32(header.field("code").unwrap()).unwrap().unwrap();
        let remark = header.field("remark").cloned().map(json::text);
        let remark = remark.and_then(|text| text.unwrap()).unwrap_or_default();
        Some((code, remark.into_owned()))
    }

    fn is_served(&mut self) {
        self.send(&frame(
            request::BROKER_HEARTBEAT,
            &identity("b"),
            b"",
            false,
        ));
        assert_eq!(self.answer().0, response::SUCCESS);
    }

    fn is_closed(&mut self) -> bool {
        loop {
            match self.0.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
                Ok(read) => return read == 0,
            }
        }
    }

    /// The same without waiting for it.
    fn is_closed_now(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let closed = self.is_closed();
        self.0.set_nonblocking(false).unwrap();
        closed
    }
}

fn frame(code: i32, ext: &str, body: &[u8], oneway: bool) -> Vec<u8> {
    let flag = if oneway { 2 } else { 0 };
    let header = format!(
        "{{\"code\":{code},\"version\":479,\"opaque\":1,\"flag\":{flag},\"extFields\":{{{ext}}}}}"
    );
    let mut frame = ((4 + header.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    frame
}

fn identity(name: &str) -> String {
    format!(
        "\"clusterName\":\"c\",\"brokerName\":\"{name}\",\"brokerAddr\":\"{name}:1\",\
         \"brokerId\":\"0\""
    )
}

/// Body of a 103 with so many topics, behind so many blanks.
fn body(topics: usize, blanks: usize) -> Vec<u8> {
    let topic =
        |i| format!("\"t{i}\":{{\"topicName\":\"t{i}\",\"readQueueNums\":4,\"writeQueueNums\":4}}");
    let table: Vec<String> = (0..topics).map(topic).collect();
    let mut body = vec![b' '; blanks];
    write!(
        body,
        "{{\"topicConfigSerializeWrapper\":{{\"dataVersion\":{{\"counter\":1}},\
         \"topicConfigTable\":{{{}}}}},\"filterServerList\":[]}}",
        table.join(",")
    )
    .unwrap();
    body
}

fn registration(name: &str, body: &[u8]) -> Vec<u8> {
    frame(request::REGISTER_BROKER, &identity(name), body, false)
}

/// The start of a frame that is never finished: it stays where it was received.
fn half_frame(bytes: usize) -> Vec<u8> {
    let mut frame = registration("half", &vec![b' '; 2 * bytes]);
    frame.truncate(bytes);
    frame
}

#[test]
fn connections_beyond_their_number_are_refused_until_one_ends() {
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let server = Running::start(1, limits);
    let mut peers = [server.connect(), server.connect()];
    peers.iter_mut().for_each(Peer::is_served);
    for refused in 1..=3 {
        assert!(server.connect().is_closed());
        let counter = &server.shared.counters.refused_connections;
        assert_eq!(server.counted(counter), refused);
    }
    peers.iter_mut().for_each(Peer::is_served);
    let [first, mut second] = peers;
    drop(first);
    wait_until("a place is free", || {
        server.shared.connections.load(Ordering::Relaxed) == 1
    });
    let mut third = server.connect();
    third.is_served();
    second.is_served();
    drop((second, third));
    server.holds_nothing();
}

#[test]
fn commands_beyond_what_may_wait_are_busy_at_once() {
    let limits = Limits {
        parsed_total_bytes: 64 * KIB,
        ..Limits::default()
    };
    let server = Running::start(1, limits);
    let mut peer = server.connect();
    let many = registration("many", &body(2000, 0));
    let few = registration("few", &body(2, 0));
    let busy = (response::SYSTEM_BUSY, remark::OVERLOAD.to_owned());
    // Larger than all that may wait.
    peer.send(&many);
    assert_eq!(peer.answer(), busy);
    peer.send(&few);
    assert_eq!(peer.answer().0, response::SUCCESS);
    // Others leave no room, for whatever command.
    let others = 64 * KIB - 10;
    assert!(server.shared.parsed.take(others, 0));
    let queues = format!(
        "{{\"queueDatas\":[{{\"brokerName\":\"{}\"}}]}}",
        "x".repeat(100)
    );
    let commands = [
        registration("few", &body(3, 0)),
        frame(217, "\"topic\":\"t\"", queues.as_bytes(), false),
        frame(216, "\"topic\":\"a long name of a topic\"", b"", false),
        frame(
            205,
            "\"brokerName\":\"a long name of a broker\"",
            b"",
            false,
        ),
        frame(
            100,
            "\"namespace\":\"n\",\"key\":\"k\",\"value\":\"a long value\"",
            b"",
            false,
        ),
        frame(104, &identity("a broker with a long name"), b"", false),
    ];
    for command in &commands {
        peer.send(command);
        assert_eq!(peer.answer(), busy);
    }
    let refused = server.counted(&server.shared.counters.overloaded);
    assert_eq!(refused, 1 + commands.len() as u64);
    let oneway = frame(103, &identity("few"), &body(4, 0), true);
    peer.send(&oneway);
    peer.is_served();
    wait_until("the one-way is dropped and counted", || {
        server.counted(&server.shared.counters.overloaded) == refused + 1
    });
    assert_eq!(server.shared.parsed.used(), others);
    server.shared.parsed.give(others);
    peer.send(&commands[0]);
    assert_eq!(peer.answer().0, response::SUCCESS);
    drop(peer);
    server.holds_nothing();
}

#[test]
fn half_frames_beyond_what_all_may_keep_cost_the_oldest() {
    let limits = Limits {
        kept_total_bytes: 100 * KIB,
        ..Limits::default()
    };
    let server = Running::start(1, limits);
    let mut peers: Vec<Peer> = (0..3).map(|_| server.connect()).collect();
    for (i, peer) in peers.iter_mut().enumerate() {
        peer.send(&half_frame(30 * KIB));
        wait_until("it is kept", || {
            server.shared.kept_bytes() == (i + 1) * 30 * KIB
        });
        // The next is younger by the clock of the server.
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut bystander = server.connect();
    bystander.is_served();
    let mut last = server.connect();
    last.send(&half_frame(30 * KIB));
    assert!(peers[0].is_closed());
    let closed = &server.shared.counters.closed_for_memory;
    wait_until("it is counted", || server.counted(closed) == 1);
    assert_eq!(server.shared.kept_bytes(), 90 * KIB);
    // Those that were not too many are finished and answered.
    bystander.is_served();
    drop(bystander);
    for mut peer in peers.drain(1..).chain([last]) {
        assert!(!peer.is_closed_now());
        let whole = registration("half", &vec![b' '; 60 * KIB]);
        peer.send(&whole[30 * KIB..]);
        assert_eq!(peer.answer().0, response::SYSTEM_ERROR);
    }
    assert_eq!(server.counted(closed), 1);
    server.holds_nothing();
}

#[test]
fn cores_together_close_no_more_than_is_too_much() {
    const PEERS: usize = 40;
    let limits = Limits {
        kept_total_bytes: 300 * KIB,
        ..Limits::default()
    };
    let server = Running::start(4, limits);
    // Nothing is too much until all are there.
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| server.connect()).collect();
    let start = half_frame(10 * KIB);
    let (some, rest) = start.split_at(7 * KIB);
    peers.iter_mut().for_each(|peer| peer.send(some));
    wait_until("all are kept", || {
        server.shared.kept_bytes() == PEERS * 7 * KIB
    });
    peers.iter_mut().for_each(|peer| peer.send(rest));
    wait_until("some are closed", || {
        server.shared.kept_bytes() <= 300 * KIB
    });
    // Every core looks again, several times.
    std::thread::sleep(Duration::from_secs(1));
    let closed = server.counted(&server.shared.counters.closed_for_memory);
    // 10 of 40; a core that looks at the same moment as another may close one too many.
    assert!((10..=13).contains(&closed), "{closed} of {PEERS}");
    let gone = peers
        .iter_mut()
        .map(Peer::is_closed_now)
        .filter(|gone| *gone);
    assert_eq!(gone.count() as u64, closed);
    drop(peers);
    server.holds_nothing();
}

#[test]
fn registrations_that_wait_for_the_parser_are_kept_bytes() {
    let server = Running::start(1, Limits::default());
    let mut long = keep_parser_busy(&server);
    let bodies = [
        body(100, 10 * KIB),
        body(200, 20 * KIB),
        b"{".repeat(9 * KIB),
    ];
    let mut peers: Vec<Peer> = bodies.iter().map(|_| server.connect()).collect();
    for (peer, body) in peers.iter_mut().zip(&bodies) {
        peer.send(&registration("small", body));
    }
    let mut kept: usize = bodies.iter().map(Vec::len).sum();
    wait_until("all wait", || server.shared.kept_bytes() == kept);
    // One ends while it waits: its body goes with it.
    drop(peers.remove(0));
    kept -= bodies[0].len();
    wait_until("one is forgotten", || server.shared.kept_bytes() == kept);
    assert_eq!(peers[0].answer().0, response::SUCCESS);
    assert_eq!(peers[1].answer().0, response::SYSTEM_ERROR);
    for long in &mut long {
        assert_eq!(long.answer().0, response::SUCCESS);
    }
    wait_until("nothing is kept", || server.shared.kept_bytes() == 0);
    drop((long, peers));
    server.holds_nothing();
}

#[test]
fn registrations_that_wait_for_the_parser_count_against_the_limit() {
    let limits = Limits {
        kept_total_bytes: 50 * KIB,
        ..Limits::default()
    };
    let server = Running::start(1, limits);
    let closed = || server.counted(&server.shared.counters.closed_for_memory);
    // The parser may be done before the sweeper looks, so this may take several tries.
    wait_until("one is closed", || {
        let mut long = keep_parser_busy(&server);
        let mut peers: Vec<Peer> = (0..2).map(|_| server.connect()).collect();
        for peer in &mut peers {
            peer.send(&registration("small", &body(2, 30 * KIB)));
        }
        for long in &mut long {
            assert_eq!(long.answer().0, response::SUCCESS);
        }
        let served = peers.iter_mut().filter_map(Peer::answer_or_end);
        let answers: Vec<i32> = served.map(|(code, _)| code).collect();
        assert_eq!(answers.len() as u64, 2 - closed());
        assert!(answers.iter().all(|code| *code == response::SUCCESS));
        closed() > 0
    });
    server.holds_nothing();
}

/// The writer's core has nothing left to serve and must not end before the others.
#[test]
fn a_stop_waits_for_what_other_cores_have_read() {
    let server = Running::start(2, Limits::default());
    let mut peer = server.connect_to(1);
    let long = keep_busy(|| server.connect_to(1));
    let body = body(2, 10 * KIB);
    peer.send(&registration("small", &body));
    wait_until("it waits for the parser", || {
        server.shared.kept_bytes() == body.len()
    });
    server.shared.stop();
    assert_eq!(peer.answer().0, response::SUCCESS);
    assert!(peer.is_closed());
    drop(long);
    server.holds_nothing();
}

/// Clients whose registrations keep the parser busy for a while; their memory has permits.
fn keep_parser_busy(server: &Running) -> Vec<Peer> {
    keep_busy(|| server.connect())
}

fn keep_busy(connect: impl Fn() -> Peer) -> Vec<Peer> {
    let body = body(30_000, 12 << 20);
    let send = |i| {
        let mut peer = connect();
        peer.send(&registration(&format!("long{i}"), &body));
        peer
    };
    let peers = (0..4).map(send).collect();
    std::thread::sleep(Duration::from_millis(20));
    peers
}

/// Connections live for weeks, and the kernel's hash alone never evens out what their ends have
/// left: see `BALANCE_RATIO`.
#[test]
fn connections_are_spread_over_cores() {
    const CORES: usize = 4;
    const PEERS: usize = 1000;
    let server = Running::start(CORES, Limits::default());
    let counts = || {
        let of_core = |core: usize| {
            server.shared.cores[core]
                .connections
                .load(Ordering::Relaxed)
        };
        std::array::from_fn::<_, CORES, _>(of_core)
    };
    let mut by_core: [Vec<Peer>; CORES] = Default::default();
    for _ in 0..PEERS {
        let before = counts();
        let mut peer = server.connect();
        peer.is_served();
        let after = counts();
        let core = (0..CORES).find(|core| after[*core] > before[*core]);
        by_core[core.unwrap()].push(peer);
    }
    let is_even = || counts().iter().all(|count| count * CORES * 5 <= PEERS * 6);
    assert!(is_even(), "{:?}", counts());

    let mut peers = std::mem::take(&mut by_core[0]);
    drop(by_core);
    wait_until("the others have gone", || {
        server.shared.connections.load(Ordering::Relaxed) == peers.len()
    });
    while peers.len() < PEERS {
        let mut peer = server.connect();
        peer.is_served();
        peers.push(peer);
    }
    assert!(is_even(), "{:?}", counts());
    assert!(server.counted(&server.shared.counters.handed_over) > 0);
    drop(peers);
    server.holds_nothing();
}
