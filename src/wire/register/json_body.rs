//! The JSON forms: a whole body, the bare topic table of the oldest brokers, and the pieces of
//! JSON inside the compressed form.
//!
//! Invariant: every token goes through `Reader::token`, which paces the work; nothing recurses.

mod reader;
mod reference;
mod usual;

use std::collections::BTreeMap;

use super::{
    BodyError, BodyLimits, FilterServers, Malformed, RegisterBody, TopicConfig,
    TopicQueueMappingInfo,
};
use crate::wire::json::{self, JsonError, Kind, Value};
use crate::wire::model::{DataVersion, QueueShape};
use crate::wire::pace::Pace;
use reader::{Reader, field};
use usual::usual_entry;

/// `$ref`s resolved in one body. Each is looked up by a walk through the body, and Java brokers
/// have no object that their writer would put twice.
const REFERENCES: usize = 16;

/// `TopicConfig`'s defaults.
const DEFAULT_SHAPE: QueueShape = QueueShape {
    read_queues: 16,
    write_queues: 16,
    perm: 6,
    topic_sys_flag: 0,
};

/// `MixAll.METADATA_SCOPE_GLOBAL`.
const DEFAULT_SCOPE: &str = "__global__";

/// What all pieces of one body share.
pub(super) struct Source<'a> {
    pub(super) now_ms: i64,
    pub(super) limits: &'a BodyLimits,
    pub(super) pace: &'a Pace,
}

/// A version, and whether its time stamp was made up.
pub(super) struct Version {
    pub(super) value: Option<DataVersion>,
    pub(super) defaulted: bool,
}

/// `TopicConfigAndMappingSerializeWrapper`.
struct Wrapper {
    topics: Vec<TopicConfig>,
    version: Version,
    mappings: Vec<(String, TopicQueueMappingInfo)>,
}

/// What stands where an object of a bean should be.
enum Found<T> {
    Null,
    Reference(String),
    Value(T),
}

/// A `TopicConfig` as it stands in the table.
struct NamedShape {
    name: Option<String>,
    shape: QueueShape,
}

impl Source<'_> {
    /// `RegisterBrokerBody`: a literal `null` or `[]` is refused, an absent part is empty.
    pub(super) async fn broker_body(&self, body: &[u8]) -> Result<RegisterBody, BodyError> {
        let mut reader = Reader::new(body, self);
        let mut wrapper = Wrapper::absent(self.now_ms);
        let mut filter_servers = FilterServers::List(Vec::new());
        let mut next = 0;
        if !reader.begin_object("RegisterBrokerBody").await? {
            return Err(Malformed::Null("RegisterBrokerBody").into());
        }
        while let Some(key) = reader.key().await? {
            match field(
                key,
                &["filterServerList", "topicConfigSerializeWrapper"],
                &mut next,
            ) {
                Some(0) => filter_servers = reader.filter_servers().await?,
                Some(1) => wrapper = reader.wrapper(true).await?,
                _ => reader.skip().await?,
            }
        }
        reader.end().await?;
        Ok(wrapper.into_body(filter_servers))
    }

    /// The body before 3.0.11: the wrapper alone, without mappings and filter servers.
    pub(super) async fn topics_only(&self, body: &[u8]) -> Result<RegisterBody, BodyError> {
        let mut reader = Reader::new(body, self);
        let wrapper = reader.wrapper(false).await?;
        reader.end().await?;
        Ok(wrapper.into_body(FilterServers::Unchanged))
    }

    /// A document that is a `DataVersion`.
    pub(super) async fn data_version(&self, text: &[u8]) -> Result<Version, BodyError> {
        let mut reader = Reader::new(text, self);
        let version = reader.data_version().await?;
        reader.end().await?;
        Ok(version)
    }

    /// A document that is an array of filter servers.
    pub(super) async fn filter_servers(&self, text: &[u8]) -> Result<FilterServers, BodyError> {
        let mut reader = Reader::new(text, self);
        let list = reader.filter_servers().await?;
        reader.end().await?;
        Ok(list)
    }

    /// A document that is a `TopicQueueMappingInfo`.
    pub(super) async fn mapping(&self, text: &[u8]) -> Result<TopicQueueMappingInfo, BodyError> {
        let mut reader = Reader::new(text, self);
        let mapping = reader.mapping().await?;
        reader.end().await?;
        Ok(mapping)
    }

    pub(super) fn check_name(&self, name: &str) -> Result<(), BodyError> {
        let most = self.limits.name_bytes;
        if name.len() > most {
            Err(BodyError::NameTooLong(most))
        } else {
            Ok(())
        }
    }

    /// Refuses one entry more than a table may have.
    fn check_room(&self, entries: usize) -> Result<(), BodyError> {
        let most = self.limits.topics;
        if entries >= most {
            Err(BodyError::TooManyEntries(most))
        } else {
            Ok(())
        }
    }
}

impl Wrapper {
    /// What Java's constructor makes: no topics, and a version of now.
    fn absent(now_ms: i64) -> Self {
        let value = Some(DataVersion {
            timestamp: now_ms,
            ..DataVersion::default()
        });
        let version = Version {
            value,
            defaulted: true,
        };
        Self {
            topics: Vec::new(),
            version,
            mappings: Vec::new(),
        }
    }

    fn into_body(self, filter_servers: FilterServers) -> RegisterBody {
        RegisterBody {
            topics: self.topics,
            data_version: self.version.value,
            version_defaulted: self.version.defaulted,
            mappings: self.mappings,
            filter_servers,
        }
    }
}

impl Reader<'_, '_> {
    async fn wrapper(&mut self, with_mappings: bool) -> Result<Wrapper, BodyError> {
        const FIELDS: [&str; 5] = [
            "dataVersion",
            "mappingDataVersion",
            "topicConfigTable",
            "topicQueueMappingDetailMap",
            "topicQueueMappingInfoMap",
        ];
        let mut next = 0;
        let mut wrapper = Wrapper::absent(self.source.now_ms);
        if !self.begin_object("topicConfigSerializeWrapper").await? {
            return Err(Malformed::Null("topicConfigSerializeWrapper").into());
        }
        while let Some(key) = self.key().await? {
            match field(key, &FIELDS, &mut next) {
                Some(0) => wrapper.version = self.data_version().await?,
                Some(1 | 3) if with_mappings => self.skip_object().await?,
                Some(2) => wrapper.topics = self.topics().await?,
                Some(4) if with_mappings => wrapper.mappings = self.mappings().await?,
                None if key.is("$ref") => return Err(Malformed::Reference.into()),
                _ => self.skip().await?,
            }
        }
        Ok(wrapper)
    }

    async fn topics(&mut self) -> Result<Vec<TopicConfig>, BodyError> {
        if !self.begin_object("topicConfigTable").await? {
            return Err(Malformed::Null("topicConfigTable").into());
        }
        let mut topics: Vec<TopicConfig> = Vec::new();
        let mut renamed = false;
        while let Some(topic) = self.next_topic().await? {
            renamed |= topic.key.is_some();
            if topics
                .last()
                .is_some_and(|last| map_key(last) == map_key(&topic))
            {
                topics.pop();
            }
            self.source.check_room(topics.len())?;
            topics.push(topic);
        }
        if renamed {
            topics = last_of_each_key(topics, self.source.pace).await;
        }
        Ok(topics)
    }

    async fn next_topic(&mut self) -> Result<Option<TopicConfig>, BodyError> {
        if let Some(topic) = self.usual_topic().await {
            return Ok(Some(topic));
        }
        let Some(key) = self.key().await? else {
            return Ok(None);
        };
        let mut topic = self.topic().await?;
        if !key.is(&topic.name) {
            topic.key = Some(self.name(key)?).filter(|key| *key != topic.name);
        }
        Ok(Some(topic))
    }

    async fn usual_topic(&mut self) -> Option<TopicConfig> {
        let text = self.lexer.next_member()?;
        let entry = usual_entry(text)?;
        self.source.check_name(entry.name).ok()?;
        self.pass_member(&text[entry.bytes..]).await;
        Some(TopicConfig {
            key: None,
            name: entry.name.to_owned(),
            shape: entry.shape,
        })
    }

    async fn topic(&mut self) -> Result<TopicConfig, BodyError> {
        let mut found = self.topic_fields().await?;
        if let Found::Reference(path) = &found {
            found = self.seek(path).await?.topic_fields().await?;
        }
        match found {
            Found::Value(NamedShape {
                name: Some(name),
                shape,
            }) => Ok(TopicConfig {
                key: None,
                name,
                shape,
            }),
            Found::Value(NamedShape { name: None, .. }) => Err(Malformed::Null("topicName").into()),
            Found::Null => Err(Malformed::Null("TopicConfig").into()),
            Found::Reference(_) => Err(Malformed::Reference.into()),
        }
    }

    async fn topic_fields(&mut self) -> Result<Found<NamedShape>, BodyError> {
        const FIELDS: [&str; 8] = [
            "attributes",
            "order",
            "perm",
            "readQueueNums",
            "topicFilterType",
            "topicName",
            "topicSysFlag",
            "writeQueueNums",
        ];
        let mut next = 0;
        if !self.begin_object("TopicConfig").await? {
            return Ok(Found::Null);
        }
        let (mut name, mut shape) = (None, DEFAULT_SHAPE);
        while let Some(key) = self.key().await? {
            match field(key, &FIELDS, &mut next) {
                Some(0) => self.skip_object().await?,
                Some(1) => _ = self.boolean_or(false).await?,
                Some(2) => shape.perm = self.int32_or(shape.perm).await?,
                Some(3) => shape.read_queues = self.int32_or(shape.read_queues).await?,
                Some(4) => self.filter_type().await?,
                Some(5) => name = self.optional_name().await?,
                Some(6) => shape.topic_sys_flag = self.int32_or(shape.topic_sys_flag).await?,
                Some(7) => shape.write_queues = self.int32_or(shape.write_queues).await?,
                None if key.is("$ref") => return self.reference().await.map(Found::Reference),
                _ => self.skip().await?,
            }
        }
        Ok(Found::Value(NamedShape { name, shape }))
    }

    /// `TopicFilterType`: an unknown name is null, which nothing minds; a bad ordinal is refused.
    async fn filter_type(&mut self) -> Result<(), BodyError> {
        match self.token().await? {
            Kind::String | Kind::Null => Ok(()),
            Kind::Number if matches!(self.lexer.text().as_written(), "0" | "1") => Ok(()),
            _ => Err(JsonError::Value("topicFilterType").into()),
        }
    }

    async fn data_version(&mut self) -> Result<Version, BodyError> {
        let mut found = self.data_version_fields().await?;
        if let Found::Reference(path) = &found {
            found = self.seek(path).await?.data_version_fields().await?;
        }
        match found {
            Found::Value(version) => Ok(version),
            Found::Null => Ok(Version {
                value: None,
                defaulted: false,
            }),
            Found::Reference(_) => Err(Malformed::Reference.into()),
        }
    }

    async fn data_version_fields(&mut self) -> Result<Found<Version>, BodyError> {
        if !self.begin_object("dataVersion").await? {
            return Ok(Found::Null);
        }
        let mut value = DataVersion::default();
        let (mut timestamp, mut next) = (None, 0);
        while let Some(key) = self.key().await? {
            // brokers before 4.1 write `timestatmp`, which Java does not read
            match field(key, &["counter", "stateVersion", "timestamp"], &mut next) {
                Some(0) => value.counter = self.int64_or(0).await?,
                Some(1) => value.state_version = self.int64_or(value.state_version).await?,
                Some(2) => timestamp = json::int64(&self.scalar().await?)?.or(timestamp),
                None if key.is("$ref") => return self.reference().await.map(Found::Reference),
                _ => self.skip().await?,
            }
        }
        value.timestamp = timestamp.unwrap_or(self.source.now_ms);
        Ok(Found::Value(Version {
            value: Some(value),
            defaulted: timestamp.is_none(),
        }))
    }

    async fn mappings(&mut self) -> Result<Vec<(String, TopicQueueMappingInfo)>, BodyError> {
        if !self.begin_object("topicQueueMappingInfoMap").await? {
            return Err(Malformed::Null("topicQueueMappingInfoMap").into());
        }
        let mut mappings = Vec::new();
        while let Some(key) = self.key().await? {
            self.source.check_room(mappings.len())?;
            let key = self.name(key)?;
            mappings.push((key, self.mapping().await?));
        }
        Ok(mappings)
    }

    async fn mapping(&mut self) -> Result<TopicQueueMappingInfo, BodyError> {
        let mut found = self.mapping_fields().await?;
        if let Found::Reference(path) = &found {
            found = self.seek(path).await?.mapping_fields().await?;
        }
        match found {
            Found::Value(mapping) => Ok(mapping),
            Found::Null => Err(Malformed::Null("TopicQueueMappingInfo").into()),
            Found::Reference(_) => Err(Malformed::Reference.into()),
        }
    }

    async fn mapping_fields(&mut self) -> Result<Found<TopicQueueMappingInfo>, BodyError> {
        const FIELDS: [&str; 7] = [
            "bname",
            "currIdMap",
            "dirty",
            "epoch",
            "scope",
            "topic",
            "totalQueues",
        ];
        let mut next = 0;
        if !self.begin_object("TopicQueueMappingInfo").await? {
            return Ok(Found::Null);
        }
        let mut mapping = TopicQueueMappingInfo {
            topic: None,
            scope: Some(DEFAULT_SCOPE.to_owned()),
            total_queues: 0,
            bname: None,
            epoch: 0,
            dirty: false,
            curr_id_map: Some(Vec::new()),
        };
        while let Some(key) = self.key().await? {
            match field(key, &FIELDS, &mut next) {
                Some(0) => mapping.bname = self.optional_name().await?,
                Some(1) => mapping.curr_id_map = self.queue_map().await?,
                Some(2) => mapping.dirty = self.boolean_or(mapping.dirty).await?,
                Some(3) => mapping.epoch = self.int64_or(mapping.epoch).await?,
                Some(4) => mapping.scope = self.optional_name().await?,
                Some(5) => mapping.topic = self.optional_name().await?,
                Some(6) => mapping.total_queues = self.int32_or(mapping.total_queues).await?,
                None if key.is("$ref") => return self.reference().await.map(Found::Reference),
                _ => self.skip().await?,
            }
        }
        Ok(Found::Value(mapping))
    }

    /// `Map<Integer, Integer>`, whose keys Java writes bare.
    async fn queue_map(&mut self) -> Result<Option<Vec<(i32, i32)>>, BodyError> {
        if !self.begin_object("currIdMap").await? {
            return Ok(None);
        }
        let mut queues = BTreeMap::new();
        while let Some(key) = self.key().await? {
            self.source.check_room(queues.len())?;
            self.check_text(key)?;
            let logical = json::int32(&Value::String(key.decode()))?;
            let physical = json::int32(&self.scalar().await?)?;
            let queue = logical
                .zip(physical)
                .ok_or(Malformed::Null("currIdMap entry"))?;
            queues.insert(queue.0, queue.1);
        }
        Ok(Some(queues.into_iter().collect()))
    }

    async fn filter_servers(&mut self) -> Result<FilterServers, BodyError> {
        match self.token().await? {
            Kind::Null => return Ok(FilterServers::Unchanged),
            Kind::ArrayStart => {}
            _ => return Err(JsonError::Value("filterServerList").into()),
        }
        let mut list = Vec::new();
        loop {
            let value = match self.token().await? {
                Kind::ArrayEnd => return Ok(FilterServers::List(list)),
                kind => self.scalar_of(kind)?,
            };
            self.source.check_room(list.len())?;
            if let Some(server) = json::text(value)? {
                self.source.check_name(&server)?;
                list.push(server.into_owned());
            }
        }
    }
}

fn map_key(topic: &TopicConfig) -> &str {
    topic.key.as_ref().unwrap_or(&topic.name)
}

/// Drops every topic whose key comes again later with another name: in Java's map it is gone.
async fn last_of_each_key(topics: Vec<TopicConfig>, pace: &Pace) -> Vec<TopicConfig> {
    /// One step in a tree of many thousands of keys.
    const UNITS: usize = 128;
    let mut last = BTreeMap::new();
    for (index, topic) in topics.iter().enumerate() {
        last.insert(map_key(topic), index);
        pace.step(UNITS).await;
    }
    let mut keep = vec![false; topics.len()];
    while let Some((_, index)) = last.pop_first() {
        keep[index] = true;
        pace.step(UNITS).await;
    }
    let mut kept = Vec::new();
    for (topic, keep) in topics.into_iter().zip(keep) {
        if keep {
            kept.push(topic);
        }
        pace.step(UNITS).await;
    }
    kept
}
