//! What is asked after each operation, and how the operations of the model test are adapted to
//! servers that have a clock of their own.

use std::time::Duration;

use crate::servers::SCAN_MS;
use crate::support::request::{Body, Request};
use crate::support::workload::{ADDRS, CLUSTERS, NAMES, NAMESPACES, TOPICS};

/// A heartbeat timeout that has passed before anything else is asked, but not before the
/// registration is answered: Java closes the connection at once.
pub(crate) const MORTAL_MS: u64 = 150;
/// When it is found by a scan at the latest.
pub(crate) const EXPIRY: Duration = Duration::from_millis(MORTAL_MS + 2 * SCAN_MS);

/// Makes the switches those of a new server, and the KV namespace of routes exist and be empty,
/// unless there is none yet.
pub(crate) fn preparation(fresh: bool) -> Vec<Request> {
    let kv = |code| {
        Request::new(code)
            .with("namespace", NAMESPACES[0])
            .with("key", "none")
            .with("value", "none")
    };
    let switches = "orderMessageEnable=false\nreturnOrderTopicConfigToBroker=true\n\
                    supportActingMaster=false\nenableAllTopicList=true\nenableTopicList=true\n\
                    deleteTopicWithBrokerRegistration=false\nneedWaitForService=false\n\
                    waitSecondsForService=0\n";
    let config = Request {
        body: Body::Raw(switches.into()),
        ..Request::new(318)
    };
    if fresh {
        return vec![config];
    }
    vec![config, kv(100), kv(102)]
}

/// Everything that can be asked; of what is asked in many ways, some ways in turn.
pub(crate) fn everything(suffix: &str, turn: usize) -> Vec<Request> {
    let topic = |topic: &str| format!("{topic}{suffix}");
    let route = |version, name: &str| Request {
        version,
        ..Request::new(105).with("topic", &topic(name))
    };
    let mut asks = Vec::new();
    for (i, name) in TOPICS.iter().enumerate() {
        // each topic in both forms at every other turn, and in one of them at each
        if !(turn + i).is_multiple_of(4) {
            asks.push(route(317, name));
        }
        if (turn + i) % 4 != 2 {
            asks.push(route(479, name));
        }
    }
    let name = TOPICS[turn % TOPICS.len()];
    let zones = [
        ("true", "east"),
        ("True", "WEST"),
        ("true", " "),
        ("1", "east"),
    ];
    for version in [400, 401].into_iter().skip(turn % 2) {
        let (mode, zone) = zones[turn / TOPICS.len() % zones.len()];
        let ask = route(version, name).with("__ZONE_MODE", mode);
        asks.push(ask.with("__ZONE_NAME", zone));
    }
    asks.push(route(0, name).with("acceptStandardJsonOnly", "TRUE"));
    asks.push(route(513, "unknown"));
    asks.push(Request::new(106));
    if turn.is_multiple_of(8) {
        asks.push(Request::new(106).with("acceptStandardJsonOnly", "true"));
    }
    asks.extend([206, 304, 311, 312, 313].map(Request::new));
    for cluster in CLUSTERS {
        asks.push(Request::new(224).with("cluster", cluster));
    }
    for name in NAMES {
        let ask = Request::new(901).with("brokerName", name);
        asks.push(ask.with("clusterName", CLUSTERS[turn % 2]));
    }
    for addr in ADDRS {
        for cluster in CLUSTERS {
            let ask = Request::new(322).with("brokerAddr", addr);
            asks.push(ask.with("clusterName", cluster));
        }
    }
    for namespace in NAMESPACES {
        let namespace = own_namespace(namespace, suffix);
        let ask = Request::new(101).with("namespace", &namespace);
        asks.push(ask.with("key", &topic(name)));
        if namespace != NAMESPACES[0] {
            asks.push(Request::new(219).with("namespace", &namespace));
        }
    }
    asks.push(Request::new(219).with("namespace", NAMESPACES[0]));
    asks
}

/// Gives the names of this sequence to a request, and clocks that work here. Returns whether it
/// registers a broker that expires at once; none if the request has no place here.
pub(crate) fn adapt(req: &mut Request, suffix: &str, binary: bool) -> Option<bool> {
    if let Body::Raw(bytes) = &mut req.body
        && req.code == 318
    {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.starts_with("notifyMinBrokerIdChanged") {
            return None; // it would dial the addresses that the brokers claim
        }
        *bytes = text
            .replace("=45", "=0")
            .replace("=2000", "=2000000")
            .into();
    }
    if binary && !(-0x8000..0x8000).contains(&req.version) {
        return None;
    }
    let mut mortal = false;
    for (key, value) in &mut req.ext {
        match (key.as_str(), value.as_str()) {
            ("topic", _) | ("key", _) => value.push_str(suffix),
            ("namespace", _) => *value = own_namespace(value, suffix),
            ("heartbeatTimeoutMillis", "-5") => {
                *value = MORTAL_MS.to_string();
                mortal = true;
            }
            // the last one never ends here, and at once in Java, whose sum overflows
            ("heartbeatTimeoutMillis", "1000" | "5000" | "9223372036854775807") => {
                *value = "600000".to_owned();
            }
            _ => {}
        }
    }
    req.oneway &= !mortal; // its end may come before it is known to have come
    if let Body::Register(spec) = &mut req.body {
        for topic in &mut spec.topics {
            topic.key.push_str(suffix);
            topic.name.push_str(suffix);
        }
        for (key, mapping) in &mut spec.mappings {
            key.push_str(suffix);
            mapping.topic.push_str(suffix);
        }
    }
    if req.code == 103 && req.field("bodyCrc32").is_some_and(|crc| crc.len() > 5) {
        // of the body with other names
        let crc = crate::support::workload::masked_crc(&req.body_bytes());
        req.ext.retain(|(key, _)| key != "bodyCrc32");
        req.ext.push(("bodyCrc32".to_owned(), crc));
    }
    Some(mortal)
}

/// A request in short, for people.
pub(crate) fn show(req: &Request) -> String {
    let ext: Vec<_> = req
        .ext
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{} (version {}) {}", req.code, req.version, ext.join(" "))
}

/// Routes read the first namespace; the other one may be each sequence's own.
fn own_namespace(namespace: &str, suffix: &str) -> String {
    if namespace == NAMESPACES[0] {
        namespace.to_owned()
    } else {
        format!("{namespace}{suffix}")
    }
}
