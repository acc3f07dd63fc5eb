//! Behaviour of the bundled target: a profile, and the flags of the command line that override it.
//! Used by `serve` and by `run` without a URL.

use std::num::NonZeroUsize;

use crawlmark_harness::plan::MAX_SHARDS;
use crawlmark_mock_server::{Config, Faults, Limits, Workers};

use crate::cli::{Auto, BehaviourArgs};
use crate::error::Error;

impl BehaviourArgs {
    /// The profile, with whatever else was typed in the place of its own; `prefix` begins the names
    /// of the flags.
    ///
    /// # Errors
    /// When limits or faults do not go together.
    pub(crate) fn config(&self, prefix: &str, seed: u64) -> Result<Config, Error> {
        let profile = self
            .target_profile
            .config()
            .map_err(|error| Error::usage(format!("{prefix}profile: {error}")))?;
        let limits = match &*self.target_limits {
            [] => profile.limits.clone(),
            typed => Limits::new(typed.to_vec())
                .map_err(|error| Error::usage(format!("{prefix}limit: {error}")))?,
        };
        let faults = match &*self.target_faults {
            [] => profile.faults.clone(),
            typed => typed
                .iter()
                .try_fold(Faults::default(), Faults::and)
                .map_err(|error| Error::usage(format!("{prefix}fault: {error}")))?,
        };
        let latency = self.target_latency.as_ref().unwrap_or(&profile.latency);
        Ok(Config {
            seed,
            latency: latency.clone(),
            latency_per_in_flight: self
                .target_latency_per_in_flight
                .unwrap_or(profile.latency_per_in_flight),
            handshake: self.target_handshake.unwrap_or(profile.handshake),
            work: self.target_work.unwrap_or(profile.work),
            stall: self.target_stall.or(profile.stall),
            workers: self.target_workers.or(profile.workers),
            keep_alive: self.target_keep_alive.or(profile.keep_alive),
            bandwidth: self.target_bandwidth.or(profile.bandwidth),
            accept: self.target_accept.or(profile.accept),
            limits,
            faults,
            events: self.target_events,
            ..profile
        })
    }
}

/// Return the number of processes of a target: that given by `flag`, or else `fitting`.
///
/// # Errors
/// When it may not have so many.
pub(crate) fn processes(
    flag: &str,
    given: Auto<NonZeroUsize>,
    fitting: NonZeroUsize,
    config: &Config,
) -> Result<NonZeroUsize, Error> {
    let is_lifo = config.workers.is_some_and(Workers::is_lifo);
    let (most, why) = if is_lifo {
        (1, ", because workers with :lifo are in one process")
    } else {
        (MAX_SHARDS as usize, "")
    };
    let processes = given.or(if is_lifo { NonZeroUsize::MIN } else { fitting });
    if processes.get() <= most {
        return Ok(processes);
    }
    Err(Error::Usage(format!(
        "{flag} {processes} is out of range: 1 to {most}{why}"
    )))
}

#[cfg(test)]
mod tests {
    use crawlmark_mock_server::{AddedDelay, Latency, Profile};

    use super::*;
    use crate::study::understood;

    fn config(flags: &str) -> Result<Config, Error> {
        let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        understood("a test", &words)?.target.config("--target-", 7)
    }

    #[test]
    fn what_is_typed_replaces_that_part_of_the_profile_and_no_other() {
        let lab = Profile::Lab.config().unwrap();
        let typed = |flags: &str| config(&format!("--target-profile lab {flags}")).unwrap();
        let plain = typed("");
        assert_eq!(
            (plain.seed, &plain.latency, &plain.limits),
            (7, &lab.latency, &lab.limits)
        );
        let faster = typed("--target-latency none");
        assert_eq!(
            (faster.latency, faster.limits, faster.faults),
            (Latency::default(), lab.limits, lab.faults)
        );
        let sterner = typed("--target-limit 5/s --target-fault error:0");
        assert_eq!(
            (sterner.limits.to_string().as_str(), sterner.faults),
            ("5/s", "error:0".parse().unwrap())
        );
        let near = config("--target-profile article --target-handshake 0s").unwrap();
        assert_eq!(near.handshake, AddedDelay::default());
    }

    #[test]
    fn the_latest_request_is_first_in_one_process() {
        let four = NonZeroUsize::new(4).unwrap();
        let of = |workers: &str, given| {
            let config = config(&format!("--target-workers {workers}")).unwrap();
            processes("--processes", given, four, &config)
        };
        assert_eq!(of("2", Auto::Auto).unwrap(), four);
        assert_eq!(of("2:lifo", Auto::Auto).unwrap(), NonZeroUsize::MIN);
        assert!(of("2:5", Auto::Exactly(four)).is_ok());
        assert!(of("2:lifo", Auto::Exactly(four)).is_err());
    }

    #[test]
    fn limits_that_do_not_go_together_are_refused() {
        let error = config("--target-limit 5/s:name=a --target-limit 6/s:name=a").unwrap_err();
        assert_eq!(error.exit_code(), crate::error::USAGE);
    }
}
