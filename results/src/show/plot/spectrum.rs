//! The whole distribution of the latency, by the number of nines.

use crate::run::report::{Latency, Report};
use crate::run::words::{population, unfinished};
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};
use crawlmark_harness::stats::{SAMPLES_BEYOND, Series};
use crawlmark_harness::units::{grouped, micros};

/// Points of a curve: three pixels each.
const POINTS: u32 = 180;

/// A curve: nines and microseconds.
pub(super) struct PercentileCurve {
    mark: Mark,
    /// Its last point, at the slowest sample.
    end: (f64, f64),
    /// Samples, those that were cut off included.
    total: f64,
    censored: u64,
}

/// None when no attempt was answered, or timed.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let curve = |series, role, legend| {
        Some((
            series,
            PercentileCurve::of(report.latency(series)?, role, legend)?,
        ))
    };
    let mut curves = [
        curve(Series::ResponseOk, Role::Good, "response time"),
        curve(Series::ServiceOk, Role::Good, "service time"),
        curve(
            Series::ServiceThrottled,
            Role::Throttled,
            "service time of throttled responses",
        ),
        curve(
            Series::ServiceError,
            Role::Failed,
            "service time of failed requests",
        ),
    ];
    if let [Some(_), Some((_, service)), ..] = &mut curves {
        // Often the same: what is broken lies on top, so that both are seen.
        (service.mark.role, service.mark.dash) = (Role::Reference, Dash::Dashed);
    }
    let (series, curves): (Vec<Series>, Vec<PercentileCurve>) =
        curves.into_iter().flatten().unzip();
    let main = series
        .iter()
        .position(|series| *series == report.main_series())
        .and_then(|n| curves.get(n));
    let caption = caption(report, main);
    (!curves.is_empty()).then(|| of_curves("spectrum", caption, curves))
}

/// The curves in a common field.
pub(super) fn of_curves(
    name: &'static str,
    caption: String,
    curves: Vec<PercentileCurve>,
) -> Chart {
    let most = curves.iter().map(|curve| curve.total).fold(10.0, f64::max);
    let marks = curves
        .into_iter()
        .flat_map(|PercentileCurve { mark, end, .. }| {
            let dot = Shape::Dots(vec![Dot {
                at: end,
                interval: None,
                hollow: false,
            }]);
            let end = Mark::new(mark.role, "", dot);
            [mark, end]
        });
    let panel = Panel {
        x: Axis::new(
            "percentile (log scale)",
            Range::Between(0.0, most.log10()),
            Format::Nines,
        ),
        y: Axis::new("time (log scale)", Range::Log, Format::Micros),
        height: 240.0,
        marks: marks.collect(),
    };
    Chart {
        name,
        title: "Latency by percentile",
        caption,
        panels: vec![panel],
    }
}

impl PercentileCurve {
    /// None without a value that lies in the histogram.
    pub(super) fn of(latency: &Latency, role: Role, legend: &str) -> Option<Self> {
        let distribution = latency.distribution()?;
        let histogram = distribution.histogram();
        let inside = histogram.len() as f64;
        // What overflowed or was cut off is slower than what the histogram holds, as far as is
        // known: it ranks last.
        let total = distribution.all() as f64;
        if inside < 1.0 || total < inside {
            return None;
        }
        // To the last sample that has a value, which stands for as many nines as there are samples.
        let end = (total / (total - inside).max(1.0)).log10();
        let point = |n: u32| {
            let nines = end * f64::from(n) / f64::from(POINTS);
            let rank = total * (1.0 - 10f64.powf(-nines));
            let quantile = (rank / inside).clamp(0.0, 1.0);
            (nines, histogram.value_at_quantile(quantile) as f64 / 1e3)
        };
        // The last one has no percentile below 100 %, which lies at no place: it ends the curve.
        let end = (end, histogram.max() as f64 / 1e3);
        let points = (0..=POINTS).map(point).chain([end]).collect();
        let mark = Mark::new(role, legend, Shape::Line(points));
        Some(Self {
            mark,
            end,
            total,
            censored: latency.censored,
        })
    }
}

fn caption(report: &Report, curve: Option<&PercentileCurve>) -> String {
    let what = if report.schedule.is_some() {
        "response"
    } else {
        "service"
    };
    let found = report
        .latency(report.main_series())
        .filter(|latency| latency.count > 0);
    let (Some(latency), Some(curve)) = (found, curve) else {
        return "No request succeeded; the others took this long.".to_owned();
    };
    let percentiles = [
        ("p999_us", latency.p999_us, "99.9 %"),
        ("p99_us", latency.p99_us, "99 %"),
        ("p90_us", latency.p90_us, "90 %"),
        ("p50_us", latency.p50_us, "Half"),
    ];
    let all = population(report, latency);
    // What is only known to be no less says nothing about the most.
    let mut known = percentiles
        .into_iter()
        .filter(|(key, ..)| !latency.is_at_least(key));
    let tail = known
        .find_map(|(_, us, of)| {
            Some(format!(
                "{of} of {all} had a {what} time of {} or less",
                micros(us?)
            ))
        })
        .unwrap_or_else(|| match latency.p50_us {
            Some(_) => {
                format!("Too many did not finish for a percentile of the {what} time of {all}")
            }
            None => format!("{all}: too few for a percentile of the {what} time"),
        });
    let slowest = latency.slowest_us().map_or_else(String::new, |us| {
        format!("; the slowest response took {}", micros(us))
    });
    let cut = match curve.censored {
        0 => String::new(),
        1 => "; the one that did not end ranks beyond the end of the curve".to_owned(),
        n => format!(
            "; the {} that {} rank beyond the end of the curve",
            grouped(n),
            unfinished(report)
        ),
    };
    let beyond = if curve.total < (SAMPLES_BEYOND * 10) as f64 {
        "; with so few, the tail is chance"
    } else {
        ""
    };
    format!("{tail}{slowest}{cut}{beyond}.")
}
