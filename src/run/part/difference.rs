//! Settings in which plans differ, by their flags and with both values as typed: of a part and its
//! plan, with what to do, and of two runs.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlmark_harness::plan::{PerHost, RunPlan, ThrottlingPolicy};
use crawlmark_results::run::report::{PROXY, PROXY_FROM};

use crate::cli::setters;

/// A setting, and its value; none if it is not set.
type Setting = (String, Option<String>);

/// Name the first setting that differs, with both values if the plan has one, and say what to do.
pub(super) fn difference(plan: &RunPlan, own: &RunPlan) -> Option<String> {
    let by_flag = || {
        named(plan)
            .into_iter()
            .zip(named(own))
            .find(|(was, is)| was != is)
    };
    let ((name, was), (_, is)) = by_flag()
        .or_else(|| in_workload(plan, own))
        .or_else(|| elsewhere(plan, own))?;
    let is_flag = name.starts_with("--");
    if is_flag && was.is_none() {
        return Some(format!(
            "{name} is not in the plan. Remove it, or make another plan"
        ));
    }
    let remove = if is_flag && is.is_some() {
        ", remove the flag"
    } else {
        ""
    };
    let [was, is] = [was, is].map(|value| value.unwrap_or_else(|| "not set".to_owned()));
    Some(format!(
        "{name} is {was} in the plan, and {is} here. Use that of the plan{remove}, or make another plan"
    ))
}

/// Return the settings that have a flag; one that others follow from comes before them.
fn named(plan: &RunPlan) -> Vec<Setting> {
    let ThrottlingPolicy {
        on_throttle,
        max_pause,
        retries,
        retry_budget_percent,
        backoff,
        adaptive,
    } = plan.throttling;
    let PerHost {
        hosts,
        connections,
        rate,
        burst: _,
    } = plan.per_host;
    let time = |time: Duration| humantime::format_duration(time).to_string();
    let settings = [
        ("the target", Some(plan.target.clone())),
        ("the number of hosts", Some(hosts.to_string())),
        ("--ids", Some(plan.ids.to_string())),
        ("--connections", Some(plan.connections.to_string())),
        ("--streams", Some(plan.streams.to_string())),
        ("--rate", plan.shaped_rate().map(|rate| rate.to_string())),
        ("--arrivals", Some(plan.arrivals.to_string())),
        ("--burst", Some(plan.burst.to_string())),
        ("--queue", plan.queue.map(|queue| queue.to_string())),
        ("--pacing", Some(plan.pacing.to_string())),
        ("--duration", plan.duration.map(time)),
        ("--warmup", Some(time(plan.warmup))),
        ("--timeout", Some(time(plan.timeout))),
        ("--grace", Some(time(plan.grace))),
        ("--shard-deadline", Some(time(plan.shard_deadline))),
        ("--seed", Some(plan.seed.to_string())),
        ("--on-throttle", Some(on_throttle.name().to_owned())),
        ("--max-pause", Some(time(max_pause))),
        ("--retries", Some(retries.to_string())),
        ("--retry-budget", Some(format!("{retry_budget_percent}%"))),
        (
            "--backoff",
            Some(format!("{},{}", time(backoff.base), time(backoff.cap))),
        ),
        ("--adaptive", adaptive.map(|kind| kind.name().to_owned())),
        (
            "--per-host-connections",
            connections.map(|connections| connections.to_string()),
        ),
        ("--per-host-rate", rate.map(|rate| rate.to_string())),
    ];
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn in_workload(plan: &RunPlan, own: &RunPlan) -> Option<(Setting, Setting)> {
    let [was, is] = [plan, own].map(|plan| &plan.workload);
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let key = keys.into_iter().find(|key| was.get(*key) != is.get(*key))?;
    Some(of_workload(key, [plan, own]).into())
}

/// Name a setting of the workload by the flags that set it, with its value in both plans.
fn of_workload(key: &str, plans: [&RunPlan; 2]) -> [Setting; 2] {
    let stem = key.strip_suffix("_us");
    let flag = format!("--{}", stem.unwrap_or(key).replace('_', "-"));
    let flags = setters(key);
    let from = plans.map(|plan| plan.workload.get(PROXY_FROM));
    let variables = from.into_iter().flatten().find(|from| *from != "--proxy");
    let name = match variables {
        Some(variables) if key == PROXY => variables.clone(),
        _ if flags.contains(&flag) => flag,
        _ if flags.len() == 1 => flags.concat(),
        _ if flags.is_empty() => format!("`{key}`"),
        _ => format!("`{key}` ({})", flags.join(", ")),
    };
    let shown = |value: &String| match value.parse().ok().filter(|_| stem.is_some()) {
        Some(us) => humantime::format_duration(Duration::from_micros(us)).to_string(),
        None => value.clone(),
    };
    plans.map(|plan| (name.clone(), plan.workload.get(key).map(shown)))
}

/// Name the setting of a plan that its key in `result.json` stands for, with its value in both
/// plans; none if no flag sets it.
pub(crate) fn in_flags(key: &str, plans: [&RunPlan; 2]) -> Option<(String, [String; 2])> {
    let key = key.strip_prefix("plan.")?;
    let [was, is] = if let Some(key) = key.strip_prefix("workload.") {
        of_workload(key, plans)
    } else {
        let stem = key.split('.').next()?.trim_end_matches("_us");
        // The shape of a load is typed as a rate.
        let flag = format!("--{}", if stem == "shape" { "rate" } else { stem });
        let [was, is] = plans.map(|plan| named(plan).into_iter().find(|(name, _)| *name == flag));
        [was?, is?]
    };
    Some((
        was.0,
        [was.1, is.1].map(|value| value.unwrap_or_else(|| "not set".to_owned())),
    ))
}

/// Return a field of the plan that follows from none of the settings above.
fn elsewhere(plan: &RunPlan, own: &RunPlan) -> Option<(Setting, Setting)> {
    let [was, is] = [plan, own].map(|plan| serde_json::to_value(plan).unwrap_or_default());
    let mut keys = was.as_object()?.keys().chain(is.as_object()?.keys());
    let key = keys.find(|key| was.get(*key) != is.get(*key))?;
    let value =
        |plan: &serde_json::Value| (format!("`{key}`"), plan.get(key).map(ToString::to_string));
    Some((value(&was), value(&is)))
}
