//! Conditions on numbers of a result: `route.p99 < 2ms`, `cpu > 1.10x`.
//!
//! One reader for `--fail-if` and `--slo`. A limit with `x` is a ratio of two servers; any other
//! has the unit of its metric.

use std::fmt::{self, Display};

use thiserror::Error;

use crate::metric::{Metric, MetricError, Unit};
use crate::units::{UnitError, parse_duration};

/// A metric, an order, and a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The number.
    pub metric: Metric,
    /// How it must stand to the limit.
    pub order: Order,
    /// The limit.
    pub limit: Limit,
    /// As it was written.
    text: String,
}

/// How a number stands to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// To what a number is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The other server's number, so many times.
    Ratio(f64),
    /// A value: microseconds, per second, bytes, or nothing.
    Value(f64),
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConditionError {
    /// No order in it.
    #[error("`{0}` is no condition: write METRIC < LIMIT, with <, <=, > or >=")]
    Shape(String),
    /// An unknown metric.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// No time.
    #[error(transparent)]
    Time(#[from] UnitError),
    /// No number with the unit of this metric.
    #[error("`{text}` is no limit for {metric}: write {forms}, or a ratio as 1.10x")]
    Limit {
        /// The limit.
        text: String,
        /// The metric.
        metric: String,
        /// What would be one.
        forms: &'static str,
    },
}

/// `order` in text, the longer first.
const ORDERS: [(&str, Order); 4] = [
    ("<=", Order::AtMost),
    (">=", Order::AtLeast),
    ("<", Order::Below),
    (">", Order::Above),
];

impl Condition {
    /// Reads `METRIC ORDER LIMIT`.
    ///
    /// # Errors
    /// Says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let split = ORDERS
            .into_iter()
            .find_map(|(sign, order)| Some((text.split_once(sign)?, order)));
        let Some(((name, limit), order)) = split else {
            return Err(ConditionError::Shape(text.to_owned()));
        };
        let metric = Metric::parse(name.trim())?;
        Ok(Self {
            metric,
            order,
            limit: parse_limit(metric, limit.trim())?,
            text: text.trim().to_owned(),
        })
    }

    /// Whether this number stands so to this limit.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        let (Limit::Ratio(limit) | Limit::Value(limit)) = self.limit;
        match self.order {
            Order::Below => value < limit,
            Order::AtMost => value <= limit,
            Order::Above => value > limit,
            Order::AtLeast => value >= limit,
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse_limit(metric: Metric, text: &str) -> Result<Limit, ConditionError> {
    let number = |text: &str| {
        let number: Option<f64> = text.trim().parse().ok();
        number.filter(|number| number.is_finite() && *number >= 0.0)
    };
    let wrong = |forms| ConditionError::Limit {
        text: text.to_owned(),
        metric: metric.name(),
        forms,
    };
    if let Some(ratio) = text.strip_suffix('x') {
        let ratio = number(ratio).ok_or_else(|| wrong("a number"))?;
        return Ok(Limit::Ratio(ratio));
    }
    let scaled = |scales: &[(&str, f64)]| {
        let found = scales
            .iter()
            .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
        let (digits, scale) = found.unwrap_or((text, &1.0));
        number(digits).map(|number| number * scale)
    };
    let value = match metric.unit() {
        Unit::Time => parse_duration(text)?.as_secs_f64() * 1e6,
        Unit::Rate => scaled(&[("k", 1e3), ("M", 1e6)])
            .ok_or_else(|| wrong("a number per second: 950, 48.2k or 1.3M"))?,
        Unit::Bytes => scaled(&[
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
        ])
        .ok_or_else(|| wrong("bytes: 900KiB, 200MiB or 1.5GiB"))?,
        Unit::Plain => scaled(&[]).ok_or_else(|| wrong("a number"))?,
    };
    Ok(Limit::Value(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn parts(text: &str) -> (String, Order, Limit) {
        let read = Condition::parse(text).unwrap();
        assert_eq!(read.to_string(), text.trim());
        (read.metric.name(), read.order, read.limit)
    }

    #[test]
    fn conditions_have_a_metric_an_order_and_a_limit() {
        let of = |name: &str, order, limit| (name.to_owned(), order, limit);
        assert_eq!(
            parts("route.p99 < 2ms"),
            of("route.p99", Order::Below, Limit::Value(2000.0))
        );
        assert_eq!(
            parts(" cpu>1.10x "),
            of("cpu", Order::Above, Limit::Ratio(1.1))
        );
        assert_eq!(
            parts("memory <= 1.5GiB"),
            of("memory", Order::AtMost, Limit::Value(1_610_612_736.0))
        );
        assert_eq!(
            parts("route.rate >= 48.2k"),
            of("route.rate", Order::AtLeast, Limit::Value(48_200.0))
        );
        assert_eq!(
            parts("collateral > 2"),
            of("collateral", Order::Above, Limit::Value(2.0))
        );
    }

    #[test]
    fn a_limit_is_inside_or_outside_as_written() {
        let holds = |text: &str, value| Condition::parse(text).unwrap().holds(value);
        assert!(holds("route.p99 < 2ms", 1999.9) && !holds("route.p99 < 2ms", 2000.0));
        assert!(holds("route.p99 <= 2ms", 2000.0) && !holds("route.p99 <= 2ms", 2000.1));
        assert!(holds("cpu > 1.1x", 1.11) && !holds("cpu > 1.1x", 1.1));
        assert!(holds("cpu >= 1.1x", 1.1) && !holds("cpu >= 1.1x", 1.09));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let error = |text: &str| Condition::parse(text).unwrap_err().to_string();
        assert!(error("route.p99 = 2ms").contains("<, <=, > or >="));
        assert!(error("rout.p99 < 2ms").contains("one of register, change"));
        assert!(error("cpu.route < 2us").contains("write `cpu`"));
        assert!(error("route.p99 < 2").contains("write 500us, 200ms"));
        assert!(error("memory < 2ms").contains("200MiB"));
        assert!(error("route.rate > fast").contains("48.2k"));
        assert!(error("cpu > x").contains("1.10x"));
        assert!(error("cpu > -1x").contains("1.10x"));
        assert!(error("collateral > infinite").contains("a number"));
    }
}
