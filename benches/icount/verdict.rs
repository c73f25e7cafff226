//! Compares counts with the accepted ones, and with each other where a law says so.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use crate::callgrind::Count;
use crate::worlds::{TABLE_BROKERS, change_gate};

/// What was last accepted: a flat object of gates and instructions.
const ACCEPTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/accepted.json");
/// By how much a count may grow: a compiler's whims stay below, an extra pass does not.
const TOLERANCE: f64 = 0.03;
/// Slope of log instructions over log brokers below which a change counts as independent of the
/// size of the table.
const FLAT: f64 = 0.1;

/// Prints every gate; fails when one has failed. With UPDATE=1 accepts all counts instead, but
/// never a broken law.
pub(crate) fn judge(counts: &[Count], only_some: bool) -> ExitCode {
    let update = std::env::var_os("UPDATE").is_some_and(|v| v == "1");
    let accepted = match read_accepted() {
        Ok(accepted) => accepted,
        Err(_) if update => BTreeMap::new(),
        Err(error) => {
            eprintln!("icount: {error}");
            return ExitCode::FAILURE;
        }
    };
    if update && only_some {
        eprintln!("icount: UPDATE=1 accepts all worlds or none");
        return ExitCode::FAILURE;
    }
    let mut failed = 0;
    for count in counts {
        let before = accepted.get(&count.gate).copied();
        let (fails, text) = if update {
            (false, format!("was {}", before.unwrap_or(0)))
        } else {
            verdict(count, before)
        };
        println!("{:<28} {:>12}  {text}", count.gate, count.instructions);
        failed += usize::from(fails);
    }
    let mut laws = 0;
    if !only_some {
        laws = 2;
        failed += usize::from(!is_flat(counts));
        failed += usize::from(!all_are_counted(counts, &accepted) && !update);
        if update && failed == 0 {
            return write_accepted(counts);
        }
    }
    println!(
        "\ngates: {} passed, {failed} failed",
        counts.len() + laws - failed
    );
    if failed > 0 {
        println!("if the growth is meant: UPDATE=1, and a commit that says why");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Whether a gate fails, and what to print.
fn verdict(count: &Count, accepted: Option<u64>) -> (bool, String) {
    let Some(accepted) = accepted else {
        return (true, "FAILED: not accepted yet".to_owned());
    };
    let growth = count.instructions as f64 / accepted as f64 - 1.0;
    let percent = growth * 100.0;
    if growth > TOLERANCE {
        (
            true,
            format!("{percent:+.2} %  FAILED: accepted are {accepted}"),
        )
    } else if growth < -TOLERANCE {
        (
            false,
            format!("{percent:+.2} %  better: accept it with UPDATE=1"),
        )
    } else {
        (false, format!("{percent:+.2} %"))
    }
}

/// Changing one topic at one broker costs the same in every table.
fn is_flat(counts: &[Count]) -> bool {
    let points: Vec<(f64, f64)> = TABLE_BROKERS
        .iter()
        .filter_map(|brokers| {
            let gate = change_gate(*brokers);
            let count = counts.iter().find(|count| count.gate == gate)?;
            Some(((*brokers as f64).ln(), (count.instructions as f64).ln()))
        })
        .collect();
    let slope = slope(&points);
    let flat = points.len() == TABLE_BROKERS.len() && slope < FLAT;
    let text = if flat { "" } else { "  FAILED" };
    println!(
        "{:<28} {slope:>12.3}  slope, must be below {FLAT}{text}",
        "flatness of change"
    );
    flat
}

/// Of the line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    covariance / variance
}

/// A gate that was renamed or lost must leave the file.
fn all_are_counted(counts: &[Count], accepted: &BTreeMap<String, u64>) -> bool {
    let is_lost = |gate: &&String| counts.iter().all(|count| count.gate != **gate);
    let lost: Vec<&String> = accepted.keys().filter(is_lost).collect();
    for gate in &lost {
        println!("{gate:<28} FAILED: accepted, but no longer counted");
    }
    lost.is_empty()
}

fn read_accepted() -> Result<BTreeMap<String, u64>, String> {
    let text = fs::read_to_string(ACCEPTED).map_err(|e| format!("{ACCEPTED}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{ACCEPTED}: {e}"))
}

/// One line for each gate, in the order of counting.
fn write_accepted(counts: &[Count]) -> ExitCode {
    let mut text = "{".to_owned();
    for (i, Count { gate, instructions }) in counts.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}\n  \"{gate}\": {instructions}");
    }
    text.push_str("\n}\n");
    match fs::write(ACCEPTED, text) {
        Ok(()) => {
            println!("\naccepted: {} gates", counts.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("icount: {ACCEPTED}: {error}");
            ExitCode::FAILURE
        }
    }
}
