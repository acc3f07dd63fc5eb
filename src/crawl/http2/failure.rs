//! Failures of HTTP/2 by [`ErrorKind`], with details for people. The remedy for each kind is in
//! `results/src/show/text/causes.rs`.

use std::io;

use crawlmark_harness::sample::ErrorKind;

use crate::crawl::connect::failure::{Failure, failure_of};

/// Most times that a request goes again after GOAWAY. Each connection of a host may close while the
/// request is on its way to it.
const MOST_AFTER_GOAWAY: u32 = 16;

/// Most times that a request goes again after its stream was refused: a target that goes on
/// refusing is to be left alone.
const MOST_AFTER_REFUSAL: u32 = 2;

/// Names of error codes (RFC 9113, 7).
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    REFUSED_STREAM,
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// The code of a request that the target did not begin.
const REFUSED_STREAM: &str = "REFUSED_STREAM";

/// Return how often a request may go again after errors of this kind.
pub(crate) const fn most_resends(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::Http2GoAway => MOST_AFTER_GOAWAY,
        ErrorKind::Http2Refused | ErrorKind::Http3Refused => MOST_AFTER_REFUSAL,
        _ => 0,
    }
}

fn name(code: u32) -> &'static str {
    CODES.get(code as usize).copied().unwrap_or("unknown")
}

/// Failure of a stream that the target reset.
pub(super) fn of_reset(code: u32) -> Failure {
    let name = name(code);
    if name == REFUSED_STREAM {
        let details = "the target refused the stream (REFUSED_STREAM)";
        return Failure::new(ErrorKind::Http2Refused, details);
    }
    let details = format!("the target reset the stream with code {code} ({name})");
    Failure::new(ErrorKind::Http2Reset, &details)
}

/// Failure of a stream that the target had not begun when it sent GOAWAY.
pub(super) fn of_goaway(code: u32) -> Failure {
    let details = format!("the target sent GOAWAY with code {code} ({})", name(code));
    Failure::new(ErrorKind::Http2GoAway, &details)
}

/// Failure of a request that may not begin any more.
pub(super) fn of_late() -> Failure {
    Failure::new(
        ErrorKind::Http2GoAway,
        "the connection takes no more requests",
    )
}

/// Failure of the byte stream; the details are empty where the kind says it all.
pub(super) fn of_io(error: &io::Error) -> Failure {
    if let Some(failure) = failure_of(error) {
        return failure.clone();
    }
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            Failure::new(ErrorKind::Reset, "")
        }
        // The last is how TLS reports an end without `close_notify`.
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => of_end(),
        _ => Failure::new(ErrorKind::Io, &error.to_string()),
    }
}

/// Failure of a connection that the target closed.
pub(super) fn of_end() -> Failure {
    Failure::new(ErrorKind::Closed, "")
}

/// Failure of a connection that failed before the target's settings.
pub(super) fn of_greeting(failure: Failure) -> Failure {
    match failure.kind {
        ErrorKind::Closed | ErrorKind::Reset => Failure::new(
            ErrorKind::Http2Protocol,
            "the target closed the connection before its HTTP/2 settings",
        ),
        _ => failure,
    }
}
