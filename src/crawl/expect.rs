//! What counts as a good body, checked as it is read.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use crawlmark_mock_server::items;

/// What a good answer's body must be. A body that breaks off is never good, whatever is expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expect {
    /// Any whole body.
    #[default]
    Whole,
    /// The body that the bundled target of this seed serves for the item: a pure function of seed and ID.
    Items(u64),
}

/// Checks bodies by one expectation, without allocating per item.
#[derive(Debug)]
pub(super) struct Checker {
    expect: Expect,
    /// Lent to one comparison after another.
    spare: RefCell<Vec<Vec<u8>>>,
}

/// Why a text is no expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no expectation: write `whole`, or `items:SEED` for a target started with `serve --seed SEED`")]
pub struct ExpectError(String);

/// Whether a body was the one expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// It was.
    AsExpected,
    /// It was not.
    Wrong,
}

/// The expectation for one item, while its body is read.
#[derive(Debug)]
pub(super) enum Expected<'a> {
    /// Anything.
    Whole,
    /// These bytes.
    Bytes(Comparison<'a>),
}

/// A body being compared as it comes.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    lender: &'a Checker,
    bytes: Vec<u8>,
    compared: usize,
    same: bool,
}

impl Checker {
    pub(super) fn new(expect: Expect) -> Self {
        Self { expect, spare: RefCell::default() }
    }

    /// The expectation for item `id`.
    pub(super) fn for_item(&self, id: u64) -> Expected<'_> {
        match self.expect {
            Expect::Whole => Expected::Whole,
            Expect::Items(seed) => {
                let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
                bytes.clear();
                items::write_body(seed, id, &mut bytes);
                Expected::Bytes(Comparison { lender: self, bytes, compared: 0, same: true })
            }
        }
    }
}

impl Expected<'_> {
    /// Takes the next part of the body.
    pub(super) fn compare(&mut self, part: &[u8]) {
        if let Self::Bytes(comparison) = self {
            let end = comparison.compared + part.len();
            comparison.same &= comparison.bytes.get(comparison.compared..end) == Some(part);
            comparison.compared = end;
        }
    }

    /// The verdict once the body has ended.
    pub(super) fn is_met(&self) -> Body {
        match self {
            Self::Whole => Body::AsExpected,
            Self::Bytes(comparison) if comparison.same && comparison.compared == comparison.bytes.len() => {
                Body::AsExpected
            }
            Self::Bytes(_) => Body::Wrong,
        }
    }
}

impl Drop for Comparison<'_> {
    fn drop(&mut self) {
        self.lender.spare.borrow_mut().push(std::mem::take(&mut self.bytes));
    }
}

impl FromStr for Expect {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        let bad = || ExpectError(text.to_owned());
        match text.split_once(':') {
            None if text == "whole" => Ok(Self::Whole),
            Some(("items", seed)) => Ok(Self::Items(seed.parse().map_err(|_| bad())?)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "whole"),
            Self::Items(seed) => write!(f, "items:{seed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_body_is_good_however_it_is_cut_and_bad_when_a_byte_differs(
            seed: u64, id: u64, cut in 1..200_usize, wrong: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let checker = Checker::new(Expect::Items(seed));
            let mut body = Vec::new();
            items::write_body(seed, id, &mut body);
            let judge = |body: &[u8]| {
                let mut expected = checker.for_item(id);
                body.chunks(cut).for_each(|part| expected.compare(part));
                expected.is_met()
            };
            prop_assert_eq!(judge(&body), Body::AsExpected);
            prop_assert_eq!(judge(&body[..body.len() - 1]), Body::Wrong);
            prop_assert_eq!(judge(&[&body[..], b"x"].concat()), Body::Wrong);
            let at = wrong.index(body.len());
            body[at] ^= flip;
            prop_assert_eq!(judge(&body), Body::Wrong);
        }
    }

    #[test]
    fn an_expectation_is_read_as_it_is_written() {
        for text in ["whole", "items:7"] {
            assert_eq!(text.parse::<Expect>().unwrap().to_string(), text);
        }
        for text in ["", "items", "items:", "items:x", "json"] {
            assert!(text.parse::<Expect>().is_err(), "{text}");
        }
    }
}
