//! Responses from stubs: looked up, rendered and held.
//!
//! It must not decide which stub matches (`stubs` does), and a stub without templates, body
//! patterns or a scenario is answered without allocating.

use super::super::body::AnswerBody;
use super::super::gateway::Gateway;
use super::super::journal::{self, Outcome, Served};
use super::super::limiter::AdmissionVerdict;
use super::super::spoil::Interrupted;
use super::{Answers, Arrival, RequestBody, ServerState, Unread, read_body, target};
use crate::clock;
use crate::config::{Config, Journal, Unmatched};
use crate::draw::{Draws, Stream};
use crate::items::ItemPath;
use crate::stubs::{Dribble, Occasion, Rendered, RequestView, Scheme, Stub};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

/// The id of the stub that answered, as WireMock names it.
const STUB_ID: HeaderName = HeaderName::from_static("matched-stub-id");
/// Its name.
const STUB_NAME: HeaderName = HeaderName::from_static("matched-stub-name");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// Not WireMock's comparison with all stubs, which costs more than any answer.
const UNMATCHED: &[u8] = b"Request was not matched\n";

impl Answers {
    /// Return the body of a request to stubs; nothing where no stub has a say.
    pub(super) async fn stage(&self, incoming: impl RequestBody) -> Result<Option<Bytes>, Unread> {
        if self.state.stubs.is_empty()
            && self.state.config.unmatched == Unmatched::Item
            && self.state.config.journal == Journal::Off
            && self.state.gateway.is_none()
        {
            return Ok(None);
        }
        read_body(incoming).await.map(Some)
    }

    /// The answer of the stub that fits, if one does; else the request may be for an item. Its
    /// headers are then taken from `parts`.
    pub(super) async fn play(
        &self,
        parts: &mut Parts,
        body: Bytes,
        arrival: &Arrival,
        verdict: &AdmissionVerdict,
    ) -> Result<Option<Response<AnswerBody>>, Interrupted> {
        let ServerState { config, ledger, .. } = &*self.state;
        let arrival = &Self::one_of_many(arrival);
        let asked = asked(parts, &body, self.client);
        // Not before its body has come: a change may have been acknowledged in the meantime.
        let stubs = self.state.stubs.current();
        let Some(stub) = self.state.stubs.find(&stubs, &asked) else {
            let outcome = match (&self.state.gateway, config.unmatched) {
                (None, Unmatched::NotFound) => Outcome::Refused,
                _ => Outcome::Other,
            };
            self.note(arrival, &asked, outcome);
            if let Some(gateway) = &self.state.gateway {
                let request = gateway.request(parts, body);
                let headers = self.headers(parts, verdict);
                let answer = self.pass_on(gateway, request, arrival, headers);
                return Ok(Some(Box::pin(answer).await));
            }
            if config.unmatched == Unmatched::Item {
                return Ok(None);
            }
            let mut headers = self.headers(parts, verdict);
            if !self.hold(arrival, arrival.growth, &mut headers).await {
                return Ok(Some(self.queue_full()));
            }
            ledger.counters().unmatched.increment();
            headers.insert(CONTENT_TYPE, TEXT);
            let body = AnswerBody::whole(Bytes::from_static(UNMATCHED));
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::NOT_FOUND;
            *answer.headers_mut() = headers;
            return Ok(Some(self.counted(answer)));
        };
        ledger.counters().stub_answers.increment();
        let rendered = self.render(stub, &asked, arrival);
        self.note(arrival, &asked, Outcome::Matched(stub, &rendered));
        let mut headers = self.headers(parts, verdict);
        // A stub's own draws never repeat, not even for one id: there may be more requests for it
        // than attempts are told.
        let delays = &stub.reply.delays;
        let delay = delays.hold(&stubs.settings.delays, config.seed, arrival.ordinal);
        let own = config
            .latency
            .hold(config.seed, arrival.id, arrival.attempt);
        self.let_go(parts);
        let hold = delay + own + arrival.growth;
        if !self.hold(arrival, hold, &mut headers).await {
            return Ok(Some(self.queue_full()));
        }
        let answer = written(stub, rendered, headers);
        let answer = match (
            stub.reply.fault.or_else(|| self.fault(arrival, parts)),
            stub.reply.dribble,
        ) {
            (Some(fault), _) => Box::pin(self.fail(fault, answer, arrival, parts)).await?,
            (None, None) => self.counted(answer.map(AnswerBody::whole)),
            (None, Some(dribble)) => self.counted(answer.map(|body| self.dribbled(&body, dribble))),
        };
        Ok(Some(answer))
    }

    /// The answer of the service that is recorded, with `headers` of the target's own.
    async fn pass_on(
        &self,
        gateway: &Rc<Gateway>,
        request: Request<Full<Bytes>>,
        arrival: &Arrival,
        mut headers: HeaderMap,
    ) -> Response<AnswerBody> {
        let Config { latency, seed, .. } = &self.state.config;
        let own = latency.hold(*seed, arrival.id, arrival.attempt);
        if !self.hold(arrival, own + arrival.growth, &mut headers).await {
            return self.queue_full();
        }
        let mut answer = gateway.pass(request).await;
        answer.headers_mut().extend(headers);
        self.counted(answer)
    }

    /// Keep a request in the journal.
    fn note(&self, arrival: &Arrival, asked: &RequestView<'_>, outcome: Outcome<'_>) {
        let ServerState { config, ledger, .. } = &*self.state;
        let served = Served {
            ordinal: arrival.ordinal,
            asked,
            outcome,
        };
        if config.journal == Journal::On && journal::keep(ledger.shared(), &served).is_err() {
            ledger.counters().journal_missed.increment();
        }
    }

    /// A request among many for the same URL: what latency and faults draw for it must differ from
    /// one to the next, also where the URL has no id by which attempts are told apart.
    fn one_of_many(arrival: &Arrival) -> Arrival {
        let id = match arrival.path {
            ItemPath::Numbered(id) => id,
            ItemPath::Hashed(_) => arrival.ordinal,
        };
        Arrival { id, ..*arrival }
    }

    fn dribbled(&self, body: &Bytes, dribble: Dribble) -> AnswerBody {
        let pieces = dribble.pieces.get().min(body.len());
        let interval = dribble.total / u32::try_from(pieces.max(1)).unwrap_or(u32::MAX);
        AnswerBody::dribble(&self.state.timer, body, pieces, interval, interval)
    }

    fn render<'s>(
        &self,
        stub: &'s Stub,
        asked: &RequestView<'_>,
        arrival: &Arrival,
    ) -> Rendered<'s> {
        if let Some(rendered) = stub.reply.ready() {
            return rendered;
        }
        let mut draws = Draws::new(Stream::Template, self.state.config.seed, arrival.ordinal);
        let scheme = if self.state.config.tls.is_some() {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let path_variables = stub.request.path_variables(asked.path());
        let occasion = Occasion {
            asked,
            path_variables: &path_variables,
            now: UNIX_EPOCH + clock::wall(),
            scheme,
        };
        stub.reply.render(&occasion, &mut draws)
    }
}

/// The host that HTTP/2 names in a place of its own, as the header that stubs look at; so Jetty has
/// it, too.
pub(super) fn add_host(parts: &mut Parts) {
    if parts.headers.contains_key(HOST) {
        return;
    }
    let host = parts
        .uri
        .authority()
        .and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        parts.headers.insert(HOST, host);
    }
}

/// A request as stubs look at it.
fn asked<'r>(parts: &'r Parts, body: &'r [u8], client: IpAddr) -> RequestView<'r> {
    RequestView {
        method: &parts.method,
        target: target(parts),
        headers: &parts.headers,
        body,
        client,
    }
}

/// The answer of a stub, but for how its body is sent.
fn written(stub: &Stub, rendered: Rendered<'_>, mut headers: HeaderMap) -> Response<Bytes> {
    let Rendered {
        status,
        reason,
        headers: own,
        body,
    } = rendered;
    for (name, value) in own {
        headers.append(name, value);
    }
    headers.insert(STUB_ID, stub.id_header.clone());
    if let Some(name) = &stub.name_header {
        headers.insert(STUB_NAME, name.clone());
    }
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    if let Some(reason) = reason {
        answer.extensions_mut().insert(reason.clone());
    }
    answer
}
