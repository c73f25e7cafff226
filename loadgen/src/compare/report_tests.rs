//! The form of a comparison, and what people read in it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use crate::result::tests::schema;

fn row(metric: &str, is_primary: bool, interval: Option<(f64, f64)>, verdict: Word) -> Row {
    Row {
        metric: metric.to_owned(),
        is_primary,
        a: 20.0,
        b: 24.0,
        ratio: 1.2,
        median: 1.21,
        interval,
        confidence: 0.975,
        rounds: vec![1.19, 1.21, 1.2],
        verdict,
    }
}

fn example(interval: Option<(f64, f64)>, verdict: Word) -> Comparison {
    Comparison {
        format: FORMAT.to_owned(),
        version: VERSION,
        tool: "loadgen 0.1.0".to_owned(),
        a: "./old".to_owned(),
        b: "./new".to_owned(),
        plan_digest: "0123456789abcdef".to_owned(),
        flags: vec!["--brokers=10".to_owned()],
        host: BTreeMap::from([("cpus".to_owned(), "2".to_owned())]),
        server_cpus: vec![0],
        rounds: 3,
        least_effect: 0.05,
        verdict,
        rows: vec![
            row("cpu", true, interval, verdict),
            row("route.p99", false, interval, Word::Same),
        ],
        checked: vec![Checked {
            fail_if: "cpu > 1.10x".to_owned(),
            failed: true,
            found: "1.200x (1.100 to 1.331)".to_owned(),
        }],
        notes: vec!["a note".to_owned()],
        exit_code: 6,
    }
}

#[test]
fn markdown_has_the_verdict_first_and_tables_that_line_up() {
    let text = example(Some((1.1, 1.331)), Word::Slower).markdown();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "### B is **slower** than A");
    assert_eq!(
        lines[5..8],
        [
            "| primary metric |       A |       B |   B/A |       interval | verdict |",
            "|:---------------|--------:|--------:|------:|---------------:|--------:|",
            "| cpu            | 20.0 us | 24.0 us | 1.200 | 1.100 to 1.331 |  slower |",
        ]
    );
    for part in [
        "geometric means of 3 rounds; 97.5 % intervals",
        "differ by 5.0 % or more",
        "could see: cpu ±10 %.",
        "- fail if `cpu > 1.10x`: **FAILED**, found 1.200x (1.100 to 1.331)",
        "| route.p99 |",
        "- a note",
        "2 CPUs, Linux unknown, servers on CPU 0",
        "- `loadgen --brokers=10`",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn one_pair_says_that_it_shows_nothing() {
    let text = example(None, Word::Unknown).markdown();
    assert!(text.starts_with("### B is not comparable with A by this: **unknown**"));
    assert!(text.contains("|     none | unknown |"), "{text}");
    assert!(
        text.contains("nothing tells this ratio from noise"),
        "{text}"
    );
}

/// Version 1. A change here needs another version, or readers break silently.
const SCHEMA: &str = "\
/a string
/b string
/checked[]/fail_if string
/checked[]/failed bool
/checked[]/found string
/exit_code number
/flags[] string
/format string
/host map of 1
/least_effect number
/notes[] string
/plan_digest string
/rounds number
/rows[]/a number
/rows[]/b number
/rows[]/confidence number
/rows[]/interval[] number
/rows[]/is_primary bool
/rows[]/median number
/rows[]/metric string
/rows[]/ratio number
/rows[]/rounds[] number
/rows[]/verdict string
/server_cpus[] number
/tool string
/verdict string
/version number";

#[test]
fn the_form_of_version_1_does_not_change() {
    let value = serde_json::to_value(example(Some((1.1, 1.331)), Word::Slower)).unwrap();
    let mut lines = Vec::new();
    schema("", &value, &mut lines);
    assert_eq!(lines.join("\n"), SCHEMA);
}
