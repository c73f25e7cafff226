//! A Java producer and consumer of one release and form of header, with topics of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::peers::Peers;
use crate::process::{say, wait_for};
use crate::shell::Shell;

const LIMIT: Duration = Duration::from_secs(90);
const CONSUME_LIMIT_MS: u32 = 60_000;

/// How the client writes its headers, which the server's answers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    Json,
    Binary,
}

/// Knows what it sent: a consumer group that starts at the first offset must receive all of it.
pub(crate) struct Client {
    /// For messages that are all consumed again.
    pub(crate) topic: String,
    /// Created by nobody before the first send to it.
    pub(crate) own_topic: String,
    shell: Shell,
    server: SocketAddr,
    sent: BTreeSet<String>,
    /// Each run has a prefix and groups of its own.
    runs: u32,
}

/// A queue of a broker, as the producer chose it.
pub(crate) type Queue = (String, u64);

impl Client {
    /// Starts its JVM below `directory`.
    pub(crate) fn start(
        peers: &Peers,
        headers: Headers,
        directory: &Path,
        server: SocketAddr,
    ) -> Self {
        let (form, flags): (&str, &[&str]) = match headers {
            Headers::Json => ("json", &[]),
            Headers::Binary => ("binary", &["-Drocketmq.serialize.type=ROCKETMQ"]),
        };
        let name = format!("{form}-{}", peers.release.number.replace('.', "-"));
        Self {
            topic: format!("orders-{name}"),
            own_topic: format!("own-{name}"),
            shell: Shell::start(peers, &name, &directory.join(&name), flags),
            server,
            sent: BTreeSet::new(),
            runs: 0,
        }
    }

    /// Sends `count` messages, each stored, and tells the queues that they went to.
    pub(crate) fn send(&mut self, count: u32) -> BTreeSet<Queue> {
        let topic = self.topic.clone();
        let stored = self.send_to(&topic, count);
        let queues = stored.iter().map(|(queue, _)| queue.clone()).collect();
        for (_, body) in stored {
            assert!(self.sent.insert(body.clone()), "sent twice: {body}");
        }
        queues
    }

    /// The first messages of a topic that does not exist yet; tells the brokers that took them.
    pub(crate) fn send_first(&mut self, count: u32) -> BTreeSet<String> {
        let topic = self.own_topic.clone();
        self.send_to(&topic, count)
            .into_iter()
            .map(|((broker, _), _)| broker)
            .collect()
    }

    fn send_to(&mut self, topic: &str, count: u32) -> Vec<(Queue, String)> {
        let (run, server) = (self.runs, self.server);
        self.runs += 1;
        let command = format!("send {server} {topic} {topic}-p{run} {count} {topic}-{run}-");
        let stored = self.shell.ask(&command, LIMIT);
        assert_eq!(stored.len(), count as usize);
        stored.iter().map(|line| parse_stored(line)).collect()
    }

    /// A new group receives what was ever sent, and nothing else.
    pub(crate) fn consume_everything(&mut self) {
        let Self {
            topic,
            server,
            sent,
            runs,
            ..
        } = self;
        let count = sent.len();
        let command =
            format!("consume {server} {topic} {topic}-c{runs} {count} {CONSUME_LIMIT_MS}");
        *runs += 1;
        let bodies = self.shell.ask(&command, LIMIT);
        let received: BTreeSet<String> = bodies.iter().cloned().collect();
        let missing: Vec<&String> = sent.difference(&received).collect();
        let foreign: Vec<&String> = received.difference(sent).collect();
        assert!(
            missing.is_empty() && foreign.is_empty(),
            "missing {missing:?} foreign {foreign:?}"
        );
        // A client may deliver twice what it has not confirmed; worth a look, not a failure.
        if bodies.len() > received.len() {
            say(&format!(
                "      {} deliveries twice",
                bodies.len() - received.len()
            ));
        }
    }

    /// Starts a producer that sends until [`Client::stop_stream`].
    pub(crate) fn start_stream(&mut self) {
        let Self { topic, server, .. } = self;
        let (run, server) = (self.runs, *server);
        let command = format!("stream {server} {topic} {topic}-p{run} {topic}-{run}-");
        self.shell.ask(&command, LIMIT);
    }

    /// Waits until the stream has gone on by so many sends.
    pub(crate) fn wait_for_stream(&mut self, sends: u32) {
        let wanted = self.progress() + sends;
        let what = format!("{} got {sends} more sends", self.topic);
        wait_for(&what, LIMIT, || (self.progress() >= wanted).then_some(()));
    }

    /// Not one send of the stream may have failed.
    pub(crate) fn stop_stream(&mut self) {
        let report = self.shell.ask("stop", LIMIT);
        let sent = sent_of(&report[0]);
        assert_eq!(report.len(), 1, "failed sends: {report:?}");
        say(&format!(
            "      {sent} sends to {}, none failed",
            self.topic
        ));
        let bodies = (0..sent).map(|number| format!("{}-{}-{number}", self.topic, self.runs));
        self.sent.extend(bodies);
        self.runs += 1;
    }

    fn progress(&mut self) -> u32 {
        sent_of(&self.shell.ask("progress", LIMIT)[0])
    }
}

/// Of "BROKER QUEUE BODY".
fn parse_stored(line: &str) -> (Queue, String) {
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words.len(), 3, "{line}");
    (
        (words[0].to_owned(), words[1].parse().unwrap()),
        words[2].to_owned(),
    )
}

/// Of "SENT FAILED", the first.
fn sent_of(line: &str) -> u32 {
    line.split(' ').next().unwrap().parse().unwrap()
}
