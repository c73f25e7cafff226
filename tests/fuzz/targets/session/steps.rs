//! Steps from bytes: every input is a list of steps, and nearly every list has an input.

use flate2::Compression;

use super::super::inflate::deflate;
use crate::support::request::{Body, Request};
use crate::support::workload::masked_crc;

/// Steps of one input.
const STEPS: usize = 64;

/// Codes of requests, and one that is none.
const CODES: [i32; 24] = [
    103, 105, 103, 104, 106, 100, 101, 102, 103, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313,
    318, 322, 327, 901, 904,
];

const VERSIONS: [i32; 8] = [479, 413, 412, 401, 317, 36, 0, -1];

/// Ext fields that some request reads.
const KEYS: [&str; 16] = [
    "brokerName",
    "brokerAddr",
    "clusterName",
    "brokerId",
    "topic",
    "haServerAddr",
    "compressed",
    "enableActingMaster",
    "heartbeatTimeoutMillis",
    "__ZONE_NAME",
    "__ZONE_MODE",
    "acceptStandardJsonOnly",
    "namespace",
    "key",
    "value",
    "cluster",
];

/// Values that are worth meeting again.
const VALUES: [&str; 16] = [
    "b0",
    "a:1",
    "C0",
    "0",
    "1",
    "T0",
    "T1",
    "true",
    "false",
    "2000",
    "",
    "ORDER_TOPIC_CONFIG",
    "b1",
    "a:2",
    "-1",
    "east",
];

/// Something that happens at one connection.
pub(super) struct Step {
    pub(super) conn: u8,
    pub(super) what: What,
}

pub(super) enum What {
    Bytes(Vec<u8>),
    /// The peer ends the connection, and another one takes its place.
    Close,
    /// The clock moves on by so many ms, then comes a tick.
    Wait(u32),
}

pub(super) fn steps(data: &[u8]) -> Vec<Step> {
    let mut bytes = Bytes(data);
    let mut steps: Vec<Step> = Vec::new();
    while !bytes.0.is_empty() && steps.len() < STEPS {
        let how = bytes.byte();
        let what = match how & 15 {
            0..=2 => What::Bytes(bytes.block().to_vec()),
            3 => What::Close,
            4 => What::Wait(u32::from(bytes.byte()) * 600),
            // what this connection or another one sent a while ago, once more
            5 | 6 => {
                let back = usize::from(bytes.byte()) % 8;
                let mut sent = steps.iter().rev().filter_map(|step| match &step.what {
                    What::Bytes(bytes) => Some(bytes.clone()),
                    _ => None,
                });
                What::Bytes(sent.nth(back).unwrap_or_default())
            }
            _ => What::Bytes(bytes.request(how & 8 != 0, steps.len() as i32)),
        };
        let conn = how >> 4;
        steps.push(Step { conn, what });
    }
    steps
}

/// What is left of the input; behind its end there are zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Bytes behind their number.
    fn block(&mut self) -> &'a [u8] {
        let count = usize::from(u16::from_be_bytes([self.byte(), self.byte()]));
        let (block, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        block
    }

    fn request(&mut self, json: bool, opaque: i32) -> Vec<u8> {
        let code = self.byte();
        let how = self.byte();
        let body = self.byte();
        let mut req = Request {
            version: VERSIONS[usize::from(how & 7)],
            oneway: how & 0xe0 == 0xe0,
            opaque,
            ..Request::new(
                CODES
                    .get(usize::from(code))
                    .copied()
                    .unwrap_or_else(|| i32::from(code)),
            )
        };
        for _ in 0..self.byte() % 16 {
            let (key, value) = self.field();
            if json || !value.is_empty() {
                req.ext.push((key, value));
            }
        }
        req.body = match body & 3 {
            0 => Body::None,
            1 | 2 => Body::Raw(self.block().to_vec()),
            _ => Body::Raw(deflate(self.block(), Compression::fast())),
        };
        if body & 4 != 0 {
            let crc = masked_crc(&req.body_bytes());
            req = req.with("bodyCrc32", &crc);
        }
        if json {
            req.json_frame()
        } else {
            req.binary_frame()
        }
    }

    fn field(&mut self) -> (String, String) {
        let how = self.byte();
        let key = KEYS[usize::from(how & 15)].to_owned();
        let value = if how & 16 == 0 {
            let value = self.byte();
            VALUES[usize::from(value & 15)].to_owned()
        } else {
            String::from_utf8_lossy(self.block()).into_owned()
        };
        (key, value)
    }
}
