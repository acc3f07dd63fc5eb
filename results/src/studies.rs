//! Several runs: each study's model, judgement and saved form.
//!
//! | module | holds |
//! |---|---|
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`history`] | single runs of one plan over time, and where they changed |
//! | [`overlay`] | single runs over each other |
//! | [`sides`], [`shift`] | results of another tool beside each other, and the size of a difference |
//! | [`scale`] | rounds of several sizes, and how throughput grows with them |
//! | [`arena`] | servers ranked, with ties |
//! | [`bisect`] | which commit made a metric worse |
//! | [`overload`] | how a target fails above its capacity, and if it recovers |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`scenarios`] | the ladder and the patterns: crawls side by side |
//! | [`differences`] | what two results differ in besides their measurements |
//! | `end` | the end of a study at the terminal |
//! | `findings` | every fact that a study can show, with its text: one table |
//! | `headlines` | the answers in a few words, for titles |
//!
//! All have one shape, [`StudyResult`]: findings, tables, a chart and a conclusion. Document, page,
//! plots and the findings in the JSON follow from these here. A file begins with a [`Header`]; one
//! of another format is refused by [`read_study`].

pub mod arena;
pub mod bisect;
pub mod capacity;
pub mod compare;
pub mod differences;
mod end;
mod findings;
mod headlines;
pub mod history;
mod load;
pub mod overlay;
pub mod overload;
pub mod scale;
pub mod scenarios;
pub mod shift;
pub mod sides;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

pub use self::end::end;
pub use self::findings::StudyFinding;
pub use self::load::{LoadStep, TargetUse};
use crate::judge::{self, Finding, FindingKind};
use crate::run::report::{Environment, Report, Verdict};
use crate::run::result_dir::{self, ReadError};
use crate::show::chart::{Chart, Panel};
use crate::show::doc::{Doc, Figure, Severity, Status, Table};
use crate::show::plot::{Plot, source};
use crate::show::text::decimal;
use crawlmark_harness::plan::RequestObjective;

/// The most findings of rounds that are shown, the commonest.
const MOST_OF_ROUNDS: usize = 4;

/// Result of a study: saved as JSON, and shown as a document with a plot.
pub trait StudyResult: Serialize {
    /// The name of the format, which its files have in `schema`.
    const SCHEMA: &'static str;

    /// The name of its JSON file.
    const FILE: &'static str;

    /// The fields that it begins with.
    fn header(&self) -> &Header;

    /// The machine; none where the runs say it.
    fn environment(&self) -> Option<&Environment> {
        None
    }

    /// The outcome in a word or two, for the title; empty if there is none.
    fn outcome(&self) -> String {
        String::new()
    }

    /// The field whose value no study can have, and why; none in what this program has saved.
    fn impossible(&self) -> Option<&'static str> {
        None
    }

    /// The findings, the answer of the study first, and those of its rounds last.
    fn findings(&self) -> Vec<StudyFinding>;

    /// The main figures, for the top of its page.
    fn main_figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Add the tables and facts to the document.
    fn fill(&self, doc: Doc) -> Doc;

    /// Its table in the end at a terminal of so many columns; the last one of the document if it has no
    /// shorter one.
    fn short_table(&self, _columns: usize) -> Option<Table> {
        None
    }

    /// The name and the title of its chart.
    fn chart(&self) -> [&'static str; 2] {
        [""; 2]
    }

    /// Its chart; none if it has none, and one without panels if there is nothing to draw.
    fn picture(&self) -> Option<Picture> {
        None
    }

    /// The conclusion, which decides the exit code of a study that was not cut.
    fn conclusion(&self) -> Conclusion {
        Conclusion::Done
    }

    /// Files for other programs: names and contents.
    fn exports(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Every finding: the answer, that of its end, and the others of the study.
    fn shown(&self) -> Vec<StudyFinding> {
        let mut all = self.findings();
        let end = StudyFinding::Interrupted {};
        if self.header().interrupted && !all.contains(&end) {
            all.insert(all.len().min(1), end);
        }
        all
    }

    /// The findings as they are shown, the answer first.
    fn notices(&self) -> Vec<Notice> {
        self.shown().iter().map(StudyFinding::notice).collect()
    }

    /// The document: for the terminal, `summary.md` and `report.html`.
    fn doc(&self) -> Doc {
        let header = self.header();
        let notices = self.notices();
        let mut doc = Doc::new(header.title(&self.outcome())).figured(self.main_figures());
        if let Some((answer, others)) = notices.split_first() {
            let status = Status {
                id: Some("outcome"),
                text: answer.remedy.clone(),
                ..Status::new(answer.severity, answer.title.clone())
            };
            let others = others.iter().map(Notice::sentence).collect();
            doc = doc.status(status).list("", others);
        }
        doc = self.fill(doc).in_files();
        if self.picture().is_some() {
            let [name, title] = self.chart();
            doc = doc.plot(name, title);
        }
        doc.text(header.made_by(self.environment()))
    }

    /// The plots, which are saved as `plots/NAME.svg`, with the answer as their title.
    fn plots(&self) -> Vec<Plot> {
        let [name, title] = self.chart();
        let answer = self.findings().first().map(StudyFinding::headline);
        let chart = self.picture().map(|picture| Chart {
            name,
            title,
            answer: answer.unwrap_or_default(),
            subtitle: picture.subtitle,
            source: source(
                picture.command,
                picture.of,
                self.environment(),
                &self.header().started_at,
            ),
            panels: picture.panels,
        });
        chart.map(Plot::of).into_iter().collect()
    }

    /// The JSON file: the result, and its findings.
    ///
    /// # Errors
    /// When the result has no JSON.
    fn json(&self) -> serde_json::Result<String> {
        let saved = SavedStudy {
            result: self,
            findings: self.shown(),
        };
        Ok(serde_json::to_string_pretty(&saved)? + "\n")
    }
}

/// Reads what a study saved in a directory, or its file by its own name.
///
/// # Errors
/// When there is none, or it is of another format.
pub fn read_study<S: StudyResult + DeserializeOwned>(path: &Path) -> Result<S, ReadError> {
    possible(path, result_dir::read_saved(path, S::FILE, S::SCHEMA)?)
}

fn possible<S: StudyResult>(path: &Path, study: S) -> Result<S, ReadError> {
    match study.impossible() {
        None => Ok(study),
        Some(wrong) => Err(ReadError::Bounds {
            path: path.to_owned(),
            wrong: wrong.to_owned(),
        }),
    }
}

/// Parses the text of what a study saved; `path` is for errors.
///
/// # Errors
/// As [`read_study`].
pub fn parse_study<S: StudyResult + DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<S, ReadError> {
    possible(path, result_dir::parse(path, text, S::SCHEMA)?)
}

/// The chart of a study, without what every study has.
#[derive(Debug)]
pub struct Picture {
    /// What is drawn, of how many, and the kind of the intervals.
    pub subtitle: String,
    /// The command that measured.
    pub command: &'static str,
    /// What it measured, in a few words each.
    pub of: Vec<String>,
    /// Fields, from top to bottom.
    pub panels: Vec<Panel>,
}

/// A study as it is saved.
#[derive(Serialize)]
struct SavedStudy<'a, S: ?Sized> {
    #[serde(flatten)]
    result: &'a S,
    #[serde(serialize_with = "saved_findings")]
    findings: Vec<StudyFinding>,
}

/// A finding as it is saved: its kind and numbers, and its text.
#[derive(Serialize)]
struct SavedFinding<'a> {
    #[serde(flatten)]
    finding: &'a StudyFinding,
    #[serde(flatten)]
    notice: Notice,
}

impl<'a> SavedFinding<'a> {
    fn of(finding: &'a StudyFinding) -> Self {
        let notice = finding.notice();
        Self { finding, notice }
    }
}

/// Save findings with their texts.
fn saved_findings<S: Serializer>(findings: &[StudyFinding], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(findings.iter().map(SavedFinding::of))
}

/// Save a finding with its text.
fn saved_finding<S: Serializer>(finding: &StudyFinding, to: S) -> Result<S::Ok, S::Error> {
    SavedFinding::of(finding).serialize(to)
}

/// The run of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRun {
    /// The directory of its result; null of a command.
    pub result: Option<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Warnings and errors of the run.
    #[serde(serialize_with = "judge::findings::serialize")]
    pub findings: Vec<Finding>,
}

impl RoundRun {
    /// The run with this report, saved in `result`.
    pub fn of(report: &Report, result: String) -> Self {
        let mut findings = report.findings.clone();
        findings.retain(|one| one.severity() >= judge::Severity::Warning);
        Self {
            result: Some(result),
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            findings,
        }
    }
}

/// The commonest findings of rounds, of one side of a study or of all; `side` follows a number of
/// rounds: ` of the base`, or nothing.
fn in_rounds(side: &'static str, runs: &[&RoundRun]) -> Vec<StudyFinding> {
    let mut kinds = BTreeMap::<FindingKind, (&Finding, usize)>::new();
    for run in runs {
        // A run may have several of a kind.
        let of_run: BTreeMap<_, _> = run.findings.iter().map(|it| (it.kind(), it)).collect();
        for (kind, finding) in of_run {
            kinds.entry(kind).or_insert((finding, 0)).1 += 1;
        }
    }
    let mut common: Vec<_> = kinds.into_values().collect();
    common.sort_by_key(|(_, rounds)| Reverse(*rounds));
    common.truncate(MOST_OF_ROUNDS);
    common
        .into_iter()
        .map(|(finding, rounds)| StudyFinding::InRounds {
            finding: finding.clone(),
            rounds,
            of: runs.len(),
            side: side.into(),
        })
        .collect()
}

/// The text of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Severity: `info`, `warning` or `error` in JSON.
    #[serde(serialize_with = "name")]
    pub severity: Severity,
    /// One plain sentence with its numbers, without a full stop.
    #[serde(rename = "text")]
    pub title: String,
    /// Advice in a sentence; empty without any.
    pub remedy: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is that of serde"
)]
fn name<S: Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match severity {
        Severity::Good | Severity::Neutral => "info",
        Severity::Warning => "warning",
        Severity::Bad => "error",
    })
}

impl Notice {
    /// Title and advice.
    pub fn sentence(&self) -> String {
        format!("{}. {}", self.title, self.remedy)
            .trim_end()
            .to_owned()
    }
}

/// A main figure; none where the value is not known.
fn figure(
    name: impl Into<Cow<'static, str>>,
    value: Option<String>,
    detail: String,
) -> Option<Figure> {
    let name = name.into();
    value.map(|value| Figure {
        name,
        value,
        detail,
    })
}

/// What a study came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// It has its answer, and a good one if there are bad ones.
    Done,
    /// Its answer is a bad one: a regression, a failed row.
    Failed,
    /// It has no answer.
    Inconclusive,
}

/// The fields that every saved study begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`StudyResult::SCHEMA`].
    pub schema: String,
    /// The version that measured and judged.
    pub crawlmark_version: String,
    /// Name that the user gives it.
    pub name: String,
    /// RFC 3339, UTC: the start of the study.
    pub started_at: String,
    /// RFC 3339, UTC: its end.
    pub finished_at: String,
    /// True if a signal, or a round that failed, ended it before it was over.
    pub interrupted: bool,
}

impl Header {
    /// The header of a complete study of this version, from the first of `times` to the second.
    pub fn new<S: StudyResult>(name: &str, times: [&str; 2]) -> Self {
        Self {
            schema: S::SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            started_at: times[0].to_owned(),
            finished_at: times[1].to_owned(),
            interrupted: false,
        }
    }

    /// The machine, the version and the time, for the end of a document.
    fn made_by(&self, machine: Option<&Environment>) -> String {
        let machine = machine.map_or_else(String::new, |machine| {
            let cpu = machine.cpu_model.as_deref().unwrap_or("an unknown CPU");
            format!("{cpu}, {} cores. ", machine.cores)
        });
        format!(
            "{machine}crawlmark {}, {}.",
            self.crawlmark_version, self.started_at
        )
    }

    /// The name and the outcome, with a note if rounds are missing.
    fn title(&self, outcome: &str) -> String {
        let colon = if outcome.is_empty() { "" } else { ": " };
        let partial = if self.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        format!("{}{colon}{outcome}{partial}", self.name)
    }
}

/// A figure in a table: a dash where it is not known.
fn or_dash(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

/// Objectives of requests, of which each has to meet all; none without any.
fn objectives_in_words(all: &[RequestObjective]) -> Option<String> {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// The name that a value has in JSON, in words.
fn name_of(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

/// A rate: `4,040/s`, `22.2/s`.
fn rate(per_s: f64) -> String {
    format!("{}/s", decimal(per_s))
}

/// Flags as a shell takes them.
pub fn shell_line(flags: &[String]) -> String {
    // A word with a NUL is none that anybody can have typed.
    shlex::try_join(flags.iter().map(String::as_str)).unwrap_or_else(|_| flags.join(" "))
}
