//! Byte stream of a connection: plain, with TLS, or in memory for tests. The hot path.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crawlmark_harness::sample::ErrorKind;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;
use super::receive_stamps::{ReceiveStamps, StampSpace};
use super::tls::failure::classified;

/// Byte stream of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Debug + Unpin + 'static {
    /// False if a read now would find nothing, not even the end. A cheap first check; true is no
    /// promise.
    fn may_be_readable(&self) -> bool {
        true
    }

    /// The socket below it; none of a stream in memory.
    fn socket(&self) -> Option<RawFd> {
        None
    }

    /// Protocol that the TLS handshake chose (ALPN, RFC 7301); none without one.
    fn alpn(&self) -> Option<&[u8]> {
        None
    }

    /// Read, and return how long the last of the bytes lay unread in the kernel, ns; none unless
    /// the read `is_stamped` and that is known.
    fn poll_read_stamped(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut ReadBuf<'_>,
        is_stamped: bool,
    ) -> Poll<io::Result<Option<u64>>> {
        let _ = is_stamped;
        Pin::new(self).poll_read(cx, part).map_ok(|()| None)
    }
}

/// Streams in memory, for tests.
impl Stream for DuplexStream {}

/// First bytes of a TLS alert, which a server sends to a client that does not speak TLS: record
/// type and major version (RFC 8446, 5.1).
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
    stamp_space: StampSpace,
    acks_at_once: bool,
    is_read: bool,
    /// True if the last read took all that there was, so that the next one is likely to wait.
    is_drained: bool,
}

impl Plain {
    /// Have the kernel acknowledge at once what arrives, if it is to. It forgets that after a few
    /// segments.
    fn acknowledge(&self) -> io::Result<()> {
        if self.acks_at_once {
            self.stream.set_quickack(true)?;
        }
        Ok(())
    }

    /// Read, as [`Stream::poll_read_stamped`] does. The runtime is asked if there is something only
    /// where there hardly is, and makes no system call then.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut ReadBuf<'_>,
        is_stamped: bool,
    ) -> Poll<io::Result<Option<u64>>> {
        let (before, mut unread_ns) = (part.filled().len(), None);
        self.acknowledge()?;
        while part.filled().len() == before {
            if std::mem::take(&mut self.is_drained) {
                ready!(self.stream.poll_read_ready(cx))?;
            }
            let read = self.stream.try_io(Interest::READABLE, || {
                if is_stamped {
                    unread_ns = self.stamp_space.receive(&self.stream, part)?;
                } else {
                    let socket = self.stream.as_raw_fd();
                    let bytes = recv(socket, part.initialize_unfilled(), MsgFlags::empty())?;
                    part.advance(bytes);
                }
                // As the runtime does: less than there is room for was all, so that the next read
                // waits without a system call.
                if part.filled().len() == before || part.remaining() == 0 {
                    Ok(())
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });
            match read {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_drained = true,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if !std::mem::replace(&mut self.is_read, true)
            && part.filled()[before..].starts_with(&ALERT)
        {
            let details = "the target answered plain HTTP with a TLS alert";
            return Poll::Ready(Err(Failure::new(ErrorKind::TlsRequired, details).into()));
        }
        Poll::Ready(Ok(unread_ns))
    }
}

impl Wire {
    pub(crate) fn plain(stream: TcpStream, stamps: ReceiveStamps, acks_at_once: bool) -> Self {
        Self::Plain(Plain {
            stamp_space: StampSpace::of(&stream, stamps),
            stream,
            acks_at_once,
            is_read: false,
            is_drained: true,
        })
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

    fn socket(&self) -> Option<RawFd> {
        let stream = match self {
            Self::Plain(plain) => &plain.stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        Some(stream.as_raw_fd())
    }

    fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        }
    }

    fn poll_read_stamped(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        is_stamped: bool,
    ) -> Poll<io::Result<Option<u64>>> {
        match self {
            Self::Plain(plain) => plain.poll_read(cx, buf, is_stamped),
            Self::Tls(stream) => {
                let polled = Pin::new(stream).poll_read(cx, buf);
                polled.map_ok(|()| None).map_err(classified)
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut()
            .poll_read_stamped(cx, buf, false)
            .map_ok(|_| ())
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            // A request hardly ever has to wait: it needs neither a waker nor the runtime's notes.
            Self::Plain(plain) => {
                match send(plain.stream.as_raw_fd(), buf, MsgFlags::MSG_NOSIGNAL) {
                    Err(Errno::EAGAIN) => Pin::new(&mut plain.stream).poll_write(cx, buf),
                    written => Poll::Ready(written.map_err(io::Error::from)),
                }
            }
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
            Self::Tls(stream) => Pin::new(stream)
                .poll_write_vectored(cx, bufs)
                .map_err(classified),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
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
