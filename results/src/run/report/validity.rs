//! Validity of a run: its verdict, the reasons for it, and every check, including those that could
//! not be made.
//!
//! One row of [`GATES`] per check, one small function per row, every limit with its reason in
//! [`thresholds`]. A check that finds something says what happened, what that means for the numbers
//! and what to do. (The user's thresholds are in [`gates`](crate::run::gates).)
//!
//! | room | for |
//! |---|---|
//! | `thresholds` | limits of the checks, each with its reason |
//! | `wording` | words that findings share |
//! | `shards` | exit, totals, CPU and event-loop delay of each shard |
//! | `answers` | failed, cut-off and throttled requests; time without good responses |
//! | `machine` | CPU pressure, ports, descriptors, network |
//! | `open_loop` | open loop: dropped requests, waits for connections and limits |
//! | `tests` | findings, and the same cases just below the limits |

mod answers;
mod machine;
mod open_loop;
mod shards;
pub(crate) mod thresholds;
mod wording;

pub(crate) use self::answers::{left_out, longer};
pub(crate) use self::shards::used_little;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limit::STORE_LESS;
use super::{
    BindingReport, Environment, HostReport, IntervalRow, Ledger, Report, ShardReport, Totals,
    WarmUpReport,
};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::units::{micros, rounded_percent};

/// The check that notes a suspended run.
const SUSPENSION: &str = "suspension";

/// Result of the checks, the gravest last: of several findings, the verdict is the one that a
/// reader must know first.
///
/// The order says what the figures are worth, not what is worse. A graver finding makes the
/// question of a lesser one moot:
///
/// - Figures that are not of the whole run ([`Incomplete`](Self::Incomplete)) may be missing the
///   very requests that another finding is about.
/// - Where all requests were within the warm-up, or all items were skipped because of robots.txt
///   ([`NothingMeasured`](Self::NothingMeasured)), there are no figures to judge.
/// - Where too many requests failed ([`TargetLimited`](Self::TargetLimited)), the figures are about
///   failures, and a quiet machine or a faster client would only measure them better.
/// - A disturbance ([`Disturbed`](Self::Disturbed)) has to be excluded by another run before a
///   limit of the client is worth mending. Where the client used all of a CPU, another run would
///   find the CPU as hot and as wanted: that is a limit of the client. Where it used little and
///   waited for a CPU, whatever had the CPU made it late: that is a disturbance.
/// - A slow client ([`ClientLimited`](Self::ClientLimited)) makes requests wait for connections and
///   for the budget.
/// - Connections in use ([`ConcurrencyLimited`](Self::ConcurrencyLimited)) hold up requests that
///   the budget would have let go.
/// - Waits for the budget ([`BudgetLimited`](Self::BudgetLimited)) are in the response times; a few
///   errors ([`Errors`](Self::Errors)) are left out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No check that was made found anything.
    Valid,
    /// Some requests failed: the rate counts them, or the time in which the target did not work, as
    /// well.
    Errors,
    /// The budget set the pace where the load was to.
    BudgetLimited,
    /// The number of connections set the pace where the load was to.
    ConcurrencyLimited,
    /// The client, not the target, set the pace.
    ClientLimited,
    /// Something happened that a measurement should not see.
    Disturbed,
    /// Too many requests failed, were throttled, cut off at the end or never sent, or the
    /// connections to the target failed them.
    TargetLimited,
    /// Every request was within the warm-up, or every item was skipped because of robots.txt.
    NothingMeasured,
    /// A part is missing, or the parts do not add up.
    Incomplete,
}

impl Verdict {
    /// Every verdict, the gravest last.
    pub const ALL: [Self; 9] = [
        Self::Valid,
        Self::Errors,
        Self::BudgetLimited,
        Self::ConcurrencyLimited,
        Self::ClientLimited,
        Self::Disturbed,
        Self::TargetLimited,
        Self::NothingMeasured,
        Self::Incomplete,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Errors => "errors",
            Self::BudgetLimited => "budget_limited",
            Self::ConcurrencyLimited => "concurrency_limited",
            Self::ClientLimited => "client_limited",
            Self::Disturbed => "disturbed",
            Self::TargetLimited => "target_limited",
            Self::NothingMeasured => "nothing_measured",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The verdict, why, and what was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The gravest finding.
    pub verdict: Verdict,
    /// Verdicts of all findings, the gravest last. Absent from results of earlier versions, in
    /// which `disturbed` was graver than `target_limited`.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
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

impl<'a> Evidence<'a> {
    /// The evidence that the report of a run has.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let Report {
            plan,
            environment,
            host,
            shards,
            totals,
            ledger,
            intervals,
            warmup,
            ..
        } = report;
        Self {
            plan: &plan.run,
            environment,
            host,
            shards,
            totals,
            ledger,
            intervals,
            warmup: warmup.as_ref(),
        }
    }
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
    /// No response has a receive time stamp of the kernel.
    NoStamps,
    /// Every shard ended before it reported.
    NoShard,
    /// The run was shorter than the reading takes, s.
    TooShort(f64),
}

impl Missing {
    fn reason(self) -> String {
        match self {
            Self::NotGiven => "not available on this machine".to_owned(),
            Self::NoStamps => {
                "no response had a receive time stamp (TLS, HTTP/2 and --receive-stamps off give none)".to_owned()
            }
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

const fn gate(
    name: &'static str,
    verdict: Verdict,
    look: fn(&Evidence<'_>) -> CheckResult,
) -> Check {
    Check {
        name,
        verdict,
        look,
    }
}

/// Every check that is made of what the run itself saw. The target's counts and its processes are
/// checked where they are known.
const GATES: [Check; 30] = [
    gate("shard exits", Verdict::Incomplete, shards::ends),
    gate("totals", Verdict::Incomplete, shards::sums),
    gate(
        "failed requests",
        Verdict::TargetLimited,
        answers::most_failed,
    ),
    gate(
        "failed requests in a closed loop",
        Verdict::Errors,
        answers::some_failed,
    ),
    gate(
        "requests cut off at the end",
        Verdict::TargetLimited,
        answers::most_cut_off,
    ),
    gate(
        "requests cut off at the end of a closed loop",
        Verdict::Errors,
        answers::some_cut_off,
    ),
    gate(
        "long time without a good response",
        Verdict::TargetLimited,
        answers::dead,
    ),
    gate(
        "short time without a good response",
        Verdict::Errors,
        answers::partly_dead,
    ),
    gate(
        "silence at the end",
        Verdict::TargetLimited,
        answers::silent_at_the_end,
    ),
    gate(
        "measured time",
        Verdict::NothingMeasured,
        answers::nothing_measured,
    ),
    gate("throttling", Verdict::TargetLimited, answers::throttled),
    gate(
        "CPU use of each shard",
        Verdict::ClientLimited,
        shards::cpu_use,
    ),
    gate("wait for a CPU", Verdict::ClientLimited, shards::run_delay),
    gate("send delay", Verdict::ClientLimited, shards::sched_lag),
    gate(
        "receive delay",
        Verdict::ClientLimited,
        shards::receive_delay,
    ),
    gate("event-loop delay", Verdict::ClientLimited, shards::loop_lag),
    gate("CPU steal", Verdict::Disturbed, shards::steal),
    gate("CPU speed", Verdict::Disturbed, shards::speed),
    gate("CPU pressure", Verdict::Disturbed, machine::cpu_pressure),
    gate("local ports", Verdict::ClientLimited, machine::local_ports),
    gate(
        "local ports in TIME_WAIT",
        Verdict::ClientLimited,
        machine::ports_held_back,
    ),
    gate(
        "file descriptors",
        Verdict::ClientLimited,
        machine::descriptors,
    ),
    gate(
        "TCP retransmits",
        Verdict::TargetLimited,
        machine::retransmits,
    ),
    gate(
        "listen queue of the target",
        Verdict::TargetLimited,
        machine::listen_queue,
    ),
    gate(
        "requests never sent for lack of a connection",
        Verdict::ConcurrencyLimited,
        open_loop::dropped_for_connections,
    ),
    gate(
        "requests never sent because of a limit",
        Verdict::BudgetLimited,
        open_loop::dropped_for_limits,
    ),
    gate(
        "requests never sent because of throttling",
        Verdict::TargetLimited,
        open_loop::dropped_for_throttling,
    ),
    gate(
        "requests that throttling moved past the end",
        Verdict::TargetLimited,
        open_loop::postponed,
    ),
    gate(
        "waits for a free connection",
        Verdict::ConcurrencyLimited,
        open_loop::connections,
    ),
    gate(
        "waits for a limit",
        Verdict::BudgetLimited,
        open_loop::limits,
    ),
];

/// Checks whose findings come from a lack of CPU: [`shards::blame`] decides whose doing they are.
const OF_CPU: [&str; 6] = [
    "CPU speed",
    "CPU pressure",
    "wait for a CPU",
    "send delay",
    "receive delay",
    "event-loop delay",
];

/// Every check, with the verdict that its findings lead to in this run.
fn checks(evidence: &Evidence<'_>) -> [Check; GATES.len()] {
    let blame = shards::blame(evidence);
    GATES.map(|check| match blame {
        Some(verdict) if OF_CPU.contains(&check.name) => Check { verdict, ..check },
        _ => check,
    })
}

impl Validity {
    /// Judges a run.
    #[must_use]
    pub fn judge(evidence: &Evidence<'_>) -> Self {
        Self::made(evidence, |_| true)
    }

    /// Judge a run by the figures of its report. Of parts that were merged: without what limited or
    /// disturbed a machine, by which each part was judged where it ran.
    #[must_use]
    pub fn of_figures(report: &Report) -> Self {
        let is_of_machine =
            |check: &Check| matches!(check.verdict, Verdict::ClientLimited | Verdict::Disturbed);
        Self::made(&Evidence::of(report), |check| {
            report.merged.is_none() || !is_of_machine(check)
        })
    }

    fn made(evidence: &Evidence<'_>, is_made: impl Fn(&Check) -> bool) -> Self {
        let mut validity = Self {
            verdict: Verdict::Valid,
            verdicts: Vec::new(),
            reasons: Vec::new(),
            checked: Vec::new(),
            unavailable: Vec::new(),
            unavailable_reasons: BTreeMap::new(),
        };
        for Check {
            name,
            verdict,
            look,
        } in checks(evidence).into_iter().filter(is_made)
        {
            match look(evidence) {
                CheckResult::Findings(findings) => validity.check(name, findings, verdict),
                CheckResult::Unavailable(missing) => {
                    validity.unavailable.push(name.to_owned());
                    validity
                        .unavailable_reasons
                        .insert(name.to_owned(), missing.reason());
                }
            }
        }
        validity
    }

    /// Findings of the checks of one of these verdicts, also when a graver one hides them.
    #[must_use]
    pub fn findings(evidence: &Evidence<'_>, verdicts: &[Verdict]) -> Vec<String> {
        let checks = checks(evidence)
            .into_iter()
            .filter(|gate| verdicts.contains(&gate.verdict));
        let found = checks.filter_map(|gate| match (gate.look)(evidence) {
            CheckResult::Findings(findings) => Some(findings),
            CheckResult::Unavailable(_) => None,
        });
        found.flatten().collect()
    }

    /// Notes what was done to a run and its shards cannot see: a suspension, a stop before the
    /// first request, and processes that died and were replaced.
    pub(super) fn note_interruptions(
        &mut self,
        record: &RunRecord,
        totals: &Totals,
        shards: &[ShardReport],
    ) {
        if record.interrupted.is_some() && totals.attempts == 0 {
            let why =
                "the run was stopped before its first request, so nothing was measured".to_owned();
            self.check("start", Some(why), Verdict::Incomplete);
        }
        let replaced = shards::replaced(shards);
        if !replaced.is_empty() {
            self.check("replaced shards", replaced, Verdict::Disturbed);
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

    /// Notes what storing its results did to a run that had to wait for that, or failed to.
    pub(super) fn note_storage(&mut self, binding: BindingReport, failure: Option<&str>) {
        if let Some(why) = failure {
            self.check("stored results", Some(why.to_owned()), Verdict::Incomplete);
        }
        if binding.storage > 0.0 {
            let slow = (binding.storage > thresholds::STORAGE).then(|| {
                format!(
                    "storing results took longer than crawling: the shards waited for it for {} of their time, so the rate is this \
                     client's ceiling. {STORE_LESS}",
                    rounded_percent(binding.storage)
                )
            });
            self.check("waits to store results", slow, Verdict::ClientLimited);
        }
    }

    /// The checks that could not be made, a sentence for each reason.
    pub(crate) fn not_made(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in &self.unavailable {
            let reason = self
                .unavailable_reasons
                .get(name)
                .map_or("not available", String::as_str);
            by_reason.entry(reason).or_default().push(name);
        }
        by_reason
            .into_iter()
            .map(|(reason, names)| format!("{reason}: {}", names.join(", ")))
            .collect()
    }

    /// Notes a check and what it found, which is at least as grave as `verdict` says.
    pub fn check(&mut self, name: &str, found: impl IntoIterator<Item = String>, verdict: Verdict) {
        self.checked.push(name.to_owned());
        for reason in found {
            self.reasons.push(reason);
            self.verdict = self.verdict.max(verdict);
            if let Err(at) = self.verdicts.binary_search(&verdict) {
                self.verdicts.insert(at, verdict);
            }
        }
    }
}

#[cfg(test)]
mod tests;
