//! Resource usage of a shard, and readings of its CPU, from the common start to its end.
//!
//! Slow readings are taken before the shard sends `ready`, so that they delay no request.

use crate::clock::Nanos;
use crate::machine::{CpuTicks, Proc, probe_speed_since};
use crate::process::own_usage;
use crate::wire::{CpuHealth, Usage};

/// Choice to probe the speed of the shard's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probing {
    /// Probe the CPU.
    Probes,
    /// Another shard on the same CPU does. Where many share one, their probes would hold each other
    /// up, and those that are still at work when the first ones end.
    LeftToAnother,
}

impl Probing {
    /// As many shards probe as there are CPUs. The first ones are on different CPUs.
    pub(super) const fn of(shard: u32, cpus: usize) -> Self {
        if (shard as usize) < cpus {
            Self::Probes
        } else {
            Self::LeftToAnother
        }
    }

    fn speed_since(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Probes => probe_speed_since(before),
            Self::LeftToAnother => None,
        }
    }
}

/// The readings before.
#[derive(Debug)]
pub(super) struct CpuReadings {
    proc: Proc,
    cpu: Option<usize>,
    probing: Probing,
    speed_before_ns: Option<u64>,
    ticks: Option<CpuTicks>,
    read: fn() -> Usage,
    usage: Usage,
    start: Nanos,
}

impl CpuReadings {
    /// Those of a shard on `cpu`, of one that may run on any when that is none. May take
    /// milliseconds of CPU.
    pub(super) fn before(cpu: Option<usize>, probing: Probing) -> Self {
        let proc = Proc::default();
        Self {
            cpu,
            probing,
            speed_before_ns: probing.speed_since(None),
            ticks: proc.cpu_ticks(cpu),
            proc,
            read: own_usage,
            usage: Usage::default(),
            start: Nanos::default(),
        }
    }

    /// Those of a shard that is no process: what its thread uses says nothing about it.
    #[cfg(feature = "virtual-time")]
    pub(super) fn none() -> Self {
        Self {
            proc: Proc::default(),
            cpu: None,
            probing: Probing::LeftToAnother,
            speed_before_ns: None,
            ticks: None,
            read: Usage::default,
            usage: Usage::default(),
            start: Nanos::default(),
        }
    }

    /// Begin to count the usage now, and the measured time at `start`. Takes microseconds.
    pub(super) fn begin(&mut self, start: Nanos) {
        (self.usage, self.start) = ((self.read)(), start);
    }

    /// Return the usage so far, before the start too.
    pub(super) fn used(&self) -> Usage {
        (self.read)()
    }

    /// Return the usage before the start.
    pub(super) const fn before_start(&self) -> Usage {
        self.usage
    }

    /// Return the usage and the CPU readings from the beginning to `now`. May take milliseconds of
    /// CPU.
    pub(super) fn end(&self, now: Nanos) -> (Usage, CpuHealth) {
        let usage = self.used().since(self.usage);
        let ticks = self
            .proc
            .cpu_ticks(self.cpu)
            .zip(self.ticks)
            .map(|(now, then)| now.since(then));
        let measured_ns = now.since(self.start);
        let speed_before_ns = self.speed_before_ns;
        let speed_after_ns = self.probing.speed_since(speed_before_ns);
        (
            usage,
            CpuHealth {
                measured_ns,
                ticks,
                speed_before_ns,
                speed_after_ns,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_is_probed_by_one_shard() {
        let probing = |shards: u32, cpus| {
            (0..shards)
                .filter(|n| Probing::of(*n, cpus) == Probing::Probes)
                .count()
        };
        assert_eq!(
            [probing(2, 4), probing(4, 4), probing(64, 4), probing(3, 0)],
            [2, 4, 4, 0]
        );
    }

    #[test]
    fn what_was_used_before_the_start_does_not_count() {
        let mut vitals = CpuReadings::before(None, Probing::Probes);
        vitals.begin(Nanos(1_000));
        let before = vitals.before_start().cpu_us();
        let (usage, cpu) = vitals.end(Nanos(5_000));
        assert!(usage.cpu_us() <= own_usage().cpu_us() - before);
        assert_eq!(cpu.measured_ns, 4_000);
        assert!(
            cpu.speed_before_ns > Some(0) && cpu.speed_after_ns > Some(0) && cpu.ticks.is_some()
        );
    }
}
