//! Values of expressions, written as Java writes them.

use std::borrow::Cow;

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'v> {
    /// There is none.
    Missing,
    Text(Cow<'v, str>),
    Integer(i64),
    Real(f64),
    Truth(bool),
    /// Several values that are written as one text.
    List {
        items: Vec<Cow<'v, str>>,
        written: Cow<'v, str>,
    },
}

impl<'v> Value<'v> {
    /// A text of its own.
    pub(super) fn owned(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    /// The value as Java's `toString` writes it; nothing for what is missing.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Missing => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(integer) => Cow::Owned(integer.to_string()),
            Self::Real(real) => Cow::Owned(java_double(*real)),
            Self::Truth(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Self::List { written, .. } => Cow::Borrowed(written),
        }
    }

    /// Turn the value into its text.
    pub(super) fn into_text(self) -> Cow<'v, str> {
        match self {
            Self::Text(text) | Self::List { written: text, .. } => text,
            other => Cow::Owned(other.text().into_owned()),
        }
    }
}

/// Java's `Double.toString`: the shortest digits, with an exponent below 10^-3 and from 10^7 on.
pub(crate) fn java_double(real: f64) -> String {
    let size = real.abs();
    if real == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{real:?}");
    }
    if !real.is_finite() {
        return if real.is_nan() {
            "NaN"
        } else if real > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let text = format!("{real:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text.replace('e', "E"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_java_does() {
        for (real, expected) in [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (0.0, "0.0"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.25e300, "-1.25E300"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(Value::Real(real).text(), expected);
        }
        assert_eq!(Value::Missing.text(), "");
        assert_eq!(Value::Truth(false).text(), "false");
    }
}
