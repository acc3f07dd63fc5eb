//! How a crawl's connections come to be: over TCP, or, where a test wants the whole of a crawl in virtual time, in memory.
//!
//! Named by the crawl's type, so the hot path does not know that there is a choice. It must not know what the bytes mean.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What a connection sends and receives by.
pub trait Stream: AsyncRead + AsyncWrite + Debug + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Debug + Unpin + 'static> Stream for S {}

/// Opens connections.
pub trait Dial: Debug + 'static {
    /// What is opened.
    type Stream: Stream;

    /// Opens a connection to `address`. Errors are told apart as those of a socket; dropping the future gives up.
    fn dial(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// Connections over TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    type Stream = TcpStream;

    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        // A small request must not wait for the answer to the one before it.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
