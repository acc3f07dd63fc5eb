//! Connections and streams that carry the requests of a crawl: opened, lent to one request at a
//! time, and kept for the next.
//!
//! Called for each request. It must not know what a response means.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::{Clearance, Flight};

use super::carry::{Carry, End, Terms};
use super::connect::{
    dial::{self, Dial, Route},
    local_ips::{ConnectionSlot, ConnectionSlots, Family, SourceAddresses},
    peers::{HostAddresses, LookedUp},
    pool::{Lease, Place, Places, Pool, Reuse, Signal},
    proxy::{Hop, Session},
    stream::Stream,
};
use super::protocols::{self, Carrier, Opened};
use super::requests::host::HttpVersion;
use super::response::cookies::{Cookies, Jars, LentJar, Owner};
use super::spec::CrawlSpec;

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
        let (now, shard) = (self.clock.now(), slots.shard as usize);
        self.peers = RefCell::new(
            spec.addresses
                .iter()
                .chain(proxies.map(|proxy| &proxy.addresses))
                .map(|addresses| HostAddresses::new(addresses, shard, now))
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
                protocols::open(&self.dial, &self.spec, self.clock, route, flight).await
            }
        };
        if let Some(answered) = answered.get() {
            self.peers.borrow_mut()[peer].answered(&order, answered, self.clock.now());
        }
        let kind = match opened {
            Ok(opened) => {
                flight.opened(opened.at.since(began));
                let family = Family::of(order[answered.get().unwrap_or(0)].ip());
                let source = self
                    .source_addresses
                    .as_ref()
                    .zip(slot.as_ref())
                    .map(|(all, slot)| all.counted(slot, family));
                let lease = Lease {
                    place,
                    _slot: slot,
                    source,
                };
                return self.begin(host, opened, lease, hop, flight);
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

    /// Return a carrier of a connection that was opened, and keep its others.
    fn begin(
        &self,
        host: usize,
        opened: Opened<D::Stream>,
        lease: Lease,
        hop: Option<Hop>,
        flight: &Flight,
    ) -> Result<Carrier<D::Stream>, ErrorKind> {
        if opened.tcp.is_opened_late() {
            flight.opened_after_retransmit();
        }
        let mut carriers = (opened.carriers)(Terms {
            left: self.spec.reuse.begin(),
            lease,
            jar: self.jar(host, hop.as_ref()),
            hop,
            tcp: opened.tcp,
        });
        let first = carriers.pop().ok_or(ErrorKind::ConnectFailed)?;
        for other in carriers {
            self.keep(host, other);
        }
        Ok(first)
    }

    /// Close the connections at rest, as far as they have to be told: those of TCP close with this
    /// process.
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

    /// Keep a carrier for the next request to its host, which may wait for it.
    #[inline(always)]
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
    ) -> Result<Vec<dial::End>, ErrorKind> {
        let mut ends = Vec::new();
        for to in order {
            let from = match (&self.source_addresses, slot) {
                (Some(all), Some(slot)) => {
                    let from = all.address(slot, Family::of(to.ip()));
                    Some(from.ok_or(ErrorKind::AddressUnavailable)?)
                }
                _ => None,
            };
            ends.push(dial::End { to: *to, from });
        }
        if ends.is_empty() {
            return Err(ErrorKind::ConnectFailed);
        }
        Ok(ends)
    }

    /// Take a carrier at rest whose connection the target has not closed, and on which it has not
    /// sent anything.
    #[inline(always)]
    pub(crate) fn at_rest(&self, host: usize, flight: &Flight) -> Option<Carrier<D::Stream>> {
        if let Some(most) = self.spec.options.idle_timeout {
            let now = self.clock.now();
            let expired = self.pool.expire(host, |carrier| {
                carrier
                    .idle_since()
                    .is_some_and(|since| u128::from(now.since(since)) >= most.as_nanos())
            });
            for carrier in expired {
                note_end(&carrier, ErrorKind::Timeout, flight);
            }
        }
        loop {
            // Before the request is charged: what goes on a new connection instead goes later than
            // it was allowed.
            let carrier = self.pool.take(host)?;
            // A request that meets the target's end of it may not be sent again.
            if carrier.closes_at().is_some_and(|at| at <= self.clock.now()) {
                note_end(&carrier, ErrorKind::Timeout, flight);
                continue;
            }
            let usable = Self::usable(carrier, flight);
            if usable.is_some() {
                return usable;
            }
        }
    }

    #[inline(always)]
    fn usable(mut carrier: Carrier<D::Stream>, flight: &Flight) -> Option<Carrier<D::Stream>> {
        match carrier.unusable(flight) {
            None => Some(carrier),
            Some(kind) => {
                note_end(&carrier, kind, flight);
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
            if polled.is_pending() {
                carrier.recheck();
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

/// Note the end of a connection that cannot be used after a rest, because of `kind`.
fn note_end<S: Stream>(carrier: &Carrier<S>, kind: ErrorKind, flight: &Flight) {
    if let Some(closed) = carrier.closed(End::AtRest(kind)) {
        flight.closed(closed);
    }
}
