//! The commands of mqadmin, each judged by what the server tells afterwards.

use std::net::SocketAddr;

use crate::CLUSTER;
use crate::admin::Admin;
use crate::probe::STANDARD;
use crate::route::{Queues, Route};

use super::{CREATED, Cluster, KEPT_KEY, KEPT_VALUE};

impl Cluster<'_> {
    /// Everything that one release's mqadmin can ask of a name server, and of brokers found through it.
    pub(crate) fn admin_commands(&mut self, index: usize) {
        let mut admin = self.admins.remove(index);
        let release = self.peers[index].release.number.replace('.', "-");
        let topic = format!("administered-{release}");

        assert_eq!(admin.cluster_list(), self.versions());
        self.topic_commands(&mut admin, &topic);
        self.write_perm_of_one_broker(&mut admin, &topic);
        self.ordered_topic(&mut admin, &format!("ordered-{release}"));
        self.key_values(&mut admin);
        self.settings(&mut admin, &release);
        self.broker_status(&mut admin);

        admin.delete_topic(&topic);
        assert_eq!(self.route_or_none(&topic), Route::default());
        assert!(!self.all_topics().contains(&topic));
        self.admins.insert(index, admin);
    }

    fn topic_commands(&mut self, admin: &mut Admin, topic: &str) {
        let everywhere = self.on_all(CREATED);
        let addresses = self.addresses();
        admin.create_topic(topic, CREATED, &addresses);
        assert_eq!(self.read_route(topic), everywhere);
        assert_eq!(admin.topic_route(topic), everywhere);
        assert_eq!(admin.topic_clusters(topic), [CLUSTER]);

        let topics = self.all_topics();
        assert!(topics.contains(topic));
        let (all, in_table) = admin.topic_list();
        assert_eq!(all, topics);
        // The table leaves out the topics of consumer groups.
        let is_plain = |topic: &&String| !topic.starts_with('%');
        assert_eq!(in_table, topics.iter().filter(is_plain).cloned().collect());

        admin.set_perm(topic, CREATED.perm, 4, &addresses);
        let read_only = self.on_all(Queues { perm: 4, ..CREATED });
        assert_eq!(self.read_route(topic), read_only);
        admin.set_perm(topic, 4, CREATED.perm, &addresses);
        assert_eq!(self.read_route(topic), everywhere);
    }

    /// Taken and given for all topics of one broker; the others' stay as they are.
    fn write_perm_of_one_broker(&mut self, admin: &mut Admin, topic: &str) {
        let everywhere = self.read_route(topic);
        let name = self.brokers[0].name.clone();
        let topics = self.all_topics();
        let count = topics
            .iter()
            .filter(|t| self.read_route(t).queues.contains_key(&name))
            .count();
        let mut wiped = everywhere.clone();
        wiped
            .queues
            .insert(name.clone(), Queues { perm: 4, ..CREATED });

        admin.wipe_write_perm(&name, count);
        assert_eq!(self.read_route(topic), wiped);
        admin.add_write_perm(&name, count);
        assert_eq!(self.read_route(topic), everywhere);
        admin.wipe_write_perm("nobody", 0);
        assert_eq!(self.read_route(topic), everywhere);
    }

    /// The order of its queues is a key value, and part of the route where that is switched on.
    fn ordered_topic(&mut self, admin: &mut Admin, topic: &str) {
        let order = admin.create_ordered_topic(topic, CREATED);
        let mut parts: Vec<&str> = order.split(';').collect();
        parts.sort_unstable();
        let names = self.on_all(CREATED).brokers.into_keys();
        assert_eq!(
            parts,
            names.map(|name| format!("{name}:4")).collect::<Vec<_>>()
        );
        assert_eq!(self.read_route(topic), self.on_all(CREATED));
        let kept = self.kv("ORDER_TOPIC_CONFIG", topic);
        assert_eq!(kept.as_deref(), Some(order.as_str()));

        let shown = format!("\"orderTopicConf\":\"{order}\"");
        assert!(!self.route_text(topic).contains("orderTopicConf"));
        admin.set_config("orderMessageEnable", "true");
        assert!(self.route_text(topic).contains(&shown));
        admin.set_config("orderMessageEnable", "false");
        assert!(!self.route_text(topic).contains("orderTopicConf"));

        admin.put_order(topic, "b:4");
        let kept = self.kv("ORDER_TOPIC_CONFIG", topic);
        assert_eq!(kept.as_deref(), Some("b:4"));
        admin.delete_order(topic);
        assert_eq!(self.kv("ORDER_TOPIC_CONFIG", topic), None);
        admin.delete_topic(topic);
        assert_eq!(self.route_or_none(topic), Route::default());
    }

    fn key_values(&mut self, admin: &mut Admin) {
        admin.put_kv("interop", "gone", "soon");
        assert_eq!(self.kv("interop", "gone").as_deref(), Some("soon"));
        admin.put_kv("interop", "gone", "later");
        assert_eq!(self.kv("interop", "gone").as_deref(), Some("later"));
        admin.delete_kv("interop", "gone");
        assert_eq!(self.kv("interop", "gone"), None);
        // Nothing to delete is no failure.
        admin.delete_kv("interop", "gone");
        admin.put_kv("interop", "kept", "over:a;restart");
    }

    fn settings(&mut self, admin: &mut Admin, value: &str) {
        let before = admin.config();
        assert_eq!(before["bindAddress"], "127.0.0.1");
        admin.set_config(KEPT_KEY, value);
        assert_eq!(admin.config()[KEPT_KEY], value);
        for key in ["configStorePath", "kvConfigPath"] {
            assert!(admin.is_refused_config(key), "{key}");
        }
        admin.set_config(KEPT_KEY, KEPT_VALUE);
        let mut after = admin.config();
        assert_eq!(after.remove(KEPT_KEY).as_deref(), Some(KEPT_VALUE));
        after.insert(KEPT_KEY.to_owned(), before[KEPT_KEY].clone());
        assert_eq!(after, before, "nothing else may change");
    }

    fn broker_status(&mut self, admin: &mut Admin) {
        let versions = self
            .brokers
            .iter()
            .map(|broker| (broker.address.to_string(), broker.release.label.to_owned()));
        assert_eq!(admin.broker_versions(), versions.collect());
        for broker in &self.brokers {
            let status = admin.broker_status(broker.address);
            assert_eq!(status["brokerVersionDesc"], broker.release.label);
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.brokers.iter().map(|broker| broker.address).collect()
    }

    fn route_text(&mut self, topic: &str) -> String {
        self.probe.route(topic, STANDARD).body
    }
}
