//! Gates of a run, and whether each held: one row per gate. Made by [`crate::run::gates`], which
//! judges.

use serde::{Deserialize, Serialize};

use super::Report;
use crate::show::text::counted;

/// A gate: an expression, what was seen, and the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// Condition, as in `service_p99[10s] < 250ms`.
    pub expression: String,
    /// Option that set it: `threshold` or `stop_unless`.
    pub kind: String,
    /// Metric of the condition.
    pub metric: String,
    /// Name of the host, URL template, source address or stage whose requests count. Absent for all
    /// requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Over how long at a time; null for the whole run.
    pub window_s: Option<u64>,
    /// Unit of the value and the limit: `us`, `per_s`, `share`, `count` or `bool`.
    pub unit: String,
    /// Limit that the value is compared with.
    pub limit: f64,
    /// Measured value, of windows in the worst one; null when nothing can be said.
    pub value: Option<f64>,
    /// True if the value is only known to be no less than that.
    pub at_least: bool,
    /// True if the time holds waits before sending that a slow target causes (response times), false
    /// if not (service times): not corrected for coordinated omission. Null of other metrics.
    #[serde(default)]
    pub corrected: Option<bool>,
    /// Distance of the value from the limit, as a part of the limit, negative beyond it; null where
    /// nearer is no better.
    pub margin: Option<f64>,
    /// True if the expression held; null when that could not be decided.
    pub ok: Option<bool>,
    /// Reason why it could not be decided, which may be this client's own delay; or why its value is a lower bound for want of samples;
    /// or, when it held, what windows with too few samples hold.
    pub why: Option<String>,
    /// Number of windows judged; null without a window.
    pub windows: Option<u64>,
    /// The end of the worst window, or when the gate stopped the run, in seconds since the common
    /// start.
    pub until_s: Option<u64>,
}

impl GateReport {
    /// The verdict in a word.
    pub const fn verdict(&self) -> &'static str {
        match self.ok {
            Some(true) => "passed",
            Some(false) => "FAILED",
            None => "undecided",
        }
    }
}

impl Report {
    /// The thresholds that held, in words; none without one.
    pub(crate) fn passed(&self) -> Option<String> {
        let held = self.thresholds(Some(true)) as u64;
        let without_waits = self
            .gates
            .iter()
            .filter(|gate| gate.ok == Some(true) && gate.corrected == Some(false))
            .count();
        let passed = format!("{} passed", counted(held, "threshold"));
        match without_waits {
            _ if held == 0 => None,
            0 => Some(passed),
            count => Some(format!("{passed} ({count} not corrected for waits)")),
        }
    }
}
