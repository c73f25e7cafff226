//! The fence around glommio and io_uring: threads with an executor each, and TCP sockets on them.
//!
//! It owns the executors, their task queues, the ring that watches the sockets of a core, and
//! the questions that must be asked of the host before they start. It knows nothing of RocketMQ.
//! Only the files of this directory name glommio, and only they contain `unsafe`: everything
//! crosses the fence as a concrete type, so that another engine can take its place.
//!
//! Invariants:
//! - A [`Stream`] or a [`Listener`] in use belongs to one task of one core. An [`OwnedFd`] is how
//!   a socket travels between cores.
//! - A spawned task ends by itself. Nothing cancels it, because glommio 0.9.0 leaks a cancelled
//!   task; a panic in it is caught and handed to its owner, because it would kill the executor.
//! - Dropping a [`Stream`] sends FIN at once.
//!
//! Deliberately absent: clocks other than [`sleep`], timers per connection, files, channels
//! (`server::mailbox` has them), name resolution, and any choice of what to do about an error.
//!
//! [`OwnedFd`]: std::os::fd::OwnedFd

#![allow(
    unsafe_code,
    reason = "raw descriptors and system calls that no safe crate covers"
)]

mod core;
mod host;
mod net;
mod ring;
mod stream;
mod turn;

pub use self::core::{CoreHandle, Panicked, Queue, spawn, spawn_core};
pub use host::{
    IoUringStatus, MEMLOCK_NEEDED_BYTES, io_uring_status, memlock_limit_bytes, prepare_process,
    raise_descriptor_limit, usable_cpus,
};
pub use net::{ListenOptions, Listener, PortProbe, connect, connect_within, listen, probe_bind};
pub use stream::Stream;
pub use turn::{sleep, yield_if_needed, yield_now, yield_to_io};
