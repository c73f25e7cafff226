//! 318 with odd properties texts, and the whole of 319 after each.
//!
//! Both servers get the same text; after a difference that is meant they are brought back to
//! the same values, so that it excuses nothing else.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::dialect::Dialect;
use crate::dice::Dice;
use crate::link::{Heard, LIMIT, Link};
use crate::servers::Servers;
use crate::support::answer::{Answer, Remark, read_answers};
use crate::support::request::{Body, Request};

/// Each server's own, whatever is asked.
const OWN: [&str; 5] = [
    "listenPort",
    "kvConfigPath",
    "configStorePath",
    "rocketmqHome",
    "bindAddress",
];
/// Keys with the value of a new server; nothing here changes how a connection is treated.
const KEYS: [(&str, &str); 18] = [
    ("orderMessageEnable", "false"),
    ("returnOrderTopicConfigToBroker", "true"),
    ("supportActingMaster", "false"),
    ("enableAllTopicList", "true"),
    ("enableTopicList", "true"),
    ("deleteTopicWithBrokerRegistration", "false"),
    ("needWaitForService", "false"),
    ("waitSecondsForService", "45"),
    ("productEnvName", "center"),
    ("clusterTest", "false"),
    ("unRegisterBrokerQueueCapacity", "3000"),
    ("clientRequestThreadPoolNums", "8"),
    ("defaultThreadPoolQueueCapacity", "10000"),
    ("serverWorkerThreads", "8"),
    ("serverSocketBacklog", "1024"),
    ("shutdownWaitTimeSeconds", "30"),
    ("useEpollNativeSelector", "false"),
    ("serverAsyncSemaphoreValue", "64"),
];
const OTHER_KEYS: [&str; 10] = [
    "kvConfigPath",
    "configStorePath",
    "rocketmqHome",
    "configBlackList",
    "KVCONFIGPATH",
    "unknown",
    "ordermessageenable",
    "",
    "orderMessage\\u0045nable",
    "é",
];
const VALUES: [&str; 30] = [
    "true",
    "TRUE",
    "True ",
    "false",
    "yes",
    "1",
    "0",
    "",
    " ",
    "5",
    " 5",
    "5 ",
    "+5",
    "-1",
    "007",
    "0x5",
    "5.0",
    "2147483647",
    "2147483648",
    "center",
    "a=b",
    "a:b",
    "\\u00e9",
    "é",
    "a\\tb",
    "a\\\\b",
    "\\u12",
    "a\\\n  b",
    "a\\nb",
    "#x",
];

/// Runs one case. None if both servers agree, or if a rule says why they do not.
pub(crate) fn run(
    servers: &Servers,
    dialect: Dialect,
    seed: u64,
    number: u64,
    rules: &mut BTreeMap<&'static str, u64>,
) -> Option<String> {
    let mut dice = Dice::new(seed, number);
    let text = text(&mut dice);
    let mut sides = [("Java", servers.java), ("namesrv", servers.ours)]
        .map(|(name, address)| Side::open(name, address, dialect));
    let before = sides.each_mut().map(Side::settings);
    let answers = sides.each_mut().map(|side| side.update(&text));
    let after = sides.each_mut().map(Side::settings);
    let [java, ours] = &answers;
    let equal = java == ours && after[0] == after[1];
    let known = (!equal).then(|| excuse(&text, &answers, &before, &after));
    if !equal {
        // back to where both agree
        let reset: String = KEYS
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        for side in &mut sides {
            side.update(reset.as_bytes());
        }
    }
    match known {
        None => None,
        Some(Some(rule)) => {
            *rules.entry(rule).or_default() += 1;
            None
        }
        Some(None) => Some(format!(
            "318 case {number} of seed {seed}\n  {}\n  Java    {java}\n  namesrv {ours}\n{}",
            text.escape_ascii(),
            lines(&after)
        )),
    }
}

/// The differences that are meant.
fn excuse(
    text: &[u8],
    answers: &[Answer; 2],
    before: &[Vec<String>; 2],
    after: &[Vec<String>; 2],
) -> Option<&'static str> {
    let [java, ours] = answers;
    let unchanged = before[1] == after[1];
    let reason = matches!(&ours.remark, Remark::Text(text) if !text.is_empty());
    if java.code == 0 && ours.code == 1 && reason && unchanged {
        return Some("318: a value that is no good refuses the whole request");
    }
    // a line feed in a value, which becomes a line of its own in Java's file
    let injected = text.windows(2).any(|pair| pair == b"\\n");
    if injected && unchanged && ours.code == 1 {
        return Some("318: no value adds a line");
    }
    let text = String::from_utf8_lossy(text).to_lowercase();
    let trimmed = |line: &String| {
        let value = line.split('=').nth(1).unwrap_or_default();
        after[0].contains(line) || text.contains(&format!("{value} "))
    };
    let both = java.code == 0 && ours.code == 0;
    let all = both && after[1].iter().all(trimmed);
    all.then_some("318: a value is trimmed before it is judged")
}

fn text(dice: &mut Dice) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..=dice.below(3) {
        let key = if dice.one_in(4) {
            dice.pick(&OTHER_KEYS)
        } else {
            KEYS[dice.below(KEYS.len())].0
        };
        let separator = dice.pick(&["=", "=", "=", ":", " ", " = ", "\t", "=="]);
        let end = dice.pick(&[
            "\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n#c\n", "\n!c\n", "\\\n",
        ]);
        let start = if dice.one_in(8) {
            dice.pick(&[" ", "\t", "#", "!", "\\"])
        } else {
            ""
        };
        let value = dice.pick(&VALUES);
        text.extend(format!("{start}{key}{separator}{value}{end}").bytes());
    }
    if dice.one_in(12) {
        let at = dice.below(text.len());
        text[at] = dice.below(256) as u8;
    }
    text
}

struct Side {
    name: &'static str,
    link: Link,
    dialect: Dialect,
}

impl Side {
    fn open(name: &'static str, address: SocketAddr, dialect: Dialect) -> Self {
        Self {
            name,
            link: Link::open(address),
            dialect,
        }
    }

    fn update(&mut self, text: &[u8]) -> Answer {
        let body = Body::Raw(text.to_vec());
        self.ask(&Request {
            body,
            ..Request::new(318)
        })
    }

    /// The lines of 319 without what is each server's own.
    fn settings(&mut self) -> Vec<String> {
        let answer = self.ask(&Request::new(319));
        let body = answer.body.unwrap_or_default();
        let text = String::from_utf8(body).unwrap();
        let own = |line: &str| {
            let key = line.split('=').next().unwrap_or_default();
            OWN.contains(&key)
        };
        text.lines()
            .filter(|line| !own(line))
            .map(str::to_owned)
            .collect()
    }

    fn ask(&mut self, req: &Request) -> Answer {
        self.link.send(&req.json_frame());
        let Heard::Frame(bytes) = self.link.hear(LIMIT) else {
            panic!("{} does not answer {req:?}", self.name);
        };
        let bytes = if self.name == "Java" {
            self.dialect.translate(&bytes).unwrap()
        } else {
            bytes
        };
        let mut answers = read_answers(&bytes).unwrap();
        answers.pop().unwrap().1
    }
}

fn lines([java, ours]: &[Vec<String>; 2]) -> String {
    let only = |name: &str, own: &[String], other: &[String]| -> String {
        let own = own.iter().filter(|line| !other.contains(line));
        own.map(|line| format!("  only {name}: {line}\n")).collect()
    };
    only("Java", java, ours) + &only("namesrv", ours, java)
}
