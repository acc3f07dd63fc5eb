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

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::{Flight, Handshake};
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
pub(crate) use self::request::Requests;
use self::socket::Socket;
use super::carry::Terms;
use super::connect::{
    dial::{End, Route, race},
    failure::Failure,
    tls::{self, NotedFlaw},
};
use super::requests::host::HTTP_3;
use super::response::fields::MOST_HEAD_BYTES;
use super::spec::CrawlSpec;
use super::streams::{self, slots};

/// A stream of a connection: carries one request at a time.
pub(crate) type StreamSlot = streams::StreamSlot<Connected>;

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

/// Open a connection, and return when it was open. What there is to its opening is the handshake,
/// which is that of TLS.
///
/// # Errors
/// When the target does not speak HTTP/3, or not in time.
pub(crate) async fn open(
    spec: &CrawlSpec,
    clock: Clock,
    route: Route<'_>,
    flight: &Flight,
) -> io::Result<(Nanos, Greeted)> {
    let Some(tls) = &spec.tls else {
        return Err(Failure::new(ErrorKind::TlsRequired, "HTTP/3 is spoken over TLS alone").into());
    };
    let name = spec.targets.hosts()[route.host].name();
    let began = clock.now();
    flight.shaking_hands(began);
    let connected = connect(route, name, tls.quic(), clock).await?;
    let at = clock.now();
    flight.shook_hands(Handshake {
        ns: at.since(began),
        is_resumed: false,
        version: "TLSv1.3",
        cipher: "unknown",
    });
    flight.greeting(HTTP_3, at);
    Ok((at, greet(connected).await?))
}

/// Open a connection to the first end that answers, of which `name` is to be the certificate.
///
/// # Errors
/// That of the first end that fails, when all do.
async fn connect(
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
async fn greet(connected: Connected) -> io::Result<Greeted> {
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
    fn failure(&self, error: &StreamError) -> Failure {
        failure::of_stream(error, self.end())
    }

    /// Return the reason why it has ended, if it has.
    fn end(&self) -> Option<Failure> {
        let reason = self.quic.close_reason()?;
        let socket = self.socket.error();
        Some(failure::of_connection(&reason, None, socket))
    }
}

impl Greeted {
    /// Return a slot for each of so many streams.
    pub(crate) fn slots(self, streams: u32, terms: Terms) -> impl Iterator<Item = StreamSlot> {
        let sender = self.sender;
        let streams = (0..streams).map(move |_| exchange::Stream::new(sender.clone()));
        slots(self.connected, self.driver, Rc::default(), terms, streams)
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
