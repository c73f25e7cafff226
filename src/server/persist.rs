//! Changes that must reach a file before they count. For each file there is at most one write
//! under way; what arrives meanwhile forms the next. Other commands go on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::files::{Content, Files, Which, WriteRequest, Written};
use super::log;
use super::shared::Answer;
use super::slices::in_slices;
use crate::route::command::{Change, KvChange, Origin, Outcome};
use crate::route::kv::Kv;
use crate::route::staging::{NewSettings, Staged, split, stage_kv, stage_settings};
use crate::route::table::Table;
use crate::settings::limits::Limits;
use crate::wire::codes::{remark, response};
use crate::wire::pace::Pace;

/// The writer's changes on their way to the files.
pub(super) struct Persist {
    pub(super) files: Files,
    limits: Limits,
    kv: Lane<KvChange, Kv>,
    settings: Lane<Bytes, NewSettings>,
    /// What is held by changes that wait.
    waiting_bytes: usize,
}

/// One file's changes.
struct Lane<C, T> {
    waiting: VecDeque<(Origin, C)>,
    /// What is being written and who waits for it.
    under_way: Option<(T, Vec<Origin>)>,
}

impl<C, T> Default for Lane<C, T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: None,
        }
    }
}

impl Persist {
    pub(super) fn new(files: Files, limits: Limits) -> Self {
        Self {
            files,
            limits,
            kv: Lane::default(),
            settings: Lane::default(),
            waiting_bytes: 0,
        }
    }

    /// Takes a change in; it is looked at by the next [`Persist::advance`].
    pub(super) fn push(&mut self, origin: Origin, change: Change, answers: &mut Vec<Answer>) {
        let bytes = change.size_bytes();
        if self.waiting_bytes + bytes > self.limits.changes_waiting_bytes {
            let busy = Outcome::Failed(response::SYSTEM_BUSY, remark::OVERLOAD.into());
            answers.push((origin, busy));
            return;
        }
        self.waiting_bytes += bytes;
        match split(change) {
            Ok(change) => self.kv.waiting.push_back((origin, change)),
            Err(body) => self.settings.waiting.push_back((origin, body)),
        }
    }

    /// Begins writes where none is under way.
    pub(super) async fn advance(&mut self, table: &mut Table, answers: &mut Vec<Answer>) {
        if self.kv.under_way.is_none() && !self.kv.waiting.is_empty() {
            self.begin_kv(table, answers).await;
        }
        if self.settings.under_way.is_none() && !self.settings.waiting.is_empty() {
            self.begin_settings(table, answers);
        }
        if self.kv.waiting.is_empty() && self.settings.waiting.is_empty() {
            self.waiting_bytes = 0;
        }
    }

    /// A write has ended: its changes count now, or never.
    pub(super) fn written(
        &mut self,
        (which, result): Written,
        table: &mut Table,
        answers: &mut Vec<Answer>,
    ) {
        let waiting = match which {
            Which::Kv => self.kv.under_way.take().map(|(kv, waiting)| {
                if result.is_ok() {
                    table.set_kv(Arc::new(kv));
                }
                waiting
            }),
            Which::Settings => {
                self.settings
                    .under_way
                    .take()
                    .map(|((settings, changes), waiting)| {
                        if result.is_ok() {
                            log::settings_changed(&changes);
                            table.set_settings(Arc::new(settings));
                        }
                        waiting
                    })
            }
        };
        if let Err(reason) = &result {
            log::write_failed(reason);
        }
        finish(waiting.unwrap_or_default(), &result, answers);
    }

    async fn begin_kv(&mut self, table: &Table, answers: &mut Vec<Answer>) {
        let changes = self.kv.waiting.drain(..);
        let Staged {
            value,
            refused,
            waiting,
        } = stage_kv(table.kv(), changes, &self.limits);
        answers.extend(refused);
        let Some(kv) = value else {
            return finish(waiting, &Ok(()), answers);
        };
        let text = in_slices(kv.file_text(&Pace::default())).await;
        let request = WriteRequest {
            which: Which::Kv,
            path: PathBuf::from(&table.settings().kv_config_path),
            content: Content::Whole(text),
        };
        match self.files.write(request) {
            Ok(()) => self.kv.under_way = Some((kv, waiting)),
            Err(reason) => finish(waiting, &Err(reason), answers),
        }
    }

    fn begin_settings(&mut self, table: &Table, answers: &mut Vec<Answer>) {
        let bodies = self.settings.waiting.drain(..);
        let Staged {
            value,
            refused,
            waiting,
        } = stage_settings(table.settings(), bodies);
        answers.extend(refused);
        let Some(new) = value else {
            return finish(waiting, &Ok(()), answers);
        };
        let request = WriteRequest {
            which: Which::Settings,
            path: PathBuf::from(&table.settings().config_store_path),
            content: Content::Properties(new.1.clone()),
        };
        match self.files.write(request) {
            Ok(()) => self.settings.under_way = Some((new, waiting)),
            Err(reason) => finish(waiting, &Err(reason), answers),
        }
    }
}

fn finish(waiting: Vec<Origin>, result: &Result<(), String>, answers: &mut Vec<Answer>) {
    let outcome = || match result {
        Ok(()) => Outcome::Done,
        Err(reason) => Outcome::Failed(response::SYSTEM_ERROR, reason.clone().into()),
    };
    answers.extend(waiting.into_iter().map(|origin| (origin, outcome())));
}
