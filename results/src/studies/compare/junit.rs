//! A comparison as test cases, one for each metric that may decide.

use super::contest::Contest;
use super::judgement::MetricVerdict;
use crate::show::junit::{Suite, TestCase};

/// The comparison as `JUnit`.
pub(super) fn document(contest: &Contest) -> String {
    let mut cases = Vec::new();
    for one in &contest.comparison.metrics {
        let ok = match one.verdict {
            MetricVerdict::Informational { .. } => continue,
            MetricVerdict::Pass => Some(true),
            MetricVerdict::Regression => Some(false),
            MetricVerdict::Inconclusive { .. } => None,
        };
        let mut cells = contest.row(one);
        cells.remove(0);
        cells.retain(|cell| !cell.is_empty());
        cases.push(TestCase {
            name: one.metric.name.clone().into_owned(),
            said: format!("{}: {}", one.metric.title, cells.join(", ")),
            kind: "comparison",
            ok,
        });
    }
    let sides = &contest.context;
    let suite = Suite {
        name: &sides.header.name,
        class: "comparison",
        timestamp: &sides.header.started_at,
        duration_s: 0.0,
        properties: &[
            ("verdict", contest.comparison.verdict.name()),
            ("base", &sides.base.what),
            ("candidate", &sides.candidate.what),
        ],
    };
    suite.document(&cases)
}
