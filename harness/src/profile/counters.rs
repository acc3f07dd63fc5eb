//! Counters of the CPU for programs that this process starts: instructions, cycles, cache misses, in
//! user space. Few virtual machines have them.

use std::collections::BTreeMap;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Names of the counters, and their events.
const EVENTS: [(&str, Hardware); 3] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cycles", Hardware::CPU_CYCLES),
    ("cache_misses", Hardware::CACHE_MISSES),
];

/// Counters that this machine has.
#[derive(Debug, Default)]
pub struct HardwareCounters(Vec<(&'static str, Counter)>);

impl HardwareCounters {
    /// Count what programs do that this thread starts from now on, and what they start; and this
    /// thread, which waits for them. Counters that the machine does not have are left out.
    pub fn of_children() -> Self {
        let counters = EVENTS.into_iter().filter_map(|(name, event)| {
            let mut builder = Builder::new(event);
            let builder = builder.observe_self().any_cpu().inherit(true).enabled(true);
            Some((name, builder.build().ok()?))
        });
        Self(counters.collect())
    }

    /// Return the counts so far by name, of programs that have ended too; without those that shared
    /// the hardware with others, which are estimates.
    pub fn read(&mut self) -> BTreeMap<&'static str, u64> {
        let counts = self.0.iter_mut().filter_map(|(name, counter)| {
            let read = counter.read_full().ok()?;
            let is_whole = read.time_enabled() == read.time_running();
            is_whole.then(|| (*name, read.count()))
        });
        counts.collect()
    }
}
