//! Errors of HTTP/2 by [`ErrorKind`], with details for people. The remedy for each kind is in
//! `results/src/run/report/causes.rs`.

use std::io;

use crawlmark_harness::sample::ErrorKind;
use h2::Reason;

use super::meter::Meter;
use crate::crawl::connect::failure::Failure;

/// Most times that a request goes again after GOAWAY. Each connection of a host may close while the
/// request is on its way to it.
const MOST_AFTER_GOAWAY: u32 = 16;

/// Most times that a request goes again after its stream was refused: a target that goes on
/// refusing is to be left alone.
const MOST_AFTER_REFUSAL: u32 = 2;

/// Return how often a request may go again after errors of this kind.
pub(crate) const fn most_resends(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::Http2GoAway => MOST_AFTER_GOAWAY,
        ErrorKind::Http2Refused => MOST_AFTER_REFUSAL,
        _ => 0,
    }
}

/// Classify an error; the details are empty where the kind says it all.
pub(crate) fn classify(error: &h2::Error, meter: &Meter) -> Failure {
    if let Some(failure) = meter.failure() {
        return failure;
    }
    let reason = error.reason().unwrap_or(Reason::NO_ERROR);
    let (code, reason) = (u32::from(reason), reason.description());
    if let Some(error) = error.get_io() {
        return match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                Failure::new(ErrorKind::Reset, "")
            }
            // How the library reports the end of a connection, and TLS one without `close_notify`.
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                Failure::new(ErrorKind::Closed, "")
            }
            _ => Failure::new(ErrorKind::Io, &error.to_string()),
        };
    }
    match (error.is_remote(), error.is_go_away(), error.reason()) {
        (true, true, _) => Failure::new(
            ErrorKind::Http2GoAway,
            &format!("the target sent GOAWAY with code {code} ({reason})"),
        ),
        (true, false, Some(Reason::REFUSED_STREAM)) => Failure::new(
            ErrorKind::Http2Refused,
            "the target refused the stream (REFUSED_STREAM)",
        ),
        (true, false, _) => Failure::new(
            ErrorKind::Http2Reset,
            &format!("the target reset the stream with code {code} ({reason})"),
        ),
        (false, ..) => Failure::new(ErrorKind::Http2Protocol, &error.to_string()),
    }
}

/// Classify an error before the target's settings.
pub(crate) fn of_greeting(error: &h2::Error, meter: &Meter) -> Failure {
    let failure = classify(error, meter);
    match failure.kind {
        ErrorKind::Closed | ErrorKind::Reset => of_silence(),
        _ => failure,
    }
}

/// Failure of a connection that ended before the target's settings.
pub(crate) fn of_silence() -> Failure {
    Failure::new(
        ErrorKind::Http2Protocol,
        "the target closed the connection before its HTTP/2 settings",
    )
}
