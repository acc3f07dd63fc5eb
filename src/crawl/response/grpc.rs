//! Calls of gRPC over HTTP/2 (`--expect grpc`): the messages of a response, and its outcome in the
//! trailers (*PROTOCOL-HTTP2.md* of gRPC).
//!
//! Messages are bytes: nothing of their content is read. It must not know a connection.

#[cfg(any(test, fuzzing))]
#[path = "grpc/tests/laws.rs"]
pub mod laws;

use std::time::Duration;

use crawlmark_harness::stats::MAX_EXCERPT;

use super::compressed::{MOST_BYTES, Unreadable};
use super::fields::HeaderFields;
use crate::crawl::requests::shape::MESSAGE_PREFIX as PREFIX;

/// Content type of requests and responses, which may go on with `+proto` or another name.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// Status of a call that failed because of a limit.
pub(crate) const RESOURCE_EXHAUSTED: u16 = 8;

/// Status of a call that may succeed later.
pub(crate) const UNAVAILABLE: u16 = 14;

/// Status of a call without valid credentials.
pub(crate) const UNAUTHENTICATED: u16 = 16;

/// Least number that is no status of gRPC, whose own are 0 to 16, but one of HTTP.
pub(crate) const STATUSES: u16 = 100;

/// Number that a call may be sent again after (gRFC A6): milliseconds; less than 0 or no number, it
/// may not.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallFailure {
    /// Its status.
    pub(crate) status: u16,
    /// What the target says of sending it again; none if it says nothing.
    pub(crate) pushback: Option<Pushback>,
}

/// What a target says of sending a call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushback {
    /// After so long.
    After(Duration),
    /// Never.
    Never,
}

impl Pushback {
    fn of(value: &[u8]) -> Self {
        let text = std::str::from_utf8(value).ok();
        let ms = text.and_then(|text| text.trim().parse().ok());
        // One that is too long is cut by `--max-pause`.
        ms.map_or(Self::Never, |ms: u32| {
            Self::After(Duration::from_millis(ms.into()))
        })
    }
}

/// Reader of the messages and the outcome of one call after another.
#[derive(Debug, Default)]
pub(crate) struct CallReader {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix so far; 0 between two messages.
    prefix_bytes: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    /// Reason why no further message is read.
    pub(crate) unreadable: Option<Unreadable>,
    status: Option<u16>,
    pushback: Option<Pushback>,
}

impl CallReader {
    /// Take the next part of the body, and return the number of messages that it completes.
    pub(crate) fn take(&mut self, mut part: &[u8]) -> u64 {
        let mut messages = 0;
        while !part.is_empty() && self.unreadable.is_none() {
            let used = if self.prefix_bytes < PREFIX {
                let used = part.len().min(PREFIX - self.prefix_bytes);
                let to = &mut self.prefix[self.prefix_bytes..][..used];
                to.copy_from_slice(&part[..used]);
                self.prefix_bytes += used;
                if self.prefix_bytes == PREFIX {
                    self.begin();
                }
                used
            } else {
                let used = part.len().min(self.left);
                self.left -= used;
                used
            };
            part = &part[used..];
            let is_whole = self.prefix_bytes == PREFIX && self.left == 0;
            if is_whole && self.unreadable.is_none() {
                (self.prefix_bytes, messages) = (0, messages + 1);
            }
        }
        messages
    }

    /// Begin the message of a prefix.
    fn begin(&mut self) {
        let [flag, length @ ..] = self.prefix;
        self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        self.unreadable = match flag {
            0 if self.left <= MOST_BYTES => None,
            0 => Some(Unreadable::TooLong),
            _ => Some(Unreadable::CompressedMessage),
        };
    }

    /// Take the fields in which the call ends: its trailers, or the head of a response without
    /// content. Return its message, decoded, if it failed.
    pub(crate) fn end(&mut self, fields: HeaderFields<'_>) -> Option<Vec<u8>> {
        let status = fields
            .all("grpc-status")
            .next()
            .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        self.status = status.filter(|status| *status < STATUSES);
        self.pushback = fields.all(PUSHBACK).next().map(Pushback::of);
        fields
            .all("grpc-message")
            .next()
            .filter(|_| self.failure().is_some())
            .map(decoded)
    }

    /// Return how a call failed by its status.
    pub(crate) fn failure(&self) -> Option<CallFailure> {
        let status = self.status.filter(|status| *status > 0)?;
        Some(CallFailure {
            status,
            pushback: self.pushback,
        })
    }

    /// Return why a call that can be read and did not fail is not whole.
    pub(crate) fn flaw(&self) -> Option<Unreadable> {
        let is_cut = self.prefix_bytes > 0;
        match self.status {
            None => Some(Unreadable::NoStatus),
            Some(_) => is_cut.then_some(Unreadable::CutMessage),
        }
    }
}

/// Return the start of a text without its percent encoding; what is none stays as it is.
fn decoded(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some((&first, rest)) = text.split_first()
        && bytes.len() < MAX_EXCERPT
    {
        let coded = rest.get(..2).filter(|_| first == b'%');
        let coded = coded.filter(|coded| coded.iter().all(u8::is_ascii_hexdigit));
        let coded = coded.and_then(|coded| std::str::from_utf8(coded).ok());
        let byte = coded.and_then(|coded| u8::from_str_radix(coded, 16).ok());
        bytes.push(byte.unwrap_or(first));
        text = if byte.is_some() { &rest[2..] } else { rest };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use httparse::Header;
    use proptest::prelude::*;

    use super::*;

    fn ended(reader: &mut CallReader, fields: &[(&str, &[u8])]) -> Option<Vec<u8>> {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| Header { name, value })
            .collect();
        reader.end(HeaderFields::new(&fields))
    }

    #[test]
    fn a_call_ends_as_its_status_says() {
        for (status, failed_with, flaw) in [
            (Some("0"), None, None),
            (Some("5"), Some(5), None),
            (Some("16"), Some(16), None),
            (Some("99"), Some(99), None),
            (Some("100"), None, Some(Unreadable::NoStatus)),
            (Some("-1"), None, Some(Unreadable::NoStatus)),
            (Some("OK"), None, Some(Unreadable::NoStatus)),
            (Some(""), None, Some(Unreadable::NoStatus)),
            (None, None, Some(Unreadable::NoStatus)),
        ] {
            let mut reader = CallReader::default();
            let fields = status.map(|status| ("grpc-status", status.as_bytes()));
            ended(&mut reader, fields.as_slice());
            let status_of = reader.failure().map(|failure| failure.status);
            let seen = (status_of, reader.flaw());
            assert_eq!(seen, (failed_with, flaw), "{status:?}");
        }
    }

    #[test]
    fn a_pushback_is_milliseconds_or_never() {
        for (value, expected) in [
            ("0", Pushback::After(Duration::ZERO)),
            ("1500", Pushback::After(Duration::from_millis(1_500))),
            ("-1", Pushback::Never),
            ("soon", Pushback::Never),
            ("99999999999999999999", Pushback::Never),
        ] {
            let fields = [("grpc-status", &b"14"[..]), (PUSHBACK, value.as_bytes())];
            let mut reader = CallReader::default();
            ended(&mut reader, &fields);
            let pushback = reader.failure().and_then(|failure| failure.pushback);
            assert_eq!(pushback, Some(expected), "{value}");
        }
    }

    #[test]
    fn messages_are_decoded_as_far_as_they_are_encoded() {
        for (sent, decoded) in [
            ("no such item", "no such item"),
            ("caf%C3%A9 100%25", "café 100%"),
            ("50% off, %zz %4", "50% off, %zz %4"),
            ("%+1%-1", "%+1%-1"),
        ] {
            let fields = [
                ("grpc-status", &b"5"[..]),
                ("grpc-message", sent.as_bytes()),
            ];
            let message = ended(&mut CallReader::default(), &fields).unwrap();
            assert_eq!(String::from_utf8(message).unwrap(), decoded);
        }
        let long = vec![b'x'; 1 << 16];
        let fields = [("grpc-status", &b"5"[..]), ("grpc-message", &long)];
        let message = ended(&mut CallReader::default(), &fields).unwrap();
        assert_eq!(message.len(), MAX_EXCERPT);
        let good = [("grpc-status", &b"0"[..]), ("grpc-message", &b"fine"[..])];
        assert_eq!(ended(&mut CallReader::default(), &good), None);
    }

    #[test]
    fn a_body_is_whole_messages_that_can_be_read() {
        let longest = u32::try_from(MOST_BYTES).unwrap();
        let of_length = |length: u32| [&[0][..], &length.to_be_bytes()].concat();
        for (body, messages, flaw) in [
            (vec![], 0, None),
            (vec![0; 10], 2, None),
            (b"\0\0\0\0\x01a".to_vec(), 1, None),
            (vec![0; 9], 1, Some(Unreadable::CutMessage)),
            (b"\0\0\0\0\x02a".to_vec(), 0, Some(Unreadable::CutMessage)),
            (vec![1, 0, 0, 0, 0], 0, Some(Unreadable::CompressedMessage)),
            (of_length(longest), 0, Some(Unreadable::CutMessage)),
            (of_length(longest + 1), 0, Some(Unreadable::TooLong)),
        ] {
            let mut reader = CallReader::default();
            assert_eq!(reader.take(&body), messages, "{body:?}");
            ended(&mut reader, &[("grpc-status", b"0")]);
            assert_eq!(reader.unreadable.or(reader.flaw()), flaw, "{body:?}");
        }
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap();
        [&[0], &length.to_be_bytes()[..], message].concat()
    }

    fn body() -> impl Strategy<Value = Vec<u8>> {
        let message = prop::collection::vec(any::<u8>(), 0..40);
        let message = message.prop_map(|message| framed(&message));
        let any = prop::collection::vec(any::<u8>(), 0..12);
        let parts = prop::collection::vec(prop_oneof![4 => message, 1 => any], 0..6);
        parts.prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn the_laws_that_fuzzing_relies_on_hold(body in body(), cuts in prop::collection::vec(any::<u8>(), 0..6)) {
            laws::check(&cuts, &body);
        }

        #[test]
        fn messages_are_counted_as_they_are_framed(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let body: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
            prop_assert_eq!(CallReader::default().take(&body), messages.len() as u64);
        }
    }
}
