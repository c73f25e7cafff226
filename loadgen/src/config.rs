//! What to simulate, as one flat list of values, and the scenarios that set them.
//!
//! A scenario is nothing but values for these flags; a flag that is given wins. The resolved
//! list is printed with every run and is part of the digest of its plan.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::units::{duration_text, parse_duration, parse_share, share_text};

/// Named lists of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// A cluster as Java's defaults make it, undisturbed.
    Steady,
    /// All brokers register at once with an empty NameServer.
    ColdStart,
    /// All connections of brokers are lost at once and come back within two seconds.
    RestartStorm,
    /// One broker after another unregisters, and comes back after five seconds.
    RollingRestart,
    /// A fifth of the brokers closes its connections at once; they return after 20 s.
    ZoneLoss,
    /// A fifth of the brokers falls silent with open connections; they expire.
    ZoneSilence,
    /// One broker in twenty closes and returns after a second, every three seconds.
    Flapping,
    /// Fifty topics a second change.
    TopicChurn,
    /// All clients poll at the same instant, every ten seconds.
    ThunderingHerd,
    /// Clients read topics that are on every broker.
    WideTopic,
    /// Some connections ask for the largest answers and hardly read them.
    SlowReaders,
}

/// How a lost broker goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoseHow {
    /// Its connection closes, as when the process is killed.
    Close,
    /// It says nothing more and keeps its connection, as when the network drops its packets.
    Silence,
    /// It sends 104 and then closes, as when it is stopped.
    Unregister,
}

/// All values of a run.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "`RunArgs` has the meaning of each")]
pub struct Config {
    pub scenario: Scenario,
    pub addr: SocketAddr,
    pub brokers: u32,
    pub replicas: u32,
    pub clusters: u32,
    pub topics: u32,
    pub clients: u32,
    pub client_topics: u32,
    pub poll: Duration,
    pub poll_sync: bool,
    pub wide: bool,
    pub rate: f64,
    pub closed: bool,
    pub pipeline: u32,
    pub register: Duration,
    pub heartbeat: Duration,
    pub heartbeat_timeout: Duration,
    pub cluster_poll: Duration,
    pub compressed: bool,
    pub split: u32,
    pub version_query: bool,
    pub cold_start: bool,
    pub start_spread: Duration,
    pub lose: u32,
    pub lose_how: LoseHow,
    pub lose_after: Duration,
    pub lose_spread: Duration,
    pub lose_every: Duration,
    pub return_after: Duration,
    pub churn: f64,
    pub slow_readers: u32,
    pub warmup: Duration,
    pub duration: Duration,
    pub seed: u64,
    pub cores: usize,
    pub timeout: Duration,
    pub removal_window: Duration,
    pub expiry_window: Duration,
    pub watch: Duration,
    pub late_limit: Duration,
    pub check_share: u32,
}

/// The same as flags; what is not given comes from the scenario.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// A named list of the flags below
    #[arg(long, value_enum)]
    pub scenario: Option<Scenario>,
    /// NameServer [127.0.0.1:9876]
    #[arg(long)]
    pub addr: Option<SocketAddr>,
    /// Brokers, slaves included, one connection each [5000]
    #[arg(long)]
    pub brokers: Option<u32>,
    /// Members of a broker group: a master and its slaves [2]
    #[arg(long)]
    pub replicas: Option<u32>,
    /// Clusters [one for each 1,000 brokers]
    #[arg(long)]
    pub clusters: Option<u32>,
    /// Topics of a broker, its 13 system topics included [200]
    #[arg(long)]
    pub topics: Option<u32>,
    /// Clients, one connection each [1000]
    #[arg(long)]
    pub clients: Option<u32>,
    /// Topics of a client [10]
    #[arg(long)]
    pub client_topics: Option<u32>,
    /// How often a client reads each of its routes, with jitter [30s]
    #[arg(long, value_parser = parse_duration)]
    pub poll: Option<Duration>,
    /// All clients poll at the same instant
    #[arg(long)]
    pub poll_sync: bool,
    /// Clients read topics that every broker has
    #[arg(long)]
    pub wide: bool,
    /// Route reads per second over all clients, at random instants, instead of --poll; 0: poll
    #[arg(long)]
    pub rate: Option<f64>,
    /// Closed loop: each client always has --pipeline route reads outstanding
    #[arg(long)]
    pub closed: bool,
    /// Outstanding reads of each client in a closed loop [1]
    #[arg(long)]
    pub pipeline: Option<u32>,
    /// How often a broker registers in full [30s]
    #[arg(long, value_parser = parse_duration)]
    pub register: Option<Duration>,
    /// How often a broker sends a one-way 322; 0: never, as Java outside of acting-master mode [1s]
    #[arg(long, value_parser = parse_duration)]
    pub heartbeat: Option<Duration>,
    /// heartbeatTimeoutMillis of registrations; 0: not sent, which means 120 s [0]
    #[arg(long, value_parser = parse_duration)]
    pub heartbeat_timeout: Option<Duration>,
    /// How often a broker asks for 106; 0: never, as brokers of 4.x [5s]
    #[arg(long, value_parser = parse_duration)]
    pub cluster_poll: Option<Duration>,
    /// Registrations are zlib (compressedRegister)
    #[arg(long)]
    pub compressed: bool,
    /// Registrations come in pieces of so many topics (Java: 800); 0: in one [0]
    #[arg(long)]
    pub split: Option<u32>,
    /// Brokers ask 322 first and register only when it says so (forceRegister=false)
    #[arg(long)]
    pub version_query: bool,
    /// Brokers first register within the measured time
    #[arg(long)]
    pub cold_start: bool,
    /// The time over which a cold start is spread [0]
    #[arg(long, value_parser = parse_duration)]
    pub start_spread: Option<Duration>,
    /// Share of the brokers that is lost [0%]
    #[arg(long, value_parser = parse_share)]
    pub lose: Option<u32>,
    /// How they are lost
    #[arg(long, value_enum)]
    pub lose_how: Option<LoseHow>,
    /// When, after the measuring began [a third of the duration]
    #[arg(long, value_parser = parse_duration)]
    pub lose_after: Option<Duration>,
    /// The time over which the losses are spread [0]
    #[arg(long, value_parser = parse_duration)]
    pub lose_spread: Option<Duration>,
    /// Repeat the loss so often; 0: once [0]
    #[arg(long, value_parser = parse_duration)]
    pub lose_every: Option<Duration>,
    /// When each comes back after it was lost; 0: never [0]
    #[arg(long, value_parser = parse_duration)]
    pub return_after: Option<Duration>,
    /// Topics that change per second, each at one master [0]
    #[arg(long)]
    pub churn: Option<f64>,
    /// Connections that ask for 106 again and again and read 16 KiB a second [0]
    #[arg(long)]
    pub slow_readers: Option<u32>,
    /// Time at full load before the measuring [10s]
    #[arg(long, value_parser = parse_duration)]
    pub warmup: Option<Duration>,
    /// Time that is measured [60s]
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Everything random follows from it [1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads, each on a CPU of its own [half of the CPUs]
    #[arg(long)]
    pub cores: Option<usize>,
    /// An answer that takes longer counts as missing; 103 has eight times as long [3s]
    #[arg(long, value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How long a broker may still be shown after the answer to its 104, or its close [1s]
    #[arg(long, value_parser = parse_duration)]
    pub removal_window: Option<Duration>,
    /// How long a silent one may be shown after its deadline (Java scans every 5 s) [6s]
    #[arg(long, value_parser = parse_duration)]
    pub expiry_window: Option<Duration>,
    /// How often 106 is read to time arrivals and removals, while any are under way [100ms]
    #[arg(long, value_parser = parse_duration)]
    pub watch: Option<Duration>,
    /// Allowed p99 of the tool's own delay, if 10 % of the p99 of responses is less [2ms]
    #[arg(long, value_parser = parse_duration)]
    pub late_limit: Option<Duration>,
    /// Share of each thread's time that full checks of changed answers may take [20%]
    #[arg(long, value_parser = parse_share)]
    pub check_share: Option<u32>,
}

impl RunArgs {
    /// These flags, short where they say nothing: for one run of many, which together say more than
    /// few long ones.
    #[must_use]
    pub fn as_one_of_many(&self) -> Self {
        Self {
            warmup: self.warmup.or(Some(Duration::from_secs(2))),
            duration: self.duration.or(Some(Duration::from_secs(5))),
            ..self.clone()
        }
    }
}

impl Config {
    /// The flags given, over those of the scenario, over the defaults.
    #[must_use]
    pub fn resolve(args: &RunArgs, cpus: usize) -> Self {
        let mut config = Self::steady(cpus);
        if let Some(brokers) = args.brokers {
            config.brokers = brokers;
        }
        config.scenario = args.scenario.unwrap_or(Scenario::Steady);
        config.apply_scenario();
        config.apply_populations(args);
        config.apply_traffic(args);
        config.apply_disturbance(args);
        config.apply_judgement(args);
        config.brokers = config.brokers.max(1);
        config.replicas = config.replicas.clamp(1, config.brokers);
        let groups = config.brokers.div_ceil(config.replicas);
        let clusters = args
            .clusters
            .unwrap_or_else(|| config.brokers.div_ceil(1000));
        config.clusters = clusters.clamp(1, groups);
        if args.lose_after.is_none() {
            config.lose_after = Duration::from_millis(config.duration.as_millis() as u64 / 3);
        }
        config
    }

    fn steady(cpus: usize) -> Self {
        let none = Duration::ZERO;
        let seconds = Duration::from_secs;
        Self {
            scenario: Scenario::Steady,
            addr: SocketAddr::from(([127, 0, 0, 1], 9876)),
            brokers: 5000,
            replicas: 2,
            clusters: 0,
            topics: 200,
            clients: 1000,
            client_topics: 10,
            poll: seconds(30),
            poll_sync: false,
            wide: false,
            rate: 0.0,
            closed: false,
            pipeline: 1,
            register: seconds(30),
            heartbeat: seconds(1),
            heartbeat_timeout: none,
            cluster_poll: seconds(5),
            compressed: false,
            split: 0,
            version_query: false,
            cold_start: false,
            start_spread: none,
            lose: 0,
            lose_how: LoseHow::Close,
            lose_after: none,
            lose_spread: none,
            lose_every: none,
            return_after: none,
            churn: 0.0,
            slow_readers: 0,
            warmup: seconds(10),
            duration: seconds(60),
            seed: 1,
            cores: (cpus / 2).max(1),
            timeout: seconds(3),
            removal_window: seconds(1),
            expiry_window: seconds(6),
            watch: Duration::from_millis(100),
            late_limit: Duration::from_millis(2),
            check_share: 200,
        }
    }

    fn apply_scenario(&mut self) {
        let seconds = Duration::from_secs;
        match self.scenario {
            Scenario::Steady => {}
            Scenario::ColdStart => {
                self.cold_start = true;
                self.warmup = Duration::ZERO;
            }
            Scenario::RestartStorm => {
                (self.lose, self.lose_how) = (1000, LoseHow::Close);
                (self.lose_spread, self.return_after) = (seconds(1), seconds(1));
            }
            Scenario::RollingRestart => {
                (self.lose, self.lose_how) = (1000, LoseHow::Unregister);
                (self.lose_spread, self.return_after) = (seconds(30), seconds(5));
            }
            Scenario::ZoneLoss => {
                (self.lose, self.lose_how) = (200, LoseHow::Close);
                self.return_after = seconds(20);
            }
            Scenario::ZoneSilence => {
                (self.lose, self.lose_how) = (200, LoseHow::Silence);
                self.heartbeat_timeout = seconds(10);
            }
            Scenario::Flapping => {
                (self.lose, self.lose_how) = (50, LoseHow::Close);
                (self.lose_every, self.return_after) = (seconds(3), seconds(1));
            }
            Scenario::TopicChurn => self.churn = 50.0,
            Scenario::ThunderingHerd => {
                self.poll_sync = true;
                self.poll = seconds(10);
            }
            Scenario::WideTopic => {
                self.wide = true;
                (self.clients, self.client_topics) = (100, 3);
                self.poll = seconds(5);
            }
            Scenario::SlowReaders => self.slow_readers = 50,
        }
    }

    fn apply_populations(&mut self, args: &RunArgs) {
        set(&mut self.addr, args.addr);
        set(&mut self.replicas, args.replicas);
        set(&mut self.topics, args.topics);
        set(&mut self.clients, args.clients);
        set(&mut self.client_topics, args.client_topics);
        set(&mut self.warmup, args.warmup);
        set(&mut self.duration, args.duration);
        set(&mut self.seed, args.seed);
        set(&mut self.cores, args.cores);
        self.cores = self.cores.max(1);
    }

    fn apply_traffic(&mut self, args: &RunArgs) {
        set(&mut self.poll, args.poll);
        self.poll_sync |= args.poll_sync;
        self.wide |= args.wide;
        set(&mut self.rate, args.rate);
        self.closed |= args.closed;
        set(&mut self.pipeline, args.pipeline);
        self.pipeline = self.pipeline.max(1);
        set(&mut self.register, args.register);
        set(&mut self.heartbeat, args.heartbeat);
        set(&mut self.heartbeat_timeout, args.heartbeat_timeout);
        set(&mut self.cluster_poll, args.cluster_poll);
        self.compressed |= args.compressed;
        set(&mut self.split, args.split);
        self.version_query |= args.version_query;
    }

    fn apply_disturbance(&mut self, args: &RunArgs) {
        self.cold_start |= args.cold_start;
        set(&mut self.start_spread, args.start_spread);
        set(&mut self.lose, args.lose);
        set(&mut self.lose_how, args.lose_how);
        set(&mut self.lose_after, args.lose_after);
        set(&mut self.lose_spread, args.lose_spread);
        set(&mut self.lose_every, args.lose_every);
        set(&mut self.return_after, args.return_after);
        set(&mut self.churn, args.churn);
        set(&mut self.slow_readers, args.slow_readers);
    }

    fn apply_judgement(&mut self, args: &RunArgs) {
        set(&mut self.timeout, args.timeout);
        set(&mut self.removal_window, args.removal_window);
        set(&mut self.expiry_window, args.expiry_window);
        set(&mut self.watch, args.watch);
        set(&mut self.late_limit, args.late_limit);
        set(&mut self.check_share, args.check_share);
    }

    /// Every value as the flag that sets it: with the seed inside, this is the whole run.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let time = duration_text;
        let pairs: [(&str, String); 35] = [
            ("scenario", value_name(&self.scenario)),
            ("addr", self.addr.to_string()),
            ("brokers", self.brokers.to_string()),
            ("replicas", self.replicas.to_string()),
            ("clusters", self.clusters.to_string()),
            ("topics", self.topics.to_string()),
            ("clients", self.clients.to_string()),
            ("client-topics", self.client_topics.to_string()),
            ("poll", time(self.poll)),
            ("rate", self.rate.to_string()),
            ("pipeline", self.pipeline.to_string()),
            ("register", time(self.register)),
            ("heartbeat", time(self.heartbeat)),
            ("heartbeat-timeout", time(self.heartbeat_timeout)),
            ("cluster-poll", time(self.cluster_poll)),
            ("split", self.split.to_string()),
            ("start-spread", time(self.start_spread)),
            ("lose", share_text(self.lose)),
            ("lose-how", value_name(&self.lose_how)),
            ("lose-after", time(self.lose_after)),
            ("lose-spread", time(self.lose_spread)),
            ("lose-every", time(self.lose_every)),
            ("return-after", time(self.return_after)),
            ("churn", self.churn.to_string()),
            ("slow-readers", self.slow_readers.to_string()),
            ("warmup", time(self.warmup)),
            ("duration", time(self.duration)),
            ("seed", self.seed.to_string()),
            ("cores", self.cores.to_string()),
            ("timeout", time(self.timeout)),
            ("removal-window", time(self.removal_window)),
            ("expiry-window", time(self.expiry_window)),
            ("watch", time(self.watch)),
            ("late-limit", time(self.late_limit)),
            ("check-share", share_text(self.check_share)),
        ];
        let switches = [
            ("poll-sync", self.poll_sync),
            ("wide", self.wide),
            ("closed", self.closed),
            ("compressed", self.compressed),
            ("version-query", self.version_query),
            ("cold-start", self.cold_start),
        ];
        let valued = pairs
            .into_iter()
            .map(|(key, value)| format!("--{key}={value}"));
        let switched = switches.into_iter().filter(|(_, on)| *on);
        valued
            .chain(switched.map(|(key, _)| format!("--{key}")))
            .collect()
    }
}

fn set<T: Copy>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// The name that clap has for a value.
#[must_use]
pub fn value_name<T: ValueEnum>(value: &T) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    fn resolve(words: &[String]) -> Config {
        let words = std::iter::once("loadgen".to_owned()).chain(words.iter().cloned());
        Config::resolve(&Cli::try_parse_from(words).unwrap().run, 2)
    }

    #[test]
    fn every_scenario_is_nothing_but_the_flags_that_it_prints() {
        for scenario in Scenario::value_variants() {
            let name = value_name(scenario);
            let config = resolve(&[format!("--scenario={name}")]);
            assert_eq!(config.scenario, *scenario);
            let mut printed = config.words();
            assert_eq!(resolve(&printed), config, "{name}");
            // The flags alone, without the name, make the same run.
            printed[0] = "--scenario=steady".to_owned();
            let mut plain = resolve(&printed);
            plain.scenario = *scenario;
            assert_eq!(plain, config, "{name}");
        }
    }

    #[test]
    fn a_given_flag_wins_over_the_scenario() {
        let words = ["--scenario=zone-loss", "--lose=50%", "--duration=9s"].map(str::to_owned);
        let config = resolve(&words);
        assert_eq!((config.lose, config.lose_how), (500, LoseHow::Close));
        assert_eq!(config.lose_after, Duration::from_secs(3));
        assert_eq!(config.return_after, Duration::from_secs(20));
    }

    #[test]
    fn the_default_is_a_large_cluster_beside_the_server() {
        let config = resolve(&["--brokers=5000".to_owned()]);
        assert_eq!((config.brokers, config.clients), (5000, 1000));
        assert_eq!((config.clusters, config.cores), (5, 1));
        assert_eq!(config.addr.to_string(), "127.0.0.1:9876");
    }
}
