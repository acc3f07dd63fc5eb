//! `crawlmark probe`: samples of a target's processes on standard output, until standard input
//! ends.

use std::os::fd::AsFd;

use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_harness::profile::{NotProfiled, Profiler};
use crawlmark_harness::target_usage::{Line, Sampler, serve};

use crate::cli::ProbeArgs;
use crate::error::{DONE, Error};
use crate::terminal;

/// Samples until standard input ends. A failure is told on standard output, too, where the run that
/// started it reads it.
pub(crate) fn probe(args: &ProbeArgs) -> Result<u8, Error> {
    // A descriptor for each thread.
    let _ = raise_descriptor_limit();
    let (sampler, mut found, first) = match Sampler::find(args.selection()) {
        Ok(target) => target,
        Err(error) => {
            if !terminal::is_seen() {
                let line = serde_json::to_string(&Line::Failed(error.to_string()))?;
                terminal::print_data(&(line + "\n"))?;
            }
            return Err(error.into());
        }
    };
    let mut profiler = None;
    if args.functions {
        let threads = sampler.threads();
        let opened = match Profiler::of_threads(&threads) {
            // Of processes of other users, only the sockets are seen.
            Ok(_) if threads.is_empty() => Err(NotProfiled::OfOther),
            opened => opened,
        };
        let why = opened.map(|opened| profiler = Some(opened)).err();
        let why = why.map(|why| ("functions".to_owned(), why.to_string()));
        found.unavailable.extend(why);
    }
    let (input, output) = (std::io::stdin(), terminal::DataWriter::new());
    serve(
        sampler,
        profiler,
        found,
        first,
        args.interval,
        input.as_fd(),
        output,
    )
    .map_err(Error::Output)?;
    Ok(DONE)
}
