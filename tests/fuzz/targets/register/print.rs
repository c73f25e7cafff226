//! Writes a decoded registration as a broker would, in the JSON form and in the counted blocks of
//! the compressed one.

use namesrv::wire::fastjson::write_string;
use namesrv::wire::model::DataVersion;
use namesrv::wire::register::{FilterServers, RegisterBody, TopicConfig, TopicQueueMappingInfo};

/// A key that no JSON of a Java broker may have.
const TYPE_KEY: &str = "@type";

/// Leaves the last of neighbours with one key, as the JSON form's reader does.
pub(super) fn normal(mut body: RegisterBody) -> RegisterBody {
    let mut topics: Vec<TopicConfig> = Vec::new();
    for topic in body.topics {
        if topics.last().is_some_and(|last| key(last) == key(&topic)) {
            topics.pop();
        }
        topics.push(topic);
    }
    body.topics = topics;
    body
}

/// `RegisterBrokerBody` of 5.x; `None` for what cannot be written so.
pub(super) fn json(body: &RegisterBody) -> Option<Vec<u8>> {
    let mut keys = body
        .topics
        .iter()
        .map(key)
        .chain(body.mappings.iter().map(|(key, _)| &**key));
    if keys.any(|key| key == TYPE_KEY) {
        return None;
    }
    let filters = filter_list(&body.filter_servers);
    let version = version(body.data_version, body.version_defaulted);
    let topics = body.topics.iter().map(|topic| {
        let shape = &topic.shape;
        format!(
            "{}:{{\"attributes\":{{}},\"order\":false,\"perm\":{},\"readQueueNums\":{},\
             \"topicFilterType\":\"SINGLE_TAG\",\"topicName\":{},\"topicSysFlag\":{},\
             \"writeQueueNums\":{}}}",
            quoted(key(topic)),
            shape.perm,
            shape.read_queues,
            quoted(&topic.name),
            shape.topic_sys_flag,
            shape.write_queues
        )
    });
    let topics = topics.collect::<Vec<_>>().join(",");
    let mappings = body.mappings.iter();
    let mappings = mappings.map(|(key, info)| format!("{}:{}", quoted(key), mapping(info)));
    let mappings = mappings.collect::<Vec<_>>().join(",");
    let text = format!(
        "{{\"filterServerList\":{filters},\"topicConfigSerializeWrapper\":{{\
         \"dataVersion\":{version},\"mappingDataVersion\":{{\"counter\":0,\"timestamp\":1}},\
         \"topicConfigTable\":{{{topics}}},\"topicQueueMappingDetailMap\":{{}},\
         \"topicQueueMappingInfoMap\":{{{mappings}}}}}}}"
    );
    Some(text.into_bytes())
}

/// The plaintext of the compressed form of 5.x, and what it says of the body: it has no flags, no
/// map keys, and no names with blanks.
pub(super) fn blocks(body: &RegisterBody) -> Option<(Vec<u8>, RegisterBody)> {
    let mut expected = body.clone();
    let mut out = Vec::new();
    push(
        &mut out,
        &version(body.data_version, body.version_defaulted),
    );
    out.extend((body.topics.len() as u32).to_be_bytes());
    for topic in &mut expected.topics {
        (topic.key, topic.shape.topic_sys_flag) = (None, 0);
        let (name, shape) = (&topic.name, &topic.shape);
        if name.contains(' ') {
            return None;
        }
        let (read, write, perm) = (shape.read_queues, shape.write_queues, shape.perm);
        push(
            &mut out,
            &format!("{name} {read} {write} {perm} MULTI_TAG {{\"a\":\"b c\"}}"),
        );
    }
    push(&mut out, &filter_list(&body.filter_servers));
    out.extend((body.mappings.len() as u32).to_be_bytes());
    for (key, info) in &mut expected.mappings {
        *key = info.topic.clone()?;
        push(&mut out, &mapping(info));
    }
    Some((out, expected))
}

fn key(topic: &TopicConfig) -> &str {
    topic.key.as_ref().unwrap_or(&topic.name)
}

fn version(version: Option<DataVersion>, defaulted: bool) -> String {
    let Some(version) = version else {
        return "null".to_owned();
    };
    let (counter, state) = (version.counter, version.state_version);
    let timestamp = if defaulted {
        String::new()
    } else {
        format!(",\"timestamp\":{}", version.timestamp)
    };
    format!("{{\"counter\":{counter},\"stateVersion\":{state}{timestamp}}}")
}

fn filter_list(servers: &FilterServers) -> String {
    match servers {
        FilterServers::Unchanged => "null".to_owned(),
        FilterServers::List(list) => {
            let list: Vec<_> = list.iter().map(|server| quoted(server)).collect();
            format!("[{}]", list.join(","))
        }
    }
}

fn mapping(info: &TopicQueueMappingInfo) -> String {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "null".to_owned(), quoted);
    let queues = info.curr_id_map.as_ref().map_or_else(
        || "null".to_owned(),
        |queues| {
            let queues: Vec<_> = queues.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", queues.join(","))
        },
    );
    format!(
        "{{\"bname\":{},\"currIdMap\":{queues},\"dirty\":{},\"epoch\":{},\"scope\":{},\
         \"topic\":{},\"totalQueues\":{}}}",
        text(&info.bname),
        info.dirty,
        info.epoch,
        text(&info.scope),
        text(&info.topic),
        info.total_queues
    )
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8(out).expect("written as UTF-8")
}
