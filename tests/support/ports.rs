//! Ports that nobody uses, below those that the kernel gives to outgoing connections: a server
//! that restarts must find its port free again.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// A server takes a few neighbours of its port.
const BLOCK: u16 = 16;
const PORTS: Range<u16> = 20_000..32_000;
/// More blocks than one run takes, and prime.
const STRIDE: u64 = 61;
/// Where in its block a program listens: a broker also takes two below and one above, and our
/// server the one ten above.
const PLACE: u16 = 2;

/// How many blocks this process has looked at: no two tests of it get the same port, also while
/// nobody listens there yet.
static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// A port for each of `N` servers, with free neighbours.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    // Runs beside this one begin elsewhere, also when their ids are neighbours.
    let blocks = (PORTS.end - PORTS.start) / BLOCK;
    let first = u64::from(std::process::id()) * STRIDE % u64::from(blocks);
    let first = u16::try_from(first).unwrap();
    let mut free = std::iter::repeat_with(|| LOOKED_AT.fetch_add(1, Ordering::Relaxed))
        .take_while(|offset| *offset < blocks)
        .map(|offset| PORTS.start + (first + offset) % blocks * BLOCK)
        .filter(|block| is_free(*block));
    std::array::from_fn(|_| free.next().unwrap_or_else(|| panic!("no free ports")) + PLACE)
}

/// On all addresses, as brokers listen.
fn is_free(block: u16) -> bool {
    (block..block + BLOCK).all(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok())
}
