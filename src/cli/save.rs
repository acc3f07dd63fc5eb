//! Flags of `run` that save what is crawled, and go on with a saved crawl.

use std::path::PathBuf;

use clap::Args;

use super::whole;
use crate::dataset::manifest::{Bodies, Durability, Fields};
use crate::dataset::recover::Retry;

const SAVE: &str = "\
Save what is crawled to DIR: a JSON line for each item

DIR holds a file per shard and session, in JSON lines compressed with zstd,
which zstdcat, DuckDB, Polars and pandas read as they are:

  duckdb -c \"SELECT outcome, count(*) FROM 'DIR/*.jsonl.zst'
      GROUP BY 1\"

Items are committed each second. A crawl that was stopped or killed goes on
with --resume DIR, which requests the items that are not finished: not good, not
found or forbidden by robots.txt. An item that is throttled is retried until the
run ends: neither --retries nor --retry-budget counts that (--retries 0 turns it
off). A shard whose disk is slow waits, and the report says so.

  crawlmark run 'http://127.0.0.1:8080/items/{id}' --ids 0..1m \\
      --save items";

const RESUME: &str = "\
Go on with the crawl in DIR, with the flags that began it

Items that failed, or were throttled until the end, are requested again: --retry
says which. Their new records take the place of the old ones.

Other flags take the place of the old ones. What is requested and what is saved
cannot change: the URL, the IDs, their order, and the --save flags. Secrets are
not saved: give headers, bodies and passwords again.

  crawlmark run --resume items --rate 500";

const FIELDS: &str = "\
Save these fields only: id,status,outcome,body,...

id, url (where it is not the URL with the ID), status, outcome, attempts, at
(when the last request was sent), latency_us (its service time),
content_type, digest (the first 128 bits of the SHA-256 of the body as it is
saved), body. The id and the outcome are always saved.

body is JSON where the response is JSON, with line breaks as spaces; else text;
else base64, with body_encoding. body_bytes is the length of a body that was
longer than --max-body.";

/// Saving, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Saving")]
pub struct SaveArgs {
    /// Save what is crawled to DIR: a JSON line for each item
    #[arg(long, value_name = "DIR", long_help = SAVE, conflicts_with = "resume")]
    pub save: Option<PathBuf>,
    /// Go on with the crawl in DIR, with the flags that began it
    #[arg(long, value_name = "DIR", long_help = RESUME)]
    pub resume: Option<PathBuf>,
    /// Items of earlier sessions to request again [default: all]
    #[arg(
        long,
        value_name = "failed|abandoned|all|none",
        value_enum,
        hide_possible_values = true,
        requires = "resume"
    )]
    pub retry: Option<Retry>,
    /// Save these fields only: id,status,outcome,body,...
    #[arg(long, value_name = "LIST", long_help = FIELDS, requires = "save", conflicts_with = "resume")]
    pub save_fields: Option<Fields>,
    /// Save the bodies of good responses, of all, or none [default: good]
    #[arg(
        long,
        value_name = "good|all|none",
        value_enum,
        hide_possible_values = true,
        requires = "save",
        conflicts_with = "resume"
    )]
    pub save_bodies: Option<Bodies>,
    /// Save at most BYTES of a body [default: 1m]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(1..=16_000_000), requires = "save", conflicts_with = "resume")]
    pub max_body: Option<u64>,
    /// Lose no committed item to a killed process, or to a power cut
    ///
    /// power (the default) waits for the disk at each commit. With process, a machine that loses
    /// power may lose committed items.
    #[arg(
        long,
        value_name = "process|power",
        value_enum,
        hide_possible_values = true,
        requires = "save",
        conflicts_with = "resume"
    )]
    pub durability: Option<Durability>,
}
