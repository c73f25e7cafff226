//! Connections come up: before the plan starts a few at a time, later whenever the plan says so.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use namesrv::rt::{Queue, connect_within, spawn, yield_if_needed};

use super::Message;
use super::conn::Link;
use super::core::{ConnTurn, Core, Stage};
use crate::actor::Life;
use crate::board::Nanos;
use crate::config::Config;
use crate::schedule::{Act, Seat};

/// Seats of a core that come at the same time before the plan starts.
const SETUP_AT_ONCE: usize = 64;
/// Connections from one source address: fewer than there are ports.
const CONNS_PER_SOURCE: u32 = 20_000;
/// How long a connect may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long the setup may go without progress.
const SETUP_PATIENCE: Nanos = 30_000_000_000;

impl Core {
    /// Connects in a task that then serves the connection until its end.
    pub(super) fn open(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        if conn.is_alive() {
            return;
        }
        conn.link = Link::Connecting;
        conn.generation = conn.generation.wrapping_add(1);
        let generation = conn.generation;
        let addr = self.run.plan.config.addr;
        let source = source_of(addr, self.seats[slot], &self.run.plan.config);
        let Some(core) = self.myself.upgrade() else {
            return;
        };
        let task = async move {
            let connected = connect_within(addr, source, CONNECT_LIMIT).await;
            {
                let mut core = core.borrow_mut();
                if core.conns[slot].generation != generation {
                    return;
                }
                match connected {
                    Ok(stream) => {
                        core.conns[slot].link = Link::Open(stream);
                        core.seat_ready(slot);
                    }
                    Err(error) => {
                        core.connect_failures += 1;
                        core.disconnected(slot, &format!("connecting: {error}"));
                        return;
                    }
                }
            }
            let turn = || poll_fn(|cx| core.borrow_mut().poll_conn(slot, generation, cx));
            while turn().await == ConnTurn::More {
                yield_if_needed().await;
            }
        };
        let failed = self.send.clone();
        spawn(Queue::Default, task, move |panicked| {
            let _ = failed.send(Message::Failed(panicked.to_string()));
        });
    }

    /// A seat has done what the setup waits for: a broker registered, anybody else connected.
    pub(super) fn seat_ready(&mut self, slot: usize) {
        let is_broker = matches!(self.seats[slot], Seat::Broker(_));
        if is_broker && self.brokers[slot].life() != Life::Up {
            return;
        }
        let now = self.run.clock.now();
        if let Stage::Setup { ready, since, .. } = &mut self.stage {
            *ready += 1;
            *since = now;
            let _ = self.send.send(Message::Progress(1));
        }
    }

    pub(super) fn set_up(&mut self, now: Nanos) {
        let cold = self.run.plan.config.cold_start;
        let Stage::Setup {
            mut begun,
            mut ready,
            since,
        } = self.stage
        else {
            return;
        };
        while begun < self.seats.len() && begun.saturating_sub(ready) < SETUP_AT_ONCE {
            match self.seats[begun] {
                Seat::Broker(_) if cold => ready += 1,
                Seat::Broker(broker) => self.act(Seat::Broker(broker), Act::Come, now, 0),
                _ => self.open(begun),
            }
            begun += 1;
        }
        if begun == self.seats.len() && ready >= begun {
            self.stage = Stage::Ready;
            let _ = self.send.send(Message::Ready);
            return;
        }
        self.stage = Stage::Setup {
            begun,
            ready,
            since,
        };
        if now > since + SETUP_PATIENCE {
            let text = format!(
                "{ready} of {} seats came, then none for 30 s ({} connects failed)",
                self.seats.len(),
                self.connect_failures
            );
            let _ = self.send.send(Message::Failed(text));
            self.finish();
        }
    }
}

/// A source address for a seat: as many connections to one server as there are ports can come
/// from one address, so the rest comes from the next. Only loopback has others to choose from.
fn source_of(addr: SocketAddr, seat: Seat, config: &Config) -> Option<IpAddr> {
    let number = match seat {
        Seat::Broker(number) => number,
        Seat::Client(number) => config.brokers + number,
        Seat::Slow(number) => config.brokers + config.clients + number,
        Seat::Watcher => 0,
    };
    let place = number / CONNS_PER_SOURCE;
    if place == 0 || !addr.ip().is_loopback() || !addr.is_ipv4() {
        return None;
    }
    let [_, _, high, low] = (1 + place).to_be_bytes();
    Some(IpAddr::V4(Ipv4Addr::new(127, 0, high, low)))
}
