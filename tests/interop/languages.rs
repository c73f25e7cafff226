//! Clients that share no code with Java's: Go, Node, and C++ wrapped by Python.
//!
//! Goal: each finds the brokers through our server and gets back what it sent. Method: one small
//! program for each, all at once against one broker; what they print is compared with what they
//! were to send. Libraries come from the languages' own registries, by name and version, and are
//! kept below the target directory; a language whose tools are missing is skipped with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::broker::Broker;
use crate::java::{make_once, run_tool};
use crate::peers::Peers;
use crate::ports::free_ports;
use crate::probe::SUCCESS;
use crate::process::{Process, say, wait_for};
use crate::route::{ClusterInfo, Queues};
use crate::server::{Kind, Server};
use crate::{skip, step, target};

const MESSAGES: usize = 100;
/// The program gives up earlier.
const LIMIT: Duration = Duration::from_secs(120);
/// A 5.x broker may lose its first registration; the next comes after 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(25);
const QUEUES: Queues = Queues {
    read: 4,
    write: 4,
    perm: 6,
};

struct Language {
    name: &'static str,
    /// Commands of which each must succeed.
    tools: &'static [&'static [&'static str]],
    /// Source files, which are copied beside the libraries.
    sources: &'static [(&'static str, &'static str)],
    /// Brings the libraries into the directory that has the sources.
    install: fn(&Path) -> Command,
    /// The program, without its arguments.
    program: fn(&Path) -> Command,
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "go",
        tools: &[&["go", "version"]],
        sources: &[
            ("go.mod", include_str!("go/go.mod")),
            ("go.sum", include_str!("go/go.sum")),
            ("main.go", include_str!("go/main.go")),
        ],
        install: |directory| {
            let mut go = Command::new("go");
            go.args(["build", "-mod=readonly", "-o", "program", "."])
                .env("GOWORK", "off")
                .current_dir(directory);
            go
        },
        program: |directory| Command::new(directory.join("program")),
    },
    Language {
        name: "node",
        tools: &[&["node", "--version"], &["npm", "--version"]],
        sources: &[
            ("package.json", include_str!("node/package.json")),
            ("client.js", include_str!("node/client.js")),
        ],
        install: |directory| {
            let mut npm = Command::new("npm");
            npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
                .arg("--no-package-lock")
                .current_dir(directory);
            npm
        },
        program: |directory| {
            let mut node = Command::new("node");
            node.arg(directory.join("client.js"));
            node
        },
    },
    Language {
        name: "python",
        tools: &[&["python3", "-m", "pip", "--version"]],
        sources: &[("client.py", include_str!("python/client.py"))],
        install: |directory| {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
                .args(["--only-binary", ":all:", "--target", ".", "rocketmq==0.4.4"])
                .current_dir(directory);
            pip
        },
        program: |directory| {
            let mut python = Command::new("python3");
            python.arg(directory.join("client.py"));
            python
        },
    },
];

pub(crate) fn run(kind: Kind, peers: &'static [Peers], directory: &Path) {
    let ready = prepare_all();
    if ready.is_empty() {
        return;
    }
    let [server_port, broker_port] = free_ports();
    let server = Server::start(kind, peers, &directory.join("server"), server_port);
    let address = server.address();
    let home = directory.join("broker");
    let mut broker = Broker::new(&peers[0], &home, broker_port, address);
    step("languages: a broker registers", || {
        broker.start(&peers[0]);
        wait_for_broker(&server, &broker);
        let mut admin = Admin::start(&peers[0], &directory.join("admin"), address);
        for (language, _) in &ready {
            admin.create_topic(&topic_of(language), QUEUES, &[broker.address]);
        }
    });
    step("languages: each sends and receives", || {
        thread::scope(|scope| {
            for (language, files) in &ready {
                let server = address.to_string();
                scope.spawn(move || pass_messages(language, files, directory, &server));
            }
        });
    });
    broker.kill();
    server.stop();
}

/// Those whose tools and libraries are there, with the directory of each.
fn prepare_all() -> Vec<(&'static Language, PathBuf)> {
    let cache = target().join("interop");
    let mut ready = Vec::new();
    for language in &LANGUAGES {
        match prepare(language, &cache) {
            Ok(directory) => ready.push((language, directory)),
            Err(why) => skip(&format!("{}: {why}", language.name)),
        }
    }
    ready
}

/// Errors: what is missing, in one line.
fn prepare(language: &Language, cache: &Path) -> Result<PathBuf, String> {
    let Language { name, sources, .. } = language;
    if let Some(tool) = language.tools.iter().find(|tool| !succeeds(tool)) {
        return Err(format!("`{}` fails", tool.join(" ")));
    }
    let directory = cache.join(name);
    let made_from: String = sources.iter().map(|(_, text)| *text).collect();
    fs::create_dir_all(cache).map_err(|error| error.to_string())?;
    make_once(&directory, &made_from, |new| {
        say(&format!("   bringing the libraries of {name}"));
        for (file, text) in *sources {
            fs::write(new.join(file), text).map_err(|error| error.to_string())?;
        }
        let failure = format!("the libraries of {name} do not come");
        run_tool((language.install)(new), &failure, &new.join("install.log"))
    })?;
    Ok(directory)
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn wait_for_broker(server: &Server, broker: &Broker) {
    let mut probe = server.probe();
    wait_for("106 shows the broker", REGISTER_LIMIT, || {
        let answer = probe.cluster_info();
        assert_eq!(answer.code, SUCCESS, "{answer:?}");
        let info = ClusterInfo::parse(&answer.body);
        (info.brokers.get(&broker.name) == Some(&broker.group())).then_some(())
    });
}

fn pass_messages(language: &Language, files: &Path, directory: &Path, server: &str) {
    let name = language.name;
    let topic = topic_of(language);
    let home = directory.join(name);
    fs::create_dir_all(&home).unwrap();
    let mut command = (language.program)(files);
    command
        .args([server, &topic, &MESSAGES.to_string()])
        .env("HOME", &home)
        .env_remove("NAMESRV_ADDR")
        .current_dir(&home);
    let log = home.join("output.log");
    let start = Instant::now();
    let status = Process::start(name, command, &log).wait_for_end(LIMIT);
    let printed = fs::read_to_string(&log).unwrap();
    assert!(status.success(), "{name}: {status}: {printed}");
    let bodies = |word: &str| -> BTreeSet<String> {
        let lines = printed.lines().filter_map(|line| line.strip_prefix(word));
        lines.map(str::to_owned).collect()
    };
    let expected: BTreeSet<String> = (0..MESSAGES).map(|i| format!("{topic}-{i}")).collect();
    assert_eq!(bodies("sent "), expected, "{name}");
    assert_eq!(bodies("received "), expected, "{name}");
    let took = start.elapsed().as_secs_f64();
    say(&format!(
        "      {took:>6.2} s for {MESSAGES} messages with {name}"
    ));
}

fn topic_of(language: &Language) -> String {
    format!("orders-{}", language.name)
}
