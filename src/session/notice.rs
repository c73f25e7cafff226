//! NOTIFY_MIN_BROKER_ID_CHANGE as it goes to a broker: one-way, without a body, `brokerName`
//! never set (`RouteInfoManager.notifyMinBrokerIdChanged`).

use crate::route::command::MinBrokerIdNotice;
use crate::wire::codes::{FLAG_ONEWAY, request, version};
use crate::wire::frame::SerializeType;
use crate::wire::header::{HeaderFields, encode_request};

/// The frame of a 905, the same for all its targets, as in Java.
pub fn notice_frame(notice: &MinBrokerIdNotice, serialize: SerializeType, opaque: i32) -> Vec<u8> {
    let min_id = notice.min_broker_id.to_string();
    let mut ext = Vec::with_capacity(4);
    ext.extend(
        notice
            .ha_broker_addr
            .as_deref()
            .map(|a| ("haBrokerAddr", a)),
    );
    ext.extend(
        notice
            .offline_broker_addr
            .as_deref()
            .map(|a| ("offlineBrokerAddr", a)),
    );
    ext.push(("minBrokerAddr", &notice.min_broker_addr));
    ext.push(("minBrokerId", &min_id));
    let fields = HeaderFields {
        code: request::NOTIFY_MIN_BROKER_ID_CHANGE,
        version: version::V5_3_3,
        opaque,
        flag: FLAG_ONEWAY,
        remark: None,
        ext: Some(&ext),
    };
    let mut out = Vec::new();
    // Four names of at most 1 KiB each always fit into a frame.
    let _ = encode_request(&mut out, serialize, &fields, &[]);
    out
}
