//! Recognition of a head that repeats the last parsed one. Servers send one head again and again,
//! but for the content length and, once a second, the date.
//!
//! Such a head is compared and not parsed. It must not recognise one that parsing would read
//! otherwise: every byte is equal, but for the digits of the only content length.

use std::ops::Range;

use super::head::{Facts, Framing};

/// Longest head that is kept. Longer ones hold values of the single response as a rule, such as
/// cookies and trace IDs.
const MOST_BYTES: usize = 1 << 10;

/// Most digits of a recognised content length: any such number fits 64 bits.
const MOST_DIGITS: usize = 18;

/// The last parsed head.
#[derive(Debug)]
pub(super) struct LastHead {
    /// Its bytes without the digits of its content length; empty when no head is kept.
    bytes: Vec<u8>,
    /// Position of these digits; none of a head whose framing does not depend on any.
    digits: Option<usize>,
    facts: Facts,
}

impl LastHead {
    pub(super) const fn new() -> Self {
        let facts = Facts {
            framing: Framing::UntilClose,
            keeps_alive: false,
        };
        Self {
            bytes: Vec::new(),
            digits: None,
            facts,
        }
    }

    /// Forget it.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Keep a parsed head, given its bytes and the position of the digits of its content length, if
    /// that may differ.
    pub(super) fn keep(&mut self, head: &[u8], digits: Option<Range<usize>>, facts: Facts) {
        self.bytes.clear();
        if head.len() > MOST_BYTES {
            return;
        }
        (self.digits, self.facts) = (digits.as_ref().map(|digits| digits.start), facts);
        let Range { start, end } = digits.unwrap_or(head.len()..head.len());
        self.bytes.extend_from_slice(&head[..start]);
        self.bytes.extend_from_slice(&head[end..]);
    }

    /// Return the length and the facts of the head that `input` starts with, if it repeats this
    /// one.
    pub(super) fn recognise(&self, input: &[u8]) -> Option<(usize, Facts)> {
        if self.bytes.is_empty() {
            return None;
        }
        let Some(at) = self.digits else {
            return input
                .starts_with(&self.bytes)
                .then_some((self.bytes.len(), self.facts));
        };
        let (before, after) = self.bytes.split_at(at);
        let rest = input.strip_prefix(before)?;
        let (mut length, mut count) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = rest.get(count)
            && count < MOST_DIGITS
        {
            length = 10 * length + u64::from(digit - b'0');
            count += 1;
        }
        let is_repeated = count > 0 && rest[count..].starts_with(after);
        is_repeated.then_some((
            self.bytes.len() + count,
            Facts {
                framing: Framing::Length(length),
                ..self.facts
            },
        ))
    }
}
