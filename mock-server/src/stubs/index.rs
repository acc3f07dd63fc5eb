//! Index of stubs by URL: finds those that may match, by hash where a stub names one URL or one
//! path, by its beginning otherwise.
//!
//! It must not decide which stub matches: it only leaves out those that cannot.

use super::request_pattern::RequestPattern;
use super::url_pattern::UrlPattern;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The candidates for every URL, each by its rank in the order of precedence. All lists are in that
/// order.
///
/// The maps hash with a fixed seed: their keys come from operators, and requests for a URL add
/// none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    by_url: Ranks,
    by_path: Ranks,
    others: Vec<Other>,
}

/// By the whole of a text.
type Ranks = HashMap<Box<str>, Vec<usize>, FixedState>;

#[derive(Clone, Debug)]
struct Other {
    rank: usize,
    /// Beginning of the URL if the stub is a candidate. It is a copy: a scan then runs over memory
    /// in one piece.
    prefix: Box<str>,
}

impl Index {
    /// Makes an index of patterns in the order of precedence.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p RequestPattern>) -> Self {
        let mut index = Self::default();
        for (rank, pattern) in patterns.enumerate() {
            match pattern.url() {
                UrlPattern::Url(url) => index
                    .by_url
                    .entry(url.as_str().into())
                    .or_default()
                    .push(rank),
                UrlPattern::Path(path) => index
                    .by_path
                    .entry(path.as_str().into())
                    .or_default()
                    .push(rank),
                other => index.others.push(Other {
                    rank,
                    prefix: other.prefix().into(),
                }),
            }
        }
        index
    }

    /// The ranks of all stubs whose URL may be this one, in order; `path` is its part before the
    /// query. Allocates nothing.
    pub(crate) fn candidates<'i>(&'i self, url: &'i str, path: &str) -> Candidates<'i> {
        Candidates {
            by_url: self.by_url.get(url).map_or(&[], Vec::as_slice),
            by_path: self.by_path.get(path).map_or(&[], Vec::as_slice),
            others: &self.others,
            url,
        }
    }
}

/// Ranks in order, merged from three lists. Only as much of the third is looked at as outranks what
/// is taken.
#[derive(Debug)]
pub(crate) struct Candidates<'i> {
    by_url: &'i [usize],
    by_path: &'i [usize],
    others: &'i [Other],
    url: &'i str,
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let by_url = self.by_url.first().copied().unwrap_or(usize::MAX);
            let by_path = self.by_path.first().copied().unwrap_or(usize::MAX);
            let exact = by_url.min(by_path);
            match self.others.split_first() {
                Some((other, rest)) if other.rank < exact => {
                    self.others = rest;
                    if self.url.starts_with(&*other.prefix) {
                        return Some(other.rank);
                    }
                }
                _ if exact == usize::MAX => return None,
                _ if exact == by_url => {
                    self.by_url = self.by_url.split_first().map_or(&[], |(_, rest)| rest);
                    return Some(exact);
                }
                _ => {
                    self.by_path = self.by_path.split_first().map_or(&[], |(_, rest)| rest);
                    return Some(exact);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::node::Node;
    use serde_json::json;

    #[test]
    fn candidates_come_in_order_and_only_those() {
        let patterns = json!([
            {"urlPathPattern": "/b/.*"},
            {"url": "/a?x=1"},
            {},
            {"urlPath": "/a"},
            {"urlPattern": "/a.*"},
            {"url": "/a"},
            {"urlPathTemplate": "/a/{id}"},
            {"urlPath": "/a?x=1"},
        ]);
        let read = |pattern| RequestPattern::read(&Node::root(pattern)).unwrap();
        let patterns: Vec<_> = patterns.as_array().unwrap().iter().map(read).collect();
        let index = Index::new(patterns.iter());
        let path = |url: &'static str| url.split_once('?').map_or(url, |(path, _)| path);
        let candidates = |url| index.candidates(url, path(url)).collect::<Vec<_>>();
        assert_eq!(candidates("/a?x=1"), [1, 2, 3, 4]);
        assert_eq!(candidates("/a"), [2, 3, 4, 5]);
        assert_eq!(candidates("/a/3"), [2, 4, 6]);
        assert_eq!(candidates("/b/"), [0, 2]);
        assert_eq!(candidates(""), [2]);
    }
}
