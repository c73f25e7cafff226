//! A right NameServer with one deliberate fault: the library's sessions on plain threads, and a
//! hand on what goes in or out.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loadgen::node::Node;
use namesrv::wire::frame::{Frame, FrameLimits, cut};
use namesrv::wire::header::Header;
use serde_json::Value;

const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 1 << 24,
    header_bytes: 1 << 20,
    ext_fields: 100,
};
/// Answers of a connection that are right before the fault begins: those of the setup.
const RIGHT_AT_FIRST: usize = 3;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Routes show an address that nobody has registered.
    WrongRoute,
    /// Routes lack their last broker.
    LostBroker,
    /// 106 lacks a broker.
    LostInCluster,
    /// A closed connection changes nothing.
    Ghost,
    /// Each route stays as it was when it was first read.
    Stale,
    /// Each answer comes so late.
    Late(Duration),
    /// An answer ends in its middle, and the connection with it.
    CutFrame,
    /// All routes get the answer that the first one got.
    Constant,
    /// Answers have other numbers than their requests.
    OtherOpaque,
    /// Registrations are refused as in an overload.
    Overload,
    /// Every connection is closed after a while.
    Close,
}

struct Server {
    fault: Fault,
    began: Instant,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    node: Node,
    /// Bodies of routes by topic, as they were first given.
    first: HashMap<String, Vec<u8>>,
}

/// Starts a server; it lives as long as the test's process.
pub(crate) fn serve(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let server = Arc::new(Server {
        fault,
        began: Instant::now(),
        inside: Mutex::default(),
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let server = Arc::clone(&server);
            thread::spawn(move || server.talk(stream.unwrap()));
        }
    });
    addr
}

impl Server {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    /// Serves one connection; a tool that has gone away ends it.
    fn talk(&self, mut stream: TcpStream) {
        let peer = self.inside.lock().unwrap().node.connect();
        let mut topics = HashMap::new();
        let mut requests = Vec::new();
        let mut piece = vec![0; 64 << 10];
        let mut answered = 0;
        while let Ok(got @ 1..) = stream.read(&mut piece) {
            requests.extend_from_slice(&piece[..got]);
            let mut answers = Vec::new();
            let mut inside = self.inside.lock().unwrap();
            while let Some(frame) = cut(&requests, &LIMITS).unwrap() {
                let total = frame.total_bytes;
                let code = note_topic(&frame, &mut topics);
                let whole: Vec<u8> = requests.drain(..total).collect();
                let mut one = Vec::new();
                inside.node.receive(peer, &whole, self.now_ms(), &mut one);
                if !one.is_empty() {
                    answered += 1;
                    if answered > RIGHT_AT_FIRST {
                        one = self.spoil(&mut inside, code, &one, &topics);
                    }
                }
                answers.extend_from_slice(&one);
            }
            drop(inside);
            if !self.send(&mut stream, &answers, answered) {
                break;
            }
        }
        if self.fault != Fault::Ghost {
            self.inside
                .lock()
                .unwrap()
                .node
                .disconnect(peer, self.now_ms());
        }
    }

    /// False when the connection ends.
    fn send(&self, stream: &mut TcpStream, answers: &[u8], answered: usize) -> bool {
        let armed = answered > RIGHT_AT_FIRST && !answers.is_empty();
        match self.fault {
            Fault::Late(delay) if armed => thread::sleep(delay),
            Fault::Close if armed => {
                let _ = stream.shutdown(Shutdown::Both);
                return false;
            }
            Fault::CutFrame if armed => {
                let _ = stream.write_all(&answers[..answers.len() / 2 + 5]);
                let _ = stream.shutdown(Shutdown::Both);
                return false;
            }
            _ => {}
        }
        stream.write_all(answers).is_ok()
    }

    fn spoil(
        &self,
        inside: &mut Inside,
        code: i32,
        answer: &[u8],
        topics: &HashMap<i32, String>,
    ) -> Vec<u8> {
        let frame = cut(answer, &LIMITS).unwrap().unwrap();
        let header = Header::parse(&frame, &LIMITS).unwrap();
        let (opaque, is_route) = (header.opaque, code == 105 && header.code == 0);
        let mut text = String::from_utf8(frame.header.to_vec()).unwrap();
        let mut body = frame.body.to_vec();
        match self.fault {
            Fault::WrongRoute if is_route => {
                body = replace(&body, "10.0.0.", "10.9.0.");
            }
            Fault::LostBroker if is_route => body = without_last_broker(&body),
            Fault::LostInCluster if code == 106 => body = without_a_group(&body),
            Fault::Stale if is_route => {
                let first = inside.first.entry(topics[&opaque].clone()).or_insert(body);
                body = first.clone();
            }
            Fault::Constant if is_route => {
                let first = inside.first.entry(String::new()).or_insert(body);
                body = first.clone();
            }
            Fault::OtherOpaque => {
                let (old, new) = (format!("\"opaque\":{opaque}"), "\"opaque\":77777");
                text = text.replace(&old, new);
            }
            Fault::Overload if code == 103 => {
                text = text.replace("\"code\":0", "\"code\":2");
                body.clear();
            }
            _ => {}
        }
        let mut out = Vec::new();
        let length = u32::try_from(4 + text.len() + body.len()).unwrap();
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&body);
        out
    }
}

/// Remembers the topic that a request asks for. Returns the request's code.
fn note_topic(frame: &Frame<'_>, topics: &mut HashMap<i32, String>) -> i32 {
    let header = Header::parse(frame, &LIMITS).unwrap();
    if let Some(topic) = header.ext.get("topic") {
        topics.insert(header.opaque, topic.to_owned());
    }
    header.code
}

fn replace(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    std::str::from_utf8(body)
        .unwrap()
        .replacen(from, to, 1)
        .into_bytes()
}

fn without_last_broker(body: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(body).unwrap();
    for key in ["brokerDatas", "queueDatas"] {
        value[key].as_array_mut().unwrap().pop();
    }
    serde_json::to_vec(&value).unwrap()
}

/// 106 without the group 3, in both tables. Its keys are bare, so this is done on the text.
fn without_a_group(body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let Some(start) = text.find("\"broker-00003\":{") else {
        return body.to_vec();
    };
    let last = "\"enableActingMaster\":false},";
    let end = start + text[start..].find(last).unwrap() + last.len();
    let text = format!("{}{}", &text[..start], &text[end..]);
    text.replace("\"broker-00003\",", "").into_bytes()
}
