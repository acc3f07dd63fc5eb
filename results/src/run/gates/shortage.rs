//! Find objectives that cannot pass in a planned run for lack of samples.

use std::fmt;
use std::time::Duration;

use super::measured::{SAMPLES_BEYOND, SAMPLES_LIVE};
use super::{Condition, Metric, Objective, Quantile, Quantity, Stat, Window};
use crate::run::report::offered;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::grouped;

/// The longest duration worth suggesting: a longer run is another run.
const LONGEST: Duration = Duration::from_hours(24);

/// An objective that needs more samples than its run can make. Displayed as a warning that says
/// what would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortage {
    condition: Condition,
    /// Samples needed to pass.
    needed: u64,
    /// Samples that the run makes at most.
    most: u64,
    /// Remedies, each a phrase.
    remedies: Vec<String>,
}

impl Objective {
    /// Return the shortage that keeps this objective from passing; none if it can pass.
    #[must_use]
    pub fn shortage(&self, plan: &RunPlan) -> Option<Shortage> {
        let Condition { metric, window, .. } = self.condition;
        // A whole run is judged at its end, where a share needs one attempt only.
        let is_part = window.is_some();
        let needed = match metric {
            Metric::Time(_, stat @ Stat::Percentile(_)) => stat.samples_of_part(),
            Metric::Time(_, stat @ Stat::Mean) if is_part => stat.samples_of_part(),
            Metric::Of(
                Quantity::ThrottledRate
                | Quantity::ErrorRate
                | Quantity::RetryRate
                | Quantity::OkRate,
            ) if is_part => SAMPLES_LIVE,
            _ => return None,
        };
        let supply = Supply::of(metric, window, plan)?;
        let most = supply.items.min(supply.timed);
        (most < needed).then(|| Shortage {
            condition: self.condition,
            needed,
            most,
            remedies: supply.remedies((&self.condition, needed), plan),
        })
    }
}

/// Samples that a run can make of a metric.
struct Supply {
    /// As its items allow.
    items: u64,
    /// As its rate and its time allow.
    timed: u64,
    /// Samples per item: more than one where retries count.
    each: u64,
    /// Samples per second, by its rate; none without one.
    per_s: Option<f64>,
}

impl Supply {
    /// None for a metric whose samples are not requests.
    fn of(metric: Metric, window: Option<Window>, plan: &RunPlan) -> Option<Self> {
        let each = match metric.series() {
            Some(Series::LoopLag | Series::ReceiveDelay) => return None,
            Some(Series::ServiceOk | Series::ResponseOk | Series::Item) | None => 1,
            Some(_) => u64::from(plan.throttling.retries) + 1,
        };
        let measured = plan
            .duration
            .map(|duration| duration.saturating_sub(plan.warmup).as_secs_f64());
        let windowed = window.map(|window| window.seconds() as f64);
        let timed = match (plan.rate, windowed.or(measured)) {
            (Some(rate), Some(_)) if windowed.is_some() => {
                Some(rate.per_second() * windowed.unwrap_or_default() + plan.burst as f64)
            }
            (Some(_), Some(seconds)) => {
                let start = plan.warmup.as_secs_f64();
                Some(offered(plan, start, start + seconds) + plan.burst as f64)
            }
            _ => None,
        };
        Some(Self {
            items: plan.items().saturating_mul(each),
            timed: timed.map_or(u64::MAX, whole),
            each,
            per_s: plan.rate.map(|rate| rate.per_second()),
        })
    }

    /// Remedies: flags that give enough samples with a tenth to spare, as some requests may fail,
    /// or a lower percentile that needs no more than there are.
    fn remedies(&self, (condition, needed): (&Condition, u64), plan: &RunPlan) -> Vec<String> {
        let mut more = Vec::new();
        let ample = needed + needed.div_ceil(10);
        if self.items < needed {
            more.push(format!("-n {}", ample.div_ceil(self.each)));
        }
        if let Some(per_s) = self.per_s.filter(|_| self.timed < needed) {
            let seconds = ample as f64 / per_s;
            if condition.window.is_some() {
                let seconds = whole(seconds.ceil());
                more.extend(Window::new(seconds).map(|_| format!("a window of [{seconds}s]")));
            } else {
                // Tenths of a second: rounded up to a whole one, 2.2 s would be 3 s, although 2 s
                // are nearly enough.
                let tenths = whole(
                    (plan.warmup.as_secs_f64() + seconds)
                        .mul_add(10.0, -1e-6)
                        .ceil(),
                );
                let duration = Duration::from_millis(tenths.saturating_mul(100));
                more.extend(
                    (duration <= LONGEST).then(|| format!("-d {}s", duration.as_secs_f64())),
                );
            }
        }
        let lower = match condition.metric {
            Metric::Time(series, Stat::Percentile(quantile)) => {
                let most = self.items.min(self.timed);
                let fits = |lower: &Quantile| {
                    lower.part() < quantile.part() && lower.samples_for(SAMPLES_BEYOND) <= most
                };
                let lower = (50..100)
                    .rev()
                    .filter_map(|percent| Quantile::named(&format!("p{percent}")))
                    .find(fits);
                lower.map(|lower| Metric::Time(series, Stat::Percentile(lower)).to_string())
            }
            _ => None,
        };
        let more = (!more.is_empty()).then(|| more.join(" and "));
        more.into_iter().chain(lower).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and nothing is negative"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            condition,
            needed,
            most,
            remedies,
        } = self;
        let where_ = if condition.window.is_some() {
            "a window of this run"
        } else {
            "this run"
        };
        let (needed, most) = (grouped(*needed), grouped(*most));
        write!(
            f,
            "{condition} needs {needed} samples and {where_} makes at most {most}, so it cannot pass"
        )?;
        match remedies.as_slice() {
            [] => Ok(()),
            remedies => write!(f, ". Use {}", remedies.join(", or ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::gates::Breach;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::plan::Arrivals;
    use crawlmark_harness::units::{IdRange, Rate};

    /// A closed loop of so many items, at a rate for so long if one is given, with a second of
    /// warm-up.
    fn shortage(text: &str, items: u64, paced: Option<(u64, u64)>) -> Option<String> {
        let mut plan = plan();
        plan.ids = IdRange {
            start: 0,
            end: items,
        };
        (plan.rate, plan.duration, plan.warmup) = (None, None, Duration::ZERO);
        if let Some((per_s, seconds)) = paced {
            plan.rate = Some(Rate {
                permits: per_s,
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
        objective
            .shortage(&plan)
            .map(|shortage| shortage.to_string())
    }

    #[test]
    fn a_percentile_of_too_few_items_is_reported_with_what_would_do() {
        assert_eq!(
            shortage("service_p99 < 250ms", 2_000, None).as_deref(),
            Some(
                "service_p99 < 250ms needs 10,000 samples and this run makes at most 2,000, so it cannot pass. \
                 Use -n 11000, or service_p95"
            )
        );
        assert_eq!(shortage("service_p99 < 250ms", 10_000, None), None);
        assert_eq!(shortage("service_p95 < 250ms", 2_000, None), None);
        assert_eq!(shortage("service_max < 250ms", 1, None), None);
        assert!(
            shortage("service_p50 < 250ms", 199, None)
                .unwrap()
                .ends_with("Use -n 220")
        );
    }

    #[test]
    fn a_rate_and_a_duration_bound_the_samples_too() {
        assert_eq!(
            shortage("response_p99 < 250ms", 100_000_000, Some((500, 11))).as_deref(),
            Some(
                "response_p99 < 250ms needs 10,000 samples and this run makes at most 5,000, so it cannot pass. \
                 Use -d 23s, or response_p98"
            )
        );
        assert_eq!(
            shortage("response_p99 < 250ms", 100_000_000, Some((500, 21))),
            None
        );
        assert!(
            shortage("response_p99 < 1s", 1 << 40, Some((5_000, 2)))
                .unwrap()
                .contains("Use -d 3.2s, or")
        );
        assert!(
            shortage("response_p99 < 1s", 1_000, Some((500, 11)))
                .unwrap()
                .contains("Use -n 11000 and -d 23s, or")
        );
        assert!(
            shortage("response_p99[10s] < 1s", 1 << 40, Some((500, 60)))
                .unwrap()
                .contains("a window of [22s], or")
        );
        assert!(
            shortage("error_rate[1s] < 1%", 1 << 40, Some((50, 60)))
                .unwrap()
                .ends_with("Use a window of [3s]")
        );
        assert_eq!(
            shortage("error_rate < 1%", 50, None),
            None,
            "the whole run is judged with any number"
        );
    }

    proptest! {
        #[test]
        fn what_is_suggested_does(items in 1_u64..20_000, q in prop::sample::select(vec!["p50", "p90", "p99", "p999"])) {
            let text = format!("service_{q} < 1s");
            if let Some(said) = shortage(&text, items, None) {
                let wanted = said.split_once("-n ").unwrap().1.split(',').next().unwrap();
                prop_assert_eq!(shortage(&text, wanted.parse().unwrap(), None), None);
                if let Some((_, lower)) = said.split_once("or service") {
                    prop_assert_eq!(shortage(&format!("service{lower} < 1s"), items, None), None);
                }
            }
        }
    }
}
