//! Finding of a run in one sentence: what went wrong or set its pace, from the times that were
//! limited.

use super::failures::{
    causes, causes_in_words, causes_named, clause, cut_off_share, remedy, said, suspect,
};
use super::merged;
use super::outcome::shortfall;
use super::rows::{IDLE, ended_in_warmup, is_unsent, limits};
use super::stalls::{Stalls, notable, stalls};
use crate::run::report::{
    BinRow, BindingReport, GroupRow, IntervalRow, LimitWords, Report, ShardReport, Validity,
    Verdict, connections_in_words, is_full, longer, offered, thresholds, used_little,
};
use crate::show::text::{capital, counted, decimal, grouped, micros, rate_in_words, seconds};
use crawlmark_harness::plan::{Arrivals, Pacing};
use crawlmark_harness::stats::{AnswerBins, Counters, Series};
use crawlmark_harness::units::rounded_percent;

/// Part of the time that a limit held from which on it is named.
pub(super) const NOTABLE: f64 = 0.1;

/// Part of the requested rate from which on it is reached: the start of a run costs some of it.
const REACHED: f64 = 0.8;

/// Part of the requested rate from which on a slow client did not lower it.
const KEPT: f64 = 0.95;

/// Part of its time that a shard waited for a CPU, from which on it and not the target holds its
/// connections.
const STARVED: f64 = 0.3;

/// Part of its time that a shard used a CPU or waited for one, from which on it does as well.
const BUSY: f64 = 0.9;

/// Part of the requests that were throttled, from which on they are the finding.
const MOST: f64 = 0.5;

/// Part of the requests that were not found, from which on they are the finding: more than stray
/// links.
const NOT_FOUND: f64 = 0.1;

/// Time without a good answer that is no gap between two slow ones, in whole seconds.
const LEAST_GAP_S: u64 = 2;

/// Event that a reader must know first: it begins the title of a run, unless a threshold failed.
pub(super) struct RunEvent {
    pub(super) title: String,
    /// More on it, or its remedy.
    details: Option<String>,
    /// True if the target was down when the run ended.
    pub(super) is_down: bool,
    /// True if it explains a rate that was not reached.
    pub(super) is_cause: bool,
}

impl RunEvent {
    fn new(report: &Report, title: String) -> Self {
        Self {
            title,
            details: remedy(report).map(capital).or_else(|| said(report)),
            is_down: false,
            is_cause: true,
        }
    }

    fn with_details(title: String, details: String) -> Self {
        Self {
            title,
            details: Some(details),
            is_down: false,
            is_cause: true,
        }
    }
}

/// The event of a run; none of one that went on as it began, and of one that sent nothing.
pub(super) fn event(report: &Report) -> Option<RunEvent> {
    let candidates: [fn(&Report) -> Option<RunEvent>; 7] = [
        unmeasured,
        without_success,
        hosts_down,
        silence,
        stalled,
        throttled,
        failures,
    ];
    (!is_unsent(report))
        .then(|| {
            candidates
                .into_iter()
                .find_map(|candidate| candidate(report))
        })
        .flatten()
}

/// The finding in one sentence; empty where the title of the outcome says it.
pub(super) fn finding(report: &Report) -> String {
    let sentence = event(report).map_or_else(|| other(report), |event| event.details);
    sentence.map_or_else(String::new, |sentence| sentence + ".")
}

/// The finding of a run without an event. The pace does not explain a failed threshold, unless that
/// is one of a rate, or a part that is missing.
fn other(report: &Report) -> Option<String> {
    let candidates: [fn(&Report) -> Option<String>; 5] =
        [unsent, client, throttling, not_found, stalls];
    let found = candidates
        .into_iter()
        .find_map(|candidate| candidate(report));
    // The title has a limit that explains a shortfall.
    let is_said =
        shortfall(report).is_some() && limit(report).is_some_and(|(_, by)| by != "--rate");
    let is_whole = report.validity.verdict != Verdict::Incomplete;
    let failed: Vec<&str> = report
        .gates
        .iter()
        .filter(|gate| gate.ok == Some(false))
        .map(|gate| gate.unit.as_str())
        .collect();
    let is_pace_asked = !is_said && is_whole && (failed.is_empty() || failed.contains(&"per_s"));
    let kept_up = || {
        let network = if report.environment.colocated {
            ""
        } else {
            " or the network's"
        };
        let is_it = report.validity.verdict == Verdict::Valid && failed.contains(&"us");
        is_it.then(|| format!("This client kept up, so slow responses are the target's{network}"))
    };
    let sentence = found
        .or_else(|| is_pace_asked.then(|| pace(report)))
        .or_else(kept_up);
    sentence
        .into_iter()
        .chain(client_besides(report))
        .reduce(|first, besides| format!("{first}. {besides}"))
}

/// A run without a figure.
fn unsent(report: &Report) -> Option<String> {
    let skipped = report.ledger.skipped;
    is_unsent(report).then(|| match skipped {
        0 => "No request was sent, so there are no figures".to_owned(),
        _ => format!(
            "No request was sent: {} skipped because of robots.txt",
            counted(skipped, "item")
        ),
    })
}

/// A run of which nothing was measured.
fn unmeasured(report: &Report) -> Option<RunEvent> {
    let all = report.totals.attempts;
    let are_warm = || {
        (all > 0 && report.measured().requests.attempts == 0)
            .then_some("all requests were within the warm-up")
    };
    let why = ended_in_warmup(report).or_else(|| are_warm().map(str::to_owned))?;
    let title = format!("nothing was measured: {why}");
    Some(RunEvent {
        title,
        details: None,
        is_down: false,
        is_cause: true,
    })
}

/// A run in which nothing succeeded after its warm-up.
fn without_success(report: &Report) -> Option<RunEvent> {
    let Counters {
        items, requests, ..
    } = report.measured();
    let all = grouped(requests.attempts);
    let title = match (requests.attempts, items.ok, items.not_found) {
        (0, ..) => "no request got a connection".to_owned(),
        (attempts, 0, not_found) if not_found == attempts => {
            format!("none of {all} items was found (404 or 410)")
        }
        (attempts, 0, 0) if requests.throttled == attempts => {
            format!("all {all} requests were throttled")
        }
        (attempts, 0, 0) => match &causes(report)[..] {
            [_] if items.aborted == attempts => {
                return Some(RunEvent::with_details(
                    format!("none of {all} requests had a response before the end"),
                    "Give them longer with --grace".to_owned(),
                ));
            }
            [(cause, n)] if *n == attempts => {
                format!("all {all} requests failed: {cause}{}", suspect(report))
            }
            _ => {
                let throttled = (requests.throttled > 0)
                    .then(|| format!("{} throttled", grouped(requests.throttled)));
                let causes: Vec<String> = [causes_in_words(report), throttled]
                    .into_iter()
                    .flatten()
                    .collect();
                format!(
                    "none of {all} requests succeeded: {}{}",
                    causes.join(", "),
                    suspect(report)
                )
            }
        },
        _ => return None,
    };
    Some(RunEvent::new(report, title))
}

/// Some of several hosts gave no good response while the others failed no request.
pub(super) fn hosts_down(report: &Report) -> Option<RunEvent> {
    let is_down = |row: &&GroupRow| row.errors > 0 && row.ok + row.not_found + row.throttled == 0;
    let down: Vec<&GroupRow> = report.by_host.iter().filter(is_down).collect();
    let failed: u64 = down.iter().map(|row| row.errors).sum();
    let others_failed = report.by_host.iter().map(|row| row.errors).sum::<u64>() - failed;
    // Those of a row for many hosts may not all be down.
    let are_named = down.iter().all(|row| row.name.is_some());
    if down.is_empty() || !are_named || others_failed > 0 || clause(report).is_none() {
        return None;
    }
    let hosts = match &down[..] {
        [
            GroupRow {
                name: Some(host), ..
            },
        ] => host.clone(),
        several => format!(
            "{} of {}",
            several.len(),
            counted(report.plan.run.per_host.hosts.into(), "host")
        ),
    };
    let causes = causes_named(report).map_or_else(String::new, |causes| format!(": {causes}"));
    Some(RunEvent::new(
        report,
        format!(
            "all {} to {hosts} failed{causes}",
            counted(failed, "request")
        ),
    ))
}

/// A target that stalled for a notable part of the time.
fn stalled(report: &Report) -> Option<RunEvent> {
    let stalls = Stalls::of(report);
    let title = stalls.title(report).filter(|_| stalls.is_notable())?;
    Some(RunEvent::with_details(title, capital(&notable(report)?)))
}

/// A target that gave no good answer for some time after the warm-up, although requests failed or
/// waited for one. Not one that stalls again and again.
fn silence(report: &Report) -> Option<RunEvent> {
    let is_bad = |row: &IntervalRow| {
        row.failed > 0 || row.scheduled_failed.unwrap_or(0) > 0 || row.aborted > 0
    };
    let is_asked_to_wait =
        |row: &IntervalRow| row.binding.pause + row.binding.target >= thresholds::PAUSED;
    // When nothing is due any more, only the last answers are missing.
    let is_over = |row: &IntervalRow| {
        report
            .plan
            .run
            .duration
            .is_some_and(|duration| row.is_after(duration))
    };
    let seconds_of: Vec<(&IntervalRow, bool)> = report
        .intervals
        .iter()
        .zip(IntervalRow::answered(&report.intervals))
        .collect();
    let (measured, later) =
        seconds_of.split_at(seconds_of.partition_point(|(row, _)| !is_over(row)));
    let measured =
        &measured[measured.partition_point(|(row, _)| !row.is_after(report.plan.run.warmup))..];
    let gaps = measured.chunk_by(|(_, a), (_, b)| a == b).filter(|rows| {
        let is_answered = rows.first().is_some_and(|(_, is_answered)| *is_answered);
        // What waits until the end is cut off after it.
        let is_last = measured
            .last()
            .zip(rows.last())
            .is_some_and(|((a, _), (b, _))| a.start_s == b.start_s);
        let later = later.iter().filter(|_| is_last).map(|(row, _)| *row);
        let rows = || rows.iter().map(|(row, _)| *row);
        !is_answered && rows().chain(later).any(is_bad) && !rows().any(is_asked_to_wait)
    });
    let longest = gaps.max_by_key(|rows| rows.len())?;
    let (first, last) = (longest.first()?.0.start_s, longest.last()?.0.start_s + 1);
    if last - first < LEAST_GAP_S || first == 0 {
        return None;
    }
    if Stalls::of(report).are_repeated() {
        return None;
    }
    let causes = causes_in_words(report).map_or_else(String::new, |causes| {
        format!(" ({causes}{})", suspect(report))
    });
    let is_last =
        measured.last()?.0.start_s < last && !later.iter().any(|(_, is_answered)| *is_answered);
    if !is_last {
        return Some(RunEvent::new(
            report,
            format!("no good response from {first} s to {last} s{causes}"),
        ));
    }
    // The first failure may have been a part of a second before, and good responses may have come
    // after it.
    let failed_s = report
        .failures
        .values()
        .map(|seen| seen.first_s)
        .fold(f64::INFINITY, f64::min);
    let partly = measured
        .iter()
        .map(|(row, _)| *row)
        .find(|row| row.start_s + 1 == first);
    let is_near = (first as f64 - 1.0..first as f64).contains(&failed_s);
    let from_s = partly
        .filter(|_| is_near)
        .map_or(first as f64, |row| failed_s.max(last_good_s(row)));
    let title = format!("no good response from {} on{causes}", seconds(from_s));
    let before = || {
        measured
            .iter()
            .map(|(row, _)| *row)
            .filter(|row| row.start_s + 1 < first)
    };
    let good: u64 = before().map(|row| row.ok + row.not_found).sum();
    let until = match before().count() {
        0 => None,
        count => Some(format!(
            "Until {}, {}/s were good",
            seconds(from_s),
            decimal(good as f64 / count as f64)
        )),
    };
    // A target that responded has been found.
    let advice = if good > 0 {
        Some("Check whether the target still runs, and its log")
    } else {
        remedy(report)
    };
    let details = until
        .into_iter()
        .chain(advice.map(capital))
        .collect::<Vec<_>>()
        .join(". ");
    Some(RunEvent {
        title,
        details: Some(details).filter(|text| !text.is_empty()),
        is_down: true,
        is_cause: true,
    })
}

/// Return a time in a second after which no good response came in it: the end of its last bin with
/// one, s since the start.
fn last_good_s(row: &IntervalRow) -> f64 {
    let end_s = |last: Option<usize>, count: usize| {
        last.map_or(0.0, |last| (last + 1) as f64 / count as f64)
    };
    let answered = row.answers_in_bins().map(Iterator::collect::<Vec<_>>);
    let answered_s = answered.map(|bins| {
        end_s(
            bins.iter().rposition(|answers| *answers > 0),
            AnswerBins::COUNT,
        )
    });
    let is_good = |bin: &BinRow| bin.counts.ok + bin.counts.not_found > 0;
    let good_s = row
        .bins
        .as_ref()
        .map(|bins| end_s(bins.iter().rposition(is_good), bins.len()));
    row.start_s as f64 + answered_s.into_iter().chain(good_s).fold(1.0, f64::min)
}

fn failures(report: &Report) -> Option<RunEvent> {
    let clause = clause(report)?;
    if cut_off_share(report).is_some() {
        let counted = report.measured();
        let answered_per_s = report.totals.attempts_per_s;
        let sent_per_s =
            answered_per_s * counted.requests.attempts as f64 / counted.completed().max(1) as f64;
        let details = format!(
            "The target answered {}/s of the {}/s that were sent. {}",
            decimal(answered_per_s),
            decimal(sent_per_s),
            longer(&report.plan.run)
        );
        return Some(RunEvent::with_details(clause, details));
    }
    let causes = causes_in_words(report).map_or_else(String::new, |causes| {
        format!(": {causes}{}", suspect(report))
    });
    Some(RunEvent {
        is_cause: false,
        ..RunEvent::new(report, format!("{clause}{causes}"))
    })
}

/// True if this client was too slow, also on a machine that was disturbed besides.
pub(super) fn is_client_slow(report: &Report) -> bool {
    let Validity {
        verdict, verdicts, ..
    } = &report.validity;
    *verdict == Verdict::ClientLimited
        || *verdict == Verdict::Disturbed && verdicts.contains(&Verdict::ClientLimited)
}

/// Consequence of a client that set the pace, or kept it although it was slow; the title has its
/// [cause](client_fault).
fn client(report: &Report) -> Option<String> {
    if is_client_slow(report) && is_kept(report) {
        return Some("Times include delays of this client".to_owned());
    }
    is_bottleneck(report).then(|| match shortfall(report) {
        None => format!("{}: this client was the bottleneck", rate(report)),
        // The title names this client.
        Some(short) if short.contains("this client") => {
            "The target may be faster than shown".to_owned()
        }
        Some(_) => format!("This client was the bottleneck ({})", client_fault(report)),
    })
}

/// Note on a client that was slow beside another limit that set the pace.
fn client_besides(report: &Report) -> Option<String> {
    if !is_client_slow(report) || client(report).is_some() || is_unsent(report) {
        return None;
    }
    // A title with a shortfall does not have the cause.
    let fault =
        shortfall(report).map_or_else(String::new, |_| format!(" ({})", client_fault(report)));
    Some(format!(
        "This client was slow, too{fault}: times include its delays"
    ))
}

/// True if this client was slow and set the pace: it had no CPU left, or responses lay unread for a
/// notable part of their time, or no limit explains why a rate was not kept.
pub(super) fn is_bottleneck(report: &Report) -> bool {
    let is_spinning = report.plan.run.pacing == Pacing::Spin;
    let is_busy = || {
        worst(report, &|shard| shard.usage.cpu_share, thresholds::CPU_USE).is_some() && !is_spinning
    };
    let median = |series: Series| report.latency(series)?.p50_us;
    let is_late = || {
        let times = median(Series::ReceiveDelay).zip(median(Series::ServiceOk));
        times.is_some_and(|(delay_us, service_us)| delay_us >= service_us * NOTABLE)
    };
    let is_pace_of_client = || is_busy() || starved(report).is_some() || is_late();
    is_client_slow(report)
        && match limit(report) {
            Some((_, "the target's quota" | "throttle pauses")) => false,
            Some((_, "storing results")) => true,
            Some((_, "--rate")) | None if requested(report).is_some() => !is_kept(report),
            _ => is_pace_of_client(),
        }
}

/// Describe the shard that was paused for longest: `shard 1 did not run for 300 ms`; none if none
/// was for a notable time.
pub(super) fn paused_shard(report: &Report) -> Option<String> {
    let paused = |shard: &ShardReport| shard.latency.get(Series::LoopLag.name())?.max_us;
    let (us, shard) = worst(report, &paused, thresholds::FREEZE_US)?;
    Some(format!("shard {shard} did not run for {}", micros(us)))
}

/// Return the largest reading of a shard and its number, if that is at least `least`.
fn worst(
    report: &Report,
    of: &dyn Fn(&ShardReport) -> Option<f64>,
    least: f64,
) -> Option<(f64, u32)> {
    // Parts of a crawl are judged where they ran.
    let shards = report.shards.iter().filter(|_| report.merged.is_none());
    let known = shards.filter_map(|shard| Some((of(shard)?, shard.shard)));
    known
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(most, _)| *most >= least)
}

/// Describe what slowed this client: `shard 1 used 99 % of a CPU`.
pub(super) fn client_fault(report: &Report) -> String {
    let worst = |of: &dyn Fn(&ShardReport) -> Option<f64>, least: f64| worst(report, of, least);
    let late = |shard: &ShardReport| shard.latency.get(Series::SchedLag.name())?.p99_us;
    if let Some((part, shard)) = worst(&|shard| shard.usage.cpu_share, thresholds::CPU_USE) {
        format!("shard {shard} used {} of a CPU", rounded_percent(part))
    } else if let Some((part, shard)) =
        worst(&|shard| shard.usage.run_delay_share, thresholds::RUN_DELAY)
    {
        format!(
            "shard {shard} waited for a CPU {} of the time",
            rounded_percent(part)
        )
    } else if let Some(paused) = paused_shard(report) {
        paused
    } else if let Some((us, shard)) = worst(&late, thresholds::SCHED_LAG_US) {
        format!(
            "shard {shard} sent 1 % of its requests at least {} late",
            micros(us)
        )
    } else {
        "see Validity".to_owned()
    }
}

/// Describe the shard that was shortest of CPU, where that explains why connections were in use.
pub(super) fn starved(report: &Report) -> Option<String> {
    let is_ours = report.merged.is_none() && !used_little(&report.shards, report.environment.cores);
    let shards = report.shards.iter().filter(|_| is_ours);
    let needs = shards.filter_map(|shard| {
        let (used, waited) = (
            shard.usage.cpu_share.unwrap_or(0.0),
            shard.usage.run_delay_share?,
        );
        (waited >= STARVED || used + waited >= BUSY).then_some((used, waited, shard.shard))
    });
    let (used, waited, shard) = needs.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)))?;
    let [used, waited] = [used, waited].map(rounded_percent);
    Some(format!(
        "this client was short of CPU (shard {shard} used a CPU {used} of the time and waited for one {waited})"
    ))
}

/// True if the requested rate was kept.
fn is_kept(report: &Report) -> bool {
    requested(report).is_some_and(|rate| achieved_per_s(report) >= rate.per_s * KEPT)
}

/// True if a rate was requested and not reached, by the requests that were not throttled.
pub(super) fn is_rate_missed(report: &Report) -> bool {
    let throttled = share_of(report, report.measured().requests.throttled).unwrap_or(0.0);
    requested(report)
        .is_some_and(|rate| achieved_per_s(report) * (1.0 - throttled) < rate.per_s * REACHED)
}

/// Return the rate to compare with the requested one: of one that changes, the mean.
fn achieved_per_s(report: &Report) -> f64 {
    let is_steady = report.plan.run.steady_rate().is_some();
    if is_steady {
        report.achieved_per_s()
    } else {
        report.totals.attempts_per_s
    }
}

/// A target that throttled most requests.
fn throttled(report: &Report) -> Option<RunEvent> {
    let throttled =
        share_of(report, report.measured().requests.throttled).filter(|share| *share >= MOST)?;
    let title = format!("{} of requests were throttled", rounded_percent(throttled));
    Some(RunEvent {
        title,
        details: Some(allowed(report)),
        is_down: false,
        is_cause: false,
    })
}

fn throttling(report: &Report) -> Option<String> {
    let named = limits(&report.binding, LimitWords::of(report));
    let of_target = || {
        named
            .iter()
            .filter(|(_, by)| ["the target's quota", "throttle pauses"].contains(by))
    };
    let is_target_s = of_target().map(|(part, _)| part).sum::<f64>() >= NOTABLE;
    let (part, by) = *of_target().next()?;
    let is_told = shortfall(report).is_some() && named[0].1 == by;
    let limited = || {
        if is_told {
            String::new()
        } else {
            limited(report, by, part) + ". "
        }
    };
    is_target_s.then(|| limited() + &allowed(report))
}

/// Advice on a target that throttles. The rate of good responses is no limit of it: an initial
/// burst raises that, and pauses lower it. Only the rate that `--adaptive` learnt is one.
fn allowed(report: &Report) -> String {
    let flag = report.plan.run.pace_flag();
    let set = flag.map_or_else(|| "Set a --rate".to_owned(), |flag| format!("Lower {flag}"));
    match (
        report.throttling.learnt_per_s,
        report.plan.run.throttling.adaptive,
    ) {
        (Some(pace), _) => format!("{set} (the target takes about {}/s)", decimal(pace)),
        (None, None) if matches!(flag, None | Some("--rate")) => {
            set + ", or use --adaptive, which finds the rate"
        }
        (None, _) => set,
    }
}

/// A target that does not have much of what it was asked for.
fn not_found(report: &Report) -> Option<String> {
    let share =
        share_of(report, report.measured().items.not_found).filter(|share| *share >= NOT_FOUND)?;
    Some(format!(
        "{}: {} of requests were not found (404 or 410)",
        rate(report),
        rounded_percent(share)
    ))
}

/// A part of the requests after the warm-up; none without a request.
fn share_of(report: &Report, n: u64) -> Option<f64> {
    let attempts = report.measured().requests.attempts;
    (attempts > 0).then(|| n as f64 / attempts as f64)
}

/// The limit that held longest, for a notable part of the time, with that part. A rate that was not
/// reached limited nothing, and neither did connections that were never all in use.
pub(super) fn limit(report: &Report) -> Option<(f64, &'static str)> {
    let is_reached = |by: &str| match by {
        "--rate" => requested(report)
            .is_none_or(|rate| report.totals.attempts_per_s >= rate.per_s * REACHED),
        "connections" => are_connections_used(report),
        _ => true,
    };
    limits(&report.binding, LimitWords::of(report))
        .into_iter()
        .find(|(part, by)| *part >= NOTABLE && is_reached(by))
        .filter(|(_, by)| *by != IDLE)
}

/// True if a shard had all of its connections in use at once.
fn are_connections_used(report: &Report) -> bool {
    report
        .shards
        .iter()
        .any(|shard| is_full(&report.plan.run, shard))
}

/// Describe the pace of a run without another finding.
fn pace(report: &Report) -> String {
    let BindingReport {
        concurrency, idle, ..
    } = report.binding;
    let connections = || connections_in_words(&report.plan.run);
    match limit(report) {
        // The number of connections is the load: whether more of them bring more, one run cannot
        // know.
        Some((part, "connections")) => held(report, &format!("all {} in use", connections()), part),
        Some((_, "--rate")) if is_kept(report) => format!("{} requested", rate(report)),
        Some((part, by)) => limited(report, by, part),
        None if report.binding == BindingReport::default() => format!("{} good", rate(report)),
        None if idle >= NOTABLE => {
            format!(
                "{} good: nothing was left to send for {} of the time",
                rate(report),
                rounded_percent(idle)
            )
        }
        None if concurrency >= NOTABLE => {
            let peak = grouped(report.totals.peak_in_flight);
            format!(
                "{} good: at most {peak} of the {} were in use",
                rate(report),
                connections()
            )
        }
        None => {
            let unexplained =
                || "no limit explains it; see the errors, and the times to connect".to_owned();
            format!(
                "{}: {}",
                rate(report),
                merged::idle_slots(report).unwrap_or_else(unexplained)
            )
        }
    }
}

fn limited(report: &Report, by: &str, part: f64) -> String {
    held(report, &format!("limited by {by}"), part)
}

/// The rate, with what held for a part of the time.
fn held(report: &Report, what: &str, part: f64) -> String {
    let held = format!(
        "{}: {what} {} of {}",
        rate(report),
        rounded_percent(part),
        merged::time(report)
    );
    merged::idle_slots(report)
        .into_iter()
        .fold(held, |held, idle| format!("{held}; {idle}"))
}

/// The rate of good responses, and the rate that was asked for.
fn rate(report: &Report) -> String {
    let asked = requested(report).map_or_else(String::new, |rate| format!(" of {}", rate.words));
    format!(
        "{}/s{asked}",
        decimal(report.totals.good_per_s(&report.ledger))
    )
}

/// A requested rate.
pub(super) struct RequestedRate {
    /// Requests per second; of a rate that changes, the mean over the measured time.
    pub(super) per_s: f64,
    /// The rate with its unit, and as it was typed.
    pub(super) words: String,
}

/// The requested rate; none of a run without one, or of a recording.
pub(super) fn requested(report: &Report) -> Option<RequestedRate> {
    let plan = &report.plan.run;
    let rate = plan
        .shaped_rate()
        .filter(|_| plan.arrivals != Arrivals::Replay)?;
    let typed = rate_in_words(&rate.to_string());
    if let Some(per_s) = plan.steady_rate() {
        let words = if typed.ends_with("/s") {
            typed
        } else {
            format!("{}/s ({typed})", decimal(per_s))
        };
        return Some(RequestedRate { per_s, words });
    }
    let planned_s = plan
        .duration
        .map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let (from_s, to_s) = (
        plan.warmup.as_secs_f64(),
        report.totals.duration_s.min(planned_s),
    );
    let per_s = Some(offered(plan, from_s, to_s) / (to_s - from_s)).filter(|_| to_s > from_s)?;
    Some(RequestedRate {
        per_s,
        words: format!("{}/s (mean of {typed})", decimal(per_s)),
    })
}
