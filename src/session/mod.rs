//! One connection's protocol without the connection: bytes in, answers and commands out.
//!
//! The shell owns the socket, the clock and the queues; it hands in what arrived with the snapshot
//! loaded after the receive, sends the [`Output`], carries [`Envelope`]s to the writer and outcomes
//! back, and runs [`Job`]s in slices. Frames of a connection are handled in their order; reads are
//! answered at once, so an answer from the writer may come after that of a later read, which
//! clients allow (they match by opaque, and Java reorders too).
//!
//! Three fates and no other: answer and go on, close this connection ([`Next::Close`]), or - for
//! broken invariants only - a panic, which the shell turns into one closed connection.
//!
//! Deliberately absent: encoded answers that outlive a turn, anything that waits, logging.

mod admin;
mod dispatch;
pub mod elsewhere;
pub mod fields;
pub mod jobs;
pub mod notice;
mod register;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::route::Now;
use crate::route::command::{Accepted, Command, Envelope, Origin, Outcome, Refusal};
use crate::route::snapshot::Snapshot;
use crate::settings::limits::Limits;
use crate::wire::codes::{remark, response};
use crate::wire::frame::{self, Frame, FrameError};
use crate::wire::header::{Header, HeaderError};
use crate::wire::reply::{Output, ReplyExt, ReplySize};

use elsewhere::Ask;
use jobs::{DigestKeys, Job};

/// What a session may look at while it handles something.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// Loaded after the receive, or after whatever else was awaited.
    pub snapshot: &'a Arc<Snapshot>,
    /// The limits in force.
    pub limits: &'a Limits,
    /// Keys of digests, secret to this process.
    pub keys: &'a DigestKeys,
    /// The time.
    pub now: Now,
    /// The server is about to stop and says so: peers that know GO_AWAY are told to leave.
    pub leaving: bool,
    /// Topics that are not known here are asked of a production environment: `clusterTest`, as it
    /// was at the start.
    pub cluster_test: bool,
    /// Whether a registration equal to the last one may be answered without the writer; off only
    /// in tests that show that it makes no difference.
    pub unchanged_rule: bool,
}

/// What came of a call of [`Session::feed`].
#[derive(Debug)]
pub struct Fed {
    /// Bytes of the input that are done with.
    pub used: usize,
    /// What has to happen next.
    pub next: Next,
}

/// What the shell has to do before it calls again.
#[derive(Debug)]
pub enum Next {
    /// Receive more; what is left of the input is the start of a frame.
    Receive,
    /// Send the output first: the turn has produced enough.
    Send,
    /// Wait for an outcome: enough commands are outstanding.
    Wait,
    /// A frame of so many bytes begins at the rest of the input: collect it under a permit and
    /// hand it to [`Session::large`].
    Large(usize),
    /// Hand this to the writer, or call [`Session::overloaded`]; then go on.
    Submit(Envelope),
    /// Run this in slices and hand the result to [`Session::job_done`]; read nothing meanwhile.
    Run(Job),
    /// Ask the production environment, and hand what comes of it to [`Session::asked`]; go on
    /// meanwhile. Only with [`Env::cluster_test`].
    Ask(Ask),
    /// Close the connection.
    Close(CloseReason),
}

/// Why a session wants its connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The frame cannot be cut.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The header cannot be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A frame for which there is no memory, with so large a header that it cannot be answered.
    #[error("no memory for a frame with a large header")]
    LargeHeader,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    core: usize,
    conn: u64,
    /// What this connection registered, as it was last accepted.
    accepted: SmallVec<[Accepted; 1]>,
    /// Commands whose outcome has not come back.
    outstanding: usize,
    /// Questions to elsewhere without an answer.
    asking: usize,
    /// A registration was submitted, so the writer must hear of the end.
    registered: bool,
    /// A change that must be written to a file is outstanding: what follows waits for it.
    persisting: bool,
    /// The peer may send administrative requests.
    admin: bool,
}

impl Session {
    /// A connection that has just been accepted on `core`. Numbers must never be reused.
    pub fn new(core: usize, conn: u64) -> Self {
        Self {
            core,
            conn,
            accepted: SmallVec::new(),
            outstanding: 0,
            asking: 0,
            registered: false,
            persisting: false,
            admin: true,
        }
    }

    /// Administrative requests of this connection will be refused.
    pub fn forbid_admin(&mut self) {
        self.admin = false;
    }

    /// Handles the complete frames at the start of `input`.
    pub fn feed(&mut self, input: &[u8], env: &Env<'_>, out: &mut Output) -> Fed {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            if out.len() >= env.limits.turn_bytes {
                return Fed {
                    used,
                    next: Next::Send,
                };
            }
            if self.must_wait(env.limits) {
                return Fed {
                    used,
                    next: Next::Wait,
                };
            }
            match frame::announced_bytes(rest, &env.limits.frame) {
                Ok(Some(total)) if total > env.limits.large_frame_bytes => {
                    return Fed {
                        used,
                        next: Next::Large(total),
                    };
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    return Fed {
                        used,
                        next: Next::Receive,
                    };
                }
                Err(error) => {
                    return Fed {
                        used,
                        next: Next::Close(error.into()),
                    };
                }
            }
            let frame = match frame::cut(rest, &env.limits.frame) {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    return Fed {
                        used,
                        next: Next::Receive,
                    };
                }
                Err(error) => {
                    return Fed {
                        used,
                        next: Next::Close(error.into()),
                    };
                }
            };
            used += frame.total_bytes;
            if let Some(next) = self.frame(&frame, None, env, out) {
                return Fed { used, next };
            }
        }
    }

    /// Handles one complete large frame, whose buffer a registration keeps a share of.
    pub fn large(&mut self, bytes: &Bytes, env: &Env<'_>, out: &mut Output) -> Next {
        match frame::cut(bytes, &env.limits.frame) {
            Ok(Some(frame)) => self
                .frame(&frame, Some(bytes), env, out)
                .unwrap_or(Next::Receive),
            Ok(None) => Next::Receive,
            Err(error) => Next::Close(error.into()),
        }
    }

    /// Answers a large frame for which no memory could be had; `head` are its first bytes, at
    /// least the whole header.
    pub fn large_refused(&mut self, head: &[u8], env: &Env<'_>, out: &mut Output) -> Next {
        let frame = match frame::cut_head(head, &env.limits.frame) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Next::Close(CloseReason::LargeHeader),
            Err(error) => return Next::Close(error.into()),
        };
        match Header::parse(&frame, &env.limits.frame) {
            Ok(header) => {
                let silent = header.is_oneway() || header.is_response();
                self.busy(header.opaque, silent, env, out);
                Next::Receive
            }
            Err(error) => Next::Close(error.into()),
        }
    }

    /// The writer's queue had no place for what [`Next::Submit`] brought.
    pub fn overloaded(&mut self, origin: Origin, env: &Env<'_>, out: &mut Output) {
        self.outstanding -= 1;
        // The command that found no place is the last one.
        self.persisting = false;
        self.accepted.iter_mut().for_each(|a| a.proof = None);
        self.busy(origin.opaque, origin.oneway, env, out);
    }

    /// The writer has published what came of a command of this connection.
    pub fn outcome(&mut self, origin: Origin, outcome: Outcome, env: &Env<'_>, out: &mut Output) {
        self.outstanding -= 1;
        // Nothing is submitted behind a change that must be written, so its outcome is the last.
        self.persisting &= self.outstanding > 0;
        let reply = Reply {
            opaque: origin.opaque,
            oneway: origin.oneway,
            env,
        };
        match outcome {
            Outcome::Done => reply.success(out),
            Outcome::Failed(code, reason) => {
                reply.write(out, code, Some(&reason), ReplyExt::None, |_| {});
            }
            Outcome::Count(key, count) => {
                let count = count.to_string();
                let ext = [(key, count.as_str())];
                reply.write(out, response::SUCCESS, None, ReplyExt::Fields(&ext), |_| {});
            }
            Outcome::Registered(registered) => {
                reply.registered(out, registered.master.as_ref());
                self.remember(registered.accepted, env.limits);
            }
            Outcome::Conflict(identity) => {
                self.distrust(&identity.cluster, &identity.broker_addr);
                reply.registered(out, None);
            }
            Outcome::Refused(identity, refusal) => {
                self.distrust(&identity.cluster, &identity.broker_addr);
                let remark = match refusal {
                    Refusal::SingleTopic => remark::REGISTER_FAILED,
                    Refusal::Limit(reason) => reason,
                };
                reply.register_error(out, remark);
            }
        }
    }

    /// Further frames must wait for an outcome.
    pub fn must_wait(&self, limits: &Limits) -> bool {
        self.persisting || self.outstanding() >= limits.outstanding_commands
    }

    /// Commands and questions to elsewhere that have not come back.
    pub fn outstanding(&self) -> usize {
        self.outstanding + self.asking
    }

    /// The connection has ended: what the writer must hear of it, after everything submitted.
    pub fn end(&self) -> Option<Envelope> {
        let origin = Origin {
            core: self.core,
            conn: self.conn,
            opaque: 0,
            oneway: true,
        };
        self.registered.then_some(Envelope {
            origin,
            command: Command::Gone,
        })
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        whole: Option<&Bytes>,
        env: &Env<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        // Looked at where it is: a header is large.
        match &Header::parse(frame, &env.limits.frame) {
            Ok(header) if header.is_response() => None,
            Ok(header) => self.dispatch(
                header,
                Body {
                    bytes: frame.body,
                    whole,
                },
                env,
                out,
            ),
            Err(error) => Some(Next::Close((*error).into())),
        }
    }

    fn submit(&mut self, header: &Header<'_>, command: Command) -> Option<Next> {
        Some(self.submit_as(header.opaque, header.is_oneway(), command))
    }

    fn submit_as(&mut self, opaque: i32, oneway: bool, command: Command) -> Next {
        self.outstanding += 1;
        let origin = Origin {
            core: self.core,
            conn: self.conn,
            opaque,
            oneway,
        };
        Next::Submit(Envelope { origin, command })
    }

    fn busy(&self, opaque: i32, silent: bool, env: &Env<'_>, out: &mut Output) {
        let reply = Reply {
            opaque,
            oneway: silent,
            env,
        };
        let remark = Some(remark::OVERLOAD);
        reply.write(out, response::SYSTEM_BUSY, remark, ReplyExt::None, |_| {});
    }

    /// Whether a broker that this connection registered is alive, as far as is remembered.
    pub fn has_live_broker(&self) -> bool {
        self.accepted.iter().any(|a| a.live.is_alive())
    }

    fn remember(&mut self, accepted: Accepted, limits: &Limits) {
        let same = |a: &Accepted| *a.cluster == *accepted.cluster && *a.addr == *accepted.addr;
        self.accepted.retain(|a| !same(a));
        if self.accepted.len() >= limits.accepted_per_connection {
            self.accepted.remove(0);
        }
        self.accepted.push(accepted);
    }

    /// A repetition of this broker's registration must take the full path.
    fn distrust(&mut self, cluster: &str, addr: &str) {
        let same = |a: &&mut Accepted| *a.cluster == *cluster && *a.addr == *addr;
        for accepted in self.accepted.iter_mut().filter(same) {
            accepted.proof = None;
        }
    }
}

/// A frame's body, and the buffer of its own that it may stand in.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    whole: Option<&'a Bytes>,
}

impl Body<'_> {
    /// The body for longer than this turn: a share of a large frame, a copy of a small one.
    fn keep(self) -> Bytes {
        match self.whole {
            Some(whole) => whole.slice_ref(self.bytes),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

/// Writes answers to one request; a one-way request gets none.
#[derive(Clone, Copy)]
struct Reply<'a> {
    opaque: i32,
    oneway: bool,
    env: &'a Env<'a>,
}

impl<'a> Reply<'a> {
    fn to(header: &Header<'_>, env: &'a Env<'a>) -> Self {
        Self {
            opaque: header.opaque,
            oneway: header.is_oneway(),
            env,
        }
    }

    fn write(
        self,
        out: &mut Output,
        code: i32,
        remark: Option<&str>,
        ext: ReplyExt<'_>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        if !self.oneway {
            let serialize = self.env.snapshot.settings.serialize_type;
            let size = out.reply(serialize, self.opaque, code, remark, ext, body);
            out.too_large += u64::from(size == ReplySize::TooLarge);
        }
    }

    fn shared(self, out: &mut Output, ext: ReplyExt<'_>, body: Bytes) {
        if !self.oneway {
            let serialize = self.env.snapshot.settings.serialize_type;
            let code = response::SUCCESS;
            let size = out.reply_shared(serialize, self.opaque, code, None, ext, body);
            out.too_large += u64::from(size == ReplySize::TooLarge);
        }
    }

    fn success(self, out: &mut Output) {
        self.write(out, response::SUCCESS, None, ReplyExt::None, |_| {});
    }

    fn error(self, out: &mut Output, remark: &str) {
        self.write(
            out,
            response::SYSTEM_ERROR,
            Some(remark),
            ReplyExt::None,
            |_| {},
        );
    }
}
