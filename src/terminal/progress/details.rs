//! Lines below the total: rate over time, latencies, outcomes, and the limit of the run.

use std::time::Duration;

use crawlmark_harness::stats::{ItemCounts, RequestCounts, Series};
use crawlmark_harness::supervisor::Recent;
use crawlmark_harness::units::{percent, rounded_percent};
use crawlmark_harness::wire::BindingTimes;
use crawlmark_results::run::report::{IntervalRow, failures};
use crawlmark_results::run::words::errors;
use crawlmark_results::show::text::{decimal, grouped, grouped_f64, micros};

use super::gauge::{COURSE, Now};
use super::text::{
    Line, NAME, Part, Tone, failure_words, nanos, pause_words, per_second, percentile, row_of,
    stop_words, to_go,
};
use crate::terminal::glyphs::sparkline;

/// Send delay of an open loop below which it counts as on time.
const ON_TIME: Duration = Duration::from_millis(10);

/// A part of the time that is worth a word.
const WORTH: f64 = 0.005;

/// Columns of the longest scale beside a sparkline, and the fewest columns of one that has a scale.
const SCALE: usize = 32;
const LEAST_WITH_SCALE: usize = 10;

/// A run on a terminal.
pub(super) struct Scene<'a> {
    pub(super) now: &'a Now<'a>,
    /// Its last seconds.
    pub(super) seconds: &'a [IntervalRow],
    pub(super) columns: usize,
}

/// A line below the total.
pub(super) struct Detail {
    name: &'static str,
    /// The highest go first when there is little room.
    pub(super) rank: u8,
    /// True if it says something of a run that is over.
    lasts: bool,
    /// Its parts; none when there is nothing to say.
    parts: fn(&Scene<'_>) -> Vec<Part>,
}

/// All details, in the order in which they are shown.
pub(super) const DETAILS: [Detail; 15] = [
    Detail::new("stopping", 0, false, |scene| stopping(scene.now)),
    Detail::new("paused", 1, false, |scene| paused(scene.now)),
    Detail::new("replaced", 2, false, |scene| replaced(scene.now)),
    Detail::new("rate", 6, true, rate),
    Detail::new("not good", 10, false, not_good),
    Detail::new("p99", 11, false, |scene| slowest(scene, true)),
    Detail::new("slowest", 11, false, |scene| slowest(scene, false)),
    Detail::new("service", 3, false, |scene| times(scene, Series::ServiceOk)),
    Detail::new("response", 3, false, |scene| {
        times(scene, Series::ResponseOk)
    }),
    Detail::new("outcomes", 4, true, |scene| answers(scene.now)),
    Detail::new("statuses", 9, true, |scene| statuses(scene.now)),
    Detail::new("failures", 5, true, |scene| failed_by(scene.now)),
    Detail::new("limit", 8, false, |scene| limits(scene.now)),
    Detail::new("target", 8, false, |scene| target(scene.now)),
    Detail::new("waiting", 7, false, |scene| waiting(scene.now)),
];

impl Detail {
    const fn new(
        name: &'static str,
        rank: u8,
        lasts: bool,
        parts: fn(&Scene<'_>) -> Vec<Part>,
    ) -> Self {
        Self {
            name,
            rank,
            lasts,
            parts,
        }
    }

    /// The line; none when there is nothing to say.
    pub(super) fn line(&self, scene: &Scene<'_>) -> Option<Line> {
        if scene.now.live.is_over() && !self.lasts {
            return None;
        }
        let parts = (self.parts)(scene);
        (!parts.is_empty()).then(|| row_of(self.name, parts, scene.columns))
    }
}

fn stopping(now: &Now<'_>) -> Vec<Part> {
    let words = now
        .live
        .stopping
        .map(|stopping| stop_words(stopping, now.in_flight()));
    words.map(|words| Part::new(0, words)).into_iter().collect()
}

fn paused(now: &Now<'_>) -> Vec<Part> {
    let Some(pause) = now.live.pause else {
        return Vec::new();
    };
    let second = if pause.hosts >= pause.of {
        "as the target asked".to_owned()
    } else {
        format!("the next for {}", to_go(pause.left))
    };
    vec![
        Part::toned(0, pause_words(pause), Tone::Warning),
        Part::new(1, second),
    ]
}

/// The shards whose processes died and were replaced.
fn replaced(now: &Now<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, shard) in now.live.shards.iter().enumerate() {
        let Some((count, exit)) = shard.replaced else {
            continue;
        };
        let again = match count {
            0 | 1 => String::new(),
            count => format!(", {count} times in all"),
        };
        let rank = u8::try_from(parts.len()).unwrap_or(u8::MAX);
        parts.push(Part::toned(
            rank,
            format!("shard {number} {exit}{again}"),
            Tone::Warning,
        ));
    }
    parts
}

/// Values of the last seconds, and their scale.
fn course(scene: &Scene<'_>, values: &[f64], scale: fn(f64) -> String) -> Vec<Part> {
    let room = scene.columns.saturating_sub(NAME);
    let columns = if room >= LEAST_WITH_SCALE + SCALE {
        room - SCALE
    } else {
        room
    };
    let (spark, top) = sparkline(values, columns);
    let seconds = values.len().min(columns);
    vec![
        Part::new(0, spark),
        Part::toned(
            1,
            format!("peak {} (last {seconds} s)", scale(top)),
            Tone::Quiet,
        ),
    ]
}

fn rate(scene: &Scene<'_>) -> Vec<Part> {
    if scene.now.course.is_empty() {
        return vec![Part::new(0, first_second(scene.now))];
    }
    course(scene, scene.now.course, per_second)
}

/// Return a value of each of the last seconds; 0 of one that is not complete.
fn history(scene: &Scene<'_>, value: impl Fn(&IntervalRow) -> f64) -> Vec<f64> {
    let end_s = scene.now.live.elapsed.as_secs();
    let first_s = end_s.saturating_sub(COURSE as u64);
    let mut values: Vec<f64> = (first_s..end_s).map(|_| 0.0).collect();
    // Seconds may be complete out of their order, by no more than the timeout of a request.
    for row in scene.seconds.iter().rev().take(2 * COURSE) {
        let place = row.start_s.checked_sub(first_s);
        let place = place.and_then(|place| values.get_mut(usize::try_from(place).ok()?));
        if let Some(place) = place {
            *place = value(row);
        }
    }
    values
}

/// Requests per second that were throttled or failed.
fn not_good(scene: &Scene<'_>) -> Vec<Part> {
    let values = history(scene, |row| {
        let good = row.counts.ok + row.counts.not_found;
        row.counts.attempts.saturating_sub(good) as f64
    });
    if values.iter().all(|count| *count == 0.0) {
        return Vec::new();
    }
    course(scene, &values, per_second)
}

/// The 99th percentile of each second, or, where no second has one, its slowest request.
fn slowest(scene: &Scene<'_>, of_p99: bool) -> Vec<Part> {
    let is_open = scene.now.arrivals.gaps().is_some();
    let p99 = history(scene, |row| {
        let p99 = if is_open {
            row.response_p99_us
        } else {
            row.p99_us
        };
        p99.unwrap_or(0.0)
    });
    let has_p99 = p99.iter().any(|us| *us > 0.0);
    let values = if has_p99 {
        p99
    } else {
        history(scene, |row| row.max_us.unwrap_or(0.0))
    };
    if has_p99 != of_p99 || values.iter().all(|us| *us == 0.0) {
        return Vec::new();
    }
    course(scene, &values, micros)
}

/// The rate of a run whose first second is not over.
fn first_second(now: &Now<'_>) -> String {
    let ItemCounts {
        ok,
        not_found,
        failed,
        gave_up,
        ..
    } = now.counters.items;
    if now.counters.items.ended() == 0 {
        return "nothing yet".to_owned();
    }
    let seconds = now.live.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let good = format!("{} good", per_second((ok + not_found) as f64 / seconds));
    match failed + gave_up {
        0 => good,
        failed => format!("{good}, {} failed", grouped(failed)),
    }
}

fn times(scene: &Scene<'_>, series: Series) -> Vec<Part> {
    let now = scene.now;
    if Series::waited(now.arrivals) != series {
        return Vec::new();
    }
    if !now.has_recent_times() {
        return vec![Part::new(0, "no request ended in the last second")];
    }
    // A second whose last response is late has no times yet.
    let second = now.live.last_second.unwrap_or_default();
    let of = match now.live.elapsed.as_secs().saturating_sub(second + 1) {
        0..=1 => "in the last second".to_owned(),
        _ => format!("in second {}, the last complete one", second + 1),
    };
    let Some(Recent {
        p50,
        p90,
        p99,
        max_ns,
        ..
    }) = now.live.recent
    else {
        return vec![Part::new(0, format!("nothing {of}"))];
    };
    vec![
        Part::new(1, format!("p50 {}", percentile(p50))),
        Part::new(3, format!("p90 {}", percentile(p90))),
        Part::new(0, format!("p99 {}", percentile(p99))),
        Part::new(2, format!("max {}", nanos(max_ns))),
        Part::toned(4, of, Tone::Quiet),
    ]
}

fn share(part: u64, all: u64) -> String {
    percent(part as f64 / all.max(1) as f64)
}

fn answers(now: &Now<'_>) -> Vec<Part> {
    let (items, requests) = (&now.counters.items, &now.counters.requests);
    let errors = now.counters.errors();
    let mut parts = throttled(now);
    parts.push(counted(1, "errors", errors, Tone::Failure));
    if errors > 0 {
        parts.push(Part::toned(
            4,
            format!("({})", share(errors, requests.attempts)),
            Tone::Failure,
        ));
    }
    let failed = match items.failed {
        0 => "items failed 0".to_owned(),
        failed => format!(
            "items failed {} ({})",
            grouped(failed),
            share(failed, items.ended())
        ),
    };
    let tone = if items.failed > 0 {
        Tone::Failure
    } else {
        Tone::Plain
    };
    parts.push(Part::toned(4, failed, tone));
    if items.gave_up > 0 {
        parts.push(counted(3, "abandoned", items.gave_up, Tone::Failure));
    }
    let again: u64 = now
        .live
        .shards
        .iter()
        .map(|shard| shard.waiting_again)
        .sum();
    let retries = grouped(requests.retries);
    parts.push(Part::new(
        5,
        match again {
            0 => format!("retries {retries}"),
            again => format!("retries {retries}, {} to come", grouped(again)),
        },
    ));
    parts
}

fn throttled(now: &Now<'_>) -> Vec<Part> {
    let RequestCounts {
        attempts,
        throttled,
        ..
    } = now.counters.requests;
    if throttled == 0 {
        return vec![Part::new(0, "throttled 0")];
    }
    let all = format!(
        "{} in all ({})",
        share(throttled, attempts),
        grouped(throttled)
    );
    if now.live.is_over() {
        return vec![Part::toned(0, format!("throttled {all}"), Tone::Warning)];
    }
    let lately = now.throttled_lately().unwrap_or_default();
    let tone = if lately > 0.0 {
        Tone::Warning
    } else {
        Tone::Plain
    };
    vec![
        Part::toned(0, format!("throttled {} now", percent(lately)), tone),
        Part::new(2, all),
    ]
}

/// Answers by status; without room for all, the rarest are left out.
fn statuses(now: &Now<'_>) -> Vec<Part> {
    let requests = &now.counters.requests;
    let counts = &requests.attempts_by_status;
    counts
        .iter()
        .map(|(status, count)| {
            let rank = counts.values().filter(|other| *other > count).count();
            let is_failure = requests.rejected_by_status.contains_key(status);
            let tone = if is_failure {
                Tone::Failure
            } else {
                Tone::Plain
            };
            counted(
                u8::try_from(rank).unwrap_or(u8::MAX),
                &status.to_string(),
                *count,
                tone,
            )
        })
        .collect()
}

/// Failed requests by cause, the commonest first, and what is known of that one.
fn failed_by(now: &Now<'_>) -> Vec<Part> {
    let causes = errors(&now.counters);
    let commonest = failures(&now.counters.requests)
        .first()
        .map(|(cause, _)| *cause);
    let details = commonest.and_then(|cause| failure_words(now.live, cause));
    (0..u8::MAX)
        .zip(&causes)
        .map(|(rank, (cause, count))| counted(rank, cause, *count, Tone::Failure))
        .chain(details.map(|known| Part::new(u8::MAX, known)))
        .collect()
}

fn counted(rank: u8, name: &str, count: u64, tone: Tone) -> Part {
    let tone = if count > 0 { tone } else { Tone::Plain };
    Part::toned(rank, format!("{name} {}", grouped(count)), tone)
}

fn limits(now: &Now<'_>) -> Vec<Part> {
    let BindingTimes {
        rate_ns,
        concurrency_ns,
        pause_ns,
        target_ns,
        storage_ns,
        idle_ns,
    } = now.lately.binding;
    // Without a throttled response, it has found no limit of the target.
    let is_adaptive = now.live.standing.is_some() && now.counters.requests.throttled == 0;
    let target = if is_adaptive {
        "--adaptive"
    } else {
        "the target's quota"
    };
    let mut times = [
        ("rate", rate_ns),
        ("connections", concurrency_ns),
        ("throttle pauses", pause_ns),
        (target, target_ns),
        ("storing results", storage_ns),
        ("idle", idle_ns),
    ];
    times.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let all = now.lately.binding.sum_ns().max(1) as f64;
    let mut parts: Vec<Part> = (0..)
        .zip(times.map(|(name, ns)| (name, ns as f64 / all)))
        .filter(|(_, (_, part))| *part >= WORTH)
        .map(|(rank, (name, part))| Part::new(rank, format!("{name} {}", rounded_percent(part))))
        .collect();
    if let Some(standing) = now.live.standing {
        let limit = grouped(standing.limit.into());
        parts.push(Part::new(
            1,
            match standing.pace_per_s {
                None => format!("adaptive: {limit} in flight"),
                Some(pace) => format!("adaptive: {limit} in flight at {}/s", decimal(pace)),
            },
        ));
    }
    parts
}

/// What the target's processes used in the last second.
fn target(now: &Now<'_>) -> Vec<Part> {
    let target = now.target.unwrap_or_default();
    let used = target.cpus.map(|cpus| format!("{cpus:.2} CPUs used"));
    let throttled = target.throttled.map(|share| {
        let tone = if share > 0.0 {
            Tone::Warning
        } else {
            Tone::Plain
        };
        Part::toned(1, format!("throttled {}", rounded_percent(share)), tone)
    });
    let waiting = target.waiting;
    let waiting = waiting.map(|threads| format!("{threads:.2} threads waiting for a CPU"));
    let parts = [
        used.map(|text| Part::new(0, text)),
        throttled,
        waiting.map(|text| Part::new(2, text)),
    ];
    parts.into_iter().flatten().collect()
}

/// Requests of an open loop that are due.
fn waiting(now: &Now<'_>) -> Vec<Part> {
    if now.arrivals.gaps().is_none() {
        return Vec::new();
    }
    let oldest = now
        .live
        .shards
        .iter()
        .map(crawlmark_harness::supervisor::LiveShard::behind)
        .max()
        .unwrap_or_default();
    if oldest < ON_TIME {
        return vec![Part::new(0, "backlog 0")];
    }
    let oldest = nanos(u64::try_from(oldest.as_nanos()).unwrap_or(u64::MAX));
    match now.waiting {
        Some(waiting) => vec![
            Part::toned(
                0,
                format!("{} due and not sent", grouped_f64(waiting)),
                Tone::Warning,
            ),
            Part::new(1, format!("the oldest for {oldest}")),
        ],
        None => vec![Part::toned(
            0,
            format!("due and not sent for {oldest}"),
            Tone::Warning,
        )],
    }
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::adaptive::ControllerState;
    use crawlmark_harness::plan::RunPlan;
    use crawlmark_harness::supervisor::{Live, LivePause, LiveState};

    use super::super::gauge::Gauge;
    use super::super::tests::{live, open, plan, rows, shard};
    use super::*;

    /// The lines of `live`, each to its name, after a second without anything.
    fn lines(plan: &RunPlan, live: &Live, columns: usize) -> Vec<String> {
        let mut gauge = Gauge::new(plan);
        let before =
            super::super::tests::live(0, live.shards.iter().map(|_| shard(0, 0)).collect());
        drop(gauge.read(&before));
        let now = gauge.read(live);
        let scene = Scene {
            now: &now,
            seconds: &rows(0, 0),
            columns,
        };
        DETAILS
            .iter()
            .filter_map(|detail| detail.line(&scene))
            .map(|line| line.text())
            .collect()
    }

    #[test]
    fn an_open_loop_says_what_waits() {
        let mut late = live(1_000, vec![shard(1_000, 500)]);
        late.recent = None;
        let shown = lines(&open(1), &late, 99);
        assert_eq!(shown[1], "response nothing in the last second");
        assert_eq!(shown[4], "waiting  backlog 0");
        (late.elapsed, late.last_second) = (Duration::from_secs(9), Some(3));
        assert_eq!(
            lines(&open(1), &late, 99)[1],
            "response nothing in second 4, the last complete one"
        );
        late.shards[0].behind_ms = 1_500;
        assert_eq!(
            lines(&open(1), &late, 99)[4],
            "waiting  1,500 due and not sent  the oldest for 1.50 s"
        );
    }

    #[test]
    fn throttling_is_shown_as_it_is_now_and_in_all() {
        let mut throttled = live(1_000, vec![shard(1_000, 750)]);
        let counters = &mut throttled.shards[0].counters;
        (
            counters.requests.attempts,
            counters.requests.throttled,
            counters.requests.retries,
        ) = (1_000, 250, 249);
        counters.items.ok -= 3;
        counters.requests.rejected_by_status.insert(500, 3);
        throttled.shards[0].waiting_again = 7;
        throttled.standing = Some(ControllerState {
            limit: 12,
            pace_per_s: Some(123.4),
        });
        let shown = lines(&plan(1), &throttled, 124);
        assert_eq!(
            shown[2],
            "outcomes throttled 25.0 % now  25.0 % in all (250)  errors 3  (0.3 %)  items failed 0  retries \
             249, 7 to come"
        );
        assert_eq!(
            shown[4],
            "limit    connections 100 %  adaptive: 12 in flight at 123/s"
        );
        assert_eq!(
            lines(&plan(1), &throttled, 39)[2],
            "outcomes throttled 25.0 % now  errors 3"
        );
    }

    #[test]
    fn of_what_is_over_only_what_stays_true_is_shown() {
        let mut over = live(1_000, vec![shard(1_000, 500)]);
        over.pause = Some(LivePause {
            hosts: 1,
            of: 1,
            left: Duration::from_secs(1),
        });
        over.shards[0].state = LiveState::Done;
        let expected = [
            "rate     500/s good",
            "outcomes throttled 0  errors 0  items failed 0  retries 0",
        ];
        assert_eq!(lines(&plan(1), &over, 99), expected);
    }
}
