//! The writer's side of the tables: the one place that changes them.
//!
//! [`Table::apply`] works on a private copy of the last snapshot; [`Table::publish`] hands that
//! copy out. Between the two nothing is visible, so a batch of commands appears at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use smallvec::SmallVec;

use super::command::{BrokerRef, Command, Effects, Envelope, Event, Leave, Outcome};
use super::group::{Group, Member};
use super::index::{Ids, Index};
use super::kv::Kv;
use super::liveness::{Live, deadline_ms};
use super::snapshot::{Cluster, GroupName, LiveEntry, Snapshot};
use super::topic::{Pair, Shape, Topic};
use super::{Name, Now, PerForm};
use crate::settings::Settings;
use crate::settings::limits::Limits;
use crate::wire::codes::response::SYSTEM_ERROR;
use crate::wire::model::QueueShape;
use crate::wire::pace::Pace;

/// Units of a [`Pace`] for one look-up in the tables that changes nothing.
pub(super) const STEP_UNITS: usize = 128;
/// The same for a change, which copies what a published snapshot shares: 2 to 3 µs.
pub(super) const CHANGE_UNITS: usize = 1024;
/// A tick that comes later than this means that the machine stood still.
const STALL_MS: u64 = 1000;

/// Cluster and address: what a live broker is keyed by.
pub(super) type LiveKey = (Name, Name);

/// The tables as their writer sees them.
#[derive(Debug)]
pub struct Table {
    pub(super) next: Snapshot,
    pub(super) limits: TableLimits,
    dirty: bool,
    epoch: u64,
    serial: u64,
    pairs: usize,
    group_ids: Ids,
    topic_ids: Ids,
    shape_ids: Ids,
    /// By group id.
    pub(super) memberships: HashMap<u32, Membership, RandomState>,
    /// By topic id.
    pub(super) topic_names: HashMap<u32, Name, RandomState>,
    shape_uses: HashMap<QueueShape, (u32, usize), RandomState>,
    /// Topics with a static mapping of, or brought by, a broker name.
    pub(super) mapped: HashMap<Name, HashSet<Name, RandomState>, RandomState>,
    /// Static mappings and their queues in all.
    pub(super) mapping_entries: usize,
    /// Memory in filter servers.
    pub(super) filter_bytes: usize,
    /// What each connection registered last.
    pub(super) by_conn: HashMap<u64, SmallVec<[LiveKey; 1]>, RandomState>,
    /// Groups whose lowest id left in the command under way.
    pub(super) offline: BTreeMap<Name, Member>,
    /// Live brokers by the deadline that their clock had when last looked at.
    deadlines: BTreeMap<(u64, u64), LiveKey>,
}

/// What the tables may grow to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableLimits {
    pub(super) topics: usize,
    pub(super) pairs: usize,
    pub(super) brokers: usize,
    pub(super) filter_servers_bytes: usize,
}

/// What belongs to a group, so that its loss touches only that.
#[derive(Debug)]
pub(super) struct Membership {
    /// Topics with a queue entry of the group.
    pub(super) topics: HashSet<u32, RandomState>,
    /// Clusters whose sets name the group.
    pub(super) clusters: SmallVec<[Name; 1]>,
}

impl Table {
    /// Empty tables. `hasher` must be keyed: names come from strangers.
    pub fn new(hasher: RandomState, settings: Arc<Settings>, kv: Arc<Kv>, limits: &Limits) -> Self {
        let Limits {
            topics,
            pairs,
            brokers,
            filter_servers_bytes,
            ..
        } = *limits;
        Self {
            next: Snapshot::new(hasher.clone(), settings, kv),
            limits: TableLimits {
                topics,
                pairs,
                brokers,
                filter_servers_bytes,
            },
            dirty: false,
            epoch: 0,
            serial: 0,
            pairs: 0,
            group_ids: Ids::default(),
            topic_ids: Ids::default(),
            shape_ids: Ids::default(),
            memberships: HashMap::with_hasher(hasher.clone()),
            topic_names: HashMap::with_hasher(hasher.clone()),
            shape_uses: HashMap::with_hasher(hasher.clone()),
            mapped: HashMap::with_hasher(hasher.clone()),
            mapping_entries: 0,
            filter_bytes: 0,
            by_conn: HashMap::with_hasher(hasher),
            offline: BTreeMap::new(),
            deadlines: BTreeMap::new(),
        }
    }

    /// Applies one command. What it changes is visible after the next [`Table::publish`], except
    /// that the clocks of brokers that leave are dead at once.
    pub async fn apply(
        &mut self,
        now: Now,
        envelope: Envelope,
        effects: &mut Effects,
        pace: &Pace,
    ) -> Outcome {
        let outcome = match envelope.command {
            Command::Register(r) => {
                self.register(now, *r, envelope.origin.conn, effects, pace)
                    .await
            }
            Command::Unregister(u) => self.unregister(&u, effects, pace).await,
            Command::Gone => {
                self.connection_gone(envelope.origin.conn, effects, pace)
                    .await
            }
            Command::DeleteTopic { topic, cluster } => {
                self.delete_topic(&topic, cluster.as_deref(), pace).await
            }
            Command::RegisterTopic { topic, queues } => {
                self.register_topic(&topic, &queues, pace).await
            }
            Command::SetWritePerm { broker_name, add } => {
                self.set_write_perm(&broker_name, add, pace).await
            }
            // What is to be persisted is staged and then set, around the writing of a file.
            Command::Persist(_) => Outcome::Failed(SYSTEM_ERROR, "not a table's command".into()),
        };
        self.tell_offline(effects);
        outcome
    }

    /// Removes what has expired. `late_ms` is how much later than planned this tick comes: when
    /// the machine stood still, its brokers could not be heard.
    pub async fn tick(&mut self, now: Now, late_ms: u64, effects: &mut Effects, pace: &Pace) {
        if late_ms > STALL_MS {
            effects.events.push(Event::Stalled { late_ms });
            self.next
                .live
                .iter()
                .for_each(|e| e.live.forgive(late_ms, now.mono_ms));
        }
        while let Some((&(deadline, serial), _)) = self.deadlines.first_key_value()
            && deadline < now.mono_ms
        {
            let Some(key) = self.deadlines.remove(&(deadline, serial)) else {
                return;
            };
            let Some(entry) = self.next.live(&key.0, &key.1).cloned() else {
                continue;
            };
            let last = entry.live.last_seen_ms().unwrap_or(0);
            if entry.live.kill_if_expired(entry.timeout_ms, now.mono_ms) {
                let silent_ms = now.mono_ms.saturating_sub(last);
                self.remove_live(&entry, Leave::Expired { silent_ms }, effects, pace)
                    .await;
                if !self.by_conn.contains_key(&entry.conn) {
                    effects.close.push(entry.conn);
                }
            } else {
                self.file(&entry, key);
            }
            pace.step(STEP_UNITS).await;
        }
        self.tell_offline(effects);
    }

    /// A new snapshot, if anything changed since the last one.
    pub fn publish(&mut self) -> Option<Snapshot> {
        std::mem::take(&mut self.dirty).then(|| self.next.clone())
    }

    /// The tables as they are, for the start.
    pub fn snapshot(&self) -> Snapshot {
        self.next.clone()
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.next.settings
    }

    /// The key-value tables in force.
    pub fn kv(&self) -> &Arc<Kv> {
        &self.next.kv
    }

    /// Replaces the settings; repeated registrations are looked at afresh.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.next.settings = settings;
        self.next.settings_epoch = self.new_epoch();
        self.dirty = true;
    }

    /// Replaces the key-value tables.
    pub fn set_kv(&mut self, kv: Arc<Kv>) {
        self.next.kv = kv;
        self.dirty = true;
    }

    // Groups and clusters.

    /// The group of a name, made if it does not exist.
    pub(super) fn group_or_new(&mut self, name: &str, cluster: &Name) -> u32 {
        if let Some(id) = self.next.group_id(name) {
            return id;
        }
        let id = self.group_ids.take();
        let group = Group::new(name, cluster.clone());
        let (hash, entry) = (
            self.next.hash(name),
            GroupName {
                name: group.name.clone(),
                id,
            },
        );
        self.next
            .group_names
            .insert(hash, |g| *g.name == *name, entry);
        self.next.groups.set(id, Arc::new(group));
        let topics = HashSet::with_hasher(self.next.hasher.clone());
        self.memberships.insert(
            id,
            Membership {
                topics,
                clusters: SmallVec::new(),
            },
        );
        self.dirty = true;
        id
    }

    /// Forgets a group that has nothing left, in every cluster set.
    pub(super) fn forget_group(&mut self, id: u32) {
        let Some(group) = self.next.group(id).cloned() else {
            return;
        };
        if let Some(membership) = self.memberships.remove(&id) {
            for cluster in membership.clusters {
                self.leave_cluster(&cluster, &group.name);
            }
        }
        let hash = self.next.hash(&group.name);
        self.next.group_names.remove(hash, |g| g.id == id);
        self.next.filter_groups -= usize::from(group.fragments.has_filter_servers);
        self.filter_bytes -= group.filter_bytes();
        self.next.groups.clear(id);
        self.group_ids.give(id);
        self.cluster_info_changed();
    }

    /// Changes a group; its epoch moves, its fragments are made anew.
    pub(super) fn change_group(&mut self, id: u32, change: impl FnOnce(&mut Group)) {
        let epoch = self.new_epoch();
        let Some(group) = self.next.groups.get_mut(id) else {
            return;
        };
        let had = (group.fragments.has_filter_servers, group.filter_bytes());
        change(group);
        group.render();
        group.epoch = epoch;
        let has = (group.fragments.has_filter_servers, group.filter_bytes());
        self.next.filter_groups += usize::from(has.0);
        self.next.filter_groups -= usize::from(had.0);
        self.filter_bytes += has.1;
        self.filter_bytes -= had.1;
        self.cluster_info_changed();
    }

    /// Moves a group's epoch: a repeated registration must be looked at.
    pub(super) fn move_epoch(&mut self, id: u32) {
        let epoch = self.new_epoch();
        if let Some(group) = self.next.groups.get_mut(id) {
            group.epoch = epoch;
            self.dirty = true;
        }
    }

    /// A cluster set gets a name. False if it had it.
    pub(super) fn join_cluster(&mut self, cluster: &Name, id: u32) -> bool {
        let Some(group) = self.next.group(id).cloned() else {
            return false;
        };
        let Some(membership) = self.memberships.get_mut(&id) else {
            return false;
        };
        if membership.clusters.contains(cluster) {
            return false;
        }
        membership.clusters.push(cluster.clone());
        let (hash, name_hash) = (self.next.hash(cluster), self.next.hash(&group.name));
        if self.next.cluster(cluster).is_none() {
            let new = Cluster {
                name: cluster.clone(),
                brokers: Index::default(),
            };
            self.next
                .clusters
                .insert(hash, |c| c.name == *cluster, Arc::new(new));
        }
        if let Some(entry) = self.next.clusters.get_mut(hash, |c| c.name == *cluster) {
            let brokers = &mut Arc::make_mut(entry).brokers;
            brokers.insert(name_hash, |n| *n == group.name, group.name.clone());
        }
        self.move_epoch(id);
        self.cluster_info_changed();
        true
    }

    fn leave_cluster(&mut self, cluster: &Name, broker_name: &Name) {
        let (hash, name_hash) = (self.next.hash(cluster), self.next.hash(broker_name));
        let Some(entry) = self.next.clusters.get_mut(hash, |c| c.name == *cluster) else {
            return;
        };
        let brokers = &mut Arc::make_mut(entry).brokers;
        brokers.remove(name_hash, |n| n == broker_name);
        if brokers.is_empty() {
            self.next.clusters.remove(hash, |c| c.name == *cluster);
        }
    }

    // Live brokers.

    /// Puts a live entry, in the place of the one with its key.
    pub(super) fn put_live(&mut self, entry: LiveEntry) {
        let key = (entry.cluster.clone(), entry.addr.clone());
        self.take_live(&key.0, &key.1, Some(&entry.live));
        self.by_conn
            .entry(entry.conn)
            .or_default()
            .push(key.clone());
        let entry = Arc::new(entry);
        self.file(&entry, key);
        let hash = self.next.hash_pair(&entry.cluster, &entry.addr);
        let same = Arc::clone(&entry);
        self.next.live.insert(
            hash,
            |e| e.addr == same.addr && e.cluster == same.cluster,
            entry,
        );
        self.dirty = true;
    }

    /// Takes a live entry out, and ends its clock unless that is `kept`.
    pub(super) fn take_live(
        &mut self,
        cluster: &str,
        addr: &str,
        kept: Option<&Arc<Live>>,
    ) -> Option<Arc<LiveEntry>> {
        let hash = self.next.hash_pair(cluster, addr);
        let entry = self
            .next
            .live
            .remove(hash, |e| *e.addr == *addr && *e.cluster == *cluster)?;
        if !kept.is_some_and(|live| Arc::ptr_eq(live, &entry.live)) {
            entry.live.kill();
        }
        self.deadlines
            .remove(&(entry.live.filed_under_ms(), entry.live.serial));
        if let Some(keys) = self.by_conn.get_mut(&entry.conn) {
            keys.retain(|(c, a)| **c != *cluster || **a != *addr);
            if keys.is_empty() {
                self.by_conn.remove(&entry.conn);
            }
        }
        self.dirty = true;
        Some(entry)
    }

    fn file(&mut self, entry: &LiveEntry, key: LiveKey) {
        let last = entry.live.last_seen_ms().unwrap_or(0);
        let deadline = deadline_ms(last, entry.timeout_ms);
        entry.live.file_under_ms(deadline);
        self.deadlines.insert((deadline, entry.live.serial), key);
    }

    // Topics.

    /// The place of a group's entry in a topic: `Err` tells where it belongs.
    pub(super) fn pair_place(&self, topic: &Topic, group: u32, name: &str) -> Result<usize, usize> {
        topic
            .pairs
            .binary_search_by(|pair| match self.next.group(pair.group) {
                Some(_) if pair.group == group => std::cmp::Ordering::Equal,
                Some(other) => (*other.name).cmp(name),
                None => std::cmp::Ordering::Less,
            })
    }

    /// The queues that a topic has at a group.
    pub(super) fn queues(&self, group: u32, topic: &str) -> Option<QueueShape> {
        let name = Arc::clone(&self.next.group(group)?.name);
        let topic = self.next.topic(topic)?;
        let place = self.pair_place(topic, group, &name).ok()?;
        self.next
            .shapes
            .get(topic.pairs[place].shape)
            .map(|shape| shape.queues)
    }

    /// Sets the queues of a topic at a group. An entry that is new moves the group's epoch. Returns
    /// the work in units of a [`Pace`].
    pub(super) fn put_queues(&mut self, group: u32, topic: &str, queues: QueueShape) -> usize {
        let Some(name) = self.next.group(group).map(|g| Arc::clone(&g.name)) else {
            return STEP_UNITS;
        };
        let hash = self.next.hash(topic);
        let Some(found) = self.next.topic(topic).cloned() else {
            self.new_topic(hash, topic, group, queues);
            return CHANGE_UNITS;
        };
        match self.pair_place(&found, group, &name) {
            Ok(place) => {
                let old = found.pairs[place].shape;
                let stored = self.next.shapes.get(old);
                if stored.is_some_and(|shape| shape.queues == queues) {
                    return STEP_UNITS;
                }
                let shape = self.use_shape(queues);
                self.release_shape(old);
                drop(found);
                self.change_topic(hash, topic, |t| t.pairs[place].shape = shape);
            }
            Err(place) => {
                let pair = Pair {
                    group,
                    shape: self.use_shape(queues),
                };
                let id = found.id;
                drop(found);
                self.change_topic(hash, topic, |t| {
                    t.pairs.reserve_exact(1);
                    t.pairs.insert(place, pair);
                });
                self.entry_added(group, id);
            }
        }
        CHANGE_UNITS
    }

    fn new_topic(&mut self, hash: u64, topic: &str, group: u32, queues: QueueShape) {
        let pair = Pair {
            group,
            shape: self.use_shape(queues),
        };
        let id = self.topic_ids.take();
        let name = Name::from(topic);
        self.topic_names.insert(id, name.clone());
        let new = Topic {
            name,
            id,
            pairs: vec![pair],
        };
        self.next
            .topics
            .insert(hash, |t| *t.name == *topic, Arc::new(new));
        self.next.topic_list = Arc::default();
        self.entry_added(group, id);
    }

    fn entry_added(&mut self, group: u32, topic_id: u32) {
        self.pairs += 1;
        if let Some(membership) = self.memberships.get_mut(&group) {
            membership.topics.insert(topic_id);
        }
        self.move_epoch(group);
    }

    fn change_topic(&mut self, hash: u64, topic: &str, change: impl FnOnce(&mut Topic)) {
        if let Some(found) = self.next.topics.get_mut(hash, |t| *t.name == *topic) {
            change(Arc::make_mut(found));
            self.dirty = true;
        }
    }

    /// Takes a topic's entry at a group away, with the mappings that hang on it; the topic goes
    /// with its last entry. The group's epoch moves.
    pub(super) fn drop_queues(&mut self, group: u32, topic: &str) {
        let Some(name) = self.next.group(group).map(|g| Arc::clone(&g.name)) else {
            return;
        };
        let Some(found) = self.next.topic(topic).cloned() else {
            return;
        };
        let Ok(place) = self.pair_place(&found, group, &name) else {
            return;
        };
        let (id, last) = (found.id, found.pairs.len() == 1);
        let shape = found.pairs[place].shape;
        drop(found);
        self.release_shape(shape);
        self.pairs -= 1;
        if let Some(membership) = self.memberships.get_mut(&group) {
            membership.topics.remove(&id);
        }
        self.move_epoch(group);
        let hash = self.next.hash(topic);
        if last {
            self.next.topics.remove(hash, |t| *t.name == *topic);
            self.next.topic_list = Arc::default();
            self.topic_names.remove(&id);
            self.topic_ids.give(id);
            self.drop_mappings(topic, |_, _| true);
        } else {
            self.change_topic(hash, topic, |t| {
                t.pairs.remove(place);
            });
            self.drop_mappings(topic, |bname, owner| *bname == name || *owner == name);
        }
    }

    fn use_shape(&mut self, queues: QueueShape) -> u32 {
        if let Some((id, uses)) = self.shape_uses.get_mut(&queues) {
            *uses += 1;
            return *id;
        }
        let id = self.shape_ids.take();
        self.shape_uses.insert(queues, (id, 1));
        self.next.shapes.set(id, Arc::new(Shape::new(queues)));
        id
    }

    fn release_shape(&mut self, id: u32) {
        let Some(queues) = self.next.shapes.get(id).map(|shape| shape.queues) else {
            return;
        };
        let Some((_, uses)) = self.shape_uses.get_mut(&queues) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.shape_uses.remove(&queues);
            self.next.shapes.clear(id);
            self.shape_ids.give(id);
        }
    }

    // Small things.

    pub(super) fn new_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    pub(super) fn new_live(&mut self, now: Now) -> Arc<Live> {
        self.serial += 1;
        Arc::new(Live::new(self.serial, now.mono_ms))
    }

    pub(super) fn pairs(&self) -> usize {
        self.pairs
    }

    pub(super) fn changed(&mut self) {
        self.dirty = true;
    }

    fn cluster_info_changed(&mut self) {
        self.next.cluster_info = PerForm::default();
        self.next.system_topic_list = Arc::default();
        self.dirty = true;
    }

    pub(super) fn broker_ref(&self, group: &Group, member: &Member) -> BrokerRef {
        BrokerRef {
            cluster: member.cluster.clone(),
            broker_name: group.name.clone(),
            broker_id: member.id,
            addr: member.addr.clone(),
        }
    }
}
