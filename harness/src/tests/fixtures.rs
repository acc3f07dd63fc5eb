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
use crate::sample::{Advice, Attempt, InFlight, Outcome, Permit, Tries};
use crate::stats::Bounds;
use crate::units::IdRange;

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
