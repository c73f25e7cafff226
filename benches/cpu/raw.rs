//! What the kernel alone costs: a server on epoll that counts frames, looks at nothing else, and
//! sends as many bytes as the real answer has.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// The argument that makes this program that server.
pub(crate) const MODE: &str = "--raw";
/// As the server's own.
const RECEIVE_BYTES: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;

struct Connection {
    stream: TcpStream,
    /// The length word of a frame, as far as it is there.
    word: Vec<u8>,
    /// Bytes that the frame still lacks.
    missing: usize,
    unsent: usize,
}

/// Serves until it is killed.
pub(crate) fn serve(port: u16, answer_bytes: usize) -> ! {
    let mut answer = u32::try_from(answer_bytes - 4)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    answer.resize(answer_bytes, b' ');
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    epoll::add(
        &epoll,
        &listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )
    .unwrap();
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; RECEIVE_BYTES];
    let mut answers = Vec::new();
    let mut events = Vec::with_capacity(256);
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None).unwrap();
        for event in events.drain(..) {
            let index = event.data.u64();
            if index == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let data = EventData::new_u64(connections.len() as u64);
                    let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                    epoll::add(&epoll, &stream, data, both).unwrap();
                    connections.push(Connection {
                        stream,
                        word: Vec::new(),
                        missing: 0,
                        unsent: 0,
                    });
                }
                continue;
            }
            let connection = &mut connections[index as usize];
            connection.turn(&mut buffer, &answer, &mut answers);
        }
    }
}

impl Connection {
    /// Receives until nothing is left, and sends an answer for each frame.
    fn turn(&mut self, buffer: &mut [u8], answer: &[u8], answers: &mut Vec<u8>) {
        self.flush(answer);
        loop {
            let got = match self.stream.read(buffer) {
                Ok(got) if got > 0 => got,
                _ => return,
            };
            let frames = self.count(&buffer[..got]);
            if frames == 1 && self.unsent == 0 {
                self.unsent = answer.len();
                self.flush(answer);
            } else if frames > 0 {
                answers.clear();
                (0..frames).for_each(|_| answers.extend_from_slice(answer));
                self.unsent += answers.len();
                self.flush(answers);
            }
            if got < buffer.len() {
                return;
            }
        }
    }

    /// All answers are the same, so what is unsent is as good as the end of any.
    fn flush(&mut self, answers: &[u8]) {
        while self.unsent > 0 {
            let some = self.unsent.min(answers.len());
            match self.stream.write(&answers[answers.len() - some..]) {
                Ok(sent) => self.unsent -= sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.unsent = 0,
            }
        }
    }

    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut frames = 0;
        while !bytes.is_empty() {
            if self.missing == 0 {
                let some = bytes.len().min(4 - self.word.len());
                self.word.extend_from_slice(&bytes[..some]);
                bytes = &bytes[some..];
                if let Ok(word) = self.word.as_slice().try_into() {
                    self.missing = u32::from_be_bytes(word) as usize;
                    self.word.clear();
                }
            }
            let some = bytes.len().min(self.missing);
            bytes = &bytes[some..];
            if some > 0 {
                self.missing -= some;
                frames += usize::from(self.missing == 0);
            }
        }
        frames
    }
}
