//! The immutable view of the tables that every core reads.

use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use bytes::Bytes;

use super::command::Master;
use super::group::Group;
use super::index::{Index, Slots};
use super::kv::Kv;
use super::liveness::Live;
use super::topic::{Mappings, Shape, Topic};
use super::{Name, PerForm, sorted};
use crate::settings::Settings;
use crate::wire::model::{DataVersion, MASTER_ID};
use crate::wire::pace::Pace;

/// Units of a [`Pace`] for one look at an item of a table.
pub(super) const WALK_UNITS: usize = 32;

/// One state of the tables, complete and unchanging.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The settings in force.
    pub settings: Arc<Settings>,
    /// Moves with the settings; never reused.
    pub settings_epoch: u64,
    /// Namespaced configuration.
    pub kv: Arc<Kv>,
    /// Answer of 106, moved by members, cluster sets, acting flags and zones.
    pub cluster_info: PerForm<Arc<SharedBody>>,
    /// Answer of 206, moved by topics that appear or disappear.
    pub topic_list: Arc<SharedBody>,
    /// Answer of 304, moved like that of 106.
    pub system_topic_list: Arc<SharedBody>,
    /// Groups with filter servers; nearly always none.
    pub(super) filter_groups: usize,
    pub(super) hasher: RandomState,
    pub(super) topics: Index<Arc<Topic>>,
    pub(super) groups: Slots<Group>,
    pub(super) group_names: Index<GroupName>,
    pub(super) clusters: Index<Arc<Cluster>>,
    pub(super) live: Index<Arc<LiveEntry>>,
    pub(super) shapes: Slots<Shape>,
    pub(super) mappings: Index<Arc<Mappings>>,
}

/// A body that many ask for: made at the first read and then shared. Its identity is its key:
/// the writer puts an empty one in its place when what it says changes.
#[derive(Debug, Default)]
pub struct SharedBody(OnceLock<Bytes>);

impl SharedBody {
    /// The body, if somebody has made it.
    pub fn get(&self) -> Option<&Bytes> {
        self.0.get()
    }

    /// Keeps a body; when two have made it at once the first stays.
    pub fn set(&self, body: Bytes) {
        let _ = self.0.set(body);
    }
}

/// Where a broker name's group stands.
#[derive(Clone, Debug)]
pub struct GroupName {
    pub(super) name: Name,
    pub(super) id: u32,
}

/// A cluster and its broker names (`clusterAddrTable`).
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `clusterName`
    pub name: Name,
    pub(super) brokers: Index<Name>,
}

/// A live broker (`brokerLiveTable`), keyed by cluster and address.
#[derive(Clone, Debug)]
pub struct LiveEntry {
    /// The cluster it registered with.
    pub cluster: Name,
    /// `brokerAddr`
    pub addr: Name,
    /// The group that holds its member.
    pub group: u32,
    /// Its id there.
    pub broker_id: i64,
    /// Of its last registration; `None` when it wrote `null`.
    pub data_version: Option<DataVersion>,
    /// The connection of its last registration.
    pub conn: u64,
    /// `haServerAddr`
    pub ha_server_addr: Option<Name>,
    /// Silence after which it is dropped.
    pub timeout_ms: i64,
    /// When it was last heard of.
    pub live: Arc<Live>,
}

impl Snapshot {
    pub(super) fn new(hasher: RandomState, settings: Arc<Settings>, kv: Arc<Kv>) -> Self {
        Self {
            settings,
            settings_epoch: 0,
            kv,
            cluster_info: PerForm::default(),
            topic_list: Arc::default(),
            system_topic_list: Arc::default(),
            filter_groups: 0,
            hasher,
            topics: Index::default(),
            groups: Slots::default(),
            group_names: Index::default(),
            clusters: Index::default(),
            live: Index::default(),
            shapes: Slots::default(),
            mappings: Index::default(),
        }
    }

    /// A topic by its name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.hash(name), |t| *t.name == *name)
    }

    /// The static-topic mappings of a topic.
    pub fn mappings(&self, topic: &str) -> Option<&Arc<Mappings>> {
        if self.mappings.is_empty() {
            return None;
        }
        self.mappings.get(self.hash(topic), |m| *m.topic == *topic)
    }

    /// A group by its place.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.groups.get(id)
    }

    /// A group by its broker name.
    pub fn group_named(&self, name: &str) -> Option<&Arc<Group>> {
        self.group(self.group_id(name)?)
    }

    /// A live broker.
    pub fn live(&self, cluster: &str, addr: &str) -> Option<&Arc<LiveEntry>> {
        self.live.get(self.hash_pair(cluster, addr), |e| {
            *e.addr == *addr && *e.cluster == *cluster
        })
    }

    /// The master that a slave's registration is answered with: it must be registered under
    /// `group` and alive in the *request's* cluster (`RouteInfoManager.registerBroker`).
    pub fn master_for(&self, group: &Group, broker_id: i64, cluster: &str) -> Option<Master> {
        if broker_id == MASTER_ID {
            return None;
        }
        let addr = &group.member(MASTER_ID)?.addr;
        let live = self.live(cluster, addr)?;
        Some(Master {
            addr: addr.clone(),
            ha_server_addr: live.ha_server_addr.clone(),
        })
    }

    /// Numbers of topics, groups and live brokers.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.topics.len(), self.group_names.len(), self.live.len())
    }

    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        self.group_names
            .get(self.hash(name), |g| *g.name == *name)
            .map(|g| g.id)
    }

    pub(super) fn cluster(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.clusters.get(self.hash(name), |c| *c.name == *name)
    }

    pub(super) fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    pub(super) fn hash_pair(&self, cluster: &str, addr: &str) -> u64 {
        self.hasher.hash_one((cluster, addr))
    }

    /// All topics, by ascending name.
    pub(super) async fn sorted_topics(&self, pace: &Pace) -> Vec<(&str, &Topic)> {
        let mut topics = Vec::with_capacity(self.topics.len());
        for topic in self.topics.iter() {
            topics.push((&*topic.name, &**topic));
            pace.step(WALK_UNITS).await;
        }
        sorted::by_name(topics, pace).await
    }

    /// All groups, by ascending broker name.
    pub(super) async fn sorted_groups(&self, pace: &Pace) -> Vec<(&str, &Group)> {
        let mut groups = Vec::with_capacity(self.group_names.len());
        for group in self.groups.iter() {
            groups.push((&*group.name, &**group));
            pace.step(WALK_UNITS).await;
        }
        sorted::by_name(groups, pace).await
    }

    /// All clusters with their broker names, both ascending.
    pub(super) async fn sorted_clusters(&self, pace: &Pace) -> Vec<(&str, Vec<(&str, ())>)> {
        let mut clusters = Vec::with_capacity(self.clusters.len());
        for cluster in self.clusters.iter() {
            clusters.push((&*cluster.name, &**cluster));
            pace.step(WALK_UNITS).await;
        }
        let mut sorted = Vec::with_capacity(clusters.len());
        for (cluster_name, cluster) in sorted::by_name(clusters, pace).await {
            let mut names = Vec::with_capacity(cluster.brokers.len());
            for name in cluster.brokers.iter() {
                names.push((&**name, ()));
                pace.step(WALK_UNITS).await;
            }
            sorted.push((cluster_name, sorted::by_name(names, pace).await));
        }
        sorted
    }
}
