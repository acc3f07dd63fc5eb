//! Opening of a connection within its time: the byte stream, and the greeting of HTTP/2 where that
//! is spoken.

use std::cell::Cell;
use std::io;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{ErrorKind, Opening};
use crawlmark_harness::workload::Flight;

use super::CrawlSpec;
use super::dial::{Dial, Route, Stream};
use super::failure::failure_of;
use super::http2::{self, Greeted};

/// Name of HTTP/1.1 in reports.
const HTTP_1: &str = "HTTP/1.1";

/// An open connection.
#[derive(Debug)]
pub(super) struct Opened<S> {
    pub(super) spoken: Spoken<S>,
    /// When the byte stream was open.
    pub(super) at: Nanos,
}

/// Protocol of a connection.
#[derive(Debug)]
pub(super) enum Spoken<S> {
    Http1(S),
    Http2(Greeted),
}

/// Open a connection.
pub(super) async fn open<S, D>(
    (dial, flight): (&D, &Flight),
    route: Route<'_>,
    (spec, clock): (&CrawlSpec, Clock),
) -> Result<Opened<S>, ErrorKind>
where
    S: Stream,
    D: Dial<Stream = S>,
{
    let timeout = spec.connect_timeout;
    let (dialled, has_settings) = (Cell::new(Nanos::default()), Cell::new(false));
    let opened = async {
        let stream = dial.dial(route, flight).await?;
        dialled.set(clock.now());
        let scheme = spec.targets.hosts()[route.host].scheme();
        if spec.http.version.is_2(scheme, stream.alpn())? {
            flight.greeting(http2::NAME, dialled.get());
            return http2::greet(stream, (spec, clock), &has_settings)
                .await
                .map(Spoken::Http2);
        }
        flight.greeting(HTTP_1, dialled.get());
        Ok(Spoken::Http1(stream))
    };
    let timed_out = |_| {
        let proxy = route.hop.map(|hop| &*hop.name);
        let details = match (flight.phase(), proxy) {
            (Some(Opening::Protocol(_)), _) if has_settings.get() => {
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
    };
    let opened = tokio::time::timeout(timeout, opened)
        .await
        .map_err(timed_out)?;
    let spoken = opened.map_err(|error| connect_error(&error, flight))?;
    Ok(Opened {
        spoken,
        at: dialled.get(),
    })
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
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => ErrorKind::TooManyFiles,
        _ => {
            flight.explain(ErrorKind::ConnectFailed, error.to_string());
            ErrorKind::ConnectFailed
        }
    }
}
