//! Watches the seconds of a run for the conditions that need them, says when one that may stop the
//! run is broken, and closes the report.
//!
//! Fed by the supervisor's observer, second by second: nothing of it runs in a shard. Counts and
//! rates are of what ended in a second, times of what was scheduled in it, so a second comes once
//! every request that was scheduled in it has gone and ended, and perhaps after later ones. It is
//! known to be whole when a later one is there: a window is judged once, when it has all of its
//! seconds and each of them is whole. As in the report, no count holds what was scheduled in the
//! warm-up, whenever it ended.
//!
//! A window that is not judged must not let a threshold pass unnoticed: the verdict says how many
//! there were, and leaves the threshold undecided where they are more than [`MOST_UNJUDGED`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::excuse;
use super::{
    Breach, Condition, Measured, Metric, Objective, Window, of_condition, of_report, of_stats,
};
use crate::judge::Finding;
use crate::run::report::{GateReport, Report};
use crate::show::text::seconds;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Counters, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::units::{grouped, whole};

/// Largest part of the windows that may go without an evaluation before a threshold is undecided:
/// as large a part of a run without a good answer is a finding on its validity, too. The seconds at
/// the start and the end of a short run are less.
const MOST_UNJUDGED: f64 = 0.1;

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

impl LiveThresholds {
    /// Watch `objectives` in a run of `plan`.
    pub fn new(objectives: &[Objective], plan: &RunPlan) -> Self {
        let bounds = Bounds::for_timeout(plan.timeout);
        let first = whole(plan.warmup.div_duration_f64(INTERVAL).ceil());
        Self {
            bounds,
            watched: objectives.iter().cloned().map(Watched::new).collect(),
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

    /// Take a second that is complete.
    pub fn add(&mut self, interval: &Interval) {
        let index = interval.index;
        if self.stop.is_some() || !self.watched.iter().any(Watched::is_live) {
            return;
        }
        if index < self.first {
            return;
        }
        let counters = interval.merged.counters.clone();
        let timings = interval
            .merged
            .timings()
            .filter(|(series, _)| self.is_wanted(*series))
            .map(|(series, timing)| (series, timing.clone()));
        let second = ShardStats::from_parts(self.bounds, counters, timings.collect());
        let before = self.newest;
        let is_newest = before.is_none_or(|before| before < index);
        if is_newest {
            self.newest = Some(index);
            self.judge_so_far(true);
        }
        self.so_far.merge(&second);
        self.count += 1;
        self.seconds.insert(index, second);
        for i in 0..self.watched.len() {
            let length = self.watched[i].window_s();
            // Windows that a newer second makes whole, or that a late one completes.
            let ends = match before {
                Some(before) if is_newest => before..before + 1,
                Some(before) => index..before.min(index + length),
                None => 0..0,
            };
            for last in ends {
                self.judge_window(i, last, true);
            }
        }
        while self.seconds.contains_key(&self.next) {
            self.next += 1;
        }
        let longest = self.watched.iter().map(Watched::window_s).max();
        let oldest = self.next.saturating_sub(longest.unwrap_or(0));
        self.seconds = self.seconds.split_off(&oldest);
    }

    fn is_wanted(&self, series: Series) -> bool {
        self.watched
            .iter()
            .filter(|watched| watched.is_live())
            .any(|watched| watched.condition().metric.series() == Some(series))
    }

    /// True if a condition that may stop the run is broken.
    pub const fn has_enough(&self) -> bool {
        self.stop.is_some()
    }

    /// Judge every objective, and close the report with what was found.
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
        let mut with_waits = Vec::new();
        report.gates = watched
            .map(|watched| {
                let condition = watched.condition().clone();
                let judged = GateReport {
                    corrected: condition.metric.is_corrected(report.plan.run.arrivals),
                    ..watched.close(report, end_s)
                };
                let gate = excuse(&condition, judged, report);
                with_waits.extend(broken_by_waits(&condition, &gate, report));
                gate
            })
            .collect();
        report.note_thresholds();
        for finding in with_waits {
            report.validity.add(&mut report.findings, finding);
        }
    }

    /// Judge what the last second is part of, which is whole if the run lasted as long.
    fn judge_last(&mut self, duration_s: f64) {
        if let Some(last) = self.newest.filter(|_| self.stop.is_none()) {
            let is_whole = (last + 1) as f64 <= duration_s;
            self.judge_so_far(is_whole);
            for i in 0..self.watched.len() {
                self.judge_window(i, last, is_whole);
            }
        }
    }

    /// Judge the objectives without a window.
    fn judge_so_far(&mut self, is_whole: bool) {
        let until_s = self.first + self.count;
        let seconds = self.count as f64;
        for i in 0..self.watched.len() {
            let condition = self.watched[i].condition();
            if condition.window.is_none() && self.count > 0 && self.is_due(i, until_s, is_whole) {
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

    /// Judge the window of an objective that ends with the second `last`, if it has all of its
    /// seconds.
    fn judge_window(&mut self, i: usize, last: u64, is_whole: bool) {
        let condition = self.watched[i].condition();
        let Some(window) = condition.window else {
            return;
        };
        let held = (last + 1).saturating_sub(window.seconds())..=last;
        let parts: Vec<&ShardStats> = self.seconds.range(held).map(|(_, part)| part).collect();
        if parts.len() == window.len() && self.is_due(i, last + 1, is_whole) {
            let merged = merged(self.bounds, condition.metric, &parts);
            let seen = seen(condition, &merged, last + 1);
            self.note(i, seen);
        }
    }

    /// True if an objective is judged by what was seen until then. While the last answers come,
    /// fewer of them are no slower target.
    fn is_due(&self, i: usize, until_s: u64, is_whole: bool) -> bool {
        let needs_whole = self.watched[i].condition().needs_whole_seconds();
        let is_over = self.end.is_some_and(|end| until_s > end);
        self.watched[i].is_live() && !(needs_whole && (is_over || !is_whole))
    }

    fn note(&mut self, i: usize, seen: Seen) {
        if self.watched[i].note(seen) && self.watched[i].objective.breach == Breach::Stops {
            self.stop = self.stop.or(Some(i));
        }
    }
}

/// Measure a window. Too few samples that break a share whatever the missing ones had been are
/// enough.
fn seen(condition: &Condition, merged: &ShardStats, until_s: u64) -> Seen {
    let metric = condition.metric;
    let seconds = condition.window.map_or(0, Window::seconds);
    let broken = metric
        .share(merged)
        .filter(|share| condition.is_broken_by_few(*share))
        .and_then(|share| Some(Measured::Exactly(share.value()?)));
    Seen {
        measured: broken.unwrap_or_else(|| of_stats(metric, merged, seconds as f64)),
        until_s,
        samples: metric.samples(merged),
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
        }
    }

    const fn condition(&self) -> &Condition {
        &self.objective.condition
    }

    fn window_s(&self) -> u64 {
        self.condition().window.map_or(0, Window::seconds)
    }

    /// True if it is looked at while the run goes on.
    fn is_live(&self) -> bool {
        let Objective { condition, breach } = &self.objective;
        condition.metric.is_live() && (condition.window.is_some() || *breach == Breach::Stops)
    }

    /// Note what was seen. Return whether it breaks the condition.
    fn note(&mut self, seen: Seen) -> bool {
        let condition = &self.objective.condition;
        let held = condition.judge(&seen.measured);
        let Some(holds) = held else {
            match seen.measured {
                Measured::Unknown(_) => self.unjudged.push(seen),
                _ => self.open = Some(seen),
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

    /// Windows in which requests were due until `end_s` and that had too few samples, in words, and
    /// whether they leave the threshold undecided; none without any. Only every good answer has to
    /// be there: without a request, or without any that was throttled or failed, a window has
    /// nothing to judge.
    fn too_few(&self, end_s: u64) -> Option<(String, bool)> {
        let metric = self.condition().metric;
        let need = metric.samples_of_part();
        let of_good = [Series::ServiceOk, Series::ResponseOk];
        let is_of_good = metric.series().is_some_and(|it| of_good.contains(&it));
        let few = self
            .unjudged
            .iter()
            .filter(|seen| {
                let is_due = seen.until_s <= end_s && (is_of_good || seen.samples > 0);
                is_due && seen.samples < need
            })
            .count() as u64;
        let all = few + self.judged;
        let words = format!(
            "{} of {} windows had fewer than {} samples and were not evaluated",
            grouped(few),
            grouped(all),
            grouped(need)
        );
        (few > 0 && need > 1).then_some((words, few as f64 > all as f64 * MOST_UNJUDGED))
    }

    /// The verdict on a run that was to send requests until `end_s`. What was once seen to be
    /// broken is, whatever the whole run comes to.
    fn close(self, report: &Report, end_s: u64) -> GateReport {
        let condition = self.condition();
        if condition.window.is_some() || self.is_broken() {
            return self.close_by_seconds(end_s, report.measured_s());
        }
        self.objective.row(&of_condition(condition, report))
    }

    /// The verdict by what was seen in the seconds of the run, `measured_s` of them after the
    /// warm-up.
    fn close_by_seconds(self, end_s: u64, measured_s: f64) -> GateReport {
        let (is_broken, few) = (self.is_broken(), self.too_few(end_s));
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
    let fullest = unjudged.into_iter().max_by_key(|seen| seen.samples);
    fullest.map_or_else(
        || {
            Measured::Unknown(format!(
                "not enough data: {}, {} s needed",
                seconds(measured_s),
                window.map_or(0, Window::seconds)
            ))
        },
        |fullest| fullest.measured,
    )
}

/// A condition on service times that held, and does not with the waits before sending: on the same
/// figure of the response times of the run. Times of parts of a request, such as its body, are no
/// response times without waits.
fn broken_by_waits(condition: &Condition, gate: &GateReport, report: &Report) -> Option<Finding> {
    let is_blind = gate.ok == Some(true) && gate.corrected == Some(false);
    let Metric::Time(Series::ServiceOk, stat) = condition.metric else {
        return None;
    };
    let metric = Metric::Time(Series::ResponseOk, stat);
    let measured = of_report(metric, report);
    let is_broken = is_blind && condition.judge(&measured) == Some(false);
    is_broken.then(|| Finding::WaitsLeftOut {
        expression: gate.expression.clone(),
        metric: metric.to_string(),
        us: measured.value().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
