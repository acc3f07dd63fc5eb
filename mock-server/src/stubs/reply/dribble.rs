//! Bodies that come in pieces, with a wait before each: `chunkedDribbleDelay`.
//!
//! It must not wait; the server does.

use super::fields::{milliseconds, required, whole};
use crate::stubs::node::{Node, Problem};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

/// In how many pieces a body is sent, and over what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dribble {
    pieces: NonZeroUsize,
    total: Duration,
}

/// Pieces of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The wait before each piece, the first included, in whole milliseconds.
    pub(crate) interval: Duration,
    count: usize,
    length: usize,
}

impl Dribble {
    /// Reads `{"numberOfChunks":5,"totalDuration":1000}`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("numberOfChunks totalDuration")?;
        let number = required(node, "numberOfChunks")?;
        let pieces = usize::try_from(whole(&number)?)
            .ok()
            .and_then(NonZeroUsize::new);
        let pieces = pieces.ok_or_else(|| {
            number.malformed("a body comes in at least one piece: write 1 or more")
        })?;
        Ok(Self {
            pieces,
            total: milliseconds(&required(node, "totalDuration")?)?,
        })
    }

    /// Cut a body of `length` bytes: into as many pieces as asked for, but none of them empty. An
    /// empty body is sent at once, in no piece. What the division of the time leaves over is not
    /// waited for.
    pub(crate) fn pieces(self, length: usize) -> Pieces {
        let count = self.pieces.get().min(length);
        // An hour at most: its milliseconds fit.
        let total_ms = u64::try_from(self.total.as_millis()).unwrap_or(u64::MAX);
        let interval = total_ms
            .checked_div(u64::try_from(count).unwrap_or(u64::MAX))
            .unwrap_or_default();
        Pieces {
            interval: Duration::from_millis(interval),
            count,
            length,
        }
    }
}

impl Pieces {
    /// Return the range of each piece in the body. All are equally long, but for the last, which
    /// has the remainder, too.
    pub(crate) fn ranges(self) -> impl ExactSizeIterator<Item = Range<usize>> {
        let each = self.length.checked_div(self.count).unwrap_or_default();
        (0..self.count).map(move |piece| {
            let end = if piece + 1 == self.count {
                self.length
            } else {
                (piece + 1) * each
            };
            piece * each..end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (document, expected) in [
            (
                json!(5),
                "the whole document: expected an object, found a number",
            ),
            (
                json!({"totalDuration": 5}),
                "the whole document: the field numberOfChunks is missing",
            ),
            (
                json!({"numberOfChunks": 5}),
                "the whole document: the field totalDuration is missing",
            ),
            (
                json!({"chunks": 5}),
                "/chunks: unknown field `chunks`; known here: numberOfChunks, totalDuration",
            ),
            (
                json!({"numberOfChunks": 0, "totalDuration": 5}),
                "/numberOfChunks: a body comes in at least one piece: write 1 or more",
            ),
            (
                json!({"numberOfChunks": 1, "totalDuration": -5}),
                "/totalDuration: a delay of -5 ms is negative: write 0 or more",
            ),
        ] {
            assert_eq!(
                Dribble::read(&Node::root(&document))
                    .unwrap_err()
                    .to_string(),
                expected
            );
        }
    }

    #[test]
    fn the_last_piece_has_the_remainder_and_short_bodies_have_fewer() {
        let document = json!({"numberOfChunks": 3, "totalDuration": 1000});
        let dribble = Dribble::read(&Node::root(&document)).unwrap();
        let sent = |length| {
            (
                dribble.pieces(length).interval.as_millis(),
                dribble.pieces(length).ranges().collect(),
            )
        };
        assert_eq!(sent(11), (333, vec![0..3, 3..6, 6..11]));
        assert_eq!(sent(2), (500, vec![0..1, 1..2]));
        assert_eq!(sent(0), (0, vec![]));
    }

    proptest! {
        #[test]
        fn pieces_add_up(number in 1_usize..100, total_ms in 0_u64..10_000, length in 0_usize..5000) {
            let total = Duration::from_millis(total_ms);
            let pieces = Dribble { pieces: NonZeroUsize::new(number).unwrap(), total }.pieces(length);
            let mut at = 0;
            for range in pieces.ranges() {
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty());
                at = range.end;
            }
            prop_assert_eq!(at, length);
            let count = pieces.ranges().len();
            prop_assert_eq!(count, number.min(length));
            let waited = pieces.interval * u32::try_from(count).unwrap();
            prop_assert!(waited <= total);
            prop_assert!(count == 0 || total.saturating_sub(waited) < Duration::from_millis(u64::try_from(count).unwrap()));
        }
    }
}
