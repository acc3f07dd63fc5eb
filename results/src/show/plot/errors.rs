//! Errors over time, by kind.

use super::bars::{self, Bar, ROW};
use super::canvas::{Head, Lettering, Mark, sheet};
use super::chart::Line;
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel};
use super::scale::{Scale, short, trimmed};
use super::seconds::{Seconds, known, peak};
use super::{Plot, counted};
use crate::run::report::{Report, error_in_words, status_in_words};
use crawlmark_harness::units::grouped;
use plotters::style::text_anchor::HPos;

const FIELD: f64 = 180.0;

/// Height of the field of a run without errors.
const EMPTY_FIELD: f64 = 60.0;

/// The most causes that are listed one by one.
const MOST_CAUSES: usize = 8;

pub(super) fn plot(report: &Report) -> Plot {
    let seconds = Seconds::of(report);
    let lines = [
        Line::new(seconds.rates(|row| Some(row.retries as f64)), "retries", (Ink::Asked, 5.0)),
        Line::new(seconds.rates(|row| Some(row.throttled as f64)), "throttled", (Ink::Vermilion, 2.0)),
        Line::new(seconds.rates(|row| Some(row.failed as f64)), "items that failed", (Ink::Purple, 2.0)),
        Line::new(seconds.rates(|row| Some(row.soft_blocked as f64)), "challenged", (Ink::Green, 2.0)),
        Line::new(seconds.rates(|row| Some(row.aborted as f64)), "cut off", (Ink::Blue, 2.0)),
    ];
    let caption = caption(report, &seconds, &lines);
    let lines: Vec<Line<'_>> = lines.into_iter().filter(Line::is_above_zero).collect();
    let causes = causes(report);
    let keys = lines.iter().map(|line| line.key).collect();
    let head = Head { name: "errors", title: "Errors and retries", caption, keys };
    let field = if lines.is_empty() { EMPTY_FIELD } else { FIELD };
    let causes_height = if causes.is_empty() { 0.0 } else { ABOVE + causes.len() as f64 * ROW + 12.0 };
    sheet(head, ABOVE + field + BELOW + causes_height, |canvas, top| {
        let top = top + ABOVE;
        let y = Scale::from_zero(lines.iter().flat_map(|line| known(&line.steps)));
        let panel = Panel::between(canvas, [top, top + field], [seconds.scale(), y]);
        if !lines.is_empty() {
            panel.vertical(&Axis { unit: "per second", label: &short });
        }
        let unit = seconds.axis_name("the mean of");
        panel.horizontal(&Axis { unit: &unit, label: &trimmed });
        for line in &lines {
            if let Mark::Line(ink, width) = line.key.mark {
                panel.steps(&seconds.on_axis(line.steps.clone()), ink, width);
            }
        }
        if report.intervals.is_empty() {
            panel.note("no second was reported");
        } else if lines.is_empty() {
            let note = if causes.is_empty() { "nothing went wrong" } else { "no errors over time" };
            panel.note(note);
        }
        if !causes.is_empty() {
            let top = top + field + BELOW;
            let quiet = Lettering::label(Ink::Quiet, HPos::Left);
            canvas.text("answers with another status than 2xx, errors, and what was cut off", (16.0, top + 8.0), quiet);
            bars::draw(canvas, &causes, top + ABOVE);
        }
    })
}

/// Statuses that are no success, errors without one, and attempts that were cut off, the commonest first.
fn causes(report: &Report) -> Vec<Bar> {
    let bad = report.totals.attempts_by_status.iter().filter(|(status, _)| !status.starts_with('2'));
    let statuses = bad.map(|(status, count)| (status_in_words(status), *count));
    let errors = report.totals.errors_by_kind.iter().map(|(kind, count)| (error_in_words(kind), *count));
    let cut_off = ("cut off at the end".to_owned(), report.ledger.aborted);
    let all = statuses.chain(errors).chain([cut_off]);
    let mut all: Vec<(String, u64)> = all.filter(|(_, count)| *count > 0).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if all.len() > MOST_CAUSES {
        let rest = all.split_off(MOST_CAUSES - 1);
        all.push((counted(rest.len() as u64, "other cause"), rest.iter().map(|(_, count)| count).sum()));
    }
    let most = all.iter().map(|(_, count)| *count).max().unwrap_or(1) as f64;
    let bar =
        |(name, count): (String, u64)| Bar { name, part: count as f64 / most, value: grouped(count), ink: Ink::Purple };
    all.into_iter().map(bar).collect()
}

fn caption(report: &Report, seconds: &Seconds<'_>, [_, throttled, failed, ..]: &[Line<'_>; 5]) -> String {
    let totals = &report.totals;
    let (failed_items, gave_up) = (report.ledger.failed, report.ledger.gave_up);
    let cut_off = match report.ledger.aborted {
        0 => String::new(),
        1 => "; 1 attempt was cut off at the end".to_owned(),
        n => format!("; {} attempts were cut off at the end", grouped(n)),
    };
    if failed_items + gave_up + totals.throttled + totals.retries + totals.soft_blocked == 0 {
        let all = counted(totals.attempts, "attempt");
        return format!("None of {all} failed, was throttled or was tried again{cut_off}.");
    }
    let worst = [peak(&throttled.steps), peak(&failed.steps)].into_iter().flatten().max_by(|a, b| a.1.total_cmp(&b.1));
    let worst = worst.map_or_else(String::new, |(step, _)| format!(", worst at {}", seconds.spoken(step.from_s)));
    format!(
        "Of {}, {} were throttled and {} were retries; {} failed, {} given up{worst}{cut_off}.",
        counted(totals.attempts, "attempt"),
        grouped(totals.throttled),
        grouped(totals.retries),
        counted(failed_items, "item"),
        grouped(gave_up),
    )
}
