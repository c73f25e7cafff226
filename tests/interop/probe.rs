//! A client of the raw protocol: JSON headers, one request at a time, nothing shared with the
//! server under test, so that an error in its codec cannot hide here.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) const SUCCESS: i64 = 0;
pub(crate) const QUERY_NOT_FOUND: i64 = 22;
pub(crate) const TOPIC_NOT_EXIST: i64 = 17;
const PUT_KV_CONFIG: i64 = 100;
const GET_KV_CONFIG: i64 = 101;
const DELETE_KV_CONFIG: i64 = 102;
pub(crate) const GET_ROUTE: i64 = 105;
pub(crate) const GET_CLUSTER_INFO: i64 = 106;
pub(crate) const GET_ALL_TOPICS: i64 = 206;
pub(crate) const GET_KV_LIST: i64 = 219;
const UPDATE_CONFIG: i64 = 318;
const GET_CONFIG: i64 = 319;

/// A version from which 105 answers have quoted keys (5.3.3), and one before it (client-go).
pub(crate) const STANDARD: i64 = 479;
pub(crate) const LEGACY: i64 = 317;

const LIMIT: Duration = Duration::from_secs(5);

/// One connection.
pub(crate) struct Probe {
    stream: TcpStream,
    opaque: i64,
}

/// A decoded answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i64,
    pub(crate) remark: Option<String>,
    pub(crate) ext: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Probe {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Self { stream, opaque: 0 }
    }

    /// 105 for a client of this version.
    pub(crate) fn route(&mut self, topic: &str, version: i64) -> Answer {
        self.ask(GET_ROUTE, version, &[("topic", topic)])
    }

    pub(crate) fn cluster_info(&mut self) -> Answer {
        self.ask(GET_CLUSTER_INFO, STANDARD, &[])
    }

    pub(crate) fn all_topics(&mut self) -> Answer {
        self.ask(GET_ALL_TOPICS, STANDARD, &[])
    }

    pub(crate) fn kv(&mut self, namespace: &str, key: &str) -> Answer {
        let ext = [("namespace", namespace), ("key", key)];
        self.ask(GET_KV_CONFIG, STANDARD, &ext)
    }

    pub(crate) fn put_kv(&mut self, namespace: &str, key: &str, value: &str) -> Answer {
        let ext = [("namespace", namespace), ("key", key), ("value", value)];
        self.ask(PUT_KV_CONFIG, STANDARD, &ext)
    }

    pub(crate) fn delete_kv(&mut self, namespace: &str, key: &str) -> Answer {
        let ext = [("namespace", namespace), ("key", key)];
        self.ask(DELETE_KV_CONFIG, STANDARD, &ext)
    }

    pub(crate) fn kv_list(&mut self, namespace: &str) -> Answer {
        self.ask(GET_KV_LIST, STANDARD, &[("namespace", namespace)])
    }

    pub(crate) fn config(&mut self) -> Answer {
        self.ask(GET_CONFIG, STANDARD, &[])
    }

    /// 318 with lines of a properties file.
    pub(crate) fn set_config(&mut self, properties: &str) -> Answer {
        self.ask_with_body(UPDATE_CONFIG, STANDARD, &[], properties)
    }

    /// Any request without a body.
    pub(crate) fn ask(&mut self, code: i64, version: i64, ext: &[(&str, &str)]) -> Answer {
        self.ask_with_body(code, version, ext, "")
    }

    fn ask_with_body(
        &mut self,
        code: i64,
        version: i64,
        ext: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.opaque += 1;
        let ext: BTreeMap<&str, &str> = ext.iter().copied().collect();
        let header = json!({
            "code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": self.opaque,
            "serializeTypeCurrentRPC": "JSON", "version": version,
        });
        let header = header.to_string();
        let header_len = u32::try_from(header.len()).unwrap();
        // The serialize type of JSON is 0, so the second word is the header's length alone.
        let body_len = u32::try_from(body.len()).unwrap();
        let mut frame = (4 + header_len + body_len).to_be_bytes().to_vec();
        frame.extend(header_len.to_be_bytes());
        frame.extend(header.as_bytes());
        frame.extend(body.as_bytes());
        self.stream.write_all(&frame).unwrap();
        self.read_answer()
    }

    fn read_answer(&mut self) -> Answer {
        let length = self.read_word();
        let kind_and_header_len = self.read_word();
        assert_eq!(
            kind_and_header_len >> 24,
            0,
            "the answer to a JSON header has one too"
        );
        let header = self.read_text(kind_and_header_len);
        let body = self.read_text(length - 4 - kind_and_header_len);
        let header: Value = serde_json::from_str(&header).unwrap();
        assert_eq!(header["opaque"], self.opaque);
        assert_eq!(header["flag"], 1);
        assert_eq!(header["language"], "JAVA");
        assert_eq!(header["serializeTypeCurrentRPC"], "JSON");
        let ext = header["extFields"].as_object().map(|fields| {
            fields
                .iter()
                .map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()))
                .collect()
        });
        Answer {
            code: header["code"].as_i64().unwrap(),
            remark: header["remark"].as_str().map(str::to_owned),
            ext: ext.unwrap_or_default(),
            body,
        }
    }

    fn read_word(&mut self) -> u32 {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word).unwrap();
        u32::from_be_bytes(word)
    }

    fn read_text(&mut self, len: u32) -> String {
        let mut bytes = vec![0; len as usize];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
