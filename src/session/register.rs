//! 103 up to the writer, and the rule that makes the steady state cheap: a registration that says
//! what the last one said, on the same connection, with nothing changed under it since, only
//! moves the broker's clock. Java brokers send all their topics every 30 seconds.

use super::jobs::{BODY_CRC32, Job, RegisterJob, crc_matches};
use super::{Body, Env, Next, Reply, Session};
use crate::route::command::{Command, Identity, Master, Proof, Registration, VersionClass};
use crate::route::kv::ORDER_TOPIC_CONFIG;
use crate::wire::codes::{remark, response, version};
use crate::wire::header::{ExtFields, Header};
use crate::wire::pace::{Pace, SLICE_UNITS, run_to_end};
use crate::wire::register::RegisterBody;
use crate::wire::reply::{Output, ReplyExt};

/// Bodies up to this size are digested at once; about 100 µs.
const DIGEST_AT_ONCE_BYTES: usize = 8 * SLICE_UNITS;

impl Session {
    pub(super) fn register(
        &mut self,
        header: &Header<'_>,
        body: Body<'_>,
        env: &Env<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let class = version_class(header.version);
        let ext = env.keys.ext(&header.ext);
        if body.bytes.len() > DIGEST_AT_ONCE_BYTES {
            let job = self.register_job(header, body, class, ext, env, out)?;
            return Some(Next::Run(Job::Digest(job)));
        }
        let pace = Pace::default();
        let digest = run_to_end(env.keys.registration(ext, body.bytes, &pace));
        let proof = Proof { digest, class };
        // A repetition has the same checksum or, for a part of the body that nobody reads,
        // another one, which must be as right.
        let crc = || header.ext.int32(BODY_CRC32).unwrap_or(0);
        let known = self.accepted.iter().any(|a| a.proof == Some(proof));
        if known
            && run_to_end(crc_matches(body.bytes, crc(), &pace))
            && self.is_unchanged(proof, Reply::to(header, env), env, out)
        {
            return None;
        }
        let mut job = self.register_job(header, body, class, ext, env, out)?;
        job.proof = Some(proof);
        Some(Next::Run(Job::Parse(job)))
    }

    /// Answers a registration from the snapshot if it is known to change nothing.
    pub(super) fn is_unchanged(
        &self,
        proof: Proof,
        reply: Reply<'_>,
        env: &Env<'_>,
        out: &mut Output,
    ) -> bool {
        if self.outstanding > 0 || !env.unchanged_rule {
            return false;
        }
        let Some(known) = self.accepted.iter().find(|a| a.proof == Some(proof)) else {
            return false;
        };
        let snapshot = env.snapshot;
        let group = snapshot
            .group(known.group)
            .filter(|g| g.epoch == known.group_epoch);
        let Some(group) = group.filter(|_| snapshot.settings_epoch == known.settings_epoch) else {
            return false;
        };
        if !known.live.touch(env.now.mono_ms) {
            return false;
        }
        let master = snapshot.master_for(group, known.broker_id, &known.cluster);
        reply.registered(out, master.as_ref());
        true
    }

    /// The registration was parsed, or could not be.
    pub(super) fn parsed(
        &mut self,
        job: RegisterJob,
        body: Result<RegisterBody, String>,
        env: &Env<'_>,
        out: &mut Output,
    ) -> Next {
        let nameless = |body: &RegisterBody| body.mappings.iter().any(|(_, m)| m.bname.is_none());
        let body = match body {
            Ok(body) if nameless(&body) => Err("a static topic's mapping has no bname".to_owned()),
            body => body,
        };
        match body {
            Ok(body) => {
                self.registered = true;
                let registration = Registration {
                    identity: job.identity,
                    ha_server_addr: job.ha_server_addr,
                    zone_name: job.zone_name,
                    enable_acting_master: job.enable_acting_master,
                    heartbeat_timeout_ms: job.heartbeat_timeout_ms,
                    body,
                    proof: job.proof,
                };
                let command = Command::Register(Box::new(registration));
                self.submit_as(job.opaque, job.oneway, command)
            }
            Err(remark) => {
                self.distrust(&job.identity.cluster, &job.identity.broker_addr);
                let reply = Reply {
                    opaque: job.opaque,
                    oneway: job.oneway,
                    env,
                };
                // A checksum or a table's refusal is an answer of the handler and has its ext
                // fields; a body that cannot be read is an exception and has none.
                if remark == remark::CRC_MISMATCH {
                    reply.register_error(out, &remark);
                } else {
                    reply.error(out, &remark);
                }
                Next::Receive
            }
        }
    }

    fn register_job(
        &mut self,
        header: &Header<'_>,
        body: Body<'_>,
        class: VersionClass,
        ext_digest: u128,
        env: &Env<'_>,
        out: &mut Output,
    ) -> Option<Box<RegisterJob>> {
        let ext = &header.ext;
        let identity = match identity(ext, env.limits.name_bytes) {
            Ok(identity) => identity,
            Err(remark) => {
                Reply::to(header, env).error(out, &remark);
                return None;
            }
        };
        let text = |key| ext.get(key).map(str::to_owned);
        let too_long = |key| {
            ext.get(key)
                .is_some_and(|v| v.len() > env.limits.name_bytes)
        };
        if let Some(key) = ["haServerAddr", "__ZONE_NAME"]
            .into_iter()
            .find(|key| too_long(key))
        {
            Reply::to(header, env).error(out, &name_too_long(key, env.limits.name_bytes));
            return None;
        }
        Some(Box::new(RegisterJob {
            opaque: header.opaque,
            oneway: header.is_oneway(),
            version: header.version,
            class,
            identity,
            ha_server_addr: text("haServerAddr"),
            zone_name: text("__ZONE_NAME"),
            enable_acting_master: ext.boolean("enableActingMaster"),
            heartbeat_timeout_ms: ext.int64("heartbeatTimeoutMillis"),
            compressed: ext.boolean("compressed") == Some(true),
            body_crc32: ext.int32(BODY_CRC32).unwrap_or(0),
            ext_digest,
            body: body.keep(),
            copied: body.whole.is_none(),
            crc_matches: None,
            proof: None,
        }))
    }
}

impl Reply<'_> {
    /// Success of a 103: who the master is, and the order topics.
    pub(super) fn registered(self, out: &mut Output, master: Option<&Master>) {
        let mut ext = smallvec::SmallVec::<[(&str, &str); 2]>::new();
        if let Some(master) = master {
            ext.extend(
                master
                    .ha_server_addr
                    .as_deref()
                    .map(|ha| ("haServerAddr", ha)),
            );
            ext.push(("masterAddr", &master.addr));
        }
        let ext = ReplyExt::Fields(&ext);
        let snapshot = self.env.snapshot;
        let wanted = snapshot.settings.return_order_topic_config_to_broker;
        match snapshot.kv.namespace(ORDER_TOPIC_CONFIG).filter(|_| wanted) {
            None => self.write(out, response::SUCCESS, None, ext, |_| {}),
            Some(namespace) => self.shared(out, ext, namespace.body()),
        }
    }

    /// A refusal by the handler of 103, which has its (empty) ext fields.
    pub(super) fn register_error(self, out: &mut Output, remark: &str) {
        let ext = ReplyExt::Fields(&[]);
        self.write(out, response::SYSTEM_ERROR, Some(remark), ext, |_| {});
    }
}

/// Java takes a registration without names and leaves nulls in its tables; without an id it
/// fails. Here each is refused by its name.
fn identity(ext: &ExtFields<'_>, name_bytes: usize) -> Result<Identity, String> {
    let name = |key: &str| match ext.get(key) {
        None => Err(format!("{key} is missing")),
        Some(text) if text.len() > name_bytes => Err(name_too_long(key, name_bytes)),
        Some(text) => Ok(text.to_owned()),
    };
    Ok(Identity {
        broker_name: name("brokerName")?,
        broker_addr: name("brokerAddr")?,
        cluster: name("clusterName")?,
        broker_id: ext
            .int64("brokerId")
            .ok_or("brokerId is missing or no number")?,
    })
}

fn name_too_long(key: &str, limit: usize) -> String {
    format!("{key} is longer than {limit} bytes")
}

fn version_class(version: i32) -> VersionClass {
    if version < version::V3_0_11 {
        VersionClass::Bare
    } else if version < version::V5_0_0 {
        VersionClass::V4
    } else {
        VersionClass::V5
    }
}
