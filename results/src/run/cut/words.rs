//! A part of a run in words.

use std::fmt::Write;

use super::{Answered, Counted, CutReport, CutSeconds};
use crate::run::report::{Latency, Limit};
use crate::run::words::{limited_by, spectrum as percentiles};
use crate::show::doc::Doc;
use crate::show::text::{decimal, grouped, micros, seconds};

/// A part of a run as a document.
#[must_use]
pub fn doc(cut: &CutReport) -> Doc {
    let name = if cut.source.name.is_empty() {
        "crawl"
    } else {
        &cut.source.name
    };
    Doc::new(format!("{name}, {}", range(&cut.part)))
        .facts(rows(cut))
        .in_files()
        .text(format!(
            "A part of the run of {}, crawlmark {}",
            cut.source.started_at, cut.crawlmark_version
        ))
}

fn rows(cut: &CutReport) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "cut of",
            format!("{}, {}", cut.source.target, cut.source.started_at),
        ),
        ("part", part(cut)),
        ("responses", responses(cut)),
    ];
    if let Some(counted) = &cut.counted {
        rows.push((
            "rate",
            format!(
                "{} items/s, {} requests/s over {}",
                decimal(counted.items_per_s),
                decimal(counted.attempts_per_s),
                seconds(cut.part.duration_s)
            ),
        ));
    }
    for (series, name) in [
        ("response", "response"),
        ("response_throttled", "- throttled"),
        ("response_error", "- failed"),
        ("service", "service"),
        ("service_throttled", "- throttled"),
        ("service_error", "- failed"),
    ] {
        let latency = cut
            .latency
            .get(series)
            .filter(|latency| latency.count + latency.censored > 0);
        rows.extend(latency.map(|latency| (name, spectrum(latency))));
    }
    if let Some(counted) = &cut.counted {
        rows.push(("counts", counts(counted)));
        rows.push(("limited by", limited_by(Limit::of_any(&counted.binding))));
        rows.push(("client", client(counted)));
    }
    rows.push((
        "validity",
        format!("of the whole run: {}", cut.source.verdict.name()),
    ));
    if !cut.notes.is_empty() {
        rows.push((
            "note",
            cut.notes
                .iter()
                .map(|note| format!("- {note}"))
                .collect::<Vec<_>>()
                .join("\n"),
        ));
    }
    rows
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
    let shown = [
        ("ok", "good"),
        ("throttled", "throttled"),
        ("error", "failed"),
    ]
    .map(|(key, word)| {
        let Answered { count, per_s } = cut.answers.get(key).copied().unwrap_or(Answered {
            count: 0,
            per_s: 0.0,
        });
        let rate = if count > 0 {
            format!(" ({}/s)", decimal(per_s))
        } else {
            String::new()
        };
        format!("{} {word}{rate}", grouped(count))
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

/// Counts of what ended in these seconds, without those that are 0.
fn counts(counted: &Counted) -> String {
    let known = counted.counts.iter().filter(|(_, n)| *n > 0);
    let known =
        known.map(|(counter, n)| format!("{} {}", grouped(n), counter.name.replace('_', " ")));
    known.collect::<Vec<_>>().join(", ")
}

fn client(counted: &Counted) -> String {
    let cpu = counted.cpu_us_per_attempt.map_or_else(String::new, |us| {
        format!("{} of CPU per request, ", micros(us))
    });
    format!(
        "{cpu}send delay up to {}, up to {} in flight at the end of a second",
        micros(counted.max_sched_lag_us),
        grouped(u64::from(counted.most_in_flight))
    )
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
