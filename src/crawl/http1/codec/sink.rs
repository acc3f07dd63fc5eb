//! What the parts of the decoder share: the events of a response, and the reasons to refuse bytes.

use crate::crawl::response::fields::HeaderFields;

/// Most fields of a head or a trailer section. Some sites send more than 100, which is the limit of
/// hyper and of Go's servers; 300 are a mistake.
pub(super) const MOST_FIELDS: usize = 256;

/// Receives the events of a response: its final head once, then its content in parts, none of them
/// empty.
pub trait Sink {
    /// Receive the head.
    fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> Repetition;
    /// Receive a head in the place of [`head`](Self::head): status and fields are those of the last
    /// one, but for the content length.
    fn repeated_head(&mut self);
    /// Receive the next part of the content.
    fn content(&mut self, part: &[u8]);
}

/// Receipt of a head by a [`Sink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// A head that repeats it may be passed to [`Sink::repeated_head`].
    Allowed,
    /// The sink has to read each head like this one.
    Refused,
}

/// Method of the request, as far as it decides the framing of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: the response has no content, whatever its fields say.
    Head,
    /// Any other method but CONNECT.
    Other,
}

/// Reason to refuse bytes: they are no response, or its end is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The status line or a field is not HTTP/1.
    #[error("the head cannot be read: {0}")]
    Head(httparse::Error),
    /// A status below 100.
    #[error("{0} is not a status")]
    Status(u16),
    /// More than 400 KiB.
    #[error("the head is too long")]
    HeadTooLong,
    /// More than 64 interim answers and blank lines.
    #[error("too many interim responses")]
    TooManyInterim,
    /// 101: no request offers another protocol.
    #[error("the target switched protocols (101), which no request offered")]
    Upgrade,
    /// `Content-Length` that is no number, or several different ones.
    #[error("the content length cannot be read")]
    Length,
    /// `Content-Length` beside `Transfer-Encoding`.
    #[error("both a content length and a transfer encoding")]
    BothLengths,
    /// `Transfer-Encoding` that does not end in a single `chunked`, or any in an HTTP/1.0 response.
    #[error("the transfer encoding is not chunked")]
    TransferEncoding,
    /// A chunk size that is not a hexadecimal number and the end of its line.
    #[error("the chunk size is not hexadecimal")]
    ChunkSize,
    /// A chunk size of more than 16 digits.
    #[error("the chunk size has more than 16 digits")]
    LongChunkSize,
    /// Chunk extensions of more than 16 KiB, or with a control character.
    #[error("the chunk extensions are too long or have a control character")]
    ChunkExtensions,
    /// A chunk, or the line of its size, without CRLF at its end.
    #[error("a chunk or its size does not end in CRLF")]
    ChunkEnd,
    /// Far more framing than content.
    #[error("more framing than content")]
    Padding,
    /// A trailer section that cannot be read.
    #[error("the trailers cannot be read")]
    Trailers,
}

/// True if an incomplete section is to be parsed: it is new, or another of its lines has ended. A
/// section has few lines, so bytes that arrive one by one do not cause a parse each.
pub(super) fn may_be_complete(section: &[u8], seen: &mut usize) -> bool {
    let from = std::mem::replace(seen, section.len());
    from == 0 || section.get(from..).is_none_or(|new| new.contains(&b'\n'))
}
