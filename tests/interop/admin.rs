//! mqadmin in a JVM of its own: each command with what it prints on success.
//!
//! Its exit status and exceptions say nothing: a failed command prints and goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::CLUSTER;
use crate::peers::Peers;
use crate::process::say;
use crate::route::{Queues, Route, parse_cluster_list};
use crate::shell::Shell;

const LIMIT: Duration = Duration::from_secs(60);
/// How often a command is given to brokers that do not answer in time.
const TRIES: usize = 3;

/// Commands go to one NameServer.
pub(crate) struct Admin {
    shell: Shell,
    server: SocketAddr,
}

impl Admin {
    pub(crate) fn start(peers: &Peers, home: &Path, server: SocketAddr) -> Self {
        Self {
            shell: Shell::start(peers, "mqadmin", home, &[]),
            server,
        }
    }

    /// Address and version of each broker name; each is a master of the test's cluster.
    pub(crate) fn cluster_list(&mut self) -> BTreeMap<String, (String, String)> {
        let printed = self.run("clusterList");
        let mut brokers = BTreeMap::new();
        for row in parse_cluster_list(&printed) {
            assert_eq!((row[0], row[2]), (CLUSTER, "0"), "{row:?}");
            let version = (row[3].to_owned(), row[4].to_owned());
            assert!(
                brokers.insert(row[1].to_owned(), version).is_none(),
                "{printed:?}"
            );
        }
        brokers
    }

    /// All names, and then those of the table by cluster.
    pub(crate) fn topic_list(&mut self) -> (BTreeSet<String>, BTreeSet<String>) {
        let all = self.run("topicList");
        let table = self.run(&format!("topicList -c {CLUSTER}"));
        let header = table
            .iter()
            .position(|line| line.starts_with("#Cluster Name"));
        let rows = header.map_or(&[][..], |header| &table[header + 1..]);
        let names = rows.iter().map(|row| {
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words[0], CLUSTER, "{table:?}");
            words[1].to_owned()
        });
        (all.into_iter().collect(), names.collect())
    }

    pub(crate) fn topic_clusters(&mut self, topic: &str) -> Vec<String> {
        self.run(&format!("topicClusterList -t {topic}"))
    }

    /// What a broker tells of itself.
    pub(crate) fn broker_status(&mut self, broker: SocketAddr) -> BTreeMap<String, String> {
        let printed = self.run(&format!("brokerStatus -b {broker}"));
        let lines = printed.iter().filter_map(|line| line.split_once(':'));
        lines
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect()
    }

    /// The release of each broker of the cluster, by address.
    pub(crate) fn broker_versions(&mut self) -> BTreeMap<String, String> {
        let printed = self.run(&format!("brokerStatus -c {CLUSTER}"));
        let lines = printed.iter().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [address, "brokerVersionDesc", ":", version] => {
                    Some((address.to_owned(), version.to_owned()))
                }
                _ => None,
            }
        });
        lines.collect()
    }

    pub(crate) fn topic_route(&mut self, topic: &str) -> Route {
        Route::parse(&self.run(&format!("topicRoute -t {topic}")).join("\n"))
    }

    pub(crate) fn create_topic(&mut self, topic: &str, queues: Queues, at: &[SocketAddr]) {
        let Queues { read, write, .. } = queues;
        let command = format!("updateTopic -c {CLUSTER} -t {topic} -r {read} -w {write}");
        let printed = self.run(&command);
        for address in at {
            expect(&printed, &format!("create topic to {address} success."));
        }
        expect(&printed, &format!("TopicConfig [topicName={topic}, "));
    }

    /// Tells the queues of each broker, as the server is to keep them for ordered topics.
    pub(crate) fn create_ordered_topic(&mut self, topic: &str, queues: Queues) -> String {
        let Queues { read, write, .. } = queues;
        let command = format!("updateTopic -c {CLUSTER} -t {topic} -r {read} -w {write} -o true");
        let printed = self.run(&command);
        let result = "set cluster orderConf. isOrder=true, orderConf=[";
        // 4.9.4 goes on in the same line.
        let order = printed
            .iter()
            .find_map(|line| line.strip_prefix(result)?.split_once(']'));
        let Some((order, _)) = order else {
            panic!("no line `{result}…]`: {printed:#?}");
        };
        order.to_owned()
    }

    pub(crate) fn set_perm(&mut self, topic: &str, from: u64, to: u64, at: &[SocketAddr]) {
        let printed = self.run(&format!("updateTopicPerm -c {CLUSTER} -t {topic} -p {to}"));
        for address in at {
            expect(
                &printed,
                &format!("update topic perm from {from} to {to} in {address} success."),
            );
        }
    }

    /// `count` is the number of topics that the broker has.
    pub(crate) fn wipe_write_perm(&mut self, broker: &str, count: usize) {
        self.write_perm("wipe", broker, count);
    }

    pub(crate) fn add_write_perm(&mut self, broker: &str, count: usize) {
        self.write_perm("add", broker, count);
    }

    fn write_perm(&mut self, verb: &str, broker: &str, count: usize) {
        let printed = self.run(&format!("{verb}WritePerm -b {broker}"));
        let server = self.server;
        let result = format!("{verb} write perm of broker[{broker}] in name server[{server}] OK, ");
        expect(&printed, &format!("{result}{count}"));
    }

    pub(crate) fn put_kv(&mut self, namespace: &str, key: &str, value: &str) {
        let printed = self.run(&format!(
            "updateKvConfig -s {namespace} -k {key} -v {value}"
        ));
        expect(&printed, "create or update kv config to namespace success.");
    }

    pub(crate) fn delete_kv(&mut self, namespace: &str, key: &str) {
        let printed = self.run(&format!("deleteKvConfig -s {namespace} -k {key}"));
        expect(&printed, "delete kv config from namespace success.");
    }

    /// Written, read back, and there.
    pub(crate) fn put_order(&mut self, topic: &str, order: &str) {
        let result = format!("orderConf success. topic=[{topic}], orderConf=[{order}]");
        let printed = self.run(&format!("updateOrderConf -m put -t {topic} -v {order}"));
        expect(&printed, &format!("update {result}"));
        let printed = self.run(&format!("updateOrderConf -m get -t {topic}"));
        expect(&printed, &format!("get {result}"));
    }

    /// Deleted, and reading fails.
    pub(crate) fn delete_order(&mut self, topic: &str) {
        let printed = self.run(&format!("updateOrderConf -m delete -t {topic}"));
        expect(
            &printed,
            &format!("delete orderConf success. topic=[{topic}]"),
        );
        let printed = self
            .run(&format!("updateOrderConf -m get -t {topic}"))
            .join("\n");
        assert!(
            printed.contains("CODE: 22  DESC: No config item"),
            "{printed}"
        );
    }

    pub(crate) fn set_config(&mut self, key: &str, value: &str) {
        let printed = self.run(&format!("updateNamesrvConfig -k {key} -v {value}"));
        expect(
            &printed,
            &format!("update name server config success![{}]", self.server),
        );
        expect(&printed, &format!("{key} : {value}"));
    }

    /// A key that only the file may hold.
    pub(crate) fn is_refused_config(&mut self, key: &str) -> bool {
        let printed = self
            .run(&format!("updateNamesrvConfig -k {key} -v /nowhere"))
            .join("\n");
        printed.contains("CODE: 16  DESC: ")
    }

    pub(crate) fn config(&mut self) -> BTreeMap<String, String> {
        let printed = self.run("getNamesrvConfig");
        let title = format!("============{}============", self.server);
        assert_eq!(printed.first(), Some(&title), "{printed:?}");
        let lines = printed[1..].iter().filter_map(|line| line.split_once(" ="));
        lines
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect()
    }

    pub(crate) fn delete_topic(&mut self, topic: &str) {
        let printed = self.run(&format!("deleteTopic -c {CLUSTER} -t {topic}"));
        expect(
            &printed,
            &format!("delete topic [{topic}] from cluster [{CLUSTER}] success."),
        );
        expect(
            &printed,
            &format!("delete topic [{topic}] from NameServer success."),
        );
    }

    fn run(&mut self, command: &str) -> Vec<String> {
        let server = self.server;
        let mut tries = 1;
        loop {
            let printed = self
                .shell
                .ask(&format!("admin {command} -n {server}"), LIMIT);
            if tries == TRIES || !is_late_broker(&printed, server) {
                return printed;
            }
            say(&format!("       again: `{command}`: {printed:?}"));
            tries += 1;
        }
    }
}

/// Whether a broker, and not the name server, left a request without an answer: a JVM that has
/// just started on a busy machine may need longer than mqadmin waits.
fn is_late_broker(printed: &[String], server: SocketAddr) -> bool {
    let server = server.to_string();
    printed
        .iter()
        .any(|line| line.contains("exception.Remoting") && !line.contains(&server))
}

/// A line that begins so, or ends the test with all that was printed.
fn expect(printed: &[String], start: &str) {
    let found = printed.iter().any(|line| line.starts_with(start));
    assert!(found, "no line `{start}`: {printed:#?}");
}
