//! Violations that an audit finds, each with the place and the next step.

use serde::Serialize;

/// Violations that are kept; the others are counted.
pub(super) const KEPT: usize = 10;

/// A violation.
#[derive(Debug, Serialize)]
pub(crate) struct Violation {
    /// Name of the file.
    pub(crate) file: String,
    /// First byte of the frame in the file; absent if the whole file is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    /// Line of the decompressed file, from 1; absent if no single line is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// Contradiction.
    pub(crate) what: String,
    /// Next step.
    pub(crate) remedy: &'static str,
}

/// Next step after a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Bytes of the segment were damaged or lost.
    Damage,
    /// The segment holds what it should not.
    Segment,
    /// The counts of requests are wrong.
    Counts,
    /// The saved crawl of a part is not that of its result.
    Part,
}

impl Remedy {
    const fn text(self) -> &'static str {
        match self {
            Self::Damage => {
                "Restore the file from a backup, or run `crawlmark run --resume`, which keeps its whole frames and crawls the other items again"
            }
            Self::Segment => {
                "Restore the file from a backup, or move it elsewhere: `crawlmark run --resume` then crawls its items again"
            }
            Self::Counts => {
                "Restore the file from a backup, or remove it: nothing depends on it but the number of requests that were sent"
            }
            Self::Part => {
                "Restore the directory from a backup, or remove RESULT of the part and run it again"
            }
        }
    }
}

/// Violations and notes.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Number of violations.
    pub(super) count: u64,
    /// The first violations.
    pub(super) first: Vec<Violation>,
    /// Harmless remarks.
    pub(super) notes: Vec<String>,
}

/// Place of a violation in its file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// First byte of the frame; none of the whole file.
    pub(super) offset: Option<u64>,
    /// Line of the decompressed file, from 1; none of the whole frame.
    pub(super) line: Option<u64>,
}

impl Findings {
    /// Count a violation, and keep it if it is among the first.
    pub(super) fn add(&mut self, file: &str, place: Place, what: String, remedy: Remedy) {
        self.count += 1;
        if self.first.len() < KEPT {
            let Place { offset, line } = place;
            self.first.push(Violation {
                file: file.to_owned(),
                offset,
                line,
                what,
                remedy: remedy.text(),
            });
        }
    }

    /// Keep a remark.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }
}
