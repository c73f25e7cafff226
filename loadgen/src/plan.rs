//! What a run consists of, before anything is sent: the cluster, who reads what, and the phases.
//!
//! Invariant: a plan follows from its flags and seed alone, to the byte; its digest says so. The
//! number of threads and the address of the server are no part of it.

use std::time::Duration;

use crate::board::Nanos;
use crate::config::{Config, LoseHow};
use crate::rng::{Digest, Rng};
use crate::schedule::Schedule;
use crate::topology::Topology;
use crate::units::nanos;

/// Events that go into the digest.
const DIGEST_EVENTS: usize = 20_000;
/// One in so many topics of clients does not exist: producers ask for topics before they are
/// created.
const ABSENT_ONE_IN: u64 = 50;
/// Java's timeout for brokers that send none (`DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
const DEFAULT_BROKER_TIMEOUT: Duration = Duration::from_secs(120);
/// What a storm's traffic may still disturb after its last event.
const STORM_TAIL: Duration = Duration::from_secs(2);

/// What a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A topic.
    Topic(u32),
    /// A topic that no broker has.
    Absent(u32),
}

/// One run.
#[derive(Debug)]
pub struct Plan {
    /// The flags.
    pub config: Config,
    /// The cluster.
    pub topology: Topology,
}

/// Instants of a plan, in nanoseconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The warm-up ends and the measuring begins.
    pub measure_from: Nanos,
    /// The measuring ends.
    pub end: Nanos,
    /// The first disturbance begins; `end` when there is none.
    pub storm_from: Nanos,
    /// The last has passed.
    pub storm_until: Nanos,
}

impl Plan {
    /// The plan of these flags.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let topology = Topology::new(&config);
        Self { config, topology }
    }

    /// The topic that a client reads as its `index`th.
    #[must_use]
    pub fn client_target(&self, client: u32, index: u32) -> Target {
        let labels = [
            self.config.seed,
            0x7265_6164,
            u64::from(client),
            u64::from(index),
        ];
        let mut rng = Rng::of(&labels);
        if self.config.wide {
            let all = self.topology.global_topics();
            return Target::Topic(all.start + index % (all.end - all.start));
        }
        let user = self.topology.user_topics();
        if user.is_empty() {
            let group = rng.below(u64::from(self.topology.groups)) as u32;
            return Target::Topic(self.topology.member_topic(group));
        }
        if rng.below(ABSENT_ONE_IN) == 0 {
            return Target::Absent(rng.below(1000) as u32);
        }
        // A few topics are read by many clients and most by few.
        let place = rng.unit().powi(3) * f64::from(user.end - user.start);
        Target::Topic((user.start + place as u32).min(user.end - 1))
    }

    /// When what happens.
    #[must_use]
    pub fn phases(&self) -> Phases {
        let config = &self.config;
        let measure_from = nanos(config.warmup);
        let end = measure_from + nanos(config.duration);
        let tail = nanos(STORM_TAIL);
        let (storm_from, storm_until) = if config.cold_start {
            (
                measure_from,
                measure_from + nanos(config.start_spread) + 5 * tail,
            )
        } else if config.lose > 0 {
            let from = measure_from + nanos(config.lose_after);
            let gone = match config.lose_how {
                LoseHow::Silence => self.broker_timeout() + nanos(config.expiry_window),
                LoseHow::Close | LoseHow::Unregister => nanos(config.removal_window),
            };
            let one = nanos(config.lose_spread) + nanos(config.return_after).max(gone) + tail;
            let repeats = !config.lose_every.is_zero();
            (from, if repeats { end } else { from + one })
        } else {
            (end, end)
        };
        Phases {
            measure_from,
            end,
            storm_from: storm_from.min(end),
            storm_until: storm_until.min(end),
        }
    }

    /// After so long a silence the server forgets a broker.
    #[must_use]
    pub fn broker_timeout(&self) -> Nanos {
        match self.config.heartbeat_timeout {
            Duration::ZERO => nanos(DEFAULT_BROKER_TIMEOUT),
            given => nanos(given),
        }
    }

    /// How long an answer may take.
    #[must_use]
    pub fn time_limit(&self, op: crate::op::Op) -> Nanos {
        // Java brokers wait 24 s for a registration and clients 3 s for a route.
        match op {
            crate::op::Op::Register | crate::op::Op::Change => 8 * nanos(self.config.timeout),
            _ => nanos(self.config.timeout),
        }
    }

    /// The same for equal plans, and most likely for no others.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = Digest::default();
        let is_place = |word: &String| word.starts_with("--addr=") || word.starts_with("--cores=");
        for word in self.config.words().iter().filter(|word| !is_place(word)) {
            digest.bytes(word.as_bytes());
            digest.bytes(b"\n");
        }
        self.topology.digest(&mut digest);
        let mut schedule = Schedule::new(self, 0, 1);
        for _ in 0..DIGEST_EVENTS {
            let Some(event) = schedule.pop_due(self, Nanos::MAX) else {
                break;
            };
            digest.bytes(format!("{event:?}\n").as_bytes());
        }
        digest.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RunArgs, Scenario};

    fn plan(change: impl FnOnce(&mut RunArgs)) -> Plan {
        let mut args = RunArgs {
            brokers: Some(60),
            topics: Some(40),
            clients: Some(30),
            ..RunArgs::default()
        };
        change(&mut args);
        Plan::new(Config::resolve(&args, 2))
    }

    #[test]
    fn equal_flags_make_equal_plans_to_the_byte() {
        let digest = |change: fn(&mut RunArgs)| plan(change).digest();
        let plain = digest(|_| ());
        assert_eq!(plain, digest(|_| ()));
        assert_eq!(plain, digest(|args| args.cores = Some(7)));
        assert_ne!(plain, digest(|args| args.seed = Some(2)));
        assert_ne!(plain, digest(|args| args.brokers = Some(61)));
        assert_ne!(plain, digest(|args| args.churn = Some(1.0)));
        // Recorded: another value here means that results of earlier versions cannot be compared.
        assert_eq!(plain, "a0c9f941d690c6d1");
    }

    #[test]
    fn clients_read_existing_topics_but_for_a_few() {
        let plan = plan(|_| ());
        let mut absent = 0;
        for client in 0..1000 {
            match plan.client_target(client, 3) {
                Target::Topic(topic) => assert!(plan.topology.user_topics().contains(&topic)),
                Target::Absent(_) => absent += 1,
            }
        }
        assert!((5..50).contains(&absent), "{absent}");
    }

    #[test]
    fn phases_follow_from_the_scenario() {
        let second = 1_000_000_000;
        let steady = plan(|_| ()).phases();
        assert_eq!(
            (steady.measure_from, steady.end),
            (10 * second, 70 * second)
        );
        assert_eq!(steady.storm_from, steady.end);
        let loss = plan(|args| args.scenario = Some(Scenario::ZoneLoss)).phases();
        assert_eq!(
            (loss.storm_from, loss.storm_until),
            (30 * second, 52 * second)
        );
        let silence = plan(|args| args.scenario = Some(Scenario::ZoneSilence)).phases();
        assert_eq!(
            (silence.storm_from, silence.storm_until),
            (30 * second, 48 * second)
        );
        let cold = plan(|args| args.scenario = Some(Scenario::ColdStart)).phases();
        assert_eq!((cold.measure_from, cold.storm_from), (0, 0));
    }
}
