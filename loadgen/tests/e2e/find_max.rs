//! `find-max` as its users run it.

use std::path::PathBuf;
use std::process::Command;

use loadgen::find_max::Found;

use crate::compare::QUICK;
use crate::real::binary;

/// Searches up to 200 reads a second. Returns the exit code, what was printed, and the result.
fn search(name: &str, slo: &str) -> (Option<i32>, String, Found) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let json = folder.join("found.json");
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("find-max")
        .arg("--server")
        .arg(binary())
        .args(QUICK)
        .args(["--duration=500ms", "--start-rate=100", "--max-rate=200"])
        .args(["--confirm=1", "--slo", slo, "--slo", "memory < 10GiB"])
        .arg("--out")
        .arg(&folder)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8(output.stderr).unwrap();
    assert_eq!(problem, "", "{text}");
    let found = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    (output.status.code(), text, found)
}

#[test]
fn an_easy_objective_is_met_up_to_the_limit() {
    let (code, text, found) = search("find-max-easy", "route.p99 < 20s");
    assert_eq!((code, found.exit_code), (Some(0), 0), "{text}");
    let rates: Vec<f64> = found.tries.iter().map(|tried| tried.rate).collect();
    assert_eq!(rates, [100.0, 200.0, 200.0], "{text}");
    assert_eq!((found.knee, found.failed), (Some(200.0), None), "{text}");
    assert!(
        text.contains("knee: 200 route reads/s with route.p99 < 20s"),
        "{text}"
    );
}

#[test]
fn an_impossible_objective_is_met_at_no_rate() {
    let (code, text, found) = search("find-max-never", "route.p50 < 1us");
    assert_eq!((code, found.exit_code), (Some(6), 6), "{text}");
    assert_eq!(found.knee, None, "{text}");
    assert!(
        text.contains("no knee: route.p50 < 1us and memory < 10GiB"),
        "{text}"
    );
}
