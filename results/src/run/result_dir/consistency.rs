//! Laws that tie the numbers of a saved report to each other. A result whose numbers disagree was edited or damaged after the run,
//! and whatever is said about it would be false.
//!
//! [`read`](super::read()) calls it after the [bounds](super::foreign). A law holds for every run that this program saves, of a
//! shard that died and of an older version, too: what such a one does not know is not checked. Numbers that no law ties
//! to others (a byte more in a resident set) can be edited without a trace; a test lists them.

mod counts;
mod judged;
mod rates;
mod times;

use std::fmt::Display;

use crate::run::report::{Report, ShardReport};

/// Relative difference of two figures that were computed from the same numbers in another order.
const ROUNDING: f64 = 1e-9;

/// Checks every law.
///
/// # Errors
/// Names the first field that disagrees, both numbers, and where the other one comes from.
pub(super) fn check(report: &Report) -> Result<(), String> {
    judged::calendar(report)?;
    counts::check(report)?;
    times::check(report)?;
    rates::check(report)?;
    judged::check(report)
}

/// A report that says that parts are missing, or do not add up, is read with that verdict.
fn is_whole(report: &Report) -> bool {
    report.shards.iter().all(ShardReport::is_whole)
}

/// True if the report is of a version that counts each attempt in the second in which it ended, and rates until the last one.
fn counts_until_the_end(report: &Report) -> bool {
    report.totals.ok_per_s.is_some()
}

fn disagree<T: Display>(field: impl Display, is: T, other: &str, wanted: T) -> Result<(), String> {
    Err(format!("`{field}` is {is}, but {other} is {wanted}"))
}

/// Requires two values to be equal; `other` says where the second one comes from.
fn equal<T: Display + PartialEq>(field: impl Display, is: T, other: &str, wanted: T) -> Result<(), String> {
    if is == wanted { Ok(()) } else { disagree(field, is, other, wanted) }
}

/// Requires two figures to be equal but for rounding.
fn close(field: impl Display, is: f64, other: &str, wanted: f64) -> Result<(), String> {
    close_to(ROUNDING, field, is, other, wanted)
}

/// Requires two figures to differ by no more than a part of the greater one.
fn close_to(part: f64, field: impl Display, is: f64, other: &str, wanted: f64) -> Result<(), String> {
    let is_close = (is - wanted).abs() <= part * is.abs().max(wanted.abs());
    if is_close { Ok(()) } else { disagree(field, is, other, wanted) }
}

/// Requires a value to be no greater than another one.
fn at_most<T: Display + PartialOrd + Copy>(field: impl Display, is: T, other: &str, most: T) -> Result<(), String> {
    if is <= most { Ok(()) } else { Err(format!("`{field}` is {is}, more than {other}, which is {most}")) }
}
