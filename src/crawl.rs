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
//! | `target` | URLs, hosts, IDs, and the request of an item |
//! | `connect` | opening and lending connections: TCP, [`tls`], [`proxy`], source addresses |
//! | `response` | what is expected, what a response says and means: [`throttling`], cookies, codings, gRPC |
//! | `http1` | exchanges of HTTP/1.1; decoding of responses ([`codec`]) |
//! | `http2`, `http3` | connections of HTTP/2 and HTTP/3, and their streams |
//! | here: `spec`, `carrier`, `redirects`, `flows`, `retry`, `saving`, `excerpt`, `fetch` | settings, carriers of requests, what follows a response, records, robots.txt |

mod carrier;
mod connect;
mod excerpt;
mod fetch;
mod flows;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod redirects;
mod response;
mod retry;
mod saving;
mod spec;
mod streams;
pub(crate) mod target;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::sample::{Attempt, ErrorKind, Fate, Outcome, Repeat, Sample, TcpReading};
use crawlmark_harness::trace::Traces;
use crawlmark_harness::workload::{Flight, Workload};
use tokio::sync::MutexGuard;

use self::carrier::{Carrier, Carriers, Past};
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
use self::flows::{Flows, ItemProgress, Shared, SharedState, SharedUse, Visited};
pub use self::http1::codec;
use self::http1::request::Writer as RequestWriter;
use self::http2::Requests;
#[cfg(any(test, fuzzing))]
pub use self::http2::laws as http2_laws;
use self::redirects::{RedirectRefusal, Redirected, Redirects};
pub use self::response::compressed::Content;
pub use self::response::cookies::Cookies;
use self::response::cookies::SharedJar;
pub use self::response::events::EventStream;
use self::response::exchange::{ExchangeFailure, Progress, Watch};
pub use self::response::expect::{BodyRegex, Expect, ExpectError, Expectations, Lengths, Statuses};
use self::response::expect::{Checker, Expected};
pub use self::response::fields::HeaderFields;
pub(crate) use self::response::grpc::CONTENT_TYPE as GRPC;
#[cfg(any(test, fuzzing))]
pub use self::response::grpc::laws as grpc_laws;
use self::response::head::HeadUse;
pub use self::response::head::HoldHeader;
pub use self::response::throttling;
use self::saving::{Collector, RecordedRequest};
pub use self::spec::{CrawlOptions, CrawlSpec};
pub(crate) use self::target::flow::MOST_STEPS;
pub use self::target::flow::{Flow, Step};
use self::target::flow::{ItemList, StepRequest};
pub use self::target::host::{Host, HttpSettings, HttpVersion, Scheme};
pub use self::target::ids::{IdFormat, Shuffle};
pub use self::target::redact;
pub(crate) use self::target::request::TRACEPARENT;
use self::target::request::{Chain, Item, Request};
pub use self::target::shape::{RequestShape, ShapeError};
pub use self::target::takes::Takes;
use self::target::takes::{NextPage, Taken};
use self::target::targets::RequestTarget;
pub(crate) use self::target::targets::dealt;
pub use self::target::targets::{IdUse, Line, Targets};
pub(crate) use self::target::template::PLACE;
pub use self::target::template::{Template, TemplateError};
use self::target::values::Values;
use crate::dataset::batch::Place;
use crate::dataset::manifest::Saved;
use crate::dataset::writer::Writer;

/// Connections that a shard may have open at most, for each request that it may have in flight:
/// with several hosts, some are kept for when their host's turn comes again.
pub const OPEN_PER_LANE: usize = 1 + connect::pool::RESTING_PER_LANE;

/// A shard's crawl, over connections that `D` opens.
#[derive(Debug)]
pub struct Crawl<D: Dial = Tcp> {
    spec: Rc<CrawlSpec>,
    clock: Clock,
    carriers: Carriers<D>,
    writer: RequestWriter,
    checker: Rc<Checker>,
    /// Receivers of responses, lent to one request after another.
    #[expect(clippy::vec_box, reason = "lent for each request: a pointer is moved")]
    receivers: RefCell<Vec<Box<Expected>>>,
    requests: Requests,
    redirects: Redirects,
    flows: Flows,
    sampler: Sampler,
    slow_limit: SlowLimit,
    /// Trace ids of the requests, if they have any.
    traces: Option<Traces>,
    /// Collector of records; none without `--save`.
    collector: Option<Rc<Collector>>,
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
            writer: RequestWriter::new(&spec.request, &spec.targets),
            checker: Rc::new(Checker::new(
                spec.expect.clone(),
                HeadUse {
                    held: spec.held,
                    content: spec.options.content,
                    follows: spec.options.follow > 0,
                    takes: spec.targets.has_flows(),
                    reads_content: false,
                },
            )),
            receivers: RefCell::default(),
            requests: Requests::new(&spec.request, &spec.targets),
            flows: Flows::default(),
            redirects: if spec.options.follow > 0 || spec.targets.has_flows() {
                Redirects::among(spec.targets.hosts())
            } else {
                Redirects::default()
            },
            sampler: Sampler::default(),
            slow_limit: SlowLimit::default(),
            traces: None,
            collector: None,
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

    /// Return the request of an attempt.
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

    /// Have the next attempt for item `id` follow a redirect, given its `Location`, the request
    /// that it answers, and the cookies of that.
    fn follow(
        &self,
        id: u64,
        location: &[u8],
        answered: Item<'_>,
        jar: Option<SharedJar>,
        attempt: &mut Attempt,
        flight: &Flight,
    ) {
        let Some(status) = attempt.status else {
            return;
        };
        let chain = answered.chain.cloned().unwrap_or_else(|| {
            let request = self.request(answered);
            Chain::new(request.host(), request.path(), request.method().clone())
        });
        let (kind, details) = match self.redirects.resolve(location, chain.host, &chain.path) {
            Err(RedirectRefusal::NoUrl) => return,
            Err(RedirectRefusal::OtherHost(other)) => (
                ErrorKind::RedirectRefused,
                format!("to {other}, which is no host of the URLs"),
            ),
            Ok((host, path)) if !self.is_allowed(host, &path) => (
                ErrorKind::RobotsForbidden,
                format!("to {}", redact::url(&path)),
            ),
            Ok(_) if chain.count >= self.spec.options.follow => (
                ErrorKind::TooManyRedirects,
                format!("more than {}, the last with status {status}", chain.count),
            ),
            Ok((host, path)) => {
                let jar = jar.filter(|_| host == chain.host);
                let chain = chain.next(status, host, path);
                self.redirects.set(id, Redirected { chain, jar });
                attempt.advice.repeat = Repeat::Follow;
                attempt.outcome = Outcome::Redirected;
                return;
            }
        };
        flight.explain(kind, details);
        attempt.outcome = Outcome::Error(kind);
    }

    /// Have the next attempt for item `id` send its next request, if it has one: given the one that
    /// was answered, what was taken from the response, and the cookies of that.
    fn step(
        &self,
        id: u64,
        answered: Item<'_>,
        taken: Option<Result<Taken, String>>,
        jar: Option<SharedJar>,
        attempt: &mut Attempt,
        flight: &Flight,
    ) {
        let earlier = self.flows.of(id);
        let list = earlier.as_deref().and_then(|it| it.list.as_ref());
        let is_element = earlier
            .as_ref()
            .is_some_and(|it| it.place().element.is_some());
        let taken = match (attempt.outcome, taken) {
            (Outcome::Ok, Some(taken)) => taken,
            // The others go on.
            (Outcome::NotFound, _) if is_element => Ok(Taken {
                is_missing: true,
                ..Taken::default()
            }),
            _ => return,
        };
        let host = self.request(answered).host();
        let flow = self.spec.targets.flow_of(answered.id);
        let flow = flow.filter(|_| answered.step.is_none());
        let values = match (flow.and_then(|flow| self.flows.shared(flow)), &taken) {
            (Some(shared), Ok(taken)) => Some(shared.set(taken.values.clone())),
            _ => None,
        };
        let next = match self.allowed_request(id, answered, taken, flight) {
            Ok(None) => {
                if list.is_some_and(|list| list.has_some) {
                    attempt.outcome = Outcome::Ok;
                }
                return;
            }
            Ok(Some(next)) => next,
            Err(kind) => {
                attempt.outcome = Outcome::Error(kind);
                return;
            }
        };
        self.redirects.forget(id);
        self.flows.set(
            id,
            ItemProgress {
                jar: jar.filter(|_| next.request.host == host),
                shared: values.or(next.shared),
                ..next
            },
        );
        attempt.advice.repeat = Repeat::Follow;
        attempt.outcome = Outcome::Stepped;
    }

    /// Have an item go on with values that another item of the shard got: with its second request,
    /// or the one that was refused.
    fn begin_with(
        &self,
        item: u64,
        id: u64,
        values: Rc<Values>,
        flight: &Flight,
    ) -> Result<Option<Rc<ItemProgress>>, ErrorKind> {
        let taken = Taken {
            values: Values::clone(&values),
            ..Taken::default()
        };
        self.redirects.forget(item);
        let next = self.allowed_request(item, Item::first(id), Ok(taken), flight)?;
        let shared = Some(values);
        Ok(next.map(|next| self.flows.set(item, ItemProgress { shared, ..next })))
    }

    /// Return an item whose request is sent next; none if that is its first as it is, with the turn
    /// if it is the one that is sent `once`.
    ///
    /// # Errors
    /// When it cannot be sent. None if nothing is sent any more, for that request failed for good.
    async fn begin<'a>(
        &self,
        item: u64,
        once: Option<&'a Shared>,
        flight: &Flight,
    ) -> Result<(Option<Rc<ItemProgress>>, Option<MutexGuard<'a, ()>>), Option<ErrorKind>> {
        let id = self.id(item);
        let Some(once) = once else {
            return Ok((
                self.flows.of(item).or_else(|| self.begin_pages(item, id)),
                None,
            ));
        };
        let turn = once.turn.lock().await;
        match once.state(self.clock).await {
            SharedState::Due(..) => {
                self.flows.begin(item);
                Ok((None, Some(turn)))
            }
            SharedState::Values(values, _) => {
                drop(turn);
                let begun = self.begin_with(item, id, values, flight);
                begun.map(|begun| (begun, None)).map_err(Some)
            }
            SharedState::Failed => Err(None),
        }
    }

    /// Have an item begin with the first of its pages, with nothing in the places of values that
    /// only pages have; none if its first request has no pages.
    fn begin_pages(&self, item: u64, id: u64) -> Option<Rc<ItemProgress>> {
        let takes = &self.spec.targets.flow_of(id)?.first;
        let (values, request) = (takes.on_first_page(), self.request(Item::first(id)));
        let first = StepRequest {
            number: 0,
            page: 1,
            host: request.host(),
            path: request.path(),
            shape: request.shape.clone(),
        };
        let first = (takes.pages() > 0).then(|| first.filled(id, &values))?;
        Some(self.flows.set(item, ItemProgress::new(first.ok()?, values)))
    }

    /// Note in an attempt, and for the items that share values, what it says of those. The item had
    /// the turn if it sent the request that is sent `once`.
    fn note_shared(
        &self,
        item: u64,
        once: Option<&Shared>,
        attempt: &mut Attempt,
        flight: &Flight,
    ) {
        let options = &self.spec.options;
        if let Some(once) = once {
            if once.ended(attempt, options) {
                // It is no request of this item, which goes on once there are values.
                attempt.advice.repeat = Repeat::Follow;
                if attempt.outcome == Outcome::NotFound {
                    attempt.outcome = Outcome::Rejected;
                }
                flight.aside(|it| it.shared_failed += u64::from(once.has_failed()));
            }
            return;
        }
        let flow = self.spec.targets.flow_of(self.id(item));
        let Some(shared) = flow.and_then(|flow| self.flows.shared(flow)) else {
            return;
        };
        // UNAUTHENTICATED is that of gRPC.
        let is_refused =
            attempt.outcome == Outcome::Rejected && matches!(attempt.status, Some(401 | 16));
        if !is_refused {
            if attempt.status.is_some() {
                shared.serve();
            }
        } else if self.flows.renew(&shared, item, options) {
            self.redirects.forget(item);
            attempt.advice.repeat = Repeat::Follow;
        }
    }

    /// Return the request after one that was answered, explained in `flight` if it cannot be sent.
    fn allowed_request(
        &self,
        item: u64,
        answered: Item<'_>,
        taken: Result<Taken, String>,
        flight: &Flight,
    ) -> Result<Option<ItemProgress>, ErrorKind> {
        let next = taken.and_then(|taken| self.next_request(item, answered, taken, flight));
        let (kind, why) = match next {
            Err(why) => (ErrorKind::ExtractFailed, why),
            Ok(Some(ItemProgress {
                request, values, ..
            })) if !self.is_allowed(request.host, &request.path) => {
                let to = values.redacted(redact::url(&request.path));
                (ErrorKind::RobotsForbidden, format!("to {to}"))
            }
            Ok(next) => return Ok(next),
        };
        flight.explain(kind, why);
        Err(kind)
    }

    /// Return the request after one that was answered: its next page, or the next of the line.
    fn next_request(
        &self,
        item: u64,
        answered: Item<'_>,
        mut taken: Taken,
        flight: &Flight,
    ) -> Result<Option<ItemProgress>, String> {
        let Item { id, step, .. } = answered;
        let Some(flow) = self.spec.targets.flow_of(id) else {
            return Ok(None);
        };
        if let Some(refused) = self.flows.refused(item) {
            return self.renewed(flow, &refused, id, &taken.values);
        }
        let number = step.map_or(0, |step| step.number);
        let progress = self.flows.of(item);
        if let Some(progress) = &progress {
            taken.values = taken.values.over(&progress.values);
        }
        let earlier = progress.as_deref().and_then(|it| it.list.as_ref());
        let mut list = if flow.takes(number).has_list() {
            Some(ItemList::read(
                earlier,
                number,
                std::mem::take(&mut taken.items),
            )?)
        } else {
            earlier.cloned()
        };
        if let Some(list) = &mut list {
            list.has_some |= !taken.is_missing && list.element(number).is_some();
        }
        let visited = progress.as_ref().map(|it| it.visited.clone());
        let visited = visited.unwrap_or_default();
        // Nothing else of an element that there is not is requested.
        let (from, page) = if taken.is_missing {
            (flow.steps.len(), None)
        } else {
            (number, self.page_after(answered, &taken, &visited, flight)?)
        };
        let (next, visited) = if let Some(page) = page {
            (Some((page, taken.values)), visited)
        } else {
            let next = flow.after(from, id, taken.values, &mut list)?;
            (next, Visited::default())
        };
        Ok(next.map(|(request, values)| ItemProgress {
            list,
            visited,
            shared: progress.as_ref().and_then(|it| it.shared.clone()),
            performed: progress.map_or_else(|| Cell::new(Place::FIRST), |it| it.performed.clone()),
            ..ItemProgress::new(request, values)
        }))
    }

    /// Return the request of an item whose shared values were refused, with others.
    fn renewed(
        &self,
        flow: &Flow,
        refused: &ItemProgress,
        id: u64,
        values: &Values,
    ) -> Result<Option<ItemProgress>, String> {
        let values = values.clone().over(&refused.values);
        let StepRequest {
            number, page, path, ..
        } = &refused.request;
        let request = if *page == 1 {
            flow.request(*number, id, &values)?
        } else {
            let refused = Item {
                step: Some(&refused.request),
                ..Item::first(id)
            };
            let url = flow.takes(*number).page_at(path);
            let again = self.next_page(flow, refused, &url, &values)?;
            let page = *page;
            Some(StepRequest { page, ..again })
        };
        Ok(request.map(|request| ItemProgress {
            request,
            values,
            jar: None,
            shared_use: Cell::new(SharedUse::Again),
            ..refused.clone()
        }))
    }

    /// Return the request for the page after one that was answered; none if there is none, or none
    /// is to be requested, which is counted in `flight`.
    fn page_after(
        &self,
        answered: Item<'_>,
        taken: &Taken,
        visited: &Visited,
        flight: &Flight,
    ) -> Result<Option<StepRequest>, String> {
        let Some(flow) = self.spec.targets.flow_of(answered.id) else {
            return Ok(None);
        };
        // Without one, it is the first request of an item that has no pages.
        let Some(step) = answered.step else {
            return Ok(None);
        };
        let most = flow.takes(step.number).pages();
        let Some(next) = &taken.next else {
            if most > 0 && step.page == 1 {
                flight.aside(|it| it.pages_without_next += 1);
            }
            return Ok(None);
        };
        if step.page >= most {
            flight.aside(|it| it.pages_cut += 1);
            return Ok(None);
        }
        let next = self.next_page(flow, answered, next, &taken.values)?;
        visited.visit(step);
        let is_new = visited.visit(&next);
        flight.aside(|it| {
            it.pages_followed += u64::from(is_new);
            it.pages_repeated += u64::from(!is_new);
        });
        Ok(is_new.then_some(next))
    }

    /// Return the request for the next page of one that was answered.
    fn next_page(
        &self,
        flow: &Flow,
        answered: Item<'_>,
        next: &NextPage,
        values: &Values,
    ) -> Result<StepRequest, String> {
        let (number, page) = answered
            .step
            .map_or((0, 1), |step| (step.number, step.page));
        let request = self.request(answered);
        let first = self.request(Item::first(answered.id)).shape;
        let shape = flow.shape(number).unwrap_or(first);
        let url = next.url(shape, answered.id, values);
        let to = self
            .redirects
            .resolve(&url, request.host(), &request.path());
        let (host, path) = to.map_err(|refusal| match refusal {
            RedirectRefusal::NoUrl => "the next page has no valid URL".to_owned(),
            RedirectRefusal::OtherHost(other) => {
                format!("the next page is of {other}, which is no host of the URLs")
            }
        })?;
        StepRequest {
            number,
            page: page + 1,
            host,
            path,
            shape: shape.clone(),
        }
        .filled(answered.id, values)
    }

    /// Read the connection of a request that was sent at `sent` and is `done`, unless it failed: if
    /// it is of the sample, was slow, or failed.
    #[inline]
    fn read_tcp(
        &self,
        carrier: &mut Carrier<D::Stream>,
        sent: Nanos,
        done: Option<Nanos>,
        is_sampled: bool,
    ) -> Option<TcpReading> {
        let is_slow = done.is_some_and(|done| self.slow_limit.is_beyond(done.since(sent)));
        if !is_sampled && !is_slow && done.is_some() {
            return None;
        }
        Some(TcpReading {
            is_slow,
            is_sampled,
            ..carrier.read_tcp(sent, self.clock.now())?
        })
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

    /// Refuse a response with a status that is to be retried, whatever else it is.
    fn refuse_listed(&self, attempt: &mut Attempt) {
        let listed = self.spec.options.retry_on.as_ref().zip(attempt.status);
        let is_listed = listed.is_some_and(|(listed, status)| listed.contains(status));
        let wrong = Outcome::Error(ErrorKind::WrongBody);
        if is_listed && [Outcome::Ok, Outcome::NotFound, wrong].contains(&attempt.outcome) {
            attempt.outcome = Outcome::Rejected;
        }
    }

    /// Note if another attempt for an item may help, and its URL if that is not the one of its
    /// line.
    #[inline]
    fn judge(&self, item: Item<'_>, progress: Option<&ItemProgress>, attempt: &mut Attempt) {
        if let Some(collector) = &self.collector
            && (item.chain.is_some() || self.spec.targets.flow_of(item.id).is_some())
        {
            let request = self.request(item);
            let url = self.url(request.host(), &request.path());
            collector.requested(match progress {
                Some(progress) => progress.values.redacted(url),
                None => url,
            });
        }
        // A good or not-found answer ends its item.
        if !matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound)
            && retry::may_retry(
                self.request(item).method(),
                attempt,
                self.spec.options.retry_on.as_ref(),
            )
        {
            let is_kept =
                self.spec.options.keeps_throttled && attempt.outcome == Outcome::Throttled;
            attempt.advice.repeat = if is_kept {
                Repeat::UntilTheEnd
            } else {
                Repeat::MayHelp
            };
        }
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

    fn sources(&self) -> u32 {
        self.carriers.sources()
    }

    fn excerpt(&self, id: u64) -> Option<String> {
        let progress = self.flows.last(id);
        let step = progress.as_deref().map(|progress| &progress.request);
        let RequestTarget {
            before,
            after,
            shape,
            ..
        } = step.map_or_else(|| self.spec.targets.of(self.id(id)), StepRequest::target);
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
        #[cfg(feature = "http3")]
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

    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clear_to_send: impl AsyncFn() -> Option<Nanos>,
    ) -> Option<Attempt> {
        flight.sent_from(u32::MAX);
        let item = id;
        let id = self.id(item);
        let flow = self.spec.targets.flow_of(id);
        let once = flow.filter(|_| self.flows.of(item).is_none());
        let once = once.and_then(|flow| self.flows.shared(flow));
        let (mut progress, mut turn) = (None, None);
        if flow.is_some() {
            (progress, turn) = match self.begin(item, once.as_deref(), flight).await {
                Ok(begun) => begun,
                Err(kind) => return kind.map(|kind| self.unsent(kind)),
            };
        }
        let is_following = self.spec.options.follow > 0;
        let redirected = if is_following {
            self.redirects.of(item)
        } else {
            None
        };
        let chain = redirected.as_deref().map(|redirected| &redirected.chain);
        let step = progress.as_deref().map(ItemProgress::perform);
        let takes = flow.map(|flow| flow.takes(step.map_or(0, |step| step.number)));
        let host = match (chain, step) {
            (Some(chain), _) => chain.host,
            (None, Some(step)) => step.host,
            (None, None) => self.spec.targets.host_of(id) as usize,
        };
        let (mut resends, mut is_counted, mut sent_before) = (0, false, 0);
        let mut first_sent = None;
        let mut attempt = Attempt::unsent(ErrorKind::Io, Nanos::default());
        loop {
            let (mut carrier, past) = match self.carriers.at_rest(host, flight) {
                Some(carrier) => (carrier, Past::Kept),
                // Boxed, for it is larger than all that is needed for a request on a kept
                // connection.
                None => match Box::pin(self.carriers.obtain(host, flight)).await {
                    Ok(carrier) => carrier,
                    Err(kind) => {
                        attempt = self.unsent(kind);
                        break;
                    }
                },
            };
            let (mut body, mut jar) = (&[][..], None);
            let trace = self
                .traces
                .map(|traces| traces.request(id, flight.attempt()).header());
            let trace = trace.as_ref();
            let wanted = Item {
                id,
                chain,
                step,
                trace,
            };
            match &mut carrier {
                Carrier::Connection(connection) => {
                    let (after, output) = (connection.left.take(), &mut connection.output);
                    body = self
                        .writer
                        .write(wanted, after, output, connection.absolute.as_ref());
                    if let Some(lent) = &connection.jar {
                        // The next request of an item may go on another connection, with the
                        // cookies of the one before it.
                        let of_chain = redirected.as_ref().and_then(|it| it.jar.as_ref());
                        let of_step = progress.as_ref().and_then(|it| it.jar.as_ref());
                        let used = Rc::clone(of_chain.or(of_step).unwrap_or(&lent.jar));
                        let scheme = self.spec.targets.hosts()[host].scheme;
                        used.borrow().add_to(output, scheme, wall_time());
                        jar = Some(used);
                    }
                }
                Carrier::Stream(stream) => {
                    stream.count_request(flight);
                    self.requests.write(wanted, &mut stream.output);
                }
                #[cfg(feature = "http3")]
                Carrier::Quic(stream) => {
                    stream.count_request(flight);
                    let spec = &self.spec;
                    stream.output = http3::Output::new(&spec.targets, &spec.request, wanted);
                }
            }
            let is_first = self.carriers.note_source(&carrier, flight);
            let sent = self
                .carriers
                .cleared(&mut carrier, &clear_to_send, &mut is_counted)
                .await?;
            let lent = self.receivers.borrow_mut().pop();
            let mut expected = lent.unwrap_or_else(|| Expected::new(&self.checker));
            expected.restart(id, takes);
            let is_sampled = self.sampler.takes_next();
            if expected.has_events() {
                flight.await_events();
            }
            // A target that held the request before it said that it had not begun it has taken
            // that time.
            let began = first_sent.unwrap_or(sent);
            let watch = Watch {
                clock: self.clock,
                sent: began,
                deadline: began.plus(self.spec.timeout),
                flight,
                is_stamped: match self.spec.options.receive_stamps {
                    ReceiveStamps::All => true,
                    ReceiveStamps::Sampled => is_sampled || expected.has_events(),
                    ReceiveStamps::Off => false,
                },
            };
            let failed = match &mut carrier {
                Carrier::Connection(connection) => {
                    let (jar, expected) = (jar.as_deref(), &mut expected);
                    connection
                        .exchange(body, jar, expected, &watch, &mut attempt)
                        .await
                }
                Carrier::Stream(stream) => {
                    stream.exchange(&mut expected, &watch, &mut attempt).await
                }
                // Boxed, for the library's futures are larger than all others.
                #[cfg(feature = "http3")]
                Carrier::Quic(stream) => {
                    Box::pin(stream.exchange(&mut expected, &watch, &mut attempt)).await
                }
            }
            .err();
            let done = failed.is_none().then_some(attempt.done);
            let reading = self.read_tcp(&mut carrier, sent, done, is_sampled);
            let traffic = *carrier.traffic();
            if carrier.is_reusable(flight) {
                self.carriers.keep(host, carrier);
            } else if let Carrier::Connection(connection) = &carrier {
                flight.closed(connection.closed(failed));
            }
            if let Some(ExchangeFailure { kind, progress }) = failed {
                match progress {
                    // The target closed a connection at rest before any of the request went out:
                    // nothing was attempted.
                    Progress::NotSent if past == Past::Kept => continue,
                    Progress::NotSent | Progress::NotBegun
                        if resends < http2::most_resends(kind) =>
                    {
                        (resends, sent_before) = (resends + 1, sent_before + traffic.sent);
                        if progress == Progress::NotBegun {
                            first_sent = Some(began);
                        }
                        flight.resent();
                        continue;
                    }
                    Progress::NotSent => {
                        if kind == ErrorKind::Malformed {
                            let details = "the target sent bytes before the request";
                            flight.explain(kind, details.to_owned());
                        }
                        attempt = self.unsent(kind);
                        break;
                    }
                    Progress::NotBegun => attempt = self.unsent(kind),
                    Progress::Sent(status) => {
                        attempt = self.unsent(kind);
                        attempt.status = status;
                    }
                }
            }
            self.refuse_listed(&mut attempt);
            let location = expected.location.take();
            // One that is listed as good is followed by the next request of its item.
            if let Some(location) = location.filter(|_| attempt.outcome == Outcome::Rejected) {
                self.follow(item, &location, wanted, jar, &mut attempt, flight);
            } else if flow.is_some() {
                self.step(
                    item,
                    wanted,
                    expected.taken.take(),
                    jar,
                    &mut attempt,
                    flight,
                );
            }
            (attempt.sent, attempt.first_byte) = (Some(began), traffic.first_byte);
            (attempt.bytes_sent, attempt.bytes_received) = (traffic.sent, traffic.received);
            if let Some(reading) = reading {
                flight.read_tcp(reading);
            }
            if is_first {
                flight.first_from_source(attempt.outcome);
            }
            self.receivers.borrow_mut().push(expected);
            break;
        }
        let performed = Item {
            id,
            chain,
            step,
            trace: None,
        };
        self.judge(performed, progress.as_deref(), &mut attempt);
        if flow.is_some() {
            let once = once.as_deref().filter(|_| turn.is_some());
            self.note_shared(item, once, &mut attempt, flight);
        }
        drop(turn);
        attempt.bytes_sent += sent_before;
        Some(attempt)
    }
}
