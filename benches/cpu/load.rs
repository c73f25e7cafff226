//! The load: connections that always have so many requests outstanding, on one thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// Answers to read at once.
const BUFFER_BYTES: usize = 1 << 20;

type Make = Box<dyn Fn(usize) -> Vec<u8>>;

/// The requests of a load, by the number of the connection or of the request.
pub(crate) enum Frames {
    Kept(Vec<Vec<u8>>),
    Made(Make),
}

impl Frames {
    pub(crate) fn one_for_all(frame: Vec<u8>) -> Self {
        Self::Kept(vec![frame])
    }

    pub(crate) fn one_for_each(frames: impl Iterator<Item = Vec<u8>>) -> Self {
        Self::Kept(frames.collect())
    }

    pub(crate) fn made_for_each(make: impl Fn(usize) -> Vec<u8> + 'static) -> Self {
        Self::Made(Box::new(make))
    }
}

/// A closed loop.
pub(crate) struct Load {
    connections: Vec<TcpStream>,
    depth: usize,
    frames: Frames,
    sent: usize,
    /// Of every answer.
    pub(crate) answer_bytes: usize,
    buffer: Vec<u8>,
}

impl Load {
    /// Connects, and learns from the first answer how long each is.
    pub(crate) fn new(port: u16, connections: usize, depth: usize, frames: Frames) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        };
        let mut load = Self {
            connections: (0..connections).map(connect).collect(),
            depth,
            frames,
            sent: 0,
            answer_bytes: 0,
            buffer: vec![0; BUFFER_BYTES],
        };
        for connection in 0..connections {
            load.send(connection, 1);
            let mut length = [0; 4];
            load.connections[connection]
                .read_exact(&mut length)
                .unwrap();
            let bytes = u32::from_be_bytes(length) as usize + 4;
            assert!(load.answer_bytes == 0 || load.answer_bytes == bytes);
            load.answer_bytes = bytes;
            load.receive(connection, bytes - 4);
        }
        load
    }

    /// Keeps all connections busy for so long. Returns the number of answers.
    pub(crate) fn run(&mut self, time: Duration) -> usize {
        let start = Instant::now();
        let mut answers = 0;
        for connection in 0..self.connections.len() {
            self.send(connection, self.depth);
        }
        let mut is_over = false;
        while !is_over {
            is_over = start.elapsed() >= time;
            for connection in 0..self.connections.len() {
                self.receive(connection, self.depth * self.answer_bytes);
                answers += self.depth;
                if !is_over {
                    self.send(connection, self.depth);
                }
            }
        }
        answers
    }

    fn send(&mut self, connection: usize, count: usize) {
        let stream = &mut self.connections[connection];
        match &self.frames {
            Frames::Kept(frames) => {
                let frame = &frames[connection % frames.len()];
                if count == 1 {
                    stream.write_all(frame).unwrap();
                } else {
                    stream.write_all(&frame.repeat(count)).unwrap();
                }
            }
            Frames::Made(make) => {
                for _ in 0..count {
                    stream.write_all(&make(self.sent)).unwrap();
                    self.sent += 1;
                }
            }
        }
    }

    fn receive(&mut self, connection: usize, mut bytes: usize) {
        while bytes > 0 {
            let room = bytes.min(self.buffer.len());
            let got = self.connections[connection]
                .read(&mut self.buffer[..room])
                .unwrap();
            assert!(got > 0, "the server closed a connection");
            bytes -= got;
        }
    }
}
