//! Several runs: each study's model, judgement and saved form.
//!
//! | module | holds |
//! |---|---|
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`scale`] | rounds of several sizes, and how throughput grows with them |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`scenarios`] | lists of crawls side by side: the ladder and the patterns |
//!
//! Each is a [`StudyResult`]. A file begins with a [`Header`]; one of another format is refused by
//! [`crate::run::result_dir::read_study`].

pub mod capacity;
pub mod compare;
pub mod scale;
pub mod scenarios;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::run::report::Environment;
use crate::show::doc::{Doc, Severity, Status};
use crate::show::plot::Plot;

/// Result of a study: saved as JSON, and shown as a document with plots.
pub trait StudyResult: Serialize + DeserializeOwned {
    /// The name of the format, which its files have in `schema`.
    const SCHEMA: &'static str;

    /// The name of its JSON file.
    const FILE: &'static str;

    /// The findings, the answer of the study first.
    fn notices(&self) -> Vec<Notice>;

    /// The document: for the terminal, `summary.md` and `report.html`.
    fn doc(&self) -> Doc;

    /// The answer in a sentence.
    fn headline(&self) -> String {
        self.notices()
            .first()
            .map_or_else(String::new, Notice::sentence)
    }

    /// The plots, which are saved as `plots/NAME.svg`.
    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }

    /// Files for other programs: names and contents.
    fn exports(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The conclusion, which decides the exit code of a study that was not cut.
    fn conclusion(&self) -> Conclusion {
        Conclusion::Done
    }
}

/// A finding of a study as it is shown. Each study has a table of them: an enum of kinds with their
/// numbers, and one match that gives this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Severity.
    pub severity: Severity,
    /// One plain sentence with its numbers, without a full stop.
    pub title: String,
    /// Advice in a sentence; empty without any.
    pub remedy: String,
}

impl Notice {
    /// A finding without advice.
    #[must_use]
    pub fn new(severity: Severity, title: impl Into<String>) -> Self {
        Self {
            severity,
            title: title.into(),
            remedy: String::new(),
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn with(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }

    /// Title and advice.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}. {}", self.title, self.remedy)
            .trim_end()
            .to_owned()
    }
}

/// A document that begins with these findings: the first in a box.
#[must_use]
pub fn doc_of(title: String, notices: &[Notice]) -> Doc {
    let doc = Doc::new(title);
    let Some((first, others)) = notices.split_first() else {
        return doc;
    };
    doc.status(Status {
        id: Some("outcome"),
        text: first.remedy.clone(),
        ..Status::new(first.severity, first.title.clone())
    })
    .list("", others.iter().map(Notice::sentence).collect())
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
    #[must_use]
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

    /// The version and the time, for the end of a document.
    #[must_use]
    pub fn made_by(&self) -> String {
        format!("crawlmark {}, {}.", self.crawlmark_version, self.started_at)
    }

    /// The machine, the version and the time, for the end of a document.
    #[must_use]
    pub fn made_on(&self, environment: &Environment) -> String {
        let cpu = environment.cpu_model.as_deref().unwrap_or("an unknown CPU");
        format!("{cpu}, {} cores. {}", environment.cores, self.made_by())
    }

    /// The name, with a note if rounds are missing.
    #[must_use]
    pub fn title(&self) -> String {
        let partial = if self.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        format!("{}{partial}", self.name)
    }
}

/// Flags as a shell takes them.
#[must_use]
pub fn shell_line(flags: &[String]) -> String {
    // A word with a NUL is none that anybody can have typed.
    shlex::try_join(flags.iter().map(String::as_str)).unwrap_or_else(|_| flags.join(" "))
}
