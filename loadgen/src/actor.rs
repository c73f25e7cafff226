//! What a broker does, as a state machine without sockets and clocks.
//!
//! Events of the plan and answers go in; what is to be sent comes out, and the board learns what
//! must be true from now on. Source of the behaviour: `BrokerController` of 5.3.3.

use crate::board::{Board, Nanos};
use crate::config::LoseHow;
use crate::encode::{Part, Registration, Request, chunks};
use crate::op::Op;
use crate::plan::Plan;
use crate::record::Clock;
use crate::schedule::Act;
use crate::topology::HOT_TOPICS;
use crate::units::nanos;

/// How long after a lost connection the next attempt is made.
pub const RECONNECT_AFTER: Nanos = 1_000_000_000;
/// How long after a refused first registration the next one follows: the delay after which Java's
/// brokers begin to register periodically, or the period if that is less.
const REGISTER_AGAIN_AFTER: Nanos = 10_000_000_000;

/// What a broker wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Connect.
    Open,
    /// Close the connection and forget what is outstanding on it.
    Close,
    /// Send a request.
    Send(Op, Request),
    /// Read a topic that must show what has just been acknowledged.
    Probe(u32, Clock, Nanos),
    /// Come back to this after so long.
    Again(Act, Nanos),
    /// The plan's request makes no sense now.
    Skip,
    /// The server closed a connection that it should have kept.
    Complain,
}

/// What it needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The truth.
    pub board: &'a Board,
    /// The time.
    pub now: Nanos,
}

/// Where a broker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not there, or no longer.
    Absent,
    /// Its first registration is under way.
    Coming,
    /// Registered.
    Up,
    /// Its 104 is under way.
    Leaving,
    /// It says nothing more.
    Silent,
}

/// One broker.
#[derive(Clone, Debug)]
pub struct Broker {
    index: u32,
    life: Life,
    /// The intended instant of its coming.
    came_at: Nanos,
    /// When the last request that keeps it alive was sent.
    refreshed_at: Nanos,
    /// Pieces of a full registration that are not answered.
    pieces: u32,
    /// One of them was refused.
    refused: bool,
    /// A change is under way, and when it was intended.
    change: Option<Nanos>,
}

impl Broker {
    /// One that is not there.
    #[must_use]
    pub fn new(index: u32) -> Self {
        Self {
            index,
            life: Life::Absent,
            came_at: 0,
            refreshed_at: 0,
            pieces: 0,
            refused: false,
            change: None,
        }
    }

    /// Where it is in its life.
    #[must_use]
    pub fn life(&self) -> Life {
        self.life
    }

    /// An event of the plan, with its intended instant and number.
    pub fn act(&mut self, scene: Scene<'_>, act: Act, intended: Nanos, count: u32) -> Vec<Do> {
        match (act, self.life) {
            (Act::Come, Life::Absent | Life::Silent) => self.come(scene, intended),
            (Act::Register, Life::Up) if self.pieces == 0 => {
                if scene.plan.config.version_query {
                    let versions = self.versions(scene);
                    return vec![Do::Send(
                        Op::Version,
                        Request::Version(self.index, versions),
                    )];
                }
                self.register(scene)
            }
            (Act::Register, Life::Coming) if self.pieces == 0 => self.register(scene),
            (Act::Heartbeat, Life::Up) => {
                self.refreshed_at = scene.now;
                let versions = self.versions(scene);
                vec![Do::Send(
                    Op::Heartbeat,
                    Request::Version(self.index, versions),
                )]
            }
            (Act::ClusterPoll, Life::Up | Life::Coming) => {
                vec![Do::Send(Op::Cluster, Request::Cluster)]
            }
            (Act::Change, Life::Up) if self.change.is_none() && self.pieces == 0 => {
                self.begin_change(scene, intended, count)
            }
            (Act::Lose, Life::Up | Life::Coming) => self.lose(scene),
            // A broker that is away does not beat, and nobody misses it.
            (_, Life::Absent | Life::Silent | Life::Leaving) => Vec::new(),
            _ => vec![Do::Skip],
        }
    }

    /// An answer, sent for at `submitted`; `right` when it was the right one.
    pub fn answered(
        &mut self,
        scene: Scene<'_>,
        op: Op,
        request: &Request,
        submitted: Nanos,
        right: bool,
        changed: Option<bool>,
    ) -> Vec<Do> {
        match (op, request) {
            (Op::Register, Request::Register(what)) => {
                self.registered(scene, &what.versions, submitted, right)
            }
            (Op::Change, Request::Register(what)) => self.end_change(scene, what, submitted, right),
            (Op::Unregister, _) if self.life == Life::Leaving => {
                let window = nanos(scene.plan.config.removal_window);
                scene.board.left(self.index, scene.now + window);
                self.life = Life::Absent;
                vec![Do::Close]
            }
            (Op::Version, _) => {
                self.refreshed_at = self.refreshed_at.max(submitted);
                if changed == Some(true) && self.life == Life::Up && self.pieces == 0 {
                    self.register(scene)
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }

    /// The server closed the connection, or it could not be made.
    pub fn disconnected(&mut self, scene: Scene<'_>) -> Vec<Do> {
        let window = nanos(scene.plan.config.removal_window);
        let life = self.life;
        self.life = Life::Absent;
        self.pieces = 0;
        self.change = None;
        match life {
            // Expired, as it should; the board knows since it fell silent.
            Life::Silent | Life::Absent => Vec::new(),
            Life::Leaving => {
                scene.board.left(self.index, scene.now + window);
                Vec::new()
            }
            Life::Up | Life::Coming => {
                scene.board.leaving(self.index, scene.now);
                scene.board.left(self.index, scene.now + window);
                vec![Do::Complain, Do::Again(Act::Come, RECONNECT_AFTER)]
            }
        }
    }

    fn come(&mut self, scene: Scene<'_>, intended: Nanos) -> Vec<Do> {
        let mut todo = Vec::new();
        if self.life == Life::Silent {
            todo.push(Do::Close);
        }
        self.life = Life::Coming;
        self.came_at = intended;
        self.pieces = 0;
        self.change = None;
        scene.board.coming(self.index, scene.now);
        todo.push(Do::Open);
        todo.extend(self.register(scene));
        todo
    }

    fn register(&mut self, scene: Scene<'_>) -> Vec<Do> {
        let plan = scene.plan;
        let group = plan.topology.group(self.index);
        let versions = self.versions(scene);
        self.refused = false;
        self.pieces = chunks(&plan.topology, &plan.config, group);
        let piece = |chunk| {
            let what = Registration {
                broker: self.index,
                versions,
                part: Part::Chunk(chunk),
            };
            Do::Send(Op::Register, Request::Register(what))
        };
        (0..self.pieces).map(piece).collect()
    }

    fn registered(
        &mut self,
        scene: Scene<'_>,
        versions: &[u32; HOT_TOPICS],
        submitted: Nanos,
        right: bool,
    ) -> Vec<Do> {
        self.pieces = self.pieces.saturating_sub(1);
        self.refused |= !right;
        if self.pieces > 0 {
            return Vec::new();
        }
        if self.refused {
            return if self.life == Life::Coming {
                let period = nanos(scene.plan.config.register);
                vec![Do::Again(Act::Register, REGISTER_AGAIN_AFTER.min(period))]
            } else {
                Vec::new()
            };
        }
        self.refreshed_at = self.refreshed_at.max(submitted);
        let group = scene.plan.topology.group(self.index);
        if scene.plan.topology.broker_id(self.index) == 0 {
            for (slot, version) in versions.iter().enumerate() {
                scene
                    .board
                    .changed(self.index, group, slot, *version, scene.now);
            }
        }
        if self.life != Life::Coming {
            return Vec::new();
        }
        self.life = Life::Up;
        scene.board.came(self.index, scene.now);
        let topic = scene.plan.topology.member_topic(group);
        vec![Do::Probe(topic, Clock::Visible, self.came_at)]
    }

    fn begin_change(&mut self, scene: Scene<'_>, intended: Nanos, count: u32) -> Vec<Do> {
        let group = scene.plan.topology.group(self.index);
        let hot = scene.plan.topology.hot_topics(group).count();
        if hot == 0 {
            return vec![Do::Skip];
        }
        let slot = count as usize % hot;
        scene.board.changing(self.index, group, slot);
        self.change = Some(intended);
        let what = Registration {
            broker: self.index,
            versions: self.versions(scene),
            part: Part::One(slot),
        };
        vec![Do::Send(Op::Change, Request::Register(what))]
    }

    fn end_change(
        &mut self,
        scene: Scene<'_>,
        what: &Registration,
        submitted: Nanos,
        right: bool,
    ) -> Vec<Do> {
        let (Some(intended), Part::One(slot)) = (self.change.take(), what.part) else {
            return Vec::new();
        };
        if !right {
            // The next full registration carries it.
            return Vec::new();
        }
        self.refreshed_at = self.refreshed_at.max(submitted);
        let group = scene.plan.topology.group(self.index);
        let version = what.versions[slot];
        scene
            .board
            .changed(self.index, group, slot, version, scene.now);
        let topic = scene.plan.topology.hot_topics(group).nth(slot);
        topic.map_or_else(Vec::new, |topic| {
            vec![Do::Probe(topic, Clock::Fresh, intended)]
        })
    }

    fn lose(&mut self, scene: Scene<'_>) -> Vec<Do> {
        let config = &scene.plan.config;
        self.pieces = 0;
        self.change = None;
        match config.lose_how {
            LoseHow::Silence if self.life == Life::Up => {
                self.life = Life::Silent;
                let timeout = scene.plan.broker_timeout();
                let deadline = self.refreshed_at + timeout;
                let by = scene.now + timeout + nanos(config.expiry_window);
                scene.board.silent(self.index, deadline, by);
                Vec::new()
            }
            LoseHow::Unregister if self.life == Life::Up => {
                self.life = Life::Leaving;
                scene.board.leaving(self.index, scene.now);
                vec![Do::Send(Op::Unregister, Request::Unregister(self.index))]
            }
            _ => {
                self.life = Life::Absent;
                scene.board.leaving(self.index, scene.now);
                let window = nanos(config.removal_window);
                scene.board.left(self.index, scene.now + window);
                vec![Do::Close]
            }
        }
    }

    fn versions(&self, scene: Scene<'_>) -> [u32; HOT_TOPICS] {
        scene
            .board
            .sent_versions(scene.plan.topology.group(self.index))
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
