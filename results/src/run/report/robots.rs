//! Rules of robots.txt that a run obeyed (`robots`).
//!
//! Made by the command `run`. Items that the rules forbid are `skipped` in the ledger.

use serde::{Deserialize, Serialize};

/// Files robots.txt of the hosts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RobotsReport {
    /// Requests for them, before the run: not in `totals`.
    pub requests: u64,
    /// The largest crawl-delay, s: least time between two requests to a host. Null if no host asks
    /// for one.
    pub crawl_delay_s: Option<f64>,
    /// Hosts with a robots.txt.
    pub with_rules: u32,
    /// Hosts whose robots.txt could not be fetched, so that nothing of them may be crawled.
    pub unreachable: u32,
    /// The first hundred hosts.
    pub hosts: Vec<RobotsHost>,
}

/// File robots.txt of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RobotsHost {
    /// Scheme, name and port.
    pub host: String,
    /// Status of its response; null without one.
    pub status: Option<u16>,
    /// Consequence of the response.
    pub outcome: RobotsOutcome,
    /// Least time between two requests that it asks for, s; null if it asks for none.
    pub crawl_delay_s: Option<f64>,
}

/// Result of a fetch of robots.txt (RFC 9309, 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsOutcome {
    /// There are rules.
    Rules,
    /// There are none (status 4xx): all may be crawled.
    None,
    /// There was no answer, status 429 or 5xx, or a redirect to another host: nothing may be
    /// crawled.
    Unreachable,
}
