//! 4.9.4: what is compared with a release that registers brokers by other rules.
//!
//! Its clients and brokers know less, so requests lose what it does not read, as if a peer of its
//! own age had sent them, and answers what it does not write. What then still means something
//! else to it is not sent. Not comparable, and why:
//!
//! - enableActingMaster `true`, or at a slave: not known; a slave never brings topics
//! - `__ZONE_NAME`, `__ZONE_MODE`: not known; the route is the whole one
//! - heartbeatTimeoutMillis: not known; two minutes for all, see `sequence/expiry.rs`
//! - stateVersion, mappings: not known; two DataVersions may be equal, routes have no mapping
//! - a compressed body of version 413 or more: five words a topic, more fail
//! - 103 without name, address, cluster or wrapper: registers nulls, where we refuse
//! - 104, 322 without a field: 104 trips over a missing brokerId, 322 needs no cluster
//! - 322 without a body: refused; it is sent with one
//! - 217, 901: not answered and not known; other unknown codes are sent, and no answer expected
//! - switches but orderMessageEnable: not known, all of them came with 5.x
//! - with a DataVersion that is not the broker's, 322 keeps nobody alive
//! - the rest depends on the brokers that are there: `Oracle::suits_4_9`
//! - odd requests (`odd.rs`): invalid UTF-8 is mended, not refused, and names may be null

use crate::support::answer::{Answer, Remark};
use crate::support::request::{Body, RegisterForm, Request, VersionSpec};

/// `RemotingCommand` versions below this one end a compressed body before attributes.
const FIRST_WITH_ATTRIBUTES: i32 = 413;

/// Makes the request one that this release reads as 5.3.3 does; false if there is none.
pub(super) fn adapt(req: &mut Request) -> bool {
    match req.code {
        103 => adapt_registration(req),
        104 => has_all(
            req,
            &["clusterName", "brokerName", "brokerAddr", "brokerId"],
        ),
        105 => {
            let zoned = req.field("__ZONE_MODE").is_some_and(is_true);
            !zoned
                || req
                    .field("__ZONE_NAME")
                    .is_none_or(|zone| zone.trim().is_empty())
        }
        217 | 901 => false,
        318 => matches!(&req.body, Body::Raw(text) if text.starts_with(b"orderMessageEnable=")),
        322 => adapt_version_query(req),
        _ => true,
    }
}

/// Whether this release answers such a code at all.
pub(super) fn answers(code: i32) -> bool {
    let known = [
        100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319,
        322, 327,
    ];
    known.contains(&code)
}

/// What this release says where 5.3.3 says this.
pub(super) fn says(mut answer: Answer) -> Answer {
    if let Remark::Text(text) = &mut answer.remark {
        *text = text.replace(
            "https://rocketmq.apache.org/docs/bestPractice/06FAQ",
            "http://rocketmq.apache.org/docs/faq/",
        );
    }
    answer.body = answer.body.map(|body| {
        // within a string the quotes would be escaped
        let text = String::from_utf8_lossy(&body);
        let text = text.replace(",\"enableActingMaster\":false", "");
        text.replace("\"stateVersion\":0,", "").into_bytes()
    });
    answer
}

fn adapt_registration(req: &mut Request) -> bool {
    let unknown = ["__ZONE_NAME", "heartbeatTimeoutMillis"];
    let master = req.field("brokerId") == Some("0");
    req.ext.retain(|(key, value)| {
        let acting = key == "enableActingMaster" && (!master || is_true(value));
        !acting && !unknown.contains(&key.as_str())
    });
    if let Body::Register(spec) = &mut req.body {
        spec.mappings.clear();
        spec.data_version.iter_mut().for_each(|v| v.state = 0);
        if spec.form == RegisterForm::Zlib {
            req.version = req.version.min(FIRST_WITH_ATTRIBUTES - 1);
        }
    }
    let null = matches!(&req.body, Body::Raw(text) if text.ends_with(b":null}"));
    !null && has_all(req, &["clusterName", "brokerName", "brokerAddr"])
}

fn adapt_version_query(req: &mut Request) -> bool {
    match &mut req.body {
        Body::None => {
            req.body = Body::DataVersion(VersionSpec {
                state: 0,
                counter: 1,
                timestamp: Some(1000),
            });
        }
        Body::DataVersion(version) => version.state = 0,
        _ => {}
    }
    has_all(req, &["clusterName", "brokerAddr"])
}

fn has_all(req: &Request, keys: &[&str]) -> bool {
    keys.iter().all(|key| req.field(key).is_some())
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}
