//! Laws that hold for any response: a header that is malformed, absurd or contradictory neither
//! stops a crawl nor speeds it up. Called by fuzzing and by a test.
//!
//! It must not know how a header is read: it compares the readings of different responses.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, HeaderName, HeaderValue};

use super::{Signals, tells_of_quota};
use crate::crawl::response::fields::lent_map;

/// The longest wait that may be believed: a leap year, beyond which no quota is counted.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// Lines beyond these are left out: what two dozen cannot do, more cannot, and each is held against
/// all of them.
const MAX_LINES: usize = 24;

const GITHUB: &str = "x-github-request-id";
const RATE_LIMIT: &str = "ratelimit";
const POLICY: &str = "ratelimit-policy";

/// An answer, and when it came.
#[derive(Debug)]
struct TimedAnswer {
    status: u16,
    received: Duration,
    lines: Vec<HeaderLine>,
}

type HeaderLine = (HeaderName, HeaderValue);

/// Checks all laws on any bytes, read as text in this form, where what cannot be read counts as a
/// default and lines that are no header field are left out:
///
/// ```text
/// 429 1691591063
/// retry-after: 5
/// ```
///
/// The first line has the status and the time of receipt in seconds since 1970.
///
/// # Panics
///
/// If one is broken.
pub fn check(text: &[u8]) {
    let answer = TimedAnswer::parse(text);
    let signals = answer.read();
    check_wait(&answer, &signals);
    assert!(
        signals.quota.is_none() || lent_map(&map(&answer.lines), tells_of_quota),
        "a quota is overlooked in {answer:?}"
    );
    if answer
        .lines
        .iter()
        .filter(|(name, _)| name == POLICY)
        .count()
        < 2
    {
        // Of two policies of one name the first counts.
        assert_eq!(
            answer.reversed().read(),
            signals,
            "the order of lines counts in {answer:?}"
        );
    }
    for at in 0..answer.lines.len() {
        check_junk(&answer, at, &signals);
        check_contradiction(&answer, at, &signals);
    }
}

impl TimedAnswer {
    fn parse(text: &[u8]) -> Self {
        let mut lines = text.split(|&byte| byte == b'\n');
        let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
        let mut first = first.split_ascii_whitespace();
        let mut number = || first.next().and_then(|word| word.parse::<u64>().ok());
        let status = number()
            .and_then(|status| status.try_into().ok())
            .filter(|status| (100..1000).contains(status));
        let received = Duration::from_secs(number().unwrap_or(0));
        let lines = lines.filter_map(line).take(MAX_LINES).collect();
        Self {
            status: status.unwrap_or(429),
            received,
            lines,
        }
    }

    fn read(&self) -> Signals {
        self.read_of(&self.lines)
    }

    fn read_of<'a>(&self, lines: impl IntoIterator<Item = &'a HeaderLine>) -> Signals {
        read(self.status, &map(lines), self.received)
    }

    fn reversed(&self) -> Self {
        let lines = self.lines.iter().rev().cloned().collect();
        Self {
            status: self.status,
            received: self.received,
            lines,
        }
    }
}

fn read(status: u16, headers: &HeaderMap, received: Duration) -> Signals {
    lent_map(headers, |fields| super::read(status, fields, received))
}

fn map<'a>(lines: impl IntoIterator<Item = &'a HeaderLine>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value.clone());
    }
    headers
}

fn line(text: &[u8]) -> Option<HeaderLine> {
    let at = text.iter().position(|&byte| byte == b':')?;
    let value = text[at + 1..].strip_prefix(b" ").unwrap_or(&text[at + 1..]);
    Some((
        HeaderName::from_bytes(&text[..at]).ok()?,
        HeaderValue::from_bytes(value).ok()?,
    ))
}

/// A wait is never nothing, nor longer than anybody may mean, and only a refusal asks for one.
fn check_wait(answer: &TimedAnswer, signals: &Signals) {
    if let Some(wait) = signals.wait {
        assert!(!wait.is_zero() && wait <= LONGEST, "{wait:?} in {answer:?}");
    }
    let asks = signals.is_throttled || signals.wait.is_some();
    assert!(answer.status >= 400 || !asks, "{signals:?} in {answer:?}");
}

/// Check that unreadable fields count as absent, alone and among others, before them and after.
fn check_junk(answer: &TimedAnswer, at: usize, signals: &Signals) {
    let (name, value) = &answer.lines[at];
    let nothing = answer.read_of([]);
    for value in malformed(name, value.as_bytes()) {
        let junk = (name.clone(), value);
        assert_eq!(answer.read_of([&junk]), nothing, "{junk:?} says something");
        let (before, after) = (
            [&junk].into_iter().chain(&answer.lines),
            answer.lines.iter().chain([&junk]),
        );
        assert_eq!(
            answer.read_of(before),
            *signals,
            "{junk:?} changes {answer:?}"
        );
        assert_eq!(
            answer.read_of(after),
            *signals,
            "{junk:?} changes {answer:?}"
        );
    }
    let unknown = (HeaderName::from_static("x-ratelimit-used"), value.clone());
    assert_eq!(
        answer.read_of(answer.lines.iter().chain([&unknown])),
        *signals,
        "{unknown:?} changes {answer:?}"
    );
}

/// Values near to `value` from which this field cannot be read.
fn malformed(name: &HeaderName, value: &[u8]) -> Vec<HeaderValue> {
    if name == GITHUB {
        // It is there or not, whatever its value.
        return Vec::new();
    }
    let mut values = vec![[value, b"\xe9"].concat(), [b"\xe9", value].concat()];
    if name != POLICY && name != RATE_LIMIT && value.first().is_some_and(u8::is_ascii_digit) {
        // In those a number may stand beside what is meant; before a name, as that of a weekday, it
        // is no sign.
        values.push([b"-", value].concat());
    }
    if name != POLICY {
        // What a quota is counted in needs no number. Everything else is one, or holds one.
        values.push(
            value
                .iter()
                .copied()
                .filter(|byte| !byte.is_ascii_digit())
                .collect(),
        );
    }
    values
        .into_iter()
        .filter_map(|value| HeaderValue::from_bytes(&value).ok())
        .collect()
}

/// Another line never makes a client less patient, save where it says what is left, by whose clock,
/// or what is counted.
fn check_contradiction(answer: &TimedAnswer, at: usize, after: &Signals) {
    let line = &answer.lines[at];
    let again = answer.lines.iter().chain([line]);
    assert_eq!(
        answer.read_of(again),
        *after,
        "{line:?} changes what it says when it says it twice, in {answer:?}"
    );
    if line.0 == DATE || line.0 == POLICY {
        return;
    }
    let others = answer
        .lines
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != at)
        .map(|(_, line)| line);
    let before = answer.read_of(others);
    let case = || format!("{line:?} turns {before:?} into {after:?}, in {answer:?}");
    assert!(!before.is_throttled || after.is_throttled, "{}", case());
    assert!(pace(after) <= pace(&before), "{}", case());
    // A time to come back precedes what a quota or GitHub says.
    let is_wait = |name: &HeaderName| super::WAITS.iter().any(|(wait, _)| name == wait);
    if answer
        .lines
        .iter()
        .any(|(name, _)| is_wait(name) || name == GITHUB)
    {
        return;
    }
    // A reset counts only as long as nothing is left.
    let alone = HeaderMap::from_iter([line.clone()]);
    let is_left =
        line.0.as_str().contains("remaining") && !read(418, &alone, answer.received).is_throttled;
    let is_about_what_is_left = is_left
        || read(200, &alone, answer.received)
            .quota
            .is_some_and(|quota| quota.remaining > 0);
    assert!(
        is_about_what_is_left || after.wait >= before.wait,
        "{}",
        case()
    );
}

fn pace(signals: &Signals) -> f64 {
    signals
        .quota
        .map_or(f64::INFINITY, |quota| super::pace(&quota))
}
