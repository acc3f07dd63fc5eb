//! Dates of header fields.

use jiff::fmt::rfc2822::DateTimeParser;

/// Parse a date of HTTP, cookies or mail: `Wed, 21 Oct 2015 07:28:00 GMT`, with hyphens as in the
/// older `21-Oct-2015` or without. Return seconds since 1970.
pub(crate) fn seconds(text: &[u8]) -> Option<i64> {
    const PARSER: DateTimeParser = DateTimeParser::new();
    let text = std::str::from_utf8(text).ok()?.trim();
    // The name of the day says nothing, and may be written out.
    let date = text.split_once(',').map_or(text, |(_, date)| date.trim());
    let instant = PARSER
        .parse_timestamp(date)
        .or_else(|_| PARSER.parse_timestamp(date.replacen('-', " ", 2)));
    Some(instant.ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_time_is_read_as_itself_and_in_its_zone(second in 0..253_402_207_200_i64) {
            let instant = jiff::Timestamp::from_second(second).unwrap();
            for (format, offset) in [
                ("%a, %d %b %Y %H:%M:%S GMT", 0),
                ("%a, %d-%b-%Y %H:%M:%S GMT", 0),
                ("%A, %d-%b-%Y %H:%M:%S UT", 0),
                ("%d %b %Y %H:%M:%S +0100", -3_600),
            ] {
                let text = instant.strftime(format).to_string();
                prop_assert_eq!(seconds(text.as_bytes()), Some(second + offset), "{}", text);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, text in "[0-9: a-zA-Z,-]{0,30}") {
            let _ = (seconds(&bytes), seconds(text.as_bytes()));
        }
    }
}
