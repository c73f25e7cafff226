//! Public faults that only a running process can show not to have: `tests/FIELD.md` names the
//! test of each row. Most stand with their subject; here is what had no other place.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Home, PATIENCE, Server, measured, skipped, wait_until};
use crate::peer::Peer;
use crate::requests::{Broker, accepted, get_kv, no_route, put_kv, route};
use crate::support::answer::Answer;

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};
const MANY: usize = 5_000;

/// Many clients, or none where the test may not have so many descriptors.
fn many_clients(server: &Server) -> Option<Vec<Peer>> {
    let (soft, _) = namesrv::rt::raise_descriptor_limit(20_000).unwrap();
    if soft < MANY as u64 + 1_000 {
        skipped("too few descriptors for many clients");
        return None;
    }
    let address = server.address;
    let connect = move || (0..MANY / 8).map(|_| Peer::connect(address)).collect();
    let threads: Vec<thread::JoinHandle<Vec<Peer>>> =
        (0..8).map(|_| thread::spawn(connect)).collect();
    let peers = threads.into_iter().flat_map(|t| t.join().unwrap());
    Some(peers.collect())
}

#[test]
fn thousands_of_clients_connect_at_once() {
    let server = Server::start();
    let start = Instant::now();
    let Some(mut peers) = many_clients(&server) else {
        return;
    };
    let frame = route("t").json_frame();
    peers.iter_mut().for_each(|peer| peer.send(&frame));
    for peer in &mut peers {
        assert_eq!(peer.answer(), (1, no_route("t")));
    }
    let took = start.elapsed();
    measured(&format!("{MANY} clients connected and asked in {took:?}"));
    assert!(took < PATIENCE, "{took:?}");
}

#[test]
fn stop_with_thousands_of_clients_is_quick_and_frees_the_port() {
    let mut server = Server::start();
    let Some(peers) = many_clients(&server) else {
        return;
    };
    let (address, mut peer) = (server.address, server.connect());
    for i in 0..1000 {
        let mut request = BROKER.register(i, &["t", "u"]);
        request.oneway = true;
        peer.send(&request.json_frame());
    }
    server.signal("TERM");
    let start = Instant::now();
    assert_eq!(server.wait_for_end(PATIENCE).code(), Some(0));
    let took = start.elapsed();
    measured(&format!("stop with {MANY} clients took {took:?}"));
    assert!(took < Duration::from_secs(10), "{took:?}");
    // Clients look for another server at once, and a new one can take the place.
    for mut peer in peers.into_iter().step_by(500) {
        peer.is_closed_silently();
    }
    let home = Home::new();
    home.write_settings(&[("listenPort", &address.port().to_string())]);
    let server = Server::in_home(home);
    assert_eq!(server.address, address);
    assert_eq!(server.connect().ask(&route("t")), no_route("t"));
}

#[test]
fn idle_cut_and_probes_of_load_balancers_are_no_warnings() {
    let server = Server::with(&[("serverChannelMaxIdleTimeSeconds", "1")]);
    let mut idle = server.connect();
    for _ in 0..100 {
        server.connect().reset();
    }
    for _ in 0..100 {
        drop(server.connect());
    }
    idle.is_closed_silently();
    server.wait_for_log(&["INFO", "connection closed", "why=\"idle\""]);
    let log = server.log();
    for level in ["WARN", "ERROR", "panic"] {
        assert!(!log.contains(level), "{log}");
    }
    // The probes have left no line at all, the idle connection one.
    assert_eq!(log.matches("connection closed").count(), 1, "{log}");
}

#[test]
fn http2_is_named_in_the_log_and_costs_no_memory() {
    let server = Server::start();
    let before = server.resident_mib();
    for _ in 0..50 {
        let mut peer = server.connect();
        peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.is_closed_silently();
    }
    server.wait_for_log(&["connection closed", "peer=", "why="]);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("why=")).unwrap();
    assert!(line.contains("1347569956"), "{line}");
    assert!(server.resident_mib() < before + 16);
}

#[test]
fn only_the_bind_address_listens_and_nobody_is_called() {
    let server = Server::start();
    let mut peer = server.connect();
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    let elsewhere = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), server.address.port()));
    assert!(TcpStream::connect(elsewhere).is_err());
    let address = format!("address {}", server.address);
    assert!(server.home.read("stdout").contains(&address));
    // Every socket of the process is a listener at its port, or our connection to it.
    let port = format!(":{:04X}", server.address.port());
    let sockets = sockets_of(server.pid());
    let mut seen = 0;
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{}/net/{table}", server.pid())).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if sockets.contains(fields[9]) {
                assert!(fields[1].ends_with(&port), "{line}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 2, "{seen}");
}

/// Inodes of the sockets of a process.
fn sockets_of(pid: u32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let inode = |entry: std::io::Result<fs::DirEntry>| {
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        let inner = target.to_str()?.strip_prefix("socket:[")?;
        Some(inner.strip_suffix(']')?.to_owned())
    };
    entries.filter_map(inode).collect()
}

#[test]
fn administration_is_limited_to_address_ranges() {
    let put = put_kv("n", "k", "v");
    let elsewhere = Server::with(&[("namesrv.adminAllow", "10.0.0.0/8,::1")]);
    let mut peer = elsewhere.connect();
    assert_eq!(peer.ask(&put).code, 16);
    assert_eq!(peer.ask(&get_kv("n", "k")).code, 22);
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    let here = Server::with(&[("namesrv.adminAllow", "127.0.0.0/8")]);
    assert_eq!(here.connect().ask(&put), Answer::success());
}

#[test]
fn open_administration_beyond_loopback_is_a_warning_at_the_start() {
    let words = "namesrv.adminAllow limits that to address ranges";
    for (allow, warned) in [("", true), ("10.0.0.0/8", false)] {
        let home = Home::new();
        let settings = [("bindAddress", "0.0.0.0"), ("namesrv.adminAllow", allow)];
        let file = home.write_settings(&settings);
        let mut child = home.command().arg("-c").arg(file).spawn().unwrap();
        wait_until("the boot line", PATIENCE, || {
            home.read("namesrv.log").contains("boot success")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(home.read("namesrv.log").contains(words), warned, "{allow}");
    }
}

#[test]
fn small_container_is_enough() {
    let home = Home::new();
    home.write_settings(&[("namesrv.cores", "1")]);
    let start = Instant::now();
    // The data of the process may not exceed 128 MiB.
    let server = Server::in_shell(home, "ulimit -d 131072; exec \"$0\" \"$@\"");
    let took = start.elapsed();
    let topics: Vec<String> = (0..1000).map(|i| format!("topic-{i}")).collect();
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    assert_eq!(
        server.connect().ask(&BROKER.register(1, &names)),
        accepted()
    );
    let resident_mib = server.resident_mib();
    measured(&format!(
        "up after {took:?}, {resident_mib} MiB with 1,000 topics"
    ));
    assert!(resident_mib < 64, "{resident_mib} MiB");
}

#[test]
fn large_registration_over_a_slow_link_is_accepted() {
    let server = Server::start();
    let mut peer = server.connect();
    let topics: Vec<String> = (0..50_000).map(|i| format!("topic-{i:0>40}")).collect();
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let frame = BROKER.register(1, &names).json_frame();
    assert!(frame.len() > 10 << 20);
    let mut reader = server.connect();
    // 1 MB each second, and others are answered meanwhile.
    for chunk in frame.chunks(100_000) {
        assert_eq!(reader.ask(&route(names[0])), no_route(names[0]));
        peer.stream.write_all(chunk).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(peer.answer().1, accepted());
}
