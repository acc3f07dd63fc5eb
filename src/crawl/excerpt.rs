//! Excerpts of failed answers for reports: the first bytes of a body, without what the request kept
//! secret.
//!
//! Called by the crawl for the first failure of each cause. It redacts what the request sent and
//! secrets by name, and cannot know the target's own.

use std::cmp::Reverse;
use std::sync::LazyLock;

use crawlmark_harness::stats::MAX_EXCERPT;
use regex::Regex;

use super::requests::{
    redact,
    shape::{RequestShape, SHORTEST_WORD},
};

/// Length of an excerpt, bytes of the body.
const KEPT: usize = MAX_EXCERPT;

/// Shortest start of a withheld word that is removed when the excerpt ends within the word, bytes.
const LEAST: usize = 4;

/// Replacement of what is removed.
const WITHHELD: &str = "...";

/// Return the start of a body as text; none of an empty one. A target may echo its request, so the
/// words of the request's headers and body, and the secrets of its URL, are removed: of the request
/// of all lines, and of that of its own line, if it has one.
pub(crate) fn excerpt(
    body: &[u8],
    request: &RequestShape,
    own: Option<&RequestShape>,
    path: &str,
) -> Option<String> {
    let kept = &body[..body.len().min(KEPT)];
    let mut text = String::from_utf8_lossy(kept).into_owned();
    let shown = redact::url(path);
    let mut withheld: Vec<String> = words(path)
        .filter(|word| !shown.contains(word))
        .map(str::to_owned)
        .collect();
    let own = own.into_iter().flat_map(RequestShape::texts);
    for sent in request.texts().into_iter().chain(own) {
        // Of a body of many megabytes, nearly every word is in no excerpt.
        let echoed = words(&sent).filter(|word| text.contains(start(word, LEAST)));
        withheld.extend(echoed.map(str::to_owned));
    }
    for secret in request.short_secrets() {
        text = without_word(&text, secret);
    }
    withheld.sort_by_key(|word| Reverse(word.len()));
    withheld.dedup();
    for word in &withheld {
        text = text.replace(word.as_str(), WITHHELD);
    }
    let cut = withheld.iter().filter_map(|word| {
        (LEAST..word.len())
            .rev()
            .find(|length| text.ends_with(start(word, *length)))
    });
    if let Some(length) = cut.max() {
        text.truncate(text.floor_char_boundary(text.len() - length));
        text.push_str(WITHHELD);
    }
    let text = BASIC.replace_all(&text, format!("$1 {WITHHELD}"));
    let text = redact::text(text.trim());
    (!text.is_empty()).then_some(text)
}

/// The first so many bytes of a text, or fewer where a character would be cut.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Credentials of a proxy, which are encoded, and differ for each session. Schemes may be in
/// capitals or not (RFC 9110, section 11.1).
#[expect(clippy::expect_used, reason = "a pattern that is known to be valid")]
static BASIC: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(?i)(basic)\\s+[a-z0-9+/=]+").expect("a valid pattern"));

/// Remove a secret that is too short to be looked for within words, where it is one.
fn without_word(text: &str, secret: &str) -> String {
    let (mut kept, mut at) = (String::new(), 0);
    for (start, _) in text.match_indices(secret) {
        let end = start + secret.len();
        let is_part = text[..start].ends_with(char::is_alphanumeric)
            || text[end..].starts_with(char::is_alphanumeric);
        if !is_part {
            kept.extend([&text[at..start], WITHHELD]);
            at = end;
        }
    }
    kept + &text[at..]
}

/// Characters that separate words.
const ENDS: &[char] = &[
    ' ', '\t', '\r', '\n', '"', '\'', '&', '=', '?', '/', ';', ',',
];

/// Characters that separate the parts of a word.
const BRACKETS: &[char] = &[':', '{', '}', '[', ']', '(', ')', '<', '>'];

/// Split a text into words, and return those that are long enough to be secrets.
fn words(text: &str) -> impl Iterator<Item = &str> {
    // Whole words, too: the parts of `ab/cd1/ef2` are too short to be secrets by themselves.
    text.split_whitespace()
        .chain(text.split(ENDS))
        .chain(text.split(ENDS).flat_map(|word| word.split(BRACKETS)))
        .filter(|word| word.len() >= SHORTEST_WORD)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_part_of_a_header_or_a_body_that_is_echoed_survives(
            secret in "[a-zA-Z0-9]{12,40}", before in "[ .]{0,220}", end in 0..40_usize,
        ) {
            let header = format!("authorization: Bearer {secret}");
            let request = RequestShape::new("POST", std::slice::from_ref(&header), Bytes::from(format!("id=1 {secret}"))).unwrap();
            let body = format!("{before}no: {header}, /a?token={secret}&b=1, key: {secret}0");
            let text = excerpt(body.as_bytes(), &request, None, &format!("/a?key={secret}0")).unwrap_or_default();
            let parts = (0..=secret.len() - 6).map(|at| &secret[at..at + 6]);
            for part in parts {
                prop_assert!(!text.contains(part), "{text}");
            }
            prop_assert!(text.len() <= KEPT + 3 * WITHHELD.len());
            prop_assert!(excerpt(&b" \n"[..end.min(2)], &request, None, "/").is_none());
        }
    }

    #[test]
    fn secrets_with_marks_within_or_around_them_are_withheld() {
        for (header, sent, echoed, secret) in [
            ("x-key: ab/cd1/ef2", "", "no key ab/cd1/ef2", "ab/cd1/ef2"),
            (
                "x-a: b",
                "{\"pin\":123456}",
                "pin 123456 is wrong",
                "123456",
            ),
            (
                "x-a: b",
                "{\"pin\":[123456]}",
                "pin (123456) is wrong",
                "123456",
            ),
        ] {
            let request =
                RequestShape::new("POST", &[header.to_owned()], Bytes::from(sent)).unwrap();
            let text = excerpt(echoed.as_bytes(), &request, None, "/").unwrap();
            assert!(!text.contains(secret) && text.contains(WITHHELD), "{text}");
        }
    }

    #[test]
    fn short_parts_of_credentials_are_withheld_as_words() {
        let request = RequestShape::new("GET", &[], Bytes::new())
            .unwrap()
            .withholding(["hi", "1234", "-"].into_iter());
        let text = excerpt(
            b"hi: this password (1234) is not 12345-hi",
            &request,
            None,
            "/",
        )
        .unwrap();
        assert_eq!(text, "...: this password (...) is not 12345-...");
    }

    #[test]
    fn an_error_page_is_shown_as_it_is() {
        let request = RequestShape::new("GET", &[], Bytes::new()).unwrap();
        assert_eq!(
            excerpt(b"{\"error\":\"boom\"}\n", &request, None, "/items/1").unwrap(),
            "{\"error\":\"boom\"}"
        );
        assert_eq!(
            excerpt(&[b'x'; 999], &request, None, "/items/1")
                .unwrap()
                .len(),
            KEPT
        );
    }
}
