//! Watches the seconds of a run for the conditions that need them, says when one that may stop the
//! run is broken, and closes the report.
//!
//! Fed by the supervisor's observer, second by second: nothing of it runs in a shard. Counts and
//! rates are of what ended in a second, times of what was scheduled in it, so a second comes once
//! every request that was scheduled in it has gone and ended, and perhaps after later ones: a
//! window is judged once, when its last second has come. As in the report, no count holds what was
//! scheduled in the warm-up, whenever it ended.
//!
//! A window that is not judged must not let a threshold pass unnoticed: the verdict says how many
//! there were, and leaves the threshold undecided where they may hide that it was broken.

use std::collections::BTreeMap;
use std::time::Duration;

use super::measured::{SAMPLES_LIVE, Share, reason_of_bound, samples_of};
use super::{Breach, Condition, Measured, Metric, Objective, Stat, Window, of_condition, of_stats};
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
    /// Seconds that a window that is still to be judged may hold.
    seconds: BTreeMap<u64, ShardStats>,
    /// The first second that has not come.
    next: u64,
    /// The last second that has come: those before it were whole.
    newest: Option<u64>,
    /// All that came, for objectives without a window.
    so_far: ShardStats,
    /// Number of seconds in it.
    count: u64,
    /// Index of the objective that wants the run to stop. What comes after it is not judged: only
    /// answers come then.
    stop: Option<usize>,
}

/// Objectives to judge: those that need a second that is whole, which it is known to be when a
/// later one is there, or the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    WholeSeconds,
    Others,
}

impl LiveThresholds {
    /// Watches `objectives` in a run of `plan`.
    #[must_use]
    pub fn new(objectives: &[Objective], plan: &RunPlan) -> Self {
        let bounds = Bounds::for_timeout(plan.timeout);
        let first = plan.warmup.div_duration_f64(INTERVAL).ceil();
        let first = Duration::try_from_secs_f64(first).map_or(u64::MAX, |first| first.as_secs());
        Self {
            bounds,
            watched: objectives.iter().copied().map(Watched::new).collect(),
            warmup_s: plan.warmup.as_secs_f64(),
            first,
            end: plan.duration.map(|duration| duration.as_secs()),
            seconds: BTreeMap::new(),
            next: first,
            newest: None,
            so_far: ShardStats::new(bounds),
            count: 0,
            stop: None,
        }
    }

    /// Hears a second that is complete.
    pub fn hear(&mut self, interval: &Interval) {
        let index = interval.index;
        if self.stop.is_some() || !self.watched.iter().any(Watched::is_live) {
            return;
        }
        let counters = interval.merged.counters.clone().without(&interval.warmup);
        if index < self.first {
            // Where the warm-up ends within a second, its times are not kept apart.
            if (index + 1) as f64 > self.warmup_s {
                self.so_far.counters.merge(&counters);
            }
            return;
        }
        let timings = interval.merged.timings();
        let timings = timings.filter(|(series, _)| self.is_wanted(*series));
        let timings = timings.map(|(series, timing)| (series, timing.clone()));
        let second = ShardStats::from_parts(self.bounds, counters, timings.collect());
        let before = self.newest;
        let is_newest = before.is_none_or(|before| before < index);
        if is_newest {
            self.newest = Some(index);
            // Without the newest one, which may not be whole.
            self.judge_so_far(Judged::WholeSeconds);
        }
        self.so_far.merge(&second);
        self.count += 1;
        self.judge_so_far(Judged::Others);
        for watched in &mut self.watched {
            watched.count(index, &second);
        }
        self.seconds.insert(index, second);
        let windows = self
            .watched
            .iter()
            .filter_map(|watched| watched.condition().window);
        let longest = windows.map(Window::seconds).max().unwrap_or(0);
        if let Some(before) = before.filter(|_| is_newest) {
            self.judge_windows(before, before, Judged::WholeSeconds);
        }
        for judged in [Judged::WholeSeconds, Judged::Others] {
            self.judge_windows(index, u64::MAX, judged);
        }
        while self.seconds.contains_key(&self.next) {
            self.next += 1;
        }
        self.seconds = self.seconds.split_off(&self.next.saturating_sub(longest));
    }

    fn is_wanted(&self, series: Series) -> bool {
        let mut live = self.watched.iter().filter(|watched| watched.is_live());
        live.any(|watched| watched.condition().metric.series() == Some(series))
    }

    /// True if a condition that may stop the run is broken.
    #[must_use]
    pub const fn has_enough(&self) -> bool {
        self.stop.is_some()
    }

    /// Judges every objective and closes the report with what was found.
    pub fn close(mut self, report: &mut Report) {
        let duration_s = report.totals.duration_s;
        // It may have wanted to when the run was over, or a signal or a failure had come first.
        let is_other = report.interrupted_by.is_some() || report.storage_failure.is_some();
        let stopped_by = self.stop.filter(|_| report.interrupted && !is_other);
        report.stopped_by = stopped_by.map(|i| self.watched[i].condition().to_string());
        self.judge_last(duration_s);
        let ended = Duration::try_from_secs_f64(duration_s).unwrap_or_default();
        let end_s = self
            .end
            .map_or(ended.as_secs(), |end| end.min(ended.as_secs()));
        let watched = self.watched.into_iter();
        report.gates = watched
            .map(|watched| watched.close(report, end_s))
            .collect();
        report.note_thresholds();
    }

    /// Judges what waits for the last second to be whole, if the run lasted as long.
    fn judge_last(&mut self, duration_s: f64) {
        let last = self.newest.filter(|last| (last + 1) as f64 <= duration_s);
        if let Some(last) = last.filter(|_| self.stop.is_none()) {
            self.newest = Some(last + 1);
            self.judge_so_far(Judged::WholeSeconds);
            self.judge_windows(last, last, Judged::WholeSeconds);
        }
    }

    /// Judges the objectives without a window.
    fn judge_so_far(&mut self, judged: Judged) {
        let until_s = self.first + self.count;
        let seconds = until_s as f64 - self.warmup_s;
        for i in 0..self.watched.len() {
            let condition = self.watched[i].condition();
            if condition.window.is_none() && self.count > 0 && self.is_due(i, judged, until_s) {
                let measured = of_stats(condition.metric, &self.so_far, seconds);
                self.note(
                    i,
                    Seen {
                        measured,
                        until_s,
                        samples: 0,
                    },
                );
            }
        }
    }

    /// Judges the windows that hold a second, end by `latest` and have all of their seconds.
    fn judge_windows(&mut self, second: u64, latest: u64, judged: Judged) {
        for i in 0..self.watched.len() {
            let condition = self.watched[i].condition();
            let Some(window) = condition.window else {
                continue;
            };
            for last in second..=latest.min(second + window.seconds() - 1) {
                let is_whole = judged == Judged::Others || self.newest > Some(last);
                let held = (last + 1).saturating_sub(window.seconds())..=last;
                let parts: Vec<&ShardStats> =
                    self.seconds.range(held).map(|(_, part)| part).collect();
                if is_whole && parts.len() == window.len() && self.is_due(i, judged, last + 1) {
                    let seen = self.seen(condition, window, &parts, last + 1);
                    self.note(i, seen);
                }
            }
        }
    }

    /// True if an objective is judged now, by what was seen until then.
    fn is_due(&self, i: usize, judged: Judged, until_s: u64) -> bool {
        let is_of_whole = self.watched[i].condition().needs_whole_seconds();
        // While the last answers come, fewer of them are no slower target.
        let is_over = is_of_whole && self.end.is_some_and(|end| until_s > end);
        self.watched[i].is_live() && is_of_whole == (judged == Judged::WholeSeconds) && !is_over
    }

    fn seen(
        &self,
        condition: Condition,
        window: Window,
        parts: &[&ShardStats],
        until_s: u64,
    ) -> Seen {
        let merged = merged(self.bounds, condition.metric, parts);
        let measured = of_stats(condition.metric, &merged, window.seconds() as f64);
        let share = share_of(condition.metric, &merged);
        Seen {
            // Too few that break a share whatever the missing ones had been are enough.
            measured: match share.filter(|share| condition.is_broken_by_few(share)) {
                Some(share) if measured.value().is_none() => {
                    share.value().map_or(measured, Measured::Exactly)
                }
                _ => measured,
            },
            until_s,
            samples: samples_of(condition.metric, &merged),
        }
    }

    fn note(&mut self, i: usize, seen: Seen) {
        if self.watched[i].note(seen) && self.watched[i].objective.breach == Breach::Stops {
            self.stop = self.stop.or(Some(i));
        }
    }
}

/// Merge from some seconds as much as a metric needs.
fn merged(bounds: Bounds, metric: Metric, seconds: &[&ShardStats]) -> ShardStats {
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

fn share_of(metric: Metric, stats: &ShardStats) -> Option<Share> {
    match metric {
        Metric::Of(quantity) => Share::of(&stats.counters, quantity),
        Metric::Time(..) => None,
    }
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
    /// Windows that held too few samples, or could not be judged otherwise.
    unjudged: Vec<Seen>,
    /// Each second of a share that is judged in windows; true once a window that was judged holds
    /// it.
    shares: BTreeMap<u64, (Share, bool)>,
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
            unjudged: Vec::new(),
            shares: BTreeMap::new(),
        }
    }

    const fn condition(&self) -> Condition {
        self.objective.condition
    }

    /// True if it is looked at while the run goes on.
    fn is_live(&self) -> bool {
        let Objective { condition, breach } = self.objective;
        condition.metric.is_live() && (condition.window.is_some() || breach == Breach::Stops)
    }

    /// Counts a second of a share.
    fn count(&mut self, index: u64, second: &ShardStats) {
        let condition = self.condition();
        let share = share_of(condition.metric, second).filter(|_| condition.window.is_some());
        self.shares
            .extend(share.map(|share| (index, (share, false))));
    }

    /// Notes what was seen. Returns whether it breaks the condition.
    fn note(&mut self, seen: Seen) -> bool {
        let condition = self.condition();
        let held = condition.judge(&seen.measured);
        let Some(holds) = held else {
            match seen.measured {
                Measured::Unknown(_) => self.unjudged.push(seen),
                _ => self.open = Some(seen),
            }
            return false;
        };
        self.judged += 1;
        let from = seen
            .until_s
            .saturating_sub(condition.window.map_or(0, Window::seconds));
        for (_, is_judged) in self
            .shares
            .range_mut(from..seen.until_s)
            .map(|(_, share)| share)
        {
            *is_judged = true;
        }
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

    /// What the windows with too few samples may hide, in words, of a run that was to send requests
    /// until `end_s`, and whether it leaves the threshold undecided; none when there is nothing.
    fn of_few(&self, end_s: u64) -> Option<(String, bool)> {
        match self.condition().metric {
            Metric::Time(series, stat) => self.times_of_few(series, stat, end_s),
            Metric::Of(_) => self.share_of_few(),
        }
    }

    /// Windows in which requests were due and fewer than a figure needs ended. Only every good
    /// answer has to be there: without any that was throttled or failed, a window has nothing to
    /// judge.
    fn times_of_few(&self, series: Series, stat: Stat, end_s: u64) -> Option<(String, bool)> {
        let need = stat.samples_of_part();
        let is_of_good = matches!(series, Series::ServiceOk | Series::ResponseOk);
        let is_due = |seen: &&Seen| seen.until_s <= end_s && (is_of_good || seen.samples > 0);
        let few = self
            .unjudged
            .iter()
            .filter(is_due)
            .filter(|seen| seen.samples < need);
        let few = few.count() as u64;
        let all = few + self.judged;
        let words = format!(
            "{} of {} windows had fewer than {} samples and were not evaluated",
            grouped(few),
            grouped(all),
            grouped(need)
        );
        (few > 0 && need > 1).then_some((words, few as f64 > all as f64 * MOST_UNJUDGED))
    }

    /// Seconds of a share that only windows with too few samples hold. They leave it undecided when
    /// all of them together break it, however good as many others as it takes had been.
    fn share_of_few(&self) -> Option<(String, bool)> {
        let mut shares = self.shares.values().map(|(share, _)| *share);
        let mut all = shares.next()?;
        let mut few = Share {
            part: 0,
            whole: 0,
            ..all
        };
        shares.for_each(|share| all = all.plus(share));
        for (share, is_judged) in self.shares.values() {
            if !is_judged {
                few = few.plus(*share);
            }
        }
        let (unjudged, part) = (self.unjudged.len() as u64, grouped(few.part));
        let words = format!(
            "{} of {} windows had fewer than {SAMPLES_LIVE} {} and contain {part} of {} {}",
            grouped(unjudged),
            grouped(unjudged + self.judged),
            all.things,
            grouped(all.part),
            all.parts
        );
        let is_broken = self.condition().is_broken_by_few(&few);
        (unjudged > 0 && (is_broken || few.part > 0)).then_some((words, is_broken))
    }

    /// The verdict on a run that was to send requests until `end_s`. What was once seen to be
    /// broken is, whatever the whole run comes to.
    fn close(self, report: &Report, end_s: u64) -> GateReport {
        let condition = self.condition();
        if condition.window.is_some() || self.is_broken() {
            let warmup = report.warmup.as_ref();
            let warmup_s = warmup.map_or(0.0, |warmup| warmup.duration_s);
            let measured_s = (report.totals.duration_s - warmup_s).max(0.0);
            return self.close_by_seconds(end_s, measured_s);
        }
        let mut row = self.objective.row(&of_condition(&condition, report));
        if row.at_least && row.why.is_none() {
            row.why = reason_of_bound(&condition, report);
        }
        row
    }

    /// The verdict by what was seen in the seconds of the run, `measured_s` of them after the
    /// warm-up.
    fn close_by_seconds(self, end_s: u64, measured_s: f64) -> GateReport {
        let (is_broken, few) = (self.is_broken(), self.of_few(end_s));
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
            (
                Some(Seen {
                    measured, until_s, ..
                }),
                _,
            ) => (measured, Some(until_s)),
            (None, _) => (never_judged(self.unjudged, window, measured_s), None),
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
fn never_judged(unjudged: Vec<Seen>, window: Option<Window>, measured_s: f64) -> Measured {
    let count = unjudged.len() as u64;
    match unjudged
        .into_iter()
        .max_by_key(|seen| seen.samples)
        .map(|seen| seen.measured)
    {
        Some(Measured::Unknown(why)) if count > 1 => Measured::Unknown(format!(
            "{why} (in the fullest of {} windows)",
            grouped(count)
        )),
        Some(why) => why,
        None => Measured::Unknown(format!(
            "not enough data: {}, {} s needed",
            seconds(measured_s),
            window.map_or(0, Window::seconds)
        )),
    }
}

#[cfg(test)]
mod tests;
