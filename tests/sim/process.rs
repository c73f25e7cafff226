//! Broker processes: each one or more brokers on one connection, with the ways in which they
//! live, fail and come back.

use super::peer::{Ask, Identity, Queue, Register};
use super::rng::Rng;
use super::world::{Deeds, End};

/// All processes.
pub(crate) struct Cast {
    pub(crate) processes: Vec<Process>,
    /// The brokers as they began.
    first: Vec<Identity>,
}

/// A process.
pub(crate) struct Process {
    rng: Rng,
    pub(crate) brokers: Vec<Broker>,
    /// The id that its broker was made for.
    home_id: i64,
    pub(crate) conn: Option<u64>,
    /// Never fails.
    pub(crate) steady: bool,
    /// Claims what another process holds.
    rival: bool,
    calm: bool,
    /// Will not come back.
    dead: bool,
    /// Will register everything when it wakes up.
    fresh: bool,
    incarnations: u64,
}

/// A broker.
pub(crate) struct Broker {
    pub(crate) who: Identity,
    pub(crate) version: (i64, i64),
    acting: Option<bool>,
    timeout_ms: Option<i64>,
    topics: Vec<String>,
}

impl Cast {
    /// In each ten processes: five plain masters, a slave of the first, a container with two
    /// brokers, a steady one, a rival of the first, and a slave that speaks for its master.
    pub(crate) fn new(seed: u64, count: usize, calm: bool) -> Self {
        let process =
            |number: usize| Process::new(Rng::new(seed, 10 + number as u64), number, calm);
        let processes: Vec<_> = (0..count).map(process).collect();
        let first = processes
            .iter()
            .flat_map(|p| p.brokers.iter().map(|b| b.who.clone()))
            .collect();
        Self { processes, first }
    }

    pub(crate) fn any(&self, rng: &mut Rng) -> &Process {
        &self.processes[rng.below(self.processes.len() as u64) as usize]
    }

    /// Every topic that a broker may bring.
    pub(crate) fn topics(&self) -> Vec<String> {
        let brokers = self.processes.iter().flat_map(|p| &p.brokers);
        let mut topics: Vec<_> = brokers.flat_map(|b| b.topics.clone()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    /// Brokers as they began and as they are.
    pub(crate) fn places(&self) -> Vec<Identity> {
        let now = self
            .processes
            .iter()
            .flat_map(|p| p.brokers.iter().map(|b| b.who.clone()));
        self.first.iter().cloned().chain(now).collect()
    }
}

impl Process {
    fn new(mut rng: Rng, number: usize, calm: bool) -> Self {
        let (decade, digit) = (number / 10 * 10, number % 10);
        // Whose broker name it bears, and with which id.
        let (home, id) = match digit {
            5 => (decade, 1),
            8 => (decade, 0),
            9 => (decade + 4, 2),
            _ => (number, 0),
        };
        let mut brokers = vec![Broker::new(&mut rng, number, home, id)];
        if digit == 6 {
            let mut second = Broker::new(&mut rng, number, home, id);
            second.who.name += "b";
            second.who.addr += "b";
            brokers.push(second);
        }
        Self {
            rng,
            brokers,
            home_id: id,
            conn: None,
            steady: digit == 7,
            rival: digit == 8,
            calm,
            dead: false,
            fresh: true,
            incarnations: 0,
        }
    }

    pub(crate) fn any_broker(&self, rng: &mut Rng) -> &Broker {
        &self.brokers[rng.below(self.brokers.len() as u64) as usize]
    }

    /// What it does now, and when it wakes up again.
    pub(crate) fn wake(&mut self, quiet: bool) -> Deeds {
        let mut deeds = Deeds {
            sleep_ms: self.rng.between(1000, 5000),
            ..Deeds::default()
        };
        if self.dead || self.rival && (self.calm || self.rng.percent(60)) {
            return deeds;
        }
        if self.conn.is_none() || self.fresh {
            self.fresh = false;
            self.register_all(&mut deeds, false);
            return deeds;
        }
        match self.rng.below(100) {
            0..=39 => self.heartbeat(&mut deeds),
            40..=64 => self.register_all(&mut deeds, false),
            65..=79 => {
                self.bump();
                let oneway = self.rng.percent(30);
                self.register_all(&mut deeds, oneway);
            }
            80..=84 => self.mixed(&mut deeds),
            _ if self.steady || quiet => self.heartbeat(&mut deeds),
            what => self.fail(what, &mut deeds),
        }
        deeds
    }

    /// Something that only brokers that are not steady do.
    fn fail(&mut self, what: u64, deeds: &mut Deeds) {
        let calm = self.calm;
        let pause = self.rng.between(if calm { 8000 } else { 0 }, 12_000);
        match what {
            85 | 86 => {
                self.unregister(deeds);
                if calm || self.rng.percent(50) {
                    deeds.sleep_ms = pause;
                } else {
                    // A restart so fast that nothing has been answered.
                    self.register_all(deeds, false);
                }
                self.fresh = true;
            }
            87..=90 => {
                // A crash: the server hears of it at some time, maybe after the restart, maybe
                // while it is busy with the last registration.
                if !calm && self.rng.percent(50) {
                    self.bump();
                    deeds.last_words = self.registrations(false);
                }
                deeds.end = Some(End {
                    after_ms: if self.rng.percent(50) {
                        0
                    } else {
                        self.rng.below(7000)
                    },
                    twice: self.rng.percent(20),
                });
                self.leave(deeds, pause);
            }
            91 | 92 => {
                // The server is told nothing at all.
                let long = self.rng.percent(50);
                self.dead = self.rng.percent(10);
                self.leave(deeds, if long { 60_000 } else { pause });
            }
            93 => {
                // Nothing heard, nothing closed: hung, or cut off, until about when it expires.
                let timeout = self.brokers[0].timeout_ms.unwrap_or(60_000).unsigned_abs();
                deeds.sleep_ms = if calm {
                    60_000
                } else {
                    timeout + self.rng.below(7000)
                };
                self.bump();
                self.fresh = true;
            }
            94 if !calm => self.incremental(deeds),
            95 if !calm => self.refused(deeds),
            96.. => self.change(what, pause, deeds),
            _ => self.heartbeat(deeds),
        }
    }

    /// Something that brokers do whose operators move, rename or promote them.
    fn change(&mut self, what: u64, pause: u64, deeds: &mut Deeds) {
        let calm = self.calm;
        match what {
            96 => {
                self.incarnations += 1;
                for broker in &mut self.brokers {
                    broker.who.addr = format!("{}m{}", broker.home_addr(), self.incarnations);
                }
                self.bump();
                deeds.end = Some(End {
                    after_ms: self.rng.below(7000),
                    twice: false,
                });
                self.leave(deeds, pause);
            }
            97 if self.brokers.len() == 1 && self.home_id == 0 && !self.rival => {
                self.incarnations += 1;
                let broker = &mut self.brokers[0];
                let home = broker.who.name.split('x').next().unwrap_or_default();
                broker.who.name = format!("{home}x{}", self.incarnations);
                self.bump();
                self.register_all(deeds, false);
            }
            97 if !calm && self.home_id != 0 => {
                // A slave takes its master's place, or gives it back.
                let broker = &mut self.brokers[0];
                broker.who.id = if broker.who.id == 0 { self.home_id } else { 0 };
                self.bump();
                self.register_all(deeds, false);
            }
            98 if !calm => {
                // The next registrations may win or lose a conflict.
                let state = self.rng.below(3) as i64;
                self.brokers.iter_mut().for_each(|b| b.version.0 = state);
                self.bump();
                self.register_all(deeds, false);
            }
            _ => self.heartbeat(deeds),
        }
    }

    fn leave(&mut self, deeds: &mut Deeds, pause_ms: u64) {
        deeds.forget = true;
        deeds.sleep_ms = pause_ms;
        self.fresh = true;
    }

    fn bump(&mut self) {
        for broker in &mut self.brokers {
            broker.version.1 += 1;
        }
    }

    fn register_all(&mut self, deeds: &mut Deeds, oneway: bool) {
        deeds.asks.extend(self.registrations(oneway));
    }

    fn registrations(&self, oneway: bool) -> Vec<(Ask, bool)> {
        self.brokers
            .iter()
            .map(|b| (Ask::Register(b.full()), oneway))
            .collect()
    }

    fn heartbeat(&mut self, deeds: &mut Deeds) {
        for broker in &self.brokers {
            let oneway = self.rng.percent(50);
            let ask = if self.rng.percent(50) {
                Ask::Heartbeat(broker.who.clone())
            } else {
                Ask::Version(broker.who.clone(), broker.version)
            };
            deeds.asks.push((ask, oneway));
        }
    }

    fn unregister(&mut self, deeds: &mut Deeds) {
        for broker in &self.brokers {
            deeds
                .asks
                .push((Ask::Unregister(broker.who.clone()), false));
        }
    }

    /// Changes and reads in one go, and the last registration again behind a newer one.
    fn mixed(&mut self, deeds: &mut Deeds) {
        let before = self.registrations(false);
        self.bump();
        self.register_all(deeds, false);
        let topic = self.brokers[0].any_topic(&mut self.rng);
        deeds
            .asks
            .push((Ask::Members(self.brokers[0].who.name.clone()), false));
        deeds.asks.push((
            Ask::Route {
                topic,
                legacy: false,
            },
            false,
        ));
        self.heartbeat(deeds);
        deeds.asks.extend(before);
        self.register_all(deeds, false);
    }

    fn incremental(&mut self, deeds: &mut Deeds) {
        self.bump();
        for broker in &self.brokers {
            let mut r = broker.full();
            r.topics.truncate(1);
            deeds.asks.push((Ask::Register(r), false));
        }
    }

    fn refused(&mut self, deeds: &mut Deeds) {
        let mut r = self.brokers[0].full();
        // None of this may ever be seen.
        r.version.1 += 1_000_000;
        r.topics.iter_mut().for_each(|(_, queue)| queue.read = -1);
        let mut new = r.clone();
        new.who.addr += "new";
        new.who.name += "new";
        new.topics.truncate(1);
        deeds.asks.push((Ask::Nameless(r.clone()), false));
        deeds.asks.push((Ask::Corrupt(r), false));
        deeds.asks.push((Ask::Register(new), false));
    }
}

impl Broker {
    fn new(rng: &mut Rng, number: usize, home: usize, id: i64) -> Self {
        let decade = number / 10;
        let topics = (0..5).map(|t| format!("g{home}.t{t}"));
        let timeouts = [Some(15_000), Some(20_000), Some(30_000), None];
        let steady = number % 10 == 7;
        Self {
            who: Identity {
                cluster: format!("c{}", decade % 3),
                name: format!("g{home}"),
                id,
                addr: format!("10.0.{}.{}:10911", number / 256, number % 256),
            },
            version: (0, 1),
            acting: (id != 1).then_some(false),
            // A steady one must live through what is not forgiven of a machine that stood still.
            timeout_ms: if steady {
                Some(30_000)
            } else {
                timeouts[rng.below(4) as usize]
            },
            topics: topics.chain([format!("shared{decade}")]).collect(),
        }
    }

    pub(crate) fn any_topic(&self, rng: &mut Rng) -> String {
        self.topics[rng.below(self.topics.len() as u64) as usize].clone()
    }

    fn home_addr(&self) -> &str {
        self.who.addr.split('m').next().unwrap_or_default()
    }

    /// Everything it has; the version can be read from each queue.
    fn full(&self) -> Register {
        let queue = Queue {
            read: self.version.1 as i32,
            write: self.version.0 as i32 + 1,
            perm: 6,
        };
        Register {
            who: self.who.clone(),
            version: self.version,
            topics: self.topics.iter().map(|t| (t.clone(), queue)).collect(),
            acting: self.acting,
            timeout_ms: self.timeout_ms,
        }
    }
}
