//! Items of several requests: the request that an item sends next.
//!
//! A good response to a request that is not the last of its item ends its attempt; the item is
//! attempted again at once, under every limit, as after a redirect. Retries repeat the request
//! that failed. An item is forgotten when it ends: one that is resumed begins with its first.
//!
//! A first request that is sent once for a shard is that of the item that finds no values of it;
//! others wait, and begin with their second request. It backs off as one request, whoever sends it,
//! and once it failed for good, so do they without a request.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::plan::Backoff;
use crawlmark_harness::sample::{Attempt, Fate, Outcome, Repeat, Sample};
use crawlmark_harness::trace::mixed;
use tokio::sync::Mutex;

use super::response::cookies::SharedJar;
use super::spec::CrawlOptions;
use super::target::flow::{Flow, ItemList, StepRequest};
use super::target::values::Values;
use crate::dataset::batch::Place;

/// An item that is beyond its first request.
#[derive(Debug)]
pub(crate) struct ItemProgress {
    pub(crate) request: StepRequest,
    /// Values of all responses so far.
    pub(crate) values: Values,
    /// List that its requests are made for, item by item.
    pub(crate) list: Option<ItemList>,
    /// Those of them that all items of the shard share.
    pub(crate) shared: Option<Rc<Values>>,
    /// Cookies of the connection of the request before, if they are for the next host.
    pub(crate) jar: Option<SharedJar>,
    /// Number of the last request that was performed, or is.
    pub(crate) performed: Cell<usize>,
    /// True if its shared values were refused: it begins once more.
    pub(crate) is_refused: Cell<bool>,
}

impl ItemProgress {
    /// Return its request, which is performed now.
    pub(crate) fn perform(&self) -> &StepRequest {
        self.performed.set(self.request.number);
        &self.request
    }
}

/// A request that is sent once for a shard.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Held by the item that sends it.
    pub(crate) turn: Mutex<()>,
    state: RefCell<SharedState>,
}

/// State of a request that is sent once for a shard.
#[derive(Debug, Clone)]
enum SharedState {
    /// It is to be sent, from this time on, after so many failures in turn.
    Due(Nanos, u32),
    Values(Rc<Values>),
    /// It failed for good, for this reason.
    Failed(String),
}

impl Default for SharedState {
    fn default() -> Self {
        Self::Due(Nanos::default(), 0)
    }
}

impl Shared {
    /// Return its values, once it is due; none if it is to be sent by the caller, who has the turn.
    ///
    /// # Errors
    /// When it failed for good.
    pub(crate) async fn values(&self, clock: Clock) -> Result<Option<Rc<Values>>, String> {
        let state = self.state.borrow().clone();
        match state {
            SharedState::Values(values) => Ok(Some(values)),
            SharedState::Failed(why) => Err(why),
            SharedState::Due(at, _) => {
                let left = at.since(clock.now());
                if left > 0 {
                    tokio::time::sleep(Duration::from_nanos(left)).await;
                }
                Ok(None)
            }
        }
    }

    /// Note its values.
    pub(crate) fn set(&self, values: Values) -> Rc<Values> {
        let values = Rc::new(values);
        *self.state.borrow_mut() = SharedState::Values(Rc::clone(&values));
        values
    }

    /// Note an attempt for it that ended.
    pub(crate) fn ended(&self, attempt: &Attempt, options: &CrawlOptions) {
        let mut state = self.state.borrow_mut();
        let SharedState::Due(_, failures) = *state else {
            return;
        };
        let is_throttled = attempt.outcome == Outcome::Throttled;
        let may_pass = match attempt.advice.repeat {
            Repeat::Follow => return,
            Repeat::Refused => false,
            // It is not the request of one item that is repeated: another item sends its own, which
            // a target that did not refuse may answer, whatever the method.
            Repeat::Never if attempt.status.is_some_and(|status| status < 500) => false,
            Repeat::UntilTheEnd => true,
            Repeat::Never | Repeat::MayHelp => is_throttled || failures < options.shared_retries,
        };
        *state = if may_pass {
            let Backoff { base, cap } = options.shared_backoff;
            let most = base.saturating_mul(2_u32.saturating_pow(failures)).min(cap);
            // From half to all of it, drawn by the time: shards fail together.
            let part = 0.5 + (mixed(attempt.done.0) >> 40) as f64 / (1_u64 << 25) as f64;
            let failures = failures + u32::from(!is_throttled);
            SharedState::Due(attempt.done.plus(most.mul_f64(part)), failures)
        } else {
            let status = attempt.status.map(|status| format!(", status {status}"));
            let outcome = attempt.outcome.name();
            SharedState::Failed(format!("{outcome}{}", status.unwrap_or_default()))
        };
    }
}

/// Items that are beyond their first requests.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The engine bounds their number.
    items: RefCell<HashMap<u64, Rc<ItemProgress>>>,
    /// Values that items share, by the address of their flow.
    shared: RefCell<HashMap<*const Flow, Rc<Shared>>>,
    /// Items that began once more, for their shared values were refused.
    renewed: RefCell<HashSet<u64>>,
    /// Responses to each request of an item, as far as they are saved.
    pages: RefCell<HashMap<u64, Vec<PageCount>>>,
    /// Hashes of the requests for pages, of each item.
    visited: RefCell<HashMap<u64, HashSet<u64>>>,
}

/// Responses to a request of an item.
#[derive(Debug, Clone, Copy, Default)]
struct PageCount {
    /// Responses since the item began.
    now: u32,
    /// Highest page so far; more than `now` if the item began once more.
    highest: u32,
}

impl Flows {
    /// Return an item, if its next request is not its first.
    pub(crate) fn of(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.last(item).filter(|item| !item.is_refused.get())
    }

    /// Return an item, if its last request was not its first.
    pub(crate) fn last(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.items.borrow().get(&item).cloned()
    }

    /// Note the next request of an item.
    pub(crate) fn set(&self, item: u64, progress: ItemProgress) {
        self.items.borrow_mut().insert(item, Rc::new(progress));
    }

    /// Forget an item that ended.
    pub(crate) fn forget(&self, item: u64) {
        self.items.borrow_mut().remove(&item);
        self.renewed.borrow_mut().remove(&item);
        self.pages.borrow_mut().remove(&item);
        self.visited.borrow_mut().remove(&item);
    }

    /// Return the place of a response of an item for its record. None if it has no record: it is
    /// not the last of its item, and not to be saved, or was saved before the item began once more.
    pub(crate) fn place(&self, flow: &Flow, sample: &Sample) -> Option<Place> {
        let is_end = sample.fate == Fate::Ended;
        if !is_end && sample.attempt.outcome != Outcome::Stepped {
            return None;
        }
        let number = self.performed(sample.permit.id);
        let mut pages = self.pages.borrow_mut();
        let counts = pages.entry(sample.permit.id).or_default();
        counts.resize(counts.len().max(number + 1), PageCount::default());
        let PageCount { now, highest } = &mut counts[number];
        *now += 1;
        if !is_end && (*now <= *highest || !flow.takes(number).is_saved()) {
            return None;
        }
        *highest = (*now).max(*highest + 1);
        Some(Place {
            step: u32::try_from(number + 1).unwrap_or(u32::MAX),
            page: *highest,
        })
    }

    /// Forget the pages of an item, which begins with a first one.
    pub(crate) fn forget_pages(&self, item: u64) {
        self.visited.borrow_mut().remove(&item);
    }

    /// Note a request of an item for a page. Return true if it is its first one.
    pub(crate) fn visit(&self, item: u64, request: &StepRequest) -> bool {
        let StepRequest {
            number,
            host,
            path,
            shape,
            ..
        } = request;
        let hash =
            BuildHasherDefault::<DefaultHasher>::default().hash_one((number, host, path, shape));
        let mut visited = self.visited.borrow_mut();
        visited.entry(item).or_default().insert(hash)
    }

    /// Return the request that is sent once for the items of a flow, if they do.
    pub(crate) fn shared(&self, flow: &Arc<Flow>) -> Option<Rc<Shared>> {
        let mut all = self.shared.borrow_mut();
        let of_flow = flow.first.is_shared.then(|| all.entry(Arc::as_ptr(flow)))?;
        Some(Rc::clone(of_flow.or_default()))
    }

    /// Have an item whose shared values were refused begin once more, without them. Return true if
    /// it may: once.
    pub(crate) fn renew(&self, flow: &Arc<Flow>, item: u64) -> bool {
        let Some((progress, shared)) = self.of(item).zip(self.shared(flow)) else {
            return false;
        };
        let Some(refused) = &progress.shared else {
            return false;
        };
        if !self.renewed.borrow_mut().insert(item) {
            return false;
        }
        // Another item may have got others already.
        let mut state = shared.state.borrow_mut();
        if matches!(&*state, SharedState::Values(values) if Rc::ptr_eq(values, refused)) {
            *state = SharedState::default();
        }
        for count in self.pages.borrow_mut().entry(item).or_default() {
            count.now = 0;
        }
        self.visited.borrow_mut().remove(&item);
        // Kept until then, for its last request is yet to be booked.
        progress.is_refused.set(true);
        true
    }

    /// Return the number of the last request of an item that was performed, or is.
    pub(crate) fn performed(&self, item: u64) -> usize {
        self.last(item)
            .map_or(0, |progress| progress.performed.get())
    }
}

#[cfg(test)]
mod tests;
