//! The whole distribution of the latency, by the number of nines.

use super::answers;
use crate::run::report::{Latency, Report};
use crate::show::chart::{
    Axis, Chart, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, Shape,
};
use crawlmark_harness::stats::Series;

/// Points of a curve: three pixels each.
const POINTS: u32 = 180;

/// Part by which two percentiles differ that lie apart on a picture.
const APART: f64 = 0.04;

/// Series of a report that have a curve beside that of the responses.
const OTHERS: [(Series, Role, Dash, &str); 3] = [
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
        "throttled",
    ),
    (Series::ServiceError, Role::Failed, Dash::Long, "failed"),
];

/// Nines of the percentiles that are marked, in the order of [`Latency::figures`].
const NINES: [f64; 4] = [std::f64::consts::LOG10_2, 1.0, 2.0, 3.0];

/// None when no request was answered, or timed.
pub(super) fn chart(name: &'static str, report: &Report) -> Option<Chart> {
    let main = report.main_series();
    let first = report.latency(main);
    let mut curves = Vec::new();
    curves.extend(first.and_then(|of| Curve::of(of, Role::Good, "responses")));
    for (series, role, dash, name) in OTHERS {
        let latency = report.latency(series).filter(|of| match (series, first) {
            (Series::ServiceOk, Some(first)) => series != main && are_apart(first, of),
            _ => true,
        });
        if let Some(mut curve) = latency.and_then(|it| Curve::of(it, role, name)) {
            curve.mark.dash = dash;
            curves.push(curve);
        }
    }
    if let [only] = &mut curves[..] {
        only.mark.legend.clear();
    }
    let most = curves.iter().map(|curve| curve.total).reduce(f64::max)?;
    let mut marks = Vec::new();
    for Curve { mark, end, .. } in curves {
        let dot = Shape::Dots(vec![Dot::at(end.0, end.1)]);
        let end = Mark::new(mark.role, "", dot);
        marks.extend([mark, end]);
    }
    marks.extend(first.map(percentiles).into_iter().flatten());
    let panel = Panel {
        x: Axis::new("", Range::Nines(most), Format::Nines),
        y: Axis::new("", Range::Log, Format::Micros),
        height: 240.0,
        marks,
        cells: Vec::new(),
    };
    let title = "Latency by percentile";
    Some(answers::chart(
        [name, title],
        answers::spectrum,
        report,
        vec![panel],
    ))
}

/// True if a percentile of two series differs so much that it can be seen.
fn are_apart(a: &Latency, b: &Latency) -> bool {
    a.figures()
        .into_iter()
        .zip(b.figures())
        .filter_map(|((.., a), (.., b))| Some((a?, b?)))
        .any(|(a, b)| (a - b).abs() > APART * a.max(b))
}

/// The percentiles of a curve, and the slowest.
fn percentiles(latency: &Latency) -> [Mark; 2] {
    let (mut dots, mut notes) = (Vec::new(), Vec::new());
    let figures = latency.figures().into_iter();
    for (place, (name, key, us)) in NINES.into_iter().chain([f64::INFINITY]).zip(figures) {
        let Some((us, text)) = us.zip(latency.shown(key, us)) else {
            continue;
        };
        let is_last = place.is_infinite();
        // A bound lies on no curve.
        if !is_last && latency.is_at_least(key) {
            continue;
        }
        let away = if is_last { [-4.0, -10.0] } else { [6.0, 18.0] };
        let note =
            Note::new(format!("{name} {text}"), (place, us), away).of(Role::Reference, Face::Value);
        if is_last {
            // Before those that lie beside it.
            notes.insert(0, note);
        } else {
            dots.push(Dot::at(place, us));
            notes.push(note);
        }
    }
    [
        Mark::new(Role::Good, "", Shape::Dots(dots)),
        Mark::notes(notes),
    ]
}

/// A curve: nines and microseconds.
struct Curve {
    mark: Mark,
    /// Its last point, at the slowest sample.
    end: (f64, f64),
    /// Samples, those that were cut off included.
    total: f64,
}

impl Curve {
    /// None without a value that lies in the histogram.
    fn of(latency: &Latency, role: Role, legend: &str) -> Option<Self> {
        let distribution = latency.distribution()?;
        let last = distribution.nines()?;
        // The last one has no percentile below 100 %, which lies at no place: it ends the curve.
        let end = (last, distribution.histogram().max() as f64 / 1e3);
        let nines = (0..=POINTS).map(|n| last * f64::from(n) / f64::from(POINTS));
        let times = distribution.us_at(nines.clone());
        let points = nines.zip(times).chain([end]).collect();
        Some(Self {
            mark: Mark::new(role, legend, Shape::Line(points)),
            end,
            total: distribution.all() as f64,
        })
    }
}
