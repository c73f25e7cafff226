//! Judges `TopicRouteData`.

use std::borrow::Cow;

use namesrv::wire::codes::response;

use super::{Fault, Finding, Truth, refused};
use crate::board::Presence;
use crate::json::Scan;
use crate::topology::{
    SHAPES_IN_TURN, Shape, Topology, broker_addr, group_name, parse_addr, parse_cluster,
    parse_group,
};

/// A group as an answer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownGroup {
    pub(super) group: u32,
    /// A bit for each broker id.
    pub(super) members: u64,
}

pub(super) fn check(truth: Truth<'_>, topic: u32, code: i32, body: &[u8]) -> Result<(), Finding> {
    let about = |finding: Finding| Finding {
        detail: format!("{}: {}", truth.topology.topic_name(topic), finding.detail),
        ..finding
    };
    match code {
        response::TOPIC_NOT_EXIST => every_certain_member(truth, topic, &[]).map_err(about),
        response::SUCCESS => check_body(truth, topic, body).map_err(about),
        other => Err(about(refused(other))),
    }
}

/// The least that can be said of an answer whose body is not read.
pub(super) fn code_alone(code: i32) -> Result<(), Finding> {
    match code {
        response::SUCCESS | response::TOPIC_NOT_EXIST => Ok(()),
        other => Err(refused(other)),
    }
}

fn check_body(truth: Truth<'_>, topic: u32, body: &[u8]) -> Result<(), Finding> {
    let mut brokers: Vec<ShownGroup> = Vec::new();
    let mut queues: Vec<u32> = Vec::new();
    let mut scan = Scan::new(body);
    scan.object::<Finding>(|scan, key| match key {
        "brokerDatas" => scan.array(|scan| {
            brokers.push(read_group(scan, truth)?);
            Ok(())
        }),
        "queueDatas" => scan.array(|scan| {
            queues.push(read_queues(scan, truth, topic)?);
            Ok(())
        }),
        "filterServerTable" => scan.object(|_, addr| {
            Err(Finding::new(
                Fault::Wrong,
                format!("filter servers of {addr}"),
            ))
        }),
        _ => Ok(scan.skip()?),
    })?;
    scan.end()?;
    brokers.sort_unstable_by_key(|shown| shown.group);
    queues.sort_unstable();
    for pair in brokers.windows(2) {
        if pair[0].group == pair[1].group {
            return Err(wrong(format!("{} twice", group_name(pair[0].group))));
        }
    }
    if !brokers
        .iter()
        .map(|shown| shown.group)
        .eq(queues.iter().copied())
    {
        return Err(wrong("brokerDatas and queueDatas have different brokers"));
    }
    let groups = truth.topology.groups_of(topic);
    for shown in &brokers {
        if groups.binary_search(&shown.group).is_err() {
            let name = group_name(shown.group);
            return Err(wrong(format!("{name} does not have this topic")));
        }
    }
    if brokers.is_empty() {
        return Err(wrong("a route without brokers"));
    }
    every_certain_member(truth, topic, &brokers)
}

/// Every broker of the topic that must be shown is among `shown`.
fn every_certain_member(truth: Truth<'_>, topic: u32, shown: &[ShownGroup]) -> Result<(), Finding> {
    let mut shown = shown.iter().peekable();
    for group in truth.topology.groups_of(topic) {
        let members = match shown.next_if(|next| next.group == *group) {
            Some(found) => found.members,
            None => 0,
        };
        certain_members(truth, *group, members)?;
    }
    Ok(())
}

/// Every member of `group` that must be shown has its bit in `shown`.
pub(super) fn certain_members(truth: Truth<'_>, group: u32, shown: u64) -> Result<(), Finding> {
    for broker in truth.topology.members(group) {
        let is_shown = shown >> truth.topology.broker_id(broker) & 1 == 1;
        if !is_shown
            && truth
                .board
                .presence(broker, truth.times.sent, truth.times.now)
                == Presence::Must
        {
            let (name, addr) = (group_name(group), broker_addr(broker));
            return Err(Finding::new(
                Fault::Lost,
                format!("{name} at {addr} is missing"),
            ));
        }
    }
    Ok(())
}

/// Reads a `BrokerData` and judges each member that it shows.
pub(super) fn read_group(scan: &mut Scan<'_>, truth: Truth<'_>) -> Result<ShownGroup, Finding> {
    let mut name: Cow<'_, str> = Cow::Borrowed("");
    let mut cluster: Cow<'_, str> = Cow::Borrowed("");
    let mut members = 0_u64;
    let mut first = None;
    scan.object::<Finding>(|scan, key| {
        match key {
            "brokerAddrs" => scan.object(|scan, id| {
                let addr = scan.string()?;
                let broker = known_member(truth.topology, id, &addr)?;
                judge_presence(truth, broker)?;
                let group = truth.topology.group(broker);
                if *first.get_or_insert(group) != group {
                    return Err(wrong(format!("{addr} belongs to another group")));
                }
                members |= 1 << truth.topology.broker_id(broker);
                Ok(())
            })?,
            "brokerName" => name = Cow::Owned(scan.string()?.into_owned()),
            "cluster" => cluster = Cow::Owned(scan.string()?.into_owned()),
            "enableActingMaster" => {
                if scan.boolean()? {
                    return Err(wrong("enableActingMaster is true"));
                }
            }
            _ => scan.skip()?,
        }
        Ok(())
    })?;
    let group = parse_group(&name).filter(|group| *group < truth.topology.groups);
    let Some(group) = group else {
        return Err(wrong(format!("unknown broker {name}")));
    };
    if first.is_some_and(|other| other != group) {
        return Err(wrong(format!("{name} with the address of another")));
    }
    if first.is_none() {
        return Err(wrong(format!("{name} without addresses")));
    }
    if parse_cluster(&cluster) != Some(truth.topology.cluster(group)) {
        return Err(wrong(format!("{name} in {cluster}")));
    }
    Ok(ShownGroup { group, members })
}

fn known_member(topology: &Topology, id: &str, addr: &str) -> Result<u32, Finding> {
    let known = parse_addr(addr).filter(|broker| *broker < topology.brokers);
    let Some(broker) = known else {
        return Err(wrong(format!("unknown address {addr}")));
    };
    if id.parse() != Ok(topology.broker_id(broker)) {
        return Err(wrong(format!("{addr} with id {id}")));
    }
    Ok(broker)
}

fn judge_presence(truth: Truth<'_>, broker: u32) -> Result<(), Finding> {
    let fault = match truth
        .board
        .presence(broker, truth.times.sent, truth.times.now)
    {
        Presence::Must | Presence::May => return Ok(()),
        Presence::Gone => Fault::Ghost,
        Presence::Never => Fault::Wrong,
    };
    let (name, addr) = (
        group_name(truth.topology.group(broker)),
        broker_addr(broker),
    );
    Err(Finding::new(fault, format!("{name} at {addr} is shown")))
}

/// Reads a `QueueData` and judges it. Returns its group.
fn read_queues(scan: &mut Scan<'_>, truth: Truth<'_>, topic: u32) -> Result<u32, Finding> {
    let mut name = Cow::Borrowed("");
    let mut numbers = [-1; 4];
    scan.object::<Finding>(|scan, key| {
        let slot = match key {
            "brokerName" => {
                name = Cow::Owned(scan.string()?.into_owned());
                return Ok(());
            }
            "perm" => 0,
            "readQueueNums" => 1,
            "writeQueueNums" => 2,
            "topicSysFlag" => 3,
            _ => return Ok(scan.skip()?),
        };
        numbers[slot] = scan.integer()?;
        Ok(())
    })?;
    let Some(group) = parse_group(&name).filter(|group| *group < truth.topology.groups) else {
        return Err(wrong(format!("queues of unknown broker {name}")));
    };
    let shape = truth.topology.shape(topic);
    let shown = |shape: Shape| {
        let queues = i64::from(shape.queues);
        numbers == [i64::from(shape.perm), queues, queues, 0]
    };
    let Some(slot) = truth.topology.hot_slot(group, topic) else {
        return if shown(shape) {
            Ok(group)
        } else {
            Err(wrong(format!("{name} has perm, queues, flag {numbers:?}")))
        };
    };
    let versions = truth.board.versions(group, slot, truth.times.sent);
    if (versions.oldest..=versions.newest).any(|version| shown(shape.at_version(version))) {
        return Ok(group);
    }
    let earlier = versions.oldest.saturating_sub(SHAPES_IN_TURN - 2)..versions.oldest;
    let old = earlier
        .rev()
        .find(|version| shown(shape.at_version(*version)));
    Err(match old {
        Some(old) => {
            let detail = format!(
                "{name} shows change {old}, {} was acknowledged",
                versions.oldest
            );
            Finding::new(Fault::Stale, detail)
        }
        None => wrong(format!("{name} has perm, queues, flag {numbers:?}")),
    })
}

pub(super) fn wrong(detail: impl Into<String>) -> Finding {
    Finding::new(Fault::Wrong, detail)
}
