//! The configuration: what it may hold, where it comes from, how it is changed and shown.
//!
//! ```text
//! file, tls file, -Dname=value --load--> Settings --listing--> 319
//!                                          |  ^   `--print----> -p, --check
//!                                   318 --update--> Settings and what to write into the file
//! ```
//!
//! Owns the one table of keys ([`keys`]); all of the above go through it. Invariant: every
//! `Settings` that exists has only values that the table takes. Pure: no file, no environment;
//! what Java asks the system comes in as [`Surroundings`]. Deliberately absent: resolving names,
//! reading certificates, and deciding what a change of a setting sets in motion.
//!
//! Source of the keys: `NamesrvConfig`, `NettyServerConfig`, `NettyClientConfig`,
//! `NettySystemConfig`, `TlsSystemConfig` of 5.3.3.

pub mod keys;
pub mod limits;
pub mod listing;
pub mod load;
pub mod print;
pub mod properties;
pub mod update;
pub mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::wire::frame::SerializeType;
use values::{AddressRanges, AdminAddress, ClientAuth, Cores, LogTarget, TlsMode, WriterCore};

/// What the environment says; each part can be replaced by the JVM property of that meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `user.home`: Java's default files lie below it.
    pub user_home: String,
    /// `ROCKETMQ_HOME`, or `rocketmq.home.dir`.
    pub rocketmq_home: Option<String>,
    /// `ROCKETMQ_SERIALIZE_TYPE`; judged like the key `rocketmq.serialize.type`, which wins.
    pub serialize_type: Option<String>,
    /// `NAMESRV_ADDR`; the key `rocketmq.namesrv.addr` wins.
    pub namesrv_addr: Option<String>,
    /// Number of CPUs, for Java's default of `clientCallbackExecutorThreads`.
    pub cpus: u16,
}

/// All settings in force. Names are Java's, with the unit where Java leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `rocketmqHome`: kept and shown; nothing is read from it.
    pub rocketmq_home: Option<String>,
    /// `kvConfigPath`: file of the KV tables.
    pub kv_config_path: String,
    /// `configStorePath`: file that 318 changes; the `-c` file when there is one.
    pub config_store_path: String,
    /// `productEnvName`: production environment that `clusterTest` asks for unknown topics.
    pub product_env_name: String,
    /// `clusterTest`: this server stands beside a production environment.
    pub cluster_test: bool,
    /// Where that production environment is found.
    pub production: Production,
    /// `orderMessageEnable`: routes carry `orderTopicConf`.
    pub order_message_enable: bool,
    /// `returnOrderTopicConfigToBroker`: answers to 103 carry the order topics.
    pub return_order_topic_config_to_broker: bool,
    /// `defaultThreadPoolQueueCapacity`: requests that may wait for the writer.
    pub default_thread_pool_queue_capacity: u32,
    /// `scanNotActiveBrokerInterval` in milliseconds: the tick of expiry.
    pub scan_not_active_broker_interval_ms: u32,
    /// `supportActingMaster`: a group without master shows its smallest member as one.
    pub support_acting_master: bool,
    /// `enableAllTopicList`: 206 is answered.
    pub enable_all_topic_list: bool,
    /// `enableTopicList`: 224, 311, 312 and 313 are answered.
    pub enable_topic_list: bool,
    /// `notifyMinBrokerIdChanged`: brokers are told of a new smallest member (905).
    pub notify_min_broker_id_changed: bool,
    /// `needWaitForService`: routes are refused for a while after the start.
    pub need_wait_for_service: bool,
    /// `waitSecondsForService`: that while.
    pub wait_seconds_for_service: i32,
    /// `deleteTopicWithBrokerRegistration`: topics that a registration lacks are removed.
    pub delete_topic_with_broker_registration: bool,
    /// `configBlackList`: keys, separated by `;`, that 318 refuses besides the fixed ones.
    pub config_black_list: String,

    /// `bindAddress`: host name, IPv4 or IPv6 address.
    pub bind_address: String,
    /// `listenPort`: 0 lets the system choose; the shell then puts the chosen one here.
    pub listen_port: u16,
    /// `serverChannelMaxIdleTimeSeconds`: a connection without a whole frame either way for that
    /// long is closed. Read for each new connection.
    pub server_channel_max_idle_time_seconds: u32,
    /// `serverSocketSndBufSize` in bytes: 0 leaves it to the system.
    pub server_socket_snd_buf_size: u32,
    /// `serverSocketRcvBufSize` in bytes: 0 leaves it to the system.
    pub server_socket_rcv_buf_size: u32,
    /// `enableShutdownGracefully`: a stop first tells clients to go away.
    pub enable_shutdown_gracefully: bool,
    /// `shutdownWaitTimeSeconds`: how long it does so.
    pub shutdown_wait_time_seconds: u32,

    /// `connectTimeoutMillis`: of connections to brokers, for 905.
    pub connect_timeout_millis: u32,

    /// `com.rocketmq.remoting.frameMaxLength` in bytes, length word included.
    pub frame_max_length: u32,
    /// `rocketmq.serialize.type`: how headers of answers are written.
    pub serialize_type: SerializeType,
    /// `tls.*`
    pub tls: Tls,

    /// `namesrv.cores`
    pub cores: Cores,
    /// `namesrv.writerCore`
    pub writer_core: WriterCore,
    /// `namesrv.log`
    pub log: LogTarget,
    /// `namesrv.adminAddress`
    pub admin_address: AdminAddress,
    /// `namesrv.adminAllow`: who may send 100, 102, 205, 216, 217, 318, 319 and 327; empty means
    /// everybody, as in Java.
    pub admin_allow: AddressRanges,
    /// `namesrv.trustedProxies`: whose PROXY line counts as the peer's address for that.
    pub trusted_proxies: AddressRanges,

    /// Keys without meaning here that were set, in Java's form, by name.
    pub inert: BTreeMap<&'static str, String>,
    /// Keys of the file that 319 shows besides Java's fields, untrimmed as Java keeps them:
    /// unknown ones, and those of the groups that have no field. Never a password.
    pub extra: BTreeMap<String, String>,
}

/// How a client of a production environment finds its NameServers (`NameServerAddressUtils`,
/// `MixAll.getWSAddr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Production {
    /// `rocketmq.namesrv.addr`: the addresses themselves, `ip:port;ip:port`.
    pub namesrv_addr: Option<String>,
    /// `rocketmq.namesrv.domain`: host of the HTTP service that lists them otherwise, with a port
    /// unless that is 8080.
    pub domain: String,
    /// `rocketmq.namesrv.domain.subgroup`: name of the list there, before `-` and the environment.
    pub subgroup: String,
}

/// TLS of the server side (`TlsSystemConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `tls.server.mode`
    pub mode: TlsMode,
    /// `tls.config.file`: overrides the keys below when it exists.
    pub config_file: String,
    /// `tls.test.mode.enable`: a certificate is made at start, and the files below are ignored.
    pub test_mode: bool,
    /// `tls.server.need.client.auth`
    pub need_client_auth: ClientAuth,
    /// `tls.server.keyPath`: PEM.
    pub key_path: Option<String>,
    /// `tls.server.keyPassword`
    pub key_password: Option<String>,
    /// `tls.server.certPath`: PEM chain.
    pub cert_path: Option<String>,
    /// `tls.server.authClient`: a client's certificate is verified.
    pub auth_client: bool,
    /// `tls.server.trustCertPath`: PEM authorities for that.
    pub trust_cert_path: Option<String>,
}

impl Settings {
    /// The defaults of Java 5.3.3 in these surroundings.
    ///
    /// A bad `ROCKETMQ_SERIALIZE_TYPE` leaves JSON here and is reported by [`load`].
    pub fn default_with(surroundings: &Surroundings) -> Self {
        let home = &surroundings.user_home;
        let binary = surroundings.serialize_type.as_deref() == Some("ROCKETMQ");
        Self {
            rocketmq_home: surroundings.rocketmq_home.clone(),
            kv_config_path: format!("{home}/namesrv/kvConfig.json"),
            config_store_path: format!("{home}/namesrv/namesrv.properties"),
            product_env_name: "center".to_owned(),
            cluster_test: false,
            production: Production {
                namesrv_addr: surroundings.namesrv_addr.clone(),
                domain: "jmenv.tbsite.net".to_owned(),
                subgroup: "nsaddr".to_owned(),
            },
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            default_thread_pool_queue_capacity: 10_000,
            scan_not_active_broker_interval_ms: 5_000,
            support_acting_master: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            notify_min_broker_id_changed: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            delete_topic_with_broker_registration: false,
            config_black_list: "configBlackList;configStorePath;kvConfigPath".to_owned(),
            bind_address: "0.0.0.0".to_owned(),
            listen_port: 9876,
            server_channel_max_idle_time_seconds: 120,
            server_socket_snd_buf_size: 0,
            server_socket_rcv_buf_size: 0,
            enable_shutdown_gracefully: false,
            shutdown_wait_time_seconds: 30,
            connect_timeout_millis: 3_000,
            frame_max_length: 16 * 1024 * 1024,
            serialize_type: if binary {
                SerializeType::RocketMq
            } else {
                SerializeType::Json
            },
            tls: Tls::default(),
            cores: Cores::All,
            writer_core: WriterCore::Auto,
            log: LogTarget::File(format!("{home}/logs/rocketmqlogs/namesrv.log")),
            admin_address: AdminAddress::Auto,
            admin_allow: AddressRanges::default(),
            trusted_proxies: AddressRanges::default(),
            inert: BTreeMap::from([(
                "clientCallbackExecutorThreads",
                surroundings.cpus.to_string(),
            )]),
            extra: BTreeMap::new(),
        }
    }
}

impl Default for Settings {
    /// Java's defaults for an empty home.
    fn default() -> Self {
        Self::default_with(&Surroundings::default())
    }
}

impl Default for Tls {
    /// A server without any `tls.` key, as Java: permissive, with a certificate made at start.
    fn default() -> Self {
        Self {
            mode: TlsMode::Permissive,
            config_file: "/etc/rocketmq/tls.properties".to_owned(),
            test_mode: true,
            need_client_auth: ClientAuth::None,
            key_path: None,
            key_password: None,
            cert_path: None,
            auth_client: false,
            trust_cert_path: None,
        }
    }
}
