//! Bodies of answers, byte for byte: alphabetical fields, no white space, nulls left out.

use super::query::Route;
use super::{DataVersion, Group, Mapping, Member, Queue};
use crate::support::fastjson;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn data_version(v: &DataVersion) -> String {
    format!(
        "{{\"counter\":{},\"stateVersion\":{},\"timestamp\":{}}}",
        v.counter, v.state, v.timestamp
    )
}

pub(super) fn kv_table(table: &BTreeMap<String, Option<String>>) -> String {
    let json = Writer { standard: false };
    let set = table
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let entries = set.map(|(key, value)| (json.text(key), json.text(value)));
    format!("{{\"table\":{}}}", object(entries))
}

pub(super) fn topic_list(broker_addr: Option<&str>, topics: &BTreeSet<String>) -> String {
    let json = Writer { standard: false };
    let addr = broker_addr.map(|addr| format!("\"brokerAddr\":{},", json.text(addr)));
    format!(
        "{{{}\"topicList\":{}}}",
        addr.unwrap_or_default(),
        json.texts(topics)
    )
}

pub(super) fn cluster_info(
    groups: &BTreeMap<String, Group>,
    clusters: &BTreeMap<String, BTreeSet<String>>,
    standard: bool,
) -> String {
    let json = Writer { standard };
    let groups = groups
        .iter()
        .map(|(name, group)| (json.text(name), json.group(name, group)));
    let clusters = clusters
        .iter()
        .map(|(name, names)| (json.text(name), json.texts(names)));
    format!(
        "{{\"brokerAddrTable\":{},\"clusterAddrTable\":{}}}",
        object(groups),
        object(clusters)
    )
}

pub(super) fn member_group(
    members: &BTreeMap<i64, Member>,
    name: Option<&str>,
    cluster: Option<&str>,
    standard: bool,
) -> String {
    let json = Writer { standard };
    let name = name.map(|name| format!(",\"brokerName\":{}", json.text(name)));
    let cluster = cluster.map(|cluster| format!(",\"cluster\":{}", json.text(cluster)));
    format!(
        "{{\"brokerMemberGroup\":{{\"brokerAddrs\":{}{}{}}}}}",
        json.addrs(members),
        name.unwrap_or_default(),
        cluster.unwrap_or_default()
    )
}

/// `TopicRouteData` in the standard or the legacy form.
pub(super) fn route(route: &Route, standard: bool) -> String {
    let json = Writer { standard };
    let groups = route
        .groups
        .iter()
        .map(|(name, group)| json.group(name, group));
    let filters = route
        .filters
        .iter()
        .map(|(addr, list)| (json.text(addr), json.texts(list)));
    let order = route
        .order_conf
        .iter()
        .map(|o| format!("\"orderTopicConf\":{},", json.text(o)));
    let queues = route
        .queues
        .iter()
        .map(|(name, queue)| json.queue(name, queue));
    let mappings = route.mappings.iter().map(|mappings| {
        let entries = mappings
            .iter()
            .map(|(name, m)| (json.text(name), json.mapping(m)));
        format!(",\"topicQueueMappingByBroker\":{}", object(entries))
    });
    format!(
        "{{\"brokerDatas\":{},\"filterServerTable\":{},{}\"queueDatas\":{}{}}}",
        array(groups),
        object(filters),
        order.collect::<String>(),
        array(queues),
        mappings.collect::<String>()
    )
}

struct Writer {
    /// `BrowserCompatible` and quoted keys, instead of fastjson's defaults.
    standard: bool,
}

impl Writer {
    fn text(&self, text: &str) -> String {
        let mut out = String::new();
        if self.standard {
            fastjson::push_browser(&mut out, text);
        } else {
            fastjson::push_plain(&mut out, text);
        }
        out
    }

    fn texts<'a>(&self, texts: impl IntoIterator<Item = &'a String>) -> String {
        array(texts.into_iter().map(|text| self.text(text)))
    }

    fn key(&self, key: i64) -> String {
        if self.standard {
            format!("\"{key}\"")
        } else {
            key.to_string()
        }
    }

    /// `BrowserCompatible` quotes what JavaScript cannot hold.
    fn long(&self, number: i64) -> String {
        if self.standard && number.unsigned_abs() >= 1 << 53 {
            format!("\"{number}\"")
        } else {
            number.to_string()
        }
    }

    fn addrs(&self, members: &BTreeMap<i64, Member>) -> String {
        object(
            members
                .iter()
                .map(|(id, member)| (self.key(*id), self.text(&member.addr))),
        )
    }

    fn group(&self, name: &str, group: &Group) -> String {
        let zone = group
            .zone
            .iter()
            .map(|zone| format!(",\"zoneName\":{}", self.text(zone)));
        format!(
            "{{\"brokerAddrs\":{},\"brokerName\":{},\"cluster\":{},\"enableActingMaster\":{}{}}}",
            self.addrs(&group.members),
            self.text(name),
            self.text(&group.cluster),
            group.acting,
            zone.collect::<String>()
        )
    }

    fn queue(&self, name: &str, queue: &Queue) -> String {
        format!(
            "{{\"brokerName\":{},\"perm\":{},\"readQueueNums\":{},\"topicSysFlag\":{},\
             \"writeQueueNums\":{}}}",
            self.text(name),
            queue.perm,
            queue.read,
            queue.sys_flag,
            queue.write
        )
    }

    fn mapping(&self, mapping: &Mapping) -> String {
        let info = &mapping.info;
        let ids: BTreeMap<_, _> = info.ids.iter().copied().collect();
        format!(
            "{{\"bname\":{},\"currIdMap\":{},\"dirty\":false,\"epoch\":{},\
             \"scope\":\"__global__\",\"topic\":{},\"totalQueues\":{}}}",
            self.text(&info.bname),
            object(
                ids.iter()
                    .map(|(id, to)| (self.key(i64::from(*id)), to.to_string()))
            ),
            self.long(info.epoch),
            self.text(&info.topic),
            info.total_queues
        )
    }
}

fn object(entries: impl Iterator<Item = (String, String)>) -> String {
    let fields: Vec<_> = entries
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
