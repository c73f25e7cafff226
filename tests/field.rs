//! Faults that people met in public with NameServers: for each its trigger, sent to this server.
//!
//! `FIELD.md` lists all of them: the test that shows that a fault does not occur here, or why it
//! cannot, or that only a running process can show it, or that it is a wish and open.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

mod field {
    mod interop;
    mod liveness;
    mod operating;
    mod parsing;
    mod scale;
    mod security;
    mod starting;
    mod topics;
    pub(crate) mod world;
}

use std::collections::BTreeSet;

/// Every fault has one row, and the rows name exactly the tests that there are.
#[test]
fn the_ledger_is_complete() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let ledger = std::fs::read_to_string(format!("{folder}/FIELD.md")).unwrap();
    let rows: Vec<&str> = ledger
        .lines()
        .filter(|line| line.starts_with("| F"))
        .collect();
    let mut ids: Vec<&str> = rows.iter().map(|row| &row[2..5]).collect();
    ids.sort_unstable();
    let all: Vec<String> = (1..=83).map(|n| format!("F{n:02}")).collect();
    assert_eq!(ids, all);
    let mut tests = BTreeSet::new();
    for file in std::fs::read_dir(format!("{folder}/field")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("fn f"));
        tests.extend(names.filter_map(|rest| {
            let name = rest.split('(').next()?;
            name.as_bytes()[0]
                .is_ascii_digit()
                .then(|| format!("f{name}"))
        }));
    }
    let mut named = BTreeSet::new();
    for row in rows {
        let prefix = row[2..5].to_lowercase() + "_";
        let words = row.split('`').filter(|word| word.starts_with(&prefix));
        named.extend(words.map(str::to_owned));
    }
    assert_eq!(named, tests);
}
