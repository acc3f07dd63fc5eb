//! Sums: shards, seconds and states add up to the whole.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{at_most, counts_until_the_end, equal, is_whole};
use crate::run::report::{IntervalRow, Ledger, Report, ShardReport, Totals, Verdict};
use crawlmark_harness::stats::{ItemCounts, RequestCounts, SecondCounts};
use crawlmark_harness::units::IdRange;

pub(super) fn check(report: &Report) -> Result<(), String> {
    let Report { plan, shards, totals, ledger, .. } = report;
    equal("plan.shards", plan.run.shards as usize, "the length of shards[]", shards.len())?;
    let connections = shards.iter().map(|shard| u64::from(shard.connections)).sum();
    equal("plan.connections", u64::from(plan.run.connections), "the sum of shards[].connections", connections)?;
    let peaks = shards.iter().map(|shard| shard.totals.peak_in_flight).fold(0, u64::saturating_add);
    // Parts of a merged crawl run one after another, too.
    let peak = if report.merged.is_some() { peaks.min(plan.run.in_flight().into()) } else { peaks };
    equal(
        "totals.peak_in_flight",
        totals.peak_in_flight,
        "the sum of shards[].totals.peak_in_flight, within the limit",
        peak,
    )?;
    let added = Totals { peak_in_flight: peaks, ..totals.clone() };
    sum("totals", &added, shards.iter().map(|shard| &shard.totals))?;
    sum("ledger", ledger, shards.iter().map(|shard| &shard.ledger))?;
    let left = plan.run.ids.len().saturating_sub(report.finished_before.unwrap_or(0));
    equal("ledger.planned", ledger.planned, "the number of IDs in plan.ids, less finished_before", left)?;
    // The spans of shards of a resumed run hold finished IDs.
    let spans = disjoint("shards[].id_range", shards.iter().map(|shard| shard.id_range).collect(), plan.run.ids)?;
    at_most("ledger.planned", left, "the number of IDs in shards[].id_range", spans)?;
    let held = disjoint("shards[].held", shards.iter().flat_map(|shard| shard.held.clone()).collect(), plan.run.ids)?;
    equal("shards[].held", held, "(the number of its IDs) ledger.planned", left)?;
    // Of a process that died, items are counted by what is saved, and requests by what it had reported.
    let counts_all = |shard: &ShardReport| !shard.was_replaced() && (shard.fault.is_none() || report.saved.is_none());
    for (i, shard) in shards.iter().enumerate() {
        equal(format_args!("shards[{i}].shard"), shard.shard as usize, "its place in the list", i)?;
        let held = shard.held.iter().map(IdRange::len).sum();
        equal(
            format_args!("shards[{i}].ledger.planned"),
            shard.ledger.planned,
            "the number of IDs in its `held`",
            held,
        )?;
        states(report, format_args!("shards[{i}]."), &shard.ledger)?;
        if counts_all(shard) {
            outcomes(format_args!("shards[{i}]."), &shard.totals, &shard.ledger, shard.fault.is_none())?;
        }
    }
    states(report, format_args!(""), ledger)?;
    if shards.iter().all(counts_all) {
        outcomes(format_args!(""), totals, ledger, is_whole(report))?;
    }
    let moved = report.moved;
    if moved.ranges == 0 {
        equal("moved.ids", moved.ids, "moved.ranges", 0)?;
    }
    saved(report)?;
    seconds(report)?;
    courses(report)
}

/// The sessions of a saved crawl add up, and the last one saved what this run finished.
fn saved(report: &Report) -> Result<(), String> {
    let Some(saved) = &report.saved else { return Ok(()) };
    let sum = saved.sessions.iter().fold(0_u64, |sum, session| sum.saturating_add(session.items));
    equal("saved.saved", saved.saved, "the sum of saved.sessions[].items", sum)?;
    at_most("saved.saved", saved.saved, "saved.items", saved.items)?;
    // The checkpoint of a shard with a fault may be damaged: its items are then those that it reported.
    let is_certain = report.storage_failure.is_none() && report.shards.iter().all(|shard| shard.fault.is_none());
    if let Some(last) = saved.sessions.last().filter(|_| is_certain) {
        let ItemCounts { ok, not_found, failed, gave_up, skipped, .. } = report.ledger.items;
        let ended = [ok, not_found, failed, gave_up, skipped].into_iter().fold(0, u64::saturating_add);
        equal("saved.sessions[last].items", last.items, "the items that ended", ended)?;
    }
    Ok(())
}

/// Every whole number of `whole` is the sum of those of its parts.
fn sum<'a, T: Serialize + 'a>(name: &str, whole: &T, parts: impl Iterator<Item = &'a T>) -> Result<(), String> {
    let (mut sums, mut is) = (BTreeMap::new(), BTreeMap::new());
    parts.for_each(|part| add_leaves(name, part, &mut sums));
    add_leaves(name, whole, &mut is);
    // A status that only one side knows is 0 on the other.
    sums.keys().chain(is.keys()).try_for_each(|field| {
        let of = |map: &BTreeMap<String, u64>| map.get(field).copied().unwrap_or_default();
        equal(field, of(&is), &format!("the sum of shards[].{field}"), of(&sums))
    })
}

fn add_leaves(name: &str, value: &impl Serialize, sums: &mut BTreeMap<String, u64>) {
    fn walk(path: String, value: &Value, sums: &mut BTreeMap<String, u64>) {
        if let Some(count) = value.as_u64() {
            let sum = sums.entry(path).or_default();
            *sum = sum.saturating_add(count);
        } else {
            for (name, inner) in value.as_object().into_iter().flatten() {
                walk(format!("{path}.{name}"), inner, sums);
            }
        }
    }
    walk(name.to_owned(), &serde_json::to_value(value).unwrap_or_default(), sums);
}

/// Returns the number of IDs in ranges that lie within the whole, none of them in two.
fn disjoint(field: &str, mut ranges: Vec<IdRange>, whole: IdRange) -> Result<u64, String> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut end = whole.start;
    for IdRange { start, end: next } in &ranges {
        if *start < end {
            return Err(format!(
                "`{field}.start` is {start}, less than {end}, where plan.ids starts or another range ends"
            ));
        }
        end = *next;
    }
    at_most(format_args!("{field}.end"), end, "plan.ids.end", whole.end)?;
    Ok(ranges.iter().map(IdRange::len).sum())
}

/// Every item is in one state. A run that found that its items do not add up says that it is incomplete.
fn states(report: &Report, place: std::fmt::Arguments<'_>, ledger: &Ledger) -> Result<(), String> {
    if report.validity.verdict == Verdict::Incomplete {
        return Ok(());
    }
    let states = ledger.dealt().saturating_add(ledger.not_attempted).saturating_add(ledger.lost);
    equal(format_args!("{place}ledger.planned"), ledger.planned, "the sum of the states", states)
}

/// Each attempt came to one outcome, and each item has one first attempt.
fn outcomes(place: std::fmt::Arguments<'_>, totals: &Totals, ledger: &Ledger, told: bool) -> Result<(), String> {
    let field = |name: &str| format!("{place}{name}");
    let RequestCounts { attempts, retries, throttled, soft_blocked, redirects, .. } = totals.requests;
    let ItemCounts { ok, not_found, failed, gave_up, aborted, unfinished, skipped: _ } = ledger.items;
    at_most(field("totals.retries"), retries, "totals.attempts", attempts)?;
    let first = attempts - retries;
    if told {
        equal(field("totals.attempts"), first, "(less retries) the number of items that were begun", ledger.begun())?;
    } else {
        at_most(field("ledger"), ledger.begun(), "first attempts", first)?;
    }
    at_most(field("totals.ok_at_first"), totals.ok_at_first, "ledger.ok", ok)?;
    at_most(field("totals.attempts_sent"), totals.attempts_sent, "totals.attempts", attempts)?;
    at_most(field("ledger.gave_up"), gave_up, "totals.throttled", throttled)?;
    let errors: u64 = totals.errors_by_kind.values().sum();
    let told_apart = ok + not_found + throttled + soft_blocked + redirects + errors + aborted;
    at_most(field("totals"), told_apart, "(outcomes) totals.attempts", attempts)?;
    let answers: u64 = totals.attempts_by_status.values().sum();
    at_most(field("totals.attempts_by_status"), answers, "totals.attempts less ledger.aborted", attempts - aborted)?;
    at_most(field("ledger.failed"), failed, "attempts that failed", totals.failed(ledger))?;
    if told && retries == 0 && unfinished == 0 {
        equal(field("totals.throttled"), throttled, "ledger.gave_up, without retries,", gave_up)?;
        equal(field("ledger.failed"), failed, "attempts that failed, without retries,", totals.failed(ledger))?;
    }
    Ok(())
}

/// The seconds are in order and add up to the run.
fn seconds(report: &Report) -> Result<(), String> {
    let Report { intervals: rows, totals, ledger, .. } = report;
    for (i, two) in rows.windows(2).enumerate() {
        if let [before, row] = two
            && row.start_s <= before.start_s
        {
            let (field, is, last) = (format!("intervals[{}].start_s", i + 1), row.start_s, before.start_s);
            return Err(format!("`{field}` is {is}, but the second before it is {last}"));
        }
    }
    if !is_whole(report) {
        return Ok(());
    }
    let mut sum = SecondCounts::default();
    for (i, row) in rows.iter().enumerate() {
        sum.merge(&row.counts);
        bins(i, row)?;
    }
    for ((counter, sum), (_, whole)) in sum.iter().zip(SecondCounts::of(ledger, totals).iter()) {
        let name = counter.name;
        equal(format_args!("intervals[].{name}"), sum, "(the sum) that of the whole run", whole)?;
    }
    for (i, row) in rows.iter().enumerate() {
        let (good, bad) = (row.ok + row.not_found, row.failed + row.aborted);
        at_most(format_args!("intervals[{i}]"), good + bad, "(the sum of its states) its items", row.items)?;
        at_most(
            format_args!("intervals[{i}].in_flight"),
            u64::from(row.in_flight),
            "totals.peak_in_flight",
            totals.peak_in_flight,
        )?;
    }
    if counts_until_the_end(report) {
        let scheduled = rows.iter().filter_map(|row| row.scheduled).sum();
        equal(
            "intervals[].scheduled",
            scheduled,
            "(the sum) attempts and dropped requests",
            totals.attempts + totals.dropped,
        )?;
        let good = rows.iter().filter_map(|row| row.scheduled_good).sum();
        equal("intervals[].scheduled_good", good, "(the sum) good and not-found items", ledger.ok + ledger.not_found)?;
        for (i, row) in rows.iter().enumerate() {
            let known = row.scheduled_good.unwrap_or_default() + row.scheduled_failed.unwrap_or_default();
            let most = row.scheduled.unwrap_or_default();
            at_most(format_args!("intervals[{i}].scheduled_good"), known, "(with scheduled_failed) scheduled", most)?;
        }
    }
    Ok(())
}

/// The bins of a second add up to it, and its slowest time is that of one of them.
fn bins(i: usize, row: &IntervalRow) -> Result<(), String> {
    let Some(bins) = &row.bins else { return Ok(()) };
    let sum = bins.iter().fold(SecondCounts::default(), |sum, bin| sum.plus(&bin.counts));
    for ((counter, sum), (_, whole)) in sum.iter().zip(row.counts.iter()) {
        let field = format_args!("intervals[{i}].bins.{}", counter.name);
        equal(field, sum, "(the sum) that of its second", whole)?;
    }
    let errors = |counts: &SecondCounts| counts.errors_by_kind.values().sum::<u64>();
    equal(
        format_args!("intervals[{i}].bins.errors_by_kind"),
        errors(&sum),
        "(the sum) that of its second",
        errors(row),
    )?;
    let greatest = bins.iter().filter_map(|bin| bin.max_us).fold(0.0, f64::max);
    let whole = row.max_us.unwrap_or_default();
    super::close(format_args!("intervals[{i}].bins.max_us"), greatest, "(the greatest) that of its second", whole)
}

/// The columns of each shard add up to the shard, and all shards' steps to the seconds of the run.
fn courses(report: &Report) -> Result<(), String> {
    let told = || report.shards.iter().enumerate().filter(|(_, shard)| shard.course.step_s > 0);
    let Some(last) = report.intervals.last() else { return Ok(()) };
    for (i, shard) in told() {
        let ShardReport { course, totals, .. } = shard;
        let steps = (last.start_s + 1).div_ceil(course.step_s);
        let lengths = [course.attempts.len(), course.max_sched_lag_us.len(), course.cpu_us.len()];
        for length in lengths {
            let field = format!("shards[{i}].course");
            equal(field, length as u64, "(its length) the number of steps in intervals[]", steps)?;
        }
        if shard.is_whole() {
            let sum = course.attempts.iter().flatten().sum();
            equal(format_args!("shards[{i}].course.attempts"), sum, "(the sum) totals.attempts", totals.attempts)?;
        }
    }
    if !is_whole(report) {
        return Ok(());
    }
    let Some((_, first)) = told().next() else { return Ok(()) };
    let step_s = first.course.step_s;
    let length = first.course.cpu_us.len();
    let mut of_run = vec![(0, 0, 0.0_f64); length];
    for row in &report.intervals {
        let at = usize::try_from(row.start_s / step_s).unwrap_or(usize::MAX);
        if let Some((attempts, cpu_us, lag_us)) = of_run.get_mut(at) {
            *attempts += row.attempts;
            *cpu_us += row.cpu_us;
            *lag_us = lag_us.max(row.max_sched_lag_us);
        }
    }
    for (at, (attempts, cpu_us, lag_us)) in of_run.into_iter().enumerate() {
        let cells = || told().map(|(_, shard)| &shard.course);
        let of = |column: fn(&crate::run::report::Course) -> &[Option<u64>]| -> u64 {
            cells().filter_map(|course| column(course).get(at).copied().flatten()).sum()
        };
        let place = |name: &str| format!("shards[].course.{name}[{at}]");
        equal(place("attempts"), of(|course| &course.attempts), "(the sum) that of intervals[]", attempts)?;
        equal(place("cpu_us"), of(|course| &course.cpu_us), "(the sum) that of intervals[]", cpu_us)?;
        let lag = cells().filter_map(|course| course.max_sched_lag_us.get(at).copied().flatten()).fold(0.0, f64::max);
        super::close(place("max_sched_lag_us"), lag, "(the greatest) that of intervals[]", lag_us)?;
    }
    Ok(())
}
