//! Checks a connection or a request against all limits, whose state is in shared memory, and
//! records the outcome in the ledger. Called by the server once per connection and once per
//! request.
//!
//! Whether a limit admits a key is decided by the limit's algorithm (`limit`). This admits what all
//! limits admit. Otherwise it chooses the limit with the longest wait, the first of equals, as the
//! one that refuses a request, and the first cap that refuses a connection. It must not know the
//! form of a response.

use crate::clock;
use crate::config::Config;
use crate::ledger::LedgerWriter;
use crate::limit::{KeyHash, Limit, LimitDecision, Over, Remaining, RetryAfter};
use crate::shared::{HeldSlot, KeyQuery, SlotIndex, Telling};
use hyper::header::HeaderMap;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

const NS_PER_S: u64 = 1_000_000_000;

/// Time after the first making of a promise for which a request that was not told of it may still
/// be on its way.
const NOTICE_NS: u64 = 50_000_000;

/// One connection, as the limiter knows it.
#[derive(Debug)]
pub(crate) struct Visitor {
    address: IpAddr,
    /// One per limit.
    visits: Box<[Visit]>,
    /// None where nothing counts connections.
    open: Option<Open>,
    /// False above a cap that lets it say so.
    is_welcome: bool,
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

/// Latest refusals of one limit on one connection, by key, with the time at which each was told.
///
/// What is older than [`NOTICE_NS`] is forgotten, because it makes no difference any more.
#[derive(Debug, Default)]
struct Refusals(RefCell<Vec<(KeyHash, u64)>>);

impl Refusals {
    fn note(&self, key: KeyHash, now_ns: u64) {
        let mut told = self.0.borrow_mut();
        told.retain(|(other, told_ns)| {
            *other != key && now_ns.saturating_sub(*told_ns) <= NOTICE_NS
        });
        told.push((key, now_ns));
    }

    /// True if the client of a request could know of a promise that was first made at `made_ns`;
    /// false if the request may have crossed it on the way.
    fn is_early(&self, key: KeyHash, now_ns: u64, made_ns: u64) -> bool {
        let told = self.0.borrow();
        now_ns.saturating_sub(made_ns) > NOTICE_NS
            || told
                .iter()
                .any(|(other, told_ns)| *other == key && *told_ns >= made_ns)
    }
}

/// Places of keys in which a connection, or a request in flight, is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    ledger: Rc<LedgerWriter>,
    /// Numbers of limits, and the places of their keys.
    places: Vec<(usize, SlotIndex)>,
}

impl Drop for Open {
    fn drop(&mut self) {
        for (index, place) in self.places.drain(..) {
            if let Some(keys) = self.ledger.keys(index) {
                keys.release(place);
            }
        }
    }
}

/// Request for a verdict of the limiter.
pub(crate) struct Asking<'a> {
    pub(crate) now_ns: u64,
    /// The keys of the request, one for each limit whose key is not the connection's, in order;
    /// none where it is not counted.
    pub(crate) keys: Vec<Option<KeyHash>>,
    pub(crate) about: About,
    pub(crate) turns: Turns,
    pub(crate) config: &'a Config,
    pub(crate) ledger: &'a Rc<LedgerWriter>,
}

/// Limits that a question concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A new connection: the caps on connections.
    Connection,
    /// For the target itself: the limits for all requests.
    Own,
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
pub(crate) enum AdmissionVerdict {
    Admitted(Admission),
    Rejected(Rejection),
    /// Its connection is above a cap.
    Unwelcome,
}

impl AdmissionVerdict {
    /// Return how long a request is to be held, on top of everything else, that was let through.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            Self::Admitted(admission) => admission.delay,
            Self::Rejected(_) | Self::Unwelcome => Duration::ZERO,
        }
    }
}

/// A request that was let through. It is in flight, wherever there is a cap, until this is dropped.
#[derive(Default)]
pub(crate) struct Admission {
    delay: Duration,
    /// State of the limits that tell, by their numbers.
    pub(crate) remaining: Vec<(usize, Remaining)>,
    /// None where nothing counts requests in flight.
    open: Option<Open>,
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

/// One limit that a question concerns, with the words of the key and its decision about it.
struct Held<'a, 'v> {
    index: usize,
    limit: &'a Limit,
    key: KeyHash,
    visit: &'v Visit,
    slot: HeldSlot<'a>,
    decision: LimitDecision,
}

impl Held<'_, '_> {
    fn wait_ns(&self) -> Option<u64> {
        match self.decision {
            LimitDecision::Rejected { retry_after_ns } => Some(retry_after_ns),
            LimitDecision::Admitted { .. } => None,
        }
    }
}

impl Visitor {
    /// A connection from `address` was accepted.
    ///
    /// # Errors
    ///
    /// It is above a cap, and is to be closed in the way that is returned.
    pub(crate) fn new(
        config: &Config,
        ledger: &Rc<LedgerWriter>,
        address: IpAddr,
    ) -> Result<Self, Over> {
        let mut visitor = Self {
            address,
            visits: config
                .limits
                .iter()
                .map(|limit| Visit {
                    key: limit.key.of_connection(address),
                    place: Cell::new(SlotIndex::UNKNOWN),
                    heard: Refusals::default(),
                })
                .collect(),
            open: None,
            is_welcome: true,
        };
        let asking = Asking {
            now_ns: ledger.shared().clock().now_ns(),
            keys: Vec::new(),
            about: About::Connection,
            turns: Turns::InTurn,
            config,
            ledger,
        };
        let held = visitor.hold(&asking);
        if let Some(above) = held.iter().find(|held| held.wait_ns().is_some()) {
            ledger.refused_by(above.index);
            if above.limit.over != Over::Unavailable {
                return Err(above.limit.over);
            }
            drop(held);
            visitor.is_welcome = false;
            return Ok(visitor);
        }
        visitor.open = admit(held, &asking).open;
        Ok(visitor)
    }

    /// The keys of one request, where they are not those of its connection. Nothing is allocated if
    /// there are none.
    pub(crate) fn keys(
        &self,
        config: &Config,
        headers: &HeaderMap,
        path: &str,
    ) -> Vec<Option<KeyHash>> {
        config
            .limits
            .iter()
            .zip(&self.visits)
            .filter(|(_, visit)| visit.key.is_none())
            .map(|(limit, _)| limit.key.of_request(self.address, headers, path))
            .collect()
    }

    /// Asks all limits about one request.
    ///
    /// It is let through if all let it through, and takes from none if one does not: the words of
    /// all its keys are held while it is decided. If several limits are against it, the one with
    /// the longest wait turns it away: a client that waits for that long has waited for the others,
    /// too.
    pub(crate) fn ask(&self, asking: &Asking<'_>) -> AdmissionVerdict {
        let Asking { config, ledger, .. } = *asking;
        if config.limits.is_empty() {
            ledger.admitted(asking.now_ns);
            return AdmissionVerdict::Admitted(Admission::default());
        }
        if !self.is_welcome {
            ledger.counters().rejected.increment();
            return AdmissionVerdict::Unwelcome;
        }
        let held = self.hold(asking);
        count_early(&held, asking);
        // The first of equals.
        let longest = held
            .iter()
            .filter_map(|held| Some((held, held.wait_ns()?)))
            .reduce(|one, other| if other.1 > one.1 { other } else { one });
        let Some((by, retry_after_ns)) = longest else {
            return AdmissionVerdict::Admitted(admit(held, asking));
        };
        ledger.rejected_by(by.index);
        AdmissionVerdict::Rejected(Rejection {
            limit: by.index,
            retry_after_ns,
            told: tell(by, asking, retry_after_ns),
        })
    }

    /// Holds the words of all keys that a question concerns, in the order of the limits, so that no
    /// two questions wait for each other.
    fn hold<'a, 'v>(&'v self, asking: &Asking<'a>) -> Vec<Held<'a, 'v>> {
        let mut own_keys = asking.keys.iter();
        let mut all = Vec::new();
        for (index, (limit, visit)) in asking.config.limits.iter().zip(&self.visits).enumerate() {
            let key = visit.key.or_else(|| own_keys.next().copied().flatten());
            let Some(key) = key else {
                continue;
            };
            let Some(keys) = asking.ledger.keys(index) else {
                continue;
            };
            if !asking.concerns(limit) {
                continue;
            }
            let query = KeyQuery {
                algorithm: &limit.algorithm,
                key,
                now_ns: asking.now_ns,
                place: &visit.place,
            };
            let slot = keys.hold(&query);
            if slot.place.is_crowd() {
                asking.ledger.counters().limiter_overflows.increment();
            }
            all.push(Held {
                index,
                limit,
                key,
                visit,
                decision: slot.decide(&query),
                slot,
            });
        }
        all
    }
}

/// Take what the limits have admitted.
fn admit(held: Vec<Held<'_, '_>>, asking: &Asking<'_>) -> Admission {
    let mut admission = Admission::default();
    let mut places = Vec::new();
    let mut longest_ns = 0;
    for held in held {
        let LimitDecision::Admitted { next, delay_ns } = held.decision else {
            continue;
        };
        let algorithm = &held.limit.algorithm;
        if algorithm.counts_open() {
            places.push((held.index, held.slot.place));
        }
        if !held.limit.headers.is_empty() {
            let left = algorithm.left(next, asking.now_ns);
            admission.remaining.push((held.index, left));
        }
        held.slot.set(next);
        asking.ledger.admitted_by(held.index, delay_ns);
        longest_ns = longest_ns.max(delay_ns);
    }
    if !places.is_empty() {
        let ledger = Rc::clone(asking.ledger);
        admission.open = Some(Open { ledger, places });
    }
    if asking.about == About::Own {
        asking
            .ledger
            .admitted(asking.now_ns.saturating_add(longest_ns));
    }
    admission.delay = Duration::from_nanos(longest_ns);
    admission
}

/// Count a request that comes before a promised wait has passed. Of several limits that whose
/// promise the client could know counts.
fn count_early(held: &[Held<'_, '_>], asking: &Asking<'_>) {
    let early = held.iter().filter_map(|held| {
        let made_ns = held.slot.promise_made_ns(asking.now_ns)?;
        Some(held.visit.heard.is_early(held.key, asking.now_ns, made_ns))
    });
    let counters = asking.ledger.counters();
    match early.max() {
        None => {}
        Some(false) => counters.crossed_promises.increment(),
        Some(true) => counters.early_retries.increment(),
    }
}

/// Decide what the client is told by a limit, which is then a promise.
fn tell(by: &Held<'_, '_>, asking: &Asking<'_>, retry_after_ns: u64) -> Told {
    let (told, wait_ns) = match by.limit.retry_after {
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
            let now_s = wall.as_secs();
            (Told::Date { now_s, wall_s }, wait_ns)
        }
    };
    let answered_ns = asking.refusal_answered_ns();
    by.slot.promise(Telling {
        asked_ns: asking.now_ns,
        answered_ns,
        until_ns: asking.now_ns.saturating_add(wait_ns),
    });
    if asking.turns == Turns::InTurn {
        by.visit.heard.note(by.key, answered_ns);
    }
    told
}

impl Asking<'_> {
    fn concerns(&self, limit: &Limit) -> bool {
        match self.about {
            About::Connection => limit.is_of_connections(),
            About::Own => !limit.is_of_connections(),
        }
    }

    /// When a refusal is answered: at once, or at the end of a stall if the answer is the target's
    /// own.
    fn refusal_answered_ns(&self) -> u64 {
        match self.about {
            About::Own => self.config.answerable_ns(self.now_ns),
            About::Connection => self.now_ns,
        }
    }
}

#[cfg(test)]
mod tests;
