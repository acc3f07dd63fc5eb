//! `crawlmark serve`: the bundled target until a signal ends it.

use std::path::Path;

use crawlmark_harness::process::usable_cpus;
use crawlmark_mock_server::{Config, Faults, Journal, Limit, Limits, Mappings, OnUnsupported, Unmatched};
use nix::sys::signal::{SigSet, Signal};

use crate::cli::ServeArgs;
use crate::error::{DONE, Error};
use crate::target::Target;
use crate::terminal;

/// The limits that were typed, one per `flag`, as those of one target.
pub(crate) fn all_limits(flag: &str, typed: &[Limit]) -> Result<Limits, Error> {
    Limits::new(typed.to_vec()).map_err(|error| Error::Usage(format!("{flag}: {error}")))
}

/// Serves until SIGINT or SIGTERM, then prints the books.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Error> {
    let faults = all_faults("--fault", &args.faults)?;
    let config = Config {
        seed: args.seed,
        latency: args.latency.clone(),
        latency_per_in_flight: args.latency_per_in_flight,
        stall: args.stall,
        limits: all_limits("--limit", &args.limits)?,
        faults,
        stubs: args.stubs.as_deref().map(|root| load(root, args)).transpose()?,
        unmatched: if args.stubs.is_some() { Unmatched::NotFound } else { Unmatched::Item },
        journal: if args.journal { Journal::On } else { Journal::Off },
    };
    let mut wanted = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD] {
        wanted.add(signal);
    }
    wanted.thread_block().map_err(Error::Signal)?;
    let mut target = Target::start(args.listen, args.processes.or_cores(usable_cpus().len()), &config)?;
    terminal::print(&format!("listening on http://{}\n", target.address()))?;
    while wanted.wait().map_err(Error::Signal)? == Signal::SIGCHLD {
        if let Some((pid, exit)) = target.lost() {
            return Err(Error::TargetLost { pid, how: exit.to_string() });
        }
    }
    let books = serde_json::to_string_pretty(&target.stop())?;
    terminal::print(&(books + "\n"))?;
    Ok(DONE)
}

/// The stubs below `root`. What is left out is said on standard error.
fn load(root: &Path, args: &ServeArgs) -> Result<Mappings, Error> {
    let on_unsupported = if args.lenient { OnUnsupported::Skip } else { OnUnsupported::Refuse };
    let mappings = Mappings::load(root, on_unsupported).map_err(|error| Error::Usage(format!("--stubs: {error}")))?;
    if mappings.skipped() > 0 {
        let (left_out, served) = (mappings.skipped(), mappings.len());
        let why = mappings.warnings();
        terminal::say(&format!("warning: {left_out} of {} stubs are left out:\n{why}\n", left_out + served));
    }
    Ok(mappings)
}

/// Everything that `flag` asked for, once or more often.
pub(crate) fn all_faults(flag: &str, given: &[Faults]) -> Result<Faults, Error> {
    let all = given.iter().try_fold(Faults::none(), Faults::and);
    all.map_err(|error| Error::Usage(format!("{flag}: {error}")))
}
