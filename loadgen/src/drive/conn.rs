//! One connection: what is outstanding on it, what waits to be sent, and its bytes.
//!
//! Requests are encoded when the socket has room. What the kernel does not take is kept, or, when
//! a core keeps much already, made again from the request: a registration is the same each time.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker};

use namesrv::rt::Stream;

use crate::board::Nanos;
use crate::check::Checker;
use crate::encode::{Encoder, Request};
use crate::inbound::{Answer, Inbound, InboundError};
use crate::op::Op;
use crate::plan::Plan;
use crate::record::{Clock, Instants};

/// Encoded bytes after which a batch is sent.
const BATCH_BYTES: usize = 64 << 10;
/// Unsent bytes that a core keeps; beyond it they are made again when they can be sent.
const KEPT_BYTES: usize = 32 << 20;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) opaque: i32,
    pub(super) op: Op,
    pub(super) request: Request,
    pub(super) at: Instants,
    /// The clock that its right answer stops, and when that began.
    pub(super) clock: Option<(Clock, Nanos)>,
    /// Counted as late already.
    pub(super) late: bool,
}

/// One connection, open or not.
#[derive(Debug, Default)]
pub(super) struct Conn {
    pub(super) link: Link,
    /// Moves with each attempt to connect, so that the task of an earlier one knows its end.
    pub(super) generation: u32,
    pub(super) flights: Vec<Flight>,
    /// The task that polls it.
    pub(super) waker: Option<Waker>,
    /// Bytes that a slow reader may still read; `None` reads all.
    pub(super) allowance: Option<usize>,
    pub(super) inbound: Inbound,
    waiting: VecDeque<Flight>,
    unsent: Option<Unsent>,
    last_opaque: i32,
}

/// The state of the socket.
#[derive(Debug, Default)]
pub(super) enum Link {
    #[default]
    Closed,
    Connecting,
    Open(Stream),
}

#[derive(Debug)]
enum Unsent {
    Kept { bytes: Vec<u8>, sent: usize },
    Remade { flight: Flight, sent: usize },
}

/// What sending needs from its core.
pub(super) struct Sender<'a> {
    pub(super) plan: &'a Plan,
    pub(super) encoder: &'a mut Encoder,
    /// Unsent bytes kept by all connections of the core.
    pub(super) kept_bytes: &'a mut usize,
    pub(super) sent_bytes: &'a mut u64,
}

impl Conn {
    /// Puts a request behind those that wait. One-ways are forgotten once they are sent.
    pub(super) fn submit(&mut self, mut flight: Flight) {
        self.last_opaque = self.last_opaque.wrapping_add(1);
        flight.opaque = self.last_opaque;
        if !flight.op.is_oneway() {
            self.flights.push(flight);
        }
        self.waiting.push_back(flight);
    }

    /// Sends what waits. Without a context it only tries; the task is then woken for the rest.
    pub(super) fn flush(
        &mut self,
        sender: &mut Sender<'_>,
        mut cx: Option<&mut Context<'_>>,
    ) -> io::Result<()> {
        loop {
            let Link::Open(stream) = &mut self.link else {
                return Ok(());
            };
            if let Some(unsent) = &mut self.unsent {
                let Some(cx) = cx.as_deref_mut() else {
                    if let Some(waker) = &self.waker {
                        waker.wake_by_ref();
                    }
                    return Ok(());
                };
                match unsent.poll(stream, sender, cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Ready(Ok(false)) => continue,
                    Poll::Ready(Ok(true)) => self.unsent = None,
                }
            }
            let Some(first) = self.waiting.front().copied() else {
                return Ok(());
            };
            sender.encoder.out.clear();
            let mut batch = 0;
            while sender.encoder.out.len() < BATCH_BYTES
                && let Some(flight) = self.waiting.pop_front()
            {
                sender.encode(&flight)?;
                batch += 1;
            }
            let out = &sender.encoder.out;
            let sent = stream.try_send(&[IoSlice::new(out)])?;
            *sender.sent_bytes += sent as u64;
            if sent == out.len() {
                continue;
            }
            let rest = out.len() - sent;
            self.unsent = Some(if batch == 1 && *sender.kept_bytes + rest > KEPT_BYTES {
                Unsent::Remade {
                    flight: first,
                    sent,
                }
            } else {
                *sender.kept_bytes += rest;
                Unsent::Kept {
                    bytes: out[sent..].to_vec(),
                    sent: 0,
                }
            });
        }
    }

    /// Takes the next answer out of received bytes.
    pub(super) fn next_answer(
        &mut self,
        input: &mut &[u8],
        checker: &Checker,
    ) -> Result<Option<Answer>, InboundError> {
        let flights = &self.flights;
        self.inbound.next(input, |opaque, _, _| {
            let flight = flights.iter().find(|flight| flight.opaque == opaque)?;
            checker.expected(flight.request.subject()?)
        })
    }

    /// Takes the request that an answer belongs to.
    pub(super) fn land(&mut self, opaque: i32) -> Option<Flight> {
        let at = self
            .flights
            .iter()
            .position(|flight| flight.opaque == opaque)?;
        Some(self.flights.swap_remove(at))
    }

    /// Forgets everything. The stream, if any, closes; its task ends when it is next polled.
    pub(super) fn close(&mut self, kept_bytes: &mut usize) -> Vec<Flight> {
        self.link = Link::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.inbound = Inbound::default();
        self.waiting.clear();
        if let Some(Unsent::Kept { bytes, .. }) = self.unsent.take() {
            *kept_bytes -= bytes.len();
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        std::mem::take(&mut self.flights)
    }

    /// It is open or about to be.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.link, Link::Closed)
    }
}

impl Unsent {
    /// True when all is sent, false when some is.
    fn poll(
        &mut self,
        stream: &mut Stream,
        sender: &mut Sender<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        let (bytes, sent) = match self {
            Self::Kept { bytes, sent } => (&bytes[..], sent),
            Self::Remade { flight, sent } => {
                sender.encoder.out.clear();
                sender.encode(flight)?;
                (&sender.encoder.out[..], sent)
            }
        };
        let slices = [IoSlice::new(&bytes[*sent..])];
        let now = match stream.poll_send(cx, &slices) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(sent) => sent?,
        };
        *sent += now;
        *sender.sent_bytes += now as u64;
        let all = *sent == bytes.len();
        if all && let Self::Kept { bytes, .. } = self {
            *sender.kept_bytes -= bytes.len();
        }
        Poll::Ready(Ok(all))
    }
}

impl Sender<'_> {
    fn encode(&mut self, flight: &Flight) -> io::Result<()> {
        let Plan { config, topology } = self.plan;
        self.encoder
            .encode(topology, config, &flight.request, flight.op, flight.opaque)
            .map_err(|error| io::Error::other(error.to_string()))
    }
}
