//! `clusterTest`: the test environment's server in front of a production environment. First the
//! rules without sockets, then the binary between real and faked NameServers on loopback.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

mod cluster_test {
    mod between;
    mod failures;
    mod rules;
    pub(crate) mod world;
}
