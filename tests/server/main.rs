//! Black-box tests: the real binary, started with a file of settings, and raw bytes on sockets.
//!
//! Each test starts a server of its own on a port that the kernel picks, with all files below a
//! directory of its own. Names say what might go wrong. A behaviour that needs something from the
//! host (mounting, say) is skipped with a line on stderr where the host does not give it.
#![cfg(feature = "server")]
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected comes back"
)]

mod broken_bytes;
mod cut_off;
mod field;
mod files;
mod floods;
mod frames;
mod harness;
mod large;
mod limits;
mod log;
mod lost;
mod memory;
mod overload;
mod peer;
mod requests;
mod settings;
mod start;
mod stop;
mod stuck;
#[path = "../support/mod.rs"]
mod support;
mod visibility;
