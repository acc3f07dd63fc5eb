//! The saved crawl (`--save DIR`): one record per item that ended, safe at every instant.
//!
//! Each process life of a shard writes one segment: JSON lines in independent zstd frames, which
//! `zstdcat`, `DuckDB`, Polars and pandas read as they lie there. A checkpoint beside it says which
//! items are in it. Requests are at-least-once, records exactly-once: an item that was in flight,
//! waiting for a retry or not committed is crawled again, so no checkpoint holds a queue.
//!
//! | room | for |
//! |---|---|
//! | [`manifest`] | `crawl.json`: what a saved crawl is |
//! | [`segment`] | segments: names, header, frames, seek table |
//! | [`finished`] | sets of items as ranges |
//! | [`checkpoint`] | items and counts of a segment that are committed |
//! | [`batch`], [`mod@line`] | items that ended, and their JSON lines |
//! | [`disk`] | operations on files, and their errors |
//! | [`log`] | a segment and its checkpoint, as they are written |
//! | [`writer`] | the thread that writes, and the shard's end of it |
//! | [`session`] | one run that adds to a crawl; figures of all sessions |
//! | [`recover`] | back to what is committed, after a crash or to go on |
//! | `record`, `saved` | reading: a record from its line; the files of a crawl |
//! | `inherit` | copy of what another process has committed |
//! | `parts` | saved crawls of a crawl on several machines |
//! | `verify` | audit of a crawl |
//! | `export` | a crawl as JSON lines, CSV, Parquet or WARC |
//! | `laws` | laws of reading any bytes, for fuzzing and tests |

pub mod batch;
pub mod checkpoint;
pub mod disk;
pub(crate) mod export;
pub mod finished;
pub(crate) mod inherit;
#[cfg(any(test, fuzzing))]
pub mod laws;
pub mod line;
pub mod log;
pub mod manifest;
pub(crate) mod parts;
pub(crate) mod record;
pub mod recover;
pub(crate) mod saved;
pub mod segment;
pub mod session;
pub(crate) mod verify;
pub mod writer;
