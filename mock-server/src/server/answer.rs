//! The hot path: one request in, one answer out. The HTTP library calls it for every request of a connection.
//!
//! It must not block, and for a plain item it allocates nothing but the body.

use super::act::{Act, Fate, Interrupted};
use super::admin;
use super::body::AnswerBody;
use super::spoil::{Spoiler, Spoilt, can_meet};
use crate::config::Config;
use crate::fault::{Fault, Faults};
use crate::items::{ItemPath, body_len, write_body};
use crate::ledger::{Books, Peer};
use crate::limit::{Decision, decide};
use crate::timer::Timer;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GET_AND_HEAD: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// For how many microseconds the answer was to be held.
const HOLD_US: HeaderName = HeaderName::from_static("x-mock-hold-us");
/// For how many microseconds it was.
const HELD_US: HeaderName = HeaderName::from_static("x-mock-held-us");

const LIMITED: &[u8] = br#"{"error":"too many requests; come back after Retry-After"}"#;
const WRONG_METHOD: &[u8] = br#"{"error":"an item can only be read"}"#;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: u64 = 1_000;

/// Answers the requests of one connection.
pub(super) struct Answers {
    config: Rc<Config>,
    books: Rc<Books>,
    timer: Rc<Timer>,
    peer: Peer,
    fate: Fate,
}

impl Answers {
    pub(super) fn new(config: &Rc<Config>, books: &Rc<Books>, timer: &Rc<Timer>, address: IpAddr) -> Self {
        let peer = books.peer(address);
        Self {
            config: Rc::clone(config),
            books: Rc::clone(books),
            timer: Rc::clone(timer),
            peer,
            fate: Fate::default(),
        }
    }

    /// How the connection is to end, once that is no longer the HTTP library's concern.
    pub(super) fn fate(&self) -> &Fate {
        &self.fate
    }

    /// The order: count, limit and method (a refusal waits for nothing but the end of a stall), hold, fault, answer.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response<AnswerBody>, Interrupted> {
        let (parts, _) = request.into_parts();
        // The answer's headers go into the request's map: the HTTP library keeps the map for the next request, so that
        // a connection allocates one for its whole life.
        let mut headers = parts.headers;
        headers.clear();
        let path = parts.uri.path();
        if admin::is_admin(path) {
            let (status, body) = admin::answer(&parts.method, path, self.books.shared());
            return Ok(response(status, headers, body));
        }

        let seed = self.config.seed;
        let target = parts.uri.path_and_query().map_or(path, PathAndQuery::as_str);
        let id = ItemPath::parse(target).id();
        let now_ns = self.books.shared().clock().now_ns();
        let attempt = self.books.arrived(&self.peer, id, now_ns);
        // Until this call ends: with an answer, or dropped because its client left.
        let per_in_flight = self.config.latency_per_in_flight;
        let under_way = if per_in_flight.is_none() { None } else { Some(self.books.enter()) };

        let refusal = self.refusal(&parts.method, now_ns, &mut headers);
        let mut own = Duration::ZERO;
        if refusal.is_none() {
            own = self.config.latency.hold(seed, id, attempt);
            if let Some(under_way) = &under_way {
                own += per_in_flight.hold(under_way.others);
            }
        }
        let intended_us = self.config.hold_us(now_ns, own);
        if intended_us > 0 {
            self.hold(now_ns, intended_us, &mut headers).await;
        }
        if let Some((status, body)) = refusal {
            return Ok(self.counted(status, headers, Bytes::from_static(body)));
        }
        // With the exact capacity, making `Bytes` of it allocates nothing more.
        let mut body = Vec::with_capacity(body_len(id));
        write_body(seed, id, &mut body);
        match self.config.faults.pick(seed, id, attempt).filter(|fault| can_meet(*fault, path)) {
            None => Ok(self.counted(StatusCode::OK, headers, body.into())),
            Some(fault) => {
                let noise = Faults::noise(seed, id, attempt);
                let spoiler = Spoiler { method: &parts.method, target, noise, timer: &self.timer };
                self.fail(fault, spoiler, good(headers, body.into()), parts.version).await
            }
        }
    }

    /// An answer that `fault` has met, in the books before any of it can be on the wire.
    async fn fail(
        &self,
        fault: Fault,
        spoiler: Spoiler<'_>,
        good: Response<Bytes>,
        version: Version,
    ) -> Result<Response<AnswerBody>, Interrupted> {
        self.books.failed(fault);
        match (spoiler.spoil(fault, good), version) {
            (Spoilt::Answer(answer), _) => {
                self.books.answered(answer.status().as_u16());
                Ok(answer)
            }
            // The connection is not this request's alone: its stream is never answered, or reset.
            (Spoilt::End(_, Act::Silence(_)), Version::HTTP_2) => std::future::pending().await,
            (Spoilt::End(..), Version::HTTP_2) => Err(Interrupted),
            (Spoilt::End(status, act), _) => {
                if let Some(status) = status {
                    self.books.answered(status.as_u16());
                }
                Err(self.fate.seal(act))
            }
        }
    }

    /// Why a request that arrived at `now_ns` gets no item, if so: a status, a body, and the header that says what to do.
    fn refusal(&self, method: &Method, now_ns: u64, headers: &mut HeaderMap) -> Option<(StatusCode, &'static [u8])> {
        if let Some(retry_after_s) = self.limit(now_ns) {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
            return Some((StatusCode::TOO_MANY_REQUESTS, LIMITED));
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            headers.insert(ALLOW, GET_AND_HEAD);
            return Some((StatusCode::METHOD_NOT_ALLOWED, WRONG_METHOD));
        }
        None
    }

    /// Holds back the answer to a request that arrived at `arrived_ns`, and says so in its headers.
    async fn hold(&self, arrived_ns: u64, intended_us: u64, headers: &mut HeaderMap) {
        let due_ns = arrived_ns.saturating_add(intended_us.saturating_mul(NS_PER_US));
        let actual_us = (self.timer.until(due_ns).await - arrived_ns) / NS_PER_US;
        self.books.held(intended_us, actual_us);
        headers.insert(HOLD_US, HeaderValue::from(intended_us));
        headers.insert(HELD_US, HeaderValue::from(actual_us));
    }

    /// Seconds to wait, if the request is one too many.
    fn limit(&self, now_ns: u64) -> Option<u64> {
        if let Some(limit) = &self.config.limit
            && let Decision::Rejected { retry_after_ns } = decide(&self.books.key(&self.peer).tat, now_ns, limit)
        {
            // Rounded up: whoever comes back then is not too early, and 0 would invite to come back at once.
            let retry_after_s = retry_after_ns.div_ceil(NS_PER_S);
            self.books.promised(&self.peer, now_ns.saturating_add(retry_after_s.saturating_mul(NS_PER_S)));
            return Some(retry_after_s);
        }
        self.books.admitted(now_ns);
        None
    }

    /// An answer that is in the books before it can be on the wire.
    fn counted(&self, status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<AnswerBody> {
        self.books.answered(status.as_u16());
        response(status, headers, body)
    }
}

/// An item, before a fault meets it.
fn good(mut headers: HeaderMap, body: Bytes) -> Response<Bytes> {
    headers.insert(CONTENT_TYPE, JSON);
    let mut good = Response::new(body);
    *good.headers_mut() = headers;
    good
}

/// The HTTP library adds `Content-Length` and `Date`, and leaves the body out for HEAD.
fn response(status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Response<AnswerBody> {
    if !body.is_empty() {
        headers.insert(CONTENT_TYPE, JSON);
    }
    let mut response = Response::new(AnswerBody::whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
