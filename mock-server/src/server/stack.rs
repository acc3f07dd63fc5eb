//! Requests of one process that wait for a worker, the latest on top, and the workers that serve them.
//!
//! When a request is served depends on those that come later, so that it cannot be known beforehand
//! as in a queue (`shared`'s pool).

use crate::config::Config;
use crate::ledger::LedgerWriter;
use crate::timer::Timer;
use std::cell::RefCell;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct Stack {
    requests: RefCell<Vec<Waiting>>,
    pushed: Notify,
}

#[derive(Debug)]
struct Waiting {
    own: Duration,
    /// Receives the instant at which the response is due, once that is over.
    served: oneshot::Sender<u64>,
}

impl Stack {
    /// Wait until a worker has served a request for `own`, and return when the response was due.
    /// Dropped, the request is served all the same.
    pub(super) async fn serve(&self, own: Duration) -> u64 {
        let (served, due_ns) = oneshot::channel();
        self.requests.borrow_mut().push(Waiting { own, served });
        self.pushed.notify_one();
        // The workers end after the connections.
        due_ns.await.unwrap_or(0)
    }

    /// Serve one request after the other, as long as it is polled.
    pub(super) async fn work(&self, config: &Config, timer: &Timer, ledger: &LedgerWriter) {
        loop {
            let latest = self.requests.borrow_mut().pop();
            let Some(latest) = latest else {
                self.pushed.notified().await;
                continue;
            };
            let due_ns = config.due_ns(timer.now_ns(), latest.own);
            timer.until(due_ns).await;
            if latest.served.send(due_ns).is_err() {
                ledger.counters().abandoned.increment();
            }
        }
    }
}
