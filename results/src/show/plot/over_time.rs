//! Charts over time: the table of what each of them shows, and what all of them have.
//!
//! A new value per second is a line of [`CHARTS`] here.

use super::answers::{self, Answer};
use super::seconds::{Gather, Seconds, TimeAxis};
use crate::judge::Stalls;
use crate::run::report::{IntervalRow, Report, Split, TargetSecond, thresholds};
use crate::show::chart::{Axis, Chart, Dash, Format, Mark, Panel, Range, Role, Shape, Step};

/// The most lines and bands of a kind of event that are drawn: more would hide the others.
const MOST_EVENTS: usize = 100;

/// Time that a run may lack of its last second, s: the last answers may end before the time is
/// over.
const LAST_S: f64 = 0.01;

/// A chart over time.
pub(super) struct OverTime {
    pub(super) name: &'static str,
    title: &'static str,
    answer: Answer,
    fields: &'static [Field],
}

/// A field of such a chart.
struct Field {
    unit: &'static str,
    range: Range,
    format: Format,
    height: f64,
    /// Starts of the names of the metrics whose thresholds are drawn in it.
    thresholds: &'static [&'static str],
    series: &'static [Series],
}

/// A field of counts.
const COUNTS: Field = Field {
    unit: "per second",
    range: Range::FromZero,
    format: Format::Number,
    height: 180.0,
    thresholds: &[],
    series: &[],
};

/// A value of each second: its name, its meaning, how the seconds of a step are gathered, its shape,
/// and the value, which is none where nothing is known.
type Series = (&'static str, Role, Gather, SeriesShape, Value);

type Value = fn(&Report, &IntervalRow) -> Option<f64>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SeriesShape {
    Line,
    /// An area on top of that of the series before it.
    Area,
}

use Gather::{Mean, Most, Rate};
use SeriesShape::{Area, Line};

/// A series of a count of each second.
macro_rules! count {
    ($name:literal, $role:ident, $shape:ident, $field:ident) => {
        ($name, Role::$role, Rate, $shape, |_, row| {
            Some(row.$field as f64)
        })
    };
}

/// A series of the part of the time that a limit held; none of a second in which no shard lived.
macro_rules! held {
    ($name:literal, $role:ident, $field:ident) => {
        ($name, Role::$role, Mean, Area, |_, row| {
            let is_known = row.binding.parts().iter().any(|part| *part > 0.0);
            is_known.then_some(row.binding.$field)
        })
    };
}

/// A series of a part of the mean response time, by its place in [`Split::PARTS`].
macro_rules! spent {
    ($part:literal, $role:expr) => {
        (Split::PARTS[$part].0, $role, Mean, Area, |_, row| {
            Split::PARTS[$part].1(row.split.as_ref()?)
        })
    };
}

/// A series of the target's processes.
macro_rules! target {
    ($name:literal, $role:ident, $gather:ident, $shape:ident, $value:expr) => {
        ($name, Role::$role, $gather, $shape, |_, row| {
            $value(row.target.as_ref()?)
        })
    };
}

/// Every chart over time. A series without a value above 0 is left out, and so is a field without a
/// series.
pub(super) static CHARTS: [OverTime; 6] = [
    OverTime {
        name: "throughput",
        title: "Throughput",
        answer: answers::throughput,
        fields: &[Field {
            unit: "requests per second",
            height: 220.0,
            thresholds: &["rate", "attempts_rate"],
            series: &[
                count!("good", Good, Area, ok),
                count!("not found", NotFound, Area, not_found),
                count!("throttled", Throttled, Area, throttled),
                ("failed", Role::Failed, Rate, Area, failed),
                count!("cut off at the end", CutOff, Area, aborted),
                ("scheduled", Role::Asked, Rate, Line, scheduled),
                ("requested", Role::Asked, Rate, Line, requested),
            ],
            ..COUNTS
        }],
    },
    OverTime {
        name: "latency",
        title: "Latency over time",
        answer: answers::latency,
        fields: &[Field {
            unit: "time of responses (log scale)",
            range: Range::Log,
            format: Format::Micros,
            height: 220.0,
            thresholds: &["response", "service"],
            series: &[
                ("maximum", Role::Max, Most, Line, |_, row| row.max_us),
                ("p99", Role::P99, Most, Line, |_, row| {
                    row.response_p99_us.or(row.p99_us)
                }),
                ("p90", Role::P90, Most, Line, |_, row| {
                    row.response_p90_us.or(row.p90_us)
                }),
                ("p50", Role::P50, Most, Line, |_, row| {
                    row.response_p50_us.or(row.p50_us)
                }),
                (
                    "p99 of the service time",
                    Role::Reference,
                    Most,
                    Line,
                    |_, row| row.response_p99_us.and(row.p99_us),
                ),
            ],
        }],
    },
    OverTime {
        name: "split",
        title: "Where a request's time goes",
        answer: answers::split,
        fields: &[
            Field {
                unit: "mean response time, by its parts",
                format: Format::Micros,
                height: 220.0,
                series: &[
                    spent!(0, Role::ClientQueue),
                    spent!(1, Role::Network),
                    spent!(2, Role::Target),
                    spent!(3, Role::AtRest),
                    spent!(4, Role::AtWork),
                    spent!(5, Role::NotFound),
                    spent!(6, Role::ReadLate),
                ],
                ..COUNTS
            },
            Field {
                unit: "CPUs that the target uses",
                height: 64.0,
                series: &[target!("CPUs in use", Good, Rate, Area, cpus)],
                ..COUNTS
            },
            Field {
                unit: "share of the time for which the target's threads had work for a CPU",
                range: Range::Between(0.0, 1.0),
                format: Format::Percent,
                height: 64.0,
                series: &[
                    target!("waited for a CPU", Limit, Mean, Line, waited),
                    target!("throttled by its CPU quota", Failed, Mean, Line, throttled),
                ],
                ..COUNTS
            },
        ],
    },
    OverTime {
        name: "in-flight",
        title: "Requests in flight, and their limit",
        answer: answers::in_flight,
        fields: &[
            Field {
                unit: "requests in flight",
                height: 150.0,
                series: &[
                    ("connection limit", Role::Asked, Mean, Line, |report, _| {
                        Some(f64::from(report.plan.run.in_flight()))
                    }),
                    ("learned limit", Role::Limit, Most, Line, |_, row| {
                        row.limit.map(f64::from)
                    }),
                    ("peak, at any moment", Role::Max, Most, Line, |report, _| {
                        Some(report.totals.peak_in_flight as f64)
                    }),
                    ("at the end of each second", Role::Good, Most, Line, at_end),
                ],
                ..COUNTS
            },
            Field {
                unit: "limited by, share of the time",
                range: Range::Between(0.0, 1.0),
                format: Format::Percent,
                height: 64.0,
                series: &[
                    held!("requested rate", Asked, rate),
                    held!("connections", Connections, concurrency),
                    held!("throttling", Throttled, pause),
                    held!("target's rate limit", Quota, target),
                    held!("storing results", Storage, storage),
                    held!("idle", Idle, idle),
                ],
                ..COUNTS
            },
        ],
    },
    OverTime {
        name: "errors",
        title: "Errors and retries",
        answer: answers::errors,
        fields: &[Field {
            series: &[
                count!("retries", Retried, Line, retries),
                count!("throttled", Throttled, Line, throttled),
                ("failed", Role::Failed, Rate, Line, failed),
                count!("challenged", Challenged, Line, soft_blocked),
                count!("items failed", Reference, Line, failed),
                count!("cut off at the end", CutOff, Line, aborted),
            ],
            ..COUNTS
        }],
    },
    OverTime {
        name: "connections",
        title: "Connections opened",
        answer: answers::connections,
        fields: &[Field {
            unit: "connections opened per second",
            height: 140.0,
            series: &[count!("opened", Good, Line, connections_opened)],
            ..COUNTS
        }],
    },
];

/// Requests of a second that were neither good, nor not found, nor throttled, nor cut off.
#[expect(clippy::unnecessary_wraps, reason = "a value of the table")]
fn failed(_: &Report, row: &IntervalRow) -> Option<f64> {
    let others = row.ok + row.not_found + row.throttled + row.aborted;
    Some(row.attempts.saturating_sub(others) as f64)
}

/// CPU time of the target, s.
fn cpus(target: &TargetSecond) -> Option<f64> {
    Some(target.cpu_us? / 1e6)
}

/// Part of the time with work for a CPU in which the target's threads had none.
fn waited(target: &TargetSecond) -> Option<f64> {
    let ready_us = target.cpu_us? + target.run_delay_us?;
    (ready_us > 0.0).then(|| target.run_delay_us.unwrap_or(0.0) / ready_us)
}

/// Part of it in which the CPU quota stopped them: at most the part in which they waited, as that
/// is a sum over threads, and this one over CPUs.
fn throttled(target: &TargetSecond) -> Option<f64> {
    let ready_us = target.cpu_us? + target.run_delay_us?;
    let throttled_us = target.throttled_us?.min(target.run_delay_us?);
    (ready_us > 0.0).then(|| throttled_us / ready_us)
}

/// Requests that an open loop scheduled.
fn scheduled(report: &Report, row: &IntervalRow) -> Option<f64> {
    report.schedule.as_ref()?;
    row.scheduled.map(|n| n as f64)
}

/// Requests that a budget offered: nothing once the time is over, however long the last answers
/// take.
fn requested(report: &Report, row: &IntervalRow) -> Option<f64> {
    let is_offered = report
        .plan
        .run
        .duration
        .map(|d| d.as_secs_f64())
        .is_none_or(|over_s| (row.start_s as f64) < over_s);
    row.offered
        .filter(|_| is_offered && report.schedule.is_none())
}

/// Requests in flight at the end of a second that the run saw to its end.
fn at_end(report: &Report, row: &IntervalRow) -> Option<f64> {
    let is_whole = (row.start_s + 1) as f64 <= report.totals.duration_s + LAST_S;
    is_whole.then(|| f64::from(row.in_flight))
}

impl OverTime {
    /// The row of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        CHARTS.iter().find(|chart| chart.name == name)
    }

    /// None without a field that has a value.
    pub(super) fn chart(&self, report: &Report) -> Option<Chart> {
        let axis = TimeAxis::of([report]);
        let seconds = &Seconds::of(report, axis);
        let drawn = Drawn { report, seconds };
        let panels: Vec<Panel> = self
            .fields
            .iter()
            .filter_map(|field| drawn.panel(field))
            .collect();
        (!panels.is_empty()).then(|| {
            let panels = Panel::below_each_other(panels);
            let mut chart = answers::chart([self.name, self.title], self.answer, report, panels);
            if let Some(s) = seconds.step_s() {
                chart.subtitle.extend([format!(" · steps of {s} s")]);
            }
            chart
        })
    }
}

/// A run as it is drawn.
struct Drawn<'a> {
    report: &'a Report,
    seconds: &'a Seconds<'a>,
}

impl Drawn<'_> {
    /// Draw a field; none without a series above 0.
    fn panel(&self, field: &Field) -> Option<Panel> {
        let (mut areas, mut lines) = (Vec::new(), Vec::new());
        let mut tops: Vec<f64> = Vec::new();
        for (name, role, gather, shape, value) in field.series {
            let value = |row: &IntervalRow| value(self.report, row);
            let mut steps = self.seconds.steps(*gather, value);
            if *shape == Area {
                stack(&mut steps, &mut tops);
                areas.push(Mark::new(*role, *name, Shape::Areas(steps)));
                continue;
            }
            let mut line = Mark::new(*role, *name, Shape::Steps(steps));
            // A line with gaps, over others that it often equals.
            if *role == Role::Reference {
                line.dash = Dash::Dashed;
            }
            lines.push(line);
        }
        areas.retain(Mark::is_above_zero);
        lines.retain(Mark::is_above_zero);
        if areas.is_empty() && lines.is_empty() {
            return None;
        }
        // Events are not hidden by areas, and hide no line.
        let marks = areas
            .into_iter()
            .chain(self.events())
            .chain(lines)
            .chain(self.thresholds(field));
        Some(Panel {
            x: self.seconds.axis.axis(),
            y: Axis::new(field.unit, field.range.clone(), field.format),
            height: field.height,
            marks: marks.collect(),
            cells: Vec::new(),
        })
    }

    fn place(&self, s: f64) -> f64 {
        self.seconds.axis.at(s.min(self.seconds.end_s))
    }

    /// Bands: the warm-up, throttle pauses and stalls; lines: lost shards and an early end.
    fn events(&self) -> Vec<Mark> {
        let report = self.report;
        let mut pauses: Vec<(f64, f64)> = Vec::new();
        for row in report
            .intervals
            .iter()
            .filter(|row| row.binding.pause >= thresholds::PAUSED)
        {
            let (from_s, to_s) = (row.start_s as f64, row.start_s as f64 + 1.0);
            match pauses.last_mut() {
                Some(last) if last.1 >= from_s => last.1 = to_s,
                _ => pauses.push((from_s, to_s)),
            }
        }
        let stalls = Stalls::of(report);
        let stalls = stalls.each().iter().map(|it| (it.from_s, it.to_s));
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        let warmup = (warmup_s > 0.0).then_some((0.0, warmup_s));
        let mut marks = Vec::new();
        for (role, legend, spans) in [
            (Role::Shade, "warm-up", Vec::from_iter(warmup)),
            (Role::Paused, "throttle pause", pauses),
            (Role::Highlight, "stall", stalls.collect()),
        ] {
            for (from_s, to_s) in spans.into_iter().take(MOST_EVENTS) {
                let band = Shape::Band(self.place(from_s), self.place(to_s));
                marks.push(Mark::new(role, legend, band));
            }
        }
        let lost = report
            .shards
            .iter()
            .filter(|one| one.fault.is_some())
            .take(MOST_EVENTS)
            .map(|shard| {
                let legend = format!("shard {} lost", shard.shard);
                (legend, shard.totals.duration_s)
            });
        let by = report.stopped_by.as_ref().map(|by| format!(" by {by}"));
        let stopped = format!("stopped{}", by.unwrap_or_default());
        let stopped = report.interrupted.then_some((stopped, self.seconds.end_s));
        for (legend, at_s) in lost.chain(stopped) {
            let line = Shape::Upright(self.place(at_s));
            marks.push(Mark::new(Role::Failed, legend, line).dashed(Dash::Short));
        }
        marks
    }

    /// A line across the field for each threshold of its metric.
    fn thresholds(&self, field: &Field) -> Vec<Mark> {
        let mut lines = Vec::new();
        for gate in &self.report.gates {
            let mut drawn = field.thresholds.iter();
            if drawn.any(|it| gate.metric.starts_with(it)) && gate.limit > 0.0 {
                let role = match gate.ok {
                    Some(false) => Role::Failed,
                    _ => Role::Reference,
                };
                let legend = format!("threshold {}", gate.expression);
                lines.push(Mark::new(role, legend, Shape::Across(gate.limit)).dashed(Dash::Short));
            }
        }
        lines
    }
}

/// Put steps on top of those before them.
fn stack(steps: &mut [Step], tops: &mut Vec<f64>) {
    tops.resize(steps.len(), 0.0);
    for (step, top) in steps.iter_mut().zip(tops) {
        step.base = *top;
        *top += step.value.unwrap_or(0.0);
    }
}
