//! The target as a forward proxy: check the credentials of the client and the reach of the
//! destination, then forward the request or open a tunnel. `answer` hands over every request for
//! another server; holds and faults do not apply, and of the limits only those with `key=session`,
//! which `answer` asks first.
//!
//! It must never connect to what [`Reach`](crate::proxy::Reach) does not cover.
//!
//! | room | for |
//! |---|---|
//! | `upstream` | connections to destinations: opening, reuse within a session, tunnels |
//! | `forward` | forwarded requests, and their header fields |

mod forward;
mod upstream;

pub(super) use upstream::Tunnel;

use super::body::AnswerBody;
use super::spoil::Interrupted;
use super::tasks::Tasks;
use crate::config::Config;
use crate::ledger::LedgerWriter;
use crate::proxy::{Denied, Proxy, Refusal, Sender, admit, candidates};
use crate::shared::ProxyCounters;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use upstream::{Pool, Route};

/// Port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// The proxy of one process.
pub(super) struct Gateway {
    proxy: Proxy,
    seed: u64,
    books: Rc<LedgerWriter>,
    pool: Pool,
    tasks: Rc<Tasks>,
}

/// A request's way out, every address to try.
struct Way {
    routes: Vec<Route>,
    /// True if the next request of the session may use the connection; others are sent from
    /// there once.
    is_session: bool,
}

impl Gateway {
    /// The proxy that `config` asks for, if it does.
    pub(super) fn new(config: &Config, books: &Rc<LedgerWriter>) -> Option<Self> {
        let proxy = config.proxy.clone()?;
        let (pool, tasks) = (Pool::default(), Rc::default());
        Some(Self {
            proxy,
            seed: config.seed,
            books: Rc::clone(books),
            pool,
            tasks,
        })
    }

    /// True if a request is to be forwarded: CONNECT, or one in absolute form (RFC 9112, 3.2.2).
    /// Over HTTP/2, where every request names an authority, all are the target's own.
    pub(super) fn concerns(request: &Parts) -> bool {
        let is_meant = request.uri.scheme().is_some() || request.method == Method::CONNECT;
        is_meant && request.version < Version::HTTP_2
    }

    /// Forwards a request, or opens the tunnel that it asks for. That ends the HTTP library's part
    /// of the connection: the tunnel is then in `opened`.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        opened: &Cell<Option<Tunnel>>,
    ) -> Result<Response<AnswerBody>, Interrupted> {
        let counters = self.books.proxy();
        let forwarded = if *request.method() == Method::CONNECT {
            counters.tunnels.increment();
            match self.tunnel(&request).await {
                Ok(tunnel) => {
                    opened.set(Some(tunnel));
                    return Err(Interrupted);
                }
                Err(failure) => Err(failure),
            }
        } else {
            counters.requests.increment();
            self.forward(request).await
        };
        Ok(forwarded.unwrap_or_else(|failure| failure.response(counters)))
    }

    async fn tunnel(&self, request: &Request<Incoming>) -> Result<Tunnel, GatewayFailure> {
        let way = self.way(request)?;
        let (_, upstream) = self.in_time(upstream::connect_any(&way.routes)).await?;
        Ok(Tunnel::new(upstream, &self.books))
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, GatewayFailure> {
        let way = self.way(&request)?;
        let request = forward::outgoing(request, &self.books)?;
        let response = self.in_time(self.exchange(request, &way)).await?;
        Ok(forward::incoming(response, &self.books))
    }

    /// Lets a request in, and finds its way out.
    fn way<Body>(&self, request: &Request<Body>) -> Result<Way, GatewayFailure> {
        let header = request
            .headers()
            .get(PROXY_AUTHORIZATION)
            .map(HeaderValue::as_bytes);
        let label =
            admit(self.proxy.credentials.as_ref(), header).map_err(GatewayFailure::Denied)?;
        self.books.let_in(label.as_deref());
        let (host, port) = destination(request)?;
        let addresses =
            candidates(host, port, self.proxy.reach).map_err(GatewayFailure::Refused)?;
        let sender = match &label {
            Some(label) => Sender::Session(label),
            None => Sender::Turn(self.books.next_turn()),
        };
        Ok(Way {
            routes: addresses
                .into_iter()
                .map(|to| Route {
                    to,
                    from: self.proxy.exits.toward(&to, self.seed, sender),
                })
                .collect(),
            is_session: label.is_some(),
        })
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, GatewayFailure>>,
    ) -> Result<T, GatewayFailure> {
        tokio::time::timeout(self.proxy.patience, work)
            .await
            .unwrap_or(Err(GatewayFailure::TimedOut(self.proxy.patience)))
    }
}

/// Host and port that a request names.
fn destination<Body>(request: &Request<Body>) -> Result<(&str, u16), GatewayFailure> {
    let uri = request.uri();
    let host = uri
        .host()
        .filter(|host| !host.is_empty())
        .ok_or(GatewayFailure::Malformed("the request names no host"))?;
    let malformed = |what| Err(GatewayFailure::Malformed(what));
    match (request.method(), uri.scheme(), uri.port_u16()) {
        (_, _, Some(0)) => malformed("port 0 is not a valid destination"),
        (&Method::CONNECT, _, None) => malformed("CONNECT wants HOST:PORT"),
        (&Method::CONNECT, _, Some(port)) => Ok((host, port)),
        (_, Some(scheme), port) if *scheme == Scheme::HTTP => Ok((host, port.unwrap_or(HTTP_PORT))),
        _ => malformed("only http:// can be forwarded; https:// wants a tunnel (CONNECT)"),
    }
}

const CHALLENGE: HeaderValue =
    HeaderValue::from_static(r#"Basic realm="crawlmark", charset="UTF-8""#);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Reason why nothing was forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum GatewayFailure {
    /// Not let in.
    #[error(transparent)]
    Denied(Denied),
    /// No destination.
    #[error("{0}")]
    Malformed(&'static str),
    /// Out of reach.
    #[error(transparent)]
    Refused(Refusal),
    /// No connection.
    #[error("the destination cannot be connected to: {0}")]
    Unreachable(io::Error),
    /// No answer.
    #[error("the destination sent no response: {0}")]
    Broken(hyper::Error),
    /// Too late.
    #[error("the destination took longer than {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
}

impl GatewayFailure {
    /// The response that says so; it is counted.
    fn response(&self, counters: &ProxyCounters) -> Response<AnswerBody> {
        let (status, counter) = match self {
            Self::Denied(_) => (
                StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                &counters.auth_failures,
            ),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, &counters.refused),
            Self::Refused(_) => (StatusCode::FORBIDDEN, &counters.refused),
            Self::Unreachable(_) | Self::Broken(_) => {
                (StatusCode::BAD_GATEWAY, &counters.upstream_failures)
            }
            Self::TimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, &counters.upstream_failures),
        };
        counter.increment();
        let body = serde_json::json!({ "error": self.to_string() }).to_string();
        let mut response = Response::new(AnswerBody::whole(body.into()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if matches!(self, Self::Denied(_)) {
            headers.insert(PROXY_AUTHENTICATE, CHALLENGE);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, version: Version) -> Request<()> {
        Request::builder()
            .method(method)
            .uri(uri)
            .version(version)
            .body(())
            .unwrap()
    }

    #[test]
    fn only_what_is_meant_for_others_is_forwarded() {
        for (method, uri, version, expected) in [
            ("GET", "/items/1", Version::HTTP_11, false),
            ("OPTIONS", "*", Version::HTTP_11, false),
            ("GET", "http://127.0.0.1/items/1", Version::HTTP_11, true),
            ("GET", "http://127.0.0.1/items/1", Version::HTTP_10, true),
            ("GET", "http://127.0.0.1/items/1", Version::HTTP_2, false),
            ("CONNECT", "127.0.0.1:80", Version::HTTP_11, true),
            ("CONNECT", "127.0.0.1:80", Version::HTTP_2, false),
        ] {
            let request = request(method, uri, version);
            assert_eq!(
                Gateway::concerns(&request.into_parts().0),
                expected,
                "{method} {uri} {version:?}"
            );
        }
    }

    #[test]
    fn a_destination_has_a_host_and_a_port() {
        for (method, uri, expected) in [
            ("GET", "http://127.0.0.1/", Some(("127.0.0.1", 80))),
            (
                "GET",
                "http://user:secret@127.0.0.1:81/",
                Some(("127.0.0.1", 81)),
            ),
            ("GET", "http://[::1]:81/", Some(("[::1]", 81))),
            ("GET", "https://127.0.0.1/", None),
            ("GET", "ftp://127.0.0.1/", None),
            ("GET", "http://127.0.0.1:0/", None),
            ("CONNECT", "127.0.0.1:443", Some(("127.0.0.1", 443))),
            ("CONNECT", "127.0.0.1", None),
            ("CONNECT", "127.0.0.1:0", None),
        ] {
            assert_eq!(
                destination(&request(method, uri, Version::HTTP_11)).ok(),
                expected,
                "{method} {uri}"
            );
        }
    }
}
