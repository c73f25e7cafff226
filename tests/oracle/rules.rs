//! Every place where the oracle is deliberately not Java 5.3.3, one function each.
//!
//! The doc of a function says what Java does and why it is not done here. What is not in this
//! file is meant to be Java's behaviour. Each rule has a name, and an oracle may follow Java in
//! any choice of them (`super::java` has what Java does): the differential test expects from
//! Java what the oracle says that follows Java in all, and from us what the one says that
//! follows it in none.

use std::collections::{BTreeMap, BTreeSet};

use super::query::Route;
use super::{Answer, Conn, DataVersion, Group, Live, Member, Notification, Oracle, java, key};
use crate::support::request::{Body, Request};

/// The name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Identity,
    NullWrapper,
    SingleTopic,
    OldHolder,
    StandardMembers,
    ZoneForm,
    FilterServers,
    RenamedBroker,
    ReplacedMember,
    Unregister,
    Close,
    Expiry,
    ClusterSets,
    Mappings,
    FirstSysFlag,
    FirstAddress,
}

impl Rule {
    pub(crate) const ALL: [Self; 16] = [
        Self::Identity,
        Self::NullWrapper,
        Self::SingleTopic,
        Self::OldHolder,
        Self::StandardMembers,
        Self::ZoneForm,
        Self::FilterServers,
        Self::RenamedBroker,
        Self::ReplacedMember,
        Self::Unregister,
        Self::Close,
        Self::Expiry,
        Self::ClusterSets,
        Self::Mappings,
        Self::FirstSysFlag,
        Self::FirstAddress,
    ];
}

/// A choice of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(u32);

impl Rules {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self((1 << Rule::ALL.len()) - 1);

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u32 & 1 == 1
    }

    pub(crate) fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u32))
    }
}

/// The identity that a 103 claims.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) cluster: String,
    pub(super) name: String,
    pub(super) addr: String,
    pub(super) id: i64,
}

impl Oracle {
    /// **A 103 without an identity is refused.** Java answers 0 and leaves nulls in its tables
    /// when brokerName, brokerAddr or clusterName is missing; a bad brokerId is an exception.
    pub(super) fn identity(&mut self, req: &Request) -> Result<Identity, Answer> {
        let id = req.field("brokerId").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(Answer::refused)?;
        let text = |key| req.field(key).map(str::to_owned);
        let who = (text("clusterName"), text("brokerName"), text("brokerAddr"));
        if let (Some(cluster), Some(name), Some(addr)) = who {
            return Ok(Identity {
                cluster,
                name,
                addr,
                id,
            });
        }
        if !self.java.has(Rule::Identity) {
            return Err(Answer::refused());
        }
        if let (Some(cluster), Some(name), None) = who {
            let addr = java::NULL.to_owned();
            return Ok(Identity {
                cluster,
                name,
                addr,
                id,
            });
        }
        // without a cluster nothing is stored; without a name a null is in its set, for ever
        self.poisoned |= who.0.is_some();
        Err(self.registered(None, None))
    }

    /// **A wrapper that is `null` is refused.** In Java the registration ends half way, or
    /// brings no topics if the broker is known.
    pub(super) fn null_wrapper(&self, req: &Request) -> bool {
        let null = |bytes: &Vec<u8>| bytes == b"{\"topicConfigSerializeWrapper\":null}";
        self.java.has(Rule::NullWrapper)
            && req.version >= 37
            && req.field("compressed") != Some("true")
            && matches!(&req.body, Body::Raw(bytes) if null(bytes))
    }

    /// **The single-topic guard (S7) changes nothing at all.** Java keeps S1–S5 (cluster set,
    /// zone, acting flag, removal of the address's other id, an empty group), so a refused broker
    /// disturbs those who are there. The guard's own condition is Java's: S5 removes other ids
    /// only, so it can be asked before S5.
    pub(super) fn single_topic_guard(&self, name: &str, id: i64, topics: usize) -> bool {
        let group = self.groups.get(name);
        !self.java.has(Rule::SingleTopic)
            && topics == 1
            && !group.is_some_and(|group| group.members.contains_key(&id))
    }

    /// **An expired old holder loses a conflict (S6).** In Java it wins until the scan comes by.
    /// A missing DataVersion counts as state version 0, where Java throws half way: none.
    pub(super) fn old_holder_wins(
        &self,
        old: &Live,
        new: Option<DataVersion>,
        now: i64,
    ) -> Option<bool> {
        if self.java.has(Rule::OldHolder) {
            return Some(old.version?.state > new?.state);
        }
        let state = |version: Option<DataVersion>| version.map_or(0, |v| v.state);
        Some(!old.expired(now) && state(old.version) > state(new))
    }

    /// **106 and 901 quote their keys on demand.** Java writes the ids bare for everyone; with
    /// acceptStandardJsonOnly the answer is in the standard form as a whole.
    pub(super) fn standard_members(&self, req: &Request) -> bool {
        !self.java.has(Rule::StandardMembers) && standard_json_only(req)
    }

    /// **The zone filter keeps the form that was asked for.** Java re-encodes in the legacy form.
    pub(super) fn standard_route(&self, req: &Request, zoned: bool) -> bool {
        (req.version >= 401 || standard_json_only(req)) && !(zoned && self.java.has(Rule::ZoneForm))
    }
}

fn standard_json_only(req: &Request) -> bool {
    req.field("acceptStandardJsonOnly")
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

impl Oracle {
    /// **A member's filter servers are its own.** Java looks for (cluster of the group, address
    /// of the member) in its filter table, and may find what another brokerName registered.
    /// Here members and live entries are one to one, and the filter servers of a member show
    /// only if it registered with the cluster of its group. **They are looked up for the groups
    /// that the zone filter keeps**; Java drops an address with the group that it filters out,
    /// even if a kept group has a member there too.
    pub(super) fn filters_of(
        &self,
        route: &Route,
        out_of_zone: &[(String, Group)],
    ) -> BTreeMap<String, Vec<String>> {
        if self.java.has(Rule::FilterServers) {
            return self.java_filters(route, out_of_zone);
        }
        let mut filters = BTreeMap::new();
        for group in route.groups.values() {
            for member in group
                .members
                .values()
                .filter(|m| m.cluster == group.cluster)
            {
                let live = self.live.get(&key(&member.cluster, &member.addr));
                if let Some(list) = live.and_then(|live| live.filters.clone()) {
                    filters.insert(member.addr.clone(), list);
                }
            }
        }
        filters
    }

    /// **A renamed broker leaves its old name.** Java keeps (cluster, address) in both groups,
    /// one of which never expires. Here the old name's member is unregistered first. As in Java
    /// the live entry stays until S11, so that DataVersion and filter servers are those of the
    /// address, whatever its name was.
    pub(super) fn leave_other_names(&mut self, who: &Identity) {
        if self.java.has(Rule::RenamedBroker) {
            return;
        }
        let kept = self.live.get(&key(&who.cluster, &who.addr)).cloned();
        self.unregister(|name, _, member| {
            *name != who.name && member.cluster == who.cluster && member.addr == who.addr
        });
        if let Some(live) = kept {
            self.live.insert(key(&who.cluster, &who.addr), live);
        }
    }

    /// **A replaced member's live entry goes in the same command** (S5, S8). Java leaves an
    /// orphan that never expires. Not an unregistration: no permission is touched. `kept` is
    /// the live entry that the registering broker goes on using.
    pub(super) fn drop_live_of(&mut self, member: &Member, kept: &Identity) {
        let other = member.cluster != kept.cluster || member.addr != kept.addr;
        if other && !self.java.has(Rule::ReplacedMember) {
            self.live.remove(&key(&member.cluster, &member.addr));
        }
    }

    /// **104 is applied before it is answered, by address, whatever is missing.** Java queues
    /// it, trips over a missing brokerId, and leaves the half that a wrong name or cluster
    /// does not match. Here it ends the live entry (cluster, address) with its member, and the
    /// member of the named group that has the address with its live entry. As in Java the named
    /// group is checked for a missing master even if nothing was removed from it.
    pub(super) fn unregister_request(&mut self, req: &Request) -> Answer {
        if self.java.has(Rule::Unregister) {
            self.java_unregister(&java::Unregister::of(req));
            return Answer::success();
        }
        let field = |key| req.field(key);
        let (cluster, name) = (field("clusterName"), field("brokerName"));
        if let Some(addr) = field("brokerAddr") {
            self.unregister(|group, _, member| {
                member.addr == addr
                    && (Some(member.cluster.as_str()) == cluster || Some(group.as_str()) == name)
            });
        }
        if let Some(name) = name {
            self.write_protect_without_master(name);
        }
        Answer::success()
    }

    /// **A closed connection takes all that it registered last.** Java finds one broker per
    /// close event, and searches by the group's cluster.
    pub(super) fn unregister_conn(&mut self, conn: Conn) {
        if self.java.has(Rule::Close) {
            return self.java_close(conn);
        }
        self.unregister_live(|live| live.conn == conn);
    }

    /// **An expiry takes exactly the expired entries, and closes a connection when no other is
    /// left on it.** Java closes it always, which takes another entry that it has.
    pub(super) fn expire(&mut self, now: i64) -> BTreeSet<Conn> {
        let expired = |live: &Live| live.expired(now);
        let gone = self.live.values().filter(|live| expired(live));
        let mut ended: BTreeSet<Conn> = gone.map(|live| live.conn).collect();
        if self.java.has(Rule::Expiry) {
            self.java_expire(now);
            return ended;
        }
        self.unregister_live(expired);
        for live in self.live.values() {
            ended.remove(&live.conn);
        }
        ended
    }

    fn unregister_live(&mut self, gone: impl Fn(&Live) -> bool) {
        let keys: Vec<_> = self
            .live
            .iter()
            .filter(|(_, live)| gone(live))
            .map(|(key, _)| key.clone())
            .collect();
        self.unregister(|_, _, member| keys.contains(&key(&member.cluster, &member.addr)));
    }

    /// `unRegisterBroker` for a batch of members. As in Java one command is one batch, the
    /// WRITE clean-up of acting groups comes after all removals, and there is one 905 per
    /// group. **Here the 905 is decided by the members that went**, not by the id that the
    /// request claims, and it names the lowest of them as offline; Java names the last one
    /// of an unordered batch.
    fn unregister(&mut self, gone: impl Fn(&String, i64, &Member) -> bool) {
        let before = self.groups.clone();
        let mut touched = Vec::new();
        for (name, group) in &before {
            let leaving: Vec<_> = group
                .members
                .iter()
                .filter(|(id, m)| gone(name, **id, m))
                .collect();
            for (id, member) in &leaving {
                self.live.remove(&key(&member.cluster, &member.addr));
                if let Some(group) = self.groups.get_mut(name) {
                    group.members.remove(id);
                }
            }
            if let Some((id, first)) = leaving.first() {
                let was_min = group.members.keys().next() == Some(id);
                touched.push((name, was_min.then(|| first.addr.clone())));
            }
        }
        for (name, offline) in touched {
            let Some(group) = self.groups.get(name).cloned() else {
                continue;
            };
            if group.members.is_empty() {
                self.remove_group(name);
                continue;
            }
            self.write_protect_without_master(name);
            if let Some(offline) = offline
                && group.acting
            {
                self.notify_min_id(&group, Some(offline), None);
            }
        }
    }

    pub(super) fn write_protect_without_master(&mut self, name: &str) {
        // as Java asks it here (`isNoMasterExists`): an id below 0 passes for a master
        let no_master = |group: &Group| group.members.keys().next().is_none_or(|min| *min > 0);
        let acting = |group: &Group| group.acting && no_master(group);
        if self.groups.get(name).is_some_and(acting) {
            for queues in self.topics.values_mut() {
                if let Some(queue) = queues.get_mut(name) {
                    queue.perm &= !2;
                }
            }
        }
    }

    /// **A group that is gone leaves every cluster set.** Java removes the name from the set
    /// that the 104 named. **Its mappings go too**, those that point at it and those that it
    /// registered; Java never removes one.
    fn remove_group(&mut self, name: &str) {
        self.remove_group_of(name, None);
    }

    /// `asked` is the cluster that a 104 or a live entry names.
    pub(super) fn remove_group_of(&mut self, name: &str, asked: Option<&str>) {
        self.groups.remove(name);
        let only = asked.filter(|_| self.java.has(Rule::ClusterSets));
        for (cluster, names) in &mut self.clusters {
            if only.is_none_or(|only| only == cluster) {
                names.remove(name);
            }
        }
        self.clusters.retain(|_, names| !names.is_empty());
        let topics: Vec<_> = self.topics.keys().cloned().collect();
        for topic in topics {
            self.remove_queue(&topic, name);
        }
        if self.java.has(Rule::Mappings) {
            return;
        }
        for mappings in self.mappings.values_mut() {
            mappings.retain(|bname, mapping| bname != name && mapping.owner != name);
        }
        self.mappings.retain(|_, mappings| !mappings.is_empty());
    }

    /// A broker leaves a topic, and an empty topic ends, as in Java. **The mappings of that
    /// topic that point at the broker, or that it registered, go with it.**
    pub(super) fn remove_queue(&mut self, topic: &str, name: &str) {
        let Some(queues) = self.topics.get_mut(topic) else {
            return;
        };
        if queues.remove(name).is_none() {
            return;
        }
        if queues.is_empty() {
            return self.remove_topic(topic);
        }
        let kept = self.java.has(Rule::Mappings);
        if let Some(mappings) = self.mappings.get_mut(topic).filter(|_| !kept) {
            mappings.retain(|bname, mapping| bname != name && mapping.owner != name);
            if mappings.is_empty() {
                self.mappings.remove(topic);
            }
        }
    }

    /// A topic ends, as in Java. **All of its mappings go with it.**
    pub(super) fn remove_topic(&mut self, topic: &str) {
        self.topics.remove(topic);
        if !self.java.has(Rule::Mappings) {
            self.mappings.remove(topic);
        }
    }

    /// **An absent mapping is added even under an equal DataVersion** (S10c): it may have been
    /// removed with its topic since, which never happens in Java.
    pub(super) fn mapping_absent(&self, topic: &str, bname: &str) -> bool {
        let there = |mappings: &BTreeMap<String, _>| mappings.contains_key(bname);
        !self.java.has(Rule::Mappings) && !self.mappings.get(topic).is_some_and(there)
    }

    /// `notifyMinBrokerIdChanged`. Order of the list: by id; the wire promises none.
    pub(super) fn notify_min_id(
        &mut self,
        group: &Group,
        offline: Option<String>,
        ha: Option<String>,
    ) {
        if !self.switches.notify_min_broker_id_changed {
            return;
        }
        let Some((min_id, min)) = group.members.iter().next() else {
            return;
        };
        let all = offline.is_some() || group.members.len() == 1;
        let mut ext = Vec::new();
        ext.extend(ha.map(|ha| ("haBrokerAddr", ha)));
        ext.extend(offline.map(|addr| ("offlineBrokerAddr", addr)));
        ext.push(("minBrokerAddr", min.addr.clone()));
        ext.push(("minBrokerId", min_id.to_string()));
        for (id, member) in &group.members {
            if all || id != min_id {
                let to = member.addr.clone();
                self.notifications.push(Notification {
                    to,
                    ext: ext.clone(),
                });
            }
        }
    }

    /// **311–313 judge a topic by its first queue data in broker-name order.** Java takes an
    /// arbitrary one.
    pub(super) fn first_sys_flag(&self, topic: &str) -> Option<i32> {
        let queues = self.topics.get(topic)?;
        if self.java.has(Rule::FirstSysFlag) {
            return java::first_queue(queues).map(|queue| queue.sys_flag);
        }
        queues.values().next().map(|queue| queue.sys_flag)
    }

    /// **304 names the lowest id of the first group in name order.** Java takes the first that
    /// its hash order yields.
    pub(super) fn some_broker_addr(&self) -> Option<&str> {
        if self.java.has(Rule::FirstAddress) {
            return self.java_first_address();
        }
        self.groups
            .values()
            .find_map(|g| g.members.values().next())
            .map(|m| m.addr.as_str())
    }

    /// The invariants behind the rules; panics when the oracle itself is wrong.
    pub(crate) fn check(&self) {
        let mut live: Vec<_> = self
            .groups
            .values()
            .flat_map(|group| group.members.values().map(|m| key(&m.cluster, &m.addr)))
            .collect();
        live.sort_unstable();
        assert!(
            live.iter().eq(self.live.keys()),
            "members and live entries differ: {self:#?}"
        );
        assert!(
            self.groups.values().all(|group| !group.members.is_empty()),
            "{self:#?}"
        );
        let named = |name: &String| self.clusters.values().any(|names| names.contains(name));
        assert!(
            self.groups.keys().all(named),
            "group without a cluster: {self:#?}"
        );
        let grouped = |name: &String| self.groups.contains_key(name);
        assert!(self.clusters.values().flatten().all(grouped), "{self:#?}");
        assert!(
            self.topics.values().all(|queues| !queues.is_empty()),
            "{self:#?}"
        );
        assert!(
            self.topics
                .values()
                .flat_map(|queues| queues.keys())
                .all(grouped),
            "{self:#?}"
        );
    }
}
