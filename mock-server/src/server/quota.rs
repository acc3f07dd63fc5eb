//! Limits in a response: status and body of a refusal, and the header fields with the remaining
//! quota. `answer` calls it for every request.
//!
//! It must not decide anything, and it adds nothing to an admitted response unless a limit has
//! quota headers.

use super::limiter::{AdmissionVerdict, Rejection, Told};
use crate::clock;
use crate::limit::{DIALECTS, Dialect, Limit, Limits, RefusalBody, Remaining, RetryAfter};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use std::time::{Duration, UNIX_EPOCH};

const NS_PER_S: u64 = 1_000_000_000;

const LIMITED: &[u8] = br#"{"error":"too many requests; come back after Retry-After"}"#;
const LIMITED_SILENTLY: &[u8] = br#"{"error":"too many requests"}"#;
const UNWELCOME: &[u8] = br#"{"error":"too many connections"}"#;

const CLOSE: HeaderValue = HeaderValue::from_static("close");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Draft-ietf-httpapi-ratelimit-headers, "Problem Types".
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const FIELD: HeaderName = HeaderName::from_static("ratelimit");
const X_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
const DRAFT_03_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The status and the body of a refusal, if the verdict is one.
pub(super) fn refusal(limits: &Limits, verdict: &AdmissionVerdict) -> Option<(StatusCode, Bytes)> {
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
pub(super) fn say(limits: &Limits, verdict: &AdmissionVerdict, headers: &mut HeaderMap) {
    match verdict {
        // Most targets have no limit, and then this is the whole of it.
        AdmissionVerdict::Admitted(admission) if admission.remaining.is_empty() => {}
        AdmissionVerdict::Admitted(admission) => {
            let told: Vec<_> = admission
                .remaining
                .iter()
                .filter_map(|(index, left)| Some((limits.get(*index)?, *left)))
                .collect();
            say_all(&told, headers);
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
                let left = Remaining {
                    remaining: 0,
                    reset_ns: rejection.retry_after_ns,
                };
                say_all(&[(limit, left)], headers);
            }
        }
    }
}

fn date(seconds: u64) -> String {
    // The last date that can be written is in the year 9999.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST)))
}

/// Writes what limits say of themselves. Where a dialect has room for one limit only, that is the
/// one with the least left.
fn say_all(told: &[(&Limit, Remaining)], headers: &mut HeaderMap) {
    for (_, dialect) in DIALECTS {
        let of_dialect: Vec<_> = told
            .iter()
            .filter(|(limit, _)| limit.headers.contains(&dialect))
            .collect();
        let least = of_dialect.iter().min_by_key(|(_, left)| left.remaining);
        let Some((
            limit,
            Remaining {
                remaining,
                reset_ns,
            },
        )) = least
        else {
            continue;
        };
        let quota = limit.algorithm.quota().requests.into();
        let reset_s = reset_ns.div_ceil(NS_PER_S);
        match dialect {
            Dialect::XRateLimit => {
                let due = clock::wall().saturating_add(Duration::from_nanos(*reset_ns));
                let due_s = due.as_secs() + u64::from(due.subsec_nanos() > 0);
                say_three(X_FIELDS, [quota, *remaining, due_s], headers);
            }
            Dialect::XRateLimitDelta => say_three(X_FIELDS, [quota, *remaining, reset_s], headers),
            Dialect::Draft03 => say_three(DRAFT_03_FIELDS, [quota, *remaining, reset_s], headers),
            Dialect::Draft07 => {
                let field = format!("limit={quota}, remaining={remaining}, reset={reset_s}");
                insert(headers, &FIELD, &field);
            }
            Dialect::Ietf => say_ietf(&of_dialect, headers),
        }
    }
}

fn say_three(names: [HeaderName; 3], numbers: [u64; 3], headers: &mut HeaderMap) {
    for (name, number) in names.into_iter().zip(numbers) {
        headers.insert(name, number.into());
    }
}

/// As of draft-ietf-httpapi-ratelimit-headers-08: a policy for each limit, and how it stands.
fn say_ietf(told: &[&(&Limit, Remaining)], headers: &mut HeaderMap) {
    let (mut policies, mut remaining) = (Vec::new(), Vec::new());
    for (limit, left) in told {
        let (name, quota) = (limit.name(), limit.algorithm.quota());
        let (window, reset) = match quota.per_ns {
            None => (";qu=\"concurrent-requests\"".to_owned(), String::new()),
            Some(ns) => {
                // A window is a whole number of seconds, or is left out.
                let is_whole = ns % NS_PER_S == 0;
                let window = is_whole.then(|| format!(";w={}", ns / NS_PER_S));
                let reset = format!(";t={}", left.reset_ns.div_ceil(NS_PER_S));
                (window.unwrap_or_default(), reset)
            }
        };
        policies.push(format!("\"{name}\";q={}{window}", quota.requests));
        remaining.push(format!("\"{name}\";r={}{reset}", left.remaining));
    }
    insert(headers, &POLICY, &policies.join(", "));
    insert(headers, &FIELD, &remaining.join(", "));
}

fn insert(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
