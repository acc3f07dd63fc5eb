//! Idle connections to destinations, kept for the next request of the same session: to the same
//! destination from the same source address.
//!
//! It must not wait for anything, and it stays small.

use super::forward::Carried;
use super::upstream::Route;
use hyper::client::conn::http1::SendRequest;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Most connections kept, the longest unused given up first: each is a descriptor here and another
/// at its destination.
const KEPT: usize = 256;

/// The connections of one process.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: RefCell<VecDeque<(Route, SendRequest<Carried>)>>,
}

impl Pool {
    /// Takes a connection of one of `routes` that is ready for a request.
    pub(super) fn take(&self, routes: &[Route]) -> Option<(Route, SendRequest<Carried>)> {
        let mut kept = self.kept.borrow_mut();
        // The latest first: the others may come of age. One whose answer is still being read is not
        // ready.
        let position = kept
            .iter()
            .rposition(|(route, sender)| sender.is_ready() && routes.contains(route))?;
        kept.remove(position)
    }

    /// Keeps a connection whose answer has begun.
    pub(super) fn keep(&self, route: Route, sender: SendRequest<Carried>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT {
            kept.retain(|(_, sender)| !sender.is_closed());
        }
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((route, sender));
    }
}
