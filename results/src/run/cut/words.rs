//! A part of a run in words.

use std::fmt::Write;

use super::{CutReport, CutSeconds};
use crate::run::report::{Latency, Limit};
use crate::run::words::tables::figures;
use crate::run::words::{limited_by, spectrum as percentiles};
use crate::show::doc::Doc;
use crate::show::text::{decimal, grouped, micros, seconds};

/// Series in the order of reading, with their names.
const SERIES: [(&str, &str); 6] = [
    ("response", "response"),
    ("response_throttled", "- throttled"),
    ("response_error", "- failed"),
    ("service", "service"),
    ("service_throttled", "- throttled"),
    ("service_error", "- failed"),
];

/// A part of a run as a document.
#[must_use]
pub fn doc(cut: &CutReport) -> Doc {
    let name = if cut.source.name.is_empty() {
        "crawl"
    } else {
        &cut.source.name
    };
    let times = SERIES.iter().filter_map(|(series, name)| {
        let latency = cut.latency.get(*series)?;
        (latency.count + latency.censored > 0).then(|| (*name, spectrum(latency)))
    });
    let verdict = cut.source.verdict.name();
    let limits = cut
        .counted
        .as_ref()
        .map(|it| Limit::sorted(&it.binding, Limit::Rate));
    let first = [
        (
            "cut of",
            format!("{}, {}", cut.source.target, cut.source.started_at),
        ),
        ("part", part(cut)),
        ("responses", responses(cut)),
    ];
    let last = limits.map(|limits| ("limited by", limited_by(limits)));
    let last = last
        .into_iter()
        .chain([("validity", format!("of the whole run: {verdict}"))]);
    Doc::new(format!("{name}, {}", range(&cut.part)))
        .facts(first.into_iter().chain(times).chain(last))
        .table(figures("Counts and rates", &cut.counted))
        .list("", cut.notes.clone())
        .in_files()
        .text(format!(
            "A part of the run of {}, crawlmark {}",
            cut.source.started_at, cut.crawlmark_version
        ))
}

/// Return the seconds and the shards of the cut.
fn part(cut: &CutReport) -> String {
    let CutSeconds {
        run_duration_s,
        chosen,
        steady,
        ..
    } = &cut.part;
    let mut part = match (&**chosen, steady) {
        (_, Some(steady)) => steady.sentence.clone(),
        ("whole", _) => format!("the whole run after its warm-up: {}", range(&cut.part)),
        _ => format!("{} of {}", range(&cut.part), seconds(*run_duration_s)),
    };
    let shards = cut.shards.len();
    if shards < cut.source.shards as usize {
        let _ = write!(
            part,
            "\nshard{} {} of {}",
            if shards == 1 { "" } else { "s" },
            ranges(&cut.shards),
            cut.source.shards
        );
    }
    part
}

/// From the first second to the last, of which the run may not have the whole.
fn range(part: &CutSeconds) -> String {
    let CutSeconds {
        from_s,
        to_s,
        run_duration_s,
        ..
    } = *part;
    let end = if run_duration_s < to_s as f64 {
        seconds(run_duration_s)
    } else {
        format!("{to_s} s")
    };
    format!("{from_s} s to {end}")
}

/// `0 to 3, 5`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let shown = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, second] => Some(format!("{first}, {second}")),
        [first, .., last] => Some(format!("{first} to {last}")),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn responses(cut: &CutReport) -> String {
    let kinds = [
        ("ok", "good"),
        ("throttled", "throttled"),
        ("error", "failed"),
    ];
    let shown = kinds.map(|(key, word)| {
        let answered = cut.answers.get(key);
        let rate = answered.filter(|it| it.count > 0);
        let rate = rate.map(|it| format!(" ({}/s)", decimal(it.per_s)));
        let count = grouped(answered.map_or(0, |it| it.count));
        format!("{count} {word}{}", rate.unwrap_or_default())
    });
    format!("of requests due in this part: {}", shown.join(", "))
}

fn spectrum(latency: &Latency) -> String {
    let mut row = percentiles(latency);
    if let (Some(min), Some(mean)) = (latency.min_us, latency.mean_us) {
        row = format!("min {}  mean {}  {row}", micros(min), micros(mean));
    }
    if latency.censored > 0 {
        let _ = write!(
            row,
            "\n{} unfinished requests count as the time they had waited (figures marked >= are lower bounds)",
            grouped(latency.censored)
        );
    }
    row.trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_in_a_row_are_named_by_their_ends() {
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 8, 9]), "0 to 3, 5, 8, 9");
        assert_eq!(ranges(&[]), "");
    }
}
