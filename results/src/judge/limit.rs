//! Limits that requests wait for: the name of each, and what to do about it.

use serde::{Deserialize, Serialize};

/// Limit that requests wait for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `--rate`.
    Rate,
    /// The times of a recording.
    Recording,
    /// `--per-host-rate`.
    PerHostRate,
    /// The crawl-delay of robots.txt.
    CrawlDelay,
    /// All connections are in use.
    Connections,
    /// `--per-host-connections`.
    PerHostConnections,
    /// A throttle pause.
    Pause,
    /// The target's rate limit: its quota, or the rate that was learnt from throttled responses.
    Quota,
    /// `--adaptive`, which has found no limit yet.
    Adaptive,
    /// The storing of results.
    Storage,
    /// Slots of a crawl in parts that no part held.
    Slots,
    /// Nothing to send.
    Idle,
    /// None of those that are known.
    #[default]
    Unknown,
}

impl Limit {
    /// Its name, and what to do about it, in a sentence; none where nothing is wrong.
    const fn row(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Rate => ("--rate", None),
            Self::Recording => ("the recording", None),
            Self::PerHostRate => (
                "--per-host-rate",
                Some("Raise --per-host-rate, or lower --rate."),
            ),
            Self::CrawlDelay => (
                "the crawl-delay of robots.txt",
                Some("Lower --rate, or use --robots ignore if you are allowed to."),
            ),
            Self::Connections => (
                "connections",
                Some(
                    "Use more connections (-c) or streams (--streams), as long as the rate grows with them.",
                ),
            ),
            Self::PerHostConnections => (
                "--per-host-connections",
                Some("Raise --per-host-connections, or lower --rate."),
            ),
            Self::Pause => (
                "throttle pauses",
                Some("Lower --rate, or use --on-throttle count to send requests anyway."),
            ),
            Self::Quota => ("the target's rate limit", Some("Lower --rate.")),
            Self::Adaptive => ("--adaptive", Some("Lower --rate.")),
            Self::Storage => (
                "storing results",
                Some(
                    "Save to a faster disk (--save), or save less (--save-bodies, --save-fields).",
                ),
            ),
            Self::Slots => (
                "slots without a part",
                Some("Run as many parts at once as the plan has slots."),
            ),
            Self::Idle => ("idle", None),
            Self::Unknown => ("another limit than --rate", Some("Lower --rate.")),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// What to do about it, in a sentence; none where nothing is wrong.
    pub const fn remedy(self) -> Option<&'static str> {
        self.row().1
    }
}
