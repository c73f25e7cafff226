//! The routing tables: pure, deterministic, synchronous.
//!
//! Same commands in the same order with the same `now` give the same tables and the same outcomes
//! on any machine (`RouteInfoManager` minus its locks, clock and sockets). One writer owns the
//! [`table::Table`] and publishes [`snapshot::Snapshot`]s; everybody else reads those.
//!
//! Invariants:
//! - a member of a group and its live entry exist together: whatever removes the one removes the
//!   other in the same command;
//! - a group has at least one member; a topic has at least one queue entry, and each belongs to
//!   an existing group; a cluster has at least one broker name;
//! - the cost of a command is that of what it changes, never that of the tables.
//!
//! Deliberately absent: bodies kept per topic (they are joined from fragments on each read, so
//! none can be stale) and liveness inside the tables (see [`liveness`]).

pub mod command;
pub mod group;
pub mod index;
pub mod join;
pub mod kv;
pub mod liveness;
pub mod query;
mod register;
pub mod snapshot;
mod sorted;
pub mod staging;
pub mod table;
pub mod topic;
mod topic_commands;
mod unregister;

use std::sync::Arc;

/// A name or address, shared by everything that mentions it.
pub type Name = Arc<str>;

/// The time, handed in from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never jumps, since the server started: liveness counts in it.
    pub mono_ms: u64,
    /// Milliseconds since 1970: for time stamps that go onto the wire.
    pub wall_ms: i64,
}

impl Now {
    /// Wall clock less monotonic clock.
    pub fn wall_offset_ms(&self) -> i64 {
        self.wall_ms.saturating_sub_unsigned(self.mono_ms)
    }
}

/// The two JSON forms of an answer (namesrv.md 1.4): clients before 4.9.4 split the text of
/// `brokerAddrs` themselves and need bare keys, strict parsers need quoted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Integer keys bare, text raw: fastjson's default.
    Legacy,
    /// Integer keys quoted, pure ASCII: fastjson's `BrowserCompatible` with sorted keys.
    Standard,
}

impl Form {
    /// Appends `text` as a JSON string of this form.
    pub fn write_string(self, out: &mut Vec<u8>, text: &str) {
        match self {
            Self::Legacy => crate::wire::fastjson::write_string(out, text),
            Self::Standard => crate::wire::fastjson::write_string_standard(out, text),
        }
    }

    /// Appends a `long`.
    pub fn write_long(self, out: &mut Vec<u8>, value: i64) {
        match self {
            Self::Legacy => crate::wire::fastjson::write_i64(out, value),
            Self::Standard => crate::wire::fastjson::write_i64_standard(out, value),
        }
    }

    /// Appends an integer key with its colon.
    pub fn write_key(self, out: &mut Vec<u8>, key: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(key).as_bytes();
        match self {
            Self::Legacy => out.extend_from_slice(digits),
            Self::Standard => {
                out.push(b'"');
                out.extend_from_slice(digits);
                out.push(b'"');
            }
        }
        out.push(b':');
    }
}

/// One value for each [`Form`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerForm<T> {
    legacy: T,
    standard: T,
}

impl<T> PerForm<T> {
    /// Makes both.
    pub fn new(make: impl Fn(Form) -> T) -> Self {
        Self {
            legacy: make(Form::Legacy),
            standard: make(Form::Standard),
        }
    }

    /// The one for `form`.
    pub fn get(&self, form: Form) -> &T {
        match form {
            Form::Legacy => &self.legacy,
            Form::Standard => &self.standard,
        }
    }
}
