//! How fast the tool is without a server: requests encoded, answered by sessions in this very
//! thread, cut, and judged. The time of the sessions is measured apart and taken off.

use std::fmt::Write;

use crate::board::{Board, Nanos};
use crate::check::{Checked, Checker, Times, Truth};
use crate::clock::Clock;
use crate::config::Config;
use crate::encode::{Encoder, Part, Registration, Request};
use crate::inbound::{Answer, Inbound};
use crate::node::Node;
use crate::op::Op;
use crate::plan::{Plan, Target};
use crate::topology::HOT_TOPICS;
use crate::units::count_text;

/// Requests that are encoded and judged together, so that reading the clock costs nothing.
const BATCH: u32 = 64;
/// Least requests of each kind.
const ROUTE_READS: u32 = 100_000;
const CLUSTER_READS: u32 = 500;

/// Measures the tool's share of each kind of request. The text says requests per second of one
/// core.
///
/// # Errors
/// The judge called an answer of the right server wrong: the tool itself is broken.
pub fn self_test(config: Config) -> Result<String, String> {
    let mut bench = Bench::new(Plan::new(config));
    let brokers = bench.plan.topology.brokers;
    let register = bench.measure(brokers, Op::Register, |_, number| {
        let what = Registration {
            broker: number,
            versions: [0; HOT_TOPICS],
            part: Part::Chunk(0),
        };
        Request::Register(what)
    })?;
    let clients = bench.plan.config.clients.max(1);
    let topics = bench.plan.config.client_topics.max(1);
    let route = bench.measure(ROUTE_READS, Op::Route, |plan, number| {
        match plan.client_target(number % clients, number / clients % topics) {
            Target::Topic(topic) => Request::Route(topic),
            Target::Absent(number) => Request::NoRoute(number),
        }
    })?;
    let cluster = bench.measure(CLUSTER_READS, Op::Cluster, |_, _| Request::Cluster)?;
    let beat = bench.measure(ROUTE_READS, Op::Heartbeat, |_, number| {
        Request::Version(number % brokers, [0; HOT_TOPICS])
    })?;
    let mut text = String::from("the tool alone, one core, without sockets:\n");
    for one in [register, route, cluster, beat] {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{one}");
    }
    let _ = write!(
        text,
        "answers judged: {} in full, {} equal to one judged in the same state",
        bench.in_full, bench.equal
    );
    Ok(text)
}

struct Bench {
    plan: Plan,
    board: Board,
    node: Node,
    /// One connection is enough, since nothing is closed.
    peer: u64,
    inbound: Inbound,
    encoder: Encoder,
    checker: Checker,
    clock: Clock,
    in_full: u64,
    equal: u64,
}

impl Bench {
    fn new(plan: Plan) -> Self {
        let mut node = Node::default();
        Self {
            board: Board::new(&plan.topology),
            plan,
            peer: node.connect(),
            node,
            inbound: Inbound::default(),
            encoder: Encoder::default(),
            checker: Checker::new(1000),
            clock: Clock::default(),
            in_full: 0,
            equal: 0,
        }
    }

    fn measure(
        &mut self,
        count: u32,
        op: Op,
        make: impl Fn(&Plan, u32) -> Request,
    ) -> Result<String, String> {
        let mut tool: Nanos = 0;
        let mut server: Nanos = 0;
        let mut requests = Vec::new();
        for first in (0..count).step_by(BATCH as usize) {
            let end = count.min(first + BATCH);
            requests.clear();
            requests.extend((first..end).map(|number| make(&self.plan, number)));
            let began = self.clock.now();
            self.encode(op, &requests)?;
            let encoded = self.clock.now();
            let mut answers = Vec::new();
            let now_ms = encoded / 1_000_000;
            self.node
                .receive(self.peer, &self.encoder.out, now_ms, &mut answers);
            let answered = self.clock.now();
            self.judge(op, &requests, &answers, encoded)?;
            server += answered - encoded;
            tool += self.clock.now() - began - (answered - encoded);
        }
        let rate = |nanos: Nanos| count_text(f64::from(count) * 1e9 / nanos.max(1) as f64);
        Ok(format!(
            "{:<16}{:>10} requests {:>8}/s {:>9.2} us each   (sessions: {}/s)",
            op.name(),
            count,
            rate(tool),
            tool as f64 / 1e3 / f64::from(count),
            rate(server)
        ))
    }

    fn encode(&mut self, op: Op, requests: &[Request]) -> Result<(), String> {
        self.encoder.out.clear();
        let Plan { topology, config } = &self.plan;
        for (opaque, request) in (0..).zip(requests) {
            if let Request::Register(what) = request {
                self.board.coming(what.broker, self.clock.now());
            }
            let encoded = self.encoder.encode(topology, config, request, op, opaque);
            encoded.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn judge(
        &mut self,
        op: Op,
        requests: &[Request],
        answers: &[u8],
        sent: Nanos,
    ) -> Result<(), String> {
        let mut input = answers;
        let mut judged = 0;
        while !input.is_empty() {
            let checker = &self.checker;
            let answer = self.inbound.next(&mut input, |opaque, _, _| {
                let request = requests.get(usize::try_from(opaque).ok()?)?;
                checker.expected(request.subject()?)
            });
            let answer = answer.map_err(|error| error.to_string())?;
            if let Some(answer) = answer {
                judged += 1;
                self.judge_one(requests, answer, sent)?;
            }
        }
        if judged == requests.len() || op.is_oneway() {
            Ok(())
        } else {
            Err(format!("{judged} answers to {} requests", requests.len()))
        }
    }

    fn judge_one(
        &mut self,
        requests: &[Request],
        answer: Answer,
        sent: Nanos,
    ) -> Result<(), String> {
        let clock = self.clock;
        let now = clock.now();
        let truth = Truth {
            topology: &self.plan.topology,
            board: &self.board,
            times: Times { sent, now },
        };
        let Some(request) = requests.get(answer.opaque as usize) else {
            return Err(format!("an answer with number {}", answer.opaque));
        };
        let checked = match *request {
            Request::Route(topic) => {
                let body = answer.body;
                self.checker
                    .route(truth, topic, answer.code, body, || clock.now())
            }
            Request::NoRoute(_) => self.checker.no_route(answer.code),
            Request::Cluster => {
                let body = answer.body;
                let judged = self
                    .checker
                    .cluster(truth, answer.code, body, false, || clock.now());
                judged.map(|(checked, _)| checked)
            }
            Request::Register(what) => {
                self.board.came(what.broker, now);
                Ok(Checked::InFull)
            }
            Request::Unregister(_) | Request::Version(..) => Ok(Checked::InFull),
        };
        match checked {
            Ok(Checked::Equal) => self.equal += 1,
            Ok(_) => self.in_full += 1,
            Err(finding) => return Err(format!("{}: {}", finding.fault.name(), finding.detail)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use crate::config::RunArgs;

    #[test]
    fn the_judge_agrees_with_the_librarys_own_sessions() {
        let args = RunArgs {
            brokers: Some(60),
            topics: Some(40),
            clients: Some(40),
            ..RunArgs::default()
        };
        let mut bench = Bench::new(Plan::new(Config::resolve(&args, 1)));
        let register = |_: &Plan, number| {
            Request::Register(Registration {
                broker: number,
                versions: [0; HOT_TOPICS],
                part: Part::Chunk(0),
            })
        };
        bench.measure(60, Op::Register, register).unwrap();
        let topics = bench.plan.topology.topics();
        let route = |_: &Plan, number| Request::Route(number % topics);
        bench.measure(2 * topics, Op::Route, route).unwrap();
        bench
            .measure(10, Op::Cluster, |_, _| Request::Cluster)
            .unwrap();
        assert!(bench.equal >= u64::from(topics), "{}", bench.equal);
        bench.board.leaving(7, bench.clock.now());
        bench.board.left(7, bench.clock.now());
        let ghost = bench.measure(1, Op::Cluster, |_, _| Request::Cluster);
        assert!(ghost.is_err_and(|why| why.starts_with("ghost: ")));
    }
}
