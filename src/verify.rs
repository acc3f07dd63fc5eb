//! `crawlmark verify`: audits a saved crawl.

use std::path::Path;

use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::{PartsDirectory, without_result};
use crawlmark_results::show::doc::Severity;
use crawlmark_results::show::line::{Line, Tone};
use crawlmark_results::show::text::{bytes, counted};
use crawlmark_results::show::visible;

use crate::cli::VerifyArgs;
use crate::dataset::manifest::Manifest;
use crate::dataset::parts::SavedParts;
use crate::dataset::saved::SavedCrawl;
use crate::dataset::verify::{Audit, Place, Violation, verify as audit, verify_parts};
use crate::error::{DONE, Error, INVALID};
use crate::run::resume_command;
use crate::terminal::{self, ReadProgress};

/// Audits, and returns the exit code.
pub(crate) fn verify(args: &VerifyArgs) -> Result<u8, Error> {
    let audit = if let Some(parts) = SavedParts::open(&args.crawl)? {
        verify_parts(&parts)?
    } else {
        let crawl = SavedCrawl::open(&args.crawl, Manifest::read(&args.crawl)?)?;
        let progress = ReadProgress::fitting(args.quiet);
        let audit = audit(&crawl, |read| progress.show(read, crawl.bytes()));
        progress.end();
        audit?
    };
    let is_bad = audit.violations_found > 0 || (args.complete && !audit.complete);
    if args.json {
        terminal::print_data(&(serde_json::to_string_pretty(&audit)? + "\n"))?;
    } else if !args.quiet || is_bad {
        terminal::print_lines(&lines(&audit, args.complete))?;
    }
    Ok(if is_bad { INVALID } else { DONE })
}

/// The state of a crawl, in words that follow the number of its finished items.
fn state(audit: &Audit) -> String {
    let place = Path::new(&audit.directory);
    let rest = match (audit.missing.as_deref(), audit.parts) {
        (Some([]), _) => ", although every part has a result; see the violations".to_owned(),
        (Some(missing @ [first, ..]), Some(parts)) => format!(
            "; {}. Run what is not running, as with `{}`",
            without_result(missing),
            PartsDirectory::at(place).command(*first, parts)
        ),
        _ => format!("; go on with `{}`", resume_command(place)),
    };
    let left = format!(
        "{} items left{rest}",
        grouped(audit.planned - audit.finished)
    );
    let violations = counted(audit.violations_found, "violation");
    match audit.violations_found {
        0 if audit.finished == audit.planned => "complete".to_owned(),
        0 => left,
        _ if audit.complete => format!("but with {violations}"),
        _ => format!("with {violations} (mend those first); {left}"),
    }
}

/// A violation: where it is, what it is, and the remedy.
fn in_words(violation: &Violation) -> String {
    let Violation {
        file,
        place: Place { offset, line },
        what,
        remedy,
    } = violation;
    let offset = offset.map_or_else(String::new, |at| format!(", byte {at}"));
    let line = line.map_or_else(String::new, |at| format!(", line {at}"));
    format!("{file}{offset}{line}: {what}. {remedy}.")
}

/// Audit for people, of whom some need each item (`is_whole`): the answer first, the verdict last.
fn lines(audit: &Audit, is_whole: bool) -> Vec<Line> {
    let (planned, finished) = (audit.planned, audit.finished);
    let violations = counted(audit.violations_found, "violation");
    let mut counts: Vec<String> = audit
        .outcomes
        .iter()
        .map(|(name, count)| format!("{} {name}", grouped(*count)))
        .collect();
    if audit.attempts > 0 {
        counts.push(format!("{} for them", counted(audit.attempts, "request")));
    }
    counts.extend(
        audit
            .sent
            .map(|sent| format!("{} sent", counted(sent, "request"))),
    );
    let parts = audit.parts.map_or_else(String::new, |parts| {
        format!(" of {}", counted(parts.into(), "part"))
    });
    let answer = format!(
        "{}: {} of {} items finished, {}",
        audit.directory,
        grouped(finished),
        grouped(planned),
        state(audit)
    );
    let mut lines = vec![
        format!(
            "  {} recorded, {} failed or abandoned",
            grouped(audit.recorded),
            grouped(audit.recorded - finished)
        ),
        format!(
            "  {} in {} of {}{parts}, {} of lines; {} bodies checked",
            bytes(audit.bytes),
            counted(audit.segments, "segment"),
            counted(audit.sessions.into(), "session"),
            bytes(audit.line_bytes),
            grouped(audit.bodies_checked)
        ),
    ];
    if !counts.is_empty() {
        lines.insert(1, format!("  records: {}", counts.join(", ")));
    }
    lines.extend(audit.notes.iter().map(|note| format!("note: {note}")));
    let violations_listed = (1..).zip(&audit.violations);
    lines.extend(violations_listed.map(|(n, violation)| format!("{n}. {}", in_words(violation))));
    let is_bad = audit.violations_found > 0 || is_whole && !audit.complete;
    let severity = [Severity::Good, Severity::Bad][usize::from(is_bad)];
    let verdict = match audit.violations_found {
        0 if is_whole && !audit.complete => {
            let left = grouped(planned - finished);
            format!("No violation, but {left} items are left (--complete).")
        }
        0 => "No violation.".to_owned(),
        more if more > audit.violations.len() as u64 => {
            format!(
                "{violations}; the first {} are listed.",
                audit.violations.len()
            )
        }
        _ => format!("{violations}."),
    };
    let display = terminal::display();
    let mark = format!("{} ", severity.symbol());
    let said = |text: &str| display.wrapped(&mark, &visible(text), Tone::Status(severity));
    let details = lines
        .iter()
        .map(|line| Line::of(visible(line), Tone::Plain));
    let mut all = said(&answer);
    all.extend(details);
    all.extend(said(&verdict));
    all
}
