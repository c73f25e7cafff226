//! Registrations as a 5.3.3 broker sends them, for all benches.

use crate::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// A topic with 8 queues.
pub(crate) fn topic(name: String) -> TopicSpec {
    TopicSpec {
        key: name.clone(),
        name,
        read: 8,
        write: 8,
        perm: 6,
        sys_flag: 0,
    }
}

/// The request of a master; `counter` is that of its data version.
pub(crate) fn registration(
    name: &str,
    addr: &str,
    form: RegisterForm,
    topics: Vec<TopicSpec>,
    counter: i64,
) -> Request {
    let mut request = Request::new(103);
    request.body = Body::Register(RegisterSpec {
        form,
        topics,
        data_version: Some(VersionSpec {
            state: 0,
            counter,
            timestamp: Some(1_700_000_000_000),
        }),
        mappings: Vec::new(),
        filters: FilterSpec::List(Vec::new()),
    });
    let crc = crc32fast::hash(&request.body_bytes()) & 0x7FFF_FFFF;
    let compressed = form == RegisterForm::Zlib;
    request
        .with("brokerId", "0")
        .with("bodyCrc32", &crc.to_string())
        .with("clusterName", "DefaultCluster")
        .with("brokerAddr", addr)
        .with("enableActingMaster", "false")
        .with("haServerAddr", "10.0.7.1:10912")
        .with("compressed", if compressed { "true" } else { "false" })
        .with("brokerName", name)
}
