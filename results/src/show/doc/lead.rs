//! Lead of a document: its outcome, the figures, and how far they can be relied on.

use std::borrow::Cow;

use crate::judge::{self, Verdict};

/// Beginning of a document, in the order of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Lead {
    /// Outcome and finding.
    pub outcome: Status,
    /// Main figures, the most important first.
    pub figures: Vec<Figure>,
    /// Confidence that the figures deserve.
    pub validity: Status,
}

/// Figure with its name, as in `p99 10.0 ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Name in a word or two.
    pub name: Cow<'static, str>,
    /// Value with its unit.
    pub value: String,
    /// Population or parts of the value; may be empty.
    pub detail: String,
}

/// Severity of a finding, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Good,
    /// Neither good nor bad news.
    Neutral,
    /// To be known before the figures are used.
    Warning,
    /// Failed.
    Bad,
}

/// Finding in a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// ID for links; none of one among several.
    pub id: Option<&'static str>,
    /// Colour of the box.
    pub severity: Severity,
    /// Finding in a few words.
    pub title: String,
    /// Finding in a sentence or two; may be empty.
    pub text: String,
    /// Further sentences.
    pub list: Vec<String>,
    /// Summary and sentences that stay folded.
    pub details: Option<(String, Vec<String>)>,
}

impl Lead {
    /// True if the outcome depends on a validity that is no better, and stands below it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.validity.severity >= self.outcome.severity.max(Severity::Warning)
    }

    /// The statuses in the order in which a reader has to know them.
    pub(super) fn statuses(&self) -> [&Status; 2] {
        if self.is_doubtful() {
            [&self.validity, &self.outcome]
        } else {
            [&self.outcome, &self.validity]
        }
    }
}

impl From<judge::Severity> for Severity {
    fn from(gravity: judge::Severity) -> Self {
        match gravity {
            judge::Severity::Info => Self::Good,
            judge::Severity::Warning => Self::Warning,
            judge::Severity::Error => Self::Bad,
        }
    }
}

impl From<Verdict> for Severity {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Valid => Self::Good,
            Verdict::Disturbed | Verdict::NothingMeasured | Verdict::Incomplete => Self::Bad,
            _ => Self::Warning,
        }
    }
}

impl Severity {
    /// Sign for readers who do not distinguish colours.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Good | Self::Neutral => "\u{2713}",
            Self::Warning => "!",
            Self::Bad => "\u{2715}",
        }
    }

    /// Kind of alert that GitHub draws for it.
    pub(super) const fn alert(self) -> Option<&'static str> {
        match self {
            Self::Good | Self::Neutral => None,
            Self::Warning => Some("WARNING"),
            Self::Bad => Some("CAUTION"),
        }
    }
}

impl Status {
    /// A finding without an ID and details.
    pub fn new(severity: Severity, title: impl Into<String>) -> Self {
        Self {
            id: None,
            severity,
            title: title.into(),
            text: String::new(),
            list: Vec::new(),
            details: None,
        }
    }
}
