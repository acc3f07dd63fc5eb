//! Failures of HTTP/3 and QUIC by [`ErrorKind`], with details for people. The remedy for each kind is
//! in `results/src/show/text/causes.rs`.

use std::io;

use crawlmark_harness::sample::ErrorKind;
use h3::error::{Code, ConnectionError as Http3Error, LocalError, StreamError};
use quinn::{ConnectionError, TransportErrorCode};
use rustls::{AlertDescription, Error as TlsError};

use super::bounded::TooLong;
use crate::crawl::connect::failure::Failure;
use crate::crawl::connect::tls::failure::classify;

/// Return the alert that an error code of QUIC stands for, if it does (RFC 9001, 4.8).
fn alert(code: TransportErrorCode) -> Option<AlertDescription> {
    let alert = u64::from(code).checked_sub(0x100)?;
    u8::try_from(alert).ok().map(AlertDescription::from)
}

/// Failure of a handshake that ended with an alert, `flaw` if that is known to be the cause.
fn of_alert(alert: AlertDescription, flaw: Option<&TlsError>, details: &str) -> Failure {
    if let Some(flaw) = flaw {
        return classify(flaw);
    }
    if alert == AlertDescription::NoApplicationProtocol {
        let details = "client and target have no version of HTTP/3 in common (ALPN h3)";
        return Failure::new(ErrorKind::Http3NotOffered, details);
    }
    let Failure { kind, .. } = classify(&TlsError::AlertReceived(alert));
    Failure::new(kind, details)
}

/// Failure of a connection of QUIC. `flaw` is the reason why its certificate was refused, if it was;
/// `socket` the error of its socket, if that ended it.
pub(super) fn of_connection(
    error: &ConnectionError,
    flaw: Option<&TlsError>,
    socket: Option<io::ErrorKind>,
) -> Failure {
    if let Some(socket) = socket {
        let details = format!("the target's UDP port cannot be reached any more ({socket})");
        return Failure::new(ErrorKind::Reset, &details);
    }
    match error {
        ConnectionError::VersionMismatch => Failure::new(
            ErrorKind::Http3NotOffered,
            "client and target have no version of QUIC in common",
        ),
        ConnectionError::TransportError(error) => match alert(error.code) {
            Some(alert) => of_alert(alert, flaw, &error.reason),
            None => Failure::new(
                ErrorKind::Http3Protocol,
                &format!("the target breaks QUIC: {error}"),
            ),
        },
        ConnectionError::ConnectionClosed(close) => {
            match (close.error_code, alert(close.error_code)) {
                (_, Some(alert)) => {
                    let name = alert.as_str().unwrap_or("unknown");
                    of_alert(alert, None, &format!("the target sent the alert {name}"))
                }
                (TransportErrorCode::CONNECTION_REFUSED, _) => Failure::new(
                    ErrorKind::ConnectRefused,
                    "the target refused the connection (CONNECTION_REFUSED)",
                ),
                (TransportErrorCode::NO_ERROR, _) => Failure::new(ErrorKind::Closed, ""),
                _ => Failure::new(
                    ErrorKind::Closed,
                    &format!("the target ended the connection of QUIC: {close}"),
                ),
            }
        }
        ConnectionError::ApplicationClosed(close) => {
            match Code::from(close.error_code.into_inner()) {
                Code::H3_NO_ERROR => Failure::new(ErrorKind::Closed, ""),
                code => Failure::new(
                    ErrorKind::Closed,
                    &format!("the target closed the connection with code {code}"),
                ),
            }
        }
        ConnectionError::Reset => Failure::new(
            ErrorKind::Reset,
            "the target does not know the connection any more (stateless reset)",
        ),
        ConnectionError::TimedOut => Failure::new(
            ErrorKind::Closed,
            "nothing came from the target until the idle timeout of QUIC",
        ),
        ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => {
            Failure::new(ErrorKind::Io, &error.to_string())
        }
    }
}

/// Failure of a request, on a connection that ended for the reason `end` if it did.
pub(super) fn of_stream(error: &StreamError, end: Option<Failure>) -> Failure {
    match error {
        StreamError::RemoteTerminate { code, .. } if *code == Code::H3_REQUEST_REJECTED => {
            let details = "the target refused the request (H3_REQUEST_REJECTED)";
            Failure::new(ErrorKind::Http3Refused, details)
        }
        StreamError::RemoteTerminate { code, .. } => Failure::new(
            ErrorKind::Http3Reset,
            &format!("the target reset the stream with code {code}"),
        ),
        StreamError::RemoteClosing { .. } => Failure::new(
            ErrorKind::Http3Refused,
            "the connection takes no more requests (GOAWAY)",
        ),
        StreamError::StreamError { reason, .. } => Failure::new(ErrorKind::Http3Protocol, reason),
        StreamError::HeaderTooBig { .. } => Failure::new(
            ErrorKind::Http3Protocol,
            "a head is longer than its reader takes",
        ),
        StreamError::Undefined { 0: error, .. } if error.is::<TooLong>() => {
            Failure::new(ErrorKind::Http3Protocol, &error.to_string())
        }
        StreamError::ConnectionError { 0: error, .. } => of_http3(error, end),
        error => end.unwrap_or_else(|| Failure::new(ErrorKind::Io, &error.to_string())),
    }
}

/// Failure of a connection of HTTP/3, whose connection of QUIC ended for the reason `end` if it did.
pub(super) fn of_http3(error: &Http3Error, end: Option<Failure>) -> Failure {
    match error {
        // This client's, of what the target sent.
        Http3Error::Local {
            error: LocalError::Application { code, reason, .. },
            ..
        } if *code != Code::H3_NO_ERROR => Failure::new(ErrorKind::Http3Protocol, reason),
        error => end.unwrap_or_else(|| Failure::new(ErrorKind::Io, &error.to_string())),
    }
}
