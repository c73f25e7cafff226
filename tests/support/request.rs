//! Requests as values, and the bytes that a Java peer would send for them.
//!
//! The oracle reads the value, the server reads the bytes; nothing here uses `src/`.

use std::io::Write;

/// One request of a broker, client or admin tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) code: i32,
    /// Ordinal of `MQVersion` that the sender claims.
    pub(crate) version: i32,
    pub(crate) oneway: bool,
    pub(crate) opaque: i32,
    /// `extFields` in the order of sending; an empty list is sent as no map at all.
    pub(crate) ext: Vec<(String, String)>,
    pub(crate) body: Body,
}

/// Bodies that a Java server takes for none where an object belongs (fastjson 1).
pub(crate) const NOTHING: [&[u8]; 5] = [b"null", b"[]", b"[ ]", b"\"\"", b" \r\n\t\x0c\x08"];

/// What follows the header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    None,
    /// These bytes, whatever they mean.
    Raw(Vec<u8>),
    /// Body of 103.
    Register(RegisterSpec),
    /// Body of 322.
    DataVersion(VersionSpec),
    /// `TopicRouteData` of 217, of which only `queueDatas` counts.
    Route(Vec<QueueSpec>),
}

/// `RegisterBrokerBody`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegisterSpec {
    pub(crate) form: RegisterForm,
    pub(crate) topics: Vec<TopicSpec>,
    /// `None` is sent as `null`; the compressed form cannot say it.
    pub(crate) data_version: Option<VersionSpec>,
    /// `topicQueueMappingInfoMap`: key and value.
    pub(crate) mappings: Vec<(String, MappingSpec)>,
    pub(crate) filters: FilterSpec,
}

/// Which generation of brokers writes the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterForm {
    /// JSON of 5.x: state version, attributes and mappings.
    V5,
    /// JSON of 4.x: none of these.
    V4,
    /// zlib with the parts of 5.x when the sender's version is at least 413, else of 4.x.
    Zlib,
}

/// `filterServerList`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FilterSpec {
    Absent,
    Null,
    List(Vec<String>),
}

/// An entry of `topicConfigTable`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopicSpec {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) read: i32,
    pub(crate) write: i32,
    pub(crate) perm: i32,
    pub(crate) sys_flag: i32,
}

/// `DataVersion`; a missing timestamp means the time of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionSpec {
    pub(crate) state: i64,
    pub(crate) counter: i64,
    pub(crate) timestamp: Option<i64>,
}

/// `TopicQueueMappingInfo` with scope `__global__` and `dirty` false.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MappingSpec {
    pub(crate) topic: String,
    pub(crate) bname: String,
    pub(crate) total_queues: i32,
    pub(crate) epoch: i64,
    pub(crate) ids: Vec<(i32, i32)>,
}

/// `QueueData`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueSpec {
    pub(crate) broker: String,
    pub(crate) read: i32,
    pub(crate) write: i32,
    pub(crate) perm: i32,
    pub(crate) sys_flag: i32,
}

impl Request {
    /// A request of a 5.3.3 peer without ext fields and body.
    pub(crate) fn new(code: i32) -> Self {
        Self {
            code,
            version: 479,
            oneway: false,
            opaque: 1,
            ext: Vec::new(),
            body: Body::None,
        }
    }

    /// Adds one ext field.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.ext.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The last value of an ext field.
    pub(crate) fn field(&self, key: &str) -> Option<&str> {
        self.ext
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The frame with a JSON header, fields in the order of a Java peer.
    pub(crate) fn json_frame(&self) -> Vec<u8> {
        let mut header = format!("{{\"code\":{}", self.code);
        if !self.ext.is_empty() {
            let fields: Vec<_> = self
                .ext
                .iter()
                .map(|(k, v)| format!("{}:{}", quoted(k), quoted(v)))
                .collect();
            header += &format!(",\"extFields\":{{{}}}", fields.join(","));
        }
        header += &format!(
            ",\"flag\":{},\"language\":\"JAVA\",\"opaque\":{},\
             \"serializeTypeCurrentRPC\":\"JSON\",\"version\":{}}}",
            self.flag(),
            self.opaque,
            self.version
        );
        frame(0, header.as_bytes(), &self.body_bytes())
    }

    /// The frame with the binary header (`RocketMQSerializable`). Code and version are cut to
    /// 16 bits, and an empty value reads as a missing one, as in Java.
    pub(crate) fn binary_frame(&self) -> Vec<u8> {
        let mut map = Vec::new();
        for (key, value) in &self.ext {
            map.extend((key.len() as u16).to_be_bytes());
            map.extend(key.as_bytes());
            map.extend((value.len() as u32).to_be_bytes());
            map.extend(value.as_bytes());
        }
        let mut header = Vec::new();
        header.extend((self.code as i16).to_be_bytes());
        header.push(0);
        header.extend((self.version as i16).to_be_bytes());
        header.extend(self.opaque.to_be_bytes());
        header.extend(self.flag().to_be_bytes());
        header.extend(0_u32.to_be_bytes());
        header.extend((map.len() as u32).to_be_bytes());
        header.extend(map);
        frame(1, &header, &self.body_bytes())
    }

    /// The bytes of the body; empty for none.
    pub(crate) fn body_bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::None => Vec::new(),
            Body::Raw(bytes) => bytes.clone(),
            Body::Register(spec) if self.version < 37 => wrapper_json(spec).into_bytes(),
            Body::Register(spec) if spec.form == RegisterForm::Zlib => {
                compressed(spec, self.version >= 413)
            }
            Body::Register(spec) => {
                let filters = match &spec.filters {
                    FilterSpec::Absent => String::new(),
                    FilterSpec::Null => "\"filterServerList\":null,".to_owned(),
                    FilterSpec::List(list) => {
                        format!("\"filterServerList\":{},", string_array(list))
                    }
                };
                let wrapper = wrapper_json(spec);
                format!("{{{filters}\"topicConfigSerializeWrapper\":{wrapper}}}").into_bytes()
            }
            Body::DataVersion(version) => version_json(version, true).into_bytes(),
            Body::Route(queues) => route_json(queues).into_bytes(),
        }
    }

    fn flag(&self) -> i32 {
        if self.oneway { 2 } else { 0 }
    }
}

fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + header.len() + body.len());
    out.extend((4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    out.extend((u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
    out.extend(header);
    out.extend(body);
    out
}

fn wrapper_json(spec: &RegisterSpec) -> String {
    let five = spec.form == RegisterForm::V5;
    let version = spec
        .data_version
        .as_ref()
        .map_or_else(|| "null".to_owned(), |v| version_json(v, five));
    let topics: Vec<_> = spec
        .topics
        .iter()
        .map(|t| format!("{}:{}", quoted(&t.key), topic_json(t, five)))
        .collect();
    let topics = topics.join(",");
    if !five {
        return format!("{{\"dataVersion\":{version},\"topicConfigTable\":{{{topics}}}}}");
    }
    let infos: Vec<_> = spec
        .mappings
        .iter()
        .map(|(k, m)| format!("{}:{}", quoted(k), mapping_json(m)))
        .collect();
    format!(
        "{{\"dataVersion\":{version},\"mappingDataVersion\":{{\"counter\":0,\"stateVersion\":0,\
         \"timestamp\":1700000000000}},\"topicConfigTable\":{{{topics}}},\
         \"topicQueueMappingDetailMap\":{{}},\"topicQueueMappingInfoMap\":{{{}}}}}",
        infos.join(",")
    )
}

fn topic_json(topic: &TopicSpec, five: bool) -> String {
    let attributes = if five { "\"attributes\":{}," } else { "" };
    format!(
        "{{{attributes}\"order\":false,\"perm\":{},\"readQueueNums\":{},\
         \"topicFilterType\":\"SINGLE_TAG\",\"topicName\":{},\"topicSysFlag\":{},\
         \"writeQueueNums\":{}}}",
        topic.perm,
        topic.read,
        quoted(&topic.name),
        topic.sys_flag,
        topic.write
    )
}

fn version_json(version: &VersionSpec, five: bool) -> String {
    let mut fields = vec![format!("\"counter\":{}", version.counter)];
    if five {
        fields.push(format!("\"stateVersion\":{}", version.state));
    }
    if let Some(timestamp) = version.timestamp {
        fields.push(format!("\"timestamp\":{timestamp}"));
    }
    format!("{{{}}}", fields.join(","))
}

/// As a Java broker writes it: bare integer keys in `currIdMap`.
fn mapping_json(mapping: &MappingSpec) -> String {
    let ids: Vec<_> = mapping
        .ids
        .iter()
        .map(|(k, v)| format!("{k}:{v}"))
        .collect();
    format!(
        "{{\"bname\":{},\"currIdMap\":{{{}}},\"dirty\":false,\"epoch\":{},\
         \"scope\":\"__global__\",\"topic\":{},\"totalQueues\":{}}}",
        quoted(&mapping.bname),
        ids.join(","),
        mapping.epoch,
        quoted(&mapping.topic),
        mapping.total_queues
    )
}

fn route_json(queues: &[QueueSpec]) -> String {
    let queues: Vec<_> = queues
        .iter()
        .map(|q| {
            format!(
                "{{\"brokerName\":{},\"perm\":{},\"readQueueNums\":{},\"topicSysFlag\":{},\
                 \"writeQueueNums\":{}}}",
                quoted(&q.broker),
                q.perm,
                q.read,
                q.sys_flag,
                q.write
            )
        })
        .collect();
    format!(
        "{{\"brokerDatas\":[],\"filterServerTable\":{{}},\"queueDatas\":[{}]}}",
        queues.join(",")
    )
}

/// `RegisterBrokerBody.encode` with compression: counted parts inside one zlib stream.
fn compressed(spec: &RegisterSpec, five: bool) -> Vec<u8> {
    let mut plain = Vec::new();
    let version = spec
        .data_version
        .as_ref()
        .map_or_else(String::new, |v| version_json(v, five));
    push_part(&mut plain, &version);
    plain.extend((spec.topics.len() as u32).to_be_bytes());
    for t in &spec.topics {
        let attributes = if five { " {}" } else { "" };
        let text = format!(
            "{} {} {} {} SINGLE_TAG{attributes}",
            t.name, t.read, t.write, t.perm
        );
        push_part(&mut plain, &text);
    }
    let filters: &[String] = match &spec.filters {
        FilterSpec::List(list) => list,
        FilterSpec::Absent | FilterSpec::Null => &[],
    };
    push_part(&mut plain, &string_array(filters));
    if five {
        plain.extend((spec.mappings.len() as u32).to_be_bytes());
        for (_, mapping) in &spec.mappings {
            push_part(&mut plain, &mapping_json(mapping));
        }
    }
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(9));
    zlib.write_all(&plain)
        .and_then(|()| zlib.finish())
        .unwrap_or_default()
}

fn push_part(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

fn string_array(list: &[String]) -> String {
    let items: Vec<_> = list.iter().map(|s| quoted(s)).collect();
    format!("[{}]", items.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
