//! Answers of studies in a few words with their number: titles of pictures.

use super::StudyFinding;
use super::capacity::search::SearchOutcome;
use super::compare::{Evidence, MetricResult, Overall};
use super::findings::fastest;
use super::history::ChangePoint;
use super::rate;
use super::scale::estimate::Estimate;
use super::scale::size::Axis;
use crate::show::text::{capital, counted, decimal, grouped_f64};
use crawlmark_harness::units::rounded_percent;

/// Metrics that a title names.
const NAMED: usize = 2;

impl StudyFinding {
    /// The finding in a few words; in a sentence where it is no answer.
    pub fn headline(&self) -> String {
        match self {
            Self::Capacity {
                outcome,
                per_s,
                settled_per_s: [pass, fail],
                bounds_per_s: [least, _],
                ..
            } => capacity(*outcome, *per_s, [*pass, *fail], *least),
            Self::Comparison {
                verdict,
                counted,
                metrics,
                passes_below,
                ..
            } => comparison(*verdict, *counted, metrics, *passes_below),
            Self::Grew {
                held,
                sizes,
                speedup,
                efficiency,
                ..
            } => {
                let efficient = efficiency.at_most(1.0).median;
                let grown = grown(held.axis(), *sizes, speedup);
                format!("{grown}, {} efficient", rounded_percent(efficient))
            }
            Self::CpuScarce {
                held,
                sizes,
                speedup,
            } => format!("CPU was scarce: {}", grown(held.axis(), *sizes, speedup)),
            Self::Climbed { per_s, .. } => {
                let [low, high] = per_s.map(decimal);
                format!("From {low} to {high} items a second")
            }
            Self::Fastest { names, per_s, .. } => {
                let others = match names.len() {
                    0 | 1 => String::new(),
                    more => format!(" and {} as fast", more - 1),
                };
                let first = names.first().map_or("", |name| &**name);
                format!("{} items a second: {first}{others}", decimal(*per_s))
            }
            Self::Changed {
                title,
                since,
                change,
                ..
            } => format!("{}: {} since {since}", capital(title), changed(change)),
            Self::NoChange {
                results, series, ..
            } => format!(
                "No change in {} of {}",
                self::counted(*series as u64, "metric"),
                self::counted(*results as u64, "result")
            ),
            Self::CommitFound {
                commit,
                metric,
                effect,
                ..
            } => {
                format!("{commit} made {metric} worse: {effect}")
            }
            Self::Ranked {
                first,
                limited,
                per_s,
                ..
            } => fastest(first, limited, *per_s),
            Self::NotAllGood { good, of, .. } => format!("{good} of {of} good"),
            Self::NoKeepAlive { .. } => "no keep-alive".to_owned(),
            Self::OtherLength { bytes, .. } => counted(*bytes, "byte"),
            Self::OtherContentType { content_type, .. } => content_type.clone(),
            other => other.notice().title,
        }
    }

    /// The limit of a scenario in a word or two.
    pub(super) fn limit_in_words(&self) -> String {
        match self {
            Self::Refusals { .. } => "refusals".to_owned(),
            Self::Failures { .. } => "failures".to_owned(),
            Self::OwnBudget { .. } => "its own budget".to_owned(),
            Self::CpuFull { .. } | Self::CpuWait { .. } | Self::OneCpu { .. } => "CPU".to_owned(),
            Self::Waiting {
                opening_us: Some(_),
                ..
            } => "handshakes".to_owned(),
            Self::Waiting { connections, .. } => {
                format!("{} in flight", grouped_f64(f64::from(*connections)))
            }
            _ => "nothing clear".to_owned(),
        }
    }
}

fn requests(per_s: f64) -> String {
    format!("{} requests a second", decimal(per_s))
}

fn capacity(
    outcome: SearchOutcome,
    per_s: Option<f64>,
    [pass, fail]: [Option<f64>; 2],
    least: f64,
) -> String {
    let known = per_s.map(requests);
    match (outcome, known) {
        (SearchOutcome::Found, Some(known)) => format!("Capacity: {known}"),
        (SearchOutcome::NotReached, Some(known)) => format!("Capacity: at least {known}"),
        (SearchOutcome::ClientLimited, Some(known)) => format!("Capacity: {known} or more"),
        (SearchOutcome::LeastFails, _) => format!("Even {} fail", requests(least)),
        (SearchOutcome::Unsteady, _) => "The target is unsteady: no single capacity".to_owned(),
        (_, Some(known)) => format!("Capacity not confirmed: {known}"),
        (_, None) => match [pass, fail].map(|at| at.map(rate)) {
            [Some(pass), _] => format!("No capacity known: objectives met at {pass}"),
            [_, Some(fail)] => format!("No capacity known: objectives broken at {fail}"),
            _ => "No capacity known: no rate was confirmed".to_owned(),
        },
    }
}

fn comparison(
    verdict: Overall,
    pairs: usize,
    metrics: &[MetricResult],
    passes_below: f64,
) -> String {
    let pairs = counted(pairs as u64, "pair");
    let mut named: Vec<String> = metrics
        .iter()
        .filter_map(|one| {
            let by = one.evidence.as_ref()?.by();
            Some(format!("{} {by}", one.metric.column))
        })
        .collect();
    let others = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if others > 0 {
        named.push(format!("{others} more"));
    }
    let reasons = named.join(", ");
    match verdict {
        Overall::Pass => format!(
            "Pass: no loss of {} % or more in {pairs}",
            passes_below * 100.0
        ),
        Overall::Regression if !reasons.is_empty() => format!("Regression: {reasons}"),
        Overall::Inconclusive if !reasons.is_empty() => {
            format!("Inconclusive after {pairs}: {reasons}")
        }
        other => format!("{} after {pairs}", capital(other.name())),
    }
}

impl Evidence {
    /// The change without a sign: `4.9 % lower`.
    fn by(&self) -> String {
        by(self.ratio)
    }
}

/// `4.9 % lower`, `2.1 times as high`.
fn by(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        p if p >= 99.5 => format!("{} times as high", decimal(ratio)),
        p if p.abs() < 0.05 => "unchanged (0 %)".to_owned(),
        p => {
            let way = if p > 0.0 { "higher" } else { "lower" };
            let digits = usize::from(p.abs() < 9.95);
            format!("{:.digits$} % {way}", p.abs())
        }
    }
}

fn grown(axis: Axis, [least, most]: [f64; 2], speedup: &Estimate) -> String {
    let than = if least <= 1.0 {
        "one".to_owned()
    } else {
        grouped_f64(least)
    };
    let times = super::findings::factor(speedup.median);
    format!(
        "{} {}: {times} times the rate of {than}",
        grouped_f64(most),
        axis.name()
    )
}

fn changed(change: &ChangePoint) -> String {
    match change.shift.ratio {
        Some(ratio) => by(ratio),
        None => change.shift.in_sentence(),
    }
}
