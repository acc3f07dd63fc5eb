//! Records of responses (`--save`): what the crawl hands to the writer.
//!
//! The crawl's thread only copies: lines, digests and compression are the writer's. Called for each
//! response that is saved, and for each item that ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::sample::Sample;

use super::response::expect::SavedResponse;
use crate::dataset::batch::{Item, Place, ReceivedBody};
use crate::dataset::writer::{FLUSH_EVERY, Writer};

/// Collector of a shard's records.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) writer: Writer,
    clock: Clock,
    /// Calendar time at the start of the clock, µs since 1970.
    epoch_us: Cell<u64>,
    /// URL of the attempt that ended last, if that is not the one of its line.
    requested: RefCell<Option<String>>,
}

/// Request of a record.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    /// ID in its URL.
    pub(crate) id: u64,
    /// Place among those of its item; none of an item that has one request.
    pub(crate) place: Option<Place>,
    /// URL, where it is not the template with the ID.
    pub(crate) url: Option<String>,
}

impl Collector {
    /// Collect records for `writer`, from a task that lasts as long as the collector.
    pub(crate) fn start(writer: Writer, clock: Clock) -> Rc<Self> {
        let collector = Rc::new(Self {
            writer,
            clock,
            epoch_us: Cell::default(),
            requested: RefCell::default(),
        });
        collector.read_calendar();
        let kept = Rc::downgrade(&collector);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(FLUSH_EVERY).await;
                let Some(collector) = kept.upgrade() else {
                    return;
                };
                collector.read_calendar();
                collector.writer.flush();
            }
        });
        collector
    }

    /// Note the URL of the attempt that ended last.
    pub(crate) fn requested(&self, url: String) {
        *self.requested.borrow_mut() = Some(url);
    }

    /// Take the URL of the attempt that ended last, if it was noted.
    pub(crate) fn take_requested(&self) -> Option<String> {
        self.requested.borrow_mut().take()
    }

    /// Follow a calendar that was set.
    fn read_calendar(&self) {
        let now_us = wall_time()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros());
        let now_us = u64::try_from(now_us).unwrap_or(u64::MAX);
        self.epoch_us
            .set(now_us.saturating_sub(self.clock.now().0 / 1_000));
    }

    /// Save the record of an item that was not requested: its number, and the ID in its URL.
    pub(crate) fn skip(&self, number: u64, id: u64, url: Option<&str>) {
        self.writer.push(&Item {
            number,
            id,
            place: None,
            url,
            status: None,
            outcome: None,
            attempts: 0,
            at_us: self.epoch_us.get() + self.clock.now().0 / 1_000,
            latency_us: None,
            content_type: None,
            etag: None,
            last_modified: None,
            body: None,
        });
    }

    /// Save the record of an attempt.
    pub(crate) fn add(
        &self,
        request: &RecordedRequest,
        sample: &Sample,
        response: Option<(&SavedResponse, &[u8])>,
    ) {
        let attempt = &sample.attempt;
        let body = response.and_then(|(response, _)| response.body.as_ref());
        let validators = response.map(|(response, _)| &response.validators);
        let Nanos(at) = attempt.sent.unwrap_or(attempt.done);
        self.writer.push(&Item {
            number: sample.permit.id,
            id: request.id,
            place: request.place,
            url: request.url.as_deref(),
            status: attempt.status,
            outcome: Some(attempt.outcome),
            attempts: sample.permit.attempt + 1,
            at_us: self.epoch_us.get() + at / 1_000,
            latency_us: attempt.sent.map(|sent| attempt.done.since(sent) / 1_000),
            content_type: response
                .map(|(_, content_type)| content_type)
                .filter(|content_type| !content_type.is_empty()),
            etag: validators.and_then(|it| it.etag.as_deref()),
            last_modified: validators.and_then(|it| it.last_modified.as_deref()),
            body: body.map(|body| ReceivedBody {
                bytes: &body.bytes,
                whole: body.length,
            }),
        });
    }
}
