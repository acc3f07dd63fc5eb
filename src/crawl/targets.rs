//! Requests of a crawl: its lines, and the hosts that they name.
//!
//! Made once by the command line and shared by the shards as it is; a line takes the text of its path and 16 bytes. The
//! hot path reads it and allocates nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use http::header::{HeaderValue, InvalidHeaderValue};

use super::template::{Flaw, Template, TemplateError};

/// A place for the ID that there is not.
const NO_PLACE: u32 = u32::MAX;

/// The lines of a crawl: item `i` asks line `i` modulo their number. One URL is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    hosts: Vec<Host>,
    /// The paths, one behind the other.
    paths: String,
    lines: Vec<UrlLine>,
    first: String,
    asks_ids: IdUse,
}

/// Scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP within TLS.
    Https,
}

impl Scheme {
    /// Start of a URL of this scheme.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Default port.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host: what requests of one scheme at one name and port have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    scheme: Scheme,
    name: String,
    port: u16,
    header: HeaderValue,
}

/// Use of the ID in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdUse {
    /// At least one line has a place for the ID.
    Yes,
    /// Each line is one URL.
    No,
}

/// A line of the crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UrlLine {
    /// End of its path, which begins where that of the line before it ends.
    end: usize,
    /// Position of the ID in its path.
    place: u32,
    host: u32,
}

/// Host and path of the request for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestTarget<'a> {
    pub(super) host: usize,
    pub(super) before: &'a str,
    /// Part of the path after the ID; none when there is no place for it.
    pub(super) after: Option<&'a str>,
}

impl Host {
    /// Its name or address, without brackets, as it was first written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Scheme of its URLs.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its `Host` header.
    pub(super) const fn header(&self) -> &HeaderValue {
        &self.header
    }
}

impl Targets {
    /// The lines in their order. Hosts are told apart by scheme, name, without regard to case, and port; they are numbered as
    /// they come.
    ///
    /// # Errors
    /// The first error of `templates`.
    pub fn collect<E: From<TemplateError>>(
        templates: impl IntoIterator<Item = Result<Template, E>>,
    ) -> Result<Self, E> {
        let mut numbers: HashMap<(Scheme, String, u16), u32> = HashMap::new();
        let mut targets = Self {
            hosts: Vec::new(),
            paths: String::new(),
            lines: Vec::new(),
            first: String::new(),
            asks_ids: IdUse::No,
        };
        for template in templates {
            let template = template?;
            let number = u32::try_from(targets.hosts.len()).unwrap_or(u32::MAX);
            let host = match numbers.entry((template.scheme(), template.host().to_ascii_lowercase(), template.port())) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let url = |error: InvalidHeaderValue| {
                        TemplateError::Url(template.to_string(), Flaw::Other(error.to_string()))
                    };
                    let header = HeaderValue::from_str(template.authority()).map_err(url)?;
                    let (scheme, name, port) = (template.scheme(), template.host().to_owned(), template.port());
                    targets.hosts.push(Host { scheme, name, port, header });
                    *new.insert(number)
                }
            };
            if targets.lines.is_empty() {
                targets.first = template.to_string();
            }
            let (before, after) = template.path();
            let place = after.map_or(NO_PLACE, |_| u32::try_from(before.len()).unwrap_or(NO_PLACE));
            targets.paths.push_str(before);
            if let Some(after) = after {
                targets.asks_ids = IdUse::Yes;
                targets.paths.push_str(after);
            }
            targets.lines.push(UrlLine { end: targets.paths.len(), place, host });
        }
        targets.paths.shrink_to_fit();
        targets.lines.shrink_to_fit();
        Ok(targets)
    }

    /// The one line of a crawl of `template`.
    ///
    /// # Errors
    /// When its host cannot stand in a header.
    pub fn one(template: &Template) -> Result<Self, TemplateError> {
        Self::collect([Ok(template.clone())])
    }

    /// The hosts, in the order of their numbers.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Return the number of lines.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Use of IDs in the requests.
    #[must_use]
    pub const fn asks_ids(&self) -> IdUse {
        self.asks_ids
    }

    /// The number of the host that item `id` is asked of.
    pub(super) fn host_of(&self, id: u64) -> u32 {
        self.lines.get(self.line(id)).map_or(0, |line| line.host)
    }

    /// Return the host and path for item `id`. There is a line, or nothing is crawled.
    pub(super) fn of(&self, id: u64) -> RequestTarget<'_> {
        let at = self.line(id);
        let start = if at == 0 { 0 } else { self.lines[at - 1].end };
        let UrlLine { end, place, host } = self.lines[at];
        let path = &self.paths[start..end];
        let (before, after) = if place == NO_PLACE {
            (path, None)
        } else {
            let (before, after) = path.split_at(place as usize);
            (before, Some(after))
        };
        RequestTarget { host: host as usize, before, after }
    }

    fn line(&self, id: u64) -> usize {
        match self.lines.len() {
            // Most crawls have one, and need no division.
            0 | 1 => 0,
            lines => usize::try_from(id % lines as u64).unwrap_or(0),
        }
    }
}

impl std::fmt::Display for Targets {
    /// The first line, and how many more there are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lines.len() {
            0 | 1 => f.write_str(&self.first),
            lines => write!(f, "{} and {} more", self.first, lines - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(lines: &[&str]) -> Targets {
        Targets::collect(lines.iter().map(|line| Template::as_written(line))).unwrap()
    }

    #[test]
    fn items_go_round_the_lines() {
        let targets = targets(&["http://a/x/{id}?b=1", "http://b:81/y", "http://A:80", "http://b:81/{id}"]);
        let of = |id: u64| {
            let RequestTarget { host, before, after } = targets.of(id);
            assert_eq!(host, targets.host_of(id) as usize);
            (host, before, after)
        };
        for round in [0, 4, u64::MAX - 3] {
            assert_eq!(of(round), (0, "/x/", Some("?b=1")));
            assert_eq!(of(round + 1), (1, "/y", None));
            assert_eq!(of(round + 2), (0, "/", None));
            assert_eq!(of(round + 3), (1, "/", Some("")));
        }
        assert_eq!((targets.lines(), targets.asks_ids()), (4, IdUse::Yes));
        assert_eq!(targets.to_string(), "http://a/x/{id}?b=1 and 3 more");
        let hosts: Vec<_> = targets.hosts().iter().map(|host| (host.name(), host.port())).collect();
        assert_eq!(hosts, [("a", 80), ("b", 81)]);
    }

    #[test]
    fn one_line_is_what_was_typed() {
        let one = Targets::one(&"http://h/items".parse().unwrap()).unwrap();
        assert_eq!((one.to_string(), one.of(7).after), ("http://h/items/{id}".to_owned(), Some("")));
        assert_eq!(targets(&["http://h/items"]).asks_ids(), IdUse::No);
    }

    #[test]
    fn many_lines_cost_little() {
        let lines = 100_000;
        let many =
            Targets::collect((0..lines).map(|i| Template::as_written(&format!("http://h{}/p{i}", i % 3)))).unwrap();
        let bytes = many.paths.capacity() + many.lines.capacity() * size_of::<UrlLine>();
        assert!(bytes / lines < 32, "{bytes}");
        assert_eq!((many.hosts().len(), many.of(99_999).before), (3, "/p99999"));
    }
}
