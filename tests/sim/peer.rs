//! What the peers of the simulation say: a few kinds of requests, as values that the auditor
//! understands and as the frames of a Java peer.

use crate::support::request::{
    Body, FilterSpec, QueueSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// Namespace of all key-value pairs of the simulation.
pub(crate) const NAMESPACE: &str = "N";

/// Who a broker says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) id: i64,
    pub(crate) addr: String,
}

/// The queues of a topic at one broker name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) read: i32,
    pub(crate) write: i32,
    pub(crate) perm: i32,
}

/// A 103.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) who: Identity,
    /// State version and counter of the DataVersion.
    pub(crate) version: (i64, i64),
    pub(crate) topics: Vec<(String, Queue)>,
    /// `enableActingMaster`: absent or false.
    pub(crate) acting: Option<bool>,
    pub(crate) timeout_ms: Option<i64>,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Register(Register),
    /// 103s that are refused: without a cluster, with a wrong checksum.
    Nameless(Register),
    Corrupt(Register),
    Unregister(Identity),
    Heartbeat(Identity),
    Version(Identity, (i64, i64)),
    Route {
        topic: String,
        legacy: bool,
    },
    Members(String),
    ClusterInfo,
    Value(String),
    Put(String, String),
    Wipe(String),
    Add(String),
    DeleteTopic {
        topic: String,
        cluster: Option<String>,
    },
    RegisterTopic {
        topic: String,
        name: String,
        queue: Queue,
    },
}

impl Ask {
    /// Whether the writer has to hear of it.
    pub(crate) fn is_command(&self) -> bool {
        matches!(
            self,
            Self::Register(_)
                | Self::Unregister(_)
                | Self::Put(..)
                | Self::Wipe(_)
                | Self::Add(_)
                | Self::DeleteTopic { .. }
                | Self::RegisterTopic { .. }
        )
    }

    /// The frame.
    pub(crate) fn frame(&self, opaque: i32, oneway: bool) -> Vec<u8> {
        let mut request = self.request();
        (request.opaque, request.oneway) = (opaque, oneway);
        // One of the two headers, which mean the same.
        if opaque % 5 == 0 {
            request.binary_frame()
        } else {
            request.json_frame()
        }
    }

    fn request(&self) -> Request {
        match self {
            Self::Register(r) => r.request(),
            Self::Nameless(r) => {
                let mut request = r.request();
                request.ext.retain(|(key, _)| key != "clusterName");
                request
            }
            Self::Corrupt(r) => r.request().with("bodyCrc32", "1"),
            Self::Unregister(who) => who.request(104),
            Self::Heartbeat(who) => who.request(904),
            Self::Version(who, version) => {
                let body = Body::DataVersion(spec(*version));
                Request {
                    body,
                    ..who.request(322)
                }
            }
            Self::Route { topic, legacy } => {
                let version = if *legacy { 317 } else { 479 };
                Request {
                    version,
                    ..Request::new(105).with("topic", topic)
                }
            }
            Self::Members(name) => {
                let request = Request::new(901).with("brokerName", name);
                request.with("clusterName", "C")
            }
            Self::ClusterInfo => Request::new(106),
            Self::Value(key) => Request::new(101)
                .with("namespace", NAMESPACE)
                .with("key", key),
            Self::Put(key, value) => {
                let request = Request::new(100)
                    .with("namespace", NAMESPACE)
                    .with("key", key);
                request.with("value", value)
            }
            Self::Wipe(name) => Request::new(205).with("brokerName", name),
            Self::Add(name) => Request::new(327).with("brokerName", name),
            Self::DeleteTopic { topic, cluster } => {
                let request = Request::new(216).with("topic", topic);
                match cluster {
                    Some(cluster) => request.with("clusterName", cluster),
                    None => request,
                }
            }
            Self::RegisterTopic { topic, name, queue } => {
                let queue = QueueSpec {
                    broker: name.clone(),
                    read: queue.read,
                    write: queue.write,
                    perm: queue.perm,
                    sys_flag: 0,
                };
                let body = Body::Route(vec![queue]);
                Request {
                    body,
                    ..Request::new(217).with("topic", topic)
                }
            }
        }
    }
}

impl Identity {
    /// Cluster and address: what a live broker is known by.
    pub(crate) fn place(&self) -> (String, String) {
        (self.cluster.clone(), self.addr.clone())
    }

    /// `haServerAddr` of this broker.
    pub(crate) fn ha_server_addr(&self) -> String {
        format!("{}:ha", self.addr)
    }

    fn request(&self, code: i32) -> Request {
        Request::new(code)
            .with("brokerName", &self.name)
            .with("brokerAddr", &self.addr)
            .with("clusterName", &self.cluster)
            .with("brokerId", &self.id.to_string())
    }
}

impl Register {
    fn request(&self) -> Request {
        let mut request = self
            .who
            .request(103)
            .with("haServerAddr", &self.who.ha_server_addr());
        if let Some(acting) = self.acting {
            request = request.with("enableActingMaster", &acting.to_string());
        }
        if let Some(timeout) = self.timeout_ms {
            request = request.with("heartbeatTimeoutMillis", &timeout.to_string());
        }
        let topics = self.topics.iter().map(|(name, queue)| TopicSpec {
            key: name.clone(),
            name: name.clone(),
            read: queue.read,
            write: queue.write,
            perm: queue.perm,
            sys_flag: 0,
        });
        request.body = Body::Register(RegisterSpec {
            form: RegisterForm::V5,
            topics: topics.collect(),
            data_version: Some(spec(self.version)),
            mappings: Vec::new(),
            filters: FilterSpec::List(Vec::new()),
        });
        request
    }
}

/// The time stamp follows the counter, as in a broker.
pub(crate) fn spec((state, counter): (i64, i64)) -> VersionSpec {
    VersionSpec {
        state,
        counter,
        timestamp: Some(1000 + counter),
    }
}
