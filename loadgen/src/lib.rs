//! The load generator: thousands of RocketMQ brokers and clients against one NameServer.
//!
//! ```text
//! flags --config--> plan = topology + schedule          pure, and the same for the same seed
//!                     |
//!                     v       one thread each, open loop
//!                   drive: actors --encode--> socket --inbound--> check against board
//!                     |                                             |
//!                     v seconds                                     v faults
//!                   record --> run --> verdict, summary, result (JSON), hlog, plot (SVG)
//!
//! many runs: compare (two servers, or kept results), find_max (the highest rate)
//! ```
//!
//! What it promises:
//! - Latencies count from the instant at which the plan wanted a request, and the tool's own
//!   delay is measured beside them; a run in which the tool was late says so and fails.
//! - Every answer is judged against what the plan and the acknowledgements so far allow. A wrong,
//!   missing, old or ghostly route fails the run, however fast it came.
//! - It speaks nothing but the wire, so that it drives Java's NameServer just as well.
//!
//! It uses the library's pure half and its fence around glommio, never its server. Read
//! `plan.rs`, `schedule.rs`, `board.rs`, `actor.rs`, `drive/core.rs`, in that order.

pub mod actor;
pub mod board;
pub mod check;
pub mod clock;
pub mod compare;
pub mod condition;
pub mod config;
pub mod drive;
pub mod encode;
pub mod find_max;
pub mod hlog;
pub mod host;
pub mod inbound;
pub mod json;
pub mod metric;
pub mod node;
pub mod op;
pub mod plan;
pub mod plot;
pub mod preflight;
pub mod record;
pub mod result;
pub mod rng;
pub mod run;
pub mod schedule;
pub mod self_test;
pub mod server;
pub mod summary;
pub mod svg;
pub mod topology;
pub mod units;
pub mod verdict;
