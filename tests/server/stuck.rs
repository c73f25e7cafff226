//! A thread that stops in the middle of what it does: the server must not stay half alive.

use std::fs;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use namesrv::rt::usable_cpus;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::harness::{PATIENCE, Server, skipped, wait_until};
use crate::requests::{no_route, route};

/// How long the server may go without a beat of each thread.
const LIMIT: Duration = Duration::from_secs(10);

/// One thread of a server, stopped as a debugger would; it goes on when this is dropped.
struct Stuck(Pid);

impl Stuck {
    /// Nothing where the host forbids it.
    fn thread(server: &Server, name: &str) -> Option<Self> {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let task = tasks.map(|task| task.unwrap()).find(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        let id = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let thread = Pid::from_raw(id);
        if let Err(error) = ptrace::attach(thread) {
            skipped(&format!("a thread cannot be stopped here: {error}"));
            return None;
        }
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Some(Self(thread))
    }

    /// Waits for the end of the thread, which its process needs in order to end.
    fn wait_for_end(&self) {
        let look = Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
        wait_until("the end of the stuck thread", LIMIT + PATIENCE, || {
            let state = waitpid(self.0, look).unwrap();
            state.pid().is_some()
        });
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // Fails when it has ended, as it should have.
        let _ = ptrace::detach(self.0, None);
    }
}

fn ends_when_stuck(thread: &str, complaint: &str) {
    // The writer has a thread of its own only if there are many cores, or it is told so.
    let cpu = usable_cpus().unwrap()[0].to_string();
    let mut server = Server::with(&[("namesrv.writerCore", &cpu)]);
    assert_eq!(server.connect().ask(&route("t")), no_route("t"));
    let stuck_since = Instant::now();
    let Some(stuck) = Stuck::thread(&server, thread) else {
        return;
    };
    stuck.wait_for_end();
    assert!(stuck_since.elapsed() > LIMIT / 2, "that was hasty");
    assert_eq!(server.wait_for_end(PATIENCE).code(), Some(1));
    let expected = format!("namesrv: {complaint} is stuck: it has done nothing for 10 s\n");
    assert_eq!(server.home.read("stderr"), expected);
    // The kernel takes rings apart, which hold the listeners, after it has told of the end.
    wait_until("the end of the listeners", PATIENCE, || {
        TcpStream::connect(server.address).is_err()
    });
}

#[test]
fn a_stuck_core_ends_the_process() {
    ends_when_stuck("namesrv-0", "core 0");
}

#[test]
fn a_stuck_writer_ends_the_process() {
    ends_when_stuck("namesrv-writer", "the writer");
}

#[test]
fn a_process_that_stood_still_goes_on() {
    let server = Server::start();
    server.signal("STOP");
    thread::sleep(LIMIT + Duration::from_secs(2));
    server.signal("CONT");
    for _ in 0..10 {
        assert_eq!(server.connect().ask(&route("t")), no_route("t"));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.home.read("stderr"), "");
}
