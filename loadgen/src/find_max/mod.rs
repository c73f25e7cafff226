//! The highest rate of route reads that a server sustains under an objective.
//!
//! Sustained is a rate at which a run is ok and every objective holds. `search.rs` says which
//! rates are tried. A rate at which the tool itself was late, several times, ends the search
//! upwards without a word on the server: the tool is the limit then, and the exit code says so.
//!
//! What is printed is the knee, the highest rate that passed every time, beside all that was
//! tried, so that a reader sees how steeply it goes down behind it.

pub mod search;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::compare::share;
use crate::condition::{Condition, Limit};
use crate::config::{Config, RunArgs};
use crate::find_max::search::{Outcome, Plan, Search, Step};
use crate::metric::{At, Metric, Origin};
use crate::op::Op;
use crate::result::RunResult;
use crate::run::{Outputs, run};
use crate::server::{self, Guard, Place, Server, Target};
use crate::summary;
use crate::units::{count_text, parse_share};
use crate::verdict::Verdict;

/// `format` of every search.
pub const FORMAT: &str = "loadgen-find-max";
/// `version` of what this program writes.
pub const VERSION: u32 = 1;
/// The exit code when no rate meets the objective.
pub const NO_RATE: i32 = 6;
/// Below this part of the first rate the search gives up.
const FLOOR: f64 = 1.0 / 64.0;

/// `loadgen find-max`
#[derive(Args, Clone, Debug)]
pub struct FindMaxArgs {
    /// What must hold, as `route.p99 < 2ms`; may be repeated
    #[arg(long, required = true, value_parser = parse_slo)]
    pub slo: Vec<Condition>,
    /// Server, as --a of compare [that of --addr]
    #[arg(long, value_parser = Target::parse, conflicts_with = "addr")]
    pub server: Option<Target>,
    /// CPUs of a started server, as 0,1 [all that the tool does not use]
    #[arg(long, value_delimiter = ',')]
    pub server_cpus: Vec<usize>,
    /// Process of a server that is running already: its CPU time is measured
    #[arg(long)]
    pub pid: Option<u32>,
    /// First route reads per second; then doubled until they fail
    #[arg(long, default_value_t = 1000.0, value_parser = parse_rate)]
    pub start_rate: f64,
    /// No more than these
    #[arg(long, default_value_t = 1e6, value_parser = parse_rate)]
    pub max_rate: f64,
    /// The search ends when the best and the failed rate are so close
    #[arg(long, default_value = "5%", value_parser = parse_share)]
    pub precision: u32,
    /// How often the best rate must pass again
    #[arg(long, default_value_t = 2)]
    pub confirm: u32,
    /// How often a try in which the tool was late is repeated
    #[arg(long, default_value_t = 2)]
    pub retries: u32,
    /// Write the search to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Folder for the results of all tries and the output of the server [a new one among the
    /// temporary files]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print the result only
    #[arg(long)]
    pub quiet: bool,
    /// Of every try; --warmup is 2s and --duration 5s unless given
    #[command(flatten)]
    pub run: RunArgs,
}

/// A search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool: String,
    /// What had to hold.
    pub slo: Vec<String>,
    /// The highest rate that passed every time.
    pub knee: Option<f64>,
    /// The lowest that did not.
    pub failed: Option<f64>,
    /// Nothing is known of rates above the knee, because the tool was late there.
    pub is_tool_the_limit: bool,
    /// In their order.
    pub tries: Vec<Try>,
    /// Every value of a try as a flag, but for the rate.
    pub flags: Vec<String>,
    /// The exit code of the search.
    pub exit_code: i32,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Route reads per second that were wanted.
    pub rate: f64,
    /// It was a repetition of one that had passed.
    pub confirms: bool,
    /// Values of the objectives, in microseconds or their unit.
    pub slo_values: Vec<Option<f64>>,
    /// Answered route reads per second.
    pub answered: Option<f64>,
    /// Response times of route reads.
    pub p50_us: Option<f64>,
    /// Response times of route reads.
    pub p99_us: Option<f64>,
    /// CPU time of the server for each request.
    pub cpu_us: Option<f64>,
    /// Of the run.
    pub verdict: Verdict,
    /// The run was ok and every objective held.
    pub passed: bool,
}

/// Searches, prints and writes. Returns the exit code.
#[must_use]
pub fn find_max(args: &FindMaxArgs) -> i32 {
    let found = match Hunt::new(args).and_then(|hunt| hunt.search()) {
        Ok(found) => found,
        Err(Stop::Failed(why)) => {
            eprintln!("loadgen: {why}");
            return 1;
        }
        Err(Stop::Wrong(screen)) => {
            eprintln!("{screen}\nloadgen: no maximum of a server that gives wrong answers");
            return Verdict::WrongAnswers.exit_code();
        }
    };
    print!("{}", screen(&found));
    let Some(path) = &args.json else {
        return found.exit_code;
    };
    let text = serde_json::to_string_pretty(&found).map_err(std::io::Error::from);
    match text.and_then(|text| std::fs::write(path, text)) {
        Ok(()) => found.exit_code,
        Err(error) => {
            eprintln!("loadgen: {}: {error}", path.display());
            1
        }
    }
}

/// Why there is no maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    Failed(String),
    Wrong(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A search and its server.
struct Hunt<'a> {
    args: &'a FindMaxArgs,
    config: Config,
    server: Server,
    folder: PathBuf,
    tries: Vec<Try>,
}

impl<'a> Hunt<'a> {
    fn new(args: &'a FindMaxArgs) -> Result<Self, Stop> {
        let run = args.run.as_one_of_many();
        if run.rate.is_some() || run.closed {
            return Err(Stop::Failed(
                "find-max sets the rate of an open loop itself".to_owned(),
            ));
        }
        let cpus = namesrv::rt::usable_cpus().map_err(|error| error.to_string())?;
        let mut config = Config::resolve(&run, cpus.len());
        let (server_cpus, tool_cpus) = share(&cpus, config.cores, &args.server_cpus)?;
        server::pin(&tool_cpus).map_err(|error| format!("CPUs {tool_cpus:?}: {error}"))?;
        let temporary =
            || std::env::temp_dir().join(format!("loadgen-find-max-{}", std::process::id()));
        let folder = args.out.clone().unwrap_or_else(temporary);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let guard = Guard::new()?;
        let server = match &args.server {
            Some(Target::Words(words)) => {
                let place = Place {
                    folder: &folder.join("server"),
                    cpus: &server_cpus,
                    guard: &guard,
                };
                Server::start(words, &place)?
            }
            Some(Target::Running(addr)) => Server::running(*addr, args.pid),
            None => Server::running(config.addr, args.pid),
        };
        config.addr = server.addr;
        Ok(Self {
            args,
            config,
            server,
            folder,
            tries: Vec::new(),
        })
    }

    fn search(mut self) -> Result<Found, Stop> {
        let mut search = Search::new(Plan {
            start: self.args.start_rate.min(self.args.max_rate),
            limit: self.args.max_rate,
            precision: f64::from(self.args.precision.max(1)) / 1000.0,
            confirmations: self.args.confirm,
            floor: FLOOR,
        });
        loop {
            let step = search.next();
            match step {
                Step::Try { rate, confirms } => {
                    let passed = self.attempt(rate, confirms)?;
                    let outcome = [Outcome::Failed, Outcome::Passed][usize::from(passed)];
                    search.tell(step, outcome);
                }
                Step::Found { best, failed } => return Ok(self.found(best, failed)),
            }
        }
    }

    /// Tries a rate until the tool was not late.
    fn attempt(&mut self, rate: f64, confirms: bool) -> Result<bool, Stop> {
        for _ in 0..=self.args.retries {
            let config = Config {
                rate,
                ..self.config.clone()
            };
            let name = format!("try{}.json", self.tries.len() + 1);
            let outputs = Outputs {
                pid: self.server.pid,
                json: Some(self.folder.join(name)),
                hlog: None,
                quiet: true,
            };
            self.server.wait_until_empty()?;
            let result = run(config.clone(), &outputs)?;
            if result.verdict == Verdict::WrongAnswers {
                return Err(Stop::Wrong(summary::screen(&config, &result)));
            }
            let tried = judge(&self.args.slo, rate, confirms, &result);
            if !self.args.quiet {
                eprintln!("{}", line(&tried));
            }
            let (passed, verdict) = (tried.passed, tried.verdict);
            self.tries.push(tried);
            if verdict != Verdict::ToolLate {
                return Ok(passed);
            }
        }
        Ok(false)
    }

    fn found(self, knee: Option<f64>, failed: Option<f64>) -> Found {
        // What bounds the knee: the server, or the tool.
        let last_at = |rate| self.tries.iter().rev().find(|tried| tried.rate == rate);
        let bound = failed.and_then(last_at);
        let is_tool_the_limit = bound.is_some_and(|tried| tried.verdict == Verdict::ToolLate);
        let exit_code = match (knee, is_tool_the_limit) {
            (_, true) => Verdict::ToolLate.exit_code(),
            (None, _) => NO_RATE,
            (Some(_), _) => 0,
        };
        let mut flags = self.config.words();
        flags.retain(|flag| !flag.starts_with("--rate=") && !flag.starts_with("--addr="));
        Found {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool: concat!("loadgen ", env!("CARGO_PKG_VERSION")).to_owned(),
            slo: self.args.slo.iter().map(ToString::to_string).collect(),
            knee,
            failed,
            is_tool_the_limit,
            tries: self.tries,
            flags,
            exit_code,
        }
    }
}

fn judge(slo: &[Condition], rate: f64, confirms: bool, result: &RunResult) -> Try {
    let values: Vec<Option<f64>> = slo.iter().map(|one| one.metric.of(result)).collect();
    // What was not measured does not hold.
    let all_hold = slo
        .iter()
        .zip(&values)
        .all(|(one, value)| value.is_some_and(|value| one.holds(value)));
    let route = |at| Metric::Time(Op::Route, Origin::Intended, at).of(result);
    Try {
        rate,
        confirms,
        slo_values: values,
        answered: Metric::Rate(Op::Route).of(result),
        p50_us: route(At::P50),
        p99_us: route(At::P99),
        cpu_us: Metric::Cpu.of(result),
        verdict: result.verdict,
        passed: all_hold && result.verdict == Verdict::Ok,
    }
}

/// What people see.
fn screen(found: &Found) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_screen(&mut out, found);
    out
}

fn write_screen(out: &mut String, found: &Found) -> std::fmt::Result {
    writeln!(out, "{}", line_of(TITLES.map(str::to_owned)))?;
    for tried in &found.tries {
        writeln!(out, "{}", line(tried))?;
    }
    let slo = found.slo.join(" and ");
    match found.knee {
        Some(knee) => {
            let passed = |tried: &&Try| tried.rate == knee && tried.passed;
            let times = found.tries.iter().filter(passed).count();
            writeln!(
                out,
                "\nknee: {} route reads/s with {slo} (passed {times} times, failed never)",
                count_text(knee)
            )?;
        }
        None => writeln!(out, "\nno knee: {slo} holds at no rate that was tried")?,
    }
    match found.failed {
        Some(failed) if found.is_tool_the_limit => writeln!(
            out,
            "the tool is the limit: it was late itself at {}/s, so the server may sustain more; \
             give it more --cores",
            count_text(failed)
        ),
        Some(failed) => writeln!(out, "not sustained: {}/s", count_text(failed)),
        None => writeln!(out, "no rate failed up to --max-rate"),
    }
}

const TITLES: [&str; 6] = ["rate", "answered", "p50", "p99", "cpu", "outcome"];

fn line(tried: &Try) -> String {
    let text = |metric: Metric, value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| metric.text(value))
    };
    let time = |value| text(Metric::Recovery, value);
    let outcome = match (tried.verdict, tried.passed) {
        (Verdict::Ok, true) if tried.confirms => "passed again",
        (Verdict::Ok, true) => "passed",
        (Verdict::Ok, false) => "objective missed",
        (verdict, _) => verdict.text(),
    };
    line_of([
        format!("{}/s", count_text(tried.rate)),
        text(Metric::Rate(Op::Route), tried.answered),
        time(tried.p50_us),
        time(tried.p99_us),
        time(tried.cpu_us),
        outcome.to_owned(),
    ])
}

fn line_of([rate, answered, p50, p99, cpu, outcome]: [String; 6]) -> String {
    format!("{rate:>10}{answered:>12}{p50:>11}{p99:>11}{cpu:>11}  {outcome}")
}

fn parse_slo(text: &str) -> Result<Condition, String> {
    let condition = Condition::parse(text).map_err(|error| error.to_string())?;
    match condition.limit {
        Limit::Value(_) => Ok(condition),
        Limit::Ratio(_) => Err("an objective has no other server to be a ratio of".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| rate.is_finite() && *rate >= 1.0)
        .ok_or_else(|| format!("`{text}` is no rate: write 1000"))
}

#[cfg(test)]
#[path = "find_max_tests.rs"]
mod tests;
