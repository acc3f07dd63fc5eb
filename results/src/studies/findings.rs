//! The facts that a study can show, one table: when each is found, its numbers, and its text. The
//! only place in which studies make sentences.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::capacity::search::SearchOutcome;
use super::compare::{
    Arm, Disturbance, Interval, MetricResult, Overall, Per, Undecided, change, time_change,
    times_as_much,
};
use super::history::ChangePoint;
use super::overload::{HeldBy, OverloadFailure, OverloadVerdict};
use super::scale::estimate::Estimate;
use super::scale::size::FixedQuantity;
use super::scale::usl::Fitted;
use super::{Notice, rate};
use crate::judge::Finding;
use crate::run::gates::{Condition, Unit};
use crate::run::report::Verdict;
use crate::show::doc::Severity::{self, Bad, Good, Neutral, Warning};
use crate::show::text::{capital, counted, decimal, grouped_f64, seconds};
use crawlmark_harness::units::{grouped, micros, percent, rounded_percent};

/// Part of a capacity by which it may be lower and is confirmed nevertheless.
const UNCERTAIN: f64 = 0.1;

/// Factors of entries that were measured again are alike if they are within so much, as a logarithm.
const UNEQUAL: f64 = 0.02;

/// The greatest probability that is shown: it stands on a model.
pub(super) const MOST_SURE: f64 = 0.999;

/// Advice where a probe was too short.
const LONGER: &str = "A longer --probe would show it.";

/// Define the findings: each with its numbers, its severity, one plain sentence with the numbers
/// and without a full stop, and at will a remedy.
macro_rules! findings {
    ($(
        #[doc = $doc:literal]
        $kind:ident { $($field:ident: $type:ty),* } => $severity:expr, $title:expr $(, $remedy:expr)?;
    )*) => {
        /// Fact about a study with its numbers.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum StudyFinding {
            $(#[doc = $doc] $kind {
                $(#[doc = concat!("See the text of the finding: ", stringify!($field), ".")] $field: $type),*
            },)*
        }

        impl StudyFinding {
            /// Every kind, in the order of the list.
            pub const KINDS: &[&str] = &[$(stringify!($kind)),*];

            /// Its kind, one of [`Self::KINDS`].
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => stringify!($kind),)*
                }
            }

            /// The finding as it is shown.
            pub fn notice(&self) -> Notice {
                match self.clone() {
                    $(Self::$kind { $($field),* } => Notice {
                        severity: $severity,
                        title: String::from($title),
                        remedy: Vec::<String>::from([$(String::from($remedy))?]).concat(),
                    },)*
                }
            }
        }
    };
}

findings! {
    // Of any study.

    /// Rounds have a finding of their own: that of the first of them.
    InRounds { finding: Finding, rounds: usize, of: usize, side: Cow<'static, str> } => Warning,
        if of == 1 && side.is_empty() {
            finding.text()
        } else {
            format!("In {rounds} of {}{side}: {}", counted(of as u64, "round"), finding.text())
        },
        finding.remedy().filter(|_| of == 1).unwrap_or_default();
    /// The target ran out of something, by a probe of its processes.
    RanOut { at: String, finding: Finding } => Neutral,
        format!("At {at}: {}", finding.text()),
        finding.remedy().unwrap_or_default();
    /// The load was too much for the target, and none of its processes' readings says why.
    NothingRanOut { at: String, cpus_used: f64, cpus: usize } => Neutral,
        format!(
            "At {at}: what the target ran out of was not seen; it used {cpus_used:.2} of its {}",
            counted(cpus as u64, "CPU")
        );
    /// It was stopped before its end.
    Interrupted {} => Warning, "Interrupted before its end";

    // Of a capacity.

    /// The outcome of the search.
    Capacity {
        outcome: SearchOutcome, per_s: Option<f64>, least_per_s: Option<f64>, for_s: Option<f64>,
        settled_per_s: [Option<f64>; 2], bounds_per_s: [f64; 2]
    } => outcome.severity(), capacity(outcome, per_s, least_per_s, for_s, settled_per_s, bounds_per_s),
        match outcome {
            SearchOutcome::LeastFails => "Use a lower --from.",
            SearchOutcome::NotReached => "Use a higher --max-rate.",
            SearchOutcome::Unsteady => "It has no single capacity, or something else used it during the search.",
            _ => "",
        };
    /// Responses that were not found count neither as good nor as failed.
    NotFound { share: f64 } => Neutral,
        format!("{} of the responses were 404 or 410, which are not accepted", percent(share)),
        "Choose --ids that exist, or accept them (--expect status:200,404).";
    /// A limit may count over a period longer than a probe.
    LongerPeriod { let_through_per_s: f64, wait_s: f64 } => Warning,
        format!(
            "The limit may count over a period longer than a probe: once the target refused requests, it accepted as little as {}{}",
            rate(let_through_per_s),
            if wait_s > 0.0 { format!(" and asked for a wait of {}", seconds(wait_s)) } else { String::new() }
        ),
        "A --probe of twice the period would show it.";
    /// With random arrivals, a queue near its capacity grows for longer than a probe.
    RandomArrivals { share: f64 } => if share > UNCERTAIN { Warning } else { Neutral },
        format!(
            "The capacity may be up to {:.0} % lower: with random arrivals, a queue this close to capacity grows for longer than a probe",
            (share * 100.0).ceil()
        ),
        LONGER;
    /// A limit that allows nothing at once may be higher.
    NoBurst { share: f64 } => Warning,
        format!(
            "The target allows no bursts: of half of a rate that it accepts, it refused {} when requests came at random times. \
             The real limit may be higher, because requests of this client do not come quite evenly either",
            percent(share)
        ),
        "Allow a burst (in nginx, limit_req burst=): users do not come evenly.";
    /// Probes that said nothing of the target.
    Void { probes: usize, reason: Box<StudyFinding> } => Neutral,
        format!(
            "Void probes, which say nothing of the target: {}; the last one because {}",
            grouped(probes as u64),
            reason.notice().title
        );
    /// The time for the search was used up.
    OutOfTime {} => Neutral,
        "The time for the search (--budget) was used up",
        "Raise it, or search a narrower range (--from, --max-rate).";

    // Of a probe: why it was no pass.

    /// This client had no local port or descriptor.
    NoPort { requests: u64 } => Neutral,
        format!("{} requests found no local port or descriptor", grouped(requests));
    /// This client was late.
    Late { share: f64, us: f64 } => Neutral,
        format!("{:.0} % of requests went out at least {} late", share * 100.0, micros(us));
    /// This client sent less than was due, and connections were not what it lacked.
    SentTooFew { sent_per_s: f64, due_per_s: f64 } => Neutral,
        format!("this client sent {sent_per_s:.0} of {due_per_s:.0} requests a second");
    /// The run was disturbed or limited by this client, which may have made it slow.
    Disturbed { finding: Option<Box<Finding>> } => Neutral,
        finding.map_or_else(|| "the run was disturbed".to_owned(), |finding| finding.text());
    /// This client sent requests in bunches, of which a limit may refuse as many.
    Bunches { late_share: f64 } => Neutral,
        format!("{:.1} % of requests went out late, in bunches that a limit may refuse", late_share * 100.0);
    /// It passed, perhaps by a burst: by other probes, the target accepts no more than this.
    Burst { limit_per_s: f64 } => Neutral,
        format!("perhaps passed only by a burst: once it refuses requests, the target accepts only {}", rate(limit_per_s));
    /// So much failed or was refused that it was stopped.
    Stopped { objective: Condition } => Neutral,
        format!("stopped, because `{objective}` did not hold");
    /// All connections were in use when requests were due.
    NoConnection { connections: u32 } => Neutral,
        format!("all of {connections} connections were waiting for a response when more requests were due");
    /// An objective did not hold.
    Broken { objective: Condition, value: f64, at_least: bool } => Neutral,
        format!(
            "{} {}{}, but the objective is {objective}",
            objective.metric,
            if at_least { "at least " } else { "" },
            with_unit(objective.metric.unit(), value)
        );
    /// More requests broke an objective on a percentile than may.
    TooSlow { objective: Condition, slow: u64, all: u64, allowed: u64 } => Neutral,
        format!("{} of {} requests broke {objective}, and {} may", grouped(slow), grouped(all), grouped(allowed));
    /// An objective could not be measured.
    Unmeasured { objective: Condition, why: String } => Neutral,
        format!("{}: {why}", objective.metric);
    /// Fewer requests were answered than were due, all the time.
    FellBehind { per_s: f64 } => Neutral,
        format!("unanswered requests grew by {} each second: the target fell behind", decimal(per_s));

    // Of a comparison.

    /// The verdict over all metrics, and those that led to it.
    Comparison {
        verdict: Overall, counted: usize, left_out: usize, metrics: Vec<MetricResult>, passes_below: f64,
        needed_s: Option<f64>
    } => verdict.severity(),
        format!(
            "{} after {}{}: {}",
            capital(verdict.name()),
            self::counted(counted as u64, "counted pair"),
            if left_out > 0 { format!(" ({left_out} left out)") } else { String::new() },
            led_to(verdict, &metrics, passes_below)
        ),
        match because(&metrics) {
            Some(Undecided::TooFewPairs { .. }) => AS_MANY_AS_NEEDED.to_owned(),
            Some(Undecided::WorseButCoarse { .. }) => longer_rounds(needed_s),
            _ if verdict == Overall::NotJudged => AS_MANY_AS_NEEDED.to_owned(),
            _ => String::new(),
        };
    /// Metrics that decide nothing, because a round reads too little of them.
    NotJudged { metrics: Vec<String>, longer: f64, needed_s: Option<f64> } => Neutral,
        format!("Not judged: {}; {} a round is needed", metrics.join(", "), times_as_much(longer)),
        longer_rounds(needed_s);
    /// Pairs that were left out for one reason.
    PairsLeftOut { disturbance: Disturbance, count: usize, of: usize } => Warning,
        format!("{count} of {} left out: {}", counted(of as u64, "pair"), disturbance.words());
    /// Executions of commands that failed, and count because of `--ignore-failure`.
    ExecutionsFailed { arm: Arm, failed: u64, of: u64, exit_codes: BTreeSet<i32> } => Warning,
        format!(
            "{} of {} of the {arm} failed ({})",
            grouped(failed),
            counted(of, "execution"),
            endings(&exit_codes)
        ),
        "They count as the others do (-i): what fails early looks fast.";
    /// The base was a regression against itself.
    EqualSidesDiffer {} => Warning, "The base was a regression against itself on this machine";
    /// What a pair read tells something of the next.
    Autocorrelated { metric: String, autocorrelation: f64 } => Warning,
        format!(
            "{}: neighbouring pairs depend on each other (autocorrelation {autocorrelation:.2}), so its interval is too narrow",
            capital(&metric)
        ),
        "The random order keeps the p value right.";

    /// Quantiles lie elsewhere beside the median: a second mode, or a wider spread.
    ShapeChanged { of: String, quantile: f64, base: f64, candidate: f64 } => Warning,
        format!(
            "The shape of the {of} changed: its {:.0} % quantile is {candidate:.2} times the median, and was {base:.2} times",
            quantile * 100.0
        ),
        "Look for a second mode, or a wider spread.";
    /// A function that uses more CPU time, or less.
    FunctionChanged {
        function: String, change_us: f64, interval_us: Option<Interval>, share_of_change: Option<f64>, per: Per
    } => if change_us > 0.0 { Warning } else { Neutral },
        format!(
            "`{function}`: {} of CPU time per {per}{}",
            time_change(change_us, interval_us),
            share_of_change.map_or_else(String::new, |share| format!(", {} of the change", rounded_percent(share)))
        );
    /// Threads or processes are too short to be sampled evenly.
    SampledUnevenly { samples: u64, started: u64 } => Warning,
        format!(
            "No function is named: {} of {} threads and processes, each sampled only after 3 ms of its own CPU time",
            counted(samples, "sample"),
            grouped(started)
        ),
        "Let each thread, or each execution, do more.";
    /// Functions were to be sampled.
    NotProfiled { reason: String } => Warning,
        format!("Functions were not sampled: {}", reason.trim_end_matches('.'));

    // Of a search among commits.

    /// The first commit that is worse.
    CommitFound { metric: String, commit: String, about: String, effect: String, probability: f64 } => Bad,
        format!("{commit} made {metric} worse: {effect}, with a probability of {} ({about})", percent(probability.min(MOST_SURE)));
    /// The first commit that is worse is one of several, of which all but the last do not build or run.
    CommitsFound { metric: String, commits: usize, first: String, last: String, about: String, effect: String } => Bad,
        format!(
            "One of {} made {metric} worse: {effect}. The first is {first}, the last is {last} ({about}), and all before the last do not build or run",
            counted(commits as u64, "commit")
        ),
        "Mend one that does not build or run in --build, or read their changes.";
    /// A commit lies off both ends.
    SeveralSteps { metric: String, loss: String, commit: String, change: String, parts: [String; 2] } => Warning,
        format!("{} got worse in several steps: {loss} in all, and {change} at {commit}", capital(&metric)),
        format!("Search each part: crawlmark bisect {}, then {}.", parts[0], parts[1]);
    /// The bad end is not worse.
    NoLoss { metric: String, blocks: usize, change: String, smallest_found: Option<f64> } => Warning,
        format!(
            "{} is not worse at the bad end: {change} in {}{}",
            capital(&metric),
            counted(blocks as u64, "pair"),
            smallest_found.map_or_else(String::new, |loss| format!("; a loss of {} would have been found", percent(loss)))
        ),
        "Choose another --metric, or ends that differ.";
    /// No commit is likely enough.
    CommitUnsettled { metric: String, loss: String, commit: String, probability: f64 } => Warning,
        format!("Not settled: {metric} changed by {loss}, most likely at {commit}, with a probability of {}", percent(probability)),
        "Run the same command again: it goes on with the builds and readings so far.";
    /// The command that checks the answer.
    CheckByPairs { good: String, bad: String, command: String } => Neutral,
        format!("To check it in pairs, build {good} in {{base}} and {bad} in {{candidate}}: {command}");
    /// Commits that cannot be built or measured.
    NotBuilt { failed: usize, of: usize } => Warning,
        format!("{failed} of {} do not build or run", counted(of as u64, "commit"));

    // Of an arena.

    /// The fastest entries, and how many groups there are.
    Ranked {
        first: Vec<String>, limited: Vec<String>, per_s: f64, entries: usize, groups: usize, rounds: usize,
        smallest_found: Option<f64>
    } => Neutral,
        format!(
            "{}. {entries} entries in {} after {}{}",
            fastest(&first, &limited, per_s),
            counted(groups as u64, "group"),
            counted(rounds as u64, "round"),
            smallest_found.map_or_else(String::new, |of| format!("; a difference of {} would have been found", percent(of)))
        );
    /// Fewer rounds than the first look needs.
    TooFewRounds { rounds: usize, needed: usize } => Warning,
        format!("No ranks: they need {needed} rounds, and {rounds} were complete");
    /// Fewer than two entries have a rank.
    NothingToRank { entries: usize } => Warning,
        format!("No ranks: of {entries} entries, fewer than two have rounds that count");
    /// Pairs that are neither shown to differ nor shown to be alike.
    PairsUnsettled { pairs: usize, of: usize } => Warning,
        format!("{pairs} of {} are neither shown to differ nor shown to be within 4 %", counted(of as u64, "pair")),
        "Allow more rounds (--rounds 28 or 44), use longer ones (-d), or a quieter machine.";
    /// The client set the pace in most rounds of an entry.
    AtLeast { name: String, per_s: f64, limited: usize, rounds: usize } => Warning,
        format!(
            "{name} has no rank: in {limited} of {} the client was the limit, so it may be faster than {}",
            counted(rounds as u64, "round"),
            rate(per_s)
        ),
        "Give the client more CPUs (--shards), or the servers fewer.";
    /// Many rounds of an entry do not describe normal responses.
    NotRanked { name: String, not_valid: usize, rounds: usize } => Warning,
        format!("{name} has no rank: {not_valid} of {} do not describe normal responses", counted(rounds as u64, "round"));
    /// No response of an entry met the objectives.
    NoneMet { name: String, objectives: String } => Warning,
        format!("{name} has no rank: none of its responses met the objectives ({objectives})");
    /// Some responses to the check of an entry were not as expected.
    NotAllGood { name: String, good: u64, of: u64 } => Warning,
        format!("{name}: {good} of {} had the expected response", counted(of, "request"));
    /// An entry closes connections.
    NoKeepAlive { name: String, connections: u64, requests: u64 } => Warning,
        format!("{name} does not keep connections: {connections} were opened for {}", counted(requests, "request")),
        "Its rate includes opening connections: turn keep-alive on, or compare it with others that close.";
    /// The body of an entry has another length than that of most.
    OtherLength { name: String, bytes: u64, others: u64 } => Warning,
        format!("{name} answers with a body of {} bytes, most others with {}", grouped(bytes), grouped(others));
    /// The content type of an entry is not that of most.
    OtherContentType { name: String, content_type: String, others: String } => Warning,
        format!("{name} answers with the content type `{content_type}`, most others with `{others}`");
    /// Little's law does not hold with the connections in use.
    LittlesLaw { name: String, share: f64 } => Warning,
        format!(
            "{name}: by Little's law, requests were in flight for {} of the time of its connections",
            rounded_percent(share)
        ),
        if share > 1.0 {
            "Rate and times contradict each other: report a bug."
        } else {
            "The rest went into opening connections, or into this client."
        };
    /// Entries that were measured later than the others.
    AddedLater { entries: Vec<String>, anchors: [String; 2], ratios: [f64; 2] } =>
        if (ratios[0] / ratios[1]).ln().abs() > UNEQUAL { Warning } else { Neutral },
        format!(
            "Added later: {}, by {} ({}) and {} ({}), which were measured again",
            some_of(&entries),
            anchors[0],
            change(ratios[0], None),
            anchors[1],
            change(ratios[1], None)
        ),
        if (ratios[0] / ratios[1]).ln().abs() > UNEQUAL {
            "The two changed by different factors: measure the whole arena again."
        } else {
            ""
        };
    /// An entry did not keep up with the rate that all get.
    RateNotKept { name: String, ratio: f64 } => Warning,
        format!("{name} was sent {} of the rate at which times are compared", percent(ratio)),
        "Choose a lower --rate.";

    // Of a scaling.

    /// No size has a valid round together with the smallest size.
    NothingToCompare {} => Warning,
        "No size has a valid round together with the smallest size, so there is nothing to compare";
    /// The largest size that counts, beside the smallest.
    Grew {
        held: FixedQuantity, sizes: [f64; 2], speedup: Estimate, efficiency: Estimate, cost: Option<Estimate>
    } => Neutral,
        {
            let ([times, between], axis) = (speedup.texts(factor), held.axis().name());
            let efficient = efficiency.at_most(1.0).texts(percent);
            let cost = cost.map_or_else(String::new, |cost| {
                let [cost, between] = cost.texts(factor);
                format!(", at {cost}x the CPU per request{between}")
            });
            format!(
                "{} {axis} are {times}x as fast as {}{between} with {held}: {} efficient{}{cost}",
                sizes[1], sizes[0], efficient[0], efficient[1]
            )
        };
    /// The Universal Scalability Law that the sizes follow.
    Law { held: FixedQuantity, contention: Fitted, coherency: Fitted, peak: Option<Fitted> } => Neutral,
        {
            let axis = held.axis().name();
            let peak = peak.map_or_else(
                || "no peak is known".to_owned(),
                |peak| format!("most throughput at {} {axis}", peak.text(decimal)),
            );
            format!(
                "Universal Scalability Law with {held}: contention {}, coherency {}, {peak}",
                contention.text(coefficient),
                coherency.text(coefficient)
            )
        };
    /// No size counts beside the smallest: client and target competed for the CPUs.
    CpuScarce { held: FixedQuantity, sizes: [f64; 2], speedup: Estimate } => Warning,
        format!(
            "No size counts, because client and target competed for the CPUs: {} {} were {}x as fast as {}",
            sizes[1],
            held.axis().name(),
            factor(speedup.median),
            sizes[0]
        ),
        "Run the target on another or lower the load (fewer connections; --latency-bound, with the bundled target).";

    // Of an overload.

    /// Verdict on the time after the overload.
    AfterOverload {
        verdict: OverloadVerdict, recovery_s: Option<u64>, within_s: u64, good_per_s: [f64; 2], held_by: Option<HeldBy>
    } =>
        match verdict {
            OverloadVerdict::Recovers => Good,
            OverloadVerdict::Slow => Warning,
            OverloadVerdict::Stuck => Bad,
        },
        after_overload(recovery_s, within_s, good_per_s),
        held_by.map_or("", HeldBy::remedy);
    /// The overload was none.
    KeptUp { good_per_s: f64, offered_per_s: f64 } => Warning,
        format!("Not overloaded: {} of {} offered were answered in time", rate(good_per_s), rate(offered_per_s)),
        "The capacity is higher: give a higher --capacity, or remove it to search it.";
    /// The target did not sustain the load before the overload.
    NotSteady { good_per_s: f64, late_per_s: f64, offered_per_s: f64 } => Warning,
        if missed(good_per_s, late_per_s, offered_per_s) {
            format!("Late before the overload: {} of {} offered missed an objective", rate(late_per_s), rate(offered_per_s))
        } else if good_per_s > 0.0 {
            format!("Overloaded before the overload: {} of {} offered were answered in time", rate(good_per_s), rate(offered_per_s))
        } else {
            "No good response before the overload".to_owned()
        },
        if missed(good_per_s, late_per_s, offered_per_s) {
            "Give an --objective that the target meets at this load, or a lower --capacity."
        } else if good_per_s > 0.0 {
            "The capacity is lower: give a lower --capacity, or remove it to search it."
        } else {
            "Mend the target's errors first: crawlmark run shows them."
        };
    /// Reaction to the overload.
    FailsBy { failure: OverloadFailure, good_per_s: [f64; 2] } =>
        if failure == OverloadFailure::Collapses { Warning } else { Neutral },
        format!("{}: goodput {} before the overload, {} in its second half", failure.text(), rate(good_per_s[0]), rate(good_per_s[1]));
    /// What was waiting at the end of the overload.
    Backlog { requests: f64, drain_s: Option<f64> } => Neutral,
        format!(
            "The overload left {} requests beyond the capacity: {}",
            grouped_f64(requests),
            drain_s.map_or_else(
                || "with its retries, the load after it leaves no capacity to serve them".to_owned(),
                |s| format!("a target that serves them all needs {}", seconds(s)),
            )
        );

    // Of a ladder, and of patterns.

    /// From the first rung to the fastest, and as it was published.
    Climbed { per_s: [f64; 2], published_per_s: [f64; 2] } => Neutral,
        format!("Measured: {}; published: {}", climb(per_s), climb(published_per_s));
    /// The pattern with most good items per second of those that were throttled least, and its equals.
    Fastest { names: Vec<Cow<'static, str>>, per_s: f64, throttled_share: f64 } => Neutral,
        format!(
            "Most good items at the least throttling ({} throttled): {} or nearly so with {}",
            percent(throttled_share),
            rate(per_s),
            names.join(", ")
        );
    /// A run with another verdict than valid, and the gravest of its findings.
    NotValid { name: Cow<'static, str>, verdict: Verdict, finding: Option<Finding> } =>
        if verdict == Verdict::Disturbed { Warning } else { Neutral },
        match finding {
            Some(finding) => format!("{}: {}", capital(&name), finding.text()),
            None => format!("{}: {}", capital(&name), verdict.name()),
        };

    // Limit of a rung.

    /// The target turned requests away.
    Refusals { share: f64, paused_share: f64 } => Neutral,
        format!("refusals: {} of requests were throttled, pauses took {} of the time", percent(share), percent(paused_share));
    /// Items failed.
    Failures { share: f64 } => Neutral, format!("failures: {} of the items failed", percent(share));
    /// Batches, which leave connections at rest until their slowest response is there.
    Batches { connections: u32, used: f64 } => Neutral,
        format!("its batches: each waited for its slowest response, so {} of {connections} connections were in use", percent(used));
    /// The crawl's own rate.
    OwnBudget { used: f64 } => Neutral, format!("its own budget: {} of it was used", percent(used));
    /// CPU of the machine, over all processes.
    CpuFull { used_cores: f64, cores: usize } => Neutral, format!("CPU: {used_cores:.2} of {cores} cores");
    /// Shards waited for a CPU.
    CpuWait { share: f64 } => Neutral, format!("CPU: shards waited for it for {} of the time", percent(share));
    /// The one CPU that a process can have.
    OneCpu { each: f64 } => Neutral,
        format!("CPU: {each:.2} of a core in each process, which can use no more than one");
    /// Requests in flight waited for their answers, or most of that time for new connections.
    Waiting { connections: u32, each_us: f64, opening_us: Option<f64> } => Neutral,
        format!(
            "{}: {} in flight at {} each{} allow {}",
            if opening_us.is_some() { "handshakes" } else { "waiting" },
            grouped(connections.into()),
            micros(each_us),
            opening_us.map_or_else(String::new, |us| format!(" ({} of it to open a connection)", micros(us))),
            rate(f64::from(connections) * 1e6 / each_us.max(1.0))
        );
    /// Neither CPU nor waiting took most of the time.
    Unclear {} => Neutral, "nothing clear: neither CPU nor waiting for responses took most of the time";

    // Of a history.

    /// Too few results to find a change in.
    TooFewResults { results: usize, needed: usize } => Warning,
        format!("Too few results of one plan to find a change: {needed} are needed, {results} were read of all");
    /// No series changed.
    NoChange { results: usize, series: usize, smallest_found: Option<[f64; 2]> } => Neutral,
        format!(
            "No change of {} found in {}{}",
            counted(series as u64, "metric"),
            counted(results as u64, "result"),
            smallest_found.map_or_else(String::new, smallest_change)
        );
    /// The last change of a series, and the first result after it.
    Changed { title: String, since: String, is_worse: bool, change: ChangePoint } =>
        if is_worse { Warning } else { Neutral },
        format!("{}: {title} {} since {since}", if is_worse { "Worse" } else { "Better" }, change.shift.in_sentence()),
        "The machine may have changed, too: compare the versions with `crawlmark ab`.";
    /// Neighbours are more alike than chance makes them.
    Wanders { title: String, correlation: f64 } => Warning,
        format!("{title}: results resemble those before them (correlation {correlation:.2}), so a change may be a slow drift");
    /// Series that are too short.
    TooShort { series: usize, needed: usize } => Neutral,
        format!("Left out: {} with fewer than {needed} results", counted(series as u64, "metric"));

    // Of results of another tool.

    /// One side ran after the other.
    Unpaired {} => Warning,
        "No verdict: one side ran after the other, so drift of the machine counts as a difference",
        "`crawlmark ab --base-command OLD --cand-command NEW` runs pairs and decides.";
    /// Series that only one side has.
    Unmatched { series: usize } => Warning,
        format!("Left out: {} of one side only", counted(series as u64, "metric"));

    // Of a selftest.

    /// Every row passed.
    Passed {} => Good,
        "Passed: measurements on this machine are correct, within the tolerances shown";
    /// Rows that failed.
    Failed { rows: String } => Bad,
        format!("FAILED: {rows}"),
        "Do not rely on measurements on this machine until the reason is known.";
    /// Rows that could not be judged.
    Busy { rows: String } => Warning,
        format!("Disturbed: the machine was too busy to judge {rows}"),
        "Try again when it is idle.";
    /// Rows that were not run.
    NotRun { rows: String } => Warning, format!("Not run: {rows}");
    /// The measurement error of this machine; that of a disturbed one if so.
    MeasurementError { service_p50_us: f64, service_p99_us: f64, disturbed: bool } =>
        if disturbed { Warning } else { Neutral },
        format!(
            "Service times on this machine read {} too high at the median and {} at the 99th percentile",
            micros(service_p50_us),
            micros(service_p99_us)
        );
    /// An attempt at a row does not count.
    RowDisturbed { row: String, reason: String } => Warning,
        format!("A try of {row} does not count: {}", reason.trim_end_matches('.'));
}

impl StudyFinding {
    /// True if a capacity with this caveat is not confirmed.
    pub fn is_doubt(&self) -> bool {
        self.notice().severity == Warning
    }
}

impl SearchOutcome {
    const fn severity(self) -> Severity {
        match self {
            Self::Found => Good,
            Self::LeastFails => Bad,
            _ => Warning,
        }
    }
}

fn capacity(
    outcome: SearchOutcome,
    per_s: Option<f64>,
    least_per_s: Option<f64>,
    for_s: Option<f64>,
    [pass, fail]: [Option<f64>; 2],
    [least, most]: [f64; 2],
) -> String {
    let met = match [pass, fail].map(|at| at.map(rate)) {
        [Some(pass), Some(fail)] => format!("objectives met at {pass}, broken at {fail}"),
        [Some(pass), None] => format!("objectives met at {pass}"),
        [None, Some(fail)] => format!("objectives broken at {fail}"),
        [None, None] => "no rate was confirmed to pass or to fail".to_owned(),
    };
    let sustained = match (per_s.zip(for_s), pass) {
        (Some((per_s, for_s)), _) => format!("{} for {}", rate(per_s), seconds(for_s)),
        (None, Some(pass)) => return format!("No good response at {}: no capacity", rate(pass)),
        (None, None) => "unknown".to_owned(),
    };
    match outcome {
        SearchOutcome::Found => format!("Capacity: {sustained} ({met})"),
        SearchOutcome::Unconfirmed => {
            let other = least_per_s.filter(|_| least_per_s < per_s).map_or_else(
                || "higher".to_owned(),
                |least| format!("lower, down to {}", rate(least)),
            );
            format!("Not confirmed: {sustained} ({met}), but the capacity may be {other}")
        }
        SearchOutcome::LeastFails => {
            format!("Even {} fails, the lowest rate of the search", rate(least))
        }
        SearchOutcome::NotReached => format!(
            "Capacity: at least {sustained}, and {} is the highest rate of the search",
            rate(most)
        ),
        SearchOutcome::ClientLimited => format!(
            "Capacity: {sustained} or more, because this client could not send more on schedule ({met})"
        ),
        SearchOutcome::Unsteady => {
            "The target is unsteady: it failed at a rate below one at which it passed, each confirmed"
                .to_owned()
        }
        SearchOutcome::Undecided => format!("Not settled: {met}"),
    }
}

/// True if most responses that were not good missed an objective.
fn missed(good_per_s: f64, late_per_s: f64, offered_per_s: f64) -> bool {
    late_per_s > 0.0 && 2.0 * late_per_s >= offered_per_s - good_per_s
}

fn after_overload(recovery_s: Option<u64>, within_s: u64, [before, after]: [f64; 2]) -> String {
    let goodput = format!(
        "goodput {} before the overload, {} after it",
        rate(before),
        rate(after)
    );
    match recovery_s {
        Some(0) => format!("Recovers at once: {goodput}"),
        Some(s) if s <= within_s => format!("Recovers in {s} s: {goodput}"),
        Some(s) => format!("Recovers slowly, in {s} s (limit {within_s} s): {goodput}"),
        None => format!("Stuck: {goodput}"),
    }
}

impl OverloadFailure {
    const fn text(self) -> &'static str {
        match self {
            Self::Refuses => "Refuses what is too much",
            Self::Queues => "Queues: responses come later and later",
            Self::TimesOut => "Times out: the clients leave before their responses",
            Self::Collapses => "Collapses under the overload",
        }
    }
}

impl HeldBy {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Retries => {
                "Retries keep the load above the capacity. Bound the queue, drop requests whose client has left, or retry less."
            }
            Self::Queue => {
                "The queue of the overload is still being served. Bound it, or give --after more time to see the end."
            }
            Self::Failures => "The target fails requests below its capacity: look at its errors.",
        }
    }
}

/// The smallest changes that would have been found, of the metric with the least and the most noise.
fn smallest_change([least, most]: [f64; 2]) -> String {
    let least = if least < most {
        format!("{} to ", percent(least))
    } else {
        String::new()
    };
    format!(
        ": a step of {least}{} half way would have been, in 95 of 100 histories",
        percent(most)
    )
}

/// The first entries of an arena, the rate of the first one, and those whose limit was the client.
pub(super) fn fastest(first: &[String], limited: &[String], per_s: f64) -> String {
    let best = match first {
        [one, others @ ..] if !others.is_empty() => format!(
            ": {one} ({}), not told apart from {}",
            rate(per_s),
            some_of(others)
        ),
        _ => format!(": {} ({})", some_of(first), rate(per_s)),
    };
    if limited.is_empty() {
        format!("Fastest{best}")
    } else {
        format!(
            "Fastest with a rank{best}; without one: {}",
            some_of(limited)
        )
    }
}

/// Names of entries; the others are counted.
fn some_of(names: &[String]) -> String {
    const MOST: usize = 4;
    let (first, others) = names.split_at(names.len().min(MOST));
    let more = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", first.join(", "))
}

/// Exit codes in words; those that a signal ended have none.
fn endings(exit_codes: &BTreeSet<i32>) -> String {
    let codes: Vec<String> = exit_codes.iter().map(i32::to_string).collect();
    match &codes[..] {
        [] => "ended by a signal".to_owned(),
        [code] => format!("exit code {code}"),
        codes => format!("exit codes {}", codes.join(", ")),
    }
}

fn with_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us => micros(value),
        Unit::PerS => format!("{value:.0}/s"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Count => format!("{value:.0}"),
        Unit::Flag => (value > 0.0).to_string(),
    }
}

impl Overall {
    const fn severity(self) -> Severity {
        match self {
            Self::NotJudged => Neutral,
            Self::Pass => Good,
            Self::Regression => Bad,
            Self::Inconclusive => Warning,
        }
    }
}

/// Where more pairs would decide.
const AS_MANY_AS_NEEDED: &str = "`crawlmark ab` runs as many as are needed.";

/// Advice where a round reads too little.
fn longer_rounds(needed_s: Option<f64>) -> String {
    needed_s.map_or_else(
        || "Let each execution do more.".to_owned(),
        |s| format!("Use rounds of {} (-d {s}s).", seconds(s)),
    )
}

/// Reason why the first of these metrics is undecided.
fn because(metrics: &[MetricResult]) -> Option<Undecided> {
    metrics.first()?.verdict.because()
}

/// What led to the verdict of a comparison.
fn led_to(verdict: Overall, metrics: &[MetricResult], passes_below: f64) -> String {
    match (verdict, because(metrics)) {
        (Overall::NotJudged, _) => {
            "one pair of single runs shows no difference from chance".to_owned()
        }
        (Overall::Pass, _) => {
            let judged: Vec<&str> = metrics.iter().map(|one| &*one.metric.title).collect();
            let bound = passes_below * 100.0;
            format!("no loss of {bound} % or more in {}", judged.join(", "))
        }
        (Overall::Regression, _) => metrics
            .iter()
            .map(|one| {
                let by = one
                    .evidence
                    .map_or_else(|| "far less".to_owned(), |evidence| evidence.change());
                format!("{} {by}", one.metric.title)
            })
            .collect::<Vec<_>>()
            .join("; "),
        (_, Some(why)) => format!("{}: {why}", metrics[0].metric.title),
        _ => "no metric was read in both sides of each pair".to_owned(),
    }
}

/// A coefficient below 1, to two significant digits.
fn coefficient(value: f64) -> String {
    let decimals = (1..=8).find(|decimals| value * 10_f64.powi(*decimals) >= 10.0);
    decimals.map_or_else(
        || "0".to_owned(),
        |decimals| format!("{value:.*}", decimals.unsigned_abs() as usize),
    )
}

/// A speedup: `15.8`, `1.98`.
pub(super) fn factor(speedup: f64) -> String {
    if speedup < 9.95 {
        format!("{speedup:.2}")
    } else {
        format!("{speedup:.1}")
    }
}

/// `6.00/s to 1,176/s (196x)`.
fn climb([low, high]: [f64; 2]) -> String {
    let times = three_digits(high / low.max(f64::MIN_POSITIVE));
    format!("{} to {} ({times}x)", rate(low), rate(high))
}

/// A ratio in three digits: more of them would say more than two short runs know.
pub(super) fn three_digits(ratio: f64) -> String {
    let digit = 10f64.powf(ratio.max(0.01).log10().floor() - 2.0);
    decimal((ratio / digit).round() * digit)
}
