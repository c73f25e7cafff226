//! The result file: what was run, where, and what came of it.
//!
//! Its form has a version; a reader refuses other versions. Times are microseconds unless the
//! name says otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::Fault;
use crate::op::Op;
use crate::record::{Clock, Interval, Latencies};
use crate::verdict::{Judgement, Verdict};

/// `format` of every result file.
pub const FORMAT: &str = "loadgen-run";
/// `version` of what this program writes and reads.
pub const VERSION: u32 = 1;

/// Percentiles of a curve: evenly spaced on a scale of nines.
const CURVE: [f64; 21] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9,
    99.95, 99.975, 99.99, 99.999, 100.0,
];

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// What made this file.
    pub provenance: Provenance,
    /// In one word.
    pub verdict: Verdict,
    /// The exit code of the run.
    pub exit_code: i32,
    /// What speaks against ok.
    pub reasons: Vec<String>,
    /// By kind of request.
    pub ops: Vec<OpResult>,
    /// The clocks of the cluster.
    pub clocks: BTreeMap<String, Quantiles>,
    /// Route reads before, during and after the disturbance.
    pub storm: Storm,
    /// Counts of each kind of fault.
    pub faults: BTreeMap<String, u64>,
    /// Some of them in words.
    pub findings: Vec<String>,
    /// How the answers were judged.
    pub checks: Checks,
    /// What the tool itself needed.
    pub tool: Tool,
    /// What the server needed, if it was watched.
    pub server: Option<Server>,
    /// Second by second.
    pub series: Vec<Second>,
}

/// What made a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the tool.
    pub tool: String,
    /// Every value of the run as a flag.
    pub flags: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Two results with equal digests come from the same plan.
    pub plan_digest: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Facts about the host.
    pub host: BTreeMap<String, String>,
    /// `version` in the answers of the server.
    pub server_version: i32,
    /// Brokers, groups, topics and queue entries.
    pub cluster: [u64; 4],
}

/// The shape of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Values in it.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.9 %.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpResult {
    /// Name of the kind.
    pub name: String,
    /// Request code.
    pub code: i32,
    /// Requests of the window.
    pub sent: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Requests per second.
    pub per_second: f64,
    /// From the intended instant.
    pub response: Quantiles,
    /// From the socket.
    pub service: Quantiles,
    /// In the tool.
    pub own_delay: Quantiles,
    /// Pairs of percentile and response.
    pub curve: Vec<(f64, u64)>,
}

/// Readers in a disturbance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// Seconds of the measured window at which it began and ended; none if there was none.
    pub window_s: Option<(f64, f64)>,
    /// Route reads before it.
    pub before: Quantiles,
    /// During it.
    pub during: Quantiles,
    /// After it.
    pub after: Quantiles,
    /// p99 during it over p99 before it.
    pub collateral: Option<f64>,
    /// Milliseconds from its beginning to the last broker that became visible.
    pub recovery_ms: Option<f64>,
}

/// How answers were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    /// Read in full.
    pub in_full: u64,
    /// Equal to one that was.
    pub equal: u64,
    /// Not read, to leave time for the load.
    pub unread: u64,
}

/// What the tool needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Threads.
    pub threads: usize,
    /// Share of their time that they were busy.
    pub busy: f64,
    /// Requests that were not sent, because an earlier one of the same broker was under way.
    pub skipped: u64,
    /// Slow readers that the server cut off.
    pub slow_closed: u64,
    /// Seconds until all was connected and registered.
    pub setup_s: f64,
    /// Received bytes.
    pub bytes_in: u64,
    /// Sent bytes.
    pub bytes_out: u64,
}

/// What the server needed in the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// CPU seconds.
    pub cpu_s: f64,
    /// CPU microseconds for each request, one-ways included; 0 if the tool looked at the wrong time.
    pub cpu_us_per_request: f64,
    /// Largest resident memory.
    pub rss_bytes: u64,
    /// Most threads.
    pub threads: u64,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds from the beginning of the measuring; negative in the warm-up.
    pub at_s: f64,
    /// Answers of the window.
    pub answered: u64,
    /// All kinds together.
    pub p50_us: u64,
    /// All kinds together.
    pub p99_us: u64,
    /// Route reads of clients.
    pub route_p99_us: u64,
    /// All kinds together.
    pub max_us: u64,
    /// The tool's own delay.
    pub own_p99_us: u64,
    /// Faults of all kinds.
    pub faults: u64,
    /// Brokers that are certainly up.
    pub brokers_up: u64,
    /// Share of their time that the tool's threads were busy.
    pub busy: f64,
    /// CPUs that the server used.
    pub server_cpus: f64,
    /// Resident memory of the server.
    pub server_rss_bytes: u64,
}

impl Quantiles {
    /// Of these.
    #[must_use]
    pub fn of(latencies: &Latencies) -> Self {
        let at = |percent| latencies.percentile(percent);
        Self {
            count: latencies.0.len(),
            mean_us: round(latencies.0.mean()),
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
        }
    }
}

/// What a run knows besides its sums.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// What made it.
    pub provenance: Provenance,
    /// Length of the measured window.
    pub window_s: f64,
    /// Begin and end of the disturbance within it.
    pub storm_s: Option<(f64, f64)>,
    /// Milliseconds from its beginning to the last broker that became visible.
    pub recovery_ms: Option<f64>,
    /// Threads of the tool.
    pub threads: usize,
    /// Time of the setup.
    pub setup_s: f64,
    /// The server, if watched.
    pub server: Option<Server>,
    /// Second by second.
    pub series: Vec<Second>,
}

impl RunResult {
    /// Puts everything together.
    #[must_use]
    pub fn new(sum: &Interval, judgement: Judgement, around: Circumstances) -> Self {
        let window_s = around.window_s;
        let ops = Op::ALL
            .into_iter()
            .filter_map(|op| op_result(sum, op, window_s))
            .collect();
        let clocks = Clock::ALL
            .into_iter()
            .map(|clock| (clock, &sum.clocks[clock as usize]))
            .filter(|(_, latencies)| !latencies.0.is_empty())
            .map(|(clock, latencies)| (clock.name().to_owned(), Quantiles::of(latencies)))
            .collect();
        let faults = Fault::ALL
            .into_iter()
            .map(|fault| (fault.name().to_owned(), sum.faults[fault as usize]))
            .collect();
        let findings = sum
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.fault.name(), finding.detail))
            .collect();
        let [in_full, equal, unread] = sum.checked;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            provenance: around.provenance,
            verdict: judgement.verdict,
            exit_code: judgement.verdict.exit_code(),
            reasons: judgement.reasons,
            ops,
            clocks,
            storm: storm(sum, around.storm_s, around.recovery_ms),
            faults,
            findings,
            checks: Checks {
                in_full,
                equal,
                unread,
            },
            tool: Tool {
                threads: around.threads,
                busy: round(sum.busy as f64 / sum.wall.max(1) as f64),
                skipped: sum.skipped,
                slow_closed: sum.slow_closed,
                setup_s: round(around.setup_s),
                bytes_in: sum.bytes_in,
                bytes_out: sum.bytes_out,
            },
            server: around.server,
            series: around.series,
        }
    }

    /// Reads a result file.
    ///
    /// # Errors
    /// It is none, or one of another version.
    pub fn read(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            format: String,
            version: u32,
        }
        let kind: Kind = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if kind.format != FORMAT || kind.version != VERSION {
            return Err(format!(
                "{} {} instead of {FORMAT} {VERSION}",
                kind.format, kind.version
            ));
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

fn op_result(sum: &Interval, op: Op, window_s: f64) -> Option<OpResult> {
    let record = &sum.ops[op.index()];
    if record.sent == 0 {
        return None;
    }
    let has_answers = !record.response.0.is_empty();
    let curve = CURVE
        .into_iter()
        .filter(|_| has_answers)
        .map(|percent| (percent, record.response.percentile(percent)))
        .collect();
    Some(OpResult {
        name: op.name().to_owned(),
        code: op.code(),
        sent: record.sent,
        answered: record.answered,
        per_second: round(record.sent as f64 / window_s.max(1e-9)),
        response: Quantiles::of(&record.response),
        service: Quantiles::of(&record.service),
        own_delay: Quantiles::of(&record.own),
        curve,
    })
}

fn storm(sum: &Interval, window_s: Option<(f64, f64)>, recovery_ms: Option<f64>) -> Storm {
    let [before, during, after] = sum.weather.each_ref().map(Quantiles::of);
    let both = window_s.is_some() && before.count > 0 && during.count > 0;
    Storm {
        window_s,
        collateral: both.then(|| round(during.p99_us as f64 / before.p99_us.max(1) as f64)),
        before,
        during,
        after,
        recovery_ms: recovery_ms.map(round),
    }
}

/// Three decimals are enough, and read better.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
#[path = "result_tests.rs"]
pub(crate) mod tests;
