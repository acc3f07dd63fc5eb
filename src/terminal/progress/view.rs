//! One picture of a run for a terminal of a given size: five lines at most, whatever the number of
//! shards.
//!
//! | line | holds |
//! |---|---|
//! | bar | how far it is, of what, and what was asked of whom |
//! | figures | those of the last second |
//! | course | good rate and p99, a character a second |
//! | limits | requests in flight, the limit, CPU, send delay |
//! | news | the gravest fact so far |

use std::time::Duration;

use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::stats::{Percentile, Series};
use crawlmark_harness::supervisor::LivePause;
use crawlmark_harness::units::{place, rounded_percent};
use crawlmark_results::run::report::{IntervalRow, Limit};
use crawlmark_results::show::line::{Cell, Display, Line, Tone};
use crawlmark_results::show::text::{decimal, grouped, micros};

use super::gauge::{COURSE, Now};
use super::news;
use super::text::{left, nanos, percentile};
use crate::terminal::glyphs::sparkline;

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) rows: usize,
    pub(super) display: Display,
}

/// Columns from which on a line has room for what is not needed to read it; and for more than the
/// figures.
const WIDE: usize = 100;
const NARROW: usize = 60;

/// Columns of the bar at most, and at least.
const BAR: [usize; 2] = [8, 48];

/// Columns of a sparkline at most, beside the other one.
const SPARK: usize = 30;

/// Part of the requests that failed from which on that is marked.
const FAILED: f64 = 0.01;

/// Time without an answer from which on that is marked.
const SILENT: Duration = Duration::from_secs(2);

/// The lines of the picture: fewer than the terminal has, for the cursor stands below them, and
/// shorter ones, for a character in the last column leaves the cursor where terminals do not agree.
pub(super) fn view(now: &Now<'_>, seconds: &[IntervalRow], screen: Screen) -> Vec<Line> {
    let display = Display {
        columns: screen.display.columns.saturating_sub(1),
        ..screen.display
    };
    let view = View {
        now,
        seconds,
        display,
    };
    // The most important first.
    let (mut kept, room) = (Vec::new(), screen.rows.saturating_sub(1));
    for (place, line) in [
        (1, Some(view.figures())),
        (0, Some(view.bar())),
        (4, view.news()),
        (2, view.course()),
        (3, view.limits()),
    ] {
        kept.extend(line.map(|line| (place, line)));
    }
    kept.truncate(room);
    kept.sort_by_key(|(place, _)| *place);
    kept.into_iter()
        .map(|(_, line)| line.cut(display.columns))
        .collect()
}

struct View<'a> {
    now: &'a Now<'a>,
    seconds: &'a [IntervalRow],
    display: Display,
}

impl View<'_> {
    const fn columns(&self) -> usize {
        self.display.columns
    }

    /// A line of pieces with their emphasis, in the characters of the terminal.
    fn line(&self, pieces: &[(&str, Tone)]) -> Line {
        pieces.iter().fold(Line::default(), |line, (text, tone)| {
            line.and(self.display.shown(text), *tone)
        })
    }

    fn bar(&self) -> Line {
        let now = self.now;
        let far = self.far();
        let right = match self.columns() {
            WIDE.. => format!("{} \u{2192} {}", now.asked.loop_and_rate, now.asked.host),
            NARROW.. => format!("{} \u{2192} {}", now.asked.rate, now.asked.host),
            _ => now.asked.rate.clone(),
        };
        let gap = if self.columns() < NARROW { 1 } else { 2 };
        let [far_width, right_width] = [&far, &right].map(|text| self.display.width(text));
        let used = 2 + far_width + right_width + 2 * gap + 1;
        let inside = self.columns().saturating_sub(used).min(BAR[1]);
        let space = " ".repeat(gap);
        let start = format!("  {far}{space}");
        if now.has_no_end() || inside < BAR[0] {
            return self.line(&[(&start, Tone::Plain), (&right, Tone::Plain)]);
        }
        let done = now.done(now.counters.items.ended(), now.planned);
        let [full, rest] = bar(done, inside, self.display);
        let end = format!("{space} {right}");
        self.line(&[
            (&start, Tone::Plain),
            (&full, Tone::Bars),
            (&rest, Tone::Quiet),
            (&end, Tone::Plain),
        ])
    }

    /// How far the run is: by time, or by items.
    fn far(&self) -> String {
        let now = self.now;
        let elapsed = now.live.elapsed.as_secs();
        let is_narrow = self.columns() < NARROW;
        match (now.limit, now.has_no_end()) {
            (Some(limit), _) if is_narrow => format!("{elapsed} of {} s", limit.as_secs()),
            (Some(limit), _) => format!("{elapsed} s of {} s", limit.as_secs()),
            (None, true) => format!("{elapsed} s, Ctrl-C ends the run"),
            (None, false) => {
                let done = grouped(now.counters.items.ended());
                format!("{done} of {}", grouped(now.planned))
            }
        }
    }

    fn figures(&self) -> Line {
        let now = self.now;
        let silent = now.silent;
        if now.lately.attempts == 0 {
            let tone = if silent >= SILENT && now.live.pause.is_none() {
                Tone::FAILURE
            } else {
                Tone::Strong
            };
            return self.line(&[("  nothing in the last second", tone)]);
        }
        let cells = self.cells();
        let row = self.display.row(&cells, 1);
        // What does not fit even then is cut at its end.
        let rows = row.or_else(|| self.display.row(&cells, usize::MAX));
        let mut line = rows.into_iter().flatten().next().unwrap_or_default();
        let of = "in the last second";
        let room = self.columns().saturating_sub(line.width());
        if self.columns() >= WIDE && room > of.len() {
            line = line.and(format!("{of:>room$}"), Tone::Quiet);
        }
        line
    }

    fn cells(&self) -> Vec<Cell> {
        let now = self.now;
        let good = decimal(now.good_per_s);
        let word = if self.columns() < NARROW { "" } else { " good" };
        let mut cells = vec![Cell::new(format!("{good}/s{word}"))];
        if let Some(recent) = now.live.recent {
            // A second has seldom the thousand responses that a p99 takes.
            let high = match recent.p99 {
                Percentile::TooFew => format!("p90 {}", percentile(recent.p90)),
                p99 => format!("p99 {}", percentile(p99)),
            };
            cells.extend([
                Cell::new(format!("p50 {}", percentile(recent.p50))).leaving(),
                Cell::new(high),
                Cell::new(format!("max {}", nanos(recent.max_ns))).leaving(),
            ]);
        }
        let [failed, throttled] = [now.lately.errors, now.lately.throttled]
            .map(|count| count as f64 / now.lately.attempts as f64);
        let tone = if failed >= FAILED {
            Tone::FAILURE
        } else {
            Tone::Strong
        };
        let text = format!("{} failed", rounded_percent(failed));
        let cell = Cell::new(text).toned(tone);
        // Beside what was throttled, a narrow terminal need not say that nothing failed.
        let is_beside = failed == 0.0 && throttled > 0.0;
        cells.push(if is_beside { cell.leaving() } else { cell });
        if throttled > 0.0 {
            let text = format!("{} throttled", rounded_percent(throttled));
            cells.push(Cell::new(text).toned(Tone::WARNING));
        }
        cells
    }

    /// Good rate and p99 of the last seconds, and their peaks.
    fn course(&self) -> Option<Line> {
        let (now, columns) = (self.now, self.columns());
        if now.course.is_empty() {
            return None;
        }
        if columns < NARROW {
            let (rate, _) = sparkline(now.course, columns.saturating_sub(7));
            return Some(self.line(&[("  rate ", Tone::Plain), (&rate, Tone::Bars)]));
        }
        let width = (columns.saturating_sub(18) / 2).min(SPARK);
        let (rate, most) = sparkline(now.course, width);
        let p99 = self.history(|row, is_open| {
            if is_open {
                row.response_p99_us
            } else {
                row.p99_us
            }
        });
        let (name, values) = if p99.iter().any(|us| *us > 0.0) {
            ("   p99 ", p99)
        } else {
            ("   max ", self.history(|row, _| row.max_us))
        };
        let (times, slowest) = sparkline(&values, width);
        let mut pieces = vec![
            ("  rate ".to_owned(), Tone::Plain),
            (format!("{rate:<width$}"), Tone::Bars),
        ];
        if slowest > 0.0 {
            pieces.push((name.to_owned(), Tone::Plain));
            pieces.push((format!("{times:<width$}"), Tone::Bars));
        }
        let used: usize = pieces.iter().map(|(text, _)| text.chars().count()).sum();
        let slowest = if slowest > 0.0 {
            format!(", {}", micros(slowest))
        } else {
            String::new()
        };
        let seconds = now.course.len().min(width);
        let peak = format!("   {seconds} s, to {}/s{slowest}", decimal(most));
        if used + peak.chars().count() <= columns {
            pieces.push((peak, Tone::Quiet));
        }
        let pieces: Vec<(&str, Tone)> =
            pieces.iter().map(|(text, tone)| (&**text, *tone)).collect();
        Some(self.line(&pieces))
    }

    /// A time of each of the last seconds, of an open loop or not; 0 of one that is not complete, or
    /// has none.
    fn history(&self, of: fn(&IntervalRow, bool) -> Option<f64>) -> Vec<f64> {
        let is_open = Series::waited(self.now.arrivals) == Series::ResponseOk;
        let end_s = self.now.live.elapsed.as_secs();
        let first_s = end_s.saturating_sub(COURSE as u64);
        let mut values: Vec<f64> = (first_s..end_s).map(|_| 0.0).collect();
        // Seconds may be complete out of their order, by no more than the timeout of a request.
        for row in self.seconds.iter().rev().take(2 * COURSE) {
            let place = row
                .start_s
                .checked_sub(first_s)
                .and_then(|place| values.get_mut(usize::try_from(place).ok()?));
            if let Some(place) = place {
                *place = of(row, is_open).unwrap_or(0.0);
            }
        }
        values
    }

    /// What limits the run now; none on a narrow terminal.
    fn limits(&self) -> Option<Line> {
        let now = self.now;
        if self.columns() < NARROW {
            return None;
        }
        if let Some(pause) = now.live.pause {
            let text = format!("  {}", paused(pause));
            return Some(self.line(&[(&text, Tone::WARNING)]));
        }
        let mut parts = vec![format!(
            "{} of {} in flight",
            grouped(now.in_flight().into()),
            grouped(now.asked.in_flight.into())
        )];
        if let Some(controller) = now.live.controller {
            let pace = match controller.pace_per_s {
                Some(per_s) => format!(" at {}/s", decimal(per_s)),
                None => String::new(),
            };
            let limit = grouped(controller.limit.into());
            parts.push(format!("adaptive: {limit} in flight{pace}"));
        } else {
            parts.extend(limit(now).map(|limit| format!("limited by {}", limit.name())));
        }
        parts.extend(self.cpu());
        let lag = now.live.shards.iter().filter_map(|shard| shard.lag).max();
        let is_on_time = now.arrivals.gaps().is_some() && news::late(now).is_none();
        if let Some(lag) = lag.filter(|_| is_on_time) {
            parts.push(format!(
                "sent on time (at most {} late)",
                nanos(duration_ns(lag))
            ));
        }
        let text = |parts: &[String]| format!("  {}", parts.join(" \u{b7} "));
        while parts.len() > 1 && text(&parts).chars().count() > self.columns() {
            parts.pop();
        }
        Some(self.line(&[(&text(&parts), Tone::Quiet)]))
    }

    /// CPU of the client and of the target in the last second, of one CPU each.
    fn cpu(&self) -> Option<String> {
        let client = self.seconds.last().map(|row| row.cpu_us as f64 / 1e6)?;
        let target = self
            .now
            .target
            .and_then(|target| target.cpus)
            .map(|cpus| format!(", target {}", rounded_percent(cpus)))
            .unwrap_or_default();
        Some(format!("CPU: client {}{target}", rounded_percent(client)))
    }

    fn news(&self) -> Option<Line> {
        let news = news::all(self.now).into_iter().next()?;
        let (mark, tone) = if news.is_failure {
            ('\u{2715}', Tone::FAILURE)
        } else {
            ('!', Tone::WARNING)
        };
        let text = format!("{mark} {}", news.text());
        let lines = self.display.wrapped("", &text, tone);
        if lines.len() < 2 {
            return lines.into_iter().next();
        }
        let more = self.display.shown(" \u{2026}");
        let display = Display {
            columns: self.columns().saturating_sub(more.chars().count()),
            ..self.display
        };
        let first = display.wrapped("", &text, tone).into_iter().next()?;
        Some(first.and(more, tone))
    }
}

/// The limit that held for longest in the last second; none if nothing did.
fn limit(now: &Now<'_>) -> Option<Limit> {
    let times = now.lately.binding;
    // Without a throttled response, it has found no limit of the target.
    let parts = [
        (times.rate_ns, Limit::Rate),
        (times.concurrency_ns, Limit::Connections),
        (times.pause_ns, Limit::Pause),
        (times.target_ns, Limit::Quota),
        (times.storage_ns, Limit::Storage),
    ];
    parts
        .into_iter()
        .max_by_key(|(ns, _)| *ns)
        .filter(|(ns, _)| *ns > 0)
        .map(|(_, limit)| limit)
}

/// A throttle pause in words.
fn paused(pause: LivePause) -> String {
    let left = left(pause.left);
    if pause.hosts >= pause.of {
        format!("paused by 429, {left} left")
    } else {
        format!(
            "paused by 429 on {} of {} hosts, the next for {left}",
            pause.hosts, pause.of
        )
    }
}

/// A bar of so many columns: what is done, and what is not.
pub(super) fn bar(done: f64, inside: usize, display: Display) -> [String; 2] {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let done = done.clamp(0.0, 1.0);
    if !display.has_unicode {
        let inside = inside.saturating_sub(2);
        let full = place(done * inside as f64);
        let head = if full < inside { ">" } else { "" };
        let rest = inside - full - head.len();
        return [
            format!("[{}{head}", "=".repeat(full)),
            format!("{}]", " ".repeat(rest)),
        ];
    }
    let eighths = place(done * inside as f64 * 8.0);
    let full = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    let rest = inside - full.chars().count();
    [full, "\u{b7}".repeat(rest)]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use crawlmark_harness::sample::ErrorKind;
    use crawlmark_harness::target_usage::TargetNow;
    use proptest::prelude::*;

    use super::super::gauge::Gauge;
    use super::super::tests::{any_run, live, open, plan, rows, shard};
    use super::*;

    /// The screen of an open loop 12 s after its start, in which nothing is answered from `dead_ms`
    /// on for a second and then some requests fail.
    fn screen(dead_ms: u64, display: Display) -> String {
        let mut gauge = Gauge::new(&open(2));
        let at = |ms: u64| {
            let answered = if ms < dead_ms {
                ms
            } else {
                ms.max(dead_ms + 1_000) - 1_000
            };
            let mut shards: Vec<_> = (0..2).map(|_| shard(ms, answered / 2)).collect();
            let requests = &mut shards[0].progress.counters.requests;
            let failed = ms.saturating_sub(dead_ms + 1_000) / 10;
            requests.errors_by_kind = [(ErrorKind::Reset, failed)].into();
            live(ms, shards)
        };
        for ms in (0..12_000).step_by(250) {
            drop(gauge.read(&at(ms)));
        }
        let last = at(12_000);
        let target = Some(TargetNow {
            cpus: Some(1.417),
            ..TargetNow::default()
        });
        let now = Now {
            target,
            ..gauge.read(&last)
        };
        let screen = Screen { rows: 24, display };
        view(&now, &rows(12, dead_ms / 1_000), screen)
            .iter()
            .map(|line| line.text().trim_end().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn the_view_reads_as_it_did() {
        let mut out = String::new();
        for (name, dead_ms) in [("healthy", 100_000), ("failing", 9_000)] {
            for (columns, has_unicode) in [(120, true), (80, true), (44, true), (80, false)] {
                let display = Display {
                    columns,
                    has_unicode,
                };
                let kind = if has_unicode { "" } else { ", ASCII" };
                let drawn = screen(dead_ms, display);
                let _ = writeln!(out, "# {name}, {columns}{kind}\n{drawn}");
            }
        }
        insta::with_settings!(
            { snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true },
            { insta::assert_snapshot!("views", out) }
        );
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_picture_higher_than_five(
            [before, then] in any_run(), rows in 0..60_usize, columns in 0..240_usize, is_open: bool, has_unicode: bool,
        ) {
            let shards = u32::try_from(then.shards.len()).unwrap();
            let mut gauge = Gauge::new(&if is_open { open(shards) } else { plan(shards) });
            let complete = super::super::tests::rows(then.elapsed.as_secs(), 20);
            let display = Display { columns, has_unicode };
            for live in [&before, &then] {
                let lines = view(&gauge.read(live), &complete, Screen { rows, display });
                prop_assert!(lines.len() <= rows.saturating_sub(1).min(5), "{} lines", lines.len());
                for line in &lines {
                    prop_assert!(line.width() <= columns.saturating_sub(1), "{}", line.text());
                    prop_assert!(has_unicode || line.text().is_ascii(), "{}", line.text());
                    prop_assert!(columns < 24 || !line.text().trim().is_empty(), "{lines:?}");
                }
            }
        }

        #[test]
        fn a_bar_is_as_long_whatever_is_done(done in -1.0..2.0_f64, inside in 8..60_usize, has_unicode: bool) {
            let display = Display { columns: 80, has_unicode };
            let [full, rest] = bar(done, inside, display);
            prop_assert_eq!((full + &rest).chars().count(), inside);
        }
    }
}
