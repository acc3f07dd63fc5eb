//! All lanes of a shard as one future, which polls those that were woken, in that order.
//!
//! Called by the engine, as one task of the shard's runtime: a task per lane and the runtime's queue
//! of them cost 200 instructions per request more. The order is that of the wake-ups, for lanes that
//! the gate lets through at one moment go in the order in which it did.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Lanes that are polled before the runtime looks at its sockets and timers again: it does so after
/// 61 tasks, by tokio's default.
const TURN: usize = 64;

/// Lanes that were woken, by any thread: names are looked up on another one.
#[derive(Default)]
struct Woken(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    lanes: VecDeque<usize>,
    /// Waker of the task that polls them; none while that runs.
    task: Option<Waker>,
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waker of one lane.
struct LaneWaker {
    lane: usize,
    /// Set while the lane is in the queue.
    is_queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for LaneWaker {
    #[inline]
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queue = self.woken.lock();
        queue.lanes.push_back(self.lane);
        let task = queue.task.take();
        drop(queue);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// A lane that has not ended.
struct Lane<F> {
    future: Pin<Box<F>>,
    own: Arc<LaneWaker>,
    waker: Waker,
}

/// All lanes. Ends when each has.
pub(super) struct Lanes<F> {
    all: Vec<Option<Lane<F>>>,
    woken: Arc<Woken>,
    /// The part of the queue that was taken out of it.
    next: VecDeque<usize>,
    /// Number of lanes that have not ended.
    left: usize,
}

impl<F: Future<Output = ()>> Lanes<F> {
    /// Of these futures, each of which is polled first in this order.
    pub(super) fn new(futures: impl Iterator<Item = F>) -> Self {
        let woken = Arc::<Woken>::default();
        let all: Vec<_> = (0..)
            .zip(futures)
            .map(|(lane, future)| {
                let own = Arc::new(LaneWaker {
                    lane,
                    is_queued: AtomicBool::new(true),
                    woken: Arc::clone(&woken),
                });
                Some(Lane {
                    future: Box::pin(future),
                    waker: Waker::from(Arc::clone(&own)),
                    own,
                })
            })
            .collect();
        Self {
            woken,
            next: (0..all.len()).collect(),
            left: all.len(),
            all,
        }
    }

    /// Take the lane that was woken first; none if none was, and then `cx` is woken with the next.
    #[inline]
    fn take_next(&mut self, cx: &Context<'_>) -> Option<usize> {
        if self.next.is_empty() {
            let mut queue = self.woken.lock();
            if queue.lanes.is_empty() {
                queue.task = Some(cx.waker().clone());
                return None;
            }
            let emptied = std::mem::take(&mut self.next);
            self.next = std::mem::replace(&mut queue.lanes, emptied);
        }
        self.next.pop_front()
    }

    #[inline]
    fn poll_lane(&mut self, number: usize) {
        let Some(lane) = &mut self.all[number] else {
            return;
        };
        // Before it is polled: what wakes it meanwhile has it polled again.
        lane.own.is_queued.store(false, Ordering::Release);
        let polled = lane
            .future
            .as_mut()
            .poll(&mut Context::from_waker(&lane.waker));
        if polled.is_ready() {
            self.all[number] = None;
            self.left -= 1;
        }
    }
}

impl<F: Future<Output = ()>> Future for Lanes<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURN {
            if self.left == 0 {
                return Poll::Ready(());
            }
            let Some(lane) = self.take_next(cx) else {
                return Poll::Pending;
            };
            self.poll_lane(lane);
        }
        // The rest goes after the runtime has looked at what else there is.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Rc;

    use proptest::prelude::*;
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut builder = Builder::new_current_thread();
        let builder = builder.enable_all();
        let runtime = builder.build_local(LocalOptions::default()).unwrap();
        runtime.block_on(future)
    }

    /// State of lanes that wait to be woken, of which each notes that it was polled.
    #[derive(Default)]
    struct Shared {
        wakers: RefCell<Vec<Option<Waker>>>,
        polled: RefCell<Vec<usize>>,
        ends: Cell<bool>,
    }

    fn lanes(count: usize) -> (Rc<Shared>, Lanes<impl Future<Output = ()>>) {
        let shared = Rc::<Shared>::default();
        shared.wakers.borrow_mut().resize(count, None);
        let futures: Vec<_> = (0..count)
            .map(|lane| {
                let shared = Rc::clone(&shared);
                poll_fn(move |cx| {
                    shared.polled.borrow_mut().push(lane);
                    shared.wakers.borrow_mut()[lane] = Some(cx.waker().clone());
                    if shared.ends.get() {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
            })
            .collect();
        (shared, Lanes::new(futures.into_iter()))
    }

    proptest! {
        #[test]
        fn lanes_are_polled_once_each_in_the_order_in_which_they_were_woken(
            count in 0..200_usize, wakes in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..150), 0..6),
        ) {
            let (shared, lanes) = lanes(count);
            let take = || std::mem::take(&mut *shared.polled.borrow_mut());
            let wake = |lane: usize| shared.wakers.borrow()[lane].clone().unwrap().wake();
            let polled = block_on(async {
                let mut lanes = tokio::task::spawn_local(lanes);
                let mut polled = Vec::new();
                for wakes in &wakes {
                    // More turns than the lanes need.
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    polled.push(take());
                    wakes.iter().filter(|_| count > 0).for_each(|at| wake(at.index(count)));
                }
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
                polled.push(take());
                shared.ends.set(true);
                (0..count).for_each(wake);
                (&mut lanes).await.unwrap();
                polled
            });
            prop_assert_eq!(&polled[0], &(0..count).collect::<Vec<_>>());
            for (wakes, polled) in wakes.iter().filter(|_| count > 0).zip(&polled[1..]) {
                let mut expected: Vec<usize> = Vec::new();
                for lane in wakes.iter().map(|at| at.index(count)) {
                    if !expected.contains(&lane) {
                        expected.push(lane);
                    }
                }
                prop_assert_eq!(polled, &expected);
            }
            prop_assert_eq!(shared.polled.borrow().len(), count);
        }
    }

    #[test]
    fn lanes_that_are_never_done_leave_the_runtime_its_turn_and_others_wake_one_from_afar() {
        block_on(async {
            let busy = (0..3).map(|_| {
                poll_fn(|cx: &mut Context<'_>| {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
            });
            let busy = tokio::task::spawn_local(Lanes::new(busy));
            let (shared, lanes) = lanes(70);
            let mut lanes = tokio::task::spawn_local(lanes);
            // A timer of the runtime rings, and a wake-up of another thread arrives.
            while shared.polled.borrow().len() < 70 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            shared.ends.set(true);
            let wakers = shared.wakers.borrow().clone();
            let wake = || wakers.into_iter().flatten().for_each(Waker::wake);
            tokio::task::spawn_blocking(wake).await.unwrap();
            (&mut lanes).await.unwrap();
            busy.abort();
        });
    }
}
