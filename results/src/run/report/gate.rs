//! What must hold of a run, and whether it did: one row per gate. Made by [`crate::run::gates`], which judges.

use serde::{Deserialize, Serialize};

/// A gate: an expression, what was seen, and the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// What must hold, as in `service_p99[10s] < 250ms`.
    pub expression: String,
    /// What asked for it: `fail_if` or `stop_if`.
    pub kind: String,
    /// What is looked at.
    pub metric: String,
    /// Over how long at a time; null for the whole run.
    pub window_s: Option<u64>,
    /// What the value and the limit are counted in: `us`, `per_s`, `share`, `count` or `bool`.
    pub unit: String,
    /// What it is compared with.
    pub limit: f64,
    /// What was seen, of windows in the worst one; null when nothing can be said.
    pub value: Option<f64>,
    /// True if the value is only known to be no less than that.
    pub at_least: bool,
    /// How far the value is within the limit, as a part of the limit, negative beyond it; null where nearer is no better.
    pub margin: Option<f64>,
    /// True if the expression held; null when that could not be decided.
    pub ok: Option<bool>,
    /// Reason why it could not be decided.
    pub why: Option<String>,
    /// How many windows were judged; null without a window.
    pub windows: Option<u64>,
    /// The end of the worst window, or when the gate stopped the run, in seconds since the common start.
    pub until_s: Option<u64>,
}

impl GateReport {
    /// The verdict in a word.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self.ok {
            Some(true) => "passed",
            Some(false) => "FAILED",
            None => "undecided",
        }
    }
}
