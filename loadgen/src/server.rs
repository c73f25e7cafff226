//! Servers that the tool starts itself, and such that run already.
//!
//! A started server is a process group of its own, on CPUs of its own, with its output in a file.
//! Invariant: it ends with its [`Server`], and also when the tool is told to end
//! ([`Guard`]); a server that was running already is never touched. There is no shell between:
//! the words are the program's, so the process that is measured is the server.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::host;
use crate::preflight;

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to forget the brokers of the last slice, whose connections are closed.
const EMPTY_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to end when asked to.
const STOP_LIMIT: Duration = Duration::from_secs(12);
const POLL: Duration = Duration::from_millis(20);
/// Lines of its output that are shown when it does not start.
const SHOWN_LINES: usize = 10;

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One that runs.
    Running(SocketAddr),
    /// One to start: a program and its arguments, with placeholders.
    Words(Vec<String>),
}

impl Target {
    /// Reads `host:port`, a command with `{port}` or `{addr}` (and `{dir}`, a fresh folder), or
    /// the path of a namesrv binary, which gets the arguments it needs.
    ///
    /// # Errors
    /// Nothing of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(addr) = text.parse() {
            return Ok(Self::Running(addr));
        }
        let mut words = split(text)?;
        let names_place = |word: &String| word.contains("{port}") || word.contains("{addr}");
        if words.is_empty() {
            return Err("a server is host:port or a command".to_owned());
        }
        if words.len() == 1 {
            words.push("-DlistenPort={port}".to_owned());
            words.push("-DkvConfigPath={dir}/kvConfig.json".to_owned());
        } else if !words.iter().any(names_place) {
            return Err(format!(
                "`{text}` says nowhere where to listen: write {{port}} or {{addr}} (and {{dir}} \
                 for a fresh folder) where they belong"
            ));
        }
        Ok(Self::Words(words))
    }
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// Its output goes to this with `.log`, its files into this folder, which is made.
    pub folder: &'a Path,
    /// Its CPUs; all when empty.
    pub cpus: &'a [usize],
    /// Ends it when the tool is told to end.
    pub guard: &'a Guard,
}

/// A server that answers.
#[derive(Debug)]
pub struct Server {
    /// Where.
    pub addr: SocketAddr,
    /// Its process, if known.
    pub pid: Option<u32>,
    process: Option<Process>,
}

impl Server {
    /// One that runs already.
    #[must_use]
    pub const fn running(addr: SocketAddr, pid: Option<u32>) -> Self {
        Self {
            addr,
            pid,
            process: None,
        }
    }

    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// It does not start, ends, or does not answer.
    pub fn start(words: &[String], place: &Place<'_>) -> Result<Self, String> {
        let about = |error: std::io::Error| format!("{}: {error}", words[0]);
        fs::create_dir_all(place.folder).map_err(about)?;
        let folder = place.folder.canonicalize().map_err(about)?;
        let log = folder.with_extension("log");
        let addr = free_addr().map_err(about)?;
        let words: Vec<String> = words
            .iter()
            .map(|word| fill(word, addr, &folder.display().to_string()))
            .collect();
        let output = File::create(&log).map_err(about)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("HOME", &folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(about)?)
            .stderr(output)
            .process_group(0);
        let child = spawn_on(command, place.cpus).map_err(about)?;
        let process = Process::new(child, place.guard);
        let mut server = Self {
            addr,
            pid: None,
            process: Some(process),
        };
        server.wait_until_it_answers(&words[0], &log)?;
        server.pid = server.process.as_ref().map(Process::busiest);
        Ok(server)
    }

    /// Waits until it has forgotten the brokers of an earlier slice.
    ///
    /// # Errors
    /// It keeps them, or is gone.
    pub fn wait_until_empty(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let brokers = preflight::ask(self.addr)?.brokers;
            if brokers == 0 {
                return Ok(());
            }
            if began.elapsed() > EMPTY_LIMIT {
                return Err(format!(
                    "{} still knows {brokers} brokers {} s after their connections closed",
                    self.addr,
                    EMPTY_LIMIT.as_secs()
                ));
            }
            thread::sleep(POLL);
        }
    }

    fn wait_until_it_answers(&mut self, name: &str, log: &Path) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let Err(said) = preflight::ask(self.addr) else {
                return Ok(());
            };
            let ended = self.process.as_mut().and_then(Process::ended);
            let problem = match ended {
                Some(how) => format!("it ended ({how})"),
                None if began.elapsed() > START_LIMIT => {
                    format!("no answer within {} s ({said})", START_LIMIT.as_secs())
                }
                None => {
                    thread::sleep(POLL);
                    continue;
                }
            };
            return Err(format!("{name}: {problem}\n{}", last_lines(log)));
        }
    }
}

/// A process group of ours.
#[derive(Debug)]
struct Process {
    child: Child,
    notes: Sender<Note>,
}

impl Process {
    fn new(child: Child, guard: &Guard) -> Self {
        let process = Self {
            child,
            notes: guard.notes.clone(),
        };
        process.note(Note::Started);
        process
    }

    /// How it ended, if it did.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(status.to_string())
    }

    /// The process of the group that has used most CPU time: a start script may wait for the
    /// real server.
    fn busiest(&self) -> u32 {
        let own = self.child.id();
        let used = |pid: &u32| host::sample(*pid).map_or(0, |sample| sample.cpu_of_threads);
        let mut group = host::process_group(own);
        group.retain(|pid| *pid != own);
        let busiest = group.into_iter().max_by_key(used);
        busiest.filter(|pid| used(pid) > used(&own)).unwrap_or(own)
    }

    fn note(&self, note: fn(u32) -> Note) {
        // The guard lives as long as the program.
        let _ = self.notes.send(note(self.child.id()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let own = self.child.id();
        signal(own, Signal::TERM);
        let asked = Instant::now();
        while self.ended().is_none() && asked.elapsed() < STOP_LIMIT {
            thread::sleep(POLL);
        }
        // What of the group is left, its members without a parent included.
        signal(own, Signal::KILL);
        // From here on the number may be another's.
        self.note(Note::Stopped);
        let _ = self.child.wait();
    }
}

enum Note {
    Started(u32),
    Stopped(u32),
}

/// Stops what was started when the tool is told to end, and then ends it.
#[derive(Debug)]
pub struct Guard {
    notes: Sender<Note>,
}

impl Guard {
    /// To be made once.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn new() -> Result<Self, String> {
        let (notes, received) = channel();
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| error.to_string())?;
        thread::Builder::new()
            .name("guard".to_owned())
            .spawn(move || watch(signals, &received))
            .map_err(|error| error.to_string())?;
        Ok(Self { notes })
    }
}

fn watch(mut signals: Signals, notes: &Receiver<Note>) {
    let Some(number) = signals.forever().next() else {
        return;
    };
    let mut running = Vec::new();
    for note in notes.try_iter() {
        match note {
            Note::Started(pid) => running.push(pid),
            Note::Stopped(pid) => running.retain(|other| *other != pid),
        }
    }
    for pid in running {
        signal(pid, Signal::KILL);
    }
    std::process::exit(128 + number);
}

/// Allows the calling thread, and threads that it starts, these CPUs only.
///
/// # Errors
/// The kernel refused.
pub fn pin(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).map_err(Into::into)
}

/// A child has the CPUs of the thread that starts it, so one with the right CPUs does.
fn spawn_on(mut command: Command, cpus: &[usize]) -> std::io::Result<Child> {
    if cpus.is_empty() {
        return command.spawn();
    }
    let cpus = cpus.to_vec();
    let starter = thread::spawn(move || {
        pin(&cpus)?;
        command.spawn()
    });
    let panicked = |_| Err(std::io::Error::other("the thread that starts it panicked"));
    starter.join().unwrap_or_else(panicked)
}

fn signal(group: u32, signal: Signal) {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may have ended by itself.
        let _ = kill_process_group(group, signal);
    }
}

fn free_addr() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn fill(word: &str, addr: SocketAddr, folder: &str) -> String {
    word.replace("{port}", &addr.port().to_string())
        .replace("{addr}", &addr.to_string())
        .replace("{dir}", folder)
}

/// The words of a command line; quotes of either kind keep blanks together.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("`{text}` has a quote without its end"));
    }
    words.extend(word);
    Ok(words)
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    format!("{}:\n{}", log.display(), shown.join("\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn words(text: &str) -> Vec<String> {
        match Target::parse(text).unwrap() {
            Target::Words(words) => words,
            Target::Running(addr) => panic!("{addr}"),
        }
    }

    #[test]
    fn a_server_is_an_address_a_command_or_a_binary() {
        let addr = "127.0.0.1:9876".parse().unwrap();
        assert_eq!(Target::parse("127.0.0.1:9876"), Ok(Target::Running(addr)));
        assert_eq!(
            words("./old"),
            [
                "./old",
                "-DlistenPort={port}",
                "-DkvConfigPath={dir}/kvConfig.json"
            ]
        );
        assert_eq!(
            words("java -cp 'a b:c' \"-Dp={port}\" ''"),
            ["java", "-cp", "a b:c", "-Dp={port}", ""]
        );
        assert!(Target::parse("java Start").unwrap_err().contains("{port}"));
        assert!(Target::parse("").is_err());
        assert!(Target::parse("a 'b {port}").unwrap_err().contains("quote"));
    }

    #[test]
    fn placeholders_are_filled_wherever_they_stand() {
        let addr = "127.0.0.1:4000".parse().unwrap();
        assert_eq!(
            fill("{addr}|-p={port}{port}|{dir}/x", addr, "/d"),
            "127.0.0.1:4000|-p=40004000|/d/x"
        );
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let folder = std::env::temp_dir().join(format!("loadgen-start-{}", std::process::id()));
        let guard = Guard::new().unwrap();
        let place = Place {
            folder: &folder,
            cpus: &[],
            guard: &guard,
        };
        let start = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Server::start(&words, &place).unwrap_err()
        };
        let gone = start(&["/nowhere/namesrv", "{port}"]);
        assert!(gone.contains("/nowhere/namesrv: No such file"), "{gone}");
        let ended = start(&["sh", "-c", "echo the port is taken; exit 3", "{port}"]);
        assert!(ended.contains("it ended (exit status: 3)"), "{ended}");
        assert!(ended.ends_with("\nthe port is taken"), "{ended}");
        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(folder.with_extension("log")).unwrap();
    }

    #[test]
    fn a_started_process_has_its_cpus_and_ends_with_its_value() {
        let cpu = namesrv::rt::usable_cpus().unwrap()[0];
        let mut command = Command::new("sleep");
        command.arg("60").process_group(0);
        let guard = Guard::new().unwrap();
        let process = Process::new(spawn_on(command, &[cpu]).unwrap(), &guard);
        let pid = process.child.id();
        assert_eq!(process.busiest(), pid);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = format!("Cpus_allowed_list:\t{cpu}\n");
        assert!(status.contains(&line), "{status}");
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
