//! View of all parts of a crawl on several machines: drawn in place on a terminal, a line now and
//! then elsewhere, or printed once.

use std::time::Duration;

use crawlmark_harness::units::percent;
use crawlmark_results::run::parts::{HighestTime, PartRow, PartState, PartsOverview};
use crawlmark_results::show::text::{counted, grouped, micros};

use super::canvas::Canvas;
use super::frame::Screen;
use super::rows::bar;
use super::text::{Line, NAME, Part, Tone, elapsed, per_second, row_of, to_go};
use crate::terminal::glyphs::sparkline;
use crate::terminal::print::say;

/// Inside of the bars, in columns.
const BAR: usize = 20;

/// A terminal with less than this has shorter bars.
const NARROW: usize = 90;

/// Columns of the course of the rate, and seconds that it shows.
const COURSE: usize = 40;

/// Age from which figures are said to be old.
const OLD_S: f64 = 3.0;

/// Interval between two lines where there is no terminal to draw on.
const EVERY: Duration = Duration::from_secs(10);

/// Most rows of parts in a snapshot.
const MOST_ROWS: usize = 50;

/// Display of all parts.
#[derive(Debug)]
pub(crate) enum PartsProgress {
    /// A line now and then.
    Lines {
        /// Time of the next one.
        next: Duration,
        /// True if parts could not be read at the last one.
        is_failing: bool,
    },
    /// A view that is drawn in place.
    View(PartsView),
}

/// A view of all parts on a terminal.
#[derive(Debug)]
pub(crate) struct PartsView {
    canvas: Canvas,
    /// Total rate, look by look.
    rates: Vec<f64>,
}

impl PartsProgress {
    /// A view when standard error is a terminal that one can draw on, else lines.
    pub(crate) fn fitting() -> Self {
        match Canvas::fitting() {
            Some(canvas) => Self::View(PartsView {
                canvas,
                rates: Vec::new(),
            }),
            None => Self::Lines {
                next: Duration::ZERO,
                is_failing: false,
            },
        }
    }

    /// Show the state of all parts. `now` counts from the start of the watch.
    pub(crate) fn show(&mut self, all: &PartsOverview, now: Duration) {
        match self {
            Self::Lines { next, is_failing } => {
                let was_failing = std::mem::replace(is_failing, all.unread.is_some());
                if now >= *next || was_failing != *is_failing || all.parts.done == all.parts.planned
                {
                    *next = now + EVERY;
                    say(&line(all));
                }
            }
            Self::View(PartsView { canvas, rates }) => {
                rates.push(all.requests_per_s as f64);
                rates.drain(..rates.len().saturating_sub(COURSE));
                let screen = canvas.screen();
                canvas.draw(&frame(all, rates, screen), screen);
            }
        }
    }
}

/// Return the text of a snapshot for a page of so many columns.
pub(crate) fn snapshot(all: &PartsOverview, columns: usize) -> String {
    let screen = Screen {
        rows: MOST_ROWS,
        columns: columns.saturating_add(1),
    };
    let lines = frame(all, &[], screen);
    lines
        .iter()
        .map(|line| line.text().trim_end().to_owned() + "\n")
        .collect()
}

/// A line of a log.
fn line(all: &PartsOverview) -> String {
    let mut words: Vec<String> = counts(all).into_iter().map(|part| part.text).collect();
    let uncounted = uncounted(all).map_or_else(String::new, |text| format!(" ({text})"));
    words.push(format!(
        "{} of {} items{uncounted}",
        grouped(all.items),
        grouped(all.items_planned)
    ));
    words.push(rate(all));
    words.push(left(all).unwrap_or_else(|| "- to go".to_owned()));
    words.extend(unread(all).map(|[failure, path]| format!("unread: {failure} ({path})")));
    words.join("  ") + "\n"
}

/// The picture: fewer lines than the terminal has, and shorter ones (see [`super::frame()`]).
fn frame(all: &PartsOverview, rates: &[f64], screen: Screen) -> Vec<Line> {
    let columns = screen.columns.saturating_sub(1);
    let mut lines = summary(all, rates, screen);
    let room = screen.rows.saturating_sub(1);
    // Titles and one row at least.
    if !all.rows.is_empty() && room >= lines.len() + 2 {
        let titles = CELLS.map(|(title, ..)| title.to_owned());
        lines.push(cells("part", titles, Tone::Quiet, columns));
        let left = room - lines.len();
        let fit = if all.rows.len() > left {
            left - 1
        } else {
            left
        };
        lines.extend(all.rows.iter().take(fit).map(|part| row(part, columns)));
        if let Some(rest @ [_, ..]) = all.rows.get(fit..) {
            let running = rest
                .iter()
                .filter(|part| part.state == PartState::Running)
                .count();
            let [more, running] = [rest.len(), running].map(|count| grouped(count as u64));
            let text = format!("{more} more, {running} of them running");
            lines.push(row_of(
                "and",
                vec![Part::toned(0, text, Tone::Quiet)],
                columns,
            ));
        }
    }
    lines.truncate(room);
    lines
}

/// The lines above the rows of parts.
fn summary(all: &PartsOverview, rates: &[f64], screen: Screen) -> Vec<Line> {
    let columns = screen.columns.saturating_sub(1);
    let inside = if columns < NARROW { BAR / 2 } else { BAR };
    let [done, planned] = [all.parts.done, all.parts.planned].map(f64::from);
    let mut parts = vec![Part::new(9, bar(done / planned.max(1.0), inside))];
    parts.extend(counts(all));
    let ended = all.items as f64 / all.items_planned.max(1) as f64;
    let mut crawled = vec![
        Part::new(9, bar(ended, inside)),
        Part::new(
            0,
            format!("{} of {}", grouped(all.items), grouped(all.items_planned)),
        ),
    ];
    crawled.extend(all.items_per_s.map(|rate| Part::new(2, per_second(rate))));
    crawled.extend(left(all).map(|text| Part::new(1, text)));
    crawled.extend(uncounted(all).map(|text| Part::toned(3, text, Tone::Quiet)));
    if all.items_failed > 0 {
        crawled.push(Part::toned(
            1,
            format!("{} failed", grouped(all.items_failed)),
            Tone::Failure,
        ));
    }
    let mut pace = vec![Part::new(0, rate(all))];
    if !rates.is_empty() {
        pace.push(Part::new(1, sparkline(rates, COURSE).0));
    }
    let [used, all_slots] = [all.slots_in_use, all.slots].map(|count| grouped(count.into()));
    let mut slots = vec![Part::new(0, format!("{used} of {all_slots} in use"))];
    if all.additional_attempts > 0 {
        let text = format!(
            "{} beside those that count",
            counted(all.additional_attempts.into(), "attempt")
        );
        slots.push(Part::toned(1, text, Tone::Warning));
    }
    let highest = [
        ("highest p50", 1, all.highest_p50),
        ("highest p99", 0, all.highest_p99),
    ];
    let mut times: Vec<Part> = highest
        .into_iter()
        .filter_map(|(name, rank, highest)| {
            let HighestTime { part, us } = highest?;
            Some(Part::new(
                rank,
                format!("{name} {} (part {part})", micros(us)),
            ))
        })
        .collect();
    if times.is_empty() {
        times.push(Part::toned(0, "-", Tone::Quiet));
    }
    let mut lines = vec![
        ("parts", parts),
        ("items", crawled),
        ("rate", pace),
        ("slots", slots),
        ("service", times),
    ];
    if let Some([failure, path]) = unread(all) {
        let parts =
            [(0, failure), (1, path)].map(|(rank, text)| Part::toned(rank, text, Tone::Failure));
        lines.push(("unread", parts.into()));
    }
    lines
        .into_iter()
        .map(|(name, parts)| row_of(name, parts, columns))
        .collect()
}

/// Say how many items of the rows are not in the total, because their parts are crawled again; none
/// if all are.
fn uncounted(all: &PartsOverview) -> Option<String> {
    let rows = all.rows.iter();
    let items = rows
        .filter(|row| matches!(row.state, PartState::Lost | PartState::Unfinished))
        .map(|row| row.finished_before.saturating_add(row.status.items))
        .fold(0, u64::saturating_add);
    (items > 0).then(|| format!("{} not counted: lost or unfinished", grouped(items)))
}

/// Say how many parts cannot be read and why, and name one; none if all can.
fn unread(all: &PartsOverview) -> Option<[String; 2]> {
    let unread = all.unread.as_ref()?;
    let time = elapsed(Duration::from_secs_f64(unread.for_s));
    let failure = format!(
        "{} for {time}: {}",
        counted(unread.parts.into(), "part"),
        unread.error
    );
    Some([failure, unread.path.display().to_string()])
}

/// The numbers of parts: of each state that some have.
fn counts(all: &PartsOverview) -> Vec<Part> {
    let mut counts = all.parts;
    let [done, planned] = [counts.done, counts.planned].map(|count| grouped(count.into()));
    let mut parts = vec![Part::new(0, format!("{done} of {planned} done"))];
    let states = [
        (PartState::Lost, Tone::Failure),
        (PartState::Unfinished, Tone::Warning),
        (PartState::Running, Tone::Plain),
        (PartState::Starting, Tone::Plain),
        (PartState::Waiting, Tone::Plain),
        (PartState::NotBegun, Tone::Quiet),
    ];
    for (rank, (state, tone)) in (1..).zip(states) {
        let count = u64::from(*counts.of(state));
        if count > 0 {
            let text = format!("{} {}", grouped(count), state.name());
            parts.push(Part::toned(rank, text, tone));
        }
    }
    parts
}

/// The total rate, beside what the plan allows.
fn rate(all: &PartsOverview) -> String {
    let rate = all.requests_per_s as f64;
    match all.budget_per_s.filter(|budget| *budget > 0.0) {
        Some(budget) => format!(
            "{} of {} ({})",
            per_second(rate),
            per_second(budget),
            percent(rate / budget)
        ),
        None => per_second(rate),
    }
}

/// The time that is left at the present rate; none while no rate is known, and at the end.
fn left(all: &PartsOverview) -> Option<String> {
    /// Ten years: beyond that, a number says nothing.
    const LONGEST_S: f64 = 3.2e8;
    let items = all.items_planned.saturating_sub(all.items) as f64;
    let rate = all.items_per_s.filter(|rate| *rate > 0.0 && items > 0.0)?;
    let seconds = (items / rate).min(LONGEST_S);
    Some(format!("{} to go", to_go(Duration::from_secs_f64(seconds))))
}

/// Cells of a row behind the part's number: title, width and rank. The highest ranks go first when
/// there is no room, and the last cell has what is left.
const CELLS: [(&str, usize, u8); 7] = [
    ("state", 12, 0),
    ("items", 13, 2),
    ("rate", 10, 1),
    ("p50", 9, 5),
    ("p99", 9, 3),
    ("slot", 5, 4),
    ("attempt", 0, 6),
];

fn cells(name: &str, texts: [String; 7], tone: Tone, columns: usize) -> Line {
    let cells = CELLS.into_iter().zip(texts);
    let parts = cells.map(|((title, width, rank), text)| {
        let text = match title {
            "state" => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        };
        Part::toned(rank, text, tone)
    });
    row_of(&format!("{name:<0$}", NAME - 1), parts.collect(), columns)
}

/// The row of a part.
fn row(part: &PartRow, columns: usize) -> Line {
    let PartRow {
        state,
        silent_s,
        status,
        ..
    } = part;
    let silent = elapsed(Duration::from_secs_f64(*silent_s));
    let (text, tone) = match state {
        PartState::Lost => (format!("lost {silent}"), Tone::Failure),
        PartState::Unfinished => (state.name().to_owned(), Tone::Warning),
        PartState::Running if *silent_s >= OLD_S => (format!("silent {silent}"), Tone::Warning),
        _ => (state.name().to_owned(), Tone::Plain),
    };
    let now = [
        Some(per_second(status.requests_per_s as f64)),
        status.p50_us.map(micros),
        status.p99_us.map(micros),
    ];
    let [rate, p50, p99] = now.map(|text| match state {
        PartState::Running => text.unwrap_or_else(|| "-".to_owned()),
        _ => String::new(),
    });
    let items = grouped(part.finished_before.saturating_add(status.items));
    let slot = status
        .slot
        .map_or_else(String::new, |slot| slot.to_string());
    let texts = [text, items, rate, p50, p99, slot, part.attempt.clone()];
    cells(&part.part.to_string(), texts, tone, columns)
}

#[cfg(test)]
mod tests {
    use crawlmark_results::run::parts::{AttemptState, AttemptStatus, PartCounts, UnreadParts};
    use proptest::prelude::*;

    use super::*;

    fn part(part: u32, state: PartState) -> PartRow {
        let requests_per_s = 400 + u64::from(part);
        let slot = (state == PartState::Running).then_some(part % 8);
        let p99_us = (!part.is_multiple_of(3)).then_some(8_100.0 * f64::from(part));
        let status = AttemptStatus {
            state: AttemptState::Running,
            slot,
            planned: 62_500,
            items: 1_000 * u64::from(part),
            requests_per_s,
            p50_us: Some(1_250.0),
            p99_us,
            ..AttemptStatus::default()
        };
        let silent_s = if state == PartState::Lost { 214.0 } else { 0.4 };
        PartRow {
            part,
            state,
            attempt: format!("node{part:02}-4711-1795533153785"),
            silent_s,
            finished_before: 250,
            status,
        }
    }

    /// A crawl of 64 parts, eight at a time.
    fn all(states: &[(PartState, u32)]) -> PartsOverview {
        let mut parts = PartCounts {
            planned: 64,
            ..PartCounts::default()
        };
        for (state, count) in states {
            *parts.of(*state) = *count;
        }
        let mut numbers = 20..;
        let rows: Vec<PartRow> = states
            .iter()
            .filter(|(state, _)| !matches!(state, PartState::Done | PartState::NotBegun))
            .flat_map(|(state, count)| {
                numbers
                    .by_ref()
                    .take(*count as usize)
                    .map(|n| part(n, *state))
                    .collect::<Vec<_>>()
            })
            .collect();
        let rate = rows
            .iter()
            .filter(|row| row.state == PartState::Running)
            .map(|row| row.status.requests_per_s)
            .sum();
        PartsOverview {
            run_id: "2026-01-31T12:00:00Z-1".to_owned(),
            parts,
            items_planned: 4_000_000,
            items: 1_312_000,
            items_failed: 0,
            items_per_s: Some(rate as f64),
            requests_per_s: rate,
            budget_per_s: Some(4_000.0),
            slots: 8,
            slots_in_use: parts.running,
            additional_attempts: 0,
            highest_p50: Some(HighestTime {
                part: 21,
                us: 1_250.0,
            }),
            highest_p99: Some(HighestTime {
                part: 26,
                us: 210_600.0,
            }),
            unread: None,
            rows,
        }
    }

    fn healthy() -> PartsOverview {
        all(&[
            (PartState::Running, 8),
            (PartState::Done, 20),
            (PartState::NotBegun, 36),
        ])
    }

    fn failing() -> PartsOverview {
        let states = [
            (PartState::Lost, 2),
            (PartState::Unfinished, 1),
            (PartState::Running, 5),
            (PartState::Waiting, 2),
            (PartState::Done, 20),
            (PartState::NotBegun, 34),
        ];
        let (path, error) = (
            "/shared/crawl/part-00041".into(),
            "Input/output error (os error 5)".to_owned(),
        );
        let unread = Some(UnreadParts {
            parts: 3,
            path,
            error,
            for_s: 12.0,
            is_damaged: false,
        });
        PartsOverview {
            items_failed: 1_204,
            additional_attempts: 1,
            unread,
            ..all(&states)
        }
    }

    fn screen(all: &PartsOverview, (rows, columns): (usize, usize)) -> String {
        let rates: Vec<f64> = (0..30_i32).map(|s| f64::from(s.min(20)) * 160.0).collect();
        let lines = frame(all, &rates, Screen { rows, columns });
        lines
            .iter()
            .map(|line| line.text().trim_end().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn screens_show_parts_that_go_well_and_parts_that_do_not() {
        for (name, all) in [("healthy", healthy()), ("failing", failing())] {
            for (columns, rows) in [(140, 24), (60, 14)] {
                insta::with_settings!(
                    { snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true },
                    { insta::assert_snapshot!(format!("parts-{name}-{columns}x{rows}"), screen(&all, (rows, columns))) }
                );
            }
        }
    }

    #[test]
    fn at_the_end_nothing_is_left() {
        let over = PartsOverview {
            items: 4_000_000,
            items_per_s: None,
            ..all(&[(PartState::Done, 64)])
        };
        assert_eq!(left(&over), None);
        let slow = PartsOverview {
            items_per_s: Some(1e-300),
            ..healthy()
        };
        assert!(left(&slow).unwrap().ends_with("to go"));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_picture_higher(
            rows in 0..40_usize, columns in 0..200_usize, is_healthy in any::<bool>(),
        ) {
            let all = if is_healthy { healthy() } else { failing() };
            let lines = frame(&all, &[1.0; 40], Screen { rows, columns });
            prop_assert!(lines.len() <= rows.saturating_sub(1));
            for line in &lines {
                prop_assert!(line.width() <= columns.saturating_sub(1), "{}", line.text());
            }
        }
    }
}
