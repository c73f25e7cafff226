//! A topic: which groups hold queues of it, and how many (`topicQueueTable`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Form, Name, PerForm};
use crate::wire::fastjson;
use crate::wire::model::{PERM_WRITE, QueueShape};
use crate::wire::register::TopicQueueMappingInfo;

/// A queue entry: eight bytes, because a large cluster has tens of millions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The group's place.
    pub group: u32,
    /// The shape's place.
    pub shape: u32,
}

/// A topic with at least one queue entry.
#[derive(Clone, Debug)]
pub struct Topic {
    /// The topic.
    pub name: Name,
    /// Its number in the writer's sets.
    pub id: u32,
    /// By ascending broker name.
    pub pairs: Vec<Pair>,
}

/// A queue shape with its piece of JSON; few exist, so entries refer to them by number.
#[derive(Debug)]
pub struct Shape {
    /// The numbers.
    pub queues: QueueShape,
    /// The rest of a `QueueData` after the broker name.
    pub tail: Box<[u8]>,
}

impl Shape {
    /// Renders a shape.
    pub fn new(queues: QueueShape) -> Self {
        let mut out = Vec::new();
        let fields = [
            (&b",\"perm\":"[..], queues.perm),
            (b",\"readQueueNums\":", queues.read_queues),
            (b",\"topicSysFlag\":", queues.topic_sys_flag),
            (b",\"writeQueueNums\":", queues.write_queues),
        ];
        for (name, value) in fields {
            out.extend_from_slice(name);
            fastjson::write_i32(&mut out, value);
        }
        out.push(b'}');
        Self {
            queues,
            tail: out.into_boxed_slice(),
        }
    }

    /// Whether producers may write.
    pub fn is_writable(&self) -> bool {
        self.queues.perm & PERM_WRITE != 0
    }
}

/// The static-topic mappings of one topic (`topicQueueMappingInfoTable`).
#[derive(Clone, Debug)]
pub struct Mappings {
    /// The topic.
    pub topic: Name,
    /// By the mapping's own broker name.
    pub by_broker: BTreeMap<Name, Mapping>,
}

/// One mapping and who registered it.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The group whose registration brought it; it goes with that group.
    pub owner: Name,
    /// The values, to notice changes.
    pub info: Arc<TopicQueueMappingInfo>,
    /// The object as it stands in a route.
    pub json: Arc<PerForm<Box<[u8]>>>,
}

impl Mapping {
    /// Renders a mapping.
    pub fn new(owner: Name, info: TopicQueueMappingInfo) -> Self {
        let json = Arc::new(PerForm::new(|form| mapping_json(form, &info)));
        Self {
            owner,
            info: Arc::new(info),
            json,
        }
    }

    /// What it counts for in the limit of all queue entries: itself and its queues.
    pub fn entries(&self) -> usize {
        1 + self.info.curr_id_map.as_ref().map_or(0, Vec::len)
    }
}

/// `TopicQueueMappingInfo` as fastjson writes it: fields by name, nulls left out.
fn mapping_json(form: Form, info: &TopicQueueMappingInfo) -> Box<[u8]> {
    let mut out = b"{".to_vec();
    let text = |out: &mut Vec<u8>, key: &str, value: &Option<String>| {
        if let Some(value) = value {
            out.extend_from_slice(key.as_bytes());
            form.write_string(out, value);
            out.push(b',');
        }
    };
    text(&mut out, "\"bname\":", &info.bname);
    if let Some(map) = &info.curr_id_map {
        out.extend_from_slice(b"\"currIdMap\":{");
        for (i, (logical, physical)) in map.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            form.write_key(&mut out, i64::from(*logical));
            fastjson::write_i32(&mut out, *physical);
        }
        out.extend_from_slice(b"},");
    }
    out.extend_from_slice(if info.dirty {
        b"\"dirty\":true,"
    } else {
        b"\"dirty\":false,"
    });
    out.extend_from_slice(b"\"epoch\":");
    form.write_long(&mut out, info.epoch);
    out.push(b',');
    text(&mut out, "\"scope\":", &info.scope);
    text(&mut out, "\"topic\":", &info.topic);
    out.extend_from_slice(b"\"totalQueues\":");
    fastjson::write_i32(&mut out, info.total_queues);
    out.push(b'}');
    out.into_boxed_slice()
}
