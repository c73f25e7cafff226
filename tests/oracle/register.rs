//! 103: reading of the request, and `RouteInfoManager.registerBroker` step by step.

use super::rules::Identity;
use super::{Conn, DataVersion, Group, Live, Mapping, Member, Oracle, Queue, java, json, key};
use crate::support::answer::Answer;
use crate::support::request::{
    Body, FilterSpec, MappingSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// What a 103 says besides who speaks.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) topics: Vec<TopicSpec>,
    version: Option<DataVersion>,
    mappings: Vec<(String, MappingSpec)>,
    filters: FilterSpec,
    ha: Option<String>,
    zone: Option<String>,
    /// None for brokers before 5.0.
    acting: Option<bool>,
    timeout_ms: i64,
    /// There is no wrapper, not even an empty one.
    null: bool,
}

enum Outcome {
    Refused,
    Accepted {
        ha: Option<String>,
        master: Option<String>,
    },
}

impl Oracle {
    /// `DefaultRequestProcessor.registerBroker`.
    pub(super) fn register(&mut self, conn: Conn, req: &Request, now: i64) -> Answer {
        let crc = req
            .field("bodyCrc32")
            .and_then(|crc| crc.parse::<i32>().ok())
            .unwrap_or(0);
        if crc != 0 && crc as u32 != crc32(&req.body_bytes()) & 0x7fff_ffff {
            return Answer::failure(1, "crc32 not match").ext(&[]);
        }
        let null = self.null_wrapper(req);
        let Some(registration) = read(req, now, null) else {
            return Answer::refused();
        };
        let who = match self.identity(req) {
            Ok(who) => who,
            Err(answer) => return answer,
        };
        match self.register_broker(conn, &who, &registration, now) {
            Outcome::Refused => Answer::failure(1, "register broker failed").ext(&[]),
            Outcome::Accepted { ha, master } => self.registered(ha.as_deref(), master.as_deref()),
        }
    }

    /// What a registration is answered that was not refused.
    pub(super) fn registered(&self, ha: Option<&str>, master: Option<&str>) -> Answer {
        let mut ext = Vec::new();
        ext.extend(ha.map(|ha| ("haServerAddr", ha)));
        ext.extend(master.map(|master| ("masterAddr", master)));
        let answer = Answer::success().ext(&ext);
        match self.kv.get("ORDER_TOPIC_CONFIG") {
            Some(table) if self.switches.return_order_topic_config_to_broker => {
                answer.body(json::kv_table(table))
            }
            _ => answer,
        }
    }

    fn register_broker(
        &mut self,
        conn: Conn,
        who: &Identity,
        what: &Registration,
        now: i64,
    ) -> Outcome {
        let Identity {
            cluster,
            name,
            addr,
            id,
        } = who;
        if self.single_topic_guard(name, *id, what.topics.len()) {
            return Outcome::Refused; // S7
        }
        self.leave_other_names(who);
        self.clusters
            .entry(cluster.clone())
            .or_default()
            .insert(name.clone()); // S1
        let mut first = !self.groups.contains_key(name); // S2
        let mut group = self.groups.remove(name).unwrap_or_default();
        if first {
            group.cluster.clone_from(cluster);
            group.born = self.birth();
        }
        group.acting = what.acting == Some(true); // S3
        group.zone.clone_from(&what.zone);
        let min_changed = *id < group.members.keys().next().copied().unwrap_or(0); // S4
        self.leave_other_ids(&mut group, who); // S5
        if let Some(end) = self.ends_early(&group, who, what, now) {
            self.groups.insert(name.clone(), group);
            return end;
        }
        let (cluster, addr) = (cluster.clone(), addr.clone());
        let born = group.members.get(id).map(|old| old.born);
        let born = born.unwrap_or_else(|| self.birth());
        let member = Member {
            cluster,
            addr,
            born,
        }; // S8
        match group.members.insert(*id, member) {
            Some(old) => {
                first |= old.addr.is_empty();
                self.drop_live_of(&old, who);
            }
            None => first = true,
        }
        let lowest = group.members.keys().next() == Some(id); // S9
        let prime_slave = *id != 0 && what.acting.is_some() && lowest;
        let mask_write = prime_slave && group.acting;
        self.groups.insert(name.clone(), group.clone());
        let changed = first || self.version_changed(who, what); // as of before S11
        if (*id == 0 || prime_slave) && !what.null {
            self.contribute_topics(who, what, changed, mask_write); // S10
        }
        self.record_live(conn, who, what, now); // S11, S12
        if min_changed {
            self.notify_min_id(&group, None, what.ha.clone()); // S14
        }
        self.master_of(who) // S13
    }

    /// What ends a registration with S1–S5 done: S6, S7 where Java has it, and in Java what
    /// is missing from the request.
    fn ends_early(
        &mut self,
        group: &Group,
        who: &Identity,
        what: &Registration,
        now: i64,
    ) -> Option<Outcome> {
        let empty = Outcome::Accepted {
            ha: None,
            master: None,
        };
        if let Some(old) = group.members.get(&who.id)
            && old.addr != who.addr
            && let Some(old_live) = self.live.get(&key(&who.cluster, &old.addr))
        {
            let version = what.version.filter(|_| !what.null);
            let wins = self.old_holder_wins(old_live, version, now);
            if wins == Some(true) {
                self.live.remove(&key(&who.cluster, &who.addr));
            }
            if wins != Some(false) {
                return Some(empty);
            }
        }
        if !group.members.contains_key(&who.id) {
            if what.null {
                return Some(empty);
            }
            if what.topics.len() == 1 {
                return Some(Outcome::Refused);
            }
        }
        // it would become a member that no request removes
        let null = who.addr == java::NULL;
        self.poisoned |= null;
        null.then_some(empty)
    }

    pub(super) fn birth(&mut self) -> u64 {
        self.births += 1;
        self.births
    }

    /// An address has one id in a group.
    fn leave_other_ids(&mut self, group: &mut Group, who: &Identity) {
        for (id, member) in group.members.clone() {
            if id != who.id && member.addr == who.addr {
                group.members.remove(&id);
                self.drop_live_of(&member, who);
            }
        }
    }

    /// `isBrokerTopicConfigChanged`.
    pub(super) fn version_changed(&self, who: &Identity, what: &Registration) -> bool {
        let stored = self
            .live
            .get(&key(&who.cluster, &who.addr))
            .and_then(|live| live.version);
        stored.is_none() || stored != what.version
    }

    fn contribute_topics(
        &mut self,
        who: &Identity,
        what: &Registration,
        changed: bool,
        mask_write: bool,
    ) {
        if self.switches.delete_topic_with_broker_registration && what.mappings.is_empty() {
            let topics: Vec<_> = self.topics.keys().cloned().collect(); // S10a
            for topic in topics {
                if !what.topics.iter().any(|t| t.key == topic) {
                    self.remove_queue(&topic, &who.name);
                }
            }
        }
        for t in &what.topics {
            let queues = self.topics.get(&t.name); // S10b
            if changed || !queues.is_some_and(|queues| queues.contains_key(&who.name)) {
                let perm = if mask_write { t.perm & !2 } else { t.perm };
                let queue = Queue {
                    read: t.read,
                    write: t.write,
                    perm,
                    sys_flag: t.sys_flag,
                };
                let queues = self.topics.entry(t.name.clone()).or_default();
                queues.insert(who.name.clone(), queue);
            }
        }
        for (topic, info) in &what.mappings {
            if changed || self.mapping_absent(topic, &info.bname) {
                let mapping = Mapping {
                    info: info.clone(),
                    owner: who.name.clone(),
                }; // S10c
                let mappings = self.mappings.entry(topic.clone()).or_default();
                mappings.insert(info.bname.clone(), mapping);
            }
        }
    }

    fn record_live(&mut self, conn: Conn, who: &Identity, what: &Registration, now: i64) {
        let key = key(&who.cluster, &who.addr);
        match &what.filters {
            FilterSpec::Null => {}
            FilterSpec::List(list) if !list.is_empty() => {
                self.filters.insert(key.clone(), list.clone());
            }
            FilterSpec::Absent | FilterSpec::List(_) => {
                self.filters.remove(&key);
            }
        }
        let born = self.live.get(&key).map(|old| old.born);
        let born = born.unwrap_or_else(|| self.birth());
        let filters = match &what.filters {
            FilterSpec::Null => self.live.get(&key).and_then(|live| live.filters.clone()),
            FilterSpec::Absent => None,
            FilterSpec::List(list) => (!list.is_empty()).then(|| list.clone()),
        };
        let live = Live {
            last_ms: now,
            timeout_ms: what.timeout_ms,
            version: what.version,
            conn,
            ha: what.ha.clone(),
            filters,
            born,
        };
        self.live.insert(key, live);
    }

    fn master_of(&self, who: &Identity) -> Outcome {
        let none = Outcome::Accepted {
            ha: None,
            master: None,
        };
        let Some(master) = self
            .groups
            .get(&who.name)
            .and_then(|group| group.members.get(&0))
        else {
            return none;
        };
        match self.live.get(&key(&who.cluster, &master.addr)) {
            Some(live) if who.id != 0 => Outcome::Accepted {
                ha: live.ha.clone(),
                master: Some(master.addr.clone()),
            },
            _ => none,
        }
    }
}

/// The request as the handler sees it; none when the body cannot be decoded, or when the
/// version is negative, which no `MQVersion` has.
pub(super) fn read(req: &Request, now: i64, null: bool) -> Option<Registration> {
    if req.version < 0 {
        return None;
    }
    let mut read = Registration {
        topics: Vec::new(),
        version: Some(DataVersion {
            counter: 0,
            state: 0,
            timestamp: 0,
        }),
        mappings: Vec::new(),
        filters: FilterSpec::Absent,
        ha: req.field("haServerAddr").map(str::to_owned),
        zone: req.field("__ZONE_NAME").map(str::to_owned),
        acting: req
            .field("enableActingMaster")
            .map(|v| v.eq_ignore_ascii_case("true")),
        timeout_ms: req
            .field("heartbeatTimeoutMillis")
            .and_then(|v| v.parse().ok())
            .unwrap_or(120_000),
        null,
    };
    if req.version < 37 {
        read.filters = FilterSpec::Null;
    }
    match &req.body {
        Body::None => {}
        // no wrapper, or an empty one: no topics, and a DataVersion of now
        Body::Raw(bytes) if null || bytes == b"{}" || (req.version < 37 && no_wrapper(bytes)) => {
            read.version = Some(DataVersion {
                counter: 0,
                state: 0,
                timestamp: now,
            });
        }
        Body::Register(spec) => read_spec(&mut read, req, spec, now),
        _ => return None,
    }
    Some(read)
}

/// To a reader of bare wrappers this is one unknown key with a null.
fn no_wrapper(bytes: &[u8]) -> bool {
    bytes == b"{\"topicConfigSerializeWrapper\":null}"
}

/// What the form of the body lets through.
fn read_spec(read: &mut Registration, req: &Request, spec: &RegisterSpec, now: i64) {
    let bare = req.version < 37;
    let zlib = spec.form == RegisterForm::Zlib && !bare;
    read.topics.clone_from(&spec.topics);
    if zlib {
        for topic in &mut read.topics {
            topic.key.clone_from(&topic.name);
            topic.sys_flag = 0;
        }
    }
    let states = if zlib {
        req.version >= 413
    } else {
        spec.form == RegisterForm::V5
    };
    read.version = spec.data_version.as_ref().map(|v| {
        let v = if states {
            *v
        } else {
            VersionSpec { state: 0, ..*v }
        };
        version_at(&v, now)
    });
    if states && !bare {
        read.mappings.clone_from(&spec.mappings);
        if zlib {
            for (key, mapping) in &mut read.mappings {
                key.clone_from(&mapping.topic);
            }
        }
    }
    if zlib && spec.filters == FilterSpec::Null {
        read.filters = FilterSpec::Absent; // the compressed form can only say `[]`
    } else if !bare {
        read.filters.clone_from(&spec.filters);
    }
}

/// A DataVersion whose missing timestamp is the time of decoding.
pub(super) fn version_at(spec: &VersionSpec, now: i64) -> DataVersion {
    let timestamp = spec.timestamp.unwrap_or(now);
    DataVersion {
        counter: spec.counter,
        state: spec.state,
        timestamp,
    }
}

/// CRC-32 (IEEE), bit by bit.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}
