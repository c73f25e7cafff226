//! The cluster of the test and the steps of its life, in the order of `main.rs`.

mod commands;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::CLUSTER;
use crate::admin::Admin;
use crate::broker::Broker;
use crate::client::{Client, Headers, Queue};
use crate::peers::{Peers, SystemTopic};
use crate::ports::free_ports;
use crate::probe::{LEGACY, Probe, QUERY_NOT_FOUND, STANDARD, SUCCESS, TOPIC_NOT_EXIST};
use crate::process::wait_for;
use crate::route::{ClusterInfo, Group, Queues, Route, is_standard_json, parse_topics};
use crate::server::{Kind, Server};

/// A 5.x broker may lose its first registration; the next comes after 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(25);
/// The close of a killed broker's connection is seen at once.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// 4.9 brokers unregister as the last thing that they do, after up to 5 s.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
/// Long enough for every client and broker to meet the closed port.
const DOWN: Duration = Duration::from_secs(2);
/// A broker has answered the first message when its registration is still on its way.
const CREATE_LIMIT: Duration = Duration::from_secs(5);
const MESSAGES: u32 = 100;
/// A setting that changes nothing else here; it must outlive a restart.
const KEPT_KEY: &str = "productEnvName";
const KEPT_VALUE: &str = "interop";
const CREATED: Queues = Queues {
    read: 4,
    write: 4,
    perm: 6,
};

/// A NameServer, a broker and two clients of each release, and an mqadmin of each.
pub(crate) struct Cluster<'a> {
    peers: &'a [Peers],
    /// Present until the last step.
    server: Option<Server>,
    brokers: Vec<Broker>,
    clients: Vec<Client>,
    /// In the order of the releases.
    admins: Vec<Admin>,
    probe: Probe,
}

impl<'a> Cluster<'a> {
    /// The server runs when this returns, and no broker does.
    pub(crate) fn start(kind: Kind, peers: &'a [Peers], directory: &Path) -> Self {
        let [server_port, broker_ports @ ..] = free_ports::<8>();
        let server = Server::start(kind, peers, &directory.join("server"), server_port);
        let address = server.address();
        let home = |peers: &Peers| directory.join(format!("broker-{}", peers.release.number));
        let brokers = peers.iter().zip(broker_ports);
        let clients = peers.iter().flat_map(|peers| {
            [Headers::Json, Headers::Binary]
                .map(|headers| Client::start(peers, headers, directory, address))
        });
        let admins = peers.iter().map(|peers| {
            let home = directory.join(format!("admin-{}", peers.release.number));
            Admin::start(peers, &home, address)
        });
        Self {
            peers,
            brokers: brokers
                .map(|(peers, port)| Broker::new(peers, &home(peers), port, address))
                .collect(),
            clients: clients.collect(),
            admins: admins.collect(),
            probe: server.probe(),
            server: Some(server),
        }
    }

    pub(crate) fn brokers_register(&mut self) {
        thread::scope(|scope| {
            for (broker, peers) in self.brokers.iter_mut().zip(self.peers) {
                scope.spawn(|| broker.start(peers));
            }
        });
        self.wait_for_members(REGISTER_LIMIT, |_| true);
        let versions = self.admins[0].cluster_list();
        assert_eq!(versions, self.versions());
    }

    /// Each topic's queues on each broker, exactly, in both forms of the answer.
    pub(crate) fn fresh_topics(&mut self) {
        let topics = self.system_topics();
        assert_eq!(self.all_topics(), topics.keys().cloned().collect());
        for (topic, queues) in &topics {
            let mut route = self.read_route(topic);
            for broker in &self.brokers {
                if broker.release.later_topics.contains(&topic.as_str()) {
                    route.remove(&broker.name);
                }
            }
            assert_eq!(route, self.route_of(queues), "{topic}");
        }
        for topic in ["TBW102", "SELF_TEST_TOPIC", CLUSTER] {
            assert_eq!(
                self.admins[0].topic_route(topic),
                self.route_of(&topics[topic]),
                "{topic}"
            );
        }
    }

    pub(crate) fn topics_are_created(&mut self) {
        let everywhere = self.on_all(CREATED);
        for topic in self.topics() {
            assert_eq!(self.route_or_none(&topic), Route::default());
            let addresses = self.brokers.iter().map(|broker| broker.address);
            self.admins[0].create_topic(&topic, CREATED, &addresses.collect::<Vec<_>>());
            assert_eq!(self.read_route(&topic), everywhere);
            assert_eq!(self.admins[0].topic_route(&topic), everywhere);
        }
    }

    /// Every queue of every broker takes messages, and a new consumer gets all there ever were.
    pub(crate) fn messages_pass(&mut self) {
        let queues = self.queues_of(|_| true);
        self.with_each_client(|client| {
            assert_eq!(client.send(MESSAGES), queues, "{}", client.topic);
            client.consume_everything();
        });
    }

    /// A broker makes an unknown topic at its first message and registers it; 4.9 does so with a
    /// one-way request, for which nobody waits.
    pub(crate) fn topics_make_themselves(&mut self) {
        for client in &self.clients {
            assert_eq!(
                self.probe.route(&client.own_topic, STANDARD).code,
                TOPIC_NOT_EXIST
            );
        }
        let stored = self
            .with_each_client(|client| (client.own_topic.clone(), client.send_first(MESSAGES / 4)));
        for (topic, takers) in stored {
            let expected = self.on_brokers(CREATED, |i| takers.contains(&self.brokers[i].name));
            wait_for(&format!("{topic} is at {takers:?}"), CREATE_LIMIT, || {
                (self.route_or_none(&topic) == expected).then_some(())
            });
        }
    }

    /// Its routes go within [`KILL_LIMIT`], the others' never do, and producers use these.
    pub(crate) fn broker_is_killed(&mut self, index: usize) {
        self.brokers[index].kill();
        self.wait_for_absence(index, KILL_LIMIT);
        let left = self.queues_of(|other| other != index);
        self.with_each_client(|client| {
            assert_eq!(client.send(MESSAGES / 4), left, "{}", client.topic);
        });
    }

    /// With its old store: the routes are those from before.
    pub(crate) fn broker_comes_back(&mut self, index: usize) {
        self.brokers[index].start(&self.peers[index]);
        self.wait_for_members(REGISTER_LIMIT, |_| true);
        for topic in self.topics() {
            assert_eq!(self.read_route(&topic), self.on_all(CREATED));
        }
    }

    /// Producers run on from before the end until after all brokers are back.
    pub(crate) fn server_restarts(&mut self) {
        self.with_each_client(|client| {
            client.start_stream();
            client.wait_for_stream(MESSAGES / 2);
        });
        let server = self.server.take().unwrap().restart(self.peers, DOWN);
        self.probe = server.probe();
        self.server = Some(server);
        assert_eq!(
            self.kv("interop", "kept").as_deref(),
            Some("over:a;restart")
        );
        assert_eq!(self.admins[0].config()[KEPT_KEY], KEPT_VALUE);
        self.wait_for_members(REGISTER_LIMIT, |_| true);
        for topic in self.topics() {
            assert_eq!(self.read_route(&topic), self.on_all(CREATED));
        }
        self.with_each_client(|client| {
            client.wait_for_stream(MESSAGES);
            client.stop_stream();
            client.consume_everything();
        });
    }

    /// Told to end, it takes its routes along, although it runs on for a while.
    pub(crate) fn broker_leaves(&mut self, index: usize) {
        self.brokers[index].terminate();
        self.wait_for_absence(index, LEAVE_LIMIT);
    }

    pub(crate) fn everything_ends(mut self) {
        for broker in &mut self.brokers {
            broker.wait_for_end();
        }
        assert_eq!(self.cluster_info(), ClusterInfo::default());
        assert_eq!(self.all_topics(), BTreeSet::new());
        self.server.take().unwrap().stop();
    }

    /// Waits until 106 shows exactly the brokers that are chosen by their index.
    fn wait_for_members(&mut self, limit: Duration, chosen: impl Fn(usize) -> bool) {
        let brokers = self.members(chosen);
        let names = brokers.keys().cloned().collect();
        let mut expected = ClusterInfo {
            brokers,
            clusters: BTreeMap::new(),
        };
        expected.clusters.insert(CLUSTER.to_owned(), names);
        let what = format!("106 shows {:?}", expected.clusters[CLUSTER]);
        wait_for(&what, limit, || {
            (self.cluster_info() == expected).then_some(())
        });
    }

    /// Waits until nothing mentions a broker that runs no more; what the others have stays.
    fn wait_for_absence(&mut self, index: usize, limit: Duration) {
        let topic = self.clients[0].topic.clone();
        let name = self.brokers[index].name.clone();
        let runs = |other: usize| self.brokers[other].is_running();
        let left = self.on_brokers(CREATED, runs);
        let before = self.on_brokers(CREATED, |other| other == index || runs(other));
        wait_for(&format!("{topic} is without {name}"), limit, || {
            let route = self.route_or_none(&topic);
            assert!(route == left || route == before, "{route:?}");
            (route == left).then_some(())
        });
        // One change takes all: nothing may be left to wait for.
        for topic in self.topics() {
            assert_eq!(self.route_or_none(&topic), left, "{topic}");
        }
        assert_eq!(self.route_or_none(&name), Route::default());
        assert_eq!(self.cluster_info().brokers, left.brokers);
    }

    /// An unknown topic has a code of its own, not an empty route.
    fn route_or_none(&mut self, topic: &str) -> Route {
        let answer = self.probe.route(topic, STANDARD);
        match answer.code {
            TOPIC_NOT_EXIST => Route::default(),
            SUCCESS => {
                let route = Route::parse(&answer.body);
                assert_ne!(route, Route::default(), "{topic}");
                route
            }
            _ => panic!("{topic}: {answer:?}"),
        }
    }

    /// The route that both forms of 105 tell; each must be in its form.
    fn read_route(&mut self, topic: &str) -> Route {
        let standard = self.probe.route(topic, STANDARD);
        let legacy = self.probe.route(topic, LEGACY);
        assert_eq!(
            (standard.code, legacy.code),
            (SUCCESS, SUCCESS),
            "{topic}: {standard:?}"
        );
        assert!(is_standard_json(&standard.body), "{}", standard.body);
        assert!(
            legacy.body.contains("\"brokerAddrs\":{0:\"127.0.0.1:"),
            "{}",
            legacy.body
        );
        let route = Route::parse(&standard.body);
        assert_eq!(route, Route::parse(&legacy.body));
        route
    }

    fn kv(&mut self, namespace: &str, key: &str) -> Option<String> {
        let mut answer = self.probe.kv(namespace, key);
        match answer.code {
            SUCCESS => answer.ext.remove("value"),
            QUERY_NOT_FOUND => {
                let remark = format!("No config item, Namespace: {namespace} Key: {key}");
                assert_eq!(answer.remark, Some(remark));
                None
            }
            _ => panic!("{answer:?}"),
        }
    }

    fn cluster_info(&mut self) -> ClusterInfo {
        let answer = self.probe.cluster_info();
        assert_eq!(answer.code, SUCCESS, "{answer:?}");
        ClusterInfo::parse(&answer.body)
    }

    fn all_topics(&mut self) -> BTreeSet<String> {
        let answer = self.probe.all_topics();
        assert_eq!(answer.code, SUCCESS, "{answer:?}");
        parse_topics(&answer.body)
    }

    /// Address and release of each broker, as `mqadmin clusterList` tells them.
    fn versions(&self) -> BTreeMap<String, (String, String)> {
        let brokers = self.brokers.iter().map(|broker| {
            let label = broker.release.label.to_owned();
            (broker.name.clone(), (broker.address.to_string(), label))
        });
        brokers.collect()
    }

    fn topics(&self) -> Vec<String> {
        self.clients
            .iter()
            .map(|client| client.topic.clone())
            .collect()
    }

    /// At the same time; the results are in the order of the clients.
    fn with_each_client<T: Send>(&mut self, run: impl Fn(&mut Client) -> T + Sync) -> Vec<T> {
        let run = &run;
        thread::scope(|scope| {
            let clients = self.clients.iter_mut();
            let running: Vec<_> = clients.map(|client| scope.spawn(|| run(client))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    /// What each broker registers by itself: topic to queues by broker name.
    fn system_topics(&self) -> BTreeMap<String, BTreeMap<String, Queues>> {
        let mut topics: BTreeMap<String, BTreeMap<String, Queues>> = BTreeMap::new();
        for broker in &self.brokers {
            for SystemTopic { name, queues } in broker.release.system_topics(&broker.name) {
                topics
                    .entry(name)
                    .or_default()
                    .insert(broker.name.clone(), queues);
            }
        }
        topics
    }

    fn members(&self, chosen: impl Fn(usize) -> bool) -> BTreeMap<String, Group> {
        let chosen = self
            .brokers
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen(*index));
        chosen
            .map(|(_, broker)| (broker.name.clone(), broker.group()))
            .collect()
    }

    fn route_of(&self, queues: &BTreeMap<String, Queues>) -> Route {
        let mut brokers = self.members(|_| true);
        brokers.retain(|name, _| queues.contains_key(name));
        Route {
            brokers,
            queues: queues.clone(),
        }
    }

    fn on_brokers(&self, queues: Queues, chosen: impl Fn(usize) -> bool) -> Route {
        let brokers = self.members(chosen);
        let queues = brokers.keys().map(|name| (name.clone(), queues)).collect();
        Route { brokers, queues }
    }

    fn on_all(&self, queues: Queues) -> Route {
        self.on_brokers(queues, |_| true)
    }

    /// Where a producer sends to when it takes all queues in turn.
    fn queues_of(&self, chosen: impl Fn(usize) -> bool) -> BTreeSet<Queue> {
        let route = self.on_brokers(CREATED, chosen);
        let queues = route.queues.iter();
        queues
            .flat_map(|(name, queues)| (0..queues.write).map(|queue| (name.clone(), queue)))
            .collect()
    }
}
