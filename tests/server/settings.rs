//! The settings of a running server: 318 and 319, and the file behind them.

use std::fs;
use std::time::Duration;

use crate::harness::{Home, Server};
use crate::peer::Peer;
use crate::requests::{Broker, accepted, put_kv, route, update_settings};
use crate::support::answer::Answer;
use crate::support::request::Request;

const FILE: &str = "namesrv.properties";
const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};

/// The lines of a 319.
fn listed(peer: &mut Peer) -> Vec<String> {
    let body = peer.ask(&Request::new(319)).body.unwrap();
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn route_text(peer: &mut Peer) -> String {
    String::from_utf8(peer.ask(&route("t")).body.unwrap()).unwrap()
}

#[test]
fn settings_are_listed_in_order_and_with_what_the_file_has() {
    let server = Server::with(&[("unheardOf", "a b"), ("orderMessageEnable", "TRUE")]);
    let lines = listed(&mut server.connect());
    assert!(lines.is_sorted());
    for line in [
        "unheardOf=a b",
        "orderMessageEnable=true",
        "clientRequestThreadPoolNums=8",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} in {lines:?}");
    }
    let port = format!("listenPort={}", server.address.port());
    assert!(lines.contains(&port), "{port} in {lines:?}");
    let path = format!("configStorePath={}", server.home.path(FILE).display());
    assert!(lines.contains(&path), "{path} in {lines:?}");
}

#[test]
fn order_topics_are_in_force_at_once_on_every_connection() {
    let server = Server::start();
    let mut admin = server.connect();
    let mut others: Vec<Peer> = (0..8).map(|_| server.connect()).collect();
    assert_eq!(admin.ask(&BROKER.register(1, &["t", "u"])), accepted());
    let put = put_kv("ORDER_TOPIC_CONFIG", "t", "ba:8");
    assert_eq!(admin.ask(&put), Answer::success());
    for on in [true, false, true] {
        let request = update_settings(&format!("orderMessageEnable={on}\n"));
        assert_eq!(admin.ask(&request), Answer::success());
        for other in &mut others {
            assert_eq!(
                route_text(other).contains("\"orderTopicConf\":\"ba:8\""),
                on
            );
        }
    }
}

#[test]
fn lists_can_be_switched_off_and_on() {
    let server = Server::start();
    let mut peer = server.connect();
    let mut other = server.connect();
    let disabled = Answer::failure(1, "disable");
    let off = update_settings("enableTopicList=false\nenableAllTopicList=false");
    assert_eq!(peer.ask(&off), Answer::success());
    for code in [206, 224, 311, 312, 313] {
        assert_eq!(other.ask(&Request::new(code)), disabled);
    }
    let on = update_settings("enableTopicList=true\nenableAllTopicList=true");
    assert_eq!(peer.ask(&on), Answer::success());
    for code in [206, 224, 311, 312, 313] {
        let expected = Answer::success().body("{\"topicList\":[]}");
        assert_eq!(other.ask(&Request::new(code)), expected);
    }
}

#[test]
fn changes_are_persisted_and_the_rest_of_the_file_is_kept() {
    let home = Home::new();
    let path = home.write_settings(&[]);
    let before = format!(
        "# our cluster\n{}\n! and more\norderMessageEnable = false\n\nunheardOf=x\n",
        fs::read_to_string(&path).unwrap()
    );
    fs::write(&path, &before).unwrap();
    let server = Server::in_home(home);
    let mut peer = server.connect();
    let request = update_settings("orderMessageEnable=true\nwaitSecondsForService=7\nunheardOf=y");
    assert_eq!(peer.ask(&request), Answer::success());
    let after = server.home.read(FILE);
    let lines: Vec<&str> = after.lines().collect();
    assert_eq!(lines[0], "# our cluster");
    for line in before
        .lines()
        .filter(|l| !l.contains("order") && !l.contains("unheard"))
    {
        assert!(lines.contains(&line), "{line} in {after}");
    }
    for line in ["waitSecondsForService=7", "unheardOf=y"] {
        assert!(lines.contains(&line), "{line} in {after}");
    }
    assert_eq!(after.matches("orderMessageEnable").count(), 1, "{after}");
    assert_eq!(server.home.read("namesrv.properties.bak"), before);
    server.wait_for_log(&["setting changed", "orderMessageEnable", "true"]);
    let server = server.kill_and_restart();
    let lines = listed(&mut server.connect());
    for line in [
        "orderMessageEnable=true",
        "waitSecondsForService=7",
        "unheardOf=y",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} in {lines:?}");
    }
}

#[test]
fn black_list_refuses_the_whole_request() {
    let server = Server::with(&[(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath;productEnvName",
    )]);
    let mut peer = server.connect();
    let before = (listed(&mut peer), server.home.read(FILE));
    let keys = [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        "productEnvName",
    ];
    for key in keys {
        let request = update_settings(&format!("orderMessageEnable=true\n{key}=/tmp/x\n"));
        let expected = Answer::failure(16, "Can not update config in black list.");
        assert_eq!(peer.ask(&request), expected, "{key}");
    }
    assert_eq!((listed(&mut peer), server.home.read(FILE)), before);
}

#[test]
fn bad_value_refuses_the_whole_request() {
    let server = Server::start();
    let mut peer = server.connect();
    let before = (listed(&mut peer), server.home.read(FILE));
    for text in [
        "waitSecondsForService=soon",
        "waitSecondsForService=-1",
        "enableTopicList=1",
    ] {
        let answer = peer.ask(&update_settings(&format!(
            "orderMessageEnable=true\n{text}"
        )));
        assert!(Answer::refused().admits(&answer), "{text}: {answer}");
        let key = text.split('=').next().unwrap();
        assert!(answer.to_string().contains(key), "{answer}");
    }
    let bad_text = update_settings("orderMessageEnable=\\u00zz");
    assert_eq!(
        peer.ask(&bad_text),
        Answer::failure(1, "string2Properties error")
    );
    assert_eq!((listed(&mut peer), server.home.read(FILE)), before);
}

#[test]
fn requests_that_change_nothing_write_nothing() {
    let server = Server::start();
    let mut peer = server.connect();
    let before = server.home.read(FILE);
    for text in ["", "# nothing\n", "unknownKey=1\n"] {
        assert_eq!(peer.ask(&update_settings(text)), Answer::success());
    }
    assert_eq!(server.home.read(FILE), before);
    assert!(!server.home.path("namesrv.properties.bak").exists());
}

#[test]
fn line_feed_in_a_value_makes_no_key() {
    let server = Server::start();
    let mut peer = server.connect();
    let request = update_settings("orderMessageEnable=true\nproductEnvName=a\\nkvConfigPath=/x\n");
    let answer = peer.ask(&request);
    let lines = listed(&mut peer);
    assert!(
        !lines.iter().any(|line| line == "kvConfigPath=/x"),
        "{answer}: {lines:?}"
    );
    assert!(!server.home.read(FILE).contains("\nkvConfigPath=/x"));
}

#[test]
fn settings_that_cannot_be_written_do_not_change() {
    let server = Server::start();
    let mut peer = server.connect();
    // A directory in the place of the temporary file.
    fs::create_dir(server.home.path("namesrv.properties.tmp")).unwrap();
    let before = (listed(&mut peer), server.home.read(FILE));
    let answer = peer.ask(&update_settings("orderMessageEnable=true"));
    assert!(Answer::refused().admits(&answer), "{answer}");
    assert!(
        answer
            .to_string()
            .contains("namesrv.properties cannot be written: "),
        "{answer}"
    );
    assert_eq!((listed(&mut peer), server.home.read(FILE)), before);
    fs::remove_dir(server.home.path("namesrv.properties.tmp")).unwrap();
    assert_eq!(
        peer.ask(&update_settings("orderMessageEnable=true")),
        Answer::success()
    );
}

#[test]
fn changes_of_many_connections_at_once_are_all_kept() {
    let server = Server::with(&[("a0", "-"), ("a1", "-"), ("a2", "-"), ("a3", "-")]);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut peer = server.connect();
                for i in 0..10 {
                    let request = update_settings(&format!("a{client}={i}"));
                    assert_eq!(peer.ask(&request), Answer::success());
                    let line = format!("a{client}={i}");
                    assert!(listed(&mut peer).contains(&line), "{line}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    });
    let text = server.home.read(FILE);
    for client in 0..4 {
        assert!(
            text.lines().any(|line| line == format!("a{client}=9")),
            "{text}"
        );
    }
}
