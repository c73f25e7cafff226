//! The fuzz targets over their corpus, and that each of them can fail.
//!
//! A target is a function of any bytes that asserts laws, not only that nothing panics: see the
//! first lines of each file in `fuzz/targets`. Most of them read their bytes as operations -
//! requests, pieces, commands - so that mutation changes what is done and not only how it is
//! misspelt; `table` runs its commands against the oracle of the model test.
//!
//! `fuzz/corpus/<target>` is what libFuzzer found worth keeping, minimised; `fuzz/found` are inputs
//! that once broke a law. The fuzzer is a package of its own, on stable Rust, of which the ordinary
//! build compiles nothing but the targets. It needs a C++ compiler, and runs a target like this:
//!
//! ```text
//! cd tests/fuzz && mkdir -p new/session
//! FUZZ=session cargo run --release -- new/session corpus/session -len_control=0 -max_len=2500
//! ```
//!
//! New inputs go into the first folder; `-max_total_time=600` ends a run, `-jobs=8` starts several
//! at once. What a run has found comes into the corpus with
//! `FUZZ=session cargo run --release -- -merge=1 corpus/session new/session`. An input that breaks
//! a law is written as `crash-...`; `FUZZ=session cargo run --release -- crash-...` repeats it,
//! `-minimize_crash=1` makes it small, and once it is understood it belongs into
//! `fuzz/found/<target>/` under a name that says what was wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "model/run.rs"]
mod model;
mod oracle;
mod support;
#[path = "fuzz/targets/mod.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use namesrv::wire::frame::{self, Frame};
use namesrv::wire::header::Header;
use namesrv::wire::json::{self, Value};
use namesrv::wire::register::FilterServers;

use support::node::Node;
use targets::ALL;

/// Fewer would show that a folder was not found.
const FEWEST_INPUTS: usize = 10;

#[test]
fn the_corpus_keeps_all_laws() {
    let mut broken = Vec::new();
    for target in &ALL {
        let inputs = inputs(target.name);
        assert!(
            inputs.len() >= FEWEST_INPUTS,
            "{}: {}",
            target.name,
            inputs.len()
        );
        for (path, data) in &inputs {
            if catch_unwind(|| (target.laws)(data)).is_err() {
                broken.push(path.display().to_string());
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn a_cutter_that_waits_for_too_little_is_caught() {
    caught("frame", |data| {
        targets::frame::laws_of(
            |input, limits| {
                // takes a frame whose last byte has not come
                let longer = [input, b"\0"].concat();
                match frame::cut(&longer, limits) {
                    Ok(Some(frame)) if frame.total_bytes > input.len() => Ok(Some(Frame {
                        header: &[],
                        body: &[],
                        ..frame
                    })),
                    _ => frame::cut(input, limits),
                }
            },
            data,
        );
    });
}

#[test]
fn a_header_reader_that_lets_the_first_of_equal_keys_win_is_caught() {
    caught("header", |data| {
        targets::header::laws_of(
            |frame, limits| {
                let mut header = Header::parse(frame, limits)?;
                // only where the scan, which knows no leading comma, gave up
                if frame.header.starts_with(b"{,") {
                    header.ext.fields.reverse();
                }
                Ok(header)
            },
            data,
        );
    });
}

#[test]
fn a_header_reader_that_cuts_versions_is_caught() {
    caught("header", |data| {
        targets::header::laws_of(
            |frame, limits| {
                let mut header = Header::parse(frame, limits)?;
                if frame.body == b"body" {
                    header.version &= 0xff;
                }
                Ok(header)
            },
            data,
        );
    });
}

#[test]
fn a_json_reader_that_forgets_a_last_member_is_caught() {
    caught("json", |data| {
        targets::json::laws_of(
            |text| {
                let mut value = json::parse(text)?;
                if let Value::Object(members) = &mut value {
                    members.pop();
                }
                Ok(value)
            },
            data,
        );
    });
}

#[test]
fn a_body_that_depends_on_pauses_is_caught() {
    caught("register", |data| {
        targets::register::laws_of(
            |input, limits, slice| {
                let mut body = targets::register::parse(input, limits, slice)?;
                if slice < 64 {
                    body.topics.truncate(1);
                }
                Ok(body)
            },
            data,
        );
    });
}

#[test]
fn a_body_that_loses_its_filter_servers_is_caught() {
    caught("register", |data| {
        targets::register::laws_of(
            |input, limits, slice| {
                let mut body = targets::register::parse(input, limits, slice)?;
                if !input.compressed {
                    body.filter_servers = FilterServers::Unchanged;
                }
                Ok(body)
            },
            data,
        );
    });
}

#[test]
fn a_session_that_drops_a_piece_is_caught() {
    caught("session", |data| {
        targets::session::laws_of(
            |node, conn, bytes, now_ms| match bytes {
                [b'}'] => Vec::new(),
                _ => node.send(conn, bytes, now_ms),
            },
            data,
        );
    });
}

#[test]
fn a_session_that_answers_twice_is_caught() {
    caught("session", |data| {
        targets::session::laws_of(
            |node, conn, bytes, now_ms| node.send(conn, bytes, now_ms).repeat(2),
            data,
        );
    });
}

#[test]
fn a_table_with_another_setting_is_caught() {
    caught("table", |data| {
        targets::table::laws_of(
            |rule| Node::new(&[("deleteTopicWithBrokerRegistration", "true")], rule),
            data,
        );
    });
}

/// The corpus finds what was planted: at least one of its inputs breaks a law.
fn caught(name: &str, laws: impl Fn(&[u8])) {
    let found = |data: &[u8]| catch_unwind(AssertUnwindSafe(|| laws(data))).is_err();
    assert!(
        inputs(name).iter().any(|(_, data)| found(data)),
        "nothing in the corpus of {name} sees it"
    );
}

/// The corpus of a target, and what was found with it.
fn inputs(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
    let mut inputs = Vec::new();
    for kind in ["corpus", "found"] {
        let folder = root.join(kind).join(name);
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            inputs.push((path, data));
        }
    }
    inputs.sort();
    inputs
}
