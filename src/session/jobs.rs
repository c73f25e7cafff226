//! Work of a session that takes longer than a turn may: digesting and parsing registrations,
//! making large answers. Runs in slices on the connection's own core.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use ahash::{AHasher, RandomState};
use bytes::Bytes;

use super::{Env, Next, Reply, Session};
use crate::route::Form;
use crate::route::command::{Identity, Proof, VersionClass};
use crate::route::query;
use crate::route::snapshot::{SharedBody, Snapshot};
use crate::settings::limits::Limits;
use crate::wire::codes::remark;
use crate::wire::header::ExtFields;
use crate::wire::pace::{Pace, SLICE_UNITS};
use crate::wire::register::{self, BodyLimits, RegisterBody, RegisterInput};
use crate::wire::reply::{Output, ReplyExt};

/// Ext field of a 103.
pub(super) const BODY_CRC32: &str = "bodyCrc32";

/// Hashing and checksums are some sixteen times faster than lexing.
const DIGEST_BYTES_PER_UNIT: usize = 16;

/// Something to run in slices.
#[derive(Debug)]
pub enum Job {
    /// Digest a large registration, to see whether it says anything new.
    Digest(Box<RegisterJob>),
    /// Check and parse a registration.
    Parse(Box<RegisterJob>),
    /// Make a large answer.
    Body(BodyJob),
}

/// What came of a [`Job`].
#[derive(Debug)]
pub enum Done {
    /// Of [`Job::Digest`]
    Digested(Box<RegisterJob>),
    /// Of [`Job::Parse`]; an error is the remark of the answer.
    Parsed(Box<RegisterJob>, Result<RegisterBody, String>),
    /// Of [`Job::Body`]
    Body(BodyJob, Bytes),
}

/// A 103 whose header has been read.
#[derive(Debug)]
pub struct RegisterJob {
    pub(super) opaque: i32,
    pub(super) oneway: bool,
    pub(super) version: i32,
    pub(super) class: VersionClass,
    pub(super) identity: Identity,
    pub(super) ha_server_addr: Option<String>,
    pub(super) zone_name: Option<String>,
    pub(super) enable_acting_master: Option<bool>,
    pub(super) heartbeat_timeout_ms: Option<i64>,
    pub(super) compressed: bool,
    pub(super) body_crc32: i32,
    pub(super) ext_digest: u128,
    pub(super) body: Bytes,
    /// The checksum was right, where it has been looked at.
    pub(super) crc_matches: Option<bool>,
    pub(super) proof: Option<Proof>,
}

/// A large answer to make, from the snapshot that its request met.
#[derive(Debug)]
pub struct BodyJob {
    pub(super) opaque: i32,
    pub(super) kind: BodyKind,
    pub(super) snapshot: Arc<Snapshot>,
}

/// Which large answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// 106
    ClusterInfo(Form),
    /// 206
    TopicList,
    /// 304
    SystemTopicList,
    /// 224
    Cluster(Option<String>),
    /// 311, 312, 313: topics by the flags of their first queue entry; `None` does not matter.
    Units {
        /// `TopicSysFlag` UNIT
        unit: Option<bool>,
        /// `TopicSysFlag` UNIT_SUB
        sub: Option<bool>,
    },
}

impl BodyKind {
    /// Where the answer is kept for others who ask, if it is.
    pub(super) fn shared<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Arc<SharedBody>> {
        match self {
            Self::ClusterInfo(form) => Some(snapshot.cluster_info.get(*form)),
            Self::TopicList => Some(&snapshot.topic_list),
            Self::SystemTopicList => Some(&snapshot.system_topic_list),
            Self::Cluster(_) | Self::Units { .. } => None,
        }
    }
}

impl Job {
    /// Does the work, pausing as `pace` says. `wall_ms` stands for a version's missing time stamp.
    pub async fn run(self, keys: &DigestKeys, limits: &Limits, wall_ms: i64, pace: &Pace) -> Done {
        match self {
            Self::Digest(mut job) => {
                let matches = crc_matches(&job.body, job.body_crc32, pace).await;
                job.crc_matches = Some(matches);
                let digest = keys.registration(job.ext_digest, &job.body, pace).await;
                job.proof = matches.then_some(Proof {
                    digest,
                    class: job.class,
                });
                Done::Digested(job)
            }
            Self::Parse(job) => {
                let parsed = job.parse(limits, wall_ms, pace).await;
                Done::Parsed(job, parsed)
            }
            Self::Body(job) => {
                let body = job.make(pace).await;
                Done::Body(job, body)
            }
        }
    }
}

impl RegisterJob {
    async fn parse(
        &self,
        limits: &Limits,
        now_ms: i64,
        pace: &Pace,
    ) -> Result<RegisterBody, String> {
        let matches = match self.crc_matches {
            Some(matches) => matches,
            None => crc_matches(&self.body, self.body_crc32, pace).await,
        };
        if !matches {
            return Err(remark::CRC_MISMATCH.to_owned());
        }
        let input = RegisterInput {
            version: self.version,
            compressed: self.compressed,
            body: &self.body,
            now_ms,
        };
        let limits = BodyLimits {
            inflated_bytes: limits.inflated_bytes,
            name_bytes: limits.name_bytes,
            topics: limits.topics_in_registration,
        };
        register::parse(&input, &limits, pace)
            .await
            .map_err(|error| error.to_string())
    }
}

impl BodyJob {
    async fn make(&self, pace: &Pace) -> Bytes {
        let snapshot = &*self.snapshot;
        // Another request may have made it while this one waited for its turn.
        let shared = self.kind.shared(snapshot);
        if let Some(body) = shared.and_then(|shared| shared.get()) {
            return body.clone();
        }
        let body = match &self.kind {
            BodyKind::ClusterInfo(form) => query::cluster_info(snapshot, *form, pace).await,
            BodyKind::TopicList => query::topic_list(snapshot, pace).await,
            BodyKind::SystemTopicList => query::system_topic_list(snapshot, pace).await,
            BodyKind::Cluster(name) => {
                query::topics_of_cluster(snapshot, name.as_deref(), pace).await
            }
            BodyKind::Units { unit, sub } => query::unit_topics(snapshot, *unit, *sub, pace).await,
        };
        let body = Bytes::from(body);
        if let Some(shared) = shared {
            shared.set(body.clone());
        }
        body
    }
}

impl Session {
    /// Takes up a request where its job has ended.
    pub fn job_done(&mut self, done: Done, env: &Env<'_>, out: &mut Output) -> Next {
        match done {
            Done::Digested(job) => {
                let reply = Reply {
                    opaque: job.opaque,
                    oneway: job.oneway,
                    env,
                };
                match job.proof {
                    Some(proof) if self.is_unchanged(proof, reply, env, out) => Next::Receive,
                    _ => Next::Run(Job::Parse(job)),
                }
            }
            Done::Parsed(job, body) => self.parsed(*job, body, env, out),
            Done::Body(job, body) => {
                let reply = Reply {
                    opaque: job.opaque,
                    oneway: false,
                    env,
                };
                reply.shared(out, ReplyExt::None, body);
                Next::Receive
            }
        }
    }
}

/// Two keyed hashers, whose 128 bits together stand for a registration: a stranger who does not
/// know the keys cannot make two that look equal.
#[derive(Clone, Debug)]
pub struct DigestKeys(RandomState, RandomState);

impl DigestKeys {
    /// Keys from eight random numbers.
    pub fn new(seeds: [u64; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = seeds;
        Self(
            RandomState::with_seeds(a, b, c, d),
            RandomState::with_seeds(e, f, g, h),
        )
    }

    /// Digest of the ext fields, in their order. The checksum is left out: it changes with the
    /// part of the body that nobody reads.
    pub(super) fn ext(&self, ext: &ExtFields<'_>) -> u128 {
        let mut hashers = self.hashers();
        for (key, value) in ext.fields.iter().filter(|(key, _)| key != BODY_CRC32) {
            for hasher in &mut hashers {
                (&**key, &**value).hash(hasher);
            }
        }
        join(hashers)
    }

    /// Digest of a whole registration. `mappingDataVersion`, which the NameServer does not read
    /// and which Java brokers since 5.0 stamp anew each time, is left out.
    pub(super) async fn registration(&self, ext: u128, body: &[u8], pace: &Pace) -> u128 {
        let mut hashers = self.hashers();
        let unread = register::unread_part(body);
        for hasher in &mut hashers {
            hasher.write_u128(ext);
            hasher.write_usize(unread.start);
        }
        for part in [&body[..unread.start], &body[unread.end..]] {
            for chunk in part.chunks(SLICE_UNITS) {
                for hasher in &mut hashers {
                    hasher.write(chunk);
                }
                pace.step(chunk.len() / DIGEST_BYTES_PER_UNIT).await;
            }
        }
        join(hashers)
    }

    fn hashers(&self) -> [AHasher; 2] {
        [self.0.build_hasher(), self.1.build_hasher()]
    }
}

fn join(hashers: [AHasher; 2]) -> u128 {
    let [high, low] = hashers.map(|hasher| u128::from(hasher.finish()));
    high << 64 | low
}

/// CRC-32 of the body as sent, without its top bit, as `RegisterBrokerBody`'s senders compute it.
/// 0 means that the sender did not.
pub(super) async fn crc_matches(body: &[u8], expected: i32, pace: &Pace) -> bool {
    if expected == 0 {
        return true;
    }
    let mut crc = crc32fast::Hasher::new();
    for chunk in body.chunks(SLICE_UNITS) {
        crc.update(chunk);
        pace.step(chunk.len() / DIGEST_BYTES_PER_UNIT).await;
    }
    crc.finalize() & 0x7FFF_FFFF == expected as u32
}
