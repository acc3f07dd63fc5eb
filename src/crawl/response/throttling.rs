//! Throttling: signals of a response about waits and quotas, in every dialect that targets use.
//! Pure functions of a response's status and header fields; the crawl calls them, and they are
//! public so that fuzzers can.
//!
//! It must not read a clock, draw a number or wait: instants are given, waiting, jitter and caps
//! are the harness's.
//!
//! A field that is malformed, negative or absurd is ignored. Where readable fields contradict each
//! other, the longest wait holds; `Retry-After` and its forms in milliseconds precede all others
//! (RFC 9110, 10.2.3).
//!
//! | room | for |
//! |---|---|
//! | `value` | numbers, spans and instants in header fields |
//! | `structured` | header fields of the IETF draft |
//! | `tests` | laws for any response, for fuzzing too; real responses |

#[cfg(any(test, fuzzing))]
#[path = "throttling/tests/laws.rs"]
pub mod laws;
mod structured;
#[cfg(test)]
mod tests;
mod value;

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use crawlmark_harness::sample::Quota;

use self::structured::{FIELD, RateLimit};
use self::value::Now;
use super::fields::{HeaderFields, strip_prefix};

/// Wait that GitHub requires after a refusal without any time in it ("wait for at least one
/// minute").
const GITHUB_MINIMUM: Duration = Duration::from_mins(1);

/// Signals of a response about throttling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// True if the answer counts as throttling: 429; 403, 503 or 529 with a time to come back (RFC
    /// 9110, 15.6.4); or a refusal that says that nothing is left of a quota.
    pub is_throttled: bool,
    /// For how long it asks to wait, from when the answer came, and never zero; none: it says
    /// nothing that could be read, and a back-off is the caller's.
    ///
    /// On throttling it is meant for every request under the same quota, on another failure (a 500
    /// with `Retry-After`) for this item alone.
    pub wait: Option<Duration>,
    /// Remaining quota, which good responses report, too.
    pub quota: Option<Quota>,
}

/// Reads the signals of an answer that came at `received`, the time since 1970 by this client's
/// clock. That is used only for dates and instants in an answer without a `Date` of its own.
///
/// It does not know challenge pages, which may look like limits and which no waiting helps: ask
/// about those first.
#[must_use]
pub fn read(status: u16, headers: HeaderFields<'_>, received: Duration) -> Signals {
    let fields = Fields::collect(headers, received);
    // On a success, a redirect and a last word, "nothing is left" is about the next request: this
    // one was answered.
    let may_refuse = status >= 400 && !is_final(status);
    let is_throttled = match status {
        _ if may_refuse && fields.is_used_up() => true,
        429 => true,
        403 | 503 | 529 => fields.retry_after.is_some(),
        _ => false,
    };
    // Elsewhere it is about a redirect, or about polling for a result. Zero, or a date that has
    // passed, promises nothing.
    let told = fields
        .retry_after
        .filter(|wait| status >= 400 && !wait.is_zero());
    Signals {
        is_throttled,
        wait: told.or_else(|| fields.quota_wait().filter(|_| is_throttled)),
        quota: fields.quota(),
    }
}

/// True if the target has given its last word on an item: asking again changes nothing.
pub(crate) const fn is_final(status: u16) -> bool {
    matches!(status, 400 | 401 | 404 | 410)
}

/// True if there are fields that may describe a quota. Good answers need not be [read] otherwise.
#[must_use]
pub fn tells_of_quota(headers: HeaderFields<'_>) -> bool {
    // Nearly every name differs in its first letter.
    headers
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(['r', 'R', 'x', 'X', 'a', 'A']))
        .any(|name| {
            ["ratelimit", "x-rate", "anthropic-"]
                .iter()
                .any(|start| strip_prefix(name, start).is_some())
        })
}

/// Fields that say for how long to wait, with their form: that of HTTP, those of services.
const WAITS: [(&str, WaitForm); 5] = [
    ("retry-after", value::delay),
    ("x-retry-after", value::delay),
    ("x-ratelimit-retry-after", value::delay),
    ("retry-after-ms", value::delay_ms),
    ("x-ms-retry-after-ms", value::delay_ms),
];

type WaitForm = fn(&[u8], Now<'_>) -> Option<Duration>;

/// Fields that describe one quota: `limit`, `remaining`, `reset` and `reset-after` between the start
/// and the end of their names.
struct QuotaNames {
    start: &'static str,
    end: &'static str,
    /// True if it counts requests: of another, only that nothing is left says something.
    counts_requests: bool,
}

const fn quota_of(start: &'static str, end: &'static str, counts_requests: bool) -> QuotaNames {
    QuotaNames {
        start,
        end,
        counts_requests,
    }
}

/// All quotas that are read: from before the drafts, of draft 03, and of services.
const QUOTAS: [QuotaNames; 13] = [
    quota_of("x-ratelimit-", "", true),
    quota_of("x-rate-limit-", "", true),
    quota_of("ratelimit-", "", true),
    quota_of("x-ratelimit-", "-requests", true),
    quota_of("x-ratelimit-", "-tokens", false),
    quota_of("anthropic-ratelimit-requests-", "", true),
    quota_of("anthropic-ratelimit-tokens-", "", false),
    quota_of("anthropic-ratelimit-input-tokens-", "", false),
    quota_of("anthropic-ratelimit-output-tokens-", "", false),
    quota_of("anthropic-ratelimit-unified-", "", false),
    quota_of("anthropic-priority-input-tokens-", "", false),
    quota_of("anthropic-priority-output-tokens-", "", false),
    quota_of("x-ratelimit-", "-project-tokens", false),
];

/// Every field that can be read about limits.
#[derive(Debug, Default)]
struct Fields {
    /// `Retry-After`: zero, if that was written or its date has passed.
    retry_after: Option<Duration>,
    rate_limit: RateLimit,
    /// Quotas of [`QUOTAS`].
    named: [QuotaFields; QUOTAS.len()],
    /// True if it comes from GitHub, each of whose answers has an `x-github-request-id`.
    is_github: bool,
}

impl Fields {
    fn collect(headers: HeaderFields<'_>, received: Duration) -> Self {
        let now = Now::new(headers, received);
        let mut fields = Self::default();
        for (name, value) in headers.iter() {
            let form = WAITS.iter().find(|(of, _)| name.eq_ignore_ascii_case(of));
            if let Some((_, read)) = form {
                fields.retry_after = fields.retry_after.max(read(value, now));
            } else if name.eq_ignore_ascii_case("x-github-request-id") {
                fields.is_github = true;
            } else {
                for (names, quota) in QUOTAS.iter().zip(&mut fields.named) {
                    if let Some(rest) = names.middle(name) {
                        quota.take_field(rest, value, now);
                    }
                }
            }
        }
        if headers.all(FIELD).next().is_some() {
            fields.rate_limit = RateLimit::read(headers);
        }
        fields
    }

    fn quotas(&self) -> impl Iterator<Item = &QuotaFields> {
        self.named.iter().chain([&self.rate_limit.draft_07])
    }

    /// True if something says that nothing is left.
    fn is_used_up(&self) -> bool {
        self.rate_limit.used_up.is_some() || self.quotas().any(|quota| quota.remaining == Some(0))
    }

    /// Return the time until there is more of a quota that has nothing left, never zero.
    fn quota_wait(&self) -> Option<Duration> {
        self.quotas()
            .map(QuotaFields::wait)
            .chain([self.rate_limit.used_up])
            .flatten()
            .max()
            .filter(|wait| !wait.is_zero())
            .or(self.is_github.then_some(GITHUB_MINIMUM))
    }

    /// Return the strictest of all quotas, so that the crawl slows down before it is refused.
    fn quota(&self) -> Option<Quota> {
        let quotas = QUOTAS
            .iter()
            .zip(&self.named)
            .filter(|(names, _)| names.counts_requests)
            .map(|(_, quota)| quota)
            .chain([&self.rate_limit.draft_07])
            .filter_map(QuotaFields::quota);
        self.rate_limit
            .quota
            .into_iter()
            .chain(quotas)
            .reduce(stricter)
    }
}

impl QuotaNames {
    /// Return the part of a field's name that says what it is; none of another quota's.
    fn middle<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = strip_prefix(name, self.start)?;
        let (middle, end) = rest.split_at_checked(rest.len().checked_sub(self.end.len())?)?;
        end.eq_ignore_ascii_case(self.end).then_some(middle)
    }
}

/// Values of the fields of one quota.
#[derive(Debug, Default)]
struct QuotaFields {
    remaining: Option<u64>,
    limit: Option<u64>,
    reset: Option<Duration>,
}

impl QuotaFields {
    /// Take in a field whose name ends in `rest`.
    fn take_field(&mut self, rest: &str, value: &[u8], now: Now<'_>) {
        let mut read = Self::default();
        match rest.to_ascii_lowercase().as_str() {
            "limit" => read.limit = value::count(value),
            "remaining" => read.remaining = value::count(value),
            "reset" => read.reset = value::reset(value, now),
            "reset-after" => read.reset = value::span(value),
            _ => {}
        }
        self.take(&read);
    }

    /// Take in what another line says; of two values, the one that allows less.
    fn take(&mut self, other: &Self) {
        self.remaining = lower(self.remaining, other.remaining);
        self.limit = lower(self.limit, other.limit);
        self.reset = self.reset.max(other.reset);
    }

    /// The time until there is more, if nothing is left. On a refusal a reset alone says that, too.
    fn wait(&self) -> Option<Duration> {
        self.reset.filter(|_| self.remaining.unwrap_or(0) == 0)
    }

    fn quota(&self) -> Option<Quota> {
        Some(Quota {
            remaining: self.remaining?,
            limit: self.limit,
            resets_in: self.reset,
        })
    }
}

fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Return the one of two quotas with the slower pace; of two equal ones that with the longer wait,
/// then with less left.
fn stricter(one: Quota, other: Quota) -> Quota {
    match pace(&one)
        .total_cmp(&pace(&other))
        .then_with(|| rest(&one).cmp(&rest(&other)))
    {
        Ordering::Less | Ordering::Equal => one,
        Ordering::Greater => other,
    }
}

fn pace(quota: &Quota) -> f64 {
    quota.pace_per_s().unwrap_or(f64::INFINITY)
}

const fn rest(quota: &Quota) -> (Reverse<Option<Duration>>, u64, Option<u64>) {
    (Reverse(quota.resets_in), quota.remaining, quota.limit)
}
