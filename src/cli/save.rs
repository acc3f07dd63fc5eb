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
    /// DIR gets a file for each shard and session: JSON lines, compressed with zstd. zstdcat,
    /// DuckDB, Polars and pandas read these files as they are:
    ///
    ///   duckdb -c "SELECT outcome, count(*) FROM 'DIR/*.jsonl.zst'
    ///       GROUP BY 1"
    ///
    /// Items are committed each second. To continue a crawl that was stopped or killed, use
    /// --resume DIR. It requests all items that are not finished. Finished items are good,
    /// not found or forbidden by robots.txt. A throttled item is retried until the run ends,
    /// regardless of --retries and --retry-budget. (--retries 0 turns these retries off.)
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
    /// Continue the crawl in DIR, with its original flags
    ///
    /// Items that failed, or were throttled until the end, are requested again (to select
    /// some of them, use --retry). Their new records replace the old ones.
    ///
    /// Flags that you give replace the original ones. You cannot change what is requested
    /// and what is saved: the URL, the IDs, their order, headers, body, the requests of a
    /// file, and the --save flags. DIR may come from another person. From DIR, crawlmark
    /// therefore takes none of these: secrets, commands, names of files and variables,
    /// proxies. If the crawl used --header, --urls, --proxy or similar flags, give them
    /// and the URL again. You may give other secrets than before.
    ///
    ///   crawlmark run --resume items --rate 500
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub resume: Option<PathBuf>,
    /// Request each item of the crawl in DIR again, and fetch what changed
    ///
    /// Each item is requested once more. The request has the ETag and the Last-Modified
    /// of the item's record (as If-None-Match and If-Modified-Since). If the target
    /// answers 304, it sends no body: the item is good and counts as not_modified, and
    /// its record stays valid. If the target answers otherwise and the item ends as good
    /// or not found, the new record replaces the old one. If the item fails, or
    /// robots.txt now forbids it, the old record stays valid.
    ///
    /// The flags are those of --resume, except --retry. If a refresh was stopped, --resume
    /// continues it. A refresh needs GET requests, and items of one request each.
    ///
    ///   crawlmark run --refresh items --rate 50
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "resume"], verbatim_doc_comment)]
    pub refresh: Option<PathBuf>,
    /// Items of earlier sessions that are requested again [default: all]
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
    /// The fields are id, url (only if it is not the URL with the ID), status, outcome,
    /// attempts, at (when the last request was sent), latency_us (its service time),
    /// content_type, etag, last_modified, digest (the first 128 bits of the SHA-256 of the
    /// saved body) and body. The id and the outcome are always saved. If items have several
    /// requests, step and page are always saved, too.
    ///
    /// If the response is JSON, body is JSON, with line breaks replaced by spaces. Otherwise,
    /// body is text, or base64 with body_encoding. If a body was longer than --max-body,
    /// body_bytes is its length.
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
    /// Make committed items survive a killed process, or also a power cut
    ///
    /// With power (the default), each commit waits for the disk. With process, committed items may
    /// be lost if the machine loses power.
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
    /// MODE is an octal number, from which the umask removes permissions. Anyone who may read the
    /// files may enter their directory. The mode is not taken from a plan or a saved crawl, so give
    /// it again. Example: --mode 640
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
    /// The plan contains the flags of the crawl. From the plan, crawlmark takes none of
    /// these: secrets, commands, names of files and variables, proxies. (A --urls file in
    /// the plan's directory is an exception.) If the crawl used --header, --proxy or
    /// similar flags, give them and the URL again, as `crawlmark plan` prints. Each task
    /// of a job array runs the same command:
    ///
    ///   crawlmark run --plan plan.json --node auto --into crawl
    ///
    /// The part waits for one of the plan's slots, and crawls its IDs with the slot's
    /// share of the rate and of the connections. Then it publishes its result in DIR, and
    /// `crawlmark merge DIR` adds up the results. You may run a lost part again, because
    /// only one attempt at each part counts. With --save, the new attempt continues after
    /// the records of the lost one.
    ///
    /// An attempt (a process that crawls the part) needs a lease to use its slot. Without the
    /// lease, it sends nothing. So the rate is never exceeded, even if tasks are stopped,
    /// lost or run again.
    ///
    /// Exit codes, for schedulers:
    ///   0        the part has a result, from this attempt or another one. Do not
    ///            retry an invalid measurement: --strict and thresholds are for merge
    ///   2        the command or the plan is wrong: do not retry
    ///   1        the part has no result: run it again
    ///   130 143  stopped by a signal (137: killed): run it again
    #[arg(long, value_name = "FILE", requires_all = ["node", "into"], conflicts_with_all = ["resume", "refresh", "out"], verbatim_doc_comment)]
    pub plan: Option<PathBuf>,
    /// Part to crawl: i/N (i counts from 0), or auto in a scheduler's task
    ///
    /// auto reads SLURM_ARRAY_TASK_ID (with _MIN, _STEP and _COUNT), HQ_TASK_ID of HyperQueue
    /// or JOB_COMPLETION_INDEX of a Kubernetes Indexed Job. If several of these are set, they
    /// have to name the same part.
    #[arg(long, value_name = "i/N|auto", requires = "plan", verbatim_doc_comment)]
    pub node: Option<Node>,
    /// Directory that all parts share
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub into: Option<PathBuf>,
}
