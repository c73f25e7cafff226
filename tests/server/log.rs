//! The log: a line for each change of state, in its file or on standard error.

use std::fs;
use std::time::Duration;

use crate::harness::{Home, PATIENCE, Server, wait_until};
use crate::requests::{Broker, accepted, no_route, route};

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

#[test]
fn brokers_that_come_and_go_have_a_line_each() {
    let server = Server::start();
    let mut peer = server.connect();
    let who = [
        "cluster=\"c\"",
        "broker=\"ba\"",
        "id=0",
        "addr=\"10.0.0.1:10911\"",
    ];
    let line = |what: &[&'static str]| [&who[..], what].concat();
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    server.wait_for_log(&line(&["INFO", "broker registered"]));
    peer.ask(&BROKER.unregister());
    server.wait_for_log(&line(&[
        "INFO",
        "broker removed",
        "reason=\"unregistered\"",
    ]));
    assert_eq!(peer.ask(&BROKER.register(1, &["t", "u"])), accepted());
    drop(peer);
    server.wait_for_log(&line(&[
        "INFO",
        "broker removed",
        "reason=\"connection closed\"",
    ]));
}

#[test]
fn expired_broker_has_a_line_with_its_silence() {
    let server = Server::with(&[("scanNotActiveBrokerInterval", "50")]);
    let mut peer = server.connect();
    let register = BROKER
        .register(1, &["t", "u"])
        .with("heartbeatTimeoutMillis", "300");
    assert_eq!(peer.ask(&register), accepted());
    server.wait_for_log(&[
        "broker removed",
        "broker=\"ba\"",
        "reason=\"expired\"",
        "silent_ms=",
    ]);
    let log = server.log();
    let (_, silent) = log.split_once("reason=\"expired\" silent_ms=").unwrap();
    let digits = silent.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    let silent_ms: u64 = digits.parse().unwrap();
    assert!((300..5000).contains(&silent_ms), "{silent_ms}");
    server.wait_for_log(&["connection closed", "why=\"its last broker expired\""]);
}

#[test]
fn malformed_frame_has_a_line_with_its_peer() {
    let server = Server::start();
    let mut peer = server.connect();
    let own = peer.stream.local_addr().unwrap().to_string();
    peer.send(b"GET / HTTP/1.1\r\n\r\n");
    peer.is_closed_silently();
    server.wait_for_log(&["connection closed", &own, "why="]);
}

#[test]
fn requests_have_no_lines() {
    let server = Server::start();
    let mut peer = server.connect();
    server.wait_for_log(&["boot success"]);
    let before = server.log();
    for _ in 0..100 {
        assert_eq!(peer.ask(&route("t")), no_route("t"));
    }
    drop(peer);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.log(), before);
}

#[test]
fn log_goes_to_stderr_when_its_folder_cannot_be_made() {
    let home = Home::new();
    fs::write(home.path("file"), "").unwrap();
    let path = home.path("file/logs/namesrv.log");
    home.write_settings(&[("namesrv.log", path.to_str().unwrap())]);
    let server = Server::in_home(home);
    let lines = ["the log goes to standard error", "boot success"];
    for line in lines {
        wait_until(line, PATIENCE, || server.home.read("stderr").contains(line));
    }
    let stderr = server.home.read("stderr");
    assert!(
        stderr.contains("file/logs/namesrv.log cannot be written: "),
        "{stderr}"
    );
}

#[test]
fn log_option_stderr_writes_no_file() {
    let home = Home::new();
    home.write_settings(&[]);
    let server = Server::in_shell(home, "exec \"$0\" \"$@\" --log stderr");
    assert_eq!(
        server.connect().ask(&BROKER.register(1, &["t", "u"])),
        accepted()
    );
    wait_until("the line", PATIENCE, || {
        server.home.read("stderr").contains("broker registered")
    });
    assert!(!server.home.path("namesrv.log").exists());
}

#[test]
fn last_lines_are_in_the_file_after_a_stop() {
    let mut server = Server::start();
    server.signal("TERM");
    server.wait_for_end(PATIENCE);
    let log = server.log();
    assert!(log.trim_end().ends_with("told to stop"), "{log}");
}
