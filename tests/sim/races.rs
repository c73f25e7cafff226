//! The races and defects of the Java NameServer (namesrv.md 8.3), each brought about on purpose
//! and shown to be impossible here, or to end as documented.

use std::sync::Arc;

use namesrv::route::command::{Event, Leave};

use super::peer::{Ask, Identity, Register};
use super::scene::{Scene, master};
use super::setup::{Setup, Want};
use crate::support::answer::Answer;
use crate::support::request::{Body, Request};

const BUSY: &str = "[OVERLOAD]system busy, start flow control for a while";

#[test]
fn r01_close_of_an_old_connection_spares_a_new_registration() {
    // Where the end of the old connection stands: before the registration, in one batch with it
    // or applied and not yet visible, or after it.
    for place in 0..4 {
        let mut scene = Scene::new();
        let (old, new) = (scene.connect(0), scene.connect(1));
        let broker = master("b", "a:1");
        scene.send(old, &[Ask::Register(broker.clone())]);
        scene.settle();
        let end_first = place < 3;
        if end_first {
            scene.server.end(old);
        }
        match place {
            1 => scene.server.apply(1),
            2 => scene.settle(),
            _ => {}
        }
        scene.send(new, &[Ask::Register(broker)]);
        if !end_first {
            scene.server.end(old);
        }
        scene.settle();
        scene.server.end(old);
        scene.settle();
        assert_eq!(scene.members("b"), "0:\"a:1\"", "place {place}");
        assert_eq!(scene.route("b.t1").code, 0);
    }
}

#[test]
fn r02_expiry_is_judged_again_when_it_is_applied() {
    let mut scene = Scene::new();
    let (old, new) = (scene.connect(0), scene.connect(1));
    let broker = Register {
        timeout_ms: Some(10_000),
        ..master("b", "a:1")
    };
    scene.send(old, &[Ask::Register(broker.clone())]);
    scene.settle();

    // A heartbeat in the very millisecond of the tick.
    scene.server.now_ms = 10_001;
    scene.send(new, &[Ask::Heartbeat(broker.who.clone())]);
    scene.server.tick(0);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:1\"");
    assert!(scene.server.is_open(old));

    // The time-out itself is still allowed; a millisecond later the tick ends the clock, and a
    // heartbeat that meets it before that is visible is ordered before it and saves nobody.
    scene.server.now_ms = 20_001;
    scene.server.tick(0);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:1\"");
    scene.server.now_ms = 20_002;
    scene.send(new, &[Ask::Register(broker.clone())]);
    scene.server.tick(0);
    assert_eq!(scene.members("b"), "0:\"a:1\"");
    assert_eq!(
        scene.ask(&Ask::Heartbeat(broker.who.clone())),
        Answer::success()
    );
    scene.server.publish();
    assert_eq!(scene.members("b"), "");

    // A registration that waited while the tick went by, on another connection, is not lost with
    // the one that the tick closes.
    scene.settle();
    assert!(!scene.server.is_open(old), "its last broker has expired");
    assert_eq!(scene.members("b"), "0:\"a:1\"");

    // On the same connection the order to close is void.
    scene.server.now_ms = 40_000;
    scene.send(
        new,
        &[Ask::Register(Register {
            version: (0, 2),
            ..broker
        })],
    );
    scene.server.tick(0);
    scene.server.publish();
    assert!(scene.server.wants.contains(&Want::Close(new)));
    assert_eq!(scene.members("b"), "");
    scene.settle();
    assert!(scene.server.is_open(new));
    assert_eq!(scene.members("b"), "0:\"a:1\"");
}

#[test]
fn r03_a_104_and_the_103_after_it_keep_their_order() {
    let mut scene = Scene::new();
    let (one, other) = (scene.connect(0), scene.connect(1));
    let broker = master("b", "a:1");
    scene.send(one, &[Ask::Register(broker.clone())]);
    scene.settle();

    // In one go, each applied in a batch of its own.
    scene.send(
        one,
        &[
            Ask::Unregister(broker.who.clone()),
            Ask::Register(broker.clone()),
        ],
    );
    scene.settle_by(1);
    assert_eq!(scene.members("b"), "0:\"a:1\"");

    // A restart on another connection, on another core.
    scene.send(one, &[Ask::Unregister(broker.who.clone())]);
    scene.send(other, &[Ask::Register(broker.clone())]);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:1\"");

    // Who has the answer to a 104 does not see the broker any more.
    scene.answers(other);
    scene.send(other, &[Ask::Unregister(broker.who)]);
    assert_eq!(scene.answers(other), []);
    assert_eq!(scene.members("b"), "0:\"a:1\"");
    scene.settle();
    assert_eq!(scene.answers(other), [Answer::success()]);
    assert_eq!(scene.members("b"), "");
}

#[test]
fn r04_all_brokers_of_a_connection_leave_with_it() {
    let mut scene = Scene::new();
    let (shared, own) = (scene.connect(0), scene.connect(0));
    let brokers = ["b1", "b2", "b3"].map(|name| master(name, &format!("{name}:1")));
    scene.send(shared, &brokers.clone().map(Ask::Register));
    scene.settle();
    // One of them has moved to a connection of its own.
    scene.send(own, &[Ask::Register(brokers[1].clone())]);
    scene.settle();
    scene.server.end(shared);
    scene.settle();
    assert_eq!(scene.server.snapshot().counts(), (2, 1, 1));
    assert_eq!(scene.members("b2"), "0:\"b2:1\"");
}

#[test]
fn r05_a_replaced_address_leaves_no_orphan() {
    let mut scene = Scene::new();
    let (old, new) = (scene.connect(0), scene.connect(1));
    let broker = Register {
        timeout_ms: Some(10_000),
        ..master("b", "a:1")
    };
    let moved = Register {
        timeout_ms: Some(10_000),
        ..master("b", "a:2")
    };
    scene.send(old, &[Ask::Register(broker.clone())]);
    scene.settle();
    scene.send(new, &[Ask::Register(moved.clone())]);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:2\"");
    let unknown = Answer::success().ext(&[("changed", "true")]);
    assert_eq!(scene.ask(&Ask::Version(broker.who, (0, 1))), unknown);
    assert_eq!(scene.server.snapshot().counts(), (2, 1, 1));

    // Nothing is left to expire, to log or to close over and over.
    scene.server.now_ms = 10_001;
    scene.send(new, &[Ask::Heartbeat(moved.who)]);
    scene.server.events.clear();
    for _ in 0..3 {
        scene.server.tick(0);
        scene.settle();
    }
    assert_eq!(scene.server.events, []);
    assert!(scene.server.is_open(old));
    scene.server.end(old);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:2\"");
}

#[test]
fn r06_a_large_answer_is_not_disturbed_by_changes() {
    let mut scene = Scene::new();
    let (broker, reader) = (scene.connect(0), scene.connect(1));
    scene.send(broker, &[Ask::Register(master("b1", "a:1"))]);
    scene.settle();
    let before = scene.ask(&Ask::ClusterInfo);
    scene.start(reader, &[Ask::ClusterInfo]);
    // While the answer is being made, one broker comes and another goes.
    scene.send(
        broker,
        &[
            Ask::Register(master("b2", "a:2")),
            Ask::Unregister(master("b1", "a:1").who),
        ],
    );
    scene.settle_without(Want::Job(reader));
    scene.server.finish_job(reader);
    assert_eq!(scene.answers(reader), [before]);
    let after = scene.ask(&Ask::ClusterInfo);
    let text = String::from_utf8(after.body.unwrap()).unwrap();
    assert_eq!(
        text,
        "{\"brokerAddrTable\":{\"b2\":{\"brokerAddrs\":{0:\"a:2\"},\"brokerName\":\"b2\",\
         \"cluster\":\"C\",\"enableActingMaster\":false}},\"clusterAddrTable\":{\"C\":[\"b2\"]}}"
    );
}

#[test]
fn r07_a_bad_104_spoils_no_other() {
    let mut scene = Scene::new();
    let conn = scene.connect(0);
    let brokers = ["b1", "b2", "b3"].map(|name| master(name, &format!("{name}:1")));
    scene.send(conn, &brokers.clone().map(Ask::Register));
    scene.settle();
    let by_name = |who: &Identity| Request::new(104).with("brokerName", &who.name);
    // Without an id; without an address and a cluster; with everything.
    let first = by_name(&brokers[0].who)
        .with("brokerAddr", "b1:1")
        .with("clusterName", "C");
    scene.send_requests(conn, &[first, by_name(&brokers[1].who)]);
    scene.send(conn, &[Ask::Unregister(brokers[2].who.clone())]);
    scene.server.apply(3);
    scene.settle();
    assert_eq!(scene.members("b1"), "");
    assert_eq!(scene.members("b2"), "0:\"b2:1\"");
    assert_eq!(scene.members("b3"), "");
    for topic in ["b1.t0", "b3.t0"] {
        assert_eq!(scene.route(topic).code, 17);
    }
    assert_eq!(scene.route("b2.t0").code, 0);
}

#[test]
fn r08_the_end_of_a_connection_finds_room_in_a_full_queue() {
    let mut scene = Scene::with(Setup {
        mailbox: 1,
        ..Setup::default()
    });
    let (lost, busy) = (scene.connect(0), scene.connect(0));
    let broker = master("b", "a:1");
    scene.send(lost, &[Ask::Register(broker.clone())]);
    scene.settle();
    scene.send(busy, &[Ask::Wipe("b".to_owned())]);
    scene.server.end(lost);
    // The queue is full: whoever asks is told so, the end of the connection waits before them.
    scene.send(busy, &[Ask::Unregister(broker.who)]);
    assert_eq!(scene.answers(busy), [Answer::failure(2, BUSY)]);
    assert_eq!(scene.server.waiting(), 2);
    scene.settle();
    scene.server.sweep();
    scene.settle();
    assert_eq!(scene.members("b"), "");
    assert_eq!(scene.server.waiting(), 0);
}

#[test]
fn r09_no_number_of_ends_at_once_is_too_many() {
    let mut scene = Scene::with(Setup {
        mailbox: 64,
        cores: 3,
        ..Setup::default()
    });
    for number in 0..600 {
        let conn = scene.connect(number % 3);
        let name = format!("b{number}");
        let empty = Register {
            topics: Vec::new(),
            ..master(&name, &name)
        };
        scene.send(conn, &[Ask::Register(empty)]);
        scene.settle();
    }
    assert_eq!(scene.server.snapshot().counts(), (0, 600, 600));
    for conn in scene.server.connections() {
        scene.server.end(conn);
    }
    assert_eq!(scene.server.waiting(), 600);
    while scene.server.waiting() > 0 {
        scene.settle();
        scene.server.sweep();
    }
    scene.settle();
    assert_eq!(scene.server.snapshot().counts(), (0, 0, 0));
}

/// As in Java the loser is answered with success and gets nothing; here that is logged, and a
/// holder that has expired does not stand in the way.
#[test]
fn r10_the_loser_of_a_conflict_is_told_nothing_and_the_log_all() {
    let mut scene = Scene::new();
    let (holder, rival) = (scene.connect(0), scene.connect(1));
    let new = Register {
        version: (3, 1),
        timeout_ms: Some(10_000),
        ..master("b", "a:1")
    };
    let old = Register {
        version: (2, 9),
        ..master("b", "a:2")
    };
    scene.send(holder, &[Ask::Register(new)]);
    scene.settle();
    scene.server.events.clear();
    scene.send(rival, &[Ask::Register(old.clone())]);
    scene.settle();
    assert_eq!(scene.answers(rival), [Answer::success().ext(&[])]);
    assert_eq!(scene.members("b"), "0:\"a:1\"");
    let [
        Event::StateVersionConflict {
            broker,
            holder,
            state_versions,
        },
    ] = &scene.server.events[..]
    else {
        panic!("{:?}", scene.server.events);
    };
    assert_eq!(
        (&*broker.broker_name, &*broker.addr, &**holder),
        ("b", "a:2", "a:1")
    );
    assert_eq!(*state_versions, (3, 2));

    // A slave that loses is no slave any more.
    let mut slave = Register {
        version: (0, 1),
        ..master("b", "a:3")
    };
    slave.who.id = 1;
    scene.send(rival, &[Ask::Register(slave.clone())]);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:1\",1:\"a:3\"");
    slave.who.id = 0;
    scene.send(rival, &[Ask::Register(slave)]);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:1\"");

    // Its heartbeats keep nothing alive, and its repetition loses again.
    scene.send(
        rival,
        &[Ask::Heartbeat(old.who.clone()), Ask::Register(old.clone())],
    );
    scene.settle();
    assert_eq!(scene.server.snapshot().counts(), (2, 1, 1));

    // The holder's time is up, though no tick has said so.
    scene.server.now_ms = 10_001;
    scene.send(rival, &[Ask::Register(old)]);
    scene.settle();
    assert_eq!(scene.members("b"), "0:\"a:2\"");
    assert_eq!(scene.server.snapshot().counts(), (2, 1, 1));
}

#[test]
fn r11_a_notice_leaves_after_the_publish() {
    let mut scene = Scene::new();
    scene.send_requests_of_318("notifyMinBrokerIdChanged=true");
    let (two, one) = (scene.connect(0), scene.connect(0));
    let member = |id, addr: &str| {
        let mut r = master("b", addr);
        r.who.id = id;
        r
    };
    scene.send(two, &[Ask::Register(member(2, "a:2"))]);
    scene.settle();
    scene.send(one, &[Ask::Register(member(1, "a:1"))]);
    scene.server.apply(1);
    assert_eq!(scene.server.notices, []);
    assert_eq!(scene.members("b"), "2:\"a:2\"", "applied, and not visible");
    scene.server.publish();
    let [notice] = &scene.server.notices[..] else {
        panic!("{:?}", scene.server.notices);
    };
    assert_eq!(
        notice.targets.iter().map(|a| &**a).collect::<Vec<_>>(),
        ["a:2"]
    );
    assert_eq!((notice.min_broker_id, &*notice.min_broker_addr), (1, "a:1"));
    assert_eq!(scene.members("b"), "1:\"a:1\",2:\"a:2\"");
}

#[test]
fn r12_pipelined_changes_are_applied_in_their_order() {
    let mut scene = Scene::new();
    let conn = scene.connect(0);
    let version = |counter, read| {
        let mut r = master("b", "a:1");
        r.version.1 = counter;
        r.topics.iter_mut().for_each(|(_, queue)| queue.read = read);
        Ask::Register(r)
    };
    let who = master("b", "a:1").who;
    scene.send(
        conn,
        &[
            version(1, 10),
            version(2, 20),
            Ask::Wipe("b".to_owned()),
            Ask::Unregister(who),
            Ask::Wipe("b".to_owned()),
            version(3, 30),
            version(2, 40),
            Ask::Add("b".to_owned()),
        ],
    );
    // Whatever the batches are.
    for most in [1, 3, 2, 1, 1] {
        scene.server.apply(most);
    }
    scene.settle();
    let counts: Vec<_> = scene
        .answers(conn)
        .into_iter()
        .filter_map(|answer| answer.ext.filter(|ext| !ext.is_empty()))
        .flatten()
        .map(|(key, count)| format!("{key} {count}"))
        .collect();
    assert_eq!(
        counts,
        ["wipeTopicCount 2", "wipeTopicCount 0", "addTopicCount 2"]
    );
    let body = scene.route("b.t0").body.unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("\"perm\":6,\"readQueueNums\":40,"), "{body}");
}

#[test]
fn r13_a_name_in_two_clusters_loses_each_of_its_members() {
    for by_expiry in [false, true] {
        let mut scene = Scene::new();
        let (first, second) = (scene.connect(0), scene.connect(1));
        let mut other = master("b", "a:2");
        (other.who.cluster, other.who.id) = ("D".to_owned(), 1);
        other.timeout_ms = Some(1000);
        scene.send(first, &[Ask::Register(master("b", "a:1"))]);
        scene.settle();
        scene.send(second, &[Ask::Register(other)]);
        scene.settle();
        assert_eq!(scene.members("b"), "0:\"a:1\",1:\"a:2\"");
        let two = |e: &Event| matches!(e, Event::NameInTwoClusters { .. });
        assert_eq!(scene.server.events.iter().filter(|e| two(e)).count(), 1);
        scene.server.events.clear();
        if by_expiry {
            scene.server.now_ms = 1001;
            scene.server.tick(0);
        } else {
            scene.server.end(second);
        }
        scene.settle();
        assert_eq!(scene.members("b"), "0:\"a:1\"");
        let [Event::BrokerLeft(broker, why)] = &scene.server.events[..] else {
            panic!("{:?}", scene.server.events);
        };
        let silent_ms = 1001;
        let expected = if by_expiry {
            Leave::Expired { silent_ms }
        } else {
            Leave::ConnectionClosed
        };
        assert_eq!(
            (&*broker.cluster, &*broker.addr, *why),
            ("D", "a:2", expected)
        );
    }
}

#[test]
fn r14_what_is_refused_leaves_nothing_behind() {
    let mut scene = Scene::new();
    let conn = scene.connect(0);
    scene.send(conn, &[Ask::Register(master("b", "a:1"))]);
    scene.settle();
    scene.answers(conn);
    let before = Arc::clone(scene.server.snapshot());
    let tables = scene.ask(&Ask::ClusterInfo);

    let mut single = master("new", "a:2");
    single.topics.truncate(1);
    let whole = Request::new(103)
        .with("brokerName", "new")
        .with("brokerAddr", "a:2")
        .with("clusterName", "N")
        .with("brokerId", "0")
        .with("haServerAddr", "a:3");
    let mut requests: Vec<_> = ["brokerName", "brokerAddr", "clusterName", "brokerId"]
        .map(|key| {
            let mut request = whole.clone();
            request.ext.retain(|(k, _)| k != key);
            request
        })
        .into();
    for body in [
        "{\"topicConfigSerializeWrapper\":null}",
        "{\"topicConfigSerializeWrapper\":{",
    ] {
        requests.push(Request {
            body: Body::Raw(body.into()),
            ..whole.clone()
        });
    }
    requests.push(whole.with("bodyCrc32", "5"));
    let number = requests.len();
    scene.send_requests(conn, &requests);
    scene.settle();
    scene.send(conn, &[Ask::Register(single)]);
    scene.settle();
    let answers = scene.answers(conn);
    assert_eq!(answers.len(), number + 1);
    for answer in &answers {
        assert_eq!(answer.code, 1, "{answer}");
    }
    assert_eq!(
        answers[number],
        Answer::failure(1, "register broker failed").ext(&[])
    );
    assert!(
        Arc::ptr_eq(&before, scene.server.snapshot()),
        "nothing was published"
    );
    assert_eq!(scene.ask(&Ask::ClusterInfo), tables);
    assert_eq!(scene.server.snapshot().counts(), (2, 1, 1));
}

#[test]
fn r15_a_renamed_broker_leaves_no_ghost_group() {
    for by_expiry in [false, true] {
        let mut scene = Scene::new();
        let conn = scene.connect(0);
        let broker = Register {
            timeout_ms: Some(1000),
            ..master("old", "a:1")
        };
        let renamed = Register {
            timeout_ms: Some(1000),
            ..master("new", "a:1")
        };
        scene.send(conn, &[Ask::Register(broker)]);
        scene.settle();
        scene.send(conn, &[Ask::Register(renamed)]);
        scene.settle();
        assert_eq!(
            (scene.members("old"), scene.members("new")),
            (String::new(), "0:\"a:1\"".into())
        );
        assert_eq!(scene.route("old.t0").code, 17);
        if by_expiry {
            scene.server.now_ms = 1001;
            scene.server.tick(0);
        } else {
            scene.server.end(conn);
        }
        scene.settle();
        assert_eq!(scene.server.snapshot().counts(), (0, 0, 0));
        let empty = Answer::success().body("{\"brokerAddrTable\":{},\"clusterAddrTable\":{}}");
        assert_eq!(scene.ask(&Ask::ClusterInfo), empty);
    }
}
