//! `crawlmark watch`: shows all parts of a crawl on several machines while they go on, from what
//! they write to the directory that they share.

use std::fmt::Write;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::units::percent;
use crawlmark_results::run::parts::{
    PartRow, PartState, PartsDirectory, PartsOverview, PartsWatch, PlanFile,
};
use crawlmark_results::show::doc::{Column, Doc, Severity, Status, Table};
use crawlmark_results::show::plot::sums;
use crawlmark_results::show::text::{counted, decimal, grouped, grouped_f64, micros, shell_word};

use crate::cli::WatchArgs;
use crate::error::{DONE, Error};
use crate::live_page::{LivePage, ServedAt};
use crate::terminal;

/// Interval between two looks at so many parts: they write once a second, and a file server answers
/// thousands of requests a second for all of its users.
const EVERY: Duration = Duration::from_secs(1);
const PARTS: usize = 500;

/// Interval between two lines.
const LINES: Duration = Duration::from_secs(10);

/// Most rows of parts in a snapshot.
const MOST_ROWS: usize = 50;

/// Most rates that the page draws: of these, every second one is kept then.
const MOST_RATES: usize = 600;

/// Interval between two looks for a snapshot, which has to see the parts move.
const OFTEN: Duration = Duration::from_millis(500);

/// Watches until all parts are done, or takes a snapshot, and returns the exit code.
pub(crate) fn watch(args: &WatchArgs) -> Result<u8, Error> {
    let clock = Clock::start();
    let directory = PartsDirectory::at(&args.directory);
    let plan = PlanFile::shared(&directory)?;
    let mut parts = PartsWatch::new(directory, plan, args.lost_after);
    if args.once {
        return print_snapshot(args, &mut parts, clock);
    }
    let (mut next, mut was_failing) = (Duration::ZERO, false);
    let mut rates = Vec::new();
    let mut page = LivePage::start(ServedAt::page(args.page))?;
    loop {
        let now = Duration::from_nanos(clock.now().0);
        let read = parts.look(now);
        let all = parts.overview(now);
        let is_failing = all.unread.is_some();
        let is_over = all.parts.done == all.parts.planned;
        if let Some(page) = &mut page {
            if rates.len() == MOST_RATES {
                let mut numbers = 0..;
                rates.retain(|_| numbers.next().is_some_and(|n: usize| n.is_multiple_of(2)));
            }
            rates.push((now.as_secs_f64(), all.requests_per_s as f64));
            page.show(&page_of(&all), &[sums(&rates, all.budget_per_s)]);
        }
        if now >= next || is_failing != was_failing || is_over {
            (next, was_failing) = (now + LINES, is_failing);
            terminal::say(&(facts(&all).map(|(_, fact)| fact).join("  ") + "\n"));
        }
        if is_over {
            break;
        }
        let looks = u32::try_from(read.div_ceil(PARTS)).unwrap_or(u32::MAX);
        sleep(EVERY * looks.max(1));
    }
    if let Some(page) = page {
        page.end(None);
    }
    terminal::say(&format!(
        "All parts have a result. Merge them with: crawlmark merge {}\n",
        shell_word(&args.directory.display().to_string())
    ));
    Ok(DONE)
}

/// Print the state of all parts once it is certain.
fn print_snapshot(args: &WatchArgs, parts: &mut PartsWatch, clock: Clock) -> Result<u8, Error> {
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
        terminal::print(&snapshot(&all).terminal(terminal::display().columns))?;
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

/// What there is to say of all parts: a line, or the head of a snapshot.
fn facts(all: &PartsOverview) -> [(&'static str, String); 5] {
    let rate = all.requests_per_s as f64;
    let budget = all
        .budget_per_s
        .filter(|per_s| *per_s > 0.0)
        .map(|per_s| format!(" of {}/s ({})", decimal(per_s), percent(rate / per_s)));
    let items = format!(
        "{} of {} items, {} failed",
        grouped(all.items),
        grouped(all.items_planned),
        grouped(all.items_failed)
    );
    let unread = all.unread.as_ref().map(|unread| {
        let (error, path) = (&unread.error, unread.path.display());
        format!("{} unread: {error} ({path})", unread.parts)
    });
    [
        ("parts", counts(all)),
        ("items", items),
        (
            "rate",
            format!("{}/s{}", decimal(rate), budget.unwrap_or_default()),
        ),
        (
            "slots",
            format!("{} of {} slots in use", all.slots_in_use, all.slots),
        ),
        (
            "unread",
            unread.unwrap_or_else(|| "all parts read".to_owned()),
        ),
    ]
}

/// The numbers of parts: of each state that some have.
fn counts(all: &PartsOverview) -> String {
    let mut counts = all.parts;
    let [done, planned] = [counts.done, counts.planned].map(|count| grouped(count.into()));
    let mut text = format!("{done} of {planned} done");
    for state in [
        PartState::Lost,
        PartState::Unfinished,
        PartState::Running,
        PartState::Starting,
        PartState::Waiting,
        PartState::NotBegun,
    ] {
        let count = *counts.of(state);
        if count > 0 {
            let _ = write!(text, ", {} {}", grouped(count.into()), state.name());
        }
    }
    text
}

fn snapshot(all: &PartsOverview) -> Doc {
    let doc = Doc::default().facts(facts(all));
    if all.rows.is_empty() {
        return doc;
    }
    doc.table(table(all))
}

/// What the page shows: the sums and their course, lost parts as a finding, and the parts with the names of their
/// attempts, which begin with their machines'.
fn page_of(all: &PartsOverview) -> Doc {
    let lost = all.parts.lost;
    let others = facts(all).map(|(_, fact)| fact);
    let status = Status {
        id: None,
        severity: if lost > 0 {
            Severity::Bad
        } else {
            Severity::Neutral
        },
        title: if lost > 0 {
            format!("{} lost", counted(lost.into(), "part"))
        } else {
            counts(all)
        },
        text: others[1..].join(", "),
        list: Vec::new(),
        details: None,
    };
    let mut table = table(all);
    table
        .columns
        .extend([Column::words("attempt"), Column::numbers("heard of")]);
    for (cells, part) in table.rows.iter_mut().zip(&all.rows) {
        let heard = format!("{} s ago", grouped_f64(part.silent_s.round()));
        cells.extend([part.attempt.clone(), heard]);
    }
    Doc::new("Parts")
        .status(status)
        .plot("sums", "All parts")
        .table(table)
}

fn table(all: &PartsOverview) -> Table {
    let shown = all.rows.len().min(MOST_ROWS);
    Table {
        caption: format!("{shown} of {} parts at work or lost", all.rows.len()),
        columns: vec![
            Column::numbers("part"),
            Column::words("state"),
            Column::numbers("items"),
            Column::numbers("rate"),
            Column::numbers("p50"),
            Column::numbers("p99"),
            Column::numbers("slot"),
        ],
        rows: all.rows.iter().take(MOST_ROWS).map(row).collect(),
        ..Table::default()
    }
}

fn row(part: &PartRow) -> Vec<String> {
    let status = &part.status;
    let [p50, p99] = [status.p50_us, status.p99_us].map(|us| us.map(micros));
    vec![
        part.part.to_string(),
        part.state.name().to_owned(),
        grouped(part.finished_before.saturating_add(status.items)),
        format!("{}/s", grouped(status.requests_per_s)),
        p50.unwrap_or_default(),
        p99.unwrap_or_default(),
        status.slot.map(|slot| slot.to_string()).unwrap_or_default(),
    ]
}
