//! `crawlmark watch`: shows all parts of a crawl on several machines while they go on, from what
//! they write to the directory that they share.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::run::parts::{
    MOST_READ, PartsDirectory, PartsOverview, PartsWatch, PlanFile, UnreadParts,
};
use crawlmark_results::show::text::shell_word;

use crate::cli::WatchArgs;
use crate::error::{DONE, Error};
use crate::terminal::{self, PartsProgress};

/// Interval between two looks: parts write once a second.
const EVERY: Duration = Duration::from_secs(1);

/// Interval between two looks for a snapshot, which has to see the parts move. Each reads all
/// parts.
const OFTEN: Duration = Duration::from_millis(500);

/// Watches until all parts are done, or takes a snapshot, and returns the exit code.
pub(crate) fn watch(args: &WatchArgs) -> Result<u8, Error> {
    let clock = Clock::start();
    let now = || Duration::from_nanos(clock.now().0);
    let directory = PartsDirectory::at(&args.directory);
    let plan = PlanFile::shared(&directory)?;
    let mut parts = PartsWatch::new(directory, plan, args.lost_after);
    let most = if args.once { usize::MAX } else { MOST_READ };
    let mut look = || {
        parts.look(now(), most);
        (parts.overview(now()), parts.is_certain())
    };
    if args.once {
        let mut is_told = false;
        let all = loop {
            match look() {
                (all, true) => break all,
                (all, false) => refuse_unread(&all, args.lost_after)?,
            }
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
        return Ok(DONE);
    }
    let mut progress = PartsProgress::fitting();
    loop {
        let (all, _) = look();
        progress.show(&all, now());
        if all.parts.done == all.parts.planned {
            break;
        }
        sleep(EVERY);
    }
    terminal::say(&format!(
        "All parts have a result. Merge them with: crawlmark merge {}\n",
        shell_word(&args.directory.display().to_string())
    ));
    Ok(DONE)
}

/// Check that no part is damaged, or has been unreadable for so long that its state is unknown.
///
/// # Errors
/// When there is one.
fn refuse_unread(all: &PartsOverview, lost_after: Duration) -> Result<(), Error> {
    match &all.unread {
        Some(UnreadParts {
            path,
            error,
            for_s,
            is_damaged,
            ..
        }) if *is_damaged || *for_s >= lost_after.as_secs_f64() => Err(Error::Unreadable {
            path: path.clone(),
            error: io::Error::other(error.clone()),
        }),
        Some(_) | None => Ok(()),
    }
}
