//! Passing of requests to another service, and of its responses to the client as they arrive, while
//! they are recorded.
//!
//! It must not decide which requests are passed on (`answer` does), nor what is recorded of them
//! (`recording` does).

use super::body::AnswerBody;
use super::tasks::Tasks;
use crate::recording::{MAX_BODY, Passed, Recording};
use crate::timer::Timer;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

/// Headers of one connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers with which a client gets less than the whole response (304, 206, 412): others that are
/// served the stub have no part of it.
const PARTIAL: [HeaderName; 6] = [
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

const UNANSWERED: &[u8] = br#"{"error":"the recorded service did not respond"}"#;

/// Service that requests are passed on to, over HTTP/1.1.
pub struct Upstream {
    /// `Host` header of requests.
    pub host: HeaderValue,
    /// Its addresses, which are tried in order.
    pub addresses: Vec<SocketAddr>,
    /// TLS, and the name to verify; none for plain HTTP.
    pub tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Connections to the service, and its recording.
pub(super) struct Gateway {
    upstream: Upstream,
    idle: RefCell<Vec<Sender>>,
    connections: Tasks,
    timer: Rc<Timer>,
    pub(super) recording: RefCell<Recording>,
}

type Sender = SendRequest<Full<Bytes>>;

impl Gateway {
    pub(super) fn new(upstream: Upstream, timer: &Rc<Timer>) -> Self {
        Self {
            upstream,
            idle: RefCell::default(),
            connections: Tasks::default(),
            timer: Rc::clone(timer),
            recording: RefCell::default(),
        }
    }

    /// The request as the service gets it.
    pub(super) fn request(&self, parts: &Parts, body: Bytes) -> Request<Full<Bytes>> {
        let mut headers = parts.headers.clone();
        drop_hop_by_hop(&mut headers);
        if parts.method.is_safe() {
            for name in &PARTIAL {
                headers.remove(name);
            }
        }
        // The body is here, and its length known.
        headers.remove(EXPECT);
        headers.remove(CONTENT_LENGTH);
        headers.insert(HOST, self.upstream.host.clone());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        let target = parts.uri.path_and_query().cloned();
        *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
        *request.headers_mut() = headers;
        request
    }

    /// Pass on a request. Without a response from the service it is 502.
    pub(super) async fn pass(
        self: &Rc<Self>,
        request: Request<Full<Bytes>>,
    ) -> Response<AnswerBody> {
        let (method, url) = (request.method().clone(), request.uri().to_string());
        let Some((sender, begun_ns, response)) = self.send(request).await else {
            self.recording.borrow_mut().counts.unanswered += 1;
            let body = AnswerBody::whole(Bytes::from_static(UNANSWERED));
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            return answer;
        };
        let (mut parts, incoming) = response.into_parts();
        drop_hop_by_hop(&mut parts.headers);
        let passed = Passed {
            method,
            url,
            status: parts.status,
            headers: parts.headers.clone(),
            body: Vec::new(),
            trailers: HeaderMap::new(),
        };
        let mut body = PassedBody {
            incoming,
            sender: Some(sender),
            passed: Some(passed),
            begun_ns,
            gateway: Rc::clone(self),
        };
        if body.incoming.is_end_stream() {
            body.finish();
        }
        Response::from_parts(parts, AnswerBody::Passed(Box::new(body)))
    }

    /// Send over a connection that is idle, or over a new one.
    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Option<(Sender, u64, Response<Incoming>)> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => self.connect().await.ok()?,
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            let begun_ns = self.timer.now_ns();
            // A service that closes an idle connection may have received a request and not begun it.
            let again = request.method().is_idempotent().then(|| request.clone());
            match sender.try_send_request(request).await {
                Ok(response) => return Some((sender, begun_ns, response)),
                Err(mut error) => request = error.take_message().or(again).filter(|_| !is_new)?,
            }
        }
    }

    async fn connect(&self) -> io::Result<Sender> {
        let Upstream { addresses, tls, .. } = &self.upstream;
        let stream = TcpStream::connect(&**addresses).await?;
        drop(stream.set_nodelay(true));
        let stream = match tls {
            None => Either::Left(stream),
            Some((tls, name)) => Either::Right(tls.connect(name.clone(), stream).await?),
        };
        let opened = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(io::Error::other)?;
        // Its errors are those of its requests.
        self.connections
            .spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// Remove the headers of one connection, and those that it names.
fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Body of the service on its way to the client.
pub(super) struct PassedBody {
    incoming: Incoming,
    /// The connection that it comes over, until it is whole.
    sender: Option<Sender>,
    /// What was received; nothing once it was recorded, or is too large.
    passed: Option<Passed>,
    begun_ns: u64,
    gateway: Rc<Gateway>,
}

impl PassedBody {
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => self.keep(frame),
            Some(Err(_)) => return Poll::Ready(frame),
            None => {}
        }
        let is_last = frame
            .as_ref()
            .is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers));
        // The HTTP library does not ask again after trailers, nor after the last byte of an
        // announced length.
        if is_last || self.incoming.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(passed) = &mut self.passed else {
            return;
        };
        if let Some(trailers) = frame.trailers_ref() {
            passed.trailers.clone_from(trailers);
        }
        let Some(data) = frame.data_ref() else {
            return;
        };
        if passed.body.len() + data.len() > MAX_BODY {
            self.passed = None;
            self.gateway.recording.borrow_mut().counts.too_large += 1;
        } else {
            passed.body.extend_from_slice(data);
        }
    }

    /// Record what is whole, and free its connection.
    fn finish(&mut self) {
        let time = Duration::from_nanos(self.gateway.timer.now_ns() - self.begun_ns);
        if let Some(passed) = self.passed.take() {
            self.gateway.recording.borrow_mut().add(passed, time);
        }
        self.gateway.idle.borrow_mut().extend(self.sender.take());
    }
}

impl Drop for PassedBody {
    fn drop(&mut self) {
        if self.passed.is_some() {
            self.gateway.recording.borrow_mut().counts.cut_short += 1;
        }
    }
}
