//! Scenarios: lists of crawls, each a run of its own, on one target. The ladder climbs from 6 requests
//! per second to more than 10,000, one change at a time, beside published rates; the patterns are
//! the usual ways to limit a crawl, side by side.
//!
//! A list is data ([`LADDER`], [`PATTERNS`]). What is shown of a scenario is read from its run's report, and
//! its limit is computed from these readings ([`limit_of`]), never from its number.
//!
//! | module | holds |
//! |---|---|
//! | `lists` | the scenarios, with the published figures |
//! | `readings` | readings of a run, and its limit |
//! | `chart` | the bars of both |

mod chart;
mod lists;
mod readings;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::lists::*;
pub use self::readings::*;
use crate::judge::Finding;
use crate::run::report::{Environment, Report, Verdict};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{bytes_f64, counted, decimal, grouped_f64, micros};
use crate::studies::findings::three_digits;
use crate::studies::{
    Header, Picture, RoundRun, StudyFinding, StudyResult, or_dash, rate, saved_finding, shell_line,
};
use crawlmark_harness::units::percent;

/// Scenarios that were run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenarios {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The list that they are of.
    pub list: ScenarioList,
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
    pub name: Cow<'static, str>,
    /// See [`Scenario::published`].
    pub published: Option<Published>,
    /// See [`Scenario::published_limit`].
    pub published_limit: Option<Cow<'static, str>>,
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
            name: scenario.name.into(),
            published: scenario.published,
            published_limit: scenario.published_limit.map(Into::into),
            flags,
            run: RoundRun::of(report, result),
            times_before: None,
            limit: limit_of(&readings),
            readings,
        }
    }

    /// Its number and its name.
    fn title(&self) -> String {
        format!("{}. {}", self.number, self.name)
    }

    /// Describe the result in a line.
    pub fn line(&self) -> String {
        let readings = &self.readings;
        let p99 = readings
            .service_p99_us
            .map_or_else(String::new, |us| format!(", p99 {}", micros(us)));
        let times = self.published.map_or_else(String::new, |published| {
            let times = readings.ok_per_s / published.middle_per_s();
            format!(", {}x the published rate", decimal(times))
        });
        format!(
            "{}{times}{p99}, {} throttled; limited by {}",
            rate(readings.ok_per_s),
            percent(readings.throttled_share()),
            self.limit.notice().title
        )
    }
}

/// A figure of a scenario: its heading, its value, and its text.
type ScenarioFigure = (
    &'static str,
    fn(&ScenarioReport) -> Option<f64>,
    fn(f64) -> String,
);

/// The cost of a request.
const CLIENT_CPU: ScenarioFigure = (
    "client CPU",
    |of| of.readings.cpu.client_us_per_attempt,
    micros,
);

/// Columns from which on a terminal has room for whole names beside what was measured.
const NARROW: usize = 60;

/// Part by which the rates of two patterns may differ and are alike: each was run once.
const ALIKE: f64 = 0.05;

/// Figures of the ladder.
const CLIMB: [ScenarioFigure; 6] = [
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
        "CPU of both, cores",
        |of| of.readings.cpu.used_cores(),
        |cores| format!("{cores:.2}"),
    ),
    CLIENT_CPU,
    ("p50", |of| of.readings.service_p50_us, micros),
];

/// Figures of the patterns, the first of which is drawn.
const SIDE_BY_SIDE: [ScenarioFigure; 6] = [
    ("good items", |of| Some(of.readings.ok_per_s), rate),
    ("p99", |of| of.readings.service_p99_us, micros),
    (
        "throttled",
        |of| Some(of.readings.throttled_share()),
        percent,
    ),
    (
        "peak in flight",
        |of| Some(of.readings.peak_in_flight as f64),
        grouped_f64,
    ),
    (
        "client memory",
        |of| of.readings.memory_bytes.map(|bytes| bytes as f64),
        bytes_f64,
    ),
    CLIENT_CPU,
];

impl Scenarios {
    /// Build the result of scenarios in the order in which they were run.
    pub fn new(
        header: Header,
        list: ScenarioList,
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
            list,
            environment,
            scenarios,
        }
    }

    fn figures(&self) -> Vec<ScenarioFigure> {
        match self.list {
            ScenarioList::Ladder => CLIMB.to_vec(),
            ScenarioList::Patterns => SIDE_BY_SIDE.to_vec(),
        }
    }

    /// The answer: how far the climb went, or the fastest of the patterns that were throttled least.
    fn answer(&self) -> Option<StudyFinding> {
        let first = self.scenarios.first()?;
        let all = self.scenarios.iter();
        if let Some(published) = first.published {
            let most = all.clone().filter_map(|of| of.published);
            return Some(StudyFinding::Climbed {
                per_s: [
                    first.readings.ok_per_s,
                    all.map(|of| of.readings.ok_per_s).fold(0.0, f64::max),
                ],
                published_per_s: [
                    published.low_per_s,
                    most.map(|of| of.high_per_s).fold(0.0, f64::max),
                ],
            });
        }
        let least = all
            .map(|of| of.readings.throttled_share())
            .fold(1.0, f64::min);
        let mut calm: Vec<&ScenarioReport> = self.scenarios.iter().collect();
        calm.retain(|of| of.readings.throttled_share() <= least);
        calm.sort_by(|a, b| b.readings.ok_per_s.total_cmp(&a.readings.ok_per_s));
        let per_s = calm.first()?.readings.ok_per_s;
        calm.retain(|of| of.readings.ok_per_s >= per_s * (1.0 - ALIKE));
        Some(StudyFinding::Fastest {
            names: calm.iter().map(|of| of.name.clone()).collect(),
            per_s,
            throttled_share: least,
        })
    }

    fn table(&self) -> Table {
        let (figures, [_, noun]) = (self.figures(), self.list.words());
        let mut columns = vec![Column::sentences(noun), Column::numbers("published")];
        columns.extend(
            figures
                .iter()
                .map(|(heading, ..)| Column::numbers(*heading)),
        );
        columns.push(Column::details("published limit"));
        columns.push(Column::sentences("limited by"));
        let rows = self.scenarios.iter().map(|of| {
            let published = of.published.map(|published| published.to_string());
            let mut row = vec![of.title(), published.unwrap_or_default()];
            row.extend(
                figures
                    .iter()
                    .map(|(_, value, text)| or_dash(value(of), text)),
            );
            row.push(of.published_limit.clone().unwrap_or_default().into_owned());
            row.push(of.limit.notice().title);
            row
        });
        Table {
            columns,
            rows: rows.collect(),
            ..Table::default()
        }
    }
}

/// What the scenarios are elsewhere; empty of a ladder.
fn elsewhere(list: ScenarioList, all: &[ScenarioReport]) -> Table {
    let columns = ELSEWHERE.into_iter().map(Column::words);
    let rows = all.iter().filter_map(|of| {
        let cells = list.scenario(of.number)?.elsewhere.map(str::to_owned);
        (!cells[0].is_empty()).then(|| [of.title()].into_iter().chain(cells).collect())
    });
    Table {
        caption: "The same by hand (C connections, R requests per second)".to_owned(),
        columns: [Column::words("pattern")]
            .into_iter()
            .chain(columns)
            .collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

impl StudyResult for Scenarios {
    const SCHEMA: &'static str = "crawlmark.scenarios/1";

    const FILE: &'static str = "scenarios.json";

    fn chart(&self) -> [&'static str; 2] {
        let title = match self.list {
            ScenarioList::Ladder => "Published and measured rates",
            ScenarioList::Patterns => "Rate, times, refusals and cost of each pattern",
        };
        ["scenarios", title]
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found = Vec::from_iter(self.answer());
        let mut doubted = self.scenarios.clone();
        doubted.retain(|of| of.run.validity != Verdict::Valid);
        found.extend(doubted.into_iter().map(|of| StudyFinding::NotValid {
            name: of.name,
            verdict: of.run.validity,
            finding: of.run.findings.into_iter().max_by_key(Finding::severity),
        }));
        found
    }

    fn fill(&self, doc: Doc) -> Doc {
        let notes = NOTES.iter().filter(|(of, _)| {
            self.list == ScenarioList::Ladder
                && self.scenarios.iter().any(|it| of.contains(&it.number))
        });
        let [_, noun] = self.list.words();
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
            .table(elsewhere(self.list, &self.scenarios))
            .commands(
                format!("Flags of crawlmark run for each {noun}:"),
                &commands.collect::<Vec<_>>(),
            )
    }

    fn short_table(&self, columns: usize) -> Option<Table> {
        let mut table = self.table();
        let (first, last) = (0, table.columns.len() - 1);
        table.columns[first] = Column::words("");
        table.columns[last] = Column::words("limited by");
        let is_narrow = columns < NARROW;
        for (row, of) in table.rows.iter_mut().zip(&self.scenarios) {
            row[last] = of.limit.limit_in_words();
            if let Some(scenario) = self.list.scenario(of.number).filter(|_| is_narrow) {
                row[first] = format!("{}. {}", of.number, scenario.short);
            }
        }
        // What is most telling stands to the left; it stays longest. What was measured stays.
        let measured = match self.list {
            ScenarioList::Ladder => 2,
            ScenarioList::Patterns => 1,
        };
        let leaving = (3..last).rev().chain([last, 2, 1]);
        for (order, at) in (1..).zip(leaving.filter(|at| *at != measured)) {
            table.columns[at] = table.columns[at].clone().leaving(order);
        }
        Some(table)
    }

    fn picture(&self) -> Option<Picture> {
        let all = &self.scenarios;
        let [command, noun] = self.list.words();
        let count = counted(all.len() as u64, noun);
        let (subtitle, panel) = match self.list {
            ScenarioList::Ladder => (
                format!(
                    "{count} · good items per second, log scale · bar: measured · line: published"
                ),
                chart::ladder(all),
            ),
            ScenarioList::Patterns => (
                format!("{count} · good items per second, and what else each reads"),
                chart::patterns(all, &SIDE_BY_SIDE[1..]),
            ),
        };
        Some(Picture {
            subtitle,
            command,
            of: vec!["bundled target".to_owned()],
            panels: vec![panel],
        })
    }
}
