//! Byte stream of a connection: plain, with TLS, or in memory for tests. The hot path.

use std::cell::RefCell;
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

/// Number of bytes that arrived, 0 at the end; and how long the last of them lay unread in the
/// kernel, ns, if that is known.
pub(crate) type Arrived = (usize, Option<u64>);

/// Byte stream of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Debug + Unpin + 'static {
    /// False if a read now would find nothing, not even the end. A cheap first check; true is no
    /// promise.
    fn may_be_readable(&self) -> bool {
        true
    }

    /// Wait until a read may find something, as far as that is known without one.
    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// The socket below it; none of a stream in memory.
    fn socket(&self) -> Option<RawFd> {
        None
    }

    /// Protocol that the TLS handshake chose (ALPN, RFC 7301); none without one.
    fn alpn(&self) -> Option<&[u8]> {
        None
    }

    /// Read into `part`, and return what arrived; how long it lay unread only if the read
    /// `is_stamped`.
    fn poll_read_stamped(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut [u8],
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        let _ = is_stamped;
        read_into(self, cx, part)
    }

    /// Discard at most `most` bytes that arrived, without reading them. Return their number, 0 at
    /// the end, and what [`poll_read_stamped`](Self::poll_read_stamped) does; none of a stream whose
    /// bytes have to be read for that.
    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        is_stamped: bool,
    ) -> Option<Poll<io::Result<Arrived>>> {
        let _ = (cx, most, is_stamped);
        None
    }
}

/// Read into `part`.
fn read_into<S: AsyncRead + Unpin + ?Sized>(
    stream: &mut S,
    cx: &mut Context<'_>,
    part: &mut [u8],
) -> Poll<io::Result<Arrived>> {
    let mut part = ReadBuf::new(part);
    let polled = Pin::new(stream).poll_read(cx, &mut part);
    polled.map_ok(|()| (part.filled().len(), None))
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
    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        if self.acks_at_once {
            self.stream.set_quickack(true)?;
        }
        Ok(())
    }

    /// Wait until there may be something to receive. The runtime is asked only where there hardly
    /// is, and makes no system call then.
    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.is_drained) {
            return Poll::Ready(Ok(()));
        }
        self.acknowledge()?;
        self.stream.poll_read_ready(cx)
    }

    /// Receive with these flags. Return the number of bytes, and how long the last of them lay
    /// unread, as [`Stream::poll_read_stamped`] does.
    #[inline]
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut [u8],
        flags: MsgFlags,
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        self.acknowledge()?;
        loop {
            ready!(self.poll_readable(cx))?;
            let (mut received, stream) = (None, &self.stream);
            let tried = stream.try_io(Interest::READABLE, || {
                let (bytes, unread_ns) = if is_stamped {
                    self.stamp_space.receive(stream, part, flags)?
                } else {
                    (recv(stream.as_raw_fd(), part, flags)?, None)
                };
                received = Some((bytes, unread_ns));
                // As the runtime does: less than there is room for was all, so that the next read
                // waits without a system call.
                if bytes == 0 || bytes == part.len() {
                    Ok(())
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });
            self.is_drained = tried.is_err();
            if let Some(received) = received {
                return Poll::Ready(Ok(received));
            }
            match tried {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                tried => tried?,
            }
        }
    }

    /// Read, as [`Stream::poll_read_stamped`] does.
    #[inline(always)]
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut [u8],
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        let arrived = ready!(self.poll_receive(cx, part, MsgFlags::empty(), is_stamped))?;
        if !std::mem::replace(&mut self.is_read, true) && part[..arrived.0].starts_with(&ALERT) {
            let details = "the target answered plain HTTP with a TLS alert";
            return Poll::Ready(Err(Failure::new(ErrorKind::TlsRequired, details).into()));
        }
        Poll::Ready(Ok(arrived))
    }
}

/// Most bytes that are discarded at once: more than a socket holds as a rule.
const MOST_DISCARDED: usize = 256 << 10;

thread_local! {
    /// Where bytes would go that are discarded. The kernel leaves it as it is (`MSG_TRUNC`, tcp(7)), so
    /// that none of it takes memory; it copies the bytes of a Unix socket, which costs what reading
    /// them does.
    static NOWHERE: RefCell<Vec<u8>> = RefCell::new(vec![0; MOST_DISCARDED]);
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
    #[inline]
    fn may_be_readable(&self) -> bool {
        match self {
            // No system call: the runtime's notes of the socket.
            Self::Plain(plain) => plain.stream.try_io(Interest::READABLE, || Ok(())).is_ok(),
            // The session may have more than the socket.
            Self::Tls(_) => true,
        }
    }

    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(plain) => plain.poll_readable(cx),
            Self::Tls(_) => Poll::Ready(Ok(())),
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

    #[inline(always)]
    fn poll_read_stamped(
        &mut self,
        cx: &mut Context<'_>,
        part: &mut [u8],
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        match self {
            Self::Plain(plain) => plain.poll_read(cx, part, is_stamped),
            Self::Tls(stream) => read_into(stream, cx, part).map_err(classified),
        }
    }

    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        is_stamped: bool,
    ) -> Option<Poll<io::Result<Arrived>>> {
        let Self::Plain(plain) = self else {
            return None;
        };
        let most = usize::try_from(most).unwrap_or(MOST_DISCARDED);
        Some(NOWHERE.with_borrow_mut(|nowhere| {
            let nowhere = &mut nowhere[..most.min(MOST_DISCARDED)];
            plain.poll_receive(cx, nowhere, MsgFlags::MSG_TRUNC, is_stamped)
        }))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let part = buf.initialize_unfilled();
        let (bytes, _) = ready!(self.get_mut().poll_read_stamped(cx, part, false))?;
        buf.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    #[inline]
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

    #[inline]
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn bytes_are_discarded_up_to_those_that_are_to_be_read_and_go_nowhere() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (stamps, is_stamped) in [(ReceiveStamps::Off, false), (ReceiveStamps::All, true)] {
            let near = TcpStream::connect(listener.local_addr().unwrap());
            let mut wire = Wire::plain(near.await.unwrap(), stamps, false);
            let (mut far, _) = listener.accept().await.unwrap();
            // The kernel stamps a moment after the first socket asked for it.
            for tries in 0.. {
                far.write_all(b"x").await.unwrap();
                let polled = poll_fn(|cx| wire.poll_discard(cx, 1, is_stamped).unwrap());
                if polled.await.unwrap().1.is_some() == is_stamped {
                    break;
                }
                assert!(tries < 1_000_000, "nothing is stamped");
            }
            let all = MOST_DISCARDED + 70_000;
            let sending = tokio::spawn(async move {
                let bytes = [vec![b'x'; all], b"end".to_vec()].concat();
                far.write_all(&bytes).await.unwrap();
            });
            let mut left = all;
            while left > 0 {
                let discarded =
                    poll_fn(|cx| wire.poll_discard(cx, left as u64, is_stamped).unwrap());
                let (bytes, unread_ns) = discarded.await.unwrap();
                assert!((1..=left).contains(&bytes), "{bytes} of {left}");
                assert_eq!(unread_ns.is_some(), is_stamped);
                left -= bytes;
            }
            let mut rest = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut wire, &mut rest)
                .await
                .unwrap();
            assert_eq!(rest, b"end");
            let polled = poll_fn(|cx| wire.poll_discard(cx, 9, is_stamped).unwrap());
            assert_eq!(polled.await.unwrap().0, 0, "the end");
            sending.await.unwrap();
            NOWHERE.with_borrow(|nowhere| assert!(nowhere.iter().all(|byte| *byte == 0)));
        }
    }
}
