//! The gates, by the world whose set-up they share. A world is a process of its own, so that the
//! gates of one do not change the counts of another.
//!
//! Every gate checks that what it counted is what it is meant to count.

mod bodies;
mod routes;
mod tables;

use std::hint::black_box;

use namesrv::wire::frame::{self, FrameLimits};
use namesrv::wire::header::Header;

use crate::measured;

/// Sizes of the tables in which the same change is counted.
pub(crate) const TABLE_BROKERS: [usize; 3] = [100, 1000, 5000];

/// All worlds, the longest first.
pub(crate) const WORLDS: [(&str, fn()); 6] = [
    ("table-5000", || tables::gates(5000)),
    ("table-1000", || tables::gates(1000)),
    ("table-100", || tables::gates(100)),
    ("routes", routes::gates),
    ("bodies", bodies::gates),
    ("index", tables::index_gates),
];

/// Runs one world's gates; the process that valgrind watches.
pub(crate) fn run(name: &str) {
    if let Some((_, gates)) = WORLDS.iter().find(|(world, _)| *world == name) {
        gates();
    }
}

/// The gate of [`tables`] that must not depend on the size.
pub(crate) fn change_gate(brokers: usize) -> String {
    format!("change/1-of-200/{brokers}")
}

/// Counts `work` under a name, unless the program was told to count only another.
fn gate<R>(name: &str, work: impl FnOnce() -> R) -> R {
    if only().is_some_and(|only| only != name) {
        return work();
    }
    println!("{name}");
    measured(work)
}

/// The one gate to look at, an argument behind the world's name.
fn only() -> Option<String> {
    std::env::args().nth(3)
}

/// Counts the cutting of a frame and the reading of its header; returns its code and how many ext
/// fields it has.
fn header_gate(name: &str, bytes: &[u8], limits: &FrameLimits) -> Option<(i32, usize)> {
    gate(name, || {
        let frame = frame::cut(bytes, limits).ok()??;
        match black_box(&Header::parse(&frame, limits)) {
            Ok(header) => Some((header.code, header.ext.fields.len())),
            Err(_) => None,
        }
    })
}
