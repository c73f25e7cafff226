//! The targets: each a function of any bytes that panics where a law does not hold.

pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod inflate;
pub(crate) mod json;
pub(crate) mod register;
pub(crate) mod session;
pub(crate) mod table;

/// A target by its name, which is also its folder's in the corpus.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) laws: fn(&[u8]),
}

pub(crate) const ALL: [Target; 7] = [
    target("frame", frame::laws),
    target("header", header::laws),
    target("inflate", inflate::laws),
    target("json", json::laws),
    target("register", register::laws),
    target("session", session::laws),
    target("table", table::laws),
];

const fn target(name: &'static str, laws: fn(&[u8])) -> Target {
    Target { name, laws }
}
