//! What Java 5.3.3 does where a rule says that we do something else.
//!
//! Literal, defects included: orphans, ghosts, dangling names. Where Java takes the first of a
//! hash table, so does this, with the capacities and the hash of its tables.

use std::collections::BTreeMap;

use super::query::Route;
use super::{Conn, Group, Member, Oracle, Queue, Rule, key};
use crate::support::request::Request;

/// Stands for an address that a request lacks.
pub(super) const NULL: &str = "\0null";
/// Buckets of the live table, and of a small `HashMap`.
const LIVE_BUCKETS: u32 = 512;
const SMALL_BUCKETS: u32 = 16;

/// `UnRegisterBrokerRequestHeader`.
#[derive(Debug, Default)]
pub(super) struct Unregister {
    cluster: Option<String>,
    addr: Option<String>,
    name: Option<String>,
    id: Option<i64>,
}

impl Unregister {
    pub(super) fn of(req: &Request) -> Self {
        let text = |key| req.field(key).map(str::to_owned);
        Self {
            cluster: text("clusterName"),
            addr: text("brokerAddr"),
            name: text("brokerName"),
            id: req.field("brokerId").and_then(|id| id.parse().ok()),
        }
    }
}

impl Oracle {
    /// `unRegisterBroker` for a batch of one. Each early return is an exception that abandons
    /// the rest.
    pub(super) fn java_unregister(&mut self, req: &Unregister) {
        let (Some(cluster), Some(addr)) = (&req.cluster, &req.addr) else {
            return;
        };
        self.live.remove(&key(cluster, addr));
        self.filters.remove(&key(cluster, addr));
        let Some(name) = &req.name else {
            return;
        };
        if let Some(group) = self.groups.get_mut(name) {
            if !group.members.is_empty() && req.id.is_none() {
                return;
            }
            group.members.retain(|_, member| member.addr != *addr);
            if group.members.is_empty() {
                return self.remove_group_of(name, Some(cluster));
            }
        }
        self.write_protect_without_master(name);
    }

    /// Whether an entry outlived its expiry: Java's scan meets it again and again.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        self.live.values().any(|live| live.expired(now_ms as i64))
    }

    /// Whether another group has the address: then it is a matter of luck in Java which of them
    /// loses it at an expiry, or whether both do.
    pub(crate) fn is_shared(&self, req: &Request) -> bool {
        let (name, addr) = (req.field("brokerName"), req.field("brokerAddr"));
        let mut others = self.groups.iter().filter(|(other, _)| name != Some(other));
        others.any(|(_, group)| {
            let mut members = group.members.values();
            members.any(|member| addr == Some(&member.addr))
        })
    }

    /// Requests that take something away from a server that is not empty; after a few rounds
    /// nothing is left.
    pub(crate) fn leftovers(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        let who = |code, cluster: &str, name: &str, addr: &str, id: i64| {
            Request::new(code)
                .with("clusterName", cluster)
                .with("brokerName", name)
                .with("brokerAddr", addr)
                .with("brokerId", &id.to_string())
        };
        let conf = self.kv.get("ORDER_TOPIC_CONFIG");
        for key in conf.into_iter().flat_map(BTreeMap::keys) {
            let kv = Request::new(102).with("namespace", "ORDER_TOPIC_CONFIG");
            requests.push(kv.with("key", key));
        }
        for (name, group) in &self.groups {
            for (id, member) in &group.members {
                requests.push(who(104, &group.cluster, name, &member.addr, *id));
            }
            if group.members.is_empty() {
                requests.push(who(104, &group.cluster, name, "-", 0));
            }
        }
        if !requests.is_empty() {
            return requests;
        }
        for (cluster, names) in &self.clusters {
            for name in names {
                requests.push(who(103, cluster, name, "-", 0));
                requests.push(who(104, cluster, name, "-", 0));
            }
        }
        // a loser of S6 has lost its live entry, but not its filter servers
        let table = self.java.has(Rule::FilterServers).then_some(&self.filters);
        let filters = table.into_iter().flat_map(BTreeMap::keys);
        for (cluster, addr) in self.live.keys().chain(filters) {
            requests.push(who(104, cluster, "-", addr, 0));
        }
        requests
    }

    /// `onChannelDestroy`: the first live entry of the connection, and nothing else.
    pub(super) fn java_close(&mut self, conn: Conn) {
        let first = self
            .live
            .iter()
            .filter(|(_, live)| live.conn == conn)
            .min_by_key(|((cluster, addr), live)| {
                let place = bucket(&format!("{cluster}_{addr}"), LIVE_BUCKETS);
                (place, live.born)
            });
        if let Some((key, _)) = first {
            self.java_lost(&key.clone());
        }
    }

    /// `scanNotActiveBroker`, and the closes that follow from it.
    pub(super) fn java_expire(&mut self, now: i64) {
        let expired = self.live.iter().filter(|(_, live)| live.expired(now));
        let expired: Vec<_> = expired
            .map(|(key, live)| (key.clone(), live.conn))
            .collect();
        for (key, _) in &expired {
            self.java_lost(key);
        }
        for (_, conn) in expired {
            self.java_close(conn);
        }
    }

    /// `setupUnRegisterRequest`: the first group of that cluster which has the address.
    fn java_lost(&mut self, (cluster, addr): &(String, String)) {
        let holder = |group: &Group| {
            let mut members = group.members.iter();
            members
                .find(|(_, member)| member.addr == *addr)
                .map(|(id, _)| *id)
        };
        let found = self
            .groups
            .iter()
            .filter(|(_, group)| group.cluster == *cluster)
            .filter_map(|(name, group)| Some((name, group, holder(group)?)))
            .min_by_key(|(name, group, _)| (bucket(name, self.broker_buckets()), group.born));
        if let Some((name, _, id)) = found {
            let req = Unregister {
                cluster: Some(cluster.clone()),
                addr: Some(addr.clone()),
                name: Some(name.clone()),
                id: Some(id),
            };
            self.java_unregister(&req);
        }
    }

    /// Filter servers by (cluster of the group, address), whoever registered them.
    pub(super) fn java_filters(
        &self,
        route: &Route,
        out_of_zone: &[(String, Group)],
    ) -> BTreeMap<String, Vec<String>> {
        let mut filters = BTreeMap::new();
        let mut groups: Vec<_> = out_of_zone
            .iter()
            .map(|(name, group)| (name, group))
            .collect();
        groups.extend(&route.groups);
        groups.sort_by_key(|(name, _)| bucket(name, SMALL_BUCKETS));
        for (_, group) in groups {
            for member in group.members.values() {
                // where two groups have an address, the last one counts, and may have none
                match self.filters.get(&key(&group.cluster, &member.addr)) {
                    Some(list) => filters.insert(member.addr.clone(), list.clone()),
                    None => filters.remove(&member.addr),
                };
            }
        }
        for member in out_of_zone
            .iter()
            .flat_map(|(_, group)| group.members.values())
        {
            filters.remove(&member.addr);
        }
        filters
    }

    /// The first address of the first group that has one.
    pub(super) fn java_first_address(&self) -> Option<&str> {
        let group = self
            .groups
            .iter()
            .filter(|(_, group)| !group.members.is_empty())
            .min_by_key(|(name, group)| (bucket(name, self.broker_buckets()), group.born))?
            .1;
        let place = |id: i64| (id as u32 ^ (id >> 32) as u32) & (SMALL_BUCKETS - 1);
        let first: Option<(&i64, &Member)> = group
            .members
            .iter()
            .min_by_key(|(id, member)| (place(**id), member.born));
        first.map(|(_, member)| member.addr.as_str())
    }
}

/// The first queue data of a topic: names that share a bucket are not in the tests' pools.
pub(super) fn first_queue(queues: &BTreeMap<String, Queue>) -> Option<&Queue> {
    let first = queues
        .iter()
        .min_by_key(|(name, _)| bucket(name, SMALL_BUCKETS));
    first.map(|(_, queue)| queue)
}

/// The place of a string in a hash table of so many buckets.
fn bucket(text: &str, buckets: u32) -> u32 {
    let step = |hash: u32, unit: u16| hash.wrapping_mul(31).wrapping_add(u32::from(unit));
    let hash = text.encode_utf16().fold(0, step);
    (hash ^ hash >> 16) & (buckets - 1)
}
