//! The log: one line per state change, who, what, why; none per request. Written by a thread of
//! its own, which drops and counts when it cannot keep up.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use logroller::{Compression, LogRoller, LogRollerBuilder, Rotation, RotationSize};
use tracing::{info, warn};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};

use super::connection::EndReason;
use crate::route::command::{BrokerRef, Event, Leave};
use crate::rt::{Panicked, Stream};
use crate::settings::values::LogTarget;

/// Size at which the file is rotated, and how many old ones are kept: as Java's.
const ROTATE_MB: u64 = 100;
const KEEP_FILES: u64 = 5;
/// Lines that may wait for the disk; more are dropped and counted.
const WAITING_LINES: usize = 16 * 1024;

/// Starts the log. Lines are written as long as the guard lives. A file that cannot be written
/// is replaced by standard error.
pub(super) fn start(target: &LogTarget) -> WorkerGuard {
    let (writer, problem) = match target {
        LogTarget::Stderr => (None, None),
        LogTarget::File(path) => match open(Path::new(path)) {
            Ok(roller) => (Some(roller), None),
            Err(problem) => (None, Some(problem)),
        },
    };
    let builder = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES)
        .thread_name("namesrv-log");
    let (lines, guard) = match writer {
        Some(roller) => builder.finish(roller),
        None => builder.finish(io::stderr()),
    };
    // Set once per process; a second start within one is only done by tests.
    let _ = tracing_subscriber::fmt()
        .with_writer(lines)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        .try_init();
    if let Some(problem) = problem {
        warn!(problem, "the log goes to standard error");
    }
    guard
}

fn open(path: &Path) -> Result<LogRoller, String> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let name = path
        .file_name()
        .map(Path::new)
        .unwrap_or_else(|| Path::new("namesrv.log"));
    std::fs::create_dir_all(directory)
        .and_then(|()| OpenOptions::new().append(true).create(true).open(path))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    LogRollerBuilder::new(directory, name)
        .rotation(Rotation::SizeBased(RotationSize::MB(ROTATE_MB)))
        .max_keep_files(KEEP_FILES)
        .compression(Compression::Gzip)
        .build()
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Logs a change of the tables.
pub(super) fn log_event(event: &Event) {
    match event {
        Event::BrokerJoined(broker) => joined(broker),
        Event::BrokerLeft(broker, why) => left(broker, *why),
        Event::StateVersionConflict {
            broker,
            holder,
            state_versions,
        } => warn!(
            cluster = &*broker.cluster,
            broker = &*broker.broker_name,
            id = broker.broker_id,
            addr = &*broker.addr,
            holder = &**holder,
            holder_state_version = state_versions.0,
            state_version = state_versions.1,
            "registration ignored: the holder of this id has a higher state version"
        ),
        Event::NameInTwoClusters {
            broker,
            group_cluster,
        } => warn!(
            cluster = &*broker.cluster,
            broker = &*broker.broker_name,
            addr = &*broker.addr,
            group_cluster = &**group_cluster,
            "one broker name is used in two clusters"
        ),
        Event::Stalled { late_ms } => {
            warn!(
                late_ms,
                "the machine stood still; all deadlines are postponed"
            );
        }
    }
}

fn joined(broker: &BrokerRef) {
    info!(
        cluster = &*broker.cluster,
        broker = &*broker.broker_name,
        id = broker.broker_id,
        addr = &*broker.addr,
        "broker registered"
    );
}

fn left(broker: &BrokerRef, why: Leave) {
    let (reason, silent_ms) = match why {
        Leave::Unregistered => ("unregistered", 0),
        Leave::ConnectionClosed => ("connection closed", 0),
        Leave::Expired { silent_ms } => ("expired", silent_ms),
        Leave::Replaced => ("replaced", 0),
        Leave::Conflict => ("lost a conflict of state versions", 0),
    };
    info!(
        cluster = &*broker.cluster,
        broker = &*broker.broker_name,
        id = broker.broker_id,
        addr = &*broker.addr,
        reason,
        silent_ms,
        "broker removed"
    );
}

/// A connection that did not end by its peer's will.
pub(super) fn connection_ended(conn: u64, stream: &Stream, reason: EndReason) {
    let why = match reason {
        EndReason::Closed | EndReason::Broken | EndReason::Stopping => return,
        EndReason::Malformed(error) => error.to_string(),
        EndReason::Idle => "idle".to_owned(),
        EndReason::LateFrame => "a large frame came too slowly".to_owned(),
        EndReason::Expired => "its last broker expired".to_owned(),
        EndReason::Memory => "it kept bytes longest while memory was short".to_owned(),
    };
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "unknown".to_owned(), |addr| addr.to_string());
    info!(conn, peer, why, "connection closed");
}

/// A panic was contained in one connection.
pub(super) fn connection_panicked(conn: u64, panic: &Panicked) {
    tracing::error!(conn, panic = %panic, "a connection's task panicked; the connection is closed");
}

/// Accepting failed, most likely for want of descriptors.
pub(super) fn accept_failed(error: &io::Error) {
    warn!(%error, "cannot accept connections for now");
}

/// A 905 did not reach its broker.
pub(super) fn notice_failed(target: &str, error: &io::Error) {
    info!(target_broker = target, %error, "a change of the lowest broker id could not be told");
}

/// A 318 has been written and is in force.
pub(super) fn settings_changed(changes: &[(String, String)]) {
    for (key, value) in changes {
        info!(key, value, "setting changed");
    }
}

/// A change was refused because its file could not be written.
pub(super) fn write_failed(reason: &str) {
    warn!(reason, "a change was not made");
}
