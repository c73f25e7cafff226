//! Values that the wire, the tables and the answers share.

/// `MixAll.MASTER_ID`: the broker with this id is the master of its group.
pub const MASTER_ID: i64 = 0;
/// `PermName.PERM_READ`.
pub const PERM_READ: i32 = 4;
/// `PermName.PERM_WRITE`.
pub const PERM_WRITE: i32 = 2;

/// `TopicSysFlag.FLAG_UNIT`
pub const TOPIC_SYS_FLAG_UNIT: i32 = 1;
/// `TopicSysFlag.FLAG_UNIT_SUB`
pub const TOPIC_SYS_FLAG_UNIT_SUB: i32 = 2;

/// Version of a broker's topic table (`DataVersion`). Equal when all three are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataVersion {
    /// State machine version of the broker's store; 0 for brokers before 5.0. Compared alone
    /// when two brokers claim one id.
    pub state_version: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Number of changes.
    pub counter: i64,
}

/// What a route says about one topic at one broker group (`QueueData` without the name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueShape {
    /// `readQueueNums`
    pub read_queues: i32,
    /// `writeQueueNums`
    pub write_queues: i32,
    /// Bits of `PermName`.
    pub perm: i32,
    /// Bits of `TopicSysFlag`: 1 unit, 2 unit subscription.
    pub topic_sys_flag: i32,
}
