//! Growth of throughput: four fields over one axis of sizes. Throughput beside its linear growth, efficiency, CPU per attempt,
//! and the balance of the shards.

use super::Plot;
use super::canvas::{Canvas, Head, Key, LABEL, Mark, sheet, text_width};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel};
use super::scale::{Scale, short, time, trimmed};
use crate::studies::scale::scaling_headline;
use crate::studies::scale::{Ceiling, Curve, Estimate, Fit, Point, Scaling};

/// The height of the field of throughput, and of each of the others.
const FIELDS: [f64; 4] = [230.0, 84.0, 84.0, 84.0];

/// Between two fields, for the next one's unit.
const GAP: f64 = 40.0;

/// From this many times the smallest size on, sizes are in equal factors: in equal steps the small ones would lie on each other.
const MANY: f64 = 40.0;

/// Between two labels of the axis.
const APART: f64 = 6.0;

/// Points that a curve of a law is drawn through.
const SMOOTH: u32 = 64;

/// Limit on a ceiling that is drawn, as a multiple of all else: a higher one would press the rest to the ground.
const NEAR: f64 = 1.6;

/// The plot of a scaling.
#[must_use]
pub fn scaling(scaling: &Scaling) -> Plot {
    let lanes: Vec<Lane<'_>> =
        scaling.curves.iter().zip(Ink::LINES.into_iter().cycle()).map(|(curve, ink)| Lane { curve, ink }).collect();
    let names: Vec<String> = lanes.iter().map(|lane| lane.curve.held.to_string()).collect();
    let field = Field { lanes, sizes: Sizes::of(scaling), ceiling: ceiling(scaling) };
    let head = Head {
        name: "scaling",
        title: "How throughput grows",
        caption: scaling_headline(scaling),
        keys: field.keys(&names),
    };
    let height = ABOVE + FIELDS.iter().sum::<f64>() + 3.0 * GAP + BELOW;
    sheet(head, height, |canvas, top| field.draw(canvas, top + ABOVE))
}

/// A ceiling that there is room for.
fn ceiling(scaling: &Scaling) -> Option<f64> {
    let points = scaling.curves.iter().flat_map(|curve| &curve.points);
    let most = points.filter_map(|point| point.items_per_s).map(|x| x.median).fold(0.0, f64::max);
    scaling.ceiling.as_ref().and_then(Ceiling::per_s).filter(|ceiling| *ceiling <= most * NEAR)
}

/// A curve and its colour.
struct Lane<'a> {
    curve: &'a Curve,
    ink: Ink,
}

/// The sizes, least first, and how they become places.
struct Sizes {
    all: Vec<f64>,
    scale: Scale,
    axis: &'static str,
}

impl Sizes {
    fn of(scaling: &Scaling) -> Self {
        let curves = || scaling.curves.iter();
        let mut all: Vec<f64> = curves().flat_map(|curve| curve.points.iter().map(|point| curve.n(point))).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let (least, most) = (all.first().copied().unwrap_or(1.0), all.last().copied().unwrap_or(1.0));
        let scale =
            if most / least >= MANY { Scale::Log(least * 0.8, most * 1.1) } else { Scale::Linear(0.0, most * 1.03) };
        let axis = curves().next().map_or("shards", |curve| curve.held.axis().name());
        Self { all, scale, axis }
    }

    /// Sizes whose labels do not lie on each other; the largest is always one.
    fn ticks(&self, panel: &Panel<'_, '_>) -> Vec<f64> {
        let mut ticks: Vec<f64> = Vec::new();
        for n in self.all.iter().rev() {
            let half = |n: f64| text_width(&trimmed(n), LABEL) / 2.0;
            let fits =
                ticks.last().is_none_or(|last| panel.x_of(*last) - half(*last) - APART >= panel.x_of(*n) + half(*n));
            if fits {
                ticks.push(*n);
            }
        }
        ticks
    }

    /// Places from the least to the most, close enough for a curve.
    fn smooth(&self) -> impl Iterator<Item = f64> {
        let (least, most) = (self.all.first().copied().unwrap_or(1.0), self.all.last().copied().unwrap_or(1.0));
        (0..=SMOOTH).map(move |step| least + (most - least) * f64::from(step) / f64::from(SMOOTH))
    }
}

/// All there is to draw.
struct Field<'a> {
    lanes: Vec<Lane<'a>>,
    sizes: Sizes,
    ceiling: Option<f64>,
}

/// Measure that a field shows.
struct Shown {
    unit: &'static str,
    label: fn(f64) -> String,
    value: fn(&Point) -> Option<Estimate>,
    /// Value of a curve if nothing got worse.
    ideal: fn(&Curve, f64) -> Option<f64>,
    /// The grid of its field.
    grid: fn(Scale) -> Vec<f64>,
}

/// The grid of a field that has no room for more: each second one.
fn sparse(scale: Scale) -> Vec<f64> {
    scale.ticks().into_iter().step_by(2).collect()
}

/// Scale of a field of shares, which may exceed 1.
fn halves(_: Scale) -> Vec<f64> {
    vec![0.0, 0.5, 1.0]
}

const THROUGHPUT: Shown = Shown {
    unit: "good items per second",
    label: short,
    value: |point| point.items_per_s,
    ideal: |curve, n| {
        let base = curve.base()?;
        Some(base.items_per_s?.median * n / curve.n(base))
    },
    grid: Scale::ticks,
};

const OTHERS: [Shown; 3] = [
    Shown {
        unit: "efficiency: throughput of each part, percent of the smallest size's",
        label: percent,
        value: |point| point.efficiency,
        ideal: |_, _| Some(1.0),
        grid: halves,
    },
    Shown {
        unit: "CPU of the client per attempt",
        label: time,
        value: |point| point.cpu_us_per_attempt,
        ideal: |curve, _| Some(curve.base()?.cpu_us_per_attempt?.median),
        grid: sparse,
    },
    Shown {
        unit: "balance: mean time of the shards for an item, percent of the slowest one's",
        label: percent,
        value: |point| point.balance,
        ideal: |_, _| Some(1.0),
        grid: halves,
    },
];

fn percent(part: f64) -> String {
    trimmed(part * 100.0)
}

impl Field<'_> {
    fn keys<'n>(&self, names: &'n [String]) -> Vec<Key<'n>> {
        let ink = self.lanes.first().map_or(Ink::Blue, |lane| lane.ink);
        let mut keys = match self.lanes.len() {
            0 | 1 => vec![Key::new("measured, with its interval", Mark::Dot(ink))],
            _ => self.lanes.iter().zip(names).map(|(lane, name)| Key::new(name, Mark::Line(lane.ink, 2.0))).collect(),
        };
        let points = || self.lanes.iter().flat_map(|lane| lane.curve.points.iter().map(|point| (lane.curve, point)));
        if points().any(|(curve, point)| !curve.is_answer(point)) {
            keys.push(Key::new("CPUs shared with the target", Mark::Ring(ink)));
        }
        keys.push(Key::new("linear", Mark::Line(Ink::Asked, 3.0)));
        if self.lanes.iter().any(|lane| lane.curve.fit.is_some()) {
            keys.push(Key::new("law (USL)", Mark::Line(Ink::Text, 1.25)));
        }
        if self.ceiling.is_some() {
            keys.push(Key::new("what this side can do", Mark::Line(Ink::Orange, 1.5)));
        }
        keys
    }

    fn draw(&self, canvas: &Canvas<'_>, mut top: f64) {
        let shown = std::iter::once(&THROUGHPUT).chain(&OTHERS);
        for (number, (shown, height)) in shown.zip(FIELDS).enumerate() {
            let y = self.scale(shown, number);
            let panel = Panel::between(canvas, [top, top + height], [self.sizes.scale, y]);
            panel.vertical_at(&(shown.grid)(y), &Axis { unit: shown.unit, label: &shown.label });
            self.ideal(shown, &panel);
            if number == 0 {
                self.laws(&panel);
            }
            for lane in &self.lanes {
                lane.draw(shown, &panel);
            }
            if number + 1 == FIELDS.len() {
                let axis = Axis { unit: self.sizes.axis, label: &trimmed };
                panel.horizontal_at(&self.sizes.ticks(&panel), &axis);
            } else {
                panel.base();
            }
            top += height + GAP;
        }
    }

    /// From 0 to what there is to show.
    fn scale(&self, shown: &Shown, number: usize) -> Scale {
        let most = self.sizes.all.last().copied().unwrap_or(1.0);
        let of_points = self.lanes.iter().flat_map(|lane| {
            lane.curve.points.iter().filter_map(|point| {
                let estimate = (shown.value)(point)?;
                Some(estimate.interval.map_or(estimate.median, |between| between.high))
            })
        });
        let ideal = self.lanes.iter().filter_map(|lane| (shown.ideal)(lane.curve, most));
        Scale::from_zero(of_points.chain(ideal).chain(self.ceiling.filter(|_| number == 0)))
    }

    fn ideal(&self, shown: &Shown, panel: &Panel<'_, '_>) {
        for lane in &self.lanes {
            let line: Vec<(f64, f64)> =
                self.sizes.smooth().filter_map(|n| Some((n, (shown.ideal)(lane.curve, n)?))).collect();
            panel.curve(&line, Ink::Asked, 3.0);
        }
    }

    /// The laws, and what the client can do.
    fn laws(&self, panel: &Panel<'_, '_>) {
        let draw = |fit: &Fit| {
            let line: Vec<(f64, f64)> = self.sizes.smooth().map(|n| (n, fit.at(n))).collect();
            panel.curve(&line, Ink::Text, 1.25);
        };
        self.lanes.iter().filter_map(|lane| lane.curve.fit.as_ref()).for_each(draw);
        if let Some(ceiling) = self.ceiling {
            let line: Vec<(f64, f64)> = self.sizes.smooth().map(|n| (n, ceiling)).collect();
            panel.curve(&line, Ink::Orange, 1.5);
        }
    }
}

impl Lane<'_> {
    fn draw(&self, shown: &Shown, panel: &Panel<'_, '_>) {
        let Lane { curve, ink } = *self;
        let points = || curve.points.iter().filter_map(|point| Some((point, curve.n(point), (shown.value)(point)?)));
        // With a law there is a line already.
        if curve.fit.is_none() || shown.unit != THROUGHPUT.unit {
            let line: Vec<(f64, f64)> = points().map(|(_, n, estimate)| (n, estimate.median)).collect();
            panel.curve(&line, ink, 1.5);
        }
        for (point, n, estimate) in points() {
            if let Some(between) = estimate.interval {
                panel.curve(&[(n, between.low), (n, between.high)], ink, 2.0);
            }
            panel.point((n, estimate.median), ink, curve.is_answer(point));
        }
    }
}
