//! The crawl: the [`Workload`] that performs an ID over HTTP/1.1.
//!
//! One request at a time on each connection, connections kept alive in a pool of the shard's own. The connection is
//! polled inside the task that awaits its answer, which saves a wake-up per request over a task per connection. Built
//! inside the shard's process; knows nothing of shards, pacing or statistics.

mod answer;
mod connection;
mod expect;
pub mod manners;
mod request;
mod template;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};
use crawlmark_harness::workload::Workload;

use self::connection::{Connection, Failure};
use self::expect::Checker;
pub use self::expect::{Expect, ExpectError, Expectations, Lengths, Pattern, Statuses};
pub use self::request::{RequestShape, ShapeError};
pub use self::template::{Template, TemplateError};

/// Everything a shard needs to crawl.
#[derive(Debug, Clone)]
pub struct CrawlSpec {
    /// Where the target is; tried in turn until one answers.
    pub addresses: Vec<SocketAddr>,
    /// What is asked for.
    pub request: RequestShape,
    /// What counts as a good answer.
    pub expect: Expectations,
    /// The longest an attempt may take once a connection is in hand.
    pub timeout: Duration,
    /// The longest that opening a connection may take.
    pub connect_timeout: Duration,
}

/// A shard's crawl.
#[derive(Debug)]
pub struct Crawl {
    spec: CrawlSpec,
    clock: Clock,
    writer: RefCell<request::Writer>,
    checker: Checker,
    /// Connections at rest, the most recently used last: it is the one whose state is still in the caches.
    idle: RefCell<Vec<Connection>>,
    /// The address that answered last.
    address: Cell<usize>,
}

impl Crawl {
    /// A crawl that stamps its attempts by `clock`. Call inside the shard's runtime.
    #[must_use]
    pub fn new(spec: CrawlSpec, clock: Clock) -> Self {
        let writer = RefCell::new(request::Writer::new(&spec.request));
        let checker = Checker::new(spec.expect.clone());
        Self { spec, clock, writer, checker, idle: RefCell::new(Vec::new()), address: Cell::new(0) }
    }

    async fn connect(&self) -> Result<(Connection, u64), ErrorKind> {
        let began = self.clock.now();
        let mut last = ErrorKind::ConnectFailed;
        for turn in 0..self.spec.addresses.len() {
            let index = (self.address.get() + turn) % self.spec.addresses.len();
            match Connection::open(self.spec.addresses[index], self.spec.connect_timeout).await {
                Ok(connection) => {
                    self.address.set(index);
                    return Ok((connection, self.clock.now().since(began)));
                }
                Err(kind) => last = kind,
            }
        }
        Err(last)
    }

    fn attempt(&self, sent: Option<Nanos>, connect_ns: Option<u64>, bytes_sent: u64, kind: ErrorKind) -> Attempt {
        Attempt {
            sent,
            first_byte: None,
            done: self.clock.now(),
            connect_ns,
            bytes_sent,
            bytes_received: 0,
            status: None,
            outcome: Outcome::Error(kind),
            advice: Advice::default(),
        }
    }

    /// The attempt with whether another one may help.
    fn judged(&self, mut attempt: Attempt) -> Attempt {
        if manners::may_retry(self.spec.request.method(), &attempt) {
            attempt.advice.repeat = Repeat::MayHelp;
        }
        attempt
    }
}

impl Workload for Crawl {
    async fn perform(&self, id: u64) -> Attempt {
        self.judged(self.attempt_at(id).await)
    }
}

impl Crawl {
    async fn attempt_at(&self, id: u64) -> Attempt {
        let mut connect_ns = None;
        loop {
            let kept = self.idle.borrow_mut().pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok((connection, ns)) => {
                        connect_ns = Some(ns);
                        connection
                    }
                    Err(kind) => return self.attempt(None, None, 0, kind),
                },
            };
            let request = match self.writer.borrow_mut().write(id, connection.spare_headers()) {
                Ok(request) => request,
                Err(kind) => return self.attempt(None, connect_ns, 0, kind),
            };
            let bytes_sent = self.spec.request.bytes(id);
            let sent = self.clock.now();
            let expected = self.checker.for_item(id);
            match connection.exchange(request, expected, self.clock, sent.plus(self.spec.timeout)).await {
                Ok(answer) => {
                    let attempt = answer.attempt(sent, connect_ns, bytes_sent);
                    if connection.is_reusable() {
                        self.idle.borrow_mut().push(connection);
                    }
                    return attempt;
                }
                // The target closed a connection at rest before any of the request went out: nothing was attempted.
                Err(Failure::NotSent) if connect_ns.is_none() => {}
                Err(Failure::NotSent) => return self.attempt(None, connect_ns, 0, ErrorKind::Closed),
                Err(Failure::Broken(broken)) => {
                    let mut attempt = self.attempt(Some(sent), connect_ns, bytes_sent, broken.kind);
                    (attempt.status, attempt.first_byte) = (broken.status, broken.first_byte);
                    attempt.bytes_received = broken.bytes_received;
                    return attempt;
                }
            }
        }
    }
}
