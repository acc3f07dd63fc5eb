//! What a process of a shard says, looked at before it leaves: each report adds up.
//!
//! Used by the stream of [`process`](super::process). It must not change what is said.

use crate::plan::ShardPlan;
use crate::stats::{Counters, FailureCause};
use crate::wire::{Frame, FrameDecoder};

/// The reports of a process on their way.
#[derive(Debug, Default)]
pub(super) struct Reports {
    decoder: FrameDecoder,
    shard: u32,
    /// IDs that it began with.
    began_with: u64,
    /// IDs that it gave away.
    shed: u64,
    /// Items that may be started without being counted anywhere: let through, and not begun.
    lanes: u64,
    /// Attempts of its last report.
    attempts: u64,
}

impl Reports {
    /// Those of the process of `plan`.
    pub(super) fn of(plan: &ShardPlan) -> Self {
        Self {
            shard: plan.shard,
            began_with: plan.items(),
            lanes: plan.lanes() as u64,
            ..Self::default()
        }
    }

    /// Look at bytes that were written.
    ///
    /// # Panics
    /// When they are no frames, or a report does not add up.
    pub(super) fn leave(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
        loop {
            let frame = self.decoder.next_frame();
            assert!(frame.is_ok(), "shard {} says {frame:?}", self.shard);
            match frame {
                Ok(Some(Frame::Shed(range))) => self.shed += range.len(),
                Ok(Some(Frame::Progress(report))) => {
                    let known = report.started() + report.remaining;
                    self.check(known, report.received, self.lanes);
                    self.check_requests(&report.counters, |cause| {
                        report.failures.get(cause).is_some()
                    });
                }
                Ok(Some(Frame::Final(outcome))) => {
                    let counters = &outcome.stats.counters;
                    let known = counters.items.dealt() + outcome.remaining;
                    self.check(known, outcome.received, 0);
                    self.check_requests(counters, |cause| outcome.failures.get(cause).is_some());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Each ID that it holds is known, but for `uncounted` at most.
    fn check(&self, known: u64, received: u64, uncounted: u64) {
        let held = self.began_with + received - self.shed;
        assert!(
            known <= held && held - known <= uncounted,
            "shard {} holds {held} IDs and tells of {known}",
            self.shard
        );
    }

    /// Requests are never fewer than before, and it is known when each kind failed.
    fn check_requests(&mut self, counters: &Counters, is_timed: impl Fn(FailureCause) -> bool) {
        let requests = &counters.requests;
        assert!(
            self.attempts <= requests.attempts,
            "shard {} tells of {} attempts after {}",
            self.shard,
            requests.attempts,
            self.attempts
        );
        self.attempts = requests.attempts;
        let mut kinds = requests.errors_by_kind.keys();
        let untimed = kinds.find(|kind| !is_timed(FailureCause::Error(**kind)));
        assert_eq!(untimed, None, "shard {} does not say when", self.shard);
    }
}
