//! What the host allows: CPUs, io_uring, locked memory, descriptors. Facts are returned; what
//! to say about them is the caller's.

use std::fs;
use std::io;

use io_uring::IoUring;

use super::core::RING_DEPTH;
use super::ring;

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
    /// Rings of the sizes in use could be made, and know every operation that is needed.
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
    /// The kernel lacks an operation that is needed; the last ones came with Linux 5.13.
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

/// Tries to make the rings of a core, without keeping them. To be asked before the first core
/// starts: with an old kernel glommio ends the process.
#[must_use]
pub fn io_uring_status() -> IoUringStatus {
    let made = IoUring::new(RING_DEPTH as u32).and_then(|_| ring::make());
    let errno = match made {
        // came with Linux 5.13, as requests that stay after an event did
        Ok(ring) if ring.params().is_feature_resource_tagging() => return IoUringStatus::Usable,
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

/// The sysctl, or 0 where it does not exist (Linux before 6.6).
fn io_uring_disabled() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn kernel_release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// The smallest RLIMIT_MEMLOCK with which cores start: glommio refuses a smaller one. The rings
/// themselves count against the memory of the control group. Each core also registers three
/// buffers of 64 KiB; where they exceed the limit glommio goes on without, and nothing uses them.
pub const MEMLOCK_NEEDED_BYTES: u64 = 512 * 1024;

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
}
