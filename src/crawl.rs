//! The crawl: the [`Workload`] that performs an ID over HTTP/1.1.
//!
//! One request at a time on each connection, connections kept alive per host in a pool of the shard's own. The connection is
//! polled inside the task that awaits its answer, which saves a wake-up per request over a task per connection. Built
//! inside the shard's process; knows nothing of shards, pacing or statistics.

mod answer;
mod connection;
mod dial;
mod expect;
mod local_ips;
mod metered;
mod pool;
pub mod redact;
mod request;
mod reuse;
mod source_addresses;
mod targets;
mod template;
pub mod throttling;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};
use crawlmark_harness::workload::{Flight, Workload};

use self::connection::{Broken, Connection, Failure, Watch};
pub(crate) use self::dial::go_from;
pub use self::dial::{Dial, Route, Stream, Tcp};
use self::expect::Checker;
pub use self::expect::{Expect, ExpectError, Expectations, Lengths, Pattern, Statuses};
pub use self::local_ips::{Family, LocalIps, LocalIpsError};
use self::pool::Pool;
pub use self::request::{RequestShape, ShapeError};
pub use self::reuse::Reuse;
pub use self::source_addresses::ConnectionSlots;
use self::source_addresses::{ConnectionSlot, SourceAddresses};
pub use self::targets::{Host, IdUse, Targets};
pub use self::template::{Flaw, Template, TemplateError};

/// Connections that a shard may have open at most, for each request that it may have in flight: with several hosts, some
/// are kept for when their host's turn comes again.
pub const OPEN_PER_LANE: usize = 1 + pool::RESTING_PER_LANE;

/// Everything a shard needs to crawl.
#[derive(Debug, Clone)]
pub struct CrawlSpec {
    /// Addresses of each host, by its number; tried in turn until one answers.
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
    pub held: Held,
}

/// Use of the target's header about how long it held an answer back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Held {
    /// Not read, which costs nothing.
    #[default]
    Unasked,
    /// The bundled target says so in a header.
    AsTold,
}

/// A shard's crawl, over connections that `D` opens.
#[derive(Debug)]
pub struct Crawl<D: Dial = Tcp> {
    dial: D,
    spec: CrawlSpec,
    clock: Clock,
    writer: RefCell<request::Writer>,
    checker: Checker,
    pool: Pool<Connection<D::Stream>>,
    /// Source addresses of the shard's connections, if any were given.
    origins: Option<SourceAddresses>,
    /// Index of the address that answered last, for each host.
    address: Vec<Cell<usize>>,
}

impl Crawl {
    /// A crawl over so many connections at once that stamps its attempts by `clock`. Call inside the shard's runtime.
    #[must_use]
    pub fn new(spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        Self::over(Tcp, spec, connections, clock)
    }
}

impl<D: Dial> Crawl<D> {
    /// Create the crawl over connections that `dial` opens.
    #[must_use]
    pub fn over(dial: D, spec: CrawlSpec, connections: u32, clock: Clock) -> Self {
        let writer = RefCell::new(request::Writer::new(&spec.request, &spec.targets));
        let checker = Checker::new(spec.expect.clone());
        let pool = Pool::new(spec.targets.hosts().len(), connections);
        let address = spec.addresses.iter().map(|_| Cell::new(0)).collect();
        Self { dial, spec, clock, writer, checker, pool, origins: None, address }.at(ConnectionSlots::default())
    }

    /// Set the place of the shard among the others, which decides the source addresses of its connections.
    #[must_use]
    pub fn at(mut self, berth: ConnectionSlots) -> Self {
        let origins =
            |ips: &LocalIps| SourceAddresses::new(ips.clone(), self.spec.reuse, berth, self.spec.targets.hosts().len());
        self.origins = self.spec.local_ips.as_ref().map(origins);
        self
    }

    async fn connect(&self, host: usize, flight: &Flight) -> Result<Connection<D::Stream>, ErrorKind> {
        let began = self.clock.now();
        flight.opening(began);
        let mut last = ErrorKind::ConnectFailed;
        let (addresses, address) = (&self.spec.addresses[host], &self.address[host]);
        let mut seat = self.origins.as_ref().map(|origins| origins.take(host));
        for turn in 0..addresses.len() {
            let index = (address.get() + turn) % addresses.len();
            let route = match self.route(addresses[index], seat.as_ref()) {
                Ok(route) => route,
                Err(kind) => {
                    last = kind;
                    continue;
                }
            };
            match Connection::open(&self.dial, route, &self.spec, self.clock).await {
                Ok(connection) => {
                    address.set(index);
                    flight.opened(self.clock.now().since(began));
                    return Ok(connection.seated(seat.take()));
                }
                Err(kind) => last = kind,
            }
        }
        Err(last)
    }

    /// The way to `to` from the address of a seat. There is no way from another one.
    fn route(&self, to: SocketAddr, seat: Option<&ConnectionSlot>) -> Result<Route, ErrorKind> {
        let Some((origins, seat)) = self.origins.as_ref().zip(seat) else { return Ok(Route { to, from: None }) };
        let from = origins.address(seat, Family::of(to.ip())).ok_or(ErrorKind::AddressUnavailable)?;
        Ok(Route { to, from: Some(from) })
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

    /// The attempt with whether another one may help.
    fn judged(&self, mut attempt: Attempt) -> Attempt {
        if throttling::may_retry(self.spec.request.method(), &attempt) {
            attempt.advice.repeat = Repeat::MayHelp;
        }
        attempt
    }
}

impl<D: Dial> Workload for Crawl<D> {
    fn host(&self, id: u64) -> u32 {
        self.spec.targets.host_of(id)
    }

    async fn perform(&self, id: u64, flight: &Flight, clear_to_send: impl AsyncFn() -> Nanos) -> Attempt {
        self.judged(self.attempt_at(id, flight, clear_to_send).await)
    }
}

impl<D: Dial> Crawl<D> {
    async fn attempt_at(&self, id: u64, flight: &Flight, clear_to_send: impl AsyncFn() -> Nanos) -> Attempt {
        let host = self.spec.targets.host_of(id) as usize;
        loop {
            let kept = self.pool.take(host);
            let is_new = kept.is_none();
            let mut connection = match kept {
                // Before it is charged: what goes on a new connection instead goes later than it was allowed.
                Some(mut connection) => {
                    if !connection.is_open(self.clock).await {
                        continue;
                    }
                    connection
                }
                None => match self.connect(host, flight).await {
                    Ok(connection) => connection,
                    Err(kind) => return self.unsent(kind),
                },
            };
            let written = self.writer.borrow_mut().write(id, connection.count_request(), connection.spare_headers());
            let request = match written {
                Ok(request) => request,
                Err(kind) => return self.unsent(kind),
            };
            let sent = clear_to_send().await;
            let expected = self.checker.for_item(id);
            let watch = Watch { clock: self.clock, sent, deadline: sent.plus(self.spec.timeout), flight };
            let (mut attempt, is_whole) = match connection.exchange(request, expected, watch).await {
                Ok(answer) => (answer.attempt(), true),
                // The target closed a connection at rest before any of the request went out: nothing was attempted.
                Err(Failure::NotSent) if !is_new => continue,
                Err(Failure::NotSent) => return self.unsent(ErrorKind::Closed),
                Err(Failure::Broken(Broken { kind, status })) => (Attempt { status, ..self.unsent(kind) }, false),
            };
            let meter = connection.meter();
            (attempt.sent, attempt.first_byte) = (Some(sent), meter.first_byte());
            (attempt.bytes_sent, attempt.bytes_received) = (meter.sent(), meter.received());
            if self.spec.held == Held::AsTold && is_whole {
                attempt.advice.held_ns = answer::held_ns(connection.last_headers());
            }
            if is_whole && connection.is_reusable() {
                self.pool.keep(host, connection);
            }
            return attempt;
        }
    }
}
