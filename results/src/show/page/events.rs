//! Findings as a numbered list, and what happened when, as marks over the panels.

use serde::{Serialize, Serializer};

use super::colours::tone;
use super::columns::Columns;
use super::markup::Html;
use crate::judge::{Finding, FindingKind, Severity, thresholds};
use crate::run::report::Report;
use crate::show::text::seconds;

/// The most marks: more would hide the others.
const MOST: usize = 60;

/// Something that happened at a time, s since the common start.
#[derive(Debug, Clone, Serialize)]
pub(in crate::show) struct Mark {
    pub(in crate::show) from: f64,
    pub(in crate::show) to: f64,
    #[serde(rename = "tone", serialize_with = "as_tone")]
    pub(in crate::show) severity: Severity,
    /// True if the charts are shaded while it lasts. Of stages, every other one.
    pub(in crate::show) is_shaded: bool,
    /// What it was, in a word or two.
    #[serde(skip)]
    pub(in crate::show) what: String,
    label: String,
    /// The number of its finding; none of one that no finding is about.
    number: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn as_tone<S: Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(tone(*severity))
}

/// What happened when.
pub(in crate::show) struct Events {
    /// Marks in the order of the findings, and then of time.
    pub(in crate::show) marks: Vec<Mark>,
}

impl Events {
    pub(in crate::show) fn of(report: &Report, columns: &Columns<'_>) -> Self {
        let mut marks = Vec::new();
        for (n, finding) in numbered(report) {
            for event in finding.events() {
                let (from, to) = (event.from_s, event.to_s);
                let what = what(finding);
                marks.push(Mark {
                    from,
                    to,
                    severity: finding.severity(),
                    is_shaded: true,
                    what: what.to_owned(),
                    label: match finding.kind() {
                        FindingKind::Stalled | FindingKind::Silent => {
                            format!("{what} {}", seconds(to - from))
                        }
                        _ => what.to_owned(),
                    },
                    number: Some(n),
                });
            }
        }
        marks.extend(others(report, columns));
        marks.retain(|mark| mark.from.max(mark.to).is_finite() && mark.to >= columns.from_s);
        for mark in &mut marks {
            (mark.from, mark.to) = (mark.from.max(columns.from_s), mark.to.min(columns.to_s));
        }
        marks.truncate(MOST);
        Self { marks }
    }

    /// Buttons over the panels that zoom to the marks.
    pub(in crate::show) fn write_marks(&self, html: &mut Html) {
        for (at, mark) in self.marks.iter().enumerate() {
            let Mark {
                label,
                number,
                severity,
                ..
            } = mark;
            let class = format!("mark {}", tone(*severity));
            let number = number.map_or_else(String::new, |number| number.to_string());
            let name = format!("Zoom to {label} at {}", seconds(mark.from));
            let attributes = [
                ("type", "button"),
                ("class", &*class),
                ("data-event", &at.to_string()),
                ("aria-label", &name),
                ("hidden", "hidden"),
            ];
            html.with("button", &attributes, |html| {
                if !number.is_empty() {
                    html.element("i", |html| html.text(&number));
                }
                html.element("span", |html| html.text(label));
            });
        }
    }

    /// The list of findings, the gravest first, with remedies at the end of a run; nothing of a
    /// report that was not judged.
    pub(in crate::show) fn write(&self, html: &mut Html, report: &Report, is_over: bool) {
        if report.validity.checked.is_empty() {
            return;
        }
        html.with("section", &[("id", "findings")], |html| {
            html.classed("div", "head", |html| {
                html.say("h2", "Findings");
                html.classed("span", "hint", |html| {
                    html.text("the gravest first");
                });
            });
            html.classed("ol", "findings", |html| {
                for (n, finding) in numbered(report) {
                    self.write_finding(html, n, finding, is_over);
                }
                write_known(html, report);
            });
        });
    }

    fn write_finding(&self, html: &mut Html, n: usize, finding: &Finding, is_over: bool) {
        html.with("li", &[("class", tone(finding.severity()))], |html| {
            html.classed("span", "n", |html| html.text(&n.to_string()));
            html.element("div", |html| {
                html.say("h3", &finding.headline());
                html.element("p", |html| html.sentences(&(finding.text() + ".")));
                if let Some(remedy) = finding.remedy().filter(|_| is_over) {
                    html.classed("p", "do", |html| {
                        html.element("b", |html| html.text("Do:"));
                        html.text(" ");
                        html.sentences(&remedy);
                    });
                }
                let first = self.marks.iter().position(|mark| mark.number == Some(n));
                if let Some(first) = first {
                    html.classed("p", "acts", |html| {
                        let first = first.to_string();
                        let attributes = [
                            ("type", "button"),
                            ("data-event", &*first),
                            ("hidden", "hidden"),
                        ];
                        html.with("button", &attributes, |html| {
                            html.text("Show in the charts");
                        });
                    });
                }
            });
        });
    }
}

/// Findings above information, with their numbers.
fn numbered(report: &Report) -> impl Iterator<Item = (usize, &Finding)> {
    report
        .findings
        .iter()
        .filter(|finding| finding.severity() > Severity::Info)
        .enumerate()
        .map(|(n, finding)| (n + 1, finding))
}

/// Findings that are information, as a list; that there is no other one, if so.
fn write_known(html: &mut Html, report: &Report) {
    let known: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| finding.severity() == Severity::Info)
        .collect();
    // What the slowest have in common is no good news.
    let is_usual = known
        .iter()
        .all(|finding| finding.kind() != FindingKind::SlowestInCommon);
    if known.len() == report.findings.len() && is_usual {
        html.classed("li", "ok", |html| {
            html.classed("span", "n", |html| html.text("\u{2713}"));
            html.element("div", |html| html.say("h3", "Nothing unusual"));
        });
    }
    if known.is_empty() {
        return;
    }
    html.classed("li", "info", |html| {
        html.classed("span", "n", |html| html.text("i"));
        html.element("div", |html| {
            html.say("h3", "Good to know");
            html.element("ul", |html| {
                for finding in known {
                    html.element("li", |html| html.sentences(&finding.sentence()));
                }
            });
        });
    });
}

/// Findings with a time, each in a word or two.
const LABELS: [(FindingKind, &str); 6] = [
    (FindingKind::Stalled, "stall"),
    (FindingKind::Throttled, "throttled"),
    (FindingKind::RequestsFailed, "failed"),
    (FindingKind::NoGoodResponse, "no good response"),
    (FindingKind::Silent, "silence"),
    (FindingKind::ShardDied, "shard died"),
];

/// A finding in a word or two.
fn what(finding: &Finding) -> &'static str {
    LABELS
        .iter()
        .find(|(kind, _)| *kind == finding.kind())
        .map_or("", |(_, label)| label)
}

/// The mark of what has no finding.
fn mark(from: f64, to: f64, severity: Severity, label: String) -> Mark {
    Mark {
        from,
        to,
        severity,
        is_shaded: true,
        what: label.clone(),
        label,
        number: None,
    }
}

/// What no finding is about: the warm-up, stages of the rate, pauses, and an early end.
fn others(report: &Report, columns: &Columns<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let warmup_s = report.plan.run.warmup.as_secs_f64();
    if warmup_s > columns.from_s {
        marks.push(mark(0.0, warmup_s, Severity::Info, "warm-up".to_owned()));
    }
    let stages = report.plan.run.shape.times_s(columns.to_s).zip(1..);
    for ((from_s, to_s), number) in stages.take_while(|((from_s, _), _)| *from_s < columns.to_s) {
        let label = format!("stage {number}");
        marks.push(Mark {
            is_shaded: number % 2 == 0,
            ..mark(from_s, to_s, Severity::Info, label)
        });
    }
    let mut pauses: Vec<(f64, f64)> = Vec::new();
    for row in &report.intervals {
        if row.binding.pause < thresholds::PAUSED {
            continue;
        }
        let (from_s, to_s) = (row.start_s as f64, row.start_s as f64 + 1.0);
        match pauses.last_mut() {
            Some(last) if last.1 >= from_s => last.1 = to_s,
            _ => pauses.push((from_s, to_s)),
        }
    }
    for (from, to) in pauses {
        marks.push(mark(
            from,
            to,
            Severity::Warning,
            "throttle pause".to_owned(),
        ));
    }
    if report.interrupted {
        let by = report.stopped_by.as_ref().map(|by| format!(" by {by}"));
        let label = format!("stopped{}", by.unwrap_or_default());
        marks.push(mark(columns.to_s, columns.to_s, Severity::Error, label));
    }
    marks
}
