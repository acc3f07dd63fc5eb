//! Growth of throughput: four fields over one axis of sizes. Throughput beside its linear growth,
//! efficiency, CPU per attempt, and the balance of the shards.

use super::{Curve, Estimate, Point, Scaling};
use crate::show::chart::{Axis, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};

/// From this many times the smallest size on, sizes are in equal factors: in equal steps the small
/// ones would lie on each other.
const MANY: f64 = 40.0;

/// Points that a curve is drawn through.
const SMOOTH: u32 = 64;

/// The panels of a scaling. A single size has nothing beside it, and its linear growth is no
/// measurement.
pub(super) fn panels(scaling: &Scaling) -> Vec<Panel> {
    if scaling.curves.iter().all(|curve| curve.told().is_none()) {
        return Vec::new();
    }
    let sizes = Sizes::of(scaling);
    let panels = FIELDS.iter().map(|field| field.panel(scaling, &sizes));
    Panel::below_each_other(panels.collect())
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

    fn axis(&self, scaling: &Scaling) -> Axis {
        let (least, most) = self.ends();
        let range = if most / least >= MANY {
            Range::LogBetween(least * 0.8, most * 1.1)
        } else {
            Range::Between(0.0, most * 1.03)
        };
        let curve = scaling.curves.first();
        let name = curve.map_or("shards", |curve| curve.held.axis().name());
        Axis::new(name, range, Format::Number).ticks(self.0.clone())
    }

    /// Places from the least to the most, close enough for a curve.
    fn smooth(&self) -> impl Iterator<Item = f64> {
        let (least, most) = self.ends();
        (0..=SMOOTH).map(move |step| least + (most - least) * f64::from(step) / f64::from(SMOOTH))
    }
}

/// Measure that a field shows.
struct Field {
    unit: &'static str,
    format: Format,
    height: f64,
    value: fn(&Point) -> Option<Estimate>,
    /// Value of a curve if nothing got worse.
    ideal: fn(&Curve, f64) -> Option<f64>,
    /// Value of a curve that follows its law.
    law: fn(&Curve, f64) -> Option<f64>,
}

const FIELDS: [Field; 4] = [
    Field {
        unit: "good items per second",
        format: Format::Number,
        height: 230.0,
        value: |point| point.items_per_s,
        ideal: |curve, n| {
            let base = curve.base()?;
            Some(base.items_per_s?.median * n / curve.n(base))
        },
        law: |curve, n| Some(curve.usl?.per_s(n)),
    },
    Field {
        unit: "efficiency: throughput per part, relative to the smallest size",
        format: Format::Percent,
        height: 84.0,
        value: |point| point.efficiency,
        ideal: |_, _| Some(1.0),
        law: |curve, n| {
            let (law, least) = (curve.usl?, curve.n(curve.base()?));
            Some(law.per_s(n) / n / (law.per_s(least) / least))
        },
    },
    Field {
        unit: "client CPU per request",
        format: Format::Micros,
        height: 84.0,
        value: |point| point.cpu_us_per_attempt,
        ideal: |curve, _| Some(curve.base()?.cpu_us_per_attempt?.median),
        law: |_, _| None,
    },
    Field {
        unit: "balance: mean time per item of the shards, relative to the slowest",
        format: Format::Percent,
        height: 84.0,
        value: |point| point.balance,
        ideal: |_, _| Some(1.0),
        law: |_, _| None,
    },
];

impl Field {
    fn panel(&self, scaling: &Scaling, sizes: &Sizes) -> Panel {
        let mut marks = Vec::new();
        for curve in &scaling.curves {
            let smooth = |value: fn(&Curve, f64) -> Option<f64>| {
                let all = sizes.smooth().filter_map(|n| Some((n, value(curve, n)?)));
                Shape::Line(all.collect())
            };
            marks.push(Mark::new(Role::Asked, "linear", smooth(self.ideal)));
            let law = Mark::new(
                Role::Reference,
                "Universal Scalability Law",
                smooth(self.law),
            );
            marks.push(law.dashed(Dash::Dotted));
        }
        for (number, curve) in scaling.curves.iter().enumerate() {
            let name = match scaling.curves.len() {
                1 => "measured, with its interval".to_owned(),
                _ => curve.held.to_string(),
            };
            let (mut line, mut dots, mut rings) = (Vec::new(), Vec::new(), Vec::new());
            for point in &curve.points {
                let Some(estimate) = (self.value)(point) else {
                    continue;
                };
                let dot = Dot {
                    at: (curve.n(point), estimate.median),
                    interval: estimate.interval.map(|it| (it.low, it.high)),
                };
                line.push(dot.at);
                let is_answer = curve.is_answer(point);
                if is_answer { &mut dots } else { &mut rings }.push(dot);
            }
            let role = Role::Run(number);
            marks.extend([
                Mark::new(role, name.clone(), Shape::Line(line)).dashed(Dash::Solid),
                Mark::new(role, name, Shape::Dots(dots)),
                Mark::new(role, "CPUs shared with the target", Shape::Rings(rings)),
            ]);
        }
        marks.retain(Mark::is_known);
        Panel {
            x: sizes.axis(scaling),
            y: Axis::new(self.unit, Range::FromZero, self.format),
            height: self.height,
            marks,
        }
    }
}
