//! The body of a route answer, joined from fragments on each read (`TopicRouteData`).
//!
//! About as fast as copying a body that was kept, so none is kept. Order topics, acting masters
//! and zones apply here (`RouteInfoManager.pickupTopicRouteData`, `ClientRequestProcessor`,
//! `ZoneRouteRPCHook`). Arrays and maps come in ascending order of names.

use std::collections::BTreeMap;

use super::group::Group;
use super::kv::ORDER_TOPIC_CONFIG;
use super::snapshot::Snapshot;
use super::topic::{Shape, Topic};
use super::{Form, Name};

/// Routes of topics with this prefix show real ids even when acting masters are on, so that the
/// members of a group can see each other (`TopicValidator.SYNC_BROKER_MEMBER_GROUP_PREFIX`).
const SYNC_BROKER_MEMBER_GROUP_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// `BrokerData` and `QueueData` of a broker with a slave.
const TYPICAL_PAIR_BYTES: usize = 256;

/// How a route was asked for.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<'a> {
    /// Bare or quoted keys.
    pub form: Form,
    /// `__ZONE_NAME` of a request in zone mode.
    pub zone: Option<&'a str>,
    /// `orderTopicConf` is shown where the topic has one.
    pub order_conf: bool,
}

/// Appends the route of a topic to `out`.
pub fn write_route(snapshot: &Snapshot, topic: &Topic, query: RouteQuery<'_>, out: &mut Vec<u8>) {
    let acting = snapshot.settings.support_acting_master
        && !topic.name.starts_with(SYNC_BROKER_MEMBER_GROUP_PREFIX);
    // Growing step by step would copy what is written again and again.
    out.reserve(topic.pairs.len() * TYPICAL_PAIR_BYTES);
    let walk = Walk {
        snapshot,
        topic,
        query,
        acting,
    };
    walk.write_broker_datas(out);
    walk.write_filter_servers(out);
    if query.order_conf
        && let Some(conf) = snapshot.kv.get(ORDER_TOPIC_CONFIG, &topic.name)
    {
        out.extend_from_slice(b",\"orderTopicConf\":");
        query.form.write_string(out, conf);
    }
    walk.write_queue_datas(out);
    write_mappings(snapshot, &topic.name, query.form, out);
    out.push(b'}');
}

/// One read of one topic.
struct Walk<'a> {
    snapshot: &'a Snapshot,
    topic: &'a Topic,
    query: RouteQuery<'a>,
    acting: bool,
}

impl<'a> Walk<'a> {
    /// The entries that the answer shows, with the broker's fragment.
    fn entries(&self) -> impl Iterator<Item = (&'a Group, &'a Shape, &'a [u8])> {
        self.topic.pairs.iter().filter_map(|pair| {
            let group = &**self.snapshot.group(pair.group)?;
            let shape = &**self.snapshot.shapes.get(pair.shape)?;
            let acting = self.acting_fragment(group, shape);
            let shown = match self.query.zone {
                None => true,
                Some(zone) => in_zone(group, acting.is_some(), zone),
            };
            let form = self.query.form;
            let fragment = acting.unwrap_or_else(|| group.fragments.broker.get(form));
            shown.then_some((group, shape, fragment))
        })
    }

    /// The group without a master as clients shall see it: only where nobody may write any more,
    /// which the registration and the loss of the master have seen to.
    fn acting_fragment(&self, group: &'a Group, shape: &Shape) -> Option<&'a [u8]> {
        if !self.acting || shape.is_writable() {
            return None;
        }
        group
            .fragments
            .acting
            .as_ref()
            .map(|acting| &**acting.get(self.query.form))
    }

    fn write_broker_datas(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"brokerDatas\":");
        let start = out.len();
        for (_, _, fragment) in self.entries() {
            out.extend_from_slice(fragment);
        }
        end_list(out, start);
    }

    fn write_queue_datas(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"queueDatas\":");
        let start = out.len();
        for (group, shape, _) in self.entries() {
            out.extend_from_slice(group.fragments.queue_head.get(self.query.form));
            out.extend_from_slice(&shape.tail);
        }
        end_list(out, start);
    }

    /// Almost always empty: only brokers before 5.0 have filter servers.
    fn write_filter_servers(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"filterServerTable\":{");
        if self.snapshot.filter_groups > 0
            && self
                .entries()
                .any(|(group, ..)| group.fragments.has_filter_servers)
        {
            let lists = self
                .entries()
                .flat_map(|(group, ..)| group.filter_servers());
            let by_addr: BTreeMap<&Name, _> = lists.collect();
            for (i, (addr, list)) in by_addr.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                self.query.form.write_string(out, addr);
                out.extend_from_slice(b":[");
                for (j, server) in list.iter().enumerate() {
                    if j > 0 {
                        out.push(b',');
                    }
                    self.query.form.write_string(out, server);
                }
                out.push(b']');
            }
        }
        out.push(b'}');
    }
}

/// Ends a list whose elements brought a comma each: the first one's becomes the bracket.
fn end_list(out: &mut Vec<u8>, start: usize) {
    match out.get_mut(start) {
        Some(comma) => *comma = b'[',
        None => out.push(b'['),
    }
    out.push(b']');
}

/// A broker stays in a zone's answer when it has no master or stands in that zone; an acting
/// master counts as master, because the hook runs after the translation.
fn in_zone(group: &Group, acting: bool, zone: &str) -> bool {
    let has_master = acting || group.has_master();
    !has_master
        || group
            .zone_name
            .as_ref()
            .is_some_and(|z| eq_ignoring_case(z, zone))
}

/// `String.equalsIgnoreCase`: compares character by character in upper, then in lower case.
fn eq_ignoring_case(a: &str, b: &str) -> bool {
    let same = |x: char, y: char| {
        x == y || x.to_uppercase().eq(y.to_uppercase()) || x.to_lowercase().eq(y.to_lowercase())
    };
    a.chars().count() == b.chars().count() && a.chars().zip(b.chars()).all(|(x, y)| same(x, y))
}

/// Static topics; the zone filter leaves them alone.
fn write_mappings(snapshot: &Snapshot, topic: &str, form: Form, out: &mut Vec<u8>) {
    let Some(mappings) = snapshot.mappings(topic) else {
        return;
    };
    out.extend_from_slice(b",\"topicQueueMappingByBroker\":{");
    for (i, (broker, mapping)) in mappings.by_broker.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        form.write_string(out, broker);
        out.push(b':');
        out.extend_from_slice(mapping.json.get(form));
    }
    out.push(b'}');
}
