//! Rules for retries over HTTP: decide by method, status and error whether another attempt is safe
//! and may help.
//!
//! It must not count: the harness decides if there is one, and when, by its retry budget and
//! backoff (`harness/src/shard/retry.rs`).

use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome, Repeat};
use http::Method;

use super::response::{
    answer::Code,
    exchange::was_not_begun,
    expect::Statuses,
    grpc::{RESOURCE_EXHAUSTED, UNAVAILABLE},
    throttling::is_final,
};

/// True if the same request may be sent again after this attempt.
///
/// Never after a good answer, a missing item, a challenge or a wrong body, nor after a status that
/// will not change. A request that is not idempotent (RFC 9110, 9.2.2) is sent again only if it
/// cannot have been performed.
///
/// `more` are statuses that the user takes for passing, too, and after which any request may go again.
pub(crate) fn may_retry(method: &Method, attempt: &Attempt, more: Option<&Statuses>) -> bool {
    let is_listed = |status: u16| more.is_some_and(|more| more.contains(status));
    let code = Code::of(attempt);
    let may_differ = match (attempt.outcome, code) {
        _ if attempt.advice.repeat == Repeat::Refused => false,
        (Outcome::Rejected, Some(Code::Http(status))) if is_listed(status) => return true,
        (_, Some(Code::Http(status))) if is_final(status) => false,
        (
            Outcome::Ok
            | Outcome::NotModified
            | Outcome::NotFound
            | Outcome::Redirected
            | Outcome::Stepped
            | Outcome::SoftBlocked
            | Outcome::Error(ErrorKind::WrongBody),
            _,
        ) => false,
        (Outcome::Error(kind), _) if kind.is_lasting() => false,
        // Of an answer that broke off, the status tells what would have come.
        (Outcome::Throttled, _)
        | (Outcome::Error(_), None | Some(Code::Http(..300) | Code::Grpc(_))) => true,
        (Outcome::Rejected | Outcome::Error(_), code) => code.is_some_and(is_passing),
    };
    may_differ && (method.is_idempotent() || was_not_performed(attempt, code))
}

/// True if a code is about the moment rather than about the item: 520 to 524 are those of Cloudflare
/// before a service that does not respond, and 529 that of one that is overloaded.
const fn is_passing(code: Code) -> bool {
    match code {
        Code::Http(status) => {
            matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 520..=524 | 529)
        }
        Code::Grpc(status) => status == UNAVAILABLE,
    }
}

/// True if the target certainly did nothing: it was never asked, or it says so.
fn was_not_performed(attempt: &Attempt, code: Option<Code>) -> bool {
    match code {
        None => {
            attempt.sent.is_none()
                || matches!(attempt.outcome, Outcome::Error(kind) if was_not_begun(kind))
        }
        // Its own clients retry those of gRPC.
        Some(Code::Grpc(RESOURCE_EXHAUSTED | UNAVAILABLE) | Code::Http(408 | 425 | 429)) => true,
        Some(Code::Http(403 | 503 | 529)) => attempt.outcome == Outcome::Throttled,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::clock::Nanos;
    use crawlmark_harness::fixtures::attempt_of;
    use proptest::prelude::*;

    use super::*;

    fn attempt(outcome: Outcome, status: Option<u16>) -> Attempt {
        Attempt {
            status,
            ..attempt_of(Nanos(1), Nanos(2), outcome)
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        use Outcome::{Error, NotFound, Ok, Rejected, SoftBlocked, Throttled};
        let incomplete = Error(ErrorKind::Incomplete);
        for (outcome, status, get, post) in [
            (Ok, Some(200), false, false),
            (NotFound, Some(404), false, false),
            (SoftBlocked, Some(429), false, false),
            (Throttled, Some(429), true, true),
            (Throttled, Some(403), true, true),
            (Throttled, Some(503), true, true),
            (Throttled, Some(500), true, false),
            (Rejected, Some(400), false, false),
            (Rejected, Some(403), false, false),
            (Rejected, Some(301), false, false),
            (Rejected, Some(408), true, true),
            (Rejected, Some(500), true, false),
            (Rejected, Some(501), false, false),
            (Rejected, Some(520), true, false),
            (Rejected, Some(524), true, false),
            (Rejected, Some(529), true, false),
            (Throttled, Some(529), true, true),
            (Rejected, Some(525), false, false),
            (Rejected, Some(503), true, false),
            (Throttled, Some(8), true, true),
            (Rejected, Some(14), true, true),
            (Rejected, Some(4), false, false),
            (Error(ErrorKind::WrongBody), Some(200), false, false),
            (Error(ErrorKind::Timeout), None, true, false),
            (incomplete, Some(200), true, false),
            (incomplete, Some(500), true, false),
            (incomplete, Some(404), false, false),
            (incomplete, Some(403), false, false),
        ] {
            let attempt = attempt(outcome, status);
            let may = (
                may_retry(&Method::GET, &attempt, None),
                may_retry(&Method::POST, &attempt, None),
            );
            assert_eq!(may, (get, post), "{outcome:?} {status:?}");
        }
        let more = "401,420-422".parse().ok();
        for (status, is_listed) in [(401, true), (421, true), (419, false), (404, false)] {
            let attempt = attempt(Rejected, Some(status));
            for method in [Method::GET, Method::POST] {
                let may = may_retry(&method, &attempt, more.as_ref());
                assert_eq!(may, is_listed, "{status}");
            }
        }
        let mut refused = attempt(Throttled, Some(8));
        refused.advice.repeat = Repeat::Refused;
        assert!(!may_retry(&Method::GET, &refused, None));
        // What never went out may go out, whatever it is.
        let unsent = Attempt {
            sent: None,
            ..attempt(Error(ErrorKind::ConnectRefused), None)
        };
        assert!(may_retry(&Method::POST, &unsent, None));
    }

    proptest! {
        #[test]
        fn a_last_word_is_never_questioned(kind in 0..4_usize, last in 0..4_usize, sent: bool) {
            let outcome = [Outcome::Throttled, Outcome::Rejected, Outcome::Error(ErrorKind::Reset), Outcome::NotFound];
            let status = [400, 401, 404, 410][last];
            let mut attempt = attempt(outcome[kind], Some(status));
            attempt.sent = attempt.sent.filter(|_| sent);
            prop_assert!(!may_retry(&Method::GET, &attempt, None));
        }
    }
}
