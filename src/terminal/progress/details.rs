//! Lines below the total: rate over time, latencies, outcomes, and the limit of the run.

use std::time::Duration;

use crawlmark_harness::process::ShardExit;
use crawlmark_harness::stats::{ItemCounts, RequestCounts, Series};
use crawlmark_harness::supervisor::{LivePause, Recent, Stopping};
use crawlmark_harness::units::{percent, rounded_percent};
use crawlmark_harness::wire::BindingTimes;
use crawlmark_results::run::report::failures;
use crawlmark_results::run::words::errors;
use crawlmark_results::show::text::{decimal, grouped, grouped_f64};

use super::gauge::Now;
use super::sparkline::{Glyphs, sparkline};
use super::text::{Line, NAME, Part, Tone, row_of};
use super::words::{failure_words, nanos, pause_words, per_second, percentile, stop_words, to_go};

/// Send delay of an open loop below which it counts as on time.
const ON_TIME: Duration = Duration::from_millis(10);

/// A part of the time that is worth a word.
const WORTH: f64 = 0.005;

/// A sparkline of fewer columns has no scale beside it.
const LEAST_WITH_SCALE: usize = 10;

/// A line below the total, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Stopping,
    Paused,
    Replaced,
    Rate,
    Times,
    Answers,
    Statuses,
    Failures,
    Limits,
    Waiting,
}

impl Detail {
    /// Details by priority, for when there is little room.
    pub(super) const BY_RANK: [Self; 10] = [
        Self::Stopping,
        Self::Paused,
        Self::Replaced,
        Self::Times,
        Self::Answers,
        Self::Failures,
        Self::Rate,
        Self::Waiting,
        Self::Limits,
        Self::Statuses,
    ];

    /// The line; none when there is nothing to say.
    pub(super) fn line(self, now: &Now<'_>, columns: usize, glyphs: Glyphs) -> Option<Line> {
        if now.live.is_over()
            && !matches!(
                self,
                Self::Rate | Self::Answers | Self::Statuses | Self::Failures
            )
        {
            return None;
        }
        match self {
            Self::Stopping => now
                .live
                .stopping
                .map(|stopping| stop(now, stopping, columns)),
            Self::Paused => now.live.pause.map(|pause| paused(pause, columns)),
            Self::Replaced => replaced(now, columns),
            Self::Rate => Some(rate(now, columns, glyphs)),
            Self::Times => Some(times(now, columns)),
            Self::Answers => Some(answers(now, columns)),
            Self::Statuses => statuses(now, columns),
            Self::Failures => failed_by(now, columns),
            Self::Limits => limits(now, columns),
            Self::Waiting => now.arrivals.gaps().map(|_| waiting(now, columns)),
        }
    }
}

/// The shards whose processes died and were replaced.
fn replaced(now: &Now<'_>, columns: usize) -> Option<Line> {
    let shards = (0..)
        .zip(&now.live.shards)
        .filter_map(|(number, shard)| Some((number, shard.replaced?)));
    let part = |(rank, (number, (count, exit))): (u8, (u32, (usize, ShardExit)))| {
        let again = if count > 1 {
            format!(", {count} times in all")
        } else {
            String::new()
        };
        Part {
            rank,
            text: format!("shard {number} {exit}{again}"),
            tone: Tone::Warning,
        }
    };
    let parts: Vec<Part> = (0..u8::MAX).zip(shards).map(part).collect();
    (!parts.is_empty()).then(|| row_of("replaced", parts, columns))
}

fn stop(now: &Now<'_>, stopping: Stopping, columns: usize) -> Line {
    row_of(
        "stopping",
        vec![Part::new(0, stop_words(stopping, now.in_flight()))],
        columns,
    )
}

fn paused(pause: LivePause, columns: usize) -> Line {
    let left = to_go(pause.left);
    let second = if pause.hosts >= pause.of {
        "as the target asked".to_owned()
    } else {
        format!("the next for {left}")
    };
    let parts = vec![
        Part {
            rank: 0,
            text: pause_words(pause),
            tone: Tone::Warning,
        },
        Part::new(1, second),
    ];
    row_of("paused", parts, columns)
}

fn rate(now: &Now<'_>, columns: usize, glyphs: Glyphs) -> Line {
    let course = now.course;
    let room = columns.saturating_sub(NAME);
    let scale = |top: f64, seconds: usize| format!("  peak {} (last {seconds} s)", per_second(top));
    // As long as it can get: the line must not change its length with the rate.
    let beside = scale(9_999_999.0, 60).len();
    let shown = if room >= LEAST_WITH_SCALE + beside {
        room - beside
    } else {
        room
    };
    let (spark, top) = sparkline(course, shown, glyphs);
    let line = Line::default().and(format!("{:<NAME$}", "rate"), Tone::Plain);
    let line = if course.is_empty() {
        line.and(first_second(now), Tone::Plain)
    } else {
        line
    };
    let seconds = spark.chars().count();
    let line = line.and(spark, Tone::Plain);
    let line = if shown < room && seconds > 0 {
        line.and(scale(top, seconds), Tone::Quiet)
    } else {
        line
    };
    line.cut(columns)
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

fn times(now: &Now<'_>, columns: usize) -> Line {
    let of = if now.arrivals.gaps().is_some() {
        Series::ResponseOk
    } else {
        Series::ServiceOk
    };
    if !now.has_recent_times() {
        return row_of(
            of.name(),
            vec![Part::new(0, "no request ended in the last second")],
            columns,
        );
    }
    let Some(Recent {
        of,
        p50,
        p90,
        p99,
        max_ns,
    }) = now.live.recent
    else {
        return row_of(
            of.name(),
            vec![Part::new(0, format!("nothing {}", told(now)))],
            columns,
        );
    };
    let parts = vec![
        Part::new(1, format!("p50 {}", percentile(p50))),
        Part::new(3, format!("p90 {}", percentile(p90))),
        Part::new(0, format!("p99 {}", percentile(p99))),
        Part::new(2, format!("max {}", nanos(max_ns))),
        Part {
            rank: 4,
            text: told(now),
            tone: Tone::Quiet,
        },
    ];
    row_of(of.name(), parts, columns)
}

/// Name the second that the times belong to: a second whose last response is late has no times yet.
fn told(now: &Now<'_>) -> String {
    let second = now.live.last_second.unwrap_or_default();
    match now.live.elapsed.as_secs().saturating_sub(second + 1) {
        0..=1 => "in the last second".to_owned(),
        _ => format!("in second {}, the last complete one", second + 1),
    }
}

fn answers(now: &Now<'_>, columns: usize) -> Line {
    let counters = &now.counters;
    let mut parts = throttled(now);
    let share = |part: u64, all: u64| percent(part as f64 / all.max(1) as f64);
    let errors = counters.errors();
    parts.push(counted(1, "errors", errors, Tone::Failure));
    if errors > 0 {
        let text = format!("({})", share(errors, counters.requests.attempts));
        parts.push(Part {
            rank: 4,
            text,
            tone: Tone::Failure,
        });
    }
    let failed_share = match counters.items.failed {
        0 => String::new(),
        failed => format!(" ({})", share(failed, counters.items.ended())),
    };
    parts.push(Part {
        text: format!(
            "items failed {}{failed_share}",
            grouped(counters.items.failed)
        ),
        ..counted(4, "", counters.items.failed, Tone::Failure)
    });
    if counters.items.gave_up > 0 {
        parts.push(counted(
            3,
            "abandoned",
            counters.items.gave_up,
            Tone::Failure,
        ));
    }
    let again: u64 = now
        .live
        .shards
        .iter()
        .map(|shard| shard.waiting_again)
        .sum();
    let wait = if again > 0 {
        format!(", {} to come", grouped(again))
    } else {
        String::new()
    };
    parts.push(Part::new(
        5,
        format!("retries {}{wait}", grouped(counters.requests.retries)),
    ));
    row_of("outcomes", parts, columns)
}

/// Answers by status; without room for all, the rarest are left out.
fn statuses(now: &Now<'_>, columns: usize) -> Option<Line> {
    let RequestCounts {
        attempts_by_status: counts,
        rejected_by_status: rejected,
        ..
    } = &now.counters.requests;
    let rank = |count: u64| counts.values().filter(|other| **other > count).count();
    let parts = counts.iter().map(|(status, count)| Part {
        rank: u8::try_from(rank(*count)).unwrap_or(u8::MAX),
        ..counted(
            0,
            &status.to_string(),
            *count,
            if rejected.contains_key(status) {
                Tone::Failure
            } else {
                Tone::Plain
            },
        )
    });
    (!counts.is_empty()).then(|| row_of("statuses", parts.collect(), columns))
}

/// Failed requests by cause, the commonest first, and what is known of that one.
fn failed_by(now: &Now<'_>, columns: usize) -> Option<Line> {
    let causes = errors(&now.counters);
    let parts = (0..u8::MAX)
        .zip(&causes)
        .map(|(rank, (cause, count))| counted(rank, cause, *count, Tone::Failure));
    let commonest = failures(&now.counters.requests)
        .first()
        .map(|(cause, _)| *cause);
    let details = commonest
        .and_then(|cause| failure_words(now.live, cause))
        .map(|known| Part::new(u8::MAX, known));
    (!causes.is_empty()).then(|| row_of("failures", parts.chain(details).collect(), columns))
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
        percent(throttled as f64 / attempts.max(1) as f64),
        grouped(throttled)
    );
    if now.live.is_over() {
        return vec![Part {
            rank: 0,
            text: format!("throttled {all}"),
            tone: Tone::Warning,
        }];
    }
    let lately = now.throttled_lately().unwrap_or_default();
    let tone = if lately > 0.0 {
        Tone::Warning
    } else {
        Tone::Plain
    };
    vec![
        Part {
            rank: 0,
            text: format!("throttled {} now", percent(lately)),
            tone,
        },
        Part::new(2, all),
    ]
}

fn counted(rank: u8, name: &str, count: u64, tone: Tone) -> Part {
    Part {
        rank,
        text: format!("{name} {}", grouped(count)),
        tone: if count > 0 { tone } else { Tone::Plain },
    }
}

fn limits(now: &Now<'_>, columns: usize) -> Option<Line> {
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
    let mut times = [
        ("rate", rate_ns),
        ("connections", concurrency_ns),
        ("throttle pauses", pause_ns),
        (
            if is_adaptive {
                "--adaptive"
            } else {
                "the target's quota"
            },
            target_ns,
        ),
        ("storing results", storage_ns),
        ("idle", idle_ns),
    ];
    times.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let all = now.lately.binding.sum_ns().max(1) as f64;
    let binding = times
        .into_iter()
        .map(|(name, ns)| (name, ns as f64 / all))
        .filter(|(_, part)| *part >= WORTH);
    let mut parts: Vec<Part> = (0..)
        .zip(binding)
        .map(|(rank, (name, part))| Part::new(rank, format!("{name} {}", rounded_percent(part))))
        .collect();
    if let Some(standing) = now.live.standing {
        let pace = standing
            .pace_per_s
            .map_or_else(String::new, |pace| format!(" at {}/s", decimal(pace)));
        parts.push(Part::new(
            1,
            format!(
                "adaptive: {} in flight{pace}",
                grouped(u64::from(standing.limit))
            ),
        ));
    }
    (!parts.is_empty()).then(|| row_of("limit", parts, columns))
}

fn waiting(now: &Now<'_>, columns: usize) -> Line {
    let oldest = now
        .live
        .shards
        .iter()
        .map(|shard| shard.behind)
        .max()
        .unwrap_or_default();
    if oldest < ON_TIME {
        return row_of("waiting", vec![Part::new(0, "backlog 0")], columns);
    }
    let oldest = nanos(u64::try_from(oldest.as_nanos()).unwrap_or(u64::MAX));
    let parts = match now.waiting {
        Some(waiting) => vec![
            Part {
                rank: 0,
                text: format!("{} due and not sent", grouped_f64(waiting)),
                tone: Tone::Warning,
            },
            Part::new(1, format!("the oldest for {oldest}")),
        ],
        None => vec![Part {
            rank: 0,
            text: format!("due and not sent for {oldest}"),
            tone: Tone::Warning,
        }],
    };
    row_of("waiting", parts, columns)
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::adaptive::ControllerState;
    use crawlmark_harness::plan::RunPlan;
    use crawlmark_harness::sample::ErrorKind;
    use crawlmark_harness::supervisor::{Live, LiveState};

    use super::super::gauge::Gauge;
    use super::super::samples::{failed, live, open, plan, shard};
    use super::super::text::tests::plain;
    use super::*;

    /// The lines of `live`, each to its name, after a second without anything.
    fn lines(plan: &RunPlan, live: &Live, columns: usize) -> Vec<String> {
        let mut gauge = Gauge::new(plan);
        let before =
            super::super::samples::live(0, live.shards.iter().map(|_| shard(0, 0)).collect());
        drop(gauge.read(&before));
        let now = gauge.read(live);
        let mut details = Detail::BY_RANK;
        details.sort();
        let shown = |detail: Detail| detail.line(&now, columns, Glyphs::Ascii);
        details
            .into_iter()
            .filter_map(shown)
            .map(|line| plain(&line))
            .collect()
    }

    #[test]
    fn a_closed_loop_has_service_times_and_waits_for_connections() {
        let expected = [
            "rate     @  peak 500/s (last 1 s)",
            "service  p50 1.00 ms  p90 2.00 ms  p99 4.00 ms  max 8.00 ms  in the last second",
            "outcomes throttled 0  errors 0  items failed 0  retries 0",
            "limit    connections 100 %",
        ];
        assert_eq!(
            lines(&plan(1), &live(1_000, vec![shard(1_000, 500)]), 99),
            expected
        );
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
        late.shards[0].behind = Duration::from_millis(1_500);
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
            shown[3],
            "limit    connections 100 %  adaptive: 12 in flight at 123/s"
        );
        assert_eq!(
            lines(&plan(1), &throttled, 39)[2],
            "outcomes throttled 25.0 % now  errors 3"
        );
    }

    #[test]
    fn a_shard_that_was_replaced_says_why() {
        let mut replaced = live(1_000, vec![shard(1_000, 500), shard(1_000, 500)]);
        replaced.shards[1].replaced = Some((2, ShardExit::Signal(9)));
        let shown = lines(&plan(2), &replaced, 99);
        assert_eq!(
            shown[0],
            "replaced shard 1 was ended by SIGKILL, 2 times in all"
        );
    }

    #[test]
    fn a_stop_says_what_another_interrupt_does() {
        let mut stopped = live(1_000, vec![shard(1_000, 500)]);
        let mut shown = |stopping| {
            stopped.stopping = Some(stopping);
            lines(&plan(1), &stopped, 99)[0].clone()
        };
        assert_eq!(
            shown(Stopping::ByObserver),
            "stopping press Ctrl-C to cut off 8 open requests"
        );
        assert_eq!(
            shown(Stopping::BySignal),
            "stopping press Ctrl-C again to cut off 8 open requests"
        );
        assert!(shown(Stopping::AtOnce).contains("again to kill the shards"));
    }

    #[test]
    fn errors_are_those_of_the_final_error_rate_cut_off_attempts_among_them() {
        let mut cut = live(1_000, vec![shard(1_000, 500)]);
        let counters = &mut cut.shards[0].counters;
        (counters.requests.attempts, counters.items.aborted) = (counters.items.ok + 7, 7);
        let shown = lines(&plan(1), &cut, 99);
        assert!(shown[2].contains("errors 7"), "{}", shown[2]);
    }

    #[test]
    fn statuses_and_failures_are_counted_and_the_rarest_left_out_first() {
        let mut mixed = live(1_000, vec![shard(1_000, 500)]);
        let requests = &mut mixed.shards[0].counters.requests;
        requests.attempts_by_status = [(200, 500), (429, 9), (500, 58)].into();
        requests.rejected_by_status = [(500, 58)].into();
        requests.errors_by_kind = [(ErrorKind::Io, 1_234)].into();
        mixed.shards[0].failures = failed(ErrorKind::Io, "a rule is broken");
        let shown = |columns| lines(&plan(1), &mixed, columns)[3..5].join(", ");
        assert!(
            shown(99).ends_with("500 58, failures io 1,234  status 500 58  a rule is broken"),
            "{}",
            shown(99)
        );
        assert_eq!(
            shown(40),
            "statuses 200 500  429 9  500 58, failures io 1,234  status 500 58"
        );
        assert_eq!(shown(29), "statuses 200 500  500 58, failures io 1,234");
    }

    #[test]
    fn a_pause_says_how_long_it_lasts() {
        let mut paused = live(1_000, vec![shard(1_000, 500)]);
        paused.pause = Some(LivePause {
            hosts: 1,
            of: 1,
            left: Duration::from_millis(11_300),
        });
        assert_eq!(
            lines(&plan(1), &paused, 99)[0],
            "paused   for 12s more  as the target asked"
        );
        paused.pause = Some(LivePause {
            hosts: 2,
            of: 3,
            left: Duration::from_millis(11_300),
        });
        assert_eq!(
            lines(&plan(1), &paused, 99)[0],
            "paused   on 2 of 3 hosts  the next for 12s"
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

    #[test]
    fn a_run_of_less_than_a_second_has_a_rate_and_its_failures() {
        let mut live = live(500, vec![shard(500, 0)]);
        assert_eq!(lines(&plan(1), &live, 99)[0], "rate     nothing yet");
        live.shards[0].counters.items.failed = 7_736;
        assert_eq!(
            lines(&plan(1), &live, 99)[0],
            "rate     0/s good, 7,736 failed"
        );
    }
}
