//! Requests of a crawl: its lines, and the hosts that they name.
//!
//! Made once by the command line and shared by the shards as it is; a line takes the text of its
//! path and 16 bytes. The hot path reads it and allocates nothing.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crawlmark_harness::plan::split_point;
use crawlmark_harness::stats::MOST_GROUPS;
use crawlmark_harness::trace::mixed;
use http::Method;

use super::content::ContentHasher;
use super::flow::Flow;
use super::host::{Host, Scheme};
use super::redact;
use super::shape::RequestShape;
use super::template::{PLACE, Template, TemplateError};
use crate::ids::IdFormat;

/// A place for the ID that there is not.
const NO_PLACE: u32 = u32::MAX;

/// A request of its own that a line does not have.
const NO_SHAPE: u32 = u32::MAX;

/// Further requests that a line does not have.
const NO_FLOW: u32 = u32::MAX;

/// Most lines with further requests.
const MOST_FLOWS: usize = 10_000;

/// Least length of an ID with hexadecimal letters or hyphens: shorter ones may be words.
const LONG_ID: usize = 8;

/// The lines of a crawl: item `i` asks line `i` modulo their number, or one that is drawn by
/// weight. One URL is one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    hosts: Vec<Host>,
    /// The paths, one behind the other.
    paths: String,
    lines: Vec<UrlLine>,
    /// Number of the template of each line.
    line_templates: Vec<u8>,
    /// The first templates by number: host, method if not that of the flags, and pattern.
    templates: Vec<(u32, Option<Method>, String)>,
    /// Requests of lines that are not as the flags say.
    shapes: Vec<RequestShape>,
    /// Number of the shape of each line, [`NO_SHAPE`] without one; empty if no line has one.
    line_shapes: Vec<u32>,
    /// Further requests of lines, and their number for each line, [`NO_FLOW`] without any; empty if
    /// no line has one.
    flows: Vec<Arc<Flow>>,
    line_flows: Vec<u32>,
    order: LineOrder,
    first: String,
    asks_ids: IdUse,
}

/// Line of each item. It depends on the item alone, so that every number of shards sends the same
/// requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum LineOrder {
    /// One after the other, again and again.
    #[default]
    InTurn,
    /// By weight, from a seed. Holds the sum of the weights up to each line, its own included.
    Drawn { seed: u64, sums: Vec<u64> },
    /// One after the other over so many shards, which take turns: see [`dealt`].
    Dealt { shards: u32 },
}

/// Return the line of item `id` if items `0..lines` are split over `shards` (at least 1), and lines
/// are dealt out to the shards one by one: each shard has every `shards`-th line, in order.
pub(crate) fn dealt(id: u64, lines: u64, shards: u32) -> u64 {
    let (lines, shards) = (lines.max(1), u64::from(shards.max(1)));
    // The shard whose part of the split holds the item.
    let shard = u64::try_from((u128::from(id + 1) * u128::from(shards) - 1) / u128::from(lines))
        .unwrap_or(0);
    let (whole, start) = (lines / shards, split_point(lines, shards, shard));
    match id - start {
        turn if turn < whole => turn * shards + shard,
        // The last turn is that of the shards with one line more.
        _ => whole * shards + start - shard * whole,
    }
}

/// A line of a crawl: a URL, and a request of its own if it has one.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its URL.
    pub template: Template,
    /// Its method, headers and body; none for those of the flags.
    pub shape: Option<RequestShape>,
    /// Its method; none for that of the flags.
    pub method: Option<Method>,
    /// Its further requests.
    pub flow: Option<Flow>,
}

impl From<Template> for Line {
    fn from(template: Template) -> Self {
        Self {
            template,
            shape: None,
            method: None,
            flow: None,
        }
    }
}

/// Use of the ID in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdUse {
    /// At least one line has a place for the ID.
    Yes,
    /// Each line is one URL.
    #[default]
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

/// Host, path and shape of the request for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTarget<'a> {
    pub(crate) host: usize,
    pub(crate) before: &'a str,
    /// Part of the path after the ID; none when there is no place for it.
    pub(crate) after: Option<&'a str>,
    /// Its method, headers and body; none for those of the flags.
    pub(crate) shape: Option<&'a RequestShape>,
}

impl RequestTarget<'_> {
    /// Append the path of the request for item `id`, with IDs as `shape` writes them.
    pub(crate) fn write_path(&self, shape: &RequestShape, id: u64, output: &mut Vec<u8>) {
        output.extend_from_slice(self.before.as_bytes());
        if let Some(after) = self.after {
            IdFormat::write_or_plain(shape.id_format, id, output);
            output.extend_from_slice(after.as_bytes());
        }
    }
}

/// Numbers of what the lines so far have in common.
#[derive(Debug, Default)]
struct Known {
    hosts: HashMap<(Scheme, String, u16), u32>,
    patterns: HashMap<(u32, Option<Method>, String), u8>,
    shapes: HashMap<RequestShape, u32>,
}

impl Targets {
    /// The lines in their order. Hosts are told apart by scheme, name and port; they are numbered
    /// as they come.
    ///
    /// # Errors
    /// The first error of `lines`.
    pub fn collect<L: Into<Line>, E: From<TemplateError>>(
        lines: impl IntoIterator<Item = Result<L, E>>,
    ) -> Result<Self, E> {
        let mut targets = Self::default();
        let mut known = Known::default();
        for line in lines {
            targets.push(line?.into(), &mut known)?;
        }
        targets.paths.shrink_to_fit();
        targets.lines.shrink_to_fit();
        targets.line_templates.shrink_to_fit();
        if targets.shapes.is_empty() {
            targets.line_shapes = Vec::new();
        }
        targets.line_shapes.shrink_to_fit();
        if targets.flows.is_empty() {
            targets.line_flows = Vec::new();
        }
        Ok(targets)
    }

    fn push(&mut self, line: Line, known: &mut Known) -> Result<(), TemplateError> {
        let Line {
            template,
            shape,
            method,
            flow,
        } = line;
        if self.lines.is_empty() {
            self.first = template.to_string();
        }
        let host = self.host_number(&template, known)?;
        let (before, after) = template.path();
        let path = match after {
            Some(after) => [before, PLACE, after].concat(),
            None => before.to_owned(),
        };
        let number = self.template_number(host, method, &path, known);
        self.line_templates.push(number);
        self.push_flow(flow, known)?;
        if after.is_some() || shape.as_ref().is_some_and(RequestShape::has_id) {
            self.asks_ids = IdUse::Yes;
        }
        self.line_shapes.push(shape.map_or(NO_SHAPE, |shape| {
            let next = u32::try_from(self.shapes.len()).unwrap_or(NO_SHAPE);
            *known.shapes.entry(shape).or_insert_with_key(|shape| {
                self.shapes.push(shape.clone());
                next
            })
        }));
        self.paths.extend([before, after.unwrap_or_default()]);
        self.lines.push(UrlLine {
            end: self.paths.len(),
            place: after.map_or(NO_PLACE, |_| {
                u32::try_from(before.len()).unwrap_or(NO_PLACE)
            }),
            host,
        });
        Ok(())
    }

    /// Return the number of the template of a path, which may be a new one.
    fn template_number(
        &mut self,
        host: u32,
        method: Option<Method>,
        path: &str,
        known: &mut Known,
    ) -> u8 {
        let key = (host, method, pattern(path));
        known.patterns.get(&key).copied().unwrap_or_else(|| {
            let next = u8::try_from(known.patterns.len()).unwrap_or(u8::MAX);
            if known.patterns.len() < MOST_GROUPS {
                self.templates.push(key.clone());
                known.patterns.insert(key, next);
            }
            next
        })
    }

    /// Add the further requests of a line.
    fn push_flow(&mut self, flow: Option<Flow>, known: &mut Known) -> Result<(), TemplateError> {
        let Some(mut flow) = flow else {
            self.line_flows.push(NO_FLOW);
            return Ok(());
        };
        for step in &mut flow.steps {
            step.host = self.host_number(&step.template, known)?;
            step.group = self.template_number(step.host, step.method.clone(), &step.path, known);
            if step.has_id() {
                self.asks_ids = IdUse::Yes;
            }
        }
        let first = flow.steps.first().map(|step| step.template.to_string());
        if self.flows.len() == MOST_FLOWS {
            let why =
                "is of one line more than the 10,000 that may have several requests: use {id}";
            return Err(TemplateError::Url(
                first.unwrap_or_default(),
                why.to_owned(),
            ));
        }
        self.line_flows
            .push(u32::try_from(self.flows.len()).unwrap_or(NO_FLOW));
        self.flows.push(Arc::new(flow));
        Ok(())
    }

    /// Return the number of the host of a URL, which may be a new one.
    fn host_number(
        &mut self,
        template: &Template,
        known: &mut Known,
    ) -> Result<u32, TemplateError> {
        let (scheme, name, port) = (template.scheme, template.host(), template.port);
        let key = (scheme, name.to_owned(), port);
        if let Some(number) = known.hosts.get(&key) {
            return Ok(*number);
        }
        let number = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.hosts.push(Host::of(template)?);
        known.hosts.insert(key, number);
        Ok(number)
    }

    /// Have each item ask a line that is drawn by these weights, one per line, from `seed`.
    #[must_use]
    pub fn drawn(self, weights: impl Iterator<Item = u32>, seed: u64) -> Self {
        let mut all = 0_u64;
        let sums = weights.map(|weight| {
            all += u64::from(weight);
            all
        });
        Self {
            order: LineOrder::Drawn {
                seed,
                sums: sums.collect(),
            },
            ..self
        }
    }

    /// Have `shards` shards take turns with the lines, each of which is one item.
    #[must_use]
    pub fn dealt(self, shards: u32) -> Self {
        Self {
            order: LineOrder::Dealt { shards },
            ..self
        }
    }

    /// True if lines are drawn by weight.
    #[must_use]
    pub const fn is_drawn(&self) -> bool {
        matches!(self.order, LineOrder::Drawn { .. })
    }

    /// Requests that are not as the flags say.
    pub fn shapes(&self) -> impl Iterator<Item = &RequestShape> {
        let steps = self.flows.iter().flat_map(|flow| &flow.steps);
        self.shapes.iter().chain(steps.map(|step| &step.shape))
    }

    /// True if an item may have several requests.
    #[must_use]
    pub const fn has_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    /// True if items may use values of a request that is sent once per shard.
    #[must_use]
    pub fn has_shared_values(&self) -> bool {
        self.flows.iter().any(|flow| flow.first.is_shared)
    }

    /// Return the further requests of item `id`, if it has any.
    #[inline]
    pub(crate) fn flow_of(&self, id: u64) -> Option<&Arc<Flow>> {
        if self.flows.is_empty() {
            return None;
        }
        self.flows
            .get(*self.line_flows.get(self.line(id))? as usize)
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
    #[inline]
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

    /// Return the number of the host that item `id` is requested from.
    #[inline]
    pub(crate) fn host_of(&self, id: u64) -> u32 {
        // Of one host, no line decides.
        if self.hosts.len() == 1 {
            return 0;
        }
        self.lines.get(self.line(id)).map_or(0, |line| line.host)
    }

    /// The templates of the URLs without secrets, in the order of their numbers, and those beyond
    /// the first [`MOST_GROUPS`] as one. With their methods and hosts if there are several;
    /// `of_flags` is the method of lines without one.
    #[must_use]
    pub fn templates(&self, of_flags: &Method) -> Vec<String> {
        let has_methods = self.templates.iter().any(|(_, method, _)| method.is_some());
        let others = self
            .line_templates
            .iter()
            .any(|number| usize::from(*number) >= self.templates.len());
        self.templates
            .iter()
            .map(|(host, method, pattern)| {
                let host = self
                    .hosts
                    .get(*host as usize)
                    .filter(|_| self.hosts.len() > 1);
                let host =
                    host.map_or_else(String::new, |host| format!("{}:{}", host.name, host.port));
                let url = redact::url(&(host + pattern));
                if has_methods {
                    format!("{} {url}", method.as_ref().unwrap_or(of_flags))
                } else {
                    url
                }
            })
            .chain(others.then(|| "all others".to_owned()))
            .collect()
    }

    /// The number of the template of request `number` of item `id`, counted from 0.
    pub(crate) fn template_of(&self, id: u64, number: usize) -> u32 {
        if let Some(at) = number.checked_sub(1)
            && let Some(step) = self.flow_of(id).and_then(|flow| flow.steps.get(at))
        {
            return step.group.into();
        }
        self.line_templates
            .get(self.line(id))
            .copied()
            .map_or(0, u32::from)
    }

    /// Return the host and path for item `id`. There is a line, or nothing is crawled.
    pub(crate) fn of(&self, id: u64) -> RequestTarget<'_> {
        self.of_line(self.line(id))
    }

    fn of_line(&self, at: usize) -> RequestTarget<'_> {
        let start = if at == 0 { 0 } else { self.lines[at - 1].end };
        let UrlLine { end, place, host } = self.lines[at];
        let path = &self.paths[start..end];
        let (before, after) = if place == NO_PLACE {
            (path, None)
        } else {
            let (before, after) = path.split_at(place as usize);
            (before, Some(after))
        };
        let shape = self
            .line_shapes
            .get(at)
            .and_then(|number| self.shapes.get(*number as usize));
        RequestTarget {
            host: host as usize,
            before,
            after,
            shape,
        }
    }

    /// Return a hash of all that is asked for, without secrets; `of_flags` is the shape of lines
    /// without one of their own.
    pub(crate) fn content_hash(&self, of_flags: &RequestShape) -> u64 {
        let mut to = ContentHasher::default();
        for shape in self.shapes().chain([of_flags]) {
            shape.hash_content(&mut to);
        }
        for Host {
            scheme, name, port, ..
        } in &self.hosts
        {
            (scheme, name, port).hash(&mut to);
        }
        for line in 0..self.lines.len() {
            let RequestTarget {
                host,
                before,
                after,
                ..
            } = self.of_line(line);
            (host, redact::url(before), after.map(redact::url)).hash(&mut to);
        }
        for flow in &self.flows {
            flow.hash_content(&mut to);
        }
        (&self.line_shapes, &self.line_flows).hash(&mut to);
        if let LineOrder::Drawn { sums, .. } = &self.order {
            sums.hash(&mut to);
        }
        to.finish()
    }

    /// Return the target of every ID, if there is one for all of them.
    pub(crate) fn only(&self) -> Option<RequestTarget<'_>> {
        (self.lines.len() == 1).then(|| self.of(0))
    }

    #[inline]
    fn line(&self, id: u64) -> usize {
        let line = match (&self.order, self.lines.len() as u64) {
            // Most crawls have one, and need no division.
            (_, 0 | 1) => 0,
            (LineOrder::InTurn, lines) => id % lines,
            (LineOrder::Drawn { seed, sums }, _) => {
                // The upper half of the product is a number below the sum of all weights.
                let drawn = u128::from(mixed(mixed(*seed).wrapping_add(id)));
                let at =
                    u64::try_from((drawn * u128::from(sums.last().copied().unwrap_or(0))) >> 64)
                        .unwrap_or(0);
                sums.partition_point(|sum| *sum <= at) as u64
            }
            (LineOrder::Dealt { shards }, lines) => dealt(id.min(lines - 1), lines, *shards),
        };
        usize::try_from(line).unwrap_or(0)
    }
}

/// Template of a path and query: `{id}` in the place of each part of the path that is a number, a
/// UUID or in hexadecimal digits, and the names of the query without values.
fn pattern(path: &str) -> String {
    let (path, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    let parts: Vec<&str> = path
        .split('/')
        .map(|part| if is_id(part) { PLACE } else { part })
        .collect();
    let names = query.map_or_else(String::new, |query| {
        let names = query.split('&').filter_map(|pair| pair.split('=').next());
        format!("?{}", names.collect::<Vec<_>>().join("&"))
    });
    parts.join("/") + &names
}

/// True if a part of a path is a number, or long and in hexadecimal digits and hyphens.
fn is_id(part: &str) -> bool {
    let is_hex = part.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let is_number = part.chars().all(|c| c.is_ascii_digit());
    is_hex && part.contains(|c: char| c.is_ascii_digit()) && (part.len() >= LONG_ID || is_number)
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
    use proptest::prelude::*;

    use super::*;

    fn targets(lines: &[&str]) -> Targets {
        Targets::collect(lines.iter().map(|line| line.parse::<Template>())).unwrap()
    }

    #[test]
    fn items_go_round_the_lines() {
        let targets = targets(&[
            "http://a/x/{id}?b=1",
            "http://b:81/y",
            "http://A:80",
            "http://b:81/{id}",
        ]);
        let of = |id: u64| {
            let RequestTarget {
                host,
                before,
                after,
                ..
            } = targets.of(id);
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
        let hosts: Vec<_> = targets
            .hosts()
            .iter()
            .map(|host| (host.name(), host.port))
            .collect();
        assert_eq!(hosts, [("a", 80), ("b", 81)]);
    }

    #[test]
    fn urls_are_told_apart_by_what_is_no_id() {
        let one_host = targets(&[
            "http://a/x/17?page=2&token=s3cret",
            "http://a/x/{id}?page&token=1",
            "http://a/v2/users/3f2504e0-4f89-11d3-9a0c-0305e82c3301/feed",
            "http://a/v2/users/deadbeef/feed",
            "http://a/v2/users/00c0ffee/feed",
            "http://a",
        ]);
        let numbers: Vec<u32> = (0..6).map(|id| one_host.template_of(id, 0)).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 1, 3]);
        let named = [
            "/x/{id}?page&token",
            "/v2/users/{id}/feed",
            "/v2/users/deadbeef/feed",
            "/",
        ];
        assert_eq!(one_host.templates(&Method::GET), named);
        let two_hosts = targets(&["http://a/x/1", "http://b:81/x/2"]);
        assert_eq!(
            two_hosts.templates(&Method::GET),
            ["a:80/x/{id}", "b:81/x/{id}"]
        );
        let lines = [
            ("1", None),
            ("2", Some(Method::PUT)),
            ("3", Some(Method::DELETE)),
            ("4", Some(Method::PUT)),
        ];
        let methods = Targets::collect::<_, TemplateError>(lines.map(|(id, method)| {
            Ok(Line {
                method,
                ..format!("http://a/x/{id}").parse::<Template>()?.into()
            })
        }))
        .unwrap();
        assert_eq!(
            methods.templates(&Method::GET),
            ["GET /x/{id}", "PUT /x/{id}", "DELETE /x/{id}"]
        );
        assert_eq!(
            (0..4)
                .map(|id| methods.template_of(id, 0))
                .collect::<Vec<_>>(),
            [0, 1, 2, 1]
        );
        // Beyond the first ones they are one.
        let lines: Vec<String> = (0..100).map(|n| format!("http://a/p{n}/1")).collect();
        let many = targets(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            (
                many.templates(&Method::GET).len(),
                many.template_of(63, 0),
                many.template_of(99, 0)
            ),
            (65, 63, 64)
        );
    }

    #[test]
    fn weights_decide_how_often_a_line_is_drawn() {
        let lines =
            targets(&["http://a/0", "http://a/1", "http://a/2"]).drawn([1, 0, 3].into_iter(), 7);
        let mut counts = [0_u32; 3];
        (0..4_000).for_each(|id| counts[lines.line(id)] += 1);
        // 1,000 expected, with a standard deviation of 27.
        assert!(
            counts[1] == 0 && counts[0].abs_diff(1_000) < 140,
            "{counts:?}"
        );
    }

    proptest! {
        #[test]
        fn shards_take_turns_with_the_lines_of_a_recording(lines in 1..2_000_u64, shards in 1..40_u32) {
            let parts = |shard: u64| split_point(lines, shards.into(), shard)..split_point(lines, shards.into(), shard + 1);
            let mut all = Vec::new();
            for shard in 0..u64::from(shards) {
                let own: Vec<u64> = parts(shard).map(|id| dealt(id, lines, shards)).collect();
                prop_assert!(own.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] < 2 * u64::from(shards)), "{own:?}");
                all.extend(own);
            }
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..lines));
        }
    }

    #[test]
    fn many_lines_cost_little() {
        let lines = 100_000;
        let many = Targets::collect(
            (0..lines).map(|i| format!("http://h{}/p{i}", i % 3).parse::<Template>()),
        )
        .unwrap();
        let bytes = many.paths.capacity()
            + many.lines.capacity() * size_of::<UrlLine>()
            + many.line_templates.capacity();
        assert!(bytes / lines < 32, "{bytes}");
        assert_eq!((many.hosts().len(), many.of(99_999).before), (3, "/p99999"));
    }
}
