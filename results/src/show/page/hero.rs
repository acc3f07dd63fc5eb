//! Top of a page: verdict, headline, what to do, figures, and a strip of further facts.

use std::fmt::Write as _;

use super::colours::tone;
use super::document::tint;
use super::markup::Html;
use crate::judge::{Finding, FindingKind, Severity as Gravity};
use crate::run::report::{Latency, Limit, Report, Verdict, is_endless};
use crate::show::doc::{Doc, Figure, Severity, escaped, write_fenced};
use crate::show::text::{
    capital, counted, decimal, grouped, grouped_f64, micros, seconds, shell_word, short_percent,
};
use crawlmark_harness::stats::Percentile;

/// Part of a rate from which on it counts as held.
const HELD: f64 = 0.99;

/// Part of the requests of a run that goes on, from which on it is said that they were not good.
const NOTABLY_BAD: f64 = 0.01;

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
    figures: Vec<HeroFigure>,
    also: Vec<(String, String)>,
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

/// A figure with its unit.
#[derive(Debug, Default)]
struct HeroFigure {
    name: String,
    value: String,
    detail: String,
    tone: &'static str,
}

/// Figures of a run, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Good,
    NotGood,
    Times,
}

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
        (Some(rate), Some(ratio)) if ratio >= HELD => format!("Held {}", grouped_f64(rate)),
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
            severity(report.validity.verdict),
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
            figures: figures(report),
            also: also(report),
            command: command(report),
        }
    }

    /// Top of the page of a document.
    pub(super) fn of_doc(doc: &Doc) -> Self {
        let status = doc.outcome();
        let severity = status.map_or(Severity::Neutral, |status| status.severity);
        let figures = doc.figures().iter().map(
            |Figure {
                 name,
                 value,
                 detail,
             }| HeroFigure {
                name: name.to_string(),
                value: value.clone(),
                detail: detail.clone(),
                tone: "",
            },
        );
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
    pub(super) fn live(report: &Report) -> Self {
        let first = gravest(report);
        let totals = &report.totals;
        let bad = totals
            .attempts
            .saturating_sub(report.ledger.items.ok + report.ledger.items.not_found);
        let bad_share = bad as f64 / totals.attempts.max(1) as f64;
        let is_bad = bad_share >= NOTABLY_BAD;
        let headline = match first {
            Some(first) => first.headline(),
            None if is_bad => format!("{} of requests were not good", short_percent(bad_share)),
            None => "No stall so far".to_owned(),
        };
        Self {
            tint: first.map_or(if is_bad { "warn" } else { "info" }, |first| {
                tone(first.severity())
            }),
            pills: vec![Pill {
                tone: "info",
                text: "Live".to_owned(),
                link: None,
                note: format!(
                    "{}, {} requests",
                    seconds(report.totals.duration_s),
                    grouped(report.totals.attempts)
                ),
            }],
            headline,
            figures: figures(report),
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
            html.with("div", &[("class", "verdict")], |html| {
                if !self.pills.is_empty() {
                    html.with("div", &[("class", "pills")], |html| {
                        self.pills.iter().for_each(|pill| pill.write(html));
                    });
                }
                html.element("h1", |html| html.sentences(&self.headline));
                if !self.remedy.is_empty() {
                    html.with("p", &[("class", "do")], |html| {
                        if !self.pills.is_empty() {
                            html.with("b", &[], |html| html.text("Do:"));
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
                    self.figures.iter().for_each(|figure| figure.write(html));
                });
            }
            if !self.also.is_empty() {
                html.with("div", &[("class", "also")], |html| {
                    for (name, value) in &self.also {
                        html.element("span", |html| {
                            html.text(name);
                            html.text(" ");
                            html.with("b", &[], |html| html.text(value));
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
        let row = |cell: &dyn Fn(&HeroFigure) -> String| {
            let cells = self.figures.iter().map(cell).collect::<Vec<_>>();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut summary = format!("**{}**", escaped(&self.headline));
        if !verdict.is_empty() {
            let _ = write!(summary, " ({})", escaped(&verdict));
        }
        summary.push('\n');
        if !self.figures.is_empty() {
            let [names, values] = [row(&|it| escaped(&it.name)), row(&|it| escaped(&it.value))];
            let _ = write!(summary, "\n{names}{}{values}", row(&|_| "---:".to_owned()));
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
        html.with("span", &[("class", &class)], |html| html.text(&self.text));
        if let Some((id, text)) = &self.link {
            html.link(id, text);
        }
        if !self.note.is_empty() {
            html.with("span", &[], |html| html.text(&self.note));
        }
    }
}

impl HeroFigure {
    fn write(&self, html: &mut Html) {
        let class = format!("is-{}", self.tone);
        html.with("div", &[("class", &class)], |html| {
            html.say("dt", &self.name);
            html.element("dd", |html| {
                // The unit is smaller than the number.
                let end = self.value.rfind([' ', '/']).unwrap_or(self.value.len());
                let (number, unit) = self.value.split_at(end);
                html.with("span", &[], |html| html.text(number));
                if !unit.is_empty() {
                    html.with("small", &[], |html| html.text(unit.trim_start()));
                }
            });
            html.with("dd", &[("class", "of")], |html| {
                html.sentences(&self.detail);
            });
        });
    }
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

/// The tone of a verdict.
const fn severity(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "ok",
        Verdict::Disturbed | Verdict::NothingMeasured | Verdict::Incomplete => "bad",
        _ => "warn",
    }
}

/// Sign of a tone, for readers who do not distinguish colours.
fn sign(tone: &str) -> &'static str {
    match tone {
        "ok" => "\u{2713}",
        "warn" => "!",
        _ => "\u{d7}",
    }
}

/// The verdict and the number of checks behind it.
fn validity(report: &Report) -> Pill {
    let verdict = report.validity.verdict;
    let (tone, name) = (
        severity(verdict),
        capital(&verdict.name().replace('_', "-")),
    );
    let checks = counted(report.validity.checked.len() as u64, "check");
    Pill {
        tone,
        text: format!("{} {name}", sign(tone)),
        link: Some(("checks", checks)),
        note: verdict.meaning().to_owned(),
    }
}

/// The thresholds; none without any.
fn thresholds(report: &Report) -> Option<Pill> {
    let [failed, undecided] = [Some(false), None].map(|ok| report.thresholds(ok));
    let all = counted(report.gates.len() as u64, "threshold");
    let (tone, text) = match (failed, undecided) {
        (0, 0) => ("ok", format!("{all} passed")),
        (0, undecided) => ("warn", format!("{undecided} of {all} undecided")),
        (failed, _) => ("bad", format!("{failed} of {all} failed")),
    };
    (!report.gates.is_empty()).then(|| Pill {
        tone,
        text: format!("{} {text}", sign(tone)),
        link: Some(("thresholds", "details".to_owned())),
        note: String::new(),
    })
}

/// The five figures of a run.
fn figures(report: &Report) -> Vec<HeroFigure> {
    let tone_of = |place: Place| {
        report
            .findings
            .iter()
            .filter(|finding| finding.severity() > Gravity::Info)
            .find(|finding| ABOUT.contains(&(finding.kind(), place)))
            .map_or("", |finding| tone(finding.severity()))
    };
    let counted = report.measured();
    let attempts = counted.requests.attempts.max(1) as f64;
    let (errors, throttled) = (counted.errors(), counted.requests.throttled);
    let not_found = counted.items.not_found;
    let bad = errors.saturating_add(throttled).saturating_add(not_found);
    let others: Vec<String> = [
        (errors, "failed"),
        (throttled, "throttled"),
        (not_found, "not found"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", grouped(n)))
    .collect();
    let mut figures = vec![
        HeroFigure {
            name: "Good responses".to_owned(),
            value: report.good_rate(),
            detail: asked(report),
            tone: tone_of(Place::Good),
        },
        HeroFigure {
            name: "Not good".to_owned(),
            value: short_percent(bad as f64 / attempts),
            detail: match &others[..] {
                [] => "no errors, none throttled".to_owned(),
                others => others.join(", "),
            },
            tone: tone_of(Place::NotGood),
        },
    ];
    figures.extend(times(report, tone_of(Place::Times)));
    figures
}

/// The rate that was asked for and its part that was sent, or the items.
fn asked(report: &Report) -> String {
    let rate = report.plan.run.steady_rate();
    match (rate, report.rate_ratio) {
        (Some(rate), Some(ratio)) if ratio >= HELD => {
            format!("all of the {}/s asked were sent", decimal(rate))
        }
        (Some(rate), Some(ratio)) => format!(
            "{} of the {}/s asked were sent",
            short_percent(ratio),
            decimal(rate)
        ),
        (Some(rate), None) => format!("{}/s asked", decimal(rate)),
        (None, _) => format!("over {}", seconds(report.measured_s())),
    }
}

/// p50, p99 and the slowest, each with its neighbour.
fn times(report: &Report, slow: &'static str) -> [HeroFigure; 3] {
    let latency = report.latency(report.main_series());
    let shown = |wanted: &str| {
        let latency = latency?;
        let figures = latency.figures();
        let (_, key, us) = figures.into_iter().find(|(name, ..)| *name == wanted)?;
        latency.shown(key, us)
    };
    let beside = |name: &str| shown(name).map(|value| format!("{name} {value}"));
    let slowest = report
        .slowest
        .first()
        .map(|slow| format!("due at {}", seconds(slow.at_s)));
    let row = |name: &str, title: &str, detail: Option<String>, tone| HeroFigure {
        name: title.to_owned(),
        value: shown(name).unwrap_or_else(|| "-".to_owned()),
        detail: detail.unwrap_or_default(),
        tone,
    };
    [
        row("p50", "p50", beside("p90"), ""),
        row("p99", "p99", beside("p99.9"), slow),
        row("max", "Max", slowest, slow),
    ]
}

/// Facts that are no main figures.
fn also(report: &Report) -> Vec<(String, String)> {
    let totals = &report.totals;
    let (held, limit) = Limit::of(report, &report.binding)[0];
    let per_request = |us: Option<f64>| us.map(|us| format!("{} per request", micros(us)));
    let got = report.got.share.filter(|_| !is_endless(&report.plan.run));
    let part = |n: u64, of: u64| {
        let share = short_percent(n as f64 / of.max(1) as f64);
        (n > 0).then(|| format!("{} ({share})", grouped(n)))
    };
    let unsent = report.never_sent().map_or(0, |(unsent, _)| unsent);
    let events = (totals.events > 0).then(|| {
        let rate = totals.events as f64 / report.measured_s();
        format!("{}/s, {} in all", decimal(rate), grouped(totals.events))
    });
    let witness = report.witness.as_ref().map(|witness| match witness.agrees {
        Some(true) => "match the target's own",
        Some(false) => "differ from the target's own",
        None => "cannot be compared with the target's own",
    });
    let rows = [
        (
            "Limited by",
            (held > 0.0).then(|| format!("{}, {} of the time", limit.name(), short_percent(held))),
        ),
        (
            "Items",
            got.map(|share| {
                format!(
                    "{} of {} ({})",
                    grouped(report.got.ok),
                    grouped(report.got.of),
                    short_percent(share)
                )
            }),
        ),
        (
            "Requests",
            Some(format!(
                "{}, {}/s",
                grouped(totals.attempts),
                decimal(totals.attempts_per_s)
            )),
        ),
        ("Client CPU", per_request(report.cpu_us_per_attempt())),
        (
            "Target CPU",
            per_request(report.target_cpu_us_per_attempt()),
        ),
        (
            "In flight",
            Some(format!("{} at most", grouped(totals.peak_in_flight))),
        ),
        (
            "Rate sent over rate asked",
            report.rate_ratio.map(|ratio| format!("{ratio:.3}")),
        ),
        ("Never sent", part(unsent, totals.attempts + unsent)),
        ("Sent again", part(totals.resent, totals.attempts)),
        ("Events", events),
        ("Counts", witness.map(str::to_owned)),
    ];
    rows.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}
