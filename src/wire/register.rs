//! The body of REGISTER_BROKER (`RegisterBrokerBody`), plain JSON or zlib.
//!
//! Owns what a 103 body means: the forms of all broker versions, what is absent, and what Java
//! would half apply and this server refuses. Invariant: a body is decoded whole or refused whole,
//! in bounded pieces of work, and never takes more memory than a small multiple of what was
//! really sent. Deliberately absent: the header's fields and all rules of the tables.

mod compressed;
mod json_body;
#[cfg(test)]
mod tests;
mod unread;

use thiserror::Error;

use super::codes::version::{V3_0_11, V5_0_0};
use super::inflate::InflateError;
use super::json::JsonError;
use super::model::{DataVersion, QueueShape};
use super::pace::Pace;
pub use unread::unread_part;

/// A zlib stream starts with it, JSON never does. Java brokers from 5.0 on claim
/// `compressed=false` for a body that they deflated.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// What the tables need of a registration body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterBody {
    /// `topicConfigTable` in the order of the wire.
    pub topics: Vec<TopicConfig>,
    /// The sender's version; `None` when it wrote `null`.
    pub data_version: Option<DataVersion>,
    /// The version's time stamp was missing and stands for "now", so that it equals nothing.
    pub version_defaulted: bool,
    /// `topicQueueMappingInfoMap`: the key and the mapping.
    pub mappings: Vec<(String, TopicQueueMappingInfo)>,
    /// `filterServerList`
    pub filter_servers: FilterServers,
}

/// `filterServerList`: null leaves the entry, empty removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FilterServers {
    /// JSON `null`, and every body before 3.0.11.
    #[default]
    Unchanged,
    /// A list; empty (or absent) removes the entry.
    List(Vec<String>),
}

/// One entry of `topicConfigTable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// The map key, used only to find topics that the broker no longer has; `None` when it equals the name.
    pub key: Option<String>,
    /// `topicName`: what the tables are keyed by.
    pub name: String,
    /// Queues, permission and flags.
    pub shape: QueueShape,
}

/// A static topic's part at one broker (`TopicQueueMappingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicQueueMappingInfo {
    /// `topic`; `None` prints nothing.
    pub topic: Option<String>,
    /// `scope`, default `__global__`.
    pub scope: Option<String>,
    /// `totalQueues`
    pub total_queues: i32,
    /// `bname`: the broker name that holds these queues.
    pub bname: Option<String>,
    /// `epoch`
    pub epoch: i64,
    /// `dirty`
    pub dirty: bool,
    /// `currIdMap`: logical to physical queue, ascending; `None` when it was null.
    pub curr_id_map: Option<Vec<(i32, i32)>>,
}

/// A 103 body with what its header says of it.
#[derive(Clone, Copy, Debug)]
pub struct RegisterInput<'a> {
    /// `MQVersion` ordinal of the request.
    pub version: i32,
    /// The header's `compressed`.
    pub compressed: bool,
    /// The body as sent; empty means that there is none.
    pub body: &'a [u8],
    /// Milliseconds since 1970, for a version without a time stamp.
    pub now_ms: i64,
}

/// What a body may contain; beyond it the registration is refused.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Plaintext of a compressed body.
    pub inflated_bytes: usize,
    /// Any name or address.
    pub name_bytes: usize,
    /// Entries of any one table or list: topics, mappings, queues of a mapping, filter servers.
    pub topics: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            inflated_bytes: 64 << 20,
            name_bytes: 1024,
            topics: 200_000,
        }
    }
}

/// Why a registration is refused with code 1; the text is the answer's remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// Java looks the version up in an array.
    #[error("java.lang.ArrayIndexOutOfBoundsException: {0}, negative request version")]
    NegativeVersion(i32),
    /// Not what `RegisterBrokerBody` can be read from.
    #[error(
        "org.apache.rocketmq.remoting.exception.RemotingCommandException: \
         Failed to decode RegisterBrokerBody, {0}"
    )]
    Undecodable(#[from] Malformed),
    /// A table or list is over its limit.
    #[error("registration refused: more than {0} entries in one table")]
    TooManyEntries(usize),
    /// A name or address is over its limit.
    #[error("registration refused: a name of more than {0} bytes")]
    NameTooLong(usize),
    /// The plaintext of a compressed body is over its limit.
    #[error("registration refused: more than {0} bytes inflated")]
    InflatedTooLarge(usize),
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Not JSON, or a value of the wrong kind.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// `null` where the tables need a value.
    #[error("{0} is null")]
    Null(&'static str),
    /// A `$ref` that leads nowhere, to another one, or one too many.
    #[error("$ref cannot be resolved")]
    Reference,
    /// Not a zlib stream, or one that is damaged or too short.
    #[error("{0}")]
    Inflate(#[from] InflateError),
    /// A length or count in the plaintext that cannot be.
    #[error("bad length or count {0}")]
    Length(i32),
    /// A topic's text form without five good parts.
    #[error("bad TopicConfig text")]
    TopicText,
}

impl From<JsonError> for BodyError {
    fn from(error: JsonError) -> Self {
        Self::Undecodable(error.into())
    }
}

/// Decodes a registration, in slices of `pace`.
///
/// Entries stay in the order of the wire. Two of them may have the same name (`topicName` under
/// two keys, or a repeated key): the tables apply them in order, so the last one counts, as in
/// Java. Of repeated neighbours, and of keys that hold different names, only the last is left.
pub async fn parse(
    input: &RegisterInput<'_>,
    limits: &BodyLimits,
    pace: &Pace,
) -> Result<RegisterBody, BodyError> {
    if input.version < 0 {
        return Err(BodyError::NegativeVersion(input.version));
    }
    let only_topics = input.version < V3_0_11;
    let Some(first) = input.body.first() else {
        let filter_servers = if only_topics {
            FilterServers::Unchanged
        } else {
            FilterServers::List(Vec::new())
        };
        let data_version = Some(DataVersion::default());
        return Ok(RegisterBody {
            data_version,
            filter_servers,
            ..RegisterBody::default()
        });
    };
    let source = json_body::Source {
        now_ms: input.now_ms,
        limits,
        pace,
    };
    if only_topics {
        return source.topics_only(input.body).await;
    }
    if input.compressed || *first == ZLIB_FIRST_BYTE {
        return compressed::parse(input.body, input.version >= V5_0_0, &source).await;
    }
    source.broker_body(input.body).await
}

impl RegisterBody {
    /// Bytes that it occupies, for the limit on bodies that wait for the writer. Walks the
    /// entries: 0.4 ms for 200,000.
    pub fn size_bytes(&self) -> usize {
        fn text(text: Option<&String>) -> usize {
            text.map_or(0, String::capacity)
        }
        let topics: usize = self
            .topics
            .iter()
            .map(|t| t.name.capacity() + text(t.key.as_ref()))
            .sum();
        let mappings: usize = self
            .mappings
            .iter()
            .map(|(key, m)| {
                let names = [&m.topic, &m.scope, &m.bname].map(|name| text(name.as_ref()));
                let queues = m.curr_id_map.as_ref().map_or(0, Vec::capacity);
                key.capacity() + names.iter().sum::<usize>() + queues * size_of::<(i32, i32)>()
            })
            .sum();
        let servers = match &self.filter_servers {
            FilterServers::Unchanged => 0,
            FilterServers::List(list) => {
                list.capacity() * size_of::<String>()
                    + list.iter().map(String::capacity).sum::<usize>()
            }
        };
        size_of::<Self>()
            + self.topics.capacity() * size_of::<TopicConfig>()
            + self.mappings.capacity() * size_of::<(String, TopicQueueMappingInfo)>()
            + topics
            + mappings
            + servers
    }
}
