//! Rounds against two servers.
//!
//! A round is four short runs of one plan: A B B A, and in every second round B A A B, so that
//! neither a drift of the machine nor the first place falls on one side.
//!
//! Servers are started for each round and serve its four runs side by side, one under load and
//! the other idle. Why so: two processes of the same program differ by as much as many changes
//! do (addresses, keys of hash tables, which threads came first); with one process for all rounds
//! that difference would look like one between the programs, with fresh ones it is part of the
//! noise, and the interval has it. Within a round they stay, because the halves of a pair should
//! be close in time. A JVM needs minutes to become warm; for it there is `--keep-servers`, one
//! process for all rounds, and `--warm-rounds`, which are not counted.

use std::path::PathBuf;

use crate::compare::judge::Round;
use crate::config::Config;
use crate::metric::Metric;
use crate::result::RunResult;
use crate::run::{Outputs, run};
use crate::server::{Guard, Place, Server, Target};
use crate::summary;
use crate::verdict::Verdict;

/// Of two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is compared with.
    A,
    /// The one that is judged.
    B,
}

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A and B, with the number of a process that was running before.
    pub targets: [(Target, Option<u32>); 2],
    /// Of every run, but for the address.
    pub config: Config,
    /// How many.
    pub rounds: u32,
    /// How many before them, which are not counted.
    pub warm_rounds: u32,
    /// One process for all rounds.
    pub keep_servers: bool,
    /// CPUs of the servers.
    pub server_cpus: Vec<usize>,
    /// Times that a run in which the tool was late is repeated.
    pub retries: u32,
    /// Nothing that the tool's own pace could falsify decides: [`judge::is_of_the_process`].
    pub is_of_processes: bool,
    /// Where results and logs go.
    pub folder: PathBuf,
    /// Say nothing meanwhile.
    pub quiet: bool,
}

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It could not take place.
    Failed(String),
    /// A run of it is worth nothing.
    Invalid(Verdict, String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl Side {
    const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
        }
    }
}

/// The order of a round, counted from 0.
#[must_use]
pub const fn order(round: u32) -> [Side; 4] {
    if round.is_multiple_of(2) {
        [Side::A, Side::B, Side::B, Side::A]
    } else {
        [Side::B, Side::A, Side::A, Side::B]
    }
}

/// Runs them all. Returns also how many runs were repeated. `after_first` may object to what the
/// first round gave.
///
/// # Errors
/// See [`Stop`].
pub fn rounds(
    setting: &Setting,
    guard: &Guard,
    after_first: impl Fn(&[Round]) -> Result<(), String>,
) -> Result<(Vec<Round>, u32), Stop> {
    let mut rounds = Vec::new();
    let mut repeated = 0;
    let mut kept = None;
    for number in 0..setting.warm_rounds + setting.rounds {
        // Taken down before others are started.
        let servers = match kept.take() {
            Some(servers) => servers,
            None => setting.start(number, guard)?,
        };
        let mut round = Round::default();
        // Of the same parity as its number among the counted ones: those begin with A.
        let parity = number + setting.warm_rounds;
        for (place, side) in order(parity).into_iter().enumerate() {
            let name = format!("{}-{}{}", setting.name(number), place + 1, side.letter());
            let server = &servers[side.index()];
            let result = setting.measure(server, &name, &mut repeated)?;
            match side {
                Side::A => round.a.push(result),
                Side::B => round.b.push(result),
            }
        }
        if number == 0 {
            after_first(std::slice::from_ref(&round))?;
        }
        if number >= setting.warm_rounds {
            rounds.push(round);
        }
        if setting.keep_servers {
            kept = Some(servers);
        }
    }
    Ok((rounds, repeated))
}

impl Setting {
    fn start(&self, round: u32, guard: &Guard) -> Result<[Server; 2], String> {
        let start = |side: Side| {
            let (target, pid) = &self.targets[side.index()];
            let name = format!("{}-server-{}", self.name(round), side.letter());
            let place = Place {
                folder: &self.folder.join(name),
                cpus: &self.server_cpus,
                guard,
            };
            match target {
                Target::Running(addr) => Ok(Server::running(*addr, *pid)),
                Target::Words(words) => Server::start(words, &place),
            }
        };
        Ok([start(Side::A)?, start(Side::B)?])
    }

    fn name(&self, round: u32) -> String {
        match round.checked_sub(self.warm_rounds) {
            Some(counted) => format!("round{}", counted + 1),
            None => format!("warm{}", round + 1),
        }
    }

    /// One run of which something can be said.
    fn measure(&self, server: &Server, name: &str, repeated: &mut u32) -> Result<RunResult, Stop> {
        let config = Config {
            addr: server.addr,
            ..self.config.clone()
        };
        let outputs = Outputs {
            pid: server.pid,
            json: Some(self.folder.join(format!("{name}.json"))),
            hlog: None,
            quiet: true,
        };
        for attempt in 0..=self.retries {
            server.wait_until_empty()?;
            let result = run(config.clone(), &outputs)?;
            self.say(name, &result);
            let may_be_busy = self.is_of_processes && self.config.closed;
            let verdict = worth(&result, server.pid.is_some(), may_be_busy);
            match verdict {
                Verdict::Ok => return Ok(result),
                Verdict::ToolLate if attempt < self.retries => *repeated += 1,
                _ => {
                    let screen = summary::screen(&config, &result);
                    return Err(Stop::Invalid(verdict, format!("{name}\n{screen}")));
                }
            }
        }
        Err(Stop::Failed(format!("{name} was never run")))
    }

    fn say(&self, name: &str, result: &RunResult) {
        if self.quiet {
            return;
        }
        let cpu = result.server.map_or_else(String::new, |server| {
            format!(" · cpu {:.1} us", server.cpu_us_per_request)
        });
        let route = result.ops.iter().find(|op| op.code == 105);
        let route = route.map_or_else(String::new, |op| {
            format!(
                " · route p50 {} us, p99 {} us from the socket",
                op.service.p50_us, op.service.p99_us
            )
        });
        eprintln!("{name}{cpu}{route} · {}", result.verdict.text());
    }
}

/// What a run is worth. In a closed loop in which the tool is the slower of the two, the times are
/// the tool's, and still each request costs the server its CPU.
fn worth(result: &RunResult, has_process: bool, may_be_busy: bool) -> Verdict {
    let has_cpu = Metric::Cpu.of(result).is_some();
    let has_read = result.ops.iter().any(|op| op.code == 105 && op.sent > 0);
    match result.verdict {
        // Whoever looks at the server was late.
        Verdict::Ok if has_process && !has_cpu => Verdict::ToolLate,
        Verdict::ToolLate if may_be_busy && has_cpu && has_read => Verdict::Ok,
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fail_if::tests::run_of;

    #[test]
    fn a_busy_tool_spoils_times_only() {
        let mut run = run_of(10.0);
        assert_eq!(worth(&run, true, false), Verdict::Ok);
        run.verdict = Verdict::ToolLate;
        assert_eq!(worth(&run, true, false), Verdict::ToolLate);
        assert_eq!(worth(&run, true, true), Verdict::Ok);
        run.verdict = Verdict::WrongAnswers;
        assert_eq!(worth(&run, true, true), Verdict::WrongAnswers);
        run.verdict = Verdict::ToolLate;
        run.ops.iter_mut().for_each(|op| op.sent = 0);
        assert_eq!(
            worth(&run, true, true),
            Verdict::ToolLate,
            "nothing was measured"
        );
        let unseen = RunResult {
            server: None,
            verdict: Verdict::Ok,
            ..run_of(10.0)
        };
        assert_eq!(worth(&unseen, true, true), Verdict::ToolLate);
        assert_eq!(worth(&unseen, false, true), Verdict::Ok);
    }

    #[test]
    fn both_sides_have_every_place_equally_often() {
        let letters = |round| order(round).map(Side::letter).iter().collect::<String>();
        assert_eq!([0, 1, 2].map(letters), ["abba", "baab", "abba"]);
    }
}
