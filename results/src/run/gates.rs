//! Objectives of a run, such as `service_p99 < 250ms`: parsed, watched while the run goes on, and
//! judged.
//!
//! Called by the commands: a [`Condition`] is what `--threshold` and `--stop-unless` take, a
//! [`LiveThresholds`] receives the seconds of a run and closes its report with a verdict for each.
//! Everything here is pure; nothing of it runs in a shard. Not to be confused with the gate of a
//! shard, which lets requests go, or with the checks of validity, which say whether the numbers are
//! valid.
//!
//! A condition is what has to hold, as k6's thresholds and every other tool's are. An undecided one
//! neither holds nor is broken. A percentile needs [`SAMPLES_BEYOND`] samples beyond it. With fewer
//! samples it can still fail, if more than that many break the limit. One that is only known to be
//! no less than its value breaks `<` when that value does, and leaves it undecided otherwise.
//!
//! | room | for |
//! |---|---|
//! | `metric` | metrics by name, and their units |
//! | `measured` | measured value of a metric, or the reason for none |
//! | `condition`, `parse` | conditions, and their parser |
//! | `client` | the client's own part of a broken condition |
//! | `shortage` | conditions that cannot pass in a planned run |
//! | `live` | conditions watched during the run, and their verdicts |

mod client;
mod condition;
mod live;
mod measured;
mod metric;
mod parse;
mod shortage;

use std::time::Duration;

pub use self::condition::{Condition, Op, Window};
pub use self::live::LiveThresholds;
pub use self::measured::{Measured, SAMPLES_BEYOND, of_condition, of_report, of_stats};
pub use self::metric::{Metric, Quantile, Quantity, Stat, Unit};
pub use self::parse::{ConditionError, no_unit};
pub use self::shortage::Shortage;
use crate::run::report::GateReport;
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::stats::Series;

/// Consequence of a broken condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// The run is judged to have failed, at its end.
    Fails,
    /// The run is stopped, and has failed.
    Stops,
}

impl Breach {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fails => "threshold",
            Self::Stops => "stop_unless",
        }
    }

    /// The flag that asks for it.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Fails => "--threshold",
            Self::Stops => "--stop-unless",
        }
    }
}

/// A condition, and what follows when it is broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Condition that must hold.
    pub condition: Condition,
    /// Consequence when it does not hold.
    pub breach: Breach,
}

/// Reason why an objective cannot be one of a run. The message names the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag} {condition}: {why}")]
pub struct ObjectiveError {
    flag: &'static str,
    condition: String,
    why: String,
}

impl Objective {
    /// Check that a run of `plan` can decide it.
    ///
    /// # Errors
    /// When it cannot, whatever happens in it.
    pub fn check(&self, plan: &RunPlan) -> Result<(), ObjectiveError> {
        let Condition {
            metric,
            ref group,
            window,
            ..
        } = self.condition;
        let stops = self.breach == Breach::Stops;
        let is_response = metric.series().is_some_and(is_response);
        let has_rate = plan.rate.is_some() && plan.arrivals != Arrivals::Replay;
        let measured = plan.duration.map(|lasts| lasts.saturating_sub(plan.warmup));
        let window = window.map(|window| Duration::from_secs(window.seconds()));
        let why = if stops && group.is_some() {
            "groups are known only when the run is over: use --threshold".to_owned()
        } else if group.is_some() && !plan.warmup.is_zero() {
            "groups are counted from the start of the run: leave out --warmup".to_owned()
        } else if stops && !metric.is_live() {
            format!("`{metric}` is known only when the run is over: use --threshold")
        } else if stops && self.condition.holds_at_rest() == Some(false) {
            "name what must hold, as in `error_rate < 5%`: the run stops when it no longer does"
                .to_owned()
        } else if is_response && plan.arrivals.gaps().is_none() {
            "a closed loop has no response times; judge service times, or make it an open loop (--arrivals constant)".to_owned()
        } else if metric == Metric::Of(Quantity::BudgetUtilisation) && !plan.has_budget() {
            "the run has no rate budget; add --rate and --arrivals asap".to_owned()
        } else if matches!(
            metric,
            Metric::Of(Quantity::Goodput | Quantity::GoodputShare)
        ) && plan.objectives.is_empty()
        {
            "the run has no objectives; add --objective 'service < 200ms', or several".to_owned()
        } else if metric == Metric::Of(Quantity::RateRatio) && !has_rate {
            "the run has no rate of its own; add --rate".to_owned()
        } else if let Some(measured) = measured.filter(|measured| window > Some(*measured)) {
            let measured = humantime::format_duration(measured);
            format!(
                "the run measures {measured} and never fills the window; choose a shorter one, or a longer --duration"
            )
        } else {
            return Ok(());
        };
        Err(ObjectiveError {
            flag: self.breach.flag(),
            condition: self.condition.to_string(),
            why,
        })
    }

    /// The row of a report that says what was seen, and the verdict.
    pub fn row(&self, seen: &Measured) -> GateReport {
        let Self { condition, breach } = self;
        let (ok, value) = (condition.judge(seen), seen.value());
        let why = match seen {
            _ if ok.is_some() => None,
            Measured::Unknown(why) => Some(why.clone()),
            _ => Some("too many did not finish: it may be more".to_owned()),
        };
        GateReport {
            expression: condition.to_string(),
            kind: breach.name().to_owned(),
            metric: condition.metric.to_string(),
            group: condition.group.clone(),
            window_s: condition.window.map(Window::seconds),
            unit: condition.metric.unit().name().to_owned(),
            limit: condition.limit,
            value,
            at_least: seen.is_at_least(),
            corrected: None,
            margin: value.and_then(|value| condition.margin(value)),
            ok,
            why,
            windows: None,
            until_s: None,
        }
    }
}

const fn is_response(series: Series) -> bool {
    matches!(
        series,
        Series::ResponseOk | Series::ResponseThrottled | Series::ResponseError
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::units::Rate;

    #[test]
    fn what_a_run_cannot_tell_is_refused() {
        let check = |text: &str, breach, change: &dyn Fn(&mut RunPlan)| {
            let mut plan = plan();
            (plan.rate, plan.arrivals, plan.duration) = (None, Arrivals::Asap, None);
            change(&mut plan);
            Objective {
                condition: text.parse().unwrap(),
                breach,
            }
            .check(&plan)
        };
        let nothing = |_: &mut RunPlan| {};
        assert_eq!(check("service_p99 < 1s", Breach::Stops, &nothing), Ok(()));
        assert_eq!(check("item_p99 < 1s", Breach::Fails, &nothing), Ok(()));
        for (text, breach) in [
            ("item_p99 < 1s", Breach::Stops),
            ("response_p99 < 1s", Breach::Fails),
            ("budget_utilisation > 0.9", Breach::Fails),
            ("rate_ratio > 0.9", Breach::Fails),
        ] {
            assert!(check(text, breach, &nothing).is_err(), "{text}");
        }
        for reversed in [
            "errors > 5",
            "error_rate >= 5%",
            "service_p99 > 1s",
            "ok_rate < 95%",
        ] {
            assert!(check(reversed, Breach::Stops, &nothing).is_err());
            assert_eq!(check(reversed, Breach::Fails, &nothing), Ok(()));
        }
        assert_eq!(
            check("response_p99 < 1s", Breach::Fails, &|plan| plan.arrivals =
                Arrivals::Poisson),
            Ok(())
        );
        let rate = |plan: &mut RunPlan| {
            plan.rate = Some(Rate {
                permits: 5,
                period_ns: 1_000_000_000,
            });
        };
        assert_eq!(
            check("budget_utilisation > 0.9", Breach::Fails, &rate),
            Ok(())
        );
        assert_eq!(check("rate_ratio > 0.9", Breach::Fails, &rate), Ok(()));
        let lasts = |seconds, warmup| {
            move |plan: &mut RunPlan| {
                plan.duration = Some(Duration::from_secs(seconds));
                plan.warmup = Duration::from_secs(warmup);
            }
        };
        assert_eq!(check("rate[10s] > 5", Breach::Fails, &lasts(10, 0)), Ok(()));
        assert!(check("rate[10s] > 5", Breach::Fails, &lasts(10, 1)).is_err());
    }
}
