//! The tool must notice every fault of a server, and name it.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::faulty::{Fault, serve};
use crate::tool::{run, start};
use loadgen::verdict::Verdict;

/// Runs against a server with this fault, and expects this verdict because of faults by this name.
fn expect(fault: Fault, words: &[&str], verdict: Verdict, name: &str) {
    let file = format!("fault-{fault:?}").replace(['(', ')', '.'], "-");
    let (code, text, result) = run(serve(fault), &file, words);
    assert_eq!(result.verdict, verdict, "{fault:?}\n{text}");
    assert_eq!(code, verdict.exit_code(), "{text}");
    assert!(
        result.faults[name] > 0,
        "{fault:?} is not called {name}\n{text}"
    );
    assert!(
        text.contains(verdict.text()) && text.contains(name),
        "{text}"
    );
    let found = result
        .findings
        .iter()
        .any(|finding| finding.starts_with(name));
    assert!(found, "{:?}", result.findings);
}

#[test]
fn a_right_server_is_ok() {
    let (code, text, result) = run(serve(Fault::None), "fault-none", &[]);
    assert_eq!((code, result.verdict), (0, Verdict::Ok), "{text}");
    assert!(result.faults.values().all(|count| *count == 0), "{text}");
    assert!(
        result.checks.in_full > 100 && result.checks.equal > 100,
        "{text}"
    );
    assert_eq!(result.checks.unread, 0, "{text}");
}

#[test]
fn a_wrong_route_is_called_wrong() {
    expect(Fault::WrongRoute, &[], Verdict::WrongAnswers, "wrong");
}

#[test]
fn a_lost_broker_is_called_lost() {
    expect(Fault::LostBroker, &[], Verdict::WrongAnswers, "lost");
}

#[test]
fn a_broker_that_the_cluster_lacks_is_called_lost() {
    expect(
        Fault::LostInCluster,
        &["--clients=1"],
        Verdict::WrongAnswers,
        "lost",
    );
}

#[test]
fn a_broker_that_stays_is_called_a_ghost() {
    let words = [
        "--scenario=zone-loss",
        "--lose=50%",
        "--return-after=0",
        "--removal-window=200ms",
    ];
    expect(Fault::Ghost, &words, Verdict::WrongAnswers, "ghost");
}

#[test]
fn an_old_answer_is_called_stale() {
    let words = ["--scenario=topic-churn", "--churn=40"];
    expect(Fault::Stale, &words, Verdict::WrongAnswers, "stale");
}

#[test]
fn late_answers_are_called_late() {
    let words = ["--timeout=400ms"];
    let fault = Fault::Late(Duration::from_millis(600));
    expect(fault, &words, Verdict::ServerSaturated, "late");
}

#[test]
fn a_frame_that_ends_early_is_called_cut() {
    expect(Fault::CutFrame, &[], Verdict::WrongAnswers, "cut-frame");
}

#[test]
fn one_answer_for_everything_is_called_wrong() {
    expect(Fault::Constant, &[], Verdict::WrongAnswers, "wrong");
}

#[test]
fn an_answer_to_nothing_is_called_garbled() {
    expect(Fault::OtherOpaque, &[], Verdict::WrongAnswers, "garbled");
}

#[test]
fn a_refusal_for_overload_is_called_so() {
    let words = ["--version-query", "--scenario=topic-churn", "--churn=40"];
    expect(
        Fault::Overload,
        &words,
        Verdict::ServerSaturated,
        "overloaded",
    );
}

#[test]
fn a_connection_that_the_server_closes_is_called_closed() {
    expect(Fault::Close, &[], Verdict::WrongAnswers, "closed");
}

#[test]
fn a_tool_that_was_stopped_for_a_while_says_that_it_was_late() {
    let running = start(serve(Fault::None), "tool-late", &["--late-limit=2ms"]);
    sleep(Duration::from_millis(2500));
    let signal = |name: &str| {
        let status = Command::new("kill")
            .args([name, &running.pid().to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    sleep(Duration::from_millis(700));
    signal("-CONT");
    let (code, text, result) = running.finish();
    assert_eq!((code, result.verdict), (3, Verdict::ToolLate), "{text}");
    assert!(text.contains("TOOL LATE"), "{text}");
}
