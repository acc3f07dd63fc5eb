//! Faults of responses: their kinds and shares. The server calls [`Faults::pick`] for every
//! admitted item, and a client may call it to know which fault it should have seen.
//!
//! It must not act on what it picks, and a pick must stay a pure function of (seed, id, attempt): a
//! retry of an item may succeed, and is as predictable.

use crate::draw::{Draws, Stream};
use crate::latency::MAX_HOLD;
use crate::text::{SettingError, duration, share};
use std::fmt;
use std::mem::discriminant;
use std::str::FromStr;
use std::time::Duration;

/// Fault of one answer. Each is written as its [`Fault::name`], with `-` for `_`.
///
/// Those that no HTTP library would send end the connection under it: the answer, or what there is
/// of it, goes out as bare bytes. A connection that speaks HTTP/2 carries other requests, too, so
/// that their fault there is a reset of the stream instead, and [`Fault::Silence`] a stream that is
/// never answered.
///
/// An answer to HEAD goes wrong in its head only: it has no body that could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed without a byte.
    Drop,
    /// The answer has this status, 500 to 599, and a body that names no item. It is written
    /// `error`.
    Status(u16),
    /// The connection is reset.
    Reset,
    /// A head with status 200 that promises chunks, bytes that are no chunk, and the end of the
    /// connection.
    MalformedChunk,
    /// Bytes that are not HTTP, and the end of the connection.
    Garbage,
    /// The whole head, half of the body that it promises, and the end of the connection.
    Truncated,
    /// The good answer, its body in ten pieces: the first at once, the last after this time.
    Drip(Duration),
    /// Nothing, until the client leaves.
    Silence,
    /// Status 302 and a place below `/moved`, where the same item is. What is asked for there is
    /// redirected no more: a redirect that is drawn for it is not committed, nor counted.
    Redirect,
    /// The good answer, and a goodbye in its head: the connection ends behind it. HTTP/2 has no
    /// such goodbye, and an answer there is just good.
    Close,
    /// A challenge page as those of content networks: HTML with this status, 200, 403 or 429, and
    /// `cf-mitigated: challenge`.
    Challenge(u16),
    /// The good answer behind a header whose value has this many bytes.
    HugeHeaders(u64),
    /// The good answer, its body filled with blanks up to this many bytes.
    HugeBody(u64),
    /// The good answer with a `Content-Length` of half its body, all of its body, and the end of
    /// the connection.
    ShortLength,
    /// The good answer with a `Content-Length` of twice its body, and nothing more until the client
    /// leaves.
    LongLength,
    /// The good answer, its head and its body in a write of its own each. With this fault the
    /// connections do without `TCP_NODELAY`, so that the body waits until the client acknowledges the
    /// head (Nagle's algorithm).
    Nagle,
}

/// All kinds of faults: key in the ledger, fault with its usual parameter, and how a parameter is
/// written.
pub(crate) const KINDS: [(&str, Fault, &str); 16] = [
    ("drop", Fault::Drop, ""),
    ("error", Fault::Status(500), "[:STATUS of 500 to 599]"),
    ("reset", Fault::Reset, ""),
    ("malformed_chunk", Fault::MalformedChunk, ""),
    ("garbage", Fault::Garbage, ""),
    ("truncated", Fault::Truncated, ""),
    (
        "drip",
        Fault::Drip(Duration::from_secs(1)),
        "[:TIME above 0 and up to 1h]",
    ),
    ("silence", Fault::Silence, ""),
    ("redirect", Fault::Redirect, ""),
    ("close", Fault::Close, ""),
    ("challenge", Fault::Challenge(403), "[:200, 403 or 429]"),
    (
        "huge_headers",
        Fault::HugeHeaders(64 << 10),
        "[:SIZE of 1k to 16m]",
    ),
    (
        "huge_body",
        Fault::HugeBody(8 << 20),
        "[:SIZE of 1k to 16g]",
    ),
    ("short_length", Fault::ShortLength, ""),
    ("long_length", Fault::LongLength, ""),
    ("nagle", Fault::Nagle, ""),
];

/// The most that a header is filled up to: more than any client reads.
const MAX_HEADERS: u64 = 16 << 20;

/// The most that a body is filled up to.
const MAX_BODY: u64 = 16 << 30;

impl Fault {
    /// Position of the fault's counter in the ledger, and of its share among the others'.
    pub(crate) fn index(self) -> usize {
        KINDS
            .iter()
            .position(|row| discriminant(&row.1) == discriminant(&self))
            .unwrap_or_default()
    }

    /// Return the fault's key in the ledger.
    pub fn name(self) -> &'static str {
        KINDS[self.index()].0
    }

    /// Return the fault of this kind with the parameter in a text; none if it is out of bounds.
    fn with(self, text: &str) -> Option<Self> {
        Some(match self {
            Self::Status(_) => Self::Status(one_of(text.parse().ok()?, 500..=599)?),
            Self::Challenge(_) => Self::Challenge(one_of(text.parse().ok()?, [200, 403, 429])?),
            Self::Drip(_) => {
                Self::Drip(duration(text).filter(|time| !time.is_zero() && *time <= MAX_HOLD)?)
            }
            Self::HugeHeaders(_) => Self::HugeHeaders(size(text, MAX_HEADERS)?),
            Self::HugeBody(_) => Self::HugeBody(size(text, MAX_BODY)?),
            _ => return None,
        })
    }
}

fn one_of(status: u16, known: impl IntoIterator<Item = u16>) -> Option<u16> {
    known.into_iter().find(|known| *known == status)
}

/// Read a number of bytes from 1k to `most`, with `k`, `m` and `g` for powers of 1024.
fn size(text: &str, most: u64) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let units = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];
    let (letter, bytes) = units
        .into_iter()
        .find(|(letter, _)| text.ends_with(*letter))
        .unwrap_or((' ', 1));
    let digits = text.trim_end_matches(letter);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let size = digits
        .parse::<u64>()
        .ok()
        .filter(|_| is_plain)?
        .checked_mul(bytes)?;
    (1 << 10..=most).contains(&size).then_some(size)
}

/// By how much the shares may exceed 1 together: ten tenths do, as they are rounded.
const ROUNDING: f64 = 1e-9;

/// Faults and their shares. The default is none.
///
/// The faults exclude each other: one draw decides for all of them, so that each is as frequent as
/// asked. Written as a list of `KIND:SHARE` or `KIND:SHARE:PARAMETER`, as in
/// `error:0.01:503,reset:0.005`; `none` for none. Their order does not matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// One of each kind at most, in the order of their index: what is drawn must not depend on how
    /// it was written.
    shares: Vec<FaultShare>,
}

#[derive(Clone, Debug, PartialEq)]
struct FaultShare {
    fault: Fault,
    of_items: f64,
    text: String,
}

/// The name of a kind as it is typed.
fn typed(name: &str) -> String {
    name.replace('_', "-")
}

impl FaultShare {
    fn read(text: &str) -> Result<Self, SettingError> {
        let mut parts = text.split(':').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let Some((_, usual, parameter)) = KINDS.iter().find(|row| typed(row.0) == kind) else {
            let kinds = KINDS.map(|row| typed(row.0)).join(", ");
            let right = format!(
                "KIND:SHARE or KIND:SHARE:PARAMETER, as in error:0.01:503 for 1 %, with one of {kinds}"
            );
            return Err(SettingError::new(text, "fault", right));
        };
        let found = match (parts.next().and_then(share), parts.next(), parts.next()) {
            (Some(share), None, None) => Some((*usual, share)),
            (Some(share), Some(text), None) => usual.with(text).map(|fault| (fault, share)),
            _ => None,
        };
        let (fault, share) = found.ok_or_else(|| {
            let right = format!(
                "{kind}:SHARE{parameter} with a share of 0 to 1, as in {kind}:0.05 for 5 %"
            );
            SettingError::new(text, "fault", right)
        })?;
        Ok(Self {
            fault,
            of_items: share,
            text: text.to_owned(),
        })
    }
}

impl Faults {
    /// True if there are no faults.
    pub fn is_none(&self) -> bool {
        self.shares.is_empty()
    }

    fn with(mut self, share: FaultShare) -> Result<Self, SettingError> {
        let index = share.fault.index();
        let at = self
            .shares
            .partition_point(|other| other.fault.index() < index);
        if let Some(other) = self
            .shares
            .get(at)
            .filter(|other| other.fault.index() == index)
        {
            let (given, right) = (
                &share.text,
                format!("each kind once: there is {} already", other.text),
            );
            return Err(SettingError::new(given, "second fault of its kind", right));
        }
        self.shares.insert(at, share);
        let sum: f64 = self.shares.iter().map(|share| share.of_items).sum();
        if sum > 1.0 + ROUNDING {
            return Err(SettingError::new(
                &sum,
                "sum of the shares of faults",
                "1 at most",
            ));
        }
        Ok(self)
    }

    /// True if small writes are held back until those before them are acknowledged.
    pub(crate) fn delay_writes(&self) -> bool {
        self.shares().any(|(fault, _)| fault == Fault::Nagle)
    }

    /// Both together.
    ///
    /// # Errors
    ///
    /// Both have faults of one kind, or all shares together exceed 1.
    pub fn and(self, others: &Self) -> Result<Self, SettingError> {
        others.shares.iter().cloned().try_fold(self, Self::with)
    }

    /// Return each fault with its share of items.
    pub fn shares(&self) -> impl Iterator<Item = (Fault, f64)> {
        self.shares
            .iter()
            .map(|share| (share.fault, share.of_items))
    }

    /// Return the fault of item `id`, if any, after `attempt` requests for it, `0..=15`, 15 for
    /// more.
    pub fn pick(&self, seed: u64, id: u64, attempt: u8) -> Option<Fault> {
        if self.is_none() {
            return None;
        }
        // One draw decides for all faults: they exclude each other, and each is exactly as frequent
        // as asked.
        let unit = Draws::for_attempt(Stream::Fault, seed, id, attempt).unit();
        let mut below = 0.0;
        self.shares().find_map(|(fault, share)| {
            below += share;
            (unit < below).then_some(fault)
        })
    }

    /// Bits for what a fault is filled with, as pure as the pick.
    pub(crate) fn noise(seed: u64, id: u64, attempt: u8) -> Draws {
        let mut draws = Draws::for_attempt(Stream::Fault, seed, id, attempt);
        // The first word has decided the fault.
        draws.word();
        draws
    }
}

impl FromStr for Faults {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        if given.trim() == "none" {
            return Ok(Self::default());
        }
        given
            .split(',')
            .map(|text| FaultShare::read(text.trim()))
            .try_fold(Self::default(), |all, share| all.with(share?))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let texts: Vec<&str> = self.shares.iter().map(|share| &*share.text).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn faults(text: &str) -> Faults {
        text.parse().unwrap()
    }

    #[test]
    fn parameters_have_defaults_and_faults_a_canonical_order() {
        for (given, expected) in [
            ("none", vec![]),
            ("drop:0", vec![(Fault::Drop, 0.0)]),
            (
                " reset:0.005, error:0.01:503",
                vec![(Fault::Status(503), 0.01), (Fault::Reset, 0.005)],
            ),
            (
                "drip:0.1:1500ms,challenge:0.5",
                vec![
                    (Fault::Drip(Duration::from_millis(1500)), 0.1),
                    (Fault::Challenge(403), 0.5),
                ],
            ),
            (
                "huge-body:0.5:2G,huge-headers:1e-3:65536",
                vec![
                    (Fault::HugeHeaders(65_536), 0.001),
                    (Fault::HugeBody(2 << 30), 0.5),
                ],
            ),
        ] {
            assert_eq!(
                faults(given).shares().collect::<Vec<_>>(),
                expected,
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for given in [
            "",
            "drop",
            "none,drop:0.1",
            "explode:0.1",
            "huge_body:0.1",
            "drop:2",
            "drop:5%",
            "reset:0.1:503",
            "error:0.1:200",
            "drip:0.1:0",
            "huge-headers:0.1:17m",
            "huge-body:0.1:+5",
            "drop:0.1,reset:0.1,drop:0.1",
            "drop:0.6,reset:0.5",
        ] {
            assert!(given.parse::<Faults>().is_err(), "{given}");
        }
        // In floating point, 0.1 + 0.2 + 0.7 is not 1.
        assert!("drop:0.1,reset:0.2,close:0.7".parse::<Faults>().is_ok());
        assert!(faults("drop:0.6").and(&faults("drop:0.1")).is_err());
    }

    #[test]
    fn picks_are_those_of_recorded_runs_and_none_and_always_are_exact() {
        let some = faults("drop:0.1,error:0.2");
        let picked: Vec<_> = (0..40)
            .filter_map(|id| Some((id, some.pick(1, id, 0)?.name())))
            .collect();
        assert_eq!(picked, PICKED);
        for id in 0..1000 {
            let picks = ["none", "drop:0", "drop:1"].map(|text| faults(text).pick(1, id, 0));
            assert_eq!(picks, [None, None, Some(Fault::Drop)]);
        }
    }

    const PICKED: [(u64, &str); 9] = [
        (2, "error"),
        (13, "error"),
        (24, "error"),
        (28, "error"),
        (30, "drop"),
        (33, "drop"),
        (34, "error"),
        (36, "error"),
        (39, "error"),
    ];

    proptest! {
        #[test]
        fn picks_are_pure_exclusive_and_as_frequent_as_asked(
            seed: u64, attempt in 0_u8..16, parts in proptest::collection::vec(0.0..1.0_f64, KINDS.len() + 1),
        ) {
            // The last part is that of good answers.
            let sum: f64 = parts.iter().sum();
            let texts: Vec<_> = KINDS.iter().zip(&parts)
                .map(|(row, part)| format!("{}:{}", row.0.replace('_', "-"), part / sum)).collect();
            let all = faults(&texts.join(","));
            prop_assert_eq!(&faults(&texts.iter().rev().cloned().collect::<Vec<_>>().join(",")), &all);
            prop_assert_eq!(&faults(&all.to_string()), &all);
            let picks: Vec<_> = (0..2000).map(|id| all.pick(seed, id, attempt)).collect();
            for (fault, share) in all.shares() {
                let count = picks.iter().filter(|pick| **pick == Some(fault)).count() as f64;
                // Standard deviation at most 22: six of them either way.
                prop_assert!((count - 2000.0 * share).abs() < 135.0, "{:?}: {} of {}", fault, count, share);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "([a-z-]{0,8}[:,.0-9a-z]{0,12}){0,3}") {
            if let Ok(faults) = text.parse::<Faults>() {
                prop_assert_eq!(faults.to_string().parse(), Ok(faults));
            }
        }
    }
}
