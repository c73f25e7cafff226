//! The body of GET_NAMESRV_CONFIG (319): `key=value` lines, ascending by key (`Configuration`).
//!
//! Owns what a stranger may see. Invariant: one line per key, whatever the values hold; where
//! Java prints a line feed of a value as it is, which then looks like a further key, this prints
//! its escape. Deliberately absent: keys that are null, `NettyClientConfig` and JVM properties
//! unless the file has them (all three as Java), and passwords.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Settings;
use super::keys::{Group, KEYS, is_control};

/// The body. Java's fields win over keys of the file of the same name. Backslashes stay single,
/// as in Java.
pub fn listing(settings: &Settings) -> String {
    let mut lines: BTreeMap<&str, String> = settings
        .extra
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    for key in KEYS
        .iter()
        .filter(|key| matches!(key.group, Group::Namesrv | Group::NettyServer))
    {
        if let Some(value) = key.value(settings) {
            lines.insert(key.name, value);
        }
    }
    let mut out = String::new();
    for (key, value) in &lines {
        push_on_one_line(&mut out, key);
        out.push('=');
        push_on_one_line(&mut out, value);
        out.push('\n');
    }
    out
}

/// Appends `text`, with control characters as escapes that a properties reader undoes.
pub(super) fn push_on_one_line(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push('\t'),
            c if is_control(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}
