//! Work of a session that takes longer than a turn may: digesting and parsing registrations,
//! making large answers. Runs in slices on the connection's own core.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use twox_hash::xxhash3_128::Hasher;

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

/// Between two reports of progress.
const CHUNK_BYTES: usize = 2 * SLICE_UNITS;

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
    /// The body is a copy and no share of a large frame's buffer.
    pub(super) copied: bool,
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
    /// Memory that the job holds beside a large frame's buffer, which has a permit.
    pub fn own_bytes(&self) -> usize {
        match self {
            Self::Digest(job) | Self::Parse(job) if job.copied => job.body.len(),
            Self::Digest(_) | Self::Parse(_) | Self::Body(_) => 0,
        }
    }

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
                job.done(body)
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
    pub(crate) fn new(opaque: i32, kind: BodyKind, snapshot: Arc<Snapshot>) -> Self {
        Self {
            opaque,
            kind,
            snapshot,
        }
    }

    /// Takes a newer snapshot than the one that the request met, which is as right an answer.
    pub fn renew(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = snapshot;
    }

    /// Whether both would make the same from the same snapshot.
    pub fn asks_for_same(&self, other: &Self) -> bool {
        self.kind == other.kind
    }

    /// What came of it: `body`, made by this job or by one that asked for the same.
    pub fn done(self, body: Bytes) -> Done {
        Done::Body(self, body)
    }

    /// Makes the body, or takes it from who has made it.
    pub async fn make(&self, pace: &Pace) -> Bytes {
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

/// Key of the digests that stand for registrations: a stranger who does not know it cannot make
/// two registrations that look equal. XXH3 with a secret of our own, 128 bits.
#[derive(Clone)]
pub struct DigestKeys {
    seed: u64,
    secret: [u8; SECRET_BYTES],
}

/// What XXH3 wants at least.
const SECRET_BYTES: usize = 136;

impl fmt::Debug for DigestKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKeys(secret)")
    }
}

impl DigestKeys {
    /// A key from eight random numbers, stretched to the length that is needed.
    pub fn new(words: [u64; 8]) -> Self {
        let mut secret = [0; SECRET_BYTES];
        for (at, place) in secret.chunks_mut(16).enumerate() {
            let mut input = [0; 9 * 8];
            for (bytes, word) in input
                .chunks_exact_mut(8)
                .zip(words.iter().chain(&[at as u64]))
            {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            let stretched = Hasher::oneshot_with_seed(words[at % 8], &input).to_le_bytes();
            place.copy_from_slice(&stretched[..place.len()]);
        }
        let seed = words[0] ^ words[7].rotate_left(32);
        Self { seed, secret }
    }

    /// Digest of the ext fields, in their order. The checksum is left out: it changes with the
    /// part of the body that nobody reads.
    pub(super) fn ext(&self, ext: &ExtFields<'_>) -> u128 {
        let fields = ext.fields.iter().filter(|(key, _)| key != BODY_CRC32);
        fields.fold(0, |digest, (key, value)| {
            let digest = self.chain(digest, key.as_bytes());
            self.chain(digest, value.as_bytes())
        })
    }

    /// Digest of a whole registration. `mappingDataVersion`, which the NameServer does not read
    /// and which Java brokers since 5.0 stamp anew each time, is left out.
    pub(super) async fn registration(&self, ext: u128, body: &[u8], pace: &Pace) -> u128 {
        let unread = register::unread_part(body);
        let mut digest = ext;
        for part in [&body[..unread.start], &body[unread.end..]] {
            digest = self.chain(digest, &(part.len() as u64).to_le_bytes());
            for chunk in part.chunks(CHUNK_BYTES) {
                digest = self.chain(digest, chunk);
                pace.step(chunk.len() / DIGEST_BYTES_PER_UNIT).await;
            }
        }
        digest
    }

    /// Digest of a sequence that goes on with `next`.
    fn chain(&self, digest: u128, next: &[u8]) -> u128 {
        let mut link = [0; 32];
        link[..16].copy_from_slice(&digest.to_le_bytes());
        link[16..].copy_from_slice(&self.hash(next).to_le_bytes());
        self.hash(&link)
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        Hasher::oneshot_with_seed_and_secret(self.seed, &self.secret, bytes)
            // Only a secret that is too short fails, and this one is not.
            .unwrap_or_else(|_| Hasher::oneshot_with_seed(self.seed, bytes))
    }
}

/// CRC-32 of the body as sent, without its top bit, as `RegisterBrokerBody`'s senders compute it.
/// 0 means that the sender did not.
pub(super) async fn crc_matches(body: &[u8], expected: i32, pace: &Pace) -> bool {
    if expected == 0 {
        return true;
    }
    let mut crc = crc32fast::Hasher::new();
    for chunk in body.chunks(CHUNK_BYTES) {
        crc.update(chunk);
        pace.step(chunk.len() / DIGEST_BYTES_PER_UNIT).await;
    }
    crc.finalize() & 0x7FFF_FFFF == expected as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pace::run_to_end;

    #[test]
    fn digests_depend_on_the_key_and_on_every_byte() {
        let keys = DigestKeys::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let other = DigestKeys::new([1, 2, 3, 4, 5, 6, 7, 9]);
        let digest = |keys: &DigestKeys, body: &[u8]| {
            run_to_end(keys.registration(7, body, &Pace::default()))
        };
        for len in [0, 1, 300, CHUNK_BYTES, 3 * CHUNK_BYTES + 5] {
            let body = vec![b'x'; len];
            let whole = digest(&keys, &body);
            assert_eq!(whole, digest(&keys, &body));
            assert_ne!(whole, digest(&other, &body));
            for at in [0, len / 2, len.saturating_sub(1)] {
                let mut changed = body.clone();
                if let Some(byte) = changed.get_mut(at) {
                    *byte = b'y';
                    assert_ne!(whole, digest(&keys, &changed), "{len} {at}");
                }
            }
            let longer = [&body[..], b"x"].concat();
            assert_ne!(whole, digest(&keys, &longer));
        }
    }

    #[test]
    fn checksums_have_31_bits_and_0_is_none() {
        let matches = |body: &[u8], crc| run_to_end(crc_matches(body, crc, &Pace::default()));
        assert!(matches(b"123456789", 0xCBF4_3926_u32 as i32 & 0x7FFF_FFFF));
        assert!(!matches(b"123456789", 0xCBF4_3926_u32 as i32));
        assert!(matches(b"123456789", 0));
    }
}
