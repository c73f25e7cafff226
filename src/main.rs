//! The NameServer binary.

use std::process::exit;

/// Cores free what others have allocated, all the time; mimalloc hands such memory back in
/// batches, where the system's allocator takes a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    exit(namesrv::server::main(std::env::args_os()));
}
