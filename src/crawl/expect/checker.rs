//! Bodies, checked as they are read, without allocating per item. The connection feeds it. The hot path, as long as any
//! whole body or an item is all that is expected; for anything else the body is kept until its end.

use std::cell::RefCell;

use crawlmark_mock_server::items;
use hyper::header::CONTENT_TYPE;
use hyper::http::response::Parts;
use serde::de::IgnoredAny;

use super::{Expect, Expectations};

/// Memory for bodies longer than this is given back after use: what one answer needed, the next hardly will.
const KEPT_BYTES: usize = 1 << 20;

/// Checks answers by what is expected.
#[derive(Debug)]
pub(in crate::crawl) struct Checker {
    expectations: Expectations,
    means: Means,
    /// Lent to one body after another.
    spare: RefCell<Vec<Vec<u8>>>,
}

/// Way in which bodies are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Not at all.
    None,
    /// Against the item of this seed, part by part.
    Comparison(u64),
    /// By what they were once they have ended: their length, and perhaps all of their bytes.
    Examination(Keep),
}

/// Part of a body that is kept until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Length,
    Bytes,
}

/// Result of checking a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crawl) struct Verdict {
    pub(in crate::crawl) status: Status,
    pub(in crate::crawl) body: Body,
}

/// Result of checking a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crawl) enum Status {
    /// Expected.
    AsExpected,
    /// Not expected.
    Other,
}

/// Result of checking a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crawl) enum Body {
    /// As expected.
    AsExpected,
    /// Not as expected.
    Wrong,
}

/// The expectation for one item, while its body is read.
#[derive(Debug)]
pub(in crate::crawl) enum Expected<'a> {
    /// Anything.
    Whole,
    /// Exactly the bytes of an item.
    Bytes(Comparison<'a>),
    /// All of a list.
    All(Examination<'a>),
}

/// A body being compared as it comes.
#[derive(Debug)]
pub(in crate::crawl) struct Comparison<'a> {
    lender: &'a Checker,
    bytes: Vec<u8>,
    compared: usize,
    same: bool,
}

/// A body being kept as it comes.
#[derive(Debug)]
pub(in crate::crawl) struct Examination<'a> {
    lender: &'a Checker,
    id: u64,
    /// All of it, as long as that is no more than is read; nothing after that.
    bytes: Vec<u8>,
    length: u64,
}

impl Checker {
    pub(in crate::crawl) fn new(expectations: Expectations) -> Self {
        let means = match expectations.as_slice() {
            [] => Means::None,
            [Expect::Items(seed)] => Means::Comparison(*seed),
            list if list.iter().all(|expect| matches!(expect, Expect::Status(_) | Expect::Length(_))) => {
                Means::Examination(Keep::Length)
            }
            _ => Means::Examination(Keep::Bytes),
        };
        Self { expectations, means, spare: RefCell::default() }
    }

    /// The expectation for item `id`.
    pub(in crate::crawl) fn for_item(&self, id: u64) -> Expected<'_> {
        match self.means {
            Means::None => Expected::Whole,
            Means::Comparison(seed) => {
                let mut bytes = self.lend();
                items::write_body(seed, id, &mut bytes);
                Expected::Bytes(Comparison { lender: self, bytes, compared: 0, same: true })
            }
            Means::Examination(Keep::Length) => {
                Expected::All(Examination { lender: self, id, bytes: Vec::new(), length: 0 })
            }
            Means::Examination(Keep::Bytes) => {
                Expected::All(Examination { lender: self, id, bytes: self.lend(), length: 0 })
            }
        }
    }

    /// An empty buffer, with memory where an earlier body left some.
    fn lend(&self) -> Vec<u8> {
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        bytes
    }
}

impl Expected<'_> {
    /// Takes the next part of the body.
    pub(in crate::crawl) fn take(&mut self, part: &[u8]) {
        match self {
            Self::Whole => {}
            Self::Bytes(comparison) => {
                let end = comparison.compared + part.len();
                comparison.same &= comparison.bytes.get(comparison.compared..end) == Some(part);
                comparison.compared = end;
            }
            Self::All(examination) => examination.take(part),
        }
    }

    /// The verdict once the body has ended.
    pub(in crate::crawl) fn verdict(&self, head: &Parts) -> Verdict {
        let (is_good, is_met) = match self {
            Self::Whole => (head.status.is_success(), true),
            Self::Bytes(comparison) => {
                (head.status.is_success(), comparison.same && comparison.compared == comparison.bytes.len())
            }
            Self::All(examination) => (examination.is_status_met(head), examination.is_body_met(head)),
        };
        Verdict {
            status: if is_good { Status::AsExpected } else { Status::Other },
            body: if is_met { Body::AsExpected } else { Body::Wrong },
        }
    }
}

impl Examination<'_> {
    fn take(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        if self.lender.means == Means::Examination(Keep::Length) {
            return;
        }
        if self.length <= Expectations::MAX_READ {
            self.bytes.extend_from_slice(part);
        } else if self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
        }
    }

    fn is_status_met(&self, head: &Parts) -> bool {
        match self.lender.expectations.statuses() {
            None => head.status.is_success(),
            Some(statuses) => statuses.contains(head.status.as_u16()),
        }
    }

    fn is_body_met(&self, head: &Parts) -> bool {
        self.lender.expectations.as_slice().iter().all(|expect| match expect {
            Expect::Whole | Expect::Status(_) => true,
            Expect::Items(seed) => self.is_item(*seed),
            Expect::Json => is_json_by_type(head) && self.kept().is_some_and(is_json),
            Expect::Matching(pattern) => self.kept().is_some_and(|body| pattern.is_in(body)),
            Expect::Length(lengths) => lengths.contains(self.length),
        })
    }

    /// The whole body, unless it was too long to be kept.
    fn kept(&self) -> Option<&[u8]> {
        (self.length <= Expectations::MAX_READ).then_some(self.bytes.as_slice())
    }

    fn is_item(&self, seed: u64) -> bool {
        let mut item = self.lender.lend();
        items::write_body(seed, self.id, &mut item);
        let is_same = self.kept() == Some(item.as_slice());
        self.lender.spare.borrow_mut().push(item);
        is_same
    }
}

/// True if the content type is JSON's, or one of those built on it (RFC 6839, 3.1), whatever its parameters.
fn is_json_by_type(head: &Parts) -> bool {
    let Some(value) = head.headers.get(CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let ends_in_json = || essence.last_chunk().is_some_and(|end: &[u8; 5]| end.eq_ignore_ascii_case(b"+json"));
    essence.eq_ignore_ascii_case(b"application/json") || ends_in_json()
}

/// True if a body is one JSON value, in UTF-8 and without a byte order mark.
fn is_json(body: &[u8]) -> bool {
    // The parser does not look at the bytes of texts that nobody asks for.
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

impl Drop for Comparison<'_> {
    fn drop(&mut self) {
        self.lender.spare.borrow_mut().push(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Examination<'_> {
    fn drop(&mut self) {
        if (1..=KEPT_BYTES).contains(&self.bytes.capacity()) {
            self.lender.spare.borrow_mut().push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests;
