//! CPU time per request: this server, the Java one, and a server that does nothing but the system
//! calls. Prints the README's table.
//!
//! `cargo bench --profile release --bench cpu [-- --rounds N --seconds S]`. Needs two free CPUs, 0
//! for the servers and 1 for this program, and `taskset`; the column of Java is left out where there
//! is no JDK or Maven. Servers are measured alternately, one at a time; a figure is the median of
//! the rounds. Compare the ratios: the microseconds are those of one machine.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where something unexpected comes back"
)]

#[path = "../../tests/support/java.rs"]
mod java;
mod load;
#[path = "../../tests/support/process.rs"]
mod process;
mod raw;
#[path = "../common/registration.rs"]
mod registration;
#[path = "../../tests/support/request.rs"]
#[allow(dead_code, reason = "a bench uses its own part")]
mod request;
mod requests;
mod servers;

use std::path::Path;
use std::time::Duration;

use load::{Frames, Load};
use servers::{Kind, Server};

/// What warms a JVM up.
const WARM_JAVA: Duration = Duration::from_secs(12);

/// One row of the table.
struct Case {
    name: &'static str,
    /// Brokers with the topic that is read, or with anything at all.
    brokers: usize,
    connections: usize,
    /// Requests outstanding on each.
    depth: usize,
    request: Kinds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    Route,
    Unchanged,
    Changed,
    ClusterInfo,
}

const CASES: [Case; 8] = [
    Case::new(
        "route of 16 brokers, 64 connections",
        16,
        64,
        1,
        Kinds::Route,
    ),
    Case::new("the same, pipelined by 16", 16, 64, 16, Kinds::Route),
    Case::new("the same, 1,024 connections", 16, 1024, 1, Kinds::Route),
    Case::new(
        "route of 500 brokers, 64 connections",
        500,
        64,
        1,
        Kinds::Route,
    ),
    Case::new(
        "unchanged registration of 1,000 topics",
        0,
        1,
        1,
        Kinds::Unchanged,
    ),
    Case::new("the same, 16 connections", 0, 16, 1, Kinds::Unchanged),
    Case::new(
        "changed registration of 1,000 topics",
        0,
        1,
        1,
        Kinds::Changed,
    ),
    Case::new("106 of 5,000 brokers", 5000, 1, 1, Kinds::ClusterInfo),
];

impl Case {
    const fn new(
        name: &'static str,
        brokers: usize,
        connections: usize,
        depth: usize,
        request: Kinds,
    ) -> Self {
        Self {
            name,
            brokers,
            connections,
            depth,
            request,
        }
    }

    fn frames(&self) -> Frames {
        match self.request {
            Kinds::Route => Frames::one_for_all(requests::route()),
            Kinds::ClusterInfo => Frames::one_for_all(requests::cluster_info()),
            Kinds::Unchanged => {
                Frames::one_for_each((0..self.connections).map(|n| requests::large(n, 1, 8)))
            }
            // Another version and another number of queues each time.
            Kinds::Changed => Frames::made_for_each(|n| requests::large(0, n + 2, 8 + n % 2)),
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, port, answer_bytes] = args.as_slice()
        && mode == raw::MODE
    {
        raw::serve(port.parse().unwrap(), answer_bytes.parse().unwrap());
    }
    let number = |flag: &str, default: f64| {
        let at = args.iter().position(|arg| arg == flag);
        at.map_or(default, |at| args[at + 1].parse().unwrap())
    };
    let rounds = number("--rounds", 4.0) as usize;
    let time = Duration::from_secs_f64(number("--seconds", 1.0));
    servers::pin_this_process();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cpu-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    println!("| CPU us per request | this | raw | Java 5.3.3, warm | this : raw | Java : this |");
    println!("|---|---:|---:|---:|---:|---:|");
    for case in &CASES {
        println!("{}", row(case, rounds, time, &home));
    }
    std::fs::remove_dir_all(&home).unwrap();
}

/// Measures one case with all servers.
fn row(case: &Case, rounds: usize, time: Duration, home: &Path) -> String {
    let kinds = [Kind::This, Kind::Java];
    let mut measured: Vec<(Server, Load, Vec<f64>)> = Vec::new();
    for kind in kinds {
        let Some(server) = Server::start(kind, home) else {
            continue;
        };
        requests::fill(server.port, case.brokers);
        let mut load = Load::new(server.port, case.connections, case.depth, case.frames());
        if kind == Kind::Java {
            load.run(WARM_JAVA);
        }
        measured.push((server, load, Vec::new()));
    }
    let raw = Server::start(Kind::Raw(measured[0].1.answer_bytes), home).unwrap();
    let load = Load::new(raw.port, case.connections, case.depth, case.frames());
    measured.push((raw, load, Vec::new()));
    for round in 0..rounds {
        if round > 0 {
            measured.reverse();
        }
        for (server, load, results) in &mut measured {
            let before = server.cpu();
            let answers = load.run(time);
            let used = server.cpu().saturating_sub(before);
            results.push(used.as_secs_f64() * 1e6 / answers as f64);
        }
    }
    let median = |is: fn(&Kind) -> bool| {
        let (_, _, results) = measured.iter_mut().find(|(s, ..)| is(&s.kind))?;
        results.sort_by(f64::total_cmp);
        Some((results[results.len() / 2] + results[(results.len() - 1) / 2]) / 2.0)
    };
    table_row(case.name, median)
}

fn table_row(name: &str, mut median: impl FnMut(fn(&Kind) -> bool) -> Option<f64>) -> String {
    let this = median(|kind| *kind == Kind::This);
    let raw = median(|kind| matches!(kind, Kind::Raw(_)));
    let java = median(|kind| *kind == Kind::Java);
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
    let ratio = |a: Option<f64>, b: Option<f64>, digits: usize| {
        let ratio = a.zip(b).map(|(a, b)| a / b);
        ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.digits$}"))
    };
    let (to_raw, to_this) = (ratio(this, raw, 2), ratio(java, this, 1));
    let [this, raw, java] = [this, raw, java].map(cell);
    format!("| {name} | {this} | {raw} | {java} | {to_raw} | {to_this} |")
}
