//! The numbers of a result by name, so that people can compare them and set limits to them.
//!
//! A name says what (`route`), from where its time counts (nothing: from the intended instant;
//! `service`: from the socket), and which part of the distribution (`p99`). CPU time has no kind
//! of request in its name: a server's threads do not say what they worked for.

use thiserror::Error;

use crate::op::Op;
use crate::record::Clock;
use crate::result::{Quantiles, RunResult};
use crate::units::{count_text, latency_text};

/// A number of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Time of a kind of request.
    Time(Op, Origin, At),
    /// Answers of a kind of request per second: what counts in a closed loop.
    Rate(Op),
    /// A clock of the cluster.
    Clock(Clock, At),
    /// CPU time of the server for each request, one-ways included.
    Cpu,
    /// Largest resident memory of the server.
    Memory,
    /// From the disturbance to the last broker that became visible.
    Recovery,
    /// p99 of route reads during the disturbance over the one before it.
    Collateral,
}

/// From where the time of a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The instant at which the plan wanted it.
    Intended,
    /// The instant at which it was handed to the socket.
    Socket,
}

/// A part of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Mean.
    Mean,
    /// Median.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P999,
    /// Largest.
    Max,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Time,
    /// Per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Nothing: a ratio.
    Plain,
}

/// A name that no number has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// Not one of the names.
    #[error(
        "`{0}` is no metric. There are KIND.PART (from the intended instant), KIND.service.PART \
         (from the socket), KIND.rate, visible.PART, fresh.PART, gone.PART, cpu, memory, recovery \
         and collateral, with KIND one of {kinds} and PART one of {parts}",
        kinds = Op::ALL.map(kind_name).join(", "),
        parts = At::ALL.map(At::name).join(", ")
    )]
    Unknown(String),
    /// `cpu.` and a kind of request.
    #[error("`{0}`: CPU time cannot be told apart by kinds of requests; write `cpu`")]
    CpuOfKind(String),
}

impl At {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P999,
        Self::Max,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
        }
    }

    /// This part of a distribution, in microseconds; none of an empty one.
    fn of(self, quantiles: &Quantiles) -> Option<f64> {
        let us = match self {
            Self::Mean => return Some(quantiles.mean_us).filter(|_| quantiles.count > 0),
            Self::P50 => quantiles.p50_us,
            Self::P90 => quantiles.p90_us,
            Self::P99 => quantiles.p99_us,
            Self::P999 => quantiles.p999_us,
            Self::Max => quantiles.max_us,
        };
        Some(us as f64).filter(|_| quantiles.count > 0)
    }
}

impl Metric {
    /// Reads a name.
    ///
    /// # Errors
    /// No number has it.
    pub fn parse(name: &str) -> Result<Self, MetricError> {
        let unknown = || MetricError::Unknown(name.to_owned());
        let kind = |word: &str| Op::ALL.into_iter().find(|op| kind_name(*op) == word);
        let clock = |word: &str| Clock::ALL.into_iter().find(|one| clock_name(*one) == word);
        let at = |word: &str| At::ALL.into_iter().find(|at| at.name() == word);
        let words: Vec<&str> = name.split('.').collect();
        let found = match words[..] {
            ["cpu"] => Some(Self::Cpu),
            ["memory"] => Some(Self::Memory),
            ["recovery"] => Some(Self::Recovery),
            ["collateral"] => Some(Self::Collateral),
            ["cpu", ..] => return Err(MetricError::CpuOfKind(name.to_owned())),
            [what, "rate"] => kind(what).map(Self::Rate),
            [what, "service", part] => kind(what)
                .zip(at(part))
                .map(|(op, at)| Self::Time(op, Origin::Socket, at)),
            [what, part] => {
                let part = at(part).ok_or_else(unknown)?;
                let of_kind = kind(what).map(|op| Self::Time(op, Origin::Intended, part));
                of_kind.or_else(|| clock(what).map(|clock| Self::Clock(clock, part)))
            }
            _ => None,
        };
        found.ok_or_else(unknown)
    }

    /// The name that [`Metric::parse`] reads.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Time(op, Origin::Intended, at) => format!("{}.{}", kind_name(op), at.name()),
            Self::Time(op, Origin::Socket, at) => {
                format!("{}.service.{}", kind_name(op), at.name())
            }
            Self::Rate(op) => format!("{}.rate", kind_name(op)),
            Self::Clock(clock, at) => format!("{}.{}", clock_name(clock), at.name()),
            Self::Cpu => "cpu".to_owned(),
            Self::Memory => "memory".to_owned(),
            Self::Recovery => "recovery".to_owned(),
            Self::Collateral => "collateral".to_owned(),
        }
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Time(..) | Self::Clock(..) | Self::Cpu | Self::Recovery => Unit::Time,
            Self::Rate(_) => Unit::Rate,
            Self::Memory => Unit::Bytes,
            Self::Collateral => Unit::Plain,
        }
    }

    /// More of it is better; of all others less is.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::Rate(_))
    }

    /// Its value in a result; none if that was not measured or did not happen.
    #[must_use]
    pub fn of(self, result: &RunResult) -> Option<f64> {
        let of_kind = |op: Op| result.ops.iter().find(|one| one.name == op.name());
        match self {
            Self::Time(op, Origin::Intended, at) => at.of(&of_kind(op)?.response),
            Self::Time(op, Origin::Socket, at) => at.of(&of_kind(op)?.service),
            Self::Rate(op) => {
                let found = of_kind(op)?;
                // `per_second` counts what was sent.
                let share = found.answered as f64 / found.sent.max(1) as f64;
                Some(found.per_second * share)
            }
            Self::Clock(clock, at) => at.of(result.clocks.get(clock.name())?),
            Self::Cpu => result
                .server
                .map(|server| server.cpu_us_per_request)
                .filter(|us| *us > 0.0),
            Self::Memory => result.server.map(|server| server.rss_bytes as f64),
            Self::Recovery => result.storm.recovery_ms.map(|ms| ms * 1e3),
            Self::Collateral => result.storm.collateral,
        }
    }

    /// A value of it for people.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self.unit() {
            // Of a few microseconds the tenths matter.
            Unit::Time if value < 100.0 => format!("{value:.1} us"),
            Unit::Time => latency_text(value.round() as u64),
            Unit::Rate => format!("{}/s", count_text(value)),
            Unit::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Unit::Plain => format!("{value:.2}"),
        }
    }

    /// Everything that is worth a line where it has a value, the weightiest first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Cpu, Self::Memory];
        for op in Op::ALL.into_iter().filter(|op| !op.is_oneway()) {
            all.push(Self::Rate(op));
            for origin in [Origin::Socket, Origin::Intended] {
                all.extend([At::P50, At::P99].map(|at| Self::Time(op, origin, at)));
            }
        }
        for clock in Clock::ALL {
            all.extend([At::P50, At::Max].map(|at| Self::Clock(clock, at)));
        }
        all.extend([Self::Recovery, Self::Collateral]);
        all
    }
}

/// The word of a kind of request without its code.
fn kind_name(op: Op) -> &'static str {
    op.name()
        .split_once(' ')
        .map_or_else(|| op.name(), |(_, word)| word)
}

const fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Visible => "visible",
        Clock::Fresh => "fresh",
        Clock::Gone => "gone",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn value(name: &str) -> Option<f64> {
        Metric::parse(name)
            .unwrap()
            .of(&crate::result::tests::example())
    }

    #[test]
    fn names_are_read_and_written_alike() {
        let mut names: Vec<String> = Metric::all().into_iter().map(Metric::name).collect();
        names.extend(["route.mean", "route.service.p999", "one-way.rate"].map(str::to_owned));
        for name in &names {
            assert_eq!(Metric::parse(name).unwrap().name(), *name);
        }
        for name in [
            "",
            "p99",
            "route",
            "route.p98",
            "rout.p99",
            "route.own.p99",
            "gone.rate",
        ] {
            let error = Metric::parse(name).unwrap_err();
            assert_eq!(error, MetricError::Unknown(name.to_owned()));
            let text = error.to_string();
            assert!(
                text.contains("register, change, unregister, route,"),
                "{text}"
            );
            assert!(text.ends_with("mean, p50, p90, p99, p999, max"), "{text}");
        }
        let text = Metric::parse("cpu.route").unwrap_err().to_string();
        assert!(text.ends_with("write `cpu`"), "{text}");
    }

    #[test]
    fn values_are_those_of_the_result() {
        assert_eq!(value("route.p99"), Some(990.0));
        assert_eq!(value("route.service.mean"), Some(500.5));
        assert_eq!(value("route.rate"), Some(100.0));
        assert_eq!(value("visible.max"), Some(5003.0));
        assert_eq!(value("cpu"), Some(75.0));
        assert_eq!(value("memory"), Some(1_048_576.0));
        assert_eq!(value("recovery"), Some(123_457.0));
        assert_eq!(value("collateral"), Some(2.501));
        for absent in ["cluster.p50", "one-way.p99", "gone.p50"] {
            assert_eq!(value(absent), None, "{absent}");
        }
    }

    #[test]
    fn values_are_written_with_their_unit() {
        assert_eq!(Metric::Cpu.text(28.26), "28.3 us");
        let p99 = Metric::parse("route.p99").unwrap();
        assert_eq!(p99.text(1234.4), "1.23 ms");
        assert_eq!(Metric::Memory.text(1_572_864.0), "1.5 MiB");
        assert_eq!(Metric::Rate(Op::Route).text(48_213.0), "48.2k/s");
        assert_eq!(Metric::Collateral.text(1.5), "1.50");
    }
}
