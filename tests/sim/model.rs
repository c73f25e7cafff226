//! The auditor's own idea of the tables: what the few kinds of requests of the simulation do, by
//! the rules of namesrv.md, with the whole past kept, so that an answer can be compared with any
//! moment of it. Nothing here uses the code of the tables.
//!
//! Changes are numbered in the order in which the writer took them; a moment is such a number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::hash::Hash;
use std::rc::Rc;

use super::peer::{Ask, Identity, Queue, Register};
use crate::support::answer::Answer;

/// Time-out of a broker that names none.
const DEFAULT_TIMEOUT_MS: i64 = 120_000;
/// A tick that is later than this is forgiven.
const STALL_MS: u64 = 1000;

/// Cluster and address.
pub(crate) type Place = (String, String);

#[derive(Default)]
pub(crate) struct Model {
    /// Changes applied so far.
    pub(crate) seq: u64,
    groups: BTreeMap<String, Group>,
    lives: BTreeMap<Place, Live>,
    topics: BTreeMap<String, BTreeMap<String, Queue>>,
    /// When each clock was last touched; one that is dead is not here.
    clocks: HashMap<u64, u64>,
    last_clock: u64,
    touched: Touched,
    past_groups: Past<String, Option<Rc<Group>>>,
    past_lives: Past<Place, Option<Rc<Live>>>,
    past_topics: Past<String, Rc<BTreeMap<String, Queue>>>,
    past_values: Past<String, Rc<str>>,
    /// Moments at which any group changed.
    group_changes: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) cluster: String,
    /// Addresses by id.
    pub(crate) members: BTreeMap<i64, String>,
    topics: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) clock: u64,
    pub(crate) version: (i64, i64),
    pub(crate) timeout_ms: i64,
    name: String,
    conn: u64,
    ha: String,
}

#[derive(Default)]
struct Touched {
    groups: BTreeSet<String>,
    lives: BTreeSet<Place>,
    topics: BTreeSet<String>,
}

impl Model {
    /// The next change: a request of this connection. Returns its answer.
    pub(crate) fn apply(&mut self, ask: &Ask, conn: u64, now_ms: u64) -> Answer {
        self.seq += 1;
        let answer = match ask {
            Ask::Register(r) => self.register(r, conn, now_ms),
            Ask::Unregister(who) => {
                self.remove_live(&who.place());
                Answer::success()
            }
            Ask::Wipe(name) => {
                let count = self.change_perm(name, |perm| perm & !2);
                Answer::success().ext(&[("wipeTopicCount", &count.to_string())])
            }
            Ask::Add(name) => {
                let count = self.change_perm(name, |_| 6);
                Answer::success().ext(&[("addTopicCount", &count.to_string())])
            }
            Ask::DeleteTopic { topic, cluster } => {
                let held = self
                    .topics
                    .get(topic)
                    .into_iter()
                    .flat_map(BTreeMap::keys)
                    .cloned();
                for name in held.collect::<Vec<_>>() {
                    let own = self.groups.get(&name).map(|g| &g.cluster);
                    if cluster.is_none() || own == cluster.as_ref() {
                        self.drop_queue(topic, &name);
                    }
                }
                Answer::success()
            }
            Ask::RegisterTopic { topic, name, queue } => {
                if self.groups.contains_key(name) {
                    self.put_queue(topic, name, *queue);
                }
                Answer::success()
            }
            Ask::Put(key, value) => {
                self.past_values
                    .push(key.clone(), self.seq, Rc::from(&**value));
                Answer::success()
            }
            other => panic!("{other:?} is no command"),
        };
        self.record();
        answer
    }

    /// The next change: what the connection registered last leaves.
    pub(crate) fn gone(&mut self, conn: u64) {
        self.seq += 1;
        self.remove_lives(|live, _| live.conn == conn);
        self.record();
    }

    /// The next change: what has expired leaves. Returns the connections that are left with
    /// nothing.
    pub(crate) fn tick(&mut self, now_ms: u64, late_ms: u64) -> BTreeSet<u64> {
        self.seq += 1;
        if late_ms > STALL_MS {
            for clock in self.clocks.values_mut() {
                *clock = (*clock).max(now_ms.min(*clock + late_ms));
            }
        }
        let removed = self.remove_lives(|live, clocks| live.is_expired(clocks, now_ms));
        self.record();
        let mut closed: BTreeSet<u64> = removed.iter().map(|live| live.conn).collect();
        closed.retain(|conn| !self.has_live(*conn));
        closed
    }

    /// A heartbeat that met the tables as of `moment`: a broker that was replaced since is not
    /// refreshed.
    pub(crate) fn touch(&mut self, place: &Place, moment: u64, now_ms: u64) {
        let live = self.past_lives.at(place, moment).and_then(Option::as_ref);
        if let Some(clock) = live.and_then(|live| self.clocks.get_mut(&live.clock)) {
            *clock = now_ms;
        }
    }

    /// Live brokers now.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.lives.keys()
    }

    /// Whether the connection has registered a broker that is alive now.
    pub(crate) fn has_live(&self, conn: u64) -> bool {
        self.lives.values().any(|live| live.conn == conn)
    }

    // What was to be seen at a moment, and the moments at which that changed.

    pub(crate) fn group_at(&self, name: &str, moment: u64) -> Option<&Rc<Group>> {
        self.past_groups.at(name, moment).and_then(Option::as_ref)
    }

    pub(crate) fn live_at(&self, place: &Place, moment: u64) -> Option<&Rc<Live>> {
        self.past_lives.at(place, moment).and_then(Option::as_ref)
    }

    pub(crate) fn value_at(&self, key: &str, moment: u64) -> Option<&Rc<str>> {
        self.past_values.at(key, moment)
    }

    pub(crate) fn queues_at(&self, topic: &str, moment: u64) -> Option<&BTreeMap<String, Queue>> {
        self.past_topics
            .at(topic, moment)
            .map(|t| &**t)
            .filter(|t| !t.is_empty())
    }

    /// `TopicRouteData`, as text.
    pub(crate) fn route_at(&self, topic: &str, legacy: bool, moment: u64) -> Option<String> {
        let queues = self.queues_at(topic, moment)?;
        let (mut brokers, mut datas) = (Vec::new(), Vec::new());
        for (name, queue) in queues {
            let group = self.group_at(name, moment)?;
            brokers.push(group.broker_data(name, legacy));
            datas.push(format!(
                "{{\"brokerName\":\"{name}\",\"perm\":{},\"readQueueNums\":{},\
                 \"topicSysFlag\":0,\"writeQueueNums\":{}}}",
                queue.perm, queue.read, queue.write
            ));
        }
        let (brokers, datas) = (brokers.join(","), datas.join(","));
        Some(format!(
            "{{\"brokerDatas\":[{brokers}],\"filterServerTable\":{{}},\"queueDatas\":[{datas}]}}"
        ))
    }

    /// `ClusterInfo`, as text.
    pub(crate) fn cluster_info_at(&self, moment: u64) -> String {
        let (mut groups, mut clusters) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for name in self.past_groups.0.keys() {
            if let Some(group) = self.group_at(name, moment) {
                groups.insert(name, group.broker_data(name, true));
                clusters.entry(&group.cluster).or_default().insert(name);
            }
        }
        let groups = groups
            .iter()
            .map(|(name, data)| format!("\"{name}\":{data}"));
        let clusters = clusters.iter().map(|(cluster, names)| {
            let names: Vec<_> = names.iter().map(|n| format!("\"{n}\"")).collect();
            format!("\"{cluster}\":[{}]", names.join(","))
        });
        let (groups, clusters) = (groups.collect::<Vec<_>>(), clusters.collect::<Vec<_>>());
        format!(
            "{{\"brokerAddrTable\":{{{}}},\"clusterAddrTable\":{{{}}}}}",
            groups.join(","),
            clusters.join(",")
        )
    }

    /// What a registration of `who` is answered with: a slave hears of its living master.
    pub(crate) fn welcome_at(&self, who: &Identity, moment: u64) -> Answer {
        let master = self
            .group_at(&who.name, moment)
            .and_then(|g| g.members.get(&0));
        let live = master.and_then(|addr| {
            let place = (who.cluster.clone(), addr.clone());
            self.live_at(&place, moment)
                .map(|live| (live.ha.clone(), addr))
        });
        match live.filter(|_| who.id != 0) {
            Some((ha, addr)) => {
                Answer::success().ext(&[("haServerAddr", &ha), ("masterAddr", addr)])
            }
            None => Answer::success().ext(&[]),
        }
    }

    /// Whether a registration like the last one would change nothing at a moment: the broker has
    /// its place, its version, and each of its topics.
    pub(crate) fn is_in_force(&self, r: &Register, moment: u64) -> bool {
        let Some(group) = self.group_at(&r.who.name, moment) else {
            return false;
        };
        let live = self.live_at(&r.who.place(), moment);
        let seated = group.members.get(&r.who.id) == Some(&r.who.addr);
        let lowest = group.members.keys().next() == Some(&r.who.id);
        let brings = r.who.id == 0 || r.acting.is_some() && lowest;
        let has = |(topic, _): &(String, Queue)| group.topics.contains(topic);
        live.is_some_and(|live| live.version == r.version)
            && seated
            && (!brings || r.topics.iter().all(has))
    }

    /// Moments from `from` on, up to `to`, at which what is asked for may have changed; `from`
    /// itself first.
    pub(crate) fn moments(&self, ask: &Ask, from: u64, to: u64) -> BTreeSet<u64> {
        let mut moments = BTreeSet::from([from]);
        match ask {
            Ask::Route { topic, .. } => {
                moments.extend(self.past_topics.changes(topic, from, to));
                let mut names = BTreeSet::new();
                for moment in &moments {
                    names.extend(
                        self.queues_at(topic, *moment)
                            .into_iter()
                            .flat_map(|q| q.keys()),
                    );
                }
                for name in names {
                    moments.extend(self.past_groups.changes(name, from, to));
                }
            }
            Ask::Members(name) => moments.extend(self.past_groups.changes(name, from, to)),
            Ask::ClusterInfo => {
                let start = self.group_changes.partition_point(|m| *m <= from);
                moments.extend(self.group_changes[start..].iter().filter(|m| **m <= to));
            }
            Ask::Value(key) => moments.extend(self.past_values.changes(key, from, to)),
            Ask::Version(who, _) | Ask::Heartbeat(who) => {
                moments.extend(self.past_lives.changes(&who.place(), from, to));
            }
            Ask::Register(r) => {
                // The master's clock may change hands while the group stays as it is.
                moments.extend(self.past_groups.changes(&r.who.name, from, to));
                let masters: Vec<_> = moments
                    .iter()
                    .filter_map(|m| self.group_at(&r.who.name, *m)?.members.get(&0))
                    .map(|addr| (r.who.cluster.clone(), addr.clone()))
                    .collect();
                for place in masters.iter().chain([&r.who.place()]) {
                    moments.extend(self.past_lives.changes(place, from, to));
                }
            }
            _ => {}
        }
        moments
    }

    // The rules.

    /// namesrv.md 2.4, for brokers without an acting master.
    fn register(&mut self, r: &Register, conn: u64, now_ms: u64) -> Answer {
        let (who, place) = (&r.who, r.who.place());
        let holder = self
            .groups
            .get(&who.name)
            .and_then(|g| g.members.get(&who.id))
            .cloned();
        if holder.is_none() && r.topics.len() == 1 {
            return Answer::failure(1, "register broker failed").ext(&[]);
        }
        if let Some(old) = holder.as_ref().filter(|old| **old != who.addr) {
            let old = (who.cluster.clone(), old.clone());
            let wins = self.lives.get(&old).is_some_and(|live| {
                live.version.0 > r.version.0 && !live.is_expired(&self.clocks, now_ms)
            });
            if wins {
                self.remove_live(&place);
                return Answer::success().ext(&[]);
            }
            self.remove_live_entry(&old);
        }
        let before = self.lives.get(&place).cloned();
        if let Some(live) = before.as_ref().filter(|live| live.name != who.name) {
            self.detach(&live.name.clone(), &who.addr);
        }
        self.touched.groups.insert(who.name.clone());
        let group = self.groups.entry(who.name.clone()).or_default();
        if group.members.is_empty() {
            group.cluster.clone_from(&who.cluster);
        }
        group.members.retain(|_, addr| *addr != who.addr);
        group.members.insert(who.id, who.addr.clone());
        self.contribute(r, holder.is_none(), before.as_ref());
        let clock = match before {
            Some(live) if live.conn == conn => live.clock,
            _ => {
                self.remove_live_entry(&place);
                self.last_clock += 1;
                self.last_clock
            }
        };
        self.clocks.insert(clock, now_ms);
        self.touched.lives.insert(place.clone());
        let live = Live {
            clock,
            version: r.version,
            timeout_ms: r.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            name: who.name.clone(),
            conn,
            ha: who.ha_server_addr(),
        };
        self.lives.insert(place, live);
        self.record();
        self.welcome_at(who, self.seq)
    }

    /// A master, or the lowest of the slaves that know of acting masters, brings its topics: all
    /// of them if its place or its version is new, else what is missing.
    fn contribute(&mut self, r: &Register, new: bool, before: Option<&Live>) {
        let who = &r.who;
        let lowest = self.groups[&who.name].members.keys().next() == Some(&who.id);
        if who.id != 0 && !(r.acting.is_some() && lowest) {
            return;
        }
        let all = new || before.is_none_or(|live| live.version != r.version);
        for (topic, queue) in &r.topics {
            let known = self.topics.get(topic);
            if all || known.is_none_or(|t| !t.contains_key(&who.name)) {
                self.put_queue(topic, &who.name, *queue);
            }
        }
    }

    fn remove_lives(&mut self, leaves: impl Fn(&Live, &HashMap<u64, u64>) -> bool) -> Vec<Live> {
        let all = self
            .lives
            .iter()
            .filter(|(_, live)| leaves(live, &self.clocks));
        let places: Vec<_> = all.map(|(place, _)| place.clone()).collect();
        places
            .iter()
            .filter_map(|place| self.remove_live(place))
            .collect()
    }

    /// Takes a live entry away, and its member.
    fn remove_live(&mut self, place: &Place) -> Option<Live> {
        let live = self.remove_live_entry(place)?;
        self.detach(&live.name, &place.1);
        Some(live)
    }

    fn remove_live_entry(&mut self, place: &Place) -> Option<Live> {
        let live = self.lives.remove(place)?;
        self.clocks.remove(&live.clock);
        self.touched.lives.insert(place.clone());
        Some(live)
    }

    /// Takes an address out of a group; an empty group goes with its topics.
    fn detach(&mut self, name: &str, addr: &str) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        group.members.retain(|_, a| a != addr);
        self.touched.groups.insert(name.to_owned());
        if group.members.is_empty() {
            for topic in std::mem::take(&mut group.topics) {
                self.drop_queue(&topic, name);
            }
            self.groups.remove(name);
        }
    }

    fn put_queue(&mut self, topic: &str, name: &str, queue: Queue) {
        self.touched.topics.insert(topic.to_owned());
        let queues = self.topics.entry(topic.to_owned()).or_default();
        queues.insert(name.to_owned(), queue);
        if let Some(group) = self.groups.get_mut(name)
            && group.topics.insert(topic.to_owned())
        {
            self.touched.groups.insert(name.to_owned());
        }
    }

    fn drop_queue(&mut self, topic: &str, name: &str) {
        self.touched.topics.insert(topic.to_owned());
        if let Some(queues) = self.topics.get_mut(topic) {
            queues.remove(name);
        }
        if let Some(group) = self.groups.get_mut(name)
            && group.topics.remove(topic)
        {
            self.touched.groups.insert(name.to_owned());
        }
    }

    fn change_perm(&mut self, name: &str, change: impl Fn(i32) -> i32) -> usize {
        let topics = self
            .groups
            .get(name)
            .map(|g| g.topics.clone())
            .unwrap_or_default();
        for topic in &topics {
            if let Some(queue) = self.topics.get_mut(topic).and_then(|t| t.get_mut(name)) {
                queue.perm = change(queue.perm);
            }
            self.touched.topics.insert(topic.clone());
        }
        topics.len()
    }

    /// Keeps what this change has left of everything that it touched.
    fn record(&mut self) {
        let Touched {
            groups,
            lives,
            topics,
        } = std::mem::take(&mut self.touched);
        for name in groups {
            let group = self.groups.get(&name).map(|g| Rc::new(g.clone()));
            self.past_groups.push(name, self.seq, group);
            if self.group_changes.last() != Some(&self.seq) {
                self.group_changes.push(self.seq);
            }
        }
        for place in lives {
            let live = self.lives.get(&place).map(|l| Rc::new(l.clone()));
            self.past_lives.push(place, self.seq, live);
        }
        for topic in topics {
            let queues = Rc::new(self.topics.get(&topic).cloned().unwrap_or_default());
            self.past_topics.push(topic, self.seq, queues);
        }
    }
}

impl Live {
    fn is_expired(&self, clocks: &HashMap<u64, u64>, now_ms: u64) -> bool {
        let last = clocks.get(&self.clock).copied().unwrap_or(0);
        last.saturating_add_signed(self.timeout_ms) < now_ms
    }
}

impl Group {
    /// `BrokerData`, as text.
    fn broker_data(&self, name: &str, legacy: bool) -> String {
        let mut addrs = String::new();
        for (i, (id, addr)) in self.members.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let quote = if legacy { "" } else { "\"" };
            let _ = write!(addrs, "{comma}{quote}{id}{quote}:\"{addr}\"");
        }
        format!(
            "{{\"brokerAddrs\":{{{addrs}}},\"brokerName\":\"{name}\",\"cluster\":\"{}\",\
             \"enableActingMaster\":false}}",
            self.cluster
        )
    }
}

/// Values over time.
struct Past<K, V>(HashMap<K, Vec<(u64, V)>>);

impl<K, V> Default for Past<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V> Past<K, V> {
    fn push(&mut self, key: K, moment: u64, value: V) {
        let values = self.0.entry(key).or_default();
        // One change may be recorded in two parts.
        if values.last().is_some_and(|(last, _)| *last == moment) {
            values.pop();
        }
        values.push((moment, value));
    }

    fn at<Q>(&self, key: &Q, moment: u64) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let values = self.0.get(key)?;
        let after = values.partition_point(|(m, _)| *m <= moment);
        Some(&values[after.checked_sub(1)?].1)
    }

    fn changes<Q>(&self, key: &Q, from: u64, to: u64) -> impl Iterator<Item = u64>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let values = self.0.get(key).map_or(&[][..], Vec::as_slice);
        let start = values.partition_point(|(m, _)| *m <= from);
        values[start..]
            .iter()
            .map(|(m, _)| *m)
            .take_while(move |m| *m <= to)
    }
}
