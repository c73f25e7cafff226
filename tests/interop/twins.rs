//! Our server beside a Java one, with the same brokers.
//!
//! Goal: a broker with both addresses, and a client with either, cannot tell them apart. Method:
//! a master with its slave, and a broker of 4.9.4, register at both; after each event every
//! question about the tables is put to both, and the answers must become the same: code, remark,
//! ext fields, form and content of the body, with only the order of lists left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::CLUSTER;
use crate::admin::Admin;
use crate::broker::Broker;
use crate::peers::{Peers, V5_3_3};
use crate::ports::free_ports;
use crate::probe::{
    Answer, GET_ALL_TOPICS, GET_CLUSTER_INFO, GET_KV_LIST, GET_ROUTE, LEGACY, Probe, STANDARD,
    SUCCESS,
};
use crate::process::wait_for;
use crate::route::{Group, Queues, Route, is_standard_json, parse_json, parse_topics};
use crate::server::{Kind, Server};
use crate::step;

const WIPE_WRITE_PERM: i64 = 205;
const ADD_WRITE_PERM: i64 = 327;
const DELETE_TOPIC: i64 = 216;
const GET_TOPICS_OF_CLUSTER: i64 = 224;
const GET_SYSTEM_TOPICS: i64 = 304;
const GET_UNIT_TOPICS: [i64; 3] = [311, 312, 313];
const GET_MEMBERS: i64 = 901;

/// A registration that was lost at one of the two comes again after 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const TOPIC: &str = "twice";
const QUEUES: Queues = Queues {
    read: 4,
    write: 4,
    perm: 6,
};

pub(crate) fn run(_: Kind, peers: &'static [Peers], directory: &Path) {
    let mut twins = Twins::start(peers, directory);
    step("twins: brokers register at both", || twins.register());
    step("twins: topics and settings change", || twins.change());
    step("twins: a master is killed", || twins.master_is_killed());
    step("twins: and returns", || twins.master_returns());
    step("twins: brokers leave", || twins.leave());
    twins.end();
}

struct Twins<'a> {
    peers: &'a [Peers],
    /// Ours first.
    servers: [Server; 2],
    probes: [Probe; 2],
    admin: Admin,
    master: Broker,
    slave: Broker,
    old: Broker,
}

impl<'a> Twins<'a> {
    fn start(peers: &'a [Peers], directory: &Path) -> Self {
        let [ours, java, master, slave, old] = free_ports();
        let start = |kind, home, port| Server::start(kind, peers, &directory.join(home), port);
        let servers = [
            start(Kind::Ours, "ours", ours),
            start(Kind::Java(V5_3_3), "java", java),
        ];
        let [ours, java] = [&servers[0], &servers[1]].map(Server::address);
        let both = format!("namesrvAddr={ours};{java}");
        let broker = |peers, home, port, lines: &[&str]| {
            let broker = Broker::new(peers, &directory.join(home), port, ours);
            broker.configure(&[&both]);
            broker.configure(lines);
            broker
        };
        let acting = "enableSlaveActingMaster=true";
        let slaves = ["brokerId=1", "brokerRole=SLAVE", acting];
        Self {
            peers,
            probes: [servers[0].probe(), servers[1].probe()],
            admin: Admin::start(&peers[0], &directory.join("admin"), ours),
            master: broker(&peers[0], "master", master, &[acting]),
            slave: broker(&peers[0], "slave", slave, &slaves),
            old: broker(&peers[1], "old", old, &[]),
            servers,
        }
    }

    fn register(&mut self) {
        let Self {
            peers,
            master,
            slave,
            old,
            ..
        } = self;
        thread::scope(|scope| {
            scope.spawn(|| master.start(&peers[0]));
            scope.spawn(|| slave.start(&peers[0]));
            scope.spawn(|| old.start(&peers[1]));
        });
        let of_cluster = Queues {
            read: 16,
            write: 16,
            perm: 7,
        };
        self.wait_for_same(CLUSTER, &self.route_to(&[0, 1], of_cluster));
        let masters = [self.master.address, self.old.address];
        self.admin.create_topic(TOPIC, QUEUES, &masters);
        self.wait_for_same(TOPIC, &self.route_to(&[0, 1], QUEUES));
    }

    fn change(&mut self) {
        let all = self.route_to(&[0, 1], QUEUES);
        let old = self.old.name.clone();
        let at_old = [("brokerName", old.as_str())];
        self.change_both(|probe| probe.ask(WIPE_WRITE_PERM, STANDARD, &at_old));
        let mut wiped = all.clone();
        wiped
            .queues
            .insert(old.clone(), Queues { perm: 4, ..QUEUES });
        self.wait_for_same(TOPIC, &wiped);
        self.change_both(|probe| probe.ask(ADD_WRITE_PERM, STANDARD, &at_old));
        self.wait_for_same(TOPIC, &all);

        self.change_both(|probe| probe.put_kv("ORDER_TOPIC_CONFIG", TOPIC, "b:4;\"c\":8"));
        self.change_both(|probe| probe.set_config("orderMessageEnable=true"));
        self.wait_for_same(TOPIC, &all);
        self.change_both(|probe| probe.delete_kv("ORDER_TOPIC_CONFIG", TOPIC));
        self.change_both(|probe| probe.set_config("supportActingMaster=true"));
        self.wait_for_same(TOPIC, &all);

        let masters = [self.master.address, self.old.address];
        self.admin.create_topic("deleted", QUEUES, &masters);
        self.wait_for_same("deleted", &all);
        let there = [("topic", "deleted"), ("clusterName", CLUSTER)];
        self.change_both(|probe| probe.ask(DELETE_TOPIC, STANDARD, &there));
        self.wait_for_same("deleted", &Route::default());
    }

    fn master_is_killed(&mut self) {
        self.master.kill();
        let mut left = self.route_to(&[0], QUEUES);
        let slave = self.slave.address.to_string();
        let name = self.master.name.clone();
        let group = left.brokers.get_mut(&name).unwrap();
        group.addresses = [(0, slave)].into();
        left.queues.insert(name, Queues { perm: 4, ..QUEUES });
        self.wait_for_same(TOPIC, &left);
    }

    fn master_returns(&mut self) {
        self.master.start(&self.peers[0]);
        self.wait_for_same(TOPIC, &self.route_to(&[0, 1], QUEUES));
    }

    fn leave(&mut self) {
        for broker in [&mut self.master, &mut self.slave, &mut self.old] {
            broker.terminate();
        }
        for broker in [&mut self.master, &mut self.slave, &mut self.old] {
            broker.wait_for_end();
        }
        self.wait_for_same(TOPIC, &Route::default());
    }

    fn end(self) {
        for server in self.servers {
            server.stop();
        }
    }

    /// The same answer from both, and a good one.
    fn change_both(&mut self, ask: impl Fn(&mut Probe) -> Answer) {
        let [ours, java] = self.probes.each_mut().map(ask);
        assert_eq!(ours, java);
        assert_eq!(ours.code, SUCCESS, "{ours:?}");
    }

    /// Waits until both tell this route, and answer everything else alike.
    fn wait_for_same(&mut self, topic: &str, route: &Route) {
        let what = format!("ours shows {topic} at {:?}", route.brokers);
        wait_for(&what, REGISTER_LIMIT, || {
            let answer = self.probes[0].route(topic, STANDARD);
            let found = match answer.code {
                SUCCESS => Route::parse(&answer.body),
                _ => Route::default(),
            };
            (found == *route).then_some(())
        });
        let end = Instant::now() + REGISTER_LIMIT;
        let mut difference = self.difference();
        while difference.is_some() && Instant::now() < end {
            thread::sleep(PAUSE);
            difference = self.difference();
        }
        assert_eq!(difference, None, "answers differ: question, ours, Java's");
    }

    /// The first question that they answer differently.
    fn difference(&mut self) -> Option<(String, Answer, Answer)> {
        let mut topics = BTreeSet::from([TOPIC.to_owned(), "unknown".to_owned()]);
        for probe in &mut self.probes {
            topics.extend(parse_topics(&probe.all_topics().body));
        }
        let brokers = [self.master.name.clone(), self.old.name.clone()];
        let mut questions: Vec<Question<'_>> = vec![
            (GET_CLUSTER_INFO, STANDARD, Vec::new()),
            (GET_ALL_TOPICS, STANDARD, Vec::new()),
            (GET_TOPICS_OF_CLUSTER, STANDARD, vec![("cluster", CLUSTER)]),
            (GET_TOPICS_OF_CLUSTER, STANDARD, vec![("cluster", "no")]),
            (
                GET_KV_LIST,
                STANDARD,
                vec![("namespace", "ORDER_TOPIC_CONFIG")],
            ),
            (GET_SYSTEM_TOPICS, STANDARD, Vec::new()),
        ];
        questions.extend(GET_UNIT_TOPICS.map(|code| (code, STANDARD, Vec::new())));
        questions.extend(brokers.iter().map(|broker| {
            let ext = vec![("clusterName", CLUSTER), ("brokerName", broker.as_str())];
            (GET_MEMBERS, STANDARD, ext)
        }));
        for topic in &topics {
            for version in [STANDARD, LEGACY] {
                questions.push((GET_ROUTE, version, vec![("topic", topic)]));
            }
        }
        questions.iter().find_map(|(code, version, ext)| {
            let [ours, java] = self
                .probes
                .each_mut()
                .map(|probe| probe.ask(*code, *version, ext));
            let same = meaning(*code, &ours) == meaning(*code, &java);
            (!same).then(|| (format!("{code} of {version}: {ext:?}"), ours, java))
        })
    }

    /// Of the master's group those members, and the broker of 4.9.4.
    fn route_to(&self, ids: &[i64], queues: Queues) -> Route {
        let members = [&self.master, &self.slave].map(|broker| broker.address.to_string());
        let addresses = ids
            .iter()
            .map(|id| (*id, members[usize::try_from(*id).unwrap()].clone()));
        let group = Group {
            cluster: CLUSTER.to_owned(),
            addresses: addresses.collect(),
        };
        let names = [self.master.name.clone(), self.old.name.clone()];
        Route {
            brokers: names
                .clone()
                .into_iter()
                .zip([group, self.old.group()])
                .collect(),
            queues: names.into_iter().map(|name| (name, queues)).collect(),
        }
    }
}

/// Code, version, ext fields.
type Question<'a> = (i64, i64, Vec<(&'a str, &'a str)>);

type Meaning = (i64, Option<String>, Vec<(String, String)>, bool, Value);

/// All of an answer but the order of its lists. Which broker's address a list of system topics
/// names depends on that order.
fn meaning(code: i64, answer: &Answer) -> Meaning {
    let ext = answer
        .ext
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let mut body = match answer.body.as_str() {
        "" => Value::Null,
        body => parse_json(body),
    };
    if code == GET_SYSTEM_TOPICS {
        body["brokerAddr"] = Value::Null;
    }
    sort_lists(&mut body);
    let form = is_standard_json(&answer.body);
    (answer.code, answer.remark.clone(), ext, form, body)
}

fn sort_lists(value: &mut Value) {
    match value {
        Value::Array(list) => {
            list.iter_mut().for_each(sort_lists);
            list.sort_by_key(Value::to_string);
        }
        Value::Object(map) => map.values_mut().for_each(sort_lists),
        _ => {}
    }
}
