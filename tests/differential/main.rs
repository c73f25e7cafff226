//! The differential test: the Java NameServer and ours get the same requests, and must answer
//! the same.
//!
//! Random but reproducible sequences of operations go to both servers over several connections,
//! one request at a time; every answer is compared, and after every operation all tables. What
//! is accepted to differ is a rule of `oracle/rules.rs`, and the run prints how often each was
//! needed. A difference is shrunk by dropping operations, and printed as steps that can be
//! pasted into `support/kept.rs`, whose sequences are run first. Odd bytes are sent one case at
//! a time; what may differ there is in `excuse.rs`.
//!
//! `DIFF_OPS=100000` and `DIFF_CASES=30000` run longer, `DIFF_SEED=7` elsewhere,
//! `DIFF_VERSION=5.5.0` or `4.9.4` against another release (`old.rs` has what is not comparable
//! with the latter), and `DIFF_FROM=114` leaves out the sequences or cases before that one.
//! Without Java, Maven or the jars the tests say why they are skipped, and pass; with
//! `DIFF=required` they fail instead.
//!
//! Deliberately absent: 905s, whose receivers are not here, requests side by side, limits.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected comes back"
)]

mod canon;
mod cases;
mod compare;
mod config;
mod dialect;
mod dice;
mod excuse;
#[path = "../support/java.rs"]
mod java;
mod json;
mod link;
mod odd;
mod old;
#[path = "../oracle/mod.rs"]
mod oracle;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/rundir.rs"]
mod rundir;
mod self_test;
mod sequence;
mod servers;
#[path = "../support/mod.rs"]
mod support;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::dialect::Dialect;
use crate::java::{Jars, is_installed};
use crate::process::say;
use crate::rundir::RunDir;
use crate::sequence::{End, Sequence, Tally};
use crate::servers::{Servers, binary};
use crate::support::kept;
use crate::support::workload::{Op, sequences};

/// Steps of one sequence at most: tables fill up, and shrinking stays cheap.
const SEQUENCE: usize = 80;

/// Single cases are independent: some are shown before the run ends.
const MOST_SHOWN: usize = 60;

#[test]
fn answers_of_java() {
    let _alone = alone();
    match prepare() {
        Ok((jars, dialect)) => run(jars, dialect),
        Err(why) if std::env::var("DIFF").as_deref() == Ok("required") => panic!("{why}"),
        Err(why) => say(&format!("skipped: {why}")),
    }
}

fn run(jars: Jars, dialect: Dialect) {
    let (ops, seed) = (number("DIFF_OPS", 2_000), number("DIFF_SEED", 1));
    let directory = RunDir::new(&target());
    let start = Instant::now();
    let mut servers = Servers::start(jars, directory.path());
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    });
    let strategy = sequences(SEQUENCE);
    let from = number("DIFF_FROM", 1);
    let (mut tally, mut count) = (Tally::default(), 0);
    let mut kept = kept::sequences().into_iter().map(|(_, ops)| ops);
    if !dialect.is_5() && from <= 1 {
        let end = Sequence::new(&mut servers, dialect, 0, &mut tally).expire();
        assert_eq!(end, Ok(End::Clean), "expiry after two minutes");
    }
    while tally.operations < ops {
        count += 1;
        // those that once failed come first
        let sequence = match kept.next() {
            Some(ops) => ops,
            None => strategy.new_tree(&mut runner).unwrap().current(),
        };
        if count < from {
            continue;
        }
        match Sequence::new(&mut servers, dialect, count, &mut tally).run(&sequence) {
            Ok(End::Clean) => {}
            Ok(End::Dirty) => {
                tally.restarts += 1;
                servers.restart();
            }
            Err(reason) => {
                say(&format!(
                    "sequence {count} of seed {seed}: {reason}\nshrinking"
                ));
                let (reason, steps) = shrink(&mut servers, dialect, sequence, reason, count);
                let list: String = steps
                    .iter()
                    .map(|op| format!("        Op::{op:?},\n"))
                    .collect();
                panic!("seed {seed}, sequence {count}: {reason}\n    vec![\n{list}    ]");
            }
        }
    }
    report(&tally, count, seed, dialect, start);
    directory.remove();
}

#[test]
fn odd_requests() {
    let _alone = alone();
    match prepare() {
        Ok((_, Dialect::V4_9_4)) => say("skipped: 4.9.4 mends odd text, and registers nulls"),
        Ok((_, Dialect::V5_5_0)) => say("skipped: 5.5.0 reads odd JSON by other rules"),
        Ok((jars, dialect)) => run_odd(jars, dialect),
        Err(why) if std::env::var("DIFF").as_deref() == Ok("required") => panic!("{why}"),
        Err(why) => say(&format!("skipped: {why}")),
    }
}

fn run_odd(jars: Jars, dialect: Dialect) {
    let (cases, seed) = (number("DIFF_CASES", 600), number("DIFF_SEED", 1));
    let from = number("DIFF_FROM", 1);
    let directory = RunDir::new(&target());
    let mut servers = Servers::start(jars, directory.path());
    let (mut rules, mut differences) = (BTreeMap::new(), 0);
    for case in from..from + cases {
        let found = [
            odd::run(&mut servers, dialect, seed, case, &mut rules),
            config::run(&servers, dialect, seed, case, &mut rules),
        ];
        for text in found.into_iter().flatten() {
            say(&text);
            differences += 1;
        }
        if differences >= MOST_SHOWN {
            break;
        }
    }
    say(&format!(
        "{cases} odd requests of seed {seed} against Java {}",
        dialect.number()
    ));
    for (rule, count) in rules {
        say(&format!("{count:>10}  {rule}"));
    }
    assert_eq!(differences, 0, "unexplained differences");
    directory.remove();
}

/// Drops operations as long as there is a difference.
fn shrink(
    servers: &mut Servers,
    dialect: Dialect,
    mut ops: Vec<Op>,
    mut reason: String,
    number: u64,
) -> (String, Vec<Op>) {
    let (mut piece, mut count, mut dirty) = (ops.len().div_ceil(2), 0, true);
    while piece > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + piece).min(ops.len()));
            count += 1;
            if dirty {
                servers.restart();
            }
            let mut tally = Tally::default();
            let number = number + 1_000_000 * count;
            let end = Sequence::new(servers, dialect, number, &mut tally).run(&fewer);
            dirty = end != Ok(End::Clean);
            match end {
                Err(new) if kind(&new) == kind(&reason) => (ops, reason) = (fewer, new),
                Err(new) => {
                    say(&format!("another difference: {new}"));
                    at += piece;
                }
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    (reason, ops)
}

/// Who answers what: a shrunk sequence shows the difference that was found, and no other.
fn kind(reason: &str) -> Option<&str> {
    let at = reason.find(" answers ")?;
    let start = reason[..at].rfind(' ')?;
    reason.get(start..at + " answers 105".len())
}

fn report(tally: &Tally, count: u64, seed: u64, dialect: Dialect, start: Instant) {
    say(&format!(
        "{} operations in {count} sequences of seed {seed} against Java {}: {} answers compared, \
         {} restarts, {:.0} s",
        tally.operations,
        dialect.number(),
        tally.answers,
        tally.restarts,
        start.elapsed().as_secs_f64()
    ));
    say("   answers    tables  rule");
    for (rule, (answers, tables)) in &tally.rules {
        say(&format!("{answers:>10}{tables:>10}  {rule:?}"));
    }
    say(&format!(
        "not comparable: {} operations; not answered by this Java: {}",
        tally.left_out, tally.silences
    ));
}

/// One test at a time: the jars are brought once, and ports are found free before they are taken.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that the run needs from outside, or the reason why there is no run.
fn prepare() -> Result<(Jars, Dialect), String> {
    if binary().is_none() {
        return Err("built without the server".to_owned());
    }
    if !is_installed("java") {
        return Err("java is missing".to_owned());
    }
    let number = std::env::var("DIFF_VERSION").unwrap_or_else(|_| "5.3.3".to_owned());
    let dialect = Dialect::of(&number).ok_or_else(|| format!("release {number} is not known"))?;
    let jars = Jars::prepare(dialect.number(), &target().join("interop"))?;
    Ok((jars, dialect))
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Cargo's target directory, wherever it is.
fn target() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR"));
    below.parent().unwrap_or(below).to_owned()
}
