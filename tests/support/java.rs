//! The programs of a RocketMQ release: jars from Maven, JVM flags, a directory to run in.
//!
//! A release has a directory of its own below the target directory, kept between runs. It is
//! complete or absent: made under another name and renamed, with a copy of what it was made from,
//! so that a changed pom makes it anew.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{Process, say};

const POM: &str = include_str!("pom.xml");
/// Start time is what matters here, speed is not.
const JVM_FLAGS: [&str; 3] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
];

/// Maven brings some 100 MB where nothing is cached.
const TOOL_LIMIT: Duration = Duration::from_secs(300);

/// The jars of one release on this machine.
pub(crate) struct Jars {
    directory: PathBuf,
}

impl Jars {
    /// Brings the jars of a release, as Maven numbers it, unless a run before this one did.
    ///
    /// Errors: what is missing, in one line.
    pub(crate) fn prepare(number: &str, cache: &Path) -> Result<Self, String> {
        let jars = Self {
            directory: cache.join(number),
        };
        fs::create_dir_all(&jars.directory).map_err(|error| error.to_string())?;
        make_once(&jars.lib(), POM, |new| copy_jars(number, new))?;
        Ok(jars)
    }

    /// Where the jars are, and what is made from them.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The jars themselves.
    pub(crate) fn lib(&self) -> PathBuf {
        self.directory.join("lib")
    }

    /// A JVM that runs `main` with the release's jars and classes of ours. `home` takes the files
    /// that the program writes by itself.
    pub(crate) fn java(
        &self,
        classes: Option<&Path>,
        main: &str,
        heap_mib: u32,
        home: &Path,
        flags: &[&str],
    ) -> Command {
        let mut command = Command::new("java");
        let mut path = format!("{}/*", self.lib().display());
        if let Some(classes) = classes {
            path = format!("{}:{path}", classes.display());
        }
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
            .arg(path)
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

fn copy_jars(number: &str, new: &Path) -> Result<(), String> {
    if !is_installed("mvn") {
        return Err("mvn is missing".to_owned());
    }
    say(&format!("   bringing the jars of {}", number));
    let pom = new.join("pom.xml");
    fs::write(&pom, POM).map_err(|error| error.to_string())?;
    let mut maven = Command::new("mvn");
    maven
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg(format!("-Drocketmq.version={}", number))
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", new.display()));
    let failure = format!("mvn does not bring release {}", number);
    run_tool(maven, &failure, &new.join("mvn.log"))
}

/// Runs to the end; the first line that speaks of an error explains a failure.
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
