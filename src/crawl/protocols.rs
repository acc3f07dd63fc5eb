//! The table of the protocols, and the opening of their connections.
//!
//! A protocol is a folder with a carrier, which implements [`Carry`], and a row of `carriers!`; its
//! connections are opened here. What keeps and lends carriers (`carrier`), and what sends requests
//! (`attempt`), use none of them by name.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{Attempt, ClosedConnection, ErrorKind, Opening, TcpReading};
use crawlmark_harness::workload::Flight;

use super::carry::{Carry, End, Terms, Wanted, Written};
use super::connect::{
    dial::{Dial, Route},
    failure::{Failure, failure_of},
    stream::Stream,
    tcp_info::TcpReadings,
};
#[cfg(feature = "http3")]
use super::http3;
use super::requests::host::{ALPN_2, HTTP_1, HTTP_2, HttpVersion, Scheme};
use super::requests::{shape::RequestShape, targets::Targets};
use super::response::exchange::{ExchangeFailure, Traffic, Watch};
use super::response::expect::Expected;
use super::spec::CrawlSpec;
use super::{http1, http2};

/// An open connection.
pub(crate) struct Opened<S: Stream> {
    /// When its byte stream was open.
    pub(crate) at: Nanos,
    pub(crate) tcp: TcpReadings,
    /// Makes its carriers, one at least.
    pub(crate) carriers: MakeCarriers<S>,
}

type MakeCarriers<S> = Box<dyn FnOnce(Terms) -> Vec<Carrier<S>>>;

/// Declares the carriers and the makers of their requests. Boxed, for each carrier goes in and out of
/// the pool with every request.
macro_rules! carriers {
    ($($(#[cfg($when:meta)])? $field:ident, $name:ident($carry:ty), $requests:ty;)+) => {
        /// Carrier of one request at a time.
        #[derive(Debug)]
        pub(crate) enum Carrier<S: Stream> {
            $($(#[cfg($when)])? $name(Box<$carry>),)+
        }

        /// Makers of requests, by protocol.
        #[derive(Debug)]
        pub(crate) struct Requests {
            $($(#[cfg($when)])? $field: $requests,)+
        }

        impl Requests {
            pub(crate) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
                Self {
                    $($(#[cfg($when)])? $field: <$requests>::new(shape, targets),)+
                }
            }
        }

        impl<S: Stream> Carry for Carrier<S> {
            type Requests = Requests;

            #[inline]
            fn write<'a>(
                &mut self,
                requests: &'a Requests,
                wanted: &Wanted<'_>,
                flight: &Flight,
            ) -> Written<'a> {
                match self {
                    $($(#[cfg($when)])? Self::$name(it) => it.write(&requests.$field, wanted, flight),)+
                }
            }

            #[inline]
            async fn exchange(
                &mut self,
                written: &Written<'_>,
                expected: &mut Expected,
                watch: &Watch<'_>,
                attempt: &mut Attempt,
            ) -> Result<(), ExchangeFailure> {
                match self {
                    $($(#[cfg($when)])? Self::$name(it) => it.exchange(written, expected, watch, attempt).await,)+
                }
            }

            #[inline]
            fn traffic(&self) -> &Traffic {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.traffic(),)+ }
            }

            fn read_tcp(&mut self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.read_tcp(sent, now),)+ }
            }

            fn source(&self) -> Option<(u32, bool)> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.source(),)+ }
            }

            #[inline]
            fn is_reusable(&self, flight: &Flight) -> bool {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.is_reusable(flight),)+ }
            }

            #[inline]
            fn unusable(&mut self, flight: &Flight) -> Option<ErrorKind> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.unusable(flight),)+ }
            }

            fn recheck(&mut self) {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.recheck(),)+ }
            }

            fn closed(&self, end: End) -> Option<ClosedConnection> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.closed(end),)+ }
            }

            #[inline]
            fn closes_at(&self) -> Option<Nanos> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.closes_at(),)+ }
            }

            fn idle_since(&self) -> Option<Nanos> {
                match self { $($(#[cfg($when)])? Self::$name(it) => it.idle_since(),)+ }
            }
        }
    };
}

carriers! {
    http1, Http1(http1::Connection<S>), http1::request::Writer;
    http2, Http2(http2::StreamSlot), http2::Requests;
    #[cfg(feature = "http3")]
    http3, Http3(http3::StreamSlot), http3::Requests;
}

/// Open a connection within its time: the byte stream, and the greeting of a protocol that has one.
pub(crate) async fn open<D: Dial>(
    dial: &D,
    spec: &CrawlSpec,
    clock: Clock,
    route: Route<'_>,
    flight: &Flight,
) -> Result<Opened<D::Stream>, ErrorKind> {
    let has_settings = Cell::new(false);
    let opened = async {
        let streams = spec.http.streams;
        #[cfg(feature = "http3")]
        if spec.http.version == HttpVersion::Http3 {
            let (at, greeted) = http3::open(spec, clock, route, flight).await?;
            let tcp = TcpReadings::default();
            let carriers: MakeCarriers<D::Stream> =
                Box::new(move |terms| boxed(Carrier::Http3, greeted.slots(streams, terms)));
            return Ok(Opened { at, tcp, carriers });
        }
        let stream = dial.dial(route, flight).await?;
        let (at, tcp) = (clock.now(), TcpReadings::begin(stream.socket()));
        let scheme = spec.targets.hosts()[route.host].scheme;
        let carriers: MakeCarriers<D::Stream> =
            if speaks_2(spec.http.version, scheme, stream.alpn())? {
                flight.greeting(HTTP_2, at);
                let greeted = http2::greet(stream, streams, clock, &has_settings).await?;
                if greeted.streams < streams {
                    flight.allowed(greeted.streams);
                }
                Box::new(move |terms| boxed(Carrier::Http2, greeted.slots(terms)))
            } else {
                flight.greeting(HTTP_1, at);
                Box::new(move |terms| {
                    let connection = http1::Connection::new(stream, terms);
                    vec![Carrier::Http1(Box::new(connection))]
                })
            };
        Ok(Opened { at, tcp, carriers })
    };
    match tokio::time::timeout(spec.connect_timeout, opened).await {
        Err(_) => Err(timed_out(spec, route, flight, has_settings.get())),
        Ok(opened) => opened.map_err(|error| connect_error(&error, flight)),
    }
}

/// Return carriers of one protocol as those of any.
fn boxed<S: Stream, C>(
    carrier: impl Fn(Box<C>) -> Carrier<S>,
    all: impl Iterator<Item = C>,
) -> Vec<Carrier<S>> {
    all.map(|one| carrier(Box::new(one))).collect()
}

/// Return true if HTTP/2 is spoken on a connection to a host of this scheme whose TLS handshake
/// chose `alpn`.
///
/// # Errors
/// When it has to be, and the target does not.
fn speaks_2(version: HttpVersion, scheme: Scheme, alpn: Option<&[u8]>) -> Result<bool, Failure> {
    let is_chosen = alpn == Some(ALPN_2);
    match (version, scheme) {
        (HttpVersion::Http2, Scheme::Https) if !is_chosen => Err(Failure::new(
            ErrorKind::Http2NotOffered,
            "the target did not choose h2 in the TLS handshake",
        )),
        (HttpVersion::Http2, _) => Ok(true),
        (HttpVersion::Auto, _) => Ok(is_chosen),
        (HttpVersion::Http1 | HttpVersion::Http3, _) => Ok(false),
    }
}

/// Explain which step of opening a connection took too long.
fn timed_out(spec: &CrawlSpec, route: Route<'_>, flight: &Flight, has_settings: bool) -> ErrorKind {
    let timeout = spec.connect_timeout;
    let proxy = route.hop.map(|hop| &*hop.name);
    let details = match (flight.phase(), proxy) {
        _ if spec.http.version == HttpVersion::Http3 => {
            "no answer from the target's UDP port".to_owned()
        }
        (Some(Opening::Protocol(_)), _) if has_settings => {
            "the target's settings allowed no stream (MAX_CONCURRENT_STREAMS 0)".to_owned()
        }
        (Some(Opening::Protocol(_)), _) => {
            "the connection was open, and no settings of HTTP/2 came".to_owned()
        }
        (Some(Opening::Tls(_)), _) => {
            "the connection was open, and its TLS handshake not answered".to_owned()
        }
        (Some(Opening::Tunnel(_)), Some(proxy)) => {
            format!("{proxy} was connected, and opened no tunnel")
        }
        (_, Some(proxy)) => format!("{proxy} accepted no connection"),
        (_, None) => return ErrorKind::ConnectTimeout,
    };
    flight.explain(
        ErrorKind::ConnectTimeout,
        format!("{details} within {timeout:?}"),
    );
    ErrorKind::ConnectTimeout
}

fn connect_error(error: &io::Error, flight: &Flight) -> ErrorKind {
    // Linux's numbers for "too many open files", here and in the system; the standard library has
    // no names for them.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    if let Some(failure) = failure_of(error) {
        flight.explain(failure.kind, failure.details.clone());
        return failure.kind;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorKind::ConnectRefused,
        io::ErrorKind::TimedOut => ErrorKind::ConnectTimeout,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => ErrorKind::AddressUnavailable,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown => ErrorKind::Unreachable,
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => ErrorKind::TooManyFiles,
        _ => {
            flight.explain(ErrorKind::ConnectFailed, error.to_string());
            ErrorKind::ConnectFailed
        }
    }
}
