//! Throttling: signals of a response about waits and quotas, in every dialect that targets use.
//! Pure functions of a response's status and header fields; the crawl calls them, and they are
//! public so that fuzzers can.
//!
//! It must not read a clock, draw a number or wait: instants are given, waiting, jitter and caps
//! are the harness's.
//!
//! A field that is malformed, negative or absurd is ignored. Where readable fields of one
//! rank contradict each other, the longest wait holds.
//!
//! | room | for |
//! |---|---|
//! | `value` | numbers, spans and instants in header fields |
//! | `fields`, `structured` | header fields about limits, those of the IETF draft |
//! | `quota` | strictest of several quotas |
//! | `retry` | rules for retries, by method, status and error |
//! | `laws`, `tests` | laws for any response, for fuzzing; real responses |

mod fields;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod quota;
mod retry;
mod structured;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

use crawlmark_harness::sample::Quota;

use self::fields::Fields;
pub use self::retry::may_retry;
use super::header_fields::{HeaderFields, strip_prefix};

/// Wait that GitHub requires after a refusal without any time in it ("wait for at least one
/// minute").
const GITHUB_MINIMUM: Duration = Duration::from_mins(1);

/// Signals of a response about throttling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// Reason why the answer counts as throttling; none: it does not.
    pub throttle: Option<Throttle>,
    /// For how long it asks to wait; none: it says nothing that could be read, and a back-off is
    /// the caller's.
    ///
    /// On throttling it is meant for every request under the same quota, on another failure (a 500
    /// with `Retry-After`) for this item alone.
    pub wait: Option<Wait>,
    /// Remaining quota, which good responses report, too.
    pub quota: Option<Quota>,
}

/// Reason why an answer counts as throttling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// A refusal that says that nothing is left: GitHub's 403 or 429 with
    /// `x-ratelimit-remaining: 0`, and the same in any other dialect.
    QuotaUsedUp,
    /// 429, without more.
    TooManyRequests,
    /// 503 with a time to come back (RFC 9110, 15.6.4): it is about load, not about a fault.
    Unavailable,
    /// A limit that the quota fields do not describe, as GitHub's secondary ones: 403 with
    /// `Retry-After`, or GitHub's 429 with something left.
    Secondary,
}

/// For how long a target asks to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Counted from when the answer came; never zero.
    pub promised: Duration,
    /// Source of the signal.
    pub source: Source,
}

/// Field or rule that a wait comes from, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `Retry-After`, in seconds or as a date.
    RetryAfter,
    /// `t` of `RateLimit`, or `reset` and `RateLimit-Reset` of its older drafts.
    RateLimit,
    /// `X-RateLimit-Reset`, `X-RateLimit-Reset-After`, or the same with `X-Rate-Limit-`.
    XRateLimit,
    /// GitHub's rule for refusals that say nothing.
    GitHubMinimum,
}

/// Reads the signals of an answer that came at `received`, the time since 1970 by this client's
/// clock. That is used only for dates and instants in an answer without a `Date` of its own.
///
/// It does not know challenge pages, which may look like limits and which no waiting helps: ask
/// about those first.
#[must_use]
pub fn read(status: u16, headers: HeaderFields<'_>, received: Duration) -> Signals {
    let fields = Fields::collect(headers, received);
    let throttle = throttle(status, &fields);
    Signals {
        throttle,
        wait: wait(status, throttle, &fields),
        quota: fields.quota(),
    }
}

/// True if there are fields that may describe a quota. Good answers need not be [read] otherwise.
#[must_use]
pub fn tells_of_quota(headers: HeaderFields<'_>) -> bool {
    // Nearly every name differs in its first letter.
    let mut names = headers
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(['r', 'R', 'x', 'X']));
    names.any(|name| {
        ["ratelimit", "x-rate"]
            .iter()
            .any(|start| strip_prefix(name, start).is_some())
    })
}

fn throttle(status: u16, fields: &Fields) -> Option<Throttle> {
    let dated = fields.retry_after.is_some();
    match status {
        _ if may_refuse(status) && fields.is_used_up() => Some(Throttle::QuotaUsedUp),
        429 if fields.is_github() => Some(Throttle::Secondary),
        429 => Some(Throttle::TooManyRequests),
        503 if dated => Some(Throttle::Unavailable),
        403 if dated => Some(Throttle::Secondary),
        _ => None,
    }
}

/// True if an answer with this status may be about a quota.
///
/// On a success, a redirect and these four, "nothing is left" is about the next request: this one
/// was answered. Of the others some are an item's last word, too; taking one for throttling costs a
/// request, the opposite costs the item.
const fn may_refuse(status: u16) -> bool {
    status >= 400 && !retry::is_final(status)
}

fn wait(status: u16, throttle: Option<Throttle>, fields: &Fields) -> Option<Wait> {
    // Zero, or a date that has passed, promises nothing: it must not outrank a field that does, nor
    // a back-off.
    let wait = |source, promised: Option<Duration>| {
        promised
            .filter(|promised| !promised.is_zero())
            .map(|promised| Wait { promised, source })
    };
    // Elsewhere it is about a redirect, or about polling for a result.
    let retry_after = wait(
        Source::RetryAfter,
        fields.retry_after.filter(|_| status >= 400),
    );
    retry_after.or_else(|| {
        throttle?;
        wait(Source::RateLimit, fields.rate_limit_wait())
            .or_else(|| wait(Source::XRateLimit, fields.x_rate_limit_wait()))
            .or_else(|| {
                wait(
                    Source::GitHubMinimum,
                    fields.is_github().then_some(GITHUB_MINIMUM),
                )
            })
    })
}
