//! `JUnit` XML, as CI services read it. Properties of the suite state the validity of the
//! measurement: an invalid run proves no test case.

use std::fmt::Write;

use super::xml;

/// Name of the file in a directory of a result.
pub(crate) const FILE: &str = "junit.xml";

/// Something that was judged.
pub(crate) struct TestCase {
    pub(crate) name: String,
    /// Result in words.
    pub(crate) said: String,
    /// Type of a failure: `threshold`, `stop_unless` or `comparison`.
    pub(crate) kind: &'static str,
    /// True if it holds: if not, that is a failure, and if that could not be decided, an error.
    pub(crate) ok: Option<bool>,
}

/// Properties that the cases share.
pub(crate) struct Suite<'a> {
    pub(crate) name: &'a str,
    /// Class name of the cases: `gates`, `comparison`.
    pub(crate) class: &'a str,
    /// RFC 3339.
    pub(crate) timestamp: &'a str,
    pub(crate) duration_s: f64,
    pub(crate) properties: &'a [(&'a str, &'a str)],
}

impl Suite<'_> {
    pub(crate) fn document(&self, cases: &[TestCase]) -> String {
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
