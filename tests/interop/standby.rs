//! A master and its slave: what the tables say of them while the master is gone.
//!
//! Goal: without acting masters, a slave keeps its place and its perm; with them, it stands in for
//! its master within moments, can be read from as if it were the master, and steps back when that
//! returns. Method: one pair of 5.x brokers, first plain and then with
//! `enableSlaveActingMaster`, for which the server is told at run time to support it.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::CLUSTER;
use crate::admin::Admin;
use crate::broker::Broker;
use crate::client::{Client, Headers};
use crate::peers::Peers;
use crate::ports::free_ports;
use crate::probe::{Answer, LEGACY, Probe, STANDARD, SUCCESS};
use crate::process::wait_for;
use crate::route::{ClusterInfo, Group, Queues, Route};
use crate::server::{Kind, Server};
use crate::step;

/// A 5.x broker may lose its first registration; the next comes after 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(25);
/// The close of a killed broker's connection is seen at once.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// A slave asks for what its master has as soon as it knows the master's address.
const REPLICATE_LIMIT: Duration = Duration::from_secs(30);
/// Told to end, a 5.x broker says good-bye before anything else.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// The server connects to the slave for it.
const NOTICE_LIMIT: Duration = Duration::from_secs(2);
/// What a broker logs when it is told that its group has another smallest id (905); it says
/// something else where it finds out by asking.
const TOLD: &str = "min broker id changed, prev ";
const MESSAGES: u32 = 40;
const QUEUES: Queues = Queues {
    read: 4,
    write: 4,
    perm: 6,
};
const READ_ONLY: Queues = Queues { perm: 4, ..QUEUES };

pub(crate) fn run(kind: Kind, peers: &'static [Peers], directory: &Path) {
    let mut pair = Pair::start(kind, &peers[0], peers, directory);
    step("slave: registers beside its master", || pair.register());
    step("slave: has what its master has", || pair.replicate());
    step("slave: stays when its master is killed", || pair.stay());
    step("slave: the master returns", || pair.master_returns());
    step("acting: both restart with it", || pair.allow_acting());
    step("acting: the master is killed", || pair.stand_in());
    step("acting: the master returns", || pair.master_returns());
    step("acting: the master leaves", || pair.master_leaves());
    step("acting: the slave is killed", || pair.end());
}

struct Pair<'a> {
    peers: &'a Peers,
    server: Server,
    probe: Probe,
    admin: Admin,
    client: Client,
    master: Broker,
    slave: Broker,
}

impl<'a> Pair<'a> {
    fn start(kind: Kind, peers: &'a Peers, all: &[Peers], directory: &Path) -> Self {
        let [server_port, master_port, slave_port] = free_ports();
        let server = Server::start(kind, all, &directory.join("server"), server_port);
        let address = server.address();
        let broker = |place: &str, port| Broker::new(peers, &directory.join(place), port, address);
        let pair = Self {
            peers,
            probe: server.probe(),
            admin: Admin::start(peers, &directory.join("admin"), address),
            client: Client::start(peers, Headers::Json, directory, address),
            master: broker("master", master_port),
            slave: broker("slave", slave_port),
            server,
        };
        let slave = ["brokerId=1", "brokerRole=SLAVE", "slaveReadEnable=true"];
        pair.slave.configure(&slave);
        pair
    }

    fn register(&mut self) {
        self.start_both();
        let topic = self.client.topic.clone();
        self.admin
            .create_topic(&topic, QUEUES, &[self.master.address]);
        assert_eq!(self.route(&topic), self.both());
        assert_eq!(self.admin.topic_route(&topic), self.both());
    }

    /// A slave knows its master's address from the answer to its registration alone.
    fn replicate(&mut self) {
        self.send();
        self.client.consume_everything();
    }

    /// Messages that both have when this returns.
    fn send(&mut self) {
        self.client.send(MESSAGES);
        let (master, slave) = (self.master.address, self.slave.address);
        let what = "the slave's log ends as its master's";
        wait_for(what, REPLICATE_LIMIT, || {
            let end = self.log_end(master).filter(|end| *end > 0)?;
            (self.log_end(slave) == Some(end)).then_some(())
        });
    }

    /// Nobody takes the master's place: the slave is where it was.
    fn stay(&mut self) {
        self.master.kill();
        let left = self.shown_as(1, QUEUES);
        self.wait_for_route(&left, KILL_LIMIT);
        self.check_members(&[(1, self.slave.address.to_string())]);
        assert_eq!(self.route(&self.member_topic()).brokers, left.brokers);
    }

    fn master_returns(&mut self) {
        self.master.start(self.peers);
        self.wait_for_route(&self.both(), REGISTER_LIMIT);
        self.check_members(&self.members());
        assert_eq!(
            self.route(&self.member_topic()).brokers,
            self.both().brokers
        );
        self.send();
    }

    /// The server learns it from a request and keeps it; brokers read it at their start. A slave
    /// asks for its master's topics only once a minute: it gets the file instead.
    fn allow_acting(&mut self) {
        self.admin.set_config("supportActingMaster", "true");
        self.admin.set_config("notifyMinBrokerIdChanged", "true");
        for broker in [&mut self.slave, &mut self.master] {
            broker.kill();
            broker.configure(&["enableSlaveActingMaster=true"]);
        }
        self.slave.copy_topics_of(&self.master);
        self.start_both();
        self.wait_for_route(&self.both(), REGISTER_LIMIT);
    }

    /// The slave is told of it, too, instead of finding out.
    fn stand_in(&mut self) {
        let told = self.slave.logged(TOLD);
        self.master.kill();
        self.check_stand_in(KILL_LIMIT);
        wait_for("the slave has its notice", NOTICE_LIMIT, || {
            (self.slave.logged(TOLD) > told).then_some(())
        });
        self.client.consume_everything();
    }

    /// The same when the master says good-bye.
    fn master_leaves(&mut self) {
        self.master.terminate();
        self.check_stand_in(LEAVE_LIMIT);
    }

    /// Ordinary topics show the slave as master that takes no messages; those who must know
    /// better see it under its own id.
    fn check_stand_in(&mut self, limit: Duration) {
        let acting = self.shown_as(0, READ_ONLY);
        self.wait_for_route(&acting, limit);
        assert_eq!(self.admin.topic_route(&self.client.topic), acting);
        for topic in [CLUSTER.to_owned(), self.slave.name.clone()] {
            assert_eq!(self.route(&topic).brokers, acting.brokers, "{topic}");
        }
        let own = self.shown_as(1, READ_ONLY).brokers;
        assert_eq!(self.route(&self.member_topic()).brokers, own);
        self.check_members(&[(1, self.slave.address.to_string())]);
    }

    fn end(mut self) {
        self.master.wait_for_end();
        self.check_stand_in(Duration::ZERO);
        self.slave.kill();
        wait_for("106 is empty", KILL_LIMIT, || {
            (self.cluster_info() == ClusterInfo::default()).then_some(())
        });
        self.server.stop();
    }

    fn start_both(&mut self) {
        let Self {
            peers,
            master,
            slave,
            ..
        } = self;
        thread::scope(|scope| {
            scope.spawn(|| master.start(peers));
            scope.spawn(|| slave.start(peers));
        });
        let expected = self.info(&self.members());
        wait_for("106 shows master and slave", REGISTER_LIMIT, || {
            (self.cluster_info() == expected).then_some(())
        });
    }

    fn wait_for_route(&mut self, expected: &Route, limit: Duration) {
        let topic = self.client.topic.clone();
        let what = format!("{topic} is at {:?}", expected.brokers);
        wait_for(&what, limit, || {
            (self.route(&topic) == *expected).then_some(())
        });
    }

    /// What both forms of 105 tell.
    fn route(&mut self, topic: &str) -> Route {
        let [standard, legacy] = [STANDARD, LEGACY].map(|version| {
            let answer = self.probe.route(topic, version);
            succeeds(&answer);
            Route::parse(&answer.body)
        });
        // Between the two, the tables may have changed: then it is not what anyone waits for.
        if standard == legacy {
            standard
        } else {
            Route::default()
        }
    }

    fn check_members(&mut self, members: &[(i64, String)]) {
        assert_eq!(self.cluster_info(), self.info(members));
    }

    fn cluster_info(&mut self) -> ClusterInfo {
        let answer = self.probe.cluster_info();
        succeeds(&answer);
        ClusterInfo::parse(&answer.body)
    }

    /// None while the broker does not say.
    fn log_end(&mut self, broker: SocketAddr) -> Option<u64> {
        let status = self.admin.broker_status(broker);
        let end = status.get("commitLogMaxOffset")?;
        Some(end.parse().unwrap())
    }

    fn members(&self) -> [(i64, String); 2] {
        [(0, &self.master), (1, &self.slave)].map(|(id, broker)| (id, broker.address.to_string()))
    }

    fn info(&self, members: &[(i64, String)]) -> ClusterInfo {
        let name = self.master.name.clone();
        ClusterInfo {
            clusters: [(CLUSTER.to_owned(), [name.clone()].into())].into(),
            brokers: [(name, group(members))].into(),
        }
    }

    fn both(&self) -> Route {
        self.route_to(&self.members(), QUEUES)
    }

    /// The slave alone, under this id.
    fn shown_as(&self, id: i64, queues: Queues) -> Route {
        self.route_to(&[(id, self.slave.address.to_string())], queues)
    }

    fn route_to(&self, members: &[(i64, String)], queues: Queues) -> Route {
        let name = &self.master.name;
        Route {
            brokers: [(name.clone(), group(members))].into(),
            queues: [(name.clone(), queues)].into(),
        }
    }

    /// Where the brokers of a group look for each other.
    fn member_topic(&self) -> String {
        format!("rmq_sys_SYNC_BROKER_MEMBER_{}", self.master.name)
    }
}

fn group(members: &[(i64, String)]) -> Group {
    Group {
        cluster: CLUSTER.to_owned(),
        addresses: members.iter().cloned().collect(),
    }
}

fn succeeds(answer: &Answer) {
    assert_eq!(answer.code, SUCCESS, "{answer:?}");
}
