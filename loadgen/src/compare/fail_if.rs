//! What makes a comparison fail: `--fail-if`.
//!
//! A ratio fails only when the difference was shown as well: `cpu > 1.10x` does not fail on a
//! ratio of 1.2 whose interval includes 1, because a gate that fails by accident is soon ignored.
//! An absolute limit holds for the median of B's runs.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::compare::judge::{Row, Word};
use crate::condition::{Condition, Limit};
use crate::metric::Metric;

/// A reason to fail.
#[derive(Clone, Debug, PartialEq)]
pub enum FailIf {
    /// The verdict is slower, or mixed.
    Slower,
    /// A condition holds.
    Holds(Condition),
}

/// What came of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// As it was written.
    pub fail_if: String,
    /// It fails.
    pub failed: bool,
    /// What it was held against.
    pub found: String,
}

impl FailIf {
    /// Reads `slower` or a condition.
    ///
    /// # Errors
    /// Neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == "slower" {
            return Ok(Self::Slower);
        }
        let condition = Condition::parse(text).map_err(|error| error.to_string())?;
        Ok(Self::Holds(condition))
    }

    /// The metric that it needs.
    #[must_use]
    pub const fn metric(&self) -> Option<Metric> {
        match self {
            Self::Slower => None,
            Self::Holds(condition) => Some(condition.metric),
        }
    }

    /// Holds the outcome of a comparison against it.
    #[must_use]
    pub fn check(&self, rows: &[Row], verdict: Word) -> Checked {
        let (failed, found) = match self {
            Self::Slower => (
                matches!(verdict, Word::Slower | Word::Mixed),
                verdict.text().to_owned(),
            ),
            Self::Holds(condition) => check(condition, rows),
        };
        Checked {
            fail_if: self.to_string(),
            failed,
            found,
        }
    }
}

impl Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slower => f.write_str("slower"),
            Self::Holds(condition) => condition.fmt(f),
        }
    }
}

fn check(condition: &Condition, rows: &[Row]) -> (bool, String) {
    let metric = condition.metric;
    let Some(row) = rows.iter().find(|row| row.metric == metric.name()) else {
        // What cannot be seen cannot be called good.
        return (true, "not measured".to_owned());
    };
    if let Limit::Value(_) = condition.limit {
        return (condition.holds(row.b), metric.text(row.b));
    }
    let holds = condition.holds(row.ratio);
    let Some((low, high)) = row.interval else {
        return (holds, format!("{:.3}x, of one pair", row.ratio));
    };
    let found = format!("{:.3}x ({low:.3} to {high:.3})", row.ratio);
    // Where no difference at all would fail, there is no difference to be shown.
    let is_shown = condition.holds(1.0) || low > 1.0 || high < 1.0;
    if holds && !is_shown {
        return (false, format!("{found}: not shown"));
    }
    (holds, found)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use crate::result::{RunResult, Server};
    use crate::verdict::Verdict;

    /// A run that needed so much CPU time for each request.
    pub(crate) fn run_of(cpu_us: f64) -> RunResult {
        let mut result = crate::result::tests::example();
        (result.verdict, result.exit_code) = (Verdict::Ok, 0);
        result.server = Some(Server {
            cpu_us_per_request: cpu_us,
            rss_bytes: 1 << 20,
            ..Server::default()
        });
        result
    }

    fn rows(ratio: f64, interval: Option<(f64, f64)>) -> Vec<Row> {
        vec![Row {
            metric: "route.p99".to_owned(),
            is_primary: true,
            a: 1000.0,
            b: 1000.0 * ratio,
            ratio,
            median: ratio,
            interval,
            confidence: 0.95,
            rounds: vec![ratio],
            verdict: Word::Same,
        }]
    }

    fn fails(text: &str, rows: &[Row]) -> (bool, String) {
        let checked = FailIf::parse(text).unwrap().check(rows, Word::Same);
        assert_eq!(checked.fail_if, text);
        (checked.failed, checked.found)
    }

    #[test]
    fn a_ratio_fails_when_it_was_shown() {
        let shown = rows(1.2, Some((1.1, 1.3)));
        assert_eq!(
            fails("route.p99 > 1.10x", &shown),
            (true, "1.200x (1.100 to 1.300)".to_owned())
        );
        assert!(!fails("route.p99 > 1.25x", &shown).0);
        let noise = rows(1.2, Some((0.9, 1.6)));
        let (failed, found) = fails("route.p99 > 1.10x", &noise);
        assert!(!failed && found.ends_with("not shown"), "{found}");
        let pair = rows(1.2, None);
        let (failed, found) = fails("route.p99 > 1.10x", &pair);
        assert!(failed && found.contains("one pair"), "{found}");
    }

    #[test]
    fn a_gain_that_is_demanded_must_be_there() {
        assert!(fails("route.p99 > 0.8x", &rows(0.95, Some((0.8, 1.1)))).0);
        assert!(!fails("route.p99 > 0.8x", &rows(0.7, Some((0.6, 0.8)))).0);
    }

    #[test]
    fn an_absolute_limit_is_for_b() {
        let rows = rows(1.2, Some((0.9, 1.6)));
        assert_eq!(
            fails("route.p99 > 1150us", &rows),
            (true, "1.20 ms".to_owned())
        );
        assert!(!fails("route.p99 > 2ms", &rows).0);
        assert_eq!(
            fails("memory > 1GiB", &rows),
            (true, "not measured".to_owned())
        );
    }

    #[test]
    fn slower_is_a_reason_too() {
        let slower = FailIf::parse(" slower ").unwrap();
        let failed = |word| slower.check(&[], word).failed;
        assert!(failed(Word::Slower) && failed(Word::Mixed));
        assert!(!failed(Word::Same) && !failed(Word::Faster) && !failed(Word::Unknown));
        assert!(FailIf::parse("slow").unwrap_err().contains("no condition"));
    }
}
