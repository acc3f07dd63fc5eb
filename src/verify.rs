//! `crawlmark verify`: audits a saved crawl.

use std::fmt::Write;

use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::without_result;
use crawlmark_results::show::text::{bytes, counted, shell_word};

use crate::cli::VerifyArgs;
use crate::dataset::manifest::Manifest;
use crate::dataset::parts::SavedParts;
use crate::dataset::saved::SavedCrawl;
use crate::dataset::verify::{Audit, Violation, verify as audit, verify_parts};
use crate::error::{DONE, Error, INVALID};
use crate::terminal::{self, ReadProgress};

/// Audits, and returns the exit code.
pub(crate) fn verify(args: &VerifyArgs) -> Result<u8, Error> {
    let audit = if let Some(parts) = SavedParts::open(&args.crawl)? {
        verify_parts(&parts)?
    } else {
        let crawl = SavedCrawl::open(&args.crawl, Manifest::read(&args.crawl)?)?;
        let mut progress = if args.quiet {
            ReadProgress::Silent
        } else {
            ReadProgress::fitting(crawl.bytes())
        };
        let audit = audit(&crawl, |read| progress.show(read));
        progress.end();
        audit?
    };
    let is_bad = audit.violations_found > 0 || (args.complete && !audit.complete);
    if args.json {
        terminal::print_data(&(serde_json::to_string_pretty(&audit)? + "\n"))?;
    } else if !args.quiet || is_bad {
        terminal::print(&text(&audit, args.complete))?;
    }
    Ok(if is_bad { INVALID } else { DONE })
}

/// Audit for people, of whom some need each item (`is_whole`).
fn text(audit: &Audit, is_whole: bool) -> String {
    let place = shell_word(&audit.directory);
    let Audit {
        directory,
        planned,
        recorded,
        finished,
        sessions,
        segments,
        attempts,
        ..
    } = audit;
    let state = match (planned - finished, audit.missing.as_deref(), audit.parts) {
        (0, ..) => "complete".to_owned(),
        (left, Some([]), _) => {
            format!(
                "{} items left, although every part has a result; see the violations",
                grouped(left)
            )
        }
        (left, Some(missing @ [first, ..]), Some(parts)) => format!(
            "{} items left; {}. Run {} (`crawlmark run --plan {} --node {first}/{parts} --into {place}`)",
            grouped(left),
            without_result(missing),
            if missing.len() == 1 { "it" } else { "them" },
            shell_word(&format!("{directory}/plan.json"))
        ),
        (left, ..) => format!(
            "{} items left; go on with `crawlmark run --resume {place}`",
            grouped(left)
        ),
    };
    let state = match audit.violations_found {
        0 => state,
        found if audit.complete => format!("but with {}", counted(found, "violation")),
        found => format!(
            "with {} (mend those first); {state}",
            counted(found, "violation")
        ),
    };
    let parts = audit.parts.map_or_else(String::new, |parts| {
        format!(" of {}", counted(parts.into(), "part"))
    });
    let mut text = format!(
        "{directory}: {} of {} items finished, {state}\n",
        grouped(*finished),
        grouped(*planned)
    );
    let _ = writeln!(
        text,
        "  {} recorded, {} failed or abandoned",
        grouped(*recorded),
        grouped(recorded - finished)
    );
    let counts: Vec<String> = audit
        .outcomes
        .iter()
        .map(|(name, count)| format!("{} {name}", grouped(*count)))
        .collect();
    let requests = (*attempts > 0).then(|| format!("{} for them", counted(*attempts, "request")));
    let sent = audit
        .sent
        .map(|sent| format!("{} sent", counted(sent, "request")));
    let counts: Vec<String> = counts.into_iter().chain(requests).chain(sent).collect();
    if !counts.is_empty() {
        let _ = writeln!(text, "  records: {}", counts.join(", "));
    }
    let _ = writeln!(
        text,
        "  {} in {} of {}{parts}, {} of lines; {} bodies checked",
        bytes(audit.bytes),
        counted(*segments, "segment"),
        counted(u64::from(*sessions), "session"),
        bytes(audit.line_bytes),
        grouped(audit.bodies_checked)
    );
    for note in &audit.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (n, violation) in audit.violations.iter().enumerate() {
        let Violation {
            file,
            offset,
            line,
            what,
            remedy,
        } = violation;
        let place = [("byte", offset), ("line", line)]
            .map(|(name, at)| at.map(|at| format!(", {name} {at}")));
        let place: String = place.into_iter().flatten().collect();
        let _ = writeln!(text, "{}. {file}{place}: {what}. {remedy}.", n + 1);
    }
    let _ = match audit.violations_found {
        0 if is_whole && !audit.complete => {
            writeln!(
                text,
                "No violation, but {} items are left (--complete).",
                grouped(planned - finished)
            )
        }
        0 => writeln!(text, "No violation."),
        1 => writeln!(text, "1 violation."),
        more if more == audit.violations.len() as u64 => writeln!(text, "{more} violations."),
        more => writeln!(
            text,
            "{} violations; the first {} are listed.",
            grouped(more),
            audit.violations.len()
        ),
    };
    text
}
