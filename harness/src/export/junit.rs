//! The gates as `JUnit` XML, one test case each, as CI services read it. The verdict on the measurement is a property of the
//! suite.

use std::fmt::Write;

use crate::render::seen;
use crate::report::{GateReport, Report};

/// The gates of a report as a `JUnit` document: a gate that failed is a failure, one that could not be decided an error.
pub(super) fn junit(report: &Report) -> String {
    let count = |ok| report.gates.iter().filter(|gate| gate.ok == ok).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\"",
        report.gates.len(),
        count(Some(false)),
        count(None),
        report.totals.duration_s
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"crawlmark\" {counts}>");
    let (name, timestamp) = (escaped(&report.name), escaped(&report.started_at));
    let _ = writeln!(out, "  <testsuite name=\"{name}\" {counts} skipped=\"0\" timestamp=\"{timestamp}\">");
    write_properties(&mut out, report);
    for gate in &report.gates {
        write_case(&mut out, gate, report.totals.duration_s);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// What the gates were judged by: a measurement that is not valid passes none for sure.
fn write_properties(out: &mut String, report: &Report) {
    let properties = [
        ("validity", report.validity.verdict.name()),
        ("run_id", &report.run_id),
        ("target", &report.plan.run.target),
        ("config_hash", &report.plan.config_hash),
    ];
    out.push_str("    <properties>\n");
    for (name, value) in properties {
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{}\"/>", escaped(value));
    }
    out.push_str("    </properties>\n");
}

fn write_case(out: &mut String, gate: &GateReport, duration_s: f64) {
    let name = escaped(&gate.expression);
    let element = match gate.ok {
        Some(true) => None,
        Some(false) => Some("failure"),
        None => Some("error"),
    };
    let _ = write!(out, "    <testcase name=\"{name}\" classname=\"crawlmark.gates\" time=\"{duration_s:.3}\">");
    if let Some(element) = element {
        let message = escaped(&format!("must hold: {}; seen: {}", gate.expression, seen(gate)));
        let _ = write!(out, "<{element} type=\"{}\" message=\"{message}\"/>", escaped(&gate.kind));
    } else {
        let _ = write!(out, "<system-out>{}</system-out>", escaped(&seen(gate)));
    }
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
