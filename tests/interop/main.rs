//! Real peers around the server: brokers, clients and admin tools, in several constellations.
//!
//! Goal: what they do in production works with our binary, judged by content and within time.
//! Method: one test each for
//! - the life of a cluster with a broker of each release, and every mqadmin command of each
//!   release (`cluster.rs`, `cluster/commands.rs`);
//! - Java's files and ours, read by the other program (`files.rs`);
//! - a slave that stays, or stands in, when its master dies (`standby.rs`);
//! - our server beside a Java one, with the same brokers (`twins.rs`, only in the full matrix);
//! - clients in other languages (`languages.rs`, only in the full matrix).
//!
//! A raw client of our own reads the tables between the steps. The tests run side by side, the
//! longest first by its name. The full matrix, which also has peers of 5.5.0:
//!
//! ```text
//! INTEROP=all cargo test --test interop -- --nocapture
//! ```
//!
//! What is missing is said as `skipped: <why>`, and the test passes; with `INTEROP=required` (or
//! `all,required`) it fails instead. Java's part needs a JDK and Maven; the other languages need
//! Go, Node with npm, and Python on x86-64. `INTEROP_RELEASES=all` adds only the peers of 5.5.0.
//! `INTEROP_SERVER=java` puts the Java NameServer of 5.3.3 in the place of ours: the same steps
//! must pass, which proves the steps (what compares with Java is left out then).
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected comes back"
)]

mod admin;
mod broker;
mod client;
mod cluster;
mod files;
#[path = "../support/java.rs"]
mod java;
mod languages;
mod peers;
#[path = "../support/ports.rs"]
mod ports;
mod probe;
#[path = "../support/process.rs"]
mod process;
mod route;
#[path = "../support/rundir.rs"]
mod rundir;
mod server;
mod shell;
mod standby;
mod twins;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use crate::cluster::Cluster;
use crate::java::is_installed;
use crate::peers::{Peers, RELEASES, Release};
use crate::process::say;
use crate::rundir::RunDir;
use crate::server::{Kind, binary};

/// The cluster of all brokers here; it is also the name of a topic that each of them registers.
const CLUSTER: &str = "interop";

#[test]
fn a_cluster_of_real_peers_lives() {
    with_peers(live);
}

#[test]
fn files_go_from_java_to_us_and_back() {
    if server_kind() == Kind::Ours {
        with_peers(files::run);
    }
}

#[test]
fn a_slave_stays_and_stands_in() {
    with_peers(standby::run);
}

#[test]
fn two_name_servers_tell_the_same() {
    if is_wanted("all") && server_kind() == Kind::Ours {
        with_peers(twins::run);
    }
}

#[test]
fn clients_in_other_languages_send_and_receive() {
    if is_wanted("all") {
        with_peers(languages::run);
    }
}

/// Runs a test with all that it needs from outside and a directory of its own, or says why not.
fn with_peers(run: impl FnOnce(Kind, &'static [Peers], &Path)) {
    static PEERS: OnceLock<Result<Vec<Peers>, String>> = OnceLock::new();
    let kind = server_kind();
    match PEERS.get_or_init(|| prepare(kind)) {
        Ok(peers) => {
            let directory = RunDir::new(&target());
            run(kind, peers, directory.path());
            directory.remove();
        }
        Err(why) => skip(why),
    }
}

/// Says why something is not tested; that is a failure where everything must be.
fn skip(why: &str) {
    assert!(!is_wanted("required"), "{why}");
    say(&format!("skipped: {why}"));
}

/// Whether `INTEROP` has this word.
fn is_wanted(word: &str) -> bool {
    let words = std::env::var("INTEROP").unwrap_or_default();
    words.split(',').any(|wanted| wanted == word)
}

fn live(kind: Kind, peers: &[Peers], directory: &Path) {
    let total = Instant::now();
    let mut cluster = Cluster::start(kind, peers, directory);
    step("brokers register", || cluster.brokers_register());
    step("fresh brokers have their topics", || cluster.fresh_topics());
    step("created topics are seen at once", || {
        cluster.topics_are_created()
    });
    step("messages pass", || cluster.messages_pass());
    step("topics make themselves", || {
        cluster.topics_make_themselves()
    });
    let releases = || peers.iter().map(|peers| peers.release.number).enumerate();
    for (index, release) in releases() {
        step(&format!("admin commands of {release} work"), || {
            cluster.admin_commands(index)
        });
    }
    for (index, release) in releases() {
        step(&format!("broker {release} is killed"), || {
            cluster.broker_is_killed(index)
        });
        step(&format!("broker {release} comes back"), || {
            cluster.broker_comes_back(index)
        });
    }
    step("messages pass again", || cluster.messages_pass());
    step("name server restarts under load", || {
        cluster.server_restarts()
    });
    for (index, release) in releases() {
        step(&format!("broker {release} leaves"), || {
            cluster.broker_leaves(index)
        });
    }
    step("everything ends and nothing is left", || {
        cluster.everything_ends()
    });
    say(&format!("{:>9.2} s in all", total.elapsed().as_secs_f64()));
}

/// Says what is done, and then how long it took.
fn step(name: &str, run: impl FnOnce()) {
    say(&format!("   {name}"));
    let start = Instant::now();
    run();
    say(&format!("{:>9.2} s {name}", start.elapsed().as_secs_f64()));
}

fn server_kind() -> Kind {
    let wanted = std::env::var("INTEROP_SERVER").unwrap_or_default();
    match wanted.as_str() {
        "" | "ours" => Kind::Ours,
        // Not 4.9.4: where a 5.x broker makes two topics at once, the second registration may have
        // the version of the first, and a 4.9 server then leaves its topic out.
        "java" => Kind::Java(peers::V5_3_3),
        _ => panic!("INTEROP_SERVER={wanted}: neither ours nor java"),
    }
}

/// Everything that the run needs from outside, or the reason why there is no run.
fn prepare(kind: Kind) -> Result<Vec<Peers>, String> {
    if kind == Kind::Ours && binary().is_none() {
        return Err("built without the server".to_owned());
    }
    if let Some(program) = ["java", "javac"]
        .into_iter()
        .find(|program| !is_installed(program))
    {
        return Err(format!("{program} is missing"));
    }
    let cache = target().join("interop");
    releases()
        .iter()
        .map(|release| Peers::prepare(*release, &cache))
        .collect()
}

fn releases() -> &'static [Release] {
    let all = std::env::var("INTEROP_RELEASES").as_deref() == Ok("all") || is_wanted("all");
    if all { &RELEASES } else { &RELEASES[..2] }
}

/// Cargo's target directory, wherever it is.
fn target() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR"));
    below.parent().unwrap_or(below).to_owned()
}
