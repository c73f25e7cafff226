//! Headers of both kinds: the worked examples, every row of the tables of accepted and refused
//! input, and the laws (the scan agrees with the lenient reader; what is written reads back).

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is the failure of the test"
)]

mod binary_rules;
mod examples;
mod json_rules;
mod laws;

use super::frame::cut;
use super::*;

const JSON: SerializeType = SerializeType::Json;
const BINARY: SerializeType = SerializeType::RocketMq;
const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 16_777_216,
    header_bytes: 1 << 20,
    ext_fields: 1_024,
};

fn json(header: &[u8]) -> Result<Header<'_>, HeaderError> {
    header_json::parse(header, &LIMITS)
}

fn binary(header: &[u8]) -> Result<Header<'_>, HeaderError> {
    header_binary::parse(header, &LIMITS)
}

fn pairs<'a>(header: &'a Header<'_>) -> Vec<(&'a str, &'a str)> {
    header
        .ext
        .fields
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect()
}

/// The four numbers of an accepted header: code, version, opaque, flag.
fn numbers(header: &str) -> (i32, i32, i32, i32) {
    let read = json(header.as_bytes()).unwrap_or_else(|error| panic!("{header}: {error}"));
    (read.code, read.version, read.opaque, read.flag)
}

fn opaque(value: &str) -> Result<i32, HeaderError> {
    json(format!(r#"{{"opaque":{value}}}"#).as_bytes()).map(|header| header.opaque)
}

/// The text of ext field `k`.
fn ext(value: &str) -> Option<String> {
    let header = format!(r#"{{"extFields":{{"k":{value}}}}}"#);
    json(header.as_bytes())
        .unwrap()
        .ext
        .get("k")
        .map(str::to_owned)
}

#[track_caller]
fn refuse(header: &[u8], error: HeaderError) {
    assert_eq!(
        json(header),
        Err(error),
        "{}",
        String::from_utf8_lossy(header)
    );
}
