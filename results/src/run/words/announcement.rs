//! Announcement of a run, before it starts.

use std::time::Duration;

use crate::run::report::is_endless;
use crate::show::text::{counted, rate_in_words, write_row};
use crawlmark_harness::plan::{HostRateSource, ProxySource, RunPlan, SlotShare};
use crawlmark_harness::units::grouped;

fn time_in_words(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// Return the announcement of a run: the effective totals, shown before anything is sent, for a
/// terminal of `columns` columns. `slot` is that of a part of a crawl, whose plan this is.
pub fn announcement(plan: &RunPlan, slot: Option<SlotShare>, columns: usize) -> String {
    let settings = &plan.workload;
    let hosts = plan.per_host;
    let rate_per_host = hosts.rate.map(|rate| match settings.per_host_rate_from {
        Some(HostRateSource::CrawlDelay) => format!("{rate} (crawl-delay of robots.txt)"),
        None => rate.to_string(),
    });
    let rate = plan.shaped_rate().map(|rate| rate.to_string());
    let warmup = Some(plan.warmup).filter(|warmup| !warmup.is_zero());
    let linger = Some(plan.linger).filter(|linger| !linger.is_zero());
    let wait = plan
        .throttling
        .longest_wait()
        .filter(|_| plan.duration.is_none())
        .map(time_in_words);
    let rows = [
        ("items", Some(planned_items(plan))),
        ("shards", Some(grouped(plan.shards.into()))),
        ("connections", Some(grouped(plan.connections.into()))),
        (
            "streams",
            (plan.streams > 1).then(|| grouped(plan.streams.into())),
        ),
        (
            "linger",
            linger.map(|linger| {
                format!(
                    "up to {}, where responses come one by one",
                    time_in_words(linger)
                )
            }),
        ),
        ("rate", Some(rate.unwrap_or_else(|| "unlimited".to_owned()))),
        ("arrivals", Some(plan.arrivals.name().to_owned())),
        ("burst", plan.has_budget().then(|| grouped(plan.burst))),
        (
            "requests",
            settings
                .same_request
                .then(|| "the same URL for every item: it has no {id}".to_owned()),
        ),
        (
            "slot",
            slot.map(|SlotShare { slot, of }| format!("{slot}/{of}")),
        ),
        ("from", settings.local_ips.clone()),
        ("proxy", settings.proxy.clone()),
        (
            "proxy from",
            settings
                .proxy_from
                .as_ref()
                .and_then(ProxySource::variables)
                .map(str::to_owned),
        ),
        (
            "hosts",
            (hosts.hosts > 1).then(|| grouped(hosts.hosts.into())),
        ),
        (
            "per host",
            hosts
                .connections
                .map(|n| format!("{} requests in flight", grouped(n.into()))),
        ),
        ("per host", rate_per_host),
        ("time", plan.duration.map(time_in_words)),
        (
            "throttled",
            wait.map(|wait| format!("stops after {wait} of nothing else; -d sets a time")),
        ),
        ("warm-up", warmup.map(time_in_words)),
    ];
    let mut out = format!("crawling {}\n", plan.target);
    for (name, value) in rows {
        write_row(&mut out, name, &value.unwrap_or_default(), columns);
    }
    out
}

/// Describe a plan in a line: `GET http://host/{id}, open loop, 1,000/s for 28 s, 2 shards`.
pub fn plan_line(plan: &RunPlan) -> String {
    let method = plan.workload.method.clone();
    let request = format!("{} {}", method.unwrap_or_default(), plan.target);
    let kind = if plan.arrivals.gaps().is_some() {
        "open loop"
    } else {
        "closed loop"
    };
    let connections = counted(plan.connections.into(), "connection");
    let rate = plan.shaped_rate().map(|rate| rate.to_string());
    let load = rate.map_or(connections, |rate| rate_in_words(&rate));
    let items = (!is_endless(plan)).then(|| counted(plan.items(), "item"));
    let time = plan.duration.map(|time| match time.as_secs_f64() {
        s if s < 100.0 => format!("{s} s"),
        _ => time_in_words(time),
    });
    let pace = match time {
        Some(time) => format!("{load} for {time}"),
        None => load,
    };
    let proxy = plan
        .workload
        .proxy
        .as_ref()
        .map(|proxy| format!("through {proxy}"));
    let shards = counted(plan.shards.into(), "shard");
    let parts = [
        Some(kind.to_owned()),
        items,
        Some(pace),
        Some(shards),
        proxy,
    ];
    [Some(request.trim().to_owned())]
        .into_iter()
        .chain(parts)
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Return the number of items and their IDs: all of them, or as many as the time allows.
fn planned_items(plan: &RunPlan) -> String {
    let (first, last) = (grouped(plan.ids.start), grouped(plan.ids.end - 1));
    if is_endless(plan) {
        return format!("as many as fit, from ID {first} on");
    }
    let finished = match plan.ids.len() - plan.items() {
        0 => String::new(),
        finished => format!(", without {} of earlier sessions", grouped(finished)),
    };
    format!("{} ({first} to {last}{finished})", grouped(plan.items()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::units::IdRange;

    #[test]
    fn a_run_that_its_time_ends_announces_no_hundred_million_items() {
        let mut run = plan();
        (run.ids.start, run.ids.end, run.duration) = (0, 1_000, None);
        assert_eq!(planned_items(&run), "1,000 (0 to 999)");
        run.duration = Some(Duration::from_secs(8));
        run.finished = vec![IdRange {
            start: 100,
            end: 700,
        }];
        let resumed = "400 (0 to 999, without 600 of earlier sessions)";
        assert_eq!(planned_items(&run), resumed);
        (run.ids.end, run.finished) = (100_000_000, Vec::new());
        assert_eq!(planned_items(&run), "as many as fit, from ID 0 on");
    }

    #[test]
    fn a_plan_is_a_line() {
        let mut run = plan();
        (run.duration, run.shards) = (Some(Duration::from_secs(28)), 2);
        run.workload.method = Some("GET".to_owned());
        assert_eq!(
            plan_line(&run),
            "GET test, closed loop, 1,000 items, 8 connections for 28 s, 2 shards"
        );
    }
}
