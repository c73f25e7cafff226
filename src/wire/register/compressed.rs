//! The compressed form: one zlib stream of counted blocks (`RegisterBrokerBody.decode`).
//!
//! ```text
//! int n, DataVersion JSON
//! int topics,   then for each: int n, "name read write perm filterType[ attributes]"
//! int n, JSON array of filter servers
//! int mappings, then for each: int n, TopicQueueMappingInfo JSON     from 5.0.0 on
//! ```
//!
//! Flags and order of a topic are not part of it and become 0.

use std::str::FromStr;

use super::json_body::Source;
use super::{
    BodyError, FilterServers, InflateError, Malformed, QueueShape, RegisterBody, TopicConfig,
    TopicQueueMappingInfo,
};
use crate::wire::inflate::Inflater;

/// Largest single block: a topic's attributes or a mapping of 100,000 queues fit in it.
const BLOCK_BYTES: usize = 1 << 20;

/// Decodes a compressed body. What follows the last block is not looked at.
pub(super) async fn parse(
    body: &[u8],
    with_mappings: bool,
    source: &Source<'_>,
) -> Result<RegisterBody, BodyError> {
    let mut blocks = Blocks {
        inflater: Inflater::new(body, source.limits.inflated_bytes),
        source,
    };
    let version = source.data_version(blocks.block().await?).await?;
    let topics = blocks.topics().await?;
    let filter_servers = blocks.filter_servers().await?;
    let mappings = if with_mappings {
        blocks.mappings().await?
    } else {
        Vec::new()
    };
    let finished = blocks.inflater.finish(source.pace).await;
    finished.map_err(|error| refusal(error, source))?;
    Ok(RegisterBody {
        topics,
        data_version: version.value,
        version_defaulted: version.defaulted,
        mappings,
        filter_servers,
    })
}

struct Blocks<'a> {
    inflater: Inflater<'a>,
    source: &'a Source<'a>,
}

impl Blocks<'_> {
    async fn topics(&mut self) -> Result<Vec<TopicConfig>, BodyError> {
        let mut topics = Vec::new();
        for _ in 0..self.count().await? {
            let source = self.source;
            let topic = topic(self.block().await?).ok_or(Malformed::TopicText)?;
            source.check_name(&topic.name)?;
            topics.push(topic);
        }
        Ok(topics)
    }

    /// Java takes an unreadable list for an empty one.
    async fn filter_servers(&mut self) -> Result<FilterServers, BodyError> {
        let source = self.source;
        match source.filter_servers(self.block().await?).await {
            Err(BodyError::Undecodable(_)) => Ok(FilterServers::List(Vec::new())),
            other => other,
        }
    }

    /// Each is kept under its own topic.
    async fn mappings(&mut self) -> Result<Vec<(String, TopicQueueMappingInfo)>, BodyError> {
        let mut mappings = Vec::new();
        for _ in 0..self.count().await? {
            let source = self.source;
            let mapping = source.mapping(self.block().await?).await?;
            let key = mapping
                .topic
                .clone()
                .ok_or(Malformed::Null("mapping topic"))?;
            mappings.push((key, mapping));
        }
        Ok(mappings)
    }

    async fn block(&mut self) -> Result<&[u8], BodyError> {
        let length = self.int().await?;
        let bytes = usize::try_from(length)
            .ok()
            .filter(|&bytes| bytes <= BLOCK_BYTES);
        let bytes = bytes.ok_or(Malformed::Length(length))?;
        self.take(bytes).await
    }

    /// A number of blocks. Each takes at least its length word, so no claim reserves anything.
    async fn count(&mut self) -> Result<usize, BodyError> {
        let count = self.int().await?;
        let most = self.source.limits.topics;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            Ok(_) => Err(BodyError::TooManyEntries(most)),
            Err(_) => Err(Malformed::Length(count).into()),
        }
    }

    async fn int(&mut self) -> Result<i32, BodyError> {
        let bytes = self.take(size_of::<i32>()).await?;
        let bytes = bytes
            .try_into()
            .map_err(|_| Malformed::from(InflateError::Early))?;
        Ok(i32::from_be_bytes(bytes))
    }

    async fn take(&mut self, count: usize) -> Result<&[u8], BodyError> {
        let source = self.source;
        let taken = self.inflater.take(count, source.pace).await;
        taken.map_err(|error| refusal(error, source))
    }
}

fn refusal(error: InflateError, source: &Source<'_>) -> BodyError {
    match error {
        InflateError::TooLarge => BodyError::InflatedTooLarge(source.limits.inflated_bytes),
        _ => Malformed::from(error).into(),
    }
}

/// `TopicConfig.decode` of 5.x: five parts between single blanks; what follows (the attributes)
/// means nothing to a NameServer. Bytes that are not UTF-8 are replaced, as Java does.
fn topic(text: &[u8]) -> Option<TopicConfig> {
    let mut parts = text.splitn(6, |&byte| byte == b' ');
    let name = String::from_utf8_lossy(parts.next()?).into_owned();
    let mut number = || i32::from_str(str::from_utf8(parts.next()?).ok()?).ok();
    let (read_queues, write_queues, perm) = (number()?, number()?, number()?);
    matches!(parts.next()?, b"SINGLE_TAG" | b"MULTI_TAG").then_some(())?;
    let shape = QueueShape {
        read_queues,
        write_queues,
        perm,
        topic_sys_flag: 0,
    };
    Some(TopicConfig {
        key: None,
        name,
        shape,
    })
}
