//! Several runs laid over each other, one line per run, each told apart by its colour and by its
//! dash.
//!
//! Called by the `report` command. Like is drawn beside like: times are response times when every
//! run has them, and otherwise the service times that all of them have.

mod headline;

use super::Plot;
use super::latency::Tail;
use super::seconds::{PAGE, PICTURE, Seconds};
use super::spectrum::{self, PercentileCurve};
use crate::run::report::{Latency, Report};
use crate::show::chart::scale::spoken;
use crate::show::chart::{Axis, Chart, Format, Mark, Panel, Range, Role, Shape, Step, palette};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};

/// The most runs whose lines can be told apart.
pub const MOST_RUNS: usize = palette::MOST_RUNS;

/// The plots of several runs that all have data.
pub(crate) const KINDS: usize = 5;

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
    /// From when a request was scheduled; every run is an open loop.
    Response,
    /// From when a request was sent.
    Service,
    /// From when a request was sent, although some of the runs are open loops, whose requests may
    /// have waited before.
    ServiceAlthough,
}

impl Clocked {
    /// Choose the times by which all of them can be compared.
    #[must_use]
    pub fn of(runs: &[Run<'_>]) -> Self {
        match runs
            .iter()
            .filter(|run| run.report.schedule.is_some())
            .count()
        {
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
            Self::ServiceAlthough => ". Excludes the wait before an open-loop request is sent",
            Self::Response | Self::Service => "",
        }
    }
}

/// A run as it is drawn.
struct Drawn<'a> {
    run: Run<'a>,
    number: usize,
    seconds: Seconds<'a>,
}

/// A line of each run.
struct Course<'a> {
    name: &'static str,
    title: &'static str,
    axis: Axis,
    /// Meaning of a step that holds several seconds.
    each: &'static str,
    of: &'a dyn Fn(&Seconds<'_>) -> Vec<Step>,
}

/// Every plot of these runs, of [`MOST_RUNS`] at most: those beyond are left out.
#[must_use]
pub fn all(runs: &[Run<'_>]) -> Vec<Plot> {
    let runs = &runs[..runs.len().min(MOST_RUNS)];
    let clocked = Clocked::of(runs);
    let drawn = drawn(runs, Seconds::all(&reports(runs), PICTURE));
    let pages = if drawn.iter().any(|one| one.seconds.width > 1) {
        over_time(runs, clocked, PAGE)
    } else {
        Vec::new()
    };
    let page = |picture: &Chart| pages.iter().find(|page| page.name == picture.name);
    let over_time = over_time(runs, clocked, PICTURE);
    let over_time = over_time
        .iter()
        .map(|picture| Plot::over_time(picture, page(picture)));
    let first = Plot::of(&headline::chart(&drawn, clocked));
    let last = curves(&drawn, clocked);
    [first]
        .into_iter()
        .chain(over_time)
        .chain(last.iter().map(Plot::of))
        .collect()
}

fn reports<'a>(runs: &[Run<'a>]) -> Vec<&'a Report> {
    runs.iter().map(|run| run.report).collect()
}

/// The runs, each with its seconds.
fn drawn<'a>(runs: &[Run<'a>], seconds: Vec<Seconds<'a>>) -> Vec<Drawn<'a>> {
    let draw = |(number, (run, seconds)): (usize, (&Run<'a>, Seconds<'a>))| Drawn {
        run: *run,
        number,
        seconds,
    };
    runs.iter().zip(seconds).enumerate().map(draw).collect()
}

/// Charts over time.
fn over_time(runs: &[Run<'_>], clocked: Clocked, most_steps: u64) -> Vec<Chart> {
    let reports = reports(runs);
    let fine = drawn(runs, Seconds::all_finest(&reports, most_steps));
    let drawn = drawn(runs, Seconds::all(&reports, most_steps));
    let chart =
        |(course, caption): (Course<'_>, String), drawn: &[Drawn<'_>]| course.chart(drawn, caption);
    let rates = chart(throughput(&fine), &fine);
    // A tenth of a second has too few requests for its percentiles.
    let times = [tail(&drawn, clocked), median(&drawn, clocked)].map(|times| chart(times, &drawn));
    rates
        .into_iter()
        .chain(times.into_iter().flatten())
        .collect()
}

impl Course<'_> {
    /// None when no run has a value.
    fn chart(self, drawn: &[Drawn<'_>], caption: String) -> Option<Chart> {
        let longest = drawn
            .iter()
            .map(|one| &one.seconds)
            .max_by(|a, b| a.end_s.total_cmp(&b.end_s))?;
        let line = |one: &Drawn<'_>| {
            Mark::new(
                Role::Run(one.number),
                one.run.label,
                Shape::Steps((self.of)(&one.seconds)),
            )
        };
        let marks: Vec<Mark> = drawn.iter().map(line).filter(Mark::is_known).collect();
        (!marks.is_empty()).then(|| {
            let panel = Panel {
                x: longest.axis(self.each),
                y: self.axis,
                height: 220.0,
                marks,
            };
            Chart {
                name: self.name,
                title: self.title,
                caption,
                panels: vec![panel],
            }
        })
    }
}

fn throughput(drawn: &[Drawn<'_>]) -> (Course<'static>, String) {
    let course = Course {
        name: "throughput",
        title: "Throughput",
        axis: Axis::new("requests per second", Range::FromZero, Format::Number),
        each: "mean",
        of: &|seconds| seconds.rates(|row| Some(row.attempts as f64)),
    };
    let means = Extremes::of(drawn, |report| Some(report.totals.attempts_per_s));
    let caption = means.map_or_else(String::new, |means| {
        let Extremes {
            least: (least, low),
            greatest: (greatest, high),
            ..
        } = means;
        let (low, high) = (spoken(low), spoken(high));
        if low == high {
            return format!("Every run averaged {high} requests/s.");
        }
        format!("{greatest} averaged the most requests/s, {high}, and {least} the fewest, {low}.")
    });
    (course, caption)
}

/// The percentile that stands for the slow answers, of each second.
fn tail(drawn: &[Drawn<'_>], clocked: Clocked) -> (Course<'static>, String) {
    let is_p99 = drawn
        .iter()
        .all(|one| Tail::of(one.run.report) == Tail::P99);
    let of: &dyn Fn(&Seconds<'_>) -> Vec<Step> = match (is_p99, clocked) {
        (true, Clocked::Response) => &|seconds| seconds.greatest(|row| row.response_p99_us),
        (true, _) => &|seconds| seconds.greatest(|row| row.p99_us),
        (false, Clocked::Response) => &|seconds| seconds.greatest(|row| row.response_p90_us),
        (false, _) => &|seconds| seconds.greatest(|row| row.p90_us),
    };
    let (title, figure) = if is_p99 {
        ("p99 over time", P99)
    } else {
        ("p90 over time", P90)
    };
    let mut caption = times(drawn, clocked, &figure);
    if !is_p99 {
        caption.push_str(" A p99 per second needs 1,000 responses.");
    }
    (timed(("tail", title), of), caption)
}

fn median(drawn: &[Drawn<'_>], clocked: Clocked) -> (Course<'static>, String) {
    let of: &dyn Fn(&Seconds<'_>) -> Vec<Step> = match clocked {
        Clocked::Response => &|seconds| seconds.greatest(|row| row.response_p50_us),
        _ => &|seconds| seconds.greatest(|row| row.p50_us),
    };
    (
        timed(("median", "Median over time"), of),
        times(drawn, clocked, &MEDIAN),
    )
}

fn timed<'a>(
    (name, title): (&'static str, &'static str),
    of: &'a dyn Fn(&Seconds<'_>) -> Vec<Step>,
) -> Course<'a> {
    Course {
        name,
        title,
        axis: Axis::new("time (log scale)", Range::Log, Format::Micros),
        each: "slowest",
        of,
    }
}

/// A percentile of all times of a run.
struct RunPercentile {
    name: &'static str,
    /// Its name in a report.
    key: &'static str,
    of: fn(&Latency) -> Option<f64>,
}

const MEDIAN: RunPercentile = RunPercentile {
    name: "p50",
    key: "p50_us",
    of: |latency| latency.p50_us,
};
const P90: RunPercentile = RunPercentile {
    name: "p90",
    key: "p90_us",
    of: |latency| latency.p90_us,
};
const P99: RunPercentile = RunPercentile {
    name: "p99",
    key: "p99_us",
    of: |latency| latency.p99_us,
};

/// Return a sentence on the run with the highest figure of all its times, and the run with the
/// lowest.
fn times(
    drawn: &[Drawn<'_>],
    clocked: Clocked,
    RunPercentile { name, key, of }: &RunPercentile,
) -> String {
    let (what, warning) = (clocked.name(), clocked.warning());
    let found = Extremes::of(drawn, |report| {
        report.latency(clocked.series()).and_then(of)
    });
    let bounds: Vec<&str> = drawn
        .iter()
        .filter(|one| {
            one.run
                .report
                .latency(clocked.series())
                .is_some_and(|latency| latency.is_at_least(key))
        })
        .map(|one| one.run.label)
        .collect();
    let said = |(label, us): (&str, f64)| {
        format!(
            "{}{}",
            if bounds.contains(&label) {
                "at least "
            } else {
                ""
            },
            micros(us)
        )
    };
    match found {
        None => format!("No run had enough requests for a {name} {what} time{warning}."),
        Some(Extremes {
            greatest, known: 1, ..
        }) => {
            let (label, us) = (greatest.0, said(greatest));
            format!(
                "{name} {what} time over the whole run: {us} in {label}; no other run has one{warning}."
            )
        }
        Some(Extremes {
            least, greatest, ..
        }) if micros(least.1) == micros(greatest.1) => {
            let sign = if bounds.is_empty() { "" } else { "at least " };
            format!(
                "{name} {what} time over the whole run: {sign}{} in every run that has one{warning}.",
                micros(least.1)
            )
        }
        Some(Extremes {
            least, greatest, ..
        }) => {
            // Only the highest may be higher yet, and still be the highest.
            let order = if bounds.iter().all(|label| *label == greatest.0) {
                ""
            } else {
                "; figures that are lower bounds may change the order"
            };
            format!(
                "{name} {what} time over the whole run: highest in {} ({}), lowest in {} ({}){order}{warning}.",
                greatest.0,
                said(greatest),
                least.0,
                said(least)
            )
        }
    }
}

fn curves(drawn: &[Drawn<'_>], clocked: Clocked) -> Option<Chart> {
    let times = || {
        drawn
            .iter()
            .filter_map(|one| Some((one, one.run.report.latency(clocked.series())?)))
    };
    let curve = |(one, latency): (&Drawn<'_>, &Latency)| {
        PercentileCurve::of(latency, Role::Run(one.number), one.run.label)
    };
    let curves: Vec<PercentileCurve> = times().filter_map(curve).collect();
    let slowest = times()
        .filter_map(|(_, latency)| latency.slowest_us())
        .reduce(f64::max)?;
    let cut = match times()
        .map(|(_, latency)| latency.censored)
        .fold(0, u64::saturating_add)
    {
        0 => String::new(),
        n => format!(
            "; {} more requests did not finish, and rank beyond the ends",
            grouped(n)
        ),
    };
    let caption = format!(
        "The {} times of each run's good and not-found responses; the slowest took {}{cut}{}.",
        clocked.name(),
        micros(slowest),
        clocked.warning()
    );
    (!curves.is_empty()).then(|| spectrum::of_curves("spectrum", caption, curves))
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
        let value = |one: &Drawn<'a>| {
            Some((
                one.run.label,
                value(one.run.report).filter(|value| value.is_finite())?,
            ))
        };
        let all: Vec<(&str, f64)> = drawn.iter().filter_map(value).collect();
        let least = all
            .iter()
            .copied()
            .reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        let greatest = all
            .iter()
            .copied()
            .reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        Some(Self {
            least,
            greatest,
            known: all.len(),
        })
    }
}
