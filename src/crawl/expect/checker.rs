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

/// Way in which bodies are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Not at all.
    Nothing,
    /// Against the item of this seed, part by part.
    Item(u64),
    /// By their length, once they have ended.
    Length,
    /// By their bytes, once they have ended.
    Bytes,
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
    checker: &'a Checker,
    id: u64,
    /// The item that the body is compared with; otherwise the body, as far as it is to be read.
    bytes: Vec<u8>,
    /// Length of the body so far.
    length: usize,
    /// False once the body differs from the item.
    is_item: bool,
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

impl Checker {
    pub(in crate::crawl) fn new(expectations: Expectations) -> Self {
        let means = match expectations.as_slice() {
            [] => Means::Nothing,
            [Expect::Items(seed)] => Means::Item(*seed),
            list if list
                .iter()
                .all(|expect| matches!(expect, Expect::Status(_) | Expect::Length(_))) =>
            {
                Means::Length
            }
            _ => Means::Bytes,
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
        if let Some(KeptBody { bytes, .. }) = last.body {
            self.take_back(bytes);
        }
        used
    }

    /// Keep the memory of a body for another one.
    fn take_back(&self, bytes: Vec<u8>) {
        if (1..=KEPT_BYTES).contains(&bytes.capacity()) {
            self.spare.borrow_mut().push(bytes);
        }
    }

    /// The expectation for item `id`.
    pub(in crate::crawl) fn for_item(&self, id: u64) -> Expected<'_> {
        let mut bytes = Vec::new();
        if self.means != Means::Nothing {
            bytes = self.lend();
        }
        if let Means::Item(seed) = self.means {
            items::write_body(seed, id, &mut bytes);
        }
        let saves_bodies = self
            .saver
            .as_ref()
            .is_some_and(|saver| saver.bodies != Bodies::None);
        Expected {
            checker: self,
            id,
            bytes,
            length: 0,
            is_item: true,
            is_bad: false,
            begin: Vec::new(),
            compressed: None,
            saved: saves_bodies.then(|| KeptBody {
                bytes: self.lend(),
                length: 0,
            }),
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
        self.is_bad = !self.checker.is_expected(status);
        let saver = self.checker.saver.as_ref();
        if self.is_bad
            && saver.is_some_and(|saver| saver.bodies == Bodies::Good)
            && let Some(KeptBody { bytes, .. }) = self.saved.take()
        {
            self.checker.take_back(bytes);
        }
    }

    /// Return the number of the content type of a response that is saved; 0 if it has none, or is
    /// not saved.
    pub(in crate::crawl) fn content_type(&self, fields: HeaderFields<'_>) -> u16 {
        let Some(saver) = &self.checker.saver else {
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
            bytes: self.checker.lend(),
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
        self.checker.take_back(bytes);
        decoded
    }

    fn take_decoded(&mut self, part: &[u8]) {
        if let (Some(saved), Some(saver)) = (&mut self.saved, &self.checker.saver) {
            append(&mut saved.bytes, part, saver.max_body);
            saved.length += part.len() as u64;
        }
        let start = self.length;
        self.length += part.len();
        match self.checker.means {
            Means::Nothing => {}
            Means::Item(_) => {
                self.is_item &= self.bytes.get(start..self.length) == Some(part);
                self.is_bad |= !self.is_item;
            }
            Means::Length => append(&mut self.bytes, part, KEPT),
            Means::Bytes if self.is_readable() => self.bytes.extend_from_slice(part),
            Means::Bytes => {
                self.bytes.truncate(KEPT);
                self.bytes.shrink_to_fit();
            }
        }
        if self.is_bad {
            append(&mut self.begin, part, KEPT);
        }
    }

    /// The verdict once the body has ended.
    pub(in crate::crawl) fn verdict(&mut self, head: &HeadFacts) -> CheckResult {
        let unreadable = self
            .compressed
            .take()
            .and_then(|body| self.take_compressed(body).err());
        let is_good = self.checker.is_expected(head.status);
        let is_met = match self.checker.means {
            Means::Nothing => true,
            Means::Item(_) => self.is_item && self.length == self.bytes.len(),
            Means::Length | Means::Bytes => self.is_body_met(head),
        };
        if self.begin.is_empty() && !is_met {
            // An item was as expected as far as it came.
            let came = &self.bytes[..self.length.min(self.bytes.len())];
            append(&mut self.begin, came, KEPT);
        }
        let mut last_bad = self.checker.last_bad.borrow_mut();
        // Both are empty as a rule: after a good answer that followed a good one.
        if !(self.begin.is_empty() && last_bad.is_empty()) {
            *last_bad = std::mem::take(&mut self.begin);
        }
        if let Some(saver) = &self.checker.saver {
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

    fn is_body_met(&self, head: &HeadFacts) -> bool {
        self.checker
            .expectations
            .as_slice()
            .iter()
            .all(|expect| match expect {
                Expect::Whole | Expect::Status(_) => true,
                Expect::Items(seed) => self.is_item(*seed),
                Expect::Json => head.is_json && self.is_readable() && is_json(&self.bytes),
                Expect::Matching(pattern) => self.is_readable() && pattern.is_in(&self.bytes),
                Expect::Length(lengths) => lengths.contains(self.length as u64),
            })
    }

    /// True if all of the body was kept.
    const fn is_readable(&self) -> bool {
        self.length as u64 <= Expectations::MAX_READ
    }

    fn is_item(&self, seed: u64) -> bool {
        let mut item = self.checker.lend();
        items::write_body(seed, self.id, &mut item);
        let is_same = self.bytes == item;
        self.checker.take_back(item);
        is_same
    }
}

/// Append to `bytes` what of a part fits in so many.
fn append(bytes: &mut Vec<u8>, part: &[u8], most: usize) {
    let room = most.saturating_sub(bytes.len());
    bytes.extend_from_slice(&part[..part.len().min(room)]);
}

/// True if a body is one JSON value, in UTF-8 and without a byte order mark.
fn is_json(body: &[u8]) -> bool {
    // The parser does not look at the bytes of texts that it skips.
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.checker.take_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests;
