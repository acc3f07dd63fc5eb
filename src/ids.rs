//! IDs of a crawl: their order (`--shuffle`) and their text in the path (`--id-format`).
//!
//! Called for each request of a crawl that sets them; allocates nothing. It must not know what a
//! URL is.

use std::fmt;
use std::str::FromStr;

use crawlmark_harness::trace::mixed;
use crawlmark_harness::units::IdRange;

/// Rounds of the shuffle. Four make a pseudorandom permutation of a good round function (Luby and
/// Rackoff, 1988); the others are for one that is merely fast.
const ROUNDS: usize = 6;

/// Greatest width of an ID, digits.
const MOST_WIDTH: u8 = 64;

/// Order of the IDs of a range: a permutation by a seed, the same in every shard.
///
/// A Feistel network permutes the numbers of `2 half` bits. A number outside the range is permuted
/// again until it is within (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite
/// Domains", 2002), which takes fewer than four turns on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    range: IdRange,
    /// Bits of half a number.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// Create the shuffle of a range.
    #[must_use]
    pub fn new(range: IdRange, seed: u64) -> Self {
        let bits = u64::BITS - range.len().saturating_sub(1).leading_zeros();
        let mut keys = [seed; ROUNDS];
        for (key, round) in keys.iter_mut().zip(1_u64..) {
            *key = mixed(seed.wrapping_add(round.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        }
        Self {
            range,
            half: bits.div_ceil(2).max(1),
            keys,
        }
    }

    /// Return the ID in the place of `id`. One outside the range stays as it is.
    #[must_use]
    pub fn id(&self, id: u64) -> u64 {
        self.walk(id, Self::permuted)
    }

    /// Return the number whose place `id` has: the inverse of [`Shuffle::id`].
    pub(crate) fn item(&self, id: u64) -> u64 {
        self.walk(id, Self::unpermuted)
    }

    /// Take steps from `id` until one ends within the range.
    fn walk(&self, id: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        let Some(mut number) = id
            .checked_sub(self.range.start)
            .filter(|number| *number < self.range.len())
        else {
            return id;
        };
        loop {
            number = step(self, number);
            if number < self.range.len() {
                return self.range.start + number;
            }
        }
    }

    fn unpermuted(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let start = (number >> self.half, number & mask);
        let (left, right) = self.keys.iter().rev().fold(start, |(left, right), key| {
            (right ^ (mixed(left ^ key) & mask), left)
        });
        left << self.half | right
    }

    fn permuted(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let start = (number >> self.half, number & mask);
        let (left, right) = self.keys.iter().fold(start, |(left, right), key| {
            (right, left ^ (mixed(right ^ key) & mask))
        });
        left << self.half | right
    }
}

/// Text of an ID: `width=8`, `hex`, `base36`, or a width and one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdFormat {
    radix: u8,
    /// Least number of digits; zeros are put before shorter IDs.
    width: u8,
}

impl IdFormat {
    /// Return the format of a range as it was typed, if its IDs have leading zeros: `0001..0100`.
    /// Each is as wide as the first, or as the last if only that has zeros.
    pub(crate) fn of_range(text: &str) -> Option<Self> {
        let (first, last) = text.split_once("..")?;
        let ends = [first, last.strip_prefix('=').unwrap_or(last)];
        let digits = ends
            .into_iter()
            .find(|end| end.len() > 1 && end.starts_with('0'))?
            .len();
        u8::try_from(digits)
            .ok()
            .filter(|width| *width <= MOST_WIDTH)
            .map(|width| Self { radix: 10, width })
    }

    /// Append the text of an ID; without a format, its decimal digits.
    #[inline]
    pub(crate) fn write_or_plain(format: Option<Self>, id: u64, output: &mut Vec<u8>) {
        match format {
            None => output.extend_from_slice(itoa::Buffer::new().format(id).as_bytes()),
            Some(format) => format.write(id, output),
        }
    }

    /// Append the text of an ID.
    fn write(self, mut id: u64, output: &mut Vec<u8>) {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut text = [b'0'; MOST_WIDTH as usize];
        let mut start = text.len();
        let radix = u64::from(self.radix);
        while id > 0 {
            start -= 1;
            text[start] = DIGITS[usize::try_from(id % radix).unwrap_or(0)];
            id /= radix;
        }
        let start = start.min(text.len() - usize::from(self.width.max(1)));
        output.extend_from_slice(&text[start..]);
    }
}

impl FromStr for IdFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut radix, mut width) = (None, None);
        for part in text.split(',') {
            let number = part.strip_prefix("width=").and_then(|n| n.parse().ok());
            let before = match (part, number) {
                ("hex", _) => radix.replace(16),
                ("base36", _) => radix.replace(36),
                (_, Some(number @ 1..=MOST_WIDTH)) => width.replace(number),
                _ => Some(0),
            };
            if before.is_some() {
                return Err(format!(
                    "`{text}` is not a format of IDs: write width=N (N from 1 to {MOST_WIDTH}), hex, base36 or hex,width=8"
                ));
            }
        }
        Ok(Self {
            radix: radix.unwrap_or(10),
            width: width.unwrap_or(1),
        })
    }
}

impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let radix = match self.radix {
            16 => "hex",
            36 => "base36",
            _ => return write!(f, "width={}", self.width),
        };
        if self.width > 1 {
            write!(f, "{radix},width={}", self.width)
        } else {
            f.write_str(radix)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = IdRange> {
        let bits = 0..64_u32;
        (any::<u64>(), any::<u64>(), bits).prop_map(|(start, length, bits)| {
            let length = (length >> bits).max(1);
            let start = start.min(u64::MAX - length);
            IdRange {
                start,
                end: start + length,
            }
        })
    }

    proptest! {
        #[test]
        fn a_shuffle_has_an_inverse_within_any_range(range in range(), seed: u64, picks in prop::collection::vec(any::<u64>(), 20)) {
            let shuffle = Shuffle::new(range, seed);
            for pick in picks {
                let id = range.start + pick % range.len();
                let shuffled = shuffle.id(id);
                prop_assert!((range.start..range.end).contains(&shuffled));
                prop_assert_eq!(shuffle.item(shuffled), id);
            }
            prop_assert_eq!((shuffle.id(range.end), shuffle.item(range.end)), (range.end, range.end));
        }

        #[test]
        fn a_format_is_written_as_it_is_read_and_keeps_the_number(
            id: u64, radix in prop::sample::select(vec![10_u32, 16, 36]), width in 1..=MOST_WIDTH,
        ) {
            let format = IdFormat { radix: u8::try_from(radix).unwrap(), width };
            prop_assert_eq!(format.to_string().parse(), Ok(format));
            let mut output = b"/".to_vec();
            format.write(id, &mut output);
            let text = std::str::from_utf8(&output[1..]).unwrap();
            prop_assert_eq!(u64::from_str_radix(text, radix), Ok(id));
            prop_assert!(text.len() == usize::from(width) || (text.len() > usize::from(width) && !text.starts_with('0')));
        }
    }

    #[test]
    fn a_small_range_is_shuffled_whole_and_by_its_seed() {
        for length in (1..70).chain([255, 256, 257, 1000]) {
            let range = IdRange {
                start: 7,
                end: 7 + length,
            };
            let [one, two] = [1, 2].map(|seed| Shuffle::new(range, seed));
            let mut ids: Vec<u64> = (7..7 + length).map(|id| one.id(id)).collect();
            if length > 30 {
                let stay = (7..7 + length)
                    .zip(&ids)
                    .filter(|(id, shuffled)| id == *shuffled)
                    .count();
                let same = (7..7 + length)
                    .filter(|id| one.id(*id) == two.id(*id))
                    .count();
                assert!(
                    stay < 12 && same < 12,
                    "{length}: {stay} stay, {same} are the same for two seeds"
                );
            }
            ids.sort_unstable();
            assert_eq!(ids, (7..7 + length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ids_are_as_wide_as_their_range_is_typed() {
        for (range, width) in [
            ("0001..0100", Some(4)),
            ("001..1000", Some(3)),
            ("00..=07", Some(2)),
            ("0..0100", Some(4)),
            ("0..100", None),
            ("1..=0", None),
            ("10..1000", None),
            ("0", None),
        ] {
            let format = IdFormat::of_range(range);
            assert_eq!(format, width.map(|width| IdFormat { radix: 10, width }));
        }
    }

    #[test]
    fn other_formats_are_refused() {
        for text in [
            "",
            "octal",
            "width",
            "width=0",
            "width=65",
            "hex,base36",
            "hex,hex",
            "width=2,width=3",
            "hex,",
        ] {
            assert!(
                text.parse::<IdFormat>()
                    .unwrap_err()
                    .contains("hex,width=8"),
                "{text}"
            );
        }
    }
}
