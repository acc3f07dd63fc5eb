//! JSON as WireMock reads it: with comments and texts in single quotes (Jackson's `ALLOW_COMMENTS`
//! and `ALLOW_SINGLE_QUOTES`, set in its `common/Json.java`), and all digits of numbers.
//!
//! It must not know what the value means.

use jsonc_parser::ast::{self, Object};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// A text that is not JSON, and the place where that shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct SyntaxError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// In characters, counted from 1.
    pub(crate) column: usize,
    /// The problem there.
    pub(crate) what: String,
}

impl SyntaxError {
    fn at(text: &[u8], place: usize, what: &str) -> Self {
        let before = String::from_utf8_lossy(text.get(..place).unwrap_or_default());
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
            what: what.to_owned(),
        }
    }
}

/// JSON that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// Numbers whose digits the value does not keep, by their JSON pointers.
    pub(crate) numbers: BTreeMap<String, String>,
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        let numbers = BTreeMap::new();
        Self { value, numbers }
    }
}

/// Reads a text of UTF-8, with or without a byte order mark. Of fields that come twice the last one
/// counts, as for Jackson. Values nested deeper than 256 are an error, so that no text can overflow
/// the stack; so is a text without a value.
pub(crate) fn parse(text: &[u8]) -> Result<Document, SyntaxError> {
    let text = str::from_utf8(text).map_err(|error| {
        let what = "this byte is not UTF-8; mapping files are read as UTF-8";
        SyntaxError::at(text, error.valid_up_to(), what)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &LIBERTIES);
    let parsed = parsed.map_err(|error| SyntaxError {
        line: error.line_display(),
        column: error.column_display(),
        what: error.kind().to_string(),
    })?;
    let Some(parsed) = parsed.value else {
        return Err(SyntaxError::at(&[], 0, "there is no value"));
    };
    let mut numbers = BTreeMap::new();
    let value = value(&parsed, "", &mut numbers).map_err(|place| {
        let what = "this number does not fit into 64 bits";
        SyntaxError::at(text.as_bytes(), place, what)
    })?;
    Ok(Document { value, numbers })
}

/// Convert a parsed value, or return the place of a number that is too large.
fn value(
    parsed: &ast::Value<'_>,
    pointer: &str,
    numbers: &mut BTreeMap<String, String>,
) -> Result<Value, usize> {
    Ok(match parsed {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(truth) => Value::Bool(truth.value),
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        ast::Value::NumberLit(written) => {
            let number: Number =
                serde_json::from_str(written.value).map_err(|_| written.start())?;
            let digits = plain(written.value);
            if digits != plain(&number.to_string()) {
                numbers.insert(pointer.to_owned(), digits);
            }
            Value::Number(number)
        }
        ast::Value::Array(array) => {
            let elements = array.elements.iter().enumerate();
            let read = elements.map(|(index, element)| {
                value(element, &child(pointer, &index.to_string()), numbers)
            });
            Value::Array(read.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(Object { properties, .. }) => {
            let mut fields = Map::new();
            for field in properties {
                let (name, at) = (field.name.as_str(), child(pointer, field.name.as_str()));
                numbers.remove(&at);
                fields.insert(name.to_owned(), value(&field.value, &at, numbers)?);
            }
            Value::Object(fields)
        }
    })
}

/// Return the pointer to a part of a value (RFC 6901).
pub(crate) fn child(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Each is named, so that a new version of the parser cannot bring a new liberty unseen.
const LIBERTIES: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_single_quoted_strings: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Exponents beyond those of a float change nothing that could be sent.
const MAX_EXPONENT: i64 = 400;

/// Write a number of JSON as Java's `BigDecimal.toPlainString` does.
pub(crate) fn plain(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent
        .parse()
        .unwrap_or(0_i64)
        .clamp(-MAX_EXPONENT, MAX_EXPONENT);
    let mut digits = [whole, fraction].concat();
    // Java's decimals have no negative zero.
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let decimals = i64::try_from(fraction.len()).unwrap_or(i64::MAX) - exponent;
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    digits += &zeros(-decimals);
    let decimals = usize::try_from(decimals).unwrap_or_default();
    digits = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let (sign, point) = (
        if is_zero { "" } else { sign },
        if decimals > 0 { "." } else { "" },
    );
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn comments_and_single_quotes_are_read_and_nothing_else_that_is_not_json() {
        let text = "\u{feff}// a stub\n{ /* its */ 'url': \"/it's\", \"n\": [1, -2.5e3, true, null] } // end";
        assert_eq!(
            parse(text.as_bytes()).unwrap().value,
            json!({"url": "/it's", "n": [1, -2500.0, true, null]})
        );
        assert_eq!(
            parse(b"{\"a\": 1, \"a\": 2}").unwrap().value,
            json!({"a": 2})
        );
        let refused = [
            "[1,]",
            "[1 2]",
            "{a: 1}",
            "+1",
            "0x1",
            ".5",
            "NaN",
            r#""\x41""#,
            "{} {}",
            "# no",
            "[",
            "{\"a\"",
            "'a",
        ];
        for text in refused {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_names_its_line_and_column() {
        let error = parse(b"{\n  \"url\": \"/\",\n  \"a\": [1,]\n}").unwrap_err();
        assert_eq!((error.line, error.column), (3, 10), "{error}");
        let error = parse(b"{\n \"\xc3\xa4\xff\"").unwrap_err();
        assert_eq!((error.line, error.column), (2, 4), "{error}");
        assert!(error.what.contains("UTF-8"), "{error}");
    }

    #[test]
    fn depth_is_an_error_and_no_overflow() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            assert!(parse(open.repeat(1_000_000).as_bytes()).is_err());
            let deep = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(parse(deep(100).as_bytes()).is_ok());
            assert!(parse(deep(600).as_bytes()).is_err());
        }
    }

    proptest! {
        #[test]
        fn whatever_is_json_is_read_alike(text in "[\\[\\]{}:,\"a1.e+ -]{0,24}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(parse(text.as_bytes()).ok().map(|read| read.value), Some(value));
            }
        }

        #[test]
        fn junk_is_no_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text);
        }
    }
}
