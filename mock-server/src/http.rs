//! Versions of HTTP that a target speaks. The command line reads it, TLS offers it, the server goes
//! by it.
//!
//! It must not know how either version works.

use crate::setting::{SettingError, choice, word};
use std::fmt;
use std::str::FromStr;

/// The versions that connections may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// Both: with TLS the client chooses (ALPN), without it the first bytes tell (prior knowledge,
    /// RFC 9113, 3.3).
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
}

impl Http {
    /// Return what a TLS handshake offers, the preferred first (RFC 7301).
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let offered: &[&[u8]] = match self {
            Self::Auto => &[b"h2", b"http/1.1"],
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
        };
        offered.iter().map(|name| name.to_vec()).collect()
    }
}

/// Versions as they are typed.
const VERSIONS: [(&str, Http); 3] = [
    ("1.1", Http::Http1),
    ("2", Http::Http2),
    ("auto", Http::Auto),
];

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&VERSIONS, self))
    }
}

impl FromStr for Http {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        choice("the version of HTTP", &VERSIONS, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_reads_as_it_is_written() {
        for (text, http, offered) in [
            ("auto", Http::Auto, &["h2", "http/1.1"][..]),
            ("1.1", Http::Http1, &["http/1.1"]),
            ("2", Http::Http2, &["h2"]),
        ] {
            assert_eq!(
                (text.parse(), http.to_string()),
                (Ok(http), text.to_owned())
            );
            assert_eq!(
                http.alpn(),
                offered
                    .iter()
                    .map(|name| name.as_bytes().to_vec())
                    .collect::<Vec<_>>()
            );
        }
        for text in ["", "1", "1.0", "2.0", "3", "Auto", "h2"] {
            let error = text.parse::<Http>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
