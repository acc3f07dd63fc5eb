//! What was judged as `JUnit` XML, one test case each, as CI services read it.

use std::fmt::Write;

use super::gates::seen;
use crate::report::Report;

/// Something that was judged.
pub(super) struct Case {
    pub(super) name: String,
    /// What was seen of it.
    pub(super) said: String,
    /// What kind of thing it is.
    pub(super) kind: &'static str,
    pub(super) outcome: Outcome,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It holds.
    Passed,
    /// It does not: a failure.
    Failed,
    /// It could not be decided: an error.
    Undecided,
}

/// What the cases have in common.
pub(super) struct Suite<'a> {
    pub(super) name: &'a str,
    /// `gates`, `comparison`.
    pub(super) class: &'a str,
    /// RFC 3339.
    pub(super) timestamp: &'a str,
    pub(super) duration_s: f64,
}

/// The gates of a report as a `JUnit` document: a gate that failed is a failure, one that could not be decided an error.
#[must_use]
pub fn junit(report: &Report) -> String {
    let cases: Vec<Case> = report
        .gates
        .iter()
        .map(|gate| Case {
            name: gate.expression.clone(),
            said: match gate.ok {
                Some(true) => seen(gate),
                _ => format!("must hold: {}; seen: {}", gate.expression, seen(gate)),
            },
            kind: if gate.kind == crate::gates::Breach::Stops.name() { "stop_if" } else { "fail_if" },
            outcome: match gate.ok {
                Some(true) => Outcome::Passed,
                Some(false) => Outcome::Failed,
                None => Outcome::Undecided,
            },
        })
        .collect();
    let (name, timestamp) = (&report.name, &report.started_at);
    document(&Suite { name, class: "gates", timestamp, duration_s: report.totals.duration_s }, &cases)
}

/// The document of a suite.
pub(super) fn document(suite: &Suite<'_>, cases: &[Case]) -> String {
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\"",
        cases.len(),
        count(Outcome::Failed),
        count(Outcome::Undecided),
        suite.duration_s
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"crawlmark\" {counts}>");
    let (name, timestamp) = (escaped(suite.name), escaped(suite.timestamp));
    let _ = writeln!(out, "  <testsuite name=\"{name}\" {counts} skipped=\"0\" timestamp=\"{timestamp}\">");
    for case in cases {
        write_case(&mut out, suite, case);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn write_case(out: &mut String, Suite { class, duration_s, .. }: &Suite<'_>, case: &Case) {
    let (name, said) = (escaped(&case.name), escaped(&case.said));
    let element = match case.outcome {
        Outcome::Passed => None,
        Outcome::Failed => Some("failure"),
        Outcome::Undecided => Some("error"),
    };
    let _ = write!(out, "    <testcase name=\"{name}\" classname=\"crawlmark.{class}\" time=\"{duration_s:.3}\">");
    let _ = match element {
        Some(element) => write!(out, "<{element} type=\"{}\" message=\"{said}\"/>", case.kind),
        None => write!(out, "<system-out>{said}</system-out>"),
    };
    out.push_str("</testcase>\n");
}

/// Text as XML has it, in an attribute or outside. Characters that XML 1.0 has no place for are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\u{fffe}' | '\u{ffff}' => {}
            c if u32::from(c) < 0x20 => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a < b & \"c\" > 'd'\n\u{1}é"), "a &lt; b &amp; &quot;c&quot; &gt; &apos;d&apos;&#10;é");
    }
}
