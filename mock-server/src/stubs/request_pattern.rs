//! Patterns for requests (`matching/RequestPattern.java`). Stubs hold one each, and clients that
//! count requests ask with one.
//!
//! It must not know of stubs, priorities or scenarios.

use super::node::{Node, Problem};
use super::path_template::PathTemplate;
use super::request::RequestView;
use super::value_pattern::{MultiPattern, Subject, ValuePattern};
use super::whole_regex::WholeRegex;
use crate::text::BASE64;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
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

/// Fields that are known and not served.
const UNSUPPORTED: [&str; 5] = [
    "scheme",
    "port",
    "customMatcher",
    "customMatchers",
    "multipartPatterns",
];

impl RequestPattern {
    /// Reads the object under `request`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only(KNOWN)?;
        for key in UNSUPPORTED {
            let field = node.get(key);
            if let Some(field) = field.filter(|field| *field.value() != Value::Array(Vec::new())) {
                return Err(field.unsupported(format!("`{key}`")));
            }
        }
        let credentials = node.read("basicAuthCredentials", encoded)?;
        let pattern = Self {
            method: node
                .read("method", MethodPattern::read)?
                .unwrap_or_default(),
            url: UrlPattern::read(node)?,
            path_parameters: named(node, "pathParameters", value)?,
            query: named(node, "queryParameters", values)?,
            headers: named(node, "headers", header)?,
            cookies: named(node, "cookies", value)?,
            form: named(node, "formParameters", values)?,
            credentials: node.read("basicAuth", encoded)?.or(credentials),
            host: node.read("host", ValuePattern::read)?,
            client: node.read("clientIp", ValuePattern::read)?,
            body: node
                .read("bodyPatterns", |list| list.list(BodyPattern::read))?
                .unwrap_or_default(),
        };
        let parameters = node.get("pathParameters");
        match (&pattern.url, parameters) {
            (UrlPattern::PathTemplate(_), _) | (_, None) => {
                Ok(pattern.without_overridden_headers())
            }
            (_, Some(field)) => {
                Err(field.malformed("path parameters are looked at only with a `urlPathTemplate`"))
            }
        }
    }

    /// WireMock keeps credentials as a pattern for `Authorization`, in the place of any other.
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

/// Reads the fields of the object `key`, each with its name.
fn named<P>(
    node: &Node<'_>,
    key: &str,
    read: fn(&str, &Node<'_>) -> Result<P, Problem>,
) -> Result<Vec<P>, Problem> {
    let Some(map) = node.get(key) else {
        return Ok(Vec::new());
    };
    map.fields()?
        .map(|(name, field)| read(name, &field))
        .collect()
}

fn value(name: &str, field: &Node<'_>) -> Result<(String, ValuePattern), Problem> {
    Ok((name.to_owned(), ValuePattern::read(field)?))
}

fn values(name: &str, field: &Node<'_>) -> Result<(String, MultiPattern), Problem> {
    Ok((name.to_owned(), MultiPattern::read(field)?))
}

fn header(name: &str, field: &Node<'_>) -> Result<(HeaderName, MultiPattern), Problem> {
    let name =
        HeaderName::try_from(name).map_err(|_| field.malformed("not the name of a header"))?;
    Ok((name, MultiPattern::read(field)?))
}

fn encoded(node: &Node<'_>) -> Result<String, Problem> {
    node.only("username password")?;
    let name = node.need("username", Node::owned_text)?;
    let password = node.need("password", Node::owned_text)?;
    Ok(STANDARD.encode(format!("{name}:{password}")))
}

/// `method`.
#[derive(Clone, Debug, Default)]
pub(crate) enum MethodPattern {
    /// `ANY`, or nothing said.
    #[default]
    Any,
    /// One of these.
    OneOf(Vec<Method>),
    /// Any but these.
    NoneOf(Vec<Method>),
}

impl MethodPattern {
    /// Reads a name, `ANY`, `GET_OR_HEAD`, or what 4.x has: `{"oneOf": [..]}` and
    /// `{"noneOf": [..]}`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        if let Value::String(name) = node.value() {
            return match name.as_str() {
                "ANY" => Ok(Self::Any),
                "GET_OR_HEAD" => Ok(Self::OneOf(vec![Method::GET, Method::HEAD])),
                _ => Ok(Self::OneOf(vec![method(node)?])),
            };
        }
        node.only("oneOf noneOf")?;
        match (node.get("oneOf"), node.get("noneOf")) {
            (Some(list), None) => list.list(method).map(Self::OneOf),
            (None, Some(list)) => list.list(method).map(Self::NoneOf),
            _ => Err(node.malformed("expected a method, or one of `oneOf` and `noneOf`")),
        }
    }

    /// True if the method is one of those that are meant.
    pub(crate) fn is_match(&self, method: &Method) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(methods) => methods.iter().any(|one| is_method(one, method)),
            Self::NoneOf(methods) => !methods.iter().any(|one| is_method(one, method)),
        }
    }
}

fn method(node: &Node<'_>) -> Result<Method, Problem> {
    Method::from_bytes(node.text()?.as_bytes()).map_err(|_| node.malformed("not a method"))
}

/// WireMock turns the request's method to upper case first, but not the stub's: a stub for `get`
/// never matches.
fn is_method(pattern: &Method, method: &Method) -> bool {
    let (pattern, method) = (pattern.as_str().bytes(), method.as_str().bytes());
    pattern.eq(method.map(|byte| byte.to_ascii_uppercase()))
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
        if let Some(url) = node.read("url", Node::owned_text)? {
            Ok(Self::Url(url))
        } else if let Some(regex) = node.read("urlPattern", WholeRegex::read)? {
            Ok(Self::UrlRegex(regex))
        } else if let Some(path) = node.read("urlPath", Node::owned_text)? {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::request::testing::Request;
    use serde_json::json;

    fn pattern(value: &Value) -> Result<RequestPattern, Problem> {
        RequestPattern::read(&Node::root(value))
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
    fn what_is_wrong_is_named_with_its_place() {
        for (read, pointer) in [
            (json!([]), ""),
            (json!({"urlpath": "/"}), "/urlpath"),
            (json!({"url": 3}), "/url"),
            (json!({"method": "G T"}), "/method"),
            (json!({"method": {"anyOf": []}}), "/method/anyOf"),
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

    #[test]
    fn methods() {
        let head_or_put = json!({"oneOf": ["HEAD", "PUT"]});
        let table = [
            (json!("ANY"), "BREW", true),
            (json!("GET"), "GET", true),
            (json!("GET"), "HEAD", false),
            (json!("GET_OR_HEAD"), "HEAD", true),
            (json!("GET_OR_HEAD"), "POST", false),
            // The request's is turned to upper case, the stub's is not.
            (json!("GET"), "get", true),
            (json!("get"), "GET", false),
            (json!("get"), "get", false),
            (head_or_put.clone(), "PUT", true),
            (head_or_put, "GET", false),
            (json!({"noneOf": ["GET"]}), "GET", false),
            (json!({"noneOf": ["GET"]}), "PUT", true),
        ];
        for (read, method, expected) in table {
            let pattern = MethodPattern::read(&Node::root(&read)).unwrap();
            assert_eq!(
                pattern.is_match(&method.parse().unwrap()),
                expected,
                "{read} on {method}"
            );
        }
    }
}
