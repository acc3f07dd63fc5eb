//! Metrics that can be judged: the figures of a report by name, with the unit of each.
//!
//! A name is that of the report's JSON where it has one. Used by the parser and by the code that
//! measures; measures nothing itself.

use std::fmt;

use super::is_response;
use crate::run::report::{Report, Verdict};
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::{Counters, Series, samples_for};

/// A figure that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// A figure of a distribution of times: `service_p99`.
    Time(Series, Stat),
    /// Any other: `throttled_rate`.
    Of(Quantity),
}

/// A figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stat {
    /// A percentile.
    Percentile(Quantile),
    /// The least.
    Min,
    /// The arithmetic mean.
    Mean,
    /// The greatest.
    Max,
}

/// A quantile above 0 and below 1, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile(u32);

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Us,
    /// Per second.
    PerS,
    /// A part of 1.
    Share,
    /// A number of things.
    Count,
    /// 1 for true, 0 for false.
    Flag,
}

impl Unit {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Us => "us",
            Self::PerS => "per_s",
            Self::Share => "share",
            Self::Count => "count",
            Self::Flag => "bool",
        }
    }
}

/// Part of a number of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) whole: u64,
}

/// Source of a figure. All but [`AtEnd`](Self::AtEnd) are known in each second of a run, so they may
/// have a window and stop the run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Figure {
    /// Count per second.
    PerS(fn(&Counters) -> u64),
    /// Part of a whole.
    Share(fn(&Counters) -> Share),
    /// Number of things.
    Count(fn(&Counters) -> u64),
    /// Known when the run is over; none when nothing was measured.
    AtEnd(fn(&Report) -> Option<f64>),
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $quantity:ident = $name:literal, $unit:ident, $figure:ident($of:expr);)*) => {
        /// A figure that is none of times.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Quantity {
            $($(#[$doc])* $quantity,)*
        }

        impl Quantity {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$quantity),*];

            /// The name in an expression.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$quantity => $name,)*
                }
            }

            const fn unit(self) -> Unit {
                match self {
                    $(Self::$quantity => Unit::$unit,)*
                }
            }

            pub(super) fn figure(self) -> Figure {
                match self {
                    $(Self::$quantity => Figure::$figure($of),)*
                }
            }
        }
    };
}

const fn part(part: u64, whole: u64) -> Share {
    Share { part, whole }
}

#[expect(clippy::unnecessary_wraps, reason = "a figure of the table")]
const fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

quantities! {
    /// Items that ended by themselves, per second.
    Rate = "rate", PerS, PerS(|all| all.items.completed());
    /// Attempts that ended by themselves, per second.
    AttemptsRate = "attempts_rate", PerS, PerS(Counters::completed);
    /// Throttled attempts over all.
    ThrottledRate = "throttled_rate", Share, Share(|all| part(all.requests.throttled, all.requests.attempts));
    /// Attempts that were neither good, nor not found, nor throttled, over all: those that were cut
    /// off never got an answer. Of a whole run, the share of items that failed, were abandoned or
    /// were cut off, if that is greater.
    ErrorRate = "error_rate", Share, Share(|all| part(all.errors(), all.requests.attempts));
    /// Attempts beyond the first of their item over all.
    RetryRate = "retry_rate", Share, Share(|all| part(all.requests.repeats(), all.requests.attempts));
    /// Good items over those that ended or were cut off.
    OkRate = "ok_rate", Share, Share(|all| part(all.items.ok, all.items.ended()));
    /// Requests that met the objectives of the run, per second.
    Goodput = "goodput", PerS, PerS(|all| all.requests.met);
    /// Those over all that were due: attempts, and requests that never went.
    GoodputShare = "goodput_share", Share, Share(|all| part(all.requests.met, all.requests.attempts + all.requests.dropped));
    /// Items that ended by themselves.
    Items = "items", Count, Count(|all| all.items.completed());
    /// Good ones.
    Ok = "ok", Count, Count(|all| all.items.ok);
    /// Those that the target does not have.
    NotFound = "not_found", Count, Count(|all| all.items.not_found);
    /// Those that ended in a rejection, a challenge or an error.
    Failed = "failed", Count, Count(|all| all.items.failed);
    /// Those that were throttled until no attempt was left.
    GaveUp = "gave_up", Count, Count(|all| all.items.gave_up);
    /// Those that were cut off when the run was over.
    Aborted = "aborted", Count, AtEnd(|report| some(report.measured().items.aborted));
    /// Those that waited for another attempt then.
    Unfinished = "unfinished", Count, AtEnd(|report| some(report.ledger.unfinished));
    /// Those that were never tried.
    NotAttempted = "not_attempted", Count, AtEnd(|report| some(report.ledger.not_attempted));
    /// Those whose shard ended before it could tell.
    Lost = "lost", Count, AtEnd(|report| some(report.ledger.lost));
    /// Attempts.
    Attempts = "attempts", Count, Count(|all| all.requests.attempts);
    /// Attempts beyond the first of their item.
    Retries = "retries", Count, Count(|all| all.requests.retries);
    /// Throttled ones.
    Throttled = "throttled", Count, Count(|all| all.requests.throttled);
    /// Those that were answered with a challenge page.
    SoftBlocked = "soft_blocked", Count, Count(|all| all.requests.soft_blocked);
    /// Errors counted by [`Quantity::ErrorRate`].
    Errors = "errors", Count, Count(Counters::errors);
    /// Requests of an open loop that never went.
    Dropped = "dropped", Count, AtEnd(|report| some(report.totals.dropped));
    /// Connections opened.
    ConnectionsOpened = "connections_opened", Count, AtEnd(|report| some(report.totals.connections_opened));
    /// Attempts over what the budget allowed.
    BudgetUtilisation = "budget_utilisation", Share, AtEnd(|report| Some(report.budget.as_ref()?.utilisation));
    /// Rate that was sent over the rate that was asked for.
    RateRatio = "rate_ratio", Share, AtEnd(|report| report.rate_ratio);
    /// CPU of the shards per attempt, us.
    CpuUsPerAttempt = "cpu_us_per_attempt", Us, AtEnd(Report::cpu_us_per_attempt);
    /// CPU of the target's processes per attempt, us.
    TargetCpuPerRequest = "target_cpu_per_request", Us, AtEnd(Report::target_cpu_us_per_attempt);
    /// True if the verdict is `valid`.
    Valid = "valid", Flag, AtEnd(|report| some(u64::from(report.validity.verdict == Verdict::Valid)));
}

impl Quantity {
    /// True if the seconds of a run have it.
    pub(super) fn is_live(self) -> bool {
        !matches!(self.figure(), Figure::AtEnd(_))
    }
}

impl Metric {
    /// Return the unit of the metric.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Time(..) => Unit::Us,
            Self::Of(quantity) => quantity.unit(),
        }
    }

    /// Its value at a load that is no trouble; none if it follows the rate.
    pub(super) const fn at_rest(self) -> Option<f64> {
        use Quantity::{
            Attempts, AttemptsRate, BudgetUtilisation, Goodput, GoodputShare, Items, NotAttempted,
            Ok, OkRate, Rate, RateRatio, Valid,
        };
        match self {
            Self::Of(Rate | AttemptsRate | Goodput | Items | Ok | Attempts | NotAttempted) => None,
            Self::Of(OkRate | GoodputShare | RateRatio | BudgetUtilisation | Valid) => Some(1.0),
            _ => Some(0.0),
        }
    }

    /// True if it is known while a run goes on, and of a window.
    pub fn is_live(self) -> bool {
        match self {
            Self::Time(series, _) => Series::PER_INTERVAL.contains(&series),
            Self::Of(quantity) => quantity.is_live(),
        }
    }

    /// True if it is counted by host, URL template and source address.
    pub fn is_of_group(self) -> bool {
        use Quantity::{
            Attempts, ErrorRate, Errors, Goodput, GoodputShare, NotFound, Ok, Throttled,
            ThrottledRate,
        };
        match self {
            Self::Time(Series::ServiceOk | Series::ResponseOk, Stat::Percentile(quantile)) => {
                [Quantile::P50, Quantile::P99].contains(&quantile)
            }
            Self::Time(..) => false,
            Self::Of(quantity) => matches!(
                quantity,
                Attempts
                    | ErrorRate
                    | Errors
                    | Goodput
                    | GoodputShare
                    | NotFound
                    | Ok
                    | Throttled
                    | ThrottledRate
            ),
        }
    }

    /// The distribution that it is of.
    pub const fn series(self) -> Option<Series> {
        match self {
            Self::Time(series, _) => Some(series),
            Self::Of(_) => None,
        }
    }

    /// True of a time of requests that holds the waits before sending, which a slow target causes;
    /// false of other times of requests. None of other metrics.
    pub fn is_corrected(self, arrivals: Arrivals) -> Option<bool> {
        use Series::{Body, FirstEvent, Item, ServiceError, ServiceOk, ServiceThrottled, Ttfb};
        match self.series()? {
            ServiceOk | ServiceThrottled | ServiceError | Ttfb | Body | FirstEvent => Some(false),
            Item => Some(arrivals.gaps().is_some()),
            series => is_response(series).then_some(true),
        }
    }

    /// The metric of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let quantity = Quantity::ALL
            .iter()
            .find(|quantity| quantity.name() == name);
        if let Some(quantity) = quantity {
            return Some(Self::Of(*quantity));
        }
        Series::ALL.into_iter().find_map(|series| {
            let stat = name.strip_prefix(series.name())?.strip_prefix('_')?;
            Some(Self::Time(series, Stat::named(stat)?))
        })
    }

    /// The names of the usual ones.
    pub(super) fn usual_names() -> impl Iterator<Item = String> {
        const STATS: [&str; 7] = ["p50", "p90", "p99", "p999", "min", "mean", "max"];
        let times = Series::ALL
            .into_iter()
            .flat_map(|series| STATS.map(|stat| format!("{}_{stat}", series.name())));
        Quantity::ALL
            .iter()
            .map(|quantity| quantity.name().to_owned())
            .chain(times)
    }
}

impl Stat {
    /// The figure of a name: `min`, `mean`, `max`, `p99` or `p(99)`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "min" => Self::Min,
            "mean" => Self::Mean,
            "max" => Self::Max,
            _ => Self::Percentile(Quantile::named(name)?),
        })
    }
}

impl Quantile {
    /// The median.
    pub const P50: Self = Self(500_000);

    /// The 99th percentile.
    pub const P99: Self = Self(990_000);

    const WHOLE: u32 = 1_000_000;

    /// `p99` or `p(99)`; `p999`, `p99.9` or `p(99.9)`. At least two digits, no needless ones: `p100` is not
    /// the tenth percentile.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let rest = name.strip_prefix('p')?;
        let digits = match rest.strip_prefix('(') {
            Some(inside) => Self::of_percent(inside.strip_suffix(')')?)?,
            // As summaries write it.
            None if rest.contains('.') => Self::of_percent(rest)?,
            None if rest.len() > 2 && rest.ends_with('0') => return None,
            None => rest.to_owned(),
        };
        let fits = (2..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let millionths = if fits {
            format!("{digits:0<6}").parse().ok()?
        } else {
            0
        };
        (millionths > 0).then_some(Self(millionths))
    }

    /// The digits after the point of a percentage as a part of 1.
    fn of_percent(percent: &str) -> Option<String> {
        let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
        let whole: u32 = if whole.bytes().all(|b| b.is_ascii_digit()) {
            whole.parse().ok()?
        } else {
            return None;
        };
        (whole < 100).then(|| format!("{whole:02}{part}"))
    }

    /// As a part of 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }

    /// Return the number of samples needed for `beyond` of them to lie beyond the percentile.
    pub fn samples_for(self, beyond: u64) -> u64 {
        samples_for(self.part(), beyond)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(quantity) => f.write_str(quantity.name()),
            Self::Time(series, stat) => write!(f, "{}_{stat}", series.name()),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min => f.write_str("min"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Percentile(quantile) => quantile.fmt(f),
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:06}", self.0);
        let (first, rest) = digits.split_at(2);
        write!(f, "p{first}{}", rest.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_one_metric() {
        for name in Metric::usual_names() {
            let metric = Metric::named(&name).unwrap_or_else(|| panic!("{name} is none"));
            assert_eq!(metric.to_string(), name);
        }
        assert_eq!(
            Metric::named("service_throttled_p99").unwrap().series(),
            Some(Series::ServiceThrottled)
        );
        for name in [
            "",
            "p99",
            "service",
            "service_",
            "service_avg",
            "_p99",
            "ratee",
            "servicep99",
        ] {
            assert_eq!(Metric::named(name), None, "{name}");
        }
    }

    #[test]
    fn a_quantile_is_named_as_in_a_report() {
        let cases = [
            ("p50", 0.5),
            ("p95", 0.95),
            ("p999", 0.999),
            ("p(99)", 0.99),
            ("p(99.9)", 0.999),
            ("p(5)", 0.05),
        ];
        for (name, part) in cases {
            assert_eq!(
                Quantile::named(name).map(Quantile::part),
                Some(part),
                "{name}"
            );
        }
        for (name, shown) in [
            ("p(99.9)", "p999"),
            ("p(50)", "p50"),
            ("p(5)", "p05"),
            ("p(99.99)", "p9999"),
        ] {
            assert_eq!(Quantile::named(name).unwrap().to_string(), shown);
        }
        for name in [
            "p", "p9", "p00", "p100", "p990", "p(100)", "p(0)", "p()", "p(9", "p-1", "p(-1)",
            "p(+1)", "p1234567",
        ] {
            assert_eq!(Quantile::named(name), None, "{name}");
        }
    }
}
