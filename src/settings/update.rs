//! UPDATE_NAMESRV_CONFIG (318): what a request changes, or why it changes nothing
//! (`DefaultRequestProcessor.updateConfig`, `Configuration.update`).
//!
//! Owns the judgement of a peer's wishes. Invariants: all or nothing; a key that decides which
//! files are touched or who may administer is never changed; a value is one line. Java applies
//! what it can parse, drops the rest and answers 0; here one bad value refuses the request with
//! its reason. Deliberately absent: writing the file, and publishing the new settings after it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thiserror::Error;

use super::Settings;
use super::keys::{self, Group, is_plain_text};
use super::load::{Problem, bad_value};
use super::properties;
use crate::wire::codes::response::{NO_PERMISSION, SYSTEM_ERROR};

/// An accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The settings with the changes.
    pub settings: Settings,
    /// What to put into the file at `configStorePath`, with [`properties::update`]. Empty when
    /// the request changes nothing: then nothing is written.
    pub persist: Vec<(String, String)>,
}

/// Why a request is refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// The body is not a properties text.
    #[error("string2Properties error")]
    BadText,
    /// A key is in the black list, the fixed or the configured one.
    #[error("Can not update config in black list.")]
    BlackList,
    /// A key does not take its value.
    #[error("{}", join(.0))]
    BadValue(Vec<Problem>),
}

impl UpdateError {
    /// The code of the answer; the error's text is the remark.
    pub fn code(&self) -> i32 {
        match self {
            Self::BadText | Self::BadValue(_) => SYSTEM_ERROR,
            Self::BlackList => NO_PERMISSION,
        }
    }
}

/// Judges the body of a 318. An empty body, blanks and comments are a request without changes.
/// Keys that are neither Java's nor in the file are dropped, as in Java.
///
/// The body is decoded as Java does it: read as UTF-8, encoded again, and that is taken for
/// ISO-8859-1, so that only `\uXXXX` carries other than ASCII unharmed.
pub fn update(settings: &Settings, body: &[u8]) -> Result<Update, UpdateError> {
    let text = String::from_utf8_lossy(body);
    let entries = properties::read(text.as_bytes()).map_err(|_| UpdateError::BadText)?;
    if entries.iter().any(|entry| refused(settings, &entry.key)) {
        return Err(UpdateError::BlackList);
    }
    let mut next = settings.clone();
    let mut persist: Vec<(String, String)> = Vec::new();
    let mut problems = Vec::new();
    // For equal keys the last counts; a map gives that, and an order.
    let wished: BTreeMap<String, String> = entries
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    for (key, value) in wished {
        match change(&mut next, &key, &value) {
            Ok(Some(value)) => persist.push((key, value)),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(Update {
            settings: next,
            persist,
        })
    } else {
        Err(UpdateError::BadValue(problems))
    }
}

/// Whether 318 must not touch `key`: compared exactly, as `validateBlackListConfigExist`.
fn refused(settings: &Settings, key: &str) -> bool {
    keys::find(key).is_some_and(keys::Key::refused_by_update)
        || settings
            .config_black_list
            .split(';')
            .any(|listed| listed == key && !key.is_empty())
}

/// Changes one key; returns the value to persist, or nothing for a key that is dropped.
fn change(next: &mut Settings, name: &str, value: &str) -> Result<Option<String>, Problem> {
    let key = keys::find(name);
    let listed = next.extra.contains_key(name);
    match key {
        Some(key) if listed || matches!(key.group, Group::Namesrv | Group::NettyServer) => {
            let plain = Some(value).filter(|value| is_plain_text(keys::trim(value)));
            plain
                .and_then(|value| key.set(next, value))
                .ok_or_else(|| bad_value(key, None, value))?;
            let value = key.value(next).unwrap_or_default();
            if listed {
                next.extra.insert(name.to_owned(), value.clone());
            }
            Ok(Some(value))
        }
        None if listed => {
            if !is_plain_text(value) {
                return Err(Problem {
                    origin: None,
                    key: name.to_owned(),
                    value: String::new(),
                    fix: format!("must be {}", keys::plain_text()),
                });
            }
            next.extra.insert(name.to_owned(), value.to_owned());
            Ok(Some(value.to_owned()))
        }
        _ => Ok(None),
    }
}

/// At most a screenful: the remark goes back to the sender.
fn join(problems: &[Problem]) -> String {
    let mut parts: Vec<String> = problems.iter().take(8).map(ToString::to_string).collect();
    if problems.len() > parts.len() {
        parts.push(format!("and {} more", problems.len() - parts.len()));
    }
    parts.join("; ")
}
