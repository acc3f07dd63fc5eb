//! A history as a document: where each metric changed.

use super::super::{in_unit, metric_words, short_name};
use super::{ChangePoint, History, MetricHistory};
use crate::run::words::moment;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::counted;
use crate::studies::{Conclusion, StudyResult};

impl StudyResult for History {
    const SCHEMA: &'static str = "crawlmark.history/1";

    const FILE: &'static str = "history.json";

    fn doc(&self) -> Doc {
        let past = [
            ("first", self.results.first()),
            ("latest", self.results.last()),
        ];
        let past = past
            .into_iter()
            .filter_map(|(name, past)| Some((name, past?)));
        let facts = past.map(|(name, past)| {
            (
                name,
                format!("{}, {}", moment(&past.started_at), past.result),
            )
        });
        let left_out = || {
            format!(
                "{} with another plan, machine or name",
                counted(self.left_out as u64, "result")
            )
        };
        let advice = "shows where to look, and is not a verdict: the machine may have changed; compare the two versions with `crawlmark ab`";
        let notes = [
            (self.left_out > 0).then(|| ("left out", left_out())),
            self.is_enough().then(|| ("note", advice.to_owned())),
        ];
        let what = format!(
            "with the name `{}`, the same plan and the same kind of machine",
            self.header.name
        );
        let is_clear = self.is_enough() && !self.metrics.iter().any(is_worse);
        let severity = if is_clear {
            Severity::Neutral
        } else {
            Severity::Warning
        };
        Doc::new(format!("{}: history", self.header.name))
            .headline(severity, &history_headline(self))
            .text(format!(
                "{} {what}",
                counted(self.results.len() as u64, "result")
            ))
            .facts(facts.chain(notes.into_iter().flatten()))
            .table(changes(self))
            .in_files()
            .plot("history", "Metrics over time")
    }

    fn conclusion(&self) -> Conclusion {
        if self.is_enough() {
            Conclusion::Done
        } else {
            Conclusion::Inconclusive
        }
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::history(self)]
    }
}

/// The finding in a sentence: the last change of each metric.
pub(crate) fn history_headline(history: &History) -> String {
    let count = history.results.len();
    let results = counted(count as u64, "result");
    if !history.is_enough() {
        let is = if count == 1 { "is" } else { "are" };
        return format!(
            "{results} {is} not enough to find a change: {} needed.",
            history.results_needed
        );
    }
    // The surest first.
    let mut last: Vec<_> = history
        .metrics
        .iter()
        .filter_map(|found| Some((found, found.changes.last()?)))
        .collect();
    last.sort_by(|(_, a), (_, b)| a.p.total_cmp(&b.p));
    let words = |(found, change): (&MetricHistory, &ChangePoint)| {
        format!(
            "{} {} since {}",
            metric_words(found.metric),
            percent(change),
            since(history, change)
        )
    };
    let changed: Vec<String> = last.into_iter().map(words).collect();
    if changed.is_empty() {
        format!("No metric changed in {results}.")
    } else {
        changed.join("; ") + "."
    }
}

/// The table of changes; a metric without one has a row that says so.
fn changes(history: &History) -> Table {
    let row = |found: &MetricHistory, change: Option<&ChangePoint>| {
        let value = |value: fn(&ChangePoint) -> f64| {
            change.map_or_else(
                || "-".to_owned(),
                |change| in_unit(found.metric, value(change)),
            )
        };
        vec![
            short_name(found.metric).to_owned(),
            change.map_or_else(|| "no change".to_owned(), percent),
            change.map_or_else(|| "-".to_owned(), |change| since(history, change)),
            value(|change| change.before),
            value(|change| change.after),
            change.map_or_else(|| "-".to_owned(), |change| format!("{:.3}", change.p)),
            change
                .and_then(|change| history.results.get(change.at))
                .map_or_else(String::new, |past| past.result.clone()),
        ]
    };
    let rows = |found: &MetricHistory| match &found.changes[..] {
        [] => vec![row(found, None)],
        changes => changes
            .iter()
            .map(|change| row(found, Some(change)))
            .collect(),
    };
    let metrics = history.metrics.iter().filter(|_| history.is_enough());
    Table {
        columns: vec![
            Column::words("metric"),
            Column::numbers("change"),
            Column::words("since"),
            Column::numbers("before").leaving(2),
            Column::numbers("after").leaving(3),
            Column::numbers("p").leaving(1),
            Column::sentences("first result after it"),
        ],
        rows: metrics.flat_map(rows).collect(),
        ..Table::default()
    }
}

/// True if the last change of a metric was for the worse.
fn is_worse(found: &MetricHistory) -> bool {
    let toward_worse = |change: &ChangePoint| {
        found
            .metric
            .toward_worse((change.after / change.before).ln())
    };
    found
        .changes
        .last()
        .is_some_and(|change| toward_worse(change) > 0.0)
}

fn percent(change: &ChangePoint) -> String {
    format!("{:+.1} %", (change.after / change.before - 1.0) * 100.0)
}

/// Start of the first result after a change.
fn since(history: &History, change: &ChangePoint) -> String {
    history
        .results
        .get(change.at)
        .map_or_else(|| "-".to_owned(), |past| moment(&past.started_at))
}
