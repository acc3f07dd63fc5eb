//! Requests that arrive before a promised wait is over, and those whose client could have known of
//! the wait. Called by the limiter for every request.
//!
//! It must not influence a verdict: a client that is too early is treated like any other.

use crate::limit::KeyHash;
use std::cell::RefCell;

/// Time after the first making of a promise for which a request that was not told of it may still
/// be on its way.
pub(super) const NOTICE_NS: u64 = 50_000_000;

/// Kind of a request that came before a promised wait had passed. Of several limits the greater
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EarlyRetry {
    /// Request that may have crossed the promise on the way.
    Crossed,
    /// Its client could know.
    Early,
}

/// Latest refusals of one limit on one connection, by key.
///
/// What is older than [`NOTICE_NS`] is forgotten, because it makes no difference any more.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    told: RefCell<Vec<(KeyHash, u64)>>,
}

impl Refusals {
    /// The connection is told at `now_ns` how long its request's key is to wait.
    pub(super) fn note(&self, key: KeyHash, now_ns: u64) {
        let mut told = self.told.borrow_mut();
        told.retain(|(other, told_ns)| {
            *other != key && now_ns.saturating_sub(*told_ns) <= NOTICE_NS
        });
        told.push((key, now_ns));
    }

    /// Judges a request that came at `now_ns`, while a promise ran that had first been made at
    /// `made_ns`.
    pub(super) fn judge(&self, key: KeyHash, now_ns: u64, made_ns: u64) -> EarlyRetry {
        if now_ns.saturating_sub(made_ns) > NOTICE_NS || self.has_since(key, made_ns) {
            EarlyRetry::Early
        } else {
            EarlyRetry::Crossed
        }
    }

    fn has_since(&self, key: KeyHash, made_ns: u64) -> bool {
        self.told
            .borrow()
            .iter()
            .any(|(other, told_ns)| *other == key && *told_ns >= made_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyHash = KeyHash(1);
    const B: KeyHash = KeyHash(2);

    #[test]
    fn who_was_not_told_may_have_crossed_it_for_so_long_and_no_longer() {
        let heard = Refusals::default();
        for (now_ns, haste) in [
            (0, EarlyRetry::Crossed),
            (7, EarlyRetry::Crossed),
            (7 + NOTICE_NS, EarlyRetry::Crossed),
            (8 + NOTICE_NS, EarlyRetry::Early),
            (u64::MAX, EarlyRetry::Early),
        ] {
            assert_eq!(heard.judge(A, now_ns, 7), haste, "{now_ns}");
        }
    }

    #[test]
    fn who_was_told_knows_and_who_was_told_something_else_does_not() {
        let heard = Refusals::default();
        heard.note(A, 10);
        heard.note(B, 20);
        assert_eq!(heard.judge(A, 30, 10), EarlyRetry::Early);
        assert_eq!(heard.judge(B, 30, 15), EarlyRetry::Early);
        // A later promise, to the same key.
        assert_eq!(heard.judge(A, 30, 11), EarlyRetry::Crossed);
        assert_eq!(heard.judge(KeyHash(3), 30, 10), EarlyRetry::Crossed);
    }

    #[test]
    fn what_makes_no_difference_is_not_kept() {
        let heard = Refusals::default();
        for step in 0..1_000 {
            heard.note(KeyHash(step), step * NOTICE_NS / 4);
            heard.note(A, step * NOTICE_NS / 4);
        }
        assert_eq!(heard.told.borrow().len(), 6);
    }
}
