//! The thresholds of a run as test cases, one each.

use super::gates::Breach;
use super::report::Report;
use super::words::seen;
use crate::show::junit::{Suite, TestCase};

/// The gates of a report as a `JUnit` document.
pub(crate) fn document(report: &Report) -> String {
    let cases = report.gates.iter().map(|gate| TestCase {
        name: gate.expression.clone(),
        said: match gate.ok {
            Some(true) => seen(gate),
            _ => format!("must hold: {}; seen: {}", gate.expression, seen(gate)),
        },
        kind: if gate.kind == Breach::Stops.name() {
            Breach::Stops.name()
        } else {
            Breach::Fails.name()
        },
        ok: gate.ok,
    });
    let suite = Suite {
        name: &report.name,
        class: "gates",
        timestamp: &report.started_at,
        duration_s: report.totals.duration_s,
        properties: &[
            ("validity", report.validity.verdict.name()),
            ("run_id", &report.run_id),
            ("target", &report.plan.run.target),
            ("config_hash", &report.plan.config_hash),
        ],
    };
    suite.document(&cases.collect::<Vec<_>>())
}
