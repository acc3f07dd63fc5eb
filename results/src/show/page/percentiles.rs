//! Response times by percentile, on an axis of nines.

use serde::{Serialize, Serializer};

use super::markup::Html;
use super::panels::Digits;
use crate::run::report::{Distribution, Report};
use crate::show::text::counted;
use crawlmark_harness::stats::Series;

/// Points of a curve.
const POINTS: u32 = 160;

/// Relative difference from which on the service times are drawn beside the response times.
const DIFFER: f64 = 0.04;

/// The curves of a run.
#[derive(Serialize)]
pub(super) struct Percentiles {
    /// Nines: 2 is 99 %.
    nines: Vec<Digits>,
    response: Vec<Digits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Vec<Digits>>,
    /// Percentiles with a name.
    points: Vec<Point>,
    #[serde(skip)]
    population: String,
    #[serde(skip)]
    title: &'static str,
}

struct Point {
    name: &'static str,
    nines: f64,
    us: f64,
    text: String,
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.name, Digits(self.nines), Digits(self.us), &self.text).serialize(to)
    }
}

impl Percentiles {
    /// None without a distribution.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let main = report.main_series();
        let latency = report.latency(main)?;
        let distribution = latency.distribution()?;
        let inside = distribution.histogram().len() as f64;
        let all = distribution.all() as f64;
        if inside < 1.0 || all < inside {
            return None;
        }
        // To the last sample that has a value, which stands for as many nines as there are samples.
        let end = (all / (all - inside).max(1.0)).log10();
        if end <= 0.0 {
            return None;
        }
        let nines: Vec<f64> = (0..=POINTS)
            .map(|n| end * f64::from(n) / f64::from(POINTS))
            .collect();
        let response = curve(&distribution, &nines);
        let service = report
            .latency(Series::ServiceOk)
            .filter(|_| main != Series::ServiceOk)
            .and_then(|latency| Some(curve(&latency.distribution()?, &nines)));
        let differs = |service: &Vec<f64>| {
            service
                .iter()
                .zip(&response)
                .any(|(service, response)| response - service > DIFFER * response)
        };
        let places = [0.5f64, 0.9, 0.99, 0.999]
            .map(|q| -(1.0 - q).log10())
            .into_iter()
            .chain([end]);
        let points: Vec<Point> = latency
            .figures()
            .into_iter()
            .zip(places)
            .filter_map(|((name, key, us), nines)| {
                Some(Point {
                    name,
                    nines: nines.min(end),
                    us: us?,
                    text: latency.shown(key, us)?,
                })
            })
            .collect();
        let digits = |values: Vec<f64>| values.into_iter().map(Digits).collect();
        Some(Self {
            service: service.filter(differs).map(digits),
            nines: digits(nines),
            response: digits(response),
            points,
            population: counted(distribution.all(), "request"),
            title: match main {
                Series::ResponseOk => "Response time by percentile",
                _ => "Service time by percentile",
            },
        })
    }

    pub(super) fn write(&self, html: &mut Html) {
        html.with("section", &[("id", "percentiles")], |html| {
            html.with("div", &[("class", "head")], |html| {
                html.say("h2", self.title);
                html.with("span", &[("class", "hint"), ("id", "percentile")], |html| {
                    html.text(&self.population);
                });
            });
            let points = self
                .points
                .iter()
                .map(|point| format!("{} {}", point.name, point.text))
                .collect::<Vec<_>>()
                .join(", ");
            let label = format!("{}: {points}", self.title);
            html.with("div", &[("class", "box")], |html| {
                let plot = [
                    ("role", "img"),
                    ("data-plot", "percentiles"),
                    ("aria-label", &*label),
                ];
                html.with("div", &plot, |_| {});
                html.with("p", &[("class", "legend")], |html| {
                    if self.service.is_some() {
                        html.with(
                            "i",
                            &[("class", "sw l"), ("style", "border-color:var(--blue)")],
                            |_| {},
                        );
                        html.text("response, from when it was due ");
                        html.with(
                            "i",
                            &[("class", "sw s"), ("style", "border-color:var(--quiet)")],
                            |_| {},
                        );
                        html.text("service, from when it was sent");
                    }
                });
            });
            html.element("noscript", |html| html.say("p", &points));
        });
    }
}

/// The times at these nines, us.
fn curve(distribution: &Distribution<'_>, nines: &[f64]) -> Vec<f64> {
    let histogram = distribution.histogram();
    let (inside, all) = (histogram.len().max(1) as f64, distribution.all() as f64);
    let us = nines.iter().map(|nines| {
        let rank = all * (1.0 - 10f64.powf(-nines));
        let quantile = (rank / inside).clamp(0.0, 1.0);
        histogram.value_at_quantile(quantile) as f64 / 1e3
    });
    us.collect()
}
