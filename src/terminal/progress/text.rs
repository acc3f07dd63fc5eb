//! Lines of the live view as data: pieces of text and what they mean; number formats, and the words
//! on stops, pauses and failures. The painter chooses the colours.
//!
//! Every character that the view uses is one column wide, so that a length in characters is a
//! width.

use std::time::Duration;

use crawlmark_harness::stats::{FailureCause, Failures, Percentile};
use crawlmark_harness::supervisor::{Live, LivePause, Stopping};
use crawlmark_results::run::words::explained;
use crawlmark_results::show::text::{decimal, grouped, micros};

/// Meaning of a piece of text. The words say so as well: a terminal need not have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As the terminal writes.
    Plain,
    /// Less important than the rest.
    Quiet,
    /// The target is not at ease.
    Warning,
    /// Something failed.
    Failure,
}

/// A line that fits its terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(String, Tone)>);

impl Line {
    /// A line of one piece.
    pub(super) fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self::default().and(text, tone)
    }

    /// With another piece at its end, which joins the last one if both mean the same.
    pub(super) fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        match self.0.last_mut() {
            Some((last, as_before)) if *as_before == tone => last.push_str(&text.into()),
            _ => self.0.push((text.into(), tone)),
        }
        self
    }

    /// Columns that it takes.
    #[cfg(test)]
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    /// The first `columns` of it.
    pub(super) fn cut(mut self, columns: usize) -> Self {
        let mut left = columns;
        for (text, _) in &mut self.0 {
            if let Some((end, _)) = text.char_indices().nth(left) {
                text.truncate(end);
            }
            left -= text.chars().count();
        }
        self
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        self.pieces().map(|(text, _)| text).collect()
    }

    /// Its pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&str, Tone)> {
        self.0.iter().map(|(text, tone)| (text.as_str(), *tone))
    }
}

/// A part of a line that may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The highest go first when there is no room.
    pub(super) rank: u8,
    /// Text of the part.
    pub(super) text: String,
    /// Meaning of the text.
    pub(super) tone: Tone,
}

impl Part {
    /// An ordinary part.
    pub(super) fn new(rank: u8, text: impl Into<String>) -> Self {
        Self::toned(rank, text, Tone::Plain)
    }

    /// A part with a meaning.
    pub(super) fn toned(rank: u8, text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { rank, text, tone }
    }

    /// Columns that it takes, with the gap before or behind it.
    fn width(&self) -> usize {
        self.text.chars().count() + GAP
    }
}

/// Columns of the names that rows begin with.
pub(super) const NAME: usize = 9;

/// Columns between two parts of a row.
const GAP: usize = 2;

/// A row of as many of the parts as fit, in their order, under a name.
pub(super) fn row_of(name: &str, mut parts: Vec<Part>, columns: usize) -> Line {
    let mut width = NAME + parts.iter().map(Part::width).sum::<usize>();
    while parts.len() > 1 && width.saturating_sub(GAP) > columns {
        let least = (0..parts.len()).max_by_key(|i| parts[*i].rank);
        width -= parts.remove(least.unwrap_or_default()).width();
    }
    let mut line = Line::default().and(format!("{name:<NAME$}"), Tone::Plain);
    for (i, part) in parts.into_iter().enumerate() {
        let gap = if i == 0 { 0 } else { GAP };
        line = line
            .and(" ".repeat(gap), Tone::Plain)
            .and(part.text, part.tone);
    }
    line.cut(columns)
}

/// A rate.
pub(super) fn per_second(rate: f64) -> String {
    if rate == 0.0 {
        "0/s".to_owned()
    } else {
        format!("{}/s", decimal(rate))
    }
}

/// A percentile, as far as it is known.
pub(super) fn percentile(percentile: Percentile) -> String {
    match percentile {
        Percentile::TooFew => "-".to_owned(),
        Percentile::Exact(ns) => nanos(ns),
        Percentile::AtLeast(ns) => format!(">={}", nanos(ns)),
    }
}

/// A time in the unit that suits it.
pub(super) fn nanos(ns: u64) -> String {
    if ns == 0 {
        "0".to_owned()
    } else {
        micros(ns as f64 / 1e3)
    }
}

/// A time that is left, in whole seconds: one that has begun is still to go.
pub(super) fn to_go(time: Duration) -> String {
    elapsed(Duration::from_secs(
        time.as_secs() + u64::from(time.subsec_nanos() > 0),
    ))
}

/// A time that has passed, in whole seconds.
pub(super) fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..100 => format!("{s}s"),
        s @ 100..6_000 => format!("{}m{:02}s", s / 60, s % 60),
        s => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
    }
}

/// Describe the effect of another Ctrl-C on a stop that waits for these open requests.
pub(super) fn stop_words(stopping: Stopping, open: u32) -> String {
    let again = if stopping == Stopping::BySignal {
        " again"
    } else {
        ""
    };
    match (stopping, open) {
        (Stopping::AtOnce, _) => {
            "press Ctrl-C again to kill the shards, which loses what they have not reported"
                .to_owned()
        }
        (_, 0) => "no request is open".to_owned(),
        (_, 1) => format!("press Ctrl-C{again} to cut off 1 open request"),
        _ => format!(
            "press Ctrl-C{again} to cut off {} open requests",
            grouped(open.into())
        ),
    }
}

/// Describe a pause: the time left, or the number of paused hosts.
pub(super) fn pause_words(pause: LivePause) -> String {
    let left = to_go(pause.left);
    if pause.hosts >= pause.of {
        format!("for {left} more")
    } else {
        format!("on {} of {} hosts", pause.hosts, pause.of)
    }
}

/// Describe the first failure of a cause and its remedy; none where nothing is known.
pub(super) fn failure_words(live: &Live, cause: FailureCause) -> Option<String> {
    let mut known = Failures::default();
    live.shards
        .iter()
        .for_each(|shard| known.merge(&shard.failures));
    let first = known.get(cause);
    let details = first.and_then(|first| first.details.as_deref());
    let words = explained(
        cause,
        details,
        first.and_then(|first| first.excerpt.as_deref()),
    );
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn what_matters_least_goes_first() {
        let parts = || {
            vec![
                Part::new(1, "p50 1 ms"),
                Part::new(2, "p90 2 ms"),
                Part::new(0, "p99 3 ms"),
            ]
        };
        let at = |columns| row_of("service", parts(), columns).text();
        assert_eq!(at(37), "service  p50 1 ms  p90 2 ms  p99 3 ms");
        assert_eq!(at(36), "service  p50 1 ms  p99 3 ms");
        assert_eq!(at(26), "service  p99 3 ms");
        assert_eq!(at(12), "service  p99");
    }

    #[test]
    fn time_to_go_is_rounded_up() {
        let shown = [0, 1, 1_000, 1_001, 8_999, 99_001].map(|ms| to_go(Duration::from_millis(ms)));
        assert_eq!(shown, ["0s", "1s", "1s", "2s", "9s", "1m40s"]);
    }
}
