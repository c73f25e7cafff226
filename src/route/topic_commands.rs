//! Changes of topics that come from administrators and from single-topic registration, and the
//! mappings of static topics.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Name;
use super::command::Outcome;
use super::table::{CHANGE_UNITS, STEP_UNITS, Table};
use super::topic::{Mapping, Mappings};
use crate::wire::codes::response::SYSTEM_ERROR;
use crate::wire::model::{PERM_READ, PERM_WRITE, QueueShape};
use crate::wire::pace::Pace;
use crate::wire::register::TopicQueueMappingInfo;

impl Table {
    /// 216: the whole topic, or its entries at the brokers of a cluster. Never an error.
    pub(super) async fn delete_topic(
        &mut self,
        topic: &str,
        cluster: Option<&str>,
        pace: &Pace,
    ) -> Outcome {
        let Some(found) = self.next.topic(topic).cloned() else {
            if cluster.is_none() {
                self.drop_mappings(topic, |_, _| true);
            }
            return Outcome::Done;
        };
        let cluster = match cluster {
            None => None,
            Some(name) => match self.next.cluster(name) {
                Some(cluster) => Some(Arc::clone(cluster)),
                None => return Outcome::Done,
            },
        };
        for pair in &found.pairs {
            let Some(name) = self.next.group(pair.group).map(|g| g.name.clone()) else {
                continue;
            };
            let hash = self.next.hash(&name);
            if cluster
                .as_ref()
                .is_none_or(|c| c.brokers.get(hash, |n| *n == name).is_some())
            {
                self.drop_queues(pair.group, topic);
            }
            pace.step(CHANGE_UNITS).await;
        }
        Outcome::Done
    }

    /// 217 (`RouteInfoManager.registerTopic`): a new topic only if every broker is known; entries
    /// of an existing topic up to the first unknown broker. Never an error of its own.
    pub(super) async fn register_topic(
        &mut self,
        topic: &str,
        queues: &[(String, QueueShape)],
        pace: &Pace,
    ) -> Outcome {
        let known = |table: &Self, name: &str| table.next.group_id(name).is_some();
        if self.next.topic(topic).is_none() {
            if !queues.iter().all(|(name, _)| known(self, name)) {
                return Outcome::Done;
            }
            if self.next.topics.len() >= self.limits.topics {
                return full("too many topics");
            }
        }
        if self.pairs() + self.mapping_count() + queues.len() > self.limits.pairs {
            return full("too many queue entries");
        }
        for (name, shape) in queues {
            let Some(group) = self.next.group_id(name) else {
                break;
            };
            let units = self.put_queues(group, topic, *shape);
            pace.step(units).await;
        }
        Outcome::Done
    }

    /// 205 takes the write bit away, 327 sets exactly read and write; both count every topic of
    /// the broker. Lasts until a registration overwrites the entries.
    pub(super) async fn set_write_perm(&mut self, name: &str, add: bool, pace: &Pace) -> Outcome {
        let key = if add {
            "addTopicCount"
        } else {
            "wipeTopicCount"
        };
        let Some(group) = self.next.group_id(name) else {
            return Outcome::Count(key, 0);
        };
        let topics = self.topics_of(group, pace).await;
        for topic in &topics {
            let mut units = STEP_UNITS;
            if let Some(mut queues) = self.queues(group, topic) {
                queues.perm = if add {
                    PERM_READ | PERM_WRITE
                } else {
                    queues.perm & !PERM_WRITE
                };
                units = self.put_queues(group, topic, queues);
            }
            pace.step(units).await;
        }
        Outcome::Count(key, topics.len())
    }

    /// Names of the topics that have an entry at a group.
    pub(super) async fn topics_of(&self, group: u32, pace: &Pace) -> Vec<Name> {
        let Some(membership) = self.memberships.get(&group) else {
            return Vec::new();
        };
        let mut names = Vec::with_capacity(membership.topics.len());
        for id in &membership.topics {
            names.extend(self.topic_names.get(id).cloned());
            pace.step(STEP_UNITS / 4).await;
        }
        names
    }

    /// S10c: a mapping is stored when the registration counts as changed, and whenever it is
    /// absent, so that one that went with its topic comes back.
    pub(super) fn put_mapping(
        &mut self,
        owner: u32,
        topic: &str,
        info: &TopicQueueMappingInfo,
        overwrite: bool,
    ) {
        let Some(owner) = self.next.group(owner).map(|g| g.name.clone()) else {
            return;
        };
        let Some(bname) = info.bname.as_deref().map(Name::from) else {
            return;
        };
        let hash = self.next.hash(topic);
        let found = self.next.mappings.get(hash, |m| *m.topic == *topic);
        let old = found.and_then(|m| m.by_broker.get(&bname)).cloned();
        let same = old
            .as_ref()
            .is_some_and(|old| *old.info == *info && old.owner == owner);
        if same || (old.is_some() && !overwrite) {
            return;
        }
        let mut mappings = match found {
            Some(found) => Mappings::clone(found),
            None => Mappings {
                topic: Name::from(topic),
                by_broker: BTreeMap::new(),
            },
        };
        let name = mappings.topic.clone();
        let mapping = Mapping::new(owner.clone(), info.clone());
        self.mapping_entries += mapping.entries();
        self.mapping_entries -= old.as_ref().map_or(0, Mapping::entries);
        mappings.by_broker.insert(bname.clone(), mapping);
        self.next
            .mappings
            .insert(hash, |m| *m.topic == *topic, Arc::new(mappings));
        self.changed();
        if old.is_none() {
            self.move_epoch_of(&bname);
            self.move_epoch_of(&owner);
        } else if let Some(old) = old.filter(|old| old.owner != owner) {
            self.unmap(&old.owner, &name);
            // It no longer goes with the old owner's group, so that one's repetition matters again.
            self.move_epoch_of(&old.owner);
        }
        for broker in [bname, owner] {
            let hasher = self.next.hasher.clone();
            let topics = self.mapped.entry(broker);
            topics
                .or_insert_with(|| HashSet::with_hasher(hasher))
                .insert(name.clone());
        }
    }

    /// Removes the mappings of a topic for whose broker name and owner `goes` holds.
    pub(super) fn drop_mappings(&mut self, topic: &str, goes: impl Fn(&Name, &Name) -> bool) {
        let Some(found) = self.next.mappings(topic) else {
            return;
        };
        let mut left = Mappings::clone(found);
        let mut gone: Vec<Name> = Vec::new();
        let mut entries = 0;
        left.by_broker.retain(|bname, mapping| {
            let stays = !goes(bname, &mapping.owner);
            if !stays {
                entries += mapping.entries();
                gone.extend([bname.clone(), mapping.owner.clone()]);
            }
            stays
        });
        if gone.is_empty() {
            return;
        }
        self.mapping_entries -= entries;
        let (hash, name) = (self.next.hash(topic), left.topic.clone());
        if left.by_broker.is_empty() {
            self.next.mappings.remove(hash, |m| *m.topic == *topic);
        } else {
            self.next
                .mappings
                .insert(hash, |m| *m.topic == *topic, Arc::new(left));
        }
        self.changed();
        for broker in gone {
            self.unmap(&broker, &name);
            self.move_epoch_of(&broker);
        }
    }

    /// Topics with a mapping of this broker name, or brought by it.
    pub(super) fn mapped_topics_of(&self, broker: &Name) -> Vec<Name> {
        self.mapped
            .get(broker)
            .map(|topics| topics.iter().cloned().collect())
            .unwrap_or_default()
    }

    pub(super) fn mapping_count(&self) -> usize {
        self.mapping_entries
    }

    /// Takes a topic from a broker's set unless another mapping of the topic still names it.
    fn unmap(&mut self, broker: &Name, topic: &Name) {
        let left = self.next.mappings(topic);
        let named = left.is_some_and(|m| {
            m.by_broker
                .iter()
                .any(|(bname, mapping)| bname == broker || mapping.owner == *broker)
        });
        if named {
            return;
        }
        if let Some(topics) = self.mapped.get_mut(broker) {
            topics.remove(topic);
            if topics.is_empty() {
                self.mapped.remove(broker);
            }
        }
    }

    fn move_epoch_of(&mut self, broker: &str) {
        if let Some(group) = self.next.group_id(broker) {
            self.move_epoch(group);
        }
    }
}

fn full(reason: &'static str) -> Outcome {
    Outcome::Failed(SYSTEM_ERROR, reason.into())
}
