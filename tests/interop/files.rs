//! One set of files, served by Java and by us in turn: key values and settings.
//!
//! Goal: an operator can stop a Java NameServer, start ours on the same port with the same files,
//! and go back. Method: what one program tells after its start with certain files must be what
//! the other tells after a start with them, whoever wrote them. It is always a start that is
//! compared, not what the writer said before its end: what Java writes, it reads back differently
//! (values unescaped and as UTF-8, read as escaped ISO-8859-1).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::peers::{Peers, V5_3_3};
use crate::ports::free_ports;
use crate::probe::{Answer, Probe, QUERY_NOT_FOUND, SUCCESS};
use crate::server::{Kind, Server};
use crate::step;

const JAVA: Kind = Kind::Java(V5_3_3);

/// Namespace, key, value: what JSON, properties or a careless writer could get wrong.
const ODD: [(&str, &str, &str); 11] = [
    ("odd", "quotes", "\"double\" 'single' \\back\\ /slash/"),
    ("odd", "letters", "é ü 中文 😀 \u{2028}\u{feff}"),
    (
        "odd",
        "controls",
        "\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{85}",
    ),
    ("odd", "empty", ""),
    ("odd", "", "an empty key"),
    ("odd", "json", "{\"configTable\":{\"a\":[1,null]}}"),
    ("odd", "a \"key\"\\\n中", "an odd key"),
    ("", "key", "an empty namespace"),
    ("nämespace \"x\"", "key", "an odd namespace"),
    ("ORDER_TOPIC_CONFIG", "orders", "broker-a:4;broker-b:8"),
    ("emptied", "key", "soon gone"),
];
/// Neither was ever written.
const ABSENT: (&str, &str) = ("absent", "key");

pub(crate) fn run(_: Kind, peers: &'static [Peers], directory: &Path) {
    let mut office = Office::new(peers, directory);
    step("files: of an operator", || office.of_an_operator());
    step("files: written by Java", || office.written_by_java());
    step("files: written by us", || office.written_by_us());
    step("files: and by Java again", || office.by_java_again());
}

/// The files, and who serves them now: nobody, between two calls.
struct Office<'a> {
    peers: &'a [Peers],
    home: PathBuf,
    port: u16,
}

/// All that depends on the files.
#[derive(Debug, PartialEq)]
struct State {
    /// 219 of each namespace: code, remark, table.
    tables: BTreeMap<String, (i64, Option<String>, Value)>,
    /// 101 of each key.
    values: BTreeMap<(String, String), Answer>,
    /// 319.
    config: BTreeMap<String, String>,
}

impl<'a> Office<'a> {
    fn new(peers: &'a [Peers], directory: &Path) -> Self {
        let [port] = free_ports();
        let home = directory.join("home");
        peers[0].make_home(&home);
        let office = Self { peers, home, port };
        fs::write(office.properties(), office.operators_text()).unwrap();
        office
    }

    /// Every way of writing that a properties file has.
    fn operators_text(&self) -> String {
        let Self { home, port, .. } = self;
        let home = home.display();
        [
            "# of the operator: keep".to_owned(),
            "  ! port=1".to_owned(),
            format!("listenPort={port}"),
            "bindAddress = 127.0.0.1".to_owned(),
            format!("kvConfigPath:{home}/kvConfig.json"),
            format!("rocketmqHome {home}"),
            String::new(),
            "productEnvName=caf\\u00e9 \\\\ back\\".to_owned(),
            "    slash \\: \\= \\#".to_owned(),
            "scanNotActiveBrokerInterval=7000".to_owned(),
            "an\\ odd\\ key\\:=kept  ".to_owned(),
            "latin1=caf\u{e9}".to_owned(),
            "listenBacklog".to_owned(),
            "orderMessageEnable=true".to_owned(),
        ]
        .join("\n")
    }

    /// Nobody has written the files but the operator; there are no key values yet.
    fn of_an_operator(&mut self) {
        let java = self.serve(JAVA, State::read);
        assert_eq!(
            java.config["productEnvName"],
            "caf\u{e9} \\ backslash : = #"
        );
        assert_eq!(java.config["an odd key:"], "kept  ");
        assert_eq!(java.config["scanNotActiveBrokerInterval"], "7000");
        assert_eq!(java.tables["odd"].0, QUERY_NOT_FOUND);
        same(&self.serve(Kind::Ours, State::read), &java);
    }

    fn written_by_java(&mut self) {
        self.serve(JAVA, |probe| {
            put_all(probe);
            // The last letter's bytes end with one that is a blank to some. No backslash before an
            // n: Java would read a line feed from what it wrote, and show a further setting.
            let settings = "productEnvName=\\u4e2d d\\u00e9j\\u00e0 \\\\ vu \\\\ voil\\u00e0\n\
                            scanNotActiveBrokerInterval=8000";
            succeeds(&probe.set_config(settings));
        });
        let java = self.serve(JAVA, State::read);
        assert_eq!(java.config["scanNotActiveBrokerInterval"], "8000");
        java.check_values();
        same(&self.serve(Kind::Ours, State::read), &java);
    }

    fn written_by_us(&mut self) {
        self.serve(Kind::Ours, |probe| {
            for (namespace, key, _) in ODD {
                succeeds(&probe.delete_kv(namespace, key));
            }
            put_all(probe);
            let settings = "productEnvName=\\u4e2d d\\u00e9j\\u00e0 \\\\ vu \\\\n \\: voil\\u00e0\n\
                            scanNotActiveBrokerInterval=9000";
            succeeds(&probe.set_config(settings));
        });
        let ours = self.serve(Kind::Ours, State::read);
        assert_eq!(
            ours.config["productEnvName"],
            "中 d\u{e9}j\u{e0} \\ vu \\n : voil\u{e0}"
        );
        assert_eq!(ours.config["scanNotActiveBrokerInterval"], "9000");
        ours.check_values();
        same(&self.serve(JAVA, State::read), &ours);
    }

    fn by_java_again(&mut self) {
        self.serve(JAVA, |probe| {
            succeeds(&probe.put_kv("odd", "json", "changed"));
            // Also replaces the backslash before an n: see above.
            let settings = "productEnvName=\\u4e2d\\u56fd\norderMessageEnable=false";
            succeeds(&probe.set_config(settings));
        });
        let ours = self.serve(Kind::Ours, State::read);
        assert_eq!(ours.value("odd", "json").ext["value"], "changed");
        assert_eq!(ours.config["orderMessageEnable"], "false");
        same(&self.serve(JAVA, State::read), &ours);
    }

    /// Starts a program with the files as they are, uses it, and ends it.
    fn serve<T>(&self, kind: Kind, work: impl FnOnce(&mut Probe) -> T) -> T {
        let server = Server::start_prepared(kind, self.peers, &self.home, self.port);
        let result = work(&mut server.probe());
        server.stop();
        result
    }

    fn properties(&self) -> PathBuf {
        self.home.join("namesrv.properties")
    }
}

impl State {
    fn read(probe: &mut Probe) -> Self {
        let keys = || {
            let odd = ODD.iter().map(|(namespace, key, _)| (*namespace, *key));
            odd.chain([ABSENT])
        };
        let tables = keys().map(|(namespace, _)| {
            let answer = probe.kv_list(namespace);
            let table = serde_json::from_str(&answer.body).unwrap_or_default();
            (namespace.to_owned(), (answer.code, answer.remark, table))
        });
        let tables = tables.collect();
        let values = keys().map(|(namespace, key)| {
            let at = (namespace.to_owned(), key.to_owned());
            (at, probe.kv(namespace, key))
        });
        let values = values.collect();
        let answer = probe.config();
        succeeds(&answer);
        let lines = answer.body.lines().map(|line| {
            let Some((key, value)) = line.split_once('=') else {
                panic!("{line:?} in 319");
            };
            (key.to_owned(), value.to_owned())
        });
        Self {
            tables,
            values,
            config: lines.collect(),
        }
    }

    fn value(&self, namespace: &str, key: &str) -> &Answer {
        &self.values[&(namespace.to_owned(), key.to_owned())]
    }

    /// What was put is there, to the last character, and what was deleted is not.
    fn check_values(&self) {
        for (namespace, key, value) in ODD {
            let answer = self.value(namespace, key);
            let (code, table, _) = match namespace {
                "emptied" => (QUERY_NOT_FOUND, None, ()),
                _ => (SUCCESS, Some(&value), ()),
            };
            assert_eq!(answer.code, code, "{namespace:?} {key:?}");
            assert_eq!(answer.ext.get("value").map(String::as_str), table.copied());
            let listed = self.tables[namespace].2["table"][key].as_str();
            assert_eq!(listed, table.copied(), "{namespace:?} {key:?}");
        }
        assert_eq!(self.value(ABSENT.0, ABSENT.1).code, QUERY_NOT_FOUND);
    }
}

fn put_all(probe: &mut Probe) {
    for (namespace, key, value) in ODD {
        succeeds(&probe.put_kv(namespace, key, value));
    }
    succeeds(&probe.delete_kv("emptied", "key"));
}

fn succeeds(answer: &Answer) {
    assert_eq!(answer.code, SUCCESS, "{answer:?}");
}

/// Names the difference; the whole states would be pages.
fn same(found: &State, expected: &State) {
    for (key, value) in &expected.config {
        assert_eq!(found.config.get(key), Some(value), "319: {key}");
    }
    for (key, value) in &expected.values {
        assert_eq!(&found.values[key], value, "101: {key:?}");
    }
    for (namespace, table) in &expected.tables {
        assert_eq!(&found.tables[namespace], table, "219: {namespace:?}");
    }
    assert_eq!(found, expected);
}
