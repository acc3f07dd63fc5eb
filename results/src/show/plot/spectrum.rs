//! The whole distribution of the latency, by the number of nines.

use super::Plot;
use super::canvas::{Head, Key, Mark, sheet};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel};
use super::scale::{Scale, time};
use crate::run::report::{Latency, Report};
use crate::show::text::times::{population, unfinished};
use crawlmark_harness::stats::{SAMPLES_BEYOND, Series};
use crawlmark_harness::units::{grouped, micros};

const FIELD: f64 = 240.0;

/// Points of a curve: three pixels each.
const POINTS: u32 = 180;

/// A curve: nines and microseconds.
pub(super) struct Curve<'a> {
    key: Key<'a>,
    points: Vec<(f64, f64)>,
    /// Samples, those that were cut off included.
    total: f64,
    censored: u64,
}

/// None when no attempt was answered, or timed.
pub(super) fn plot(report: &Report) -> Option<Plot> {
    let line = |label, ink| Key::new(label, Mark::Line(ink, 2.0));
    let wanted = [
        (Series::ServiceOk, line("service", Ink::Blue)),
        (Series::ResponseOk, line("response", Ink::Vermilion)),
        (Series::ServiceThrottled, line("service of throttled answers", Ink::Orange)),
        (Series::ServiceError, line("service of failed attempts", Ink::Purple)),
    ];
    let curves: Vec<Curve<'_>> =
        wanted.iter().filter_map(|(series, key)| Curve::of(report.latency(*series)?, *key)).collect();
    let caption = caption(report, &curves);
    (!curves.is_empty()).then(|| draw("spectrum", caption, &curves))
}

/// The curves on a common sheet.
pub(super) fn draw(name: &'static str, caption: String, curves: &[Curve<'_>]) -> Plot {
    let most = curves.iter().map(|curve| curve.total).fold(10.0, f64::max);
    let x = Scale::Linear(0.0, most.log10());
    let y = Scale::log(curves.iter().flat_map(|curve| &curve.points).map(|(_, us)| *us).collect::<Vec<_>>());
    let keys = curves.iter().map(|curve| curve.key).collect();
    let head = Head { name, title: "Latency by percentile", caption, keys };
    sheet(head, ABOVE + FIELD + BELOW, |canvas, top| {
        let top = top + ABOVE;
        let panel = Panel::between(canvas, [top, top + FIELD], [x, y]);
        panel.vertical(&Axis { unit: "latency (log scale)", label: &time });
        panel.horizontal(&Axis { unit: "percentile, by its nines", label: &nines });
        for curve in curves {
            if let Mark::Line(ink, width) = curve.key.mark {
                panel.curve(&curve.points, ink, width);
                if let Some((x, y)) = curve.points.last() {
                    canvas.dot((panel.x_of(*x), panel.y_of(*y)), ink);
                }
            }
        }
        if curves.is_empty() {
            panel.note("no attempt was answered");
        }
    })
}

impl<'a> Curve<'a> {
    /// None without a value that lies in the histogram.
    pub(super) fn of(latency: &Latency, key: Key<'a>) -> Option<Self> {
        let distribution = latency.distribution()?;
        let histogram = distribution.histogram();
        let inside = histogram.len() as f64;
        // What overflowed or was cut off is slower than what the histogram holds, as far as is known: it ranks last.
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
        let slowest = (end, histogram.max() as f64 / 1e3);
        let points = (0..=POINTS).map(point).chain([slowest]).collect();
        Some(Self { key, points, total, censored: latency.censored })
    }
}

/// The percentile that so many nines stand for: `0 %`, `90 %`, `99.9 %`; empty between them.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 2 and 12")]
fn nines(count: f64) -> String {
    match count {
        // Between two of them.
        n if (n - n.round()).abs() > 1e-6 => String::new(),
        n if n < 0.5 => "0 %".to_owned(),
        n if n < 1.5 => "90 %".to_owned(),
        n if n < 2.5 => "99 %".to_owned(),
        // Enough decimals to show each nine.
        n if n < 12.0 => format!("99.{} %", "9".repeat((n.round() as usize).saturating_sub(2))),
        _ => String::new(),
    }
}

fn caption(report: &Report, curves: &[Curve<'_>]) -> String {
    let (what, series) =
        if report.schedule.is_some() { ("response", Series::ResponseOk) } else { ("service", Series::ServiceOk) };
    let found = report.latency(series).filter(|latency| latency.count > 0);
    let (Some(latency), Some(curve)) = (found, curves.iter().find(|curve| curve.key.label == what)) else {
        return "No attempt had a good answer; the others took this long.".to_owned();
    };
    let percentiles = [
        ("p999_us", latency.p999_us, "99.9 %"),
        ("p99_us", latency.p99_us, "99 %"),
        ("p90_us", latency.p90_us, "90 %"),
        ("p50_us", latency.p50_us, "Half"),
    ];
    let all = population(report, latency);
    // What is only known to be no less says nothing about the most.
    let mut known = percentiles.into_iter().filter(|(key, ..)| !latency.is_at_least(key));
    let tail = known
        .find_map(|(_, us, of)| Some(format!("{of} of {all} had a {what} time of at most {}", micros(us?))))
        .unwrap_or_else(|| match latency.p50_us {
            Some(_) => format!("Too many were cut off for a percentile of the {what} time of {all}"),
            None => {
                format!("{all}: too few for a percentile of the {what} time")
            }
        });
    let slowest =
        latency.slowest_us().map_or_else(String::new, |us| format!("; the slowest answer took {}", micros(us)));
    let cut = match curve.censored {
        0 => String::new(),
        1 => "; the one that did not end ranks beyond the end of the curve".to_owned(),
        n => format!("; the {} that {} rank beyond the end of the curve", grouped(n), unfinished(report)),
    };
    let beyond = if curve.total < (SAMPLES_BEYOND * 10) as f64 { "; with so few, the tail is chance" } else { "" };
    format!("{tail}{slowest}{cut}{beyond}.")
}
