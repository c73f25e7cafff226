//! The writer: applies commands in order, publishes once per batch, then answers.
//!
//! A task of the urgent queue, on a core of its own where there are many. It alone holds the
//! table. Whoever has an answer from it sees its effect on every core, because the snapshot is
//! stored before any outcome of the batch is handed out.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::files::Written;
use super::log::log_event;
use super::mailbox::MailboxReader;
use super::notify::Notifier;
use super::persist::Persist;
use super::shared::{Answer, SharedRef};
use super::slices::in_slices;
use super::watch::BEAT;
use crate::route::command::{Command, Effects, Envelope};
use crate::route::snapshot::Snapshot;
use crate::route::table::Table;
use crate::rt;
use crate::wire::pace::Pace;

/// Commands after which a batch is published.
const BATCH_COMMANDS: usize = 1024;
/// Time after which a batch is published.
const BATCH_MS: u64 = 2;

/// What the writer works on.
pub(super) struct Writer {
    pub(super) shared: SharedRef,
    pub(super) table: Table,
    pub(super) mailbox: MailboxReader<Envelope>,
    pub(super) notifier: Notifier,
    pub(super) persist: Persist,
    /// Between two looks for expired brokers (`scanNotActiveBrokerInterval`).
    pub(super) tick_ms: u64,
    /// Replaced snapshots that somebody still reads; freed here, not on a serving core.
    pub(super) retired: Vec<Arc<Snapshot>>,
}

impl Writer {
    /// Runs for ever.
    pub(super) async fn run(self) {
        let shared = Arc::clone(&self.shared);
        shared.writer_beat.of(self.work()).await;
    }

    async fn work(mut self) {
        let mut next_tick = self.shared.clock.mono_ms() + self.tick_ms;
        loop {
            let woken = self.wait(next_tick).await;
            let now = self.shared.clock.mono_ms();
            if now >= next_tick {
                self.tick(now - next_tick).await;
                next_tick = self.shared.clock.mono_ms() + self.tick_ms;
            }
            match woken {
                Woken::Command(first) => self.batch(first).await,
                Woken::Written(written) => self.written(written).await,
                Woken::Time => {}
            }
            self.free_retired();
        }
    }

    async fn wait(&mut self, next_tick: u64) -> Woken {
        let left = next_tick.saturating_sub(self.shared.clock.mono_ms());
        let mut timer = pin!(rt::sleep(Duration::from_millis(left).min(BEAT)));
        let (mailbox, written) = (&mut self.mailbox, &mut self.persist.files.written);
        poll_fn(|cx| {
            if let Poll::Ready(written) = written.poll_pop(cx) {
                return Poll::Ready(Woken::Written(written));
            }
            if let Poll::Ready(envelope) = mailbox.poll_pop(cx) {
                return Poll::Ready(Woken::Command(envelope));
            }
            timer.as_mut().poll(cx).map(|()| Woken::Time)
        })
        .await
    }

    async fn batch(&mut self, first: Envelope) {
        let pace = Pace::default();
        let mut effects = Effects::default();
        let mut answers: Vec<Answer> = Vec::new();
        let end = self.shared.clock.mono_ms() + BATCH_MS;
        let mut next = Some(first);
        let mut commands = 0;
        while let Some(envelope) = next {
            commands += 1;
            self.apply(envelope, &mut effects, &mut answers, &pace)
                .await;
            let full = commands >= BATCH_COMMANDS || self.shared.clock.mono_ms() >= end;
            next = if full { None } else { self.mailbox.try_pop() };
        }
        self.persist.advance(&mut self.table, &mut answers).await;
        self.publish();
        self.answer(answers);
        self.perform(effects);
    }

    async fn apply(
        &mut self,
        envelope: Envelope,
        effects: &mut Effects,
        answers: &mut Vec<Answer>,
        pace: &Pace,
    ) {
        let origin = envelope.origin;
        let parsed_bytes = parsed_bytes(&envelope);
        match envelope.command {
            Command::Persist(change) => self.persist.push(origin, change, answers),
            command => {
                let answered = !matches!(command, Command::Gone);
                let now = self.shared.clock.now();
                let envelope = Envelope { origin, command };
                let outcome = in_slices(self.table.apply(now, envelope, effects, pace)).await;
                if answered {
                    answers.push((origin, outcome));
                }
            }
        }
        self.shared.parsed.give(parsed_bytes);
    }

    async fn written(&mut self, written: Written) {
        let mut answers = Vec::new();
        self.persist.written(written, &mut self.table, &mut answers);
        self.persist.advance(&mut self.table, &mut answers).await;
        self.publish();
        self.answer(answers);
    }

    async fn tick(&mut self, late_ms: u64) {
        let pace = Pace::default();
        let mut effects = Effects::default();
        let now = self.shared.clock.now();
        in_slices(self.table.tick(now, late_ms, &mut effects, &pace)).await;
        self.publish();
        self.perform(effects);
    }

    fn publish(&mut self) {
        if let Some(snapshot) = self.table.publish() {
            self.retired
                .push(self.shared.published.swap(Arc::new(snapshot)));
        }
    }

    /// Hands the outcomes out. Each has a reserved place, so a full inbox means that the rules
    /// of this program are broken, and it must not go on.
    fn answer(&self, answers: Vec<Answer>) {
        for (origin, outcome) in answers {
            let line = &self.shared.cores[origin.core];
            assert!(
                line.inbox.push((origin, outcome)).is_ok(),
                "an outcome found no reserved place"
            );
        }
    }

    fn perform(&mut self, effects: Effects) {
        effects.events.iter().for_each(log_event);
        for conn in effects.close {
            let line = &self.shared.cores[core_of(conn, self.shared.cores.len())];
            line.closing.push(conn);
            line.waker.wake();
        }
        self.notifier.send(effects.notices);
    }

    fn free_retired(&mut self) {
        self.retired
            .retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }
}

/// What the writer has to do next.
enum Woken {
    Command(Envelope),
    Written(Written),
    /// Time for the tick, or for a beat.
    Time,
}

/// What a command holds of the budget for commands on their way.
pub(super) fn parsed_bytes(envelope: &Envelope) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match &envelope.command {
        Command::Register(registration) => registration.body.size_bytes(),
        Command::RegisterTopic { topic, queues } => {
            let names: usize = queues.iter().map(|(name, _)| name.len()).sum();
            topic.len() + names + size_of_val(queues.as_slice())
        }
        Command::Unregister(who) => {
            optional(&who.cluster) + optional(&who.broker_name) + optional(&who.broker_addr)
        }
        Command::DeleteTopic { topic, cluster } => topic.len() + optional(cluster),
        Command::SetWritePerm { broker_name, .. } => broker_name.len(),
        Command::Persist(change) => change.size_bytes(),
        Command::Gone => 0,
    }
}

/// Which core a connection belongs to: its number says so.
pub(super) fn core_of(conn: u64, cores: usize) -> usize {
    (conn % cores as u64) as usize
}
