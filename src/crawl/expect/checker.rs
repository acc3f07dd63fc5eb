//! Bodies, checked as they are read, without allocating per item. The connection feeds it. The hot
//! path, as long as any whole body or an item is all that is expected; for anything else the body
//! is kept until its end.

use std::cell::RefCell;

use crawlmark_mock_server::items;
use serde::de::IgnoredAny;

use super::super::compressed::{self, Coding, Unreadable};
use super::super::excerpt::KEPT;
use super::{Expect, Expectations};
use crate::crawl::head::HeadFacts;
use crate::crawl::header_fields::HeaderFields;
use crate::dataset::manifest::{Bodies, Saved};

/// Memory for bodies longer than this is given back after use: what one answer needed, the next
/// hardly will.
const KEPT_BYTES: usize = 1 << 20;

/// Checks answers by what is expected.
#[derive(Debug)]
pub(in crate::crawl) struct Checker {
    expectations: Expectations,
    means: Means,
    /// Lent to one body after another.
    spare: RefCell<Vec<Vec<u8>>>,
    /// Start of the body of the last answer, if that was not good.
    last_bad: RefCell<Vec<u8>>,
    /// Responses that are saved; none without `--save`.
    saver: Option<Saver>,
}

/// Different content types that a shard tells apart; those of later responses are left out of their
/// records.
const MOST_CONTENT_TYPES: usize = 1_000;

/// Bodies and content types for records.
#[derive(Debug)]
struct Saver {
    bodies: Bodies,
    /// Longest body that is kept whole, bytes.
    max_body: usize,
    content_types: RefCell<Vec<Vec<u8>>>,
    /// Last complete response.
    last: RefCell<Option<SavedResponse>>,
}

/// Complete response as it is saved.
#[derive(Debug)]
pub(in crate::crawl) struct SavedResponse {
    /// Number of its content type, from 1; 0 without one.
    content_type: u16,
    /// Body; none if it is not saved.
    pub(in crate::crawl) body: Option<KeptBody>,
}

/// Body of a response, up to the longest that is saved.
#[derive(Debug, Default)]
pub(in crate::crawl) struct KeptBody {
    pub(in crate::crawl) bytes: Vec<u8>,
    /// Length of the whole body, bytes.
    pub(in crate::crawl) length: u64,
}

/// Way in which bodies are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Not at all.
    None,
    /// Against the item of this seed, part by part.
    Comparison(u64),
    /// By what they were once they have ended: their length and start, and perhaps all of their
    /// bytes.
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
pub(in crate::crawl) struct CheckResult {
    pub(in crate::crawl) status: Status,
    pub(in crate::crawl) body: BodyCheck,
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
pub(in crate::crawl) enum BodyCheck {
    /// As expected.
    AsExpected,
    /// Not as expected.
    Wrong,
    /// Compressed, and not to be decoded.
    Unreadable(Unreadable),
}

/// The expectation for one item, while its body is read.
#[derive(Debug)]
pub(in crate::crawl) struct Expected<'a> {
    lender: &'a Checker,
    body: ExpectedBody<'a>,
    is_bad: bool,
    /// Start of the body of an answer that is known to be bad.
    begin: Vec<u8>,
    /// Content that is decoded once it is complete; none of a body that is sent as it is.
    compressed: Option<Compressed>,
    /// Body for a record; none if it is not saved.
    saved: Option<KeptBody>,
}

/// Compressed content of a response.
#[derive(Debug)]
struct Compressed {
    coding: Coding,
    bytes: Vec<u8>,
}

/// The body that is expected.
#[derive(Debug)]
enum ExpectedBody<'a> {
    /// Anything.
    Whole,
    /// Exactly the bytes of an item.
    Bytes(Comparison<'a>),
    /// All of a list.
    All(Examination<'a>),
}

/// A body being compared as it comes.
#[derive(Debug)]
struct Comparison<'a> {
    lender: &'a Checker,
    bytes: Vec<u8>,
    compared: usize,
    same: bool,
}

/// A body being kept as it comes.
#[derive(Debug)]
struct Examination<'a> {
    lender: &'a Checker,
    id: u64,
    /// All of it, as long as that is read and no longer than may be; its start otherwise.
    bytes: Vec<u8>,
    length: u64,
}

impl Checker {
    pub(in crate::crawl) fn new(expectations: Expectations) -> Self {
        let means = match expectations.as_slice() {
            [] => Means::None,
            [Expect::Items(seed)] => Means::Comparison(*seed),
            list if list
                .iter()
                .all(|expect| matches!(expect, Expect::Status(_) | Expect::Length(_))) =>
            {
                Means::Examination(Keep::Length)
            }
            _ => Means::Examination(Keep::Bytes),
        };
        Self {
            expectations,
            means,
            spare: RefCell::default(),
            last_bad: RefCell::default(),
            saver: None,
        }
    }

    /// Keep each complete response until it is taken.
    pub(in crate::crawl) fn saving(self, saved: &Saved) -> Self {
        let max_body = usize::try_from(saved.max_body).unwrap_or(usize::MAX);
        let (content_types, last) = (RefCell::default(), RefCell::default());
        Self {
            saver: Some(Saver {
                bodies: saved.bodies,
                max_body,
                content_types,
                last,
            }),
            ..self
        }
    }

    /// Lend the last complete response to `use_it`, with its content type; none if there was none
    /// since the last call.
    pub(in crate::crawl) fn with_last<T>(
        &self,
        use_it: impl FnOnce(Option<(&SavedResponse, &[u8])>) -> T,
    ) -> T {
        let Some(saver) = &self.saver else {
            return use_it(None);
        };
        let Some(last) = saver.last.borrow_mut().take() else {
            return use_it(None);
        };
        let types = saver.content_types.borrow();
        let content_type = usize::from(last.content_type)
            .checked_sub(1)
            .and_then(|at| types.get(at));
        let used = use_it(Some((&last, content_type.map_or(&[], Vec::as_slice))));
        self.take_back(last.body);
        used
    }

    fn take_back(&self, body: Option<KeptBody>) {
        if let Some(KeptBody { bytes, .. }) = body
            && (1..=KEPT_BYTES).contains(&bytes.capacity())
        {
            self.spare.borrow_mut().push(bytes);
        }
    }

    /// The expectation for item `id`.
    pub(in crate::crawl) fn for_item(&self, id: u64) -> Expected<'_> {
        let body = match self.means {
            Means::None => ExpectedBody::Whole,
            Means::Comparison(seed) => {
                let mut bytes = self.lend();
                items::write_body(seed, id, &mut bytes);
                ExpectedBody::Bytes(Comparison {
                    lender: self,
                    bytes,
                    compared: 0,
                    same: true,
                })
            }
            Means::Examination(_) => ExpectedBody::All(Examination {
                lender: self,
                id,
                bytes: self.lend(),
                length: 0,
            }),
        };
        let saves_bodies = self
            .saver
            .as_ref()
            .is_some_and(|saver| saver.bodies != Bodies::None);
        let saved = saves_bodies.then(|| KeptBody {
            bytes: self.lend(),
            length: 0,
        });
        Expected {
            lender: self,
            body,
            is_bad: false,
            begin: Vec::new(),
            compressed: None,
            saved,
        }
    }

    /// Take the start of the body of the last complete answer, if that was not good.
    pub(in crate::crawl) fn last_bad(&self) -> Vec<u8> {
        self.last_bad.take()
    }

    /// True if an answer of this status may be good.
    fn is_expected(&self, status: u16) -> bool {
        self.expectations
            .statuses()
            .map_or((200..=299).contains(&status), |statuses| {
                statuses.contains(status)
            })
    }

    /// An empty buffer, with memory where an earlier body left some.
    fn lend(&self) -> Vec<u8> {
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        bytes
    }
}

impl Expected<'_> {
    /// Note the status of the answer, before its body: the start of a bad answer's body is kept.
    pub(in crate::crawl) fn begin(&mut self, status: u16) {
        self.is_bad = !self.lender.is_expected(status);
        if self.is_bad
            && self
                .lender
                .saver
                .as_ref()
                .is_some_and(|saver| saver.bodies == Bodies::Good)
        {
            self.lender.take_back(self.saved.take());
        }
    }

    /// Return the number of the content type of a response that is saved; 0 if it has none, or is
    /// not saved.
    pub(in crate::crawl) fn content_type(&self, fields: HeaderFields<'_>) -> u16 {
        let Some(saver) = &self.lender.saver else {
            return 0;
        };
        let Some(value) = fields.all("content-type").next() else {
            return 0;
        };
        let mut types = saver.content_types.borrow_mut();
        let at = types.iter().position(|known| known == value).or_else(|| {
            (types.len() < MOST_CONTENT_TYPES).then(|| {
                types.push(value.to_vec());
                types.len() - 1
            })
        });
        at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// Have the body decoded. Call before its first part.
    pub(in crate::crawl) fn decode(&mut self, coding: Coding) {
        self.compressed = (coding != Coding::Identity).then(|| Compressed {
            coding,
            bytes: self.lender.lend(),
        });
    }

    /// Takes the next part of the body.
    pub(in crate::crawl) fn take(&mut self, part: &[u8]) {
        match &mut self.compressed {
            None => self.take_decoded(part),
            // One byte more than is decoded shows that it is too long.
            Some(Compressed { bytes, .. }) if bytes.len() as u64 <= compressed::MOST_BYTES => {
                bytes.extend_from_slice(part);
            }
            Some(_) => {}
        }
    }

    /// Decode the body that was taken.
    // Out of line: the decoders take 50 KiB of stack, every page of which would be touched for each
    // answer, compressed or not.
    #[inline(never)]
    fn take_compressed(
        &mut self,
        Compressed { coding, bytes }: Compressed,
    ) -> Result<(), Unreadable> {
        let length = bytes.len() as u64;
        let decoded = match length {
            // Without content, as in the answer to HEAD, a coding says nothing.
            0 => Ok(()),
            1..=compressed::MOST_BYTES => coding.decode(&bytes, |part| self.take_decoded(part)),
            _ => Err(Unreadable::TooLong { compressed: length }),
        };
        if bytes.capacity() <= KEPT_BYTES {
            self.lender.spare.borrow_mut().push(bytes);
        }
        decoded
    }

    fn take_decoded(&mut self, part: &[u8]) {
        if let (Some(saved), Some(saver)) = (&mut self.saved, &self.lender.saver) {
            let room = saver.max_body.saturating_sub(saved.bytes.len());
            saved.bytes.extend_from_slice(&part[..part.len().min(room)]);
            saved.length += part.len() as u64;
        }
        match &mut self.body {
            ExpectedBody::Whole => {}
            ExpectedBody::Bytes(comparison) => {
                let end = comparison.compared + part.len();
                comparison.same &= comparison.bytes.get(comparison.compared..end) == Some(part);
                comparison.compared = end;
                self.is_bad |= !comparison.same;
            }
            ExpectedBody::All(examination) => examination.take(part),
        }
        if self.is_bad {
            let room = KEPT.saturating_sub(self.begin.len());
            self.begin.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    /// The verdict once the body has ended.
    pub(in crate::crawl) fn verdict(&mut self, head: &HeadFacts) -> CheckResult {
        let unreadable = self
            .compressed
            .take()
            .and_then(|body| self.take_compressed(body).err());
        let is_good = self.lender.is_expected(head.status);
        let is_met = match &self.body {
            ExpectedBody::Whole => true,
            ExpectedBody::Bytes(comparison) => {
                comparison.same && comparison.compared == comparison.bytes.len()
            }
            ExpectedBody::All(examination) => examination.is_body_met(head),
        };
        if self.begin.is_empty() && !is_met {
            let came = match &self.body {
                ExpectedBody::Whole => &[],
                // As far as it came, it was as expected.
                ExpectedBody::Bytes(comparison) => {
                    &comparison.bytes[..comparison.compared.min(comparison.bytes.len())]
                }
                ExpectedBody::All(examination) => examination.bytes.as_slice(),
            };
            self.begin.extend_from_slice(&came[..came.len().min(KEPT)]);
        }
        let mut last_bad = self.lender.last_bad.borrow_mut();
        // Both are empty as a rule: after a good answer that followed a good one.
        if !(self.begin.is_empty() && last_bad.is_empty()) {
            *last_bad = std::mem::take(&mut self.begin);
        }
        if let Some(saver) = &self.lender.saver {
            let last = SavedResponse {
                content_type: head.content_type,
                body: self.saved.take(),
            };
            *saver.last.borrow_mut() = Some(last);
        }
        CheckResult {
            status: if is_good {
                Status::AsExpected
            } else {
                Status::Other
            },
            body: match unreadable {
                Some(why) => BodyCheck::Unreadable(why),
                None if is_met => BodyCheck::AsExpected,
                None => BodyCheck::Wrong,
            },
        }
    }
}

impl Examination<'_> {
    fn take(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        if self.lender.means == Means::Examination(Keep::Length) {
            let room = KEPT.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&part[..part.len().min(room)]);
        } else if self.length <= Expectations::MAX_READ {
            self.bytes.extend_from_slice(part);
        } else if self.bytes.len() > KEPT {
            self.bytes.truncate(KEPT);
            self.bytes.shrink_to_fit();
        }
    }

    fn is_body_met(&self, head: &HeadFacts) -> bool {
        self.lender
            .expectations
            .as_slice()
            .iter()
            .all(|expect| match expect {
                Expect::Whole | Expect::Status(_) => true,
                Expect::Items(seed) => self.is_item(*seed),
                Expect::Json => head.is_json && self.kept().is_some_and(is_json),
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

/// True if a body is one JSON value, in UTF-8 and without a byte order mark.
fn is_json(body: &[u8]) -> bool {
    // The parser does not look at the bytes of texts that it skips.
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

impl Drop for Comparison<'_> {
    fn drop(&mut self) {
        self.lender
            .spare
            .borrow_mut()
            .push(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Examination<'_> {
    fn drop(&mut self) {
        if (1..=KEPT_BYTES).contains(&self.bytes.capacity()) {
            self.lender
                .spare
                .borrow_mut()
                .push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests;
