//! What a peer can make the server spend: every limit in one table, each with its reason.
//!
//! A value, not constants, so that tests may lower them.

use super::Settings;
use crate::wire::frame::FrameLimits;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The largest frame that `com.rocketmq.remoting.frameMaxLength` can ask for: all the memory that
/// a frame of more than [`Limits::modest_frame_bytes`] can be granted, three quarters of what
/// there is for large frames. A longer one would be announced, wait, and be refused each time.
pub const MAX_FRAME_BYTES: usize = 192 * MIB;

/// All limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections, however many descriptors there are.
    pub connections: usize,
    /// Frame and header: larger ones close the connection. 16 MiB is Java's
    /// `com.rocketmq.remoting.frameMaxLength`; real headers stay under 1 KiB.
    pub frame: FrameLimits,
    /// Inflated registration body; Java has no limit and can be made to run out of memory.
    pub inflated_bytes: usize,
    /// Any name or address: real ones stay under 255.
    pub name_bytes: usize,
    /// Topics in one 103: ten times the largest broker heard of.
    pub topics_in_registration: usize,
    /// Filter servers of all brokers, with their names: real ones are a few, and only before 5.0.
    pub filter_servers_bytes: usize,
    /// Topics in all.
    pub topics: usize,
    /// Queue entries in all, with the queues of static topics.
    pub pairs: usize,
    /// Live brokers in all.
    pub brokers: usize,
    /// One KV value; a header has room for twice that.
    pub kv_value_bytes: usize,
    /// One KV namespace as it is written: it must fit into an answer.
    pub kv_namespace_bytes: usize,
    /// All KV namespaces: each change writes all of them.
    pub kv_total_bytes: usize,
    /// Changes that wait while a file is written.
    pub changes_waiting_bytes: usize,
    /// Bodies of requests that need only a few bytes (322): Java takes any.
    pub small_body_bytes: usize,
    /// Registrations that one connection is remembered for; a broker container has a few.
    pub accepted_per_connection: usize,
    /// Commands of one connection that may be outstanding before it is no longer read.
    pub outstanding_commands: usize,
    /// Bytes of answers after which a turn ends.
    pub turn_bytes: usize,
    /// Frames above this size get a buffer of their own and need a permit.
    pub large_frame_bytes: usize,
    /// Memory in large frames, for the whole process; the rest waits.
    pub large_frames_total_bytes: usize,
    /// The part of it that only frames up to [`Self::modest_frame_bytes`] may take.
    pub large_frames_reserve_bytes: usize,
    /// See [`Self::large_frames_reserve_bytes`].
    pub modest_frame_bytes: usize,
    /// How long a frame waits for a permit before it is thrown away and answered with code 2.
    pub permit_wait_ms: u64,
    /// A permit's holder has this long, and [`Self::delivery_ms_per_mib`] for each MiB.
    pub delivery_ms: u64,
    /// See [`Self::delivery_ms`].
    pub delivery_ms_per_mib: u64,
    /// Commands that wait for the writer, at their parsed size.
    pub parsed_total_bytes: usize,
    /// Questions to a production environment that may wait (`clusterTest`): beyond, 17 at once.
    pub asks_waiting: usize,
    /// How long such a question may take: clients wait 3 s for a route and then drop the
    /// connection, so the 5 s of Java's admin client would answer nobody.
    pub ask_ms: u64,
    /// Answers to them that have not been sent on.
    pub asked_total_bytes: usize,
    /// Bytes that all connections keep between turns: half frames, leftovers, registrations that
    /// wait for the parser without a permit, unsent answers.
    pub kept_total_bytes: usize,
    /// Unsent answers that stop a connection's reading.
    pub unsent_bytes: usize,
}

impl Limits {
    /// The limits of a server with these settings.
    pub fn with_settings(settings: &Settings) -> Self {
        let mut limits = Self::default();
        limits.frame.frame_bytes = settings.frame_max_length as usize;
        limits
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_000_000,
            frame: FrameLimits {
                frame_bytes: 16 * MIB,
                header_bytes: MIB,
                ext_fields: 1024,
            },
            inflated_bytes: 64 * MIB,
            name_bytes: KIB,
            topics_in_registration: 200_000,
            filter_servers_bytes: 256 * MIB,
            topics: 2_000_000,
            pairs: 20_000_000,
            brokers: 50_000,
            kv_value_bytes: 512 * KIB,
            kv_namespace_bytes: 8 * MIB,
            kv_total_bytes: 64 * MIB,
            changes_waiting_bytes: 64 * MIB,
            small_body_bytes: 64 * KIB,
            accepted_per_connection: 64,
            outstanding_commands: 64,
            turn_bytes: 256 * KIB,
            large_frame_bytes: 64 * KIB,
            large_frames_total_bytes: 256 * MIB,
            large_frames_reserve_bytes: 256 * MIB - MAX_FRAME_BYTES,
            modest_frame_bytes: MIB,
            permit_wait_ms: 2000,
            delivery_ms: 10_000,
            delivery_ms_per_mib: 2000,
            parsed_total_bytes: 256 * MIB,
            asks_waiting: 1024,
            ask_ms: 2_500,
            asked_total_bytes: 64 * MIB,
            kept_total_bytes: 512 * MIB,
            unsent_bytes: 256 * KIB,
        }
    }
}
