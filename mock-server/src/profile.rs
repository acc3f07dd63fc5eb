//! Profiles: targets by name, so that two people who crawl `residential` crawl the same target.
//!
//! A profile is a set of options, written as on the command line; it must not do anything that
//! options cannot.

use crate::config::Config;
use crate::limit::{Limit, Limits};
use crate::setting::SettingError;
use std::fmt;
use std::str::FromStr;

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

impl Profile {
    /// All of them, in the order of their descriptions.
    pub const ALL: [Self; 7] = [
        Self::Null,
        Self::Datacenter,
        Self::Residential,
        Self::Mobile,
        Self::Static,
        Self::Lab,
        Self::Article,
    ];

    /// Return the name that is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.settings()[0]
    }

    /// Return the behaviour of a target of this profile.
    ///
    /// # Errors
    ///
    /// None: what is written here is tested. The type says so where the compiler cannot.
    pub fn config(self) -> Result<Config, SettingError> {
        let [_, latency, handshake, limit, faults] = self.settings();
        let limits = if limit.is_empty() {
            Vec::new()
        } else {
            vec![limit.parse::<Limit>()?]
        };
        Ok(Config {
            latency: latency.parse()?,
            handshake: handshake.parse()?,
            limits: Limits::new(limits)?,
            faults: faults.parse()?,
            ..Config::default()
        })
    }

    /// Name, latency, handshake, limit and faults, as the flags take them.
    const fn settings(self) -> [&'static str; 5] {
        const POOL_50: &str = "concurrency:50:key=everyone:name=pool";
        const POOL_100: &str = "concurrency:100:key=everyone:name=pool";
        const POOL_200: &str = "concurrency:200:key=everyone:name=pool";
        match self {
            Self::Null => ["null", "none", "0s", "", "none"],
            Self::Datacenter => [
                "datacenter",
                "lognormal:85ms,0.25,2s",
                "0s",
                POOL_200,
                "none",
            ],
            Self::Residential => [
                "residential",
                "lognormal:250ms,0.45,10s",
                "0s",
                POOL_100,
                "none",
            ],
            Self::Mobile => ["mobile", "lognormal:315ms,0.55,15s", "0s", POOL_50, "none"],
            Self::Static => [
                "static",
                "lognormal:85ms,0.25,2s",
                "0s",
                "concurrency:50:name=per-address",
                "none",
            ],
            Self::Lab => {
                let limit = "bucket:40/min:burst=10:headers=x-ratelimit";
                [
                    "lab",
                    "lognormal:600ms,0.5,5s",
                    "0s",
                    limit,
                    "error:0.03:503",
                ]
            }
            Self::Article => [
                "article",
                "lognormal:60ms,0.3,1s",
                "100ms",
                "20/s:burst=40:name=per-address",
                "none",
            ],
        }
    }
}

impl FromStr for Profile {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let found = Self::ALL
            .into_iter()
            .find(|profile| profile.name() == given);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            SettingError::new(format!(
                "`{given}` is not a valid profile: write one of {names}"
            ))
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_profile_is_one_and_has_its_name() {
        for profile in Profile::ALL {
            let config = profile.config().unwrap();
            config.check().unwrap();
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(
                config.handshake.is_none(),
                profile != Profile::Article,
                "{profile}"
            );
            // Written as the options write themselves: nothing is lost on the way.
            assert_eq!(
                config.latency.to_string().parse(),
                Ok(config.latency.clone()),
                "{profile}"
            );
        }
        let error = "tor".parse::<Profile>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`tor` is not a valid profile: write one of null, datacenter, residential, mobile, static, lab, article"
        );
    }

    #[test]
    fn medians_are_where_practitioners_see_them() {
        let seen = [
            (Profile::Datacenter, 60, 120),
            (Profile::Residential, 180, 350),
            (Profile::Mobile, 200, 500),
            (Profile::Static, 60, 120),
        ];
        for (profile, from_ms, to_ms) in seen {
            let latency = profile.config().unwrap().latency;
            let mut holds: Vec<Duration> = (0..1001).map(|id| latency.hold(1, id, 0)).collect();
            holds.sort_unstable();
            let range = Duration::from_millis(from_ms)..Duration::from_millis(to_ms);
            assert!(range.contains(&holds[500]), "{profile}: {:?}", holds[500]);
        }
    }

    #[test]
    fn null_is_the_default_target() {
        let (null, plain) = (Profile::Null.config().unwrap(), Config::default());
        assert_eq!(
            (null.latency, null.limits, null.faults),
            (plain.latency, plain.limits, plain.faults)
        );
        assert_eq!(null.handshake, plain.handshake);
    }
}
