//! The header fields about limits, gathered in one pass over an answer's head. `read` calls it for
//! every answer it is asked about; an answer without such fields costs the comparison of their
//! names.
//!
//! It must not know what a status makes of them.

use std::time::Duration;

use crawlmark_harness::sample::Quota;

use super::quota::strictest;
use super::structured::{FIELD, RateLimit};
use super::value::{self, Now};
use crate::crawl::header_fields::{HeaderFields, strip_prefix};

/// Every field that can be read about limits, by family.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// `Retry-After`: zero, if that was written or its date has passed.
    pub(super) retry_after: Option<Duration>,
    rate_limit: RateLimit,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`, as of draft 03.
    draft_03: QuotaFields,
    /// `X-RateLimit-..`.
    x: QuotaFields,
    /// `X-Rate-Limit-..`.
    x_rate: QuotaFields,
    sender: Sender,
}

/// Values of the three fields of one family.
#[derive(Debug, Default)]
pub(super) struct QuotaFields {
    pub(super) remaining: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) reset: Option<Duration>,
}

/// Sender whose rules apply where the fields are silent.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sender {
    #[default]
    Anyone,
    /// Each of its answers has an id in `x-github-request-id`.
    GitHub,
}

impl Fields {
    pub(super) fn collect(headers: HeaderFields<'_>, received: Duration) -> Self {
        let now = Now::new(headers, received);
        let mut fields = Self::default();
        for (name, value) in headers.iter() {
            if name.eq_ignore_ascii_case("retry-after") {
                fields.retry_after = fields.retry_after.max(value::delay(value, now));
            } else if name.eq_ignore_ascii_case("x-github-request-id") {
                fields.sender = Sender::GitHub;
            } else if let Some(rest) = strip_prefix(name, "x-ratelimit-") {
                fields.x.take_field(rest, value, now);
            } else if let Some(rest) = strip_prefix(name, "x-rate-limit-") {
                fields.x_rate.take_field(rest, value, now);
            } else if let Some(rest) = strip_prefix(name, "ratelimit-") {
                fields.draft_03.take_field(rest, value, now);
            }
        }
        if headers.all(FIELD).next().is_some() {
            fields.rate_limit = RateLimit::read(headers);
        }
        fields
    }

    fn families(&self) -> [&QuotaFields; 4] {
        [
            &self.rate_limit.draft_07,
            &self.draft_03,
            &self.x,
            &self.x_rate,
        ]
    }

    /// True if something says that nothing is left.
    pub(super) fn is_used_up(&self) -> bool {
        self.rate_limit.used_up.is_some()
            || self.families().iter().any(|told| told.remaining == Some(0))
    }

    pub(super) fn is_github(&self) -> bool {
        self.sender == Sender::GitHub
    }

    /// The time until there is more by `RateLimit` in any draft, if nothing is left.
    pub(super) fn rate_limit_wait(&self) -> Option<Duration> {
        let older = self.rate_limit.draft_07.wait().max(self.draft_03.wait());
        self.rate_limit.used_up.max(older)
    }

    /// Return the time until there is more by the `X-` fields that came before the drafts, if
    /// nothing is left.
    pub(super) fn x_rate_limit_wait(&self) -> Option<Duration> {
        self.x.wait().max(self.x_rate.wait())
    }

    /// The strictest of all quotas told.
    pub(super) fn quota(&self) -> Option<Quota> {
        let told = self.families().into_iter().filter_map(QuotaFields::quota);
        strictest(self.rate_limit.quota.into_iter().chain(told))
    }
}

impl QuotaFields {
    /// Takes in what a field says, whose name ends in `rest`.
    fn take_field(&mut self, rest: &str, value: &[u8], now: Now<'_>) {
        let mut told = Self::default();
        let is = |name: &str| rest.eq_ignore_ascii_case(name);
        match () {
            () if is("limit") => told.limit = value::count(value),
            () if is("remaining") => told.remaining = value::count(value),
            () if is("reset") => told.reset = value::reset(value, now),
            () if is("reset-after") => told.reset = value::span(value),
            () => {}
        }
        self.take(&told);
    }

    /// Takes in what another line says; of two values, the one that asks for more patience.
    pub(super) fn take(&mut self, other: &Self) {
        let Self {
            remaining,
            limit,
            reset,
        } = other;
        self.remaining = lower(self.remaining, *remaining);
        self.limit = lower(self.limit, *limit);
        self.reset = self.reset.max(*reset);
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
