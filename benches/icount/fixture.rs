//! Tables and registrations of the sizes that the gates speak of.

use std::sync::Arc;

use namesrv::route::Now;
use namesrv::route::command::{
    Command, Effects, Envelope, Identity, Origin, Outcome, Registration,
};
use namesrv::route::snapshot::Snapshot;
use namesrv::route::table::Table;
use namesrv::session::Env;
use namesrv::session::jobs::DigestKeys;
use namesrv::settings::limits::Limits;
use namesrv::wire::model::{DataVersion, QueueShape};
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::register::{FilterServers, RegisterBody, TopicConfig};

/// Brokers that share their topics in [`clustered`]: each topic is on so many.
const BROKERS_PER_TOPIC: usize = 16;
/// Topics of a broker in [`clustered`].
pub(crate) const TOPICS_PER_BROKER: usize = 200;
/// Topics of the brokers that share those of the first.
pub(crate) const TOPICS_OF_FIRST: usize = 1000;

/// When brokers that will expire were last heard of, and when the others were.
pub(crate) const EARLY: Now = at(1000);
pub(crate) const LATE: Now = at(60_000);

/// A writer's table and the snapshot it has published.
pub(crate) struct Node {
    pub(crate) table: Table,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) limits: Limits,
    pub(crate) keys: DigestKeys,
    pub(crate) effects: Effects,
    pub(crate) pace: Pace,
}

impl Node {
    pub(crate) fn new() -> Self {
        let limits = Limits::default();
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let table = Table::new(hasher, Arc::default(), Arc::default(), &limits);
        Self {
            snapshot: Arc::new(table.snapshot()),
            table,
            limits,
            keys: DigestKeys::new([1, 2, 3, 4, 5, 6, 7, 8]),
            effects: Effects::default(),
            pace: Pace::default(),
        }
    }

    pub(crate) fn apply(&mut self, now: Now, envelope: Envelope) -> Outcome {
        let apply = self
            .table
            .apply(now, envelope, &mut self.effects, &self.pace);
        run_to_end(apply)
    }

    pub(crate) fn tick(&mut self, now: Now) {
        run_to_end(self.table.tick(now, 0, &mut self.effects, &self.pace));
    }

    /// Publishes, and frees what only the last snapshot held.
    pub(crate) fn publish(&mut self) {
        if let Some(snapshot) = self.table.publish() {
            self.snapshot = Arc::new(snapshot);
        }
    }

    pub(crate) fn env(&self) -> Env<'_> {
        Env {
            snapshot: &self.snapshot,
            limits: &self.limits,
            keys: &self.keys,
            now: LATE,
            unchanged_rule: true,
            leaving: false,
            cluster_test: false,
        }
    }
}

/// `brokers` masters with [`TOPICS_PER_BROKER`] topics each, every topic on 16 of them; the first
/// 16 have [`TOPICS_OF_FIRST`]. One broker in five was last heard of early.
pub(crate) fn clustered(brokers: usize) -> Node {
    let mut node = Node::new();
    for broker in 0..brokers {
        let now = if expires(broker) { EARLY } else { LATE };
        let r = registration(broker, 0, topics_of(broker), 1);
        node.apply(now, envelope(broker, r));
    }
    node.publish();
    node
}

/// Whether a broker of [`clustered`] was last heard of early.
pub(crate) fn expires(broker: usize) -> bool {
    broker.is_multiple_of(5)
}

/// A master and a slave for each of `brokers` names, and one topic on as many of the names as
/// each of `widths` says.
pub(crate) fn wide(brokers: usize, widths: &[usize]) -> Node {
    let mut node = Node::new();
    for broker in 0..brokers {
        let on_it = widths.iter().filter(|width| broker < **width);
        let mut topics: Vec<_> = on_it.map(|width| topic(wide_topic(*width))).collect();
        // A first registration with one topic is refused.
        topics.push(topic(format!("own-topic-of-{broker:05}")));
        for id in [0, 1] {
            let r = registration(broker, id, topics.clone(), 1);
            node.apply(LATE, envelope(broker + id * brokers, r));
        }
    }
    node.publish();
    node
}

/// The topic of [`wide`] that so many brokers have.
pub(crate) fn wide_topic(width: usize) -> String {
    format!("topic-on-{width:05}-brokers")
}

/// The topics of a broker of [`clustered`].
pub(crate) fn topics_of(broker: usize) -> Vec<TopicConfig> {
    let ring = broker / BROKERS_PER_TOPIC;
    let count = if ring == 0 {
        TOPICS_OF_FIRST
    } else {
        TOPICS_PER_BROKER
    };
    (0..count).map(|t| topic(topic_name(ring, t))).collect()
}

/// A name as long as real ones.
pub(crate) fn topic_name(ring: usize, topic: usize) -> String {
    format!("pay-{ring:04}-{topic:04}")
}

fn topic(name: String) -> TopicConfig {
    TopicConfig {
        key: None,
        name,
        shape: shape(8),
    }
}

/// Queues as most topics have them.
pub(crate) fn shape(queues: i32) -> QueueShape {
    QueueShape {
        read_queues: queues,
        write_queues: queues,
        perm: 6,
        topic_sys_flag: 0,
    }
}

/// A registration as a 5.x broker's; `counter` is its version.
pub(crate) fn registration(
    broker: usize,
    id: usize,
    topics: Vec<TopicConfig>,
    counter: i64,
) -> Registration {
    Registration {
        identity: Identity {
            cluster: "DefaultCluster".to_owned(),
            broker_name: broker_name(broker),
            broker_addr: broker_addr(broker, id),
            broker_id: id as i64,
        },
        ha_server_addr: Some(format!("{}9", broker_addr(broker, id))),
        zone_name: None,
        enable_acting_master: Some(false),
        heartbeat_timeout_ms: None,
        body: RegisterBody {
            topics,
            data_version: Some(version(counter)),
            version_defaulted: false,
            mappings: Vec::new(),
            filter_servers: FilterServers::List(Vec::new()),
        },
        proof: None,
    }
}

pub(crate) fn version(counter: i64) -> DataVersion {
    DataVersion {
        state_version: 0,
        timestamp: 1_700_000_000_000,
        counter,
    }
}

pub(crate) fn broker_name(broker: usize) -> String {
    format!("broker-{broker:05}")
}

pub(crate) fn broker_addr(broker: usize, id: usize) -> String {
    format!("10.{}.{}.{}:10911", broker / 250, broker % 250, id + 1)
}

/// A command of the connection of `broker`.
pub(crate) fn envelope(broker: usize, registration: Registration) -> Envelope {
    Envelope {
        origin: Origin {
            core: 0,
            conn: broker as u64 + 1,
            opaque: 1,
            oneway: false,
        },
        command: Command::Register(Box::new(registration)),
    }
}

const fn at(mono_ms: u64) -> Now {
    Now {
        mono_ms,
        wall_ms: 1_700_000_000_000 + mono_ms as i64,
    }
}
