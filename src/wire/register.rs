//! The body of REGISTER_BROKER (`RegisterBrokerBody`), uncompressed and zlib.

use super::model::{DataVersion, QueueShape};

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

impl RegisterBody {
    /// stub
    pub fn size_bytes(&self) -> usize {
        0
    }
}
/// stub
#[allow(missing_docs)]
pub struct RegisterInput<'a> {
    pub version: i32,
    pub compressed: bool,
    pub body: &'a [u8],
    pub now_ms: i64,
}
/// stub
#[allow(missing_docs)]
pub struct BodyLimits {
    pub inflated_bytes: usize,
    pub name_bytes: usize,
    pub topics: usize,
}
/// stub
pub async fn parse(
    _: &RegisterInput<'_>,
    _: &BodyLimits,
    _: &super::pace::Pace,
) -> Result<RegisterBody, super::json::JsonError> {
    Ok(RegisterBody::default())
}
