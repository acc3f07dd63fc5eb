//! A climb as text: for a terminal, for Markdown, and in a line for each rung while it goes on.

use std::fmt::Write;

use super::contest::cell;
use super::{decimal, micros, wrapped, write_row};
use crate::run::report::Verdict;
use crate::show::visible;
use crate::studies::ladder::{Ladder, LimitedBy, Published, Reading, RungReport};
use crawlmark_harness::units::grouped;

/// The columns of the figures, with their widths.
const COLUMNS: [(&str, usize); 7] = [
    ("published", 13),
    ("measured", 11),
    ("times", 8),
    ("opened", 9),
    ("CPU, cores", 12),
    ("client each", 12),
    ("p50", 9),
];

/// Up to here a line of text is no wider than is easily read.
const WIDEST: usize = 100;

/// What was published, with its unit: `5.83/s`, `1,000-2,000/s`.
#[must_use]
pub fn published(published: Published) -> String {
    let Published { low_per_s, high_per_s } = published;
    if low_per_s < high_per_s {
        format!("{}-{}/s", decimal(low_per_s), decimal(high_per_s))
    } else {
        format!("{}/s", decimal(high_per_s))
    }
}

/// How far the climb went, in a sentence.
#[must_use]
pub fn ladder_headline(ladder: &Ladder) -> String {
    let Some((first, top)) = ladder.rungs.first().zip(ladder.top()) else { return "No rung was climbed.".to_owned() };
    let there = |rung: &RungReport| published(rung.published);
    let here = |rung: &RungReport| format!("{}/s", decimal(rung.reading.ok_per_s));
    if first.rung == top.rung {
        return format!("Rung {}: {} here, {} as published.", first.rung, here(first), there(first));
    }
    let times = |low: f64, high: f64| if low > 0.0 { format!(" ({}x)", rounded(high / low)) } else { String::new() };
    let highest = ladder.rungs.iter().map(|rung| rung.published.high_per_s).fold(0.0, f64::max);
    format!(
        "Measured: {} to {}{}. Published: {} to {}/s{}.",
        here(first),
        here(top),
        times(first.reading.ok_per_s, top.reading.ok_per_s),
        there(first),
        decimal(highest),
        times(first.published.low_per_s, highest)
    )
}

/// What came of a rung, in a line.
#[must_use]
pub fn ladder_standing(reading: &Reading, limited_by: LimitedBy, there: Published) -> String {
    let times = decimal(reading.ok_per_s / there.middle_per_s());
    format!("{}/s, {times} times what was published; limited by {}", decimal(reading.ok_per_s), limited_by.name())
}

/// The climb for a terminal of so many columns.
#[must_use]
pub fn ladder_text(ladder: &Ladder, columns: usize) -> String {
    let width = columns.min(WIDEST);
    let mut out = String::new();
    for line in wrapped(&ladder_headline(ladder), width) {
        let _ = writeln!(out, "{line}");
    }
    let is_table = COLUMNS.iter().map(|(_, width)| width).sum::<usize>() + 4 <= columns;
    out.push('\n');
    if is_table {
        write_figures(&mut out, COLUMNS.map(|(name, _)| name.to_owned()));
    }
    for rung in &ladder.rungs {
        for (n, line) in wrapped(&rung.name, width.saturating_sub(4)).into_iter().enumerate() {
            let number = if n == 0 { rung.rung.to_string() } else { String::new() };
            let _ = writeln!(out, "{number:>2}  {line}");
        }
        let figures = figures(rung);
        if is_table {
            write_figures(&mut out, figures);
        } else {
            let named = COLUMNS.iter().zip(figures).filter(|(_, figure)| figure != "-");
            let told: Vec<String> = named.map(|((name, _), figure)| format!("{name} {figure}")).collect();
            write_indented(&mut out, &told.join(", "), width);
        }
        write_indented(&mut out, &limited(rung), width);
    }
    out.push('\n');
    for note in &ladder.notes {
        write_row(&mut out, "differs", note, width);
    }
    if let Some(search) = search(ladder) {
        write_row(&mut out, "search", &search, width);
    }
    if let Some(doubted) = doubted(ladder) {
        write_row(&mut out, "note", &doubted, width);
    }
    if ladder.interrupted {
        write_row(&mut out, "note", "it was ended before it was over", width);
    }
    out
}

fn write_figures(out: &mut String, figures: [String; 7]) {
    let line = COLUMNS
        .iter()
        .zip(figures)
        .fold("    ".to_owned(), |line, ((_, width), figure)| line + &format!("{figure:>width$}"));
    let _ = writeln!(out, "{}", line.trim_end());
}

fn write_indented(out: &mut String, text: &str, width: usize) {
    for line in wrapped(text, width.saturating_sub(6)) {
        let _ = writeln!(out, "      {line}");
    }
}

/// The figures of a rung, in the order of the columns.
fn figures(rung: &RungReport) -> [String; 7] {
    let Reading { ok_per_s, connections_opened, cpu, service_p50_us, .. } = &rung.reading;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        published(rung.published),
        format!("{}/s", decimal(*ok_per_s)),
        or_dash(rung.times_before.map(|times| format!("x {}", short(times)))),
        grouped(*connections_opened),
        or_dash(cpu.used_cores().map(|used| format!("{used:.2} of {}", cpu.cores))),
        or_dash(cpu.client_us_per_attempt.map(micros)),
        or_dash(service_p50_us.map(micros)),
    ]
}

/// A ratio, to where it matters.
fn short(times: f64) -> String {
    if times < 1.0 {
        format!("{times:.2}")
    } else if times < 10.0 {
        format!("{times:.1}")
    } else {
        decimal(times.round())
    }
}

/// A ratio in three digits: more of them would say more than two short runs know.
fn rounded(times: f64) -> String {
    let digit = 10f64.powf(times.max(1.0).log10().floor() - 2.0);
    decimal((times / digit).round() * digit)
}

fn limited(rung: &RungReport) -> String {
    format!("{}: {}", rung.limit.by.name(), rung.limit.why)
}

/// The rungs whose runs were met by something that a measurement should not see.
fn doubted(ladder: &Ladder) -> Option<String> {
    let is_doubted = |rung: &&RungReport| matches!(rung.validity, Verdict::Disturbed | Verdict::TargetLimited);
    let doubted: Vec<String> = ladder
        .rungs
        .iter()
        .filter(is_doubted)
        .map(|rung| format!("rung {} was {}", rung.rung, rung.validity.name()))
        .collect();
    (!doubted.is_empty()).then(|| format!("{}: the reasons are in the results of their rounds", doubted.join(", ")))
}

/// What the search tried.
fn search(ladder: &Ladder) -> Option<String> {
    let tried = ladder.search.iter().map(|probe| {
        format!("{} of {} connections", decimal(probe.ok_per_s) + "/s", grouped(u64::from(probe.connections)))
    });
    let tried: Vec<String> = tried.collect();
    (!tried.is_empty()).then(|| format!("for the most that the CPU can do: {}", tried.join(", ")))
}

/// Flags as a shell takes them.
fn typed(flags: &[String]) -> String {
    // A word with a NUL is none that anybody can have typed.
    shlex::try_join(flags.iter().map(String::as_str)).unwrap_or_else(|_| flags.join(" "))
}

/// The climb as Markdown.
#[must_use]
pub fn ladder_markdown(ladder: &Ladder) -> String {
    let mut out = String::new();
    let partial = if ladder.interrupted { " (ended before it was over)" } else { "" };
    let _ = writeln!(out, "# {}{partial}\n", cell(&ladder.name));
    let _ = writeln!(out, "{}\n", cell(&ladder_headline(ladder)));
    let _ = writeln!(
        out,
        "| | rung | published | measured | times the one before | connections opened | CPU, cores | CPU of the client per attempt | p50 | \
         limited there by | limited here by |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for rung in &ladder.rungs {
        let [published, measured, times, opened, cores, per_attempt, p50] = figures(rung);
        let _ = writeln!(
            out,
            "| {} | {} | {published} | **{measured}** | {times} | {opened} | {cores} | {per_attempt} | {p50} | {} | {} |",
            rung.rung,
            cell(&rung.name),
            cell(&rung.published_limit),
            cell(&limited(rung))
        );
    }
    let _ = writeln!(out, "\nWhat is not as there:\n");
    for note in &ladder.notes {
        let _ = writeln!(out, "- {}", cell(note));
    }
    if let Some(doubted) = doubted(ladder) {
        let _ = writeln!(out, "\n{}.", cell(&doubted));
    }
    if let Some(search) = search(ladder) {
        let _ = writeln!(out, "\nSearched {}.", cell(&search));
    }
    let _ = writeln!(out, "\nThe flags of `crawlmark run` that each rung is:\n\n```sh");
    for rung in &ladder.rungs {
        let _ = writeln!(out, "crawlmark run {}  # {}", typed(&rung.flags), rung.rung);
    }
    let machine = ladder.environment.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let _ = writeln!(
        out,
        "```\n\n{}, {} cores, client and target together, and so are the cores that a rung used. crawlmark {}, {}.",
        cell(machine),
        ladder.environment.cores,
        ladder.crawlmark_version,
        ladder.started_at
    );
    visible(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_three_digits() {
        for (times, told) in [(2.6, "2.60"), (26.44, "26.4"), (263.7, "264"), (2_637.0, "2,640")] {
            assert_eq!(rounded(times), told);
        }
    }

    #[test]
    fn flags_are_told_as_a_shell_takes_them() {
        let flags = ["-H", "authorization: ...", "-c", "2"].map(str::to_owned);
        assert_eq!(typed(&flags), "-H 'authorization: ...' -c 2");
    }
}
