//! Numbers that a command prints: where they stand, and which way they get worse.

use std::borrow::Cow;

use crawlmark_results::studies::compare::{Metric, Worse};
use regex::Regex;
use serde_json::Value;

/// A number that a command prints.
#[derive(Debug, Clone)]
pub struct PrintedValue {
    /// Its name in reports.
    pub name: String,
    place: Place,
}

/// Where a number stands.
#[derive(Debug, Clone)]
enum Place {
    /// What the first group of a pattern matches, or else the whole pattern, where it does so
    /// first: in the output, or else in the errors.
    Pattern(Regex),
    /// A JSON pointer (RFC 6901) into the output.
    Pointer(String),
}

impl PrintedValue {
    /// Parse `NAME=REGEX` or `NAME=json:POINTER`.
    ///
    /// # Errors
    /// When it has neither form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, place) = text
            .split_once('=')
            .filter(|(name, place)| !name.trim().is_empty() && !place.is_empty())
            .ok_or("write NAME=REGEX or NAME=json:POINTER, as in 'qps=([0-9.]+) requests/s'")?;
        let place = match place.strip_prefix("json:") {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                Place::Pointer(pointer.to_owned())
            }
            Some(pointer) => {
                return Err(format!(
                    "json:{pointer} is no JSON pointer: write json:/{}",
                    pointer.replace('.', "/")
                ));
            }
            None => Place::Pattern(Regex::new(place).map_err(|error| error.to_string())?),
        };
        Ok(Self {
            name: name.trim().to_owned(),
            place,
        })
    }

    /// The value as it is typed: `NAME=PLACE`.
    pub(crate) fn typed(&self) -> String {
        let place = match &self.place {
            Place::Pattern(pattern) => pattern.to_string(),
            Place::Pointer(pointer) => format!("json:{pointer}"),
        };
        format!("{}={place}", self.name)
    }

    /// Read the number.
    ///
    /// # Errors
    /// When it is not there, or no number.
    pub(crate) fn read(&self, output: &str, errors: &str) -> Result<f64, String> {
        let name = &self.name;
        let found: Cow<'_, str> = match &self.place {
            Place::Pattern(pattern) => {
                let captures = pattern
                    .captures(output)
                    .or_else(|| pattern.captures(errors))
                    .ok_or_else(|| format!("--value {name}: nothing matches {pattern}"))?;
                let group = captures.get(1).or_else(|| captures.get(0));
                group.map_or("", |group| group.as_str()).into()
            }
            Place::Pointer(pointer) => {
                let json: Value = serde_json::from_str(output)
                    .map_err(|error| format!("--value {name}: the output is no JSON: {error}"))?;
                match json.pointer(pointer) {
                    Some(Value::Number(number)) => number.to_string().into(),
                    Some(Value::String(text)) => text.clone().into(),
                    Some(_) => return Err(format!("--value {name}: {pointer} is no number")),
                    None => return Err(format!("--value {name}: there is no {pointer}")),
                }
            }
        };
        ungrouped(found.trim())
            .and_then(|plain| plain.parse::<f64>().ok())
            .filter(|number| number.is_finite())
            .ok_or_else(|| format!("--value {name}: {found:?} is no number"))
    }

    /// The metric of this number.
    pub(crate) fn metric(&self, worse: Worse, unit: &str) -> Metric {
        Metric::named(&self.name, unit, worse)
    }
}

/// A number without the separators of its thousands, as in `1,234.5`; none where a comma or an
/// underscore parts anything else: `1,5` may be a decimal fraction.
fn ungrouped(number: &str) -> Option<String> {
    let unsigned = number.trim_start_matches(['-', '+']);
    let whole = unsigned.split(['.', 'e', 'E']).next().unwrap_or_default();
    let mut groups = whole.split([',', '_']);
    let is_grouped = groups
        .next()
        .is_some_and(|first| (1..=3).contains(&first.len()))
        && groups.all(|group| group.len() == 3)
        && !unsigned[whole.len()..].contains([',', '_']);
    let plain = number.replace([',', '_'], "");
    (plain == number || is_grouped).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str, output: &str, errors: &str) -> Option<f64> {
        PrintedValue::parse(value)
            .unwrap()
            .read(output, errors)
            .ok()
    }

    #[test]
    fn a_number_is_read_where_it_stands() {
        for (value, output, errors, expected) in [
            ("q=([0-9.]+)/s", "did 12.5/s, 13/s", "", Some(12.5)),
            ("q=[0-9.]+", "did 12.5/s", "", Some(12.5)),
            (
                "i=([0-9,]+) +instructions",
                "",
                " 1,234,567  instructions:u",
                Some(1_234_567.0),
            ),
            ("q=json:/a/1/b", r#"{"a":[0,{"b":-2e3}]}"#, "", Some(-2e3)),
            ("q=json:/a", r#"{"a":"7"}"#, "", Some(7.0)),
            ("q=json:/a", r#"{"a":null}"#, "", None),
            ("q=json:/b", r#"{"a":1}"#, "", None),
            ("q=json:/b", "no json", "", None),
            ("q=(.+)", "1,234.5", "", Some(1_234.5)),
            ("q=(.+)", "-1,234,567", "", Some(-1_234_567.0)),
            ("q=(.+)", "1,5", "", None),
            ("q=(.+)", "1.234,5", "", None),
            ("q=(.+)", "1234,567", "", None),
            ("q=(.+)", "12345678", "", Some(12_345_678.0)),
            ("q=([a-z]+)", "inf", "", None),
            ("q=([0-9]+)", "none", "", None),
        ] {
            assert_eq!(read(value, output, errors), expected, "{value}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for value in ["", "q", "q=", "=x", "q=(", "q=json:a.b"] {
            assert!(PrintedValue::parse(value).is_err(), "{value}");
        }
    }
}
