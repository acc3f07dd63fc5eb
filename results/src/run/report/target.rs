//! The target's side of a run: what its processes used, per request and per second, from the samples
//! of a probe.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Report, share};
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::profile::Profile;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::Series;
use crawlmark_harness::target_usage::{Busiest, PressureOf, TargetRecord, TargetSample};

/// The target's processes during the run, after the warm-up. A field that could not be read is
/// null, with the reason in `unavailable` or in `ended`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// Choice of the processes, as `port 8080`; of a probe started by a command, its program.
    pub source: String,
    /// True if the processes are on this machine.
    pub is_here: bool,
    /// Names of the processes, each once. Empty if none was found.
    pub names: Vec<String>,
    /// Cgroup of the first process, or the nearest one above it that has a CPU quota.
    pub cgroup: Option<String>,
    /// CPUs that the processes may run on.
    pub cpus: Vec<usize>,
    /// Samples.
    pub samples: u64,
    /// Processes at most.
    pub processes: Option<u32>,
    /// Threads at most.
    pub threads: Option<u32>,
    /// CPU time, µs.
    pub cpu_us: Option<f64>,
    /// CPU time per attempt that ended by itself, µs: CPUs used over attempts per second.
    pub cpu_us_per_attempt: Option<f64>,
    /// Time per attempt for which threads were ready to run and had no CPU, µs. Throttled time is
    /// in it.
    pub run_delay_us_per_attempt: Option<f64>,
    /// Time per attempt for which the CPU quota of the cgroup stopped it, µs, summed over CPUs.
    pub throttled_us_per_attempt: Option<f64>,
    /// Part of the periods of the quota in which it was throttled, of those in which it had work.
    pub throttled_periods_share: Option<f64>,
    /// The process that used most CPU.
    pub busiest_process: Option<BusiestReport>,
    /// The thread that used most CPU.
    pub busiest_thread: Option<BusiestReport>,
    /// Part of the time in which a thread was ready to run and had no CPU (PSI).
    pub pressure: Option<f64>,
    /// Processes that the pressure is of.
    pub pressure_of: Option<PressureOf>,
    /// Accept queues of its listening sockets.
    pub accept_queue: Option<QueueReport>,
    /// Resident memory at most, bytes, summed over processes: shared pages count for each.
    pub rss_bytes: Option<u64>,
    /// Open descriptors at most.
    pub fds: Option<u64>,
    /// Parts of the mean service time.
    pub split: Option<ServiceSplit>,
    /// Functions that used the CPU, if they were sampled: from the start of the probe to the end of
    /// the run, warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Readings that the machine does not give, each with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// Lines of the probe that could not be read.
    pub bad_lines: u64,
    /// Reason why the probe ended before the run; null if it did not.
    pub ended: Option<String>,
}

/// A process or a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusiestReport {
    /// Its name.
    pub name: String,
    /// Its CPU time over the time, at least: 1 if it used all of a CPU.
    pub share: f64,
}

/// Accept queues, summed over listening sockets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Connections that waited to be accepted, mean of the samples.
    pub mean: f64,
    /// Connections that waited to be accepted, at most in a sample: a queue that is full between
    /// two samples shows in `drops` alone.
    pub max: u64,
    /// Connections that may wait.
    pub limit: u64,
    /// Connections and segments that the listening sockets dropped. Null if the kernel does not
    /// say.
    pub drops: Option<u64>,
}

/// Parts of the mean service time of good responses, µs. They add up to it.
///
/// Exact if a thread serves one request at a time and nothing else uses CPU. Where one thread serves
/// many requests, as in an event loop, a request also waits while the thread works on others: that is
/// in `rest_us`. The network is in `rest_us` as well.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServiceSplit {
    /// Mean service time.
    pub service_us: f64,
    /// CPU time of the target.
    pub cpu_us: f64,
    /// Ready to run without a CPU, less what was throttled. Null if the kernel does not say.
    pub run_queue_us: Option<f64>,
    /// Ready to run and stopped by the CPU quota; 0 without a quota.
    pub throttled_us: f64,
    /// The rest: waits for other things than a CPU, the network, and other requests.
    pub rest_us: f64,
}

/// The target's processes in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetSecond {
    /// CPU time, µs.
    pub cpu_us: Option<f64>,
    /// Time for which threads were ready to run and had no CPU, µs.
    pub run_delay_us: Option<f64>,
    /// Time for which the CPU quota stopped the cgroup, µs, summed over CPUs.
    pub throttled_us: Option<f64>,
    /// Connections that waited to be accepted, mean of the samples.
    pub accept_queue: Option<f64>,
    /// Resident memory, bytes.
    pub rss_bytes: Option<u64>,
}

/// A value of a sample that grows.
type Counter = fn(&TargetSample) -> Option<u64>;

/// Samples between two times.
#[derive(Debug, Clone, Copy)]
struct Window<'a> {
    samples: &'a [TargetSample],
    from_ns: u64,
    to_ns: u64,
}

impl<'a> Window<'a> {
    /// Return the samples within it.
    fn inside(self) -> &'a [TargetSample] {
        let from = self.samples.partition_point(|it| it.at_ns < self.from_ns);
        let to = self.samples.partition_point(|it| it.at_ns <= self.to_ns);
        self.samples.get(from..to).unwrap_or_default()
    }

    /// Return the last reading of something that is not in every sample.
    fn last(self, of: Counter) -> Option<u64> {
        let end = self.samples.partition_point(|it| it.at_ns <= self.to_ns);
        self.samples.get(..end)?.iter().rev().find_map(of)
    }

    /// Return the growth of a count between the last readings before its ends.
    fn added(self, of: Counter) -> Option<u64> {
        let before = Self {
            to_ns: self.from_ns,
            ..self
        };
        Some(self.last(of)?.saturating_sub(before.last(of)?))
    }

    /// Widen it to the samples around it. The target serves nobody outside of a run, so what it used
    /// between a sample and the start, or the end, it used within the run: a short run has no other.
    fn widened(self, from_start: bool) -> Self {
        let before = self
            .samples
            .iter()
            .rev()
            .map(|it| it.at_ns)
            .find(|at| *at <= self.from_ns);
        let mut after = self.samples.iter().map(|it| it.at_ns);
        Self {
            from_ns: before.filter(|_| from_start).unwrap_or(self.from_ns),
            to_ns: after.find(|at| *at >= self.to_ns).unwrap_or(self.to_ns),
            ..self
        }
    }

    /// Return the growth of a counter in it; none unless there are samples on both sides.
    fn growth(self, of: Counter) -> Option<f64> {
        let (from, to) = (self.at(self.from_ns, of)?, self.at(self.to_ns, of)?);
        Some((to - from).max(0.0))
    }

    /// Return the growth of a counter of nanoseconds, us.
    fn growth_us(self, of: Counter) -> Option<f64> {
        Some(self.growth(of)? / 1e3)
    }

    /// Return the value of a counter at a time, linear between two samples.
    fn at(self, at_ns: u64, of: Counter) -> Option<f64> {
        let next = self.samples.partition_point(|it| it.at_ns < at_ns);
        let (before, after) = self.samples.split_at_checked(next)?;
        let read = |it: &TargetSample| Some((it.at_ns, of(it)? as f64));
        let (after_ns, high) = after.iter().find_map(read)?;
        if after_ns == at_ns {
            return Some(high);
        }
        let (before_ns, low) = before.iter().rev().find_map(read)?;
        let passed = at_ns.saturating_sub(before_ns) as f64;
        let whole = after_ns.saturating_sub(before_ns) as f64;
        Some(low + (high - low) * share(passed, whole))
    }

    /// Return the mean length of the accept queues.
    fn queue(self) -> Option<f64> {
        let lengths: Vec<f64> = self
            .inside()
            .iter()
            .filter_map(|it| it.accept_queue)
            .map(|queue| queue.length as f64)
            .collect();
        let sum = lengths.iter().sum::<f64>();
        (!lengths.is_empty()).then(|| sum / lengths.len() as f64)
    }

    /// Return the share of the process or thread that was busiest, which may have ended since. What
    /// another one had used by the beginning is taken off: at least so much.
    fn busiest(self, of: fn(&TargetSample) -> Option<&Busiest>) -> Option<BusiestReport> {
        let read = |it: &'a TargetSample| Some((it.at_ns, of(it)?));
        let (at_ns, busiest) = {
            self.inside()
                .iter()
                .filter_map(read)
                .max_by_key(|(_, it)| it.cpu_ns)?
        };
        let before = self
            .samples
            .iter()
            .rev()
            .find_map(|it| read(it).filter(|_| it.at_ns <= self.from_ns));
        let (before_at_ns, before_ns) =
            before.map_or((self.from_ns, 0), |(at_ns, it)| (at_ns, it.cpu_ns));
        let used_ns = busiest.cpu_ns.saturating_sub(before_ns);
        let passed_ns = at_ns.saturating_sub(before_at_ns);
        Some(BusiestReport {
            name: busiest.name.clone(),
            share: share(used_ns as f64, passed_ns as f64),
        })
    }
}

/// Take the target's side of a run that began at `start` into its report: the whole run after the
/// warm-up, and each second.
pub(super) fn add(report: &mut Report, record: &TargetRecord, start: Nanos) {
    let ns = |since_start_s| {
        let passed = Duration::try_from_secs_f64(since_start_s).unwrap_or_default();
        start.plus(passed).0
    };
    let end_ns = ns(report.totals.duration_s);
    let window = Window {
        samples: &record.samples,
        from_ns: ns(report.plan.run.warmup.as_secs_f64()).min(end_ns),
        to_ns: end_ns,
    };
    let whole = Window {
        from_ns: start.0,
        ..window
    }
    .widened(true);
    for row in &mut report.intervals {
        let start_s = row.start_s as f64;
        let second = Window {
            samples: &record.samples,
            from_ns: if row.start_s == 0 {
                whole.from_ns
            } else {
                ns(start_s).min(end_ns)
            },
            to_ns: Some(ns(start_s + INTERVAL.as_secs_f64()))
                .filter(|to_ns| *to_ns < end_ns)
                .unwrap_or(whole.to_ns),
        };
        row.target = Some(TargetSecond::of(second)).filter(|it| *it != TargetSecond::default());
    }
    let measured = window.widened(report.plan.run.warmup.is_zero());
    report.target = Some(TargetReport::new(report, record, measured));
}

impl TargetSecond {
    fn of(second: Window<'_>) -> Self {
        Self {
            cpu_us: second.growth_us(|it| it.cpu_ns),
            run_delay_us: second.growth_us(|it| it.run_delay_ns),
            throttled_us: second.growth_us(|it| it.throttled_ns),
            accept_queue: second.queue(),
            rss_bytes: second.last(|it| it.rss_bytes),
        }
    }
}

fn per(sum: Option<f64>, count: Option<f64>) -> Option<f64> {
    Some(sum? / count?)
}

impl TargetReport {
    fn new(report: &Report, record: &TargetRecord, window: Window<'_>) -> Self {
        let inside = window.inside();
        let attempts = Some(report.measured().completed())
            .filter(|attempts| *attempts > 0)
            .map(|attempts| attempts as f64);
        let found = record.found.clone().unwrap_or_default();
        let passed_us = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e3;
        let mut target = Self {
            source: record.source.clone(),
            is_here: record.is_here,
            names: found.names,
            cgroup: found.cgroup,
            cpus: found.cpus,
            samples: inside.len() as u64,
            processes: inside.iter().filter_map(|it| it.processes).max(),
            threads: inside.iter().filter_map(|it| it.threads).max(),
            cpu_us: window.growth_us(|it| it.cpu_ns),
            // Processes that used none did not serve.
            cpu_us_per_attempt: per(window.growth_us(|it| it.cpu_ns), attempts)
                .filter(|us| *us > 0.0),
            run_delay_us_per_attempt: per(window.growth_us(|it| it.run_delay_ns), attempts),
            throttled_us_per_attempt: per(window.growth_us(|it| it.throttled_ns), attempts),
            throttled_periods_share: window
                .growth(|it| it.throttled_periods)
                .zip(window.growth(|it| it.periods))
                .map(|(throttled, periods)| share(throttled, periods)),
            busiest_process: window.busiest(|it| it.busiest_process.as_ref()),
            busiest_thread: window.busiest(|it| it.busiest_thread.as_ref()),
            pressure: window
                .growth(|it| it.pressure_us)
                .map(|us| share(us, passed_us).min(1.0)),
            pressure_of: found.pressure_of,
            accept_queue: window.queue().map(|mean| QueueReport {
                mean,
                max: inside
                    .iter()
                    .filter_map(|it| Some(it.accept_queue?.length))
                    .max()
                    .unwrap_or(0),
                limit: inside
                    .iter()
                    .filter_map(|it| Some(it.accept_queue?.limit))
                    .max()
                    .unwrap_or(0),
                drops: window.added(|it| it.accept_queue?.drops),
            }),
            rss_bytes: inside.iter().filter_map(|it| it.rss_bytes).max(),
            fds: inside.iter().filter_map(|it| it.fds).max(),
            split: None,
            profile: record.profile.clone().filter(|profile| profile.samples > 0),
            unavailable: found.unavailable,
            bad_lines: record.bad_lines,
            ended: record.ended.clone(),
        };
        target.split = target.split(report, window);
        target
    }

    /// Split the mean service time.
    fn split(&self, report: &Report, window: Window<'_>) -> Option<ServiceSplit> {
        let service_us = report.mean_us(Series::ServiceOk)?;
        let cpu_us = self.cpu_us_per_attempt?;
        // Of a thread that waited all the time, the throttled part is that of the cgroup's CPU.
        let throttled = window.growth(|it| it.throttled_ns).unwrap_or(0.0);
        let longest = window.growth(|it| it.longest_delay_ns).unwrap_or(0.0);
        let part = share(throttled, longest).min(1.0);
        let delay_us = self.run_delay_us_per_attempt;
        let throttled_us = delay_us.unwrap_or(0.0) * part;
        let run_queue_us = delay_us.map(|delay_us| delay_us - throttled_us);
        Some(ServiceSplit {
            service_us,
            cpu_us,
            run_queue_us,
            throttled_us,
            rest_us: service_us - cpu_us - run_queue_us.unwrap_or(0.0) - throttled_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(at_ns: u64, cpu_ns: u64) -> TargetSample {
        TargetSample {
            at_ns,
            cpu_ns: Some(cpu_ns),
            ..TargetSample::default()
        }
    }

    proptest! {
        #[test]
        fn growth_over_parts_adds_up_to_that_of_the_whole(
            steps in prop::collection::vec((1_u64..1_000, 0_u64..1_000), 2..30), cut in 0_u64..100,
        ) {
            let (mut at, mut cpu) = (0, 0);
            let samples: Vec<TargetSample> = steps.iter().map(|(passed, used)| {
                (at, cpu) = (at + passed, cpu + used);
                sample(at, cpu)
            }).collect();
            let (from_ns, to_ns) = (samples[0].at_ns, at);
            let middle = from_ns + (to_ns - from_ns) * cut / 100;
            let growth = |from_ns, to_ns| {
                let window = Window { samples: &samples, from_ns, to_ns };
                window.growth(|it| it.cpu_ns).unwrap()
            };
            let parts = growth(from_ns, middle) + growth(middle, to_ns);
            prop_assert!((parts - growth(from_ns, to_ns)).abs() < 1e-6);
            prop_assert!((growth(from_ns, to_ns) - (cpu - steps[0].1) as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn a_thread_that_uses_all_of_a_cpu_has_a_share_of_one_wherever_it_was_sampled() {
        let busy = |at_ns: u64| TargetSample {
            at_ns,
            busiest_thread: Some(Busiest {
                cpu_ns: at_ns,
                ..Busiest::default()
            }),
            ..TargetSample::default()
        };
        let other = TargetSample {
            at_ns: 200,
            busiest_thread: Some(Busiest::default()),
            ..TargetSample::default()
        };
        // At the last, the thread has ended, and another one is the busiest.
        let samples = [busy(0), busy(70), sample(90, 0), busy(180), other];
        for (from_ns, to_ns) in [(0, 180), (90, 200), (70, 190)] {
            let window = Window {
                samples: &samples,
                from_ns,
                to_ns,
            };
            let share = window
                .busiest(|it| it.busiest_thread.as_ref())
                .unwrap()
                .share;
            assert!((share - 1.0).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn a_window_that_is_not_covered_has_no_growth() {
        let samples = [sample(100, 5), sample(200, 15)];
        let growth = |from_ns, to_ns| {
            let window = Window {
                samples: &samples,
                from_ns,
                to_ns,
            };
            window.growth(|it| it.cpu_ns)
        };
        assert_eq!(growth(150, 200), Some(5.0));
        assert_eq!(growth(99, 200), None);
        assert_eq!(growth(150, 201), None);
        assert_eq!(growth(300, 400), None);
    }
}
