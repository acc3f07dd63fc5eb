//! Items: the bodies of the target's responses. The server writes bodies with these functions, and
//! a client calls them to check that it received the right body.
//!
//! It must not know about requests, delays or faults, and a body must stay a pure function of
//! (seed, id).

use crate::draw::{Draws, Stream, fnv_1a, mix};

/// The bytes of a body apart from the two times that it spells its id.
const FIXED_LEN: usize = 111;

/// Digits of the longest id.
const MOST_DIGITS: usize = 20;

/// Appends the body of item `id`: one JSON object of [`body_len`] bytes, 119 for a four-digit id.
///
/// It is a pure function of `seed` and `id`, on every machine and in every process.
///
/// ```
/// let mut body = Vec::new();
/// crawlmark_mock_server::items::write_body(1, 42, &mut body);
/// assert!(body.starts_with(br#"{"id":42,"name":"item-42","group":"g-"#));
/// ```
pub fn write_body(seed: u64, id: u64, out: &mut Vec<u8>) {
    let mut draws = Draws::new(Stream::Body, seed, id);
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(id).as_bytes();

    let word = draws.word();
    let mut rest = *b"\",\"group\":\"g-000\",\"stock\":0000,\"score\":0.000000,\"token\":\"00000000000000000000000000000000\"}";
    rest[13..16].copy_from_slice(&fixed_digits::<3>(word & 0xffff_ffff));
    // A JSON number has no leading zeros: the stock is 1000..=9999.
    rest[26..30].copy_from_slice(&fixed_digits::<4>(1000 + (word >> 32) % 9000));
    rest[41..47].copy_from_slice(&fixed_digits::<6>(draws.word()));
    for at in [57, 73] {
        let word = draws.word();
        rest[at..at + 8].copy_from_slice(&hex(word >> 32));
        rest[at + 8..at + 16].copy_from_slice(&hex(word & 0xffff_ffff));
    }
    // Appended in one piece, of pieces whose lengths are known and of which each covers what is too
    // much of the one before: others cost some 40 instructions each, for client and target.
    let (length, mut body) = (digits.len(), [0; FIXED_LEN + 2 * MOST_DIGITS]);
    let mut padded = [0; MOST_DIGITS];
    padded[..length].copy_from_slice(digits);
    put(&mut body, 0, b"{\"id\":");
    put(&mut body, 6, &padded);
    put(&mut body, 6 + length, b",\"name\":\"item-");
    put(&mut body, 20 + length, &padded);
    put(&mut body, 20 + 2 * length, &rest);
    out.extend_from_slice(&body[..FIXED_LEN + 2 * length]);
}

/// Write a piece at its place in a body.
fn put<const N: usize>(body: &mut [u8], at: usize, piece: &[u8; N]) {
    // Moves of a known size, where `copy_from_slice` is a call.
    if let Some(place) = body.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = *piece;
    }
}

/// The length in bytes of what [`write_body`] appends for `id`.
pub const fn body_len(id: u64) -> usize {
    let digits = match id.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    };
    FIXED_LEN + 2 * digits
}

/// Everything below this is what is without it, moved: clients that follow the target's redirects
/// end at the same item.
pub(crate) const MOVED: &str = "/moved";

/// True if a path leads to where a redirect leads.
pub(crate) fn is_moved(path: &str) -> bool {
    path.strip_prefix(MOVED)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Item that a request target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemPath {
    /// The last segment of the path is a decimal number of 64 bits, as in `/items/42`: that is the
    /// id.
    Numbered(u64),
    /// Any other target is an item too. Its id is a hash of path and query, in the upper half of
    /// the 64-bit range, where it cannot be mistaken for a small numbered id. `/moved` in front of
    /// it is left out.
    Hashed(u64),
}

impl ItemPath {
    /// Reads a path with or without a query.
    ///
    /// ```
    /// use crawlmark_mock_server::ItemPath;
    ///
    /// assert_eq!(ItemPath::parse("/items/42?full=1"), ItemPath::Numbered(42));
    /// assert!(matches!(ItemPath::parse("/about"), ItemPath::Hashed(_)));
    /// ```
    pub fn parse(target: &str) -> Self {
        let path = target
            .bytes()
            .position(|byte| byte == b'?')
            .map_or(target, |end| &target[..end]);
        // From the end: it is shorter than the path.
        let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, segment) = path.split_at(path.len() - digits);
        // A `/`, or nothing, must be in front: `parse` alone would accept a plus sign, and `item42`
        // is no number.
        if (before.is_empty() || before.ends_with('/'))
            && let Ok(id) = segment.parse()
        {
            return Self::Numbered(id);
        }
        let target = if is_moved(target) {
            &target[MOVED.len()..]
        } else {
            target
        };
        Self::Hashed(mix(fnv_1a(target)) | 1 << 63)
    }

    /// The id of the item.
    pub const fn id(self) -> u64 {
        match self {
            Self::Numbered(id) | Self::Hashed(id) => id,
        }
    }
}

/// The last `N` decimal digits of `number`, with leading zeros.
fn fixed_digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// The eight hexadecimal digits of a number of 32 bits, all at once: a table takes twice the
/// instructions.
fn hex(mut digits: u64) -> [u8; 8] {
    for (shift, mask) in [
        (16, 0xffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f * EACH),
    ] {
        digits = (digits | digits << shift) & mask;
    }
    let letters = (digits + 6 * EACH) >> 4 & EACH;
    // `a` is 39 beyond what follows `9`.
    (digits + 0x30 * EACH + 39 * letters).to_be_bytes()
}

/// 1 in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(seed: u64, id: u64) -> Vec<u8> {
        let mut body = Vec::new();
        write_body(seed, id, &mut body);
        body
    }

    #[test]
    fn a_body_never_changes_between_versions() {
        assert_eq!(
            String::from_utf8(body(1, 42)).unwrap(),
            concat!(
                r#"{"id":42,"name":"item-42","group":"g-037","stock":3325,"score":0.080229,"#,
                r#""token":"cda748eaee54c623ef389dcbe89d7a6d"}"#
            )
        );
    }

    #[test]
    fn a_typical_body_has_119_bytes() {
        assert_eq!(body(1, 1234).len(), 119);
    }

    #[test]
    fn a_path_without_an_id_is_an_item_of_its_own() {
        let paths = [
            "/",
            "",
            "*",
            "/items/",
            "/items/7/",
            "/items/+7",
            "/items/-7",
            "/items/7a",
            "/items/x?id=1",
            "/items/x?id=2",
            "/items/18446744073709551616",
        ];
        let mut ids: Vec<u64> = paths
            .iter()
            .map(|path| match ItemPath::parse(path) {
                ItemPath::Hashed(id) => id,
                ItemPath::Numbered(id) => panic!("{path} was read as {id}"),
            })
            .collect();
        assert!(ids.iter().all(|id| *id >= 1 << 63));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), paths.len());
    }

    proptest! {
        #[test]
        fn a_body_is_pure_valid_json_of_the_stated_length(seed: u64, id: u64) {
            let written = body(seed, id);
            prop_assert_eq!(&written, &body(seed, id));
            prop_assert_eq!(written.len(), body_len(id));
            let json: serde_json::Value = serde_json::from_slice(&written).unwrap();
            prop_assert_eq!(json["id"].as_u64(), Some(id));
            let name = format!("item-{id}");
            prop_assert_eq!(json["name"].as_str(), Some(name.as_str()));
            prop_assert!((1000..=9999).contains(&json["stock"].as_u64().unwrap()));
            prop_assert!((0.0..1.0).contains(&json["score"].as_f64().unwrap()));
        }

        #[test]
        fn an_id_survives_its_path(id: u64) {
            prop_assert_eq!(ItemPath::parse(&format!("/items/{id}")), ItemPath::Numbered(id));
        }

        #[test]
        fn any_target_is_an_item(target in "\\PC*") {
            prop_assert_eq!(ItemPath::parse(&target), ItemPath::parse(&target));
        }
    }
}
