//! A simulated server that is led step by step, for tests that need one certain order of events.

use super::peer::{Ask, Identity, Queue, Register};
use super::server::Server;
use super::setup::{Fact, Setup, Want};
use crate::support::answer::{Answer, read_answers};
use crate::support::request::{Body, Request};

/// A server, step by step.
pub(crate) struct Scene {
    pub(crate) server: Server,
    opaque: i32,
    pub(crate) observer: u64,
    /// Answers that were read past while looking for another connection's.
    unread: Vec<(u64, i32, Answer)>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let mut server = Server::new(setup);
        let observer = server.connect(0);
        Self {
            server,
            opaque: 0,
            observer,
            unread: Vec::new(),
        }
    }

    pub(crate) fn connect(&mut self, core: usize) -> u64 {
        self.server.connect(core)
    }

    /// The requests are received and parsed; their commands wait for the writer.
    pub(crate) fn send(&mut self, conn: u64, asks: &[Ask]) {
        self.start(conn, asks);
        for _ in asks {
            self.server.finish_job(conn);
        }
    }

    /// The requests are received; what takes longer has only begun.
    pub(crate) fn start(&mut self, conn: u64, asks: &[Ask]) {
        let frames: Vec<_> = asks
            .iter()
            .map(|ask| {
                self.opaque += 1;
                ask.frame(self.opaque, false)
            })
            .collect();
        self.receive(conn, &frames.concat());
    }

    pub(crate) fn send_requests(&mut self, conn: u64, requests: &[Request]) {
        for request in requests {
            self.opaque += 1;
            let frame = Request {
                opaque: self.opaque,
                ..request.clone()
            }
            .json_frame();
            self.receive(conn, &frame);
            self.server.finish_job(conn);
        }
    }

    pub(crate) fn send_requests_of_318(&mut self, line: &str) {
        let body = Body::Raw(line.as_bytes().to_vec());
        self.send_requests(
            self.observer,
            &[Request {
                body,
                ..Request::new(318)
            }],
        );
        self.settle();
        assert_eq!(self.answers(self.observer), [Answer::success()]);
    }

    fn receive(&mut self, conn: u64, bytes: &[u8]) {
        self.server.arrive(conn, bytes);
        self.server.receive(conn, bytes.len());
        for core in 0..self.server.cores() {
            self.server.finish_turn(core);
        }
    }

    /// Everything that has to happen happens.
    pub(crate) fn settle(&mut self) {
        self.work(usize::MAX, None);
    }

    /// The same in batches of so many.
    pub(crate) fn settle_by(&mut self, most: usize) {
        self.work(most, None);
    }

    pub(crate) fn settle_without(&mut self, left_out: Want) {
        self.work(usize::MAX, Some(left_out));
    }

    fn work(&mut self, most: usize, left_out: Option<Want>) {
        while !self.server.wants.is_empty() {
            for want in std::mem::take(&mut self.server.wants) {
                match want {
                    want if Some(want) == left_out => {}
                    Want::Turn(conn) => self.receive(conn, &[]),
                    Want::Job(conn) => self.server.finish_job(conn),
                    Want::Apply => self.server.apply(most),
                    Want::Publish => self.server.publish(),
                    Want::Deliver(core) => self.server.deliver(core),
                    Want::Close(conn) => self.server.close_if_idle(conn),
                }
            }
        }
    }

    /// Answers that the connection has had since the last call.
    pub(crate) fn answers(&mut self, conn: u64) -> Vec<Answer> {
        for fact in std::mem::take(&mut self.server.facts) {
            if let Fact::Wrote { conn, bytes } = fact {
                let answers = read_answers(&bytes).unwrap();
                self.unread
                    .extend(answers.into_iter().map(|(opaque, a)| (conn, opaque, a)));
            }
        }
        let own = self.unread.extract_if(.., |(to, ..)| *to == conn);
        own.map(|(_, _, answer)| answer).collect()
    }

    /// Asks what a reader sees now; the writer does nothing meanwhile.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Answer {
        self.send(self.observer, std::slice::from_ref(ask));
        let mut answers = self.answers(self.observer);
        assert_eq!(answers.len(), 1, "{ask:?}");
        answers.remove(0)
    }

    pub(crate) fn route(&mut self, topic: &str) -> Answer {
        self.ask(&Ask::Route {
            topic: topic.to_owned(),
            legacy: false,
        })
    }

    /// The `brokerAddrs` of a 901.
    pub(crate) fn members(&mut self, name: &str) -> String {
        let body = self.ask(&Ask::Members(name.to_owned())).body.unwrap();
        let body = String::from_utf8(body).unwrap();
        let rest = body
            .strip_prefix("{\"brokerMemberGroup\":{\"brokerAddrs\":{")
            .unwrap();
        rest.split_once('}').unwrap().0.to_owned()
    }
}

/// A master with two topics in cluster C.
pub(crate) fn master(name: &str, addr: &str) -> Register {
    let queue = Queue {
        read: 8,
        write: 8,
        perm: 6,
    };
    Register {
        who: Identity {
            cluster: "C".to_owned(),
            name: name.to_owned(),
            id: 0,
            addr: addr.to_owned(),
        },
        version: (0, 1),
        topics: (0..2).map(|t| (format!("{name}.t{t}"), queue)).collect(),
        acting: Some(false),
        timeout_ms: None,
    }
}
