//! Judging a try, and what people read.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use crate::compare::fail_if::tests::run_of;

fn tried(slo: &str, change: impl FnOnce(&mut RunResult)) -> Try {
    let mut result = run_of(10.0);
    change(&mut result);
    judge(&[parse_slo(slo).unwrap()], 4000.0, false, &result)
}

#[test]
fn a_rate_passes_when_the_run_is_ok_and_every_objective_holds() {
    let good = tried("route.p99 < 1ms", |_| ());
    assert!(good.passed);
    assert_eq!((good.p50_us, good.p99_us), (Some(500.0), Some(990.0)));
    assert_eq!((good.cpu_us, good.answered), (Some(10.0), Some(100.0)));
    assert_eq!(good.slo_values, [Some(990.0)]);
    assert!(!tried("route.p99 < 990us", |_| ()).passed);
    assert!(
        !tried("cluster.p99 < 1s", |_| ()).passed,
        "nobody asked 106"
    );
    let saturated = |result: &mut RunResult| result.verdict = Verdict::ServerSaturated;
    assert!(!tried("route.p99 < 1ms", saturated).passed);
}

#[test]
fn an_objective_is_absolute() {
    assert!(
        parse_slo("route.p99 < 1.1x")
            .unwrap_err()
            .contains("no other server")
    );
    assert!(
        parse_slo("rout.p99 < 1ms")
            .unwrap_err()
            .contains("no metric")
    );
    assert!(parse_rate("0").is_err() && parse_rate("nan").is_err());
    assert_eq!(parse_rate("2500"), Ok(2500.0));
}

fn found(knee: Option<f64>, is_tool_the_limit: bool) -> Found {
    let mut lost = tried("route.p99 < 990us", |_| ());
    lost.rate = 8000.0;
    Found {
        format: FORMAT.to_owned(),
        version: VERSION,
        tool: "loadgen 0.1.0".to_owned(),
        slo: vec!["route.p99 < 1ms".to_owned()],
        knee,
        failed: Some(8000.0),
        is_tool_the_limit,
        tries: vec![tried("route.p99 < 1ms", |_| ()), lost],
        flags: Vec::new(),
        exit_code: 0,
    }
}

#[test]
fn the_screen_has_every_try_and_the_knee() {
    let text = screen(&found(Some(4000.0), false));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("p99        cpu  outcome"), "{text}");
    assert_eq!(
        lines[1],
        "      4k/s       100/s     500 us     990 us    10.0 us  passed"
    );
    assert!(lines[2].ends_with("objective missed"), "{text}");
    assert_eq!(
        lines[4],
        "knee: 4k route reads/s with route.p99 < 1ms (passed 1 times, failed never)"
    );
    assert_eq!(lines[5], "not sustained: 8k/s");
}

#[test]
fn a_tool_that_is_the_limit_says_so() {
    let text = screen(&found(Some(4000.0), true));
    assert!(
        text.contains("the tool is the limit: it was late itself at 8k/s"),
        "{text}"
    );
    let text = screen(&found(None, false));
    assert!(
        text.contains("no knee: route.p99 < 1ms holds at no rate"),
        "{text}"
    );
}

/// Version 1. A change here needs another version, or readers break silently.
const SCHEMA: &str = "\
/exit_code number
/failed number
/flags empty
/format string
/is_tool_the_limit bool
/knee number
/slo[] string
/tool string
/tries[]/answered number
/tries[]/confirms bool
/tries[]/cpu_us number
/tries[]/p50_us number
/tries[]/p99_us number
/tries[]/passed bool
/tries[]/rate number
/tries[]/slo_values[] number
/tries[]/verdict string
/version number";

#[test]
fn the_form_of_version_1_does_not_change() {
    let value = serde_json::to_value(found(Some(4000.0), false)).unwrap();
    let mut lines = Vec::new();
    crate::result::tests::schema("", &value, &mut lines);
    assert_eq!(lines.join("\n"), SCHEMA);
}
