//! What follows from an answer, or from the end of a connection.

use std::cmp::Reverse;
use std::sync::Arc;

use namesrv::wire::codes::response;

use super::core::Core;
use crate::actor::{Do, RECONNECT_AFTER, Scene};
use crate::board::{Nanos, Presence};
use crate::check::{Checked, Fault, Finding, Shown, Times, Truth, refused};
use crate::encode::Request;
use crate::inbound::Answer;
use crate::op::Op;
use crate::record::Clock;
use crate::schedule::{Act, Seat};
use crate::topology::{broker_addr, parse_addr};

use super::conn::Flight;

impl Core {
    pub(super) fn answered(&mut self, slot: usize, answer: Answer) {
        let Some(flight) = self.conns[slot].land(answer.opaque) else {
            let text = format!("an answer with number {} to nothing", answer.opaque);
            self.recorder.now.fault(Finding::new(Fault::Garbled, text));
            return;
        };
        let seat = self.seat(slot);
        if matches!(seat, Seat::Slow(_)) {
            return;
        }
        let now = self.run.clock.now();
        self.recorder.done(flight.op, flight.at, now, true);
        if self.run.plan.config.closed && matches!(seat, Seat::Client(_)) {
            self.next_closed_read(slot, answer.opaque);
        }
        let changed = answer.changed;
        let judged = self.judge(&flight, answer, now);
        let is_right = judged.is_ok();
        match judged {
            Ok(checked) => {
                self.recorder.checked(&checked);
                if let Some((clock, from)) = flight.clock
                    && checked != Checked::Unread
                {
                    self.recorder.clock(clock, from, now);
                }
            }
            Err(finding) => {
                let detail = format!("{}: {}", flight.op.name(), finding.detail);
                self.recorder.now.fault(Finding::new(finding.fault, detail));
            }
        }
        if matches!(seat, Seat::Broker(_)) {
            let run = Arc::clone(&self.run);
            let scene = Scene {
                plan: &run.plan,
                board: &run.board,
                now,
            };
            let Flight {
                op, request, at, ..
            } = flight;
            let broker = &mut self.brokers[slot];
            let before = broker.life();
            let todo = broker.answered(scene, op, &request, at.submitted, is_right, changed);
            if broker.life() != before {
                self.seat_ready(slot);
            }
            self.carry_out(slot, todo, now);
        }
    }

    pub(super) fn broker_acts(&mut self, slot: usize, act: Act, intended: Nanos, count: u32) {
        let run = Arc::clone(&self.run);
        let scene = Scene {
            plan: &run.plan,
            board: &run.board,
            now: run.clock.now(),
        };
        let todo = self.brokers[slot].act(scene, act, intended, count);
        self.carry_out(slot, todo, intended);
    }

    /// A connection has ended without our doing.
    pub(super) fn disconnected(&mut self, slot: usize, why: &str) {
        let is_cut = !self.conns[slot].inbound.is_between_frames();
        let flights = self.close(slot);
        let seat = self.seat(slot);
        if is_cut {
            let text = format!("{seat:?}: the stream ended within an answer ({why})");
            self.recorder.now.fault(Finding::new(Fault::CutFrame, text));
        }
        let now = self.run.clock.now();
        let todo = match seat {
            Seat::Slow(_) => {
                self.recorder.now.slow_closed += 1;
                return;
            }
            Seat::Broker(_) => {
                let run = Arc::clone(&self.run);
                let scene = Scene {
                    plan: &run.plan,
                    board: &run.board,
                    now,
                };
                self.brokers[slot].disconnected(scene)
            }
            Seat::Client(_) | Seat::Watcher => vec![Do::Complain],
        };
        if todo.contains(&Do::Complain) {
            let text = format!("{seat:?}: {why}, {} requests outstanding", flights.len());
            self.recorder.now.fault(Finding::new(Fault::Closed, text));
            for flight in &flights {
                self.recorder.done(flight.op, flight.at, now, false);
            }
        }
        if matches!(seat, Seat::Client(_) | Seat::Watcher) {
            let act = match seat {
                Seat::Watcher => Act::Watch,
                _ => Act::Read,
            };
            self.again.push(Reverse((now + RECONNECT_AFTER, seat, act)));
        }
        self.carry_out(slot, todo, now);
    }

    fn carry_out(&mut self, slot: usize, todo: Vec<Do>, intended: Nanos) {
        for one in todo {
            match one {
                Do::Open => self.open(slot),
                Do::Close => drop(self.close(slot)),
                Do::Send(op, request) => self.submit(slot, op, request, intended, None),
                Do::Probe(topic, clock, from) => {
                    let request = Request::Route(topic);
                    self.submit(slot, Op::Probe, request, intended, Some((clock, from)));
                }
                Do::Again(act, after) => {
                    let at = self.run.clock.now() + after;
                    self.again.push(Reverse((at, self.seat(slot), act)));
                }
                Do::Skip => self.recorder.now.skipped += 1,
                Do::Complain => {}
            }
        }
        self.flush(slot);
    }

    fn judge(&mut self, flight: &Flight, answer: Answer, now: Nanos) -> Result<Checked, Finding> {
        let run = Arc::clone(&self.run);
        let times = Times {
            sent: flight.at.submitted,
            now,
        };
        let truth = Truth {
            topology: &run.plan.topology,
            board: &run.board,
            times,
        };
        let clock = || run.clock.now();
        let code = answer.code;
        match flight.request {
            Request::Route(topic) => {
                let body = answer.body;
                self.checker.route(truth, topic, code, body, clock)
            }
            Request::NoRoute(_) => self.checker.no_route(code),
            Request::Cluster => {
                let must_read = flight.op == Op::Watch;
                let body = answer.body;
                let checked = self.checker.cluster(truth, code, body, must_read, clock);
                let (checked, shown) = checked?;
                if must_read && let Some(shown) = shown {
                    self.look(&shown, times);
                }
                Ok(checked)
            }
            Request::Register(_) | Request::Unregister(_) | Request::Version(..)
                if code != response::SUCCESS =>
            {
                Err(refused(code))
            }
            Request::Register(what) => {
                self.judge_master(what.broker, answer.master_addr.as_deref(), times)
            }
            Request::Unregister(_) => Ok(Checked::InFull),
            Request::Version(..) => match answer.changed {
                Some(_) => Ok(Checked::InFull),
                None => Err(Finding::new(Fault::Wrong, "322 without `changed`")),
            },
        }
    }

    /// A slave is told its master, if there is one; a master is told nobody.
    fn judge_master(
        &self,
        broker: u32,
        told: Option<&str>,
        times: Times,
    ) -> Result<Checked, Finding> {
        let (topology, board) = (&self.run.plan.topology, &self.run.board);
        let master = topology.members(topology.group(broker)).start;
        let wrong = |detail: String| Err(Finding::new(Fault::Wrong, detail));
        match told {
            Some(addr) if broker == master || parse_addr(addr) != Some(master) => {
                wrong(format!("{} is told the master {addr}", broker_addr(broker)))
            }
            Some(addr) => match board.presence(master, times.sent, times.now) {
                Presence::Gone | Presence::Never => Err(Finding::new(
                    Fault::Ghost,
                    format!("the master {addr} is gone"),
                )),
                Presence::Must | Presence::May => Ok(Checked::InFull),
            },
            None if broker != master
                && board.presence(master, times.sent, times.now) == Presence::Must =>
            {
                let detail = format!("{} is told no master", broker_addr(broker));
                Err(Finding::new(Fault::Lost, detail))
            }
            None => Ok(Checked::InFull),
        }
    }

    /// The tool's own eyes: who that went is no longer shown?
    fn look(&mut self, shown: &Shown, times: Times) {
        let run = Arc::clone(&self.run);
        for broker in 0..run.plan.topology.brokers {
            let Some(from) = run.board.down_from(broker) else {
                continue;
            };
            let seen = &mut self.seen_gone[broker as usize];
            if *seen == from || times.sent < from || shown.has(&run.plan.topology, broker) {
                continue;
            }
            *seen = from;
            self.recorder.clock(Clock::Gone, from, times.now);
        }
    }
}
