//! Cuts frames from a buffer that the caller owns (`NettyDecoder`, `RemotingCommand.decode`).
//!
//! Invariant: what is wrong with a frame is known from its first 8 bytes, so that no byte is
//! ever waited for or stored on behalf of a frame that will be refused. Deliberately absent:
//! the buffer itself, the TLS and PROXY bytes that may precede the first frame, and any
//! resynchronisation after an error (there is none: the connection is closed).

use thiserror::Error;

/// Bytes of the length word.
pub const LENGTH_BYTES: usize = 4;
/// Bytes in front of the header: the length word, the type and the header's length.
pub const HEAD_BYTES: usize = 8;
/// Largest `length` that any Java peer reads with its default limit of 16 MiB: the limit is
/// compared with `length + 4` (`NettyDecoder`, `com.rocketmq.remoting.frameMaxLength`).
pub const MAX_LENGTH: usize = 16_777_212;

/// Bytes of the word that holds the type and the header's length; counted in `length`.
const HEADER_WORD_BYTES: u32 = 4;

/// How a header is written; the byte after the length word (`SerializeType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerializeType {
    /// A JSON object.
    #[default]
    Json,
    /// The compact binary form.
    RocketMq,
}

impl SerializeType {
    /// The name of Java's enum constant.
    pub const fn java_name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::RocketMq => "ROCKETMQ",
        }
    }

    /// The byte on the wire.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::RocketMq => 1,
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// `length + 4` is over the limit.
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

/// The frame that begins at the start of `input`; `None` when bytes of it are still missing.
///
/// A bad length is found as soon as 4 bytes are there, a bad type or header length as soon as
/// 8 are. An empty header is a frame: it is the header's parser that refuses it.
#[inline]
pub fn cut<'a>(input: &'a [u8], limits: &FrameLimits) -> Result<Option<Frame<'a>>, FrameError> {
    let Some((length_word, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = check_length(*length_word, limits)?;
    let Some((header_word, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let (serialize, header_bytes) = check_header_word(*header_word, length, limits)?;
    let payload_bytes = (length - HEADER_WORD_BYTES) as usize;
    let Some(payload) = rest.get(..payload_bytes) else {
        return Ok(None);
    };
    let (header, body) = payload.split_at(header_bytes);
    Ok(Some(Frame {
        serialize,
        header,
        body,
        total_bytes: HEAD_BYTES + payload_bytes,
    }))
}

/// The frame that begins at the start of `input` without its body, as soon as its header is
/// there: for a body that will be thrown away.
pub fn cut_head<'a>(
    input: &'a [u8],
    limits: &FrameLimits,
) -> Result<Option<Frame<'a>>, FrameError> {
    let Some((length_word, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = check_length(*length_word, limits)?;
    let Some((header_word, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let (serialize, header_bytes) = check_header_word(*header_word, length, limits)?;
    Ok(rest.get(..header_bytes).map(|header| Frame {
        serialize,
        header,
        body: &[],
        total_bytes: LENGTH_BYTES + length as usize,
    }))
}

/// Bytes of the whole frame that begins at the start of `input`, with its length word, as soon
/// as its first 4 bytes are there; refuses what [`cut`] refuses, as early as [`cut`] does.
#[inline]
pub fn announced_bytes(input: &[u8], limits: &FrameLimits) -> Result<Option<usize>, FrameError> {
    let Some((length_word, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = check_length(*length_word, limits)?;
    if let Some(header_word) = rest.first_chunk::<4>() {
        check_header_word(*header_word, length, limits)?;
    }
    Ok(Some(LENGTH_BYTES + length as usize))
}

/// Reserves the first [`HEAD_BYTES`] of a frame and returns where it starts; its header and body
/// are written behind, then [`close`] fills the head in.
#[inline]
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    start
}

/// Fills in the head of the frame at `start` whose header ends at `header_end` and whose body is
/// the rest of `out` and `shared_bytes` that are kept elsewhere. False, and nothing is filled
/// in, when no peer would read so long a frame.
#[inline]
pub(super) fn close(
    out: &mut [u8],
    start: usize,
    header_end: usize,
    shared_bytes: usize,
    serialize: SerializeType,
) -> bool {
    let length = out.len() - start - LENGTH_BYTES + shared_bytes;
    if length > MAX_LENGTH {
        return false;
    }
    // Both fit: the header is shorter than the frame, and that is below 2^24.
    let header_word = (header_end - start - HEAD_BYTES) as u32 | u32::from(serialize.byte()) << 24;
    let head = &mut out[start..start + HEAD_BYTES];
    head[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    head[LENGTH_BYTES..].copy_from_slice(&header_word.to_be_bytes());
    true
}

/// `length` is unsigned, as `LengthFieldBasedFrameDecoder` reads it: never negative.
#[inline]
fn check_length(word: [u8; 4], limits: &FrameLimits) -> Result<u32, FrameError> {
    let length = u32::from_be_bytes(word);
    let total_bytes = u64::from(length) + LENGTH_BYTES as u64;
    if total_bytes > limits.frame_bytes as u64 {
        return Err(FrameError::TooLong(total_bytes));
    }
    if length < HEADER_WORD_BYTES {
        return Err(FrameError::TooShort(length));
    }
    Ok(length)
}

#[inline]
fn check_header_word(
    word: [u8; 4],
    length: u32,
    limits: &FrameLimits,
) -> Result<(SerializeType, usize), FrameError> {
    let [type_byte, high, middle, low] = word;
    let serialize = match type_byte {
        0 => SerializeType::Json,
        1 => SerializeType::RocketMq,
        other => return Err(FrameError::SerializeType(other)),
    };
    let header_bytes = u32::from_be_bytes([0, high, middle, low]);
    if header_bytes > length - HEADER_WORD_BYTES {
        return Err(FrameError::HeaderBeyondFrame(header_bytes));
    }
    if header_bytes as usize > limits.header_bytes {
        return Err(FrameError::HeaderTooLong(header_bytes));
    }
    Ok((serialize, header_bytes as usize))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        reason = "a failed unwrap is the failure of the test"
    )]

    use proptest::prelude::*;

    use super::*;

    const LIMITS: FrameLimits = FrameLimits {
        frame_bytes: 16_777_216,
        header_bytes: 1 << 20,
        ext_fields: 1_024,
    };

    #[test]
    fn a_frame_is_cut_into_header_and_body() {
        let input = b"\0\0\0\x09\x01\0\0\x02abxyz\0\0";
        let frame = cut(input, &LIMITS).unwrap().unwrap();
        assert_eq!(frame.serialize, SerializeType::RocketMq);
        assert_eq!((frame.header, frame.body), (&b"ab"[..], &b"xyz"[..]));
        assert_eq!(frame.total_bytes, 13);
    }

    #[test]
    fn an_incomplete_frame_waits_and_announces_its_size() {
        let input = b"\0\0\0\x09\0\0\0\x02abxyz";
        for end in 0..input.len() {
            assert_eq!(cut(&input[..end], &LIMITS), Ok(None), "{end} bytes");
            let announced = if end < 4 { None } else { Some(13) };
            assert_eq!(
                announced_bytes(&input[..end], &LIMITS),
                Ok(announced),
                "{end} bytes"
            );
        }
    }

    #[test]
    fn an_empty_header_is_still_a_frame() {
        for (type_byte, serialize) in [(0, SerializeType::Json), (1, SerializeType::RocketMq)] {
            let input = [0, 0, 0, 4, type_byte, 0, 0, 0];
            let frame = Frame {
                serialize,
                header: b"",
                body: b"",
                total_bytes: 8,
            };
            assert_eq!(cut(&input, &LIMITS), Ok(Some(frame)));
        }
    }

    #[test]
    fn bad_lengths_are_refused_from_four_bytes_on() {
        for length in 0..4u32 {
            refuse(&length.to_be_bytes(), FrameError::TooShort(length));
        }
        for length in [16_777_213u32, 0x4745_5420, 0x8000_0000, u32::MAX] {
            refuse(
                &length.to_be_bytes(),
                FrameError::TooLong(u64::from(length) + 4),
            );
        }
        let largest = u32::try_from(MAX_LENGTH).unwrap().to_be_bytes();
        assert_eq!(announced_bytes(&largest, &LIMITS), Ok(Some(16_777_216)));
        assert_eq!(cut(&largest, &LIMITS), Ok(None));
    }

    #[test]
    fn the_limit_is_compared_with_length_plus_four() {
        let limits = FrameLimits {
            frame_bytes: 100,
            ..LIMITS
        };
        assert_eq!(
            announced_bytes(&96u32.to_be_bytes(), &limits),
            Ok(Some(100))
        );
        assert_eq!(
            announced_bytes(&97u32.to_be_bytes(), &limits),
            Err(FrameError::TooLong(101))
        );
    }

    #[test]
    fn a_bad_header_word_is_refused_from_eight_bytes_on() {
        refuse(b"\0\0\0\x09\x02\0\0\x02", FrameError::SerializeType(2));
        refuse(b"\0\0\0\x09\xff\0\0\x02", FrameError::SerializeType(255));
        refuse(b"\0\0\0\x09\0\0\0\x06", FrameError::HeaderBeyondFrame(6));
        refuse(
            b"\0\0\0\x04\x01\xff\xff\xff",
            FrameError::HeaderBeyondFrame(0xff_ffff),
        );
        refuse(
            b"\0\x20\0\0\0\x10\0\x01",
            FrameError::HeaderTooLong((1 << 20) + 1),
        );
        assert_eq!(
            cut(b"\0\x20\0\0\0\x10\0\0", &LIMITS),
            Ok(None),
            "1 MiB is allowed"
        );
    }

    fn refuse(input: &[u8], error: FrameError) {
        assert_eq!(cut(input, &LIMITS), Err(error), "{input:02x?}");
        assert_eq!(announced_bytes(input, &LIMITS), Err(error), "{input:02x?}");
    }

    fn frame_bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = || prop::collection::vec(any::<u8>(), 0..40);
        (0..2u8, part(), part()).prop_map(|(type_byte, header, body)| {
            let length = u32::try_from(4 + header.len() + body.len()).unwrap();
            let header_bytes = u32::try_from(header.len()).unwrap().to_be_bytes();
            let mut frame = length.to_be_bytes().to_vec();
            frame.push(type_byte);
            frame.extend_from_slice(&header_bytes[1..]);
            frame.extend_from_slice(&header);
            frame.extend_from_slice(&body);
            frame
        })
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_frames(
            frames in prop::collection::vec(frame_bytes(), 0..6),
            reads in prop::collection::vec(1..30usize, 1..20),
        ) {
            let stream = frames.concat();
            let (mut fed, mut taken, mut seen) = (0, 0, Vec::new());
            let mut sizes = reads.iter().cycle();
            while fed < stream.len() {
                fed = (fed + sizes.next().unwrap()).min(stream.len());
                while let Some(frame) = cut(&stream[taken..fed], &LIMITS).unwrap() {
                    prop_assert_eq!(
                        frame.header.len() + frame.body.len() + HEAD_BYTES,
                        frame.total_bytes
                    );
                    seen.push(stream[taken..taken + frame.total_bytes].to_vec());
                    taken += frame.total_bytes;
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn both_questions_agree_on_arbitrary_bytes(
            input in prop::collection::vec(any::<u8>(), 0..40),
            small in prop::collection::vec(0..20u8, 8),
        ) {
            for bytes in [input, [&[0, 0, 0][..], &small].concat()] {
                let announced = announced_bytes(&bytes, &LIMITS);
                match cut(&bytes, &LIMITS) {
                    Ok(Some(frame)) => prop_assert_eq!(announced, Ok(Some(frame.total_bytes))),
                    Ok(None) => prop_assert!(announced.is_ok()),
                    Err(error) => prop_assert_eq!(announced, Err(error)),
                }
            }
        }
    }
}
