//! When everything is meant to happen: one queue of intended instants for each core.
//!
//! The load is open: an instant does not move because an earlier request was late. Latencies
//! are counted from here. Pure: instants are nanoseconds from the start of the plan, and the
//! time is handed in. Invariant: the events of all cores together are the same for any number
//! of cores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::board::Nanos;
use crate::plan::{Phases, Plan};
use crate::rng::Rng;
use crate::units::nanos;

/// Between the polls of the topics of one client, which follow each other.
const POLL_GAP: Nanos = 3_000_000;
/// A hot pause for readers that do not read: how often they ask again.
const SLOW_READ: Duration = Duration::from_secs(1);

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seat {
    /// A broker.
    Broker(u32),
    /// A client.
    Client(u32),
    /// A client that hardly reads its answers.
    Slow(u32),
    /// The tool's own eyes.
    Watcher,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// A broker starts or returns: it connects and registers.
    Come,
    /// A broker goes, in the way that the plan says.
    Lose,
    /// A broker registers again.
    Register,
    /// A broker says that it is alive.
    Heartbeat,
    /// A broker asks for all brokers.
    ClusterPoll,
    /// A topic of a master changes.
    Change,
    /// A client reads the route of its topic with this index.
    Poll(u32),
    /// A client reads one of its topics, at a random instant.
    Read,
    /// The tool looks who is there.
    Watch,
    /// A slow reader asks once more.
    SlowRead,
}

/// One intended instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// Nanoseconds from the start of the plan.
    pub at: Nanos,
    /// Who.
    pub seat: Seat,
    /// What.
    pub act: Act,
    /// How many of this kind came before.
    pub count: u32,
}

/// The events of one core, in order.
#[derive(Debug)]
pub struct Schedule {
    queue: BinaryHeap<Reverse<Event>>,
    phases: Phases,
}

impl Schedule {
    /// The events of the seats that fall to `core` of `cores`.
    #[must_use]
    pub fn new(plan: &Plan, core: usize, cores: usize) -> Self {
        let config = &plan.config;
        let mut schedule = Self {
            queue: BinaryHeap::new(),
            phases: plan.phases(),
        };
        for broker in seats_of(config.brokers, core, cores) {
            for act in [Act::Register, Act::Heartbeat, Act::ClusterPoll, Act::Change] {
                schedule.first(plan, Seat::Broker(broker), act);
            }
            if config.cold_start {
                let spread = nanos(config.start_spread);
                let at =
                    schedule.phases.measure_from + random(plan, Seat::Broker(broker), 7, spread);
                schedule.push(at, Seat::Broker(broker), Act::Come, 0);
            }
            schedule.push_loss(plan, broker, 0);
        }
        for client in seats_of(config.clients, core, cores) {
            if config.closed {
                continue;
            }
            if config.rate > 0.0 {
                schedule.first(plan, Seat::Client(client), Act::Read);
                continue;
            }
            for index in 0..config.client_topics {
                schedule.first(plan, Seat::Client(client), Act::Poll(index));
            }
        }
        for slow in seats_of(config.slow_readers, core, cores) {
            schedule.first(plan, Seat::Slow(slow), Act::SlowRead);
        }
        if core == 0 && schedule.phases.storm_from < schedule.phases.storm_until {
            let from = schedule.phases.storm_from;
            schedule.push(from, Seat::Watcher, Act::Watch, 0);
        }
        schedule
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse(event)| event.at)
    }

    /// Takes the next event if it is due at `now`, and plans the one that follows it.
    pub fn pop_due(&mut self, plan: &Plan, now: Nanos) -> Option<Event> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(event) = self.queue.pop()?;
        match (event.seat, event.act) {
            (_, Act::Come) => {}
            (Seat::Broker(broker), Act::Lose) => {
                let back = nanos(plan.config.return_after);
                if back > 0 {
                    self.push(event.at + back, event.seat, Act::Come, event.count + 1);
                }
                self.push_loss(plan, broker, event.count + 1);
            }
            (seat, act) => self.follow(plan, seat, act, event),
        }
        Some(event)
    }

    /// The first event of a stream.
    fn first(&mut self, plan: &Plan, seat: Seat, act: Act) {
        match gap(plan, seat, act) {
            Gap::Never => {}
            Gap::Random(mean) => {
                let at = exponential(plan, seat, act, 0, mean);
                self.push(at, seat, act, 0);
            }
            Gap::Every(period) => {
                let at = phase(plan, seat, act, period);
                self.push(at, seat, act, 0);
            }
        }
    }

    fn follow(&mut self, plan: &Plan, seat: Seat, act: Act, event: Event) {
        let count = event.count + 1;
        let at = match gap(plan, seat, act) {
            Gap::Never => return,
            Gap::Random(mean) => event.at + exponential(plan, seat, act, count, mean),
            Gap::Every(period) => {
                let start = if act == Act::Watch {
                    self.phases.storm_from
                } else {
                    phase(plan, seat, act, period)
                };
                start + u64::from(count) * period + jitter(plan, seat, act, count, period)
            }
        };
        if act != Act::Watch || at < self.phases.storm_until {
            self.push(at.max(event.at), seat, act, count);
        }
    }

    /// The first loss of `broker` from the `round`th on.
    fn push_loss(&mut self, plan: &Plan, broker: u32, round: u32) {
        let config = &plan.config;
        if config.lose == 0 {
            return;
        }
        let every = nanos(config.lose_every);
        let spread = nanos(config.lose_spread);
        let offset = (u128::from(spread) * u128::from(broker) / u128::from(config.brokers)) as u64;
        let first = self.phases.storm_from + offset;
        for round in round.. {
            let at = first + u64::from(round) * every;
            if at >= self.phases.end || (every == 0 && round > 0) {
                return;
            }
            let labels = [
                config.seed,
                0x6c6f_7365,
                u64::from(broker),
                u64::from(round),
            ];
            if Rng::of(&labels).below(1000) < u64::from(config.lose) {
                self.push(at, Seat::Broker(broker), Act::Lose, round);
                return;
            }
        }
    }

    fn push(&mut self, at: Nanos, seat: Seat, act: Act, count: u32) {
        if at < self.phases.end {
            let event = Event {
                at,
                seat,
                act,
                count,
            };
            self.queue.push(Reverse(event));
        }
    }
}

/// The numbers below `all` that fall to `core`.
pub fn seats_of(all: u32, core: usize, cores: usize) -> impl Iterator<Item = u32> {
    (core as u32..all).step_by(cores)
}

/// How the events of a stream follow each other.
enum Gap {
    Never,
    Every(Nanos),
    /// With this mean, independent of each other.
    Random(f64),
}

fn gap(plan: &Plan, seat: Seat, act: Act) -> Gap {
    let config = &plan.config;
    let every = |period: Duration| match nanos(period) {
        0 => Gap::Never,
        period => Gap::Every(period),
    };
    match act {
        Act::Register => every(config.register),
        Act::Heartbeat => every(config.heartbeat),
        Act::ClusterPoll => every(config.cluster_poll),
        Act::Poll(_) => every(config.poll),
        Act::Watch => every(config.watch),
        Act::SlowRead => every(SLOW_READ),
        Act::Read => Gap::Random(1e9 * f64::from(config.clients) / config.rate),
        Act::Change => match seat {
            Seat::Broker(broker) if config.churn > 0.0 && plan.topology.broker_id(broker) == 0 => {
                Gap::Random(1e9 * f64::from(plan.topology.groups) / config.churn)
            }
            _ => Gap::Never,
        },
        Act::Come | Act::Lose => Gap::Never,
    }
}

/// Where in its period a stream begins.
fn phase(plan: &Plan, seat: Seat, act: Act, period: Nanos) -> Nanos {
    match act {
        Act::Poll(_) if plan.config.poll_sync => period / 2,
        // The topics of one client are read one after the other.
        Act::Poll(index) => {
            let first = random(plan, seat, label(Act::Poll(0)), period);
            (first + u64::from(index) * POLL_GAP) % period
        }
        _ => random(plan, seat, label(act), period),
    }
}

/// Polls wander by a tenth of their period, as clients that sleep between polls do.
fn jitter(plan: &Plan, seat: Seat, act: Act, count: u32, period: Nanos) -> Nanos {
    match act {
        Act::Poll(_) if !plan.config.poll_sync => {
            random(plan, seat, label(act) ^ u64::from(count) << 32, period / 10)
        }
        _ => 0,
    }
}

fn exponential(plan: &Plan, seat: Seat, act: Act, count: u32, mean: f64) -> Nanos {
    let labels = labels(plan, seat, label(act) ^ u64::from(count) << 32);
    Rng::of(&labels).exponential_gap(mean) as Nanos
}

fn random(plan: &Plan, seat: Seat, label: u64, end: Nanos) -> Nanos {
    Rng::of(&labels(plan, seat, label)).below(end)
}

fn labels(plan: &Plan, seat: Seat, label: u64) -> [u64; 4] {
    let (kind, number) = match seat {
        Seat::Broker(number) => (1, number),
        Seat::Client(number) => (2, number),
        Seat::Slow(number) => (3, number),
        Seat::Watcher => (4, 0),
    };
    [plan.config.seed, kind, u64::from(number), label]
}

fn label(act: Act) -> u64 {
    match act {
        Act::Come => 1,
        Act::Lose => 2,
        Act::Register => 3,
        Act::Heartbeat => 4,
        Act::ClusterPoll => 5,
        Act::Change => 6,
        Act::Read => 8,
        Act::Watch => 9,
        Act::SlowRead => 10,
        Act::Poll(index) => 100 + u64::from(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RunArgs, Scenario};

    const SECOND: Nanos = 1_000_000_000;

    fn plan(change: impl FnOnce(&mut RunArgs)) -> Plan {
        let mut args = RunArgs {
            brokers: Some(100),
            topics: Some(20),
            clients: Some(50),
            warmup: Some(Duration::from_secs(10)),
            duration: Some(Duration::from_secs(60)),
            ..RunArgs::default()
        };
        change(&mut args);
        Plan::new(Config::resolve(&args, 2))
    }

    fn events(plan: &Plan, cores: usize) -> Vec<Event> {
        let mut all = Vec::new();
        for core in 0..cores {
            let mut schedule = Schedule::new(plan, core, cores);
            let before = all.len();
            while let Some(event) = schedule.pop_due(plan, Nanos::MAX) {
                all.push(event);
            }
            assert!(all[before..].is_sorted_by_key(|event| event.at));
        }
        all.sort_unstable();
        all
    }

    fn count(events: &[Event], act: Act) -> usize {
        events.iter().filter(|event| event.act == act).count()
    }

    #[test]
    fn nothing_is_due_before_its_instant() {
        let plan = plan(|_| ());
        let mut schedule = Schedule::new(&plan, 0, 1);
        let first = schedule.next_at().unwrap_or_default();
        assert!(first > 0);
        assert_eq!(schedule.pop_due(&plan, first - 1), None);
        let event = schedule.pop_due(&plan, first);
        assert_eq!(event.map(|event| event.at), Some(first));
        // A clock that stood still for a second makes all of that second due, in order.
        let late: Vec<Event> =
            std::iter::from_fn(|| schedule.pop_due(&plan, first + SECOND)).collect();
        assert!(late.len() > 100, "{}", late.len());
        assert!(late.is_sorted_by_key(|event| event.at));
    }

    #[test]
    fn periods_hold_exactly_whatever_the_clock_does() {
        let events = events(&plan(|_| ()), 1);
        let mut beats: Vec<Nanos> = events
            .iter()
            .filter(|event| event.seat == Seat::Broker(7) && event.act == Act::Heartbeat)
            .map(|event| event.at)
            .collect();
        beats.sort_unstable();
        assert_eq!(beats.len(), 70);
        assert!(beats.windows(2).all(|pair| pair[1] - pair[0] == SECOND));
        assert_eq!(count(&events, Act::ClusterPoll), 100 * 70 / 5);
        let registrations = count(&events, Act::Register);
        assert!((200..=300).contains(&registrations), "{registrations}");
    }

    #[test]
    fn the_plan_does_not_depend_on_the_number_of_cores() {
        for scenario in [Scenario::Steady, Scenario::Flapping, Scenario::TopicChurn] {
            let plan = plan(|args| args.scenario = Some(scenario));
            assert_eq!(events(&plan, 1), events(&plan, 3), "{scenario:?}");
        }
    }

    #[test]
    fn random_reads_have_the_rate_asked_for() {
        let plan = plan(|args| args.rate = Some(500.0));
        let reads = count(&events(&plan, 2), Act::Read);
        assert!((34_000..36_000).contains(&reads), "{reads} in 70 s");
    }

    #[test]
    fn polls_are_spread_or_all_at_once() {
        let polls = |plan: &Plan| -> Vec<Nanos> {
            let events = events(plan, 1);
            let polls = events
                .iter()
                .filter(|event| matches!(event.act, Act::Poll(_)));
            polls.map(|event| event.at).collect()
        };
        let spread = polls(&plan(|_| ()));
        let mut busiest = std::collections::HashMap::new();
        for at in &spread {
            *busiest.entry(at / SECOND).or_insert(0) += 1;
        }
        assert!(busiest.values().all(|polls| *polls < 80), "{busiest:?}");
        let herd = polls(&plan(|args| args.scenario = Some(Scenario::ThunderingHerd)));
        assert_eq!(herd.len(), 50 * 10 * 7);
        assert!(herd.iter().all(|at| at % (10 * SECOND) == 5 * SECOND));
    }

    #[test]
    fn lost_brokers_go_once_and_come_back() {
        let plan = plan(|args| args.scenario = Some(Scenario::ZoneLoss));
        let events = events(&plan, 1);
        let losses: Vec<&Event> = events.iter().filter(|e| e.act == Act::Lose).collect();
        assert!((8..35).contains(&losses.len()), "{}", losses.len());
        for loss in losses {
            assert_eq!(loss.at, 30 * SECOND);
            let back = events
                .iter()
                .any(|e| e.seat == loss.seat && e.act == Act::Come && e.at == 50 * SECOND);
            assert!(back);
        }
    }

    #[test]
    fn a_rolling_restart_takes_every_broker_once_in_turn() {
        let plan = plan(|args| args.scenario = Some(Scenario::RollingRestart));
        let events = events(&plan, 1);
        let losses: Vec<&Event> = events.iter().filter(|e| e.act == Act::Lose).collect();
        assert_eq!(losses.len(), 100);
        let in_turn = losses
            .windows(2)
            .all(|pair| pair[0].at < pair[1].at && pair[0].seat < pair[1].seat);
        assert!(in_turn);
        assert_eq!(count(&events, Act::Come), 100);
    }

    #[test]
    fn a_cold_start_begins_with_everybody() {
        let plan = plan(|args| {
            args.scenario = Some(Scenario::ColdStart);
            args.warmup = Some(Duration::ZERO);
            args.start_spread = Some(Duration::from_secs(2));
        });
        let events = events(&plan, 1);
        let starts: Vec<&Event> = events.iter().filter(|e| e.act == Act::Come).collect();
        assert_eq!(starts.len(), 100);
        assert!(starts.iter().all(|event| event.at < 2 * SECOND));
    }
}
