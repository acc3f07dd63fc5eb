//! Response times by percentile, on an axis of nines.

use serde::{Serialize, Serializer};

use super::markup::Html;
use super::panels::Digits;
use crate::run::report::Report;
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
    /// What is known of all of them, in words.
    #[serde(skip)]
    words: String,
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

fn digits(values: Vec<f64>) -> Vec<Digits> {
    values.into_iter().map(Digits).collect()
}

impl Percentiles {
    /// None without a distribution.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let main = report.main_series();
        let latency = report.latency(main)?;
        let distribution = latency.distribution()?;
        let end = distribution.nines().filter(|end| *end > 0.0)?;
        let nines: Vec<f64> = (0..=POINTS)
            .map(|n| end * f64::from(n) / f64::from(POINTS))
            .collect();
        let response = distribution.us_at(nines.iter().copied());
        let service = report
            .latency(Series::ServiceOk)
            .filter(|_| main != Series::ServiceOk)
            .and_then(|latency| Some(latency.distribution()?.us_at(nines.iter().copied())));
        let places = [0.5f64, 0.9, 0.99, 0.999]
            .map(|q| -(1.0 - q).log10())
            .into_iter()
            .chain([end]);
        let (mut points, mut words) = (Vec::new(), Vec::new());
        for ((name, key, us), nines) in latency.figures().into_iter().zip(places) {
            let Some((us, text)) = us.zip(latency.shown(key, us)) else {
                continue;
            };
            words.push(format!("{name} {text}"));
            // A bound lies on no curve.
            if nines <= end && (nines >= end || !latency.is_at_least(key)) {
                points.push(Point {
                    name,
                    nines,
                    us,
                    text,
                });
            }
        }
        Some(Self {
            service: service
                .filter(|service| {
                    service
                        .iter()
                        .zip(&response)
                        .any(|(service, response)| response - service > DIFFER * response)
                })
                .map(digits),
            nines: digits(nines),
            response: digits(response),
            points,
            words: words.join(", "),
            population: counted(distribution.all(), "request"),
            title: match main {
                Series::ResponseOk => "Response time by percentile",
                _ => "Service time by percentile",
            },
        })
    }

    pub(super) fn write(&self, html: &mut Html) {
        html.with("section", &[("id", "percentiles")], |html| {
            html.classed("div", "head", |html| {
                html.say("h2", self.title);
                html.with("span", &[("class", "hint"), ("id", "percentile")], |html| {
                    html.text(&self.population);
                });
            });
            let label = format!("{}: {}", self.title, self.words);
            html.classed("div", "box", |html| {
                let plot = [
                    ("role", "img"),
                    ("data-plot", "percentiles"),
                    ("aria-label", &*label),
                ];
                html.with("div", &plot, |_| {});
                html.classed("p", "legend", |html| {
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
            html.element("noscript", |html| html.say("p", &self.words));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_words_and_no_dot() {
        let text = include_str!("../../../example/result.json");
        let mut report: Report = serde_json::from_str(text).unwrap();
        let latency = report.latency.get_mut("response").unwrap();
        latency.at_least = ["p99_us", "p999_us", "max_us"].map(str::to_owned).into();
        let curves = Percentiles::of(&report).unwrap();
        let dots: Vec<_> = curves.points.iter().map(|point| point.name).collect();
        assert_eq!(dots, ["p50", "p90", "max"]);
        assert_eq!(curves.words.split(", ").count(), 5);
    }
}
