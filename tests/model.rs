//! The model test: random sequences of commands, the server's pure half against the oracle.
//!
//! After each step the step's answers and notifications are compared, then everything that the
//! step may have touched; now and then every query there is. Both with and without the rule
//! for unchanged registrations, so that the rule itself is a law: it changes no answer.
//!
//! `MODEL_OPS=1000000 cargo test --release --test model` runs longer, `MODEL_SEED=7` elsewhere.
//! A failure is shrunk and printed as a list of steps, to be pasted into
//! `support/kept.rs`.

mod oracle;
#[path = "model/run.rs"]
mod run;
mod support;

use std::fmt::Write as _;

use proptest::test_runner::{
    Config, FileFailurePersistence, RngSeed, TestCaseError, TestError, TestRunner,
};

use run::replay;
use support::kept;
use support::node::Node;
use support::workload::sequences;

/// Steps of one sequence: long enough for a table to fill up, short enough to shrink.
const SEQUENCE: usize = 250;

#[test]
fn answers_of_the_oracle() {
    check(false);
}

#[test]
fn answers_of_the_oracle_with_the_unchanged_rule() {
    check(true);
}

#[test]
fn kept_sequences() {
    let mut failures = String::new();
    for (name, ops) in kept::sequences() {
        for rule in [false, true] {
            if let Err(reason) = replay(Node::new(&[], rule), &ops) {
                let _ = writeln!(failures, "{name}, unchanged rule {rule}: {reason}");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn check(rule: bool) {
    let number = |name, default| {
        std::env::var(name)
            .ok()
            .and_then(|text: String| text.parse().ok())
            .unwrap_or(default)
    };
    // a sequence has half of its greatest length on average
    let cases = number("MODEL_OPS", 20_000_u64).div_ceil(SEQUENCE as u64 / 2);
    let regressions = FileFailurePersistence::Direct("tests/model.proptest-regressions");
    let mut runner = TestRunner::new(Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: Some(Box::new(regressions)),
        rng_seed: RngSeed::Fixed(number("MODEL_SEED", 1)),
        max_shrink_iters: 20_000,
        ..Config::default()
    });
    let result = runner.run(&sequences(SEQUENCE), |ops| {
        replay(Node::new(&[], rule), &ops).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, ops)) => {
            let mut list = String::new();
            for op in &ops {
                let _ = writeln!(list, "        Op::{op:?},");
            }
            panic!(
                "{reason}\nunchanged rule {rule}, {} steps:\n    vec![\n{list}    ]",
                ops.len()
            );
        }
        Err(abort) => panic!("{abort}"),
    }
}
