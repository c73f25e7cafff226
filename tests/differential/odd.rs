//! Requests that no good peer sends, each judged by both servers.
//!
//! What a server makes of odd bytes is too much to be foreseen by an oracle, so here the two
//! servers are compared with each other. Each case has servers that are empty at its start: no
//! rule about their state can matter, and the few that are left are named in [`excuse`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use crate::canon::without_now;
use crate::cases::{Case, case, who};
use crate::dialect::Dialect;
use crate::dice::Dice;
use crate::excuse::{Evidence, excuse};
use crate::link::{Heard, LIMIT, Link};
use crate::servers::Servers;
use crate::support::answer::{Answer, Remark, read_answers};
use crate::support::request::Request;

/// How long an answer may come after one that was asked for later: Java reorders.
const REORDER: Duration = Duration::from_secs(1);
/// When to give up on a server that takes what it was sent for the beginning of more.
const SILENCE: Duration = Duration::from_secs(3);
const PROBE: i32 = 1_000_000_007;

/// What one request has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Answer(i32, Answer),
    Silence,
    Closed,
}

/// Runs one case at both servers. None if they agree, or if a rule says why they do not, whose
/// name is then counted.
pub(crate) fn run(
    servers: &mut Servers,
    dialect: Dialect,
    seed: u64,
    number: u64,
    rules: &mut BTreeMap<&'static str, u64>,
) -> Option<String> {
    let mut dice = Dice::new(seed, number);
    let tag = format!("~{number}");
    let mut case = case(&mut dice, &tag);
    case.notes = std::mem::take(&mut dice.notes);
    let mut seen = Vec::new();
    for (name, address) in [("Java", servers.java), ("namesrv", servers.ours)] {
        let mut link = Link::open(address);
        let mut outcomes = Vec::new();
        link.send(&probe());
        expect(name, &mut link, dialect);
        for frame in &case.frames {
            outcomes.push(ask(name, &mut link, frame, case.code, dialect));
            if outcomes.last() == Some(&Outcome::Closed) {
                break;
            }
        }
        seen.push((link, outcomes));
    }
    let tables = [
        tables("Java", servers.java, dialect, &tag),
        tables("namesrv", servers.ours, dialect, &tag),
    ];
    let difference = compare(&case, &seen[0].1, &seen[1].1, &tables);
    let refused = seen
        .iter()
        .map(|(_, outcomes)| outcomes.last().is_none_or(is_refusal));
    let one_refused = refused.reduce(|java, ours| java != ours) == Some(true);
    let clean = clean(servers, &tables, dialect, &tag);
    let difference = difference.and_then(|text| {
        let known = excuse(&Evidence {
            text: &text,
            notes: &case.notes,
            version: case.version,
            damaged: case.damaged,
            one_refused,
            java_silent: seen[0].1.last() == Some(&Outcome::Silence),
        });
        if let Some(rule) = known {
            *rules.entry(rule).or_default() += 1;
        }
        known.is_none().then_some(text)
    });
    if !clean {
        servers.restart();
        *rules.entry("(restart)").or_default() += 1;
    }
    difference.map(|text| {
        let frames: Vec<_> = case
            .frames
            .iter()
            .map(|frame| frame.escape_ascii().to_string())
            .collect();
        format!(
            "case {number} of seed {seed}, {:?}\n  {}\n  plain {}\n{text}",
            case.notes,
            frames.join("\n  "),
            case.plain.escape_ascii()
        )
    })
}

fn probe() -> Vec<u8> {
    Request {
        opaque: PROBE,
        ..Request::new(101).with("key", "probe")
    }
    .json_frame()
}

fn expect(name: &str, link: &mut Link, dialect: Dialect) -> Answer {
    match link.hear(LIMIT) {
        Heard::Frame(bytes) => read(name, &bytes, dialect).1,
        heard => panic!("{name}: {heard:?}"),
    }
}

/// Sends a frame and then a probe, whose answer ends the wait.
fn ask(name: &str, link: &mut Link, frame: &[u8], code: i32, dialect: Dialect) -> Outcome {
    link.send(frame);
    link.send(&probe());
    let (mut found, mut probed) = (Outcome::Silence, false);
    loop {
        let limit = match (&found, probed) {
            (Outcome::Silence, true) => REORDER,
            (Outcome::Silence, false) => SILENCE,
            (_, true) => return found,
            (_, false) => LIMIT,
        };
        match link.hear(limit) {
            Heard::Frame(bytes) => match read(name, &bytes, dialect) {
                (PROBE, _) => probed = true,
                (opaque, mut answer) => {
                    answer.body = answer.body.map(|body| {
                        let code = if body.starts_with(b"{\"table\"") {
                            219
                        } else {
                            code
                        };
                        dialect.canonical(code, &timeless(&body))
                    });
                    found = Outcome::Answer(opaque, answer);
                }
            },
            // an answer that was under way may have been lost with the connection
            Heard::Closed => return Outcome::Closed,
            Heard::Nothing => return found,
        }
    }
}

fn read(name: &str, bytes: &[u8], dialect: Dialect) -> (i32, Answer) {
    let translated = if name == "Java" {
        dialect.translate(bytes)
    } else {
        Ok(bytes.to_vec())
    };
    let answers = translated.and_then(|bytes| read_answers(&bytes));
    match answers.map(|mut answers| answers.pop()) {
        Ok(Some(answer)) => answer,
        other => panic!("{name}: {other:?} in {}", bytes.escape_ascii()),
    }
}

fn timeless(body: &[u8]) -> Vec<u8> {
    let wall = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64);
    without_now(body, |time| (wall - time).abs() < 3_600_000)
}

/// Everything that a server knows, by question.
fn tables(
    name: &str,
    address: std::net::SocketAddr,
    dialect: Dialect,
    tag: &str,
) -> BTreeMap<String, Answer> {
    let mut link = Link::open(address);
    let mut tables = BTreeMap::new();
    let mut ask = |what: &str, req: &Request| {
        link.send(&req.json_frame());
        let mut answer = expect(name, &mut link, dialect);
        answer.body = answer
            .body
            .map(|body| dialect.canonical(req.code, &timeless(&body)));
        tables.insert(what.to_owned(), answer.clone());
        answer
    };
    for code in [106, 206, 304, 311, 312, 313] {
        ask(&code.to_string(), &Request::new(code));
    }
    let topics = ask("206", &Request::new(206)).body.unwrap_or_default();
    let topics: serde_json::Value = serde_json::from_slice(&topics).unwrap_or_default();
    let known = topics["topicList"].as_array().into_iter().flatten();
    let names: BTreeSet<_> = known
        .filter_map(|name| name.as_str())
        .chain(["T0", "T1", "T9"])
        .collect();
    for name in names {
        for version in [317, 479] {
            let req = Request {
                version,
                ..Request::new(105).with("topic", name)
            };
            ask(&format!("105 {name} {version}"), &req);
        }
    }
    ask("322", &who(322, tag));
    ask("901", &who(901, tag));
    ask("224", &Request::new(224).with("cluster", "C"));
    tables
}

/// Empties both servers; false if Java keeps something.
fn clean(
    servers: &Servers,
    tables: &[BTreeMap<String, Answer>; 2],
    dialect: Dialect,
    tag: &str,
) -> bool {
    let mut clean = true;
    for (i, (name, address)) in [("Java", servers.java), ("namesrv", servers.ours)]
        .into_iter()
        .enumerate()
    {
        let mut link = Link::open(address);
        let info = tables[i]
            .get("106")
            .and_then(|answer| answer.body.clone())
            .unwrap_or_default();
        link.send(&who(104, tag).json_frame());
        expect(name, &mut link, dialect);
        // bare ids are no JSON, so what a 104 needs is read from the route of 901s and the pool
        let info = String::from_utf8_lossy(&info).into_owned();
        for (cluster, broker, addr) in brokers(&info) {
            let req = Request::new(104)
                .with("clusterName", &cluster)
                .with("brokerName", &broker)
                .with("brokerAddr", &addr)
                .with("brokerId", "0");
            link.send(&req.json_frame());
            expect(name, &mut link, dialect);
        }
        let mut empty = false;
        for _ in 0..200 {
            link.send(&Request::new(106).json_frame());
            empty = expect(name, &mut link, dialect).body.as_deref() == Some(EMPTY);
            if empty {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        clean &= empty;
    }
    clean
}

const EMPTY: &[u8] = b"{\"brokerAddrTable\":{},\"clusterAddrTable\":{}}";

/// Cluster, name and address of each broker in the text of a 106.
fn brokers(info: &str) -> Vec<(String, String, String)> {
    let quoted = quote_ids(info);
    let info: serde_json::Value = serde_json::from_str(&quoted).unwrap_or_default();
    let mut brokers = Vec::new();
    for (name, data) in info["brokerAddrTable"].as_object().into_iter().flatten() {
        let cluster = data["cluster"].as_str().unwrap_or_default().to_owned();
        let addrs = data["brokerAddrs"].as_object().into_iter().flatten();
        let mut addrs: Vec<_> = addrs.filter_map(|(_, addr)| addr.as_str()).collect();
        if addrs.is_empty() {
            addrs.push("-");
        }
        for addr in addrs {
            brokers.push((cluster.clone(), name.clone(), addr.to_owned()));
        }
    }
    brokers
}

fn quote_ids(info: &str) -> String {
    let mut out = String::new();
    let mut in_string = false;
    let mut chars = info.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = chars.next() {
        if !in_string && matches!(previous, '{' | ',') && (c == '-' || c.is_ascii_digit()) {
            out.push('"');
            out.push(c);
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                out.push(digit);
            }
            out.push('"');
            previous = '"';
            continue;
        }
        out.push(c);
        if in_string && c == '\\' {
            out.extend(chars.next());
        } else if c == '"' {
            in_string = !in_string;
        }
        previous = c;
    }
    out
}

fn compare(
    case: &Case,
    java: &[Outcome],
    ours: &[Outcome],
    tables: &[BTreeMap<String, Answer>; 2],
) -> Option<String> {
    let mut text = String::new();
    for (java, ours) in java.iter().zip(ours) {
        if !alike(java, ours, case.any_opaque) {
            text += &format!("  Java    {}\n  namesrv {}\n", show(java), show(ours));
        }
    }
    if java.len() != ours.len() {
        text += &format!("  Java {} outcomes, namesrv {}\n", java.len(), ours.len());
    }
    let keys: BTreeSet<_> = tables.iter().flat_map(BTreeMap::keys).collect();
    for key in keys {
        let (java, ours) = (tables[0].get(key), tables[1].get(key));
        if java != ours {
            let show = |answer: Option<&Answer>| {
                answer.map_or_else(|| "-".to_owned(), ToString::to_string)
            };
            text += &format!(
                "  {key}\n    Java    {}\n    namesrv {}\n",
                show(java),
                show(ours)
            );
        }
    }
    (!text.is_empty()).then_some(text)
}

fn is_refusal(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answer(_, answer) => answer.code == 1,
        Outcome::Closed | Outcome::Silence => true,
    }
}

/// The same, or an exception's text in Java where we give a reason.
fn alike(java: &Outcome, ours: &Outcome, any_opaque: bool) -> bool {
    match (java, ours) {
        (Outcome::Answer(first, java), Outcome::Answer(second, ours)) => {
            let exception = match &java.remark {
                Remark::Text(text) => java.code == 1 && is_exception(text),
                _ => false,
            };
            let mut wanted = java.clone();
            if exception {
                wanted.remark = Remark::Any;
            }
            (any_opaque || first == second)
                && wanted.admits(ours)
                && (!exception || ours.ext.is_none())
        }
        _ => java == ours,
    }
}

/// `com.example.SomeException: text, com.example.Class.method(File.java:1)`
fn is_exception(text: &str) -> bool {
    let class = text.split([':', ',']).next().unwrap_or_default();
    ["java.", "com.alibaba.", "org.apache."]
        .iter()
        .any(|start| class.starts_with(start))
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(opaque, answer) => format!("{opaque}: {answer}"),
        other => format!("{other:?}"),
    }
}
