//! Limit of a rung, from what its run read and from nothing else.
//!
//! Causes are tested in this order, and the first that holds is the limit: refusals and failures
//! (then the rate is not the crawl's own), the crawl's own budget, the CPU, and last the time in
//! which its connections waited for answers. For that Little's law (Little, "A Proof for the
//! Queuing Formula L = λW", 1961) is what ties the figures together: `L` requests in flight, each
//! of which takes `W`, are `L / W` per second and cannot be more.

use serde::{Deserialize, Serialize};

use super::reading::RungReadings;
use crawlmark_harness::units::{grouped, micros, percent};

/// Part of the attempts, or of the items, from which refusals or failures are what was measured.
const REFUSED: f64 = 0.01;

/// Part of the shards' time in which they waited for the budget: with more it is what set the pace.
const BY_BUDGET: f64 = 0.5;

/// Part of the CPUs in use, or of the one that a single-threaded shard can have: with more there is
/// no room left. That of the check of CPU use, for the same reason.
const CPU: f64 = 0.85;

/// Part of their time that shards were ready to run and had no CPU: with as much they were kept
/// from theirs, by the target, by each other, or by other programs.
const KEPT_FROM_CPU: f64 = 0.25;

/// Part of the connections' time that was spent on answers: with less, something else than waiting
/// for them was the limit.
const WAITED: f64 = 0.8;

/// Part of a request's time that went into its connection: with more, that is what it waited for.
const OPENING: f64 = 0.5;

/// Limit of a rung.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungLimit {
    /// The kind.
    pub by: LimitedBy,
    /// The figures that say so.
    pub why: String,
}

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The target turned requests away.
    Refusals,
    /// Items failed.
    Failures,
    /// The crawl's own rate.
    Budget,
    /// CPU of the machine, or the one CPU that a process can have.
    Cpu,
    /// Requests waited, and most of that for new connections.
    Handshakes,
    /// Requests in flight waited for their answers.
    Waiting,
    /// None of these.
    Unclear,
}

impl LimitedBy {
    /// The name used for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refusals => "refusals",
            Self::Failures => "failures",
            Self::Budget => "its own budget",
            Self::Cpu => "CPU",
            Self::Handshakes => "handshakes",
            Self::Waiting => "waiting",
            Self::Unclear => "nothing clear",
        }
    }
}

impl RungLimit {
    /// Find the limit of the rung that read this.
    #[must_use]
    pub fn of(reading: &RungReadings) -> Self {
        let found = refusals(reading)
            .or_else(|| budget(reading))
            .or_else(|| cpu(reading))
            .or_else(|| waiting(reading));
        let (by, why) = found.unwrap_or_else(|| (LimitedBy::Unclear, unclear(reading)));
        Self { by, why }
    }
}

type Found = Option<(LimitedBy, String)>;

fn refusals(reading: &RungReadings) -> Found {
    let throttled = reading.throttled as f64 / reading.attempts.max(1) as f64;
    let failed = reading.failed as f64 / (reading.ok + reading.failed).max(1) as f64;
    if throttled >= REFUSED {
        return Some((
            LimitedBy::Refusals,
            format!("{} of requests were throttled", percent(throttled)),
        ));
    }
    (failed >= REFUSED).then(|| {
        (
            LimitedBy::Failures,
            format!("{} of the items failed", percent(failed)),
        )
    })
}

fn budget(reading: &RungReadings) -> Found {
    let (asked, used) = reading.budget.as_ref().zip(reading.budget_used)?;
    (reading.binding.rate >= BY_BUDGET).then(|| {
        (
            LimitedBy::Budget,
            format!("{} of the budget of {asked} was used", percent(used)),
        )
    })
}

fn cpu(reading: &RungReadings) -> Found {
    let cpu = &reading.cpu;
    let client = cpu.client_cores?;
    let of_all = cpu
        .used_cores()
        .map(|used| format!("{used:.2} of {} cores", cpu.cores));
    let target = cpu.target_cores.map_or_else(String::new, |target| {
        format!(", {target:.2} of them the target's")
    });
    if cpu
        .used_cores()
        .is_some_and(|used| used >= CPU * cpu.cores as f64)
    {
        return Some((
            LimitedBy::Cpu,
            format!("{}{target}", of_all.unwrap_or_default()),
        ));
    }
    let kept_from = cpu.run_delay_share.filter(|share| *share >= KEPT_FROM_CPU);
    if let Some(share) = kept_from {
        let used = of_all.map_or_else(String::new, |of_all| format!("{of_all}{target}; "));
        return Some((
            LimitedBy::Cpu,
            format!(
                "{used}shards waited for a CPU for {} of the time",
                percent(share)
            ),
        ));
    }
    let each = client / f64::from(reading.shards.max(1));
    (each >= CPU).then(|| {
        let whose = if reading.shards == 1 {
            "its one process".to_owned()
        } else {
            format!("each of {} processes", reading.shards)
        };
        (
            LimitedBy::Cpu,
            format!("{each:.2} of a core in {whose}, which can use no more than one"),
        )
    })
}

/// Return the time for which a request occupies its connection: opening it, as often as that
/// happens, and the answer.
fn occupied_us(reading: &RungReadings) -> Option<f64> {
    let opening = reading.connect_mean_us.unwrap_or(0.0) * reading.opened_per_attempt();
    Some(reading.service_mean_us? + opening)
}

/// The part of the connections' time that was spent on answers, by Little's law.
fn waited(reading: &RungReadings) -> Option<f64> {
    Some(
        reading.attempts_per_s * occupied_us(reading)?
            / 1e6
            / f64::from(reading.connections.max(1)),
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as many as there are connections, 1e6 times"
)]
fn waiting(reading: &RungReadings) -> Found {
    let us = occupied_us(reading)?;
    waited(reading).filter(|part| *part >= WAITED)?;
    let in_flight = format!("{} in flight", grouped(u64::from(reading.connections)));
    let bound = f64::from(reading.connections) * 1e6 / us.max(1.0);
    let bound = if bound < 100.0 {
        format!("{bound:.1}")
    } else {
        grouped(bound.round() as u64)
    };
    let law = format!("{in_flight} at {} each allow {bound}/s", micros(us));
    let opening = (reading.connect_mean_us.unwrap_or(0.0) + reading.handshake_us)
        * reading.opened_per_attempt();
    if opening >= OPENING * us {
        let of = format!("{} of it to open a connection", micros(opening));
        let law = format!("{in_flight} at {} each ({of}) allow {bound}/s", micros(us));
        return Some((LimitedBy::Handshakes, law));
    }
    Some((LimitedBy::Waiting, law))
}

fn unclear(reading: &RungReadings) -> String {
    let mut told = Vec::new();
    if let Some(part) = waited(reading) {
        told.push(format!(
            "connections waited for responses for {} of the time",
            percent(part.min(1.0))
        ));
    }
    if let Some(used) = reading.cpu.used_cores() {
        told.push(format!(
            "{used:.2} of {} cores were in use",
            reading.cpu.cores
        ));
    }
    if told.is_empty() {
        "not enough was measured".to_owned()
    } else {
        told.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report::BindingReport;
    use crate::studies::ladder::CpuUse;

    /// Twenty in flight on kept connections, 60 ms each, on two idle cores.
    fn pooled() -> RungReadings {
        RungReadings {
            ok_per_s: 330.0,
            attempts_per_s: 330.0,
            shards: 1,
            connections: 20,
            duration_s: 4.0,
            attempts: 1_320,
            ok: 1_320,
            failed: 0,
            throttled: 0,
            connections_opened: 20,
            connect_mean_us: Some(100.0),
            handshake_us: 100_000.0,
            service_mean_us: Some(60_000.0),
            service_p50_us: Some(59_000.0),
            service_p99_us: None,
            binding: BindingReport {
                concurrency: 1.0,
                ..BindingReport::default()
            },
            budget_used: None,
            budget: None,
            cpu: CpuUse {
                cores: 2,
                client_cores: Some(0.02),
                target_cores: Some(0.02),
                client_us_per_attempt: Some(60.0),
                target_us_per_attempt: Some(60.0),
                run_delay_share: Some(0.001),
            },
        }
    }

    /// Return a reading with a new connection for each request.
    fn unpooled() -> RungReadings {
        RungReadings {
            ok_per_s: 124.0,
            attempts_per_s: 124.0,
            attempts: 496,
            ok: 496,
            connections_opened: 496,
            service_mean_us: Some(160_000.0),
            ..pooled()
        }
    }

    fn by(reading: &RungReadings) -> (LimitedBy, String) {
        let RungLimit { by, why } = RungLimit::of(reading);
        (by, why)
    }

    #[test]
    fn kept_connections_that_wait_are_limited_by_waiting() {
        let (by, why) = by(&pooled());
        assert_eq!(
            (by, &*why),
            (
                LimitedBy::Waiting,
                "20 in flight at 60.0 ms each allow 333/s"
            )
        );
    }

    #[test]
    fn new_connections_are_the_limit_only_where_opening_them_takes_most_of_the_time() {
        let (found, why) = by(&unpooled());
        let said = "20 in flight at 160 ms each (100 ms of it to open a connection) allow 125/s";
        assert_eq!((found, &*why), (LimitedBy::Handshakes, said));
        // A target whose handshake costs nothing: as many connections, and it is the answers that
        // take the time.
        let cheap = RungReadings {
            handshake_us: 0.0,
            ..unpooled()
        };
        assert_eq!(by(&cheap).0, LimitedBy::Waiting);
        // As dear a handshake on connections that are kept.
        let kept = RungReadings {
            connections_opened: 20,
            ..unpooled()
        };
        assert_eq!(by(&kept).0, LimitedBy::Waiting);
    }

    #[test]
    fn cpu_comes_before_the_waiting_that_it_makes() {
        let of = |client, target| CpuUse {
            client_cores: Some(client),
            target_cores: Some(target),
            ..pooled().cpu
        };
        let busy = RungReadings {
            cpu: of(0.9, 1.0),
            ..pooled()
        };
        assert_eq!(
            by(&busy),
            (
                LimitedBy::Cpu,
                "1.90 of 2 cores, 1.00 of them the target's".to_owned()
            )
        );
        // A single process can use a single core, however many there are.
        let alone = RungReadings {
            cpu: CpuUse {
                cores: 10,
                ..of(0.97, 0.5)
            },
            ..pooled()
        };
        assert_eq!(by(&alone).0, LimitedBy::Cpu);
        assert!(
            by(&alone).1.contains("0.97 of a core in its one process"),
            "{:?}",
            by(&alone)
        );
        assert_eq!(
            by(&RungReadings {
                shards: 10,
                ..alone.clone()
            })
            .0,
            LimitedBy::Waiting,
            "a tenth of a core in each"
        );
        // Other programs use half of the machine.
        let kept_from = CpuUse {
            run_delay_share: Some(0.4),
            ..of(0.5, 0.5)
        };
        let (found, why) = by(&RungReadings {
            cpu: kept_from,
            ..pooled()
        });
        assert!(
            found == LimitedBy::Cpu
                && why.ends_with("shards waited for a CPU for 40.0 % of the time"),
            "{why}"
        );
    }

    #[test]
    fn refusals_failures_and_a_budget_come_first() {
        let cpu = CpuUse {
            client_cores: Some(1.0),
            target_cores: Some(1.0),
            ..pooled().cpu
        };
        let refused = RungReadings {
            throttled: 132,
            failed: 100,
            cpu,
            ..pooled()
        };
        assert_eq!(
            by(&refused),
            (
                LimitedBy::Refusals,
                "10.0 % of requests were throttled".to_owned()
            )
        );
        let failed = RungReadings {
            throttled: 0,
            ok: 1_188,
            failed: 132,
            ..refused
        };
        assert_eq!(
            by(&failed),
            (LimitedBy::Failures, "10.0 % of the items failed".to_owned())
        );
        let binding = BindingReport {
            rate: 0.7,
            concurrency: 0.3,
            ..BindingReport::default()
        };
        let asked = RungReadings {
            binding,
            budget: Some("300/s".to_owned()),
            budget_used: Some(0.999),
            cpu,
            ..pooled()
        };
        assert_eq!(
            by(&asked),
            (
                LimitedBy::Budget,
                "99.9 % of the budget of 300/s was used".to_owned()
            )
        );
        // A budget that there is, and that hardly ever held anything back.
        let generous = RungReadings {
            binding: pooled().binding,
            cpu: pooled().cpu,
            ..asked
        };
        assert_eq!(by(&generous).0, LimitedBy::Waiting);
        // A few refusals in a thousand are no limit.
        assert_eq!(
            by(&RungReadings {
                throttled: 5,
                ..pooled()
            })
            .0,
            LimitedBy::Waiting
        );
    }

    #[test]
    fn what_the_figures_do_not_say_is_not_said() {
        let slow = RungReadings {
            attempts_per_s: 100.0,
            ..pooled()
        };
        let (found, why) = by(&slow);
        assert_eq!(found, LimitedBy::Unclear);
        assert_eq!(
            why,
            "connections waited for responses for 30.0 % of the time, 0.04 of 2 cores were in use"
        );
        let cpu = CpuUse {
            client_cores: None,
            target_cores: None,
            run_delay_share: None,
            ..pooled().cpu
        };
        let blind = RungReadings {
            service_mean_us: None,
            cpu,
            ..pooled()
        };
        assert_eq!(
            by(&blind),
            (LimitedBy::Unclear, "not enough was measured".to_owned())
        );
    }
}
