//! Changes that count only once a file is written: judged in their order against what the ones
//! before them will leave, then written together, then set, then answered.

use super::command::{Change, KvChange, Origin, Outcome};
use super::kv::Kv;
use crate::settings::Settings;
use crate::settings::limits::Limits;
use crate::settings::update::update;
use crate::wire::codes::response::SYSTEM_ERROR;

/// What a round of changes comes to.
#[derive(Debug)]
pub struct Staged<T> {
    /// What to set after the write; `None` when nothing changes and nothing is to be written.
    pub value: Option<T>,
    /// Refused at once.
    pub refused: Vec<(Origin, Outcome)>,
    /// To be answered after the write.
    pub waiting: Vec<Origin>,
}

/// Judges changes of the key-value tables.
pub fn stage_kv(
    current: &Kv,
    changes: impl IntoIterator<Item = (Origin, KvChange)>,
    limits: &Limits,
) -> Staged<Kv> {
    let mut staged = Staged {
        value: None,
        refused: Vec::new(),
        waiting: Vec::new(),
    };
    for (origin, change) in changes {
        let base = staged.value.as_ref().unwrap_or(current);
        match base.changed(&change, limits) {
            Ok(new) => {
                staged.value = new.or(staged.value);
                staged.waiting.push(origin);
            }
            Err(reason) => {
                let outcome = Outcome::Failed(SYSTEM_ERROR, reason.into());
                staged.refused.push((origin, outcome));
            }
        }
    }
    staged
}

/// Settings to come, and what to put into the file for them.
pub type NewSettings = (Settings, Vec<(String, String)>);

/// Judges the bodies of 318s.
pub fn stage_settings(
    current: &Settings,
    bodies: impl IntoIterator<Item = (Origin, bytes::Bytes)>,
) -> Staged<NewSettings> {
    let mut staged: Staged<NewSettings> = Staged {
        value: None,
        refused: Vec::new(),
        waiting: Vec::new(),
    };
    for (origin, body) in bodies {
        let base = staged
            .value
            .as_ref()
            .map_or(current, |(settings, _)| settings);
        match update(base, &body) {
            Ok(update) => {
                staged.waiting.push(origin);
                if update.persist.is_empty() {
                    continue;
                }
                let (settings, persist) = staged
                    .value
                    .get_or_insert_with(|| (current.clone(), Vec::new()));
                *settings = update.settings;
                persist.extend(update.persist);
            }
            Err(error) => {
                let outcome = Outcome::Failed(error.code(), error.to_string().into());
                staged.refused.push((origin, outcome));
            }
        }
    }
    staged
}

/// Sorts a change by the file it belongs to.
pub fn split(change: Change) -> Result<KvChange, bytes::Bytes> {
    match change {
        Change::Kv(change) => Ok(change),
        Change::Settings(body) => Err(body),
    }
}
