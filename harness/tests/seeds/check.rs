//! The laws of a run, whatever happens in it.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::FailureCause;
use crawlmark_harness::supervisor::{RunRecord, ShardFault, ShardRecord};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::wire::{SLOT, Scope};

use crate::world::{ENDLESS, Ran, World, counts};

/// Fails with the first law that a run breaks.
pub(crate) fn check(world: &World, ran: &Ran) -> Result<(), String> {
    let record = &ran.rehearsal.record;
    ends(record)?;
    each_id_is_of_one_shard(world, record)?;
    record.shards.iter().try_for_each(is_understood)?;
    record.shards.iter().try_for_each(ledger_adds_up)?;
    record.shards.iter().try_for_each(each_failure_has_a_time)?;
    counts_agree(world, ran)?;
    each_item_is_committed_once(world, ran)?;
    let mut sent: Vec<u64> = ran.sent.iter().map(|sent| sent.at).collect();
    sent.sort_unstable();
    budget_is_kept(world, &sent)?;
    windows_are_those_of_the_target(record, &sent)?;
    pauses_are_kept(world, ran)?;
    ran.watched.clone()?;
    seconds_add_up(ran)
}

fn law(holds: bool, broken: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(broken()) }
}

fn ends(record: &RunRecord) -> Result<(), String> {
    let ended = record.finished_at.duration_since(SystemTime::UNIX_EPOCH);
    let lasted: Duration = ended.unwrap_or_default();
    law(lasted < ENDLESS, || {
        format!("did not end by itself: {lasted:?}")
    })
}

fn each_id_is_of_one_shard(world: &World, record: &RunRecord) -> Result<(), String> {
    let mut held: Vec<IdRange> = record.shards.iter().flat_map(|it| it.ids.clone()).collect();
    held.retain(|range| !range.is_empty());
    held.sort_unstable_by_key(|range| range.start);
    let is_once = held.is_sorted_by(|a, b| a.end <= b.start);
    law(is_once, || format!("IDs are held twice: {held:?}"))?;
    let items: u64 = held.iter().map(IdRange::len).sum();
    law(items == world.plan.items(), || {
        format!("{items} IDs are held, not {}", world.plan.items())
    })
}

fn is_understood(shard: &ShardRecord) -> Result<(), String> {
    let past = shard.past.iter().map(|life| &life.fault);
    let junk = past
        .chain(&shard.fault)
        .find(|fault| matches!(fault, ShardFault::Junk(_)));
    let number = shard.plan.shard;
    law(junk.is_none(), || format!("shard {number}: {junk:?}"))
}

fn ledger_adds_up(shard: &ShardRecord) -> Result<(), String> {
    let held: u64 = shard.ids.iter().map(IdRange::len).sum();
    let dealt = shard.stats.counters.items.dealt();
    let (number, remaining) = (shard.plan.shard, shard.remaining);
    let sum = dealt + remaining;
    let holds = match &shard.fault {
        None => sum == held,
        // The rest is lost.
        Some(_) => sum <= held,
    };
    law(holds, || {
        let (fault, exit) = (&shard.fault, shard.exit);
        format!(
            "shard {number} ({fault:?}, {exit:?}) holds {held} IDs: {dealt} dealt, {remaining} \
             remaining: {:?}",
            shard.stats.counters.items
        )
    })
}

fn each_failure_has_a_time(shard: &ShardRecord) -> Result<(), String> {
    let cause = |kind: &&ErrorKind| FailureCause::Error(**kind);
    let mut kinds = shard.stats.counters.requests.errors_by_kind.keys();
    let untimed = kinds.find(|kind| shard.failures.get(cause(kind)).is_none());
    law(untimed.is_none(), || {
        format!("it is not known when {untimed:?} failed")
    })
}

/// True if no process was lost.
fn is_whole(record: &RunRecord) -> bool {
    let whole = |shard: &ShardRecord| shard.fault.is_none() && shard.past.is_empty();
    record.shards.iter().all(whole)
}

fn counts_agree(world: &World, ran: &Ran) -> Result<(), String> {
    let record = &ran.rehearsal.record;
    let sum = |of: fn(&ShardRecord) -> u64| record.shards.iter().map(of).sum::<u64>();
    let attempts = sum(|it| it.stats.counters.requests.attempts);
    let sent = sum(|it| it.stats.counters.requests.attempts_sent);
    let aborted = sum(|it| it.stats.counters.items.aborted);
    let ended = ran.rehearsal.samples.len() as u64;
    let received = ran.sent.len() as u64;
    let holds = if is_whole(record) {
        sent == received && attempts == ended + aborted
    } else {
        sent <= received && attempts <= ended + aborted
    };
    law(holds, || {
        format!(
            "{sent} sent, {received} received; {attempts} attempts, {ended} ended, {aborted} cut off"
        )
    })?;
    if record.failure.is_some() || !(world.replaces || is_whole(record)) {
        return Ok(());
    }
    let stored = counts(ran.committed.values());
    let items = record.shards.iter().map(|shard| shard.stats.counters.items);
    let known = items.fold([0; 4], |[ok, not_found, failed, gave_up], it| {
        [
            ok + it.ok,
            not_found + it.not_found,
            failed + it.failed,
            gave_up + it.gave_up,
        ]
    });
    let stored = [stored.ok, stored.not_found, stored.failed, stored.gave_up];
    law(known == stored, || {
        format!("{known:?} items ended, {stored:?} are stored")
    })
}

fn each_item_is_committed_once(world: &World, ran: &Ran) -> Result<(), String> {
    let record = &ran.rehearsal.record;
    let twice: Vec<u64> = ran
        .committed
        .iter()
        .filter(|(_, (times, _))| *times != 1)
        .map(|(id, _)| *id)
        .collect();
    law(twice.is_empty(), || {
        format!("committed more than once: {twice:?}")
    })?;
    let is_in = |range: &IdRange, id: u64| (range.start..range.end).contains(&id);
    let is_left = |id: &u64| !world.plan.finished.iter().any(|range| is_in(range, *id));
    let expected: BTreeSet<u64> = (0..world.plan.ids.end).filter(is_left).collect();
    let is_known = ran.committed.keys().all(|id| expected.contains(id));
    law(is_known, || {
        "an ID was committed that is not in the plan".to_owned()
    })?;
    let is_complete = world.plan.duration.is_none()
        && !record.was_stopped()
        && record.failure.is_none()
        && record.shards.iter().all(|shard| shard.fault.is_none());
    law(
        !is_complete || ran.committed.len() == expected.len(),
        || {
            format!(
                "{} of {} items are committed",
                ran.committed.len(),
                expected.len()
            )
        },
    )
}

fn budget_is_kept(world: &World, sent: &[u64]) -> Result<(), String> {
    let plan = &world.plan;
    let Some(rate) = plan.rate.filter(|_| plan.has_budget()) else {
        return Ok(());
    };
    match plan.shape.apart_ns() {
        Some(width_ns) => {
            let most = most_in(sent, width_ns);
            law(most <= rate.permits, || {
                format!("{most} requests in a window of {}", rate.permits)
            })
        }
        None => law(conforms(sent, rate, plan.burst), || {
            "the budget was exceeded".to_owned()
        }),
    }
}

/// True if no window of any width holds more than `burst` and what the rate earns in it.
fn conforms(sent: &[u64], rate: Rate, burst: u64) -> bool {
    let [permits, period, burst] = [rate.permits, rate.period_ns, burst].map(i128::from);
    let mut least = i128::MAX;
    sent.iter().zip(0..).all(|(at, n): (&u64, i128)| {
        // Requests i to n are n - i + 1, and may be burst + (at(n) - at(i)) * permits / period.
        let used = n * period - i128::from(*at) * permits;
        least = least.min(used);
        used + (1 - burst) * period <= least
    })
}

/// The most requests in any window of a width, wherever it begins.
fn most_in(sent: &[u64], width_ns: u64) -> u64 {
    let mut first = 0;
    let most = (0..sent.len()).map(|last| {
        while sent[last] - sent[first] >= width_ns {
            first += 1;
        }
        last - first + 1
    });
    most.max().unwrap_or(0) as u64
}

/// The busiest windows are those that the target saw, but for what a process that died did not
/// tell.
fn windows_are_those_of_the_target(record: &RunRecord, sent: &[u64]) -> Result<(), String> {
    let slot = duration_ns(SLOT);
    for window in record.busiest.get(&Scope::Run).into_iter().flatten() {
        let width = duration_ns(window.width);
        let (least, most) = (most_in(sent, width), most_in(sent, width + slot));
        let holds = window.sent <= most && (window.sent >= least || !is_whole(record));
        law(holds, || format!("{window:?}, not {least} to {most}"))?;
    }
    Ok(())
}

/// Once a host has asked one shard to wait, no shard sends it anything.
fn pauses_are_kept(world: &World, ran: &Ran) -> Result<(), String> {
    if world.plan.throttling.on_throttle != OnThrottle::Honor {
        return Ok(());
    }
    for wait in &ran.waits {
        let early = ran.sent.iter().find(|sent| {
            sent.host == wait.host
                && (wait.at + 1..wait.until).contains(&sent.at)
                && world.hears(wait.at, sent.at)
        });
        law(early.is_none(), || format!("{early:?} within {wait:?}"))?;
    }
    Ok(())
}

fn seconds_add_up(ran: &Ran) -> Result<(), String> {
    let (record, seconds) = (&ran.rehearsal.record, &ran.rehearsal.intervals);
    let mut indexes: Vec<u64> = seconds.iter().map(|it| it.index).collect();
    // A second that is waited for is reported after later ones.
    indexes.sort_unstable();
    let is_once = indexes.is_sorted_by(|a, b| a < b);
    law(is_once, || format!("seconds reported twice: {indexes:?}"))?;
    let of_seconds: u64 = seconds
        .iter()
        .map(|it| it.merged.counters.requests.attempts)
        .sum();
    let shards = record.shards.iter();
    let of_shards: u64 = shards.map(|it| it.stats.counters.requests.attempts).sum();
    law(of_seconds == of_shards, || {
        format!("{of_seconds} attempts by seconds, {of_shards} by shards")
    })
}
