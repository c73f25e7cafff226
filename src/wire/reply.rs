//! Answers: frames byte for byte as Java 5.3.3 writes them.

use bytes::Bytes;

/// Bytes to send: one growing buffer, with shared bodies spliced in by position so that
/// large polled answers are not copied.
#[derive(Debug, Default)]
pub struct Output {
    /// Everything but the shared bodies.
    pub buf: Vec<u8>,
    /// Shared bodies and the length of `buf` at which each belongs, ascending.
    pub shared: Vec<(usize, Bytes)>,
}

/// The ext fields of an answer: absent and empty are different things on the wire.
#[derive(Clone, Copy, Debug)]
pub enum ReplyExt<'a> {
    /// The answer's class has no header: no `extFields`.
    None,
    /// The answer's class has a header: `extFields`, also when empty, in this order.
    Fields(&'a [(&'a str, &'a str)]),
}
