//! What the figures of a run are worth: the gravest effect of its findings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No check that was made found anything.
    #[default]
    Valid,
    /// Some requests failed, or most were not found: the rate counts them, or the time in which the
    /// target did not work, as well.
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

    /// Its name, its meaning for the figures, what to do about it, and the meaning in a clause.
    const fn row(self) -> [&'static str; 4] {
        match self {
            Self::Valid => [
                "valid",
                "No check found a problem with these figures.",
                "Use the figures.",
                "",
            ],
            Self::Errors => [
                "errors",
                "Some requests failed or were cut off, or most were not found. The times exclude failed requests, but the request rate includes them.",
                "See the errors by kind and the responses that were not found. Fix the cause, or state the share of these requests beside the rate.",
                "requests failed, were cut off or not found",
            ],
            Self::BudgetLimited => [
                "budget_limited",
                "Requests of an open loop waited for a limit other than the schedule. Response times include these waits.",
                "Raise `--per-host-rate` or `--per-host-connections`, or lower `--rate`.",
                "the times include waits for another limit than the rate",
            ],
            Self::ConcurrencyLimited => [
                "concurrency_limited",
                "Requests of an open loop waited for a free connection. Response times include these waits.",
                "Raise `-c` above the rate times the longest response time. If the rate does not grow with `-c`, the target is the limit.",
                "the times include waits for a free connection",
            ],
            Self::ClientLimited => [
                "client_limited",
                "This client was too slow, at least for part of the run. The times include its own delays.",
                "Move the target to another machine, use fewer `--shards`, set a `--rate`, or use a faster client.",
                "the times include this client's own delays",
            ],
            Self::Disturbed => [
                "disturbed",
                "Something disturbed the run. Repeat it before relying on these figures.",
                "Run again. If the problem recurs, look for other programs that use the machine.",
                "repeat the run before relying on these figures",
            ],
            Self::TargetLimited => [
                "target_limited",
                "The target failed, throttled, cut off or delayed so many requests that these figures do not describe normal responses.",
                "Check the target, or lower the rate. If the target throttles, respect the waits that it asks for.",
                "these figures do not describe normal responses",
            ],
            Self::NothingMeasured => [
                "nothing_measured",
                "Nothing was measured.",
                "Run longer, shorten `--warmup`, crawl other URLs, or fix the error that the finding names.",
                "there is nothing to judge",
            ],
            Self::Incomplete => [
                "incomplete",
                "Data is missing or inconsistent, so these figures do not cover the whole run.",
                "Check how the shards exited, and run again. If the totals still do not add up, report a bug.",
                "these figures do not cover the whole run",
            ],
        }
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        self.row()[0]
    }

    /// Meaning for the figures, in a sentence.
    pub const fn meaning(self) -> &'static str {
        self.row()[1]
    }

    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        self.row()[2]
    }

    /// Meaning for the figures in a clause; empty of valid ones.
    pub(crate) const fn brief(self) -> &'static str {
        self.row()[3]
    }
}

/// The verdict, and what was looked at. The findings behind it are in
/// [`Report::findings`](crate::run::report::Report::findings).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The gravest effect of a finding.
    pub verdict: Verdict,
    /// Effects of all findings, those that others cover included, the gravest last.
    pub verdicts: Vec<Verdict>,
    /// The checks that were made, whatever they found.
    pub checked: Vec<String>,
    /// The checks that could not be made, each with the reason.
    pub unavailable: BTreeMap<String, Missing>,
}

/// Reason why a check has nothing to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The machine does not give the reading.
    NotGiven,
    /// No response has a receive time stamp of the kernel.
    NoStamps,
    /// No probe of the target ran until the end.
    NoProbe,
}

impl Missing {
    /// The reason in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotGiven => "not available on this machine",
            Self::NoStamps => {
                "no response had a receive time stamp (TLS, HTTP/2 and --receive-stamps off give none)"
            }
            Self::NoProbe => {
                "no probe of the target ran until the end (behind a proxy, name its processes: --target-pid)"
            }
        }
    }
}
