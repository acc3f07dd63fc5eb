//! Parsers of the kernel's counters. A reading is absent when its text is not as expected.

use super::CpuTicks;

/// Column of the stolen time among the times of a CPU; the columns after it are part of the others
/// already.
const STOLEN: usize = 7;

/// Columns of the times in which a CPU was idle or waited for a disk.
const IDLE: [usize; 2] = [3, 4];

/// Parse `stat`: a line for all CPUs and one for each, times in ticks.
pub(super) fn cpu_ticks(text: &str, cpu: Option<usize>) -> Option<CpuTicks> {
    let times = cpu_times(text, cpu)?;
    Some(CpuTicks {
        stolen: times[STOLEN],
        all: times.iter().sum(),
    })
}

/// The ticks in which CPUs ran something, over all of them.
pub(super) fn busy_ticks(text: &str) -> Option<u64> {
    let times = cpu_times(text, None)?;
    Some(
        times
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != STOLEN && !IDLE.contains(at))
            .map(|(_, ticks)| ticks)
            .sum(),
    )
}

/// The times of a CPU, or of all, none of which is counted twice.
fn cpu_times(text: &str, cpu: Option<usize>) -> Option<[u64; STOLEN + 1]> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let fields = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut fields| (fields.next() == Some(&name)).then_some(fields))?;
    fields
        .take(STOLEN + 1)
        .map_while(|field| field.parse().ok())
        .collect::<Vec<u64>>()
        .try_into()
        .ok()
}

/// Return the counter `name` in lines that begin with `line`: one of names above one of values, or
/// one of names with their values, as in `some avg10=0.00 total=123`.
pub(super) fn counter(text: &str, line: &str, name: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|text| text.strip_prefix(line))
        .map(str::split_whitespace);
    let mut names = lines.next()?;
    let value = match lines.next() {
        Some(mut values) => values.nth(names.position(|it| it == name)?),
        None => names.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')),
    };
    value?.parse().ok()
}
