//! The pulse of a shard: its loop is to look up every 10 ms, and [`Engine::beat`] books how late it does.
//!
//! A loop that is late was not run by the kernel, or was held up by code that does not let go; what was under way then
//! took longer than the target made it. The runtime's timer rounds up to whole milliseconds, so that up to 1 ms of
//! lateness is its own. It must not do anything else.

use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};

use super::engine::Engine;
use crate::workload::Workload;

/// A pulse. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Pulse(JoinHandle<()>);

impl Pulse {
    /// The pulse of `engine`, a task of its own in the current runtime.
    pub(super) fn start<W: Workload>(engine: &Rc<Engine<W>>) -> Self {
        let engine = Rc::clone(engine);
        Self(spawn_local(async move {
            let clock = engine.clock();
            loop {
                let next = engine.beat(clock.now());
                tokio::time::sleep_until(clock.instant(next)).await;
            }
        }))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.abort();
    }
}
