//! Items of several requests: the request that an item sends next.
//!
//! A good response to a request that is not the last of its item ends its attempt; the item is
//! attempted again at once, under every limit, as after a redirect. Retries repeat the request
//! that failed. An item is forgotten when it ends: one that is resumed begins with its first.
//!
//! A first request that is sent once for a shard is that of the item that finds no values of it;
//! others wait, and begin with their second request. It backs off as one request, whoever sends it,
//! and once it failed for good, items of its line fail without a request; the shard ends if there
//! is no other line. An item whose request was refused with its values sends that request once
//! more, with others.

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
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::requests::flow::{Flow, ItemList, StepRequest};
use super::requests::values::Values;
use super::response::cookies::SharedJar;
use super::spec::CrawlOptions;
use crate::dataset::batch::Place;

/// An item whose request is not that of its line as it is.
#[derive(Debug, Clone)]
pub(crate) struct ItemProgress {
    pub(crate) request: StepRequest,
    /// Values of all responses so far.
    pub(crate) values: Values,
    /// List that its requests are made for, item by item.
    pub(crate) list: Option<ItemList>,
    /// Those of them that all items of the shard share.
    pub(crate) shared: Option<Rc<Values>>,
    pub(crate) shared_use: Cell<SharedUse>,
    /// Cookies of the connection of the request before, if they are for the next host.
    pub(crate) jar: Option<SharedJar>,
    /// Place of the last request that was performed, or is.
    pub(crate) performed: Cell<Place>,
    pub(crate) visited: Visited,
}

/// Use of shared values by the request of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SharedUse {
    /// They were not refused.
    #[default]
    First,
    /// They were refused: the request goes again once there are others.
    Refused,
    /// It goes again, with others.
    Again,
}

impl ItemProgress {
    /// Return an item that sends this request, with these values.
    pub(crate) fn new(request: StepRequest, values: Values) -> Self {
        Self {
            request,
            values,
            list: None,
            shared: None,
            shared_use: Cell::default(),
            jar: None,
            performed: Cell::new(Place::FIRST),
            visited: Visited::default(),
        }
    }

    /// Return its request, which is performed now.
    pub(crate) fn perform(&self) -> &StepRequest {
        self.performed.set(self.place());
        &self.request
    }

    /// Return the place of its request.
    pub(crate) fn place(&self) -> Place {
        let StepRequest { number, page, .. } = self.request;
        Place {
            step: u32::try_from(number + 1).unwrap_or(u32::MAX),
            element: self.list.as_ref().and_then(|list| list.element(number)),
            page,
        }
    }
}

/// Hashes of the requests for the pages of one request, up to the present one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visited(Rc<RefCell<HashSet<u64>>>);

impl Visited {
    /// Note a request for a page. Return true if it is the first one for that.
    pub(crate) fn visit(&self, request: &StepRequest) -> bool {
        let StepRequest {
            host, path, shape, ..
        } = request;
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((host, path, shape));
        self.0.borrow_mut().insert(hash)
    }
}

/// A request that is sent once for a shard.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Held by the item that sends it.
    turn: Arc<Mutex<()>>,
    state: RefCell<SharedState>,
}

/// State of a request that is sent once for a shard.
#[derive(Debug, Clone)]
pub(crate) enum SharedState {
    /// It is to be sent, from this time on, after so many times in turn that were of no use.
    Due(Nanos, u32),
    /// Its values, after so many times in turn that were of no use.
    Values(Rc<Values>, u32),
    /// It failed for good.
    Failed,
}

impl Default for SharedState {
    fn default() -> Self {
        Self::Due(Nanos::default(), 0)
    }
}

/// The turn of an item to send a request that is sent once for a shard.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) once: Rc<Shared>,
    _held: OwnedMutexGuard<()>,
}

/// An item of several requests at the start of an attempt.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// The item, if its request is not the first of its line as it is.
    pub(crate) progress: Option<Rc<ItemProgress>>,
    /// The turn, if that is a request that is sent once for a shard.
    pub(crate) turn: Option<Turn>,
}

impl Shared {
    /// Wait for the turn to send it.
    pub(crate) async fn take_turn(self: &Rc<Self>) -> Turn {
        Turn {
            _held: Arc::clone(&self.turn).lock_owned().await,
            once: Rc::clone(self),
        }
    }

    /// Return its state, once it is due if it is to be sent: by the caller, who has the turn.
    pub(crate) async fn state(&self, clock: Clock) -> SharedState {
        let state = self.state.borrow().clone();
        if let SharedState::Due(at, _) = state {
            let left = at.since(clock.now());
            if left > 0 {
                tokio::time::sleep(Duration::from_nanos(left)).await;
            }
        }
        state
    }

    /// True if it failed for good.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.state.borrow(), SharedState::Failed)
    }

    /// Note its values.
    pub(crate) fn set(&self, values: Values) -> Rc<Values> {
        let (values, state) = (Rc::new(values), &mut *self.state.borrow_mut());
        let useless = match state {
            SharedState::Due(_, useless) | SharedState::Values(_, useless) => *useless,
            SharedState::Failed => 0,
        };
        *state = SharedState::Values(Rc::clone(&values), useless);
        values
    }

    /// Note that a request with its values was not refused.
    pub(crate) fn serve(&self) {
        if let SharedState::Values(_, useless) = &mut *self.state.borrow_mut() {
            *useless = 0;
        }
    }

    /// True if these are its values.
    fn has(&self, values: &Rc<Values>) -> bool {
        matches!(&*self.state.borrow(), SharedState::Values(own, _) if Rc::ptr_eq(own, values))
    }

    /// Note that its values were refused: it is to be sent again. Return false if it was sent too
    /// often in turn without any use.
    fn refuse(&self, options: &CrawlOptions) -> bool {
        let state = &mut *self.state.borrow_mut();
        match state {
            SharedState::Values(_, useless) if *useless <= options.shared_retries => {
                *state = SharedState::Due(Nanos::default(), *useless + 1);
                true
            }
            _ => false,
        }
    }

    /// Note an attempt for it that ended, and what may be repeated after it. Return true if that
    /// brought no values.
    pub(crate) fn ended(&self, repeat: Repeat, attempt: &Attempt, options: &CrawlOptions) -> bool {
        let state = &mut *self.state.borrow_mut();
        let SharedState::Due(_, failures) = *state else {
            return false;
        };
        let may_pass = match repeat {
            Repeat::Follow => return false,
            Repeat::Never | Repeat::Refused => false,
            Repeat::UntilTheEnd => true,
            Repeat::MayHelp => failures < options.shared_retries,
        };
        *state = if may_pass {
            let Backoff { base, cap } = options.shared_backoff;
            let most = base.saturating_mul(2_u32.saturating_pow(failures)).min(cap);
            // From half to all of it, drawn by the time: shards fail together.
            let part = 0.5 + (mixed(attempt.done.0) >> 40) as f64 / (1_u64 << 25) as f64;
            let counts = repeat != Repeat::UntilTheEnd;
            let due = attempt.done.plus(most.mul_f64(part));
            SharedState::Due(due, failures + u32::from(counts))
        } else {
            SharedState::Failed
        };
        true
    }
}

/// Items that are beyond their first requests.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The engine bounds their number.
    items: RefCell<HashMap<u64, Rc<ItemProgress>>>,
    /// Values that items share, by the address of their flow.
    shared: RefCell<HashMap<*const Flow, Rc<Shared>>>,
}

impl Flows {
    /// Return an item, if its next request is not its first.
    pub(crate) fn of(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.last(item)
            .filter(|item| item.shared_use.get() != SharedUse::Refused)
    }

    /// Return an item whose shared values were refused.
    pub(crate) fn refused(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.last(item)
            .filter(|item| item.shared_use.get() == SharedUse::Refused)
    }

    /// Return an item, if its last request was not its first.
    pub(crate) fn last(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.items.borrow().get(&item).cloned()
    }

    /// Note the next request of an item.
    pub(crate) fn set(&self, item: u64, progress: ItemProgress) -> Rc<ItemProgress> {
        let progress = Rc::new(progress);
        let noted = Rc::clone(&progress);
        self.items.borrow_mut().insert(item, noted);
        progress
    }

    /// Forget an item that ended.
    pub(crate) fn forget(&self, item: u64) {
        self.items.borrow_mut().remove(&item);
    }

    /// Return the place of a response of an item for its record; none if it has no record: it is
    /// not the last of its item, and not to be saved.
    pub(crate) fn place(&self, flow: &Flow, sample: &Sample) -> Option<Place> {
        let place = self.performed(sample.permit.id);
        let is_step = sample.attempt.outcome == Outcome::Stepped;
        let is_saved = sample.fate == Fate::Ended || is_step && flow.is_saved(place);
        is_saved.then_some(place)
    }

    /// Return the request that is sent once for the items of a flow, if they do.
    pub(crate) fn shared(&self, flow: &Arc<Flow>) -> Option<Rc<Shared>> {
        let mut all = self.shared.borrow_mut();
        let of_flow = flow.first.is_shared.then(|| all.entry(Arc::as_ptr(flow)))?;
        Some(Rc::clone(of_flow.or_default()))
    }

    /// True if the requests that are sent once for each of so many lines all failed for good.
    pub(crate) fn have_all_failed(&self, lines: usize) -> bool {
        let all = self.shared.borrow();
        all.len() == lines && all.values().all(|shared| shared.has_failed())
    }

    /// Have the request of an item whose shared values were refused go again with others. Return
    /// true if it may: if there are others already, or once.
    pub(crate) fn renew(&self, shared: &Shared, item: u64, options: &CrawlOptions) -> bool {
        let Some(progress) = self.of(item) else {
            return false;
        };
        let is_again = progress.shared_use.replace(SharedUse::Refused) == SharedUse::Again;
        let refused = progress.shared.as_ref();
        refused.is_some_and(|refused| {
            let has_others = !shared.has(refused);
            has_others || !is_again && shared.refuse(options)
        })
    }

    /// Note that an item sends its first request.
    pub(crate) fn begin(&self, item: u64) {
        if let Some(progress) = self.last(item) {
            progress.performed.set(Place::FIRST);
        }
    }

    /// Return the place of the last request of an item that was performed, or is.
    pub(crate) fn performed(&self, item: u64) -> Place {
        self.last(item)
            .map_or(Place::FIRST, |progress| progress.performed.get())
    }
}

#[cfg(test)]
mod tests;
