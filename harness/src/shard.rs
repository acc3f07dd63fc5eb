//! A shard's life inside its own process: build the workload, say `ready`, wait for `go`, crawl,
//! report, end.
//!
//! Called by the supervisor in the freshly forked child. One `current_thread` runtime; the lanes of
//! the engine, a reporter that writes frames up, and a listener for control frames from above share
//! its thread. A pipe that would block delays the reporter and never the lanes.
//!
//! | room | for |
//! |---|---|
//! | `engine`, `lanes` | lanes, each performing one attempt after another |
//! | `gate`, `gate/limits`, `host`, `limiter` | permission to send: limits of the run and of each host |
//! | `supply`, `deferred`, `retry` | next work: IDs, items of a paused host, retries with budget and backoff |
//! | `pauses`, `quota` | throttling: pauses, and the pace at which a quota lasts |
//! | `alarm`, `loop_delay` | wake-up at an instant; event-loop delay |
//! | `binding`, `intervals`, `slots`, `cpu_readings` | measurements: limits over time, seconds, requests per 10 µs, CPU |
//! | `linger` | waiting for more responses before it sleeps |
//! | `reports`, `outbox`, `messages`, `wakeup` | reports to the supervisor, their frames, urgent ones, and its wake-up |

mod alarm;
mod binding;
mod cpu_readings;
mod deferred;
mod engine;
mod gate;
mod host;
mod intervals;
mod lanes;
mod limiter;
mod linger;
mod loop_delay;
mod messages;
mod outbox;
mod pauses;
mod quota;
mod reports;
mod retry;
mod slots;
mod supply;
mod wakeup;

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, LocalOptions};

#[cfg(feature = "virtual-time")]
pub(crate) use self::alarm::Alarm;
#[cfg(not(feature = "virtual-time"))]
use self::alarm::Alarm;
use self::cpu_readings::{CpuReadings, Probing};
use self::engine::Engine;
pub use self::intervals::INTERVAL;
use self::intervals::Meters;
use self::linger::Linger;
use self::loop_delay::LoopDelayProbe;
use self::outbox::Outbox;
use self::reports::{finish, report, report_end};
pub use self::wakeup::Bell;
use crate::clock::{Clock, Nanos};
use crate::plan::ShardPlan;
use crate::process::{SharedWords, pin_to, usable_cpus};
use crate::wire::{Control, Frame, FrameDecoder, WireError, encode};
use crate::workload::Workload;

/// The shard's ends of its two pipes.
#[derive(Debug)]
pub struct ShardLink {
    /// Frames go up here.
    pub frames: OwnedFd,
    /// Control comes down here.
    pub control: OwnedFd,
    /// Wakes the supervisor.
    pub bell: Bell,
    /// When shards may send next, if they go one at a time.
    pub words: Option<SharedWords>,
}

/// A shard's ties to the rest of a rehearsed run, as in [`ShardLink`].
#[cfg(feature = "virtual-time")]
pub(crate) struct RehearsedLink<S> {
    pub(crate) stream: S,
    pub(crate) words: Option<SharedWords>,
}

/// Reason why a shard ended before its time.
#[derive(Debug, thiserror::Error)]
enum ShardError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("pin the shard to CPU {0}: {1}. Run with --no-pin")]
    Pin(usize, nix::errno::Errno),
    #[error("{0}")]
    Workload(String),
}

/// Lives the shard's life and returns the exit code for its process.
pub fn run<W, E, F>(plan: &ShardPlan, clock: Clock, link: ShardLink, workload: F) -> u8
where
    W: Workload,
    E: Display,
    F: FnOnce(&ShardPlan) -> Result<W, E>,
{
    match live(plan, clock, link, workload) {
        Ok(()) => 0,
        // What stopped the start was told in a frame; what stops it later is a pipe without a
        // reader, or the frame that could not be written. The code tells the supervisor that there
        // was something.
        Err(_) => 1,
    }
}

/// Lives the shard's life as a task of the current thread, by the runtime's own time, and returns
/// what would be the exit code. The shard sends and receives frames over the stream of `link`, which
/// it closes at its end. Its alarms ring early or late as `alarm` does.
#[cfg(feature = "virtual-time")]
pub(crate) async fn rehearse<W, S>(
    plan: ShardPlan,
    alarm: Alarm,
    workload: W,
    link: RehearsedLink<S>,
) -> u8
where
    W: Workload,
    S: AsyncRead + AsyncWrite,
{
    let (control, frames) = tokio::io::split(link.stream);

    let link = Link {
        outbox: Outbox::new(frames, None),
        listener: Listener::new(control),
        vitals: CpuReadings::none(),
        linger: Linger::new(Duration::ZERO),
        words: link.words,
    };
    attend(&plan, workload, alarm, link).await.map_or(1, |()| 0)
}

fn live<W, E, F>(
    plan: &ShardPlan,
    clock: Clock,
    link: ShardLink,
    workload: F,
) -> Result<(), ShardError>
where
    W: Workload,
    E: Display,
    F: FnOnce(&ShardPlan) -> Result<W, E>,
{
    let ShardLink {
        frames,
        control,
        bell,
        words,
    } = link;
    let mut frames = File::from(frames);
    // Before it is pinned: afterwards there is one.
    let probing = Probing::of(plan.shard, usable_cpus().len());
    let linger = Linger::new(plan.linger);
    let runtime = match prepare(plan, &linger) {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&mut frames, &bell, error),
    };
    let inside = runtime.enter();
    let workload = match workload(plan) {
        Ok(workload) => workload,
        Err(error) => {
            return refuse(&mut frames, &bell, ShardError::Workload(error.to_string()));
        }
    };
    let opened = frames.try_clone().and_then(|frames| {
        let sender = pipe::Sender::from_owned_fd(frames.into())?;
        let receiver = pipe::Receiver::from_owned_fd(control)?;
        Ok((sender, receiver, Alarm::kernel(clock, plan.awake())?))
    });
    let (sender, receiver, alarm) = match opened {
        Ok(opened) => opened,
        Err(error) => return refuse(&mut frames, &bell, error.into()),
    };
    drop((frames, inside));
    let link = Link {
        outbox: Outbox::new(sender, Some(bell)),
        listener: Listener::new(receiver),
        vitals: CpuReadings::before(plan.cpu, probing),
        linger,
        words,
    };
    let ended = runtime.block_on(attend(plan, workload, alarm, link));
    // A thread that still looks up a name must not delay the end.
    runtime.shutdown_background();
    ended
}

/// The shard's life from `ready` to its final frame.
async fn attend<W, R, T>(
    plan: &ShardPlan,
    workload: W,
    mut alarm: Alarm,
    mut link: Link<R, T>,
) -> Result<(), ShardError>
where
    W: Workload,
    R: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    link.outbox.queue(&Frame::Ready)?;
    link.outbox.flush().await?;
    let Some(Go {
        start,
        from,
        before,
    }) = link.listener.start().await?
    else {
        // A run that is stopped before its start has a result all the same: of nothing.
        let now = alarm.clock().now();
        let engine = Engine::new(workload, plan, alarm.clock(), now);
        link.vitals.begin(now);
        engine.begin_beats();
        engine.close(now);
        let ended = finish(&engine, &mut link).await?;
        return report_end(&engine, ended, &mut link).await;
    };
    let engine = Engine::new(workload, plan, alarm.clock(), start);
    if let Some(words) = &link.words {
        engine.gate().limits().share(words);
    }
    if from > start {
        engine.begin_late(from);
    }
    for control in before {
        // No stop is among them.
        let _ = obey(&engine, control);
    }
    link.vitals.begin(from);
    let before = Meters {
        used: link.vitals.before_start(),
        ..Meters::default()
    };
    engine.intervals(|intervals| intervals.at_cut = before);
    alarm.until(start).await;
    let end = plan.duration.map(|duration| ShardEnd {
        at: start.plus(duration),
        grace: plan.grace,
    });
    crawl(&engine, alarm, end, &mut link).await?;
    let ended = finish(&engine, &mut link).await?;
    report_end(&engine, ended, &mut link).await
}

fn prepare(plan: &ShardPlan, linger: &Linger) -> Result<tokio::runtime::LocalRuntime, ShardError> {
    if let Some(cpu) = plan.cpu {
        pin_to(&[cpu]).map_err(|error| ShardError::Pin(cpu, error))?;
    }
    let mut builder = Builder::new_current_thread();
    if let Some(hook) = linger.hook() {
        builder.on_thread_park(hook);
    }
    Ok(builder.enable_all().build_local(LocalOptions::default())?)
}

fn refuse(frames: &mut File, bell: &Bell, error: ShardError) -> Result<(), ShardError> {
    frames.write_all(&encode(&Frame::Refused(error.to_string()))?)?;
    bell.ring();
    Err(error)
}

/// End of a shard's time, and the grace after it.
#[derive(Debug, Clone, Copy)]
struct ShardEnd {
    /// Nothing starts from here on.
    at: Nanos,
    /// Time that requests under way then have to end.
    grace: Duration,
}

/// Runs the engine until the supervisor has nothing more for it, or past its end until what was
/// under way has ended or its grace is over, or to a stop's grace.
async fn crawl<W, R, T>(
    engine: &Rc<Engine<W>>,
    alarm: Alarm,
    end: Option<ShardEnd>,
    link: &mut Link<R, T>,
) -> Result<(), ShardError>
where
    W: Workload,
    R: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    let clock = engine.clock();
    let Link {
        outbox,
        listener,
        vitals,
        linger,
        ..
    } = link;
    let _pulse = LoopDelayProbe::start(engine);
    let mut run = pin!(Some(Rc::clone(engine).run(alarm)));
    let mut failure = pin!(engine.watch_workload());
    let mut has_failed = false;
    let mut reporter = pin!(report(engine, outbox, vitals, linger));
    let mut cut_off = end;
    let mut deadline = None;
    loop {
        let Some(running) = run.as_mut().as_pin_mut() else {
            return Ok(());
        };
        // In this order, so that a rehearsal can be repeated. All but the last end or come once.
        tokio::select! {
            biased;
            () = running => return Ok(()),
            ended = &mut reporter => return ended,
            why = &mut failure, if !has_failed => {
                // What is under way has until the supervisor's stop says.
                (has_failed, cut_off) = (true, None);
                engine.gate().messages.send(Frame::Failed(why));
                engine.close(clock.now());
            }
            () = sleep_until(clock, cut_off.map(|end| end.at)) => {
                if let Some(ShardEnd { at, grace }) = cut_off.take() {
                    engine.close(at);
                    deadline = Some(at.plus(grace));
                }
            }
            () = sleep_until(clock, deadline) => {
                run.set(None);
                engine.abort_rest();
            }
            control = listener.next() => {
                if let Some(grace) = obey(engine, control?) {
                    (cut_off, deadline) = (None, Some(grace));
                }
            }
        }
    }
}

/// Does what the supervisor says. Some when what is under way has until that moment.
fn obey<W: Workload>(engine: &Engine<W>, control: Control) -> Option<Nanos> {
    let gate = engine.gate();
    match control {
        Control::Stop(until) => {
            engine.close(engine.clock().now());
            return Some(until);
        }
        Control::Finish => engine.close(engine.clock().now()),
        Control::Pause(order) => gate.pause(order),
        Control::Shed => gate.shed(),
        Control::Take(range) => gate.receive(range),
        Control::Lease(end) => gate.set_lease(end),
        Control::Grow(growth) => gate.grow(growth),
        Control::Go { .. } => {}
    }
    None
}

async fn sleep_until(clock: Clock, at: Option<Nanos>) {
    match at {
        Some(at) => tokio::time::sleep_until(clock.instant(at)).await,
        None => std::future::pending().await,
    }
}

/// Ties of a shard to the rest of its run.
struct Link<R, W> {
    outbox: Outbox<W>,
    listener: Listener<R>,
    /// Readings of the shard's use of the machine.
    vitals: CpuReadings,
    linger: Linger,
    words: Option<SharedWords>,
}

/// Start of a shard.
struct Go {
    /// The common start.
    start: Nanos,
    /// When the shard begins.
    from: Nanos,
    /// Messages before it: pauses, and the share of a run that goes on already.
    before: Vec<Control>,
}

/// Control frames from the supervisor.
struct Listener<R> {
    control: R,
    commands: FrameDecoder,
}

impl<R: AsyncRead + Unpin> Listener<R> {
    fn new(control: R) -> Self {
        Self {
            control,
            commands: FrameDecoder::default(),
        }
    }

    /// The start. None when the supervisor will not give it.
    async fn start(&mut self) -> Result<Option<Go>, ShardError> {
        let mut before = Vec::new();
        loop {
            match self.next().await? {
                Control::Go { start, from } => {
                    return Ok(Some(Go {
                        start,
                        from,
                        before,
                    }));
                }
                Control::Stop(_) | Control::Finish => return Ok(None),
                control => before.push(control),
            }
        }
    }

    /// The next command. A supervisor that is gone stops the shard at once: its result would not be
    /// read. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Control, ShardError> {
        let mut buffer = [0; 256];
        loop {
            if let Some(command) = self.commands.next_frame()? {
                return Ok(command);
            }
            let read = self.control.read(&mut buffer).await?;
            if read == 0 {
                return Ok(Control::Stop(Nanos::default()));
            }
            self.commands.push(&buffer[..read]);
        }
    }
}
