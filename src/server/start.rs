//! From a plan to a running server, and down again.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ahash::RandomState;
use arc_swap::ArcSwap;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::boot::FAILED;
use super::clock::Clock;
use super::cluster_test::{self, Question};
use super::core::Core;
use super::die;
use super::files::Files;
use super::log;
use super::mailbox::{Inbox, MailboxReader, inbox, mailbox};
use super::notify::{NOTICE_PLACES, Notifier, send_notices};
use super::persist::Persist;
use super::shared::{Answer, Budget, CoreLine, Counters, Shared, SharedRef};
use super::watch::{self, Beat};
use super::writer::Writer;
use crate::route::command::{Envelope, MinBrokerIdNotice};
use crate::route::kv::Kv;
use crate::route::table::Table;
use crate::rt::{self, CoreHandle, IoUringStatus, ListenOptions, PortProbe, Queue};
use crate::session::jobs::DigestKeys;
use crate::settings::Settings;
use crate::settings::limits::Limits;
use crate::settings::values::{Cores, WriterCore};

/// Descriptors that are not connections: rings, listeners, files.
const OTHER_DESCRIPTORS: u64 = 256;
/// With fewer descriptors than this a server makes no sense.
const MIN_DESCRIPTORS: u64 = 512;
/// From so many cores on the writer gets one of its own.
const CORES_FOR_A_WRITER: usize = 8;
/// Waiting connections of each listener; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: u16 = 4096;
/// How long a stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) limits: Limits,
    pub(super) kv: Kv,
}

/// Runs the server until it is told to stop. Returns the status of the process.
pub(super) fn run(plan: &Plan) -> i32 {
    rt::prepare_process();
    let _log = log::start(&plan.settings.log);
    match start_all(plan) {
        Ok((shared, cores, mut signals)) => {
            signals.forever().next();
            tracing::info!("told to stop");
            leave(&shared, &mut signals);
            shared.stop();
            finish(&cores, &mut signals);
            0
        }
        Err(problems) => {
            for problem in problems {
                tracing::error!("{problem}");
                eprintln!("namesrv: {problem}");
            }
            FAILED
        }
    }
}

type Running = (SharedRef, Vec<CoreHandle>, Signals);

fn start_all(plan: &Plan) -> Result<Running, Vec<String>> {
    let checked = check(plan)?;
    let signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| vec![format!("signals cannot be handled: {error}")])?;
    let (shared, cores) = start(plan, &checked).map_err(|problem| vec![problem])?;
    let serialize = plan.settings.serialize_type.java_name();
    let (host, port) = (&plan.settings.bind_address, checked.port.port);
    // Scripts wait for this line, word for word Java's.
    let line =
        format!("The Name Server boot success. serializeType={serialize}, address {host}:{port}");
    println!("{line}");
    if plan.settings.admin_allow.0.is_empty() && !checked.addr.ip().is_loopback() {
        tracing::warn!(
            "everybody who reaches this port may change routes and settings; \
             namesrv.adminAllow limits that to address ranges"
        );
    }
    tracing::info!(cpus = ?checked.cpus, connections = checked.max_connections, "{line}");
    Ok((shared, cores, signals))
}

/// `enableShutdownGracefully`: goes on serving for a while, and tells peers that know it to go
/// away. A second signal ends the while.
fn leave(shared: &Shared, signals: &mut Signals) {
    let settings = Arc::clone(&shared.published.load().settings);
    if !settings.enable_shutdown_gracefully {
        return;
    }
    shared.leaving.store(true, Ordering::Relaxed);
    let wait = Duration::from_secs(settings.shutdown_wait_time_seconds.into());
    tracing::info!(seconds = wait.as_secs(), "peers are told to go away");
    let end = Instant::now() + wait;
    while Instant::now() < end && signals.pending().next().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the cores to end, but not for ever, and no longer once it is told to stop again.
fn finish(cores: &[CoreHandle], signals: &mut Signals) {
    let end = Instant::now() + STOP_LIMIT;
    while Instant::now() < end && !cores.iter().all(CoreHandle::is_finished) {
        if signals.pending().next().is_some() {
            tracing::info!("told to stop again: unsent answers are given up");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the host allows, looked at before anything is started.
pub(super) struct Checked {
    cpus: Vec<usize>,
    pub(super) addr: SocketAddr,
    port: PortProbe,
    max_connections: usize,
}

/// Finds everything that would keep the server from running, each with its fix.
pub(super) fn check(plan: &Plan) -> Result<Checked, Vec<String>> {
    let mut problems = Vec::new();
    let cpus = usable(plan, &mut problems);
    check_io_uring(&mut problems);
    check_locked_memory(&mut problems);
    let max_connections = check_descriptors(plan.limits.connections, &mut problems);
    let addr = resolve(&plan.settings, &mut problems);
    let port = addr.and_then(|addr| match rt::probe_bind(addr) {
        Ok(port) => Some(port),
        Err(error) => {
            problems.push(format!(
                "cannot listen on {addr}: {error}; stop whoever listens there, or set listenPort"
            ));
            None
        }
    });
    match (addr, port) {
        (Some(addr), Some(port)) if problems.is_empty() => Ok(Checked {
            cpus,
            addr: SocketAddr::new(addr.ip(), port.port),
            port,
            max_connections,
        }),
        _ => Err(problems),
    }
}

fn usable(plan: &Plan, problems: &mut Vec<String>) -> Vec<usize> {
    let usable = match rt::usable_cpus() {
        Ok(usable) => usable,
        Err(error) => {
            problems.push(format!("the usable CPUs cannot be found out: {error}"));
            return Vec::new();
        }
    };
    let wanted = match &plan.settings.cores {
        Cores::All => usable.clone(),
        Cores::Count(count) => {
            if usize::from(*count) > usable.len() {
                problems.push(format!(
                    "namesrv.cores asks for {count} cores and {} are usable here: {usable:?}",
                    usable.len()
                ));
            }
            usable.iter().copied().take(usize::from(*count)).collect()
        }
        Cores::List(cpus) => cpus.iter().map(|cpu| usize::from(*cpu)).collect(),
    };
    for cpu in wanted.iter().chain(&writer_cpu(plan)) {
        if !usable.contains(cpu) {
            problems.push(format!(
                "CPU {cpu} is not usable here; this process may run on {usable:?}"
            ));
        }
    }
    wanted
}

fn writer_cpu(plan: &Plan) -> Option<usize> {
    match plan.settings.writer_core {
        WriterCore::Auto => None,
        WriterCore::Cpu(cpu) => Some(usize::from(cpu)),
    }
}

fn check_io_uring(problems: &mut Vec<String>) {
    let problem = match rt::io_uring_status() {
        IoUringStatus::Usable => return,
        IoUringStatus::Disabled { value } => format!(
            "io_uring is disabled; run sysctl -w kernel.io_uring_disabled=0 (it is {value})"
        ),
        IoUringStatus::Forbidden => {
            "io_uring is forbidden, as container profiles do by default; allow io_uring_setup, \
             io_uring_enter and io_uring_register in the seccomp profile"
                .to_owned()
        }
        IoUringStatus::Absent { release } => format!(
            "this kernel ({release}) or a seccomp profile has no io_uring; use Linux 5.13 or newer \
             and allow io_uring_setup, io_uring_enter and io_uring_register"
        ),
        IoUringStatus::TooOld { release } => {
            format!("the io_uring of this kernel ({release}) is too old; use Linux 5.13 or newer")
        }
        IoUringStatus::NoMemory => {
            "there is no locked memory for an io_uring; raise ulimit -l or LimitMEMLOCK".to_owned()
        }
        IoUringStatus::Failed { errno } => format!("io_uring_setup failed with error {errno}"),
    };
    problems.push(problem);
}

fn check_locked_memory(problems: &mut Vec<String>) {
    let needed = rt::MEMLOCK_NEEDED_BYTES;
    match rt::memlock_limit_bytes() {
        Ok(limit) if limit >= needed => {}
        Ok(limit) => problems.push(format!(
            "locked memory is limited to {limit} bytes and {needed} are needed; set ulimit -l {} \
             or LimitMEMLOCK={needed}",
            needed.div_ceil(1024)
        )),
        Err(error) => problems.push(format!("the limit of locked memory is unknown: {error}")),
    }
}

/// How many connections there is room for, at most `wanted`.
fn check_descriptors(wanted: usize, problems: &mut Vec<String>) -> usize {
    match rt::raise_descriptor_limit(wanted as u64 + OTHER_DESCRIPTORS) {
        Ok((soft, hard)) if soft < MIN_DESCRIPTORS => {
            problems.push(format!(
                "only {soft} descriptors are allowed (hard limit {hard}); set ulimit -n or \
                 LimitNOFILE to what the cluster has connections, at least {MIN_DESCRIPTORS}"
            ));
            0
        }
        Ok((soft, _)) => wanted.min((soft - OTHER_DESCRIPTORS) as usize),
        Err(error) => {
            problems.push(format!("the limit of descriptors is unknown: {error}"));
            0
        }
    }
}

fn resolve(settings: &Settings, problems: &mut Vec<String>) -> Option<SocketAddr> {
    let host = settings.bind_address.trim_matches(['[', ']']);
    let port = settings.listen_port;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, port));
    }
    match (host, port).to_socket_addrs().map(|mut addrs| addrs.next()) {
        Ok(Some(addr)) => Some(addr),
        Ok(None) | Err(_) => {
            problems.push(format!("bindAddress {host} is no address of this host"));
            None
        }
    }
}

/// Everything made before the first core starts.
struct Parts {
    shared: SharedRef,
    inboxes: Vec<Inbox<Answer>>,
    mailbox: MailboxReader<Envelope>,
    /// With `clusterTest`.
    questions: Option<Receiver<Question>>,
    table: Table,
    hasher: RandomState,
}

/// Starts the threads.
pub(super) fn start(
    plan: &Plan,
    checked: &Checked,
) -> Result<(SharedRef, Vec<CoreHandle>), String> {
    let mut parts = make_parts(plan, checked)?;
    let shared = Arc::clone(&parts.shared);
    let (notices, notice_reader) = mailbox(NOTICE_PLACES);
    if let Some(questions) = parts.questions.take() {
        cluster_test::start(&plan.settings, &shared, questions)
            .map_err(|error| format!("no thread for clusterTest: {error}"))?;
    }
    let files = Files::start().map_err(|error| format!("no thread for files: {error}"))?;
    let writer = Writer {
        shared: Arc::clone(&shared),
        table: parts.table,
        mailbox: parts.mailbox,
        notifier: Notifier {
            queue: notices,
            shared: Arc::clone(&shared),
        },
        tick_ms: u64::from(plan.settings.scan_not_active_broker_interval_ms.max(1)),
        persist: Persist::new(files, shared.limits.clone()),
        retired: Vec::new(),
    };
    let mut writer = Some((writer, notice_reader));
    let cpus = &checked.cpus;
    let own_cpu = writer_cpu(plan).or_else(|| (cpus.len() >= CORES_FOR_A_WRITER).then(|| cpus[0]));
    let mut handles = Vec::new();
    if let Some(cpu) = own_cpu
        && let Some((writer, notices)) = writer.take()
    {
        start_writer_core(cpu, writer, notices)?;
    }
    for (index, inbox) in parts.inboxes.drain(..).enumerate() {
        let socket = listener(plan, checked)?;
        let seat = Seat {
            index,
            shared: Arc::clone(&shared),
            inbox,
            hasher: parts.hasher.clone(),
            socket,
            writer: writer.take(),
        };
        let cpu = cpus[index];
        let started = rt::spawn_core(
            cpu,
            &format!("namesrv-{index}"),
            move || seat.serve(),
            |panic| die("a core", panic),
        );
        handles.push(started.map_err(|e| format!("core on CPU {cpu} cannot start: {e}"))?);
    }
    watch::start(&shared).map_err(|error| format!("no thread for the watch: {error}"))?;
    Ok((shared, handles))
}

/// What one core starts with.
struct Seat {
    index: usize,
    shared: SharedRef,
    inbox: Inbox<Answer>,
    hasher: RandomState,
    socket: OwnedFd,
    writer: Option<(Writer, MailboxReader<MinBrokerIdNotice>)>,
}

impl Seat {
    async fn serve(self) {
        if let Some((writer, notices)) = self.writer {
            spawn_writer(writer, notices);
        }
        let core = Core::new(self.index, self.shared, self.inbox, self.hasher);
        Rc::new(core).serve(self.socket).await;
    }
}

fn spawn_writer(writer: Writer, notices: MailboxReader<MinBrokerIdNotice>) {
    let shared = Arc::clone(&writer.shared);
    rt::spawn(Queue::Urgent, writer.run(), |panic| {
        die("the writer", &panic)
    });
    rt::spawn(Queue::Default, send_notices(notices, shared), |panic| {
        die("the notifier", &panic);
    });
}

fn start_writer_core(
    cpu: usize,
    writer: Writer,
    notices: MailboxReader<MinBrokerIdNotice>,
) -> Result<(), String> {
    let main = move || async move {
        spawn_writer(writer, notices);
        std::future::pending::<()>().await;
    };
    // Its end is the end of the process, which waits for the serving cores only.
    rt::spawn_core(cpu, "namesrv-writer", main, |panic| {
        die("the writer's core", panic)
    })
    .map(drop)
    .map_err(|error| format!("the writer's core on CPU {cpu} cannot start: {error}"))
}

fn listener(plan: &Plan, checked: &Checked) -> Result<OwnedFd, String> {
    let size = |bytes: u32| (bytes > 0).then_some(bytes as usize);
    let options = ListenOptions {
        backlog: BACKLOG,
        send_buffer_bytes: size(plan.settings.server_socket_snd_buf_size),
        recv_buffer_bytes: size(plan.settings.server_socket_rcv_buf_size),
    };
    let addr = checked.addr;
    rt::listen(addr, &options).map_err(|error| format!("cannot listen on {addr}: {error}"))
}

fn make_parts(plan: &Plan, checked: &Checked) -> Result<Parts, String> {
    let limits = plan.limits.clone();
    let [a, b, c, d] = random_words()?;
    let hasher = RandomState::with_seeds(a, b, c, d);
    let keys = DigestKeys::new(random_words()?);
    // A port that the kernel has picked is shown by 319, as in Java.
    let settings = Arc::new(Settings {
        listen_port: checked.port.port,
        ..plan.settings.clone()
    });
    let table = Table::new(hasher.clone(), settings, Arc::new(plan.kv.clone()), &limits);
    let places = plan.settings.default_thread_pool_queue_capacity as usize;
    let (sender, reader) = mailbox(places.max(1));
    let (lines, inboxes) = checked
        .cpus
        .iter()
        .map(|_| inbox(places.max(1)))
        .map(|(sender, inbox)| (CoreLine::new(sender), inbox))
        .unzip();
    let (production, questions) = plan
        .settings
        .cluster_test
        .then(|| cluster_test::questions(limits.asks_waiting))
        .unzip();
    let shared = Shared {
        clock: Clock::start(),
        published: Arc::new(ArcSwap::from_pointee(table.snapshot())),
        mailbox: sender,
        writer_beat: Beat::default(),
        cores: lines,
        max_connections: checked.max_connections,
        connections: AtomicUsize::new(0),
        large_frames: Budget::new(limits.large_frames_total_bytes),
        parsed: Budget::new(limits.parsed_total_bytes),
        production,
        asked: Budget::new(limits.asked_total_bytes),
        leaving: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        counters: Counters::default(),
        keys,
        limits,
    };
    Ok(Parts {
        shared: Arc::new(shared),
        inboxes,
        mailbox: reader,
        questions,
        table,
        hasher,
    })
}

/// Secret numbers for hashes and digests.
fn random_words<const N: usize>() -> Result<[u64; N], String> {
    let mut words = [0; N];
    for word in &mut words {
        *word = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
    }
    Ok(words)
}
