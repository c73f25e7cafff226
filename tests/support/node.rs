//! The whole server minus sockets, on one thread: sessions, the table, and what the shell does
//! between them, with time handed in.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use namesrv::route::Now;
use namesrv::route::command::{
    Change, Command, Effects, Envelope, Event, MinBrokerIdNotice, Origin, Outcome,
};
use namesrv::route::kv::Kv;
use namesrv::route::snapshot::Snapshot;
use namesrv::route::staging::{split, stage_kv, stage_settings};
use namesrv::route::table::Table;
use namesrv::session::elsewhere::Asked;
use namesrv::session::jobs::DigestKeys;
use namesrv::session::notice::notice_frame;
use namesrv::session::{Env, Next, Session};
use namesrv::settings::Settings;
use namesrv::settings::limits::Limits;
use namesrv::wire::frame::SerializeType;
use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::reply::Output;

/// A server without sockets.
pub(crate) struct Node {
    table: Table,
    snapshot: Arc<Snapshot>,
    sessions: HashMap<u64, Connection>,
    next_conn: u64,
    limits: Limits,
    keys: DigestKeys,
    unchanged_rule: bool,
    effects: Effects,
    /// Commands that reached the writer: shows what the unchanged rule saves.
    pub(crate) commands: u64,
    /// Routes of the production environment that `clusterTest` asks, by topic.
    pub(crate) production: HashMap<String, Bytes>,
}

struct Connection {
    session: Session,
    input: Vec<u8>,
}

impl Node {
    /// An empty server; `unchanged_rule` off makes every registration take the full path.
    pub(crate) fn new(settings: &[(&str, &str)], unchanged_rule: bool) -> Self {
        Self::with_limits(settings, unchanged_rule, Limits::default())
    }

    /// The same with other limits.
    pub(crate) fn with_limits(
        settings: &[(&str, &str)],
        unchanged_rule: bool,
        limits: Limits,
    ) -> Self {
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let table = Table::new(hasher, Arc::new(make(settings)), Arc::default(), &limits);
        Self {
            snapshot: Arc::new(table.snapshot()),
            table,
            sessions: HashMap::new(),
            next_conn: 1,
            limits,
            keys: DigestKeys::new([1, 2, 3, 4, 5, 6, 7, 8]),
            unchanged_rule,
            effects: Effects::default(),
            commands: 0,
            production: HashMap::new(),
        }
    }

    /// Replaces the settings, as a 318 does.
    pub(crate) fn set_settings(&mut self, settings: &[(&str, &str)]) {
        self.table.set_settings(Arc::new(make(settings)));
        self.publish();
    }

    /// Replaces the key-value tables.
    pub(crate) fn set_kv(&mut self, kv: Kv) {
        self.table.set_kv(Arc::new(kv));
        self.publish();
    }

    /// A new connection.
    pub(crate) fn connect(&mut self) -> u64 {
        let conn = self.next_conn;
        self.next_conn += 1;
        let session = Session::new(0, conn);
        self.sessions.insert(
            conn,
            Connection {
                session,
                input: Vec::new(),
            },
        );
        conn
    }

    /// Whether the server still holds the connection.
    pub(crate) fn is_open(&self, conn: u64) -> bool {
        self.sessions.contains_key(&conn)
    }

    /// Hands bytes in and returns all bytes that come back once everything has settled.
    pub(crate) fn send(&mut self, conn: u64, bytes: &[u8], now_ms: u64) -> Vec<u8> {
        let now = at(now_ms);
        let mut answers = Vec::new();
        let Some(mut connection) = self.sessions.remove(&conn) else {
            return answers;
        };
        connection.input.extend_from_slice(bytes);
        let mut open = true;
        loop {
            let mut out = Output::default();
            let fed = {
                let env = env(
                    &self.snapshot,
                    &self.limits,
                    &self.keys,
                    now,
                    self.unchanged_rule,
                );
                connection.session.feed(&connection.input, &env, &mut out)
            };
            flush(&mut out, &mut answers);
            connection.input.drain(..fed.used);
            match self.settle(&mut connection, fed.next, now, &mut answers) {
                Step::Again => {}
                Step::Enough => break,
                Step::Close => {
                    open = false;
                    break;
                }
            }
        }
        if open {
            self.sessions.insert(conn, connection);
        } else {
            self.end(&connection.session, now);
        }
        answers
    }

    /// The connection ends.
    pub(crate) fn close(&mut self, conn: u64, now_ms: u64) {
        if let Some(connection) = self.sessions.remove(&conn) {
            self.end(&connection.session, at(now_ms));
        }
    }

    /// The writer's tick: expiry. Connections whose last broker expired are closed.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.late_tick(now_ms, 0);
    }

    /// A tick that comes late.
    pub(crate) fn late_tick(&mut self, now_ms: u64, late_ms: u64) {
        let pace = Pace::default();
        run_to_end(
            self.table
                .tick(at(now_ms), late_ms, &mut self.effects, &pace),
        );
        self.publish();
        for conn in std::mem::take(&mut self.effects.close) {
            self.close(conn, now_ms);
        }
    }

    /// The 905 frames sent since the last call, with the address each goes to.
    pub(crate) fn notifications(&mut self) -> Vec<(String, Vec<u8>)> {
        let notices = std::mem::take(&mut self.effects.notices);
        notices.iter().flat_map(notice_frames).collect()
    }

    /// What would have been logged since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.effects.events)
    }

    /// The tables as readers see them.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    fn settle(
        &mut self,
        connection: &mut Connection,
        mut next: Next,
        now: Now,
        answers: &mut Vec<u8>,
    ) -> Step {
        loop {
            let mut out = Output::default();
            let session = &mut connection.session;
            next = match next {
                Next::Send | Next::Wait => return Step::Again,
                Next::Receive => return Step::Enough,
                Next::Close(_) => return Step::Close,
                Next::Submit(envelope) => {
                    let origin = envelope.origin;
                    let outcome = self.apply(envelope, now);
                    let env = env(
                        &self.snapshot,
                        &self.limits,
                        &self.keys,
                        now,
                        self.unchanged_rule,
                    );
                    session.outcome(origin, outcome, &env, &mut out);
                    flush(&mut out, answers);
                    return Step::Again;
                }
                Next::Ask(ask) => {
                    let body = self.production.get(&ask.topic).cloned();
                    let env = env(
                        &self.snapshot,
                        &self.limits,
                        &self.keys,
                        now,
                        self.unchanged_rule,
                    );
                    session.asked(Asked { ask, body }, &env, &mut out);
                    flush(&mut out, answers);
                    return Step::Again;
                }
                Next::Run(job) => {
                    let pace = Pace::default();
                    let run = job.run(&self.keys, &self.limits, now.wall_ms, &pace);
                    let done = run_to_end(run);
                    let env = env(
                        &self.snapshot,
                        &self.limits,
                        &self.keys,
                        now,
                        self.unchanged_rule,
                    );
                    let next = session.job_done(done, &env, &mut out);
                    flush(&mut out, answers);
                    if matches!(next, Next::Receive) {
                        return Step::Again;
                    }
                    next
                }
                Next::Large(total) => {
                    if connection.input.len() < total {
                        return Step::Enough;
                    }
                    let frame: Vec<u8> = connection.input.drain(..total).collect();
                    let env = env(
                        &self.snapshot,
                        &self.limits,
                        &self.keys,
                        now,
                        self.unchanged_rule,
                    );
                    let next = session.large(&Bytes::from(frame), &env, &mut out);
                    flush(&mut out, answers);
                    if matches!(next, Next::Receive) {
                        return Step::Again;
                    }
                    next
                }
            };
        }
    }

    fn apply(&mut self, envelope: Envelope, now: Now) -> Outcome {
        self.commands += u64::from(!matches!(envelope.command, Command::Gone));
        let pace = Pace::default();
        let envelope = match envelope {
            Envelope {
                origin,
                command: Command::Persist(change),
            } => {
                return self.persist(origin, change);
            }
            other => other,
        };
        let outcome = run_to_end(self.table.apply(now, envelope, &mut self.effects, &pace));
        self.publish();
        outcome
    }

    /// What the shell does around the writing of a file, which here never fails.
    fn persist(&mut self, origin: Origin, change: Change) -> Outcome {
        let refused = match split(change) {
            Ok(change) => {
                let staged = stage_kv(self.table.kv(), [(origin, change)], &self.limits);
                if let Some(kv) = staged.value {
                    self.table.set_kv(Arc::new(kv));
                }
                staged.refused
            }
            Err(body) => {
                let staged = stage_settings(self.table.settings(), [(origin, body)]);
                if let Some((settings, _)) = staged.value {
                    self.table.set_settings(Arc::new(settings));
                }
                staged.refused
            }
        };
        self.publish();
        refused
            .into_iter()
            .next()
            .map_or(Outcome::Done, |(_, outcome)| outcome)
    }

    fn end(&mut self, session: &Session, now: Now) {
        if let Some(envelope) = session.end() {
            self.apply(envelope, now);
        }
    }

    fn publish(&mut self) {
        if let Some(snapshot) = self.table.publish() {
            self.snapshot = Arc::new(snapshot);
        }
    }
}

enum Step {
    Again,
    Enough,
    Close,
}

fn env<'a>(
    snapshot: &'a Arc<Snapshot>,
    limits: &'a Limits,
    keys: &'a DigestKeys,
    now: Now,
    unchanged_rule: bool,
) -> Env<'a> {
    Env {
        snapshot,
        limits,
        keys,
        now,
        leaving: false,
        cluster_test: snapshot.settings.cluster_test,
        unchanged_rule,
    }
}

fn at(now_ms: u64) -> Now {
    Now {
        mono_ms: now_ms,
        wall_ms: now_ms as i64,
    }
}

fn flush(out: &mut Output, answers: &mut Vec<u8>) {
    for slice in out.io_slices(0) {
        answers.extend_from_slice(&slice);
    }
    out.clear();
}

fn notice_frames(notice: &MinBrokerIdNotice) -> Vec<(String, Vec<u8>)> {
    let frame = notice_frame(notice, SerializeType::Json, 0);
    let targets = notice.targets.iter();
    targets
        .map(|addr| (addr.to_string(), frame.clone()))
        .collect()
}

fn make(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in pairs {
        let on = *value == "true";
        match *key {
            "clusterTest" => settings.cluster_test = on,
            "orderMessageEnable" => settings.order_message_enable = on,
            "returnOrderTopicConfigToBroker" => settings.return_order_topic_config_to_broker = on,
            "supportActingMaster" => settings.support_acting_master = on,
            "enableAllTopicList" => settings.enable_all_topic_list = on,
            "enableTopicList" => settings.enable_topic_list = on,
            "notifyMinBrokerIdChanged" => settings.notify_min_broker_id_changed = on,
            "deleteTopicWithBrokerRegistration" => {
                settings.delete_topic_with_broker_registration = on;
            }
            "needWaitForService" => settings.need_wait_for_service = on,
            "waitSecondsForService" => {
                settings.wait_seconds_for_service = value.parse().expect("number");
            }
            other => panic!("unknown setting {other}"),
        }
    }
    settings
}
