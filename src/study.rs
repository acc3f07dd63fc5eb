//! Studies: commands that run the same crawl in many rounds and judge the results. One driver holds
//! the signals, makes the directory, announces, runs, saves and prints, and decides the exit code;
//! a study defines its rounds.
//!
//! | module | holds |
//! |---|---|
//! | `rounds` | a round: `crawlmark run` in a process of its own, and its result |
//! | `execution` | a round of a command: its executions |
//! | `service` | a target that a round starts and ends |
//! | `session` | a program that is ended with all that it started |

mod execution;
mod rounds;
mod service;
mod session;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::wall_time;
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::run::report::rfc3339;
use crawlmark_results::run::result_dir::{
    self, PAGE, ResultDir, holds_measurements, is_announced, mark_announced,
};
use crawlmark_results::show::doc::Doc;
use crawlmark_results::show::text;
use crawlmark_results::studies::{Conclusion, Header, StudyResult, end};

pub(crate) use self::execution::{CommandRound, CommandSetup, RoundError, printed_within};
pub(crate) use self::rounds::{LONGEST_REST, Rounds, Setup, rest};
use crate::cli::{Cli, Command, FormArgs, OutputArgs, RunArgs, given_in_rounds, refused_in_rounds};
use crate::error::{DONE, Error, GATE, INCONCLUSIVE, signalled};
use crate::export;
use crate::live_page::{LivePage, ServedAt};
use crate::terminal::{self, Stages};

/// The folder of the rounds.
pub(crate) const ROUNDS: &str = "rounds";

/// Placeholder of the port in a target's command.
pub(crate) const PORT: &str = "{port}";

/// Time that a round takes beyond sending: its processes start and end, and the measurements are
/// saved.
pub(crate) const AROUND: Duration = Duration::from_millis(250);

/// File of the document.
const SUMMARY: &str = "summary.md";

/// Directories named at most; the others are counted.
const NAMED: usize = 3;

/// A study, before and while it runs.
pub(crate) trait Study {
    /// Result of its rounds.
    type Result: StudyResult;

    /// The least that a result needs, as in "SIGTERM ended it before ...".
    const NEEDS: &'static str;

    /// The longest time that the target of a round may take to accept connections.
    fn ready(&self) -> Duration {
        Duration::ZERO
    }

    /// Say what is going to be done, in a sentence.
    fn announcement(&self) -> String;

    /// Run the rounds. Those that ended are kept by the study, whatever ends this.
    ///
    /// # Errors
    /// When a round fails or a signal asks for a stop.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error>;

    /// The result of the rounds so far; none when they are too few.
    ///
    /// # Errors
    /// When the rounds cannot be judged together.
    fn result(&mut self, header: Header) -> Result<Option<Self::Result>, Error>;
}

/// Run a study, and return the exit code.
///
/// # Errors
/// When its directory cannot be made, a round failed, or the result could not be saved or printed;
/// what was measured is saved all the same.
pub(crate) fn conduct<S: Study>(study: S, keep: &OutputArgs, command: &str) -> Result<u8, Error> {
    let name = keep.name.as_deref().unwrap_or(command);
    let directory = ResultDir::begin(keep.out.as_deref(), name)?;
    let place = directory.path().to_owned();
    let mut page = LivePage::start(ServedAt::page(keep.page))?;
    if let Some(page) = &mut page {
        page.show(&Doc::new(name).text(study.announcement()), &[]);
    }
    let ended = conducted(study, keep, name, directory, &mut page);
    if let Some(page) = page {
        page.end(Some(&*place).filter(|place| place.join(PAGE).exists()));
    }
    ended
}

/// The same with a page that shows each round.
fn conducted<S: Study>(
    mut study: S,
    keep: &OutputArgs,
    name: &str,
    directory: ResultDir,
    page: &mut Option<LivePage>,
) -> Result<u8, Error> {
    if !keep.quiet {
        terminal::say(&left_over(directory.path()));
    }
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let mut stages = if keep.quiet || keep.no_progress {
        Stages::Silent
    } else {
        Stages::fitting()
    };
    if !keep.quiet {
        let announcement = study.announcement();
        let lines = text::wrapped(&announcement, terminal::columns_beside());
        terminal::say(&(lines.join("\n") + "\n"));
    }
    let started_at = rfc3339(wall_time());
    let mut rounds = Rounds::new(&held, &mut stages, study.ready(), directory.place());
    rounds.page = page.take();
    let ended = study.run(&mut rounds);
    *page = rounds.page.take();
    // Neither what was measured nor the exit code may be lost to an impatient second Ctrl-C.
    std::mem::forget(held);
    let header = Header {
        interrupted: ended.is_err(),
        ..Header::new::<S::Result>(name, [&started_at, &rfc3339(wall_time())])
    };
    let (signal, failed) = match ended {
        Ok(()) => (None, None),
        Err(Error::Stopped(signal)) => (Some(signal), None),
        Err(error) => (None, Some(error)),
    };
    let result = match (study.result(header), failed) {
        (Ok(Some(result)), None) => result,
        (Ok(Some(result)), Some(error)) => {
            // The round failed first, and may be why the result cannot be saved: a full disk does
            // both.
            return match conclude(keep, directory, &result) {
                Ok(()) => Err(error),
                Err(unsaved) => {
                    terminal::say(&(error.message() + "\n"));
                    Err(unsaved)
                }
            };
        }
        (Ok(None), None) => return Ok(stopped(S::NEEDS, directory, signal)),
        (Ok(None), Some(error)) | (Err(error), _) => return Err(error.keeping(directory)),
    };
    conclude(keep, directory, &result)?;
    Ok(signal.map_or_else(|| exit_code(&result), signalled))
}

/// The exit code of a result whose rounds were all run.
pub(crate) fn exit_code(result: &impl StudyResult) -> u8 {
    match result.conclusion() {
        Conclusion::Done => DONE,
        Conclusion::Failed => GATE,
        Conclusion::Inconclusive => INCONCLUSIVE,
    }
}

/// Note the unfinished directories of earlier runs beside `out`. Each is named once.
pub(crate) fn left_over(out: &Path) -> String {
    let parent = out
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut left = result_dir::left_over(parent);
    left.retain(|left| !is_announced(left));
    let (named, others) = left.split_at(left.len().min(NAMED));
    let mut notes = String::new();
    for path in named {
        let what = if holds_measurements(path) {
            "with its measurements"
        } else {
            "without measurements"
        };
        notes.extend([format!(
            "note: an earlier run did not finish and left a directory {what}; to remove it: rm -r '{}'\n",
            path.display()
        )]);
        mark_announced(path);
    }
    if let more @ 1.. = others.len() {
        notes.extend([format!(
            "note: {more} more such directories are in {}: .*.partial\n",
            parent.display()
        )]);
    }
    notes
}

/// Says that a signal came, or the time was over, before there was anything to judge, and what is
/// kept; returns the exit code.
fn stopped(before: &str, directory: ResultDir, signal: Option<i32>) -> u8 {
    let kept = match directory.leave() {
        Some(place) => format!("its measurements are kept in {}", place.display()),
        None => "nothing is saved".to_owned(),
    };
    let end = signal.map_or_else(
        || "its time was over".to_owned(),
        |signal| format!("{} ended it", signal_in_words(signal)),
    );
    terminal::say(&format!("{end} before {before}: {kept}\n"));
    signal.map_or(INCONCLUSIVE, signalled)
}

/// Save a result, print it, and say where it is: saved whether it could be printed or not, and the
/// reverse.
///
/// # Errors
/// When it cannot be saved or printed; both are said.
fn conclude(
    keep: &OutputArgs,
    directory: ResultDir,
    result: &impl StudyResult,
) -> Result<(), Error> {
    let saved = save(directory, result).and_then(|saved| {
        if keep.png {
            export::pngs(&saved, &result.plots())?;
        }
        Ok(saved)
    });
    let printed = print(result, keep.form, saved.as_deref().ok(), keep.quiet);
    match (saved, printed) {
        (Ok(_), printed) => printed,
        (Err(unsaved), printed) => {
            if let Err(unprinted) = printed {
                terminal::say(&(unprinted.message() + "\n"));
            }
            Err(unsaved)
        }
    }
}

/// Save a result: its JSON, summary, page and plots.
///
/// # Errors
/// When a file cannot be written; the measurements stay.
pub(crate) fn save<R: StudyResult>(directory: ResultDir, result: &R) -> Result<PathBuf, Error> {
    let mut files = vec![(R::FILE.to_owned(), result.json()?)];
    files.extend(made_from(result));
    directory.finish_with(files).map_err(Error::Result)
}

/// Files that are made from a result, by their names: summary, page, exports and plots.
pub(crate) fn made_from(result: &impl StudyResult) -> Vec<(String, String)> {
    let (doc, plots) = (result.doc(), result.plots());
    let mut files = vec![
        (SUMMARY.to_owned(), doc.markdown()),
        (PAGE.to_owned(), doc.html(&plots)),
    ];
    let exports = result.exports().into_iter();
    files.extend(exports.map(|(name, text)| (name.to_owned(), text)));
    let plots = plots.into_iter();
    files.extend(plots.map(|plot| (format!("plots/{}.svg", plot.name), plot.svg)));
    files
}

/// Print a result, which may be saved: as JSON, as Markdown, where its page is, or its end.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print(
    result: &impl StudyResult,
    form: FormArgs,
    saved: Option<&Path>,
    is_quiet: bool,
) -> Result<(), Error> {
    let page = saved.map(|saved| terminal::relative(&saved.join(PAGE)));
    match (form.json, form.markdown) {
        (true, _) => terminal::print(&result.json()?),
        (_, true) => terminal::print(&result.doc().markdown()),
        _ if is_quiet => page.map_or(Ok(()), |page| terminal::print(&(page + "\n"))),
        _ => terminal::print_lines(&end(
            result,
            page.as_deref(),
            terminal::display(),
            form.verbose,
        )),
    }
}

/// Show a time as `45 s` or `2 min 5 s`.
pub(crate) fn minutes(time: Duration) -> String {
    match time.as_secs().max(1) {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Parse the words as flags of `run`; errors name them as `whose` does:
/// `--base and the flags after --, together`. A newer or older crawlmark may know other flags;
/// those of this one are what rounds know.
///
/// # Errors
/// When they are no flags of `run`, or do not fit together.
pub(crate) fn understood(whose: &str, words: &[String]) -> Result<RunArgs, Error> {
    let line = ["crawlmark", "run"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    match Cli::of(line).map(|cli| cli.command) {
        Ok(Command::Run(args)) => Ok(*args),
        Ok(_) => usage(format!("{whose}: not flags of `crawlmark run`")),
        Err(error) => {
            let rendered = error.render().to_string();
            // The parser begins with `error: `.
            let text = rendered
                .split_once(' ')
                .map_or(&*rendered, |(_, text)| text);
            usage(format!("{whose}: {}", text.trim_end()))
        }
    }
}

/// The flags of a round of `command`: those of `run` in `words`, of which errors speak as `whose`
/// does, without those of `taken` (by the name of their fields), what is only for single runs, and
/// a list that can be read once.
///
/// # Errors
/// When they are no flags of `run`, do not fit together, or have one of those.
pub(crate) fn round_flags(
    command: &str,
    whose: &str,
    words: &[String],
    taken: &[&str],
) -> Result<RunArgs, Error> {
    let typed = understood(whose, words)?;
    let given = given_in_rounds(words);
    if let Some(name) = taken.iter().find(|name| given.iter().any(|of| of == *name)) {
        let flag = name.replace('_', "-");
        return usage(format!(
            "--{flag} cannot be chosen for the rounds of `crawlmark {command}`, which sets it or measures without it: \
             remove it from {whose}, or see `crawlmark {command} --help` for a flag before --"
        ));
    }
    if let Some(flag) = typed.list_of_input() {
        return usage(format!(
            "{flag} - can be read once, and every round reads it: write a file"
        ));
    }
    match refused_in_rounds(words) {
        Some(name) => usage(format!(
            "{name} is for single runs: remove it from {whose}. Only the result of all rounds is saved and judged"
        )),
        None => Ok(typed),
    }
}

/// A usage error.
pub(crate) fn usage<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Usage(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_named_once() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".a.1.partial")).unwrap();
        let left = || left_over(&home.path().join("out"));
        let said = left();
        assert!(
            said.contains("left a directory without measurements; ")
                && said.contains(".a.1.partial"),
            "{said}"
        );
        assert_eq!(left(), "");
        // Those that are only counted are named by a later run.
        for number in 1..=NAMED + 2 {
            std::fs::create_dir(home.path().join(format!(".c.{number}.partial"))).unwrap();
        }
        let said = left();
        assert!(
            said.lines().count() == NAMED + 1 && said.contains("note: 2 more such directories"),
            "{said}"
        );
        let said = left();
        assert!(
            said.lines().count() == 2
                && said.contains(".c.4.partial")
                && said.contains(".c.5.partial"),
            "{said}"
        );
        assert_eq!(left(), "");
    }
}
