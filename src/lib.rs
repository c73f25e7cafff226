#![doc = include_str!("../ARCHITECTURE.md")]

#[cfg(feature = "rt")]
pub mod rt;
#[cfg(feature = "server")]
pub mod server;

pub mod route;
pub mod session;
pub mod settings;
pub mod wire;
