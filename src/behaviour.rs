//! Behaviour of the bundled target: a profile, and the flags of the command line that override it.
//! Used by `serve` and by `run` without a URL.

use std::num::NonZeroUsize;

use crawlmark_harness::plan::MAX_SHARDS;
use crawlmark_mock_server::{
    AddedDelay, Config, Faults, Latency, Limit, Limits, Profile, Stall, Work,
};

use crate::error::Error;

/// Flags as typed, by the names that `run` and `serve` have for them.
#[derive(Debug)]
pub(crate) struct Typed<'a> {
    /// Prefix of the flags' names: `--` or `--target-`.
    pub(crate) prefix: &'static str,
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    pub(crate) latency: Option<&'a Latency>,
    pub(crate) latency_per_in_flight: Option<AddedDelay>,
    pub(crate) handshake: Option<AddedDelay>,
    pub(crate) work: Option<Work>,
    pub(crate) stall: Option<Stall>,
    pub(crate) limits: &'a [Limit],
    pub(crate) faults: &'a [Faults],
}

impl Typed<'_> {
    /// The profile, with whatever else was typed in the place of its own.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        let profile = self
            .profile
            .config()
            .map_err(|error| self.usage("profile", &error))?;
        let limits = match self.limits {
            [] => profile.limits.clone(),
            typed => Limits::new(typed.to_vec()).map_err(|error| self.usage("limit", &error))?,
        };
        let faults = match self.faults {
            [] => profile.faults.clone(),
            typed => typed
                .iter()
                .try_fold(Faults::default(), Faults::and)
                .map_err(|error| self.usage("fault", &error))?,
        };
        Ok(Config {
            seed: self.seed,
            latency: self.latency.unwrap_or(&profile.latency).clone(),
            latency_per_in_flight: self
                .latency_per_in_flight
                .unwrap_or(profile.latency_per_in_flight),
            handshake: self.handshake.unwrap_or(profile.handshake),
            work: self.work.unwrap_or(profile.work),
            stall: self.stall.or(profile.stall),
            limits,
            faults,
            ..profile
        })
    }

    fn usage(&self, flag: &str, error: &dyn std::error::Error) -> Error {
        Error::Usage(format!("{}{flag}: {error}", self.prefix))
    }
}

/// Refuses more processes than a target may have, by the flag that says how many.
pub(crate) fn check_processes(flag: &str, processes: NonZeroUsize) -> Result<(), Error> {
    if processes.get() <= MAX_SHARDS as usize {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{flag} {processes} is out of range: 1 to {MAX_SHARDS}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Typed<'static> = Typed {
        prefix: "--target-",
        seed: 7,
        profile: Profile::Lab,
        latency: None,
        latency_per_in_flight: None,
        handshake: None,
        work: None,
        stall: None,
        limits: &[],
        faults: &[],
    };

    #[test]
    fn what_is_typed_replaces_that_part_of_the_profile_and_no_other() {
        let lab = Profile::Lab.config().unwrap();
        let plain = NOTHING.config().unwrap();
        assert_eq!(
            (plain.seed, &plain.latency, &plain.limits),
            (7, &lab.latency, &lab.limits)
        );
        let (latency, limits, faults) = (
            Latency::default(),
            ["5/s".parse().unwrap()],
            [Faults::default()],
        );
        let faster = Typed {
            latency: Some(&latency),
            ..NOTHING
        }
        .config()
        .unwrap();
        assert_eq!(
            (faster.latency, faster.limits, faster.faults),
            (latency, lab.limits.clone(), lab.faults.clone())
        );
        let article = Typed {
            profile: Profile::Article,
            ..NOTHING
        };
        let near = Typed {
            handshake: Some(AddedDelay::default()),
            ..article
        };
        let is_near = |typed: Typed<'_>| typed.config().unwrap().handshake.is_none();
        assert_eq!([article, near].map(is_near), [false, true]);
        let sterner = Typed {
            limits: &limits,
            faults: &faults,
            ..NOTHING
        }
        .config()
        .unwrap();
        assert_eq!(
            (sterner.limits.to_string().as_str(), sterner.faults),
            ("5/s", Faults::default())
        );
    }

    #[test]
    fn what_does_not_go_together_names_its_flag() {
        let limits = ["5/s:name=a", "6/s:name=a"].map(|limit| limit.parse().unwrap());
        let error = Typed {
            limits: &limits,
            ..NOTHING
        }
        .config()
        .unwrap_err()
        .to_string();
        assert!(
            error.starts_with("--target-limit: `a` is not a valid name"),
            "{error}"
        );
    }
}
