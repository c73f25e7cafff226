//! The shell: cores, sockets, clock, files. It moves bytes and decides when the pure layers are
//! called; RocketMQ's rules are theirs.

mod boot;
pub mod cli;
mod clock;
mod cluster_test;
mod conn;
mod connection;
mod core;
mod files;
mod jobs;
#[cfg(test)]
mod limits_tests;
mod log;
pub mod mailbox;
mod notify;
mod permits;
mod persist;
mod shared;
mod slices;
mod start;
mod unsent;
mod watch;
mod writer;

use std::process::exit;

use crate::rt::Panicked;

pub use boot::main;

/// Ends the process: something that everything depends on has panicked. Connections of a dead
/// executor would hang, and its port would still be given connections.
fn die(what: &str, panic: &Panicked) {
    fail(&format!("{what} {panic}"));
}

/// Ends the process with a sentence.
fn fail(message: &str) {
    tracing::error!("{message}");
    eprintln!("namesrv: {message}");
    exit(1)
}
