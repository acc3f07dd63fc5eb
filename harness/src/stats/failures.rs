//! Failures by cause: first and last time of each, and one example with its details.
//!
//! Recorded by the engine, merged by the live view and the report. They add times and examples to
//! the counters, which hold the counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::sample::{Attempt, ErrorKind, Outcome};

/// The longest excerpt of an answer, and the longest details, bytes.
pub const MAX_EXCERPT: usize = 256;

/// Most causes with an example in a shard: only a target that invents statuses has more.
const MOST_EXAMPLES: usize = 32;

/// Cause of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureCause {
    /// The answer had this status.
    Status(u16),
    /// There was no valid answer.
    Error(ErrorKind),
    /// The answer was a challenge page.
    Challenge,
}

/// Failures of one cause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// End of the first one.
    pub first: Nanos,
    /// End of the last one.
    pub last: Nanos,
    /// Status of the first one's answer; none without an answer.
    pub status: Option<u16>,
    /// Start of the first one's body, of [`MAX_EXCERPT`] bytes at most; none without one.
    pub excerpt: Option<String>,
    /// Details of the first one, of [`MAX_EXCERPT`] bytes at most: the rule that was broken, the
    /// bytes that are missing.
    pub details: Option<String>,
}

impl Failure {
    /// What tells which of two is the earlier, and decides between equal times.
    fn example(&self) -> impl Ord {
        (self.first, self.status, &self.excerpt, &self.details)
    }
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_EXCERPT));
    text
}

/// Failures by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures(BTreeMap<FailureCause, Failure>);

impl FailureCause {
    /// Return the cause of a failed attempt; none of one that was good, not found or throttled.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Option<Self> {
        match attempt.outcome {
            Outcome::Ok
            | Outcome::NotModified
            | Outcome::NotFound
            | Outcome::Throttled
            | Outcome::Redirected
            | Outcome::Stepped => None,
            Outcome::SoftBlocked => Some(Self::Challenge),
            Outcome::Rejected => attempt.status.map(Self::Status),
            Outcome::Error(kind) => Some(Self::Error(kind)),
        }
    }

    /// The key of its count in reports.
    #[must_use]
    pub fn key(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Error(kind) => kind.name().to_owned(),
            Self::Challenge => "soft_blocked".to_owned(),
        }
    }

    /// The cause with this key; none of an unknown one.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        if key == "soft_blocked" {
            return Some(Self::Challenge);
        }
        key.parse()
            .ok()
            .map(Self::Error)
            .or_else(|| key.parse().ok().map(Self::Status))
    }

    /// True if there was a whole answer.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Self::Status(_) | Self::Challenge | Self::Error(ErrorKind::WrongBody)
        )
    }
}

impl Failures {
    /// Record an attempt that ended, if it failed. `details` are those of this attempt, and
    /// `excerpt` is called for the first answer of each cause.
    pub fn record(
        &mut self,
        attempt: &Attempt,
        details: Option<(ErrorKind, String)>,
        excerpt: impl FnOnce() -> Option<String>,
    ) {
        let Some(cause) = FailureCause::of(attempt) else {
            return;
        };
        let done = attempt.done;
        if let Some(failure) = self.0.get_mut(&cause) {
            (failure.first, failure.last) = (failure.first.min(done), failure.last.max(done));
            return;
        }
        let has_room = self.0.len() < MOST_EXAMPLES;

        let excerpt = (has_room && cause.is_answer())
            .then(excerpt)
            .flatten()
            .map(bounded);
        // Those of an earlier attempt may be left over.
        let details = details
            .filter(|(kind, _)| has_room && cause == FailureCause::Error(*kind))
            .map(|(_, text)| bounded(text));
        self.0.insert(
            cause,
            Failure {
                first: done,
                last: done,
                status: attempt.status,
                excerpt,
                details,
            },
        );
    }

    /// Merge with `other`; the example of the earlier failure stays.
    pub fn merge(&mut self, other: &Self) {
        for (cause, other) in &other.0 {
            let Some(own) = self.0.get_mut(cause) else {
                self.0.insert(*cause, other.clone());
                continue;
            };
            let last = own.last.max(other.last);
            if other.example() < own.example() {
                own.clone_from(other);
            }
            own.last = last;
        }
    }

    /// Move all moments to another clock.
    pub(crate) fn shift(&mut self, clock: impl Fn(Nanos) -> Nanos) {
        for failure in self.0.values_mut() {
            (failure.first, failure.last) = (clock(failure.first), clock(failure.last));
        }
    }

    /// Return the failures of a cause; none without any.
    #[must_use]
    pub fn get(&self, cause: FailureCause) -> Option<&Failure> {
        self.0.get(&cause)
    }

    /// Iterate over the causes.
    pub fn iter(&self) -> impl Iterator<Item = (FailureCause, &Failure)> {
        self.0.iter().map(|(cause, failure)| (*cause, failure))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::tests::{any_sample, attempt_of};

    fn recorded(attempts: &[Attempt]) -> Failures {
        let mut failures = Failures::default();
        for attempt in attempts {
            let details = match attempt.outcome {
                Outcome::Error(kind) => Some((kind, format!("{kind:?} at {}", attempt.done.0))),
                _ => None,
            };
            failures.record(attempt, details, || {
                Some(format!("{:?} at {}", attempt.status, attempt.done.0))
            });
        }
        failures
    }

    proptest! {
        #[test]
        fn merged_shards_know_as_much_as_one_that_saw_all_in_order(
            samples in prop::collection::vec((any_sample(), 0..3_usize), 0..60),
        ) {
            let mut attempts: Vec<_> = samples.iter().map(|(sample, shard)| (sample.attempt.clone(), *shard)).collect();
            attempts.sort_by_key(|(attempt, _)| attempt.done);
            // Of failures at the same moment, any may be the example.
            attempts.dedup_by_key(|(attempt, _)| attempt.done);
            let all: Vec<Attempt> = attempts.iter().map(|(attempt, _)| attempt.clone()).collect();
            let shard = |n| -> Vec<Attempt> { attempts.iter().filter(|(_, shard)| *shard == n).map(|(a, _)| a.clone()).collect() };
            let [a, b, c] = [0, 1, 2].map(|n| recorded(&shard(n)));
            let merged = |parts: [&Failures; 3]| {
                let mut all = Failures::default();
                for part in parts {
                    all.merge(part);
                }
                all
            };
            prop_assert_eq!(merged([&a, &b, &c]), recorded(&all));
            prop_assert_eq!(merged([&c, &a, &b]), recorded(&all));
            let (mut left, mut right) = (b.clone(), a.clone());
            left.merge(&c);
            right.merge(&left);
            prop_assert_eq!(right, recorded(&all), "associative");
        }
    }

    #[test]
    fn an_excerpt_is_asked_for_once_of_answers_alone_and_it_and_the_details_are_short() {
        let attempt = |outcome, status| Attempt {
            status,
            ..attempt_of(Nanos(7), Nanos(7), outcome)
        };
        let mut failures = Failures::default();
        let mut asked = 0;
        for (outcome, status) in [
            (Outcome::Ok, Some(200)),
            (Outcome::Throttled, Some(429)),
            (Outcome::Rejected, Some(500)),
            (Outcome::Rejected, Some(500)),
            (Outcome::Error(ErrorKind::Incomplete), Some(200)),
            (Outcome::Error(ErrorKind::WrongBody), Some(200)),
        ] {
            let left_over = Some((ErrorKind::Incomplete, "ü".repeat(MAX_EXCERPT)));
            failures.record(&attempt(outcome, status), left_over, || {
                asked += 1;
                Some("ü".repeat(MAX_EXCERPT))
            });
        }
        assert_eq!(asked, 2);
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let lengths: Vec<_> = failures
            .iter()
            .map(|(_, failure)| (length(&failure.excerpt), length(&failure.details)))
            .collect();
        assert_eq!(
            lengths,
            [(MAX_EXCERPT, 0), (0, MAX_EXCERPT), (MAX_EXCERPT, 0)]
        );
    }
}
