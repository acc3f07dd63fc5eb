//! Several runs: each study's model, judgement and saved form.
//!
//! | module | holds |
//! |---|---|
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`history`] | single runs of one plan over time, and where they changed |
//! | [`sides`], [`shift`] | results of another tool beside each other, and the size of a difference |
//! | [`scale`] | rounds of several sizes, and how throughput grows with them |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`scenarios`] | the ladder: crawls side by side with published rates |
//! | [`differences`] | what two results differ in besides their measurements |
//!
//! All have one shape, [`StudyResult`]: findings, tables, a chart and a conclusion. Document, page,
//! plots and the findings in the JSON follow from these here. A file begins with a [`Header`]; one
//! of another format is refused by [`crate::run::result_dir::read_study`].

pub mod capacity;
pub mod compare;
pub mod differences;
pub mod history;
mod load;
pub mod scale;
pub mod scenarios;
pub mod shift;
pub mod sides;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

pub use self::load::{LoadStep, TargetUse};
use crate::judge::{self, Finding, FindingKind};
use crate::run::report::{Environment, Report};
use crate::show::chart::Chart;
use crate::show::doc::{Doc, Severity, Status};
use crate::show::plot::Plot;
use crate::show::text::{counted, decimal, micros};

/// The most findings of rounds that are shown, the commonest.
const MOST_OF_ROUNDS: usize = 4;

/// Result of a study: saved as JSON, and shown as a document with a plot.
pub trait StudyResult: Serialize + DeserializeOwned {
    /// A fact about the study with its numbers.
    type Finding: Serialize;

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
    fn outcome(&self) -> &'static str {
        ""
    }

    /// The findings, the answer of the study first.
    fn findings(&self) -> Vec<Self::Finding>;

    /// A finding as it is shown.
    fn notice(&self, finding: &Self::Finding) -> Notice;

    /// Rounds whose own findings the reader has to know.
    fn rounds(&self) -> Vec<RoundsOf<'_>> {
        Vec::new()
    }

    /// The steps of a load that grows, from the least on.
    fn load_steps(&self) -> Vec<LoadStep> {
        Vec::new()
    }

    /// Add the tables and facts to the document.
    fn fill(&self, doc: Doc) -> Doc;

    /// The chart, without its caption, which is the answer; without a panel if there is nothing to
    /// draw.
    fn chart(&self) -> Option<Chart> {
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

    /// Every finding with its text: those of the study, of its rounds, and of its end.
    fn shown(&self) -> Vec<ShownFinding<Self::Finding>> {
        let mut all = Vec::new();
        for finding in self.findings() {
            let notice = self.notice(&finding);
            all.push(ShownFinding {
                what: FoundBy::Study(finding),
                notice,
            });
        }
        let rounds = self.rounds();
        let mut common = load::limits(&self.load_steps());
        common.extend(rounds.iter().flat_map(RoundsOf::findings));
        if self.header().interrupted {
            common.push(CommonFinding::Interrupted {});
        }
        all.extend(common.into_iter().map(|finding| ShownFinding {
            notice: finding.notice(),
            what: FoundBy::Rounds(finding),
        }));
        all
    }

    /// The findings as they are shown, the answer first.
    fn notices(&self) -> Vec<Notice> {
        self.shown().into_iter().map(|one| one.notice).collect()
    }

    /// The answer in a sentence.
    fn headline(&self) -> String {
        self.notices()
            .first()
            .map_or_else(String::new, Notice::sentence)
    }

    /// The document: for the terminal, `summary.md` and `report.html`.
    fn doc(&self) -> Doc {
        let notices = self.notices();
        let mut doc = Doc::new(self.header().title(self.outcome()));
        if let Some((answer, others)) = notices.split_first() {
            let status = Status {
                id: Some("outcome"),
                text: answer.remedy.clone(),
                ..Status::new(answer.severity, answer.title.clone())
            };
            doc = doc
                .status(status)
                .list("", others.iter().map(Notice::sentence).collect());
        }
        let doc = self.fill(doc).in_files();
        let doc = match self.chart() {
            Some(chart) => doc.plot(chart.name, chart.title),
            None => doc,
        };
        doc.text(self.header().made_by(self.environment()))
    }

    /// The plots, which are saved as `plots/NAME.svg`.
    fn plots(&self) -> Vec<Plot> {
        let chart = self.chart().map(|chart| {
            Plot::of(&Chart {
                caption: self.headline(),
                ..chart
            })
        });
        chart.into_iter().collect()
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

/// A study as it is saved.
#[derive(Serialize)]
struct SavedStudy<'a, S: StudyResult> {
    #[serde(flatten)]
    result: &'a S,
    findings: Vec<ShownFinding<S::Finding>>,
}

/// A finding: its kind and numbers, and its text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownFinding<F> {
    /// Kind and numbers.
    #[serde(flatten)]
    pub what: FoundBy<F>,
    /// Text.
    #[serde(flatten)]
    pub notice: Notice,
}

/// Source of a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FoundBy<F> {
    /// The study.
    Study(F),
    /// Its rounds, or their end.
    Rounds(CommonFinding),
}

/// Finding that any study may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CommonFinding {
    /// Rounds have a finding of their own.
    InRounds {
        /// That of the first of them.
        finding: Finding,
        /// Number of them.
        rounds: usize,
        /// All rounds.
        of: usize,
        /// Side of the rounds; empty where there is one.
        side: &'static str,
    },
    /// The target ran out of something, by a probe of its processes.
    RanOut {
        /// The load: the first one that was too much and shows it, or else the greatest.
        at: String,
        /// Finding of that run.
        finding: Finding,
    },
    /// The load was too much for the target, and none of its processes' readings says why.
    NothingRanOut {
        /// The first load that was too much.
        at: String,
        /// CPUs in use, in the mean.
        cpus_used: f64,
        /// CPUs that it may run on.
        cpus: usize,
    },
    /// The rate grows with the requests under way up to a number of them, and no further.
    WorksOnFew {
        /// That number.
        at_a_time: f64,
        /// Good responses per second beyond it.
        per_s: f64,
        /// Time of a request below it, us.
        alone_us: f64,
    },
    /// Not all rounds were run.
    Interrupted {},
}

impl CommonFinding {
    fn notice(&self) -> Notice {
        let severity = match self {
            Self::InRounds { .. } | Self::Interrupted {} => Severity::Warning,
            _ => Severity::Neutral,
        };
        let mut remedy = String::new();
        let title = match self {
            Self::RanOut { at, finding } => {
                remedy = finding.remedy().unwrap_or_default();
                format!("At {at}: {}", finding.title())
            }
            Self::NothingRanOut {
                at,
                cpus_used,
                cpus,
            } => format!(
                "At {at}: what the target ran out of was not seen; it used {cpus_used:.2} of its {}",
                counted(*cpus as u64, "CPU")
            ),
            Self::WorksOnFew {
                at_a_time,
                per_s,
                alone_us,
            } => {
                "Run with --diagnose, which tells these apart.".clone_into(&mut remedy);
                format!(
                    "The rate grows up to about {at_a_time:.0} requests at a time, of {} each, and stays at {}/s: this looks like as \
                     many workers of the target, or a limit on its rate",
                    micros(*alone_us),
                    decimal(*per_s)
                )
            }
            Self::InRounds {
                finding,
                rounds,
                of,
                side,
            } => format!(
                "In {rounds} of {}{side}: {}",
                counted(*of as u64, "round"),
                finding.title()
            ),
            Self::Interrupted {} => "Interrupted before all rounds were run".to_owned(),
        };
        Notice::new(severity, title).with(remedy)
    }
}

/// Rounds of a study, or of one of its sides.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundsOf<'a> {
    /// The side, as it follows a number of rounds: ` of the base`; empty where there is one.
    pub side: &'static str,
    /// Findings of each round.
    pub findings: Vec<&'a [Finding]>,
}

impl RoundsOf<'_> {
    /// The commonest findings of the rounds.
    fn findings(&self) -> Vec<CommonFinding> {
        let mut kinds = BTreeMap::<FindingKind, (&Finding, usize)>::new();
        for finding in self.findings.iter().copied().flatten() {
            kinds.entry(finding.kind()).or_insert((finding, 0)).1 += 1;
        }
        let mut common: Vec<_> = kinds.into_values().collect();
        common.sort_by_key(|(_, rounds)| Reverse(*rounds));
        common.truncate(MOST_OF_ROUNDS);
        let common = common.into_iter();
        common
            .map(|(finding, rounds)| CommonFinding::InRounds {
                finding: finding.clone(),
                rounds,
                of: self.findings.len(),
                side: self.side,
            })
            .collect()
    }
}

/// The findings of a round that its study has to know.
pub fn warnings(report: &Report) -> Vec<Finding> {
    let all = report.findings.iter();
    all.filter(|one| one.severity() >= judge::Severity::Warning)
        .cloned()
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
    /// A finding without advice.
    pub fn new(severity: Severity, title: impl Into<String>) -> Self {
        Self {
            severity,
            title: title.into(),
            remedy: String::new(),
        }
    }

    /// The same with advice.
    pub fn with(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }

    /// Title and advice.
    pub fn sentence(&self) -> String {
        format!("{}. {}", self.title, self.remedy)
            .trim_end()
            .to_owned()
    }
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

/// Flags as a shell takes them.
pub fn shell_line(flags: &[String]) -> String {
    // A word with a NUL is none that anybody can have typed.
    shlex::try_join(flags.iter().map(String::as_str)).unwrap_or_else(|_| flags.join(" "))
}
