//! The text of a mapping file to a JSON value, with the two liberties that WireMock takes:
//! comments, and texts in single quotes (Jackson's `ALLOW_COMMENTS` and `ALLOW_SINGLE_QUOTES`, set
//! in its `common/Json.java`).
//!
//! It must not know what the value means.

use jsonc_parser::ParseOptions;
use serde_json::Value;

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

/// Reads a text of UTF-8, with or without a byte order mark. Of fields that come twice the last one
/// counts, as for Jackson. Values nested deeper than 512 are an error, so that no text can overflow
/// the stack; so is a text without a value.
pub(crate) fn parse(text: &[u8]) -> Result<Value, SyntaxError> {
    let text = str::from_utf8(text).map_err(|error| not_utf8(text, error.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Option<Value> =
        jsonc_parser::parse_to_serde_value(text, &LIBERTIES).map_err(|error| SyntaxError {
            line: error.line_display(),
            column: error.column_display(),
            what: error.kind().to_string(),
        })?;
    match value {
        Some(value) => Ok(value),
        // So far null and nothing are the same.
        None if matches!(jsonc_parser::parse_to_value(text, &LIBERTIES), Ok(Some(_))) => {
            Ok(Value::Null)
        }
        None => Err(SyntaxError {
            line: 1,
            column: 1,
            what: "there is no value".to_owned(),
        }),
    }
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

fn not_utf8(text: &[u8], valid: usize) -> SyntaxError {
    let before = String::from_utf8_lossy(text.get(..valid).unwrap_or_default());
    let last_line = before.rsplit('\n').next().unwrap_or_default();
    SyntaxError {
        line: before.matches('\n').count() + 1,
        column: last_line.chars().count() + 1,
        what: "this byte is not UTF-8; mapping files are read as UTF-8".to_owned(),
    }
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
            parse(text.as_bytes()).unwrap(),
            json!({"url": "/it's", "n": [1, -2500.0, true, null]})
        );
        assert_eq!(parse(b"{\"a\": 1, \"a\": 2}").unwrap(), json!({"a": 2}));
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
            assert!(parse(deep(200).as_bytes()).is_ok());
            assert!(parse(deep(600).as_bytes()).is_err());
        }
    }

    proptest! {
        #[test]
        fn whatever_is_json_is_read_alike(text in "[\\[\\]{}:,\"a1.e+ -]{0,24}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(parse(text.as_bytes()).ok(), Some(value));
            }
        }

        #[test]
        fn junk_is_no_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text);
        }
    }
}
