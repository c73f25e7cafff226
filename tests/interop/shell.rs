//! The test's end of `java/Shell.java`: one JVM, one command a line, one counted answer each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use crate::java::program_log;
use crate::peers::Peers;
use crate::process::Process;

const HEAP_MIB: u32 = 192;

/// A JVM that answers commands.
pub(crate) struct Shell {
    name: String,
    stdin: ChildStdin,
    answers: Receiver<Answer>,
    /// Last, so that a failing command's log is shown by its drop.
    _process: Process,
}

/// What came back: whether the command ended without an exception, and its lines.
struct Answer {
    ok: bool,
    lines: Vec<String>,
}

impl Shell {
    pub(crate) fn start(peers: &Peers, name: &str, home: &Path, flags: &[&str]) -> Self {
        peers.make_home(home);
        let command = peers.java("Shell", HEAP_MIB, home, flags);
        let log = home.join("stderr.log");
        let (mut process, stdin, stdout) = Process::start_piped(name, command, &log);
        process.also_log(program_log(home));
        let (sender, answers) = mpsc::channel();
        // Ends with the pipe, and the pipe ends with the process.
        thread::spawn(move || read_answers(stdout, &sender));
        Self {
            name: name.to_owned(),
            stdin,
            answers,
            _process: process,
        }
    }

    /// The lines that a command answers; an exception or a silence fails the test.
    pub(crate) fn ask(&mut self, command: &str, limit: Duration) -> Vec<String> {
        writeln!(self.stdin, "{command}").unwrap();
        let answer = self
            .answers
            .recv_timeout(limit)
            .unwrap_or_else(|error| panic!("{}: `{command}`: {error}", self.name));
        assert!(answer.ok, "{}: `{command}`: {:?}", self.name, answer.lines);
        answer.lines
    }
}

fn read_answers(stdout: ChildStdout, answers: &Sender<Answer>) {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    while let Some(head) = lines.next() {
        let Some((state, count)) = head.split_once(' ') else {
            return;
        };
        let Ok(count) = count.parse() else {
            return;
        };
        let answer = Answer {
            ok: state == "ok",
            lines: lines.by_ref().take(count).collect(),
        };
        if answer.lines.len() < count || answers.send(answer).is_err() {
            return;
        }
    }
}
