//! Patterns for URLs (`matching/UrlPattern.java`, `matching/UrlPathPattern.java`). Its tests are
//! those of `urls` in `request_pattern.rs`.
//!
//! It must not know anything else of a request.

use super::node::{Node, Problem};
use super::path_template::PathTemplate;
use super::whole_regex::WholeRegex;

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
        if let Some(url) = node.get("url") {
            Ok(Self::Url(url.text()?.to_owned()))
        } else if let Some(regex) = node.get("urlPattern") {
            WholeRegex::read(&regex).map(Self::UrlRegex)
        } else if let Some(path) = node.get("urlPath") {
            Ok(Self::Path(path.text()?.to_owned()))
        } else if let Some(regex) = node.get("urlPathPattern") {
            WholeRegex::read(&regex).map(Self::PathRegex)
        } else if let Some(template) = node.get("urlPathTemplate") {
            PathTemplate::read(&template).map(Self::PathTemplate)
        } else {
            Ok(Self::Any)
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

    /// Return the beginning of every URL that matches; may be empty.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Self::Any => "",
            Self::Url(text) | Self::Path(text) => text,
            Self::UrlRegex(regex) | Self::PathRegex(regex) => regex.prefix(),
            Self::PathTemplate(template) => template.prefix(),
        }
    }
}
