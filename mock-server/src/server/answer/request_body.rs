//! Bodies of requests, read as a whole for stubs and admin routes. `answer` and `play` ask for
//! them.
//!
//! It must not decide who needs a body.

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};
use std::io;

const TOO_LARGE: &[u8] = br#"{"error":"a body of more than 16 MiB is not read"}"#;
const BROKEN_BODY: &[u8] = br#"{"error":"the body is not what its headers announce"}"#;

/// No stub, and no admin route, needs more of a body.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Read the whole body of a request.
pub(super) async fn read_body(incoming: Incoming) -> Result<Bytes, Unread> {
    if incoming.is_end_stream() {
        return Ok(Bytes::new());
    }
    match Box::pin(Limited::new(incoming, MAX_BODY_BYTES).collect()).await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(Unread::of(&*error)),
    }
}

/// Reason why the body of a request could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// Larger than is read.
    TooLarge,
    /// Not what its headers announce.
    Malformed,
    /// The client left before its end.
    Left,
}

impl Unread {
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        if error.is::<LengthLimitError>() {
            return Self::TooLarge;
        }
        let has_left = |error: &hyper::Error| {
            error.is_incomplete_message() || error.is_closed() || error.is_canceled()
        };
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
                    return Self::Malformed;
                }
                Some(_) => return Self::Left,
                None if error.downcast_ref().is_some_and(has_left) => return Self::Left,
                None => cause = error.source(),
            }
        }
        Self::Malformed
    }

    /// Return the answer to its client, if that is still there.
    pub(super) fn answer(self) -> Response<Bytes> {
        let (status, body) = match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE),
            Self::Malformed | Self::Left => (StatusCode::BAD_REQUEST, BROKEN_BODY),
        };
        super::json(status, HeaderMap::new(), Bytes::from_static(body))
    }
}
