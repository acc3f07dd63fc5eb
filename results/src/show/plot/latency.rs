//! Percentiles of the latency over time.

use std::fmt::Write;

use super::events::{limits, told};
use super::seconds::{Seconds, peak};
use crate::run::gates::Quantile;
use crate::run::report::{IntervalRow, Latency, Report};
use crate::run::words::population;
use crate::show::chart::{Axis, Chart, Dash, Format, Mark, Range, Role, Shape, Step};
use crawlmark_harness::stats::SAMPLES_BEYOND;
use crawlmark_harness::units::{grouped, micros};

/// A percentile of a second.
type PercentileColumn = fn(&IntervalRow) -> Option<f64>;

/// The percentile that stands for the slow answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    P99,
    /// 90th percentile, for runs in which hardly a second has the thousand requests that a 99th
    /// takes.
    P90,
}

/// None without a percentile of any second.
pub(super) fn chart(report: &Report, most_steps: u64) -> Option<Chart> {
    let seconds = Seconds::of(report, most_steps);
    let tail = Tail::of(report);
    let [service, response] = tail.columns();
    let (p, role) = (tail.name(), tail.role());
    let is_open = report.schedule.is_some();
    let (what, column, median): (&str, PercentileColumn, PercentileColumn) = if is_open {
        ("response", response, |row| row.response_p50_us)
    } else {
        ("service", service, |row| row.p50_us)
    };
    let [tails, medians] = [column, median].map(|column| seconds.greatest(column));
    let undrawn = undrawn(report, [(column, tail.name()), (median, "p50")], &seconds);
    let caption = caption(
        report,
        (what, tail, [column, median]),
        [&tails, &medians],
        &seconds,
    ) + &undrawn;
    let bins = Seconds::finest(report, most_steps);
    let slowest = bins.greatest(|row| row.max_us);
    let known = |steps: &[Step]| steps.iter().filter(|step| step.value.is_some()).count();
    let each = bins.unlike(&seconds);
    // A percentile is of tenths of a second where most of them have enough requests.
    let finest = |column, seconds| {
        let steps = bins.greatest(column);
        if 2 * known(&steps) >= known(&slowest) {
            (steps, "")
        } else {
            (seconds, each)
        }
    };
    let [(tails, each_tail), (medians, each_median)] =
        [finest(column, tails), finest(median, medians)];
    let line = |role, legend: String, steps| Mark::new(role, legend, Shape::Steps(steps));
    let mut marks = vec![
        line(Role::Max, format!("{what}, maximum"), slowest),
        line(role, format!("{what}, {p}{each_tail}"), tails),
        line(Role::P50, format!("{what}, p50{each_median}"), medians).dashed(Dash::Solid),
    ];
    if is_open {
        // Often the same: what is broken lies on top, so that both are seen.
        marks.push(
            line(
                Role::Reference,
                format!("service, {p}{each}"),
                seconds.greatest(service),
            )
            .dashed(Dash::Dashed),
        );
    }
    marks.retain(Mark::is_known);
    marks.extend(limits(report, "us", what));
    let has_percentile = marks
        .iter()
        .any(|mark| [Role::P50, Role::P90, Role::P99].contains(&mark.role));
    let axis = Axis::new("time (log scale)", Range::Log, Format::Micros);
    let panels = vec![bins.panel(axis, 220.0, marks, "slowest")];
    has_percentile.then_some(Chart {
        name: "latency",
        title: "Latency over time",
        caption,
        panels,
    })
}

impl Tail {
    pub(super) fn of(report: &Report) -> Self {
        let with = |column: PercentileColumn| {
            report
                .intervals
                .iter()
                .filter(|row| column(row).is_some())
                .count()
        };
        if 2 * with(|row| row.p99_us) >= with(|row| row.p90_us) {
            Self::P99
        } else {
            Self::P90
        }
    }

    /// The percentile of the service time, and of the response time.
    pub(super) const fn columns(self) -> [PercentileColumn; 2] {
        match self {
            Self::P99 => [|row| row.p99_us, |row| row.response_p99_us],
            Self::P90 => [|row| row.p90_us, |row| row.response_p90_us],
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::P99 => "p99",
            Self::P90 => "p90",
        }
    }

    const fn role(self) -> Role {
        match self {
            Self::P99 => Role::P99,
            Self::P90 => Role::P90,
        }
    }
}

/// Part of the requests without a response from which on the lines say little about the target.
const CUT: f64 = 0.05;

fn caption(
    report: &Report,
    (what, tail, columns): (&str, Tail, [PercentileColumn; 2]),
    [tails, medians]: [&[Step]; 2],
    seconds: &Seconds<'_>,
) -> String {
    let Some(latency) = report
        .latency(report.main_series())
        .filter(|latency| latency.count > 0)
    else {
        return "No request succeeded.".to_owned();
    };
    let slowest = |name: &str, step: Step, us| {
        let too_few = slower_of_few(us, tail, columns, seconds);
        let (at, us) = (seconds.spoken(step.from), micros(us));
        match &too_few {
            Some(first) => {
                format!("{first}; of the other seconds, the slowest ({at}) had a {name} of {us}")
            }
            None => format!(". The slowest second ({at}) had a {name} of {us}"),
        }
    };
    let worst = match (peak(tails), peak(medians)) {
        (Some((step, us)), _) => slowest(tail.name(), step, us),
        (None, Some((step, us))) => slowest("p50", step, us),
        (None, None) => ". No second had enough requests for a percentile".to_owned(),
    };
    let sparse = if tail == Tail::P90 && peak(tails).is_some() {
        " A p99 per second needs 1,000 responses."
    } else {
        ""
    };
    let is_cut = latency.censored as f64 >= CUT * (latency.count + latency.censored) as f64;
    // Later ones were younger at the end: the lines fall although nothing became faster.
    let cut = if is_cut {
        " Requests without a response count as the time they had waited, so the lines are lower bounds."
    } else {
        ""
    };
    format!(
        "{}{worst}.{sparse}{cut}{}",
        whole_run(report, latency, what),
        told(report)
    )
}

/// Name the slowest of the seconds that had too few responses for the percentile `tail`, if it was
/// slower than `most_us`, the greatest of the others: its median, or its maximum without one.
fn slower_of_few(
    most_us: f64,
    tail: Tail,
    [column, median]: [PercentileColumn; 2],
    seconds: &Seconds<'_>,
) -> Option<String> {
    let whole = seconds
        .rows()
        .filter(|row| (row.start_s + 1) as f64 <= seconds.end_s && column(row).is_none());
    let known = whole.filter_map(|row| {
        let figure = median(row)
            .map(|us| (us, "p50"))
            .or_else(|| row.max_us.map(|us| (us, "maximum")));
        figure.map(|(us, name)| (row.start_s, us, name))
    });
    let (start_s, us, name) = known
        .filter(|(_, us, _)| *us > most_us)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (at, us, tail) = (
        seconds.spoken(seconds.at(start_s as f64)),
        micros(us),
        tail.name(),
    );
    Some(format!(
        ". The slowest second ({at}) had a {name} of {us}, and too few responses for a {tail}"
    ))
}

/// Say how many seconds of the run are not drawn, for want of responses; nothing when none is.
fn undrawn(
    report: &Report,
    [(tail, tail_name), (median, median_name)]: [(PercentileColumn, &str); 2],
    seconds: &Seconds<'_>,
) -> String {
    let whole = report
        .intervals
        .iter()
        .filter(|row| (row.start_s + 1) as f64 <= seconds.end_s);
    let all = whole.clone().count();
    let lacking =
        |column: PercentileColumn| whole.clone().filter(|row| column(row).is_none()).count();
    let need = |name: &str| {
        let quantile = Quantile::named(name).map(|quantile| quantile.samples_for(SAMPLES_BEYOND));
        grouped(quantile.unwrap_or_default())
    };
    let none = lacking(median);
    let tail_only = lacking(tail).saturating_sub(none);
    if none == all {
        return String::new();
    }
    let mut text = String::new();
    if none > 0 {
        let are = if none == 1 { "is" } else { "are" };
        let need = need(median_name);
        let _ = write!(
            text,
            " {none} of {all} seconds had fewer than {need} responses and {are} not drawn."
        );
    }
    if tail_only > 0 {
        let of = match (none, tail_only) {
            (0, _) => format!("of {all} seconds"),
            (_, 1) => "other".to_owned(),
            _ => "others".to_owned(),
        };
        let need = need(tail_name);
        let _ = write!(
            text,
            " {tail_only} {of} had fewer than {need} responses, too few for a {tail_name}."
        );
    }
    text
}

fn whole_run(report: &Report, latency: &Latency, what: &str) -> String {
    let all = population(report, latency);
    let of = |key: &str, us: f64| {
        format!(
            "{}{}",
            if latency.is_at_least(key) {
                "at least "
            } else {
                ""
            },
            micros(us)
        )
    };
    match (latency.p50_us, latency.p99_us) {
        (Some(p50), Some(p99)) => {
            let (p50, p99) = (of("p50_us", p50), of("p99_us", p99));
            format!("The {what} time of {all} had a median of {p50} and a p99 of {p99}")
        }
        (Some(p50), None) => format!(
            "The {what} time of {all} had a median of {}",
            of("p50_us", p50)
        ),
        (None, _) => format!("{all}: too few for a median of the {what} time"),
    }
}
