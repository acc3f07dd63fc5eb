//! The engine behind crawlmark: it forks shards, paces them, measures what they do and merges the measurements.
//!
//! It knows processes, pipes, pacing, statistics and reports; it knows nothing of HTTP, of command lines or of what a
//! *workload* does with an ID. A run flows through eight nouns, one file each, in this order:
//!
//! ```text
//! RunPlan -> ShardPlan -> Pacer -> Workload -> Sample -> ShardStats -> Report -> Verdict
//! ```
//!
//! The modules below are listed in the order in which they may import each other: each knows only those above it.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | what people type: ID ranges, counts, rates, durations; how they read numbers |
//! | [`clock`] | the one source of time: nanoseconds since the run's epoch |
//! | [`machine`] | what the machine says about itself: its counters, how fast its CPU is |
//! | [`plan`] | `RunPlan`, `ShardPlan` and the split laws |
//! | [`pacer`] | when the next request may go, and the audit of when it went |
//! | [`sample`] | one attempt: its timestamps, its outcome |
//! | [`adaptive`] | find the concurrency and pace that a target sustains |
//! | [`stats`] | counters and fixed-bound histograms that merge exactly |
//! | [`wire`] | the frames that cross the pipes |
//! | [`workload`] | the trait that a crawl implements |
//! | [`process`] | fork, pin, wait: the only `unsafe` of this crate |
//! | [`shard`] | a shard's life inside its own process |
//! | [`supervisor`] | the poll loop that owns the shards |
//! | [`report`] | the merged result, as it is saved |
//! | [`gates`] | what must hold of a run, and whether it does |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`recut`] | a part of a saved run, measured again |
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`scaling`] | rounds of several sizes, and how throughput grows with them |
//! | [`ladder`] | the climb from 6 to 10,000 requests a second and on, beside what was published |
//! | [`render`] | the report as text for people |
//! | [`plot`] | the report as pictures |
//! | [`page`] | the report as one page |
//! | [`export`] | the report in the formats of other tools |
//! | `rehearse` | whole runs in virtual time, for tests (feature `virtual-time`) |
//! | [`results`] | the directory that a report is saved in |

pub mod adaptive;
pub mod capacity;
pub mod clock;
pub mod compare;
pub mod export;
pub mod gates;
pub mod ladder;
pub mod machine;
pub mod pacer;
pub mod page;
pub mod plan;
pub mod plot;
pub mod process;
pub mod recut;
#[cfg(feature = "virtual-time")]
pub mod rehearse;
pub mod render;
pub mod report;
pub mod results;
pub mod sample;
pub mod scaling;
pub mod shard;
pub mod stats;
pub mod supervisor;
pub mod units;
pub mod wire;
pub mod workload;
