//! The form of a result, and the numbers in it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;

use super::*;

/// A result with something in every part.
pub(crate) fn example() -> RunResult {
    let mut sum = Interval::default();
    for op in [Op::Route, Op::Register] {
        let record = &mut sum.ops[op.index()];
        (record.sent, record.answered) = (1000, 1000);
        for us in 1..=1000 {
            record.response.record(us * 1000);
            record.service.record(us * 1000);
            record.own.record(1000);
        }
    }
    sum.ops[Op::Heartbeat.index()].sent = 10;
    sum.weather[0].record(1_000_000);
    sum.weather[1].record(2_500_000);
    sum.clocks[0].record(5_000_000);
    sum.fault(crate::check::Finding::new(
        Fault::Ghost,
        "broker-00001 is shown",
    ));
    sum.checked = [3, 2, 1];
    (sum.busy, sum.wall) = (250, 1000);
    let second = |at_s: f64| Second {
        at_s,
        answered: 500,
        p50_us: 200,
        p99_us: 900 + at_s as u64,
        ..Second::default()
    };
    let judgement = Judgement {
        verdict: Verdict::WrongAnswers,
        reasons: vec!["1 ghost".to_owned()],
    };
    let around = Circumstances {
        provenance: Provenance {
            tool: "loadgen 0.1.0".to_owned(),
            flags: vec!["--brokers=10".to_owned()],
            seed: 1,
            plan_digest: "0123456789abcdef".to_owned(),
            began_unix_ms: 1_700_000_000_000,
            host: BTreeMap::from([("cpus".to_owned(), "2".to_owned())]),
            server_version: 479,
            cluster: [10, 5, 20, 100],
        },
        window_s: 10.0,
        storm_s: Some((2.0, 4.0)),
        recovery_ms: Some(123.4567),
        threads: 1,
        setup_s: 0.5,
        server: Some(Server {
            cpu_s: 1.5,
            cpu_us_per_request: 75.0,
            rss_bytes: 1 << 20,
            threads: 3,
        }),
        series: (0..10).map(|at| second(f64::from(at))).collect(),
    };
    RunResult::new(&sum, judgement, around)
}

/// Every path of a value with the kind of what stands there; items of arrays are alike.
pub(crate) fn schema(path: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) if path.ends_with("host") || path.ends_with("clocks") => {
            out.push(format!("{path} map of {}", map.len()));
        }
        Value::Object(map) => {
            for (key, value) in map {
                schema(&format!("{path}/{key}"), value, out);
            }
        }
        Value::Array(items) => match items.first() {
            Some(first) => schema(&format!("{path}[]"), first, out),
            None => out.push(format!("{path} empty")),
        },
        Value::String(_) => out.push(format!("{path} string")),
        Value::Number(_) => out.push(format!("{path} number")),
        Value::Bool(_) => out.push(format!("{path} bool")),
        Value::Null => out.push(format!("{path} null")),
    }
}

/// Version 1. A change here needs another version, or readers break silently.
const SCHEMA: &str = include_str!("result_schema_v1.txt");

#[test]
fn the_form_of_version_1_does_not_change() {
    let value = serde_json::to_value(example()).unwrap();
    let mut lines = Vec::new();
    schema("", &value, &mut lines);
    assert_eq!(lines.join("\n"), SCHEMA.trim_end());
}

#[test]
fn a_result_is_read_back_and_other_versions_are_refused() {
    let result = example();
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(RunResult::read(&text).unwrap(), result);
    let other = text.replace("\"version\":1", "\"version\":2");
    assert_eq!(
        RunResult::read(&other).unwrap_err(),
        "loadgen-run 2 instead of loadgen-run 1"
    );
    assert!(RunResult::read("{}").is_err());
}

#[test]
fn quantiles_and_ratios_are_exact() {
    let result = example();
    let route = result.ops.iter().find(|op| op.code == 105).unwrap();
    assert_eq!((route.response.p50_us, route.response.p99_us), (500, 990));
    assert_eq!(
        (route.response.max_us, route.response.mean_us),
        (1000, 500.5)
    );
    assert_eq!(route.per_second, 100.0);
    assert_eq!(route.curve.first(), Some(&(0.0, 1)));
    assert_eq!(route.curve.last(), Some(&(100.0, 1000)));
    assert_eq!(
        result.storm.collateral,
        Some(2.501),
        "2,500 over 1,000 within three digits"
    );
    assert_eq!(result.storm.recovery_ms, Some(123.457));
    assert_eq!((result.faults["ghost"], result.exit_code), (1, 4));
    assert_eq!(result.tool.busy, 0.25);
}
