//! A tunnel: bytes in both directions, as they come, until both ends have ended or one breaks.
//!
//! It must not look at the bytes.

use crate::ledger::Books;
use crate::server::wire::Wire;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::net::TcpStream;

/// From here on the bytes are the tunnel's (RFC 9110, 9.3.6).
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// An open tunnel, its far end connected. Dropped, it is closed.
#[derive(Debug)]
pub(in crate::server) struct Tunnel {
    far: Counted,
}

impl Tunnel {
    pub(super) fn new(upstream: TcpStream, books: &Rc<Books>) -> Self {
        Self { far: Counted { stream: upstream, books: Rc::clone(books) } }
    }

    /// Tells the client over HTTP/1 that the tunnel is open, and carries until its end. A reset goes through.
    pub(in crate::server) async fn carry_over(self, mut wire: Wire) {
        let carried = async {
            wire.write_all(ESTABLISHED).await?;
            wire.flush().await?;
            self.carry(&mut wire).await
        };
        if carried.await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
            wire.reset();
        }
    }

    /// Carries until both directions have ended.
    pub(super) async fn carry(mut self, near: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        copy_bidirectional(near, &mut self.far).await.map(drop)
    }
}

/// The far end, whose traffic is counted as it happens: a tunnel may be open for hours.
#[derive(Debug)]
struct Counted {
    stream: TcpStream,
    books: Rc<Books>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        self.books.proxy().bytes_down.add((buf.filled().len() - before) as u64);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.books.proxy().bytes_up.add(*written.as_ref().unwrap_or(&0) as u64);
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
