//! Removal of brokers: by request, by a closed connection, by expiry. One path
//! (`RouteInfoManager.unRegisterBroker` and `onChannelDestroy` in one).

use super::Name;
use super::command::{Effects, Event, Leave, MinBrokerIdNotice, Outcome, Unregistration};
use super::group::Member;
use super::snapshot::LiveEntry;
use super::table::{CHANGE_UNITS, STEP_UNITS, Table};
use crate::wire::model::{MASTER_ID, PERM_WRITE};
use crate::wire::pace::Pace;

impl Table {
    /// 104: the live entry of cluster and address, and the member of that name at that address,
    /// each with its other half. The id does not matter.
    pub(super) async fn unregister(
        &mut self,
        u: &Unregistration,
        effects: &mut Effects,
        pace: &Pace,
    ) -> Outcome {
        let addr = u.broker_addr.as_deref();
        if let (Some(cluster), Some(addr)) = (u.cluster.as_deref(), addr)
            && let Some(entry) = self.next.live(cluster, addr).cloned()
        {
            self.remove_live(&entry, Leave::Unregistered, effects, pace)
                .await;
        }
        let Some(name) = u.broker_name.as_deref() else {
            return Outcome::Done;
        };
        if let Some(group) = self.next.group_named(name)
            && let Some(member) = addr.and_then(|addr| group.member_at(addr))
            && let Some(entry) = self.next.live(&member.cluster, &member.addr).cloned()
        {
            self.remove_live(&entry, Leave::Unregistered, effects, pace)
                .await;
        }
        // Java looks at the named group even when nothing was removed from it.
        if let Some(group) = self.next.group_id(name) {
            self.write_protect_without_master(group, pace).await;
        }
        Outcome::Done
    }

    /// The end of a connection takes with it what that connection registered last.
    pub(super) async fn connection_gone(
        &mut self,
        conn: u64,
        effects: &mut Effects,
        pace: &Pace,
    ) -> Outcome {
        for (cluster, addr) in self.by_conn.get(&conn).cloned().unwrap_or_default() {
            if let Some(entry) = self.next.live(&cluster, &addr).cloned() {
                self.remove_live(&entry, Leave::ConnectionClosed, effects, pace)
                    .await;
            }
        }
        Outcome::Done
    }

    /// Removes a live entry and its member.
    pub(super) async fn remove_live(
        &mut self,
        entry: &LiveEntry,
        why: Leave,
        effects: &mut Effects,
        pace: &Pace,
    ) {
        self.take_live(&entry.cluster, &entry.addr, None);
        self.detach(entry.group, &entry.addr, why, effects, pace)
            .await;
    }

    /// Takes the member at `addr` out of its group. An empty group goes with its topics; one that
    /// is left without a master but allows an acting one becomes read-only.
    pub(super) async fn detach(
        &mut self,
        group: u32,
        addr: &Name,
        why: Leave,
        effects: &mut Effects,
        pace: &Pace,
    ) {
        let Some(current) = self.next.group(group).cloned() else {
            return;
        };
        let Some(member) = current.member_at(addr).cloned() else {
            return;
        };
        let was_min = current.min_id() == Some(member.id);
        let alone = current.members.len() == 1;
        drop(current);
        self.left(group, &member, why, effects);
        if alone {
            self.dissolve(group, pace).await;
            return;
        }
        self.change_group(group, |g| g.members.retain(|m| m.addr != member.addr));
        self.write_protect_without_master(group, pace).await;
        if was_min {
            self.note_offline(group, member);
        }
    }

    /// Remembers the lowest id that left a group in this command: its members are told once, of
    /// how the group stands at the end.
    fn note_offline(&mut self, group: u32, member: Member) {
        let Some(name) = self.next.group(group).map(|g| g.name.clone()) else {
            return;
        };
        match self.offline.get_mut(&name) {
            Some(lowest) if lowest.id <= member.id => {}
            Some(lowest) => *lowest = member,
            None => drop(self.offline.insert(name, member)),
        }
    }

    /// 905s for the groups whose lowest id has left in this command.
    pub(super) fn tell_offline(&mut self, effects: &mut Effects) {
        for (name, member) in std::mem::take(&mut self.offline) {
            if self.next.settings.notify_min_broker_id_changed {
                effects.notices.extend(self.offline_notice(&name, &member));
            }
        }
    }

    async fn dissolve(&mut self, group: u32, pace: &Pace) {
        for topic in self.topics_of(group, pace).await {
            self.drop_queues(group, &topic);
            pace.step(CHANGE_UNITS).await;
        }
        if let Some(name) = self.next.group(group).map(|g| g.name.clone()) {
            for topic in self.mapped_topics_of(&name) {
                self.drop_mappings(&topic, |bname, owner| *bname == name || *owner == name);
                pace.step(CHANGE_UNITS).await;
            }
        }
        self.forget_group(group);
    }

    async fn write_protect_without_master(&mut self, group: u32, pace: &Pace) {
        let Some(current) = self.next.group(group) else {
            return;
        };
        // An id below 0 passes for a master here, and only here (`isNoMasterExists`).
        let no_master = current.min_id().is_some_and(|min| min > MASTER_ID);
        if !current.enable_acting_master || !no_master {
            return;
        }
        for topic in self.topics_of(group, pace).await {
            let mut units = STEP_UNITS;
            if let Some(mut queues) = self.queues(group, &topic) {
                queues.perm &= !PERM_WRITE;
                units = self.put_queues(group, &topic, queues);
            }
            pace.step(units).await;
        }
    }

    /// 905 to all that remain; only groups that allow an acting master care.
    fn offline_notice(&self, group: &str, gone: &Member) -> Option<MinBrokerIdNotice> {
        let group = self
            .next
            .group_named(group)
            .filter(|g| g.enable_acting_master)?;
        let min = group.members.first()?;
        Some(MinBrokerIdNotice {
            targets: group.members.iter().map(|m| m.addr.clone()).collect(),
            min_broker_id: min.id,
            min_broker_addr: min.addr.clone(),
            offline_broker_addr: Some(gone.addr.clone()),
            ha_broker_addr: None,
        })
    }

    pub(super) fn left(&self, group: u32, member: &Member, why: Leave, effects: &mut Effects) {
        if let Some(group) = self.next.group(group) {
            effects
                .events
                .push(Event::BrokerLeft(self.broker_ref(group, member), why));
        }
    }
}
