//! `compare` as its users run it. Whether it says "same" is not asserted: that depends on what
//! else the machine does.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use loadgen::compare::judge::Word;
use loadgen::compare::report::Comparison;

use crate::faulty::{Fault, serve};
use crate::real::binary;

/// Short runs of a small cluster, whatever the machine of the test is busy with.
pub(crate) const QUICK: [&str; 8] = [
    "--brokers=20",
    "--topics=30",
    "--clients=10",
    "--warmup=200ms",
    "--late-limit=60s",
    "--timeout=10s",
    "--check-share=100%",
    "--quiet",
];

fn tool() -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    tool.arg("compare");
    tool
}

fn fresh_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Its exit code, and all that it printed.
fn said(output: &Output) -> (Option<i32>, String) {
    let all = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), all)
}

fn read(path: &Path) -> Comparison {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Compares the server with itself in so many rounds.
fn with_itself(folder: &Path, words: &[&str]) -> Output {
    tool()
        .arg("--a")
        .arg(binary())
        .arg("--b")
        .arg(binary())
        .args(QUICK)
        .args(["--duration=1s", "--rate=200"])
        .args(words)
        .arg("--out")
        .arg(folder)
        .arg("--json")
        .arg(folder.join("comparison.json"))
        .arg("--md")
        .arg(folder.join("comparison.md"))
        .output()
        .unwrap()
}

/// Where the servers of a comparison listened.
fn addrs(folder: &Path) -> Vec<SocketAddr> {
    let mut addrs = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let log = path.extension().is_some_and(|extension| extension == "log");
        if let Some(text) = log.then(|| std::fs::read_to_string(&path).unwrap()) {
            let port = text.split("0.0.0.0:").nth(1).map(str::trim);
            addrs.extend(
                port.map(|port| format!("127.0.0.1:{port}").parse::<SocketAddr>().unwrap()),
            );
        }
    }
    addrs
}

#[test]
fn a_server_is_compared_with_itself_and_its_results_once_more() {
    let folder = fresh_folder("compare-itself");
    let output = with_itself(
        &folder,
        &["--rounds=2", "--warm-rounds=1", "--fail-if=cpu > 50x"],
    );
    let (code, all) = said(&output);
    assert_eq!(code, Some(0), "{all}");
    let markdown = std::fs::read_to_string(folder.join("comparison.md")).unwrap();
    assert_eq!(text(&output.stdout), markdown);
    assert!(markdown.starts_with("### B is "), "{markdown}");
    assert!(
        markdown.contains("fail if `cpu > 50x`: **passed**"),
        "{markdown}"
    );

    let found = read(&folder.join("comparison.json"));
    assert_eq!((found.rounds, found.exit_code), (2, 0));
    assert_ne!(found.verdict, Word::Unknown, "{markdown}");
    let primaries = found.rows.iter().filter(|row| row.is_primary);
    let names: Vec<&str> = primaries.map(|row| row.metric.as_str()).collect();
    assert_eq!(names, ["cpu", "route.service.p50", "route.service.p99"]);
    for row in &found.rows {
        let (low, high) = row.interval.unwrap();
        assert!(
            row.a > 0.0 && low <= row.ratio && row.ratio <= high,
            "{row:?}"
        );
        assert_eq!(row.rounds.len(), 2);
    }
    let servers = addrs(&folder);
    assert_eq!(servers.len(), 6, "two for each round");
    assert!(servers.iter().all(|addr| TcpStream::connect(addr).is_err()));
    stored_results_are_compared(&folder);
}

/// The results of the runs are files like any other.
fn stored_results_are_compared(folder: &Path) {
    let run = |words: &[&str]| said(&tool().current_dir(folder).args(words).output().unwrap());
    let (code, pair) = run(&["round1-1a.json", "round1-2b.json"]);
    assert_eq!(code, Some(0), "{pair}");
    assert!(
        pair.contains("**unknown**") && pair.contains("no interval"),
        "{pair}"
    );
    let lists = [
        "round1-1a.json,round2-2a.json",
        "round1-2b.json,round2-1b.json",
    ];
    let (code, rounds) = run(&lists);
    assert_eq!(code, Some(0), "{rounds}");
    assert!(rounds.contains("geometric means of 2 rounds"), "{rounds}");
    let (code, failed) = run(&["round1-1a.json", "round1-2b.json", "--fail-if=cpu > 0.001x"]);
    assert_eq!(code, Some(6), "{failed}");
    assert!(failed.contains("**FAILED**"), "{failed}");

    let text = std::fs::read_to_string(folder.join("round1-1a.json")).unwrap();
    let other = text.replace("--seed=1\"", "--seed=2\"");
    let digest = text.split("\"plan_digest\": \"").nth(1).unwrap();
    let other = other.replace(&digest[..16], "0000000000000000");
    std::fs::write(folder.join("other.json"), other).unwrap();
    let (code, refused) = run(&["round1-1a.json", "other.json"]);
    assert_eq!(code, Some(1), "{refused}");
    assert!(refused.contains("different plans"), "{refused}");
    assert!(refused.contains("--seed=1 against --seed=2"), "{refused}");
}

#[test]
fn wrong_answers_end_a_comparison() {
    let (right, wrong) = (serve(Fault::None), serve(Fault::WrongRoute));
    let output = tool()
        .args([format!("--a={right}"), format!("--b={wrong}")])
        .args(QUICK)
        .args(["--duration=1s", "--rate=200"])
        .arg("--out")
        .arg(fresh_folder("compare-wrong"))
        .output()
        .unwrap();
    let (code, all) = said(&output);
    assert_eq!(code, Some(4), "{all}");
    assert!(
        all.contains("no comparison, because of WRONG ANSWERS"),
        "{all}"
    );
    assert!(output.stdout.is_empty(), "{all}");
}

#[test]
fn what_was_asked_for_and_is_not_there_is_named_early() {
    let addr = serve(Fault::None);
    let output = tool()
        .args([format!("--a={addr}"), format!("--b={addr}")])
        .args(QUICK)
        .args(["--duration=500ms", "--rate=200", "--fail-if=cpu > 2x"])
        .arg("--out")
        .arg(fresh_folder("compare-absent"))
        .output()
        .unwrap();
    let (code, all) = said(&output);
    assert_eq!(code, Some(1), "{all}");
    assert!(
        all.contains("there is no `cpu`: give --a-pid and --b-pid"),
        "{all}"
    );
    let output = tool().args(["--a=./x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "one server alone");
    let bad = ["x.json", "y.json", "--fail-if=rout.p99 > 2ms"];
    let (code, all) = said(&tool().args(bad).output().unwrap());
    assert_eq!(code, Some(2), "{all}");
    assert!(all.contains("KIND one of register,"), "{all}");
}

#[test]
fn a_comparison_that_is_told_to_end_leaves_no_server() {
    let folder = fresh_folder("compare-ended");
    let mut child = tool()
        .arg("--a")
        .arg(binary())
        .arg("--b")
        .arg(binary())
        .args(QUICK)
        .arg("--duration=60s")
        .arg("--out")
        .arg(&folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while addrs(&folder).len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "no servers");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(told.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    // They were killed; the kernel needs a moment to close their sockets.
    let killed = Instant::now();
    while addrs(&folder)
        .iter()
        .any(|addr| TcpStream::connect(addr).is_ok())
    {
        assert!(
            killed.elapsed() < Duration::from_secs(10),
            "a server is left"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
