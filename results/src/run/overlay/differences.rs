//! In what runs differ besides their figures: plans, machines, versions; and what each is called by
//! that.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::run::report::{Report, TARGET_PROCESSES};
use crate::run::words::machine::{UNKNOWN, environment};
use crate::show::plot::overlay::Run;
use crate::show::text::rate_in_words;
use crawlmark_harness::units::micros;

/// The longest label: longer ones would push what stands beside them off a plot.
const LONGEST: usize = 24;

/// Something that is not the same for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// Group that it is a part of.
    pub(super) group: &'static str,
    pub(super) name: String,
    /// One for each run.
    pub(super) values: Vec<String>,
}

/// Return a different name for each run: its own; with the one setting that differs, if runs share
/// a name; else that of its directory; else with a number.
#[must_use]
pub fn labels(reports: &[Report], directories: &[String]) -> Vec<String> {
    let named: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
    let plans: Vec<Vec<(String, String)>> = reports.iter().map(plan).collect();
    let differing = differing("plan", &plans);
    // Of few differences only: a label is short.
    let told = |n: usize| {
        differing
            .first()
            .map(|one| format!("{}, {} {}", named[n], one.name, one.values[n]))
    };
    let with_plan: Option<Vec<String>> = (differing.len() == 1)
        .then(|| (0..reports.len()).map(told).collect::<Option<_>>())
        .flatten();
    let by_directory = (directories.len() == reports.len()).then(|| directories.to_vec());
    [Some(named.clone()), with_plan, by_directory]
        .into_iter()
        .flatten()
        .find(|labels| are_labels(labels))
        .unwrap_or_else(|| {
            let number =
                |(n, name): (usize, &String)| format!("{} {}", n + 1, shortened(name, LONGEST - 3));
            named.iter().enumerate().map(number).collect()
        })
}

/// True if they are short, and no two alike.
fn are_labels(labels: &[String]) -> bool {
    let different: BTreeSet<&String> = labels.iter().collect();
    !labels.is_empty()
        && different.len() == labels.len()
        && labels.iter().all(|label| label.chars().count() <= LONGEST)
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['\u{2026}']).collect()
}

/// Everything that is not the same: of the plans, of the machines, and the versions.
pub(super) fn differences(runs: &[Run<'_>]) -> Vec<Difference> {
    let of = |facts: fn(&Report) -> Vec<(String, String)>| -> Vec<_> {
        runs.iter().map(|run| facts(run.report)).collect()
    };
    let mut all = differing("plan", &of(plan));
    all.extend(differing("machine", &of(machine)));
    all.extend(differing("crawlmark", &of(version)));
    all
}

/// The facts that are not the same for all, in the order in which they first appear.
fn differing(group: &'static str, all: &[Vec<(String, String)>]) -> Vec<Difference> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |facts: &Vec<(String, String)>, name: &String| {
        facts
            .iter()
            .find(|(known, _)| known == name)
            .map_or_else(|| "none".to_owned(), |(_, value)| value.clone())
    };
    let difference = |name: &String| {
        let values: Vec<String> = all.iter().map(|facts| value(facts, name)).collect();
        let is_one = values.windows(2).any(|two| two[0] != two[1]);
        is_one.then(|| Difference {
            group,
            name: name.clone(),
            values,
        })
    };
    names.into_iter().filter_map(difference).collect()
}

/// A plan as names and values, in words where there are such.
fn plan(report: &Report) -> Vec<(String, String)> {
    let plan = &report.plan.run;
    let mut facts = Vec::new();
    let Ok(Value::Object(fields)) = serde_json::to_value(plan) else {
        return facts;
    };
    for (name, value) in fields {
        match &*name {
            // Each time another port.
            "target" if plan.workload.contains_key(TARGET_PROCESSES) => {
                facts.push((name, "bundled".to_owned()));
            }
            "ids" => facts.push((name, plan.ids.to_string())),
            "rate" => facts.push((
                name,
                plan.shaped_rate().map_or_else(
                    || "none".to_owned(),
                    |rate| rate_in_words(&rate.to_string()),
                ),
            )),
            // The rate says it.
            "shape" => {}
            _ => flattened(&name, &value, &mut facts),
        }
    }
    facts
}

/// A value by its name; the fields of an object by theirs.
fn flattened(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                // What a workload or throttling hold needs no such word before it.
                let name = if ["workload", "manners"].contains(&name) {
                    field.clone()
                } else {
                    format!("{name}: {field}")
                };
                flattened(&name, value, facts);
            }
        }
        Value::Null => facts.push((worded(name), "none".to_owned())),
        Value::String(text) => {
            facts.push((
                worded(name),
                time(name, text.parse().ok()).unwrap_or_else(|| text.clone()),
            ));
        }
        value => facts.push((
            worded(name),
            time(name, value.as_f64()).unwrap_or_else(|| value.to_string()),
        )),
    }
}

/// A field's name without its unit, which its value has.
fn worded(name: &str) -> String {
    name.strip_suffix("_us").unwrap_or(name).replace('_', " ")
}

/// A time, when the field's name says that it is one.
fn time(name: &str, us: Option<f64>) -> Option<String> {
    match us.filter(|_| name.ends_with("_us"))? {
        us if us <= 0.0 => Some("none".to_owned()),
        us => Some(micros(us)),
    }
}

fn machine(report: &Report) -> Vec<(String, String)> {
    let told = |(name, value): (&str, Option<String>)| {
        (name.to_owned(), value.unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    environment(&report.environment)
        .into_iter()
        .map(told)
        .collect()
}

fn version(report: &Report) -> Vec<(String, String)> {
    vec![("version".to_owned(), report.crawlmark_version.clone())]
}
