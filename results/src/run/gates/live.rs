//! Watches the seconds of a run for the conditions that need them, says when one that may stop the
//! run is broken, and closes the report.
//!
//! Fed by the supervisor's observer, second by second: nothing of it runs in a shard. Counts and
//! rates are of what ended in a second, times of what was scheduled in it, so the times of a second
//! are known once every request that was scheduled in it has gone and ended. Until then what is
//! known already may stop the run: its counts, and that what has not ended is at least as old as it
//! is. A verdict waits for the second to be complete. As in the report, no count holds what was
//! scheduled in the warm-up, whenever it ended.

mod watched;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use self::watched::{Finding, Watched};
use super::measured::{Share, samples_of};
use super::{Breach, Condition, Measured, Metric, Objective, Window, least_of_stats, of_stats};
use crate::run::report::Report;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Counters, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::{Interval, OpenInterval};

/// Watches the objectives of one run.
#[derive(Debug)]
pub struct LiveThresholds {
    bounds: Bounds,
    watched: Vec<Watched>,
    /// End of the warm-up, since the start, s.
    warmup_s: f64,
    /// The first second that is not, in part, warm-up.
    first: u64,
    /// The first second in which nothing is started any more, and only answers come; none when that
    /// is not planned.
    end: Option<u64>,
    /// The second to look at next.
    next: u64,
    /// Seconds that came before an earlier one was complete.
    waiting: BTreeMap<u64, ShardStats>,
    /// The last seconds that were looked at, as many as the longest window has; the newest last.
    history: VecDeque<ShardStats>,
    /// All that were looked at; none if no objective needs it.
    so_far: Option<ShardStats>,
    /// The times that are bounded from below in a second that is not complete.
    waited: Series,
    /// Index of the objective that wants the run to stop.
    stop: Option<usize>,
    /// Windows of that one that were judged before their seconds were complete; the last one broke
    /// it.
    foreseen: Vec<Finding>,
    /// The one that stopped it, once it is over.
    over: Option<usize>,
    /// Time for which answers are waited for after a stop.
    grace: Duration,
}

/// Objectives to judge. Some need a second that is whole, which it is known to be when the next one
/// is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    WholeSeconds,
    Others,
}

impl LiveThresholds {
    /// Watches `objectives` in a run of `plan`.
    #[must_use]
    pub fn new(objectives: &[Objective], plan: &RunPlan) -> Self {
        let bounds = Bounds::for_timeout(plan.timeout);
        let first = plan.warmup.div_duration_f64(INTERVAL).ceil();
        let sums = objectives
            .iter()
            .any(|objective| objective.is_live() && objective.condition.window.is_none());
        Self {
            bounds,
            watched: objectives.iter().copied().map(Watched::new).collect(),
            warmup_s: plan.warmup.as_secs_f64(),
            first: Duration::try_from_secs_f64(first).map_or(u64::MAX, |first| first.as_secs()),
            end: plan.duration.map(|duration| duration.as_secs()),
            next: 0,
            waiting: BTreeMap::new(),
            history: VecDeque::new(),
            so_far: sums.then(|| ShardStats::new(bounds)),
            waited: Series::waited(plan.arrivals),
            stop: None,
            foreseen: Vec::new(),
            over: None,
            grace: plan.grace,
        }
    }

    /// Hears a second that is complete.
    pub fn hear(&mut self, interval: &Interval) {
        let live = || {
            self.watched
                .iter()
                .map(|watched| watched.objective)
                .filter(Objective::is_live)
        };
        if live().next().is_none() || interval.index < self.next {
            return;
        }
        let wanted: Vec<Series> = live()
            .filter_map(|objective| objective.condition.metric.series())
            .collect();
        let merged = &interval.merged;
        let timings = merged
            .timings()
            .filter(|(series, _)| wanted.contains(series));
        let timings = timings
            .map(|(series, timing)| (series, timing.clone()))
            .collect();
        let counters = merged.counters.clone().without(&interval.warmup);
        let kept = ShardStats::from_parts(self.bounds, counters, timings);
        self.waiting.insert(interval.index, kept);
        // What comes after a stop waits until it is known when the run was stopped.
        while self.stop.is_none()
            && let Some(second) = self.waiting.remove(&self.next)
        {
            self.take(second);
        }
    }

    /// Hears the seconds that are over and not complete, the oldest first. They may break a
    /// condition that stops the run, and keep none.
    pub fn hear_open(&mut self, seconds: &[OpenInterval]) {
        let open: BTreeMap<u64, &ShardStats> = seconds
            .iter()
            .map(|second| (second.index, &second.least))
            .collect();
        for i in 0..self.watched.len() {
            let objective = self.watched[i].objective;
            if self.stop.is_none() && objective.breach == Breach::Stops && objective.is_live() {
                self.foreseen = self.foresee(&objective, &open);
                self.stop = Some(i).filter(|_| !self.foreseen.is_empty());
            }
        }
    }

    /// The windows up to the first that breaks the objective with these seconds, which are not
    /// complete; none when none does.
    fn foresee(&self, objective: &Objective, open: &BTreeMap<u64, &ShardStats>) -> Vec<Finding> {
        let condition = objective.condition;
        if condition
            .metric
            .series()
            .is_some_and(|series| series != self.waited)
        {
            return Vec::new();
        }
        let known = |index: u64| match self.next.checked_sub(index + 1) {
            Some(back) => self.history.iter().rev().nth(usize::try_from(back).ok()?),
            None => self
                .waiting
                .get(&index)
                .or_else(|| open.get(&index).copied()),
        };
        let (metric, window) = (condition.metric, condition.window);
        let is_of_whole = condition.needs_whole_seconds();
        // After the end only answers come, and fewer of them are no slower target.
        let end = self.end.filter(|_| is_of_whole).unwrap_or(u64::MAX);
        // The last second that is complete is whole, for it is followed by another one.
        let judged = self
            .next
            .saturating_sub(u64::from(is_of_whole && window.is_some()));
        let (mut findings, mut so_far) =
            (Vec::new(), self.so_far.clone().filter(|_| window.is_none()));
        for last in judged.max(self.first)..end {
            let Some(newest) = known(last) else { break };
            let measured = if let Some(so_far) = &mut so_far {
                so_far.merge(newest);
                least_of_stats(metric, so_far, (last + 1) as f64 - self.warmup_s)
            } else {
                let seconds = window.map_or(1, Window::seconds);
                let Some(from) = (last + 1)
                    .checked_sub(seconds)
                    .filter(|from| *from >= self.first)
                else {
                    continue;
                };
                let parts: Vec<&ShardStats> = (from..=last).filter_map(known).collect();
                let merged = merged(self.bounds, metric, parts.into_iter());
                even_of_few(
                    condition,
                    &merged,
                    least_of_stats(metric, &merged, seconds as f64),
                )
            };
            let breaks = condition.judge(&measured) == Some(false);
            findings.push(Finding {
                measured,
                until_s: last + 1,
                samples: 0,
            });
            if breaks {
                return findings;
            }
        }
        Vec::new()
    }

    /// True if a condition that may stop the run is broken.
    #[must_use]
    pub const fn has_enough(&self) -> bool {
        self.stop.is_some()
    }

    /// Judges every objective and closes the report with what was found.
    pub fn close(mut self, report: &mut Report) {
        // It may have wanted to when the run was over, or a signal or a failure had come first.
        let is_other = report.interrupted_by.is_some() || report.storage_failure.is_some();
        let stopped_by = self.stop.filter(|_| report.interrupted && !is_other);
        let duration_s = report.totals.duration_s;
        self.hear_the_rest(duration_s, stopped_by.is_some());
        report.stopped_by = stopped_by.map(|i| self.watched[i].objective.condition.to_string());
        let ended = Duration::try_from_secs_f64(duration_s)
            .unwrap_or_default()
            .as_secs();
        let end_s = self.end.map_or(ended, |end| end.min(ended));
        report.gates = self
            .watched
            .into_iter()
            .map(|watched| watched.close(report, end_s))
            .collect();
    }

    /// Looks at what is still waiting, and at the last second if it was whole. The condition that
    /// stopped the run, if one did, stays as it was then.
    fn hear_the_rest(&mut self, duration_s: f64, stopped: bool) {
        // The run is over: it cannot be stopped any more, only judged.
        let stopped_by = self.stop;
        if let Some(i) = stopped_by.filter(|_| stopped) {
            self.over = stopped_by;
            for finding in std::mem::take(&mut self.foreseen) {
                self.watched[i].note(finding);
            }
            // The last answer came no later than the grace after the stop.
            let end = Duration::try_from_secs_f64(duration_s)
                .unwrap_or_default()
                .saturating_sub(self.grace)
                .as_secs();
            self.end = Some(self.end.map_or(end, |planned| planned.min(end)));
        }
        for (index, second) in std::mem::take(&mut self.waiting) {
            self.next = index;
            self.take(second);
        }
        if self.next as f64 * INTERVAL.as_secs_f64() <= duration_s {
            self.look(Look::WholeSeconds);
        }
        self.stop = stopped_by;
    }

    fn take(&mut self, second: ShardStats) {
        if self.next < self.first
            && (self.next + 1) as f64 > self.warmup_s
            && let Some(so_far) = &mut self.so_far
        {
            // The warm-up ends in this second, whose times are not kept apart.
            so_far.counters.merge(&second.counters);
        }
        if self.next >= self.first {
            self.look(Look::WholeSeconds);
            if let Some(so_far) = &mut self.so_far {
                so_far.merge(&second);
            }
            for watched in &mut self.watched {
                watched.count(&second);
            }
            self.history.push_back(second);
            let longest = self
                .watched
                .iter()
                .filter_map(|watched| watched.objective.condition.window);
            let longest = longest.map(Window::len).max().unwrap_or(0);
            if self.history.len() > longest {
                self.history.pop_front();
            }
        }
        self.next += 1;
        if self.next > self.first {
            self.look(Look::Others);
        }
    }

    /// Judges what there is now.
    fn look(&mut self, look: Look) {
        for i in 0..self.watched.len() {
            let objective = self.watched[i].objective;
            let wanted = if objective.condition.needs_whole_seconds() {
                Look::WholeSeconds
            } else {
                Look::Others
            };
            if !objective.is_live() || self.over == Some(i) || look != wanted {
                continue;
            }
            // While the last answers come, fewer of them are no slower target.
            if look == Look::WholeSeconds && self.end.is_some_and(|end| self.next > end) {
                continue;
            }
            let Some((measured, samples)) = self.measure(&objective) else {
                continue;
            };
            let finding = Finding {
                measured,
                until_s: self.next,
                samples,
            };
            if self.watched[i].note(finding) && objective.breach == Breach::Stops {
                self.stop = self.stop.or(Some(i));
            }
        }
    }

    /// Measure the last seconds, with the number of samples; none while the window is not full.
    fn measure(&self, objective: &Objective) -> Option<(Measured, u64)> {
        let condition = objective.condition;
        let metric = condition.metric;
        let Some(window) = objective.condition.window else {
            let so_far = self.so_far.as_ref().filter(|_| self.next > self.first)?;
            return Some((
                of_stats(metric, so_far, self.next as f64 - self.warmup_s),
                0,
            ));
        };
        let before = self.history.len().checked_sub(window.len())?;
        let merged = merged(self.bounds, metric, self.history.range(before..));
        let measured = even_of_few(
            condition,
            &merged,
            of_stats(metric, &merged, window.seconds() as f64),
        );
        Some((measured, samples_of(metric, &merged).unwrap_or(0)))
    }
}

/// Share of a window with too few samples, where they break the condition whatever the missing ones
/// had been.
fn even_of_few(condition: Condition, window: &ShardStats, measured: Measured) -> Measured {
    let share = Share::of_stats(condition.metric, window)
        .filter(|_| matches!(measured, Measured::Unknown(_)));
    let share = share.filter(|share| condition.is_broken_by_few(share));
    share
        .and_then(Share::value)
        .map_or(measured, Measured::Exactly)
}

/// Merge from some seconds as much as a metric needs.
fn merged<'a>(
    bounds: Bounds,
    metric: Metric,
    seconds: impl Iterator<Item = &'a ShardStats> + Clone,
) -> ShardStats {
    let mut counters = Counters::default();
    seconds
        .clone()
        .for_each(|second| counters.merge(&second.counters));
    let timing = metric.series().and_then(|series| {
        let timings = seconds.filter_map(|second| second.timing(series));
        let sum = |mut all: Timing, one: Timing| {
            all.merge(&one);
            all
        };
        Some((series, timings.cloned().reduce(sum)?))
    });
    ShardStats::from_parts(bounds, counters, timing.into_iter().collect())
}

impl Objective {
    /// True if it is looked at while the run goes on.
    fn is_live(&self) -> bool {
        let Self { condition, breach } = self;
        condition.metric.is_live() && (condition.window.is_some() || *breach == Breach::Stops)
    }
}

#[cfg(test)]
mod tests;
