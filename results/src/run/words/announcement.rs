//! Announcement of a run, before it starts.

use crate::run::report::{PER_HOST_RATE_FROM, PROXY, PROXY_FROM, is_endless};
use crate::show::text::{counted, rate_in_words, write_row};
use crawlmark_harness::plan::{Arrivals, LOCAL_IPS, PerHost, RunPlan, SAME_REQUEST, SlotShare};
use crawlmark_harness::units::{RateShape, grouped};

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
        let SlotShare { slot, of } = self.slot;
        let rate = self.plan.rate.map_or_else(String::new, |rate| {
            format!("{} and ", rate_in_words(&rate.to_string()))
        });
        let connections = counted(self.plan.connections.into(), "connection");
        format!("{slot}/{of}, with an equal share of the plan's {rate}{connections}")
    }
}

/// Return the announcement of a run: the effective totals, shown before anything is sent, for a
/// terminal of `columns` columns. `part` is the slot of a part of a crawl, whose plan this is.
pub fn announcement(plan: &RunPlan, part: Option<OfWhole<'_>>, columns: usize) -> String {
    let settings = &plan.workload;
    let same = "the same URL for every item: it has no {id}";
    let time = |time| humantime::format_duration(time);
    let warmup = Some(plan.warmup).filter(|warmup| !warmup.is_zero());
    let rows = [
        ("items", Some(planned_items(plan))),
        ("shards", Some(format!("{}, one process each", plan.shards))),
        ("connections", Some(connections(plan))),
        ("rate", Some(pace(plan))),
        (
            "requests",
            settings.get(SAME_REQUEST).map(|_| same.to_owned()),
        ),
        ("slot", part.map(|part| part.row())),
        ("from", settings.get(LOCAL_IPS).cloned()),
        ("proxy", settings.get(PROXY).map(|proxy| from(plan, proxy))),
        ("hosts", limits_of_hosts(plan)),
        (
            "time",
            plan.duration.map(|most| format!("{} at most", time(most))),
        ),
        (
            "warm-up",
            warmup.map(|warmup| format!("{}, not measured", time(warmup))),
        ),
    ];
    let mut out = format!("crawling {}\n", plan.target);
    for (name, value) in rows {
        let value = value.unwrap_or_default();
        if !value.is_empty() {
            write_row(&mut out, name, &value, columns);
        }
    }
    out
}

/// The proxy, and the variable that names it.
fn from(plan: &RunPlan, proxy: &str) -> String {
    match plan.workload.get(PROXY_FROM) {
        Some(from) if from != "--proxy" => {
            format!("{proxy} (from {from}; --proxy none ignores it)")
        }
        _ => proxy.to_owned(),
    }
}

/// Return the number of items and their IDs: all of them, or as many as the time allows.
fn planned_items(plan: &RunPlan) -> String {
    let (first, last) = (grouped(plan.ids.start), grouped(plan.ids.end - 1));
    let count = grouped(plan.items());
    let finished = match plan.ids.len() - plan.items() {
        0 => String::new(),
        finished => format!(", without {} of earlier sessions", grouped(finished)),
    };
    match plan.duration.map(humantime::format_duration) {
        Some(duration) if is_endless(plan) => {
            format!("as many as fit into {duration}, from ID {first} on")
        }
        Some(duration) => format!("up to {count} in {duration} ({first} to {last}{finished})"),
        None => format!("{count} ({first} to {last}{finished})"),
    }
}

/// Return the number of connections, and the streams on each.
fn connections(plan: &RunPlan) -> String {
    let connections = grouped(plan.connections.into());
    if plan.streams == 1 {
        return connections;
    }
    format!(
        "{connections}, {} streams on each: {} requests in flight",
        grouped(plan.streams.into()),
        grouped(plan.in_flight().into())
    )
}

/// Return the pace of the run: a budget, or the timetable of an open loop.
fn pace(plan: &RunPlan) -> String {
    let waves = match plan.arrivals {
        Arrivals::Waves => format!(", in waves of {}", grouped(plan.in_flight().into())),
        _ => String::new(),
    };
    let Some(rate) = plan.shaped_rate() else {
        return format!("none: as fast as it goes{waves}");
    };
    let how = match rate.shape {
        RateShape::Constant | RateShape::Steps { .. } => "",
        RateShape::Ramp { .. } => " over the whole run",
        RateShape::Windows { .. } => ", all at the start of each window",
    };
    let arrive = match plan.arrivals {
        Arrivals::Asap | Arrivals::Waves => {
            format!(", at most {} at once{waves}", grouped(plan.burst))
        }
        Arrivals::Replay => " on average, as recorded, whatever the target does".to_owned(),
        Arrivals::Constant => ", evenly, whatever the target does".to_owned(),
        Arrivals::Poisson => ", at random, whatever the target does".to_owned(),
    };
    format!("{}{how}{arrive}", rate_in_words(&rate.to_string()))
}

/// Return the number of hosts, and the limits that apply to each of them; none of a single one
/// without limits.
fn limits_of_hosts(plan: &RunPlan) -> Option<String> {
    let PerHost {
        hosts,
        connections,
        rate,
        burst: _,
    } = plan.per_host;
    let in_flight = connections.map(|n| format!("{} requests in flight", grouped(n.into())));
    let rate = rate.map(|rate| {
        let at_once = grouped(plan.per_host.at_once(plan.shards).unwrap_or(1));
        let source = plan.workload.get(PER_HOST_RATE_FROM);
        let source = source.map_or_else(String::new, |source| format!("; {source}"));
        format!("{rate} ({at_once} at once{source})")
    });
    let limits: Vec<String> = in_flight.into_iter().chain(rate).collect();
    let count = grouped(hosts.into());
    match limits.as_slice() {
        [] if plan.per_host == PerHost::default() => None,
        [] => Some(count),
        limits => Some(format!("{count}; at each at most {}", limits.join(" and "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::fixtures::plan;
    use crawlmark_harness::units::{IdRange, Rate};

    #[test]
    fn a_run_that_its_time_ends_announces_no_hundred_million_items() {
        let mut run = plan();
        (run.ids.start, run.ids.end, run.duration) = (0, 1_000, None);
        assert_eq!(planned_items(&run), "1,000 (0 to 999)");
        run.duration = Some(std::time::Duration::from_secs(8));
        run.finished = vec![IdRange {
            start: 100,
            end: 700,
        }];
        let resumed = "up to 400 in 8s (0 to 999, without 600 of earlier sessions)";
        assert_eq!(planned_items(&run), resumed);
        (run.ids.end, run.finished) = (100_000_000, Vec::new());
        assert_eq!(planned_items(&run), "as many as fit into 8s, from ID 0 on");
    }

    #[test]
    fn hosts_are_announced_when_there_is_something_to_say() {
        let mut run = plan();
        assert_eq!(limits_of_hosts(&run), None);
        run.per_host.hosts = 3;
        assert_eq!(limits_of_hosts(&run).as_deref(), Some("3"));
        run.per_host.connections = Some(2);
        run.per_host.rate = Some(Rate {
            permits: 5,
            period_ns: 1_000_000_000,
        });
        run.workload
            .insert(PER_HOST_RATE_FROM.to_owned(), "robots.txt".to_owned());
        let limits = "3; at each at most 2 requests in flight and 5/s (2 at once; robots.txt)";
        assert_eq!(limits_of_hosts(&run).as_deref(), Some(limits));
    }
}
