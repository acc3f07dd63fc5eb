//! Limit of a scenario, from what its run read and from nothing else.
//!
//! Causes are tested in this order, and the first that holds is the limit: refusals and failures
//! (then the rate is not the crawl's own), the crawl's own budget, the CPU, and last the time in
//! which its connections waited for answers. For that Little's law (Little, "A Proof for the
//! Queuing Formula L = λW", 1961) is what ties the figures together: `L` requests in flight, each
//! of which takes `W`, are `L / W` per second and cannot be more.

use serde::{Deserialize, Serialize};

use super::readings::ScenarioReadings;
use crate::show::text::decimal;
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

/// Limit of a scenario, with the figures that say so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Limit {
    /// The target turned requests away.
    Refusals {
        /// Part of the requests.
        share: f64,
    },
    /// Items failed.
    Failures {
        /// Part of the items.
        share: f64,
    },
    /// The crawl's own rate.
    Budget {
        /// Part of it that was used.
        used: f64,
    },
    /// CPU of the machine.
    Cpu {
        /// CPUs in use, over all processes.
        used_cores: f64,
        /// CPUs that there are.
        cores: usize,
    },
    /// Shards waited for a CPU.
    CpuWait {
        /// Part of their time.
        share: f64,
    },
    /// The one CPU that a process can have.
    OneCpu {
        /// CPUs that each process used.
        each: f64,
    },
    /// Requests waited, and most of that for new connections.
    Handshakes {
        /// Requests in flight.
        connections: u32,
        /// Time for which each occupies its connection.
        each_us: f64,
        /// Part of it to open the connection.
        opening_us: f64,
    },
    /// Requests in flight waited for their answers.
    Waiting {
        /// Requests in flight.
        connections: u32,
        /// Time for which each occupies its connection.
        each_us: f64,
    },
    /// None of these.
    Unclear,
}

impl Limit {
    /// Find the limit of the run that read this.
    pub fn of(readings: &ScenarioReadings) -> Self {
        refusals(readings)
            .or_else(|| budget(readings))
            .or_else(|| cpu(readings))
            .or_else(|| waiting(readings))
            .unwrap_or(Self::Unclear)
    }

    /// The name used for people.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Refusals { .. } => "refusals",
            Self::Failures { .. } => "failures",
            Self::Budget { .. } => "its own budget",
            Self::Cpu { .. } | Self::CpuWait { .. } | Self::OneCpu { .. } => "CPU",
            Self::Handshakes { .. } => "handshakes",
            Self::Waiting { .. } => "waiting",
            Self::Unclear => "nothing clear",
        }
    }

    /// The figures in words.
    pub fn text(&self) -> String {
        match *self {
            Self::Refusals { share } => format!("{} of requests were throttled", percent(share)),
            Self::Failures { share } => format!("{} of the items failed", percent(share)),
            Self::Budget { used } => format!("{} of the budget was used", percent(used)),
            Self::Cpu { used_cores, cores } => format!("{used_cores:.2} of {cores} cores"),
            Self::CpuWait { share } => {
                format!("shards waited for a CPU for {} of the time", percent(share))
            }
            Self::OneCpu { each } => {
                format!("{each:.2} of a core in each process, which can use no more than one")
            }
            Self::Handshakes {
                connections,
                each_us,
                opening_us,
            } => format!(
                "{} in flight at {} each ({} of it to open a connection) allow {}/s",
                grouped(connections.into()),
                micros(each_us),
                micros(opening_us),
                bound(connections, each_us)
            ),
            Self::Waiting {
                connections,
                each_us,
            } => format!(
                "{} in flight at {} each allow {}/s",
                grouped(connections.into()),
                micros(each_us),
                bound(connections, each_us)
            ),
            Self::Unclear => {
                "neither CPU nor waiting for responses took most of the time".to_owned()
            }
        }
    }
}

/// The rate that so many in flight allow, by Little's law.
fn bound(connections: u32, each_us: f64) -> String {
    decimal(f64::from(connections) * 1e6 / each_us.max(1.0))
}

fn refusals(readings: &ScenarioReadings) -> Option<Limit> {
    let failed = readings.failed as f64 / (readings.ok + readings.failed).max(1) as f64;
    match readings.throttled_share() {
        share if share >= REFUSED => Some(Limit::Refusals { share }),
        _ => (failed >= REFUSED).then_some(Limit::Failures { share: failed }),
    }
}

fn budget(readings: &ScenarioReadings) -> Option<Limit> {
    let used = readings.budget_used?;
    (readings.binding.rate >= BY_BUDGET).then_some(Limit::Budget { used })
}

fn cpu(readings: &ScenarioReadings) -> Option<Limit> {
    let (cores, each) = (
        readings.cpu.cores,
        readings.cpu.client_cores? / f64::from(readings.shards.max(1)),
    );
    let used = readings.cpu.used_cores();
    if let Some(used_cores) = used.filter(|used| *used >= CPU * cores as f64) {
        return Some(Limit::Cpu { used_cores, cores });
    }
    let waited = readings.cpu.run_delay_share;
    if let Some(share) = waited.filter(|share| *share >= KEPT_FROM_CPU) {
        return Some(Limit::CpuWait { share });
    }
    (each >= CPU).then_some(Limit::OneCpu { each })
}

/// By Little's law: a request occupies its connection while it is answered, and while the
/// connection is opened, as often as that happens.
fn waiting(readings: &ScenarioReadings) -> Option<Limit> {
    let (connections, opened) = (readings.connections, readings.opened_per_attempt());
    let connect_us = readings.connect_mean_us.unwrap_or(0.0);
    let each_us = readings.service_mean_us? + connect_us * opened;
    let waited = readings.attempts_per_s * each_us / 1e6 / f64::from(connections.max(1));
    if waited < WAITED {
        return None;
    }
    let opening_us = (connect_us + readings.handshake_us) * opened;
    Some(if opening_us >= OPENING * each_us {
        Limit::Handshakes {
            connections,
            each_us,
            opening_us,
        }
    } else {
        Limit::Waiting {
            connections,
            each_us,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::CpuUse;
    use super::*;
    use crate::run::report::BindingReport;

    /// Twenty in flight on kept connections, 60 ms each, on two idle cores.
    fn pooled() -> ScenarioReadings {
        ScenarioReadings {
            ok_per_s: 330.0,
            attempts_per_s: 330.0,
            shards: 1,
            connections: 20,
            peak_in_flight: 20,
            memory_bytes: None,
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
            cpu: CpuUse {
                cores: 2,
                client_cores: Some(0.02),
                target_cores: Some(0.02),
                client_us_per_attempt: Some(60.0),
                run_delay_share: Some(0.001),
            },
        }
    }

    /// The limit of a run that read something else than [`pooled`].
    fn changed(change: impl FnOnce(&mut ScenarioReadings)) -> Limit {
        let mut readings = pooled();
        change(&mut readings);
        Limit::of(&readings)
    }

    /// As many new connections as requests, which take 160 ms, or 60 ms with a handshake for free.
    fn unpooled(readings: &mut ScenarioReadings) {
        readings.connections_opened = readings.attempts;
        readings.attempts_per_s = 124.0;
        readings.service_mean_us = Some(160_000.0);
    }

    #[test]
    fn requests_wait_for_responses_or_for_the_connections_that_take_most_of_their_time() {
        assert_eq!(
            Limit::of(&pooled()).text(),
            "20 in flight at 60.0 ms each allow 333/s"
        );
        let opening = changed(unpooled);
        assert!(matches!(opening, Limit::Handshakes { .. }), "{opening:?}");
        assert_eq!(
            opening.text(),
            "20 in flight at 160 ms each (100 ms of it to open a connection) allow 125/s"
        );
        let for_free = changed(|readings| {
            unpooled(readings);
            readings.handshake_us = 0.0;
        });
        assert_eq!(for_free.name(), "waiting");
        assert_eq!(
            changed(|readings| readings.attempts_per_s = 100.0),
            Limit::Unclear
        );
        assert_eq!(
            changed(|readings| readings.service_mean_us = None),
            Limit::Unclear
        );
    }

    #[test]
    fn cpu_comes_before_the_waiting_that_it_makes() {
        let busy = changed(|readings| {
            (readings.cpu.client_cores, readings.cpu.target_cores) = (Some(0.9), Some(1.0));
        });
        assert_eq!(busy.text(), "1.90 of 2 cores");
        // A single process can use a single core, however many there are; ten can use ten.
        let alone = |shards| {
            changed(|readings| {
                (readings.cpu.cores, readings.cpu.client_cores) = (10, Some(0.97));
                readings.shards = shards;
            })
        };
        assert!(matches!(alone(1), Limit::OneCpu { .. }));
        assert_eq!(alone(10).name(), "waiting");
        // Other programs use half of the machine.
        let kept_from = changed(|readings| readings.cpu.run_delay_share = Some(0.4));
        assert!(matches!(kept_from, Limit::CpuWait { .. }));
    }

    #[test]
    fn refusals_failures_and_a_budget_come_first() {
        let full = CpuUse {
            client_cores: Some(1.0),
            target_cores: Some(1.0),
            ..pooled().cpu
        };
        for (throttled, failed, name) in [
            (132, 100, "refusals"),
            (0, 132, "failures"),
            (0, 0, "CPU"),
            (5, 0, "CPU"),
        ] {
            let limit = changed(|readings| {
                (readings.throttled, readings.failed, readings.cpu) = (throttled, failed, full);
            });
            assert_eq!(limit.name(), name);
        }
        for (share, name) in [(0.7, "its own budget"), (0.1, "CPU")] {
            let limit = changed(|readings| {
                readings.binding.rate = share;
                (readings.budget_used, readings.cpu) = (Some(0.999), full);
            });
            assert_eq!(limit.name(), name);
        }
    }
}
