//! Figures of a run as tables: names and values with their units. A value that is absent is a row
//! that is left out.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::judge::thresholds::FAILED;
use crate::run::report::{
    Audit, BusiestReport, Group, GroupRow, Limit, Report, Split, is_endless, share,
};
use crate::show::doc::{Column, Part, Table};
use crate::show::text::{
    bytes, counted, decimal, grouped, grouped_f64, micros, rate_in_words, seconds,
};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::profile::{KERNEL, is_even};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// A cell without a number.
const NONE: &str = "-";

/// Most causes, and names, in a table.
const MOST: usize = 20;

/// A limit that held for less than this part of the time is left out.
const SHOWN: f64 = 0.0005;

/// A name and its value; none where there is nothing to show.
type Row = (&'static str, Option<String>);

fn table(caption: &str, columns: Vec<Column>, rows: impl Iterator<Item = Vec<String>>) -> Table {
    Table {
        caption: caption.to_owned(),
        columns,
        rows: rows.collect(),
        has_sum: false,
    }
}

/// Show a number of a unit.
type Shown = fn(f64) -> String;

/// Ends of the names of figures in `result.json`, and how a figure of this unit is shown.
const UNITS: [(&str, Shown); 9] = [
    ("_per_s", |n| format!("{}/s", decimal(n))),
    ("_us", micros),
    ("_us_per_attempt", micros),
    ("_ms", |ms| micros(ms * 1e3)),
    ("_s", seconds),
    ("_ns", |ns| micros(ns / 1e3)),
    ("_bytes", |n| format!("{} MiB", decimal(n / 1_048_576.0))),
    ("share", rounded_percent),
    ("id", |n| format!("{n:.0}")),
];

/// Figures whose names say too little beside others.
const NAMES: [(&str, &str); 11] = [
    ("at_s", "scheduled at"),
    ("ttfb_us", "first byte"),
    ("cpu_us_per_attempt", "CPU per request"),
    ("max_sched_lag_us", "send delay at most"),
    ("promises", "responses that said how long to wait"),
    ("longest_promise_ns", "longest wait asked for"),
    ("honoured", "waits respected"),
    ("violated", "waits violated"),
    ("paused_s", "paused, mean of the shards"),
    ("paused_ns", "paused, sum of the shards"),
    ("p99_without_us", "p99 without retransmitted responses"),
];

/// The name of a figure for people, and how it is shown.
fn named(key: &str) -> (String, Option<Shown>) {
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end));
    let without_unit = match unit {
        Some((end, _)) if ["_us", "_ms", "_s", "_ns", "_bytes"].contains(end) => {
            &key[..key.len() - end.len()]
        }
        _ => key,
    };
    let name = NAMES.iter().find(|(known, _)| *known == key).map_or_else(
        || without_unit.replace('_', " "),
        |(_, name)| (*name).to_owned(),
    );
    (name, unit.map(|(_, show)| *show))
}

/// The figures of a part of the report by their names in `result.json`, each in its unit, without
/// those that are null or 0; empty if all are. A rate is shown as it was asked for.
pub(in crate::run) fn figures(caption: &str, part: &impl Serialize) -> Table {
    let part = serde_json::to_value(part).unwrap_or_default();
    let rows = part
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "rate_per_s")
        .filter_map(|(key, value)| {
            let (name, unit) = named(key);
            Some(vec![name, shown(value, unit).filter(|_| !is_zero(value))?])
        });
    let columns = vec![Column::words(""), Column::sentences("")];
    table(caption, columns, rows)
}

/// Parts of the report of one kind, a row each, by their names in `result.json`.
fn records<T: Serialize>(parts: &[T]) -> Table {
    let parts: Vec<Value> = parts.iter().flat_map(serde_json::to_value).collect();
    let mut keys: Vec<&String> = Vec::new();
    for key in parts
        .iter()
        .filter_map(Value::as_object)
        .flat_map(Map::keys)
    {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let rows = parts.iter().map(|part| {
        keys.iter()
            .map(|key| shown(&part[key], named(key).1).unwrap_or_default())
            .collect()
    });
    let columns = keys.iter().map(|key| Column::words(named(key).0)).collect();
    table("", columns, rows)
}

/// True of 0, and of what has nothing but zeros.
fn is_zero(value: &Value) -> bool {
    match value.as_object() {
        Some(all) => all.values().all(is_zero),
        None => value.as_f64() == Some(0.0),
    }
}

/// A value in its unit; none of one that says nothing, and of a list of objects.
fn shown(value: &Value, unit: Option<Shown>) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (unit, number.as_u64(), number.as_f64()) {
            (Some(unit), _, Some(n)) => unit(n),
            (_, Some(whole), _) => grouped(whole),
            (_, None, n) => decimal(n?),
        },
        Value::Array(all) => all
            .iter()
            .filter(|one| !one.is_object() && !is_zero(one))
            .take(MOST)
            .filter_map(|one| shown(one, unit))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Object(all) => all
            .iter()
            .take(MOST)
            .filter_map(|(key, one)| {
                let (name, unit) = named(key);
                Some(format!("{name} {}", shown(one, unit)?))
            })
            .collect::<Vec<_>>()
            .join(", "),
    };
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.to_owned())
}

/// A part of a whole in percent; nothing is no part of nothing.
fn part(n: u64, of: u64) -> String {
    or_dash((of > 0).then(|| rounded_percent(n as f64 / of as f64)))
}

/// The first rows of a run: what the terminal shows. `times` are those of its times.
pub(super) fn summary(report: &Report, times: Vec<Row>) -> Part {
    let statuses = report
        .totals
        .attempts_by_status
        .iter()
        .take(MOST)
        .map(|(status, n)| format!("{status}: {}", grouped(*n)));
    let after = [
        ("statuses", Some(statuses.collect::<Vec<_>>().join("  "))),
        ("limited by", Some(limited_by(report))),
        (
            "budget",
            report.budget.as_deref().map(|audit| kept(report, audit)),
        ),
        (
            "per host",
            report.host_budget.as_ref().map(|audit| kept(report, audit)),
        ),
        ("proxy", report.plan.run.workload.proxy.clone()),
        ("saved", saved(report)),
        ("parts", parts_merged(report)),
        ("witness", witness(report)),
    ];
    let rows = [("items", Some(states(report)))]
        .into_iter()
        .chain(times)
        .chain(after)
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Part::Facts(rows.filter(|(_, value)| !value.is_empty()).collect())
}

fn kept(report: &Report, audit: &Audit) -> String {
    match (audit.kept, audit.unaudited_shards as u64) {
        (false, _) => "exceeded".to_owned(),
        (true, 0) => "never exceeded in any window".to_owned(),
        (true, died) => format!(
            "never exceeded, without {} that died",
            counted(died, report.shard_word())
        ),
    }
}

/// Items by state, those that there are; good ones in any case. Of a run that the time ends, what is
/// left of the range says nothing.
fn item_states(report: &Report) -> impl Iterator<Item = (&'static str, u64)> {
    let is_endless = is_endless(&report.plan.run);
    let states = report.ledger.states();
    states
        .filter(move |(key, _, n)| {
            *key == "ok" || *n > 0 && !(is_endless && *key == "not_attempted")
        })
        .map(|(_, state, n)| (state, n))
}

fn states(report: &Report) -> String {
    let shown = item_states(report);
    let before = report.finished_before.filter(|before| *before > 0);
    shown
        .chain(before.map(|before| ("saved before", before)))
        .map(|(state, n)| format!("{} {state}", grouped(n)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn witness(report: &Report) -> Option<String> {
    Some(match report.witness.as_ref()?.agrees {
        Some(true) => "the target's own counts match".to_owned(),
        Some(false) => "the target's own counts DIFFER".to_owned(),
        None => "the target's own counts cannot be compared: a process ended early".to_owned(),
    })
}

/// The limits that held, in a line.
pub(super) fn limited_by(report: &Report) -> String {
    held(report)
        .into_iter()
        .map(|(limit, part)| format!("{limit} {part}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The limits that held, the longest first, each with its part of the time.
fn held(report: &Report) -> Vec<(&'static str, String)> {
    Limit::of(report)
        .into_iter()
        .filter(|(part, _)| *part >= SHOWN)
        .map(|(part, limit)| (limit.name(), rounded_percent(part)))
        .collect()
}

/// Items by state, requests by status and outcome, errors by kind, groups.
pub(super) fn counts(report: &Report, errors: Table) -> Part {
    let totals = &report.totals;
    let before = report.finished_before.unwrap_or(0);
    let all = report.got.of;
    let states = item_states(report)
        .chain((before > 0).then_some(("saved before", before)))
        .chain([("all", all)])
        .map(|(name, n)| vec![name.to_owned(), grouped(n), part(n, all)]);
    let statuses = totals
        .attempts_by_status
        .iter()
        .map(|(status, n)| vec![status.to_string(), grouped(*n), part(*n, totals.attempts)]);
    let items = table("Items by state", shares("state", "items"), states);
    let mut tables = vec![
        Table {
            has_sum: true,
            ..items
        },
        table("Requests by status", shares("status", "requests"), statuses),
        requests(report),
        errors,
    ];
    tables.extend(group_tables(report, usize::MAX));
    Part::Tables(tables)
}

/// Columns of counts and their shares.
fn shares(what: &'static str, of: &'static str) -> Vec<Column> {
    vec![
        Column::words(what),
        Column::numbers(of),
        Column::numbers("share"),
    ]
}

/// Every counter of requests and connections.
fn requests(report: &Report) -> Table {
    let counters = report.totals.requests.iter().filter_map(|(counter, n)| {
        let shown = match counter.of_bytes() {
            Some(_) => bytes(n),
            None => grouped(n),
        };
        Some((counter.label?, n, shown))
    });
    let checks = report.check_connections.unwrap_or(0);
    let others = [
        ("opened before the start, to check hosts", checks),
        ("peak in flight", report.totals.peak_in_flight),
    ];
    let rows = counters
        .chain(others.map(|(label, n)| (label, n, grouped(n))))
        .filter(|(label, n, _)| *n > 0 || *label == "requests");
    table(
        "Requests",
        vec![Column::words("what"), Column::numbers("count")],
        rows.map(|(label, _, shown)| vec![label.to_owned(), shown]),
    )
}

/// The `most` busiest hosts, URL templates and source addresses, and the sessions of a saved crawl.
pub(super) fn groups(report: &Report, most: usize) -> Part {
    Part::Tables(group_tables(report, most).to_vec())
}

fn group_tables(report: &Report, most: usize) -> [Table; 5] {
    let sessions = report.saved.as_ref().map(|saved| &saved.sessions[..]);
    [
        group(report, "host", &report.by_host, most),
        group(report, "URL template", &report.by_template, most),
        group(report, "source address", &report.by_source, most),
        group(report, "stage", &report.by_stage, most),
        records(sessions.filter(|all| all.len() > 1).unwrap_or_default()),
    ]
}

/// The `most` busiest of a kind, the busiest first; empty for a crawl of one.
fn group(report: &Report, kind: &str, rows: &[GroupRow], most: usize) -> Table {
    let mut rows: Vec<&GroupRow> = rows.iter().collect();
    let more = rows.len().saturating_sub(most);
    // All stages stay in their order.
    let is_in_order = more == 0 && matches!(rows.first(), Some(row) if row.lasted_s.is_some());
    rows.sort_by_key(|row| {
        let attempts = if is_in_order { 0 } else { row.attempts };
        (row.group.number().is_none(), Reverse(attempts))
    });
    let caption = if more == 0 {
        format!("By {kind}")
    } else {
        let more = counted(more as u64, "more row");
        format!("By {kind}, the {most} busiest ({more} in the report)")
    };
    // The busiest source addresses have rows of their own.
    let named = rows
        .iter()
        .filter(|row| matches!(row.group, Group::Source(Some(_))))
        .count() as u64;
    let others = match report.totals.sources_used.saturating_sub(named) {
        others if named > 0 && others > 0 => format!("{} others", grouped(others)),
        _ => "all others".to_owned(),
    };
    let columns = vec![
        Column::words(kind),
        Column::numbers("requests").leaving(2),
        Column::numbers("ok"),
        Column::numbers("not found").leaving(1),
        Column::numbers("errors"),
        Column::numbers("throttled"),
        Column::numbers("never sent").leaving(1),
        Column::numbers("met objectives").leaving(1),
        Column::numbers("p50").leaving(3),
        Column::numbers("p99"),
        Column::words("limited by").leaving(4),
    ];
    let stages = report.plan.run.shape.stages();
    let shown = rows.into_iter().take(most).map(|row| {
        let name = match (&row.name, row.group.number()) {
            (_, Some(number)) if matches!(row.group, Group::Stage(_)) => {
                let stage = stages.get(number as usize - 1).map(ToString::to_string);
                format!("{number}: {}", rate_in_words(&stage.unwrap_or_default()))
            }
            (Some(name), _) => name.clone(),
            (None, Some(number)) => format!("{kind} {number}"),
            (None, None) => others.clone(),
        };
        group_row(name, row, &report.plan.run)
    });
    table(&caption, columns, shown)
}

fn group_row(name: String, row: &GroupRow, plan: &RunPlan) -> Vec<String> {
    let counts = [
        row.attempts,
        row.ok,
        row.not_found,
        row.errors,
        row.throttled,
    ];
    let limit = row
        .limit(plan)
        .filter(|(part, _)| *part >= FAILED)
        .map(|(part, limit)| format!("{} {}", limit.name(), rounded_percent(part)));
    let mut cells = vec![name];
    cells.extend(counts.map(grouped));
    cells.extend([row.dropped, row.met].map(|n| n.map(grouped).unwrap_or_default()));
    cells.extend(row.shown().map(or_dash));
    cells.push(limit.unwrap_or_default());
    cells
}

/// Where the time of a request goes: the parts of the mean response time, and what the target's
/// processes used.
pub(super) fn split(report: &Report) -> Part {
    Part::Tables(vec![
        parts_of_time(report),
        target(report),
        functions(report),
    ])
}

fn busiest(one: &BusiestReport) -> String {
    format!("{}, {} of a CPU", one.name, rounded_percent(one.share))
}

/// What the target's processes used.
fn target(report: &Report) -> Table {
    let Some(target) = &report.target else {
        return Table::default();
    };
    let [processes, threads] = [(target.processes, "process"), (target.threads, "thread")]
        .map(|(most, what)| most.map(|most| counted(most.into(), what)));
    let counts: Vec<String> = [processes, threads].into_iter().flatten().collect();
    let cpus = counted(target.cpus.len() as u64, "CPU");
    let cores = report.target_cores();
    let queue = target.accept_queue.map(|queue| {
        let [mean, most, limit] = [queue.mean, queue.max as f64, queue.limit as f64].map(decimal);
        let drops = queue
            .drops
            .map(|drops| format!("; {} dropped", grouped(drops)))
            .unwrap_or_default();
        format!("{mean} on average, {most} at most, of {limit}{drops}")
    });
    let [delayed, throttled] = [
        target.run_delay_us_per_attempt,
        target.throttled_us_per_attempt,
    ]
    .map(|us| us.filter(|us| *us > 0.0).map(micros));
    let rows = [
        ("names", Some(target.names.join(", "))),
        ("at most", Some(counts.join(", "))),
        ("cgroup", target.cgroup.clone()),
        ("CPU per request", target.cpu_us_per_attempt.map(micros)),
        (
            "CPUs in use",
            cores.map(|cores| format!("{} of {cpus}", decimal(cores))),
        ),
        (
            "busiest process",
            target.busiest_process.as_ref().map(busiest),
        ),
        (
            "busiest thread",
            target.busiest_thread.as_ref().map(busiest),
        ),
        ("waits for a CPU, per request", delayed),
        ("stopped by its quota, per request", throttled),
        ("accept queue", queue),
        ("memory", target.rss_bytes.map(bytes)),
        ("descriptors", target.fds.map(grouped)),
        ("probe ended early", target.ended.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(vec![name.to_owned(), value])
    });
    let columns = vec![Column::words(""), Column::sentences("")];
    table("Target's processes", columns, rows)
}

/// Functions in a table at most.
const MOST_FUNCTIONS: usize = 10;

/// The functions of the target that used most CPU time.
fn functions(report: &Report) -> Table {
    let profile = report.target.as_ref().and_then(|it| it.profile.as_ref());
    let Some(profile) = profile else {
        return Table::default();
    };
    let each_us = report.target_cpu_us_per_attempt();
    let all_us = report.target.as_ref().and_then(|it| it.cpu_us);
    let in_user = profile.in_user(all_us.unwrap_or(0.0));
    let row = |name: &str, object: &str, part: f64, caller: Option<&str>| {
        vec![
            name.to_owned(),
            object.to_owned(),
            rounded_percent(part),
            or_dash(each_us.map(|us| micros(us * part))),
            caller.unwrap_or_default().to_owned(),
        ]
    };
    let kernel = (in_user < 1.0).then(|| row(KERNEL, "", 1.0 - in_user, None));
    let sampled = profile.functions.iter().take(MOST_FUNCTIONS).map(|it| {
        let part = share(it.samples as f64, profile.samples as f64) * in_user;
        row(&it.name, &it.object, part, it.caller.as_deref())
    });
    let rows = kernel.into_iter().chain(sampled);
    let columns = vec![
        Column::words("function"),
        Column::words("file").leaving(2),
        Column::numbers("CPU time"),
        Column::numbers("per request"),
        Column::words("called by").leaving(1),
    ];
    let without = match profile.not_sampled {
        0 => String::new(),
        threads => format!(
            ", without {} that could not be sampled",
            counted(threads, "thread")
        ),
    };
    let uneven = if is_even(profile.samples, profile.started) {
        ""
    } else {
        ". Its threads are too short to be sampled evenly: what they do first is seen too little"
    };
    let caption = format!(
        "Functions of the target, from {}{without}{uneven}",
        counted(profile.samples, "sample")
    );
    table(&caption, columns, rows)
}

fn parts_of_time(report: &Report) -> Table {
    let Some(split) = &report.split else {
        return Table::default();
    };
    let rows = Split::PARTS
        .into_iter()
        .filter_map(|(name, mean_us)| Some((name, mean_us(split)?)))
        .filter(|(_, us)| *us > 0.0)
        .chain([("response time", split.response_us)])
        .map(|(name, us)| {
            let share = rounded_percent(share(us, split.response_us));
            let interval = split
                .intervals
                .get(&name.replace(' ', "_"))
                .map(|[low, high]| format!("{} to {}", micros(*low), micros(*high)));
            vec![
                name.to_owned(),
                micros(us),
                share,
                interval.unwrap_or_default(),
            ]
        });
    let columns = vec![
        Column::words("part"),
        Column::numbers("mean"),
        Column::numbers("share"),
        Column::numbers("95 % interval of the mean"),
    ];
    let sample = counted(split.n, "response");
    let caption = format!("Means of all responses, their parts from a sample of {sample}");
    Table {
        has_sum: true,
        ..table(&caption, columns, rows)
    }
}

/// What the slowest responses have in common.
pub(super) fn traits(report: &Report) -> Part {
    let columns = vec![
        Column::words("trait"),
        Column::numbers("slowest"),
        Column::numbers("have it"),
        Column::numbers("others"),
    ];
    let rows = report.traits.iter().take(MOST).map(|row| {
        let shares = [row.slowest, row.slow_share, row.others_share];
        let mut cells = vec![row.in_words()];
        cells.extend(shares.map(rounded_percent));
        cells
    });
    Part::Tables(vec![table("", columns, rows)])
}

/// The slowest requests.
pub(super) fn slowest(report: &Report) -> Part {
    Part::Tables(vec![records(&report.slowest)])
}

/// What limited the run: shares of its time, budgets, schedule, throttling.
pub(super) fn limits(report: &Report) -> Part {
    let shares = held(report).into_iter();
    let windows = report.budget.as_ref().map(|budget| &budget.busiest[..]);
    Part::Tables(vec![
        table(
            "Limited by",
            vec![Column::words("limit"), Column::numbers("share of the time")],
            shares.map(|(limit, part)| vec![limit.to_owned(), part]),
        ),
        figures("Schedule", &report.schedule),
        figures("Throttling", &report.throttling),
        figures("Budget", &report.budget),
        records(windows.unwrap_or_default()),
        figures("Budget of each host", &report.host_budget),
        figures("TCP connections", &report.tcp),
        figures("Closed connections", &report.connections),
        figures("TLS handshakes", &report.tls),
        figures("robots.txt", &report.robots),
        figures("Moved between shards", &report.moved),
    ])
}

/// Saved items of those of the crawl, and the next step.
fn saved(report: &Report) -> Option<String> {
    let saved = report.saved.as_ref()?;
    let next = if saved.is_complete() {
        String::new()
    } else {
        format!("; go on with: {}", saved.resume)
    };
    Some(format!(
        "{} of {} to {}{next}",
        grouped(saved.saved),
        counted(saved.items, "item"),
        saved.directory
    ))
}

/// Parts that were merged, of those of the crawl.
fn parts_merged(report: &Report) -> Option<String> {
    let merged = report.merged.as_ref()?;
    Some(format!(
        "{} of {} merged, on {}",
        merged.parts.saturating_sub(merged.missing_parts),
        counted(merged.parts.into(), "part"),
        counted(merged.machines.into(), "machine")
    ))
}

/// The parts of a merged crawl, and a row for each attempt that was not merged.
pub(super) fn merge(report: &Report) -> Part {
    let others = report.merged.iter().map(|merged| records(&merged.others));
    Part::Tables(others.chain([figures("", &report.merged)]).rev().collect())
}

/// A row per shard.
pub(super) fn shards(report: &Report) -> Part {
    let numbers = [
        "ids",
        "items",
        "items/s",
        "p50",
        "p99",
        "CPU per request",
        "CPU",
        "send delay p99",
        "send delay max",
    ];
    let columns = [Column::words(report.shard_word())]
        .into_iter()
        .chain(numbers.map(Column::numbers))
        .chain([Column::sentences("exit")]);
    let rows = report.shards.iter().map(|shard| {
        let [service, delay] =
            [Series::ServiceOk, Series::SchedLag].map(|series| shard.latency.get(series.name()));
        let ids = [shard.id_range.start, shard.id_range.end].map(grouped);
        let mut ends: Vec<String> = shard
            .died
            .iter()
            .map(|life| life.fault.end_in_words(life.exit))
            .collect();
        let last = shard.fault.as_ref().map(ToString::to_string);
        ends.push(last.unwrap_or_else(|| shard.exit.to_string()));
        vec![
            shard.shard.to_string(),
            ids.join(".."),
            grouped(shard.ledger.completed()),
            grouped_f64(shard.totals.items_per_s),
            or_dash(service.and_then(|times| times.p50_us).map(micros)),
            or_dash(service.and_then(|times| times.p99_us).map(micros)),
            or_dash(shard.usage.cpu_us_per_attempt.map(micros)),
            or_dash(shard.usage.cpu_share.map(rounded_percent)),
            or_dash(delay.and_then(|times| times.p99_us).map(micros)),
            or_dash(delay.and_then(|times| times.max_us).map(micros)),
            ends.join(", "),
        ]
    });
    Part::Tables(vec![table("", columns.collect(), rows)])
}

/// The machine that measured, what it counted during the run, and the target's own counts.
pub(super) fn machine(report: &Report) -> Vec<Part> {
    let tables = Part::Tables(vec![
        figures("Machine", &report.environment),
        figures("System-wide counters during the run", &report.host),
        target(report),
        functions(report),
        figures("Supervisor", &report.supervisor),
    ]);
    let ledger = report
        .witness
        .as_ref()
        .map(|witness| &witness.ledger)
        .filter(|ledger| !ledger.is_null())
        .map(|ledger| Part::Code("The target's own counts", format!("{ledger:#}")));
    [tables].into_iter().chain(ledger).collect()
}
