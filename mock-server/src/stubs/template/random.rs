//! The helpers that look random: `randomInt`, `randomValue`, `pickRandom`.
//!
//! They draw from the given words only, so that a run can be repeated; WireMock's do not.

use crate::draw::Draws;
use std::borrow::Cow;

/// `lower..upper`, each equally likely. Nothing if that is empty.
pub(super) fn between(lower: i32, upper: i32, draws: &mut Draws) -> Option<i64> {
    let (lower, upper) = (i64::from(lower), i64::from(upper));
    let choices = u64::try_from(upper - lower)
        .ok()
        .filter(|choices| *choices > 0)?;
    Some(lower + i64::try_from(draws.below(choices)).unwrap_or_default())
}

/// One of some values, if there are any.
pub(super) fn one<T>(mut values: Vec<T>, draws: &mut Draws) -> Option<T> {
    let choices = u64::try_from(values.len())
        .ok()
        .filter(|choices| *choices > 0)?;
    let choice = usize::try_from(draws.below(choices)).unwrap_or_default();
    Some(values.swap_remove(choice))
}

/// Some of some values in random order, all of them at most.
pub(super) fn some<T>(mut values: Vec<T>, count: usize, draws: &mut Draws) -> Vec<T> {
    let count = count.min(values.len());
    for taken in 0..count {
        let choices = u64::try_from(values.len() - taken).unwrap_or_default();
        let other = taken + usize::try_from(draws.below(choices)).unwrap_or_default();
        values.swap(taken, other);
    }
    values.truncate(count);
    values
}

/// `randomValue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RandomValue {
    pub(super) kind: CharacterKind,
    /// In characters.
    pub(super) length: usize,
    pub(super) case: LetterCase,
}

/// Characters of a random value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterKind {
    /// One of these, for each character.
    Of(&'static str),
    /// A version 4 UUID, whatever the length.
    Uuid,
}

/// In which case its letters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterCase {
    Upper,
    Lower,
}

const DIGITS: &str = "0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LETTERS_AND_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const VISIBLE: &str = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}";
const ASCII: &str = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";

impl CharacterKind {
    /// The kind of this name; what has no name of its own is any character of ASCII, as it is for
    /// WireMock.
    pub(super) fn parse(name: &str) -> Self {
        match name {
            "ALPHANUMERIC" => Self::Of(LETTERS_AND_DIGITS),
            "ALPHABETIC" => Self::Of(LETTERS),
            "NUMERIC" => Self::Of(DIGITS),
            "ALPHANUMERIC_AND_SYMBOLS" => Self::Of(VISIBLE),
            "HEXADECIMAL" => Self::Of("ABCDEF0123456789"),
            "UUID" => Self::Uuid,
            _ => Self::Of(ASCII),
        }
    }
}

impl RandomValue {
    pub(super) fn draw(self, draws: &mut Draws) -> Cow<'static, str> {
        let mut text = match self.kind {
            CharacterKind::Uuid => uuid(draws),
            CharacterKind::Of(choices) => {
                let choices = choices.as_bytes();
                let one = || draws.below(choices.len() as u64);
                let letters = std::iter::repeat_with(one).take(self.length);
                letters
                    .filter_map(|index| choices.get(usize::try_from(index).ok()?))
                    .map(|letter| char::from(*letter))
                    .collect()
            }
        };
        match self.case {
            LetterCase::Upper => text.make_ascii_uppercase(),
            LetterCase::Lower => text.make_ascii_lowercase(),
        }
        Cow::Owned(text)
    }
}

fn uuid(draws: &mut Draws) -> String {
    let bits = u128::from(draws.word()) << 64 | u128::from(draws.word());
    uuid::Builder::from_random_bytes(bits.to_be_bytes())
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;
    use proptest::prelude::*;

    fn draws(id: u64) -> Draws {
        Draws::new(Stream::Body, 1, id)
    }

    #[test]
    fn values_are_of_their_kind() {
        for (name, allowed) in [
            ("ALPHANUMERIC", "abcdefghijklmnopqrstuvwxyz0123456789"),
            ("ALPHABETIC", "abcdefghijklmnopqrstuvwxyz"),
            ("NUMERIC", "0123456789"),
            ("HEXADECIMAL", "0123456789abcdef"),
        ] {
            let value = RandomValue {
                kind: CharacterKind::parse(name),
                length: 500,
                case: LetterCase::Lower,
            };
            let text = value.draw(&mut draws(1));
            assert_eq!(text, value.draw(&mut draws(1)));
            assert_eq!(text.len(), 500);
            let mut used: Vec<char> = text.chars().collect();
            used.sort_unstable();
            used.dedup();
            let mut all: Vec<char> = allowed.chars().collect();
            all.sort_unstable();
            assert_eq!(used, all, "{name}");
            let loud = RandomValue {
                case: LetterCase::Upper,
                ..value
            };
            assert_eq!(loud.draw(&mut draws(1)), text.to_uppercase());
        }
        assert_eq!((VISIBLE.len(), ASCII.len()), (93, 95));
        let uuid = RandomValue {
            kind: CharacterKind::Uuid,
            length: 1,
            case: LetterCase::Lower,
        }
        .draw(&mut draws(1));
        let parts: Vec<_> = uuid.split('-').collect();
        assert_eq!(
            parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [8, 4, 4, 4, 12]
        );
        assert!(
            parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']),
            "{uuid}"
        );
    }

    #[test]
    fn every_choice_is_reached() {
        let mut picked: Vec<_> = (0..100)
            .map(|id| one(vec!['a', 'b', 'c'], &mut draws(id)).unwrap())
            .collect();
        picked.sort_unstable();
        picked.dedup();
        assert_eq!(picked, ['a', 'b', 'c']);
        assert_eq!(one(Vec::<u8>::new(), &mut draws(1)), None);
        assert_eq!(between(5, 5, &mut draws(1)), None);
        assert_eq!(between(6, 5, &mut draws(1)), None);
    }

    proptest! {
        #[test]
        fn numbers_are_within_their_bounds(id: u64, lower: i32, upper: i32) {
            match between(lower, upper, &mut draws(id)) {
                Some(number) => prop_assert!(i64::from(lower) <= number && number < i64::from(upper)),
                None => prop_assert!(lower >= upper),
            }
        }

        #[test]
        fn some_are_distinct_and_of_the_given(id: u64, length in 0_usize..20, count in 0_usize..30) {
            let picked = some((0..length).collect(), count, &mut draws(id));
            prop_assert_eq!(picked.len(), count.min(length));
            let mut sorted = picked.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), picked.len());
            prop_assert!(picked.iter().all(|pick| *pick < length));
        }
    }
}
