//! What `-p` and `--check` print.
//!
//! Owns the form of the lines. Invariant: one line per key, no password. Deliberately absent: the
//! clock and the printing; the time stamp comes in as a text.

use std::fmt::Write;

use super::Settings;
use super::keys::{Group, KEYS, Key, Kind};
use super::listing::push_on_one_line;

/// `-p`, as Java 5.3.3 logs it: the fields of `NamesrvConfig`, `NettyServerConfig` and
/// `NettyClientConfig` in the order of their declaration, null as empty, behind the head of the
/// console logger. `stamp` is `2026-11-30 05:56:04`, in GMT+8 as all of RocketMQ's logs.
pub fn java_fields(settings: &Settings, stamp: &str) -> String {
    let mut out = String::new();
    for key in KEYS
        .iter()
        .filter(|key| !matches!(key.group, Group::Jvm | Group::Own))
    {
        let value = key.value(settings).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(out, "{stamp} INFO main - {}=", key.printed_name());
        push_on_one_line(&mut out, &value);
        out.push('\n');
    }
    out
}

/// `--check`: every key that has a value of its own, as `key=value` lines in the order of the
/// table. A key that stands in the table twice is printed once.
pub fn all(settings: &Settings) -> String {
    let mut out = String::new();
    for (index, key) in KEYS.iter().enumerate() {
        let own_value = !matches!(key.kind, Kind::DefaultOf(_) | Kind::Surrounding(_));
        let seen = KEYS[..index].iter().any(|earlier| earlier.name == key.name);
        if own_value && !seen {
            let _ = write!(out, "{}=", key.name);
            push_on_one_line(&mut out, &shown(key, settings));
            out.push('\n');
        }
    }
    out
}

fn shown(key: &Key, settings: &Settings) -> String {
    let value = key.value(settings).unwrap_or_default();
    if key.is_secret() && !value.is_empty() {
        "***".to_owned()
    } else {
        value
    }
}
