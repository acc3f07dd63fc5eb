//! Statuses and lengths: sets of numbers, as they are written and read.
//!
//! It must not know what a status means, save that 429 is never a good one.

use std::fmt;

/// Statuses, as in `200-299` or `200,404`: never an empty list, and all from 200 to 999. Those
/// below are never an answer's last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

/// Lengths from one to another in bytes, both included, as in `115`, `1-1000` or `1-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    shortest: u64,
    longest: u64,
}

impl Statuses {
    /// The status that asks for patience, and for nothing else.
    pub(super) const TOO_MANY_REQUESTS: u16 = 429;

    pub(super) fn read(text: &str) -> Option<Self> {
        let status = |text: &str| {
            number(text)?
                .try_into()
                .ok()
                .filter(|status| (200..=999).contains(status))
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((status(first)?, status(last)?)).filter(|(first, last)| first <= last)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self)
    }

    /// True if `status` is one of them.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&status))
    }

    /// True if `status` is listed by itself, and not only within a range.
    pub(super) fn names(&self, status: u16) -> bool {
        self.0.contains(&(status, status))
    }
}

impl Lengths {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (shortest, longest) = match text.split_once('-') {
            None => (number(text)?, number(text)?),
            Some(("", _)) => return None,
            Some((shortest, "")) => (number(shortest)?, u64::MAX),
            Some((shortest, longest)) => (number(shortest)?, number(longest)?),
        };
        (shortest <= longest).then_some(Self { shortest, longest })
    }

    /// True if `length` is one of them.
    #[must_use]
    pub const fn contains(self, length: u64) -> bool {
        self.shortest <= length && length <= self.longest
    }
}

/// Digits and nothing else: no sign.
fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)?
        .parse()
        .ok()
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.shortest, self.longest) {
            (shortest, longest) if shortest == longest => write!(f, "{shortest}"),
            (shortest, u64::MAX) => write!(f, "{shortest}-"),
            (shortest, longest) => write!(f, "{shortest}-{longest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_included() {
        let statuses = Statuses::read("200-204,404").unwrap();
        let good: Vec<u16> = (0..=u16::MAX)
            .filter(|status| statuses.contains(*status))
            .collect();
        assert_eq!(good, [200, 201, 202, 203, 204, 404]);
        for (text, inside, outside) in [
            ("5", [5, 5], [4, 6]),
            ("0", [0, 0], [1, u64::MAX]),
            ("5-9", [5, 9], [4, 10]),
            ("1-", [1, u64::MAX], [0, 0]),
        ] {
            let lengths = Lengths::read(text).unwrap();
            assert!(
                inside.iter().all(|length| lengths.contains(*length)),
                "{text}"
            );
            assert!(
                !outside.iter().any(|length| lengths.contains(*length)),
                "{text}"
            );
        }
    }
}
