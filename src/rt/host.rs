//! What the host allows: CPUs, io_uring, locked memory, descriptors. Facts are returned; what
//! to say about them is the caller's.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::core::RING_DEPTH;

/// Words of 64 CPUs in the largest affinity mask that is tried.
const MAX_MASK_WORDS: usize = 1 << 14;

/// The CPUs that this process may run on, ascending (`sched_getaffinity`: containers and
/// `taskset` narrow it).
///
/// # Errors
/// The kernel refused to tell.
pub fn usable_cpus() -> io::Result<Vec<usize>> {
    let mut mask = vec![0_u64; 16];
    loop {
        let bytes = size_of_val(mask.as_slice());
        // SAFETY: the pointer and `bytes` describe `mask`, and the kernel writes no further.
        let written = unsafe { libc::sched_getaffinity(0, bytes, mask.as_mut_ptr().cast()) };
        if written == 0 {
            return Ok(bits(&mask));
        }
        // EINVAL: this machine could have more CPUs than the mask has bits.
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || mask.len() >= MAX_MASK_WORDS {
            return Err(error);
        }
        mask.resize(mask.len() * 2, 0);
    }
}

fn bits(mask: &[u64]) -> Vec<usize> {
    let set = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    (0..mask.len() * 64).filter(set).collect()
}

/// Binds the calling thread, and threads that it starts later, to `cpu`.
pub(super) fn pin_thread(cpu: usize) -> io::Result<()> {
    let mut mask = vec![0_u64; cpu / 64 + 1];
    mask[cpu / 64] = 1 << (cpu % 64);
    let bytes = size_of_val(mask.as_slice());
    // SAFETY: the pointer and `bytes` describe `mask`, which the kernel only reads.
    let refused = unsafe { libc::sched_setaffinity(0, bytes, mask.as_ptr().cast()) };
    if refused == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// To be called by `main` before it starts a thread.
///
/// glommio uses `membarrier` before an executor sleeps, and registers the process for it when it
/// first does. With several threads that registration waits for an RCU grace period, tens of
/// milliseconds in which a new server answers nothing; with one thread it is immediate.
pub fn prepare_process() {
    // SAFETY: takes no pointers. A failure means that the kernel lacks it, and glommio then
    // uses other means.
    unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
            0,
            0,
        )
    };
}

/// What happened when a ring was made for real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoUringStatus {
    /// A ring of the size in use could be made, and knows every operation that is needed.
    Usable,
    /// Refused, and `kernel.io_uring_disabled` is `value`: 1 demands CAP_SYS_ADMIN or
    /// membership in `kernel.io_uring_group`, 2 forbids it to all.
    Disabled {
        /// The value of the sysctl.
        value: u32,
    },
    /// Refused although the sysctl allows it: a seccomp profile, as containers have by default,
    /// or a security module.
    Forbidden,
    /// There is no such system call. It came with Linux 5.1, can be left out of a kernel, and
    /// some seccomp profiles answer like this.
    Absent {
        /// The release of the running kernel.
        release: String,
    },
    /// The kernel lacks an operation that is needed; all came with Linux 5.8.
    TooOld {
        /// The release of the running kernel.
        release: String,
    },
    /// Locked memory, or memory of the control group, does not suffice for a ring.
    NoMemory,
    /// Anything else.
    Failed {
        /// The error number of `io_uring_setup`.
        errno: i32,
    },
}

/// Tries to make a ring, without keeping it. To be asked before the first core starts: with an
/// old kernel glommio ends the process.
#[must_use]
pub fn io_uring_status() -> IoUringStatus {
    let errno = match make_ring() {
        Ok(ring) if knows_operations(&ring) => return IoUringStatus::Usable,
        Ok(_) => {
            return IoUringStatus::TooOld {
                release: kernel_release(),
            };
        }
        Err(error) => error.raw_os_error().unwrap_or(0),
    };
    match (errno, io_uring_disabled()) {
        (libc::EPERM | libc::EACCES, value @ 1..) => IoUringStatus::Disabled { value },
        (libc::EPERM | libc::EACCES, 0) => IoUringStatus::Forbidden,
        (libc::ENOSYS, _) => IoUringStatus::Absent {
            release: kernel_release(),
        },
        (libc::ENOMEM, _) => IoUringStatus::NoMemory,
        (errno, _) => IoUringStatus::Failed { errno },
    }
}

/// Bytes of `struct io_uring_params`, all of which may be zero on entry.
const PARAMS_BYTES: usize = 120;

fn make_ring() -> io::Result<OwnedFd> {
    let mut params = [0_u64; PARAMS_BYTES / 8];
    // SAFETY: `params` has the size and at least the alignment of `struct io_uring_params`.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, RING_DEPTH, params.as_mut_ptr()) };
    let ring = i32::try_from(ring).unwrap_or(-1);
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(ring) })
}

/// Opcodes that glommio 0.9.0 demands at its start, and cancelling (14), which it uses: no-op,
/// vectored reads and writes, fsync, fixed reads and writes, polls, messages, timers, accept,
/// linked time-outs, connect, fallocate, open, close, statx, reads and writes, send, receive.
const OPERATIONS: [usize; 24] = [
    0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 26, 27,
];

/// `IORING_REGISTER_PROBE`.
const REGISTER_PROBE: libc::c_uint = 8;
/// `IO_URING_OP_SUPPORTED`.
const SUPPORTED: u16 = 1;
const PROBE_HEAD_BYTES: usize = 16;
const PROBE_OP_BYTES: usize = 8;
const PROBE_OPS: usize = 256;

fn knows_operations(ring: &OwnedFd) -> bool {
    // `struct io_uring_probe`: 16 bytes, then 8 per opcode, of which the third and fourth are flags.
    let mut probe = [0_u64; (PROBE_HEAD_BYTES + PROBE_OPS * PROBE_OP_BYTES) / 8];
    // SAFETY: `probe` has room for the head and `PROBE_OPS` entries, which is what is announced.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            REGISTER_PROBE,
            probe.as_mut_ptr(),
            PROBE_OPS,
        )
    };
    let supported = |op: usize| {
        let entry = probe[PROBE_HEAD_BYTES / 8 + op].to_ne_bytes();
        u16::from_ne_bytes([entry[2], entry[3]]) & SUPPORTED != 0
    };
    refused == 0 && OPERATIONS.into_iter().all(supported)
}

/// The sysctl, or 0 where it does not exist (Linux before 6.6).
fn io_uring_disabled() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn kernel_release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// Below this limit glommio refuses to make an executor.
const MEMLOCK_FLOOR_BYTES: u64 = 512 * 1024;

/// What one core's three rings of 4096 entries charge to the limit before Linux 5.12: 256 KiB of
/// submission entries and 256 KiB of queues (144 KiB, rounded up to a power of two) each.
const OLD_KERNEL_CORE_BYTES: u64 = 3 * 512 * 1024;

/// The smallest RLIMIT_MEMLOCK with which `cores` cores start on this kernel.
///
/// Since Linux 5.12 rings count against the memory of the control group instead. Each core also
/// registers three buffers of 64 KiB; where they exceed the limit glommio goes on without, and
/// nothing here uses them.
#[must_use]
pub fn memlock_needed_bytes(cores: usize) -> u64 {
    needed_bytes(&kernel_release(), cores)
}

fn needed_bytes(release: &str, cores: usize) -> u64 {
    if charges_rings_to_memlock(release) {
        let rings = OLD_KERNEL_CORE_BYTES.saturating_mul(cores as u64);
        rings.max(MEMLOCK_FLOOR_BYTES)
    } else {
        MEMLOCK_FLOOR_BYTES
    }
}

/// Whether the release is older than 5.12. One that cannot be read is taken for a new one.
fn charges_rings_to_memlock(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (5, 12),
        _ => false,
    }
}

/// The soft RLIMIT_MEMLOCK; `u64::MAX` means no limit.
///
/// # Errors
/// The kernel refused to tell.
pub fn memlock_limit_bytes() -> io::Result<u64> {
    limits(libc::RLIMIT_MEMLOCK).map(|limit| limit.rlim_cur)
}

/// Raises the soft limit of descriptors to the hard one, but to no more than `max`, and never
/// lowers it. Returns the soft and the hard limit as they are then.
///
/// # Errors
/// The kernel refused to tell. That it refused to raise is seen in the result.
pub fn raise_descriptor_limit(max: u64) -> io::Result<(u64, u64)> {
    let old = limits(libc::RLIMIT_NOFILE)?;
    let wanted = libc::rlimit {
        rlim_cur: old.rlim_max.min(max),
        rlim_max: old.rlim_max,
    };
    if wanted.rlim_cur > old.rlim_cur {
        // SAFETY: the kernel only reads `wanted`.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) };
    }
    let now = limits(libc::RLIMIT_NOFILE)?;
    Ok((now.rlim_cur, now.rlim_max))
}

fn limits(resource: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one `rlimit`, and `limit` is one.
    let refused = unsafe { libc::getrlimit(resource, &raw mut limit) };
    if refused == 0 {
        Ok(limit)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_bits_become_cpu_numbers() {
        assert_eq!(bits(&[0b1011, 0, 1 << 63]), vec![0, 1, 3, 191]);
        assert_eq!(bits(&[0]), Vec::<usize>::new());
    }

    #[test]
    fn rings_need_locked_memory_before_linux_5_12() {
        assert_eq!(needed_bytes("5.11.0-49-generic", 4), 4 * 1_572_864);
        assert_eq!(needed_bytes("5.8", 0), 524_288);
        assert_eq!(needed_bytes("5.12.0", 64), 524_288);
        assert_eq!(needed_bytes("6.18.44-fc", 64), 524_288);
        assert_eq!(needed_bytes("unreadable", 64), 524_288);
    }
}
