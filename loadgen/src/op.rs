//! The kinds of requests, each with its own latencies.

use namesrv::wire::codes::request;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// 103 of a broker with all its topics.
    Register,
    /// 103 with the one topic that changed.
    Change,
    /// 104
    Unregister,
    /// 105 of a client.
    Route,
    /// 105 that the tool adds, to see whether what was acknowledged can be read.
    Probe,
    /// 106 of a broker.
    Cluster,
    /// 106 that the tool adds, to time arrivals and removals.
    Watch,
    /// 322 that is answered.
    Version,
    /// 322 one-way.
    Heartbeat,
}

impl Op {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Register,
        Self::Change,
        Self::Unregister,
        Self::Route,
        Self::Probe,
        Self::Cluster,
        Self::Watch,
        Self::Version,
        Self::Heartbeat,
    ];

    /// Its place in [`Op::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The request code.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Register | Self::Change => request::REGISTER_BROKER,
            Self::Unregister => request::UNREGISTER_BROKER,
            Self::Route | Self::Probe => request::GET_ROUTEINFO_BY_TOPIC,
            Self::Cluster | Self::Watch => request::GET_BROKER_CLUSTER_INFO,
            Self::Version | Self::Heartbeat => request::QUERY_DATA_VERSION,
        }
    }

    /// A name for tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Register => "103 register",
            Self::Change => "103 change",
            Self::Unregister => "104 unregister",
            Self::Route => "105 route",
            Self::Probe => "105 probe",
            Self::Cluster => "106 cluster",
            Self::Watch => "106 watch",
            Self::Version => "322 version",
            Self::Heartbeat => "322 one-way",
        }
    }

    /// Nobody answers it.
    #[must_use]
    pub const fn is_oneway(self) -> bool {
        matches!(self, Self::Heartbeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_index() {
        for (index, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op.index(), index);
            assert!(op.name().starts_with(&op.code().to_string()));
        }
    }
}
