//! Outcomes of responses: the one place where a status becomes an outcome.

use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat};

use super::compressed::Unreadable;
use super::grpc::{CallFailure, Pushback, RESOURCE_EXHAUSTED, STATUSES};
use super::head::{ContentKind, HeadFacts};

/// Code of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// A status of HTTP.
    Http(u16),
    /// The status of a call of gRPC.
    Grpc(u16),
}

impl Code {
    /// Return the code of the answer that an attempt had, if it had one.
    pub(crate) fn of(attempt: &Attempt) -> Option<Self> {
        let status = attempt.status?;
        Some(if status < STATUSES {
            Self::Grpc(status)
        } else {
            Self::Http(status)
        })
    }
}

/// Result of checking a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckResult {
    /// True if its status is one that a good response has.
    pub(crate) has_good_status: bool,
    pub(crate) body: BodyCheck,
}

/// Result of checking a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyCheck {
    /// As expected.
    AsExpected,
    /// Not as expected.
    Wrong,
    /// Not to be decoded, or not complete.
    Unreadable(Unreadable),
    /// That of a call of gRPC which failed.
    Failed(CallFailure),
}

/// As [`end`] of an answer of a [plain](HeadFacts::is_plain) head that is as expected, whose attempt
/// has no advice so far.
#[inline]
pub(crate) fn end_plainly(attempt: &mut Attempt, head: &HeadFacts) {
    (attempt.status, attempt.outcome) = (Some(head.status), Outcome::Ok);
}

/// Note in `attempt` the answer that it brought, by the head of that and what it is to those who
/// expected something.
///
/// [`Expectations`](super::expect::Expectations) has the order of precedence as a table.
pub(crate) fn end(attempt: &mut Attempt, head: &HeadFacts, verdict: CheckResult) {
    let HeadFacts {
        status,
        ref signals,
        held_ns,
        ..
    } = *head;
    attempt.status = Some(status);
    attempt.outcome = match (verdict.has_good_status, verdict.body) {
        _ if is_challenge(head, verdict.body) => Outcome::SoftBlocked,
        _ if signals.is_some_and(|signals| signals.is_throttled) => Outcome::Throttled,
        (true, BodyCheck::AsExpected) => Outcome::Ok,
        (true, BodyCheck::Wrong) => Outcome::Error(ErrorKind::WrongBody),
        (true, BodyCheck::Unreadable(why)) => Outcome::Error(why.kind()),
        (true, BodyCheck::Failed(call)) => failed(attempt, call.status),
        (false, _) if matches!(status, 404 | 410) => Outcome::NotFound,
        (false, _) => Outcome::Rejected,
    };
    let pushback = match verdict.body {
        BodyCheck::Failed(call) => call.pushback,
        _ => None,
    };
    let asked = match pushback {
        Some(Pushback::After(wait)) => Some(wait).filter(|wait| !wait.is_zero()),
        _ => None,
    };
    attempt.advice = Advice {
        repeat: match pushback {
            Some(Pushback::Never) => Repeat::Refused,
            _ => Repeat::Never,
        },
        wait: asked.or_else(|| signals.and_then(|signals| signals.wait)),
        quota: signals.and_then(|signals| signals.quota).map(Box::new),
        held_ns,
    };
}

/// Note the status of a call that failed, and return its outcome.
fn failed(attempt: &mut Attempt, status: u16) -> Outcome {
    attempt.status = Some(status);
    if status == RESOURCE_EXHAUSTED {
        Outcome::Throttled
    } else {
        Outcome::Rejected
    }
}

/// True if the answer is a challenge page, which asks for a browser and brings no item, whatever
/// its status says: it is no good answer, and waiting for as long as a limit would ask does not
/// help.
///
/// Content networks say so in a header of their own, and in nothing else. Without it, markup is
/// taken for a challenge where an item is expected and markup came in its place, as a good answer,
/// a refusal or a limit without a time to come back.
#[inline]
fn is_challenge(head: &HeadFacts, body: BodyCheck) -> bool {
    let may_hide_one = matches!(head.status, 200..=299 | 403 | 429);
    let is_markup = head.kind == ContentKind::Markup;
    let is_limit = head
        .signals
        .is_some_and(|signals| signals.is_throttled && signals.wait.is_some());
    let is_other = matches!(
        body,
        BodyCheck::Wrong | BodyCheck::Unreadable(Unreadable::Coded(_))
    );
    head.is_challenge || is_other && may_hide_one && !is_limit && is_markup
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::clock::Nanos;

    use super::*;
    use crate::crawl::response::head::facts;

    #[test]
    fn an_answer_has_the_outcome_of_the_table() {
        use BodyCheck::{AsExpected as Good, Wrong};
        use Outcome::{NotFound, Ok, Rejected, SoftBlocked, Throttled};
        const WRONG_BODY: Outcome = Outcome::Error(ErrorKind::WrongBody);
        const CHALLENGE: (&str, &str) = ("cf-mitigated", "challenge");
        const MARKUP: (&str, &str) = ("content-type", "Text/HTML; charset=UTF-8");
        const WAIT: (&str, &str) = ("retry-after", "3");
        const SOON: (&str, &str) = ("retry-after", "soon");
        const USED_UP: (&str, &str) = ("ratelimit", "\"a\";r=0;t=5");
        let failed_with = |status| {
            let pushback = Some(Pushback::Never);
            BodyCheck::Failed(CallFailure { status, pushback })
        };
        let (by_default, listed, unlisted) = (None, Some(true), Some(false));
        let mut plain_heads = 0;
        for (statuses, expected, headers, body, outcome) in [
            (&[200, 204][..], by_default, &[][..], Good, Ok),
            (&[200], by_default, &[], Wrong, WRONG_BODY),
            (&[404, 410], by_default, &[], Wrong, NotFound),
            (&[429], by_default, &[], Wrong, Throttled),
            (&[403, 503], by_default, &[WAIT], Wrong, Throttled),
            (&[503], by_default, &[SOON], Wrong, Rejected),
            (&[301, 400, 403, 500, 503], by_default, &[], Good, Rejected),
            // As listed, save that limits and challenges are what they are.
            (&[200, 301, 404, 403, 503, 599], listed, &[], Good, Ok),
            (&[200, 301, 404, 503], listed, &[], Wrong, WRONG_BODY),
            (&[429], listed, &[], Good, Throttled),
            (&[503], listed, &[WAIT], Good, Throttled),
            (&[404], listed, &[CHALLENGE], Good, SoftBlocked),
            (&[403], listed, &[MARKUP], Good, Ok),
            (&[403], listed, &[MARKUP], Wrong, SoftBlocked),
            (&[404], listed, &[MARKUP], Wrong, WRONG_BODY),
            (&[202], unlisted, &[], Good, Rejected),
            (&[202], unlisted, &[MARKUP], Wrong, SoftBlocked),
            // Calls of gRPC.
            (&[200], by_default, &[], failed_with(5), Rejected),
            (&[200], by_default, &[], failed_with(8), Throttled),
            (&[503], by_default, &[], failed_with(8), Rejected),
            // A challenge by its header, or as markup in the place of an item.
            (
                &[200, 403, 429, 503],
                by_default,
                &[CHALLENGE, WAIT],
                Good,
                SoftBlocked,
            ),
            (
                &[200, 206, 403, 429],
                by_default,
                &[MARKUP],
                Wrong,
                SoftBlocked,
            ),
            (
                &[200],
                by_default,
                &[("content-type", "application/json")],
                Wrong,
                WRONG_BODY,
            ),
            (&[200], by_default, &[("cf-mitigated", "other")], Good, Ok),
            (&[200], by_default, &[MARKUP], Good, Ok),
            (&[429], by_default, &[MARKUP], Good, Throttled),
            // A time to come back is a limit's, and these statuses speak for themselves.
            (&[429], by_default, &[MARKUP, WAIT], Wrong, Throttled),
            (&[403], by_default, &[MARKUP, USED_UP], Wrong, Throttled),
            (&[403], by_default, &[MARKUP, SOON], Wrong, SoftBlocked),
            (&[404], by_default, &[MARKUP], Wrong, NotFound),
            (&[502], by_default, &[MARKUP], Wrong, Rejected),
            // What is left is about the next request.
            (&[200], by_default, &[USED_UP], Good, Ok),
            (&[404], by_default, &[USED_UP], Good, NotFound),
        ] {
            for status in statuses {
                let verdict = CheckResult {
                    has_good_status: expected.unwrap_or((200..=299).contains(status)),
                    body,
                };
                let mut attempt = Attempt::unsent(ErrorKind::Io, Nanos(0));
                let (mut plain, head) = (attempt.clone(), facts(*status, headers));
                end(&mut attempt, &head, verdict);
                assert_eq!(
                    attempt.outcome, outcome,
                    "{status} {expected:?} {headers:?} {body:?}"
                );
                if head.is_plain && verdict.has_good_status && body == Good {
                    end_plainly(&mut plain, &head);
                    assert_eq!(plain, attempt, "{status} {headers:?}");
                    plain_heads += 1;
                }
            }
        }
        assert!(plain_heads > 3, "{plain_heads}");
    }
}
