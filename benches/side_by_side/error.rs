//! Every way in which the comparison cannot be made. Each message names the program and what to do about it.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// Reason why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The operating system refused something that always works.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A signal cannot be watched.
    #[error("failed to watch signals: {0}")]
    Signals(#[from] Errno),
    /// A program does not start.
    #[error("failed to start {name}: {error}")]
    Start {
        /// Name of the program.
        name: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The bundled target never said where it listens.
    #[error("the bundled target did not say where it listens: {0}")]
    Target(String),
    /// A server does not serve.
    #[error("{name}: {why}")]
    Server {
        /// Name of the server.
        name: &'static str,
        /// Reason why it does not serve.
        why: String,
    },
    /// A program failed.
    #[error("{name} failed ({how}):\n{output}")]
    Failed {
        /// Name of the program.
        name: String,
        /// Its exit status.
        how: String,
        /// Output of the program.
        output: String,
    },
    /// A program did not stop when its time was over.
    #[error("{name} did not end within {seconds} s and was killed")]
    Overdue {
        /// Name of the program.
        name: String,
        /// Time limit, s.
        seconds: u64,
    },
    /// Output of a program without figures where they should be.
    #[error("{name} printed no number of requests where one was expected (leave it out with --peers):\n{output}")]
    Unreadable {
        /// Name of the program.
        name: String,
        /// Output of the program.
        output: String,
    },
    /// The result cannot be saved.
    #[error("failed to save {}: {error}", path.display())]
    Save {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Stopped by a signal.
    #[error("stopped by signal {0}")]
    Interrupted(u8),
}

impl Error {
    /// True if the fault lies with one program, so that the comparison can go on without it.
    pub(crate) const fn is_the_programs(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Failed { .. } | Self::Overdue { .. } | Self::Unreadable { .. })
    }

    /// The shells' convention for signals; 1 for everything else.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(signal) => 128 + *signal,
            _ => 1,
        }
    }
}
