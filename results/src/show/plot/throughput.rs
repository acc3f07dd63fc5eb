//! Requests offered, achieved and throttled, over time.

use super::Plot;
use super::chart::{Chart, Line, Values};
use super::palette::Ink;
use super::scale::spoken;
use super::seconds::{Seconds, known, peak};
use crate::run::report::Report;
use crawlmark_harness::units::rounded_percent;

pub(super) fn plot(report: &Report) -> Plot {
    let seconds = Seconds::of(report);
    // A budget offers nothing once the time is over, however long the last answers take.
    let over_s = report.plan.run.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let offered = seconds.rates(|row| row.offered.filter(|_| (row.start_s as f64) < over_s));
    // A closed loop sends when an answer came: what is scheduled and what has ended are the same there.
    let scheduled = seconds.rates(|row| row.scheduled.filter(|_| report.schedule.is_some()).map(|n| n as f64));
    let lines = [
        Line::new(offered, "offered", (Ink::Asked, 6.0)),
        Line::new(scheduled, "scheduled", (Ink::Green, 4.0)),
        Line::new(seconds.rates(|row| Some(row.attempts as f64)), "achieved", (Ink::Blue, 2.0)),
        Line::new(seconds.rates(|row| Some(row.throttled as f64)), "throttled", (Ink::Vermilion, 2.0)),
    ];
    let caption = caption(report, &seconds, &lines);
    let [offered, scheduled, achieved, throttled] = lines;
    let mut lines: Vec<Line<'_>> = [offered, scheduled, achieved].into_iter().filter(Line::is_known).collect();
    lines.extend(Some(throttled).filter(Line::is_above_zero));
    let values = Values::Amounts("attempts per second");
    let chart = Chart { seconds: &seconds, values, each: "the mean of", lines, nothing: "no second was reported" };
    chart.plot("throughput", "Throughput", caption)
}

fn caption(report: &Report, seconds: &Seconds<'_>, [offered, .., throttled]: &[Line<'_>; 4]) -> String {
    let mean = spoken(report.totals.attempts_per_s);
    let asked = match report.plan.run.shaped_rate() {
        Some(rate) => format!(" of {rate} asked for"),
        None => ", with no budget".to_owned(),
    };
    let shape = if known(&offered.steps).next().is_some() { &*asked } else { ", with no budget" };
    let thrown_back = match peak(&throttled.steps) {
        Some((step, rate)) => format!(
            "{} of the attempts were throttled, most at {} ({} per second)",
            rounded_percent(report.manners.throttled_share),
            seconds.spoken(step.from_s),
            spoken(rate)
        ),
        // The second of it may be too short to be drawn.
        None if report.totals.throttled > 0 => {
            format!("{} of the attempts were throttled", rounded_percent(report.manners.throttled_share))
        }
        None => "none was throttled".to_owned(),
    };
    let failed = report.totals.failed(&report.ledger);
    let failed = match failed {
        0 => String::new(),
        _ => format!(", {} failed", rounded_percent(failed as f64 / report.totals.attempts.max(1) as f64)),
    };
    format!("The run made {mean} attempts per second on average{shape}; {thrown_back}{failed}.")
}
