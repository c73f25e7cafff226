//! What the ledgers say of themselves: every row of `COMPAT.md` has a status and a test that
//! exists, nothing that the code knows is without a row, and `FIELD.md` names no test that there
//! is not.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Suites that a row may name as a whole, and where they are.
const SUITES: [(&str, &str); 8] = [
    ("model", "tests/model.rs"),
    ("golden", "tests/golden.rs"),
    ("interop", "tests/interop/main.rs"),
    ("differential", "tests/differential/main.rs"),
    ("cluster_test", "tests/cluster_test.rs"),
    ("sim", "tests/sim.rs"),
    ("settings", "src/settings/tests.rs"),
    ("wire", "src/wire/mod.rs"),
];

/// One row of a table, by the names of its columns.
struct Row {
    line: String,
    cells: Vec<(String, String)>,
}

impl Row {
    fn cell(&self, column: &str) -> Option<&str> {
        let found = self.cells.iter().find(|(name, _)| name == column);
        found.map(|(_, cell)| cell.as_str())
    }

    fn first(&self) -> &str {
        &self.cells[0].1
    }
}

#[test]
fn every_row_names_tests_that_exist() {
    let tests = test_names();
    let mut wrong = Vec::new();
    for row in rows("tests/COMPAT.md") {
        let shown_by = row.cell("shown by").unwrap_or_default();
        let is_known = |name: &str| match name.strip_prefix('`') {
            Some(rest) => tests.contains(rest.trim_end_matches('`')),
            None => SUITES
                .iter()
                .any(|(suite, path)| *suite == name && Path::new(path).exists()),
        };
        if !shown_by.split(", ").all(is_known) {
            wrong.push(row.line);
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn only_tls_proxy_lines_and_http_pages_are_open() {
    let wrong = rows("tests/COMPAT.md").into_iter().filter(|row| {
        let columns = ["status", "here", "when"];
        let status = columns.iter().find_map(|column| row.cell(column));
        let status = status.unwrap_or_default();
        let first = row.first().trim_matches('`');
        let may_be_open = first.starts_with("tls.")
            || ["TLS", "PROXY protocol lines"].contains(&first)
            || ["namesrv.adminAddress", "namesrv.trustedProxies"].contains(&first);
        let is_judged = row.cell("status").is_none()
            || ["works", "no meaning", "open"]
                .iter()
                .any(|word| status.starts_with(word));
        let why = ["meaning, or why it has none", "differences"];
        let why = why.iter().filter_map(|column| row.cell(column));
        let has_reason = !status.starts_with("no meaning")
            || status.len() > "no meaning: ".len()
            || why.map(str::len).sum::<usize>() > 0;
        !is_judged || !has_reason || (status.starts_with("open") && !may_be_open)
    });
    let wrong: Vec<String> = wrong.map(|row| row.line).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_request_code_has_its_row() {
    let codes = fs::read_to_string("src/wire/codes.rs").unwrap();
    let (requests, _) = codes.split_once("pub mod response").unwrap();
    let listed: BTreeSet<String> = rows("tests/COMPAT.md")
        .iter()
        .filter(|row| row.cell("code").is_some())
        .flat_map(|row| {
            row.first()
                .split(' ')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let known: Vec<&str> = requests
        .lines()
        .filter_map(|line| line.split_once(": i32 = "))
        .map(|(_, code)| code.trim_end_matches(';'))
        .collect();
    assert_eq!(known.len(), 24);
    let missing: Vec<_> = known
        .iter()
        .filter(|code| !listed.contains(**code))
        .collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn every_ext_field_that_is_read_has_its_row() {
    let ledger = fs::read_to_string("tests/COMPAT.md").unwrap();
    let (_, section) = ledger.split_once("## Ext fields").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let listed: BTreeSet<&str> = section
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let readers = [
        "ext.get(\"",
        "ext.boolean(\"",
        "ext.int64(\"",
        "ext.int32(\"",
        "text(\"",
        "name(\"",
    ];
    let mut read = BTreeSet::new();
    for path in rust_files("src/session") {
        let text = fs::read_to_string(path).unwrap();
        for reader in readers {
            let names = text.split(reader).skip(1);
            read.extend(names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    assert!(read.len() > 12, "{read:?}");
    let missing: Vec<_> = read
        .iter()
        .filter(|name| !listed.contains(name.as_str()))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn every_option_and_variable_has_its_row() {
    let firsts: String = rows("tests/COMPAT.md")
        .iter()
        .map(|row| format!("{}\n", row.first()))
        .collect();
    let usage = fs::read_to_string("src/server/cli.rs").unwrap();
    let options = words_with(&usage, "\"--").chain(words_with(&usage, " --"));
    let boot = fs::read_to_string("src/server/boot.rs").unwrap();
    let variables = words_with(&boot, "text(\"");
    let missing: BTreeSet<String> = options
        .map(|name| format!("--{name}"))
        .chain(variables)
        .filter(|name| name.len() > 2 && !firsts.contains(&format!("`{name}`")))
        .collect();
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn every_fault_names_tests_that_exist() {
    let tests = test_names();
    let ledger = fs::read_to_string("tests/FIELD.md").unwrap();
    let mut wrong = Vec::new();
    for line in ledger.lines().filter(|line| line.starts_with("| F")) {
        let words: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let looks_like_a_test = |word: &&&str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            word.chars().all(plain) && word.matches('_').count() > 1
        };
        let named: Vec<_> = words.iter().filter(looks_like_a_test).collect();
        let unknown = named.iter().any(|name| !tests.contains(**name));
        // What only a process can show has its test in `tests/server`, unless it is not there yet.
        let black_box = line.split_once("**black box**: ").map(|(_, rest)| rest);
        let without_test = black_box.is_some_and(|rest| !rest.contains('`'));
        if unknown || without_test {
            wrong.push(line);
        }
    }
    assert_eq!(wrong, Vec::<&str>::new());
}

/// All rows of the tables of a page.
fn rows(path: &str) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap();
    let cut = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let mut rows = Vec::new();
    let mut columns: Option<Vec<String>> = None;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = None;
        } else if let Some(columns) = &columns {
            if !line.starts_with("|---") {
                let cells = columns.iter().cloned().zip(cut(line)).collect();
                let line = line.to_owned();
                rows.push(Row { line, cells });
            }
        } else {
            columns = Some(cut(line));
        }
    }
    assert!(rows.len() > 100, "{} rows", rows.len());
    rows
}

/// Names of all test functions.
fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in ["src", "tests"].into_iter().flat_map(rust_files) {
        let text = fs::read_to_string(path).unwrap();
        // Also those that proptest! makes.
        for (_, rest) in text
            .match_indices("#[test]")
            .map(|(at, _)| text.split_at(at))
        {
            let name = rest
                .split_once("fn ")
                .and_then(|(_, rest)| rest.split_once('('));
            names.extend(name.map(|(name, _)| name.to_owned()));
        }
    }
    names
}

fn words_with<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = String> + 'a {
    text.split(before).skip(1).map(|rest| {
        let word = |c: &char| c.is_ascii_alphabetic() || *c == '-' || *c == '_';
        rest.chars().take_while(word).collect()
    })
}

fn rust_files(folder: &str) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(path.to_str().unwrap()));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files
}
