//! The binary as a test environment's server, the production environment around it, and clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use namesrv::settings::limits::Limits;
use namesrv::wire::codes::remark::{ROUTE_MISS_PREFIX, ROUTE_MISS_SUFFIX};
use namesrv::wire::frame::{self, SerializeType};
use namesrv::wire::header::Header;
use namesrv::wire::reply::{Output, ReplyExt};

use crate::support::answer::{Answer, read_answers};
use crate::support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// 105 of a 5.3.3 client.
pub(crate) fn route_of(topic: &str) -> Request {
    Request::new(105).with("topic", topic)
}

/// 17 of 5.3.3.
pub(crate) fn miss(topic: &str) -> Answer {
    Answer::failure(17, &[ROUTE_MISS_PREFIX, topic, ROUTE_MISS_SUFFIX].concat())
}

/// 103 of a master with these topics.
pub(crate) fn register(broker: &str, topics: &[&str]) -> Request {
    let topic = |name: &&str| TopicSpec {
        key: (*name).to_owned(),
        name: (*name).to_owned(),
        read: 4,
        write: 4,
        perm: 6,
        sys_flag: 0,
    };
    let spec = RegisterSpec {
        form: RegisterForm::V5,
        topics: topics.iter().map(topic).collect(),
        data_version: Some(VersionSpec {
            state: 0,
            counter: 1,
            timestamp: Some(1),
        }),
        mappings: Vec::new(),
        filters: FilterSpec::Absent,
    };
    Request {
        body: Body::Register(spec),
        ..Request::new(103)
    }
    .with("clusterName", "C")
    .with("brokerName", broker)
    .with("brokerAddr", "10.0.0.1:10911")
    .with("brokerId", "0")
    .with("haServerAddr", "10.0.0.1:10912")
    .with("enableActingMaster", "false")
}

/// 100 in the namespace of order topics.
pub(crate) fn order_conf(topic: &str, conf: &str) -> Request {
    Request::new(100)
        .with("namespace", "ORDER_TOPIC_CONFIG")
        .with("key", topic)
        .with("value", conf)
}

/// Our binary; it ends with this value.
pub(crate) struct Server {
    child: Child,
    home: PathBuf,
    pub(crate) addr: SocketAddr,
}

impl Server {
    /// Any NameServer.
    pub(crate) fn start(settings: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = format!("namesrv-cluster-{}-{number}", std::process::id());
        let home = std::env::temp_dir().join(home);
        fs::create_dir_all(&home).unwrap();
        let file = home.join("namesrv.properties");
        let own = "bindAddress=127.0.0.1\nlistenPort=0\nnamesrv.cores=1\nnamesrv.log=stderr\n\
                   namesrv.adminAddress=off\n";
        fs::write(&file, format!("{own}{settings}")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_namesrv"))
            .arg("-c")
            .arg(&file)
            .env("HOME", &home)
            .env_remove("NAMESRV_ADDR")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, addr) = line.split_once("boot success. serializeType=JSON, address ")?;
            addr.parse().ok()
        });
        let addr = addr.expect("the server does not start");
        Self { child, home, addr }
    }

    /// The server of a test environment whose production environment `page` lists.
    pub(crate) fn in_front_of(page: &Page) -> Self {
        Self::start(&format!(
            "clusterTest=true\nproductEnvName=prod\nrocketmq.namesrv.domain={}\n",
            page.addr
        ))
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// A connection to any NameServer.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.stream.write_all(&request.json_frame()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> (i32, Answer) {
        let mut bytes = vec![0; 4];
        self.stream.read_exact(&mut bytes).unwrap();
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.resize(4 + length as usize, 0);
        self.stream.read_exact(&mut bytes[4..]).unwrap();
        read_answers(&bytes).unwrap().remove(0)
    }

    pub(crate) fn call(&mut self, request: &Request) -> Answer {
        self.send(request);
        let (opaque, answer) = self.receive();
        assert_eq!(opaque, request.opaque);
        answer
    }
}

/// A page that lists NameServers: every GET gets the same text.
pub(crate) struct Page {
    pub(crate) addr: SocketAddr,
    /// First lines of the requests.
    pub(crate) requests: Receiver<String>,
}

impl Page {
    pub(crate) fn with(text: &str) -> Self {
        let text = text.to_owned();
        Self::made_by(move || text.clone())
    }

    /// The same with a text that is made for each request.
    pub(crate) fn made_by(text: impl Fn() -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else {
                    continue;
                };
                lines.find(|line| !line.as_ref().is_ok_and(|line| !line.is_empty()));
                let _ = sender.send(first);
                let text = text();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                let _ = stream.write_all((head + &text).as_bytes());
            }
        });
        Self { addr, requests }
    }
}

/// What a fake NameServer does with a question.
pub(crate) enum Reaction {
    /// Code and body.
    Answer(i32, Vec<u8>),
    /// Nothing.
    Silence,
    /// These bytes instead of a frame.
    Raw(Vec<u8>),
    /// An answer, and the end of the connection.
    AnswerAndClose(i32, Vec<u8>),
}

/// A fake NameServer, which reacts to topics.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    /// Topics and versions of the questions.
    pub(crate) questions: Receiver<(String, i32)>,
    /// Connections so far.
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Fake {
    pub(crate) fn start(react: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, questions) = channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let react = Arc::new(react);
        thread::spawn(move || {
            for stream in listener.incoming() {
                counter.fetch_add(1, Ordering::Relaxed);
                let (sender, react) = (sender.clone(), Arc::clone(&react));
                thread::spawn(move || serve(stream.unwrap(), &sender, &*react));
            }
        });
        Self {
            addr,
            questions,
            connections,
        }
    }
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

fn serve(mut stream: TcpStream, sender: &Sender<(String, i32)>, react: &dyn Fn(&str) -> Reaction) {
    let limits = Limits::default().frame;
    let mut input = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(received @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..received]);
        let mut used = 0;
        while let Some(frame) = frame::cut(&input[used..], &limits).unwrap() {
            used += frame.total_bytes;
            let header = Header::parse(&frame, &limits).unwrap();
            assert_eq!(header.code, 105);
            let topic = header.ext.get("topic").unwrap();
            let _ = sender.send((topic.to_owned(), header.version));
            let (bytes, goes_on) = match react(topic) {
                Reaction::Silence => continue,
                Reaction::Raw(bytes) => (bytes, true),
                Reaction::Answer(code, body) => (answer(header.opaque, code, &body), true),
                Reaction::AnswerAndClose(code, body) => (answer(header.opaque, code, &body), false),
            };
            if stream.write_all(&bytes).is_err() || !goes_on {
                return;
            }
        }
        input.drain(..used);
    }
}

fn answer(opaque: i32, code: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Output::default();
    let json = SerializeType::Json;
    let write = |out: &mut Vec<u8>| out.extend_from_slice(body);
    let _ = out.reply(json, opaque, code, None, ReplyExt::None, write);
    out.buf
}
