//! Find objectives that cannot pass in a planned run for lack of samples.

use std::fmt;

use super::{Condition, Metric, Objective, Stat};
use crate::run::report::{offered, stage_name};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, whole};

/// An objective that needs more samples than its run can make. Displayed as a warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortage {
    condition: Condition,
    /// Samples needed to pass.
    needed: u64,
    /// Samples that the run makes at most.
    most: u64,
}

impl Objective {
    /// Return the shortage that keeps this objective from passing; none if it can pass.
    pub fn shortage(&self, plan: &RunPlan) -> Option<Shortage> {
        let condition = &self.condition;
        let needed = match condition.metric {
            // A whole run is judged at its end, where a mean or a share needs one sample only.
            metric @ Metric::Time(_, Stat::Percentile(_)) => metric.samples_of_part(),
            metric if condition.window.is_some() => metric.samples_of_part(),
            _ => 0,
        };
        let most = most_samples(condition, plan)?;
        (most < needed).then_some(Shortage {
            condition: condition.clone(),
            needed,
            most,
        })
    }
}

/// Samples of a condition that its run can make; none where they are no requests.
fn most_samples(condition: &Condition, plan: &RunPlan) -> Option<u64> {
    let each = match condition.metric.series() {
        Some(Series::LoopLag | Series::ReceiveDelay | Series::EventGap) => return None,
        Some(Series::ServiceOk | Series::ResponseOk | Series::Item) | None => 1,
        Some(_) => u64::from(plan.throttling.retries) + 1,
    };
    let start_s = plan.warmup.as_secs_f64();
    let windowed = condition.window.zip(plan.rate);
    let on_schedule = match (windowed, plan.duration) {
        (Some((window, rate)), _) => rate.per_second() * window.seconds() as f64,
        (None, Some(duration)) if plan.rate.is_some() => {
            let end_s = duration.as_secs_f64().max(start_s);
            let (from_s, to_s) = stage_s(condition, plan).unwrap_or((start_s, end_s));
            offered(plan, from_s, to_s)
        }
        _ => f64::INFINITY,
    };
    // The first is due at once.
    let timed = whole((on_schedule + plan.burst as f64).ceil());
    Some(timed.min(plan.items().saturating_mul(each)))
}

/// Begin and end of the stage that a condition is of, s after the start; none of others.
fn stage_s(condition: &Condition, plan: &RunPlan) -> Option<(f64, f64)> {
    let group = condition.group.as_ref()?;
    let run_s = plan.duration?.as_secs_f64();
    let mut stages = (1..).zip(plan.shape.times_s(run_s));
    let of_group = stages.find(|(number, _)| stage_name(number) == *group);
    of_group.map(|(_, time)| time)
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, remedy) = match (&self.condition.window, &self.condition.group) {
            (Some(_), _) => ("a window of this run", "a longer window"),
            (None, Some(_)) => ("its group", "a longer run (-n, -d)"),
            (None, None) => ("this run", "a longer run (-n, -d)"),
        };
        write!(
            f,
            "{} needs {} samples and {place} makes at most {}, so it cannot pass. Use {remedy}, or a lower percentile",
            self.condition,
            grouped(self.needed),
            grouped(self.most)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::gates::Breach;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::plan::Arrivals;
    use crawlmark_harness::units::{IdRange, Rate, ShapedRate};

    /// Samples needed and made of a closed loop of so many items, at a rate for so long if one is
    /// given, with a second of warm-up.
    fn shortage(text: &str, items: u64, paced: Option<(u64, u64)>) -> Option<(u64, u64)> {
        let mut plan = plan();
        plan.ids = IdRange {
            start: 0,
            end: items,
        };
        (plan.rate, plan.duration, plan.warmup) = (None, None, Duration::ZERO);
        if let Some((permits, seconds)) = paced {
            plan.rate = Some(Rate {
                permits,
                period_ns: 1_000_000_000,
            });
            plan.arrivals = Arrivals::Constant;
            plan.burst = 0;
            plan.duration = Some(Duration::from_secs(seconds));
            plan.warmup = Duration::from_secs(1);
        }
        let objective = Objective {
            condition: text.parse().unwrap(),
            breach: Breach::Fails,
        };
        let shortage = objective.shortage(&plan)?;
        Some((shortage.needed, shortage.most))
    }

    #[test]
    fn a_stage_has_the_samples_of_its_own_time() {
        let mut plan = plan();
        let rate: ShapedRate = "2000/s@10s, 100/s@10s".parse().unwrap();
        (plan.rate, plan.shape, plan.burst) = (Some(rate.peak), rate.shape, 0);
        (plan.arrivals, plan.warmup) = (Arrivals::Constant, Duration::ZERO);
        plan.duration = Some(Duration::from_secs(20));
        plan.ids.end = 1 << 40;
        let samples = |text: &str| {
            let condition: Condition = text.parse().unwrap();
            let breach = Breach::Fails;
            let shortage = Objective { condition, breach }.shortage(&plan)?;
            Some((shortage.needed, shortage.most))
        };
        assert_eq!(samples("service_p99{stage=1} < 1s"), None);
        assert_eq!(samples("service_p99{stage=2} < 1s"), Some((10_000, 1_000)));
        assert_eq!(samples("service_p99 < 1s"), None);
    }

    #[test]
    fn items_a_rate_and_a_duration_bound_the_samples() {
        const MANY: u64 = 1 << 40;
        for (text, items, paced, few) in [
            ("service_p99 < 1s", 2_000, None, Some((10_000, 2_000))),
            ("service_p99 < 1s", 10_000, None, None),
            ("service_p95 < 1s", 2_000, None, None),
            ("service_p50 < 1s", 199, None, Some((200, 199))),
            ("service_max < 1s", 1, None, None),
            (
                "response_p99 < 1s",
                MANY,
                Some((500, 11)),
                Some((10_000, 5_000)),
            ),
            ("response_p99 < 1s", MANY, Some((500, 21)), None),
            (
                "response_p99 < 1s",
                1_000,
                Some((500, 11)),
                Some((10_000, 1_000)),
            ),
            (
                "response_p99[10s] < 1s",
                MANY,
                Some((500, 60)),
                Some((10_000, 5_000)),
            ),
            ("event_gap_p99 < 1s", 2, None, None),
            ("error_rate[1s] < 1%", MANY, Some((50, 60)), Some((100, 50))),
            ("error_rate < 1%", 50, None, None),
        ] {
            assert_eq!(shortage(text, items, paced), few, "{text}");
        }
    }
}
