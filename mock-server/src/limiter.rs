//! Checks a connection or a request against all limits, whose state is in shared memory, and
//! records the outcome in the ledger. Called by the server once per connection and once per
//! request.
//!
//! It must not decide anything itself (`limit` does), and it must not know the form of a response.

mod early_retry;

use crate::clock;
use crate::config::Config;
use crate::ledger::{LedgerWriter, Pass};
use crate::limit::{
    Algorithm, Clients, KeyHash, Limit, LimitDecision, MAX_LIMITS, Over, RetryAfter, Standing,
};
use crate::shared::{Decided, KeyQuery, Keys, SlotIndex, Telling};
use early_retry::{EarlyRetry, Refusals};
use hyper::header::HeaderMap;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

const NS_PER_S: u64 = 1_000_000_000;

/// One connection, as the limiter knows it.
#[derive(Debug)]
pub(crate) struct Visitor {
    address: IpAddr,
    /// One per limit.
    visits: Box<[Visit]>,
    open: Open,
    welcome: Welcome,
}

/// State of a connection for one limit.
#[derive(Debug)]
struct Visit {
    /// The key of all its requests; none if they may have different ones.
    key: Option<KeyHash>,
    /// Place of the latest request's key.
    place: Cell<SlotIndex>,
    heard: Refusals,
}

/// Admission of a connection's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcome {
    Yes,
    /// Above a cap that lets it say so.
    No,
}

/// Counts a connection as open, wherever there is a cap, until it is dropped.
#[derive(Debug)]
struct Open {
    books: Rc<LedgerWriter>,
    counted: Vec<(usize, SlotIndex)>,
}

impl Drop for Open {
    fn drop(&mut self) {
        for (index, place) in self.counted.drain(..) {
            if let Some(keys) = self.books.keys(index) {
                keys.release(place);
            }
        }
    }
}

/// Request for a verdict of the limiter.
pub(crate) struct Asking<'a> {
    pub(crate) now_ns: u64,
    /// The keys of the request, one for each limit whose key is not the connection's, in order.
    pub(crate) keys: Vec<KeyHash>,
    pub(crate) about: About,
    pub(crate) turns: Turns,
    pub(crate) config: &'a Config,
    pub(crate) books: &'a LedgerWriter,
}

/// Limits that a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// For the target itself: the limits for all requests, and that of the stub that is to answer,
    /// if it has one.
    Own { of_stub: Option<usize> },
    /// To be forwarded: the limits that count the sessions of a proxy.
    Forwarded,
}

/// Order of the requests of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// Each after the answer to the one before.
    InTurn,
    /// Many at once: their client may not have heard yet what others of them are told.
    AtOnce,
}

/// Verdict on a request.
pub(crate) enum AdmissionVerdict<'a> {
    Admitted(Admission<'a>),
    Rejected(Rejection),
    /// Its connection is above a cap.
    Unwelcome,
}

/// A request that was let through. It is in flight, wherever there is a cap, until this is dropped.
pub(crate) struct Admission<'a> {
    /// For how long it is to be held on top of everything else.
    pub(crate) delay: Duration,
    /// State of the limits that tell, by their numbers.
    pub(crate) standings: Vec<(usize, Standing)>,
    in_flight: Vec<(&'a Keys, SlotIndex)>,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        for (keys, place) in self.in_flight.drain(..) {
            keys.release(place);
        }
    }
}

/// A request that was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The limit that did.
    pub(crate) limit: usize,
    /// Nanoseconds until it would let the request through, at least 1.
    pub(crate) retry_after_ns: u64,
    /// When the client is told to come back.
    pub(crate) told: Told,
}

/// When a client is told to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// In so many seconds.
    Seconds(u64),
    /// At that date, `wall_s` in seconds since 1970, told at `now_s`.
    Date { now_s: u64, wall_s: u64 },
    /// Not told.
    Nothing,
}

impl Visitor {
    /// A connection from `address` was accepted.
    ///
    /// # Errors
    ///
    /// It is above a cap, and is to be closed in the way that is returned.
    pub(crate) fn new(
        config: &Config,
        books: &Rc<LedgerWriter>,
        address: IpAddr,
    ) -> Result<Self, Over> {
        let visit = |limit: &Limit| Visit {
            key: limit.key.of_connection(address),
            place: Cell::new(SlotIndex::UNKNOWN),
            heard: Refusals::default(),
        };
        let visits = config.limits.iter().map(visit).collect();
        let open = Open {
            books: Rc::clone(books),
            counted: Vec::new(),
        };
        let mut visitor = Self {
            address,
            visits,
            open,
            welcome: Welcome::Yes,
        };
        let now_ns = books.shared().clock().now_ns();
        for (index, limit) in config.limits.iter().enumerate() {
            let Algorithm::Connections(_, over) = limit.algorithm else {
                continue;
            };
            let (Some(keys), Some(query)) =
                (books.keys(index), visitor.query(limit, index, now_ns))
            else {
                continue;
            };
            let (step, place) = (keys.take(&query).step, query.place.get());
            if matches!(step, LimitDecision::Admitted { .. }) {
                visitor.open.counted.push((index, place));
                continue;
            }
            if place.is_crowd() {
                books.counters().limiter_overflows.increment();
            }
            books.refused_by(index);
            if over != Over::Unavailable {
                return Err(over);
            }
            // It does not count where it is above the cap, nor anywhere else.
            visitor.open = Open {
                books: Rc::clone(books),
                counted: Vec::new(),
            };
            visitor.welcome = Welcome::No;
            return Ok(visitor);
        }
        for (index, _) in &visitor.open.counted {
            books.admitted_by(*index, Pass::AtOnce);
        }
        Ok(visitor)
    }

    /// The question about the connection itself.
    fn query<'a>(&'a self, limit: &'a Limit, index: usize, now_ns: u64) -> Option<KeyQuery<'a>> {
        let visit = self.visits.get(index)?;
        Some(KeyQuery {
            algorithm: &limit.algorithm,
            key: visit.key?,
            now_ns,
            place: &visit.place,
        })
    }

    /// The keys of one request, where they are not those of its connection. Nothing is allocated if
    /// there are none.
    pub(crate) fn keys(&self, config: &Config, headers: &HeaderMap, path: &str) -> Vec<KeyHash> {
        let by_request = config
            .limits
            .iter()
            .zip(&self.visits)
            .filter(|(_, visit)| visit.key.is_none());
        by_request
            .map(|(limit, _)| limit.key.of_request(self.address, headers, path))
            .collect()
    }

    /// Asks all limits about one request.
    ///
    /// It is let through if all let it through, and takes from none if one does not. With several
    /// limits, all are looked at first, and if some are against it, the one with the longest wait
    /// turns it away: a client that waits for that long has waited for the others, too. Then it
    /// takes from one after the other. If another request was faster at a later one, what was taken
    /// from the earlier ones is given back; for that moment they are stricter than they should be,
    /// never laxer.
    pub(crate) fn ask<'a>(&self, asking: &Asking<'a>) -> AdmissionVerdict<'a> {
        let Asking { config, books, .. } = *asking;
        if config.limits.is_empty() {
            books.admitted(asking.now_ns);
            return AdmissionVerdict::Admitted(Admission::free());
        }
        if self.welcome == Welcome::No {
            books.counters().rejected.increment();
            return AdmissionVerdict::Unwelcome;
        }
        self.look_for_promises(asking);
        let is_alone = config.limits.len() == 1;
        let longest = if is_alone { None } else { self.look(asking) };
        match longest.map_or_else(|| self.take(asking), Err) {
            Ok(admission) => AdmissionVerdict::Admitted(admission),
            Err((index, retry_after_ns)) => {
                books.rejected_by(index);
                let told = self.tell(asking, index, retry_after_ns);
                AdmissionVerdict::Rejected(Rejection {
                    limit: index,
                    retry_after_ns,
                    told,
                })
            }
        }
    }

    /// Every limit on requests with the question for it.
    fn questions<'a, 'b: 'a>(
        &'a self,
        asking: &'a Asking<'b>,
    ) -> impl Iterator<Item = (usize, &'b Limit, &'b Keys, KeyQuery<'a>)> {
        let mut keys = asking.keys.iter();
        let limits = asking.config.limits.iter().zip(&self.visits).enumerate();
        limits.filter_map(move |(index, (limit, visit))| {
            let key = match visit.key {
                Some(key) => key,
                None => *keys.next()?,
            };
            let concerns_it = match asking.about {
                About::Own { of_stub } => {
                    index < asking.config.limits.common() || of_stub == Some(index)
                }
                About::Forwarded => limit.key.clients == Clients::Session,
            };
            if !concerns_it || matches!(limit.algorithm, Algorithm::Connections(..)) {
                return None;
            }
            let table = asking.books.keys(index)?;
            Some((
                index,
                limit,
                table,
                KeyQuery {
                    algorithm: &limit.algorithm,
                    key,
                    now_ns: asking.now_ns,
                    place: &visit.place,
                },
            ))
        })
    }

    fn look_for_promises(&self, asking: &Asking<'_>) {
        let Asking { books, now_ns, .. } = *asking;
        let haste = |(index, _, keys, query): (usize, &Limit, &Keys, KeyQuery<'_>)| {
            let made_ns = keys.promise_made_ns(&query)?;
            Some(
                self.visits
                    .get(index)?
                    .heard
                    .judge(query.key, now_ns, made_ns),
            )
        };
        match self.questions(asking).filter_map(haste).max() {
            None => {}
            Some(EarlyRetry::Crossed) => books.counters().crossed_promises.increment(),
            Some(EarlyRetry::Early) => books.counters().early_retries.increment(),
        }
    }

    /// The limit that is against it for the longest, if any is.
    fn look(&self, asking: &Asking<'_>) -> Option<(usize, u64)> {
        let against = self
            .questions(asking)
            .filter_map(|(index, _, keys, query)| match keys.look(&query).step {
                LimitDecision::Rejected { retry_after_ns } => Some((index, retry_after_ns)),
                LimitDecision::Admitted { .. } => None,
            });
        // The first of equals.
        against.reduce(|one, other| if other.1 > one.1 { other } else { one })
    }

    /// Takes from all, or from none.
    fn take<'a>(&self, asking: &Asking<'a>) -> Result<Admission<'a>, (usize, u64)> {
        let Asking { books, now_ns, .. } = *asking;
        let mut admission = Admission::free();
        let mut passes = [Pass::AtOnce; MAX_LIMITS];
        let mut taken = [0; MAX_LIMITS];
        for (index, limit, keys, query) in self.questions(asking) {
            let Decided { step, state } = keys.take(&query);
            let place = query.place.get();
            if place.is_crowd() {
                books.counters().limiter_overflows.increment();
            }
            match step {
                LimitDecision::Rejected { retry_after_ns } => {
                    self.give_back(asking, &taken[..index]);
                    return Err((index, retry_after_ns));
                }
                LimitDecision::Admitted { delay_ns, .. } => {
                    taken[index] = state;
                    if delay_ns > 0 {
                        passes[index] = Pass::Delayed;
                        admission.delay = admission.delay.max(Duration::from_nanos(delay_ns));
                    }
                    if limit.algorithm.counts_open() {
                        admission.in_flight.push((keys, place));
                    }
                    if !limit.headers.is_empty() {
                        admission
                            .standings
                            .push((index, limit.algorithm.standing(state, now_ns)));
                    }
                }
            }
        }
        for (index, ..) in self.questions(asking) {
            books.admitted_by(index, passes[index]);
        }
        if asking.about != About::Forwarded {
            books.admitted(
                now_ns
                    .saturating_add(u64::try_from(admission.delay.as_nanos()).unwrap_or(u64::MAX)),
            );
        }
        Ok(admission)
    }

    /// Gives back what was taken from the limits before one that was against it, which left these
    /// states behind. What is in flight ends with the admission.
    fn give_back(&self, asking: &Asking<'_>, taken: &[u64]) {
        for (index, limit, keys, query) in self.questions(asking) {
            let Some(taken) = taken.get(index) else {
                return;
            };
            if !limit.algorithm.counts_open() {
                keys.give_back(&query, *taken, || asking.books.shared().clock().now_ns());
            }
        }
    }

    /// Decide what the client is told by a limit, which is then a promise.
    fn tell(&self, asking: &Asking<'_>, index: usize, retry_after_ns: u64) -> Told {
        let Some((_, limit, keys, query)) =
            self.questions(asking).find(|(other, ..)| *other == index)
        else {
            return Told::Nothing;
        };
        let (told, wait_ns) = match limit.retry_after {
            RetryAfter::None => return Told::Nothing,
            RetryAfter::Seconds => {
                // Rounded up: a client that comes back then is not too early, and 0 would invite to
                // come back at once.
                let seconds = retry_after_ns.div_ceil(NS_PER_S);
                (Told::Seconds(seconds), seconds.saturating_mul(NS_PER_S))
            }
            RetryAfter::Date => {
                let wall = clock::wall();
                let due = wall.saturating_add(Duration::from_nanos(retry_after_ns));
                let wall_s = due.as_secs() + u64::from(due.subsec_nanos() > 0);
                let wait = Duration::from_secs(wall_s).saturating_sub(wall);
                let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
                (
                    Told::Date {
                        now_s: wall.as_secs(),
                        wall_s,
                    },
                    wait_ns,
                )
            }
        };
        let answered_ns = asking.refusal_answered_ns();
        let until_ns = asking.now_ns.saturating_add(wait_ns);
        keys.promise(
            &query,
            Telling {
                asked_ns: asking.now_ns,
                answered_ns,
                until_ns,
            },
        );
        if asking.turns == Turns::InTurn
            && let Some(visit) = self.visits.get(index)
        {
            visit.heard.note(query.key, answered_ns);
        }
        told
    }
}

impl Asking<'_> {
    /// When a refusal is answered: at once, or at the end of a stall if the answer is the target's
    /// own.
    fn refusal_answered_ns(&self) -> u64 {
        match self.about {
            About::Own { .. } => self.config.answerable_ns(self.now_ns),
            About::Forwarded => self.now_ns,
        }
    }
}

impl Admission<'_> {
    /// Admit a request that no limit has seen yet.
    const fn free() -> Self {
        Self {
            delay: Duration::ZERO,
            standings: Vec::new(),
            in_flight: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
