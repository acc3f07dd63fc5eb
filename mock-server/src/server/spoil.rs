//! Application of a fault: turns a good response into a faulty one, or into an abrupt end of the
//! connection. `answer` calls it for a response that a fault was drawn for, or whose stub has a
//! fault.
//!
//! An abrupt end is what no HTTP library would send: the handler of such a request ends with
//! [`Interrupted`], and `connection` then carries out the [`Act`] on the bare stream.
//!
//! It must not decide which responses are faulty, nor count them.

use super::body::AnswerBody;
use super::wire::Wire;
use crate::draw::Draws;
use crate::fault::Fault;
use crate::items::{MOVED, is_moved};
use crate::timer::Timer;
use bytes::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    TRANSFER_ENCODING,
};
use hyper::{Method, Response, StatusCode};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=UTF-8");

/// Header of a challenge page, and of nothing else.
const MITIGATED: HeaderName = HeaderName::from_static("cf-mitigated");
/// Header that fills a head.
const PADDING: HeaderName = HeaderName::from_static("x-mock-padding");

const FAULTY: &[u8] = br#"{"error":"seeded fault"}"#;
const ELSEWHERE: &[u8] = br#"{"error":"moved; see Location"}"#;
const CHALLENGE: &[u8] = b"<!DOCTYPE html>\n<html lang=\"en\">\n<head><title>Just a moment...</title>\
<meta name=\"robots\" content=\"noindex,nofollow\"></head>\n<body><h1>Checking your browser</h1>\
<p>Enable JavaScript and cookies to continue.</p><form id=\"challenge-form\" method=\"post\"></form></body>\n</html>\n";

/// Into how many pieces a dripping body falls.
const DRIPS: usize = 10;

/// Bytes of garbage.
const GARBAGE: usize = 64;

/// Answer after a fault.
pub(super) enum Spoilt {
    /// HTTP all the same.
    Answer(Response<AnswerBody>),
    /// The end of the connection. The status is that of the head that it sends, if it sends one.
    End(Option<StatusCode>, Act),
}

/// Context of a fault beside the answer.
pub(super) struct Spoiler<'a> {
    /// The method of the request.
    pub(super) method: &'a Method,
    /// Its path and query.
    pub(super) target: &'a str,
    /// Source of garbage.
    pub(super) noise: Draws,
    /// Timer of a dripping body.
    pub(super) timer: &'a Rc<Timer>,
}

/// True if `fault` can meet a request for `path`: a client that followed a redirect is not
/// redirected again.
pub(super) fn can_meet(fault: Fault, path: &str) -> bool {
    !matches!(fault, Fault::Redirect) || !is_moved(path)
}

impl Spoiler<'_> {
    /// Makes of `good`, which is whole and has all headers but those of its length, what `fault`
    /// makes of it.
    pub(super) fn spoil(mut self, fault: Fault, good: Response<Bytes>) -> Spoilt {
        match fault {
            Fault::Drop => Spoilt::End(None, Act::Close(Vec::new())),
            Fault::Reset => Spoilt::End(None, Act::Reset),
            Fault::Silence => Spoilt::End(None, Act::Silence(Vec::new())),
            Fault::Garbage => Spoilt::End(None, Act::Close(self.garbage())),
            Fault::MalformedChunk => {
                let mut head = head(
                    StatusCode::OK,
                    good.headers(),
                    &TRANSFER_ENCODING,
                    &HeaderValue::from_static("chunked"),
                );
                head.extend(self.garbage());
                Spoilt::End(Some(StatusCode::OK), Act::Close(head))
            }
            Fault::Truncated => {
                let (length, sent) = (good.body().len(), good.body().len() / 2);
                self.mismatched(&good, length, sent, Act::Close)
            }
            Fault::ShortLength => {
                let (length, sent) = (good.body().len() / 2, good.body().len());
                self.mismatched(&good, length, sent, Act::Close)
            }
            Fault::LongLength => {
                let (length, sent) = (good.body().len() * 2, good.body().len());
                self.mismatched(&good, length, sent, Act::Silence)
            }
            Fault::Drip(time) => Spoilt::Answer(good.map(|body| self.drip(&body, time))),
            Fault::Nagle => Spoilt::Answer(good.map(|body| AnswerBody::apart(self.timer, body))),
            Fault::HugeBody(bytes) => {
                Spoilt::Answer(good.map(|body| AnswerBody::filled(body, bytes)))
            }
            Fault::HugeHeaders(bytes) => {
                Spoilt::Answer(with_header(good, PADDING, padding(bytes)).map(AnswerBody::whole))
            }
            Fault::Close => Spoilt::Answer(
                with_header(good, CONNECTION, HeaderValue::from_static("close"))
                    .map(AnswerBody::whole),
            ),
            Fault::Status(status) => {
                let status =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Spoilt::Answer(instead(good, status, JSON, FAULTY))
            }
            Fault::Challenge(status) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
                let page = with_header(good, MITIGATED, HeaderValue::from_static("challenge"));
                Spoilt::Answer(instead(page, status, HTML, CHALLENGE))
            }
            Fault::Redirect => {
                // A path and query that came as such make a header's value, and one path makes a
                // longer one.
                let place =
                    HeaderValue::from_maybe_shared(Bytes::from([MOVED, self.target].concat()));
                let place = place.unwrap_or(HeaderValue::from_static(MOVED));
                Spoilt::Answer(instead(
                    with_header(good, LOCATION, place),
                    StatusCode::FOUND,
                    JSON,
                    ELSEWHERE,
                ))
            }
        }
    }

    /// `good` with `length` for its `Content-Length` and `sent` bytes of its body, none if it is
    /// asked for its head.
    fn mismatched(
        &self,
        good: &Response<Bytes>,
        length: usize,
        sent: usize,
        end: fn(Vec<u8>) -> Act,
    ) -> Spoilt {
        let mut bytes = head(
            good.status(),
            good.headers(),
            &CONTENT_LENGTH,
            &HeaderValue::from(length),
        );
        if *self.method != Method::HEAD {
            bytes.extend_from_slice(&good.body()[..sent]);
        }
        Spoilt::End(Some(good.status()), end(bytes))
    }

    /// Bytes beyond ASCII: no version, no number, no end of a line.
    fn garbage(&mut self) -> Vec<u8> {
        (0..GARBAGE / 8)
            .flat_map(|_| (self.noise.word() | 0x8080_8080_8080_8080).to_le_bytes())
            .collect()
    }

    fn drip(&self, body: &Bytes, time: Duration) -> AnswerBody {
        let pieces = DRIPS.min(body.len());
        let pauses = u32::try_from(pieces).map_or(1, |pieces| pieces.saturating_sub(1).max(1));
        AnswerBody::dribble(self.timer, body, pieces, Duration::ZERO, time / pauses)
    }
}

/// The bytes of a head.
fn head(
    status: StatusCode,
    headers: &HeaderMap,
    framing: &HeaderName,
    value: &HeaderValue,
) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers.iter().chain([(framing, value)]) {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn with_header(
    mut answer: Response<Bytes>,
    name: HeaderName,
    value: HeaderValue,
) -> Response<Bytes> {
    answer.headers_mut().insert(name, value);
    answer
}

/// Another answer, with the headers of the good one.
fn instead(
    good: Response<Bytes>,
    status: StatusCode,
    kind: HeaderValue,
    body: &'static [u8],
) -> Response<AnswerBody> {
    let mut answer =
        with_header(good, CONTENT_TYPE, kind).map(|_| AnswerBody::whole(Bytes::from_static(body)));
    *answer.status_mut() = status;
    answer
}

/// A value of this many bytes.
fn padding(bytes: u64) -> HeaderValue {
    let value = vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)];
    HeaderValue::from_maybe_shared(Bytes::from(value)).unwrap_or(HeaderValue::from_static("x"))
}

/// End of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Send these bytes as they are, and close the connection behind them.
    Close(Vec<u8>),
    /// Reset.
    Reset,
    /// Send these bytes as they are, and then nothing until the client leaves.
    Silence(Vec<u8>),
}

impl Act {
    /// Carries it out. Errors are a client that left first, which ends the connection just as well.
    pub(super) async fn perform(self, mut wire: Wire) {
        match self {
            Self::Close(bytes) => {
                drop(wire.write_all(&bytes).await);
                drop(wire.shutdown().await);
            }
            Self::Reset => wire.reset(),
            Self::Silence(bytes) => {
                if wire.write_all(&bytes).await.is_ok() && wire.flush().await.is_ok() {
                    // Whatever else the client sends is read and ignored, so that its leaving is
                    // noticed.
                    drop(tokio::io::copy(&mut wire, &mut tokio::io::sink()).await);
                }
            }
        }
    }
}

/// The request gets no answer: the connection is to end as its [`Fate`] says, or to become a
/// tunnel.
#[derive(Debug, thiserror::Error)]
#[error("give up the answer, as the faults or a tunnel ask")]
pub(super) struct Interrupted;

/// End that was chosen for one connection, once it is.
#[derive(Default)]
pub(super) struct Fate(Cell<Option<Act>>);

impl Fate {
    /// Decides it; what this returns ends the HTTP library's part of the connection.
    pub(super) fn seal(&self, act: Act) -> Interrupted {
        self.0.set(Some(act));
        Interrupted
    }

    /// Take the end that was chosen, if one was.
    pub(super) fn take(&self) -> Option<Act> {
        self.0.take()
    }
}
