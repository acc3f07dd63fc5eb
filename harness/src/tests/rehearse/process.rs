//! A process of a rehearsal: its tasks run together, can be stopped and continued, and die together,
//! perhaps in the middle of what it writes.
//!
//! Used by [`rehearse`](super::rehearse). It must not know what the process does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::Sleep;

use super::reports::Reports;
use crate::chance::Chance;
use crate::clock::{Clock, Nanos};
use crate::plan::ShardPlan;

/// Run `life` and the tasks that it starts in a set of their own, which ends with it.
///
/// # Panics
/// When `life` does.
pub(super) async fn isolated<F>(life: F) -> F::Output
where
    F: Future + 'static,
{
    let tasks = LocalSet::new();
    let life = tasks.spawn_local(life);
    match tasks.run_until(life).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Nobody but the owner of the set ends a task of it, by dropping it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Everything that one process does. While it is stopped, nothing of it runs.
#[derive(Debug)]
pub(super) struct Process<F> {
    life: Pin<Box<F>>,
    clock: Clock,
    /// When it is stopped, and when it goes on.
    stops: Vec<(Nanos, Nanos)>,
    stopped: Option<Pin<Box<Sleep>>>,
    chance: Chance,
}

impl<F: Future> Process<F> {
    pub(super) fn new(life: F, clock: Clock, stops: Vec<(Nanos, Nanos)>, chance: Chance) -> Self {
        Self {
            life: Box::pin(life),
            clock,
            stops,
            stopped: None,
            chance,
        }
    }

    /// The end of the last of the stops that `now` is within.
    fn stopped_until(&self, now: Nanos) -> Option<Nanos> {
        let within = self
            .stops
            .iter()
            .filter(|(at, end)| (*at..*end).contains(&now));
        within.map(|(_, end)| *end).max()
    }
}

impl<F: Future> Future for Process<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        while let Some(end) = self.stopped_until(self.clock.now()) {
            let end = self.clock.instant(end);
            let stopped = self
                .stopped
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if stopped.deadline() != end {
                stopped.as_mut().reset(end);
            }
            ready!(stopped.as_mut().poll(cx));
            self.stopped = None;
        }
        if self.chance.one_in(2) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.life.as_mut().poll(cx)
    }
}

/// The processes of the shards, by the numbers of these: the last of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Lives(Rc<RefCell<BTreeMap<u32, AbortHandle>>>);

impl Lives {
    /// A process of the shard begins.
    pub(super) fn begin(&self, shard: u32, process: AbortHandle) {
        self.0.borrow_mut().insert(shard, process);
    }

    /// The process of the shard dies without a word.
    pub(super) fn end(&self, shard: u32) {
        if let Some(process) = self.0.borrow().get(&shard) {
            process.abort();
        }
    }
}

/// A shard's end of its stream, which may be cut off: the process dies with it. What it writes is
/// looked at.
#[derive(Debug)]
pub(super) struct CutStream {
    stream: DuplexStream,
    reports: Reports,
    shard: u32,
    /// Bytes that can be written before it is; none if it is not.
    left: Option<u64>,
    lives: Lives,
}

impl CutStream {
    /// The stream of the process of `plan`, which dies after `left` bytes.
    pub(super) fn new(
        stream: DuplexStream,
        plan: &ShardPlan,
        left: Option<u64>,
        lives: Lives,
    ) -> Self {
        Self {
            stream,
            reports: Reports::of(plan),
            shard: plan.shard,
            left,
            lives,
        }
    }
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let left = self.left.unwrap_or(u64::MAX);
        if left == 0 {
            self.lives.end(self.shard);
            return Poll::Pending;
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..room]))?;
        self.reports.leave(&bytes[..written]);
        self.left = self.left.map(|left| left - written as u64);
        if left == written as u64 {
            self.lives.end(self.shard);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
