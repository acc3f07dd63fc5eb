//! The crawl: the [`Workload`] that performs an ID over HTTP/1.1 or HTTP/2.
//!
//! Connections are kept alive per host in a pool of the shard's own; those of HTTP/2 as their
//! streams. One request at a time on each connection of HTTP/1.1, which is polled inside the task
//! that awaits its answer: that saves a wake-up per request over a task per connection. Its
//! responses are decoded by `codec`. Built inside the shard's process; knows nothing of shards,
//! pacing or statistics.
//!
//! | room | for |
//! |---|---|
//! | `targets`, `template` | URLs, hosts, and IDs in them |
//! | `request` | bytes of a request |
//! | `ids` | order and text of IDs: `--shuffle`, `--id-format` |
//! | `carrier`, `pool`, `reuse`, `connection`, `opening`, `dial` | connections: lending, idle ones, their limit of requests, reading and writing, opening |
//! | `receive_stamps` | receive time stamps of the kernel: `--receive-stamps` |
//! | [`http2`] | connections of HTTP/2 and their streams |
//! | [`proxy`] | proxies, their sessions and handshakes |
//! | `connect_to`, `peers`, `local_ips`, `source_addresses` | `--connect-to`, `--dns-ttl`, `--local-ips`, and the addresses of each connection |
//! | [`tls`] | https: certificates, handshakes, kinds of failures |
//! | `failure` | failures of a connection with a kind of their own |
//! | [`codec`], `head`, `header_fields` | decoding of a response, and its `malformed` errors |
//! | `redirects` | where a redirected item goes: `--follow` |
//! | `answer`, `expect`, [`throttling`] | outcome of a response: `--expect`, challenges, 429 and quotas |
//! | `compressed`, `cookies` | content codings (`--compressed`); jars of cookies (`--cookies`) |
//! | `saving` | records of finished items: `--save` |
//! | `excerpt`, [`redact`] | examples of failed responses; secrets in what is saved or shown |

mod answer;
mod carrier;
pub mod codec;
mod compressed;
mod connect_to;
mod connection;
mod cookies;
mod date;
mod dial;
mod excerpt;
mod expect;
mod failure;
mod head;
mod header_fields;
pub mod http2;
mod ids;
mod local_ips;
mod opening;
mod peers;
mod pool;
pub mod proxy;
mod receive_stamps;
pub mod redact;
mod redirects;
mod request;
mod reuse;
mod saving;
mod source_addresses;
pub(crate) mod targets;
mod template;
pub mod throttling;
pub mod tls;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Fate, Outcome, Repeat, Sample};
use crawlmark_harness::units::Rate;
use crawlmark_harness::workload::{Flight, Workload};
use http::Method;
use robotxt::Robots;

use self::carrier::{Carrier, Past};
pub use self::connect_to::ConnectTo;
use self::connection::{Broken, ExchangeFailure, Unusable, Watch};
use self::cookies::{Jars, SharedJar};
pub(crate) use self::dial::go_from;
#[cfg(test)]
pub(crate) use self::dial::silent;
pub use self::dial::{Dial, End, Route, Stream, Tcp};
use self::expect::Checker;
pub use self::expect::{BodyRegex, Expect, ExpectError, Expectations, Lengths, Statuses};
pub use self::header_fields::HeaderFields;
pub use self::http2::{HttpSettings, HttpVersion};
use self::http2::{Places, Requests};
pub use self::ids::{IdFormat, Shuffle};
pub use self::local_ips::{Family, LocalIps, LocalIpsError};
use self::peers::HostAddresses;
pub use self::peers::Lookups;
use self::pool::Pool;
use self::proxy::{Proxies, Sessions};
pub use self::receive_stamps::ReceiveStamps;
use self::receive_stamps::Sampler;
use self::redirects::{Chain, RedirectRefusal, Redirects};
pub use self::request::{RequestShape, ShapeError};
pub use self::reuse::Reuse;
use self::saving::Collector;
pub use self::source_addresses::ConnectionSlots;
use self::source_addresses::SourceAddresses;
use self::targets::RequestTarget;
pub use self::targets::{Host, IdUse, Line, Scheme, Targets};
pub(crate) use self::template::PLACE;
pub use self::template::{Flaw, Template, TemplateError};
use crate::dataset::manifest::Saved;
use crate::dataset::session::Session;
use crate::dataset::writer::Writer;

/// Connections that a shard may have open at most, for each request that it may have in flight:
/// with several hosts, some are kept for when their host's turn comes again.
pub const OPEN_PER_LANE: usize = 1 + pool::RESTING_PER_LANE;

/// Everything a shard needs to crawl.
#[derive(Debug, Clone)]
pub struct CrawlSpec {
    /// Addresses of each host, by its number; used in turn. None of a host whose proxy looks them
    /// up.
    pub addresses: Vec<Vec<SocketAddr>>,
    /// Hosts and paths of the requests.
    pub targets: Arc<Targets>,
    /// Parts that all requests share.
    pub request: RequestShape,
    /// Conditions for a good response.
    pub expect: Expectations,
    /// The longest an attempt may take once a connection is in hand.
    pub timeout: Duration,
    /// The longest that opening a connection may take.
    pub connect_timeout: Duration,
    /// Limit on the number of requests of a connection.
    pub reuse: Reuse,
    /// Source addresses of connections; none leaves the choice to the kernel. Every address of a
    /// host is of a family that they cover.
    pub local_ips: Option<LocalIps>,
    /// Use of the target's header about how long it held an answer.
    pub held: HoldHeader,
    /// TLS settings; none without an https:// host.
    pub tls: Option<tls::Tls>,
    /// Proxies; none if every host is connected to directly.
    pub proxies: Option<Arc<Proxies>>,
    /// Versions of HTTP, and streams of a connection.
    pub http: HttpSettings,
    /// Settings that most crawls leave at their defaults.
    pub options: CrawlOptions,
}

/// Settings of a crawl that most crawls leave at their defaults.
#[derive(Debug, Clone, Default)]
pub struct CrawlOptions {
    /// Order of the IDs; none leaves it as it is.
    pub shuffle: Option<Shuffle>,
    /// Treatment of compressed content.
    pub content: Content,
    /// Treatment of cookies.
    pub cookies: Cookies,
    /// Redirects of an item that are followed at most.
    pub follow: u32,
    /// Unix socket to connect to in the place of any address.
    pub unix_socket: Option<PathBuf>,
    /// Longest time for which a connection may be idle; none leaves it to the target.
    pub idle_timeout: Option<Duration>,
    /// Connections that all shards together may open; none opens them when they are needed.
    pub connect_rate: Option<Rate>,
    /// Lookups during the run; none keeps the addresses that were found before it.
    pub lookups: Option<Lookups>,
    /// Answers whose receive time stamps are read.
    pub receive_stamps: ReceiveStamps,
    /// Rules of robots.txt by host, none of a host whose rules do not apply; none if no rules do.
    pub robots: Option<Arc<Vec<Option<Robots>>>>,
    /// Session of a saved crawl; none without `--save`.
    pub session: Option<Session>,
    /// True if a throttled item is tried until the run ends, as in a crawl that is saved.
    pub keeps_throttled: bool,
    /// Counters of the attempts of which a request was sent, by shard, that outlive the shards'
    /// processes; none if they are not recorded.
    pub sent: Option<Rc<FileCounters>>,
}

/// Treatment of cookies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Not read, and not sent.
    #[default]
    Ignored,
    /// Kept by each connection slot or proxy session.
    Kept,
}

/// Treatment of compressed content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// Expected as it is sent.
    #[default]
    AsSent,
    /// Decoded first.
    Decoded,
}

impl Content {
    /// Content codings that can be decoded, as `Accept-Encoding` lists them.
    pub const ACCEPTED: &str = compressed::ACCEPTED;
}

impl CrawlSpec {
    /// Return the addresses that connections are opened to: those of each host, none of a host
    /// behind a proxy, then those of each proxy.
    #[must_use]
    pub fn peers(&self) -> Vec<&[SocketAddr]> {
        let is_direct = |host: usize| {
            self.proxies
                .as_ref()
                .is_none_or(|proxies| !proxies.serves(host))
        };
        let hosts = self.addresses.iter().enumerate();
        let hosts = hosts.map(|(host, addresses)| if is_direct(host) { &**addresses } else { &[] });
        let proxies = self
            .proxies
            .iter()
            .flat_map(|proxies| &proxies.all)
            .map(|proxy| &*proxy.addresses);
        hosts.chain(proxies).collect()
    }
}

/// Use of the target's header about how long it held an answer back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HoldHeader {
    /// Not read, which costs nothing.
    #[default]
    Ignored,
    /// Read from the responses of the bundled target, which sends it.
    Read,
}

/// A shard's crawl, over connections that `D` opens.
#[derive(Debug)]
pub struct Crawl<D: Dial = Tcp> {
    dial: D,
    spec: CrawlSpec,
    clock: Clock,
    writer: request::Writer,
    checker: Checker,
    requests: Requests,
    pool: Pool<Carrier<D::Stream>>,
    /// Limits on the connections to each host; none without HTTP/2, where each request in flight
    /// may have one.
    places: Vec<Rc<Places>>,
    /// Carriers that were put aside for a request that waits, with their hosts.
    reserved: RefCell<Vec<(usize, Carrier<D::Stream>)>>,
    /// Source addresses of the shard's connections, if any were given.
    source_addresses: Option<SourceAddresses>,
    /// Addresses of each host, then of each proxy.
    peers: RefCell<Vec<HostAddresses>>,
    /// Number of the next connection through a proxy, among those of the run.
    turn: Cell<u64>,
    /// Position of the shard's connections among those of the run.
    slots: ConnectionSlots,
    sessions: Sessions,
    jars: Rc<Jars>,
    redirects: Redirects,
    sampler: Sampler,
    /// Time before which no other connection may be opened, where their rate is limited.
    next_open: Cell<Nanos>,
    /// Collector of records; none without `--save`.
    collector: Option<Rc<Collector>>,
}

impl Crawl {
    /// A crawl over so many connections at once to each host that stamps its attempts by `clock`.
    /// Call inside the shard's runtime.
    #[must_use]
    pub fn new(spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let (unix_socket, receive_stamps) = (
            spec.options.unix_socket.clone(),
            spec.options.receive_stamps,
        );
        Self::over(
            Tcp {
                tls: spec.tls.clone(),
                clock,
                unix_socket,
                receive_stamps,
            },
            spec,
            connections,
            clock,
        )
    }
}

impl<D: Dial> Crawl<D> {
    /// Create the crawl over connections that `dial` opens.
    #[must_use]
    pub fn over(dial: D, spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let writer = request::Writer::new(&spec.request, &spec.targets);
        let checker = Checker::new(spec.expect.clone());
        let requests = Requests::new(&spec.request, &spec.targets);
        let hosts = spec.targets.hosts().len();
        let pool = Pool::new(hosts, connections.saturating_mul(spec.http.streams));
        let is_counted = spec.http.version != HttpVersion::Http1;
        let places = (0..hosts)
            .filter(|_| is_counted)
            .map(|_| Places::new(connections))
            .collect();
        let reserved = RefCell::default();
        let (turn, slots, sessions) = (
            Cell::new(0),
            ConnectionSlots::default(),
            Sessions::default(),
        );
        let source_addresses = None;
        let is_following = spec.options.follow > 0;
        let redirects = if is_following {
            Redirects::among(spec.targets.hosts())
        } else {
            Redirects::default()
        };
        let (jars, next_open) = (Rc::default(), Cell::default());
        let sampler = Sampler::new(spec.options.receive_stamps);
        Self {
            dial,
            spec,
            clock,
            writer,
            checker,
            requests,
            pool,
            places,
            reserved,
            source_addresses,
            peers: RefCell::default(),
            turn,
            slots,
            sessions,
            jars,
            redirects,
            sampler,
            next_open,
            collector: None,
        }
        .at(slots)
    }

    /// Set the place of the shard among the others, which decides the source addresses, proxies and
    /// sessions of its connections.
    #[must_use]
    pub fn at(mut self, slots: ConnectionSlots) -> Self {
        let source_addresses = |ips: &LocalIps| {
            SourceAddresses::new(
                ips.clone(),
                self.spec.reuse,
                slots,
                self.spec.targets.hosts().len(),
            )
        };
        self.source_addresses = self.spec.local_ips.as_ref().map(source_addresses);
        (self.turn, self.slots) = (Cell::new(u64::from(slots.shard)), slots);
        let proxies = self
            .spec
            .proxies
            .iter()
            .flat_map(|proxies| &proxies.all)
            .map(|proxy| &proxy.addresses);
        let (now, shard) = (self.clock.now(), slots.shard as usize);
        let peers = self
            .spec
            .addresses
            .iter()
            .chain(proxies)
            .map(|addresses| HostAddresses::new(addresses, shard, now));
        self.peers = RefCell::new(peers.collect());
        self
    }

    /// Have `writer` save a record of each item that ends. Call inside the shard's runtime.
    #[must_use]
    pub fn saving(self, writer: Writer, saved: &Saved) -> Self {
        Self {
            checker: self.checker.saving(saved),
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
            collector.add((id, url.as_deref()), sample, response);
        });
    }

    /// Return the URL of an ID, without secrets; none if there is one template for all.
    fn listed_url(&self, id: u64) -> Option<String> {
        let (host, path) = self.spec.targets.only().is_none().then(|| self.path(id))?;
        Some(self.url(host, &path))
    }

    /// Return the host and the path of an ID.
    fn path(&self, id: u64) -> (usize, String) {
        let target = self.spec.targets.of(id);
        let mut path = Vec::new();
        target
            .shape
            .unwrap_or(&self.spec.request)
            .write_path(&target, id, &mut path);
        (target.host, String::from_utf8_lossy(&path).into_owned())
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
    fn id(&self, id: u64) -> u64 {
        self.spec
            .options
            .shuffle
            .as_ref()
            .map_or(id, |shuffle| shuffle.id(id))
    }

    /// An attempt that failed now, of which nothing was sent.
    fn unsent(&self, kind: ErrorKind) -> Attempt {
        Attempt {
            sent: None,
            first_byte: None,
            done: self.clock.now(),
            bytes_sent: 0,
            bytes_received: 0,
            status: None,
            outcome: Outcome::Error(kind),
            advice: Advice::default(),
        }
    }

    /// Have the next attempt for item `id` follow a redirect, given its `Location`, the chain of
    /// the request that it answers, and the cookies of that.
    fn follow(
        &self,
        (id, location): (u64, &[u8]),
        (chain, jar): (Option<&Chain>, Option<SharedJar>),
        (attempt, flight): (&mut Attempt, &Flight),
    ) {
        // One that is listed as good, or refused for another reason, ends the item.
        let Some(status) = attempt
            .status
            .filter(|_| attempt.outcome == Outcome::Rejected)
        else {
            return;
        };
        let first = || {
            let id = self.id(id);
            let (host, path) = self.path(id);
            Chain::new(host, path, self.method(id).clone())
        };
        let chain = chain.cloned().unwrap_or_else(first);
        let refuse = |kind, details: String| {
            flight.explain(kind, details);
            Outcome::Error(kind)
        };
        attempt.outcome = match self.redirects.resolve(location, (chain.host, &chain.path)) {
            Err(RedirectRefusal::NoUrl) => return,
            Err(RedirectRefusal::OtherHost(other)) => refuse(
                ErrorKind::RedirectRefused,
                format!("to {other}, which is no host of the URLs"),
            ),
            Ok((host, path)) if !self.is_allowed(host, &path) => refuse(
                ErrorKind::RedirectRefused,
                "to a path that robots.txt forbids".to_owned(),
            ),
            Ok(_) if chain.count >= self.spec.options.follow => refuse(
                ErrorKind::TooManyRedirects,
                format!("more than {}, the last with status {status}", chain.count),
            ),
            Ok(next) => {
                self.redirects.set(id, chain.next(status, next, jar));
                attempt.advice.repeat = Repeat::Follow;
                Outcome::Redirected
            }
        };
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

    /// Note the source address of a request on `carrier`, and return true if it is the first one
    /// from there.
    fn note_source(&self, carrier: &Carrier<D::Stream>, flight: &Flight) -> bool {
        let source = self
            .source_addresses
            .as_ref()
            .and_then(|_| carrier.source());
        source
            .inspect(|(number, _)| flight.sent_from(*number))
            .is_some_and(|(_, is_first)| is_first)
    }

    /// Return the method of the request for ID `id`.
    fn method(&self, id: u64) -> &Method {
        self.spec
            .targets
            .shape_of(id)
            .unwrap_or(&self.spec.request)
            .method()
    }

    /// Note if another attempt for ID `id` may help, and where its item was redirected to.
    fn judge(&self, (id, chain): (u64, Option<&Chain>), attempt: &mut Attempt) {
        if let (Some(collector), Some(chain)) = (&self.collector, chain) {
            collector.redirected_to(self.url(chain.host, &chain.path));
        }
        let method = chain.map_or_else(|| self.method(id), |chain| &chain.method);
        // A good or not-found answer ends its item.
        if !matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound)
            && throttling::may_retry(method, attempt)
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
        let (host, path) = self.path(self.id(id));
        self.is_allowed(host, &path)
    }

    fn skipped(&self, id: u64) {
        if let Some(collector) = &self.collector {
            let number = id;
            let id = self.id(number);
            collector.skip((number, id), self.listed_url(id).as_deref());
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

    fn sources(&self) -> u32 {
        self.source_addresses
            .as_ref()
            .map_or(0, SourceAddresses::numbers)
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
            (&self.spec.request, shape),
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
        clear_to_send: impl AsyncFn() -> Nanos,
    ) -> Attempt {
        flight.sent_from(u32::MAX);
        let item = id;
        let is_following = self.spec.options.follow > 0;
        let chain = if is_following {
            self.redirects.of(item)
        } else {
            None
        };
        let (chain, id) = (chain.as_deref(), self.id(item));
        let host = chain.map_or_else(
            || self.spec.targets.host_of(id) as usize,
            |chain| chain.host,
        );
        let (mut resends, mut is_counted, mut sent_before) = (0, false, 0);
        let mut attempt = loop {
            let (mut carrier, past) = match self.at_rest(host, flight).await {
                Some(carrier) => (carrier, Past::Kept),
                // Boxed, for it is larger than all that is needed for a request on a kept
                // connection.
                None => match Box::pin(self.obtain(host, flight)).await {
                    Ok(carrier) => carrier,
                    Err(kind) => break self.unsent(kind),
                },
            };
            let (mut body, mut request, mut own_jar, mut used_jar) = (&[][..], None, None, None);
            match &mut carrier {
                Carrier::Connection(connection) => {
                    let after = connection.count_request();
                    body = self.writer.write((id, chain), after, connection.output());
                    // The next request of a redirected item may go on another connection, with the
                    // cookies of the one before it.
                    let jar = chain.and_then(|chain| chain.jar.clone());
                    own_jar = jar.and_then(|jar| connection.swap_jar(jar));
                    connection.add_cookies(self.spec.targets.hosts()[host].scheme());
                }
                Carrier::Stream(stream) => {
                    stream.count_request();
                    request = self.requests.request(id, chain);
                }
            }
            let session = carrier.session();
            let is_first = self.note_source(&carrier, flight);
            let sent = self
                .cleared(&mut carrier, &clear_to_send, &mut is_counted)
                .await;
            let mut expected = self.checker.for_item(id);
            let (deadline, is_sampled) = (sent.plus(self.spec.timeout), self.sampler.takes_next());
            let watch = Watch {
                clock: self.clock,
                sent,
                deadline,
                flight,
                is_sampled,
            };
            let (mut ended, traffic, is_reusable) = match &mut carrier {
                Carrier::Connection(connection) => {
                    let ended = connection.exchange(body, &mut expected, &watch).await;
                    used_jar = connection.jar().filter(|_| is_following);
                    if let Some(own) = own_jar {
                        drop(connection.swap_jar(own));
                    }
                    if let Ok(attempt) = &ended {
                        connection.rest(attempt.done);
                    }
                    (ended, connection.traffic(), connection.is_reusable())
                }
                Carrier::Stream(stream) => {
                    let Some((request, body)) = request.take() else {
                        break self.unsent(ErrorKind::Http2Protocol);
                    };
                    let ended = stream.exchange(request, &body, &mut expected, &watch).await;
                    (ended, stream.traffic(), stream.is_reusable())
                }
            };
            if let Ok(attempt) = &mut ended
                && is_following
                && let Some(location) = carrier.take_location()
            {
                self.follow((item, &location), (chain, used_jar), (attempt, flight));
            }
            if is_reusable {
                self.keep(host, carrier);
            }
            let mut attempt = match ended {
                Ok(attempt) => attempt,
                // The target closed a connection at rest before any of the request went out:
                // nothing was attempted.
                Err(ExchangeFailure::NotSent(_)) if past == Past::Kept => continue,
                Err(ExchangeFailure::NotSent(Unusable::Ended(kind))) => break self.unsent(kind),
                Err(ExchangeFailure::NotSent(Unusable::Spoke)) => {
                    flight.explain(
                        ErrorKind::Malformed,
                        "the target sent bytes before the request".to_owned(),
                    );
                    break self.unsent(ErrorKind::Malformed);
                }
                Err(ExchangeFailure::NotBegun(kind)) if resends < http2::most_resends(kind) => {
                    (resends, sent_before) = (resends + 1, sent_before + traffic.sent);
                    flight.resent();
                    continue;
                }
                Err(ExchangeFailure::NotBegun(kind)) => self.unsent(kind),
                Err(ExchangeFailure::Broken(Broken { kind, status })) => Attempt {
                    status,
                    ..self.unsent(kind)
                },
            };
            (attempt.sent, attempt.first_byte) = (Some(sent), traffic.first_byte);
            (attempt.bytes_sent, attempt.bytes_received) = (traffic.sent, traffic.received);
            if let Some(session) = session {
                self.use_session(&session, (attempt.status, attempt.outcome), flight);
            }
            if is_first {
                flight.first_from_source(attempt.outcome);
            }
            break attempt;
        };
        self.judge((id, chain), &mut attempt);
        Attempt {
            bytes_sent: attempt.bytes_sent + sent_before,
            ..attempt
        }
    }
}
