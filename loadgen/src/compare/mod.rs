//! Two servers, or two stored runs, in one comparison: paired ratios with intervals, a verdict,
//! and thresholds that decide the exit code.
//!
//! ```text
//! live (A B B A against servers) --+
//!                                  +--> rounds --> judge (stats) --> report, fail_if
//! stored (result files) -----------+
//! ```
//!
//! Invariant: a comparison consists of valid runs of one plan; anything else ends it with the exit
//! code of the run that was not. Read `judge.rs` for what the words mean, `live.rs` for why the
//! runs are arranged as they are, `stats.rs` for the interval.

pub mod fail_if;
pub mod judge;
pub mod live;
pub mod report;
pub mod stats;
pub mod stored;

use std::path::PathBuf;

use clap::Args;

use crate::compare::fail_if::FailIf;
use crate::compare::judge::{Round, Rules, usual_primaries};
use crate::compare::live::{Setting, Stop};
use crate::compare::report::{Comparison, FORMAT, VERSION};
use crate::config::{Config, RunArgs};
use crate::host;
use crate::metric::Metric;
use crate::result::Provenance;
use crate::server::{self, Guard, Target};
use crate::units::parse_share;
use crate::verdict::Verdict;

/// The exit code of a comparison that `--fail-if` made fail.
pub const FAILED: i32 = 6;

/// `loadgen compare`
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Results of earlier runs of A and of B, instead of servers: one file each, or lists of
    /// equal length with commas
    #[arg(num_args = 2, value_names = ["A.json", "B.json"])]
    pub results: Vec<String>,
    /// Server A: host:port, the path of a namesrv binary, or a command with {port} or {addr}, and
    /// {dir} for a fresh folder; it must stay in the foreground
    #[arg(long, value_parser = Target::parse, conflicts_with = "results", requires = "b")]
    pub a: Option<Target>,
    /// Server B, which is judged
    #[arg(long, value_parser = Target::parse, conflicts_with = "results", requires = "a")]
    pub b: Option<Target>,
    /// Process of a server A that is running already: its CPU time is measured
    #[arg(long, requires = "a")]
    pub a_pid: Option<u32>,
    /// Process of a server B that is running already
    #[arg(long, requires = "b")]
    pub b_pid: Option<u32>,
    /// Rounds of four runs each: A B B A, then B A A B
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// One process of each server for all rounds, instead of new ones for each
    #[arg(long)]
    pub keep_servers: bool,
    /// Rounds before those, not counted, for servers that need long to become warm
    #[arg(long, default_value_t = 0)]
    pub warm_rounds: u32,
    /// CPUs of started servers, as 0,1 [all that the tool does not use]
    #[arg(long, value_delimiter = ',')]
    pub server_cpus: Vec<usize>,
    /// Exit with 6 if this holds: `route.p99 > 1.10x` (B over A, and shown), `route.p99 > 2ms`
    /// (of B), or `slower` (the verdict); may be repeated
    #[arg(long, value_parser = FailIf::parse)]
    pub fail_if: Vec<FailIf>,
    /// Metrics that make the verdict [cpu,route.service.p50,route.service.p99; closed: and
    /// route.rate]. With cpu or memory alone a closed loop may keep the tool busy
    #[arg(long, value_delimiter = ',', value_parser = Metric::parse)]
    pub primary: Vec<Metric>,
    /// The least difference that matters
    #[arg(long, default_value = "5%", value_parser = parse_share)]
    pub min_effect: u32,
    /// How often a run in which the tool was late is repeated
    #[arg(long, default_value_t = 3)]
    pub retries: u32,
    /// Write the comparison to this file as Markdown
    #[arg(long)]
    pub md: Option<PathBuf>,
    /// Write the comparison to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Folder for the results of all runs and the output of the servers [a new one among the
    /// temporary files]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print the comparison only
    #[arg(long)]
    pub quiet: bool,
    /// Of every run; --warmup is 2s and --duration 5s unless given
    #[command(flatten)]
    pub run: RunArgs,
}

/// Compares, prints, and writes. Returns the exit code.
#[must_use]
pub fn compare(args: &CompareArgs) -> i32 {
    let found = match (&args.results[..], &args.a, &args.b) {
        ([a, b], ..) => from_files(args, a, b),
        (_, Some(a), Some(b)) => from_servers(args, a, b),
        _ => Err(Stop::Failed("give two results, or --a and --b".to_owned())),
    };
    match found {
        Ok(comparison) => print(args, &comparison),
        Err(Stop::Failed(why)) => {
            eprintln!("loadgen: {why}");
            1
        }
        Err(Stop::Invalid(verdict, why)) => {
            eprintln!(
                "{why}\nloadgen: no comparison, because of {}",
                verdict.text()
            );
            verdict.exit_code()
        }
    }
}

fn print(args: &CompareArgs, comparison: &Comparison) -> i32 {
    let markdown = comparison.markdown();
    print!("{markdown}");
    let json = serde_json::to_string_pretty(comparison).map_err(std::io::Error::from);
    let write = |path: &Option<PathBuf>, text: std::io::Result<String>| match path {
        Some(path) => text
            .and_then(|text| std::fs::write(path, text))
            .map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    };
    match write(&args.md, Ok(markdown)).and_then(|()| write(&args.json, json)) {
        Ok(()) => comparison.exit_code,
        Err(why) => {
            eprintln!("loadgen: {why}");
            1
        }
    }
}

fn from_files(args: &CompareArgs, a: &str, b: &str) -> Result<Comparison, Stop> {
    let (rounds, notes) = stored::rounds(a, b)?;
    let is_closed = rounds.iter().flat_map(|round| &round.a).any(|run| {
        let mut flags = run.provenance.flags.iter();
        flags.any(|flag| flag == "--closed")
    });
    let rules = rules(args, is_closed);
    demand(args, &rounds)?;
    Ok(conclude(
        args,
        &rules,
        &rounds,
        [a, b].map(str::to_owned),
        notes,
    ))
}

fn from_servers(args: &CompareArgs, a: &Target, b: &Target) -> Result<Comparison, Stop> {
    let (setting, tool_cpus) = setting(args, a, b)?;
    // Before this thread may use some CPUs only.
    let host = host::facts();
    server::pin(&tool_cpus).map_err(|error| format!("CPUs {tool_cpus:?}: {error}"))?;
    let guard = Guard::new()?;
    std::fs::create_dir_all(&setting.folder)
        .map_err(|error| format!("{}: {error}", setting.folder.display()))?;
    let rules = rules(args, setting.config.closed);
    let (rounds, repeated) = live::rounds(&setting, &guard, |first| demand(args, first))?;
    let mut notes = Vec::new();
    let runs = rounds
        .iter()
        .flat_map(|round| round.a.iter().chain(&round.b));
    let busy = runs.filter(|run| run.verdict == Verdict::ToolLate).count();
    if busy > 0 {
        notes.push(format!(
            "the tool was busy all the time in {busy} runs: only cpu and memory are the servers'"
        ));
    }
    if repeated > 0 {
        notes.push(format!(
            "{repeated} runs in which the tool was late were repeated"
        ));
    }
    if setting
        .server_cpus
        .iter()
        .any(|cpu| tool_cpus.contains(cpu))
    {
        notes.push("the tool and the servers share CPUs: too few for one each".to_owned());
    }
    notes.push(format!("all runs: {}", setting.folder.display()));
    let mut found = conclude(args, &rules, &rounds, [a, b].map(text_of), notes);
    found.server_cpus = setting.server_cpus;
    found.host = host
        .into_iter()
        .map(|(key, fact)| (key.to_owned(), fact))
        .collect();
    Ok(found)
}

/// What to run, and the CPUs of the tool.
fn setting(args: &CompareArgs, a: &Target, b: &Target) -> Result<(Setting, Vec<usize>), String> {
    if args.run.addr.is_some() {
        return Err("--a and --b say where the servers are, not --addr".to_owned());
    }
    let run = args.run.as_one_of_many();
    let cpus = namesrv::rt::usable_cpus().map_err(|error| error.to_string())?;
    let config = Config::resolve(&run, cpus.len());
    let (server_cpus, tool_cpus) = share(&cpus, config.cores, &args.server_cpus)?;
    let asked = args.fail_if.iter().filter_map(FailIf::metric);
    let mut decide = asked.chain(args.primary.iter().copied());
    let is_of_processes = !args.primary.is_empty() && decide.all(judge::is_of_the_process);
    let temporary = || std::env::temp_dir().join(format!("loadgen-compare-{}", std::process::id()));
    let setting = Setting {
        targets: [(a.clone(), args.a_pid), (b.clone(), args.b_pid)],
        config,
        rounds: args.rounds,
        warm_rounds: args.warm_rounds,
        keep_servers: args.keep_servers,
        server_cpus,
        retries: args.retries,
        is_of_processes,
        folder: args.out.clone().unwrap_or_else(temporary),
        quiet: args.quiet,
    };
    Ok((setting, tool_cpus))
}

/// CPUs of the servers and of the tool: the tool has the last ones, the servers the others.
///
/// # Errors
/// There are not so many.
pub fn share(
    cpus: &[usize],
    cores: usize,
    wanted: &[usize],
) -> Result<(Vec<usize>, Vec<usize>), String> {
    if let Some(cpu) = wanted.iter().find(|cpu| !cpus.contains(cpu)) {
        return Err(format!("--server-cpus: CPU {cpu} is not among {cpus:?}"));
    }
    let free: Vec<usize> = cpus
        .iter()
        .copied()
        .filter(|cpu| !wanted.contains(cpu))
        .collect();
    // With one CPU for everything the two must share it.
    let own = if free.is_empty() { cpus.to_vec() } else { free };
    if cores > own.len() {
        return Err(format!(
            "--cores={cores} with {} CPUs for the tool",
            own.len()
        ));
    }
    let (rest, tool) = own.split_at(own.len() - cores);
    let servers = match (wanted.is_empty(), rest.is_empty()) {
        (false, _) => wanted.to_vec(),
        (true, false) => rest.to_vec(),
        (true, true) => cpus.to_vec(),
    };
    Ok((servers, tool.to_vec()))
}

fn rules(args: &CompareArgs, is_closed: bool) -> Rules {
    let mut others: Vec<Metric> = args.fail_if.iter().filter_map(FailIf::metric).collect();
    // In an open loop the plan says how many requests there are.
    let is_given = |metric: &Metric| matches!(metric, Metric::Rate(_)) && !is_closed;
    others.extend(Metric::all().into_iter().filter(|metric| !is_given(metric)));
    let primaries = if args.primary.is_empty() {
        usual_primaries(is_closed)
    } else {
        args.primary.clone()
    };
    Rules {
        primaries,
        others,
        least_effect: f64::from(args.min_effect) / 1000.0,
    }
}

/// What was asked for by name must be there.
fn demand(args: &CompareArgs, rounds: &[Round]) -> Result<(), String> {
    let asked = args.fail_if.iter().filter_map(FailIf::metric);
    let asked = asked.chain(args.primary.iter().copied());
    for metric in asked {
        if !judge::is_present(metric, rounds) {
            let hint = match metric {
                Metric::Cpu | Metric::Memory => ": give --a-pid and --b-pid",
                _ => " in this scenario",
            };
            return Err(format!("there is no `{}`{hint}", metric.name()));
        }
    }
    Ok(())
}

fn conclude(
    args: &CompareArgs,
    rules: &Rules,
    rounds: &[Round],
    [a, b]: [String; 2],
    notes: Vec<String>,
) -> Comparison {
    let rows = judge::judge(rounds, rules);
    let verdict = judge::overall(&rows);
    let checked: Vec<_> = args
        .fail_if
        .iter()
        .map(|fail_if| fail_if.check(&rows, verdict))
        .collect();
    let has_failed = checked.iter().any(|checked| checked.failed);
    let first = rounds.first().and_then(|round| round.a.first());
    let (tool, plan_digest, flags, host) = first.map_or_else(Default::default, |run| {
        let Provenance {
            tool,
            plan_digest,
            flags,
            host,
            ..
        } = run.provenance.clone();
        (tool, plan_digest, flags, host)
    });
    Comparison {
        format: FORMAT.to_owned(),
        version: VERSION,
        tool,
        a,
        b,
        plan_digest,
        flags: flags
            .into_iter()
            .filter(|flag| !flag.starts_with("--addr="))
            .collect(),
        host,
        server_cpus: Vec::new(),
        rounds: rounds.len(),
        least_effect: rules.least_effect,
        verdict,
        rows,
        checked,
        notes,
        exit_code: if has_failed { FAILED } else { 0 },
    }
}

fn text_of(target: &Target) -> String {
    match target {
        Target::Running(addr) => addr.to_string(),
        Target::Words(words) => {
            let is_open = |word: &str| word.is_empty() || word.contains(char::is_whitespace);
            let quoted = words.iter().map(|word| match is_open(word) {
                true => format!("'{word}'"),
                false => word.clone(),
            });
            quoted.collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_has_the_last_cpus_and_the_servers_the_others() {
        let of = |servers: &[usize], tool: &[usize]| Ok((servers.to_vec(), tool.to_vec()));
        assert_eq!(share(&[0, 1, 2, 3], 2, &[]), of(&[0, 1], &[2, 3]));
        assert_eq!(share(&[0, 1, 2, 3], 1, &[3]), of(&[3], &[2]));
        assert_eq!(share(&[4, 7], 1, &[7]), of(&[7], &[4]));
        assert_eq!(
            share(&[0], 1, &[]),
            of(&[0], &[0]),
            "shared, and the report says so"
        );
        assert_eq!(share(&[0, 1], 2, &[]), of(&[0, 1], &[0, 1]));
        assert!(share(&[0, 1], 2, &[0]).is_err_and(|why| why.contains("1 CPUs for the tool")));
        assert!(share(&[0, 1], 1, &[2]).is_err_and(|why| why.contains("CPU 2")));
    }
}
