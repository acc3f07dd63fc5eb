//! Events of a streamed body, counted as they arrive: server-sent events (WHATWG HTML, 9.2.6,
//! *Interpreting an event stream*), lines of JSON, or messages of gRPC.
//!
//! Memory is bounded: of a line, only what is looked at is kept. It must not take the time: its
//! caller knows when bytes arrived.

use std::fmt;

use crawlmark_mock_server::events::END;
use serde::de::IgnoredAny;

use super::compressed::{MOST_BYTES, Unreadable};
use super::grpc::CallReader;
use super::head::ContentKind;
use crate::crawl::requests::json_pointer::unmarked;

/// Longest text that may end a stream, bytes.
const LONGEST_END: usize = 256;

/// Bytes that arrive at different times and hold events, of one response: more make it too long, so
/// that the times between them do not use up this client's memory.
const MOST_ARRIVALS: u32 = 1 << 20;

/// Format of a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFormat {
    /// `text/event-stream`.
    Sse,
    /// A JSON value in each line that is not blank, under any content type.
    Lines,
    /// Messages of gRPC.
    Grpc,
}

/// A stream of events that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStream {
    pub(crate) format: EventFormat,
    /// Data of its last event; none if any event may be the last.
    end: Option<String>,
}

impl EventStream {
    /// The stream of the bundled target.
    pub(crate) fn of_target() -> Self {
        Self {
            format: EventFormat::Sse,
            end: Some(END.to_owned()),
        }
    }

    /// The messages of a call of gRPC.
    pub(crate) const GRPC: Self = Self {
        format: EventFormat::Grpc,
        end: None,
    };

    /// Parse `sse`, `sse:END`, `ndjson` or `grpc`, in two parts; none if it is of neither form.
    pub(crate) fn parse(kind: &str, end: Option<&str>) -> Option<Self> {
        let format = match (kind, end) {
            ("sse", _) => EventFormat::Sse,
            ("ndjson", None) => EventFormat::Lines,
            ("grpc", None) => EventFormat::Grpc,
            _ => return None,
        };
        let end = end.map(str::to_owned);
        end.as_deref()
            .is_none_or(|end| (1..=LONGEST_END).contains(&end.len()) && !end.contains(['\r', '\n']))
            .then_some(Self { format, end })
    }
}

impl fmt::Display for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.format, &self.end) {
            (EventFormat::Sse, None) => f.write_str("sse"),
            (EventFormat::Sse, Some(end)) => write!(f, "sse:{end}"),
            (EventFormat::Lines, _) => f.write_str("ndjson"),
            (EventFormat::Grpc, _) => f.write_str("grpc"),
        }
    }
}

/// Reader of one stream after another.
#[derive(Debug)]
pub(crate) struct EventReader {
    stream: EventStream,
    /// Start of the current line, as far as it is looked at.
    line: Vec<u8>,
    /// Length of the current line so far.
    length: usize,
    /// True if the last byte was a CR, so that an LF belongs to it.
    is_after_cr: bool,
    lines: u64,
    /// Start of the data of the current event, as far as it is looked at; none without any.
    data: Option<Vec<u8>>,
    /// True if the last event had the data of the end.
    is_ended: bool,
    is_malformed: bool,
    /// Messages and outcome of a call of gRPC.
    pub(crate) call: CallReader,
    events: u64,
    /// Events since the last call of [`EventReader::take_arrived`].
    arrived: u64,
    /// Calls of it that returned events; the greatest number once a line of JSON is too long.
    arrivals: u32,
}

impl EventReader {
    pub(crate) fn new(stream: EventStream) -> Self {
        Self {
            stream,
            line: Vec::new(),
            length: 0,
            is_after_cr: false,
            lines: 0,
            data: None,
            is_ended: false,
            is_malformed: false,
            call: CallReader::default(),
            events: 0,
            arrived: 0,
            arrivals: 0,
        }
    }

    /// Begin another stream.
    pub(crate) fn restart(&mut self) {
        self.line.clear();
        let line = std::mem::take(&mut self.line);
        let none = EventStream {
            format: self.stream.format,
            end: None,
        };
        let stream = std::mem::replace(&mut self.stream, none);
        *self = Self {
            line,
            ..Self::new(stream)
        };
    }

    /// Take the next part of the body.
    pub(crate) fn take(&mut self, mut part: &[u8]) {
        if self.is_call() {
            let messages = self.call.take(part);
            return self.add(messages);
        }
        while !part.is_empty() {
            let at = part.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let text = &part[..at.unwrap_or(part.len())];
            self.extend(text);
            let Some(at) = at else { return };
            // A CR, an LF, or both together end a line.
            let is_rest = part[at] == b'\n' && at == 0 && self.is_after_cr;
            if !is_rest {
                self.end_line();
            }
            self.is_after_cr = part[at] == b'\r';
            part = &part[at + 1..];
        }
    }

    /// Memory of its line, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.line.capacity()
    }

    /// Give back the memory of its line.
    pub(crate) fn forget(&mut self) {
        self.line = Vec::new();
    }

    /// True if content of this kind may be the stream.
    pub(crate) fn fits(&self, kind: ContentKind) -> bool {
        match self.stream.format {
            EventFormat::Sse => kind == ContentKind::Events,
            EventFormat::Grpc => kind == ContentKind::Grpc,
            EventFormat::Lines => true,
        }
    }

    /// Return why no more of the stream is read; none if it is.
    pub(crate) fn unreadable(&self) -> Option<Unreadable> {
        let too_long = self.is_too_long().then_some(Unreadable::TooLong);
        too_long.or(self.call.unreadable)
    }

    /// True if its events are the messages of a call of gRPC.
    pub(crate) fn is_call(&self) -> bool {
        self.stream.format == EventFormat::Grpc
    }

    fn extend(&mut self, text: &[u8]) {
        self.is_after_cr &= text.is_empty();
        self.length += text.len();
        if self.stream.format == EventFormat::Lines && self.length > MOST_BYTES {
            self.arrivals = u32::MAX;
        }
        let room = self.kept().saturating_sub(self.line.len());
        self.line.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// Bytes of a line that are looked at.
    const fn kept(&self) -> usize {
        match self.stream.format {
            EventFormat::Lines => MOST_BYTES,
            // A byte order mark, the name of the field, a blank, and one byte more than the end.
            EventFormat::Sse => 3 + "data: ".len() + LONGEST_END + 1,
            EventFormat::Grpc => 0,
        }
    }

    fn end_line(&mut self) {
        match self.stream.format {
            EventFormat::Sse => self.end_field(),
            EventFormat::Lines => self.end_value(),
            EventFormat::Grpc => {}
        }
        (self.length, self.lines) = (0, self.lines + 1);
        self.line.clear();
    }

    fn end_value(&mut self) {
        if self.line.trim_ascii().is_empty() {
            return;
        }
        let line = if self.lines == 0 {
            unmarked(&self.line)
        } else {
            &self.line
        };
        self.is_malformed |= serde_json::from_slice::<IgnoredAny>(line).is_err();
        self.add(1);
    }

    fn end_field(&mut self) {
        let mut line = self.line.as_slice();
        if self.lines == 0 {
            line = unmarked(line);
        }
        if line.is_empty() {
            if let Some(data) = self.data.take() {
                self.is_ended = self
                    .stream
                    .end
                    .as_ref()
                    .is_none_or(|end| data == end.as_bytes());
                self.add(1);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        if name != b"data" {
            return;
        }
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut self.data {
            None => self.data = Some(value.to_vec()),
            // Longer than any end, which has no line break.
            Some(data) if data.len() <= LONGEST_END => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            Some(_) => {}
        }
    }

    const fn add(&mut self, events: u64) {
        self.events += events;
        self.arrived += events;
    }

    /// Return the number of events that arrived since the last call; 0 once the stream is too long.
    pub(crate) fn take_arrived(&mut self) -> u64 {
        let arrived = std::mem::take(&mut self.arrived);
        if arrived > 0 {
            self.arrivals = self.arrivals.saturating_add(1);
        }
        if self.is_too_long() { 0 } else { arrived }
    }

    /// True if a line of JSON, or the number of arrivals, is beyond what is kept.
    const fn is_too_long(&self) -> bool {
        self.arrivals > MOST_ARRIVALS
    }

    /// Return what the last event lacks, at the end of the stream; none if it is whole.
    pub(crate) fn lack(&self) -> Option<&'static str> {
        if self.stream.format != EventFormat::Sse {
            return None;
        }
        if self.length > 0 {
            return Some("the last line of the stream has no line break");
        }
        let is_cut = self.data.is_some();
        is_cut.then_some("the last event of the stream has no blank line after it, so it is none")
    }

    /// True if the stream may end here: it has events, none is cut off, and the last is the end, if
    /// one is expected. A call of gRPC says at its end what is wrong with it.
    pub(crate) fn is_complete(&mut self) -> bool {
        // The last line of JSON may go without its end.
        if self.stream.format == EventFormat::Lines && self.length > 0 {
            self.end_line();
        }
        if self.is_call() {
            return true;
        }
        self.events > 0
            && self.length == 0
            && self.data.is_none()
            && !self.is_malformed
            && (self.is_ended || self.stream.format == EventFormat::Lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number of events of a body in these parts, and true if it is complete.
    fn read(text: &str, parts: &[&[u8]]) -> (u64, bool) {
        let (kind, end) = text
            .split_once(':')
            .map_or((text, None), |(kind, end)| (kind, Some(end)));
        let mut reader = EventReader::new(EventStream::parse(kind, end).unwrap());
        let mut events = 0;
        for part in parts {
            reader.take(part);
            events += reader.take_arrived();
        }
        let is_complete = reader.is_complete();
        (events + reader.take_arrived(), is_complete)
    }

    #[test]
    fn events_are_those_of_the_standard() {
        for (body, expected) in [
            // The examples of 9.2.6.
            ("data: YHOO\ndata: +2\ndata: 10\n\n", (1, true)),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                (3, true),
            ),
            ("data\n\ndata\ndata\n\ndata:", (2, false)),
            ("data:test\n\ndata: test\n\n", (2, true)),
            // Line ends, a mark of byte order, comments, fields without data.
            ("\u{feff}data: 1\r\rdata: 2\r\n\r\ndata: 3\n\r\n", (3, true)),
            (":\n\n:\n\nevent: x\n\n", (0, false)),
            ("data: 1\n\n: kept alive\n\n", (1, true)),
            ("data: 1\n\ndata: 2\n", (1, false)),
            ("data: 1\n\nda", (1, false)),
            ("data2: 1\n\nDATA: 1\n\n", (0, false)),
            ("", (0, false)),
        ] {
            assert_eq!(read("sse", &[body.as_bytes()]), expected, "{body:?}");
        }
    }

    #[test]
    fn the_last_event_is_the_end() {
        let long = format!("data: {}\n\n", "x".repeat(1 << 20));
        for (body, is_complete) in [
            ("data: a\n\ndata: [DONE]\n\n", true),
            ("data: [DONE]\n\ndata: a\n\n", false),
            ("data: [DONE]x\n\n", false),
            ("data: [DONE]\ndata: x\n\n", false),
            (&long, false),
        ] {
            let (events, complete) = read("sse:[DONE]", &[body.as_bytes()]);
            assert!(events > 0 && complete == is_complete, "{events}");
        }
    }

    #[test]
    fn each_line_is_a_json_value() {
        for (body, expected) in [
            ("{\"a\":1}\n2\n", (2, true)),
            ("1\r\n\r\n2", (2, true)),
            ("1\n{\n", (2, false)),
            ("1\n{", (2, false)),
            ("\n\n", (0, false)),
            ("\u{feff}{\"a\":1}\n2", (2, true)),
            ("\u{feff}1", (1, true)),
            ("1\n\u{feff}2", (2, false)),
        ] {
            assert_eq!(read("ndjson", &[body.as_bytes()]), expected, "{body:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory() {
        let mut reader = EventReader::new(EventStream::parse("sse", None).unwrap());
        (0..1_000).for_each(|_| reader.take(&[b'x'; 4_096]));
        assert!(reader.line.capacity() < 4_096, "{}", reader.line.capacity());
    }

    #[test]
    fn a_line_of_json_that_is_longer_than_is_kept_is_not_read_on() {
        let mut reader = EventReader::new(EventStream::parse("ndjson", None).unwrap());
        let part = vec![b'1'; 1 << 16];
        (0..MOST_BYTES / part.len()).for_each(|_| reader.take(&part));
        assert_eq!(reader.unreadable(), None);
        reader.take(b"1\n2\n");
        assert_eq!(reader.unreadable(), Some(Unreadable::TooLong));
        assert_eq!(reader.line.capacity(), MOST_BYTES);
        reader.restart();
        assert_eq!(reader.unreadable(), None);
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["sse", "sse:[DONE]", "ndjson", "grpc"] {
            let (kind, end) = text
                .split_once(':')
                .map_or((text, None), |(kind, end)| (kind, Some(end)));
            assert_eq!(EventStream::parse(kind, end).unwrap().to_string(), text);
        }
        for (kind, end) in [
            ("sse", ""),
            ("sse", "a\nb"),
            ("ndjson", "x"),
            ("grpc", "x"),
            ("json", ""),
        ] {
            assert_eq!(EventStream::parse(kind, Some(end)), None, "{kind} {end:?}");
        }
    }

    proptest! {
        /// However a body is cut into parts, its events are the same, and a reader that is used
        /// again forgets the stream before.
        #[test]
        fn parts_do_not_matter(body in "(data: ?|[a-c:]|\r|\n|\u{feff}){0,24}", cuts in prop::collection::vec(0_usize..30, 0..6)) {
            let bytes = body.as_bytes();
            for kind in ["sse", "ndjson"] {
                let whole = read(kind, &[bytes]);
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.min(&bytes.len())).collect();
                cuts.extend([0, bytes.len()]);
                cuts.sort_unstable();
                let parts: Vec<&[u8]> = cuts.windows(2).map(|two| &bytes[two[0]..two[1]]).collect();
                prop_assert_eq!(read(kind, &parts), whole);
                let mut again = EventReader::new(EventStream::parse(kind, None).unwrap());
                again.take(b"data: x\r");
                again.restart();
                again.take(bytes);
                let is_complete = again.is_complete();
                prop_assert_eq!((again.take_arrived(), is_complete), whole);
            }
        }
    }
}
