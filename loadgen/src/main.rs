//! The load generator: thousands of RocketMQ brokers and clients against one NameServer.
//!
//! Exit codes: 0 ok, 1 the run could not take place, 2 wrong flags, 3 the tool was late,
//! 4 the server gave wrong answers, 5 the server was saturated, 6 a comparison failed by its
//! `--fail-if` or no rate meets an objective, 128 and the number of a signal that ended it.

use std::path::{Path, PathBuf};
use std::process::exit;

use clap::{Parser, Subcommand};
use loadgen::compare::{CompareArgs, compare};
use loadgen::config::{Config, RunArgs};
use loadgen::find_max::{FindMaxArgs, find_max};
use loadgen::plot::{self, plot};
use loadgen::result::RunResult;
use loadgen::run::{Outputs, run};
use loadgen::self_test::self_test;
use loadgen::summary;

/// Thousands of small buffers come and go with every second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates RocketMQ brokers and clients against a NameServer, and judges every answer
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    outputs: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Draw result files as one SVG picture
    Plot {
        /// Results of --json; the name of each file names its curves
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Picture to write
        #[arg(long, default_value = "loadgen.svg")]
        out: PathBuf,
        /// Kind of request whose distribution is drawn
        #[arg(long, default_value = "105 route")]
        op: String,
    },
    /// Compare two servers, or stored runs of them: paired ratios with intervals, and a verdict
    Compare(Box<CompareArgs>),
    /// Find the highest rate of route reads that a server sustains under an objective
    FindMax(Box<FindMaxArgs>),
    /// Measure the tool itself against a NameServer in its own thread, without sockets
    SelfTest {
        #[command(flatten)]
        run: Box<RunArgs>,
    },
}

#[derive(clap::Args)]
struct OutputArgs {
    /// Process of the server: its CPU time and memory are measured
    #[arg(long)]
    pid: Option<u32>,
    /// Write the result to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write histograms of each second to this file
    #[arg(long)]
    hlog: Option<PathBuf>,
    /// Print the result only
    #[arg(long)]
    quiet: bool,
}

fn main() {
    // Before any thread: see there.
    namesrv::rt::prepare_process();
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Plot { results, out, op }) => exit(finish(draw(&results, &out, &op))),
        Some(Command::Compare(args)) => exit(compare(&args)),
        Some(Command::FindMax(args)) => exit(find_max(&args)),
        Some(Command::SelfTest { run }) => exit(finish(self_test(resolve(&run)))),
        None => {}
    }
    let OutputArgs {
        pid,
        json,
        hlog,
        quiet,
    } = cli.outputs;
    let outputs = Outputs {
        pid,
        json,
        hlog,
        quiet,
    };
    exit(run_once(&cli.run, &outputs));
}

fn run_once(args: &RunArgs, outputs: &Outputs) -> i32 {
    let config = resolve(args);
    if !outputs.quiet {
        eprintln!("loadgen {}", config.words().join(" "));
    }
    match run(config.clone(), outputs) {
        Ok(result) => {
            print!("{}", summary::screen(&config, &result));
            result.exit_code
        }
        Err(problem) => {
            eprintln!("loadgen: {problem}");
            1
        }
    }
}

fn resolve(args: &RunArgs) -> Config {
    let cpus = namesrv::rt::usable_cpus().map_or(1, |cpus| cpus.len());
    Config::resolve(args, cpus)
}

/// Prints what came of it. Returns the exit code.
fn finish(outcome: Result<String, String>) -> i32 {
    match outcome {
        Ok(text) => {
            println!("{text}");
            0
        }
        Err(problem) => {
            eprintln!("loadgen: {problem}");
            1
        }
    }
}

fn draw(results: &[PathBuf], out: &Path, op: &str) -> Result<String, String> {
    let mut runs = Vec::new();
    for path in results {
        let about = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
        let result = RunResult::read(&text).map_err(about)?;
        let name = path.file_stem().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        runs.push(plot::Run { name, result });
    }
    std::fs::write(out, plot(&runs, op)).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(format!("{} runs drawn to {}", runs.len(), out.display()))
}
