//! The saved crawl (`--save DIR`): one record per item that ended, and those of its responses before
//! the last that it is to keep, safe at every instant.
//!
//! Each process life of a shard writes one segment: JSON lines in independent zstd frames, which
//! `zstdcat`, `DuckDB`, Polars and pandas read as they lie there. An index before each frame says
//! which items are in it. Requests are at-least-once, records exactly-once: an item that was in
//! flight, waiting for a retry or not written is crawled again, so no file holds a queue.
//!
//! | room | for |
//! |---|---|
//! | [`manifest`] | `crawl.json`: what a saved crawl is |
//! | [`segment`] | segments: names, header, frames and their indexes |
//! | [`item_set`], [`records`] | sets of items as ranges; items and counts of records |
//! | [`batch`], [`mod@line`] | items that ended, and their JSON lines |
//! | [`disk`] | operations on files, and their errors |
//! | [`log`] | a segment, as it is written |
//! | [`writer`] | the thread that writes, and the shard's end of it |
//! | [`session`] | one run that adds to a crawl; figures of all sessions |
//! | [`recover`] | back to the whole frames, after a crash or to go on |
//! | `record`, `saved` | reading: a record from its line; the files of a crawl |
//! | `inherit` | copy of what another process has written |
//! | `parts` | saved crawls of a crawl on several machines |
//! | `verify` | audit of a crawl |
//! | `export` | the records of a crawl that count, as JSON lines |
//! | [`known`] | validators of these records, by which items are asked for again |
//! | `laws` | laws of reading any bytes, for fuzzing and tests |

pub mod batch;
pub mod disk;
pub(crate) mod export;
pub(crate) mod inherit;
pub mod item_set;
pub mod known;
#[cfg(any(test, fuzzing))]
#[path = "dataset/tests/laws.rs"]
pub mod laws;
pub mod line;
pub mod log;
pub mod manifest;
pub(crate) mod parts;
pub(crate) mod record;
pub mod records;
pub mod recover;
pub(crate) mod saved;
pub mod segment;
pub mod session;
pub(crate) mod verify;
pub mod writer;
