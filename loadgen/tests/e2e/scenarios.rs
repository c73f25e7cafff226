//! Every scenario against the real server, small: it must pass, and must have done what it says.

use std::path::PathBuf;
use std::process::Command;

use crate::real::Real;
use crate::tool::run;
use loadgen::result::RunResult;
use loadgen::verdict::Verdict;

/// Runs a scenario that must pass.
fn passes(scenario: &str, words: &[&str]) -> RunResult {
    let server = Real::start(scenario);
    let name = format!("--scenario={scenario}");
    let pid = format!("--pid={}", server.pid());
    let mut all = vec![name.as_str(), pid.as_str()];
    all.extend_from_slice(words);
    let (code, text, result) = run(server.addr, scenario, &all);
    assert_eq!((code, result.verdict), (0, Verdict::Ok), "{text}");
    assert!(result.faults.values().all(|count| *count == 0), "{text}");
    assert!(result.checks.in_full > 0, "{text}");
    result
}

fn sent(result: &RunResult, op: &str) -> u64 {
    let found = result.ops.iter().find(|one| one.name == op);
    found.map_or(0, |one| one.sent)
}

fn times(result: &RunResult, clock: &str) -> u64 {
    result.clocks.get(clock).map_or(0, |times| times.count)
}

#[test]
fn steady_has_all_traffic_of_a_quiet_cluster_and_measures_the_server() {
    let result = passes("steady", &[]);
    // 40 brokers and 20 clients for 4 s.
    assert_eq!(sent(&result, "106 cluster"), 40 * 8);
    assert_eq!(sent(&result, "322 one-way"), 40 * 8);
    assert_eq!(sent(&result, "103 register"), 40 * 4);
    let reads = sent(&result, "105 route");
    assert!((700..=900).contains(&reads), "{reads}");
    let server = result.server.unwrap();
    assert!(
        server.cpu_s > 0.0 && server.cpu_us_per_request > 1.0,
        "{server:?}"
    );
    assert!(
        server.rss_bytes > 1 << 20 && server.threads > 1,
        "{server:?}"
    );
    assert!(result.series.len() >= 4);
}

#[test]
fn other_kinds_of_registrations_pass_too() {
    let words = [
        "--compressed",
        "--split=8",
        "--version-query",
        "--replicas=3",
    ];
    let result = passes("steady", &words);
    assert_eq!(sent(&result, "322 version"), 40 * 4);
}

#[test]
fn a_cold_start_ends_with_everybody_visible() {
    let result = passes("cold-start", &[]);
    assert_eq!(times(&result, "coming to visible"), 40);
    assert!(result.storm.recovery_ms.unwrap() > 0.0);
}

#[test]
fn a_restart_storm_ends_with_everybody_visible() {
    let result = passes(
        "restart-storm",
        &["--lose-spread=200ms", "--return-after=500ms"],
    );
    assert_eq!(times(&result, "coming to visible"), 40);
}

#[test]
fn a_rolling_restart_takes_everybody_in_turn() {
    let words = [
        "--lose-spread=1s",
        "--return-after=500ms",
        "--lose-after=500ms",
    ];
    let result = passes("rolling-restart", &words);
    assert_eq!(sent(&result, "104 unregister"), 40);
    assert_eq!(times(&result, "coming to visible"), 40);
}

#[test]
fn a_zone_that_closes_is_seen_to_go_and_to_come_back() {
    let words = [
        "--lose=30%",
        "--return-after=1500ms",
        "--lose-after=500ms",
        "--watch=50ms",
    ];
    let result = passes("zone-loss", &words);
    let gone = times(&result, "going to gone");
    assert!(
        gone > 3 && gone == times(&result, "coming to visible"),
        "{gone}"
    );
    let slowest = result.clocks["going to gone"].max_us;
    assert!(slowest < 1_000_000, "{slowest} us");
    assert!(result.storm.collateral.is_some());
}

#[test]
fn a_zone_that_falls_silent_expires() {
    let words = [
        "--lose=30%",
        "--heartbeat-timeout=4s",
        "--lose-after=500ms",
        "--duration=13s",
        "--watch=50ms",
    ];
    let result = passes("zone-silence", &words);
    assert!(times(&result, "going to gone") > 3, "{:?}", result.clocks);
}

#[test]
fn flapping_brokers_are_followed() {
    let words = [
        "--lose=20%",
        "--lose-every=1s",
        "--return-after=400ms",
        "--lose-after=200ms",
    ];
    let result = passes("flapping", &words);
    assert!(
        times(&result, "coming to visible") > 5,
        "{:?}",
        result.clocks
    );
}

#[test]
fn every_change_of_a_topic_is_visible_after_its_acknowledgement() {
    let result = passes("topic-churn", &["--churn=40"]);
    let changes = sent(&result, "103 change");
    assert!(changes > 50, "{changes}");
    assert_eq!(times(&result, "change to visible"), changes);
}

#[test]
fn herds_wide_topics_and_slow_readers_pass() {
    passes("thundering-herd", &["--poll=1s"]);
    passes("wide-topic", &["--clients=10", "--poll=500ms"]);
    let slow = passes("slow-readers", &["--slow-readers=5"]);
    assert_eq!(slow.tool.slow_closed, 0);
}

#[test]
fn a_closed_loop_measures_capacity() {
    let words = [
        "--closed",
        "--pipeline=4",
        "--heartbeat=0",
        "--cluster-poll=0",
        "--duration=2s",
    ];
    let result = passes("steady", &words);
    let route = result.ops.iter().find(|op| op.name == "105 route").unwrap();
    assert!(route.per_second > 2000.0, "{}", route.per_second);
}

#[test]
fn results_are_drawn_and_a_full_server_is_refused() {
    let server = Real::start("drawn");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let hlog = folder.join("drawn.hlog");
    let word = format!("--hlog={}", hlog.display());
    let (code, text, _) = run(server.addr, "drawn", &[&word, "--duration=2s"]);
    assert_eq!(code, 0, "{text}");
    let log = std::fs::read_to_string(hlog).unwrap();
    assert!(log.contains("Tag=105-route,"), "{log}");
    let picture = folder.join("drawn.svg");
    let status = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("plot")
        .arg(folder.join("drawn.json"))
        .arg(folder.join("drawn.json"))
        .arg("--out")
        .arg(&picture)
        .status();
    assert!(status.unwrap().success());
    let drawn = std::fs::read_to_string(picture).unwrap();
    assert_eq!(drawn.matches("<polyline").count(), 8);
    // The brokers of a run stay registered while their connections do; none are left here.
    let nobody = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["--addr=127.0.0.1:1", "--quiet"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    let text = String::from_utf8(nobody.stderr).unwrap();
    assert!(text.contains("127.0.0.1:1: "), "{text}");
}
