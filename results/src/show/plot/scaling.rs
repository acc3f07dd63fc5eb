//! Growth of throughput: four fields over one axis of sizes. Throughput beside its linear growth,
//! efficiency, CPU per attempt, and the balance of the shards.

use super::Plot;
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape, Ticks};
use crate::studies::scale::scaling_headline;
use crate::studies::scale::{Ceiling, Curve, Estimate, Fit, Point, Scaling};

/// From this many times the smallest size on, sizes are in equal factors: in equal steps the small
/// ones would lie on each other.
const MANY: f64 = 40.0;

/// Points that a curve of a law is drawn through.
const SMOOTH: u32 = 64;

/// Limit on a ceiling that is drawn, as a multiple of all else: a higher one would press the rest
/// to the ground.
const NEAR: f64 = 1.6;

/// The plot of a scaling.
#[must_use]
pub fn scaling(scaling: &Scaling) -> Plot {
    let sizes = Sizes::of(scaling);
    let mut panels: Vec<Panel> = SHOWN
        .iter()
        .map(|shown| shown.panel(scaling, &sizes))
        .collect();
    if let Some(first) = panels.first_mut() {
        first.marks.extend(laws(scaling, &sizes));
    }
    if let Some(last) = panels.last_mut() {
        let axis = scaling
            .curves
            .first()
            .map_or("shards", |curve| curve.held.axis().name());
        last.x = Axis::new(axis, sizes.range.clone(), Format::Number).ticks(Ticks::At(sizes.all));
    }
    // A single size has nothing beside it, and its linear growth is no measurement.
    let has_growth = scaling.curves.iter().any(|curve| curve.told().is_some());
    let panels = if has_growth { panels } else { Vec::new() };
    Plot::of(&Chart {
        name: "scaling",
        title: "How throughput grows",
        caption: scaling_headline(scaling),
        panels,
    })
}

/// A ceiling that there is room for.
fn ceiling(scaling: &Scaling) -> Option<f64> {
    let points = scaling.curves.iter().flat_map(|curve| &curve.points);
    let most = points
        .filter_map(|point| point.items_per_s)
        .map(|x| x.median)
        .fold(0.0, f64::max);
    scaling
        .ceiling
        .as_ref()
        .and_then(Ceiling::per_s)
        .filter(|ceiling| *ceiling <= most * NEAR)
}

/// The laws, and what the client can do.
fn laws(scaling: &Scaling, sizes: &Sizes) -> Vec<Mark> {
    let law = |fit: &Fit| {
        let line = sizes.smooth().map(|n| (n, fit.at(n))).collect();
        Mark::new(Role::Reference, "law (USL)", Shape::Line(line))
    };
    let laws = scaling
        .curves
        .iter()
        .filter_map(|curve| curve.fit.as_ref())
        .map(law);
    let ceiling = ceiling(scaling)
        .map(|ceiling| Mark::new(Role::Limit, "client ceiling", Shape::Across(ceiling)));
    laws.chain(ceiling).collect()
}

/// The sizes, least first, and the range of their axis.
struct Sizes {
    all: Vec<f64>,
    range: Range,
}

impl Sizes {
    fn of(scaling: &Scaling) -> Self {
        let curves = scaling.curves.iter();
        let mut all: Vec<f64> = curves
            .flat_map(|curve| curve.points.iter().map(|point| curve.n(point)))
            .collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let (least, most) = (
            all.first().copied().unwrap_or(1.0),
            all.last().copied().unwrap_or(1.0),
        );
        let range = if most / least >= MANY {
            Range::LogBetween(least * 0.8, most * 1.1)
        } else {
            Range::Between(0.0, most * 1.03)
        };
        Self { all, range }
    }

    /// Places from the least to the most, close enough for a curve.
    fn smooth(&self) -> impl Iterator<Item = f64> {
        let (least, most) = (
            self.all.first().copied().unwrap_or(1.0),
            self.all.last().copied().unwrap_or(1.0),
        );
        (0..=SMOOTH).map(move |step| least + (most - least) * f64::from(step) / f64::from(SMOOTH))
    }
}

/// Measure that a field shows.
struct Shown {
    unit: &'static str,
    format: Format,
    height: f64,
    value: fn(&Point) -> Option<Estimate>,
    /// Value of a curve if nothing got worse.
    ideal: fn(&Curve, f64) -> Option<f64>,
}

const SHOWN: [Shown; 4] = [
    Shown {
        unit: "good items per second",
        format: Format::Number,
        height: 230.0,
        value: |point| point.items_per_s,
        ideal: |curve, n| {
            let base = curve.base()?;
            Some(base.items_per_s?.median * n / curve.n(base))
        },
    },
    Shown {
        unit: "efficiency: throughput per part, relative to the smallest size",
        format: Format::Percent,
        height: 84.0,
        value: |point| point.efficiency,
        ideal: |_, _| Some(1.0),
    },
    Shown {
        unit: "client CPU per request",
        format: Format::Micros,
        height: 84.0,
        value: |point| point.cpu_us_per_attempt,
        ideal: |curve, _| Some(curve.base()?.cpu_us_per_attempt?.median),
    },
    Shown {
        unit: "balance: mean time per item of the shards, relative to the slowest",
        format: Format::Percent,
        height: 84.0,
        value: |point| point.balance,
        ideal: |_, _| Some(1.0),
    },
];

impl Shown {
    fn panel(&self, scaling: &Scaling, sizes: &Sizes) -> Panel {
        let y = Axis::new(self.unit, Range::FromZero, self.format);
        let is_throughput = matches!(self.format, Format::Number);
        let y = match self.format {
            Format::Percent => y.ticks(Ticks::At(vec![0.0, 0.5, 1.0])),
            _ => y,
        };
        let ideal = |curve: &Curve| {
            let line = sizes
                .smooth()
                .filter_map(|n| Some((n, (self.ideal)(curve, n)?)))
                .collect();
            Mark::new(Role::Asked, "linear", Shape::Line(line))
        };
        let measured = scaling
            .curves
            .iter()
            .enumerate()
            .flat_map(|(number, curve)| {
                // With a law there is a line already.
                let line =
                    (curve.fit.is_none() || !is_throughput).then(|| self.line(curve, number));
                line.into_iter()
                    .chain(self.dots(curve, (number, scaling.curves.len())))
            });
        let marks = scaling
            .curves
            .iter()
            .map(ideal)
            .chain(measured)
            .filter(Mark::is_known)
            .collect();
        Panel {
            x: Axis::hidden(sizes.range.clone()),
            y,
            height: self.height,
            marks,
        }
    }

    fn points<'a>(&self, curve: &'a Curve) -> impl Iterator<Item = (&'a Point, f64, Estimate)> {
        let value = self.value;
        curve
            .points
            .iter()
            .filter_map(move |point| Some((point, curve.n(point), value(point)?)))
    }

    fn line(&self, curve: &Curve, number: usize) -> Mark {
        let line = self
            .points(curve)
            .map(|(_, n, estimate)| (n, estimate.median))
            .collect();
        Mark::new(Role::Run(number), "", Shape::Line(line)).dashed(Dash::Solid)
    }

    /// The points that count, and the others as rings.
    fn dots(&self, curve: &Curve, (number, curves): (usize, usize)) -> [Mark; 2] {
        let name = if curves > 1 {
            curve.held.to_string()
        } else {
            "measured, with its interval".to_owned()
        };
        [(false, &*name), (true, "CPUs shared with the target")].map(|(hollow, legend)| {
            let points = self
                .points(curve)
                .filter(|(point, ..)| curve.is_answer(point) != hollow);
            let dot = |(_, n, estimate): (&Point, f64, Estimate)| Dot {
                at: (n, estimate.median),
                interval: estimate.interval.map(|between| (between.low, between.high)),
                hollow,
            };
            Mark::new(
                Role::Run(number),
                legend,
                Shape::Dots(points.map(dot).collect()),
            )
        })
    }
}
