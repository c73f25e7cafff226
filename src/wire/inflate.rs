//! A zlib stream read piece by piece, so that its plaintext never has to be in memory at once.
//!
//! Owns when a bad stream is noticed: as with Java's `InflaterInputStream`, whatever is wrong
//! behind the last byte that is wanted stays unnoticed, except a wrong Adler-32 or broken data
//! directly behind it. So a missing checksum and bytes behind the stream do no harm.
//! Invariant: at most one piece more is inflated than was asked for, and never more than the cap
//! is handed out. Deliberately absent: gzip and raw deflate, which Java refuses as well.

use flate2::{Decompress, FlushDecompress};
use thiserror::Error;

use super::pace::Pace;

/// Plaintext made at most by one unpaced piece of work.
const OUT_BYTES: usize = 16 * 1024;
/// Input read at most by one unpaced piece of work: a stream can take much work for no output.
const IN_BYTES: usize = 4 * 1024;
/// What a byte of input weighs beside one of plaintext; the worst input is nothing but tables.
const IN_WEIGHT: usize = 8;

/// Why the wanted plaintext cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InflateError {
    /// No zlib header, broken data, or a wrong Adler-32.
    #[error("not a valid zlib stream")]
    Corrupt,
    /// The stream is complete, or its bytes end, before the wanted plaintext.
    #[error("zlib stream ends early")]
    Early,
    /// More plaintext is wanted than the cap allows.
    #[error("more than the allowed plaintext")]
    TooLarge,
}

/// The plaintext of one zlib stream, from front to back.
#[derive(Debug)]
pub struct Inflater<'a> {
    input: &'a [u8],
    zlib: Decompress,
    /// Plaintext that was made and, from `start` on, not handed out.
    made: Vec<u8>,
    start: usize,
    /// What may still be handed out.
    left: usize,
    end: Option<InflateError>,
}

impl<'a> Inflater<'a> {
    /// A reader of the stream at the start of `input`, for at most `cap` bytes of plaintext.
    pub fn new(input: &'a [u8], cap: usize) -> Self {
        let zlib = Decompress::new(true);
        Self {
            input,
            zlib,
            made: Vec::new(),
            start: 0,
            left: cap,
            end: None,
        }
    }

    /// The next `count` bytes. Nothing is reserved for them before they were really inflated.
    pub async fn take(&mut self, count: usize, pace: &Pace) -> Result<&[u8], InflateError> {
        self.left = self.left.checked_sub(count).ok_or(InflateError::TooLarge)?;
        self.drop_handed_out();
        while self.made.len() - self.start < count {
            self.inflate_piece(pace).await?;
        }
        let taken = self.start..self.start + count;
        self.start = taken.end;
        Ok(&self.made[taken])
    }

    /// Call it when nothing more is wanted: if the plaintext was read to its end, whatever follows
    /// its last byte must not be broken.
    pub async fn finish(mut self, pace: &Pace) -> Result<(), InflateError> {
        while self.made.len() == self.start {
            match self.inflate_piece(pace).await {
                Ok(()) => {}
                Err(InflateError::Early) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps the buffer from growing with the stream; copies less than was handed out.
    fn drop_handed_out(&mut self) {
        if self.start > self.made.len() / 2 {
            self.made.drain(..self.start);
            self.start = 0;
        }
    }

    async fn inflate_piece(&mut self, pace: &Pace) -> Result<(), InflateError> {
        if let Some(error) = self.end {
            return Err(error);
        }
        let (read, made) = (self.zlib.total_in(), self.zlib.total_out());
        let from = usize::try_from(read).map_err(|_| InflateError::TooLarge)?;
        let piece = &self.input[from..self.input.len().min(from + IN_BYTES)];
        let kept = self.made.len();
        self.made.resize(kept + OUT_BYTES, 0);
        let result = self
            .zlib
            .decompress(piece, &mut self.made[kept..], FlushDecompress::None);
        // both are bounded by the slices that were handed in
        let read = (self.zlib.total_in() - read) as usize;
        let made = (self.zlib.total_out() - made) as usize;
        self.made.truncate(kept + made);
        self.end = match result {
            Err(_) => Some(InflateError::Corrupt),
            Ok(flate2::Status::StreamEnd) => Some(InflateError::Early),
            Ok(_) if read == 0 && made == 0 => Some(InflateError::Early),
            Ok(_) => None,
        };
        pace.step(made + read * IN_WEIGHT).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;
    use crate::wire::pace::run_to_end;

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    /// Takes pieces of the given lengths, then finishes.
    fn take_all(input: &[u8], cap: usize, counts: &[usize]) -> Result<Vec<u8>, InflateError> {
        let pace = Pace::default();
        run_to_end(async {
            let mut inflater = Inflater::new(input, cap);
            let mut out = Vec::new();
            for &count in counts {
                out.extend_from_slice(inflater.take(count, &pace).await?);
            }
            inflater.finish(&pace).await?;
            Ok(out)
        })
    }

    fn sample(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i * i / 7) as u8).collect()
    }

    #[test]
    fn gives_the_plaintext_in_any_pieces() {
        let plain = sample(100_000);
        let packed = zlib(&plain);
        assert_eq!(take_all(&packed, 100_000, &[100_000]).unwrap(), plain);
        assert_eq!(
            take_all(&packed, 100_000, &[1, 0, 16_383, 50_000, 33_616]).unwrap(),
            plain
        );
        assert_eq!(take_all(&packed, 100_000, &[1000; 100]).unwrap(), plain);
    }

    #[test]
    fn the_cap_counts_what_is_handed_out() {
        let packed = zlib(&sample(1000));
        assert_eq!(take_all(&packed, 999, &[1000]), Err(InflateError::TooLarge));
        assert_eq!(
            take_all(&packed, 999, &[500, 500]),
            Err(InflateError::TooLarge)
        );
        assert!(take_all(&packed, 999, &[999]).is_ok());
    }

    #[test]
    fn a_claim_beyond_the_stream_reserves_nothing() {
        let packed = zlib(&sample(1000));
        assert_eq!(
            take_all(&packed, usize::MAX, &[1 << 40]),
            Err(InflateError::Early)
        );
        let bomb = zlib(&vec![0; 10_000_000]);
        assert!(bomb.len() < 15_000);
        let pace = Pace::default();
        let mut inflater = Inflater::new(&bomb, 64 << 20);
        for _ in 0..1000 {
            run_to_end(inflater.take(10_000, &pace)).unwrap();
        }
        assert!(
            inflater.made.capacity() < 200_000,
            "{}",
            inflater.made.capacity()
        );
    }

    #[test]
    fn other_formats_are_refused() {
        let plain = sample(1000);
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
        raw.write_all(&plain).unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&plain).unwrap();
        for bad in [
            raw.finish().unwrap(),
            gzip.finish().unwrap(),
            b"{}".to_vec(),
        ] {
            assert_eq!(take_all(&bad, 1000, &[1]), Err(InflateError::Corrupt));
        }
        assert_eq!(take_all(b"", 1000, &[1]), Err(InflateError::Early));
        assert_eq!(take_all(b"x", 1000, &[1]), Err(InflateError::Early));
    }

    #[test]
    fn a_truncated_stream_gives_what_it_has() {
        let plain = sample(1000);
        let packed = zlib(&plain);
        let cut = &packed[..packed.len() / 2];
        assert_eq!(take_all(cut, 1000, &[1000]), Err(InflateError::Early));
        assert_eq!(take_all(cut, 1000, &[10]).unwrap(), plain[..10]);
    }

    #[test]
    fn a_wrong_checksum_counts_only_at_the_end() {
        let plain = sample(1000);
        let mut packed = zlib(&plain);
        *packed.last_mut().unwrap() ^= 1;
        assert_eq!(take_all(&packed, 1000, &[1000]), Err(InflateError::Corrupt));
        assert_eq!(
            take_all(&packed, 1000, &[999, 1]),
            Err(InflateError::Corrupt)
        );
        assert_eq!(take_all(&packed, 1000, &[999]).unwrap(), plain[..999]);
        // 16,384 bytes fill a piece to the brim: the checksum is not yet read then
        let mut packed = zlib(&sample(OUT_BYTES));
        *packed.last_mut().unwrap() ^= 1;
        assert_eq!(
            take_all(&packed, OUT_BYTES, &[OUT_BYTES]),
            Err(InflateError::Corrupt)
        );
    }

    #[test]
    fn a_missing_checksum_or_bytes_behind_it_do_no_harm() {
        let plain = sample(1000);
        let packed = zlib(&plain);
        for bytes in packed.len() - 4..packed.len() {
            assert_eq!(take_all(&packed[..bytes], 1000, &[1000]).unwrap(), plain);
        }
        let longer = [&packed[..], b"garbage"].concat();
        assert_eq!(take_all(&longer, 1000, &[1000]).unwrap(), plain);
        assert_eq!(take_all(&longer, 2000, &[1001]), Err(InflateError::Early));
    }

    #[test]
    fn work_without_output_is_paced() {
        // empty stored blocks: five bytes each, no plaintext
        let mut stream = vec![0x78, 0xDA];
        stream.extend([0, 0, 0, 0xFF, 0xFF].repeat(100_000));
        let pace = Pace::default();
        let mut inflater = Inflater::new(&stream, 1000);
        let mut work = std::pin::pin!(inflater.take(1, &pace));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut pauses = 0;
        while work.as_mut().poll(&mut cx).is_pending() {
            pauses += 1;
        }
        assert!(pauses > 100, "{pauses}");
    }
}
