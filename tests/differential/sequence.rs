//! One sequence of operations, sent to both servers, each beside the oracle that speaks for it.
//!
//! Java must answer what the oracle says that follows Java in every rule, we what the one says
//! that follows it in none; where the two say the same, the answers are the same. Where they do
//! not, the smallest set of rules that makes the difference is found by replaying the sequence
//! at oracles that follow Java in fewer of them, and counted.
//!
//! A sequence ends with both servers empty, so that the next one starts as this one did.

mod expiry;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::compare::{Expected, START_MS, check, read, read_any, same, settled};
use crate::dialect::Dialect;
use crate::link::{Heard, LIMIT, Link};
use crate::oracle::{Oracle, Rule, Rules};
use crate::process::say;
use crate::servers::Servers;
use crate::support::answer::Answer;
use crate::support::request::Request;
use crate::support::workload::{Ask, CONNS, Op, Send};
use crate::tables;

/// How long what happens behind an answer may take: 104 and closes in Java, one-ways in both.
const SETTLE: Duration = Duration::from_secs(15);
/// Between two looks at whether both have settled.
const PAUSE: Duration = Duration::from_millis(1);
/// An answer that takes so long is worth a line.
const SLOW: Duration = Duration::from_secs(2);

/// What was done and which rules were needed, over all sequences.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) answers: u64,
    pub(crate) restarts: u64,
    /// Operations that mean something else to this release of Java.
    pub(crate) left_out: u64,
    /// Requests of codes that it does not know, and gave no answer to.
    pub(crate) silences: u64,
    /// By rule: operations whose answer needs it, and tables that do.
    pub(crate) rules: BTreeMap<Rule, (u64, u64)>,
}

/// How a sequence that found no difference has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both servers are empty.
    Clean,
    /// Java keeps something that nothing removes.
    Dirty,
}

/// A sequence under way.
pub(crate) struct Sequence<'a> {
    java: Side,
    ours: Side,
    fresh: bool,
    dialect: Dialect,
    tally: &'a mut Tally,
    suffix: String,
    opaque: i32,
    now_ms: u64,
    /// The current connection of each line.
    lines: Vec<u64>,
    last: BTreeMap<(u8, i8), Send>,
    events: Vec<Event>,
    /// Rules that explained the last difference: most likely they explain the next one.
    needed: Rules,
    /// Code of the last request.
    code: i32,
}

/// One server, its connections, and the oracle that speaks for it.
struct Side {
    name: &'static str,
    address: std::net::SocketAddr,
    oracle: Oracle,
    links: BTreeMap<u64, Link>,
    observer: Link,
}

/// What the oracles were told, to be told again.
#[derive(Clone, Debug)]
enum Event {
    Connect,
    Request(u64, Request, u64),
    Close(u64),
    Tick(u64),
}

impl<'a> Sequence<'a> {
    /// `number` makes its topics and namespaces differ from those of all others: Java never
    /// forgets a mapping, and no server forgets a namespace.
    pub(crate) fn new(
        servers: &mut Servers,
        dialect: Dialect,
        number: u64,
        tally: &'a mut Tally,
    ) -> Self {
        let side = |name, address, oracle| Side {
            name,
            address,
            oracle,
            links: BTreeMap::new(),
            observer: Link::open(address),
        };
        let mut sequence = Self {
            java: side("Java", servers.java, dialect.oracle(Rules::ALL)),
            ours: side("namesrv", servers.ours, Oracle::following_java(Rules::NONE)),
            fresh: std::mem::replace(&mut servers.fresh, false),
            dialect,
            tally,
            suffix: format!("~{number}"),
            opaque: 0,
            now_ms: START_MS,
            lines: Vec::new(),
            last: BTreeMap::new(),
            events: Vec::new(),
            needed: Rules::NONE,
            code: 0,
        };
        sequence.lines = (0..CONNS).map(|_| sequence.connect()).collect();
        sequence
    }

    /// Runs all operations, then empties both servers.
    ///
    /// Errors: the first difference that no rule explains.
    pub(crate) fn run(mut self, ops: &[Op]) -> Result<End, String> {
        for req in tables::preparation(self.fresh) {
            self.exchange(self.lines[0], req, false)?;
        }
        self.compare_tables(None)?;
        for (number, op) in ops.iter().enumerate() {
            let end = self
                .step(op)
                .map_err(|reason| format!("step {number}, {op:?}: {reason}"))?;
            if end == Some(End::Dirty) {
                return Ok(End::Dirty);
            }
        }
        self.clean()
            .map_err(|reason| format!("while cleaning up: {reason}"))
    }

    fn step(&mut self, op: &Op) -> Result<Option<End>, String> {
        match op {
            Op::Send(send) => self.send(send),
            Op::Burst(sends, _) => {
                for send in sends {
                    if self.send(send)?.is_some() {
                        return Ok(Some(End::Dirty));
                    }
                }
                Ok(None)
            }
            Op::Again { name, id } => match self.last.get(&(*name, *id)).copied() {
                Some(send) => self.send(&send),
                None => Ok(None),
            },
            Op::Close(line) => {
                self.tally.operations += 1;
                self.reopen(usize::from(*line))?;
                Ok(None)
            }
            // time is the servers' own here, and everything is asked after each step
            Op::Wait(_) | Op::Tick | Op::AskAll => Ok(None),
        }
    }

    fn send(&mut self, send: &Send) -> Result<Option<End>, String> {
        if let Ask::Register(r) = &send.ask {
            self.last.insert((r.name, r.id), *send);
        }
        let mut req = send.request(0);
        let adapted = self.dialect.adapt(&mut req);
        let mortal = tables::adapt(&mut req, &self.suffix, send.binary);
        let Some(mortal) = mortal else {
            return Ok(None); // a request that cannot be sent here
        };
        if mortal && self.java.oracle.is_shared(&req) {
            return Ok(None);
        }
        let line = self.lines[usize::from(send.conn)];
        if !adapted || !self.suits(line, &req) {
            self.tally.left_out += 1;
            return Ok(None);
        }
        self.tally.operations += 1;
        if mortal {
            return self.mortal(req, send.binary);
        }
        self.request(line, req, send.binary)
    }

    fn suits(&self, conn: u64, req: &Request) -> bool {
        self.dialect
            .suits(&self.java.oracle, conn, req, self.now_ms)
    }

    /// A broker that is not heard of again: over a connection of its own, gone at the next scan,
    /// and the connection with it.
    fn mortal(&mut self, req: Request, binary: bool) -> Result<Option<End>, String> {
        let conn = self.connect();
        self.exchange(conn, req, binary)?;
        if self.java.oracle.is_poisoned() {
            return Ok(Some(End::Dirty));
        }
        // far less than the heartbeat timeouts of all others
        self.now_ms += 10 * tables::MORTAL_MS;
        self.events.push(Event::Tick(self.now_ms));
        let mut closed = Vec::new();
        for side in [&mut self.java, &mut self.ours] {
            closed.push(side.oracle.tick(self.now_ms).contains(&conn));
        }
        // not asked meanwhile: a 322 keeps a broker alive
        std::thread::sleep(tables::EXPIRY);
        self.compare_tables(Some(tables::EXPIRY))?;
        for (side, closed) in [&mut self.java, &mut self.ours].into_iter().zip(closed) {
            side.expect_end(conn, closed)?;
        }
        self.close(conn)?;
        let stuck = self.java.oracle.has_expired(self.now_ms);
        Ok(stuck.then_some(End::Dirty))
    }

    /// Sends a request, compares the answers, and then the tables.
    fn request(&mut self, conn: u64, req: Request, binary: bool) -> Result<Option<End>, String> {
        let (code, oneway) = (req.code, req.oneway);
        self.exchange(conn, req, binary)?;
        if self.java.oracle.is_poisoned() {
            return Ok(Some(End::Dirty));
        }
        if code == 104 && self.dialect.is_5() {
            self.fence()?;
        }
        self.compare_tables((code == 104 || oneway).then_some(PAUSE))?;
        Ok(None)
    }

    fn exchange(&mut self, conn: u64, mut req: Request, binary: bool) -> Result<(), String> {
        self.now_ms += 10;
        self.opaque += 1;
        req.opaque = self.opaque;
        let oneway = req.oneway;
        let frame = if binary {
            req.binary_frame()
        } else {
            req.json_frame()
        };
        self.events
            .push(Event::Request(conn, req.clone(), self.now_ms));
        let mut expected = Vec::new();
        for side in [&mut self.java, &mut self.ours] {
            expected.push(side.oracle.request(conn, &req, self.now_ms));
        }
        let differ = !same(&expected[0], &expected[1], req.code);
        self.code = req.code;
        let rules = if differ {
            self.explain(&[], &expected[..1])?
        } else {
            Vec::new()
        };
        for rule in rules {
            self.tally.rules.entry(rule).or_default().0 += 1;
        }
        if !self.dialect.answers(req.code) && expected[0].take().is_some() {
            self.tally.silences += 1; // its answer would be taken for that to the next request
        }
        for (side, expected) in [&mut self.java, &mut self.ours].into_iter().zip(&expected) {
            let link = side.links.get_mut(&conn).ok_or("no link")?;
            link.send(&frame);
            let Some(expected) = expected else {
                continue;
            };
            self.tally.answers += 1;
            let start = Instant::now();
            let heard = link.hear(LIMIT);
            if start.elapsed() > SLOW {
                say(&format!(
                    "{} took {:?} for {}",
                    side.name,
                    start.elapsed(),
                    tables::show(&req)
                ));
            }
            let Heard::Frame(bytes) = heard else {
                let asked = tables::show(&req);
                return Err(format!(
                    "{} answers {asked}\n  expected {expected}\n  {heard:?}",
                    side.name
                ));
            };
            let java = side.name == "Java";
            let actual = read(&bytes, req.opaque, java, self.dialect)
                .map_err(|reason| format!("{}: {reason}", side.name))?;
            let mut expected = expected.clone();
            let mirrored = java && binary && self.dialect.mirrors(&expected);
            if bytes[4] != u8::from(mirrored) {
                return Err(format!("{}: header of type {}", side.name, bytes[4]));
            }
            if mirrored {
                // that header has no empty maps
                expected.ext = expected.ext.filter(|ext| !ext.is_empty());
            }
            check(side.name, &req, &expected, &actual, self.dialect)?;
        }
        if oneway {
            // has an effect before a later request of its connection; in Java as a rule
            self.exchange(conn, Request::new(101), false)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Java's unregistrations are applied in the order of their queue: when one that comes later
    /// is seen to be applied, so are all before it.
    fn fence(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let who = |code| {
            Request::new(code)
                .with("brokerName", "fence")
                .with("brokerAddr", "fence")
                .with("clusterName", "fence")
                .with("brokerId", "0")
        };
        self.observe_java(who(103))?;
        loop {
            self.observe_java(who(104))?;
            for _ in 0..100 {
                if self.observe_java(who(322))?.body.is_none() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            if start.elapsed() > SETTLE {
                return Err("Java: unregistrations are not applied".to_owned());
            }
        }
    }

    fn observe_java(&mut self, mut req: Request) -> Result<Answer, String> {
        self.opaque += 1;
        req.opaque = self.opaque;
        self.java.observer.send(&req.json_frame());
        match self.java.observer.hear(LIMIT) {
            Heard::Frame(bytes) => read(&bytes, req.opaque, true, self.dialect),
            heard => Err(format!("Java: {heard:?} for {req:?}")),
        }
    }

    /// Asks both servers everything; with a pause, again and again until both have settled.
    fn compare_tables(&mut self, pause: Option<Duration>) -> Result<(), String> {
        let mut asks = tables::everything(&self.suffix, self.events.len());
        asks.retain_mut(|ask| self.dialect.adapt(ask) && self.suits(0, ask));
        for ask in &mut asks {
            self.opaque += 1;
            ask.opaque = self.opaque;
        }
        let first = asks.first().map_or(0, |ask| ask.opaque);
        let frames: Vec<u8> = asks.iter().flat_map(Request::json_frame).collect();
        let mut expected = Vec::new();
        for side in [&mut self.java, &mut self.ours] {
            let now = self.now_ms;
            let answers = asks.iter().map(|ask| side.oracle.request(0, ask, now));
            expected.push(answers.collect::<Vec<_>>());
        }
        let start = Instant::now();
        for (side, expected) in [&mut self.java, &mut self.ours].into_iter().zip(&expected) {
            loop {
                self.tally.answers += asks.len() as u64;
                let answers = side.observe(&frames, first, asks.len(), self.dialect)?;
                let wrong = asks.iter().zip(expected).zip(&answers);
                let wrong = wrong
                    .filter_map(|((ask, expected), actual)| {
                        let expected = expected.as_ref()?;
                        check(side.name, ask, expected, actual, self.dialect).err()
                    })
                    .next();
                match wrong {
                    None => break,
                    Some(reason) => match pause {
                        Some(pause) if start.elapsed() < SETTLE => std::thread::sleep(pause),
                        _ => return Err(reason),
                    },
                }
            }
        }
        let pairs = asks.into_iter().zip(expected[0].iter().zip(&expected[1]));
        let (asks, wanted): (Vec<_>, Vec<_>) = pairs
            .filter(|(ask, (java, ours))| !same(java, ours, ask.code))
            .map(|(ask, (java, _))| (ask, java.clone()))
            .unzip();
        if !asks.is_empty() {
            for rule in self.explain(&asks, &wanted)? {
                self.tally.rules.entry(rule).or_default().1 += 1;
            }
        }
        Ok(())
    }

    /// The rules without which an oracle would not say to these requests, or to the last event if
    /// there are none, what is expected of Java.
    fn explain(&mut self, asks: &[Request], wanted: &[Expected]) -> Result<Vec<Rule>, String> {
        let settle = |(i, answer): (usize, &Expected)| {
            let code = asks.get(i).map_or(self.code, |ask| ask.code);
            answer.clone().map(|answer| settled(code, answer))
        };
        let wanted: Vec<_> = wanted.iter().enumerate().map(settle).collect();
        let mut rules = self.needed;
        if self.retell(rules, asks) != wanted {
            rules = Rules::ALL;
        }
        for rule in Rule::ALL {
            let fewer = rules.without(rule);
            if rules.has(rule) && self.retell(fewer, asks) == wanted {
                rules = fewer;
            }
        }
        self.needed = rules;
        let rules: Vec<_> = Rule::ALL
            .into_iter()
            .filter(|rule| rules.has(*rule))
            .collect();
        if rules.is_empty() {
            return Err("the oracles differ without a rule".to_owned());
        }
        Ok(rules)
    }

    fn retell(&self, rules: Rules, asks: &[Request]) -> Vec<Expected> {
        let mut oracle = self.dialect.oracle(rules);
        let mut last = None;
        for event in &self.events {
            match event {
                Event::Connect => {
                    oracle.connect();
                }
                Event::Request(conn, req, now) => {
                    last = oracle
                        .request(*conn, req, *now)
                        .map(|answer| settled(req.code, answer));
                }
                Event::Close(conn) => oracle.close(*conn),
                Event::Tick(now) => {
                    oracle.tick(*now);
                }
            }
        }
        if asks.is_empty() {
            return vec![last];
        }
        let answers = asks.iter().map(|ask| {
            let answer = oracle.request(0, ask, self.now_ms);
            answer.map(|answer| settled(ask.code, answer))
        });
        answers.collect()
    }

    fn connect(&mut self) -> u64 {
        self.events.push(Event::Connect);
        let mut conn = 0;
        for side in [&mut self.java, &mut self.ours] {
            conn = side.oracle.connect();
            side.links.insert(conn, Link::open(side.address));
        }
        conn
    }

    fn reopen(&mut self, line: usize) -> Result<(), String> {
        self.close(self.lines[line])?;
        self.lines[line] = self.connect();
        Ok(())
    }

    fn close(&mut self, conn: u64) -> Result<(), String> {
        self.events.push(Event::Close(conn));
        for side in [&mut self.java, &mut self.ours] {
            let mut link = side.links.remove(&conn).ok_or("no link")?;
            if let Heard::Frame(frame) = link.hear(Duration::from_nanos(1)) {
                let text = String::from_utf8_lossy(&frame).into_owned();
                return Err(format!("{}: nobody asked for {text}", side.name));
            }
            drop(link);
            side.oracle.close(conn);
        }
        self.compare_tables(Some(PAUSE))
    }

    /// Empties both servers, by requests that are compared as all others.
    fn clean(&mut self) -> Result<End, String> {
        for line in 0..self.lines.len() {
            self.reopen(line)?;
        }
        for req in tables::preparation(false) {
            self.request(self.lines[0], req, false)?;
        }
        for _ in 0..6 {
            let mut batch = self.java.oracle.leftovers();
            batch.extend(self.ours.oracle.leftovers());
            if batch.is_empty() {
                return Ok(End::Clean);
            }
            for req in batch {
                self.request(self.lines[0], req, false)?;
            }
        }
        Ok(End::Dirty)
    }
}

impl Side {
    /// Whether the server has ended the connection, as the oracle said.
    fn expect_end(&mut self, conn: u64, closed: bool) -> Result<(), String> {
        let link = self.links.get_mut(&conn).ok_or("no link")?;
        let limit = if closed {
            LIMIT
        } else {
            Duration::from_millis(1)
        };
        let heard = link.hear(limit);
        if closed == (heard == Heard::Closed) {
            return Ok(());
        }
        Err(format!(
            "{}: closed {closed} expected, {heard:?}",
            self.name
        ))
    }

    /// Sends all these frames at once and returns the answers in the order of asking.
    fn observe(
        &mut self,
        frames: &[u8],
        first: i32,
        count: usize,
        dialect: Dialect,
    ) -> Result<Vec<Answer>, String> {
        self.observer.send(frames);
        let mut answers = BTreeMap::new();
        while answers.len() < count {
            let Heard::Frame(bytes) = self.observer.hear(LIMIT) else {
                return Err(format!(
                    "{}: {} of {count} answers",
                    self.name,
                    answers.len()
                ));
            };
            let (opaque, answer) = read_any(&bytes, self.name == "Java", dialect)?;
            if opaque < first || answers.insert(opaque, answer).is_some() {
                return Err(format!("{}: opaque {opaque}", self.name));
            }
        }
        Ok(answers.into_values().collect())
    }
}
