//! Asks all limits about a connection or a request, on the words in shared memory, and enters the outcome in the books.
//! The server asks once per connection and once per request.
//!
//! It must not decide anything itself (`limit` does), and it must not know what an answer looks like.

use crate::clock;
use crate::config::Config;
use crate::ledger::{Books, Pass};
use crate::limit::{Algorithm, KeyHash, Limit, MAX_LIMITS, Over, RetryAfter, Standing, Step, Whom};
use crate::shared::{Asked, Decided, Keys, Place};
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

/// What one limit knows of a connection.
#[derive(Debug)]
struct Visit {
    /// The key of all its requests; none if they may have different ones.
    key: Option<KeyHash>,
    /// Where the key of the latest request was.
    place: Cell<Place>,
}

/// Whether a connection's requests are let in at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcome {
    Yes,
    /// It is above a cap that lets it say so.
    No,
}

/// Counts a connection as open, wherever there is a cap, until it is dropped.
#[derive(Debug)]
struct Open {
    books: Rc<Books>,
    counted: Vec<(usize, Place)>,
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

/// What the limiter is asked about.
pub(crate) struct Asking<'a> {
    pub(crate) now_ns: u64,
    /// The keys of the request, one for each limit whose key is not the connection's, in order.
    pub(crate) keys: Vec<KeyHash>,
    pub(crate) about: About,
    pub(crate) config: &'a Config,
    pub(crate) books: &'a Books,
}

/// Which limits a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// It is for the target itself: those for all requests, and that of the stub that is to answer, if it has one.
    Own { of_stub: Option<usize> },
    /// It is to be forwarded: those that count the sessions of a proxy.
    Forwarded,
}

/// What became of a request.
pub(crate) enum Verdict<'a> {
    Admitted(Admission<'a>),
    Rejected(Rejection),
    /// Its connection is above a cap.
    Unwelcome,
}

/// A request that was let through. It is in flight, wherever there is a cap, until this is dropped.
pub(crate) struct Admission<'a> {
    /// For how long it is to be held on top of everything else.
    pub(crate) delay: Duration,
    /// How it stands now with the limits that tell, by their numbers.
    pub(crate) standings: Vec<(usize, Standing)>,
    in_flight: Vec<(&'a Keys, Place)>,
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
    /// It is not told.
    Nothing,
}

impl Visitor {
    /// A connection from `address` was accepted.
    ///
    /// # Errors
    ///
    /// It is above a cap, and is to be closed in the way that is returned.
    pub(crate) fn new(config: &Config, books: &Rc<Books>, address: IpAddr) -> Result<Self, Over> {
        let visit = |limit: &Limit| Visit { key: limit.key().of_connection(address), place: Cell::new(Place::UNKNOWN) };
        let visits = config.limits.iter().map(visit).collect();
        let open = Open { books: Rc::clone(books), counted: Vec::new() };
        let mut visitor = Self { address, visits, open, welcome: Welcome::Yes };
        let now_ns = books.shared().clock().now_ns();
        for (index, limit) in config.limits.iter().enumerate() {
            let Algorithm::Connections(cap) = limit.algorithm() else { continue };
            let (Some(keys), Some(asked)) = (books.keys(index), visitor.asked(limit, index, now_ns)) else { continue };
            let (step, place) = (keys.take(&asked).step, asked.place.get());
            if matches!(step, Step::Admitted { .. }) {
                visitor.open.counted.push((index, place));
                continue;
            }
            if place.is_crowd() {
                books.overflowed();
            }
            books.refused_by(index);
            if cap.over() != Over::Unavailable {
                return Err(cap.over());
            }
            // It does not count where it is above the cap, nor anywhere else.
            visitor.open = Open { books: Rc::clone(books), counted: Vec::new() };
            visitor.welcome = Welcome::No;
            return Ok(visitor);
        }
        for (index, _) in &visitor.open.counted {
            books.admitted_by(*index, Pass::AtOnce);
        }
        Ok(visitor)
    }

    /// The question about the connection itself.
    fn asked<'a>(&'a self, limit: &'a Limit, index: usize, now_ns: u64) -> Option<Asked<'a>> {
        let visit = self.visits.get(index)?;
        Some(Asked { algorithm: limit.algorithm(), key: visit.key?, now_ns, place: &visit.place })
    }

    /// The keys of one request, where they are not those of its connection. Nothing is allocated if there are none.
    pub(crate) fn keys(&self, config: &Config, headers: &HeaderMap, path: &str) -> Vec<KeyHash> {
        let by_request = config.limits.iter().zip(&self.visits).filter(|(_, visit)| visit.key.is_none());
        by_request.map(|(limit, _)| limit.key().of_request(self.address, headers, path)).collect()
    }

    /// Asks all limits about one request.
    ///
    /// It is let through if all let it through, and takes from none if one does not. With several limits, all are looked
    /// at first, and if some are against it, the one with the longest wait turns it away: whoever waits for that long
    /// has waited for the others, too. Then it takes from one after the other. If another request was faster at a later
    /// one, what was taken from the earlier ones is given back; for that moment they are stricter than they should be,
    /// never laxer.
    pub(crate) fn ask<'a>(&self, asking: &Asking<'a>) -> Verdict<'a> {
        let Asking { config, books, .. } = *asking;
        if config.limits.is_empty() {
            books.admitted(asking.now_ns);
            return Verdict::Admitted(Admission::free());
        }
        if self.welcome == Welcome::No {
            books.rejected();
            return Verdict::Unwelcome;
        }
        self.look_for_promises(asking);
        let is_alone = config.limits.len() == 1;
        let longest = if is_alone { None } else { self.look(asking) };
        match longest.map_or_else(|| self.take(asking), Err) {
            Ok(admission) => Verdict::Admitted(admission),
            Err((index, retry_after_ns)) => {
                books.rejected_by(index);
                let told = self.tell(asking, index, retry_after_ns);
                Verdict::Rejected(Rejection { limit: index, retry_after_ns, told })
            }
        }
    }

    /// Every limit on requests with the question for it.
    fn questions<'a, 'b: 'a>(
        &'a self,
        asking: &'a Asking<'b>,
    ) -> impl Iterator<Item = (usize, &'b Limit, &'b Keys, Asked<'a>)> {
        let mut keys = asking.keys.iter();
        let limits = asking.config.limits.iter().zip(&self.visits).enumerate();
        limits.filter_map(move |(index, (limit, visit))| {
            let key = match visit.key {
                Some(key) => key,
                None => *keys.next()?,
            };
            let concerns_it = match asking.about {
                About::Own { of_stub } => index < asking.config.limits.common() || of_stub == Some(index),
                About::Forwarded => limit.key().whom == Whom::Session,
            };
            if !concerns_it || matches!(limit.algorithm(), Algorithm::Connections(_)) {
                return None;
            }
            let table = asking.books.keys(index)?;
            Some((
                index,
                limit,
                table,
                Asked { algorithm: limit.algorithm(), key, now_ns: asking.now_ns, place: &visit.place },
            ))
        })
    }

    fn look_for_promises(&self, asking: &Asking<'_>) {
        let is_early = |(_, _, keys, asked): (usize, &Limit, &Keys, Asked<'_>)| {
            asking.now_ns < keys.promised_ns(keys.settle(&asked))
        };
        if self.questions(asking).any(is_early) {
            asking.books.came_early();
        }
    }

    /// The limit that is against it for the longest, if any is.
    fn look(&self, asking: &Asking<'_>) -> Option<(usize, u64)> {
        let against = self.questions(asking).filter_map(|(index, _, keys, asked)| match keys.look(&asked).step {
            Step::Rejected { retry_after_ns } => Some((index, retry_after_ns)),
            Step::Admitted { .. } => None,
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
        for (index, limit, keys, asked) in self.questions(asking) {
            let Decided { step, state } = keys.take(&asked);
            let place = asked.place.get();
            if place.is_crowd() {
                books.overflowed();
            }
            match step {
                Step::Rejected { retry_after_ns } => {
                    self.give_back(asking, &taken[..index]);
                    return Err((index, retry_after_ns));
                }
                Step::Admitted { delay_ns, .. } => {
                    taken[index] = state;
                    if delay_ns > 0 {
                        passes[index] = Pass::Delayed;
                        admission.delay = admission.delay.max(Duration::from_nanos(delay_ns));
                    }
                    if limit.algorithm().counts_what_is_open() {
                        admission.in_flight.push((keys, place));
                    }
                    if !limit.headers().is_empty() {
                        admission.standings.push((index, limit.algorithm().standing(state, now_ns)));
                    }
                }
            }
        }
        for (index, ..) in self.questions(asking) {
            books.admitted_by(index, passes[index]);
        }
        if asking.about != About::Forwarded {
            books.admitted(now_ns.saturating_add(u64::try_from(admission.delay.as_nanos()).unwrap_or(u64::MAX)));
        }
        Ok(admission)
    }

    /// Gives back what was taken from the limits before one that was against it, which left these states behind. What is
    /// in flight ends with the admission.
    fn give_back(&self, asking: &Asking<'_>, taken: &[u64]) {
        for (index, limit, keys, asked) in self.questions(asking) {
            let Some(taken) = taken.get(index) else { return };
            if !limit.algorithm().counts_what_is_open() {
                keys.give_back(&asked, *taken, || asking.books.shared().clock().now_ns());
            }
        }
    }

    /// What the client is told by a limit, which is then a promise.
    fn tell(&self, asking: &Asking<'_>, index: usize, retry_after_ns: u64) -> Told {
        let Some((_, limit, keys, asked)) = self.questions(asking).find(|(other, ..)| *other == index) else {
            return Told::Nothing;
        };
        let (told, wait_ns) = match limit.retry_after() {
            RetryAfter::None => return Told::Nothing,
            RetryAfter::Seconds => {
                // Rounded up: whoever comes back then is not too early, and 0 would invite to come back at once.
                let seconds = retry_after_ns.div_ceil(NS_PER_S);
                (Told::Seconds(seconds), seconds.saturating_mul(NS_PER_S))
            }
            RetryAfter::Date => {
                let wall = clock::wall();
                let due = wall.saturating_add(Duration::from_nanos(retry_after_ns));
                let wall_s = due.as_secs() + u64::from(due.subsec_nanos() > 0);
                let wait = Duration::from_secs(wall_s).saturating_sub(wall);
                let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
                (Told::Date { now_s: wall.as_secs(), wall_s }, wait_ns)
            }
        };
        keys.promise(asked.place.get(), asking.now_ns.saturating_add(wait_ns));
        told
    }
}

impl Admission<'_> {
    /// Of a request that nothing was asked about yet.
    const fn free() -> Self {
        Self { delay: Duration::ZERO, standings: Vec::new(), in_flight: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::limit::Limits;
    use crate::shared::Shared;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn config(texts: &[&str]) -> Config {
        let limits = Limits::new(texts.iter().map(|text| text.parse().unwrap()).collect()).unwrap();
        Config { limits, ..Config::default() }
    }

    fn books(shared: &Shared, config: &Config) -> Rc<Books> {
        let books = Books::open(shared);
        books.name_limits(&config.limits);
        Rc::new(books)
    }

    fn visitor(config: &Config, books: &Rc<Books>) -> Visitor {
        Visitor::new(config, books, [127, 0, 0, 1].into()).unwrap()
    }

    fn asking<'a>(config: &'a Config, books: &'a Books, now_ns: u64) -> Asking<'a> {
        Asking { now_ns, keys: Vec::new(), about: About::Own { of_stub: None }, config, books }
    }

    /// How many more the limit would let through.
    fn left(visitor: &Visitor, asking: &Asking<'_>, index: usize) -> u64 {
        let (_, limit, keys, asked) = visitor.questions(asking).find(|(other, ..)| *other == index).unwrap();
        match keys.look(&asked) {
            // The state is the one after it.
            Decided { step: Step::Admitted { .. }, state } => {
                limit.algorithm().standing(state, asking.now_ns).remaining + 1
            }
            Decided { .. } => 0,
        }
    }

    fn is_rejected_by(verdict: &Verdict<'_>, index: usize) -> bool {
        matches!(verdict, Verdict::Rejected(Rejection { limit, .. }) if *limit == index)
    }

    #[test]
    fn who_is_turned_away_by_one_takes_from_none_and_hears_the_longest_wait() {
        let shared = Shared::new().unwrap();
        let config = config(&["1/min:burst=5", "1/h:burst=3", "1/s:burst=3"]);
        let books = books(&shared, &config);
        let visitor = visitor(&config, &books);
        let asking = asking(&config, &books, 0);
        for _ in 0..3 {
            assert!(matches!(visitor.ask(&asking), Verdict::Admitted(_)));
        }
        for _ in 0..9 {
            assert!(is_rejected_by(&visitor.ask(&asking), 1));
        }
        let ledger = Ledger::read(&shared);
        assert_eq!((ledger.rejected, ledger.early_retries, ledger.max_admitted_in_1s), (9, 8, 3));
        let of = |name: &str| (ledger.by_limit[name].admitted, ledger.by_limit[name].rejected);
        assert_eq!((of("gcra"), of("gcra-2"), of("gcra-3")), ((3, 0), (3, 9), (3, 0)));
        assert_eq!(left(&visitor, &asking, 0), 2);
    }

    #[test]
    fn what_was_taken_before_a_later_limit_was_against_it_is_given_back() {
        for first in ["1/h:burst=5", "bucket:5/h", "fixed:5/h", "sliding:5/h", "leaky:1/h:burst=4", "concurrency:5"] {
            let shared = Shared::new().unwrap();
            let config = config(&[first, "1/h:burst=2"]);
            let books = books(&shared, &config);
            let visitor = visitor(&config, &books);
            let asking = asking(&config, &books, 0);
            let held: Vec<_> = (0..2).map(|_| visitor.take(&asking).map_err(drop)).collect();
            assert!(held.iter().all(Result::is_ok), "{first}");
            // Past the look at all, as one that lost a race.
            for _ in 0..20 {
                assert!(visitor.take(&asking).is_err(), "{first}");
            }
            assert_eq!(left(&visitor, &asking, 0), 3, "{first}");
        }
    }

    #[test]
    fn threads_that_fight_for_two_limits_get_exactly_the_stricter_and_leave_the_rest_of_the_other() {
        let shared = Shared::new().unwrap();
        let config = config(&["fixed:9000/24h", "1/h:burst=5000", "1/h:burst=8000"]);
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let books = books(&shared, &config);
                    let visitor = visitor(&config, &books);
                    for _ in 0..2_000 {
                        // Past the look, so that losing is the rule.
                        if visitor.take(&asking(&config, &books, 0)).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 5_000);
        let books = books(&shared, &config);
        let visitor = visitor(&config, &books);
        let asking = asking(&config, &books, 0);
        assert_eq!([0, 2].map(|index| left(&visitor, &asking, index)), [4_000, 3_000]);
    }

    #[test]
    fn requests_in_flight_are_counted_until_they_end() {
        let shared = Shared::new().unwrap();
        let config = config(&["concurrency:2:headers=ietf"]);
        let books = books(&shared, &config);
        let (one, other) = (visitor(&config, &books), visitor(&config, &books));
        let asking = asking(&config, &books, 0);
        let first = one.ask(&asking);
        let second = other.ask(&asking);
        let remaining = |verdict: &Verdict<'_>| match verdict {
            Verdict::Admitted(admission) => Some(admission.standings[0].1.remaining),
            _ => None,
        };
        assert_eq!((remaining(&first), remaining(&second)), (Some(1), Some(0)));
        assert!(is_rejected_by(&one.ask(&asking), 0));
        drop(first);
        assert_eq!(remaining(&one.ask(&asking)), Some(0));
    }

    #[test]
    fn connections_are_counted_until_they_end_and_those_above_are_refused() {
        let shared = Shared::new().unwrap();
        let config = config(&["connections:3", "connections:2:key=everyone:over=503"]);
        let books = books(&shared, &config);
        let first = visitor(&config, &books);
        let second = visitor(&config, &books);
        let asking = asking(&config, &books, 0);
        let third = visitor(&config, &books);
        assert!(matches!(third.ask(&asking), Verdict::Unwelcome));
        assert!(matches!(second.ask(&asking), Verdict::Admitted(_)));
        drop(first);
        let fourth = visitor(&config, &books);
        assert!(matches!(fourth.ask(&asking), Verdict::Admitted(_)));
        let ledger = Ledger::read(&shared);
        assert_eq!((ledger.connections_refused, ledger.rejected), (1, 1));
        let of = |name: &str| (ledger.by_limit[name].admitted, ledger.by_limit[name].rejected);
        assert_eq!((of("connections"), of("connections-2")), ((3, 0), (3, 1)));
    }

    #[test]
    fn a_promise_is_kept_in_books_and_never_ends_before_the_limit_relents() {
        for (retry, promised) in [("seconds", true), ("date", true), ("none", false)] {
            let shared = Shared::new().unwrap();
            let config = config(&[&format!("10/15s:retry={retry}")]);
            let books = books(&shared, &config);
            let visitor = visitor(&config, &books);
            let ask = |now_ns| visitor.ask(&asking(&config, &books, now_ns));
            assert!(matches!(ask(0), Verdict::Admitted(_)));
            let Verdict::Rejected(rejection) = ask(1) else { panic!("{retry}") };
            assert_eq!(rejection.retry_after_ns, 1_499_999_999);
            // The wait was 1.5 s: told are 2 s, or the next full second after it.
            let told_ns = match rejection.told {
                Told::Seconds(seconds) => seconds * NS_PER_S,
                Told::Date { now_s, wall_s } => (wall_s - now_s) * NS_PER_S,
                Told::Nothing => 0,
            };
            assert_eq!(told_ns >= 1_500_000_000, promised, "{told_ns}");
            assert!(told_ns <= 3 * NS_PER_S);
            // Nobody who waits as told is early, and nobody is turned away once more.
            assert!(matches!(ask(1 + told_ns.max(1_500_000_000)), Verdict::Admitted(_)));
            assert_eq!(Ledger::read(&shared).early_retries, 0);
            ask(10 * NS_PER_S);
            ask(10 * NS_PER_S + 1);
            ask(10 * NS_PER_S + 2);
            assert_eq!(Ledger::read(&shared).early_retries, u64::from(promised));
        }
    }
}
