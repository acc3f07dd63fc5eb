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
        let mut counters = Vec::new();
        for (name, event) in EVENTS {
            let mut builder = Builder::new(event);
            builder.observe_self().any_cpu().inherit(true).enabled(true);
            counters.extend(builder.build().ok().map(|counter| (name, counter)));
        }
        Self(counters)
    }

    /// Return the counts so far by name, of programs that have ended too; without those that shared
    /// the hardware with others, which are estimates.
    pub fn read(&mut self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (name, counter) in &mut self.0 {
            if let Ok(read) = counter.read_full()
                && read.time_enabled() == read.time_running()
            {
                counts.insert(*name, read.count());
            }
        }
        counts
    }
}
