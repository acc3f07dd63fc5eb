//! Items of several requests: the request that an item sends next.
//!
//! A good response to a request that is not the last of its item ends its attempt; the item is
//! attempted again at once, under every limit, as after a redirect. Retries repeat the request
//! that failed. An item is forgotten when it ends: one that is resumed begins with its first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::response::cookies::SharedJar;
use super::target::flow::{StepRequest, Values};

/// An item that is beyond its first request.
#[derive(Debug)]
pub(crate) struct ItemProgress {
    pub(crate) request: StepRequest,
    /// Values of all responses so far.
    pub(crate) values: Values,
    /// Attempts of the item before this request.
    pub(crate) earlier: u32,
    /// Cookies of the connection of the request before, if they are for the next host.
    pub(crate) jar: Option<SharedJar>,
    /// Number of the last request that was performed, or is.
    pub(crate) performed: Cell<usize>,
}

impl ItemProgress {
    /// Return its request, which is performed now.
    pub(crate) fn perform(&self) -> &StepRequest {
        self.performed.set(self.request.number);
        &self.request
    }
}

/// Items that are beyond their first requests.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The engine bounds their number.
    items: RefCell<HashMap<u64, Rc<ItemProgress>>>,
}

impl Flows {
    /// Return an item, if it is beyond its first request.
    pub(crate) fn of(&self, item: u64) -> Option<Rc<ItemProgress>> {
        self.items.borrow().get(&item).cloned()
    }

    /// Note the next request of an item.
    pub(crate) fn set(&self, item: u64, progress: ItemProgress) {
        self.items.borrow_mut().insert(item, Rc::new(progress));
    }

    /// Forget an item that ended.
    pub(crate) fn forget(&self, item: u64) {
        self.items.borrow_mut().remove(&item);
    }

    /// Return the number of the last request of an item that was performed, or is.
    pub(crate) fn performed(&self, item: u64) -> usize {
        let items = self.items.borrow();
        items
            .get(&item)
            .map_or(0, |progress| progress.performed.get())
    }
}

#[cfg(test)]
mod tests;
