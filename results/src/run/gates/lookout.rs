//! Watches the seconds of a run for the conditions that need them, says when one that may stop the run is broken, and
//! closes the report.
//!
//! Fed by the supervisor's observer, second by second: nothing of it runs in a shard. Counts and rates are of what ended in a second, times
//! of what was intended in it, so the times of a second are known once every request that was intended in it has gone and ended. Until
//! then what is known already may stop the run: its counts, and that what has not ended is at least as old as it is. A verdict waits for
//! the second to be complete.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::measured::{SAMPLES_LIVE, Share, samples_of};
use super::{Breach, Condition, Measured, Metric, Objective, Window, least_of_stats, of_report, of_stats};
use crate::run::report::{GateReport, Report};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Counters, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::{Interval, OpenInterval};
use crawlmark_harness::units::grouped;

/// Watches the objectives of one run.
#[derive(Debug)]
pub struct Lookout {
    bounds: Bounds,
    watched: Vec<Watched>,
    /// The first second that is not, in part, warm-up.
    first: u64,
    /// The first second in which nothing is started any more, and only answers come; none when that is not planned.
    end: Option<u64>,
    /// The second to look at next.
    next: u64,
    /// Seconds that came before an earlier one was complete.
    waiting: BTreeMap<u64, ShardStats>,
    /// The last seconds that were looked at, as many as the longest window has; the newest last.
    history: VecDeque<ShardStats>,
    /// All that were looked at; none when nobody asks.
    so_far: Option<ShardStats>,
    /// The times that are bounded from below in a second that is not complete.
    waited: Series,
    /// Index of the objective that wants the run to stop.
    stop: Option<usize>,
    /// Windows of that one that were judged before their seconds were complete; the last one broke it.
    foreseen: Vec<Finding>,
    /// The one that stopped it, once it is over.
    over: Option<usize>,
    /// Time for which answers are waited for after a stop.
    grace: Duration,
}

#[derive(Debug)]
struct Watched {
    objective: Objective,
    /// Windows that could be judged.
    judged: u64,
    /// A window that could not, although it had enough samples.
    open: Option<Finding>,
    /// The window that broke it, or came nearest.
    worst: Option<Finding>,
    /// Windows that held too few samples, or could not be judged otherwise.
    passed_over: u64,
    /// Reason why the one of these with the most samples was not judged, with their number.
    why: Option<(u64, String)>,
    /// Each second, of a share that is judged in windows; none of another metric.
    seconds: Vec<Second>,
}

/// A second of a share.
#[derive(Debug, Clone, Copy)]
struct Second {
    share: Share,
    /// True if a window that was judged holds it.
    is_judged: bool,
}

/// Value that was measured up to a second after the start.
#[derive(Debug, Clone)]
struct Finding {
    measured: Measured,
    until_s: u64,
    /// Number of samples, of a metric that takes some.
    samples: u64,
}

/// Objectives to judge. Some need a second that is whole, which it is known to be when the next one is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    WholeSeconds,
    Others,
}

impl Lookout {
    /// Watches `objectives` in a run of `plan`.
    #[must_use]
    pub fn new(objectives: &[Objective], plan: &RunPlan) -> Self {
        let bounds = Bounds::for_timeout(plan.timeout);
        let watched = |objective: &Objective| Watched {
            objective: *objective,
            judged: 0,
            open: None,
            worst: None,
            passed_over: 0,
            why: None,
            seconds: Vec::new(),
        };
        let first = plan.warmup.div_duration_f64(INTERVAL).ceil();
        let sums = objectives.iter().any(|objective| objective.is_live() && objective.condition.window.is_none());
        Self {
            bounds,
            watched: objectives.iter().map(watched).collect(),
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
        let live = || self.watched.iter().map(|watched| watched.objective).filter(Objective::is_live);
        if live().next().is_none() || interval.index < self.next {
            return;
        }
        let wanted: Vec<Series> = live().filter_map(|objective| objective.condition.metric.series()).collect();
        let merged = &interval.merged;
        let timings = merged.timings().filter(|(series, _)| wanted.contains(series));
        let timings = timings.map(|(series, timing)| (series, timing.clone())).collect();
        let kept = ShardStats::from_parts(self.bounds, merged.counters.clone(), timings);
        self.waiting.insert(interval.index, kept);
        // What comes after a stop waits until it is known when the run was stopped.
        while self.stop.is_none()
            && let Some(second) = self.waiting.remove(&self.next)
        {
            self.take(second);
        }
    }

    /// Hears the seconds that are over and not complete, the oldest first. They may break a condition that stops the run, and keep none.
    pub fn hear_open(&mut self, seconds: &[OpenInterval]) {
        let open: BTreeMap<u64, &ShardStats> = seconds.iter().map(|second| (second.index, &second.least)).collect();
        for i in 0..self.watched.len() {
            let objective = self.watched[i].objective;
            if self.stop.is_none() && objective.breach == Breach::Stops && objective.is_live() {
                self.foreseen = self.foresee(&objective, &open);
                self.stop = Some(i).filter(|_| !self.foreseen.is_empty());
            }
        }
    }

    /// The windows up to the first that breaks the objective with these seconds, which are not complete; none when none does.
    fn foresee(&self, objective: &Objective, open: &BTreeMap<u64, &ShardStats>) -> Vec<Finding> {
        let condition = objective.condition;
        if condition.metric.series().is_some_and(|series| series != self.waited) {
            return Vec::new();
        }
        let known = |index: u64| match self.next.checked_sub(index + 1) {
            Some(back) => self.history.iter().rev().nth(usize::try_from(back).ok()?),
            None => self.waiting.get(&index).or_else(|| open.get(&index).copied()),
        };
        let (metric, window) = (condition.metric, condition.window);
        let is_of_whole = condition.needs_whole_seconds();
        // After the end only answers come, and fewer of them are no slower target.
        let end = self.end.filter(|_| is_of_whole).unwrap_or(u64::MAX);
        // The last second that is complete is whole, for it is followed by another one.
        let judged = self.next.saturating_sub(u64::from(is_of_whole && window.is_some()));
        let (mut findings, mut so_far) = (Vec::new(), self.so_far.clone().filter(|_| window.is_none()));
        for last in judged.max(self.first)..end {
            let Some(newest) = known(last) else { break };
            let measured = if let Some(so_far) = &mut so_far {
                so_far.merge(newest);
                least_of_stats(metric, so_far, last + 1 - self.first)
            } else {
                let seconds = window.map_or(1, Window::seconds);
                let Some(from) = (last + 1).checked_sub(seconds).filter(|from| *from >= self.first) else { continue };
                let parts: Vec<&ShardStats> = (from..=last).filter_map(known).collect();
                let merged = merged(self.bounds, metric, parts.into_iter());
                even_of_few(condition, &merged, least_of_stats(metric, &merged, seconds))
            };
            let breaks = condition.judge(&measured) == Some(false);
            findings.push(Finding { measured, until_s: last + 1, samples: 0 });
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
        // It may have wanted to when the run was over, or a signal had come first.
        let stopped_by = self.stop.filter(|_| report.interrupted && report.interrupted_by.is_none());
        self.hear_the_rest(report.totals.duration_s, stopped_by.is_some());
        report.stopped_by = stopped_by.map(|i| self.watched[i].objective.condition.to_string());
        report.gates = self.watched.into_iter().map(|watched| watched.close(report)).collect();
    }

    /// Looks at what is still waiting, and at the last second if it was whole. The condition that stopped the run, if one did,
    /// stays as it was then.
    fn hear_the_rest(&mut self, duration_s: f64, stopped: bool) {
        // The run is over: it cannot be stopped any more, only judged.
        let stopped_by = self.stop;
        if let Some(i) = stopped_by.filter(|_| stopped) {
            self.over = stopped_by;
            for finding in std::mem::take(&mut self.foreseen) {
                self.watched[i].note(finding);
            }
            // The last answer came no later than the grace after the stop.
            let end = Duration::try_from_secs_f64(duration_s).unwrap_or_default().saturating_sub(self.grace).as_secs();
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
        if self.next >= self.first {
            self.look(Look::WholeSeconds);
            if let Some(so_far) = &mut self.so_far {
                so_far.merge(&second);
            }
            for watched in &mut self.watched {
                watched.count(&second);
            }
            self.history.push_back(second);
            let longest = self.watched.iter().filter_map(|watched| watched.objective.condition.window);
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
            let wanted = if objective.condition.needs_whole_seconds() { Look::WholeSeconds } else { Look::Others };
            if !objective.is_live() || self.over == Some(i) || look != wanted {
                continue;
            }
            // While the last answers come, fewer of them are no slower target.
            if look == Look::WholeSeconds && self.end.is_some_and(|end| self.next > end) {
                continue;
            }
            let Some((measured, samples)) = self.measure(&objective) else { continue };
            let finding = Finding { measured, until_s: self.next, samples };
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
            let seconds = self.next.saturating_sub(self.first);
            return self.so_far.as_ref().filter(|_| seconds > 0).map(|so_far| (of_stats(metric, so_far, seconds), 0));
        };
        let before = self.history.len().checked_sub(window.len())?;
        let merged = merged(self.bounds, metric, self.history.range(before..));
        let measured = even_of_few(condition, &merged, of_stats(metric, &merged, window.seconds()));
        Some((measured, samples_of(metric, &merged).unwrap_or(0)))
    }
}

/// Share of a window with too few samples, where they break the condition whatever the missing ones had been.
fn even_of_few(condition: Condition, window: &ShardStats, measured: Measured) -> Measured {
    let share = Share::of_stats(condition.metric, window).filter(|_| matches!(measured, Measured::Unknown(_)));
    let share = share.filter(|share| condition.is_broken_by_few(share));
    share.and_then(Share::value).map_or(measured, Measured::Exactly)
}

/// Merge from some seconds as much as a metric needs.
fn merged<'a>(bounds: Bounds, metric: Metric, seconds: impl Iterator<Item = &'a ShardStats> + Clone) -> ShardStats {
    let mut counters = Counters::default();
    seconds.clone().for_each(|second| counters.merge(&second.counters));
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

impl Watched {
    /// Counts a second of a share.
    fn count(&mut self, second: &ShardStats) {
        let Condition { metric, window, .. } = self.objective.condition;
        let share = window.and_then(|_| Share::of_stats(metric, second));
        self.seconds.extend(share.map(|share| Second { share, is_judged: false }));
    }

    /// Notes what was seen. Returns whether it breaks the condition.
    fn note(&mut self, finding: Finding) -> bool {
        let condition = self.objective.condition;
        let held = condition.judge(&finding.measured);
        match (held, &finding.measured) {
            (None, Measured::Unknown(why)) => {
                self.passed_over += 1;
                if self.why.as_ref().is_none_or(|(most, _)| finding.samples > *most) {
                    self.why = Some((finding.samples, why.clone()));
                }
            }
            (None, _) => self.open = Some(finding),
            (Some(held), measured) => {
                self.judged += 1;
                let from = self.seconds.len().saturating_sub(condition.window.map_or(0, Window::len));
                self.seconds[from..].iter_mut().for_each(|second| second.is_judged = true);
                let broken = |finding: &Finding| condition.judge(&finding.measured) == Some(false);
                let worse = match self.worst.as_ref() {
                    None => true,
                    Some(worst) if broken(worst) == held => !held,
                    Some(worst) => {
                        let [new, old] =
                            [measured, &worst.measured].map(|measured| measured.value().unwrap_or_default());
                        condition.is_worse(new, old)
                    }
                };
                if worse {
                    self.worst = Some(finding);
                }
            }
        }
        held == Some(false)
    }

    /// Seconds that only windows with too few samples hold, as far as these windows matter to the verdict.
    fn of_few(&self) -> Option<OfFew> {
        let condition = self.objective.condition;
        let none = self.seconds.first().filter(|_| self.passed_over > 0)?.share.none();
        let sum = |seconds: &[Second]| seconds.iter().fold(none, |all, second| all.plus(second.share));
        let breaks =
            |share: Share| share.value().is_some_and(|value| condition.judge(&Measured::Exactly(value)) == Some(false));
        let (all, mut few) = (sum(&self.seconds), none);
        let mut breaks_it = breaks(all);
        let mut start = 0;
        for group in self.seconds.chunk_by(|one, next| one.is_judged == next.is_judged) {
            let mut joined = start..start + group.len();
            start = joined.end;
            if group[0].is_judged {
                continue;
            }
            few = few.plus(sum(group));
            // Neighbours make up for what the group lacks.
            while sum(&self.seconds[joined.clone()]).whole < SAMPLES_LIVE && joined.len() < self.seconds.len() {
                joined = joined.start.saturating_sub(1)..(joined.end + 1).min(self.seconds.len());
            }
            breaks_it |= breaks(sum(&self.seconds[joined]));
        }
        let (windows, of) = (grouped(self.passed_over), grouped(self.passed_over + self.judged));
        let words = format!(
            "{windows} of {of} windows had fewer than {SAMPLES_LIVE} {} and hold {} of {} {}",
            all.things,
            grouped(few.part),
            grouped(all.part),
            all.parts
        );
        Some(OfFew { breaks_it, words }).filter(|_| breaks_it || few.part > 0)
    }

    /// The verdict. What was once seen to be broken is, whatever the whole run comes to.
    fn close(self, report: &Report) -> GateReport {
        if self.objective.condition.window.is_some() || self.is_broken() {
            return self.close_by_seconds();
        }
        self.objective.row(&of_report(self.objective.condition.metric, report))
    }

    /// True if some seconds broke it.
    fn is_broken(&self) -> bool {
        let condition = self.objective.condition;
        self.worst.as_ref().is_some_and(|worst| condition.judge(&worst.measured) == Some(false))
    }

    /// The verdict by what was seen in the seconds of the run.
    fn close_by_seconds(self) -> GateReport {
        let (broken, of_few) = (self.is_broken(), self.of_few());
        let Self { objective, judged, open, worst, passed_over, why, .. } = self;
        let fullest = |why: String| match passed_over {
            0 | 1 => why,
            more => format!("{why} (in the fullest of {} windows)", grouped(more)),
        };
        // One window of which nobody knows is enough not to know of all of them, unless another one broke it.
        let finding = if broken { worst } else { open.or(worst) };
        let (measured, until_s) = match (finding, &of_few) {
            (Some(_), Some(few)) if few.breaks_it && !broken => {
                (Measured::Unknown(format!("not enough data: {}. Use a longer window", few.words)), None)
            }
            (Some(Finding { measured, until_s, .. }), _) => (measured, Some(until_s)),
            (None, _) => {
                let why = why.map_or_else(|| "no window was full".to_owned(), |(_, why)| fullest(why));
                (Measured::Unknown(why), None)
            }
        };
        let row = objective.row(&measured);
        let note = of_few.filter(|_| row.ok == Some(true)).map(|few| few.words);
        let windows = objective.condition.window.map(|_| judged);
        GateReport { windows, until_s, why: row.why.or(note), ..row }
    }
}

/// Seconds that only windows with too few samples hold.
struct OfFew {
    /// True if they break the condition, by themselves with neighbours that make them enough, or together with all others.
    breaks_it: bool,
    /// Numbers of windows and of what they hold.
    words: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::wire::{BindingTimes, Scheduled};

    /// A second with `count` attempts, all good but the `errors`, each served in `ms`.
    fn second(index: u64, [count, errors, ms]: [u64; 3]) -> Interval {
        let bounds = Bounds::for_timeout(plan().timeout);
        let mut timing = Timing::new(bounds);
        (0..count).for_each(|_| timing.record(ms * 1_000_000));
        let counters = Counters { ok: count - errors, failed: errors, attempts: count, ..Counters::default() };
        Interval {
            index,
            merged: ShardStats::from_parts(bounds, counters, [(Series::ServiceOk, timing)].into()),
            scheduled: Scheduled::default(),
            shards: Vec::new(),
            in_flight: 0,
            cpu_us: 0,
            max_sched_lag_ns: 0,
            binding: BindingTimes::NONE,
            standing: None,
            seconds: Vec::new(),
        }
    }

    fn lookout(text: &str, breach: Breach, warmup_s: f64) -> Lookout {
        let mut plan = plan();
        plan.warmup = Duration::from_secs_f64(warmup_s);
        Lookout::new(&[Objective { condition: text.parse().unwrap(), breach }], &plan)
    }

    /// Return the number of these seconds that it takes until the run is stopped; none if it is never stopped.
    fn stops_after(text: &str, warmup_s: f64, seconds: &[[u64; 3]]) -> Option<usize> {
        let mut lookout = lookout(text, Breach::Stops, warmup_s);
        seconds.iter().enumerate().find_map(|(i, numbers)| {
            lookout.hear(&second(i as u64, *numbers));
            lookout.has_enough().then_some(i + 1)
        })
    }

    /// Verdict, value, windows judged and the end of the worst, of a run of these seconds whose report says nothing.
    fn verdict(text: &str, seconds: &[[u64; 3]], duration_s: f64) -> (Option<bool>, Option<f64>, u64, Option<u64>) {
        let mut lookout = lookout(text, Breach::Fails, 0.0);
        for (i, numbers) in seconds.iter().enumerate() {
            lookout.hear(&second(i as u64, *numbers));
        }
        lookout.hear_the_rest(duration_s, false);
        let watched = lookout.watched.remove(0);
        let worst = watched.open.clone().or_else(|| watched.worst.clone());
        let held = worst.as_ref().and_then(|worst| watched.objective.condition.judge(&worst.measured));
        (held, worst.as_ref().and_then(|w| w.measured.value()), watched.judged, worst.map(|w| w.until_s))
    }

    const GOOD: [u64; 3] = [200, 0, 5];
    const BAD: [u64; 3] = [200, 50, 80];

    #[test]
    fn a_run_is_stopped_by_the_second_that_breaks_a_window() {
        assert_eq!(stops_after("error_rate[1s] < 0.2", 0.0, &[GOOD, GOOD, BAD, GOOD]), Some(3));
        assert_eq!(stops_after("error_rate[2s] < 0.2", 0.0, &[GOOD, GOOD, BAD, GOOD, BAD, BAD]), Some(6));
        assert_eq!(stops_after("error_rate[2s] < 0.2", 0.0, &[BAD]), None, "the window is not full");
        assert_eq!(stops_after("service_p50[2s] < 50ms", 0.0, &[GOOD, BAD, BAD, GOOD]), Some(3));
        assert_eq!(stops_after("service_max[2s] < 50ms", 0.0, &[GOOD, BAD]), Some(2));
        assert_eq!(stops_after("service_p50[2s] < 100ms", 0.0, &[GOOD, BAD, BAD]), None);
    }

    #[test]
    fn without_a_window_everything_since_the_start_counts() {
        assert_eq!(stops_after("error_rate < 0.1", 0.0, &[GOOD, GOOD, GOOD, BAD, BAD]), Some(5));
        assert_eq!(stops_after("errors < 50", 0.0, &[GOOD, BAD]), Some(2));
        assert_eq!(stops_after("service_p50 < 50ms", 0.0, &[GOOD, BAD, BAD]), Some(3));
    }

    #[test]
    fn too_few_samples_stop_nothing() {
        assert_eq!(stops_after("error_rate[1s] < 0.1", 0.0, &[[99, 9, 5]; 5]), None);
        assert_eq!(stops_after("error_rate < 0.1", 0.0, &[[99, 99, 5]]), None, "more may come");
        assert_eq!(stops_after("service_p99[2s] < 1ms", 0.0, &[[4_999, 0, 5]; 5]), None);
        assert_eq!(stops_after("service_p99[2s] < 1ms", 0.0, &[[5_000, 0, 5]; 5]), Some(2));
    }

    #[test]
    fn few_samples_suffice_when_they_break_a_share_for_certain() {
        assert_eq!(stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [0, 0, 5], [10, 10, 5]]), Some(3));
        assert_eq!(stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [9, 9, 5]]), None, "100 might hold 9 as well");
        assert_eq!(stops_after("ok_rate[1s] >= 0.9", 0.0, &[GOOD, [20, 11, 5]]), Some(2));
        assert_eq!(stops_after("ok_rate[1s] >= 0.9", 0.0, &[GOOD, [20, 10, 5]]), None);
        assert_eq!(stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [0, 0, 5]]), None, "nothing happened");
    }

    /// Verdict, windows judged and the reason of a run of these seconds.
    fn closed(text: &str, seconds: &[[u64; 3]]) -> (Option<bool>, Option<u64>, Option<String>) {
        let mut lookout = lookout(text, Breach::Fails, 0.0);
        for (i, numbers) in seconds.iter().enumerate() {
            lookout.hear(&second(i as u64, *numbers));
        }
        lookout.hear_the_rest(seconds.len() as f64, false);
        let row = lookout.watched.remove(0).close_by_seconds();
        (row.ok, row.windows, row.why)
    }

    #[test]
    fn windows_of_few_samples_that_would_break_a_share_leave_it_undecided() {
        const FEW: [u64; 3] = [50, 4, 5];
        let why = |windows: &str, held: &str| {
            Some(format!("{windows} windows had fewer than 100 attempts and hold {held} errors"))
        };
        let undecided =
            |windows, held| why(windows, held).map(|why| format!("not enough data: {why}. Use a longer window"));
        // Two of them are a hundred attempts, 8 % of which are errors.
        assert_eq!(closed("error_rate[1s] < 5%", &[GOOD, FEW, FEW]), (None, Some(1), undecided("2 of 3", "8 of 8")));
        // A chance failure among the last answers is one of 203.
        assert_eq!(closed("error_rate[1s] < 5%", &[GOOD, [3, 1, 5]]), (Some(true), Some(1), why("1 of 2", "1 of 1")));
        assert_eq!(closed("error_rate[1s] < 5%", &[GOOD, [3, 0, 5]]), (Some(true), Some(1), None));
        // A window that holds it was judged.
        assert_eq!(closed("error_rate[2s] < 5%", &[GOOD, FEW, GOOD]), (Some(true), Some(2), None));
        assert_eq!(closed("error_rate[1s] < 5%", &[FEW, FEW]).0, None);
    }

    #[test]
    fn a_threshold_without_a_window_of_enough_samples_says_the_most_that_one_held() {
        let why = closed("service_p90[1s] < 1s", &[[400, 0, 5], [14, 0, 5]]).2.unwrap();
        assert_eq!(why, "not enough data: 400 samples, 1,000 needed (in the fullest of 2 windows)");
    }

    #[test]
    fn the_warm_up_is_not_looked_at() {
        assert_eq!(stops_after("error_rate[1s] < 0.1", 1.5, &[BAD, BAD, GOOD, BAD]), Some(4));
        assert_eq!(stops_after("errors < 50", 2.0, &[BAD, BAD, GOOD, BAD]), Some(4));
    }

    #[test]
    fn a_rate_is_judged_of_whole_seconds_only() {
        assert_eq!(stops_after("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5]]), None, "nobody knows that it is whole");
        assert_eq!(stops_after("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5], GOOD]), Some(3));
        assert_eq!(stops_after("items[1s] > 100", 0.0, &[GOOD, [50, 0, 5]]), None);
        assert_eq!(stops_after("items[1s] < 100", 0.0, &[GOOD]), Some(1), "more of them do not mend it");
        assert_eq!(verdict("rate[1s] > 100", &[GOOD, GOOD, [50, 0, 5]], 2.4), (Some(true), Some(200.0), 2, Some(1)));
        assert_eq!(verdict("rate[1s] > 100", &[GOOD, GOOD, [50, 0, 5]], 3.0), (Some(false), Some(50.0), 3, Some(3)));
    }

    #[test]
    fn a_rate_is_not_judged_while_only_the_last_answers_come() {
        let judged = |duration: Option<Duration>| {
            let objective = Objective { condition: "rate[1s] > 100".parse().unwrap(), breach: Breach::Fails };
            let mut lookout = Lookout::new(&[objective], &crawlmark_harness::plan::RunPlan { duration, ..plan() });
            for (numbers, i) in [GOOD, GOOD, [50, 0, 5], [1, 0, 5]].iter().zip(0..) {
                lookout.hear(&second(i, *numbers));
            }
            lookout.hear_the_rest(4.0, false);
            let watched = &lookout.watched[0];
            (watched.judged, watched.worst.as_ref().and_then(|worst| worst.measured.value()))
        };
        assert_eq!(judged(None), (4, Some(1.0)));
        assert_eq!(judged(Some(Duration::from_secs(2))), (2, Some(200.0)));
        assert_eq!(judged(Some(Duration::from_millis(2_900))), (2, Some(200.0)));
        assert_eq!(judged(Some(Duration::from_secs(3))), (3, Some(50.0)));
    }

    #[test]
    fn seconds_are_looked_at_in_their_order() {
        let mut lookout = lookout("error_rate[1s] < 0.2", Breach::Stops, 0.0);
        lookout.hear(&second(1, BAD));
        lookout.hear(&second(2, GOOD));
        assert!(!lookout.has_enough(), "the first second is under way");
        lookout.hear(&second(0, GOOD));
        assert!(lookout.has_enough());
        assert_eq!(lookout.watched[0].worst.as_ref().unwrap().until_s, 2);
    }

    #[test]
    fn of_several_windows_the_worst_is_told() {
        let seconds = [GOOD, BAD, [200, 60, 5], GOOD, GOOD];
        assert_eq!(verdict("error_rate[1s] <= 0.3", &seconds, 5.0), (Some(true), Some(0.3), 5, Some(3)));
        assert_eq!(verdict("error_rate[1s] < 0.2", &seconds, 5.0), (Some(false), Some(0.3), 5, Some(3)));
        assert_eq!(verdict("errors[1s] != 50", &seconds, 5.0), (Some(false), Some(50.0), 5, Some(2)));
        assert_eq!(verdict("errors[1s] == 0", &[GOOD, BAD, GOOD], 3.0), (Some(false), Some(50.0), 3, Some(2)));
        assert_eq!(verdict("error_rate[9s] < 0.2", &seconds, 5.0), (None, None, 0, None));
    }

    #[test]
    fn a_condition_that_another_one_cuts_short_is_judged_to_the_end() {
        let judged = |stopped: bool| {
            let conditions = ["rate[1s] > 100", "service_max[1s] < 50ms", "errors[1s] < 60"];
            let conditions =
                conditions.map(|text| Objective { condition: text.parse().unwrap(), breach: Breach::Stops });
            let mut lookout =
                Lookout::new(&conditions, &RunPlan { duration: None, grace: Duration::from_secs(1), ..plan() });
            for (numbers, i) in [GOOD, BAD, [1, 0, 90], [200, 70, 5], [2, 0, 5]].iter().zip(0..) {
                lookout.hear(&second(i, *numbers));
            }
            assert_eq!(lookout.stop, Some(1));
            lookout.hear_the_rest(5.0, stopped);
            assert_eq!(lookout.stop, Some(1), "the first of them");
            let worst = |watched: &Watched| {
                let worst = watched.worst.as_ref();
                (watched.judged, worst.and_then(|worst| worst.measured.value()), worst.map(|worst| worst.until_s))
            };
            lookout.watched.iter().map(worst).collect::<Vec<_>>()
        };
        // The run was over when it was seen: nothing was stopped.
        let [rate, max, errors] = judged(false).try_into().unwrap();
        assert_eq!((rate, errors), ((5, Some(1.0), Some(3)), (5, Some(70.0), Some(4))));
        assert_eq!(max, (5, Some(90_000.0), Some(3)));
        // It was stopped: in the last second, only answers came. What stopped it is told as it was then.
        let [rate, max, errors] = judged(true).try_into().unwrap();
        assert_eq!((rate, errors), ((4, Some(1.0), Some(3)), (5, Some(70.0), Some(4))));
        assert_eq!(max, (2, Some(80_000.0), Some(2)));
    }

    #[test]
    fn a_run_that_is_over_is_not_stopped_by_its_last_second() {
        let mut lookout = lookout("rate[1s] > 100", Breach::Stops, 0.0);
        lookout.hear(&second(0, [50, 0, 5]));
        lookout.hear_the_rest(1.0, false);
        assert!(!lookout.has_enough());
        assert_eq!(lookout.watched[0].judged, 1);
    }
}
