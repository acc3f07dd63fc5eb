//! `--save`, `--resume` and `--refresh`: the directory of a saved crawl, its lock, and the checks of a session
//! that goes on with it.
//!
//! Called before anything is crawled. What shards write there is the room of [`crate::dataset`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::rc::Rc;

use crawlmark_harness::clock::wall_time;
use crawlmark_harness::files::{PARTIAL, PRIVATE, Root};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::{FileCounters, usable_cpus};
use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::PlanFile;
use crawlmark_results::run::report::{SavedReport, config_hash};
use crawlmark_results::show::text::shell_word;
use crawlmark_results::studies::differences::{Difference, plan_differences};
use http::Method;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};

use super::output::OutputOptions;
use super::resolve::Resolved;
use crate::cli::{self, Cli, Command, FileCommand, first_flag_of};
use crate::dataset::disk::{Directory, DiskError};
use crate::dataset::known::Known;
use crate::dataset::manifest::{
    FORMAT, LOCK, LastingSettings, MANIFEST, Manifest, Saved, ShuffledRange, take_lock,
};
use crate::dataset::recover::{Recovered, SessionRecords, recover};
use crate::dataset::saved;
use crate::dataset::session::{Session, TOOL, next_session};
use crate::error::Error;

/// Replace the command line of `run --resume DIR` or `--refresh DIR` by that of the crawl in DIR, and that of
/// `run --plan FILE` by that of the plan, with the flags that were typed now.
///
/// # Errors
/// When DIR holds no crawl, or FILE no plan, that this program can go on with, or flags with
/// secrets are missing.
pub(crate) fn with_recorded_flags(cli: Cli, words: &[OsString]) -> Result<Cli, Error> {
    let Command::Run(args) = &cli.command else {
        return Ok(cli);
    };
    let (whose, file) = if let Some((flag, place)) = args.save.earlier() {
        let file = FileCommand {
            command: Manifest::read(place)?.command,
            ..FileCommand::default()
        };
        (format!("{flag} {}", place.display()), file)
    } else if let Some(path) = &args.part.plan {
        let (plan, _) = PlanFile::read(path)?;
        if !plan.saving.is_empty() && args.save.save.is_some() {
            return Err(Error::Usage(format!(
                "--save <DIR> is given by --plan {}: remove it",
                path.display()
            )));
        }
        (
            format!("--plan {}", path.display()),
            FileCommand::of(&plan, path),
        )
    } else {
        return Ok(cli);
    };
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .skip_while(|word| word != "run")
        .skip(1)
        .collect();
    let mut merged = file
        .resumed(&words)
        .map_err(|error| Error::Usage(format!("{whose}: {error}")))?;
    merged.color = cli.color;
    if let Command::Run(run) = &mut merged.command {
        // A name that is not UTF-8 does not survive as a word.
        run.save.resume.clone_from(&args.save.resume);
        run.save.refresh.clone_from(&args.save.refresh);
        run.part.plan.clone_from(&args.part.plan);
    }
    Ok(merged)
}

/// Directory that a session writes to, locked.
#[derive(Debug)]
pub(super) struct SavedCrawl {
    session: Session,
    /// Records of the sessions before.
    earlier: BTreeMap<u32, SessionRecords>,
    /// Items of the crawl.
    items: u64,
    /// Held until this process and all shards are gone.
    _lock: File,
}

impl SavedCrawl {
    /// Open the directory of `--save`, `--resume` or `--refresh`; none without them. Adds to the plan what
    /// earlier sessions have finished.
    ///
    /// # Errors
    /// When the directory cannot be used, is in use, holds another crawl, or one that is complete.
    pub(super) fn open(
        resolved: &mut Resolved,
        wanted: &OutputOptions,
    ) -> Result<Option<Self>, Error> {
        let flags = &resolved.save;
        let (place, (mut manifest, lock)) = match (&flags.save, flags.earlier()) {
            (Some(place), _) => (place, begin(place, resolved)?),
            (None, Some((flag, place))) => (place, resume(flag, place, resolved)?),
            (None, None) => return Ok(None),
        };
        let number = next_session(place)?;
        if flags.refresh.is_some() && !manifest.refreshes.contains(&number) {
            refreshable(place, resolved)?;
            manifest.refreshes.push(number);
            manifest.write(place).map_err(Error::unwritable(place))?;
        }
        let disk = Directory::new(place);
        let recovered = recover(&disk, manifest.since(), flags.retry.unwrap_or_default())?;
        let Recovered {
            finished,
            left_out,
            sessions,
            notes,
        } = recovered;
        for note in &notes {
            wanted.voice.warn(note);
        }
        if finished.len() == manifest.ids.len() {
            let sentence = format!(
                "{}: {} of {} items are finished, and --retry asks for no other, so nothing is left to crawl",
                place.display(),
                grouped(finished.len() - left_out),
                grouped(finished.len())
            );
            let is_judged = !resolved.objectives.is_empty() || resolved.is_strict;
            return Err(
                if is_judged || resolved.out.is_some() || wanted.has_result() {
                    Error::Usage(format!(
                        "{sentence}: there is no result to judge, print or save. Check the crawl with `crawlmark verify --complete` instead"
                    ))
                } else {
                    Error::Needless(format!("{sentence}. No result is written"))
                },
            );
        }
        resolved.plan.finished = finished.ranges().collect();
        let session = Session {
            place: place.clone(),
            number,
            since: manifest.since(),
            known: known(&manifest, place, wanted)?,
            plan: config_hash(&resolved.plan),
            saved: manifest.saved,
            cpus: usable_cpus(),
        };
        resolved.spec.options.session = Some(session.clone());
        resolved.spec.options.keeps_throttled = resolved.plan.throttling.retries > 0;
        Ok(Some(Self {
            session,
            earlier: sessions,
            items: manifest.ids.len(),
            _lock: lock,
        }))
    }

    /// Begin to count the requests of each of `shards` shards; none where files cannot be mapped.
    pub(super) fn counters(&self, shards: u32) -> Option<Rc<FileCounters>> {
        self.session.counters(shards).map(Rc::new)
    }

    /// Return the figures of the crawl after this session. `part` is the command that crawls the
    /// part which it is; none of a crawl on one machine.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub(super) fn summary(&self, part: Option<String>) -> Result<SavedReport, DiskError> {
        let Session { place, saved, .. } = &self.session;
        let (sessions, finished) = self.session.figures(&self.earlier)?;
        Ok(SavedReport {
            directory: place.display().to_string(),
            items: self.items,
            saved: finished,
            resume: part.unwrap_or_else(|| resume_command(place)),
            durability: saved.durability.name().to_owned(),
            sessions,
        })
    }
}

/// Refuse to refresh a crawl whose requests cannot ask if a response still holds.
fn refreshable(place: &Path, resolved: &Resolved) -> Result<(), Error> {
    let spec = &resolved.spec;
    let asking = [IF_NONE_MATCH, IF_MODIFIED_SINCE];
    let why = if spec.targets.has_flows() {
        "its items have several requests"
    } else if spec
        .request
        .headers
        .iter()
        .any(|(name, _)| asking.contains(name))
    {
        "its requests have an If-None-Match or If-Modified-Since of their own"
    } else if *spec.request.method() != Method::GET {
        "its requests are not GET"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!(
        "--refresh {}: {why}: crawl it again into another directory (--save)",
        place.display()
    )))
}

/// Return what a crawl that is refreshed knows of its items; none of another.
fn known(
    manifest: &Manifest,
    place: &Path,
    wanted: &OutputOptions,
) -> Result<Option<Rc<Known>>, Error> {
    if manifest.refreshes.is_empty() {
        return Ok(None);
    }
    let crawl = saved::SavedCrawl::locked(place, manifest.clone())?;
    let known = Known::read(&crawl)?;
    if known.is_empty() {
        wanted.voice.warn(&format!(
            "{}: no record has an ETag or a Last-Modified, so each item is fetched whole",
            place.display()
        ));
    }
    Ok(Some(Rc::new(known)))
}

/// Return the command that goes on with the crawl in `place`.
pub(crate) fn resume_command(place: &Path) -> String {
    let place = shell_word(&place.display().to_string());
    format!("crawlmark run --resume {place}")
}

fn begin(place: &Path, resolved: &Resolved) -> Result<(Manifest, File), Error> {
    let (flags, plan) = (&resolved.save, &resolved.plan);
    let io_error = Error::unwritable(place);
    let lock = lock(place, flags.mode.unwrap_or(PRIVATE))?;
    let names: Vec<OsString> = fs::read_dir(place)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .map_err(&io_error)?;
    let holds = if names.iter().any(|name| name == MANIFEST) {
        Some("it holds a saved crawl. Go on with it (--resume), or name another directory")
    } else if names
        .iter()
        .any(|name| name != LOCK && !name.as_encoded_bytes().ends_with(PARTIAL.as_bytes()))
    {
        Some("it is not empty. Name another directory")
    } else {
        None
    };
    if let Some(why) = holds {
        return Err(Error::Usage(format!("--save {}: {why}", place.display())));
    }
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        tool: TOOL.to_owned(),
        created: humantime::format_rfc3339_seconds(wall_time()).to_string(),
        target: plan.target.clone(),
        ids: plan.ids,
        shuffle: shuffled(plan),
        saved: Saved {
            fields: flags.save_fields.unwrap_or_default(),
            bodies: flags.save_bodies.unwrap_or_default(),
            max_body: flags.max_body.unwrap_or(MAX_BODY),
            durability: flags.durability.unwrap_or_default(),
            mode: flags.mode.unwrap_or(PRIVATE),
        },
        workload: lasting(resolved),
        // What the machine and its environment give, another session finds out itself.
        command: resolved.typed.command(None),
        plan: config_hash(plan),
        refreshes: Vec::new(),
    };
    manifest.write(place).map_err(&io_error)?;
    Ok((manifest, lock))
}

fn resume(flag: &str, place: &Path, resolved: &Resolved) -> Result<(Manifest, File), Error> {
    let mut manifest = Manifest::read(place)?;
    manifest.saved.mode = resolved.save.mode.unwrap_or(PRIVATE);
    let lock = lock(place, manifest.saved.mode)?;
    let plan = &resolved.plan;
    let (was, is) = (&manifest.workload, lasting(resolved));
    let began = RunPlan {
        target: manifest.target.clone(),
        ids: manifest.ids,
        seed: was.seed,
        workload: was.settings.clone(),
        ..plan.clone()
    };
    let now = RunPlan {
        workload: is.settings.clone(),
        ..plan.clone()
    };
    let contents = (was.request_content != is.request_content).then(|| Difference {
        what: "request_content".to_owned(),
        base: was.request_content.clone(),
        candidate: is.request_content.clone(),
    });
    let typed = first_flag_of(&resolved.typed.now, &began, &now);
    let others = plan_differences(&began, &now).into_iter().chain(contents);
    let found = typed
        .map(|(flag, difference)| (format!("Leave {flag} out"), difference))
        .or_else(|| others.map(|other| ("Restore it".to_owned(), other)).next());
    let Some((remedy, difference)) = found else {
        return Ok((manifest, lock));
    };
    let Difference {
        what,
        base: was,
        candidate: is,
    } = difference;
    Err(Error::Usage(format!(
        "{flag} {}: {what} was {was} when the crawl began, and is {is} now. {remedy}, or begin another crawl with --save",
        place.display()
    )))
}

/// Longest body that is saved whole unless `--max-body` says otherwise, bytes.
const MAX_BODY: u64 = 1_000_000;

/// Return the order of the plan's IDs; none if it is their own.
fn shuffled(plan: &RunPlan) -> Option<ShuffledRange> {
    Some(ShuffledRange {
        range: plan.workload.shuffle?,
        seed: plan.seed,
    })
}

/// Return the settings of a run that have to be the same in each session.
fn lasting(resolved: &Resolved) -> LastingSettings {
    let Resolved { plan, spec, .. } = resolved;
    let content = spec.targets.content_hash(&spec.request);
    LastingSettings {
        seed: plan.seed,
        request_content: format!("{content:016x}"),
        settings: cli::lasting(plan.workload.clone()),
    }
}

/// Lock the directory of a saved crawl. The lock lasts as long as any process of the session.
fn lock(place: &Path, mode: u32) -> Result<File, Error> {
    let path = place.join(LOCK);
    let io = Error::unwritable(&path);
    let file = Root::with_mode(place, mode).open(LOCK).map_err(&io)?;
    match take_lock(&file, File::try_lock) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Usage(format!(
            "{}: another process is crawling into this directory. Wait for it, or name another directory",
            place.display()
        ))),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}
