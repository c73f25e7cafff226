//! Runs the tool against a server and reads its result.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use loadgen::result::RunResult;

/// A small cluster that makes all kinds of requests within a few seconds. The limit of the
/// tool's own delay is lifted: the machine of a test may be busy with other tests.
pub(crate) const SMALL: [&str; 12] = [
    "--brokers=40",
    "--topics=30",
    "--clients=20",
    "--client-topics=5",
    "--poll=500ms",
    "--register=1s",
    "--heartbeat=500ms",
    "--cluster-poll=500ms",
    "--warmup=500ms",
    "--duration=4s",
    "--late-limit=60s",
    "--timeout=10s",
];

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    json: PathBuf,
}

/// Starts the tool.
pub(crate) fn start(addr: SocketAddr, name: &str, words: &[&str]) -> Running {
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let _ = std::fs::remove_file(&json);
    let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg(format!("--addr={addr}"))
        .args(SMALL.iter().filter(|word| !is_replaced(word, words)))
        .args(words)
        .arg("--quiet")
        .arg(format!("--json={}", json.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    Running { child, json }
}

/// Runs the tool to its end. Returns its exit code, what it printed, and its result.
pub(crate) fn run(addr: SocketAddr, name: &str, words: &[&str]) -> (i32, String, RunResult) {
    start(addr, name, words).finish()
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn finish(self) -> (i32, String, RunResult) {
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let json = std::fs::read_to_string(&self.json).unwrap();
        (
            output.status.code().unwrap(),
            text,
            RunResult::read(&json).unwrap(),
        )
    }
}

fn is_replaced(word: &str, by: &[&str]) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    by.iter().any(|other| other.split('=').next() == Some(name))
}
