//! What the kernel says of this host, of this process and of the server's.

use std::fs;

use crate::board::Nanos;

/// The grain of [`ProcessSample::cpu`].
pub const TICK: Nanos = 10_000_000;

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu_nanos() -> Nanos {
    schedstat("/proc/thread-self/schedstat").unwrap_or(0)
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// CPU time of all its threads, ended ones included, in whole [`TICK`]s.
    pub cpu: Nanos,
    /// CPU time of its running threads, exact.
    pub cpu_of_threads: Nanos,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u64,
}

/// Looks at a process. `None` when there is none with this number.
#[must_use]
pub fn sample(pid: u32) -> Option<ProcessSample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |key: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(key))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let cpu_of_threads = tasks
        .flatten()
        .filter_map(|task| schedstat(&format!("{}/schedstat", task.path().display())))
        .sum();
    Some(ProcessSample {
        cpu: process_cpu(pid)?,
        cpu_of_threads,
        rss_bytes: number("VmRSS:")? * 1024,
        threads: number("Threads:")?,
    })
}

/// The processes of a group, by its number.
#[must_use]
pub fn process_group(group: u32) -> Vec<u32> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let is_member = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses may contain blanks; state, parent and group follow it.
        let of = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(2));
        of.and_then(|of| of.parse().ok()) == Some(group)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(number).filter(is_member).collect()
}

/// Facts that explain why two runs of one plan differ.
#[must_use]
pub fn facts() -> Vec<(&'static str, String)> {
    let read = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    };
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1))
        .unwrap_or("unknown")
        .trim()
        .to_owned();
    let cpus = namesrv::rt::usable_cpus().map_or(0, |cpus| cpus.len());
    let locked = namesrv::rt::memlock_limit_bytes();
    vec![
        ("cpu", model),
        ("cpus", cpus.to_string()),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        (
            "governor",
            read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ),
        (
            "congestion_control",
            read("/proc/sys/net/ipv4/tcp_congestion_control"),
        ),
        ("memlock", format!("{locked:?}")),
        ("load", read("/proc/loadavg")),
    ]
}

fn schedstat(path: &str) -> Option<Nanos> {
    let text = fs::read_to_string(path).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// User and system time of a process, from `/proc/PID/stat`, in ticks of 10 ms.
fn process_cpu(pid: u32) -> Option<Nanos> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| -> Option<u64> { fields.get(at)?.parse().ok() };
    Some((ticks(11)? + ticks(12)?) * TICK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn this_process_is_seen() {
        let before = sample(std::process::id()).unwrap();
        let mine = thread_cpu_nanos();
        let mut sum = 0_u64;
        while thread_cpu_nanos() < mine + 5 * TICK {
            sum = sum.wrapping_add(1);
        }
        let after = sample(std::process::id()).unwrap();
        // Threads of other tests may have ended, and taken their exact time along.
        assert!(after.cpu >= before.cpu + 3 * TICK, "{sum}");
        assert!(after.cpu_of_threads >= 4 * TICK);
        assert!(after.rss_bytes > 100_000 && after.threads >= 1);
        assert_eq!(sample(0), None);
        assert!(
            facts()
                .iter()
                .any(|(key, value)| *key == "kernel" && !value.is_empty())
        );
    }
}
