//! One question to the server before thousands of connections ask it more.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use namesrv::wire::codes::request::GET_BROKER_CLUSTER_INFO;
use namesrv::wire::codes::version;
use namesrv::wire::frame::{FrameLimits, SerializeType, cut};
use namesrv::wire::header::{Header, HeaderFields, encode_request};

use crate::json::{BadJson, Scan};

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(5);
const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 64 << 20,
    header_bytes: 1 << 20,
    ext_fields: 100,
};

/// What the server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// `version` of its answers.
    pub version: i32,
    /// Brokers that it knows already.
    pub brokers: usize,
}

/// Asks 106.
///
/// # Errors
/// Nobody is there, or it is no NameServer.
pub fn ask(addr: SocketAddr) -> Result<ServerFacts, String> {
    let failed = |error: std::io::Error| format!("{addr}: {error}");
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let fields = HeaderFields {
        code: GET_BROKER_CLUSTER_INFO,
        version: version::V5_3_3,
        opaque: 1,
        ..HeaderFields::default()
    };
    let mut request = Vec::new();
    encode_request(&mut request, SerializeType::Json, &fields, &[]).map_err(|e| e.to_string())?;
    stream.write_all(&request).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let got = stream.read(&mut piece).map_err(failed)?;
        if got == 0 {
            return Err(format!("{addr} closed the connection without an answer"));
        }
        bytes.extend_from_slice(&piece[..got]);
        let no_answer = |error: String| format!("{addr} is no NameServer: {error}");
        let cut = cut(&bytes, &LIMITS).map_err(|error| no_answer(error.to_string()))?;
        if let Some(frame) = cut {
            let header = Header::parse(&frame, &LIMITS);
            let header = header.map_err(|error| no_answer(error.to_string()))?;
            let brokers = count(frame.body).map_err(|error| no_answer(error.to_string()))?;
            return Ok(ServerFacts {
                version: header.version,
                brokers,
            });
        }
    }
}

fn count(body: &[u8]) -> Result<usize, BadJson> {
    let mut brokers = 0;
    Scan::new(body).object(|scan, key| match key {
        "brokerAddrTable" => scan.object(|scan, _| {
            brokers += 1;
            scan.skip()
        }),
        _ => scan.skip(),
    })?;
    Ok(brokers)
}
