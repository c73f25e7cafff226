//! The servers, each a process on CPU 0, killed when it is dropped.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::java::{Jars, is_installed};
use crate::raw;

const SERVER_CPU: &str = "0";
const LOAD_CPU: usize = 1;
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    This,
    Java,
    /// Sends so many bytes for each frame.
    Raw(usize),
}

pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    child: Child,
}

impl Server {
    /// Nothing when it is Java and there is none.
    pub(crate) fn start(kind: Kind, home: &Path) -> Option<Self> {
        let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = unused.local_addr().unwrap().port();
        drop(unused);
        let program = match kind {
            Kind::This => vec![env!("CARGO_BIN_EXE_namesrv").to_owned()],
            Kind::Java => java(home)?,
            Kind::Raw(bytes) => {
                let own = std::env::current_exe().unwrap().display().to_string();
                vec![
                    own,
                    raw::MODE.to_owned(),
                    port.to_string(),
                    bytes.to_string(),
                ]
            }
        };
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CPU]).args(program);
        if !matches!(kind, Kind::Raw(_)) {
            command.arg("-c").arg(settings(port, home));
        }
        let child = command
            .current_dir(home)
            .env("ROCKETMQ_HOME", home)
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { kind, port, child };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(start.elapsed() < START_LIMIT, "{kind:?} does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// CPU time of all its threads.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanos = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The load has a CPU of its own.
pub(crate) fn pin_this_process() {
    let mut cpus = CpuSet::new();
    cpus.set(LOAD_CPU);
    sched_setaffinity(None, &cpus).expect("CPU 1 is there");
}

/// Nobody expires while others are measured.
fn settings(port: u16, home: &Path) -> String {
    let path = home.join(format!("{port}.properties"));
    let text = format!(
        "listenPort={port}\nkvConfigPath={}/kv.json\nserverChannelMaxIdleTimeSeconds=3600\n\
         scanNotActiveBrokerInterval=3600000\n",
        home.display()
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn java(home: &Path) -> Option<Vec<String>> {
    if !is_installed("java") {
        return None;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()?
        .join("interop");
    let jars = match Jars::prepare("5.3.3", &cache) {
        Ok(jars) => jars,
        Err(problem) => {
            eprintln!("without Java: {problem}");
            return None;
        }
    };
    let command = format!(
        "java -Xms2g -Xmx2g -XX:+UseG1GC -Duser.home={} -cp {}/* \
         org.apache.rocketmq.namesrv.NamesrvStartup",
        home.display(),
        jars.lib().display()
    );
    Some(command.split(' ').map(str::to_owned).collect())
}
