//! Every way in which the program fails, and the exit code of each.

use std::io;
use std::path::{Path, PathBuf};

use crawlmark_harness::process::{ForkError, signal_in_words};
use crawlmark_harness::supervisor::SuperviseError;
use crawlmark_harness::target_usage::NotFound;
use crawlmark_mock_server::{ListenError, ServeError, SharedError, TlsError};
use crawlmark_results::import::ImportError;
use crawlmark_results::run::cut::CutError;
use crawlmark_results::run::parts::{MergeError, PlanFileError};
use crawlmark_results::run::result_dir::{ReadError, ResultDir, ResultError};
use crawlmark_results::show::plot::PngError;
use crawlmark_results::studies::compare::DesignError;

use crate::cluster::slots::SlotsError;
use crate::dataset::disk::DiskError;
use crate::dataset::export::CrawlExportError;
use crate::dataset::manifest::ManifestError;
use crate::dataset::saved::SavedError;

/// Reason why a build has no HTTP/3, and the remedy.
pub(crate) const WITHOUT_HTTP_3: &str = "--http 3: this build does not speak HTTP/3: install one with `cargo install --path . --locked --features http3`";

/// Done, and every gate passed.
pub(crate) const DONE: u8 = 0;
/// The run could not start or complete.
pub(crate) const FAILED: u8 = 1;
/// The command line makes no sense.
pub(crate) const USAGE: u8 = 2;
/// A gate or a comparison failed.
pub(crate) const GATE: u8 = 3;
/// Exit code of a failed gate with `--k6-exit-codes`, as k6 has it.
pub(crate) const K6_GATE: u8 = 99;
/// The measurement is invalid: a shard died, or `--strict` and not valid.
pub(crate) const INVALID: u8 = 4;
/// Nothing failed, and something could not be judged: a gate had too few samples, or the machine was
/// disturbed.
pub(crate) const INCONCLUSIVE: u8 = 5;
/// The shells' convention: 128 and the signal's number, so 130 for SIGINT and 143 for SIGTERM.
pub(crate) const SIGNALLED: u8 = 128;

/// Reason why a command failed. Messages read after "failed to", except those of usage, which stand
/// for themselves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is nothing to do; the sentence says why. No failure.
    #[error("{0}")]
    Needless(String),
    /// Invalid command line; the message names the flag.
    #[error("{0}")]
    Usage(String),
    /// A host name has no address.
    #[error("find an address for `{host}`: {error}. Check the spelling, or write its address")]
    Resolve {
        /// The name.
        host: String,
        /// Error of the resolver.
        error: io::Error,
    },
    /// A target or a proxy cannot be connected to.
    #[error("connect to {to}: {error}. Start it, or check {check}")]
    Connect {
        /// Name and address, without credentials.
        to: String,
        /// Error of the system.
        error: io::Error,
        /// Flag or variables that name it.
        check: String,
    },
    /// No host of several can be crawled.
    #[error("reach any of the {} hosts: {}. Start the targets, or check --urls", .0.len(), Self::causes(.0))]
    NoHost(Vec<Error>),
    /// The bundled target's memory.
    #[error("start the bundled target: {0}")]
    Shared(#[from] SharedError),
    /// The bundled target's socket.
    #[error("start the bundled target: {0}")]
    Listen(#[from] ListenError),
    /// The bundled target's certificate.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The bundled target.
    #[error("{0}")]
    Serve(#[from] ServeError),
    /// Git failed; what it said.
    #[error("read the Git repository: {0}")]
    Git(String),
    /// A process.
    #[error("{0}")]
    Fork(#[from] ForkError),
    /// A signal could not be awaited.
    #[error("wait for a signal: {0}")]
    Signal(nix::errno::Errno),
    /// The run.
    #[error("{0}")]
    Supervise(#[from] SuperviseError),
    /// robots.txt of a host cannot be fetched.
    #[error(
        "fetch robots.txt of {host}: {}. Nothing of it may be crawled until it can be (RFC 9309): try again later, or use --robots ignore if \
         you are allowed to", status.map_or_else(|| "no response, or a redirect that is not followed".to_owned(), |status| format!("status {status}"))
    )]
    Robots {
        /// Scheme, name and port.
        host: String,
        /// Status of its response; none without one.
        status: Option<u16>,
    },
    /// A signal ended a run before its first item, or the wait of a part for its slot.
    #[error("begin the run: stopped by {}", signal_in_words(*.0))]
    StoppedBeforeRun(i32),
    /// A signal ended a command of several rounds.
    #[error("complete the rounds: stopped by {}", signal_in_words(*.0))]
    Stopped(i32),
    /// A part has no result yet.
    #[error("finish part {part}/{of}: {why}. Run it again")]
    PartUnfinished {
        /// Its number.
        part: u32,
        /// Number of parts.
        of: u32,
        /// Reason, in words that follow its number.
        why: &'static str,
    },
    /// No slot can be taken.
    #[error("{0}")]
    Slots(#[from] SlotsError),
    /// Failed after something was measured.
    #[error("{error}. Measurements made before that are kept in {}", place.display())]
    Kept {
        /// Cause.
        error: Box<Error>,
        /// The directory of what was measured.
        place: PathBuf,
    },
    /// The result's place.
    #[error("{0}")]
    Result(#[from] ResultError),
    /// A plot cannot be drawn.
    #[error("{0}")]
    Png(#[from] PngError),
    /// A saved result cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A part of a result cannot be cut out.
    #[error("{0}")]
    Cut(#[from] CutError),
    /// A result of another tool, or a history, cannot be read.
    #[error("{0}")]
    Import(#[from] ImportError),
    /// A history cannot be written.
    #[error("write {path}: {error}. Check that its directory exists and can be written to")]
    History {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A directory holds no saved crawl.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// A file is no plan of a crawl in parts.
    #[error("{0}")]
    Plan(#[from] PlanFileError),
    /// Parts cannot be merged.
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// A saved crawl cannot go on.
    #[error("resume the crawl: {0}")]
    Recover(#[from] DiskError),
    /// A saved crawl cannot be read.
    #[error("{0}")]
    Saved(#[from] SavedError),
    /// A saved crawl cannot be exported.
    #[error("{0}")]
    CrawlExport(#[from] CrawlExportError),
    /// There is no target to sample.
    #[error("find the target: {0}")]
    NoTarget(#[from] NotFound),
    /// A round of a comparison gave nothing to compare.
    #[error("{0}")]
    Round(String),
    /// Rounds cannot be compared.
    #[error("{0}")]
    Design(#[from] DesignError),
    /// A bundled target's process ended by itself.
    #[error("keep the bundled target running: its process {pid} {how}")]
    TargetLost {
        /// Process ID.
        pid: i32,
        /// End of the process, in words that follow its ID.
        how: String,
    },
    /// The report is no JSON.
    #[error("print the report: {0}")]
    Json(#[from] serde_json::Error),
    /// Standard output is gone.
    #[error("print: {0}")]
    Output(io::Error),
    /// The system does not say which program this is.
    #[error("find the file of this program: {0}")]
    Program(io::Error),
    /// A file of a crawl in parts cannot be read.
    #[error("read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A target's command has no port to listen on.
    #[error("find a free port for the target: {0}")]
    Port(io::Error),
}

impl Error {
    /// The error of a command line that makes no sense; the message names the flag.
    pub(crate) fn usage(why: impl std::fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// The error of a run that can reach none of its hosts, of what each one failed with.
    pub(crate) fn no_host(mut errors: Vec<Self>) -> Self {
        match (errors.pop(), errors.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                errors.extend(last);
                Self::NoHost(errors)
            }
        }
    }

    /// The first of some errors, without their remedies, and how many more there are.
    pub(crate) fn causes(errors: &[Self]) -> String {
        const SHOWN: usize = 3;
        let shown = errors.iter().take(SHOWN).map(|error| match error {
            Self::Connect { to, error, .. } => format!("{to} ({error})"),
            Self::Resolve { host, error } => format!("{host} (no address: {error})"),
            other => other.to_string(),
        });
        let more = match errors.len().saturating_sub(SHOWN) {
            0 => None,
            count => Some(format!("and {count} more")),
        };
        shown.chain(more).collect::<Vec<_>>().join("; ")
    }

    /// The error of a file or directory that cannot be written.
    pub(crate) fn unwritable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| {
            ResultError::Io {
                path: path.to_owned(),
                error,
            }
            .into()
        }
    }

    /// Add the directory to the error if it holds measurements.
    pub(crate) fn keeping(self, directory: ResultDir) -> Self {
        match directory.leave() {
            Some(place) => Self::Kept {
                error: Box::new(self),
                place,
            },
            None => self,
        }
    }

    /// The whole message.
    pub(crate) fn message(&self) -> String {
        if self.exit_code() == USAGE {
            format!("error: {self}")
        } else {
            format!("error: failed to {self}")
        }
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Needless(_) => DONE,
            Self::Usage(_)
            | Self::Read(_)
            | Self::Cut(_)
            | Self::Import(_)
            | Self::Manifest(_)
            | Self::Plan(_)
            | Self::Merge(MergeError::Plan(_))
            | Self::Saved(_)
            | Self::Design(_)
            | Self::Result(
                ResultError::Exists(_) | ResultError::NoName(_) | ResultError::InUse { .. },
            ) => USAGE,
            Self::Stopped(signal) | Self::StoppedBeforeRun(signal) => signalled(*signal),
            Self::Kept { error, .. } => error.exit_code(),
            _ => FAILED,
        }
    }
}

/// The exit code after a signal.
pub(crate) fn signalled(signal: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
}
