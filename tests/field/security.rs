//! Who may change what.

use super::world::{Hand, World, configure, one, put, register, route};
use crate::support::answer::{Answer, Remark};
use crate::support::request::Request;

#[test]
fn f67_administration_can_be_refused_to_a_peer() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    let snapshot = world.node.snapshot().clone();
    let mut stranger = Hand::new();
    stranger.session.forbid_admin();
    let refused = Answer::failure(16, "this address may not send administrative requests");
    let named = |code| Request::new(code).with("brokerName", "b-1");
    for request in [
        put("n", "k", "v"),
        Request::new(102).with("namespace", "n").with("key", "k"),
        named(205),
        named(327),
        Request::new(216).with("topic", "t1"),
        Request::new(217).with("topic", "t1"),
        configure("clientRequestThreadPoolNums=1"),
        Request::new(319),
    ] {
        let frame = request.json_frame();
        let fed = stranger.feed(&snapshot, &frame);
        assert!(
            matches!(fed.next, namesrv::session::Next::Receive),
            "{request:?}"
        );
        assert_eq!(one(&stranger.sent()), refused, "{request:?}");
    }
    stranger.feed(&snapshot, &route("t1").json_frame());
    assert_eq!(one(&stranger.sent()).code, 0);
}

#[test]
fn f67_no_setting_can_starve_the_server() {
    let mut world = World::new(&[]);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    // there is no such pool, so any number does as well
    let one_thread = configure("clientRequestThreadPoolNums=1");
    assert_eq!(world.ask(&one_thread), Answer::success());
    assert_eq!(world.queues("t1"), ["b-1 6"]);
    let before = world.text(&Request::new(319));
    assert!(
        before.contains("\nclientRequestThreadPoolNums=1\n"),
        "{before}"
    );
    for text in [
        "defaultThreadPoolQueueCapacity=0",
        "defaultThreadPoolQueueCapacity=2000000",
        "clientRequestThreadPoolNums=many",
        "enableTopicList=false\nscanNotActiveBrokerInterval=-1",
    ] {
        let answer = world.ask(&configure(text));
        let key = text.rsplit('\n').next().unwrap().split('=').next().unwrap();
        assert_eq!(answer.code, 1, "{text}");
        assert!(
            matches!(&answer.remark, Remark::Text(why) if why.contains(key)),
            "{answer}"
        );
        assert_eq!(world.text(&Request::new(319)), before);
    }
    let black = Answer::failure(16, "Can not update config in black list.");
    assert_eq!(world.ask(&configure("kvConfigPath=/tmp/x")), black);
}
