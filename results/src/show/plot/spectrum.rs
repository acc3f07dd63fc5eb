//! The whole distribution of the latency, by the number of nines.

use crate::run::report::{Latency, Report};
use crate::show::chart::{
    Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape, figures,
};
use crate::show::text::grouped;
use crawlmark_harness::stats::Series;

/// Points of a curve: three pixels each.
const POINTS: u32 = 180;

/// Series of a report that have a curve.
const SERIES: [(Series, Role, Dash, &str); 4] = [
    (Series::ResponseOk, Role::Good, Dash::Solid, "response time"),
    (
        Series::ServiceOk,
        Role::Reference,
        Dash::Dashed,
        "service time",
    ),
    (
        Series::ServiceThrottled,
        Role::Throttled,
        Dash::Dashed,
        "service time of throttled responses",
    ),
    (
        Series::ServiceError,
        Role::Failed,
        Dash::Long,
        "service time of failed requests",
    ),
];

/// None when no request was answered, or timed.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let mut curves = Vec::new();
    for (series, role, dash, name) in SERIES {
        let latency = report.latency(series);
        if let Some(mut curve) = latency.and_then(|it| Curve::of(it, role, name)) {
            curve.mark.dash = dash;
            curves.push(curve);
        }
    }
    of_curves(percentiles(report, report.main_series()), curves)
}

/// Figures of a series: its percentiles and its slowest response.
fn percentiles(report: &Report, series: Series) -> String {
    let Some(latency) = report.latency(series) else {
        return String::new();
    };
    let known = latency.figures().into_iter();
    let known = known.map(|(name, key, us)| (name, latency.shown(key, us)));
    let counts = [
        ("responses", latency.count),
        ("without a response", latency.censored),
    ];
    figures(known.chain(counts.map(|(name, n)| (name, (n > 0).then(|| grouped(n))))))
}

/// A curve: nines and microseconds.
pub(super) struct Curve {
    mark: Mark,
    /// Its last point, at the slowest sample.
    end: (f64, f64),
    /// Samples, those that were cut off included.
    total: f64,
}

/// The curves in a common field; none without a curve.
pub(super) fn of_curves(caption: String, curves: Vec<Curve>) -> Option<Chart> {
    let most = curves.iter().map(|curve| curve.total).reduce(f64::max)?;
    let mut marks = Vec::new();
    for Curve { mark, end, .. } in curves {
        let dot = Shape::Dots(vec![Dot::at(end.0, end.1)]);
        let end = Mark::new(mark.role, mark.legend.clone(), dot);
        marks.extend([mark, end]);
    }
    Some(Chart {
        name: "spectrum",
        title: "Latency by percentile",
        caption,
        panels: vec![Panel {
            x: Axis::new(
                "percentile (log scale)",
                Range::Between(0.0, most.max(10.0).log10()),
                Format::Nines,
            ),
            y: Axis::new("time (log scale)", Range::Log, Format::Micros),
            height: 240.0,
            marks,
        }],
    })
}

impl Curve {
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
        let mut points = Vec::new();
        for n in 0..=POINTS {
            let nines = end * f64::from(n) / f64::from(POINTS);
            let rank = total * (1.0 - 10f64.powf(-nines));
            let quantile = (rank / inside).clamp(0.0, 1.0);
            points.push((nines, histogram.value_at_quantile(quantile) as f64 / 1e3));
        }
        // The last one has no percentile below 100 %, which lies at no place: it ends the curve.
        let end = (end, histogram.max() as f64 / 1e3);
        points.push(end);
        Some(Self {
            mark: Mark::new(role, legend, Shape::Line(points)),
            end,
            total,
        })
    }
}
