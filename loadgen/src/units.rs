//! Durations and shares as people type them, and numbers as people read them.

use std::time::Duration;

use thiserror::Error;

/// Why a text is no duration or share.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Not a number with a unit.
    #[error("`{0}` is no duration: write 500us, 200ms, 30s, 2m or 0")]
    Duration(String),
    /// Not a number between 0 and 100 %.
    #[error("`{0}` is no share: write 20% or 0.2")]
    Share(String),
}

/// Reads `500us`, `200ms`, `1.5s`, `2m`, or a bare `0`.
///
/// # Errors
/// Anything else.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError::Duration(text.to_owned());
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Reads `20%` or `0.2` as thousandths, so that a share is an exact number.
///
/// # Errors
/// Anything that is not between nothing and all.
pub fn parse_share(text: &str) -> Result<u32, UnitError> {
    let wrong = || UnitError::Share(text.to_owned());
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 10.0),
        None => (text, 1000.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let thousandths = (number * scale).round();
    if !(0.0..=1000.0).contains(&thousandths) {
        return Err(wrong());
    }
    Ok(thousandths as u32)
}

/// Nanoseconds of a duration; more than 584 years are cut.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in the form that [`parse_duration`] reads, exact to the microsecond.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    let us = duration.as_micros();
    match us {
        0 => "0".to_owned(),
        _ if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ if us.is_multiple_of(1000) => format!("{}ms", us / 1000),
        _ => format!("{us}us"),
    }
}

/// Thousandths in the form that [`parse_share`] reads.
#[must_use]
pub fn share_text(thousandths: u32) -> String {
    if thousandths.is_multiple_of(10) {
        format!("{}%", thousandths / 10)
    } else {
        format!("{}.{}%", thousandths / 10, thousandths % 10)
    }
}

/// Microseconds as people read them: three digits and a unit.
#[must_use]
pub fn latency_text(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", three_digits(us as f64 / 1e3)),
        _ => format!("{} s", three_digits(us as f64 / 1e6)),
    }
}

/// A count as people read it: `950`, `48.2k`, `1.30M`.
#[must_use]
pub fn count_text(count: f64) -> String {
    match count {
        c if c < 1000.0 => three_digits(c),
        c if c < 1e6 => format!("{}k", three_digits(c / 1e3)),
        c if c < 1e9 => format!("{}M", three_digits(c / 1e6)),
        c => format!("{}G", three_digits(c / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 || v == v.trunc() => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn durations_are_read_and_written_alike() {
        for text in ["0", "500us", "200ms", "30s", "1500ms"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        for text in ["", "5", "s", "-1s", "1h", "1e400s", "nans"] {
            assert_eq!(
                parse_duration(text),
                Err(UnitError::Duration(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn shares_are_exact_to_a_thousandth() {
        assert_eq!(parse_share("20%"), Ok(200));
        assert_eq!(parse_share("0.2"), Ok(200));
        assert_eq!(parse_share("0.5%"), Ok(5));
        assert_eq!(share_text(200), "20%");
        assert_eq!(share_text(5), "0.5%");
        for text in ["101%", "2", "-1%", "half"] {
            assert_eq!(
                parse_share(text),
                Err(UnitError::Share(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let latencies = [0, 999, 1000, 1234, 45_678, 999_999, 2_500_000].map(latency_text);
        let expected = [
            "0 us", "999 us", "1 ms", "1.23 ms", "45.7 ms", "1000 ms", "2.50 s",
        ];
        assert_eq!(latencies, expected);
        let counts = [950.0, 48_213.0, 1_300_000.0].map(count_text);
        assert_eq!(counts, ["950", "48.2k", "1.30M"]);
    }
}
