//! Cuts frames from a buffer that the caller owns (`NettyDecoder`, `RemotingCommand.decode`).

use thiserror::Error;

/// How a header is written; the byte after the length word (`SerializeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerializeType {
    /// A JSON object.
    Json,
    /// The compact binary form.
    RocketMq,
}

/// The limits of one frame; see the table in `session::limits`.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// Largest `length + 4`, Java's `com.rocketmq.remoting.frameMaxLength`.
    pub frame_bytes: usize,
    /// Largest header.
    pub header_bytes: usize,
    /// Most ext fields in one header.
    pub ext_fields: usize,
}

/// One complete frame, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// How the header is written.
    pub serialize: SerializeType,
    /// The header's bytes.
    pub header: &'a [u8],
    /// The body's bytes; empty means that there is none.
    pub body: &'a [u8],
    /// Bytes of the whole frame with its length word.
    pub total_bytes: usize,
}

/// Why no frame can follow on this connection: it is closed, as Java closes it, without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// `length` is over the limit.
    #[error("frame of {0} bytes is over the limit")]
    TooLong(u64),
    /// `length` is smaller than the header word.
    #[error("frame length {0} leaves no room for a header")]
    TooShort(u32),
    /// The header is over the limit.
    #[error("header of {0} bytes is over the limit")]
    HeaderTooLong(u32),
    /// The header would end behind the frame.
    #[error("header of {0} bytes ends behind its frame")]
    HeaderBeyondFrame(u32),
    /// The type byte is neither 0 nor 1.
    #[error("unknown serialize type {0}")]
    SerializeType(u8),
}
