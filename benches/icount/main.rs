//! Instruction-count gates of the pure half: how much work it does for what the server does most.
//!
//! ```text
//! cargo bench --bench icount --no-default-features              all gates
//! cargo bench --bench icount --no-default-features -- routes    the gates of one world
//! UPDATE=1 cargo bench --bench icount --no-default-features     accept what is counted now
//! ```
//!
//! Counts are valgrind's (`callgrind`), so neither the machine's load nor its speed moves them. A
//! gate fails when its count is more than 3 % above the one in `benches/accepted.json`, which
//! changes only in a commit that says why. Where the instructions of one gate go:
//!
//! ```text
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect=icount::measured \
//!     --callgrind-out-file=out target/release/deps/icount-… --world routes route/16/standard
//! callgrind_annotate out
//! ```
//!
//! This program starts itself again under valgrind, once for each [`worlds::WORLDS`]; there each
//! gate is one call of [`measured`], and the set-up around it is not counted. It does by itself
//! what a framework would do because the set-up is the expensive part: a table of a million
//! entries is built once and serves all gates that need it.
//!
//! Deliberately absent: wall-clock time, which is `loadgen`'s, and everything with a socket.

mod callgrind;
mod fixture;
mod verdict;
mod worlds;

#[path = "../common/registration.rs"]
mod registration;
#[path = "../../tests/support/request.rs"]
#[allow(dead_code, reason = "the gates send only some of the requests")]
mod request;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use callgrind::Count;
use worlds::WORLDS;

/// First argument of the program that valgrind runs.
const WORLD_FLAG: &str = "--world";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, world, ..] = &args[..]
        && flag == WORLD_FLAG
    {
        worlds::run(world);
        return ExitCode::SUCCESS;
    }
    // cargo itself adds `--bench`.
    let wanted: Vec<String> = args.into_iter().filter(|a| !a.starts_with("--")).collect();
    if !has_known_cpu() {
        println!("skipped: the accepted counts are those of x86-64 with AVX2");
        return ExitCode::SUCCESS;
    }
    match count_all(&wanted) {
        Ok(counts) => verdict::judge(&counts, !wanted.is_empty()),
        Err(error) => {
            eprintln!("icount: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What valgrind counts. Its name is how callgrind finds it.
#[inline(never)]
pub(crate) fn measured<R>(work: impl FnOnce() -> R) -> R {
    std::hint::black_box(work())
}

/// Libraries choose their code by the CPU that valgrind shows them, and that depends on this one
/// only by whether it has AVX2.
fn has_known_cpu() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The counts of the wanted worlds, or of all; as many at once as there are cores.
fn count_all(wanted: &[String]) -> Result<Vec<Count>, String> {
    let is_wanted = |name: &&str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let names: Vec<&str> = WORLDS
        .iter()
        .map(|(name, _)| *name)
        .filter(is_wanted)
        .collect();
    if names.is_empty() {
        return Err(format!("there is no world {}", wanted.join(", ")));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*name, callgrind::count(name)));
        }
        done
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|t| t.join().unwrap_or_default());
        results.flatten().collect()
    });
    done.sort_by_key(|(name, _)| names.iter().position(|n| n == name));
    let mut counts = Vec::new();
    for (_, result) in done {
        counts.extend(result?);
    }
    Ok(counts)
}
