//! What a shard used, and how its CPU fared, from the common start to its end.
//!
//! What takes long to read is read before the shard says `ready`, so that it delays no request.

use crate::clock::Nanos;
use crate::machine::{CpuTicks, Proc, probe_speed};
use crate::process::own_usage;
use crate::wire::{CpuHealth, Usage};

/// The readings before.
#[derive(Debug)]
pub(super) struct Vitals {
    proc: Proc,
    cpu: Option<usize>,
    speed_before_ns: Option<u64>,
    ticks: Option<CpuTicks>,
    usage: Usage,
    start: Nanos,
}

impl Vitals {
    /// Those of a shard on `cpu`, of one that may run on any when that is none. Takes milliseconds of CPU.
    pub(super) fn before(cpu: Option<usize>) -> Self {
        let proc = Proc::default();
        let speed_before_ns = probe_speed();
        let ticks = proc.cpu_ticks(cpu);
        Self { proc, cpu, speed_before_ns, ticks, usage: Usage::default(), start: Nanos::default() }
    }

    /// What is used from now on counts; what is measured begins at `start`. Takes microseconds.
    pub(super) fn begin(&mut self, start: Nanos) {
        (self.usage, self.start) = (own_usage(), start);
    }

    /// CPU used before, us.
    pub(super) const fn cpu_us(&self) -> u64 {
        self.usage.cpu_us()
    }

    /// What it came to by `now`. Takes milliseconds of CPU.
    pub(super) fn end(&self, now: Nanos) -> (Usage, CpuHealth) {
        let usage = own_usage().since(self.usage);
        let ticks = self.proc.cpu_ticks(self.cpu).zip(self.ticks).map(|(now, then)| now.since(then));
        let measured_ns = now.since(self.start);
        let (speed_before_ns, speed_after_ns) = (self.speed_before_ns, probe_speed());
        (usage, CpuHealth { measured_ns, ticks, speed_before_ns, speed_after_ns })
    }
}
