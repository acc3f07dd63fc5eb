//! One objective of a run, with what its windows have come to so far, and its verdict at the end.
//!
//! Called by `LiveThresholds`, which measures. A window that is not evaluated must not let a
//! threshold pass unnoticed: the verdict says how many there were, and leaves the threshold
//! undecided where they may hide that it was broken.

use super::super::measured::{SAMPLES_LIVE, Share, reason_of_bound};
use super::super::{Condition, Measured, Metric, Objective, Window, of_condition};
use crate::run::report::{GateReport, Report};
use crate::show::text::seconds;
use crawlmark_harness::stats::{Series, ShardStats};
use crawlmark_harness::units::grouped;

/// Largest part of the windows that may go without an evaluation before a threshold on times is
/// undecided: as large a part of a run without a good answer is a finding on its validity, too. The
/// seconds at the start and the end of a short run are less.
const MOST_PASSED_OVER: f64 = 0.1;

/// An objective that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) objective: Objective,
    /// Windows that could be judged.
    pub(super) judged: u64,
    /// A window that could not, although it had enough samples.
    pub(super) open: Option<Finding>,
    /// The window that broke it, or came nearest.
    pub(super) worst: Option<Finding>,
    /// Windows that held too few samples, or could not be judged otherwise.
    passed_over: Vec<PassedOver>,
    /// Reason why the one of these with the most samples was not judged, with their number.
    why: Option<(u64, String)>,
    /// Each second, of a share that is judged in windows; none of another metric.
    seconds: Vec<Second>,
}

/// A second of a share.
#[derive(Debug, Clone, Copy)]
struct Second {
    /// Share of all seconds up to this one, this one included: a sum of some is the difference of
    /// two.
    so_far: Share,
    /// True if a window that was judged holds it.
    is_judged: bool,
}

/// A window that was not judged.
#[derive(Debug, Clone, Copy)]
struct PassedOver {
    until_s: u64,
    samples: u64,
}

/// Value that was measured up to a second after the start.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) measured: Measured,
    pub(super) until_s: u64,
    /// Number of samples, of a metric that takes some.
    pub(super) samples: u64,
}

/// Windows with too few samples.
struct OfFew {
    /// True if they leave the threshold undecided.
    is_undecided: bool,
    /// Numbers of windows and of what they hold.
    words: String,
}

impl Watched {
    pub(super) const fn new(objective: Objective) -> Self {
        Self {
            objective,
            judged: 0,
            open: None,
            worst: None,
            passed_over: Vec::new(),
            why: None,
            seconds: Vec::new(),
        }
    }

    /// Counts a second of a share.
    pub(super) fn count(&mut self, second: &ShardStats) {
        let Condition { metric, window, .. } = self.objective.condition;
        let Some(share) = window.and_then(|_| Share::of_stats(metric, second)) else {
            return;
        };
        let so_far = self
            .seconds
            .last()
            .map_or(share, |last| last.so_far.plus(share));
        self.seconds.push(Second {
            so_far,
            is_judged: false,
        });
    }

    /// Notes what was seen. Returns whether it breaks the condition.
    pub(super) fn note(&mut self, finding: Finding) -> bool {
        let condition = self.objective.condition;
        let held = condition.judge(&finding.measured);
        match (held, &finding.measured) {
            (None, Measured::Unknown(why)) => {
                let Finding {
                    until_s, samples, ..
                } = finding;
                self.passed_over.push(PassedOver { until_s, samples });
                if self.why.as_ref().is_none_or(|(most, _)| samples > *most) {
                    self.why = Some((samples, why.clone()));
                }
            }
            (None, _) => self.open = Some(finding),
            (Some(held), measured) => {
                self.judged += 1;
                let from = self
                    .seconds
                    .len()
                    .saturating_sub(condition.window.map_or(0, Window::len));
                self.seconds[from..]
                    .iter_mut()
                    .for_each(|second| second.is_judged = true);
                let broken = |finding: &Finding| condition.judge(&finding.measured) == Some(false);
                let worse = match self.worst.as_ref() {
                    None => true,
                    Some(worst) if broken(worst) == held => !held,
                    Some(worst) => {
                        let [new, old] = [measured, &worst.measured]
                            .map(|measured| measured.value().unwrap_or_default());
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

    /// Windows with too few samples, as far as they matter to the verdict of a run that was to send
    /// requests until `end_s`.
    fn of_few(&self, end_s: u64) -> Option<OfFew> {
        match self.objective.condition.metric {
            Metric::Time(series, stat) => {
                self.times_of_few((series, stat.samples_of_part()), end_s)
            }
            Metric::Of(_) => self.share_of_few(),
        }
    }

    /// Windows in which requests were due and fewer than `need` of a figure's samples were, where
    /// it takes more than one. Only every good answer has to be there: without any that was
    /// throttled or failed, a window has nothing to evaluate.
    fn times_of_few(&self, (series, need): (Series, u64), end_s: u64) -> Option<OfFew> {
        let is_of_good = matches!(series, Series::ServiceOk | Series::ResponseOk);
        let is_due =
            |window: &&PassedOver| window.until_s <= end_s && (is_of_good || window.samples > 0);
        let few = self
            .passed_over
            .iter()
            .filter(is_due)
            .filter(|window| need > 1 && window.samples < need)
            .count() as u64;
        let all = few + self.judged;
        let words = format!(
            "{} of {} windows had fewer than {} samples and were not evaluated",
            grouped(few),
            grouped(all),
            grouped(need)
        );
        let is_undecided = few as f64 > all as f64 * MOST_PASSED_OVER;
        (few > 0).then_some(OfFew {
            is_undecided,
            words,
        })
    }

    /// Seconds of a share that only windows with too few samples hold. They leave it undecided when
    /// they break the condition, by themselves with neighbours that make them enough, or together
    /// with all others.
    fn share_of_few(&self) -> Option<OfFew> {
        let condition = self.objective.condition;
        let all = self
            .seconds
            .last()
            .filter(|_| !self.passed_over.is_empty())?
            .so_far;
        let none = all.minus(all);
        let before = |second: usize| {
            second
                .checked_sub(1)
                .map_or(none, |last| self.seconds[last].so_far)
        };
        let sum =
            |seconds: &std::ops::Range<usize>| before(seconds.end).minus(before(seconds.start));
        let breaks = |share: Share| {
            share
                .value()
                .is_some_and(|value| condition.judge(&Measured::Exactly(value)) == Some(false))
        };
        let (mut few, mut breaks_it, mut start) = (none, breaks(all), 0);
        for group in self
            .seconds
            .chunk_by(|one, next| one.is_judged == next.is_judged)
        {
            let mut joined = start..start + group.len();
            start = joined.end;
            if group[0].is_judged {
                continue;
            }
            few = few.plus(sum(&joined));
            // Neighbours make up for what the group lacks.
            while sum(&joined).whole < SAMPLES_LIVE && joined.len() < self.seconds.len() {
                joined = joined.start.saturating_sub(1)..(joined.end + 1).min(self.seconds.len());
            }
            breaks_it |= breaks(sum(&joined));
        }
        let passed_over = self.passed_over.len() as u64;
        let (windows, of) = (grouped(passed_over), grouped(passed_over + self.judged));
        let words = format!(
            "{windows} of {of} windows had fewer than {SAMPLES_LIVE} {} and contain {} of {} {}",
            all.things,
            grouped(few.part),
            grouped(all.part),
            all.parts
        );
        Some(OfFew {
            is_undecided: breaks_it,
            words,
        })
        .filter(|_| breaks_it || few.part > 0)
    }

    /// The verdict on a run that was to send requests until `end_s`. What was once seen to be
    /// broken is, whatever the whole run comes to.
    pub(super) fn close(self, report: &Report, end_s: u64) -> GateReport {
        if self.objective.condition.window.is_some() || self.is_broken() {
            let warmup_s = report
                .warmup
                .as_ref()
                .map_or(0.0, |warmup| warmup.duration_s);
            return self.close_by_seconds(end_s, (report.totals.duration_s - warmup_s).max(0.0));
        }
        let condition = self.objective.condition;
        let row = self.objective.row(&of_condition(&condition, report));
        let why = row
            .why
            .clone()
            .or_else(|| reason_of_bound(&condition, report).filter(|_| row.at_least));
        GateReport { why, ..row }
    }

    /// True if some seconds broke it.
    fn is_broken(&self) -> bool {
        let condition = self.objective.condition;
        self.worst
            .as_ref()
            .is_some_and(|worst| condition.judge(&worst.measured) == Some(false))
    }

    /// The verdict by what was seen in the seconds of the run, `measured_s` of them after the
    /// warm-up.
    pub(super) fn close_by_seconds(self, end_s: u64, measured_s: f64) -> GateReport {
        let (broken, of_few) = (self.is_broken(), self.of_few(end_s));
        let Self {
            objective,
            judged,
            open,
            worst,
            passed_over,
            why,
            ..
        } = self;
        let fullest = |why: String| match passed_over.len() as u64 {
            0 | 1 => why,
            more => format!("{why} (in the fullest of {} windows)", grouped(more)),
        };
        // One undecided window leaves the whole undecided, unless another one broke it.
        let finding = if broken { worst } else { open.or(worst) };
        let (measured, until_s) = match (finding, &of_few) {
            (Some(_), Some(few)) if few.is_undecided && !broken => (
                Measured::Unknown(format!(
                    "not enough data: {}. Use a longer window",
                    few.words
                )),
                None,
            ),
            (
                Some(Finding {
                    measured, until_s, ..
                }),
                _,
            ) => (measured, Some(until_s)),
            (None, _) => {
                let why = why.map_or_else(
                    || never_full(objective.condition.window, measured_s),
                    |(_, why)| fullest(why),
                );
                (Measured::Unknown(why), None)
            }
        };
        let row = objective.row(&measured);
        let note = of_few.filter(|_| row.ok == Some(true)).map(|few| few.words);
        let windows = objective.condition.window.map(|_| judged);
        GateReport {
            windows,
            until_s,
            why: row.why.or(note),
            ..row
        }
    }
}

/// Reason why no window was judged that none was full.
fn never_full(window: Option<Window>, measured_s: f64) -> String {
    format!(
        "not enough data: {}, {} s needed",
        seconds(measured_s),
        window.map_or(0, Window::len)
    )
}
