//! Seeded draws: what looks random about an item (its body, its delay, its fault) is a pure
//! function of (seed, id), or of (seed, id, attempt) where a second try may turn out better.
//! `items`, `latency` and `fault` draw from here, each from a stream of its own.
//!
//! It must not keep state between items, and the constants must not change: recorded runs are
//! compared with later ones.

/// Purpose of a draw. Separate streams keep, say, slow items from also being the faulty ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The fields of a body.
    Body = 1,
    /// The delay before an answer.
    Hold = 2,
    /// Fault of an answer.
    Fault = 3,
    /// The delay of a stub.
    Stub = 4,
    /// Random values of a template.
    Template = 5,
}

/// `SplitMix64`'s increment, the odd number nearest to 2^64 / golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Odd, and far from [`GAMMA`] and its small multiples: it sets the attempts at one item apart.
/// Source: the multiplier of `xxHash64`'s first prime.
const ATTEMPT: u64 = 0x9e37_79b1_85eb_ca87;

/// The words of one stream for one item, in order.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    pub(crate) fn new(stream: Stream, seed: u64, id: u64) -> Self {
        // Each step is a bijection, so within one stream and seed no two ids start from the same
        // state.
        let seeded = mix(mix(seed).wrapping_add(GAMMA.wrapping_mul(stream as u64)));
        Self {
            state: mix(seeded ^ id),
        }
    }

    /// Start the draws of one attempt at an item: `attempt` requests for it came before.
    pub(crate) fn for_attempt(stream: Stream, seed: u64, id: u64, attempt: u8) -> Self {
        let first = Self::new(stream, seed, id);
        match attempt {
            0 => first,
            // Again a bijection, of the first attempt's state.
            attempt => Self {
                state: mix(first.state ^ ATTEMPT.wrapping_mul(u64::from(attempt))),
            },
        }
    }

    /// The next 64 bits.
    pub(crate) fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// The next number in `0.0..1.0`, a multiple of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.word() >> 11) as f64 * STEP
    }

    /// Return a whole number from 0 up to, but not, `choices`.
    pub(crate) fn below(&mut self, choices: u64) -> u64 {
        let scaled = (u128::from(self.word()) * u128::from(choices)) >> u64::BITS;
        u64::try_from(scaled).unwrap_or_default()
    }

    /// Return a number of the normal distribution, by the method of Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        // Above 0, for its logarithm.
        let u1 = 1.0 - self.unit();
        let u2 = self.unit();
        (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos()
    }
}

/// Return the 64-bit FNV-1a hash of a text; mix it before use, because its upper bits are poor on
/// short ones. Source: draft-eastlake-fnv.
pub(crate) fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The finalizer of `SplitMix64`: a bijection on 64 bits in which every input bit moves about half
/// of the output bits.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014), constants
/// by D. Stafford ("Mix13").
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_seeds_ids_attempts_and_positions_differ() {
        let mut words: Vec<u64> = Vec::new();
        for stream in [
            Stream::Body,
            Stream::Hold,
            Stream::Fault,
            Stream::Stub,
            Stream::Template,
        ] {
            for seed in 0..4 {
                for (id, attempt) in
                    (0..64).flat_map(|id| (0..16).map(move |attempt| (id, attempt)))
                {
                    let mut draws = Draws::for_attempt(stream, seed, id, attempt);
                    words.extend([draws.word(), draws.word()]);
                }
            }
        }
        let drawn = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), drawn);
    }

    #[test]
    fn units_fill_their_range_evenly() {
        let mut tenths = [0_u32; 10];
        for id in 0..10_000 {
            let unit = Draws::new(Stream::Fault, 7, id).unit();
            assert!((0.0..1.0).contains(&unit));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0.0..10.0"
            )]
            let tenth = (unit * 10.0) as usize;
            tenths[tenth] += 1;
        }
        // 1,000 expected in each, standard deviation 30: five of them either way.
        assert!(
            tenths.iter().all(|count| (850..1150).contains(count)),
            "{tenths:?}"
        );
    }

    #[test]
    fn the_finalizer_is_the_published_one() {
        // The first outputs of SplitMix64 from state 0, as published with its reference code.
        let mut state = 0_u64;
        let outputs: Vec<u64> = (0..3)
            .map(|_| {
                state = state.wrapping_add(GAMMA);
                mix(state)
            })
            .collect();
        assert_eq!(
            outputs,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }
}
