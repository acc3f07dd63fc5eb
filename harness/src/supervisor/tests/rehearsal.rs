//! The supervisor's loop over shards that are tasks of its own thread, by the runtime's time: the
//! poll loop of a rehearsal.
//!
//! Called by [`crate::rehearse`]. What is decided, relayed, merged and recorded is the supervisor's
//! as always, and every frame is encoded and decoded; only the waiting differs. It must not decide
//! anything itself.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, DuplexStream, ReadBuf};
use tokio::task::{JoinHandle, coop};

use super::line::ShardLine;
use super::waking::{Event, TICK};
use super::{Left, Observer, RunRecord, SuperviseError, Supervisor};
use crate::clock::{Clock, Nanos};
use crate::plan::{RunPlan, ShardPlan};
use crate::process::ShardExit;
use crate::units::IdRange;
use crate::wire::Usage;

/// A shard that is a task of this thread.
#[derive(Debug)]
struct Task {
    stream: BufReader<DuplexStream>,
    life: JoinHandle<u8>,
    exit: Option<ShardExit>,
}

impl Task {
    fn new(stream: DuplexStream, life: JoinHandle<u8>) -> Self {
        Self {
            stream: BufReader::new(stream),
            life,
            exit: None,
        }
    }
}

/// Parts that a rehearsal needs beside its plan.
#[derive(Debug)]
pub(crate) struct Stage<S, L> {
    /// The clock, whose epoch is the common start.
    pub(crate) clock: Clock,
    /// Starts a shard: returns the supervisor's end of its stream, and its task.
    pub(crate) spawn: S,
    /// Says what is left of the IDs of one that died.
    pub(crate) left: L,
    /// Signals that come, and when.
    pub(crate) signals: Vec<(Nanos, i32)>,
}

/// Runs `plan` over the shards of `stage` to its end. The calendar starts at the Unix epoch.
pub(crate) async fn conduct<O, S, L>(
    plan: &RunPlan,
    stage: Stage<S, L>,
    observer: &mut O,
) -> Result<RunRecord, SuperviseError>
where
    O: Observer,
    S: FnMut(&ShardPlan) -> (DuplexStream, JoinHandle<u8>),
    L: Fn(&ShardPlan, &[IdRange]) -> Option<Left>,
{
    let Stage {
        clock,
        mut spawn,
        left,
        mut signals,
    } = stage;
    // Reading a frame takes no time here, so the start need not wait for anybody.
    let mut supervisor = Supervisor::new(plan, clock, Duration::ZERO);
    for shard in plan.split(&[]) {
        let (stream, life) = spawn(&shard);
        let task = Task::new(stream, life);
        supervisor.take_in(shard, task);
    }
    signals.sort_unstable();
    let mut signals = signals.into_iter().peekable();
    let mut tick = clock.now().plus(TICK);
    // Whatever there is to be heard is heard at once: a budget of polls would put it off to the
    // next tick.
    let run = coop::unconstrained(async {
        while !supervisor.is_over() {
            let next = signals.peek().map_or(tick, |(at, _)| tick.min(*at));
            let readable = supervisor.hear_until(next).await;
            let now = clock.now();
            let mut event = Event {
                readable,
                signals: Vec::new(),
                tick: now >= tick,
                death: true,
            };
            event.signals.extend(
                std::iter::from_fn(|| signals.next_if(|(at, _)| now >= *at))
                    .map(|(_, number)| number),
            );
            if event.tick {
                tick = now.plus(TICK);
            }
            supervisor.step(&event, observer)?;
            if !event.readable.is_empty() {
                // Whoever watches sees what each arrival made of the run.
                supervisor.refresh(now);
                observer.progress(&supervisor.live);
            }
            for shard in supervisor.due_replacements(&left) {
                let (stream, life) = spawn(&shard);
                let task = Task::new(stream, life);
                supervisor.replace(shard, task);
            }
        }
        supervisor.finish(observer);
        Ok(())
    });
    run.await.map(|()| {
        let calendar = |at: Nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(at.0);
        let started_at = calendar(supervisor.start.unwrap_or_default());
        supervisor.into_record([started_at, calendar(clock.now())], Usage::default())
    })
}

impl Supervisor<Task> {
    /// The shards that have something to say, as soon as there is one; none at `until`.
    async fn hear_until(&mut self, until: Nanos) -> Vec<usize> {
        let speaking = self.speaking();
        let until = self.clock.instant(until);
        let members = &mut self.members;
        let heard = poll_fn(|cx| {
            let mut readable = speaking.clone();
            readable.retain(|i| {
                let stream = Pin::new(&mut members[*i].line.stream);
                stream.poll_fill_buf(cx).is_ready()
            });
            if readable.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(readable)
            }
        });
        tokio::time::timeout_at(until, heard)
            .await
            .unwrap_or_default()
    }
}

/// Return the result if it is ready, else `WouldBlock`: it is read again when the stream or the
/// clock wakes the loop.
fn at_once<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl ShardLine for Task {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let cx = &mut Context::from_waker(Waker::noop());
        at_once(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(
            Pin::new(&mut self.stream).poll_write(&mut Context::from_waker(Waker::noop()), bytes),
        )
    }

    fn kill(&mut self) {
        self.life.abort();
    }

    fn try_wait(&mut self) -> Option<ShardExit> {
        if self.exit.is_none()
            && let Poll::Ready(ended) =
                Pin::new(&mut self.life).poll(&mut Context::from_waker(Waker::noop()))
        {
            self.exit = Some(match ended {
                Ok(0) => ShardExit::Clean,
                Ok(code) => ShardExit::Code(code.into()),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Aborted.
                    Err(_) => ShardExit::Unknown,
                },
            });
        }
        self.exit
    }

    fn pid(&self) -> i32 {
        0
    }
}
