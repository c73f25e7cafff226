//! The auditor: sees what went in, what came out and in which order the writer took the commands,
//! and judges every single answer.
//!
//! An answer is right if it is right for some moment between the last one that anybody had proof
//! of when the request was received and the one at which the answer was sent. So an answer older
//! than an acknowledged change, or than another answer, is found, on whatever core, and so is one
//! that shows half a change. What is right at a moment says [`Model`], which shares no code with
//! the tables.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;

use super::model::{Model, Place};
use super::peer::{Ask, Identity, NAMESPACE, Register};
use super::setup::Fact;
use crate::support::answer::{Answer, read_answers};

const BUSY: &str = "[OVERLOAD]system busy, start flow control for a while";

#[derive(Default)]
pub(crate) struct Auditor {
    pub(crate) model: Model,
    pub(crate) counts: Counts,
    requests: HashMap<i32, Asked>,
    lines: HashMap<u64, Line>,
    /// The last moment of which somebody has proof.
    proven: u64,
    /// Connections that the last tick has left with nothing, and whose end must be ordered.
    to_close: BTreeSet<u64>,
    /// Brokers that nothing may remove, from their first acknowledged registration on.
    steady: BTreeSet<Place>,
    acknowledged: BTreeSet<Place>,
    /// When a broker was last heard of at all, on whatever connection, and its longest time-out.
    heard: HashMap<Place, (u64, u64)>,
    /// How much longer than its time-out a silent broker may be seen: a tick, and what is
    /// forgiven.
    patience_ms: u64,
}

/// What the simulation has done, to see that it does anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) answers: u64,
    pub(crate) applied: u64,
    /// Registrations that never reached the writer.
    pub(crate) unchanged: u64,
    pub(crate) refused: u64,
    pub(crate) overloaded: u64,
    pub(crate) conflicts: u64,
    pub(crate) expired: u64,
    /// Reads whose answer had more than one moment to choose from.
    pub(crate) raced: u64,
}

#[derive(Debug)]
struct Asked {
    conn: u64,
    ask: Rc<Ask>,
    oneway: bool,
    /// Place among the requests of its connection.
    number: u64,
    /// The proven moment when it was received.
    floor: Option<u64>,
    applied: Option<(u64, Answer)>,
    answered: bool,
}

#[derive(Default)]
struct Line {
    sent_bytes: u64,
    requests: u64,
    /// Requests on their way: where each ends in the stream, and its opaque.
    coming: VecDeque<(u64, i32)>,
    loaded: u64,
    floor: u64,
    applied: u64,
    gone: bool,
    ended: bool,
    /// The registration of each place that was accepted last.
    accepted: HashMap<Place, Register>,
    /// Two-way requests that were handled and not answered.
    open: BTreeSet<i32>,
    /// Two-way commands, by number, that were handled and not yet applied.
    pending: BTreeSet<u64>,
}

impl Auditor {
    pub(crate) fn new(patience_ms: u64) -> Self {
        Self {
            patience_ms,
            ..Self::default()
        }
    }

    /// Nothing may ever remove this broker.
    pub(crate) fn keep(&mut self, who: &Identity) {
        self.steady.insert(who.place());
    }

    /// A peer sends this frame.
    pub(crate) fn sent(&mut self, conn: u64, opaque: i32, ask: &Ask, oneway: bool, bytes: usize) {
        let line = self.lines.entry(conn).or_default();
        line.sent_bytes += bytes as u64;
        line.requests += 1;
        line.coming.push_back((line.sent_bytes, opaque));
        let asked = Asked {
            conn,
            ask: Rc::new(ask.clone()),
            oneway,
            number: line.requests,
            floor: None,
            applied: None,
            answered: false,
        };
        self.requests.insert(opaque, asked);
    }

    /// Takes note of a fact; an error is a broken guarantee.
    pub(crate) fn fact(&mut self, fact: &Fact, now_ms: u64) -> Result<(), String> {
        match fact {
            Fact::Loaded { conn, seq } => {
                let line = self.lines.entry(*conn).or_default();
                (line.loaded, line.floor) = (*seq, self.proven);
                Ok(())
            }
            Fact::Handled { conn, bytes } => self.handled(*conn, *bytes, now_ms),
            Fact::Wrote { conn, bytes } => {
                for (opaque, answer) in read_answers(bytes)? {
                    self.answer(*conn, opaque, &answer, now_ms)
                        .map_err(|why| self.describe(opaque, &answer, &why))?;
                }
                Ok(())
            }
            Fact::Applied { origin, gone, seq } => {
                self.applied(origin.conn, origin.opaque, *gone, now_ms)?;
                same("number of changes", *seq, self.model.seq)
            }
            Fact::Ticked { late_ms, seq } => {
                let before = self.model.places().count();
                self.to_close = self.model.tick(now_ms, *late_ms);
                self.counts.expired += (before - self.model.places().count()) as u64;
                same("number of changes", *seq, self.model.seq)?;
                self.check_steady()
            }
            Fact::OrderedClose { conn } if self.to_close.remove(conn) => Ok(()),
            Fact::OrderedClose { conn } => Err(format!("connection {conn} is to be closed")),
            Fact::Ended { conn, ordered } => {
                if *ordered && self.model.has_live(*conn) {
                    return Err(format!(
                        "connection {conn} was closed under a living broker"
                    ));
                }
                self.lines.entry(*conn).or_default().ended = true;
                Ok(())
            }
        }
    }

    /// Everything has settled: nothing may be left unanswered on a connection that is open.
    pub(crate) fn settled(&self) -> Result<(), String> {
        if let Some(conn) = self.to_close.first() {
            return Err(format!(
                "connection {conn} was not closed at its last broker's expiry"
            ));
        }
        for (conn, line) in self.lines.iter().filter(|(_, line)| !line.ended) {
            if let Some(opaque) = line.open.first() {
                let asked = &self.requests[opaque];
                return Err(format!("connection {conn}: no answer to {asked:?}"));
            }
        }
        self.check_steady()
    }

    /// Brokers that are alive, by the auditor's reckoning.
    pub(crate) fn alive(&self) -> usize {
        self.model.places().count()
    }

    fn check_steady(&self) -> Result<(), String> {
        let alive: BTreeSet<_> = self.model.places().collect();
        match self
            .acknowledged
            .iter()
            .find(|place| !alive.contains(place))
        {
            Some(place) => Err(format!("{place:?} kept within its time-out and was lost")),
            None => Ok(()),
        }
    }

    fn handled(&mut self, conn: u64, bytes: u64, now_ms: u64) -> Result<(), String> {
        let line = self.lines.entry(conn).or_default();
        while let Some((end, opaque)) = line.coming.front().copied()
            && end <= bytes
        {
            line.coming.pop_front();
            let asked = self.requests.get_mut(&opaque).ok_or("an unknown request")?;
            asked.floor = Some(line.floor);
            if !asked.oneway {
                line.open.insert(opaque);
                if asked.ask.is_command() {
                    line.pending.insert(asked.number);
                }
            }
            match &*asked.ask {
                Ask::Heartbeat(who) | Ask::Version(who, _) => {
                    self.model.touch(&who.place(), line.loaded, now_ms);
                    self.heard.entry(who.place()).or_default().0 = now_ms;
                }
                Ask::Register(r) => note_heard(&mut self.heard, r, now_ms),
                _ => {}
            }
        }
        Ok(())
    }

    fn applied(&mut self, conn: u64, opaque: i32, gone: bool, now_ms: u64) -> Result<(), String> {
        self.counts.applied += 1;
        let line = self.lines.entry(conn).or_default();
        if line.gone {
            return Err(format!("connection {conn} was heard of after its end"));
        }
        if gone {
            line.gone = true;
            self.model.gone(conn);
            return Ok(());
        }
        let asked = self
            .requests
            .get_mut(&opaque)
            .ok_or("an unknown command was applied")?;
        if asked.conn != conn || asked.applied.is_some() || asked.answered {
            return Err(format!(
                "applied twice, for another, or after a refusal: {asked:?}"
            ));
        }
        if asked.number <= line.applied {
            return Err(format!(
                "applied before an earlier one of its connection: {asked:?}"
            ));
        }
        line.applied = asked.number;
        line.pending.remove(&asked.number);
        if let Ask::Register(r) = &*asked.ask {
            note_heard(&mut self.heard, r, now_ms);
        }
        let answer = self.model.apply(&asked.ask, conn, now_ms);
        if let Ask::Register(r) = &*asked.ask {
            self.counts.refused += u64::from(answer.code != 0);
            let alive = self.model.live_at(&r.who.place(), self.model.seq).is_some();
            self.counts.conflicts += u64::from(answer.code == 0 && !alive);
            if answer.code == 0 && alive {
                line.accepted.insert(r.who.place(), r.clone());
            } else {
                line.accepted.remove(&r.who.place());
            }
        }
        asked.applied = Some((self.model.seq, answer));
        Ok(())
    }

    fn answer(
        &mut self,
        conn: u64,
        opaque: i32,
        answer: &Answer,
        now_ms: u64,
    ) -> Result<(), String> {
        self.counts.answers += 1;
        let asked = self.requests.get_mut(&opaque).ok_or("nobody asked")?;
        let Some(floor) = asked.floor.filter(|_| asked.conn == conn) else {
            return Err("somebody else asked, or nobody yet".to_owned());
        };
        if asked.oneway || std::mem::replace(&mut asked.answered, true) {
            return Err("answered twice, or a one-way".to_owned());
        }
        let line = self.lines.entry(conn).or_default();
        line.open.remove(&opaque);
        line.pending.remove(&asked.number);
        // There may also be commands behind it that were handled in the same call.
        let overtakes = line.pending.first().is_some_and(|n| *n < asked.number);
        let (ask, applied) = (Rc::clone(&asked.ask), asked.applied.take());
        let moment = match applied {
            Some((seq, expected)) if expected.admits(answer) => {
                if let (Ask::Register(r), 0) = (&*ask, answer.code) {
                    let steady = self.steady.get(&r.who.place()).cloned();
                    self.acknowledged.extend(steady);
                }
                seq
            }
            Some((_, expected)) => return Err(format!("expected {expected}")),
            None if overtakes && matches!(*ask, Ask::Register(_)) && answer.code == 0 => {
                return Err("overtakes an earlier command of its connection".to_owned());
            }
            None => self.not_applied(conn, &ask, floor, answer, now_ms)?,
        };
        self.proven = self.proven.max(moment);
        Ok(())
    }

    /// Judges an answer of which the writer knows nothing. Returns the moment that it proves.
    fn not_applied(
        &mut self,
        conn: u64,
        ask: &Ask,
        floor: u64,
        answer: &Answer,
        now_ms: u64,
    ) -> Result<u64, String> {
        match ask {
            ask if ask.is_command() && answer.code == 2 => {
                self.counts.overloaded += 1;
                expect(&Answer::failure(2, BUSY), answer, floor)
            }
            Ask::Register(r) => {
                let (line, place) = (&self.lines[&conn], r.who.place());
                if line.accepted.get(&place) != Some(r) {
                    return Err("answered without having been applied".to_owned());
                }
                self.counts.unchanged += 1;
                self.model.touch(&place, line.loaded, now_ms);
                self.moment(ask, floor, answer)
            }
            ask if ask.is_command() => Err("answered without having been applied".to_owned()),
            Ask::Nameless(_) => {
                expect(&Answer::failure(1, "clusterName is missing"), answer, floor)
            }
            Ask::Corrupt(_) => {
                let refused = Answer::failure(1, "crc32 not match").ext(&[]);
                expect(&refused, answer, floor)
            }
            read => {
                let moment = self.moment(read, floor, answer)?;
                self.check_ghosts(read, moment, now_ms)?;
                Ok(moment)
            }
        }
    }

    /// The first moment from `floor` on for which the answer is right.
    fn moment(&mut self, ask: &Ask, floor: u64, answer: &Answer) -> Result<u64, String> {
        let moments = self.model.moments(ask, floor, self.model.seq);
        self.counts.raced += u64::from(moments.len() > 1);
        if let Some(moment) = moments
            .iter()
            .find(|m| self.expected(ask, **m).admits(answer))
        {
            return Ok(*moment);
        }
        let mut text = format!("from {floor} to {} no moment fits:", self.model.seq);
        for moment in moments {
            let _ = write!(text, "\n  {moment}: {}", self.expected(ask, moment));
        }
        let earlier = self.model.moments(ask, 0, floor);
        if let Some(old) = earlier
            .iter()
            .rev()
            .find(|m| self.expected(ask, **m).admits(answer))
        {
            let _ = write!(text, "\nit would have been right at {old}");
        }
        Err(text)
    }

    fn expected(&self, ask: &Ask, moment: u64) -> Answer {
        let model = &self.model;
        match ask {
            Ask::Route { topic, legacy } => match model.route_at(topic, *legacy, moment) {
                Some(body) => Answer::success().body(body),
                None => Answer::failure(
                    17,
                    &format!(
                        "No topic route info in name server for the topic: {topic}\n\
                     See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
                    ),
                ),
            },
            Ask::Members(name) => {
                let mut body = "{\"brokerMemberGroup\":{\"brokerAddrs\":{".to_owned();
                let group = model.group_at(name, moment);
                let members = group.iter().flat_map(|g| &g.members);
                let members: Vec<_> = members
                    .map(|(id, addr)| format!("{id}:\"{addr}\""))
                    .collect();
                body += &members.join(",");
                body += &format!("}},\"brokerName\":\"{name}\",\"cluster\":\"C\"}}}}");
                Answer::failure(0, "not set any response code").body(body)
            }
            Ask::ClusterInfo => Answer::success().body(model.cluster_info_at(moment)),
            Ask::Value(key) => match model.value_at(key, moment) {
                Some(value) => Answer::success().ext(&[("value", value)]),
                None => {
                    let remark = format!("No config item, Namespace: {NAMESPACE} Key: {key}");
                    Answer::failure(22, &remark).ext(&[])
                }
            },
            Ask::Heartbeat(_) => Answer::success(),
            Ask::Version(who, asked) => {
                let live = model.live_at(&who.place(), moment);
                let same = live.is_some_and(|live| live.version == *asked);
                let answer =
                    Answer::success().ext(&[("changed", if same { "false" } else { "true" })]);
                match live.map(|live| live.version) {
                    Some((state, counter)) => answer.body(format!(
                        "{{\"counter\":{counter},\"stateVersion\":{state},\"timestamp\":{}}}",
                        1000 + counter
                    )),
                    None => answer,
                }
            }
            // Only one that changes nothing may be answered without the writer.
            Ask::Register(r) if model.is_in_force(r, moment) => model.welcome_at(&r.who, moment),
            Ask::Register(_) => Answer::failure(-1, "must go to the writer"),
            other => panic!("{other:?} is no read"),
        }
    }

    /// Nobody is shown who has been silent for longer than the time-out and a tick. This asks no
    /// model when a broker should have left, only when it was last heard of.
    fn check_ghosts(&self, ask: &Ask, moment: u64, now_ms: u64) -> Result<(), String> {
        let names: Vec<&String> = match ask {
            Ask::Members(name) => vec![name],
            Ask::Route { topic, .. } => {
                let queues = self.model.queues_at(topic, moment);
                queues.into_iter().flat_map(BTreeMap::keys).collect()
            }
            _ => Vec::new(),
        };
        for group in names
            .into_iter()
            .filter_map(|name| self.model.group_at(name, moment))
        {
            for addr in group.members.values() {
                let place = (group.cluster.clone(), addr.clone());
                let (heard, timeout) = self.heard.get(&place).copied().unwrap_or_default();
                if heard + timeout + self.patience_ms < now_ms {
                    return Err(format!("{place:?} was last heard of at {heard}"));
                }
            }
        }
        Ok(())
    }

    fn describe(&self, opaque: i32, answer: &Answer, why: &str) -> String {
        match self.requests.get(&opaque) {
            Some(asked) => format!("{why}\nanswered {answer}\nto {asked:?}"),
            None => format!("{why}\nanswered {answer}\nto {opaque}"),
        }
    }
}

fn note_heard(heard: &mut HashMap<Place, (u64, u64)>, r: &Register, now_ms: u64) {
    let (last, timeout) = heard.entry(r.who.place()).or_default();
    *last = now_ms;
    *timeout = (*timeout).max(r.timeout_ms.unwrap_or(120_000).unsigned_abs());
}

fn expect(expected: &Answer, answer: &Answer, floor: u64) -> Result<u64, String> {
    if expected == answer {
        Ok(floor)
    } else {
        Err(format!("expected {expected}"))
    }
}

fn same(what: &str, one: u64, other: u64) -> Result<(), String> {
    if one == other {
        Ok(())
    } else {
        Err(format!("{what}: {one} and {other}"))
    }
}
