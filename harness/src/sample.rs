//! `Sample`: one attempt, from the moment it was intended to the moment its answer was read; with
//! the outcomes and the kinds of errors, and their names in JSON. Words for people are in the
//! results crate, `show/text/causes.rs`.
//!
//! Made by a shard's engine from a [`Permit`] (the pacer's half) and an [`Attempt`] (the workload's
//! half); consumed by `stats`. The identity
//!
//! ```text
//! response = sched_lag + budget_wait + pool_wait + service
//! ```
//!
//! holds exactly, in integer nanoseconds, for every sample.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::plan::{RequestObjective, RequestTime};
use crate::units::names;

/// Attempts for the present request of an item that did not bring its response, by what a retry is
/// for: each kind has a limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Those that were throttled.
    pub throttled: u32,
    /// Those that failed.
    pub failed: u32,
}

impl Tries {
    /// None so far.
    pub const NONE: Self = Self {
        throttled: 0,
        failed: 0,
    };

    /// Return them with an attempt that ended, and its number among those of its kind; 0 if
    /// another request follows.
    pub(crate) fn with(mut self, attempt: &Attempt) -> (Self, u32) {
        if attempt.advice.repeat == Repeat::Follow {
            return (Self::NONE, 0);
        }
        let count = if attempt.outcome == Outcome::Throttled {
            &mut self.throttled
        } else {
            &mut self.failed
        };
        *count += 1;
        let number = *count;
        (self, number)
    }
}

/// Permission to perform one ID, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// The ID.
    pub id: u64,
    /// Number of earlier attempts of the item: 0 for the first attempt.
    pub attempt: u32,
    /// Those of them that were for its present request.
    pub tries: Tries,
    /// Number of the host whose limits admitted it, to which its request goes.
    pub host: u32,
    /// Scheduled time of the item's first attempt.
    pub first_intended: Nanos,
    /// Scheduled time; in a closed loop, the time from which the item was ready and the budget
    /// allowed it.
    pub intended: Nanos,
    /// Time at which the pacer released it.
    pub ready: Nanos,
    /// Time at which the limits admitted it.
    pub admitted: Nanos,
}

/// Phase of a connection that is being opened, with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The TCP connection.
    Tcp(Nanos),
    /// The tunnel through a proxy.
    Tunnel(Nanos),
    /// The TLS handshake.
    Tls(Nanos),
    /// The greeting of a protocol above them.
    Protocol(Nanos),
}

/// A complete TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// Duration, ns.
    pub ns: u64,
    /// True if it resumed an earlier session.
    pub is_resumed: bool,
    /// Name of the protocol version.
    pub version: &'static str,
    /// Name of the cipher suite.
    pub cipher: &'static str,
}

/// Numbers of events beside an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asides {
    /// Connections that were closed because bytes arrived on them that no request had asked for.
    pub unsolicited: u64,
    /// Requests that were sent once more, because the target had not begun them.
    pub resent: u64,
    /// Names that were looked up again.
    pub lookups: u64,
    /// Lookups of them that found no address to use.
    pub lookups_failed: u64,
    /// Source addresses that sent their first request.
    pub sources_used: u64,
    /// Source addresses whose first request was throttled.
    pub sources_throttled_at_first: u64,
    /// Connections that opened only after the kernel had sent something again.
    pub opened_after_retransmit: u64,
    /// Next pages that were requested.
    pub pages_followed: u64,
    /// Next pages that their items had requested before.
    pub pages_repeated: u64,
    /// Next pages that were too many to be requested.
    pub pages_cut: u64,
    /// First pages that named no next one.
    pub pages_without_next: u64,
    /// Requests that are sent once for all items of a line and failed for good.
    pub shared_failed: u64,
    /// Events of streamed answers.
    pub events: u64,
}

/// Arrivals of the events of a streamed answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventTimes {
    /// True if the answer is to be a stream of events.
    pub is_awaited: bool,
    /// Arrival of the first event.
    pub first: Option<Nanos>,
    /// Arrival of the last event so far.
    pub last: Nanos,
    /// Events that arrived with the one before them.
    pub at_once: u64,
    /// Times from an event to the next one, of those that arrived apart, ns.
    pub gaps_ns: Vec<u64>,
}

impl EventTimes {
    /// Add `count` events, at least one, that arrived together at `at`.
    pub(crate) fn arrive(&mut self, count: u64, at: Nanos) {
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.gaps_ns.push(at.since(self.last));
        }
        self.at_once += count - 1;
        self.last = at;
    }

    /// Forget all, and keep the memory.
    pub(crate) fn clear(&mut self) {
        self.gaps_ns.clear();
        *self = Self {
            gaps_ns: std::mem::take(&mut self.gaps_ns),
            ..Self::default()
        };
    }
}

/// Reading of the connection of a request that has just ended, as the kernel has it (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpReading {
    /// True if the request took much longer than those before it.
    pub is_slow: bool,
    /// True if the request is of the sample that is read however it ended.
    pub is_sampled: bool,
    /// Shortest round trip to the first TCP peer, a proxy if there is one, ns; none where the kernel
    /// knows it in milliseconds alone.
    pub network_ns: Option<u64>,
    /// Segments that the kernel sent again and the request may have waited for.
    pub retransmits: u32,
    /// True if the peer's kernel had acknowledged all that was sent.
    pub is_acknowledged: bool,
}

/// Traits of a response that its workload reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseTraits {
    /// Length of its body; none if that is not known.
    pub body_bytes: Option<u64>,
    /// Number of the value of each of the headers whose values are counted, among those of the
    /// shard.
    pub values: [u8; Self::MOST_HEADERS],
}

impl ResponseTraits {
    /// Most headers whose values are counted.
    pub const MOST_HEADERS: usize = 8;

    /// Number of all values of a header that have none of their own.
    pub const OTHERS: u8 = u8::MAX;
}

/// Side that closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The target, which had said so (`connection: close`, GOAWAY).
    Announced,
    /// The target, without a word.
    Target,
    /// This client.
    Client,
}

/// A connection that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedConnection {
    /// Side that closed it.
    pub by: ClosedBy,
    /// Requests that were answered on it.
    pub requests: u64,
}

/// An open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Time to open it to the target or the proxy, without what follows, ns.
    pub connect_ns: u64,
    /// Time for a proxy to open a tunnel, ns; none of a connection without one.
    pub tunnel_ns: Option<u64>,
    /// The TLS handshake; none of a connection without TLS.
    pub handshake: Option<Handshake>,
    /// Name of the protocol that the target speaks on it, if there is a choice.
    pub protocol: Option<&'static str>,
    /// Requests that the target allows on it at once, if they are fewer than were wanted.
    pub allowed: Option<u32>,
}

/// Progress of a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// When the first byte of the request was written.
    pub sent: Nanos,
    /// When the first byte of the answer was read.
    pub first_byte: Option<Nanos>,
    /// Bytes of the request that were written.
    pub bytes_sent: u64,
    /// Bytes of the answer that were read.
    pub bytes_received: u64,
}

/// Result of one attempt, as the workload reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When the first byte of the request was written; none when no connection could be had.
    pub sent: Option<Nanos>,
    /// When the first byte of the answer was read, of an interim one (1xx) too.
    pub first_byte: Option<Nanos>,
    /// When the last byte was read, or the failure was known. The time of checking the answer is
    /// this client's.
    pub done: Nanos,
    /// Bytes of the request that were written, head and body.
    pub bytes_sent: u64,
    /// Bytes of the answer that were read, head and body.
    pub bytes_received: u64,
    /// The answer's status, when there was one.
    pub status: Option<u16>,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Advice of the answer.
    pub advice: Advice,
}

impl Attempt {
    /// An attempt of which nothing was sent, and which failed at `done`.
    pub const fn unsent(kind: ErrorKind, done: Nanos) -> Self {
        Self {
            sent: None,
            first_byte: None,
            done,
            bytes_sent: 0,
            bytes_received: 0,
            status: None,
            outcome: Outcome::Error(kind),
            advice: Advice {
                repeat: Repeat::Never,
                wait: None,
                quota: None,
                held_ns: None,
            },
        }
    }
}

/// Advice of an answer to its client, apart from the outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Permission to send the same request again.
    pub repeat: Repeat,
    /// Time to wait after the response arrived; never zero. After a throttled attempt it applies to
    /// every request under the same quota, after another failure to this item alone.
    pub wait: Option<Duration>,
    /// Remaining quota, as reported on good answers too.
    // Boxed: few targets report one, and each attempt is moved several times.
    pub quota: Option<Box<Quota>>,
    /// Time for which the target held the answer back, as it reports, ns. Read only where the
    /// target is known to report it.
    pub held_ns: Option<u64>,
}

/// Permission to send the same request again after an attempt. A good or not-found answer ends its
/// item, whatever this says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Repeat {
    /// Not useful or not safe: a repetition would change nothing, or do something twice.
    #[default]
    Never,
    /// The target asks not to send it again.
    Refused,
    /// The next answer may be another.
    MayHelp,
    /// The same, and the item is tried until the run ends: neither retries of an item nor the retry
    /// budget count.
    UntilTheEnd,
    /// The item has another request, or the target redirected: the next attempt sends something
    /// else, at once and without the retry budget.
    Follow,
}

/// Remainder of a quota of requests, as a target reports it.
///
/// No promise: other clients may use the quota too, and a target may refuse for other reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests that are left.
    pub remaining: u64,
    /// Number of requests in the whole quota, if reported.
    pub limit: Option<u64>,
    /// After how long there will be more, counted from when the answer came, if told.
    pub resets_in: Option<Duration>,
}

impl Quota {
    /// The requests per second at which what is left lasts until there is more: 0 when nothing is
    /// left, none when nothing bounds it.
    pub fn pace_per_s(&self) -> Option<f64> {
        match (self.remaining, self.resets_in) {
            (0, _) => Some(0.0),
            (remaining, Some(within)) if !within.is_zero() => {
                Some(remaining as f64 / within.as_secs_f64())
            }
            _ => None,
        }
    }
}

/// Outcome of an attempt. A failure is data, never an `Err`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A good answer.
    Ok,
    /// The target says that the answer of an earlier crawl still holds (304).
    NotModified,
    /// The target says that there is no such item.
    NotFound,
    /// The target throttled the request.
    Throttled,
    /// A challenge page in the place of an answer: the target takes this client for one that it
    /// does not want.
    SoftBlocked,
    /// A redirect that is followed.
    Redirected,
    /// A good answer that another request of its item follows.
    Stepped,
    /// An answer that is neither of these.
    Rejected,
    /// No valid answer.
    Error(ErrorKind),
}

impl Outcome {
    /// True for an answer that is good, or says that there is no such item.
    pub const fn is_answer(self) -> bool {
        self.is_final() || matches!(self, Self::Stepped)
    }

    /// True for an answer after which its item needs no other.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Ok | Self::NotModified | Self::NotFound)
    }

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotModified => "not_modified",
            Self::NotFound => "not_found",
            Self::Throttled => "throttled",
            Self::SoftBlocked => "soft_blocked",
            Self::Redirected => "redirected",
            Self::Stepped => "stepped",
            Self::Rejected => "rejected",
            Self::Error(kind) => kind.name(),
        }
    }
}

names! {
    /// Reason why there was no valid answer. In alphabetical order, as reports have them.
    pub enum ErrorKind {
        /// No local port was left for this client.
        AddressUnavailable = "address_unavailable",
        /// The content of the answer is not of its coding.
        BadEncoding = "bad_encoding",
        /// The content of the answer is longer than may be kept, once it is decoded.
        BodyTooLong = "body_too_long",
        /// The connection was closed before the answer began.
        Closed = "closed",
        /// The connection did not open for another reason.
        ConnectFailed = "connect_failed",
        /// Connection refused.
        ConnectRefused = "connect_refused",
        /// The connection did not open in time.
        ConnectTimeout = "connect_timeout",
        /// A value that the next request of the item needs is missing, or cannot be sent.
        ExtractFailed = "extract_failed",
        /// The target closed the connection before it began the request.
        Http2GoAway = "http2_goaway",
        /// The target does not speak HTTP/2.
        Http2NotOffered = "http2_not_offered",
        /// The target broke the protocol of HTTP/2.
        Http2Protocol = "http2_protocol",
        /// The target refused the request before it began it.
        Http2Refused = "http2_refused",
        /// The target reset the request.
        Http2Reset = "http2_reset",
        /// The target does not speak HTTP/3.
        Http3NotOffered = "http3_not_offered",
        /// The target broke the protocol of HTTP/3 or QUIC.
        Http3Protocol = "http3_protocol",
        /// The target refused the request before it began it.
        Http3Refused = "http3_refused",
        /// The target reset the request.
        Http3Reset = "http3_reset",
        /// The connection was closed before the answer ended.
        Incomplete = "incomplete",
        /// Anything else from the socket.
        Io = "io",
        /// The answer did not follow the protocol.
        Malformed = "malformed",
        /// The proxy does not accept the credentials.
        ProxyAuth = "proxy_auth",
        /// The proxy closed the connection before its answer.
        ProxyClosed = "proxy_closed",
        /// The proxy does not speak the protocol of its URL.
        ProxyNotSpoken = "proxy_not_spoken",
        /// The proxy refuses to connect to the target.
        ProxyRefused = "proxy_refused",
        /// The proxy cannot connect to the target.
        ProxyTargetUnreachable = "proxy_target_unreachable",
        /// The proxy cannot be connected to.
        ProxyUnreachable = "proxy_unreachable",
        /// The target redirected to a host that is not in the plan.
        RedirectRefused = "redirect_refused",
        /// The connection was reset.
        Reset = "reset",
        /// The target redirected to a path that robots.txt forbids.
        RobotsForbidden = "robots_forbidden",
        /// The request that is sent once for all items of its line failed for good.
        SharedFailed = "shared_failed",
        /// The answer did not come, or did not end, in time.
        Timeout = "timeout",
        /// The target ended the TLS handshake, or the connection, with an alert.
        TlsAlert = "tls_alert",
        /// The target's certificate is invalid for another reason.
        TlsBadCertificate = "tls_bad_certificate",
        /// The connection was closed during the TLS handshake.
        TlsClosed = "tls_closed",
        /// The target's certificate has expired or is not valid yet.
        TlsExpired = "tls_expired",
        /// Client and target have no TLS version or cipher suite in common.
        TlsIncompatible = "tls_incompatible",
        /// The target does not speak TLS on this port, or not correctly.
        TlsNotSpoken = "tls_not_spoken",
        /// The target speaks TLS on this port, and the request was sent in plain text.
        TlsRequired = "tls_required",
        /// No trusted authority issued the target's certificate.
        TlsUnknownIssuer = "tls_unknown_issuer",
        /// The target's certificate is for another name.
        TlsWrongName = "tls_wrong_name",
        /// No descriptor was left for this client.
        TooManyFiles = "too_many_files",
        /// The target redirected more often than allowed.
        TooManyRedirects = "too_many_redirects",
        /// There is no way to the target: a link is down, or a route is missing.
        Unreachable = "unreachable",
        /// The answer was complete and its body was wrong.
        WrongBody = "wrong_body",
    }
}

impl ErrorKind {
    /// Failures that are this machine's own and not the target's.
    pub const LOCAL: [Self; 2] = [Self::AddressUnavailable, Self::TooManyFiles];

    /// True if the attempt was cut off while it was still under way, so that its true time is only
    /// known to be longer.
    pub const fn is_censored(self) -> bool {
        matches!(self, Self::Timeout | Self::ConnectTimeout)
    }

    /// True if the settings of client and target are incompatible, so that a retry would fail as
    /// well.
    pub const fn is_lasting(self) -> bool {
        matches!(
            self,
            Self::BadEncoding
                | Self::BodyTooLong
                | Self::ExtractFailed
                | Self::Http2NotOffered
                | Self::Http3NotOffered
                | Self::ProxyAuth
                | Self::ProxyNotSpoken
                | Self::RedirectRefused
                | Self::RobotsForbidden
                | Self::SharedFailed
                | Self::TlsBadCertificate
                | Self::TlsExpired
                | Self::TlsIncompatible
                | Self::TlsNotSpoken
                | Self::TlsRequired
                | Self::TlsUnknownIssuer
                | Self::TlsWrongName
                | Self::TooManyRedirects
        )
    }

    /// True if this machine lacked something: the target was not asked.
    pub fn is_local(self) -> bool {
        Self::LOCAL.contains(&self)
    }
}

/// Fate of an item after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No further attempt; the item's state is the [outcome](Outcome) of this one.
    Ended,
    /// There will be another.
    Again,
}

/// One attempt, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The pacer's half.
    pub permit: Permit,
    /// The workload's half.
    pub attempt: Attempt,
    /// Fate of the item after this attempt.
    pub fate: Fate,
}

impl Sample {
    /// When the request went out; an attempt that never got a connection counts as sent when it
    /// failed, so that its whole time is `pool_wait`.
    pub fn sent(&self) -> Nanos {
        self.attempt.sent.unwrap_or(self.attempt.done)
    }

    /// The client's own lateness, ns.
    pub fn sched_lag_ns(&self) -> u64 {
        self.permit.ready.since(self.permit.intended)
    }

    /// Waiting for the budget, ns.
    pub fn budget_wait_ns(&self) -> u64 {
        self.permit.admitted.since(self.permit.ready)
    }

    /// Waiting for a connection while none was free, and opening one, ns.
    pub fn pool_wait_ns(&self) -> u64 {
        self.sent().since(self.permit.admitted)
    }

    /// The target's time, ns.
    pub fn service_ns(&self) -> u64 {
        self.attempt.done.since(self.sent())
    }

    /// Return the part of the service time that was not the target's hold, as the target reports
    /// it: the way there and back, and this client's own time, ns. 0 when the reported hold is
    /// longer than the wait for the answer, which cannot be. None when the target reports no hold.
    pub fn overhead_ns(&self) -> Option<u64> {
        self.attempt
            .advice
            .held_ns
            .map(|held_ns| self.service_ns().saturating_sub(held_ns))
    }

    /// Return the response time, ns: from the scheduled time to the last byte, the sum of the four
    /// parts.
    pub fn response_ns(&self) -> u64 {
        self.attempt.done.since(self.permit.intended)
    }

    /// From the scheduled time of the item's first attempt to the end of its last one, ns: what the
    /// item took, waits between its attempts included. None while there will be another.
    pub fn item_ns(&self) -> Option<u64> {
        match self.fate {
            Fate::Ended => Some(self.attempt.done.since(self.permit.first_intended)),
            Fate::Again => None,
        }
    }

    /// Service time of a good or not-found answer whose first read is its last, ns; it is the time
    /// to its first byte as well. None of any other.
    #[inline]
    pub(crate) fn read_at_once_ns(&self) -> Option<u64> {
        let Attempt {
            sent,
            first_byte,
            done,
            outcome,
            ..
        } = self.attempt;
        let is_at_once = first_byte == Some(done) && outcome.is_answer();
        sent.filter(|_| is_at_once).map(|sent| done.since(sent))
    }

    /// From the first to the last byte of the answer, ns.
    pub fn body_ns(&self) -> Option<u64> {
        let Attempt {
            first_byte, done, ..
        } = self.attempt;
        first_byte.map(|first| done.since(first))
    }

    /// True if it was good or not found, within all of these.
    pub(crate) fn meets(&self, objectives: &[RequestObjective]) -> bool {
        self.attempt.outcome.is_answer()
            && objectives.iter().all(|objective| {
                let ns = match objective.time {
                    RequestTime::Response => self.response_ns(),
                    RequestTime::Service => self.service_ns(),
                    RequestTime::Ttfb => self.ttfb_ns().unwrap_or(u64::MAX),
                };
                ns < objective.below_ns
            })
    }

    /// Time to the first byte of the answer, ns.
    pub fn ttfb_ns(&self) -> Option<u64> {
        self.attempt
            .first_byte
            .map(|first| first.since(self.sent()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{attempt_of, permit_at};

    proptest! {
        #[test]
        fn the_parts_add_up_to_the_response(
            intended in 0..1_u64 << 40, lag in 0..1_u64 << 30, budget in 0..1_u64 << 30, pool in 0..1_u64 << 30,
            service in 0..1_u64 << 30, connected: bool,
        ) {
            let ready = Nanos(intended + lag);
            let admitted = Nanos(ready.0 + budget);
            let sent = Nanos(admitted.0 + pool);
            let sample = Sample {
                permit: Permit { ready, admitted, ..permit_at(Nanos(intended)) },
                attempt: Attempt {
                    sent: connected.then_some(sent),
                    ..attempt_of(sent, Nanos(sent.0 + service), Outcome::Ok)
                },
                fate: Fate::Ended,
            };
            let parts = sample.sched_lag_ns() + sample.budget_wait_ns() + sample.pool_wait_ns() + sample.service_ns();
            prop_assert_eq!(parts, sample.response_ns());
        }
    }
}
