//! A broker name and what stands under it (`BrokerData`), with its ready-made pieces of JSON.
//!
//! Pieces are made when members, zone or acting flag change, never on a read; a route is joined
//! from them. The epoch tells whether anything that decides over a repeated registration changed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Form, Name, PerForm};
use crate::wire::model::MASTER_ID;

/// A member of a group: one broker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `brokerId`
    pub id: i64,
    /// `brokerAddr`
    pub addr: Name,
    /// The cluster that it registered with; not always the group's.
    pub cluster: Name,
    /// Its filter servers (`filterServerTable`); brokers before 5.0 may have some.
    pub filter_servers: Option<Arc<[Name]>>,
    /// Memory in them.
    pub filter_bytes: usize,
}

/// A broker name with its members.
#[derive(Clone, Debug)]
pub struct Group {
    /// `brokerName`
    pub name: Name,
    /// The cluster of the first registrant; fixed.
    pub cluster: Name,
    /// `enableActingMaster` of the last registration of any member.
    pub enable_acting_master: bool,
    /// `zoneName` of the last registration of any member.
    pub zone_name: Option<Name>,
    /// By ascending id.
    pub members: SmallVec<[Member; 2]>,
    /// Moves with everything that could make a repeated registration matter; never reused.
    pub epoch: u64,
    /// The pieces.
    pub fragments: Fragments,
}

/// JSON of a group. Each piece begins with the comma that separates it from the one before.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    /// `,{…}`: the `BrokerData` object.
    pub broker: PerForm<Arc<[u8]>>,
    /// The same with the lowest id's address under key 0; only for a group that has no master
    /// and allows an acting one.
    pub acting: Option<PerForm<Arc<[u8]>>>,
    /// `,{"brokerName":"…"`, the start of a `QueueData`.
    pub queue_head: PerForm<Arc<[u8]>>,
    /// Some member shown in routes has filter servers.
    pub has_filter_servers: bool,
}

impl Group {
    /// A group without members, which must get one before it is published.
    pub fn new(name: &str, cluster: Name) -> Self {
        Self {
            name: Name::from(name),
            cluster,
            enable_acting_master: false,
            zone_name: None,
            members: SmallVec::new(),
            epoch: 0,
            fragments: Fragments::default(),
        }
    }

    /// The member with this id.
    pub fn member(&self, id: i64) -> Option<&Member> {
        self.members.iter().find(|m| m.id == id)
    }

    /// The member at this address; an address stands at most once in a group.
    pub fn member_at(&self, addr: &str) -> Option<&Member> {
        self.members.iter().find(|m| *m.addr == *addr)
    }

    /// The smallest id (`Collections.min(brokerAddrs.keySet())`).
    pub fn min_id(&self) -> Option<i64> {
        self.members.first().map(|m| m.id)
    }

    /// Whether somebody has id 0.
    pub fn has_master(&self) -> bool {
        self.member(MASTER_ID).is_some()
    }

    /// Addresses and their filter servers.
    pub fn filter_servers(&self) -> impl Iterator<Item = (&Name, &Arc<[Name]>)> {
        let own = self.members.iter().filter(|m| m.cluster == self.cluster);
        own.filter_map(|m| m.filter_servers.as_ref().map(|list| (&m.addr, list)))
    }

    /// Memory in filter servers of all members.
    pub(super) fn filter_bytes(&self) -> usize {
        self.members.iter().map(|m| m.filter_bytes).sum()
    }

    /// Puts a member under its id; returns the one that was there.
    pub(super) fn put(&mut self, member: Member) -> Option<Member> {
        match self.members.binary_search_by_key(&member.id, |m| m.id) {
            Ok(at) => Some(std::mem::replace(&mut self.members[at], member)),
            Err(at) => {
                self.members.insert(at, member);
                None
            }
        }
    }

    /// Makes the pieces anew, after a change.
    pub(super) fn render(&mut self) {
        let mut addrs: SmallVec<[(i64, &str); 4]> =
            self.members.iter().map(|m| (m.id, &*m.addr)).collect();
        let broker = PerForm::new(|form| self.broker_data(form, &addrs));
        let acting =
            (self.enable_acting_master && !self.has_master() && !addrs.is_empty()).then(|| {
                addrs[0].0 = MASTER_ID;
                addrs.sort_unstable();
                PerForm::new(|form| self.broker_data(form, &addrs))
            });
        let queue_head = PerForm::new(|form| {
            let mut out = b",{\"brokerName\":".to_vec();
            form.write_string(&mut out, &self.name);
            out.into()
        });
        let has_filter_servers = self.filter_servers().next().is_some();
        self.fragments = Fragments {
            broker,
            acting,
            queue_head,
            has_filter_servers,
        };
    }

    fn broker_data(&self, form: Form, addrs: &[(i64, &str)]) -> Arc<[u8]> {
        let mut out = b",{\"brokerAddrs\":{".to_vec();
        for (i, (id, addr)) in addrs.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            form.write_key(&mut out, *id);
            form.write_string(&mut out, addr);
        }
        out.extend_from_slice(b"},\"brokerName\":");
        form.write_string(&mut out, &self.name);
        out.extend_from_slice(b",\"cluster\":");
        form.write_string(&mut out, &self.cluster);
        out.extend_from_slice(b",\"enableActingMaster\":");
        out.extend_from_slice(if self.enable_acting_master {
            b"true"
        } else {
            b"false"
        });
        if let Some(zone) = &self.zone_name {
            out.extend_from_slice(b",\"zoneName\":");
            form.write_string(&mut out, zone);
        }
        out.push(b'}');
        out.into()
    }
}
