//! Forwarding one request: sent in origin form from the session's source address, its response
//! passed back as it arrives.
//!
//! It must not read a body ahead of its receiver.

use super::failure::GatewayFailure;
use super::{Gateway, Keep, Way, headers, upstream};
use crate::ledger::LedgerWriter;
use crate::server::body::AnswerBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Uri};
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A request as it goes out.
pub(super) fn outgoing(
    request: Request<Incoming>,
    books: &Rc<LedgerWriter>,
) -> Result<Request<Carried>, GatewayFailure> {
    let (mut parts, body) = request.into_parts();
    headers::pass_on(&mut parts.headers);
    let authority = parts
        .uri
        .authority()
        .map(Authority::as_str)
        .unwrap_or_default();
    // Whatever the client said in `Host`, the request line decides (RFC 9112, 3.2.2). A name before
    // an @ stays here.
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = HeaderValue::from_str(host)
        .map_err(|_| GatewayFailure::Malformed("the request names no host"))?;
    parts.headers.insert(HOST, host);
    let path = parts
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));
    parts.uri = Uri::from(path);
    parts.version = Version::HTTP_11;
    Ok(Request::from_parts(
        parts,
        Carried {
            body,
            books: Rc::clone(books),
            direction: Direction::Up,
        },
    ))
}

/// An answer as it comes back.
pub(super) fn incoming(
    response: Response<Incoming>,
    books: &Rc<LedgerWriter>,
) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    headers::pass_on(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let body = Carried {
        body,
        books: Rc::clone(books),
        direction: Direction::Down,
    };
    Response::from_parts(parts, AnswerBody::Carried(body))
}

impl Gateway {
    /// Sends `request` and waits for the beginning of its answer.
    pub(super) async fn exchange(
        &self,
        request: Request<Carried>,
        way: &Way,
    ) -> Result<Response<Incoming>, GatewayFailure> {
        let mut unsent = request;
        // A connection that its other end has closed in the meantime gives the request back; the
        // next one is tried. Each is taken out of the pool for good, so this ends.
        while way.keep == Keep::Pooled
            && let Some((route, mut sender)) = self.pool.take(&way.routes)
        {
            match sender.try_send_request(unsent).await {
                Ok(response) => {
                    self.pool.keep(route, sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(request) => unsent = request,
                    None => return Err(GatewayFailure::Broken(error.into_error())),
                },
            }
        }
        let (route, mut sender) = self.open(way).await?;
        let response = sender
            .send_request(unsent)
            .await
            .map_err(GatewayFailure::Broken)?;
        if way.keep == Keep::Pooled {
            self.pool.keep(route, sender);
        }
        Ok(response)
    }

    async fn open(
        &self,
        way: &Way,
    ) -> Result<(upstream::Route, SendRequest<Carried>), GatewayFailure> {
        let (route, stream) = upstream::connect_first(&way.routes).await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(GatewayFailure::Broken)?;
        self.tasks.spawn(async move { drop(connection.await) });
        Ok((route, sender))
    }
}

/// Direction of a body.
#[derive(Clone, Copy, Debug)]
enum Direction {
    /// From the client.
    Up,
    /// To the client.
    Down,
}

/// A body that passes through, and is counted.
#[derive(Debug)]
pub(in crate::server) struct Carried {
    body: Incoming,
    books: Rc<LedgerWriter>,
    direction: Direction,
}

impl Body for Carried {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(bytes) = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok())
            .and_then(Frame::data_ref)
        {
            let counters = self.books.proxy();
            match self.direction {
                Direction::Up => &counters.bytes_up,
                Direction::Down => &counters.bytes_down,
            }
            .add(bytes.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
