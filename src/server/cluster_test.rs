//! `clusterTest`: asks the production environment's NameServers for topics that are not known
//! here, for `session::elsewhere`.
//!
//! Two threads of its own and blocking sockets, never a core: one finds those servers ([`lookup`]),
//! one asks them, one at a time and as long as it answers, over a connection that is kept, with
//! all questions that wait in one send. Everything is bounded: the questions that wait, the time
//! each may take, the size of an answer, and the memory in answers until they are sent on.
//!
//! Invariant: every question is answered exactly once. Whoever drops a [`Question`] answers it, so
//! none is lost: not one that finds the queue full, nor one that is too late.
//!
//! Deliberately absent: TLS towards production, and remembering answers.

mod lookup;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{info, warn};

use self::lookup::{Lookup, Servers};
use super::shared::{SharedRef, count};
use crate::session::elsewhere::{Ask, Asked, read_answer, write_question};
use crate::settings::Settings;
use crate::wire::frame::{self, FrameLimits};

/// Questions in one send: few enough to fit into the buffers of a socket, so that sending does not
/// wait for a peer that waits for us.
const BATCH: usize = 64;
/// One server may take this long to accept a connection, so that there is time for the next.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// A connection that was not used for so long is not trusted any more: servers close theirs after
/// 120 s, and what lies in between forgets them in silence.
const IDLE_LIMIT: Duration = Duration::from_secs(100);
/// One receive.
const RECEIVE_BYTES: usize = 64 * 1024;
/// A buffer that was larger for an answer is given back.
const KEPT_BYTES: usize = 1024 * 1024;

/// The way to the asking thread.
pub(super) type Questions = SyncSender<Question>;

/// A queue for so many questions.
pub(super) fn questions(places: usize) -> (Questions, Receiver<Question>) {
    sync_channel(places)
}

/// Hands a question over; what comes of it reaches the asker's connection through its core.
pub(super) fn ask(shared: &SharedRef, ask: Ask) {
    count(&shared.counters.asked_elsewhere);
    let question = Question {
        asked: Some(Asked { ask, body: None }),
        until: Instant::now() + Duration::from_millis(shared.limits.ask_ms),
        opaque: 0,
        shared: Arc::clone(shared),
    };
    let queue = shared.production.as_ref();
    if queue.is_none_or(|queue| queue.try_send(question).is_err()) {
        count(&shared.counters.refused_asks);
    }
}

/// Starts both threads.
pub(super) fn start(
    settings: &Settings,
    shared: &SharedRef,
    questions: Receiver<Question>,
) -> io::Result<()> {
    let servers = Arc::new(Servers::default());
    let asker = Asker {
        questions,
        servers: Arc::clone(&servers),
        turn: getrandom::u32().unwrap_or(0) as usize,
        link: None,
        limits: shared.limits.frame,
        chosen: None,
        complained: false,
    };
    let asker = thread::Builder::new()
        .name("namesrv-asker".to_owned())
        .spawn(move || asker.run())?;
    let lookup = Lookup::new(settings, servers, asker.thread().clone());
    thread::Builder::new()
        .name("namesrv-lookup".to_owned())
        .spawn(move || lookup.run())
        .map(drop)
}

/// A request that waits for the production environment.
pub(super) struct Question {
    /// Taken out when it is answered, which is when this is dropped.
    asked: Option<Asked>,
    until: Instant,
    /// Its number on the connection that it was last sent on.
    opaque: i32,
    shared: SharedRef,
}

impl Question {
    fn topic(&self) -> &str {
        self.asked.as_ref().map_or("", |asked| &asked.ask.topic)
    }

    fn answer(mut self, route: Option<&[u8]>) {
        let Some(asked) = &mut self.asked else { return };
        asked.body = route.and_then(|route| hold(&self.shared, route));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            let line = &self.shared.cores[asked.ask.origin.core];
            line.asked.push(asked);
            line.waker.wake();
        }
    }
}

/// An answer in memory, counted until the last connection has sent it.
struct Held {
    bytes: Vec<u8>,
    shared: SharedRef,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.asked.give(self.bytes.len());
    }
}

/// The answer for longer, if there is memory for it.
fn hold(shared: &SharedRef, route: &[u8]) -> Option<Bytes> {
    if !shared.asked.take(route.len(), 0) {
        count(&shared.counters.refused_asks);
        return None;
    }
    Some(Bytes::from_owner(Held {
        bytes: route.to_vec(),
        shared: Arc::clone(shared),
    }))
}

/// The thread that asks.
struct Asker {
    questions: Receiver<Question>,
    servers: Arc<Servers>,
    /// Whose turn it is, counted on with every failure. Begins anywhere, as with Java's clients,
    /// so that not every test environment asks the same server.
    turn: usize,
    link: Option<Link>,
    limits: FrameLimits,
    /// The last server that was reached.
    chosen: Option<SocketAddr>,
    /// The last question failed: that has been logged.
    complained: bool,
}

impl Asker {
    /// Asks for as long as the process runs.
    fn run(mut self) {
        while let Ok(first) = self.questions.recv() {
            let mut batch = vec![first];
            batch.extend(self.questions.try_iter().take(BATCH - 1));
            self.ask(batch);
        }
    }

    /// Asks one server after the other. What no server has answered is dropped, and so answered.
    fn ask(&mut self, mut batch: Vec<Question>) {
        drop_late(&mut batch);
        if batch.is_empty() {
            return;
        }
        let servers = self.servers.wait(earliest(&batch));
        self.link = self.link.take().filter(|link| link.is_good(&servers));
        let mut problem = "no NameServer of it is known".to_owned();
        // One more time than there are servers: the failure of a connection that was kept says
        // nothing about the server.
        for _ in 0..servers.len() + usize::from(self.link.is_some()) {
            match self.exchange(&servers, &mut batch) {
                Ok(()) => {
                    self.complained = false;
                    return;
                }
                Err(error) => problem = error.to_string(),
            }
            self.link = None;
            self.turn = self.turn.wrapping_add(1);
            drop_late(&mut batch);
            if batch.is_empty() {
                break;
            }
        }
        self.complain(&problem);
    }

    /// Has the questions answered over the kept connection, or over a new one to the next server.
    fn exchange(&mut self, servers: &[SocketAddr], batch: &mut Vec<Question>) -> io::Result<()> {
        let link = match &mut self.link {
            Some(link) => link,
            None => {
                let addr = servers[self.turn % servers.len()];
                let link = Link::connect(addr, earliest(batch), self.limits)?;
                if self.chosen.replace(addr) != Some(addr) {
                    info!(server = %addr, "production NameServer chosen");
                }
                self.link.insert(link)
            }
        };
        link.exchange(batch)
    }

    /// One line for a series of failures.
    fn complain(&mut self, problem: &str) {
        if !self.complained {
            self.complained = true;
            warn!(problem, "the production environment cannot be asked");
        }
    }
}

/// The kept connection.
struct Link {
    addr: SocketAddr,
    stream: TcpStream,
    last_used: Instant,
    /// The last number given to a question.
    opaque: i32,
    input: Vec<u8>,
    limits: FrameLimits,
}

impl Link {
    fn connect(addr: SocketAddr, until: Instant, limits: FrameLimits) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, left(until).min(CONNECT_LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            addr,
            stream,
            last_used: Instant::now(),
            opaque: 0,
            input: Vec::new(),
            limits,
        })
    }

    /// Whether it may be used again.
    fn is_good(&self, servers: &[SocketAddr]) -> bool {
        self.last_used.elapsed() < IDLE_LIMIT && servers.contains(&self.addr)
    }

    /// Sends the questions and waits for their answers; each leaves the batch when it is answered
    /// or late. An error means that this connection is of no more use, also when the server was
    /// silent until all were late.
    fn exchange(&mut self, batch: &mut Vec<Question>) -> io::Result<()> {
        self.last_used = Instant::now();
        let mut frames = Vec::new();
        for question in &mut *batch {
            self.opaque = self.opaque.wrapping_add(1);
            question.opaque = self.opaque;
            write_question(&mut frames, question.topic(), self.opaque);
        }
        self.stream.set_write_timeout(Some(left(earliest(batch))))?;
        self.stream.write_all(&frames)?;
        while !batch.is_empty() {
            self.receive(earliest(batch))?;
            self.take_answers(batch)?;
            if !batch.is_empty() {
                drop_late(batch);
                if batch.is_empty() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
    }

    /// One receive, or none until then.
    fn receive(&mut self, until: Instant) -> io::Result<()> {
        self.stream.set_read_timeout(Some(left(until)))?;
        let kept = self.input.len();
        self.input.resize(kept + RECEIVE_BYTES, 0);
        let received = self.stream.read(&mut self.input[kept..]);
        self.input.truncate(kept + *received.as_ref().unwrap_or(&0));
        match received {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if is_pause(error.kind()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hands out the answers that are complete. Those to questions that were late are skipped.
    fn take_answers(&mut self, batch: &mut Vec<Question>) -> io::Result<()> {
        let mut used = 0;
        while let Some(frame) =
            frame::cut(&self.input[used..], &self.limits).map_err(io::Error::other)?
        {
            used += frame.total_bytes;
            let answer = read_answer(&frame, &self.limits).map_err(io::Error::other)?;
            if let Some(answer) = answer
                && let Some(at) = batch.iter().position(|q| q.opaque == answer.opaque)
            {
                batch.swap_remove(at).answer(answer.route);
            }
        }
        self.input.drain(..used);
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = Vec::new();
        }
        Ok(())
    }
}

/// The time ran out, or a signal came.
fn is_pause(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(kind, Interrupted | TimedOut | WouldBlock)
}

fn drop_late(batch: &mut Vec<Question>) {
    let now = Instant::now();
    batch.retain(|question| question.until > now);
}

/// When the first of them is late.
fn earliest(batch: &[Question]) -> Instant {
    let untils = batch.iter().map(|question| question.until);
    untils.min().unwrap_or_else(Instant::now)
}

/// The time until then; a socket takes no time-out of zero.
fn left(until: Instant) -> Duration {
    until
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}
