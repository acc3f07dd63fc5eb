//! HTTP/3 (RFC 9114) over QUIC (RFC 9000): many requests at once on one connection, each on a stream
//! of its own, as with HTTP/2.
//!
//! `quinn` speaks QUIC and `h3` frames and header fields; here is what a crawl needs of them. Each
//! connection has a UDP socket of its own, so that it has source address and port as a connection of
//! TCP has, and a target of several processes gets connections rather than shards. Nothing is sent
//! before the handshake is complete (0-RTT), and a connection stays on its path.
//!
//! | file | for |
//! |---|---|
//! | `socket` | the UDP socket of a connection |
//! | `bounded` | its streams, with bounded frames |
//! | `exchange` | a request and its response on a stream |
//! | `request`, `failure` | what is sent; what goes wrong |

mod bounded;
mod exchange;
mod failure;
mod request;
mod socket;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use crawlmark_harness::clock::Clock;
use crawlmark_harness::sample::ClosedBy;
use crawlmark_harness::workload::Flight;
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig,
};
use quinn::{Connection as Quic, VarInt};
use tokio::select;
use tokio::task::{JoinHandle, spawn_local};

use self::bounded::Streams;
pub(crate) use self::exchange::StreamSlot;
pub(crate) use self::request::Output;
use self::socket::Socket;
use super::connect::{
    dial::{End, Route, race},
    failure::Failure,
    pool::{Lease, Left},
    tls::{self, NotedFlaw},
};
use super::response::fields::MOST_HEAD_BYTES;
use super::streams::Use;

/// Content that a target may send on a stream before this client has read it: that of HTTP/2.
const STREAM_WINDOW: u32 = 2 << 20;

/// The same on all streams of a connection.
const WINDOW: u32 = 64 << 20;

/// Streams that a target may open: control, and two of QPACK, twice over for those of extensions.
const TARGET_STREAMS: u32 = 6;

/// Code of a connection that ends without an error (RFC 9114, 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// A connection whose handshake is complete. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Connected {
    quic: Quic,
    socket: Arc<Socket>,
}

/// Open a connection to the first end that answers, of which `name` is to be the certificate.
///
/// # Errors
/// That of the first end that fails, when all do.
pub(crate) async fn connect(
    route: Route<'_>,
    name: &str,
    tls: &tls::Quic,
    clock: Clock,
) -> io::Result<Connected> {
    match route.ends {
        [end] => connect_to(*end, name.to_owned(), tls.clone(), clock).await,
        ends => {
            let (number, connected) = race(ends, |end| {
                connect_to(end, name.to_owned(), tls.clone(), clock)
            })
            .await?;
            route.answered.set(Some(number));
            Ok(connected)
        }
    }
}

async fn connect_to(end: End, name: String, tls: tls::Quic, clock: Clock) -> io::Result<Connected> {
    let socket = Socket::open(end, clock)?;
    let flaw = NotedFlaw::default();
    let crypto = QuicClientConfig::try_from(tls.config(&flaw)).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport()));
    let shared: Arc<dyn AsyncUdpSocket> = Arc::<Socket>::clone(&socket);
    let (own, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    let endpoint = Endpoint::new_with_abstract_socket(own, None, shared, runtime)?;
    let connecting = endpoint.connect_with(config, end.to, &name);
    let connecting = connecting.map_err(io::Error::other)?;
    let quic = select! {
        opened = connecting => {
            opened.map_err(|error| {
                socket.end();
                failure::of_connection(&error, flaw.get(), None)
            })?
        }
        error = socket.failed() => return Err(error.into()),
    };
    Ok(Connected { quic, socket })
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(TARGET_STREAMS))
        // How long a connection may be idle is up to the target, as with TCP.
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .datagram_receive_buffer_size(None);
    transport
}

/// A connection that speaks HTTP/3.
pub(crate) struct Greeted {
    connected: Connected,
    sender: SendRequest<Streams<OpenStreams>, Bytes>,
    driver: JoinHandle<()>,
}

/// Greet the target. Requests need not wait for its settings, which limit none of them.
pub(crate) async fn greet(connected: Connected) -> io::Result<Greeted> {
    let mut builder = h3::client::builder();
    builder
        .max_field_section_size(MOST_HEAD_BYTES as u64)
        .send_grease(false);
    let carried = Streams::new(h3_quinn::Connection::new(connected.quic.clone()));
    let built = builder.build(carried).await;
    let (mut connection, sender) =
        built.map_err(|error| failure::of_http3(&error, connected.end()))?;
    let (quic, socket) = (connected.quic.clone(), Arc::clone(&connected.socket));
    let driver = spawn_local(async move {
        select! {
            _ = poll_fn(|cx| connection.poll_close(cx)) => {}
            _ = socket.failed() => quic.close(NO_ERROR, b""),
        }
    });
    Ok(Greeted {
        connected,
        sender,
        driver,
    })
}

impl Connected {
    /// Return the reason why it has ended, if it has.
    fn end(&self) -> Option<Failure> {
        let reason = self.quic.close_reason()?;
        let socket = self.socket.error();
        Some(failure::of_connection(&reason, None, socket))
    }
}

impl Greeted {
    /// Return a slot for each of so many streams: the first one, and the others.
    pub(crate) fn slots(
        self,
        streams: u32,
        left: Left,
        lease: Lease,
    ) -> (StreamSlot, impl Iterator<Item = StreamSlot>) {
        let Self {
            connected,
            sender,
            driver,
        } = self;
        let shared = Rc::new(Shared {
            connected,
            driver,
            used: Use::new(left, lease, Rc::default()),
            taken: Cell::default(),
        });
        let first = StreamSlot::new(Rc::clone(&shared), sender.clone());
        let others = (1..streams).map(move |_| StreamSlot::new(Rc::clone(&shared), sender.clone()));
        (first, others)
    }
}

/// State that the streams of a connection share. Dropped with the last of them, the connection is
/// closed.
#[derive(Debug)]
struct Shared {
    connected: Connected,
    driver: JoinHandle<()>,
    used: Use,
    /// Bytes sent and received that belong to a request.
    taken: Cell<[u64; 2]>,
}

impl Shared {
    /// True if another request may begin on it; notes its end.
    fn is_usable(&self, flight: &Flight) -> bool {
        if self.connected.quic.close_reason().is_some() {
            self.used.retire(ClosedBy::Target, flight);
        }
        !self.used.is_closing()
    }

    /// Take the bytes that passed and belong to no request yet.
    fn take_passed(&self) -> [u64; 2] {
        let [sent, received] = self.connected.socket.passed();
        let [sent_before, received_before] = self.taken.replace([sent, received]);
        [sent - sent_before, received - received_before]
    }

    /// Return the failure of a request.
    fn failure(&self, error: &StreamError) -> Failure {
        failure::of_stream(error, self.connected.end())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        match self.quic.close_reason() {
            Some(_) => self.socket.end(),
            None => self.socket.end_after_next(),
        }
        self.quic.close(NO_ERROR, b"");
    }
}

impl std::fmt::Debug for Greeted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Greeted").finish_non_exhaustive()
    }
}

/// Code of a request that is given up (RFC 9114, 8.1).
const CANCELLED: Code = Code::H3_REQUEST_CANCELLED;
