//! Settings of the forward proxy: credentials, source addresses and permitted destinations. Used by
//! the server's gateway.
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
pub(crate) use exits::Sender;

use std::time::Duration;

/// Default time limit for a target behind the proxy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Forward proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Credentials that it asks for; none lets anybody in.
    pub credentials: Option<Credentials>,
    /// Addresses that it goes out from.
    pub exits: Exits,
    /// Destinations that it connects to.
    pub reach: Reach,
    /// Time limit for connecting and for the beginning of an answer together; for a tunnel,
    /// connecting alone.
    pub patience: Duration,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            credentials: None,
            exits: Exits::default(),
            reach: Reach::default(),
            patience: PATIENCE,
        }
    }
}
