//! Rules of `--connect-to HOST:PORT:ADDRESS:PORT`: connect to another address than the URL's host,
//! as curl's flag does.
//!
//! The request and TLS still name the URL's host. It must not resolve names.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;

use crate::crawl::requests::host::Host;

/// A redirection of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTo {
    /// Host of the URL; none matches any.
    host: Option<String>,
    /// Port of the URL; none matches any.
    port: Option<u16>,
    /// Host to connect to; none for that of the URL.
    to_host: Option<String>,
    /// Port to connect to; none for that of the URL.
    to_port: Option<u16>,
    /// The rule as given.
    text: String,
}

impl ConnectTo {
    /// True if connections to `host` are redirected.
    #[must_use]
    pub fn is_for(&self, host: &Host) -> bool {
        self.host
            .as_ref()
            .is_none_or(|name| name.eq_ignore_ascii_case(host.name()))
            && self.port.is_none_or(|port| port == host.port)
    }

    /// Host and port to connect to instead of those of `host`.
    #[must_use]
    pub fn destination<'a>(&'a self, host: &'a Host) -> (&'a str, u16) {
        (
            self.to_host.as_deref().unwrap_or(host.local_name()),
            self.to_port.unwrap_or(host.port),
        )
    }
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| {
            format!(
                "`{text}` is not HOST:PORT:ADDRESS:PORT, as in www.example.com:443:127.0.0.1:8443; a part may be empty"
            )
        })
    }
}

impl ConnectTo {
    fn read(text: &str) -> Option<Self> {
        let parts = PARTS.captures(text)?;
        Some(Self {
            host: host(&parts["host"]),
            port: port(&parts["port"])?,
            to_host: host(&parts["to"]),
            to_port: port(&parts["to_port"])?,
            text: text.to_owned(),
        })
    }
}

/// Return a host as those of URLs are named, without brackets; none of an empty part.
fn host(part: &str) -> Option<String> {
    let name = part.trim_matches(['[', ']']);
    let ascii = url::Host::parse(name).map_or_else(|_| name.to_owned(), |host| host.to_string());
    Some(ascii).filter(|_| !name.is_empty())
}

/// Parse a port.
#[expect(clippy::option_option, reason = "no port, and a part that is none")]
fn port(part: &str) -> Option<Option<u16>> {
    if part.is_empty() {
        return Some(None);
    }
    Some(Some(part.parse().ok().filter(|port| *port > 0)?))
}

/// The parts of a rule.
#[expect(clippy::expect_used, reason = "a pattern that is known to be valid")]
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"(\[[^\]]*\]|[^:\[\]]*)";
    let pattern = format!("^(?<host>{part}):(?<port>[^:]*):(?<to>{part}):(?<to_port>[^:]*)$");
    Regex::new(&pattern).expect("a valid pattern")
});

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::Targets;
    use crate::crawl::Template;

    #[test]
    fn a_host_is_redirected_by_name_and_port() {
        let targets = Targets::one(&"https://a.example/".parse::<Template>().unwrap()).unwrap();
        let host = &targets.hosts()[0];
        for (text, destination) in [
            ("a.example:443:127.0.0.1:8443", Some(("127.0.0.1", 8443))),
            ("A.example::[::1]:", Some(("::1", 443))),
            ("::b.example:81", Some(("b.example", 81))),
            (":443::81", Some(("a.example", 81))),
            ("a.example:444:127.0.0.1:1", None),
            ("b.example:443:127.0.0.1:1", None),
        ] {
            let rule: ConnectTo = text.parse().unwrap();
            assert_eq!(
                rule.is_for(host).then(|| rule.destination(host)),
                destination,
                "{text}"
            );
        }
        for text in [
            "",
            "a",
            "a:1",
            "a:1:b",
            "a:1:b:2:3",
            "a:x:b:2",
            "a:1:b:0",
            "a:1:[::1:2",
            "a:1:b:99999",
        ] {
            assert!(
                text.parse::<ConnectTo>()
                    .unwrap_err()
                    .contains("HOST:PORT:ADDRESS:PORT"),
                "{text}"
            );
        }
    }
}
