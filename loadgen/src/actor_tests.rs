//! The life of a broker, step by step, with a clock of its own.

use super::*;
use crate::board::Presence;
use crate::config::{Config, RunArgs};

const SECOND: Nanos = 1_000_000_000;

struct Stage {
    plan: Plan,
    board: Board,
    broker: Broker,
    now: Nanos,
}

impl Stage {
    fn new(change: impl FnOnce(&mut RunArgs)) -> Self {
        let mut args = RunArgs {
            brokers: Some(4),
            topics: Some(20),
            ..RunArgs::default()
        };
        change(&mut args);
        let plan = Plan::new(Config::resolve(&args, 1));
        let board = Board::new(&plan.topology);
        Self {
            plan,
            board,
            broker: Broker::new(2),
            now: SECOND,
        }
    }

    fn act(&mut self, act: Act) -> Vec<Do> {
        let scene = Scene {
            plan: &self.plan,
            board: &self.board,
            now: self.now,
        };
        self.broker.act(scene, act, self.now, 0)
    }

    fn answer(&mut self, todo: Do, right: bool) -> Vec<Do> {
        let Do::Send(op, request) = todo else {
            return Vec::new();
        };
        let submitted = self.now;
        self.now += 1000;
        let scene = Scene {
            plan: &self.plan,
            board: &self.board,
            now: self.now,
        };
        self.broker
            .answered(scene, op, &request, submitted, right, Some(true))
    }

    fn come(&mut self) {
        let todo = self.act(Act::Come);
        self.answer(todo[1], true);
        assert_eq!(self.broker.life(), Life::Up);
        self.now += 1000;
    }

    fn presence(&self) -> Presence {
        self.board.presence(2, self.now, self.now)
    }
}

#[test]
fn a_coming_broker_is_probed_once_its_registration_is_acknowledged() {
    let mut stage = Stage::new(|_| ());
    let todo = stage.act(Act::Come);
    assert!(
        matches!(todo[..], [Do::Open, Do::Send(Op::Register, _)]),
        "{todo:?}"
    );
    assert_eq!(stage.presence(), Presence::May);
    let then = stage.answer(todo[1], true);
    let topic = stage.plan.topology.member_topic(1);
    assert_eq!(then, [Do::Probe(topic, Clock::Visible, SECOND)]);
    assert_eq!(stage.presence(), Presence::Must);
}

#[test]
fn a_refused_first_registration_is_repeated() {
    let mut stage = Stage::new(|_| ());
    let todo = stage.act(Act::Come);
    assert_eq!(
        stage.answer(todo[1], false),
        [Do::Again(Act::Register, 10 * SECOND)]
    );
    let again = stage.act(Act::Register);
    assert!(
        matches!(again[..], [Do::Send(Op::Register, _)]),
        "{again:?}"
    );
    assert_eq!(stage.presence(), Presence::May);
}

#[test]
fn all_pieces_of_a_split_registration_must_be_acknowledged() {
    let mut stage = Stage::new(|args| args.split = Some(8));
    let todo = stage.act(Act::Come);
    assert_eq!(todo.len(), 4);
    assert_eq!(stage.answer(todo[1], true), []);
    assert_eq!(stage.answer(todo[2], true), []);
    assert_eq!(stage.presence(), Presence::May);
    assert_eq!(stage.answer(todo[3], true).len(), 1);
    assert_eq!(stage.presence(), Presence::Must);
}

#[test]
fn a_version_query_registers_only_when_something_changed() {
    let mut stage = Stage::new(|args| args.version_query = true);
    stage.come();
    let todo = stage.act(Act::Register);
    assert!(matches!(todo[..], [Do::Send(Op::Version, _)]), "{todo:?}");
    let then = stage.answer(todo[0], true);
    assert!(matches!(then[..], [Do::Send(Op::Register, _)]), "{then:?}");
}

#[test]
fn each_way_of_going_has_its_own_deadline() {
    let mut close = Stage::new(|args| args.lose_how = Some(LoseHow::Close));
    close.come();
    assert_eq!(close.act(Act::Lose), [Do::Close]);
    close.now += SECOND;
    assert_eq!(close.presence(), Presence::May);
    close.now += 1;
    assert_eq!(close.presence(), Presence::Gone);

    let mut stop = Stage::new(|args| args.lose_how = Some(LoseHow::Unregister));
    stop.come();
    let todo = stop.act(Act::Lose);
    assert!(
        matches!(todo[..], [Do::Send(Op::Unregister, _)]),
        "{todo:?}"
    );
    stop.now += 100 * SECOND;
    assert_eq!(stop.presence(), Presence::May, "not yet answered");
    assert_eq!(stop.answer(todo[0], true), [Do::Close]);
    stop.now += SECOND + 1;
    assert_eq!(stop.presence(), Presence::Gone);

    let mut silence = Stage::new(|args| {
        args.lose_how = Some(LoseHow::Silence);
        args.heartbeat_timeout = Some(std::time::Duration::from_secs(10));
    });
    silence.come();
    silence.act(Act::Heartbeat);
    silence.now += SECOND;
    assert_eq!(silence.act(Act::Lose), []);
    assert_eq!(silence.act(Act::Heartbeat), [], "it says nothing more");
    silence.now += 9 * SECOND - 1;
    assert_eq!(silence.presence(), Presence::Must);
    silence.now += 1;
    assert_eq!(silence.presence(), Presence::May);
    silence.now += 7 * SECOND + 1;
    assert_eq!(silence.presence(), Presence::Gone);
}

#[test]
fn a_change_is_acknowledged_and_then_probed() {
    let mut stage = Stage::new(|_| ());
    stage.come();
    let todo = stage.act(Act::Change);
    assert!(matches!(todo[..], [Do::Send(Op::Change, _)]), "{todo:?}");
    assert_eq!(stage.act(Act::Change), [Do::Skip], "one at a time");
    let intended = stage.now;
    let topic = stage.plan.topology.hot_topics(1).next().unwrap_or_default();
    assert_eq!(
        stage.answer(todo[0], true),
        [Do::Probe(topic, Clock::Fresh, intended)]
    );
    let versions = stage.board.versions(1, 0, stage.now);
    assert_eq!((versions.oldest, versions.newest), (1, 1));
}

#[test]
fn a_full_registration_carries_a_change_that_was_refused() {
    let mut stage = Stage::new(|_| ());
    stage.come();
    let todo = stage.act(Act::Change);
    assert_eq!(stage.answer(todo[0], false), []);
    assert_eq!(stage.board.versions(1, 0, stage.now).oldest, 0);
    let todo = stage.act(Act::Register);
    assert_eq!(stage.answer(todo[0], true), []);
    assert_eq!(stage.board.versions(1, 0, stage.now).oldest, 1);
}

#[test]
fn a_connection_that_the_server_closes_is_a_fault_unless_it_was_silent() {
    let mut stage = Stage::new(|_| ());
    stage.come();
    let scene = Scene {
        plan: &stage.plan,
        board: &stage.board,
        now: stage.now,
    };
    assert_eq!(
        stage.broker.disconnected(scene),
        [Do::Complain, Do::Again(Act::Come, SECOND)]
    );
    let mut silent = Stage::new(|args| args.lose_how = Some(LoseHow::Silence));
    silent.come();
    silent.act(Act::Lose);
    let scene = Scene {
        plan: &silent.plan,
        board: &silent.board,
        now: silent.now,
    };
    assert_eq!(silent.broker.disconnected(scene), []);
}
