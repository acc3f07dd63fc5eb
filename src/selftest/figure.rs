//! A figure of a row: its true value, its measured value, and the tolerance between them.

use serde::{Deserialize, Serialize};

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Microseconds.
    Us,
    /// Things.
    Count,
    /// Parts of each other.
    Ratio,
    /// A word: a verdict.
    Word,
}

/// A number, or a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Quantity {
    /// In the unit of the figure.
    Number(f64),
    /// As reports write it.
    Word(String),
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelftestFigure {
    /// Name of the measured quantity.
    pub(crate) what: String,
    /// Unit of the values.
    pub(crate) unit: Unit,
    /// The truth.
    pub(crate) expected: Quantity,
    /// None when there was too little to tell.
    pub(crate) measured: Option<Quantity>,
    /// Measured less expected.
    pub(crate) error: Option<f64>,
    /// The least that is within tolerance; none of a word, or when nothing is too little.
    pub(crate) low: Option<f64>,
    /// The most; none of a word, or when nothing is too much.
    pub(crate) high: Option<f64>,
    /// True if it is within tolerance.
    pub(crate) met: bool,
    /// True if it is what no noise can make of the truth, such as an answer before its hold is
    /// over.
    pub(crate) impossible: bool,
}

impl SelftestFigure {
    /// A number that may lie from `low` to `high`, both included.
    pub(super) fn number(
        what: &str,
        (unit, expected): (Unit, f64),
        measured: Option<f64>,
        allowed: Allowed,
    ) -> Self {
        let Allowed { low, high } = allowed;
        let within = |value: f64| {
            low.is_none_or(|low| value >= low) && high.is_none_or(|high| value <= high)
        };
        Self {
            what: what.to_owned(),
            unit,
            expected: Quantity::Number(expected),
            measured: measured.map(Quantity::Number),
            error: measured.map(|measured| measured - expected),
            low,
            high,
            met: measured.is_some_and(within),
            impossible: false,
        }
    }

    /// A verdict that has to be this one.
    pub(super) fn word(what: &str, expected: &str, measured: &str) -> Self {
        Self {
            what: what.to_owned(),
            unit: Unit::Word,
            expected: Quantity::Word(expected.to_owned()),
            measured: Some(Quantity::Word(measured.to_owned())),
            error: None,
            low: None,
            high: None,
            met: expected == measured,
            impossible: false,
        }
    }

    /// Mark the figure as impossible if it is below the tolerance: noise can only add to it.
    pub(super) fn never_less(self) -> Self {
        let impossible = self
            .measured_number()
            .zip(self.low)
            .is_some_and(|(measured, low)| measured < low);
        Self { impossible, ..self }
    }

    /// Mark the figure as impossible if it is not within the tolerance: noise cannot change it.
    pub(super) fn never_other(self) -> Self {
        Self {
            impossible: !self.met,
            ..self
        }
    }

    /// Return the measured number; none for a word, or if nothing was measured.
    pub(super) fn measured_number(&self) -> Option<f64> {
        match self.measured {
            Some(Quantity::Number(number)) => Some(number),
            Some(Quantity::Word(_)) | None => None,
        }
    }
}

/// Range of the allowed numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allowed {
    low: Option<f64>,
    high: Option<f64>,
}

impl Allowed {
    /// From one to the other.
    pub(super) const fn between(low: f64, high: f64) -> Self {
        Self {
            low: Some(low),
            high: Some(high),
        }
    }

    /// Allow `value` and nothing else.
    pub(super) const fn exactly(value: f64) -> Self {
        Self::between(value, value)
    }

    /// Allow `low` or more.
    pub(super) const fn at_least(low: f64) -> Self {
        Self {
            low: Some(low),
            high: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_met(measured: f64, allowed: Allowed) -> bool {
        SelftestFigure::number("p50", (Unit::Us, 20.0), Some(measured), allowed).met
    }

    #[test]
    fn the_ends_of_a_tolerance_are_within_it() {
        let allowed = Allowed::between(20.0, 25.0);
        assert_eq!(
            [19.99, 20.0, 25.0, 25.01].map(|us| is_met(us, allowed)),
            [false, true, true, false]
        );
        assert_eq!(
            [19.0, 20.0, 21.0].map(|us| is_met(us, Allowed::exactly(20.0))),
            [false, true, false]
        );
        assert_eq!(
            [7.9, 8.0, 1e9].map(|ratio| is_met(ratio, Allowed::at_least(8.0))),
            [false, true, true]
        );
        assert!(!is_met(f64::NAN, allowed));
    }

    #[test]
    fn noise_makes_times_longer_and_never_shorter() {
        let figure =
            |us| SelftestFigure::number("p50", (Unit::Us, 20.0), us, Allowed::between(20.0, 25.0));
        let never_less =
            [Some(19.0), Some(20.0), Some(26.0), None].map(|us| figure(us).never_less().impossible);
        assert_eq!(never_less, [true, false, false, false]);
        assert_eq!(
            [19.0, 20.0, 26.0].map(|us| figure(Some(us)).never_other().impossible),
            [true, false, true]
        );
        assert!(!figure(Some(19.0)).impossible);
    }

    #[test]
    fn what_is_not_there_is_within_no_tolerance() {
        let figure = SelftestFigure::number("p99", (Unit::Us, 20.0), None, Allowed::at_least(0.0));
        assert_eq!(
            (figure.met, figure.error, figure.measured),
            (false, None, None)
        );
        assert!(SelftestFigure::word("verdict", "client_limited", "client_limited").met);
        assert!(!SelftestFigure::word("verdict", "client_limited", "valid").met);
    }
}
