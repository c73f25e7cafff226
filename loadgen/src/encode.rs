//! The requests that brokers and clients send, byte for byte as Java 5.3.3 peers send them.
//!
//! The body of a registration is made from the topology each time it is sent: that costs some
//! tens of microseconds and no memory, where 5,000 bodies of 1,000 topics would take 870 MB.
//!
//! Brokers say `enableActingMaster=false`, as Java's do by default; then a slave that is alone
//! keeps its topics with all permissions.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use namesrv::wire::codes::{FLAG_ONEWAY, version};
use namesrv::wire::frame::SerializeType;
use namesrv::wire::header::{EncodeError, HeaderFields, encode_request};

use crate::check::Subject;
use crate::config::Config;
use crate::op::Op;
use crate::topology::{
    HOT_TOPICS, Shape, Topology, broker_addr, cluster_name, group_name, ha_addr,
};

/// Time stamp of the first version of every topic table.
const FIRST_TIMESTAMP_MS: u64 = 1_700_000_000_000;
/// Java's level for registrations.
const ZLIB_LEVEL: u32 = 9;

/// One request, small enough to be kept while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// 103
    Register(Registration),
    /// 104 of a broker.
    Unregister(u32),
    /// 105 of a topic.
    Route(u32),
    /// 105 of a topic that does not exist.
    NoRoute(u32),
    /// 106
    Cluster,
    /// 322 of a broker, with these versions of its topics.
    Version(u32, [u32; HOT_TOPICS]),
}

impl Request {
    /// What the body of its answer describes, if that can be known before.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Self::Route(topic) => Some(Subject::Route(*topic)),
            Self::Cluster => Some(Subject::Cluster),
            _ => None,
        }
    }
}

/// Who registers what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The broker.
    pub broker: u32,
    /// Versions of its changeable topics.
    pub versions: [u32; HOT_TOPICS],
    /// Which topics.
    pub part: Part,
}

/// The topics of one 103.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The chunk with this number; the only one unless registrations are split.
    Chunk(u32),
    /// The changeable topic in this slot.
    One(usize),
}

/// Writes requests into one buffer.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Whole frames.
    pub out: Vec<u8>,
    body: Vec<u8>,
}

impl Encoder {
    /// Appends a request to `out`.
    ///
    /// # Errors
    /// A registration that is larger than any NameServer reads: it must be split or compressed.
    pub fn encode(
        &mut self,
        topology: &Topology,
        config: &Config,
        request: &Request,
        op: Op,
        opaque: i32,
    ) -> Result<(), EncodeError> {
        self.body.clear();
        let mut send = |ext: Option<&[(&str, &str)]>, body: &[u8]| {
            let flag = if op.is_oneway() { FLAG_ONEWAY } else { 0 };
            let fields = HeaderFields {
                code: op.code(),
                version: version::V5_3_3,
                opaque,
                flag,
                remark: None,
                ext,
            };
            encode_request(&mut self.out, SerializeType::Json, &fields, body)
        };
        match *request {
            Request::Register(registration) => {
                write_body(&mut self.body, topology, config, &registration);
                let fields = register_fields(topology, config, registration.broker, &self.body);
                send(Some(&borrow(&fields)), &self.body)
            }
            Request::Unregister(broker) => send(Some(&borrow(&identity(topology, broker))), &[]),
            Request::Route(topic) => send(Some(&[("topic", topology.topic_name(topic))]), &[]),
            Request::NoRoute(number) => send(Some(&[("topic", &no_topic(number))]), &[]),
            Request::Cluster => send(None, &[]),
            Request::Version(broker, versions) => {
                let last = chunks(topology, config, topology.group(broker)) - 1;
                write_data_version(&mut self.body, &versions, last);
                send(Some(&borrow(&identity(topology, broker))), &self.body)
            }
        }
    }
}

/// How many registrations a full one consists of (`enableSplitRegistration`).
#[must_use]
pub fn chunks(topology: &Topology, config: &Config, group: u32) -> u32 {
    match config.split {
        0 => 1,
        size => (topology.topics_of(group).len() as u32)
            .div_ceil(size)
            .max(1),
    }
}

/// Name of a topic that no broker has.
#[must_use]
pub fn no_topic(number: u32) -> String {
    format!("no-such-topic-{number}")
}

type Fields = Vec<(&'static str, String)>;

fn borrow(fields: &Fields) -> Vec<(&'static str, &str)> {
    fields
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect()
}

fn identity(topology: &Topology, broker: u32) -> Fields {
    let group = topology.group(broker);
    vec![
        ("brokerId", topology.broker_id(broker).to_string()),
        ("clusterName", cluster_name(topology.cluster(group))),
        ("brokerAddr", broker_addr(broker)),
        ("brokerName", group_name(group)),
    ]
}

fn register_fields(topology: &Topology, config: &Config, broker: u32, body: &[u8]) -> Fields {
    let mut fields = identity(topology, broker);
    let crc = crc32fast::hash(body) & 0x7fff_ffff;
    fields.push(("bodyCrc32", crc.to_string()));
    fields.push(("enableActingMaster", "false".to_owned()));
    fields.push(("haServerAddr", ha_addr(broker)));
    fields.push(("compressed", config.compressed.to_string()));
    if !config.heartbeat_timeout.is_zero() {
        let timeout_ms = config.heartbeat_timeout.as_millis();
        fields.push(("heartbeatTimeoutMillis", timeout_ms.to_string()));
    }
    fields
}

fn write_body(out: &mut Vec<u8>, topology: &Topology, config: &Config, what: &Registration) {
    let group = topology.group(what.broker);
    let all = topology.topics_of(group);
    let one;
    let (topics, chunk): (&[u32], u32) = match what.part {
        Part::Chunk(chunk) if config.split > 0 => {
            let start = (chunk * config.split) as usize;
            let end = all.len().min(start + config.split as usize);
            (all.get(start..end).unwrap_or_default(), chunk)
        }
        Part::Chunk(_) => (all, 0),
        Part::One(slot) => {
            one = topology.hot_topics(group).nth(slot);
            let last = chunks(topology, config, group) - 1;
            (one.as_slice(), last)
        }
    };
    let shape = |topic: u32| {
        let shape = topology.shape(topic);
        match topology.hot_slot(group, topic) {
            Some(slot) => shape.at_version(what.versions[slot]),
            None => shape,
        }
    };
    let topics = topics
        .iter()
        .map(|topic| (topology.topic_name(*topic), shape(*topic)));
    if config.compressed {
        write_compressed(out, topics, &what.versions, chunk);
    } else {
        write_json(out, topics, &what.versions, chunk);
    }
}

fn write_json<'a>(
    out: &mut Vec<u8>,
    topics: impl Iterator<Item = (&'a str, Shape)>,
    versions: &[u32; HOT_TOPICS],
    chunk: u32,
) {
    out.extend_from_slice(
        br#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":"#,
    );
    write_data_version(out, versions, chunk);
    out.extend_from_slice(br#","mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":"#);
    write_number(out, FIRST_TIMESTAMP_MS);
    out.extend_from_slice(br#"},"topicConfigTable":{"#);
    for (index, (name, shape)) in topics.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(br#"":{"attributes":{},"order":false,"perm":"#);
        write_number(out, shape.perm as u64);
        out.extend_from_slice(br#","readQueueNums":"#);
        write_number(out, shape.queues as u64);
        out.extend_from_slice(br#","topicFilterType":"SINGLE_TAG","topicName":""#);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(br#"","topicSysFlag":0,"writeQueueNums":"#);
        write_number(out, shape.queues as u64);
        out.push(b'}');
    }
    out.extend_from_slice(br#"},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#);
}

/// `RegisterBrokerBody.encode` with compression: lengths and texts, then zlib.
fn write_compressed<'a>(
    out: &mut Vec<u8>,
    topics: impl Iterator<Item = (&'a str, Shape)>,
    versions: &[u32; HOT_TOPICS],
    chunk: u32,
) {
    let mut data_version = Vec::new();
    write_data_version(&mut data_version, versions, chunk);
    let mut plain = Vec::new();
    write_block(&mut plain, &data_version);
    let count_at = plain.len();
    plain.extend_from_slice(&[0; 4]);
    let mut count = 0_u32;
    for (name, Shape { queues, perm }) in topics {
        let text = format!("{name} {queues} {queues} {perm} SINGLE_TAG {{}}");
        write_block(&mut plain, text.as_bytes());
        count += 1;
    }
    plain[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
    write_block(&mut plain, b"[]");
    plain.extend_from_slice(&0_u32.to_be_bytes());
    // Writing into memory cannot fail.
    let _ = deflate(out, &plain);
}

fn deflate(out: &mut Vec<u8>, plain: &[u8]) -> io::Result<()> {
    let mut encoder = ZlibEncoder::new(out, Compression::new(ZLIB_LEVEL));
    encoder.write_all(plain)?;
    encoder.finish().map(drop)
}

fn write_block(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// `DataVersion`: moves with every change of a topic, and with every chunk as in Java.
fn write_data_version(out: &mut Vec<u8>, versions: &[u32; HOT_TOPICS], chunk: u32) {
    let counter = versions.iter().map(|v| u64::from(*v)).sum::<u64>() + u64::from(chunk);
    out.extend_from_slice(br#"{"counter":"#);
    write_number(out, counter);
    out.extend_from_slice(br#","stateVersion":0,"timestamp":"#);
    write_number(out, FIRST_TIMESTAMP_MS + counter);
    out.push(b'}');
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    namesrv::wire::fastjson::write_i64(out, number as i64);
}

#[cfg(test)]
mod tests;
