//! The facts that a run can show, one table: when each is found, its numbers, its text, and what
//! follows from it. The only place in which results make sentences.

use std::cmp::Reverse;

use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Serialize, Serializer};

use super::limit::Limit;
use super::thresholds;
use super::verdict::Verdict;
use super::verdict::Verdict::{
    BudgetLimited, ClientLimited, ConcurrencyLimited, Disturbed, Errors, Incomplete,
    NothingMeasured, TargetLimited,
};
use crate::show::text::{
    cause_in_words, counted, decimal, grouped, in_unit, listed, micros, seconds,
};
use crawlmark_harness::process::{ShardExit, signal_in_words};
use crawlmark_harness::stats::FailureCause;
use crawlmark_harness::supervisor::{PastLife, ShardFault};
use crawlmark_harness::units::rounded_percent as percent;

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

/// Time in which something happened, s since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its begin.
    pub from_s: f64,
    /// Its end; its begin of a moment.
    pub to_s: f64,
}

impl Event {
    pub(crate) const fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// Part of the response time that experiments can explain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimePart {
    /// In the target until the first byte.
    #[default]
    Target,
    /// From the first byte to the last one.
    Body,
}

impl TimePart {
    const fn in_words(self) -> &'static str {
        match self {
            Self::Target => "in the target before its first byte",
            Self::Body => "between its first byte and its last one",
        }
    }

    const fn in_short(self) -> &'static str {
        match self {
            Self::Target => "in the target",
            Self::Body => "the body's",
        }
    }
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
    /// Details of the first one, where settings of client and target do not fit: the host, the
    /// certificate, the value that is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// `2,519 × connection refused, 3 × status 500`.
fn in_words(causes: &[CauseCount]) -> String {
    listed(causes.iter().map(|one| {
        let words =
            FailureCause::of_key(&one.cause).map_or_else(|| one.cause.clone(), cause_in_words);
        match &one.details {
            Some(details) => (format!("{words} ({details})"), one.count),
            None => (words, one.count),
        }
    }))
}

/// What to do about the commonest cause.
fn advice(causes: &[CauseCount]) -> Option<String> {
    Some(causes.first()?.advice.clone()? + ".")
}

/// The machine whose kernel acknowledges requests.
const fn peer(is_proxied: bool) -> &'static str {
    if is_proxied { "proxy's" } else { "target's" }
}

/// Effect of a lateness: that of a client that was disturbed, or that of a slow one.
const fn lateness(is_disturbed: bool) -> Verdict {
    if is_disturbed {
        Disturbed
    } else {
        ClientLimited
    }
}

/// Effect of requests without a valid answer. The response times of an open loop are to tell what
/// all of its users would have waited.
fn unanswered(share: f64, is_open_loop: bool) -> Verdict {
    if is_open_loop || share >= thresholds::MOST_FAILED {
        TargetLimited
    } else {
        Errors
    }
}

/// Effect of a time without a good answer.
fn dead(dead_s: f64, of_s: f64) -> Option<Verdict> {
    if dead_s >= thresholds::LEAST_DEAD_S && dead_s >= of_s * thresholds::DEAD {
        Some(TargetLimited)
    } else {
        (dead_s >= of_s * thresholds::PARTLY_DEAD).then_some(Errors)
    }
}

/// Effect of a limit that requests of an open loop waited for.
const fn waited(limit: Limit) -> Verdict {
    match limit {
        Limit::Connections => ConcurrencyLimited,
        _ => BudgetLimited,
    }
}

/// Effect of a limit that kept requests from being sent at all.
const fn unsent(limit: Limit) -> Verdict {
    match limit {
        Limit::Unknown => ConcurrencyLimited,
        Limit::Pause | Limit::Quota | Limit::Adaptive => TargetLimited,
        limit => waited(limit),
    }
}

/// What to do about a target that throttles, without what is on already. No rate is named: none was
/// seen to hold, and what the target took between its pauses may be far less than it allows.
const fn slower(waits: bool, is_adaptive: bool) -> &'static str {
    match (is_adaptive, waits) {
        (true, true) => "Run longer: --adaptive has not found the rate yet.",
        (true, false) => {
            "Run longer, and wait as told (--on-throttle honor): --adaptive has not found the rate yet."
        }
        (false, true) => "Set a --rate that the target allows, or use --adaptive, which finds it.",
        (false, false) => {
            "Use --adaptive, which finds the rate that the target takes, and wait as told (--on-throttle honor)."
        }
    }
}

/// What to do about a process that ended before its final report.
const fn after(fault: &ShardFault) -> Option<&'static str> {
    match fault {
        ShardFault::Died => Some(CHECK_KERNEL),
        ShardFault::Silent(_) => {
            Some("Look for what stopped the process, or use a longer --shard-deadline.")
        }
        _ => None,
    }
}

/// Longest headline, characters: it stands on one line of a page on a phone.
const MOST_HEADLINE: usize = 48;

/// The first text if it is as a headline has to be, else the second one, which is.
fn fit(text: String, or: impl Into<String>) -> String {
    if text.chars().count() <= MOST_HEADLINE && !text.ends_with('.') {
        text
    } else {
        or.into()
    }
}

const fn succeeded(is_sent: bool) -> &'static str {
    if is_sent {
        "succeeded"
    } else {
        "could be sent"
    }
}

/// Headline of stalls: their number, and how long each was.
fn stalled(count: usize, longest_s: f64, total_s: f64) -> String {
    let longest = seconds(longest_s);
    // Those that differ by less than a bin of either end read the same.
    let is_each = total_s >= longest_s * count as f64 * thresholds::ALIKE;
    let each = if is_each {
        format!("for {longest} each")
    } else {
        format!("for up to {longest}")
    };
    match count {
        0 | 1 => fit(
            format!("The target stalled for {longest}"),
            "The target stalled",
        ),
        2 => fit(
            format!("The target stalled twice, {each}"),
            "The target stalled twice",
        ),
        _ => fit(
            format!("The target stalled {} times, {each}", grouped(count as u64)),
            "The target stalled many times",
        ),
    }
}

/// The value that a row gives, or the one of a row that gives none.
macro_rules! given {
    ($none:expr) => {
        $none
    };
    ($none:expr, $value:expr) => {
        $value
    };
}

/// Define the findings and their kinds. Each has a headline of at most
/// [`MOST_HEADLINE`] characters, whatever its numbers are, and one plain sentence with all of them,
/// both without a full stop; and at will: the `effect` on the verdict, none of one that leaves the figures
/// valid; the `severity`, if it is not that of the effect; a `remedy` or an `advice` that may be none;
/// the `events`, times in which it happened, which are written with those of all findings, and not
/// as the numbers of its own that they may be; the `part` of the requests or of the time that it is
/// about, of which more than half makes it one of the gravest; and the lesser kinds that it `covers`, with all that these cover.
macro_rules! findings {
    ($(
        #[doc = $doc:literal]
        $kind:ident { $($(#[$note:meta])* $field:ident: $type:ty),* } => $headline:expr; $text:expr
        $(, effect: $effect:expr)? $(, severity: $severity:expr)? $(, remedy: $remedy:expr)? $(, advice: $advice:expr)?
        $(, events: $events:expr)? $(, part: $part:expr)? $(, covers: [$($covered:ident),*])?;
    )*) => {
        /// Fact about a run with its numbers, in the order in which a reader has to know those of
        /// one severity.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Finding {
            $(#[doc = $doc] $kind {
                $($(#[$note])* $field: $type),*
            },)*
        }

        /// Kind of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FindingKind {
            $(#[doc = $doc] $kind,)*
        }

        #[expect(unused_variables, reason = "each row has all of its numbers")]
        impl Finding {
            /// Its kind.
            pub const fn kind(&self) -> FindingKind {
                match self {
                    $(Self::$kind { .. } => FindingKind::$kind,)*
                }
            }

            /// The fact in at most 48 characters, without a full stop.
            pub fn headline(&self) -> String {
                match self.clone() {
                    $(Self::$kind { $($field),* } => String::from($headline),)*
                }
            }

            /// One plain sentence with its numbers, without a full stop.
            pub fn text(&self) -> String {
                match self.clone() {
                    $(Self::$kind { $($field),* } => String::from($text),)*
                }
            }

            /// Effect on the verdict; none of one that leaves the figures valid.
            pub fn effect(&self) -> Option<Verdict> {
                match self.clone() {
                    $(Self::$kind { $($field),* } => given!(None $(, Option::from($effect))?),)*
                }
            }

            /// Severity, if it is not that of the effect.
            fn own_severity(&self) -> Option<Severity> {
                match self.clone() {
                    $(Self::$kind { $($field),* } => given!(None $(, Some($severity))?),)*
                }
            }

            /// What to do about it, in a sentence; none where that depends on the target.
            pub fn remedy(&self) -> Option<String> {
                match self.clone() {
                    $(Self::$kind { $($field),* } => {
                        given!(None $(, Some(String::from($remedy)))? $(, Option::map($advice, String::from))?)
                    })*
                }
            }

            /// Times in which it happened, in their order; empty where they are not known.
            pub fn events(&self) -> Vec<Event> {
                match self.clone() {
                    $(Self::$kind { $($field),* } => given!(Vec::new() $(, Vec::from($events))?),)*
                }
            }

            /// Part of the requests or of the time that it is about; 0 if it says none.
            fn part(&self) -> f64 {
                match self.clone() {
                    $(Self::$kind { $($field),* } => given!(0.0 $(, $part)?),)*
                }
            }
        }

        impl FindingKind {
            /// Every kind, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// When it is found.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => $doc,)*
                }
            }

            /// Kinds that it makes redundant: lesser ones, and all that these cover.
            pub const fn covers(self) -> &'static [Self] {
                match self {
                    $($(Self::$kind => &[$(Self::$covered),*],)?)*
                    _ => &[],
                }
            }
        }

        #[cfg(test)]
        impl Finding {
            /// A finding of each kind, all of whose numbers are 0.
            pub(crate) fn samples() -> Vec<Self> {
                vec![$(Self::$kind { $($field: Default::default()),* }),*]
            }
        }
    };
}

/// Remedies for a shard that lacks CPU time.
const MORE_CPU: &str = "Move the target to another machine, use fewer shards (--shards), lower the rate (--rate), or end other programs.";

/// Remedy for something that another run may not have.
const RUN_AGAIN: &str = "Run again.";

/// Remedy for a target that works badly.
const CHECK_TARGET: &str = "Check whether the target still runs, and its log.";

/// Remedy for a process that died.
const CHECK_KERNEL: &str = "Check the kernel log (dmesg) for an out-of-memory kill, and run again.";

findings! {
    /// No request was sent or due, or the run was stopped before its first request.
    NothingSent {
        /// True if a signal stopped the run before its first request.
        stopped: bool
    } => if stopped { "Stopped before the first request" } else { "No request was sent" };
        if stopped {
            "The run was stopped before its first request, so nothing was measured"
        } else {
            "No request was sent, so there are no figures"
        },
        effect: stopped.then_some(Incomplete),
        covers: [RateMissed, LimitedBy, MostlyOnePart, CpusShared];
    /// A process of the crawl died before its final report.
    ShardDied {
        /// Number of the shard, from 0.
        shard: u32,
        /// Fault of its process.
        fault: ShardFault,
        /// Exit of its process.
        exit: ShardExit,
        /// End of its last report, s since the start of the run; none without a report.
        at_s: Option<f64>,
        /// Items, at most, that it had begun after its last report; none without a report.
        lost: Option<u64>,
        /// Items of its range that it did not begin; 0 of a range that no time can use up.
        not_attempted: u64
    } => at_s.map_or_else(
            || format!("Shard {shard} died before its first report"),
            |s| fit(format!("Shard {shard} died at {}", seconds(s)), format!("Shard {shard} died")),
        );
        format!(
            "Shard {shard} died {} (its process {}): {} of its items are lost{}, and its times are left out",
            at_s.map_or_else(|| "before its first report".to_owned(), |s| format!("at {}", seconds(s))),
            fault.end_in_words(exit),
            lost.map_or_else(|| "an unknown number".to_owned(), |lost| format!("up to {}", grouped(lost))),
            if not_attempted > 0 { format!(", {} were not attempted", grouped(not_attempted)) } else { String::new() }
        ),
        effect: Incomplete,
        advice: after(&fault),
        events: at_s.map_or_else(Vec::new, |s| vec![Event { from_s: s, to_s: s }]),
        covers: [RateMissed, LimitedBy, MostlyOnePart];
    /// A part of the crawl has no result.
    PartMissing {
        /// Number of the part, from 0.
        part: u32,
        /// Items of the part.
        items: u64
    } => format!("Part {part} has no result");
        format!("Part {part} has no result: its {} are not attempted", counted(items, "item")),
        effect: Incomplete,
        remedy: "Run it, and merge again.";
    /// A process of the crawl reported all its data, but did not exit cleanly.
    ShardExitFailed {
        /// Number of the shard, from 0.
        shard: u32,
        /// Exit of its process.
        exit: ShardExit
    } => format!("Shard {shard} did not exit cleanly");
        format!("Shard {shard} reported everything, and then its process {exit}"),
        effect: Incomplete;
    /// An item or a request is not in exactly one state.
    SumsDiffer {
        /// Number of the shard, from 0.
        shard: u32,
        /// Items of its plan, or requests of its schedule.
        planned: u64,
        /// Sum of those in each state.
        counted: u64
    } => format!("The counts of shard {shard} do not add up");
        format!("Shard {shard} planned {planned} and counted {counted}, which does not add up"),
        effect: Incomplete,
        remedy: "Report this as a bug.";
    /// Results could not be stored.
    StorageFailed {
        /// Failure, as a sentence.
        reason: String
    } => "Results could not be stored";
        reason, effect: Incomplete;
    /// A shard gave up a request with `once`, so the later requests of its line were not sent.
    SharedFailed {
        /// Times that such a request was given up.
        count: u64
    } => "The request that is sent once per shard failed";
        format!("The request that is sent once per shard (`once`) failed for good {}, so no later request of its line was sent", counted(count, "time")),
        effect: Incomplete,
        remedy: "Mend that request: the failures say how it failed. Then --resume the crawl, or run again.";
    /// The counts of the bundled target differ from those of the client.
    CountsDiffer {
        /// Each count that differs, with both values.
        differences: Vec<String>
    } => "The target's own counts differ";
        format!("The target's own counts differ: {}", differences.join(", ")),
        effect: Incomplete;
    /// In some period, more requests were sent than the budget of the run or of a host allows.
    BudgetExceeded {
        /// Requests sent in the fullest window.
        sent: u64,
        /// Requests that the budget allows in such a window.
        allowed: u64,
        /// Length of the window, ms.
        width_ms: f64,
        /// Number of the host, from 0; none of the budget of the run.
        host: Option<u32>
    } => host.map_or_else(|| "The budget was exceeded".to_owned(), |host| format!("The budget of host {host} was exceeded"));
        format!(
            "The budget{} was exceeded: {} sent in {}, {} allowed",
            host.map_or_else(String::new, |host| format!(" of host {host}")),
            counted(sent, "request"),
            seconds(width_ms / 1e3),
            grouped(allowed)
        ),
        severity: Severity::Error,
        remedy: "Use a lower --rate and --burst, and report it if it recurs.";
    /// robots.txt forbids every item that the run reached.
    AllSkipped {
        /// Items that were skipped.
        items: u64
    } => "robots.txt forbids each item that was reached";
        format!("All {} items that the run reached were skipped because of robots.txt, so no request was sent", grouped(items)),
        effect: NothingMeasured,
        remedy: "Crawl other URLs, or use --robots ignore if you are allowed to.",
        covers: [NothingSent, RateMissed, LimitedBy, MostlyOnePart, CpusShared];
    /// Every request was within the warm-up.
    WithinWarmUp {
        /// Requests of the run.
        requests: u64,
        /// Length of the run, s.
        duration_s: f64,
        /// Length of the warm-up, s.
        warmup_s: f64
    } => "All requests were within the warm-up";
        format!(
            "All {} requests were within the warm-up of {}, so nothing was measured in {}",
            grouped(requests),
            seconds(warmup_s),
            seconds(duration_s)
        ),
        effect: NothingMeasured,
        remedy: "Use a shorter --warmup, or a longer run.",
        covers: [RateMissed, LimitedBy, MostlyOnePart];
    /// No request succeeded, and at least half of the requests failed or could not be sent.
    AllFailed {
        /// Requests that failed or could not be sent, after the warm-up.
        requests: u64,
        /// True if requests were sent.
        sent: bool,
        /// Causes of the failures, the commonest first.
        causes: Vec<CauseCount>
    } => fit(format!("None of {} requests {}", grouped(requests), succeeded(sent)), format!("No request {}", succeeded(sent)));
        format!("None of {} requests {}: {}", grouped(requests), if sent { "succeeded" } else { "could be sent" }, in_words(&causes)),
        effect: if sent { TargetLimited } else { NothingMeasured },
        severity: Severity::Error,
        advice: advice(&causes),
        covers: [
            Silent, HostsDown, NoGoodResponse, Stalled, RequestsFailed, CutOff, Throttled, CpuFull, CpuWait, ShardPaused,
            SentLate, ReadLate, RateMissed, NotFound, ConnectionsNotKept, LimitedBy, MostlyOnePart, CpusShared
        ];
    /// At the end of the run, requests waited for responses, but none came.
    Silent {
        /// Time from the last response to the end, s.
        silent_s: f64,
        /// Length of the run, s.
        of_s: f64,
        /// Items whose last request was cut off.
        cut_off: u64
    } => fit(format!("No response came in the last {}", seconds(silent_s)), "No response came at the end");
        format!(
            "No response came in the last {silent_s:.1} of {of_s:.1} seconds, and {} items were cut off without one",
            grouped(cut_off)
        ),
        effect: TargetLimited,
        severity: Severity::Error,
        remedy: "Check the target's log, or give it longer with --grace.",
        events: [Event { from_s: of_s - silent_s, to_s: of_s }],
        covers: [NoGoodResponse, Stalled, RequestsFailed, CutOff, RateMissed, LimitedBy, MostlyOnePart];
    /// A threshold was not met.
    ThresholdFailed {
        /// Condition, as in `p99 < 250ms`.
        expression: String,
        /// Unit of the limit and the value, as in `gates`.
        unit: String,
        /// Limit of the condition.
        limit: f64,
        /// Measured value, of windows in the worst one; none without a measurement.
        value: Option<f64>,
        /// True if the value is only known to be no less.
        is_lower_bound: bool
    } => fit(format!("Threshold failed: {expression}"), "A threshold failed");
        format!(
            "Threshold failed: {expression}, measured {}{}",
            if is_lower_bound { ">= " } else { "" },
            value.map_or_else(|| "nothing".to_owned(), |value| in_unit(&unit, value))
        ),
        severity: Severity::Error;
    /// A threshold could not be evaluated.
    ThresholdUndecided {
        /// Condition, as in `p99 < 250ms`.
        expression: String,
        /// Reason why it could not be decided, as a clause.
        reason: String
    } => fit(format!("Threshold undecided: {expression}"), "A threshold is undecided");
        format!("Threshold undecided: {expression} ({reason})");
    /// A threshold on service times passed, but would fail if it included the waits before sending.
    WaitsLeftOut {
        /// Condition, as in `service_p99 < 250ms`.
        expression: String,
        /// Metric of the same percentile that includes the waits.
        metric: String,
        /// Value of that metric, µs.
        us: f64
    } => fit(format!("Passed without waits: {expression}"), "A threshold passed without waits");
        format!("{expression} passed, and leaves out the waits before sending: with them, {metric} is {}", micros(us)),
        remedy: format!("Judge {metric} in its place.");
    /// A signal stopped the run.
    Interrupted {
        /// Number of the signal.
        signal: i32,
        /// Time from the start of the run, s.
        after_s: f64,
        /// Planned length of the run, s; none of a run of items.
        planned_s: Option<f64>
    } => fit(format!("{} stopped the run at {}", signal_in_words(signal), seconds(after_s)), "A signal stopped the run");
        format!(
            "{} stopped the run: the figures cover {} of {}",
            signal_in_words(signal),
            seconds(after_s),
            planned_s.map_or_else(|| "its items".to_owned(), seconds)
        );
    /// The target sent only throttled responses for so long that the run was stopped.
    OnlyThrottled {
        /// Time in which all responses were throttled, s.
        throttled_s: f64
    } => fit(format!("The target only throttled for {}", seconds(throttled_s)), "The target only throttled");
        format!("The target only throttled for {}, so the run was stopped with items left", seconds(throttled_s)),
        remedy: "Go on later with --resume, or set a time (-d).";
    /// The run was suspended for a while.
    Suspended {
        /// Time between the stop signal and the one to go on, s, over all of them.
        suspended_s: f64
    } => fit(format!("The run was suspended for {}", seconds(suspended_s)), "The run was suspended");
        format!(
            "The run was suspended for {} (Ctrl-Z or SIGTSTP), so rates are too low and requests in flight look slower",
            seconds(suspended_s)
        ),
        effect: Disturbed,
        remedy: RUN_AGAIN;
    /// Processes of the crawl died and were replaced.
    ShardReplaced {
        /// Number of the shard, from 0.
        shard: u32,
        /// Processes of the shard that died.
        times: u64,
        /// End of each of these processes, in their order.
        died: Vec<PastLife>
    } => fit(format!("Shard {shard} died {}", counted(times, "time")), format!("Shard {shard} died and was replaced"));
        format!(
            "Shard {shard} died and was replaced {} (its process {}): some requests are not counted, its times and CPU are left out",
            counted(times, "time"),
            died.iter().map(|one| one.fault.end_in_words(one.exit)).collect::<Vec<_>>().join(", then ")
        ),
        effect: Disturbed,
        advice: died.last().and_then(|last| after(&last.fault));
    /// A process of the bundled target ended early.
    TargetProcessLost {
        /// Process and its end, as a clause.
        exit: String
    } => "A process of the bundled target was lost";
        format!("A process of the bundled target was lost: {exit}"),
        effect: Disturbed,
        remedy: RUN_AGAIN;
    /// A part sent nothing for a while, because it could not renew its lease of the budget.
    LeaseLapsed {
        /// Time without a lease, s.
        lapsed_s: f64
    } => fit(format!("The lease of the budget lapsed for {}", seconds(lapsed_s)), "The lease of the budget lapsed");
        format!("The part could not renew its lease of the budget for {lapsed_s:.1} s, and sent nothing in that time"),
        effect: Disturbed,
        remedy: "Look for what delayed this machine or the directory of the parts.";
    /// Other attempts, whose results are not merged, sent requests, too.
    OtherAttempts {
        /// Requests that they sent, as far as that is known.
        requests: u64,
        /// True if the requests of all of them are known.
        is_complete: bool,
        /// Attempts that were not merged.
        attempts: u32
    } => "Other attempts sent requests as well";
        format!(
            "{}{} sent by attempts that were not merged ({attempts}) and by shards that died: the target had more to do",
            if is_complete { "" } else { "At least " },
            counted(requests, "more request")
        ),
        effect: Disturbed,
        remedy: "Repeat the crawl before relying on its times.";
    /// A host could not be reached before the start.
    HostUnreached {
        /// Host and error, as a sentence.
        reason: String
    } => "A host could not be reached";
        reason, effect: TargetLimited;
    /// All requests to some hosts failed, while requests to other hosts did not fail.
    HostsDown {
        /// Hosts without a response that was good, not found or throttled.
        hosts: Vec<String>,
        /// Hosts of the crawl.
        of: u32,
        /// Failed requests to these hosts.
        requests: u64,
        /// Failed requests of the run as a part of those after the warm-up, 0 to 1.
        share: f64,
        /// Causes of the failures of the run, the commonest first.
        causes: Vec<CauseCount>,
        /// True of an open loop.
        is_open_loop: bool
    } => fit(format!("All requests to {} of {of} hosts failed", hosts.len()), "All requests to some hosts failed");
        format!(
            "All {} to {} of {} failed: {} ({})",
            counted(requests, "request"),
            hosts.len(),
            counted(of.into(), "host"),
            in_words(&causes),
            hosts.join(", ")
        ),
        effect: unanswered(share, is_open_loop),
        severity: Severity::Error,
        advice: advice(&causes),
        covers: [NoGoodResponse, Stalled, RequestsFailed, RateMissed, LimitedBy, MostlyOnePart];
    /// For some time, requests failed and no good response came.
    NoGoodResponse {
        /// Begin of the last such time if it lasted to the end, else of the longest one, s since
        /// the start of the run.
        from_s: f64,
        /// Its end, s since the start of the run.
        to_s: f64,
        /// True if it lasted to the end.
        at_end: bool,
        /// Sum of all such times after the warm-up, s, without throttle pauses.
        dead_s: f64,
        /// Time after the warm-up in which requests were due, s.
        of_s: f64,
        /// Causes of the failures, the commonest first.
        causes: Vec<CauseCount>
    } => fit(format!("No good response for {dead_s:.0} s"), "No good response for some time");
        format!(
            "No good response for {dead_s:.0} of {of_s:.0} seconds while requests failed, the longest time from {from_s:.0} s to \
             {to_s:.0} s: {}",
            in_words(&causes)
        ),
        effect: if at_end { Some(TargetLimited) } else { dead(dead_s, of_s) },
        severity: Severity::Error,
        remedy: advice(&causes).unwrap_or_else(|| CHECK_TARGET.to_owned()),
        events: [Event { from_s, to_s }],
        part: dead_s / of_s.max(f64::MIN_POSITIVE),
        covers: [Stalled, RequestsFailed, RateMissed, LimitedBy, MostlyOnePart];
    /// The CPU quota of the client's cgroup stopped the client.
    ClientThrottled {
        /// Periods of the quota in which the client was stopped.
        stopped: u64,
        /// Periods of the quota during the run.
        periods: u64
    } => "This client's CPU quota stopped it";
        format!(
            "The client's CPU quota stopped it in {} of {}, so requests were sent and responses read late",
            grouped(stopped),
            counted(periods, "period")
        ),
        effect: ClientLimited,
        remedy: "Raise the CPU quota of the client's container, run it outside of it, or send less.",
        part: stopped as f64 / periods.max(1) as f64,
        covers: [Stalled, DelayingLimit, WorksOnFew, InStep, CpuFull, CpuWait, ShardPaused, SentLate, ReadLate, LimitedBy, MostlyOnePart];
    /// The CPU quota of the target's cgroup stopped the target for a notable share of the request time.
    TargetThrottled {
        /// Time for which the target was stopped, per request, µs.
        throttled_us: f64,
        /// Mean service time, µs.
        service_us: f64,
        /// Part of the periods of the quota in which it was stopped, 0 to 1.
        periods_share: f64
    } => "The target's CPU quota stopped it";
        format!(
            "The target's CPU quota stopped it in {} of its periods: {} of the {} of a request",
            percent(periods_share),
            micros(throttled_us),
            micros(service_us)
        ),
        remedy: "Raise the CPU quota of the target's container, or lower the load.",
        part: periods_share,
        covers: [InStep, WorksOnFew, TargetWaits, TargetCpuFull, Stalled, LimitedBy, MostlyOnePart];
    /// For an unusually long time, no response came. Then many came at the same time.
    Stalled {
        /// Number of stalls after the warm-up.
        count: usize,
        /// Length of the longest one, s.
        longest_s: f64,
        /// Begin of the longest one, s since the start of the run.
        at_s: f64,
        /// Sum of their lengths, s.
        total_s: f64,
        /// Time in which stalls were looked for, s.
        of_s: f64,
        /// Time from one to the next, s, if they are periodic.
        period_s: Option<f64>,
        /// Each of them.
        #[serde(default, skip_serializing)]
        events: Vec<Event>
    } => stalled(count, longest_s, total_s);
        format!(
            "{}{}: {} of {} without a response ({}), the longest {} at {at_s:.0} s",
            counted(count as u64, "stall"),
            period_s.map_or_else(String::new, |s| format!(", one every {}", seconds(s))),
            seconds(total_s),
            seconds(of_s),
            percent(total_s / of_s.max(f64::MIN_POSITIVE)),
            seconds(longest_s)
        ),
        remedy: "Look for what stops the target: garbage collection, locks, disk writes.",
        events: events,
        part: total_s / of_s.max(f64::MIN_POSITIVE);
    /// Threads of the target waited for a CPU for a notable share of the request time.
    TargetWaits {
        /// Wait of the target for a CPU, per request, µs.
        run_queue_us: f64,
        /// Mean service time, µs.
        service_us: f64
    } => fit(format!("The target waited {} a request for a CPU", micros(run_queue_us)), "The target waited for a CPU");
        format!("The target waited for a CPU: {} of the {} of a request", micros(run_queue_us), micros(service_us)),
        remedy: "Look for what else uses its CPUs, this client among it, or give it more.";
    /// Connections waited until the target accepted them.
    ConnectionsNotAccepted {
        /// Connections in the accept queue, on average.
        waiting: f64,
        /// Connections of the plan (`-c`).
        connections: u32
    } => fit(format!("The target did not accept {waiting:.0} connections"), "The target did not accept all connections");
        format!("The target did not accept {waiting:.1} of {connections} connections, in the mean: it serves few at a time"),
        remedy: "Let it serve more connections at a time, or open fewer (-c).",
        covers: [WorksOnFew, LimitedBy, MostlyOnePart];
    /// The target's listening sockets dropped connections.
    ListenDrops {
        /// Connection requests dropped during the run.
        drops: u64,
        /// Length of the accept queue.
        limit: u64
    } => fit(format!("The target dropped {}", counted(drops, "connection request")), "The target dropped connection requests");
        format!(
            "The target's listening sockets dropped {}: their queue of {} was full",
            counted(drops, "connection request"),
            grouped(limit)
        ),
        effect: TargetLimited,
        remedy: "Increase the target's backlog, or open fewer connections (-c).",
        covers: [ListenQueueFull];
    /// A thread of the target used all of a CPU, or the target used all of its CPUs.
    TargetCpuFull {
        /// CPUs that the target used on average.
        cores: f64,
        /// CPUs that it may run on.
        cpus: usize,
        /// Part of one CPU that its busiest thread used, 0 to 1; none if not known.
        thread_share: Option<f64>
    } => fit(format!("The target used {cores:.2} of its {}", counted(cpus as u64, "CPU")), "The target used all of its CPUs");
        format!(
            "The target used {cores:.2} of its {}{}: that is its ceiling",
            counted(cpus as u64, "CPU"),
            thread_share.map_or_else(String::new, |share| format!(", its busiest thread {} of one", percent(share)))
        ),
        severity: Severity::Info;
    /// A rate limit of the target delays requests, so its work is not the cause.
    DelayingLimit {
        /// Responses per second.
        per_s: f64,
        /// Requests in flight at most.
        connections: u32
    } => fit(format!("The target delays requests to {}/s", decimal(per_s)), "A limit of the target delays requests");
        format!(
            "A limit of the target delays requests to {}/s: {connections} connections and twice as many reach the same rate",
            decimal(per_s)
        ),
        remedy: "Raise that limit, or use fewer connections: more only wait longer.",
        covers: [WorksOnFew, LimitedBy, MostlyOnePart];
    /// The target works on only a few requests at a time, so more connections do not help.
    WorksOnFew {
        /// Requests that it works on at a time, rounded; at least 1.
        at_a_time: f64,
        /// Responses per second.
        per_s: f64,
        /// Requests in flight at most.
        connections: u32,
        /// Mean service time of a request that is alone, µs.
        alone_us: f64
    } => fit(format!("The target works on {at_a_time:.0} at a time"), "The target works on few requests at a time");
        format!(
            "The target works on about {at_a_time:.0} {} at a time: {}/s with {connections} connections and with twice as many, \
             {} for one that is alone",
            if at_a_time < 2.0 { "request" } else { "requests" },
            decimal(per_s),
            micros(alone_us)
        ),
        remedy: "Give it more workers or threads: more connections only lengthen its queue.",
        covers: [LimitedBy, MostlyOnePart];
    /// Nagle's algorithm in the target waits for acknowledgements, and the client's kernel delays them.
    DelayedAck {
        /// Mean time from the first byte of a response to its last one, µs.
        body_us: f64,
        /// The same while the client acknowledges at once, µs.
        at_once_us: f64
    } => fit(format!("Nagle's algorithm delays responses by {}", micros(body_us)), "Nagle's algorithm delays responses");
        format!(
            "The end of a response comes {} after its start, because of Nagle's algorithm and delayed acknowledgements: {} without that delay",
            micros(body_us),
            micros(at_once_us)
        ),
        remedy: "Set TCP_NODELAY in the target, or write headers and body at once.",
        covers: [LimitedBy, MostlyOnePart];
    /// The target refuses all requests above a fixed rate.
    RefusingLimit {
        /// Responses per second that are not refused, after the first second.
        per_s: f64,
        /// Further such responses in the first second; 0 without a burst.
        burst: f64
    } => fit(format!("The target refuses more than {}/s", decimal(per_s)), "A limit of the target refuses requests");
        format!(
            "A limit of the target refuses all but {}/s{}",
            decimal(per_s),
            if burst > 0.0 { format!(", after a burst of {burst:.0}") } else { String::new() }
        ),
        remedy: format!("Raise it, or send less: --rate {:.0}.", per_s.floor());
    /// Responses leave at the ticks of a timer (10 ms) or of a CPU quota (100 ms).
    InStep {
        /// Period of the clock, ms: 10 or 100.
        period_ms: u32,
        /// Concentration of the responses at one phase of the clock, 0 to 1.
        share: f64
    } => fit(format!("Responses leave in step with {period_ms} ms"), "Responses leave in step with a clock");
        format!(
            "Responses leave in step with a clock of {period_ms} ms ({share:.2} of 1): looks like {}",
            if period_ms < 100 { "a timer of the target" } else { "a CPU quota (CFS)" }
        ),
        remedy: if period_ms < 100 {
            "Look for what the target waits for by a timer, such as polling or a low-resolution sleep."
        } else {
            "Raise the CPU quota of the target's container."
        },
        covers: [LimitedBy, MostlyOnePart];
    /// Requests failed.
    RequestsFailed {
        /// Failed requests as a part of those after the warm-up, 0 to 1.
        share: f64,
        /// Causes of the failures, the commonest first.
        causes: Vec<CauseCount>,
        /// True of an open loop.
        is_open_loop: bool,
        /// Times in which requests failed.
        #[serde(default, skip_serializing)]
        events: Vec<Event>
    } => fit(format!("{} of requests failed", percent(share)), "Requests failed");
        format!("{} of requests failed: {}", percent(share), in_words(&causes)),
        effect: unanswered(share, is_open_loop),
        severity: if share >= thresholds::MANY_FAILED { Severity::Error } else { Severity::Warning },
        advice: advice(&causes),
        events: events,
        part: share;
    /// Requests were cut off at the end of the run.
    CutOff {
        /// Cut-off requests as a part of those after the warm-up, 0 to 1.
        share: f64,
        /// Requests that were cut off.
        count: u64,
        /// True of an open loop.
        is_open_loop: bool
    } => fit(format!("{} of requests were cut off at the end", percent(share)), "Requests were cut off at the end");
        format!(
            "{} of requests ({}) were cut off at the end without a response: their times are lower bounds",
            percent(share),
            grouped(count)
        ),
        effect: unanswered(share, is_open_loop),
        remedy: "Give them longer with --grace, or use fewer connections (-c).",
        part: share;
    /// The target throttled the run, or its quota limited it.
    Throttled {
        /// Throttled requests as a part of those after the warm-up, 0 to 1.
        share: f64,
        /// Requests that brought an item, or found none, as a part of the same.
        good_share: f64,
        /// Part of the time of the shards that pauses and the quota took, 0 to 1.
        held_share: f64,
        /// True if the run waits as the target says (`--on-throttle honor`).
        waits: bool,
        /// True with `--adaptive`.
        is_adaptive: bool,
        /// Requests per second that the target takes at least, if that is known.
        taken_per_s: Option<f64>,
        /// Times in which responses were throttled.
        #[serde(default, skip_serializing)]
        events: Vec<Event>
    } => fit(format!("The target throttled {} of requests", percent(share)), "The target throttled the run");
        format!(
            "The target throttled {} of requests{}, and {} brought an item{}",
            percent(share),
            if held_share > 0.0 { format!(", pauses and quota took {} of the time", percent(held_share)) } else { String::new() },
            percent(good_share),
            taken_per_s.map_or_else(String::new, |rate| format!(": it takes {}/s or more", decimal(rate)))
        ),
        effect: (share > thresholds::THROTTLED && (!waits || good_share < thresholds::HARDLY_ANY)).then_some(TargetLimited),
        remedy: slower(waits, is_adaptive),
        events: events,
        part: share.max(held_share);
    /// On their machines, parts of the crawl were limited or disturbed.
    PartsJudged {
        /// Verdict on these parts.
        verdict: Verdict,
        /// Numbers of the parts, from 0.
        parts: Vec<u32>,
        /// Parts of the crawl.
        of: u32,
        /// Reason of the first one, as a sentence.
        reason: String
    } => fit(format!("{} of {of} parts are {}", parts.len(), verdict.name().replace('_', "-")), "Parts were limited or disturbed");
        format!(
            "{} of {of} parts are {} (part {}: {reason})",
            parts.len(),
            verdict.name().replace('_', "-"),
            parts.first().copied().unwrap_or_default()
        ),
        effect: verdict,
        remedy: "See the reports of these parts for what to do.";
    /// Requests found no free local port.
    NoLocalPort {
        /// Requests that failed so.
        requests: u64
    } => fit(format!("{} found no local port", counted(requests, "request")), "Requests found no local port");
        format!("{} found no free local port", counted(requests, "request")),
        effect: ClientLimited,
        remedy: "Use fewer connections, keep them alive, add source addresses (--local-ips), or widen net.ipv4.ip_local_port_range.";
    /// Requests could not connect, because no file descriptor was left.
    NoDescriptor {
        /// Requests that failed so.
        requests: u64
    } => fit(format!("{} found no file descriptor", counted(requests, "request")), "Requests found no file descriptor");
        format!("{} had no file descriptor to connect with", counted(requests, "request")),
        effect: ClientLimited,
        remedy: "Raise the limit (ulimit -n), use fewer connections (-c), or more --shards.";
    /// A shard used nearly all of a CPU.
    CpuFull {
        /// Part of a CPU that the busiest shard used, 0 to 1.
        share: f64
    } => fit(format!("A shard used {} of a CPU", percent(share)), "A shard used all of a CPU");
        format!("A shard used {} of a CPU, so the rate is this client's ceiling", percent(share)),
        effect: ClientLimited,
        remedy: "Use more shards (--shards) if the machine has CPUs left, move the target to another machine, or lower the rate (--rate).",
        part: share,
        covers: [CpuWait, SentLate, ReadLate, MostlyOnePart];
    /// A shard was ready to run, but had to wait for a CPU.
    CpuWait {
        /// Part of its time for which the shard waited, 0 to 1; of several shards, the greatest.
        share: f64,
        /// True if the client used little CPU itself.
        is_disturbed: bool
    } => fit(format!("This client waited for a CPU {} of the time", percent(share)), "This client waited for a CPU");
        format!("A shard waited for a CPU {} of the time, so responses were read late and look slower", percent(share)),
        effect: lateness(is_disturbed),
        remedy: MORE_CPU,
        part: share,
        covers: [SentLate, ReadLate, MostlyOnePart];
    /// A shard did not run for a while, because it was stopped or got no CPU.
    ShardPaused {
        /// Length of the longest pause, s.
        paused_s: f64,
        /// True if the client used little CPU itself and waited for one.
        is_disturbed: bool
    } => fit(format!("This client did not run for {}", seconds(paused_s)), "This client did not run for a while");
        format!("A shard did not run for {} (stopped, or starved of CPU), so requests in flight look slower", seconds(paused_s)),
        effect: lateness(is_disturbed),
        remedy: MORE_CPU;
    /// A shard sent requests late.
    SentLate {
        /// Requests of which one was as late: 100, or 10 of a shard with few.
        one_in: u32,
        /// Time from the schedule to the sending, µs.
        late_us: f64,
        /// True if the client used little CPU itself and waited for one.
        is_disturbed: bool
    } => fit(format!("This client sent requests {} late", micros(late_us)), "This client sent requests late");
        format!("A shard sent 1 of {one_in} requests at least {} late", micros(late_us)),
        effect: lateness(is_disturbed),
        remedy: MORE_CPU;
    /// According to the kernel's time stamps, a shard read responses late.
    ReadLate {
        /// Responses of which one was as late: 100, or 10 of a shard with few.
        one_in: u32,
        /// Time from the arrival at the kernel to the reading, µs.
        late_us: f64,
        /// True if the client used little CPU itself and waited for one.
        is_disturbed: bool
    } => fit(format!("This client read responses {} late", micros(late_us)), "This client read responses late");
        format!("A shard read 1 of {one_in} responses at least {} late, which is in their latency", micros(late_us)),
        effect: lateness(is_disturbed),
        remedy: MORE_CPU;
    /// The shards waited because storing results was slow.
    StorageSlow {
        /// Part of the time of the shards, 0 to 1.
        share: f64
    } => fit(format!("Storing results took {} of the time", percent(share)), "Storing results was the limit");
        format!("The shards waited to store results {} of the time, so the rate is this client's ceiling", percent(share)),
        effect: ClientLimited,
        advice: Limit::Storage.remedy(),
        part: share;
    /// Requests were due, but were never sent.
    NeverSent {
        /// Part of the scheduled requests, 0 to 1.
        share: f64,
        /// Requests that were not sent.
        count: u64,
        /// Limit that held them back.
        limit: Limit,
        /// True if `--deadline` dropped some of them.
        #[serde(default)]
        by_deadline: bool
    } => fit(format!("{} of due requests were never sent", percent(share)), "Requests were due and never sent");
        format!(
            "{} of the requests that were due ({}) were never sent, {}; in percentiles of response times, they count as slower than all others",
            percent(share),
            grouped(count),
            match (by_deadline, limit.name()) {
                (false, limit) => format!("limited by {limit}"),
                (true, _) if limit == Limit::Unknown => "dropped by --deadline".to_owned(),
                (true, limit) => format!("limited by {limit}, and dropped by --deadline"),
            }
        ),
        effect: unsent(limit),
        advice: limit.remedy(),
        part: share,
        covers: [Waited];
    /// Throttle pauses moved scheduled requests past the end.
    Postponed {
        /// Part of the scheduled requests, 0 to 1.
        share: f64,
        /// Requests that were not sent.
        count: u64
    } => fit(format!("{} of requests were put off past the end", percent(share)), "Requests were put off past the end");
        format!(
            "{} of the requests on the schedule ({}) were never sent: throttle pauses moved them past the end",
            percent(share),
            grouped(count)
        ),
        effect: TargetLimited,
        remedy: "Use a lower --rate, or --on-throttle count to send them anyway.",
        part: share;
    /// Requests of an open loop waited for a limit before they were sent.
    Waited {
        /// Requests of which one waited as long: 100, or 10 of a shard with few.
        one_in: u32,
        /// That wait, µs.
        waited_us: f64,
        /// Response time at the same percentile, µs.
        response_us: f64,
        /// Limit that it waited for.
        limit: Limit
    } => fit(format!("Requests waited {} for {}", micros(waited_us), limit.name()), format!("Requests waited for {}", limit.name()));
        format!(
            "In a shard, 1 of {one_in} requests waited {} for {}; 1 of {one_in} response times is {}, which includes that",
            micros(waited_us),
            limit.name(),
            micros(response_us)
        ),
        effect: waited(limit),
        advice: limit.remedy();
    /// The requested rate was not reached.
    RateMissed {
        /// Requests per second that were sent, or answered if these are fewer.
        got_per_s: f64,
        /// Requested rate, per second; of one that changes, its mean.
        asked_per_s: f64,
        /// Limit that held for longest, if one is known.
        limit: Option<Limit>,
        /// Part of the time for which it held, 0 to 1.
        share: f64
    } => fit(format!("{}/s instead of {}/s", decimal(got_per_s), decimal(asked_per_s)), "The requested rate was not reached");
        format!(
            "{}/s instead of {}/s: {}",
            decimal(got_per_s),
            decimal(asked_per_s),
            limit.map_or_else(
                || "no limit explains it".to_owned(),
                |limit| format!("limited by {} {} of the time", limit.name(), percent(share))
            )
        ),
        advice: limit.and_then(Limit::remedy),
        part: (asked_per_s - got_per_s) / asked_per_s.max(f64::MIN_POSITIVE),
        covers: [LimitedBy];
    /// The host of the virtual machine gave CPU time to others.
    CpuSteal {
        /// Part of its CPU time that a shard lost, 0 to 1; of several shards, the greatest.
        share: f64
    } => fit(format!("Other virtual machines took {} of a CPU", percent(share)), "Other virtual machines took CPU time");
        format!("A shard lost {} of its CPU time to other virtual machines of the host", percent(share)),
        effect: Disturbed,
        remedy: "Run again at a quieter time, or on a dedicated machine.",
        part: share;
    /// After the run, the CPU was faster or slower than before the run.
    CpuSpeed {
        /// CPU time of the work before the run, µs.
        before_us: f64,
        /// CPU time of the same work after the run, µs.
        after_us: f64,
        /// True unless the client used all of the CPU that it may use.
        is_disturbed: bool
    } => "The CPU's speed changed during the run";
        format!(
            "The same work took {} of CPU time before the run and {} after it, so the CPU's speed changed",
            micros(before_us),
            micros(after_us)
        ),
        effect: lateness(is_disturbed),
        remedy: RUN_AGAIN;
    /// According to the kernel, responses waited for a TCP retransmission.
    PacketLoss {
        /// Good responses that waited.
        waited: u64,
        /// Good responses.
        responses: u64,
        /// Part of the good responses that waited, 0 to 1.
        share: f64,
        /// 99th percentile of the service time, µs, if it is known.
        p99_us: Option<f64>,
        /// The same without the responses that waited, µs.
        p99_without_us: Option<f64>
    } => fit(format!("{} of responses waited for a retransmission", percent(share)), "Responses waited for retransmissions");
        format!(
            "{} of {} waited for a TCP retransmission{}",
            grouped(waited),
            counted(responses, "response"),
            p99_us.zip(p99_without_us).map_or_else(String::new, |(with, without)| {
                format!(": p99 is {}, without them {}", micros(with), micros(without))
            })
        ),
        effect: (share >= thresholds::FAILED).then_some(Disturbed),
        remedy: "Look for what loses packets between this machine and the target: a full queue, a packet filter, traffic shaping, a bad link.",
        part: share;
    /// Many connections had to repeat their opening or got no acknowledgement, more than packet loss explains.
    ListenQueueFull {
        /// Connections of this kind.
        connections: u64,
        /// Connections that were opened.
        of: u64
    } => "The target's listen queue looks full";
        format!(
            "{} of {} opened after a retransmission or had no request acknowledged: this looks like a full listen queue of the target",
            grouped(connections),
            counted(of, "connection")
        ),
        effect: TargetLimited,
        remedy: "Increase the target's backlog, or open fewer connections (-c).";
    /// Requests timed out, and the target's kernel never acknowledged them.
    NeverReceived {
        /// Requests of this kind.
        requests: u64,
        /// True if a proxy is the peer.
        is_proxied: bool
    } => fit(format!("{} were never received", counted(requests, "request")), "Requests were never received");
        format!(
            "{} timed out that the {} kernel never acknowledged: they were lost before its application, or the way back is cut",
            counted(requests, "request"),
            peer(is_proxied)
        ),
        remedy: "Look for a full listen queue of the target, a packet filter, or a link that is down.";
    /// Requests timed out, although the target's kernel had acknowledged them.
    NotAnswered {
        /// Requests of this kind.
        requests: u64,
        /// True if a proxy is the peer.
        is_proxied: bool
    } => fit(format!("The target left {} unanswered", counted(requests, "request")), "The target left requests unanswered");
        format!(
            "{} timed out that the {} kernel had acknowledged: its application did not answer them",
            counted(requests, "request"),
            peer(is_proxied)
        ),
        remedy: "Look for what the target waits for: its workers, locks, or another service.";
    /// The target closed connections after a fixed number of requests.
    KeepAliveLimit {
        /// Requests of a connection.
        requests: u64,
        /// Connections that the target closed.
        closed: u64,
        /// Those of them whose last response announced it.
        announced: u64
    } => fit(format!("Connections end after {}", counted(requests, "request")), "The target ends connections");
        format!(
            "The target closes a connection after {}, {}",
            counted(requests, "request"),
            if announced >= closed {
                "as it announces".to_owned()
            } else {
                format!("{} of {} times without announcing it", grouped(closed - announced), grouped(closed))
            }
        ),
        severity: if announced >= closed { Severity::Info } else { Severity::Warning },
        remedy: "Raise the target's limit (nginx: keepalive_requests), have it or its proxy announce the end (connection: close), or send each request on a connection of its own (--disable-keepalive).";
    /// Before the run, the lookup of a name took a long time.
    LookupSlow {
        /// Time for all names, s.
        took_s: f64,
        /// Time for the slowest of them, s.
        slowest_s: f64
    } => fit(format!("Looking up names took {}", seconds(took_s)), "Looking up names took long");
        format!("Looking up names took {} before the run, the slowest {}", seconds(took_s), seconds(slowest_s)),
        remedy: "Check the name servers of this machine (/etc/resolv.conf): a lost query takes 5 s.";
    /// The robots.txt of some hosts could not be fetched, so these hosts were not crawled.
    RobotsUnreachable {
        /// Number of these hosts.
        hosts: u32
    } => "robots.txt could not be fetched";
        format!("robots.txt of {} could not be fetched, so nothing of it was crawled (RFC 9309)", counted(hosts.into(), "host")),
        remedy: "Try again later, or use --robots ignore if you are allowed to.";
    /// The target throttled source addresses at their first request.
    SourcesThrottled {
        /// Source addresses that sent requests.
        sources: u64,
        /// Those of them whose first request was throttled.
        throttled: u64
    } => "Source addresses are throttled together";
        format!(
            "{} of {} were throttled at the first request: the target may limit several addresses together",
            grouped(throttled),
            counted(sources, "source address")
        ),
        severity: Severity::Info,
        remedy: "Use addresses of other prefixes: more of the same do not help.";
    /// A page named a next page that its item had already requested.
    PagesRepeated {
        /// Pages of this kind.
        count: u64
    } => "Pages named earlier pages as the next";
        format!("{} named a page as the next that the item had requested before: it was not requested again", counted(count, "page")),
        remedy: "If pages are missing, correct `next` of the request file. A last page that names itself needs nothing.";
    /// Items had more pages than the limit `pages` of the request file.
    PagesCut {
        /// Items of this kind.
        count: u64
    } => "Lists have more pages than were requested";
        format!("{} ended at `pages` of the request file, with another page named as the next", counted(count, "list")),
        remedy: "Raise `pages` if all of them are wanted.";
    /// No page named a next page.
    NextNotFound {
        /// First pages of the run.
        count: u64
    } => "No response had a next page";
        format!("No response had a next page: none of {} has what `next` of the request file says", counted(count, "first page")),
        remedy: "Compare a response with `next`. If each list has one page, leave `next` out.";
    /// With `--refresh`, saved responses of an earlier crawl were still valid.
    NotModified {
        /// Part of the items that ended after the warm-up, 0 to 1.
        share: f64,
        /// Items of this kind.
        count: u64
    } => fit(format!("{} of items were not modified", percent(share)), "Items were not modified");
        format!("{} of items ({}) were not modified (304): the records of an earlier session hold", percent(share), grouped(count)),
        severity: Severity::Info;
    /// Requested items were not found.
    NotFound {
        /// Part of the requests after the warm-up, 0 to 1.
        share: f64,
        /// Requests of this kind.
        count: u64,
        /// Effect on the verdict: of a target that is not the bundled one, if more than half were
        /// not found.
        verdict: Option<Verdict>
    } => fit(format!("{} of requests were not found", percent(share)), "Requests were not found");
        format!("{} of requests ({}) were not found (404 or 410)", percent(share), grouped(count)),
        effect: verdict,
        severity: if share > thresholds::MOST_FAILED { Severity::Warning } else { Severity::Info },
        remedy: "Check the URL and the range of IDs (--ids). If that is expected, use --expect status:200,404,410.",
        part: share;
    /// Connections were not kept open for further requests.
    ConnectionsNotKept {
        /// Connections that were opened.
        opened: u64,
        /// Requests of the run.
        requests: u64
    } => "Connections were not kept";
        format!("Connections were not kept: {} opened for {}", grouped(opened), counted(requests, "request")),
        severity: Severity::Info;
    /// Certificates were not verified.
    CertificatesUnverified {} => "Certificates were not verified";
        "Certificates were not verified (--insecure): responses may be another server's",
        severity: Severity::Info;
    /// The target allows fewer streams on an HTTP/2 connection than `--streams`.
    FewStreams {
        /// Streams that the target allows on a connection.
        allowed: u32,
        /// Streams of the plan (`--streams`).
        streams: u32,
        /// Connections that carry as many requests at once as the plan has in flight.
        connections: u32
    } => fit(format!("The target allows {}", counted(allowed.into(), "stream")), "The target allows fewer streams");
        format!("The target allows {} on a connection, not {streams}: requests beyond that wait in this client", counted(allowed.into(), "stream")),
        severity: Severity::Info,
        remedy: format!("Use more connections (--connections {connections}).");
    /// A limit held the run back for a notable share of the time.
    LimitedBy {
        /// Limit that held for longest.
        limit: Limit,
        /// Part of the time for which it held, 0 to 1.
        share: f64
    } => fit(format!("Limited by {} {} of the time", limit.name(), percent(share)), format!("Limited by {}", limit.name()));
        format!("Limited by {} {} of the time", limit.name(), percent(share)),
        severity: Severity::Info;
    /// The slowest responses have the value of a trait far more often than the others.
    SlowestInCommon {
        /// The trait and its value.
        what: String,
        /// Part of the responses that are the slowest here, 0 to 1.
        slowest: f64,
        /// Part of them with the value, 0 to 1.
        slow_share: f64,
        /// Part of the others with the value, 0 to 1.
        others_share: f64
    } => fit(format!("The slowest have {what}"), "The slowest responses have a trait in common");
        format!(
            "{} of the slowest {} have {what}; of the others {}",
            percent(slow_share),
            percent(slowest),
            percent(others_share)
        ),
        severity: Severity::Info,
        remedy: "Look at the target for what is different about them; the report lists all that they have in common.";
    /// One part, such as the network, makes up most of the response time, and no other finding explains why.
    MostlyOnePart {
        /// That part.
        part: TimePart,
        /// Its part of the mean response time, 0 to 1.
        share: f64,
        /// Its mean, µs.
        us: f64
    } => fit(format!("{} of the time is {}", percent(share), part.in_short()), format!("Most of the time is {}", part.in_short()));
        format!("{} of the time of a response ({}) is {}", percent(share), micros(us), part.in_words()),
        severity: Severity::Info,
        remedy: "Run with --diagnose, which looks for the cause.";
    /// Client and target share all CPUs of a machine.
    CpusShared {
        /// CPUs that both run on.
        cpus: usize
    } => fit(format!("Client and target share {}", counted(cpus as u64, "CPU")), "Client and target share their CPUs");
        format!("Client and target share {}, so this is not the maximum of either", counted(cpus as u64, "CPU")),
        severity: Severity::Info;
}

impl Finding {
    /// Severity.
    pub fn severity(&self) -> Severity {
        self.own_severity().unwrap_or(match self.effect() {
            Some(Incomplete | NothingMeasured) => Severity::Error,
            _ => Severity::Warning,
        })
    }

    /// Text and remedy.
    pub fn sentence(&self) -> String {
        let text = self.text();
        let remedy = self
            .remedy()
            .map_or_else(String::new, |remedy| format!(" {remedy}"));
        format!("{}.{remedy}", text.trim_end_matches('.'))
    }

    /// True if it makes the other one redundant.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.kind().covers().contains(&other.kind())
    }

    /// True if it is a threshold that did not pass.
    pub(crate) const fn is_threshold(&self) -> bool {
        matches!(
            self,
            Self::ThresholdFailed { .. } | Self::ThresholdUndecided { .. }
        )
    }

    /// Place in the list of findings: the most severe first, and of these, those about most of the
    /// run.
    pub(super) fn rank(&self) -> (Reverse<Severity>, Reverse<bool>, FindingKind) {
        let is_most = self.part() >= thresholds::MOST;
        (Reverse(self.severity()), Reverse(is_most), self.kind())
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
    headline: String,
    text: String,
    remedy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
}

/// Write findings with their severity, headline, text, remedy and events.
pub(crate) fn serialize<S: Serializer>(findings: &[Finding], to: S) -> Result<S::Ok, S::Error> {
    let mut seq = to.serialize_seq(Some(findings.len()))?;
    for finding in findings {
        seq.serialize_element(&Saved {
            finding,
            severity: finding.severity(),
            effect: finding.effect(),
            headline: finding.headline(),
            text: finding.text(),
            remedy: finding.remedy(),
            events: finding.events(),
        })?;
    }
    seq.end()
}
