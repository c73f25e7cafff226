//! The other read answers, each a function of a snapshot. Java writes them in the legacy form
//! only; 106 and 901 are strict JSON here for whoever says that it takes nothing else.

use std::collections::BTreeSet;

use super::Form;
use super::snapshot::{Snapshot, WALK_UNITS};
use super::topic::Pair;
use crate::wire::fastjson;
use crate::wire::model::{DataVersion, TOPIC_SYS_FLAG_UNIT, TOPIC_SYS_FLAG_UNIT_SUB};
use crate::wire::pace::Pace;

/// Units of a [`Pace`] for one insertion into a sorted set.
const INSERT_UNITS: usize = 64;

/// Units of a [`Pace`] that copying this many bytes is worth: copying is some eight times
/// cheaper than lexing.
fn copy_units(bytes: usize) -> usize {
    bytes / 8 + 16
}

/// `ClusterInfo` (106).
pub async fn cluster_info(snapshot: &Snapshot, form: Form, pace: &Pace) -> Vec<u8> {
    let mut out = b"{\"brokerAddrTable\":{".to_vec();
    let groups = snapshot.sorted_groups(pace).await;
    for (i, (_, group)) in groups.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let start = out.len();
        form.write_string(&mut out, &group.name);
        out.push(b':');
        out.extend_from_slice(&group.fragments.broker.get(form)[1..]);
        pace.step(copy_units(out.len() - start)).await;
    }
    out.extend_from_slice(b"},\"clusterAddrTable\":{");
    let clusters = snapshot.sorted_clusters(pace).await;
    for (i, (cluster, names)) in clusters.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        form.write_string(&mut out, cluster);
        out.extend_from_slice(b":[");
        for (j, (name, ())) in names.into_iter().enumerate() {
            if j > 0 {
                out.push(b',');
            }
            form.write_string(&mut out, name);
            pace.step(copy_units(name.len())).await;
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}}");
    out
}

/// `TopicList` of all topics (206).
pub async fn topic_list(snapshot: &Snapshot, pace: &Pace) -> Vec<u8> {
    let mut list = TopicList::new();
    for (name, _) in snapshot.sorted_topics(pace).await {
        list.push(name);
        pace.step(copy_units(name.len())).await;
    }
    list.finish()
}

/// `TopicList` of cluster and broker names (304), with the address of some broker: that of the
/// lowest id of the first group.
pub async fn system_topic_list(snapshot: &Snapshot, pace: &Pace) -> Vec<u8> {
    let mut names = BTreeSet::new();
    for (cluster, brokers) in snapshot.sorted_clusters(pace).await {
        names.insert(cluster);
        for (broker, ()) in brokers {
            names.insert(broker);
            pace.step(INSERT_UNITS).await;
        }
    }
    let groups = snapshot.sorted_groups(pace).await;
    let addr = groups
        .first()
        .and_then(|(_, group)| group.members.first())
        .map(|m| &m.addr);
    let mut list = TopicList::with_broker_addr(addr.map(|a| &**a));
    for name in names {
        list.push(name);
        pace.step(copy_units(name.len())).await;
    }
    list.finish()
}

/// `TopicList` of the topics that have an entry at a broker of the cluster (224). An unknown
/// cluster has none.
pub async fn topics_of_cluster(snapshot: &Snapshot, cluster: Option<&str>, pace: &Pace) -> Vec<u8> {
    let mut list = TopicList::new();
    if let Some(cluster) = cluster.and_then(|name| snapshot.cluster(name)) {
        let in_cluster = |pair: &Pair| {
            let name = snapshot.group(pair.group).map(|g| &g.name);
            name.is_some_and(|n| cluster.brokers.get(snapshot.hash(n), |b| b == n).is_some())
        };
        for (name, topic) in snapshot.sorted_topics(pace).await {
            if topic.pairs.iter().any(in_cluster) {
                list.push(name);
            }
            pace.step(WALK_UNITS * topic.pairs.len()).await;
        }
    }
    list.finish()
}

/// `TopicList` by the flags of each topic's first entry, in the order of broker names (311-313).
pub async fn unit_topics(
    snapshot: &Snapshot,
    unit: Option<bool>,
    sub: Option<bool>,
    pace: &Pace,
) -> Vec<u8> {
    let mut list = TopicList::new();
    let fits = |flag: i32, bit: i32, wanted: Option<bool>| {
        wanted.is_none_or(|wanted| (flag & bit != 0) == wanted)
    };
    for (name, topic) in snapshot.sorted_topics(pace).await {
        let shape = topic
            .pairs
            .first()
            .and_then(|pair| snapshot.shapes.get(pair.shape));
        let flag = shape.map_or(0, |shape| shape.queues.topic_sys_flag);
        if fits(flag, TOPIC_SYS_FLAG_UNIT, unit) && fits(flag, TOPIC_SYS_FLAG_UNIT_SUB, sub) {
            list.push(name);
        }
        pace.step(WALK_UNITS).await;
    }
    list.finish()
}

/// `BrokerMemberGroup` (901): the cluster is echoed, not checked.
pub fn member_group(
    snapshot: &Snapshot,
    cluster: Option<&str>,
    broker: Option<&str>,
    form: Form,
) -> Vec<u8> {
    let mut out = b"{\"brokerMemberGroup\":{\"brokerAddrs\":{".to_vec();
    if let Some(group) = broker.and_then(|name| snapshot.group_named(name)) {
        for (i, member) in group.members.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            form.write_key(&mut out, member.id);
            form.write_string(&mut out, &member.addr);
        }
    }
    out.push(b'}');
    for (key, value) in [
        (&b",\"brokerName\":"[..], broker),
        (b",\"cluster\":", cluster),
    ] {
        if let Some(value) = value {
            out.extend_from_slice(key);
            form.write_string(&mut out, value);
        }
    }
    out.extend_from_slice(b"}}");
    out
}

/// `DataVersion` (322).
pub fn write_data_version(out: &mut Vec<u8>, version: &DataVersion) {
    let fields = [
        (&b"{\"counter\":"[..], version.counter),
        (b",\"stateVersion\":", version.state_version),
        (b",\"timestamp\":", version.timestamp),
    ];
    for (key, value) in fields {
        out.extend_from_slice(key);
        fastjson::write_i64(out, value);
    }
    out.push(b'}');
}

/// Writes a `TopicList`.
struct TopicList {
    out: Vec<u8>,
    any: bool,
}

impl TopicList {
    fn new() -> Self {
        Self::with_broker_addr(None)
    }

    fn with_broker_addr(addr: Option<&str>) -> Self {
        let mut out = b"{".to_vec();
        if let Some(addr) = addr {
            out.extend_from_slice(b"\"brokerAddr\":");
            fastjson::write_string(&mut out, addr);
            out.push(b',');
        }
        out.extend_from_slice(b"\"topicList\":[");
        Self { out, any: false }
    }

    fn push(&mut self, name: &str) {
        if self.any {
            self.out.push(b',');
        }
        fastjson::write_string(&mut self.out, name);
        self.any = true;
    }

    fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(b"]}");
        self.out
    }
}
