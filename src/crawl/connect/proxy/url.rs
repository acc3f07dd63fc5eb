//! URL of a proxy as typed: `http://USER:PASS@HOST:PORT`, with `{session}` in user name or
//! password, and `,weight=N` at its end; and the label that replaces `{session}` for each connection.
//!
//! It must not resolve a name, and no text or error may repeat credentials: what cannot be read is
//! not quoted.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crawlmark_harness::units::IdRange;
use http::uri::Authority;
use percent_encoding::percent_decode_str;

use crate::ids::Shuffle;

/// Greatest weight of a proxy.
const MOST_WEIGHT: u32 = 1000;

/// Longest user name or password, bytes: the limit of SOCKS5 (RFC 1929).
const MOST_BYTES: usize = 255;

/// Protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP: requests in absolute form, CONNECT for https.
    Http,
    /// SOCKS5, with addresses that this machine looks up.
    Socks5,
    /// SOCKS5, with names that the proxy looks up.
    Socks5h,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Http, Self::Socks5, Self::Socks5h];

    /// Scheme of its URLs.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }
}

/// URL of a proxy. Neither its text nor its debug output has the credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// Protocol of the proxy.
    pub protocol: Protocol,
    /// Name or address of the proxy, without brackets.
    pub host: String,
    /// Port of the proxy.
    pub port: u16,
    credentials: Option<[SessionTemplate; 2]>,
    /// Weight among other proxies, 1 to 1000.
    pub weight: u32,
}

/// User name and password of a connection.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Reason why a text is no URL of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyUrlError {
    /// No scheme, or another one.
    #[error(
        "the URL of a proxy begins with http://, socks5:// or socks5h://, as in http://127.0.0.1:3128; TLS to the proxy (https://) is not \
         supported"
    )]
    Scheme,
    /// No host, no port, or something after it.
    #[error(
        "the URL of a proxy ends with its host and a port from 1 to 65535, as in http://127.0.0.1:3128: only ,weight=N may follow, with N \
         from 1 to {MOST_WEIGHT}"
    )]
    Place,
    /// A placeholder that cannot be read.
    #[error(
        "a {{session...}} in the URL of the proxy cannot be read: write {{session}}, {{session:LENGTH}} or {{session:LENGTH:ALPHABET}}, with a \
         length from 1 to 10 and an alphabet of lower, mixed, hex and digits"
    )]
    Placeholder,
    /// Credentials that cannot be sent.
    #[error(
        "the user name or password of the proxy cannot be sent: use at most {MOST_BYTES} bytes for each, without control characters, and a \
         user name that is not empty. socks5 needs a password, too; http:// takes no colon in the user name. Write %2F, %3F and %23 for /, ? and #"
    )]
    Credentials,
}

impl ProxyUrl {
    /// True if the credentials have a place for a session label.
    #[must_use]
    pub fn has_session(&self) -> bool {
        self.credentials
            .iter()
            .flatten()
            .any(SessionTemplate::has_label)
    }

    /// True if the proxy is given names of targets rather than addresses.
    #[must_use]
    pub const fn resolves_names(&self) -> bool {
        !matches!(self.protocol, Protocol::Socks5)
    }

    /// Parts of user name and password, which nothing that is saved or shown may repeat.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.credentials
            .iter()
            .flatten()
            .flat_map(SessionTemplate::texts)
    }

    /// Return user name and password of a session.
    pub(crate) fn credentials(&self, seed: u64, session: u64) -> Option<Credentials> {
        let [user, password] = self.credentials.as_ref()?;
        Some(Credentials {
            user: user.expand(seed, session),
            password: password.expand(seed, session),
        })
    }
}

impl FromStr for ProxyUrl {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(ProxyUrlError::Scheme)?;
        let protocol = Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.scheme().eq_ignore_ascii_case(scheme))
            .ok_or(ProxyUrlError::Scheme)?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((credentials, rest)) => (Some(patterns(credentials, protocol)?), rest),
        };
        let (place, weight) = rest.split_once(",weight=").unwrap_or((rest, "1"));
        let weight = weight
            .parse()
            .ok()
            .filter(|weight| (1..=MOST_WEIGHT).contains(weight));
        let place: Authority = place
            .strip_suffix('/')
            .unwrap_or(place)
            .parse()
            .map_err(|_| ProxyUrlError::Place)?;
        let host = place.host().trim_matches(['[', ']']);
        if host.is_empty() || host.contains(',') {
            return Err(ProxyUrlError::Place);
        }
        let port = place.port_u16().filter(|port| *port > 0);
        Ok(Self {
            protocol,
            host: host.to_owned(),
            port: port.ok_or(ProxyUrlError::Place)?,
            credentials,
            weight: weight.ok_or(ProxyUrlError::Place)?,
        })
    }
}

/// Parse user name and password, in which `%40` is an `@`.
fn patterns(text: &str, protocol: Protocol) -> Result<[SessionTemplate; 2], ProxyUrlError> {
    if text.contains(['/', '?', '#']) {
        return Err(ProxyUrlError::Credentials);
    }
    // Colons within braces are of a placeholder.
    let mut is_within = false;
    let (user, password) = text
        .find(|c| {
            is_within = c == '{' || (is_within && c != '}');
            c == ':' && !is_within
        })
        .map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
    let [user, password] = [user, password].map(|text| {
        let text = percent_decode_str(text)
            .decode_utf8()
            .map_err(|_| ProxyUrlError::Credentials)?;
        SessionTemplate::parse(&text).ok_or(ProxyUrlError::Placeholder)
    });
    let patterns = [user?, password?];
    let [user, password] = [0, 1].map(|at: usize| patterns[at].expand(0, 0));
    let is_bad = [&user, &password]
        .iter()
        .any(|text| text.len() > MOST_BYTES || text.contains(char::is_control));
    let has_colon = protocol == Protocol::Http && user.contains(':');
    if user.is_empty() || has_colon || is_bad {
        return Err(ProxyUrlError::Credentials);
    }
    // SOCKS5 has no empty password (RFC 1929).
    if protocol != Protocol::Http && password.is_empty() {
        return Err(ProxyUrlError::Credentials);
    }
    Ok(patterns)
}

/// As it may be shown and saved: without credentials.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.credentials.is_some() {
            "...@"
        } else {
            ""
        };
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        write!(
            f,
            "{}://{credentials}{host}:{}",
            self.protocol.scheme(),
            self.port
        )?;
        if self.weight == 1 {
            Ok(())
        } else {
            write!(f, ",weight={}", self.weight)
        }
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Connections that share a session (`--session`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Session {
    /// Each connection has its own.
    #[default]
    PerConnection,
    /// Each connection has its own and carries one request.
    PerRequest,
    /// Number of sessions that connections use in turn.
    Sticky(NonZeroU32),
}

impl Session {
    /// Return the number of the session of connection number `turn`.
    pub(crate) fn number(self, turn: u64) -> u64 {
        match self {
            Self::PerConnection | Self::PerRequest => turn,
            Self::Sticky(sessions) => turn % u64::from(sessions.get()),
        }
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerConnection => f.write_str("per-connection"),
            Self::PerRequest => f.write_str("per-request"),
            Self::Sticky(sessions) => write!(f, "sticky={sessions}"),
        }
    }
}

impl FromStr for Session {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sticky = text.strip_prefix("sticky=");
        match text {
            "per-connection" => Ok(Self::PerConnection),
            "per-request" => Ok(Self::PerRequest),
            _ => sticky
                .and_then(|n| n.parse().ok())
                .map(Self::Sticky)
                .ok_or_else(|| {
                    format!(
                        "`{text}` is none of per-connection, per-request and sticky=N, where N sessions are used in turn"
                    )
                }),
        }
    }
}

/// Placeholders begin with it: `{session}`, `{session:16}`, `{session:8:digits}`.
const PLACE: &str = "{session";

/// Alphabets of labels, by name; the first is the default.
const ALPHABETS: [(&str, &[u8]); 4] = [
    ("lower", b"abcdefghijklmnopqrstuvwxyz0123456789"),
    (
        "mixed",
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    ),
    ("hex", b"0123456789abcdef"),
    ("digits", b"0123456789"),
];

/// Default and greatest length of a label: with it, labels of each alphabet can be counted in 64
/// bits.
const LENGTH: u32 = 10;

/// A text with places for session labels.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionTemplate(Vec<SessionTemplatePart>);

#[derive(Clone, PartialEq, Eq)]
enum SessionTemplatePart {
    Text(String),
    Label {
        length: u32,
        alphabet: &'static [u8],
    },
}

impl SessionTemplate {
    /// Parse a text; none if a placeholder in it cannot be read.
    pub(crate) fn parse(mut text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        while let Some((before, rest)) = text.split_once(PLACE) {
            let (form, after) = rest.split_once('}')?;
            parts.extend([
                SessionTemplatePart::Text(before.to_owned()),
                label_form(form)?,
            ]);
            text = after;
        }
        parts.push(SessionTemplatePart::Text(text.to_owned()));
        Some(Self(parts))
    }

    /// True if it has a place for a label.
    pub(crate) fn has_label(&self) -> bool {
        self.0
            .iter()
            .any(|part| matches!(part, SessionTemplatePart::Label { .. }))
    }

    /// Parts that are no label.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            SessionTemplatePart::Text(text) => Some(&**text),
            SessionTemplatePart::Label { .. } => None,
        })
    }

    /// Return the text with the labels of a session.
    pub(crate) fn expand(&self, seed: u64, session: u64) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                SessionTemplatePart::Text(part) => text.push_str(part),
                SessionTemplatePart::Label { length, alphabet } => {
                    push_label(&mut text, *length, alphabet, seed, session);
                }
            }
        }
        text
    }
}

/// Parse what follows `{session`: nothing, `:LENGTH`, or `:LENGTH:ALPHABET`.
fn label_form(form: &str) -> Option<SessionTemplatePart> {
    let mut words = form.split(':');
    if !words.next()?.is_empty() {
        return None;
    }
    let length = words.next().map_or(Some(LENGTH), |word| {
        word.parse().ok().filter(|n| (1..=LENGTH).contains(n))
    })?;
    let (_, alphabet) = words.next().map_or(ALPHABETS.first(), |word| {
        ALPHABETS.iter().find(|(name, _)| *name == word)
    })?;
    words
        .next()
        .is_none()
        .then_some(SessionTemplatePart::Label { length, alphabet })
}

/// Append the label of a session. Labels differ until there is no other one left; those of
/// neighbours do not look alike.
fn push_label(text: &mut String, length: u32, alphabet: &[u8], seed: u64, session: u64) {
    let base = alphabet.len() as u64;
    let all = IdRange {
        start: 0,
        end: base.pow(length),
    };
    let mut number = Shuffle::new(all, seed).id(session % all.end);
    for _ in 0..length {
        let digit = usize::try_from(number % base).unwrap_or(0);
        text.push(char::from(alphabet[digit]));
        number /= base;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_is_read_and_shown_without_its_credentials() {
        for (text, shown, credentials) in [
            ("http://127.0.0.1:3128", "http://127.0.0.1:3128", None),
            ("HTTP://a.example:80/", "http://a.example:80", None),
            (
                "socks5://[::1]:1080,weight=3",
                "socks5://[::1]:1080,weight=3",
                None,
            ),
            ("socks5h://u:p@h:1", "socks5h://...@h:1", Some(("u", "p"))),
            (
                "http://u@h:1/,weight=2",
                "http://...@h:1,weight=2",
                Some(("u", "")),
            ),
            ("http://u:p:a@b@h:1", "http://...@h:1", Some(("u", "p:a@b"))),
            (
                "http://u%2dx:%40%3a%25@h:1",
                "http://...@h:1",
                Some(("u-x", "@:%")),
            ),
            (
                "socks5://a%3Ab:p@h:1",
                "socks5://...@h:1",
                Some(("a:b", "p")),
            ),
        ] {
            let url: ProxyUrl = text.parse().unwrap();
            assert_eq!(
                (url.to_string(), format!("{url:?}")),
                (shown.to_owned(), shown.to_owned())
            );
            let found = url.credentials(0, 0).map(|both| (both.user, both.password));
            assert_eq!(
                found,
                credentials.map(|(user, password)| (user.to_owned(), password.to_owned())),
                "{text}"
            );
            assert!(!url.has_session());
        }
        let url: ProxyUrl = "http://u-{session:4:digits}:p{session:2:hex}@h:1"
            .parse()
            .unwrap();
        let credentials = url.credentials(1, 7).unwrap();
        assert!(
            url.has_session() && credentials.user.starts_with("u-") && credentials.user.len() == 6
        );
        assert!(credentials.password.starts_with('p') && credentials.password.len() == 3);
        assert_eq!(url.secrets().collect::<Vec<_>>(), ["u-", "", "p", ""]);
    }

    #[test]
    fn other_texts_are_refused_by_their_flaw() {
        use ProxyUrlError as Flaw;
        let long = format!("http://{}@h:1", "x".repeat(256));
        for (flaw, texts) in [
            (Flaw::Scheme, &["", "127.0.0.1:3128", "https://h:1"][..]),
            (
                Flaw::Place,
                &[
                    "http://:3128",
                    "http://a b:3128",
                    "http://[::1:3128",
                    "http://h",
                    "http://h:0",
                    "http://h:65536",
                    "http://::1:3128",
                    "http://user:pass",
                    "http://h:1/path",
                    "http://h:1,weight=0",
                    "http://h:1,2",
                ],
            ),
            (Flaw::Placeholder, &["http://{session:x}@h:1"]),
            (
                Flaw::Credentials,
                &[
                    "http://:p@h:1",
                    "http://a%3ab:p@h:1",
                    "http://u:a%0db@h:1",
                    "http://u:1/2@h:1",
                    "socks5://u@h:1",
                    &long,
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(text.parse::<ProxyUrl>().unwrap_err(), flaw, "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", tail in "[{}:@%/,a-z0-9]{0,30}") {
            drop(text.parse::<ProxyUrl>());
            drop(format!("http://{tail}").parse::<ProxyUrl>());
        }
    }
}

#[cfg(test)]
mod session_tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_have_their_form_and_are_distinct(
            seed: u64, first in 0..u64::MAX / 2, length in 2..=LENGTH, which in 0..ALPHABETS.len(),
        ) {
            let (name, alphabet) = ALPHABETS[which];
            let pattern = SessionTemplate::parse(&format!("a-{{session:{length}:{name}}}-{{x}}{{session}}")).unwrap();
            let labels: BTreeSet<String> = (first..first + 100).map(|session| {
                let text = pattern.expand(seed, session);
                let label = text.strip_prefix("a-").unwrap().split('-').next().unwrap().to_owned();
                assert!(label.len() == length as usize && label.bytes().all(|byte| alphabet.contains(&byte)), "{text}");
                assert!(text[3 + label.len()..].starts_with("{x}") && text.len() == 6 + label.len() + LENGTH as usize);
                label
            }).collect();
            prop_assert_eq!(labels.len(), 100);
        }
    }

    #[test]
    fn a_session_is_of_a_connection_or_shared_by_turns() {
        let numbers = |text: &str| {
            (5..8)
                .map(|turn| text.parse::<Session>().unwrap().number(turn))
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers("per-connection"), [5, 6, 7]);
        assert_eq!(numbers("per-request"), [5, 6, 7]);
        assert_eq!(numbers("sticky=3"), [2, 0, 1]);
        for text in ["", "sticky", "sticky=0", "sticky=-1", "request"] {
            assert!(
                text.parse::<Session>().unwrap_err().contains("sticky=N"),
                "{text}"
            );
        }
        for text in [
            "{session",
            "{session:0}",
            "{session:11}",
            "{session:8:greek}",
            "{session:8:hex:1}",
            "{sessions}",
        ] {
            assert!(SessionTemplate::parse(text).is_none(), "{text}");
        }
    }
}
