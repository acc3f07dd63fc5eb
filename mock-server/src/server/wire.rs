//! The bytes of one connection, however they are carried. `connection` lends it to the HTTP library, and has it back
//! when a fault needs the bare socket.
//!
//! It must not look at the bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection's byte stream.
#[derive(Debug)]
pub(super) enum Wire {
    /// As they are.
    Plain(TcpStream),
}

impl Wire {
    /// Makes the end of this connection a reset: whoever reads it is told so, and what was not sent yet is lost.
    pub(super) fn reset(self) {
        // A socket that lingers for no time is reset when it is closed (SO_LINGER, socket(7)). Where that cannot be
        // set, the connection is closed in order.
        drop(SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO)));
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
