//! A Java broker with a store of its own, which a restart finds again.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::CLUSTER;
use crate::java::program_log;
use crate::peers::{Peers, Release};
use crate::process::Process;
use crate::route::Group;

const MAIN: &str = "org.apache.rocketmq.broker.BrokerStartup";
const HEAP_MIB: u32 = 256;
const START_LIMIT: Duration = Duration::from_secs(90);
const END_LIMIT: Duration = Duration::from_secs(60);

/// A broker, running or not.
pub(crate) struct Broker {
    pub(crate) name: String,
    pub(crate) release: Release,
    /// As it registers itself.
    pub(crate) address: SocketAddr,
    home: PathBuf,
    process: Option<Process>,
    /// Told to end, and busy with that.
    ending: Option<Process>,
}

impl Broker {
    /// Writes its configuration. `port` is the middle of the three that it listens on: two below
    /// is the fast port, one above is for slaves.
    pub(crate) fn new(peers: &Peers, home: &Path, port: u16, server: SocketAddr) -> Self {
        let name = format!("broker-{}", peers.release.number.replace('.', "-"));
        peers.make_home(home);
        let broker = Self {
            name,
            release: peers.release,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            home: home.to_owned(),
            process: None,
            ending: None,
        };
        fs::write(home.join("broker.properties"), broker.settings(server)).unwrap();
        broker
    }

    /// Adds lines to its configuration, which count from its next start; later ones win.
    pub(crate) fn configure(&self, lines: &[&str]) {
        let file = self.home.join("broker.properties");
        let mut settings = fs::read_to_string(&file).unwrap();
        for line in lines {
            settings.push('\n');
            settings.push_str(line);
        }
        fs::write(&file, settings).unwrap();
    }

    /// Small files, no deletion on a full disk, patience on a slow machine, and a registration as
    /// often as a broker can.
    fn settings(&self, server: SocketAddr) -> String {
        let port = self.address.port();
        let store = self.home.join("store");
        [
            format!("namesrvAddr={server}"),
            format!("brokerClusterName={CLUSTER}"),
            format!("brokerName={}", self.name),
            "brokerId=0".to_owned(),
            format!("listenPort={port}"),
            "bindAddress=127.0.0.1".to_owned(),
            "brokerIP1=127.0.0.1".to_owned(),
            "brokerIP2=127.0.0.1".to_owned(),
            format!("storePathRootDir={}", store.display()),
            "mappedFileSizeCommitLog=16777216".to_owned(),
            "mappedFileSizeConsumeQueue=600000".to_owned(),
            "diskMaxUsedSpaceRatio=99".to_owned(),
            "waitTimeMillsInSendQueue=5000".to_owned(),
            "osPageCacheBusyTimeOutMills=5000".to_owned(),
            "registerNameServerPeriod=10000".to_owned(),
        ]
        .join("\n")
    }

    /// Starts it; ready to serve when this returns, which is not yet registered.
    pub(crate) fn start(&mut self, peers: &Peers) {
        let flags = [
            "-XX:MaxDirectMemorySize=512m",
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        ];
        let mut command = peers.java(MAIN, HEAP_MIB, &self.home, &flags);
        command.arg("-c").arg(self.home.join("broker.properties"));
        let mut process = Process::start(&self.name, command, &self.home.join("output.log"));
        process.also_log(program_log(&self.home));
        let ready = format!("The broker[{}, {}] boot success.", self.name, self.address);
        process.wait_for_line(&ready, START_LIMIT);
        self.process = Some(process);
    }

    /// SIGKILL; gone when this returns.
    pub(crate) fn kill(&mut self) {
        self.running().kill();
    }

    /// SIGTERM; the end is awaited by [`Broker::wait_for_end`].
    pub(crate) fn terminate(&mut self) {
        let process = self.running();
        process.terminate();
        self.ending = Some(process);
    }

    pub(crate) fn wait_for_end(&mut self) {
        let process = self.ending.take();
        let process = process.unwrap_or_else(|| panic!("{} was not told to end", self.name));
        process.wait_for_end(END_LIMIT);
    }

    /// Neither killed nor told to end.
    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// How many lines of its log have these words.
    pub(crate) fn logged(&self, words: &str) -> usize {
        let log = fs::read(program_log(&self.home)).unwrap();
        let log = String::from_utf8_lossy(&log);
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// Gives it the topics that the other has stored; neither runs.
    pub(crate) fn copy_topics_of(&self, other: &Self) {
        let file = "store/config/topics.json";
        fs::copy(other.home.join(file), self.home.join(file)).unwrap();
    }

    /// What the tables say of it while it is registered.
    pub(crate) fn group(&self) -> Group {
        let addresses = [(0, self.address.to_string())].into();
        Group {
            cluster: CLUSTER.to_owned(),
            addresses,
        }
    }

    fn running(&mut self) -> Process {
        let process = self.process.take();
        process.unwrap_or_else(|| panic!("{} is not running", self.name))
    }
}
