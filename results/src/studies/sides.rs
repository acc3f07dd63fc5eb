//! Results of another tool beside each other: what changed, and no verdict. The runs of one side came
//! after those of the other, so whatever drifts between them counts as a difference.

use serde::{Deserialize, Serialize};

use super::compare::Metric;
use super::shift::Shift;
use super::{Conclusion, Header, StudyFinding, StudyResult};
use crate::import::Imported;
use crate::show::doc::{Column, Doc, Table};

/// Two sides of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Tool that measured them.
    pub tool: String,
    /// What both sides have.
    pub rows: Vec<SideRow>,
    /// Number of series that only one side has.
    pub unmatched: usize,
}

/// A metric of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideRow {
    /// The benchmark; empty where a file is of one thing.
    pub benchmark: String,
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Values of the base and of the candidate.
    pub values: [usize; 2],
    /// Medians of base and candidate, and the change between them.
    #[serde(flatten)]
    pub shift: Shift,
}

impl Sides {
    /// Compare what both have; none where that is nothing.
    pub fn new(header: Header, base: &Imported, candidate: &Imported) -> Option<Self> {
        let mut rows = Vec::new();
        // Those of hyperfine have the name of their command, which a change may have changed.
        let is_alone = base.is_of_one() && candidate.is_of_one();
        for one in &base.series {
            let other = candidate.series.iter().find(|other| {
                other.is_like(one) || is_alone && other.metric.name == one.metric.name
            });
            let shift = other.and_then(|other| Shift::between(&one.values, &other.values));
            rows.extend(other.zip(shift).map(|(other, shift)| SideRow {
                benchmark: if one.benchmark == other.benchmark {
                    one.benchmark.clone()
                } else {
                    format!("{} / {}", one.benchmark, other.benchmark)
                },
                metric: one.metric.clone(),
                values: [one.values.len(), other.values.len()],
                shift,
            }));
        }
        let unmatched = base.series.len() + candidate.series.len() - 2 * rows.len();
        (!rows.is_empty()).then(|| Self {
            header,
            tool: base.tool.to_owned(),
            rows,
            unmatched,
        })
    }
}

impl SideRow {
    /// The row of the table.
    fn cells(&self) -> Vec<String> {
        let (metric, shift) = (&self.metric, &self.shift);
        vec![
            self.benchmark.clone(),
            metric.column.to_string(),
            metric.in_unit(shift.before),
            metric.in_unit(shift.after),
            shift.words(),
            format!("{}, {}", self.values[0], self.values[1]),
        ]
    }
}

impl StudyResult for Sides {
    const SCHEMA: &'static str = "crawlmark.sides/1";

    const FILE: &'static str = "sides.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found = vec![StudyFinding::Unpaired {}];
        if self.unmatched > 0 {
            let series = self.unmatched;
            found.push(StudyFinding::Unmatched { series });
        }
        found
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.table(Table {
            columns: vec![
                Column::words("benchmark"),
                Column::words("metric"),
                Column::numbers("base"),
                Column::numbers("candidate"),
                Column::numbers("change (95 %)"),
                Column::numbers("values").leaving(1),
            ],
            rows: self.rows.iter().map(SideRow::cells).collect(),
            ..Table::default()
        })
    }

    fn conclusion(&self) -> Conclusion {
        Conclusion::Inconclusive
    }
}
