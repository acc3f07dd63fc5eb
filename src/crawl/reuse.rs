//! Limit on the number of requests of a connection.
//!
//! The crawl asks it once for each request; it must not know how a connection is closed.

use std::fmt;
use std::num::NonZeroU64;

/// Number of requests that a connection carries before this client closes it. The target may close
/// it earlier.
///
/// The last one says `connection: close`, as clients do that are told not to keep connections (Go's
/// `net/http` with `DisableKeepAlives`, which is hey's `-disable-keepalive` and k6's
/// `noConnectionReuse`). The header alone decides nothing: a target may leave it unheeded. So this
/// client closes the connection, too, as soon as the answer is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reuse {
    /// As many as the target lets it.
    #[default]
    Unbounded,
    /// Closed after that many requests; 1 is a new connection for every request.
    Requests(NonZeroU64),
}

impl Reuse {
    /// For a connection that is opened now.
    pub(super) const fn begin(self) -> Left {
        match self {
            Self::Unbounded => Left(u64::MAX),
            Self::Requests(requests) => Left(requests.get()),
        }
    }
}

impl fmt::Display for Reuse {
    /// `unbounded`, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str("unbounded"),
            Self::Requests(requests) => requests.fmt(f),
        }
    }
}

/// Number of requests that a connection may still carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left(u64);

impl Left {
    /// Takes one of them, and says what becomes of the connection after it. There is one, or the
    /// connection was closed.
    pub(super) const fn take(&mut self) -> After {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            After::Close
        } else {
            After::Keep
        }
    }

    /// True if there is none.
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// State of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Open for the next request.
    Keep,
    /// Closed.
    Close,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_closes_its_connection() {
        let after = |reuse: Reuse| {
            let mut left = reuse.begin();
            [left.take(), left.take(), left.take()]
        };
        let requests = |n| Reuse::Requests(NonZeroU64::new(n).unwrap());
        assert_eq!(after(Reuse::Unbounded), [After::Keep; 3]);
        assert_eq!(after(requests(3)), [After::Keep, After::Keep, After::Close]);
        assert_eq!(after(requests(1))[0], After::Close);
        assert_eq!(
            [Reuse::Unbounded.to_string(), requests(20).to_string()],
            ["unbounded", "20"]
        );
    }
}
