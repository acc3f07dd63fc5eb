//! The ladder in words: as a document, and in a line for each rung while it goes on.

use super::{FILE, Ladder, LimitedBy, Published, RungReadings, RungReport, SCHEMA};
use crate::run::report::Verdict;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{decimal, micros};
use crate::studies::StudyResult;
use crawlmark_harness::units::grouped;

/// Return the published rate with its unit: `5.83/s`, `1,000-2,000/s`.
#[must_use]
pub fn published(published: Published) -> String {
    let Published {
        low_per_s,
        high_per_s,
    } = published;
    if low_per_s < high_per_s {
        format!("{}-{}/s", decimal(low_per_s), decimal(high_per_s))
    } else {
        format!("{}/s", decimal(high_per_s))
    }
}

/// Describe the height of the climb in a sentence.
#[must_use]
pub fn ladder_headline(ladder: &Ladder) -> String {
    let Some((first, top)) = ladder.rungs.first().zip(ladder.top()) else {
        return "No rung was climbed.".to_owned();
    };
    let there = |rung: &RungReport| published(rung.published);
    let here = |rung: &RungReport| format!("{}/s", decimal(rung.reading.ok_per_s));
    if first.rung == top.rung {
        return format!(
            "Rung {}: measured {}, published {}.",
            first.rung,
            here(first),
            there(first)
        );
    }
    let times = |low: f64, high: f64| {
        if low > 0.0 {
            format!(" ({}x)", rounded(high / low))
        } else {
            String::new()
        }
    };
    let highest = ladder
        .rungs
        .iter()
        .map(|rung| rung.published.high_per_s)
        .fold(0.0, f64::max);
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

/// Describe the result of a rung in a line.
#[must_use]
pub fn ladder_standing(reading: &RungReadings, limited_by: LimitedBy, there: Published) -> String {
    let times = decimal(reading.ok_per_s / there.middle_per_s());
    format!(
        "{}/s, {times}x the published rate; limited by {}",
        decimal(reading.ok_per_s),
        limited_by.name()
    )
}

impl StudyResult for Ladder {
    const SCHEMA: &'static str = SCHEMA;

    const FILE: &'static str = FILE;

    fn plots(&self) -> Vec<Plot> {
        vec![plot::climb(self)]
    }

    fn doc(&self) -> Doc {
        let partial = if self.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        let doubted = doubted(self);
        let is_clear = doubted.is_none() && !self.interrupted;
        let severity = if is_clear {
            Severity::Neutral
        } else {
            Severity::Warning
        };
        let stopped = if self.interrupted {
            "Stopped before the last rung. "
        } else {
            ""
        };
        let notes = [
            search(self).map(|search| ("search", search)),
            doubted.map(|doubted| ("note", doubted)),
        ];
        let command =
            |rung: &RungReport| format!("crawlmark run {}  # {}", typed(&rung.flags), rung.rung);
        let machine = self
            .environment
            .cpu_model
            .as_deref()
            .unwrap_or("an unknown CPU");
        Doc::new(format!("{}{partial}", self.name))
            .headline(severity, &format!("{stopped}{}", ladder_headline(self)))
            .table(table(&self.rungs))
            .facts(notes.into_iter().flatten())
            .list("Different from the published crawl:", self.notes.clone())
            .in_files()
            .plot("plots/climb.svg", "Published and measured rates")
            .commands("Flags of crawlmark run for each rung:", self.rungs.iter().map(command).collect())
            .text(format!(
                "Machine: {machine}, {} cores, shared by client and target; \"CPU, cores\" counts both. crawlmark {}, {}.",
                self.environment.cores, self.crawlmark_version, self.started_at
            ))
    }
}

fn table(rungs: &[RungReport]) -> Table {
    let columns = vec![
        Column::sentences("rung"),
        Column::numbers("published"),
        Column::numbers("measured"),
        Column::numbers("speed-up"),
        Column::numbers("opened"),
        Column::numbers("CPU, cores"),
        Column::numbers("client CPU"),
        Column::numbers("p50"),
        Column::details("published limit"),
        Column::sentences("limited by"),
    ];
    let row = |rung: &RungReport| {
        let name = [format!("{}. {}", rung.rung, rung.name)];
        let limits = [
            rung.published_limit.clone(),
            format!("{}: {}", rung.limit.by.name(), rung.limit.why),
        ];
        name.into_iter()
            .chain(figures(rung))
            .chain(limits)
            .collect()
    };
    Table {
        columns,
        rows: rungs.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The figures of a rung, in the order of the columns.
fn figures(rung: &RungReport) -> [String; 7] {
    let RungReadings {
        ok_per_s,
        connections_opened,
        cpu,
        service_p50_us,
        ..
    } = &rung.reading;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        published(rung.published),
        format!("{}/s", decimal(*ok_per_s)),
        or_dash(
            rung.times_before
                .map(|times| format!("x {}", rounded(times))),
        ),
        grouped(*connections_opened),
        or_dash(
            cpu.used_cores()
                .map(|used| format!("{used:.2} of {}", cpu.cores)),
        ),
        or_dash(cpu.client_us_per_attempt.map(micros)),
        or_dash(service_p50_us.map(micros)),
    ]
}

/// A ratio in three digits: more of them would say more than two short runs know.
fn rounded(times: f64) -> String {
    let digit = 10f64.powf(times.max(0.01).log10().floor() - 2.0);
    decimal((times / digit).round() * digit)
}

/// The rungs whose runs were met by something that a measurement should not see.
fn doubted(ladder: &Ladder) -> Option<String> {
    let is_doubted =
        |rung: &&RungReport| matches!(rung.validity, Verdict::Disturbed | Verdict::TargetLimited);
    let doubted: Vec<String> = ladder
        .rungs
        .iter()
        .filter(is_doubted)
        .map(|rung| format!("rung {} was {}", rung.rung, rung.validity.name()))
        .collect();
    (!doubted.is_empty()).then(|| {
        format!(
            "{}: the reasons are in the results of their rounds",
            doubted.join(", ")
        )
    })
}

/// Describe the probes of the search.
fn search(ladder: &Ladder) -> Option<String> {
    let tried = ladder.search.iter().map(|probe| {
        format!(
            "{} with {} connections",
            decimal(probe.ok_per_s) + "/s",
            grouped(u64::from(probe.connections))
        )
    });
    let tried: Vec<String> = tried.collect();
    (!tried.is_empty()).then(|| format!("for the highest rate: {}", tried.join(", ")))
}

/// Flags as a shell takes them.
fn typed(flags: &[String]) -> String {
    // A word with a NUL is none that anybody can have typed.
    shlex::try_join(flags.iter().map(String::as_str)).unwrap_or_else(|_| flags.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_three_digits() {
        for (times, told) in [
            (45.76, "45.8"),
            (0.853_2, "0.853"),
            (2.6, "2.60"),
            (26.44, "26.4"),
            (263.7, "264"),
            (2_637.0, "2,640"),
        ] {
            assert_eq!(rounded(times), told);
        }
    }

    #[test]
    fn flags_are_told_as_a_shell_takes_them() {
        let flags = ["-H", "authorization: ...", "-c", "2"].map(str::to_owned);
        assert_eq!(typed(&flags), "-H 'authorization: ...' -c 2");
    }
}
