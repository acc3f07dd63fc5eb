//! What the target is as a forward proxy: who may use it, from which addresses it goes out, and how far. The server's
//! gateway goes by it.
//!
//! It must not open a socket: everything here is decided from text and numbers.

mod credentials;
mod destination;
mod exits;

pub use credentials::Credentials;
pub use destination::Reach;
pub use exits::Exits;

pub(crate) use credentials::{Denied, admit, session_label};
pub(crate) use destination::{Refusal, candidates};
pub(crate) use exits::Whom;

use std::time::Duration;

/// How long a target behind the proxy may take unless told otherwise.
const PATIENCE: Duration = Duration::from_mins(1);

/// How the proxy behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Who may use it; none means anybody.
    pub credentials: Option<Credentials>,
    /// Where it goes out from.
    pub exits: Exits,
    /// How far it goes.
    pub reach: Reach,
    /// How long connecting, and then the beginning of an answer, may take together; for a tunnel, connecting alone.
    pub patience: Duration,
}

impl Default for Proxy {
    fn default() -> Self {
        Self { credentials: None, exits: Exits::default(), reach: Reach::default(), patience: PATIENCE }
    }
}
