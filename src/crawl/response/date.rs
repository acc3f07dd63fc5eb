//! Dates of header fields.

use std::time::SystemTime;

/// Parse a date as HTTP has it (RFC 9110, 5.6.7), or with the hyphens of older cookies:
/// `Wed, 21-Oct-2015 07:28:00 GMT`.
pub(crate) fn time(text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.trim();
    httpdate::parse_http_date(text)
        .or_else(|_| httpdate::parse_http_date(&text.replace('-', " ")))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_time_is_read_as_itself(second in 0..253_402_207_200_u64) {
            let instant = jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            for format in ["%a, %d %b %Y %H:%M:%S GMT", "%a, %d-%b-%Y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
                let text = instant.strftime(format).to_string();
                prop_assert_eq!(super::time(text.as_bytes()), Some(time), "{}", text);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, text in "[0-9: a-zA-Z,-]{0,30}") {
            let _ = (time(&bytes), time(text.as_bytes()));
        }
    }
}
