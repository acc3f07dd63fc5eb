//! JSON written as Java's JSON library (Jackson) writes it for WireMock: without spaces, members in
//! the order of the file, numbers never with an exponent.
//!
//! Numbers have gone through 64 bits, so three spellings are not kept: trailing zeros (`1.50` is
//! answered as `1.5`), digits beyond the seventeenth, and whole numbers written with an exponent
//! (`1e3` is answered as `1000.0`).

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use serde_json::{Number, Value};
use std::io::{self, Write};

/// The text of a JSON value.
pub(crate) fn text(value: &Value) -> String {
    let mut out = Vec::new();
    // Neither writing to memory nor a JSON value can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, Jackson));
    String::from_utf8(out).unwrap_or_default()
}

/// The text of a number.
pub(crate) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => plain(float),
        _ => number.to_string(),
    }
}

/// At or above 2^64 a number with a fraction of zero was an integer that has no other place than a
/// float.
const BEYOND_INTEGERS: f64 = 18_446_744_073_709_551_616.0;

fn plain(float: f64) -> String {
    // Java's decimals have no negative zero.
    let float = if float == 0.0 { 0.0 } else { float };
    let mut text = float.to_string();
    if !text.contains('.') && float.abs() < BEYOND_INTEGERS {
        text.push_str(".0");
    }
    text
}

struct Jackson;

impl Formatter for Jackson {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(plain(value).as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04X}"),
            escape => CompactFormatter.write_char_escape(writer, escape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewritten(given: &str) -> String {
        text(&serde_json::from_str(given).unwrap())
    }

    #[test]
    fn text_is_as_jackson_writes_it() {
        for (given, expected) in [
            (
                r#" { "b" : 1 , "a" : [ 1.0, -2.5, null, true ] } "#,
                r#"{"b":1,"a":[1.0,-2.5,null,true]}"#,
            ),
            (r#"{"z":1,"a":2,"z":3}"#, r#"{"z":3,"a":2}"#),
            (
                r#""\u001f\n\u00e4\/\u007f\"""#,
                "\"\\u001F\\n\u{e4}/\u{7f}\\\"\"",
            ),
            ("1e-7", "0.0000001"),
            ("18446744073709551615", "18446744073709551615"),
            ("100000000000000000000", "100000000000000000000"),
            ("-0.0", "0.0"),
            // Where ours differs: Jackson keeps `1.50`, and writes `1000`.
            ("1.50", "1.5"),
            ("1e3", "1000.0"),
        ] {
            assert_eq!(rewritten(given), expected, "{given}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_the_same_value(float in any::<f64>().prop_filter("JSON", |float| float.is_finite()), text in "\\PC*") {
            let value = serde_json::json!({"number": float, "text": text});
            let mut back: Value = serde_json::from_str(&super::text(&value)).unwrap();
            if float == 0.0 {
                back["number"] = serde_json::json!(float);
            }
            prop_assert_eq!(back["number"].as_f64(), Some(float));
            prop_assert_eq!(&back["text"], &value["text"]);
        }
    }
}
