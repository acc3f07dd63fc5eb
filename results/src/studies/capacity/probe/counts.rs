//! Requests of a probe by result, over its seconds.

use serde::{Deserialize, Serialize};

use crate::run::gates::Measured;
use crate::run::report::{IntervalRow, Report};
use crate::studies::capacity::Pace;
use crate::studies::capacity::growth::LEAST_SECONDS;
use crawlmark_harness::plan::Arrivals;

/// Attempts that a half of a probe needs before its shares are judged by themselves.
const ENOUGH: u64 = 100;

/// A second is whole if the last answer came no sooner than this before its end, s.
const END_S: f64 = 0.02;

/// Attempts by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptCounts {
    /// All of them: the sum of the others.
    pub attempts: u64,
    /// Answers that `--expect` accepts.
    pub good: u64,
    /// Not found: 404 or 410, unless `--expect` accepts it.
    pub not_found: u64,
    /// Throttled.
    pub throttled: u64,
    /// Rejected, challenged, or without a valid answer: refused and closed connections, timeouts.
    pub failed: u64,
    /// Cut off at the end of the probe.
    pub cut_off: u64,
}

impl AttemptCounts {
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a IntervalRow>) -> Self {
        rows.fold(Self::default(), |all, row| {
            let others = row
                .ok
                .saturating_add(row.not_found)
                .saturating_add(row.throttled)
                .saturating_add(row.aborted);
            Self {
                attempts: all.attempts + row.attempts,
                good: all.good + row.ok,
                not_found: all.not_found + row.not_found,
                throttled: all.throttled + row.throttled,
                failed: all.failed + row.attempts.saturating_sub(others),
                cut_off: all.cut_off + row.aborted,
            }
        })
    }

    fn share(part: u64, all: u64) -> f64 {
        part as f64 / (all as f64).max(1.0)
    }

    /// Throttled ones as a part of all.
    pub(in crate::studies::capacity) fn throttled(&self) -> f64 {
        Self::share(self.throttled, self.attempts)
    }

    /// Failed ones, and those that were cut off at the end, as a part of all.
    pub(in crate::studies::capacity) fn errors(&self) -> f64 {
        Self::share(self.failed + self.cut_off, self.attempts)
    }

    /// Not found ones as a part of all.
    pub(crate) fn missing(&self) -> f64 {
        Self::share(self.not_found, self.attempts)
    }

    pub(super) fn not_good(&self) -> f64 {
        self.throttled() + self.errors() + self.missing()
    }

    /// Requests that a limit may have refused: throttled, or failed, as with a closed connection.
    const fn refused(&self) -> u64 {
        self.throttled + self.failed
    }
}

/// Requests scheduled in some seconds, and requests that ended in them by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Scheduled.
    pub scheduled: u64,
    /// Ended.
    pub answered: u64,
}

impl Flow {
    /// None of results of older versions, or of no second.
    pub(super) fn of(rows: &[&IntervalRow]) -> Option<Self> {
        let scheduled: u64 = rows.iter().map(|row| row.scheduled).sum::<Option<u64>>()?;
        let answered = rows
            .iter()
            .map(|row| row.attempts.saturating_sub(row.aborted))
            .sum();
        (scheduled > 0).then_some(Self {
            scheduled,
            answered,
        })
    }

    pub(in crate::studies::capacity) const fn plus(self, other: Self) -> Self {
        Self {
            scheduled: self.scheduled + other.scheduled,
            answered: self.answered + other.answered,
        }
    }

    /// Ended ones as a part of the scheduled ones, 1 at the most.
    pub(in crate::studies::capacity) fn share(self) -> f64 {
        (self.answered as f64 / (self.scheduled as f64).max(1.0)).min(1.0)
    }

    /// True if fewer ended than were scheduled by more than half of the precision and `deviations`
    /// standard deviations: how many are under way differs as a sum of so many random steps does,
    /// at the most.
    pub(in crate::studies::capacity) fn falls_behind(
        self,
        precision: f64,
        deviations: f64,
    ) -> bool {
        let scheduled = self.scheduled as f64;
        let behind = scheduled - self.answered as f64;
        behind > scheduled * precision / 2.0 + deviations * scheduled.sqrt()
    }
}

/// Requests that neither were refused nor failed after the second in which the target began to
/// refuse or fail some, and how long that was.
pub(super) struct LetThrough {
    requests: f64,
    seconds: f64,
}

impl LetThrough {
    pub(super) fn of(report: &Report, pace: Pace) -> Option<Self> {
        // The last request is due a little before the end.
        let ends = report.totals.duration_s.min(planned_s(report)) + END_S;
        let begins = first_refused(report)?.start_s;
        // The last second is often not whole. It is as long as its requests were due in, if they
        // were due evenly and all were sent.
        let dropped = report
            .schedule
            .as_ref()
            .map_or(0, |schedule| schedule.dropped);
        let is_even = report.plan.run.arrivals == Arrivals::Constant
            && report.stopped_by.is_none()
            && dropped == 0;
        let (mut requests, mut seconds) = (0, 0.0);
        for row in report.intervals.iter().filter(|row| row.start_s > begins) {
            let counted = AttemptCounts::of([row].into_iter());
            if row.start_s as f64 + 1.0 <= ends {
                seconds += 1.0;
            } else if is_even {
                seconds += (counted.attempts.saturating_sub(counted.cut_off)) as f64 / pace.per_s();
            } else {
                break;
            }
            requests += counted.good + counted.not_found;
        }
        (seconds > 0.0).then_some(Self {
            requests: requests as f64,
            seconds,
        })
    }

    pub(super) fn per_s(&self) -> f64 {
        self.requests / self.seconds
    }

    pub(super) fn least_per_s(&self) -> f64 {
        (self.requests - 1.0).max(0.0) / self.seconds
    }
}

/// A share after the warm-up, over all of the probe or over its later half, where it is greater: a
/// target with credit to spend refuses late.
pub(super) fn worse_share(report: &Report, share: fn(&AttemptCounts) -> f64) -> Measured {
    let rows: Vec<&IntervalRow> = measured_rows(report).collect();
    let all = AttemptCounts::of(rows.iter().copied());
    if all.attempts == 0 {
        return Measured::Unknown("nothing was attempted after the warm-up".to_owned());
    }
    let later = AttemptCounts::of(rows.iter().copied().skip(rows.len() / 2));
    let later = if later.attempts >= ENOUGH {
        share(&later)
    } else {
        0.0
    };
    Measured::Exactly(share(&all).max(later))
}

/// The seconds after the warm-up; of a probe that has none, all.
pub(super) fn measured_rows(report: &Report) -> impl Iterator<Item = &IntervalRow> {
    let warmup_s = report.plan.run.warmup.as_secs_f64();
    let is_after = move |row: &&IntervalRow| row.start_s as f64 >= warmup_s;
    let none = !report
        .intervals
        .iter()
        .any(|row| is_after(&row) && row.attempts > 0);
    report
        .intervals
        .iter()
        .filter(move |row| none || is_after(row))
}

/// First second in which the target refused or failed a request.
fn first_refused(report: &Report) -> Option<&IntervalRow> {
    report
        .intervals
        .iter()
        .find(|row| AttemptCounts::of([*row].into_iter()).refused() > 0)
}

/// See [`ProbeReport::refused_by_s`](super::ProbeReport::refused_by_s).
pub(super) fn refused_by_s(report: &Report) -> Option<f64> {
    Some((first_refused(report)?.start_s as f64 + 1.0).min(planned_s(report)))
}

/// See [`ProbeReport::later_flow`](super::ProbeReport::later_flow).
pub(super) fn later_flow(report: &Report) -> Option<Flow> {
    let whole = whole_seconds(measured_rows(report), report);
    let later = whole
        .get(whole.len() / 2..)
        .filter(|_| whole.len() >= LEAST_SECONDS)?;
    Flow::of(later)
}

/// The seconds of these that the timetable lasted.
pub(super) fn whole_seconds<'a>(
    rows: impl Iterator<Item = &'a IntervalRow>,
    report: &Report,
) -> Vec<&'a IntervalRow> {
    rows.filter(|row| row.start_s as f64 + 1.0 <= planned_s(report))
        .collect()
}

/// The planned length of a probe, s.
fn planned_s(report: &Report) -> f64 {
    report
        .plan
        .run
        .duration
        .map_or(f64::INFINITY, |duration| duration.as_secs_f64())
}
