//! The rows. Within a group they stand in the order in which Java declares the fields, which is
//! the order of `-p`.

use super::{Effect, Group, JavaType, Key, Kind, Place};
use crate::settings::Settings;
use crate::settings::limits::MAX_FRAME_BYTES;
use crate::wire::frame::SerializeType;

use Effect::{AtOnce, AtRestart, Never};
use Group::{Jvm, Namesrv, NettyClient, NettyServer, Own};

/// `Place` of a field that is copied or cloned as it is.
macro_rules! field {
    ($($path:ident).+) => {
        Place { get: |s| s.$($path).+.clone(), set: |s, v| s.$($path).+ = v }
    };
}

/// A number of any width that `i64` holds. The range keeps it inside that width.
macro_rules! number {
    ($field:ident, $min:expr, $max:expr) => {
        Kind::Number {
            min: $min,
            max: $max,
            place: Place {
                get: |s| i64::from(s.$field),
                set: |s, v| {
                    if let Ok(v) = v.try_into() {
                        s.$field = v;
                    }
                },
            },
        }
    };
}

/// A value with `FromStr` and `Display`.
macro_rules! form {
    ($form:expr, $($path:ident).+) => {
        Kind::Form {
            form: $form,
            get: |s| s.$($path).+.to_string(),
            set: |s, text| {
                s.$($path).+ = text.parse().ok()?;
                Some(())
            },
        }
    };
}

const fn key(
    name: &'static str,
    group: Group,
    kind: Kind,
    effect: Effect,
    note: &'static str,
) -> Key {
    Key {
        name,
        group,
        kind,
        effect,
        note,
    }
}

const fn int(name: &'static str, group: Group, default: &'static str, why: &'static str) -> Key {
    key(name, group, Kind::Inert(JavaType::Int, default), Never, why)
}

const fn long(name: &'static str, group: Group, default: &'static str, why: &'static str) -> Key {
    key(
        name,
        group,
        Kind::Inert(JavaType::Long, default),
        Never,
        why,
    )
}

const fn flag(name: &'static str, group: Group, default: &'static str, why: &'static str) -> Key {
    key(
        name,
        group,
        Kind::Inert(JavaType::Bool, default),
        Never,
        why,
    )
}

const fn text(name: &'static str, group: Group, default: &'static str, why: &'static str) -> Key {
    key(
        name,
        group,
        Kind::Inert(JavaType::Text, default),
        Never,
        why,
    )
}

/// A JVM property that only sets the default of other keys.
const fn jvm_default(name: &'static str, of: &'static [&'static str]) -> Key {
    key(
        name,
        Jvm,
        Kind::DefaultOf(of),
        AtRestart,
        "sets the default of the key of that meaning",
    )
}

/// The same for keys without meaning here.
const fn jvm_inert(name: &'static str, of: &'static [&'static str], why: &'static str) -> Key {
    key(name, Jvm, Kind::DefaultOf(of), Never, why)
}

const NO_POOL: &str = "there are no request pools: serving cores answer, namesrv.cores sets them";
const NO_NETTY: &str = "there are no Netty threads: namesrv.cores sets the serving cores";
const NO_SEMAPHORE: &str = "notifications to brokers have a bounded queue of their own";
const OWN_LIMITS: &str = "unsent answers are limited per connection and in all";
const NO_CLIENT: &str = "the only outgoing connections are for notifications to brokers (905)";
const PLAIN_CLIENT: &str = "notifications to brokers (905) go out without TLS";

const RANGES: &str = "address ranges like 10.0.0.0/8,::1, without bits behind the prefix";

const INT_MAX: i64 = i32::MAX as i64;
const DAY_MS: i64 = 86_400_000;

/// Every key.
#[rustfmt::skip] // one row, one paragraph: a table that can be read down its columns
pub static KEYS: &[Key] = &[
    // NamesrvConfig
    key("rocketmqHome", Namesrv, Kind::Optional(field!(rocketmq_home)), Never,
        "kept and shown; neither needed nor read"),
    key("kvConfigPath", Namesrv, Kind::NonEmpty(field!(kv_config_path)), AtRestart,
        "file of the KV tables"),
    key("configStorePath", Namesrv, Kind::NonEmpty(field!(config_store_path)), AtRestart,
        "file that 318 changes; the -c file wins"),
    key("productEnvName", Namesrv, Kind::Text(field!(product_env_name)), AtRestart,
        "production environment that clusterTest asks"),
    key("clusterTest", Namesrv, Kind::Bool(field!(cluster_test)), AtRestart,
        "ask a production environment for unknown topics"),
    key("orderMessageEnable", Namesrv, Kind::Bool(field!(order_message_enable)), AtOnce,
        "put orderTopicConf into routes"),
    key("returnOrderTopicConfigToBroker", Namesrv,
        Kind::Bool(field!(return_order_topic_config_to_broker)), AtOnce,
        "answer a registration with the order topics"),
    int("clientRequestThreadPoolNums", Namesrv, "8", NO_POOL),
    int("defaultThreadPoolNums", Namesrv, "16", NO_POOL),
    int("clientRequestThreadPoolQueueCapacity", Namesrv, "50000",
        "reads are answered as they arrive and never wait in a queue"),
    key("defaultThreadPoolQueueCapacity", Namesrv,
        number!(default_thread_pool_queue_capacity, 1, 1_000_000), AtRestart,
        "requests that may wait for the writer before code 2"),
    key("scanNotActiveBrokerInterval", Namesrv,
        number!(scan_not_active_broker_interval_ms, 1, DAY_MS), AtRestart,
        "milliseconds between two looks for silent brokers"),
    int("unRegisterBrokerQueueCapacity", Namesrv, "3000",
        "losses of brokers wait with all other changes and are never dropped"),
    key("supportActingMaster", Namesrv, Kind::Bool(field!(support_acting_master)), AtOnce,
        "show the smallest member of a group without master as its master"),
    key("enableAllTopicList", Namesrv, Kind::Bool(field!(enable_all_topic_list)), AtOnce,
        "answer 206"),
    key("enableTopicList", Namesrv, Kind::Bool(field!(enable_topic_list)), AtOnce,
        "answer 224, 311, 312 and 313"),
    key("notifyMinBrokerIdChanged", Namesrv, Kind::Bool(field!(notify_min_broker_id_changed)),
        AtOnce, "tell brokers of a new smallest member (905)"),
    key(
        "enableControllerInNamesrv",
        Namesrv,
        Kind::Form {
            form: "false: there is no embedded controller, run the controller as its own process",
            get: |_| "false".to_owned(),
            set: |_, text| text.eq_ignore_ascii_case("false").then_some(()),
        },
        Never,
        "there is no embedded controller",
    ),
    key("needWaitForService", Namesrv, Kind::Bool(field!(need_wait_for_service)), AtOnce,
        "refuse routes for a while after the start"),
    key("waitSecondsForService", Namesrv, number!(wait_seconds_for_service, 0, INT_MAX), AtOnce,
        "that while, in seconds"),
    key("deleteTopicWithBrokerRegistration", Namesrv,
        Kind::Bool(field!(delete_topic_with_broker_registration)), AtOnce,
        "remove topics that a registration lacks"),
    key("configBlackList", Namesrv, Kind::Text(field!(config_black_list)), AtRestart,
        "keys that 318 refuses, separated by ;"),
    // NettyServerConfig
    key("bindAddress", NettyServer, Kind::NonEmpty(field!(bind_address)), AtRestart,
        "host name or address to listen at"),
    key("listenPort", NettyServer, number!(listen_port, 0, 65_535), AtRestart,
        "port to listen at; 0 lets the system choose"),
    int("serverWorkerThreads", NettyServer, "8", NO_NETTY),
    int("serverCallbackExecutorThreads", NettyServer, "0", NO_NETTY),
    int("serverSelectorThreads", NettyServer, "3", NO_NETTY),
    int("serverOnewaySemaphoreValue", NettyServer, "256", NO_SEMAPHORE),
    int("serverAsyncSemaphoreValue", NettyServer, "64", NO_SEMAPHORE),
    // Java takes 0 and less for "never"; then a silent peer would hold its memory for ever.
    key("serverChannelMaxIdleTimeSeconds", NettyServer,
        number!(server_channel_max_idle_time_seconds, 1, INT_MAX), AtOnce,
        "seconds without a frame after which a connection is closed"),
    key("serverSocketSndBufSize", NettyServer, number!(server_socket_snd_buf_size, 0, INT_MAX),
        AtRestart, "bytes of the sockets' send buffer; 0 leaves it to the system"),
    key("serverSocketRcvBufSize", NettyServer, number!(server_socket_rcv_buf_size, 0, INT_MAX),
        AtRestart, "bytes of the sockets' receive buffer; 0 leaves it to the system"),
    int("writeBufferHighWaterMark", NettyServer, "0", OWN_LIMITS),
    int("writeBufferLowWaterMark", NettyServer, "0", OWN_LIMITS),
    int("serverSocketBacklog", NettyServer, "1024", "Java 5 ignores it too; the backlog is 4096"),
    flag("serverNettyWorkerGroupEnable", NettyServer, "true", NO_NETTY),
    flag("serverPooledByteBufAllocatorEnable", NettyServer, "true", "there are no Netty buffers"),
    key("enableShutdownGracefully", NettyServer, Kind::Bool(field!(enable_shutdown_gracefully)),
        AtOnce, "tell clients to go away before stopping"),
    key("shutdownWaitTimeSeconds", NettyServer, number!(shutdown_wait_time_seconds, 0, INT_MAX),
        AtOnce, "how long, in seconds"),
    flag("useEpollNativeSelector", NettyServer, "false", "the server uses io_uring"),
    // NettyClientConfig
    int("clientWorkerThreads", NettyClient, "4", NO_CLIENT),
    int("clientCallbackExecutorThreads", NettyClient, "4", NO_CLIENT),
    int("clientOnewaySemaphoreValue", NettyClient, "65535", NO_SEMAPHORE),
    int("clientAsyncSemaphoreValue", NettyClient, "65535", NO_SEMAPHORE),
    key("connectTimeoutMillis", NettyClient, number!(connect_timeout_millis, 1, INT_MAX), AtRestart,
        "milliseconds to connect to a broker, for 905"),
    long("channelNotActiveInterval", NettyClient, "60000", NO_CLIENT),
    flag("scanAvailableNameSrv", NettyClient, "true", NO_CLIENT),
    int("clientChannelMaxIdleTimeSeconds", NettyClient, "120", NO_CLIENT),
    int("clientSocketSndBufSize", NettyClient, "0", NO_CLIENT),
    int("clientSocketRcvBufSize", NettyClient, "0", NO_CLIENT),
    flag("clientPooledByteBufAllocatorEnable", NettyClient, "false", "there are no Netty buffers"),
    flag("clientCloseSocketIfTimeout", NettyClient, "true", NO_CLIENT),
    flag("useTLS", NettyClient, "false", PLAIN_CLIENT),
    text("socksProxyConfig", NettyClient, "{}", "notifications to brokers (905) use no proxy"),
    int("writeBufferHighWaterMark", NettyClient, "0", OWN_LIMITS),
    int("writeBufferLowWaterMark", NettyClient, "0", OWN_LIMITS),
    flag("disableCallbackExecutor", NettyClient, "false", NO_CLIENT),
    flag("disableNettyWorkerGroup", NettyClient, "false", NO_CLIENT),
    long("maxReconnectIntervalTimeSeconds", NettyClient, "60", NO_CLIENT),
    flag("enableReconnectForGoAway", NettyClient, "true", NO_CLIENT),
    // JVM properties, NettySystemConfig among them
    key("user.home", Jvm, Kind::Surrounding(|s, text| s.user_home = text.to_owned()), AtRestart,
        "folder above the default files"),
    key("rocketmq.home.dir", Jvm,
        Kind::Surrounding(|s, text| s.rocketmq_home = Some(text.to_owned())), AtRestart,
        "sets the default of rocketmqHome"),
    key("rocketmq.serialize.type", Jvm,
        Kind::Form { form: "JSON or ROCKETMQ", get: show_serialize, set: set_serialize },
        AtRestart, "how headers of answers are written"),
    key("rocketmq.namesrv.addr", Jvm, Kind::Optional(field!(production.namesrv_addr)), AtRestart,
        "production NameServers that clusterTest asks, instead of an HTTP list of them"),
    key("rocketmq.namesrv.domain", Jvm, Kind::NonEmpty(field!(production.domain)), AtRestart,
        "host of the HTTP list of production NameServers, with a port unless that is 8080"),
    key("rocketmq.namesrv.domain.subgroup", Jvm, Kind::NonEmpty(field!(production.subgroup)),
        AtRestart, "name of that list, before - and productEnvName"),
    // A frame of this size gets its memory as soon as no other holds any.
    key("com.rocketmq.remoting.frameMaxLength", Jvm,
        number!(frame_max_length, 4_096, MAX_FRAME_BYTES as i64), AtRestart,
        "bytes of the largest frame, with its length word"),
    jvm_default("com.rocketmq.remoting.socket.sndbuf.size",
        &["serverSocketSndBufSize", "clientSocketSndBufSize"]),
    jvm_default("com.rocketmq.remoting.socket.rcvbuf.size",
        &["serverSocketRcvBufSize", "clientSocketRcvBufSize"]),
    jvm_inert("com.rocketmq.remoting.socket.backlog", &["serverSocketBacklog"],
        "Java 5 ignores it too; the backlog is 4096"),
    jvm_inert("com.rocketmq.remoting.clientAsyncSemaphoreValue", &["clientAsyncSemaphoreValue"],
        NO_SEMAPHORE),
    jvm_inert("com.rocketmq.remoting.clientOnewaySemaphoreValue", &["clientOnewaySemaphoreValue"],
        NO_SEMAPHORE),
    jvm_inert("com.rocketmq.remoting.client.worker.size", &["clientWorkerThreads"], NO_CLIENT),
    jvm_default("com.rocketmq.remoting.client.connect.timeout", &["connectTimeoutMillis"]),
    jvm_inert("com.rocketmq.remoting.client.channel.maxIdleTimeSeconds",
        &["clientChannelMaxIdleTimeSeconds"], NO_CLIENT),
    jvm_inert("com.rocketmq.remoting.client.closeSocketIfTimeout", &["clientCloseSocketIfTimeout"],
        NO_CLIENT),
    jvm_inert("com.rocketmq.remoting.write.buffer.high.water.mark", &["writeBufferHighWaterMark"],
        OWN_LIMITS),
    jvm_inert("com.rocketmq.remoting.write.buffer.low.water.mark", &["writeBufferLowWaterMark"],
        OWN_LIMITS),
    flag("com.rocketmq.remoting.nettyPooledByteBufAllocatorEnable", Jvm, "false",
        "there are no Netty buffers"),
    // TlsSystemConfig
    key("tls.server.mode", Jvm, form!("disabled, permissive or enforcing", tls.mode), AtRestart,
        "what happens to TLS and to plain connections"),
    key("tls.config.file", Jvm, Kind::NonEmpty(field!(tls.config_file)), AtRestart,
        "file that overrides the tls. keys, but tls.server.mode and tls.enable"),
    key("tls.test.mode.enable", Jvm, Kind::Bool(field!(tls.test_mode)), AtRestart,
        "make a certificate at start and ignore the files"),
    key("tls.server.need.client.auth", Jvm,
        form!("none, optional or require", tls.need_client_auth), AtRestart,
        "whether a client has to show a certificate"),
    key("tls.server.keyPath", Jvm, Kind::Optional(field!(tls.key_path)), AtRestart, "PEM key"),
    key("tls.server.keyPassword", Jvm, Kind::Optional(field!(tls.key_password)), AtRestart,
        "password of the key"),
    key("tls.server.certPath", Jvm, Kind::Optional(field!(tls.cert_path)), AtRestart,
        "PEM certificates"),
    key("tls.server.authClient", Jvm, Kind::Bool(field!(tls.auth_client)), AtRestart,
        "verify the certificates of clients"),
    key("tls.server.trustCertPath", Jvm, Kind::Optional(field!(tls.trust_cert_path)), AtRestart,
        "PEM authorities for that"),
    jvm_inert("tls.enable", &["useTLS"], PLAIN_CLIENT),
    text("tls.client.keyPath", Jvm, "", PLAIN_CLIENT),
    text("tls.client.keyPassword", Jvm, "", PLAIN_CLIENT),
    text("tls.client.certPath", Jvm, "", PLAIN_CLIENT),
    flag("tls.client.authServer", Jvm, "false", PLAIN_CLIENT),
    text("tls.client.trustCertPath", Jvm, "", PLAIN_CLIENT),
    // our own
    key("namesrv.cores", Own,
        form!("all, a number of CPUs (4), or CPUs (0-3,5; one alone is 5-5)", cores),
        AtRestart, "CPUs that serve connections"),
    key("namesrv.writerCore", Own, form!("auto or the number of a CPU", writer_core), AtRestart,
        "CPU of the thread that changes the tables"),
    key("namesrv.log", Own, form!("stderr or a file", log), AtRestart, "where log lines go"),
    key("namesrv.adminAddress", Own,
        form!("auto, off or host:port ([::1]:port for IPv6)", admin_address), AtRestart,
        "where the read-only HTTP pages are"),
    key("namesrv.adminAllow", Own, form!(RANGES, admin_allow), AtRestart,
        "who may send administrative codes; empty means everybody"),
    key("namesrv.trustedProxies", Own, form!(RANGES, trusted_proxies), AtRestart,
        "whose PROXY line is believed by namesrv.adminAllow"),
];

fn show_serialize(settings: &Settings) -> String {
    match settings.serialize_type {
        SerializeType::Json => "JSON",
        SerializeType::RocketMq => "ROCKETMQ",
    }
    .to_owned()
}

fn set_serialize(settings: &mut Settings, text: &str) -> Option<()> {
    settings.serialize_type = match text {
        "JSON" => SerializeType::Json,
        "ROCKETMQ" => SerializeType::RocketMq,
        _ => return None,
    };
    Some(())
}
