//! Header fields of a response, borrowed from the read buffer.

use httparse::{EMPTY_HEADER, Header};

/// Most bytes of the final head and of what precedes it (interim answers, blank lines): hyper's
/// limit for a single head.
pub(crate) const MOST_HEAD_BYTES: usize = 400 << 10;

/// The fields of one head, in the order in which they arrived. Names keep the case in which they
/// were sent.
#[derive(Debug, Clone, Copy)]
pub struct HeaderFields<'a>(&'a [Header<'a>]);

impl<'a> HeaderFields<'a> {
    /// Wrap fields that a parser has validated.
    #[must_use]
    pub const fn new(fields: &'a [Header<'a>]) -> Self {
        Self(fields)
    }

    /// Iterate over the fields: name, and value without surrounding white space.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.0.iter().map(|field| (field.name, field.value))
    }

    /// Iterate over the values of the fields called `name`, in any case.
    pub fn all(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Return the part of `name` after `start`, in any case; none if it starts otherwise.
pub(crate) fn strip_prefix<'a>(name: &'a str, start: &str) -> Option<&'a str> {
    let (head, rest) = name.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

/// Fields of a head for which no memory is allocated.
const FEW: usize = 16;

/// Pass names and values to `read` as fields.
pub(crate) fn lent<'a, T>(
    fields: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
    read: impl FnOnce(HeaderFields<'_>) -> T,
) -> T {
    let (mut few, mut many) = ([EMPTY_HEADER; FEW], Vec::new());
    let count = fields.len();
    let room = if count <= FEW {
        &mut few[..count]
    } else {
        many.resize(count, EMPTY_HEADER);
        &mut many[..]
    };
    for (field, (name, value)) in room.iter_mut().zip(fields) {
        *field = Header { name, value };
    }
    read(HeaderFields::new(room))
}

/// As [`lent`], of a map.
#[cfg(any(test, fuzzing, feature = "http3"))]
pub(crate) fn lent_map<T>(
    headers: &http::HeaderMap,
    read: impl FnOnce(HeaderFields<'_>) -> T,
) -> T {
    let fields = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    lent(fields.collect::<Vec<_>>().into_iter(), read)
}
