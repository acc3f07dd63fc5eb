//! Tables of the hosts, URL templates and source addresses of a crawl of several.

use std::cmp::Reverse;

use super::times::{Clocked, unfinished};
use crate::run::report::{Group, GroupRow, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{counted, grouped, micros};
use crawlmark_harness::units::rounded_percent;

/// Part of the time from which on a limit of a host is shown.
const SHOWN: f64 = 0.01;

/// The `most` busiest hosts, the busiest first; empty for a crawl of one.
pub(super) fn hosts(report: &Report, most: usize) -> Table {
    table(report, ("host", &report.by_host), most)
}

/// The `most` busiest URL templates, the busiest first; empty for a crawl of one.
pub(super) fn templates(report: &Report, most: usize) -> Table {
    table(report, ("URL template", &report.by_template), most)
}

/// The `most` busiest source addresses, the busiest first; empty without several.
pub(super) fn sources(report: &Report, most: usize) -> Table {
    table(report, ("source address", &report.by_source), most)
}

fn table(report: &Report, (kind, rows): (&str, &[GroupRow]), most: usize) -> Table {
    let mut rows: Vec<&GroupRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.group.number().is_none(), Reverse(row.attempts)));
    let more = rows.len().saturating_sub(most);
    let caption = match more {
        0 => format!("By {kind}"),
        more => format!(
            "By {kind}, the {most} busiest ({} in the report)",
            counted(more as u64, "more row")
        ),
    };
    // The run's times have those as well, at the age that they reached.
    let bounded = Clocked::of(report)
        .latency()
        .map_or(0, |latency| latency.censored);
    let caption = match bounded {
        0 => caption,
        n => format!(
            "{caption}; times of good and not-found responses alone, without the {} that {}",
            counted(n, "request"),
            unfinished(report)
        ),
    };
    let time = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| micros(us as f64));
    let plan = &report.plan.run;
    // The busiest have rows of their own.
    let named = rows
        .iter()
        .filter(|row| matches!(row.group, Group::Source(Some(_))))
        .count() as u64;
    let others = match report.totals.sources_used.saturating_sub(named) {
        more if named > 0 && more > 0 => format!("{} others", grouped(more)),
        _ => "all others".to_owned(),
    };
    let row = |row: &GroupRow| {
        let number = |number: u32| format!("{kind} {number}");
        let name = row
            .name
            .clone()
            .or_else(|| row.group.number().map(number))
            .unwrap_or_else(|| others.clone());
        let counts = [
            row.attempts,
            row.ok,
            row.not_found,
            row.errors,
            row.throttled,
        ]
        .map(grouped);
        let limit = row
            .limited_by
            .map(|limits| limits.foremost(plan, row.throttled))
            .filter(|(part, _)| *part >= SHOWN)
            .map(|(part, by)| format!("{by} {}", rounded_percent(part)));
        let cells = [name]
            .into_iter()
            .chain(counts)
            .chain([row.p50_us, row.p99_us].map(time));
        cells.chain([limit.unwrap_or_default()]).collect()
    };
    Table {
        caption,
        columns: vec![
            Column::words(kind),
            Column::numbers("requests").leaving(2),
            Column::numbers("ok"),
            Column::numbers("not found").leaving(1),
            Column::numbers("errors"),
            Column::numbers("throttled"),
            Column::numbers("p50").leaving(3),
            Column::numbers("p99"),
            Column::words("limited by").leaving(4),
        ],
        rows: rows.into_iter().take(most).map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::stats::Series;

    #[test]
    fn the_caption_says_which_requests_the_times_of_the_run_have_and_those_of_the_hosts_do_not() {
        let mut report: Report =
            serde_json::from_str(include_str!("../../../example/result.json")).unwrap();
        let mut caption_with = |censored| {
            report
                .latency
                .get_mut(Series::ResponseOk.name())
                .unwrap()
                .censored = censored;
            table(&report, ("host", &[]), 9).caption
        };
        assert_eq!(caption_with(0), "By host");
        let expected = "By host; times of good and not-found responses alone, without the 3 requests that did not finish";
        assert_eq!(caption_with(3), expected);
    }
}
