//! Profiles: targets by name, so that two people who crawl `residential` crawl the same target.
//!
//! A profile is a set of options, written as on the command line; it must not do anything that
//! options cannot.

use crate::config::Config;
use crate::limit::{Limit, Limits};
use crate::text::{SettingError, from_text};
use std::fmt;

/// A kind of service that is crawled, or of pool through which it is.
///
/// Latencies are log-normal: real ones roughly are, with few answers much faster than the median
/// and some much slower. A median is the geometric mean of the range in which practitioners see it,
/// a cap the upper end of the concurrency that they start with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Everything at once, nothing limited: what is measured is the client.
    #[default]
    Null,
    /// A rotating pool of datacenter proxies: a median of 60 to 120 ms, 200 requests at once.
    Datacenter,
    /// A rotating pool of residential proxies: a median of 180 to 350 ms, 100 requests at once.
    Residential,
    /// A pool of mobile proxies: a median of 200 to 500 ms, 50 requests at once.
    Mobile,
    /// Datacenter addresses of one's own: a median of 60 to 120 ms, 50 requests at once from each
    /// address.
    Static,
    /// An exercise of 200 URLs: 8 in flight and 30 requests a minute nearly all succeed at first
    /// try, 50 in flight and 100 a minute do not. It lets 40 a minute through, 10 at once, and
    /// fails 3 of 100 for no reason.
    Lab,
    /// An API that answers within some 60 ms and limits each address, IPv6 by the whole of it: 20 a
    /// second, 40 at once. Faster clients there have more addresses. A new connection costs 100 ms:
    /// the climb that this retells did 5.83 requests a second one after another on a connection
    /// each, 171 ms for one, and 282 a second on 20 connections that were kept, 71 ms for one.
    Article,
}

/// What a profile is made of, as the flags take it.
#[derive(Clone, Copy)]
struct Options {
    profile: Profile,
    name: &'static str,
    latency: &'static str,
    handshake: &'static str,
    limit: &'static str,
    faults: &'static str,
}

const NULL: Options = Options {
    profile: Profile::Null,
    name: "null",
    latency: "none",
    handshake: "0s",
    limit: "",
    faults: "none",
};

const PROFILES: [Options; 7] = [
    NULL,
    Options {
        profile: Profile::Datacenter,
        name: "datacenter",
        latency: "lognormal:85ms,0.25,2s",
        limit: "concurrency:200:key=everyone:name=pool",
        ..NULL
    },
    Options {
        profile: Profile::Residential,
        name: "residential",
        latency: "lognormal:250ms,0.45,10s",
        limit: "concurrency:100:key=everyone:name=pool",
        ..NULL
    },
    Options {
        profile: Profile::Mobile,
        name: "mobile",
        latency: "lognormal:315ms,0.55,15s",
        limit: "concurrency:50:key=everyone:name=pool",
        ..NULL
    },
    Options {
        profile: Profile::Static,
        name: "static",
        latency: "lognormal:85ms,0.25,2s",
        limit: "concurrency:50:name=per-address",
        ..NULL
    },
    Options {
        profile: Profile::Lab,
        name: "lab",
        latency: "lognormal:600ms,0.5,5s",
        limit: "bucket:40/min:burst=10:headers=x-ratelimit",
        faults: "error:0.03:503",
        ..NULL
    },
    Options {
        profile: Profile::Article,
        name: "article",
        latency: "lognormal:60ms,0.3,1s",
        handshake: "100ms",
        limit: "20/s:burst=40:name=per-address",
        ..NULL
    },
];

from_text!(
    Profile,
    "profile",
    format!("one of {}", PROFILES.map(|options| options.name).join(", "))
);

impl Profile {
    fn read(text: &str) -> Option<Self> {
        PROFILES
            .iter()
            .find(|options| options.name == text)
            .map(|options| options.profile)
    }

    fn options(self) -> Options {
        let found = PROFILES.iter().find(|options| options.profile == self);
        *found.unwrap_or(&NULL)
    }

    /// Return the behaviour of a target of this profile.
    ///
    /// # Errors
    ///
    /// None: what is written here is tested. The type says so where the compiler cannot.
    pub fn config(self) -> Result<Config, SettingError> {
        let options = self.options();
        let limits = match options.limit {
            "" => Vec::new(),
            limit => vec![limit.parse::<Limit>()?],
        };
        Ok(Config {
            latency: options.latency.parse()?,
            handshake: options.handshake.parse()?,
            limits: Limits::new(limits)?,
            faults: options.faults.parse()?,
            ..Config::default()
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.options().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_one_and_has_its_name() {
        for Options { profile, name, .. } in PROFILES {
            let config = profile.config().unwrap();
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(
                config.handshake.is_none(),
                profile != Profile::Article,
                "{profile}"
            );
        }
        assert!("tor".parse::<Profile>().is_err());
    }
}
