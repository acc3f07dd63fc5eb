//! The last line of a picture: where its numbers are from.

use crate::run::report::{Environment, Report};
use crate::show::text::counted;

/// Marks and words of the names of CPUs that tell nothing apart.
const IDLE: [&str; 5] = ["(R)", "(TM)", "(tm)", " CPU", " Processor"];

/// The most characters of a part that a user wrote, so that machine and date have room.
const LONGEST: usize = 36;

/// Join the command, what it measured, the machine and the date of an RFC 3339 time.
pub(crate) fn source(
    command: &str,
    of: impl IntoIterator<Item = String>,
    machine: Option<&Environment>,
    time: &str,
) -> String {
    let mut parts = vec![format!("crawlmark {command}")];
    parts.extend(of.into_iter().map(|part| {
        let mut kept: String = part.chars().take(LONGEST).collect();
        if kept.len() < part.len() {
            // Whole words of it.
            kept.truncate(kept.rfind(' ').unwrap_or(kept.len()));
            kept.push('…');
        }
        kept
    }));
    parts.extend(machine.map(|machine| {
        let mut cpu = machine
            .cpu_model
            .as_deref()
            .unwrap_or("unknown CPU")
            .to_owned();
        for idle in IDLE {
            cpu = cpu.replace(idle, "");
        }
        let name = cpu.split('@').next().unwrap_or_default().trim();
        format!("{name}, {}", counted(machine.cores as u64, "core"))
    }));
    parts.push(date(time));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The day of an RFC 3339 time: `26 Nov 2026`; what stands there if it is none.
pub(crate) fn date(time: &str) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let day = time.get(..10).unwrap_or(time);
    let mut parts = day.split('-').map(str::parse::<usize>);
    if let (Some(Ok(year)), Some(Ok(month @ 1..=12)), Some(Ok(day))) =
        (parts.next(), parts.next(), parts.next())
    {
        return format!("{day} {} {year}", MONTHS[month - 1]);
    }
    day.to_owned()
}

/// The last line of the charts of a run.
pub(super) fn source_of(report: &Report) -> String {
    let target = report.plan.run.target.clone();
    source(
        "run",
        [target],
        Some(&report.environment),
        &report.started_at,
    )
}
