//! Watches the seconds of a run for the conditions that need them, says when one that may stop the
//! run is broken, and closes the report.
//!
//! Fed by the supervisor's observer: nothing of it runs in a shard. Counts and rates are of what
//! ended in a second, times of what was scheduled in it, so a second comes once every request that
//! was scheduled in it has gone and ended, and perhaps after later ones. Seconds are judged in
//! order, each once a later one shows that it is whole. As in the report, no count holds what was
//! scheduled in the warm-up, whenever it ended.
//!
//! A window that is not judged must not let a threshold pass unnoticed: the verdict says how many
//! there were, and leaves the threshold undecided where they are more than [`MOST_UNJUDGED`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Breach, Condition, Measured, Metric, Objective, Window, of_condition, of_stats};
use crate::run::report::{GateReport, Report};
use crate::show::text::seconds;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Counters, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::units::grouped;

/// Largest part of the windows that may go without an evaluation before a threshold is undecided:
/// as large a part of a run without a good answer is a finding on its validity, too. The seconds at
/// the start and the end of a short run are less.
const MOST_UNJUDGED: f64 = 0.1;

/// Seconds that wait for an earlier one at most: it is given up then.
const MOST_WAITING: usize = 600;

/// Watches the objectives of one run.
#[derive(Debug)]
pub struct LiveThresholds {
    bounds: Bounds,
    watched: Vec<Watched>,
    /// The first second that is not, in part, warm-up.
    first: u64,
    /// The first second in which nothing is started any more, and only answers come; none when that
    /// is not planned.
    end: Option<u64>,
    /// Seconds that wait for an earlier one, or for a later one.
    waiting: BTreeMap<u64, ShardStats>,
    /// The next second to judge.
    next: u64,
    /// The last seconds that were judged, without a gap: as many as the longest window has.
    recent: VecDeque<ShardStats>,
    /// All that were judged, for objectives without a window.
    so_far: ShardStats,
    /// Index of the objective that wants the run to stop. What comes after it is not judged: only
    /// answers come then.
    stop: Option<usize>,
}

impl LiveThresholds {
    /// Watch `objectives` in a run of `plan`.
    pub fn new(objectives: &[Objective], plan: &RunPlan) -> Self {
        let bounds = Bounds::for_timeout(plan.timeout);
        let first = plan.warmup.div_duration_f64(INTERVAL).ceil();
        let first = Duration::try_from_secs_f64(first).map_or(u64::MAX, |first| first.as_secs());
        Self {
            bounds,
            watched: objectives.iter().copied().map(Watched::new).collect(),
            first,
            end: plan.duration.map(|duration| duration.as_secs()),
            waiting: BTreeMap::new(),
            next: first,
            recent: VecDeque::new(),
            so_far: ShardStats::new(bounds),
            stop: None,
        }
    }

    /// Take a second that is complete.
    pub fn hear(&mut self, interval: &Interval) {
        let live = self.watched.iter().filter(|watched| watched.is_live());
        let live: Vec<Option<Series>> = live.map(|it| it.condition().metric.series()).collect();
        if self.stop.is_some() || live.is_empty() || interval.index < self.first {
            return;
        }
        let timings = interval.merged.timings();
        let timings = timings.filter(|(series, _)| live.contains(&Some(*series)));
        let timings = timings.map(|(series, timing)| (series, timing.clone()));
        let counters = interval.merged.counters.clone();
        let second = ShardStats::from_parts(self.bounds, counters, timings.collect());
        self.waiting.insert(interval.index, second);
        while self.waiting.len() > 1
            && (self.waiting.contains_key(&self.next) || self.waiting.len() > MOST_WAITING)
        {
            self.judge_next(f64::INFINITY);
        }
    }

    /// True if a condition that may stop the run is broken.
    pub const fn has_enough(&self) -> bool {
        self.stop.is_some()
    }

    /// Judge every objective, and close the report with what was found.
    pub fn close(mut self, report: &mut Report) {
        // It may have wanted to when the run was over, or a signal or a failure had come first.
        let is_other = report.interrupted_by.is_some() || report.storage_failure.is_some();
        let stopped_by = self.stop.filter(|_| report.interrupted && !is_other);
        report.stopped_by = stopped_by.map(|i| self.watched[i].condition().to_string());
        self.judge_rest(report.totals.duration_s);
        let watched = self.watched.into_iter();
        report.gates = watched.map(|watched| watched.close(report)).collect();
        report.note_thresholds();
    }

    /// Judge the seconds that wait, of which the last one is whole if the run lasted as long.
    fn judge_rest(&mut self, duration_s: f64) {
        while !self.waiting.is_empty() {
            self.judge_next(duration_s);
        }
    }

    /// Judge the first second that waits, in a run that lasted until `duration_s` at least.
    fn judge_next(&mut self, duration_s: f64) {
        let Some((index, second)) = self.waiting.pop_first().filter(|_| self.stop.is_none()) else {
            return;
        };
        if index != self.next {
            self.recent.clear();
        }
        self.next = index + 1;
        self.so_far.merge(&second);
        self.recent.push_back(second);
        let longest = self.watched.iter().map(Watched::window).max().unwrap_or(0);
        while self.recent.len() > longest {
            self.recent.pop_front();
        }
        // While the last answers come, fewer of them are no slower target.
        let until_s = self.next;
        let is_due = until_s as f64 <= duration_s && self.end.is_none_or(|end| until_s <= end);
        for i in 0..self.watched.len() {
            let condition = self.watched[i].condition();
            if !self.watched[i].is_live() || condition.needs_whole_seconds() && !is_due {
                continue;
            }
            let Some(seen) = self.seen(condition) else {
                continue;
            };
            let is_broken = self.watched[i].note(seen, is_due);
            if is_broken && self.watched[i].objective.breach == Breach::Stops {
                self.stop = self.stop.or(Some(i));
            }
        }
    }

    /// Measure a condition at the end of the last second; none of a window that lacks a second. Too
    /// few samples that break a share whatever the missing ones had been are enough.
    fn seen(&self, condition: Condition) -> Option<Seen> {
        let (metric, until_s) = (condition.metric, self.next);
        let Some(window) = condition.window else {
            let seconds = until_s.saturating_sub(self.first) as f64;
            return Some(Seen {
                measured: of_stats(metric, &self.so_far, seconds),
                until_s,
                samples: 0,
            });
        };
        let before = self.recent.len().checked_sub(window.len())?;
        let merged = merged(self.bounds, metric, self.recent.iter().skip(before));
        let broken = metric.share(&merged);
        let broken = broken.filter(|share| condition.is_broken_by_few(*share));
        let broken = broken.and_then(|share| Some(Measured::Exactly(share.value()?)));
        Some(Seen {
            measured: broken.unwrap_or_else(|| of_stats(metric, &merged, window.seconds() as f64)),
            until_s,
            samples: metric.samples(&merged),
        })
    }
}

/// Merge from some seconds as much as a metric needs.
fn merged<'a>(
    bounds: Bounds,
    metric: Metric,
    seconds: impl Iterator<Item = &'a ShardStats>,
) -> ShardStats {
    let mut counters = Counters::default();
    let mut times: Option<Timing> = None;
    for second in seconds {
        counters.merge(&second.counters);
        let own = metric.series().and_then(|series| second.timing(series));
        match (&mut times, own) {
            (Some(times), Some(own)) => times.merge(own),
            (None, own) => times = own.cloned(),
            (Some(_), None) => {}
        }
    }
    let timings = metric.series().zip(times);
    ShardStats::from_parts(bounds, counters, timings.into_iter().collect())
}

/// An objective that is watched, and what its windows have come to so far.
#[derive(Debug)]
struct Watched {
    objective: Objective,
    /// Windows that could be judged.
    judged: u64,
    /// A window that could not, although it had enough samples.
    open: Option<Seen>,
    /// The window that broke it, or came nearest.
    worst: Option<Seen>,
    /// Windows in which requests were due and that had too few samples.
    few: u64,
    /// Of the windows that could not be judged, the one with the most samples.
    fullest: Option<Seen>,
}

/// Value that was measured up to a second after the start.
#[derive(Debug, Clone)]
struct Seen {
    measured: Measured,
    until_s: u64,
    /// Number of samples, of a metric that takes some.
    samples: u64,
}

impl Watched {
    const fn new(objective: Objective) -> Self {
        Self {
            objective,
            judged: 0,
            open: None,
            worst: None,
            few: 0,
            fullest: None,
        }
    }

    const fn condition(&self) -> Condition {
        self.objective.condition
    }

    fn window(&self) -> usize {
        self.condition().window.map_or(0, Window::len)
    }

    /// True if it is looked at while the run goes on.
    fn is_live(&self) -> bool {
        let Objective { condition, breach } = self.objective;
        condition.metric.is_live() && (condition.window.is_some() || breach == Breach::Stops)
    }

    /// Note what was seen, in a window in which requests were due or not. Return whether it breaks
    /// the condition.
    fn note(&mut self, seen: Seen, is_due: bool) -> bool {
        let condition = self.condition();
        let held = condition.judge(&seen.measured);
        let Some(holds) = held else {
            if seen.measured.value().is_some() {
                self.open = Some(seen);
                return false;
            }
            // Only every good answer has to be there: without a request, or without any that was
            // throttled or failed, a window has nothing to judge.
            let series = condition.metric.series();
            let is_of_good = matches!(series, Some(Series::ServiceOk | Series::ResponseOk));
            let is_few = seen.samples < condition.metric.samples_of_part();
            self.few += u64::from(is_due && is_few && (is_of_good || seen.samples > 0));
            let fullest = self.fullest.as_ref();
            if fullest.is_none_or(|fullest| seen.samples >= fullest.samples) {
                self.fullest = Some(seen);
            }
            return false;
        };
        self.judged += 1;
        let is_worse = match &self.worst {
            None => true,
            Some(worst) if condition.judge(&worst.measured) != held => !holds,
            Some(worst) => {
                let [new, old] = [&seen, worst].map(|seen| seen.measured.value().unwrap_or(0.0));
                condition.is_worse(new, old)
            }
        };
        if is_worse {
            self.worst = Some(seen);
        }
        !holds
    }

    fn is_broken(&self) -> bool {
        let worst = self.worst.as_ref();
        worst.is_some_and(|worst| self.condition().judge(&worst.measured) == Some(false))
    }

    /// Windows with too few samples, in words, and whether they leave the threshold undecided; none
    /// without any.
    fn too_few(&self) -> Option<(String, bool)> {
        let (few, all) = (self.few, self.few + self.judged);
        let need = self.condition().metric.samples_of_part();
        let words = format!(
            "{} of {} windows had fewer than {} samples and were not evaluated",
            grouped(few),
            grouped(all),
            grouped(need)
        );
        (few > 0 && need > 1).then_some((words, few as f64 > all as f64 * MOST_UNJUDGED))
    }

    /// The verdict on a run. What was once seen to be broken is, whatever the whole run comes to.
    fn close(self, report: &Report) -> GateReport {
        let condition = self.condition();
        if condition.window.is_some() || self.is_broken() {
            return self.close_by_seconds(report.measured_s());
        }
        self.objective.row(&of_condition(&condition, report))
    }

    /// The verdict by what was seen in the seconds of the run, `measured_s` of them after the
    /// warm-up.
    fn close_by_seconds(self, measured_s: f64) -> GateReport {
        let (is_broken, few) = (self.is_broken(), self.too_few());
        // One undecided window leaves the whole undecided, unless another one broke it.
        let seen = if is_broken {
            self.worst
        } else {
            self.open.or(self.worst)
        };
        let window = self.objective.condition.window;
        let (measured, until_s) = match (seen, &few) {
            (Some(_), Some((few, true))) if !is_broken => {
                let why = format!("not enough data: {few}. Use a longer window");
                (Measured::Unknown(why), None)
            }
            (Some(seen), _) => (seen.measured, Some(seen.until_s)),
            (None, _) => (never_judged(self.fullest, window, measured_s), None),
        };
        let mut row = self.objective.row(&measured);
        row.windows = window.map(|_| self.judged);
        row.until_s = until_s;
        if row.ok == Some(true) {
            row.why = few.map(|(few, _)| few);
        }
        row
    }
}

/// Reason why no window was judged: that of the one with the most samples, or that none was full.
fn never_judged(fullest: Option<Seen>, window: Option<Window>, measured_s: f64) -> Measured {
    fullest.map_or_else(
        || {
            let needed = window.map_or(0, Window::seconds);
            let measured = seconds(measured_s);
            Measured::Unknown(format!("not enough data: {measured}, {needed} s needed"))
        },
        |fullest| fullest.measured,
    )
}

#[cfg(test)]
mod tests;
