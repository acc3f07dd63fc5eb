//! Studies: commands that run the same crawl in many rounds and judge the results. One driver holds
//! the signals, makes the directory, announces, runs, saves and prints, and decides the exit code;
//! a study defines its rounds.

mod flags;
mod keep;
mod rounds;
mod service;

use std::path::Path;
use std::time::Duration;

use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::studies::StudyResult;

pub(crate) use self::flags::{PORT, refuse, understood};
use self::keep::{announce, conclude, directory, stages, stopped};
pub(crate) use self::keep::{left_over, print, save};
pub(crate) use self::rounds::{RoundResults, Rounds, Setup};
use crate::cli::OutputArgs;
use crate::error::{Error, signalled};
use crate::terminal;

/// Time that a round takes beyond sending: its processes start and end, and the measurements are
/// saved.
pub(crate) const AROUND: Duration = Duration::from_millis(250);

/// `45 s`, `2 min 5 s`.
pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

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

    /// Announcement of the rounds, which are saved in `place`: a sentence, and named values.
    fn announcement(&self, place: &Path) -> (String, Vec<(&'static str, String)>);

    /// Run the rounds. Those that ended are kept by the study, whatever ends this.
    ///
    /// # Errors
    /// When a round fails or a signal asks for a stop.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error>;

    /// The result of the rounds so far; none when they are too few.
    ///
    /// # Errors
    /// When the rounds cannot be judged together.
    fn result(&mut self, name: String, end: End) -> Result<Option<Self::Result>, Error>;

    /// Unfinished directory of an earlier command that this one goes on from.
    fn resumed(&self) -> Option<&Path> {
        None
    }

    /// Called when the result is saved.
    fn saved(&mut self) {}

    /// Command that goes on from a result that was saved here; none when nothing is left.
    fn next_command(&self, _: &Self::Result, _: &Path) -> Option<String> {
        None
    }

    /// The exit code of a result whose rounds were all run.
    fn exit_code(result: &Self::Result) -> u8;
}

/// End of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By the study itself.
    Complete,
    /// By this signal, or by an error: rounds are missing.
    Cut(Option<i32>),
}

/// Run a study, and return the exit code.
///
/// # Errors
/// When its directory cannot be made, a round failed, or the result could not be saved or printed;
/// what was measured is saved all the same.
pub(crate) fn conduct<S: Study>(
    mut study: S,
    keep: &OutputArgs,
    command: &str,
) -> Result<u8, Error> {
    let name = keep.name_or(command);
    let directory = directory(keep, &name, study.resumed())?;
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let mut stages = stages(keep);
    let (sentence, facts) = study.announcement(directory.place());
    announce(keep, &sentence, &facts);
    let mut rounds = Rounds::new(&held, &mut stages, study.ready(), directory.place());
    let ended = study.run(&mut rounds).and_then(|()| rounds.check_saved());
    // Neither what was measured nor the exit code may be lost to an impatient second Ctrl-C.
    std::mem::forget(held);
    let (signal, failed) = match ended {
        Ok(()) => (None, None),
        Err(Error::Stopped(signal)) => (Some(signal), None),
        Err(error) => (None, Some(error)),
    };
    let end = if signal.is_some() || failed.is_some() {
        End::Cut(signal)
    } else {
        End::Complete
    };
    let result = match study.result(name, end) {
        Ok(Some(result)) => result,
        Ok(None) => {
            return match failed {
                Some(error) => Err(error.keeping(directory)),
                None => Ok(stopped(S::NEEDS, directory, signal)),
            };
        }
        Err(error) => return Err(error.keeping(directory)),
    };
    let concluded = conclude(keep, directory, &result);
    if let Ok(saved) = &concluded {
        study.saved();
        if let Some(command) = study.next_command(&result, saved).filter(|_| !keep.quiet) {
            terminal::say(&format!("continue with: {command}\n"));
        }
    }
    match (failed, concluded) {
        // The round failed first, and may be why the result cannot be saved: a full disk does both.
        (Some(error), Err(unsaved)) => {
            terminal::say(&(error.message() + "\n"));
            Err(unsaved)
        }
        (Some(error), Ok(_)) | (None, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(signal.map_or_else(|| S::exit_code(&result), signalled)),
    }
}
