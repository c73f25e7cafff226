//! Frames: cutting does not depend on how the bytes come in, and never goes beyond them.
//!
//! The first byte chooses the limits, the second the sizes of the pieces; the rest is the stream.

use namesrv::wire::frame::{self, Frame, FrameError, FrameLimits, HEAD_BYTES, LENGTH_BYTES};

/// [`frame::cut`], or what a self-test puts in its place.
pub(crate) type Cut = for<'a> fn(&'a [u8], &FrameLimits) -> Result<Option<Frame<'a>>, FrameError>;

/// How a stream was read: where its frames end, and what ended it.
type Read = (Vec<usize>, Option<FrameError>);

pub(crate) fn laws(data: &[u8]) {
    laws_of(frame::cut, data);
}

pub(crate) fn laws_of(cut: Cut, data: &[u8]) {
    let [limits, pieces, stream @ ..] = data else {
        return;
    };
    let limits = FrameLimits {
        frame_bytes: [16 << 20, 4096, 64, 12][usize::from(limits & 3)],
        header_bytes: [1 << 20, 1024, 40, 8][usize::from(limits >> 2 & 3)],
        ext_fields: 8,
    };
    let whole = read(cut, stream, &[stream.len()], &limits);
    let piece = usize::from(*pieces) + 1;
    assert_eq!(read(cut, stream, &[piece], &limits), whole);
    assert_eq!(read(cut, stream, &[1, 7, piece], &limits), whole);
}

/// Feeds the stream in pieces of these sizes, in turn, and holds each answer against the bytes.
fn read(cut: Cut, stream: &[u8], sizes: &[usize], limits: &FrameLimits) -> Read {
    let (mut fed, mut taken, mut ends) = (0, 0, Vec::new());
    for size in sizes.iter().cycle() {
        fed = stream.len().min(fed + size);
        loop {
            let input = &stream[taken..fed];
            let found = cut(input, limits);
            check(input, &found, limits);
            match found {
                Ok(Some(frame)) => {
                    taken += frame.total_bytes;
                    ends.push(taken);
                }
                Ok(None) => break,
                Err(error) => return (ends, Some(error)),
            }
        }
        if fed == stream.len() {
            break;
        }
    }
    (ends, None)
}

/// What `found` must be, by the words at the start of `input`.
fn check(input: &[u8], found: &Result<Option<Frame<'_>>, FrameError>, limits: &FrameLimits) {
    let announced = frame::announced_bytes(input, limits);
    let head = frame::cut_head(input, limits);
    match found {
        Ok(Some(frame)) => {
            let word = |at: usize| {
                input[at..at + 4]
                    .iter()
                    .fold(0, |n, b| n << 8 | usize::from(*b))
            };
            let header_bytes = word(LENGTH_BYTES) & 0xff_ffff;
            assert_eq!(frame.total_bytes, LENGTH_BYTES + word(0));
            assert!(frame.total_bytes <= limits.frame_bytes && header_bytes <= limits.header_bytes);
            assert_eq!(frame.serialize.byte(), input[LENGTH_BYTES]);
            let (header, body) = input[HEAD_BYTES..frame.total_bytes].split_at(header_bytes);
            assert!(std::ptr::eq(frame.header, header) && std::ptr::eq(frame.body, body));
            assert_eq!(announced, Ok(Some(frame.total_bytes)));
            assert_eq!(
                head,
                Ok(Some(Frame {
                    body: &[],
                    ..*frame
                }))
            );
        }
        Ok(None) => {
            // What is still missing is known to be missing, and nothing is wrong with the rest.
            match announced {
                Ok(None) => assert!(input.len() < LENGTH_BYTES),
                Ok(Some(total)) => assert!(input.len() < total && total <= limits.frame_bytes),
                Err(error) => panic!("waits for a frame that is refused: {error}"),
            }
            assert!(head.is_ok());
        }
        Err(error) => {
            assert_eq!(announced, Err(*error));
            assert_eq!(head, Err(*error));
        }
    }
}
