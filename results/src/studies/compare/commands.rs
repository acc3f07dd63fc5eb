//! Metrics of commands, and their readings in a round of executions.
//!
//! The executions of a round take turns with those of the other, and the test looks at the pairs of
//! executions, not at the mean of a round: where a machine has a quick and a slow mode that last
//! for a few executions, the mean varies with them, and most of the pairs do not. Where a comparison is of numbers that the commands print, only those decide.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metric::{BYTES, MICROSECONDS, Metric, Reading, Readings, Worse};

/// Time from the start of a command to its end.
pub const WALL_TIME: &str = "wall_time";
/// CPU time of a command and of the processes that it waited for, user and system.
pub const CPU_TIME: &str = "cpu_time";
/// Peak memory of the largest of its processes.
pub const PEAK_MEMORY: &str = "peak_memory";

/// CPU time of an execution from which on it may decide: below it, what a process needs to begin
/// and to end is most of it.
const CPU_TO_GATE_US: f64 = 10_000.0;

/// Peak memory from which on it may decide. A smaller one is mostly that of the process that
/// started the command, and of its libraries.
const MEMORY_TO_GATE: f64 = (16 * 1024 * 1024) as f64;

/// The metrics of every command.
pub fn command_metrics() -> [Metric; 3] {
    [
        Metric::of_command(WALL_TIME, "wall time", MICROSECONDS, Worse::More),
        Metric::of_command(CPU_TIME, "CPU time", MICROSECONDS, Worse::More),
        Metric::of_command(PEAK_MEMORY, "peak memory", BYTES, Worse::More),
    ]
}

/// An execution of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Time from its start to its end, µs.
    pub wall_us: f64,
    /// CPU time of it and of the processes that it waited for, user and system, µs.
    pub cpu_us: f64,
    /// Peak memory of the largest of its processes, bytes.
    pub peak_memory: u64,
    /// Its exit code; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// Numbers that it printed, by name.
    pub values: BTreeMap<String, f64>,
}

/// The most parts of a round: their number in all pairs is what the exact test costs.
const PARTS: usize = 10;

/// Read each metric of the executions of a round one by one, or of several at a time where there
/// are more than 10.
pub(super) fn readings_of_parts(executions: &[Execution]) -> Vec<Readings> {
    let size = executions.len().div_ceil(PARTS).max(1);
    let parts = executions.chunks(size);
    parts.map(readings_of_executions).collect()
}

/// Read each metric of a round: the mean of its executions.
pub fn readings_of_executions(executions: &[Execution]) -> Readings {
    let mean = |of: &dyn Fn(&Execution) -> f64| {
        executions.iter().map(of).sum::<f64>() / executions.len() as f64
    };
    let Some(first) = executions.first() else {
        return Readings::default();
    };
    // Whoever names a number means that one.
    let decides = first.values.is_empty();
    let (cpu, memory) = (mean(&|one| one.cpu_us), mean(&|one| one.peak_memory as f64));
    let mut readings = Readings::from_iter([
        (
            WALL_TIME,
            Reading::deciding(mean(&|one| one.wall_us), decides),
        ),
        (
            CPU_TIME,
            Reading::deciding(cpu, decides && cpu >= CPU_TO_GATE_US),
        ),
        (
            PEAK_MEMORY,
            Reading::deciding(memory, decides && memory >= MEMORY_TO_GATE),
        ),
    ]);
    for name in first.values.keys() {
        let value = mean(&|one| one.values.get(name).copied().unwrap_or(f64::NAN));
        readings.set(name.clone(), Reading::Gating(value));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(cpu_us: f64, values: &[(&str, f64)]) -> Execution {
        Execution {
            wall_us: 2.0 * cpu_us,
            cpu_us,
            peak_memory: 1 << 30,
            exit_code: Some(0),
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        }
    }

    #[test]
    fn a_round_reads_as_the_mean_of_its_executions() {
        let readings =
            readings_of_executions(&[execution(20_000.0, &[]), execution(40_000.0, &[])]);
        assert_eq!(readings.of(CPU_TIME), Reading::Gating(30_000.0));
        assert_eq!(readings.of(WALL_TIME), Reading::Gating(60_000.0));
        let short = readings_of_executions(&[execution(500.0, &[])]);
        assert_eq!(short.of(CPU_TIME), Reading::Informational(500.0));
    }

    #[test]
    fn where_a_number_is_named_it_alone_decides() {
        let readings = readings_of_executions(&[execution(20_000.0, &[("score", 7.0)])]);
        assert_eq!(readings.of("score"), Reading::Gating(7.0));
        assert_eq!(readings.of(WALL_TIME), Reading::Informational(40_000.0));
    }
}
