//! Settings of a workload that a result records beside the fields of its plan.
//!
//! A crawl fills the fields; what reads a result decides by them. Settings that nothing but people
//! read are recorded as typed. In JSON all of them are texts in one object, in the order of their
//! names.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU64, ParseIntError};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::IdRange;

/// Settings of a workload, as resolved. Never holds a secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadSettings {
    /// Length of the body of each request.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Limit on the time to open a connection.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub connect_timeout_us: Option<u64>,
    /// Form in which bodies are counted and saved; none is as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentForm>,
    /// Conditions for a good response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// Names of the headers that the user gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<String>,
    /// Lines of a list of URLs or requests.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Source addresses of the connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_ips: Option<String>,
    /// Methods of all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Order of a list; none is that of its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<ListOrder>,
    /// Source of the rate per host; none is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_host_rate_from: Option<HostRateSource>,
    /// Proxies, without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Source of their URLs. No part of the plan's hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_from: Option<ProxySource>,
    /// File of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_file: Option<String>,
    /// Limit on the requests of a connection.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<NonZeroU64>,
    /// Hosts whose robots.txt is obeyed; none is not any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robots: Option<RobotsRule>,
    /// True if requests have no place for the ID, so that every item requests the same.
    #[serde(with = "truth", skip_serializing_if = "truth::is_false")]
    pub same_request: bool,
    /// IDs that are requested in an order drawn from the seed.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<IdRange>,
    /// Behaviour of the bundled target; none of another target.
    #[serde(flatten)]
    pub bundled: Option<BundledSettings>,
    /// Certificates that the client trusts; none without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_trust: Option<TlsTrust>,
    /// Share of the IDs whose traces are to be recorded; none if no trace ids are sent.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub trace: Option<f64>,
    /// Number of the run in its trace ids. No part of the plan's hash.
    #[serde(with = "text", skip_serializing_if = "Option::is_none")]
    pub trace_run: Option<RunNumber>,
    /// File of URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls: Option<String>,
    /// Other settings, by name, as typed; all of those of a workload that is no crawl.
    #[serde(flatten)]
    pub as_typed: BTreeMap<String, String>,
}

impl WorkloadSettings {
    /// Return the settings without what differs between two runs of one plan: the source of the
    /// proxies' URLs, and the number of the run.
    #[must_use]
    pub fn without_origin(self) -> Self {
        Self {
            proxy_from: None,
            trace_run: None,
            ..self
        }
    }
}

/// Number of a run, which begins its trace ids. Displayed as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunNumber(pub u64);

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for RunNumber {
    type Err = ParseIntError;

    fn from_str(digits: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(digits, 16).map(Self)
    }
}

/// Form of a body that is counted and saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentForm {
    /// Without its compression.
    Decoded,
}

/// Order of the lines of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListOrder {
    /// Drawn by the weights of the lines.
    #[serde(rename = "by weight")]
    ByWeight,
}

/// Source of a rate per host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostRateSource {
    /// The `crawl-delay` of robots.txt.
    #[serde(rename = "crawl-delay of robots.txt")]
    CrawlDelay,
}

/// Use of robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsRule {
    /// Some hosts have rules that are obeyed.
    Honor,
}

/// Source of the URLs of proxies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxySource {
    /// The command line.
    #[serde(rename = "--proxy")]
    Flag,
    /// Variables of the environment, by name.
    #[serde(untagged)]
    Variables(String),
}

impl ProxySource {
    /// Return the variables; none of a source that the user typed.
    pub fn variables(&self) -> Option<&str> {
        match self {
            Self::Flag => None,
            Self::Variables(names) => Some(names),
        }
    }
}

impl fmt::Display for ProxySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variables().unwrap_or("--proxy"))
    }
}

/// Certificates that a client trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsTrust {
    /// Any: they are not verified.
    #[serde(rename = "none (--insecure)")]
    Unverified,
    /// Those of the bundled target's own authority.
    #[serde(rename = "the bundled target's authority")]
    Bundled,
    /// Those of the authorities that the system trusts.
    #[serde(rename = "the system's authorities")]
    System,
    /// Those of the authorities in a file, by the flag that names it.
    #[serde(untagged)]
    File(String),
}

/// Behaviour of the bundled target, each as its flag takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as those of the flags")]
pub struct BundledSettings {
    pub target_accept: String,
    pub target_bandwidth: String,
    pub target_events: String,
    pub target_faults: String,
    pub target_handshake: String,
    pub target_keep_alive: String,
    pub target_latency: String,
    pub target_latency_per_in_flight: String,
    pub target_limit: String,
    pub target_processes: String,
    pub target_profile: String,
    pub target_stall: String,
    pub target_work: String,
    pub target_workers: String,
}

/// Values that are texts in JSON.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(Error::custom)
    }
}

/// `true`, as a text in JSON.
mod truth {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    pub(super) const fn is_false(value: &bool) -> bool {
        !*value
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    pub(super) fn serialize<S: Serializer>(value: &bool, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_texts_in_one_object_and_no_key_is_lost() {
        let json = r#"{"body_bytes":"7","lines":"301","proxy_from":"http_proxy","same_request":"true","shuffle":"0..9","target_accept":"none","target_bandwidth":"none","target_events":"none","target_faults":"none","target_handshake":"100ms","target_keep_alive":"none","target_latency":"1ms","target_latency_per_in_flight":"none","target_limit":"none","target_processes":"2","target_profile":"plain","target_stall":"none","target_work":"none","target_workers":"none","tls_trust":"--cacert ca.pem","trace":"0.5","trace_run":"00000000000000ff","follow":"3","of a later version":"x"}"#;
        let settings: WorkloadSettings = serde_json::from_str(json).unwrap();
        let bundled = settings.bundled.clone().unwrap();
        assert_eq!(bundled.target_handshake, "100ms");
        assert_eq!(settings.lines, Some(301));
        assert_eq!(
            settings.tls_trust,
            Some(TlsTrust::File("--cacert ca.pem".to_owned()))
        );
        assert_eq!(settings.as_typed.len(), 2);
        assert_eq!(serde_json::to_string(&settings).unwrap(), json);
        let none = WorkloadSettings::default();
        assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
        let trust: TlsTrust = serde_json::from_str("\"none (--insecure)\"").unwrap();
        assert_eq!(trust, TlsTrust::Unverified);
        assert!(serde_json::from_str::<WorkloadSettings>(r#"{"lines":"many"}"#).is_err());
    }
}
