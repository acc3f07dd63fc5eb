//! The journal of a search, which the search goes on from: its head, and a line for each probe.
//!
//! Called by the command that searches. Must not decide what a probe means.

use serde::{Deserialize, Serialize};

use super::laws;
use super::probe::ProbeReport;
use super::saved::Question;
use super::search::Bounds;
use crate::run::report::Environment;
use crate::run::result_dir::foreign;

/// The name of the journal: what was asked and with what in its first line, a probe in each of the
/// others.
pub const JOURNAL: &str = "probes.jsonl";

/// Question, program and machine: probes of another program or machine do not belong to the same
/// search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchHead {
    /// The version that probed.
    pub crawlmark_version: String,
    /// The machine that it ran on.
    pub environment: Environment,
    /// Question of the search.
    pub question: Question,
    /// See [`fingerprint`]: it tells apart what `question` leaves out, for it may be secret.
    pub fingerprint: u32,
}

impl SearchHead {
    /// A search of this program, on the machine that it runs on.
    #[must_use]
    pub fn here(question: Question, environment: Environment, fingerprint: u32) -> Self {
        Self {
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            environment,
            question,
            fingerprint,
        }
    }
}

/// FNV-1a, 32 bit, over words: stable over versions and machines. Too short for anybody to find a
/// secret by it: of four thousand million guesses each has one.
#[must_use]
pub fn fingerprint<'a>(words: impl Iterator<Item = &'a [u8]>) -> u32 {
    // A separator that is in no UTF-8 keeps words apart.
    let bytes = words.flat_map(|word| word.iter().copied().chain([0xff]));
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// A journal, read back: what was asked, and its probes. A last line that was not written to its
/// end is no probe.
///
/// # Errors
/// When it has no first line, or a line before the last is none of its own: what is wrong, in
/// words.
pub fn read_journal(text: &str) -> Result<(SearchHead, Vec<ProbeReport>), String> {
    let mut lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    let (first, _) = lines.next().ok_or("it is empty")?;
    let begun: SearchHead = foreign::from_str(first)
        .map_err(|error| format!("line 1: {}", foreign::one_line(&error)))?;
    let Bounds {
        least, greatest, ..
    } = begun.question.bounds;
    let rest: Vec<(&str, usize)> = lines.collect();
    let mut probes: Vec<ProbeReport> = Vec::new();
    for (at, (line, number)) in rest.iter().enumerate() {
        match foreign::from_str::<ProbeReport>(line) {
            Ok(probe) if (least..=greatest).contains(&probe.per_min) => {
                laws::check(&begun.question, at + 1, &probe)
                    .map_err(|why| format!("line {number}: {why}"))?;
                probes.push(probe);
            }
            Ok(probe) => {
                return Err(format!(
                    "line {number}: a probe of {} was never asked for",
                    probe.per_min
                ));
            }
            Err(_) if at + 1 == rest.len() && !text.ends_with('\n') => {}
            Err(error) => return Err(format!("line {number}: {}", foreign::one_line(&error))),
        }
    }
    Ok((begun, probes))
}

/// A line of a journal.
///
/// # Errors
/// When it is no JSON.
pub fn journal_line(line: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string(line)? + "\n")
}

/// List the differences between two searches, by flag and with both values: why one cannot go on
/// from the other. Of the machines only what makes another one of them: limits and the kernel's
/// settings may change. `unsaved` names the flags whose values are not saved, which only their
/// fingerprint tells apart.
#[must_use]
pub fn searches_differ(saved: &SearchHead, asked: &SearchHead, unsaved: &[String]) -> Vec<String> {
    let differ = fields(saved)
        .into_iter()
        .zip(fields(asked))
        .filter(|(saved, asked)| saved != asked);
    let mut differ: Vec<String> = differ
        .map(|((name, saved), (_, asked))| format!("{name} {saved} before, {asked} now"))
        .collect();
    // Flags that can be seen to differ have another fingerprint, too.
    if saved.fingerprint != asked.fingerprint && saved.question.what == asked.question.what {
        let flags = if unsaved.is_empty() {
            "the flags".to_owned()
        } else {
            unsaved.join(" or ")
        };
        differ.push(format!(
            "the value of {flags} (not saved) is another one now"
        ));
    }
    differ
}

/// Name and value of each property that searches are told apart by, as typed where it is a flag.
fn fields(head: &SearchHead) -> [(&'static str, String); 11] {
    let Question {
        what,
        objectives,
        by_default,
        arrivals,
        bounds,
        warmup_s,
        probe_s,
        seed,
    } = &head.question;
    let cpu = head.environment.cpu_model.as_deref().unwrap_or("unknown");
    [
        ("target and flags", format!("`{what}`")),
        (
            "objectives",
            format!(
                "{}{}",
                objectives.join(", "),
                if *by_default { " (default)" } else { "" }
            ),
        ),
        ("--arrivals", arrivals.clone()),
        ("--from", bounds.least.to_string()),
        ("--max-rate", bounds.greatest.to_string()),
        (
            "--precision",
            format!("{}%", (bounds.precision * 1e10).round() / 1e8),
        ),
        ("--warmup", format!("{warmup_s}s")),
        ("--probe", format!("{probe_s}s")),
        ("--seed", seed.to_string()),
        ("crawlmark", head.crawlmark_version.clone()),
        (
            "machine",
            format!("{cpu}, {} cores", head.environment.cores),
        ),
    ]
}
