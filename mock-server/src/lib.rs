//! A target worth crawling: a small, fast HTTP server whose responses can be checked, whose delays,
//! limits and faults are seeded and exact, and whose ledger counts what a client really did.
//!
//! A crawl benchmark starts it as processes of its own and compares its client's counts with the
//! target's [`Ledger`]. The client may also use [`items`] to check bodies, [`Latency::hold`] to
//! know the time that it should have measured, and [`Faults::pick`] to know which requests should
//! have failed: all three are pure functions of the seed, the ID and the number of earlier requests
//! for it.
//!
//! This crate must not know who drives it: it has no part in measuring, and it serves any HTTP
//! client alike. It prints nothing.
//!
//! # Within a test
//!
//! [`serve`] starts it on a thread and returns a [`Handle`]; dropping that stops it. The example
//! there runs.
//!
//! # As processes
//!
//! A benchmark wants several processes behind one port, forked before any thread exists:
//!
//! ```no_run
//! use crawlmark_mock_server::{Config, Shared, listeners, run_process};
//! use std::num::NonZeroUsize;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config { seed: 1, latency: "lognormal:20ms,0.4".parse()?, ..Config::default() };
//! let shared = Shared::new()?;
//! for listener in listeners("127.0.0.1:8080".parse()?, NonZeroUsize::MIN)? {
//!     // With more than one listener: fork here, once per listener, and let each process drop the others'.
//!     run_process(listener, &config, &shared)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Any path is an item, above all `GET /items/{id}`. `GET /__admin/ledger` returns the ledger of
//! all processes, `POST /__admin/ledger/reset` zeroes it, `GET /__admin/health` responds once the
//! target serves.
//!
//! # Map
//!
//! A module imports only from those above it (`harness/tests/tree.rs` checks that).
//!
//! | module | for |
//! |---|---|
//! | [`clock`] | the only source of time |
//! | `draw`, `text` | seeded draws; reading of settings, and their errors |
//! | [`items`] | IDs of paths, and bodies of IDs |
//! | [`latency`] | time for which each response is held |
//! | [`slowdown`] | stalls, delays of connections, workers, CPU cost of an item |
//! | [`connections`] | requests and bandwidth of a connection; connections that are accepted |
//! | [`limit`] | limits: algorithms, keys, refusals |
//! | [`fault`] | faults of responses |
//! | [`stubs`] | responses from WireMock's files |
//! | [`recording`] | responses of another service and their times, as stubs |
//! | [`tls`] | the certificate; HTTP versions |
//! | [`events`] | streams of events |
//! | [`config`] | all of the above in one description |
//! | [`profile`] | such descriptions by name |
//! | [`shared`] | memory that all processes share: counters, IDs, limiter |
//! | [`ledger`] | the ledger: recording and reading |
//! | [`listen`] | one port, one socket per process |
//! | `timer` | waiting until an instant, to the microsecond |
//! | [`server`] | connections and responses, until it is stopped |
//! | [`handle`] | the same on a thread, for other programs' tests |

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the target relies on Linux: shared anonymous memory that can be discarded, and SO_REUSEPORT that balances"
);

pub mod clock;
pub mod config;
pub mod connections;
mod draw;
pub mod events;
pub mod fault;
pub mod handle;
pub mod items;
pub mod latency;
pub mod ledger;
pub mod limit;
pub mod listen;
pub mod profile;
pub mod recording;
pub mod server;
pub mod shared;
pub mod slowdown;
pub mod stubs;
mod text;
mod timer;
pub mod tls;

pub use clock::Clock;
pub use config::{Config, Journal, Unmatched, WriteFile};
pub use connections::{Accept, Bandwidth, KeepAlive};
pub use events::Events;
pub use fault::{Fault, Faults};
pub use handle::{Handle, serve};
pub use items::ItemPath;
pub use latency::Latency;
pub use ledger::{Busiest, Ledger, LimitLedger, Times};
pub use limit::{Limit, Limits};
pub use listen::{ListenError, Sockets, listeners};
pub use profile::Profile;
pub use recording::{RECORDED, Recording, RecordingCounts};
pub use server::{ServeError, Upstream, record_process, run_process, run_until};
pub use shared::{Peaks, Shared, SharedError};
pub use slowdown::{AddedDelay, Stall, Work, Workers};
pub use stubs::{LoadError, Mappings, OnUnsupported};
pub use text::SettingError;
pub use tls::{Http, Tls, TlsError};
