//! The facts that a run can show, each with its severity, its effect on the verdict, and its text.
//! The only place in which results make sentences.
#![expect(
    clippy::match_same_arms,
    clippy::too_many_lines,
    reason = "one arm for each finding"
)]

use std::cmp::Reverse;

use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Serialize, Serializer};

use super::{Verdict, thresholds};
use crate::run::report::{
    Limit, Report, cause_in_words, failures, in_unit, listed, remedy_in_words,
};
use crate::show::text::{capital, counted, decimal, grouped, micros, seconds};
use crawlmark_harness::process::{ShardExit, signal_in_words};
use crawlmark_harness::stats::FailureCause;
use crawlmark_harness::units::rounded_percent;

/// Severity of a finding, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Neither good nor bad news.
    Info,
    /// To be known before the figures are used.
    Warning,
    /// The run, or what it measured, failed.
    Error,
}

/// Failed requests of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// Key of the cause, as in `failures`.
    pub cause: String,
    /// Requests that failed so.
    pub count: u64,
    /// What to do about it; absent where that depends on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Failed requests of a run after its warm-up by cause, the commonest first, without failures that
/// are this machine's own.
#[must_use]
pub fn causes(report: &Report) -> Vec<CauseCount> {
    let is_own = |cause| matches!(cause, FailureCause::Error(kind) if kind.is_local());
    let excerpt = |cause: FailureCause| report.failures.get(&cause.key())?.excerpt.as_deref();
    failures(&report.measured().requests)
        .into_iter()
        .filter(|(cause, _)| !is_own(*cause))
        .map(|(cause, count)| CauseCount {
            cause: cause.key(),
            count,
            advice: remedy_in_words(cause, excerpt(cause)).map(capital),
        })
        .collect()
}

/// `2,519 × connection refused, 3 × status 500`.
fn causes_in_words(causes: &[CauseCount]) -> String {
    let words = |cause: &CauseCount| {
        FailureCause::of_key(&cause.cause).map_or_else(|| cause.cause.clone(), cause_in_words)
    };
    listed(causes.iter().map(|cause| (words(cause), cause.count)))
}

/// Define the findings and their kinds.
macro_rules! findings {
    ($(#[doc = $doc:literal] $kind:ident { $($(#[$note:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// Fact about a run with its numbers, in the order in which a reader has to know those of
        /// one severity.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Finding {
            $(#[doc = $doc] $kind {
                $($(#[$note])* #[doc = concat!("See the text of the finding: ", stringify!($field), ".")] $field: $type),*
            },)*
        }

        /// Kind of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FindingKind {
            $(#[doc = $doc] $kind,)*
        }

        impl Finding {
            /// Its kind.
            #[must_use]
            pub const fn kind(&self) -> FindingKind {
                match self {
                    $(Self::$kind { .. } => FindingKind::$kind,)*
                }
            }
        }

        impl FindingKind {
            /// Every kind, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// When it is found.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => $doc,)*
                }
            }
        }

        #[cfg(test)]
        impl Finding {
            /// A finding of each kind, all of whose numbers are 0.
            pub(super) fn samples() -> Vec<Self> {
                vec![$(Self::$kind { $($field: Default::default()),* }),*]
            }
        }
    };
}

findings! {
    /// No request was sent, and none was due.
    NothingSent {}
    /// The run was stopped before its first request.
    StoppedBeforeStart {}
    /// A process of the crawl died before its final report.
    ShardDied { shard: u32, exit: ShardExit, at_s: Option<f64>, lost: Option<u64>, not_attempted: u64, unscheduled: Option<u64> }
    /// A part of the crawl has no result.
    PartMissing { part: u32, items: u64 }
    /// A process of the crawl reported everything, and then did not exit cleanly.
    ShardExitFailed { shard: u32, exit: ShardExit }
    /// Items or requests are not in exactly one state each.
    SumsDiffer { shard: u32, planned: u64, counted: u64 }
    /// Results could not be stored.
    StorageFailed { reason: String }
    /// The counts of the bundled target differ from those of the client.
    CountsDiffer { differences: Vec<String> }
    /// More requests were sent in some time than the budget of the run or of a host allows.
    BudgetExceeded { sent: u64, allowed: u64, width_ms: f64, host: Option<u32> }
    /// Every item that was reached is forbidden by robots.txt.
    AllSkipped { items: u64 }
    /// No request could be sent, because settings of client and target do not fit.
    Unsendable { causes: Vec<CauseCount> }
    /// Every request was within the warm-up.
    WithinWarmUp { requests: u64, duration_s: f64, warmup_s: f64 }
    /// No request succeeded, and half of them or more failed.
    AllFailed { requests: u64, causes: Vec<CauseCount> }
    /// No good response came any more while requests failed, until the end.
    TargetDown { from_s: f64, dead_s: f64, of_s: f64, causes: Vec<CauseCount> }
    /// No response of any kind came at the end while requests waited for one.
    Silent { silent_s: f64, of_s: f64, cut_off: u64 }
    /// A threshold was not met.
    ThresholdFailed { expression: String, unit: String, limit: f64, value: Option<f64>, is_lower_bound: bool }
    /// A threshold could not be evaluated.
    ThresholdUndecided { expression: String, reason: String }
    /// A signal stopped the run.
    Interrupted { signal: i32, after_s: f64, planned_s: Option<f64> }
    /// The run was suspended for a while.
    Suspended { suspended_s: f64 }
    /// Processes of the crawl died and were replaced.
    ShardReplaced { shard: u32, times: u64, exits: Vec<ShardExit> }
    /// A process of the bundled target ended early.
    TargetProcessLost { exit: String }
    /// A part sent nothing for a while, because it could not renew its lease of the budget.
    LeaseLapsed { lapsed_s: f64 }
    /// Attempts that were not merged sent requests as well.
    OtherAttempts { requests: u64, is_complete: bool, attempts: u32 }
    /// A host could not be reached before the start.
    HostUnreached { reason: String }
    /// Some hosts gave no good response, and requests to others did not fail.
    HostsDown { hosts: Vec<String>, of: u32, requests: u64, causes: Vec<CauseCount> }
    /// For some time no good response came while requests failed.
    NoGoodResponse { from_s: f64, to_s: f64, dead_s: f64, of_s: f64, causes: Vec<CauseCount> }
    /// No response came for a time that is long for this target, and then many at once.
    Stalled { count: usize, longest_s: f64, at_s: f64, total_s: f64, of_s: f64, period_s: Option<f64> }
    /// Requests failed.
    RequestsFailed { share: f64, causes: Vec<CauseCount>, is_open_loop: bool }
    /// Requests were cut off at the end of the run.
    CutOff { share: f64, count: u64, is_open_loop: bool }
    /// The target throttled the run, or its quota limited it.
    Throttled { share: f64, good_share: f64, held_share: f64, waits: bool, learnt_per_s: Option<f64> }
    /// Items were abandoned, because the target throttled them.
    Abandoned { share: f64, count: u64 }
    /// Parts of the crawl were limited or disturbed where they ran.
    PartsJudged { verdict: Verdict, parts: Vec<u32>, of: u32, reason: String }
    /// Requests found no free local port.
    NoLocalPort { requests: u64, ports: Option<u64> }
    /// Requests had no file descriptor to connect with.
    NoDescriptor { requests: u64, limit: Option<u64> }
    /// A shard used nearly all of a CPU.
    CpuFull { shard: u32, others: usize, share: f64 }
    /// A shard was ready to run and waited for a CPU.
    CpuWait { shard: u32, others: usize, share: f64, is_disturbed: bool }
    /// A shard did not run for a while: it was stopped, or starved of CPU.
    ShardPaused { shard: u32, others: usize, paused_s: f64, is_disturbed: bool }
    /// A shard sent requests late.
    SentLate { shard: u32, others: usize, one_in: u32, late_us: f64, is_disturbed: bool }
    /// A shard read responses late, by the kernel's time stamps.
    ReadLate { shard: u32, others: usize, one_in: u32, late_us: f64, is_disturbed: bool }
    /// The event loop of a shard was late.
    LoopLate { shard: u32, others: usize, one_in: u32, late_us: f64, is_disturbed: bool }
    /// The shards waited to store results.
    StorageSlow { share: f64 }
    /// Closed connections held many local ports back.
    PortsInTimeWait { held: u64, ports: u64, sources: u64 }
    /// Requests were due and never sent.
    NeverSent { shard: u32, others: usize, share: f64, count: u64, limit: Limit }
    /// Throttle pauses moved scheduled requests past the end.
    Postponed { share: f64, count: u64 }
    /// Requests of an open loop waited for a limit before they were sent.
    Waited { shard: u32, others: usize, one_in: u32, waited_us: f64, response_us: f64, limit: Limit }
    /// The requested rate was not reached.
    RateMissed { got_per_s: f64, asked_per_s: f64, limit: Option<Limit>, share: f64 }
    /// The host of the virtual machine gave CPU time to others.
    CpuSteal { shard: u32, others: usize, share: f64 }
    /// The CPU was faster or slower after the run than before it.
    CpuSpeed { shard: u32, others: usize, before_us: f64, after_us: f64, is_disturbed: bool }
    /// TCP segments were retransmitted on this machine.
    Retransmits { segments: u64 }
    /// Connections met a full listen queue.
    ListenQueueFull { connections: u64 }
    /// Most of the run was warm-up.
    MostlyWarmUp { measured_s: f64, of_s: f64 }
    /// Files robots.txt could not be fetched, so that their hosts were not crawled.
    RobotsUnreachable { hosts: u32 }
    /// Source addresses were throttled at their first request.
    SourcesThrottled { sources: u64, throttled: u64 }
    /// Requests were not found.
    NotFound { share: f64, count: u64 }
    /// Connections were not kept.
    ConnectionsNotKept { opened: u64, requests: u64 }
    /// Certificates were not verified.
    CertificatesUnverified {}
    /// Only a part of the connections was ever in use.
    ConnectionsUnused { peak: u64, of: u64 }
    /// A limit held the run back for a notable part of the time.
    LimitedBy { limit: Limit, share: f64 }
    /// Client and target share all CPUs of a machine.
    CpusShared { cpus: usize }
}

/// Remedies for a shard that lacks CPU time.
const MORE_CPU: &str = "Move the target to another machine, use fewer shards (--shards), set a lower --rate, or end other programs.";

/// Remedies for a lack of ports.
const MORE_PORTS: &str = "Use fewer connections, keep them alive, add source addresses (--local-ips), or widen net.ipv4.ip_local_port_range.";

/// Remedy for something that another run may not have.
const RUN_AGAIN: &str = "Run again.";

/// Remedy for a target that works badly.
const CHECK_TARGET: &str = "Check whether the target still runs, and its log.";

/// `shard 3`, or `shard 3 (and 2 others)`.
fn who(shard: u32, others: usize) -> String {
    match others {
        0 => format!("Shard {shard}"),
        1 => format!("Shard {shard} (and 1 other)"),
        others => format!("Shard {shard} (and {others} others)"),
    }
}

impl Finding {
    /// Effect on the verdict; none of one that leaves the figures valid.
    #[must_use]
    pub fn effect(&self) -> Option<Verdict> {
        Some(match *self {
            Self::StoppedBeforeStart {}
            | Self::ShardDied { .. }
            | Self::PartMissing { .. }
            | Self::ShardExitFailed { .. }
            | Self::SumsDiffer { .. }
            | Self::StorageFailed { .. }
            | Self::CountsDiffer { .. } => Verdict::Incomplete,
            Self::AllSkipped { .. } | Self::Unsendable { .. } | Self::WithinWarmUp { .. } => {
                Verdict::NothingMeasured
            }
            Self::AllFailed { .. }
            | Self::TargetDown { .. }
            | Self::Silent { .. }
            | Self::HostUnreached { .. }
            | Self::Postponed { .. }
            | Self::Retransmits { .. }
            | Self::ListenQueueFull { .. } => Verdict::TargetLimited,
            Self::NoGoodResponse { dead_s, of_s, .. } => {
                if dead_s >= thresholds::LEAST_DEAD_S && dead_s >= of_s * thresholds::DEAD {
                    Verdict::TargetLimited
                } else if dead_s >= of_s * thresholds::PARTLY_DEAD {
                    Verdict::Errors
                } else {
                    return None;
                }
            }
            Self::RequestsFailed {
                share,
                is_open_loop,
                ..
            }
            | Self::CutOff {
                share,
                is_open_loop,
                ..
            } => {
                if is_open_loop || share >= thresholds::MOST_FAILED {
                    Verdict::TargetLimited
                } else {
                    Verdict::Errors
                }
            }
            Self::Throttled {
                share,
                good_share,
                waits,
                ..
            } if share > thresholds::THROTTLED
                && (!waits || good_share < thresholds::HARDLY_ANY) =>
            {
                Verdict::TargetLimited
            }
            Self::Suspended { .. }
            | Self::ShardReplaced { .. }
            | Self::TargetProcessLost { .. }
            | Self::LeaseLapsed { .. }
            | Self::OtherAttempts { .. }
            | Self::CpuSteal { .. } => Verdict::Disturbed,
            Self::NoLocalPort { .. }
            | Self::NoDescriptor { .. }
            | Self::CpuFull { .. }
            | Self::StorageSlow { .. }
            | Self::PortsInTimeWait { .. } => Verdict::ClientLimited,
            Self::CpuWait { is_disturbed, .. }
            | Self::ShardPaused { is_disturbed, .. }
            | Self::SentLate { is_disturbed, .. }
            | Self::ReadLate { is_disturbed, .. }
            | Self::LoopLate { is_disturbed, .. }
            | Self::CpuSpeed { is_disturbed, .. } => {
                if is_disturbed {
                    Verdict::Disturbed
                } else {
                    Verdict::ClientLimited
                }
            }
            Self::PartsJudged { verdict, .. } => verdict,
            Self::Waited {
                limit: Limit::Connections,
                ..
            }
            | Self::NeverSent {
                limit: Limit::Connections | Limit::Unknown,
                ..
            } => Verdict::ConcurrencyLimited,
            Self::NeverSent {
                limit: Limit::Pause | Limit::Quota | Limit::Adaptive,
                ..
            } => Verdict::TargetLimited,
            Self::NeverSent { .. } | Self::Waited { .. } => Verdict::BudgetLimited,
            _ => return None,
        })
    }

    /// Severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::BudgetExceeded { .. }
            | Self::AllFailed { .. }
            | Self::TargetDown { .. }
            | Self::Silent { .. }
            | Self::ThresholdFailed { .. } => Severity::Error,
            Self::Stalled { total_s, of_s, .. } if *total_s < of_s * thresholds::STALLED => {
                Severity::Info
            }
            Self::Throttled { share, .. } if *share < thresholds::FAILED => Severity::Info,
            Self::NotFound { share, .. } if *share < 1.0 => Severity::Info,
            Self::SourcesThrottled { .. }
            | Self::ConnectionsNotKept { .. }
            | Self::CertificatesUnverified {}
            | Self::ConnectionsUnused { .. }
            | Self::LimitedBy { .. }
            | Self::CpusShared { .. } => Severity::Info,
            _ => match self.effect() {
                Some(Verdict::Incomplete | Verdict::NothingMeasured) => Severity::Error,
                _ => Severity::Warning,
            },
        }
    }

    /// One plain sentence with its numbers, without a full stop.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::NothingSent {} => "No request was sent, so there are no figures".to_owned(),
            Self::StoppedBeforeStart {} => {
                "The run was stopped before its first request, so nothing was measured".to_owned()
            }
            Self::ShardDied {
                shard,
                exit,
                at_s,
                lost,
                not_attempted,
                unscheduled,
            } => {
                let at = at_s.map_or_else(
                    || "before its first report".to_owned(),
                    |s| format!("at {}", seconds(s)),
                );
                let lost = lost.map_or_else(
                    || "an unknown number".to_owned(),
                    |lost| format!("up to {}", grouped(lost)),
                );
                format!(
                    "Shard {shard} died {at} (its process {exit}): {lost} of its items are lost, {} were not attempted, {} of its part \
                     of the schedule were never sent, and its times are left out",
                    grouped(*not_attempted),
                    counted(unscheduled.unwrap_or(0), "request")
                )
            }
            Self::PartMissing { part, items } => {
                format!(
                    "Part {part} has no result: its {} are not attempted",
                    counted(*items, "item")
                )
            }
            Self::ShardExitFailed { shard, exit } => {
                format!("Shard {shard} reported everything, and then its process {exit}")
            }
            Self::SumsDiffer {
                shard,
                planned,
                counted,
            } => format!(
                "Shard {shard} planned {planned} and counted {counted}, which does not add up"
            ),
            Self::StorageFailed { reason } => reason.clone(),
            Self::CountsDiffer { differences } => {
                format!("The target's own counts differ: {}", differences.join(", "))
            }
            Self::BudgetExceeded {
                sent,
                allowed,
                width_ms,
                host,
            } => format!(
                "The budget{} was exceeded: {} sent in {}, {} allowed",
                host.map_or_else(String::new, |host| format!(" of host {host}")),
                counted(*sent, "request"),
                seconds(width_ms / 1e3),
                grouped(*allowed)
            ),
            Self::AllSkipped { items } => format!(
                "All {} items that the run reached were skipped because of robots.txt, so no request was sent",
                grouped(*items)
            ),
            Self::Unsendable { causes } => {
                format!("No request could be sent: {}", causes_in_words(causes))
            }
            Self::WithinWarmUp {
                requests,
                duration_s,
                warmup_s,
            } => format!(
                "All {} requests were within the warm-up of {}, so nothing was measured in {}",
                grouped(*requests),
                seconds(*warmup_s),
                seconds(*duration_s)
            ),
            Self::AllFailed { requests, causes } => {
                format!(
                    "None of {} requests succeeded: {}",
                    grouped(*requests),
                    causes_in_words(causes)
                )
            }
            Self::TargetDown {
                from_s,
                of_s,
                causes,
                ..
            } => format!(
                "No good response from {from_s:.0} s on, of {}: {}",
                seconds(*of_s),
                causes_in_words(causes)
            ),
            Self::Silent {
                silent_s,
                of_s,
                cut_off,
            } => format!(
                "No response came in the last {silent_s:.1} of {of_s:.1} seconds, and {} items were cut off without one",
                grouped(*cut_off)
            ),
            Self::ThresholdFailed {
                expression,
                unit,
                value,
                is_lower_bound,
                ..
            } => format!(
                "Threshold failed: {expression}, measured {}{}",
                if *is_lower_bound { ">= " } else { "" },
                value.map_or_else(|| "nothing".to_owned(), |value| in_unit(unit, value))
            ),
            Self::ThresholdUndecided { expression, reason } => {
                format!("Threshold undecided: {expression} ({reason})")
            }
            Self::Interrupted {
                signal,
                after_s,
                planned_s,
            } => format!(
                "{} stopped the run: the figures cover {} of {}",
                signal_in_words(*signal),
                seconds(*after_s),
                planned_s.map_or_else(|| "its items".to_owned(), seconds)
            ),
            Self::Suspended { suspended_s } => format!(
                "The run was suspended for {} (Ctrl-Z or SIGTSTP), so rates are too low and requests in flight look slower",
                seconds(*suspended_s)
            ),
            Self::ShardReplaced {
                shard,
                times,
                exits,
            } => format!(
                "Shard {shard} died and was replaced {} (its process {}): some requests are not counted, its times and CPU are left out",
                counted(*times, "time"),
                exits
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", then ")
            ),
            Self::TargetProcessLost { exit } => {
                format!("A process of the bundled target was lost: {exit}")
            }
            Self::LeaseLapsed { lapsed_s } => format!(
                "The part could not renew its lease of the budget for {lapsed_s:.1} s, and sent nothing in that time"
            ),
            Self::OtherAttempts {
                requests,
                is_complete,
                attempts,
            } => format!(
                "{}{} sent by attempts that were not merged ({attempts}) and by shards that died: the target had more to do",
                if *is_complete { "" } else { "At least " },
                counted(*requests, "more request")
            ),
            Self::HostUnreached { reason } => reason.clone(),
            Self::HostsDown {
                hosts,
                of,
                requests,
                causes,
            } => format!(
                "All {} to {} of {} failed: {} ({})",
                counted(*requests, "request"),
                hosts.len(),
                counted((*of).into(), "host"),
                causes_in_words(causes),
                hosts.join(", ")
            ),
            Self::NoGoodResponse {
                from_s,
                to_s,
                dead_s,
                of_s,
                causes,
            } => format!(
                "No good response for {dead_s:.0} of {of_s:.0} seconds while requests failed, the longest time from {from_s:.0} s to \
                 {to_s:.0} s: {}",
                causes_in_words(causes)
            ),
            Self::Stalled {
                count,
                longest_s,
                at_s,
                total_s,
                of_s,
                period_s,
            } => format!(
                "{}{}: {} of {} without a response ({}), the longest {} at {at_s:.0} s",
                counted(*count as u64, "stall"),
                period_s.map_or_else(String::new, |s| format!(", one every {}", seconds(s))),
                seconds(*total_s),
                seconds(*of_s),
                rounded_percent(total_s / of_s.max(f64::MIN_POSITIVE)),
                seconds(*longest_s)
            ),
            Self::RequestsFailed { share, causes, .. } => {
                format!(
                    "{} of requests failed: {}",
                    rounded_percent(*share),
                    causes_in_words(causes)
                )
            }
            Self::CutOff { share, count, .. } => format!(
                "{} of requests ({}) were cut off at the end without a response: their times are lower bounds",
                rounded_percent(*share),
                grouped(*count)
            ),
            Self::Throttled {
                share,
                good_share,
                held_share,
                ..
            } => format!(
                "The target throttled {} of requests, pauses and quota took {} of the time, and {} of requests brought an item",
                rounded_percent(*share),
                rounded_percent(*held_share),
                rounded_percent(*good_share)
            ),
            Self::Abandoned { share, count } => format!(
                "{} of the items ({}) were abandoned because the target throttled them",
                rounded_percent(*share),
                grouped(*count)
            ),
            Self::PartsJudged {
                verdict,
                parts,
                of,
                reason,
            } => format!(
                "{} of {of} parts are {} (part {}: {reason})",
                parts.len(),
                verdict.name().replace('_', "-"),
                parts.first().copied().unwrap_or_default()
            ),
            Self::NoLocalPort { requests, ports } => format!(
                "{} found no free local port; this machine has {} for each source address",
                counted(*requests, "request"),
                ports.map_or_else(|| "an unknown number".to_owned(), grouped)
            ),
            Self::NoDescriptor { requests, limit } => format!(
                "{} had no descriptor to connect with; a process may open {}",
                counted(*requests, "request"),
                limit.map_or_else(|| "a limited number".to_owned(), grouped)
            ),
            Self::CpuFull {
                shard,
                others,
                share,
            } => format!(
                "{} used {} of a CPU, so the rate is this client's ceiling",
                who(*shard, *others),
                rounded_percent(*share)
            ),
            Self::CpuWait {
                shard,
                others,
                share,
                ..
            } => format!(
                "{} waited for a CPU {} of the time, so responses were read late and look slower",
                who(*shard, *others),
                rounded_percent(*share)
            ),
            Self::ShardPaused {
                shard,
                others,
                paused_s,
                ..
            } => format!(
                "{} did not run for {} (stopped, or starved of CPU), so requests in flight look slower",
                who(*shard, *others),
                seconds(*paused_s)
            ),
            Self::SentLate {
                shard,
                others,
                one_in,
                late_us,
                ..
            } => format!(
                "{} sent 1 of {one_in} requests at least {} late",
                who(*shard, *others),
                micros(*late_us)
            ),
            Self::ReadLate {
                shard,
                others,
                one_in,
                late_us,
                ..
            } => format!(
                "{} read 1 of {one_in} responses at least {} late, which is in their latency",
                who(*shard, *others),
                micros(*late_us)
            ),
            Self::LoopLate {
                shard,
                others,
                one_in,
                late_us,
                ..
            } => format!(
                "{} handled 1 of {one_in} events at least {} late (event-loop delay)",
                who(*shard, *others),
                micros(*late_us)
            ),
            Self::StorageSlow { share } => format!(
                "The shards waited to store results {} of the time, so the rate is this client's ceiling",
                rounded_percent(*share)
            ),
            Self::PortsInTimeWait {
                held,
                ports,
                sources,
            } => format!(
                "Closed connections kept {} of {} local ports of {} in TIME_WAIT, which slows opening connections",
                grouped(*held),
                grouped(*ports),
                counted(*sources, "source address")
            ),
            Self::NeverSent {
                shard,
                others,
                share,
                count,
                limit,
            } => format!(
                "{} never sent {} of the requests that were due ({}), limited by {}; response times count each as the time it had waited",
                who(*shard, *others),
                rounded_percent(*share),
                grouped(*count),
                limit.name()
            ),
            Self::Postponed { share, count } => format!(
                "{} of the requests on the schedule ({}) were never sent: throttle pauses moved them past the end",
                rounded_percent(*share),
                grouped(*count)
            ),
            Self::Waited {
                shard,
                others,
                one_in,
                waited_us,
                response_us,
                limit,
            } => format!(
                "{}: 1 of {one_in} requests waited {} for {}; 1 of {one_in} response times is {}, which includes that",
                who(*shard, *others),
                micros(*waited_us),
                limit.name(),
                micros(*response_us)
            ),
            Self::RateMissed {
                got_per_s,
                asked_per_s,
                limit,
                share,
            } => format!(
                "{}/s instead of {}/s: {}",
                decimal(*got_per_s),
                decimal(*asked_per_s),
                limit.map_or_else(
                    || "no limit explains it".to_owned(),
                    |limit| format!(
                        "limited by {} {} of the time",
                        limit.name(),
                        rounded_percent(*share)
                    )
                )
            ),
            Self::CpuSteal {
                shard,
                others,
                share,
            } => format!(
                "{} lost {} of its CPU time to other virtual machines of the host",
                who(*shard, *others),
                rounded_percent(*share)
            ),
            Self::CpuSpeed {
                shard,
                others,
                before_us,
                after_us,
                ..
            } => format!(
                "{}: the same work took {} of CPU time before the run and {} after it, so the CPU's speed changed",
                who(*shard, *others),
                micros(*before_us),
                micros(*after_us)
            ),
            Self::Retransmits { segments } => format!(
                "TCP retransmitted {} on this machine, and a response or a connection was late by as much",
                counted(*segments, "segment")
            ),
            Self::ListenQueueFull { connections } => format!(
                "{} met a full listen queue on this machine and were retried after a second",
                counted(*connections, "connection")
            ),
            Self::MostlyWarmUp { measured_s, of_s } => format!(
                "The figures cover {} of {} ({}): the rest was warm-up",
                seconds(*measured_s),
                seconds(*of_s),
                rounded_percent(measured_s / of_s.max(f64::MIN_POSITIVE))
            ),
            Self::RobotsUnreachable { hosts } => format!(
                "robots.txt of {} could not be fetched, so nothing of it was crawled (RFC 9309)",
                counted((*hosts).into(), "host")
            ),
            Self::SourcesThrottled { sources, throttled } => format!(
                "{} of {} were throttled at the first request: the target may limit several addresses together",
                grouped(*throttled),
                counted(*sources, "source address")
            ),
            Self::NotFound { share, count } => format!(
                "{} of requests ({}) were not found (404 or 410)",
                rounded_percent(*share),
                grouped(*count)
            ),
            Self::ConnectionsNotKept { opened, requests } => format!(
                "Connections were not kept: {} opened for {}",
                grouped(*opened),
                counted(*requests, "request")
            ),
            Self::CertificatesUnverified {} => {
                "Certificates were not verified (--insecure): responses may be another server's"
                    .to_owned()
            }
            Self::ConnectionsUnused { peak, of } => format!(
                "At most {} of {} requests were in flight",
                grouped(*peak),
                grouped(*of)
            ),
            Self::LimitedBy { limit, share } => {
                format!(
                    "Limited by {} {} of the time",
                    limit.name(),
                    rounded_percent(*share)
                )
            }
            Self::CpusShared { cpus } => format!(
                "Client and target share {}, so this is not the maximum of either",
                counted(*cpus as u64, "CPU")
            ),
        }
    }

    /// What to do about it, in a sentence; none where that depends on the target.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::ShardDied { .. } | Self::ShardReplaced { .. } => {
                "Check the kernel log (dmesg) for an out-of-memory kill, and run again.".to_owned()
            }
            Self::PartMissing { .. } => "Run it, and merge again.".to_owned(),
            Self::SumsDiffer { .. } => "Report this as a bug.".to_owned(),
            Self::BudgetExceeded { .. } => {
                "Use a lower --rate and --burst, and report it if it recurs.".to_owned()
            }
            Self::AllSkipped { .. } => {
                "Crawl other URLs, or use --robots ignore if you are allowed to.".to_owned()
            }
            Self::RobotsUnreachable { .. } => {
                "Try again later, or use --robots ignore if you are allowed to.".to_owned()
            }
            Self::WithinWarmUp { .. } | Self::MostlyWarmUp { .. } => {
                "Use a shorter --warmup, or a longer run.".to_owned()
            }
            Self::Unsendable { causes }
            | Self::AllFailed { causes, .. }
            | Self::HostsDown { causes, .. }
            | Self::RequestsFailed { causes, .. } => causes.first()?.advice.clone()? + ".",
            Self::TargetDown { .. } | Self::NoGoodResponse { .. } => CHECK_TARGET.to_owned(),
            Self::Silent { .. } => "Check the target's log, or give it longer with --grace.".to_owned(),
            Self::Stalled { .. } => {
                "Look for what stops the target: garbage collection, locks, disk writes.".to_owned()
            }
            Self::CutOff { .. } => "Give them longer with --grace, or use fewer connections (-c).".to_owned(),
            Self::Throttled { learnt_per_s: Some(rate), .. } => {
                format!("Set a --rate below {}/s, which the target takes.", decimal(*rate))
            }
            Self::Throttled { .. } => {
                "Use a lower --rate, or --adaptive, which finds the rate; wait as told (--on-throttle honor).".to_owned()
            }
            Self::Abandoned { .. } => "Use a lower --rate or fewer connections (-c).".to_owned(),
            Self::Postponed { .. } => {
                "Use a lower --rate, or --on-throttle count to send them anyway.".to_owned()
            }
            Self::Suspended { .. } | Self::CpuSpeed { .. } | Self::TargetProcessLost { .. } => RUN_AGAIN.to_owned(),
            Self::LeaseLapsed { .. } => {
                "Look for what delayed this machine or the directory of the parts.".to_owned()
            }
            Self::OtherAttempts { .. } => "Repeat the crawl before relying on its times.".to_owned(),
            Self::NoLocalPort { .. } | Self::PortsInTimeWait { .. } => MORE_PORTS.to_owned(),
            Self::NoDescriptor { .. } => {
                "Raise the limit (ulimit -n), use fewer connections (-c), or more --shards.".to_owned()
            }
            Self::CpuFull { .. } => {
                "Use more shards (--shards) if the machine has CPUs left, move the target to another machine, or set a lower --rate."
                    .to_owned()
            }
            Self::CpuWait { .. }
            | Self::ShardPaused { .. }
            | Self::SentLate { .. }
            | Self::ReadLate { .. }
            | Self::LoopLate { .. } => MORE_CPU.to_owned(),
            Self::StorageSlow { .. } => Limit::Storage.remedy()?.to_owned(),
            Self::NeverSent { limit, .. }
            | Self::Waited { limit, .. }
            | Self::RateMissed { limit: Some(limit), .. } => limit.remedy()?.to_owned(),
            Self::CpuSteal { .. } => "Run again at a quieter time, or on a dedicated machine.".to_owned(),
            Self::Retransmits { .. } => {
                "Look for a full queue of the target, a packet filter or traffic shaping, or run again without other programs.".to_owned()
            }
            Self::ListenQueueFull { .. } => {
                "Increase the target's backlog, or open fewer connections (-c).".to_owned()
            }
            Self::SourcesThrottled { .. } => {
                "Use addresses of other prefixes: more of the same do not help.".to_owned()
            }
            Self::NotFound { .. } => "If that is expected, use --expect status:404,410.".to_owned(),
            _ => return None,
        })
    }

    /// Title and remedy.
    #[must_use]
    pub fn sentence(&self) -> String {
        let remedy = self.remedy().map(|remedy| format!(" {remedy}"));
        format!(
            "{}.{}",
            self.title().trim_end_matches('.'),
            remedy.unwrap_or_default()
        )
    }

    /// Place in the list of findings, the most severe first.
    pub(super) fn rank(&self) -> (Reverse<Severity>, FindingKind) {
        (Reverse(self.severity()), self.kind())
    }
}

impl FindingKind {
    /// Kinds that it makes redundant: lesser ones, and all that these cover.
    #[must_use]
    pub const fn covers(self) -> &'static [Self] {
        match self {
            Self::NothingSent => &[
                Self::RateMissed,
                Self::MostlyWarmUp,
                Self::LimitedBy,
                Self::CpusShared,
            ],
            Self::StoppedBeforeStart | Self::AllSkipped => &[
                Self::NothingSent,
                Self::RateMissed,
                Self::MostlyWarmUp,
                Self::LimitedBy,
                Self::CpusShared,
            ],
            Self::WithinWarmUp => &[
                Self::RateMissed,
                Self::MostlyWarmUp,
                Self::ConnectionsUnused,
                Self::LimitedBy,
            ],
            Self::AllFailed | Self::Unsendable => &[
                Self::TargetDown,
                Self::Silent,
                Self::HostsDown,
                Self::NoGoodResponse,
                Self::Stalled,
                Self::RequestsFailed,
                Self::CutOff,
                Self::Throttled,
                Self::CpuFull,
                Self::CpuWait,
                Self::ShardPaused,
                Self::SentLate,
                Self::ReadLate,
                Self::LoopLate,
                Self::RateMissed,
                Self::NotFound,
                Self::ConnectionsNotKept,
                Self::ConnectionsUnused,
                Self::LimitedBy,
                Self::CpusShared,
            ],
            Self::TargetDown => &[
                Self::NoGoodResponse,
                Self::Stalled,
                Self::RequestsFailed,
                Self::RateMissed,
                Self::LimitedBy,
            ],
            Self::Silent => &[
                Self::NoGoodResponse,
                Self::Stalled,
                Self::RequestsFailed,
                Self::CutOff,
                Self::RateMissed,
                Self::LimitedBy,
            ],
            Self::HostsDown => &[Self::NoGoodResponse, Self::RequestsFailed],
            Self::NoGoodResponse => &[Self::RequestsFailed],
            Self::CpuFull => &[
                Self::CpuWait,
                Self::SentLate,
                Self::ReadLate,
                Self::LoopLate,
            ],
            Self::CpuWait => &[Self::SentLate, Self::ReadLate, Self::LoopLate],
            Self::ShardPaused => &[Self::LoopLate],
            Self::NeverSent => &[Self::Waited],
            Self::ShardDied => &[Self::RateMissed, Self::LimitedBy],
            Self::RateMissed => &[Self::LimitedBy],
            _ => &[],
        }
    }
}

/// A finding as it is saved.
#[derive(Serialize)]
struct Saved<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    severity: Severity,
    /// Effect on the verdict.
    effect: Option<Verdict>,
    text: String,
    remedy: Option<String>,
}

/// Write findings with their severity, text and remedy.
pub(crate) fn serialize<S: Serializer>(findings: &[Finding], to: S) -> Result<S::Ok, S::Error> {
    let mut seq = to.serialize_seq(Some(findings.len()))?;
    for finding in findings {
        seq.serialize_element(&Saved {
            finding,
            severity: finding.severity(),
            effect: finding.effect(),
            text: finding.title(),
            remedy: finding.remedy(),
        })?;
    }
    seq.end()
}
