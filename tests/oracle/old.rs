//! Where Java 4.9.4 is followed instead of 5.3.3.
//!
//! Its registration has rules of its own, which are not modelled: here is only what tells
//! whether a request means the same to both, in the state that the oracle is in.

use super::rules::Identity;
use super::{Conn, Oracle, Rules, register};
use crate::support::request::Request;

/// Buckets of the broker table: a `ConcurrentHashMap` doubles what it is asked for.
const BROKER_BUCKETS: u32 = 256;
const OLD_BROKER_BUCKETS: u32 = 128;

impl Oracle {
    /// A server that follows Java 4.9.4 in these rules, as long as what it is asked
    /// [suits it](Self::suits_4_9).
    pub(crate) fn following_java_4_9(rules: Rules) -> Self {
        Self {
            old: true,
            ..Self::following_java(rules)
        }
    }

    /// Whether 4.9.4 does with this request what 5.3.3 does. It does not with
    ///
    /// - an address that another brokerName has: brokers are found by address alone
    /// - another cluster than the brokerName's: it takes no part in the search for the master
    /// - an id that another address has: no conflict rule, and the old one expires by itself
    /// - one topic of an id that is new: 5.x refuses it
    /// - a topic that is new under an equal DataVersion: all topics are taken over, or none
    /// - a second broker of a connection: which one ends first depends on a hash table by address
    /// - a 104 of an id that another address has, or none: brokers leave by id, not by address
    /// - a 322 in another cluster than the address is in: the cluster is not looked at
    pub(crate) fn suits_4_9(&self, conn: Conn, req: &Request, now_ms: u64) -> bool {
        match req.code {
            103 => !self.is_shared(req) && self.registers_as_before(conn, req, now_ms as i64),
            104 => self.leaves_by_both(req),
            322 => {
                let (cluster, addr) = (req.field("clusterName"), req.field("brokerAddr"));
                let mut same = self.live.keys().filter(|key| addr == Some(&key.1));
                same.all(|key| cluster == Some(&key.0))
            }
            _ => true,
        }
    }

    fn registers_as_before(&self, conn: Conn, req: &Request, now: i64) -> bool {
        let (Some(what), Some(who)) = (register::read(req, now, false), identity(req)) else {
            return true; // refused by both
        };
        let others = |(_, addr): &(String, String)| *addr != who.addr;
        let mut carried = self.live.iter().filter(|(_, live)| live.conn == conn);
        if carried.any(|(key, _)| others(key)) {
            return false;
        }
        let group = self.groups.get(&who.name);
        if group.is_some_and(|group| group.cluster != who.cluster) {
            return false;
        }
        match group.and_then(|group| group.members.get(&who.id)) {
            None => what.topics.len() != 1,
            Some(member) if member.addr != who.addr => false,
            Some(_) => {
                let there = |topic: &str| {
                    let queues = self.topics.get(topic);
                    queues.is_some_and(|queues| queues.contains_key(&who.name))
                };
                who.id != 0
                    || self.version_changed(&who, &what)
                    || what.topics.iter().all(|topic| there(&topic.name))
            }
        }
    }

    fn leaves_by_both(&self, req: &Request) -> bool {
        let id = req.field("brokerId").and_then(|id| id.parse().ok());
        let group = req
            .field("brokerName")
            .and_then(|name| self.groups.get(name));
        let member = group.and_then(|group| group.members.get(&id?));
        let (cluster, addr) = (req.field("clusterName"), req.field("brokerAddr"));
        match member {
            Some(member) => addr == Some(&member.addr) && cluster == Some(&member.cluster),
            None => !self.live.keys().any(|key| addr == Some(&key.1)),
        }
    }

    pub(super) fn broker_buckets(&self) -> u32 {
        if self.old {
            OLD_BROKER_BUCKETS
        } else {
            BROKER_BUCKETS
        }
    }
}

fn identity(req: &Request) -> Option<Identity> {
    let text = |key| req.field(key).map(str::to_owned);
    Some(Identity {
        cluster: text("clusterName")?,
        name: text("brokerName")?,
        addr: text("brokerAddr")?,
        id: text("brokerId")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::request::VersionSpec;
    use crate::support::request::{Body, FilterSpec, RegisterForm, RegisterSpec, TopicSpec};

    fn who(code: i32, [cluster, name, addr]: [&str; 3], id: i64) -> Request {
        Request::new(code)
            .with("clusterName", cluster)
            .with("brokerName", name)
            .with("brokerAddr", addr)
            .with("brokerId", &id.to_string())
    }

    fn registration(at: [&str; 3], id: i64, topics: &[&str], counter: i64) -> Request {
        let topic = |name: &&str| TopicSpec {
            key: (*name).to_owned(),
            name: (*name).to_owned(),
            read: 8,
            write: 8,
            perm: 6,
            sys_flag: 0,
        };
        let mut req = who(103, at, id);
        req.body = Body::Register(RegisterSpec {
            form: RegisterForm::V4,
            topics: topics.iter().map(topic).collect(),
            data_version: Some(VersionSpec {
                state: 0,
                counter,
                timestamp: Some(1000),
            }),
            mappings: Vec::new(),
            filters: FilterSpec::Absent,
        });
        req
    }

    #[test]
    fn only_what_means_the_same_suits() {
        const MASTER: [&str; 3] = ["C", "b", "a:1"];
        const SLAVE: [&str; 3] = ["C", "b", "a:2"];
        let mut oracle = Oracle::following_java_4_9(Rules::ALL);
        let conns = [oracle.connect(), oracle.connect()];
        oracle.request(conns[0], &registration(MASTER, 0, &["T", "U"], 1), 10);
        let reg = |at, id, topics, counter| registration(at, id, topics, counter);
        let cases = [
            (0, reg(MASTER, 0, &["T"], 1), true),
            (0, reg(MASTER, 0, &["T", "V"], 2), true),
            (0, reg(MASTER, 0, &["T", "V"], 1), false),
            (0, reg(MASTER, 1, &["T", "U"], 1), true),
            (0, reg(MASTER, 1, &["T"], 1), false),
            (1, reg(MASTER, 0, &["T"], 1), true),
            (1, reg(SLAVE, 1, &["T", "U"], 1), true),
            (0, reg(SLAVE, 1, &["T", "U"], 1), false),
            (1, reg(SLAVE, 0, &["T", "U"], 1), false),
            (1, reg(["D", "b", "a:2"], 1, &[], 1), false),
            (1, reg(["C", "c", "a:1"], 0, &[], 1), false),
            (1, who(104, MASTER, 0), true),
            (1, who(104, MASTER, 1), false),
            (1, who(104, SLAVE, 0), false),
            (1, who(104, SLAVE, 1), true),
            (1, who(104, ["D", "b", "a:1"], 0), false),
            (1, who(322, MASTER, 0), true),
            (1, who(322, SLAVE, 0), true),
            (1, who(322, ["D", "b", "a:1"], 0), false),
        ];
        for (conn, req, suits) in cases {
            assert_eq!(oracle.suits_4_9(conns[conn], &req, 20), suits, "{req:?}");
        }
    }
}
