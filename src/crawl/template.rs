//! The target as it is typed: a URL with `{id}` where each ID goes, or without.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

use super::discreet::discreet;

/// Where the ID goes.
const PLACE: &str = "{id}";

/// A URL, with a place for the ID unless it was taken [as written](Self::as_written). Parsing resolves no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    authority: String,
    host: String,
    port: u16,
    before: String,
    after: Option<String>,
}

/// Why a text is no template. Never repeats credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not a URL.
    #[error("the URL `{0}` cannot be read: write something like http://127.0.0.1:8080/items/{{id}}")]
    Url(String),
    /// No scheme, or one that is not http.
    #[error("the URL `{0}` does not begin with http://: only plain HTTP/1.1 can be crawled so far")]
    Scheme(String),
    /// A user name or password.
    #[error("the URL holds a user name or password: pass credentials with -H 'authorization: ...' instead")]
    Credentials,
    /// More than one place for the ID.
    #[error("the URL `{0}` has {{id}} more than once")]
    Places(String),
    /// The place for the ID is not in the path or query.
    #[error("the URL `{0}` has {{id}} outside its path and query")]
    Authority(String),
    /// A fragment, which no request carries.
    #[error("the URL `{0}` has a #fragment, which is never sent: leave it away, or write %23")]
    Fragment(String),
}

impl Template {
    /// The host's name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 80 when the URL names none.
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
        const SCHEME: &str = "http://";
        let is_http = text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
        let rest = text.get(SCHEME.len()..).filter(|_| is_http).ok_or_else(|| scheme_error(text))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(TemplateError::Credentials);
        }
        if authority.contains(PLACE) {
            return Err(TemplateError::Authority(text.to_owned()));
        }
        if text.contains('#') {
            return Err(TemplateError::Fragment(text.to_owned()));
        }
        let path = &rest[authority.len()..];
        let (before, after) = place(path, no_place).ok_or_else(|| TemplateError::Places(text.to_owned()))?;
        let bad = || TemplateError::Url(text.to_owned());
        let id = after.as_ref().map(|after| format!("0{after}")).unwrap_or_default();
        let uri: Uri = format!("http://{authority}{before}{id}").parse().map_err(|_| bad())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(bad)?;
        // `Uri` takes a port that is no number for none.
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().map_err(|_| bad())?,
            _ => 80,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { authority: authority.to_owned(), host, port, before, after })
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::read(text, NoPlace::IsAppended)
    }
}

/// What it means that a URL has no place for the ID.
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

fn scheme_error(text: &str) -> TemplateError {
    match text.split_once("://") {
        // What stands before an `@` may be a password.
        Some((_, rest))
            if rest.trim_start_matches('/').split('/').next().is_some_and(|authority| authority.contains('@')) =>
        {
            TemplateError::Credentials
        }
        _ if text.split('/').next().is_some_and(|authority| authority.contains('@')) => TemplateError::Credentials,
        // Nor is it shown when a slash is missing.
        None if text.split_once(":/").is_some_and(|(_, rest)| rest.contains('@')) => TemplateError::Credentials,
        _ => TemplateError::Scheme(text.to_owned()),
    }
}

/// As it may be shown and saved: see [`discreet`].
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.after.as_ref().map_or_else(String::new, |after| format!("{PLACE}{after}"));
        f.write_str(&discreet(&format!("http://{}{}{after}", self.authority, self.before)))
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
        ];
        for (text, full) in cases {
            assert_eq!(text.parse::<Template>().unwrap().to_string(), full);
        }
        let template: Template = "http://[::1]:81/x".parse().unwrap();
        assert_eq!((template.host(), template.port(), template.authority()), ("::1", 81, "[::1]:81"));
        assert_eq!("http://h/x".parse::<Template>().unwrap().port(), 80);
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
        assert!(matches!(error("https://h/{id}"), E::Scheme(_)));
        assert!(matches!(error("h:80/{id}"), E::Scheme(_)));
        assert!(matches!(error("http://h/{id}/{id}"), E::Places(_)));
        assert!(matches!(error("http://{id}.h/"), E::Authority(_)));
        assert!(matches!(error("http://h/{id}#x"), E::Fragment(_)));
        for text in ["http://", "http:///x", "http://h:x/", "http://h:99999/", "http://h/a b"] {
            assert!(matches!(error(text), E::Url(_)), "{text}");
        }
        for text in
            ["http://u:secret@h/", "https://u:secret@h/", "u:secret@h/x", "http:/u:secret@h", "ftp:///u:secret@h"]
        {
            assert!(!error(text).to_string().contains("secret"), "{text}");
            assert!(!Template::as_written(text).unwrap_err().to_string().contains("secret"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_takes_it_keeps(text in "(http://)?[a-z0-9:/?#@{}id\\[\\]. ]{0,30}") {
            if let Ok(template) = text.parse::<Template>() {
                prop_assert_eq!(template.to_string().parse(), Ok(template));
            }
            if let Ok(template) = Template::as_written(&text) {
                prop_assert_eq!(Template::as_written(&template.to_string()), Ok(template));
            }
        }
    }
}
