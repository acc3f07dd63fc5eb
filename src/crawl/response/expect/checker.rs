//! Receives responses, and checks their bodies as they are read, without allocating per item. The
//! hot path, as long as any whole body or an item is all that is expected; for anything else the
//! body is kept until its end.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ErrorKind, ResponseTraits};
use crawlmark_harness::stats::MAX_EXCERPT;
use crawlmark_harness::workload::Flight;
use crawlmark_mock_server::items;
use http::HeaderValue;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Expect, Expectations};
use crate::crawl::requests::json_pointer;
use crate::crawl::requests::redact;
use crate::crawl::requests::takes::{MOST_BODY, Taken, TakenFrom, Takes};
use crate::crawl::response::answer::{self, BodyCheck, CheckResult};
use crate::crawl::response::compressed::{Codings, Content, MOST_OF_SHARD, Unreadable};
use crate::crawl::response::events::EventReader;
use crate::crawl::response::fields::HeaderFields;
use crate::crawl::response::head::{ContentKind, HeadFacts, HeadUse, is_redirect};
use crate::crawl::response::header_values::HeaderValues;
use crate::dataset::manifest::{Bodies, Saved};

const MAX_READ: usize = Expectations::MAX_READ;

/// Memory for bodies longer than this is given back after use: what one answer needed, the next
/// hardly will.
const KEPT_BYTES: usize = 1 << 20;

/// Checks answers by what is expected.
#[derive(Debug)]
pub(crate) struct Checker {
    expectations: Expectations,
    head_use: HeadUse,
    /// Seed of the items that bodies are compared with, part by part, if those are all that is
    /// expected.
    seed: Option<u64>,
    /// True if each status from 200 to 299 is accepted, and no other.
    is_any_2xx: bool,
    /// True if nothing is expected of bodies.
    expects_any_body: bool,
    /// Bytes of other bodies that are kept until their end.
    most: usize,
    /// Bytes that long bodies may take, beside those that are under way.
    room: Cell<usize>,
    /// Start of the body of the last answer, if that was not good.
    last_bad: RefCell<Vec<u8>>,
    /// Responses that are saved; none without `--save`.
    saver: OnceCell<Saver>,
    /// Values of the headers of `--trait`.
    pub(crate) traits: HeaderValues,
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
    /// Memory of bodies that were saved.
    spare: RefCell<Vec<Vec<u8>>>,
    /// Last complete response.
    last: RefCell<Option<SavedResponse>>,
}

/// Complete response as it is saved.
#[derive(Debug)]
pub(crate) struct SavedResponse {
    /// Number of its content type, from 1; 0 without one.
    content_type: u16,
    pub(crate) validators: Validators,
    /// Body; none if it is not saved.
    pub(crate) body: Option<KeptBody>,
}

/// Header fields by which a target tells if a response still holds.
#[derive(Debug, Default)]
pub(crate) struct Validators {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl Validators {
    /// Read them, as far as they are text that a request can have.
    fn of(fields: HeaderFields<'_>) -> Self {
        let read = |name| {
            let value = HeaderValue::from_bytes(fields.all(name).next()?).ok()?;
            value.to_str().ok().map(str::to_owned)
        };
        Self {
            etag: read("etag"),
            last_modified: read("last-modified"),
        }
    }

    const fn is_none(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// Body of a response, up to the longest that is saved.
#[derive(Debug, Default)]
pub(crate) struct KeptBody {
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole body, bytes.
    pub(crate) length: u64,
}

impl Saver {
    /// An empty body, in the memory of an earlier one where there is some.
    fn lend(&self) -> KeptBody {
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        KeptBody { bytes, length: 0 }
    }

    /// Keep the memory of a body for another one.
    fn take_back(&self, KeptBody { bytes, .. }: KeptBody) {
        if bytes.capacity() <= KEPT_BYTES {
            self.spare.borrow_mut().push(bytes);
        }
    }

    /// Return the number of the content type of a response; 0 if it has none.
    fn content_type(&self, fields: HeaderFields<'_>) -> u16 {
        let Some(value) = fields.all("content-type").next() else {
            return 0;
        };
        let mut types = self.content_types.borrow_mut();
        let at = types.iter().position(|known| known == value).or_else(|| {
            (types.len() < MOST_CONTENT_TYPES).then(|| {
                types.push(value.to_vec());
                types.len() - 1
            })
        });
        at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or(0)
    }
}

/// Receiver of one response after another, each of an item, and the expectation for it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "read one by one for each response"
)]
pub(crate) struct Expected {
    checker: Rc<Checker>,
    id: u64,
    /// The item that the body is compared with; otherwise the body, as far as it is to be read.
    bytes: Vec<u8>,
    /// Length of the body so far.
    length: usize,
    /// False once the body differs from the item.
    is_item: bool,
    is_bad: bool,
    /// True if nobody looks at the body of the response that has begun, of which any whole one is as
    /// expected: only its length matters.
    ignores_body: bool,
    /// Start of the body of an answer that is known to be bad.
    begin: Vec<u8>,
    /// Content that is decoded once it is complete; none of a body that is sent as it is.
    codings: Codings,
    compressed: Vec<u8>,
    /// Bytes that it took of [`Checker::room`].
    held: usize,
    /// True if the shard has no room for the body.
    is_refused: bool,
    /// Body for a record; none if it is not saved.
    saved: Option<KeptBody>,
    /// Validators for a record.
    validators: Validators,
    /// Reader of the events of the body, where those are expected.
    events: Option<Box<EventReader>>,
    /// `Location` of a redirect, where redirects are followed.
    pub(crate) location: Option<Vec<u8>>,
    /// Values to take from the response, if its item has several requests, and headers for them.
    takes: Option<Arc<Takes>>,
    headers: Vec<Option<Vec<u8>>>,
    /// Values of a response that was as expected.
    pub(crate) taken: Option<Result<Taken, String>>,
}

/// Bytes of a body that are kept for an expectation.
const fn kept_for(expect: &Expect) -> usize {
    match expect {
        Expect::Whole | Expect::Status(_) => 0,
        // For excerpts.
        Expect::Length(_) | Expect::Events(_) => MAX_EXCERPT,
        Expect::Items(_) | Expect::Json | Expect::Value(_) | Expect::Matching(_) => MAX_READ,
        Expect::Not(inner) => kept_for(inner),
    }
}

impl Checker {
    pub(crate) fn new(expectations: Expectations, head_use: HeadUse, traits: HeaderValues) -> Self {
        let list = expectations.as_slice();
        let most = list.iter().map(kept_for).max().unwrap_or(0);
        Self {
            most,
            seed: match list {
                [Expect::Items(seed)] => Some(*seed),
                _ => None,
            },
            is_any_2xx: expectations.are_any_2xx(),
            expects_any_body: most == 0,
            head_use: HeadUse {
                reads_content: head_use.takes || most > MAX_EXCERPT,
                ..head_use
            },
            expectations,
            room: Cell::new(MOST_OF_SHARD),
            last_bad: RefCell::default(),
            saver: OnceCell::new(),
            traits,
        }
    }

    /// Keep each complete response until it is taken.
    pub(crate) fn save(&self, saved: &Saved) {
        self.saver.get_or_init(|| Saver {
            bodies: saved.bodies,
            max_body: usize::try_from(saved.max_body).unwrap_or(usize::MAX),
            content_types: RefCell::default(),
            spare: RefCell::default(),
            last: RefCell::default(),
        });
    }

    /// Lend the last complete response to `use_it`, with its content type; none if there was none
    /// since the last call.
    pub(crate) fn with_last<T>(
        &self,
        use_it: impl FnOnce(Option<(&SavedResponse, &[u8])>) -> T,
    ) -> T {
        let Some(saver) = self.saver.get() else {
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
        last.body.into_iter().for_each(|body| saver.take_back(body));
        used
    }

    /// Take the start of the body of the last complete answer, if that was not good.
    pub(crate) fn last_bad(&self) -> Vec<u8> {
        self.last_bad.take()
    }

    /// True if an answer of this status may be good.
    #[inline]
    fn is_expected(&self, status: u16) -> bool {
        if self.is_any_2xx {
            return (200..=299).contains(&status);
        }
        self.expectations.accepts_status(status)
    }
}

impl Expected {
    /// A receiver. Boxed, for it is lent from request to request.
    pub(crate) fn new(checker: &Rc<Checker>) -> Box<Self> {
        Box::new(Self {
            checker: Rc::clone(checker),
            id: 0,
            bytes: Vec::new(),
            length: 0,
            is_item: true,
            is_bad: false,
            ignores_body: false,
            begin: Vec::new(),
            codings: Codings::NONE,
            compressed: Vec::new(),
            held: 0,
            is_refused: false,
            saved: None,
            validators: Validators::default(),
            events: checker
                .expectations
                .events()
                .cloned()
                .map(EventReader::new)
                .map(Box::new),
            location: None,
            takes: None,
            headers: Vec::new(),
            taken: None,
        })
    }

    /// Expect the response for item `id`, and take values from it.
    #[inline]
    pub(crate) fn restart(&mut self, id: u64, takes: Option<&Arc<Takes>>) {
        let HeadUse {
            takes: takes_some,
            follows,
            ..
        } = self.checker.head_use;
        if takes_some {
            (self.takes, self.taken) = (takes.cloned(), None);
            self.headers.clear();
        }
        if follows {
            self.location = None;
        }
        (self.id, self.length, self.is_item, self.is_bad) = (id, 0, true, false);
        (self.codings, self.ignores_body) = (Codings::NONE, false);
        self.bytes.clear();
        self.begin.clear();
        self.is_refused = false;
        if self.held > 0 {
            self.release();
        }
        if let Some(seed) = self.checker.seed {
            items::write_body(seed, id, &mut self.bytes);
        }
        if let Some(events) = &mut self.events {
            events.restart();
        }
        if let Some(saver) = self.checker.saver.get() {
            self.saved = (saver.bodies != Bodies::None).then(|| saver.lend());
            self.validators = Validators::default();
        }
    }

    /// Receive the head of the response.
    pub(crate) fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> HeadFacts {
        let mut head = HeadFacts::read(status, fields, self.checker.head_use);
        head.traits = self.checker.traits.numbers(fields);
        if let Some(saver) = self.checker.saver.get() {
            head.content_type = saver.content_type(fields);
            self.validators = Validators::of(fields);
        }
        if self.checker.head_use.follows && is_redirect(status) {
            self.location = fields.all("location").next().map(<[u8]>::to_vec);
        }
        if !self.checker.head_use.follows
            && is_redirect(status)
            && let Some(location) = fields.all("location").next()
        {
            // Where to, for people: the page of a redirect says less.
            let to = redact::url(&String::from_utf8_lossy(location));
            append(
                &mut self.begin,
                format!("location: {to}\n").as_bytes(),
                MAX_EXCERPT,
            );
        }
        if let Some(takes) = &self.takes {
            self.headers = takes.headers(|name| values_of(fields, name));
        }
        self.begin(&head);
        head
    }

    /// True if something of the head that was read is for its response alone: one that repeats it is
    /// read as well.
    pub(crate) fn keeps_head(&self) -> bool {
        self.checker.head_use.takes || !self.validators.is_none()
    }

    /// Begin the body of a response with this head: the start of a bad answer's body is kept.
    #[inline]
    pub(crate) fn begin(&mut self, head: &HeadFacts) {
        let events = self.events.as_ref();
        self.is_bad = !self.checker.is_expected(head.status)
            || events.is_some_and(|events| !events.fits(head.kind));
        if self.is_bad
            && let Some(saver) = self.checker.saver.get()
            && saver.bodies == Bodies::Good
            && let Some(body) = self.saved.take()
        {
            saver.take_back(body);
        }
        self.codings = match self.checker.head_use.content {
            Content::Decoded => head.codings,
            Content::AsSent => Codings::NONE,
        };
        let is_used = self.takes.is_some() || self.saved.is_some() || self.events.is_some();
        // That of a bad answer is quoted.
        let is_read = is_used || self.is_bad || self.codings != Codings::NONE;
        self.ignores_body = self.checker.expects_any_body && !is_read;
    }

    /// True if nobody looks at the body of the response that has begun.
    pub(crate) const fn ignores_body(&self) -> bool {
        self.ignores_body
    }

    /// Count bytes of a body that nobody looks at.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.length += bytes;
    }

    /// Take the next part of the body.
    #[inline]
    pub(crate) fn take(&mut self, part: &[u8]) {
        if self.ignores_body {
            return self.pass(part.len());
        }
        self.read(part);
    }

    fn read(&mut self, part: &[u8]) {
        if self.is_refused {
            return;
        }
        if self.codings == Codings::NONE {
            self.take_decoded(part);
        } else {
            // One byte more than is decoded shows that it is too long.
            append(&mut self.compressed, part, MAX_READ + 1);
        }
        let saved = self
            .saved
            .as_ref()
            .map_or(0, |saved| saved.bytes.capacity());
        let line = self.events.as_ref().map_or(0, |events| events.memory());
        let held = self.bytes.capacity() + self.compressed.capacity() + saved + line;
        // Short ones are bounded by their number.
        if held > KEPT_BYTES && held != self.held {
            self.hold(held);
        }
    }

    /// Take room for the body, or let go of it if there is none.
    #[cold]
    fn hold(&mut self, held: usize) {
        let room = self.checker.room.get() + self.held;
        self.is_refused = room < held;
        if self.is_refused {
            self.release();
        } else {
            self.checker.room.set(room - held);
            self.held = held;
        }
    }

    /// Give back the memory of a long body.
    #[cold]
    fn release(&mut self) {
        self.checker.room.set(self.checker.room.get() + self.held);
        (self.held, self.bytes, self.compressed) = (0, Vec::new(), Vec::new());
        self.saved = None;
        self.events.iter_mut().for_each(|events| events.forget());
    }

    /// Decode the body that was taken.
    // Out of line: the decoders take 50 KiB of stack, every page of which would be touched for each
    // answer, compressed or not.
    #[inline(never)]
    fn take_compressed(&mut self) -> Result<(), Unreadable> {
        let bytes = std::mem::take(&mut self.compressed);
        match bytes.len() {
            // Without content, as in the answer to HEAD, a coding says nothing.
            0 => Ok(()),
            1..=MAX_READ => self.codings.decode(&bytes, |part| self.take_decoded(part)),
            _ => Err(Unreadable::TooLong),
        }
    }

    #[inline]
    fn take_decoded(&mut self, part: &[u8]) {
        if let (Some(saved), Some(saver)) = (&mut self.saved, self.checker.saver.get()) {
            append(&mut saved.bytes, part, saver.max_body);
            saved.length += part.len() as u64;
        }
        let start = self.length;
        self.length += part.len();
        if self.checker.seed.is_some() {
            self.is_item &= self.bytes.get(start..self.length) == Some(part);
            self.is_bad |= !self.is_item;
        } else if self.checker.most > 0 || self.takes.is_some() {
            // One byte more shows that it is too long.
            let most = self.takes.as_ref().map_or(0, |_| MOST_BODY + 1);
            append(&mut self.bytes, part, self.checker.most.max(most));
        }
        if self.is_bad {
            append(&mut self.begin, part, MAX_EXCERPT);
        } else if let Some(events) = &mut self.events {
            events.take(part);
        }
    }

    /// True if the times of the body's parts matter: see [`Expected::arrived`].
    #[inline]
    pub(crate) const fn has_events(&self) -> bool {
        self.events.is_some()
    }

    /// Take the fields in which a call of gRPC ends, if one is expected.
    pub(crate) fn end_call(&mut self, fields: HeaderFields<'_>) {
        if let Some(events) = self.events.as_mut().filter(|events| events.is_call())
            && let Some(message) = events.call.end(fields)
            && !self.is_bad
        {
            self.begin = message;
        }
    }

    /// Note in `flight` the events that the parts brought since the last call, which arrived at
    /// `at`.
    ///
    /// # Errors
    /// When no more of the stream can be read, explained in `flight`: its end may never come.
    pub(crate) fn arrived(&mut self, at: Nanos, flight: &Flight) -> Result<(), ErrorKind> {
        let Some(events) = &mut self.events else {
            return Ok(());
        };
        let no_room = self.is_refused.then_some(Unreadable::NoRoom);
        let arrived = events.take_arrived();
        if arrived > 0 {
            flight.events(arrived, at);
        }
        no_room.or(events.unreadable()).map_or(Ok(()), |why| {
            flight.explain(why.kind(), why.to_string());
            Err(why.kind())
        })
    }

    /// Judge the response once its body has ended: note in `attempt` what it is, and in `flight`
    /// why it could not be read. It ended when the attempt was `done`.
    #[inline]
    pub(crate) fn judge(&mut self, head: &HeadFacts, flight: &Flight, attempt: &mut Attempt) {
        flight.has_traits(ResponseTraits {
            body_bytes: Some(self.length as u64),
            values: head.traits,
        });
        let is_kept = self.checker.saver.get().is_some() || !self.begin.is_empty();
        let is_plain = self.ignores_body && head.is_plain && !is_kept;
        if is_plain && self.checker.last_bad.borrow().is_empty() {
            answer::end_plainly(attempt, head);
        } else {
            self.judge_all(head, flight, attempt);
        }
    }

    fn judge_all(&mut self, head: &HeadFacts, flight: &Flight, attempt: &mut Attempt) {
        let verdict = self.verdict(head);
        if let BodyCheck::Unreadable(why) = verdict.body {
            flight.explain(why.kind(), why.to_string());
        }
        if let Some(events) = &mut self.events {
            // The last line of JSON needs no end.
            let arrived = events.take_arrived();
            if arrived > 0 {
                flight.events(arrived, attempt.done);
            }
            if let (BodyCheck::Wrong, Some(lack)) = (verdict.body, events.lack()) {
                flight.explain(ErrorKind::WrongBody, lack.to_owned());
            }
        }
        answer::end(attempt, head, verdict);
    }

    fn verdict(&mut self, head: &HeadFacts) -> CheckResult {
        let has_good_status = self.checker.is_expected(head.status);
        let body = if self.ignores_body {
            BodyCheck::AsExpected
        } else {
            self.check_body(head, has_good_status)
        };
        let mut last_bad = self.checker.last_bad.borrow_mut();
        // Both are empty as a rule: after a good answer that followed a good one.
        if !(self.begin.is_empty() && last_bad.is_empty()) {
            *last_bad = std::mem::take(&mut self.begin);
        }
        drop(last_bad);
        if let Some(saver) = self.checker.saver.get() {
            let last = SavedResponse {
                content_type: head.content_type,
                validators: std::mem::take(&mut self.validators),
                body: self.saved.take(),
            };
            *saver.last.borrow_mut() = Some(last);
        }
        if self.held > 0 {
            self.release();
        }
        CheckResult {
            has_good_status,
            body,
        }
    }

    /// Check a body of which something is expected, or taken.
    fn check_body(&mut self, head: &HeadFacts, has_good_status: bool) -> BodyCheck {
        let unreadable = match self.codings {
            _ if self.is_refused => Some(Unreadable::NoRoom),
            Codings::NONE => None,
            _ => self.take_compressed().err(),
        };
        let flaw = match &self.events {
            Some(events) => Self::flaw(events, head.kind),
            None => unreadable.map(BodyCheck::Unreadable),
        };
        let is_met = if self.is_refused {
            false
        } else if self.checker.seed.is_some() {
            self.is_item && self.length == self.bytes.len()
        } else {
            let checker = Rc::clone(&self.checker);
            let mut list = checker.expectations.as_slice().iter();
            list.all(|expect| self.meets(expect, head))
        };
        let takes = self.takes.take();
        let reads_body = takes.as_ref().is_some_and(|takes| takes.reads_body());
        let is_read = has_good_status && (!is_met || reads_body);
        let coded = is_read.then(|| self.coded(head)).flatten();
        if let Some(takes) = takes.filter(|_| is_met && coded.is_none()) {
            self.taken = Some(takes.take(&TakenFrom {
                headers: &self.headers,
                body: &self.bytes,
                length: self.length,
                is_markup: matches!(head.kind, ContentKind::Markup | ContentKind::Xml),
            }));
        }
        if self.begin.is_empty() && !is_met {
            // An item was as expected as far as it came.
            let came = &self.bytes[..self.length.min(self.bytes.len())];
            append(&mut self.begin, came, MAX_EXCERPT);
        }
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        match flaw.or(coded.map(BodyCheck::Unreadable)) {
            Some(flaw) => flaw,
            None if is_met => BodyCheck::AsExpected,
            None => BodyCheck::Wrong,
        }
    }

    /// Return why content cannot be read that was compressed although it is not decoded.
    fn coded(&self, head: &HeadFacts) -> Option<Unreadable> {
        let is_coded = head.codings != self.codings && self.length > 0;
        is_coded.then(|| Unreadable::Coded(head.codings.last()))
    }

    /// Return what is wrong with a stream of events beside its content.
    // Out of line: of most responses, no events are expected.
    #[inline(never)]
    fn flaw(events: &EventReader, kind: ContentKind) -> Option<BodyCheck> {
        let is_call = events.is_call() && kind == ContentKind::Grpc;
        if let Some(failure) = events.call.failure().filter(|_| is_call) {
            return Some(BodyCheck::Failed(failure));
        }
        let flaw = events.call.flaw().filter(|_| is_call);
        flaw.map(BodyCheck::Unreadable)
    }

    fn meets(&mut self, expect: &Expect, head: &HeadFacts) -> bool {
        let is_whole = self.length <= MAX_READ;
        match expect {
            Expect::Whole | Expect::Status(_) => true,
            Expect::Items(seed) => {
                let mut item = Vec::new();
                items::write_body(*seed, self.id, &mut item);
                self.bytes == item
            }
            Expect::Json => head.kind == ContentKind::Json && is_whole && is_json(&self.bytes),
            Expect::Value(pointer) => {
                is_whole && has_value(&self.bytes, pointer, &["null"]) == Some(true)
            }
            Expect::Matching(pattern) => {
                is_whole && pattern.is_in(json_pointer::unmarked(&self.bytes))
            }
            // By the status alone.
            Expect::Not(inner) if matches!(**inner, Expect::Status(_)) => true,
            Expect::Not(inner) => {
                // A body that could not be read may hold anything.
                let is_read = is_whole && self.coded(head).is_none();
                match &**inner {
                    Expect::Value(pointer) => {
                        is_read && has_value(&self.bytes, pointer, &["null", "[]"]) == Some(false)
                    }
                    inner => {
                        (is_read || kept_for(inner) <= MAX_EXCERPT) && !self.meets(inner, head)
                    }
                }
            }
            Expect::Length(lengths) => lengths.contains(self.length as u64),
            Expect::Events(_) => self
                .events
                .as_mut()
                .is_some_and(|events| events.fits(head.kind) && events.is_complete()),
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.checker.room.set(self.checker.room.get() + self.held);
    }
}

fn values_of(fields: HeaderFields<'_>, name: &str) -> Vec<Vec<u8>> {
    let named = fields
        .iter()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.to_vec()).collect()
}

/// Append to `bytes` what of a part fits in so many.
fn append(bytes: &mut Vec<u8>, part: &[u8], most: usize) {
    let room = most.saturating_sub(bytes.len());
    bytes.extend_from_slice(&part[..part.len().min(room)]);
}

/// True if a body has a value at this pointer that is none of `nothing`; none if it is no JSON.
fn has_value(body: &[u8], pointer: &str, nothing: &[&str]) -> Option<bool> {
    let values = json_pointer::find_all(json_pointer::document(body)?, pointer);
    let bare = |value: &RawValue| value.get().replace(char::is_whitespace, "");
    Some(values.iter().any(|value| !nothing.contains(&&*bare(value))))
}

/// True if a body is one JSON value in UTF-8.
fn is_json(body: &[u8]) -> bool {
    // The parser does not look at the bytes of texts that it skips.
    std::str::from_utf8(json_pointer::unmarked(body))
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

#[cfg(test)]
mod tests;
