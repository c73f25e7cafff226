//! A server without sockets as an operator sees it, and connections that are driven by hand.

use std::sync::Arc;

use namesrv::route::Now;
use namesrv::route::snapshot::Snapshot;
use namesrv::session::jobs::{DigestKeys, Job};
use namesrv::session::{Env, Fed, Next, Session};
use namesrv::settings::limits::Limits;
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::reply::Output;
use serde_json::Value;

use crate::support::answer::{Answer, read_answers};
use crate::support::node::Node;
use crate::support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// A server, its clock, and one connection that never registers anything by itself.
pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) now: u64,
    pub(crate) conn: u64,
}

impl World {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        Self::of(Node::new(settings, true))
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::of(Node::with_limits(&[], true, limits))
    }

    fn of(mut node: Node) -> Self {
        let conn = node.connect();
        Self {
            node,
            now: 1000,
            conn,
        }
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Answer {
        self.ask_on(self.conn, request)
    }

    pub(crate) fn ask_on(&mut self, conn: u64, request: &Request) -> Answer {
        one(&self.node.send(conn, &request.json_frame(), self.now))
    }

    /// Sends a registration over a connection of its own, which must be a success.
    pub(crate) fn join(&mut self, request: &Request) -> u64 {
        let conn = self.node.connect();
        self.join_on(conn, request);
        conn
    }

    pub(crate) fn join_on(&mut self, conn: u64, request: &Request) {
        let answer = self.ask_on(conn, request);
        assert_eq!(answer.code, 0, "{answer}");
    }

    /// Sends these bytes over a connection of their own and says whether it stays open. Nothing
    /// may be answered if it does not.
    pub(crate) fn survives(&mut self, bytes: &[u8]) -> bool {
        let conn = self.node.connect();
        let answers = self.node.send(conn, bytes, self.now);
        let open = self.node.is_open(conn);
        assert!(open || answers.is_empty());
        open
    }

    /// Time passes, and what has expired goes.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.node.tick(self.now);
    }

    /// The body of an answer that must be a success.
    pub(crate) fn text(&mut self, request: &Request) -> String {
        let answer = self.ask(request);
        assert_eq!(answer.code, 0, "{answer}");
        String::from_utf8(answer.body.unwrap_or_default()).unwrap()
    }

    /// All members: name, id, address.
    pub(crate) fn brokers(&mut self) -> Vec<String> {
        let request = Request::new(106).with("acceptStandardJsonOnly", "true");
        let info: Value = serde_json::from_str(&self.text(&request)).unwrap();
        let groups = info["brokerAddrTable"].as_object().unwrap();
        groups.values().flat_map(members).collect()
    }

    /// The members in a topic's route: name, id, address.
    pub(crate) fn route_members(&mut self, topic: &str) -> Vec<String> {
        let route = self.route(topic);
        let groups = route["brokerDatas"].as_array();
        groups.into_iter().flatten().flat_map(members).collect()
    }

    /// The queues in a topic's route: name, perm. Empty for a topic without a route.
    pub(crate) fn queues(&mut self, topic: &str) -> Vec<String> {
        let route = self.route(topic);
        let queues = route["queueDatas"].as_array();
        let show = |q: &Value| format!("{} {}", q["brokerName"].as_str().unwrap(), q["perm"]);
        queues.into_iter().flatten().map(show).collect()
    }

    fn route(&mut self, topic: &str) -> Value {
        let answer = self.ask(&route(topic));
        match answer.code {
            17 => Value::Null,
            _ => serde_json::from_slice(&answer.body.unwrap()).unwrap(),
        }
    }
}

fn members(group: &Value) -> Vec<String> {
    let name = group["brokerName"].as_str().unwrap();
    let addrs = group["brokerAddrs"].as_object().unwrap();
    let show = |(id, addr): (&String, &Value)| format!("{name} {id} {}", addr.as_str().unwrap());
    addrs.iter().map(show).collect()
}

/// The only answer in these bytes.
pub(crate) fn one(bytes: &[u8]) -> Answer {
    let mut answers = read_answers(bytes).unwrap();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0).1
}

/// 105 of a 5.3.3 client.
pub(crate) fn route(topic: &str) -> Request {
    Request::new(105).with("topic", topic)
}

/// 105 of a client that claims this version.
pub(crate) fn route_of(version: i32, topic: &str) -> Request {
    Request {
        version,
        ..route(topic)
    }
}

pub(crate) fn addr(n: usize) -> String {
    format!("10.0.{}.{}:10911", n / 250, n % 250)
}

/// 103 of a 5.x broker in cluster c1, address number `n`, DataVersion (0, 1, 1000).
pub(crate) fn register(name: &str, id: i64, n: usize, topics: &[&str]) -> Request {
    let mut request = broker(Request::new(103), name, id, n)
        .with("haServerAddr", &format!("10.0.0.{n}:10912"))
        .with("enableActingMaster", "false");
    request.body = Body::Register(RegisterSpec {
        form: RegisterForm::V5,
        topics: topics.iter().map(|name| topic(name)).collect(),
        data_version: Some(version(1)),
        mappings: Vec::new(),
        filters: FilterSpec::List(Vec::new()),
    });
    request
}

/// 104 of the same broker.
pub(crate) fn unregister(name: &str, id: i64, n: usize) -> Request {
    broker(Request::new(104), name, id, n)
}

/// 322 of the same broker.
pub(crate) fn query(name: &str, id: i64, n: usize, version: VersionSpec) -> Request {
    Request {
        body: Body::DataVersion(version),
        ..broker(Request::new(322), name, id, n)
    }
}

fn broker(request: Request, name: &str, id: i64, n: usize) -> Request {
    request
        .with("brokerName", name)
        .with("brokerId", &id.to_string())
        .with("brokerAddr", &addr(n))
        .with("clusterName", "c1")
}

/// The same request with another value in one field, or without the field.
pub(crate) fn set(mut request: Request, key: &str, value: Option<&str>) -> Request {
    request.ext.retain(|(k, _)| k != key);
    match value {
        Some(value) => request.with(key, value),
        None => request,
    }
}

/// The same registration with another part in its body.
pub(crate) fn change(mut request: Request, change: impl FnOnce(&mut RegisterSpec)) -> Request {
    if let Body::Register(spec) = &mut request.body {
        change(spec);
    }
    request
}

/// The same registration under another DataVersion.
pub(crate) fn versioned(request: Request, version: VersionSpec) -> Request {
    change(request, |spec| spec.data_version = Some(version))
}

pub(crate) fn topic(name: &str) -> TopicSpec {
    TopicSpec {
        key: name.to_owned(),
        name: name.to_owned(),
        read: 8,
        write: 8,
        perm: 6,
        sys_flag: 0,
    }
}

pub(crate) fn version(counter: i64) -> VersionSpec {
    VersionSpec {
        state: 0,
        counter,
        timestamp: Some(1000),
    }
}

/// 100
pub(crate) fn put(namespace: &str, key: &str, value: &str) -> Request {
    Request::new(100)
        .with("namespace", namespace)
        .with("key", key)
        .with("value", value)
}

/// 318
pub(crate) fn configure(text: &str) -> Request {
    Request {
        body: Body::Raw(text.as_bytes().to_vec()),
        ..Request::new(318)
    }
}

/// A connection for which nobody does anything by itself: what it wants can be held back.
pub(crate) struct Hand {
    pub(crate) session: Session,
    pub(crate) limits: Limits,
    keys: DigestKeys,
    pub(crate) out: Output,
}

impl Hand {
    pub(crate) fn new() -> Self {
        Self {
            session: Session::new(0, u64::MAX),
            limits: Limits::default(),
            keys: DigestKeys::new([8, 7, 6, 5, 4, 3, 2, 1]),
            out: Output::default(),
        }
    }

    pub(crate) fn feed(&mut self, snapshot: &Arc<Snapshot>, bytes: &[u8]) -> Fed {
        let env = env(snapshot, &self.limits, &self.keys);
        self.session.feed(bytes, &env, &mut self.out)
    }

    pub(crate) fn run(&mut self, snapshot: &Arc<Snapshot>, job: Job) -> Next {
        let pace = Pace::default();
        let done = run_to_end(job.run(&self.keys, &self.limits, 0, &pace));
        let env = env(snapshot, &self.limits, &self.keys);
        self.session.job_done(done, &env, &mut self.out)
    }

    /// The writer has no place for this request.
    pub(crate) fn overload(&mut self, snapshot: &Arc<Snapshot>, request: &Request) {
        let Next::Submit(envelope) = self.submission(snapshot, request) else {
            panic!("{request:?} does not go to the writer");
        };
        let env = env(snapshot, &self.limits, &self.keys);
        self.session
            .overloaded(envelope.origin, &env, &mut self.out);
    }

    /// What a request wants once its body has been read.
    pub(crate) fn submission(&mut self, snapshot: &Arc<Snapshot>, request: &Request) -> Next {
        let frame = request.json_frame();
        let fed = self.feed(snapshot, &frame);
        assert_eq!(fed.used, frame.len());
        match fed.next {
            Next::Run(job) => self.run(snapshot, job),
            next => next,
        }
    }

    /// What it would send now.
    pub(crate) fn sent(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for slice in self.out.io_slices(0) {
            bytes.extend_from_slice(&slice);
        }
        self.out.clear();
        bytes
    }
}

fn env<'a>(snapshot: &'a Arc<Snapshot>, limits: &'a Limits, keys: &'a DigestKeys) -> Env<'a> {
    Env {
        snapshot,
        limits,
        keys,
        now: Now::default(),
        leaving: false,
        cluster_test: false,
        unchanged_rule: true,
    }
}
