//! Byte stream of a connection, plain or with TLS. The hot path.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crawlmark_harness::sample::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::failure::classified;
use crate::crawl::dial::Stream;
use crate::crawl::failure::Failure;

/// First bytes of a TLS alert, which a server sends to a client that does not speak TLS: record type and major version (RFC 8446,
/// 5.1).
const ALERT: [u8; 2] = [21, 3];

/// Byte stream of a connection. Written bytes may stay in it until it is flushed.
#[derive(Debug)]
pub enum Wire {
    /// Without TLS.
    Plain(Plain),
    /// With TLS. Boxed: it has kilobytes of state, which plain connections do not need.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream without TLS, whose first bytes are checked for a TLS alert.
#[derive(Debug)]
pub struct Plain {
    stream: TcpStream,
    is_read: bool,
}

impl Wire {
    pub(in crate::crawl) const fn plain(stream: TcpStream) -> Self {
        Self::Plain(Plain { stream, is_read: false })
    }
}

impl Stream for Wire {
    fn may_be_readable(&self) -> bool {
        match self {
            // No system call: the runtime's notes of the socket.
            Self::Plain(plain) => plain.stream.try_io(Interest::READABLE, || Ok(())).is_ok(),
            // The session may have more than the socket.
            Self::Tls(_) => true,
        }
    }

    fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => {
                let before = buf.filled().len();
                ready!(Pin::new(&mut plain.stream).poll_read(cx, buf))?;
                if !plain.is_read && buf.filled()[before..].starts_with(&ALERT) {
                    let details = "the target answered plain HTTP with a TLS alert";
                    return Poll::Ready(Err(Failure::new(ErrorKind::TlsRequired, details).into()));
                }
                plain.is_read = true;
                Poll::Ready(Ok(()))
            }
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf).map_err(classified),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            // A request hardly ever has to wait, and so needs no waker.
            Self::Plain(plain) => match plain.stream.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Pin::new(&mut plain.stream).poll_write(cx, buf)
                }
                written => Poll::Ready(written),
            },
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf).map_err(classified),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs).map_err(classified),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx).map_err(classified),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx).map_err(classified),
        }
    }
}
