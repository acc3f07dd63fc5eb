//! Faults as text and back: the grammar of [`Faults`].
//!
//! It must not decide which parameters make sense; `fault` does.

use super::{Fault, Faults};
use crate::setting::{SettingError, duration_text, parse_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Text for no faults.
const NONE: &str = "none";

/// Parameter of a kind of fault beside its share, and the value unless given.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// None.
    Plain(Fault),
    /// A status.
    Status(fn(u16) -> Fault, u16),
    /// A time.
    Time(fn(Duration) -> Fault, Duration),
    /// A number of bytes.
    Size(fn(u64) -> Fault, u64),
}

/// All kinds of faults, by [`Fault::index`]: key in the ledger, and parameter.
pub(crate) const KINDS: [(&str, Shape); 15] = [
    ("drop", Shape::Plain(Fault::Drop)),
    ("error", Shape::Status(Fault::Status, 500)),
    ("reset", Shape::Plain(Fault::Reset)),
    ("malformed_chunk", Shape::Plain(Fault::MalformedChunk)),
    ("garbage", Shape::Plain(Fault::Garbage)),
    ("truncated", Shape::Plain(Fault::Truncated)),
    ("drip", Shape::Time(Fault::Drip, Duration::from_secs(1))),
    ("silence", Shape::Plain(Fault::Silence)),
    ("redirect", Shape::Plain(Fault::Redirect)),
    ("close", Shape::Plain(Fault::Close)),
    ("challenge", Shape::Status(Fault::Challenge, 403)),
    ("huge_headers", Shape::Size(Fault::HugeHeaders, 64 << 10)),
    ("huge_body", Shape::Size(Fault::HugeBody, 8 << 20)),
    ("short_length", Shape::Plain(Fault::ShortLength)),
    ("long_length", Shape::Plain(Fault::LongLength)),
];

/// Format a kind of fault as it is typed, by [`Fault::index`].
pub(super) fn kind(index: usize) -> String {
    KINDS[index].0.replace('_', "-")
}

pub(super) fn wrong_rate(given: &str) -> SettingError {
    let right = "write a number from 0 to 1, as in 0.05 for 5 %";
    SettingError::new(format!(
        "`{given}` is not a valid share of requests: {right}"
    ))
}

/// Says what is wrong with the parameter of `fault`, and what would be right.
pub(super) fn wrong_parameter(fault: Fault) -> SettingError {
    wrong(fault.index(), &parameter(fault).unwrap_or_default())
}

fn wrong(index: usize, given: &str) -> SettingError {
    let kind = kind(index);
    let (parameter, right) = match KINDS[index].1 {
        Shape::Status(_, 500) => ("status", "a server error from 500 to 599"),
        Shape::Status(..) => ("status", "200, 403 or 429"),
        Shape::Time(..) => ("time", "a time above 0 and up to 1h, as in 2s or 500ms"),
        Shape::Size(_, size) if size < 1 << 20 => {
            ("size", "a number of bytes from 1k to 16m, as in 64k")
        }
        Shape::Size(..) => ("size", "a number of bytes from 1k to 16g, as in 8m"),
        Shape::Plain(_) => {
            let right = format!("write {kind}:SHARE");
            return SettingError::new(format!(
                "the fault `{kind}` has no parameter, and `{given}` was given: {right}"
            ));
        }
    };
    SettingError::new(format!(
        "`{given}` is not a valid {parameter} of the fault `{kind}`: write {right}"
    ))
}

/// The parameter as it is written.
fn parameter(fault: Fault) -> Option<String> {
    match fault {
        Fault::Status(status) | Fault::Challenge(status) => Some(status.to_string()),
        Fault::Drip(time) => Some(duration_text(time)),
        Fault::HugeHeaders(bytes) | Fault::HugeBody(bytes) => Some(size_text(bytes)),
        _ => None,
    }
}

/// The fault of the kind at `index` with a parameter as it was written.
fn read(index: usize, given: &str) -> Result<Fault, SettingError> {
    let wrong = || wrong(index, given);
    let fault = match KINDS[index].1 {
        Shape::Plain(_) => return Err(wrong()),
        Shape::Status(of, _) => of(given.parse().map_err(|_| wrong())?),
        Shape::Time(of, _) => of(parse_duration(given).ok_or_else(wrong)?),
        Shape::Size(of, _) => of(size(given).ok_or_else(wrong)?),
    };
    fault.checked().map_err(|_| wrong())
}

/// Units of sizes, the greatest first: powers of two.
const UNITS: [(char, u64); 3] = [('g', 1 << 30), ('m', 1 << 20), ('k', 1 << 10)];

/// Reads `500`, `64k`, `8m` or `1g`.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(letter, unit)| {
            Some((
                text.strip_suffix([*letter, letter.to_ascii_uppercase()])?,
                *unit,
            ))
        })
        .unwrap_or((text, 1));
    // `parse` alone would accept a plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn size_text(bytes: u64) -> String {
    match UNITS
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit))
    {
        Some((letter, unit)) => format!("{}{letter}", bytes / unit),
        None => bytes.to_string(),
    }
}

impl FromStr for Faults {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        if given.trim() == NONE {
            return Ok(Self::none());
        }
        given.split(',').try_fold(Self::none(), |all, one| {
            let one = one.trim();
            let (named, rest) = one.split_once(':').ok_or_else(|| {
                let right =
                    "write KIND:SHARE or KIND:SHARE:PARAMETER, as in error:0.01:503 for 1 %";
                SettingError::new(format!("`{one}` is not a valid fault: {right}"))
            })?;
            let index = (0..KINDS.len())
                .find(|index| kind(*index) == named)
                .ok_or_else(|| {
                    let kinds: Vec<String> = (0..KINDS.len()).map(kind).collect();
                    SettingError::new(format!(
                        "`{named}` is not a valid kind of fault: write one of {}",
                        kinds.join(", ")
                    ))
                })?;
            let (share, fault) = match rest.split_once(':') {
                Some((share, parameter)) => (share.parse()?, read(index, parameter)?),
                None => (rest.parse()?, KINDS[index].1.default_fault()),
            };
            all.with(fault, share)
        })
    }
}

impl Shape {
    /// Return the fault with its parameter unless given.
    pub(super) fn default_fault(self) -> Fault {
        match self {
            Self::Plain(fault) => fault,
            Self::Status(of, status) => of(status),
            Self::Time(of, time) => of(time),
            Self::Size(of, bytes) => of(bytes),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shares().map(|(fault, rate)| {
            let parameter =
                parameter(fault).map_or_else(String::new, |parameter| format!(":{parameter}"));
            format!("{}:{rate}{parameter}", kind(fault.index()))
        });
        f.write_str(
            if self.is_none() {
                NONE.to_owned()
            } else {
                shares.collect::<Vec<_>>().join(",")
            }
            .as_str(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rate;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_kind_is_that_of_its_shape() {
        for (index, shape) in KINDS.map(|(_, shape)| shape).into_iter().enumerate() {
            assert_eq!(shape.default_fault().index(), index);
            assert!(shape.default_fault().checked().is_ok());
        }
    }

    #[test]
    fn parameters_have_defaults_and_faults_a_canonical_order() {
        for (given, written) in [
            ("none", "none"),
            (" none ", "none"),
            ("drop:0", "drop:0"),
            ("error:0.01", "error:0.01:500"),
            ("reset:0.005,error:0.01:503", "error:0.01:503,reset:0.005"),
            ("drip:1", "drip:1:1s"),
            ("drip:0.1:1500ms", "drip:0.1:1s500ms"),
            (
                "challenge:0.5, huge-body:0.25",
                "challenge:0.5:403,huge-body:0.25:8m",
            ),
            ("huge-headers:1e-3:65536", "huge-headers:0.001:64k"),
            ("huge-headers:0.5:100000", "huge-headers:0.5:100000"),
            ("huge-body:0.5:2G", "huge-body:0.5:2g"),
        ] {
            assert_eq!(
                given.parse::<Faults>().unwrap().to_string(),
                written,
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            (
                "",
                "`` is not a valid fault: write KIND:SHARE or KIND:SHARE:PARAMETER",
            ),
            ("drop", "`drop` is not a valid fault"),
            ("drop:0.1,", "`` is not a valid fault"),
            ("none,drop:0.1", "`none` is not a valid fault"),
            (
                "explode:0.1",
                "`explode` is not a valid kind of fault: write one of drop, error, reset, malformed-chunk, garbage",
            ),
            ("huge_body:0.1", "`huge_body` is not a valid kind of fault"),
            (
                "drop:2",
                "`2` is not a valid share of requests: write a number from 0 to 1",
            ),
            ("drop:-0.1", "`-0.1` is not a valid share"),
            ("drop:NaN", "`NaN` is not a valid share"),
            ("drop:5%", "`5%` is not a valid share"),
            ("drop:", "`` is not a valid share"),
            (
                "drop:0.1:",
                "the fault `drop` has no parameter, and `` was given: write drop:SHARE",
            ),
            (
                "reset:0.1:503",
                "the fault `reset` has no parameter, and `503` was given",
            ),
            (
                "error:0.1:200",
                "`200` is not a valid status of the fault `error`: write a server error from 500 to 599",
            ),
            (
                "error:0.1:many",
                "`many` is not a valid status of the fault `error`",
            ),
            (
                "challenge:0.1:503",
                "`503` is not a valid status of the fault `challenge`: write 200, 403 or 429",
            ),
            (
                "drip:0.1:0",
                "`0` is not a valid time of the fault `drip`: write a time above 0 and up to 1h",
            ),
            ("drip:0.1:2h", "`2h` is not a valid time"),
            ("drip:0.1:slow", "`slow` is not a valid time"),
            (
                "huge-headers:0.1:17m",
                "`17m` is not a valid size of the fault `huge-headers`: write a number of bytes from 1k",
            ),
            (
                "huge-body:0.1:+5",
                "`+5` is not a valid size of the fault `huge-body`",
            ),
            (
                "huge-body:0.1:99999999999999g",
                "`99999999999999g` is not a valid size",
            ),
            ("huge-body:0.1:", "`` is not a valid size"),
            (
                "drop:0.1,reset:0.1,drop:0.1",
                "the fault `drop` is given twice",
            ),
            (
                "drop:0.6,reset:0.5",
                "the shares of the faults add up to 1.1, more than all requests",
            ),
        ] {
            let error = given.parse::<Faults>().map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|error| error.contains(said)),
                "{given}: {error:?}"
            );
        }
    }

    fn any_fault() -> impl Strategy<Value = Fault> {
        prop_oneof![
            (0..KINDS.len()).prop_map(|index| KINDS[index].1.default_fault()),
            (500_u16..600).prop_map(Fault::Status),
            prop_oneof![Just(200), Just(403), Just(429)].prop_map(Fault::Challenge),
            (1_u64..3_600_000_000_000).prop_map(|nanos| Fault::Drip(Duration::from_nanos(nanos))),
            (1_u64 << 10..=16 << 20).prop_map(Fault::HugeHeaders),
            (1_u64 << 10..=16 << 30).prop_map(Fault::HugeBody),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            wanted in proptest::collection::vec((any_fault(), 0.0..0.1_f64), 0..10), tiny in 0.0..1e-9_f64,
        ) {
            let mut faults = Faults::none();
            for (fault, share) in wanted {
                // Kinds that are there already are left out.
                faults = faults.clone().with(fault, Rate::new(share * tiny.max(share)).unwrap()).unwrap_or(faults);
            }
            prop_assert_eq!(faults.to_string().parse(), Ok(faults));
        }

        #[test]
        fn no_text_makes_it_panic(text in "([a-z-]{0,8}[:,.0-9a-z]{0,12}){0,3}") {
            if let Ok(faults) = text.parse::<Faults>() {
                prop_assert_eq!(faults.to_string().parse(), Ok(faults));
            }
        }
    }
}
