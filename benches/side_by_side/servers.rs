//! The bundled target among other servers: what an answer costs that was written down beforehand, and what it takes to
//! hold many of them back at once.
//!
//! All servers run on one CPU, and each is driven alone by wrk on another. A peer that is not installed is left out, and
//! that is said.

mod contest;
mod contestant;
mod holds;
mod proc;
mod report;
mod stage;

use crate::arguments::ServerArguments;
use crate::error::Error;
use crate::place::{Places, in_path};
use crate::process::Signals;
use crate::record::save;
use crate::{Coverage, print};
use contest::Contest;
use contestant::Contestant;
use holds::Holds;
use report::{ServersRecord, render};
use stage::Stage;

/// Reason why something is not in the comparison.
type Note = String;

/// Runs the whole comparison.
pub(crate) fn compare(arguments: &ServerArguments) -> Result<Coverage, Error> {
    let signals = Signals::watch()?;
    let places = Places::find();
    let wrk = in_path("wrk").ok_or_else(|| Error::Start {
        name: "wrk".to_owned(),
        error: std::io::Error::new(std::io::ErrorKind::NotFound, "not in PATH, and no server is driven without it"),
    })?;
    let stage = Stage::new()?;
    let mut notes = Vec::new();
    let contestants = Contestant::start_all(&stage, &places, &signals, &mut notes)?;
    let mut contest = Contest { arguments, places: &places, signals: &signals, wrk: &wrk, contestants };
    contest.warm_up(&mut notes)?;
    let runs = contest.rounds()?;
    // They end here: what follows has the server's CPU for itself.
    drop(contest);
    let holds = Holds { places: &places, signals: &signals, wrk: &wrk }.measure(&mut notes)?;
    let record = ServersRecord::new(arguments, &places, &runs, (holds.as_ref(), &notes));
    let saved = arguments.json.as_deref().map_or(Ok(()), |path| save(&record, path));
    print(&render(&record))?;
    // The table comes first: see `compare_clients`.
    saved?;
    Ok(Coverage::Complete)
}
