//! Classification of the failures of TLS.
//!
//! The remedy for each kind is in `results/src/show/text/causes.rs`.

use std::io;

use crawlmark_harness::sample::ErrorKind;
use rustls::{AlertDescription, CertificateError, Error};

use crate::crawl::connect::failure::Failure;

/// Classify the failure of a handshake.
pub(crate) fn of_handshake(error: &io::Error) -> Failure {
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

pub(crate) fn classify(error: &Error) -> Failure {
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
    let kind = match flaw {
        // Such as one that was created again.
        Flaw::UnknownIssuer | Flaw::BadSignature => ErrorKind::TlsUnknownIssuer,
        Flaw::Expired
        | Flaw::NotValidYet
        | Flaw::ExpiredContext { .. }
        | Flaw::NotValidYetContext { .. } => ErrorKind::TlsExpired,
        Flaw::NotValidForNameContext { .. } | Flaw::NotValidForName => ErrorKind::TlsWrongName,
        _ => ErrorKind::TlsBadCertificate,
    };
    let details = match flaw {
        Flaw::UnknownIssuer | Flaw::BadSignature => "no trusted authority signed it".to_owned(),
        // The verifier has no public type for it.
        flaw if flaw.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own certificate (CA:TRUE), and not given with --cacert".to_owned()
        }
        flaw => flaw.to_string(),
    };
    (kind, details)
}

/// Return the error of the TLS library within an error of its stream.
fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// True if the target sent the alert that it speaks none of the offered protocols.
pub(crate) fn is_no_protocol(error: &io::Error) -> bool {
    matches!(
        tls_error(error),
        Some(Error::AlertReceived(
            AlertDescription::NoApplicationProtocol
        ))
    )
}

/// Convert an error of an open TLS stream: to a [`Failure`] where the TLS library found it.
pub(crate) fn classified(error: io::Error) -> io::Error {
    match tls_error(&error) {
        Some(tls) => classify(tls).into(),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use rustls::InvalidMessage;
    use rustls::pki_types::ServerName;

    use super::*;
    use crate::crawl::connect::failure::failure_of;

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
