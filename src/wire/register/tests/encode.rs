//! Writes registrations as Java brokers do.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::super::*;
use crate::wire::fastjson::write_string;

/// A zlib stream as Java's `Deflater` with level 9 makes it.
pub(super) fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// The counted blocks of a compressed body; without mappings it is one from before 5.0.0.
pub(super) fn plaintext(
    version: &str,
    topics: &[&str],
    filter_servers: &str,
    mappings: Option<&[&str]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let int = |out: &mut Vec<u8>, value: usize| out.extend((value as i32).to_be_bytes());
    let block = |out: &mut Vec<u8>, text: &str| {
        int(out, text.len());
        out.extend(text.as_bytes());
    };
    block(&mut out, version);
    int(&mut out, topics.len());
    topics.iter().for_each(|topic| block(&mut out, topic));
    block(&mut out, filter_servers);
    if let Some(mappings) = mappings {
        int(&mut out, mappings.len());
        mappings.iter().for_each(|mapping| block(&mut out, mapping));
    }
    out
}

/// The JSON body of a 5.x broker.
pub(super) fn json_body(body: &RegisterBody) -> String {
    let topics = body.topics.iter().map(|topic| {
        let QueueShape { read_queues, write_queues, perm, topic_sys_flag } = topic.shape;
        let key = quoted(topic.key.as_ref().unwrap_or(&topic.name));
        let name = quoted(&topic.name);
        format!(
            r#"{key}:{{"attributes":{{}},"order":false,"perm":{perm},"readQueueNums":{read_queues},"topicFilterType":"SINGLE_TAG","topicName":{name},"topicSysFlag":{topic_sys_flag},"writeQueueNums":{write_queues}}}"#
        )
    });
    let mappings = body
        .mappings
        .iter()
        .map(|(key, m)| format!("{}:{}", quoted(key), mapping(m)));
    format!(
        r#"{{"filterServerList":{},"topicConfigSerializeWrapper":{{"dataVersion":{},"mappingDataVersion":{{"counter":0,"stateVersion":0,"timestamp":1}},"topicConfigTable":{{{}}},"topicQueueMappingDetailMap":{{}},"topicQueueMappingInfoMap":{{{}}}}}}}"#,
        filter_servers(body),
        data_version(body),
        joined(topics),
        joined(mappings),
    )
}

/// The compressed body of a broker with this version; `None` for the attributes ends the topic's
/// text behind the filter type, as 4.x does.
pub(super) fn compressed_body(body: &RegisterBody, attributes: Option<&str>) -> Vec<u8> {
    let topics: Vec<_> = body
        .topics
        .iter()
        .map(|topic| {
            let QueueShape {
                read_queues,
                write_queues,
                perm,
                ..
            } = topic.shape;
            let tail = attributes
                .map(|text| format!(" {text}"))
                .unwrap_or_default();
            format!(
                "{} {read_queues} {write_queues} {perm} MULTI_TAG{tail}",
                topic.name
            )
        })
        .collect();
    let topics: Vec<_> = topics.iter().map(String::as_str).collect();
    let mappings: Vec<_> = body.mappings.iter().map(|(_, m)| mapping(m)).collect();
    let mappings: Vec<_> = mappings.iter().map(String::as_str).collect();
    let mappings = attributes.map(|_| &*mappings);
    zlib(&plaintext(
        &data_version(body),
        &topics,
        &filter_servers(body),
        mappings,
    ))
}

fn data_version(body: &RegisterBody) -> String {
    body.data_version.map_or_else(
        || "null".to_owned(),
        |v| {
            let (counter, state, timestamp) = (v.counter, v.state_version, v.timestamp);
            format!(r#"{{"counter":{counter},"stateVersion":{state},"timestamp":{timestamp}}}"#)
        },
    )
}

fn filter_servers(body: &RegisterBody) -> String {
    match &body.filter_servers {
        FilterServers::Unchanged => "null".to_owned(),
        FilterServers::List(list) => format!("[{}]", joined(list.iter().map(|s| quoted(s)))),
    }
}

fn mapping(m: &TopicQueueMappingInfo) -> String {
    let mut fields = Vec::new();
    let mut text = |name: &str, value: &Option<String>| {
        fields.push(format!(
            "\"{name}\":{}",
            value
                .as_ref()
                .map_or_else(|| "null".to_owned(), |v| quoted(v))
        ));
    };
    text("bname", &m.bname);
    text("scope", &m.scope);
    text("topic", &m.topic);
    let queues = m.curr_id_map.as_ref().map_or_else(
        || "null".to_owned(),
        |map| {
            format!(
                "{{{}}}",
                joined(
                    map.iter()
                        .map(|(logical, physical)| format!("{logical}:{physical}"))
                )
            )
        },
    );
    fields.push(format!(
        r#""currIdMap":{queues},"dirty":{},"epoch":{},"totalQueues":{}"#,
        m.dirty, m.epoch, m.total_queues
    ));
    format!("{{{}}}", fields.join(","))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8(out).unwrap()
}
