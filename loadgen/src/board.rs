//! What the server must, may and must not show at this moment: the truth that answers are
//! checked against.
//!
//! Each broker has four instants and each changeable topic three numbers, written by the core
//! that owns the broker and read by all. A reader judges an answer by the interval between the
//! sending of its request and its arrival: whatever was certain during all of it must hold in the
//! answer, whatever was under way in it may or may not.
//!
//! Invariant: an instant is stored before the bytes that it stands for are sent, and an
//! acknowledgement after they have arrived; so an answer can never be ahead of the board.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::topology::{HOT_TOPICS, Topology};

/// Nanoseconds on the clock of the run; 0 stands for never, so that clock starts at 1.
pub type Nanos = u64;

/// Later than everything.
const NEVER: Nanos = Nanos::MAX;

/// The truth about all brokers.
#[derive(Debug)]
pub struct Board {
    members: Vec<Member>,
    groups: Vec<[HotTopic; HOT_TOPICS]>,
    /// Counts the comings and goings of all members.
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct Member {
    /// When its current life began: its first registration was about to be sent.
    up_sent: AtomicU64,
    /// When that was answered; 0 while it is not, and from the beginning of the end.
    up_acked: AtomicU64,
    /// From here on it may be gone: the instant of leaving, or the deadline of a silent one.
    down_from: AtomicU64,
    /// From here on it must be gone.
    down_by: AtomicU64,
    /// Counts its changes and those of its group's topics.
    epoch: AtomicU32,
}

#[derive(Debug, Default)]
struct HotTopic {
    /// Version that was sent last.
    sent: AtomicU32,
    /// Version that was acknowledged last.
    acked: AtomicU32,
    /// When.
    acked_at: AtomicU64,
}

/// Whether a broker is in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was there all the time.
    Must,
    /// Its coming or going fell into the time of the request, or into the allowed window.
    May,
    /// It was here once and was gone all the time: to see it is to see a ghost.
    Gone,
    /// It has never been here.
    Never,
}

/// How old what is shown of a topic may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest that may be shown.
    pub oldest: u32,
    /// The newest that may be shown.
    pub newest: u32,
}

/// A summary of some members: equal summaries of certain states mean equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Moves with every change of any of them, and never comes back.
    pub epoch: u64,
    /// From here on all of it is certain; [`Nanos::MAX`] while something is under way.
    pub settled_at: Nanos,
}

impl Board {
    /// Nobody is up.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let members = || Member::default();
        Self {
            members: (0..topology.brokers).map(|_| members()).collect(),
            groups: (0..topology.groups).map(|_| Default::default()).collect(),
            epoch: AtomicU64::new(0),
        }
    }

    /// Its first registration is about to be sent.
    pub fn coming(&self, broker: u32, now: Nanos) {
        let member = self.member(broker);
        member.up_acked.store(0, SeqCst);
        member.up_sent.store(now, SeqCst);
        self.bump(member);
    }

    /// That has been answered with success.
    pub fn came(&self, broker: u32, now: Nanos) {
        let member = self.member(broker);
        member.up_acked.store(now, SeqCst);
        self.bump(member);
    }

    /// Its 104 is about to be sent, or its connection about to be closed.
    pub fn leaving(&self, broker: u32, now: Nanos) {
        let member = self.member(broker);
        member.up_acked.store(0, SeqCst);
        member.down_by.store(NEVER, SeqCst);
        member.down_from.store(now, SeqCst);
        self.bump(member);
    }

    /// It must be gone at `by`.
    pub fn left(&self, broker: u32, by: Nanos) {
        let member = self.member(broker);
        member.down_by.store(by, SeqCst);
        self.bump(member);
    }

    /// It has said its last word and expires: not before `deadline`, and no later than `by`.
    pub fn silent(&self, broker: u32, deadline: Nanos, by: Nanos) {
        let member = self.member(broker);
        member.down_by.store(by, SeqCst);
        member.down_from.store(deadline, SeqCst);
        self.bump(member);
    }

    /// A change of a topic is about to be sent by `broker`. Returns the new version.
    pub fn changing(&self, broker: u32, group: u32, slot: usize) -> u32 {
        let hot = &self.groups[group as usize][slot];
        let version = hot.sent.load(Relaxed) + 1;
        hot.sent.store(version, SeqCst);
        self.member(broker).epoch.fetch_add(1, SeqCst);
        version
    }

    /// That change has been acknowledged, or a registration that carried it.
    pub fn changed(&self, broker: u32, group: u32, slot: usize, version: u32, now: Nanos) {
        let hot = &self.groups[group as usize][slot];
        if version <= hot.acked.load(SeqCst) {
            return;
        }
        hot.acked_at.store(now, SeqCst);
        hot.acked.store(version, SeqCst);
        self.member(broker).epoch.fetch_add(1, SeqCst);
    }

    /// Versions of the changeable topics of a group, as they were sent last.
    #[must_use]
    pub fn sent_versions(&self, group: u32) -> [u32; HOT_TOPICS] {
        self.groups[group as usize]
            .each_ref()
            .map(|hot| hot.sent.load(SeqCst))
    }

    /// When `broker` began to be gone (for a silent one: its deadline), if it has not come back.
    #[must_use]
    pub fn down_from(&self, broker: u32) -> Option<Nanos> {
        let member = self.member(broker);
        let from = member.down_from.load(SeqCst);
        (from != 0 && from >= member.up_sent.load(SeqCst)).then_some(from)
    }

    /// Whether `broker` is in an answer to a request that was sent at `sent` and is here `now`.
    #[must_use]
    pub fn presence(&self, broker: u32, sent: Nanos, now: Nanos) -> Presence {
        let member = self.member(broker);
        let acked = member.up_acked.load(SeqCst);
        let up = member.up_sent.load(SeqCst);
        let from = member.down_from.load(SeqCst);
        let by = member.down_by.load(SeqCst);
        let leaving = from >= up && from != 0;
        if acked != 0 && acked <= sent && (!leaving || now < from) {
            Presence::Must
        } else if (up != 0 && !leaving) || sent <= by {
            Presence::May
        } else if up == 0 {
            Presence::Never
        } else {
            Presence::Gone
        }
    }

    /// Versions of a changeable topic that an answer may show.
    #[must_use]
    pub fn versions(&self, group: u32, slot: usize, sent: Nanos) -> Versions {
        let hot = &self.groups[group as usize][slot];
        // In this order: an acknowledgement in between makes the range wider, not narrower.
        let acked = hot.acked.load(SeqCst);
        let acked_at = hot.acked_at.load(SeqCst);
        let newest = hot.sent.load(SeqCst);
        let oldest = if acked_at <= sent {
            acked
        } else {
            acked.saturating_sub(1)
        };
        Versions { oldest, newest }
    }

    /// The state of the members of some groups.
    #[must_use]
    pub fn summary(&self, topology: &Topology, groups: &[u32]) -> Summary {
        let brokers = groups.iter().flat_map(|group| topology.members(*group));
        let mut summary = Summary {
            epoch: 0,
            settled_at: 0,
        };
        for broker in brokers {
            let member = self.member(broker);
            summary.epoch += u64::from(member.epoch.load(SeqCst));
            summary.settled_at = summary.settled_at.max(member.settled_at());
        }
        for group in groups {
            for hot in &self.groups[*group as usize] {
                summary.settled_at = summary.settled_at.max(hot.settled_at());
            }
        }
        summary
    }

    /// Moves when anybody comes or goes, not when a topic changes. A caller that has seen this
    /// epoch already need not ask for the rest.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// From when on the presence of everybody is certain.
    #[must_use]
    pub fn all_settled_at(&self) -> Nanos {
        let settled = self.members.iter().map(Member::settled_at);
        settled.max().unwrap_or(0)
    }

    /// Brokers that are certainly up at this instant.
    #[must_use]
    pub fn up(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.up_acked.load(SeqCst) != 0)
            .count()
    }

    fn member(&self, broker: u32) -> &Member {
        &self.members[broker as usize]
    }

    fn bump(&self, member: &Member) {
        member.epoch.fetch_add(1, SeqCst);
        self.epoch.fetch_add(1, SeqCst);
    }
}

impl Member {
    fn settled_at(&self) -> Nanos {
        let up = self.up_sent.load(SeqCst);
        let acked = self.up_acked.load(SeqCst);
        let from = self.down_from.load(SeqCst);
        let by = self.down_by.load(SeqCst);
        if from >= up && from != 0 {
            by
        } else if up == 0 {
            0
        } else if acked == 0 {
            NEVER
        } else {
            // A late removal of an earlier life would be a mistake of the server.
            acked
        }
    }
}

impl HotTopic {
    fn settled_at(&self) -> Nanos {
        let acked = self.acked.load(SeqCst);
        if self.sent.load(SeqCst) == acked {
            self.acked_at.load(SeqCst)
        } else {
            NEVER
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RunArgs};

    fn board() -> (Topology, Board) {
        let args = RunArgs {
            brokers: Some(4),
            topics: Some(20),
            ..RunArgs::default()
        };
        let topology = Topology::new(&Config::resolve(&args, 1));
        let board = Board::new(&topology);
        (topology, board)
    }

    #[test]
    fn a_broker_must_be_shown_from_its_acknowledgement_on() {
        let (_, board) = board();
        assert_eq!(board.presence(1, 10, 20), Presence::Never);
        board.coming(1, 100);
        assert_eq!(board.presence(1, 90, 110), Presence::May);
        board.came(1, 200);
        assert_eq!(board.presence(1, 190, 210), Presence::May);
        assert_eq!(board.presence(1, 200, 210), Presence::Must);
        assert_eq!(board.up(), 1);
    }

    #[test]
    fn a_broker_that_left_is_a_ghost_behind_its_window() {
        let (_, board) = board();
        board.coming(1, 100);
        board.came(1, 200);
        board.leaving(1, 300);
        assert_eq!(board.presence(1, 250, 310), Presence::May);
        assert_eq!(
            board.presence(1, 9000, 9010),
            Presence::May,
            "not yet answered"
        );
        board.left(1, 500);
        assert_eq!(board.presence(1, 500, 510), Presence::May);
        assert_eq!(board.presence(1, 501, 510), Presence::Gone);
        board.coming(1, 600);
        assert_eq!(board.presence(1, 590, 610), Presence::May);
        board.came(1, 700);
        assert_eq!(board.presence(1, 700, 800), Presence::Must);
    }

    #[test]
    fn a_silent_broker_must_be_shown_until_its_deadline() {
        let (_, board) = board();
        board.coming(1, 100);
        board.came(1, 200);
        board.silent(1, 1000, 2000);
        assert_eq!(board.presence(1, 900, 999), Presence::Must);
        assert_eq!(board.presence(1, 900, 1000), Presence::May);
        assert_eq!(board.presence(1, 2000, 2100), Presence::May);
        assert_eq!(board.presence(1, 2001, 2100), Presence::Gone);
    }

    #[test]
    fn versions_are_a_range_while_a_change_is_under_way() {
        let (_, board) = board();
        let range = |oldest, newest| Versions { oldest, newest };
        assert_eq!(board.versions(0, 2, 50), range(0, 0));
        assert_eq!(board.changing(0, 0, 2), 1);
        assert_eq!(board.versions(0, 2, 50), range(0, 1));
        board.changed(0, 0, 2, 1, 100);
        assert_eq!(board.versions(0, 2, 99), range(0, 1));
        assert_eq!(board.versions(0, 2, 100), range(1, 1));
        assert_eq!(board.sent_versions(0), [0, 0, 1, 0]);
    }

    #[test]
    fn a_summary_is_certain_only_when_nothing_is_under_way() {
        let (topology, board) = board();
        let summary = || board.summary(&topology, &[0]);
        let quiet = summary();
        assert_eq!(quiet.settled_at, 0);
        board.coming(0, 100);
        assert_eq!(summary().settled_at, NEVER);
        board.came(0, 200);
        assert_eq!(summary().settled_at, 200);
        assert!(summary().epoch > quiet.epoch);
        board.changing(0, 0, 1);
        assert_eq!(summary().settled_at, NEVER);
        board.changed(0, 0, 1, 1, 300);
        assert_eq!(summary().settled_at, 300);
        board.leaving(0, 400);
        board.left(0, 500);
        assert_eq!((summary().settled_at, board.all_settled_at()), (500, 500));
        assert_eq!(board.summary(&topology, &[1]).epoch, 0);
    }
}
