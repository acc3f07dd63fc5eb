//! The engine behind crawlmark: it forks shards, paces them, measures what they do and merges the
//! measurements.
//!
//! The crate covers processes, pipes, pacing and statistics, but not HTTP, command lines, reports
//! or what a *workload* does with an ID. A run flows through eight nouns in this order (the two
//! plans share a file; the last two are in the crate `crawlmark-results`):
//!
//! ```text
//! RunPlan -> ShardPlan -> Pacer -> Workload -> Sample -> ShardStats -> Report -> Verdict
//! ```
//!
//! Implement [`Workload`](workload::Workload) to measure something other than a crawl.
//! `examples/memcached.rs` does, and gets its report, validity checks, thresholds and page from
//! `crawlmark-results`.
//!
//! A module imports only from those above it (`tests/tree.rs` checks that).
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | what people type: ID ranges, counts, rates, durations; how they read numbers |
//! | [`files`] | files below directories that others may write to |
//! | [`text_file`] | text files of others: byte order marks, encodings, line ends |
//! | [`clock`] | the one source of time: nanoseconds since the run's epoch |
//! | [`machine`] | what the machine says about itself: its counters, how fast its CPU is |
//! | [`profile`] | functions of other processes that use the CPU |
//! | [`target_usage`] | the target's processes: their CPU time, waits, throttling, memory, accept queue |
//! | [`plan`] | `RunPlan`, `ShardPlan` and the split laws |
//! | [`trace`] | trace ids of requests, made of a run, an ID and an attempt, and read back |
//! | [`pacer`] | when the next request may go, and the audit of when it went |
//! | [`sample`] | one attempt: its timestamps, its progress, its outcome |
//! | [`adaptive`] | find the concurrency and pace that a target sustains |
//! | [`stats`] | counters and fixed-bound histograms that merge exactly |
//! | [`wire`] | the frames that cross the pipes |
//! | [`workload`] | the trait that a crawl implements |
//! | `chance` | draws of a rehearsal from its seed, for tests (feature `virtual-time`) |
//! | [`process`] | fork, pin, wait: the only `unsafe` of this crate |
//! | [`shard`] | a shard's life inside its own process |
//! | [`supervisor`] | the poll loop that owns the shards |
//! | `fixtures` | a plan, attempts, bounds and readings of a machine for tests (feature `virtual-time`) |
//! | `rehearse` | whole runs in virtual time, for tests (feature `virtual-time`) |

pub mod adaptive;
#[cfg(feature = "virtual-time")]
#[path = "tests/chance.rs"]
pub mod chance;
pub mod clock;
pub mod files;
#[cfg(any(test, feature = "virtual-time"))]
#[path = "tests/fixtures.rs"]
pub mod fixtures;
pub mod machine;
pub mod pacer;
pub mod plan;
pub mod process;
pub mod profile;
#[cfg(feature = "virtual-time")]
#[path = "tests/rehearse/rehearse.rs"]
pub mod rehearse;
pub mod sample;
pub mod shard;
pub mod stats;
pub mod supervisor;
pub mod target_usage;
pub mod text_file;
pub mod trace;
pub mod units;
pub mod wire;
pub mod workload;
