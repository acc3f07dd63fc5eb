//! Growth of throughput over the sizes, both by factors, so that linear growth is a straight line;
//! efficiency, CPU per request, balance and limit as rows under the sizes.

use super::{Curve, Estimate, Point, Scaling};
use crate::show::chart::{
    Axis, Cells, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, Shape,
};
use crate::show::text::{decimal, grouped_f64, micros};
use crate::studies::findings::factor;
use crawlmark_harness::units::percent;

/// Points that a curve is drawn through.
const SMOOTH: u32 = 64;

/// A row under the sizes: its name, and its text of a size.
type Row = (&'static str, fn(&Point) -> Option<String>);

const ROWS: [Row; 4] = [
    EFFICIENCY,
    ("CPU / request", |point| {
        Some(micros(point.cpu_us_per_attempt?.median))
    }),
    ("balance", |point| Some(percent(point.balance?.median))),
    ("limited by", |point| {
        Some(point.limited_by.name().to_owned())
    }),
];

const EFFICIENCY: Row = ("efficiency", |point| {
    Some(percent(point.efficiency?.median))
});

/// The panel of a scaling. A single size has nothing beside it, and its linear growth is no
/// measurement.
pub(super) fn panels(scaling: &Scaling) -> Vec<Panel> {
    if scaling.curves.iter().all(|curve| curve.told().is_none()) {
        return Vec::new();
    }
    let sizes = Sizes::of(scaling);
    let mut marks = Vec::new();
    for curve in &scaling.curves {
        marks.extend(references(curve, &sizes));
    }
    let is_single = scaling.curves.len() == 1;
    for (number, curve) in scaling.curves.iter().enumerate() {
        let name = if is_single {
            String::new()
        } else {
            curve.held.to_string()
        };
        marks.extend(measured(curve, Role::Run(number), name));
    }
    if let [curve] = &scaling.curves[..] {
        marks.push(values(curve));
    }
    marks.retain(Mark::is_known);
    vec![Panel {
        x: sizes.axis(),
        y: Axis::new("good items per second", Range::Log, Format::Number),
        height: 216.0,
        marks,
        cells: sizes.cells(scaling),
    }]
}

/// The sizes, least first.
struct Sizes(Vec<f64>);

impl Sizes {
    fn of(scaling: &Scaling) -> Self {
        let mut all = Vec::new();
        for curve in &scaling.curves {
            all.extend(curve.points.iter().map(|point| curve.n(point)));
        }
        all.sort_by(f64::total_cmp);
        all.dedup();
        Self(all)
    }

    fn ends(&self) -> (f64, f64) {
        let least = self.0.first().copied().unwrap_or(1.0);
        (least, self.0.last().copied().unwrap_or(1.0))
    }

    fn axis(&self) -> Axis {
        let (least, most) = self.ends();
        let range = Range::LogAround(least, most);
        let sizes = self.0.iter().map(|n| (*n, grouped_f64(*n)));
        Axis::new("", range, Format::Number).ticks(sizes.collect())
    }

    /// Places from the least to the most, close enough for a curve.
    fn smooth(&self) -> impl Iterator<Item = f64> {
        let (least, most) = self.ends();
        let ratio = most / least;
        (0..=SMOOTH).map(move |step| least * ratio.powf(f64::from(step) / f64::from(SMOOTH)))
    }

    /// The rows of text under the sizes: of several curves, the efficiency of each.
    fn cells(&self, scaling: &Scaling) -> Vec<Cells> {
        let curve = scaling.curves.first();
        let axis = curve.map_or("shards", |curve| curve.held.axis().name());
        let mut cells = vec![Cells {
            name: axis.to_owned(),
            texts: self.0.iter().map(|n| grouped_f64(*n)).collect(),
        }];
        let of = |curve: &Curve, name: &str, text: fn(&Point) -> Option<String>| Cells {
            name: name.to_owned(),
            texts: self.texts(curve, text),
        };
        match &scaling.curves[..] {
            [curve] => cells.extend(ROWS.iter().map(|(name, text)| of(curve, name, *text))),
            curves => cells.extend(curves.iter().map(|curve| {
                let (name, text) = EFFICIENCY;
                of(curve, &format!("{name}, {}", curve.held), text)
            })),
        }
        cells.retain(|row| row.texts.iter().any(|text| !text.is_empty()));
        cells
    }

    /// A text for each size; empty where the curve has none.
    fn texts(&self, curve: &Curve, text: fn(&Point) -> Option<String>) -> Vec<String> {
        self.0
            .iter()
            .map(|n| {
                curve
                    .points
                    .iter()
                    .find(|point| curve.n(point).total_cmp(n).is_eq())
                    .and_then(text)
                    .unwrap_or_default()
            })
            .collect()
    }
}

/// Linear growth, and the law that the sizes follow.
fn references(curve: &Curve, sizes: &Sizes) -> Vec<Mark> {
    let mark = |name: &str, points| Mark::new(Role::Asked, name, Shape::Line(points));
    let linear = curve
        .base()
        .and_then(|base| Some((curve.n(base), base.items_per_s?.median)))
        .map(|(least, per_s)| {
            let (_, most) = sizes.ends();
            mark("linear", vec![(least, per_s), (most, per_s * most / least)])
        });
    let law = curve.usl.map(|law| {
        let points = sizes.smooth().map(|n| (n, law.per_s(n))).collect();
        mark("USL fit", points).dashed(Dash::Dotted)
    });
    linear.into_iter().chain(law).collect()
}

/// The sizes of a curve with their intervals; those that do not count as rings.
fn measured(curve: &Curve, role: Role, name: String) -> Vec<Mark> {
    let (mut line, mut dots, mut rings) = (Vec::new(), Vec::new(), Vec::new());
    for point in &curve.points {
        let Some(Estimate {
            median, interval, ..
        }) = point.items_per_s
        else {
            continue;
        };
        let dot = Dot {
            at: (curve.n(point), median),
            interval: Some(interval.map_or((median, median), |it| (it.low, it.high))),
        };
        line.push(dot.at);
        let counts = curve.is_answer(point) || curve.base() == Some(point);
        if counts { &mut dots } else { &mut rings }.push(dot);
    }
    vec![
        Mark::new(role, name, Shape::Line(line))
            .dashed(Dash::Solid)
            .wide(2.5),
        Mark::new(role, "", Shape::Dots(dots)),
        Mark::new(role, "", Shape::Rings(rings)),
    ]
}

/// The rate of each size, and how many times that of the least the last one is.
fn values(curve: &Curve) -> Mark {
    let mut notes = Vec::new();
    for point in &curve.points {
        if let Some(per_s) = point.items_per_s {
            let at = (curve.n(point), per_s.median);
            let rate = format!("{}/s", decimal(per_s.median));
            notes.push(Note::new(rate, at, [-8.0, -9.0]).of(Role::Reference, Face::Value));
        }
    }
    // The last is the answer.
    notes.reverse();
    if let Some((point, speedup)) = curve.told().and_then(|point| Some((point, point.speedup?)))
        && let Some(per_s) = point.items_per_s
    {
        let times = format!("{}×", factor(speedup.median));
        let at = (curve.n(point), per_s.median);
        notes.insert(
            0,
            Note::new(times, at, [10.0, 20.0]).of(Role::Good, Face::Strong),
        );
    }
    Mark::notes(notes)
}
