//! Patterns for requests (`matching/RequestPattern.java`). Stubs hold one each, and clients that
//! count requests ask with one.
//!
//! It must not know of stubs, priorities or scenarios.

use super::method_pattern::MethodPattern;
use super::node::{Node, Problem, Problems};
use super::request::RequestView;
use super::url_pattern::UrlPattern;
use super::value_pattern::{MultiPattern, Subject, ValuePattern};
use crate::setting::BASE64;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderName};
use serde_json::Value;
use std::cell::OnceCell;

/// Pattern for a request. The default matches anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestPattern {
    method: MethodPattern,
    url: UrlPattern,
    path_parameters: Vec<(String, ValuePattern)>,
    query: Vec<(String, MultiPattern)>,
    headers: Vec<(HeaderName, MultiPattern)>,
    cookies: Vec<(String, ValuePattern)>,
    form: Vec<(String, MultiPattern)>,
    /// User name and password as they stand in the header, in base 64.
    credentials: Option<String>,
    host: Option<ValuePattern>,
    client: Option<ValuePattern>,
    body: Vec<BodyPattern>,
}

/// One of `bodyPatterns`.
#[derive(Clone, Debug)]
enum BodyPattern {
    /// The body as text; an empty one is absent.
    Text(ValuePattern),
    /// Every byte.
    Bytes(Vec<u8>),
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
        let body = self.asked.body;
        self.body.get_or_init(|| {
            Subject::maybe((!body.is_empty()).then(|| String::from_utf8_lossy(body)))
        })
    }
}

/// Fields that are served. `basicAuthCredentials` is what WireMock itself writes for `basicAuth`.
const KNOWN: &str = "\
    method url urlPattern urlPath urlPathPattern urlPathTemplate pathParameters queryParameters headers cookies \
    formParameters basicAuth basicAuthCredentials host clientIp bodyPatterns scheme port customMatcher \
    customMatchers multipartPatterns";

impl RequestPattern {
    /// Reads the object under `request`, with all of its problems if there are any.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        problems.unknown_fields(node, KNOWN);
        for key in [
            "scheme",
            "port",
            "customMatcher",
            "customMatchers",
            "multipartPatterns",
        ] {
            let unsupported = node
                .get(key)
                .filter(|field| *field.value() != Value::Array(Vec::new()));
            problems.take(
                unsupported.map_or(Ok(()), |field| Err(field.unsupported(format!("`{key}`")))),
            );
        }
        let method = node
            .get("method")
            .map(|field| MethodPattern::read(&field))
            .transpose();
        let url = UrlPattern::read(node);
        let credentials = node
            .get("basicAuth")
            .or_else(|| node.get("basicAuthCredentials"));
        let value = |key| {
            node.get(key)
                .map(|field| ValuePattern::read(&field))
                .transpose()
        };
        let one = |name: &str, field: &Node<'_>| Ok((name.to_owned(), ValuePattern::read(field)?));
        let several =
            |name: &str, field: &Node<'_>| Ok((name.to_owned(), MultiPattern::read(field)?));
        let pattern = Self {
            method: problems.take(method).flatten().unwrap_or_default(),
            url: problems.take(url).unwrap_or_default(),
            path_parameters: named(node, "pathParameters", &mut problems, one),
            query: named(node, "queryParameters", &mut problems, several),
            headers: headers(node, &mut problems),
            cookies: named(node, "cookies", &mut problems, one),
            form: named(node, "formParameters", &mut problems, several),
            credentials: problems
                .take(credentials.map(|field| encoded(&field)).transpose())
                .flatten(),
            host: problems.take(value("host")).flatten(),
            client: problems.take(value("clientIp")).flatten(),
            body: bodies(node, &mut problems),
        };
        problems.take(pattern.checked_path_parameters(node));
        problems
            .or(Some(pattern))
            .map(Self::without_overridden_headers)
    }

    fn checked_path_parameters(&self, node: &Node<'_>) -> Result<(), Problem> {
        match (&self.url, node.get("pathParameters")) {
            (UrlPattern::PathTemplate(_), _) | (_, None) => Ok(()),
            (_, Some(field)) => {
                Err(field.malformed("path parameters are looked at only with a `urlPathTemplate`"))
            }
        }
    }

    /// `basicAuth` takes the place of a pattern for `Authorization`
    /// (`combineBasicAuthAndOtherHeaders`).
    fn without_overridden_headers(mut self) -> Self {
        if self.credentials.is_some() {
            self.headers.retain(|(name, _)| name != AUTHORIZATION);
        }
        self
    }

    /// True if the request is one of those that are meant.
    pub(crate) fn is_match(&self, look: &RequestSubject<'_>) -> bool {
        let asked = &look.asked;
        self.method.is_match(asked.method)
            && self.url.is_match(look.url, look.path)
            && self.has_path_parameters(look.path)
            && self
                .headers
                .iter()
                .all(|(name, pattern)| pattern.is_match(asked.header_values(name)))
            && self.has_credentials(asked)
            && self
                .query
                .iter()
                .all(|(key, pattern)| pattern.is_match(asked.query_values(key)))
            && self
                .form
                .iter()
                .all(|(key, pattern)| pattern.is_match(asked.form_values(key)))
            && self
                .cookies
                .iter()
                .all(|(name, pattern)| is_cookie_match(asked, name, pattern))
            && self
                .host
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(&Subject::maybe(asked.host())))
            && self
                .client
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(&Subject::new(asked.client_text())))
            && self.body.iter().all(|pattern| pattern.is_match(look))
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

    fn has_path_parameters(&self, path: &str) -> bool {
        if self.path_parameters.is_empty() {
            return true;
        }
        let variables = self.path_variables(path);
        let variable = |name: &str| {
            variables
                .iter()
                .rfind(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        self.path_parameters
            .iter()
            .all(|(name, pattern)| pattern.is_match(&Subject::maybe(variable(name))))
    }

    fn has_credentials(&self, asked: &RequestView<'_>) -> bool {
        let Some(credentials) = &self.credentials else {
            return true;
        };
        asked.header_values(&AUTHORIZATION).any(|value| {
            let split = value.split_at_checked(BASIC.len());
            split.is_some_and(|(scheme, rest)| {
                scheme.eq_ignore_ascii_case(BASIC) && rest == credentials
            })
        })
    }
}

/// Beginning of `Authorization`, in any case
/// (`matching/EqualToPatternWithCaseInsensitivePrefix.java`).
const BASIC: &str = "Basic ";

/// A cookie that is not there fits `absent` itself and nothing else, not even `doesNotMatch`
/// (`allCookiesMatch`).
fn is_cookie_match(asked: &RequestView<'_>, name: &str, pattern: &ValuePattern) -> bool {
    let mut values = asked.cookie_values(name).map(Subject::new).peekable();
    match values.peek() {
        None => matches!(pattern, ValuePattern::Absent),
        Some(_) => values.any(|value| pattern.is_match(&value)),
    }
}

impl BodyPattern {
    fn read(node: &Node<'_>) -> Result<Self, Problem> {
        let Some(bytes) = node.get("binaryEqualTo") else {
            return ValuePattern::read(node).map(Self::Text);
        };
        node.only("binaryEqualTo")?;
        let decoded = BASE64
            .decode(bytes.text()?)
            .map_err(|error| bytes.malformed(format!("not base 64: {error}")))?;
        Ok(Self::Bytes(decoded))
    }

    fn is_match(&self, look: &RequestSubject<'_>) -> bool {
        match self {
            Self::Text(pattern) => pattern.is_match(look.body()),
            Self::Bytes(expected) => look.asked.body == expected,
        }
    }
}

/// Reads a map from names to patterns.
fn named<P>(
    node: &Node<'_>,
    key: &str,
    problems: &mut Problems,
    read: impl Fn(&str, &Node<'_>) -> Result<P, Problem>,
) -> Vec<P> {
    let Some(map) = node.get(key) else {
        return Vec::new();
    };
    let fields = problems.take(map.fields()).into_iter().flatten();
    fields
        .filter_map(|(name, field)| problems.take(read(name, &field)))
        .collect()
}

fn headers(node: &Node<'_>, problems: &mut Problems) -> Vec<(HeaderName, MultiPattern)> {
    named(node, "headers", problems, |name, field| {
        let header =
            HeaderName::try_from(name).map_err(|_| field.malformed("not the name of a header"))?;
        Ok((header, MultiPattern::read(field)?))
    })
}

fn bodies(node: &Node<'_>, problems: &mut Problems) -> Vec<BodyPattern> {
    let Some(list) = node.get("bodyPatterns") else {
        return Vec::new();
    };
    let elements = problems.take(list.elements()).into_iter().flatten();
    elements
        .filter_map(|element| problems.take(BodyPattern::read(&element)))
        .collect()
}

fn encoded(node: &Node<'_>) -> Result<String, Problem> {
    node.only("username password")?;
    match (node.get("username"), node.get("password")) {
        (Some(name), Some(password)) => {
            Ok(STANDARD.encode(format!("{}:{}", name.text()?, password.text()?)))
        }
        _ => Err(node.malformed("expected `username` and `password`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::request::testing::Request;
    use serde_json::json;

    fn pattern(value: &Value) -> Result<RequestPattern, Vec<String>> {
        let read = RequestPattern::read(&Node::root(value));
        read.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    fn is_match(pattern: &RequestPattern, request: &Request) -> bool {
        request.see(|asked| pattern.is_match(&RequestSubject::at(asked)))
    }

    #[test]
    fn urls() {
        let table = [
            (json!({}), "/a?x=1", true),
            (json!({"url": "/a?x=1"}), "/a?x=1", true),
            (json!({"url": "/a"}), "/a?x=1", false),
            (json!({"url": "/a"}), "/a?", true),
            (json!({"url": "/a?"}), "/a?", false),
            // Neither side is decoded.
            (json!({"url": "/a b"}), "/a%20b", false),
            (json!({"urlPath": "/a%20b"}), "/a%20b?x", true),
            (json!({"urlPath": "/a"}), "/a/", false),
            (json!({"urlPattern": "/a.x=[0-9]"}), "/a?x=1", true),
            (json!({"urlPattern": "/a"}), "/a?x=1", false),
            (json!({"urlPathPattern": "/[a-z]"}), "/a?x=1", true),
            (json!({"urlPathPattern": "/[a-z]"}), "/a/b", false),
            (json!({"urlPathTemplate": "/i/{id}"}), "/i/1?x", true),
            (json!({"urlPathTemplate": "/i/{id}"}), "/i/1/2", false),
            // The first key counts.
            (json!({"urlPath": "/b", "url": "/a"}), "/a", true),
            (
                json!({"urlPathTemplate": "/a", "urlPattern": null, "urlPathPattern": "/b"}),
                "/b",
                true,
            ),
            (
                json!({"urlPathTemplate": "/i/{id}", "pathParameters": {"id": {"matches": "[0-9]+"}}}),
                "/i/12",
                true,
            ),
            (
                json!({"urlPathTemplate": "/i/{id}", "pathParameters": {"id": {"matches": "[0-9]+"}}}),
                "/i/1a",
                false,
            ),
            (
                json!({"urlPathTemplate": "/i/{id}", "pathParameters": {"id": {"equalTo": "a b"}}}),
                "/i/a%20b",
                false,
            ),
            (
                json!({"urlPathTemplate": "/i/{id}", "pathParameters": {"other": {"absent": true}}}),
                "/i/1",
                true,
            ),
            (
                json!({"queryParameters": {"q": {"equalTo": "a b"}}}),
                "/?q=x&q=a+b",
                true,
            ),
            (
                json!({"queryParameters": {"q": {"equalTo": "a"}, "r": {"absent": true}}}),
                "/?q=a&r",
                false,
            ),
            (
                json!({"queryParameters": {"q": {"doesNotMatch": "a"}}}),
                "/",
                true,
            ),
        ];
        for (read, target, expected) in table {
            assert_eq!(
                is_match(&pattern(&read).unwrap(), &Request::get(target)),
                expected,
                "{read} on {target}"
            );
        }
    }

    #[test]
    fn headers_cookies_credentials_and_bodies() {
        let request = Request {
            headers: vec![
                ("accept", "text/html"),
                ("accept", "application/json"),
                ("cookie", "session=abc; theme=dark"),
                // user:pass
                ("authorization", "bAsIc dXNlcjpwYXNz"),
                ("host", "api.example.org:8080"),
                ("content-type", "application/x-www-form-urlencoded"),
            ],
            body: "a=1&b=x+y",
            ..Request::get("/")
        };
        let basic = json!({"username": "user", "password": "pass"});
        let table = [
            (json!({"headers": {"Accept": {"contains": "json"}}}), true),
            (
                json!({"headers": {"Accept": {"hasExactly": [{"contains": "json"}]}}}),
                false,
            ),
            (
                json!({"headers": {"X-No": {"absent": true}, "ACCEPT": {"includes": [{"contains": "html"}]}}}),
                true,
            ),
            (json!({"headers": {"X-No": {"doesNotContain": "a"}}}), true),
            (
                json!({"cookies": {"session": {"matches": "[a-c]+"}, "no": {"absent": true}}}),
                true,
            ),
            // For a cookie that is not there only `absent` will do.
            (json!({"cookies": {"no": {"doesNotMatch": "a"}}}), false),
            (json!({"cookies": {"Session": {"equalTo": "abc"}}}), false),
            (json!({"basicAuth": basic}), true),
            (
                json!({"basicAuthCredentials": {"username": "user", "password": "no"}}),
                false,
            ),
            (
                json!({"basicAuth": basic, "headers": {"Authorization": {"equalTo": "never"}}}),
                true,
            ),
            (json!({"host": {"equalTo": "api.example.org"}}), true),
            (json!({"clientIp": {"equalTo": "127.0.0.2"}}), false),
            (json!({"formParameters": {"b": {"equalTo": "x y"}}}), true),
            (
                json!({"bodyPatterns": [{"contains": "a=1"}, {"matches": "a.*y"}]}),
                true,
            ),
            (
                json!({"bodyPatterns": [{"contains": "a=1"}, {"equalToJson": {}}]}),
                false,
            ),
            (
                json!({"bodyPatterns": [{"binaryEqualTo": "YT0xJmI9eCt5"}]}),
                true,
            ),
            (json!({"bodyPatterns": [{"binaryEqualTo": ""}]}), false),
        ];
        for (read, expected) in table {
            assert_eq!(
                is_match(&pattern(&read).unwrap(), &request),
                expected,
                "{read}"
            );
        }
        let empty = Request::get("/");
        for (operator, expected) in [
            ("absent", true),
            ("equalTo", false),
            ("doesNotContain", true),
        ] {
            let read = pattern(&json!({"bodyPatterns": [{operator: ""}]})).unwrap();
            assert_eq!(
                is_match(&read, &empty),
                expected,
                "{operator} on an empty body"
            );
        }
        assert!(!is_match(
            &pattern(&json!({"basicAuth": basic})).unwrap(),
            &empty
        ));
        let template = pattern(&json!({"urlPathTemplate": "/a/{x}/**"})).unwrap();
        assert_eq!(
            template.path_variables("/a/1/b/c"),
            [("x", "1"), ("0", "b/c")]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (
                json!([]),
                "the whole document: expected an object, found an array",
            ),
            (
                json!({"urlpath": "/"}),
                "/urlpath: unknown field `urlpath`; did you mean urlPath",
            ),
            (json!({"url": 3}), "/url: expected a text, found a number"),
            (json!({"method": "G T"}), "/method: not a method"),
            (
                json!({"method": {"anyOf": []}}),
                "/method/anyOf: unknown field `anyOf`; known here: oneOf, noneOf",
            ),
            (
                json!({"urlPattern": "(?U)a"}),
                "/urlPattern: a regular expression with the flag `d`, `U` or `R`",
            ),
            (
                json!({"urlPath": "/", "pathParameters": {}}),
                "/pathParameters: path parameters are looked at only with",
            ),
            (json!({"port": 80}), "/port: `port` is not supported"),
            (
                json!({"customMatcher": {"name": "x"}}),
                "/customMatcher: `customMatcher` is not supported",
            ),
            (
                json!({"multipartPatterns": [{}]}),
                "/multipartPatterns: `multipartPatterns` is not supported",
            ),
            (
                json!({"headers": {"A": "b"}}),
                "/headers/A: expected an object, found a text",
            ),
            (
                json!({"queryParameters": []}),
                "/queryParameters: expected an object, found an array",
            ),
            (
                json!({"bodyPatterns": {"contains": "a"}}),
                "/bodyPatterns: expected an array, found an object",
            ),
            (
                json!({"bodyPatterns": [{"binaryEqualTo": "?"}]}),
                "/bodyPatterns/0/binaryEqualTo: not base 64",
            ),
            (
                json!({"basicAuth": {"username": "a"}}),
                "/basicAuth: expected `username` and `password`",
            ),
        ];
        for (read, expected) in table {
            let problems = pattern(&read).unwrap_err();
            assert!(
                problems.iter().any(|problem| problem.starts_with(expected)),
                "{read}: {problems:?}"
            );
        }
        assert!(pattern(&json!({"multipartPatterns": [], "port": null})).is_ok());
    }
}
