//! Sums over the parts of a crawl, while they go on.

use super::Plot;
use crate::show::chart::{Axis, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::decimal;

/// Requests per second of all parts, by the time since the first look, s, beside those that the plan
/// allows.
pub fn sums(rates: &[(f64, f64)], allowed_per_s: Option<f64>) -> Plot {
    let (now_s, rate) = rates.last().copied().unwrap_or_default();
    let end_s = now_s.max(1.0);
    let rates = Shape::Line(rates.to_vec());
    let allowed = allowed_per_s.map(|per_s| {
        let line = Shape::Line(vec![(0.0, per_s), (end_s, per_s)]);
        Mark::new(Role::Asked, "allowed", line)
    });
    let marks = allowed.into_iter();
    Plot::of(Chart {
        name: "sums",
        title: "All parts",
        answer: format!("{} requests per second now", decimal(rate)),
        subtitle: String::new(),
        source: String::new(),
        panels: vec![Panel {
            x: Axis::new("s", Range::Between(0.0, end_s), Format::Number),
            y: Axis::new("requests per second", Range::FromZero, Format::Number),
            height: 168.0,
            marks: marks
                .chain([Mark::new(Role::Good, "sent", rates)])
                .collect(),
            cells: Vec::new(),
        }],
    })
}
