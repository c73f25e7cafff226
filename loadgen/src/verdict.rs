//! What a run has shown, in one word and one exit code.
//!
//! In this order: a wrong answer is wrong at any speed; a tool that was late cannot say anything
//! of the server's speed; a server that let requests wait too long is saturated; anything else
//! is ok. A server that is merely slow is ok: its latencies say how slow.

use serde::{Deserialize, Serialize};

use crate::check::Fault;
use crate::config::Config;
use crate::op::Op;
use crate::record::Interval;

/// Of so many requests one may be late or refused for overload before the server counts as
/// saturated: a single stall of the host is not the server's.
const SATURATED_ONE_IN: u64 = 1000;
/// The tool's own delay may be this part of the p99 of responses.
const OWN_DELAY_PART: u64 = 10;
/// Share of a thread's time, in per cent, above which a closed loop measures the tool.
const BUSY_LIMIT: u64 = 97;

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing to complain about.
    Ok,
    /// The server gave wrong answers.
    WrongAnswers,
    /// The server let requests wait too long.
    ServerSaturated,
    /// The tool was late itself.
    ToolLate,
}

impl Verdict {
    /// The exit code of the process. 1 and 2 are for runs that did not take place.
    #[must_use]
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::ToolLate => 3,
            Self::WrongAnswers => 4,
            Self::ServerSaturated => 5,
        }
    }

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::WrongAnswers => "WRONG ANSWERS",
            Self::ServerSaturated => "SERVER SATURATED",
            Self::ToolLate => "TOOL LATE (these latencies are not the server's)",
        }
    }
}

/// The verdict and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The word.
    pub verdict: Verdict,
    /// All that speaks against ok, the weightiest first.
    pub reasons: Vec<String>,
}

/// Judges a whole run.
#[must_use]
pub fn judge(config: &Config, sum: &Interval) -> Judgement {
    let all = sum.all_ops();
    let mut verdict = Verdict::Ok;
    let mut reasons = Vec::new();
    let mut against = |word: Verdict, reason: String| {
        if verdict == Verdict::Ok {
            verdict = word;
        }
        reasons.push(reason);
    };
    let count = |fault: Fault| sum.faults[fault as usize];
    for fault in Fault::ALL.into_iter().filter(|fault| fault.is_wrong()) {
        if count(fault) > 0 {
            against(
                Verdict::WrongAnswers,
                format!("{} {}", count(fault), fault.name()),
            );
        }
    }
    let own = all.own.percentile(99.0);
    let limit_us = config.late_limit.as_micros() as u64;
    let allowed = limit_us.max(all.response.percentile(99.0) / OWN_DELAY_PART);
    if !config.closed && own > allowed {
        let reason = format!("p99 of the tool's own delay is {own} us, allowed are {allowed} us");
        against(Verdict::ToolLate, reason);
    }
    let busy = sum.busy.saturating_mul(100) / sum.wall.max(1);
    if config.closed && busy > BUSY_LIMIT {
        let reason = format!("the tool's threads were busy {busy} % of the time");
        against(Verdict::ToolLate, reason);
    }
    let slow: u64 = Fault::ALL
        .into_iter()
        .filter(|fault| !fault.is_wrong())
        .map(count)
        .sum();
    if config.closed && config.clients > 0 && sum.ops[Op::Route.index()].sent == 0 && slow == 0 {
        // As when the host stops for longer than the measured time.
        let reason = "no route read was sent in the measured time".to_owned();
        against(Verdict::ToolLate, reason);
    }
    if slow > all.sent / SATURATED_ONE_IN {
        let reason = format!(
            "{} late, {} unanswered, {} refused for overload",
            count(Fault::Late),
            count(Fault::Unanswered),
            count(Fault::Overloaded)
        );
        against(Verdict::ServerSaturated, reason);
    }
    Judgement { verdict, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Finding;
    use crate::config::RunArgs;

    fn interval(requests: u64, own_us: u64, service_us: u64) -> Interval {
        let mut interval = Interval::default();
        let op = &mut interval.ops[Op::Route.index()];
        (op.sent, op.answered) = (requests, requests);
        for _ in 0..requests {
            op.own.record(own_us * 1000);
            op.response.record((own_us + service_us) * 1000);
        }
        interval
    }

    fn verdict(sum: &Interval) -> Verdict {
        judge(&Config::resolve(&RunArgs::default(), 2), sum).verdict
    }

    #[test]
    fn a_tool_that_is_late_says_so() {
        assert_eq!(verdict(&interval(100, 50, 300)), Verdict::Ok);
        assert_eq!(verdict(&interval(100, 1900, 300)), Verdict::Ok);
        assert_eq!(verdict(&interval(100, 2100, 300)), Verdict::ToolLate);
        assert_eq!(verdict(&interval(100, 2100, 30_000)), Verdict::Ok);
    }

    #[test]
    fn one_wrong_answer_outweighs_everything() {
        let mut sum = interval(10_000, 9000, 300);
        sum.fault(Finding::new(Fault::Ghost, "x"));
        let judgement = judge(&Config::resolve(&RunArgs::default(), 2), &sum);
        assert_eq!(judgement.verdict, Verdict::WrongAnswers);
        assert_eq!(judgement.reasons[0], "1 ghost");
        assert_eq!(judgement.reasons.len(), 2, "and the tool was late too");
    }

    #[test]
    fn a_single_stall_is_not_saturation() {
        let mut sum = interval(2000, 50, 300);
        sum.fault(Finding::new(Fault::Late, "x"));
        sum.fault(Finding::new(Fault::Overloaded, "x"));
        assert_eq!(verdict(&sum), Verdict::Ok);
        sum.fault(Finding::new(Fault::Unanswered, "x"));
        assert_eq!(verdict(&sum), Verdict::ServerSaturated);
    }

    #[test]
    fn a_closed_loop_that_stood_still_measured_nothing() {
        let mut config = Config::resolve(&RunArgs::default(), 2);
        config.closed = true;
        assert_eq!(judge(&config, &interval(1, 0, 300)).verdict, Verdict::Ok);
        let mut idle = interval(0, 0, 300);
        assert_eq!(judge(&config, &idle).verdict, Verdict::ToolLate);
        idle.fault(Finding::new(Fault::Unanswered, "x"));
        assert_eq!(judge(&config, &idle).verdict, Verdict::ServerSaturated);
        config.closed = false;
        assert_eq!(judge(&config, &interval(0, 0, 300)).verdict, Verdict::Ok);
    }

    #[test]
    fn every_verdict_has_its_own_exit_code() {
        let all = [
            Verdict::Ok,
            Verdict::ToolLate,
            Verdict::WrongAnswers,
            Verdict::ServerSaturated,
        ];
        assert_eq!(all.map(Verdict::exit_code), [0, 3, 4, 5]);
    }
}
