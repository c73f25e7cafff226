//! Java peers by release: jars from Maven, our Java program compiled against them, JVM flags.
//!
//! A release has a directory of its own below the target directory, kept between runs. It is
//! complete or absent: made under another name and renamed, with a copy of what it was made from,
//! so that a changed pom or source makes it anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::CLUSTER;
use crate::process::{Process, say};
use crate::route::Queues;

const POM: &str = include_str!("pom.xml");
const SOURCES: [(&str, &str); 2] = [
    ("Shell.java", include_str!("java/Shell.java")),
    ("Clients.java", include_str!("java/Clients.java")),
];
/// Start time is what matters here, speed is not.
const JVM_FLAGS: [&str; 3] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
];

/// Maven brings some 100 MB where nothing is cached.
const TOOL_LIMIT: Duration = Duration::from_secs(300);

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
    directory: PathBuf,
}

impl Peers {
    /// Brings the jars and compiles our program, unless a run before this one did.
    ///
    /// Errors: what is missing, in one line.
    pub(crate) fn prepare(release: Release, cache: &Path) -> Result<Self, String> {
        let directory = cache.join(release.number);
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let lib = directory.join("lib");
        make_once(&lib, POM, |new| copy_jars(release, new))?;
        let sources: String = SOURCES.iter().map(|(_, text)| *text).collect();
        make_once(&directory.join("classes"), &sources, |new| {
            compile(&lib, new)
        })?;
        Ok(Self { release, directory })
    }

    /// A JVM that runs `main` with our classes and the release's jars. `home` takes the files
    /// that the program writes by itself.
    pub(crate) fn java(&self, main: &str, heap_mib: u32, home: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new("java");
        let classes = self.directory.join("classes");
        let lib = self.directory.join("lib");
        command
            .args(JVM_FLAGS)
            .args([format!("-Xms{heap_mib}m"), format!("-Xmx{heap_mib}m")])
            .arg(format!("-Duser.home={}", home.display()))
            .arg(format!(
                "-Drmq.logback.configurationFile={}/logback.xml",
                home.display()
            ))
            .args(flags)
            .arg("-cp")
            .arg(format!("{}:{}/*", classes.display(), lib.display()))
            .arg(main)
            .current_dir(home)
            .env("ROCKETMQ_HOME", home)
            .env_remove("NAMESRV_ADDR");
        command
    }

    /// Makes the directory that a program of this release can run in.
    pub(crate) fn make_home(&self, home: &Path) {
        let conf = home.join("conf");
        fs::create_dir_all(&conf).unwrap();
        let log = program_log(home);
        // 4.9 programs do not start without these files.
        let old = logback("ch.qos.logback.core.FileAppender", &log);
        for program in ["namesrv", "broker", "tools"] {
            fs::write(conf.join(format!("logback_{program}.xml")), &old).unwrap();
        }
        // 5.x programs print their own start to stdout unless they are told where to log.
        let shaded = "org.apache.rocketmq.logging.ch.qos.logback.core.FileAppender";
        fs::write(home.join("logback.xml"), logback(shaded, &log)).unwrap();
    }
}

/// What a Java program logs; its output has the rest.
pub(crate) fn program_log(home: &Path) -> PathBuf {
    home.join("program.log")
}

/// Whether a program can be run at all.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn logback(appender: &str, file: &Path) -> String {
    format!(
        "<configuration><appender name=\"F\" class=\"{appender}\"><file>{}</file><encoder>\
         <pattern>%d %p %t - %m%n</pattern></encoder></appender>\
         <root level=\"INFO\"><appender-ref ref=\"F\"/></root></configuration>",
        file.display()
    )
}

/// Makes a directory with `make`, unless there is one that was made from the same text.
///
/// Errors: what went wrong, in one line.
pub(crate) fn make_once(
    directory: &Path,
    made_from: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let origin = directory.join("made-from");
    if fs::read_to_string(&origin).is_ok_and(|text| text == made_from) {
        return Ok(());
    }
    let new = directory.with_extension(format!("new-{}", std::process::id()));
    remove(&new)?;
    remove(directory)?;
    let text = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&new).map_err(text)?;
    make(&new)?;
    fs::write(new.join("made-from"), made_from).map_err(text)?;
    fs::rename(&new, directory).map_err(text)
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn copy_jars(release: Release, new: &Path) -> Result<(), String> {
    if !is_installed("mvn") {
        return Err("mvn is missing".to_owned());
    }
    say(&format!("   bringing the jars of {}", release.number));
    let pom = new.join("pom.xml");
    fs::write(&pom, POM).map_err(|error| error.to_string())?;
    let mut maven = Command::new("mvn");
    maven
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg(format!("-Drocketmq.version={}", release.number))
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", new.display()));
    let failure = format!("mvn does not bring release {}", release.number);
    run_tool(maven, &failure, &new.join("mvn.log"))
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

/// Runs to the end; the first line that speaks of an error explains a failure.
///
/// Errors: what went wrong, in one line.
pub(crate) fn run_tool(command: Command, failure: &str, log: &Path) -> Result<(), String> {
    let process = Process::start(failure, command, log);
    let Some(status) = process.end_within(TOOL_LIMIT) else {
        return Err(format!("{failure}: nothing after {TOOL_LIMIT:?}"));
    };
    if status.success() {
        return Ok(());
    }
    let text = fs::read(log).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&text);
    say(&text);
    let error = text
        .lines()
        .find(|line| line.to_lowercase().contains("error"));
    Err(format!(
        "{failure}: {}",
        error.unwrap_or("no reason printed")
    ))
}
