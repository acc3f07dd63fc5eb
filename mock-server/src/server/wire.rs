//! The byte stream of one connection, plain or with TLS, at its bandwidth. `connection` makes it and lends it
//! to the HTTP library, and takes it back when a fault needs the bare stream.
//!
//! It must not interpret the bytes, except to recognise the preface of HTTP/2.

use crate::connections::{Bandwidth, Lane};
use crate::timer::Timer;
use bytes::{Buf, Bytes};
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// First bytes of a client that speaks HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes read at once to find out: most requests' whole heads, so that they need no second read.
const FIRST_READ: usize = 1024;

/// A connection's byte stream.
pub(super) struct Wire {
    carrier: Carrier,
    /// Bytes that were read already and are to be read again, before anything else.
    unread: Bytes,
}

/// Bytes as they are, or encrypted. The latter is boxed: it has kilobytes of state, and most
/// targets carry plain bytes.
type Carrier = Either<Line, Box<TlsStream<Line>>>;

impl Wire {
    /// Bytes as they are.
    pub(super) fn plain(line: Line) -> Self {
        Self {
            carrier: Carrier::Left(line),
            unread: Bytes::new(),
        }
    }

    /// Bytes within TLS, once the handshake is done.
    pub(super) fn tls(stream: TlsStream<Line>) -> Self {
        Self {
            carrier: Carrier::Right(Box::new(stream)),
            unread: Bytes::new(),
        }
    }

    /// True if the client begins as HTTP/2 does. It reads as little as it takes to tell, which is
    /// one byte where that is not a `P`, and takes nothing away. An end or an error says no: the
    /// next reader meets it again.
    pub(super) async fn begins_http2(&mut self) -> bool {
        poll_fn(|cx| self.poll_begins_http2(cx)).await
    }

    fn poll_begins_http2(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let common = self.unread.len().min(PREFACE.len());
            if self.unread[..common] != PREFACE[..common] {
                return Poll::Ready(false);
            }
            if common == PREFACE.len() {
                return Poll::Ready(true);
            }
            let mut bytes = [0; FIRST_READ];
            let mut buf = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.carrier).poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.unread = [&self.unread, buf.filled()].concat().into();
                }
                Poll::Ready(_) => return Poll::Ready(false),
            }
        }
    }

    /// Makes the end of this connection a reset: its reader is told so, and what was not sent yet
    /// is lost.
    pub(super) fn reset(self) {
        // A socket that lingers for no time is reset when it is closed (SO_LINGER, socket(7)).
        // Where that cannot be set, the connection is closed in order.
        drop(SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO)));
    }

    fn tcp(&self) -> &TcpStream {
        match &self.carrier {
            Carrier::Left(line) => &line.stream,
            Carrier::Right(stream) => &stream.get_ref().0.stream,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.unread.is_empty() {
            return Pin::new(&mut wire.carrier).poll_read(cx, buf);
        }
        let length = wire.unread.len().min(buf.remaining());
        buf.put_slice(&wire.unread[..length]);
        wire.unread.advance(length);
        if wire.unread.is_empty() {
            // Its memory is free from here on, however long the connection goes on.
            wire.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().carrier).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().carrier).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().carrier).poll_shutdown(cx)
    }
}

/// A socket, with a bandwidth if it has one.
pub(super) struct Line {
    stream: TcpStream,
    pace: Option<Box<Pace>>,
}

/// Both directions of a connection with a bandwidth.
struct Pace {
    sending: PacedLane,
    receiving: PacedLane,
    /// Room of a piece that is received.
    room: Vec<u8>,
}

/// One direction.
struct PacedLane {
    timer: Rc<Timer>,
    bandwidth: Bandwidth,
    lane: Lane,
    waiting: Option<Pin<Box<dyn Future<Output = u64>>>>,
    /// Bytes that are under way or, without a wait, have arrived.
    bytes: usize,
}

impl Line {
    pub(super) fn new(stream: TcpStream, bandwidth: Option<Bandwidth>, timer: &Rc<Timer>) -> Self {
        let pace = bandwidth.map(|bandwidth| {
            let [sending, receiving] = [(); 2].map(|()| PacedLane::new(bandwidth, timer));
            let room = vec![0; bandwidth.piece()];
            Box::new(Pace {
                sending,
                receiving,
                room,
            })
        });
        Self { stream, pace }
    }
}

impl PacedLane {
    fn new(bandwidth: Bandwidth, timer: &Rc<Timer>) -> Self {
        Self {
            timer: Rc::clone(timer),
            bandwidth,
            lane: Lane::default(),
            waiting: None,
            bytes: 0,
        }
    }

    /// Put the first piece of the bytes that are there under way.
    fn begin(&mut self, there: usize) {
        let now_ns = self.timer.now_ns();
        let due_ns = self.lane.due_ns(self.bandwidth, now_ns, there);
        let timer = Rc::clone(&self.timer);
        self.waiting = Some(Box::pin(async move { timer.until(due_ns).await }));
        self.bytes = there.min(self.bandwidth.piece());
    }

    /// Wait until the bytes that are under way have arrived.
    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, pace } = self.get_mut();
        let Some(pace) = pace else {
            return Pin::new(stream).poll_read(cx, buf);
        };
        let (lane, room) = (&mut pace.receiving, &mut pace.room);
        if lane.bytes == 0 {
            let most = room.len().min(buf.remaining());
            let mut read = ReadBuf::new(&mut room[..most]);
            ready!(Pin::new(stream).poll_read(cx, &mut read))?;
            match read.filled().len() {
                0 => return Poll::Ready(Ok(())),
                bytes => lane.begin(bytes),
            }
        }
        ready!(lane.poll_arrived(cx));
        let bytes = lane.bytes.min(buf.remaining());
        buf.put_slice(&room[..bytes]);
        room.copy_within(bytes..lane.bytes, 0);
        lane.bytes -= bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, pace } = self.get_mut();
        let Some(pace) = pace else {
            return Pin::new(stream).poll_write(cx, buf);
        };
        let lane = &mut pace.sending;
        if lane.bytes == 0 {
            lane.begin(buf.len());
        }
        ready!(lane.poll_arrived(cx));
        let bytes = lane.bytes.min(buf.len());
        let written = ready!(Pin::new(stream).poll_write(cx, &buf[..bytes]))?;
        lane.bytes -= written;
        Poll::Ready(Ok(written))
    }

    // TLS writes an alert together with what comes before it, and tries only once.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.pace.is_none() {
            return Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts);
        }
        let first = parts.iter().find(|part| !part.is_empty());
        self.poll_write(cx, first.map_or(&[], |part| part))
    }

    fn is_write_vectored(&self) -> bool {
        self.pace.is_none()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
