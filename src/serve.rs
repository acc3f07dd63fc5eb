//! `crawlmark serve`: the bundled target until a signal ends it.

use crawlmark_harness::process::usable_cpus;
use crawlmark_mock_server::{Config, Faults};
use nix::sys::signal::{SigSet, Signal};

use crate::cli::ServeArgs;
use crate::error::{DONE, Error};
use crate::target::Target;
use crate::terminal;

/// Serves until SIGINT or SIGTERM, then prints the books.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Error> {
    let faults = all_faults("--fault", &args.faults)?;
    let config = Config {
        seed: args.seed,
        latency: args.latency.clone(),
        latency_per_in_flight: args.latency_per_in_flight,
        stall: args.stall,
        limit: args.limit,
        faults,
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

/// Everything that `flag` asked for, once or more often.
pub(crate) fn all_faults(flag: &str, given: &[Faults]) -> Result<Faults, Error> {
    let all = given.iter().try_fold(Faults::none(), Faults::and);
    all.map_err(|error| Error::Usage(format!("{flag}: {error}")))
}
