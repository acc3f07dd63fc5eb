//! Listening sockets: one address, one socket per process, connections spread over them by the
//! kernel. The program that starts the target calls it before forking.
//!
//! It must not accept connections.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroUsize;

/// Connections that may wait to be accepted, per socket. The kernel caps it at
/// `net.core.somaxconn`, 4096 by default.
const BACKLOG: i32 = 4096;

/// Opens `processes` non-blocking listening sockets on `addr`, all on the same port; port 0 lets
/// the kernel pick one.
///
/// Hand each process its own socket and close the others there: a connection that the kernel
/// assigns to a socket which no process accepts from, but one still holds open, waits forever.
///
/// # Errors
///
/// The address cannot be bound, above all because any other server, of whichever user, listens
/// there already.
pub fn listeners(
    addr: SocketAddr,
    processes: NonZeroUsize,
) -> Result<Vec<TcpListener>, ListenError> {
    let failed = |source| ListenError { addr, source };
    let first = bind_alone(addr).map_err(failed)?;
    let shared_addr = first.local_addr().map_err(failed)?;
    let mut listeners = vec![first];
    for _ in 1..processes.get() {
        listeners.push(bind_along(shared_addr).map_err(failed)?);
    }
    Ok(listeners)
}

/// Sockets of one process.
#[derive(Debug)]
pub struct Sockets {
    /// Accepts connections.
    pub tcp: TcpListener,
    /// Receives datagrams of QUIC, if HTTP/3 is served.
    pub udp: Option<UdpSocket>,
}

impl From<TcpListener> for Sockets {
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, udp: None }
    }
}

impl Sockets {
    /// Opens [`listeners`], and beside each a socket for datagrams on the same port. Packets of one
    /// client's port all go to one of them.
    ///
    /// # Errors
    ///
    /// As [`listeners`], and if the port is taken for UDP.
    pub fn with_udp(addr: SocketAddr, processes: NonZeroUsize) -> Result<Vec<Self>, ListenError> {
        let all = listeners(addr, processes)?;
        let addr = all[0].local_addr().unwrap_or(addr);
        let mut sockets = Vec::new();
        for tcp in all {
            let udp = datagrams(addr).map_err(|source| ListenError { addr, source })?;
            sockets.push(Self {
                udp: Some(udp),
                tcp,
            });
        }
        Ok(sockets)
    }
}

fn datagrams(addr: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&addr.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The first socket must find the port free. It is therefore bound without `SO_REUSEPORT`, with
/// which it would silently join a server that another run of the same user left there and share its
/// connections, and opened to its siblings only once it owns the port: there is no moment at which
/// a stranger could slip in between a probe and the bind.
fn bind_alone(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(addr)?;
    socket.bind(&addr.into())?;
    socket.set_reuse_port(true)?;
    listen(socket)
}

fn bind_along(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(addr)?;
    socket.set_reuse_port(true)?;
    socket.bind(&addr.into())?;
    listen(socket)
}

fn open(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A target that is started again must not wait for the last one's connections to leave
    // TIME_WAIT.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Reason why no socket could be opened; it reads after "failed to".
#[derive(Debug, thiserror::Error)]
#[error("listen on {addr}: {source}{}", remedy(source))]
pub struct ListenError {
    /// The address asked for.
    pub addr: SocketAddr,
    /// Error of the kernel.
    pub source: io::Error,
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; stop the server that listens there, or give port 0 to pick a free one"
        }
        io::ErrorKind::AddrNotAvailable => "; give an address of this machine",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    const ANY_PORT: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn count(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn all_sockets_share_one_port_and_all_get_connections() {
        let listeners = listeners(ANY_PORT, count(3)).unwrap();
        assert_eq!(listeners.len(), 3);
        let addr = listeners[0].local_addr().unwrap();
        assert_ne!(addr.port(), 0);
        assert!(
            listeners
                .iter()
                .all(|listener| listener.local_addr().unwrap() == addr)
        );

        let clients: Vec<_> = (0..200)
            .map(|_| TcpStream::connect(addr).unwrap())
            .collect();
        let accepted = listeners.iter().map(|listener| {
            let mut accepted = 0;
            // Non-blocking: it ends with WouldBlock when the queue is empty.
            while listener.accept().is_ok() {
                accepted += 1;
            }
            accepted
        });
        let accepted: Vec<usize> = accepted.collect();
        assert_eq!(accepted.iter().sum::<usize>(), clients.len());
        // The kernel spreads by a hash of the addresses: an empty share of 200 has probability 3 *
        // (2/3)^200.
        assert!(accepted.iter().all(|share| *share > 0), "{accepted:?}");
    }

    #[test]
    fn an_address_in_use_is_an_error_even_if_its_owner_would_share_it() {
        let owner = listeners(ANY_PORT, count(2)).unwrap();
        let addr = owner[0].local_addr().unwrap();
        for processes in [1, 2] {
            let error = listeners(addr, count(processes)).unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
            assert!(error.to_string().contains(&addr.to_string()), "{error}");
        }
        drop(owner);
        assert_eq!(listeners(addr, count(2)).unwrap().len(), 2);
    }
}
