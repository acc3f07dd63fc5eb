//! Tasks that belong to something, and end with it: the streams of an HTTP/2 connection.
//!
//! It must not know what the tasks do.

use hyper::rt::Executor;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use tokio::task::JoinSet;

/// A set of tasks of this thread. Dropped, it cuts off those that have not ended.
#[derive(Debug, Default)]
pub(super) struct Tasks(RefCell<JoinSet<()>>);

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        // Ended tasks leave an entry behind; their results are not needed.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(task);
    }
}

#[cfg(feature = "http3")]
impl Tasks {
    /// True if none is under way.
    pub(super) fn have_ended(&self) -> bool {
        let mut tasks = self.0.borrow_mut();
        while tasks.try_join_next().is_some() {}
        tasks.is_empty()
    }
}

/// A way into a set of tasks that does not keep it alive: tasks may hold it.
#[derive(Clone, Debug)]
pub(super) struct Spawner(Weak<Tasks>);

impl Spawner {
    pub(super) fn of(tasks: &Rc<Tasks>) -> Self {
        Self(Rc::downgrade(tasks))
    }
}

impl<Task: Future<Output = ()> + 'static> Executor<Task> for Spawner {
    fn execute(&self, task: Task) {
        // Without the set, the result is not needed.
        if let Some(tasks) = self.0.upgrade() {
            tasks.spawn(task);
        }
    }
}
