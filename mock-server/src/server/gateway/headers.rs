//! Headers of a message that passes through the proxy (RFC 9110, 7.6).
//!
//! It must not touch those that are meant for the other end.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};

/// Name of the proxy in `Via`.
const PSEUDONYM: HeaderValue = HeaderValue::from_static("1.1 crawlmark");

/// Concern one hop only, whether `Connection` names them or not.
const HOP_BY_HOP: [HeaderName; 8] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    // Met by the HTTP library as soon as the body is read.
    EXPECT,
];

/// Takes out what concerns the last hop only, and says who passed the message on.
pub(super) fn pass_on(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    if headers.contains_key(TRANSFER_ENCODING) {
        // It overrules a length (RFC 9112, 6.3), and goes away itself: the next hop gets a framing
        // of its own.
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(CONNECTION);
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.append(VIA, PSEUDONYM);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        pass_on(&mut map);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        map.iter().map(text).collect()
    }

    fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_concerns_one_hop_is_taken_out() {
        let given = [
            ("connection", "keep-alive, X-Mine"),
            ("connection", " x-other ,, close, b@d"),
            ("x-mine", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("proxy-authenticate", "Basic"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("authorization", "Bearer z"),
            ("content-length", "5"),
            ("cookie", "a=b"),
        ];
        let kept = [
            ("authorization", "Bearer z"),
            ("content-length", "5"),
            ("cookie", "a=b"),
            ("via", "1.1 crawlmark"),
        ];
        let mut passed = passed(&given);
        passed.sort();
        assert_eq!(passed, pairs(&kept));
    }

    #[test]
    fn a_framing_that_overrules_a_length_takes_it_along() {
        let given = [("transfer-encoding", "chunked"), ("content-length", "5")];
        assert_eq!(passed(&given), pairs(&[("via", "1.1 crawlmark")]));
    }

    #[test]
    fn whoever_passed_it_on_before_stays_named() {
        assert_eq!(
            passed(&[("via", "1.0 a")]),
            pairs(&[("via", "1.0 a"), ("via", "1.1 crawlmark")])
        );
    }
}
