//! From rounds to a verdict.
//!
//! For each metric a round gives one ratio, B over A. A metric is *faster* or *slower* only when
//! two things hold: its interval excludes 1 (it is no accident), and both mean and median of the
//! ratios are beyond the least effect that matters (it is worth a word; and one disturbed round
//! cannot decide). Otherwise it is *same*, which means as much as its interval is narrow.
//!
//! Only the primary metrics make the overall verdict, and their intervals share the error of 5 %
//! among them (Bonferroni), so that two equal servers are called equal in 19 of 20 comparisons,
//! however many primaries there are. The other metrics are shown with plain 95 % intervals, of
//! which one in twenty lies.

use serde::{Deserialize, Serialize};

use crate::compare::stats::{self, Estimate};
use crate::metric::{At, Metric, Origin};
use crate::op::Op;
use crate::result::RunResult;

/// The probability that two equal servers are called different.
const ERROR: f64 = 0.05;

/// One round: as many runs of A as of B, close to each other in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// Of A.
    pub a: Vec<RunResult>,
    /// Of B.
    pub b: Vec<RunResult>,
}

/// B seen from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Better.
    Faster,
    /// Worse.
    Slower,
    /// No difference that was shown and matters.
    Same,
    /// Better in one primary metric and worse in another.
    Mixed,
    /// One round alone shows nothing.
    Unknown,
}

/// One metric over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub metric: String,
    /// It takes part in the verdict.
    pub is_primary: bool,
    /// Median over the runs of A: microseconds, per second, bytes.
    pub a: f64,
    /// Of B.
    pub b: f64,
    /// B over A, geometric mean.
    pub ratio: f64,
    /// B over A, median.
    pub median: f64,
    /// Where the true ratio is.
    pub interval: Option<(f64, f64)>,
    /// With this probability.
    pub confidence: f64,
    /// B over A, round by round.
    pub rounds: Vec<f64>,
    /// What this says.
    pub verdict: Word,
}

/// How to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What makes the verdict.
    pub primaries: Vec<Metric>,
    /// What else is of interest.
    pub others: Vec<Metric>,
    /// The least effect that matters: 0.05 is 5 %.
    pub least_effect: f64,
}

impl Word {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

/// What makes the verdict unless something else is asked for: CPU time, which is the steadiest
/// of all where several programs share a machine, and route reads from the socket, without the
/// tool's own delay. In a closed loop also how many there were.
#[must_use]
pub fn usual_primaries(is_closed: bool) -> Vec<Metric> {
    let route = |at| Metric::Time(Op::Route, Origin::Socket, at);
    let mut primaries = vec![Metric::Cpu, route(At::P50), route(At::P99)];
    if is_closed {
        primaries.push(Metric::Rate(Op::Route));
    }
    primaries
}

/// Whether a metric is the process's own, whatever the pace of the tool.
#[must_use]
pub const fn is_of_the_process(metric: Metric) -> bool {
    matches!(metric, Metric::Cpu | Metric::Memory)
}

/// Judges every metric that has a value in every run.
#[must_use]
pub fn judge(rounds: &[Round], rules: &Rules) -> Vec<Row> {
    let present = |metrics: &[Metric]| -> Vec<Metric> {
        let all = metrics.iter().copied();
        all.filter(|metric| is_present(*metric, rounds)).collect()
    };
    let primaries = present(&rules.primaries);
    let shared = 1.0 - ERROR / primaries.len().max(1) as f64;
    let mut rows: Vec<Row> = primaries
        .iter()
        .map(|metric| row(*metric, true, shared, rounds, rules.least_effect))
        .collect();
    let others = present(&rules.others).into_iter();
    for metric in others.filter(|metric| !primaries.contains(metric)) {
        if rows.iter().all(|row| row.metric != metric.name()) {
            rows.push(row(metric, false, 1.0 - ERROR, rounds, rules.least_effect));
        }
    }
    rows
}

/// The verdict of all primary metrics.
#[must_use]
pub fn overall(rows: &[Row]) -> Word {
    let primaries = || rows.iter().filter(|row| row.is_primary);
    let any = |word| primaries().any(|row| row.verdict == word);
    match (any(Word::Faster), any(Word::Slower)) {
        (true, true) => Word::Mixed,
        (true, false) => Word::Faster,
        (false, true) => Word::Slower,
        (false, false) if any(Word::Same) => Word::Same,
        (false, false) => Word::Unknown,
    }
}

/// A ratio is only possible between positive numbers.
#[must_use]
pub fn is_present(metric: Metric, rounds: &[Round]) -> bool {
    let mut runs = rounds
        .iter()
        .flat_map(|round| round.a.iter().chain(&round.b));
    !rounds.is_empty() && runs.all(|run| metric.of(run).is_some_and(|value| value > 0.0))
}

fn row(metric: Metric, is_primary: bool, confidence: f64, rounds: &[Round], least: f64) -> Row {
    let values =
        |runs: &[RunResult]| -> Vec<f64> { runs.iter().filter_map(|run| metric.of(run)).collect() };
    let log = |runs: &[RunResult]| {
        let values = values(runs);
        values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64
    };
    let logs: Vec<f64> = rounds
        .iter()
        .map(|round| log(&round.b) - log(&round.a))
        .collect();
    let of_side = |side: fn(&Round) -> &[RunResult]| {
        let all: Vec<f64> = rounds
            .iter()
            .flat_map(|round| values(side(round)))
            .collect();
        stats::median(&all)
    };
    let estimate = stats::estimate(&logs, confidence);
    Row {
        metric: metric.name(),
        is_primary,
        a: of_side(|round| &round.a),
        b: of_side(|round| &round.b),
        ratio: estimate.ratio,
        median: estimate.median,
        interval: estimate.interval,
        confidence,
        rounds: logs.iter().map(|log| log.exp()).collect(),
        verdict: word(&estimate, metric.is_gain(), least),
    }
}

fn word(estimate: &Estimate, is_gain: bool, least: f64) -> Word {
    let Some((low, high)) = estimate.interval else {
        return Word::Unknown;
    };
    let bound = 1.0 + least;
    let more = low > 1.0 && estimate.ratio.min(estimate.median) >= bound;
    let less = high < 1.0 && estimate.ratio.max(estimate.median) <= 1.0 / bound;
    match (more, less) {
        (true, _) => [Word::Slower, Word::Faster][usize::from(is_gain)],
        (_, true) => [Word::Faster, Word::Slower][usize::from(is_gain)],
        _ => Word::Same,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
