//! Ratios, intervals and words with exact values.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use crate::compare::fail_if::tests::run_of;

/// Rounds in which A always needs 10 us of CPU and B these; route reads take both 500 us.
fn rounds(cpu: &[f64]) -> Vec<Round> {
    cpu.iter()
        .map(|us| Round {
            a: vec![run_of(10.0), run_of(10.0)],
            b: vec![run_of(*us), run_of(*us)],
        })
        .collect()
}

fn rules() -> Rules {
    Rules {
        primaries: usual_primaries(false),
        others: Metric::all(),
        least_effect: 0.05,
    }
}

fn cpu_row(cpu: &[f64]) -> Row {
    judge(&rounds(cpu), &rules()).swap_remove(0)
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 5e-4, "{value} and {expected}");
}

#[test]
fn a_row_has_the_ratios_of_the_rounds() {
    let row = cpu_row(&[12.0, 12.5, 11.5]);
    assert_eq!((row.metric.as_str(), row.is_primary), ("cpu", true));
    assert_eq!((row.a, row.b), (10.0, 12.0));
    for (ratio, expected) in row.rounds.iter().zip([1.2, 1.25, 1.15]) {
        close(*ratio, expected);
    }
    close(row.ratio, 1.725_f64.cbrt());
    close(row.median, 1.2);
    // Three primary metrics share 5 %: t with 2 degrees at 98.33 % is 7.6488; the logarithms
    // deviate by 0.041694.
    close(row.confidence, 0.98333);
    let reach = 7.6488 * 0.041_694 / 3_f64.sqrt();
    let (low, high) = row.interval.unwrap();
    close(low, (row.ratio.ln() - reach).exp());
    close(high, (row.ratio.ln() + reach).exp());
    assert_eq!(
        row.verdict,
        Word::Same,
        "1.2 times, but three rounds cannot show it"
    );
}

#[test]
fn a_round_is_the_geometric_mean_of_its_runs() {
    let round = Round {
        a: vec![run_of(8.0), run_of(18.0)],
        b: vec![run_of(24.0), run_of(6.0)],
    };
    let row = judge(&[round], &rules()).swap_remove(0);
    close(row.rounds[0], 1.0);
    assert_eq!((row.a, row.b, row.interval), (13.0, 15.0, None));
    assert_eq!(row.verdict, Word::Unknown, "one round has no interval");
}

#[test]
fn a_difference_must_be_shown_and_must_matter() {
    let slower = cpu_row(&[12.0, 12.1, 11.9, 12.0, 12.0]);
    assert_eq!(slower.verdict, Word::Slower);
    let faster = cpu_row(&[8.0, 8.1, 7.9, 8.0, 8.0]);
    assert_eq!(faster.verdict, Word::Faster);
    let tiny = cpu_row(&[10.3, 10.31, 10.29, 10.3, 10.3]);
    assert!(tiny.interval.unwrap().0 > 1.0, "shown");
    assert_eq!(tiny.verdict, Word::Same, "but less than 5 %");
    let noisy = cpu_row(&[14.0, 9.0, 15.0, 8.0, 13.0]);
    assert!(noisy.ratio > 1.05 && noisy.median > 1.05, "large");
    assert_eq!(noisy.verdict, Word::Same, "but not shown");
}

#[test]
fn one_disturbed_round_does_not_decide() {
    let estimate = Estimate {
        ratio: 1.2,
        median: 1.01,
        interval: Some((1.05, 1.4)),
    };
    assert_eq!(word(&estimate, false, 0.05), Word::Same);
}

#[test]
fn more_answers_are_better() {
    let estimate = |ratio| Estimate {
        ratio,
        median: ratio,
        interval: Some((ratio - 0.01, ratio + 0.01)),
    };
    assert_eq!(word(&estimate(1.2), true, 0.05), Word::Faster);
    assert_eq!(word(&estimate(0.8), true, 0.05), Word::Slower);
    assert_eq!(word(&estimate(1.2), false, 0.05), Word::Slower);
}

#[test]
fn only_primary_metrics_make_the_verdict() {
    let rows = |words: &[(bool, Word)]| -> Vec<Row> {
        let row = cpu_row(&[10.0, 10.0]);
        words
            .iter()
            .map(|(is_primary, verdict)| Row {
                is_primary: *is_primary,
                verdict: *verdict,
                ..row.clone()
            })
            .collect()
    };
    let of = |words: &[(bool, Word)]| overall(&rows(words));
    assert_eq!(of(&[(true, Word::Same), (false, Word::Slower)]), Word::Same);
    assert_eq!(
        of(&[(true, Word::Same), (true, Word::Slower)]),
        Word::Slower
    );
    assert_eq!(
        of(&[(true, Word::Faster), (true, Word::Same)]),
        Word::Faster
    );
    assert_eq!(
        of(&[(true, Word::Faster), (true, Word::Slower)]),
        Word::Mixed
    );
    assert_eq!(of(&[(true, Word::Unknown)]), Word::Unknown);
    assert_eq!(of(&[]), Word::Unknown);
}

#[test]
fn a_metric_without_a_value_in_every_run_has_no_row() {
    let mut rounds = rounds(&[12.0, 12.0]);
    rounds[1].b[0].server = None;
    let rows = judge(&rounds, &rules());
    let primaries: Vec<&str> = rows
        .iter()
        .filter(|row| row.is_primary)
        .map(|row| row.metric.as_str())
        .collect();
    assert_eq!(primaries, ["route.service.p50", "route.service.p99"]);
    assert_eq!(rows[0].confidence, 0.975, "two share the error");
    assert!(rows.iter().all(|row| row.metric != "memory"));
    assert!(rows.iter().any(|row| row.metric == "visible.p50"));
}
