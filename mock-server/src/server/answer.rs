//! The hot path: one request in, one answer out. The HTTP library calls it for every request of a
//! connection.
//!
//! It must not block, and for a plain item it allocates nothing but the body.

mod play;

use super::admin::{self, AdminRequest};
use super::body::{AnswerBody, GRPC_STATUS};
use super::gateway::Gateway;
use super::limiter::{About, AdmissionVerdict, Asking, Turns, Visitor};
use super::quota;
use super::served_stubs::ServedStubs;
use super::spoil::{Act, Fate, Interrupted, Spoiler, Spoilt, can_meet};
use super::stack::Stack;
use crate::config::Config;
use crate::connections::KeepAlive;
use crate::fault::{Fault, Faults};
use crate::items::{ItemPath, body_len, write_body};
use crate::ledger::{ConnectionSource, LedgerWriter};
use crate::limit::Over;
use crate::slowdown::Queue;
use crate::timer::Timer;
use bytes::Bytes;
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GET_AND_HEAD: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// For how many microseconds the answer was to be held.
const HOLD_US: HeaderName = HeaderName::from_static("x-mock-hold-us");
/// For how many microseconds it was.
const HELD_US: HeaderName = HeaderName::from_static("x-mock-held-us");

const TOO_LARGE: &[u8] = br#"{"error":"a body of more than 16 MiB is not read"}"#;
const WRONG_HOST: &[u8] = br#"{"error":"the Host or Origin of this request may be that of another site: allow its name with --allow-host"}"#;
const QUEUE_FULL: &[u8] = br#"{"error":"the queue is full"}"#;
const WRONG_METHOD: &[u8] = br#"{"error":"an item can only be read"}"#;

const NS_PER_US: u64 = 1_000;

/// State that all connections of one process share.
pub(super) struct ServerState {
    pub(super) config: Config,
    pub(super) ledger: Rc<LedgerWriter>,
    pub(super) timer: Rc<Timer>,
    pub(super) stubs: ServedStubs,
    /// Service that answers what no stub does, if there is one.
    pub(super) gateway: Option<Rc<Gateway>>,
    /// Requests that wait, where the latest is served first.
    pub(super) stack: Stack,
}

/// Answers the requests of one connection.
pub(super) struct Answers {
    state: Rc<ServerState>,
    client: IpAddr,
    peer: ConnectionSource,
    visitor: Visitor,
    fate: Fate,
    /// Delay that the connection's first answer has yet to be held for.
    handshake: Cell<Duration>,
    /// Requests of the connection.
    requests: Cell<u32>,
    /// `Host` of its last request that was allowed, which the next ones have, too: to read names
    /// and addresses cost 800 instructions a request.
    allowed_host: RefCell<Option<HeaderValue>>,
    /// True once the last response was handed over, which did not say so.
    is_silently_over: Cell<bool>,
}

impl Answers {
    /// # Errors
    ///
    /// The connection is one too many, and is to be closed.
    pub(super) fn new(state: &Rc<ServerState>, client: IpAddr) -> Result<Self, Over> {
        let ServerState { config, ledger, .. } = &**state;
        Ok(Self {
            visitor: Visitor::new(config, ledger, client)?,
            client,
            peer: ledger.peer(client),
            fate: Fate::default(),
            handshake: Cell::new(config.handshake.get()),
            requests: Cell::default(),
            allowed_host: RefCell::default(),
            is_silently_over: Cell::default(),
            state: Rc::clone(state),
        })
    }

    /// End of the connection, once that is no longer the HTTP library's concern.
    pub(super) fn fate(&self) -> &Fate {
        &self.fate
    }

    /// True if the connection is to be closed behind the last response.
    pub(super) fn is_silently_over(&self) -> bool {
        self.is_silently_over.get()
    }

    /// True if the site that a request names is one of the target's own.
    fn allows(&self, Parts { uri, headers, .. }: &Parts) -> bool {
        let config = &self.state.config;
        if config.hosts.is_none() {
            return true;
        }
        let is_plain = uri.authority().is_none() && !headers.contains_key(ORIGIN);
        let host = headers.get(HOST).filter(|_| is_plain);
        if host.is_some() && self.allowed_host.borrow().as_ref() == host {
            return true;
        }
        let is_allowed = config.allows(uri, headers);
        if is_allowed && let Some(host) = host {
            self.allowed_host.replace(Some(host.clone()));
        }
        is_allowed
    }

    /// Answers one request.
    ///
    /// What is rare is boxed, and what comes with the request is kept where it is captured: this
    /// future is as large as the largest way through it, is moved once per request, and every
    /// connection keeps the room for one.
    pub(super) fn answer(
        &self,
        request: Request<impl RequestBody>,
    ) -> impl Future<Output = Result<Response<AnswerBody>, Interrupted>> {
        let (mut parts, incoming) = request.into_parts();
        let is_allowed = self.allows(&parts);
        let is_own = is_allowed && !admin::is_admin(parts.uri.path());
        // Count now: hyper 1.12 drops the future unpolled if the client has left.
        let arrival = is_own.then(|| self.arrived(&parts));
        self.requests.set(self.requests.get().saturating_add(1));
        async move {
            let is_call = arrival.as_ref().is_some_and(|arrival| arrival.is_call);
            let answer = match arrival {
                Some(arrival) => self.serve(&mut parts, arrival, incoming).await,
                None if !is_allowed => {
                    let body = Bytes::from_static(WRONG_HOST);
                    let answer = json(StatusCode::FORBIDDEN, HeaderMap::new(), body);
                    Ok(answer.map(AnswerBody::whole))
                }
                None => Box::pin(self.administer(&parts, incoming)).await,
            }?;
            Ok(self.parting(if is_call { called(answer) } else { answer }))
        }
    }

    /// The answer, with a goodbye if it is the last one of its connection and says so.
    fn parting(&self, mut answer: Response<AnswerBody>) -> Response<AnswerBody> {
        if let Some(KeepAlive {
            requests,
            is_silent,
        }) = self.state.config.keep_alive
            && self.requests.get() >= requests.get()
        {
            self.is_silently_over.set(is_silent);
            if !is_silent {
                let goodbye = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, goodbye);
            }
        }
        answer
    }

    /// The order: count, limit (a refusal waits for nothing but a handshake and the end of a
    /// stall), stub, method, hold, fault, answer.
    async fn serve(
        &self,
        parts: &mut Parts,
        mut arrival: Arrival,
        incoming: impl RequestBody,
    ) -> Result<Response<AnswerBody>, Interrupted> {
        // Until this call ends: with an answer, or dropped because its client left.
        let per_in_flight = self.state.config.latency_per_in_flight;
        let under_way = (!per_in_flight.is_none()).then(|| self.state.ledger.enter());
        arrival.growth = under_way.as_ref().map_or(Duration::ZERO, |under_way| {
            per_in_flight.times(under_way.others)
        });
        let stage = match self.stage(incoming).await {
            Ok(stage) => stage,
            Err(unread) => return self.unread(unread).map(|answer| self.counted(answer)),
        };
        if stage.is_some() {
            play::add_host(parts);
        }
        let asking = self.asking(parts, arrival.now_ns, About::Own);
        let verdict = self.visitor.ask(&asking);
        arrival.growth += verdict.delay();
        if matches!(verdict, AdmissionVerdict::Admitted(_))
            && let Some(stage) = stage
            && let Some(answer) = self.play(parts, stage, &arrival, &verdict).await?
        {
            return Ok(answer);
        }
        let mut headers = self.headers(parts, &verdict);
        if arrival.is_call {
            // A call reads an item.
            parts.method = Method::GET;
        }
        if let Some((status, body)) = self.refusal(&parts.method, &verdict, &mut headers) {
            // Nothing but a handshake, the end of a stall and the turn that a limit let it wait
            // for.
            if !self.hold(&arrival, verdict.delay(), &mut headers).await {
                return Ok(self.queue_full());
            }
            return Ok(self.counted(json(status, headers, body).map(AnswerBody::whole)));
        }
        let Config { latency, seed, .. } = &self.state.config;
        let own = latency.hold(*seed, arrival.id, arrival.attempt);
        self.let_go(parts);
        if !self
            .hold(&arrival, own + arrival.growth, &mut headers)
            .await
        {
            return Ok(self.queue_full());
        }
        self.state.config.work.burn(arrival.id);
        let events = self.state.config.events;
        let body = if let Some(events) = events {
            headers.insert(CONTENT_TYPE, EVENT_STREAM);
            events.write_body(arrival.id).into()
        } else {
            // With the exact capacity, making `Bytes` of it allocates nothing more.
            let mut body = Vec::with_capacity(body_len(arrival.id));
            write_body(self.state.config.seed, arrival.id, &mut body);
            body.into()
        };
        let item = json(StatusCode::OK, headers, body);
        match self.fault(&arrival, parts) {
            None => Ok(self.counted(item.map(|body| match events {
                None => AnswerBody::whole(body),
                Some(events) => AnswerBody::events(&self.state.timer, &body, events.gap),
            }))),
            Some(fault) => Box::pin(self.fail(fault, item, &arrival, parts)).await,
        }
    }

    /// The headers of an answer, with what limits say of themselves. They go into the request's map:
    /// the HTTP library keeps the map for the next request, so that a connection allocates one for
    /// its whole life.
    fn headers(&self, parts: &mut Parts, verdict: &AdmissionVerdict) -> HeaderMap {
        let mut headers = std::mem::take(&mut parts.headers);
        headers.clear();
        quota::say(&self.state.config.limits, verdict, &mut headers);
        headers
    }

    /// Answer a request whose body could not be read, if its client may still be there.
    fn unread(&self, unread: Unread) -> Result<Response<AnswerBody>, Interrupted> {
        match unread {
            Unread::Broken => Err(self.fate.seal(Act::Close(Vec::new()))),
            Unread::TooLarge => {
                let body = Bytes::from_static(TOO_LARGE);
                let answer = json(StatusCode::PAYLOAD_TOO_LARGE, HeaderMap::new(), body);
                Ok(answer.map(AnswerBody::whole))
            }
        }
    }

    fn asking(&self, parts: &Parts, now_ns: u64, about: About) -> Asking<'_> {
        let ServerState { config, ledger, .. } = &*self.state;
        let (headers, path) = (&parts.headers, parts.uri.path());
        Asking {
            now_ns,
            keys: self.visitor.keys(config, headers, path),
            about,
            turns: turns(parts.version),
            config,
            ledger,
        }
    }

    /// Lets go of the bytes that the request came in, unless a fault may want to know its target:
    /// the HTTP library then reads on in the same memory, and does not take more for the time of a
    /// hold.
    fn let_go(&self, parts: &mut Parts) {
        if self.state.config.faults.is_none() {
            parts.uri = Uri::default();
        }
    }

    /// Count a request.
    fn arrived(&self, parts: &Parts) -> Arrival {
        let path = ItemPath::parse(target(parts));
        let now_ns = self.state.ledger.shared().clock().now_ns();
        let attempt = self.state.ledger.arrived(&self.peer, path.id(), now_ns);
        let handshake = self.handshake.take();
        Arrival {
            now_ns,
            path,
            id: path.id(),
            attempt,
            growth: Duration::ZERO,
            handshake,
            ordinal: self.state.stubs.ordinal(),
            is_call: parts.method == Method::POST && is_call(parts),
        }
    }

    fn fault(&self, arrival: &Arrival, parts: &Parts) -> Option<Fault> {
        let Config { faults, seed, .. } = &self.state.config;
        let fault = faults.pick(*seed, arrival.id, arrival.attempt)?;
        can_meet(fault, parts.uri.path()).then_some(fault)
    }

    /// An answer that `fault` has met, in the ledger before any of it can be on the wire.
    async fn fail(
        &self,
        fault: Fault,
        good: Response<Bytes>,
        arrival: &Arrival,
        parts: &Parts,
    ) -> Result<Response<AnswerBody>, Interrupted> {
        self.state.ledger.failed(fault);
        let noise = Faults::noise(self.state.config.seed, arrival.id, arrival.attempt);
        let spoiler = Spoiler {
            method: &parts.method,
            target: target(parts),
            noise,
            timer: &self.state.timer,
        };
        match (spoiler.spoil(fault, good), parts.version) {
            (Spoilt::Answer(answer), _) => Ok(self.counted(answer)),
            // The connection is not this request's alone: its stream is never answered, or reset.
            (Spoilt::End(_, Act::Silence(_)), version) if turns(version) == Turns::AtOnce => {
                std::future::pending().await
            }
            (Spoilt::End(..), version) if turns(version) == Turns::AtOnce => Err(Interrupted),
            (Spoilt::End(status, act), _) => {
                if let Some(status) = status {
                    self.state.ledger.counters().count_status(status.as_u16());
                }
                Err(self.fate.seal(act))
            }
        }
    }

    /// Holds back an answer for `own`, longer on a new connection, in a stall or while all workers
    /// are busy, and says so in its headers. Returns false at once if the queue of the workers is
    /// full.
    async fn hold(&self, arrival: &Arrival, own: Duration, headers: &mut HeaderMap) -> bool {
        let ServerState {
            config,
            ledger,
            timer,
            stack,
            ..
        } = &*self.state;
        let own = own + arrival.handshake;
        let due_ns = match config.workers {
            None => Some(config.due_ns(arrival.now_ns, own)),
            Some(workers) if workers.queue == Queue::Lifo => Some(stack.serve(own).await),
            Some(workers) => {
                let pool = &ledger.shared().region().pool;
                pool.take(workers, arrival.now_ns, |begun_ns| {
                    config.due_ns(begun_ns, own)
                })
            }
        };
        let Some(due_ns) = due_ns else {
            return false;
        };
        // Rounded up, lest it were too early by rounding.
        let intended_us = due_ns.saturating_sub(arrival.now_ns).div_ceil(NS_PER_US);
        if intended_us == 0 {
            return true;
        }
        let due_ns = arrival
            .now_ns
            .saturating_add(intended_us.saturating_mul(NS_PER_US));
        let held = Held(ledger);
        let actual_us = (timer.until(due_ns).await - arrival.now_ns) / NS_PER_US;
        std::mem::forget(held);
        ledger.held(intended_us, actual_us);
        headers.insert(HOLD_US, HeaderValue::from(intended_us));
        headers.insert(HELD_US, HeaderValue::from(actual_us));
        true
    }

    /// Refuse a request that no place of the queue is left for.
    fn queue_full(&self) -> Response<AnswerBody> {
        self.state.ledger.counters().queue_full.increment();
        let body = Bytes::from_static(QUEUE_FULL);
        let answer = json(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), body);
        self.counted(answer.map(AnswerBody::whole))
    }

    /// Return the status and body of a request that gets no item.
    fn refusal(
        &self,
        method: &Method,
        verdict: &AdmissionVerdict,
        headers: &mut HeaderMap,
    ) -> Option<(StatusCode, Bytes)> {
        if let Some(refusal) = quota::refusal(&self.state.config.limits, verdict) {
            return Some(refusal);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            headers.insert(ALLOW, GET_AND_HEAD);
            return Some((
                StatusCode::METHOD_NOT_ALLOWED,
                Bytes::from_static(WRONG_METHOD),
            ));
        }
        None
    }

    /// An answer that is in the ledger before it can be on the wire.
    fn counted(&self, answer: Response<AnswerBody>) -> Response<AnswerBody> {
        self.state
            .ledger
            .counters()
            .count_status(answer.status().as_u16());
        answer
    }

    /// Answer an admin request, which the ledger does not count.
    async fn administer(
        &self,
        parts: &Parts,
        incoming: impl RequestBody,
    ) -> Result<Response<AnswerBody>, Interrupted> {
        let body = match read_body(incoming).await {
            Ok(body) => body,
            Err(unread) => return self.unread(unread),
        };
        let ServerState {
            config,
            ledger,
            stubs,
            ..
        } = &*self.state;
        let request = AdminRequest {
            method: &parts.method,
            target: target(parts),
            body: &body,
            shared: ledger.shared(),
            stubs,
            journal: config.journal,
        };
        let (status, body) = request.answer();
        Ok(json(status, HeaderMap::new(), body).map(AnswerBody::whole))
    }
}

/// The body of a request, of any version.
pub(super) trait RequestBody: Body<Data = Bytes, Error: Into<BodyError>> {}

impl<B: Body<Data = Bytes, Error: Into<BodyError>>> RequestBody for B {}

/// Reason why a body cannot be read.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// No stub, and no admin route, needs more of a body.
pub(super) const MAX_BODY_BYTES: usize = 16 << 20;

async fn read_body(incoming: impl RequestBody) -> Result<Bytes, Unread> {
    if incoming.is_end_stream() {
        return Ok(Bytes::new());
    }
    let body = Box::pin(Limited::new(incoming, MAX_BODY_BYTES).collect()).await;
    body.map(Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            Unread::TooLarge
        } else {
            Unread::Broken
        }
    })
}

/// Reason why the body of a request could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// Larger than is read.
    TooLarge,
    /// Not what its headers announce, or the client left before its end.
    Broken,
}

/// Request that is held back. Dropped, its connection has ended.
struct Held<'a>(&'a LedgerWriter);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.counters().abandoned.increment();
    }
}

/// Request as it arrived.
struct Arrival {
    /// When it came, on the common clock.
    now_ns: u64,
    /// Item that it is for.
    path: ItemPath,
    /// Id that is drawn for, with the attempt at it.
    id: u64,
    attempt: u8,
    /// Delay added by other requests in flight, and by limits that delay.
    growth: Duration,
    /// Delay for opening its connection; nothing but for the first request.
    handshake: Duration,
    /// Its number among all requests; no other has it.
    ordinal: u64,
    /// True if it is a call of gRPC.
    is_call: bool,
}

/// True if the content is a call of gRPC.
fn is_call(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    turns(parts.version) == Turns::AtOnce
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Make a good answer that of a call, unless it says itself how the call ends.
fn called(mut answer: Response<AnswerBody>) -> Response<AnswerBody> {
    if answer.status() != StatusCode::OK {
        return answer;
    }
    answer.headers_mut().insert(CONTENT_TYPE, GRPC);
    if answer.headers().contains_key(GRPC_STATUS) {
        return answer;
    }
    answer.map(|body| AnswerBody::Call(Some(Box::new(body))))
}

/// Return how requests of that version share a connection.
fn turns(version: Version) -> Turns {
    if matches!(version, Version::HTTP_2 | Version::HTTP_3) {
        Turns::AtOnce
    } else {
        Turns::InTurn
    }
}

/// Path and query as they were sent.
fn target(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

/// An answer in JSON. The HTTP library adds `Content-Length` and `Date`, and leaves the body out
/// for HEAD.
fn json(status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Response<Bytes> {
    if !body.is_empty() {
        headers.entry(CONTENT_TYPE).or_insert(JSON);
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every connection keeps this room, so ten thousand of them keep it ten thousand times.
    #[test]
    fn what_is_rare_takes_no_room_in_the_future_of_every_answer() {
        fn size_of_output<In, Out>(_: impl FnOnce(&'static Answers, In) -> Out) -> usize {
            size_of::<Out>()
        }
        let size = size_of_output(|answers, request: Request<hyper::body::Incoming>| {
            Answers::answer(answers, request)
        });
        assert!(size <= 1792, "{size} bytes");
    }

    #[test]
    fn only_streams_may_be_asked_before_others_are_answered() {
        assert_eq!(
            [
                Version::HTTP_10,
                Version::HTTP_11,
                Version::HTTP_2,
                Version::HTTP_3
            ]
            .map(turns),
            [Turns::InTurn, Turns::InTurn, Turns::AtOnce, Turns::AtOnce]
        );
    }
}
