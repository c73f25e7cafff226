//! The server as a process: its directory, its start, what the kernel says of it, its end.
//!
//! Invariant: no server outlives its [`Server`] and no directory its [`Home`], unless the test
//! fails: then the directory stays and the output is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::peer::Peer;

/// For what happens at once, on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
const BOOT: &str = "The Name Server boot success. serializeType=";

/// The path of the program under test.
pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_namesrv")
}

/// Says why a test does nothing here.
pub(crate) fn skipped(why: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr().lock(), "skipped: {why}");
}

/// Tells what was measured; shown with `--nocapture`.
pub(crate) fn measured(what: &str) {
    let _ = writeln!(io::stderr().lock(), "measured: {what}");
}

/// Asks `look` until it says yes.
pub(crate) fn wait_until(what: &str, limit: Duration, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(POLL);
    }
}

/// The files of one test.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The properties file: the port left to the kernel and every path inside of this directory,
    /// except where `more` says otherwise.
    pub(crate) fn write_settings(&self, more: &[(&str, &str)]) -> PathBuf {
        let own = |name| self.path(name).display().to_string();
        let mut text = String::new();
        for (key, value) in [
            ("listenPort", "0".to_owned()),
            ("bindAddress", "127.0.0.1".to_owned()),
            ("kvConfigPath", own("kv/kvConfig.json")),
            ("namesrv.log", own("namesrv.log")),
            ("namesrv.adminAddress", "off".to_owned()),
        ] {
            if more.iter().all(|(other, _)| *other != key) {
                writeln!(text, "{key}={value}").unwrap();
            }
        }
        for (key, value) in more {
            writeln!(text, "{key}={value}").unwrap();
        }
        let path = self.path("namesrv.properties");
        fs::write(&path, text).unwrap();
        path
    }

    /// The program with this directory as the home of its user. Nothing else is inherited that
    /// it reads.
    pub(crate) fn command(&self) -> Command {
        self.command_in("exec \"$0\" \"$@\"")
    }

    /// The same behind a line of shell, in which `"$0" "$@"` is the program.
    pub(crate) fn command_in(&self, shell: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, binary()])
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env_remove("ROCKETMQ_HOME")
            .env_remove("ROCKETMQ_SERIALIZE_TYPE")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::from(self.command().args(args).output().unwrap())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// What a program that ended by itself left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) home: Home,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// With defaults.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With settings in its file.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        let home = Home::new();
        home.write_settings(settings);
        Self::in_home(home)
    }

    /// With the file that is there.
    pub(crate) fn in_home(home: Home) -> Self {
        let command = home.command();
        Self::run(home, command)
    }

    /// Behind a line of shell; see [`Home::command_in`].
    pub(crate) fn in_shell(home: Home, shell: &str) -> Self {
        let command = home.command_in(shell);
        Self::run(home, command)
    }

    fn run(home: Home, mut command: Command) -> Self {
        let output = |name: &str| File::create(home.path(name)).unwrap();
        let child = command
            .arg("-c")
            .arg(home.path("namesrv.properties"))
            .stdout(output("stdout"))
            .stderr(output("stderr"))
            .spawn()
            .unwrap();
        // A server from here on, so that it does not outlive a test that fails below.
        let mut server = Self {
            child,
            home,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        wait_until("the boot line", PATIENCE, || server.is_booted());
        server
    }

    fn is_booted(&mut self) -> bool {
        let ended = self.child.try_wait().unwrap();
        let stdout = self.home.read("stdout");
        let line = stdout
            .split_once(BOOT)
            .and_then(|(_, rest)| rest.split_once('\n'));
        if let Some((line, _)) = line {
            let (_, port) = line.split_once(", address 127.0.0.1:").unwrap();
            self.address.set_port(port.parse().unwrap());
            return true;
        }
        assert!(ended.is_none(), "the server ended at its start: {ended:?}");
        false
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.home.read("namesrv.log")
    }

    /// Waits for a line of the log that has all of `parts`.
    pub(crate) fn wait_for_log(&self, parts: &[&str]) {
        let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
        wait_until(&format!("a log line with {parts:?}"), PATIENCE, || {
            self.log().lines().any(has_all)
        });
    }

    /// Physical memory of the process.
    pub(crate) fn resident_mib(&self) -> u64 {
        self.status_kib("VmRSS:") / 1024
    }

    /// The most physical memory that the process ever had.
    pub(crate) fn peak_mib(&self) -> u64 {
        self.status_kib("VmHWM:") / 1024
    }

    /// CPU time that each thread has used, by its id.
    pub(crate) fn thread_times(&self) -> BTreeMap<String, Duration> {
        let used = |task: io::Result<fs::DirEntry>| {
            let task = task.ok()?.path();
            let text = fs::read_to_string(task.join("schedstat")).ok()?;
            let nanos = text.split(' ').next()?.parse().ok()?;
            Some((task.display().to_string(), Duration::from_nanos(nanos)))
        };
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        tasks.filter_map(used).collect()
    }

    fn status_kib(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let number = line.unwrap().trim().trim_end_matches(" kB");
        number.parse().unwrap()
    }

    /// Open descriptors of the process.
    pub(crate) fn descriptors(&self) -> usize {
        let listing = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        listing.count()
    }

    /// Sends a signal, named as `kill` names it.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(status.success(), "kill -s {name} {pid}");
    }

    /// Waits for the end of a server that was told to end.
    pub(crate) fn wait_for_end(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        wait_until("the end of the server", limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// SIGKILL, and a new server with the same files.
    pub(crate) fn kill_and_restart(self) -> Self {
        Self::in_home(self.kill())
    }

    /// SIGKILL; the files stay.
    pub(crate) fn kill(mut self) -> Home {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.home, Home(PathBuf::new()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            for name in ["stdout", "stderr", "namesrv.log"] {
                let text = self.home.read(name);
                let _ = write!(io::stderr().lock(), "---- {name}:\n{text}");
            }
        }
    }
}
