//! Sessions of a rotating proxy: `{session}` in its user name or password, and the label that
//! replaces it for each connection.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crawlmark_harness::units::IdRange;

use crate::crawl::ids::Shuffle;

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
    pub(super) fn number(self, turn: u64) -> u64 {
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
        let sticky = || text.strip_prefix("sticky=")?.parse().ok().map(Self::Sticky);
        match text {
            "per-connection" => Ok(Self::PerConnection),
            "per-request" => Ok(Self::PerRequest),
            _ => sticky().ok_or_else(|| {
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
pub(super) struct SessionTemplate(Vec<SessionTemplatePart>);

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
    pub(super) fn parse(mut text: &str) -> Option<Self> {
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
    pub(super) fn has_label(&self) -> bool {
        self.0
            .iter()
            .any(|part| matches!(part, SessionTemplatePart::Label { .. }))
    }

    /// Parts that are no label.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            SessionTemplatePart::Text(text) => Some(&**text),
            SessionTemplatePart::Label { .. } => None,
        })
    }

    /// Return the text with the labels of a session.
    pub(super) fn expand(&self, seed: u64, session: u64) -> String {
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
    let named = |word| ALPHABETS.iter().find(|(name, _)| *name == word);
    let (_, alphabet) = words.next().map_or(ALPHABETS.first(), named)?;
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
