//! A plan, attempts, bounds, readings of a machine and kinds of findings for tests, of this crate
//! and of those above it (feature `virtual-time`).
#![expect(clippy::unwrap_used, reason = "a test without its fixtures is over")]

use std::fmt::Display;
use std::time::Duration;
use std::{fs, iter};

use serde::Deserialize;
use serde::de::{self, value::MapDeserializer};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::clock::Nanos;
use crate::machine::Proc;
use crate::plan::RunPlan;
use crate::sample::{
    Advice, Attempt, InFlight, Outcome, Permit, ResponseTraits, TcpReading, Tries,
};
use crate::stats::{Bounds, GroupTimes, Groups, Nth, TraitCounter, TraitSample};
use crate::units::IdRange;
use crate::wire::ShardOutcome;

/// The names of the variants of an enum that is read by its `kind`.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn kinds<F: Deserialize<'static>>() -> &'static [&'static str] {
    let unknown = iter::once(("kind", "none of them"));
    let Err(Kinds(kinds)) = F::deserialize(MapDeserializer::<_, Kinds>::new(unknown)) else {
        return &[];
    };
    assert!(!kinds.is_empty(), "no enum that is read by its kind");
    kinds
}

/// Error of what has an unknown kind: the known ones.
#[derive(Debug, thiserror::Error)]
#[error("one of {0:?}")]
struct Kinds(&'static [&'static str]);

impl de::Error for Kinds {
    fn custom<T: Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self(known)
    }
}

/// Two shards, 1,000 IDs, eight connections, no budget.
pub fn plan() -> RunPlan {
    RunPlan {
        shards: 2,
        connections: 8,
        ..RunPlan::new(
            "test",
            IdRange {
                start: 0,
                end: 1000,
            },
        )
    }
}

/// A runtime whose time passes only while it has nothing else to do.
///
/// # Panics
/// When there is none to be had.
pub fn virtual_time() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default())
        .unwrap()
}

/// A request of which so many bytes were sent and received, without a first byte.
pub const fn in_flight(sent: Nanos, bytes_sent: u64, bytes_received: u64) -> InFlight {
    InFlight {
        sent,
        first_byte: None,
        bytes_sent,
        bytes_received,
    }
}

/// A request sent at an instant and answered with status 200.
pub fn attempt_of(sent: Nanos, done: Nanos, outcome: Outcome) -> Attempt {
    Attempt {
        sent: Some(sent),
        first_byte: None,
        done,
        bytes_sent: 0,
        bytes_received: 0,
        status: Some(200),
        outcome,
        advice: Advice::default(),
    }
}

/// The first attempt at item 0, let through when it was intended.
pub const fn permit_at(at: Nanos) -> Permit {
    Permit {
        id: 0,
        attempt: 0,
        tries: Tries::NONE,
        host: 0,
        first_intended: at,
        intended: at,
        ready: at,
        admitted: at,
    }
}

/// Bounds for a timeout of a second.
pub fn bounds() -> Bounds {
    Bounds::for_timeout(Duration::from_secs(1))
}

/// A `/proc` with such files, which lasts as long as the directory.
///
/// # Panics
/// When they cannot be written.
pub fn proc_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Proc) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let proc = Proc::in_directory(directory.path());
    (directory, proc)
}

/// A good response with its traits.
#[derive(Debug, Clone, Default)]
pub struct TraitResponse {
    /// Its time, µs.
    pub us: u64,
    /// Scheduled time.
    pub at: Nanos,
    /// Number of its request on the connection.
    pub nth: u64,
    /// True if the first of a connection had a TLS handshake.
    pub is_tls: bool,
    /// Its status.
    pub status: u16,
    /// Length of its body.
    pub body_bytes: u64,
    /// Retransmissions, if its connection was read.
    pub retransmits: Option<u32>,
    /// Number of the value of its header `x-cache`.
    pub header: u8,
    /// Number of its host.
    pub host: u32,
    /// Number of its URL template.
    pub template: u32,
    /// Number of its source address.
    pub source: u32,
}

/// Count responses of a shard, as its engine does, of a crawl of so many hosts, templates and
/// addresses each.
pub fn count_traits(outcome: &mut ShardOutcome, responses: &[TraitResponse], groups: u32) {
    let mut counter = TraitCounter::new(1, 0);
    let [mut hosts, mut templates, mut sources] = [(); 3].map(|()| Groups::new(groups));
    for response in responses {
        let reading = response.retransmits.map(|retransmits| TcpReading {
            retransmits,
            ..TcpReading::default()
        });
        let mut traits = ResponseTraits {
            body_bytes: Some(response.body_bytes),
            ..ResponseTraits::default()
        };
        traits.values[0] = response.header;
        let weight = counter.weight(response.us);
        let sample = TraitSample {
            us: response.us,
            intended: response.at,
            nth: Nth::of(Some(response.nth), || response.is_tls),
            status: Some(response.status),
            response: traits,
            reading: reading.as_ref(),
        };
        counter.record(&sample, weight);
        let attempt = attempt_of(response.at, response.at, Outcome::Ok);
        let took = Some(GroupTimes {
            waited_ns: response.us * 1_000,
            service_ns: None,
        });
        hosts.record(&attempt, false, took, || response.host);
        templates.record(&attempt, false, took, || response.template);
        sources.record(&attempt, false, took, || response.source);
    }
    let names = ["x-cache".to_owned()];
    outcome.traits = counter.named(&names, |_, number| number.to_string());
    (outcome.hosts, outcome.templates, outcome.sources) = (hosts, templates, sources);
}
