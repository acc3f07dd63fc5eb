//! Streams of `h3_quinn` whose memory is bounded: `h3` keeps a frame that is no content until it is
//! whole, however long that is, and never reads the streams of QPACK.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming as Refused, StreamId, WriteBuf,
};

use crate::crawl::response::fields::MOST_HEAD_BYTES;

/// Type of the control stream, and those of QPACK's encoder and decoder (RFC 9114, 6.2.1; RFC 9204, 4.2).
const CONTROL: u8 = 0;
const QPACK: [u8; 2] = [2, 3];

/// Type of a frame with content (RFC 9114, 7.2.1), which `h3` hands on as it comes.
const DATA: u64 = 0;

/// A frame that is no content, and longer than any head that is read.
#[derive(Debug, thiserror::Error)]
#[error("a frame is longer than its reader takes")]
pub(super) struct TooLong;

/// Position in the frames of a stream.
#[derive(Debug, Default)]
struct Frames {
    /// Bytes of the type and the length of a frame.
    head: Vec<u8>,
    /// Bytes up to the next frame.
    left: u64,
}

impl Frames {
    /// Pass the next bytes of the stream; false if a frame is too long.
    fn pass(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped =
                usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
            self.left -= skipped as u64;
            bytes = &bytes[skipped..];
            let Some((&next, rest)) = bytes.split_first() else {
                return true;
            };
            bytes = rest;
            self.head.push(next);
            let Some((kind, rest)) = integer(&self.head) else {
                continue;
            };
            let Some((length, _)) = integer(rest) else {
                continue;
            };
            if kind != DATA && length > MOST_HEAD_BYTES as u64 {
                return false;
            }
            self.left = length;
            self.head.clear();
        }
    }
}

/// Read an integer of QUIC (RFC 9000, 16), once it is whole; return the bytes behind it, too.
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, rest) = bytes.split_at_checked(1 << (bytes.first()? >> 6))?;
    let read = value
        .iter()
        .fold(0, |read, byte| read << 8 | u64::from(*byte));
    Some((read & (u64::MAX >> (66 - 8 * value.len())), rest))
}

/// A stream, or one half of it.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    inner: S,
    /// Bytes that were read already.
    first: Option<Bytes>,
    frames: Frames,
}

impl<S> Bounded<S> {
    fn new(inner: S) -> Self {
        let (first, frames) = (None, Frames::default());
        Self {
            inner,
            first,
            frames,
        }
    }
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for Bounded<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refused>> {
        let data = match self.first.take() {
            None => ready!(self.inner.poll_data(cx))?,
            first => first,
        };
        Poll::Ready(match &data {
            Some(bytes) if !self.frames.pass(bytes) => Err(Refused::Unknown(TooLong.into())),
            _ => Ok(data),
        })
    }

    fn stop_sending(&mut self, code: u64) {
        self.inner.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for Bounded<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), Refused> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.inner.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<S> BidiStream<Bytes> for Bounded<S>
where
    S: BidiStream<Bytes> + RecvStream<Buf = Bytes>,
    S::RecvStream: RecvStream<Buf = Bytes>,
{
    type SendStream = S::SendStream;
    type RecvStream = Bounded<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let (sending, inner) = self.inner.split();
        let (first, frames) = (self.first, self.frames);
        (
            sending,
            Bounded {
                inner,
                first,
                frames,
            },
        )
    }
}

/// A connection, or what opens its streams.
pub(super) struct Streams<O> {
    inner: O,
    /// Streams of the target whose type has not come.
    untyped: Vec<h3_quinn::RecvStream>,
    /// Streams of QPACK, whose table this client does not have: nothing in them means anything.
    unread: Vec<h3_quinn::RecvStream>,
}

impl<O> Streams<O> {
    pub(super) fn new(inner: O) -> Self {
        let (untyped, unread) = (Vec::new(), Vec::new());
        Self {
            inner,
            untyped,
            unread,
        }
    }
}

impl<O: Clone> Clone for Streams<O> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<O: OpenStreams<Bytes>> OpenStreams<Bytes> for Streams<O>
where
    O::BidiStream: RecvStream<Buf = Bytes>,
{
    type BidiStream = Bounded<O::BidiStream>;
    type SendStream = O::SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, Refused>> {
        self.inner.poll_open_bidi(cx).map_ok(Bounded::new)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::SendStream, Refused>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl Connection<Bytes> for Streams<h3_quinn::Connection> {
    type RecvStream = Bounded<h3_quinn::RecvStream>;
    type OpenStreams = Streams<h3_quinn::OpenStreams>;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        while let Poll::Ready(stream) = Connection::<Bytes>::poll_accept_recv(&mut self.inner, cx)?
        {
            self.untyped.push(stream);
        }
        let mut at = 0;
        while at < self.untyped.len() {
            let Poll::Ready(first) = self.untyped[at].poll_data(cx) else {
                at += 1;
                continue;
            };
            let inner = self.untyped.swap_remove(at);
            // Dropped, a stream of another type is refused.
            if let Ok(Some(first)) = first {
                match first.first() {
                    Some(&CONTROL) => {
                        // Behind its type there are frames.
                        let frames = Frames {
                            left: 1,
                            ..Frames::default()
                        };
                        let first = Some(first);
                        return Poll::Ready(Ok(Bounded {
                            inner,
                            first,
                            frames,
                        }));
                    }
                    Some(kind) if QPACK.contains(kind) => self.unread.push(inner),
                    _ => {}
                }
            }
        }
        self.unread.retain_mut(|stream| {
            loop {
                match stream.poll_data(cx) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(Some(_))) => {}
                    Poll::Ready(_) => return false,
                }
            }
        });
        Poll::Pending
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Connection::<Bytes>::poll_accept_bidi(&mut self.inner, cx).map_ok(Bounded::new)
    }

    fn opener(&self) -> Self::OpenStreams {
        Streams::new(Connection::<Bytes>::opener(&self.inner))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An integer, in the shortest form or a longer one.
    fn written(value: u64, form: u32) -> Vec<u8> {
        let least = [1 << 6, 1 << 14, 1 << 30]
            .iter()
            .filter(|most| value >= **most)
            .count();
        let form = form.max(u32::try_from(least).unwrap());
        let bytes = (value | u64::from(form) << ((8 << form) - 2)).to_be_bytes();
        bytes[8 - (1 << form)..].to_vec()
    }

    proptest! {
        #[test]
        fn a_frame_that_is_kept_is_no_longer_than_a_head(
            frames in prop::collection::vec((0..20_u64, 0..4_u32, 0..4_u32, 0..40_u64), 0..20), parts in 1..30_usize,
            beyond in prop::option::of((1..20_u64, MOST_HEAD_BYTES as u64 + 1..1 << 62)),
        ) {
            let mut bytes = Vec::new();
            for (kind, form, length_form, length) in frames {
                bytes.extend([written(kind, form), written(length, length_form), vec![9; usize::try_from(length).unwrap()]].concat());
            }
            if let Some((kind, length)) = beyond {
                bytes.extend([written(kind, 0), written(length, 0)].concat());
            }
            let mut frames = Frames::default();
            let passes = bytes.chunks(parts).all(|part| frames.pass(part));
            prop_assert_eq!(passes, beyond.is_none());
            prop_assert!(frames.head.len() <= 16);
        }
    }
}
