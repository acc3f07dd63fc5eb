//! What an answer comes to: the one place where a status becomes an outcome.

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome};
use hyper::header::RETRY_AFTER;
use hyper::http::response::Parts;

use super::expect::Body;

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    first_byte: Nanos,
    done: Nanos,
    bytes_received: u64,
    outcome: Outcome,
}

impl Answer {
    /// An answer by its head, the length of its body, and whether that was the body expected.
    pub(super) fn new(head: &Parts, first_byte: Nanos, bytes_received: u64, body: Body) -> Self {
        let status = head.status.as_u16();
        let outcome = match (status, body) {
            (200..=299, Body::AsExpected) => Outcome::Ok,
            (200..=299, Body::Wrong) => Outcome::Error(ErrorKind::WrongBody),
            (404 | 410, _) => Outcome::NotFound,
            (429, _) => Outcome::Throttled,
            // RFC 9110, 15.6.4: a 503 that says when to come back is about load, not about a fault.
            (503, _) if head.headers.contains_key(RETRY_AFTER) => Outcome::Throttled,
            _ => Outcome::Rejected,
        };
        Self { status, first_byte, done: first_byte, bytes_received, outcome }
    }

    /// The answer with the moment at which it had been read and checked.
    pub(super) const fn done_at(mut self, done: Nanos) -> Self {
        self.done = done;
        self
    }

    /// The attempt that brought it.
    pub(super) const fn attempt(self, sent: Nanos, connect_ns: Option<u64>, bytes_sent: u64) -> Attempt {
        Attempt {
            sent: Some(sent),
            first_byte: Some(self.first_byte),
            done: self.done,
            connect_ns,
            bytes_sent,
            bytes_received: self.bytes_received,
            status: Some(self.status),
            outcome: self.outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Response;

    use super::*;

    #[test]
    fn a_status_becomes_one_outcome() {
        let outcome = |status: u16, retry_after: Option<&str>, body: Body| {
            let mut response = Response::builder().status(status);
            if let Some(value) = retry_after {
                response = response.header(RETRY_AFTER, value);
            }
            Answer::new(&response.body(()).unwrap().into_parts().0, Nanos(1), 0, body).outcome
        };
        assert_eq!(outcome(200, None, Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(204, None, Body::AsExpected), Outcome::Ok);
        assert_eq!(outcome(200, None, Body::Wrong), Outcome::Error(ErrorKind::WrongBody));
        assert_eq!(outcome(404, None, Body::Wrong), Outcome::NotFound);
        assert_eq!(outcome(410, None, Body::AsExpected), Outcome::NotFound);
        assert_eq!(outcome(429, None, Body::Wrong), Outcome::Throttled);
        assert_eq!(outcome(503, Some("3"), Body::Wrong), Outcome::Throttled);
        for status in [301, 400, 403, 500, 503] {
            assert_eq!(outcome(status, None, Body::AsExpected), Outcome::Rejected, "{status}");
        }
    }
}
