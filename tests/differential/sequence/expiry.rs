//! The one sequence that waits for an expiry where brokers have no timeout of their own.
//!
//! After a minute all connections are used, so that none ends for being idle, and one broker is
//! asked for with its own DataVersion, which keeps it alive.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{End, Event, PAUSE, Sequence};
use crate::link::Link;
use crate::support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};
use crate::support::workload::{ADDRS, CLUSTERS, NAMES, TOPICS};
use crate::tables;

const MINUTE: Duration = Duration::from_mins(1);
/// The second minute, and the ten seconds between two scans, with some to spare.
const REST: Duration = Duration::from_secs(60 + 10 + 3);

const VERSION: VersionSpec = VersionSpec {
    state: 0,
    counter: 1,
    timestamp: Some(1000),
};

impl Sequence<'_> {
    /// A master and its slave expire, and another master does not.
    ///
    /// Errors: the first difference, or a connection that did not end as expected.
    pub(crate) fn expire(mut self) -> Result<End, String> {
        for req in tables::preparation(self.fresh) {
            self.exchange(self.lines[0], req, false)?;
        }
        for (line, (name, id)) in [(0, 0), (0, 1), (1, 0)].into_iter().enumerate() {
            self.request(
                self.lines[line],
                registration(name, id, line, &self.suffix),
                false,
            )?;
            self.tally.operations += 1;
        }
        self.pass(MINUTE);
        let mut kept = who(322, 1, 0, 2);
        kept.body = Body::DataVersion(VERSION);
        self.exchange(self.lines[2], kept, false)?;
        for line in self.lines.clone() {
            self.exchange(line, Request::new(101), false)?;
        }
        for side in [&mut self.java, &mut self.ours] {
            side.observer = Link::open(side.address);
        }
        self.pass(REST);
        self.events.push(Event::Tick(self.now_ms));
        let mut ended = Vec::new();
        for side in [&mut self.java, &mut self.ours] {
            ended.push(side.oracle.tick(self.now_ms));
        }
        let wanted = BTreeSet::from([self.lines[0], self.lines[1]]);
        if ended.iter().any(|ended| *ended != wanted) {
            return Err(format!("the oracles end {ended:?} instead of {wanted:?}"));
        }
        self.compare_tables(Some(PAUSE))?;
        for line in self.lines.clone() {
            for side in [&mut self.java, &mut self.ours] {
                side.expect_end(line, wanted.contains(&line))?;
            }
        }
        self.clean()
    }

    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.now_ms += time.as_millis() as u64;
    }
}

fn who(code: i32, name: usize, id: i64, addr: usize) -> Request {
    Request::new(code)
        .with("clusterName", CLUSTERS[0])
        .with("brokerName", NAMES[name])
        .with("brokerAddr", ADDRS[addr])
        .with("brokerId", &id.to_string())
}

fn registration(name: usize, id: i64, addr: usize, suffix: &str) -> Request {
    let topic = |topic: &str| TopicSpec {
        key: format!("{topic}{suffix}"),
        name: format!("{topic}{suffix}"),
        read: 8,
        write: 8,
        perm: 6,
        sys_flag: 0,
    };
    let mut req = who(103, name, id, addr).with("haServerAddr", ADDRS[addr]);
    req.body = Body::Register(RegisterSpec {
        form: RegisterForm::V4,
        topics: TOPICS[..2].iter().map(|name| topic(name)).collect(),
        data_version: Some(VERSION),
        mappings: Vec::new(),
        filters: FilterSpec::List(vec!["f:1".to_owned()]),
    });
    req
}
