//! One connection to the server: raw bytes out, whole answers in, and how it ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::harness::PATIENCE;
use crate::support::answer::{Answer, read_answers};
use crate::support::request::Request;

const READ_BYTES: usize = 256 * 1024;

/// A connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
    next_opaque: i32,
}

/// How a connection ended, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// FIN or, when the server had not read everything, a reset.
    Closed,
    /// Not at all within the time.
    Open,
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::from_stream(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn from_stream(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            received: Vec::new(),
            next_opaque: 1,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends one request and reads its answer, which must be the next.
    pub(crate) fn ask(&mut self, request: &Request) -> Answer {
        let mut request = request.clone();
        request.opaque = self.next_opaque;
        self.next_opaque = self.next_opaque.wrapping_add(1);
        self.send(&request.json_frame());
        let (opaque, answer) = self.answer();
        assert_eq!(opaque, request.opaque, "the answer is to another request");
        answer
    }

    /// Reads the next answer and its opaque.
    pub(crate) fn answer(&mut self) -> (i32, Answer) {
        self.answer_or_end()
            .expect("the connection ended, or was silent for too long, before the answer")
    }

    /// Reads the next answer, or finds that there will be none.
    pub(crate) fn answer_or_end(&mut self) -> Option<(i32, Answer)> {
        loop {
            if let Some(frame) = self.frame() {
                return read_answers(&frame).unwrap().pop();
            }
            if self.try_receive().unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Reads so many answers.
    pub(crate) fn answers(&mut self, count: usize) -> Vec<(i32, Answer)> {
        (0..count).map(|_| self.answer()).collect()
    }

    /// How the connection ends, and the answers that come before. Nothing else may come.
    pub(crate) fn end(&mut self, limit: Duration) -> (Vec<(i32, Answer)>, End) {
        let end = Instant::now() + limit;
        let how = loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break End::Open;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            match self.try_receive() {
                Ok(0) => break End::Closed,
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::ConnectionReset => break End::Closed,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => break End::Open,
                    kind => panic!("unexpected end of a connection: {kind:?}"),
                },
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answers = Vec::new();
        while let Some(frame) = self.frame() {
            answers.append(&mut read_answers(&frame).unwrap());
        }
        assert_eq!(self.received, b"", "a part of an answer came");
        (answers, how)
    }

    /// The server closes the connection, within the patience of the tests, without an answer.
    pub(crate) fn is_closed_silently(&mut self) {
        assert_eq!(self.end(PATIENCE), (Vec::new(), End::Closed));
    }

    /// Says that no more will be sent.
    pub(crate) fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes with a reset instead of FIN, as a killed process with unread data does.
    pub(crate) fn reset(self) {
        let linger = Some(Duration::ZERO);
        SockRef::from(&self.stream).set_linger(linger).unwrap();
    }

    fn frame(&mut self) -> Option<Vec<u8>> {
        let length = self.received.first_chunk::<4>()?;
        let total = 4 + u32::from_be_bytes(*length) as usize;
        if self.received.len() < total {
            return None;
        }
        let rest = self.received.split_off(total);
        Some(std::mem::replace(&mut self.received, rest))
    }

    fn try_receive(&mut self) -> std::io::Result<usize> {
        // Zeroed by the allocator: filling it here would take milliseconds without optimization.
        let mut bytes = vec![0; READ_BYTES];
        let received = self.stream.read(&mut bytes);
        let count = received.as_ref().copied().unwrap_or(0);
        self.received.extend_from_slice(&bytes[..count]);
        received
    }
}
