//! Plain requests before a run: one item with its redirects, and the body of the last response.
//!
//! They go the ways of the crawl (proxies, TLS, source addresses), outside of shards: nothing of
//! them is measured.

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome};
use crawlmark_harness::workload::{Flight, Workload};

use super::Crawl;
use crate::dataset::manifest::{Bodies, Durability, Fields, Saved};

/// Result of an item.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) last: Attempt,
    /// Body of the last response, up to the longest that is kept; none without one.
    pub(crate) body: Option<Vec<u8>>,
    /// Requests that were sent.
    pub(crate) requests: u64,
}

impl Crawl {
    /// Keep the body of each response, up to so many bytes, for [`Self::fetch`].
    pub(crate) fn keeping_bodies(self, max_body: u64) -> Self {
        let saved = Saved {
            fields: Fields::default(),
            bodies: Bodies::All,
            max_body,
            durability: Durability::Process,
            mode: crawlmark_harness::files::PRIVATE,
        };
        self.checker.save(&saved);
        self
    }

    /// Request an item, and follow its redirects, each request once that is cleared.
    pub(crate) async fn fetch(
        &self,
        id: u64,
        clearance: impl AsyncFn() -> Option<Nanos>,
    ) -> Fetched {
        let mut requests = 0;
        loop {
            let flight = Flight::default();
            let mut last = self.unsent(ErrorKind::Io);
            let performed = self.perform(id, &flight, &clearance, &mut last);
            if performed.await.is_none() {
                continue;
            }
            requests += u64::from(last.sent.is_some());
            let body = self.checker.with_last(|response| {
                let body = response?.0.body.as_ref()?;
                Some(body.bytes.clone())
            });
            if last.outcome != Outcome::Redirected {
                self.redirects.forget(id);
                return Fetched {
                    last,
                    body,
                    requests,
                };
            }
        }
    }
}
