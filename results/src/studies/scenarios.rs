//! The ladder: crawls, each a run of its own, that climb from 6 requests per second to more than
//! 10,000, one change at a time, beside published rates.
//!
//! The list is data ([`SCENARIOS`]). What is shown of a scenario is read from its run's report, and
//! its limit is computed from these readings ([`limit_of`]), never from its number.
//!
//! | module | holds |
//! |---|---|
//! | `lists` | the scenarios, with the published figures |
//! | `readings` | readings of a run, and its limit |

mod lists;
mod readings;

use serde::Serialize;

pub use self::lists::*;
pub use self::readings::*;
use crate::run::report::{Environment, Report, Verdict};
use crate::show::chart::{Axis, Block, Format, Mark, Panel, Range, Role, Shape};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{decimal, grouped_f64, micros};
use crate::studies::findings::three_digits;
use crate::studies::{
    Header, RoundRun, StudyFinding, StudyResult, or_dash, rate, saved_finding, shell_line,
};
use crawlmark_harness::units::percent;

/// Scenarios that were run, whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioReport {
    /// Its number in the list, from 1.
    pub number: u8,
    /// See [`Scenario::name`].
    pub name: &'static str,
    /// See [`Scenario::published`].
    pub published: Published,
    /// See [`Scenario::published_limit`].
    pub published_limit: &'static str,
    /// The flags of `run` that it is.
    pub flags: Vec<String>,
    /// Its run.
    #[serde(flatten)]
    pub run: RoundRun,
    /// Its good items per second over those of the scenario before; null for the first.
    pub times_before: Option<f64>,
    /// Readings of the run.
    #[serde(flatten)]
    pub readings: ScenarioReadings,
    /// Limit of the run.
    #[serde(serialize_with = "saved_finding")]
    pub limit: StudyFinding,
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
        Self {
            number: scenario.number,
            name: scenario.name,
            published: scenario.published,
            published_limit: scenario.published_limit,
            flags,
            run: RoundRun::of(report, result),
            times_before: None,
            limit: limit_of(&readings),
            readings,
        }
    }

    /// Describe the result in a line.
    pub fn line(&self) -> String {
        let readings = &self.readings;
        let p99 = readings.service_p99_us;
        let p99 = p99.map_or_else(String::new, |us| format!(", p99 {}", micros(us)));
        format!(
            "{}, {}x the published rate{p99}, {} throttled; limited by {}",
            rate(readings.ok_per_s),
            decimal(readings.ok_per_s / self.published.middle_per_s()),
            percent(readings.throttled_share()),
            self.limit.notice().title
        )
    }
}

/// A figure of a scenario: its heading, its value, and its text.
type Figure = (
    &'static str,
    fn(&ScenarioReport) -> Option<f64>,
    fn(f64) -> String,
);

const FIGURES: [Figure; 6] = [
    ("measured", |of| Some(of.readings.ok_per_s), rate),
    (
        "speed-up",
        |of| of.times_before,
        |ratio| format!("x {}", three_digits(ratio)),
    ),
    (
        "opened",
        |of| Some(of.readings.connections_opened as f64),
        grouped_f64,
    ),
    (
        "CPU, cores",
        |of| of.readings.cpu.used_cores(),
        |cores| format!("{cores:.2}"),
    ),
    (
        "client CPU",
        |of| of.readings.cpu.client_us_per_attempt,
        micros,
    ),
    ("p50", |of| of.readings.service_p50_us, micros),
];

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

    fn table(&self) -> Table {
        let mut columns = vec![Column::sentences("rung"), Column::numbers("published")];
        columns.extend(
            FIGURES
                .iter()
                .map(|(heading, ..)| Column::numbers(*heading)),
        );
        columns.push(Column::details("published limit"));
        columns.push(Column::sentences("limited by"));
        let rows = self.scenarios.iter().map(|of| {
            let name = format!("{}. {}", of.number, of.name);
            let mut row = vec![name, of.published.to_string()];
            row.extend(
                FIGURES
                    .iter()
                    .map(|(_, value, text)| or_dash(value(of), text)),
            );
            row.extend([of.published_limit.to_owned(), of.limit.notice().title]);
            row
        });
        Table {
            columns,
            rows: rows.collect(),
            ..Table::default()
        }
    }
}

impl StudyResult for Scenarios {
    const SCHEMA: &'static str = "crawlmark.scenarios/1";

    const FILE: &'static str = "scenarios.json";

    const CHART: [&'static str; 2] = ["scenarios", "Published and measured rates"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found = Vec::new();
        if let Some(first) = self.scenarios.first() {
            let all = self.scenarios.iter();
            let published = all.clone().map(|of| of.published.high_per_s);
            let fastest = all.map(|of| of.readings.ok_per_s).fold(0.0, f64::max);
            found.push(StudyFinding::Climbed {
                per_s: [first.readings.ok_per_s, fastest],
                published_per_s: [first.published.low_per_s, published.fold(0.0, f64::max)],
            });
        }
        let mut doubted = self.scenarios.clone();
        doubted.retain(|of| of.run.validity != Verdict::Valid);
        found.extend(doubted.into_iter().map(|of| StudyFinding::NotValid {
            name: of.name,
            verdict: of.run.validity,
        }));
        found
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
                "Flags of crawlmark run for each rung:",
                &commands.collect::<Vec<_>>(),
            )
            .text("CPU is that of client and target.")
    }

    fn panels(&self) -> Option<Vec<Panel>> {
        Some(vec![steps(&self.scenarios)])
    }
}

/// Height of a row with two bars, CSS pixels.
const STEP: f64 = 40.0;

/// The panel of measured and published rates.
fn steps(all: &[ScenarioReport]) -> Panel {
    let rates = all
        .iter()
        .flat_map(|of| [of.readings.ok_per_s, of.published.high_per_s]);
    let rates = rates.filter(|rate| *rate > 0.0);
    let (least, high) = rates.fold((1.0_f64, 10.0_f64), |(least, high), rate| {
        (least.min(rate), high.max(rate))
    });
    let low = 10f64.powf(least.log10().floor());
    let (mut names, mut measured, mut published) = (Vec::new(), Vec::new(), Vec::new());
    for (row, of) in all.iter().rev().enumerate() {
        names.push(format!("{}. {}", of.number, of.name));
        let per_s = of.readings.ok_per_s;
        let to = per_s.max(low);
        measured.push(Block::row(row, [0.06, 0.5], [low, to], rate(per_s)));
        let (to, text) = (of.published.high_per_s.max(low), of.published.to_string());
        published.push(Block::row(row, [0.56, 0.86], [low, to], text));
    }
    Panel {
        x: Axis::new(
            "good items per second (log scale)",
            Range::LogBetween(low, high),
            Format::Number,
        ),
        height: names.len() as f64 * STEP,
        y: Axis::new("", Range::Rows(names), Format::Number),
        marks: vec![
            Mark::new(Role::Good, "measured", Shape::Blocks(measured)),
            Mark::new(Role::Limit, "published", Shape::Blocks(published)),
        ],
    }
}
