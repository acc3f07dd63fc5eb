//! Outcomes of responses: the one place where a status becomes an outcome.

use std::time::{Duration, UNIX_EPOCH};

use crawlmark_harness::clock::{Nanos, wall_time};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::http::response::Parts;

use super::expect::{Body, Status, Verdict};
use super::throttling::{self, Signals};

/// Cloudflare's, with `challenge` as its only value, on every challenge page and nowhere else.
const MITIGATED: HeaderName = HeaderName::from_static("cf-mitigated");

/// The bundled target's, on every answer that it held: for how many microseconds.
const HELD_US: HeaderName = HeaderName::from_static("x-mock-held-us");

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    done: Nanos,
    outcome: Outcome,
    advice: Advice,
}

impl Answer {
    /// An answer by its head, and what it is to those who expected something.
    ///
    /// [`Expectations`](super::Expectations) has the order of precedence as a table.
    pub(super) fn new(head: &Parts, verdict: Verdict) -> Self {
        let status = head.status.as_u16();
        let signals = signals(head);
        let outcome = match (verdict.status, verdict.body) {
            _ if is_challenge(head, signals, verdict.body) => Outcome::SoftBlocked,
            _ if signals.is_some_and(|signals| signals.throttle.is_some()) => Outcome::Throttled,
            (Status::AsExpected, Body::AsExpected) => Outcome::Ok,
            (Status::AsExpected, Body::Wrong) => Outcome::Error(ErrorKind::WrongBody),
            (Status::Other, _) if matches!(status, 404 | 410) => Outcome::NotFound,
            (Status::Other, _) => Outcome::Rejected,
        };
        let advice = signals.map_or_else(Advice::default, |Signals { wait, quota, .. }| Advice {
            repeat: Repeat::Never,
            wait: wait.map(|wait| wait.promised),
            quota,
            held_ns: None,
        });
        Self { status, done: Nanos::default(), outcome, advice }
    }

    /// The answer with the moment at which it had been read and checked.
    pub(super) const fn done_at(mut self, done: Nanos) -> Self {
        self.done = done;
        self
    }

    /// The attempt that brought it, without what went over its connection.
    pub(super) const fn attempt(self) -> Attempt {
        Attempt {
            sent: None,
            first_byte: None,
            done: self.done,
            bytes_sent: 0,
            bytes_received: 0,
            status: Some(self.status),
            outcome: self.outcome,
            advice: self.advice,
        }
    }
}

/// Return the signals of a response; none for a success without quota fields, which is spared the cost of reading.
fn signals(head: &Parts) -> Option<Signals> {
    let received = || wall_time().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let may_ask = !head.status.is_success() || throttling::tells_of_quota(&head.headers);
    may_ask.then(|| throttling::read(head.status.as_u16(), &head.headers, received()))
}

/// True if the answer is a challenge page, which asks for a browser and brings no item, whatever its status says: it is
/// no good answer, and waiting for as long as a limit would ask does not help.
///
/// Content networks say so in a header of their own, and in nothing else. Without it, markup is taken for a challenge
/// where an item is expected and markup came in its place, as a good answer, a refusal or a limit without a time to come
/// back.
fn is_challenge(head: &Parts, signals: Option<Signals>, body: Body) -> bool {
    if head.headers.get(MITIGATED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"challenge")) {
        return true;
    }
    let may_hide_one = matches!(head.status.as_u16(), 200..=299 | 403 | 429);
    let is_limit = signals.is_some_and(|signals| signals.throttle.is_some() && signals.wait.is_some());
    body == Body::Wrong && may_hide_one && !is_limit && is_markup(head)
}

/// Return the time for which the bundled target held the response back, by its header, ns.
pub(super) fn held_ns(headers: &HeaderMap) -> Option<u64> {
    let us: u64 = headers.get(HELD_US)?.to_str().ok()?.parse().ok()?;
    us.checked_mul(1_000)
}

fn is_markup(head: &Parts) -> bool {
    const HTML: &[u8] = b"text/html";
    let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().get(..HTML.len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(HTML))
}

#[cfg(test)]
mod tests {
    use hyper::Response;
    use hyper::header::RETRY_AFTER;

    use super::*;

    /// The verdict of those who list no statuses.
    fn verdict(status: u16, body: Body) -> Verdict {
        Verdict { status: if (200..=299).contains(&status) { Status::AsExpected } else { Status::Other }, body }
    }

    fn outcome_of(status: u16, headers: &[(&str, &str)], verdict: Verdict) -> Outcome {
        let plain = Response::builder().status(status);
        let response = headers.iter().fold(plain, |response, (name, value)| response.header(*name, *value));
        Answer::new(&response.body(()).unwrap().into_parts().0, verdict).outcome
    }

    #[test]
    fn a_status_becomes_one_outcome() {
        let outcome = |status: u16, retry_after: Option<&str>, body: Body| {
            let headers: Vec<_> = retry_after.into_iter().map(|value| (RETRY_AFTER.as_str(), value)).collect();
            outcome_of(status, &headers, verdict(status, body))
        };
        assert_eq!(outcome(200, None, Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(204, None, Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(200, None, Body::Wrong), Outcome::Error(ErrorKind::WrongBody));
        assert_eq!(outcome(404, None, Body::Wrong), Outcome::NotFound);
        assert_eq!(outcome(410, None, Body::AsExpected), Outcome::NotFound);
        assert_eq!(outcome(429, None, Body::Wrong), Outcome::Throttled);
        assert_eq!(outcome(503, Some("3"), Body::Wrong), Outcome::Throttled);
        for status in [301, 400, 403, 500, 503] {
            assert_eq!(outcome(status, None, Body::AsExpected), Outcome::Rejected, "{status}");
        }
        // A limit that says 403, and a time to come back that cannot be read.
        assert_eq!(outcome(403, Some("60"), Body::Wrong), Outcome::Throttled);
        assert_eq!(outcome(503, Some("soon"), Body::Wrong), Outcome::Rejected);
    }

    #[test]
    fn a_status_is_good_or_not_as_listed_save_that_limits_and_challenges_are_what_they_are() {
        let listed = |status: u16, headers: &[(&str, &str)], body: Body| {
            outcome_of(status, headers, Verdict { status: Status::AsExpected, body })
        };
        for status in [200, 301, 404, 410, 403, 500, 503, 599] {
            assert_eq!(listed(status, &[], Body::AsExpected), Outcome::Ok, "{status}");
            assert_eq!(listed(status, &[], Body::Wrong), Outcome::Error(ErrorKind::WrongBody), "{status}");
        }
        for body in [Body::AsExpected, Body::Wrong] {
            assert_eq!(listed(429, &[], body), Outcome::Throttled);
            assert_eq!(listed(503, &[("retry-after", "3")], body), Outcome::Throttled);
            assert_eq!(listed(404, &[("cf-mitigated", "challenge")], body), Outcome::SoftBlocked);
        }
        let markup = ("content-type", "text/html");
        assert_eq!(listed(403, &[markup], Body::AsExpected), Outcome::Ok);
        assert_eq!(listed(403, &[markup], Body::Wrong), Outcome::SoftBlocked);
        assert_eq!(listed(404, &[markup], Body::Wrong), Outcome::Error(ErrorKind::WrongBody));
        // A success that is not listed.
        let other = |headers: &[(&str, &str)], body| outcome_of(202, headers, Verdict { status: Status::Other, body });
        assert_eq!(other(&[], Body::AsExpected), Outcome::Rejected);
        assert_eq!(other(&[], Body::Wrong), Outcome::Rejected);
        assert_eq!(other(&[markup], Body::Wrong), Outcome::SoftBlocked);
    }

    #[test]
    fn a_challenge_page_is_one_by_its_header_or_as_markup_in_the_place_of_an_item() {
        let outcome =
            |status: u16, headers: &[(&str, &str)], body: Body| outcome_of(status, headers, verdict(status, body));
        let header = ("cf-mitigated", "challenge");
        let markup = ("content-type", "Text/HTML; charset=UTF-8");
        let json = ("content-type", "application/json");
        let patience = ("retry-after", "3");
        for status in [200, 403, 404, 429, 503] {
            for body in [Body::AsExpected, Body::Wrong] {
                assert_eq!(outcome(status, &[header, patience], body), Outcome::SoftBlocked, "{status}");
            }
        }
        for status in [200, 206, 403, 429] {
            assert_eq!(outcome(status, &[markup], Body::Wrong), Outcome::SoftBlocked, "{status}");
            assert_ne!(outcome(status, &[json], Body::Wrong), Outcome::SoftBlocked, "{status}");
        }
        // Whoever expects any body gets any: nothing but the header tells then.
        assert_eq!(outcome(200, &[markup], Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(429, &[markup], Body::AsExpected), Outcome::Throttled);
        // A time to come back is a limit's, and these statuses speak for themselves.
        assert_eq!(outcome(429, &[markup, patience], Body::Wrong), Outcome::Throttled);
        let used_up = ("ratelimit", "\"a\";r=0;t=5");
        assert_eq!(outcome(403, &[markup, used_up], Body::Wrong), Outcome::Throttled);
        assert_eq!(outcome(403, &[markup, ("retry-after", "soon")], Body::Wrong), Outcome::SoftBlocked);
        // What is left is about the next request: an item that is there, or is not, was answered.
        assert_eq!(outcome(200, &[used_up], Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(404, &[used_up], Body::AsExpected), Outcome::NotFound);
        assert_eq!(outcome(404, &[markup], Body::Wrong), Outcome::NotFound);
        assert_eq!(outcome(502, &[markup], Body::Wrong), Outcome::Rejected);
        assert_eq!(outcome(200, &[("cf-mitigated", "other")], Body::AsExpected), Outcome::Ok);
    }
}
