//! Top of a page: verdict, headline, what to do, figures, and a strip of further facts.

use std::fmt::Write as _;

use super::colours::{tint, tone};
use super::markup::Html;
use crate::judge::{Finding, FindingKind, Severity as Gravity};
use crate::run::report::{Latency, Report};
use crate::show::doc::{Doc, Figure, Severity, escaped, write_fenced};
use crate::show::figures::{self, HELD};
use crate::show::text::{
    capital, counted, decimal, grouped, grouped_f64, micros, seconds, shell_word,
};
use crawlmark_harness::stats::Percentile;

/// Top of a page.
#[derive(Debug, Default)]
pub(super) struct Hero {
    /// Tint: `ok`, `warn`, `bad` or `info`.
    tint: &'static str,
    pills: Vec<Pill>,
    pub(super) headline: String,
    remedy: String,
    /// Further sentences.
    list: Vec<String>,
    /// Each with its tone.
    figures: Vec<(Figure, &'static str)>,
    also: Vec<(&'static str, String)>,
    /// Command that repeats the run; empty if none is known.
    command: String,
}

/// A verdict.
#[derive(Debug)]
struct Pill {
    tone: &'static str,
    text: String,
    /// The ID of the section with the details, and the text of the link to it.
    link: Option<(&'static str, String)>,
    note: String,
}

/// Figures of a run, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Good,
    NotGood,
    Times,
}

/// Places of the figures, in their order; the median has none.
const PLACES: [Option<Place>; 5] = [
    Some(Place::Good),
    Some(Place::NotGood),
    None,
    Some(Place::Times),
    Some(Place::Times),
];

/// Figures that a finding is about: they have its tone.
const ABOUT: [(FindingKind, Place); 9] = [
    (FindingKind::RateMissed, Place::Good),
    (FindingKind::NeverSent, Place::Good),
    (FindingKind::RequestsFailed, Place::NotGood),
    (FindingKind::AllFailed, Place::NotGood),
    (FindingKind::Throttled, Place::NotGood),
    (FindingKind::CutOff, Place::NotGood),
    (FindingKind::NotFound, Place::NotGood),
    (FindingKind::Stalled, Place::Times),
    (FindingKind::TargetThrottled, Place::Times),
];

/// Return the first thing to say of a run: its gravest finding, or else its answer.
pub fn headline(report: &Report) -> String {
    match gravest(report) {
        Some(finding) => finding.headline(),
        None => answer(report),
    }
}

/// Return what a run without a problem came to: its rate, and the time that most responses took.
pub fn answer(report: &Report) -> String {
    let rate = match (report.plan.run.steady_rate(), report.rate_ratio) {
        (Some(rate), Some(ratio))
            if ratio >= HELD && report.totals.attempts_per_s >= rate * HELD =>
        {
            format!("Held {}", grouped_f64(rate))
        }
        _ => format!("Made {}", decimal(report.totals.attempts_per_s)),
    };
    let latency = report.latency(report.main_series());
    let distribution = latency.and_then(Latency::distribution);
    let known = distribution.and_then(|distribution| {
        [(0.99, "99 %"), (0.9, "90 %"), (0.5, "half")]
            .into_iter()
            .find_map(|(q, share)| match distribution.percentile(q) {
                Percentile::Exact(ns) => Some(format!(
                    "; {share} took {} or less",
                    micros(ns as f64 / 1e3)
                )),
                _ => None,
            })
    });
    format!("{rate} requests a second{}", known.unwrap_or_default())
}

/// The first finding above information.
fn gravest(report: &Report) -> Option<&Finding> {
    report
        .findings
        .first()
        .filter(|first| first.severity() > Gravity::Info)
}

impl Hero {
    /// Top of the page of a run, or of a part of one, whose outcome only its document knows.
    pub(super) fn of_run(report: &Report, doc: &Doc) -> Self {
        if report.validity.checked.is_empty() {
            return Self::of_doc(doc);
        }
        let first = gravest(report);
        let failed = report.thresholds(Some(false)) > 0;
        let tints = [
            tint(report.validity.verdict.into()),
            first.map_or("ok", |first| tone(first.severity())),
            if failed { "bad" } else { "ok" },
        ];
        let tint = ["bad", "warn", "ok"]
            .into_iter()
            .find(|tint| tints.contains(tint));
        Self {
            tint: tint.unwrap_or("info"),
            pills: [Some(validity(report)), thresholds(report)]
                .into_iter()
                .flatten()
                .collect(),
            headline: headline(report),
            remedy: first.and_then(Finding::remedy).unwrap_or_default(),
            list: Vec::new(),
            figures: toned(report),
            also: figures::others(report).collect(),
            command: command(report),
        }
    }

    /// Top of the page of a document.
    pub(super) fn of_doc(doc: &Doc) -> Self {
        let status = doc.outcome();
        let severity = status.map_or(Severity::Neutral, |status| status.severity);
        let figures = doc.figures().iter().map(|one| (one.clone(), ""));
        Self {
            tint: tint(severity),
            headline: status.map_or_else(|| doc.title().to_owned(), |status| status.title.clone()),
            remedy: status.map_or_else(String::new, |status| status.text.clone()),
            list: status.map_or_else(Vec::new, |status| status.list.clone()),
            figures: figures.collect(),
            ..Self::default()
        }
    }

    /// Top of the page of a run that goes on: no verdict, and no remedies yet.
    pub(super) fn live(report: &Report, step: &str) -> Self {
        let first = gravest(report);
        let so_far = [
            seconds(report.totals.duration_s),
            format!("{} requests", grouped(report.totals.attempts)),
            step.to_owned(),
        ];
        let known = so_far.into_iter().filter(|text| !text.is_empty());
        Self {
            tint: first.map_or("info", |first| tone(first.severity())),
            pills: vec![Pill {
                tone: "info",
                text: "Live".to_owned(),
                link: None,
                note: known.collect::<Vec<_>>().join(", "),
            }],
            headline: first.map_or("Nothing unusual so far".to_owned(), Finding::headline),
            figures: live_figures(report),
            ..Self::default()
        }
    }

    pub(super) const fn tint(&self) -> &'static str {
        self.tint
    }

    pub(super) fn write(&self, html: &mut Html) {
        let class = format!("hero t-{}", self.tint);
        let hero = [
            ("class", &*class),
            ("aria-label", "Verdict and figures"),
            ("id", "outcome"),
        ];
        html.with("section", &hero, |html| {
            html.classed("div", "verdict", |html| {
                if !self.pills.is_empty() {
                    html.classed("div", "pills", |html| {
                        self.pills.iter().for_each(|pill| pill.write(html));
                    });
                }
                html.element("h1", |html| html.sentences(&self.headline));
                if !self.remedy.is_empty() {
                    html.classed("p", "do", |html| {
                        if !self.pills.is_empty() {
                            html.element("b", |html| html.text("Do:"));
                            html.text(" ");
                        }
                        html.sentences(&self.remedy);
                    });
                }
                if !self.list.is_empty() {
                    html.element("ul", |html| {
                        for sentence in &self.list {
                            html.element("li", |html| html.sentences(sentence));
                        }
                    });
                }
            });
            if !self.figures.is_empty() {
                html.with("dl", &[("class", "figs"), ("id", "figures")], |html| {
                    self.figures
                        .iter()
                        .for_each(|(figure, tone)| write_figure(html, figure, tone));
                });
            }
            if !self.also.is_empty() {
                html.classed("div", "also", |html| {
                    for (name, value) in &self.also {
                        html.element("span", |html| {
                            html.text(name);
                            html.text(" ");
                            html.element("b", |html| html.text(value));
                        });
                    }
                });
            }
        });
    }

    /// Return the verdict, the figures and the command as Markdown.
    pub(super) fn summary(&self) -> String {
        let verdict = self
            .pills
            .iter()
            .map(|pill| &*pill.text)
            .collect::<Vec<_>>()
            .join(", ");
        let mut summary = format!("**{}**", escaped(&self.headline));
        if !verdict.is_empty() {
            let _ = write!(summary, " ({})", escaped(&verdict));
        }
        summary.push('\n');
        if !self.figures.is_empty() {
            let cells: [fn(&Figure) -> String; 3] = [
                |it| escaped(&it.name),
                |_| "---:".to_owned(),
                |it| escaped(&it.value),
            ];
            summary.push('\n');
            for cell in cells {
                let row: Vec<String> = self.figures.iter().map(|(it, _)| cell(it)).collect();
                let _ = writeln!(summary, "| {} |", row.join(" | "));
            }
        }
        if !self.command.is_empty() {
            summary.push('\n');
            write_fenced(&mut summary, "sh", &self.command);
        }
        summary
    }
}

impl Pill {
    fn write(&self, html: &mut Html) {
        let class = format!("pill {}", self.tone);
        html.classed("span", &class, |html| html.text(&self.text));
        if let Some((id, text)) = &self.link {
            html.link(id, text);
        }
        if !self.note.is_empty() {
            html.element("span", |html| html.text(&self.note));
        }
    }
}

fn write_figure(html: &mut Html, figure: &Figure, tone: &str) {
    let class = format!("is-{tone}");
    html.classed("div", &class, |html| {
        html.say("dt", &figure.name);
        html.element("dd", |html| {
            // The unit is smaller than the number.
            let end = figure.value.rfind([' ', '/']);
            let (number, unit) = figure.value.split_at(end.unwrap_or(figure.value.len()));
            html.element("span", |html| html.text(number));
            if !unit.is_empty() {
                html.element("small", |html| html.text(unit.trim_start()));
            }
        });
        html.classed("dd", "of", |html| {
            html.sentences(&figure.detail);
        });
    });
}

/// The command that repeats a run; empty if none is known.
fn command(report: &Report) -> String {
    report
        .command
        .as_ref()
        .filter(|command| command.is_of_run())
        .iter()
        .flat_map(|command| &command.arguments)
        .map(|word| shell_word(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The verdict and the number of checks behind it.
fn validity(report: &Report) -> Pill {
    let verdict = report.validity.verdict;
    let severity = Severity::from(verdict);
    let checks = counted(report.validity.checked.len() as u64, "check");
    Pill {
        tone: tint(severity),
        text: format!(
            "{} {}",
            severity.symbol(),
            capital(&verdict.name().replace('_', "-"))
        ),
        link: Some(("checks", checks)),
        note: verdict.meaning().to_owned(),
    }
}

fn thresholds(report: &Report) -> Option<Pill> {
    let [failed, undecided] = [Some(false), None].map(|ok| report.thresholds(ok));
    let all = counted(report.gates.len() as u64, "threshold");
    let (severity, text) = match (failed, undecided) {
        (0, 0) => (Severity::Good, report.passed().unwrap_or_default()),
        (0, undecided) => (Severity::Warning, format!("{undecided} of {all} undecided")),
        (failed, _) => (Severity::Bad, format!("{failed} of {all} failed")),
    };
    (!report.gates.is_empty()).then(|| Pill {
        tone: tint(severity),
        text: format!("{} {text}", severity.symbol()),
        link: Some(("thresholds", "details".to_owned())),
        note: String::new(),
    })
}

/// The figures of a run, each in the tone of the first finding that is about it.
fn toned(report: &Report) -> Vec<(Figure, &'static str)> {
    figures::main(report)
        .into_iter()
        .zip(PLACES.map(|place| place.map_or("", |place| tone_of(report, place))))
        .collect()
}

fn tone_of(report: &Report, place: Place) -> &'static str {
    report
        .findings
        .iter()
        .filter(|finding| finding.severity() > Gravity::Info)
        .find(|finding| ABOUT.contains(&(finding.kind(), place)))
        .map_or("", |finding| tone(finding.severity()))
}

/// The five figures of a run that goes on: those of its last second, and what was not good, and the
/// slowest, so far.
fn live_figures(report: &Report) -> Vec<(Figure, &'static str)> {
    let mut figures = toned(report);
    let Some(last) = report.intervals.last() else {
        return figures;
    };
    let us = [
        last.response_p50_us.or(last.p50_us),
        last.response_p99_us.or(last.p99_us),
    ];
    let [p50, p99] = us.map(|us| us.map_or_else(|| "-".to_owned(), micros));
    let good = format!("{}/s", decimal(last.ok as f64));
    let texts = [good, String::new(), p50, p99, String::new()];
    for ((figure, _), text) in figures.iter_mut().zip(texts) {
        if text.is_empty() {
            "so far".clone_into(&mut figure.detail);
        } else {
            figure.value = text;
            "in the last second".clone_into(&mut figure.detail);
        }
    }
    figures
}
