//! `WindowLog`: the last requests of a budget in windows, by which no window holds too many,
//! wherever it begins.
//!
//! The budget's own time lets a window's requests go at its start. One that goes late would be
//! followed too closely by the same one of the next window, so each also waits for the end of its
//! own window: for a time after the request that came as many places before it. Pure; called by the
//! pacer before a request is written.

use std::collections::VecDeque;

use super::tempo::Curve;
use crate::clock::Nanos;

/// The last requests of a shard, as many as a window may have: 8 bytes each.
#[derive(Debug)]
pub(super) struct WindowLog {
    apart_ns: u64,
    size: usize,
    sent: VecDeque<Nanos>,
}

impl WindowLog {
    /// The log of a shard that may send `size` requests in each window of `curve`; none without
    /// windows.
    pub(super) fn of(curve: &Curve, size: u64) -> Option<Self> {
        let apart_ns = curve.apart_ns()?;
        Some(Self {
            apart_ns,
            size: usize::try_from(size).unwrap_or(usize::MAX).max(1),
            sent: VecDeque::new(),
        })
    }

    /// The next request is written no sooner than this.
    pub(super) fn next(&self) -> Nanos {
        let oldest = self.sent.front().filter(|_| self.sent.len() >= self.size);
        oldest.map_or(Nanos(0), |oldest| {
            Nanos(oldest.0.saturating_add(self.apart_ns))
        })
    }

    /// Note a request written at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        if self.sent.len() >= self.size {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }

    /// Have `size` requests in a window from `now` on, of which those that are more than before
    /// count as written now.
    pub(super) fn grow(&mut self, size: u64, now: Nanos) {
        let more = usize::try_from(size).unwrap_or(usize::MAX) - self.size;
        self.size += more;
        self.sent.extend(std::iter::repeat_n(now, more));
    }

    /// Assume that a process before this one wrote all it might at `from`.
    pub(super) fn begin_late(&mut self, from: Nanos) {
        self.sent.resize(self.size, from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Curve, Pace, Pacer};
    use super::*;
    use crate::fixtures::plan;
    use crate::units::{Rate, RateShape};

    const WINDOWS: u64 = 40;

    /// When a shard writes its requests until `end`, if it is always in demand and wakes late by
    /// each of `late` in turn.
    fn written(pacer: &mut Pacer, end: u64, late: &[u64]) -> Vec<u64> {
        let (mut now, mut held, mut sent) = (Nanos(0), 0, Vec::new());
        for late in late.iter().cycle() {
            let mut next = loop {
                match pacer.poll(now) {
                    Pace::Go(_) => held += 1,
                    Pace::Wait(next) => break next,
                }
            };
            while held > 0 {
                match pacer.peek_send(now) {
                    Pace::Go(_) => {
                        pacer.sent(now);
                        sent.push(now.0);
                        held -= 1;
                    }
                    Pace::Wait(at) => {
                        next = next.min(at);
                        break;
                    }
                }
            }
            now = Nanos(next.0 + late);
            if now.0 >= end {
                break;
            }
        }
        assert!(pacer.audit().unwrap().kept());
        sent
    }

    proptest! {
        /// All shards together, each late as it may be.
        #[test]
        fn windows_are_never_overfull_and_full_unless_shards_are_later_than_the_tolerance(
            permits in 1..60_u64, every_ms in 1..2_000_u64, shards in 1..9_u32, is_prompt: bool,
            late in prop::collection::vec(0..1_000_u64, 30),
        ) {
            prop_assume!(permits >= u64::from(shards));
            let every_ns = every_ms * 1_000_000;
            let shape = RateShape::Windows { every_ns };
            let apart_ns = shape.apart_ns().unwrap();
            let most = if is_prompt { every_ns - apart_ns } else { every_ns * 3 / 2 };
            let late: Vec<u64> = late.iter().map(|part| most / 1_000 * part).collect();
            let mut run = plan();
            (run.shards, run.connections, run.ids.end) = (shards, shards, permits * WINDOWS);
            (run.rate, run.shape) = (Some(Rate { permits, period_ns: every_ns }), shape.clone());
            (run.burst, run.at_start) = (permits, permits);
            let mut sent = Vec::new();
            for (i, shard) in run.split(&[]).into_iter().enumerate() {
                let mut pacer = Pacer::shaped(shard.budget, Curve::of(&shape, None), Nanos(0));
                let late: Vec<u64> = late.iter().copied().cycle().skip(i).take(late.len()).collect();
                let own = written(&mut pacer, every_ns * WINDOWS, &late);
                prop_assert!(!is_prompt || own.len() as u64 == shard.items(), "its IDs take as many windows as all");
                sent.extend(own);
            }
            sent.sort_unstable();
            for (n, first) in sent.iter().enumerate() {
                let held = sent[n..].iter().take_while(|at| **at < first + apart_ns).count() as u64;
                prop_assert!(held <= permits, "{held} in less than a window");
            }
            if is_prompt {
                for window in 0..WINDOWS {
                    let start = window * every_ns;
                    let held = sent.iter().filter(|at| (start..start + every_ns).contains(at)).count() as u64;
                    prop_assert_eq!(held, permits, "in window {}", window);
                }
            }
        }
    }
}
