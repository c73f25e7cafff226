//! Numbers that look random and are the same on every machine and in every version.
//!
//! SplitMix64: its whole state is one counter, so a stream can be started anywhere from a seed
//! and a few labels, and nothing has to be kept for actors that draw seldom.

/// One stream.
#[derive(Clone, Copy, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream that belongs to these labels; other labels give unrelated streams.
    #[must_use]
    pub fn of(labels: &[u64]) -> Self {
        let mut state = 0x6c6f_6164_6765_6e31;
        for label in labels {
            state = mix(state ^ mix(label.wrapping_add(GOLDEN)));
        }
        Self(state)
    }

    /// 64 even bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number in `0..end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The gap to the next event of a Poisson process with this mean gap.
    pub fn exponential_gap(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a over whatever defines a run: two plans with equal digests are the same plan. It guards
/// against mistakes, not against malice.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// As 16 hexadecimal digits.
    #[must_use]
    pub fn text(self) -> String {
        format!("{:016x}", mix(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_fixed_for_ever() {
        // Published SplitMix64 values for the state 1234567.
        let mut rng = Rng(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
        assert_ne!(Rng::of(&[1, 2]).bits(), Rng::of(&[2, 1]).bits());
    }

    #[test]
    fn numbers_keep_to_their_range_and_mean() {
        let mut rng = Rng::of(&[7]);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            assert!(rng.below(10) < 10);
            sum += rng.exponential_gap(5.0);
        }
        assert!((4.8..5.2).contains(&(sum / 10_000.0)), "{sum}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn a_digest_depends_on_every_byte() {
        let of = |bytes: &[u8]| {
            let mut digest = Digest::default();
            digest.bytes(bytes);
            digest.text()
        };
        assert_eq!(of(b"plan"), of(b"plan"));
        assert_ne!(of(b"plan"), of(b"plao"));
        assert_eq!(of(b"").len(), 16);
    }
}
