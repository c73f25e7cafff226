//! Size: large tables, large frames, many requests.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use namesrv::route::Now;
use namesrv::route::command::{
    Command, Effects, Envelope, Identity, Origin, Outcome, Registration,
};
use namesrv::route::query::topic_list;
use namesrv::route::table::Table;
use namesrv::session::Next;
use namesrv::settings::limits::Limits;
use namesrv::wire::model::{DataVersion, QueueShape};
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::register::{RegisterBody, TopicConfig};

use super::world::{
    Hand, World, addr, change, one, put, query, register, route, route_of, set, topic, version,
    versioned,
};
use crate::support::answer::{Answer, read_answers};
use crate::support::request::{RegisterForm, Request};

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:05}")).collect()
}

/// A 103 with so many topics.
fn large(name: &str, n: usize, topics: &[String]) -> Request {
    change(register(name, 0, n, &[]), |spec| {
        spec.topics = topics.iter().map(|name| topic(name)).collect();
    })
}

#[test]
fn f01_a_frame_over_the_limit_closes_at_its_first_bytes() {
    let mut world = World::new(&[]);
    for length in [16_777_213_u32, 20_000_000, u32::MAX] {
        assert!(!world.survives(&length.to_be_bytes()));
    }
    assert!(world.survives(&16_777_212_u32.to_be_bytes()));
    // the limit is a setting
    let request = large("b-1", 1, &names("t", 1000));
    let bytes = request.json_frame().len();
    for (limit, code) in [(bytes - 1, None), (bytes, Some(0))] {
        let mut limits = Limits::default();
        limits.frame.frame_bytes = limit;
        let mut world = World::limited(limits);
        let conn = world.node.connect();
        let answers = world.node.send(conn, &request.json_frame(), 0);
        assert_eq!(
            code,
            read_answers(&answers).unwrap().first().map(|a| a.1.code)
        );
        assert_eq!(world.node.is_open(conn), code.is_some());
    }
}

#[test]
fn f02_registrations_in_parts_add_up() {
    for (switch, others) in [("false", 1), ("true", 0)] {
        let mut world = World::new(&[("deleteTopicWithBrokerRegistration", switch)]);
        let conn = world.node.connect();
        let parts = ["x", "y", "z"].map(|prefix| names(prefix, 800));
        for part in &parts {
            world.join_on(conn, &large("b-1", 1, part));
        }
        for part in &parts[..2] {
            for name in part.iter().step_by(97) {
                assert_eq!(world.queues(name).len(), others, "{name}");
            }
        }
        assert_eq!(world.queues("z00799").len(), 1);
        assert_eq!(world.node.snapshot().counts().0, 800 + 1600 * others);
    }
}

/// With few brokers and with many: a repetition costs the writer nothing, and one changed topic
/// costs as much as the request is large.
#[test]
fn f04_a_registration_costs_nothing_for_other_brokers() {
    let mut world = World::new(&[]);
    let conn = world.join(&large("b-1", 1, &names("t", 1000)));
    let before = world.node.commands;
    world.join_on(conn, &large("b-1", 1, &names("t", 1000)));
    assert_eq!(world.node.commands, before);
    let cost = |brokers| {
        let mut writer = Writer::new();
        for n in 0..brokers {
            writer.register(n, 200, 1);
        }
        writer.register(0, 200, 2)
    };
    let alone = cost(2);
    assert!(alone >= 200, "{alone} steps do not show the work");
    assert_eq!(cost(100), alone);
}

/// On the connection of the registration itself as well.
#[test]
fn f05_routes_are_answered_while_registrations_wait() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let snapshot = world.node.snapshot().clone();
    let mut hand = Hand::new();
    let held = hand.submission(&snapshot, &register("b-2", 0, 2, &["t1", "t2"]));
    assert!(matches!(held, Next::Submit(_)));
    assert_eq!(hand.session.outstanding(), 1);
    hand.feed(&snapshot, &route("t1").json_frame());
    assert_eq!(one(&hand.sent()).code, 0);
    assert_eq!(world.queues("t1"), ["b-1 6"]);
}

/// Quadratic work would take minutes here.
#[test]
fn f06_all_topics_are_listed_in_less_than_a_clients_patience() {
    let mut writer = Writer::new();
    for n in 0..5 {
        let topics = names(&format!("t{n}"), 10_000);
        writer.register_topics(n, topics.iter().map(|name| (name.as_str(), 8)), 1);
    }
    let snapshot = writer.table.snapshot();
    let start = Instant::now();
    let list = run_to_end(topic_list(&snapshot, &Pace::default()));
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(list.starts_with(br#"{"topicList":["t000000","t000001","#));
    assert!(list.ends_with(br#","t409999"]}"#));
    assert_eq!(
        list.len(),
        r#"{"topicList":[]}"#.len() + 50_000 * "\"t000000\",".len() - 1
    );
}

#[test]
fn f07_a_mass_loss_is_gone_at_once() {
    let mut world = World::new(&[]);
    let mut conns = Vec::new();
    for n in 0..1000 {
        conns.push(world.join(&register(
            &format!("b-{n:03}"),
            0,
            n,
            &["t1", &format!("own-{n}")],
        )));
    }
    assert_eq!(world.queues("t1").len(), 1000);
    for conn in conns.iter().step_by(2) {
        world.node.close(*conn, world.now);
    }
    assert_eq!(world.queues("t1").len(), 500);
    assert!(world.queues("own-0").is_empty());
    assert_eq!(world.queues("own-1"), ["b-001 6"]);
    assert_eq!(world.node.snapshot().counts(), (501, 500, 500));
    // the cost of a loss is that of the lost broker
    let cost = |others| {
        let mut writer = Writer::new();
        for n in 0..=others {
            writer.register_topics(n, [("t1", 8), (&*format!("own-{n}"), 8)].into_iter(), 1);
        }
        writer.apply(0, Command::Gone)
    };
    assert_eq!(cost(10), cost(1000));
}

#[test]
fn f09_a_slow_sender_blocks_nobody() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let slow = world.node.connect();
    let frame = large("b-2", 2, &names("t", 1000)).json_frame();
    let (last, pieces) = (frame.len() - 1, frame.len() / 1024);
    assert!(frame.len() > Limits::default().large_frame_bytes && pieces > 100);
    for piece in frame[..last].chunks(1024) {
        world.now += 10;
        assert!(world.node.send(slow, piece, world.now).is_empty());
        assert_eq!(world.queues("t1"), ["b-1 6"]);
    }
    assert_eq!(
        one(&world.node.send(slow, &frame[last..], world.now)).code,
        0
    );
    assert_eq!(world.queues("t00999"), ["b-2 6"]);
}

#[test]
fn f11_brokers_may_ask_before_they_register() {
    let mut world = World::new(&[]);
    let body = change(register("b-1", 0, 1, &["t1", "t2"]), |spec| {
        spec.form = RegisterForm::Zlib;
    });
    let sum = crc32fast::hash(&body.body_bytes()) & 0x7FFF_FFFF;
    let request = body
        .with("compressed", "true")
        .with("bodyCrc32", &sum.to_string());
    let conn = world.join(&request.with("heartbeatTimeoutMillis", "10000"));
    let stored = r#"{"counter":1,"stateVersion":0,"timestamp":1000}"#;
    for (counter, changed) in [(1, "false"), (2, "true"), (1, "false"), (0, "true")] {
        world.pass(8000);
        let answer = world.ask_on(conn, &query("b-1", 0, 1, version(counter)));
        assert_eq!(
            answer,
            Answer::success().ext(&[("changed", changed)]).body(stored)
        );
    }
    world.pass(10_000);
    assert_eq!(world.queues("t1"), ["b-1 6"]);
    world.pass(1);
    assert!(world.queues("t1").is_empty());
    let unknown = Answer::success().ext(&[("changed", "true")]);
    assert_eq!(world.ask(&query("b-1", 0, 1, version(1))), unknown);
}

/// Everything that a kept route body would have to notice.
#[test]
fn f12_a_route_is_never_stale() {
    let mut world = World::new(&[
        ("orderMessageEnable", "true"),
        ("supportActingMaster", "true"),
    ]);
    let acting = |id, n| {
        set(
            register("b-1", id, n, &["t1", "t2"]),
            "enableActingMaster",
            Some("true"),
        )
    };
    let master = world.join(&acting(0, 1).with("__ZONE_NAME", "z1"));
    let slave = world.join(&acting(1, 2).with("__ZONE_NAME", "z1"));
    let zone = |name| {
        route("t1")
            .with("__ZONE_MODE", "true")
            .with("__ZONE_NAME", name)
    };
    let text = world.text(&route("t1"));
    assert!(
        text.contains(r#"{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}"#),
        "{text}"
    );
    assert!(
        text.contains(r#""zoneName":"z1""#) && text.contains(r#""perm":6"#),
        "{text}"
    );
    assert_eq!(world.text(&zone("Z1")), text);
    let nothing = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#;
    assert_eq!(world.text(&zone("z2")), nothing);
    let bare = world.text(&route_of(317, "t1"));
    assert_eq!(bare, text.replace("\"0\":", "0:").replace("\"1\":", "1:"));
    world.join(&put("ORDER_TOPIC_CONFIG", "t1", "b-1:8"));
    let ordered = text.replace("\"queueDatas\"", r#""orderTopicConf":"b-1:8","queueDatas""#);
    assert_eq!(world.text(&route("t1")), ordered);
    world.join(
        &Request::new(102)
            .with("namespace", "ORDER_TOPIC_CONFIG")
            .with("key", "t1"),
    );
    assert_eq!(world.text(&route("t1")), text);
    world.join(&Request::new(205).with("brokerName", "b-1"));
    assert_eq!(
        world.text(&route("t1")),
        text.replace("\"perm\":6", "\"perm\":4")
    );
    world.join_on(slave, &acting(1, 2).with("__ZONE_NAME", "z2"));
    assert_ne!(world.text(&zone("z2")), nothing);
    world.node.close(master, world.now);
    assert_eq!(world.route_members("t1"), ["b-1 0 10.0.0.2:10911"]);
    assert_eq!(world.queues("t1"), ["b-1 4"]);
    world.node.set_settings(&[("orderMessageEnable", "true")]);
    assert_eq!(world.route_members("t1"), ["b-1 1 10.0.0.2:10911"]);
}

#[test]
fn f13_a_shared_topic_is_updated_in_constant_time() {
    let cost = |brokers| {
        let mut writer = Writer::new();
        for n in 0..brokers {
            writer.register_topics(n, [("t1", 8), ("t2", 8)].into_iter(), 1);
        }
        writer.register_topics(brokers / 2, [("t1", 9), ("t2", 8)].into_iter(), 2)
    };
    assert_eq!(cost(1000), cost(10));
    let mut world = World::new(&[]);
    let mut conns = Vec::new();
    for n in 0..300 {
        conns.push(world.join(&register(&format!("b-{n:03}"), 0, n, &["t1", "t2"])));
    }
    let before = world.text(&route("t1"));
    let wider = change(register("b-150", 0, 150, &["t1", "t2"]), |spec| {
        spec.topics[0].read = 9
    });
    world.join_on(conns[150], &versioned(wider, version(2)));
    let own = r#"{"brokerName":"b-150","perm":6,"readQueueNums":8,"#;
    assert_eq!(
        world.text(&route("t1")),
        before.replace(own, &own.replace('8', "9"))
    );
}

#[test]
fn f14_no_more_than_64_changes_of_a_connection_wait() {
    let world = World::new(&[]);
    let snapshot = world.node.snapshot();
    let wipe = Request::new(205).with("brokerName", "b-1").json_frame();
    let bytes = wipe.repeat(200);
    let mut hand = Hand::new();
    let mut used = 0;
    let last = loop {
        let fed = hand.feed(snapshot, &bytes[used..]);
        used += fed.used;
        match fed.next {
            Next::Submit(_) => {}
            next => break next,
        }
    };
    assert!(matches!(last, Next::Wait));
    assert_eq!((used, hand.session.outstanding()), (64 * wipe.len(), 64));
    assert!(hand.sent().is_empty());
}

#[test]
fn f15_a_turn_ends_when_its_answers_are_large() {
    let mut world = World::new(&[]);
    world.join(&large("b-1", 1, &names("t", 1000)));
    let answer = world.text(&Request::new(206)).len();
    let ask = Request::new(206).json_frame();
    let bytes = ask.repeat(1000);
    let mut hand = Hand::new();
    let fed = hand.feed(world.node.snapshot(), &bytes);
    assert!(matches!(fed.next, Next::Send));
    let (turn, made) = (hand.limits.turn_bytes, hand.out.len());
    assert!((turn..turn + answer + 200).contains(&made), "{made}");
    let answers = read_answers(&hand.sent()).unwrap();
    assert_eq!(fed.used, answers.len() * ask.len());
}

#[test]
fn f16_twenty_thousand_pipelined_routes() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let ask = |opaque| {
        let asked = if opaque % 2 == 0 {
            route("t1")
        } else {
            route("t9")
        };
        Request { opaque, ..asked }
    };
    let bytes: Vec<u8> = (0..20_000)
        .flat_map(|opaque| ask(opaque).json_frame())
        .collect();
    let answers = read_answers(&world.node.send(world.conn, &bytes, world.now)).unwrap();
    assert_eq!(answers.len(), 20_000);
    for (place, (opaque, answer)) in answers.iter().enumerate() {
        assert_eq!(*opaque as usize, place);
        assert_eq!(answer.code, if place % 2 == 0 { 0 } else { 17 });
    }
}

#[test]
fn f17_a_route_of_177_groups_has_a_size_to_predict() {
    let mut world = World::new(&[]);
    let (mut groups, mut queues) = (Vec::new(), Vec::new());
    for n in 0..177 {
        let name = format!("b-{n:03}");
        for (id, at) in [(0, n), (1, 200 + n)] {
            world.join(&register(&name, id, at, &["t1", "t2"]));
        }
        let (master, slave) = (addr(n), addr(200 + n));
        groups.push(format!(
            r#"{{"brokerAddrs":{{"0":"{master}","1":"{slave}"}},"brokerName":"{name}","cluster":"c1","enableActingMaster":false}}"#
        ));
        queues.push(format!(
            r#"{{"brokerName":"{name}","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}}"#
        ));
    }
    let expected = format!(
        r#"{{"brokerDatas":[{}],"filterServerTable":{{}},"queueDatas":[{}]}}"#,
        groups.join(","),
        queues.join(",")
    );
    assert_eq!(world.text(&route("t1")), expected);
}

#[test]
fn f19_misses_leave_no_trace() {
    let mut world = World::new(&[]);
    let frame = route("t9").json_frame();
    let answers = read_answers(&world.node.send(world.conn, &frame.repeat(10_000), 0)).unwrap();
    assert_eq!(answers.len(), 10_000);
    assert!(answers.iter().all(|(_, answer)| answer.code == 17));
    assert!(world.node.events().is_empty());
    assert_eq!(world.node.commands, 0);
}

/// The tables alone. Work is counted in the steps that they report.
struct Writer {
    table: Table,
    effects: Effects,
}

impl Writer {
    fn new() -> Self {
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let table = Table::new(hasher, Arc::default(), Arc::default(), &Limits::default());
        Self {
            table,
            effects: Effects::default(),
        }
    }

    /// Broker `n` with so many topics that all brokers share; `counter` 2 changes one of them.
    fn register(&mut self, n: usize, topics: usize, counter: i64) -> usize {
        let names = names("t", topics);
        let shapes = names.iter().enumerate().map(|(place, name)| {
            let wider = place == 0 && counter == 2;
            (name.as_str(), if wider { 9 } else { 8 })
        });
        self.register_topics(n, shapes, counter)
    }

    fn register_topics<'a>(
        &mut self,
        n: usize,
        topics: impl Iterator<Item = (&'a str, i32)>,
        counter: i64,
    ) -> usize {
        let config = |(name, read_queues): (&str, i32)| TopicConfig {
            key: None,
            name: name.to_owned(),
            shape: QueueShape {
                read_queues,
                write_queues: 8,
                perm: 6,
                topic_sys_flag: 0,
            },
        };
        let registration = Registration {
            identity: Identity {
                cluster: "c1".to_owned(),
                broker_name: format!("b-{n}"),
                broker_addr: addr(n),
                broker_id: 0,
            },
            ha_server_addr: None,
            zone_name: None,
            enable_acting_master: None,
            heartbeat_timeout_ms: None,
            body: RegisterBody {
                topics: topics.map(config).collect(),
                data_version: Some(DataVersion {
                    state_version: 0,
                    timestamp: 0,
                    counter,
                }),
                ..RegisterBody::default()
            },
            proof: None,
        };
        self.apply(n, Command::Register(Box::new(registration)))
    }

    fn apply(&mut self, conn: usize, command: Command) -> usize {
        let origin = Origin {
            core: 0,
            conn: conn as u64,
            opaque: 0,
            oneway: true,
        };
        let pace = Pace::new(1);
        let envelope = Envelope { origin, command };
        let work = self
            .table
            .apply(Now::default(), envelope, &mut self.effects, &pace);
        let (outcome, steps) = counted(work);
        assert!(matches!(outcome, Outcome::Done | Outcome::Registered(_)));
        steps
    }
}

/// Runs paced work to its end and counts how often it paused.
fn counted<T>(work: impl Future<Output = T>) -> (T, usize) {
    let mut work = pin!(work);
    let mut cx = Context::from_waker(Waker::noop());
    let mut steps = 0;
    loop {
        match work.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(value) => return (value, steps),
            std::task::Poll::Pending => steps += 1,
        }
    }
}
