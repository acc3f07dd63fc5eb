//! Stalls of a target: times in which requests were waiting and no answer came, although it answers
//! much faster otherwise.

use super::findings::Finding;
use super::thresholds::{FREEZE_US, PAUSED};
use crate::run::report::{Event, IntervalRow, Report, Spread};
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{STEP, Series};
use crawlmark_harness::units::whole;

/// Least length of a stall, s: a shorter one is not noticed.
const LEAST_S: f64 = 0.1;

/// Factor beyond the time of a fast answer from which on a time without an answer is a stall. The
/// target is just slow otherwise.
const FAR: f64 = 10.0;

/// Part of the answers that are faster than a fast one. In half of the time without an answer, half
/// of an open loop's are slow.
const FAST: f64 = 0.1;

/// Answers that are missing in a stall, at the mean rate: with fewer, chance leaves such gaps, too
/// (one in e^10 of those of Poisson arrivals).
const MISSING: f64 = 10.0;

/// Requests that wait in a stall at least: a single one may just be slow.
const WAITING: u64 = 2;

/// Part of a stall that its requests waited: those of an open loop arrive throughout.
const WAITED: f64 = 0.5;

/// Part of the usual requests in flight whose answers come at once when a stall ends. Answers that
/// are slow one by one end one by one.
const RELEASED: f64 = 0.75;

/// Bins after a stall in which these answers come.
const RELEASE_BINS: usize = 2;

/// Least number of stalls whose period is shown, and the largest relative deviation from it.
const PERIODIC: (usize, f64) = (4, 0.1);

/// Length of a bin, s.
const BIN_S: f64 = STEP.as_millis() as f64 / 1e3;

/// Stalls of a run.
#[derive(Debug)]
pub(crate) struct Stalls {
    /// Begin and end of each are known to half a bin.
    each: Vec<Event>,
    /// Time in which they are looked for, s: without the warm-up.
    of_s: f64,
}

impl Stalls {
    /// Find the stalls of a run. After `--duration`, only the last answers are missing.
    pub(crate) fn of(report: &Report) -> Self {
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        let rows: Vec<_> = report
            .intervals
            .iter()
            .filter(|row| row.start_s as f64 >= warmup_s)
            .collect();
        let end_s = report.due_until_s();
        let of_s = (end_s - rows.first().map_or(0.0, |row| row.start_s as f64)).max(0.0);
        let each = Judge::of(report, &rows, of_s).map_or_else(Vec::new, |judge| {
            rows.chunk_by(|a, b| a.start_s + 1 == b.start_s)
                .flat_map(|rows| gaps(rows, end_s))
                .filter(|gap| judge.is_stall(gap) && !is_of_new_connections(report, &gap.stall))
                .collect()
        });
        Self {
            each: each.into_iter().map(|gap| gap.stall).collect(),
            of_s,
        }
    }

    /// The first of the longest ones.
    fn longest(&self) -> Option<&Event> {
        self.each.iter().rev().max_by(|a, b| {
            (a.length_s() / BIN_S)
                .round()
                .total_cmp(&(b.length_s() / BIN_S).round())
        })
    }

    /// Time from the start of one to that of the next, s, if that is always about the same.
    fn period_s(&self) -> Option<f64> {
        let [first, .., last] = &self.each[..] else {
            return None;
        };
        let (count, deviation) = PERIODIC;
        let mean = (last.from_s - first.from_s) / (self.each.len() - 1) as f64;
        (self.each.len() >= count
            && self.each.windows(2).all(|pair| {
                (pair[1].from_s - pair[0].from_s - mean).abs() <= (mean * deviation).max(BIN_S)
            }))
        .then_some(mean)
    }

    /// The finding on them; none without any.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let longest = self.longest()?;
        Some(Finding::Stalled {
            count: self.each.len(),
            longest_s: longest.length_s(),
            at_s: longest.from_s.max(0.0),
            total_s: self.each.iter().map(Event::length_s).sum(),
            of_s: self.of_s,
            period_s: self.period_s(),
            events: self.each.clone(),
        })
    }
}

/// A time without an answer, and the least number of answers right after it; none at the end of the
/// run.
struct Gap {
    stall: Event,
    released: Option<u64>,
}

/// Times of at least two bins without an answer, in seconds that follow each other.
fn gaps(rows: &[&IntervalRow], end_s: f64) -> Vec<Gap> {
    let Some(start_s) = rows.first().map(|row| row.start_s as f64) else {
        return Vec::new();
    };
    let bins: Vec<u64> = rows
        .iter()
        .map_while(|row| row.answers_in_bins())
        .flatten()
        .enumerate()
        .take_while(|(n, _)| start_s + (*n as f64) * BIN_S < end_s)
        .map(|(_, n)| n)
        .collect();
    let mut at = 0;
    let mut gaps = Vec::new();
    for run in bins.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let (first, next) = (at, at + run.len());
        at = next;
        if run[0] > 0 || run.len() < 2 {
            continue;
        }
        // The answers before and after it are somewhere in their bins.
        let from = if first == 0 { 0.0 } else { first as f64 - 0.5 };
        let is_last = next == bins.len();
        let to_s = if is_last {
            end_s
        } else {
            start_s + (next as f64 + 0.5) * BIN_S
        };
        let stall = Event {
            from_s: start_s + from * BIN_S,
            to_s,
        };
        gaps.push(Gap {
            stall,
            released: (!is_last).then(|| bins[next..].iter().take(RELEASE_BINS).sum()),
        });
    }
    gaps
}

/// Limits for a run.
struct Judge<'a> {
    rows: &'a [&'a IntervalRow],
    least_s: f64,
    /// Answers that come at once when a stall ends.
    released: u64,
    timeout_s: f64,
}

impl<'a> Judge<'a> {
    /// None without a good answer.
    fn of(report: &Report, rows: &'a [&'a IntervalRow], of_s: f64) -> Option<Self> {
        let answered: u64 = rows
            .iter()
            .map(|row| row.attempts.saturating_sub(row.aborted))
            .sum();
        let own_s = own_pauses_s(report);
        let least_s = [
            LEAST_S,
            FAR * fast_s(rows)?,
            MISSING * of_s / answered.max(1) as f64,
            own_s,
        ];
        let mut in_flight: Vec<u32> = rows.iter().map(|row| row.in_flight).collect();
        in_flight.sort_unstable();
        let usual = f64::from(*in_flight.get(in_flight.len() / 4)?);
        Some(Self {
            rows,
            least_s: least_s.into_iter().fold(0.0, f64::max),
            released: whole(usual * RELEASED).max(WAITING),
            timeout_s: report.plan.run.timeout.as_secs_f64(),
        })
    }

    fn is_stall(&self, Gap { stall, released }: &Gap) -> bool {
        let length_s = stall.length_s();
        if length_s < self.least_s || released.is_some_and(|released| released < self.released) {
            return false;
        }
        // Requests of the second before, which end in it.
        let rows: Vec<&IntervalRow> = self
            .rows
            .iter()
            .filter(|row| {
                (row.start_s as f64) < stall.to_s
                    && row.start_s as f64 + INTERVAL.as_secs_f64() > stall.from_s - BIN_S
            })
            .copied()
            .collect();
        let paused_s: f64 = rows
            .iter()
            .map(|row| row.binding.pause + row.binding.target)
            .sum();
        let waited_us = (length_s * WAITED).min(self.timeout_s) * 1e6;
        let waiting: u64 = rows.iter().map(|row| slow(row, waited_us)).sum();
        waiting >= WAITING && paused_s < length_s * PAUSED
    }
}

/// Requests of a second that took `least_us` or longer, or were cut off at that age.
fn slow(row: &IntervalRow, least_us: f64) -> u64 {
    let slow: u64 = row
        .spread
        .iter()
        .flat_map(|Spread { first, counts }| (*first..).zip(counts))
        .filter(|(cell, _)| Spread::starts_us(cell + 1) > least_us)
        .map(|(_, count)| count)
        .sum();
    let has_slow_ones = row.max_us.is_some_and(|us| us >= least_us * 0.99);
    slow + if has_slow_ones {
        row.scheduled_failed.unwrap_or(0) + row.aborted
    } else {
        0
    }
}

/// Least time of a fast answer, s.
fn fast_s(rows: &[&IntervalRow]) -> Option<f64> {
    let mut cells: Vec<(u32, u64)> = rows
        .iter()
        .flat_map(|row| &row.spread)
        .flat_map(|spread| (spread.first..).zip(spread.counts.iter().copied()))
        .collect();
    cells.sort_unstable();
    let rank = cells.iter().map(|(_, count)| count).sum::<u64>() as f64 * FAST;
    let mut below = 0;
    cells
        .into_iter()
        .find(|(_, count)| {
            below += count;
            below > 0 && below as f64 >= rank
        })
        .map(|(cell, _)| Spread::starts_us(cell) / 1e6)
}

/// True if connections are kept, and those of the slowest requests that took as long as this were
/// the first of theirs: a new connection takes that time.
fn is_of_new_connections(report: &Report, stall: &Event) -> bool {
    let least_us = stall.length_s() * WAITED * 1e6;
    let mut held = report
        .slowest
        .iter()
        .filter(|row| row.response_us >= least_us)
        .peekable();
    report.keeps_connections()
        && held.peek().is_some()
        && held.all(|row| row.nth_on_connection == Some(1))
}

/// The longest time in which this client itself did not run, s: answers that came meanwhile were
/// read late.
fn own_pauses_s(report: &Report) -> f64 {
    let longest_us = report
        .shards
        .iter()
        .filter_map(|shard| shard.latency.get(Series::LoopLag.name())?.max_us)
        .filter(|us| *us >= FREEZE_US)
        .fold(0.0, f64::max);
    let paused_s = report.suspended_s.max(longest_us / 1e6);
    // Its bins, and what was in flight before it.
    if paused_s > 0.0 {
        paused_s + LEAST_S
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report::SlowRow;

    #[test]
    fn only_a_time_in_which_all_slow_requests_were_the_first_of_kept_connections_is_theirs() {
        let text = include_str!("../../example/result.json");
        let mut report: Report = serde_json::from_str(text).unwrap();
        (report.totals.attempts, report.totals.connections_opened) = (1_000, 8);
        let stall = Event {
            from_s: 2.0,
            to_s: 2.3,
        };
        let like = report.slowest[0].clone();
        let row = |response_us, nth| SlowRow {
            response_us,
            nth_on_connection: nth,
            ..like.clone()
        };
        let (long, short) = (300_000.0, 100_000.0);
        let cases = [
            (vec![], false),
            (vec![row(short, Some(1))], false),
            (vec![row(long, Some(1)), row(short, Some(9))], true),
            (vec![row(long, Some(1)), row(long, Some(9))], false),
            (vec![row(long, None)], false),
        ];
        for (slowest, is_theirs) in cases {
            report.slowest = slowest;
            assert_eq!(is_of_new_connections(&report, &stall), is_theirs);
        }
        report.slowest = vec![row(long, Some(1))];
        report.totals.connections_opened = 1_000;
        assert!(!is_of_new_connections(&report, &stall));
    }
}
