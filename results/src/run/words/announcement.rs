//! Announcement of a run, before it starts.

use crate::run::report::{PER_HOST_RATE_FROM, PROXY, PROXY_FROM};
use crate::show::text::{counted, decimal, rate_in_words, write_row};
use crawlmark_harness::plan::{
    Arrivals, LOCAL_IPS, Pacing, PerHost, REQUESTS_PER_CONNECTION, RunPlan, SAME_REQUEST,
    ShardPlan, SlotShare,
};
use crawlmark_harness::units::{Rate, RateShape, grouped};

/// IDs of a range that no run with a time uses up, such as the default one.
const ENDLESS: u64 = 100_000_000;

/// Slot of a part of a crawl, and the plan of the whole crawl.
#[derive(Debug, Clone, Copy)]
pub struct OfWhole<'a> {
    /// Slot that the part holds.
    pub slot: SlotShare,
    /// Plan of the whole crawl.
    pub plan: &'a RunPlan,
}

impl OfWhole<'_> {
    /// Return what the slot has a share of.
    fn row(&self) -> String {
        let Self {
            slot: SlotShare { slot, of },
            plan,
        } = self;
        let rate = plan.rate.map_or_else(String::new, |rate| {
            format!("{} and ", rate_in_words(&rate.to_string()))
        });
        let connections = counted(plan.connections.into(), "connection");
        format!("{slot}/{of}, with an equal share of the plan's {rate}{connections}")
    }
}

/// Return the announcement of a run: the effective totals, shown before anything is sent, for a
/// terminal of `columns` columns. `part` is the slot of a part of a crawl, whose plan this is.
#[must_use]
pub fn announcement(plan: &RunPlan, part: Option<OfWhole<'_>>, columns: usize) -> String {
    let all = if part.is_some() {
        "in this part"
    } else {
        "in all"
    };
    let parts = plan.split(&[]);
    let per_shard = |value: &dyn Fn(&ShardPlan) -> u64| {
        let (least, most) = parts
            .iter()
            .map(value)
            .fold((u64::MAX, 0), |(a, b), v| (a.min(v), b.max(v)));
        if least == most {
            grouped(least)
        } else {
            format!("{} or {}", grouped(least), grouped(most))
        }
    };
    let ids = per_shard(&ShardPlan::items);
    let connections = per_shard(&|part| u64::from(part.connections));
    let mut rows = vec![
        ("items", items(plan, (all, &ids))),
        ("shards", format!("{}, one process each", plan.shards)),
        (
            "connections",
            format!(
                "{} {all}, {connections} per shard{}{}",
                grouped(u64::from(plan.connections)),
                streams(plan),
                reuse(plan)
            ),
        ),
        pace(plan, all),
    ];
    if plan.workload.contains_key(SAME_REQUEST) {
        rows.push((
            "requests",
            "the same URL for every item: it has no {id}".to_owned(),
        ));
    }
    rows.extend(part.map(|part| ("slot", part.row())));
    if let Some(ips) = plan.workload.get(LOCAL_IPS) {
        rows.push(("from", ips.clone()));
    }
    if let Some(proxy) = plan.workload.get(PROXY) {
        let from = plan
            .workload
            .get(PROXY_FROM)
            .filter(|from| *from != "--proxy");
        let note = from.map_or_else(String::new, |from| {
            format!(" (from {from}; --proxy none ignores it)")
        });
        rows.push(("proxy", format!("{proxy}{note}")));
    }
    if plan.per_host != PerHost::default() {
        rows.push(("hosts", hosts(plan)));
    }
    if let Some(duration) = plan.duration {
        rows.push((
            "time",
            format!("{} at most", humantime::format_duration(duration)),
        ));
    }
    if let Some(queue) = plan.queue {
        rows.push((
            "queue",
            format!(
                "{} requests at most wait for a connection; more are dropped",
                grouped(queue.into())
            ),
        ));
    }
    match plan.pacing {
        Pacing::Sleep => {}
        Pacing::Coarse => rows.push((
            "pacing",
            "coarse: what is due within 1ms goes together".to_owned(),
        )),
        Pacing::Spin => rows.push((
            "pacing",
            "spinning: up to a whole core for each shard".to_owned(),
        )),
    }
    if !plan.warmup.is_zero() {
        rows.push((
            "warm-up",
            format!("{}, not measured", humantime::format_duration(plan.warmup)),
        ));
    }
    let mut out = format!("crawling {}\n", plan.target);
    for (name, value) in rows {
        write_row(&mut out, name, &value, columns);
    }
    out
}

/// Return the number of items and their IDs: all of them, or as many as the time allows.
fn items(plan: &RunPlan, (all, per_shard): (&str, &str)) -> String {
    let (first, last) = (grouped(plan.ids.start), grouped(plan.ids.end - 1));
    let count = grouped(plan.items());
    let finished = match plan.ids.len() - plan.items() {
        0 => String::new(),
        finished => format!(", without {} of earlier sessions", grouped(finished)),
    };
    match plan.duration.map(humantime::format_duration) {
        Some(duration) if plan.items() >= ENDLESS => {
            format!("as many as fit into {duration}, from ID {first} on")
        }
        Some(duration) => format!(
            "up to {count} in {duration} ({first} to {last}{finished}), {per_shard} per shard"
        ),
        None => format!("{count} {all} ({first} to {last}{finished}), {per_shard} per shard"),
    }
}

/// Say how many requests are in flight if connections have several streams; empty otherwise.
fn streams(plan: &RunPlan) -> String {
    if plan.streams == 1 {
        return String::new();
    }
    format!(
        ", {} streams on each: {} requests in flight",
        grouped(plan.streams.into()),
        grouped(plan.in_flight().into())
    )
}

/// Return a note on the reuse of connections: the number of requests after which they are closed by
/// this client, if any.
fn reuse(plan: &RunPlan) -> String {
    match plan
        .workload
        .get(REQUESTS_PER_CONNECTION)
        .map(String::as_str)
    {
        None => String::new(),
        Some("1") => ", a new one for every request".to_owned(),
        Some(requests) => format!(", closed after {requests} requests each"),
    }
}

/// Return the pace of the run: a budget, or the timetable of an open loop.
fn pace(plan: &RunPlan, all: &str) -> (&'static str, String) {
    let waves = match plan.arrivals {
        Arrivals::Waves => format!(", in waves of {}", grouped(plan.in_flight().into())),
        _ => String::new(),
    };
    let Some(rate) = plan.shaped_rate() else {
        return ("budget", format!("none: as fast as it goes{waves}"));
    };
    let share = share(rate.peak, plan.shards);
    let (how, most) = match rate.shape {
        RateShape::Constant => ("", ""),
        RateShape::Ramp { .. } => (" over the whole run", "up to "),
        RateShape::Steps { .. } => ("", "up to "),
        RateShape::Windows { .. } => (", all at the start of each window", ""),
    };
    let rate = rate_in_words(&rate.to_string());
    let shares = format!("{rate} {all}{how}, {most}{share} per shard");
    let at_once = || format!("{shares}, at most {} at once", grouped(plan.burst));
    match plan.arrivals {
        Arrivals::Asap | Arrivals::Waves => ("budget", at_once() + &waves),
        Arrivals::Replay => (
            "arrivals",
            format!("as recorded, {rate} on average, whatever the target does"),
        ),
        Arrivals::Constant => (
            "arrivals",
            format!("{shares}, evenly, whatever the target does"),
        ),
        Arrivals::Poisson => (
            "arrivals",
            format!("{shares}, at random, whatever the target does"),
        ),
    }
}

/// Return the share of a rate that each shard has, in the unit of the rate.
fn share(rate: Rate, shards: u32) -> String {
    let typed = rate.to_string();
    let (per_unit, unit) = typed
        .split_once('/')
        .and_then(|(number, unit)| Some((number.parse().ok()?, unit)))
        .unwrap_or_else(|| (rate.per_second(), "s"));
    format!("{}/{unit}", decimal(per_unit / f64::from(shards)))
}

/// Return the number of hosts, and the limits that apply to each of them.
fn hosts(plan: &RunPlan) -> String {
    let PerHost {
        hosts,
        connections,
        rate,
    } = &plan.per_host;
    let mut limits = Vec::new();
    if let Some(connections) = connections {
        limits.push(format!(
            "{} requests in flight",
            grouped(u64::from(*connections))
        ));
    }
    if let Some(rate) = rate {
        let at_once = grouped(plan.per_host.at_once(plan.shards).unwrap_or(1));
        let source = plan
            .workload
            .get(PER_HOST_RATE_FROM)
            .map_or_else(String::new, |source| format!("; {source}"));
        limits.push(format!("{rate} ({at_once} at once{source})"));
    }
    let count = grouped(u64::from(*hosts));
    if limits.is_empty() {
        count
    } else {
        format!("{count}; at each at most {}", limits.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::fixtures::plan;

    #[test]
    fn a_run_that_its_time_ends_announces_no_hundred_million_items() {
        let mut run = plan();
        let said = |run: &RunPlan| {
            announcement(run, None, 120)
                .lines()
                .nth(1)
                .map(str::to_owned)
        };
        (run.ids.start, run.ids.end, run.duration) = (0, 1_000, None);
        assert!(
            said(&run)
                .is_some_and(|said| said.starts_with("  items       1,000 in all (0 to 999), "))
        );
        run.duration = Some(std::time::Duration::from_secs(8));
        assert!(
            said(&run).is_some_and(
                |said| said.starts_with("  items       up to 1,000 in 8s (0 to 999), ")
            )
        );
        run.finished = vec![crawlmark_harness::units::IdRange {
            start: 100,
            end: 700,
        }];
        let resumed = "  items       up to 400 in 8s (0 to 999, without 600 of earlier sessions), 200 per shard";
        assert_eq!(said(&run).as_deref(), Some(resumed));
        (run.ids.end, run.finished) = (ENDLESS, Vec::new());
        assert_eq!(
            said(&run).as_deref(),
            Some("  items       as many as fit into 8s, from ID 0 on")
        );
    }

    #[test]
    fn the_share_of_a_shard_has_the_unit_of_the_rate() {
        let shown =
            ["40/min", "500/s", "1/h", "1000/s"].map(|rate| share(rate.parse().unwrap(), 3));
        assert_eq!(shown, ["13.3/min", "167/s", "0.333/h", "333/s"]);
    }

    #[test]
    fn hosts_are_announced_when_there_is_something_to_say() {
        let mut run = plan();
        assert!(!announcement(&run, None, 120).contains("hosts"));
        run.per_host.hosts = 3;
        assert!(announcement(&run, None, 120).contains("  hosts       3\n"));
        run.per_host.rate = Some(Rate {
            permits: 5,
            period_ns: 1_000_000_000,
        });
        run.per_host.connections = Some(2);
        let said = announcement(&run, None, 120);
        assert!(
            said.contains(
                "  hosts       3; at each at most 2 requests in flight and 5/s (2 at once)\n"
            ),
            "{said}"
        );
        run.workload.insert(
            PER_HOST_RATE_FROM.to_owned(),
            "crawl-delay of robots.txt".to_owned(),
        );
        assert!(
            announcement(&run, None, 120)
                .contains(" and 5/s (2 at once; crawl-delay of robots.txt)\n")
        );
    }
}
