//! One TCP connection to a server: frames out, frames in, with deadlines.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A frame that a server owes; also how long a close may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A connection.
pub(crate) struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came, if anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A whole frame with its length.
    Frame(Vec<u8>),
    /// The server ended the connection.
    Closed,
    /// Nothing within the time.
    Nothing,
}

impl Link {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// A connection that the server has ended takes nothing: what comes back tells.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame, or what came instead of it.
    pub(crate) fn hear(&mut self, limit: Duration) -> Heard {
        let start = Instant::now();
        loop {
            if let Some(frame) = self.cut() {
                return Heard::Frame(frame);
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Heard::Nothing;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut piece = [0; 65536];
            match self.stream.read(&mut piece) {
                Ok(0) => return Heard::Closed,
                Ok(n) => self.buffer.extend(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Heard::Nothing;
                }
                Err(_) => return Heard::Closed,
            }
        }
    }

    fn cut(&mut self) -> Option<Vec<u8>> {
        let length = self.buffer.first_chunk::<4>()?;
        let end = 4 + u32::from_be_bytes(*length) as usize;
        if self.buffer.len() < end {
            return None;
        }
        let rest = self.buffer.split_off(end);
        Some(std::mem::replace(&mut self.buffer, rest))
    }
}
