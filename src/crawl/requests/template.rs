//! Target URL, parsed: with `{id}` for the ID, or without it.
//!
//! Requests hold what was typed, dot segments and escapes included; only what a request line cannot
//! hold is encoded.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::ParseError;

use super::host::Scheme;
use super::redact;

/// Placeholder of the ID.
pub(crate) const PLACE: &str = "{id}";

/// Characters of a query that are percent-encoded: the query percent-encode set of the URL standard
/// (WHATWG, 1.3). As curl does, `'` is sent as it is, and so are escapes that were typed.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// Characters of a path that are percent-encoded: the path percent-encode set, without braces,
/// which are refused or part of `{id}`.
const PATH: &AsciiSet = &QUERY.add(b'^').add(b'`');

/// A URL as it is sent: ASCII, and percent-encoded where that is needed. Parsing resolves no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Scheme.
    pub scheme: Scheme,
    origin: String,
    authority: String,
    host: String,
    /// Port, typed or that of the scheme.
    pub port: u16,
    before: String,
    after: Option<String>,
}

/// Reason why a text is no template. Never repeats credentials or secrets: its texts are redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A URL that cannot be requested, and why.
    #[error("the URL `{0}` {1}")]
    Url(String, String),
    /// Another scheme than http and https.
    #[error(
        "the URL `{0}` begins with neither http:// nor https://, and nothing else can be crawled"
    )]
    Scheme(String),
    /// No scheme, or one with a slip in it.
    #[error("the URL `{0}` does not begin with http:// or https://: did you mean {1}?")]
    NoScheme(String, String),
    /// Neither a URL nor one without its scheme.
    #[error("`{0}` is not a URL: write something like http://127.0.0.1:8080/items/{{id}}")]
    NoUrl(String),
    /// A user name or password.
    #[error(
        "the URL holds a user name or password: pass credentials with -H 'authorization: ...' instead"
    )]
    Credentials,
}

/// Flaw of a URL with braces that are no place for the ID.
const BRACES: &str = "has a brace that is not part of {id}: write {id} where the ID goes, and %7B and %7D for braces that are to be sent";

/// Flaw of a URL with several places for the ID.
const PLACES: &str = "has {id} more than once: keep one of them";

/// Flaw of a URL whose place for the ID is in its host.
const OUTSIDE: &str =
    "has {id} outside its path and query: write it after the host, as in http://host/items/{id}";

/// Flaw of a URL with a fragment.
const FRAGMENT: &str = "has a #fragment, which is never sent: remove it, or write %23";

/// Flaw of a URL with an IPv6 address that looks like a name and a port.
const BRACKETS: &str =
    "cannot be read: an IPv6 address is written in brackets, as in http://[::1]:8080/";

impl Template {
    /// The host's name in ASCII, or its address without brackets, which may have a zone:
    /// `fe80::1%eth0`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Host and port as the `Host` header says them: without a zone (RFC 6874, 4).
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Scheme, host and port, as the URL begins; with the zone.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Path and query before and after the ID; nothing after it when there is no place for one.
    #[must_use]
    pub fn path(&self) -> (&str, Option<&str>) {
        (&self.before, self.after.as_deref())
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let scheme = [Scheme::Http, Scheme::Https]
            .into_iter()
            .find(|scheme| {
                text.get(..scheme.prefix().len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(scheme.prefix()))
            })
            .ok_or_else(|| scheme_error(text))?;
        let rest = &text[scheme.prefix().len()..];
        let (typed, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if typed.contains('@') {
            return Err(TemplateError::Credentials);
        }
        let flawed = |flaw: &str| TemplateError::Url(redact::url(text), flaw.to_owned());
        for (is_flawed, flaw) in [
            (typed.contains(PLACE), OUTSIDE),
            (path.contains('#'), FRAGMENT),
            (rest.replace(PLACE, "").contains(['{', '}']), BRACES),
            (path.matches(PLACE).count() > 1, PLACES),
        ] {
            if is_flawed {
                return Err(flawed(flaw));
            }
        }
        // An IPv6 address in brackets has colons of its own.
        let (host, port_text) = match typed
            .rsplit_once(':')
            .filter(|(_, port)| !port.ends_with(']'))
        {
            Some((host, port)) => (host, Some(port)),
            None => (typed, None),
        };
        let (host, zone) = host_and_zone(host).map_err(|flaw| flawed(&flaw))?;
        let port = match port_text {
            Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                flawed(&format!(
                    "cannot be read: `{text}` is not a port, which is a number from 1 to 65535"
                ))
            })?,
            None => scheme.port(),
        };
        let authority = port_text.map_or_else(|| host.clone(), |_| format!("{host}:{port}"));
        let path = encoded(path);
        // What HTTP/2 has to split again, and no longer than that can be.
        format!("http://{authority}{}", path.replacen(PLACE, "0", 1))
            .parse::<Uri>()
            .map_err(|error| flawed(&format!("cannot be read: {error}")))?;
        let (before, after) = path
            .split_once(PLACE)
            .map_or((&*path, None), |(before, after)| (before, Some(after)));
        let zoned = |separator| zone.map_or_else(String::new, |zone| format!("{separator}{zone}"));
        Ok(Self {
            scheme,
            origin: scheme.prefix().to_owned() + &authority.replace(']', &(zoned("%25") + "]")),
            host: host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned()
                + &zoned("%"),
            port,
            before: before.to_owned(),
            after: after.map(str::to_owned),
            authority,
        })
    }
}

/// Return the host as it is sent, and the zone of an IPv6 address, which the URL standard does not
/// have. It is written `%25eth0` (RFC 6874, 2), or `%eth0` as other programs write it.
fn host_and_zone(typed: &str) -> Result<(String, Option<&str>), String> {
    if typed.is_empty() {
        return Err("cannot be read: it has no host".to_owned());
    }
    if !typed.starts_with('[') && typed.contains(':') {
        return Err(BRACKETS.to_owned());
    }
    let zoned = typed
        .strip_suffix(']')
        .filter(|typed| typed.starts_with('['))
        .and_then(|typed| typed.split_once('%'));
    let (host, zone) = match zoned {
        Some((address, zone)) => (
            format!("{address}]"),
            Some(
                zone.strip_prefix("25")
                    .filter(|zone| !zone.is_empty())
                    .unwrap_or(zone),
            ),
        ),
        None => (typed.to_owned(), None),
    };
    if zone.is_some_and(|zone| zone.is_empty() || !zone.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err("cannot be read: the zone of its host is not valid".to_owned());
    }
    let host = url::Host::parse(&host).map_err(|error| match error {
        ParseError::InvalidIpv6Address if !typed.ends_with(']') => BRACKETS.to_owned(),
        error => format!("cannot be read: its host is not valid ({error})"),
    })?;
    Ok((host.to_string(), zone))
}

/// Return path and query as a request line has them.
pub(super) fn encoded(path: &str) -> String {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    format!(
        "{slash}{}{}",
        utf8_percent_encode(path, PATH),
        utf8_percent_encode(query, QUERY)
    )
}

/// Explain a text that does not begin with a scheme of ours.
fn scheme_error(text: &str) -> TemplateError {
    // What stands before an `@` may be a password.
    if text.contains('@') {
        return TemplateError::Credentials;
    }
    let (https, http) = (text.strip_prefix("https"), text.strip_prefix("http"));
    let slip = https.or(http).filter(|rest| rest.starts_with([':', '/']));
    if slip.is_none() && text.contains("://") {
        return TemplateError::Scheme(redact::url(text));
    }
    let scheme = if slip.is_some() && https.is_some() {
        Scheme::Https
    } else {
        Scheme::Http
    };
    let rest = slip.unwrap_or(text).trim_start_matches([':', '/']);
    let meant = format!("{}{rest}", scheme.prefix());
    // A single word is more often the value of a flag that does not take one.
    let is_word = !rest.contains(['.', ':', '/']) && rest != "localhost";
    if is_word || meant.parse::<Template>().is_err() {
        return TemplateError::NoUrl(redact::url(text));
    }
    TemplateError::NoScheme(redact::url(text), redact::url(&meant))
}

/// As it may be shown and saved: see [`redact::url`].
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self
            .after
            .as_ref()
            .map_or_else(String::new, |after| format!("{PLACE}{after}"));
        f.write_str(&redact::url(&format!(
            "{}{}{after}",
            self.origin, self.before
        )))
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_is_what_was_typed() {
        for (text, sent) in [
            ("http://h/items/{id}", "http://h/items/{id}"),
            ("http://h", "http://h/"),
            ("http://h?a=1", "http://h/?a=1"),
            ("http://[::1]:81/{id}.json", "http://[::1]:81/{id}.json"),
            ("HTTPS://H/X", "https://h/X"),
            ("http://h/a/../b/./%2e//c\\d", "http://h/a/../b/./%2e//c\\d"),
            (
                "http://h/%7B|'[]$id?q=%7B|'[]{id}",
                "http://h/%7B|'[]$id?q=%7B|'[]{id}",
            ),
            (
                "http://h/a b\u{e9}\"<^`?q=\"\u{fc} >^`",
                "http://h/a%20b%C3%A9%22%3C%5E%60?q=%22%C3%BC%20%3E^`",
            ),
            (
                "http://b\u{fc}cher.example/{id}",
                "http://xn--bcher-kva.example/{id}",
            ),
            ("http://127.1/", "http://127.0.0.1/"),
            (
                "http://[fe80::1%25eth0]:81/{id}",
                "http://[fe80::1%25eth0]:81/{id}",
            ),
            ("http://[FE80:0::1%eth0]/", "http://[fe80::1%25eth0]/"),
            ("http://[fe80::1%25]/", "http://[fe80::1%2525]/"),
        ] {
            assert_eq!(text.parse::<Template>().unwrap().to_string(), sent);
        }
        let template: Template = "http://[::1%lo]:81/x".parse().unwrap();
        assert_eq!(
            (template.host(), template.port, template.authority()),
            ("::1%lo", 81, "[::1]:81")
        );
        for (url, port) in [
            ("http://h/x", 80),
            ("https://h/x", 443),
            ("https://h:80/x", 80),
        ] {
            assert_eq!(url.parse::<Template>().unwrap().port, port, "{url}");
        }
    }

    #[test]
    fn what_is_no_template_says_why() {
        use TemplateError as E;
        let error = |text: &str| text.parse::<Template>().unwrap_err();
        assert!(matches!(error("sftp://h/{id}"), E::Scheme(_)));
        for (text, meant) in [
            ("localhost:8080/x", "http://localhost:8080/x"),
            ("localhost", "http://localhost"),
            ("127.0.0.1/{id}", "http://127.0.0.1/{id}"),
            ("//h.x/y", "http://h.x/y"),
            ("http:/h.x/y", "http://h.x/y"),
            ("http//h/y", "http://h/y"),
            ("https:/h.x/y", "https://h.x/y"),
            ("[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(error(text), E::NoScheme(text.to_owned(), meant.to_owned()));
        }
        for text in ["", "aimd", "20ms", "not a url", "h:x/y", "http:", "a/{x}"] {
            assert_eq!(error(text), E::NoUrl(text.to_owned()));
        }
        let long = format!("http://h/{}", "x".repeat(70_000));
        for text in [
            "http://h/{id}/{id}",
            "http://{id}.h/",
            "http://h/{id}#x",
            "http://h/{ID}",
            "http://h/id}",
            "http://h/?q={\"a\":{id}}",
            "http://",
            "http://:80/x",
            "http://h:x/",
            "http://h:/",
            "http://h:0/",
            "http://[::1]:99999/",
            "http://::1:80/",
            "http://[::1/",
            "http://h x/",
            "http://1.2.3.256/",
            "http://[::x]/",
            "http://[::1%]/",
            &long,
        ] {
            assert!(matches!(error(text), E::Url(..)), "{text:.40}");
        }
        for text in [
            "http://u:secret@h/",
            "u:secret@h/x",
            "http:/u:secret@h",
            "ftp:///u:secret@h",
        ] {
            assert_eq!(error(text), E::Credentials);
        }
    }

    /// Return a path and query with an ID, in which escapes are read.
    fn meaning(text: &str) -> Vec<u8> {
        percent_decode_str(&text.replace(PLACE, "7")).collect()
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_takes_it_keeps(text in "(https?://)?[a-z0-9:/?#@{}id\\[\\]. %é]{0,30}") {
            if let Ok(template) = text.parse::<Template>() {
                prop_assert_eq!(template.to_string().parse(), Ok(template));
            }
        }

        #[test]
        fn what_is_sent_is_ascii_and_means_what_was_typed(
            (scheme, host) in (
                prop::sample::select(&["http://", "https://", "HtTp://"]),
                prop::sample::select(&["h", "A-b.test", "b\u{fc}cher.example", "127.0.0.1", "[::1]", "[fe80::1%25lo]", "[fe80::1%e.1]"]),
            ),
            (port, path, id, query) in (
                "(:[1-9][0-9]{0,3})?", "(/[a/.;=@:|'\\[\\]\\\\$%4 \"<>^`~\t\u{1}é日]{0,12})?", "(/\\{id\\}x?)?",
                "(\\?[a/?&;=|'\\[\\]%4 \"<>^`~\n\u{7f}é日]{0,12})?",
            ),
        ) {
            let typed = format!("{path}{id}{query}");
            let template: Template = format!("{scheme}{host}{port}{typed}").parse().unwrap();
            let (before, after) = template.path();
            prop_assert_eq!(after.is_some(), !id.is_empty());
            let sent = [before, after.map_or("", |_| "7"), after.unwrap_or_default()].concat();
            prop_assert!(sent.bytes().chain(template.authority().bytes()).all(|byte| byte.is_ascii_graphic()), "{}", sent);
            // As another parser reads it.
            let uri: Uri = format!("http://{}{sent}", template.authority()).parse().unwrap();
            prop_assert_eq!(uri.authority().unwrap().as_str(), template.authority());
            prop_assert_eq!(uri.port_u16().unwrap_or(template.scheme.port()), template.port);
            let path = if typed.starts_with('/') { [&path, &id].map(String::as_str).concat() } else { "/".to_owned() };
            prop_assert_eq!(percent_decode_str(uri.path()).collect::<Vec<u8>>(), meaning(&path));
            prop_assert_eq!(uri.query().map(meaning), query.strip_prefix('?').map(meaning));
            prop_assert_eq!(template.to_string().parse(), Ok(template));
        }
    }
}
