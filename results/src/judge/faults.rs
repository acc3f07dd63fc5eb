//! Checks that name what the target does: how many requests it works on at a time, limits that
//! delay or refuse, clocks. A kind whose experiment ran says "is", one that was only seen "looks
//! like".

use super::experiments::{has_queue, next_experiment, reaches_its_rate};
use super::findings::{CauseCount, Finding, TimePart};
use super::thresholds as limits;
use super::verdict::Missing;
use crate::run::report::{Change, InStep, IntervalRow, Report, failures, share};
use crate::show::text::{capital, remedy_in_words, shortened};
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::{FailureCause, Series};

/// Most characters of the details of a cause.
const MOST_DETAILS: usize = 120;

/// Failed requests of a run after its warm-up by cause, the commonest first, without failures that
/// are this machine's own.
pub fn causes(report: &Report) -> Vec<CauseCount> {
    failures(&report.measured().requests)
        .into_iter()
        .filter(|(cause, _)| !matches!(cause, FailureCause::Error(kind) if kind.is_local()))
        .map(|(cause, count)| cause_count(report, cause, count))
        .collect()
}

fn cause_count(report: &Report, cause: FailureCause, count: u64) -> CauseCount {
    let seen = report.failures.get(&cause.key());
    let excerpt = seen.and_then(|seen| seen.excerpt.as_deref());
    CauseCount {
        cause: cause.key(),
        count,
        advice: remedy_in_words(cause, excerpt).map(capital),
        details: seen
            .and_then(|seen| seen.details.as_deref())
            .filter(|_| matches!(cause, FailureCause::Error(kind) if kind.is_lasting()))
            .map(|details| shortened(details, MOST_DETAILS)),
    }
}

/// What sets the rate of a target that answers no more requests with twice the connections: the
/// number that it works on at a time, or a limit that delays. None where the second half of the
/// connections brought it no more requests: then a limit of this client was tested, and not the
/// target.
pub(super) fn ceiling(report: &Report) -> Option<Finding> {
    let (alone, twice) = (
        report.experiment(Change::OneConnection)?,
        report.experiment(Change::TwiceTheConnections)?,
    );
    let (per_s, at_a_time) = (report.answered_per_s(), report.worked_on_at_a_time()?);
    let in_target = per_s * report.at_target_us()?;
    let (alone_us, connections) = (alone.mean_us?, report.plan.run.in_flight());
    let has_ceiling = !reaches_its_rate(report)
        && twice.answered_per_s <= per_s * limits::GROWS
        && twice.answered_per_s * twice.mean_us? > in_target * limits::GROWS
        && has_queue(report)
        && alone_us >= limits::WORK_US
        && twice.answered >= limits::CLOCKED
        && share(twice.failed as f64, twice.answered as f64) < limits::FEW_FAIL;
    if !has_ceiling {
        return None;
    }
    let works_on_few = Finding::WorksOnFew {
        at_a_time: at_a_time.round().max(1.0),
        per_s,
        connections,
        alone_us,
    };
    let cores = report.target_cores();
    if cores.is_some_and(|cores| cores >= at_a_time * limits::BUSY) {
        return Some(works_on_few);
    }
    let (is_limit, is_work) = if at_a_time < limits::SEVERAL {
        let third = report.experiment(Change::ThirdOfTheRate)?;
        let kept = third.p50_us? / alone.p50_us?;
        let is_one = limits::ONE.contains(&at_a_time);
        (kept < limits::UNHURRIED, kept >= limits::AS_SLOW && is_one)
    } else {
        let grown = report.experiment(Change::Waves)?.mean_us? / alone_us;
        (grown > limits::IN_WAVES, grown < limits::TOGETHER)
    };
    let limit = is_limit.then_some(Finding::DelayingLimit { per_s, connections });
    limit.or_else(|| is_work.then_some(works_on_few))
}

/// A part of the response time that is most of it, where nothing of the target explains it and an
/// experiment may.
pub(super) fn mostly_one_part(report: &Report) -> Option<Finding> {
    next_experiment(report).filter(|_| report.experiments.is_empty() && report.merged.is_none())?;
    let is_explained = target_side(report).is_ok_and(|found| !found.is_empty());
    if is_explained || report.totals.throttled > 0 {
        return None;
    }
    let service_us = report.mean_us(Series::ServiceOk)?;
    let target = report.split.as_ref();
    let parts = [
        (TimePart::Body, report.mean_us(Series::Body), service_us),
        (
            TimePart::Target,
            target.map(|split| split.target_us),
            target.map_or(service_us, |split| split.response_us),
        ),
    ];
    parts.into_iter().find_map(|(part, us, whole_us)| {
        let (us, share) = (us?, share(us?, whole_us));
        (share >= limits::MOST_OF_TIME).then_some(Finding::MostlyOnePart { part, share, us })
    })
}

/// Bodies that come as much after their heads as Linux delays an acknowledgement, unless it does not.
pub(super) fn delayed_ack(report: &Report) -> Option<Finding> {
    let at_once = report.experiment(Change::ImmediateAcks)?;
    let body_us = report.body_us()?;
    (at_once.answered > 0 && at_once.body_us < body_us * limits::AT_ONCE).then_some(
        Finding::DelayedAck {
            body_us,
            at_once_us: at_once.body_us,
        },
    )
}

/// Clocks that the responses are in step with. Requests that go by a clock of their own prove
/// nothing, and neither do those of a closed loop whose times are whole periods: a tick is told of
/// requests at random times alone, those of an experiment if need be.
pub(super) fn clock(report: &Report) -> Option<Finding> {
    let plan = &report.plan.run;
    let of_run = report
        .in_step
        .filter(|_| report.binding.pause < limits::NOTABLE)
        .filter(|_| report.due_until_s() >= limits::CLOCKED_S);
    let at_random = match plan.arrivals {
        Arrivals::Poisson => of_run,
        _ => report
            .experiment(Change::ThirdOfTheRate)
            .filter(|third| third.duration_s >= limits::CLOCKED_EXPERIMENT_S)
            .and_then(|third| third.in_step),
    };
    let times = report.latency(Series::ServiceOk)?;
    let long_us = times.p99_us.or(times.max_us)?;
    let is_spread = times.min_us? < long_us * limits::SPREAD;
    let is_free = match plan.arrivals {
        Arrivals::Poisson => true,
        Arrivals::Asap => plan.rate.is_none() && is_spread,
        _ => false,
    };
    // What is in step with 100 ms is so with 10 ms, too.
    if let Some(share) = in_step(of_run.filter(|_| is_free), |in_step| in_step.of_100_ms) {
        return Some(Finding::InStep {
            period_ms: 100,
            share,
        });
    }
    let share = in_step(at_random, |in_step| in_step.of_10_ms);
    share.map(|share| Finding::InStep {
        period_ms: 10,
        share,
    })
}

/// How far responses are in step with a clock, if they are, and there are enough of them.
fn in_step(of: Option<InStep>, clock: fn(&InStep) -> f64) -> Option<f64> {
    let of = of.filter(|of| of.answers >= limits::CLOCKED)?;
    Some(clock(&of)).filter(|share| *share >= limits::IN_STEP)
}

/// What the slowest responses have in common, the most telling of it.
pub(super) fn in_common(report: &Report) -> Option<Finding> {
    let row = report.traits.first()?;
    Some(Finding::SlowestInCommon {
        what: row.in_words(),
        slowest: row.slowest,
        slow_share: row.slow_share,
        others_share: row.others_share,
    })
}

/// A limit that refuses: as many good responses in each second, however many requests were sent.
pub(super) fn refusal(report: &Report) -> Option<Finding> {
    let counted = report.measured().requests;
    let refused = counted.rejected_by_status.values().sum::<u64>() + counted.throttled;
    if share(refused as f64, counted.attempts as f64) < limits::REFUSED
        || report.binding.pause >= limits::NOTABLE
    {
        return None;
    }
    let whole_s = report.due_until_s().floor();
    let seconds: Vec<&IntervalRow> = report
        .intervals
        .iter()
        .filter(|row| ((row.start_s + 1) as f64) <= whole_s)
        .collect();
    let (first, later) = seconds.split_first()?;
    let good = |row: &IntervalRow| (row.ok + row.not_found) as f64;
    let accepted = Evenness::of(later.iter().map(|row| good(row)));
    let sent = Evenness::of(later.iter().map(|row| row.attempts as f64));
    let burst = (good(first) - accepted.mean).max(0.0);
    let has_burst = burst >= f64::max(limits::BURST, accepted.mean * limits::BURST_SHARE);
    let is_even = later.len() >= limits::EVEN_SECONDS
        && accepted.mean >= limits::BURST
        && accepted.dispersion <= limits::EVEN
        && (has_burst || sent.dispersion > limits::UNEVEN);
    is_even.then_some(Finding::RefusingLimit {
        per_s: accepted.mean,
        burst: if has_burst { burst } else { 0.0 },
    })
}

/// What the target's processes waited for, by the kernel of their machine.
pub(super) fn target_side(report: &Report) -> Result<Vec<Finding>, Missing> {
    let target = report
        .target
        .as_ref()
        .filter(|target| target.ended.is_none())
        .ok_or(Missing::NoProbe)?;
    let mut found = Vec::new();
    // More than there is was not the target's, or not for requests.
    if let Some(split) = target.split.as_ref().filter(|split| split.rest_us >= 0.0) {
        let (service_us, run_queue_us) = (split.service_us, split.run_queue_us.unwrap_or(0.0));
        let periods_share = target.throttled_periods_share.unwrap_or(0.0);
        let least_share = if split.throttled_us >= service_us * limits::NOTABLE {
            limits::NOTABLE
        } else {
            limits::MOSTLY_THROTTLED
        };
        if periods_share >= least_share {
            found.push(Finding::TargetThrottled {
                throttled_us: split.throttled_us,
                service_us,
                periods_share,
            });
        }
        if run_queue_us >= f64::max(service_us * limits::TARGET_WAITS, limits::TARGET_WAITS_US) {
            found.push(Finding::TargetWaits {
                run_queue_us,
                service_us,
            });
        }
    }
    let cores = report.target_cores().unwrap_or(0.0);
    let thread = target.busiest_thread.as_ref();
    let cpus = target.cpus.len();
    let is_full = cpus > 0 && cores >= cpus as f64 * limits::TARGET_FULL;
    if is_full || thread.is_some_and(|thread| thread.share >= limits::TARGET_FULL) {
        found.push(Finding::TargetCpuFull {
            cores,
            cpus,
            thread_share: thread.map(|thread| thread.share),
        });
    }
    let connections = report.plan.run.connections;
    if let Some(queue) = &target.accept_queue {
        if let Some(drops @ 1..) = queue.drops {
            found.push(Finding::ListenDrops {
                drops,
                limit: queue.limit,
            });
        }
        let least = f64::max(1.0, f64::from(connections) * limits::WAIT_TO_BE_ACCEPTED);
        // Those that are opened for each request wait a little, each of them.
        if queue.mean >= least && report.keeps_connections() {
            found.push(Finding::ConnectionsNotAccepted {
                waiting: queue.mean,
                connections,
            });
        }
    }
    Ok(found)
}

/// Counts of seconds: their mean, and their variance over their mean, which is 1 of a Poisson
/// process (index of dispersion).
struct Evenness {
    mean: f64,
    dispersion: f64,
}

impl Evenness {
    fn of(counts: impl Iterator<Item = f64> + Clone) -> Self {
        let n = counts.clone().count() as f64;
        let mean = share(counts.clone().sum(), n);
        let squares: f64 = counts.map(|count| (count - mean).powi(2)).sum();
        Self {
            mean,
            dispersion: share(share(squares, n - 1.0), mean),
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of tests are small and positive"
)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::judge::next_experiment;
    use crate::run::report::{Experiment, TargetReport};

    /// Read at run time: the package of this crate is without it.
    static EXAMPLE: LazyLock<Report> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/example/result.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    });

    /// A closed loop of 10 s at so many responses per second, without experiments.
    fn run(per_s: f64, connections: u32) -> Report {
        let mut report = EXAMPLE.clone();
        report.plan.run.rate = None;
        report.plan.run.arrivals = Arrivals::Asap;
        (report.plan.run.connections, report.plan.run.streams) = (connections, 1);
        (report.totals.duration_s, report.ledger.not_found) = (10.0, 0);
        report.ledger.ok = (per_s * 10.0).round() as u64;
        let times = report.latency.get_mut(Series::ServiceOk.name()).unwrap();
        times.mean_us = Some(f64::from(connections) / per_s * 1e6);
        report.in_step = None;
        report
    }

    fn experiment(change: Change, per_s: f64, us: f64) -> Experiment {
        Experiment {
            change,
            connections: 1,
            rate_per_s: None,
            duration_s: 2.0,
            answered: (per_s * 2.0).round() as u64,
            failed: 0,
            answered_per_s: per_s,
            mean_us: Some(us),
            p50_us: Some(us),
            body_us: 0.0,
            in_step: None,
        }
    }

    #[test]
    fn a_worker_that_is_slower_at_one_time_than_at_another_is_no_limit() {
        let told = |cores: f64| {
            let mut report = run(200.0, 24);
            report.plan.run.warmup = std::time::Duration::ZERO;
            let cpu_us = Some(cores * 1e6 * report.totals.duration_s);
            report.target = Some(TargetReport {
                cpu_us,
                ..TargetReport::default()
            });
            report.experiments = vec![
                experiment(Change::OneConnection, 200.0, 5_000.0),
                experiment(Change::TwiceTheConnections, 200.0, 240_000.0),
                experiment(Change::ThirdOfTheRate, 66.0, 2_000.0),
            ];
            ceiling(&report)
        };
        let (idle, busy) = (told(0.1), told(0.9));
        assert!(matches!(idle, Some(Finding::DelayingLimit { .. })));
        assert!(matches!(busy, Some(Finding::WorksOnFew { .. })));
    }

    #[test]
    fn a_worker_that_would_answer_more_requests_than_the_target_does_is_none() {
        let told = |alone_us| {
            let mut report = run(100.0, 16);
            report.plan.run.warmup = std::time::Duration::ZERO;
            report.target = None;
            report.experiments = vec![
                experiment(Change::OneConnection, 1e6 / alone_us, alone_us),
                experiment(Change::TwiceTheConnections, 100.0, 320_000.0),
                experiment(Change::ThirdOfTheRate, 33.0, alone_us),
            ];
            ceiling(&report)
        };
        assert!(matches!(told(10_000.0), Some(Finding::WorksOnFew { .. })));
        assert!(told(6_000.0).is_none());
    }

    #[test]
    fn a_target_whose_requests_take_as_long_alone_has_no_queue() {
        let told = |alone_us| {
            let mut report = run(100.0, 16);
            report.plan.run.warmup = std::time::Duration::ZERO;
            report.target = None;
            report.experiments = vec![
                experiment(Change::OneConnection, 1e6 / alone_us, alone_us),
                experiment(Change::TwiceTheConnections, 100.0, 320_000.0),
            ];
            let asked = next_experiment(&report);
            let waves = experiment(Change::Waves, 100.0, alone_us * 9.0);
            report.experiments.push(waves);
            (asked, ceiling(&report).is_some())
        };
        assert_eq!(told(80_000.0), (Some(Change::Waves), true));
        assert_eq!(told(150_000.0), (None, false));
    }

    #[test]
    fn nothing_is_asked_of_a_run_that_was_stopped_or_that_got_its_rate() {
        let ask = |change: fn(&mut Report)| {
            let mut report = run(400.0, 32);
            change(&mut report);
            next_experiment(&report)
        };
        assert_eq!(ask(|_| {}), Some(Change::OneConnection));
        assert_eq!(ask(|report| report.interrupted = true), None);
        assert_eq!(ask(|report| report.ledger.ok = 50), None);
        assert_eq!(
            ask(|report| report.plan.run.rate = "450/s".parse().ok()),
            None
        );
        assert_eq!(
            ask(|report| report.plan.run.rate = "900/s".parse().ok()),
            Some(Change::OneConnection)
        );
    }

    #[test]
    fn a_part_that_is_most_of_the_time_is_named_until_something_explains_it() {
        let body = |share: f64, change: fn(&mut Report)| {
            let mut report = run(100.0, 8);
            (report.target, report.split, report.totals.throttled) = (None, None, 0);
            let mut times = report.latency(Series::ServiceOk).unwrap().clone();
            let service_us = times.mean_us.unwrap();
            (times.mean_us, times.p50_us) = (Some(service_us * share), Some(1.0));
            report.latency.insert(Series::Body.name().to_owned(), times);
            change(&mut report);
            mostly_one_part(&report).map(|it| it.kind())
        };
        let named = Some(crate::judge::FindingKind::MostlyOnePart);
        assert_eq!([body(0.61, |_| {}), body(0.59, |_| {})], [named, None]);
        assert_eq!(body(0.9, |it| it.totals.throttled = 9), None);
        let full = |it: &mut Report| {
            it.target = Some(TargetReport {
                cpus: vec![0],
                cpu_us: Some(it.totals.duration_s * 1e6),
                ..TargetReport::default()
            });
            it.plan.run.warmup = std::time::Duration::ZERO;
        };
        assert_eq!(body(0.9, full), None);
        assert_eq!(
            body(0.9, |it| it.plan.run.rate = "100/s".parse().ok()),
            None
        );
        assert_eq!(
            body(0.9, |it| it.experiments.push(experiment(
                Change::OneConnection,
                9.0,
                9.0
            ))),
            None
        );
    }

    #[test]
    fn a_limit_that_refuses_answers_as_many_in_each_second_however_many_are_sent() {
        let refused = |good: &dyn Fn(u64) -> u64, sent: &dyn Fn(u64) -> u64| {
            let mut report = run(100.0, 8);
            (report.warmup, report.binding.pause) = (None, 0.0);
            report.intervals = (0..10)
                .map(|second| {
                    let mut row = IntervalRow {
                        start_s: second,
                        ..IntervalRow::default()
                    };
                    (row.counts.ok, row.counts.attempts) = (good(second), sent(second));
                    row
                })
                .collect();
            let all: u64 = (0..10).map(sent).sum();
            report.totals.requests.attempts = all;
            report.totals.requests.rejected_by_status = [(503, all / 2)].into();
            report.plan.run.duration = None;
            refusal(&report)
        };
        let uneven = |second| 4_000 + second * 100;
        let found = refused(&|second| if second == 0 { 120 } else { 100 }, &uneven);
        assert_eq!(
            found,
            Some(Finding::RefusingLimit {
                per_s: 100.0,
                burst: 20.0
            })
        );
        // Some fail at random; or as many are sent in each second.
        assert_eq!(refused(&|second| 90 + second * 7 % 20, &uneven), None);
        assert_eq!(refused(&|_| 100, &|_| 200), None);
    }

    #[test]
    fn a_clock_is_told_of_times_that_are_not_its_own() {
        let in_step = |of_10_ms, of_100_ms| {
            Some(InStep {
                answers: 1_000,
                of_10_ms,
                of_100_ms,
            })
        };
        let told = |arrivals, clocks, least_us| {
            let mut report = run(100.0, 8);
            report.plan.run.arrivals = arrivals;
            (report.in_step, report.binding.pause) = (clocks, 0.0);
            let times = report.latency.get_mut(Series::ServiceOk.name()).unwrap();
            (times.min_us, times.p99_us) = (Some(least_us), Some(100_000.0));
            clock(&report)
        };
        let quota = Some(Finding::InStep {
            period_ms: 100,
            share: 0.9,
        });
        assert_eq!(told(Arrivals::Asap, in_step(0.9, 0.9), 5_000.0), quota);
        // A target that sleeps for 100 ms; one that ticks, asked in a closed loop; timers of this client.
        assert_eq!(told(Arrivals::Asap, in_step(0.9, 0.9), 99_000.0), None);
        assert_eq!(told(Arrivals::Asap, in_step(0.9, 0.0), 5_000.0), None);
        assert_eq!(told(Arrivals::Constant, in_step(0.9, 0.9), 5_000.0), None);
        // All responses of a run of 20 ms are in step.
        let mut short = run(50_000.0, 8);
        (short.in_step, short.totals.duration_s) = (in_step(1.0, 1.0), 0.02);
        short.binding.pause = 0.0;
        let times = short.latency.get_mut(Series::ServiceOk.name()).unwrap();
        (times.min_us, times.p99_us) = (Some(500.0), Some(20_000.0));
        assert_eq!(clock(&short), None);
        let tick = Some(Finding::InStep {
            period_ms: 10,
            share: 0.9,
        });
        assert_eq!(told(Arrivals::Poisson, in_step(0.9, 0.0), 9_000.0), tick);
    }
}
