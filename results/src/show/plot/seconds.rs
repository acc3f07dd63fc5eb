//! The run's seconds, or tenths of a second, as the plots need them: no more of them than there is
//! room for.

use std::borrow::Cow;

use super::events::events;
use crate::run::report::{BinRow, IntervalRow, Report};
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, Format, Mark, Panel, Range, Role, Shape, Step};
use crawlmark_harness::stats::Bins;

/// The most steps that a line of a picture has: four pixels each or more, and an hour in steps of
/// 30 s.
pub(super) const PICTURE: u64 = 120;

/// The most steps of a line on a page, where a reader can zoom: the seconds of an hour.
pub(super) const PAGE: u64 = 3_600;

/// A step of which less than this was part of the run has no value: a single attempt would be a
/// peak, and nothing is in flight at the end.
pub(super) const LEAST_S: f64 = 0.2;

/// Part of a tick that is rounding: 28 tenths of a second are no part of a 29th.
const ROUNDING: f64 = 1e-6;

/// The least requests in a tenth of a second, on average over a run, for lines of tenths: fewer are
/// noise.
const LEAST_PER_BIN: f64 = 10.0;

/// The rows of a run with their places, in order.
type Rows<'a> = [(u64, Cow<'a, IntervalRow>)];

/// The seconds of a run or their tenths, gathered into steps.
pub(super) struct Seconds<'a> {
    /// By the number of ticks before each.
    rows: Vec<(u64, Cow<'a, IntervalRow>)>,
    /// Ticks in a second: 1, or as many as there are bins.
    per_s: u64,
    /// When the run ended, since its start; above 0.
    pub(super) end_s: f64,
    /// Ticks in a step.
    pub(super) width: u64,
    /// Time left out of the run's figures at its start, s; in plots over time it is shaded.
    warmup_s: f64,
    /// Seconds in the unit of the time axis, and its name.
    unit: (f64, &'static str),
    /// Events on the time axis.
    events: Vec<Mark>,
}

/// The rows of a step.
pub(super) struct Gathered<'a> {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Ticks in it.
    ticks: u64,
    rows: &'a Rows<'a>,
}

impl Gathered<'_> {
    /// Its rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &IntervalRow> {
        self.rows.iter().map(|(_, row)| &**row)
    }
}

impl<'a> Seconds<'a> {
    /// Gather the seconds into at most `most` steps.
    pub(super) fn of(report: &'a Report, most: u64) -> Self {
        let rows = &report.intervals;
        // Shards that wait report seconds after the last attempt; of one that died, the last
        // attempt may be unknown.
        let last_s = rows
            .iter()
            .rev()
            .find(|row| row.attempts > 0)
            .map_or(0.0, |row| row.start_s as f64);
        let known_s = if report.totals.duration_s.is_finite() {
            report.totals.duration_s
        } else {
            0.0
        };
        let end_s = if known_s > last_s {
            known_s
        } else {
            last_s + 1.0
        };
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        let unit = match end_s {
            s if s <= 300.0 => (1.0, "seconds"),
            s if s <= 18_000.0 => (60.0, "minutes"),
            _ => (3_600.0, "hours"),
        };
        let events = events(report, end_s, |s| s / unit.0);
        let rows = rows
            .iter()
            .map(|row| (row.start_s, Cow::Borrowed(row)))
            .collect();
        Self {
            rows,
            per_s: 1,
            end_s,
            warmup_s,
            unit,
            events,
            width: whole(end_s).div_ceil(most).max(1),
        }
    }

    /// All rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &IntervalRow> {
        self.rows.iter().map(|(_, row)| &**row)
    }

    /// Gather the tenths of a second of a short run into at most `most` steps; its seconds if it
    /// has few requests.
    pub(super) fn finest(report: &'a Report, most: u64) -> Self {
        let seconds = Self::of(report, most);
        let per_s = Bins::COUNT as u64;
        let attempts = report.intervals.iter().map(|row| row.attempts).sum::<u64>() as f64;
        let is_binned = report
            .intervals
            .iter()
            .all(|row| row.bins.is_some() || row.attempts == 0);
        if !is_binned || attempts < LEAST_PER_BIN * seconds.end_s * per_s as f64 {
            return seconds;
        }
        let binned = report
            .intervals
            .iter()
            .filter_map(|row| Some((row.start_s, row.bins.as_ref()?)));
        let rows = binned.flat_map(|(start_s, bins)| {
            (start_s * per_s..).zip(bins.iter().map(|bin| Cow::Owned(tenth(bin))))
        });
        let ticks = whole(seconds.end_s * per_s as f64);
        Self {
            rows: rows.collect(),
            per_s,
            width: ticks.div_ceil(most).max(1),
            ..seconds
        }
    }

    /// Note on lines of `seconds` beside lines of these steps; none if both are seconds.
    pub(super) const fn unlike(&self, seconds: &Self) -> &'static str {
        if self.per_s == seconds.per_s {
            ""
        } else {
            " of each second"
        }
    }

    /// Gather the seconds of several runs into steps of one width, at most `most` of the longest
    /// run.
    pub(super) fn all(reports: &[&'a Report], most: u64) -> Vec<Self> {
        Self::alike(
            reports
                .iter()
                .map(|report| Self::of(report, most))
                .collect(),
        )
    }

    /// Gather the tenths of a second of several short runs in the same way; their seconds if one of
    /// them has none, or few requests.
    pub(super) fn all_finest(reports: &[&'a Report], most: u64) -> Vec<Self> {
        let finest: Vec<Self> = reports
            .iter()
            .map(|report| Self::finest(report, most))
            .collect();
        if finest.iter().any(|one| one.per_s == 1) {
            Self::all(reports, most)
        } else {
            Self::alike(finest)
        }
    }

    /// In the steps and the unit of the longest run.
    fn alike(all: Vec<Self>) -> Vec<Self> {
        let longest = all
            .iter()
            .max_by(|a, b| a.end_s.total_cmp(&b.end_s))
            .map(|longest| (longest.width, longest.unit));
        let steps = longest.unwrap_or((1, (1.0, "seconds")));
        all.into_iter()
            .map(|one| Self {
                width: steps.0,
                unit: steps.1,
                ..one
            })
            .collect()
    }

    /// One value for each step, of the rows in it and the time that it took.
    fn steps(&self, value: impl Fn(&Gathered<'_>, f64) -> Option<f64>) -> Vec<Step> {
        let tick_s = 1.0 / self.per_s as f64;
        let step = |gathered: Gathered<'_>| {
            let Gathered {
                from_s,
                to_s,
                ticks,
                rows,
            } = gathered;
            // Ticks without a report are no part of a rate.
            let known_s = to_s - from_s - ticks.saturating_sub(rows.len() as u64) as f64 * tick_s;
            let enough = !rows.is_empty() && known_s >= LEAST_S.min(tick_s / 2.0).min(self.end_s);
            let value = if enough {
                value(&gathered, known_s)
            } else {
                None
            };
            Step {
                from: self.at(from_s),
                to: self.at(to_s),
                value: value.filter(|v| v.is_finite()),
            }
        };
        self.gathered().into_iter().map(step).collect()
    }

    /// The rows of each step.
    pub(super) fn gathered(&self) -> Vec<Gathered<'_>> {
        let (mut rest, mut out) = (&self.rows[..], Vec::new());
        let per_s = self.per_s as f64;
        let (mut from, end) = (0, whole(self.end_s * per_s));
        while from < end {
            let to = (from + self.width).min(end);
            let count = rest.iter().take_while(|(at, _)| *at < to).count();
            let (rows, later) = rest.split_at(count);
            rest = later;
            let [from_s, to_s] = [from, to].map(|tick| (tick as f64 / per_s).min(self.end_s));
            out.push(Gathered {
                from_s,
                to_s,
                ticks: to - from,
                rows,
            });
            from = to;
        }
        out
    }

    /// Return the counts per second, by step.
    pub(super) fn rates(&self, count: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|step, time_s| {
            let counts: Vec<f64> = step.rows().filter_map(&count).collect();
            // A step may hold seconds that have no such count: after the last offer, for one.
            let time_s = time_s * counts.len() as f64 / step.rows.len() as f64;
            (!counts.is_empty()).then(|| counts.iter().sum::<f64>() / time_s)
        })
    }

    /// The greatest of each step.
    pub(super) fn greatest(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|step, _| step.rows().filter_map(&value).reduce(f64::max))
    }

    /// The mean over the seconds of each step.
    pub(super) fn means(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|step, _| {
            let values: Vec<f64> = step.rows().filter_map(&value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
    }

    /// Place of a moment on the time axis.
    pub(super) fn at(&self, s: f64) -> f64 {
        s / self.unit.0
    }

    /// Return the time axis; `each` says what a step holds of several seconds.
    pub(super) fn axis(&self, each: &str) -> Axis {
        let unit = self.unit.1;
        let label = if self.width == self.per_s {
            format!("{unit} since start")
        } else {
            let step_s = trimmed(self.width as f64 / self.per_s as f64);
            format!("{unit} since start (each step: {each} of {step_s} s)")
        };
        Axis::new(
            label,
            Range::Between(0.0, self.at(self.end_s)),
            Format::Number,
        )
    }

    /// Return a panel over time, with its warm-up shaded and its events, which areas do not hide.
    pub(super) fn panel(&self, y: Axis, height: f64, marks: Vec<Mark>, each: &str) -> Panel {
        let (areas, others): (Vec<Mark>, Vec<Mark>) = marks
            .into_iter()
            .partition(|mark| matches!(mark.shape, Shape::Areas { .. }));
        let marks = self
            .warmup()
            .into_iter()
            .chain(areas)
            .chain(self.events.clone())
            .chain(others);
        Panel {
            x: self.axis(each),
            y,
            height,
            marks: marks.collect(),
        }
    }

    fn warmup(&self) -> Option<Mark> {
        let shade = || {
            Mark::new(
                Role::Shade,
                "warm-up",
                Shape::Band(0.0, self.at(self.warmup_s.min(self.end_s))),
            )
        };
        (self.warmup_s > 0.0).then(shade)
    }

    /// Name of the time axis's unit.
    pub(super) const fn unit(&self) -> &'static str {
        self.unit.1
    }

    /// True if the run has a warm-up.
    pub(super) fn has_warmup(&self) -> bool {
        self.warmup_s > 0.0
    }

    /// A place on the time axis as people say it: `the start`, `12 s`, `4.5 min`.
    pub(super) fn spoken(&self, at: f64) -> String {
        if at <= 0.0 {
            return "the start".to_owned();
        }
        let unit = match self.unit.1 {
            "seconds" => "s",
            "minutes" => "min",
            _ => "h",
        };
        format!("{} {unit}", trimmed((at * 10.0).round() / 10.0))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time since the start, which is finite"
)]
fn whole(ticks: f64) -> u64 {
    (ticks - ROUNDING).ceil() as u64
}

/// The row of a bin: its counts and times, without what only seconds have.
fn tenth(
    BinRow {
        counts,
        p50_us,
        p90_us,
        p99_us,
        max_us,
    }: &BinRow,
) -> IntervalRow {
    let [p50_us, p90_us, p99_us] = [p50_us, p90_us, p99_us].map(|us| us.map(|us| us as f64));
    let [response_p50_us, response_p90_us, response_p99_us] = [p50_us, p90_us, p99_us];
    let (counts, max_us) = (counts.clone(), *max_us);
    IntervalRow {
        counts,
        p50_us,
        p90_us,
        p99_us,
        response_p50_us,
        response_p90_us,
        response_p99_us,
        max_us,
        ..IntervalRow::default()
    }
}

/// The step with the greatest value above 0, the first one of equals.
pub(super) fn peak(steps: &[Step]) -> Option<(Step, f64)> {
    let values = steps
        .iter()
        .filter_map(|step| Some((*step, step.value?)))
        .filter(|(_, value)| *value > 0.0);
    values.reduce(|a, b| if b.1 > a.1 { b } else { a })
}
