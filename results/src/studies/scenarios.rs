//! The ladder: crawls, each a run of its own, that climb from 6 requests per second to more than
//! 10,000, one change at a time, beside published rates.
//!
//! The list is data ([`SCENARIOS`]). What is shown of a scenario is read from its run's report, and
//! its limit is computed from these readings ([`Limit::of`]), never from its number.
//!
//! | module | holds |
//! |---|---|
//! | `lists` | the scenarios, with the published figures |
//! | `readings`, `limit` | readings of a run, and its limit |
//! | `chart` | the chart |

mod chart;
mod limit;
mod lists;
mod readings;

use serde::{Deserialize, Serialize};

pub use self::limit::Limit;
use self::lists::NOTES;
pub use self::lists::{FLAGS, Published, SCENARIOS, Scenario};
pub use self::readings::{CpuUse, ScenarioReadings};
use crate::run::report::{Environment, Report, Verdict};
use crate::show::chart::Chart;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::text::{capital, decimal, grouped_f64, micros};
use crate::studies::{Header, Notice, StudyResult, or_dash, shell_line};
use crawlmark_harness::units::percent;

/// Scenarios that were run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenarios {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The machine.
    pub environment: Environment,
    /// Each scenario, in the order in which they were run.
    pub scenarios: Vec<ScenarioReport>,
}

/// A scenario that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Its number in the list, from 1.
    pub number: u8,
    /// See [`Scenario::name`].
    pub name: String,
    /// See [`Scenario::published`].
    pub published: Published,
    /// See [`Scenario::published_limit`].
    pub published_limit: String,
    /// The flags of `run` that it is.
    pub flags: Vec<String>,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Its good items per second over those of the scenario before; null for the first.
    pub times_before: Option<f64>,
    /// Readings of the run.
    #[serde(flatten)]
    pub readings: ScenarioReadings,
    /// Limit of the run.
    pub limit: Limit,
    /// The limit in words.
    pub limited_by: String,
}

impl ScenarioReport {
    /// The scenario with these `flags`, whose run has this report and these readings, and is saved
    /// in `result`.
    pub fn new(
        scenario: &Scenario,
        flags: Vec<String>,
        result: String,
        report: &Report,
        readings: ScenarioReadings,
    ) -> Self {
        let limit = Limit::of(&readings);
        Self {
            number: scenario.number,
            name: scenario.name.to_owned(),
            published: scenario.published,
            published_limit: scenario.published_limit.to_owned(),
            flags,
            result,
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            times_before: None,
            limited_by: limit.text(),
            limit,
            readings,
        }
    }

    /// Describe the result in a line.
    pub fn line(&self) -> String {
        let times = decimal(self.readings.ok_per_s / self.published.middle_per_s());
        let p99 = self.readings.service_p99_us;
        let p99 = p99.map_or_else(String::new, |us| format!(", p99 {}", micros(us)));
        let throttled = percent(self.readings.throttled_share());
        format!(
            "{}, {times}x the published rate{p99}, {throttled} throttled; limited by {}",
            per_s(self.readings.ok_per_s),
            self.limit.name()
        )
    }
}

/// A figure of a scenario: a column of the table.
struct Figure {
    heading: &'static str,
    /// Value; none where it is not known.
    value: fn(&ScenarioReport) -> Option<f64>,
    text: fn(f64) -> String,
}

const fn figure(
    heading: &'static str,
    value: fn(&ScenarioReport) -> Option<f64>,
    text: fn(f64) -> String,
) -> Figure {
    Figure {
        heading,
        value,
        text,
    }
}

const FIGURES: [Figure; 6] = [
    figure("measured", |of| Some(of.readings.ok_per_s), per_s),
    figure("speed-up", |of| of.times_before, times),
    figure(
        "opened",
        |of| Some(of.readings.connections_opened as f64),
        grouped_f64,
    ),
    figure(
        "CPU, cores",
        |of| of.readings.cpu.used_cores(),
        |cores| format!("{cores:.2}"),
    ),
    figure(
        "client CPU",
        |of| of.readings.cpu.client_us_per_attempt,
        micros,
    ),
    figure("p50", |of| of.readings.service_p50_us, micros),
];

fn per_s(rate: f64) -> String {
    format!("{}/s", decimal(rate))
}

fn times(ratio: f64) -> String {
    format!("x {}", three_digits(ratio))
}

/// A ratio in three digits: more of them would say more than two short runs know.
fn three_digits(ratio: f64) -> String {
    let digit = 10f64.powf(ratio.max(0.01).log10().floor() - 2.0);
    decimal((ratio / digit).round() * digit)
}

impl Scenarios {
    /// Build the result of scenarios in the order in which they were run.
    pub fn new(
        header: Header,
        environment: Environment,
        mut scenarios: Vec<ScenarioReport>,
    ) -> Self {
        let mut before: Option<f64> = None;
        for scenario in &mut scenarios {
            let rate = scenario.readings.ok_per_s;
            let earlier = before.replace(rate).filter(|earlier| *earlier > 0.0);
            scenario.times_before = earlier.map(|earlier| rate / earlier);
        }
        Self {
            header,
            environment,
            scenarios,
        }
    }

    /// The scenario with most good items per second.
    pub fn fastest(&self) -> Option<&ScenarioReport> {
        let all = self.scenarios.iter();
        all.max_by(|a, b| a.readings.ok_per_s.total_cmp(&b.readings.ok_per_s))
    }

    fn table(&self) -> Table {
        let mut columns = vec![Column::sentences("rung"), Column::numbers("published")];
        columns.extend(FIGURES.iter().map(|of| Column::numbers(of.heading)));
        columns.extend([
            Column::details("published limit"),
            Column::sentences("limited by"),
        ]);
        let rows = self.scenarios.iter().map(|of| {
            let mut row = vec![
                format!("{}. {}", of.number, of.name),
                of.published.to_string(),
            ];
            row.extend(FIGURES.iter().map(|it| or_dash((it.value)(of), it.text)));
            row.push(of.published_limit.clone());
            row.push(format!("{}: {}", of.limit.name(), of.limited_by));
            row
        });
        Table {
            columns,
            rows: rows.collect(),
            ..Table::default()
        }
    }
}

/// Fact about scenarios, with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScenarioFinding {
    /// From the first rung to the fastest.
    Climbed {
        /// Measured: good items per second.
        per_s: [f64; 2],
        /// Published: the least of the first rung, and the most of any.
        published_per_s: [f64; 2],
    },
    /// A run with another verdict than valid.
    NotValid {
        /// Name of the scenario.
        name: String,
        /// The verdict.
        verdict: Verdict,
    },
}

/// `6.00/s to 1,176/s (196x)`.
fn climb([low, high]: [f64; 2]) -> String {
    let times = three_digits(high / low.max(f64::MIN_POSITIVE));
    format!("{} to {} ({times}x)", per_s(low), per_s(high))
}

impl StudyResult for Scenarios {
    type Finding = ScenarioFinding;

    const SCHEMA: &'static str = "crawlmark.scenarios/1";

    const FILE: &'static str = "scenarios.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn findings(&self) -> Vec<ScenarioFinding> {
        let mut found = Vec::new();
        if let Some((first, top)) = self.scenarios.first().zip(self.fastest()) {
            let published = self.scenarios.iter().map(|of| of.published.high_per_s);
            found.push(ScenarioFinding::Climbed {
                per_s: [first.readings.ok_per_s, top.readings.ok_per_s],
                published_per_s: [first.published.low_per_s, published.fold(0.0, f64::max)],
            });
        }
        let doubted = self
            .scenarios
            .iter()
            .filter(|of| of.validity != Verdict::Valid);
        found.extend(doubted.map(|of| ScenarioFinding::NotValid {
            name: of.name.clone(),
            verdict: of.validity,
        }));
        found
    }

    fn notice(&self, finding: &ScenarioFinding) -> Notice {
        match finding {
            ScenarioFinding::Climbed {
                per_s,
                published_per_s,
            } => Notice::new(
                Severity::Neutral,
                format!(
                    "Measured: {}; published: {}",
                    climb(*per_s),
                    climb(*published_per_s)
                ),
            ),
            ScenarioFinding::NotValid { name, verdict } => {
                let severity = if *verdict == Verdict::Disturbed {
                    Severity::Warning
                } else {
                    Severity::Neutral
                };
                Notice::new(severity, format!("{}: {}", capital(name), verdict.name()))
            }
        }
    }

    fn fill(&self, doc: Doc) -> Doc {
        let notes = NOTES
            .iter()
            .filter(|(of, _)| self.scenarios.iter().any(|it| of.contains(&it.number)));
        let commands = self
            .scenarios
            .iter()
            .map(|of| format!("crawlmark run {}  # {}", shell_line(&of.flags), of.number));
        doc.table(self.table())
            .list(
                "Different from the published crawl:",
                notes.map(|(_, note)| (*note).to_owned()).collect(),
            )
            .in_files()
            .commands(
                "Flags of crawlmark run for each rung:".to_owned(),
                &commands.collect::<Vec<_>>(),
            )
            .text("CPU is that of client and target, memory that of this client.")
    }

    fn chart(&self) -> Option<Chart> {
        Some(chart::chart(self))
    }
}
