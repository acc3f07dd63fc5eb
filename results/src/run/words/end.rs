//! End of a run at the terminal: at most [`MOST`] lines from 40 columns on, the figures first and
//! the page last.
//!
//! | block | holds |
//! |---|---|
//! | figures | good rate, p50, p99, max, what failed; how many in what time, of what was asked |
//! | histogram | times of good responses |
//! | findings | thresholds that did not pass, the first finding with its remedy, validity, the page |
//!
//! What does not fit makes the histogram lower, then takes the empty lines, the histogram, and in
//! the end what the page says as well. No word is cut.

use crate::judge::{Finding, Severity as Gravity};
use crate::run::report::{Latency, Limit, Report, Verdict, is_endless};
use crate::show::doc::{Doc, Severity};
use crate::show::figures::opening;
use crate::show::histogram::Histogram;
use crate::show::line::{Cell, Display, Line, Tone};
use crate::show::text::{
    counted, decimal, grouped, in_unit, micros, rate_in_words, seconds, wrapped,
};
use crate::show::visible;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

use super::reproduce::shell;
use super::{heading, lead};

/// Lines at most.
pub const MOST: usize = 16;

/// Columns from which on a line has room for what is not needed to read it.
const WIDE: usize = 80;

/// Thresholds that did not pass that are listed at most.
const MOST_THRESHOLDS: usize = 3;

/// Rows of the histogram at most, on a wide and on a narrow terminal.
const ROWS: [usize; 2] = [3, 2];

/// Characters of a short text.
const SHORT: usize = 48;

/// Part of the requests that failed from which on that is marked.
const FAILED: f64 = 0.01;

/// Part of the requested rate from which on all of it was sent.
const ALL_SENT: f64 = 0.995;

/// Contents of an end that leave it when there is no room, the first of them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Rows(usize),
    OneRowNoGaps,
    NoHistogram,
    ShortTitle,
    NoRemedy,
}

/// The most and the least contents, in order.
const ROOMS: [Room; 7] = [
    Room::Rows(3),
    Room::Rows(2),
    Room::Rows(1),
    Room::OneRowNoGaps,
    Room::NoHistogram,
    Room::ShortTitle,
    Room::NoRemedy,
];

impl Room {
    const fn rows(self) -> usize {
        match self {
            Self::Rows(rows) => rows,
            Self::OneRowNoGaps => 1,
            _ => 0,
        }
    }
}

/// The lines of the end of a run whose page is at `page`, if it is kept.
pub fn end(
    report: &Report,
    page: Option<&str>,
    display: Display,
    has_histogram: bool,
) -> Vec<Line> {
    let end = End {
        report,
        display,
        histogram: times(report)
            .filter(|_| has_histogram)
            .and_then(Histogram::of),
        page,
    };
    let mut lines = Vec::new();
    for room in ROOMS {
        lines = end.lines(room);
        if lines.len() <= MOST {
            break;
        }
    }
    lines
}

/// Whether the end of a run says it: all that is above `info`, and what the slowest have in common,
/// which is the answer to a question (`--trait`).
fn is_told(one: &Finding) -> bool {
    one.severity() > Gravity::Info || matches!(one, Finding::SlowestInCommon { .. })
}

/// The first finding above `info`, in a sentence with its remedy.
pub fn news(report: &Report) -> Option<String> {
    let first = report
        .findings
        .iter()
        .find(|one| one.severity() > Gravity::Info)?;
    Some(first.sentence())
}

/// A run in a few lines of Markdown: its first finding, its figures and its command.
pub fn brief_markdown(report: &Report) -> String {
    let figures: Vec<String> = cells(report)
        .iter()
        .map(|cell| cell.text().to_owned())
        .collect();
    let first = news(report).unwrap_or_else(|| population(report)[0].clone());
    let doc = Doc::new(heading(report))
        .text(format!("{first} ({})", lead::word(report.validity.verdict)))
        .text(figures.join(", "));
    let command = report
        .command
        .as_ref()
        .filter(|command| command.is_of_run());
    match command {
        Some(command) => doc.commands("", &[shell(&command.arguments)]),
        None => doc,
    }
    .step_summary()
}

/// The times that the run is about; none if no response was good.
fn times(report: &Report) -> Option<&Latency> {
    let times = report.latency(report.main_series())?;
    (times.count + times.censored > 0).then_some(times)
}

struct End<'a> {
    report: &'a Report,
    display: Display,
    histogram: Option<Histogram>,
    page: Option<&'a str>,
}

impl End<'_> {
    const fn is_wide(&self) -> bool {
        self.display.columns >= WIDE
    }

    fn lines(&self, room: Room) -> Vec<Line> {
        let mut figures = self.figures();
        if room < Room::NoRemedy {
            figures.extend(self.population());
        }
        let most_rows = ROWS[usize::from(!self.is_wide())];
        let histogram = self
            .histogram
            .as_ref()
            .map(|it| it.lines(room.rows().min(most_rows), self.display));
        let mut findings = self.findings(room);
        findings.extend(self.validity());
        findings.extend(
            self.page
                .map(|page| Line::of(format!("  {}", visible(page)), Tone::Plain)),
        );
        let has_gaps = room < Room::OneRowNoGaps;
        let mut lines = Vec::new();
        for block in [figures, histogram.unwrap_or_default(), findings] {
            if has_gaps && !lines.is_empty() && !block.is_empty() {
                lines.push(Line::default());
            }
            lines.extend(block);
        }
        lines
    }

    /// Figures in one line, or in two of a narrow terminal; what leaves to fit is the maximum, then
    /// the median.
    fn figures(&self) -> Vec<Line> {
        let cells = cells(self.report);
        let most = if self.is_wide() { 1 } else { 2 };
        let fitting = self.display.row(&cells, most);
        fitting
            .or_else(|| self.display.row(&cells, 2))
            .or_else(|| self.display.row(&cells, usize::MAX))
            .unwrap_or_default()
    }

    fn population(&self) -> Vec<Line> {
        let [text, note] = population(self.report);
        let text = if self.is_wide() { text + &note } else { text };
        self.display.wrapped("  ", &text, Tone::Quiet)
    }

    /// Thresholds that did not pass, and the first other finding above `info` with its remedy.
    fn findings(&self, room: Room) -> Vec<Line> {
        let all = &self.report.findings;
        let mut lines = Vec::new();
        let mut left = all.iter().filter(|one| !is_limit(one)).count();
        let is_short = room >= Room::ShortTitle;
        let broken = all.iter().filter(|one| one.is_threshold());
        for one in broken.take(MOST_THRESHOLDS) {
            left -= 1;
            let text = threshold(one);
            let text = if is_short { brief(&text) } else { text };
            lines.extend(self.said(one.severity().into(), &text));
        }
        let Some(first) = self.first() else {
            return lines;
        };
        left -= 1 + usize::from(self.deciding().is_some());
        let more = match left {
            0 => String::new(),
            left => format!(" ({} more)", grouped(left as u64)),
        };
        let title = if is_short {
            first.headline()
        } else {
            first.text()
        };
        let severity = first.severity().into();
        match first.remedy().filter(|_| room < Room::NoRemedy) {
            None => lines.extend(self.said(severity, &(title + &more))),
            Some(remedy) => {
                lines.extend(self.said(severity, &title));
                let last = visible(&remedy).into_owned() + &more;
                lines.extend(self.display.wrapped("  → ", &last, Tone::Plain));
            }
        }
        lines
    }

    /// The first finding above `info` that is about no threshold.
    fn first(&self) -> Option<&Finding> {
        self.report
            .findings
            .iter()
            .find(|one| is_told(one) && !one.is_threshold())
    }

    /// The finding that decides the verdict, if that is another one: the line of the validity says
    /// it.
    fn deciding(&self) -> Option<&Finding> {
        let verdict = self.report.validity.verdict;
        let first = self.first().filter(|one| one.effect() != Some(verdict));
        first.and_then(|_| self.report.findings_of(&[verdict]).next())
    }

    fn said(&self, severity: Severity, text: &str) -> Vec<Line> {
        let mark = format!("{} ", severity.symbol());
        let text = visible(text).replace('\n', " ");
        self.display.wrapped(&mark, &text, Tone::Status(severity))
    }

    /// The verdict and the checks; on a wide terminal what limited a valid run, too.
    fn validity(&self) -> Vec<Line> {
        let report = self.report;
        let verdict = report.validity.verdict;
        let checks = counted(report.validity.checked.len() as u64, "check");
        let word = lead::word(verdict);
        let reason = self.deciding().map(Finding::headline);
        let meaning = match reason.as_deref().unwrap_or(verdict.brief()) {
            "" => format!("{word}: {checks} found no problem"),
            reason => format!("{word}: {reason} ({checks})"),
        };
        let judged = match report.passed() {
            Some(passed) => format!("{meaning}, {passed}."),
            None => format!("{meaning}."),
        };
        // What a run was limited by is believed only if the run is.
        let is_believed = matches!(verdict, Verdict::Valid | Verdict::Errors);
        let limited = limit(report)
            .filter(|_| is_believed)
            .map(|limit| format!("{judged} Limited by {limit}."));
        let text = limited
            .filter(|text| self.is_wide() && text.chars().count() + 2 <= self.display.columns)
            .unwrap_or(judged);
        self.said(verdict.into(), &text)
    }
}

/// A threshold that failed: `service_p99 < 250ms: 904 ms`; other findings as they are.
fn threshold(finding: &Finding) -> String {
    let Finding::ThresholdFailed {
        expression,
        unit,
        value,
        is_lower_bound,
        ..
    } = finding
    else {
        return finding.text();
    };
    let at_least = if *is_lower_bound { ">= " } else { "" };
    let value = value.map_or_else(
        || "nothing measured".to_owned(),
        |value| format!("{at_least}{}", in_unit(unit, value)),
    );
    format!("{expression}: {value}")
}

/// True if the line of the validity says it.
const fn is_limit(finding: &Finding) -> bool {
    matches!(finding, Finding::LimitedBy { .. })
}

/// The first words of a text that is too long.
fn brief(text: &str) -> String {
    let parts = wrapped(text, SHORT);
    match parts.len() {
        1 => text.to_owned(),
        _ => format!("{} \u{2026}", parts[0]),
    }
}

/// The limit that held for longest, if that is worth a word: `--rate, as asked`.
fn limit(report: &Report) -> Option<String> {
    report.findings.iter().find_map(|finding| match finding {
        Finding::LimitedBy { limit, share } => Some(match limit {
            Limit::Rate | Limit::Recording => format!("{}, as asked", limit.name()),
            _ => format!("{} {} of the time", limit.name(), rounded_percent(*share)),
        }),
        _ => None,
    })
}

/// The figures from left to right.
fn cells(report: &Report) -> Vec<Cell> {
    let measured = report.measured();
    let requests = &measured.requests;
    let mut cells = vec![good(report)];
    if let Some(times) = times(report) {
        for (name, key, us) in times.figures() {
            let shown = times.shown(key, us).unwrap_or_else(|| "-".to_owned());
            let cell = Cell::new(format!("{name} {shown}"));
            match name {
                // Of fewer than a thousand responses, the percentile that is known.
                "p90" if times.p99_us.is_none() && us.is_some() => cells.push(cell),
                "p99" if us.is_some() || times.p90_us.is_none() => cells.push(cell),
                "p50" | "max" if us.is_some() => cells.push(cell.leaving()),
                _ => {}
            }
        }
    }
    let [failed, throttled] = [measured.errors(), requests.throttled]
        .map(|count| count as f64 / requests.attempts.max(1) as f64);
    let tone = if failed >= FAILED {
        Tone::FAILURE
    } else {
        Tone::Strong
    };
    cells.push(Cell::new(format!("{} failed", rounded_percent(failed))).toned(tone));
    if requests.throttled > 0 {
        let share = rounded_percent(throttled);
        cells.push(Cell::new(format!("{share} throttled")).toned(Tone::WARNING));
    }
    if let Some((_, share)) = report.never_sent() {
        let share = rounded_percent(share);
        cells.push(Cell::new(format!("{share} never sent")).toned(Tone::WARNING));
    }
    cells
}

/// The rate of good items, beside the one that was asked for if that was missed.
fn good(report: &Report) -> Cell {
    let rate = report.good_rate();
    let mut missed = report.findings.iter().filter_map(|finding| match finding {
        Finding::RateMissed { asked_per_s, .. } => Some(*asked_per_s),
        _ => None,
    });
    match missed.next() {
        Some(asked) => {
            Cell::new(format!("{rate} good of {}/s", decimal(asked))).toned(Tone::WARNING)
        }
        None => Cell::new(format!("{rate} good")),
    }
}

/// How many were good, in what time, of what was asked; and what the times are of.
fn population(report: &Report) -> [String; 2] {
    let plan = &report.plan.run;
    let measured = report.measured();
    let (requests, items) = (&measured.requests, &measured.items);
    // The time of a merged report is that of all sessions.
    let before = report
        .finished_before
        .filter(|_| report.merged.is_none())
        .unwrap_or(0);
    let (good, all, what) = if is_endless(plan) {
        let all = requests.attempts.saturating_sub(requests.redirects);
        (items.ok + requests.steps, all, "request")
    } else {
        let [good, all] = [report.got.ok, report.got.of].map(|items| items.saturating_sub(before));
        (good, all, "item")
    };
    let warmup_s = plan.warmup.as_secs_f64();
    // Requests are counted from the end of the warm-up on, items from the beginning.
    let (time_s, warmup) = match warmup_s {
        0.0 => (report.measured_s(), String::new()),
        _ if is_endless(plan) => (
            report.measured_s(),
            format!(" after {} of warm-up", seconds(warmup_s)),
        ),
        _ => (
            report.totals.duration_s,
            format!(", {} of it warm-up", seconds(warmup_s)),
        ),
    };
    let time = seconds(time_s);
    let is_all = good == all;
    let number = if is_all {
        format!("{} in {time}", counted(all, what))
    } else {
        format!(
            "{} of {} in {time} were good",
            grouped(good),
            counted(all, what)
        )
    };
    let saved = match before {
        0 => String::new(),
        before => format!(", {} saved before", grouped(before)),
    };
    let parts = report.merged.as_ref().map_or_else(String::new, |merged| {
        let found = merged.parts.saturating_sub(merged.missing_parts);
        format!(", from {found} of {}", counted(merged.parts.into(), "part"))
    });
    let text = format!("{number}{warmup}{saved}{}{parts}", asked(report, is_all));
    let text = match opening(report) {
        Some(opening) => format!("{text}; time to connect: {opening}"),
        None => text,
    };
    let note = match (times(report).is_some(), report.schedule.is_some(), is_all) {
        (false, ..) => "",
        (_, true, true) => "; times count from when each was due",
        (_, true, false) => "; times of good responses, from when each was due",
        (_, false, _) => "; closed loop: service times",
    };
    [text, note.to_owned()]
}

/// The ages of the requests that were dropped; nothing without any.
fn drop_ages(report: &Report) -> String {
    let ages = report.latency(Series::DropAge);
    let ends = ages.and_then(|ages| ages.min_us.zip(ages.max_us));
    ends.map_or_else(String::new, |(least, most)| {
        let ages = match most {
            0.0 => " at once".to_owned(),
            _ => format!(" {} to {} late", micros(least), micros(most)),
        };
        format!(", the rest dropped{ages}")
    })
}

/// What was asked for, and how much of it was sent.
fn asked(report: &Report, is_all_good: bool) -> String {
    let plan = &report.plan.run;
    let Some(rate) = plan.shaped_rate() else {
        let connections = counted(plan.connections.into(), "connection");
        return match (is_all_good, plan.throttling.adaptive.is_some()) {
            (false, _) => String::new(),
            (_, true) => ", as fast as --adaptive allowed".to_owned(),
            (_, false) => format!(", as fast as {connections} went"),
        };
    };
    if plan.arrivals == Arrivals::Replay {
        return ", at the times of the recording".to_owned();
    }
    let rate = rate_in_words(&rate.in_short());
    let sent = report.rate_ratio.unwrap_or(1.0);
    match (sent >= ALL_SENT, is_all_good) {
        (true, true) => format!(", all of the {rate} asked"),
        (true, false) => format!(", {rate} asked and sent"),
        (false, _) => format!(
            ", {} of the {rate} asked was sent{}",
            rounded_percent(sent),
            drop_ages(report)
        ),
    }
}

#[cfg(test)]
mod tests;
