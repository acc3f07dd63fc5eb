//! Streams of server-sent events (WHATWG HTML, 9.2) in place of items.

use crate::text::{duration_text, from_text, hold};
use std::fmt;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

/// Data of the last event of every stream, as services of language models send it.
pub const END: &str = "[DONE]";

/// Most events of a stream: each is in memory until it is due.
const MOST: u32 = 100_000;

/// Stream of events that is the answer for every item. Written `50@20ms`: 50 events, each 20 ms
/// after the one before, and after the same time an event with [`END`]. The first one is sent at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    count: NonZeroU32,
    /// Time between two events.
    pub(crate) gap: Duration,
}

from_text!(
    Events,
    "stream of events",
    "a number from 1 to 100000 and a time, as in 50@20ms"
);

impl Events {
    fn read(text: &str) -> Option<Self> {
        let (count, gap) = text.split_once('@')?;
        let count: NonZeroU32 = count.parse().ok()?;
        let gap = hold(gap)?;
        (count.get() <= MOST).then_some(Self { count, gap })
    }

    /// The events of item `id`, each with a blank line behind it.
    pub(crate) fn write_body(self, id: u64) -> String {
        let mut body = String::new();
        for event in 0..self.count.get() {
            // Writing to a text does not fail.
            let _ = write!(body, "data: {{\"id\":{id},\"event\":{event}}}\n\n");
        }
        let _ = write!(body, "data: {END}\n\n");
        body
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.count, duration_text(self.gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["1@0s", "50@20ms", "100000@1h"] {
            assert_eq!(text.parse::<Events>().unwrap().to_string(), text);
        }
        for wrong in ["", "50", "0@20ms", "50@20", "100001@1ms", "5@2h", "@1s"] {
            assert!(wrong.parse::<Events>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_event_has_its_number_and_the_last_is_the_end() {
        let body = "2@1ms".parse::<Events>().unwrap().write_body(7);
        let expected =
            "data: {\"id\":7,\"event\":0}\n\ndata: {\"id\":7,\"event\":1}\n\ndata: [DONE]\n\n";
        assert_eq!(body, expected);
    }
}
