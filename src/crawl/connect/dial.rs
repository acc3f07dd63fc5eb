//! Opening of a crawl's connections: over TCP, through a proxy if there is one, with TLS for
//! https:// hosts; in memory for tests in virtual time.
//!
//! The crawl is generic over [`Dial`], so the hot path has no branch for it. Handshakes are timed
//! here; `Flight` passes them to the engine, which counts them. It must not know what the bytes
//! mean.

use std::cell::Cell;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::{Flight, Handshake};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, bind, setsockopt, sockopt};
use rustls::{ClientConnection, HandshakeKind, ProtocolVersion};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::failure::Failure;
use super::proxy::{Hop, Way};
use super::receive_stamps::ReceiveStamps;
use super::stream::{Stream, Wire};
use super::tls::Tls;

/// Head start of an address over the next one of its name: the Connection Attempt Delay that RFC
/// 8305, 5 recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// From where to where a connection goes.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The address of the target, or of its proxy.
    pub to: SocketAddr,
    /// An address of this machine, of the same family; none leaves it to the kernel.
    pub from: Option<IpAddr>,
}

/// Way of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// Ends, in the order in which they are tried; one at least.
    pub ends: &'a [End],
    /// Number of the end that was connected to, of several.
    pub answered: &'a Cell<Option<usize>>,
    /// Number of the host, which decides whether there is TLS, and the name to verify.
    pub host: usize,
    /// Proxy to go through.
    pub hop: Option<&'a Hop>,
}

/// Opens connections.
pub trait Dial: Debug + 'static {
    /// Stream of an opened connection.
    type Stream: Stream;

    /// Open a connection, and note its tunnel and its TLS handshake in `flight`. Errors are
    /// classified by their [`io::ErrorKind`], as a socket's; dropping the future cancels it.
    fn dial(
        &self,
        route: Route<'_>,
        flight: &Flight,
    ) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// Connections over TCP, with TLS for https:// hosts.
#[derive(Debug, Clone)]
pub struct Tcp {
    /// TLS settings; none without an https:// host.
    pub tls: Option<Tls>,
    /// Clock that times handshakes.
    pub clock: Clock,
    /// Unix socket to connect to in the place of any address.
    pub unix_socket: Option<PathBuf>,
    /// Answers whose receive time stamps are read.
    pub receive_stamps: ReceiveStamps,
    /// See [`CrawlOptions`](crate::crawl::CrawlOptions).
    pub acks_at_once: bool,
}

impl Dial for Tcp {
    type Stream = Wire;

    async fn dial(&self, route: Route<'_>, flight: &Flight) -> io::Result<Wire> {
        let stream = match route.hop {
            None => match &self.unix_socket {
                None => connect(route).await?,
                Some(path) => connect_locally(path).await?,
            },
            Some(hop) => self.connect_through(hop, route, flight).await?,
        };
        let Some((tls, name)) = self
            .tls
            .as_ref()
            .and_then(|tls| Some((tls, tls.name(route.host)?)))
        else {
            return Ok(Wire::plain(stream, self.receive_stamps, self.acks_at_once));
        };
        let began = self.clock.now();
        flight.shaking_hands(began);
        let connected = tls.connector().connect(name.clone(), stream).await;
        let stream = connected.map_err(|error| tls.failure(&error))?;
        flight.shook_hands(handshake(stream.get_ref().1, self.clock.now().since(began)));
        Ok(Wire::Tls(Box::new(stream)))
    }
}

impl Tcp {
    /// Connect to a proxy, and have it connect to the target if it is to.
    async fn connect_through(
        &self,
        hop: &Hop,
        route: Route<'_>,
        flight: &Flight,
    ) -> io::Result<TcpStream> {
        let mut stream = connect(route).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::TimedOut => Failure::new(
                ErrorKind::ProxyUnreachable,
                &format!("{}: {error}", hop.name),
            )
            .into(),
            // A lack of this machine is none of the proxy.
            _ => error,
        })?;
        if let Way::Tunnel(handshake) = &hop.way {
            let began = self.clock.now();
            flight.tunnelling(began);
            let opened = handshake.open(&mut stream).await;
            opened.map_err(|Failure { kind, details }| {
                Failure::new(kind, &format!("{}: {details}", hop.name))
            })?;
            flight.tunnelled(self.clock.now().since(began));
        }
        Ok(stream)
    }
}

/// Describe the handshake of a connection, which took `ns`.
fn handshake(connection: &ClientConnection, ns: u64) -> Handshake {
    const UNKNOWN: &str = "unknown";
    Handshake {
        ns,
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => UNKNOWN,
        },
        cipher: connection
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or(UNKNOWN),
    }
}

/// Open a connection over TCP to the first end that answers.
async fn connect(route: Route<'_>) -> io::Result<TcpStream> {
    let stream = match route.ends {
        [end] => connect_to(*end).await?,
        ends => {
            let (number, stream) = race(ends, connect_to).await?;
            route.answered.set(Some(number));
            stream
        }
    };
    // A small request must not wait for the answer to the one before it.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Open a connection to each end after the one before it failed, or did not answer in time, and
/// return the first that answers (RFC 8305, 5).
///
/// # Errors
/// That of the first end that fails, when all do.
pub(crate) async fn race<T: Send + 'static, F: Future<Output = io::Result<T>> + Send + 'static>(
    ends: &[End],
    open: impl Fn(End) -> F,
) -> io::Result<(usize, T)> {
    let mut tries = JoinSet::new();
    let mut rest = ends.iter().copied().enumerate();
    let mut first_error = None;
    loop {
        let next = rest.next();
        let has_next = next.is_some();
        if let Some((number, end)) = next {
            let opening = open(end);
            tries.spawn(async move { opening.await.map(|opened| (number, opened)) });
        }
        let wait = if has_next { HEAD_START } else { Duration::MAX };
        match tokio::time::timeout(wait, tries.join_next()).await {
            Err(_) => {}
            Ok(Some(Ok(Ok(answered)))) => return Ok(answered),
            Ok(Some(Ok(Err(error)))) => drop(first_error.get_or_insert(error)),
            Ok(Some(Err(error))) => drop(first_error.get_or_insert(error.into())),
            Ok(None) => {
                return Err(first_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
            }
        }
    }
}

/// Open a connection over TCP.
pub(crate) async fn connect_to(end: End) -> io::Result<TcpStream> {
    match end.from {
        None => TcpStream::connect(end.to).await,
        Some(from) => {
            let socket = if end.to.is_ipv4() {
                TcpSocket::new_v4()
            } else {
                TcpSocket::new_v6()
            }?;
            go_from(&socket, from)?;
            socket.connect(end.to).await
        }
    }
}

/// Open a connection to a Unix socket. What reads and writes it only sees a socket.
async fn connect_locally(path: &Path) -> io::Result<TcpStream> {
    let socket: OwnedFd = UnixStream::connect(path).await?.into_std()?.into();
    TcpStream::from_std(socket.into())
}

/// Makes a socket go out from `from`, or fails: it never goes out from elsewhere.
///
/// The port is chosen when connecting (`IP_BIND_ADDRESS_NO_PORT`): chosen here, it would be taken
/// from all targets at once. An IPv6 prefix that is routed to this machine need not be on any
/// interface (`IP_FREEBIND`); IPv4 does not need to be told.
///
/// # Errors
/// Above all `AddrNotAvailable`: the address is none of this machine.
pub(crate) fn go_from<S: AsRawFd + std::os::fd::AsFd>(
    socket: &S,
    from: IpAddr,
) -> Result<(), Errno> {
    setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    if from.is_ipv6() {
        setsockopt(socket, sockopt::IpFreebind, &true)?;
    }
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(SocketAddr::new(from, 0)),
    )
}

/// A listener whose queue is full, and its address: the kernel leaves connections to it without an
/// answer.
#[cfg(test)]
pub(crate) fn silent() -> ([OwnedFd; 2], SocketAddr) {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, connect, getsockname, listen,
        socket,
    };
    let open = |flags| {
        socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC | flags,
            None,
        )
        .unwrap()
    };
    let (listener, client) = (open(SockFlag::empty()), open(SockFlag::SOCK_NONBLOCK));
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let address: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
    let _ = connect(client.as_raw_fd(), &address);
    (
        [listener, client],
        SocketAddr::from(([127, 0, 0, 1], address.port())),
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Time limit of the race: less than connecting to a silent address takes, more than any
    /// machine needs.
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_fails_or_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Bound and not listening: the kernel refuses connections to it.
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let refused = End {
            to: bound.local_addr().unwrap(),
            from: None,
        };
        let (_listener, address) = silent();
        let silent = End {
            to: address,
            from: None,
        };
        let alive = End {
            to: listener.local_addr().unwrap(),
            from: None,
        };
        assert_eq!(race(&[alive, refused], connect_to).await.unwrap().0, 0);
        assert_eq!(race(&[refused, alive], connect_to).await.unwrap().0, 1);
        let answered =
            tokio::time::timeout(LONG, race(&[silent, silent, refused, alive], connect_to)).await;
        assert_eq!(answered.unwrap().unwrap().0, 3);
        let elsewhere = End {
            from: Some(IpAddr::from([192, 0, 2, 1])),
            ..alive
        };
        let error = race(&[refused, elsewhere], connect_to).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
