//! Connections to destinations, each from the source address of its session: opened, kept idle for
//! the next request of the same session, or turned into a tunnel.
//!
//! It must not choose an address, nor look at the bytes of a tunnel.

use super::GatewayFailure;
use crate::ledger::LedgerWriter;
use crate::server::body::Carried;
use crate::server::wire::Wire;
use hyper::client::conn::http1::SendRequest;
use nix::sys::socket::{setsockopt, sockopt};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::io::{InspectReader, InspectWriter};

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: SocketAddr,
    /// None lets the kernel choose.
    pub(super) from: Option<IpAddr>,
}

/// Connects along the first of `routes` that works. There is at least one.
pub(super) async fn connect_any(routes: &[Route]) -> Result<(Route, TcpStream), GatewayFailure> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for route in routes {
        match connect(route).await {
            Ok(stream) => return Ok((*route, stream)),
            Err(error) => failed = error,
        }
    }
    Err(GatewayFailure::Unreachable(failed))
}

async fn connect(route: &Route) -> io::Result<TcpStream> {
    let socket = if route.to.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    if let Some(from) = route.from {
        // The port is chosen when connecting: chosen when binding, it would be taken from all
        // destinations at once.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        if from.is_ipv6() {
            // A prefix that is routed to this machine need not be on any interface; IPv4 does not
            // need to be told.
            setsockopt(&socket, sockopt::IpFreebind, &true)?;
        }
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(route.to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Most connections kept, the longest unused given up first: each is a descriptor here and another
/// at its destination.
const KEPT: usize = 256;

/// The connections of one process.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: RefCell<VecDeque<(Route, SendRequest<Carried>)>>,
}

impl Pool {
    /// Takes a connection of one of `routes` that is ready for a request.
    pub(super) fn take(&self, routes: &[Route]) -> Option<(Route, SendRequest<Carried>)> {
        let mut kept = self.kept.borrow_mut();
        // The latest first: the others may come of age. One whose answer is still being read is not
        // ready.
        let position = kept
            .iter()
            .rposition(|(route, sender)| sender.is_ready() && routes.contains(route))?;
        kept.remove(position)
    }

    /// Keeps a connection whose answer has begun.
    pub(super) fn keep(&self, route: Route, sender: SendRequest<Carried>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT {
            kept.retain(|(_, sender)| !sender.is_closed());
        }
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((route, sender));
    }
}

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

    /// Tell the client that the tunnel is open, and carry until both directions have ended. A reset
    /// goes through. The traffic is counted as it happens: a tunnel may be open for hours.
    pub(in crate::server) async fn carry_over(self, mut wire: Wire) {
        let counters = self.books.proxy();
        let far = InspectReader::new(self.far, |bytes| {
            counters.bytes_down.add(bytes.len() as u64);
        });
        let mut far = InspectWriter::new(far, |bytes| counters.bytes_up.add(bytes.len() as u64));
        let carried = async {
            wire.write_all(ESTABLISHED).await?;
            wire.flush().await?;
            copy_bidirectional(&mut wire, &mut far).await
        };
        if carried
            .await
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        {
            wire.reset();
        }
    }
}
