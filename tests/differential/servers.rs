//! The two servers: Java's and ours, with the same settings, each in a directory of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::java::{Jars, program_log};
use crate::ports::free_ports;
use crate::process::Process;

const JAVA_MAIN: &str = "org.apache.rocketmq.namesrv.NamesrvStartup";
const HEAP_MIB: u32 = 192;
const START_LIMIT: Duration = Duration::from_secs(90);
/// How often both look for expired brokers: the wait for an expiry is this long.
pub(crate) const SCAN_MS: u64 = 100;

/// Both servers, running.
pub(crate) struct Servers {
    jars: Jars,
    home: PathBuf,
    starts: u32,
    /// Nothing was sent to them yet.
    pub(crate) fresh: bool,
    pub(crate) java: SocketAddr,
    pub(crate) ours: SocketAddr,
    processes: Vec<Process>,
}

impl Servers {
    pub(crate) fn start(jars: Jars, home: &Path) -> Self {
        let [java, ours] = free_ports().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut servers = Self {
            jars,
            home: home.to_owned(),
            starts: 0,
            fresh: true,
            java,
            ours,
            processes: Vec::new(),
        };
        servers.restart();
        servers
    }

    /// Two empty servers on the same ports.
    pub(crate) fn restart(&mut self) {
        for process in self.processes.drain(..) {
            process.kill();
        }
        for address in [self.java, self.ours] {
            // a ring of io_uring outlives its process for a moment, and so does its listener
            while TcpListener::bind(address).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.starts += 1;
        self.fresh = true;
        let home = self.home.join(format!("start-{}", self.starts));
        let (java, ours) = (home.join("java"), home.join("ours"));
        for (home, address) in [(&java, self.java), (&ours, self.ours)] {
            fs::create_dir_all(home).unwrap();
            let settings = format!(
                "listenPort={}\nbindAddress=127.0.0.1\nkvConfigPath={}\n\
                 scanNotActiveBrokerInterval={SCAN_MS}\n",
                address.port(),
                home.join("kvConfig.json").display()
            );
            fs::write(home.join("namesrv.properties"), settings).unwrap();
        }
        self.jars.make_home(&java);
        let command = self.jars.java(None, JAVA_MAIN, HEAP_MIB, &java, &[]);
        let mut first = spawn("Java", command, &java);
        first.also_log(program_log(&java));
        let mut command = Command::new(binary().unwrap());
        command
            .current_dir(&ours)
            .env("HOME", &ours)
            .env_remove("ROCKETMQ_HOME");
        let mut second = spawn("namesrv", command, &ours);
        second.also_log(ours.join("logs/rocketmqlogs/namesrv.log"));
        for process in [&mut first, &mut second] {
            process.wait_for_line("The Name Server boot success.", START_LIMIT);
        }
        self.processes = vec![first, second];
        if self.starts > 1 {
            // kept only while a failure could point at it
            let _ = fs::remove_dir_all(self.home.join(format!("start-{}", self.starts - 1)));
        }
    }
}

/// Our program; none where the package is built without its server.
pub(crate) fn binary() -> Option<&'static str> {
    option_env!("CARGO_BIN_EXE_namesrv")
}

fn spawn(name: &str, mut command: Command, home: &Path) -> Process {
    command.arg("-c").arg(home.join("namesrv.properties"));
    Process::start(name, command, &home.join("output.log"))
}
