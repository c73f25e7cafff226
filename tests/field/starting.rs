//! Start, restart, stop.

use super::world::{World, register, route, set};
use crate::support::answer::{Answer, read_notification};

#[test]
fn f43_routes_wait_for_brokers_if_so_configured() {
    let mut world = World::new(&[
        ("needWaitForService", "true"),
        ("waitSecondsForService", "45"),
    ]);
    let waits = Answer::failure(1, "name server not ready");
    assert_eq!(world.ask(&route("t1")), waits);
    world.join(&register("b-1", 0, 1, &["t1", "t2"]));
    world.now = 44_999;
    assert_eq!(world.ask(&route("t1")), waits);
    world.now = 45_000;
    assert_eq!(world.queues("t1"), ["b-1 6"]);
}

#[test]
fn f44_readiness_comes_with_time_alone() {
    let mut world = World::new(&[("needWaitForService", "true")]);
    world.now = 46_000;
    assert_eq!(world.ask(&route("t1")).code, 17);
}

#[test]
fn f47_nobody_is_called_unless_notifications_are_on() {
    for (switch, calls) in [("false", 0), ("true", 1)] {
        let mut world = World::new(&[("notifyMinBrokerIdChanged", switch)]);
        let acting = |id, n| {
            let request = register("b-1", id, n, &["t1", "t2"]);
            set(request, "enableActingMaster", Some("true"))
        };
        let master = world.join(&acting(0, 1));
        world.join(&acting(1, 2));
        assert!(world.node.notifications().is_empty());
        world.node.close(master, world.now);
        let sent = world.node.notifications();
        assert_eq!(sent.len(), calls);
        for (to, frame) in sent {
            assert_eq!(to, "10.0.0.2:10911");
            let ext = [
                ("offlineBrokerAddr", "10.0.0.1:10911"),
                ("minBrokerAddr", "10.0.0.2:10911"),
                ("minBrokerId", "1"),
            ];
            assert_eq!(read_notification(&frame, &ext), Ok(0));
        }
    }
}
