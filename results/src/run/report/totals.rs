//! Counts of the run or of a shard: items by state, attempts by outcome.

use serde::{Deserialize, Serialize};

use super::share;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{Counters, ItemCounts, RequestCounts};
use crawlmark_harness::supervisor::ShardRecord;
use crawlmark_harness::units::IdRange;

/// Items by state. The states sum to `planned`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// IDs in the range, without those that were finished before the run.
    pub planned: u64,
    /// Those that were tried, as far as is known.
    #[serde(flatten)]
    pub items: ItemCounts,
    /// Never tried: no request for them was sent.
    pub not_attempted: u64,
    /// Started by a shard that died, as far as is known, or perhaps started since its last report.
    pub lost: u64,
}

/// Good items of the plan: the first figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Got {
    /// Items that ended well, and those that earlier sessions had finished.
    pub ok: u64,
    /// Items of the plan, those that earlier sessions had finished included. Of a run with a time
    /// and a range that no time uses up, those that it tried.
    pub of: u64,
    /// `ok / of`, 0 to 1; null when none was planned.
    pub share: Option<f64>,
}

/// IDs of a range that no run with a time uses up, such as the default one.
const ENDLESS: u64 = 100_000_000;

/// True if the time ends a run, whatever it takes: nobody asked for all of its range.
pub(crate) fn is_endless(plan: &RunPlan) -> bool {
    plan.duration.is_some() && plan.items() >= ENDLESS
}

impl Got {
    pub(super) fn new(ledger: &Ledger, plan: &RunPlan, finished_before: u64) -> Self {
        let planned = if is_endless(plan) {
            ledger.items.begun().saturating_add(ledger.lost)
        } else {
            ledger.planned
        };
        let ok = ledger.ok.saturating_add(finished_before);
        let of = planned.saturating_add(finished_before);
        Self {
            ok,
            of,
            share: (of > 0).then(|| ok as f64 / of as f64),
        }
    }
}

/// Counts of the run or of a shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Attempts by outcome, connections and bytes.
    #[serde(flatten)]
    pub requests: RequestCounts,
    /// From the common start to the end of the last attempt, or to the end of the run's duration,
    /// or until it was stopped, when it waited until then with items left.
    pub duration_s: f64,
    /// From the common start to when the last request was sent, or as above if the run waited with
    /// items left: the time in which it was to send.
    #[serde(default)]
    pub sent_until_s: f64,
    /// Items that ended by themselves, per second: the aborted ones did not. Rates count what ended
    /// after the warm-up, over the time from the end of the warm-up to the end of the last attempt.
    pub items_per_s: f64,
    /// Good items per second: those in state `ok`. An item that was not found is an answer, neither
    /// good nor failed.
    pub ok_per_s: f64,
    /// Attempts that ended by themselves, per second of the same time.
    pub attempts_per_s: f64,
    /// The most requests under way at once; over shards, the sum of each one's, which they may not
    /// have reached together.
    pub peak_in_flight: u64,
}

/// A ledger reads as its items, and totals read as their requests: they are one object in JSON.
macro_rules! reads_as {
    ($whole:ty, $field:ident: $part:ty) => {
        impl std::ops::Deref for $whole {
            type Target = $part;

            fn deref(&self) -> &$part {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $whole {
            fn deref_mut(&mut self) -> &mut $part {
                &mut self.$field
            }
        }
    };
}
pub(super) use reads_as;

reads_as!(Ledger, items: ItemCounts);
reads_as!(Totals, requests: RequestCounts);

impl Ledger {
    pub(super) fn of(record: &ShardRecord) -> Self {
        let planned: u64 = record.ids.iter().map(IdRange::len).sum();
        let items = record.stats.counters.items;
        let (not_attempted, lost) = if record.fault.is_some() {
            let unknown = planned.saturating_sub(items.dealt());
            let not_attempted = record.remaining.min(unknown);
            (not_attempted, unknown - not_attempted)
        } else {
            // Its own count of what it never dealt out, not the rest of a subtraction: whether it
            // all adds up is checked.
            (record.remaining, 0)
        };
        Self {
            planned,
            items,
            not_attempted,
            lost,
        }
    }

    /// True if every item is in exactly one state.
    pub const fn adds_up(&self) -> bool {
        self.items
            .dealt()
            .saturating_add(self.not_attempted)
            .saturating_add(self.lost)
            == self.planned
    }

    /// True if its shard had more to do when it ended.
    pub const fn has_more(&self) -> bool {
        self.items.unfinished > 0 || self.not_attempted > 0
    }

    /// Items by state: the name in JSON, the words for people, the number.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
        self.items
            .iter()
            .map(|(counter, count)| (counter.name, counter.label.unwrap_or(counter.name), count))
            .chain([
                ("not_attempted", "not attempted", self.not_attempted),
                ("lost", "lost", self.lost),
            ])
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            planned: self.planned + other.planned,
            items: self.items.plus(&other.items),
            not_attempted: self.not_attempted + other.not_attempted,
            lost: self.lost + other.lost,
        }
    }
}

impl Totals {
    pub(crate) fn new(counters: &Counters, duration_s: f64, peak_in_flight: u64) -> Self {
        let totals = Self {
            requests: counters.requests.clone(),
            duration_s,
            sent_until_s: duration_s,
            peak_in_flight,
            ..Self::default()
        };
        totals.without_warmup(counters, &Counters::default(), 0.0)
    }

    /// With rates that leave out what ended in a warm-up of `warmup_s`, and its time.
    pub(super) fn without_warmup(
        mut self,
        counters: &Counters,
        warm: &Counters,
        warmup_s: f64,
    ) -> Self {
        let measured_s = (self.duration_s - warmup_s).max(0.0);
        let per_s = [
            (counters.items.completed(), warm.items.completed()),
            (counters.items.ok, warm.items.ok),
            (counters.completed(), warm.completed()),
        ];
        [self.items_per_s, self.ok_per_s, self.attempts_per_s] =
            per_s.map(|(all, warm)| share(all.saturating_sub(warm) as f64, measured_s));
        self
    }
}
