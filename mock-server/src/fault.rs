//! Faults of responses: their kinds and shares. The server calls [`Faults::pick`] for every
//! admitted item, and a client may call it to know which fault it should have seen.
//!
//! It must not act on what it picks, and a pick must stay a pure function of (seed, id, attempt): a
//! retry of an item may succeed, and is as predictable.

mod text;

use crate::draw::{Draws, Stream};
use crate::latency::MAX_HOLD;
use crate::setting::SettingError;
use std::fmt;
use std::mem::discriminant;
use std::str::FromStr;
use std::time::Duration;
pub(crate) use text::KINDS;
use text::Shape;

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
}

impl Fault {
    /// Position of the fault's counter in the ledger, and of its share among the others'.
    pub(crate) fn index(self) -> usize {
        let is_kind = |(_, shape): &(&str, Shape)| {
            discriminant(&shape.default_fault()) == discriminant(&self)
        };
        KINDS.iter().position(is_kind).unwrap_or_default()
    }

    /// Return the fault's key in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS[self.index()].0
    }

    /// Check the bounds of the parameter.
    fn checked(self) -> Result<Self, SettingError> {
        let fits = match self {
            Self::Status(status) => (500..=599).contains(&status),
            Self::Challenge(status) => matches!(status, 200 | 403 | 429),
            Self::Drip(time) => !time.is_zero() && time <= MAX_HOLD,
            Self::HugeHeaders(bytes) => (1 << 10..=MAX_HEADERS).contains(&bytes),
            Self::HugeBody(bytes) => (1 << 10..=MAX_BODY).contains(&bytes),
            _ => true,
        };
        if fits {
            Ok(self)
        } else {
            Err(text::wrong_parameter(self))
        }
    }
}

/// The most that a header is filled up to: more than any client reads.
const MAX_HEADERS: u64 = 16 << 20;

/// The most that a body is filled up to.
const MAX_BODY: u64 = 16 << 30;

/// A share of requests, `0.0..=1.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Takes a share of 0 to 1.
    ///
    /// # Errors
    ///
    /// The share is outside `0.0..=1.0` or not a number.
    pub fn new(share: f64) -> Result<Self, SettingError> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(text::wrong_rate(&share.to_string()))
        }
    }

    /// The share, `0.0..=1.0`.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        given
            .trim()
            .parse()
            .ok()
            .and_then(|share| Self::new(share).ok())
            .ok_or_else(|| text::wrong_rate(given))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// By how much the shares may exceed 1 together: ten tenths do, as they are rounded.
const ROUNDING: f64 = 1e-9;

/// Faults and their shares. The default is none.
///
/// The faults exclude each other: one draw decides for all of them, so that each is as frequent as
/// asked. Written as a list of `KIND:SHARE` or `KIND:SHARE:PARAMETER`, as in
/// `error:0.01:503,reset:0.005`; `none` for none. Their order does not matter.
///
/// ```
/// use crawlmark_mock_server::{Fault, Faults, Rate};
///
/// let faults = Faults::none().with(Fault::Reset, Rate::new(0.005)?)?.with(Fault::Status(503), Rate::new(0.01)?)?;
/// assert_eq!("error:0.01:503,reset:0.005".parse(), Ok(faults));
/// # Ok::<(), crawlmark_mock_server::SettingError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// One of each kind at most, in the order of their index: what is drawn must not depend on how
    /// it was written.
    shares: Vec<(Fault, Rate)>,
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// True if there are no faults.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.shares.is_empty()
    }

    /// Add `fault` for `rate` of the items.
    ///
    /// # Errors
    ///
    /// The fault's parameter is out of bounds, there is a fault of its kind already, or all rates
    /// together exceed 1.
    pub fn with(mut self, fault: Fault, rate: Rate) -> Result<Self, SettingError> {
        let fault = fault.checked()?;
        let at = self
            .shares
            .partition_point(|(other, _)| other.index() < fault.index());
        if self
            .shares
            .get(at)
            .is_some_and(|(other, _)| other.index() == fault.index())
        {
            let kind = text::kind(fault.index());
            return Err(SettingError::new(format!(
                "the fault `{kind}` is given twice: write each kind once"
            )));
        }
        self.shares.insert(at, (fault, rate));
        let sum: f64 = self.shares.iter().map(|(_, rate)| rate.0).sum();
        if sum <= 1.0 + ROUNDING {
            return Ok(self);
        }
        let what = format!(
            "the shares of the faults add up to {sum}, more than all requests: their sum is 1 at most"
        );
        Err(SettingError::new(what))
    }

    /// Both together.
    ///
    /// # Errors
    ///
    /// As [`Faults::with`].
    pub fn and(self, others: &Self) -> Result<Self, SettingError> {
        others
            .shares
            .iter()
            .try_fold(self, |all, (fault, rate)| all.with(*fault, *rate))
    }

    /// Return each fault with its share of items.
    pub fn shares(&self) -> impl Iterator<Item = (Fault, Rate)> {
        self.shares.iter().copied()
    }

    /// Return the fault of item `id`, if any, after `attempt` requests for it, `0..=15`, 15 for
    /// more.
    #[must_use]
    pub fn pick(&self, seed: u64, id: u64, attempt: u8) -> Option<Fault> {
        if self.is_none() {
            return None;
        }
        // One draw decides for all faults: they exclude each other, and each is exactly as frequent
        // as asked.
        let unit = Draws::for_attempt(Stream::Fault, seed, id, attempt).unit();
        let mut below = 0.0;
        self.shares.iter().find_map(|(fault, rate)| {
            below += rate.0;
            (unit < below).then_some(*fault)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(share: f64) -> Rate {
        Rate::new(share).unwrap()
    }

    /// One of each kind, with parameters that are not the default.
    pub(crate) const ALL: [Fault; KINDS.len()] = [
        Fault::Drop,
        Fault::Status(502),
        Fault::Reset,
        Fault::MalformedChunk,
        Fault::Garbage,
        Fault::Truncated,
        Fault::Drip(Duration::from_millis(1500)),
        Fault::Silence,
        Fault::Redirect,
        Fault::Close,
        Fault::Challenge(429),
        Fault::HugeHeaders(100_000),
        Fault::HugeBody(3 << 20),
        Fault::ShortLength,
        Fault::LongLength,
    ];

    #[test]
    fn every_kind_has_a_place_and_a_name_of_its_own() {
        for (index, fault) in ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), index, "{fault:?}");
        }
        let mut names = KINDS.map(|(name, _)| name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(
            (Fault::Status(503).name(), Fault::HugeBody(0).name()),
            ("error", "huge_body")
        );
    }

    #[test]
    fn bounds_and_sums_are_checked() {
        for fault in [
            Fault::Status(499),
            Fault::Status(600),
            Fault::Challenge(500),
            Fault::Drip(Duration::ZERO),
            Fault::Drip(MAX_HOLD + Duration::from_nanos(1)),
            Fault::HugeHeaders(1023),
            Fault::HugeHeaders(MAX_HEADERS + 1),
            Fault::HugeBody(0),
            Fault::HugeBody(MAX_BODY + 1),
        ] {
            let error = Faults::none().with(fault, rate(0.1));
            assert!(
                error.is_err_and(|error| error.to_string().contains("of the fault")),
                "{fault:?}"
            );
        }
        let drops = Faults::none().with(Fault::Drop, rate(0.6)).unwrap();
        assert!(drops.clone().with(Fault::Reset, rate(0.5)).is_err());
        assert!(drops.clone().with(Fault::Drop, rate(0.1)).is_err());
        assert!(drops.with(Fault::Reset, rate(0.4)).is_ok());
        // In floating point, 0.1 + 0.2 + 0.7 is not 1.
        let shares = [(Fault::Drop, 0.1), (Fault::Reset, 0.2), (Fault::Close, 0.7)];
        assert!(
            shares
                .into_iter()
                .try_fold(Faults::none(), |all, (fault, share)| all
                    .with(fault, rate(share)))
                .is_ok()
        );
    }

    #[test]
    fn none_and_always_are_exact() {
        let never = Faults::none();
        let always = Faults::none().with(Fault::Drop, rate(1.0)).unwrap();
        let not_once = Faults::none().with(Fault::Drop, rate(0.0)).unwrap();
        for id in 0..1000 {
            assert_eq!(never.pick(1, id, 0), None);
            assert_eq!(not_once.pick(1, id, 0), None);
            assert_eq!(always.pick(1, id, 0), Some(Fault::Drop));
        }
    }

    #[test]
    fn picks_are_those_of_recorded_runs() {
        let faults: Faults = "drop:0.1,error:0.2".parse().unwrap();
        let picked: Vec<_> = (0..40)
            .filter_map(|id| Some((id, faults.pick(1, id, 0)?.name())))
            .collect();
        assert_eq!(picked, PICKED);
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
            let shares: Vec<_> = ALL.into_iter().zip(parts.iter().map(|part| part / sum)).collect();
            let with = |all: Faults, (fault, share): &(Fault, f64)| all.with(*fault, rate(*share));
            let faults = shares.iter().try_fold(Faults::none(), with).unwrap();
            let backwards = shares.iter().rev().try_fold(Faults::none(), with).unwrap();
            let picks: Vec<_> = (0..2000).map(|id| faults.pick(seed, id, attempt)).collect();
            prop_assert_eq!(&picks, &(0..2000).map(|id| backwards.pick(seed, id, attempt)).collect::<Vec<_>>());
            for (fault, share) in shares {
                let count = picks.iter().filter(|pick| **pick == Some(fault)).count() as f64;
                // Standard deviation at most 22: six of them either way.
                prop_assert!((count - 2000.0 * share).abs() < 135.0, "{:?}: {} of {}", fault, count, share);
            }
        }
    }
}
