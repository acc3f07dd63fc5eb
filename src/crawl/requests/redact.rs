//! Redaction of secrets (tokens, passwords, header values) in URLs, headers, commands and messages,
//! before they are saved or printed.
//!
//! Called wherever such text leaves the program: a saved command line goes through [`words`],
//! [`header`] and [`url()`], and every message through [`text`]. Values of headers and bodies are
//! never shown. In URLs and commands, values whose names look like secrets are left out, including
//! some that are not secret.

use std::sync::LazyLock;

use http::header::HeaderName;
use percent_encoding::percent_decode_str;
use regex::{Captures, Regex};

/// Stands for a value that is left out.
pub(super) const WITHHELD: &str = "...";

/// Names of secrets, or parts of such names.
const PARTS: [&str; 24] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "apikey",
    "accesskey",
    "accessid",
    "keypairid",
    "assertion",
    "signature",
    "credential",
    "auth",
    "session",
    "sessid",
    "cookie",
    "bearer",
    "private",
    "jwt",
    "hmac",
    "nonce",
    "csrf",
    "xsrf",
    "saml",
    "verifier",
];

/// Words that make a name that of a secret: too short to be looked for within words, as in
/// `mapping` and `aside`.
const WORDS: [&str; 20] = [
    "sig",
    "pwd",
    "pw",
    "pass",
    "sid",
    "otp",
    "totp",
    "hotp",
    "mfa",
    "pin",
    "pincode",
    "cvc",
    "cvv",
    "ssn",
    "salt",
    "cred",
    "creds",
    "ticket",
    "passcode",
    "clearance",
];

/// Whole names of secrets.
const NAMES: [&str; 2] = ["key", "code"];

/// Redact a URL, or the end of one: its user name and password, and the values of secret parameters
/// of its path and query. A value goes on until a parameter with a name of its own follows, so that
/// one with a space or an `&` in it is left out whole.
#[must_use]
pub fn url(url: &str) -> String {
    let url = without_credentials(url);
    let query = url.find('?').unwrap_or(url.len());
    let mut redacted = String::with_capacity(url.len());
    let (mut at, mut is_withheld) = (0, false);
    while at < url.len() {
        let in_query = at > query;
        let ends: &[char] = if in_query {
            &['&', ';']
        } else {
            &['&', ';', '/', '?']
        };
        let end = url[at..].find(ends).map_or(url.len(), |length| at + length);
        let (piece, end) = (&url[at..end], url.len().min(end + 1));
        let shown = assignment(piece);
        let is_named = piece.contains('=');
        // What has no name belongs to the value before it.
        if is_named || !is_withheld {
            redacted.push_str(&shown);
            redacted.push_str(&url[at + piece.len()..end]);
        }
        is_withheld = if is_named {
            shown != piece
        } else {
            is_withheld
        };
        // A segment of a path ends with it.
        is_withheld &= in_query || !url[..end].ends_with('/');
        at = end;
    }
    redacted
}

/// Redact every URL in a text. One between quotation marks goes up to the closing one, spaces
/// included.
#[must_use]
pub fn text(text: &str) -> String {
    PIECES
        .replace_all(text, |found: &Captures<'_>| piece(&found[0]))
        .into_owned()
}

/// A part of a text between quotation marks, or a word. An apostrophe in a word opens nothing.
#[expect(clippy::expect_used, reason = "a pattern that is known to be valid")]
static PIECES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\B'[^']*'|\B"[^"]*"|\B`[^`]*`|[^\s'"`]+"#).expect("a valid pattern")
});

fn piece(piece: &str) -> String {
    let mark = &piece[..1.min(piece.floor_char_boundary(1))];
    if piece.len() > 1 && matches!(mark, "'" | "\"" | "`") {
        let inner = &piece[1..piece.len() - 1];
        let shown = if inner.contains("://") || inner.contains('?') {
            url(inner)
        } else {
            text(inner)
        };
        return [mark, &shown, mark].concat();
    }
    let word = piece.trim_start_matches('(');
    let opening = &piece[..piece.len() - word.len()];
    // A bracket that is closed and was not opened in the URL is of the sentence.
    let is_closed = word.ends_with(')') && word.matches(')').count() > word.matches('(').count();
    let (word, closing) = word.split_at(word.len() - usize::from(is_closed));
    [opening, &url(word), closing].concat()
}

/// Redact the value of a header as typed (`name: value`), and all of what is no header.
#[must_use]
pub fn header(header: &str) -> String {
    let name = header.split_once(':').map_or("", |(name, _)| name.trim());
    let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok();
    format!("{}: {WITHHELD}", if is_name { name } else { "" })
}

/// Redact the words of a command line: of `run`, or of any other program.
#[must_use]
pub fn words(words: &[String]) -> Vec<String> {
    let mut next: Option<fn(&str) -> String> = None;
    let mut redacted = Vec::with_capacity(words.len());
    for word in words {
        if let Some(redact) = next.take() {
            redacted.push(redact(word));
            continue;
        }
        let (flag, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((flag, value)) => (flag, Some(value)),
            None if word.starts_with("-H") || (word.starts_with("-a") && word.contains(':')) => {
                word.split_at_checked(2)
                    .map_or((&**word, None), |(flag, value)| {
                        (flag, Some(value).filter(|value| !value.is_empty()))
                    })
            }
            None => (&**word, None),
        };
        let redact = redaction_of(flag);
        redacted.push(match (redact, value) {
            (Some(redact), Some(value)) if flag.len() == 2 => format!("{flag}{}", redact(value)),
            (Some(redact), Some(value)) => format!("{flag}={}", redact(value)),
            (Some(_), None) => word.clone(),
            // A URL, or the variable of a command.
            (None, _) if word.contains("://") || word.contains('?') => url(word),
            (None, _) => without_credentials(&assignment(word)),
        });
        next = redact.filter(|_| value.is_none());
    }
    redacted
}

/// Return what redacts the value of a flag; none of one whose value is no secret.
fn redaction_of(flag: &str) -> Option<fn(&str) -> String> {
    match flag {
        "-H" | "--header" => Some(header),
        "--body" | "--data" | "--json-body" | "--target-probe" => Some(all),
        // Its `key=` names what a limit counts.
        "--limit" | "--target-limit" => Some(str::to_owned),
        // `--auth`; the letter means other things elsewhere.
        "-a" => Some(user_and_password),
        // The name of a variable; and a flag that turns something off has no value: `--no-pin`.
        "--bearer-env" => None,
        _ if flag.starts_with("--no-") => None,
        _ if flag.starts_with("--") && is_secret(flag) => Some(all),
        _ => None,
    }
}

fn all(_: &str) -> String {
    WITHHELD.to_owned()
}

fn user_and_password(value: &str) -> String {
    let shown = if value.contains(':') { WITHHELD } else { value };
    shown.to_owned()
}

/// Redact a line as typed, or return it as it is where it holds no secret.
#[must_use]
pub fn line(line: &str) -> String {
    // What no shell can read is not shown either.
    let Some(all) = shlex::split(line) else {
        return WITHHELD.to_owned();
    };
    let redacted = words(&all);
    if redacted == all {
        line.to_owned()
    } else {
        redacted.join(" ")
    }
}

/// Redact the user name and password of a URL up to its query, with or without a scheme.
fn without_credentials(path: &str) -> String {
    let start = path.find("://").map_or(0, |scheme| scheme + 3);
    let start = start + path[start..].find(|c| c != '/').unwrap_or(0);
    let authority = path[start..]
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    // A password with a slash in it goes on until the last `@`. Digits are a port.
    let holds_password = authority.split_once(':').is_some_and(|(_, rest)| {
        !rest.starts_with('/') && rest.contains(|c: char| !c.is_ascii_digit())
    });
    let authority = if holds_password && !authority.contains(['@', '[']) {
        &path[start..]
    } else {
        authority
    };
    match authority.rfind('@') {
        // Without a scheme it may be an address of mail.
        Some(at) if start > 0 || authority[..at].contains(':') => {
            format!("{}{WITHHELD}{}", &path[..start], &path[start + at..])
        }
        _ => path.to_owned(),
    }
}

/// Redact what follows the first name of a secret in `name=value`.
fn assignment(text: &str) -> String {
    let named = text
        .match_indices('=')
        .map(|(at, _)| text.split_at(at + 1))
        .find(|(name, value)| {
            let name = name
                .trim_end_matches('=')
                .rsplit(['?', '#', '='])
                .next()
                .unwrap_or_default();
            !value.is_empty() && is_secret(name)
        });
    named.map_or_else(|| text.to_owned(), |(name, _)| format!("{name}{WITHHELD}"))
}

/// True if a parameter, a header or a flag of this name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    // A server reads `%74oken` as `token`.
    let name = percent_decode_str(name).decode_utf8_lossy();
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    NAMES.contains(&&*plain)
        || plain.ends_with("key")
        || PARTS.iter().any(|part| plain.contains(part))
        || words_of_name(&name)
            .iter()
            .any(|word| WORDS.contains(&&**word))
}

/// The words of a name, in lower case: `user_pin2`, `user-pin` and `userPin` are `user` and `pin`.
fn words_of_name(name: &str) -> Vec<String> {
    let (mut words, mut follows_lower) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && follows_lower) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphabetic(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        follows_lower = c.is_ascii_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names under which APIs, signed URLs and logins take their secrets.
    const NAMED: [&str; 23] = [
        "ACCESS-TOKEN",
        "sid",
        "jwt",
        "hmac",
        "otp",
        "pin",
        "db_pass",
        "passphrase",
        "SAMLResponse",
        "AWSAccessKeyId",
        "Key-Pair-Id",
        "X-Amz-Credential",
        "X-Goog-Signature",
        "sig",
        "api-key",
        "key",
        "client_secret",
        "%74oken",
        "oauth_token",
        "code",
        "PHPSESSID",
        "pwd",
        "cf_clearance",
    ];

    fn secret_name() -> impl Strategy<Value = String> {
        let cases: [fn(&str) -> String; 3] = [str::to_owned, str::to_lowercase, str::to_uppercase];
        (
            prop::sample::select(&NAMED[..]),
            prop::sample::select(cases.to_vec()),
        )
            .prop_map(|(name, case)| case(name))
    }

    #[test]
    fn what_sounds_like_a_secret_is_left_out_of_a_url_and_nothing_else() {
        for (typed, shown) in [
            ("http://a/items/{id}", "http://a/items/{id}"),
            ("http://a/@user/{id}", "http://a/@user/{id}"),
            ("http://a/{id}?page=2&q=key", "http://a/{id}?page=2&q=key"),
            ("?sig=1&key=&password=p", "?sig=...&key=&password=..."),
            (
                "http://a/keys/{id}?monkeys=3&keyboard=us",
                "http://a/keys/{id}?monkeys=3&keyboard=us",
            ),
            ("http://user:hush@a/{id}?x=1", "http://...@a/{id}?x=1"),
            ("http://hush@a:80", "http://...@a:80"),
            ("https://u:h@sh@a/", "https://...@a/"),
            ("u:hush@a/x", "...@a/x"),
            ("http:///u:hush@a", "http:///...@a"),
            ("http://u:hu/sh@a/{id}", "http://...@a/{id}"),
            ("http://h:80/@user/{id}", "http://h:80/@user/{id}"),
            (
                "http://a/?token=hush&hush&page=2",
                "http://a/?token=...&page=2",
            ),
            (
                "http://a/?x=?token=hush/hush?a=hush",
                "http://a/?x=?token=...",
            ),
            ("http://a/x;token=hush/{id}", "http://a/x;token=.../{id}"),
            ("http://a/?token=...&b=1", "http://a/?token=...&b=1"),
            (
                "http://a/?side=1&aside=2&spin=3&pins=4&option=5",
                "http://a/?side=1&aside=2&spin=3&pins=4&option=5",
            ),
            ("someone@example.com", "someone@example.com"),
        ] {
            assert_eq!(url(typed), shown);
        }
    }

    #[test]
    fn every_url_of_a_text_is_redacted_and_the_rest_is_as_it_was() {
        assert_eq!(
            text("the target's base (http://h/?key=hush) with"),
            "the target's base (http://h/?key=...) with"
        );
        assert_eq!(
            text(
                "error: the URL `http://h/?key=hush#x`\nhas 'ftp://u:hush@b/' in it, \"fine?\" a=b\n"
            ),
            "error: the URL `http://h/?key=...`\nhas 'ftp://...@b/' in it, \"fine?\" a=b\n"
        );
    }

    proptest! {
        #[test]
        fn no_part_of_a_secret_survives(
            secret in "[\\x21-\\x25\\x27-\\x3a\\x3c\\x3e-\\x7e é]{4,20}",
            name in secret_name(), before in "|page=2&|page=2;|a=|a=\\?", after in "|&page=2",
            mark in "[`'\"]",
        ) {
            // What a URL typed with it would end, or what is the name of something else, is no part
            // of it.
            let url_typed = format!("http://h:80/items/{{id}}?{before}{name}={secret}{after}");
            let mut shown = vec![url(&url_typed), line(&shlex::try_join(["--url", &url_typed]).unwrap())];
            if !secret.contains(&mark) {
                shown.push(text(&format!("error: the URL {mark}{url_typed}{mark} cannot be read")));
            }
            let letters: Vec<char> = secret.chars().collect();
            for part in letters.windows(4).map(|part| part.iter().collect::<String>()) {
                let elsewhere = format!("error: the URL http://h:80/items/{{id}}?{before}{name}=...{after} cannot be read --url");
                for shown in &shown {
                    prop_assert!(!shown.contains(&part) || elsewhere.contains(&part), "{part:?} in {shown}");
                }
            }
        }

        #[test]
        fn no_part_of_a_header_survives(secret in "[a-zA-Z0-9:\n\t ]{4,20}", name in "authorization:|Bearer\n|") {
            let shown = header(&format!("{name}{secret}"));
            // With a colon it may be a name.
            if name.ends_with(':') || !secret.contains(':') {
                prop_assert!(shown == "authorization: ..." || shown == ": ...", "{shown}");
            }
        }
    }

    #[test]
    fn a_command_line_holds_no_secret() {
        for (typed, shown) in [
            (
                "-c 8  --target-latency '20ms'",
                "-c 8  --target-latency '20ms'",
            ),
            (
                "-c 8 -H 'authorization: Bearer hush'",
                "-c 8 -H authorization: ...",
            ),
            ("-H'x-key: hush' --body hush", "-Hx-key: ... --body ..."),
            (
                "'--header=cookie:hush' --body=hush -c 2",
                "--header=cookie: ... --body=... -c 2",
            ),
            (
                "http://u:hush@h/{id}?token=hush -c 2",
                "http://...@h/{id}?token=... -c 2",
            ),
            (
                "SECRET=hush ./server --api-key hush --proxy-auth=u:hush -p 1",
                "SECRET=... ./server --api-key ... --proxy-auth=... -p 1",
            ),
            ("--no-pin -c 8", "--no-pin -c 8"),
            (
                "-a user:hush -auser:hush --auth=user:hush -a x",
                "-a ... -a... --auth=... -a x",
            ),
            (
                "--bearer-env TOKEN --json-body hush",
                "--bearer-env TOKEN --json-body ...",
            ),
            (
                "--pin hush --user-pin=hush -p 1",
                "--pin ... --user-pin=... -p 1",
            ),
            ("-H hush", "-H : ..."),
            ("'hush", "..."),
        ] {
            assert_eq!(line(typed), shown);
        }
    }
}
