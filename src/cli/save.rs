//! Flags of `run` that save what is crawled, go on with a saved crawl, or crawl one part of a
//! crawl on several machines.

use std::path::PathBuf;

use clap::Args;

use super::whole;
use crate::cluster::node::Node;
use crate::dataset::manifest::{Bodies, Durability, Fields};
use crate::dataset::recover::Retry;

/// Saving, as typed.
#[derive(Debug, Clone, Args)]
pub struct SaveArgs {
    /// Save what is crawled to DIR: a JSON line for each item
    ///
    /// DIR holds a file per shard and session, in JSON lines compressed with zstd,
    /// which zstdcat, DuckDB, Polars and pandas read as they are:
    ///
    ///   duckdb -c "SELECT outcome, count(*) FROM 'DIR/*.jsonl.zst'
    ///       GROUP BY 1"
    ///
    /// Items are committed each second. A crawl that was stopped or killed goes on with
    /// --resume DIR. Items that are good, not found or forbidden by robots.txt are
    /// finished; it requests the others. A throttled item is retried until the run ends, beyond
    /// --retries and --retry-budget (--retries 0 turns it off).
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/items/{id}' --ids 0..1m \
    ///       --save items
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "resume",
        verbatim_doc_comment
    )]
    pub save: Option<PathBuf>,
    /// Go on with the crawl in DIR, with the flags that began it
    ///
    /// Items that failed, or were throttled until the end, are requested again: --retry
    /// says which. Their new records take the place of the old ones.
    ///
    /// Other flags take the place of the old ones. What is requested and what is saved
    /// cannot change: the URL, the IDs, their order, headers, body, the requests of a
    /// file, and the --save flags. Secrets (which may be renewed), commands, files,
    /// variables and proxies are not taken from DIR, which may be of somebody else: give
    /// --header, --urls, --proxy and the like again, and the URL with what is sent
    /// to it.
    ///
    ///   crawlmark run --resume items --rate 500
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub resume: Option<PathBuf>,
    /// Crawl the saved crawl in DIR again: fetch what has changed since
    ///
    /// Each item is requested once more, with the ETag and the Last-Modified of its record
    /// (If-None-Match, If-Modified-Since). A target that answers 304 sends no body: the item
    /// is good, counts as not_modified, and its record stays. Any other final answer takes
    /// the place of the record. An item that fails keeps it.
    ///
    /// Flags are those of --resume but for --retry. --resume goes on with a refresh that was
    /// stopped. It is for GET, and items of one request each.
    ///
    ///   crawlmark run --refresh items --rate 50
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "resume"], verbatim_doc_comment)]
    pub refresh: Option<PathBuf>,
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
    ///
    /// id, url (where it is not the URL with the ID), status, outcome, attempts, at
    /// (when the last request was sent), latency_us (its service time),
    /// content_type, etag, last_modified, digest (the first 128 bits of the SHA-256 of the
    /// body as it is saved), body. The id and the outcome are always saved, and step and
    /// page of items of several requests.
    ///
    /// body is JSON where the response is JSON, with line breaks as spaces; else text;
    /// else base64, with body_encoding. body_bytes is the length of a body that was
    /// longer than --max-body.
    #[arg(long, value_name = "LIST", requires = "save", verbatim_doc_comment)]
    pub save_fields: Option<Fields>,
    /// Save the bodies of good responses, of all, or none [default: good]
    #[arg(
        long,
        value_name = "good|all|none",
        value_enum,
        hide_possible_values = true,
        requires = "save"
    )]
    pub save_bodies: Option<Bodies>,
    /// Save at most BYTES of a body [default: 1m]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(1..=16_000_000), requires = "save")]
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
        requires = "save"
    )]
    pub durability: Option<Durability>,
    /// Permissions of saved files [default: 600, for you alone]
    ///
    /// An octal number, from which the umask takes away. Who may read the files may enter their
    /// directory. It is not taken from a plan or a saved crawl: give it again. Example: --mode 640
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<u32>,
}

impl SaveArgs {
    /// Return the saved crawl that is gone on with, and its flag.
    pub fn earlier(&self) -> Option<(&'static str, &PathBuf)> {
        let resumed = self.resume.as_ref().map(|place| ("--resume", place));
        resumed.or_else(|| self.refresh.as_ref().map(|place| ("--refresh", place)))
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| mode & 0o600 == 0o600 && mode & !0o666 == 0)
        .ok_or_else(|| format!("`{text}` is no mode of files that you can read and write: write 600, 640, 660, 644 or the like"))
}

/// Part of a crawl, as typed.
#[derive(Debug, Clone, Default, Args)]
pub struct PartArgs {
    /// Crawl one part of the plan that `crawlmark plan` made
    ///
    /// The plan holds the flags of the crawl. Secrets, commands, files, variables and
    /// proxies are not taken from it, but for a list (--urls) in its directory: give
    /// --header, --proxy and the like again, and the URL with what is sent to it, as
    /// `crawlmark plan` prints. Each task of a job array runs the same command:
    ///
    ///   crawlmark run --plan plan.json --node auto --into crawl
    ///
    /// The part waits for one of the plan's slots, crawls its IDs with the slot's share
    /// of the rate and of the connections, and publishes its result in DIR. `crawlmark
    /// merge DIR` adds up the results. A part that was lost may be run again: only one
    /// attempt at each part counts. With --save, the new attempt goes on from what the
    /// lost one had saved.
    ///
    /// An attempt holds its slot by a lease, without which it sends nothing, so that the
    /// rate is never exceeded, whatever is stopped, lost or run again.
    ///
    /// Exit codes, for schedulers:
    ///   0        the part has a result, of this attempt or of another one. Do not
    ///            retry an invalid measurement: --strict and thresholds are for merge
    ///   2        the command or the plan is wrong: do not retry
    ///   1        the part has no result: run it again
    ///   130 143  stopped by a signal (137: killed): run it again
    #[arg(long, value_name = "FILE", requires_all = ["node", "into"], conflicts_with_all = ["resume", "refresh", "out"], verbatim_doc_comment)]
    pub plan: Option<PathBuf>,
    /// Part to crawl: i/N, from 0/N, or auto for a scheduler's task
    ///
    /// auto reads SLURM_ARRAY_TASK_ID (with _MIN, _STEP and _COUNT), HQ_TASK_ID of HyperQueue
    /// or JOB_COMPLETION_INDEX of a Kubernetes Indexed Job. If several are set, they have
    /// to name the same part.
    #[arg(long, value_name = "i/N|auto", requires = "plan", verbatim_doc_comment)]
    pub node: Option<Node>,
    /// Directory that all parts share
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub into: Option<PathBuf>,
}
