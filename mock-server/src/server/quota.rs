//! Limits in a response: status and body of a refusal, and the header fields with the remaining
//! quota. `answer` calls it for every request.
//!
//! It must not decide anything, and it adds nothing to an admitted response unless a limit has
//! quota headers.

use crate::clock;
use crate::limit::{Dialect, Limit, Limits, Quota, RefusalBody, RetryAfter, Standing};
use crate::limiter::{AdmissionVerdict, Rejection, Told};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

const NS_PER_S: u64 = 1_000_000_000;

const LIMITED: &[u8] = br#"{"error":"too many requests; come back after Retry-After"}"#;
const LIMITED_SILENTLY: &[u8] = br#"{"error":"too many requests"}"#;
const UNWELCOME: &[u8] = br#"{"error":"too many connections"}"#;

const CLOSE: HeaderValue = HeaderValue::from_static("close");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Draft-ietf-httpapi-ratelimit-headers, "Problem Types".
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const FIELD: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The status and the body of a refusal, if the verdict is one.
pub(super) fn refusal(
    limits: &Limits,
    verdict: &AdmissionVerdict<'_>,
) -> Option<(StatusCode, Bytes)> {
    match verdict {
        AdmissionVerdict::Admitted(_) => None,
        AdmissionVerdict::Unwelcome => Some((
            StatusCode::SERVICE_UNAVAILABLE,
            Bytes::from_static(UNWELCOME),
        )),
        AdmissionVerdict::Rejected(Rejection { limit, .. }) => {
            let limit = limits.get(*limit)?;
            let body = match (limit.body, limit.retry_after) {
                (RefusalBody::Problem, _) => problem(limit).into(),
                (RefusalBody::Plain, RetryAfter::None) => Bytes::from_static(LIMITED_SILENTLY),
                (RefusalBody::Plain, _) => Bytes::from_static(LIMITED),
            };
            Some((limit.status, body))
        }
    }
}

fn problem(limit: &Limit) -> String {
    let problem = serde_json::json!({
        "type": QUOTA_EXCEEDED,
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": limit.status.as_u16(),
        "violated-policies": [limit.name()],
    });
    problem.to_string()
}

/// Writes the fields that go with a verdict.
///
/// On what is admitted, each limit says how it stands after it; where two limits write the same
/// field, the one with less left does. On a refusal only the limit that turned the request away
/// speaks.
pub(super) fn say(limits: &Limits, verdict: &AdmissionVerdict<'_>, headers: &mut HeaderMap) {
    match verdict {
        AdmissionVerdict::Admitted(admission) => {
            if !admission.standings.is_empty() {
                let standings = admission.standings.iter();
                let of_limits = standings
                    .filter_map(|(index, standing)| Some((limits.get(*index)?, *standing)));
                say_all(&of_limits, headers);
            }
        }
        AdmissionVerdict::Unwelcome => {
            headers.insert(CONNECTION, CLOSE);
        }
        AdmissionVerdict::Rejected(rejection) => {
            let Some(limit) = limits.get(rejection.limit) else {
                return;
            };
            match rejection.told {
                Told::Nothing => {}
                Told::Seconds(seconds) => {
                    headers.insert(RETRY_AFTER, seconds.into());
                }
                Told::Date { now_s, wall_s } => {
                    // The answer's own date is that of the decision: the difference of the two is
                    // what was meant.
                    insert(headers, &DATE, &date(now_s));
                    insert(headers, &RETRY_AFTER, &date(wall_s));
                }
            }
            if limit.body == RefusalBody::Problem {
                headers.insert(CONTENT_TYPE, PROBLEM);
            }
            if !limit.headers.is_empty() {
                let standing = Standing {
                    remaining: 0,
                    reset_ns: rejection.retry_after_ns,
                };
                say_all(&std::iter::once((limit, standing)), headers);
            }
        }
    }
}

fn date(seconds: u64) -> String {
    // The last date that can be written is in the year 9999.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST)))
}

fn say_all<'a>(
    told: &(impl Iterator<Item = (&'a Limit, Standing)> + Clone),
    headers: &mut HeaderMap,
) {
    let wall = clock::wall();
    for dialect in Dialect::ALL {
        let of_dialect = told.clone().filter(|(limit, _)| limit.headers.has(dialect));
        if dialect == Dialect::Ietf {
            say_ietf(of_dialect, headers);
        } else if let Some((limit, standing)) =
            of_dialect.min_by_key(|(_, standing)| standing.remaining)
        {
            let standing = QuotaFields::new(limit, standing, wall);
            match dialect {
                Dialect::XRateLimit => three(
                    [&X_LIMIT, &X_REMAINING, &X_RESET],
                    standing.with_epoch(),
                    headers,
                ),
                Dialect::XRateLimitDelta => three(
                    [&X_LIMIT, &X_REMAINING, &X_RESET],
                    standing.with_delta(),
                    headers,
                ),
                Dialect::Draft03 => {
                    three([&LIMIT, &REMAINING, &RESET], standing.with_delta(), headers);
                }
                Dialect::Draft07 | Dialect::Ietf => {
                    let [limit, remaining, reset] = standing.with_delta();
                    insert(
                        headers,
                        &FIELD,
                        &format!("limit={limit}, remaining={remaining}, reset={reset}"),
                    );
                }
            }
        }
    }
}

/// Three numbers in three fields.
fn three(names: [&HeaderName; 3], numbers: [u64; 3], headers: &mut HeaderMap) {
    for (name, number) in names.into_iter().zip(numbers) {
        headers.insert(name, number.into());
    }
}

/// A standing in the units of header fields.
struct QuotaFields {
    limit: u64,
    remaining: u64,
    /// Whole seconds, rounded up.
    delta_s: u64,
    /// Seconds since 1970, rounded up: at that second there is more.
    epoch_s: u64,
}

impl QuotaFields {
    fn new(limit: &Limit, standing: Standing, wall: Duration) -> Self {
        let due = wall.saturating_add(Duration::from_nanos(standing.reset_ns));
        Self {
            limit: limit.algorithm.quota().requests.into(),
            remaining: standing.remaining,
            delta_s: standing.reset_ns.div_ceil(NS_PER_S),
            epoch_s: due.as_secs() + u64::from(due.subsec_nanos() > 0),
        }
    }

    const fn with_epoch(&self) -> [u64; 3] {
        [self.limit, self.remaining, self.epoch_s]
    }

    const fn with_delta(&self) -> [u64; 3] {
        [self.limit, self.remaining, self.delta_s]
    }
}

/// The fields of the present draft: lists, in which every limit has a place.
fn say_ietf<'a>(told: impl Iterator<Item = (&'a Limit, Standing)>, headers: &mut HeaderMap) {
    let (mut policies, mut standings) = (String::new(), String::new());
    for (limit, standing) in told {
        let comma = if policies.is_empty() { "" } else { ", " };
        let Quota { requests, per_ns } = limit.algorithm.quota();
        // Writing to a string cannot fail.
        let _ = write!(policies, "{comma}\"{}\";q={requests}", limit.name());
        let _ = write!(
            standings,
            "{comma}\"{}\";r={}",
            limit.name(),
            standing.remaining
        );
        match per_ns {
            None => policies.push_str(";qu=\"concurrent-requests\""),
            Some(ns) => {
                // A window is a whole number of seconds, or left out.
                if ns % NS_PER_S == 0 {
                    let _ = write!(policies, ";w={}", ns / NS_PER_S);
                }
                let _ = write!(standings, ";t={}", standing.reset_ns.div_ceil(NS_PER_S));
            }
        }
    }
    if !policies.is_empty() {
        insert(headers, &POLICY, &policies);
        insert(headers, &FIELD, &standings);
    }
}

/// Writes a field. All that is written here is plain ASCII.
fn insert(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
