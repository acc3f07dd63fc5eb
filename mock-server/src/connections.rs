//! How the target treats connections, beside the caps of `limit`: the requests that each may carry,
//! and how many are accepted.
//!
//! It must not count anything: `server` does.

use crate::text::from_text;
use std::fmt;
use std::num::NonZeroU32;

/// Requests of one HTTP/1.1 connection, after which the target closes it. Written `100`, or
/// `100:silent` for a target that does not announce it with `Connection: close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Number of requests.
    pub requests: NonZeroU32,
    /// True if the last response does not announce the end.
    pub is_silent: bool,
}

from_text!(
    KeepAlive,
    "number of requests",
    "1 or more, as in 100, or 100:silent for a close without an announcement"
);

impl KeepAlive {
    fn read(text: &str) -> Option<Self> {
        let requests = text.strip_suffix(":silent");
        Some(Self {
            requests: requests.unwrap_or(text).parse().ok()?,
            is_silent: requests.is_some(),
        })
    }
}

impl fmt::Display for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_silent { ":silent" } else { "" };
        write!(f, "{}{suffix}", self.requests)
    }
}

/// Connections that are open in one process at the same time: the next one is accepted when one of
/// them has ended. Written `1`, or `1:8` with the length of the queue of the others, which the kernel
/// caps at `net.core.somaxconn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub(crate) open: NonZeroU32,
    pub(crate) queue: Option<u16>,
}

from_text!(
    Accept,
    "number of connections",
    "1 or more, as in 1, or 1:8 with a queue of 0 to 65535"
);

impl Accept {
    fn read(text: &str) -> Option<Self> {
        let (open, queue) = match text.split_once(':') {
            Some((open, queue)) => (open, Some(queue.parse().ok()?)),
            None => (text, None),
        };
        let open = open.parse().ok()?;
        Some(Self { open, queue })
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.open.fmt(f)?;
        self.queue.map_or(Ok(()), |queue| write!(f, ":{queue}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["1", "100", "100:silent"] {
            assert_eq!(text.parse::<KeepAlive>().unwrap().to_string(), text);
        }
        for text in ["1", "64:0", "1:8"] {
            assert_eq!(text.parse::<Accept>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "0:silent", "1:loud", "1:-1", "1:65536", ":8"] {
            assert!(wrong.parse::<KeepAlive>().is_err(), "{wrong}");
            assert!(wrong.parse::<Accept>().is_err(), "{wrong}");
        }
    }
}
