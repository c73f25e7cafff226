//! What is measured: latencies of each kind of request, faults, and the clocks of the cluster.
//!
//! Each answered request has three times: its *response* from the intended instant, its
//! *service* from the instant at which it was handed to the socket, and the tool's *own delay*
//! between the two. A response is the sum of the others, to the nanosecond; histograms hold
//! microseconds. Only requests whose intended instant lies in the measured window are recorded.

use std::ops::Range;

use hdrhistogram::Histogram;

use crate::board::Nanos;
use crate::check::{Checked, Fault, Finding};
use crate::op::Op;
use crate::plan::Phases;

/// Decimal digits that a histogram keeps.
const DIGITS: u8 = 3;
/// Findings that are kept word for word, of each core and second.
const KEPT_FINDINGS: usize = 8;

/// Clocks that only a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From the intended instant at which a broker came to the first answer that shows it.
    Visible,
    /// From the intended instant of a change to the first answer that shows it.
    Fresh,
    /// From the instant at which a broker went (a silent one: its deadline) to the first answer
    /// without it; as fine as the watching.
    Gone,
}

impl Clock {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Visible, Self::Fresh, Self::Gone];

    /// A word for tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visible => "coming to visible",
            Self::Fresh => "change to visible",
            Self::Gone => "going to gone",
        }
    }
}

/// When, seen from the disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Before it.
    Before,
    /// During it.
    During,
    /// After it.
    After,
}

/// Latencies in microseconds.
#[derive(Clone, Debug)]
pub struct Latencies(pub Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // Three digits are a valid precision, so this is one that grows.
        let made = Histogram::new(DIGITS).or_else(|_| Histogram::new(1));
        Self(made.unwrap_or_else(|_| unreachable!("one digit is always valid")))
    }
}

impl Latencies {
    /// Records a time.
    pub fn record(&mut self, time: Nanos) {
        // It grows, so there is nothing that would not fit.
        let _ = self.0.record(time / 1000);
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        // Both grow, so there is nothing that would not fit.
        let _ = self.0.add(&other.0);
    }

    /// Microseconds that so many per cent of the times do not exceed; 0 when there is none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        if self.0.is_empty() {
            0
        } else {
            self.0.value_at_percentile(percent)
        }
    }
}

/// The times of one kind of request.
#[derive(Clone, Debug, Default)]
pub struct OpRecord {
    /// Requests of the window.
    pub sent: u64,
    /// Those that were answered.
    pub answered: u64,
    /// From the intended instant.
    pub response: Latencies,
    /// From the socket.
    pub service: Latencies,
    /// In the tool.
    pub own: Latencies,
}

/// Everything that one core measured in one second.
#[derive(Clone, Debug)]
pub struct Interval {
    /// By kind of request.
    pub ops: Vec<OpRecord>,
    /// Responses of [`Op::Route`] before, during and after the disturbance.
    pub weather: [Latencies; 3],
    /// The clocks of the cluster.
    pub clocks: [Latencies; 3],
    /// By kind of fault, in the window or not.
    pub faults: [u64; Fault::ALL.len()],
    /// Some of them in words.
    pub findings: Vec<Finding>,
    /// Answers that were read in full, equal to one that was, and unread.
    pub checked: [u64; 3],
    /// When a broker last became visible.
    pub last_visible: Nanos,
    /// Requests of the plan that were not sent, because an earlier one was under way.
    pub skipped: u64,
    /// Slow readers that the server cut off.
    pub slow_closed: u64,
    /// CPU time of the thread.
    pub busy: Nanos,
    /// The time that this covers.
    pub wall: Nanos,
    /// Received bytes.
    pub bytes_in: u64,
    /// Sent bytes.
    pub bytes_out: u64,
}

impl Default for Interval {
    fn default() -> Self {
        Self {
            ops: vec![OpRecord::default(); Op::ALL.len()],
            weather: Default::default(),
            clocks: Default::default(),
            faults: Default::default(),
            findings: Vec::new(),
            checked: Default::default(),
            last_visible: 0,
            skipped: 0,
            slow_closed: 0,
            busy: 0,
            wall: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }
}

impl Interval {
    /// Adds what another core, or another second, has measured.
    pub fn add(&mut self, other: &Self) {
        for (sum, op) in self.ops.iter_mut().zip(&other.ops) {
            sum.sent += op.sent;
            sum.answered += op.answered;
            sum.response.add(&op.response);
            sum.service.add(&op.service);
            sum.own.add(&op.own);
        }
        let latencies = self.weather.iter_mut().chain(&mut self.clocks);
        for (sum, one) in latencies.zip(other.weather.iter().chain(&other.clocks)) {
            sum.add(one);
        }
        for (sum, one) in self.faults.iter_mut().zip(&other.faults) {
            *sum += one;
        }
        for (sum, one) in self.checked.iter_mut().zip(&other.checked) {
            *sum += one;
        }
        for finding in &other.findings {
            self.keep(finding.clone());
        }
        self.last_visible = self.last_visible.max(other.last_visible);
        self.skipped += other.skipped;
        self.slow_closed += other.slow_closed;
        self.busy += other.busy;
        self.wall += other.wall;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// Counts a fault and keeps it in words as long as there is room for its kind.
    pub fn fault(&mut self, finding: Finding) {
        self.faults[finding.fault as usize] += 1;
        self.keep(finding);
    }

    /// All kinds of requests together.
    #[must_use]
    pub fn all_ops(&self) -> OpRecord {
        let mut sum = OpRecord::default();
        for op in &self.ops {
            sum.sent += op.sent;
            sum.answered += op.answered;
            sum.response.add(&op.response);
            sum.service.add(&op.service);
            sum.own.add(&op.own);
        }
        sum
    }

    fn keep(&mut self, finding: Finding) {
        let alike = |kept: &&Finding| kept.fault == finding.fault;
        if self.findings.contains(&finding) {
            return;
        }
        if self.findings.iter().filter(alike).count() < KEPT_FINDINGS {
            self.findings.push(finding);
        }
    }
}

/// Decides what belongs into the records of a core.
#[derive(Debug)]
pub struct Recorder {
    /// The current second.
    pub now: Interval,
    window: Range<Nanos>,
    storm: Range<Nanos>,
    /// The load is open: a response counts from its intended instant.
    open: bool,
}

/// The instants of one request.
#[derive(Clone, Copy, Debug)]
pub struct Instants {
    /// When the plan wanted it.
    pub intended: Nanos,
    /// When it was handed to the socket.
    pub submitted: Nanos,
}

impl Recorder {
    /// Before the start of the plan is known nothing is recorded.
    #[must_use]
    pub fn new(open: bool) -> Self {
        Self {
            now: Interval::default(),
            window: 0..0,
            storm: 0..0,
            open,
        }
    }

    /// The plan starts at `start`.
    pub fn begin(&mut self, phases: &Phases, start: Nanos) {
        self.window = start + phases.measure_from..start + phases.end;
        self.storm = start + phases.storm_from..start + phases.storm_until;
    }

    /// A request was handed to the socket.
    pub fn sent(&mut self, op: Op, instants: Instants) {
        if self.window.contains(&instants.intended) {
            let record = &mut self.now.ops[op.index()];
            record.sent += 1;
            if op.is_oneway() {
                record
                    .own
                    .record(instants.submitted.saturating_sub(instants.intended));
            }
        }
    }

    /// Its answer is here, or will never come and has taken at least until `now`.
    pub fn done(&mut self, op: Op, instants: Instants, now: Nanos, answered: bool) {
        if !self.window.contains(&instants.intended) {
            return;
        }
        let record = &mut self.now.ops[op.index()];
        record.answered += u64::from(answered);
        let service = now.saturating_sub(instants.submitted);
        let own = instants.submitted.saturating_sub(instants.intended);
        let response = if self.open { service + own } else { service };
        record.response.record(response);
        record.service.record(service);
        record.own.record(own);
        if op == Op::Route {
            let weather = self.weather(instants.intended);
            self.now.weather[weather as usize].record(response);
        }
    }

    /// A clock of the cluster has run from `from` until `now`.
    pub fn clock(&mut self, clock: Clock, from: Nanos, now: Nanos) {
        if self.window.contains(&from) {
            self.now.clocks[clock as usize].record(now.saturating_sub(from));
            if clock == Clock::Visible {
                self.now.last_visible = self.now.last_visible.max(now);
            }
        }
    }

    /// An answer was judged right.
    pub fn checked(&mut self, checked: &Checked) {
        let place = match checked {
            Checked::InFull => 0,
            Checked::Equal => 1,
            Checked::Unread => 2,
        };
        self.now.checked[place] += 1;
    }

    /// Takes the records of the second that ends.
    pub fn take(&mut self) -> Interval {
        std::mem::take(&mut self.now)
    }

    fn weather(&self, intended: Nanos) -> Weather {
        if intended < self.storm.start {
            Weather::Before
        } else if intended < self.storm.end {
            Weather::During
        } else {
            Weather::After
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: Phases = Phases {
        measure_from: 1_000_000_000,
        end: 10_000_000_000,
        storm_from: 5_000_000_000,
        storm_until: 6_000_000_000,
    };
    const MS: Nanos = 1_000_000;

    fn recorder(open: bool) -> Recorder {
        let mut recorder = Recorder::new(open);
        recorder.begin(&PHASES, 500 * MS);
        recorder
    }

    fn one(recorder: &mut Recorder, intended_ms: Nanos) {
        let instants = Instants {
            intended: intended_ms * MS,
            submitted: (intended_ms + 2) * MS,
        };
        recorder.sent(Op::Route, instants);
        recorder.done(Op::Route, instants, (intended_ms + 7) * MS, true);
    }

    #[test]
    fn a_response_is_service_plus_own_delay() {
        let mut recorder = recorder(true);
        one(&mut recorder, 2000);
        let record = &recorder.now.ops[Op::Route.index()];
        assert_eq!((record.sent, record.answered), (1, 1));
        let shown = [&record.response, &record.service, &record.own].map(|l| l.percentile(50.0));
        assert_eq!(shown, [7003, 5003, 2000], "within three digits");
    }

    #[test]
    fn in_a_closed_loop_the_tools_delay_is_no_part_of_the_response() {
        let mut recorder = recorder(false);
        one(&mut recorder, 2000);
        assert_eq!(
            recorder.now.ops[Op::Route.index()]
                .response
                .percentile(50.0),
            5003
        );
    }

    #[test]
    fn only_the_window_counts_and_the_storm_apart() {
        let mut recorder = recorder(true);
        for intended_ms in [1499, 1500, 5499, 5500, 6499, 6500, 10_499, 10_500] {
            one(&mut recorder, intended_ms);
        }
        let interval = recorder.take();
        assert_eq!(interval.ops[Op::Route.index()].answered, 6);
        let by_weather = interval
            .weather
            .each_ref()
            .map(|latencies| latencies.0.len());
        assert_eq!(by_weather, [2, 2, 2]);
        assert_eq!(recorder.now.ops[Op::Route.index()].sent, 0);
    }

    #[test]
    fn intervals_add_up() {
        let mut recorder = recorder(true);
        one(&mut recorder, 2000);
        let mut sum = recorder.take();
        one(&mut recorder, 3000);
        for number in 0..20 {
            recorder
                .now
                .fault(Finding::new(Fault::Lost, format!("x{}", number / 2)));
        }
        recorder.now.fault(Finding::new(Fault::Late, "y"));
        recorder.clock(Clock::Visible, 2000 * MS, 2500 * MS);
        sum.add(&recorder.take());
        assert_eq!(sum.all_ops().answered, 2);
        assert_eq!(sum.all_ops().response.0.len(), 2);
        assert_eq!(sum.faults[Fault::Lost as usize], 20);
        assert_eq!(
            sum.findings.len(),
            9,
            "eight different ones of one kind and one of the other"
        );
        assert_eq!((sum.clocks[0].0.len(), sum.last_visible), (1, 2500 * MS));
    }

    #[test]
    fn a_request_that_is_never_answered_still_has_its_time() {
        let mut recorder = recorder(true);
        let instants = Instants {
            intended: 2000 * MS,
            submitted: 2000 * MS,
        };
        recorder.done(Op::Route, instants, 5000 * MS, false);
        let record = &recorder.now.ops[Op::Route.index()];
        assert_eq!((record.answered, record.response.0.len()), (0, 1));
        assert!(record.response.percentile(100.0) >= 3_000_000);
    }
}
