//! A target worth crawling: a small, fast HTTP server whose answers can be checked, whose delays, limits and faults are
//! seeded and exact, and whose ledger tells what a client really did.
//!
//! A crawl benchmark starts it as processes of its own and believes nothing that its client claims until the target's
//! [`Ledger`] says the same. The client may also use [`items`] to check bodies, [`Latency::hold`] to know what it should
//! have measured, and [`Faults::pick`] to know what should have failed: all three are
//! pure functions of what was asked and how often.
//!
//! This crate must not know who drives it: it has no part in measuring, and it serves any HTTP client alike. It prints
//! nothing.
//!
//! # Within a test
//!
//! [`serve`] starts it on a thread and returns a [`Handle`]; dropping that stops it. The example there runs.
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
//! Any path is an item, above all `GET /items/{id}`. `GET /__admin/ledger` answers with the ledger of all processes,
//! `POST /__admin/ledger/reset` zeroes them, `GET /__admin/health` says that the target serves.
//!
//! # Map
//!
//! A module imports only from those above it (`harness/tests/words.rs` checks that).
//!
//! | module | for |
//! |---|---|
//! | [`clock`] | the one place where time enters |
//! | `draw`, `setting` | seeded draws; what all settings have in common as text |
//! | [`items`] | paths to ids, ids to bodies |
//! | [`latency`] | how long an answer is held back |
//! | [`stall`] | when nothing is answered |
//! | [`work`] | what an item's answer costs in CPU |
//! | [`proxy`] | for whom to forward, from where and how far |
//! | [`limit`] | how many requests are let through, of whom, and what the others are told |
//! | [`fault`] | which answers go wrong |
//! | [`stubs`] | which request gets which answer, from WireMock's files |
//! | [`http`], [`tls`] | which versions connections speak; the certificate they show |
//! | [`config`] | all of the above in one description |
//! | [`profile`] | such descriptions by name |
//! | [`shared`] | the memory of all processes: counters, ids, limiter |
//! | [`ledger`] | the ledger: recording and reading |
//! | `limiter` | asking all limits about a request |
//! | [`listen`] | one port, one socket per process |
//! | `timer` | waiting until an instant, to the microsecond |
//! | [`server`] | connections in, answers out, until told to stop |
//! | [`handle`] | the same on a thread, for other programs' tests |

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the target relies on Linux: shared anonymous memory that can be discarded, and SO_REUSEPORT that balances"
);

pub mod clock;
pub mod config;
mod draw;
pub mod fault;
pub mod handle;
pub mod http;
pub mod items;
pub mod latency;
pub mod ledger;
pub mod limit;
mod limiter;
pub mod listen;
pub mod profile;
pub mod proxy;
pub mod server;
mod setting;
pub mod shared;
pub mod stall;
pub mod stubs;
mod timer;
pub mod tls;
pub mod work;

pub use clock::Clock;
pub use config::{Config, Journal, Unmatched};
pub use fault::{Fault, Faults, Rate};
pub use handle::{Handle, serve};
pub use http::Http;
pub use items::ItemPath;
pub use latency::{Handshake, Latency, PerInFlight};
pub use ledger::{Busiest, Ledger, LedgerWriter, LimitLedger, Peaks, ProxyLedger, Times};
pub use limit::{Limit, Limits};
pub use listen::{ListenError, listeners};
pub use profile::Profile;
pub use proxy::{Credentials, Exits, Proxy, Reach};
pub use server::{ServeError, run_process, run_until, serve_until};
pub use setting::SettingError;
pub use shared::{Shared, SharedError};
pub use stall::Stall;
pub use stubs::{LoadError, Mappings, OnUnsupported};
pub use tls::{Tls, TlsError};
pub use work::Work;
