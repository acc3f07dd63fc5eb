//! A URL as it may be shown and saved: without what its query holds of secrets.
//!
//! Headers and bodies are never told at all; a query is, for it says what was crawled. So the values of parameters whose names
//! sound like secrets are left out, at the price of some that are none.

/// What stands for a value that is not told.
const WITHHELD: &str = "...";

/// Names of secrets, or parts of such names.
const PARTS: [&str; 8] = ["token", "secret", "passw", "apikey", "signature", "credential", "auth", "session"];

/// Whole names of secrets.
const NAMES: [&str; 5] = ["key", "sig", "pwd", "pass", "code"];

/// The URL, or the end of one, without the values of such parameters.
#[must_use]
pub fn discreet(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let told: Vec<String> = query.split('&').map(parameter).collect();
    format!("{path}?{}", told.join("&"))
}

fn parameter(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => format!("{name}={WITHHELD}"),
        _ => text.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    NAMES.contains(&&*plain) || plain.ends_with("key") || PARTS.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sounds_like_a_secret_is_left_out_and_nothing_else() {
        for (url, told) in [
            ("http://a/items/{id}", "http://a/items/{id}"),
            ("http://a/{id}?page=2&q=key", "http://a/{id}?page=2&q=key"),
            ("http://a/{id}?api_key=X&page=2", "http://a/{id}?api_key=...&page=2"),
            ("http://a/{id}?page=2&X-Amz-Signature=ab=c", "http://a/{id}?page=2&X-Amz-Signature=..."),
            ("http://a/?ACCESS-TOKEN=t&id={id}", "http://a/?ACCESS-TOKEN=...&id={id}"),
            ("?sig=1&key=&password=p", "?sig=...&key=&password=..."),
            ("http://a/keys/{id}?monkeys=3&keyboard=us", "http://a/keys/{id}?monkeys=3&keyboard=us"),
        ] {
            assert_eq!(discreet(url), told);
        }
    }
}
