//! How a simulated server is made, which mistakes can be planted in it, and what it tells.

use namesrv::route::command::Origin;
use namesrv::settings::Settings;
use namesrv::settings::limits::Limits;

/// A mistake in the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Outcomes leave before their batch is published.
    AnswerBeforePublish,
    /// A core keeps its snapshot over several receives.
    StaleSnapshot,
    /// The end of a connection overtakes its commands.
    GoneOvertakes,
    /// The end of a connection is dropped where it finds the mailbox full.
    GoneDropped,
    /// Two commands that wait change places.
    CommandsSwapped,
    /// The time that the machine stood still is held against its brokers.
    LateTickBlamed,
    /// A tick finds nothing to do.
    TickSkipped,
    /// A connection is closed for its expired brokers while it registers one.
    ClosedInUse,
    /// An outcome gets lost.
    OutcomeLost,
    /// An outcome goes to the next connection of the core.
    OutcomeAstray,
}

/// How a server is made.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) cores: usize,
    /// The rule for unchanged registrations.
    pub(crate) rule: bool,
    /// Commands that may wait for the writer.
    pub(crate) mailbox: usize,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// Keys of hashes and digests, of which no answer may depend.
    pub(crate) keys: u64,
    pub(crate) fault: Option<Fault>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cores: 2,
            rule: true,
            mailbox: 10_000,
            settings: Settings::default(),
            limits: Limits::default(),
            keys: 1,
            fault: None,
        }
    }
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Fact {
    /// The core of the connection has loaded the snapshot that holds all changes up to `seq`.
    Loaded { conn: u64, seq: u64 },
    /// So many bytes of the connection have been handled in all.
    Handled { conn: u64, bytes: u64 },
    /// The server sent this.
    Wrote { conn: u64, bytes: Vec<u8> },
    /// The writer applied a command, as change number `seq`.
    Applied {
        origin: Origin,
        gone: bool,
        seq: u64,
    },
    /// The writer's tick, as change number `seq`.
    Ticked { late_ms: u64, seq: u64 },
    /// The writer wants the connection closed.
    OrderedClose { conn: u64 },
    /// The server has forgotten the connection, maybe because the writer ordered it.
    Ended { conn: u64, ordered: bool },
}

/// Something that has to be called some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// [`super::server::Server::receive`], and [`super::server::Server::finish_turn`] of its core
    Turn(u64),
    /// [`super::server::Server::finish_job`]
    Job(u64),
    /// [`super::server::Server::apply`]
    Apply,
    /// [`super::server::Server::publish`]
    Publish,
    /// [`super::server::Server::deliver`]
    Deliver(usize),
    /// [`super::server::Server::close_if_idle`]
    Close(u64),
}
