//! Abrupt ends of a connection in place of a response, which no HTTP library would send. The
//! handler of such a request ends with [`Interrupted`], and `connection` then carries out the
//! [`Act`] on the bare stream.
//!
//! It must not decide which request ends in which way.

use super::wire::Wire;
use std::cell::Cell;
use tokio::io::AsyncWriteExt;

/// End of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Send these bytes as they are, and close the connection behind them.
    Close(Vec<u8>),
    /// Reset.
    Reset,
    /// Send these bytes as they are, and then nothing until the client leaves.
    Silence(Vec<u8>),
}

impl Act {
    /// Carries it out. Errors are a client that left first, which ends the connection just as well.
    pub(super) async fn perform(self, mut wire: Wire) {
        match self {
            Self::Close(bytes) => {
                drop(wire.write_all(&bytes).await);
                drop(wire.shutdown().await);
            }
            Self::Reset => wire.reset(),
            Self::Silence(bytes) => {
                if wire.write_all(&bytes).await.is_ok() && wire.flush().await.is_ok() {
                    // Whatever else the client sends is read and ignored, so that its leaving is
                    // noticed.
                    drop(tokio::io::copy(&mut wire, &mut tokio::io::sink()).await);
                }
            }
        }
    }
}

/// The request gets no answer: the connection is to end as its [`Fate`] says, or to become a
/// tunnel.
#[derive(Debug, thiserror::Error)]
#[error("give up the answer, as the faults or a tunnel ask")]
pub(super) struct Interrupted;

/// End that was chosen for one connection, once it is.
#[derive(Default)]
pub(super) struct Fate(Cell<Option<Act>>);

impl Fate {
    /// Decides it; what this returns ends the HTTP library's part of the connection.
    pub(super) fn seal(&self, act: Act) -> Interrupted {
        self.0.set(Some(act));
        Interrupted
    }

    /// Take the end that was chosen, if one was.
    pub(super) fn take(&self) -> Option<Act> {
        self.0.take()
    }
}
