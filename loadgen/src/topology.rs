//! Which broker has which topics: a synthetic cluster that follows from a few numbers and a seed.
//!
//! Everything that an answer may contain can be looked up here, so nothing of what was sent has
//! to be remembered. A broker group has a master and slaves; all members have the same topics, as
//! slaves copy those of their master. Each group has the 13 system topics of a 5.3.3 broker
//! (`TopicConfigManager`) and user topics, a third of which are retry topics. Most user topics
//! are on 4 to 16 groups of one cluster, with a heavy tail up to the whole cluster.
//!
//! Deliberately absent: who is up (`board`), and static topics.

use crate::config::Config;
use crate::rng::{Digest, Rng};

/// System topics of every broker.
const GLOBAL_TOPICS: [(&str, Shape); 8] = [
    ("TBW102", Shape::new(8, 7)),
    ("SELF_TEST_TOPIC", Shape::new(1, 6)),
    ("BenchmarkTest", Shape::new(1024, 6)),
    ("SCHEDULE_TOPIC_XXXX", Shape::new(18, 6)),
    ("OFFSET_MOVED_EVENT", Shape::new(1, 6)),
    ("RMQ_SYS_TRANS_HALF_TOPIC", Shape::new(1, 6)),
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", Shape::new(1, 6)),
    ("rmq_sys_wheel_timer", Shape::new(1, 6)),
];
/// Topics named after the cluster, on each of its brokers.
const CLUSTER_TOPICS: u32 = 3;
/// Topics named after the group.
const GROUP_TOPICS: u32 = 2;
/// Topics that a broker has before anybody creates one.
pub const SYSTEM_TOPICS: u32 = GLOBAL_TOPICS.len() as u32 + CLUSTER_TOPICS + GROUP_TOPICS;
/// Topics of each group that may change while it runs.
pub const HOT_TOPICS: usize = 4;
/// Narrowest user topic, and the shape of the tail: seven in eight topics have up to 16 groups.
const MIN_WIDTH: f64 = 4.0;
const WIDTH_TAIL: f64 = 1.5;

/// What names of user topics begin with.
const SUBJECTS: [&str; 8] = [
    "order-created",
    "payment-result",
    "inventory-change",
    "user-login-event",
    "shipment-tracking",
    "audit-log",
    "click-stream",
    "notification-push",
];

/// What a broker says of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `readQueueNums` and `writeQueueNums`.
    pub queues: i32,
    /// Bits of `PermName`.
    pub perm: i32,
}

impl Shape {
    const fn new(queues: i32, perm: i32) -> Self {
        Self { queues, perm }
    }

    /// The same topic after `version` changes: neighbouring versions never look alike.
    #[must_use]
    pub fn at_version(self, version: u32) -> Self {
        Self {
            queues: self.queues + (version % SHAPES_IN_TURN) as i32,
            ..self
        }
    }
}

/// So many changes of a topic look different, then the first comes again.
pub const SHAPES_IN_TURN: u32 = 64;

/// The whole cluster.
#[derive(Debug)]
pub struct Topology {
    /// Brokers, slaves included.
    pub brokers: u32,
    /// Members of a group; the last group may have fewer.
    pub replicas: u32,
    /// Broker groups.
    pub groups: u32,
    /// Clusters.
    pub clusters: u32,
    /// Names of all topics.
    names: Vec<Box<str>>,
    shapes: Vec<Shape>,
    /// Groups of each topic, ascending.
    topic_groups: Lists,
    /// Topics of each group: first its system topics, then the user topics.
    group_topics: Lists,
}

/// Many short lists in two allocations.
#[derive(Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn of(lists: &[Vec<u32>]) -> Self {
        let mut made = Self::default();
        for list in lists {
            made.starts.push(made.items.len() as u32);
            made.items.extend_from_slice(list);
        }
        made.starts.push(made.items.len() as u32);
        made
    }

    fn get(&self, index: u32) -> &[u32] {
        let index = index as usize;
        &self.items[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

impl Topology {
    /// The cluster that these values describe.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let groups = config.brokers.div_ceil(config.replicas);
        let mut maker = Maker {
            clusters: config.clusters,
            names: Vec::new(),
            shapes: Vec::new(),
            topic_groups: Vec::new(),
            group_topics: vec![Vec::new(); groups as usize],
        };
        maker.system_topics(groups);
        let user_topics = config.topics.saturating_sub(SYSTEM_TOPICS);
        for cluster in 0..config.clusters {
            maker.user_topics(cluster, groups, user_topics, config.seed);
        }
        Self {
            brokers: config.brokers,
            replicas: config.replicas,
            groups,
            clusters: config.clusters,
            names: maker.names,
            shapes: maker.shapes,
            topic_groups: Lists::of(&maker.topic_groups),
            group_topics: Lists::of(&maker.group_topics),
        }
    }

    /// Number of topics.
    #[must_use]
    pub fn topics(&self) -> u32 {
        self.names.len() as u32
    }

    /// Queue entries of all topics: pairs of a topic and a group.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.topic_groups.items.len()
    }

    /// Name of a topic.
    #[must_use]
    pub fn topic_name(&self, topic: u32) -> &str {
        &self.names[topic as usize]
    }

    /// What every broker says of a topic that has never changed.
    #[must_use]
    pub fn shape(&self, topic: u32) -> Shape {
        self.shapes[topic as usize]
    }

    /// Groups that have a topic, ascending.
    #[must_use]
    pub fn groups_of(&self, topic: u32) -> &[u32] {
        self.topic_groups.get(topic)
    }

    /// Topics of a group, system topics first.
    #[must_use]
    pub fn topics_of(&self, group: u32) -> &[u32] {
        self.group_topics.get(group)
    }

    /// The topics of everybody's own making.
    #[must_use]
    pub fn user_topics(&self) -> std::ops::Range<u32> {
        self.first_user_topic()..self.topics()
    }

    /// The topics that every broker has.
    #[must_use]
    pub fn global_topics(&self) -> std::ops::Range<u32> {
        0..GLOBAL_TOPICS.len() as u32
    }

    /// The topic that only this group has, and that brokers read to learn of each other:
    /// `rmq_sys_SYNC_BROKER_MEMBER_` and the name of the group.
    #[must_use]
    pub fn member_topic(&self, group: u32) -> u32 {
        GLOBAL_TOPICS.len() as u32 + CLUSTER_TOPICS * self.clusters + GROUP_TOPICS * group + 1
    }

    /// Topics of `group` that may change, at most [`HOT_TOPICS`].
    pub fn hot_topics(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let user = &self.topics_of(group)[SYSTEM_TOPICS as usize..];
        let step = (user.len() / HOT_TOPICS).max(1);
        user.iter().step_by(step).take(HOT_TOPICS).copied()
    }

    /// Which of the topics of `group` that may change this is.
    #[must_use]
    pub fn hot_slot(&self, group: u32, topic: u32) -> Option<usize> {
        if topic < self.first_user_topic() {
            return None;
        }
        self.hot_topics(group).position(|hot| hot == topic)
    }

    /// Members of a group.
    #[must_use]
    pub fn members(&self, group: u32) -> std::ops::Range<u32> {
        let first = group * self.replicas;
        first..(first + self.replicas).min(self.brokers)
    }

    /// The group of a broker.
    #[must_use]
    pub fn group(&self, broker: u32) -> u32 {
        broker / self.replicas
    }

    /// The id of a broker in its group; 0 is the master.
    #[must_use]
    pub fn broker_id(&self, broker: u32) -> u32 {
        broker % self.replicas
    }

    /// The cluster of a group.
    #[must_use]
    pub fn cluster(&self, group: u32) -> u32 {
        group % self.clusters
    }

    fn first_user_topic(&self) -> u32 {
        GLOBAL_TOPICS.len() as u32 + CLUSTER_TOPICS * self.clusters + GROUP_TOPICS * self.groups
    }

    /// Adds the whole cluster to the digest of a plan.
    pub fn digest(&self, digest: &mut Digest) {
        for topic in 0..self.topics() {
            digest.bytes(self.topic_name(topic).as_bytes());
            digest.number(self.shape(topic).queues as u64);
            for group in self.groups_of(topic) {
                digest.bytes(&group.to_le_bytes());
            }
        }
    }
}

/// Name of a cluster.
#[must_use]
pub fn cluster_name(cluster: u32) -> String {
    format!("cluster-{cluster}")
}

/// The cluster with this name.
#[must_use]
pub fn parse_cluster(name: &str) -> Option<u32> {
    name.strip_prefix("cluster-")?.parse().ok()
}

/// Name of a group.
#[must_use]
pub fn group_name(group: u32) -> String {
    format!("broker-{group:05}")
}

/// The group with this name.
#[must_use]
pub fn parse_group(name: &str) -> Option<u32> {
    name.strip_prefix("broker-")?.parse().ok()
}

/// The address that a broker registers; nobody connects to it.
#[must_use]
pub fn broker_addr(broker: u32) -> String {
    let [_, a, b, c] = broker.to_be_bytes();
    format!("10.{a}.{b}.{c}:10911")
}

/// `haServerAddr` of a broker.
#[must_use]
pub fn ha_addr(broker: u32) -> String {
    let [_, a, b, c] = broker.to_be_bytes();
    format!("10.{a}.{b}.{c}:10912")
}

/// The broker with this address.
#[must_use]
pub fn parse_addr(addr: &str) -> Option<u32> {
    let mut parts = addr.strip_prefix("10.")?.strip_suffix(":10911")?.split('.');
    let mut byte = || parts.next()?.parse::<u8>().ok();
    let broker = u32::from_be_bytes([0, byte()?, byte()?, byte()?]);
    parts.next().is_none().then_some(broker)
}

/// A topology under construction.
struct Maker {
    clusters: u32,
    names: Vec<Box<str>>,
    shapes: Vec<Shape>,
    topic_groups: Vec<Vec<u32>>,
    group_topics: Vec<Vec<u32>>,
}

impl Maker {
    fn add(&mut self, name: impl Into<Box<str>>, shape: Shape, mut groups: Vec<u32>) {
        groups.sort_unstable();
        let topic = self.names.len() as u32;
        for group in &groups {
            self.group_topics[*group as usize].push(topic);
        }
        self.names.push(name.into());
        self.shapes.push(shape);
        self.topic_groups.push(groups);
    }

    fn system_topics(&mut self, groups: u32) {
        for (name, shape) in GLOBAL_TOPICS {
            self.add(name, shape, (0..groups).collect());
        }
        for cluster in 0..self.clusters {
            let name = cluster_name(cluster);
            let members = || (cluster..groups).step_by(self.clusters as usize).collect();
            let (own, reply, revive): (Vec<u32>, Vec<u32>, Vec<u32>) =
                (members(), members(), members());
            self.add(name.as_str(), Shape::new(16, 7), own);
            self.add(format!("{name}_REPLY_TOPIC"), Shape::new(1, 6), reply);
            self.add(
                format!("rmq_sys_REVIVE_LOG_{name}"),
                Shape::new(8, 6),
                revive,
            );
        }
        for group in 0..groups {
            let name = group_name(group);
            self.add(name.as_str(), Shape::new(1, 7), vec![group]);
            let member_topic = format!("rmq_sys_SYNC_BROKER_MEMBER_{name}");
            self.add(member_topic, Shape::new(1, 6), vec![group]);
        }
    }

    /// Topics of one cluster, until each of its groups has `per_group` of them.
    fn user_topics(&mut self, cluster: u32, groups: u32, per_group: u32, seed: u64) {
        let mut rng = Rng::of(&[seed, 0x746f_7069, u64::from(cluster)]);
        let mut open: Vec<(u32, u32)> = (cluster..groups)
            .step_by(self.clusters as usize)
            .filter(|_| per_group > 0)
            .map(|group| (group, per_group))
            .collect();
        let all = open.len();
        while !open.is_empty() {
            let width = (MIN_WIDTH * (1.0 - rng.unit()).powf(-1.0 / WIDTH_TAIL)) as usize;
            let width = width.min(all).min(open.len());
            let mut chosen = Vec::with_capacity(width);
            for front in 0..width {
                let pick = front + rng.below((open.len() - front) as u64) as usize;
                open.swap(front, pick);
                open[front].1 -= 1;
                chosen.push(open[front].0);
            }
            open.retain(|(_, left)| *left > 0);
            let number = self.names.len();
            let name = if rng.below(3) == 0 {
                format!("%RETRY%consumer-group-{number:06}")
            } else {
                let subject = SUBJECTS[rng.below(SUBJECTS.len() as u64) as usize];
                format!("{subject}-{number:06}")
            };
            let queues = [4, 8, 8, 8, 16][rng.below(5) as usize];
            self.add(name, Shape::new(queues, 6), chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunArgs;

    fn topology(brokers: u32, topics: u32) -> Topology {
        let args = RunArgs {
            brokers: Some(brokers),
            topics: Some(topics),
            ..RunArgs::default()
        };
        Topology::new(&Config::resolve(&args, 2))
    }

    #[test]
    fn every_broker_has_its_topics_and_both_directions_agree() {
        let topology = topology(200, 60);
        assert_eq!((topology.groups, topology.clusters), (100, 1));
        let mut pairs = 0;
        for group in 0..topology.groups {
            let topics = topology.topics_of(group);
            assert_eq!(topics.len(), 60, "{group}");
            for topic in topics {
                assert!(topology.groups_of(*topic).contains(&group));
            }
            let own = topology.member_topic(group);
            assert_eq!(
                topology.topic_name(own),
                format!("rmq_sys_SYNC_BROKER_MEMBER_{}", group_name(group))
            );
            assert_eq!(topology.groups_of(own), [group]);
            pairs += topics.len();
        }
        assert_eq!(topology.pairs(), pairs);
    }

    #[test]
    fn most_user_topics_are_narrow_and_some_are_wide() {
        let topology = topology(1000, 200);
        let widths: Vec<usize> = topology
            .user_topics()
            .map(|topic| topology.groups_of(topic).len())
            .collect();
        let share = |test: &dyn Fn(usize) -> bool| {
            widths.iter().filter(|width| test(**width)).count() as f64 / widths.len() as f64
        };
        let usual = share(&|width| (4..=16).contains(&width));
        assert!((0.8..0.95).contains(&usual), "{usual}");
        assert!(widths.iter().any(|width| *width > 100));
        for topic in topology.user_topics() {
            let groups = topology.groups_of(topic);
            assert!(groups.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn the_system_topics_of_a_group_are_those_of_a_5_3_3_broker() {
        let topology = topology(4, 0);
        let names: Vec<&str> = topology
            .topics_of(1)
            .iter()
            .map(|topic| topology.topic_name(*topic))
            .collect();
        assert_eq!(names.len(), 13);
        for name in [
            "cluster-0",
            "cluster-0_REPLY_TOPIC",
            "rmq_sys_REVIVE_LOG_cluster-0",
            "broker-00001",
            "rmq_sys_SYNC_BROKER_MEMBER_broker-00001",
            "TBW102",
            "rmq_sys_wheel_timer",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        assert_eq!(topology.hot_topics(1).count(), 0);
    }

    #[test]
    fn hot_topics_are_found_again() {
        let topology = topology(40, 60);
        for group in 0..topology.groups {
            let hot: Vec<u32> = topology.hot_topics(group).collect();
            assert_eq!(hot.len(), HOT_TOPICS);
            for (slot, topic) in hot.iter().enumerate() {
                assert_eq!(topology.hot_slot(group, *topic), Some(slot));
            }
        }
        assert_eq!(topology.hot_slot(0, 0), None);
    }

    #[test]
    fn names_and_addresses_are_read_back() {
        for number in [0, 7, 4999, 99_999, 1 << 20] {
            assert_eq!(parse_group(&group_name(number)), Some(number));
            assert_eq!(parse_addr(&broker_addr(number)), Some(number));
            assert_eq!(parse_cluster(&cluster_name(number)), Some(number));
        }
        for addr in [
            "10.0.0:10911",
            "10.0.0.1.2:10911",
            "11.0.0.1:10911",
            "10.0.0.1:1",
        ] {
            assert_eq!(parse_addr(addr), None, "{addr}");
        }
    }

    #[test]
    fn neighbouring_versions_of_a_topic_differ() {
        let shape = Shape::new(8, 6);
        for version in 0..200 {
            assert_ne!(shape.at_version(version), shape.at_version(version + 1));
        }
        assert_eq!(shape.at_version(0), shape);
    }
}
