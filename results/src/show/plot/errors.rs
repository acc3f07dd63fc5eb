//! Errors and retries over time, and the causes of errors.

use super::counted;
use super::seconds::{Seconds, peak};
use super::throughput::failed_requests;
use crate::run::report::{IntervalRow, Report, error_in_words};
use crate::run::words::errors;
use crate::show::chart::{
    Axis, BAR, Block, Chart, Dash, Format, Mark, Panel, ROW, Range, Role, Shape,
};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Counters;
use crawlmark_harness::units::{grouped, rounded_percent};

/// The most causes that are listed one by one.
const MOST_CAUSES: usize = 8;

/// None of a run without errors, throttling and retries in its seconds.
pub(super) fn chart(report: &Report, most_steps: u64) -> Option<Chart> {
    let seconds = Seconds::of(report, most_steps);
    let line = |role, legend, steps| Mark::new(role, legend, Shape::Steps(steps));
    let [throttled, failed] = [
        seconds.rates(|row| Some(row.throttled as f64)),
        seconds.rates(|row| Some(row.failed as f64)),
    ];
    let worst = [peak(&throttled), peak(&failed)]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let worst = worst.map(|(step, _)| seconds.spoken(step.from));
    let bins = Seconds::finest(report, most_steps);
    // Without a status among the failures, the kinds of errors have a line each already.
    let is_rejected = !report.totals.rejected_by_status.is_empty();
    let failed = |row: &IntervalRow| Some(failed_requests(row)).filter(|_| is_rejected);
    // Without a retry, each failed request is a failed item.
    let is_retried = report.totals.retries > 0 || !is_rejected;
    let items_failed = |row: &IntervalRow| Some(row.failed as f64).filter(|_| is_retried);
    let lines = [
        line(
            Role::Retried,
            "retries",
            bins.rates(|row| Some(row.retries as f64)),
        ),
        line(
            Role::Throttled,
            "throttled",
            bins.rates(|row| Some(row.throttled as f64)),
        ),
        line(Role::Failed, "requests failed", bins.rates(failed)).dashed(Dash::Solid),
        line(Role::Failed, "items failed", bins.rates(items_failed)).dashed(Dash::Dashed),
        line(
            Role::Challenged,
            "challenged",
            bins.rates(|row| Some(row.soft_blocked as f64)),
        ),
        line(
            Role::CutOff,
            "cut off at the end",
            bins.rates(|row| Some(row.aborted as f64)),
        ),
    ];
    let lines: Vec<Mark> = lines
        .into_iter()
        .chain(kinds(report, &bins))
        .filter(Mark::is_above_zero)
        .collect();
    let axis = Axis::new("per second", Range::FromZero, Format::Number);
    let caption = caption(report, worst);
    (!lines.is_empty()).then(|| {
        let panels = vec![bins.panel(axis, 180.0, lines, "mean")];
        Chart {
            name: "errors",
            title: "Errors and retries",
            caption,
            panels,
        }
    })
}

/// Lines of the commonest kinds of errors, told apart by their dash patterns.
fn kinds(report: &Report, seconds: &Seconds<'_>) -> Vec<Mark> {
    let mut kinds: Vec<(&ErrorKind, &u64)> = report.totals.errors_by_kind.iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(a.1));
    let line = |((kind, _), dash): ((&ErrorKind, _), Dash)| {
        let steps =
            seconds.rates(|row| Some(row.errors_by_kind.get(kind).copied().unwrap_or(0) as f64));
        Mark::new(Role::Failed, error_in_words(*kind), Shape::Steps(steps)).dashed(dash)
    };
    kinds
        .into_iter()
        .zip([Dash::Short, Dash::Dotted, Dash::DashDot])
        .map(line)
        .collect()
}

/// Failed requests by cause, and those that were cut off, the commonest first.
pub(super) fn causes(report: &Report) -> Option<Chart> {
    let (items, requests) = (report.ledger.items, report.totals.requests.clone());
    let mut all = errors(&Counters {
        items,
        requests,
        ..Counters::default()
    });
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if all.len() > MOST_CAUSES {
        let rest = all.split_off(MOST_CAUSES - 1);
        all.push((
            counted(rest.len() as u64, "other cause"),
            rest.iter().map(|(_, count)| count).sum(),
        ));
    }
    let bars = all
        .iter()
        .enumerate()
        .map(|(n, (_, count))| Block::bar(n, BAR, *count as f64, grouped(*count)));
    let marks = vec![Mark::new(Role::Failed, "", Shape::Blocks(bars.collect()))];
    let (names, height) = (
        all.iter().map(|(name, _)| name.clone()).collect(),
        all.len() as f64 * ROW,
    );
    let y = Axis::rows("failed requests, and those cut off", names);
    let (most, count) = all.first()?;
    let share = rounded_percent(*count as f64 / report.totals.attempts.max(1) as f64);
    let of = counted(report.totals.attempts, "request");
    let caption = format!(
        "Most common: {most}, {} of {of} ({share}).",
        grouped(*count)
    );
    let panels = vec![Panel {
        x: Axis::hidden(Range::FromZero),
        y,
        height,
        marks,
    }];
    Some(Chart {
        name: "causes",
        title: "Causes of errors",
        caption,
        panels,
    })
}

/// Words for a run without errors, retries or throttling; none of another one.
pub(super) fn none(report: &Report) -> Option<String> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let bad = totals.failed(ledger)
        + ledger.failed
        + ledger.gave_up
        + totals.throttled
        + totals.retries
        + totals.soft_blocked;
    (bad == 0).then(|| {
        format!(
            "No errors, throttling or retries in {}",
            counted(totals.attempts, "request")
        )
    })
}

fn caption(report: &Report, worst: Option<String>) -> String {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let cut_off = match ledger.aborted {
        0 => String::new(),
        n => format!("; {} cut off at the end", counted(n, "request")),
    };
    if let Some(none) = none(report) {
        return format!("{none}{cut_off}.");
    }
    let failed = totals.failed(ledger);
    let share = rounded_percent(failed as f64 / totals.attempts.max(1) as f64);
    let parts = [
        (totals.throttled, "throttled"),
        (totals.retries, "retries"),
        (ledger.gave_up, "abandoned"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts = parts
        .map(|(count, what)| format!("; {} {what}", grouped(count)))
        .collect::<Vec<_>>()
        .concat();
    let items = match ledger.failed {
        0 => String::new(),
        n => format!("; {} failed for good", counted(n, "item")),
    };
    let worst = worst.map_or_else(String::new, |at| format!("; most at {at}"));
    let of = if report.warmup.is_some() {
        ", warm-up included"
    } else {
        ""
    };
    let failed = format!(
        "{} of {} failed ({share}{of})",
        grouped(failed),
        counted(totals.attempts, "request")
    );
    format!("{failed}{parts}{items}{cut_off}{worst}.")
}
