//! The NameServer binary.

use std::process::exit;

use namesrv::server::{Plan, run};
use namesrv::settings::Settings;

/// Cores free what others have allocated, all the time; mimalloc hands such memory back in
/// batches, where the system's allocator takes a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let plan = Plan {
        settings: Settings::default(),
        cpus: Vec::new(),
        writer_cpu: None,
    };
    exit(run(&plan));
}
