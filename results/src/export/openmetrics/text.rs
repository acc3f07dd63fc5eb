//! The text format of `OpenMetrics` 1.0: families, samples, numbers and the end.

use std::fmt::Write;

/// Names and values.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Metric type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    /// Goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Values in buckets.
    Histogram,
}

impl MetricType {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// An exposition in the making.
pub(super) struct Text(String);

impl Text {
    pub(super) const fn new() -> Self {
        Self(String::new())
    }

    /// Begins a family. Its samples follow, and no other family's until it is done. Its name ends
    /// with its unit when it has one.
    pub(super) fn family(&mut self, name: &str, kind: MetricType, unit: &str, help: &str) {
        debug_assert!(name.ends_with(unit), "{name} does not end with {unit}");
        let _ = writeln!(self.0, "# TYPE {name} {}", kind.name());
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(help));
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let _ = write!(self.0, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// The whole.
    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A number in its canonical form, as Go's `%g` writes it and with `.0` when it is whole: `0.0001`,
/// `1e-05`, `1000.0`, `1e+06`.
pub(super) fn float(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v if v == 0.0 || (1e-4..1e6).contains(&v.abs()) => format!("{v:?}"),
        v => {
            let text = format!("{v:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_015, "1.5e-05"),
            (-2.5, "-2.5"),
            (123_456.0, "123456.0"),
            (1e6, "1e+06"),
            (1.234_567_8e7, "1.2345678e+07"),
            (1e100, "1e+100"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(value), text);
            assert!(value.is_nan() || text.parse() == Ok(value));
        }
    }

    #[test]
    fn a_label_cannot_break_out() {
        let mut text = Text::new();
        text.family("a_seconds", MetricType::Gauge, "seconds", "what\nit is");
        text.sample("a_seconds", &[("b", "c\"} 5\n\\")], "1");
        assert_eq!(
            text.end(),
            "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds what\\nit is\na_seconds{b=\"c\\\"} \
             5\\n\\\\\"} 1\n# EOF\n"
        );
    }
}
