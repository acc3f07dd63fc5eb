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
//! | here: `spec`, `carrier`, `redirects`, `retry`, `saving`, `excerpt`, `fetch` | settings, carriers of requests, what follows a response, records, robots.txt |

mod carrier;
mod connect;
mod excerpt;
mod fetch;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod redirects;
mod response;
mod retry;
mod saving;
mod spec;
pub(crate) mod target;

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::sample::{Attempt, ErrorKind, Fate, Outcome, Repeat, Sample, TcpReading};
use crawlmark_harness::trace::Traces;
use crawlmark_harness::workload::{Flight, Workload};

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
use self::saving::Collector;
pub use self::spec::{CrawlOptions, CrawlSpec};
pub use self::target::host::{Host, HttpSettings, HttpVersion, Scheme};
pub use self::target::ids::{IdFormat, Shuffle};
pub use self::target::redact;
pub(crate) use self::target::request::TRACEPARENT;
use self::target::request::{Chain, Item, Request};
pub use self::target::shape::{RequestShape, ShapeError};
use self::target::targets::RequestTarget;
pub(crate) use self::target::targets::dealt;
pub use self::target::targets::{IdUse, Line, Targets};
pub(crate) use self::target::template::PLACE;
pub use self::target::template::{Template, TemplateError};
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
                },
            )),
            receivers: RefCell::default(),
            requests: Requests::new(&spec.request, &spec.targets),
            redirects: if spec.options.follow > 0 {
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

    /// Save the record of an item that ended.
    fn save(&self, collector: &Collector, sample: &Sample) {
        let redirected_to = collector.take_redirected_to();
        self.checker.with_last(|response| {
            if sample.fate != Fate::Ended {
                return;
            }
            let id = self.id(sample.permit.id);
            let url = redirected_to.or_else(|| self.listed_url(id));
            collector.add(id, url.as_deref(), sample, response);
        });
    }

    /// Return the URL of an ID, without secrets; none if there is one template for all.
    fn listed_url(&self, id: u64) -> Option<String> {
        let request = self
            .spec
            .targets
            .only()
            .is_none()
            .then(|| self.request(id, None))?;
        Some(self.url(request.host(), &request.path()))
    }

    /// Return the request for an ID, or that of its chain of redirects.
    fn request<'a>(&'a self, id: u64, chain: Option<&'a Chain>) -> Request<'a> {
        let trace = None;
        Request::new(
            &self.spec.targets,
            &self.spec.request,
            Item { id, chain, trace },
        )
    }

    /// Return the URL of a path, without secrets.
    fn url(&self, host: usize, path: &str) -> String {
        let host = &self.spec.targets.hosts()[host];
        redact::url(
            &[
                host.scheme().prefix(),
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

    /// Have the next attempt for item `id` follow a redirect, given its `Location`, the chain of
    /// the request that it answers, and the cookies of that.
    fn follow(
        &self,
        id: u64,
        location: &[u8],
        chain: Option<&Chain>,
        jar: Option<SharedJar>,
        attempt: &mut Attempt,
        flight: &Flight,
    ) {
        // One that is listed as good, or refused for another reason, ends the item.
        let Some(status) = attempt
            .status
            .filter(|_| attempt.outcome == Outcome::Rejected)
        else {
            return;
        };
        let chain = chain.cloned().unwrap_or_else(|| {
            let request = self.request(self.id(id), None);
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

    /// Note if another attempt for ID `id` may help, and where its item was redirected to.
    #[inline]
    fn judge(&self, id: u64, chain: Option<&Chain>, attempt: &mut Attempt) {
        if let (Some(collector), Some(chain)) = (&self.collector, chain) {
            collector.redirected_to(self.url(chain.host, &chain.path));
        }
        // A good or not-found answer ends its item.
        if !matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound)
            && retry::may_retry(self.request(id, chain).method(), attempt)
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
        self.spec.targets.host_of(self.id(id))
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
        let request = self.request(self.id(id), None);
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
        self.spec.targets.template_of(self.id(id))
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
        let RequestTarget {
            before,
            after,
            shape,
            ..
        } = self.spec.targets.of(self.id(id));
        excerpt::excerpt(
            &self.checker.last_bad(),
            &self.spec.request,
            shape,
            [before, after.unwrap_or_default()].concat().as_str(),
        )
    }

    fn booked(&self, sample: &Sample) {
        if self.spec.options.follow > 0 && sample.fate == Fate::Ended {
            self.redirects.forget(sample.permit.id);
        }
        if let Some(collector) = &self.collector {
            self.save(collector, sample);
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
        let is_following = self.spec.options.follow > 0;
        let redirected = if is_following {
            self.redirects.of(item)
        } else {
            None
        };
        let chain = redirected.as_deref().map(|redirected| &redirected.chain);
        let id = self.id(item);
        let host = match chain {
            Some(chain) => chain.host,
            None => self.spec.targets.host_of(id) as usize,
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
            let wanted = Item { id, chain, trace };
            match &mut carrier {
                Carrier::Connection(connection) => {
                    let (after, output) = (connection.left.take(), &mut connection.output);
                    body = self
                        .writer
                        .write(wanted, after, output, connection.absolute.as_ref());
                    if let Some(lent) = &connection.jar {
                        // The next request of a redirected item may go on another connection, with
                        // the cookies of the one before it.
                        let of_chain = redirected.as_ref().and_then(|it| it.jar.as_ref());
                        let used = Rc::clone(of_chain.unwrap_or(&lent.jar));
                        let scheme = self.spec.targets.hosts()[host].scheme();
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
            expected.restart(id);
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
            if let Some(location) = expected.location.take() {
                self.follow(item, &location, chain, jar, &mut attempt, flight);
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
        self.judge(id, chain, &mut attempt);
        attempt.bytes_sent += sent_before;
        Some(attempt)
    }
}
