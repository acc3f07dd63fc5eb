//! The one place that says which parts of what was typed are secrets, and leaves them out of what is saved, shown or said.
//!
//! Called wherever such text leaves the program: what is saved of a command line goes through [`words`], [`header`] and [`url`],
//! and every message through [`text`]. Values of headers and bodies are never shown. Of URLs and commands the values are
//! left out whose names sound like secrets, at the price of some that are none.

/// Stands for a value that is left out.
const WITHHELD: &str = "...";

/// Names of secrets, or parts of such names.
const PARTS: [&str; 8] = ["token", "secret", "passw", "apikey", "signature", "credential", "auth", "session"];

/// Whole names of secrets.
const NAMES: [&str; 5] = ["key", "sig", "pwd", "pass", "code"];

/// Redact a URL, or the end of one: its user name and password, and the values of secret parameters of its query.
#[must_use]
pub fn url(url: &str) -> String {
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let path = without_credentials(path);
    let Some(query) = query else { return path };
    let parameters: Vec<String> = query.split('&').map(assignment).collect();
    format!("{path}?{}", parameters.join("&"))
}

/// Redact every URL in a text.
#[must_use]
pub fn text(text: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
    text.split_inclusive(ends_word)
        .map(|word| {
            let end = word.strip_suffix(ends_word).map_or(word.len(), str::len);
            url(&word[..end]) + &word[end..]
        })
        .collect()
}

/// Redact the value of a header as typed (`name: value`).
#[must_use]
pub fn header(header: &str) -> String {
    let name = header.split_once(':').map_or("", |(name, _)| name.trim());
    format!("{name}: {WITHHELD}")
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
            None if word.starts_with("-H") => word
                .split_at_checked(2)
                .map_or((&**word, None), |(flag, value)| (flag, Some(value).filter(|value| !value.is_empty()))),
            None => (&**word, None),
        };
        let redact: Option<fn(&str) -> String> = match flag {
            "-H" | "--header" => Some(header),
            "--body" => Some(|_| WITHHELD.to_owned()),
            _ if flag.starts_with("--") && is_secret(flag) => Some(|_| WITHHELD.to_owned()),
            _ => None,
        };
        redacted.push(match (redact, value) {
            (Some(redact), Some(value)) if flag == "-H" => format!("-H{}", redact(value)),
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

/// Redact a line as typed, or return it as it is where it holds no secret.
#[must_use]
pub fn line(line: &str) -> String {
    // What no shell can read is not shown either.
    let Some(all) = shlex::split(line) else { return WITHHELD.to_owned() };
    let redacted = words(&all);
    if redacted == all { line.to_owned() } else { redacted.join(" ") }
}

/// Redact the user name and password of a URL up to its query, with or without a scheme.
fn without_credentials(path: &str) -> String {
    let start = path.find("://").map_or(0, |scheme| scheme + 3);
    let start = start + path[start..].find(|c| c != '/').unwrap_or(0);
    let authority = path[start..].split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        // Without a scheme it may be an address of mail.
        Some(at) if start > 0 || authority[..at].contains(':') => {
            format!("{}{WITHHELD}{}", &path[..start], &path[start + at..])
        }
        _ => path.to_owned(),
    }
}

/// Redact the value of `name=value` if the name is a secret's.
fn assignment(text: &str) -> String {
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
    fn what_sounds_like_a_secret_is_left_out_of_a_url_and_nothing_else() {
        for (typed, shown) in [
            ("http://a/items/{id}", "http://a/items/{id}"),
            ("http://a/@user/{id}", "http://a/@user/{id}"),
            ("http://a/{id}?page=2&q=key", "http://a/{id}?page=2&q=key"),
            ("http://a/{id}?api_key=X&page=2", "http://a/{id}?api_key=...&page=2"),
            ("http://a/{id}?page=2&X-Amz-Signature=ab=c", "http://a/{id}?page=2&X-Amz-Signature=..."),
            ("http://a/?ACCESS-TOKEN=t&id={id}", "http://a/?ACCESS-TOKEN=...&id={id}"),
            ("?sig=1&key=&password=p", "?sig=...&key=&password=..."),
            ("http://a/keys/{id}?monkeys=3&keyboard=us", "http://a/keys/{id}?monkeys=3&keyboard=us"),
            ("http://user:hush@a/{id}?x=1", "http://...@a/{id}?x=1"),
            ("http://hush@a:80", "http://...@a:80"),
            ("https://u:h@sh@a/", "https://...@a/"),
            ("u:hush@a/x", "...@a/x"),
            ("http:///u:hush@a", "http:///...@a"),
            ("someone@example.com", "someone@example.com"),
        ] {
            assert_eq!(url(typed), shown);
        }
    }

    #[test]
    fn every_url_of_a_text_is_redacted_and_the_rest_is_as_it_was() {
        assert_eq!(
            text("error: the URL `http://h/?key=hush#x`\nhas 'ftp://u:hush@b/' in it, \"fine?\" a=b\n"),
            "error: the URL `http://h/?key=...`\nhas 'ftp://...@b/' in it, \"fine?\" a=b\n"
        );
    }

    #[test]
    fn a_command_line_holds_no_secret() {
        for (typed, shown) in [
            ("-c 8  --target-latency '20ms'", "-c 8  --target-latency '20ms'"),
            ("-c 8 -H 'authorization: Bearer hush'", "-c 8 -H authorization: ..."),
            ("-H'x-key: hush' --body hush", "-Hx-key: ... --body ..."),
            ("'--header=cookie:hush' --body=hush -c 2", "--header=cookie: ... --body=... -c 2"),
            ("http://u:hush@h/{id}?token=hush -c 2", "http://...@h/{id}?token=... -c 2"),
            (
                "SECRET=hush ./server --api-key hush --proxy-auth=u:hush -p 1",
                "SECRET=... ./server --api-key ... --proxy-auth=... -p 1",
            ),
            ("-H hush", "-H : ..."),
            ("'hush", "..."),
        ] {
            assert_eq!(line(typed), shown);
        }
    }
}
