//! Serving: accepts connections on one socket with one current-thread runtime, until told to stop.
//! A process forked for it calls [`run_process`], a thread kept for it [`run_until`].
//!
//! It must not decide what an answer is (`answer` does), nor how a connection goes on (`connection`
//! does), and it must not start a thread.
//!
//! | room | for |
//! |---|---|
//! | `connection`, `wire`, `tasks` | accepted sockets, TLS and HTTP versions, connections and their streams |
//! | `http3` | connections of QUIC and their streams |
//! | `answer`, `body` | responses: the hot path |
//! | `stack` | requests of one process of which the latest is served first |
//! | `limiter`, `quota` | decisions of all limits about a request; their status and header fields |
//! | `gateway` | requests that are passed on to another service |
//! | `spoil` | faults in responses; abrupt ends of connections |
//! | `served_stubs`, `journal` | stubs and their scenarios; recorded requests |
//! | `admin` | routes below `/__admin`: ledger, stubs, journal |

mod admin;
mod answer;
mod body;
mod connection;
mod gateway;
#[cfg(feature = "http3")]
mod http3;
mod journal;
mod limiter;
mod quota;
mod served_stubs;
mod spoil;
mod stack;
mod tasks;
mod wire;

use crate::config::Config;
use crate::ledger::LedgerWriter;
use crate::limit::Over;
use crate::listen::Sockets;
use crate::recording::Recording;
use crate::shared::{Shared, SharedError};
use crate::timer::Timer;
use answer::{Answers, ServerState};
use connection::Entrance;
use gateway::Gateway;
pub use gateway::Upstream;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use served_stubs::ServedStubs;
use socket2::SockRef;
use stack::Stack;
use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::select;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Pause of accepting when the process is out of descriptors or memory: long enough for connections
/// to end, short against any time-out of a client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Time that answers under way get once serving is to stop.
const GRACE: Duration = Duration::from_millis(500);

/// Serves `listener` until SIGTERM, SIGINT or SIGUSR1; the entry for a process forked to do just
/// that. SIGUSR1 is for a parent that keeps the others to itself, since they may be sent to all of
/// its processes.
///
/// It opens the process's own part of the ledger in `shared`. It must be called after the fork,
/// from a single thread, with those signals unblocked that are to end it; a signal before it is set
/// up ends the process the default way. Accepting stops at once, idle connections are closed,
/// answers under way get half a second.
///
/// # Errors
///
/// The runtime cannot be built, the signals cannot be watched, or `listener` cannot be registered.
pub fn run_process(
    listener: impl Into<Sockets>,
    config: &Config,
    shared: &Shared,
) -> Result<(), ServeError> {
    until_signal(listener.into(), config, shared, None).map(drop)
}

/// Serves `listener` as [`run_process`] does, in the one process of a target: a request that no stub
/// answers is passed on to `upstream`, and its response is recorded.
///
/// # Errors
///
/// As of [`run_process`].
pub fn record_process(
    listener: impl Into<Sockets>,
    config: &Config,
    shared: &Shared,
    upstream: Upstream,
) -> Result<Recording, ServeError> {
    until_signal(listener.into(), config, shared, Some(upstream))
}

fn until_signal(
    sockets: Sockets,
    config: &Config,
    shared: &Shared,
    upstream: Option<Upstream>,
) -> Result<Recording, ServeError> {
    let blocked = SigSet::thread_get_mask().map_err(signal_error)?;
    let ending: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1]
        .into_iter()
        .filter(|signal| !blocked.contains(*signal))
        .collect();
    ending.thread_block().map_err(signal_error)?;
    // Those of tokio come through one pipe for a process and all that it forks, of which any may take
    // what was to wake another.
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&ending, flags).map_err(signal_error)?;
    runtime()?.block_on(async {
        #[expect(
            deprecated,
            reason = "its successor is unsafe and asks that the descriptor stay open and the same, which `SignalFd` ensures"
        )]
        let signals = AsyncFd::with_interest(signals, Interest::READABLE).map_err(ServeError::Signal)?;
        let shutdown = async { drop(signals.readable().await) };
        serve(sockets, config, shared, upstream, shutdown).await
    })
}

fn signal_error(error: Errno) -> ServeError {
    ServeError::Signal(error.into())
}

/// Serves `listener` until `shutdown` is ready, and leaves signals alone; the entry for a caller's
/// own thread.
///
/// # Errors
///
/// The runtime cannot be built, or `listener` cannot be registered.
pub fn run_until(
    listener: impl Into<Sockets>,
    config: &Config,
    shared: &Shared,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let served = serve(listener.into(), config, shared, None, shutdown);
    runtime()?.block_on(served).map(drop)
}

/// Serves `listener` until `shutdown` is ready. Accepting then stops at once, idle connections are
/// closed, answers under way get half a second, and whatever is left is cut off.
///
/// No error of a connection or of accepting ends it: out of descriptors it pauses and goes on.
/// Returns what was recorded of `upstream`.
async fn serve(
    Sockets { tcp: listener, udp }: Sockets,
    config: &Config,
    shared: &Shared,
    upstream: Option<Upstream>,
    shutdown: impl Future<Output = ()>,
) -> Result<Recording, ServeError> {
    listener
        .set_nonblocking(true)
        .map_err(ServeError::Listener)?;
    let listener = TcpListener::from_std(listener).map_err(ServeError::Listener)?;
    let (config, ledger) = (config.clone(), Rc::new(LedgerWriter::open(shared)));
    let stubs = ServedStubs::new(&config, &ledger);
    let timer = Rc::new(Timer::new(ledger.shared().clock()).map_err(ServeError::Timer)?);
    ledger.name_limits(&config.limits);
    // A task of its own, ended with this function: it has to go on while connections come to their
    // end.
    let mut alarm = JoinSet::new();
    let driven = Rc::clone(&timer);
    alarm.spawn_local(async move { driven.run().await });
    let gateway = upstream.map(|upstream| Rc::new(Gateway::new(upstream, &timer)));
    let state = Rc::new(ServerState {
        config,
        ledger,
        timer,
        stubs,
        gateway,
        stack: Stack::default(),
    });
    if let Some(workers) = state.config.workers.filter(|workers| workers.is_lifo()) {
        for _ in 0..workers.get() {
            let state = Rc::clone(&state);
            alarm.spawn_local(async move {
                let ServerState {
                    stack,
                    config,
                    timer,
                    ledger,
                    ..
                } = &*state;
                stack.work(config, timer, ledger).await;
            });
        }
    }
    if let Some(queue) = state.config.accept.and_then(|accept| accept.queue) {
        // A socket may be told again how many it lets wait (listen(2)).
        let queue = SockRef::from(&listener).listen(queue.into());
        queue.map_err(ServeError::Listener)?;
    }
    let stop = Rc::new(Stop::default());
    #[cfg(feature = "http3")]
    let quic = udp
        .map(|udp| http3::Listener::new(udp, &state, &stop))
        .transpose()?;
    #[cfg(not(feature = "http3"))]
    drop(udp);
    let mut connections = accept(listener, &state, &stop, shutdown).await;
    stop.now();
    let all_ended = async { while connections.join_next().await.is_some() {} };
    // Whether all ended in time or not: dropping the set cuts off the rest.
    drop(timeout(GRACE, all_ended).await);
    #[cfg(feature = "http3")]
    if let Some(quic) = quic {
        drop(timeout(GRACE, quic.end()).await);
    }
    drop(connections);
    let recording = state
        .gateway
        .as_ref()
        .map(|gateway| gateway.recording.take());
    Ok(recording.unwrap_or_default())
}

/// Accepts connections until `shutdown` is ready, closes `listener`, and returns those that are
/// still open.
async fn accept(
    listener: TcpListener,
    state: &Rc<ServerState>,
    stop: &Rc<Stop>,
    shutdown: impl Future<Output = ()>,
) -> JoinSet<()> {
    let accept = state.config.accept;
    let most = accept.map_or(usize::MAX, |accept| accept.open.get() as usize);
    let entrance = Entrance::new(&state.config, &state.ledger, &state.timer);
    let (entrance, mut shutdown) = (Rc::new(entrance), pin!(shutdown));
    let mut connections = JoinSet::new();
    loop {
        // Ended connections leave an entry behind; their results are not needed.
        while connections.try_join_next().is_some() {}
        let is_full = connections.len() >= most;
        let accepted = select! {
            biased;
            () = &mut shutdown => return connections,
            _ = connections.join_next(), if is_full => continue,
            accepted = listener.accept(), if !is_full => accepted,
        };
        match accepted {
            Ok((stream, address)) => match Answers::new(state, address.ip()) {
                Ok(answers) => {
                    let (entrance, stop) = (Rc::clone(&entrance), Rc::clone(stop));
                    connections.spawn_local(async move {
                        connection::serve(stream, answers, &entrance, &stop).await;
                    });
                }
                Err(over) => turn_away(stream, over),
            },
            Err(error) if concerns_one_connection(&error) => {}
            Err(_) => {
                select! {
                    biased;
                    () = &mut shutdown => return connections,
                    () = sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

fn runtime() -> Result<LocalRuntime, ServeError> {
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(ServeError::Runtime)
}

/// The connection is gone before it was accepted; the next one may be fine.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Closes a connection that is one too many.
fn turn_away(stream: TcpStream, over: Over) {
    if over == Over::Reset {
        // With nothing to wait for, closing is a reset. Where it cannot be set, the connection is
        // closed politely.
        drop(stream.set_zero_linger());
    }
    drop(stream);
}

/// Tells all connections to end.
#[derive(Default)]
struct Stop {
    is_stopping: Cell<bool>,
    changed: Notify,
}

impl Stop {
    fn now(&self) {
        self.is_stopping.set(true);
        self.changed.notify_waiters();
    }

    fn is_now(&self) -> bool {
        self.is_stopping.get()
    }

    async fn wait(&self) {
        // One thread: nothing can stop between the look and the wait.
        if !self.is_stopping.get() {
            self.changed.notified().await;
        }
    }

    /// Run `work`; none if serving stops first.
    async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        select! { biased; () = self.wait() => None, done = work => Some(done) }
    }
}

/// Reason why serving could not begin; it reads after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No runtime.
    #[error("build the runtime of the target: {0}")]
    Runtime(#[source] io::Error),
    /// No signal handlers.
    #[error("watch for the signals that end the target: {0}")]
    Signal(#[source] io::Error),
    /// The listening socket cannot be used.
    #[error("register the target's listening socket: {0}")]
    Listener(#[source] io::Error),
    /// TLS cannot be that of QUIC.
    #[error("set up HTTP/3: {0}")]
    Http3(String),
    /// No memory for the ledger.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// No thread to serve on.
    #[error("run the target's thread: {0}")]
    Thread(#[source] io::Error),
    /// No timer.
    #[error("make the timer that holds responses: {0}")]
    Timer(#[source] io::Error),
}
