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
    /// Type of a failure: `threshold`, `stop_if` or `comparison`.
    kind: &'static str,
    outcome: TestOutcome,
}

/// Outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestOutcome {
    /// The gate or the metric holds.
    Passed,
    /// The gate or the metric does not hold: a failure.
    Failed,
    /// Undecided: an error.
    Undecided,
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

/// The gates of a report as a `JUnit` document: a gate that failed is a failure, one that could not
/// be decided an error.
pub(super) fn junit(report: &Report) -> String {
    let cases: Vec<TestCase> = report
        .gates
        .iter()
        .map(|gate| TestCase {
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
            outcome: match gate.ok {
                Some(true) => TestOutcome::Passed,
                Some(false) => TestOutcome::Failed,
                None => TestOutcome::Undecided,
            },
        })
        .collect();
    let properties = [
        ("validity", report.validity.verdict.name()),
        ("run_id", &report.run_id),
        ("target", &report.plan.run.target),
        ("config_hash", &report.plan.config_hash),
    ];
    let (name, timestamp, duration_s) =
        (&report.name, &report.started_at, report.totals.duration_s);
    document(
        &Suite {
            name,
            class: "gates",
            timestamp,
            duration_s,
            properties: &properties,
        },
        &cases,
    )
}

/// The comparison as `JUnit`: a test case per metric that may decide.
#[must_use]
pub fn contest_junit(contest: &Contest) -> String {
    let cases: Vec<TestCase> = contest
        .comparison
        .metrics
        .iter()
        .filter(|one| one.verdict != MetricVerdict::Informational)
        .map(|one| TestCase {
            name: one.metric.name().to_owned(),
            said: {
                let cells = contest.row(one);
                let cells = cells.iter().skip(1).filter(|cell| !cell.is_empty());
                let cells: Vec<&str> = cells.map(String::as_str).collect();
                format!("{}: {}", one.metric.title(), cells.join(", "))
            },
            kind: "comparison",
            outcome: match one.verdict {
                MetricVerdict::Regression => TestOutcome::Failed,
                MetricVerdict::Pass | MetricVerdict::Informational => TestOutcome::Passed,
                MetricVerdict::Inconclusive { .. } => TestOutcome::Undecided,
            },
        })
        .collect();
    let properties = [
        ("verdict", contest.comparison.verdict.name()),
        ("base", &contest.context.base.what),
        ("candidate", &contest.context.candidate.what),
    ];
    let (name, timestamp) = (
        &contest.context.header.name,
        &contest.context.header.started_at,
    );
    document(
        &Suite {
            name,
            class: "comparison",
            timestamp,
            duration_s: 0.0,
            properties: &properties,
        },
        &cases,
    )
}

/// The document of a suite.
fn document(suite: &Suite<'_>, cases: &[TestCase]) -> String {
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\"",
        cases.len(),
        count(TestOutcome::Failed),
        count(TestOutcome::Undecided),
        suite.duration_s
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"crawlmark\" {counts}>");
    let (name, timestamp) = (escaped(suite.name), escaped(suite.timestamp));
    let _ = writeln!(
        out,
        "  <testsuite name=\"{name}\" {counts} skipped=\"0\" timestamp=\"{timestamp}\">"
    );
    out.push_str("    <properties>\n");
    for (name, value) in suite.properties {
        let _ = writeln!(
            out,
            "      <property name=\"{name}\" value=\"{}\"/>",
            escaped(value)
        );
    }
    out.push_str("    </properties>\n");
    for case in cases {
        write_case(&mut out, suite, case);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn write_case(
    out: &mut String,
    Suite {
        class, duration_s, ..
    }: &Suite<'_>,
    case: &TestCase,
) {
    let (name, said) = (escaped(&case.name), escaped(&case.said));
    let element = match case.outcome {
        TestOutcome::Passed => None,
        TestOutcome::Failed => Some("failure"),
        TestOutcome::Undecided => Some("error"),
    };
    let _ = write!(
        out,
        "    <testcase name=\"{name}\" classname=\"crawlmark.{class}\" time=\"{duration_s:.3}\">"
    );
    let _ = match element {
        Some(element) => write!(
            out,
            "<{element} type=\"{}\" message=\"{said}\"/>",
            case.kind
        ),
        None => write!(out, "<system-out>{said}</system-out>"),
    };
    out.push_str("</testcase>\n");
}

/// Text as XML has it, in an attribute or outside, without a line break that a reader would make a
/// space of.
fn escaped(text: &str) -> String {
    xml::escaped(text)
        .replace('\t', "&#9;")
        .replace('\n', "&#10;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("a < b & \"c\" > 'd'\n\u{1}é"),
            "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;&#10;\\u0001é"
        );
    }
}
