//! Java peers by release: jars from Maven, our Java program compiled against them, JVM flags.
//!
//! Our program is kept beside the jars, and made anew when its source changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::CLUSTER;
use crate::java::{Jars, make_once, run_tool};
use crate::route::Queues;

const SOURCES: [(&str, &str); 2] = [
    ("Shell.java", include_str!("java/Shell.java")),
    ("Clients.java", include_str!("java/Clients.java")),
];

/// A RocketMQ release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// As Maven knows it.
    pub(crate) number: &'static str,
    /// As `mqadmin clusterList` prints it.
    pub(crate) label: &'static str,
    /// Topics of a fresh broker beside [`COMMON_TOPICS`].
    own_topics: &'static [(&'static str, u64, u64, u64)],
    /// Topics that it makes when it has run for a while: there or not.
    pub(crate) later_topics: &'static [&'static str],
}

/// A topic that a broker makes by itself.
pub(crate) struct SystemTopic {
    pub(crate) name: String,
    pub(crate) queues: Queues,
}

pub(crate) const V5_3_3: Release = Release {
    number: "5.3.3",
    label: "V5_3_3",
    own_topics: &[
        ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 1, 6),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 1, 6),
        ("rmq_sys_REVIVE_LOG_{cluster}", 8, 8, 6),
        ("rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, 1, 1),
        ("rmq_sys_wheel_timer", 1, 1, 6),
    ],
    later_topics: &[],
};
pub(crate) const V4_9_4: Release = Release {
    number: "4.9.4",
    label: "V4_9_4",
    own_topics: &[],
    later_topics: &["RMQ_SYS_TRANS_HALF_TOPIC"],
};
pub(crate) const V5_5_0: Release = Release {
    number: "5.5.0",
    label: "V5_5_0",
    own_topics: &[
        ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 1, 6),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 1, 6),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 1, 1, 6),
        ("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 1, 1, 6),
        ("rmq_sys_REVIVE_LOG_{cluster}", 8, 8, 6),
        ("rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, 1, 1),
        ("rmq_sys_wheel_timer", 1, 1, 6),
    ],
    later_topics: &[],
};
/// All that the steps are known to pass with; mqadmin is of the first.
pub(crate) const RELEASES: [Release; 3] = [V5_3_3, V4_9_4, V5_5_0];

/// Name, read queues, write queues and perm of what brokers of all releases make; `{broker}` and
/// `{cluster}` stand for names.
const COMMON_TOPICS: [(&str, u64, u64, u64); 8] = [
    ("{broker}", 1, 1, 7),
    ("BenchmarkTest", 1024, 1024, 6),
    ("OFFSET_MOVED_EVENT", 1, 1, 6),
    ("SCHEDULE_TOPIC_XXXX", 18, 18, 6),
    ("SELF_TEST_TOPIC", 1, 1, 6),
    ("TBW102", 8, 8, 7),
    ("{cluster}", 16, 16, 7),
    ("{cluster}_REPLY_TOPIC", 1, 1, 6),
];

impl Release {
    /// What a fresh broker of this name registers.
    pub(crate) fn system_topics(&self, broker: &str) -> impl Iterator<Item = SystemTopic> {
        let topics = COMMON_TOPICS.iter().chain(self.own_topics);
        topics.map(move |(name, read, write, perm)| SystemTopic {
            name: name
                .replace("{broker}", broker)
                .replace("{cluster}", CLUSTER),
            queues: Queues {
                read: *read,
                write: *write,
                perm: *perm,
            },
        })
    }
}

/// The files of one release on this machine.
pub(crate) struct Peers {
    pub(crate) release: Release,
    jars: Jars,
    classes: PathBuf,
}

impl Peers {
    /// Brings the jars and compiles our program, unless a run before this one did.
    ///
    /// Errors: what is missing, in one line.
    pub(crate) fn prepare(release: Release, cache: &Path) -> Result<Self, String> {
        let jars = Jars::prepare(release.number, cache)?;
        let classes = jars.directory().join("classes");
        let sources: String = SOURCES.iter().map(|(_, text)| *text).collect();
        make_once(&classes, &sources, |new| compile(&jars.lib(), new))?;
        Ok(Self {
            release,
            jars,
            classes,
        })
    }

    /// A JVM that runs `main` with our classes and the release's jars. `home` takes the files
    /// that the program writes by itself.
    pub(crate) fn java(&self, main: &str, heap_mib: u32, home: &Path, flags: &[&str]) -> Command {
        self.jars
            .java(Some(&self.classes), main, heap_mib, home, flags)
    }

    /// Makes the directory that a program of this release can run in.
    pub(crate) fn make_home(&self, home: &Path) {
        self.jars.make_home(home);
    }
}

fn compile(lib: &Path, new: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    for (name, text) in SOURCES {
        let file = new.join(name);
        fs::write(&file, text).map_err(|error| error.to_string())?;
        files.push(file);
    }
    let mut javac = Command::new("javac");
    javac
        .args(["-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp"])
        .arg(format!("{}/*", lib.display()))
        .arg("-d")
        .arg(new)
        .args(files);
    run_tool(
        javac,
        "javac does not accept the sources",
        &new.join("javac.log"),
    )
}
