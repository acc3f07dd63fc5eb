//! Connections to destinations, each from the source address of its session.
//!
//! It must not choose either address.

use super::failure::GatewayFailure;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: SocketAddr,
    /// None lets the kernel choose.
    pub(super) from: Option<IpAddr>,
}

/// Connects along the first of `routes` that works. There is at least one.
pub(super) async fn connect_first(routes: &[Route]) -> Result<(Route, TcpStream), GatewayFailure> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for route in routes {
        match connect(route).await {
            Ok(stream) => return Ok((*route, stream)),
            Err(error) => failed = error,
        }
    }
    Err(GatewayFailure::Unreachable(failed))
}

/// Connect along the first that works, whichever it is.
pub(super) async fn connect_any(routes: &[Route]) -> Result<TcpStream, GatewayFailure> {
    connect_first(routes).await.map(|(_, stream)| stream)
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
