//! Figures of a run as tables: names and values with their units. A value that is absent is a row
//! that is left out.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::Value;

use super::failures::{CUT_OFF, explained};
use super::times::{figure, main_times, meaning, spectrum};
use crate::judge::thresholds::FAILED;
use crate::run::report::{
    Audit, FailureReport, Group, GroupRow, Limit, PROXY, Report, SlowRow, Split, cause_in_words,
    failures, is_endless, share,
};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{bytes, counted, decimal, grouped, grouped_f64, micros, seconds};
use crawlmark_harness::stats::{FailureCause, Series};
use crawlmark_harness::units::rounded_percent;

/// A cell without a number.
const NONE: &str = "-";

/// Most causes, and names, in a table.
const MOST: usize = 20;

/// A limit that held for less than this part of the time is left out.
const SHOWN: f64 = 0.0005;

/// A name and its value; none where there is nothing to show.
type Row = (&'static str, Option<String>);

/// The rows that have a value.
pub(super) fn known(rows: impl IntoIterator<Item = Row>) -> Vec<(&'static str, String)> {
    rows.into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
        .collect()
}

/// Show a number of a unit.
type Shown = fn(f64) -> String;

/// Ends of the names of figures in `result.json`, and how a figure of this unit is shown.
const UNITS: [(&str, Shown); 7] = [
    ("_per_s", |n| format!("{}/s", decimal(n))),
    ("_us", micros),
    ("_us_per_attempt", micros),
    ("_ms", |ms| micros(ms * 1e3)),
    ("_s", seconds),
    ("_bytes", |n| format!("{} KiB", decimal(n / 1024.0))),
    ("_share", rounded_percent),
];

/// Figures whose names say too little beside others.
const NAMES: [(&str, &str); 6] = [
    ("cpu_us_per_attempt", "CPU per request"),
    ("max_sched_lag_us", "send delay at most"),
    ("promises", "responses that said how long to wait"),
    ("longest_promise_s", "longest wait asked for"),
    ("honoured", "waits respected"),
    ("violated", "waits violated"),
];

/// The name of a figure for people, and how it is shown.
fn named(key: &str) -> (String, Option<Shown>) {
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end));
    let name = match unit {
        Some((end, _)) if ["_us", "_ms", "_s", "_bytes"].contains(end) => {
            &key[..key.len() - end.len()]
        }
        _ => key,
    };
    let known = NAMES.iter().find(|(known, _)| *known == key);
    let name = known.map_or_else(|| name.replace('_', " "), |(_, name)| (*name).to_owned());
    (name, unit.map(|(_, show)| *show))
}

/// The figures of a part of the report by their names in `result.json`, each in its unit, without
/// those that are null or 0; empty if all are.
pub(in crate::run) fn figures(caption: &str, part: &impl Serialize) -> Table {
    let part = serde_json::to_value(part).unwrap_or_default();
    let mut rows = Vec::new();
    for (key, value) in part.as_object().into_iter().flatten() {
        let (name, unit) = named(key);
        rows.extend(shown(value, unit).map(|value| (name, value)));
    }
    facts(caption, &rows)
}

fn facts<N: ToString>(caption: &str, rows: &[(N, String)]) -> Table {
    Table {
        caption: caption.to_owned(),
        ..Table::of_facts(rows)
    }
}

/// Parts of the report of one kind, a row each, by their names in `result.json`.
fn records<T: Serialize>(parts: &[T]) -> Table {
    let parts: Vec<Value> = parts.iter().flat_map(serde_json::to_value).collect();
    let keys = parts.first().and_then(Value::as_object);
    let keys: Vec<&String> = keys.into_iter().flat_map(|first| first.keys()).collect();
    Table {
        columns: keys.iter().map(|key| Column::words(named(key).0)).collect(),
        rows: parts
            .iter()
            .map(|part| {
                let cells = keys.iter();
                let cells = cells.map(|key| or_dash(shown(&part[key.as_str()], named(key).1)));
                cells.collect()
            })
            .collect(),
        ..Table::default()
    }
}

/// A value in its unit; none of one that says nothing, and of a list of objects.
fn shown(value: &Value, unit: Option<Shown>) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(is) => Some(if *is { "yes" } else { "no" }.to_owned()),
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => {
            let n = number.as_f64().filter(|n| *n != 0.0)?;
            let whole = number.as_u64().map(grouped);
            Some(unit.map_or_else(|| whole.unwrap_or_else(|| decimal(n)), |show| show(n)))
        }
        Value::Array(all) => {
            let all = all.iter().filter(|one| !one.is_object()).take(MOST);
            let all: Vec<String> = all.filter_map(|one| shown(one, unit)).collect();
            Some(all.join(", ")).filter(|all| !all.is_empty())
        }
        Value::Object(all) => {
            let all = all.iter().take(MOST);
            let all = all.filter_map(|(name, one)| Some(format!("{name}: {}", shown(one, None)?)));
            Some(all.collect::<Vec<_>>().join("  ")).filter(|all| !all.is_empty())
        }
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.to_owned())
}

/// A part of a whole in percent; nothing is no part of nothing.
fn part(n: u64, of: u64) -> String {
    or_dash((of > 0).then(|| rounded_percent(n as f64 / of as f64)))
}

/// The first rows of a run: what the terminal shows.
pub(super) fn summary(report: &Report) -> Vec<(&'static str, String)> {
    let totals = &report.totals;
    let times = main_times(report);
    let no_times = "no good response was measured";
    let statuses = totals
        .attempts_by_status
        .iter()
        .take(MOST)
        .map(|(status, n)| format!("{status}: {}", grouped(*n)));
    known([
        ("items", Some(states(report))),
        (
            report.main_series().name(),
            times.map(|(_, latency, _)| spectrum(latency)),
        ),
        (
            "first event",
            report.latency(Series::FirstEvent).map(spectrum),
        ),
        ("event gap", report.latency(Series::EventGap).map(spectrum)),
        (
            "times",
            Some(times.map_or(no_times, |(.., meaning)| meaning).to_owned()),
        ),
        ("statuses", Some(statuses.collect::<Vec<_>>().join("  "))),
        (
            "limited by",
            Some(limited_by(Limit::of(report, &report.binding))),
        ),
        (
            "budget",
            report.budget.as_ref().map(|budget| kept(report, budget)),
        ),
        (
            "per host",
            report
                .host_budget
                .as_ref()
                .map(|budget| kept(report, budget)),
        ),
        ("proxy", report.plan.run.workload.get(PROXY).cloned()),
        ("saved", saved(report)),
        ("parts", parts_merged(report)),
        ("witness", witness(report)),
    ])
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
    let shown = states.filter(move |(key, _, n)| {
        *key == "ok" || *n > 0 && !(is_endless && *key == "not_attempted")
    });
    shown.map(|(_, state, n)| (state, n))
}

fn states(report: &Report) -> String {
    let shown = item_states(report);
    let before = report.finished_before.filter(|before| *before > 0);
    let all = shown.chain(before.map(|before| ("saved before", before)));
    let all = all.map(|(state, n)| format!("{} {state}", grouped(n)));
    all.collect::<Vec<_>>().join(", ")
}

fn witness(report: &Report) -> Option<String> {
    Some(match report.witness.as_ref()?.agrees {
        Some(true) => "the target's own counts match".to_owned(),
        Some(false) => "the target's own counts DIFFER".to_owned(),
        None => "the target's own counts cannot be compared: a process ended early".to_owned(),
    })
}

/// The limits that held, the longest first, each with its part of the time.
fn limited_by(limits: [(f64, Limit); 6]) -> String {
    let shown = limits.into_iter().filter(|(part, _)| *part >= SHOWN);
    shown
        .map(|(part, limit)| held(part, limit))
        .collect::<Vec<_>>()
        .join(", ")
}

fn held(part: f64, limit: Limit) -> String {
    format!("{} {}", limit.name(), rounded_percent(part))
}

/// Items by state, requests by status and outcome, errors by kind, groups.
pub(super) fn counts(report: &Report) -> Doc {
    let totals = &report.totals;
    let before = report.finished_before.unwrap_or(0);
    let all = report.got.of;
    let states = item_states(report)
        .chain((before > 0).then_some(("saved before", before)))
        .chain([("all", all)]);

    let statuses = totals.attempts_by_status.iter();
    Doc::default()
        .table(Table {
            caption: "Items by state".to_owned(),
            columns: vec![
                Column::words("state"),
                Column::numbers("items"),
                Column::numbers("share"),
            ],
            rows: states
                .map(|(name, n)| vec![name.to_owned(), grouped(n), part(n, all)])
                .collect(),
            has_sum: true,
        })
        .table(Table {
            caption: "Requests by status".to_owned(),
            columns: vec![
                Column::words("status"),
                Column::numbers("requests"),
                Column::numbers("share"),
            ],
            rows: statuses
                .map(|(status, n)| vec![status.to_string(), grouped(*n), part(*n, totals.attempts)])
                .collect(),
            ..Table::default()
        })
        .table(requests(report))
        .table(errors(report))
        .and(groups(report, usize::MAX))
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
    let rows = counters.chain(others.map(|(label, n)| (label, n, grouped(n))));
    Table {
        caption: "Requests".to_owned(),
        columns: vec![Column::words("what"), Column::numbers("count")],
        rows: rows
            .filter(|(label, n, _)| *n > 0 || *label == "requests")
            .map(|(label, _, shown)| vec![label.to_owned(), shown])
            .collect(),
        ..Table::default()
    }
}

/// Failed requests by cause, the commonest first, each with its first and last time and an example.
pub(super) fn errors(report: &Report) -> Table {
    let causes = failures(&report.totals.requests);
    let (listed, rest) = causes.split_at(causes.len().min(MOST));
    let rest = rest.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
    let named = listed.iter().map(|(cause, n)| {
        let seen = report.failures.get(&cause.key());
        let example = seen.map(|seen| example(*cause, seen));
        let times = seen.map(|seen| [seen.first_s, seen.last_s]);
        (cause_in_words(*cause), *n, times, example)
    });
    let others = [("others", rest), (CUT_OFF, report.ledger.aborted)];
    let others = others.map(|(name, n)| (name.to_owned(), n, None, None));
    let all = named.chain(others.into_iter().filter(|(_, n, ..)| *n > 0));
    Table {
        caption: "Errors by kind".to_owned(),
        columns: vec![
            Column::words("error"),
            Column::numbers("requests"),
            Column::numbers("share"),
            Column::numbers("first").leaving(1),
            Column::numbers("last").leaving(2),
            Column::details("example"),
        ],
        rows: all
            .map(|(name, n, times, example)| {
                let time = |at: usize| or_dash(times.map(|times| format!("{:.2} s", times[at])));
                vec![
                    name,
                    grouped(n),
                    part(n, report.totals.attempts),
                    time(0),
                    time(1),
                    example.unwrap_or_default(),
                ]
            })
            .collect(),
        ..Table::default()
    }
}

/// The first failure of a cause: its status, its details or the start of its body, and the remedy.
fn example(cause: FailureCause, seen: &FailureReport) -> String {
    let body = seen.excerpt.as_deref();
    let body = body.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let status = seen.status.map(|status| status.to_string());
    let answer = [status, seen.details.clone().or(body)];
    let answer = answer.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let answer = Some(&*answer).filter(|answer| !answer.is_empty());
    explained(cause, answer, seen.excerpt.as_deref())
}

/// The `most` busiest hosts, URL templates and source addresses, and the sessions of a saved crawl.
pub(super) fn groups(report: &Report, most: usize) -> Doc {
    Doc::default()
        .table(group(report, "host", &report.by_host, most))
        .table(group(report, "URL template", &report.by_template, most))
        .table(group(report, "source address", &report.by_source, most))
        .table(sessions(report))
}

/// The `most` busiest of a kind, the busiest first; empty for a crawl of one.
fn group(report: &Report, kind: &str, rows: &[GroupRow], most: usize) -> Table {
    let mut rows: Vec<&GroupRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.group.number().is_none(), Reverse(row.attempts)));
    let more = rows.len().saturating_sub(most);
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
        rows: rows
            .into_iter()
            .take(most)
            .map(|row| {
                let number = row.group.number();
                let name = row.name.clone();
                let name = name.or_else(|| number.map(|number| format!("{kind} {number}")));
                let counts = [
                    row.attempts,
                    row.ok,
                    row.not_found,
                    row.errors,
                    row.throttled,
                ];
                let times = [row.p50_us, row.p99_us].map(|us| us.map(|us| micros(us as f64)));
                let limit = row
                    .limit(&report.plan.run)
                    .filter(|(part, _)| *part >= FAILED);
                [name.unwrap_or_else(|| others.clone())]
                    .into_iter()
                    .chain(counts.map(grouped))
                    .chain(times.map(or_dash))
                    .chain([limit.map_or_else(String::new, |(part, limit)| held(part, limit))])
                    .collect()
            })
            .collect(),
        ..Table::default()
    }
}

/// Every series that holds anything, those that people ask for first.
pub(super) fn times(report: &Report) -> Doc {
    let first = [
        Series::ResponseOk,
        Series::ServiceOk,
        Series::Item,
        Series::Ttfb,
    ]
    .map(Series::name);
    let rest = report.latency.keys().map(String::as_str);
    let rest = rest.filter(|name| !first.contains(name));
    let columns = [
        "count",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "unfinished",
    ];
    let rows = first.into_iter().chain(rest).filter_map(|name| {
        let latency = report.latency.get(name)?;
        let least = [("min", "min_us", latency.min_us)];
        let mean = [("mean", "mean_us", latency.mean_us)];
        let figures = least.into_iter().chain(mean).chain(latency.figures());
        let mut row = vec![name.replace('_', " "), grouped(latency.count)];
        row.extend(figures.map(|(_, key, us)| or_dash(figure(latency, key, us))));
        row.extend([grouped(latency.censored), meaning(name).to_owned()]);
        (latency.count + latency.censored > 0).then_some(row)
    });
    let table = Table {
        columns: [Column::words("series")]
            .into_iter()
            .chain(columns.map(Column::numbers))
            .chain([Column::words("meaning")])
            .collect(),
        rows: rows.collect(),
        ..Table::default()
    };
    Doc::default().table(table).text(
        "\"-\": too few samples (fewer than ten above the percentile). \">=\": a lower bound, because unfinished requests count at the \
         age that they had reached; the mean leaves them out.",
    )
}

/// Where the time of a request goes: the parts of the mean response time, and what the target's
/// processes used.
pub(super) fn split(report: &Report) -> Doc {
    Doc::default()
        .table(parts_of_time(report))
        .table(facts("Target's processes", &target(report)))
}

fn parts_of_time(report: &Report) -> Table {
    let Some(split) = &report.split else {
        return Table::default();
    };
    let parts = Split::PARTS.into_iter();
    let parts = parts.filter_map(|(name, mean_us)| Some((name, mean_us(split)?)));
    let parts = parts.filter(|(_, us)| *us > 0.0);
    let all = parts.chain([("response time", split.response_us)]);
    let rows = all.map(|(name, us)| {
        let share = rounded_percent(share(us, split.response_us));
        vec![name.to_owned(), micros(us), share]
    });
    Table {
        caption: format!("Mean of {}", counted(split.n, "response")),
        columns: vec![
            Column::words("part"),
            Column::numbers("mean"),
            Column::numbers("share"),
        ],
        rows: rows.collect(),
        has_sum: true,
    }
}

fn target(report: &Report) -> Vec<(&'static str, String)> {
    let Some(target) = &report.target else {
        return Vec::new();
    };

    let processes = [
        Some(target.names.join(" ")).filter(|names| !names.is_empty()),
        target.processes.map(|n| counted(n.into(), "process")),
        target.threads.map(|n| counted(n.into(), "thread")),
    ];
    let processes: Vec<String> = processes.into_iter().flatten().collect();
    let cores = report.target_cores().map(|cores| {
        let of = counted(target.cpus.len() as u64, "CPU");
        format!("{} of {of}", decimal(cores))
    });
    let unavailable = target.unavailable.iter();
    let unavailable = unavailable.map(|(name, why)| format!("{}: {why}", name.replace('_', " ")));
    let unavailable: Vec<String> = unavailable.collect();
    let throttled = target.throttled_us_per_attempt.filter(|us| *us > 0.0);
    known([
        ("processes", Some(processes.join(", "))),
        ("CPU per request", target.cpu_us_per_attempt.map(micros)),
        ("CPUs in use", cores),
        (
            "busiest thread",
            target.busiest_thread.as_ref().map(|thread| {
                format!(
                    "{}, {} of a CPU",
                    thread.name,
                    rounded_percent(thread.share)
                )
            }),
        ),
        (
            "waits for a CPU, per request",
            target.run_delay_us_per_attempt.map(micros),
        ),
        ("throttled by its quota, per request", throttled.map(micros)),
        (
            "accept queue",
            target.accept_queue.map(|queue| {
                let dropped = queue
                    .drops
                    .map(|drops| format!(", {} dropped", grouped(drops)));
                format!(
                    "{} on average, {} at most of {}{}",
                    decimal(queue.mean),
                    grouped(queue.max),
                    grouped(queue.limit),
                    dropped.unwrap_or_default()
                )
            }),
        ),
        ("memory", target.rss_bytes.map(bytes)),
        ("not known", Some(unavailable.join("; "))),
        ("probe ended early", target.ended.clone()),
    ])
}

fn slow_row(slow: &SlowRow) -> Vec<String> {
    let recorded = if slow.recorded == Some(true) {
        " (recorded)"
    } else {
        ""
    };
    vec![
        slow.id.to_string(),
        micros(slow.response_us),
        micros(slow.queue_us),
        or_dash(slow.ttfb_us.map(micros)),
        or_dash(slow.service_us.map(micros)),
        format!("{:.3} s", slow.at_s),
        slow.attempt.to_string(),
        or_dash(slow.nth_on_connection.map(grouped)),
        or_dash(slow.retransmits.map(|n| grouped(n.into()))),
        slow.outcome.replace('_', " "),
        or_dash(slow.trace_id.clone()) + recorded,
    ]
}

/// The slowest requests.
pub(super) fn slowest(report: &Report) -> Table {
    Table {
        columns: vec![
            Column::words("ID"),
            Column::numbers("response"),
            Column::numbers("client queue").leaving(3),
            Column::numbers("first byte").leaving(4),
            Column::numbers("service"),
            Column::numbers("scheduled at"),
            Column::numbers("attempt").leaving(1),
            Column::numbers("nth request").leaving(2),
            Column::numbers("retransmits").leaving(5),
            Column::words("outcome"),
            Column::words("trace id").leaving(6),
        ],
        rows: report.slowest.iter().map(slow_row).collect(),
        ..Table::default()
    }
}

/// What limited the run: shares of its time, budgets, schedule, throttling.
pub(super) fn limits(report: &Report) -> Doc {
    let shares = Limit::of(report, &report.binding)
        .into_iter()
        .filter(|(part, _)| *part >= SHOWN)
        .map(|(part, limit)| vec![limit.name().to_owned(), rounded_percent(part)]);
    let shares = Table {
        caption: "Limited by".to_owned(),
        columns: vec![Column::words("limit"), Column::numbers("share of the time")],
        rows: shares.collect(),
        ..Table::default()
    };
    Doc::default()
        .table(shares)
        .table(figures("Schedule", &report.schedule))
        .table(figures("Throttling", &report.throttling))
        .table(figures("Budget", &report.budget))
        .table(figures("Budget of each host", &report.host_budget))
        .table(figures("TCP connections", &report.tcp))
        .table(figures("Closed connections", &report.connections))
        .table(figures("TLS handshakes", &report.tls))
        .table(figures("robots.txt", &report.robots))
        .table(figures("Moved between shards", &report.moved))
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

/// A row for each session of a saved crawl; empty for one.
fn sessions(report: &Report) -> Table {
    let sessions = report.saved.as_ref().map(|saved| &saved.sessions[..]);
    records(sessions.filter(|all| all.len() > 1).unwrap_or_default())
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
pub(super) fn parts(report: &Report) -> Doc {
    let Some(merged) = &report.merged else {
        return Doc::default();
    };
    Doc::default()
        .table(figures("", merged))
        .table(records(&merged.others))
}

/// A row per shard.
pub(super) fn shards(report: &Report) -> Table {
    let columns = [
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
    Table {
        columns: [Column::words(report.shard_word())]
            .into_iter()
            .chain(columns.map(Column::numbers))
            .chain([Column::sentences("exit")])
            .collect(),
        rows: report
            .shards
            .iter()
            .map(|shard| {
                let [service, delay] = [Series::ServiceOk, Series::SchedLag]
                    .map(|series| shard.latency.get(series.name()));
                let ids = [shard.id_range.start, shard.id_range.end].map(grouped);
                let died = shard.died.iter();
                let mut ends: Vec<String> = died
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
            })
            .collect(),
        ..Table::default()
    }
}

/// The machine that measured, what it counted during the run, and the target's own counts.
pub(super) fn machine(report: &Report) -> Doc {
    let doc = Doc::default()
        .table(figures("Machine", &report.environment))
        .table(figures("System-wide counters during the run", &report.host))
        .table(figures("Target's processes", &report.target))
        .table(figures("Supervisor", &report.supervisor));
    let ledger = report.witness.as_ref().map(|witness| &witness.ledger);
    match ledger.filter(|ledger| !ledger.is_null()) {
        Some(ledger) => doc.details(
            "The target's own counts",
            Doc::default().code(super::reproduce::json(ledger)),
        ),
        None => doc,
    }
}
