//! Request and response codes, remarks, flags and versions (`RequestCode`, `ResponseCode`,
//! `MQVersion`): the constants that peers compare with.

/// Codes of requests that a NameServer receives or sends (`RequestCode`).
#[allow(missing_docs, reason = "the names are RocketMQ's own")]
pub mod request {
    pub const PUT_KV_CONFIG: i32 = 100;
    pub const GET_KV_CONFIG: i32 = 101;
    pub const DELETE_KV_CONFIG: i32 = 102;
    pub const REGISTER_BROKER: i32 = 103;
    pub const UNREGISTER_BROKER: i32 = 104;
    pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
    pub const GET_BROKER_CLUSTER_INFO: i32 = 106;
    pub const WIPE_WRITE_PERM_OF_BROKER: i32 = 205;
    pub const GET_ALL_TOPIC_LIST_FROM_NAMESERVER: i32 = 206;
    pub const DELETE_TOPIC_IN_NAMESRV: i32 = 216;
    pub const REGISTER_TOPIC_IN_NAMESRV: i32 = 217;
    pub const GET_KVLIST_BY_NAMESPACE: i32 = 219;
    pub const GET_TOPICS_BY_CLUSTER: i32 = 224;
    pub const GET_SYSTEM_TOPIC_LIST_FROM_NS: i32 = 304;
    pub const GET_UNIT_TOPIC_LIST: i32 = 311;
    pub const GET_HAS_UNIT_SUB_TOPIC_LIST: i32 = 312;
    pub const GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: i32 = 313;
    pub const UPDATE_NAMESRV_CONFIG: i32 = 318;
    pub const GET_NAMESRV_CONFIG: i32 = 319;
    pub const QUERY_DATA_VERSION: i32 = 322;
    pub const ADD_WRITE_PERM_OF_BROKER: i32 = 327;
    pub const GET_BROKER_MEMBER_GROUP: i32 = 901;
    pub const BROKER_HEARTBEAT: i32 = 904;
    pub const NOTIFY_MIN_BROKER_ID_CHANGE: i32 = 905;
}

/// Codes of answers (`ResponseCode`, `RemotingSysResponseCode`).
#[allow(missing_docs, reason = "the names are RocketMQ's own")]
pub mod response {
    pub const SUCCESS: i32 = 0;
    pub const SYSTEM_ERROR: i32 = 1;
    pub const SYSTEM_BUSY: i32 = 2;
    pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
    pub const NO_PERMISSION: i32 = 16;
    pub const TOPIC_NOT_EXIST: i32 = 17;
    pub const QUERY_NOT_FOUND: i32 = 22;
    pub const GO_AWAY: i32 = 1500;
}

/// Ordinals of `MQVersion` that change an answer.
pub mod version {
    /// From here on the body of 103 is a `RegisterBrokerBody`.
    pub const V3_0_11: i32 = 37;
    /// From here on 105 answers in the standard JSON form.
    pub const V4_9_4: i32 = 401;
    /// From here on a compressed 103 carries the block of static-topic mappings.
    pub const V5_0_0: i32 = 413;
    /// Above this a request is told to go away during a graceful stop.
    pub const V5_3_1: i32 = 475;
    /// What this server puts into its answers.
    pub const V5_3_3: i32 = 479;
}

/// Bit of `flag`: the frame is an answer.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit of `flag`: the request wants no answer.
pub const FLAG_ONEWAY: i32 = 2;

/// Remarks of answers, word for word as Java 5.3.3 writes them: clients and tools print them,
/// and some compare them. A remark with a value inside is a prefix and a suffix around it.
pub mod remark {
    /// 17 for a topic without a route: followed by the topic (`null` when it is missing) and
    /// [`ROUTE_MISS_SUFFIX`].
    pub const ROUTE_MISS_PREFIX: &str = "No topic route info in name server for the topic: ";
    /// What follows the topic.
    pub const ROUTE_MISS_SUFFIX: &str =
        "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    /// 1 for a route read before `waitSecondsForService` has passed.
    pub const NOT_READY: &str = "name server not ready";
    /// 22 for a missing key or namespace: followed by the namespace, and for a key by
    /// [`KV_MISS_KEY`] and the key; a missing field reads `null`.
    pub const KV_MISS_PREFIX: &str = "No config item, Namespace: ";
    /// Between the namespace and the key.
    pub const KV_MISS_KEY: &str = " Key: ";
    /// 1 for a put without a namespace or a key.
    pub const KV_NULL: &str = "namespace or key is null";
    /// 1 for a registration whose body has another checksum than its header says.
    pub const CRC_MISMATCH: &str = "crc32 not match";
    /// 1 for a first registration with exactly one topic.
    pub const REGISTER_FAILED: &str = "register broker failed";
    /// 1 for a list of topics that is switched off.
    pub const DISABLED: &str = "disable";
    /// 1 for a configuration update that is no properties text.
    pub const BAD_PROPERTIES: &str = "string2Properties error";
    /// 16 for a configuration update of a key that may not change.
    pub const CONFIG_BLACK_LIST: &str = "Can not update config in black list.";
    /// 3 for an unknown code, with its leading blank: followed by the code and
    /// [`UNSUPPORTED_SUFFIX`].
    pub const UNSUPPORTED_PREFIX: &str = " request type ";
    /// What follows the code.
    pub const UNSUPPORTED_SUFFIX: &str = " not supported";
    /// 2 when a queue is full.
    pub const OVERLOAD: &str = "[OVERLOAD]system busy, start flow control for a while";
    /// 1500 during a graceful stop.
    pub const GO_AWAY: &str = "please go away";
    /// 0 of a successful 901, whose handler in Java never clears the default.
    pub const STALE_DEFAULT: &str = "not set any response code";
    /// 1 for an answer that Java's clients could not read; not in Java, which sends it.
    pub const ANSWER_TOO_LARGE: &str = "answer too large";
}
