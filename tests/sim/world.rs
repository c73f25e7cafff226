//! Brokers, clients and administrators, the links between them and the server, and the clock.
//!
//! Everything that happens stands in one agenda, ordered by time; each actor draws from its own
//! stream of random numbers, so a seed tells all. Links cut bytes anywhere and delay them, keep
//! their order, and may deliver the end of a connection much later, twice or never. The machine
//! may stand still; then everything that was due happens at once, the tick first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher as _;

use super::audit::{Auditor, Counts};
use super::peer::{Ask, Queue};
use super::process::Cast;
use super::rng::Rng;
use super::server::Server;
use super::setup::{Fact, Setup, Want};

/// Between two ticks of the writer.
pub(crate) const TICK_MS: u64 = 5000;
/// Longer than any delay of a link, a core or the writer.
const SETTLE_MS: u64 = 20_000;

/// What kind of world it is.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) processes: usize,
    pub(crate) clients: usize,
    pub(crate) run_ms: u64,
    /// Only such events whose result does not depend on a few milliseconds.
    pub(crate) calm: bool,
    /// In the last part of the run nobody fails any more.
    pub(crate) quiet_ms: u64,
    /// The writer and the machine stand still now and then.
    pub(crate) stalls: bool,
    pub(crate) setup: Setup,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            processes: 30,
            clients: 8,
            run_ms: 150_000,
            calm: false,
            quiet_ms: 0,
            stalls: true,
            setup: Setup::default(),
        }
    }
}

/// What is left of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    /// Digest over all that the server sent.
    pub(crate) bytes: u64,
    /// Answers to every query about the tables as they were before the end.
    pub(crate) tables: Vec<String>,
}

/// Runs a world to its end.
pub(crate) fn run(seed: u64, plan: &Plan) -> Result<Report, String> {
    let mut world = World::new(seed, plan);
    world
        .play()
        .map_err(|why| format!("at {} ms: {why}", world.server.now_ms))
}

struct World<'a> {
    plan: &'a Plan,
    server: Server,
    auditor: Auditor,
    agenda: BTreeMap<(u64, u64), Entry>,
    entries: u64,
    cast: Cast,
    clients: Vec<Client>,
    links: HashMap<u64, Link>,
    seed: u64,
    /// For what the shell decides: batches, delays of cores.
    shell: Rng,
    /// For the machine's standing still, which nothing else may move.
    machine: Rng,
    /// Connections that each peer has made.
    connects: HashMap<u64, u64>,
    last_opaque: i32,
    planned_tick_ms: u64,
    writer_free_ms: u64,
    digest: ahash::AHasher,
    open: bool,
}

enum Entry {
    Process(usize),
    Client(usize),
    Arrive(u64, Vec<u8>),
    End(u64),
    Reset(u64),
    Shell(Want),
    FinishTurn(usize),
    Tick,
    Sweep,
    StandStill,
}

/// A reader, or an administrator who reads too.
struct Client {
    rng: Rng,
    conn: Option<u64>,
    admin: bool,
}

/// A connection as its peer sees it.
struct Link {
    rng: Rng,
    /// When the last byte sent so far will have arrived.
    last_ms: u64,
}

impl<'a> World<'a> {
    fn new(seed: u64, plan: &'a Plan) -> Self {
        let mut world = World {
            server: Server::new(plan.setup.clone()),
            auditor: Auditor::new(2 * TICK_MS + 60_000),
            agenda: BTreeMap::new(),
            entries: 0,
            cast: Cast::new(seed, plan.processes, plan.calm),
            clients: Vec::new(),
            links: HashMap::new(),
            seed,
            shell: Rng::new(seed, 1),
            machine: Rng::new(seed, 2),
            connects: HashMap::new(),
            last_opaque: 0,
            planned_tick_ms: TICK_MS,
            writer_free_ms: 0,
            digest: std::hash::BuildHasher::build_hasher(&ahash::RandomState::with_seeds(
                7, 7, 7, 7,
            )),
            open: true,
            plan,
        };
        for number in 0..plan.processes {
            let start = Rng::new(seed, 100_000 + number as u64).below(8000);
            world.at(start, Entry::Process(number));
            let process = &world.cast.processes[number];
            if process.steady {
                process
                    .brokers
                    .iter()
                    .for_each(|b| world.auditor.keep(&b.who));
            }
        }
        for number in 0..plan.clients {
            let rng = Rng::new(seed, 200_000 + number as u64);
            world.clients.push(Client {
                rng,
                conn: None,
                admin: number % 4 == 0 && !plan.calm,
            });
            world.at(number as u64, Entry::Client(number));
        }
        world.at(TICK_MS, Entry::Tick);
        world.at(250, Entry::Sweep);
        world.at(20_000, Entry::StandStill);
        world
    }

    fn play(&mut self) -> Result<Report, String> {
        self.work_until(self.plan.run_ms)?;
        self.open = false;
        self.work_until(self.server.now_ms + SETTLE_MS)?;
        self.auditor.settled()?;
        let tables = self.tables()?;
        self.close_everything()?;
        let bytes = self.digest.finish();
        Ok(Report {
            counts: self.auditor.counts,
            bytes,
            tables,
        })
    }

    fn work_until(&mut self, end_ms: u64) -> Result<(), String> {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= end_ms
        {
            let ((planned, _), entry) = entry.remove_entry();
            self.server.now_ms = self.server.now_ms.max(planned);
            self.work(planned, entry);
            self.audit()?;
        }
        self.server.now_ms = self.server.now_ms.max(end_ms);
        Ok(())
    }

    fn at(&mut self, time: u64, entry: Entry) {
        self.entries += 1;
        self.agenda.insert((time, self.entries), entry);
    }

    fn work(&mut self, planned: u64, entry: Entry) {
        match entry {
            Entry::Process(number) => self.process(planned, number),
            Entry::Client(number) => self.client(planned, number),
            Entry::Arrive(conn, bytes) => {
                self.server.arrive(conn, &bytes);
                self.turn(conn);
            }
            Entry::End(conn) => {
                self.server.arrive_end(conn);
                self.turn(conn);
            }
            Entry::Reset(conn) => self.server.end(conn),
            Entry::FinishTurn(core) => self.server.finish_turn(core),
            Entry::Shell(want) => self.shell_work(want),
            // Nobody is judged while everything settles.
            Entry::Tick if !self.open => {}
            Entry::Tick => {
                let now = self.server.now_ms;
                self.server.tick(now.saturating_sub(self.planned_tick_ms));
                self.planned_tick_ms = now + TICK_MS;
                self.at(now + TICK_MS, Entry::Tick);
            }
            Entry::Sweep => {
                self.server.sweep();
                self.at(self.server.now_ms + 250, Entry::Sweep);
            }
            Entry::StandStill => self.stand_still(),
        }
        for want in std::mem::take(&mut self.server.wants) {
            let delay = match want {
                Want::Turn(_) => self.shell.below(3),
                Want::Job(_) | Want::Deliver(_) => self.shell.below(6),
                Want::Apply | Want::Publish => self.shell.below(12),
                Want::Close(_) => self.shell.below(40),
            };
            self.at(self.server.now_ms + delay, Entry::Shell(want));
        }
    }

    /// A receive, whose second half may come later.
    fn turn(&mut self, conn: u64) {
        let most = if self.shell.percent(20) {
            self.shell.below(300)
        } else {
            65_536
        };
        self.server.receive(conn, most as usize);
        let cores = self.plan.setup.cores;
        if self.shell.percent(70) {
            (0..cores).for_each(|core| self.server.finish_turn(core));
        } else {
            let later = self.server.now_ms + self.shell.below(4);
            (0..cores).for_each(|core| self.at(later, Entry::FinishTurn(core)));
        }
    }

    fn shell_work(&mut self, want: Want) {
        match want {
            Want::Turn(conn) => self.turn(conn),
            Want::Job(conn) => self.server.finish_job(conn),
            Want::Deliver(core) => self.server.deliver(core),
            Want::Close(conn) => self.server.close_if_idle(conn),
            Want::Publish => self.server.publish(),
            Want::Apply if self.writer_free_ms > self.server.now_ms => {
                self.at(self.writer_free_ms, Entry::Shell(Want::Apply));
            }
            Want::Apply => {
                if self.plan.stalls && self.shell.percent(2) {
                    self.writer_free_ms = self.server.now_ms + self.shell.below(2500);
                }
                let most = self.shell.between(1, 40);
                self.server.apply(most as usize);
            }
        }
    }

    /// The machine stops. What follows is late, and the tick comes first.
    fn stand_still(&mut self) {
        if self.plan.stalls && self.open {
            let long = if self.machine.percent(50) {
                900
            } else {
                45_000
            };
            self.server.now_ms += self.machine.below(long);
            if self.planned_tick_ms <= self.server.now_ms
                && let Some(key) = self.agenda.iter().find(|(_, e)| matches!(e, Entry::Tick))
            {
                let key = *key.0;
                self.agenda.remove(&key);
                self.work(self.server.now_ms, Entry::Tick);
            }
        }
        let next = self.server.now_ms + self.machine.between(15_000, 60_000);
        self.at(next, Entry::StandStill);
    }

    fn process(&mut self, planned: u64, number: usize) {
        if !self.open {
            return;
        }
        let process = &mut self.cast.processes[number];
        if process.conn.is_some_and(|conn| !self.server.is_open(conn)) {
            process.conn = None;
        }
        let had = process.conn;
        let deeds = process.wake(planned + self.plan.quiet_ms > self.plan.run_ms);
        let next = planned + deeds.sleep_ms;
        if let Some(end) = deeds.end
            && let Some(conn) = had
        {
            self.send(conn, deeds.last_words);
            self.end(conn, end.after_ms, end.twice);
        }
        if deeds.forget {
            self.cast.processes[number].conn = None;
        }
        if !deeds.asks.is_empty() {
            let conn = self.cast.processes[number].conn;
            let conn = conn.unwrap_or_else(|| self.connect(number as u64));
            self.cast.processes[number].conn = Some(conn);
            self.send(conn, deeds.asks);
        }
        self.at(next, Entry::Process(number));
    }

    fn client(&mut self, planned: u64, number: usize) {
        if !self.open {
            return;
        }
        let client = &mut self.clients[number];
        let sleep = client.rng.between(20, 1500);
        let mut asks = Vec::new();
        for _ in 0..client.rng.between(1, 5) {
            asks.push((client.read(&self.cast, self.plan.processes), false));
        }
        if client.admin && client.rng.percent(15) {
            asks.push(client.command(&self.cast));
        }
        let conn = client.conn.filter(|conn| self.server.is_open(*conn));
        let leaves = self.clients[number].rng.percent(2);
        let conn = conn.unwrap_or_else(|| self.connect(1000 + number as u64));
        self.clients[number].conn = (!leaves).then_some(conn);
        self.send(conn, asks);
        if leaves {
            self.end(conn, 0, false);
        }
        self.at(planned + sleep, Entry::Client(number));
    }

    fn connect(&mut self, purpose: u64) -> u64 {
        let conn = self
            .server
            .connect((purpose % self.plan.setup.cores as u64) as usize);
        let nth = self.connects.entry(purpose).or_default();
        *nth += 1;
        let rng = Rng::new(self.seed, (purpose + 1) << 32 | *nth);
        self.links.insert(
            conn,
            Link {
                rng,
                last_ms: self.server.now_ms,
            },
        );
        conn
    }

    /// Sends requests in one go; they arrive in pieces cut anywhere.
    fn send(&mut self, conn: u64, asks: Vec<(Ask, bool)>) {
        let mut bytes = Vec::new();
        for (ask, oneway) in asks {
            self.last_opaque += 1;
            let frame = ask.frame(self.last_opaque, oneway);
            self.auditor
                .sent(conn, self.last_opaque, &ask, oneway, frame.len());
            bytes.extend(frame);
        }
        let now = self.server.now_ms;
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let whole = link.rng.percent(70);
            let cut = if whole {
                bytes.len() as u64
            } else {
                link.rng.between(1, bytes.len() as u64)
            };
            let slow = if link.rng.percent(3) { 1500 } else { 10 };
            link.last_ms = link.last_ms.max(now) + link.rng.below(slow);
            let rest = bytes.split_off(cut as usize);
            pieces.push((link.last_ms, std::mem::replace(&mut bytes, rest)));
        }
        for (time, piece) in pieces {
            self.at(time, Entry::Arrive(conn, piece));
        }
    }

    /// The peer ends its connection; the server hears of it behind all bytes, or of a reset that
    /// overtakes what the server has not read.
    fn end(&mut self, conn: u64, after_ms: u64, twice: bool) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        link.last_ms = link.last_ms.max(self.server.now_ms) + after_ms;
        let (time, reset) = (link.last_ms, link.rng.percent(25));
        self.at(
            time,
            if reset {
                Entry::Reset(conn)
            } else {
                Entry::End(conn)
            },
        );
        if twice {
            self.at(time + after_ms, Entry::End(conn));
            self.at(time + after_ms, Entry::Reset(conn));
        }
    }

    fn audit(&mut self) -> Result<(), String> {
        for fact in std::mem::take(&mut self.server.facts) {
            if let Fact::Wrote { conn, bytes } = &fact {
                self.digest.write_u64(*conn);
                self.digest.write(bytes);
            }
            self.auditor.fact(&fact, self.server.now_ms)?;
        }
        Ok(())
    }

    /// Asks about everything, each answer being audited as all others are.
    fn tables(&mut self) -> Result<Vec<String>, String> {
        let conn = self.connect(0);
        let mut asks = vec![Ask::ClusterInfo];
        for topic in self.cast.topics() {
            asks.push(Ask::Route {
                topic: topic.clone(),
                legacy: false,
            });
            asks.push(Ask::Route {
                topic,
                legacy: true,
            });
        }
        for who in self.cast.places() {
            asks.push(Ask::Version(who, (0, 0)));
        }
        let mut tables = Vec::new();
        for ask in asks {
            self.last_opaque += 1;
            let frame = ask.frame(self.last_opaque, false);
            self.auditor
                .sent(conn, self.last_opaque, &ask, false, frame.len());
            self.server.arrive(conn, &frame);
            self.server.receive(conn, frame.len());
            self.server.sweep();
            self.server.finish_job(conn);
            for fact in &self.server.facts {
                if let Fact::Wrote { bytes, .. } = fact {
                    let text = String::from_utf8_lossy(&bytes[8..]);
                    let opaque = format!("\"opaque\":{},", self.last_opaque);
                    tables.push(format!("{ask:?}: {}", text.replace(&opaque, "")));
                }
            }
            self.audit()?;
        }
        self.server.end(conn);
        Ok(tables)
    }

    /// All connections end, and nothing may be left.
    fn close_everything(&mut self) -> Result<(), String> {
        for conn in self.server.connections() {
            self.server.end(conn);
        }
        self.work_until(self.server.now_ms + SETTLE_MS)?;
        self.server.sweep();
        let left = self.server.snapshot().counts();
        if left != (0, 0, 0) || self.auditor.alive() > 0 || self.server.waiting() > 0 {
            return Err(format!("topics, groups, brokers left: {left:?}"));
        }
        match self.server.old_snapshots() {
            0 => Ok(()),
            n => Err(format!("{n} old snapshots are still held")),
        }
    }
}

impl Client {
    fn read(&mut self, cast: &Cast, processes: usize) -> Ask {
        let process = cast.any(&mut self.rng);
        let broker = process.any_broker(&mut self.rng);
        match self.rng.below(20) {
            0..=9 => {
                let topic = broker.any_topic(&mut self.rng);
                Ask::Route {
                    topic,
                    legacy: self.rng.percent(20),
                }
            }
            10..=14 => Ask::Members(broker.who.name.clone()),
            15 if processes < 100 => Ask::ClusterInfo,
            16 | 17 => Ask::Value(format!("k{}", self.rng.below(4))),
            _ => Ask::Version(broker.who.clone(), broker.version),
        }
    }

    fn command(&mut self, cast: &Cast) -> (Ask, bool) {
        let process = cast.any(&mut self.rng);
        let broker = process.any_broker(&mut self.rng);
        let (name, topic) = (broker.who.name.clone(), broker.any_topic(&mut self.rng));
        let ask = match self.rng.below(6) {
            0 => Ask::Wipe(name),
            1 => Ask::Add(name),
            2 => {
                let cluster = self.rng.percent(50).then(|| broker.who.cluster.clone());
                Ask::DeleteTopic { topic, cluster }
            }
            3 => {
                let perm = 2 + self.rng.below(5) as i32;
                Ask::RegisterTopic {
                    topic,
                    name,
                    queue: Queue {
                        read: 9999,
                        write: 1,
                        perm,
                    },
                }
            }
            _ => {
                let value = self.rng.next().to_string();
                Ask::Put(format!("k{}", self.rng.below(4)), value)
            }
        };
        (ask, self.rng.percent(10))
    }
}

/// What a process does when it wakes up.
#[derive(Default)]
pub(crate) struct Deeds {
    /// Requests to send, in order, and whether each is one-way.
    pub(crate) asks: Vec<(Ask, bool)>,
    /// Requests that still go over the connection that then ends.
    pub(crate) last_words: Vec<(Ask, bool)>,
    /// The connection that it had ends like this, before the requests are sent.
    pub(crate) end: Option<End>,
    /// The requests go over a new connection, whether the old one ends or not.
    pub(crate) forget: bool,
    pub(crate) sleep_ms: u64,
}

/// How a connection ends.
pub(crate) struct End {
    pub(crate) after_ms: u64,
    pub(crate) twice: bool,
}
