//! Values of the response headers that `--trait` names, numbered in the order in which a shard sees
//! them: what is read of a head is kept with it, and a head that is repeated has the same numbers.
//!
//! Bounded: a number is never given to another value, for a connection may still hold it. It must
//! not know what a value means.

use std::cell::RefCell;

use crawlmark_harness::sample::ResponseTraits;

use super::fields::HeaderFields;

/// Longest part of a value by which it is told apart and shown, bytes.
const MOST_BYTES: usize = 64;

/// The headers, and their values so far.
#[derive(Debug, Default)]
pub(crate) struct HeaderValues {
    names: Vec<String>,
    /// By header and number. The first is empty, of responses without the header.
    values: RefCell<Vec<Vec<Vec<u8>>>>,
}

impl HeaderValues {
    /// No values so far, of at most [`ResponseTraits::MOST_HEADERS`] headers.
    pub(crate) fn of(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            values: RefCell::new(vec![vec![Vec::new()]; names.len()]),
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Return the numbers of the values in a head.
    #[inline]
    pub(crate) fn numbers(&self, fields: HeaderFields<'_>) -> [u8; ResponseTraits::MOST_HEADERS] {
        let mut numbers = [0; ResponseTraits::MOST_HEADERS];
        if !self.names.is_empty() {
            self.number(fields, &mut numbers);
        }
        numbers
    }

    fn number(&self, fields: HeaderFields<'_>, numbers: &mut [u8]) {
        let mut values = self.values.borrow_mut();
        for ((name, known), number) in self.names.iter().zip(&mut *values).zip(numbers) {
            let found = fields
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name));
            let value = found.map_or(&[][..], |(_, value)| &value[..value.len().min(MOST_BYTES)]);
            let at = known
                .iter()
                .position(|it| it == value)
                .unwrap_or(known.len());
            *number = u8::try_from(at).unwrap_or(ResponseTraits::OTHERS);
            if at == known.len() && *number < ResponseTraits::OTHERS {
                known.push(value.to_vec());
            }
        }
    }

    /// Return the value that has this number.
    pub(crate) fn value(&self, header: usize, number: u8) -> String {
        let values = self.values.borrow();
        let value = values
            .get(header)
            .and_then(|it| it.get(usize::from(number)));
        String::from_utf8_lossy(value.map_or(&[], Vec::as_slice)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_numbers_and_those_beyond_the_last_have_one() {
        let values = HeaderValues::of(&["X-Cache".to_owned(), "age".to_owned()]);
        let numbers = |cache: &str| {
            let fields = [httparse::Header {
                name: "x-cache",
                value: cache.as_bytes(),
            }];
            values.numbers(HeaderFields::new(&fields))
        };
        assert_eq!(numbers("HIT")[..3], [1, 0, 0]);
        for n in 0..300 {
            numbers(&n.to_string());
        }
        assert_eq!(
            [
                numbers("HIT")[0],
                numbers("252")[0],
                numbers("253")[0],
                numbers("")[0]
            ],
            [1, 254, ResponseTraits::OTHERS, 0]
        );
        let named = [1, 254, 0].map(|number| values.value(0, number));
        assert_eq!(named, ["HIT", "252", ""]);
        let long = "x".repeat(100);
        assert_eq!(numbers(&long)[0], ResponseTraits::OTHERS);
    }
}
