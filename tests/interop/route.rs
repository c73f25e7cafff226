//! What answers mean: routes, cluster tables and what mqadmin prints, as plain values to compare.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A 105 answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// By broker name.
    pub(crate) brokers: BTreeMap<String, Group>,
    /// By broker name.
    pub(crate) queues: BTreeMap<String, Queues>,
}

/// One broker name: its cluster, and an address for each id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) cluster: String,
    pub(crate) addresses: BTreeMap<i64, String>,
}

/// A topic's queues on one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) perm: u64,
}

/// A 106 answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterInfo {
    pub(crate) clusters: BTreeMap<String, BTreeSet<String>>,
    pub(crate) brokers: BTreeMap<String, Group>,
}

impl Route {
    /// From a body, with bare or quoted keys.
    pub(crate) fn parse(body: &str) -> Self {
        let json = parse_json(body);
        let mut route = Self::default();
        for group in list(&json["brokerDatas"]) {
            let (name, group) = parse_group(group);
            assert!(
                route.brokers.insert(name, group).is_none(),
                "a broker twice: {body}"
            );
        }
        for queues in list(&json["queueDatas"]) {
            let name = text(&queues["brokerName"]);
            assert_eq!(queues["topicSysFlag"], 0, "{body}");
            let queues = Queues {
                read: number(&queues["readQueueNums"]),
                write: number(&queues["writeQueueNums"]),
                perm: number(&queues["perm"]),
            };
            assert!(
                route.queues.insert(name, queues).is_none(),
                "queues twice: {body}"
            );
        }
        assert_eq!(
            json["filterServerTable"],
            Value::Object(serde_json::Map::new()),
            "{body}"
        );
        route
    }

    /// Forgets a broker.
    pub(crate) fn remove(&mut self, broker: &str) {
        self.brokers.remove(broker);
        self.queues.remove(broker);
    }
}

impl ClusterInfo {
    pub(crate) fn parse(body: &str) -> Self {
        let json = parse_json(body);
        let mut info = Self::default();
        for (cluster, names) in map(&json["clusterAddrTable"]) {
            info.clusters
                .insert(cluster.clone(), list(names).iter().map(text).collect());
        }
        for (key, group) in map(&json["brokerAddrTable"]) {
            let (name, group) = parse_group(group);
            assert_eq!(*key, name, "{body}");
            info.brokers.insert(name, group);
        }
        info
    }
}

/// The names in a 206 answer.
pub(crate) fn parse_topics(body: &str) -> BTreeSet<String> {
    let json = parse_json(body);
    let names = list(&json["topicList"]);
    let set: BTreeSet<String> = names.iter().map(text).collect();
    assert_eq!(set.len(), names.len(), "a topic twice: {body}");
    set
}

/// The words of each row of `mqadmin clusterList`: cluster, broker, id, address, version, ….
/// That of 4.9.4 trips over what a 5.x broker tells, prints where, and goes on with the row.
pub(crate) fn parse_cluster_list(lines: &[String]) -> Vec<Vec<&str>> {
    let header = lines
        .iter()
        .position(|line| line.starts_with("#Cluster Name"));
    let Some(header) = header else {
        panic!("no table: {lines:?}");
    };
    let is_trace = |line: &&String| line.starts_with("java.") || line.starts_with("\tat ");
    let rows = lines[header + 1..]
        .iter()
        .filter(|line| !is_trace(line))
        .map(|line| line.split_whitespace().collect());
    rows.filter(|row: &Vec<&str>| row.len() > 4).collect()
}

/// Whether it is JSON as every parser takes it.
pub(crate) fn is_standard_json(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok()
}

/// Also with bare keys.
pub(crate) fn parse_json(body: &str) -> Value {
    serde_json::from_str(&quote_bare_keys(body)).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// fastjson writes integer keys of maps bare; a number that a colon follows is one.
fn quote_bare_keys(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(first) = rest.chars().next() {
        let is_number = first == '-' || first.is_ascii_digit();
        let len = match first {
            '"' => string_len(rest),
            _ if is_number => number_len(rest),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        if is_number && after.trim_start().starts_with(':') {
            out.extend(["\"", token, "\""]);
        } else {
            out.push_str(token);
        }
        rest = after;
    }
    out
}

fn number_len(text: &str) -> usize {
    text.find(|c: char| c != '-' && !c.is_ascii_digit())
        .unwrap_or(text.len())
}

/// The length of the string literal at the start, both quotes included.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    panic!("a string without an end: {text}");
}

fn parse_group(group: &Value) -> (String, Group) {
    let addresses = map(&group["brokerAddrs"])
        .iter()
        .map(|(id, address)| (id.parse().unwrap(), text(address)))
        .collect();
    (
        text(&group["brokerName"]),
        Group {
            cluster: text(&group["cluster"]),
            addresses,
        },
    )
}

fn list(value: &Value) -> &Vec<Value> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"))
}

fn map(value: &Value) -> &serde_json::Map<String, Value> {
    value
        .as_object()
        .unwrap_or_else(|| panic!("no map: {value}"))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn bare_keys_are_quoted_and_values_are_not() {
    let bare = r#"{"brokerAddrs":{0:"a:1",-1 :"b,2:\"{3:"},"list":[{4:5},6,7],"n":-8}"#;
    let quoted = r#"{"brokerAddrs":{"0":"a:1","-1" :"b,2:\"{3:"},"list":[{"4":5},6,7],"n":-8}"#;
    assert_eq!(quote_bare_keys(bare), quoted);
    assert_eq!(quote_bare_keys(quoted), quoted);
}
