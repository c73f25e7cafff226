//! Inflating: the plaintext does not depend on how much of it is taken at a time, is that of the
//! reference, and stays under the cap.
//!
//! The first byte chooses the cap, the second how much is taken at a time, the third whether the
//! rest is a zlib stream or is made one.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use namesrv::wire::inflate::{InflateError, Inflater};
use namesrv::wire::pace::{Pace, run_to_end};

/// What is inflated ahead of what was asked for, at most: broken data in it is noticed early.
const AHEAD_BYTES: usize = 16 * 1024;

pub(crate) fn laws(data: &[u8]) {
    let [cap, size, kind, rest @ ..] = data else {
        return;
    };
    let cap = usize::from(*cap) * [1, 16, 64, 192][usize::from(*size & 3)];
    let size = usize::from(*size) + 1;
    let stream = match kind & 3 {
        0 | 1 => rest.to_vec(),
        2 => deflate(rest, Compression::fast()),
        // mostly repetitions, so that little input has much output
        _ => deflate(
            &rest.repeat(usize::from(kind >> 2) + 1),
            Compression::best(),
        ),
    };
    let (reference, broken) = inflate_all(&stream, cap + AHEAD_BYTES + 1);
    for size in [size, 1 + size / 16, cap.max(1)] {
        let (plain, end) = take(&stream, cap, size);
        assert!(plain.len() <= cap);
        // the reference loses what it inflates in the very step that fails: one byte
        assert!(plain.len() <= reference.len() + usize::from(broken));
        assert!(
            plain
                .iter()
                .zip(&reference)
                .all(|(ours, theirs)| ours == theirs)
        );
        match end {
            InflateError::TooLarge => assert!(plain.len() + size > cap),
            InflateError::Early => assert!(!broken && reference.len() < plain.len() + size),
            InflateError::Corrupt => {
                assert!(broken && reference.len() <= plain.len() + size + AHEAD_BYTES);
            }
        }
    }
}

/// Takes pieces of `size` until that fails.
fn take(stream: &[u8], cap: usize, size: usize) -> (Vec<u8>, InflateError) {
    let pace = Pace::default();
    let mut inflater = Inflater::new(stream, cap);
    let mut plain = Vec::new();
    loop {
        match run_to_end(inflater.take(size, &pace)) {
            Ok(piece) => {
                assert_eq!(piece.len(), size);
                plain.extend_from_slice(piece);
            }
            Err(error) => return (plain, error),
        }
    }
}

/// All plaintext up to `most` bytes, and whether the stream is broken behind it. A missing end is
/// no damage.
fn inflate_all(stream: &[u8], most: usize) -> (Vec<u8>, bool) {
    let mut decoder = ZlibDecoder::new(stream);
    let mut plain = Vec::new();
    let mut byte = [0];
    while plain.len() < most {
        match decoder.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => plain.push(byte[0]),
            Err(error) => {
                return (plain, error.kind() != std::io::ErrorKind::UnexpectedEof);
            }
        }
    }
    (plain, false)
}

pub(crate) fn deflate(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), level);
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.expect("memory takes all")
}
