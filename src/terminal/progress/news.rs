//! Facts about a run that goes on: what is to be known before its end, the gravest first.

use std::time::Duration;

use crawlmark_harness::supervisor::{LiveShard, LiveState, Stopping};
use crawlmark_harness::units::rounded_percent;
use crawlmark_results::run::report::failures;
use crawlmark_results::run::words::errors;
use crawlmark_results::show::text::{capital, counted, grouped, grouped_f64};

use super::gauge::{Now, silence};
use super::text::{failure_words, left, nanos, stop_words};

/// Send delay of an open loop below which it counts as on time.
const ON_TIME: Duration = Duration::from_millis(100);

/// Part of the median rate below which a shard is named, and the time after which it may be.
const STRAGGLING: f64 = 0.8;
const SETTLED: Duration = Duration::from_secs(5);

/// Part of the requests that failed from which on that is an error, as at the end.
const FAILED: f64 = 0.05;

/// Fact about a run that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct News {
    /// Kind, as a log names it.
    pub(super) kind: &'static str,
    /// How often it was found so far: a log says it again when that grows. 0 of what has no number.
    pub(super) number: u64,
    /// The fact, without its kind.
    pub(super) fact: String,
    /// True if something failed.
    pub(super) is_failure: bool,
}

impl News {
    fn new(kind: &'static str, fact: String) -> Self {
        Self {
            kind,
            number: 0,
            fact,
            is_failure: false,
        }
    }

    /// The fact for a reader who sees nothing else of it.
    pub(super) fn text(&self) -> String {
        match self.number {
            0 => capital(&self.fact),
            number => format!("{} so far: {}", counted(number, self.kind), self.fact),
        }
    }
}

/// All that is to be known now, the gravest first.
pub(super) fn all(now: &Now<'_>) -> Vec<News> {
    let found = [
        stopping(now),
        lost(now),
        silent_shard(now),
        failed(now),
        late(now),
        stalled(now),
        straggling(now),
    ];
    found.into_iter().flatten().collect()
}

fn stopping(now: &Now<'_>) -> Option<News> {
    let stopping: Stopping = now.live.stopping?;
    let words = stop_words(stopping, now.in_flight());
    Some(News::new("end", format!("stopping; {words}")))
}

/// Shards whose processes died, and what became of them.
fn lost(now: &Now<'_>) -> Option<News> {
    let lost: Vec<String> = now
        .live
        .shards
        .iter()
        .enumerate()
        .filter_map(|(number, shard)| match (shard.state, shard.replaced) {
            (LiveState::Lost, _) => Some(format!("shard {number} died")),
            (_, Some((_, exit))) => Some(format!("shard {number} {exit}, and was replaced")),
            (LiveState::Restarting, None) => Some(format!("shard {number} died, and is replaced")),
            _ => None,
        })
        .collect();
    let fact = match &lost[..] {
        [] => return None,
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} ({} more)", others.len()),
    };
    Some(News {
        is_failure: true,
        ..News::new("shard", fact)
    })
}

/// A shard that says nothing any more.
fn silent_shard(now: &Now<'_>) -> Option<News> {
    let (time, number) = now
        .live
        .shards
        .iter()
        .enumerate()
        .find_map(|(number, shard)| Some((silence(shard, now.live)?, number)))?;
    let fact = format!("shard {number} has reported nothing for {}", left(time));
    Some(News::new("silent", fact))
}

/// Failed requests by cause, the commonest first, and what to do about that one.
fn failed(now: &Now<'_>) -> Option<News> {
    let share = now.counters.errors() as f64 / now.counters.requests.attempts.max(1) as f64;
    let causes = errors(&now.counters);
    let (cause, count) = causes.first().filter(|_| share > 0.0)?;
    let commonest = failures(&now.counters.requests);
    let known = commonest
        .first()
        .and_then(|(cause, _)| failure_words(now.live, *cause))
        .map_or_else(String::new, |words| format!(": {words}"));
    let (share_words, count) = (rounded_percent(share), grouped(*count));
    let fact = format!("{share_words} of requests failed: {count} \u{d7} {cause}{known}");
    Some(News {
        is_failure: share >= FAILED,
        ..News::new("failed", fact)
    })
}

/// Requests of an open loop that are due and wait.
pub(super) fn late(now: &Now<'_>) -> Option<News> {
    let behind = now.live.shards.iter().map(LiveShard::behind).max()?;
    if now.arrivals.gaps().is_none() || behind < ON_TIME {
        return None;
    }
    let late = nanos(u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX));
    let waiting = match now.waiting {
        Some(count) => format!("{} requests ", grouped_f64(count)),
        None => String::new(),
    };
    let fact = format!("{waiting}due and not sent, {late} late");
    Some(News::new("late", fact))
}

fn stalled(now: &Now<'_>) -> Option<News> {
    let last = now.stalls.last()?;
    let (lasted, at) = (nanos(last.lasted_ns()), last.from.as_secs());
    Some(News {
        number: now.stalls.len() as u64,
        ..News::new("stall", format!("{lasted} without a response at {at} s"))
    })
}

/// The slowest shard, if it does much less than the median one.
fn straggling(now: &Now<'_>) -> Option<News> {
    let all_run = now
        .live
        .shards
        .iter()
        .all(|one| one.state == LiveState::Running);
    if now.live.elapsed < SETTLED || !all_run || now.live.shards.len() < 2 {
        return None;
    }
    let mut ended: Vec<(u64, usize)> = now
        .live
        .shards
        .iter()
        .map(|one| one.counters.items.ended())
        .zip(0..)
        .collect();
    ended.sort_unstable();
    let ((least, number), (median, _)) = (ended[0], ended[ended.len() / 2]);
    let is_slow = (least as f64) < median as f64 * STRAGGLING;
    is_slow.then(|| {
        let [least_per_s, median_per_s] =
            [least, median].map(|count| grouped_f64(count as f64 / now.live.elapsed.as_secs_f64()));
        let fact = format!("shard {number} does {least_per_s}/s, the median one {median_per_s}/s");
        News::new("slow", fact)
    })
}
