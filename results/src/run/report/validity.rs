//! May the result be believed? A verdict with reasons; each check that was made is named, and each that could not be.
//!
//! One row of [`GATES`] per check, one small function per row, every threshold with its reason in [`thresholds`]. A gate
//! that trips says what was seen, what that means for the numbers and what can be done about it.

mod answers;
mod machine;
mod open_loop;
mod shards;
pub(crate) mod thresholds;
mod wording;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Environment, HostReport, IntervalRow, Ledger, ShardReport, Totals, WarmUpReport};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::units::micros;

/// The check that notes a suspended run.
pub(crate) const SUSPENSION: &str = "suspension";

/// Result of the checks, the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No check that was made found anything.
    Valid,
    /// Some requests failed: the rate counts them, or the time in which the target did not work, as well.
    Errors,
    /// The budget set the pace where the load was to.
    BudgetLimited,
    /// The number of connections set the pace where the load was to.
    ConcurrencyLimited,
    /// The client, not the target, set the pace.
    ClientLimited,
    /// Too many requests failed or were refused.
    TargetLimited,
    /// Something happened that a measurement should not see.
    Disturbed,
    /// A part is missing, or the parts do not add up.
    Incomplete,
}

impl Verdict {
    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Errors => "errors",
            Self::BudgetLimited => "budget_limited",
            Self::ConcurrencyLimited => "concurrency_limited",
            Self::ClientLimited => "client_limited",
            Self::TargetLimited => "target_limited",
            Self::Disturbed => "disturbed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The verdict, why, and what was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The gravest finding.
    pub verdict: Verdict,
    /// Every finding.
    pub reasons: Vec<String>,
    /// The checks that were made, whatever they found.
    pub checked: Vec<String>,
    /// The checks that could not be made.
    pub unavailable: Vec<String>,
    /// Reasons, by check, why these could not be made. Absent from results of earlier versions.
    #[serde(default)]
    pub unavailable_reasons: BTreeMap<String, String>,
}

/// Evidence that a run is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Plan of the run.
    pub plan: &'a RunPlan,
    /// Machine and system on which it ran.
    pub environment: &'a Environment,
    /// Counters of the machine during the run.
    pub host: &'a HostReport,
    /// Each shard.
    pub shards: &'a [ShardReport],
    /// Counts of all shards.
    pub totals: &'a Totals,
    /// Items by state.
    pub ledger: &'a Ledger,
    /// Each second, in order.
    pub intervals: &'a [IntervalRow],
    /// Counts of the warm-up, which the shares of what the target answered leave out.
    pub warmup: Option<&'a WarmUpReport>,
}

/// Result of a check.
#[derive(Debug, PartialEq)]
enum CheckResult {
    /// Its findings; none when all is well.
    Findings(Vec<String>),
    /// Nothing of what it looks at, and why.
    Unavailable(Missing),
}

/// Reason why a check has nothing to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Missing {
    /// The machine does not give the reading.
    NotGiven,
    /// Every shard ended before it reported.
    NoShard,
    /// The run was shorter than the reading takes, s.
    TooShort(f64),
}

impl Missing {
    fn reason(self) -> String {
        match self {
            Self::NotGiven => "not available on this machine".to_owned(),
            Self::NoShard => "no shard reported".to_owned(),
            Self::TooShort(s) => format!("the run was shorter than {}", micros(s * 1e6)),
        }
    }
}

impl CheckResult {
    /// At most one finding.
    fn perhaps(finding: Option<String>) -> Self {
        Self::Findings(finding.into_iter().collect())
    }
}

/// A check.
struct Check {
    name: &'static str,
    /// Least grave verdict that a finding leads to.
    verdict: Verdict,
    look: fn(&Evidence<'_>) -> CheckResult,
}

const fn gate(name: &'static str, verdict: Verdict, look: fn(&Evidence<'_>) -> CheckResult) -> Check {
    Check { name, verdict, look }
}

/// Every check that is made of what the run itself saw. The target's books and its processes are checked where they are
/// known.
const GATES: [Check; 27] = [
    gate("every shard's end", Verdict::Incomplete, shards::ends),
    gate("the sums", Verdict::Incomplete, shards::sums),
    gate("answers", Verdict::TargetLimited, answers::most_failed),
    gate("failed requests", Verdict::Errors, answers::some_failed),
    gate("time without a good answer", Verdict::TargetLimited, answers::dead),
    gate("seconds without a good answer", Verdict::Errors, answers::partly_dead),
    gate("answers at the end", Verdict::TargetLimited, answers::silent_at_the_end),
    gate("a measured time", Verdict::TargetLimited, answers::nothing_measured),
    gate("throttling", Verdict::TargetLimited, answers::throttled),
    gate("CPU use of each shard", Verdict::ClientLimited, shards::cpu_use),
    gate("run-queue delay", Verdict::ClientLimited, shards::run_delay),
    gate("scheduling lag", Verdict::ClientLimited, shards::sched_lag),
    gate("loop lag", Verdict::ClientLimited, shards::loop_lag),
    gate("steal", Verdict::Disturbed, shards::steal),
    gate("speed of the CPU", Verdict::Disturbed, shards::speed),
    gate("CPU pressure", Verdict::Disturbed, machine::cpu_pressure),
    gate("local ports", Verdict::ClientLimited, machine::local_ports),
    gate("ports held back", Verdict::ClientLimited, machine::ports_held_back),
    gate("descriptors", Verdict::ClientLimited, machine::descriptors),
    gate("retransmits", Verdict::Disturbed, machine::retransmits),
    gate("listen queue", Verdict::TargetLimited, machine::listen_queue),
    gate("requests that were due", Verdict::ConcurrencyLimited, open_loop::dropped_for_connections),
    gate("requests held back by a limit", Verdict::BudgetLimited, open_loop::dropped_for_limits),
    gate("requests held back by throttling", Verdict::TargetLimited, open_loop::dropped_for_throttling),
    gate("requests postponed by throttling", Verdict::TargetLimited, open_loop::postponed),
    gate("waits for connections in use", Verdict::ConcurrencyLimited, open_loop::connections),
    gate("waits for a limit", Verdict::BudgetLimited, open_loop::limits),
];

impl Validity {
    /// Judges a run.
    #[must_use]
    pub fn judge(evidence: &Evidence<'_>) -> Self {
        let mut validity = Self {
            verdict: Verdict::Valid,
            reasons: Vec::new(),
            checked: Vec::new(),
            unavailable: Vec::new(),
            unavailable_reasons: BTreeMap::new(),
        };
        for Check { name, verdict, look } in GATES {
            match look(evidence) {
                CheckResult::Findings(findings) => validity.check(name, findings, verdict),
                CheckResult::Unavailable(missing) => {
                    validity.unavailable.push(name.to_owned());
                    validity.unavailable_reasons.insert(name.to_owned(), missing.reason());
                }
            }
        }
        validity
    }

    /// Findings of the checks of one of these verdicts, also when a graver one hides them.
    #[must_use]
    pub fn findings(evidence: &Evidence<'_>, verdicts: &[Verdict]) -> Vec<String> {
        let checks = GATES.iter().filter(|gate| verdicts.contains(&gate.verdict));
        let found = checks.filter_map(|gate| match (gate.look)(evidence) {
            CheckResult::Findings(findings) => Some(findings),
            CheckResult::Unavailable(_) => None,
        });
        found.flatten().collect()
    }

    /// Notes what was done to a run and its shards cannot see: a suspension, and a stop before the first request.
    pub(super) fn note_interruptions(&mut self, record: &RunRecord, totals: &Totals, shards: &[ShardReport]) {
        if record.interrupted.is_some() && totals.attempts == 0 {
            let why = "the run was stopped before its first request, so nothing was measured".to_owned();
            self.check("start", Some(why), Verdict::Incomplete);
        }
        if !record.suspended.is_zero() {
            shards::blame_suspension(&mut self.reasons, record.suspended, shards);
            let why = format!(
                "the run was suspended for {} (Ctrl-Z or SIGTSTP): rates include that time, and requests in flight look \
                 slower by it; run it again without a break",
                micros(record.suspended.as_secs_f64() * 1e6)
            );
            self.check(SUSPENSION, Some(why), Verdict::Disturbed);
        }
    }

    /// The checks that could not be made, a sentence for each reason.
    pub(crate) fn not_made(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in &self.unavailable {
            let reason = self.unavailable_reasons.get(name).map_or("not available", String::as_str);
            by_reason.entry(reason).or_default().push(name);
        }
        by_reason.into_iter().map(|(reason, names)| format!("{reason}: {}", names.join(", "))).collect()
    }

    /// Notes a check and what it found, which is at least as grave as `verdict` says.
    pub fn check(&mut self, name: &str, found: impl IntoIterator<Item = String>, verdict: Verdict) {
        self.checked.push(name.to_owned());
        for reason in found {
            self.reasons.push(reason);
            self.verdict = self.verdict.max(verdict);
        }
    }
}

#[cfg(test)]
mod tests;
