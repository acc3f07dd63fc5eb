//! Classification of the failures of TLS.
//!
//! The remedy for each kind is in `results/src/run/report/causes.rs`.

use std::io;
use std::time::Duration;

use crawlmark_harness::sample::ErrorKind;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error};

use crate::crawl::exchange::Failure;

/// Most names of a certificate that are listed.
const MOST_NAMES: usize = 4;

/// Classify the failure of a handshake.
pub(super) fn of_handshake(error: &io::Error) -> Failure {
    match (tls_error(error), error.kind()) {
        (Some(error), _) => classify(error),
        (None, io::ErrorKind::UnexpectedEof) => Failure::new(
            ErrorKind::TlsClosed,
            "the target closed the connection during the handshake",
        ),
        (None, _) => Failure::new(
            ErrorKind::TlsClosed,
            &format!("the connection ended during the handshake: {error}"),
        ),
    }
}

fn classify(error: &Error) -> Failure {
    let (kind, details) = match error {
        Error::InvalidCertificate(flaw) => of_certificate(flaw),
        Error::AlertReceived(alert) => (
            match alert {
                AlertDescription::HandshakeFailure
                | AlertDescription::ProtocolVersion
                | AlertDescription::InsufficientSecurity => ErrorKind::TlsIncompatible,
                _ => ErrorKind::TlsAlert,
            },
            format!(
                "the target sent the alert {}",
                alert.as_str().unwrap_or("unknown")
            ),
        ),
        Error::PeerIncompatible(_) => (ErrorKind::TlsIncompatible, error.to_string()),
        Error::InvalidMessage(_) => (ErrorKind::TlsNotSpoken, error.to_string()),
        error => (
            ErrorKind::TlsNotSpoken,
            format!("the target breaks the protocol: {error}"),
        ),
    };
    Failure::new(kind, &details)
}

fn of_certificate(flaw: &CertificateError) -> (ErrorKind, String) {
    use CertificateError as Flaw;
    match flaw {
        Flaw::UnknownIssuer => (
            ErrorKind::TlsUnknownIssuer,
            "no trusted authority issued it".to_owned(),
        ),
        // Such as one that was created again.
        Flaw::BadSignature => (
            ErrorKind::TlsUnknownIssuer,
            "a trusted authority has the name of its issuer and did not sign it".to_owned(),
        ),
        Flaw::Expired | Flaw::NotValidYet => (ErrorKind::TlsExpired, flaw.to_string()),
        Flaw::ExpiredContext { time, not_after } => (
            ErrorKind::TlsExpired,
            format!("it expired {} ago", span(*not_after, *time)),
        ),
        Flaw::NotValidYetContext { time, not_before } => (
            ErrorKind::TlsExpired,
            format!("it is valid in {}", span(*time, *not_before)),
        ),
        Flaw::NotValidForNameContext {
            expected,
            presented,
        } => (ErrorKind::TlsWrongName, other_names(expected, presented)),
        Flaw::NotValidForName => (ErrorKind::TlsWrongName, flaw.to_string()),
        // The verifier has no public type for it.
        flaw if flaw.to_string().contains("CaUsedAsEndEntity") => (
            ErrorKind::TlsBadCertificate,
            "it is an authority's own certificate (CA:TRUE), and not given with --cacert"
                .to_owned(),
        ),
        flaw => (ErrorKind::TlsBadCertificate, flaw.to_string()),
    }
}

/// Describe a certificate that names other hosts than the one of the URL.
fn other_names(expected: &ServerName<'_>, presented: &[String]) -> String {
    let host = expected.to_str();
    if presented.is_empty() {
        let kind = if matches!(expected, ServerName::IpAddress(_)) {
            "IP"
        } else {
            "DNS"
        };
        return format!(
            "it has no name: openssl req -x509 -addext subjectAltName={kind}:{host} adds one"
        );
    }
    let names: Vec<&str> = presented
        .iter()
        .take(MOST_NAMES)
        .map(|name| name_of(name))
        .collect();
    let more = match presented.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the URL names {host}, the certificate {}{more}",
        names.join(", ")
    )
}

/// Return a name without its type, as rustls lists it: `DnsName("a.example")`,
/// `IpAddress(127.0.0.1)`.
fn name_of(listed: &str) -> &str {
    let inner = listed
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(listed);
    inner.trim_matches('"')
}

/// Return the time between two instants, in whole days if it is longer than one.
fn span(from: UnixTime, to: UnixTime) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let whole = if seconds > DAY {
        seconds - seconds % DAY
    } else {
        seconds
    };
    humantime::format_duration(Duration::from_secs(whole)).to_string()
}

/// Return the error of the TLS library within an error of its stream.
fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// True if the target sent the alert that it speaks none of the offered protocols.
pub(super) fn is_no_protocol(error: &io::Error) -> bool {
    matches!(
        tls_error(error),
        Some(Error::AlertReceived(
            AlertDescription::NoApplicationProtocol
        ))
    )
}

/// Convert an error of an open TLS stream: to a [`Failure`] where the TLS library found it.
pub(in crate::crawl) fn classified(error: io::Error) -> io::Error {
    match tls_error(&error) {
        Some(tls) => classify(tls).into(),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use rustls::InvalidMessage;

    use super::*;
    use crate::crawl::exchange::failure_of;

    #[test]
    fn failures_are_told_apart() {
        let certificate = |flaw| Error::InvalidCertificate(flaw);
        let expected = ServerName::try_from("b.example").unwrap();
        let wrong_name = CertificateError::NotValidForNameContext {
            expected,
            presented: Vec::new(),
        };
        for (error, kind) in [
            (
                certificate(CertificateError::UnknownIssuer),
                ErrorKind::TlsUnknownIssuer,
            ),
            (certificate(wrong_name), ErrorKind::TlsWrongName),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                ErrorKind::TlsIncompatible,
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                ErrorKind::TlsAlert,
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                ErrorKind::TlsNotSpoken,
            ),
        ] {
            let failure = of_handshake(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(failure.kind, kind, "{failure}");
            let error = failure.into();
            assert_eq!(
                failure_of(&error).map(|failure| failure.kind),
                Some(kind),
                "it survives the layers above"
            );
        }
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
            assert_eq!(of_handshake(&kind.into()).kind, ErrorKind::TlsClosed);
            assert_eq!(failure_of(&kind.into()), None);
        }
    }
}
