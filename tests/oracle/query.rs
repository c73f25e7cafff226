//! The requests that change nothing: routes, lists, member groups, key-value reads.

use super::{DataVersion, Group, Mapping, Oracle, Queue, json, register};
use crate::support::answer::Answer;
use crate::support::request::{Body, NOTHING, Request};
use std::collections::{BTreeMap, BTreeSet};

/// `TopicRouteData`, a copy that the later steps may change.
#[derive(Debug, Default)]
pub(super) struct Route {
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) filters: BTreeMap<String, Vec<String>>,
    pub(super) order_conf: Option<String>,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) mappings: Option<BTreeMap<String, Mapping>>,
}

impl Oracle {
    /// `ClientRequestProcessor.getRouteInfoByTopic`, then `ZoneRouteRPCHook`.
    pub(super) fn route(&self, req: &Request, now: i64) -> Answer {
        let switches = &self.switches;
        let wait_ms = switches.wait_seconds_for_service.saturating_mul(1000);
        if switches.need_wait_for_service && now < wait_ms {
            return Answer::failure(1, "name server not ready");
        }
        let topic = req.field("topic");
        let Some(mut route) = topic.and_then(|topic| self.pick_up(topic)) else {
            let text = format!(
                "No topic route info in name server for the topic: {}\nSee \
                 https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
                topic.unwrap_or("null")
            );
            return Answer::failure(17, &text);
        };
        if switches.order_message_enable {
            route.order_conf = topic.and_then(|topic| self.kv_value("ORDER_TOPIC_CONFIG", topic));
        }
        let zone_mode = req
            .field("__ZONE_MODE")
            .is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let zone = req
            .field("__ZONE_NAME")
            .filter(|zone| zone_mode && !zone.trim().is_empty());
        let out_of_zone = zone.map_or_else(Vec::new, |zone| route.keep_zone(zone));
        route.filters = self.filters_of(&route, &out_of_zone);
        let standard = self.standard_route(req, zone.is_some());
        Answer::success().body(json::route(&route, standard))
    }

    /// `RouteInfoManager.pickupTopicRouteData`.
    fn pick_up(&self, topic: &str) -> Option<Route> {
        let mut route = Route {
            queues: self.topics.get(topic)?.clone(),
            ..Route::default()
        };
        for name in route.queues.keys() {
            if let Some(group) = self.groups.get(name) {
                route.groups.insert(name.clone(), group.clone());
            }
        }
        if route.groups.is_empty() {
            return None;
        }
        route.mappings = self.mappings.get(topic).cloned();
        let acting = self.switches.support_acting_master;
        if acting && !topic.starts_with("rmq_sys_SYNC_BROKER_MEMBER_") {
            route.translate_acting_masters();
        }
        Some(route)
    }

    pub(super) fn cluster_info(&self, req: &Request) -> Answer {
        let standard = self.standard_members(req);
        Answer::success().body(json::cluster_info(&self.groups, &self.clusters, standard))
    }

    pub(super) fn member_group(&self, req: &Request) -> Answer {
        let name = req.field("brokerName");
        let none = BTreeMap::new();
        let members = name
            .and_then(|name| self.groups.get(name))
            .map_or(&none, |g| &g.members);
        let standard = self.standard_members(req);
        let body = json::member_group(members, name, req.field("clusterName"), standard);
        // Java never clears the text it starts with
        Answer::failure(0, "not set any response code").body(body)
    }

    pub(super) fn all_topics(&self) -> Answer {
        if !self.switches.enable_all_topic_list {
            return Answer::failure(1, "disable");
        }
        topic_list(None, &self.topics.keys().cloned().collect())
    }

    pub(super) fn topics_of_cluster(&self, req: &Request) -> Answer {
        if !self.switches.enable_topic_list {
            return Answer::failure(1, "disable");
        }
        let names = req
            .field("cluster")
            .and_then(|cluster| self.clusters.get(cluster));
        let mut topics = BTreeSet::new();
        for name in names.into_iter().flatten() {
            for (topic, queues) in &self.topics {
                if queues.contains_key(name) {
                    topics.insert(topic.clone());
                }
            }
        }
        topic_list(None, &topics)
    }

    pub(super) fn unit_topics(&self, wanted: impl Fn(i32) -> bool) -> Answer {
        if !self.switches.enable_topic_list {
            return Answer::failure(1, "disable");
        }
        let topics = self
            .topics
            .keys()
            .filter(|t| self.first_sys_flag(t).is_some_and(&wanted));
        topic_list(None, &topics.cloned().collect())
    }

    pub(super) fn system_topics(&self) -> Answer {
        let mut names = BTreeSet::new();
        for (cluster, brokers) in &self.clusters {
            names.insert(cluster.clone());
            names.extend(brokers.iter().cloned());
        }
        topic_list(self.some_broker_addr(), &names)
    }

    pub(super) fn get_kv(&self, req: &Request) -> Answer {
        let (namespace, key) = (req.field("namespace"), req.field("key"));
        let value = namespace
            .zip(key)
            .and_then(|(ns, key)| self.kv_value(ns, key));
        match value {
            Some(value) => Answer::success().ext(&[("value", &value)]),
            None => {
                let (ns, key) = (namespace.unwrap_or("null"), key.unwrap_or("null"));
                let text = format!("No config item, Namespace: {ns} Key: {key}");
                Answer::failure(22, &text).ext(&[])
            }
        }
    }

    pub(super) fn list_kv(&self, req: &Request) -> Answer {
        let namespace = req.field("namespace");
        match namespace.and_then(|namespace| self.kv.get(namespace)) {
            Some(table) => Answer::success().body(json::kv_table(table)),
            None => {
                let ns = namespace.unwrap_or("null");
                Answer::failure(22, &format!("No config item, Namespace: {ns}"))
            }
        }
    }

    fn kv_value(&self, namespace: &str, key: &str) -> Option<String> {
        self.kv.get(namespace)?.get(key)?.clone()
    }
}

impl Route {
    /// Shows the lowest id of a group without master as its master, if the group wants that
    /// and the topic is not writable there.
    fn translate_acting_masters(&mut self) {
        for (name, group) in &mut self.groups {
            if !group.acting || group.members.contains_key(&0) {
                continue;
            }
            if self
                .queues
                .get(name)
                .is_some_and(|queue| queue.perm & 2 == 0)
                && let Some((_, member)) = group.members.pop_first()
            {
                group.members.insert(0, member);
            }
        }
    }

    /// Keeps the groups of a zone, and those whose master is down whatever their zone. Returns
    /// the others.
    fn keep_zone(&mut self, zone: &str) -> Vec<(String, Group)> {
        let mut out_of_zone = Vec::new();
        for (name, group) in self.groups.clone() {
            let same = group.zone.is_some_and(|own| own.eq_ignore_ascii_case(zone));
            if same || !group.members.contains_key(&0) {
                continue;
            }
            out_of_zone.extend(self.groups.remove_entry(&name));
            self.queues.remove(&name);
        }
        out_of_zone
    }
}

/// The DataVersion of a 322; none for no body. An error when it cannot be decoded.
pub(super) fn read_version(req: &Request, now: i64) -> Result<Option<DataVersion>, ()> {
    match &req.body {
        Body::None => Ok(None),
        Body::Raw(bytes) if NOTHING.contains(&bytes.as_slice()) => Ok(None),
        Body::Raw(bytes) if bytes == b"{}" => Ok(Some(DataVersion {
            counter: 0,
            state: 0,
            timestamp: now,
        })),
        Body::DataVersion(version) => Ok(Some(register::version_at(version, now))),
        _ => Err(()),
    }
}

fn topic_list(broker_addr: Option<&str>, topics: &BTreeSet<String>) -> Answer {
    Answer::success().body(json::topic_list(broker_addr, topics))
}
