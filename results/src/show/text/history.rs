//! A history of results as text: where each metric changed.

use crate::show::doc::Doc;
use crate::studies::compare::{Change, History, Metric, in_unit, short_name};

/// The history as a document.
#[must_use]
pub fn history(history: &History) -> Doc {
    let count = history.results.len();
    let results = if count == 1 { "result" } else { "results" };
    let mut facts: Vec<(&str, String)> = Vec::new();
    for (name, past) in [("first", history.results.first()), ("latest", history.results.last())] {
        facts.extend(past.map(|past| (name, format!("{}, {}", past.started_at, past.result))));
    }
    if history.left_out > 0 {
        let results = if history.left_out == 1 { "result" } else { "results" };
        facts.push(("left out", format!("{} {results} with another plan, machine or name", history.left_out)));
    }
    if history.is_enough() {
        for found in &history.metrics {
            let rows: Vec<String> = found.changes.iter().map(|change| told(history, found.metric, change)).collect();
            let row = if rows.is_empty() { "no change".to_owned() } else { rows.join("\n") };
            facts.push((short_name(found.metric), row));
        }
        let advice = "shows where to look, and is not a verdict: the machine may have changed; compare the two versions with `crawlmark ab`";
        facts.push(("note", advice.to_owned()));
    } else {
        let is = if count == 1 { "is" } else { "are" };
        let needed = history.results_needed;
        facts.push(("changes", format!("{count} {results} {is} not enough to find a change: {needed} needed")));
    }
    Doc::new(history.name.clone())
        .text(format!("{count} {results} with the name `{}`, the same plan and the same kind of machine", history.name))
        .facts(facts)
}

fn told(history: &History, metric: Metric, change: &Change) -> String {
    let [before, after] = [change.before, change.after].map(|value| in_unit(metric, value));
    let percent = (change.after / change.before - 1.0) * 100.0;
    let since = history.results.get(change.at).map_or("-", |past| &past.started_at);
    let result = history.results.get(change.at).map_or("-", |past| &past.result);
    format!("{percent:+.1} % since {since} ({before} before, {after} after, p {:.3}): {result}", change.p)
}
