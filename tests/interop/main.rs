//! Real peers around the server: Java brokers, clients and admin tools, in one cluster.
//!
//! Goal: what they do in production works with our binary, judged by content and within time.
//! Method: one cluster with a broker of each release, taken through its life in the steps below;
//! a raw client of our own reads the tables between them.
//!
//! `INTEROP_SERVER=java` puts the Java NameServer of 5.3.3 in the place of ours: the same steps
//! must pass, which proves the steps. `INTEROP_RELEASES=all` adds peers of 5.5.0. Without Java or
//! its jars the test says `skipped: <why>` and passes; with `INTEROP=required` it fails instead.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected comes back"
)]

mod admin;
mod broker;
mod client;
mod cluster;
mod peers;
mod ports;
mod probe;
mod process;
mod route;
mod rundir;
mod server;
mod shell;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cluster::Cluster;
use crate::peers::{Peers, RELEASES, Release, is_installed};
use crate::process::say;
use crate::rundir::RunDir;
use crate::server::{Kind, binary};

/// The cluster of all brokers here; it is also the name of a topic that each of them registers.
const CLUSTER: &str = "interop";

#[test]
fn real_brokers_clients_and_admin_tools() {
    let kind = server_kind();
    match prepare(kind) {
        Ok(peers) => run(kind, &peers),
        Err(why) if std::env::var("INTEROP").as_deref() == Ok("required") => panic!("{why}"),
        Err(why) => say(&format!("skipped: {why}")),
    }
}

fn run(kind: Kind, peers: &[Peers]) {
    let total = Instant::now();
    let directory = RunDir::new(&target());
    let mut cluster = Cluster::start(kind, peers, directory.path());
    step("brokers register", || cluster.brokers_register());
    step("fresh brokers have their topics", || cluster.fresh_topics());
    step("created topics are seen at once", || {
        cluster.topics_are_created()
    });
    step("messages pass", || cluster.messages_pass());
    step("topics make themselves", || {
        cluster.topics_make_themselves()
    });
    step("admin commands work", || cluster.admin_commands());
    let releases = || peers.iter().map(|peers| peers.release.number).enumerate();
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
    directory.remove();
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
    match std::env::var("INTEROP_RELEASES").as_deref() {
        Ok("all") => &RELEASES,
        _ => &RELEASES[..2],
    }
}

/// Cargo's target directory, wherever it is.
fn target() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR"));
    below.parent().unwrap_or(below).to_owned()
}
