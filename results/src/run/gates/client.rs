//! The client's own part of a broken threshold: a threshold has failed only if it is broken without.

use super::{Condition, Measured, Metric, Op, Quantity, Stat, Unit, is_response};
use crate::run::report::{GateReport, Report, Verdict};
use crate::show::text::in_unit;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Series;

/// Quantiles of the client's delays to try: which one leaves most of the times is not known before.
const TRIED: [f64; 6] = [1.0, 0.999, 0.995, 0.99, 0.95, 0.9];

/// Leave a failed threshold undecided that the client's own delays may have broken.
pub(super) fn excuse(condition: &Condition, gate: GateReport, report: &Report) -> GateReport {
    let of_client = [Verdict::ClientLimited, Verdict::Disturbed];
    let is_doubtful = report
        .validity
        .verdicts
        .iter()
        .any(|it| of_client.contains(it));
    let value = gate.value.filter(|_| gate.ok == Some(false) && is_doubtful);
    let best = value.and_then(|value| match condition.op {
        Op::Less | Op::AtMost => match condition.metric {
            Metric::Of(Quantity::ErrorRate) => Some(least_errors(value, report)),
            _ => least_us(condition, value, report),
        },
        // How many requests a client would have sent that was not late is not known.
        Op::More | Op::AtLeast => is_of_pace(condition.metric, report).then_some(f64::INFINITY),
        Op::Equal | Op::Unequal => None,
    });
    let Some(best) = best.filter(|best| condition.judge(&Measured::Exactly(*best)) == Some(true))
    else {
        return gate;
    };
    let without = if best > 0.0 && best.is_finite() {
        format!(", without which it may be {}", in_unit(&gate.unit, best))
    } else {
        String::new()
    };
    GateReport {
        ok: None,
        why: Some(format!(
            "this client's own delays may have broken it{without}"
        )),
        ..gate
    }
}

/// True if a metric may be greater of a client that was not late. A count is not once all items are
/// done, unless a request timed out.
fn is_of_pace(metric: Metric, report: &Report) -> bool {
    let ledger = &report.ledger;
    let is_all = !ledger.has_more() && ledger.aborted == 0 && timeouts(report) == 0;
    match metric.unit() {
        Unit::PerS => true,
        Unit::Count => !is_all,
        // Of what met the objectives, too few may be for the client's delays.
        Unit::Share => [Quantity::RateRatio, Quantity::GoodputShare]
            .map(Metric::Of)
            .contains(&metric),
        Unit::Us | Unit::Flag => false,
    }
}

fn timeouts(report: &Report) -> u64 {
    let requests = &report.measured().requests;
    requests.errors_of(ErrorKind::Timeout) + requests.errors_of(ErrorKind::ConnectTimeout)
}

/// Return the least that the times of requests can be without the client's delays, µs. A share of
/// `1 - p` of the requests was sent later, and as many were read later, than the p-quantiles of
/// these delays, whichever they were; so the `q - 2 (1 - p)`-quantile of the times less both is a
/// lower bound of the q-quantile of the target's. None of them lay unread for longer than the
/// event loop stood still.
fn least_us(condition: &Condition, value_us: f64, report: &Report) -> Option<f64> {
    let Metric::Time(series, stat) = condition.metric else {
        return None;
    };
    condition.metric.is_corrected(report.plan.run.arrivals)?;
    let mut least_us = least_by_minimum(condition, report).unwrap_or(0.0).max(0.0);
    for p in TRIED {
        let time_us = match stat {
            _ if p >= 1.0 => Some(value_us),
            Stat::Percentile(q) if is_of_run(condition) => {
                quantile_us(report, series, q.part() - 2.0 * (1.0 - p))
            }
            _ => None,
        };
        if let Some((time_us, delay_us)) = time_us.zip(delays_us(series, p, report)) {
            least_us = least_us.max(time_us - delay_us);
        }
    }
    Some(least_us)
}

/// True if a condition is about all requests. Of those of a window, a group or a stage, more may
/// have been late than of all.
const fn is_of_run(condition: &Condition) -> bool {
    condition.window.is_none() && condition.group.is_none()
}

/// Return the same by the least of the times: `2p - 1` of the requests had no longer delays than the
/// p-quantiles, and took the target no less than the least of all times without these; so did its
/// `2 (1 - p)`-quantile.
fn least_by_minimum(condition: &Condition, report: &Report) -> Option<f64> {
    let Metric::Time(series, Stat::Percentile(q)) = condition.metric else {
        return None;
    };
    let delays_us = delays_us(series, 1.0 - q.part() / 2.0, report)?;
    let least_us = report.latency(series)?.min_us?;
    is_of_run(condition).then_some(least_us - delays_us)
}

/// Return the p-quantiles of the times that requests were sent and read late, added; of `p` 1, the
/// longest time in which the event loop stood still in place of the second.
fn delays_us(series: Series, p: f64, report: &Report) -> Option<f64> {
    let read = if p < 1.0 {
        Series::ReceiveDelay
    } else {
        Series::LoopLag
    };
    let sent_us = if is_response(series) || series == Series::Item {
        delay_us(report, Series::SchedLag, p)?
    } else {
        0.0
    };
    Some(sent_us + delay_us(report, read, p)?)
}

/// Values of a sample that must lie beyond a quantile for its greatest to be no less: it is in 95 %
/// of all samples.
const BEYOND: f64 = 3.0;

/// Return the p-quantile of a delay, or if that has too few values beyond it, the greatest, which is
/// no less. The delays of reading are those of one request in 64.
fn delay_us(report: &Report, series: Series, p: f64) -> Option<f64> {
    let times = report.latency(series)?;
    let is_enough = series != Series::ReceiveDelay || times.count as f64 * (1.0 - p) >= BEYOND;
    quantile_us(report, series, p).or_else(|| times.max_us.filter(|_| is_enough))
}

/// Return the least that the share of errors can be without the client's delays: that of a run in
/// which nothing timed out. An item fails of one timeout at least, so that no fewer items than
/// attempts may be spared it.
fn least_errors(share: f64, report: &Report) -> f64 {
    let begun = report.measured().items.begun().max(1);
    (share - timeouts(report) as f64 / begun as f64).max(0.0)
}

fn quantile_us(report: &Report, series: Series, q: f64) -> Option<f64> {
    let times = report.latency(series)?;
    if q >= 1.0 {
        return times.max_us;
    }
    times
        .distribution()
        .filter(|_| q > 0.0)?
        .percentile(q)
        .least_us()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::run::gates::{Breach, Objective, of_report};
    use crate::run::report::{Detail, Latency};
    use crawlmark_harness::fixtures::bounds;
    use crawlmark_harness::stats::Timing;

    static EXAMPLE: LazyLock<Report> = LazyLock::new(|| {
        serde_json::from_str(include_str!("../../../example/result.json")).unwrap()
    });

    /// Verdict on a ceiling of a run with these times, each the target's, a send delay and a read
    /// delay, ms.
    fn judged(text: &str, requests: &[[u64; 3]]) -> Option<bool> {
        judged_by(text, requests, 1)
    }

    /// The same with the read delay of one request in so many.
    fn judged_by(text: &str, requests: &[[u64; 3]], each: usize) -> Option<bool> {
        let mut report = EXAMPLE.clone();
        report.validity.verdicts = vec![Verdict::Disturbed];
        let mut add = |series: Series, part: fn(&[u64; 3]) -> u64| {
            let mut timing = Timing::new(bounds());
            let is_sampled = series == Series::ReceiveDelay;
            requests
                .iter()
                .step_by(if is_sampled { each } else { 1 })
                .map(part)
                .for_each(|ms| timing.record(ms * 1_000_000));
            let times = Latency::of_timing(&timing, Detail::Histogram);
            report.latency.insert(series.name().to_owned(), times);
        };
        add(Series::ResponseOk, |of| of.iter().sum());
        add(Series::SchedLag, |of| of[1]);
        add(Series::ReceiveDelay, |of| of[2]);
        add(Series::LoopLag, |of| of[1].max(of[2]));
        let condition: Condition = text.parse().unwrap();
        let objective = Objective {
            condition: condition.clone(),
            breach: Breach::Fails,
        };
        let seen = of_report(condition.metric, &report);
        assert!(matches!(seen, Measured::Exactly(_)), "{seen:?}");
        excuse(&condition, objective.row(&seen), &report).ok
    }

    #[test]
    fn errors_that_were_not_timeouts_break_a_threshold_whatever_the_client_did() {
        let judged = |verdict, kind| {
            let mut report = EXAMPLE.clone();
            report.validity.verdicts = vec![verdict];
            let counted = &mut report.totals.requests;
            let failed = counted.attempts / 10;
            counted.errors_by_kind = BTreeMap::from([(kind, failed)]);
            let condition: Condition = "error_rate < 1%".parse().unwrap();
            let objective = Objective {
                condition: condition.clone(),
                breach: Breach::Fails,
            };
            excuse(&condition, objective.row(&Measured::Exactly(0.1)), &report).ok
        };
        assert_eq!(judged(Verdict::Disturbed, ErrorKind::Timeout), None);
        assert_eq!(judged(Verdict::Disturbed, ErrorKind::Reset), Some(false));
        assert_eq!(judged(Verdict::Valid, ErrorKind::Timeout), Some(false));
    }

    #[test]
    fn a_count_of_all_items_is_broken_whatever_the_client_did() {
        let judged = |change: fn(&mut Report)| {
            let mut report = EXAMPLE.clone();
            report.validity.verdicts = vec![Verdict::Disturbed];
            let ledger = &mut report.ledger;
            (ledger.unfinished, ledger.not_attempted, ledger.aborted) = (0, 0, 0);
            report.totals.requests.errors_by_kind.clear();
            change(&mut report);
            let condition: Condition = "ok > 1000000000".parse().unwrap();
            let objective = Objective {
                condition: condition.clone(),
                breach: Breach::Fails,
            };
            let seen = of_report(condition.metric, &report);
            excuse(&condition, objective.row(&seen), &report).ok
        };
        assert_eq!(judged(|_| {}), Some(false));
        assert_eq!(judged(|report| report.ledger.not_attempted = 1), None);
        assert_eq!(judged(|report| report.ledger.aborted = 1), None);
        assert_eq!(
            judged(|report| {
                let kinds = &mut report.totals.requests.errors_by_kind;
                kinds.insert(ErrorKind::Timeout, 1);
            }),
            None
        );
    }

    #[test]
    fn a_client_that_is_late_now_and_then_does_not_excuse_a_target_that_is_never_quick() {
        let late = |of: u64| [[20, 0, 0], [20, 0, 200]][usize::from(of.is_multiple_of(3))];
        let requests: Vec<[u64; 3]> = (0..1_000).map(late).collect();
        assert_eq!(judged("response_p90 < 8ms", &requests), Some(false));
        assert_eq!(judged("response_p90 < 21ms", &requests), None);
    }

    #[test]
    fn few_requests_that_were_late_excuse_no_median_of_all_though_few_read_delays_are_known() {
        let late = |of: u64| [[20, 0, 0], [20, 80, 0]][usize::from(of.is_multiple_of(50))];
        let requests: Vec<[u64; 3]> = (0..2_000).map(late).collect();
        for (text, verdict) in [
            ("response_p50 < 10ms", Some(false)),
            ("response_p50{stage=1} < 10ms", None),
            ("response_p50 < 100ms", Some(true)),
        ] {
            assert_eq!(judged_by(text, &requests, 64), verdict, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_stays_failed_the_target_breaks_without_the_client(
            seed in any::<u64>(), limit in 5_u64..120, late in 0_u64..100, burst in 1_u64..400,
        ) {
            let draw = |n: u64, at: u64| (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) % at.max(1);
            let requests: Vec<[u64; 3]> = (0..10_000)
                .map(|n| {
                    let is_late = n % burst == 0;
                    [1 + draw(n, 50), if is_late { draw(n, late) } else { 0 }, if is_late { draw(n + 7, late) } else { 0 }]
                })
                .collect();
            let text = format!("response_p99 < {limit}ms");
            let mut alone: Vec<u64> = requests.iter().map(|of| of[0]).collect();
            alone.sort_unstable();
            let is_broken_alone = alone[9_899] >= limit;
            match judged(&text, &requests) {
                Some(false) => prop_assert!(is_broken_alone),
                // What holds with the client's delays holds without.
                Some(true) => prop_assert!(!is_broken_alone),
                None => {}
            }
            let calm: Vec<[u64; 3]> = requests.iter().map(|of| [of[0], 0, 0]).collect();
            prop_assert_eq!(judged(&text, &calm), Some(!is_broken_alone));
        }
    }
}
