//! Judges `ClusterInfo`.

use super::route::{ShownGroup, certain_members, read_group, wrong};
use super::{Finding, Truth};
use crate::json::Scan;
use crate::topology::{Topology, group_name, parse_cluster, parse_group};

/// Which brokers an answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// For each group a bit for each broker id.
    groups: Vec<u64>,
}

impl Shown {
    /// Whether a broker is shown.
    #[must_use]
    pub fn has(&self, topology: &Topology, broker: u32) -> bool {
        let members = self.groups[topology.group(broker) as usize];
        members >> topology.broker_id(broker) & 1 == 1
    }
}

pub(super) fn check(truth: Truth<'_>, body: &[u8]) -> Result<Shown, Finding> {
    let topology = truth.topology;
    let mut shown = Shown {
        groups: vec![0; topology.groups as usize],
    };
    let mut named = vec![false; topology.groups as usize];
    let mut scan = Scan::new(body);
    scan.object::<Finding>(|scan, key| match key {
        "brokerAddrTable" => scan.object(|scan, name| {
            let ShownGroup { group, members } = read_group(scan, truth)?;
            let place = &mut shown.groups[group as usize];
            if parse_group(name) != Some(group) || *place != 0 {
                return Err(wrong(format!(
                    "{} under the name {name}",
                    group_name(group)
                )));
            }
            *place = members;
            Ok(())
        }),
        "clusterAddrTable" => scan.object(|scan, cluster| {
            scan.array(|scan| {
                let name = scan.string()?;
                let group = parse_group(&name).filter(|group| *group < topology.groups);
                let place = group.map(|group| (group, &mut named[group as usize]));
                match place {
                    Some((group, place))
                        if !*place && parse_cluster(cluster) == Some(topology.cluster(group)) =>
                    {
                        *place = true;
                        Ok(())
                    }
                    _ => Err(wrong(format!("{name} listed in {cluster}"))),
                }
            })
        }),
        _ => Ok(scan.skip()?),
    })?;
    scan.end()?;
    for (group, (members, is_named)) in (0..).zip(shown.groups.iter().zip(&named)) {
        certain_members(truth, group, *members)?;
        if (*members != 0) != *is_named {
            let name = group_name(group);
            return Err(wrong(format!("the two tables disagree about {name}")));
        }
    }
    Ok(shown)
}
