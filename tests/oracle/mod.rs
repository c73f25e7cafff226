//! The oracle: what a NameServer must answer, read literally from the rules of Java 5.3.3.
//!
//! Plain ordered maps, full scans, no sharing and no caching: slow, and short enough to be
//! compared with the description line by line. It uses nothing of `src/`, so no mistake is
//! shared. Every place where the answer is deliberately not Java's is in [`rules`].
//!
//! Deliberately absent: limits, overload, everything below a decoded request.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod java;
mod json;
mod old;
mod query;
mod register;
mod rules;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_conflict;
#[cfg(test)]
mod tests_topics;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::answer::Answer;
use crate::support::request::{Body, MappingSpec, NOTHING, QueueSpec, Request};
#[allow(unused_imports, reason = "each test binary uses its own part")]
pub(crate) use rules::{Rule, Rules};

/// A connection; never reused.
pub(crate) type Conn = u64;

/// The configuration keys that change an answer, with Java's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    order_message_enable: bool,
    return_order_topic_config_to_broker: bool,
    support_acting_master: bool,
    enable_all_topic_list: bool,
    enable_topic_list: bool,
    notify_min_broker_id_changed: bool,
    delete_topic_with_broker_registration: bool,
    need_wait_for_service: bool,
    wait_seconds_for_service: i64,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            support_acting_master: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            notify_min_broker_id_changed: false,
            delete_topic_with_broker_registration: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
        }
    }
}

/// A 905 that the server sends to a broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notification {
    /// The registered address it goes to.
    pub(crate) to: String,
    /// In the order of the wire.
    pub(crate) ext: Vec<(&'static str, String)>,
}

/// The whole state of a NameServer that started at time 0.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    switches: Switches,
    /// namespace, key, value; a put without a value stores none
    kv: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// cluster, brokerNames
    clusters: BTreeMap<String, BTreeSet<String>>,
    /// by brokerName
    groups: BTreeMap<String, Group>,
    /// by (cluster, brokerAddr)
    live: BTreeMap<(String, String), Live>,
    /// topic, brokerName
    topics: BTreeMap<String, BTreeMap<String, Queue>>,
    /// topic, bname
    mappings: BTreeMap<String, BTreeMap<String, Mapping>>,
    last_conn: Conn,
    notifications: Vec<Notification>,
    /// In which of the rules it follows Java.
    java: Rules,
    /// Java is 4.9.4.
    old: bool,
    /// Java's filter server table; ours is part of the live entries.
    filters: BTreeMap<(String, String), Vec<String>>,
    /// Java has a null in its tables, which is not modelled.
    poisoned: bool,
    births: u64,
}

/// `BrokerData`.
#[derive(Clone, Debug, Default)]
struct Group {
    cluster: String,
    acting: bool,
    zone: Option<String>,
    members: BTreeMap<i64, Member>,
    born: u64,
}

/// One entry of `brokerAddrs`, with the cluster under which its live entry is filed.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    cluster: String,
    addr: String,
    born: u64,
}

/// `BrokerLiveInfo` and the entry of the filter server table.
#[derive(Clone, Debug)]
struct Live {
    last_ms: i64,
    timeout_ms: i64,
    version: Option<DataVersion>,
    conn: Conn,
    ha: Option<String>,
    filters: Option<Vec<String>>,
    /// When its key came into the table: hash tables keep that order within a bucket.
    born: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataVersion {
    counter: i64,
    state: i64,
    timestamp: i64,
}

/// `QueueData` without the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    read: i32,
    write: i32,
    perm: i32,
    sys_flag: i32,
}

#[derive(Clone, Debug)]
struct Mapping {
    info: MappingSpec,
    /// The brokerName that registered it last.
    owner: String,
}

impl Oracle {
    /// A server with these keys in its configuration file.
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let mut oracle = Self::default();
        for (key, value) in settings {
            oracle.set_switch(key, value);
        }
        oracle
    }

    /// A server that follows Java in these rules.
    pub(crate) fn following_java(rules: Rules) -> Self {
        Self {
            java: rules,
            ..Self::default()
        }
    }

    /// Whether Java has got into a state that is not modelled.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// A new connection.
    pub(crate) fn connect(&mut self) -> Conn {
        self.last_conn += 1;
        self.last_conn
    }

    /// Executes a request; none for a one-way.
    pub(crate) fn request(&mut self, conn: Conn, req: &Request, now_ms: u64) -> Option<Answer> {
        let now = now_ms as i64;
        let answer = match req.code {
            100 => self.put_kv(req),
            101 => self.get_kv(req),
            102 => self.delete_kv(req),
            103 => self.register(conn, req, now),
            104 => self.unregister_request(req),
            105 => self.route(req, now),
            106 => self.cluster_info(req),
            205 => self.wipe_write_perm(req),
            206 => self.all_topics(),
            216 => self.delete_topic(req),
            217 => self.register_topic(req),
            219 => self.list_kv(req),
            224 => self.topics_of_cluster(req),
            304 => self.system_topics(),
            311 => self.unit_topics(|flag| flag & 1 != 0),
            312 => self.unit_topics(|flag| flag & 2 != 0),
            313 => self.unit_topics(|flag| flag & 2 != 0 && flag & 1 == 0),
            318 => self.update_config(req),
            322 => self.query_data_version(req, now),
            327 => self.add_write_perm(req),
            901 => self.member_group(req),
            904 => self.heartbeat(req, now),
            code => Answer::failure(3, &format!(" request type {code} not supported")),
        };
        (!req.oneway).then_some(answer)
    }

    /// The connection ends: everything that it registered last is unregistered.
    pub(crate) fn close(&mut self, conn: Conn) {
        self.unregister_conn(conn);
    }

    /// `scanNotActiveBroker`. Returns the connections that the server closes.
    pub(crate) fn tick(&mut self, now_ms: u64) -> BTreeSet<Conn> {
        self.expire(now_ms as i64)
    }

    /// The 905s since the last call.
    pub(crate) fn notifications(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.notifications)
    }

    /// A key of `namesrv.properties`, or of 318.
    pub(crate) fn set_switch(&mut self, key: &str, value: &str) {
        let on = value.eq_ignore_ascii_case("true");
        let switches = &mut self.switches;
        match key {
            "orderMessageEnable" => switches.order_message_enable = on,
            "returnOrderTopicConfigToBroker" => switches.return_order_topic_config_to_broker = on,
            "supportActingMaster" => switches.support_acting_master = on,
            "enableAllTopicList" => switches.enable_all_topic_list = on,
            "enableTopicList" => switches.enable_topic_list = on,
            "notifyMinBrokerIdChanged" => switches.notify_min_broker_id_changed = on,
            "deleteTopicWithBrokerRegistration" => {
                switches.delete_topic_with_broker_registration = on;
            }
            "needWaitForService" => switches.need_wait_for_service = on,
            "waitSecondsForService" => {
                if let Ok(seconds) = value.parse() {
                    switches.wait_seconds_for_service = seconds;
                }
            }
            _ => {}
        }
    }

    /// 318 with plain `key=value` lines, which is all that the tests send.
    fn update_config(&mut self, req: &Request) -> Answer {
        if let Body::Raw(bytes) = &req.body {
            for line in String::from_utf8_lossy(bytes).lines() {
                if let Some((key, value)) = line.split_once('=') {
                    self.set_switch(key, value);
                }
            }
        }
        Answer::success()
    }

    fn put_kv(&mut self, req: &Request) -> Answer {
        let (Some(namespace), Some(key)) = (req.field("namespace"), req.field("key")) else {
            return Answer::failure(1, "namespace or key is null");
        };
        let value = req.field("value").map(str::to_owned);
        self.kv
            .entry(namespace.to_owned())
            .or_default()
            .insert(key.to_owned(), value);
        Answer::success()
    }

    fn delete_kv(&mut self, req: &Request) -> Answer {
        if let (Some(namespace), Some(key)) = (req.field("namespace"), req.field("key"))
            && let Some(table) = self.kv.get_mut(namespace)
        {
            table.remove(key);
        }
        Answer::success()
    }

    fn heartbeat(&mut self, req: &Request, now: i64) -> Answer {
        let (Some(cluster), Some(addr)) = (req.field("clusterName"), req.field("brokerAddr"))
        else {
            return Answer::refused();
        };
        self.refresh(cluster, addr, now);
        Answer::success()
    }

    fn query_data_version(&mut self, req: &Request, now: i64) -> Answer {
        let Ok(asked) = query::read_version(req, now) else {
            return Answer::refused();
        };
        let (Some(cluster), Some(addr)) = (req.field("clusterName"), req.field("brokerAddr"))
        else {
            return Answer::refused();
        };
        let stored = self
            .live
            .get(&key(cluster, addr))
            .and_then(|live| live.version);
        let changed = stored.is_none() || stored != asked;
        self.refresh(cluster, addr, now);
        let answer = Answer::success().ext(&[("changed", if changed { "true" } else { "false" })]);
        match stored {
            Some(version) => answer.body(json::data_version(&version)),
            None => answer,
        }
    }

    fn refresh(&mut self, cluster: &str, addr: &str, now: i64) {
        if let Some(live) = self.live.get_mut(&key(cluster, addr)) {
            live.last_ms = now;
        }
    }

    fn wipe_write_perm(&mut self, req: &Request) -> Answer {
        let count = self.change_perm(req, |perm| perm & !2);
        Answer::success().ext(&[("wipeTopicCount", &count.to_string())])
    }

    fn add_write_perm(&mut self, req: &Request) -> Answer {
        let count = self.change_perm(req, |_| 6);
        Answer::success().ext(&[("addTopicCount", &count.to_string())])
    }

    fn change_perm(&mut self, req: &Request, change: impl Fn(i32) -> i32) -> usize {
        let Some(name) = req.field("brokerName") else {
            return 0;
        };
        let mut count = 0;
        for queues in self.topics.values_mut() {
            if let Some(queue) = queues.get_mut(name) {
                queue.perm = change(queue.perm);
                count += 1;
            }
        }
        count
    }

    fn register_topic(&mut self, req: &Request) -> Answer {
        let queues: &[QueueSpec] = match &req.body {
            Body::None => &[],
            Body::Raw(bytes) if NOTHING.contains(&bytes.as_slice()) || bytes == b"{}" => &[],
            Body::Route(queues) => queues,
            _ => return Answer::refused(),
        };
        let Some(topic) = req.field("topic") else {
            return Answer::success();
        };
        let known = queues
            .iter()
            .take_while(|q| self.groups.contains_key(&q.broker))
            .count();
        let accepted = match self.topics.get(topic) {
            Some(_) => &queues[..known],
            None if known == queues.len() => queues,
            None => &[],
        };
        for q in accepted {
            let (read, write, perm, sys_flag) = (q.read, q.write, q.perm, q.sys_flag);
            let queue = Queue {
                read,
                write,
                perm,
                sys_flag,
            };
            self.topics
                .entry(topic.to_owned())
                .or_default()
                .insert(q.broker.clone(), queue);
        }
        Answer::success()
    }

    fn delete_topic(&mut self, req: &Request) -> Answer {
        let Some(topic) = req.field("topic") else {
            return Answer::success();
        };
        match req.field("clusterName") {
            Some(cluster) if !cluster.is_empty() => {
                let names = self.clusters.get(cluster).cloned().unwrap_or_default();
                for name in names {
                    self.remove_queue(topic, &name);
                }
            }
            _ => self.remove_topic(topic),
        }
        Answer::success()
    }
}

impl Live {
    fn expired(&self, now: i64) -> bool {
        self.last_ms.saturating_add(self.timeout_ms) < now
    }
}

fn key(cluster: &str, addr: &str) -> (String, String) {
    (cluster.to_owned(), addr.to_owned())
}
