//! `crawlmark watch`: shows all parts of a crawl on several machines while they go on, from what
//! they write to the directory that they share.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::run::parts::{PartsDirectory, PartsOverview, PartsWatch, PlanFile};
use crawlmark_results::show::text::shell_word;

use crate::cli::WatchArgs;
use crate::error::{DONE, Error};
use crate::terminal::{self, PartsProgress};

/// Interval between two looks at so many parts: they write once a second, and a file server answers
/// thousands of requests a second for all of its users.
const EVERY: Duration = Duration::from_secs(1);
const PARTS: usize = 500;

/// Interval between two looks for a snapshot, which has to see the parts move.
const OFTEN: Duration = Duration::from_millis(500);

/// Watches until all parts are done, or takes a snapshot, and returns the exit code.
pub(crate) fn watch(args: &WatchArgs) -> Result<u8, Error> {
    let clock = Clock::start();
    let directory = PartsDirectory::at(&args.directory);
    let plan = PlanFile::shared(&directory)?;
    let mut parts = PartsWatch::new(directory, plan, args.lost_after);
    if args.once {
        return snapshot(args, &mut parts, clock);
    }
    let mut progress = PartsProgress::fitting();
    loop {
        let now = Duration::from_nanos(clock.now().0);
        let read = parts.look(now);
        let all = parts.overview(now);
        progress.show(&all, now);
        if all.parts.done == all.parts.planned {
            break;
        }
        let looks = u32::try_from(read.div_ceil(PARTS)).unwrap_or(u32::MAX);
        sleep(EVERY * looks.max(1));
    }
    terminal::say(&format!(
        "All parts have a result. Merge them with: crawlmark merge {}\n",
        shell_word(&args.directory.display().to_string())
    ));
    Ok(DONE)
}

/// Print the state of all parts once it is certain.
fn snapshot(args: &WatchArgs, parts: &mut PartsWatch, clock: Clock) -> Result<u8, Error> {
    let mut is_told = false;
    let all = loop {
        let now = Duration::from_nanos(clock.now().0);
        parts.look(now);
        let all = parts.overview(now);
        if parts.is_certain() {
            break all;
        }
        refuse_unread(&all, args.lost_after)?;
        sleep(OFTEN);
        if !std::mem::replace(&mut is_told, true) {
            let most = humantime::format_duration(args.lost_after);
            terminal::say(&format!(
                "waiting up to {most} to see which parts are alive (--lost-after)\n"
            ));
        }
    };
    if args.json {
        terminal::print_data(&(serde_json::to_string_pretty(&all)? + "\n"))?;
    } else {
        terminal::print(&terminal::parts_snapshot(&all, terminal::columns()))?;
    }
    Ok(DONE)
}

/// Check that no part is damaged, or has been unreadable for so long that its state is unknown.
///
/// # Errors
/// When there is one.
fn refuse_unread(all: &PartsOverview, lost_after: Duration) -> Result<(), Error> {
    match &all.unread {
        Some(unread) if unread.is_damaged || unread.for_s >= lost_after.as_secs_f64() => {
            Err(Error::Unreadable {
                path: unread.path.clone(),
                error: io::Error::other(unread.error.clone()),
            })
        }
        Some(_) | None => Ok(()),
    }
}
