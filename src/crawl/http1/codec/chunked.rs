//! Decoder of chunked content: RFC 9112, 7.1, with CRLF as the only line end, and limits on
//! everything but the content.

use httparse::{EMPTY_HEADER, Status, parse_headers};

use super::sink::{MOST_FIELDS, Malformed, Sink, may_be_complete};

/// Most digits of a chunk's size, leading zeros included: those of a `u64`.
const MOST_DIGITS: u8 = 16;

/// Most bytes of chunk extensions in a response: hyper's limit.
const MOST_EXTENSION_BYTES: u64 = 16 << 10;

/// Most bytes of a trailer section: hyper's limit.
const MOST_TRAILER_BYTES: usize = 16 << 10;

/// Most bytes of framing per byte of content. A chunk of a single byte needs 5.
const FRAMING_PER_BYTE: u64 = 8;

/// Bytes of framing that are allowed on top: two turns of the connection.
const FRAMING_BYTES: u64 = 128 << 10;

/// Position in a chunked body, and the totals that are limited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunked {
    part: ChunkPart,
    /// Digits of the present size, then bytes of the chunk that are missing.
    digits: u8,
    left: u64,
    extension_bytes: u64,
    framing: u64,
    content: u64,
}

/// Part of the body that the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ChunkPart {
    #[default]
    Size,
    /// White space behind a size.
    Space,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
    Done,
}

impl Chunked {
    pub(crate) fn is_done(&self) -> bool {
        self.part == ChunkPart::Done
    }

    /// Bytes of content so far.
    pub(crate) const fn content(&self) -> u64 {
        self.content
    }

    /// Decode some of `input`, which is not empty, and return the number of bytes used: none when
    /// more are needed.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        seen: &mut usize,
        sink: &mut impl Sink,
    ) -> Result<usize, Malformed> {
        match self.part {
            ChunkPart::Data => Ok(self.pass_data(input, sink)),
            ChunkPart::Trailers => self.pass_trailers(input, seen),
            _ => self.pass_framing(input),
        }
    }

    /// Return the bytes of the present chunk that are missing; none between two.
    pub(crate) fn data_ahead(&self) -> Option<u64> {
        (self.part == ChunkPart::Data).then_some(self.left)
    }

    /// Go on behind so many of these.
    pub(crate) fn pass_bytes(&mut self, bytes: u64) {
        self.left -= bytes;
        self.content += bytes;
        if self.left == 0 {
            self.part = ChunkPart::DataCr;
        }
    }

    fn pass_data(&mut self, input: &[u8], sink: &mut impl Sink) -> usize {
        let part = usize::try_from(self.left).map_or(input, |left| &input[..left.min(input.len())]);
        sink.content(part);
        self.pass_bytes(part.len() as u64);
        part.len()
    }

    /// Read up to the next data or the trailers.
    fn pass_framing(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        let mut used = 0;
        for byte in input {
            self.part = self.next(*byte)?;
            used += 1;
            self.framing += 1;
            if self.framing
                > FRAMING_BYTES.saturating_add(self.content.saturating_mul(FRAMING_PER_BYTE))
            {
                return Err(Malformed::Padding);
            }
            if matches!(self.part, ChunkPart::Data | ChunkPart::Trailers) {
                break;
            }
        }
        Ok(used)
    }

    fn next(&mut self, byte: u8) -> Result<ChunkPart, Malformed> {
        let is_sized = self.digits > 0;
        Ok(match (self.part, byte) {
            (ChunkPart::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                if self.digits < MOST_DIGITS =>
            {
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                (self.digits, self.left) = (self.digits + 1, self.left << 4 | digit);
                ChunkPart::Size
            }
            (ChunkPart::Size | ChunkPart::Space, b' ' | b'\t') if is_sized => ChunkPart::Space,
            (ChunkPart::Size | ChunkPart::Space, b';') if is_sized => ChunkPart::Extension,
            (ChunkPart::Size | ChunkPart::Space, b'\r') if is_sized => ChunkPart::SizeLf,
            (ChunkPart::Extension, b'\r') => ChunkPart::SizeLf,
            (ChunkPart::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.extension_bytes += 1;
                if self.extension_bytes >= MOST_EXTENSION_BYTES {
                    return Err(Malformed::ChunkExtensions);
                }
                ChunkPart::Extension
            }
            (ChunkPart::SizeLf, b'\n') => {
                self.digits = 0;
                if self.left == 0 {
                    ChunkPart::Trailers
                } else {
                    ChunkPart::Data
                }
            }
            (ChunkPart::DataCr, b'\r') => ChunkPart::DataLf,
            (ChunkPart::DataLf, b'\n') => ChunkPart::Size,
            (ChunkPart::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                return Err(Malformed::LongChunkSize);
            }
            (ChunkPart::SizeLf | ChunkPart::DataCr | ChunkPart::DataLf, _)
            | (ChunkPart::Extension, b'\n') => {
                return Err(Malformed::ChunkEnd);
            }
            (ChunkPart::Size | ChunkPart::Space, b'\n') if is_sized => {
                return Err(Malformed::ChunkEnd);
            }
            (ChunkPart::Extension, _) => return Err(Malformed::ChunkExtensions),
            _ => return Err(Malformed::ChunkSize),
        })
    }

    /// Skip the trailer section once it is complete; nothing in it is used.
    fn pass_trailers(&mut self, input: &[u8], seen: &mut usize) -> Result<usize, Malformed> {
        let bytes = match input {
            // Nearly every response: there is none.
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => return Ok(0),
            _ if !may_be_complete(input, seen) => return wait_for_trailers(input),
            _ => {
                let mut fields = [EMPTY_HEADER; MOST_FIELDS];
                match parse_headers(input, &mut fields).map_err(|_| Malformed::Trailers)? {
                    Status::Complete((bytes, _)) => bytes,
                    Status::Partial => return wait_for_trailers(input),
                }
            }
        };
        let has_bare_lf = input[0] == b'\n'
            || input[..bytes.min(MOST_TRAILER_BYTES)]
                .windows(2)
                .any(|pair| pair[0] != b'\r' && pair[1] == b'\n');
        if bytes > MOST_TRAILER_BYTES || has_bare_lf {
            return Err(Malformed::Trailers);
        }
        self.part = ChunkPart::Done;
        Ok(bytes)
    }
}

fn wait_for_trailers(input: &[u8]) -> Result<usize, Malformed> {
    if input.len() >= MOST_TRAILER_BYTES {
        Err(Malformed::Trailers)
    } else {
        Ok(0)
    }
}
