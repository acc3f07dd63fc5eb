//! `JUnit` XML, one test case per gate of a run or per metric of a comparison, as CI services read
//! it. Properties of the suite state the validity of the measurement: an invalid run proves no test
//! case.

use std::fmt::Write;

use crate::run::gates::Breach;
use crate::run::report::Report;
use crate::run::words::seen;
use crate::show::xml;
use crate::studies::compare::{Contest, MetricVerdict};

/// Something that was judged.
struct TestCase {
    name: String,
    /// Result in words.
    said: String,
    /// Type of a failure: `threshold`, `stop_unless` or `comparison`.
    kind: &'static str,
    /// True if it holds: if not, that is a failure, and if that could not be decided, an error.
    ok: Option<bool>,
}

/// Properties that the cases share.
struct Suite<'a> {
    name: &'a str,
    /// Class name of the cases: `gates`, `comparison`.
    class: &'a str,
    /// RFC 3339.
    timestamp: &'a str,
    duration_s: f64,
    properties: &'a [(&'a str, &'a str)],
}

/// The gates of a report as a `JUnit` document.
pub(super) fn junit(report: &Report) -> String {
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

/// The comparison as `JUnit`: a test case per metric that may decide.
pub fn contest_junit(contest: &Contest) -> String {
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

impl Suite<'_> {
    fn document(&self, cases: &[TestCase]) -> String {
        let [failures, errors] =
            [Some(false), None].map(|ok| cases.iter().filter(|case| case.ok == ok).count());
        let counts = format!(
            "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{:.3}\"",
            cases.len(),
            self.duration_s
        );
        let (name, timestamp) = (escaped(self.name), escaped(self.timestamp));
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites name=\"crawlmark\" {counts}>\n  \
             <testsuite name=\"{name}\" {counts} skipped=\"0\" timestamp=\"{timestamp}\">\n    \
             <properties>\n"
        );
        for (name, value) in self.properties {
            let value = escaped(value);
            let _ = writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>");
        }
        out.push_str("    </properties>\n");
        for case in cases {
            let (name, said, kind) = (escaped(&case.name), escaped(&case.said), case.kind);
            let result = match case.ok {
                Some(true) => format!("<system-out>{said}</system-out>"),
                Some(false) => format!("<failure type=\"{kind}\" message=\"{said}\"/>"),
                None => format!("<error type=\"{kind}\" message=\"{said}\"/>"),
            };
            let _ = writeln!(
                out,
                "    <testcase name=\"{name}\" classname=\"crawlmark.{}\" time=\"{:.3}\">{result}</testcase>",
                self.class, self.duration_s
            );
        }
        out + "  </testsuite>\n</testsuites>\n"
    }
}

/// Text as XML has it, in an attribute or outside, without a line break that a reader would make a
/// space of.
fn escaped(text: &str) -> String {
    xml::escaped(text)
        .replace('\t', "&#9;")
        .replace('\n', "&#10;")
}
