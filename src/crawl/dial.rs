//! Opening of a crawl's connections: over TCP, or, where a test wants the whole of a crawl in virtual time, in memory.
//!
//! Named by the crawl's type, so the hot path does not know that there is a choice. It must not know what the bytes mean.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, bind, setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

/// Byte stream of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Debug + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Debug + Unpin + 'static> Stream for S {}

/// From where to where a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The address of the target.
    pub to: SocketAddr,
    /// An address of this machine, of the same family; none leaves it to the kernel.
    pub from: Option<IpAddr>,
}

/// Opens connections.
pub trait Dial: Debug + 'static {
    /// Stream of an opened connection.
    type Stream: Stream;

    /// Opens a connection. Errors are told apart as those of a socket; dropping the future gives up.
    fn dial(&self, route: Route) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// Connections over TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    type Stream = TcpStream;

    async fn dial(&self, route: Route) -> io::Result<TcpStream> {
        let stream = match route.from {
            None => TcpStream::connect(route.to).await?,
            Some(from) => {
                let socket = if route.to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
                go_from(&socket, from)?;
                socket.connect(route.to).await?
            }
        };
        // A small request must not wait for the answer to the one before it.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Makes a socket go out from `from`, or fails: it never goes out from elsewhere.
///
/// The port is chosen when connecting (`IP_BIND_ADDRESS_NO_PORT`): chosen here, it would be taken from all targets at once.
/// An IPv6 prefix that is routed to this machine need not be on any interface (`IP_FREEBIND`); IPv4 does not need to be
/// told.
///
/// # Errors
/// Above all `AddrNotAvailable`: the address is none of this machine.
pub(crate) fn go_from<S: AsRawFd + std::os::fd::AsFd>(socket: &S, from: IpAddr) -> Result<(), Errno> {
    setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    if from.is_ipv6() {
        setsockopt(socket, sockopt::IpFreebind, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))
}
