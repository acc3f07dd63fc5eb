//! Patterns for requests (`matching/RequestPattern.java`). Stubs hold one each, and clients that
//! count requests ask with one.
//!
//! It must not know of stubs, priorities or scenarios.

use super::node::{Node, Problem};
use super::path_template::PathTemplate;
use super::request::RequestView;
use super::value_pattern::{Measure, MultiPattern, Subject, ValuePattern, difference, mean};
use super::whole_regex::WholeRegex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName};

use std::cell::OnceCell;

/// Pattern for a request. The default matches anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestPattern {
    method: MethodPattern,
    url: UrlPattern,
    checks: Vec<Check>,
}

/// Pattern for a part of a request.
#[derive(Clone, Debug)]
enum Check {
    PathParameter(String, ValuePattern),
    Query(String, MultiPattern),
    Header(HeaderName, MultiPattern),
    Cookie(String, ValuePattern),
    Form(String, MultiPattern),
    /// User name and password as they stand in the header, in base 64.
    Credentials(String),
    Host(ValuePattern),
    Client(ValuePattern),
    Body(ValuePattern),
}

/// A request under scrutiny, with what was once read from its body.
#[derive(Debug)]
pub(crate) struct RequestSubject<'r> {
    asked: RequestView<'r>,
    url: &'r str,
    path: &'r str,
    body: OnceCell<Subject<'r>>,
}

impl<'r> RequestSubject<'r> {
    /// Looks at a request.
    pub(crate) fn at(asked: &RequestView<'r>) -> Self {
        let (url, path) = asked.url_and_path();
        Self {
            asked: *asked,
            url,
            path,
            body: OnceCell::new(),
        }
    }

    /// Path and query, as WireMock sees them.
    pub(crate) fn url(&self) -> &'r str {
        self.url
    }

    /// The path as it was sent.
    pub(crate) fn path(&self) -> &'r str {
        self.path
    }

    /// WireMock decodes by the charset of the `Content-Type`, and unzips; here every body is read
    /// as UTF-8.
    fn body(&self) -> &Subject<'r> {
        self.body.get_or_init(|| Subject::body(self.asked.body))
    }
}

const KNOWN: &str = "\
    method url urlPattern urlPath urlPathPattern urlPathTemplate pathParameters queryParameters headers cookies \
    formParameters basicAuth host clientIp bodyPatterns";

const UNSUPPORTED: [&str; 5] = [
    "scheme",
    "port",
    "customMatcher",
    "customMatchers",
    "multipartPatterns",
];

/// Beginning of `Authorization`, in any case
/// (`matching/EqualToPatternWithCaseInsensitivePrefix.java`).
const BASIC: &str = "Basic ";

impl RequestPattern {
    /// Reads the object under `request`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only(KNOWN, &UNSUPPORTED)?;
        let mut pattern = Self {
            method: node
                .read("method", MethodPattern::read)?
                .unwrap_or_default(),
            url: UrlPattern::read(node)?,
            checks: Vec::new(),
        };
        for (key, field) in node.fields()? {
            if !field.value().is_null() {
                pattern.read_checks(key, &field)?;
            }
        }
        let checks = &mut pattern.checks;
        // WireMock keeps credentials as a pattern for `Authorization`, in the place of any other.
        if checks
            .iter()
            .any(|check| matches!(check, Check::Credentials(_)))
        {
            checks.retain(|check| !matches!(check, Check::Header(AUTHORIZATION, _)));
        }
        Ok(pattern)
    }

    fn read_checks(&mut self, key: &str, field: &Node<'_>) -> Result<(), Problem> {
        self.checks.extend(match key {
            "pathParameters" if !matches!(self.url, UrlPattern::PathTemplate(_)) => {
                return Err(
                    field.malformed("path parameters are looked at only with a `urlPathTemplate`")
                );
            }
            "pathParameters" => named(field, |name, field| {
                Ok(Check::PathParameter(
                    name.to_owned(),
                    ValuePattern::read(field)?,
                ))
            })?,
            "queryParameters" => named(field, |name, field| {
                Ok(Check::Query(name.to_owned(), MultiPattern::read(field)?))
            })?,
            "headers" => named(field, |name, field| {
                let name = HeaderName::try_from(name)
                    .map_err(|_| field.malformed("not the name of a header"))?;
                Ok(Check::Header(name, MultiPattern::read(field)?))
            })?,
            "cookies" => named(field, |name, field| {
                Ok(Check::Cookie(name.to_owned(), ValuePattern::read(field)?))
            })?,
            "formParameters" => named(field, |name, field| {
                Ok(Check::Form(name.to_owned(), MultiPattern::read(field)?))
            })?,
            "basicAuth" => vec![credentials(field)?],
            "host" => vec![Check::Host(ValuePattern::read(field)?)],
            "clientIp" => vec![Check::Client(ValuePattern::read(field)?)],
            "bodyPatterns" => field.list(|pattern| ValuePattern::read(pattern).map(Check::Body))?,
            _ => Vec::new(),
        });
        Ok(())
    }

    /// True if the request is one of those that are meant.
    pub(crate) fn is_match(&self, look: &RequestSubject<'_>) -> bool {
        let mut checks = self.checks.iter();
        self.method.is_match(look.asked.method)
            && self.url.is_match(look.url, look.path)
            && checks.all(|check| self.compare(check, look, Measure::Match) <= 0.0)
    }

    /// Return how far a request is from those that are meant, by WireMock's weights: 0 for one of
    /// them, 1 at most. Distances of JSON, and of combined patterns, are 0 or 1.
    pub(crate) fn distance(&self, look: &RequestSubject<'_>) -> f64 {
        let part = |is_of_part: fn(&Check) -> bool| {
            let checks = self.checks.iter().filter(|check| is_of_part(check));
            mean(checks.map(|check| self.compare(check, look, Measure::Distance)))
        };
        let method = f64::from(u8::from(!self.method.is_match(look.asked.method)));
        let first = 10.0 * self.url.distance(look.url, look.path)
            + 3.0 * method
            + 10.0 * part(|check| matches!(check, Check::Host(_)))
            + 3.0 * part(|check| matches!(check, Check::Client(_)));
        // With a scheme of 3 and a port of 10, which are always right.
        if first > 0.0 {
            return first / 39.0;
        }
        let rest = part(|check| matches!(check, Check::PathParameter(..)))
            + part(|check| matches!(check, Check::Header(..) | Check::Credentials(_)))
            + part(|check| matches!(check, Check::Query(..)))
            + part(|check| matches!(check, Check::Form(..)))
            + part(|check| matches!(check, Check::Cookie(..)))
            + part(|check| matches!(check, Check::Body(_)));
        // These and parts of a body weigh 1 each.
        rest / 46.0
    }

    fn compare(&self, check: &Check, look: &RequestSubject<'_>, measure: Measure) -> f64 {
        let asked = &look.asked;
        match check {
            Check::PathParameter(name, pattern) => {
                let variables = self.path_variables(look.path);
                let found = variables.iter().rfind(|(key, _)| key == name);
                pattern.compare(&Subject::maybe(found.map(|(_, value)| *value)), measure)
            }
            Check::Query(name, pattern) => pattern.compare(asked.query_values(name), measure),
            Check::Header(name, pattern) => pattern.compare(asked.header_values(name), measure),
            Check::Cookie(name, pattern) => {
                // One that is not there fits `absent` itself and nothing else, not even
                // `doesNotMatch` (`allCookiesMatch`).
                let mut values = asked.cookie_values(name).map(Subject::new).peekable();
                if values.peek().is_none() && pattern.is_absent() {
                    return 0.0;
                }
                values
                    .map(|value| pattern.compare(&value, measure))
                    .fold(1.0, f64::min)
            }
            Check::Form(name, pattern) => pattern.compare(asked.form_values(name), measure),
            Check::Credentials(credentials) => {
                let is_there = asked.header_values(&AUTHORIZATION).any(|value| {
                    let split = value.split_at_checked(BASIC.len());
                    split.is_some_and(|(scheme, rest)| {
                        scheme.eq_ignore_ascii_case(BASIC) && rest == credentials
                    })
                });
                f64::from(u8::from(!is_there))
            }
            Check::Host(pattern) => pattern.compare(&Subject::maybe(asked.host()), measure),
            Check::Client(pattern) => pattern.compare(&Subject::new(asked.client_text()), measure),
            Check::Body(pattern) => pattern.compare(look.body(), measure),
        }
    }

    /// Return the pattern for the URL.
    pub(crate) fn url(&self) -> &UrlPattern {
        &self.url
    }

    /// Return the text in the path for the URL template's variables, as it was sent; wildcards are
    /// named by their number from 0. Nothing without a `urlPathTemplate`. Of two of one name the
    /// last counts.
    pub(crate) fn path_variables<'t>(&'t self, path: &'t str) -> Vec<(&'t str, &'t str)> {
        match &self.url {
            UrlPattern::PathTemplate(template) => template.variables(path).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

/// Reads the fields of an object, each with its name.
fn named(
    node: &Node<'_>,
    check: fn(&str, &Node<'_>) -> Result<Check, Problem>,
) -> Result<Vec<Check>, Problem> {
    node.fields()?
        .map(|(name, field)| check(name, &field))
        .collect()
}

fn credentials(node: &Node<'_>) -> Result<Check, Problem> {
    node.only("username password", &[])?;
    let name = node.need("username", Node::text)?;
    let password = node.need("password", Node::text)?;
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    Ok(Check::Credentials(encoded))
}

/// `method`: a name, `ANY` or `GET_OR_HEAD`; or, as in WireMock 4, `{"oneOf": [..]}` or
/// `{"noneOf": [..]}`.
#[derive(Clone, Debug, Default)]
pub(crate) enum MethodPattern {
    #[default]
    Any,
    OneOf(Vec<Method>),
    NoneOf(Vec<Method>),
}

fn method(node: &Node<'_>) -> Result<Method, Problem> {
    Method::from_bytes(node.text()?.as_bytes()).map_err(|_| node.malformed("not a method"))
}

impl MethodPattern {
    fn read(node: &Node<'_>) -> Result<Self, Problem> {
        for (key, variant) in [
            ("oneOf", Self::OneOf as fn(_) -> _),
            ("noneOf", Self::NoneOf as fn(_) -> _),
        ] {
            if let Some(methods) = node.get(key) {
                node.only(key, &[])?;
                return methods.list(method).map(variant);
            }
        }
        Ok(match method(node)?.as_str() {
            "ANY" => Self::Any,
            "GET_OR_HEAD" => Self::OneOf(vec![Method::GET, Method::HEAD]),
            _ => Self::OneOf(vec![method(node)?]),
        })
    }

    /// True if the method is one of those that are meant. WireMock turns the request's method to
    /// upper case first, but not the stub's: a stub for `get` never matches.
    fn is_match(&self, method: &Method) -> bool {
        let upper = method
            .as_str()
            .bytes()
            .map(|byte| byte.to_ascii_uppercase());
        let is_method = |known: &Method| known.as_str().bytes().eq(upper.clone());
        match self {
            Self::Any => true,
            Self::OneOf(methods) => methods.iter().any(is_method),
            Self::NoneOf(methods) => !methods.iter().any(is_method),
        }
    }
}

/// The one of the five URL keys that counts.
#[derive(Clone, Debug, Default)]
pub(crate) enum UrlPattern {
    /// No key: any URL.
    #[default]
    Any,
    /// `url`: path and query as they were sent.
    Url(String),
    /// `urlPattern`: an expression for path and query.
    UrlRegex(WholeRegex),
    /// `urlPath`: the path as it was sent, whatever the query.
    Path(String),
    /// `urlPathPattern`: an expression for the path.
    PathRegex(WholeRegex),
    /// `urlPathTemplate`: a template for the path.
    PathTemplate(PathTemplate),
}

impl UrlPattern {
    /// Takes the first key that is there, in WireMock's order (`UrlPattern.fromOneOf`).
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        if let Some(url) = node.read("url", Node::to)? {
            Ok(Self::Url(url))
        } else if let Some(regex) = node.read("urlPattern", WholeRegex::read)? {
            Ok(Self::UrlRegex(regex))
        } else if let Some(path) = node.read("urlPath", Node::to)? {
            Ok(Self::Path(path))
        } else if let Some(regex) = node.read("urlPathPattern", WholeRegex::read)? {
            Ok(Self::PathRegex(regex))
        } else {
            let template = node.read("urlPathTemplate", PathTemplate::read)?;
            Ok(template.map_or(Self::Any, Self::PathTemplate))
        }
    }

    /// True if the URL, path and query as they were sent, is one of those that are meant. `path` is
    /// its part before the query.
    pub(crate) fn is_match(&self, url: &str, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Url(expected) => url == expected,
            Self::UrlRegex(regex) => regex.is_match(url),
            Self::Path(expected) => path == expected,
            Self::PathRegex(regex) => regex.is_match(path),
            Self::PathTemplate(template) => template.is_match(path),
        }
    }

    /// Return how far a URL is from those that are meant.
    fn distance(&self, url: &str, path: &str) -> f64 {
        match self {
            _ if self.is_match(url, path) => 0.0,
            Self::Url(expected) => difference(expected, url),
            Self::Path(expected) => difference(expected, path),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pattern(value: &Value) -> Result<RequestPattern, Problem> {
        RequestPattern::read(&Node::root(value))
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (read, pointer) in [
            (json!([]), ""),
            (json!({"urlpath": "/"}), "/urlpath"),
            (json!({"url": 3}), "/url"),
            (json!({"method": "G T"}), "/method"),
            (json!({"method": {"oneOf": "GET"}}), "/method/oneOf"),
            (
                json!({"method": {"oneOf": ["GET"], "noneOf": []}}),
                "/method/noneOf",
            ),
            (json!({"host": "a"}), "/host"),
            (json!({"urlPattern": "(?U)a"}), "/urlPattern"),
            (
                json!({"urlPath": "/", "pathParameters": {}}),
                "/pathParameters",
            ),
            (json!({"port": 80}), "/port"),
            (json!({"customMatcher": {"name": "x"}}), "/customMatcher"),
            (json!({"multipartPatterns": [{}]}), "/multipartPatterns"),
            (json!({"headers": {"A": "b"}}), "/headers/A"),
            (json!({"headers": {"A b": {}}}), "/headers/A b"),
            (json!({"queryParameters": []}), "/queryParameters"),
            (json!({"bodyPatterns": {"contains": "a"}}), "/bodyPatterns"),
            (
                json!({"bodyPatterns": [{"binaryEqualTo": "?"}]}),
                "/bodyPatterns/0/binaryEqualTo",
            ),
            (json!({"basicAuth": {"username": "a"}}), "/basicAuth"),
        ] {
            assert_eq!(pattern(&read).unwrap_err().pointer, pointer, "{read}");
        }
        assert!(pattern(&json!({"multipartPatterns": [], "port": null})).is_ok());
    }
}
