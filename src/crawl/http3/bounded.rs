//! Streams of `h3_quinn` whose memory is bounded. `h3` keeps a frame that is no content until it is
//! whole, however long that is, takes more from a stream for each frame that it reads, however short,
//! and never reads the streams of QPACK. So it gets one frame at a time, and no long one.

use std::mem;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
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

/// Take the next frame from `bytes`, or as much content as has come; none if that is not yet enough.
/// Frames of no content are left out: `h3` takes one for the end of the response. `left` are the
/// bytes up to the next frame.
fn next_frame(bytes: &mut Bytes, left: &mut u64) -> Result<Option<Bytes>, TooLong> {
    while *left == 0 {
        let Some((kind, rest)) = integer(bytes) else {
            return Ok(None);
        };
        let Some((length, rest)) = integer(rest) else {
            return Ok(None);
        };
        if kind != DATA && length > MOST_HEAD_BYTES as u64 {
            return Err(TooLong);
        }
        if kind != DATA && length > rest.len() as u64 {
            return Ok(None);
        }
        let head = bytes.len() - rest.len();
        if (kind, length) == (DATA, 0) {
            bytes.advance(head);
        } else {
            *left = head as u64 + length;
        }
    }
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= taken as u64;
    Ok((taken > 0).then(|| bytes.split_to(taken)))
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
    /// Bytes that were read and not handed on.
    read: Bytes,
    /// Bytes up to the next frame.
    left: u64,
}

impl<S> Bounded<S> {
    fn new(inner: S) -> Self {
        Self {
            inner,
            read: Bytes::new(),
            left: 0,
        }
    }
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for Bounded<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refused>> {
        loop {
            match next_frame(&mut self.read, &mut self.left) {
                Ok(Some(frame)) => return Poll::Ready(Ok(Some(frame))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(Refused::Unknown(error.into()))),
            }
            let Some(bytes) = ready!(self.inner.poll_data(cx))? else {
                // A part of a frame, if any: `h3` tells that its rest is missing.
                let part = mem::take(&mut self.read);
                return Poll::Ready(Ok(Some(part).filter(|part| !part.is_empty())));
            };
            // A part of a frame is copied, lest each byte of it keeps the datagram that it came in.
            self.read = match mem::take(&mut self.read) {
                part if part.is_empty() => bytes,
                part => {
                    let mut part = BytesMut::from(part);
                    part.extend_from_slice(&bytes);
                    part.freeze()
                }
            };
        }
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
        let receiving = Bounded {
            inner,
            read: self.read,
            left: self.left,
        };
        (sending, receiving)
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
        while let Some(stream) = self.untyped.get_mut(at) {
            let Poll::Ready(first) = stream.poll_data(cx) else {
                at += 1;
                continue;
            };
            let inner = self.untyped.swap_remove(at);
            // Dropped, a stream of another type is refused.
            let Ok(Some(read)) = first else { continue };
            match read.first() {
                // Behind its type there are frames.
                Some(&CONTROL) => {
                    return Poll::Ready(Ok(Bounded {
                        inner,
                        read,
                        left: 1,
                    }));
                }
                Some(kind) if QPACK.contains(kind) => self.unread.push(inner),
                _ => {}
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
        fn frames_are_handed_on_one_by_one_without_empty_content(
            frames in prop::collection::vec((0..4_u64, 0..4_u32, 0..4_u32, 0..40_u64), 0..20), parts in 1..30_usize,
            beyond in prop::option::of((1..20_u64, MOST_HEAD_BYTES as u64 + 1..1 << 62)),
        ) {
            let (mut sent, mut wanted) = (Vec::new(), Vec::new());
            for (kind, form, length_form, length) in frames {
                let frame = [written(kind, form), written(length, length_form), vec![9; usize::try_from(length).unwrap()]].concat();
                sent.extend_from_slice(&frame);
                if (kind, length) != (DATA, 0) {
                    wanted.push((kind, frame));
                }
            }
            if let Some((kind, length)) = beyond {
                sent.extend([written(kind, 0), written(length, 0)].concat());
            }
            let (mut left, mut read, mut refused) = (0, Vec::new(), false);
            let mut wanted = wanted.into_iter();
            let mut content = Vec::new();
            for part in sent.chunks(parts) {
                read.extend_from_slice(part);
                let mut bytes = Bytes::from(read);
                while !refused {
                    let Ok(next) = next_frame(&mut bytes, &mut left) else {
                        refused = true;
                        break;
                    };
                    let Some(piece) = next else { break };
                    content.extend_from_slice(&piece);
                    if left == 0 {
                        let (kind, frame) = wanted.next().unwrap();
                        prop_assert_eq!(&content, &frame);
                        prop_assert!(kind == DATA || piece.len() == frame.len());
                        content.clear();
                    }
                }
                read = bytes.to_vec();
            }
            prop_assert_eq!(refused, beyond.is_some());
            prop_assert_eq!((wanted.next(), content.len()), (None, 0));
        }
    }
}
