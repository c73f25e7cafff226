//! Random commands from small pools of names, as plain numbers that shrink and print well.
//!
//! A broker mostly keeps to its home (address, cluster, connection); the rest of the time it
//! does what moved, renamed, cloned and broken brokers do.

use proptest::prelude::*;

use super::request::{
    Body, FilterSpec, MappingSpec, NOTHING, QueueSpec, RegisterForm, RegisterSpec, Request,
    TopicSpec, VersionSpec,
};

/// Two contain what the two forms of JSON write differently.
pub(crate) const NAMES: [&str; 4] = ["b0", "b1", "b2/é", "b3"];
pub(crate) const ADDRS: [&str; 5] = [
    "10.0.0.1:10911",
    "10.0.0.2:10911",
    "10.0.0.3:10911",
    "10.0.0.4:10911",
    "host/é:1",
];
pub(crate) const CLUSTERS: [&str; 2] = ["C0", "C1/é"];
pub(crate) const TOPICS: [&str; 8] = [
    "T0",
    "T1",
    "T2",
    "T3/é\u{85}\u{1F600}",
    "b0",
    "C0",
    "rmq_sys_SYNC_BROKER_MEMBER_b0",
    "%RETRY%\"g\\",
];
pub(crate) const NAMESPACES: [&str; 2] = ["ORDER_TOPIC_CONFIG", "N"];
/// Connections that commands come over; each may be closed and opened again.
pub(crate) const CONNS: u8 = 6;

const SWITCHES: [&str; 8] = [
    "supportActingMaster",
    "orderMessageEnable",
    "notifyMinBrokerIdChanged",
    "deleteTopicWithBrokerRegistration",
    "returnOrderTopicConfigToBroker",
    "enableAllTopicList",
    "enableTopicList",
    "needWaitForService",
];

/// One step of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// One request.
    Send(Send),
    /// Three requests of one connection at once, the bytes cut in two at this 256th.
    Burst([Send; 3], u8),
    /// The last 103 of this name and id again, byte for byte but for the opaque.
    Again { name: u8, id: i8 },
    /// The connection ends, and another one takes its place.
    Close(u8),
    /// The clock moves on by so many milliseconds.
    Wait(u32),
    /// The expiry scan.
    Tick,
    /// Every query there is.
    AskAll,
}

/// A request and how it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(crate) conn: u8,
    pub(crate) oneway: bool,
    /// With the binary header.
    pub(crate) binary: bool,
    pub(crate) ask: Ask,
}

/// What is asked; numbers are places in the pools above, one past the end is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Register(Register),
    /// 104, without the fields whose bits are set in `missing`.
    Unregister {
        name: u8,
        id: i8,
        at: Place,
        missing: u8,
    },
    /// 904
    Heartbeat {
        at: Place,
        missing: u8,
    },
    /// 322; `body` 0 a version, 1 none, 2 `{}`, 3 garbage, from 4 on one of [`NOTHING`].
    Version {
        at: Place,
        counter: u8,
        state: u8,
        body: u8,
        missing: u8,
    },
    /// 216; cluster 0 is none.
    DeleteTopic {
        topic: u8,
        cluster: u8,
    },
    /// 217 at these brokers.
    RegisterTopic {
        topic: u8,
        brokers: [u8; 2],
        shape: u8,
        body: u8,
    },
    /// 205
    Wipe(u8),
    /// 327
    Add(u8),
    /// 100; value 0 is none, 1 is empty.
    Put {
        namespace: u8,
        key: u8,
        value: u8,
    },
    /// 102
    Delete {
        namespace: u8,
        key: u8,
    },
    /// 318 with one of the switches.
    Switch {
        switch: u8,
        on: bool,
    },
    /// 318 of waitSecondsForService.
    WaitSeconds(u16),
    /// A code that no NameServer knows.
    Unknown(i16),
}

/// An address in a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) addr: u8,
    pub(crate) cluster: u8,
}

/// A 103.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) name: u8,
    pub(crate) id: i8,
    pub(crate) at: Place,
    /// 0 absent, 1 false, 2 true, 3 junk, which reads as false
    pub(crate) acting: u8,
    /// 0 none
    pub(crate) zone: u8,
    pub(crate) timeout: u8,
    pub(crate) version: u8,
    pub(crate) form: u8,
    /// Bits of `TOPICS`.
    pub(crate) topics: u8,
    pub(crate) shapes: u8,
    /// Map keys that are not the names of their topics.
    pub(crate) odd_keys: bool,
    pub(crate) counter: u8,
    pub(crate) state: u8,
    /// 0 and 1 fixed, 2 missing, 3 the whole DataVersion is null
    pub(crate) stamp: u8,
    pub(crate) mappings: u8,
    pub(crate) filters: u8,
    /// 0 none
    pub(crate) fault: u8,
}

/// Sequences of up to `len` steps.
pub(crate) fn sequences(len: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..=len)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => send().prop_map(Op::Send),
        2 => (prop::array::uniform3(send()), any::<u8>()).prop_map(|(mut sends, cut)| {
            let conn = sends[0].conn;
            sends.iter_mut().for_each(|send| send.conn = conn);
            Op::Burst(sends, cut)
        }),
        4 => (0..4_u8, 0..3_i8).prop_map(|(name, id)| Op::Again { name, id }),
        1 => (0..CONNS).prop_map(Op::Close),
        2 => prop_oneof![0..3_u32, 900..1100_u32, Just(119_000_u32)].prop_map(Op::Wait),
        2 => Just(Op::Tick),
        1 => prop::bool::weighted(0.25).prop_map(|all| if all { Op::AskAll } else { Op::Tick }),
    ]
}

fn send() -> impl Strategy<Value = Send> {
    let odd = (prop::bool::weighted(0.15), prop::bool::weighted(0.15));
    (ask(), 0..CONNS, prop::bool::weighted(0.2), odd).prop_map(|(ask, any, stray, odd)| {
        let home = match ask {
            Ask::Register(r) => r.at.addr,
            _ => any,
        };
        Send {
            conn: if stray { any } else { home },
            oneway: odd.0,
            binary: odd.1,
            ask,
        }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let rare = || prop_oneof![9 => Just(0_u8), 1 => 0..8_u8];
    let topic = || 0..8_u8;
    let name = || 0..5_u8;
    prop_oneof![
        30 => register().prop_map(Ask::Register),
        5 => (who(), rare())
            .prop_map(|((name, id, at), missing)| Ask::Unregister { name, id, at, missing }),
        2 => (place(), rare()).prop_map(|(at, missing)| Ask::Heartbeat { at, missing }),
        3 => (place(), 0..3_u8, 0..3_u8, prop_oneof![4 => Just(0_u8), 1 => 1..9_u8], rare())
            .prop_map(|(at, counter, state, body, missing)| {
                Ask::Version { at, counter, state, body, missing }
            }),
        3 => (topic(), 0..4_u8).prop_map(|(topic, cluster)| Ask::DeleteTopic { topic, cluster }),
        3 => (topic(), [name(), name()], any::<u8>(), prop_oneof![8 => Just(0_u8), 1 => 1..10_u8])
            .prop_map(|(topic, brokers, shape, body)| {
                Ask::RegisterTopic { topic, brokers, shape, body }
            }),
        2 => name().prop_map(Ask::Wipe),
        2 => name().prop_map(Ask::Add),
        2 => (0..2_u8, topic(), 0..4_u8)
            .prop_map(|(namespace, key, value)| Ask::Put { namespace, key, value }),
        1 => (0..2_u8, topic()).prop_map(|(namespace, key)| Ask::Delete { namespace, key }),
        2 => (0..7_u8, any::<bool>()).prop_map(|(switch, on)| Ask::Switch { switch, on }),
        1 => prop::bool::weighted(0.3).prop_map(|on| Ask::Switch { switch: 7, on }),
        1 => (prop_oneof![Just(0_u16), Just(45), Just(2000)]).prop_map(Ask::WaitSeconds),
        1 => (prop_oneof![Just(0_i16), Just(905), Just(9999), Just(-7)]).prop_map(Ask::Unknown),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    (0..5_u8, 0..2_u8).prop_map(|(addr, cluster)| Place { addr, cluster })
}

/// A broker at home three times out of four.
fn who() -> impl Strategy<Value = (u8, i8, Place)> {
    let id = prop_oneof![12 => 0..3_i8, 1 => Just(-1_i8)];
    (0..4_u8, id, place(), prop::bool::weighted(0.25)).prop_map(|(name, id, at, astray)| {
        let addr = (name / 2 * 3 + id.max(0) as u8) % 5;
        let home = Place {
            addr,
            cluster: name % 2,
        };
        (name, id, if astray { at } else { home })
    })
}

fn register() -> impl Strategy<Value = Register> {
    let seldom = |n: u8| prop_oneof![5 => Just(0_u8), 2 => 0..n];
    let topics = prop_oneof![
        6 => any::<u8>(),
        2 => (0..8_u8).prop_map(|bit| 1 << bit),
        1 => Just(0_u8),
        3 => Just(3_u8),
    ];
    let what = (
        (
            prop_oneof![3 => 0..4_u8, 2 => Just(2_u8)],
            seldom(4),
            seldom(6),
            seldom(8),
            0..4_u8,
        ),
        (topics, 0..4_u8, prop::bool::weighted(0.1)),
        (0..3_u8, seldom(3), seldom(4), seldom(5), seldom(5)),
        prop_oneof![12 => Just(0_u8), 1 => 0..12_u8],
    );
    (who(), what).prop_map(|((name, id, at), (head, body, state, fault))| {
        let (acting, zone, timeout, version, form) = head;
        let (topics, shapes, odd_keys) = body;
        let (counter, state, stamp, mappings, filters) = state;
        Register {
            name,
            id,
            at,
            acting,
            zone,
            timeout,
            version,
            form,
            topics,
            shapes,
            odd_keys,
            counter,
            state,
            stamp,
            mappings,
            filters,
            fault,
        }
    })
}

impl Send {
    /// The request as a value; the binary header cannot carry empty values.
    pub(crate) fn request(&self, opaque: i32) -> Request {
        let mut req = self.ask.request();
        (req.oneway, req.opaque) = (self.oneway, opaque);
        if self.binary {
            req.ext.retain(|(_, value)| !value.is_empty());
        }
        req
    }
}

impl Ask {
    fn request(&self) -> Request {
        match *self {
            Self::Register(r) => r.request(),
            Self::Unregister {
                name,
                id,
                at,
                missing,
            } => {
                let id = id.to_string();
                let [addr, cluster] = at.fields();
                let name = ("brokerName", NAMES[usize::from(name)]);
                fields(104, &[name, ("brokerId", &id), addr, cluster], missing)
            }
            Self::Heartbeat { at, missing } => fields(904, &at.fields(), missing),
            Self::Version {
                at,
                counter,
                state,
                body,
                missing,
            } => {
                let mut req = fields(322, &at.fields(), missing);
                req.body = version_body(counter, state, body);
                req
            }
            Self::DeleteTopic { topic, cluster } => {
                let req = Request::new(216).with("topic", TOPICS[usize::from(topic)]);
                match cluster {
                    0 => req,
                    n => req.with(
                        "clusterName",
                        CLUSTERS.get(usize::from(n) - 1).unwrap_or(&"C9"),
                    ),
                }
            }
            Self::RegisterTopic {
                topic,
                brokers,
                shape,
                body,
            } => {
                let mut req = Request::new(217).with("topic", TOPICS[usize::from(topic)]);
                req.body = route_body(brokers, shape, body);
                req
            }
            Self::Wipe(name) => Request::new(205).with("brokerName", name_or_unknown(name)),
            Self::Add(name) => Request::new(327).with("brokerName", name_or_unknown(name)),
            Self::Put {
                namespace,
                key,
                value,
            } => {
                let req = kv(100, namespace, key);
                match value {
                    0 => req,
                    1 => req.with("value", ""),
                    n => req.with("value", &format!("b0:{n};b2/é:\"1\"")),
                }
            }
            Self::Delete { namespace, key } => kv(102, namespace, key),
            Self::Switch { switch, on } => config(SWITCHES[usize::from(switch)], &on.to_string()),
            Self::WaitSeconds(seconds) => config("waitSecondsForService", &seconds.to_string()),
            Self::Unknown(code) => Request::new(i32::from(code)),
        }
    }
}

impl Place {
    fn fields(self) -> [(&'static str, &'static str); 2] {
        let (addr, cluster) = (usize::from(self.addr), usize::from(self.cluster));
        [
            ("brokerAddr", ADDRS[addr]),
            ("clusterName", CLUSTERS[cluster]),
        ]
    }
}

impl Register {
    fn request(&self) -> Request {
        let id = self.id.to_string();
        let [addr, cluster] = self.at.fields();
        let name = ("brokerName", NAMES[usize::from(self.name)]);
        let missing = match self.fault {
            1..=4 => 1 << (self.fault - 1),
            _ => 0,
        };
        let mut req = fields(103, &[name, ("brokerId", &id), addr, cluster], missing);
        let mut add = |key: &str, value: Option<&str>| {
            req.ext
                .extend(value.map(|value| (key.to_owned(), value.to_owned())));
        };
        let ha = format!("{}:ha", addr.1);
        add("haServerAddr", (self.fault != 5).then_some(&ha));
        add(
            "enableActingMaster",
            pick(&["false", "True", "1"], self.acting),
        );
        add("__ZONE_NAME", pick(&["east", "EAST", "west"], self.zone));
        let timeouts = ["1000", "5000", "-5", "9223372036854775807", "junk"];
        add("heartbeatTimeoutMillis", pick(&timeouts, self.timeout));
        if self.form == 2 {
            add("compressed", Some("true"));
        }
        let versions = [413, 412, 409, 317, 36, 612, -1];
        req.version = self
            .version
            .checked_sub(1)
            .map_or(479, |n| versions[usize::from(n)]);
        req.body = self.body();
        match self.fault {
            6 => req = req.with("bodyCrc32", "12345"),
            7 => {
                let crc = masked_crc(&req.body_bytes());
                req = req.with("bodyCrc32", &crc);
            }
            8 => req = req.with("bodyCrc32", "junk"),
            _ => {}
        }
        req
    }

    fn body(&self) -> Body {
        match self.fault {
            9 => return Body::None,
            10 => return Body::Raw(b"{\"topicConfigSerializeWrapper\":null}".to_vec()),
            11 => return Body::Raw(b"{\"topicConfigSerializeWrapper\":{\"x\"".to_vec()),
            _ => {}
        }
        let form = match self.form {
            1 => RegisterForm::V4,
            2 => RegisterForm::Zlib,
            _ => RegisterForm::V5,
        };
        let chosen = (0..8).filter(|bit| self.topics >> bit & 1 == 1);
        let topics = chosen.map(|topic| self.topic(topic)).collect();
        let timestamp = [Some(1000), Some(2000), None][usize::from(self.stamp % 3)];
        let version = VersionSpec {
            state: i64::from(self.state),
            counter: i64::from(self.counter),
            timestamp,
        };
        let null = self.stamp == 3 && form != RegisterForm::Zlib;
        let mapping = |topic: usize, bname: usize| MappingSpec {
            topic: TOPICS[topic].to_owned(),
            bname: NAMES[bname].to_owned(),
            total_queues: 8,
            epoch: match self.mappings {
                3 => (1 << 53) - 1,
                4 => 1 << 53,
                n => i64::from(n),
            },
            ids: vec![(0, 0), (2, 1), (10, 3)],
        };
        let own = usize::from(self.name);
        let mappings = match self.mappings {
            0 => Vec::new(),
            1 => vec![mapping(0, own)],
            2 => vec![mapping(0, 1), mapping(3, own)],
            n => vec![mapping(usize::from(n), 0)],
        };
        Body::Register(RegisterSpec {
            form,
            topics,
            data_version: (!null).then_some(version),
            mappings: mappings.into_iter().map(|m| (m.topic.clone(), m)).collect(),
            filters: match self.filters {
                0 => FilterSpec::List(Vec::new()),
                1 => FilterSpec::Absent,
                2 => FilterSpec::Null,
                n => FilterSpec::List(vec!["f/é:1".to_owned(); usize::from(n) - 2]),
            },
        })
    }

    fn topic(&self, topic: u8) -> TopicSpec {
        let name = TOPICS[usize::from(topic)].to_owned();
        let [read, write, perm, sys_flag] = shape(self.shapes + topic);
        let key = if self.odd_keys {
            format!("k{name}")
        } else {
            name.clone()
        };
        TopicSpec {
            key,
            name,
            read,
            write,
            perm,
            sys_flag,
        }
    }
}

fn version_body(counter: u8, state: u8, body: u8) -> Body {
    let (state, counter) = (i64::from(state), i64::from(counter));
    match body {
        0 => Body::DataVersion(VersionSpec {
            state,
            counter,
            timestamp: Some(1000),
        }),
        1 => Body::None,
        2 => Body::Raw(b"{}".to_vec()),
        3 => Body::Raw(b"{\"counter\":x}".to_vec()),
        nothing => Body::Raw(NOTHING[usize::from(nothing - 4)].to_vec()),
    }
}

fn route_body(brokers: [u8; 2], number: u8, body: u8) -> Body {
    let queue = |broker: u8| {
        let [read, write, perm, sys_flag] = shape(number);
        QueueSpec {
            broker: name_or_unknown(broker).to_owned(),
            read,
            write,
            perm,
            sys_flag,
        }
    };
    match body {
        0 => Body::Route(brokers.map(queue).to_vec()),
        1 => Body::None,
        2 => Body::Raw(b"{}".to_vec()),
        3 => Body::Raw(b"[".to_vec()),
        4 => Body::Route(vec![queue(brokers[0])]),
        nothing => Body::Raw(NOTHING[usize::from(nothing - 5)].to_vec()),
    }
}

/// Read and write queues, perm, topicSysFlag.
fn shape(number: u8) -> [i32; 4] {
    let shapes = [
        [8, 8, 6, 0],
        [4, 4, 6, 1],
        [8, 4, 4, 2],
        [16, 16, 6, 3],
        [1, 1, 7, 0],
        [8, 8, 2, 0],
        [0, 0, 0, 1],
        [8, 8, 14, 2],
    ];
    shapes[usize::from(number % 8)]
}

fn fields(code: i32, fields: &[(&str, &str)], missing: u8) -> Request {
    let sent = fields
        .iter()
        .enumerate()
        .filter(|(i, _)| missing >> i & 1 == 0);
    sent.fold(Request::new(code), |req, (_, (key, value))| {
        req.with(key, value)
    })
}

fn kv(code: i32, namespace: u8, key: u8) -> Request {
    let namespace = NAMESPACES[usize::from(namespace)];
    Request::new(code)
        .with("namespace", namespace)
        .with("key", TOPICS[usize::from(key)])
}

fn config(key: &str, value: &str) -> Request {
    let body = Body::Raw(format!("{key}={value}\n").into_bytes());
    Request {
        body,
        ..Request::new(318)
    }
}

/// The `bodyCrc32` that belongs to a body.
pub(crate) fn masked_crc(body: &[u8]) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(body);
    (crc.sum() & 0x7fff_ffff).to_string()
}

fn name_or_unknown(name: u8) -> &'static str {
    NAMES.get(usize::from(name)).unwrap_or(&"b9")
}

fn pick<'a>(values: &[&'a str], number: u8) -> Option<&'a str> {
    values.get(usize::from(number.checked_sub(1)?)).copied()
}
