//! Faults as text and back: the grammar of [`Faults`].
//!
//! It must not decide which parameters make sense; `fault` does.

use super::{Fault, FaultError, Faults};
use crate::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is written for no faults.
const NONE: &str = "none";

/// What a kind of fault takes beside its share, and what that is unless given.
#[derive(Clone, Copy)]
enum Shape {
    /// Nothing.
    Plain(Fault),
    /// A status.
    Status(fn(u16) -> Fault, u16),
    /// A time.
    Time(fn(Duration) -> Fault, Duration),
    /// A number of bytes.
    Size(fn(u64) -> Fault, u64),
}

/// By [`Fault::index`].
const SHAPES: [Shape; Fault::KINDS] = [
    Shape::Plain(Fault::Drop),
    Shape::Status(Fault::Status, 500),
    Shape::Plain(Fault::Reset),
    Shape::Plain(Fault::MalformedChunk),
    Shape::Plain(Fault::Garbage),
    Shape::Plain(Fault::Truncated),
    Shape::Time(Fault::Drip, Duration::from_secs(1)),
    Shape::Plain(Fault::Silence),
    Shape::Plain(Fault::Redirect),
    Shape::Plain(Fault::Close),
    Shape::Status(Fault::Challenge, 403),
    Shape::Size(Fault::HugeHeaders, 64 << 10),
    Shape::Size(Fault::HugeBody, 8 << 20),
    Shape::Plain(Fault::ShortLength),
    Shape::Plain(Fault::LongLength),
];

/// How a kind of fault is written, by [`Fault::index`].
pub(super) fn kind(index: usize) -> String {
    Fault::NAMES[index].replace('_', "-")
}

/// Says what is wrong with the parameter of `fault`, and what would be right.
pub(super) fn wrong_parameter(fault: Fault) -> FaultError {
    wrong(fault.index(), parameter(fault).unwrap_or_default())
}

fn wrong(index: usize, given: String) -> FaultError {
    let (parameter, right) = match SHAPES[index] {
        Shape::Status(_, 500) => ("status", "a server error from 500 to 599"),
        Shape::Status(..) => ("status", "200, 403 or 429"),
        Shape::Time(..) => ("time", "a time above 0 and up to 1h, as in 2s or 500ms"),
        Shape::Size(_, size) if size < 1 << 20 => ("size", "a number of bytes from 1k to 16m, as in 64k"),
        Shape::Size(..) => ("size", "a number of bytes from 1k to 16g, as in 8m"),
        Shape::Plain(_) => return FaultError::NoParameter { kind: kind(index), given },
    };
    FaultError::Parameter { kind: kind(index), given, parameter, right }
}

/// The parameter as it is written.
fn parameter(fault: Fault) -> Option<String> {
    match fault {
        Fault::Status(status) | Fault::Challenge(status) => Some(status.to_string()),
        Fault::Drip(time) => Some(duration::text(time)),
        Fault::HugeHeaders(bytes) | Fault::HugeBody(bytes) => Some(size_text(bytes)),
        _ => None,
    }
}

/// The fault of the kind at `index` with a parameter as it was written.
fn read(index: usize, given: &str) -> Result<Fault, FaultError> {
    let wrong = || wrong(index, given.to_owned());
    let fault = match SHAPES[index] {
        Shape::Plain(_) => return Err(wrong()),
        Shape::Status(of, _) => of(given.parse().map_err(|_| wrong())?),
        Shape::Time(of, _) => of(duration::parse(given).map_err(|_| wrong())?),
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
        .find_map(|(letter, unit)| Some((text.strip_suffix([*letter, letter.to_ascii_uppercase()])?, *unit)))
        .unwrap_or((text, 1));
    // `parse` alone would accept a plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn size_text(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((letter, unit)) => format!("{}{letter}", bytes / unit),
        None => bytes.to_string(),
    }
}

impl FromStr for Faults {
    type Err = FaultError;

    fn from_str(given: &str) -> Result<Self, FaultError> {
        if given.trim() == NONE {
            return Ok(Self::none());
        }
        given.split(',').try_fold(Self::none(), |all, one| {
            let one = one.trim();
            let (named, rest) = one.split_once(':').ok_or_else(|| FaultError::Shape { given: one.to_owned() })?;
            let index = (0..Fault::KINDS).find(|index| kind(*index) == named).ok_or_else(|| {
                let kinds: Vec<String> = (0..Fault::KINDS).map(kind).collect();
                FaultError::UnknownKind { given: named.to_owned(), kinds: kinds.join(", ") }
            })?;
            let (share, fault) = match rest.split_once(':') {
                Some((share, parameter)) => (share.parse()?, read(index, parameter)?),
                None => (rest.parse()?, SHAPES[index].unless_given()),
            };
            all.with(fault, share)
        })
    }
}

impl Shape {
    fn unless_given(self) -> Fault {
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
        for (i, (fault, rate)) in self.shares().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}:{rate}", kind(fault.index()))?;
            if let Some(parameter) = parameter(fault) {
                write!(f, ":{parameter}")?;
            }
        }
        if self.shares().next().is_none() { f.write_str(NONE) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rate;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_kind_is_that_of_its_shape() {
        for (index, shape) in SHAPES.into_iter().enumerate() {
            assert_eq!(shape.unless_given().index(), index);
            assert!(shape.unless_given().checked().is_ok());
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
            ("challenge:0.5, huge-body:0.25", "challenge:0.5:403,huge-body:0.25:8m"),
            ("huge-headers:1e-3:65536", "huge-headers:0.001:64k"),
            ("huge-headers:0.5:100000", "huge-headers:0.5:100000"),
            ("huge-body:0.5:2G", "huge-body:0.5:2g"),
        ] {
            assert_eq!(given.parse::<Faults>().unwrap().to_string(), written, "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            ("", "`` is no fault: write KIND:SHARE or KIND:SHARE:PARAMETER"),
            ("drop", "`drop` is no fault"),
            ("drop:0.1,", "`` is no fault"),
            ("none,drop:0.1", "`none` is no fault"),
            ("explode:0.1", "`explode` is no kind of fault: write one of drop, error, reset, malformed-chunk, garbage"),
            ("huge_body:0.1", "`huge_body` is no kind of fault"),
            ("drop:2", "`2` is no share of requests: write a number from 0 to 1"),
            ("drop:-0.1", "`-0.1` is no share"),
            ("drop:NaN", "`NaN` is no share"),
            ("drop:5%", "`5%` is no share"),
            ("drop:", "`` is no share"),
            ("drop:0.1:", "the fault `drop` has no parameter, and `` was given: write drop:SHARE"),
            ("reset:0.1:503", "the fault `reset` has no parameter, and `503` was given"),
            ("error:0.1:200", "`200` is no status of the fault `error`: write a server error from 500 to 599"),
            ("error:0.1:many", "`many` is no status of the fault `error`"),
            ("challenge:0.1:503", "`503` is no status of the fault `challenge`: write 200, 403 or 429"),
            ("drip:0.1:0", "`0` is no time of the fault `drip`: write a time above 0 and up to 1h"),
            ("drip:0.1:2h", "`2h` is no time"),
            ("drip:0.1:slow", "`slow` is no time"),
            ("huge-headers:0.1:17m", "`17m` is no size of the fault `huge-headers`: write a number of bytes from 1k"),
            ("huge-body:0.1:+5", "`+5` is no size of the fault `huge-body`"),
            ("huge-body:0.1:99999999999999g", "`99999999999999g` is no size"),
            ("huge-body:0.1:", "`` is no size"),
            ("drop:0.1,reset:0.1,drop:0.1", "the fault `drop` is given twice"),
            ("drop:0.6,reset:0.5", "the shares of the faults add up to 1.1, more than all requests"),
        ] {
            let error = given.parse::<Faults>().map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(said)), "{given}: {error:?}");
        }
    }

    fn any_fault() -> impl Strategy<Value = Fault> {
        prop_oneof![
            (0..Fault::KINDS).prop_map(|index| SHAPES[index].unless_given()),
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
