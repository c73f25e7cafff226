//! What a comparison found, as a file for programs and as Markdown for people and CI.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::compare::fail_if::Checked;
use crate::compare::judge::{Row, Word};
use crate::metric::Metric;

/// `format` of every comparison.
pub const FORMAT: &str = "loadgen-compare";
/// `version` of what this program writes.
pub const VERSION: u32 = 1;

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool: String,
    /// How A was given.
    pub a: String,
    /// How B was given.
    pub b: String,
    /// Of every run.
    pub plan_digest: String,
    /// Every value of a run as a flag.
    pub flags: Vec<String>,
    /// Facts about the host.
    pub host: BTreeMap<String, String>,
    /// CPUs of started servers.
    pub server_cpus: Vec<usize>,
    /// Rounds.
    pub rounds: usize,
    /// The least effect that matters.
    pub least_effect: f64,
    /// In one word.
    pub verdict: Word,
    /// The metrics, the primary ones first.
    pub rows: Vec<Row>,
    /// What came of `--fail-if`.
    pub checked: Vec<Checked>,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// The exit code of the comparison.
    pub exit_code: i32,
}

impl Comparison {
    /// As Markdown, which is also what a terminal shows.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "### B is {}\n", self.sentence())?;
        writeln!(out, "A: `{}`  \nB: `{}`\n", self.a, self.b)?;
        let primaries: Vec<&Row> = self.rows.iter().filter(|row| row.is_primary).collect();
        write_table(out, "primary metric", &primaries)?;
        writeln!(out, "\n{}", self.meaning())?;
        if !self.checked.is_empty() {
            writeln!(out)?;
        }
        for checked in &self.checked {
            let word = if checked.failed { "FAILED" } else { "passed" };
            writeln!(
                out,
                "- fail if `{}`: **{word}**, found {}",
                checked.fail_if, checked.found
            )?;
        }
        let others: Vec<&Row> = self.rows.iter().filter(|row| !row.is_primary).collect();
        if !others.is_empty() {
            writeln!(
                out,
                "\nOther metrics, no part of the verdict; by chance alone, one in twenty of these \
                 intervals is wrong:\n"
            )?;
            write_table(out, "metric", &others)?;
        }
        writeln!(out)?;
        for note in &self.notes {
            writeln!(out, "- {note}")?;
        }
        self.write_origin(out)
    }

    fn sentence(&self) -> String {
        match self.verdict {
            Word::Faster => "**faster** than A".to_owned(),
            Word::Slower => "**slower** than A".to_owned(),
            Word::Same => "the **same** as A".to_owned(),
            Word::Mixed => "faster **and** slower than A (mixed)".to_owned(),
            Word::Unknown => "not comparable with A by this: **unknown**".to_owned(),
        }
    }

    /// What the words mean, with the numbers of this comparison.
    fn meaning(&self) -> String {
        let primaries = || self.rows.iter().filter(|row| row.is_primary);
        let Some(confidence) = primaries().map(|row| row.confidence).next() else {
            return "No primary metric has a value in every run (`cpu` needs `--a-pid` and `--b-pid`)."
                .to_owned();
        };
        if primaries().any(|row| row.interval.is_none()) {
            return "One pair has no interval: nothing tells this ratio from noise. Give lists of \
                    results, or let `compare` run the servers."
                .to_owned();
        }
        let reaches: Vec<String> = primaries()
            .filter_map(|row| Some((row, row.interval?)))
            .map(|(row, (low, high))| {
                let reach = ((high / low).sqrt() - 1.0) * 100.0;
                format!("{} ±{}", row.metric, percent(reach))
            })
            .collect();
        format!(
            "Ratios are B over A, geometric means of {} rounds; {:.1} % intervals (t over the \
             rounds). Other than same: the interval excludes 1, and mean and median differ by \
             {} or more. What this could see: {}.",
            self.rounds,
            confidence * 100.0,
            percent(self.least_effect * 100.0),
            reaches.join(", ")
        )
    }

    fn write_origin(&self, out: &mut String) -> std::fmt::Result {
        let fact = |key: &str| self.host.get(key).map_or("unknown", String::as_str);
        let cpus: Vec<String> = self.server_cpus.iter().map(ToString::to_string).collect();
        let pinned = if cpus.is_empty() {
            String::new()
        } else {
            format!(", servers on CPU {}", cpus.join(","))
        };
        writeln!(
            out,
            "- {}, plan {}; {}, {} CPUs, Linux {}{pinned}",
            self.tool,
            self.plan_digest,
            fact("cpu"),
            fact("cpus"),
            fact("kernel")
        )?;
        writeln!(out, "- `loadgen {}`", self.flags.join(" "))
    }
}

fn write_table(out: &mut String, title: &str, rows: &[&Row]) -> std::fmt::Result {
    let mut lines = vec![[title, "A", "B", "B/A", "interval", "verdict"].map(str::to_owned)];
    for row in rows {
        let value = |value: f64| match Metric::parse(&row.metric) {
            Ok(metric) => metric.text(value),
            Err(_) => value.to_string(),
        };
        let interval = row.interval.map_or_else(
            || "none".to_owned(),
            |(low, high)| format!("{low:.3} to {high:.3}"),
        );
        lines.push([
            row.metric.clone(),
            value(row.a),
            value(row.b),
            format!("{:.3}", row.ratio),
            interval,
            row.verdict.text().to_owned(),
        ]);
    }
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    for (number, line) in lines.iter().enumerate() {
        write!(out, "| {:<w$} |", line[0], w = widths[0])?;
        for (cell, w) in line[1..].iter().zip(&widths[1..]) {
            write!(out, " {cell:>w$} |")?;
        }
        writeln!(out)?;
        if number == 0 {
            write!(out, "|{:-<w$}|", ":", w = widths[0] + 2)?;
            for w in &widths[1..] {
                write!(out, "{:->w$}|", ":", w = w + 2)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn percent(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
