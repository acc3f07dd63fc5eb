//! Requests per second that were offered, sent and answered, and below them requests in flight and
//! response times; the overload is shaded.

use super::{Overload, OverloadSecond};
use crate::show::chart::{Axis, Dash, Format, Mark, Panel, Range, Role, Shape, Step};

/// Heights of the panels, CSS pixels.
const RATES: f64 = 198.0;
const OTHERS: f64 = 72.0;

/// Value of a second.
type Value = fn(&OverloadSecond) -> Option<f64>;

const LINES: [(Role, &str, Value); 5] = [
    (Role::Limit, "late", |of| {
        (of.late > 0).then_some(of.late as f64)
    }),
    (Role::Throttled, "refused", |of| Some(of.refused as f64)),
    (Role::Failed, "timed out, failed", |of| {
        Some((of.timed_out + of.failed) as f64)
    }),
    (Role::Retried, "sent with retries", |of| {
        (of.retries > 0).then_some(of.sent as f64)
    }),
    (Role::Asked, "offered", |of| Some(of.offered)),
];

/// The panels of an overload; none without a second.
pub(super) fn panels(of: &Overload) -> Vec<Panel> {
    if of.seconds.is_empty() {
        return Vec::new();
    }
    let good = steps(of, |second| Some(second.good as f64));
    let capacity = Shape::Across(of.question.capacity_per_s);
    let mut rates = vec![
        Mark::new(Role::Good, "good", Shape::Areas(good)),
        Mark::new(Role::Reference, "capacity", capacity).dashed(Dash::Dashed),
    ];
    for (role, name, value) in LINES {
        rates.push(Mark::new(role, name, Shape::Steps(steps(of, value))));
    }
    let in_flight = steps(of, |second| Some(second.in_flight.into()));
    let times = steps(of, |second| second.response_p50_us);
    Panel::below_each_other(vec![
        panel(
            of,
            Axis::new(
                "requests/s; shaded: the overload",
                Range::FromZero,
                Format::Number,
            ),
            RATES,
            rates,
        ),
        panel(
            of,
            Axis::new("in flight", Range::FromZero, Format::Number),
            OTHERS,
            vec![Mark::new(Role::Connections, "", Shape::Steps(in_flight))],
        ),
        panel(
            of,
            Axis::new("response time, p50", Range::FromZero, Format::Micros),
            OTHERS,
            vec![Mark::new(Role::P50, "", Shape::Steps(times))],
        ),
    ])
}

fn panel(of: &Overload, y: Axis, height: f64, mut marks: Vec<Mark>) -> Panel {
    let [before_s, overload_s, after_s] = of.question.stages_s.map(|s| s as f64);
    let from = before_s;
    let band = Shape::Band(from, from + overload_s);
    marks.retain(Mark::is_above_zero);
    marks.insert(0, Mark::new(Role::Shade, "", band));
    Panel {
        x: Axis::new(
            "s",
            Range::Between(0.0, from + overload_s + after_s),
            Format::Number,
        ),
        y,
        height,
        marks,
        cells: Vec::new(),
    }
}

fn steps(of: &Overload, value: Value) -> Vec<Step> {
    of.seconds
        .iter()
        .map(|second| {
            let from = second.start_s as f64;
            Step {
                from,
                to: from + 1.0,
                value: value(second),
                base: 0.0,
            }
        })
        .collect()
}
