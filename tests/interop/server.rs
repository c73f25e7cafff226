//! The NameServer between the peers: ours, or Java's, which proves the steps themselves.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::java::program_log;
use crate::peers::{Peers, Release};
use crate::probe::Probe;
use crate::process::Process;

const JAVA_MAIN: &str = "org.apache.rocketmq.namesrv.NamesrvStartup";
const HEAP_MIB: u32 = 128;
/// A JVM on a busy machine.
const JAVA_START_LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(10);
const END_LIMIT: Duration = Duration::from_secs(15);

/// Which program is the NameServer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Java(Release),
}

/// A running NameServer.
pub(crate) struct Server {
    kind: Kind,
    home: PathBuf,
    address: SocketAddr,
    process: Process,
}

impl Server {
    /// Starts it on a port of loopback; ready when this returns. `peers` has Java's jars.
    pub(crate) fn start(kind: Kind, peers: &[Peers], home: &Path, port: u16) -> Self {
        write_files(kind, peers, home, port);
        Self::start_prepared(kind, peers, home, port)
    }

    /// Starts it with the files that are there.
    pub(crate) fn start_prepared(kind: Kind, peers: &[Peers], home: &Path, port: u16) -> Self {
        Self {
            kind,
            home: home.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            process: start_process(kind, peers, home, port),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn probe(&self) -> Probe {
        Probe::connect(self.address)
    }

    /// SIGTERM, the end, nobody at the port for a while, and a start with the same files.
    pub(crate) fn restart(self, peers: &[Peers], down: Duration) -> Self {
        let Self {
            kind,
            home,
            address,
            process,
        } = self;
        end(kind, process);
        thread::sleep(down);
        let process = start_process(kind, peers, &home, address.port());
        Self {
            kind,
            home,
            address,
            process,
        }
    }

    /// SIGTERM and the end, with the status that belongs to it.
    pub(crate) fn stop(self) {
        end(self.kind, self.process);
    }
}

fn end(kind: Kind, process: Process) {
    process.terminate();
    let status = process.wait_for_end(END_LIMIT);
    assert_eq!(
        status.code(),
        Some(expected_status(kind)),
        "after SIGTERM: {status}"
    );
}

/// A JVM that a signal ends says so in its status; we end as asked.
fn expected_status(kind: Kind) -> i32 {
    match kind {
        Kind::Ours => 0,
        Kind::Java(_) => 128 + 15,
    }
}

fn write_files(kind: Kind, peers: &[Peers], home: &Path, port: u16) {
    fs::create_dir_all(home).unwrap();
    if let Kind::Java(release) = kind {
        jars(peers, release).make_home(home);
    }
    let settings = format!(
        "listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={}\n",
        home.join("kvConfig.json").display()
    );
    fs::write(home.join("namesrv.properties"), settings).unwrap();
}

fn start_process(kind: Kind, peers: &[Peers], home: &Path, port: u16) -> Process {
    let (mut command, limit) = match kind {
        Kind::Ours => (ours(home), START_LIMIT),
        Kind::Java(release) => {
            let java = jars(peers, release).java(JAVA_MAIN, HEAP_MIB, home, &[]);
            (java, JAVA_START_LIMIT)
        }
    };
    command.arg("-c").arg(home.join("namesrv.properties"));
    let mut process = Process::start("name server", command, &home.join("output.log"));
    process.also_log(match kind {
        Kind::Ours => home.join("logs/rocketmqlogs/namesrv.log"),
        Kind::Java(_) => program_log(home),
    });
    // Word for word: start scripts look for this line.
    let boot = "The Name Server boot success. serializeType=JSON, address 127.0.0.1";
    process.wait_for_line(&format!("{boot}:{port}"), limit);
    process
}

fn ours(home: &Path) -> Command {
    // Its logs go below the user's home, as Java's do.
    let mut command = Command::new(binary().unwrap());
    command
        .current_dir(home)
        .env("HOME", home)
        .env_remove("ROCKETMQ_HOME");
    command
}

/// Our program; none where the package is built without its server.
pub(crate) fn binary() -> Option<&'static str> {
    option_env!("CARGO_BIN_EXE_namesrv")
}

fn jars(peers: &[Peers], release: Release) -> &Peers {
    let found = peers.iter().find(|peers| peers.release == release);
    found.unwrap_or_else(|| panic!("{} is not prepared", release.number))
}
