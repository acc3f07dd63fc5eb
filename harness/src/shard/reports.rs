//! Reports of a shard to its supervisor: its progress and its seconds while it crawls and while its
//! workload finishes, and everything at its end.
//!
//! Called by the shard's life. It must not decide what the shard does.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::cpu_readings::CpuReadings;
use super::engine::Engine;
use super::intervals::{Meters, ShardInterval};
use super::linger::Linger;
use super::outbox::Outbox;
use super::{Link, ShardError};
use crate::clock::Nanos;
use crate::wire::{EncodedStats, Frame, IntervalFrame, SLOT, WireError};
use crate::workload::Workload;

/// Interval between a shard's progress frames: four times a second looks alive and costs nothing.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Tells the supervisor how far the shard is, what it has to know at once, and hands over each
/// interval once it is complete. Ends only by failing.
pub(super) async fn report<W, T>(
    engine: &Engine<W>,
    outbox: &mut Outbox<T>,
    vitals: &CpuReadings,
    linger: &Linger,
) -> Result<(), ShardError>
where
    W: Workload,
    T: AsyncWrite + Unpin,
{
    let clock = engine.clock();
    let mut cut = engine.intervals(|intervals| intervals.next_cut(clock.now()));
    let mut looked = clock.now();
    let mut next_look = looked.plus(PROGRESS_EVERY);
    loop {
        // Others wait for messages; there are none again until something else has run.
        tokio::select! {
            biased;
            messages = engine.gate().messages.next() => {
                messages.iter().try_for_each(|message| outbox.queue(message))?;
            }
            () = tokio::time::sleep_until(clock.instant(next_look.min(cut))) => {
                let now = clock.now();
                // What did not run until now is of the second that is handed over.
                engine.beat(now);
                let yet_to_go = engine.yet_to_go(now);
                let (complete, open) = engine.intervals(|intervals| {
                    if now >= cut {
                        intervals.cut(now, meters(engine, vitals, now));
                        cut = intervals.next_cut(now);
                    }
                    (intervals.take_complete(yet_to_go), intervals.open_since(looked))
                });
                for interval in complete {
                    outbox.queue(&Frame::Interval(interval_frame(interval)?))?;
                }
                for interval in open {
                    outbox.queue(&Frame::Open(interval_frame(interval)?))?;
                }
                queue_sends(engine, outbox, now)?;
                let progress = engine.progress();
                linger.adapt(&progress);
                outbox.queue(&Frame::Progress(Box::new(progress)))?;
                (looked, next_look) = (now, now.plus(PROGRESS_EVERY));
            }
        }
        outbox.flush().await?;
    }
}

fn meters<W: Workload>(engine: &Engine<W>, vitals: &CpuReadings, now: Nanos) -> Meters {
    let limits = engine.gate().limits();
    Meters {
        used: vitals.used(),
        binding: limits.timeline.times(now),
        controller: limits.controller(),
    }
}

fn queue_sends<W, T>(
    engine: &Engine<W>,
    outbox: &mut Outbox<T>,
    now: Nanos,
) -> Result<(), WireError>
where
    W: Workload,
    T: AsyncWrite + Unpin,
{
    let sends = engine.gate().limits().take_sends(now);
    sends.map_or(Ok(()), |sends| outbox.queue(&Frame::Sends(sends)))
}

/// Sends everything that is known of a shard whose attempts were over at `ended`.
pub(super) async fn report_end<W, R, T>(
    engine: &Engine<W>,
    ended: Nanos,
    link: &mut Link<R, T>,
) -> Result<(), ShardError>
where
    W: Workload,
    T: AsyncWrite + Unpin,
{
    let now = engine.clock().now();
    let (usage, cpu) = link.vitals.end(now);
    queue_rest(engine, link)?;
    let mut outcome = engine.outcome(ended, usage, cpu)?;
    outcome.longest_linger = Some(link.linger.longest());
    link.outbox.queue(&Frame::Final(Box::new(outcome)))?;
    Ok(link.outbox.flush().await?)
}

/// Queues what was said and done in the last moment, such as IDs given away, and the seconds that
/// were not handed over yet.
fn queue_rest<W, R, T>(engine: &Engine<W>, link: &mut Link<R, T>) -> Result<(), WireError>
where
    W: Workload,
    T: AsyncWrite + Unpin,
{
    let Link { outbox, vitals, .. } = link;
    let now = engine.clock().now();
    let meters = meters(engine, vitals, now);
    engine
        .gate()
        .messages
        .take()
        .iter()
        .try_for_each(|message| outbox.queue(message))?;
    for interval in engine.intervals(|intervals| intervals.take_all(meters)) {
        outbox.queue(&Frame::Interval(interval_frame(interval)?))?;
    }
    queue_sends(engine, outbox, now.plus(SLOT))
}

fn interval_frame(mut interval: ShardInterval) -> Result<Box<IntervalFrame>, WireError> {
    interval.figures.course.set_times(&interval.times);
    Ok(Box::new(IntervalFrame {
        figures: interval.figures,
        stats: EncodedStats::of(&interval.stats)?,
    }))
}

/// Lets the workload finish. That may take longer than the supervisor waits for a report, so all
/// seconds are handed over first, and progress is reported in the meantime. What the supervisor
/// says is read no more. Returns when the attempts were over.
pub(super) async fn finish<W, R, T>(
    engine: &Engine<W>,
    link: &mut Link<R, T>,
) -> Result<Nanos, ShardError>
where
    W: Workload,
    T: AsyncWrite + Unpin,
{
    let ended = engine.clock().now();
    // Nothing waits for the loop any more.
    engine.end_beats(ended);
    let mut finished = pin!(engine.finish_workload());
    tokio::select! {
        biased;
        () = &mut finished => return Ok(ended),
        () = ready(()) => queue_rest(engine, link)?,
    }
    let progress = Box::new(engine.progress());
    link.outbox.queue(&Frame::Progress(progress))?;
    link.outbox.queue(&Frame::Finishing)?;
    loop {
        link.outbox.flush().await?;
        tokio::select! {
            biased;
            () = &mut finished => return Ok(ended),
            () = tokio::time::sleep(PROGRESS_EVERY) => {
                link.outbox.queue(&Frame::Progress(Box::new(engine.progress())))?;
            }
        }
    }
}
