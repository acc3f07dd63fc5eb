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

use crate::show::doc::Doc;
use crate::show::plot::Plot;

/// Result of a study: saved as JSON, and shown as a document with plots.
pub trait StudyResult: Serialize + DeserializeOwned {
    /// The name of the format, which its files have in `schema`.
    const SCHEMA: &'static str;

    /// The name of its JSON file.
    const FILE: &'static str;

    /// The document: for the terminal, `summary.md` and `report.html`.
    fn doc(&self) -> Doc;

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
