//! Target URL, parsed: with `{id}` for the ID, or without it.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use super::redact;
use super::targets::Scheme;

/// Placeholder of the ID.
pub(crate) const PLACE: &str = "{id}";

/// A URL, with a place for the ID unless it was taken [as written](Self::as_written). Parsing resolves no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    scheme: Scheme,
    authority: String,
    host: String,
    port: u16,
    before: String,
    after: Option<String>,
}

/// Reason why a text is no template. Never repeats credentials or secrets: its texts are redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not a URL.
    #[error("the URL `{0}` cannot be read: {1}")]
    Url(String, Flaw),
    /// Another scheme than http and https.
    #[error("the URL `{0}` begins with neither http:// nor https://, and nothing else can be crawled")]
    Scheme(String),
    /// No scheme, or one with a slip in it.
    #[error("the URL `{0}` does not begin with http:// or https://: did you mean {1}?")]
    NoScheme(String, String),
    /// Neither a URL nor one without its scheme.
    #[error("`{0}` is not a URL: write something like http://127.0.0.1:8080/items/{{id}}")]
    NoUrl(String),
    /// A user name or password.
    #[error("the URL holds a user name or password: pass credentials with -H 'authorization: ...' instead")]
    Credentials,
    /// Braces that are no place for the ID.
    #[error(
        "the URL `{0}` has a brace that is not part of {{id}}: write {{id}} where the ID goes, and %7B and %7D for braces \
         that are to be sent"
    )]
    Braces(String),
    /// A place for the ID in the way of another program.
    #[error(
        "the URL `{0}` has `{1}`, which crawlmark does not fill in: write {{id}} where the ID goes, or {2} to send it as it is"
    )]
    Placeholder(String, &'static str, &'static str),
    /// More than one place for the ID.
    #[error("the URL `{0}` has {{id}} more than once: keep one of them")]
    Places(String),
    /// The place for the ID is not in the path or query.
    #[error(
        "the URL `{0}` has {{id}} outside its path and query: write it after the host, as in http://host/items/{{id}}"
    )]
    Authority(String),
    /// A fragment, which no request carries.
    #[error("the URL `{0}` has a #fragment, which is never sent: remove it, or write %23")]
    Fragment(String),
}

/// The part of a URL that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Nothing before the path.
    #[error("it has no host")]
    NoHost,
    /// Not a port.
    #[error("`{0}` is not a port, which is a number from 1 to 65535")]
    Port(String),
    /// Colons without brackets.
    #[error("an IPv6 address is written in brackets, as in http://[::1]:8080/")]
    Brackets,
    /// A character that no host has.
    #[error("{0:?} cannot be part of a host")]
    HostCharacter(char),
    /// A character that is not sent as it is.
    #[error("{0:?} in the path or query is written {1}")]
    PathCharacter(char, String),
    /// Message of the parser, where nothing else is known.
    #[error("{0}")]
    Other(String),
}

impl Template {
    /// The host's name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Scheme of the URL.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The port; that of the scheme when the URL names none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the `Host` header says them.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query before and after the ID; nothing after it when there is no place for one.
    #[must_use]
    pub fn path(&self) -> (&str, Option<&str>) {
        (&self.before, self.after.as_deref())
    }

    /// The URL `text`, without a place for the ID if it names none.
    ///
    /// # Errors
    /// When it is no URL that can be crawled.
    pub fn as_written(text: &str) -> Result<Self, TemplateError> {
        Self::read(text, NoPlace::IsMeant)
    }

    fn read(text: &str, no_place: NoPlace) -> Result<Self, TemplateError> {
        let begins = |scheme: &Scheme| {
            text.get(..scheme.prefix().len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.prefix()))
        };
        let scheme = [Scheme::Http, Scheme::Https].into_iter().find(begins).ok_or_else(|| scheme_error(text))?;
        let rest = &text[scheme.prefix().len()..];
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(TemplateError::Credentials);
        }
        if authority.contains(PLACE) {
            return Err(TemplateError::Authority(redact::url(text)));
        }
        if text.contains('#') {
            return Err(TemplateError::Fragment(redact::url(text)));
        }
        let path = &rest[authority.len()..];
        if let Some((other, sent)) = placeholder(path).filter(|_| no_place == NoPlace::IsAppended) {
            return Err(TemplateError::Placeholder(redact::url(text), other, sent));
        }
        let (before, after) = place(path, no_place).ok_or_else(|| TemplateError::Places(redact::url(text)))?;
        if [Some(&before), after.as_ref()].into_iter().flatten().any(|part| part.contains(['{', '}'])) {
            return Err(TemplateError::Braces(redact::url(text)));
        }
        let flawed = |flaw| TemplateError::Url(redact::url(text), flaw);
        let id = after.as_ref().map(|after| format!("0{after}")).unwrap_or_default();
        let parsed: Result<Uri, _> = format!("http://{authority}{before}{id}").parse();
        let uri =
            parsed.map_err(|error| flawed(flaw(authority, path).unwrap_or_else(|| Flaw::Other(error.to_string()))))?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| flawed(Flaw::NoHost))?;
        // `Uri` takes a port that is no number for none.
        let port = match port_of(authority) {
            Some(text) => port(text).ok_or_else(|| flawed(Flaw::Port(text.to_owned())))?,
            None => scheme.port(),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { scheme, authority: authority.to_owned(), host, port, before, after })
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::read(text, NoPlace::IsAppended)
    }
}

/// Meaning of a URL without a place for the ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoPlace {
    /// The ID goes behind the path.
    IsAppended,
    /// There is none.
    IsMeant,
}

/// Splits path and query at the place for the ID. None when there are several.
fn place(path: &str, no_place: NoPlace) -> Option<(String, Option<String>)> {
    let mut parts = path.split(PLACE);
    let (before, after) = (parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    let slash = if before.starts_with('/') { "" } else { "/" };
    if let Some(after) = after {
        return Some((format!("{slash}{before}"), Some(after.to_owned())));
    }
    if no_place == NoPlace::IsMeant {
        return Some((format!("{slash}{before}"), None));
    }
    let (path, query) = path.find('?').map_or((path, ""), |at| path.split_at(at));
    Some((format!("{}/", path.trim_end_matches('/')), Some(query.to_owned())))
}

/// A place for the ID in the way of another program, and how it is written to be sent. Beside `{id}` only a `$` before it is a slip.
fn placeholder(path: &str) -> Option<(&'static str, &'static str)> {
    const DOLLAR: (&str, &str) = ("${id}", "%24{id}");
    const OTHERS: [(&str, &str); 6] =
        [("$id", "%24id"), ("$ID", "%24ID"), ("$i", "%24i"), ("/:id", "/%3Aid"), ("%s", "%25s"), ("%d", "%25d")];
    if path.contains(PLACE) {
        return Some(DOLLAR).filter(|(other, _)| path.contains(other));
    }
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_here = |(other, _): &&(&str, &str)| path.split(other).skip(1).any(ends);
    OTHERS.iter().find(is_here).copied()
}

/// Text behind the host's colon; an IPv6 address in brackets has colons of its own.
fn port_of(authority: &str) -> Option<&str> {
    authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'))
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// Find the reason why host and path cannot be read, by giving the parser one part after the other.
fn flaw(authority: &str, path: &str) -> Option<Flaw> {
    let fits = |url: String| url.parse::<Uri>().is_ok();
    let (host, port_text) = match port_of(authority) {
        Some(port) => (&authority[..authority.len() - port.len() - 1], Some(port)),
        None => (authority, None),
    };
    if host.is_empty() {
        return Some(Flaw::NoHost);
    }
    if host.contains(':') && !host.starts_with('[') || host.starts_with('[') != host.ends_with(']') {
        return Some(Flaw::Brackets);
    }
    if let Some(text) = port_text.filter(|text| port(text).is_none()) {
        return Some(Flaw::Port(text.to_owned()));
    }
    if let Some(bad) = host.chars().find(|c| !"[]:".contains(*c) && !fits(format!("http://a{c}a/"))) {
        return Some(Flaw::HostCharacter(bad));
    }
    let bad = path.chars().find(|c| !fits(format!("http://a/{c}")))?;
    let encoded = bad.to_string().bytes().fold(String::new(), |all, byte| format!("{all}%{byte:02X}"));
    Some(Flaw::PathCharacter(bad, encoded))
}

fn scheme_error(text: &str) -> TemplateError {
    // What stands before an `@` may be a password.
    let rest = text.split_once(':').map_or(text, |(_, rest)| rest).trim_start_matches('/');
    let may_hold_password =
        [text, rest].into_iter().any(|text| text.split('/').next().unwrap_or_default().contains('@'));
    if may_hold_password {
        return TemplateError::Credentials;
    }
    match text.split_once("://") {
        Some((scheme, _))
            if scheme.bytes().all(|b| b.is_ascii_alphanumeric())
                && !["http", "https"].contains(&&*scheme.to_ascii_lowercase()) =>
        {
            TemplateError::Scheme(redact::url(text))
        }
        _ => {
            let slips = ["https:", "https/", "http:", "http/", "/"];
            let slip = slips.into_iter().find_map(|slip| text.strip_prefix(slip)).unwrap_or(text);
            let scheme = if text.starts_with("https") && slip != text { Scheme::Https } else { Scheme::Http };
            let meant = format!("{}{}", scheme.prefix(), slip.trim_start_matches('/'));
            // A single word is more often the value of a flag that does not take one.
            let is_word = !slip.contains(['.', ':', '/']) && slip != "localhost";
            match meant.parse::<Template>() {
                Ok(_) if !is_word => TemplateError::NoScheme(redact::url(text), redact::url(&meant)),
                _ => TemplateError::NoUrl(redact::url(text)),
            }
        }
    }
}

/// As it may be shown and saved: see [`redact::url`].
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.after.as_ref().map_or_else(String::new, |after| format!("{PLACE}{after}"));
        f.write_str(&redact::url(&format!("{}{}{}{after}", self.scheme.prefix(), self.authority, self.before)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_id_has_one_place() {
        let cases = [
            ("http://h/items/{id}", "http://h/items/{id}"),
            ("http://h:8080/items/", "http://h:8080/items/{id}"),
            ("http://h", "http://h/{id}"),
            ("http://h/a?b=1", "http://h/a/{id}?b=1"),
            ("http://h/a?id={id}&x=2", "http://h/a?id={id}&x=2"),
            ("http://[::1]:81/{id}.json", "http://[::1]:81/{id}.json"),
            ("http://h?q={id}", "http://h/?q={id}"),
            ("HTTP://h/", "http://h/{id}"),
            ("HTTPS://h/", "https://h/{id}"),
            ("https://[::1]/a", "https://[::1]/a/{id}"),
        ];
        for (text, full) in cases {
            assert_eq!(text.parse::<Template>().unwrap().to_string(), full);
        }
        let template: Template = "http://[::1]:81/x".parse().unwrap();
        assert_eq!((template.host(), template.port(), template.authority()), ("::1", 81, "[::1]:81"));
        for (url, port) in [("http://h/x", 80), ("https://h/x", 443), ("https://h:80/x", 80)] {
            assert_eq!(url.parse::<Template>().unwrap().port(), port, "{url}");
        }
    }

    #[test]
    fn a_url_as_written_has_a_place_for_the_id_only_if_it_says_so() {
        for (text, full) in [
            ("http://h/items/{id}", "http://h/items/{id}"),
            ("http://h:8080/items/", "http://h:8080/items/"),
            ("http://h", "http://h/"),
            ("http://h?a=1", "http://h/?a=1"),
            ("http://h/a?b={id}", "http://h/a?b={id}"),
        ] {
            assert_eq!(Template::as_written(text).unwrap().to_string(), full);
        }
    }

    #[test]
    fn what_is_no_template_says_why() {
        use TemplateError as E;
        let error = |text: &str| text.parse::<Template>().unwrap_err();
        assert!(matches!(error("sftp://h/{id}"), E::Scheme(_)));
        assert!(matches!(error("ftp://h/{id}"), E::Scheme(_)));
        for (text, meant) in [
            ("localhost:8080/x", "http://localhost:8080/x"),
            ("localhost", "http://localhost"),
            ("h:80/{id}", "http://h:80/{id}"),
            ("127.0.0.1/{id}", "http://127.0.0.1/{id}"),
            ("//h.x/y", "http://h.x/y"),
            ("http:/h.x/y", "http://h.x/y"),
            ("http:h.x", "http://h.x"),
            ("http//h/y", "http://h/y"),
            ("https:/h.x/y", "https://h.x/y"),
            ("https//h/y", "https://h/y"),
            ("[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(error(text), E::NoScheme(text.to_owned(), meant.to_owned()));
        }
        for text in ["", "aimd", "20ms", "not a url", "h:x/y", "http:", "a/{x}"] {
            assert_eq!(error(text), E::NoUrl(text.to_owned()));
        }
        assert!(matches!(error("http://h/{id}/{id}"), E::Places(_)));
        for (text, other) in [
            ("http://h/items/$id", "$id"),
            ("http://h/${id}/x", "${id}"),
            ("http://h/?i=$i&x=1", "$i"),
            ("http://h/:id", "/:id"),
            ("http://h/%s.json", "%s"),
            ("http://h/%d", "%d"),
        ] {
            assert!(matches!(error(text), E::Placeholder(_, found, _) if found == other), "{text}: {}", error(text));
        }
        for text in ["$ids", "%24id", "$id/{id}", "a:id", "%d0", "$value"] {
            assert!(format!("http://h/{text}").parse::<Template>().is_ok(), "{text}");
        }
        assert!(matches!(error("http://{id}.h/"), E::Authority(_)));
        assert!(matches!(error("http://h/{id}#x"), E::Fragment(_)));
        for text in ["{ID}", "{}", "{id", "id}", "{{id}}", "{ id }", "{id}/{n}", "?q={\"a\":{id}}"] {
            let text = format!("http://h/{text}");
            for error in [error(&text), Template::as_written(&text).unwrap_err()] {
                assert_eq!(error, E::Braces(text.clone()));
                assert!(error.to_string().contains("write {id} where the ID goes"), "{error}");
            }
        }
        let port = |text: &str| Flaw::Port(text.to_owned());
        for (text, cause) in [
            ("http://", Flaw::NoHost),
            ("http:///x", Flaw::NoHost),
            ("http://:80/x", Flaw::NoHost),
            ("http://h:x/", port("x")),
            ("http://h:/", port("")),
            ("http://h:0/", port("0")),
            ("http://h:99999/", port("99999")),
            ("http://[::1]:x/", port("x")),
            ("http://h:-1/", port("-1")),
            ("http://::1/", Flaw::Brackets),
            ("http://::1:80/", Flaw::Brackets),
            ("http://[::1/", Flaw::Brackets),
            ("http://::1]/", Flaw::Brackets),
            ("http://h x/", Flaw::HostCharacter(' ')),
            ("http://{ID}.h/", Flaw::HostCharacter('{')),
            ("http://h\\x/", Flaw::HostCharacter('\\')),
            ("http://hé/", Flaw::HostCharacter('é')),
            ("http://h/a b", Flaw::PathCharacter(' ', "%20".to_owned())),
            ("http://h/?q=<x>", Flaw::PathCharacter('<', "%3C".to_owned())),
        ] {
            assert_eq!(error(text), E::Url(text.to_owned(), cause));
        }
        let long = format!("http://h/{}", "x".repeat(70_000));
        assert!(matches!(error(&long), E::Url(_, Flaw::Other(_))));
        for text in
            ["http://u:secret@h/", "https://u:secret@h/", "u:secret@h/x", "http:/u:secret@h", "ftp:///u:secret@h"]
        {
            assert!(!error(text).to_string().contains("secret"), "{text}");
            assert!(!Template::as_written(text).unwrap_err().to_string().contains("secret"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_takes_it_keeps(text in "(https?://)?[a-z0-9:/?#@{}id\\[\\]. ]{0,30}") {
            if let Ok(template) = text.parse::<Template>() {
                prop_assert_eq!(template.to_string().parse(), Ok(template));
            }
            if let Ok(template) = Template::as_written(&text) {
                prop_assert_eq!(Template::as_written(&template.to_string()), Ok(template));
            }
        }
    }
}
