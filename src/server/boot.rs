//! From the command line to a plan: options, files, environment, and what to print instead of
//! running.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};

use chrono::{TimeDelta, Utc};

use super::cli::{self, Options, Parsed};
use super::start::{Plan, run};
use crate::route::kv::Kv;
use crate::settings::limits::Limits;
use crate::settings::load::{Sources, Warning, tls_config_file};
use crate::settings::values::{AdminAddress, TlsMode};
use crate::settings::{Settings, Surroundings, print};

/// Status of a start that failed, as Java's.
pub(super) const FAILED: i32 = 255;

/// The time zone of Java's log lines, `-p` among them: GMT+8.
const JAVA_LOG_HOURS: i64 = 8;

/// Runs the program; returns its status.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    let Ok(args) = args
        .skip(1)
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
    else {
        eprintln!("namesrv: the arguments must be UTF-8");
        return 1;
    };
    let options = match cli::parse(&args) {
        Parsed::Run(options) => options,
        Parsed::Exit {
            code,
            stdout,
            stderr,
        } => {
            eprint!("{stderr}");
            // Whoever closed the pipe does not want the text.
            let _ = io::stdout().write_all(stdout.as_bytes());
            return code.into();
        }
    };
    match prepare(&options) {
        Ok(Prepared::Run(plan)) => run(&plan),
        Ok(Prepared::Print(text)) => {
            let _ = io::stdout().write_all(text.as_bytes());
            0
        }
        Err(problems) => {
            for problem in problems {
                eprintln!("namesrv: {problem}");
            }
            FAILED
        }
    }
}

enum Prepared {
    Run(Box<Plan>),
    Print(String),
}

/// Reads what there is to read; lists everything that is wrong with it.
fn prepare(options: &Options) -> Result<Prepared, Vec<String>> {
    let file = match &options.config_file {
        None => None,
        Some(path) => match fs::read(path) {
            Ok(bytes) => Some((path.as_str(), bytes)),
            Err(error) => {
                return Err(vec![format!(
                    "the configuration {path:?} cannot be read: {error}"
                )]);
            }
        },
    };
    let (settings, warnings) = load(options, file.as_ref().map(|(p, b)| (*p, &b[..])))?;
    if options.print {
        let now = Utc::now() + TimeDelta::hours(JAVA_LOG_HOURS);
        let stamp = now.format("%Y-%m-%d %H:%M:%S").to_string();
        return Ok(Prepared::Print(print::java_fields(&settings, &stamp)));
    }
    let missing = missing_features(&settings);
    if !missing.is_empty() {
        return Err(missing);
    }
    let limits = Limits::with_settings(&settings);
    let kv = load_kv(&settings, &limits)?;
    if options.check {
        let warnings: String = warnings.iter().map(|w| format!("warning: {w}\n")).collect();
        return Ok(Prepared::Print(warnings + &print::all(&settings)));
    }
    if let Some((path, _)) = file {
        println!("load config properties file OK, {path}");
    }
    for warning in &warnings {
        eprintln!("namesrv: warning: {warning}");
    }
    Ok(Prepared::Run(Box::new(Plan {
        settings,
        limits,
        kv,
    })))
}

fn load(
    options: &Options,
    file: Option<(&str, &[u8])>,
) -> Result<(Settings, Vec<Warning>), Vec<String>> {
    let text = |name: &str| env::var(name).ok();
    let surroundings = Surroundings {
        user_home: text("HOME").unwrap_or_else(|| "/root".to_owned()),
        rocketmq_home: text("ROCKETMQ_HOME"),
        serialize_type: text("ROCKETMQ_SERIALIZE_TYPE"),
        namesrv_addr: text("NAMESRV_ADDR").filter(|addr| !addr.is_empty()),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|cpus| u16::try_from(cpus.get()).ok())
            .unwrap_or(1),
    };
    let mut sources = Sources {
        file,
        defines: &options.defines,
        tls_file: None,
    };
    let path = tls_config_file(&sources);
    let tls = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(vec![format!(
                "tls.config.file {path:?} cannot be read: {error}"
            )]);
        }
    };
    sources.tls_file = tls.as_deref();
    Settings::from_properties(&sources, &surroundings)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// Settings that ask for what this version does not have yet: a server that ignored them would
/// let plain connections in where none are wanted, or leave an operator without a page.
fn missing_features(settings: &Settings) -> Vec<String> {
    let mut missing = Vec::new();
    if settings.tls.mode == TlsMode::Enforcing {
        missing.push(
            "tls.server.mode=enforcing: this version has no TLS; a proxy in front can end it, and \
             tls.server.mode=disabled says that plain connections are wanted"
                .to_owned(),
        );
    }
    if matches!(settings.admin_address, AdminAddress::At(..)) {
        missing.push(
            "namesrv.adminAddress: this version has no HTTP pages yet; leave the key out, or say off"
                .to_owned(),
        );
    }
    if !settings.trusted_proxies.0.is_empty() {
        missing.push(
            "namesrv.trustedProxies: this version does not read PROXY lines yet; leave the key out"
                .to_owned(),
        );
    }
    missing
}

/// A file that is missing, or a directory in its place, is an empty table, as in Java.
fn load_kv(settings: &Settings, limits: &Limits) -> Result<Kv, Vec<String>> {
    let path = &settings.kv_config_path;
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory
            ) =>
        {
            return Ok(Kv::default());
        }
        Err(error) => {
            return Err(vec![format!(
                "kvConfigPath {path:?} cannot be read: {error}"
            )]);
        }
    };
    Kv::from_file(&bytes, limits).map_err(|error| {
        vec![format!(
            "kvConfigPath {path:?} cannot be used: {error}; repair it, or take its .bak"
        )]
    })
}
