//! View of all parts of a crawl on several machines: drawn in place on a terminal, a line now and
//! then elsewhere, or printed once.

use std::time::Duration;

use crawlmark_harness::units::percent;
use crawlmark_results::run::parts::{HighestTime, PartRow, PartState, PartsOverview, UnreadParts};
use crawlmark_results::show::text::{grouped, micros};

use super::canvas::Canvas;
use super::frame::Size;
use super::table::bar;
use super::text::{Line, NAME, Part, Tone, row_of};
use super::words::{elapsed, per_second, to_go};
use crate::terminal::glyphs::{Glyphs, sparkline};
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
                let (size, glyphs) = (canvas.size(), canvas.glyphs());
                canvas.draw(&frame(all, rates, (size, glyphs)), size);
            }
        }
    }
}

/// Return the text of a snapshot for a page of so many columns.
pub(crate) fn snapshot(all: &PartsOverview, columns: usize) -> String {
    let size = Size {
        rows: MOST_ROWS,
        columns: columns.saturating_add(1),
    };
    let text = |line: Line| {
        line.pieces()
            .map(|(text, _)| text)
            .collect::<String>()
            .trim_end()
            .to_owned()
            + "\n"
    };
    frame(all, &[], (size, Glyphs::Ascii))
        .into_iter()
        .map(text)
        .collect()
}

/// A line of a log.
fn line(all: &PartsOverview) -> String {
    let parts = counts(all).into_iter().map(|part| part.text);
    let uncounted = uncounted(all).map_or_else(String::new, |text| format!(" ({text})"));
    let items = format!(
        "{} of {} items{uncounted}",
        grouped(all.items),
        grouped(all.items_planned)
    );
    let rest = [
        items,
        rate(all),
        left(all).unwrap_or_else(|| "- to go".to_owned()),
    ];
    let unread = unread(all).map(|[failure, path]| format!("unread: {failure} ({path})"));
    parts
        .chain(rest)
        .chain(unread)
        .collect::<Vec<_>>()
        .join("  ")
        + "\n"
}

/// The picture: fewer lines than the terminal has, and shorter ones (see [`super::frame`]).
fn frame(all: &PartsOverview, rates: &[f64], (size, glyphs): (Size, Glyphs)) -> Vec<Line> {
    let columns = size.columns.saturating_sub(1);
    let mut lines = summary(all, rates, (columns, glyphs));
    let room = size.rows.saturating_sub(1);
    // Titles and one row at least.
    if !all.rows.is_empty() && room >= lines.len() + 2 {
        lines.push(titles(columns));
        let left = room - lines.len();
        let fit = if all.rows.len() > left {
            left - 1
        } else {
            left
        };
        lines.extend(all.rows.iter().take(fit).map(|part| row(part, columns)));
        let more = all.rows.len().saturating_sub(fit);
        if more > 0 {
            let running = all.rows[fit..]
                .iter()
                .filter(|part| part.state == PartState::Running)
                .count() as u64;
            let text = format!(
                "{} more, {} of them running",
                grouped(more as u64),
                grouped(running)
            );
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
fn summary(all: &PartsOverview, rates: &[f64], (columns, glyphs): (usize, Glyphs)) -> Vec<Line> {
    let inside = if columns < NARROW { BAR / 2 } else { BAR };
    let share = |done: f64, of: f64| bar(if of > 0.0 { done / of } else { 0.0 }, inside);
    let mut parts = vec![Part::new(
        9,
        share(all.parts.done.into(), all.parts.planned.into()),
    )];
    parts.extend(counts(all));
    let items = grouped(all.items);
    let mut crawled = vec![
        Part::new(9, share(all.items as f64, all.items_planned as f64)),
        Part::new(0, format!("{items} of {}", grouped(all.items_planned))),
    ];
    crawled.extend(all.items_per_s.map(|rate| Part::new(2, per_second(rate))));
    crawled.extend(left(all).map(|text| Part::new(1, text)));
    crawled.extend(uncounted(all).map(|text| Part::toned(3, text, Tone::Quiet)));
    if all.items_failed > 0 {
        let text = format!("{} failed", grouped(all.items_failed));
        crawled.push(Part::toned(1, text, Tone::Failure));
    }
    let (course, _) = sparkline(rates, COURSE, glyphs);
    let mut pace = vec![Part::new(0, rate(all))];
    pace.extend(
        Some(course)
            .filter(|course| !course.is_empty())
            .map(|course| Part::new(1, course)),
    );
    let mut slots = vec![Part::new(
        0,
        format!(
            "{} of {} in use",
            grouped(all.slots_in_use.into()),
            grouped(all.slots.into())
        ),
    )];
    if all.additional_attempts > 0 {
        let text = match all.additional_attempts {
            1 => "1 attempt beside those that count".to_owned(),
            more => format!("{} attempts beside those that count", grouped(more.into())),
        };
        slots.push(Part::toned(1, text, Tone::Warning));
    }
    let time = |name: &str, rank, highest: Option<HighestTime>| {
        let text =
            highest.map(|HighestTime { part, us }| format!("{name} {} (part {part})", micros(us)));
        text.map(|text| Part::new(rank, text))
    };
    let mut times: Vec<Part> = time("highest p50", 1, all.highest_p50)
        .into_iter()
        .chain(time("highest p99", 0, all.highest_p99))
        .collect();
    if times.is_empty() {
        times.push(Part::toned(0, "-".to_owned(), Tone::Quiet));
    }
    let lines = [
        ("parts", parts),
        ("items", crawled),
        ("rate", pace),
        ("slots", slots),
        ("service", times),
    ];
    let failing = unread(all).map(|[failure, path]| {
        let part = |rank, text| Part {
            rank,
            text,
            tone: Tone::Failure,
        };
        ("unread", vec![part(0, failure), part(1, path)])
    });
    lines
        .into_iter()
        .chain(failing)
        .map(|(name, parts)| row_of(name, parts, columns))
        .collect()
}

/// Say how many items of the rows are not in the total, because their parts are crawled again; none
/// if all are.
fn uncounted(all: &PartsOverview) -> Option<String> {
    let is_uncounted =
        |row: &&PartRow| matches!(row.state, PartState::Lost | PartState::Unfinished);
    let of = |row: &PartRow| row.finished_before.saturating_add(row.status.items);
    let items = all
        .rows
        .iter()
        .filter(is_uncounted)
        .map(of)
        .fold(0, u64::saturating_add);
    (items > 0).then(|| format!("{} not counted: lost or unfinished", grouped(items)))
}

/// Say how many parts cannot be read and why, and name one; none if all can.
fn unread(all: &PartsOverview) -> Option<[String; 2]> {
    let UnreadParts {
        parts,
        path,
        error,
        for_s,
        is_damaged: _,
    } = all.unread.as_ref()?;
    let parts = if *parts == 1 {
        "1 part".to_owned()
    } else {
        format!("{} parts", grouped((*parts).into()))
    };
    let time = elapsed(Duration::from_secs_f64(*for_s));
    Some([
        format!("{parts} for {time}: {error}"),
        path.display().to_string(),
    ])
}

/// The numbers of parts: of each state that some have.
fn counts(all: &PartsOverview) -> Vec<Part> {
    let counts = &all.parts;
    let done = format!(
        "{} of {} done",
        grouped(counts.done.into()),
        grouped(counts.planned.into())
    );
    let states = [
        (counts.lost, PartState::Lost, Tone::Failure, 1),
        (counts.unfinished, PartState::Unfinished, Tone::Warning, 2),
        (counts.running, PartState::Running, Tone::Plain, 3),
        (counts.starting, PartState::Starting, Tone::Plain, 4),
        (counts.waiting, PartState::Waiting, Tone::Plain, 5),
        (counts.not_begun, PartState::NotBegun, Tone::Quiet, 6),
    ];
    let some =
        states
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, state, tone, rank)| Part {
                rank,
                text: format!("{} {}", grouped(count.into()), state.name()),
                tone,
            });
    std::iter::once(Part::new(0, done)).chain(some).collect()
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

/// Widths of the cells of a row: state, items, rate, median, 99th percentile, slot. The attempt has
/// what is left.
const WIDTHS: [usize; 6] = [12, 13, 10, 9, 9, 5];

/// Ranks of the cells: the highest go first when there is no room.
const RANKS: [u8; 7] = [0, 2, 1, 5, 3, 4, 6];

fn cells(name: &str, texts: [String; 7], tone: Tone, columns: usize) -> Line {
    let mut parts = Vec::new();
    for (i, text) in texts.into_iter().enumerate() {
        let text = match WIDTHS.get(i) {
            Some(width) if i == 0 => format!("{text:<width$}"),
            Some(width) => format!("{text:>width$}"),
            None => text,
        };
        parts.push(Part {
            rank: RANKS[i],
            text,
            tone,
        });
    }
    row_of(&format!("{name:<0$}", NAME - 1), parts, columns)
}

fn titles(columns: usize) -> Line {
    let titles = ["state", "items", "rate", "p50", "p99", "slot", "attempt"].map(str::to_owned);
    cells("part", titles, Tone::Quiet, columns)
}

/// The row of a part.
fn row(part: &PartRow, columns: usize) -> Line {
    let PartRow {
        part: number,
        state,
        attempt,
        silent_s,
        finished_before,
        status,
    } = part;
    let silent = elapsed(Duration::from_secs_f64(*silent_s));
    let (text, tone) = match state {
        PartState::Lost => (format!("lost {silent}"), Tone::Failure),
        PartState::Unfinished => ("unfinished".to_owned(), Tone::Warning),
        PartState::Running if *silent_s >= OLD_S => (format!("silent {silent}"), Tone::Warning),
        PartState::Running
        | PartState::Starting
        | PartState::Waiting
        | PartState::NotBegun
        | PartState::Done => (state.name().to_owned(), Tone::Plain),
    };
    let running = |text: String| {
        if *state == PartState::Running {
            text
        } else {
            String::new()
        }
    };
    let time = |us: Option<f64>| running(us.map_or_else(|| "-".to_owned(), micros));
    let slot = status
        .slot
        .map_or_else(String::new, |slot| slot.to_string());
    let rate = running(per_second(status.requests_per_s as f64));
    let items = grouped(finished_before.saturating_add(status.items));
    let texts = [
        text,
        items,
        rate,
        time(status.p50_us),
        time(status.p99_us),
        slot,
        attempt.clone(),
    ];
    cells(&number.to_string(), texts, tone, columns)
}

#[cfg(test)]
mod tests {
    use crawlmark_results::run::parts::{AttemptState, AttemptStatus, PartCounts};
    use proptest::prelude::*;

    use super::super::text::tests::plain;
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
        let count = |wanted| {
            states
                .iter()
                .filter(|(state, _)| *state == wanted)
                .map(|(_, count)| count)
                .sum()
        };
        let parts = PartCounts {
            planned: 64,
            done: count(PartState::Done),
            running: count(PartState::Running),
            starting: count(PartState::Starting),
            waiting: count(PartState::Waiting),
            lost: count(PartState::Lost),
            unfinished: count(PartState::Unfinished),
            not_begun: count(PartState::NotBegun),
        };
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
        let lines = frame(all, &rates, (Size { rows, columns }, Glyphs::Blocks));
        lines
            .iter()
            .map(|line| plain(line).trim_end().to_owned() + "\n")
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
            let lines = frame(&all, &[1.0; 40], (Size { rows, columns }, Glyphs::Blocks));
            prop_assert!(lines.len() <= rows.saturating_sub(1));
            for line in &lines {
                prop_assert!(line.width() <= columns.saturating_sub(1), "{}", plain(line));
            }
        }
    }
}
