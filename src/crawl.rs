//! The crawl: the [`Workload`] that performs an ID over HTTP/1.1 or HTTP/2.
//!
//! Connections are kept alive per host in a pool of the shard's own; those of HTTP/2 as their streams. One request at a time on each
//! connection of HTTP/1.1, which is polled inside the task that awaits its answer: that saves a wake-up per request over a task per
//! connection. Its responses are decoded by `codec`. Built inside the shard's process; knows nothing of shards, pacing or statistics.
//!
//! | room | for |
//! |---|---|
//! | `targets`, `template` | URLs, hosts, and IDs in them |
//! | `request` | bytes of a request |
//! | `ids` | order and text of IDs: `--shuffle`, `--id-format` |
//! | `pool`, `reuse`, `connection`, `opening`, `dial` | connections: idle ones, their limit of requests, reading and writing, opening |
//! | [`http2`] | connections of HTTP/2 and their streams |
//! | [`proxy`] | proxies, their sessions and handshakes |
//! | `connect_to`, `local_ips`, `source_addresses` | `--connect-to`, `--local-ips`, and the address of each connection |
//! | [`tls`] | https: certificates, handshakes, kinds of failures |
//! | `failure` | failures of a connection with a kind of their own |
//! | [`codec`], `head`, `header_fields` | decoding of a response, and its `malformed` errors |
//! | `redirects` | where a redirected item goes: `--follow` |
//! | `answer`, `expect`, [`throttling`] | outcome of a response: `--expect`, challenges, 429 and quotas |
//! | `compressed`, `cookies` | content codings (`--compressed`); jars of cookies (`--cookies`) |
//! | `excerpt`, [`redact`] | examples of failed responses; secrets in what is saved or shown |

mod answer;
pub mod codec;
mod compressed;
mod connect_to;
mod connection;
mod cookies;
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
mod pool;
pub mod proxy;
pub mod redact;
mod redirects;
mod request;
mod reuse;
mod source_addresses;
mod targets;
mod template;
pub mod throttling;
pub mod tls;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Fate, Outcome, Repeat, Sample};
use crawlmark_harness::units::Rate;
use crawlmark_harness::workload::{Flight, Workload};

pub use self::connect_to::ConnectTo;
use self::connection::{Broken, Connection, Failure, Unusable, Watch};
use self::cookies::{Jars, LentJar, Owner, SharedJar};
pub(crate) use self::dial::go_from;
pub use self::dial::{Dial, Route, Stream, Tcp};
use self::expect::Checker;
pub use self::expect::{Expect, ExpectError, Expectations, Lengths, Pattern, Statuses};
pub use self::header_fields::HeaderFields;
pub use self::http2::{HttpSettings, HttpVersion};
use self::http2::{Place, Places, Requests, Signal, StreamSlot};
pub use self::ids::{IdFormat, Shuffle};
pub use self::local_ips::{Family, LocalIps, LocalIpsError};
use self::opening::{Opened, Spoken};
use self::pool::Pool;
use self::proxy::{Hop, Proxies, Session};
use self::redirects::{Redirected, Redirects, Refusal};
pub use self::request::{RequestShape, ShapeError};
pub use self::reuse::Reuse;
pub use self::source_addresses::ConnectionSlots;
use self::source_addresses::{ConnectionSlot, SourceAddresses};
use self::targets::RequestTarget;
pub use self::targets::{Host, IdUse, Scheme, Targets};
pub use self::template::{Flaw, Template, TemplateError};

/// Connections that a shard may have open at most, for each request that it may have in flight: with several hosts, some
/// are kept for when their host's turn comes again.
pub const OPEN_PER_LANE: usize = 1 + pool::RESTING_PER_LANE;

/// Everything a shard needs to crawl.
#[derive(Debug, Clone)]
pub struct CrawlSpec {
    /// Addresses of each host, by its number; tried in turn until one answers. None of a host whose proxy looks them up.
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
    /// Source addresses of connections; none leaves the choice to the kernel. Every address of a host is of a family that
    /// they cover.
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
    /// Return the addresses that connections are opened to: those of each host, none of a host behind a proxy, then those of each proxy.
    #[must_use]
    pub fn peers(&self) -> Vec<&[SocketAddr]> {
        let is_direct = |host: usize| self.proxies.as_ref().is_none_or(|proxies| !proxies.serves(host));
        let hosts = self.addresses.iter().enumerate();
        let hosts = hosts.map(|(host, addresses)| if is_direct(host) { &**addresses } else { &[] });
        let proxies = self.proxies.iter().flat_map(|proxies| &proxies.all).map(|proxy| &*proxy.addresses);
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

/// Carrier of one request at a time. Boxed, for each goes in and out of the pool with every request.
#[derive(Debug)]
enum Carrier<S: Stream> {
    /// A connection of HTTP/1.1.
    Connection(Box<Connection<S>>),
    /// A stream of a connection of HTTP/2.
    Stream(Box<StreamSlot>),
}

impl<S: Stream> Carrier<S> {
    /// Return the reason why it cannot carry another request; none if it can.
    fn unusable(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<Unusable> {
        match self {
            Self::Connection(connection) => connection.unusable(cx, flight),
            Self::Stream(stream) => stream.unusable(cx),
        }
    }

    /// Return when its last exchange ended; none of a stream, whose connection may carry others.
    fn idle_since(&self) -> Option<Nanos> {
        match self {
            Self::Connection(connection) => Some(connection.idle_since()),
            Self::Stream(_) => None,
        }
    }
}

/// Past of a carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// Its connection was opened for this request.
    New,
    /// Its connection was there, and may have ended since.
    Kept,
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
    /// Limits on the connections to each host; none without HTTP/2, where each request in flight may have one.
    places: Vec<Rc<Places>>,
    /// Carriers that were put aside for a request that waits, with their hosts.
    reserved: RefCell<Vec<(usize, Carrier<D::Stream>)>>,
    /// Source addresses of the shard's connections, if any were given.
    source_addresses: Option<SourceAddresses>,
    /// Index of the address that answered last, for each host, then for each proxy.
    address: Vec<Cell<usize>>,
    /// Number of the next connection through a proxy, among those of the run.
    turn: Cell<u64>,
    /// Position of the shard's connections among those of the run.
    slots: ConnectionSlots,
    jars: Rc<Jars>,
    redirects: Redirects,
    /// Time before which no other connection may be opened, where their rate is limited.
    next_open: Cell<Nanos>,
}

impl Crawl {
    /// A crawl over so many connections at once to each host that stamps its attempts by `clock`. Call inside the shard's runtime.
    #[must_use]
    pub fn new(spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let unix_socket = spec.options.unix_socket.clone();
        Self::over(Tcp { tls: spec.tls.clone(), clock, unix_socket }, spec, connections, clock)
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
        let places = (0..hosts).filter(|_| is_counted).map(|_| Places::new(connections)).collect();
        let reserved = RefCell::default();
        let proxies = spec.proxies.as_ref().map_or(0, |proxies| proxies.all.len());
        let address = (0..hosts + proxies).map(|_| Cell::new(0)).collect();
        let (turn, slots) = (Cell::new(0), ConnectionSlots::default());
        let source_addresses = None;
        let (jars, redirects, next_open) = (Rc::default(), Redirects::default(), Cell::default());
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
            address,
            turn,
            slots,
            jars,
            redirects,
            next_open,
        }
        .at(slots)
    }

    /// Set the place of the shard among the others, which decides the source addresses, proxies and sessions of its connections.
    #[must_use]
    pub fn at(mut self, slots: ConnectionSlots) -> Self {
        let source_addresses =
            |ips: &LocalIps| SourceAddresses::new(ips.clone(), self.spec.reuse, slots, self.spec.targets.hosts().len());
        self.source_addresses = self.spec.local_ips.as_ref().map(source_addresses);
        (self.turn, self.slots) = (Cell::new(u64::from(slots.shard)), slots);
        self
    }

    /// Open a connection for a request, or wait for a stream of one.
    async fn obtain(&self, host: usize, flight: &Flight) -> Result<(Carrier<D::Stream>, Past), ErrorKind> {
        let Some(places) = self.places.get(host) else {
            return self.connect((host, None), flight).await.map(|carrier| (carrier, Past::New));
        };
        loop {
            if let Some(place) = places.take() {
                let connected = self.connect((host, Some(place)), flight).await;
                if let Err(kind) = connected {
                    // Those that waited for its streams need not wait for another one that fails.
                    (1..self.spec.http.streams).all(|_| places.signal(Signal::Failed(kind)));
                }
                return connected.map(|carrier| (carrier, Past::New));
            }
            let kept = match places.wait().await {
                Signal::Reserved => self.take_reserved(host, flight).await,
                Signal::Free => self.at_rest(host, flight).await,
                Signal::Failed(kind) => return Err(kind),
            };
            if let Some(carrier) = kept {
                return Ok((carrier, Past::Kept));
            }
        }
    }

    /// Wait until the rate of connections allows another one.
    async fn clear_to_open(&self) {
        let Some(rate) = self.spec.options.connect_rate else { return };
        // Shards take turns: each opens one connection in the time in which the run may open as many as there are shards.
        let each_ns = rate.period_ns / rate.permits.max(1);
        let shards = u64::from(self.slots.shards.max(1));
        let now = self.clock.now();
        let next = match self.next_open.get() {
            Nanos(0) => Nanos(now.0.saturating_add(each_ns * u64::from(self.slots.shard))),
            next => next.max(now),
        };
        self.next_open.set(Nanos(next.0.saturating_add(each_ns.saturating_mul(shards)).max(1)));
        if next > now {
            tokio::time::sleep_until(self.clock.instant(next)).await;
        }
    }

    /// Lend the cookies of a new connection to a host, where they are kept.
    fn jar(&self, host: usize, hop: Option<&Hop>) -> Option<LentJar> {
        let shares = self.spec.proxies.as_ref().is_some_and(|proxies| matches!(proxies.session, Session::Sticky(_)));
        let owner = match hop.and_then(|hop| hop.session) {
            None => Owner::Slot,
            Some(session) if shares => Owner::Session(session),
            Some(_) => Owner::Connection,
        };
        (self.spec.options.cookies == Cookies::Kept).then(|| self.jars.lend(host, owner))
    }

    async fn connect(
        &self,
        (host, place): (usize, Option<Place>),
        flight: &Flight,
    ) -> Result<Carrier<D::Stream>, ErrorKind> {
        self.clear_to_open().await;
        let began = self.clock.now();
        let mut last = ErrorKind::ConnectFailed;
        let hop = self.hop(host);
        let (addresses, address) = match (&hop, &self.spec.proxies) {
            (Some(hop), Some(proxies)) => {
                let address = &self.address[self.spec.targets.hosts().len() + hop.proxy];
                (&proxies.all[hop.proxy].addresses, address)
            }
            _ => (&self.spec.addresses[host], &self.address[host]),
        };
        let mut slot = self.source_addresses.as_ref().map(|source_addresses| source_addresses.take(host));
        for turn in 0..addresses.len() {
            let index = (address.get() + turn) % addresses.len();
            let route = match self.route(host, addresses[index], slot.as_ref()) {
                Ok(route) => Route { hop: hop.as_ref(), ..route },
                Err(kind) => {
                    last = kind;
                    continue;
                }
            };
            flight.opening(began);
            match opening::open((&self.dial, flight), route, (&self.spec, self.clock)).await {
                Ok(Opened { spoken, at }) => {
                    address.set(index);
                    flight.opened(at.since(began));
                    return Ok(self.carrier(host, spoken, (hop, place, slot.take())));
                }
                Err(kind) => last = kind,
            }
        }
        if last == ErrorKind::ProxyTargetUnreachable {
            // Of the target: the next connection tries another one.
            self.address[host].set(self.address[host].get().wrapping_add(1));
        }
        Err(last)
    }

    /// Return a carrier of a connection that was opened, and keep its others.
    fn carrier(
        &self,
        host: usize,
        spoken: Spoken<D::Stream>,
        (hop, place, slot): (Option<Hop>, Option<Place>, Option<ConnectionSlot>),
    ) -> Carrier<D::Stream> {
        match spoken {
            Spoken::Http1(stream) => {
                let jar = self.jar(host, hop.as_ref());
                let connection = Connection::new(stream, &self.spec).with(hop, (place, slot));
                Carrier::Connection(Box::new(connection.with_cookies(jar)))
            }
            Spoken::Http2(greeted) => {
                let (first, others) = greeted.slots(&self.spec, (place, slot));
                others.for_each(|stream| self.keep(host, Carrier::Stream(Box::new(stream))));
                Carrier::Stream(Box::new(first))
            }
        }
    }

    /// Keep a carrier for the next request to its host, which may wait for it.
    fn keep(&self, host: usize, carrier: Carrier<D::Stream>) {
        if self.places.get(host).is_some_and(|places| places.signal(Signal::Reserved)) {
            self.reserved.borrow_mut().push((host, carrier));
        } else {
            self.pool.keep(host, carrier);
        }
    }

    /// Take a carrier that was put aside for a request to this host; none if it has become unusable.
    async fn take_reserved(&self, host: usize, flight: &Flight) -> Option<Carrier<D::Stream>> {
        let at = self.reserved.borrow().iter().position(|(of, _)| *of == host)?;
        let (_, carrier) = self.reserved.borrow_mut().swap_remove(at);
        Self::usable(carrier, flight).await
    }

    /// Return the way of the next connection to a host; none if it is connected to directly.
    fn hop(&self, host: usize) -> Option<Hop> {
        let (proxies, targets) = (self.spec.proxies.as_ref()?, &self.spec.targets);
        let turn = self.turn.get();
        let of_host = &self.spec.addresses[host];
        let address = self.address[host].get().checked_rem(of_host.len()).map(|index| of_host[index]);
        let hop = proxies.hop((host, &targets.hosts()[host]), turn, address)?;
        self.turn.set(turn.wrapping_add(u64::from(self.slots.shards.max(1))));
        Some(hop)
    }

    /// Return the route to `to` from the source address of a slot; fails if that has none of this family.
    fn route(&self, host: usize, to: SocketAddr, slot: Option<&ConnectionSlot>) -> Result<Route<'static>, ErrorKind> {
        let Some((source_addresses, slot)) = self.source_addresses.as_ref().zip(slot) else {
            return Ok(Route { to, from: None, host, hop: None });
        };
        let from = source_addresses.address(slot, Family::of(to.ip())).ok_or(ErrorKind::AddressUnavailable)?;
        Ok(Route { to, from: Some(from), host, hop: None })
    }

    /// Return the ID that is crawled for item `id`.
    fn id(&self, id: u64) -> u64 {
        self.spec.options.shuffle.map_or(id, |shuffle| shuffle.id(id))
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

    /// Have a redirect followed by the next attempt for item `id`, given its `Location` and the request that it answers.
    fn follow(
        &self,
        (id, location): (u64, &[u8]),
        (host, path, count, jar): (usize, &str, u32, Option<SharedJar>),
        (attempt, flight): (&mut Attempt, &Flight),
    ) {
        // One that is listed as good, or refused for another reason, ends the item.
        let Some(status) = attempt.status.filter(|_| attempt.outcome == Outcome::Rejected) else { return };
        let refuse = |kind, details: String| {
            flight.explain(kind, details);
            Outcome::Error(kind)
        };
        attempt.outcome = match redirects::resolve(location, (host, path), self.spec.targets.hosts()) {
            Err(Refusal::NoUrl) => return,
            Err(Refusal::OtherHost(other)) => {
                refuse(ErrorKind::RedirectRefused, format!("to {other}, which is no host of the URLs"))
            }
            Ok(_) if count >= self.spec.options.follow => {
                refuse(ErrorKind::TooManyRedirects, format!("more than {count}, the last with status {status}"))
            }
            Ok((next, path)) => {
                let jar = jar.filter(|_| next == host);
                let form = redirects::form_after(status, self.spec.request.method());
                self.redirects.keep(id, Redirected { host: next, path, count: count + 1, form, jar });
                attempt.advice.repeat = Repeat::Follow;
                Outcome::Redirected
            }
        };
    }

    /// Note if another attempt may help.
    fn judge(&self, attempt: &mut Attempt) {
        // A good or not-found answer ends its item.
        if !matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound)
            && throttling::may_retry(self.spec.request.method(), attempt)
        {
            attempt.advice.repeat = Repeat::MayHelp;
        }
    }

    /// Take a carrier at rest whose connection the target has not closed, and on which it has not sent anything.
    async fn at_rest(&self, host: usize, flight: &Flight) -> Option<Carrier<D::Stream>> {
        if let Some(most) = self.spec.options.idle_timeout {
            let now = self.clock.now();
            let is_over = |since: Nanos| u128::from(now.since(since)) >= most.as_nanos();
            self.pool.expire(host, |carrier| carrier.idle_since().is_some_and(is_over));
        }
        loop {
            // Before the request is charged: what goes on a new connection instead goes later than it was allowed.
            let usable = Self::usable(self.pool.take(host)?, flight).await;
            if usable.is_some() {
                return usable;
            }
        }
    }

    async fn usable(mut carrier: Carrier<D::Stream>, flight: &Flight) -> Option<Carrier<D::Stream>> {
        let unusable = poll_fn(|cx| Poll::Ready(carrier.unusable(cx, flight))).await;
        unusable.is_none().then_some(carrier)
    }

    /// Wait until the request on `carrier` may be sent, and return when it was.
    async fn cleared(carrier: &mut Carrier<D::Stream>, clear_to_send: impl AsyncFn() -> Nanos) -> Nanos {
        let mut clear = pin!(clear_to_send());
        poll_fn(|cx| {
            let polled = clear.as_mut().poll(cx);
            if let (Carrier::Connection(connection), Poll::Pending) = (&mut *carrier, &polled) {
                connection.recheck();
            }
            polled
        })
        .await
    }
}

impl<D: Dial> Workload for Crawl<D> {
    fn host(&self, id: u64) -> u32 {
        self.spec.targets.host_of(self.id(id))
    }

    fn templates(&self) -> u32 {
        u32::try_from(self.spec.targets.templates().len()).unwrap_or(u32::MAX)
    }

    fn template(&self, id: u64) -> u32 {
        self.spec.targets.template_of(self.id(id))
    }

    fn excerpt(&self, id: u64) -> Option<String> {
        let RequestTarget { before, after, .. } = self.spec.targets.of(self.id(id));
        excerpt::excerpt(
            &self.checker.last_bad(),
            &self.spec.request,
            [before, after.unwrap_or_default()].concat().as_str(),
        )
    }

    fn booked(&self, sample: &Sample) {
        // A redirect that found no place among those that wait.
        if self.spec.options.follow > 0 && sample.fate == Fate::Ended {
            drop(self.redirects.take(sample.permit.id));
        }
    }

    async fn perform(&self, id: u64, flight: &Flight, clear_to_send: impl AsyncFn() -> Nanos) -> Attempt {
        let item = id;
        let redirected = if self.spec.options.follow == 0 { None } else { self.redirects.take(item) };
        let id = self.id(item);
        let own_host = self.spec.targets.host_of(id) as usize;
        let host = redirected.as_ref().map_or(own_host, |redirected| redirected.host);
        let mut resends = 0;
        let mut attempt = loop {
            let (mut carrier, past) = match self.at_rest(host, flight).await {
                Some(carrier) => (carrier, Past::Kept),
                // Boxed, for it is larger than all that is needed for a request on a kept connection.
                None => match Box::pin(self.obtain(host, flight)).await {
                    Ok(carrier) => carrier,
                    Err(kind) => break self.unsent(kind),
                },
            };
            let (mut body, mut request, mut own_jar) = (&[][..], None, None);
            match &mut carrier {
                Carrier::Connection(connection) => {
                    let after = connection.count_request();
                    body = match &redirected {
                        None => self.writer.write(id, after, connection.output()),
                        Some(redirected) => {
                            self.writer.write_redirected((own_host, redirected), after, connection.output())
                        }
                    };
                    // The next request of a redirected item may go on another connection, with the cookies of the one before it.
                    let jar = redirected.as_ref().and_then(|redirected| redirected.jar.clone());
                    own_jar = jar.and_then(|jar| connection.swap_jar(jar));
                    connection.add_cookies(self.spec.targets.hosts()[host].scheme());
                }
                Carrier::Stream(stream) => {
                    stream.count_request();
                    request = self.requests.request(id);
                }
            }
            let sent = Self::cleared(&mut carrier, &clear_to_send).await;
            let expected = self.checker.for_item(id);
            let watch = Watch { clock: self.clock, sent, deadline: sent.plus(self.spec.timeout), flight };
            let (ended, traffic, is_reusable) = match (&mut carrier, request) {
                (Carrier::Connection(connection), _) => {
                    let mut ended = connection.exchange(body, expected, watch).await;
                    let used = connection.jar().filter(|_| self.spec.options.follow > 0);
                    if let Some(own) = own_jar {
                        drop(connection.swap_jar(own));
                    }
                    if let Ok(attempt) = &mut ended {
                        connection.rest(attempt.done);
                        if self.spec.options.follow > 0
                            && let Some(location) = connection.take_location()
                        {
                            let path = redirected
                                .as_ref()
                                .map_or_else(|| self.spec.targets.path_of(id), |was| was.path.clone());
                            let count = redirected.as_ref().map_or(0, |was| was.count);
                            self.follow((item, &location), (host, &path, count, used), (attempt, flight));
                        }
                    }
                    (ended, connection.traffic(), connection.is_reusable())
                }
                (Carrier::Stream(stream), Some(request)) => {
                    let ended = stream.exchange(request, self.requests.body(), expected, watch).await;
                    (ended, stream.traffic(), stream.is_reusable())
                }
                (Carrier::Stream(_), None) => break self.unsent(ErrorKind::Http2Protocol),
            };
            if is_reusable {
                self.keep(host, carrier);
            }
            let mut attempt = match ended {
                Ok(attempt) => attempt,
                // The target closed a connection at rest before any of the request went out: nothing was attempted.
                Err(Failure::NotSent(_)) if past == Past::Kept => continue,
                Err(Failure::NotSent(Unusable::Ended(kind))) => break self.unsent(kind),
                Err(Failure::NotSent(Unusable::Spoke)) => {
                    flight.explain(ErrorKind::Malformed, "the target sent bytes before the request".to_owned());
                    break self.unsent(ErrorKind::Malformed);
                }
                Err(Failure::NotBegun(kind)) if resends < http2::most_resends(kind) => {
                    resends += 1;
                    flight.resent();
                    continue;
                }
                Err(Failure::NotBegun(kind)) => self.unsent(kind),
                Err(Failure::Broken(Broken { kind, status })) => Attempt { status, ..self.unsent(kind) },
            };
            (attempt.sent, attempt.first_byte) = (Some(sent), traffic.first_byte);
            (attempt.bytes_sent, attempt.bytes_received) = (traffic.sent, traffic.received);
            break attempt;
        };
        self.judge(&mut attempt);
        attempt
    }
}
