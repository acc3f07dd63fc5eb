//! Outcomes of responses: the one place where a status becomes an outcome.

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};
use crawlmark_harness::workload::Flight;

use super::expect::{BodyCheck, CheckResult, Status};
use super::head::HeadFacts;

/// The attempt that brought an answer, by the head of that and what it is to those who expected
/// something; without times and traffic.
///
/// [`Expectations`](super::Expectations) has the order of precedence as a table.
fn attempt(head: &HeadFacts, verdict: CheckResult) -> Attempt {
    let HeadFacts {
        status,
        ref signals,
        held_ns,
        ..
    } = *head;
    let outcome = match (verdict.status, verdict.body) {
        _ if is_challenge(head, verdict.body) => Outcome::SoftBlocked,
        _ if signals.is_some_and(|signals| signals.throttle.is_some()) => Outcome::Throttled,
        (Status::AsExpected, BodyCheck::AsExpected) => Outcome::Ok,
        (Status::AsExpected, BodyCheck::Wrong) => Outcome::Error(ErrorKind::WrongBody),
        (Status::AsExpected, BodyCheck::Unreadable(why)) => Outcome::Error(why.kind()),
        (Status::Other, _) if matches!(status, 404 | 410) => Outcome::NotFound,
        (Status::Other, _) => Outcome::Rejected,
    };
    let advice = Advice {
        repeat: Repeat::Never,
        wait: signals
            .and_then(|signals| signals.wait)
            .map(|wait| wait.promised),
        quota: signals.and_then(|signals| signals.quota).map(Box::new),
        held_ns,
    };
    Attempt {
        sent: None,
        first_byte: None,
        done: Nanos::default(),
        bytes_sent: 0,
        bytes_received: 0,
        status: Some(status),
        outcome,
        advice,
    }
}

/// Return the [`attempt`], and note in `flight` why content could not be read.
pub(super) fn judge(head: &HeadFacts, verdict: CheckResult, flight: &Flight) -> Attempt {
    if let BodyCheck::Unreadable(why) = verdict.body {
        flight.explain(why.kind(), why.to_string());
    }
    attempt(head, verdict)
}

/// True if the answer is a challenge page, which asks for a browser and brings no item, whatever
/// its status says: it is no good answer, and waiting for as long as a limit would ask does not
/// help.
///
/// Content networks say so in a header of their own, and in nothing else. Without it, markup is
/// taken for a challenge where an item is expected and markup came in its place, as a good answer,
/// a refusal or a limit without a time to come back.
fn is_challenge(head: &HeadFacts, body: BodyCheck) -> bool {
    let may_hide_one = matches!(head.status, 200..=299 | 403 | 429);
    let is_limit = head
        .signals
        .is_some_and(|signals| signals.throttle.is_some() && signals.wait.is_some());
    head.is_challenge || body == BodyCheck::Wrong && may_hide_one && !is_limit && head.is_markup
}

#[cfg(test)]
mod tests {
    use super::super::head::facts;
    use super::*;

    /// The verdict of those who list no statuses.
    fn verdict(status: u16, body: BodyCheck) -> CheckResult {
        CheckResult {
            status: if (200..=299).contains(&status) {
                Status::AsExpected
            } else {
                Status::Other
            },
            body,
        }
    }

    fn outcome_of(status: u16, headers: &[(&str, &str)], verdict: CheckResult) -> Outcome {
        attempt(&facts(status, headers), verdict).outcome
    }

    #[test]
    fn a_status_becomes_one_outcome() {
        let outcome = |status: u16, retry_after: Option<&str>, body: BodyCheck| {
            let headers: Vec<_> = retry_after
                .into_iter()
                .map(|value| ("retry-after", value))
                .collect();
            outcome_of(status, &headers, verdict(status, body))
        };
        assert_eq!(outcome(200, None, BodyCheck::AsExpected), Outcome::Ok);
        assert_eq!(outcome(204, None, BodyCheck::AsExpected), Outcome::Ok);
        assert_eq!(
            outcome(200, None, BodyCheck::Wrong),
            Outcome::Error(ErrorKind::WrongBody)
        );
        assert_eq!(outcome(404, None, BodyCheck::Wrong), Outcome::NotFound);
        assert_eq!(outcome(410, None, BodyCheck::AsExpected), Outcome::NotFound);
        assert_eq!(outcome(429, None, BodyCheck::Wrong), Outcome::Throttled);
        assert_eq!(
            outcome(503, Some("3"), BodyCheck::Wrong),
            Outcome::Throttled
        );
        for status in [301, 400, 403, 500, 503] {
            assert_eq!(
                outcome(status, None, BodyCheck::AsExpected),
                Outcome::Rejected,
                "{status}"
            );
        }
        // A limit that says 403, and a time to come back that cannot be read.
        assert_eq!(
            outcome(403, Some("60"), BodyCheck::Wrong),
            Outcome::Throttled
        );
        assert_eq!(
            outcome(503, Some("soon"), BodyCheck::Wrong),
            Outcome::Rejected
        );
    }

    #[test]
    fn a_status_is_good_or_not_as_listed_save_that_limits_and_challenges_are_what_they_are() {
        let listed = |status: u16, headers: &[(&str, &str)], body: BodyCheck| {
            outcome_of(
                status,
                headers,
                CheckResult {
                    status: Status::AsExpected,
                    body,
                },
            )
        };
        for status in [200, 301, 404, 410, 403, 500, 503, 599] {
            assert_eq!(
                listed(status, &[], BodyCheck::AsExpected),
                Outcome::Ok,
                "{status}"
            );
            assert_eq!(
                listed(status, &[], BodyCheck::Wrong),
                Outcome::Error(ErrorKind::WrongBody),
                "{status}"
            );
        }
        for body in [BodyCheck::AsExpected, BodyCheck::Wrong] {
            assert_eq!(listed(429, &[], body), Outcome::Throttled);
            assert_eq!(
                listed(503, &[("retry-after", "3")], body),
                Outcome::Throttled
            );
            assert_eq!(
                listed(404, &[("cf-mitigated", "challenge")], body),
                Outcome::SoftBlocked
            );
        }
        let markup = ("content-type", "text/html");
        assert_eq!(listed(403, &[markup], BodyCheck::AsExpected), Outcome::Ok);
        assert_eq!(
            listed(403, &[markup], BodyCheck::Wrong),
            Outcome::SoftBlocked
        );
        assert_eq!(
            listed(404, &[markup], BodyCheck::Wrong),
            Outcome::Error(ErrorKind::WrongBody)
        );
        // A success that is not listed.
        let other = |headers: &[(&str, &str)], body| {
            outcome_of(
                202,
                headers,
                CheckResult {
                    status: Status::Other,
                    body,
                },
            )
        };
        assert_eq!(other(&[], BodyCheck::AsExpected), Outcome::Rejected);
        assert_eq!(other(&[], BodyCheck::Wrong), Outcome::Rejected);
        assert_eq!(other(&[markup], BodyCheck::Wrong), Outcome::SoftBlocked);
    }

    #[test]
    fn a_challenge_page_is_one_by_its_header_or_as_markup_in_the_place_of_an_item() {
        let outcome = |status: u16, headers: &[(&str, &str)], body: BodyCheck| {
            outcome_of(status, headers, verdict(status, body))
        };
        let header = ("cf-mitigated", "challenge");
        let markup = ("content-type", "Text/HTML; charset=UTF-8");
        let json = ("content-type", "application/json");
        let patience = ("retry-after", "3");
        for status in [200, 403, 404, 429, 503] {
            for body in [BodyCheck::AsExpected, BodyCheck::Wrong] {
                assert_eq!(
                    outcome(status, &[header, patience], body),
                    Outcome::SoftBlocked,
                    "{status}"
                );
            }
        }
        for status in [200, 206, 403, 429] {
            assert_eq!(
                outcome(status, &[markup], BodyCheck::Wrong),
                Outcome::SoftBlocked,
                "{status}"
            );
            assert_ne!(
                outcome(status, &[json], BodyCheck::Wrong),
                Outcome::SoftBlocked,
                "{status}"
            );
        }
        // Without an expectation of the body, only the header tells.
        assert_eq!(outcome(200, &[markup], BodyCheck::AsExpected), Outcome::Ok);
        assert_eq!(
            outcome(429, &[markup], BodyCheck::AsExpected),
            Outcome::Throttled
        );
        // A time to come back is a limit's, and these statuses speak for themselves.
        assert_eq!(
            outcome(429, &[markup, patience], BodyCheck::Wrong),
            Outcome::Throttled
        );
        let used_up = ("ratelimit", "\"a\";r=0;t=5");
        assert_eq!(
            outcome(403, &[markup, used_up], BodyCheck::Wrong),
            Outcome::Throttled
        );
        assert_eq!(
            outcome(403, &[markup, ("retry-after", "soon")], BodyCheck::Wrong),
            Outcome::SoftBlocked
        );
        // What is left is about the next request: an item that is there, or is not, was answered.
        assert_eq!(outcome(200, &[used_up], BodyCheck::AsExpected), Outcome::Ok);
        assert_eq!(
            outcome(404, &[used_up], BodyCheck::AsExpected),
            Outcome::NotFound
        );
        assert_eq!(outcome(404, &[markup], BodyCheck::Wrong), Outcome::NotFound);
        assert_eq!(outcome(502, &[markup], BodyCheck::Wrong), Outcome::Rejected);
        assert_eq!(
            outcome(200, &[("cf-mitigated", "other")], BodyCheck::AsExpected),
            Outcome::Ok
        );
    }
}
