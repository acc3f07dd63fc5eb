//! Several runs laid over each other, one line per run, each told apart by its colour and by its dash.
//!
//! Called by whoever makes a page of several results. Like is drawn beside like: times are response times when every run
//! has them, and otherwise the service times that all of them have.

mod headline;

use super::Plot;
use super::canvas::{Key, Mark};
use super::chart::{Chart, Line, Values};
use super::latency::Tail;
use super::palette::Ink;
use super::panel::Step;
use super::scale::spoken;
use super::seconds::Seconds;
use super::spectrum::{self, Curve};
use crate::run::report::{Latency, Report};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};

/// The most runs whose lines can be told apart.
pub const MOST_RUNS: usize = Ink::LINES.len();

/// A run among others.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Unique label of the run.
    pub label: &'a str,
    /// Report of the run.
    pub report: &'a Report,
}

/// Times that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocked {
    /// From when a request was intended; every run is an open loop.
    Response,
    /// From when a request was sent.
    Service,
    /// From when a request was sent, although some of the runs are open loops, whose requests may have waited before.
    ServiceAlthough,
}

impl Clocked {
    /// Choose the times by which all of them can be compared.
    #[must_use]
    pub fn of(runs: &[Run<'_>]) -> Self {
        match runs.iter().filter(|run| run.report.schedule.is_some()).count() {
            0 => Self::Service,
            n if n == runs.len() => Self::Response,
            _ => Self::ServiceAlthough,
        }
    }

    /// The series of good answers.
    const fn series(self) -> Series {
        match self {
            Self::Response => Series::ResponseOk,
            Self::Service | Self::ServiceAlthough => Series::ServiceOk,
        }
    }

    /// As in `service time`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service | Self::ServiceAlthough => "service",
        }
    }

    /// Return a warning to add to a caption.
    const fn warning(self) -> &'static str {
        match self {
            Self::ServiceAlthough => "; what requests of an open loop waited before they were sent is not in them",
            Self::Response | Self::Service => "",
        }
    }
}

/// A run as it is drawn.
struct Drawn<'a> {
    run: Run<'a>,
    seconds: Seconds<'a>,
    ink: Ink,
}

/// A line of each run.
struct Course<'a> {
    name: &'static str,
    title: &'static str,
    values: Values,
    each: &'static str,
    nothing: &'static str,
    of: &'a dyn Fn(&Seconds<'_>) -> Vec<Step>,
}

/// Every plot of these runs, of [`MOST_RUNS`] at most: those beyond are left out.
#[must_use]
pub fn all<'a>(runs: &[Run<'a>]) -> Vec<Plot> {
    let width = runs.iter().map(|run| Seconds::of(run.report).width).max().unwrap_or(1);
    let draw = |(run, ink): (&Run<'a>, Ink)| Drawn { run: *run, seconds: Seconds::in_steps_of(width, run.report), ink };
    let drawn: Vec<Drawn<'a>> = runs.iter().zip(Ink::LINES).map(draw).collect();
    let clocked = Clocked::of(runs);
    let over_time = [throughput(&drawn), tail(&drawn, clocked), median(&drawn, clocked)].into_iter().flatten();
    [headline::plot(&drawn, clocked)].into_iter().chain(over_time).chain([curves(&drawn, clocked)]).collect()
}

impl Course<'_> {
    /// None without a run.
    fn plot(&self, drawn: &[Drawn<'_>], caption: String) -> Option<Plot> {
        let line = |one: &Drawn<'_>| (self.of)(&one.seconds);
        let lines = drawn.iter().map(|one| Line::new(line(one), one.run.label, (one.ink, 2.0))).collect();
        let last = drawn.iter().map(|one| &one.seconds).reduce(|a, b| if b.end_s > a.end_s { b } else { a });
        let chart = Chart { seconds: last?, values: self.values, each: self.each, lines, nothing: self.nothing };
        Some(chart.plot(self.name, self.title, caption))
    }
}

fn throughput(drawn: &[Drawn<'_>]) -> Option<Plot> {
    let course = Course {
        name: "throughput",
        title: "Throughput",
        values: Values::Amounts("attempts per second"),
        each: "the mean of",
        nothing: "no second was reported",
        of: &|seconds| seconds.rates(|row| Some(row.attempts as f64)),
    };
    let means = Extremes::of(drawn, |report| Some(report.totals.attempts_per_s));
    let caption = means.map_or_else(String::new, |means| {
        let Extremes { least: (least, low), greatest: (greatest, high), .. } = means;
        let (low, high) = (spoken(low), spoken(high));
        if low == high {
            return format!("Every run made {high} attempts per second on average.");
        }
        format!("{greatest} made the most attempts per second on average, {high}, and {least} the fewest, {low}.")
    });
    course.plot(drawn, caption)
}

/// The percentile that stands for the slow answers, of each second.
fn tail(drawn: &[Drawn<'_>], clocked: Clocked) -> Option<Plot> {
    let is_p99 = drawn.iter().all(|one| Tail::of(one.run.report) == Tail::P99);
    let of: &dyn Fn(&Seconds<'_>) -> Vec<Step> = match (is_p99, clocked) {
        (true, Clocked::Response) => &|seconds| seconds.greatest(|row| row.response_p99_us),
        (true, _) => &|seconds| seconds.greatest(|row| row.p99_us),
        (false, Clocked::Response) => &|seconds| seconds.greatest(|row| row.response_p90_us),
        (false, _) => &|seconds| seconds.greatest(|row| row.p90_us),
    };
    let (title, figure) = if is_p99 { ("p99 over time", P99) } else { ("p90 over time", P90) };
    let mut caption = times(drawn, clocked, &figure);
    if !is_p99 {
        caption.insert_str(caption.len() - 1, "; not every run has the thousand requests per second that a p99 takes");
    }
    timed(("tail", title), of).plot(drawn, caption)
}

fn median(drawn: &[Drawn<'_>], clocked: Clocked) -> Option<Plot> {
    let of: &dyn Fn(&Seconds<'_>) -> Vec<Step> = match clocked {
        Clocked::Response => &|seconds| seconds.greatest(|row| row.response_p50_us),
        _ => &|seconds| seconds.greatest(|row| row.p50_us),
    };
    timed(("median", "Median over time"), of).plot(drawn, times(drawn, clocked, &MEDIAN))
}

fn timed<'a>((name, title): (&'static str, &'static str), of: &'a dyn Fn(&Seconds<'_>) -> Vec<Step>) -> Course<'a> {
    Course {
        name,
        title,
        values: Values::Times("latency (log scale)"),
        each: "the slowest second of",
        nothing: "no second had enough requests that were answered",
        of,
    }
}

/// A percentile of all times of a run.
struct Figure {
    name: &'static str,
    /// Its name in a report.
    key: &'static str,
    of: fn(&Latency) -> Option<f64>,
}

const MEDIAN: Figure = Figure { name: "median", key: "p50_us", of: |latency| latency.p50_us };
const P90: Figure = Figure { name: "p90", key: "p90_us", of: |latency| latency.p90_us };
const P99: Figure = Figure { name: "p99", key: "p99_us", of: |latency| latency.p99_us };

/// Return a sentence on the run with the highest figure of all its times, and the run with the lowest.
fn times(drawn: &[Drawn<'_>], clocked: Clocked, Figure { name, key, of }: &Figure) -> String {
    let (what, warning) = (clocked.name(), clocked.warning());
    let found = Extremes::of(drawn, |report| report.latency(clocked.series()).and_then(of));
    let bounds: Vec<&str> = drawn
        .iter()
        .filter(|one| one.run.report.latency(clocked.series()).is_some_and(|latency| latency.is_at_least(key)))
        .map(|one| one.run.label)
        .collect();
    let said =
        |(label, us): (&str, f64)| format!("{}{}", if bounds.contains(&label) { "at least " } else { "" }, micros(us));
    match found {
        None => format!("No run had enough requests for a {name} of its {what} times{warning}."),
        Some(Extremes { greatest, known: 1, .. }) => {
            let (label, us) = (greatest.0, said(greatest));
            format!("Over the whole run {label} had a {name} {what} time of {us}; no other has one{warning}.")
        }
        Some(Extremes { least, greatest, .. }) if micros(least.1) == micros(greatest.1) => {
            let sign = if bounds.is_empty() { "" } else { "at least " };
            format!(
                "Over the whole run all that have one had a {name} {what} time of {sign}{}{warning}.",
                micros(least.1)
            )
        }
        Some(Extremes { least, greatest, .. }) => {
            // Only the highest may be higher yet, and still be the highest.
            let order = if bounds.iter().all(|label| *label == greatest.0) {
                ""
            } else {
                "; what is at least so much may be more, so they may come in another order"
            };
            format!(
                "Over the whole run {} had the highest {name} {what} time, {}, and {} the lowest, {}{order}{warning}.",
                greatest.0,
                said(greatest),
                least.0,
                said(least)
            )
        }
    }
}

fn curves<'a>(drawn: &[Drawn<'a>], clocked: Clocked) -> Plot {
    let curve = |one: &Drawn<'a>| {
        let latency = one.run.report.latency(clocked.series())?;
        Some((Curve::of(latency, Key::new(one.run.label, Mark::Line(one.ink, 2.0)))?, latency.slowest_us()))
    };
    let (curves, slowest): (Vec<Curve<'_>>, Vec<Option<f64>>) = drawn.iter().filter_map(curve).unzip();
    let slowest = slowest.into_iter().flatten().reduce(f64::max);
    let censored = |one: &Drawn<'_>| one.run.report.latency(clocked.series()).map_or(0, |latency| latency.censored);
    let cut = match drawn.iter().map(censored).fold(0, u64::saturating_add) {
        0 => String::new(),
        n => format!(
            "; {} more requests were cut off or never sent, and rank beyond the ends of their curves",
            grouped(n)
        ),
    };
    let (what, warning) = (clocked.name(), clocked.warning());
    let caption = match slowest {
        Some(us) => format!(
            "Each curve holds the {what} times of the good and not-found answers of its run; the slowest of them all took {}{cut}{warning}.",
            micros(us)
        ),
        None => format!("No run had a good answer, so there are no {what} times to show."),
    };
    spectrum::draw("spectrum", caption, &curves)
}

/// The runs with the least and the greatest of something.
struct Extremes<'a> {
    least: (&'a str, f64),
    greatest: (&'a str, f64),
    /// Number of runs that have it.
    known: usize,
}

impl<'a> Extremes<'a> {
    fn of(drawn: &[Drawn<'a>], value: impl Fn(&Report) -> Option<f64>) -> Option<Self> {
        let value = |one: &Drawn<'a>| Some((one.run.label, value(one.run.report).filter(|value| value.is_finite())?));
        let all: Vec<(&str, f64)> = drawn.iter().filter_map(value).collect();
        let least = all.iter().copied().reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        let greatest = all.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        Some(Self { least, greatest, known: all.len() })
    }
}
