//! A tunnel: bytes in both directions, as they come, until both ends have ended or one breaks.
//!
//! It must not look at the bytes.

use crate::ledger::LedgerWriter;
use crate::server::wire::Wire;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_util::io::{InspectReader, InspectWriter};

/// From here on the bytes are the tunnel's (RFC 9110, 9.3.6).
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// An open tunnel, its far end connected. Dropped, it is closed.
#[derive(Debug)]
pub(in crate::server) struct Tunnel {
    far: TcpStream,
    books: Rc<LedgerWriter>,
}

impl Tunnel {
    pub(super) fn new(upstream: TcpStream, books: &Rc<LedgerWriter>) -> Self {
        Self {
            far: upstream,
            books: Rc::clone(books),
        }
    }

    /// Tell the client over HTTP/1 that the tunnel is open, and carry until its end. A reset goes
    /// through.
    pub(in crate::server) async fn carry_over(self, mut wire: Wire) {
        let carried = async {
            wire.write_all(ESTABLISHED).await?;
            wire.flush().await?;
            self.carry(&mut wire).await
        };
        if carried
            .await
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        {
            wire.reset();
        }
    }

    /// Carry until both directions have ended. The traffic is counted as it happens: a tunnel may
    /// be open for hours.
    pub(super) async fn carry(
        self,
        near: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let counters = self.books.proxy();
        let far = InspectReader::new(self.far, |bytes| {
            counters.bytes_down.add(bytes.len() as u64);
        });
        let mut far = InspectWriter::new(far, |bytes| counters.bytes_up.add(bytes.len() as u64));
        copy_bidirectional(near, &mut far).await.map(drop)
    }
}
