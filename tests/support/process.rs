//! Child processes: started with their output in a file, awaited with a deadline, ended by id.
//!
//! Invariant: no process outlives its [`Process`], also when a test fails; a failing test shows
//! the tails of its log files.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);
/// What a failing test shows of each log.
const TAIL_LINES: usize = 40;

/// Prints at once and past the test runner's capture: a run of minutes must be seen to move.
pub(crate) fn say(line: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Asks `look` until it has an answer, and says how long that took.
pub(crate) fn wait_for<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    let Some(found) = poll(limit, look) else {
        panic!("not within {limit:?}: {what}");
    };
    say(&format!(
        "      {:>6.2} s until {what}",
        start.elapsed().as_secs_f64()
    ));
    found
}

fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > limit {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// A running child with the file that its output goes to.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where this process began to write: a restart appends to the file of the one before.
    log_start: u64,
    /// Files that the program writes by itself.
    more_logs: Vec<PathBuf>,
}

impl Process {
    /// Starts `command` with stdout and stderr appended to `log`.
    pub(crate) fn start(name: &str, mut command: Command, log: &Path) -> Self {
        let file = append_to(log);
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap());
        Self::spawn(name, command, log, file)
    }

    /// The same, but stdin and stdout stay with the caller.
    pub(crate) fn start_piped(
        name: &str,
        mut command: Command,
        log: &Path,
    ) -> (Self, ChildStdin, ChildStdout) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Self::spawn(name, command, log, append_to(log));
        let stdin = process.child.stdin.take().unwrap();
        let stdout = process.child.stdout.take().unwrap();
        (process, stdin, stdout)
    }

    fn spawn(name: &str, mut command: Command, log: &Path, file: File) -> Self {
        let log_start = file.metadata().unwrap().len();
        let child = command
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}: {command:?}"));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            log_start,
            more_logs: Vec::new(),
        }
    }

    /// Names a file to show beside the output when a test fails.
    pub(crate) fn also_log(&mut self, log: PathBuf) {
        self.more_logs.push(log);
    }

    /// The first line of this process's output that begins with `wanted`.
    pub(crate) fn wait_for_line(&mut self, wanted: &str, limit: Duration) -> String {
        let what = format!("{} prints `{wanted}`", self.name);
        wait_for(&what, limit, || {
            // The state first: a line printed just before the end still counts.
            let ended = self.child.try_wait().unwrap();
            let output = read_from(&self.log, self.log_start);
            let line = output.lines().find(|line| line.starts_with(wanted));
            assert!(
                line.is_some() || ended.is_none(),
                "{} ended: {ended:?}",
                self.name
            );
            line.map(str::to_owned)
        })
    }

    /// SIGTERM, without waiting.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(status.success(), "kill -TERM {pid} ({})", self.name);
    }

    /// SIGKILL; the process is gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The status of a program that ends by itself; it is killed when it does not.
    pub(crate) fn end_within(mut self, limit: Duration) -> Option<ExitStatus> {
        poll(limit, || self.child.try_wait().unwrap())
    }

    /// Waits for the end of a program that was told to end.
    pub(crate) fn wait_for_end(mut self, limit: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        wait_for(&what, limit, || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when the process has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            for log in std::iter::once(&self.log).chain(&self.more_logs) {
                show_tail(&self.name, log);
            }
        }
    }
}

fn append_to(log: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap()
}

fn read_from(log: &Path, start: u64) -> String {
    let mut file = File::open(log).unwrap();
    file.seek(SeekFrom::Start(start)).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn show_tail(name: &str, log: &Path) {
    let Ok(bytes) = fs::read(log) else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    say(&format!("---- {name}: end of {}", log.display()));
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        say(line);
    }
}
