//! Decoder of the HTTP/1.1 responses of a connection: bytes in, events out, no I/O and no clock.
//! The hot path.
//!
//! The connection passes it the bytes that it has read; fuzzing and tests pass it anything else. It
//! keeps no bytes but the last head, by which it recognises the next one: the caller passes unused
//! input again, with more bytes after it. It must not know what a status or a field means beyond
//! the framing of the message.
//!
//! Every response that it accepts, hyper's client accepts, too, if it is told to unfold lines and
//! to accept as many fields: `tests/corpus` lists responses and their readings, `tests/oracle` compares the two
//! decoders on them.
//!
//! | room | for |
//! |---|---|
//! | `head` | framing from a head; recognition of a repeated head |
//! | `chunked` | chunked content |
//! | `sink` | events of a response, and reasons to refuse bytes |
//! | `tests` | laws for any bytes, for fuzzing too; known responses; comparison with hyper's client |

mod chunked;
mod head;
#[cfg(any(test, fuzzing))]
#[path = "codec/tests/laws.rs"]
pub mod laws;
mod sink;
#[cfg(test)]
mod tests;

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{ParserConfig, Response, Status};

use self::chunked::Chunked;
use self::head::{Facts, Framing, LastHead};
use self::sink::{MOST_FIELDS, may_be_complete};
pub use self::sink::{Malformed, Repetition, RequestKind, Sink};
use crate::crawl::response::fields::{HeaderFields, MOST_HEAD_BYTES};

/// Most interim answers and blank lines before the final head. Servers send one or two.
const MOST_INTERIM: u32 = 64;

/// Reason why a response is incomplete when its connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its final head is not complete.
    BeforeHead,
    /// Its content is not complete.
    InContent,
    /// The unused bytes are malformed.
    Malformed(Malformed),
}

/// Content of an incomplete response: `3 of 300 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    bytes: u64,
    declared: Option<u64>,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.declared {
            Some(declared) => write!(f, "{} of {declared} bytes", self.bytes),
            None => write!(f, "{} bytes of an undeclared length", self.bytes),
        }
    }
}

/// Bytes of content that come next, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentAhead {
    /// Their number, never 0; `u64::MAX` if they end with the connection.
    pub bytes: u64,
    /// True if the response ends with them.
    pub is_last: bool,
}

/// Decoder of the responses of a connection, one at a time.
#[derive(Debug)]
pub struct Decoder {
    request: RequestKind,
    phase: Phase,
    /// Bytes of interim answers and blank lines.
    head_bytes: usize,
    interim: u32,
    /// Length of the incomplete section when it was last parsed.
    seen: usize,
    /// True if the connection may carry another request.
    keeps_alive: bool,
    /// Seconds for which the target keeps the connection at rest open, if it said so.
    pub(crate) kept_s: Option<u32>,
    last_head: LastHead,
}

/// Position in the response.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Head,
    /// Content of a declared length, with bytes left to come, never 0.
    Length {
        left: u64,
        declared: u64,
    },
    Chunked(Chunked),
    /// Content that ends with the connection, and its bytes so far.
    UntilClose(u64),
    Done,
}

impl Decoder {
    /// Decoder for the responses to requests of this kind.
    #[must_use]
    pub const fn new(request: RequestKind) -> Self {
        let last_head = LastHead::new();
        Self {
            request,
            phase: Phase::Head,
            head_bytes: 0,
            interim: 0,
            seen: 0,
            keeps_alive: false,
            kept_s: None,
            last_head,
        }
    }

    /// Expect the next response, to a request of this kind.
    #[inline]
    pub(crate) fn restart_for(&mut self, request: RequestKind) {
        if self.request != request {
            // The same head frames another response: that to HEAD has no content.
            self.last_head.clear();
        }
        self.request = request;
        self.restart();
    }

    /// Expect the next response.
    #[inline]
    pub fn restart(&mut self) {
        (
            self.phase,
            self.head_bytes,
            self.interim,
            self.seen,
            self.keeps_alive,
        ) = (Phase::Head, 0, 0, 0, false);
    }

    /// True if the response is complete.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// True if the response is complete and its connection may carry another request.
    #[must_use]
    #[inline]
    pub fn keeps_alive(&self) -> bool {
        self.is_done() && self.keeps_alive
    }

    /// Return the content that was decoded; none before the head and of a complete response.
    #[must_use]
    pub fn received(&self) -> Option<Received> {
        let (bytes, declared) = match &self.phase {
            Phase::Head | Phase::Done => return None,
            Phase::Length { left, declared } => (declared - left, Some(*declared)),
            Phase::Chunked(chunked) => (chunked.content(), None),
            Phase::UntilClose(bytes) => (*bytes, None),
        };
        Some(Received { bytes, declared })
    }

    /// Return the content that comes next, once all bytes so far are decoded; none if anything else
    /// does.
    #[must_use]
    pub fn ahead(&self) -> Option<ContentAhead> {
        let (bytes, is_last) = match &self.phase {
            Phase::Length { left, .. } => (*left, true),
            Phase::Chunked(chunked) => (chunked.data_ahead()?, false),
            Phase::UntilClose(_) => (u64::MAX, false),
            Phase::Head | Phase::Done => return None,
        };
        Some(ContentAhead { bytes, is_last })
    }

    /// Go on behind bytes of the content [ahead](Self::ahead), which are not decoded.
    #[inline]
    pub fn pass(&mut self, bytes: u64) {
        match &mut self.phase {
            Phase::Length { left, .. } => {
                *left -= bytes;
                if *left == 0 {
                    self.phase = Phase::Done;
                }
            }
            Phase::Chunked(chunked) => chunked.pass_bytes(bytes),
            Phase::UntilClose(all) => *all += bytes,
            Phase::Head | Phase::Done => {}
        }
    }

    /// Decode the next bytes and return the number of bytes used. The next call's input starts with
    /// the unused ones, at most 400 KiB; after a complete response they do not belong
    /// to it.
    ///
    /// # Errors
    /// When no response starts with these bytes. The error comes with the byte after a line at the
    /// latest, and does not depend on how the bytes were split.
    pub fn decode(&mut self, input: &[u8], sink: &mut impl Sink) -> Result<usize, Malformed> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let step = match &mut self.phase {
                Phase::Head => self.decode_head(rest, sink)?,
                Phase::Done => 0,
                _ if rest.is_empty() => 0,
                Phase::Length { left, .. } => {
                    let part =
                        usize::try_from(*left).map_or(rest, |left| &rest[..left.min(rest.len())]);
                    sink.content(part);
                    self.pass(part.len() as u64);
                    part.len()
                }
                Phase::UntilClose(_) => {
                    sink.content(rest);
                    self.pass(rest.len() as u64);
                    rest.len()
                }
                Phase::Chunked(chunked) => {
                    let step = chunked.decode(rest, &mut self.seen, sink)?;
                    if chunked.is_done() {
                        self.phase = Phase::Done;
                    }
                    step
                }
            };
            used += step;
            if step == 0 || matches!(self.phase, Phase::Done) {
                return Ok(used);
            }
        }
    }

    /// Note the end of the connection, after the unused bytes `rest`.
    ///
    /// # Errors
    /// When the response is not complete.
    pub fn end(&mut self, rest: &[u8], sink: &mut impl Sink) -> Result<(), Cut> {
        // `decode` skips an incomplete section that it has parsed before; this is the last time.
        self.seen = 0;
        self.decode(rest, sink).map_err(Cut::Malformed)?;
        match self.phase {
            Phase::Head => Err(Cut::BeforeHead),
            Phase::Length { .. } | Phase::Chunked(_) => Err(Cut::InContent),
            Phase::UntilClose(_) => {
                self.phase = Phase::Done;
                Ok(())
            }
            Phase::Done => Ok(()),
        }
    }

    /// Decode a blank line or a head.
    #[inline]
    fn decode_head(&mut self, rest: &[u8], sink: &mut impl Sink) -> Result<usize, Malformed> {
        let blank = match rest {
            [] | [b'\r'] => return Ok(0),
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] => 1,
            _ => 0,
        };
        if blank > 0 {
            return self.pass_interim(blank);
        }
        if let Some((bytes, facts)) = self.last_head.recognise(rest) {
            self.begin_content(bytes, facts)?;
            sink.repeated_head();
            return Ok(bytes);
        }
        if !may_be_complete(rest, &mut self.seen) {
            return self.wait_for_head(rest);
        }
        self.parse_head(rest, sink)
    }

    /// Decode a head. A folded field (RFC 9112, 5.2) has the line ends within its value.
    fn parse_head(&mut self, head: &[u8], sink: &mut impl Sink) -> Result<usize, Malformed> {
        let mut lines = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let mut response = Response::new(&mut []);
        let parsed = ParserConfig::default()
            .allow_obsolete_multiline_headers_in_responses(true)
            .parse_response_with_uninit_headers(&mut response, head, &mut lines);
        let Status::Complete(bytes) = parsed.map_err(Malformed::Head)? else {
            return self.wait_for_head(head);
        };
        if self.head_bytes + bytes > MOST_HEAD_BYTES {
            return Err(Malformed::HeadTooLong);
        }
        self.seen = 0;
        let (status, version) = (response.code.unwrap_or(0), response.version.unwrap_or(0));
        match status {
            0..100 => return Err(Malformed::Status(status)),
            101 => return Err(Malformed::Upgrade),
            100..200 => return self.pass_interim(bytes),
            _ => {}
        }
        let fields = HeaderFields::new(response.headers);
        let (facts, digits) = head::read(status, version, self.request, fields)?;
        self.begin_content(bytes, facts)?;
        match sink.head(status, fields) {
            Repetition::Allowed => {
                self.last_head.keep(
                    &head[..bytes],
                    digits.and_then(|digits| place(digits, head)),
                    facts,
                );
            }
            Repetition::Refused => self.last_head.clear(),
        }
        Ok(bytes)
    }

    /// Go on to the content, after a final head of `bytes` bytes.
    #[inline]
    fn begin_content(&mut self, bytes: usize, facts: Facts) -> Result<(), Malformed> {
        if self.head_bytes + bytes > MOST_HEAD_BYTES {
            return Err(Malformed::HeadTooLong);
        }
        self.seen = 0;
        (self.keeps_alive, self.kept_s) = (facts.keeps_alive, facts.kept_s);
        self.phase = match facts.framing {
            Framing::Length(0) => Phase::Done,
            Framing::Length(declared) => Phase::Length {
                left: declared,
                declared,
            },
            Framing::Chunked => Phase::Chunked(Chunked::default()),
            Framing::UntilClose => Phase::UntilClose(0),
        };
        Ok(())
    }

    fn wait_for_head(&self, rest: &[u8]) -> Result<usize, Malformed> {
        if self.head_bytes + rest.len() >= MOST_HEAD_BYTES {
            Err(Malformed::HeadTooLong)
        } else {
            Ok(0)
        }
    }

    /// Skip an interim answer or a blank line of `bytes` bytes.
    fn pass_interim(&mut self, bytes: usize) -> Result<usize, Malformed> {
        self.interim += 1;
        self.head_bytes += bytes;
        if self.interim > MOST_INTERIM {
            return Err(Malformed::TooManyInterim);
        }
        if self.head_bytes > MOST_HEAD_BYTES {
            return Err(Malformed::HeadTooLong);
        }
        Ok(bytes)
    }
}

/// Return the position of `part`, which is a part of `whole`.
fn place(part: &[u8], whole: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start
        .checked_add(part.len())
        .filter(|end| *end <= whole.len())?;
    Some(start..end)
}
