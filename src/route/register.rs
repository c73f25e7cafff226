//! The registration rule (`RouteInfoManager.registerBroker`), the one hard rule of the tables.
//!
//! Steps are named as in namesrv.md 2.4. Two things differ from Java on purpose: a refused
//! registration changes nothing at all, and a member and its live entry never part, so whatever
//! loses its place (same id at a new address, an address under a new id, name or cluster) loses
//! both at once instead of leaving an orphan or a ghost behind.

use std::collections::HashSet;
use std::sync::Arc;

use super::command::{
    Accepted, Effects, Event, Identity, Leave, MinBrokerIdNotice, Outcome, Refusal, Registered,
    Registration,
};
use super::group::{Group, Member};
use super::snapshot::LiveEntry;
use super::table::{CHANGE_UNITS, STEP_UNITS, Table};
use super::{Name, Now};
use crate::wire::model::{DataVersion, MASTER_ID, PERM_WRITE};
use crate::wire::pace::Pace;
use crate::wire::register::{FilterServers, TopicQueueMappingInfo};

/// A name's counts and its pointer, beside its text.
const NAME_BYTES: usize = 32;

/// `BrokerLiveInfo`: time-out of a broker that names none.
const DEFAULT_TIMEOUT_MS: i64 = 120_000;

impl Table {
    pub(super) async fn register(
        &mut self,
        now: Now,
        r: Registration,
        conn: u64,
        effects: &mut Effects,
        pace: &Pace,
    ) -> Outcome {
        let id = &r.identity;
        let holder = self
            .next
            .group_named(&id.broker_name)
            .and_then(|g| g.member(id.broker_id));
        // S7: the increment of a broker whose full registration was missed would make its version
        // look complete.
        if holder.is_none() && r.body.topics.len() == 1 {
            return Outcome::Refused(r.identity, Refusal::SingleTopic);
        }
        if let Some(limit) = self.exceeded_limit(&r, pace).await {
            return Outcome::Refused(r.identity, Refusal::Limit(limit));
        }
        if let Some(event) = self.conflict(now, &r) {
            self.lose(&r, effects, pace).await;
            effects.events.push(event);
            return Outcome::Conflict(r.identity);
        }
        self.accept(now, r, conn, effects, pace).await
    }

    /// The limit that the registration would break; counts exactly only when it may be close.
    async fn exceeded_limit(&self, r: &Registration, pace: &Pace) -> Option<&'static str> {
        let id = &r.identity;
        let known = self.next.live(&id.cluster, &id.broker_addr).is_some();
        if !known && self.next.live.len() >= self.limits.brokers {
            return Some("too many brokers");
        }
        // What the broker had may be counted twice: the limit is far from what is real.
        let filters = filter_bytes(&r.body.filter_servers);
        if filters > 0 && self.filter_bytes + filters > self.limits.filter_servers_bytes {
            return Some("too many filter servers");
        }
        let topics = self.next.topics.len();
        let entries = self.pairs() + self.mapping_count();
        let queues = |m: &TopicQueueMappingInfo| 1 + m.curr_id_map.as_ref().map_or(0, Vec::len);
        let mapped: usize = r.body.mappings.iter().map(|(_, m)| queues(m)).sum();
        let most = r.body.topics.len() + mapped;
        if topics + most <= self.limits.topics && entries + most <= self.limits.pairs {
            return None;
        }
        let group = self.next.group_id(&id.broker_name);
        let (mut new_topics, mut new_entries) = (0, mapped);
        for topic in &r.body.topics {
            new_topics += usize::from(self.next.topic(&topic.name).is_none());
            let known = group.is_some_and(|g| self.queues(g, &topic.name).is_some());
            new_entries += usize::from(!known);
            pace.step(STEP_UNITS).await;
        }
        if new_topics > 0 && topics + new_topics > self.limits.topics {
            return Some("too many topics");
        }
        (new_entries > 0 && entries + new_entries > self.limits.pairs)
            .then_some("too many queue entries")
    }

    /// S6: another address holds the id, is alive in the request's cluster and has the higher
    /// state version. Only that number counts. A holder that has expired counts as absent.
    fn conflict(&self, now: Now, r: &Registration) -> Option<Event> {
        let id = &r.identity;
        let group = self.next.group_named(&id.broker_name)?;
        let holder = group
            .member(id.broker_id)
            .filter(|m| *m.addr != *id.broker_addr)?;
        let live = self.next.live(&id.cluster, &holder.addr)?;
        let state = |version: Option<DataVersion>| version.map_or(0, |v| v.state_version);
        let versions = (state(live.data_version), state(r.body.data_version));
        if versions.0 <= versions.1 {
            return None;
        }
        // The holder's own clock is ended if it counts as absent, because it is replaced. Under
        // the same address in the request's cluster there may also be somebody else's, which is
        // only looked at, as in Java.
        let own = holder.cluster == live.cluster;
        let absent = if own {
            live.live.kill_if_expired(live.timeout_ms, now.mono_ms)
        } else {
            live.live.is_expired(live.timeout_ms, now.mono_ms)
        };
        if absent {
            return None;
        }
        let member = new_member(id, Name::from(&*id.cluster), Name::from(&*id.broker_addr));
        Some(Event::StateVersionConflict {
            broker: self.broker_ref(group, &member),
            holder: holder.addr.clone(),
            state_versions: versions,
        })
    }

    /// What Java leaves of a registration that lost (S1, S3, S5): the cluster set, the zone, the
    /// acting flag; the loser itself is not alive under any name.
    async fn lose(&mut self, r: &Registration, effects: &mut Effects, pace: &Pace) {
        let id = &r.identity;
        let cluster = self.cluster_name(&id.cluster);
        let Some(group) = self.next.group_id(&id.broker_name) else {
            return;
        };
        self.join_cluster(&cluster, group);
        let own = self
            .next
            .group(group)
            .and_then(|g| g.member_at(&id.broker_addr))
            .cloned();
        self.change_group(group, |g| {
            set_flags(g, r);
            g.members.retain(|m| *m.addr != *id.broker_addr);
        });
        if let Some(member) = own {
            self.take_live(&member.cluster, &member.addr, None);
            self.left(group, &member, Leave::Conflict, effects);
        }
        if let Some(entry) = self.next.live(&id.cluster, &id.broker_addr).cloned() {
            self.remove_live(&entry, Leave::Conflict, effects, pace)
                .await;
        }
    }

    async fn accept(
        &mut self,
        now: Now,
        r: Registration,
        conn: u64,
        effects: &mut Effects,
        pace: &Pace,
    ) -> Outcome {
        let id = r.identity.clone();
        let before = self.next.live(&id.cluster, &id.broker_addr).cloned();
        let cluster = self.cluster_name(&id.cluster);
        let group = self.group_or_new(&id.broker_name, &cluster);
        if self.join_cluster(&cluster, group) {
            self.note_second_cluster(group, &cluster, &id, effects);
        }
        let previous_min = self
            .next
            .group(group)
            .and_then(|g| g.min_id())
            .unwrap_or(MASTER_ID);
        let first = self
            .seat(&r, group, &cluster, before.as_deref(), effects, pace)
            .await;

        let same_version = before.as_ref().is_some_and(|entry| {
            entry.data_version.is_some() && entry.data_version == r.body.data_version
        });
        self.contribute(&r, group, first || !same_version, pace)
            .await;

        let addr = self.member_addr(group, id.broker_id);
        let live = match &before {
            Some(entry) if entry.conn == conn && entry.live.touch(now.mono_ms) => {
                Arc::clone(&entry.live)
            }
            _ => self.new_live(now),
        };
        let ha_server_addr = r.ha_server_addr.as_deref().map(Name::from);
        self.put_live(LiveEntry {
            cluster: cluster.clone(),
            addr: addr.clone(),
            group,
            broker_id: id.broker_id,
            data_version: r.body.data_version,
            conn,
            ha_server_addr: ha_server_addr.clone(),
            timeout_ms: r.heartbeat_timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            live: Arc::clone(&live),
        });
        if id.broker_id < previous_min && self.next.settings.notify_min_broker_id_changed {
            effects
                .notices
                .extend(self.lower_id_notice(group, ha_server_addr));
        }
        let trusted = self.is_repeatable(&r, group, pace).await;
        let snapshot = &self.next;
        let found = snapshot.group(group);
        Outcome::Registered(Registered {
            master: found.and_then(|g| snapshot.master_for(g, id.broker_id, &id.cluster)),
            accepted: Accepted {
                proof: r.proof.filter(|_| trusted),
                live,
                group,
                group_epoch: found.map_or(0, |g| g.epoch),
                settings_epoch: snapshot.settings_epoch,
                cluster,
                addr,
                broker_id: id.broker_id,
            },
        })
    }

    /// Whether a second registration with the same bytes would change nothing as long as the epochs
    /// stand: its version must equal the stored one, what it lists must be what it brings, and
    /// what it brings must be its own.
    async fn is_repeatable(&self, r: &Registration, group: u32, pace: &Pace) -> bool {
        if r.body.data_version.is_none() || r.body.version_defaulted {
            return false;
        }
        let odd_keys = r.body.topics.iter().any(|topic| topic.key.is_some());
        if odd_keys && self.next.settings.delete_topic_with_broker_registration {
            return false;
        }
        let Some(name) = self.next.group(group).map(|g| &g.name) else {
            return false;
        };
        for (topic, mapping) in &r.body.mappings {
            let found = self.next.mappings(topic);
            let by_broker = found.zip(mapping.bname.as_deref());
            let stored = by_broker.and_then(|(m, bname)| m.by_broker.get(bname));
            if stored.is_some_and(|stored| stored.owner != *name) {
                return false;
            }
            pace.step(STEP_UNITS).await;
        }
        true
    }

    /// S3, S5, S8: gives the broker its place in the group; who stood there or elsewhere under
    /// the same address leaves. True if nobody held the id before.
    async fn seat(
        &mut self,
        r: &Registration,
        group: u32,
        cluster: &Name,
        before: Option<&LiveEntry>,
        effects: &mut Effects,
        pace: &Pace,
    ) -> bool {
        let id = &r.identity;
        let Some(current) = self.next.group(group).cloned() else {
            return true;
        };
        let addr = before.map_or_else(|| Name::from(&*id.broker_addr), |entry| entry.addr.clone());
        let mut member = new_member(id, cluster.clone(), addr);
        member.filter_servers = match &r.body.filter_servers {
            FilterServers::Unchanged => before.and_then(|entry| self.filter_servers(entry)),
            FilterServers::List(list) if list.is_empty() => None,
            FilterServers::List(list) => Some(list.iter().map(|s| Name::from(&**s)).collect()),
        };
        member.filter_bytes = member.filter_servers.as_deref().map_or(0, names_bytes);
        let holder = current.member(id.broker_id).cloned();
        let elsewhere = current
            .member_at(&member.addr)
            .filter(|m| m.id != id.broker_id)
            .cloned();
        if holder.as_ref() != Some(&member) || elsewhere.is_some() || !same_flags(&current, r) {
            self.change_group(group, |g| {
                set_flags(g, r);
                g.members
                    .retain(|m| m.addr != member.addr || m.id == member.id);
                g.put(member.clone());
            });
        }
        let moved_in = holder.as_ref().is_none_or(|h| h.addr != member.addr);
        for old in holder.iter().chain(&elsewhere) {
            if old.addr != member.addr || old.cluster != member.cluster {
                self.take_live(&old.cluster, &old.addr, None);
            }
            if old.addr != member.addr || old.id != member.id {
                self.left(group, old, Leave::Replaced, effects);
            }
        }
        if let Some(entry) = before.filter(|entry| entry.group != group) {
            self.detach(entry.group, &entry.addr, Leave::Replaced, effects, pace)
                .await;
        }
        if moved_in && let Some(g) = self.next.group(group) {
            effects
                .events
                .push(Event::BrokerJoined(self.broker_ref(g, &member)));
        }
        holder.is_none_or(|h| h.addr.is_empty())
    }

    /// S9, S10: a master, or a slave with the lowest id that knows of acting masters, brings its
    /// topics. `all`: the version differs or the place is new; otherwise only what is missing.
    async fn contribute(&mut self, r: &Registration, group: u32, all: bool, pace: &Pace) {
        let id = r.identity.broker_id;
        let Some(current) = self.next.group(group).cloned() else {
            return;
        };
        let prime_slave = r.enable_acting_master.is_some() && current.min_id() == Some(id);
        if id != MASTER_ID && !prime_slave {
            return;
        }
        let read_only = id != MASTER_ID && current.enable_acting_master;
        drop(current);
        if self.next.settings.delete_topic_with_broker_registration && r.body.mappings.is_empty() {
            self.drop_unlisted(r, group, pace).await;
        }
        for topic in &r.body.topics {
            let mut units = STEP_UNITS;
            if all || self.queues(group, &topic.name).is_none() {
                let mut queues = topic.shape;
                if read_only {
                    queues.perm &= !PERM_WRITE;
                }
                units = self.put_queues(group, &topic.name, queues);
            }
            pace.step(units).await;
        }
        for (topic, mapping) in &r.body.mappings {
            self.put_mapping(group, topic, mapping, all);
            pace.step(STEP_UNITS).await;
        }
    }

    /// S10a: `deleteTopicWithBrokerRegistration`, which compares with the map's keys.
    async fn drop_unlisted(&mut self, r: &Registration, group: u32, pace: &Pace) {
        let mut listed: HashSet<&str, _> = HashSet::with_hasher(self.next.hasher.clone());
        for topic in &r.body.topics {
            listed.insert(topic.key.as_deref().unwrap_or(&topic.name));
            pace.step(STEP_UNITS).await;
        }
        for topic in self.topics_of(group, pace).await {
            let mut units = STEP_UNITS;
            if !listed.contains(&*topic) {
                self.drop_queues(group, &topic);
                units = CHANGE_UNITS;
            }
            pace.step(units).await;
        }
    }

    /// S14: all members hear of a lower id but that one itself, unless it is alone.
    fn lower_id_notice(&self, group: u32, ha: Option<Name>) -> Option<MinBrokerIdNotice> {
        let members = &self.next.group(group)?.members;
        let min = members.first()?;
        let others = members.iter().skip(usize::from(members.len() > 1));
        Some(MinBrokerIdNotice {
            targets: others.map(|m| m.addr.clone()).collect(),
            min_broker_id: min.id,
            min_broker_addr: min.addr.clone(),
            offline_broker_addr: None,
            ha_broker_addr: ha,
        })
    }

    fn note_second_cluster(
        &self,
        group: u32,
        cluster: &Name,
        id: &Identity,
        effects: &mut Effects,
    ) {
        let Some(found) = self.next.group(group).filter(|g| g.cluster != *cluster) else {
            return;
        };
        let member = new_member(id, cluster.clone(), Name::from(&*id.broker_addr));
        effects.events.push(Event::NameInTwoClusters {
            broker: self.broker_ref(found, &member),
            group_cluster: found.cluster.clone(),
        });
    }

    fn filter_servers(&self, entry: &LiveEntry) -> Option<Arc<[Name]>> {
        self.next
            .group(entry.group)?
            .member_at(&entry.addr)?
            .filter_servers
            .clone()
    }

    fn member_addr(&self, group: u32, broker_id: i64) -> Name {
        let member = self.next.group(group).and_then(|g| g.member(broker_id));
        member.map_or_else(|| Name::from(""), |m| m.addr.clone())
    }

    fn cluster_name(&self, cluster: &str) -> Name {
        self.next
            .cluster(cluster)
            .map_or_else(|| Name::from(cluster), |c| c.name.clone())
    }
}

fn filter_bytes(servers: &FilterServers) -> usize {
    match servers {
        FilterServers::Unchanged => 0,
        FilterServers::List(list) => list.iter().map(|s| s.len() + NAME_BYTES).sum(),
    }
}

fn names_bytes(names: &[Name]) -> usize {
    names.iter().map(|name| name.len() + NAME_BYTES).sum()
}

fn new_member(id: &Identity, cluster: Name, addr: Name) -> Member {
    Member {
        id: id.broker_id,
        addr,
        cluster,
        filter_servers: None,
        filter_bytes: 0,
    }
}

/// S3: the last registration of any member decides; one without a zone clears it.
fn set_flags(group: &mut Group, r: &Registration) {
    group.enable_acting_master = r.enable_acting_master == Some(true);
    if group.zone_name.as_deref() != r.zone_name.as_deref() {
        group.zone_name = r.zone_name.as_deref().map(Name::from);
    }
}

fn same_flags(group: &Group, r: &Registration) -> bool {
    group.enable_acting_master == (r.enable_acting_master == Some(true))
        && group.zone_name.as_deref() == r.zone_name.as_deref()
}
