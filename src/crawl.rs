//! The crawl: the [`Workload`] that performs an ID over HTTP/1.1, HTTP/2 or HTTP/3.
//!
//! Connections are kept alive per host in a pool of the shard's own; those of HTTP/2 as their
//! streams. One request at a time on each connection of HTTP/1.1, which is polled inside the task
//! that awaits its answer: that saves a wake-up per request over a task per connection. Its
//! responses are decoded by `codec`. Built inside the shard's process; knows nothing of shards,
//! pacing or statistics.
//!
//! Rooms, each of which imports only from those above it:
//!
//! | room | for |
//! |---|---|
//! | `requests` | URLs, hosts, IDs, and the request of an item |
//! | `connect` | opening and lending connections: TCP, [`tls`], [`proxy`], source addresses |
//! | `response` | what is expected, what a response says and means: [`throttling`], cookies, codings, gRPC |
//! | `carry`, `streams` | what a protocol does for the crawl; what those with streams have in common |
//! | `http1` | exchanges of HTTP/1.1; decoding of responses ([`codec`]) |
//! | `http2`, `http3` | connections of HTTP/2 and HTTP/3 |
//! | here: `spec`, `protocols`, `carrier`, `attempt`, `next`, `redirects`, `flows`, `retry`, `saving`, `excerpt`, `fetch` | settings, carriers of requests, an attempt, what follows it, records, robots.txt |

mod attempt;
mod carrier;
mod carry;
mod connect;
mod excerpt;
mod fetch;
mod flows;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod next;
mod protocols;
mod redirects;
pub(crate) mod requests;
mod response;
mod retry;
mod saving;
mod spec;
mod streams;

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::sample::{Attempt, ErrorKind, Fate, Sample};
use crawlmark_harness::trace::Traces;
use crawlmark_harness::workload::{Clearance, Flight, Workload};
use http::Method;

use self::carrier::Carriers;
pub use self::connect::connect_to::ConnectTo;
#[cfg(test)]
pub(crate) use self::connect::dial::silent;
pub use self::connect::dial::{Dial, End, Route, Tcp};
pub(crate) use self::connect::dial::{connect_to, go_from};
pub use self::connect::local_ips::{ConnectionSlots, Family, LocalIps, LocalIpsError};
pub use self::connect::peers::Lookups;
pub use self::connect::pool::Reuse;
pub use self::connect::receive_stamps::ReceiveStamps;
use self::connect::receive_stamps::Sampler;
pub use self::connect::stream::{Stream, Wire};
use self::connect::tcp_info::SlowLimit;
pub use self::connect::{proxy, tls};
use self::flows::Flows;
pub use self::http1::codec;
#[cfg(any(test, fuzzing))]
pub use self::http2::laws as http2_laws;
use self::protocols::Requests;
use self::redirects::Redirects;
pub(crate) use self::requests::flow::MOST_STEPS;
use self::requests::flow::StepRequest;
pub use self::requests::flow::{Flow, Step};
pub use self::requests::host::{Host, HttpSettings, HttpVersion, Scheme};
pub use self::requests::redact;
pub(crate) use self::requests::request::TRACEPARENT;
use self::requests::request::{Item, Request};
pub use self::requests::shape::{RequestShape, ShapeError};
pub use self::requests::takes::Takes;
use self::requests::targets::RequestTarget;
pub(crate) use self::requests::targets::dealt;
pub use self::requests::targets::{IdUse, Line, Targets};
pub(crate) use self::requests::template::PLACE;
pub use self::requests::template::{Template, TemplateError};
pub use self::response::compressed::Content;
pub use self::response::cookies::Cookies;
pub use self::response::events::EventStream;
pub use self::response::expect::{BodyRegex, Expect, ExpectError, Expectations, Lengths, Statuses};
use self::response::expect::{Checker, Expected};
pub use self::response::fields::HeaderFields;
pub(crate) use self::response::grpc::CONTENT_TYPE as GRPC;
#[cfg(any(test, fuzzing))]
pub use self::response::grpc::laws as grpc_laws;
use self::response::head::HeadUse;
pub use self::response::head::HoldHeader;
use self::response::header_values::HeaderValues;
pub use self::response::throttling;
use self::saving::{Collector, RecordedRequest};
pub use self::spec::{CrawlOptions, CrawlSpec};
use crate::dataset::known::{Known, KnownItem};
use crate::dataset::manifest::Saved;
use crate::dataset::writer::Writer;
pub use crate::ids::{IdFormat, Shuffle};

/// Connections that a shard may have open at most, for each request that it may have in flight:
/// with several hosts, some are kept for when their host's turn comes again.
pub const OPEN_PER_LANE: usize = 1 + connect::pool::RESTING_PER_LANE;

/// A shard's crawl, over connections that `D` opens.
#[derive(Debug)]
pub struct Crawl<D: Dial = Tcp> {
    spec: Rc<CrawlSpec>,
    clock: Clock,
    carriers: Carriers<D>,
    requests: Requests,
    checker: Rc<Checker>,
    /// Receivers of responses, lent to one request after another.
    #[expect(clippy::vec_box, reason = "lent for each request: a pointer is moved")]
    receivers: RefCell<Vec<Box<Expected>>>,
    redirects: Redirects,
    flows: Flows,
    /// True if anything may follow a response beside a retry.
    follows_up: bool,
    sampler: Sampler,
    slow_limit: SlowLimit,
    /// Trace ids of the requests, if they have any.
    traces: Option<Traces>,
    /// Collector of records; none without `--save`.
    collector: Option<Rc<Collector>>,
    /// What is known of the items; none but with `--refresh`.
    known: Option<Rc<Known>>,
}

impl Crawl {
    /// A crawl over so many connections at once to each host that stamps its attempts by `clock`.
    /// Call inside the shard's runtime.
    #[must_use]
    pub fn new(spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let dial = Tcp {
            tls: spec.tls.clone(),
            clock,
            unix_socket: spec.options.unix_socket.clone(),
            receive_stamps: spec.options.receive_stamps,
            acks_at_once: spec.options.acks_at_once,
        };
        Self::over(dial, spec, connections, clock)
    }
}

impl<D: Dial> Crawl<D> {
    /// Create the crawl over connections that `dial` opens.
    #[must_use]
    pub fn over(dial: D, spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let spec = Rc::new(spec);
        Self {
            clock,
            carriers: Carriers::new(dial, Rc::clone(&spec), connections, clock),
            requests: Requests::new(&spec.request, &spec.targets),
            checker: Rc::new(Checker::new(
                spec.expect.clone(),
                HeadUse {
                    held: spec.held,
                    content: spec.options.content,
                    follows: spec.options.follow > 0,
                    takes: spec.targets.has_flows(),
                    reads_content: false,
                },
                HeaderValues::of(&spec.options.traits),
            )),
            receivers: RefCell::default(),
            flows: Flows::default(),
            follows_up: spec.options.follow > 0
                || spec.options.retry_on.is_some()
                || spec.targets.has_flows(),
            redirects: if spec.options.follow > 0 || spec.targets.has_flows() {
                Redirects::among(spec.targets.hosts())
            } else {
                Redirects::default()
            },
            sampler: Sampler::default(),
            slow_limit: SlowLimit::default(),
            traces: None,
            collector: None,
            known: spec
                .options
                .session
                .as_ref()
                .and_then(|session| session.known.clone()),
            spec,
        }
    }

    /// Set the place of the shard among the others, which decides the source addresses, proxies and
    /// sessions of its connections.
    #[must_use]
    pub fn at(self, slots: ConnectionSlots) -> Self {
        Self {
            carriers: self.carriers.at(slots),
            ..self
        }
    }

    /// Send a trace id with each request, if there are any.
    #[must_use]
    pub fn tracing(self, traces: Option<Traces>) -> Self {
        Self { traces, ..self }
    }

    /// Have `writer` save a record of each item that ends. Call inside the shard's runtime.
    #[must_use]
    pub fn saving(self, writer: Writer, saved: &Saved) -> Self {
        self.checker.save(saved);
        Self {
            collector: Some(Collector::start(writer, self.clock)),
            ..self
        }
    }

    /// Save the record of an attempt, if it has one: the last of its item, or one whose response is
    /// to be saved.
    fn save(&self, collector: &Collector, sample: &Sample) {
        let requested = collector.take_requested();
        self.checker.with_last(|response| {
            let id = self.id(sample.permit.id);
            let flow = self.spec.targets.flow_of(id);
            let place = flow.and_then(|flow| self.flows.place(flow, sample));
            if sample.fate != Fate::Ended && place.is_none() {
                return;
            }
            let url = requested.or_else(|| self.listed_url(id));
            collector.add(&RecordedRequest { id, place, url }, sample, response);
        });
    }

    /// Return the URL of an ID, without secrets; none if there is one template for all.
    fn listed_url(&self, id: u64) -> Option<String> {
        let request = self
            .spec
            .targets
            .only()
            .is_none()
            .then(|| self.request(Item::first(id)))?;
        Some(self.url(request.host(), &request.path()))
    }

    /// True if a request asks for the response that is known: by GET, and at its URL.
    fn is_of(&self, known: &KnownItem, item: Item<'_>) -> bool {
        let request = self.request(item);
        request.method() == Method::GET
            && match &known.url {
                Some(url) => **url == self.url(request.host(), &request.path()),
                None => item.chain.is_none(),
            }
    }

    fn request<'a>(&'a self, item: Item<'a>) -> Request<'a> {
        Request::new(&self.spec.targets, &self.spec.request, item)
    }

    /// Return the URL of a path, without secrets.
    fn url(&self, host: usize, path: &str) -> String {
        let host = &self.spec.targets.hosts()[host];
        redact::url(
            &[
                host.scheme.prefix(),
                host.header().to_str().unwrap_or_default(),
                path,
            ]
            .concat(),
        )
    }

    /// Return the ID that is crawled for item `id`.
    #[inline]
    fn id(&self, id: u64) -> u64 {
        self.spec
            .options
            .shuffle
            .as_ref()
            .map_or(id, |shuffle| shuffle.id(id))
    }

    /// An attempt that failed now, of which nothing was sent.
    fn unsent(&self, kind: ErrorKind) -> Attempt {
        Attempt::unsent(kind, self.clock.now())
    }

    /// True if robots.txt allows a path of a host, or does not apply.
    fn is_allowed(&self, host: usize, path: &str) -> bool {
        let rules = self
            .spec
            .options
            .robots
            .as_ref()
            .and_then(|robots| robots.get(host)?.as_ref());
        rules.is_none_or(|rules| rules.is_allowed(path))
    }
}

impl<D: Dial> Workload for Crawl<D> {
    fn host(&self, id: u64) -> u32 {
        let targets = &self.spec.targets;
        let redirected = (self.spec.options.follow > 0).then(|| self.redirects.of(id));
        let next = match redirected.flatten() {
            Some(redirected) => Some(redirected.chain.host),
            None if targets.has_flows() => self.flows.of(id).map(|item| item.request.host),
            None => None,
        };
        next.and_then(|host| u32::try_from(host).ok())
            .unwrap_or_else(|| targets.host_of(self.id(id)))
    }

    fn has_one_route(&self) -> bool {
        let proxies = self
            .spec
            .proxies
            .as_ref()
            .map_or(0, |proxies| proxies.all.len());
        self.spec.targets.hosts().len() == 1 && proxies <= 1
    }

    fn forbids_some(&self) -> bool {
        self.spec.options.robots.is_some()
    }

    fn may_request(&self, id: u64) -> bool {
        if self.spec.options.robots.is_none() {
            return true;
        }
        let request = self.request(Item::first(self.id(id)));
        self.is_allowed(request.host(), &request.path())
    }

    fn skipped(&self, id: u64) {
        if let Some(collector) = &self.collector {
            let number = id;
            let id = self.id(number);
            collector.skip(number, id, self.listed_url(id).as_deref());
        }
    }

    fn templates(&self) -> u32 {
        u32::try_from(
            self.spec
                .targets
                .templates(self.spec.request.method())
                .len(),
        )
        .unwrap_or(u32::MAX)
    }

    fn template(&self, id: u64) -> u32 {
        let targets = &self.spec.targets;
        targets.template_of(self.id(id), self.flows.performed(id).step as usize - 1)
    }

    fn known_as(&self, id: u64) -> u64 {
        self.id(id)
    }

    fn traces(&self) -> Option<Traces> {
        self.traces
    }

    fn trait_headers(&self) -> &[String] {
        self.checker.traits.names()
    }

    fn trait_value(&self, header: usize, number: u8) -> String {
        self.checker.traits.value(header, number)
    }

    fn sources(&self) -> u32 {
        self.carriers.sources()
    }

    fn excerpt(&self, id: u64) -> Option<String> {
        let progress = self.flows.last(id);
        let RequestTarget {
            before,
            after,
            shape,
            ..
        } = progress
            .as_deref()
            .map(|progress| &progress.request)
            .map_or_else(|| self.spec.targets.of(self.id(id)), StepRequest::target);
        excerpt::excerpt(
            &self.checker.last_bad(),
            &self.spec.request,
            shape,
            [before, after.unwrap_or_default()].concat().as_str(),
        )
    }

    fn booked(&self, sample: &Sample) {
        if let Some(collector) = &self.collector {
            self.save(collector, sample);
        }
        if sample.fate == Fate::Ended {
            if self.spec.options.follow > 0 {
                self.redirects.forget(sample.permit.id);
            }
            if self.spec.targets.has_flows() {
                self.flows.forget(sample.permit.id);
            }
        }
    }

    fn has_room(&self) -> bool {
        self.collector
            .as_ref()
            .is_none_or(|collector| collector.writer.has_room())
    }

    async fn room(&self) {
        if let Some(collector) = &self.collector {
            collector.writer.room().await;
        }
    }

    async fn finish(&self) -> Result<(), String> {
        self.carriers.close().await;
        match &self.collector {
            Some(collector) => collector.writer.finish().await,
            None => Ok(()),
        }
    }

    async fn failed(&self) -> String {
        match &self.collector {
            Some(collector) => collector.writer.failed().await,
            None => pending().await,
        }
    }

    #[inline]
    fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> impl Future<Output = Option<()>> {
        self.attempt(id, flight, clearance, ended)
    }
}
