//! One run from the outside: cores started, the plan begun, seconds gathered, the whole judged.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namesrv::rt::{CoreHandle, raise_descriptor_limit, usable_cpus};

use crate::board::Nanos;
use crate::config::Config;
use crate::drive::{self, Message, Run};
use crate::hlog::HistogramLog;
use crate::host::{self, ProcessSample};
use crate::op::Op;
use crate::plan::Plan;
use crate::preflight::{self, ServerFacts};
use crate::record::Interval;
use crate::result::{Circumstances, Provenance, RunResult, Second, Server, round};
use crate::summary;
use crate::units::nanos;
use crate::verdict;

/// Descriptors that are not connections.
const OTHER_DESCRIPTORS: u64 = 64;
/// One line of the live view.
const LINE: Nanos = 1_000_000_000;
const NANOS_A_SECOND: f64 = 1e9;

/// Where results go.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// Process of the server, to be watched.
    pub pid: Option<u32>,
    /// Result file.
    pub json: Option<PathBuf>,
    /// Histogram log.
    pub hlog: Option<PathBuf>,
    /// Print the result only.
    pub quiet: bool,
}

/// Runs it.
///
/// # Errors
/// It could not take place.
pub fn run(config: Config, outputs: &Outputs) -> Result<RunResult, String> {
    let seats =
        u64::from(config.brokers) + u64::from(config.clients) + u64::from(config.slow_readers);
    let needed = seats + OTHER_DESCRIPTORS;
    let (allowed, _) = raise_descriptor_limit(needed).map_err(|error| error.to_string())?;
    if allowed < needed {
        return Err(format!(
            "{seats} connections need {needed} descriptors and {allowed} are allowed: raise \
             `ulimit -n`, or simulate fewer brokers and clients"
        ));
    }
    let facts = preflight::ask(config.addr)?;
    if facts.brokers > 0 {
        return Err(format!(
            "{} knows {} brokers already; nobody could tell them from mistakes, so start with \
             an empty NameServer",
            config.addr, facts.brokers
        ));
    }
    let cpus = cpus_of(&config)?;
    let run = Arc::new(Run::new(Plan::new(config)));
    let began = SystemTime::now();
    let (handles, messages) = drive::start(&run, &cpus).map_err(|error| error.to_string())?;
    let mut watch = Watch::new(Arc::clone(&run), outputs, cpus.len());
    let outcome = watch
        .set_up(&messages)
        .and_then(|()| watch.measure(&messages));
    run.stop();
    let joined = join(handles);
    outcome.and(joined)?;
    watch.result(facts, began)
}

fn join(handles: Vec<CoreHandle>) -> Result<(), String> {
    for handle in handles {
        handle.join().map_err(|panicked| panicked.to_string())?;
    }
    Ok(())
}

/// The last CPUs: a server that does not pin itself tends to start on the first.
fn cpus_of(config: &Config) -> Result<Vec<usize>, String> {
    let mut cpus = usable_cpus().map_err(|error| error.to_string())?;
    if config.cores > cpus.len() {
        return Err(format!("--cores={} on {} CPUs", config.cores, cpus.len()));
    }
    cpus.drain(..cpus.len() - config.cores);
    Ok(cpus)
}

/// The main thread's view of a run.
struct Watch<'a> {
    run: Arc<Run>,
    outputs: &'a Outputs,
    cores: usize,
    /// Everything of the measured window, and faults of all the time.
    sum: Interval,
    /// Since the last line.
    second: Interval,
    series: Vec<Second>,
    hlog: HistogramLog,
    start: Nanos,
    line_at: Nanos,
    setup: Nanos,
    last_sample: Option<ProcessSample>,
    server: Option<Server>,
    at_begin: Option<(Nanos, ProcessSample)>,
    at_end: Option<(Nanos, ProcessSample)>,
}

impl<'a> Watch<'a> {
    fn new(run: Arc<Run>, outputs: &'a Outputs, cores: usize) -> Self {
        Self {
            outputs,
            cores,
            sum: Interval::default(),
            second: Interval::default(),
            series: Vec::new(),
            hlog: HistogramLog::default(),
            start: 0,
            line_at: 0,
            setup: 0,
            last_sample: None,
            server: outputs.pid.map(|_| Server::default()),
            at_begin: None,
            at_end: None,
            run,
        }
    }

    /// Waits until everybody is there.
    fn set_up(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        let (mut ready, mut seats) = (0, 0);
        while ready < self.cores {
            match messages.recv_timeout(Duration::from_millis(200)) {
                Ok(Message::Progress(more)) => seats += more,
                Ok(Message::Ready) => ready += 1,
                Ok(Message::Interval(interval)) => self.keep_faults(&interval),
                Ok(Message::Failed(why)) => return Err(why),
                Ok(Message::Ended) | Err(RecvTimeoutError::Disconnected) => {
                    return Err("a core ended before the start".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if seats % 100 == 0 {
                self.show(&format!("{seats} connected and registered"));
            }
        }
        self.setup = self.run.clock.now();
        self.start = self.run.begin();
        self.line_at = self.start;
        Ok(())
    }

    /// Gathers until the cores have ended.
    fn measure(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        let phases = self.run.phases;
        let begin = self.start + phases.measure_from;
        let end = self.start + phases.end;
        let mut running = self.cores;
        while running > 0 {
            let now = self.run.clock.now();
            if self.at_begin.is_none() && now >= begin {
                self.at_begin = self.sample().map(|sample| (now, sample));
            }
            if self.at_end.is_none() && now >= end {
                self.at_end = self.sample().map(|sample| (now, sample));
            }
            if now >= self.line_at + LINE {
                self.end_second(now);
            }
            let next = [begin, end, self.line_at + LINE]
                .into_iter()
                .filter(|at| *at > now)
                .min()
                .unwrap_or(now + LINE);
            match messages.recv_timeout(Duration::from_nanos(next - now)) {
                Ok(Message::Interval(interval)) => {
                    self.keep_faults(&interval);
                    self.second.add(&interval);
                }
                Ok(Message::Ended) => running -= 1,
                Ok(Message::Failed(why)) => return Err(why),
                Ok(Message::Progress(_) | Message::Ready) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let now = self.run.clock.now();
        self.end_second(now);
        if self.outputs.pid.is_some() && self.at_end.is_none() {
            return Err("the watched process is gone".to_owned());
        }
        Ok(())
    }

    /// What goes wrong before the window counts as well.
    fn keep_faults(&mut self, interval: &Interval) {
        if self.start == 0 {
            let only_faults = Interval {
                faults: interval.faults,
                findings: interval.findings.clone(),
                ..Interval::default()
            };
            self.sum.add(&only_faults);
        }
    }

    fn end_second(&mut self, now: Nanos) {
        let width = now - self.line_at;
        let begin = self.start + self.run.phases.measure_from;
        let seconds = |nanos: Nanos| nanos as f64 / NANOS_A_SECOND;
        let at_s = seconds(self.line_at) - seconds(begin);
        let sample = self.sample();
        let used = match (&self.last_sample, &sample) {
            (Some(before), Some(after)) => cpu_between(before, after),
            _ => 0,
        };
        let all = self.second.all_ops();
        let route = &self.second.ops[Op::Route.index()];
        let line = Second {
            at_s: round(at_s),
            answered: all.answered,
            p50_us: all.response.percentile(50.0),
            p99_us: all.response.percentile(99.0),
            route_p99_us: route.response.percentile(99.0),
            max_us: all.response.percentile(100.0),
            own_p99_us: all.own.percentile(99.0),
            faults: self.second.faults.iter().sum(),
            brokers_up: self.run.board.up() as u64,
            busy: round(self.second.busy as f64 / self.second.wall.max(1) as f64),
            server_cpus: round(used as f64 / width.max(1) as f64),
            server_rss_bytes: sample.map_or(0, |sample| sample.rss_bytes),
        };
        self.show(&summary::line(&line, seconds(width)));
        if self.outputs.hlog.is_some() && at_s > -1.0 {
            let from = Duration::from_secs_f64(at_s.max(0.0));
            self.hlog
                .add(from, Duration::from_nanos(width), &self.second);
        }
        let mut second = std::mem::take(&mut self.second);
        if at_s <= -1.0 {
            // The warm-up is no part of what the tool needed.
            (second.busy, second.wall, second.bytes_in, second.bytes_out) = (0, 0, 0, 0);
        }
        self.sum.add(&second);
        self.series.push(line);
        self.line_at = now;
        self.last_sample = sample;
    }

    fn sample(&mut self) -> Option<ProcessSample> {
        let sample = host::sample(self.outputs.pid?)?;
        if let Some(server) = &mut self.server {
            server.rss_bytes = server.rss_bytes.max(sample.rss_bytes);
            server.threads = server.threads.max(sample.threads);
        }
        Some(sample)
    }

    /// A line that the next one replaces, or a line of its own where that is no terminal.
    fn show(&self, text: &str) {
        if self.outputs.quiet {
            return;
        }
        let mut err = std::io::stderr();
        let shown = if err.is_terminal() {
            write!(err, "\r\x1b[K{text}").and_then(|()| err.flush())
        } else if self.start > 0 {
            writeln!(err, "{text}")
        } else {
            Ok(())
        };
        // A closed terminal is no reason to stop measuring.
        drop(shown);
    }

    fn result(mut self, facts: ServerFacts, began: SystemTime) -> Result<RunResult, String> {
        if !self.outputs.quiet && std::io::stderr().is_terminal() {
            eprintln!();
        }
        let Run { plan, phases, .. } = &*self.run;
        let seconds = |nanos: Nanos| nanos as f64 / NANOS_A_SECOND;
        let window_s = seconds(phases.end - phases.measure_from);
        let requests: u64 = self.sum.ops.iter().map(|op| op.sent).sum();
        if let (Some(server), Some((from, before)), Some((until, after))) =
            (&mut self.server, self.at_begin, self.at_end)
        {
            let used = cpu_between(&before, &after);
            let watched_s = seconds(until - from);
            server.cpu_s = round(seconds(used));
            // This thread may have looked a little late, and the requests are those of the window.
            // Much too late, and nothing is known.
            if (until - from) * 2 >= phases.end - phases.measure_from {
                let in_window = used as f64 / 1e3 * window_s / watched_s;
                server.cpu_us_per_request = round(in_window / requests.max(1) as f64);
            }
        }
        let is_stormy = phases.storm_from < phases.end;
        let within = |at: Nanos| round(seconds(at.saturating_sub(phases.measure_from)));
        let storm_at = self.start + phases.storm_from;
        let recovery = self.sum.last_visible.checked_sub(storm_at);
        let digest = plan.digest();
        if let Some(path) = &self.outputs.hlog {
            let written = self.hlog.write(path, began, &digest);
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let topology = &plan.topology;
        let around = Circumstances {
            provenance: Provenance {
                tool: concat!("loadgen ", env!("CARGO_PKG_VERSION")).to_owned(),
                flags: plan.config.words(),
                seed: plan.config.seed,
                plan_digest: digest,
                began_unix_ms: unix_ms(began),
                host: host::facts()
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<BTreeMap<_, _>>(),
                server_version: facts.version,
                cluster: [
                    u64::from(topology.brokers),
                    u64::from(topology.groups),
                    u64::from(topology.topics()),
                    topology.pairs() as u64,
                ],
            },
            window_s,
            storm_s: is_stormy.then(|| (within(phases.storm_from), within(phases.storm_until))),
            recovery_ms: recovery
                .filter(|_| is_stormy)
                .map(|nanos| nanos as f64 / 1e6),
            threads: self.cores,
            setup_s: seconds(self.setup),
            server: self.server,
            series: std::mem::take(&mut self.series),
        };
        let judgement = verdict::judge(&plan.config, &self.sum);
        let result = RunResult::new(&self.sum, judgement, around);
        if let Some(path) = &self.outputs.json {
            let text = serde_json::to_string_pretty(&result).map_err(|error| error.to_string())?;
            let written = std::fs::write(path, text);
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(result)
    }
}

/// CPU time between two samples: exact, unless threads ended in between and took theirs along;
/// then by ticks, which count all threads.
fn cpu_between(before: &ProcessSample, after: &ProcessSample) -> Nanos {
    let exact = after.cpu_of_threads.saturating_sub(before.cpu_of_threads);
    let by_ticks = after.cpu.saturating_sub(before.cpu);
    if exact + 2 * host::TICK >= by_ticks {
        exact
    } else {
        by_ticks
    }
}

fn unix_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH)
        .map_or(0, |since| nanos(since) / 1_000_000)
}
