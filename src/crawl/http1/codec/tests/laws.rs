//! Properties of the decoder that hold for any bytes. Called by fuzzing and by tests.

use super::{Cut, Decoder, MOST_HEAD_BYTES, Malformed, Repetition, RequestKind, Sink};
use crate::crawl::response::fields::HeaderFields;

/// Status and fields of a head.
pub type Head = (u16, Vec<(String, Vec<u8>)>);

/// Everything that a decoder says about a response whose connection then ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Status and fields of the final head.
    pub head: Option<Head>,
    /// Parts of the content, joined.
    pub content: Vec<u8>,
    /// End of the response.
    pub end: ResponseEnd,
}

/// End of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnd {
    /// Complete, followed by this many bytes; its connection may carry another request.
    Kept(usize),
    /// Complete, followed by this many bytes; the last on its connection.
    Last(usize),
    /// The connection ended before the head did.
    BeforeHead,
    /// The connection ended before the content did.
    InContent,
    /// No response.
    Malformed(Malformed),
}

#[derive(Default)]
struct Recorder {
    /// Head of the response before; that of this one is the same or replaces it.
    last: Option<Head>,
    head: Option<Head>,
    content: Vec<u8>,
}

impl Sink for Recorder {
    fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> Repetition {
        assert!(self.head.is_none(), "a second head");
        let fields = fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        self.head = Some((status, fields.collect()));
        if status == 429 {
            Repetition::Refused
        } else {
            Repetition::Allowed
        }
    }

    fn repeated_head(&mut self) {
        assert!(
            self.head.is_none() && self.last.is_some(),
            "a second head, or the repetition of none"
        );
        self.head = self.last.take();
    }

    fn content(&mut self, part: &[u8]) {
        assert!(
            self.head.is_some() && !part.is_empty(),
            "content without a head, or none"
        );
        self.content.extend_from_slice(part);
    }
}

/// Decode `parts` as the reads of a connection that then ends.
///
/// # Panics
/// If the decoder leaves more unused than it may, or goes on after its end.
pub fn decode<'a>(request: RequestKind, parts: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    decode_after(&mut Decoder::new(request), None, parts)
}

/// Decode `parts` in the same way with a decoder that has read a response with the head `last`
/// before.
///
/// # Panics
/// If the decoder leaves more unused than it may, or goes on after its end.
pub fn decode_after<'a>(
    decoder: &mut Decoder,
    last: Option<Head>,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Heard {
    let (mut recorder, mut kept) = (
        Recorder {
            last,
            ..Recorder::default()
        },
        Vec::new(),
    );
    decoder.restart();
    for part in parts {
        kept.extend_from_slice(part);
        match decoder.decode(&kept, &mut recorder) {
            Ok(used) => drop(kept.drain(..used)),
            Err(why) => return recorder.ended(ResponseEnd::Malformed(why)),
        }
        assert!(
            decoder.is_done() || kept.len() < MOST_HEAD_BYTES,
            "{} bytes are kept",
            kept.len()
        );
        assert!(
            decoder.is_done() || !decoder.keeps_alive(),
            "kept alive before its end"
        );
    }
    let end = match decoder.end(&kept, &mut recorder) {
        Ok(()) if decoder.keeps_alive() => ResponseEnd::Kept(kept.len()),
        Ok(()) => ResponseEnd::Last(kept.len()),
        Err(Cut::BeforeHead) => ResponseEnd::BeforeHead,
        Err(Cut::InContent) => ResponseEnd::InContent,
        Err(Cut::Malformed(why)) => ResponseEnd::Malformed(why),
    };
    recorder.ended(end)
}

impl Recorder {
    fn ended(self, end: ResponseEnd) -> Heard {
        Heard {
            head: self.head,
            content: self.content,
            end,
        }
    }
}

/// Check all properties on any bytes: the first selects the method and a byte, the second the size
/// of the parts and a position, the others are the response.
///
/// # Panics
/// If one is broken.
pub fn check(bytes: &[u8]) {
    let &[kind, cut, ref response @ ..] = bytes else {
        return;
    };
    let request = if kind & 1 == 0 {
        RequestKind::Other
    } else {
        RequestKind::Head
    };
    let whole = decode(request, [response]);
    assert!(whole.content.len() <= response.len());
    for size in [1, 2, usize::from(cut) + 3] {
        assert_eq!(
            decode(request, response.chunks(size)),
            whole,
            "cut into parts of {size}"
        );
    }
    let left = match whole.end {
        ResponseEnd::Kept(left) => left,
        ResponseEnd::BeforeHead
        | ResponseEnd::InContent
        | ResponseEnd::Malformed(_)
        | ResponseEnd::Last(_) => return,
    };
    // On the same connection, the next response is read as on a new one, also if it differs from
    // the last one by a byte.
    let (only, next) = response.split_at(response.len() - left);
    check_sequence(request, &[only, only, next, only, next]);
    let (at, other) = (usize::from(cut) % only.len(), [kind >> 1]);
    for (replaced, by) in [(1, &other[..]), (0, &other), (1, &[])] {
        let near = [&only[..at], by, &only[at + replaced..]].concat();
        check_sequence(request, &[only, &near, &near, only]);
    }
    // Nothing behind a response is taken for a part of it.
    for surplus in ["", "\r\n", "x", "HTTP/1.1 500 \r\n\r\n"] {
        let heard = decode(request, [only, surplus.as_bytes()]);
        assert_eq!(
            heard,
            Heard {
                end: ResponseEnd::Kept(surplus.len()),
                ..whole.clone()
            },
            "{surplus:?} behind it"
        );
    }
    // Nor is a part of it a response.
    for end in 0..only.len().min(64) {
        let heard = decode(request, [&only[..end]]);
        assert!(
            matches!(heard.end, ResponseEnd::BeforeHead | ResponseEnd::InContent),
            "{heard:?} of its first {end} bytes"
        );
    }
}

/// Check that one decoder reads each of `responses`, whatever preceded it, as a new one does.
///
/// # Panics
/// If it does not.
pub fn check_sequence(request: RequestKind, responses: &[&[u8]]) {
    // What a repeated head leaves out.
    let without_length = |mut heard: Heard| {
        if let Some((_, fields)) = &mut heard.head {
            fields.retain(|(name, _)| name != "content-length");
        }
        heard
    };
    let (mut decoder, mut last) = (Decoder::new(request), None);
    for (n, response) in responses.iter().enumerate() {
        let heard = decode_after(&mut decoder, last.clone(), [*response]);
        last = heard.head.clone().or(last);
        let alone = decode(request, [*response]);
        assert_eq!(
            without_length(heard),
            without_length(alone),
            "response {n} of a connection"
        );
    }
}
