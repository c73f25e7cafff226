//! The requests of these tests, short.

use crate::support::answer::Answer;
use crate::support::request::{
    Body, FilterSpec, RegisterForm, RegisterSpec, Request, TopicSpec, VersionSpec,
};

pub(crate) const REGISTER: i32 = 103;
pub(crate) const UNREGISTER: i32 = 104;
pub(crate) const ROUTE: i32 = 105;
pub(crate) const CLUSTER_INFO: i32 = 106;
pub(crate) const HEARTBEAT: i32 = 904;

/// A broker of the tests: the only member of its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broker<'a> {
    pub(crate) name: &'a str,
    pub(crate) addr: &'a str,
}

impl Broker<'_> {
    fn request(&self, code: i32) -> Request {
        Request::new(code)
            .with("brokerName", self.name)
            .with("brokerAddr", self.addr)
            .with("clusterName", "c")
            .with("brokerId", "0")
    }

    /// Registers these topics in an order of the broker's own: `counter` goes up with each change.
    pub(crate) fn register(&self, counter: i64, topics: &[&str]) -> Request {
        let topics = topics.iter().map(|name| topic(name)).collect();
        self.register_body(Body::Register(RegisterSpec {
            form: RegisterForm::V5,
            topics,
            data_version: Some(VersionSpec {
                state: 0,
                counter,
                timestamp: Some(1_700_000_000_000),
            }),
            mappings: Vec::new(),
            filters: FilterSpec::Absent,
        }))
    }

    /// Registers with this body, whatever it is.
    pub(crate) fn register_body(&self, body: Body) -> Request {
        let mut request = self
            .request(REGISTER)
            .with("haServerAddr", "10.9.9.9:10912");
        request.body = body;
        request
    }

    pub(crate) fn unregister(&self) -> Request {
        self.request(UNREGISTER)
    }

    pub(crate) fn heartbeat(&self) -> Request {
        self.request(HEARTBEAT)
    }
}

/// Eight queues for reading and writing.
fn topic(name: &str) -> TopicSpec {
    TopicSpec {
        key: name.to_owned(),
        name: name.to_owned(),
        read: 8,
        write: 8,
        perm: 6,
        sys_flag: 0,
    }
}

pub(crate) fn route(topic: &str) -> Request {
    Request::new(ROUTE).with("topic", topic)
}

pub(crate) fn oneway(mut request: Request) -> Request {
    request.oneway = true;
    request
}

pub(crate) fn put_kv(namespace: &str, key: &str, value: &str) -> Request {
    Request::new(100)
        .with("namespace", namespace)
        .with("key", key)
        .with("value", value)
}

pub(crate) fn get_kv(namespace: &str, key: &str) -> Request {
    Request::new(101)
        .with("namespace", namespace)
        .with("key", key)
}

pub(crate) fn delete_kv(namespace: &str, key: &str) -> Request {
    Request::new(102)
        .with("namespace", namespace)
        .with("key", key)
}

pub(crate) fn update_settings(text: &str) -> Request {
    let mut request = Request::new(318);
    request.body = Body::Raw(text.as_bytes().to_vec());
    request
}

/// What a master gets for a registration that is accepted.
pub(crate) fn accepted() -> Answer {
    Answer::success().ext(&[])
}

/// What a 105 for a topic of nobody gets.
pub(crate) fn no_route(topic: &str) -> Answer {
    Answer::failure(
        17,
        &format!(
            "No topic route info in name server for the topic: {topic}\nSee \
             https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
        ),
    )
}

/// What a 105 gets for a topic of this one broker.
pub(crate) fn route_of(broker: Broker<'_>) -> Answer {
    let (name, addr) = (broker.name, broker.addr);
    Answer::success().body(format!(
        "{{\"brokerDatas\":[{{\"brokerAddrs\":{{\"0\":\"{addr}\"}},\"brokerName\":\"{name}\",\
         \"cluster\":\"c\",\"enableActingMaster\":false}}],\"filterServerTable\":{{}},\
         \"queueDatas\":[{{\"brokerName\":\"{name}\",\"perm\":6,\"readQueueNums\":8,\
         \"topicSysFlag\":0,\"writeQueueNums\":8}}]}}"
    ))
}

/// What a 101 gets for a value that is there.
pub(crate) fn value(text: &str) -> Answer {
    Answer::success().ext(&[("value", text)])
}

/// What everybody gets when a queue is full.
pub(crate) fn busy() -> Answer {
    Answer::failure(2, "[OVERLOAD]system busy, start flow control for a while")
}
