//! Connections and streams that carry the requests of a crawl: opened, lent to one request at a
//! time, and kept for the next.
//!
//! Called for each request. It must not know what a response means.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{Attempt, ErrorKind, Opening, TcpReading};
use crawlmark_harness::workload::{Clearance, Flight};

use super::connect::{
    dial::{Dial, End, Route},
    failure::{Failure, failure_of},
    local_ips::{ConnectionSlot, ConnectionSlots, Family, SourceAddresses},
    peers::{HostAddresses, LookedUp},
    pool::{Lease, Place, Places, Pool, Reuse, Signal},
    proxy::{Hop, Session},
    stream::Stream,
    tcp_info::TcpReadings,
};
use super::http1::Connection;
use super::http2::{self, Greeted, StreamSlot};
#[cfg(feature = "http3")]
use super::http3;
use super::response::cookies::{Cookies, Jar, Jars, LentJar, Owner};
use super::response::exchange::{ExchangeFailure, Traffic, Watch};
use super::response::expect::Expected;
use super::spec::CrawlSpec;
#[cfg(feature = "http3")]
use super::target::host::HTTP_3;
use super::target::host::{ALPN_2, HTTP_1, HTTP_2, HttpVersion, Scheme};
#[cfg(feature = "http3")]
use crawlmark_harness::workload::Handshake;

/// Carrier of one request at a time. Boxed, for each goes in and out of the pool with every
/// request.
#[derive(Debug)]
pub(crate) enum Carrier<S: Stream> {
    /// A connection of HTTP/1.1.
    Connection(Box<Connection<S>>),
    /// A stream of a connection of HTTP/2.
    Stream(Box<StreamSlot>),
    /// A stream of a connection of HTTP/3.
    #[cfg(feature = "http3")]
    Quic(Box<http3::StreamSlot>),
}

impl<S: Stream> Carrier<S> {
    /// Return the reason why it cannot carry another request; none if it can.
    #[inline]
    fn unusable(&mut self, flight: &Flight) -> Option<ErrorKind> {
        match self {
            Self::Connection(connection) => connection.unusable(flight),
            Self::Stream(_) => (!self.is_reusable(flight)).then_some(ErrorKind::Closed),
            #[cfg(feature = "http3")]
            Self::Quic(_) => (!self.is_reusable(flight)).then_some(ErrorKind::Closed),
        }
    }

    /// Read the state of its connection at the end of a request that was sent at `sent`.
    pub(crate) fn read_tcp(&mut self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
        match self {
            Self::Connection(connection) => connection.read_tcp(sent, now),
            Self::Stream(stream) => stream.read_tcp(sent, now),
            #[cfg(feature = "http3")]
            Self::Quic(_) => None,
        }
    }

    /// Send the request that it has, with the rest of its `body`, and receive the response.
    ///
    /// # Errors
    /// When there was no whole response: with what was sent of the request.
    pub(crate) async fn exchange(
        &mut self,
        body: &[u8],
        jar: Option<&RefCell<Jar>>,
        expected: &mut Expected,
        watch: &Watch<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), ExchangeFailure> {
        match self {
            Self::Connection(connection) => {
                connection
                    .exchange(body, jar, expected, watch, attempt)
                    .await
            }
            Self::Stream(stream) => stream.exchange(expected, watch, attempt).await,
            // Boxed, for the library's futures are larger than all others.
            #[cfg(feature = "http3")]
            Self::Quic(stream) => Box::pin(stream.exchange(expected, watch, attempt)).await,
        }
    }

    /// Return the traffic of the last request.
    pub(crate) const fn traffic(&self) -> &Traffic {
        match self {
            Self::Connection(connection) => &connection.traffic,
            Self::Stream(stream) => &stream.traffic,
            #[cfg(feature = "http3")]
            Self::Quic(stream) => &stream.traffic,
        }
    }

    /// True if another request may be sent on it.
    #[inline]
    pub(crate) fn is_reusable(&self, flight: &Flight) -> bool {
        match self {
            Self::Connection(connection) => connection.is_reusable(),
            Self::Stream(stream) => stream.is_reusable(flight),
            #[cfg(feature = "http3")]
            Self::Quic(stream) => stream.is_reusable(flight),
        }
    }

    /// As [`Lease::source`].
    pub(crate) fn source(&self) -> Option<(u32, bool)> {
        match self {
            Self::Connection(connection) => connection.lease.source(),
            Self::Stream(stream) => stream.source(),
            #[cfg(feature = "http3")]
            Self::Quic(stream) => stream.source(),
        }
    }

    /// Note the end of its connection, which is unusable because of `kind`. That of a stream is noted
    /// already.
    fn note_end(&self, kind: ErrorKind, flight: &Flight) {
        if let Self::Connection(connection) = self {
            flight.closed(connection.closed_at_rest(kind));
        }
    }

    /// Return when the target may close it, as it said; none of a stream, whose connection may carry
    /// others.
    fn closes_at(&self) -> Option<Nanos> {
        match self {
            Self::Connection(connection) => connection.closes_at(),
            Self::Stream(_) => None,
            #[cfg(feature = "http3")]
            Self::Quic(_) => None,
        }
    }

    /// Return when its last exchange ended; none of a stream, whose connection may carry others.
    fn idle_since(&self) -> Option<Nanos> {
        match self {
            Self::Connection(connection) => Some(connection.idle_since),
            Self::Stream(_) => None,
            #[cfg(feature = "http3")]
            Self::Quic(_) => None,
        }
    }
}

/// An open connection.
#[derive(Debug)]
struct Opened<S> {
    spoken: Spoken<S>,
    tcp: TcpReadings,
    /// When the byte stream was open.
    at: Nanos,
}

/// Protocol of a connection.
#[derive(Debug)]
enum Spoken<S> {
    Http1(S),
    Http2(Greeted),
    #[cfg(feature = "http3")]
    Http3(http3::Greeted),
}

/// Past of a carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Its connection was opened for this request.
    New,
    /// Its connection was there, and may have ended since.
    Kept,
}

/// The carriers of a shard, over connections that `D` opens.
#[derive(Debug)]
pub(crate) struct Carriers<D: Dial> {
    dial: D,
    spec: Rc<CrawlSpec>,
    clock: Clock,
    pool: Pool<Carrier<D::Stream>>,
    /// Limits on the connections to each host; none with HTTP/1.1 alone, where each request in
    /// flight may have one.
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
    jars: Rc<Jars>,
    /// Time before which no other connection may be opened, where their rate is limited.
    next_open: Cell<Nanos>,
}

impl<D: Dial> Carriers<D> {
    /// Carriers of at most so many connections at once to each host.
    pub(crate) fn new(dial: D, spec: Rc<CrawlSpec>, connections: u32, clock: Clock) -> Self {
        let hosts = spec.targets.hosts().len();
        let counted = if spec.http.version == HttpVersion::Http1 {
            0
        } else {
            hosts
        };
        Self {
            dial,
            clock,
            pool: Pool::new(hosts, connections.saturating_mul(spec.http.streams)),
            places: (0..counted).map(|_| Places::new(connections)).collect(),
            reserved: RefCell::default(),
            source_addresses: None,
            peers: RefCell::default(),
            turn: Cell::new(0),
            slots: ConnectionSlots::default(),
            jars: Rc::default(),
            next_open: Cell::default(),
            spec,
        }
        .at(ConnectionSlots::default())
    }

    /// Set the place of the shard among the others, which decides the source addresses, proxies and
    /// sessions of its connections.
    pub(crate) fn at(mut self, slots: ConnectionSlots) -> Self {
        let spec = &self.spec;
        self.source_addresses = spec.local_ips.as_ref().map(|ips| {
            let rotates = spec.reuse != Reuse::Unbounded;
            SourceAddresses::new(ips.clone(), rotates, slots, spec.targets.hosts().len())
        });
        let proxies = spec.proxies.iter().flat_map(|proxies| &proxies.all);
        let all = spec.addresses.iter();
        let all = all.chain(proxies.map(|proxy| &proxy.addresses));
        let (now, shard) = (self.clock.now(), slots.shard as usize);
        self.peers = RefCell::new(
            all.map(|addresses| HostAddresses::new(addresses, shard, now))
                .collect(),
        );
        (self.turn, self.slots) = (Cell::new(u64::from(slots.shard)), slots);
        self
    }

    /// Return the number of source addresses that requests are counted by; 0 if none were given.
    pub(crate) fn sources(&self) -> u32 {
        self.source_addresses
            .as_ref()
            .map_or(0, SourceAddresses::numbers)
    }

    /// Note the source address of a request on `carrier`, and return true if it is the first one
    /// from there.
    pub(crate) fn note_source(&self, carrier: &Carrier<D::Stream>, flight: &Flight) -> bool {
        if self.source_addresses.is_none() {
            return false;
        }
        let Some((number, is_first)) = carrier.source() else {
            return false;
        };
        flight.sent_from(number);
        is_first
    }

    /// Open a connection for a request, or wait for a stream of one.
    pub(crate) async fn obtain(
        &self,
        host: usize,
        flight: &Flight,
    ) -> Result<(Carrier<D::Stream>, Past), ErrorKind> {
        let Some(places) = self.places.get(host) else {
            return self
                .connect(host, None, flight)
                .await
                .map(|carrier| (carrier, Past::New));
        };
        loop {
            if let Some(place) = places.take() {
                let connected = self.connect(host, Some(place), flight).await;
                if let Err(kind) = connected {
                    // Those that waited for its streams need not wait for another one that fails.
                    (1..self.spec.http.streams).all(|_| places.signal(Signal::Failed(kind)));
                }
                return connected.map(|carrier| (carrier, Past::New));
            }
            let kept = match places.wait().await {
                Signal::Reserved => self.take_reserved(host, flight),
                Signal::Free => self.at_rest(host, flight),
                Signal::Failed(kind) => return Err(kind),
            };
            if let Some(carrier) = kept {
                return Ok((carrier, Past::Kept));
            }
        }
    }

    /// Wait until the rate of connections allows another one.
    async fn clear_to_open(&self) {
        let Some(rate) = self.spec.options.connect_rate else {
            return;
        };
        // Shards take turns: each opens one connection in the time in which the run may open as
        // many as there are shards.
        let each_ns = rate.period_ns / rate.permits.max(1);
        let shards = u64::from(self.slots.shards.max(1));
        let now = self.clock.now();
        let next = match self.next_open.get() {
            Nanos(0) => Nanos(now.0.saturating_add(each_ns * u64::from(self.slots.shard))),
            next => next.max(now),
        };
        self.next_open.set(Nanos(
            next.0.saturating_add(each_ns.saturating_mul(shards)).max(1),
        ));
        if next > now {
            tokio::time::sleep_until(self.clock.instant(next)).await;
        }
    }

    /// Lend the cookies of a new connection to a host, where they are kept.
    fn jar(&self, host: usize, hop: Option<&Hop>) -> Option<LentJar> {
        let shares = self
            .spec
            .proxies
            .as_ref()
            .is_some_and(|proxies| matches!(proxies.session, Session::Sticky(_)));
        let owner = match hop.and_then(|hop| hop.session) {
            None => Owner::Slot,
            Some(session) if shares => Owner::Session(session),
            Some(_) => Owner::Connection,
        };
        (self.spec.options.cookies == Cookies::Kept).then(|| self.jars.lend(host, owner))
    }

    async fn connect(
        &self,
        host: usize,
        place: Option<Place>,
        flight: &Flight,
    ) -> Result<Carrier<D::Stream>, ErrorKind> {
        self.clear_to_open().await;
        let began = self.clock.now();
        let hop = self.hop(host, flight);
        let peer = hop
            .as_ref()
            .map_or(host, |hop| self.spec.targets.hosts().len() + hop.proxy);
        let order = self.addresses(peer, flight);
        let slot = self
            .source_addresses
            .as_ref()
            .map(|source_addresses| source_addresses.take(host));
        let answered = Cell::new(None);
        let opened = match self.ends(&order, slot.as_ref()) {
            Err(kind) => Err(kind),
            Ok(ends) => {
                flight.opening(began);
                let route = Route {
                    ends: &ends,
                    answered: &answered,
                    host,
                    hop: hop.as_ref(),
                };
                self.open(route, flight).await
            }
        };
        if let Some(answered) = answered.get() {
            self.peers.borrow_mut()[peer].answered(&order, answered, self.clock.now());
        }
        let kind = match opened {
            Ok(Opened { spoken, tcp, at }) => {
                flight.opened(at.since(began));
                if tcp.is_opened_late() {
                    flight.opened_after_retransmit();
                }
                let family = Family::of(order[answered.get().unwrap_or(0)].ip());
                let source = self
                    .source_addresses
                    .as_ref()
                    .zip(slot.as_ref())
                    .map(|(all, slot)| all.counted(slot, family));
                return Ok(self.carrier(
                    host,
                    spoken,
                    tcp,
                    hop,
                    Lease {
                        place,
                        _slot: slot,
                        source,
                    },
                ));
            }
            Err(kind) => kind,
        };
        if let (ErrorKind::ProxyTargetUnreachable, Some(unreachable)) =
            (kind, hop.and_then(|hop| hop.address))
        {
            self.peers.borrow_mut()[host].rest(unreachable, self.clock.now());
        }
        Err(kind)
    }

    /// Open a connection within its time: the byte stream, and the greeting of HTTP/2 where that is
    /// spoken.
    async fn open(
        &self,
        route: Route<'_>,
        flight: &Flight,
    ) -> Result<Opened<D::Stream>, ErrorKind> {
        let (spec, clock) = (&*self.spec, self.clock);
        #[cfg(feature = "http3")]
        if spec.http.version == HttpVersion::Http3 {
            return self.open_quic(route, flight).await;
        }
        let timeout = spec.connect_timeout;
        let (dialled, has_settings) = (Cell::new(Nanos::default()), Cell::new(false));
        let tcp = Cell::new(TcpReadings::default());
        let opened = async {
            let stream = self.dial.dial(route, flight).await?;
            dialled.set(clock.now());
            tcp.set(TcpReadings::begin(stream.socket()));
            let scheme = spec.targets.hosts()[route.host].scheme;
            if speaks_2(spec.http.version, scheme, stream.alpn())? {
                flight.greeting(HTTP_2, dialled.get());
                let greeted = http2::greet(stream, spec.http.streams, clock, &has_settings).await?;
                if greeted.streams < spec.http.streams {
                    flight.allowed(greeted.streams);
                }
                return Ok(Spoken::Http2(greeted));
            }
            flight.greeting(HTTP_1, dialled.get());
            Ok(Spoken::Http1(stream))
        };
        match tokio::time::timeout(timeout, opened).await {
            Err(_) => Err(timed_out(route, flight, has_settings.get(), timeout)),
            Ok(Err(error)) => Err(connect_error(&error, flight)),
            Ok(Ok(spoken)) => Ok(Opened {
                spoken,
                tcp: tcp.get(),
                at: dialled.get(),
            }),
        }
    }

    /// Open a connection of HTTP/3 within its time. What there is to its opening is the handshake,
    /// which is that of TLS.
    #[cfg(feature = "http3")]
    async fn open_quic(
        &self,
        route: Route<'_>,
        flight: &Flight,
    ) -> Result<Opened<D::Stream>, ErrorKind> {
        let (spec, clock) = (&*self.spec, self.clock);
        let Some(tls) = &spec.tls else {
            return Err(ErrorKind::TlsRequired);
        };
        let name = spec.targets.hosts()[route.host].name();
        let opened = async {
            let began = clock.now();
            flight.shaking_hands(began);
            let connected = http3::connect(route, name, tls.quic(), clock).await?;
            let at = clock.now();
            flight.shook_hands(Handshake {
                ns: at.since(began),
                is_resumed: false,
                version: "TLSv1.3",
                cipher: "unknown",
            });
            flight.greeting(HTTP_3, at);
            Ok((http3::greet(connected).await?, at))
        };
        match tokio::time::timeout(spec.connect_timeout, opened).await {
            Err(_) => {
                let limit = spec.connect_timeout;
                let details = format!("no answer from the target's UDP port within {limit:?}");
                flight.explain(ErrorKind::ConnectTimeout, details);
                Err(ErrorKind::ConnectTimeout)
            }
            Ok(Err(error)) => Err(connect_error(&error, flight)),
            Ok(Ok((greeted, at))) => Ok(Opened {
                spoken: Spoken::Http3(greeted),
                tcp: TcpReadings::default(),
                at,
            }),
        }
    }

    /// Close the connections at rest, as far as they have to be told: those of TCP close with this
    /// process.
    #[cfg(feature = "http3")]
    pub(crate) async fn close(&self) {
        if self.spec.http.version == HttpVersion::Http3 {
            for host in 0..self.spec.targets.hosts().len() {
                drop(self.pool.expire(host, |_| true));
            }
            // Their tasks send that they close, at their next turn.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Take a turn: return the addresses of a host or proxy in the order in which a new connection
    /// tries them.
    fn addresses(&self, peer: usize, flight: &Flight) -> Vec<SocketAddr> {
        let (now, peers) = (self.clock.now(), &mut *self.peers.borrow_mut());
        if let Some(lookups) = &self.spec.options.lookups {
            match peers[peer].renew(peer, lookups, self.spec.local_ips.as_ref(), now) {
                Some(LookedUp::Renewed) => flight.looked_up(),
                Some(LookedUp::Failed) => flight.lookup_failed(),
                None => {}
            }
        }
        peers[peer].order(now)
    }

    /// Return a carrier of a connection that was opened, and keep its others.
    fn carrier(
        &self,
        host: usize,
        spoken: Spoken<D::Stream>,
        tcp: TcpReadings,
        hop: Option<Hop>,
        lease: Lease,
    ) -> Carrier<D::Stream> {
        match spoken {
            Spoken::Http1(stream) => {
                let jar = self.jar(host, hop.as_ref());
                let left = self.spec.reuse.begin();
                let mut connection = Connection::new(stream, left, hop, lease, jar);
                connection.tcp = tcp;
                Carrier::Connection(Box::new(connection))
            }
            Spoken::Http2(greeted) => {
                let (first, others) = greeted.slots(self.spec.reuse.begin(), lease, tcp);
                others.for_each(|stream| self.keep(host, Carrier::Stream(Box::new(stream))));
                Carrier::Stream(Box::new(first))
            }
            #[cfg(feature = "http3")]
            Spoken::Http3(greeted) => {
                let streams = self.spec.http.streams;
                let (first, others) = greeted.slots(streams, self.spec.reuse.begin(), lease);
                others.for_each(|stream| self.keep(host, Carrier::Quic(Box::new(stream))));
                Carrier::Quic(Box::new(first))
            }
        }
    }

    /// Keep a carrier for the next request to its host, which may wait for it.
    #[inline]
    pub(crate) fn keep(&self, host: usize, carrier: Carrier<D::Stream>) {
        if self
            .places
            .get(host)
            .is_some_and(|places| places.signal(Signal::Reserved))
        {
            self.reserved.borrow_mut().push((host, carrier));
        } else {
            self.pool.keep(host, carrier);
        }
    }

    /// Take a carrier that was put aside for a request to this host; none if it has become
    /// unusable.
    fn take_reserved(&self, host: usize, flight: &Flight) -> Option<Carrier<D::Stream>> {
        let at = self
            .reserved
            .borrow()
            .iter()
            .position(|(of, _)| *of == host)?;
        let (_, carrier) = self.reserved.borrow_mut().swap_remove(at);
        Self::usable(carrier, flight)
    }

    /// Return the way of the next connection to a host; none if it is connected to directly.
    fn hop(&self, host: usize, flight: &Flight) -> Option<Hop> {
        let (proxies, targets) = (self.spec.proxies.as_ref()?, &self.spec.targets);
        let turn = self.turn.get();
        let address = proxies
            .serves(host)
            .then(|| self.addresses(host, flight).first().copied())
            .flatten();
        let hop = proxies.hop(host, &targets.hosts()[host], turn, address)?;
        let shards = u64::from(self.slots.shards.max(1));
        self.turn.set(turn.wrapping_add(shards));
        Some(hop)
    }

    /// Return the ends of a connection to one of `order` from the source address of a slot; fails
    /// if that has none of their families.
    fn ends(
        &self,
        order: &[SocketAddr],
        slot: Option<&ConnectionSlot>,
    ) -> Result<Vec<End>, ErrorKind> {
        let mut ends = Vec::new();
        for to in order {
            let from = match (&self.source_addresses, slot) {
                (Some(all), Some(slot)) => {
                    let from = all.address(slot, Family::of(to.ip()));
                    Some(from.ok_or(ErrorKind::AddressUnavailable)?)
                }
                _ => None,
            };
            ends.push(End { to: *to, from });
        }
        if ends.is_empty() {
            return Err(ErrorKind::ConnectFailed);
        }
        Ok(ends)
    }

    /// Take a carrier at rest whose connection the target has not closed, and on which it has not
    /// sent anything.
    #[inline]
    pub(crate) fn at_rest(&self, host: usize, flight: &Flight) -> Option<Carrier<D::Stream>> {
        if let Some(most) = self.spec.options.idle_timeout {
            let now = self.clock.now();
            let expired = self.pool.expire(host, |carrier| {
                carrier
                    .idle_since()
                    .is_some_and(|since| u128::from(now.since(since)) >= most.as_nanos())
            });
            for carrier in expired {
                carrier.note_end(ErrorKind::Timeout, flight);
            }
        }
        loop {
            // Before the request is charged: what goes on a new connection instead goes later than
            // it was allowed.
            let carrier = self.pool.take(host)?;
            // A request that meets the target's end of it may not be sent again.
            if carrier.closes_at().is_some_and(|at| at <= self.clock.now()) {
                carrier.note_end(ErrorKind::Timeout, flight);
                continue;
            }
            let usable = Self::usable(carrier, flight);
            if usable.is_some() {
                return usable;
            }
        }
    }

    #[inline]
    fn usable(mut carrier: Carrier<D::Stream>, flight: &Flight) -> Option<Carrier<D::Stream>> {
        match carrier.unusable(flight) {
            None => Some(carrier),
            Some(kind) => {
                carrier.note_end(kind, flight);
                None
            }
        }
    }

    /// Return when a request is sent that nothing limits, and that need not be counted; none of any
    /// other.
    #[inline]
    pub(crate) fn cleared_at_once(&self, clearance: &impl Clearance) -> Option<Nanos> {
        if self.spec.options.sent.is_some() {
            return None;
        }
        clearance.at_once()
    }

    /// Wait until the request on `carrier` may be sent, count it unless its attempt `is_counted`,
    /// and return when it was.
    pub(crate) async fn cleared(
        &self,
        carrier: &mut Carrier<D::Stream>,
        clearance: &impl Clearance,
        is_counted: &mut bool,
    ) -> Option<Nanos> {
        let mut clear = pin!(clearance.wait());
        let sent = poll_fn(|cx| {
            let polled = clear.as_mut().poll(cx);
            if let (Carrier::Connection(connection), Poll::Pending) = (&mut *carrier, &polled) {
                connection.recheck();
            }
            polled
        })
        .await?;
        // Right before the first byte, so that a process that is killed has left out nothing that
        // it sent.
        if let Some(counters) = self.spec.options.sent.as_ref().filter(|_| !*is_counted) {
            counters.add(self.slots.shard as usize);
            *is_counted = true;
            // A file server may have stopped this process there: what may be sent is asked again,
            // and counted once.
            return clearance.wait().await;
        }
        Some(sent)
    }
}

/// Return true if HTTP/2 is spoken on a connection to a host of this scheme whose TLS handshake
/// chose `alpn`.
///
/// # Errors
/// When it has to be, and the target does not.
fn speaks_2(version: HttpVersion, scheme: Scheme, alpn: Option<&[u8]>) -> Result<bool, Failure> {
    let is_chosen = alpn == Some(ALPN_2);
    match (version, scheme) {
        (HttpVersion::Http2, Scheme::Https) if !is_chosen => Err(Failure::new(
            ErrorKind::Http2NotOffered,
            "the target did not choose h2 in the TLS handshake",
        )),
        (HttpVersion::Http2, _) => Ok(true),
        (HttpVersion::Auto, _) => Ok(is_chosen),
        (HttpVersion::Http1 | HttpVersion::Http3, _) => Ok(false),
    }
}

/// Explain which step of opening a connection took too long.
fn timed_out(
    route: Route<'_>,
    flight: &Flight,
    has_settings: bool,
    timeout: Duration,
) -> ErrorKind {
    let proxy = route.hop.map(|hop| &*hop.name);
    let details = match (flight.phase(), proxy) {
        (Some(Opening::Protocol(_)), _) if has_settings => {
            "the target's settings allowed no stream (MAX_CONCURRENT_STREAMS 0)".to_owned()
        }
        (Some(Opening::Protocol(_)), _) => {
            "the connection was open, and no settings of HTTP/2 came".to_owned()
        }
        (Some(Opening::Tls(_)), _) => {
            "the connection was open, and its TLS handshake not answered".to_owned()
        }
        (Some(Opening::Tunnel(_)), Some(proxy)) => {
            format!("{proxy} was connected, and opened no tunnel")
        }
        (_, Some(proxy)) => format!("{proxy} accepted no connection"),
        (_, None) => return ErrorKind::ConnectTimeout,
    };
    flight.explain(
        ErrorKind::ConnectTimeout,
        format!("{details} within {timeout:?}"),
    );
    ErrorKind::ConnectTimeout
}

fn connect_error(error: &io::Error, flight: &Flight) -> ErrorKind {
    // Linux's numbers for "too many open files", here and in the system; the standard library has
    // no names for them.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    if let Some(failure) = failure_of(error) {
        flight.explain(failure.kind, failure.details.clone());
        return failure.kind;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorKind::ConnectRefused,
        io::ErrorKind::TimedOut => ErrorKind::ConnectTimeout,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => ErrorKind::AddressUnavailable,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown => ErrorKind::Unreachable,
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => ErrorKind::TooManyFiles,
        _ => {
            flight.explain(ErrorKind::ConnectFailed, error.to_string());
            ErrorKind::ConnectFailed
        }
    }
}
