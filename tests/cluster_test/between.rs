//! The binary in front of a production environment that works.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::world::{
    Client, Fake, Page, Reaction, Server, miss, nobody, order_conf, register, route_of,
};
use crate::support::answer::Answer;
use crate::support::request::Request;

/// Less than a question may take.
const AT_ONCE: Duration = Duration::from_millis(1500);

#[test]
fn two_servers_of_ours_are_one_to_a_client() {
    let production = Server::start("");
    let mut producer = production.client();
    assert_eq!(producer.call(&register("prod", &["P", "T"])).code, 0);
    let page = Page::with(&format!("{}\nignored", production.addr));
    let server = Server::in_front_of(&page);
    let mut client = server.client();
    assert_eq!(client.call(&register("test", &["T", "U"])).code, 0);
    assert_eq!(client.call(&order_conf("T", "test:4")).code, 0);

    let local = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"test","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"orderTopicConf":"test:4","queueDatas":[{"brokerName":"test","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
    assert_eq!(
        client.call(&route_of("T")),
        Answer::success().body(local),
        "the local route wins"
    );

    let old = Request {
        version: 300,
        ..route_of("P")
    };
    let legacy = producer.call(&old);
    assert_eq!(legacy.code, 0);
    assert!(String::from_utf8_lossy(legacy.body.as_ref().unwrap()).contains("{0:"));
    assert_ne!(producer.call(&route_of("P")), legacy, "the standard form");
    assert_eq!(client.call(&route_of("P")), legacy);

    assert_eq!(client.call(&route_of("Q")), miss("Q"));
    assert_eq!(client.call(&Request::new(206)).code, 0);
    let first = page.requests.recv().unwrap();
    assert_eq!(first, "GET /rocketmq/nsaddr-prod?nofix=1 HTTP/1.1");
}

#[test]
fn the_list_may_be_given_without_a_page() {
    let fake = Fake::start(|_| Reaction::Answer(0, b"{}".to_vec()));
    let server = Server::start(&format!(
        "clusterTest=true\nrocketmq.namesrv.addr={};{}\n",
        nobody(),
        fake.addr
    ));
    let answer = server.client().call(&route_of("P"));
    assert_eq!(answer, Answer::success().body("{}"), "past the dead server");
    assert_eq!(fake.questions.recv().unwrap(), ("P".to_owned(), 400));
}

#[test]
fn a_318_does_not_switch_a_running_server() {
    let server = Server::start("");
    let fake = Fake::start(|_| Reaction::Answer(0, b"{}".to_vec()));
    let mut client = server.client();
    let change = Request {
        body: crate::support::request::Body::Raw(b"clusterTest=true".to_vec()),
        ..Request::new(318)
    };
    assert_eq!(client.call(&change).code, 0);
    assert_eq!(client.call(&route_of("P")), miss("P"));
    assert!(fake.questions.try_recv().is_err());
}

#[test]
fn a_oneway_request_asks_nobody() {
    let fake = Fake::start(|_| Reaction::Answer(0, b"{}".to_vec()));
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let mut client = server.client();
    client.send(&Request {
        oneway: true,
        ..route_of("O")
    });
    let answer = client.call(&route_of("P"));
    assert_eq!(answer, Answer::success().body("{}"));
    let topics: Vec<_> = fake.questions.try_iter().map(|(topic, _)| topic).collect();
    assert_eq!(topics, ["P"]);
}

/// 20 connections with 50 requests each at once, half of them for topics that exist nowhere.
#[test]
fn many_misses_at_once_get_each_its_own_answer() {
    let fake = Fake::start(|topic| match topic.starts_with("known") {
        true => Reaction::Answer(0, format!("{{{topic}}}").into_bytes()),
        false => Reaction::Answer(17, Vec::new()),
    });
    let server = Server::in_front_of(&Page::with(&fake.addr.to_string()));
    let clients: Vec<_> = (0..20)
        .map(|client| {
            let addr = server.addr;
            thread::spawn(move || ask_many(Client::connect(addr), client))
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(fake.questions.try_iter().count(), 20 * 50);
    assert_eq!(fake.connections.load(Ordering::Relaxed), 1, "it is kept");
}

fn ask_many(mut client: Client, number: usize) {
    let topic = |n: i32| {
        let kind = if n % 2 == 0 { "known" } else { "unknown" };
        format!("{kind}-{number}-{n}")
    };
    for n in 0..50 {
        client.send(&Request {
            opaque: n,
            ..route_of(&topic(n))
        });
    }
    let mut seen = [false; 50];
    for _ in 0..50 {
        let (opaque, answer) = client.receive();
        let topic = topic(opaque);
        let expected = match opaque % 2 {
            0 => Answer::success().body(format!("{{{topic}}}")),
            _ => miss(&topic),
        };
        assert_eq!(answer, expected);
        assert!(!std::mem::replace(&mut seen[opaque as usize], true));
    }
}

#[test]
fn a_server_that_is_its_own_production_does_not_ask_in_circles() {
    static OWN: OnceLock<String> = OnceLock::new();
    let page = Page::made_by(|| OWN.wait().clone());
    let server = Server::in_front_of(&page);
    OWN.set(server.addr.to_string()).unwrap();
    let start = Instant::now();
    assert_eq!(server.client().call(&route_of("Q")), miss("Q"));
    assert!(start.elapsed() < AT_ONCE);
}
