//! Everything that can change the tables, and what came of it.
//!
//! Commands carry values, never bytes of the wire; outcomes carry facts, never answers. A command
//! comes from a connection on a core and its outcome goes back there, where the session turns it
//! into an answer, or drops it when the connection is gone.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::Name;
use super::liveness::Live;
use crate::wire::model::QueueShape;
use crate::wire::register::RegisterBody;

/// Where a command came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The serving core.
    pub core: usize,
    /// The connection; numbers are never reused.
    pub conn: u64,
    /// The request's number, for the answer.
    pub opaque: i32,
    /// Nobody waits for an answer.
    pub oneway: bool,
}

/// A command on its way to the writer.
#[derive(Debug)]
pub struct Envelope {
    /// Where the outcome goes.
    pub origin: Origin,
    /// What to do.
    pub command: Command,
}

/// A change of the tables.
#[derive(Debug)]
pub enum Command {
    /// 103
    Register(Box<Registration>),
    /// 104
    Unregister(Unregistration),
    /// The connection has ended, after all its earlier commands.
    Gone,
    /// 216; without a cluster the whole topic
    DeleteTopic {
        /// `topic`
        topic: String,
        /// `clusterName`, when not empty
        cluster: Option<String>,
    },
    /// 217
    RegisterTopic {
        /// `topic`
        topic: String,
        /// `queueDatas` of the body: broker name and queues
        queues: Vec<(String, QueueShape)>,
    },
    /// 205 and 327
    SetWritePerm {
        /// `brokerName`
        broker_name: String,
        /// 327 sets permission 6, 205 takes the write bit away.
        add: bool,
    },
    /// 100, 102, 318: counts only once a file has been written.
    Persist(Change),
}

/// A change that must survive the process.
#[derive(Clone, Debug)]
pub enum Change {
    /// 100, 102
    Kv(KvChange),
    /// 318: the body, judged against the settings of its turn.
    Settings(Bytes),
}

/// A change of the key-value tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvChange {
    /// `namespace`
    pub namespace: String,
    /// `key`
    pub key: String,
    /// `Some` puts; a put without a value stores a null, which reads as no value.
    pub put: Option<Option<String>>,
}

impl Change {
    /// Memory that it holds while it waits.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Settings(body) => body.len(),
            Self::Kv(kv) => {
                let value = kv.put.as_ref().and_then(|put| put.as_ref());
                kv.namespace.len() + kv.key.len() + value.map_or(0, String::len)
            }
        }
    }
}

/// Who a broker says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `clusterName`
    pub cluster: String,
    /// `brokerName`
    pub broker_name: String,
    /// `brokerAddr`, never parsed
    pub broker_addr: String,
    /// `brokerId`; 0 is the master, negative ids are legal.
    pub broker_id: i64,
}

/// A parsed 103.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Who registers.
    pub identity: Identity,
    /// `haServerAddr`
    pub ha_server_addr: Option<String>,
    /// ext `__ZONE_NAME`
    pub zone_name: Option<String>,
    /// `enableActingMaster`; absent (brokers before 5.0) differs from false.
    pub enable_acting_master: Option<bool>,
    /// `heartbeatTimeoutMillis`; absent means 120,000.
    pub heartbeat_timeout_ms: Option<i64>,
    /// Topics, version, mappings and filter servers.
    pub body: RegisterBody,
    /// What an identical repetition will look like; `None` when it must not be recognised.
    pub proof: Option<Proof>,
}

/// What makes a later 103 of the same connection equal to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Keyed digest over the raw ext fields and the body.
    pub digest: u128,
    /// The body is read differently below 3.0.11 and from 5.0.0 on.
    pub class: VersionClass,
}

/// The versions between which the body of a 103 means the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionClass {
    /// Below 37: the body is a bare `TopicConfigSerializeWrapper`.
    Bare,
    /// 37 to 412.
    V4,
    /// From 413 on: a compressed body has mappings.
    V5,
}

/// A 104: each part that is missing matches nothing, a missing id is of no account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unregistration {
    /// `clusterName`
    pub cluster: Option<String>,
    /// `brokerName`
    pub broker_name: Option<String>,
    /// `brokerAddr`
    pub broker_addr: Option<String>,
}

/// What came of a command.
#[derive(Debug)]
pub enum Outcome {
    /// Applied, and nothing to report.
    Done,
    /// 103 accepted.
    Registered(Registered),
    /// 103 lost against a holder of the id with a higher state version: code 0, nothing in it.
    Conflict(Identity),
    /// 103 refused; nothing changed.
    Refused(Identity, Refusal),
    /// Topics that 205 or 327 touched, under the name that the answer has for them.
    Count(&'static str, usize),
    /// Nothing changed; the text says why.
    Failed(i32, Cow<'static, str>),
}

/// Why a 103 changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The first registration of a broker carried exactly one topic.
    SingleTopic,
    /// A limit of the tables; the text says which.
    Limit(&'static str),
}

/// An accepted 103.
#[derive(Debug)]
pub struct Registered {
    /// `masterAddr` and `haServerAddr` of the answer, for a slave whose master is alive.
    pub master: Option<Master>,
    /// What the session keeps to recognise a repetition.
    pub accepted: Accepted,
}

/// The master that a slave is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// `masterAddr`
    pub addr: Name,
    /// `haServerAddr`
    pub ha_server_addr: Option<Name>,
}

/// An accepted registration as its connection remembers it.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// `None`: a repetition must take the full path.
    pub proof: Option<Proof>,
    /// The broker's clock.
    pub live: Arc<Live>,
    /// The group's place in the snapshot; only meaningful while its epoch is `group_epoch`.
    pub group: u32,
    /// The group's epoch right after this command.
    pub group_epoch: u64,
    /// The settings' epoch right after this command.
    pub settings_epoch: u64,
    /// `clusterName`
    pub cluster: Name,
    /// `brokerAddr`
    pub addr: Name,
    /// `brokerId`
    pub broker_id: i64,
}

/// What has to happen outside after a publish.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the log and the counters, in order.
    pub events: Vec<Event>,
    /// Connections to close: their last broker has expired.
    pub close: Vec<u64>,
    /// 905s to send.
    pub notices: Vec<MinBrokerIdNotice>,
}

/// NOTIFY_MIN_BROKER_ID_CHANGE, to each of `targets` (`RouteInfoManager.notifyMinBrokerIdChanged`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinBrokerIdNotice {
    /// Addresses of brokers.
    pub targets: Vec<Name>,
    /// `minBrokerId`
    pub min_broker_id: i64,
    /// `minBrokerAddr`
    pub min_broker_addr: Name,
    /// `offlineBrokerAddr`, when a broker went
    pub offline_broker_addr: Option<Name>,
    /// `haBrokerAddr`, when a broker came
    pub ha_broker_addr: Option<Name>,
}

/// A change of state that an operator wants to read about: who, what, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member that was not there before.
    BrokerJoined(BrokerRef),
    /// A member is gone.
    BrokerLeft(BrokerRef, Leave),
    /// A registration was answered with success but lost (S6).
    StateVersionConflict {
        /// The loser.
        broker: BrokerRef,
        /// The address that keeps the id.
        holder: Name,
        /// Its state version, and the loser's.
        state_versions: (i64, i64),
    },
    /// One broker name is used in two clusters.
    NameInTwoClusters {
        /// The registrant.
        broker: BrokerRef,
        /// The cluster that the group belongs to.
        group_cluster: Name,
    },
    /// The machine stood still; deadlines were postponed.
    Stalled {
        /// By how much the tick came late.
        late_ms: u64,
    },
}

/// A broker in a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRef {
    /// `clusterName`
    pub cluster: Name,
    /// `brokerName`
    pub broker_name: Name,
    /// `brokerId`
    pub broker_id: i64,
    /// `brokerAddr`
    pub addr: Name,
}

/// Why a member is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// 104
    Unregistered,
    /// Its connection closed.
    ConnectionClosed,
    /// Not heard of for longer than its time-out.
    Expired {
        /// Milliseconds of silence.
        silent_ms: u64,
    },
    /// Another address took its id, or it took another id or name.
    Replaced,
    /// It lost a conflict of state versions.
    Conflict,
}
